r"""Fast solvers of ODML; the statement is :mod:`svmcvx.formulations.margin_distribution`.

With the factor :math:`TT' = R` of the curvature of mean and variance, :math:`\tilde w = T'w` and
the whitened rows :math:`N = ZT^{-T}`, the machine is an SVM without bias and with a linear term for
the mean:

.. math:: \min_{\tilde w}\; \tfrac12\|\tilde w\|^2 - \lambda_2 (N'c)'\tilde w + C\sum_i c_i (1 - N_i\tilde w)_+ .

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
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.data import binary_data, check_choice, check_number, check_seed
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
)
from svmcvx.fast.core.rows import ProductSeconds, on_pivots
from svmcvx.fast.linear.blocks import BlockLoss, solve_in_blocks
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.newton import (
    BestPoint,
    KernelNewton,
    LinearNewtonSettings,
    LinearProblem,
    earlier_coefficients,
    kernel_for,
    linear_model,
    minimise,
)
from svmcvx.fast.margin_distribution.odm import METHODS, ascend
from svmcvx.feature_space import feature_space, penalised_or_none
from svmcvx.feature_space.blocks import block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin_distribution import ODML, check_penalties
from svmcvx.kernels import KernelLike
from svmcvx.losses import variance_multipliers
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status
from svmcvx.system import memory
from svmcvx.system.deadline import current

Floats: TypeAlias = NDArray[np.float64]
# Largest C times the largest squared norm of a whitened row, a measure of the condition, with which
# ``method="auto"`` chooses coordinate ascent.
LARGEST_CONDITION = 1e5
# Rounds of coordinate ascent after which ``method="auto"`` continues with Newton's method: about
# the work of that method.
ROUNDS = 20
# First penalty σ of Newton's method after them: their multipliers are nearer than zeros (σ = 1),
# and not as near as an earlier solution's (100).
HANDOVER_SIGMA = 3.0


@dataclass(frozen=True)
class ODMLSettings:
    """Parameters of the algorithms of :func:`odml`.

    Parameters
    ----------
    largest_gram : int
        Largest number of observations of which ``method="auto"`` keeps a Gram matrix and its
        factor.
    newton : LinearNewtonSettings
        For Newton's method.
    largest_rank : int
        Rank of the last partial factor of ``method="low-rank"``.
    """

    largest_gram: int = 10_000
    newton: LinearNewtonSettings = field(default_factory=LinearNewtonSettings)
    largest_rank: int = 2400


@limited
def odml(
    X: Any,
    y: Any,
    *,
    lam1: float = 0.0625,
    lam2: float = 0.0625,
    C: float = 10.0,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    tol: float = 1e-6,
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
        \min_w\; \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u + C\sum_i c_i (1 - u_i)_+

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection or RowBlocks of shape (n, d)
        Without a kernel the rows may come in blocks, see ``docs/scale.md``.
    y : array-like, Dask collection or ``blocks.y`` of shape (n,)
        Two labels of any type.
    lam1, lam2, C
        As for :func:`svmcvx.odml_primal`.
    max_iter
        As for :func:`svmcvx.fast.odm`.
    method : "auto", "newton", "dcd", "unwhitened" or "low-rank"
        The augmented Lagrangian with Newton's method inside, or coordinate ascent on the dual.
        ``"auto"`` is up to 20 rounds of coordinate ascent if C times the largest squared norm of a
        whitened row, a measure of the condition, is at most 1e5, and Newton's method, from their
        multipliers, if they are not enough or will not be at the rate at which their gap falls; for
        linear machines in many dimensions ``"unwhitened"``, Newton's method without the whitened
        rows; for kernels that are positive semidefinite on any data and more than 10 000
        observations ``"low-rank"`` (:mod:`svmcvx.fast.margin_distribution.odml`), which
        stores no Gram matrix and, if a factor of rank 2400 does not suffice, ends with a larger
        gap.

    Returns
    -------
    Solution

    Raises
    ------
    DataError
        If the data or an argument cannot be used, or `warm_start` does not fit the data.
    BuildError
        If a kernel matrix, or for a `method` that needs them the d × d matrix of the margin
        variance or the n × d whitened data, would not fit into memory.

    Notes
    -----
    Source: [ZhangZhou], eqs. (5), (12)-(14), Algorithm 1.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.fast.odml(X, y, C=1.0, lam1=0.1, lam2=0.1).certificate.is_certified(1e-6)
    True
    """
    check_choice(method, "method", (*METHODS, "unwhitened", "low-rank"))
    settings = checked_settings(settings, ODMLSettings)
    limits: dict[str, Any] = {
        "tol": tol,
        "max_iter": max_iter,
        "verbose": verbose,
        "callback": callback,
    }
    lam1, lam2 = check_penalties(lam1, lam2)
    C = check_number(
        check_number(C, "C"), "C", low=1e-300, why="a smaller weight of the losses underflows"
    )
    if from_blocks := in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None, method=method not in ("auto", "unwhitened"))
        rows = block_space(X, y, sample_weight, intercept=penalised_or_none(intercept))
        if not rows.small:
            machine = ODML(rows, lam1, lam2, C)
            mean = rows.expansion(machine.y * machine.share).value
            terms = {"linear_term": lam2 * mean, "variance": lam1}
            return solve_in_blocks(
                machine,
                rows,
                BlockLoss(hinge_power(1.0), C / rows.total_weight, terms, rows.total_weight),
                solver="fast.odml/unwhitened",
                warm_start=earlier_solution(warm_start),
                **limits,
                settings=settings.newton,
            )
        X, y, sample_weight = rows.loaded()
    data = binary_data(X, y, sample_weight)
    largest = {"auto": settings.largest_gram, "low-rank": 0}.get(method, math.inf)
    space = feature_space(
        data,
        kernel_for(data, kernel),
        intercept=penalised_or_none(intercept),
        indefinite=indefinite,
        keep_gram=data.n <= largest,
    )
    statement = ODML(space, lam1, lam2, C)
    if method == "unwhitened" and not space.is_linear:
        raise DataError('method="unwhitened" needs kernel=None; use method="auto"')
    without_gram = space.blockwise
    if method == "low-rank" and not without_gram:
        raise DataError(
            'method="low-rank" needs a kernel that is positive semidefinite on any data, got'
            f' {space.kernel or "kernel=None"}; use method="auto"'
        )
    # Rows from blocks are started by models of other rows as well.
    alpha = start_from(statement, earlier_solution(warm_start, None if from_blocks else statement))

    def run(monitor: Monitor, alpha: Floats | None) -> Found:
        if space.is_linear and (
            method == "unwhitened" or (method == "auto" and statement.curvature.by_products)
        ):
            point, status = _unwhitened(statement, monitor, alpha, settings.newton)
            model = linear_model(space, point.w, 0.0, np.ones(space.data.n, dtype=bool))
            info = {"method": "unwhitened", "iterations": point.steps}
            return RecoveredPoints([model], [{"alpha": point.alpha}]), status, info
        if without_gram:
            found, status = solve_by_ranks(
                statement, monitor, alpha, settings.largest_rank, settings.newton
            )
            info = {"method": "low-rank", "rank": found.rank, "complete": found.exhausted}
            return found.candidates, status, info
        rng = check_seed(seed)
        return solve_interruptible(
            monitor, _solve_whitened, statement, monitor, alpha, method, rng, settings
        )

    return solve(statement, run, alpha, name="odml", method=method, **limits)


