"""Decision regions over two features."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from svmcvx import theory
from svmcvx.arguments import documented
from svmcvx.arrays import Floats
from svmcvx.data import check_choice, check_features, check_labels
from svmcvx.display import settings
from svmcvx.errors import DataError
from svmcvx.plot.style import (
    DASHES,
    MARKERS,
    NEGATIVE,
    POSITIVE,
    by_name,
    class_colours,
    drawing_axes,
    entitle,
    figure_of,
    ink,
    legend_below,
    mixed,
    paper,
    width_of,
)
from svmcvx.solution import Solution
from svmcvx.theory import classifier_of, label_codes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


GRID = 300
# Error of means and standard deviations up to which columns count as scaled.
SCALED = 1e-6


@documented
def decision_regions(
    model: Any, X: Any, y: Any, *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    """Draw the decision of a model over two features, with the data and the support vectors.

    Solid lines are decision boundaries, dashed ones the margin: scores ±1 of two classes, or the
    best score 1 above the second. Two classes are shaded by their score, with a colour bar; more by
    the class that is predicted. Support vectors are ringed. Columns of mean 0 and deviation 1, or
    between 0 and 1, are said to be scaled.

    Parameters
    ----------
    model : Solution, Model or fitted estimator
        Has ``decision_function`` (and ``predict`` for more than two classes); rings need its
        support, indices into `X`.
    X : array-like or DataFrame of shape (n, 2)
        The training data. The axes are named after its columns, or those of the estimator's fit.
    y : array-like of shape (n,)
        Their labels.
    title : str, optional
        By default the formulation of a solution or a fitted estimator with its hyper-parameters;
        ``""`` for none.

    Raises
    ------
    DataError
        If there are not exactly two features, or `X` is not what the model's support points into.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(60, 2, sigma=0.5, seed=0)
    >>> sx.plot.decision_regions(sx.PSVMClassifier(C=2.0).fit(X, y), X, y).get_title()
    'psvm: C=2, p=1, kernel=none'
    """
    classifier = classifier_of(model)
    points = check_features(X, accept_sparse=False)
    if points.shape[1] != 2:
        raise DataError(
            f"decision regions are drawn for two features, X has {points.shape[1]}; use"
            " margin_distribution"
        )
    codes, classes = _classes(classifier, y, points.shape[0])
    named = getattr(X, "columns", getattr(classifier, "feature_names_in_", None))
    names = ["feature 0", "feature 1"] if named is None else [*map(str, named)]
    _, last = getattr(classifier, "steps", [("", classifier)])[-1]
    support = np.asarray(getattr(last, "support_", getattr(last, "support", ())), dtype=np.intp)
    if support.size and support.max() >= points.shape[0]:
        raise DataError(
            f"the model rests on observation {support.max()}, X has {points.shape[0]} rows; pass"
            " the training data"
        )
    ax = drawing_axes(ax)
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.06 * np.where(high > low, high - low, 1.0)
    ends = zip(low - pad, high + pad, strict=True)
    lines = np.meshgrid(*(np.linspace(*pair, GRID) for pair in ends))
    shape, grid = lines[0].shape, np.column_stack([line.ravel() for line in lines])
    # A classifier trained on a table knows its columns by their names.
    points_of_grid = type(X)(grid, columns=X.columns) if hasattr(X, "iloc") else grid
    scores = np.asarray(classifier.decision_function(points_of_grid))
    colours = class_colours(classes.size)
    if scores.ndim == 1:
        known = _shade_scores(ax, lines, scores.reshape(shape), classes)
    else:
        predicted = label_codes(classifier, classifier.predict(points_of_grid), grid.shape[0])
        best = np.partition(scores, -2, axis=1)[:, -2:]
        lead = (best[:, 1] - best[:, 0]).reshape(shape)
        known = _shade_classes(ax, lines, predicted.reshape(shape), lead, colours)
    handles = _draw_points(ax, points, codes, classes, support)
    ax.set_xlabel(names[0] + _scaling(points[:, 0]))
    ax.set_ylabel(names[1] + _scaling(points[:, 1]))
    legend_below(ax, [*handles, *known])
    return entitle(ax, _described(model) if title is None else title)


def _draw_points(
    ax: Axes,
    points: Floats,
    codes: NDArray[np.intp],
    classes: NDArray[Any],
    support: NDArray[np.intp],
) -> list[Any]:
    # Four square points for a panel of one inch; less with more than 200 dots.
    size, behind = 4.0 * max(1.0, width_of(ax)) / math.sqrt(max(1.0, len(points) / 200)), paper(ax)
    handles: list[Any] = []
    for code, colour in enumerate(class_colours(classes.size)):
        chosen = codes == code
        look: Any = {"color": colour, "marker": MARKERS[code % len(MARKERS)], "edgecolor": behind}
        dots = ax.scatter(
            points[chosen, 0], points[chosen, 1], size, linewidth=0.4, zorder=3, **look
        )
        dots.set_label(str(classes[code]))
        handles.append(dots)
    if support.size:
        ring: Any = {"facecolor": "none", "edgecolor": ink(), "linewidth": 0.7, "zorder": 2}
        rings = ax.scatter(
            points[support, 0], points[support, 1], 3.0 * size, label="support vectors", **ring
        )
        handles.append(rings)
    return handles


def _classes(classifier: Any, y: Any, n: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    known = getattr(classifier, "classes", getattr(classifier, "classes_", None))
    if known is None:  # a rule that only scores
        return check_labels(y, n, binary=True)
    return label_codes(classifier, y, n), np.asarray(known)


def _scaling(column: Floats) -> str:
    if abs(column.mean()) <= SCALED and abs(column.std() - 1.0) <= SCALED:
        return " (standardised)"
    if abs(column.min()) <= SCALED and abs(column.max() - 1.0) <= SCALED:
        return " (scaled to [0, 1])"
    return ""


def _described(model: Any) -> str | None:
    solution = getattr(model, "solution_", model)
    if not isinstance(solution, Solution):
        return None
    return f"{solution.formulation}: {settings(solution.hyperparameters)}"


def _lines(*labels: tuple[str, Any]) -> list[Any]:
    from matplotlib.lines import Line2D

    return [
        Line2D([], [], color=ink(), linestyle=style, linewidth=1.2, label=label)
        for label, style in labels
    ]


def _shade_scores(ax: Axes, grid: Any, scores: Floats, classes: NDArray[Any]) -> list[Any]:
    from matplotlib.colors import LinearSegmentedColormap

    # Neither flat where a few scores are huge, nor pale where all are small.
    limit = max(1.5, float(np.quantile(np.abs(scores), 0.9)))
    behind = paper(ax)
    ends = [mixed(colour, behind, 0.55) for colour in (NEGATIVE, behind, POSITIVE)]
    colours, levels = LinearSegmentedColormap.from_list("scores", ends), [-1.0, 0.0, 1.0]
    steps = np.linspace(-limit, limit, 21)
    clipped = np.clip(scores, -limit, limit)
    shades = ax.contourf(*grid, clipped, levels=steps, cmap=colours)
    look: Any = {"linestyles": ["--", "-", "--"], "linewidths": [0.9, 1.5, 0.9]}
    ax.contour(*grid, scores, levels=levels, colors=[ink()], **look)
    last = float(int(limit))
    ticks = sorted({-last, -1.0, 0.0, 1.0, last})
    bar = figure_of(ax).colorbar(
        shades, ax=ax, ticks=ticks, label=f"score (positive: {classes[-1]})"
    )
    bar.outline.set_linewidth(0.5)
    return _lines(("boundary", "-"), ("score ±1", "--"))


def _shade_classes(
    ax: Axes, grid: Any, predicted: NDArray[np.intp], lead: Floats, colours: list[str]
) -> list[Any]:
    edges = np.arange(len(colours) + 1) - 0.5
    tints = [mixed(colour, paper(ax), 0.3) for colour in colours]
    ax.contourf(*grid, predicted, levels=edges, colors=tints)
    for code in np.unique(predicted):
        # The lead with the sign of the region crosses zero on its boundary, smoothly where labels
        # would jump.
        signed = np.where(predicted == code, lead, -lead)
        ax.contour(*grid, signed, levels=[0], colors=[ink()], linewidths=1.4)
    if not lead.min() < 1.0 < lead.max():
        return _lines(("boundary", "-"))
    ax.contour(*grid, lead, levels=[1], colors=[ink()], linestyles="--", linewidths=0.9)
    return _lines(("boundary", "-"), ("1 above the next class", "--"))


@documented
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

    Source: [ZhangZhou], Figure 1.

    Parameters
    ----------
    models : mapping from str to Solution, Model or fitted estimator
        Or one of these, named by its type.
    X, y : of the same types
        As for :func:`svmcvx.theory.margins`.
    scale : "median" or "none"
        Divide the margins of a model by their median absolute value, so that formulations of
        different scales can be laid over each other, or leave them.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(60, 2, sigma=0.5, seed=0)
    >>> sx.plot.margin_distribution(sx.PSVMClassifier().fit(X, y), X, y).get_ylabel()
    'share of observations'
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
