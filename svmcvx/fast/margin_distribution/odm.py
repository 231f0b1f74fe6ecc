"""Fast solvers of the optimal margin distribution machine; the statement is
:mod:`svmcvx.formulations.margin_distribution.odm`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import Dual, relative_gap
from svmcvx.data import binary_data, check_choice, check_seed
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
from svmcvx.fast.core.rows import ProductSeconds
from svmcvx.fast.linear.blocks import BlockLoss, solve_in_blocks
from svmcvx.fast.linear.loss_passes import band
from svmcvx.fast.linear.newton import (
    ArrayBounds,
    BestPoint,
    KernelNewton,
    LinearNewtonSettings,
    LinearProblem,
    earlier_coefficients,
    estimated_rounding,
    kernel_for,
    linear_model,
    minimise,
)
from svmcvx.fast.margin_distribution import coordinate_ascent_passes as compiled
from svmcvx.feature_space import feature_space, penalised_or_none
from svmcvx.feature_space.blocks import block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin_distribution import ODM, check_band, dual_objective, objective
from svmcvx.kernels import KernelLike
from svmcvx.numerical import NewtonStep, conjugate_gradients, newton
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status
from svmcvx.system import memory
from svmcvx.system.deadline import current

Floats: TypeAlias = NDArray[np.float64]
# Largest ``2 max(C1, C2) max k(x, x)``, a measure of the condition, with which ``method="auto"``
# chooses coordinate ascent for kernels.
LARGEST_CONDITION = 1e5
# Rounds of coordinate ascent after which ``method="auto"`` continues with Newton's method: about
# the work of that method.
ROUNDS = 20


@dataclass(frozen=True)
class ODMSettings:
    """Parameters of the algorithms of :func:`odm`.

    Parameters
    ----------
    largest_gram : int
        Largest number of observations of which ``method="auto"`` keeps a Gram matrix and its
        factor.
    newton : LinearNewtonSettings
        For Newton's method.
    largest_rank : int
        Rank of the partial factor with which ``method="blocks"`` begins.
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

    .. math:: \min_w\; \tfrac12\|w\|^2 + \sum_i c_i \big(C_1 (1 - D - u_i)_+^2 + C_2 (u_i - 1 - D)_+^2\big)

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

    Returns
    -------
    Solution

    Raises
    ------
    DataError
        If the data or an argument cannot be used, or `warm_start` does not fit the data.
    BuildError
        If a kernel matrix would not fit into memory.

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
    limits: dict[str, Any] = {
        "tol": tol,
        "max_iter": max_iter,
        "verbose": verbose,
        "callback": callback,
    }
    if in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None, method=method not in ("auto", "newton"))
        C1, C2, D = check_band(C1, C2, D)
        rows = block_space(X, y, sample_weight, intercept=penalised_or_none(intercept))
        if not rows.small:
            return solve_in_blocks(
                ODM(rows, C1, C2, D),
                rows,
                BlockLoss(band(C1, C2, D), 1.0 / rows.total_weight),
                entry="theta",
                solver="fast.odm/newton",
                warm_start=earlier_solution(warm_start),
                **limits,
                settings=settings.newton,
            )
        X, y, sample_weight = rows.loaded()
    largest = {"auto": settings.largest_gram, "blocks": 0}.get(method, math.inf)
    C1, C2, D = check_band(C1, C2, D)
    data = binary_data(X, y, sample_weight)
    space = feature_space(
        data,
        kernel_for(data, kernel),
        intercept=penalised_or_none(intercept),
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
    w, theta = start_from(
        statement,
        earlier_solution(start_of(warm_start, statement), None if space.is_linear else statement),
    )
    warm = w is not None or theta is not None

    def run(monitor: Monitor, start: tuple[Floats | None, Floats | None] | None) -> Found:
        w, theta = start or (None, None)
        if by_blocks:
            found, status = minimise_by_blocks(
                statement, monitor, theta, settings.largest_rank, settings.newton
            )
            points = RecoveredPoints([space.model(found.v)], [{"theta": found.theta}])
            info = {"iterations": found.steps, "products": found.products, "rank": found.rank}
            return points, status, {"method": "blocks", **info}
        return solve_interruptible(
            monitor, _solve_whole, statement, monitor, w, theta, method, check_seed(seed), settings
        )

    return solve(statement, run, (w, theta) if warm else None, name="odm", method=method, **limits)


def _solve_whole(
    statement: ODM,
    monitor: Monitor,
    w: Floats | None,
    theta: Floats | None,
    method: str,
    rng: np.random.Generator,
    settings: ODMSettings,
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve on the data, or on the factor of a kernel matrix, by the given method, or by the one
    that ``"auto"`` chooses.
    """
    problem = linear_problem(statement)
    chosen = _choose(problem) if method == "auto" else method
    if w is None and theta is not None:
        w = problem.primal_of(theta)
    if chosen == "newton":
        point, status = minimise(problem, monitor, w=w, settings=settings.newton)
    else:
        if theta is None:
            theta = (
                np.zeros(statement.y.size) if w is None else _multipliers_at(statement, problem, w)
            )
        point, status = ascend(
            problem, monitor, theta, rng, most=ROUNDS if method == "auto" else math.inf
        )
        if status is Status.INACCURATE and method == "auto":
            chosen = "dcd+newton"
            point, status = minimise(problem, monitor, w=point.w, settings=settings.newton)
    return points_of(statement, point), status, {"method": chosen, "iterations": point.steps}


def _choose(problem: LinearProblem) -> str:
    """Return the method that ``method="auto"`` chooses."""
    condition = 2.0 * max(problem.loss.C1, problem.loss.C2) * float(problem.norms.max()) ** 2
    return "dcd" if problem.kernel_expansion and condition <= LARGEST_CONDITION else "newton"


def linear_problem(statement: ODM) -> LinearProblem:
    """Return the problem on the data, or on the rows of the factor of a kernel."""
    space = statement.space
    return LinearProblem(
        space.X if space.is_linear else space.factor,
        statement.y,
        statement.share,
        band(statement.C1, statement.C2, statement.D),
        kernel_expansion=not space.is_linear,
    )


def start_from(statement: ODM, warm: Solution | None) -> tuple[Floats | None, Floats | None]:
    """Return (w, θ) of an earlier solution: linear coefficients and multipliers, None for those
    that it does not have.
    """
    if warm is None:
        return None, None
    w = earlier_coefficients(statement.space, warm.model)
    entry, rows = warm.dual.get("theta"), statement.space.data.rows
    if entry is not None and np.shape(entry) in ((rows,), (statement.space.data.n,)):
        return w, statement.entry({"theta": entry}, "theta")
    if w is None and warm.dual:
        found = "none" if entry is None else f"one of shape {np.shape(entry)}"
        raise DataError(
            f"warm_start does not fit: its dual point needs the entry 'theta' of shape ({rows},),"
            f" got {found}; pass a solution of odm for the same data"
        )
    return w, None


def _multipliers_at(statement: ODM, problem: LinearProblem, w: Floats) -> Floats:
    return statement.multipliers(statement.y * np.asarray(problem.X @ w))


def points_of(statement: ODM, point: BestPoint) -> RecoveredPoints:
    duals: list[Dual] = [{"theta": point.alpha}]
    if statement.space.is_linear:
        return RecoveredPoints(
            [linear_model(statement.space, point.w, 0.0, point.alpha != 0)], duals
        )
    return RecoveredPoints([statement.space.model(point.expansion * statement.y)], duals)


METHODS = ("auto", "newton", "dcd")

# Epochs over the active observations after each epoch over all.
SHORT_EPOCHS = 4
# Rounds after which w = w(θ), which is updated along the way, is computed afresh.
REFRESH = 10
# Rounds without a smaller gap after which it ends.
PATIENCE = 1000
# Number of rounds from which the rate of the gap is estimated, and the largest ratio of predicted
# to remaining rounds.
RATED, GENEROUS = 3, 3.0


def ascend(
    problem: LinearProblem,
    monitor: Monitor,
    theta: Floats,
    rng: np.random.Generator,
    *,
    most: float = math.inf,
) -> tuple[BestPoint, Status]:
    """Run dual coordinate ascent [HsiehChang] from `theta`."""
    m = problem
    n = theta.size
    low, high = (end * m.c for end in m.loss.domain)
    D, above, below = m.loss.quadratic_conjugate
    a, b = above / m.c, below / m.c
    theta = np.clip(theta, low, high)
    diagonal = m.norms**2
    active = np.ones(n, dtype=np.bool_)
    w = m.primal_of(theta)
    bounds = ArrayBounds(m, w, theta)
    rounds, margin = 0, math.inf
    stalled, smallest = 0, math.inf
    gaps: list[float] = []
    while True:
        if rounds % REFRESH == 0:
            w = m.primal_of(theta)
        lower, upper = bounds.update_pair(w, theta)
        status = monitor.report(rounds, lower, upper)
        stalled = 0 if monitor.gap < 0.999 * smallest else stalled + 1
        smallest = min(smallest, monitor.gap)
        gaps.append(smallest)
        hopeless = rounds + _predicted_rounds(gaps, monitor.tol) > GENEROUS * most
        if status is None and (
            rounds >= most or hopeless or stalled > PATIENCE or not math.isfinite(upper - lower)
        ):
            status = Status.INACCURATE
        if status is not None:
            bounds.best.steps = rounds
            return bounds.best, status
        largest = 0.0
        for epoch in range(1 + SHORT_EPOCHS):
            order = rng.permutation(n if epoch == 0 else np.flatnonzero(active))
            arguments = (m.y, diagonal, theta, w, D, a, b, low, high, order, active, margin)
            if sp.issparse(m.X):
                largest = compiled.ascend_sparse(m.X.data, m.X.indices, m.X.indptr, *arguments)
            else:
                largest = compiled.ascend_dense(m.X, *arguments)
            if largest == 0.0 or monitor.out_of_time():
                break
        margin = largest
        rounds += 1


def _predicted_rounds(gaps: list[float], tol: float) -> float:
    """Return the number of rounds until the gap is `tol` at the rate of the last rounds; 0 before
    there are enough rounds for a rate.
    """
    if len(gaps) <= RATED or not math.isfinite(gaps[-1 - RATED]):
        return 0.0
    fallen = math.log(gaps[-1 - RATED] / gaps[-1]) if gaps[-1] > 0 else math.inf
    return RATED * math.log(max(gaps[-1] / tol, 1.0)) / fallen if fallen > 0 else math.inf


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
# Steps without a smaller gap after which the method ends, because rounding limits the gap.
IDLE_STEPS = 4


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
    r"""Newton's method on products with K, evaluated by blocks: nothing quadratic is stored.

    A point is :math:`w = \sum_i v_i \varphi(x_i)` with scores f = Kv. Its margins give θ, and with
    :math:`g = v - y\theta`, q = Kg, one product gives P at v, its dual point θ with :math:`K(y\theta)
    = f - q`, and P at the point of θ. The gap of (v, θ) is :math:`\tfrac12 g'q`. With the second
    derivatives S on the set A of observations outside the band, the step is :math:`dv = -g - \nu`,

    .. math:: (S^{-1} + K_{AA})\, \nu = -q_A,

    by conjugate gradients, preconditioned by the same matrix with a partial factor :math:`FF'` for K.
    """

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
        if status is None and (self.idle >= IDLE_STEPS or not math.isfinite(upper - lower)):
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
