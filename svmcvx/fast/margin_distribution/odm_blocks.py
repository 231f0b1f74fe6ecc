r"""Kernel ODM for more observations than a Gram matrix allows: Newton's method on products with K,
evaluated by blocks.

Nothing quadratic is stored. A point is :math:`w = \sum_i v_i \varphi(x_i)` with scores f = Kv. Its
margins give θ, and with

.. math:: g = v - y\theta, \qquad q = Kg,

which is the gradient of P in coefficients and in scores, one product gives all bounds: P at v, its
dual point θ with :math:`K(y\theta) = f - q`, so G(θ), and P at θ's own point as well. The gap of
(v, θ) is :math:`\tfrac12 g'q`.

**Newton's step.** With the second derivatives S of the losses on the set A of the observations
outside the band, :math:`dv = -g - \nu`, where ν is zero outside A and

.. math:: (S^{-1} + K_{AA})\, \nu = -q_A .

This is solved by conjugate gradients, preconditioned by the same matrix with a partial Cholesky
factor, :math:`K \approx FF'`, instead of K. If the eigenvalues of K − FF' are below those of
:math:`S^{-1}`, which are of order :math:`n/(2C)`, a few products suffice. The solution of the
machine on the rows of F is the start, and needs no product with K.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import relative_gap
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.row_cache import ProductSeconds
from svmcvx.fast.linear.kernel_newton import KernelNewton
from svmcvx.fast.linear.loss_passes import band
from svmcvx.fast.linear.problem import LinearNewtonSettings, LinearProblem, estimated_rounding
from svmcvx.formulations.margin_distribution import ODM, dual_objective, objective
from svmcvx.numerical import NewtonStep, conjugate_gradients, newton
from svmcvx.solution import Status
from svmcvx.system import memory
from svmcvx.system.deadline import current

__all__ = ["LARGEST_RANK", "Coefficients", "minimise_by_blocks"]

Floats: TypeAlias = NDArray[np.float64]

# Products with K for which time is reserved: the next step, the model and the multipliers.
PRODUCTS_LEFT = 3.0
# Products for which there must be time, or the machine on the partial factor is the answer.
FEWEST_PRODUCTS = 8.0
# Time reserved for a product, in units of its estimate.
RESERVED = 1.1
# The partial factor is complete if its error times the largest second derivatives of the losses is
# at most this: it is then small relative to the identity in the second derivative of P.
GAP_OF_LEFT_OUT = 0.05
# Relative residual of conjugate gradients in one step.
CONJUGATE_ACCURACY = 0.05
# Largest number of products of conjugate gradients in one step.
CONJUGATE_PRODUCTS = 30
# Steps after which the scores are computed afresh.
REFRESH = 10
# Steps without a smaller gap after which the method ends, because rounding limits the gap.
PATIENCE = 4
# Rank at which the partial factor ends.
LARGEST_RANK = 600


@dataclass
class Coefficients:
    """The best primal point, in coefficients v; the best dual point θ; what it took."""

    v: Floats
    theta: Floats
    upper: float = math.inf
    lower: float = -math.inf
    steps: int = 0
    products: int = 0
    rank: int = 0


@dataclass
class _Search:
    statement: ODM
    monitor: Monitor
    best: Coefficients
    largest_rank: int
    settings: LinearNewtonSettings
    factor: Floats = field(init=False)
    slowest: float = 0.0
    # Whether there is only time for the machine on the partial factor and its product.
    hurried: bool = False
    # The point v with its scores f, and the gradient in coefficients and in scores.
    v: Floats = field(init=False)
    f: Floats = field(init=False)
    g: Floats = field(init=False)
    q: Floats = field(init=False)
    # The smallest gap, and steps since it fell.
    smallest: float = math.inf
    idle: int = 0

    def __post_init__(self) -> None:
        statement = self.statement
        n = statement.y.size
        rank = min(self.largest_rank, n)
        memory.require(
            8.0 * 3.0 * n * rank,
            f"a partial factor of {n} × {rank} kernel columns",
            "use fewer observations",
        )
        if math.isfinite(self.monitor.deadline.end):
            timed = ProductSeconds(statement.space)
            timed.after(0.0)
            self.slowest = RESERVED * timed.of(float(n) ** 2)
            self.hurried = self.monitor.deadline.remaining < FEWEST_PRODUCTS * self.slowest
            # The first two products are computed even after the deadline.
            self.monitor.reserve((1.0 if self.hurried else PRODUCTS_LEFT + 2.0) * self.slowest)
        loss = band(statement.C1, statement.C2, statement.D)
        self.newton = KernelNewton(
            statement.space,
            lambda rows: LinearProblem(
                rows, statement.y, statement.share, loss, kernel_expansion=True
            ),
            self.settings,
        )
        steepest = 2.0 * max(statement.C1, statement.C2) * statement.share
        self.newton.grow(
            rank,
            self.monitor,
            lambda partial: float(steepest @ partial.residual) <= GAP_OF_LEFT_OUT,
        )
        # No entry of K exceeds the largest of its diagonal.
        self.scale, self.factor = self.newton.factor.scale, self.newton.factor.factor
        self.best.rank = self.newton.rank

    def product(self, v: Floats) -> Floats:
        """Return Kv; reserve time for another product and for those of the certificate."""
        began = self.monitor.seconds
        found: Floats = self.statement.space.point(v).scores.value
        self.slowest = max(self.slowest, self.monitor.seconds - began)
        self.monitor.reserve(PRODUCTS_LEFT * self.slowest)
        self.best.products += 1
        return found

    def value(self, v: Floats, f: Floats) -> float:
        """Return P at a point, with an estimate of its rounding."""
        s = self.statement
        u, norm = s.y * f, float(v @ f)
        value: float = objective(max(norm, 0.0), u, C1=s.C1, C2=s.C2, D=s.D, share=s.share)
        return value + self._rounding(v, s.multipliers(u), abs(value))

    def bound(self, theta: Floats, scores: Floats) -> float:
        """Return G at a point with scores K(yθ), likewise."""
        s = self.statement
        norm = max(float((s.y * theta) @ scores), 0.0)
        value: float = dual_objective(theta, norm, C1=s.C1, C2=s.C2, D=s.D, share=s.share)
        size = float(np.abs(theta).sum())
        return value - self._rounding(theta, theta, 4.0 * size + abs(value))

    def _rounding(self, v: Floats, slope: Floats, terms: float) -> float:
        size = float(np.abs(v).sum())
        return estimated_rounding(v.size) * (
            self.scale * size * (size + float(np.abs(slope).sum())) + terms
        )

    def update(self, v: Floats, f: Floats, theta: Floats, q: Floats) -> tuple[float, float]:
        """Return (lower, upper) at v and its multipliers θ, with f = Kv and q = K(v − yθ); keep the
        best points.
        """
        own = self.statement.y * theta
        lower = self.bound(theta, f - q)
        at_v, at_theta = self.value(v, f), self.value(own, f - q)
        best = self.best
        # The model of the dual point is preferred if it is good enough: its certificate costs one
        # product less.
        enough = relative_gap(lower, at_theta) <= self.monitor.tol
        upper = at_theta if enough or at_theta <= at_v else at_v
        if upper < best.upper:
            best.v, best.upper = own if upper == at_theta else v.copy(), upper
        if lower > best.lower:
            best.theta, best.lower = theta.copy(), lower
        return lower, upper

    def examine(self, steps: int) -> Status | None:
        """Bound the optimum at v and at its multipliers, by one product with K."""
        s, best = self.statement, self.best
        best.steps = steps
        theta = s.multipliers(s.y * self.f)
        self.g = self.v - s.y * theta
        self.q = self.product(self.g)
        lower, upper = self.update(self.v, self.f, theta, self.q)
        # v is the expansion of other multipliers, whose product is known: those of a partial factor
        # may be far better.
        own = self.bound(s.y * self.v, self.f)
        if own > best.lower:
            best.theta, best.lower = s.y * self.v, own
        lower = max(lower, own)
        status = self.monitor.report(steps, lower, upper)
        self.idle = 0 if self.monitor.gap < 0.99 * self.smallest else self.idle + 1
        self.smallest = min(self.smallest, self.monitor.gap)
        if status is None and (self.idle >= PATIENCE or not math.isfinite(upper - lower)):
            status = Status.INACCURATE
        return status

    def direction(self) -> NewtonStep:
        """Return Newton's step."""
        s, v, f = self.statement, self.v, self.f
        dv, df = self._solved()
        linear, square = float(v @ df), float(dv @ df)

        def derivative(t: float) -> float:
            return linear + t * square - float(s.multipliers(s.y * (f + t * df)) @ (s.y * df))

        def take(t: float) -> None:
            self.v = v + t * dv
            self.f = self.product(self.v) if (self.best.steps + 1) % REFRESH == 0 else f + t * df

        return NewtonStep(-derivative(0.0), derivative, take)

    def _solved(self) -> tuple[Floats, Floats]:
        """Return Newton's step in coefficients, and its scores."""
        s, g, q, u = self.statement, self.g, self.q, self.statement.y * self.f
        short, long = u < 1.0 - s.D, u > 1.0 + s.D
        rows = np.flatnonzero(short | long)
        stiffness = 2.0 * s.share[rows] * np.where(short[rows], s.C1, s.C2)
        nu, scores = np.zeros(u.size), np.zeros(u.size)
        if rows.size == 0:
            return -g, -q
        root = np.sqrt(stiffness)[:, None] * self.factor[rows]
        inner = root.T @ root
        inner[np.diag_indices(inner.shape[0])] += 1.0
        triangle = sl.cho_factor(inner, lower=True, overwrite_a=True, check_finite=False)

        def precondition(residual: Floats) -> Floats:
            scaled = np.sqrt(stiffness) * residual
            inside = np.asarray(sl.cho_solve(triangle, root.T @ scaled, check_finite=False))
            return np.asarray(np.sqrt(stiffness) * (scaled - root @ inside))

        def product(direction: Floats) -> Floats:
            whole = np.zeros(u.size)
            whole[rows] = direction
            image[:] = self.product(whole)
            return direction / stiffness + image[rows]

        def follow(length: float, _: Floats) -> None:
            scores[:] += length * image

        image = np.zeros(u.size)
        nu[rows] = conjugate_gradients(
            product,
            -q[rows],
            precondition,
            accuracy=CONJUGATE_ACCURACY,
            limit=CONJUGATE_PRODUCTS,
            stop=self.monitor.out_of_time,
            follow=follow,
        ).x
        return -g - nu, -q - scores


def minimise_by_blocks(
    statement: ODM,
    monitor: Monitor,
    theta: Floats | None,
    largest_rank: int,
    settings: LinearNewtonSettings,
) -> tuple[Coefficients, Status]:
    """Run Newton's method until the monitor says stop."""
    y = statement.y
    best = Coefficients(np.zeros(y.size), np.zeros(y.size))
    search = _Search(statement, monitor, best, largest_rank, settings)
    search.v = y * (search.newton.solve(monitor, keep=False).expansion if theta is None else theta)
    if search.hurried and current().remaining >= search.slowest / RESERVED:
        # A model and multipliers that share one product.
        best.v, best.theta = search.v, y * search.v
    if search.hurried:
        return best, monitor.late
    # The factor itself stays, for the preconditioner.
    del search.newton
    search.f = search.product(search.v)
    return best, newton(search) or Status.INACCURATE
