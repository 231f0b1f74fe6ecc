r"""First-order solvers of the pSVM: pSMO for kernels, methods without a Gram matrix for linear ones.

The statement is that of :mod:`svmcvx.formulations.margin.psvm`, and so is the certificate.
"""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import binary_data, check_choice, check_number
from svmcvx.fast.core.blas_threads import blas_held_to_one
from svmcvx.fast.core.monitor import Callback, Monitor, conclude, earlier_solution, monitored
from svmcvx.fast.core.row_cache import GramRows, Rows, kernel_rows
from svmcvx.fast.margin.decomposition import Decomposition, settled, working_set_size
from svmcvx.fast.margin.low_rank_newton import LowRank
from svmcvx.fast.margin.psvm_linear import solve_linear
from svmcvx.fast.margin.smo import near_best_bias
from svmcvx.fast.margin.support_newton import newton_applies, newton_on_support, newton_pays
from svmcvx.feature_space import feature_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin.psvm import BIAS_RULES, PSVM, best_bias, dual_objective, objective
from svmcvx.kernels import KernelLike
from svmcvx.losses import hinge_power_conjugate
from svmcvx.solution import Solution, Status

__all__ = ["SELECTIONS", "earlier_multipliers", "psvm"]

Floats: TypeAlias = NDArray[np.float64]

SELECTIONS = ("second-order", "random")
# Multiples of earlier multipliers that are tried as a start.
MULTIPLES = np.concatenate([[1.0, 0.0], np.geomspace(1e-6, 1e6, 49)])
# Rounding by which a multiple may take a multiplier above its upper_bound; it is cut off there.
ABOVE_CEILING = 1e-12


def earlier_multipliers(warm_start: Solution | None, statement: Any) -> Floats | None:
    """Return the multipliers of an earlier solution on the same data, None if it has none.

    Raises
    ------
    DataError
        If `warm_start` is no Solution, or one of other data.
    """
    warm_start = earlier_solution(warm_start)
    if warm_start is None or "alpha" not in warm_start.dual:
        return None
    return np.array(statement.alpha(warm_start.dual))


