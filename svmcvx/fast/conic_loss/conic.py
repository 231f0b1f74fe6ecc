r"""A solver of the conic relaxation in low rank, for data far beyond semidefinite solvers.

The statement is that of :mod:`svmcvx.formulations.conic_loss.sdp`, and so is the certificate. Newton's method finds a stationary
point of :mod:`svmcvx.fast.conic_loss.low_rank_newton` for a ridge that shrinks from stage to stage; columns of V are added only as
eigenvectors of :math:`\sum_i\gamma_i x_i x_i'` of an eigenvalue above 1, one or two as a rule. The gap that a stage can
reach is bounded by its ridge, so that the ridge is chosen from the tolerance.
"""

from __future__ import annotations

import math
import time
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import check_choice
from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.conic_loss.continuation import LIFT, NEARLY_ONE, WARM_GOAL, Search, is_hard, stripped
from svmcvx.fast.conic_loss.low_rank_newton import SYSTEMS, LowRank
from svmcvx.fast.conic_loss.nystrom import nystrom_space
from svmcvx.fast.core.monitor import Callback, Monitor, conclude, earlier_solution, monitored
from svmcvx.fast.margin_distribution.dcd_svrg import check_seed
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.conic_loss.primal import relaxed_indicator
from svmcvx.formulations.conic_loss.recovery import enlarged, moment_of, relaxed_model, rounded_point
from svmcvx.formulations.conic_loss.sdp import ConicLoss, check_lam_or_kappa, conic_space, hard_margin_point
from svmcvx.heuristics.rounding import least_norm, round_relaxation
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.solution import Attempt, Solution, Status
from svmcvx.system import memory

__all__ = ["StationaryConicLoss", "conic", "run_search", "start_search"]

Floats: TypeAlias = NDArray[np.float64]

# More observations than this are preceded by a sample of this size (or of some observations for each column).
MANY, SAMPLE, SAMPLE_PER_COLUMN = 20_000, 5_000, 20
# Columns up to which a covariance with the ridge is offered: its factor is dense and square.
RIDGED = 3000
# Dense square matrices of the order of the columns that are alive at once.
SQUARES = 6
# With κ the first λ makes λ Σ s z this many times the squared norm of a margin of 1 on an average row.
FIRST_LAM, FEWEST = 4.0, 1e-3
# What may be lost in units of what the cardinality row allows: sums of weights are rounded.
FULL = 1.0 + 1e-12


class StationaryConicLoss(ConicLoss):
    """The relaxation at multipliers of stationary points, whose repair need not look for better ones."""

    improves = False


