r"""Specialised solvers of ODM and ODML, whose statements are in
:mod:`svmcvx.formulations.margin_distribution`.

**ODML.** With the factor :math:`TT' = R` of the curvature of mean and variance, :math:`\tilde w =
T'w` and the whitened rows :math:`N = ZT^{-T}`, the machine is an SVM without bias and with a linear
term for the mean:

.. math::
    \min_{\tilde w}\; \tfrac12\|\tilde w\|^2 - \lambda_2 (N'c)'\tilde w
    + C\sum_i c_i (1 - N_i\tilde w)_+ .

Newton's method and coordinate ascent run on the rows of N. They are dense, also for sparse data:
the matrix R is.

In many dimensions (more than 2500 features and observations, or sparse data with more features than
observations or with 1e8 entries if they were dense) neither R nor N is formed: Newton's method runs
on the data themselves, with the variance as a separate term (:mod:`svmcvx.fast.linear.newton`).
All steps, the certificate included, need products with the data only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as sl

from svmcvx.arguments import intercept_kind
from svmcvx.arrays import Floats
from svmcvx.catalogue import TOL
from svmcvx.certificate import relative_gap
from svmcvx.data import binary_data, check_choice, check_number, check_numbers, check_seed
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
from svmcvx.fast.linear.ascent import epoch_work, solve_rows
from svmcvx.fast.linear.blocks import BlockLoss, solve_in_blocks
from svmcvx.fast.linear.loss_passes import band, hinge_power
from svmcvx.fast.linear.newton import (
    REFRESH,
    LinearNewtonSettings,
    LinearProblem,
    earlier_point,
    kernel_for,
    linear_model,
    minimise,
    minimise_on_factor,
)
from svmcvx.feature_space import feature_space
from svmcvx.feature_space.blocks import block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin_distribution import (
    ODM,
    ODML,
    dual_objective,
    mean_weights,
    objective,
)
from svmcvx.kernels import KernelLike
from svmcvx.numerical import NewtonStep, conjugate_gradients, estimated_rounding, newton
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status
from svmcvx.system import clock, memory
from svmcvx.system.deadline import current

METHODS = ("auto", "newton", "dcd")
# Largest cost times the largest squared norm of a row, a measure of the condition, with which
# method="auto" chooses coordinate ascent on a factor, and epochs after which it continues with
# Newton's method.
CONDITION, EPOCHS = 1e5, 100.0


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
    C1: float | None = None,
    C2: float | None = None,
    D: float = 0.1,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    tol: float = TOL,
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

    Source: [ZhangZhou], eqs. (7), (19), Algorithm 1. Every θ is dual feasible, and the margins of
    any w give one.

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection or RowBlocks of shape (n, d)
        Without a kernel the rows may come in blocks, see ``docs/scale.md``.
    y : array-like, Dask collection or ``blocks.y`` of shape (n,)
        Two labels of any type.
    C1, C2, D
        As for :func:`svmcvx.odm_primal`.
    max_iter : int
        Newton steps; rounds of coordinate ascent, of up to 20 epochs.
    warm_start : Solution or (coef, intercept), optional
        An earlier solution of the same data, for any hyper-parameters; for a linear model also a
        solution for other rows with the same features, or the coefficients and the intercept of any
        solver.
    method : "auto", "newton", "dcd" or "blocks"
        Newton's method on the primal, or coordinate ascent on the signed dual, both on a factor of
        the Gram matrix; or Newton's method on products with a kernel matrix that is never stored
        (:mod:`svmcvx.fast.margin_distribution.solvers`), for kernels that are positive
        semidefinite on any data. ``"auto"`` is for such kernels on more than 5000 observations
        ``"blocks"``; else coordinate ascent, and then Newton's method if it does not reach the
        tolerance or will not at the rate at which its gap falls: for linear machines with less work
        than Newton's method, for kernels within 100 epochs, and not at all if ``2 max(C1, C2) max
        k(x, x)``, a measure of the condition, is above 1e5.

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
    D = check_number(D, "D")
    if in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None, method=method not in ("auto", "newton"))
        rows = block_space(X, y, sample_weight, intercept=rule)
        if not rows.small:
            C1, C2 = mean_weights(rows, C1=C1, C2=C2)
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
    C1, C2 = mean_weights(space, C1=C1, C2=C2)
    statement = ODM(space, C1, C2, D)
    if method == "blocks" and not space.blockwise:
        raise DataError(
            'method="blocks" needs a kernel that is positive semidefinite on any data, got'
            f' {space.kernel or "kernel=None"}; use method="auto"'
        )
    # A linear problem accepts a solution for other rows.
    same = None if space.is_linear else statement
    earlier = earlier_solution(start_of(warm_start, statement), same)
    w, theta = earlier_point(statement, earlier, "theta")

    def run(monitor: Monitor, start: tuple[Floats | None, Floats | None] | None) -> Found:
        w, theta = start or (None, None)
        if space.blockwise:
            search = _Search(statement, monitor, settings)
            status = search.run(theta)
            points = RecoveredPoints([space.model(search.best_v)], [{"theta": search.best_theta}])
            info = {"iterations": search.steps, "products": search.products, "rank": search.rank}
            return points, status, {"method": "blocks", **info}
        check_seed(seed)
        return solve_interruptible(
            monitor, _solve_odm, statement, monitor, w, theta, method, seed, settings.newton
        )

    start = None if w is None and theta is None else (w, theta)
    return solve(statement, run, start, limits, name="fast.odm/{method}", method=method)


@dataclass(frozen=True)
class ODMLSettings:
    """Parameters of :func:`odml`: those of Newton's method."""

    newton: LinearNewtonSettings = field(default_factory=LinearNewtonSettings)


