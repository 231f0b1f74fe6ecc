r"""Low-rank solver of the conic relaxation, for data far beyond semidefinite solvers.

Statement and certificate are in :mod:`svmcvx.formulations.conic_loss.statement`. Newton's method
finds a stationary point of :math:`F_\epsilon` of :mod:`svmcvx.fast.conic_loss.continuation` for
a ridge ε that shrinks from stage to stage. Columns of V are added only as eigenvectors of
:math:`\sum_i\gamma_i x_i x_i'` with an eigenvalue above 1; one or two are usually enough. The gap
at the end of a stage is bounded by its ridge, which is therefore chosen from the tolerance.

Source: [CepedaGomezHan], Theorem 2, Appendices A and C, in the low-rank form of Burer and Monteiro.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import TINY
from svmcvx.data import check_choice, check_seed
from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.conic_loss.continuation import (
    LIFT,
    NEARLY_ONE,
    SYSTEMS,
    WARM_GOAL,
    Continuation,
    LowRankRelaxation,
    is_hard_margin,
    leading_directions,
)
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
)
from svmcvx.formulations.base import RecoveredPoints, bound_space, check_price_or_limit
from svmcvx.formulations.conic_loss.models import (
    enlarged_covariance,
    moment_of,
    relaxed_indicator,
    relaxed_model,
    rounded_point,
)
from svmcvx.formulations.conic_loss.statement import ConicLoss, hard_margin_point
from svmcvx.formulations.signed_rows import least_norm, round_relaxation
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.solution import Attempt, Solution, Status
from svmcvx.system import memory

# Columns up to which the covariance with the ridge is a candidate for the model: its factor is a
# dense square matrix.
RIDGED = 500
# Share of a time limit that is left for bounds, models and certificate.
RESERVED = 0.25


# A starting point (w, V), and λ if it is known.
ConicStart: TypeAlias = tuple[Floats, float | None]


def start_from(statement: ConicLoss, warm: Solution) -> ConicStart:
    """Return the point of an earlier solution, or raise a :class:`DataError` if it does not fit."""
    space, moment, model = statement.space, moment_of(warm.model), warm.model
    r = statement.factor.shape[1]
    if moment is not None:
        if moment.z.size != space.data.rows:
            raise DataError(
                "warm_start must be a Solution of the same data: it has"
                f" {moment.z.size} observations, these are {space.data.rows}"
            )
        kernel = warm.hyperparameters.get("kernel")
        if kernel != statement.kernel_name:
            raise DataError(
                f"warm_start must be a Solution with the same kernel: it has {kernel}, this is"
                f" {statement.kernel_name}"
            )
        if moment.w.size != r:
            raise DataError(
                "warm_start must be a Solution with the same columns and intercept: it"
                f" has {moment.w.size} coordinates, these are {r}"
            )
        U = np.column_stack([moment.w, leading_directions(moment.V)])
    else:
        d = int(space.data.X.shape[1])
        if not (space.is_linear and isinstance(model, LinearModel) and model.coef.shape == (d,)):
            wanted = (
                f"a linear model of {d} features"
                if space.is_linear
                else "the second moment of the conic relaxation"
            )
            raise DataError(
                f"warm_start must be a Solution with {wanted}, got one of {warm.formulation!r} with"
                f" {model!r}"
            )
        w = np.append(model.coef, model.intercept) if space.intercept == "penalised" else model.coef
        if not np.isfinite(w).all():
            raise DataError("warm_start must be a Solution whose model has finite coefficients")
        if w.size != r:
            # The factor is not the data themselves: the coordinates with the same scores.
            w, *_ = sl.lstsq(statement.factor, model.scores(space.data.X).value)
        U = w[:, None]
    known = warm.dual.get("lam", warm.hyperparameters.get("lam"))
    lam = math.nan if known is None else float(known)
    return U, lam if 0 < lam < math.inf else None


def _hard_margin(statement: ConicLoss) -> Floats:
    """Return the point of least norm with margins of at least 1 on all rows but rows of zeros."""
    norms = statement.squared_row_norms
    rows = norms > 0
    L, y = statement.factor[rows], statement.y[rows]
    scale = math.sqrt(float(np.mean(norms[rows]))) if rows.any() else 1.0
    A = (L.toarray() if sp.issparse(L) else L) * (y / scale)[:, None]
    if statement.kappa == 0:
        return (
            hard_margin_point(A if rows.all() else np.vstack([A, np.zeros((1, A.shape[1]))]))
            / scale
        )
    # Relative excess of the weight lost on rows of zeros that is taken to be rounding.
    found = (
        least_norm(A, None)
        if float(statement.weight[~rows].sum()) <= (1.0 + 1e-12) * statement.allowance
        else None
    )
    if found is None:
        reason = statement.explain("infeasible")
        raise SolverFailed(
            f"fast.conic: {reason}", [Attempt("fast.conic/newton", Status.INFEASIBLE, reason)]
        )
    return found.w / scale


def begin(
    statement: ConicLoss, monitor: Monitor, start: ConicStart | None, method: str
) -> Continuation:
    """Return the continuation at the hard margin if the problem reduces to it, else at `start`."""
    data, L = statement.space.data, statement.factor
    mean = float(np.mean(statement.squared_row_norms)) or 1.0
    hard_margin = is_hard_margin(statement)
    U, lam = np.zeros((L.shape[1], 1)), statement.lam
    if hard_margin:
        U = _hard_margin(statement)[:, None]
    elif start is not None:
        U, lam = start[0], start[1] if lam is None else lam
    if lam is None:
        total = float(data.weight.sum())
        # With it λ Σ s z is four times the squared norm of a point with margin 1 on an average row;
        # κ counts as at least a thousandth here.
        lam = 4.0 / (mean * max(statement.allowance, 1e-3 * total))
        if hard_margin:
            # One margin below 1 has to cost more than the squared norm of the hard margin.
            lam = max(lam, 4.0 * float(np.vdot(U, U)) / float(data.weight.min()))
        lam = min(max(lam, TINY), float(np.finfo(np.float64).max))
    problem = LowRankRelaxation(L, data.y, data.weight, lam=lam, U=U, system=method)
    return Continuation(statement, problem, monitor=monitor)


@dataclass(frozen=True)
class ConicSettings:
    """Parameters of the algorithm of :func:`conic`.

    Attributes
    ----------
    sample_above : int
        A sample is solved first if there are more observations than this (and than two samples).
    sample_size, sample_per_column : int
        Observations in the sample, and the least number of them for each column.
    """

    sample_above: int = 20_000
    sample_size: int = 5_000
    sample_per_column: int = 20


@limited
def conic(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    kappa: float | None = None,
    kernel: KernelLike = None,
    intercept: bool | str = True,
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

    .. math::
        \min_{w, V}\; \|w\|^2 + \|V\|_F^2
        + \lambda \sum_i s_i \frac{(1-u_i)_+^2}{\|V'x_i\|^2 + (1-u_i)_+^2},
        \qquad u_i = y_i x_i'w,

    or with `kappa` the first two terms subject to :math:`\sum_i s_i z_i \le \kappa\sum_i s_i` for
    the fractions :math:`z_i`. The covariance of the semidefinite program is :math:`VV'`, with as
    many columns as it needs.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature. Sparse data stay sparse if n > d.
    y : array-like of shape (n,)
        Two labels of any type.
    lam : float, optional
        Weight of the losses, positive; there is no ½ on the norm.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5]; exactly one of `lam`
        and `kappa`.
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
        :func:`svmcvx.formulations.conic_loss.problems.relaxation`.

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
    lam, kappa = check_price_or_limit("fast.conic", lam, kappa, "kappa", "[0, 0.5]")
    check_choice(method, "method", SYSTEMS)
    if not isinstance(rounding, (bool, np.bool_)):
        raise DataError(f"rounding must be True or False, got {rounding!r}")
    settings = checked_settings(settings, ConicSettings)
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite)
    # The multipliers of stationary points need no search for better ones.
    statement = ConicLoss(space=space, lam=lam, kappa=kappa, improve_alpha=False)
    warm_start = earlier_solution(warm_start, statement)
    with monitored(tol=tol, max_iter=max_iter, verbose=verbose, callback=callback) as monitor:
        if kappa is not None and not space.factored:
            # Points of this form need the factor, which is computed whatever the limit.
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
    limit, r = monitor.deadline, int(statement.factor.shape[1])
    if limit.remaining < math.inf:
        monitor.deadline = limit.earlier(RESERVED * limit.remaining)
    # About six square matrices are in memory at once.
    memory.require(48.0 * float(r) ** 2, f"the matrices of {r} × {r}", "select features")
    start = None if warm_start is None else start_from(statement, warm_start)
    search = begin(statement, monitor, start, method)
    warm = start is not None and not search.hard_margin
    status = _run(search, rng, method, settings, warm=warm)
    late = status is not Status.OPTIMAL and search.monitor.out_of_time()
    recovered = _recovered(statement, search, rounding, ridged=0 if late else RIDGED)
    if late and limit.passed():
        # The proof of a dual point takes longer than the factorisation of a kernel matrix.
        recovered = recovered._replace(duals=[])
    options = {
        "method": method,
        "iterations": search.problem.steps,
        "columns": search.problem.U.shape[1] - 1,
    }
    return recovered, status, options


def _run(
    search: Continuation,
    rng: np.random.Generator,
    method: str,
    settings: ConicSettings,
    *,
    warm: bool,
) -> Status:
    """Run a continuation to its end, from a sample's solution if there are many observations."""
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
    statement: ConicLoss, monitor: Monitor, rng: np.random.Generator
) -> Continuation:
    """Return the continuation at its best point for a statement, within a monitor's limits."""
    search = begin(statement, monitor, None, "auto")
    _run(search, rng, "auto", ConicSettings(), warm=False)
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
        problem.L[rows], problem.y[rows], weight, lam=problem.lam, U=problem.U, system=method
    )
    part = Continuation(search.statement, sample, monitor=search.monitor)
    part.prepare(part.first_goal())
    problem.U, problem.lam = sample.U, sample.lam


def _recovered(
    statement: ConicLoss, search: Continuation, rounding: bool, *, ridged: int
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
    if problem.rank <= ridged and problem.ridge > 0 and not search.hard_margin:
        points.append((w, np.hstack([V, math.sqrt(problem.ridge) * np.eye(problem.rank)])))
        values.append(problem.value(problem.U) + problem.ridge * problem.rank)
    if not search.fixed_lam and not search.hard_margin:
        points = [
            (w, larger)
            for _, spread in points
            if (larger := enlarged_covariance(space, w, spread, search.allowance)) is not None
        ] or points
    models: list[BinaryModel] = []
    rounded = None
    if rounding:
        cap = {"lam": statement.lam} if search.fixed_lam else {"k": statement.allowance}
        best, value = round_relaxation(space, w, z, **cap)
        if math.isfinite(value):
            best, rounded = rounded_point(space, best)
            models.append(relaxed_model(space, best, np.zeros((w.size, 0)), rounded))
    # A kernel model takes a linear system: it is computed for the best point only.
    if not search.fixed_lam:
        values = [float(sum(np.sum(part**2) for part in point)) for point in points]
    models.append(relaxed_model(space, *points[int(np.argmin(values))], rounded))
    return RecoveredPoints(models, [search.best_dual])
