"""Margins of a model on data: their mean, variance and cumulative distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from svmcvx.containers import as_array
from svmcvx.data import check_features, check_weights
from svmcvx.errors import DataError, DataTypeError
from svmcvx.model import BinaryModel, Model, frozen
from svmcvx.solution import Solution

__all__ = [
    "MarginDistribution",
    "binary_model",
    "classifier_of",
    "label_codes",
    "margin_distribution",
    "margins",
]

Floats: TypeAlias = NDArray[np.float64]


def classifier_of(model: Any) -> Any:
    """Return what scores observations: the model of a solution, anything else as it is."""
    found = model.model if isinstance(model, Solution) else model
    if not hasattr(found, "decision_function"):
        raise DataTypeError(
            "model must be a Solution, a Model or a fitted classifier with decision_function, got"
            f" {type(model).__name__}"
        )
    return found


def binary_model(model: Any) -> BinaryModel:
    """Return the model of two classes behind a solution or a fitted estimator of this package."""
    found = _model_behind(model)
    if not isinstance(found, BinaryModel):
        raise DataTypeError(
            "model must be, or hold, a LinearModel or KernelModel of two classes, got"
            f" {type(found).__name__}"
        )
    return found


def _model_behind(model: Any) -> Any:
    solution = getattr(model, "solution_", model)
    return solution.model if isinstance(solution, Solution) else solution


def label_codes(model: Any, y: Any, n: int) -> NDArray[np.intp]:
    """Return the index of each label among the classes of a model; `y` need not hold all of them."""
    classes = np.asarray(
        model.classes if isinstance(model, Model) else getattr(model, "classes_", ())
    )
    labels = as_array(y, "y")
    if labels.shape != (n,):
        raise DataError(
            f"y must hold one label an observation: expected shape ({n},), got {labels.shape}"
        )
    if classes.size < 2:
        raise DataError(
            f"{type(model).__name__} does not know its classes; pass a fitted classifier with"
            " classes_"
        )
    codes = (
        np.searchsorted(classes, labels) if labels.dtype.kind != "O" else _search(classes, labels)
    )
    codes = np.minimum(codes, classes.size - 1)
    strange = np.flatnonzero(classes[codes] != labels)
    if strange.size:
        raise DataError(
            f"y holds {labels[strange].tolist()[0]!r}, which the model was not trained on; its"
            f" classes are {classes.tolist()}"
        )
    return codes.astype(np.intp)


def _search(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    place = {label: k for k, label in enumerate(classes)}
    return np.array([place.get(label, 0) for label in labels], dtype=np.intp)


def _rows_of(X: Any) -> int:
    """Return the number of observations of data that a classifier will check itself: not all have
    to be numbers.
    """
    shape: tuple[int, ...] = getattr(X, "shape", ())
    return int(shape[0]) if len(shape) == 2 else int(check_features(X).shape[0])


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
        If `model` has no scores, or `y` holds a label that it does not know.

    Examples
    --------
    >>> import svmcvx as sx
    >>> machine = sx.PSVMClassifier().fit([[-1.0], [1.0]], ["a", "b"])
    >>> [round(float(u), 6) for u in sx.theory.margins(machine, [[-1.0], [0.5]], ["a", "b"])]
    [1.0, 0.5]
    """
    classifier = classifier_of(model)
    codes = label_codes(classifier, y, _rows_of(X))
    scores = np.asarray(classifier.decision_function(X), dtype=np.float64)
    if scores.ndim == 1:
        return np.where(codes == 1, scores, -scores)
    rows = np.arange(codes.size)
    others = scores.copy()
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

    def __post_init__(self) -> None:
        for name in ("margins", "share"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

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
        found = sums[
            np.searchsorted(self.margins, np.asarray(thresholds, dtype=np.float64), side="right")
        ]
        return np.asarray(np.minimum(found, 1.0))


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
    total = float(weight.sum())
    if total <= 0:
        raise DataError(
            "sample_weight is zero for every observation; give at least one a positive weight"
        )
    order = np.argsort(u, kind="stable")
    return MarginDistribution(u[order], weight[order] / total)
