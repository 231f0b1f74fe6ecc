"""Fast solvers of the optimal margin distribution machine; the statement is
:mod:`svmcvx.formulations.margin_distribution`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.data import binary_data, check_choice, check_seed
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import (
    Callback,
    Found,
    Monitor,
    checked_settings,
    earlier_solution,
    limited,
    monitored,
    solve_interruptible,
    solved_from,
    start_of,
)
from svmcvx.fast.linear.blocks import BlockLoss, solve_in_blocks
from svmcvx.fast.linear.loss_passes import band
from svmcvx.fast.linear.newton import LinearNewtonSettings, minimise
from svmcvx.fast.linear.problem import (
    BestPoint,
    LinearProblem,
    earlier_coefficients,
    kernel_for,
    linear_model,
)
from svmcvx.fast.margin_distribution.coordinate_ascent import METHODS, ascend
from svmcvx.fast.margin_distribution.odm_blocks import LARGEST_RANK, minimise_by_blocks
from svmcvx.feature_space import feature_space, penalised_or_none
from svmcvx.feature_space.blocks import block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.blocks import InBlocks
from svmcvx.formulations.margin_distribution import ODM, check_band
from svmcvx.kernels import KernelLike
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status

__all__ = ["ODMSettings", "linear_problem", "odm", "points_of", "start_from"]

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
    largest_rank: int = LARGEST_RANK


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
        (:mod:`svmcvx.fast.margin_distribution.odm_blocks`), for kernels that are positive
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
    if in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None, method=method not in ("auto", "newton"))
        C1, C2, D = check_band(C1, C2, D)
        rows = block_space(X, y, sample_weight, intercept=penalised_or_none(intercept))
        if not rows.small:
            return solve_in_blocks(
                InBlocks(partial(ODM, C1=C1, C2=C2, D=D), rows, "theta", balanced=False),
                BlockLoss(band(C1, C2, D), 1.0 / rows.total_weight),
                solver="fast.odm/newton",
                warm_start=earlier_solution(warm_start),
                tol=tol,
                max_iter=max_iter,
                verbose=verbose,
                callback=callback,
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
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:

        def solve(start: tuple[Floats | None, Floats | None] | None) -> Found:
            w, theta = start or (None, None)
            if by_blocks:
                found, status = minimise_by_blocks(
                    statement, monitor, theta, settings.largest_rank, settings.newton
                )
                points = RecoveredPoints([space.model(found.v)], [{"theta": found.theta}])
                info = {"iterations": found.steps, "products": found.products, "rank": found.rank}
                return points, status, {"method": "blocks", **info}
            return solve_interruptible(
                monitor,
                _solve_whole,
                statement,
                monitor,
                w,
                theta,
                method,
                check_seed(seed),
                settings,
            )

        return solved_from(
            statement,
            monitor,
            solve,
            (w, theta) if warm else None,
            solver=lambda options: f"fast.odm/{options.get('method', method)}",
        )


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
    """Return the model and the multipliers of a point."""
    duals: list[Dual] = [{"theta": point.alpha}]
    if statement.space.is_linear:
        return RecoveredPoints(
            [linear_model(statement.space, point.w, 0.0, point.alpha != 0)], duals
        )
    return RecoveredPoints([statement.space.model(point.expansion * statement.y)], duals)