def psvm(
    X: Any,
    y: Any,
    *,
    C: float,
    p: float,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    selection: str = "second-order",
    cache_size: float = 500.0,
    float32_cache: bool = True,
    bias: str = "exact",
    indefinite: str = "error",
    method: str = "auto",
    seed: int = 0,
) -> Solution:
    r"""Solve the pSVM by a first-order method, to a certified relative gap.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C \sum_i s_i\, (1 - y_i(\langle w, \varphi(x_i)\rangle + b))_+^p

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        The Gram matrix for a precomputed kernel.
    y : array-like of shape (n,)
        Two labels of any type.
    C : float
        Weight of the losses, positive.
    p : float
        Exponent of the hinge, any real number of at least 1.
    kernel : Kernel, str, callable or None
        None for the linear formulation, which forms no Gram matrix.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses.
    tol : float
        Relative duality gap at which to stop, between 0 and 1.
    time_limit : float, optional
        Seconds; the best point until then is returned with its interval, as on Ctrl-C.
    max_iter : int
        Rounds (a kernel: working sets).
    verbose : bool
        Print the bounds as they close.
    callback : callable, optional
        Called with a :class:`~svmcvx.fast.core.monitor.Progress`; returning True stops.
    warm_start : Solution, optional
        An earlier solution on the same data, for any C, p or kernel.
    selection : "second-order" or "random"
        Rule for pairs of multipliers (kernels only); ``"random"`` is the paper's.
    cache_size : float
        Megabytes of kernel rows that are kept (kernels only); 500 by default. Nothing else grows with n².
    float32_cache : bool
        Keep kernel rows in single precision when there are more than a few thousand observations. Bounds are always
        computed in double precision.
    bias : "exact", "paper" or "released"
        Rule for the intercept of the model.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data. Kernels that may be (sigmoid, callable, precomputed)
        are tested, which needs the Gram matrix.
    method : str
        Of the linear formulation; see :mod:`svmcvx.fast.margin.psvm_linear`.
    seed : int
        Same seed, same result.

    Returns
    -------
    Solution

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the kernel has to be tested and its Gram matrix does not fit into memory.

    Notes
    -----
    Source: pSVM paper, Algorithm 1 (pSMO), with larger working sets and second-order selection. From an earlier solution, with a
    Gram matrix that is kept (:mod:`svmcvx.kernels.gram_cache`), it may begin with Newton steps; see :mod:`svmcvx.fast.margin.support_newton`. Where that takes long and the
    kernel matrix has a small numerical rank (few features), Newton's method on a factor of it gives the multipliers; see
    :mod:`svmcvx.fast.margin.low_rank_newton`. It uses up to `cache_size` megabytes more for a time.
    """
    started = time.perf_counter()
    C = check_number(C, "C", low=0, open_low=True)
    p = check_number(p, "p", low=1, why="p < 1 is not convex")
    check_choice(bias, "bias", BIAS_RULES)
    check_choice(selection, "selection", SELECTIONS)
    cache_size = check_number(cache_size, "cache_size", low=0, open_low=True)
    data = binary_data(X, y, sample_weight)
    space = feature_space(data, kernel, intercept="free", indefinite=indefinite, keep_gram=False)
    statement = PSVM(space=space, C=C, p=p, bias=bias)
    warm_start = earlier_solution(warm_start)
    warm = earlier_multipliers(warm_start, statement) if not space.is_linear else None
    with monitored(tol=tol, time_limit=time_limit, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        built = time.perf_counter() - started
        if not space.is_linear:
            solver = "fast.psvm/smo"
            with blas_held_to_one(data.n) as workers:
                rows, size = kernel_rows(
                    space,
                    working_set=working_set_size(data.n),
                    cache_size=cache_size,
                    float32=float32_cache,
                    workers=workers,
                )
                shortcut = LowRank(statement, cache_size) if selection == "second-order" else None
                start = None if warm_start is None or warm is None else (warm, warm_start)
                candidates, status, options = _solve_kernel(
                    statement, rows, size, monitor, start, selection, seed, shortcut
                )
        else:
            candidates, status, options = solve_linear(statement, monitor, warm=warm_start, seed=seed, method=method)
            solver = f"fast.psvm/{options.get('method', 'linear')}"
        return conclude(
            statement,
            candidates,
            monitor,
            status,
            solver=solver,
            build_seconds=built,
            warm_start_used=warm is not None or (warm_start is not None and space.is_linear),
            options=options,
        )


def _solve_kernel(
    statement: PSVM,
    rows: Rows,
    size: int,
    monitor: Monitor,
    start: tuple[Floats, Solution] | None,
    selection: str,
    seed: int,
    shortcut: LowRank | None,
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    data, y, p = statement.space.data, statement.y, statement.p
    b = 0.0

    def bounds(alpha: Floats, f: Floats) -> tuple[float, float]:
        nonlocal b
        norm = max(float((alpha * y) @ f), 0.0)
        # Between the ends any bias gives a bound; the nearly best one is found sooner.
        b = best_bias(f, y, p=p, weight=data.weight) if p == 1 else near_best_bias(f, y, data.weight, p, b)
        with np.errstate(over="ignore"):
            upper = objective(norm, y * (f + b), C=statement.C, p=p, weight=data.weight)
        return dual_objective(alpha, norm, C=statement.C, p=p, weight=data.weight), upper

    upper_bound = np.array(np.broadcast_to(statement.upper_bound(), y.shape), dtype=np.float64)
    alpha, newton = np.zeros(data.n), 0
    if start is not None:
        multipliers, earlier = start
        alpha = _adapted(statement, multipliers, _ratio(statement, earlier))
        told = earlier.attempts[-1].options if earlier.attempts else {}
        if isinstance(rows, GramRows) and selection == "second-order" and newton_applies(p, data.n):
            # A fit that takes long is followed by one that begins with Newton steps; no need for another factor.
            shortcut = None
            if newton_pays(alpha, upper_bound, told):
                alpha, newton = newton_on_support(
                    statement, rows.store, alpha, bounds, lambda point: settled(statement, point), monitor
                )
    ascent = Decomposition(
        statement=statement,
        rows=rows,
        bounds=bounds,
        c=statement.C * p * data.weight,
        r=0.0 if p == 1 else 1.0 / (p - 1.0),
        upper_bound=upper_bound,
        size=size,
        selection=selection,
        seed=seed,
        alpha=alpha,
        shortcut=shortcut,
    )
    status = ascent.run(monitor)
    options = ascent.options
    if newton:
        options["newton_steps"] = newton
    if shortcut is not None and shortcut.rank:
        options["low_rank"] = shortcut.rank
    found = RecoveredPoints([], [])
    for alpha in ascent.points():
        f = statement.space.product(alpha * y).scores
        found.models.append(statement.space.model(alpha * y, statement.intercept(alpha, f, near=b)))
        found.duals.append({"alpha": alpha})
    return found, status, options


def _ratio(statement: PSVM, earlier: Solution) -> float:
    """Return by how much C has grown since an earlier solution, 1 if it does not tell."""
    C = earlier.hyperparameters.get("C")
    return statement.C / C if isinstance(C, float) and C > 0 else 1.0


def _adapted(statement: PSVM, alpha: Floats, ratio: float) -> Floats:
    """Return the best multiple of earlier multipliers, `ratio` among others, that were found for other hyper-parameters."""
    alpha = settled(statement, alpha)
    p, weight = statement.p, statement.space.data.weight
    norm = statement.space.product(alpha * statement.y).squared_norm
    multiples = np.append(MULTIPLES, ratio)
    # The conjugate of a multiple: an indicator for p = 1, else homogeneous of degree p/(p - 1).
    with np.errstate(over="ignore", invalid="ignore"):
        if p == 1:
            filled = float((alpha / statement.upper_bound()).max())
            conjugates = np.where(multiples * filled <= 1.0 + ABOVE_CEILING, 0.0, np.inf)
        else:
            whole = float(hinge_power_conjugate(alpha, statement.C * weight, p).sum())
            conjugates = np.where(multiples > 0, whole * multiples ** (p / (p - 1.0)), 0.0)
        values = multiples * float(alpha.sum()) - conjugates - 0.5 * multiples**2 * norm
    best = float(multiples[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))])
    return settled(statement, best * alpha)
