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
from svmcvx.theory.margins import model_behind

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats: TypeAlias = NDArray[np.float64]


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
    check_choice(scale, "scale", ("median", "none"))
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
        shares, style = np.cumsum(found.share).clip(max=1.0), DASHES[place % len(DASHES)]
        # The largest hundredth of the margins may be far away.
        view = max(view, 1.15 * float(u[min(int(np.searchsorted(shares, 0.99)), u.size - 1)]))
        look: dict[str, Any] = {"color": colour, "linestyle": style, "linewidth": 1.6}
        ax.step(u, shares, where="post", label=name, **look)
    ax.axvline(0.0, color=ink(), linewidth=0.8)
    for text, side in (("wrong ", "right"), (" right", "left")):
        where: Any = {"transform": ax.get_xaxis_transform(), "ha": side, "va": "top"}
        ax.text(0.0, 0.98, text, fontsize="small", clip_on=True, **where)
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
    model : Solution, MulticlassModel or fitted estimator with one vector of weights per class
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
    names = model_behind(model).classes if names is None else names
    if isinstance(names, (str, bytes)) or np.ndim(names) != 1 or len(names) != c:
        raise DataTypeError(
            f"names must be a sequence of {c} strings, one per class, got {names!r}"
        )
    labels = [str(name) for name in names]
    ax = drawing_axes(ax)
    shown = np.ma.masked_invalid(table)
    image = ax.imshow(shown, cmap="viridis")
    ax.set_facecolor("none")
    ax.figure.colorbar(
        image, ax=ax, label="margin $2/\\Vert w_k - w_l\\Vert$"
    ).outline.set_linewidth(0.5)
    # In points, so that a number of a few digits fits into a cell; smaller ones are not written.
    size = min(9.0, 0.7 * 72.0 * width_of(ax) / c / 4.0)
    middle = 0.5 * (float(shown.min()) + float(shown.max())) if shown.count() else 0.0
    for (row, column), text in zip(np.ndindex(c, c), _even(table), strict=True):
        value = table[row, column]
        if row == column or size < 4.5:
            continue
        # On the colour of the cell; an infinite margin has none.
        colour = ("w" if value < middle else "k") if np.isfinite(value) else ink()
        ax.text(column, row, text, ha="center", va="center", fontsize=size, color=colour)
    for row, column in np.argwhere(table == shown.min()) if shown.count() else ():
        x, y = np.array([[-1, 1, 1, -1, -1], [-1, -1, 1, 1, -1]]) * 0.47
        ax.plot(column + x, row + y, color=POSITIVE, linewidth=2.0)
    slanted = max(map(len, labels)) > 3
    turned: Any = {"rotation": 45, "ha": "right"} if slanted else {}
    ax.set_xticks(range(c), labels, rotation_mode="anchor", **turned)
    ax.set_yticks(range(c), labels)
    ax.set_xlabel("class")
    ax.set_ylabel("class")
    return entitle(ax, title)


def _even(table: Floats) -> list[str]:
    """Return the numbers of a table, row by row, with the same number of decimals, two digits of
    the smallest at least; with exponents where they differ by a thousand.
    """
    known = np.abs(table[np.isfinite(table) & (table != 0)])
    if known.size and known.max() / known.min() >= 1e3:
        return [f"{value:.1e}" if np.isfinite(value) else str(value) for value in table.ravel()]
    decimals = max(0, 1 - math.floor(math.log10(known.min()))) if known.size else 0
    return [f"{value:.{decimals}f}" for value in table.ravel()]
