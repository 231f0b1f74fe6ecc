r"""Specialised solvers of the pSVM: pSMO for kernels, Newton's method without a Gram matrix for
linear ones.

The statement is that of :mod:`svmcvx.formulations.margin.psvm`, and so is the certificate.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import binary_data, check_choice, check_costs, check_number
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    Monitor,
    checked_settings,
    earlier_solution,
    limited,
    monitored,
    solved_from,
    start_of,
)
from svmcvx.fast.core.row_cache import GramRows, RowCacheSettings, Rows, kernel_rows
from svmcvx.fast.margin import psvm_linear
from svmcvx.fast.margin.decomposition import Decomposition, DecompositionSettings, Shortcut
from svmcvx.fast.margin.feasible import earlier_multipliers
from svmcvx.fast.margin.low_rank_newton import LowRankNewton, LowRankSettings
from svmcvx.fast.margin.psvm_unbiased import FACTORED, solve_unbiased
from svmcvx.fast.margin.smo_passes import near_best_bias
from svmcvx.fast.margin.support_newton import SupportNewton
from svmcvx.feature_space import feature_space
from svmcvx.feature_space.first_pass import block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin.liblinear import check_intercept, kind_of_psvm
from svmcvx.formulations.margin.psvm import PSVM, best_bias, dual_objective, objective
from svmcvx.kernels import KernelLike
from svmcvx.losses import hinge_power_conjugate
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status

__all__ = ["KERNEL_METHODS", "PSVMSettings", "psvm"]

Floats: TypeAlias = NDArray[np.float64]

# Of the formulation with a kernel; psvm_linear has those of the linear formulation.
KERNEL_METHODS = ("auto", "smo")
# Multiples of earlier multipliers that are tried as a start.
MULTIPLES = np.concatenate([[1.0, 0.0], np.geomspace(1e-6, 1e6, 49)])
# C times the mean squared norm of the rows, a measure of the condition, times n² up to which few
# observations are solved by pSMO sooner than by Newton's method; measured.
EASY_PAIRS = 3e6
# How a solver may end for good.
ENDED = (Status.OPTIMAL, Status.TIME_LIMIT, Status.INTERRUPTED)
# Relative rounding by which a multiple may take a multiplier above its upper bound; it is clipped
# there.
ABOVE_BOUND = 1e-12
# Observations up to which ``method="auto"`` may begin with pSMO for the linear formulation with p =
# 1.
SMO_MAX_SAMPLES = 250


@dataclass(frozen=True)
class PSVMSettings:
    """Parameters of the algorithms of :func:`psvm`; all but the last two concern kernels.

    Parameters
    ----------
    rows : RowCacheSettings
        Of kernel rows and their cache.
    decomposition : DecompositionSettings
        Of pSMO.
    low_rank : LowRankSettings
        Of the shortcut by a factor of low rank.
    expected_newton_steps : float
        From an earlier solution Newton's method on the support vectors is tried when pair steps
        have cost as much as this number of its steps.
    smo_max_rounds : int
        Rounds of pSMO after which the linear formulation continues with Newton's method.
    smo : DecompositionSettings
        Of these rounds.
    """

    rows: RowCacheSettings = field(default_factory=RowCacheSettings)
    decomposition: DecompositionSettings = field(default_factory=DecompositionSettings)
    low_rank: LowRankSettings = field(default_factory=LowRankSettings)
    expected_newton_steps: float = 1.5
    smo_max_rounds: int = 3
    smo: DecompositionSettings = field(
        default_factory=lambda: DecompositionSettings(steps=10, final=1e-3)
    )


@limited
def psvm(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    p: float = 1.0,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | tuple[Any, Any] | None = None,
    cache_size: float = 500.0,
    float32_cache: bool = True,
    intercept: str = "free",
    indefinite: str = "error",
    method: str = "auto",
    seed: int = 0,
    settings: PSVMSettings | None = None,
) -> Solution:
    r"""Solve the pSVM by a specialised method, to a certified relative gap.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C \sum_i s_i\, (1 - y_i(\langle w, \varphi(x_i)\rangle + b))_+^p

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection or RowBlocks of shape (n, d)
        The Gram matrix for a precomputed kernel. Without a kernel the rows may come in blocks, see
        ``docs/scale.md``.
    y : array-like, Dask collection or ``blocks.y`` of shape (n,)
        Two labels of any type.
    C : float
        Weight of the losses, positive; 1 by default.
    p : float
        Exponent of the hinge, any real number of at least 1, the default.
    max_iter : int
        Rounds: working sets with a kernel, Newton steps without.
    cache_size : float
        With a kernel: megabytes of stored kernel rows, 500 by default; no other memory grows with
        n². If there is no room for a quarter of the rows, only rows that are used often are stored,
        and below a twentieth none (:mod:`svmcvx.fast.core.row_cache`).
    float32_cache : bool
        With a kernel: compute rows in single precision when there are more than a few thousand
        observations. Bounds are always computed in double precision.
    intercept : "free", "penalised" or "none"
        A free intercept; the coefficient of a constant feature, which is penalised like the others,
        as in LIBLINEAR; or none. With a kernel the last two are solved on a factor of the Gram
        matrix (:mod:`svmcvx.fast.margin.psvm_unbiased`).
    indefinite : "error" or "clip"
        With a kernel: what to do if it is indefinite on the data. Kernels that may be (sigmoid,
        callable, precomputed) are tested, which needs the Gram matrix.
    method : str
        With a kernel ``"auto"`` or ``"smo"``, which are the same; without one ``"auto"`` or
        ``"newton"``, see :mod:`svmcvx.fast.margin.psvm_linear`: for p = 1, few observations and C
        that is small for their number and norms ``"auto"`` begins with pSMO.
    seed : int
        With a kernel: of the first working set. Same seed, same result.

    Returns
    -------
    Solution

    Raises
    ------
    DataError
        If the data or an argument cannot be used, or `warm_start` is a solution of other data.
    BuildError
        If the kernel has to be tested and its Gram matrix does not fit into memory.

    Notes
    -----
    Source: [Sun], Algorithm 1 (pSMO), with larger working sets and second-order selection. Where
    pair steps take long, Newton's method may replace them. From an earlier solution, with a stored
    Gram matrix (:mod:`svmcvx.kernels.gram_cache`), it solves the equations of the support vectors
    (:mod:`svmcvx.fast.margin.support_newton`); otherwise, for a kernel matrix of small numerical
    rank (few features), a problem on a factor of it (:mod:`svmcvx.fast.margin.low_rank_newton`),
    which takes up to `cache_size` megabytes more for a time.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> solution = sx.fast.psvm(X, y, C=1.0, p=1.5, kernel="rbf", tol=1e-8)
    >>> solution.status.value, solution.certificate.is_certified(1e-8)
    ('optimal', True)
    """
    C = check_number(C, "C", low=0, open_low=True)
    p = check_number(p, "p", low=1, why="p < 1 is not convex")
    intercept = check_intercept(intercept)
    settings = checked_settings(settings, PSVMSettings)
    if from_blocks := in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None)
        check_choice(method, "method", psvm_linear.METHODS)
        blocks = block_space(X, y, sample_weight, intercept=intercept)
        if not blocks.small:
            return psvm_linear.solve_blocks(
                blocks,
                C=C,
                p=p,
                warm_start=earlier_solution(warm_start),
                tol=tol,
                max_iter=max_iter,
                verbose=verbose,
                callback=callback,
            )
        X, y, sample_weight = blocks.loaded()
    data = binary_data(X, y, sample_weight)
    check_costs(C, data.weight)
    space = feature_space(
        data,
        kernel,
        intercept=intercept,
        indefinite=indefinite,
        keep_gram=intercept != "free" and data.n <= FACTORED,
        block_entries=settings.rows.block_entries,
    )
    linear = space.is_linear
    check_choice(method, "method", psvm_linear.METHODS if linear else KERNEL_METHODS)
    statement = kind_of_psvm(intercept)(space=space, C=C, p=p)
    # Rows from blocks are started by models of other rows as well.
    given = start_of(warm_start, statement)
    if given is not warm_start and intercept != "free":
        raise DataError(
            "warm_start=(coef, intercept) starts the pSVM with a free intercept; pass a Solution of"
            " the same data"
        )
    warm = earlier_multipliers(given, statement, required=not from_blocks and given is warm_start)
    earlier = earlier_solution(given)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:

        def solve(start: Any) -> Found:
            if intercept != "free":
                return solve_unbiased(statement, monitor, start=start, cache_size=cache_size)
            if linear and method == "auto" and p == 1 and start is None and _pairs_first(statement):
                return _solve_few(statement, monitor, seed, cache_size, settings)
            if linear:
                return psvm_linear.solve_linear(statement, monitor, start=start)
            rows, size = kernel_rows(
                space,
                working_set=settings.decomposition.working_set_size(data.n),
                tiled_working_set=settings.decomposition.tiled_working_set_size(data.n),
                cache_size=cache_size,
                float32=float32_cache,
                settings=settings.rows,
            )
            return _solve_kernel(statement, rows, size, monitor, start, seed, cache_size, settings)

        start = None if earlier is None else _start_from(statement, earlier, warm)
        return solved_from(
            statement,
            monitor,
            solve,
            start,
            solver=lambda options: f"fast.psvm/{options.get('method', 'smo')}",
        )


def _pairs_first(statement: PSVM) -> bool:
    """Whether the linear formulation with p = 1 begins by pSMO."""
    n = statement.y.size
    if n > SMO_MAX_SAMPLES:
        return False
    squares = float(statement.space.diagonal().sum())
    return statement.C * squares * n <= EASY_PAIRS


def _start_from(statement: PSVM, earlier: Solution, alpha: Floats | None) -> Any:
    """Return the starting point of the method for a statement: a linear point, multipliers, or
    these and their scores.
    """
    free = statement.space.intercept == "free"
    if free and statement.space.is_linear:
        return psvm_linear.start_from(statement, earlier, alpha)
    if alpha is None:
        return None
    ratio = _ratio(statement, earlier)
    return _adapted(statement, alpha, ratio) if free else alpha * ratio


def _solve_few(
    statement: PSVM, monitor: Monitor, seed: int, cache_size: float, settings: PSVMSettings
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve the linear formulation with p = 1 by a few rounds of pSMO, and if these do not suffice,
    by Newton's method.
    """
    space, n, most = statement.space, statement.y.size, monitor.max_iter
    everything = np.arange(n)
    rows = GramRows(np.ascontiguousarray(space.block(everything, everything)))
    monitor.max_iter = min(settings.smo_max_rounds, most)
    try:
        steps = replace(settings, decomposition=settings.smo)
        found, status, options = _solve_kernel(
            statement, rows, n, monitor, None, seed, cache_size, steps
        )
    finally:
        monitor.max_iter = most
    if status in ENDED or (status is Status.ITERATION_LIMIT and most <= settings.smo_max_rounds):
        return found, status, options
    alpha, model = found.duals[-1]["alpha"], found.models[-1]
    start = psvm_linear.LinearStart(np.array(model.coef), float(model.intercept), alpha)
    return psvm_linear.solve_linear(statement, monitor, start=start)


