"""Pictures of margins: their cumulative distribution, and those between pairs of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx import theory
from svmcvx.data import check_choice
from svmcvx.errors import DataError, DataTypeError
from svmcvx.plot.style import by_name, drawing_axes, entitle

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["margin_distribution", "pairwise_margins"]

Floats: TypeAlias = NDArray[np.float64]

SCALES = ("median", "none")
# Larger tables are drawn without numbers.
WRITTEN_CLASSES = 12


def margin_distribution(
    models: Mapping[str, Any] | Any,
    X: Any,
    y: Any,
    *,
    scale: str = "median",
    ax: Axes | None = None,
    title: str | None = None,
) -> Axes:
    r"""Draw the cumulative distribution of the margins of several models.

    The margin of an observation is its score with the sign of its label, :math:`y_i f(x_i)`, or, with one score a
    class, the score of its class less the largest of the others. The further right a curve, the larger the margins.

    Parameters
    ----------
    models : mapping from str to Solution, Model or fitted estimator
        Or one of these, named by its type.
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    scale : "median" or "none"
        Divide the margins of a model by their median absolute value, so that formulations of different scales can be
        laid over each other, or leave them.
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Notes
    -----
    Source: [ZhangZhou], Figure 1.
    """
    check_choice(scale, "scale", SCALES)
    ax = drawing_axes(ax)
    named = by_name(models)
    if not named:
        raise DataError("models is empty; pass a model, or a mapping from names to models")
    for name, model in named.items():
        found = theory.margin_distribution(model, X, y)
        median = float(np.median(np.abs(found.margins))) if scale == "median" else 1.0
        u = found.margins / median if median > 0 else found.margins
        ax.step(u, np.cumsum(found.share).clip(max=1.0), where="post", label=name, linewidth=1.5)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    measured = "signed margin ÷ median absolute margin" if scale == "median" else "signed margin"
    ax.set_xlabel(f"{measured} (left of 0: misclassified)")
    ax.set_ylabel("share of observations at or below")
    ax.set_ylim(0, 1)
    ax.legend(loc="upper left", fontsize="small", framealpha=0.9)
    return entitle(ax, title)


def pairwise_margins(model: Any, *, names: Any = None, ax: Axes | None = None, title: str | None = None) -> Axes:
    r"""Draw the margins :math:`2/\|w_k-w_l\|` between classes as a heat map; the smallest is framed.

    Parameters
    ----------
    model : Solution, MulticlassModel or fitted estimator with one vector of weights a class
    names : sequence of str, optional
        Of the classes; their labels by default.
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Notes
    -----
    See :func:`svmcvx.theory.pairwise_margins`.
    """
    table = theory.pairwise_margins(model)
    c = table.shape[0]
    names = _class_labels(model) if names is None else names
    if isinstance(names, (str, bytes)) or np.ndim(names) != 1 or len(names) != c:
        raise DataTypeError(f"names must be a sequence of {c} strings, one a class, got {names!r}")
    labels = [str(name) for name in names]
    ax = drawing_axes(ax)
    shown = np.ma.masked_invalid(table)
    image = ax.imshow(shown, cmap="viridis")
    ax.figure.colorbar(image, ax=ax, label="margin $2/\\Vert w_k - w_l\\Vert$")
    if c <= WRITTEN_CLASSES:
        middle = 0.5 * (float(shown.min()) + float(shown.max())) if shown.count() else 0.0
        for row, column in zip(*np.nonzero(~np.eye(c, dtype=bool)), strict=True):
            dark = np.isfinite(table[row, column]) and table[row, column] < middle
            ax.text(
                column,
                row,
                f"{table[row, column]:.2g}",
                ha="center",
                va="center",
                fontsize="small",
                color="w" if dark else "k",
            )
    if shown.count():
        smallest = np.argwhere(table == float(shown.min()))
        for row, column in smallest:
            ax.plot(
                column + np.array([-0.5, 0.5, 0.5, -0.5, -0.5]) * 0.94,
                row + np.array([-0.5, -0.5, 0.5, 0.5, -0.5]) * 0.94,
                color="#d1603d",
                linewidth=2.0,
            )
    ax.set_xticks(range(c), labels, rotation=45 if max(map(len, labels)) > 3 else 0)
    ax.set_yticks(range(c), labels)
    ax.set_xlabel("class")
    ax.set_ylabel("class")
    return entitle(ax, title)


def _class_labels(model: Any) -> Any:
    solution = getattr(model, "solution_", model)
    return getattr(solution, "model", solution).classes
