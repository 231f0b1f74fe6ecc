"""Pictures of models (extra ``plot``); each function takes and returns a matplotlib ``Axes``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_features, check_labels
from svmcvx.errors import DataError, missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["decision_regions", "margin_distribution"]

Floats: TypeAlias = NDArray[np.float64]

NEGATIVE, POSITIVE = "#3b6fb6", "#d1603d"
GRID = 300


def _axes(ax: Axes | None) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise missing_extra("matplotlib", "plot") from None
    return plt.subplots(figsize=(6.4, 4.8), layout="constrained")[1] if ax is None else ax


def decision_regions(model: Any, X: Any, y: Any, *, ax: Axes | None = None, title: str | None = None) -> Axes:
    """Draw the score of a binary model over two features, with the data and the support vectors.

    The solid line is the decision boundary, the dashed ones the margin (scores ±1); support vectors are ringed.

    Parameters
    ----------
    model : Model or fitted estimator
        Has ``decision_function``; rings need its support, indices into `X`.
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
        If there are not exactly two features and two classes.
    """
    points = check_features(X, accept_sparse=False)
    if points.shape[1] != 2:
        raise DataError(
            f"decision regions are drawn for two features, X has {points.shape[1]}; use margin_distribution"
        )
    codes, classes = check_labels(y, points.shape[0], binary=True)
    ax = _axes(ax)
    low, high = points.min(axis=0), points.max(axis=0)
    pad = 0.06 * np.where(high > low, high - low, 1.0)
    horizontal, vertical = np.meshgrid(*(np.linspace(low[j] - pad[j], high[j] + pad[j], GRID) for j in range(2)))
    scores = model.decision_function(np.column_stack([horizontal.ravel(), vertical.ravel()])).reshape(horizontal.shape)
    limit = max(1.5, float(np.quantile(np.abs(scores), 0.9)))
    ax.contourf(
        horizontal,
        vertical,
        np.clip(scores, -limit, limit),
        levels=np.linspace(-limit, limit, 15),
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
    for code, colour in ((0, NEGATIVE), (1, POSITIVE)):
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
    support = getattr(model, "support_", getattr(model, "support", None))
    if support is not None and len(support):
        ringed = points[np.asarray(support)]
        ax.scatter(
            ringed[:, 0],
            ringed[:, 1],
            s=60,
            facecolor="none",
            edgecolor="0.15",
            linewidth=0.8,
            label="support vectors",
            zorder=2,
        )
    ax.legend(loc="best", fontsize="small", framealpha=0.9)
    if title:
        ax.set_title(title)
    return ax


def margin_distribution(
    models: Mapping[str, Any], X: Any, y: Any, *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    r"""Draw the cumulative distribution of the signed margins of binary models.

    The margin of an observation is its score with the sign of its label, :math:`y_i f(x_i)`. It is divided by the
    median absolute score of the model, so that formulations of different scales can be laid over each other.

    Parameters
    ----------
    models : mapping from str to Model or fitted estimator
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes
    """
    points = check_features(X)
    codes, _ = check_labels(y, points.shape[0], binary=True)
    signs = np.where(codes == 1, 1.0, -1.0)
    ax = _axes(ax)
    shares = np.arange(1, signs.size + 1) / signs.size
    for name, model in models.items():
        margins = np.sort(signs * model.decision_function(points))
        scale = float(np.median(np.abs(margins)))
        ax.step(margins / scale if scale > 0 else margins, shares, where="post", label=name, linewidth=1.5)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    ax.set_xlabel("signed margin ÷ median absolute margin (left of 0: misclassified)")
    ax.set_ylabel("share of observations at or below")
    ax.set_ylim(0, 1)
    ax.legend(loc="upper left", fontsize="small", framealpha=0.9)
    if title:
        ax.set_title(title)
    return ax
