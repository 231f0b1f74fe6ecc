"""Decision regions over two features."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_features, check_labels
from svmcvx.errors import DataError
from svmcvx.plot.style import class_colours, drawing_axes, entitle
from svmcvx.theory.distribution import classifier_of, label_codes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["decision_regions"]

Floats: TypeAlias = NDArray[np.float64]

GRID = 300
TINT = 0.25
# Of binary scores: neither flat where a few are huge, nor pale where all are small.
SHADED_SHARE, LEAST_LIMIT, SHADES = 0.9, 1.5, 15


def decision_regions(model: Any, X: Any, y: Any, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the decision of a model over two features, with the data and the support vectors.

    Solid lines are decision boundaries, dashed ones the margin: scores ±1 of two classes, or the best score 1 above the
    second. Two classes are shaded by their score, more by the class that is predicted. Support vectors are ringed.

    Parameters
    ----------
    model : Solution, Model or fitted estimator
        Has ``decision_function`` (and ``predict`` for more than two classes); rings need its support, indices into `X`.
    X : array-like of shape (n, 2)
        The training data.
    y : array-like of shape (n,)
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Raises
    ------
    DataError
        If there are not exactly two features, or `X` is not what the model's support points into.
    """
    classifier = classifier_of(model)
    points = check_features(X, accept_sparse=False)
    if points.shape[1] != 2:
        raise DataError(
            f"decision regions are drawn for two features, X has {points.shape[1]}; use margin_distribution"
        )
    codes, classes = _classes(classifier, y, points.shape[0])
    support = np.asarray(getattr(classifier, "support_", getattr(classifier, "support", ())), dtype=np.intp)
    if support.size and support.max() >= points.shape[0]:
        raise DataError(
            f"the model rests on observation {support.max()}, X has {points.shape[0]} rows; pass the training data"
        )
    ax = drawing_axes(ax)
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.06 * np.where(high > low, high - low, 1.0)
    horizontal, vertical = np.meshgrid(*(np.linspace(low[j] - pad[j], high[j] + pad[j], GRID) for j in range(2)))
    grid = np.column_stack([horizontal.ravel(), vertical.ravel()])
    # A classifier trained on a table knows its columns by their names.
    points_of_grid = type(X)(grid, columns=X.columns) if hasattr(X, "iloc") else grid
    scores = np.asarray(classifier.decision_function(points_of_grid))
    colours = class_colours(classes.size)
    if scores.ndim == 1:
        _shade_scores(ax, horizontal, vertical, scores.reshape(horizontal.shape))
    else:
        predicted = label_codes(classifier, classifier.predict(points_of_grid), grid.shape[0]).reshape(horizontal.shape)
        best = np.partition(scores, -2, axis=1)[:, -2:]
        lead = (best[:, 1] - best[:, 0]).reshape(horizontal.shape)
        _shade_classes(ax, horizontal, vertical, predicted, lead, colours)
    for code, colour in enumerate(colours):
        chosen = codes == code
        ax.scatter(
            points[chosen, 0],
            points[chosen, 1],
            s=20,
            color=colour,
            edgecolor="white",
            linewidth=0.4,
            label=str(classes[code]),
            zorder=3,
        )
    if support.size:
        ax.scatter(
            points[support, 0],
            points[support, 1],
            s=60,
            facecolor="none",
            edgecolor="0.15",
            linewidth=0.8,
            label="support vectors",
            zorder=2,
        )
    ax.legend(loc="best", fontsize="small", framealpha=0.9)
    return entitle(ax, title)


def _classes(classifier: Any, y: Any, n: int) -> tuple[NDArray[np.intp], NDArray[Any]]:
    known = getattr(classifier, "classes", getattr(classifier, "classes_", None))
    if known is None:  # a rule that only scores
        return check_labels(y, n, binary=True)
    return label_codes(classifier, y, n), np.asarray(known)


def _shade_scores(ax: Axes, horizontal: Floats, vertical: Floats, scores: Floats) -> None:
    limit = max(LEAST_LIMIT, float(np.quantile(np.abs(scores), SHADED_SHARE)))
    ax.contourf(
        horizontal,
        vertical,
        np.clip(scores, -limit, limit),
        levels=np.linspace(-limit, limit, SHADES),
        cmap="RdBu_r",
        alpha=0.35,
    )
    ax.contour(
        horizontal,
        vertical,
        scores,
        levels=[-1, 0, 1],
        colors="0.25",
        linestyles=["--", "-", "--"],
        linewidths=[0.9, 1.6, 0.9],
    )


def _shade_classes(
    ax: Axes,
    horizontal: Floats,
    vertical: Floats,
    predicted: NDArray[np.intp],
    lead: Floats,
    colours: list[str],
) -> None:
    edges = np.arange(len(colours) + 1) - 0.5
    ax.contourf(horizontal, vertical, predicted, levels=edges, colors=colours, alpha=TINT)
    for code in np.unique(predicted):
        # The lead with the sign of the region crosses zero on its boundary, smoothly where labels would jump.
        signed = np.where(predicted == code, lead, -lead)
        ax.contour(horizontal, vertical, signed, levels=[0], colors="0.25", linewidths=1.4)
    if lead.min() < 1.0 < lead.max():
        ax.contour(horizontal, vertical, lead, levels=[1], colors="0.25", linestyles="--", linewidths=0.9)
