"""Figures of the paper on the l0-norm hinge [LinYaoLiu]; models and iterates are computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.papers.drawings import drawing_panels
from benchmarks.papers.l0 import CAP, SETTINGS, SIZES, TOLERANCE, kernel, shape, split, steps
from benchmarks.papers.result import Reproduction
from svmcvx import fast
from svmcvx.plot.models import decision_regions
from svmcvx.plot.style import class_colours

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Size of the data sets drawn, and their rates of flipped labels.
SIZE, NOISES = 500, (0.0, 0.10)
# Moments at which the residual is looked at.
MOMENTS = 40


def _shape_name(found: Reproduction) -> str:
    trials: Any = found.study
    return str(trials.frame["shape_name"].iloc[0])


def boundaries(found: Reproduction) -> Figure | None:
    """Draw the three machines on the training part of the first split, without and with flipped
    labels (Figures 5.1 and 5.2).
    """
    if found.study.frame.empty:
        return None
    figure, panels = drawing_panels(len(NOISES), 3, size=(3.2, 3.0))
    C = SETTINGS.C
    for noise, row in zip(NOISES, panels, strict=True):
        part = split(*shape(_shape_name(found), SIZE, noise, 0), 0)
        solutions = {
            "l0 (local minimum)": fast.l0(
                part.X, part.y, C=C, kernel=kernel(part.X), method="local"
            ),
            "l1": fast.psvm(part.X, part.y, C=C, p=1.0, kernel=kernel(part.X)),
            "l2": fast.psvm(part.X, part.y, C=C, p=2.0, kernel=kernel(part.X)),
        }
        for (name, solution), ax in zip(solutions.items(), row, strict=True):
            model: Any = solution.model
            right = np.mean(model.predict(part.X_test) == part.y_test)
            decision_regions(solution, part.X, part.y, ax=ax)
            ax.set_title(
                f"{name}, r = {noise:.0%}: {model.n_support} support vectors, {right:.1%}",
                fontsize=8,
            )
            ax.tick_params(labelsize=7)
            if (legend := ax.get_legend()) is not None:
                legend.remove()
    return figure


def convergence(found: Reproduction) -> Figure | None:
    """Draw the residual of proximal stationarity of the ADMM against its iterations, a line a rate
    of flipped labels.
    """
    if found.study.frame.empty:
        return None
    noises = [noise for m, noise in SIZES if m == SIZE]
    moments = np.unique(np.geomspace(1, CAP, MOMENTS).round().astype(int))
    figure, panels = drawing_panels(1, 1, size=(6.4, 4.2))
    ax = panels[0, 0]
    for noise, colour in zip(noises, class_colours(len(noises)), strict=True):
        part = split(*shape(_shape_name(found), SIZE, noise, 0), 0)
        # The iteration depends on its iterate alone, which is not stored: each point of the curve
        # is a separate run.
        ends = [steps(part, SETTINGS, int(moment)) for moment in moments]
        ax.plot(
            [end.iterations for end in ends],
            [end.residual for end in ends],
            color=colour,
            label=f"r = {noise:.0%}",
        )
    ax.axhline(TOLERANCE, color="0.4", linewidth=0.9, linestyle="--")
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("iterations")
    ax.set_ylabel("residual (dashed: the tolerance)")
    ax.legend(fontsize="small")
    return figure
