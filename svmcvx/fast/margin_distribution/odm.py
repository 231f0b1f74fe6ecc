"""Fast solvers of the optimal margin distribution machine; the statement is :mod:`svmcvx.formulations.margin_distribution.odm`."""

from __future__ import annotations

import math
import time
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.data import check_choice
from svmcvx.errors import DataError
from svmcvx.fast.core import loss_passes as passes
from svmcvx.fast.core.linear_newton import Machine, Point, linear_model, minimise
from svmcvx.fast.core.monitor import Callback, Monitor, conclude, earlier_solution, monitored
from svmcvx.fast.margin_distribution.dcd_svrg import METHODS, ascend, check_seed, svrg
from svmcvx.fast.margin_distribution.odm_blocks import minimise_by_blocks
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.margin_distribution.odm import ODM, bound_odm
from svmcvx.kernels import KernelLike
from svmcvx.model import LinearModel
from svmcvx.solution import Solution, Status

__all__ = ["odm"]

Floats: TypeAlias = NDArray[np.float64]

# Largest condition 2 max(C1, C2) max k(x, x) with which coordinate ascent is chosen for kernels.
EASY = 1e5
# Largest number of observations of which ``method="auto"`` keeps a Gram matrix and its factor.
LARGEST_GRAM = 5000


