"""Guarantees of several classes by binary machines: votes of pairs as intervals, or one score a
class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.core.bounded import roundings
from svmcvx.data import CodedLabels, check_features, check_labels
from svmcvx.errors import DataError
from svmcvx.guarantees.answers import CertifiedScores, Guarantee
from svmcvx.guarantees.binary import BinaryGuarantee, binary_guarantee
from svmcvx.kernels import Precomputed
from svmcvx.model import OneVsModel
from svmcvx.solution import Solution

__all__ = ["MemberProblem", "OneVsGuarantee", "beaten", "member_problems", "one_vs_guarantee"]

Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, repr=False)
class OneVsGuarantee(Guarantee):
    """Guarantees on every combination of optimal binary machines; see :func:`svmcvx.guarantee`."""

    classes: NDArray[Any]
    scheme: str
    members: tuple[BinaryGuarantee, ...]
    by_sums: bool = True

    def __repr__(self) -> str:
        return (
            f"OneVsGuarantee({self.scheme!r}, {len(self.members)} machines, radius"
            f" {self.radius:.2g})"
        )

    @property
    def radius(self) -> float:
        """The largest of the members'."""
        return max(member.radius for member in self.members)

    def scores(self, T: Any) -> CertifiedScores:
        """Return the intervals of the members' scores, and the classes that they leave."""
        found = [member.scores(T) for member in self.members]
        lower = np.column_stack([scores.lower for scores in found])
        upper = np.column_stack([scores.upper for scores in found])
        if self.scheme == "ovr":
            keys = [(lower, upper)]
        else:
            wins = np.stack([scores.possible for scores in found])
            keys = [self._votes(wins)]
            if self.by_sums:
                keys.append(self._sums(lower, upper))
        possible = ~beaten(keys)
        by_gap = np.any([scores.by_gap for scores in found], axis=0)
        return CertifiedScores(
            lower,
            upper,
            possible,
            self.classes,
            (possible.sum(axis=1) > 1) & ~by_gap & self._open(found),
        )

    @property
    def _no_proof(self) -> str:
        return (
            "it is about several machines; save one of each, as in"
            " guarantee.members[0].save_proof(path, T)"
        )

    @staticmethod
    def _open(found: list[CertifiedScores]) -> Mask:
        """Rows of which a member is undecided by the formulation."""
        return np.asarray(
            np.any([scores.undecided & scores.by_formulation for scores in found], axis=0)
        )

    def _votes(self, wins: NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """The least and the largest number of votes of each class, from which classes of each pair
        are possible.
        """
        m = wins.shape[1]
        low, high = np.zeros((m, self.classes.size)), np.zeros((m, self.classes.size))
        for pair, (k, other) in zip(wins, combinations(range(self.classes.size), 2), strict=True):
            for column, own in ((k, 0), (other, 1)):
                high[:, column] += pair[:, own]
                low[:, column] += pair[:, own] & ~pair[:, 1 - own]
        return low, high

    def _sums(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Intervals of the sum of the scores for each class, negated where it is the earlier one of
        a pair.
        """
        m, c = lower.shape[0], self.classes.size
        low, high, size = np.zeros((m, c)), np.zeros((m, c)), np.zeros((m, c))
        for pair, (k, other) in enumerate(combinations(range(c), 2)):
            a, b = lower[:, pair], upper[:, pair]
            low[:, other], high[:, other] = low[:, other] + a, high[:, other] + b
            low[:, k], high[:, k] = low[:, k] - b, high[:, k] - a
            largest = np.maximum(np.abs(a), np.abs(b))
            size[:, other] += largest
            size[:, k] += largest
        # Sums of c − 1 numbers in any order.
        off = size * roundings(2 * c)
        with np.errstate(invalid="ignore"):
            low, high = low - off, high + off
        return np.nan_to_num(low, nan=-np.inf, posinf=np.inf, neginf=-np.inf), np.nan_to_num(
            high, nan=np.inf, posinf=np.inf, neginf=-np.inf
        )


def beaten(keys: list[tuple[Floats, Floats]]) -> Mask:
    """Return which classes another one surely goes before: by the first key, where that is equal by
    the next, last by their order.
    """
    m, c = keys[0][0].shape
    found = np.zeros((m, c), dtype=bool)
    for k, other in ((k, other) for k in range(c) for other in range(c) if k != other):
        before = np.full(m, other < k)
        for low, high in reversed(keys):
            ahead, level = low[:, other] > high[:, k], low[:, other] == high[:, k]
            before = ahead | (level & before)
        found[:, k] |= before
    return found


class MemberProblem(NamedTuple):
    """One of the binary problems of a solution."""

    solution: Solution
    rows: NDArray[np.intp]
    X: Any
    y: CodedLabels


def member_problems(solution: Solution, X: Any, y: Any) -> dict[Any, MemberProblem]:
    """Return the binary problems of a solution of several, by the keys of its parts."""
    model = solution.model
    if not isinstance(model, OneVsModel):
        raise DataError(f"there are no guarantees of several problems of {solution.formulation}")
    features = check_features(X)
    codes, classes = check_labels(y, features.shape[0])
    if not np.array_equal(classes, model.classes):
        raise DataError(
            f"y holds the classes {classes.tolist()}, and the solution is about"
            f" {model.classes.tolist()}"
        )
    every = np.arange(codes.size)
    sides: list[tuple[NDArray[np.intp], NDArray[np.bool_], NDArray[Any]]]
    if model.scheme == "ovo":
        pairs = combinations(range(classes.size), 2)
        sides = [
            (np.flatnonzero((codes == k) | (codes == q)), codes == q, classes[[k, q]])
            for k, q in pairs
        ]
    else:
        sides = [(every, codes == k, np.arange(2)) for k in range(classes.size)]
    found = {}
    for (key, part), (rows, positive, labels) in zip(solution.parts.items(), sides, strict=True):
        own: Any = part.model
        inside = features if rows.size == codes.size else features[rows]
        if isinstance(getattr(own, "kernel", None), Precomputed) and rows.size < codes.size:
            inside = inside[:, rows]
        coded = CodedLabels(positive[rows].astype(np.intp), labels, inside)
        # Models of parts count rows of all data.
        counted = replace(part, model=replace(own, support=np.searchsorted(rows, own.support)))
        found[key] = MemberProblem(counted, rows, inside, coded)
    return found


def one_vs_guarantee(solution: Solution, X: Any, y: Any, *, by_sums: bool) -> OneVsGuarantee:
    """Return the guarantee of the solutions of several binary problems; see
    :func:`svmcvx.guarantee`.
    """
    problems = member_problems(solution, X, y)
    model: Any = solution.model
    members = tuple(binary_guarantee(one.solution, one.X, one.y) for one in problems.values())
    return OneVsGuarantee(
        classes=model.classes, scheme=model.scheme, members=members, by_sums=by_sums
    )
