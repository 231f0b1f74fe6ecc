"""Margins of a model on data, and between pairs of classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svmcvx.arrays import Floats
from svmcvx.data import as_array, check_features, check_weights
from svmcvx.errors import DataError, DataTypeError
from svmcvx.model import LinearModel, Model, MulticlassModel
from svmcvx.solution import Solution


def classifier_of(model: Any) -> Any:
    """Return what scores observations: the model of a solution, anything else as it is."""
    found = model.model if isinstance(model, Solution) else model
    if not hasattr(found, "decision_function"):
        raise DataTypeError(
            "model must be a Solution, a Model or a fitted classifier with decision_function, got"
            f" {type(model).__name__}"
        )
    return found


def model_behind(model: Any) -> Any:
    """Return the model of a solution or of a fitted estimator of this package."""
    solution = getattr(model, "solution_", model)
    return solution.model if isinstance(solution, Solution) else solution


def label_codes(model: Any, y: Any, n: int) -> NDArray[np.intp]:
    """Return the index of each label among the classes of a model."""
    given = model.classes if isinstance(model, Model) else getattr(model, "classes_", ())
    classes, labels = np.asarray(given), as_array(y, "y")
    if labels.shape != (n,):
        raise DataError(
            f"y must hold one label per observation: expected shape ({n},), got {labels.shape}"
        )
    if classes.size < 2:
        raise DataError(
            f"{type(model).__name__} has no classes; pass a fitted classifier with classes_"
        )
    place = {label: k for k, label in enumerate(classes.tolist())}
    codes = [place.get(label, -1) for label in labels.tolist()]
    if -1 in codes:
        raise DataError(
            f"y holds {labels.tolist()[codes.index(-1)]!r}, which the model was not trained on; its"
            f" classes are {classes.tolist()}"
        )
    return np.asarray(codes, dtype=np.intp)


def margins(model: Any, X: Any, y: Any) -> Floats:
    r"""Return the margin of every observation; it is misclassified where this is negative.

    For two classes :math:`u_i = y_i f(x_i)` with the labels as ±1; for more, the score of the own
    class less the largest of the others.

    Parameters
    ----------
    model : Solution, Model or fitted classifier
        With ``decision_function`` and its classes.
    X : array-like or sparse matrix of shape (n, d)
        As ``decision_function`` takes it.
    y : array-like of shape (n,)
        Labels among the classes of the model.

    Returns
    -------
    ndarray of shape (n,)

    Raises
    ------
    DataError
        If `model` has no scores, or `y` holds a label that it was not trained on.

    Examples
    --------
    >>> import svmcvx as sx
    >>> machine = sx.PSVMClassifier().fit([[-1.0], [1.0]], ["a", "b"])
    >>> [round(float(u), 6) for u in sx.theory.margins(machine, [[-1.0], [0.5]], ["a", "b"])]
    [1.0, 0.5]
    """
    classifier = classifier_of(model)
    # The classifier checks X itself: not all columns have to be numbers.
    shape: tuple[int, ...] = getattr(X, "shape", ())
    codes = label_codes(classifier, y, shape[0] if len(shape) == 2 else check_features(X).shape[0])
    scores = np.asarray(classifier.decision_function(X), dtype=np.float64)
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    rows, others = np.arange(codes.size), scores.copy()
    others[rows, codes] = -np.inf
    return np.asarray(scores[rows, codes] - others.max(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class MarginDistribution:
    r"""The distribution of margins :math:`u_i` with shares :math:`c_i` (1/n without weights).

    Attributes
    ----------
    margins : ndarray of shape (n,)
        Sorted.
    share : ndarray of shape (n,)
        Shares :math:`c_i`, in the same order, of sum 1.
    """

    margins: Floats
    share: Floats

    def __repr__(self) -> str:
        return (
            f"MarginDistribution({self.margins.size} margins: mean {self.mean:.6g}, variance"
            f" {self.variance:.6g}, minimum {self.minimum:.6g})"
        )

    @property
    def mean(self) -> float:
        r"""Margin mean :math:`\bar u = \sum_i c_i u_i`, as in ODML."""
        return float(self.share @ self.margins)

    @property
    def variance(self) -> float:
        r"""Margin variance :math:`\sum_i c_i (u_i - \bar u)^2`, as in ODML."""
        return float(self.share @ (self.margins - self.mean) ** 2)

    @property
    def minimum(self) -> float:
        """The smallest margin."""
        return float(self.margins[0])

    def cumulative(self, thresholds: ArrayLike) -> Floats:
        """Return the share of observations with a margin at or below each threshold."""
        sums = np.concatenate([[0.0], np.cumsum(self.share)])
        places = np.searchsorted(self.margins, np.asarray(thresholds, dtype=float), side="right")
        return np.asarray(np.minimum(sums[places], 1.0))


def margin_distribution(
    model: Any, X: Any, y: Any, *, sample_weight: Any = None
) -> MarginDistribution:
    """Return the distribution of the margins of a model.

    Parameters
    ----------
    model, X, y
        As for :func:`margins`.
    sample_weight : array-like of shape (n,), optional
        Weight k counts as k copies.

    Returns
    -------
    MarginDistribution

    Raises
    ------
    DataError
        As :func:`margins`, or if no weight is positive.

    Examples
    --------
    >>> import svmcvx as sx
    >>> machine = sx.PSVMClassifier().fit([[-1.0], [1.0]], ["a", "b"])
    >>> found = sx.theory.margin_distribution(machine, [[-1.0], [0.5]], ["a", "b"])
    >>> round(found.mean, 6), round(found.minimum, 6)
    (0.75, 0.5)
    """
    u = margins(model, X, y)
    weight = check_weights(sample_weight, u.size)
    if not weight.any():
        raise DataError("sample_weight is zero for every observation; give one a positive weight")
    order = np.argsort(u, kind="stable")
    return MarginDistribution(u[order], weight[order] / weight.sum())


def class_weights(model: Any) -> Floats:
    """Return W of shape (d, c); two classes with one score have the weights −w/2 and w/2."""
    found = model_behind(model)
    if isinstance(found, MulticlassModel):
        return found.coef
    if isinstance(found, LinearModel):
        return np.outer(found.coef, [-0.5, 0.5])
    raise DataTypeError(
        "model must be, or hold, a MulticlassModel or a LinearModel (one vector of weights per"
        f" class), got {type(found).__name__}"
    )


def pairwise_margins(model: Any) -> Floats:
    r"""Return the matrix of margins :math:`2/\|w_k-w_l\|` between classes.

    Parameters
    ----------
    model : Solution, MulticlassModel, LinearModel or fitted estimator of this package

    Returns
    -------
    ndarray of shape (c, c)
        Symmetric, in the order of the classes; NaN on the diagonal, infinity between classes of
        equal weights.

    Raises
    ------
    DataError
        If the model has not one vector of weights per class.

    Notes
    -----
    Source: [NieHaoWang], problem (4): as p → ∞, M3SVM maximises the smallest entry.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.theory.pairwise_margins(sx.M3SVMClassifier().fit(X, y)).shape
    (3, 3)
    """
    W = class_weights(model)
    with np.errstate(divide="ignore"):
        table = np.asarray(2.0 / np.linalg.norm(W[:, :, None] - W[:, None, :], axis=0))
    np.fill_diagonal(table, np.nan)
    return table
