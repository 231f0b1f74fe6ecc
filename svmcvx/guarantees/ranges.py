r"""Scores of every optimal machine for all C between two values at once.

Between solutions at :math:`C_0 < C_1`, :math:`C = (1-t)C_0 + tC_1`, the mixed pair :math:`\hat w_t
= (1-t)\hat w_0 + t\hat w_1`, :math:`a_t = (1-t)a_0 + ta_1` is a model and a feasible dual point of
the problem at C, as the boxes grow with C. With the losses :math:`\ell_j` of the two models at C =
1, and since the losses are convex and the dual objective is jointly concave in (a, C),

.. math:: U_t - L_t \le (1-t)(U_0 - L_0) + t(U_1 - L_1)
    + t(1-t)\big[(C_1-C_0)(\ell_0-\ell_1) - \tfrac12\|\hat w_0-\hat w_1\|^2
    - \tfrac12\|w_{a_0}-w_{a_1}\|^2\big].

The last two terms are together at least :math:`\|m_0 - m_1\|^2`. So the theorem of
:mod:`svmcvx.guarantees.theorem` holds for all t with

.. math:: \rho^2 = \max_j(U_j - L_j) + \tfrac14\big[(C_1-C_0)(\ell_0-\ell_1) - \|m_0-m_1\|^2\big]_+,

coefficients c and a step η that are the same for all t, the smaller room of each multiplier (it is
linear in t), and of each term that depends on t the worse end: the scores of m are linear in t; the
quotient :math:`x_i = a_i/(Cs_ip)` of linear functions, and so the slope :math:`1 - x_i^{1/(p-1)}`,
is monotone. The curvature :math:`1/(2Cs_i)` of p = 2 is largest at :math:`C_0`. For other p > 1 a
step of δ moves x by at most :math:`\delta/(C_0s_ip)`; the slack :math:`x^{1/(p-1)}` is convex for p
≤ 2, where it changes most from the larger of both x, and concave for p ≥ 2, where it does from the
smaller one (or from the length of the step down, where that is more: multipliers stay positive).

ODM is the same with :math:`C_1 = C` and :math:`C_2` a fixed multiple of C, or constant, as its
objective is affine in C and its dual objective jointly concave. Multipliers that have not one sign
at both ends are left as they are.

**Source.** [NdiayeLeFercoq] and [ShibagakiEtAl] bound validation errors over ranges of a parameter
by balls; the intercept is free here, and both ends are mixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import Bounded, between, exact, maximum
from svmcvx.data import Features
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.margin import PSVM
from svmcvx.formulations.margin_distribution import ODM
from svmcvx.guarantees.binary import BinaryGuarantee, guarantee_in
from svmcvx.guarantees.theorem import Chosen, DualTerms, PowerTerms, QuadraticTerms, Tested, Theorem
from svmcvx.model import BinaryModel

__all__ = ["Node", "Point", "over_range", "squared_radius"]


@dataclass(frozen=True, eq=False)
class Point:
    """A model and a dual point of a problem, whoever made them."""

    formulation: str
    hyperparameters: Mapping[str, Any]
    model: BinaryModel
    dual: Dual
    optimal_intercepts: None = None


@dataclass(frozen=True, eq=False)
class Node:
    """A point at a value of C, and what it says of some rows."""

    value: float
    found: BinaryGuarantee
    losses: Bounded
    rows: Features

    @classmethod
    def of(cls, point: Point, names: tuple[str, ...], space: FeatureSpace, rows: Any) -> Node:
        """Bind a point to its data."""
        own = point.hyperparameters
        value = float(own[names[0]])
        found = guarantee_in(space, point)
        if point.formulation == "odm":
            weights = {name: own[name] / value if name in names else 0.0 for name in ("C1", "C2")}
            losses = ODM(space=space, D=own["D"], **weights).losses(point.model)
        else:
            losses = PSVM(space=space, C=1.0, p=own["p"]).losses(point.model)
        return cls(value, found, losses, found._checked(rows))

    @property
    def gap(self) -> float:
        """At least the width of the interval."""
        return self.found.theorem.gap

    @cached_property
    def tested(self) -> list[Tested]:
        """The rows, prepared in pieces."""
        return list(self.found.theorem.prepared(self.rows))

    @cached_property
    def possible(self) -> NDArray[np.bool_]:
        """Which of the two classes optimal machines at C may predict, shape (m, 2)."""
        return self.found.scores(self.rows).possible


@dataclass(frozen=True)
class _PowerTermsOverRange(PowerTerms):
    """Terms of a power p > 1 for all C of a range, at the multipliers of largest change."""

    given: Bounded

    @cached_property
    def slopes(self) -> Bounded:
        return self.given

    def _starts(self, rows: Chosen, change: Bounded) -> Bounded:
        """For p > 2 not less than what a step takes away."""
        alpha = super()._starts(rows, change)
        return maximum(alpha, exact(np.maximum((-change).upper, 0.0))) if self.p > 2.0 else alpha


@dataclass(frozen=True, eq=False)
class OverRange(Theorem):
    """The theorem for all C between two nodes."""

    ends: tuple[Node, Node]

    @property
    def _rho(self) -> Bounded:
        one, other = self.ends
        centres: list[Any] = [node.found.theorem.points for node in self.ends]
        apart = centres[0].distance_below(centres[1])
        rise = (exact(other.value) - exact(one.value)) * (one.losses - other.losses) - exact(apart)
        found: Bounded = exact(max(one.gap, other.gap)) + 0.25 * exact(max(rise.upper_end, 0.0))
        return found

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
            tested.scores + slopes - node.found.theorem.points.training.scores[rows] @ c
            for tested, node in zip(T.both, self.ends, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class _Pair:
    """Rows prepared at both ends; all but the scores is as at the first one."""

    both: tuple[Tested, Tested]

    def some(self, chosen: Chosen) -> _Pair:
        return _Pair((self.both[0].some(chosen), self.both[1].some(chosen)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self.both[0], name)


def _over_range(one: Node, other: Node) -> OverRange:
    first, last = (node.found.theorem.multipliers for node in (one, other))
    alike = first.signs == last.signs
    slopes = [multipliers.terms.slopes for multipliers in (first, last)]
    low = np.minimum(*(np.asarray(slope.lower) for slope in slopes))
    high = np.maximum(*(np.asarray(slope.upper) for slope in slopes))
    terms: DualTerms = first.terms
    if isinstance(first.terms, QuadraticTerms):
        terms = QuadraticTerms(between(low, high), first.terms.curvature)
    elif isinstance(first.terms, PowerTerms):
        p, carried = first.terms.p, exact(last.values) * (exact(one.value) / exact(other.value))
        at_last = carried.upper if p <= 2.0 else np.maximum(carried.lower, 0.0)
        worse = (np.maximum if p <= 2.0 else np.minimum)(first.values, at_last)
        terms = _PowerTermsOverRange(worse, first.terms.cost, p, between(low, high))
    multipliers = replace(
        first,
        values=np.where(alike, np.minimum(first.values, last.values), 0.0),
        above=np.where(alike, np.minimum(first.above, last.above), 0.0),
        terms=terms,
    )
    return OverRange(one.found.theorem.points, multipliers, 0.0, (one, other))


def squared_radius(one: Node, other: Node) -> float:
    """Return the squared radius that holds for all C between two nodes."""
    return _over_range(one, other).squared_radius


def over_range(one: Node, other: Node) -> NDArray[np.bool_]:
    """Return which classes an optimal machine may predict between two nodes, shape (m, 2)."""
    theorem = _over_range(one, other)
    found = []
    for both in zip(one.tested, other.tested, strict=True):
        pair: Any = _Pair(both)
        lower, upper = theorem.bounds(pair)
        found.append(np.column_stack([~(lower > 0.0), upper > 0.0]))
    return np.concatenate(found)
