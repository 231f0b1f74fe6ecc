r"""First-order solvers of the pSVM: pSMO for kernels, methods without a Gram matrix for linear ones.

The statement is that of :mod:`svmcvx.formulations.psvm`, and so is the certificate.
"""

from __future__ import annotations

import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import binary_data, check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.fast.decomposition import Decomposition, settled, working_set_size
from svmcvx.fast.driver import Callback, Monitor, conclude, monitored
from svmcvx.fast.low_rank import LowRank
from svmcvx.fast.rows import Rows, kernel_rows
from svmcvx.fast.threads import blas_held_to_one
from svmcvx.formulations.base import Candidates
from svmcvx.formulations.psvm import BIAS_RULES, PSVM, best_bias, dual_objective, objective
from svmcvx.kernels import KernelLike
from svmcvx.losses import hinge_power_conjugate
from svmcvx.solution import Solution, Status
from svmcvx.space import KernelSpace, feature_space

__all__ = ["SELECTIONS", "earlier_multipliers", "psvm"]

Floats: TypeAlias = NDArray[np.float64]

SELECTIONS = ("second-order", "random")
# Multiples of earlier multipliers that are tried as a start.
MULTIPLES = np.concatenate([[1.0, 0.0], np.geomspace(1e-6, 1e6, 49)])


def earlier_multipliers(warm_start: Solution | None, statement: Any) -> Floats | None:
    """Return the multipliers of an earlier solution on the same data, None if it has none.

    Raises
    ------
    DataError
        If `warm_start` is no Solution, or one of other data.
    """
    _check_solution(warm_start)
    if warm_start is None or "alpha" not in warm_start.dual:
        return None
    return np.array(statement.alpha(warm_start.dual))


def _check_solution(warm_start: Any) -> None:
    if warm_start is not None and not isinstance(warm_start, Solution):
        raise DataError(f"warm_start must be a Solution of the same data, got {type(warm_start).__name__}")


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
        Called with a :class:`~svmcvx.fast.driver.Progress`; returning True stops.
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
        Of the linear formulation; see :mod:`svmcvx.fast.psvm_linear`.
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
    Source: pSVM paper, Algorithm 1 (pSMO), with larger working sets and second-order selection. Where that takes long and the
    kernel matrix has a small numerical rank (few features), Newton's method on a factor of it gives the multipliers; see
    :mod:`svmcvx.fast.low_rank`. It uses up to `cache_size` megabytes more for a time.
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
    _check_solution(warm_start)
    warm = earlier_multipliers(warm_start, statement) if isinstance(space, KernelSpace) else None
    with monitored(tol=tol, time_limit=time_limit, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        built = time.perf_counter() - started
        if isinstance(space, KernelSpace):
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
                candidates, status, options = _solve_kernel(
                    statement, rows, size, monitor, warm, selection, seed, shortcut
                )
        else:
            from svmcvx.fast.psvm_linear import solve_linear

            candidates, status, options = solve_linear(statement, monitor, warm=warm_start, seed=seed, method=method)
            solver = f"fast.psvm/{options.get('method', 'linear')}"
        return conclude(
            statement,
            candidates,
            monitor,
            status,
            solver=solver,
            build_seconds=built,
            warm_start_used=warm is not None or (warm_start is not None and not isinstance(space, KernelSpace)),
            options=options,
        )


def _solve_kernel(
    statement: PSVM,
    rows: Rows,
    size: int,
    monitor: Monitor,
    warm: Floats | None,
    selection: str,
    seed: int,
    shortcut: LowRank | None,
) -> tuple[Candidates, Status, dict[str, Any]]:
    data, y, p = statement.space.data, statement.y, statement.p

    def bounds(alpha: Floats, f: Floats) -> tuple[float, float]:
        norm = max(float((alpha * y) @ f), 0.0)
        b = best_bias(f, y, p=p, weight=data.weight)
        with np.errstate(over="ignore"):
            upper = objective(norm, y * (f + b), C=statement.C, p=p, weight=data.weight)
        return dual_objective(alpha, norm, C=statement.C, p=p, weight=data.weight), upper

    ascent = Decomposition(
        statement=statement,
        rows=rows,
        bounds=bounds,
        c=statement.C * p * data.weight,
        r=0.0 if p == 1 else 1.0 / (p - 1.0),
        ceiling=np.array(np.broadcast_to(statement.ceiling(), y.shape), dtype=np.float64),
        size=size,
        selection=selection,
        seed=seed,
        alpha=np.zeros(data.n) if warm is None else _adapted(statement, warm),
        shortcut=shortcut,
    )
    status = ascent.run(monitor)
    options = {
        "selection": selection,
        "working_set": size,
        "cache_mb": rows.store.nbytes / 2**20,
        "storage": str(rows.store.dtype),
        "pair_steps": ascent.pair_steps,
    }
    if shortcut is not None and shortcut.rank:
        options["low_rank"] = shortcut.rank
    found = Candidates([], [])
    for alpha in ascent.points():
        f = statement.space.product(alpha * y).scores
        found.models.append(statement.space.model(alpha * y, statement.intercept(alpha, f)))
        found.duals.append({"alpha": alpha})
    return found, status, options


def _adapted(statement: PSVM, alpha: Floats) -> Floats:
    """Return the best multiple of earlier multipliers that were found for other hyper-parameters."""
    alpha = settled(statement, alpha)
    p, weight = statement.p, statement.space.data.weight
    norm = statement.space.product(alpha * statement.y).squared_norm
    # The conjugate of a multiple: an indicator for p = 1, else homogeneous of degree p/(p - 1).
    with np.errstate(over="ignore", invalid="ignore"):
        if p == 1:
            filled = float((alpha / statement.ceiling()).max())
            conjugates = np.where(MULTIPLES * filled <= 1.0, 0.0, np.inf)
        else:
            whole = float(hinge_power_conjugate(alpha, statement.C * weight, p).sum())
            conjugates = np.where(MULTIPLES > 0, whole * MULTIPLES ** (p / (p - 1.0)), 0.0)
        values = MULTIPLES * float(alpha.sum()) - conjugates - 0.5 * MULTIPLES**2 * norm
    best = float(MULTIPLES[int(np.argmax(np.nan_to_num(values, nan=-np.inf)))])
    return settled(statement, best * alpha)
