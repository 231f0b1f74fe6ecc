r"""Low-rank solver of the conic relaxation, for data far beyond semidefinite solvers.

Statement and certificate are in :mod:`svmcvx.formulations.conic_loss.statement`. Newton's method
finds a stationary point of :math:`F_\epsilon` of :mod:`svmcvx.fast.conic_loss.low_rank_newton` for
a ridge ε that shrinks from stage to stage. Columns of V are added only as eigenvectors of
:math:`\sum_i\gamma_i x_i x_i'` with an eigenvalue above 1; one or two are usually enough. The gap
at the end of a stage is bounded by its ridge, which is therefore chosen from the tolerance.

Source: [CepedaGomezHan], Theorem 2, Appendices A and C, in the low-rank form of Burer and Monteiro.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_choice, check_seed
from svmcvx.errors import DataError
from svmcvx.fast.conic_loss.conic_blocks import BlockContinuation, BlockRelaxation
from svmcvx.fast.conic_loss.continuation import (
    CHEAP_SPECTRUM,
    LIFT,
    NEARLY_ONE,
    WARM_GOAL,
    Continuation,
    is_hard_margin,
)
from svmcvx.fast.conic_loss.low_rank_newton import DENSE_SPECTRUM, SYSTEMS, LowRankRelaxation
from svmcvx.fast.conic_loss.nystrom import nystrom_space
from svmcvx.fast.conic_loss.starts import begin, start_from
from svmcvx.fast.core.monitor import (
    MOST_RESERVED,
    Callback,
    Found,
    Monitor,
    checked_settings,
    conclude,
    earlier_solution,
    limited,
    monitored,
    solve_interruptible,
    solved_from,
)
from svmcvx.feature_space import FeatureSpace, KernelSpace, penalised_or_none
from svmcvx.feature_space.blocks import BlockSpace, block_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.conic_loss.conic_blocks import ConicInBlocks
from svmcvx.formulations.conic_loss.primal import relaxed_indicator
from svmcvx.formulations.conic_loss.recovery import (
    enlarged_covariances,
    relaxed_model,
    rounded_point,
)
from svmcvx.formulations.conic_loss.statement import ConicLoss, check_lam_or_kappa, conic_space
from svmcvx.heuristics.rounding import round_relaxation
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel
from svmcvx.row_blocks import in_blocks, refuse_in_blocks
from svmcvx.solution import Solution, Status
from svmcvx.system import memory
from svmcvx.system.deadline import OutOfTime

__all__ = ["ConicSettings", "conic", "minimised_relaxation"]

Floats: TypeAlias = NDArray[np.float64]

# Columns up to which a covariance with the ridge is offered: its factor is dense and square.
RIDGED = 3000
# Dense square matrices of the order of the columns that are in memory at once.
SQUARES = 6
# Time of the proof of a dual point with a kernel, in units of the evaluation and Cholesky
# factorisation of K; measured.
PROOF = 4.0
# Seconds of a point whose covariance has a multiple of I, in the same unit.
RIDGE = 6.0
# Time of computing the models of a point, in the same unit, if there is no time for the proof.
RECOVERY = 1.5
# Time of bounds, models and certificate without a kernel matrix, with λ and with a cardinality row,
# in units of the computation of the multipliers of a point; measured.
PASSES_LEFT, PASSES_LEFT_OF_ROW = 100.0, 200.0


@dataclass(frozen=True)
class ConicSettings:
    """Parameters of the algorithm of :func:`conic`.

    Attributes
    ----------
    sample_above : int
        A sample is solved first if there are more observations than this (and than two samples).
    sample_size, sample_per_column : int
        Observations in the sample, and the least number of them for each column.
    dense_spectrum : int
        Columns up to which the leading eigenvalues come from a dense eigensolver; beyond, an
        iterative one.
    """

    sample_above: int = 20_000
    sample_size: int = 5_000
    sample_per_column: int = 20
    dense_spectrum: int = DENSE_SPECTRUM


@limited
def conic(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    kappa: float | None = None,
    kernel: KernelLike = None,
    intercept: bool | str = True,
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

    or with `kappa` the first two terms subject to :math:`\sum_i s_i z_i \le \kappa\sum_i s_i` for
    the fractions :math:`z_i`. The covariance of the semidefinite program is :math:`VV'`, with as
    many columns as it needs.

    Parameters
    ----------
    X : array-like, sparse matrix, Dask collection or RowBlocks of shape (n, d)
        Without the constant feature. Sparse data stay sparse if n > d. Without a kernel the rows
        may come in blocks, see ``docs/scale.md``.
    y : array-like, Dask collection or ``blocks.y`` of shape (n,)
        Two labels of any type.
    lam : float, optional
        Weight of the losses, positive; there is no ½ on the norm.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5]; exactly one of `lam`
        and `kappa`.
    nystrom : int, optional
        Solve in the span of this many landmarks, chosen by Cholesky's method with pivots, without a
        Gram matrix. The certificate then holds for this approximation of K, and says so: its
        residuals ``"nystrom_rank"`` and ``"nystrom_trace_error"``, the share of the trace of K that
        is missing. ``upper`` is attained with K itself too.
    max_iter : int
        Newton steps.
    warm_start : Solution, optional
        An earlier solution of the same data and kernel, for any λ or κ; for the linear formulation
        also a solution of another formulation with a linear model.
    rounding : bool
        Look for a good solution of the 0-1 problem too, as :func:`svmcvx.solve` does; False by
        default, since it takes longer than the solver itself. The residual ``"zero_one_upper"`` of
        the certificate is then its objective.
    method : "auto", "direct" or "conjugate"
        How Newton's systems are solved: factored, by conjugate gradients, or the first up to 1 500
        unknowns.
    seed : int
        Of the sample that precedes more than 20 000 observations; the same seed gives the same
        numbers.

    Returns
    -------
    Solution
        Its model has the second moment; see
        :func:`svmcvx.formulations.conic_loss.relaxation.relaxation`.

    Raises
    ------
    DataError
        If the data or an argument cannot be used, among others κ = 0 with classes that are not
        separable, and a `warm_start` of other data or of another kernel.
    BuildError
        If a kernel matrix, or the matrices of the order of the columns, would not fit into memory.
    SolverFailed
        If no covariance satisfies the cardinality row, since too many observations are zero.

    Notes
    -----
    Source: [CepedaGomezHan], Theorem 2, Appendices A and C, in the low-rank form of Burer and
    Monteiro. The lower bound rests on a Cholesky factorisation of :math:`I - \sum_i\gamma_i x_i
    x_i'`, or of its counterpart for K, that proves it definite; eigensolvers only propose columns
    and points. Where K is so nearly singular that the factor of the search has lost a direction of
    it the interval stays wide, and the status is "inaccurate".

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
    settings = checked_settings(settings, ConicSettings)
    if in_blocks(X):
        refuse_in_blocks(
            kernel=kernel is not None,
            nystrom=nystrom is not None,
            rounding=bool(rounding),
            warm_start=warm_start is not None,
            method=method == "conjugate",
        )
        rows = block_space(
            X, y, sample_weight, intercept=penalised_or_none(intercept), seed=seed, covariance=True
        )
        if not rows.small:
            memory.require(
                8.0 * SQUARES * float(rows.d) ** 2,
                f"the matrices of {rows.d} × {rows.d}",
                "select features",
            )
            with (
                monitored(
                    tol=tol, max_iter=max_iter, verbose=verbose, callback=callback
                ) as monitor,
                rows.watched(),
            ):
                return _solve_blocks(lam, kappa, rows, monitor, check_seed(seed), settings)
        X, y, sample_weight = rows.loaded()
    data, space = conic_space(X, y, kernel, intercept, sample_weight, indefinite)
    if nystrom is not None:
        space = nystrom_space(data, kernel, rank=nystrom, intercept=penalised_or_none(intercept))
    # The multipliers of stationary points need no search for better ones.
    statement = ConicLoss(space=space, lam=lam, kappa=kappa, improve_alpha=False)
    warm_start = earlier_solution(warm_start, statement)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        if kappa is not None and not space.factored:
            # No point of this form is known without the factor, which is computed whatever the
            # limit.
            _ = space.factor

        def solve(start: Solution | None) -> Found:
            rng = check_seed(seed)
            return solve_interruptible(
                monitor, _solve, statement, monitor, start, rng, method, settings, bool(rounding)
            )

        return solved_from(
            statement,
            monitor,
            solve,
            warm_start,
            solver=lambda options: "fast.conic/newton",
            # After its end: before, the factor that this needs could not be interrupted.
            used=lambda: space.factored and not is_hard_margin(statement),
        )


def _solve(
    statement: ConicLoss,
    monitor: Monitor,
    warm_start: Solution | None,
    rng: np.random.Generator,
    method: str,
    settings: ConicSettings,
    rounding: bool,
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve on rows in memory."""
    space, began = statement.space, monitor.seconds
    r = int(space.factor.shape[1])
    factored = monitor.seconds - began
    proof, limit = _proof_seconds(space, factored), monitor.deadline
    if limit.remaining < math.inf:
        affordable = proof <= MOST_RESERVED * limit.remaining
        monitor.deadline = limit.earlier(
            proof if affordable else min(RECOVERY * factored, MOST_RESERVED * limit.remaining)
        )
    memory.require(
        8.0 * SQUARES * float(r) ** 2,
        f"the matrices of {r} × {r}",
        "select features, or pass nystrom with a kernel",
    )
    start = None if warm_start is None else start_from(statement, warm_start)
    search = begin(statement, monitor, start, method, settings.dense_spectrum)
    if limit.remaining < math.inf and proof == 0.0 and search.problem.rank <= CHEAP_SPECTRUM:
        began = monitor.seconds
        search.problem.multipliers()
        passes = PASSES_LEFT if search.fixed_lam else PASSES_LEFT_OF_ROW
        monitor.deadline = limit.earlier(
            min(passes * (monitor.seconds - began), MOST_RESERVED * limit.remaining)
        )
    warm = start is not None and not search.hard_margin
    status = _run(search, rng, method, settings, warm=warm)
    hurried = status is not Status.OPTIMAL and search.out_of_time()
    recovered = _recovered(
        statement, search, rounding, late=limit.remaining < RIDGE * factored, hurried=hurried
    )
    if limit.remaining < proof * float(np.mean(search.best_dual["gamma"] > 0)) ** 3:
        # No step of the proof can be interrupted: keep the bound that needs no dual point.
        recovered = recovered._replace(duals=[])
    options = {
        "method": method,
        "iterations": search.problem.steps,
        "columns": search.problem.U.shape[1] - 1,
    }
    return recovered, status, options


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
            f"kappa = {kappa:g} leaves no margin below 1 to be chosen, which rows in blocks do not"
            " take; raise kappa, or load the data"
        )
    inner = monitor.within(max(WARM_GOAL, monitor.tol), monitor.max_iter)
    sampled = minimised_relaxation(part, inner, rng, settings)
    search = BlockContinuation(statement, BlockRelaxation(space, sampled.problem), monitor=monitor)
    # Stages that the deadline cuts short still have the point of the sample.
    space.shards.deadline = monitor.deadline
    try:
        status = search.rounds(sampled)
        if status is None:
            search.move_to_best()
            status = search.run(WARM_GOAL * search.size())
        points = search.points()
    except OutOfTime:
        status = (
            Status.INTERRUPTED
            if monitor.deadline.interrupt_requested.is_set()
            else Status.TIME_LIMIT
        )
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
        options={
            "method": "direct",
            "iterations": search.problem.steps,
            "columns": search.problem.U.shape[1] - 1,
        },
    )


