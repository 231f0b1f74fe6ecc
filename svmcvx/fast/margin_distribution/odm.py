"""Specialised solvers of :class:`svmcvx.formulations.margin_distribution.ODM`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from svmcvx.arguments import intercept_kind
from svmcvx.arrays import Floats
from svmcvx.certificate import Dual, relative_gap
from svmcvx.data import binary_data, check_choice, check_numbers, check_seed
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    Monitor,
    checked_settings,
    earlier_solution,
    limited,
    solve,
    solve_interruptible,
    start_of,
)
from svmcvx.fast.core.rows import PartialFactor, seconds_of_entry
from svmcvx.fast.linear.blocks import BlockLoss, solve_in_blocks
from svmcvx.fast.linear.loss_passes import band
from svmcvx.fast.linear.newton import (
    REFRESH,
    BestPoint,
    LinearNewtonSettings,
    LinearProblem,
    earlier_point,
    kernel_for,
    linear_model,
    minimise,
    minimise_on_factor,
)
from svmcvx.fast.margin_distribution.coordinate_ascent_passes import ascend_rows
from svmcvx.feature_space import feature_space
from svmcvx.feature_space.blocks import block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin_distribution import ODM, dual_objective, objective
from svmcvx.kernels import KernelLike
from svmcvx.numerical import NewtonStep, conjugate_gradients, estimated_rounding, newton
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status
from svmcvx.system import memory
from svmcvx.system.deadline import current

METHODS = ("auto", "newton", "dcd")
# Largest cost times the largest squared norm of a row, a measure of the condition, with which
# method="auto" chooses coordinate ascent; rounds after which it continues with Newton's method, of
# about the same work; rounds from which the rate of the gap is estimated.
CONDITION, ROUNDS, RATED = 1e5, 20, 3
# Epochs over the active observations after each epoch over all.
SHORT_EPOCHS = 4


@dataclass(frozen=True)
class ODMSettings:
    """Parameters of :func:`odm`: the most observations of which ``method="auto"`` keeps a Gram
    matrix and its factor, those of Newton's method, and the rank of the partial factor with which
    ``method="blocks"`` begins.
    """

    largest_gram: int = 5000
    newton: LinearNewtonSettings = field(default_factory=LinearNewtonSettings)
    largest_rank: int = 600


@limited
def odm(
    X: Any,
    y: Any,
    *,
    C1: float = 1.0,
    C2: float = 1.0,
    D: float = 0.1,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 10_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | tuple[Any, Any] | None = None,
    method: str = "auto",
    seed: int = 0,
    indefinite: str = "error",
    settings: ODMSettings | None = None,
) -> Solution:
    r"""Solve the ODM to a certified relative gap.

    .. math::
        \min_w\; \tfrac12\|w\|^2
        + \sum_i c_i \big(C_1 (1 - D - u_i)_+^2 + C_2 (u_i - 1 - D)_+^2\big)

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection or RowBlocks of shape (n, d)
        Without a kernel the rows may come in blocks, see ``docs/scale.md``.
    y : array-like, Dask collection or ``blocks.y`` of shape (n,)
        Two labels of any type.
    C1, C2, D
        As for :func:`svmcvx.odm_primal`.
    max_iter : int
        Newton steps; rounds of coordinate ascent (one epoch over all observations and a few over
        those that move).
    warm_start : Solution or (coef, intercept), optional
        An earlier solution of the same data, for any hyper-parameters; for a linear model also a
        solution for other rows with the same features, or the coefficients and the intercept of any
        solver.
    method : "auto", "newton", "dcd" or "blocks"
        Newton's method on the primal, or coordinate ascent on the signed dual, both on a factor of
        the Gram matrix; or Newton's method on products with a kernel matrix that is never stored
        (:mod:`svmcvx.fast.margin_distribution.odm`), for kernels that are positive
        semidefinite on any data. ``"auto"`` is Newton's method for linear machines, whose primal is
        piecewise quadratic with few pieces on the way; for such kernels on more than 5000
        observations ``"blocks"``; for other kernels up to 20 rounds of coordinate ascent if ``2
        max(C1, C2) max k(x, x)``, a measure of the condition, is at most 1e5, and then Newton's
        method from their last point, if they do not reach the tolerance or will not at the rate at
        which their gap falls.

    Notes
    -----
    Source: [ZhangZhou], eqs. (7), (19), Algorithm 1. Every θ is dual feasible, and the margins of
    any w give one.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.fast.odm(X, y, C1=1.0, C2=1.0, D=0.1).certificate.is_certified(1e-6)
    True
    """
    check_choice(method, "method", (*METHODS, "blocks"))
    settings = checked_settings(settings, ODMSettings)
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    rule = intercept_kind(intercept, own="penalised")
    C1, C2, D = check_numbers(C1=C1, C2=C2, D=D)
    if in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None, method=method not in ("auto", "newton"))
        rows = block_space(X, y, sample_weight, intercept=rule)
        if not rows.small:
            return solve_in_blocks(
                ODM(rows, C1, C2, D),
                rows,
                BlockLoss(band(C1, C2, D), 1.0 / rows.data.total_weight),
                limits,
                entry="theta",
                solver="fast.odm/newton",
                warm_start=earlier_solution(warm_start),
                settings=settings.newton,
            )
        X, y, sample_weight = rows.loaded()
    largest = {"auto": settings.largest_gram, "blocks": 0}.get(method, math.inf)
    data = binary_data(X, y, sample_weight)
    space = feature_space(
        data,
        kernel_for(data, kernel),
        intercept=rule,
        indefinite=indefinite,
        keep_gram=data.n <= largest,
    )
    statement = ODM(space, C1, C2, D)
    by_blocks = space.blockwise
    if method == "blocks" and not by_blocks:
        raise DataError(
            'method="blocks" needs a kernel that is positive semidefinite on any data, got'
            f' {space.kernel or "kernel=None"}; use method="auto"'
        )
    # A linear problem accepts a solution for other rows.
    earlier = earlier_solution(
        start_of(warm_start, statement), None if space.is_linear else statement
    )
    w, theta = earlier_point(statement, earlier, "theta")
    warm = w is not None or theta is not None

    def run(monitor: Monitor, start: tuple[Floats | None, Floats | None] | None) -> Found:
        w, theta = start or (None, None)
        if by_blocks:
            search = _Search(statement, monitor, settings)
            status = search.run(theta)
            points = RecoveredPoints([space.model(search.best_v)], [{"theta": search.best_theta}])
            info = {"iterations": search.steps, "products": search.products, "rank": search.rank}
            return points, status, {"method": "blocks", **info}
        return solve_interruptible(
            monitor, _solve_whole, statement, monitor, w, theta, method, check_seed(seed), settings
        )

    return solve(statement, run, (w, theta) if warm else None, limits, name="odm", method=method)


def _solve_whole(
    statement: ODM,
    monitor: Monitor,
    w: Floats | None,
    theta: Floats | None,
    method: str,
    rng: np.random.Generator,
    settings: ODMSettings,
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve on the data or a kernel's factor, by a method that ``"auto"`` chooses."""
    problem = linear_problem(
        statement, statement.space.X if statement.space.is_linear else statement.space.factor
    )
    condition = 2.0 * max(statement.C1, statement.C2) * float(problem.norms.max()) ** 2
    good = problem.kernel_expansion and condition <= CONDITION
    auto, chosen = method == "auto", method
    if auto:
        chosen = "dcd" if good else "newton"
    if w is None and theta is not None:
        w = problem.primal_of(theta)
    if chosen == "newton":
        point, status = minimise(problem, monitor, w=w, settings=settings.newton)
    else:
        y = statement.y
        if theta is None:
            theta = (
                np.zeros(y.size)
                if w is None
                else statement.multipliers(y * np.asarray(problem.X @ w))
            )
        point, status = ascend(problem, monitor, theta, rng, limited=auto)
        if status is Status.INACCURATE and auto:
            chosen = "dcd+newton"
            point, status = minimise(problem, monitor, w=point.w, settings=settings.newton)
    return points_of(statement, point), status, {"method": chosen, "iterations": point.steps}


