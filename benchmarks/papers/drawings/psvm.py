"""Figures of the pSVM paper [Sun]."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.papers.drawings import drawing_panels
from benchmarks.papers.result import Reproduction
from svmcvx.plot.style import class_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = ("published", "as_written", "as_released")


def exponents(found: Reproduction) -> Figure | None:
    """Draw accuracy (above) and share of support vectors (below) against p, a column a data set of
    Table 1.
    """
    frame = found.frame.dropna(subset=["as_written"])
    sets = list(dict.fromkeys(frame["dataset"]))
    if not sets:
        return None
    figure, panels = drawing_panels(2, len(sets), size=(2.6, 2.2), sharex=True)
    for name, column in zip(sets, panels.T, strict=True):
        rows = frame[frame["dataset"] == name].sort_values("p")
        for way, colour in zip(WAYS, class_colours(len(WAYS)), strict=True):
            style = {
                "color": colour,
                "label": way.replace("_", " "),
                "linewidth": 1.3,
                "markersize": 3.5,
            }
            column[0].plot(rows["p"], rows[way], "o-", **style)
            column[1].plot(rows["p"], rows[f"{way}_nsv"], "s--", **style)
        column[0].set_title(name, fontsize=10)
        column[1].set_xlabel("exponent p")
    panels[0, 0].set_ylabel("accuracy, per cent")
    panels[1, 0].set_ylabel("support vectors, per cent")
    panels[0, 0].legend(fontsize="x-small")
    return figure


def training(found: Reproduction) -> Figure | None:
    """Draw accuracies on the training rows and the test part, and the share of support vectors,
    against the share of the training part.
    """
    if not len(found.frame):
        return None
    columns = {
        "as_written_train": "training accuracy",
        "as_written": "test accuracy",
        "as_written_nsv": "support vectors",
    }
    figure, panels = drawing_panels(1, len(columns), size=(2.9, 2.4))
    exponents = found.frame["p"].unique()
    for (column, label), ax in zip(columns.items(), panels.flat, strict=True):
        for p, colour in zip(exponents, class_colours(len(exponents)), strict=True):
            rows = found.frame[found.frame["p"] == p]
            ax.plot(
                rows["train_size"],
                rows[column],
                "o-",
                color=colour,
                label=f"p = {p:.3g}",
                linewidth=1.2,
                markersize=3,
            )
        ax.set_xlabel("share of the training part")
        ax.set_ylabel(f"{label}, per cent")
    panels.flat[0].legend(fontsize="x-small", ncols=2)
    return figure
