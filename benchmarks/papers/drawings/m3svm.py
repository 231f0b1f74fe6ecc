"""Figures of the M3SVM paper [NieHaoWang]."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import scale

from benchmarks.papers.drawings import drawing_panels
from benchmarks.papers.exhibits import m3svm_by_adam
from benchmarks.papers.m3svm import (
    ADVISED,
    ADVISED_LAMBDA,
    SEED,
    SETS,
    SPLIT,
    TOL,
    released_settings,
)
from benchmarks.papers.result import Reproduction
from svmcvx.datasets import load
from svmcvx.fast.several_classes.solvers import m3svm
from svmcvx.plot import gap_trace
from svmcvx.plot.style import NEGATIVE, class_colours

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3
# Sets with more numbers than this, observations times features times classes, are not solved again
# for a picture.
LARGEST = 2e7


def convergence(found: Reproduction) -> Figure | None:
    """Draw the certified gap of the released problem against time: Newton's method, and 500 epochs
    of Adam at the released rate.
    """
    there = list(dict.fromkeys(found.frame.dropna(subset=["as_written"])["dataset"]))
    if found.run is None:
        return None
    loaded = {name: load(SETS[name].source, found.run.options["data_dir"]) for name in there}
    sets = [
        name for name, data in loaded.items() if data.X.size * np.unique(data.y).size <= LARGEST
    ]
    if not sets:
        return None
    figure, panels = _panels(len(sets))
    for name, ax in zip(sets, panels, strict=False):
        data = loaded[name]
        ((train, _),) = SPLIT.parts(data.y, SEED)
        X, y = (scale(data.X) if SETS[name].standardise else data.X)[train], data.y[train]
        settings = released_settings(name, data)
        solutions = {
            "Newton": m3svm(X, y, **settings, tol=TOL),
            "Adam, 500 epochs": m3svm_by_adam(
                X, y, **settings, tol=TOL, learning_rate=SETS[name].rate
            ),
        }
        gap_trace(solutions, ax=ax, title=name)
    return figure


def iris(found: Reproduction) -> Figure:
    """Draw Iris in two directions of LDA and of PCA, with the three lines of M3SVM at p = 4."""
    X, y = load_iris(return_X_y=True)
    figure, panels = _panels(2)
    ways = {"LDA": LinearDiscriminantAnalysis(n_components=2), "PCA": PCA(2)}
    for (name, way), ax in zip(ways.items(), panels, strict=True):
        Z = way.fit_transform(X, y)
        machine = m3svm(Z, y, lam=ADVISED_LAMBDA, p=ADVISED, tol=TOL).model
        for k, colour in enumerate(class_colours(3)):
            ax.scatter(*Z[y == k].T, s=8, color=colour)
        ax.set(title=name, xlim=ax.get_xlim(), ylim=ax.get_ylim())
        for k, j in ((0, 1), (0, 2), (1, 2)):
            w, b = (part[..., k] - part[..., j] for part in (machine.coef, machine.intercept))
            ax.axline(-b * w / (w @ w), -b * w / (w @ w) + [-w[1], w[0]], color="0.4", linewidth=1)
    return figure


def exponents(found: Reproduction) -> Figure | None:
    """Draw accuracy against p with its standard deviation over the splits, a panel a data set."""
    return _curves(found, "p", ADVISED, "exponent p")


def weights(found: Reproduction) -> Figure | None:
    """Draw accuracy against λ with its standard deviation over the splits, a panel a data set."""
    figure = _curves(found, "lam", ADVISED_LAMBDA, "λ")
    for ax in figure.axes if figure is not None else ():
        ax.set_xscale("log")
    return figure


def _curves(found: Reproduction, column: str, advised: float, label: str) -> Figure | None:
    frame = found.frame.dropna(subset=["as_written"])
    sets = list(dict.fromkeys(frame["dataset"]))
    if not sets:
        return None
    figure, panels = _panels(len(sets))
    for name, ax in zip(sets, panels, strict=False):
        rows = frame[frame["dataset"] == name].sort_values(column)
        ax.errorbar(
            rows[column],
            rows["as_written"],
            yerr=rows["as_written_sd"],
            fmt="o-",
            color=NEGATIVE,
            markersize=4,
            capsize=2,
        )
        ax.axvline(advised, color="0.7", linewidth=0.8, zorder=0)
        ax.set_title(name, fontsize=10)
        ax.set_xlabel(label)
        ax.set_ylabel("accuracy")
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return a figure with a number of panels, in several rows."""
    columns = min(count, COLUMNS)
    figure, panels = drawing_panels(-(-count // columns), columns, size=(3.2, 2.5))
    for ax in panels.flat[count:]:
        ax.set_visible(False)
    return figure, list(panels.flat)
