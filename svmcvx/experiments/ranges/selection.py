r"""The best C over a whole range, proved: how many errors of cross-validation optimal machines make for every C at once.

The range is cut into pieces between values that are solved. On each piece every validation row is surely right, surely wrong or
undecided for *all* C in it (:mod:`svmcvx.guarantees.ranges`); sums over folds are a lower and an upper bound of the number of errors on the
piece. The piece with the least lower bound is cut in two until no piece may have fewer errors than the best value found, less what was
allowed.

**Source.** [ShibagakiEtAl] bound validation errors in this way for machines without a free intercept; [NdiayeLeFercoq] cover paths.
"""

from __future__ import annotations

import heapq
import math
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv

from svmcvx.containers import as_array
from svmcvx.data import check_features, check_number, check_time_limit
from svmcvx.display import ShortRepr
from svmcvx.errors import DataError
from svmcvx.estimators.margin import PSVMClassifier
from svmcvx.guarantees.ranges import Node, over_range
from svmcvx.solution import Status
from svmcvx.system.deadline import time_limited

__all__ = ["CertifiedSelection", "certified_select"]

Floats: TypeAlias = NDArray[np.float64]
Fold: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]

# Neighbouring values are not brought nearer to each other than this: scores cross 0 there.
NEAREST = 1.0 + 1e-7


class _Piece(NamedTuple):
    """Least and most errors for C between two values; pieces are ordered by the former."""

    least: int
    most: int
    low: float
    high: float


@dataclass(frozen=True, repr=False)
class CertifiedSelection(ShortRepr):
    """Proved bounds of the errors of cross-validation over a range of C.

    Attributes
    ----------
    C : float
        With the fewest errors that are proved; of several such values that were solved the smallest.
    errors : int
        Largest number of errors that an optimal machine at this C makes on the validation rows of all folds.
    least : int
        No C in the range has fewer.
    observations : int
        Validation rows of all folds.
    pieces : DataFrame
        Columns ``low``, ``high`` of C, and ``least``, ``most`` errors of optimal machines for all C between them.
    values : DataFrame
        Values of C that were solved, with ``least`` and ``most`` errors.
    complete : bool
        Whether the difference of `errors` and `least` is as small as was asked for.
    """

    C: float
    errors: int
    least: int
    observations: int
    pieces: pd.DataFrame = field(repr=False)
    values: pd.DataFrame = field(repr=False)
    complete: bool

    def __repr__(self) -> str:
        between = f"{self.errors}" if self.errors == self.least else f"{self.least} to {self.errors}"
        return (
            f"CertifiedSelection(C={self.C:.6g}: {self.errors} errors of {self.observations}; the least over the range is {between}, "
            f"{len(self.values)} values solved)"
        )

    @property
    def candidates(self) -> pd.DataFrame:
        """The pieces in which a best C may lie: where as few errors as `errors` have not been excluded."""
        return self.pieces[self.pieces["least"] <= self.errors].reset_index(drop=True)

    def plot(self, ax: Any = None) -> Any:
        """Draw the band of errors over the range; see :func:`svmcvx.plot.certified_selection`."""
        from svmcvx.plot import certified_selection as draw

        return draw(self, ax=ax)