@limited
def odml(
    X: Any,
    y: Any,
    *,
    lam1: float = 0.0625,
    lam2: float = 0.0625,
    C: float | None = None,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
    max_iter: int = 10_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "auto",
    seed: int = 0,
    indefinite: str = "error",
    settings: ODMLSettings | None = None,
) -> Solution:
    r"""Solve the soft-margin ODML to a certified relative gap.

    .. math::
        \min_w\; \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u +
        C\sum_i c_i (1 - u_i)_+

    Source: [ZhangZhou], eqs. (5), (12)-(14), Algorithm 1.

    Parameters
    ----------
    X, y, max_iter
        As for :func:`svmcvx.fast.odm`.
    lam1, lam2, C
        As for :func:`svmcvx.odml_primal`.
    method : "auto", "newton", "dcd" or "unwhitened"
        The augmented Lagrangian with Newton's method inside, or coordinate ascent on the dual.
        ``"auto"`` is in many dimensions ``"unwhitened"``, without the whitened rows; else up to 100
        epochs of coordinate ascent if C times the largest squared norm of a whitened row, a measure
        of the condition, is at most 1000, with a kernel 1e5, and Newton's method, from their
        multipliers, if they are not enough or will not be at the rate at which their gap falls.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.fast.odml(X, y, C=1.0, lam1=0.1, lam2=0.1).certificate.is_certified(1e-6)
    True
    """
    check_choice(method, "method", (*METHODS, "unwhitened"))
    settings = checked_settings(settings, ODMLSettings)
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    lam1, lam2 = check_numbers(lam1=lam1, lam2=lam2)
    if C:
        why = "a smaller weight of the losses underflows"
        C = check_number(check_number(C, "C", "[0, inf)"), "C", "[1e-300, inf)", why=why)
    rule = intercept_kind(intercept, own="penalised")
    if from_blocks := in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None, method=method not in ("auto", "unwhitened"))
        rows = block_space(X, y, sample_weight, intercept=rule)
        if not rows.small:
            (C,) = mean_weights(rows, C=C)
            machine = ODML(rows, lam1, lam2, C)
            mean = rows.expansion(machine.y * machine.share).value
            terms, total = {"linear_term": lam2 * mean, "variance": lam1}, rows.data.total_weight
            return solve_in_blocks(
                machine,
                rows,
                BlockLoss(hinge_power(1.0), C / total, terms, total),
                limits,
                solver="fast.odml/unwhitened",
                warm_start=earlier_solution(warm_start),
                settings=settings.newton,
            )
        X, y, sample_weight = rows.loaded()
    data = binary_data(X, y, sample_weight)
    space = feature_space(data, kernel_for(data, kernel), intercept=rule, indefinite=indefinite)
    statement = ODML(space, lam1, lam2, *mean_weights(space, C=C))
    if method == "unwhitened" and not space.is_linear:
        raise DataError('method="unwhitened" needs kernel=None; use method="auto"')
    # Rows from blocks are started by models of other rows as well.
    alpha = _start_from(statement, earlier_solution(warm_start, None if from_blocks else statement))

    def run(monitor: Monitor, alpha: Floats | None) -> Found:
        if space.is_linear and (
            method == "unwhitened" or (method == "auto" and statement.curvature.by_products)
        ):
            return _unwhitened(statement, monitor, alpha, settings.newton)
        check_seed(seed)
        return solve_interruptible(
            monitor, _solve_whitened, statement, monitor, alpha, method, seed, settings.newton
        )

    return solve(statement, run, alpha, limits, name="fast.odml/{method}", method=method)


