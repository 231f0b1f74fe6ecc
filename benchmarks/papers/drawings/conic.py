"""Figures of the paper on the conic loss [CepedaGomezHan]."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.conic import HALF, METHODS
from benchmarks.papers.drawings import drawing_panels
from benchmarks.papers.result import Reproduction
from svmcvx.plot.style import class_colours

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

# Errors below this, in per cent, are drawn as this on a logarithmic axis.
SMALLEST = 0.1


def _trials(found: Reproduction) -> Any:
    trials: Any = found.study
    return trials.done()


def breakdowns(found: Reproduction) -> Figure | None:
    """Draw the distribution of the misclassification with clustered outliers and the least spread,
    a panel a size (Figure 2).
    """
    rows: pd.DataFrame = _trials(found)
    rows = rows[rows["outliers"].isin(("clustered", HALF)) & (rows["sigma"] == rows["sigma"].min())]
    sizes, kinds = sorted(set(rows["n"])), sorted(set(rows["outliers"]))
    if not sizes:
        return None
    figure, panels = drawing_panels(
        len(kinds), len(sizes), size=(2.6, 2.4), sharex=True, sharey=True
    )
    for kind, line in zip(kinds, panels, strict=True):
        for n, ax in zip(sizes, line, strict=True):
            part = rows[(rows["n"] == n) & (rows["outliers"] == kind)]
            for method, colour in zip(METHODS, class_colours(len(METHODS)), strict=True):
                errors = np.sort(100.0 * part[f"{method}_error"].to_numpy(dtype=np.float64)).clip(
                    min=SMALLEST
                )
                share = np.arange(1, errors.size + 1) / max(errors.size, 1)
                ax.step(
                    [*errors[:1], *errors],
                    [0.0, *share][: errors.size + 1],
                    where="post",
                    color=colour,
                    label=method,
                )
                ax.plot(errors, share, ".", color=colour)
            ax.set_title(f"n = {n}, {len(part)} runs", fontsize=9)
            ax.set_xscale("log")
            ax.grid(alpha=0.3)
        line[0].set_ylabel(f"{kind}:\nshare at or below", fontsize=9)
    for ax in panels[-1]:
        ax.set_xlabel("misclassified, per cent")
    panels[0, 0].legend(fontsize="small")
    return figure


def seconds(found: Reproduction) -> Figure | None:
    """Draw the seconds of the hundred problems against n, printed and ours, a panel a number of
    columns.
    """
    frame = found.frame.dropna(subset=["as_written"])
    columns = sorted(set(frame["p"]))
    if not columns:
        return None
    figure, panels = drawing_panels(1, len(columns), size=(2.6, 2.8), sharey=True)
    for p, ax in zip(columns, panels.flat, strict=True):
        for method, colour in zip(METHODS, class_colours(len(METHODS)), strict=True):
            rows = frame[(frame["p"] == p) & (frame["method"] == method)].sort_values("n")
            ax.plot(
                rows["n"],
                rows["published"],
                "o--",
                color=colour,
                markersize=4,
                label=f"{method}, published",
            )
            ax.plot(
                rows["n"],
                rows["as_written"],
                "s-",
                color=colour,
                markersize=4,
                label=f"{method}, here",
            )
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"p = {p}", fontsize=10)
        ax.set_xlabel("n")
        ax.grid(alpha=0.3)
    panels[0, 0].set_ylabel("seconds for 100 problems")
    panels[0, 0].legend(fontsize="x-small")
    return figure


def noise(found: Reproduction) -> Figure | None:
    """Draw the misclassification of all repetitions against the rate of flipped labels, a panel a
    data set if there are some.
    """
    rows: pd.DataFrame = _trials(found)
    if rows.empty:
        return None
    sets = list(dict.fromkeys(rows["dataset"])) if "dataset" in rows else [None]
    figure, panels = drawing_panels(1, len(sets), size=(2.7, 3.0))
    for name, ax in zip(sets, panels.flat, strict=True):
        part = rows if name is None else rows[rows["dataset"] == name]
        taus = sorted(set(part["tau"]))
        for side, method, colour in zip(
            (-0.17, 0.17), METHODS, class_colours(len(METHODS)), strict=True
        ):
            errors = [
                100.0 * part.loc[part["tau"] == tau, f"{method}_error"].to_numpy(dtype=np.float64)
                for tau in taus
            ]
            places = np.arange(len(taus)) + side
            boxes = ax.boxplot(
                errors, positions=places, widths=0.28, showmeans=True, manage_ticks=False
            )
            for part_of_box in (line for lines in boxes.values() for line in lines):
                part_of_box.set(color=colour, markeredgecolor=colour, markersize=4)
            ax.plot([], [], color=colour, label=method)
        ax.set_xticks(range(len(taus)), [f"{tau:g}" for tau in taus])
        ax.set_title(name or "all sizes", fontsize=10)
        ax.set_xlabel("rate of flipped labels τ")
    panels[0, 0].set_ylabel("misclassified, per cent")
    panels[0, 0].legend(fontsize="small")
    return figure