def linear_problem(statement: ODM, rows: Any) -> LinearProblem:
    """Return the problem on the data, or on the rows of a factor of the kernel."""
    loss = band(statement.C1, statement.C2, statement.D)
    expands = not statement.space.is_linear
    return LinearProblem(rows, statement.y, statement.share, loss, kernel_expansion=expands)


def points_of(statement: ODM, point: BestPoint) -> RecoveredPoints:
    duals: list[Dual] = [{"theta": point.alpha}]
    if statement.space.is_linear:
        return RecoveredPoints(
            [linear_model(statement.space, point.w, 0.0, point.alpha != 0)], duals
        )
    return RecoveredPoints([statement.space.model(point.expansion * statement.y)], duals)


def ascend(
    problem: LinearProblem,
    monitor: Monitor,
    theta: Floats,
    rng: np.random.Generator,
    *,
    limited: bool,
) -> tuple[BestPoint, Status]:
    """Run dual coordinate ascent [HsiehChang]; `limited` to few rounds and a sufficient rate."""
    m, n, most = problem, theta.size, ROUNDS if limited else math.inf
    X = m.X.toarray() if sp.issparse(m.X) else m.X
    low, high = (end * m.c for end in m.loss.domain)
    D, above, below = m.loss.quadratic_conjugate
    a, b = above / m.c, below / m.c
    theta = np.clip(theta, low, high)
    diagonal = m.norms**2
    active = np.ones(n, dtype=np.bool_)
    w = m.primal_of(theta)
    best = BestPoint(w.copy(), 0.0, theta, theta)
    rounds, margin = 0, math.inf
    gaps: list[float] = []
    while True:
        if rounds % REFRESH == 0:
            # It is updated along the way.
            w = m.primal_of(theta)
        sums = m.sums_of(theta, m.loss_at(np.asarray(m.X @ w), 0.0, theta))
        lower, upper, better_lower, better_upper = best.update(m, w, 0.0, sums, w)
        if better_lower:
            best.alpha = theta.copy()
        if better_upper:
            best.expansion = theta.copy()
        status = monitor.report(rounds, lower, upper)
        gaps.append(monitor.gap)
        hopeless = rounds + _predicted_rounds(gaps, monitor.tol) > 3.0 * most
        stalled = len(gaps) > 1000 and gaps[-1] > 0.999 * gaps[-1000]
        if status is None and (
            rounds >= most or hopeless or stalled or not math.isfinite(upper - lower)
        ):
            status = Status.INACCURATE
        if status is not None:
            best.steps = rounds
            return best, status
        for epoch in range(1 + SHORT_EPOCHS):
            order = rng.permutation(n if epoch == 0 else np.flatnonzero(active))
            largest = ascend_rows(
                X, m.y, diagonal, theta, w, D, a, b, low, high, order, active, margin
            )
            if largest == 0.0 or monitor.out_of_time():
                break
        margin = largest
        rounds += 1