def _solve_odm(
    statement: ODM,
    monitor: Monitor,
    w: Floats | None,
    theta: Floats | None,
    method: str,
    seed: int,
    newton: LinearNewtonSettings,
) -> Found:
    """Solve on the data or a kernel's factor."""
    space, y = statement.space, statement.y
    problem = _linear_problem(statement, None if space.is_linear else space.factor)
    condition = 2.0 * max(statement.C1, statement.C2) * float(problem.norms.max()) ** 2
    good = problem.kernel_expansion and condition <= CONDITION
    if w is None and theta is not None:
        w = problem.primal_of(theta)
    elif w is not None and theta is None:
        theta = statement.multipliers(y * np.asarray(problem.X @ w))
    most = EPOCHS * epoch_work(problem) if good else None if space.is_linear else 0.0
    point, status, options = solve_rows(
        problem, monitor, method, w=w, alpha=theta, most=most, seed=seed, newton=newton
    )
    model: Any = (
        linear_model(space, point.w, 0.0, point.alpha != 0)
        if space.is_linear
        else space.model(point.expansion * y)
    )
    return RecoveredPoints([model], [{"theta": point.alpha}]), status, options


def _linear_problem(statement: ODM, factor: Any) -> LinearProblem:
    """Return the problem on the rows of a factor of the kernel; for None on the data."""
    space: Any = statement.space
    loss = band(statement.C1, statement.C2, statement.D)
    terms: dict[str, Any] = {"kernel_expansion": True}
    if factor is None:
        terms = {"norms": space.norms, "constant": space.intercept == "penalised"}
        factor = space.data.X
    return LinearProblem(factor, statement.y, statement.share, loss, **terms)


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
        what = f"a partial factor of {n} × {rank} kernel columns"
        memory.require(8.0 * 3.0 * n * rank, what, "use fewer observations")
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
            problem = _linear_problem(self.statement, self.factor)
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
        began = clock.now()
        found: Floats = self.statement.space.point(v).scores.value
        self.seconds = max(self.seconds, clock.now() - began)
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


def _solve_whitened(
    statement: ODML,
    monitor: Monitor,
    alpha: Floats | None,
    method: str,
    seed: int,
    newton: LinearNewtonSettings,
) -> Found:
    """Solve the SVM with a linear term on the whitened rows."""
    space, c = statement.space, statement.share
    n, r = space.factor.shape
    remedy = "select features or use fewer observations, or use fast.odm"
    memory.require(8.0 * 2.0 * n * r, f"the whitened {n} × {r} data", remedy)
    rows = np.ascontiguousarray(statement.curvature.whitened())
    # With as many columns those of the factor are the columns of the data.
    expands = not (space.is_linear and space.X.shape[1] <= n)
    problem = LinearProblem(
        rows,
        np.ones(n),
        statement.C * c,
        hinge_power(1.0),
        linear_term=statement.lam2 * (rows.T @ c),
        kernel_expansion=expands,
    )
    # Without a kernel the steps of Newton's method cost little.
    most = CONDITION if expands else 1e-2 * CONDITION
    good = statement.C * float(problem.norms.max()) ** 2 <= most
    most = EPOCHS * epoch_work(problem) if good else 0.0
    point, status, options = solve_rows(
        problem, monitor, method, alpha=alpha, most=most, seed=seed, newton=newton
    )
    if expands:
        v, _ = statement.minimiser(np.clip(point.expansion, 0.0, statement.upper_bound()))
        model: Any = space.model(v)
    else:
        triangle = statement.curvature.triangle
        w = sl.solve_triangular(triangle, point.w, lower=True, trans=1, check_finite=False)
        model = linear_model(space, w, 0.0, np.ones(n, dtype=bool))
    return RecoveredPoints([model], [{"alpha": point.alpha}]), status, options


def _unwhitened(
    statement: ODML, monitor: Monitor, alpha: Floats | None, newton: LinearNewtonSettings
) -> Found:
    space, c, y = statement.space, statement.share, statement.y
    problem = LinearProblem(
        space.X,
        y,
        statement.C * c,
        hinge_power(1.0),
        linear_term=statement.lam2 * np.asarray(space.X.T @ (y * c)),
        variance=statement.lam1,
        share=c,
    )
    w = None
    if alpha is not None:
        w = statement.curvature.solve_by_products(y * (alpha + statement.lam2 * c))
    point, status = minimise(problem, monitor, w=w, alpha=alpha, settings=newton)
    model = linear_model(space, point.w, 0.0, np.ones(y.size, dtype=bool))
    options = {"method": "unwhitened", "iterations": point.steps}
    return RecoveredPoints([model], [{"alpha": point.alpha}]), status, options


def _start_from(statement: ODML, warm: Solution | None) -> Floats | None:
    """Return an earlier solution's multipliers at the present C, or those of its coefficients."""
    w, alpha = earlier_point(statement, warm, "alpha")
    if warm is not None and alpha is not None:
        earlier = warm.hyperparameters.get("C", statement.C)
        ratio = statement.C / earlier if isinstance(earlier, (int, float)) and earlier > 0 else 1.0
        return np.clip(alpha * ratio, 0.0, statement.upper_bound())
    if w is None:
        return None
    short = statement.y * np.asarray(statement.space.X @ w) < 1.0
    return np.where(short, statement.upper_bound(), 0.0)