def _solve_whitened(
    statement: ODML,
    monitor: Monitor,
    alpha: Floats | None,
    method: str,
    rng: np.random.Generator,
    settings: ODMLSettings,
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve the SVM on the whitened rows by the given method, or by the one that ``"auto"``
    chooses.
    """
    problem = whitened_problem(statement)
    condition = statement.C * float(problem.norms.max()) ** 2
    chosen = ("dcd" if condition <= LARGEST_CONDITION else "newton") if method == "auto" else method
    earlier: BestPoint | None = None
    if chosen == "newton":
        point, status = minimise(problem, monitor, alpha=alpha, settings=settings.newton)
    else:
        start = np.zeros(statement.y.size) if alpha is None else alpha
        most = ROUNDS if method == "auto" else math.inf
        point, status = ascend(problem, monitor, start, rng, most=most)
        if status is Status.INACCURATE and method == "auto":
            earlier, chosen = point, "dcd+newton"
            point, status = minimise(
                problem,
                monitor,
                alpha=earlier.alpha,
                sigma=HANDOVER_SIGMA,
                settings=settings.newton,
            )
    candidates = points_of(statement, problem, point)
    if earlier is not None:
        more = points_of(statement, problem, earlier)
        candidates = RecoveredPoints(candidates.models + more.models, candidates.duals + more.duals)
    return candidates, status, {"method": chosen, "iterations": point.steps}


def whitened_problem(statement: ODML) -> LinearProblem:
    """Return the SVM with a linear term on the whitened rows."""
    space, c = statement.space, statement.share
    n, r = space.factor.shape
    memory.require(
        8.0 * 2.0 * n * r,
        f"the whitened {n} × {r} data",
        "select features or use fewer observations, or use fast.odm",
    )
    rows = np.ascontiguousarray(statement.curvature.whitened())
    return LinearProblem(
        rows,
        np.ones(n),
        statement.C * c,
        hinge_power(1.0),
        linear_term=statement.lam2 * (rows.T @ c),
        kernel_expansion=not has_coordinates(statement),
    )


def _unwhitened(
    statement: ODML, monitor: Monitor, alpha: Floats | None, newton: LinearNewtonSettings
) -> tuple[BestPoint, Status]:
    """Run Newton's method on the data themselves."""
    X, c, y = statement.space.X, statement.share, statement.y
    problem = LinearProblem(
        X,
        y,
        statement.C * c,
        hinge_power(1.0),
        linear_term=statement.lam2 * np.asarray(X.T @ (y * c)),
        variance=statement.lam1,
        share=c,
    )
    w = (
        None
        if alpha is None
        else statement.curvature.solve_by_products(y * (alpha + statement.lam2 * c))
    )
    return minimise(problem, monitor, w=w, alpha=alpha, settings=newton)


def has_coordinates(statement: ODML) -> bool:
    """Return whether the columns of the factor are the columns of the data."""
    space = statement.space
    return space.is_linear and space.X.shape[1] <= space.X.shape[0]


def start_from(statement: ODML, warm: Solution | None) -> Floats | None:
    """Return multipliers from an earlier solution: its own, scaled to the present C, or those of
    its linear coefficients.
    """
    if warm is None:
        return None
    data, upper_bound = statement.space.data, statement.upper_bound()
    alpha = warm.dual.get("alpha")
    if alpha is not None and np.shape(alpha) in ((data.rows,), (data.n,)):
        earlier = warm.hyperparameters.get("C", statement.C)
        ratio = statement.C / earlier if isinstance(earlier, (int, float)) and earlier > 0 else 1.0
        return np.clip(statement.entry({"alpha": alpha}, "alpha") * ratio, 0.0, upper_bound)
    w = earlier_coefficients(statement.space, warm.model)
    if w is not None:
        return np.where(statement.y * np.asarray(statement.space.X @ w) < 1.0, upper_bound, 0.0)
    if warm.dual:
        found = "none" if alpha is None else f"one of shape {np.shape(alpha)}"
        raise DataError(
            "warm_start does not fit: its dual point needs the entry 'alpha' of shape"
            f" ({data.rows},), got {found}; pass a solution of odml for the same data"
        )
    return None


def points_of(statement: ODML, problem: LinearProblem, point: BestPoint) -> RecoveredPoints:
    space = statement.space
    duals: list[Dual] = [{"alpha": point.alpha}]
    if not problem.kernel_expansion:
        w = sl.solve_triangular(
            statement.curvature.triangle, point.w, lower=True, trans=1, check_finite=False
        )
        return RecoveredPoints(
            [linear_model(space, w, 0.0, np.ones(statement.y.size, dtype=bool))], duals
        )
    v, _ = statement.minimiser(np.clip(point.expansion, 0.0, statement.upper_bound()))
    return RecoveredPoints([space.model(v)], duals)


# Rank of the first partial factor.
FIRST_RANK = 300
# Time reserved, in products with K: those of this round's points and of an earlier round's, a tenth
# more.
PRODUCTS_LEFT = 2.2


@dataclass
class LowRankPoints:
    """Models and dual points that were recovered, the latest first."""

    candidates: RecoveredPoints = field(default_factory=lambda: RecoveredPoints([], []))
    rank: int = 0
    exhausted: bool = False


def solve_by_ranks(
    statement: ODML,
    monitor: Monitor,
    alpha: Floats | None,
    largest_rank: int,
    settings: LinearNewtonSettings,
) -> tuple[LowRankPoints, Status]:
    r"""Solve the machine on partial factors :math:`K \approx FF'` of growing rank.

    Their multipliers α and τ are feasible for K, and :math:`v = y(\alpha + \lambda_2 c - \tau)` is a
    point of the kernel's own space, so one product with K gives both bounds; if the model of the
    factor's problem is better, it is expanded on the pivots.
    """
    s, y, c, space = statement, statement.y, statement.share, statement.space
    n = y.size
    largest = int(min(largest_rank, n, memory.available() / (8.0 * 4.0 * n)))
    memory.require(
        8.0 * 4.0 * n * min(n, FIRST_RANK),
        f"a partial factor of {n} kernel columns",
        "use fewer observations",
    )

    def on_factor(F: Floats) -> LinearProblem:
        q = s.lam2 * (F.T @ (y * c))
        return LinearProblem(
            F, y, s.C * c, hinge_power(1.0), linear_term=q, variance=s.lam1, share=c
        )

    product = 0.0
    if math.isfinite(monitor.deadline.end):
        timed = ProductSeconds(space)
        timed.after(0.0)
        product = timed.of(float(n) ** 2)
        # Without time for one, the factor may take all.
        monitor.reserve(PRODUCTS_LEFT * product if product < current().remaining else 0.0)
    newton = KernelNewton(space, on_factor, settings)
    partial = newton.factor
    found, v, rank = LowRankPoints(), np.zeros(n), min(FIRST_RANK, largest)
    best: tuple[float, float] = (-math.inf, math.inf)
    steps = 0
    while True:
        complete = newton.grow(rank, monitor)
        F = partial.factor
        point = newton.solve(monitor, alpha=alpha, v=None if alpha is None else v)
        alpha = point.alpha
        found.rank, found.exhausted = len(partial.pivots), complete
        if current().remaining < product:
            # Nothing is known of points that span all observations; those on the pivots take a
            # small product.
            if partial.pivots and not found.candidates.models:
                found.candidates.models.append(space.model(on_pivots(F, partial.pivots, point.w)))
            return found, monitor.late
        tau = variance_multipliers(y * (F @ point.w), s.lam1, c)
        dual: Dual = s.repair({"alpha": alpha, "tau": tau})
        v = s.expansion(dual["alpha"], dual["tau"])
        model = space.model(v)
        upper, lower = s.evaluate(model), s.evaluate_dual(dual)
        if partial.pivots and point.upper < upper.upper_end:
            spanned = space.model(on_pivots(F, partial.pivots, point.w))
            value = s.evaluate(spanned)
            if value.upper_end < upper.upper_end:
                model, upper = spanned, value
        # The checker evaluates every candidate; more than two would only cost time.
        if upper.upper_end < best[1] or lower.lower_end > best[0]:
            best = (max(best[0], lower.lower_end), min(best[1], upper.upper_end))
            found.candidates = RecoveredPoints(
                [model, *found.candidates.models[:1]], [dual, *found.candidates.duals[:1]]
            )
        steps += 1
        status = monitor.report(steps, lower.lower_end, upper.upper_end)
        if status is Status.TIME_LIMIT and best == (lower.lower_end, upper.upper_end):
            # What was found before has no part in the interval.
            found.candidates = RecoveredPoints([model], [dual])
        if status is None and (complete or found.rank >= largest):
            status = Status.INACCURATE
        if status is not None:
            return found, status
        rank = min(2 * rank, largest)