def _solve_kernel(
    statement: PSVM,
    rows: Rows,
    size: int,
    monitor: Monitor,
    start: tuple[Floats, Floats] | None,
    seed: int,
    cache_size: float,
    settings: PSVMSettings,
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    y, p, weight = statement.y, statement.p, statement.weight
    b, scores = 0.0, np.zeros(0)

    def bounds(alpha: Floats, f: Floats) -> tuple[float, float]:
        nonlocal b, scores
        norm = max(float((alpha * y) @ f), 0.0)
        # Any bias gives an upper bound; for p > 1 a nearly optimal one is found much faster than
        # the exact one.
        b = best_bias(f, y, p=p, weight=weight) if p == 1 else near_best_bias(f, y, weight, p, b)
        scores = f if p == 1 else scores
        with np.errstate(over="ignore"):
            upper = objective(norm, y * (f + b), C=statement.C, p=p, weight=weight)
        return dual_objective(alpha, norm, C=statement.C, p=p, weight=weight), upper

    low_rank = LowRankNewton(statement, cache_size, settings.low_rank)
    support_newton = None
    if start is not None and isinstance(rows, GramRows) and SupportNewton.applies(p, y.size):
        support_newton = SupportNewton(
            statement, rows.store, bounds, settings.expected_newton_steps
        )
    shortcut: Shortcut | None = None
    kind = settings.decomposition.ascent or Decomposition
    if kind.takes_shortcuts:
        shortcut = low_rank if support_newton is None else support_newton
    ascent = kind(
        statement=statement,
        rows=rows,
        bounds=bounds,
        c=statement.C * p * weight,
        r=0.0 if p == 1 else 1.0 / (p - 1.0),
        upper_bound=np.array(np.broadcast_to(statement.upper_bound(), y.shape), dtype=np.float64),
        size=size,
        seed=seed,
        alpha=np.zeros(y.size) if start is None else start[0],
        scores=None if start is None else start[1],
        shortcut=shortcut,
        settings=settings.decomposition,
    )
    status = ascent.run(monitor)
    options = ascent.options
    if support_newton is not None and support_newton.useful_steps:
        options["newton_steps"] = support_newton.useful_steps
    if low_rank.rank:
        options["low_rank"] = low_rank.rank
    found = RecoveredPoints([], [])
    for alpha in ascent.points():
        f = statement.space.point(alpha * y).scores.value
        bias = b if np.array_equal(f, scores) else statement.exact_intercept(f, near=b)
        found.models.append(statement.space.model(alpha * y, bias))
        found.duals.append({"alpha": alpha})
    return found, status, options


def _ratio(statement: PSVM, earlier: Solution) -> float:
    """Return by how much C has grown since an earlier solution, 1 if that is unknown."""
    C = earlier.hyperparameters.get("C")
    return statement.C / C if isinstance(C, float) and C > 0 else 1.0


def _adapted(statement: PSVM, alpha: Floats, ratio: float) -> tuple[Floats, Floats]:
    """Return the multiple of earlier multipliers with the best dual objective, and nearly its
    scores; `ratio` is one of those tried.
    """
    alpha = statement.feasible(alpha)
    p, weight = statement.p, statement.weight
    point = statement.space.point(alpha * statement.y)
    norm = float(point.squared_norm.value)
    multiples = np.append(MULTIPLES, ratio)
    # The conjugate of the loss is the indicator of the box for p = 1, and homogeneous of degree
    # p/(p - 1) for p > 1.
    with np.errstate(over="ignore", invalid="ignore"):
        if p == 1:
            filled = float((alpha / statement.upper_bound()).max())
            conjugates = np.where(multiples * filled <= 1.0 + ABOVE_BOUND, 0.0, np.inf)
        else:
            whole = float(hinge_power_conjugate(alpha, statement.C * weight, p).sum())
            conjugates = np.where(multiples > 0, whole * multiples ** (p / (p - 1.0)), 0.0)
        values = multiples * float(alpha.sum()) - conjugates - 0.5 * multiples**2 * norm
    best = float(multiples[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))])
    return np.minimum(best * alpha, statement.upper_bound()), best * point.scores.value
