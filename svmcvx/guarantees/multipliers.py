r"""Multipliers of a machine, and what changing them costs its dual objective.

A machine's dual objective is :math:`\sum_i g_i(a_i) - \tfrac12\|\sum_i\sigma_i a_i\varphi(x_i)\|^2`
with concave functions g and signs σ; the multipliers have room, upwards and downwards, and Σσa = 0
where an intercept is free (:class:`Multipliers`). The theorem of :mod:`svmcvx.guarantees.perturbed`
changes them by ±ηd and needs, from above,

.. math:: g_i(a_i) + g_i'(a_i)\,\delta_i - g_i(a_i + \delta_i) \ge 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.core.bounded import (
    Bounded,
    between,
    exact,
    exp,
    log,
    positive_part,
    quietly,
    square,
    where,
)
from svmcvx.core.rows import sums_above

__all__ = [
    "AffineTerms",
    "DualTerms",
    "EntropyTerms",
    "Multipliers",
    "PowerTerms",
    "QuadraticTerms",
    "room_above",
]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]


class DualTerms(ABC):
    """The concave functions g of the dual objective at the multipliers of an optimal model."""

    @property
    @abstractmethod
    def slopes(self) -> Bounded:
        """Their derivatives at the multipliers, shape (n,)."""

    @property
    @abstractmethod
    def curvatures(self) -> Floats:
        """About minus their second derivatives, shape (n,); no claim rests on them."""

    @abstractmethod
    def shortfall(self, rows: Rows, d: Floats, step: Floats) -> Floats:
        """Return upper bounds of tangent minus g after a step, divided by the step; not negative."""


def column_sums_above(values: Floats) -> Floats:
    """Return numbers that are at least the sums of columns of numbers that are not negative."""
    return np.asarray(sums_above(values.sum(axis=0), values.shape[0]))


@dataclass(frozen=True)
class AffineTerms(DualTerms):
    """The terms g(a) = a, for losses with a linear conjugate such as the hinge."""

    n: int

    @property
    def slopes(self) -> Bounded:
        """1."""
        return exact(np.ones(self.n))

    @property
    def curvatures(self) -> Floats:
        """0."""
        return np.zeros(self.n)

    def shortfall(self, rows: Rows, d: Floats, step: Floats) -> Floats:
        """0."""
        return np.zeros(d.shape[1])


@dataclass(frozen=True)
class QuadraticTerms(DualTerms):
    """Quadratic terms, for squared losses."""

    given: Bounded
    curvature: Bounded

    @property
    def slopes(self) -> Bounded:
        """As given."""
        return self.given

    @property
    def curvatures(self) -> Floats:
        """As given."""
        found: Floats = self.curvature.value
        return found

    def shortfall(self, rows: Rows, d: Floats, step: Floats) -> Floats:
        """½ηΣrd²."""
        squares = np.asarray(square(exact(d)).upper)
        terms = (exact(squares) * self.curvature[rows][:, None]).upper
        return np.asarray(
            (exact(column_sums_above(np.maximum(terms, 0.0))) * exact(step) * 0.5).upper
        )


@dataclass(frozen=True)
class PowerTerms(DualTerms):
    """Terms of the hinge to a power p > 1: :math:`a` less its conjugate, whose derivative is the
    slack :math:`(a/Cs p)^{1/(p-1)}`.
    """

    alpha: Floats
    cost: Bounded
    p: float

    @cached_property
    def slopes(self) -> Bounded:
        """1 − ξ."""
        low, high = self._slacks(exact(self.alpha), np.arange(self.alpha.size))
        return 1.0 - between(low, high)

    @cached_property
    @quietly
    def curvatures(self) -> Floats:
        """ξ/((p − 1)a); at 0 that of the slack 1."""
        xi = 1.0 - self.slopes.value
        a = np.where(self.alpha > 0.0, self.alpha, self.p * self.cost.value)
        return np.asarray(np.where(self.alpha > 0.0, xi, 1.0) / ((self.p - 1.0) * a))

    def _slacks(self, a: Bounded, rows: Rows) -> tuple[Floats, Floats]:
        """Return lower and upper ends of the slacks of multipliers, which are not negative, by
        monotony.
        """
        ends = (np.maximum(a.lower, 0.0), np.maximum(a.upper, 0.0))
        cost = self.cost[rows]
        cost = cost if a.value.ndim == 1 else cost[:, None]
        low, high = (self._slack(end, cost) for end in ends)
        lower = np.where(ends[0] > 0.0, np.maximum(low.lower, 0.0), 0.0)
        return lower, np.where(ends[1] > 0.0, high.upper, 0.0)

    @quietly
    def _slack(self, a: Floats, cost: Bounded) -> Bounded:
        p = exact(self.p)
        found: Bounded = exp(log(exact(a) / (cost * p)) / (p - 1.0))
        return found

    def _starts(self, rows: Rows, change: Bounded) -> Bounded:
        """Return where the steps begin, shape (r, 1) or (r, m)."""
        return exact(self.alpha[rows][:, None])

    @quietly
    def shortfall(self, rows: Rows, d: Floats, step: Floats) -> Floats:
        """Σ|d| times a bound on the mean change of the slack along the step."""
        change = exact(d) * exact(step)[None, :]
        alpha = self._starts(rows, change)
        low, high = self._slacks(alpha, rows)
        ends = (d > 0.0) == (self.p <= 2.0)
        share = np.where(ends, 1.0, 0.5)
        moved = positive_part(alpha + change * exact(share))
        least, largest = self._slacks(moved, rows)
        grown = where(d > 0.0, exact(largest) - low, exact(high) - least)
        # Half of it where it is between the ends of the step.
        terms = positive_part(grown) * np.where(ends, 0.5, 1.0) * np.abs(d)
        return column_sums_above(np.where(d == 0.0, 0.0, terms.upper))


@dataclass(frozen=True)
class EntropyTerms(DualTerms):
    """Entropies of a multiplier and of the rest of its weight, for softmax and logistic losses."""

    alpha: Floats
    left: Bounded

    @cached_property
    @quietly
    def slopes(self) -> Bounded:
        """log(r/a); nothing is known where one of them may be 0."""
        found: Bounded = log(self.left / exact(self.alpha))
        return found

    @cached_property
    @quietly
    def curvatures(self) -> Floats:
        """1/a + 1/r, infinite where nothing is known."""
        found = 1.0 / self.alpha + 1.0 / self.left.value
        known = np.isfinite(self.slopes.error) & (self.alpha > 0.0) & (self.left.lower > 0.0)
        return np.asarray(np.where(known, found, np.inf))

    @quietly
    def shortfall(self, rows: Rows, d: Floats, step: Floats) -> Floats:
        """The bounds of both entropies."""
        change = exact(d) * exact(step)[None, :]
        found = exact(np.zeros(d.shape))
        for size, moved in ((exact(self.alpha[rows]), change), (self.left[rows], -change)):
            t = moved / size[:, None]
            terms = abs(exact(d)) * abs(t) * (0.5 - t / 6.0 + square(t) / 3.0)
            found = found + exact(np.maximum(terms.upper, 0.0))
        return column_sums_above(np.where(d == 0.0, 0.0, found.upper))


@dataclass(frozen=True)
class Multipliers:
    """A feasible dual point."""

    values: Floats
    signs: Floats
    above: Floats
    balanced: bool
    terms: DualTerms
    below: Floats | None = None

    @property
    def down(self) -> Floats:
        """How much each may fall."""
        return self.values if self.below is None else self.below

    def room(self, rows: Rows, d: Floats) -> Floats:
        """Return the rooms of some multipliers in the directions of `d`; infinite where it is 0."""
        up, down = self.above[rows], self.down[rows]
        shape = (slice(None),) + (None,) * (d.ndim - 1)
        return np.where(d > 0.0, up[shape], np.where(d < 0.0, down[shape], np.inf))


def room_above(values: Floats, bound: Any) -> Floats:
    """Return numbers that are at most bound − value, not negative; the bound is plain."""
    if np.ndim(bound) == 0 and np.isinf(bound):
        return np.full(values.size, np.inf)
    bound = np.broadcast_to(np.asarray(bound, dtype=np.float64), values.shape)
    found = (exact(np.where(np.isinf(bound), 0.0, bound)) - exact(values)).lower
    return np.where(np.isinf(bound), np.inf, np.maximum(found, 0.0))
