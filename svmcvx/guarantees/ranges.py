r"""Scores of every optimal machine for all C between two values at once.

Between solutions at :math:`C_0 < C_1`, :math:`C = (1-t)C_0 + tC_1`, the mixed pair :math:`\hat w_t = (1-t)\hat w_0 + t\hat w_1`,
:math:`a_t = (1-t)a_0 + ta_1` is a model and a feasible dual point of the problem at C, as the boxes grow with C. With the losses
:math:`\ell_j` of the two models at C = 1, and since the losses are convex and the dual objective is jointly concave in (a, C),

.. math:: U_t - L_t \le (1-t)(U_0 - L_0) + t(U_1 - L_1)
    + t(1-t)\big[(C_1-C_0)(\ell_0-\ell_1) - \tfrac12\|\hat w_0-\hat w_1\|^2 - \tfrac12\|w_{a_0}-w_{a_1}\|^2\big].

The last two terms are together at least :math:`\|m_0 - m_1\|^2`. So the theorem of :mod:`svmcvx.guarantees.perturbed` holds for all t with

.. math:: \rho^2 = \max_j(U_j - L_j) + \tfrac14\big[(C_1-C_0)(\ell_0-\ell_1) - \|m_0-m_1\|^2\big]_+,

coefficients c and a step η that are the same for all t, the smaller room of each multiplier (it is linear in t), and of each term that
depends on t the worse end: the scores of m are linear in t, the slope :math:`1 - a_i/(2Cs_i)` of p = 2 is a quotient of linear functions
and so monotone, and the curvature :math:`1/(2Cs_i)` is largest at :math:`C_0`.

**Source.** [NdiayeLeFercoq] and [ShibagakiEtAl] bound validation errors over ranges of a parameter by balls; the intercept is free here, and both ends are mixed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.core.bounded import Bounded, between, exact
from svmcvx.errors import DataError
from svmcvx.formulations.margin.psvm import PSVM
from svmcvx.guarantees.binary import BinaryGuarantee, binary_guarantee
from svmcvx.guarantees.multipliers import AffineTerms, DualTerms, Multipliers, QuadraticTerms
from svmcvx.guarantees.perturbed import BLOCK, LEAST_SQUARE, Chosen, ScoreBounds, Theorem
from svmcvx.guarantees.points import Tested
from svmcvx.solution import Solution

__all__ = ["Node", "over_range"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Node:
    """A solution of pSVM with p = 1 or 2, and what it says of some rows.

    Parameters
    ----------
    C, p : float
    found : BinaryGuarantee
    losses : Bounded
        Of its model, at C = 1.
    rows : ndarray of shape (m, d)
        Those whose scores are wanted.
    """

    C: float
    p: float
    found: BinaryGuarantee
    losses: Bounded
    rows: Floats

    @classmethod
    def of(cls, solution: Solution, X: Floats, y: NDArray[np.generic], rows: Floats) -> Node:
        """Bind a solution to its data.

        Raises
        ------
        DataError
            If it is none of pSVM with p = 1 or 2 and a free intercept.
        """
        if solution.formulation != "psvm" or solution.hyperparameters["p"] not in (1, 2):
            raise DataError("ranges of C are for pSVM with p = 1 or p = 2 and a free intercept")
        C, p = solution.hyperparameters["C"], solution.hyperparameters["p"]
        found = binary_guarantee(solution, X, y)
        # At C = 1: neither p nor the model depends on it.
        losses = PSVM(space=found.space, C=1.0, p=p).losses(found.model)
        return cls(C, p, found, losses, found._checked(rows))

    @cached_property
    def tested(self) -> list[Tested]:
        """The rows, prepared in pieces."""
        width = max(1, BLOCK // max(self.found.space.data.n, self.rows.shape[1]))
        points = self.found.theorem.points
        return [points.tested(self.rows[start : start + width]) for start in range(0, self.rows.shape[0], width)]

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """Which of the two classes optimal machines at C may predict, shape (m, 2)."""
        return self.found.scores(self.rows).possible


@dataclass(frozen=True, eq=False)
class _OverRange(Theorem):
    """The theorem for all C between two nodes.

    `points` are those of the first, and `multipliers` have the smaller rooms, slopes between those of both ends, and the larger curvatures.
    """

    ends: tuple[Node, Node]

    @cached_property
    def squared_radius(self) -> float:
        """At least ρ²."""
        one, other = self.ends
        gap = max(one.found.theorem.gap, other.found.theorem.gap)
        apart = one.found.theorem.points.distance_below(other.found.theorem.points)
        rise = (exact(other.C) - exact(one.C)) * (one.losses - other.losses) - exact(apart)
        return max((exact(gap) + 0.25 * exact(max(rise.upper_end, 0.0))).upper_end, LEAST_SQUARE)

    @cached_property
    def _targets(self) -> Bounded:
        """About the σg' − <m, φ>: which vectors are chosen rests on them, and no claim."""
        one, other = (node.found.theorem._targets for node in self.ends)
        return exact(0.5 * one.value + 0.5 * other.value)

    def _bases(self, T: Tested, rows: Chosen, c: Floats) -> list[Bounded]:
        """Both ends of a segment, of which each term is at its worse end."""
        assert isinstance(T, _Pair)  # noqa: S101 - prepared by over_range
        if not rows.size:
            return [tested.scores for tested in T.both]
        slopes: Bounded = (exact(self.multipliers.signs) * self.multipliers.terms.slopes)[rows] @ c
        return [
            tested.scores + slopes - node.found.theorem.points.training_scores(rows) @ c
            for tested, node in zip(T.both, self.ends, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class _Pair(Tested):
    """Rows prepared at both ends: distances do not depend on the end."""

    both: tuple[Tested, Tested]

    def some(self, chosen: Chosen) -> _Pair:
        """Some of the rows, at both ends."""
        return _Pair((self.both[0].some(chosen), self.both[1].some(chosen)))

    @property
    def scores(self) -> Bounded:
        """At the first end."""
        return self.both[0].scores

    def products(self, rows: Chosen) -> Floats:
        """As at either end."""
        return self.both[0].products(rows)

    def squared_lengths(self) -> Floats:
        """As at either end."""
        return self.both[0].squared_lengths()

    def squared_distances(self, rows: Chosen, c: Floats) -> Floats:
        """As at either end."""
        return self.both[0].squared_distances(rows, c)


def over_range(one: Node, other: Node) -> NDArray[np.bool_]:
    """Return which of the two classes some optimal machine may predict for some C between two nodes, shape (m, 2).

    Parameters
    ----------
    one, other : Node
        Of the same data, rows and p, the smaller C first.
    """
    ends = (one, other)
    first, last = (node.found.theorem.multipliers for node in ends)
    slopes = [multipliers.terms.slopes for multipliers in (first, last)]
    terms: DualTerms = AffineTerms(first.values.size)
    if one.p == 2:
        low = np.minimum(*(np.asarray(slope.lower) for slope in slopes))
        high = np.maximum(*(np.asarray(slope.upper) for slope in slopes))
        assert isinstance(first.terms, QuadraticTerms)  # noqa: S101 - the terms of p = 2
        terms = QuadraticTerms(between(low, high), first.terms.curvature)
    multipliers = Multipliers(
        np.minimum(first.values, last.values), first.signs, np.minimum(first.above, last.above), first.balanced, terms
    )
    theorem = _OverRange(one.found.theorem.points, multipliers, 0.0, ends)
    found = []
    for both in zip(one.tested, other.tested, strict=True):
        pair = _Pair(both)
        bounds: ScoreBounds = theorem.bounds(pair, pair.scores.value.size)
        found.append(np.column_stack([~(bounds.lower > 0.0), bounds.upper > 0.0]))
    return np.concatenate(found)
