"""Figures of the pSVM paper [Sun]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.preprocessing import LabelEncoder

from benchmarks.papers.drawings import drawing_panels
from benchmarks.papers.exhibits import psmo
from benchmarks.papers.psvm import EXPONENTS, MULTICLASS, SEED, TOL, Split
from benchmarks.papers.result import Reproduction
from svmcvx import fast
from svmcvx.datasets import load
from svmcvx.formulations.margin import dual_objective
from svmcvx.plot.style import class_colours
from svmcvx.theory import margin_loss

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WAYS = ("published", "as_written", "as_released")
# Changes of a multiplier, in its unit, at which the paper's iteration would stop.
STOPS = (1e-3, 1e-5)


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
    against the number of training rows.
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
                rows["n_train"],
                rows[column],
                "o-",
                color=colour,
                label=f"p = {p:.3g}",
                linewidth=1.2,
                markersize=3,
            )
        ax.set_xlabel("training rows")
        ax.set_ylabel(f"{label}, per cent")
    panels.flat[0].legend(fontsize="x-small", ncols=2)
    return figure


def losses(found: Reproduction) -> Figure:
    """Draw the margin loss for the exponents of Table 1 (Figure 1)."""
    figure, panels = drawing_panels(1, 1, size=(4.8, 3.2))
    ax, u = panels[0, 0], np.linspace(-0.5, 1.5, 401)
    for p, colour in zip(EXPONENTS.values(), class_colours(len(EXPONENTS)), strict=True):
        ax.plot(u, margin_loss(u, p=p), color=colour, label=f"p = {p:.3g}", linewidth=1.2)
    ax.set_xlabel("margin / ρ")
    ax.set_ylabel("margin loss")
    ax.legend(fontsize="x-small")
    return figure


def pair_steps(found: Reproduction) -> Figure | None:
    """Draw how far the dual objective of pSMO is from the certified optimum, for p = 2, the printed
    C and the first two classes of each set, and where a small change of α would end it (Figure 3,
    which has USPS, C = 0.25).
    """
    there = list(dict.fromkeys(found.frame.dropna(subset=["as_written"])["dataset"]))
    if found.run is None or not there:
        return None
    figure, panels = drawing_panels(1, len(there), size=(3.4, 2.8))
    for name, ax in zip(there, panels.flat, strict=True):
        source, costs = MULTICLASS[name]
        data = load(source, found.run.options["data_dir"])
        ((train, _),) = Split(0.2, stratify=False).parts(data.y, SEED)
        codes = LabelEncoder().fit_transform(data.y)[train]
        X, y = data.X[train][codes < 2], np.where(codes[codes < 2] == 1, 1.0, -1.0)
        optimum = fast.psvm(X, y, C=costs[2.0], p=2.0, tol=TOL).certificate.lower

        def distance(alpha, K=X @ X.T, y=y, C=costs[2.0], optimum=optimum):  # type: ignore[no-untyped-def]
            f = K @ (alpha * y)
            return (optimum - dual_objective(alpha, float((alpha * y) @ f), C=C, p=2.0)) / optimum

        runs = {eps: psmo(X @ X.T, y, C=costs[2.0], p=2.0, eps=eps, tol=TOL) for eps in (0, *STOPS)}
        line = [(steps, distance(alpha)) for alpha, steps, _ in runs.pop(0)]
        ax.plot(*zip(*line, strict=True), color="0.3", linewidth=1.2)
        for (eps, run), colour in zip(runs.items(), class_colours(len(runs)), strict=True):
            *_, (alpha, steps, _) = run
            ax.plot(steps, distance(alpha), "o", color=colour, label=f"change below {eps:g}")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(name, fontsize=10)
        ax.set_xlabel("pair steps")
    panels.flat[0].set_ylabel("relative distance to the optimum")
    panels.flat[0].legend(fontsize="x-small")
    return figure