def conic(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    kappa: float | None = None,
    kernel: KernelLike = None,
    intercept: bool = True,
    nystrom: int | None = None,
    sample_weight: Any = None,
    tol: float = 1e-6,
    time_limit: float | None = None,
    max_iter: int = 5000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    rounding: bool = False,
    method: str = "auto",
    seed: int = 0,
    indefinite: str = "error",
) -> Solution:
    r"""Solve the semidefinite relaxation of the SVM with 0-1 loss to a certified relative gap.

    .. math:: \min_{w, V}\; \|w\|^2 + \|V\|_F^2 + \lambda \sum_i s_i \frac{(1-u_i)_+^2}{\|V'x_i\|^2 + (1-u_i)_+^2},
        \qquad u_i = y_i x_i'w,

    or with `kappa` the first two terms subject to :math:`\sum_i s_i z_i \le \kappa\sum_i s_i` for the fractions
    :math:`z_i`. The covariance of the semidefinite program is :math:`VV'`, with as many columns as it needs.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature. Sparse data stay sparse if n > d.
    y : array-like of shape (n,)
        Two labels of any type.
    lam : float, optional
        Weight of the losses, positive; there is no ½ on the norm.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5]; exactly one of `lam` and `kappa`.
    kernel, intercept, sample_weight, indefinite
        As for :func:`svmcvx.conic_sdp`.
    nystrom : int, optional
        Solve in the span of this many landmarks, chosen by Cholesky's method with pivots, without a Gram matrix. The
        certificate then holds for this approximation of K, and says so: its residuals ``"nystrom_rank"`` and
        ``"nystrom_trace_error"``, the share of the trace of K that is missing. ``upper`` is attained with K itself too.
    tol : float
        Relative gap at which to stop, in (0, 1).
    time_limit : float, optional
        Seconds; the best point so far is returned with its interval, as after Ctrl-C.
    max_iter : int
        Newton steps.
    verbose : bool
        Print a line a stage.
    callback : callable, optional
        Called with a :class:`~svmcvx.fast.core.monitor.Progress` after every stage; returning True stops.
    warm_start : Solution, optional
        An earlier solution of the same data, for any λ or κ. One with another kernel gives no start.
    rounding : bool
        Look for a good solution of the 0-1 problem too, as :func:`svmcvx.solve` does; False by default, since it takes
        longer than the rest. The residual ``"zero_one_upper"`` of the certificate is then its objective.
    method : "auto", "direct" or "conjugate"
        How Newton's systems are solved: factored, by conjugate gradients, or the first up to 1 500 unknowns.
    seed : int
        Of the sample that precedes more than 20 000 observations; the same seed gives the same numbers.

    Returns
    -------
    Solution
        Its model knows the second moment; see :func:`svmcvx.formulations.conic_loss.sdp.relaxation`.

    Raises
    ------
    DataError
        If the data or an argument cannot be used, among others κ = 0 with classes that are not separable.
    BuildError
        If a kernel matrix, or the matrices of the order of the columns, would not fit into memory.
    SolverFailed
        If no covariance satisfies the cardinality row, since too many observations are zero.

    Notes
    -----
    Source: conic paper, Theorem 2, Appendices A and C, in the low-rank form of Burer and Monteiro. The lower bound rests on
    all eigenvalues of :math:`\sum_i\gamma_i x_i x_i'`, with their rounding; nothing is taken from an iterative eigensolver.
    """
    started = time.perf_counter()
    lam, kappa = check_lam_or_kappa(lam, kappa, "fast.conic")
    check_choice(method, "method", SYSTEMS)
    if not isinstance(rounding, (bool, np.bool_)):
        raise DataError(f"rounding must be True or False, got {rounding!r}")
    rng = check_seed(seed)
    data, space = conic_space(X, y, kernel, intercept, sample_weight, indefinite)
    if nystrom is not None:
        space = nystrom_space(data, kernel, rank=nystrom, intercept="penalised" if intercept else "none")
    statement = StationaryConicLoss(space=space, lam=lam, kappa=kappa)
    _check_warm(warm_start, space)
    with monitored(tol=tol, time_limit=time_limit, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        r = int(space.factor.shape[1])
        memory.require(
            8.0 * SQUARES * float(r) ** 2,
            f"the matrices of {r} × {r}",
            "select features, or pass nystrom with a kernel",
        )
        search, warm = start_search(statement, monitor, warm_start, method)
        built = time.perf_counter() - started
        status = run_search(search, rng, method, warm=warm)
        return conclude(
            statement,
            _candidates(statement, search, bool(rounding)),
            monitor,
            status,
            solver="fast.conic/newton",
            build_seconds=built,
            warm_start_used=warm,
            options={"method": method, "iterations": search.problem.steps, "columns": search.problem.U.shape[1] - 1},
        )


def _check_warm(warm: Any, space: FeatureSpace) -> None:
    warm = earlier_solution(warm)
    if warm is None:
        return
    moment = moment_of(warm.model)
    if moment is not None and moment.z.size != space.data.rows:
        raise DataError(
            f"warm_start must be a Solution of the same data: it has {moment.z.size} observations, these are {space.data.rows}"
        )


def _hard_margin(statement: ConicLoss) -> Floats:
    """Return the point of least norm that keeps all rows but those of zeros, whose margin is 0 with any hyperplane."""
    norms = statement.squared_row_norms
    rows = norms > 0
    L, y = statement.factor[rows], statement.y[rows]
    scale = math.sqrt(float(np.mean(norms[rows]))) if rows.any() else 1.0
    A = (L.toarray() if sp.issparse(L) else L) * (y / scale)[:, None]
    if statement.kappa == 0:
        return hard_margin_point(A if rows.all() else np.vstack([A, np.zeros((1, A.shape[1]))])) / scale
    w = least_norm(A) if float(statement.weight[~rows].sum()) <= FULL * statement.allowance else None
    if w is None:
        reason = statement.explain("infeasible")
        raise SolverFailed(f"fast.conic: {reason}", [Attempt("fast.conic/newton", Status.INFEASIBLE, reason)])
    return w / scale


def start_search(
    statement: ConicLoss, monitor: Monitor, warm: Solution | None = None, method: str = "auto"
) -> tuple[Search, bool]:
    """Return the search at an earlier solution, or at w = 0; tell whether it was an earlier one."""
    data, L = statement.space.data, statement.factor
    mean = float(np.mean(statement.squared_row_norms)) or 1.0
    U, found = np.zeros((L.shape[1], 1)), False
    lam = statement.lam
    if is_hard(statement):
        U = _hard_margin(statement)[:, None]
    elif warm is not None:
        start = _earlier(statement, warm)
        if start is not None:
            U, found = start, True
    if lam is None:
        total = float(data.weight.sum())
        lam = FIRST_LAM / (mean * max(statement.allowance, FEWEST * total))
        if is_hard(statement):
            # More than the hard margin costs.
            lam = max(lam, FIRST_LAM * float(np.sum(U**2)) / float(data.weight.min()))
        known = None if warm is None else warm.dual.get("lam", warm.hyperparameters.get("lam"))
        if found and known is not None and 0 < float(known) < math.inf:
            lam = float(known)
    problem = LowRank(L, data.y, data.weight, lam=lam, U=U, system=method)
    return Search(statement, problem, monitor=monitor), found


def run_search(search: Search, rng: np.random.Generator, method: str = "auto", *, warm: bool = False) -> Status:
    """Run a search from its start; many observations are preceded by a sample of them, unless the start is a `warm` one."""
    n, r = search.problem.L.shape
    if not warm and n > max(MANY, 2 * SAMPLE_PER_COLUMN * r) and not search.hard:
        _sample(search, rng, method)
    goal = search.first_goal()
    started_well = search.problem.U.any() and not search.hard
    return search.run(min(goal, WARM_GOAL * search.size()) if started_well else goal)


def _earlier(statement: ConicLoss, warm: Solution) -> Floats | None:
    """Return (w, V) of an earlier solution if it fits."""
    space, moment = statement.space, moment_of(warm.model)
    r = statement.factor.shape[1]
    if moment is not None:
        same = warm.hyperparameters.get("kernel") == statement.hyperparameters["kernel"]
        return np.column_stack([moment.w, stripped(moment.V)]) if same and moment.w.size == r else None
    model = warm.model
    if space.is_linear and isinstance(model, LinearModel) and model.coef.shape == (space.data.X.shape[1],):
        w = np.append(model.coef, model.intercept) if space.intercept == "penalised" else model.coef
        return w[:, None] if w.size == r and np.isfinite(w).all() else None
    return None


def _sample(search: Search, rng: np.random.Generator, method: str) -> None:
    """Move the search to the solution for a sample of the observations."""
    problem = search.problem
    n, r = problem.L.shape
    size = max(SAMPLE, SAMPLE_PER_COLUMN * r)
    rows = np.sort(rng.choice(n, size=size, replace=False))
    weight = problem.weight[rows] * (float(problem.weight.sum()) / float(problem.weight[rows].sum()))
    sample = LowRank(problem.L[rows], problem.y[rows], weight, lam=problem.lam, U=problem.U, system=method)
    part = Search(search.statement, sample, monitor=search.monitor)
    part.prepare(part.first_goal())
    problem.U, problem.lam = sample.U, sample.lam


def _candidates(statement: ConicLoss, search: Search, rounding: bool) -> RecoveredPoints:
    """The best of the models that belong to the point, its multipliers, and the rounding if that is asked for."""
    problem, space = search.problem, statement.space
    dual = search.best_dual or search.dual()
    problem.U, problem.ridge = search.best_point or (problem.U, problem.ridge)
    w, V = problem.U[:, 0], problem.U[:, 1:]
    u, v = problem.margins()
    z = relaxed_indicator(u, v)
    points: list[tuple[Floats, Floats]] = [(w, V)]
    # Of a tight relaxation no indicator may jump to 1 for a margin that is rounded.
    tight = search.fixed and V.shape[1] == 0
    kept = problem.squared_norms > 0 if search.hard else (u > NEARLY_ONE if tight else z < 0.5)
    lowest = float(u[kept].min(initial=1.0))
    if search.hard or tight or (search.fixed and NEARLY_ONE < lowest < 1.0):
        lifted = rounded_point(space, w * ((1.0 + LIFT) / lowest))[0]
        points = [(lifted, V), *([] if search.hard or tight else points)]
    if problem.rank <= RIDGED and problem.ridge > 0 and not search.hard:
        points.append((w, np.hstack([V, math.sqrt(problem.ridge) * np.eye(problem.rank)])))
    if not search.fixed and not search.hard:
        points = [
            (w, large) for _, spread in points for large in enlarged(space, w, spread, search.allowance)
        ] or points
    models: list[BinaryModel] = []
    rounded = None
    if rounding:
        cap = {"lam": statement.lam} if search.fixed else {"k": statement.allowance}
        best, value = round_relaxation(space, w, z, **cap)
        if math.isfinite(value):
            best, rounded = rounded_point(space, best)
            models.append(relaxed_model(space, best, np.zeros((w.size, 0)), rounded))
    ridge, problem.ridge = problem.ridge, 0.0
    # A solution of a linear system is behind a kernel model, so that only the best point is made into one.
    values = [problem.value(np.column_stack(point)) if search.fixed else _trace(point) for point in points]
    problem.ridge = ridge
    models.append(relaxed_model(space, *points[int(np.argmin(values))], rounded))
    return RecoveredPoints(models, [dual])


def _trace(point: tuple[Floats, Floats]) -> float:
    """Tr W."""
    return float(sum(np.sum(part**2) for part in point))