def certified_select(
    estimator: PSVMClassifier,
    X: Any,
    y: Any,
    *,
    C: tuple[float, float],
    cv: int | Iterable[Fold] | Any = 5,
    eps: float = 0.01,
    tol: float = 1e-8,
    time_limit: float | None = None,
) -> CertifiedSelection:
    r"""Find a C in a range whose errors of cross-validation are proved to be within `eps` of the fewest over the whole range.

    Parameters
    ----------
    estimator : PSVMClassifier
        With p = 1 or p = 2, linear or with a kernel; not fitted, and not changed.
    X : array-like of shape (n, d)
    y : array-like of shape (n,)
        Two classes.
    C : (low, high)
        The range, positive.
    cv : int, cross-validation splitter or iterable of (train, test)
        As in scikit-learn; shuffled splits are drawn once.
    eps : float
        Share of the validation rows by which the errors at the C found may exceed the fewest; 0 asks for the fewest themselves.
    tol : float
        Certified relative gap of each fit.
    time_limit : float, optional
        Seconds; then the bounds proved so far are returned, as after Ctrl-C.

    Returns
    -------
    CertifiedSelection
        Its `least` and `errors` hold also where `complete` is false.

    Raises
    ------
    DataError
        If the estimator is another one, or an argument cannot be used.

    Warns
    -----
    UserWarning
        If the selection is not complete: time ended, or errors change within a part of 10⁻⁷ of C.

    Notes
    -----
    A kernel's scale is that of each training part, as in :func:`svmcvx.select`. The bounds hold for these splits, not for other data.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(40, 2, sigma=0.5, seed=0)
    >>> found = sx.certified_select(sx.PSVMClassifier(p=2.0), X, y, C=(0.1, 10.0), eps=0.05)
    >>> found.complete, found.errors - found.least <= 0.05 * 40
    (True, True)
    """
    if not isinstance(estimator, PSVMClassifier) or estimator.p not in (1, 2):
        raise DataError("certified_select takes a PSVMClassifier with p=1 or p=2")
    if not isinstance(C, (tuple, list)) or len(C) != 2:
        raise DataError(f"C must be the two ends of a range, as in C=(0.01, 100.0), got {C!r}")
    low, high = (check_number(end, "C", low=0, open_low=True) for end in C)
    if not low < high:
        raise DataError(f"the range of C must be increasing, got {C!r}")
    eps = check_number(eps, "eps", low=0, high=1, open_high=True)
    check_number(tol, "tol", low=0, high=1, open_low=True, open_high=True)
    features, labels = check_features(X), as_array(y, "y").ravel()
    folds = [(np.asarray(a), np.asarray(b)) for a, b in check_cv(cv, labels, classifier=True).split(features, labels)]
    with time_limited(check_time_limit(time_limit)) as deadline:
        search = _Search(clone(estimator).set_params(tol=tol), features, labels, folds)
        search.solve(low)
        search.solve(high)
        open_, closed = [search.piece(low, high)], []
        while open_ and not search.stopped and not deadline.passed():
            piece = heapq.heappop(open_)
            if piece.least + eps * search.observations >= search.best:
                # The least of all: no other is better.
                heapq.heappush(open_, piece)
                break
            if piece.high <= piece.low * NEAREST:
                closed.append(piece)
                continue
            middle = math.sqrt(piece.low) * math.sqrt(piece.high)
            search.solve(middle)
            if search.stopped:
                closed.append(piece)
                break
            for ends in ((piece.low, middle), (middle, piece.high)):
                heapq.heappush(open_, search.piece(*ends))
    return search.result([*open_, *closed], eps)


class _Search:
    """The solutions of all folds at the values of C so far."""

    def __init__(self, estimator: PSVMClassifier, X: Any, y: NDArray[Any], folds: list[Fold]) -> None:
        self.estimator, self.X, self.y, self.folds = estimator, X, y, folds
        self.classes = np.unique(y)
        self.observations = sum(test.size for _, test in folds)
        self.nodes: dict[float, list[Node]] = {}
        self.errors: dict[float, tuple[int, int]] = {}
        self.stopped = False

    @property
    def best(self) -> int:
        """The fewest errors that are proved at a value."""
        return min(most for _, most in self.errors.values())

    def solve(self, C: float) -> None:
        """Solve all folds at a value, and count its errors."""
        nodes = []
        for train, test in self.folds:
            machine = clone(self.estimator).set_params(C=C)
            with warnings.catch_warnings():
                # What a wide gap leaves open is counted as undecided.
                warnings.simplefilter("ignore")
                machine.fit(self.X[train], self.y[train])
            solution = machine.solution_
            self.stopped |= solution.status in (Status.INTERRUPTED, Status.TIME_LIMIT)
            if machine.classes_.size != 2 or self.classes.size != 2:
                raise DataError("certified_select is for two classes, both of them in each training part")
            nodes.append(Node.of(solution, self.X[train], self.y[train], self.X[test]))
        self.nodes[C] = nodes
        self.errors[C] = self._count([node.possible for node in nodes])

    def piece(self, low: float, high: float) -> _Piece:
        """Bound the errors between two values that are solved."""
        pairs = zip(self.nodes[low], self.nodes[high], strict=True)
        return _Piece(*self._count([over_range(*pair) for pair in pairs]), low, high)

    def _count(self, possible: list[NDArray[np.bool_]]) -> tuple[int, int]:
        """The least and the most errors of classes that are possible in each fold."""
        least = most = 0
        for (_, test), of_fold in zip(self.folds, possible, strict=True):
            wrong = of_fold & (self.y[test][:, None] != self.classes)
            most += int(wrong.any(axis=1).sum())
            least += int((~of_fold | wrong).all(axis=1).sum())
        return least, most

    def result(self, pieces: list[_Piece], eps: float) -> CertifiedSelection:
        """What is proved."""
        values = sorted(self.errors)
        errors = self.best
        least = min(piece.least for piece in pieces)
        complete = errors - least <= eps * self.observations
        if not complete:
            warnings.warn(
                f"the fewest errors are known to be from {least} to {errors} of {self.observations}, which is wider than asked for; "
                "allow more time, or a larger eps",
                stacklevel=3,
            )
        return CertifiedSelection(
            C=next(value for value in values if self.errors[value][1] == errors),
            errors=errors,
            least=least,
            observations=self.observations,
            pieces=pd.DataFrame(
                [(p.low, p.high, p.least, p.most) for p in sorted(pieces, key=lambda piece: piece.low)],
                columns=["low", "high", "least", "most"],
            ),
            values=pd.DataFrame([(value, *self.errors[value]) for value in values], columns=["C", "least", "most"]),
            complete=complete,
        )
