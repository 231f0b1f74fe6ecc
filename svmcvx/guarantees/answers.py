"""Guarantees on the predictions of every optimal machine: intervals of scores, possible classes,
intervals of accuracies.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.data import as_array
from svmcvx.display import ShortRepr, quantity
from svmcvx.errors import DataError, NotCertified
from svmcvx.proofs.format import Proof, write_proof

__all__ = ["CertifiedScores", "Guarantee", "Interval"]

Mask: TypeAlias = NDArray[np.bool_]


class Interval(NamedTuple):
    """An interval that encloses a number; each end is the double nearest to a fraction.

    Attributes
    ----------
    lower, upper : float
    """

    lower: float
    upper: float

    @property
    def width(self) -> float:
        """Their difference."""
        return self.upper - self.lower

    @property
    def is_number(self) -> bool:
        """Whether both ends are the same."""
        return self.lower == self.upper

    def __contains__(self, value: Any) -> bool:
        return bool(self.lower <= value <= self.upper)

    def __str__(self) -> str:
        return f"{self.lower:.6g}" if self.is_number else f"[{self.lower:.6g}, {self.upper:.6g}]"

    @classmethod
    def of(cls, lower: Fraction, upper: Fraction) -> Interval:
        """Round two fractions."""
        return cls(float(lower), float(upper))


@dataclass(frozen=True, eq=False, repr=False)
class CertifiedScores:
    """Intervals of the scores of every optimal machine."""

    lower: Floats
    upper: Floats
    possible: Mask
    classes: NDArray[Any]
    by_formulation: Mask

    def __post_init__(self) -> None:
        if (self.lower > self.upper).any():
            raise NotCertified(
                "the ends of an interval of a score contradict each other; please report this as a"
                " defect"
            )

    @property
    def decided(self) -> Mask:
        """Whether every optimal machine predicts the same class."""
        return np.asarray(self.possible.sum(axis=1) == 1)

    @property
    def undecided(self) -> Mask:
        """Whether more than one class is possible."""
        return ~self.decided

    @property
    def by_gap(self) -> Mask:
        """Rows that are undecided, and not by the formulation: a smaller gap may decide them."""
        return self.undecided & ~self.by_formulation

    @property
    def labels(self) -> NDArray[Any]:
        """The class that every optimal machine predicts, None where that is undecided; an array of
        objects.
        """
        found = np.empty(self.possible.shape[0], dtype=object)
        names = self.classes.tolist()
        for i in np.flatnonzero(self.decided):
            found[i] = names[int(np.argmax(self.possible[i]))]
        return found

    def __repr__(self) -> str:
        rows = quantity(self.possible.shape[0], "row")
        left = int(self.undecided.sum())
        formulation = int((self.undecided & self.by_formulation).sum())
        why = f", {formulation} of them by the formulation" if formulation else ""
        return f"CertifiedScores({rows}, {left} undecided{why})"


class Guarantee(ShortRepr, ABC):
    """Guarantees on every optimal machine of a problem; see :func:`guarantee`.

    Attributes
    ----------
    classes : ndarray of shape (c,)
        Sorted labels.
    """

    classes: NDArray[Any]

    @abstractmethod
    def scores(self, T: Any) -> CertifiedScores:
        """Return the intervals of the scores of some rows.

        Parameters
        ----------
        T : array-like or sparse matrix of shape (m, d)
            Test rows.

        Returns
        -------
        CertifiedScores
            One interval a row, and the labels that they decide.
        """

    @property
    @abstractmethod
    def radius(self) -> float:
        r"""At least the distance of the optimal w from the mean m of model and dual point; the
        largest of several machines.
        """

    def save_proof(self, path: str | os.PathLike[str], T: Any) -> None:
        """Write the intervals of the scores of rows to a file that :func:`svmcvx.verify` checks.

        The file is that of :meth:`svmcvx.Solution.save_proof` with the intervals, the labels that
        they decide, and a digest of the rows. The claimed intervals are those that the second
        checker computes, too, from the model, the dual point and its own choice of coefficients.

        Parameters
        ----------
        path : path-like
            By convention ``*.npz``; an existing file is replaced as a whole.
        T : array-like or sparse matrix of shape (m, d)
            Test rows.

        Raises
        ------
        DataError
            If there is no proof of these scores to hand on: of several classes (save one of each of
            the ``members`` of machines of pairs), or where :meth:`svmcvx.Solution.save_proof`
            raises one.
        SolverUnavailable
            If python-flint is not installed.
        """
        write_proof(path, self.proof(T))

    def proof(self, T: Any) -> Proof:
        """Return what :meth:`save_proof` writes."""
        raise DataError(f"there is no proof of scores to hand on: {self._no_proof}")

    # Why there is no proof.
    _no_proof: ClassVar[str] = (
        "the second checker knows the theorem for machines of two classes only"
    )

    def predict(self, T: Any) -> NDArray[Any]:
        """Return the class of each row of `T` that every optimal machine predicts, or None."""
        return self.scores(T).labels

    def decided(self, T: Any) -> Mask:
        """Return whether every optimal machine predicts the same class of each row of `T`."""
        return self.scores(T).decided

    def accuracy(self, T: Any, y: Any) -> Interval:
        """Return an interval of the share of rows that an optimal machine predicts rightly.

        The ends are the doubles nearest to the fractions; one number where no row that matters is
        undecided.

        Parameters
        ----------
        T : array-like or sparse matrix of shape (m, d)
            Test rows.
        y : array-like of shape (m,)
            Labels among :attr:`classes`.

        Returns
        -------
        Interval
            Its ends are shares of the rows.

        Raises
        ------
        DataError
            If there is no label a row, or one that the machine does not know.
        """
        low, high, _ = self._right(T, y)
        return Interval.of(_mean(low), _mean(high))

    def error(self, T: Any, y: Any) -> Interval:
        """Return an interval of the share of wrong predictions; see :meth:`accuracy`."""
        low, high, _ = self._right(T, y)
        return Interval.of(1 - _mean(high), 1 - _mean(low))

    def balanced_accuracy(self, T: Any, y: Any) -> Interval:
        """Return an interval of the mean accuracy of the classes in `y`; see :meth:`accuracy`."""
        low, high, codes = self._right(T, y)
        present = np.unique(codes)
        ends = [
            sum((_mean(right[codes == k]) for k in present), Fraction(0)) / present.size
            for right in (low, high)
        ]
        return Interval.of(ends[0], ends[1])

    def auc(self, T: Any, y: Any) -> Interval:
        """Return an interval of the area under the ROC curve, for labels `y` of both classes."""
        if self.classes.size != 2:
            raise DataError(
                "the area under the ROC curve is that of two classes, and here are"
                f" {self.classes.size}"
            )
        scores = self.scores(T)
        codes = self._codes(y, scores.possible.shape[0])
        if np.unique(codes).size < 2:
            raise DataError(
                "y holds one class only; the area under the ROC curve compares rows of both"
            )
        positive, negative = codes == 1, codes == 0
        pairs = int(positive.sum()) * int(negative.sum())
        # A pair is in order for certain where the lower end of one is above the upper end of the
        # other; equal ends are a tie at worst.
        low = _wins(scores.lower[positive], scores.upper[negative])
        high = _wins(scores.upper[positive], scores.lower[negative])
        return Interval.of(Fraction(low, 2 * pairs), Fraction(high, 2 * pairs))

    def compare(self, other: Guarantee, T: Any, y: Any) -> Interval:
        """Return an interval of this machine's accuracy less another's on the same rows.

        Both ends have the same sign where one machine is proved to be the better one on these rows.
        """
        if not isinstance(other, Guarantee):
            raise DataError(f"compare takes a Guarantee, got {type(other).__name__}")
        low, high, _ = self._right(T, y)
        other_low, other_high, _ = other._right(T, y)
        return Interval.of(_mean(low) - _mean(other_high), _mean(high) - _mean(other_low))

    def _codes(self, y: Any, m: int) -> NDArray[np.intp]:
        labels = as_array(y, "y")
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 1 else labels
        if labels.shape != (m,):
            raise DataError(
                f"y must hold one label for each of the {m} rows, got shape {labels.shape}"
            )
        codes = np.full(m, -1, dtype=np.intp)
        for k, name in enumerate(self.classes.tolist()):
            codes[np.asarray(labels == name, dtype=bool)] = k
        if (codes < 0).any():
            unknown = labels[codes < 0][0]
            raise DataError(f"y holds {unknown!r}, and the machine knows {self.classes.tolist()}")
        return codes

    def _right(self, T: Any, y: Any) -> tuple[Mask, Mask, NDArray[np.intp]]:
        """Return which rows are right for certain, which may be, and the codes of the labels."""
        possible = self.scores(T).possible
        codes = self._codes(y, possible.shape[0])
        may = possible[np.arange(codes.size), codes]
        return may & (possible.sum(axis=1) == 1), may, codes


def _mean(right: Mask) -> Fraction:
    return Fraction(int(np.count_nonzero(right)), right.size)


def _wins(one: Floats, other: Floats) -> int:
    """Return twice the number of pairs in which the first is the larger, and the number of ties."""
    ordered = np.sort(other)
    below, up_to = np.searchsorted(ordered, one, "left"), np.searchsorted(ordered, one, "right")
    return int(below.sum()) + int(up_to.sum())
