r"""Solver of the hard-margin SVM: pSMO without a loss for kernels, an active-set method for linear machines.

**Linear.** A working set of at most a few thousand observations is solved exactly by :mod:`svmcvx.fast.core.active_set`; the
observations that its machine violates most join it, and those far from the margin leave, until none is violated. Each
machine of a working set is a lower bound, and the bounds increase, so this ends. Besides the data the memory holds the
Gram matrix of the working set only. With more features than observations, or more tight observations than that method is
made for, pSMO does it.

The statement is that of :mod:`svmcvx.formulations.margin.hard_margin`, and so is the certificate. The multipliers α of a point
enter both bounds by their direction only:

.. math::
    \frac{(\sum_i \alpha_i)^2}{2\, v'Kv} \;\le\; \text{optimum} \;\le\; \frac{v'Kv}{2 m^2}, \qquad
    m = \tfrac12\big(\min_{y_i = 1} f_i - \max_{y_i = -1} f_i\big) > 0.

:math:`2\sqrt{v'Kv}/\sum_i \alpha_i` is the distance of two points in the convex hulls of the classes: when it falls
to rounding, the hulls meet, and the data are not separable.
"""

from __future__ import annotations

import math
import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import binary_data, check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.fast.core.active_set import FULL, INSEPARABLE, MORE, OVER, TOUCHING, ray, settle
from svmcvx.fast.core.blas_threads import blas_held_to_one
from svmcvx.fast.core.growing_working_set import WorkingSet
from svmcvx.fast.core.monitor import Callback, Monitor, conclude, monitored
from svmcvx.fast.core.row_cache import kernel_rows
from svmcvx.fast.margin.decomposition import CROSSOVER_SIZE, Bounds, Decomposition, working_set_size
from svmcvx.fast.margin.psvm import SELECTIONS, earlier_multipliers
from svmcvx.feature_space import feature_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin.hard_margin import HardMargin
from svmcvx.kernels import KernelLike
from svmcvx.solution import Solution, Status

__all__ = ["METHODS", "hard_margin"]

Floats: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "active-set", "smo")
# Observations of the first working set, those that join it in a round, and those from which the idle ones leave.
FIRST, JOINING, LARGEST = 400, 200, 3000
# Observations taken in between two looks at the clock.
STEPS = 100


def hard_margin(
    X: Any,
    y: Any,
    *,
    kernel: KernelLike = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 1_000_000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    selection: str = "second-order",
    cache_size: float = 500.0,
    float32_cache: bool = True,
    indefinite: str = "error",
    method: str = "auto",
    seed: int = 0,
) -> Solution:
    r"""Solve the hard-margin SVM to a certified relative gap.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 \quad\text{s.t.}\quad y_i(\langle w, \varphi(x_i)\rangle + b) \ge 1

    Parameters
    ----------
    X, y, kernel, tol, time_limit, max_iter, verbose, callback, warm_start, selection, cache_size, float32_cache, \
indefinite, seed
        As for :func:`svmcvx.fast.psvm`. A linear kernel, too, takes rows of its Gram matrix from the cache.
    method : "auto", "active-set" or "smo"
        ``"active-set"`` is for ``kernel=None`` only. There ``"auto"`` chooses it for at most as many features as
        observations; with more, nearly all observations are tight, and pSMO is faster. pSMO also goes on where more are
        tight than the active-set method is made for (2 500).

    Returns
    -------
    Solution

    Raises
    ------
    SolverFailed
        If the classes are not separable in feature space, or no separating model was found within the limits. For linear data
        the attempt's ``options["hull_distance"]`` is the distance of two points of the convex hulls that were found equal.
    DataError
        If the data or an argument cannot be used.
    """
    started = time.perf_counter()
    check_choice(selection, "selection", SELECTIONS)
    check_choice(method, "method", METHODS)
    cache_size = check_number(cache_size, "cache_size", low=0, open_low=True)
    data = binary_data(X, y)
    space = feature_space(data, kernel, intercept="free", indefinite=indefinite, keep_gram=False)
    if method == "active-set" and not space.is_linear:
        raise DataError("method='active-set' takes a linear machine; pass kernel=None, or method='auto'")
    statement = HardMargin(space=space)
    warm = earlier_multipliers(warm_start, statement)
    with (
        monitored(tol=tol, time_limit=time_limit, max_iter=max_iter, verbose=verbose, callback=callback) as monitor,
        blas_held_to_one(data.n) as workers,
    ):
        built = time.perf_counter() - started
        used, start = "smo", warm
        if space.is_linear and (method == "active-set" or (method == "auto" and space.X.shape[1] <= data.n)):
            used = "active-set"
            status, points, options = _by_active_set(statement, monitor, warm)
            if status is None:
                if method == "active-set":
                    status = Status.NUMERICAL
                else:
                    used, start = "smo", points[-1]
        if used == "smo":
            rows, size = kernel_rows(
                space,
                working_set=working_set_size(data.n),
                cache_size=cache_size,
                float32=float32_cache,
                workers=workers,
            )
            ascent = Decomposition(
                statement=statement,
                rows=rows,
                bounds=_bounds(statement),
                c=np.ones(data.n),
                r=0.0,
                upper_bound=np.full(data.n, math.inf),
                size=size,
                selection=selection,
                seed=seed,
                alpha=np.zeros(data.n) if start is None else start,
                rescale=_best_multiple,
            )
            status, points = ascent.run(monitor), ascent.points()
            options = ascent.options
        recover = statement.recover if used == "smo" and data.n <= CROSSOVER_SIZE else statement.separator
        found = [recover(alpha) for alpha in points]
        candidates = RecoveredPoints(
            [m for each in found for m in each.models], [d for each in found for d in each.duals]
        )
        assert status is not None  # noqa: S101 - one of the two methods has run to its end
        return conclude(
            statement,
            candidates,
            monitor,
            status,
            solver=f"fast.hard_margin/{used}",
            build_seconds=built,
            warm_start_used=warm is not None,
            options=options,
        )


