"""Pictures of margins: their cumulative distribution, and those between pairs of classes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx import theory
from svmcvx.data import check_choice
from svmcvx.errors import DataError, DataTypeError
from svmcvx.plot.style import (
    DASHES,
    POSITIVE,
    by_name,
    class_colours,
    drawing_axes,
    entitle,
    ink,
    legend_below,
    width_of,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["margin_distribution", "pairwise_margins"]

Floats: TypeAlias = NDArray[np.float64]

SCALES = ("median", "none")
# Numbers that would be smaller, in points, are not written.
LEAST_SIZE = 4.5
# Share of the view that is left to the largest margins, beyond which few observations are.
VIEW, BEYOND = 0.99, 1.15
# Ratio of the largest to the smallest margin from which on numbers are written with an exponent.
WIDE_RANGE = 1e3
# Characters, at half of their height, that have to fit into a cell.
CELL_CHARACTERS = 4.0
# Of the width of a picture, about what the table takes.
AXES_SHARE = 0.7


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

    The margin of an observation is its score with the sign of its label, :math:`y_i f(x_i)`, or,
    with one score a class, the score of its class less the largest of the others. The further right
    a curve, the larger the margins.

    Parameters
    ----------
    models : mapping from str to Solution, Model or fitted estimator
        Or one of these, named by its type.
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    scale : "median" or "none"
        Divide the margins of a model by their median absolute value, so that formulations of
        different scales can be laid over each other, or leave them.
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
    view = 0.0
    for place, (colour, (name, model)) in enumerate(
        zip(class_colours(len(named)), named.items(), strict=True)
    ):
        found = theory.margin_distribution(model, X, y)
        median = float(np.median(np.abs(found.margins))) if scale == "median" else 1.0
        u = found.margins / median if median > 0 else found.margins
        view = max(
            view,
            BEYOND * float(u[min(int(np.searchsorted(np.cumsum(found.share), VIEW)), u.size - 1)]),
        )
        ax.step(
            u,
            np.cumsum(found.share).clip(max=1.0),
            where="post",
            label=name,
            color=colour,
            linestyle=DASHES[place % len(DASHES)],
            linewidth=1.6,
        )
    ax.axvline(0.0, color=ink(), linewidth=0.8)
    ax.text(
        0.0,
        0.98,
        "wrong ",
        transform=ax.get_xaxis_transform(),
        ha="right",
        va="top",
        fontsize="small",
        clip_on=True,
    )
    ax.text(
        0.0,
        0.98,
        " right",
        transform=ax.get_xaxis_transform(),
        ha="left",
        va="top",
        fontsize="small",
        clip_on=True,
    )
    ax.set_xlabel("margin ÷ median of its size" if scale == "median" else "margin")
    ax.set_ylabel("share of observations")
    ax.set_ylim(0, 1.02)
    if view > 0:
        ax.set_xlim(right=view)
    legend_below(ax)
    return entitle(ax, title)


def pairwise_margins(
    model: Any, *, names: Any = None, ax: Axes | None = None, title: str | None = None
) -> Axes:
    r"""Draw the margins :math:`2/\|w_k-w_l\|` between classes as a heat map; the smallest is
    framed.

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
    ax.set_facecolor("none")
    ax.figure.colorbar(
        image, ax=ax, label="margin $2/\\Vert w_k - w_l\\Vert$"
    ).outline.set_linewidth(0.5)
    size = _text_size(ax, c)
    if size >= LEAST_SIZE:
        texts = _even(table)
        middle = 0.5 * (float(shown.min()) + float(shown.max())) if shown.count() else 0.0
        for row, column in zip(*np.nonzero(~np.eye(c, dtype=bool)), strict=True):
            dark = np.isfinite(table[row, column]) and table[row, column] < middle
            ax.text(
                column,
                row,
                texts[row][column],
                ha="center",
                va="center",
                fontsize=size,
                # On the colour of the cell; an infinite margin has none.
                color=("w" if dark else "k") if np.isfinite(table[row, column]) else ink(),
            )
    if shown.count():
        smallest = np.argwhere(table == float(shown.min()))
        for row, column in smallest:
            ax.plot(
                column + np.array([-0.5, 0.5, 0.5, -0.5, -0.5]) * 0.94,
                row + np.array([-0.5, -0.5, 0.5, 0.5, -0.5]) * 0.94,
                color=POSITIVE,
                linewidth=2.0,
            )
    slanted = max(map(len, labels)) > 3
    ax.set_xticks(
        range(c),
        labels,
        rotation=45 if slanted else 0,
        ha="right" if slanted else "center",
        rotation_mode="anchor",
    )
    ax.set_yticks(range(c), labels)
    ax.set_xlabel("class")
    ax.set_ylabel("class")
    return entitle(ax, title)


def _even(table: Floats) -> list[list[str]]:
    """Return the numbers of a table with the same number of decimals, two digits of the smallest at
    least.
    """
    known = np.abs(table[np.isfinite(table) & (table != 0)])
    if known.size and known.max() / known.min() >= WIDE_RANGE:
        return [
            [f"{value:.1e}" if np.isfinite(value) else str(value) for value in row] for row in table
        ]
    decimals = max(0, 1 - math.floor(math.log10(known.min()))) if known.size else 0
    return [[f"{value:.{decimals}f}" for value in row] for row in table]


def _text_size(ax: Axes, c: int) -> float:
    """Return the size, in points, at which a number of a few digits fits a cell."""
    return min(9.0, AXES_SHARE * 72.0 * width_of(ax) / c / CELL_CHARACTERS)


def _class_labels(model: Any) -> Any:
    solution = getattr(model, "solution_", model)
    return getattr(solution, "model", solution).classes
