r"""Low-rank solver of the conic relaxation, for data far beyond semidefinite solvers.

The statement and the certificate are those of :mod:`svmcvx.formulations.conic_loss.statement`. Newton's method finds a
stationary point of :math:`F_\epsilon` of :mod:`svmcvx.fast.conic_loss.low_rank_newton` for a ridge ε that shrinks from stage
to stage. Columns of V are added only as eigenvectors of :math:`\sum_i\gamma_i x_i x_i'` with an eigenvalue above 1; one or
two are usually enough. The gap at the end of a stage is bounded by its ridge, which is therefore chosen from the tolerance.

Source: [CepedaGomezHan], Theorem 2, Appendices A and C, in the low-rank form of Burer and Monteiro.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import check_choice, check_seed
from svmcvx.errors import DataError, DataTypeError, SolverFailed
from svmcvx.fast.conic_loss.conic_blocks import BlockContinuation, BlockRelaxation
from svmcvx.fast.conic_loss.continuation import (
    LIFT,
    NEARLY_ONE,
    Continuation,
    ContinuationSettings,
    is_hard_margin,
    leading_directions,
)
from svmcvx.fast.conic_loss.low_rank_newton import SYSTEMS, LowRankNewtonSettings, LowRankRelaxation
from svmcvx.fast.conic_loss.nystrom import nystrom_space
from svmcvx.fast.core.monitor import MOST_RESERVED, Callback, Monitor, conclude, earlier_solution, limited, monitored
from svmcvx.feature_space import FeatureSpace, KernelSpace, penalised_or_none
from svmcvx.feature_space.blocks import BlockSpace, block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.conic_loss.conic_blocks import ConicInBlocks
from svmcvx.formulations.conic_loss.primal import relaxed_indicator
from svmcvx.formulations.conic_loss.recovery import enlarged_covariances, moment_of, relaxed_model, rounded_point
from svmcvx.formulations.conic_loss.statement import ConicLoss, check_lam_or_kappa, conic_space, hard_margin_point
from svmcvx.heuristics.rounding import least_norm_point, round_relaxation
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Attempt, Solution, Status
from svmcvx.system import memory
from svmcvx.system.deadline import OutOfTime

__all__ = ["ConicSettings", "SampleSettings", "conic", "minimised_relaxation"]

Floats: TypeAlias = NDArray[np.float64]

# Columns up to which a covariance with the ridge is offered: its factor is dense and square.
RIDGED = 3000
# Dense square matrices of the order of the columns that are in memory at once.
SQUARES = 6
# With κ the first λ makes λ Σ s z this many times the squared norm of a point with margin 1 on an average row; κ counts as at
# least FEWEST here.
FIRST_LAM, FEWEST = 4.0, 1e-3
# Seconds of the proof of a dual point with a kernel, in those of evaluating and factoring K by Cholesky's method; measured.
PROOF = 4.0
# Relative excess of the weight lost on rows of zeros over the allowance that is taken to be rounding.
FULL = 1.0 + 1e-12


@dataclass(frozen=True)
class SampleSettings:
    """When, and with how many observations, a sample is solved first.

    Attributes
    ----------
    many : int
        A sample precedes more than this many observations (and more than two samples).
    size : int
        Observations in the sample.
    per_column : int
        At least so many for each column.
    """

    many: int = 20_000
    size: int = 5_000
    per_column: int = 20


@dataclass(frozen=True)
class ConicSettings:
    """Numbers that steer :func:`conic`; the defaults suit all data that were tried.

    Attributes
    ----------
    sample : SampleSettings
    continuation : ContinuationSettings
    newton : LowRankNewtonSettings
    """

    sample: SampleSettings = field(default_factory=SampleSettings)
    continuation: ContinuationSettings = field(default_factory=ContinuationSettings)
    newton: LowRankNewtonSettings = field(default_factory=LowRankNewtonSettings)


@limited
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
    settings: ConicSettings | None = None,
) -> Solution:
    r"""Solve the semidefinite relaxation of the SVM with 0-1 loss to a certified relative gap.

    .. math:: \min_{w, V}\; \|w\|^2 + \|V\|_F^2 + \lambda \sum_i s_i \frac{(1-u_i)_+^2}{\|V'x_i\|^2 + (1-u_i)_+^2},
        \qquad u_i = y_i x_i'w,

    or with `kappa` the first two terms subject to :math:`\sum_i s_i z_i \le \kappa\sum_i s_i` for the fractions
    :math:`z_i`. The covariance of the semidefinite program is :math:`VV'`, with as many columns as it needs.

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection or RowBlocks of shape (n, d)
        Without the constant feature. Sparse data stay sparse if n > d. Without a kernel the rows may come in blocks, see ``docs/scale.md``.
    y : array-like, Dask collection or ``blocks.y`` of shape (n,)
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
        Certified relative gap at which to stop, in (0, 1).
    time_limit : float, optional
        Seconds; the best point so far is returned with its interval, as after Ctrl-C.
    max_iter : int
        Newton steps.
    verbose : bool
        Print a line a stage.
    callback : callable, optional
        Called with a :class:`~svmcvx.fast.core.monitor.Progress` after every stage; returning True stops.
    warm_start : Solution, optional
        An earlier solution of the same data and kernel, for any λ or κ; for the linear formulation also that of another
        formulation with a linear model.
    rounding : bool
        Look for a good solution of the 0-1 problem too, as :func:`svmcvx.solve` does; False by default, since it takes
        longer than the rest. The residual ``"zero_one_upper"`` of the certificate is then its objective.
    method : "auto", "direct" or "conjugate"
        How Newton's systems are solved: factored, by conjugate gradients, or the first up to 1 500 unknowns.
    seed : int
        Of the sample that precedes more than 20 000 observations; the same seed gives the same numbers.
    settings : ConicSettings, optional
        Numbers that steer the method; None for the defaults.

    Returns
    -------
    Solution
        Its model has the second moment; see :func:`svmcvx.formulations.conic_loss.relaxation.relaxation`.

    Raises
    ------
    DataError
        If the data or an argument cannot be used, among others κ = 0 with classes that are not separable, and a
        `warm_start` of other data or of another kernel.
    BuildError
        If a kernel matrix, or the matrices of the order of the columns, would not fit into memory.
    SolverFailed
        If no covariance satisfies the cardinality row, since too many observations are zero.

    Notes
    -----
    Source: [CepedaGomezHan], Theorem 2, Appendices A and C, in the low-rank form of Burer and Monteiro. The lower bound
    rests on a Cholesky factorisation of :math:`I - \sum_i\gamma_i x_i x_i'`, or of its counterpart for K, that proves it definite;
    eigensolvers only propose columns and points. Where K is so nearly singular that the factor of the search has lost a direction
    of it the interval stays wide, and the status is "inaccurate".

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> sx.fast.conic(X, y, lam=1.0).certificate.is_certified(1e-6)
    True
    """
    lam, kappa = check_lam_or_kappa(lam, kappa, "fast.conic")
    check_choice(method, "method", SYSTEMS)
    if not isinstance(rounding, (bool, np.bool_)):
        raise DataError(f"rounding must be True or False, got {rounding!r}")
    rng = check_seed(seed)
    if settings is not None and not isinstance(settings, ConicSettings):
        raise DataTypeError(f"settings must be a ConicSettings or None, got {type(settings).__name__}")
    settings = settings or ConicSettings()
    if in_blocks(X):
        refuse_in_blocks(
            kernel=kernel is not None,
            nystrom=nystrom is not None,
            rounding=bool(rounding),
            warm_start=warm_start is not None,
            method=method == "conjugate",
        )
        rows = block_space(X, y, sample_weight, intercept=penalised_or_none(intercept), seed=seed, covariance=True)
        memory.require(8.0 * SQUARES * float(rows.d) ** 2, f"the matrices of {rows.d} × {rows.d}", "select features")
        with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
            return _solve_blocks(lam, kappa, rows, monitor, rng, settings)
    data, space = conic_space(X, y, kernel, intercept, sample_weight, indefinite)
    if nystrom is not None:
        space = nystrom_space(data, kernel, rank=nystrom, intercept="penalised" if intercept else "none")
    # The multipliers of stationary points need no search for better ones.
    statement = ConicLoss(space=space, lam=lam, kappa=kappa, improve_alpha=False)
    warm_start = earlier_solution(warm_start, statement)
    start = None if warm_start is None else _start_from(statement, warm_start)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        began = monitor.seconds
        r = int(space.factor.shape[1])
        proof = _proof_seconds(space, monitor.seconds - began)
        limit = monitor.deadline
        if proof <= MOST_RESERVED * limit.left < math.inf:
            monitor.deadline = limit.earlier(proof)
        memory.require(
            8.0 * SQUARES * float(r) ** 2,
            f"the matrices of {r} × {r}",
            "select features, or pass nystrom with a kernel",
        )
        search = _search(statement, monitor, start, method, settings)
        warm = start is not None and not search.hard_margin
        status = _run(search, rng, method, settings, warm=warm)
        recovered = _recovered(statement, search, bool(rounding))
        if limit.left < proof * float(np.mean(search.best_dual["gamma"] > 0)) ** 3:
            # No single step of the proof can be interrupted: the bound is what is known without one.
            recovered = recovered._replace(duals=[])
        solution = conclude(
            statement,
            recovered,
            monitor,
            status,
            solver="fast.conic/newton",
            warm_start_used=warm,
            options={"method": method, "iterations": search.problem.steps, "columns": search.problem.U.shape[1] - 1},
        )
    if solution.status is Status.OPTIMAL and not solution.certificate.is_certified(tol):
        # What the factor of a nearly singular K promised does not hold for K.
        solution = replace(solution, status=Status.INACCURATE)
    return solution


def _solve_blocks(
    lam: float | None,
    kappa: float | None,
    space: BlockSpace,
    monitor: Monitor,
    rng: np.random.Generator,
    settings: ConicSettings,
) -> Solution:
    """Solve on rows in blocks: the sample in memory first, then rounds or stages over all blocks."""
    make = partial(ConicLoss, lam=lam, kappa=kappa)
    statement = ConicInBlocks(make, space, "gamma", balanced=False, lam=lam, kappa=kappa)
    part = make(space=space.sample_space(), improve_alpha=False)
    if is_hard_margin(part):
        raise DataError(
            f"kappa = {kappa:g} leaves no margin below 1 to be chosen, which rows in blocks do not take; raise kappa, or load the data"
        )
    inner = monitor.within(max(settings.continuation.warm_goal, monitor.tol), monitor.max_iter)
    sampled = minimised_relaxation(part, inner, rng, settings)
    search = BlockContinuation(
        statement,
        BlockRelaxation(space, sampled.problem, settings.newton),
        monitor=monitor,
        settings=settings.continuation,
    )
    # Stages that the deadline cuts short still have the point of the sample.
    space.shards.deadline = monitor.deadline
    try:
        status = search.rounds(sampled)
        if status is None:
            search.move_to_best()
            status = search.run(settings.continuation.warm_goal * search.size())
        points = search.points()
    except OutOfTime:
        status = Status.INTERRUPTED if monitor.deadline.pressed.is_set() else Status.TIME_LIMIT
        space.shards.deadline = None
        points = search.points(late=True)
    finally:
        space.shards.deadline = None
    duals = [search.best_dual] if search.best_dual else []
    return conclude(
        statement,
        RecoveredPoints([statement.model(w, V) for w, V in points], duals),
        monitor,
        status,
        solver="fast.conic/newton",
        options={"method": "direct", "iterations": search.problem.steps, "columns": search.problem.U.shape[1] - 1},
    )


def _proof_seconds(space: FeatureSpace, factored: float) -> float:
    """Estimate what the proof of a dual point takes with a kernel, from the time in which K was evaluated and factored.

    It needs the eigenvalues of a matrix of the same order, unless some multipliers are 0.
    """
    if not (isinstance(space, KernelSpace) and space.keep_gram):
        return 0.0
    return factored * (PROOF if space.factorisation.method == "cholesky" else 1.0)


class _Start(NamedTuple):
    """A point (w, V) to start from, and λ where it is known."""

    U: Floats
    lam: float | None


def _start_from(statement: ConicLoss, warm: Solution) -> _Start:
    """Return the point of an earlier solution, or raise a :class:`DataError` if it does not fit."""
    space, moment, model = statement.space, moment_of(warm.model), warm.model
    r = statement.factor.shape[1]
    if moment is not None:
        if moment.z.size != space.data.rows:
            raise DataError(
                f"warm_start must be a Solution of the same data: it has {moment.z.size} observations, "
                f"these are {space.data.rows}"
            )
        kernel = warm.hyperparameters.get("kernel")
        if kernel != statement.kernel_name:
            raise DataError(
                f"warm_start must be a Solution with the same kernel: it has {kernel}, this is {statement.kernel_name}"
            )
        if moment.w.size != r:
            raise DataError(
                f"warm_start must be a Solution with the same columns, intercept and nystrom: it has {moment.w.size} "
                f"coordinates, these are {r}"
            )
        U = np.column_stack([moment.w, leading_directions(moment.V)])
    else:
        d = int(space.data.X.shape[1])
        if not (space.is_linear and isinstance(model, LinearModel) and model.coef.shape == (d,)):
            wanted = (
                f"a linear model of {d} features" if space.is_linear else "the second moment of the conic relaxation"
            )
            raise DataError(
                f"warm_start must be a Solution with {wanted}, got one of {warm.formulation!r} with {model!r}"
            )
        w = np.append(model.coef, model.intercept) if space.intercept == "penalised" else model.coef
        if not np.isfinite(w).all():
            raise DataError("warm_start must be a Solution whose model has finite coefficients")
        if w.size != r:
            # The factor is not the data themselves: the coordinates with the same scores.
            w, *_ = sl.lstsq(statement.factor, model.scores(space.data.X)[0])
        U = w[:, None]
    known = warm.dual.get("lam", warm.hyperparameters.get("lam"))
    lam = math.nan if known is None else float(known)
    return _Start(U, lam if 0 < lam < math.inf else None)


def _hard_margin(statement: ConicLoss) -> Floats:
    """Return the point of least norm with margins of at least 1 on all rows but those of zeros, whose margin is always 0."""
    norms = statement.squared_row_norms
    rows = norms > 0
    L, y = statement.factor[rows], statement.y[rows]
    scale = math.sqrt(float(np.mean(norms[rows]))) if rows.any() else 1.0
    A = (L.toarray() if sp.issparse(L) else L) * (y / scale)[:, None]
    if statement.kappa == 0:
        return hard_margin_point(A if rows.all() else np.vstack([A, np.zeros((1, A.shape[1]))])) / scale
    w = least_norm_point(A) if float(statement.weight[~rows].sum()) <= FULL * statement.allowance else None
    if w is None:
        reason = statement.explain("infeasible")
        raise SolverFailed(f"fast.conic: {reason}", [Attempt("fast.conic/newton", Status.INFEASIBLE, reason)])
    return w / scale


def _search(
    statement: ConicLoss, monitor: Monitor, start: _Start | None, method: str, settings: ConicSettings
) -> Continuation:
    """Return the continuation at the hard margin where there is nothing else, at `start`, or at w = 0."""
    data, L = statement.space.data, statement.factor
    mean = float(np.mean(statement.squared_row_norms)) or 1.0
    hard_margin = is_hard_margin(statement)
    U, lam = np.zeros((L.shape[1], 1)), statement.lam
    if hard_margin:
        U = _hard_margin(statement)[:, None]
    elif start is not None:
        U, lam = start.U, start.lam if lam is None else lam
    if lam is None:
        total = float(data.weight.sum())
        lam = FIRST_LAM / (mean * max(statement.allowance, FEWEST * total))
        if hard_margin:
            # Any single margin below 1 has to cost more than the whole squared norm of the hard margin.
            lam = max(lam, FIRST_LAM * float(np.sum(U**2)) / float(data.weight.min()))
    problem = LowRankRelaxation(L, data.y, data.weight, lam=lam, U=U, system=method, settings=settings.newton)
    return Continuation(statement, problem, monitor=monitor, settings=settings.continuation)


def _run(search: Continuation, rng: np.random.Generator, method: str, settings: ConicSettings, *, warm: bool) -> Status:
    """Run a continuation to its end, from the solution for a sample if there are many observations and no warm start."""
    n, r = search.problem.L.shape
    sample = settings.sample
    if not warm and n > max(sample.many, 2 * sample.per_column * r) and not search.hard_margin:
        _move_to_sample_solution(search, rng, method, settings)
    goal = search.first_goal()
    if search.problem.U.any() and not search.hard_margin:
        goal = min(goal, settings.continuation.warm_goal * search.size())
    status = search.run(goal)
    search.move_to_best()
    return status


def minimised_relaxation(
    statement: ConicLoss, monitor: Monitor, rng: np.random.Generator, settings: ConicSettings | None = None
) -> Continuation:
    """Return the continuation at the best point that it found for a statement, within the limits of a monitor.

    Raises
    ------
    SolverFailed
        If no covariance satisfies the cardinality row, since too many observations are zero.
    """
    settings = settings or ConicSettings()
    search = _search(statement, monitor, None, "auto", settings)
    _run(search, rng, "auto", settings, warm=False)
    return search


def _move_to_sample_solution(
    search: Continuation, rng: np.random.Generator, method: str, settings: ConicSettings
) -> None:
    """Move the search to the solution for a sample of the observations."""
    problem = search.problem
    n, r = problem.L.shape
    size = max(settings.sample.size, settings.sample.per_column * r)
    rows = np.sort(rng.choice(n, size=size, replace=False))
    weight = problem.weight[rows] * (float(problem.weight.sum()) / float(problem.weight[rows].sum()))
    sample = LowRankRelaxation(
        problem.L[rows], problem.y[rows], weight, lam=problem.lam, U=problem.U, system=method, settings=settings.newton
    )
    part = Continuation(search.statement, sample, monitor=search.monitor, settings=settings.continuation)
    part.prepare(part.first_goal())
    problem.U, problem.lam = sample.U, sample.lam


def _recovered(statement: ConicLoss, search: Continuation, rounding: bool) -> RecoveredPoints:
    """Return the best of the models that follow from the present point, the dual point, and a rounding if asked for."""
    problem, space = search.problem, statement.space
    w, V = problem.U[:, 0], problem.U[:, 1:]
    u, v = problem.margins()
    z = relaxed_indicator(u, v)
    points: list[tuple[Floats, Floats]] = [(w, V)]
    # In a tight relaxation a margin that falls below 1 by rounding would cost a whole indicator.
    tight = search.fixed_lam and V.shape[1] == 0
    kept = problem.squared_norms > 0 if search.hard_margin else (u > NEARLY_ONE if tight else z < 0.5)
    lowest = float(u[kept].min(initial=1.0))
    if search.hard_margin or tight or (search.fixed_lam and NEARLY_ONE < lowest < 1.0):
        lifted = rounded_point(space, w * ((1.0 + LIFT) / lowest))[0]
        points = [(lifted, V), *([] if search.hard_margin or tight else points)]
    values = [problem.value(np.column_stack(point), ridge=0.0) for point in points] if search.fixed_lam else []
    if problem.rank <= RIDGED and problem.ridge > 0 and not search.hard_margin:
        points.append((w, np.hstack([V, math.sqrt(problem.ridge) * np.eye(problem.rank)])))
        # The columns of the ridge need not be multiplied by the data.
        values.append(problem.value(problem.U) + problem.ridge * problem.rank)
    if not search.fixed_lam and not search.hard_margin:
        points = [
            (w, large) for _, spread in points for large in enlarged_covariances(space, w, spread, search.allowance)
        ] or points
    models: list[BinaryModel] = []
    rounded = None
    if rounding:
        cap = {"lam": statement.lam} if search.fixed_lam else {"k": statement.allowance}
        best, value = round_relaxation(space, w, z, **cap)
        if math.isfinite(value):
            best, rounded = rounded_point(space, best)
            models.append(relaxed_model(space, best, np.zeros((w.size, 0)), rounded))
    # A kernel model takes the solution of a linear system, so that only the best point is made into one.
    if not search.fixed_lam:
        values = [_trace(point) for point in points]
    models.append(relaxed_model(space, *points[int(np.argmin(values))], rounded))
    return RecoveredPoints(models, [search.best_dual])


def _trace(point: tuple[Floats, Floats]) -> float:
    """Return Tr W of (w, V)."""
    return float(sum(np.sum(part**2) for part in point))