def _proof_seconds(space: FeatureSpace, factored: float) -> float:
    """Estimate the time of the proof of a dual point with a kernel, from the time in which K was
    evaluated and factored.
    """
    if not (isinstance(space, KernelSpace) and space.keep_gram):
        return 0.0
    return factored * (PROOF if space.factorisation.method == "cholesky" else 1.0)


def _run(
    search: Continuation,
    rng: np.random.Generator,
    method: str,
    settings: ConicSettings,
    *,
    warm: bool,
) -> Status:
    """Run a continuation to its end, from the solution for a sample if there are many observations
    and no warm start.
    """
    n, r = search.problem.L.shape
    if (
        not warm
        and n > max(settings.sample_above, 2 * settings.sample_per_column * r)
        and not search.hard_margin
    ):
        _move_to_sample_solution(search, rng, method, settings)
    goal = search.first_goal()
    if search.problem.U.any() and not search.hard_margin:
        goal = min(goal, WARM_GOAL * search.size())
    status = search.run(goal)
    search.move_to_best()
    return status


def minimised_relaxation(
    statement: ConicLoss,
    monitor: Monitor,
    rng: np.random.Generator,
    settings: ConicSettings | None = None,
) -> Continuation:
    """Return the continuation at the best point that it found for a statement, within the limits of
    a monitor.
    """
    settings = settings or ConicSettings()
    search = begin(statement, monitor, None, "auto", settings.dense_spectrum)
    _run(search, rng, "auto", settings, warm=False)
    return search