def _by_active_set(
    statement: HardMargin, monitor: Monitor, warm: Floats | None
) -> tuple[Status | None, list[Floats], dict[str, Any]]:
    """Return why it stopped (None: too many tight observations), the best multipliers, and what is worth recording."""
    space, y, n = statement.space, statement.y, statement.y.size
    bounds = _bounds(statement)
    work = WorkingSet(space, _first_members(statement, warm))
    lowest, best = math.inf, np.zeros(n)
    alpha, rounds = best, 0
    options: dict[str, Any] = {}
    while True:
        code, everything = MORE, np.ones(work.n, dtype=np.bool_)
        while code == MORE:
            code, last = settle(work.state, everything, math.inf, STEPS)
            if code == MORE and monitor.out_of_time:
                break
        alpha = work.coefficients() * y
        if code == INSEPARABLE:
            alpha = np.zeros(n)
            alpha[work.members] = ray(work.state, everything, last)
        found = space.product(alpha * y)
        options |= {"rounds": rounds, "working_set": work.n}
        if code == FULL:
            return None, [alpha], options
        known = None if code in (INSEPARABLE, OVER) else bounds(alpha, found.scores)
        if known is None:
            # Equal points of the two hulls, up to rounding.
            distance = 2 * math.sqrt(found.squared_norm) / float(alpha.sum())
            return Status.UNBOUNDED, [], options | {"hull_distance": distance}
        if known[1] <= lowest:
            lowest, best = known[1], alpha
        status = monitor.report(rounds, *known)
        u = y * (found.scores + float(work.state.number[0]))
        u[work.members] = math.inf
        violated = np.flatnonzero(u < 1.0)
        if status is None and not violated.size and code != MORE:
            # Every margin is 1 up to rounding: nothing more can be had.
            status = Status.INACCURATE
        if status is not None:
            return status, [best] if best is alpha else [best, alpha], options
        if work.n > LARGEST:
            inside = work.state.inside.copy()
            inside[np.argsort(work.state.u)[: LARGEST // 2]] = True
            work.shrink(inside)
        most = min(JOINING, violated.size)
        if most:
            work.grow(violated[np.argpartition(u[violated], most - 1)[:most]])
        rounds += 1


def _first_members(statement: HardMargin, warm: Floats | None) -> NDArray[np.intp]:
    """Observations of both classes that lie nearest to each other along the line through their means, or along an earlier w."""
    y, n = statement.y, statement.y.size
    if n <= 2 * FIRST:
        return np.arange(n)
    direction = y / np.where(y > 0, (y > 0).sum(), (y < 0).sum()) if warm is None else warm * y
    u = y * statement.space.product(direction).scores
    chosen = [
        side[np.argpartition(u[side], min(FIRST // 2, side.size) - 1)[: FIRST // 2]]
        for side in (np.flatnonzero(y > 0), np.flatnonzero(y < 0))
    ]
    return np.unique(np.concatenate(chosen if warm is None else [*chosen, np.flatnonzero(warm)])).astype(np.intp)


def _bounds(statement: HardMargin) -> Bounds:
    y = statement.y
    size = float(np.abs(statement.space.diagonal()).max())

    def bounds(alpha: Floats, f: Floats) -> tuple[float, float] | None:
        total, norm = float(alpha.sum()), float((alpha * y) @ f)
        if total == 0:
            return 0.0, math.inf
        if norm <= TOUCHING * size * total**2:
            return None
        margin = (float(f[y > 0].min()) - float(f[y < 0].max())) / 2
        return total**2 / (2 * norm), norm / (2 * margin**2) if margin > 0 else math.inf

    return bounds


def _best_multiple(alpha: Floats, f: Floats, y: Floats) -> float:
    """Return the factor at which the dual is largest along a ray."""
    total, norm = float(alpha.sum()), float((alpha * y) @ f)
    return total / norm if total > 0 and norm > 0 else 1.0
