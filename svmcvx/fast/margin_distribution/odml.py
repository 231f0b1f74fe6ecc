r"""Fast solvers of ODML; the statement is :mod:`svmcvx.formulations.margin_distribution`.

With the factor :math:`TT' = R` of the curvature of mean and variance, :math:`\tilde w = T'w` and
the whitened rows :math:`N = ZT^{-T}`, the machine is an SVM without bias and with a linear term for
the mean:

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

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.linalg as sl

from svmcvx.arguments import intercept_kind
from svmcvx.arrays import Floats
from svmcvx.certificate import Dual
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
)
from svmcvx.fast.linear.blocks import BlockLoss, solve_in_blocks
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.newton import (
    BestPoint,
    LinearNewtonSettings,
    LinearProblem,
    earlier_point,
    kernel_for,
    linear_model,
    minimise,
)
from svmcvx.fast.margin_distribution.odm import CONDITION, METHODS, ascend
from svmcvx.feature_space import feature_space
from svmcvx.feature_space.blocks import block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin_distribution import ODML
from svmcvx.kernels import KernelLike
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status
from svmcvx.system import memory


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
        \min_w\; \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u +
        C\sum_i c_i (1 - u_i)_+

    Parameters
    ----------
    X, y, max_iter
        As for :func:`svmcvx.fast.odm`.
    lam1, lam2, C
        As for :func:`svmcvx.odml_primal`.
    method : "auto", "newton", "dcd" or "unwhitened"
        The augmented Lagrangian with Newton's method inside, or coordinate ascent on the dual.
        ``"auto"`` is in many dimensions ``"unwhitened"``, without the whitened rows; else up to 20
        rounds of coordinate ascent if C times the largest squared norm of a whitened row, a measure
        of the condition, is at most 1000, with a kernel 1e5, and Newton's method, from their
        multipliers, if they are not enough or will not be at the rate at which their gap falls.

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
    check_choice(method, "method", (*METHODS, "unwhitened"))
    settings = checked_settings(settings, ODMLSettings)
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    lam1, lam2 = check_numbers(lam1=lam1, lam2=lam2)
    C = check_number(
        check_number(C, "C"), "C", "[1e-300, inf)", why="a smaller weight of the losses underflows"
    )
    rule = intercept_kind(intercept, own="penalised")
    if from_blocks := in_blocks(X):
        refuse_in_blocks(kernel=kernel is not None, method=method not in ("auto", "unwhitened"))
        rows = block_space(X, y, sample_weight, intercept=rule)
        if not rows.small:
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
    statement = ODML(space, lam1, lam2, C)
    if method == "unwhitened" and not space.is_linear:
        raise DataError('method="unwhitened" needs kernel=None; use method="auto"')
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
        rng = check_seed(seed)
        return solve_interruptible(
            monitor, _solve_whitened, statement, monitor, alpha, method, rng, settings
        )

    return solve(statement, run, alpha, limits, name="odml", method=method)


def _solve_whitened(
    statement: ODML,
    monitor: Monitor,
    alpha: Floats | None,
    method: str,
    rng: np.random.Generator,
    settings: ODMLSettings,
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve the SVM on whitened rows, by a method that ``"auto"`` chooses."""
    problem = whitened_problem(statement)
    condition = statement.C * float(problem.norms.max()) ** 2
    # Without a kernel the steps of Newton's method cost little.
    good = condition <= CONDITION * (1.0 if problem.kernel_expansion else 1e-2)
    auto, chosen = method == "auto", method
    if auto:
        chosen = "dcd" if good else "newton"
    earlier: BestPoint | None = None
    if chosen == "newton":
        point, status = minimise(problem, monitor, alpha=alpha, settings=settings.newton)
    else:
        start = np.zeros(statement.y.size) if alpha is None else alpha
        point, status = ascend(problem, monitor, start, rng, limited=auto)
        if status is Status.INACCURATE and auto:
            earlier, chosen = point, "dcd+newton"
            point, status = minimise(
                problem, monitor, alpha=earlier.alpha, settings=settings.newton
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
        # With as many columns those of the factor are the columns of the data.
        kernel_expansion=not (space.is_linear and space.X.shape[1] <= n),
    )


def _unwhitened(
    statement: ODML, monitor: Monitor, alpha: Floats | None, newton: LinearNewtonSettings
) -> tuple[BestPoint, Status]:
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


def start_from(statement: ODML, warm: Solution | None) -> Floats | None:
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
