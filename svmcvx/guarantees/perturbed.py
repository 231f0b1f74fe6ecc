r"""Intervals of the scores of every optimal machine, from one model and one dual point.

**Setting.** :math:`P(w, b) = \tfrac12\|w\|^2 + \sum_i\ell_i(w, b)` with its dual objective
:math:`D(a) = \sum_i g_i(a_i) - \tfrac12\|w_a\|^2`, :math:`w_a = \sum_i\sigma_ia_i\varphi(x_i)`;
where the intercept b is free, feasible multipliers have :math:`\sum_i\sigma_ia_i = 0`. U is at
least P at a model :math:`(\hat w, \hat b)`, L at most D at a feasible a, and

.. math:: m = \tfrac12(\hat w + w_a), \qquad \rho^2 = U - L - \tfrac14\|\hat w - w_a\|^2 \ge 0.

**Theorem.** Let :math:`c_i` be numbers, with :math:`\sum_ic_i = 1` if the intercept is free,
:math:`d_i = \sigma_ic_i`, :math:`h = \varphi(x) - \sum_ic_i\varphi(x_i)` and η > 0. If a + ηd is
within its box, every optimal machine has

.. math:: f^*(x) \ge \langle m, \varphi(x)\rangle + \sum_ic_i\big(\sigma_ig_i'(a_i) - \langle m, \varphi(x_i)\rangle\big)
    - \Big(\frac{\rho^2}{\eta} + \frac{\eta\|h\|^2}{4} + \frac{B(\eta d)}{\eta}\Big),

with :math:`B(\delta) = \sum_ig_i(a_i) + g_i'(a_i)\delta_i - g_i(a_i + \delta_i) \ge 0`; and if a −
ηd is within its box, f*(x) is at most the same two terms plus the bracket with B(−ηd).

*Proof.* Put β = a + ηd. For every (w, b), by the conjugates of the losses,

.. math:: P(w, b) + \eta f(x) \ge \tfrac12\|w\|^2 - \langle w, w_\beta - \eta\varphi(x)\rangle + \textstyle\sum_ig_i(\beta_i)
    = \tfrac12\|w - v\|^2 - \tfrac12\|v\|^2 + \textstyle\sum_ig_i(\beta_i), \qquad v = w_a - \eta h,

as b has the factor :math:`\eta - \sum_i\sigma_i\beta_i = 0`. At an optimum :math:`(w^*, b^*)`, and
with :math:`P^* + \tfrac12\|w^* - \hat w\|^2 \le U` [P − ½‖w‖² is convex and has the subgradient −w*
there] and ½‖p‖² + ½‖q‖² ≥ ¼‖p − q‖²,

.. math:: \eta f^*(x) \ge \textstyle\sum_ig_i(\beta_i) - \tfrac12\|v\|^2 + \tfrac14\|v - \hat w\|^2 - U;

expanding it in η gives the claim. It uses no optimality of a, and holds for every optimal
intercept. ∎

Without a free intercept c = 0 is allowed: :math:`|f^*(x) - \langle m, \varphi(x)\rangle| \le
\rho\|\varphi(x)\|`, the ball of safe screening [FercoqGramfortSalmon]. At the best η the half-width
is, without curvature B, :math:`\rho\|h\|`: what counts is the distance of φ(x) from the affine hull
of the vectors whose multipliers have room.

**Which c.** Any is valid. With :math:`B \approx \tfrac12\eta^2\sum_ir_ic_i^2` the bracket is least
at the minimum of :math:`\tfrac14\|h\|^2 + \tfrac12\sum_ir_ic_i^2`: one linear system for all x,
that of kriging. To r is added :math:`\rho^2/(2\,\mathrm{room}_i^2)`, so that η is not limited by a
multiplier with little room.

**Rounding.** The c are whole numbers of a grid 2^−k of sum 2^k: Σc = 1 exactly. η is cut until
:math:`\eta|d_i|` is at most the room for certain. All else is computed with bounds on its rounding
(:mod:`svmcvx.core.bounded`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.core.bounded import Bounded, exact, quietly, signed
from svmcvx.guarantees.multipliers import Multipliers
from svmcvx.guarantees.points import Points, Solver, Tested

__all__ = ["ScoreBounds", "Theorem", "on_grid"]

Floats: TypeAlias = NDArray[np.float64]
Chosen: TypeAlias = NDArray[np.intp]

# Bits of a coefficient, and of the sums of all: whole numbers of as many bits are doubles, and
# their sums 64-bit integers.
COEFFICIENT_BITS, SUM_BITS = 50, 62
# Less than the rounding of a quotient takes from it.
SHRINK = 1.0 - 2.0**-48
# Steps below this are none: their quotients may have underflowed.
LEAST_STEP = 2.0**-500
# The square of a radius is at least this, so that steps are positive.
LEAST_SQUARE = 2.0**-200
# Entries of the kernel between tested and training rows at once.
BLOCK = 2_000_000


class ScoreBounds(NamedTuple):
    """Lower and upper ends of the scores of every optimal machine, shape (m,)."""

    lower: Floats
    upper: Floats


def on_grid(c: Floats, taker: int) -> Floats:
    """Return columns near those of `c` whose sums are exactly 1; columns that cannot be are NaN."""
    r = c.shape[0]
    largest = np.abs(c).max(axis=0)
    usable = np.isfinite(largest) & (largest > 0.0)
    bits = min(COEFFICIENT_BITS, SUM_BITS - 1 - int(r).bit_length())
    # Coefficients below 2^e become whole numbers below 2^bits.
    exponent = np.frexp(np.where(usable, largest, 1.0))[1] - bits
    usable &= (exponent <= 0) & (exponent > -SUM_BITS)
    exponent = np.where(usable, exponent, 0)
    units = np.rint(np.ldexp(np.where(usable, c, 0.0), -exponent)).astype(np.int64)
    units[taker] += (np.int64(1) << (-exponent).astype(np.int64)) - units.sum(axis=0)
    usable &= np.abs(units[taker]) <= np.int64(1) << COEFFICIENT_BITS + 2
    found = np.ldexp(units.astype(np.float64), exponent)
    columns: Floats = np.where(usable, found, np.nan)
    return columns


@dataclass(frozen=True, eq=False)
class Theorem:
    """The theorem for one machine."""

    points: Points
    multipliers: Multipliers
    gap: float

    @cached_property
    def squared_radius(self) -> float:
        """At least ρ²."""
        return max(
            (exact(self.gap) - 0.25 * exact(self.points.separation_below())).upper_end, LEAST_SQUARE
        )

    @cached_property
    def _targets(self) -> Bounded:
        """The σg' − <m, φ> of all vectors."""
        dual = self.multipliers
        found: Bounded = signed(dual.signs, dual.terms.slopes)
        return found - self.points.training_scores(np.arange(dual.values.size))

    @cached_property
    @quietly
    def _systems(self) -> list[tuple[Chosen, Solver]]:
        """Vectors with room on both sides, with what solves their system: a few for all rows, more
        for those that these leave open.
        """
        dual = self.multipliers
        room = np.minimum(dual.down, dual.above)
        curvature = dual.terms.curvatures
        usable = np.flatnonzero((room > 0.0) & np.isfinite(curvature))
        added = 2.0 * curvature[usable] + self.squared_radius / room[usable] ** 2
        usable, added = usable[np.isfinite(added)], added[np.isfinite(added)]
        best = np.argsort(added, kind="stable")
        found = []
        for most in dict.fromkeys(min(most, usable.size) for most in self.points.row_limits):
            order = np.sort(best[:most])
            solver = self.points.solver(usable[order], added[order]) if most else None
            if solver is not None:
                found.append((usable[order], solver))
        return found

    def bounds(self, T: Tested, m: int) -> ScoreBounds:
        """Return the intervals of the scores of prepared rows, of which there are m."""
        found = ScoreBounds(np.full(m, -np.inf), np.full(m, np.inf))
        if not self.multipliers.balanced:
            self._tighten(found, T, np.zeros(0, dtype=np.intp), np.zeros((0, m)))
        for number, (rows, solver) in enumerate(self._systems):
            self._with_open(found, T, number == 0, partial(self._by_system, rows, solver))
        if self.multipliers.balanced:
            for side in (1.0, -1.0):
                self._with_open(found, T, False, partial(self._single, side))
        return found

    def _with_open(
        self,
        found: ScoreBounds,
        T: Tested,
        every: bool,
        tighten: Callable[[ScoreBounds, Tested], None],
    ) -> None:
        """Tighten the intervals of all rows, or of those whose sign is open."""
        if every:
            return tighten(found, T)
        rows = np.flatnonzero(~((found.lower > 0.0) | (found.upper <= 0.0)))
        if rows.size:
            part = ScoreBounds(found.lower[rows], found.upper[rows])
            tighten(part, T.some(rows))
            found.lower[rows], found.upper[rows] = part
        return None

    def _by_system(self, rows: Chosen, solver: Solver, found: ScoreBounds, T: Tested) -> None:
        """Take in what the coefficients of a system say."""
        self._tighten(found, T, rows, self._kriging(T, rows, solver))

    @quietly
    def _kriging(self, T: Tested, rows: Chosen, solver: Solver) -> Floats:
        """Return the coefficients that the system has for each row, of sum exactly 1 where they
        have to be.
        """
        c = solver(T.products(rows).T)
        if not self.multipliers.balanced:
            return np.asarray(np.nan_to_num(c, nan=0.0, posinf=0.0, neginf=0.0))
        ones = solver(np.ones((rows.size, 1)))
        c = c + ones * ((1.0 - c.sum(axis=0)) / ones.sum())
        room = np.minimum(self.multipliers.down[rows], self.multipliers.above[rows])
        return on_grid(c, int(np.argmax(room)))

    def _tighten(
        self,
        found: ScoreBounds,
        T: Tested,
        rows: Chosen,
        c: Floats,
        sides: tuple[float, ...] = (1.0, -1.0),
    ) -> None:
        """Take in what the theorem says for coefficients of shape (r, m), one column a row; NaN in
        a column says nothing.
        """
        usable = np.isfinite(c).all(axis=0) if c.size else np.ones(c.shape[1], dtype=bool)
        c = np.where(usable, c, 0.0)
        squares = T.squared_distances(rows, c)
        bases = self._bases(T, rows, c)
        for side in sides:
            half = exact(np.where(usable, self._half_width(rows, side * c, squares), np.inf))
            if side > 0.0:
                end = np.min([(base - half).lower for base in bases], axis=0)
                np.maximum(found.lower, np.where(usable, end, -np.inf), out=found.lower)
            else:
                end = np.max([(base + half).upper for base in bases], axis=0)
                np.minimum(found.upper, np.where(usable, end, np.inf), out=found.upper)

    def _bases(self, T: Tested, rows: Chosen, c: Floats) -> list[Bounded]:
        """Return the two terms of the theorem before the bracket: the ends of a segment, or one
        number, for each row.
        """
        return [T.scores + self._targets[rows] @ c if rows.size else T.scores]

    @quietly
    def _half_width(self, rows: Chosen, c: Floats, squares: Floats) -> Floats:
        """Return numbers that are at least the bracket for a good step; infinite where there is
        none.
        """
        dual = self.multipliers
        d = dual.signs[rows][:, None] * c
        radius = self.squared_radius
        curvature = (dual.terms.curvatures[rows][:, None] * d * d).sum(axis=0) if rows.size else 0.0
        bend = self.points.bend(squares, np.zeros(squares.shape)) + 0.5 * np.nan_to_num(
            curvature, nan=0.0, posinf=0.0
        )
        wanted = math.sqrt(radius) / np.sqrt(bend)
        room = (dual.room(rows, d) / np.abs(d)).min(axis=0, initial=np.inf) * SHRINK
        room = np.minimum(room, self.points.longest_step(squares))
        step = np.minimum(np.where(np.isnan(wanted), np.inf, wanted), room)
        # Where nothing limits the step, its quotient is as good as nothing.
        step = np.clip(np.where(np.isnan(step), 0.0, step), 0.0, 1.0 / LEAST_STEP)
        taken = np.where(step >= LEAST_STEP, step, 1.0)
        width = exact(np.full(taken.shape, radius)) / exact(taken) + exact(taken) * exact(
            self.points.bend(squares, taken)
        )
        width = width + exact(dual.terms.shortfall(rows, d, taken))
        return np.asarray(np.where(step >= LEAST_STEP, np.maximum(width.upper, 0.0), np.inf))

    @quietly
    def _single(self, side: float, found: ScoreBounds, T: Tested) -> None:
        """Take in what single vectors say, with c = 1: the best of all for each row."""
        dual = self.multipliers
        rooms = dual.room(np.arange(dual.values.size), side * dual.signs)
        rows = np.flatnonzero((rooms > 0.0) & np.isfinite(dual.terms.curvatures))
        if not rows.size:
            return
        targets = self._targets.value[rows]
        lengths = self.points.squared_lengths()[rows]
        curvature = dual.terms.curvatures[rows]
        squares = np.maximum(T.squared_lengths()[:, None] - 2.0 * T.products(rows) + lengths, 0.0)
        bend = self.points.bend(squares, np.zeros(squares.shape)) + 0.5 * curvature
        step = np.minimum(math.sqrt(self.squared_radius) / np.sqrt(bend), rooms[rows])
        width = self.squared_radius / step + step * bend
        best = np.argmax(np.nan_to_num(side * targets - width, nan=-np.inf), axis=1)
        chosen, place = np.unique(best, return_inverse=True)
        c = (np.arange(chosen.size)[:, None] == place.ravel()).astype(np.float64)
        self._tighten(found, T, rows[chosen], c, (side,))