def _predicted_rounds(gaps: list[float], tol: float) -> float:
    """Extrapolate the rounds to a gap of `tol` from the last ones; 0 with too few of them."""
    if len(gaps) <= RATED or not math.isfinite(gaps[-1 - RATED]):
        return 0.0
    fallen = math.log(gaps[-1 - RATED] / gaps[-1]) if gaps[-1] > 0 else math.inf
    return RATED * math.log(max(gaps[-1] / tol, 1.0)) / fallen if fallen > 0 else math.inf


class _Search:
    r"""Newton's method on products with K, evaluated by blocks: nothing quadratic is stored.

    A point is :math:`w = \sum_i v_i \varphi(x_i)` with scores f = Kv. Its margins give θ, and with
    :math:`g = v - y\theta`, q = Kg, one product gives P at v, its dual point θ with
    :math:`K(y\theta) = f - q`, and P at the point of θ. The gap of (v, θ) is :math:`\tfrac12 g'q`.
    With the second derivatives S on the set A of observations outside the band, the step is
    :math:`dv = -g - \nu`,

    .. math:: (S^{-1} + K_{AA})\, \nu = -q_A,

    by conjugate gradients, preconditioned by the same matrix with a partial factor :math:`FF'` for
    K.
    """

    # The gradient in coefficients and in scores.
    g: Floats
    q: Floats

    def __init__(self, statement: ODM, monitor: Monitor, settings: ODMSettings) -> None:
        n = statement.y.size
        self.statement, self.monitor, self.settings = statement, monitor, settings.newton
        rank = min(settings.largest_rank, n)
        memory.require(
            8.0 * 3.0 * n * rank,
            f"a partial factor of {n} × {rank} kernel columns",
            "use fewer observations",
        )
        # Seconds of a product, with a tenth to spare; one is reserved for the certificate.
        limited = math.isfinite(monitor.deadline.end)
        self.seconds = 1.1 * n * n * seconds_of_entry(statement.space) if limited else 0.0
        monitor.reserve(self.seconds)
        # What the factor leaves out of the second derivative of P is small against the identity.
        steepest = 2.0 * max(statement.C1, statement.C2) * statement.share
        partial = PartialFactor(statement.space)
        partial.grow(
            rank, lambda: monitor.out_of_time() or float(steepest @ partial.residual) <= 0.05
        )
        # No entry of K exceeds the largest of its diagonal.
        self.scale, self.factor, self.rank = partial.scale, partial.factor, len(partial.pivots)
        # The best coefficients and multipliers, with their bounds; steps and products so far; the
        # smallest gap, and steps since it fell.
        self.best_v, self.best_theta = np.zeros(n), np.zeros(n)
        self.upper, self.lower = math.inf, -math.inf
        self.steps = self.products = self.idle = 0
        self.smallest = math.inf

    def run(self, theta: Floats | None) -> Status:
        """Search from multipliers, or from the machine on the partial factor."""
        y, monitor = self.statement.y, self.monitor
        if theta is None:
            problem = linear_problem(self.statement, self.factor)
            theta = minimise_on_factor(problem, monitor, settings=self.settings).expansion
        self.v = y * theta
        if monitor.deadline.remaining < 4.0 * self.seconds:
            if current().remaining >= self.seconds:
                # A model and multipliers that share one product.
                self.best_v, self.best_theta = self.v, y * self.v
            return monitor.late
        self.f = self.product(self.v)
        return newton(self) or Status.INACCURATE

    def product(self, v: Floats) -> Floats:
        """Return Kv; reserve time for another product and for those of the certificate."""
        began = self.monitor.seconds
        found: Floats = self.statement.space.point(v).scores.value
        self.seconds = max(self.seconds, self.monitor.seconds - began)
        self.monitor.reserve(3.0 * self.seconds)
        self.products += 1
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

    def examine(self, steps: int) -> Status | None:
        """Bound the optimum at v and at its multipliers, by one product with K."""
        s, v, f = self.statement, self.v, self.f
        self.steps = steps
        theta = s.multipliers(s.y * f)
        own = s.y * theta
        self.g = v - own
        self.q = self.product(self.g)
        # Other multipliers, whose product is known, may be far better: a partial factor's.
        duals = ((theta, self.bound(theta, f - self.q)), (s.y * v, self.bound(s.y * v, f)))
        for multipliers, lower in duals:
            if lower > self.lower:
                self.best_theta, self.lower = multipliers.copy(), lower
        at_v, at_theta = self.value(v, f), self.value(own, f - self.q)
        # A good model of the dual point is preferred: its certificate saves a product.
        enough = relative_gap(self.lower, at_theta) <= self.monitor.tol
        upper, point = (at_theta, own) if enough or at_theta <= at_v else (at_v, v)
        if upper < self.upper:
            self.best_v, self.upper = point.copy(), upper
        status = self.monitor.report(steps, self.lower, upper)
        self.idle = 0 if self.monitor.gap < 0.99 * self.smallest else self.idle + 1
        self.smallest = min(self.smallest, self.monitor.gap)
        if status is None and (self.idle >= 4 or not math.isfinite(upper - self.lower)):
            # Rounding limits the gap, which has not fallen in four steps.
            status = Status.INACCURATE
        return status

    def direction(self) -> NewtonStep:
        s, v, f = self.statement, self.v, self.f
        dv, df = self._solved()
        linear, square = float(v @ df), float(dv @ df)

        def derivative(t: float) -> float:
            return linear + t * square - float(s.multipliers(s.y * (f + t * df)) @ (s.y * df))

        def take(t: float) -> None:
            self.v = v + t * dv
            self.f = self.product(self.v) if (self.steps + 1) % REFRESH == 0 else f + t * df

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
            accuracy=0.05,
            limit=30,
            stop=self.monitor.out_of_time,
            follow=follow,
        ).x
        return -g - nu, -q - scores
