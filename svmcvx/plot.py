"""Pictures of models (extra ``plot``); each function takes and returns a matplotlib ``Axes``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx import losses as functions
from svmcvx.data import check_features, check_labels, check_number
from svmcvx.errors import DataError, missing_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["decision_regions", "losses", "margin_distribution"]

Floats: TypeAlias = NDArray[np.float64]

NEGATIVE, POSITIVE = "#3b6fb6", "#d1603d"
GRID = 300
# A step between neighbours on the grid of margins that is a jump of the loss.
JUMP = 0.1


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


def _margins(scores: Floats, codes: NDArray[np.intp]) -> Floats:
    """Return the margins of scores with a sign, shape (n,), or with one column a class."""
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    rows = np.arange(codes.size)
    others = scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - others.max(axis=1))


def margin_distribution(
    models: Mapping[str, Any], X: Any, y: Any, *, ax: Axes | None = None, title: str | None = None
) -> Axes:
    r"""Draw the cumulative distribution of the margins of several models.

    The margin of an observation is its score with the sign of its label, :math:`y_i f(x_i)`, or, with one score a
    class, the score of its class less the largest of the others. It is divided by the median absolute margin of the
    model, so that formulations of different scales can be laid over each other.

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
    codes, _ = check_labels(y, points.shape[0])
    ax = _axes(ax)
    shares = np.arange(1, codes.size + 1) / codes.size
    for name, model in models.items():
        margins = np.sort(_margins(model.decision_function(points), codes))
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


def losses(gamma: Sequence[float] = (0.25, 1.0, 4.0), *, ax: Axes | None = None, title: str | None = None) -> Axes:
    r"""Draw the conic loss for some γ, with the losses that it is compared with, as functions of the margin u.

    The conic loss has λ = 1; the others are those of :mod:`svmcvx.losses`: 0-1, hinge, ramp, ψ, normalised sigmoid and
    rescaled hinge.

    Parameters
    ----------
    gamma : sequence of float
        Positive parameters of the conic loss.
    ax : Axes, optional
        A new figure by default.
    title : str, optional

    Returns
    -------
    Axes

    Notes
    -----
    Source: conic paper, Figure 1, in one picture.
    """
    values = [check_number(value, "gamma", low=0, open_low=True) for value in gamma]
    ax = _axes(ax)
    u = np.linspace(-2.0, 2.0, 4 * GRID + 1)
    others = {
        "ramp": (functions.ramp, "#9ec9e2", "-", 3.2),
        "hinge": (functions.slack, "#3b6fb6", "-", 1.2),
        "ψ": (functions.psi, "#1b3a5c", (0, (2, 2)), 1.4),
        "normalised sigmoid": (functions.normalised_sigmoid, "#4f8a5b", "-", 1.4),
        "rescaled hinge": (functions.rescaled_hinge, "#8e6bb0", "-", 1.4),
    }
    for name, (loss, colour, style, width) in others.items():
        drawn = loss(u)
        # No line where a loss jumps.
        drawn[1:][np.abs(np.diff(drawn)) > JUMP] = np.nan
        ax.plot(u, drawn, linestyle=style, color=colour, linewidth=width, label=name)
    for depth, value in zip(np.linspace(0.0, 1.0, len(values)), values, strict=True):
        warm = tuple((1 - depth) * np.array([0.95, 0.68, 0.45]) + depth * np.array([0.70, 0.16, 0.10]))
        ax.plot(u, functions.conic_loss(u, value, 1.0), color=warm, linewidth=2.6, label=f"conic, γ = {value:g}")
    ax.plot(u[u < 1], functions.zero_one(u[u < 1]), color="black", linewidth=1.1, label="0-1")
    ax.plot(u[u >= 1], functions.zero_one(u[u >= 1]), color="black", linewidth=1.1)
    ax.set_xlabel("signed margin u")
    ax.set_ylabel("loss")
    ax.set_xlim(-2, 2)
    ax.set_ylim(-0.08, 2.6)
    ax.legend(loc="upper right", fontsize="small", framealpha=0.9)
    if title:
        ax.set_title(title)
    return ax