def _move_to_sample_solution(
    search: Continuation, rng: np.random.Generator, method: str, settings: ConicSettings
) -> None:
    """Move the search to the solution for a sample of the observations."""
    problem = search.problem
    n, r = problem.L.shape
    size = max(settings.sample_size, settings.sample_per_column * r)
    rows = np.sort(rng.choice(n, size=size, replace=False))
    weight = problem.weight[rows] * (
        float(problem.weight.sum()) / float(problem.weight[rows].sum())
    )
    sample = LowRankRelaxation(
        problem.L[rows],
        problem.y[rows],
        weight,
        lam=problem.lam,
        U=problem.U,
        system=method,
        dense_spectrum=settings.dense_spectrum,
    )
    part = Continuation(search.statement, sample, monitor=search.monitor)
    part.prepare(part.first_goal())
    problem.U, problem.lam, search.rate = sample.U, sample.lam, part.rate


def _recovered(
    statement: ConicLoss, search: Continuation, rounding: bool, *, late: bool, hurried: bool
) -> RecoveredPoints:
    """Return the best models of the present point, the dual point, and a rounding if requested."""
    problem, space = search.problem, statement.space
    w, V = problem.U[:, 0], problem.U[:, 1:]
    u, v = problem.margins()
    z = relaxed_indicator(u, v)
    points: list[tuple[Floats, Floats]] = [(w, V)]
    # In a tight relaxation a margin that falls below 1 by rounding would cost a whole indicator.
    tight = search.fixed_lam and V.shape[1] == 0
    satisfied = (
        problem.squared_norms > 0 if search.hard_margin else (u > NEARLY_ONE if tight else z < 0.5)
    )
    lowest = float(u[satisfied].min(initial=1.0))
    if search.hard_margin or tight or (search.fixed_lam and NEARLY_ONE < lowest < 1.0):
        lifted = rounded_point(space, w * ((1.0 + LIFT) / lowest))[0]
        points = [(lifted, V), *([] if search.hard_margin or tight else points)]
    values = (
        [problem.value(np.column_stack(point), ridge=0.0) for point in points]
        if search.fixed_lam
        else []
    )
    if problem.rank <= RIDGED and problem.ridge > 0 and not (search.hard_margin or late):
        points.append((w, np.hstack([V, math.sqrt(problem.ridge) * np.eye(problem.rank)])))
        # The columns of the ridge need not be multiplied by the data.
        values.append(problem.value(problem.U) + problem.ridge * problem.rank)
    if not search.fixed_lam and not search.hard_margin:
        if hurried:
            points = [(w, points[-1][1] * math.sqrt(search.best_factor))]
        points = [
            (w, large)
            for _, spread in points
            for large in enlarged_covariances(
                space, w, spread, search.allowance, late=late or hurried
            )
        ] or points
    models: list[BinaryModel] = []
    rounded = None
    if rounding:
        cap = {"lam": statement.lam} if search.fixed_lam else {"k": statement.allowance}
        best, value = round_relaxation(space, w, z, **cap)
        if math.isfinite(value):
            best, rounded = rounded_point(space, best)
            models.append(relaxed_model(space, best, np.zeros((w.size, 0)), rounded))
    # A kernel model needs the solution of a linear system, so that it is computed only for the best
    # point.
    if not search.fixed_lam:
        values = [_trace(point) for point in points]
    models.append(relaxed_model(space, *points[int(np.argmin(values))], rounded))
    return RecoveredPoints(models, [search.best_dual])


def _trace(point: tuple[Floats, Floats]) -> float:
    """Return Tr W of (w, V)."""
    return float(sum(np.sum(part**2) for part in point))
