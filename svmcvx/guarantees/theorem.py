r"""Intervals of the scores of every optimal machine, from one model and one dual point.

**Setting.** :math:`P(w, b) = \tfrac12\|w\|^2 + \sum_i\ell_i(w, b)` with its dual objective
:math:`D(a) = \sum_i g_i(a_i) - \tfrac12\|w_a\|^2`, :math:`w_a = \sum_i\sigma_ia_i\varphi(x_i)`;
where the intercept b is free, feasible multipliers have :math:`\sum_i\sigma_ia_i = 0`. U is at
least P at a model :math:`(\hat w, \hat b)`, L at most D at a feasible a, and

.. math:: m = \tfrac12(\hat w + w_a), \qquad \rho^2 = U - L - \tfrac14\|\hat w - w_a\|^2 \ge 0.

**Theorem.** Let :math:`c_i` be numbers, with :math:`\sum_ic_i = 1` if the intercept is free,
:math:`d_i = \sigma_ic_i`, :math:`h = \varphi(x) - \sum_ic_i\varphi(x_i)` and η > 0. If a + ηd is
within its box, every optimal machine has

.. math:: f^*(x) \ge \langle m, \varphi(x)\rangle
    + \sum_ic_i\big(\sigma_ig_i'(a_i) - \langle m, \varphi(x_i)\rangle\big)
    - \Big(\frac{\rho^2}{\eta} + \frac{\eta\|h\|^2}{4} + \frac{B(\eta d)}{\eta}\Big),

with :math:`B(\delta) = \sum_ig_i(a_i) + g_i'(a_i)\delta_i - g_i(a_i + \delta_i) \ge 0`; and if a −
ηd is within its box, f*(x) is at most the same two terms plus the bracket with B(−ηd).

*Proof.* Put β = a + ηd. For every (w, b), by the conjugates of the losses,

.. math:: P(w, b) + \eta f(x) \ge \tfrac12\|w\|^2 - \langle w, w_\beta - \eta\varphi(x)\rangle
    + \textstyle\sum_ig_i(\beta_i)
    = \tfrac12\|w - v\|^2 - \tfrac12\|v\|^2 + \textstyle\sum_ig_i(\beta_i), \qquad v = w_a - \eta h,

as b has the factor :math:`\eta - \sum_i\sigma_i\beta_i = 0`. At an optimum :math:`(w^*, b^*)`, and
with :math:`P^* + \tfrac12\|w^* - \hat w\|^2 \le U` [P − ½‖w‖² is convex and has the subgradient −w*
there] and ½‖p‖² + ½‖q‖² ≥ ¼‖p − q‖²,

.. math:: \eta f^*(x) \ge \textstyle\sum_ig_i(\beta_i) - \tfrac12\|v\|^2
    + \tfrac14\|v - \hat w\|^2 - U;

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
(:mod:`svmcvx.certificate.bounded`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import (
    Bounded,
    between,
    exact,
    exp,
    log,
    positive_part,
    quietly,
    roundings,
    signed,
    sqrt,
    square,
    total,
    where,
)
from svmcvx.certificate.exactly import LARGEST_BITS, SUM_BITS
from svmcvx.certificate.rows import UNDERFLOW, Ball, Rows, inner_error, row_norms_above, sums_above
from svmcvx.data import Features
from svmcvx.feature_space import KernelSpace, LinearSpace, with_constant
from svmcvx.kernels.functions import dense
from svmcvx.model import KernelModel, LinearModel
from svmcvx.system.deadline import checkpoint
from svmcvx.system.memory import SMALL_ENTRIES

Chosen: TypeAlias = NDArray[np.intp]

# Smaller steps are dropped, as their quotients may have underflowed; the square of a radius is at
# least LEAST_SQUARE, so that steps are positive.
LEAST_STEP, LEAST_SQUARE = 2.0**-500, 2.0**-200

# Rows that are tested, or those of the training data, prepared.
Tested: TypeAlias = "LinearTested | KernelTested"
# Largest number of vectors in a linear system.
LARGEST_SYSTEM = 1000
# Solves a system for right sides of shape (r, m).
Solver: TypeAlias = Callable[[Floats], Floats]


class ScoreBounds(NamedTuple):
    """Lower and upper ends of the scores of every optimal machine, shape (m,)."""

    lower: Floats
    upper: Floats


def on_grid(c: Floats, taker: int) -> Floats:
    """Return columns near those of `c` whose sums are exactly 1; columns that cannot be are NaN."""
    r = c.shape[0]
    largest = np.abs(c).max(axis=0)
    usable = np.isfinite(largest) & (largest > 0.0)
    bits = min(LARGEST_BITS, SUM_BITS - 1 - int(r).bit_length())
    # Coefficients below 2^e become whole numbers below 2^bits.
    exponent = np.frexp(np.where(usable, largest, 1.0))[1] - bits
    usable &= (exponent <= 0) & (exponent > -SUM_BITS)
    exponent = np.where(usable, exponent, 0)
    units = np.rint(np.ldexp(np.where(usable, c, 0.0), -exponent)).astype(np.int64)
    units[taker] += (np.int64(1) << (-exponent).astype(np.int64)) - units.sum(axis=0)
    usable &= np.abs(units[taker]) <= np.int64(1) << LARGEST_BITS + 2
    found = np.ldexp(units.astype(np.float64), exponent)
    columns: Floats = np.where(usable, found, np.nan)
    return columns


@dataclass(frozen=True, eq=False)
class Theorem:
    """The theorem for one machine; no claim rests on products and squared lengths."""

    points: LinearPoints | KernelPoints
    multipliers: Multipliers
    gap: float

    def bend(self, squares: Floats, step: Floats) -> Floats:
        """Return an upper bound of the regulariser's part of the bracket over the step."""
        return 0.25 * squares

    def longest_step(self, squares: Floats) -> Floats:
        """Return the largest steps for which :meth:`bend` is a bound."""
        return np.full(squares.shape, np.inf)

    @cached_property
    def squared_radius(self) -> float:
        """At least ρ²."""
        return max(self._rho.upper_end, LEAST_SQUARE)

    @property
    def _rho(self) -> Bounded:
        """ρ², of which the upper end counts."""
        found: Bounded = exact(self.gap) - 0.25 * exact(max(self.points.separation.lower_end, 0.0))
        return found

    @cached_property
    def _targets(self) -> Bounded:
        """The σg' − <m, φ> of all vectors."""
        dual = self.multipliers
        found: Bounded = signed(dual.signs, dual.terms.slopes)
        return found - self.points.training.scores

    @cached_property
    @quietly
    def _system(self) -> tuple[Chosen, Solver] | None:
        """Vectors with room on both sides, and a function that solves their system."""
        dual = self.multipliers
        room = np.minimum(dual.down, dual.above)
        curvature = dual.terms.curvatures
        usable = np.flatnonzero((room > 0.0) & np.isfinite(curvature))
        added = 2.0 * curvature[usable] + self.squared_radius / room[usable] ** 2
        usable, added = usable[np.isfinite(added)], added[np.isfinite(added)]
        order = np.sort(np.argsort(added, kind="stable")[:LARGEST_SYSTEM])
        rows, added = usable[order], added[order]
        if not rows.size:
            return None
        K = self.points.training.some(rows).products(rows)
        scale = float(np.abs(K.diagonal()).max(initial=0.0)) or 1.0
        # Relative to its largest entry, more is added to the diagonal until there is a factor.
        for ridge in (1e-14, 1e-11, 1e-8, 1e-4):
            try:
                triangle = sl.cholesky(K + np.diag(added + ridge * scale), lower=True)
            except (sl.LinAlgError, ValueError):
                continue
            return rows, partial(sl.cho_solve, (triangle, True), check_finite=False)
        return None

    def prepared(self, rows: Features) -> Iterator[Tested]:
        """Prepare rows in pieces whose kernel with the training rows has room, in the time left."""
        width = max(1, SMALL_ENTRIES // max(self.multipliers.values.size, rows.shape[1]))
        for start in range(0, rows.shape[0], width):
            checkpoint()
            yield self.points.tested(rows[start : start + width])

    def scores(self, rows: Features) -> ScoreBounds:
        """Return the intervals of the scores of rows."""
        lower, upper = zip(*map(self.bounds, self.prepared(rows)), strict=True)
        return ScoreBounds(np.concatenate(lower), np.concatenate(upper))

    def bounds(self, T: Tested) -> ScoreBounds:
        """Return the intervals of the scores of prepared rows."""
        m = T.scores.size
        found = ScoreBounds(np.full(m, -np.inf), np.full(m, np.inf))
        if not self.multipliers.balanced:
            self._tighten(found, T, np.zeros(0, dtype=np.intp), np.zeros((0, m)))
        if self._system is not None:
            rows, solver = self._system
            self._tighten(found, T, rows, self._kriging(T, rows, solver))
        if not self.multipliers.balanced:
            return found
        for side in (1.0, -1.0):
            rows = np.flatnonzero(~((found.lower > 0.0) | (found.upper <= 0.0)))
            if rows.size:
                part = ScoreBounds(found.lower[rows], found.upper[rows])
                self._single(side, part, T.some(rows))
                found.lower[rows], found.upper[rows] = part
        return found

    @quietly
    def _kriging(self, T: Tested, rows: Chosen, solver: Solver) -> Floats:
        """Return the coefficients of the system for each row, of sum exactly 1 if balanced."""
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
        """Apply the theorem to coefficients of shape (r, m); columns with NaN are skipped."""
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
        """Return the theorem's two terms before the bracket: a number or ends, per row."""
        return [T.scores + self._targets[rows] @ c if rows.size else T.scores]

    @quietly
    def _half_width(self, rows: Chosen, c: Floats, squares: Floats) -> Floats:
        """Return upper bounds of the bracket at a good step; infinite where there is none."""
        dual = self.multipliers
        d = dual.signs[rows][:, None] * c
        radius = self.squared_radius
        curvature = (dual.terms.curvatures[rows][:, None] * d * d).sum(axis=0) if rows.size else 0.0
        bend = self.bend(squares, np.zeros(squares.shape)) + 0.5 * np.nan_to_num(
            curvature, nan=0.0, posinf=0.0
        )
        wanted = math.sqrt(radius) / np.sqrt(bend)
        room = (dual.room(rows, d) / np.abs(d)).min(axis=0, initial=np.inf) * (1 - roundings(32))
        room = np.minimum(room, self.longest_step(squares))
        step = np.minimum(np.where(np.isnan(wanted), np.inf, wanted), room)
        # Where nothing limits the step, its quotient is as good as nothing.
        step = np.clip(np.where(np.isnan(step), 0.0, step), 0.0, 1.0 / LEAST_STEP)
        taken = np.where(step >= LEAST_STEP, step, 1.0)
        width = exact(np.full(taken.shape, radius)) / exact(taken)
        width = width + exact(taken) * exact(self.bend(squares, taken))
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
        lengths = self.points.training.squared_lengths()[rows]
        curvature = dual.terms.curvatures[rows]
        squares = np.maximum(T.squared_lengths()[:, None] - 2.0 * T.products(rows) + lengths, 0.0)
        bend = self.bend(squares, np.zeros(squares.shape)) + 0.5 * curvature
        step = np.minimum(math.sqrt(self.squared_radius) / np.sqrt(bend), rooms[rows])
        width = self.squared_radius / step + step * bend
        best = np.argmax(np.nan_to_num(side * targets - width, nan=-np.inf), axis=1)
        chosen, place = np.unique(best, return_inverse=True)
        c = (np.arange(chosen.size)[:, None] == place.ravel()).astype(np.float64)
        self._tighten(found, T, rows[chosen], c, (side,))


# The concave functions g of the dual objective at the multipliers of an optimal model. `slopes` are
# their derivatives, `curvatures` about minus their second derivatives, on which no claim rests, and
# `shortfall` returns upper bounds of tangent minus g after a step, divided by the step, at least 0.
DualTerms: TypeAlias = "QuadraticTerms | PowerTerms | EntropyTerms"


def column_sums_above(values: Floats) -> Floats:
    """Return numbers that are at least the sums of columns of numbers that are not negative."""
    return np.asarray(sums_above(values.sum(axis=0), values.shape[0]))


@dataclass(frozen=True)
class QuadraticTerms:
    """Terms with a constant curvature, 0 for losses with a linear conjugate such as the hinge."""

    slopes: Bounded
    curvature: Bounded

    @property
    def curvatures(self) -> Floats:
        return np.asarray(self.curvature.value)

    def shortfall(self, rows: Chosen, d: Floats, step: Floats) -> Floats:
        """½ηΣrd²."""
        if not self.curvatures.any():
            return np.zeros(d.shape[1])
        squares = np.asarray(square(exact(d)).upper)
        terms = (exact(squares) * self.curvature[rows][:, None]).upper
        return np.asarray(
            (exact(column_sums_above(np.maximum(terms, 0.0))) * exact(step) * 0.5).upper
        )


def affine_terms(n: int) -> QuadraticTerms:
    """Return the terms g(a) = a."""
    return QuadraticTerms(exact(np.ones(n)), exact(np.zeros(n)))


@dataclass(frozen=True)
class PowerTerms:
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

    def _slacks(self, a: Bounded, rows: Chosen) -> tuple[Floats, Floats]:
        """Return lower and upper ends of the slacks of multipliers, by monotony."""
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

    def _starts(self, rows: Chosen, change: Bounded) -> Bounded:
        """Return where the steps begin, shape (r, 1) or (r, m)."""
        return exact(self.alpha[rows][:, None])

    @quietly
    def shortfall(self, rows: Chosen, d: Floats, step: Floats) -> Floats:
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
class EntropyTerms:
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
    def shortfall(self, rows: Chosen, d: Floats, step: Floats) -> Floats:
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

    def room(self, rows: Chosen, d: Floats) -> Floats:
        """Return the rooms of some multipliers in the directions of `d`; infinite where it is 0."""
        up, down = self.above[rows], self.down[rows]
        shape = (slice(None),) + (None,) * (d.ndim - 1)
        return np.where(d > 0.0, up[shape], np.where(d < 0.0, down[shape], np.inf))


def room_above(values: Floats, bound: Any) -> Floats:
    """Return numbers that are at most bound − value, not negative; the bound is plain."""
    bound = np.broadcast_to(np.asarray(bound, dtype=np.float64), values.shape)
    found = (exact(np.where(np.isinf(bound), 0.0, bound)) - exact(values)).lower
    return np.where(np.isinf(bound), np.inf, np.maximum(found, 0.0))


def halved(w: Ball) -> Ball:
    """Return half of a point, which is exact but for underflow."""
    return Ball(0.5 * w.value, 0.5 * w.distance + UNDERFLOW)


@dataclass(frozen=True, eq=False)
class LinearPoints:
    """The training rows themselves, with a centre."""

    rows: Rows
    shift: Floats
    constant: bool
    centre: Ball
    separation: Bounded
    scale: Bounded = field(default_factory=lambda: exact(1.0))

    @classmethod
    def of_space(
        cls, space: LinearSpace, model: LinearModel, v: Floats | Bounded, moved: float = 0.0
    ) -> LinearPoints:
        """Return those of a machine of two classes."""
        constant = space.intercept == "penalised"
        w = np.append(model.coef, model.intercept) if constant else model.coef
        one, other = Ball(w, moved), space.expansion(v)
        return cls(
            space.rows, space.centre, constant, halved(one + other), (one - other).squared_norm()
        )

    @cached_property
    def training(self) -> LinearTested:
        """The training rows."""
        return LinearTested(self, self.rows)

    def tested(self, T: Features) -> LinearTested:
        """Shift the rows like those of the training data."""
        if sp.issparse(T) and not sp.issparse(self.rows.X):
            T = T.toarray()
        elif sp.issparse(self.rows.X) and not sp.issparse(T):
            T = sp.csr_array(T)
        shifted = bool(self.shift.any())
        if shifted:
            T = T - self.shift
        elif self.constant:
            T = with_constant(T)
        return LinearTested(self, Rows(T, shifted=shifted))

    def distance_below(self, other: Self) -> float:
        """The lower end of the squared norm of the difference of the centres."""
        return max(((self.centre - other.centre).squared_norm() * self.scale).lower_end, 0.0)


@dataclass(frozen=True, eq=False)
class LinearTested:
    """Shifted rows, with their inner products, and scores of the centre."""

    points: LinearPoints
    rows: Rows

    def some(self, chosen: Chosen) -> LinearTested:
        """Some of the rows."""
        return LinearTested(self.points, self.rows[chosen])

    @cached_property
    def scores(self) -> Bounded:
        return self.rows @ self.points.centre

    def products(self, rows: Chosen) -> Floats:
        """Products with training rows."""
        return np.asarray(self.points.scale.value * dense(self.rows.X @ self.points.rows.X[rows].T))

    def squared_lengths(self) -> Floats:
        return np.asarray(self.rows.norms**2 * self.points.scale.value)

    @quietly
    def squared_distances(self, rows: Chosen, c: Floats) -> Floats:
        """Norms of the differences, which are computed as vectors: a small one keeps its digits."""
        training = self.points.rows[rows]
        X, T = training.X, self.rows.X
        combined = c.T @ X if not sp.issparse(X) else (X.T @ c).T
        difference = np.asarray(dense(T) - combined)
        # A coordinate of a sum of r products, of rows of which each coordinate was rounded once,
        # less another such coordinate.
        sizes = exact(sums_above(np.abs(c).T @ training.norms, rows.size))
        off = inner_error(rows.size + 2, sizes.value) + roundings(3) * (self.rows.norms + sizes)
        off = off + UNDERFLOW * np.sqrt(difference.shape[1]) * (rows.size + 1.0)
        length = (row_norms_above(difference) + off).upper
        found = square(exact(np.nan_to_num(length, nan=np.inf)))
        return np.asarray((found * self.points.scale).upper)


@dataclass(frozen=True, eq=False)
class KernelPoints:
    """The training rows through a kernel, with a centre: the mean of a model and w_α = Σvφ."""

    space: KernelSpace
    model: KernelModel
    v: Bounded
    moved: float = 0.0

    @cached_property
    def training(self) -> KernelTested:
        return KernelTested(self, self.space.data.X)

    def tested(self, T: Features) -> KernelTested:
        return KernelTested(self, T)

    @property
    def constant(self) -> float:
        """The product of the constant features of a penalised intercept."""
        return float(self.space.intercept == "penalised")

    @cached_property
    def _expanded(self) -> KernelModel:
        """The model of the known coefficients of w_α."""
        return self.space.model(self.v.value)

    @cached_property
    def _coefficients(self) -> Floats | None:
        """Those of the model, where its vectors are rows of the data."""
        return self.space.coefficients_of(self.model)

    @cached_property
    def distance(self) -> float:
        """Bound on the distance of the centre from the mean of the two rounded models."""
        off = exact(0.5 * self.moved)
        if not self.v.is_exact:
            errors = exact(np.broadcast_to(self.v.error, self.v.shape))
            off = off + total(errors * self.space.lengths) * 0.5
        if self.constant:
            # The intercept of a model is the sum of its coefficients, rounded.
            off = off + abs(exact(self._expanded.intercept) - total(exact(self.v.value)))
        return off.upper_end

    @cached_property
    def separation(self) -> Bounded:
        """‖ŵ − w_α‖²; between 0 and infinity for a model that does not expand over the data."""
        if self._coefficients is None:
            return Bounded(0.0, np.inf)
        features = replace(self.space, intercept="free") if self.constant else self.space
        difference = exact(self._coefficients) - self.v
        found: Bounded = positive_part(features.squared_norm_of(difference))
        if self.constant:
            found = found + square(exact(self.model.intercept) - total(self.v))
        if self.moved:
            off = exact(self.moved)
            found = found.widened(2.0 * off * sqrt(found) + square(off))
        return found

    def distance_below(self, other: Self) -> float:
        """The lower end of the squared norm of the difference of the centres, 0 if not known."""
        one, last = self._coefficients, other._coefficients
        if one is None or last is None or self.constant or self.moved or other.moved:
            return 0.0
        difference = ((exact(one) + self.v) - (exact(last) + other.v)) * 0.5
        return max(self.space.squared_norm_of(difference).lower_end, 0.0)

    def scores(self, X: Features) -> Bounded:
        """Scores of the centre."""
        found = self.model.scores(X)
        same = self._coefficients is not None and np.array_equal(self._coefficients, self.v.value)
        if not (same and self.model.intercept == self._expanded.intercept):
            found = (found + self._expanded.scores(X)) * 0.5
        if self.distance:
            lengths = sqrt(exact(self.space.resolved.diagonal_above(X)) + self.constant)
            found = found.widened(exact(self.distance) * lengths.upper)
        return found


@dataclass(frozen=True, eq=False)
class KernelTested:
    """Rows, with their kernel, and scores of the centre."""

    points: KernelPoints
    X: Features

    def some(self, chosen: Chosen) -> KernelTested:
        return KernelTested(self.points, self.X[chosen])

    @cached_property
    def scores(self) -> Bounded:
        return self.points.scores(self.X)

    def products(self, rows: Chosen) -> Floats:
        space = self.points.space
        return np.asarray(space.resolved(self.X, space.data.X[rows]) + self.points.constant)

    def squared_lengths(self) -> Floats:
        return np.asarray(self.points.space.resolved.diagonal(self.X) + self.points.constant)

    @quietly
    def squared_distances(self, rows: Chosen, c: Floats) -> Floats:
        """k(x, x) − 2c'k + c'Kc with the errors of the entries and of the sums."""
        kernel, C = self.points.space.resolved, c.T
        sizes, r = np.abs(C), int(rows.size)
        found = exact(kernel.diagonal_above(self.X))
        if r:
            X = self.points.space.data.X[rows]
            k, k_error = kernel.bounded_block(self.X, X)
            K, K_error = kernel.bounded_block(X, X)
            cross_error = exact(inner_error(r, _sums(sizes * np.abs(k)))) + _sums(
                sizes * k_error.matrix(k)
            )
            cross = Bounded(np.einsum("ij,ij->i", C, k), cross_error.upper)
            inside = (np.abs(K) @ sizes.T).T
            square_error = exact(inner_error(2 * r + 4, _sums(sizes * inside)))
            square_error = square_error + _sums(sizes * (K_error.matrix(K) @ sizes.T).T)
            squares = Bounded(np.einsum("ij,ij->i", C @ K, C), square_error.upper)
            found = found - 2.0 * cross + squares
        if self.points.constant:
            summed = Bounded(C.sum(axis=1), inner_error(r + 2, _sums(sizes)))
            found = found + square(1.0 - summed)
        return np.asarray(np.maximum(np.asarray(found.upper), 0.0))


def _sums(values: Floats) -> Floats:
    """Return upper bounds of sums of rows of products of up to three non-negative numbers."""
    return np.asarray(sums_above(values.sum(axis=1), 2 * values.shape[1] + 8))