def odm(
    X: Any,
    y: Any,
    *,
    C1: float,
    C2: float,
    D: float,
    kernel: KernelLike = None,
    intercept: bool = False,
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
) -> Solution:
    r"""Solve the ODM to a certified relative gap.

    .. math:: \min_w\; \tfrac12\|w\|^2 + \sum_i c_i \big(C_1 (1 - D - u_i)_+^2 + C_2 (u_i - 1 - D)_+^2\big)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
        Two labels of any type.
    C1, C2, D, kernel, intercept, sample_weight, indefinite
        As for :func:`svmcvx.odm_primal`.
    tol : float
        Relative gap at which to stop, in (0, 1).
    time_limit : float, optional
        Seconds; the best point so far is returned with its interval, as after Ctrl-C.
    max_iter : int
        Newton steps; rounds of coordinate ascent (one epoch over all observations and a few over those that
        move); outer steps of SVRG.
    verbose : bool
        Print a line an iteration.
    callback : callable, optional
        Called with a :class:`~svmcvx.fast.core.monitor.Progress` every iteration; returning True stops.
    warm_start : Solution, optional
        An earlier solution of the same data, for any hyper-parameters; linear coefficients also of other rows.
    method : "auto", "newton", "dcd", "svrg" or "blocks"
        Newton's method on the primal, coordinate ascent on the signed dual, or the paper's Algorithm 2, all on a factor of
        the Gram matrix; or Newton's method on products with a kernel matrix that is never stored
        (:mod:`svmcvx.fast.margin_distribution.odm_blocks`), for kernels that are positive semidefinite on any data. ``"auto"`` is Newton's
        method for linear machines, whose primal is piecewise quadratic with few pieces on the way; for such kernels on more
        than 5000 observations ``"blocks"``; for other kernels coordinate ascent while ``2 max(C1, C2) max k(x, x)``, a
        measure of its condition, is at most 1e5, else Newton's method.
    seed : int
        Of the random orders; the same seed gives the same numbers.

    Returns
    -------
    Solution

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If a kernel matrix would not fit into memory.

    Notes
    -----
    Source: ODM paper, eqs. (7), (19), Algorithms 1 and 2. Every θ is dual feasible, and the margins of any w give one.
    """
    started = time.perf_counter()
    check_choice(method, "method", (*METHODS, "blocks"))
    rng = check_seed(seed)
    largest = {"auto": LARGEST_GRAM, "blocks": 0}.get(method, math.inf)
    statement = bound_odm(X, y, C1, C2, D, kernel, intercept, sample_weight, indefinite, largest)
    space = statement.space
    by_blocks = space.blockwise
    if method == "blocks" and not by_blocks:
        raise DataError(
            f'method="blocks" needs a kernel that is positive semidefinite on any data, got {space.kernel or "kernel=None"}; '
            'use method="auto"'
        )
    build_seconds = time.perf_counter() - started
    with monitored(tol=tol, time_limit=time_limit, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        if by_blocks:
            given = _earlier_theta(statement, warm_start)
            found, status = minimise_by_blocks(statement, space, monitor, given)
            return conclude(
                statement,
                RecoveredPoints([space.model(found.v)], [{"theta": found.theta}]),
                monitor,
                status,
                solver="fast.odm/blocks",
                build_seconds=build_seconds,
                warm_start_used=given is not None,
                options={
                    "method": "blocks",
                    "iterations": found.steps,
                    "products": found.products,
                    "rank": found.rank,
                },
            )
        machine = _machine(statement)
        chosen = _choose(machine) if method == "auto" else method
        w, theta = _start(statement, machine, warm_start)
        point, status = _run(machine, monitor, chosen, w, theta, rng)
        return conclude(
            statement,
            _candidates(statement, point),
            monitor,
            status,
            solver=f"fast.odm/{chosen}",
            build_seconds=build_seconds,
            warm_start_used=w is not None,
            options={"method": chosen, "iterations": point.steps},
        )


def _choose(machine: Machine) -> str:
    """The rule of ``method="auto"``."""
    condition = 2.0 * max(machine.C1, machine.C2) * float(machine.norms.max()) ** 2
    return "dcd" if machine.expanded and condition <= EASY else "newton"


def _machine(statement: ODM) -> Machine:
    space = statement.space
    linear = space.is_linear
    return Machine(
        space.X if space.is_linear else space.factor,
        statement.y,
        statement.share,
        passes.BAND,
        C1=statement.C1,
        C2=statement.C2,
        D=statement.D,
        expanded=not linear,
    )


def _start(statement: ODM, machine: Machine, warm: Solution | None) -> tuple[Floats | None, Floats | None]:
    """Return (w, θ) of an earlier solution, as far as it fits."""
    if warm is None:
        return None, None
    data, theta = statement.space.data, _earlier_theta(statement, warm)
    w = None if theta is None else machine.back(theta)
    if statement.space.is_linear and isinstance(warm.model, LinearModel):
        model = warm.model
        if model.coef.shape == (data.X.shape[1],) and usable(model.coef):
            w = np.append(model.coef, model.intercept) if statement.space.intercept == "penalised" else model.coef
    if w is not None and theta is None:
        theta = statement.multipliers(statement.y * np.asarray(machine.X @ w))
    return w, theta


def _earlier_theta(statement: ODM, warm: Solution | None) -> Floats | None:
    warm = earlier_solution(warm)
    entry, data = None if warm is None else warm.dual.get("theta"), statement.space.data
    if entry is None or entry.shape not in ((data.rows,), (data.n,)):
        return None
    return statement.entry({"theta": entry}, "theta")


def _run(
    machine: Machine,
    monitor: Monitor,
    method: str,
    w: Floats | None,
    theta: Floats | None,
    rng: np.random.Generator,
) -> tuple[Point, Status]:
    n, d = machine.X.shape
    if method == "newton":
        return minimise(machine, monitor, w=w)
    if method == "dcd":
        return ascend(machine, monitor, np.zeros(n) if theta is None else theta, rng)
    return svrg(machine, monitor, np.zeros(d) if w is None else w, rng)


def _candidates(statement: ODM, point: Point) -> RecoveredPoints:
    duals: list[Dual] = [{"theta": point.alpha}]
    if statement.space.is_linear:
        return RecoveredPoints([linear_model(statement.space, point.w, 0.0, point.alpha != 0)], duals)
    return RecoveredPoints([statement.space.model(point.expansion * statement.y)], duals)
