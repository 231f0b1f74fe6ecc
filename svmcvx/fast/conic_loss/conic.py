r"""Low-rank solver of the conic relaxation, for data far beyond semidefinite solvers.

Statement and certificate are in :mod:`svmcvx.formulations.conic_loss.statement`. Newton's method
finds a stationary point of :math:`F_\epsilon` of :class:`LowRankRelaxation` for a ridge ε that
shrinks from stage to stage (:class:`Continuation`), with columns added as needed, and λ for a given
κ. Columns of V are added only as eigenvectors of :math:`\sum_i\gamma_i x_i x_i'` with an eigenvalue
above 1; one or two are usually enough. The gap at the end of a stage is bounded by its ridge, which
is therefore chosen from an absolute gap, the goal of the stage.

Source: [CepedaGomezHan], Theorem 2, Appendices A and C, in the low-rank form of Burer and Monteiro.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from scipy.optimize import nnls
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from svmcvx.arrays import Floats
from svmcvx.catalogue import TOL
from svmcvx.certificate import Dual, relative_gap
from svmcvx.certificate.bounded import TINY
from svmcvx.data import check_choice, check_seed
from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.conic_loss import loss_passes as passes
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
from svmcvx.formulations.base import RecoveredPoints, bound_space, check_price_or_limit
from svmcvx.formulations.conic_loss.models import (
    enlarged_covariance,
    moment_of,
    objective,
    relaxed_indicator,
    relaxed_model,
    rounded_point,
    stationary_multipliers,
    weighted_gram,
)
from svmcvx.formulations.conic_loss.statement import ConicLoss, hard_margin_point
from svmcvx.formulations.signed_rows import LeastNorm, least_norm, round_relaxation
from svmcvx.kernels import KernelLike, row_norms
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.numerical import conjugate_gradients, estimated_rounding
from svmcvx.solution import Attempt, Solution, Status
from svmcvx.system import memory

SYSTEMS = ("auto", "direct", "conjugate")
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


def _hard_margin(statement: ConicLoss) -> tuple[Floats, Dual]:
    """Return the optimum where the row allows no loss but that of rows of zeros, whose z is 1:
    z ≥ 0 makes any other z 0, that is V = 0 and u ≥ 1, the hard margin; and as its multipliers α
    vanish where u ≠ 1, no γ with Q ≻ 0 moves the minimum of D's Lagrangian, and λ ≥ α²/(4γs) makes
    h* = 0.
    """
    norms = statement.squared_row_norms
    rows = norms > 0
    L, y = statement.factor[rows], statement.y[rows]
    scale = math.sqrt(float(np.mean(norms[rows]))) if rows.any() else 1.0
    A = (L.toarray() if sp.issparse(L) else L) * (y / scale)[:, None]
    if statement.kappa == 0:
        whole = A if rows.all() else np.vstack([A, np.zeros((1, A.shape[1]))])
        found: LeastNorm | None = hard_margin_point(whole)
    else:
        # Relative excess of the weight lost on rows of zeros that is taken to be rounding.
        lost = float(statement.weight[~rows].sum())
        found = least_norm(A, None) if lost <= (1.0 + 1e-12) * statement.allowance else None
    if found is None:
        reason = statement.explain("infeasible")
        raise SolverFailed(
            f"fast.conic: {reason}", [Attempt("fast.conic/newton", Status.INFEASIBLE, reason)]
        )
    # With it λ_max(Σ γ x x') is at most a half, Σ γ ‖x‖².
    share = 0.5 / float(found.alpha @ (norms[rows] / scale**2))
    weight, gamma, alpha = statement.weight, np.empty(rows.size), np.empty(rows.size)
    lam = float((found.alpha / weight[rows]).max()) / share / scale**2
    gamma[rows], alpha[rows] = share * found.alpha / scale**2, 2.0 * found.alpha / scale**2
    gamma[~rows], alpha[~rows] = lam * weight[~rows], 2.0 * lam * weight[~rows]
    return found.w / scale, {"gamma": gamma, "alpha": alpha, "lam": np.array(lam)}


def begin(
    statement: ConicLoss, monitor: Monitor, start: ConicStart | None, method: str
) -> Continuation:
    """Return the continuation at the hard margin if the problem reduces to it, else at `start`."""
    data, L = statement.space.data, statement.factor
    mean = float(np.mean(statement.squared_row_norms)) or 1.0
    U, lam, dual = np.zeros((L.shape[1], 1)), statement.lam, None
    if is_hard_margin(statement):
        w, dual = _hard_margin(statement)
        U, lam = w[:, None], float(dual["lam"])
    elif start is not None:
        U, lam = start[0], start[1] if lam is None else lam
    if lam is None:
        total = float(data.weight.sum())
        # With it λ Σ s z is four times the squared norm of a point with margin 1 on an average row;
        # κ counts as at least a thousandth here.
        lam = 4.0 / (mean * max(statement.allowance, 1e-3 * total))
        lam = min(max(lam, TINY), float(np.finfo(np.float64).max))
    problem = LowRankRelaxation(L, data.y, data.weight, lam=lam, U=U, system=method)
    return Continuation(statement, problem, monitor, dual)


@dataclass(frozen=True)
class ConicSettings:
    """Number of observations above which, and above two samples, a sample is solved first;
    observations in the sample, and the least number of them for each column.
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
    tol: float = TOL,
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

    Source: [CepedaGomezHan], Theorem 2, Appendices A and C, in the low-rank form of Burer and
    Monteiro. The lower bound rests on a Cholesky factorisation of :math:`I - \sum_i\gamma_i x_i
    x_i'`, or of its counterpart for K, that proves it definite; eigensolvers only propose columns
    and points. Where K is so nearly singular that the factor of the search has lost a direction of
    it the interval stays wide, and the status is "inaccurate".

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature. Sparse data stay sparse if n > d.
    y : array-like of shape (n,)
        Two labels of any type.
    lam : float, optional
        Weight of the losses, positive; there is no ½ on the norm.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5]; 0 is the hard margin.
        Exactly one of `lam` and `kappa`.
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
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}

    def run(monitor: Monitor, start: Solution | None) -> Found:
        if kappa is not None and not space.factored:
            # Points of this form need the factor, which is computed whatever the limit.
            _ = space.factor
        rng = check_seed(seed)
        return solve_interruptible(
            monitor, _solve, statement, monitor, start, rng, method, settings, bool(rounding)
        )

    def used() -> bool:
        # After its end: before, the factor that this needs could not be interrupted.
        return space.factored and not is_hard_margin(statement)

    return solve(statement, run, warm_start, limits, name="fast.conic/newton", used=used)


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
    columns = search.problem.U.shape[1] - 1
    options = {"method": method, "iterations": search.problem.steps, "columns": columns}
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
    if search.hard_margin:
        lower = search.statement.evaluate_dual(search.best_dual).lower_end
        status = search.monitor.report(0, lower, float(np.vdot(search.problem.U, search.problem.U)))
        return status or Status.INACCURATE
    many = n > max(settings.sample_above, 2 * settings.sample_per_column * r)
    if many and not warm:
        _move_to_sample_solution(search, rng, method, settings)
    goal = search.first_goal()
    if search.problem.U.any():
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
    part = Continuation(search.statement, sample, search.monitor, None)
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
    tight = search.hard_margin or (search.fixed_lam and V.shape[1] == 0)
    kept = u > NEARLY_ONE if tight else z < 0.5
    lowest = float(u[kept].min(initial=1.0))
    if tight or (search.fixed_lam and NEARLY_ONE < lowest < 1.0):
        lifted = rounded_point(space, w / lowest, kept)[0]
        points = [(lifted, V), *([] if tight else points)]
    values: list[float] = []
    if search.fixed_lam:
        values = [problem.value(np.column_stack(point), ridge=0.0) for point in points]
    if problem.rank <= ridged and problem.ridge > 0:
        points.append((w, np.hstack([V, math.sqrt(problem.ridge) * np.eye(problem.rank)])))
        values.append(problem.value(problem.U) + problem.ridge * problem.rank)
    if not search.fixed_lam:
        larger = [enlarged_covariance(space, w, spread, search.allowance) for _, spread in points]
        points = [(w, spread) for spread in larger if spread is not None] or points
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


# Solves a regularised Newton system for a right-hand side of the shape of U; None on failure.
Solve: TypeAlias = Callable[[Floats], Floats | None]
# A step, the decrease that the quadratic model predicts, and the solver of its system.
LowRankStep: TypeAlias = tuple[Floats, float, Solve]
# Second derivatives of the losses by the scores of a row: shift_i I + rays_i rays_i'.
SecondDerivatives: TypeAlias = tuple[Floats, Floats]


class LowRankRelaxation:
    r"""F with its derivatives at a point: the low-rank form, with a ridge added to the covariance.

    .. math::
        F_\epsilon(U) = \|w\|^2 + \|V\|_F^2
        + \lambda\sum_i s_i z_i(u_i, \|V'x_i\|^2 + \epsilon\|x_i\|^2), \qquad U = (w\; V),

    is, up to the constant :math:`\epsilon r`, the relaxation restricted to covariances
    :math:`\succeq \epsilon I`. It is smooth for any V, also for one without columns, and any
    stationary point with :math:`\lambda_{\max}(\sum_i\gamma_i x_i x_i') \le 1` is a global minimum.
    Its γ and α are then feasible for the relaxation itself, with a gap of at most :math:`\epsilon
    r`.

    Source: [CepedaGomezHan], Theorem 2, in the low-rank form of Burer and Monteiro.
    """

    def __init__(
        self, L: Any, y: Floats, weight: Floats, *, lam: float, U: Floats, system: str = "auto"
    ) -> None:
        self.L, self.y, self.weight = L, y, weight
        # Unknowns up to which Newton's systems are factored; beyond, conjugate gradients.
        self.largest_system = {"auto": 1500, "direct": math.inf, "conjugate": 0}[system]
        self.squared_norms = row_norms(L) ** 2
        self.U, self.lam, self.ridge = U, lam, 0.0
        # The regularisation of Newton's systems, in units of the Hessian's majoriser.
        self.steps, self.damping = 0, 1e-3

    @property
    def rank(self) -> int:
        """Columns of L."""
        return int(self.L.shape[1])

    def scores(self, U: Floats | None = None) -> Floats:
        return np.ascontiguousarray(self.L @ (self.U if U is None else U))

    def margins(self) -> tuple[Floats, Floats]:
        """Return margins u and variances v, the ridge included."""
        S = self.scores()
        return self.y * S[:, 0], np.sum(S[:, 1:] ** 2, axis=1) + self.ridge * self.squared_norms

    def multipliers(self) -> tuple[Floats, Floats]:
        return stationary_multipliers(*self.margins(), self.lam * self.weight)

    def value(self, U: Floats, ridge: float | None = None) -> float:
        """Return F at a point, for the present ridge or another one."""
        ridge = self.ridge if ridge is None else ridge
        loss = passes.total_loss(
            self.scores(U), self.y, self.lam * self.weight, ridge * self.squared_norms
        )
        return self.penalty(U) + float(loss)

    @staticmethod
    def penalty(U: Floats) -> float:
        return float(np.vdot(U, U))

    def indicator_sum(self) -> float:
        return float(
            passes.total_loss(self.scores(), self.y, self.weight, self.ridge * self.squared_norms)
        )

    def derivatives(self) -> tuple[float, Floats, SecondDerivatives]:
        height, ridge = self.lam * self.weight, self.ridge * self.squared_norms
        S = self.scores()
        slope, shift, rays = np.empty_like(S), np.empty(len(S)), np.empty_like(S)
        loss = float(passes.loss_derivatives(S, self.y, height, ridge, slope, shift, rays))
        gradient = 2.0 * self.U + np.asarray(self.L.T @ slope)
        return self.penalty(self.U) + loss, gradient, (shift, rays)

    @cached_property
    def _gram(self) -> Floats:
        """Σ s x x', or its diagonal where systems are large."""
        if self.rank <= self.largest_system // 2:
            return weighted_gram(self.L, self.weight)
        if sp.issparse(self.L):
            return np.asarray(self.L.multiply(self.L).T @ self.weight)
        return np.asarray(np.einsum("ij,ij,i->j", self.L, self.L, self.weight))

    def _majoriser(self) -> Floats:
        """2 (I + λ Σ s x x'), or its diagonal for large systems; a multiple regularises steps."""
        unit = np.eye(self.rank) if self._gram.ndim == 2 else np.ones(self.rank)
        return np.asarray(2.0 * (unit + self.lam * self._gram))

    def _hessian(self, bend: SecondDerivatives) -> Floats:
        """The matrix of second derivatives by U, ordered column by column."""
        shift, rays = bend
        # Margins of 1 or more have no second derivative.
        curved = np.flatnonzero((shift != 0) | (rays[:, 0] != 0))
        X, shift, rays = self.L[curved], shift[curved], rays[curved]
        r, k = int(X.shape[1]), rays.shape[1]
        H = np.zeros((r * k, r * k), order="F")
        places = [slice(a * r, (a + 1) * r) for a in range(k)]
        if sp.issparse(X) or k == 1:
            for a, b in zip(*np.triu_indices(k), strict=True):
                H[places[a], places[b]] = weighted_gram(X, rays[:, a] * rays[:, b])
        else:
            # Entries of a block of products of scores and rows, which stays in the cache of a core.
            step = max(1, (2**18) // (r * k))
            for first in range(0, X.shape[0], step):
                part, q = X[first : first + step], rays[first : first + step]
                products = (q[:, :, None] * part[:, None, :]).reshape(part.shape[0], r * k)
                H = dsyrk(1.0, products.T, beta=1.0, c=H, overwrite_c=True)
        H = np.triu(H) + np.triu(H, 1).T
        own = weighted_gram(X, shift)
        for place in places:
            H[place, place] += own
        H[np.diag_indices_from(H)] += 2.0
        return H

    def _product(self, bend: SecondDerivatives) -> Callable[[Floats], Floats]:
        """Products with the matrix of second derivatives, for matrices of the shape of U."""
        shift, rays = bend

        def product(D: Floats) -> Floats:
            S = np.asarray(self.L @ D)
            out = shift[:, None] * S + np.einsum("ib,ib->i", rays, S)[:, None] * rays
            return np.asarray(2.0 * D + self.L.T @ out)

        return product

    def descend(self, goal: float, steps: int, stopped: Callable[[], bool]) -> Solve | None:
        """Take Newton steps until one predicts less than `goal`; return the last one's solver."""
        direct, solve = self.U.size <= self.largest_system, None
        majoriser = self._majoriser()
        value, gradient, bend = self.derivatives()
        while self.steps < steps and not stopped():
            self.steps += 1
            H = self._hessian(bend) if direct else None
            accepted = None
            # Trial steps in one iteration.
            for _ in range(60):
                found = (
                    self._direct_step(H, gradient, majoriser)
                    if H is not None
                    else self._conjugate_step(bend, gradient, majoriser)
                )
                if found is None:
                    self.damping *= 4.0
                    continue
                step, predicted, solve = found
                new = self.value(self.U + step)
                rounding = 2.0 * math.ulp(value)
                if predicted <= (max(goal, rounding) if self.damping <= DAMPED else rounding):
                    if new <= value + rounding:
                        self.U = self.U + step
                    return solve
                ratio = (value - new) / predicted
                if ratio > 0.9:
                    self.damping *= 0.01
                elif ratio > 0.5:
                    self.damping *= 0.2
                elif not ratio >= 0.2:
                    self.damping *= 4.0
                # A smaller one is rounding in the system.
                self.damping = max(self.damping, 1e-13)
                if ratio > 1e-3:
                    accepted = step
                    break
            if accepted is None:
                break
            self.U = self.U + accepted
            value, gradient, bend = self.derivatives()
        return solve

    def _direct_step(self, H: Floats, gradient: Floats, majoriser: Floats) -> LowRankStep | None:
        """Return the Cholesky Newton step, None if the matrix is not positive definite."""
        r, k = self.U.shape
        system = H.copy()
        damper = majoriser if majoriser.ndim == 2 else np.diag(majoriser)
        for a in range(k):
            system[a * r : (a + 1) * r, a * r : (a + 1) * r] += self.damping * damper
        try:
            factor = sl.cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            return None

        def solve(right: Floats) -> Floats:
            return np.asarray(
                sl.cho_solve(factor, right.T.ravel(), check_finite=False).reshape(k, r).T
            )

        step = -solve(gradient)
        image = (H @ step.T.ravel()).reshape(k, r).T
        return step, -float(np.sum(gradient * step)) - 0.5 * float(np.sum(step * image)), solve

    def _conjugate_step(
        self, bend: SecondDerivatives, gradient: Floats, majoriser: Floats
    ) -> LowRankStep | None:
        """Return the truncated conjugate gradient step, preconditioned by the diagonal."""
        apply, damping = self._product(bend), self.damping
        diagonal = (np.diag(majoriser) if majoriser.ndim == 2 else majoriser)[:, None]

        # Relative accuracy of conjugate gradients for the sensitivity to λ.
        def solve(right: Floats, accuracy: float = 1e-6) -> Floats | None:
            # Products in one Newton step by conjugate gradients.
            found = conjugate_gradients(
                lambda direction: apply(direction) + damping * diagonal * direction,
                right,
                lambda residual: residual / diagonal,
                accuracy=accuracy,
                limit=250,
            )
            return None if not found.definite and found.products == 1 else found.x

        size = math.sqrt(float(np.sum(gradient**2 / diagonal)))
        # Relative accuracy of conjugate gradients; it is higher if the gradient is small.
        step = solve(-gradient, min(1e-2, size))
        if step is None:
            return None
        predicted = -float(np.sum(gradient * step)) - 0.5 * float(np.sum(step * apply(step)))
        return step, predicted, solve

    def sensitivity(self, solve: Solve | None) -> tuple[Floats, float]:
        """Return the derivatives of U and Σ s z by log λ at a stationary point."""
        slope = self.derivatives()[1] - 2.0 * self.U
        change = None if solve is None else solve(-slope)
        if change is None:
            return np.zeros_like(slope), 0.0
        return change, float(np.sum(slope * change)) / self.lam

    def leading(self) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of Σ γ_i x_i x_i', ascending, and their vectors."""
        gamma, _ = self.multipliers()
        r = self.rank
        # Columns of V that are added at once.
        wanted = min(2, r)
        # Beyond, an iterative eigensolver is quicker.
        if r <= 300:
            return self._dense_leading(gamma, wanted)
        operator = LinearOperator(
            (r, r), matvec=lambda q: self.L.T @ (gamma * (self.L @ q.ravel())), dtype=np.float64
        )
        start = self.U[:, -1] if self.U[:, -1].any() else np.ones(r)
        try:
            values, vectors = eigsh(operator, k=wanted, which="LA", v0=start, tol=1e-10)
        except ArpackNoConvergence as found:
            values, vectors = found.eigenvalues, found.eigenvectors
        if values.size == 0:
            # Clustered eigenvalues: none was found.
            return self._dense_leading(gamma, wanted)
        order = np.argsort(values)
        return values[order], vectors[:, order]

    def _dense_leading(self, gamma: Floats, wanted: int) -> tuple[Floats, Floats]:
        r = self.rank
        M = weighted_gram(self.L, gamma)
        if not np.isfinite(M).all():
            return np.zeros(0), np.zeros((r, 0))
        values, vectors = sl.eigh(M, subset_by_index=[r - wanted, r - 1], check_finite=False)
        return values, vectors

    def grow(self, beyond: float) -> bool:
        """Add eigenvectors of eigenvalues above 1 + `beyond` to V; return whether any exist."""
        values, vectors = self.leading()
        grown = False
        for value, vector in zip(values[::-1], vectors.T[::-1], strict=True):
            length = self._length(vector) if value > 1.0 + beyond else 0.0
            if length > 0:
                self.U = np.column_stack([self.U, math.sqrt(length) * vector])
                grown = True
        return grown

    def _length(self, q: Floats) -> float:
        """Minimise the convex F over τ ≥ 0 for VV' + τqq', by monotone Newton iterates."""
        u, v = self.margins()
        square, a, tau = np.maximum(1.0 - u, 0.0) ** 2, np.asarray(self.L @ q) ** 2, 0.0
        inside = square > 0
        v, square, a = v[inside], square[inside], a[inside]
        height = self.lam * self.weight[inside] * square * a
        for _ in range(30):
            # Minus the derivative of the losses by τ, and half of the second one.
            bound = v + square + tau * a
            terms = height / bound**2
            pull, bend = float(np.sum(terms)) - float(q @ q), float(np.sum(terms * a / bound))
            # The length of a new column need not be exact.
            if tau > 0 and not pull > 1e-3:
                break
            tau += max(pull, 0.0) / (2.0 * bend + TINY)
        return tau if math.isfinite(tau) else 0.0

    def trim(self) -> None:
        """Replace V by its leading singular vectors, without those negligible beside the ridge."""
        V = self.U[:, 1:]
        if V.shape[1] == 0:
            return
        basis, sizes, _ = sl.svd(V, full_matrices=False, check_finite=False)
        # Columns of V whose squared norm is below this share of the ridge are dropped.
        significant = sizes**2 > 1e-2 * self.ridge
        if not significant.all():
            self.U = np.column_stack([self.U[:, 0], basis[:, significant] * sizes[significant]])


# With more regularisation a step is short wherever the minimum is, and its prediction is no bound.
DAMPED = 1e-3
# Margins within NEAR of 1 have their multipliers recomputed, if there are at most MOST_NEAR for
# each column and at most REFINED columns.
NEAR, MOST_NEAR, REFINED = 1e-4, 4, 1000
# Margins between NEARLY_ONE and 1 are raised to 1 + LIFT in a tight relaxation; rounds that
# complete the set of such rows.
NEARLY_ONE, LIFT = 0.99, 1e-13
# Share of the goal of a stage that its ridge may cost, and factor of the goal from stage to stage.
RIDGE_SHARE, GOAL_FALL = 0.4, 0.01
# Relative goal with which a warm start begins and a sample of the observations ends.
WARM_GOAL = 1e-3


def is_hard_margin(statement: ConicLoss) -> bool:
    """Whether the cardinality row forces a hard margin: κ = 0, or rows of zeros use it up."""
    lost = float(statement.weight[statement.squared_row_norms == 0].sum())
    return bool(lost >= statement.allowance * (1.0 - estimated_rounding(statement.weight.size)))


class MinimumAtLam(NamedTuple):
    U: Floats
    indicator_sum: float


class Continuation:
    """Stages of descent, each followed by bounds; none where a hard margin's dual is known."""

    def __init__(
        self, statement: ConicLoss, problem: LowRankRelaxation, monitor: Monitor, dual: Dual | None
    ) -> None:
        self.statement, self.problem, self.monitor = statement, problem, monitor
        self.allowance = statement.allowance
        self.fixed_lam = statement.kappa is None
        self.hard_margin = dual is not None
        self.best_dual = {} if dual is None else statement.repair(dual)
        self.best_point: tuple[Floats, float] | None = None
        self.ends: list[Floats] = []

    def size(self) -> float:
        """The objective at the present point, 1 if it is 0; relative goals are multiples of it."""
        problem = self.problem
        spread = float(np.vdot(problem.U, problem.U))
        return (spread + problem.lam * problem.indicator_sum() if self.fixed_lam else spread) or 1.0

    def first_goal(self) -> float:
        """Gap of the first stage: the ridge adds 1 to the mean squared slack; .3 where λ varies."""
        problem = self.problem
        mean = float(np.mean(problem.squared_norms)) or 1.0
        goal = (1.0 if self.fixed_lam else 0.3) * problem.rank / (mean * RIDGE_SHARE)
        return min(goal, problem.lam * float(problem.weight.sum())) if self.fixed_lam else goal

    def run(self, goal: float) -> Status:
        """Run stages until the certified gap meets the tolerance, a limit, or the lowest goal."""
        while True:
            self.stage(goal)
            last = self.monitor.tol * self.size()
            # Stages whose goal is within this factor of the last goal compute a lower bound.
            early = goal > 30.0 * last and not self.monitor.out_of_time()
            lower, upper = self.bounds(early=early)
            status = self.monitor.report(self.problem.steps, lower, upper)
            if status is not None:
                return status
            goal = max(GOAL_FALL * goal, last) if goal > last else GOAL_FALL * goal
            # Relative goal at which the stages end if the tolerance has not been reached.
            if not goal > 1e-13 * self.size():
                return Status.INACCURATE

    def prepare(self, goal: float, share: float = WARM_GOAL) -> None:
        """Run stages without bounds to a share of the objective, by default of a warm start's."""
        while not self._stopped():
            self.stage(goal)
            end = share * self.size()
            if goal <= end:
                return
            goal = max(GOAL_FALL * goal, end)

    def _stopped(self) -> bool:
        return self.monitor.out_of_time() or self.problem.steps >= self.monitor.max_iter

    def stage(self, goal: float) -> Solve | None:
        """Solve with the ridge of an absolute gap `goal`; return the last solver, if λ is given."""
        problem, self.ends = self.problem, []
        problem.ridge = RIDGE_SHARE * goal / problem.rank
        low, high = 0.0, math.inf
        sides: dict[bool, MinimumAtLam] = {}
        error = math.inf
        # Rounds of descent, new columns and new λ in one stage.
        for _ in range(300):
            problem.trim()
            solve = problem.descend(1e-3 * goal, self.monitor.max_iter, self.monitor.out_of_time)
            if self._stopped():
                return None
            # A tenth of the goal for eigenvalues above 1, and a twentieth for the cardinality row.
            total = float(problem.multipliers()[1].sum())
            beyond, room = 0.1 * goal / max(self.size(), 0.5 * total), 0.05 * goal
            if problem.grow(beyond):
                continue
            if self.fixed_lam:
                return solve
            here = MinimumAtLam(problem.U, problem.indicator_sum())
            if problem.lam * abs(here.indicator_sum - self.allowance) <= room:
                return None
            over = here.indicator_sum > self.allowance
            rival = sides.pop(not over, None)
            behind = math.inf if rival is None else problem.value(rival.U) - problem.value(here.U)
            if rival is not None and behind < -room:
                # Descent has not reached the minimum for this λ; the other end may be wrong too.
                problem.U = rival.U
                low, high = (low, math.inf) if not over else (0.0, high)
                continue
            sides |= {over: here} if rival is None else {over: here, not over: rival}
            low, high = (problem.lam, high) if over else (low, problem.lam)
            if rival is not None:
                share = (self.allowance - here.indicator_sum) / (
                    rival.indicator_sum - here.indicator_sum
                )
                # Relative width of a closed bracket of λ: Σ s z is discontinuous there.
                if share * behind <= room or high <= low * (1.0 + 1e-10):
                    # Both are minima for this λ, at which Σ s z is discontinuous.
                    self.ends = [here.U, rival.U]
                    problem.U = _between(here.U, rival.U, share)
                    return None
            previous, error = error, abs(here.indicator_sum / self.allowance - 1.0)
            # Newton's method for λ ends if the row's error exceeds this share of the last one.
            self._change_lam(here, rival if error > 0.5 * previous else None, low, high, solve)
        return None

    def _change_lam(
        self,
        here: MinimumAtLam,
        rival: MinimumAtLam | None,
        low: float,
        high: float,
        solve: Solve | None,
    ) -> None:
        """Move λ towards Σ s z = allowance, by Newton's method in logarithms in the bracket."""
        problem, missed = self.problem, here.indicator_sum
        over = missed > self.allowance
        change, rate = problem.sensitivity(solve)
        wanted = math.log(self.allowance / missed) if missed > 0 else -math.inf
        step = wanted * missed / rate if rate < 0 and missed > 0 else math.inf
        limit = 2.0 if over else -2.0
        step = limit if not 0 < step / limit < 1 else step
        new = problem.lam * math.exp(step)
        if rival is not None:
            new = (problem.penalty(rival.U) - problem.penalty(here.U)) / (
                missed - rival.indicator_sum
            )
        if not low < new < high:
            closed = low > 0 and high < math.inf
            new = math.sqrt(low) * math.sqrt(high) if closed else problem.lam * math.exp(limit)
        self._move_lam(new, change)

    def follow(self, lam: float, solve: Solve | None) -> None:
        """Move to another λ, with a prediction of the point by the last Newton system."""
        self._move_lam(lam, self.problem.sensitivity(solve)[0])

    def _move_lam(self, new: float, change: Floats) -> None:
        """Set λ, and move along the derivative by log λ where that is better than to stay."""
        problem = self.problem
        if not 0.0 < new < math.inf:
            return
        step, problem.lam = math.log(new) - math.log(problem.lam), new
        if abs(step) <= 0.3 and np.isfinite(change).all():
            predicted = problem.U + step * change
            if problem.value(predicted) < problem.value(problem.U):
                problem.U = predicted

    def move_to_best(self) -> None:
        """Move to the point of the lowest upper bound, and ensure a dual point."""
        self.best_dual = self.best_dual or self._dual_point(*self.problem.multipliers())
        if self.best_point is not None:
            self.problem.U, self.problem.ridge = self.best_point

    @contextmanager
    def _moved(self, U: Floats, ridge: float) -> Iterator[None]:
        problem = self.problem
        here = problem.U, problem.ridge
        problem.U, problem.ridge = U, ridge
        try:
            yield
        finally:
            problem.U, problem.ridge = here

    def _refined(self) -> tuple[Floats, Floats] | None:
        """Return γ and α; near margin 1 by non-negative least squares on stationarity."""
        problem = self.problem
        gamma, alpha = problem.multipliers()
        u, _ = problem.margins()
        near = np.flatnonzero(np.abs(u - 1.0) <= NEAR)
        if near.size == 0 or near.size > MOST_NEAR * problem.rank or problem.rank > REFINED:
            return None
        gamma[near] = alpha[near] = 0.0
        target = 2.0 * problem.U[:, 0] - np.asarray(
            problem.L.T @ (problem.y * (alpha - 2.0 * gamma * (1.0 - u)))
        )
        if not np.isfinite(target).all():
            return None
        try:
            alpha[near], _ = nnls(self._signed(near).T, target)
        except RuntimeError:  # too many iterations
            return None
        gamma[near] = alpha[near] ** 2 / (4.0 * problem.lam * problem.weight[near])
        return gamma, alpha

    def _signed(self, rows: NDArray[np.intp]) -> Floats:
        """Return some rows of L times their labels, dense."""
        L = self.problem.L[rows]
        return np.asarray((L.toarray() if sp.issparse(L) else L) * self.problem.y[rows, None])

    def _tight(self) -> Floats | None:
        """Return the least-norm point with margins near 1 set to 1; None with a covariance."""
        problem = self.problem
        if not self.fixed_lam or problem.U.shape[1] > 1 or problem.rank > REFINED:
            return None
        u, _ = problem.margins()
        satisfied = u > NEARLY_ONE
        rows = np.flatnonzero(satisfied & (u < 2.0 - NEARLY_ONE))
        for _ in range(5):
            if rows.size > MOST_NEAR * REFINED:
                return None
            scale = math.sqrt(float(np.mean(problem.squared_norms[rows]))) if rows.size else 1.0
            found = least_norm(self._signed(rows) / scale, None)
            if found is None:
                return None
            w = found.w / scale
            u = problem.y * np.asarray(problem.L @ w)
            missing = np.setdiff1d(np.flatnonzero(satisfied & (u < 1.0 - NEAR)), rows)
            if missing.size == 0:
                return w[:, None] * ((1.0 + LIFT) / float(u[satisfied].min(initial=1.0)))
            rows = np.union1d(rows, missing)
        return None

    def _dual_point(self, gamma: Floats, alpha: Floats) -> Dual:
        point: dict[str, Floats] = {"gamma": gamma, "alpha": alpha}
        return point if self.fixed_lam else {**point, "lam": np.array(self.problem.lam)}

    def bounds(self, *, early: bool = False) -> tuple[float, float]:
        """Return (lower, upper) of the point; keep its dual and primal points if they are best."""
        dual: Dual = {}
        upper, lower = self._upper(), -math.inf
        point, tight = (self.problem.U, self.problem.ridge), self._tight()
        if tight is not None:
            with self._moved(tight, 0.0):
                attained = self._upper()
            if attained < upper:
                upper, point = attained, (tight, 0.0)
        sources: list[tuple[tuple[Floats, float], Callable[[], tuple[Floats, Floats] | None]]] = []
        # Columns up to which earlier ones do so too where the margins may already be those of the
        # optimum, or λ is not given.
        if not early or (self.problem.rank <= 100 and (tight is not None or not self.fixed_lam)):
            here, evaluated = (self.problem.U, self.problem.ridge), self.problem.multipliers
            sources = [(here, evaluated), (here, self._refined)]
            sources += [((U, self.problem.ridge), evaluated) for U in self.ends]
            sources += [] if tight is None else [((tight, 0.0), self._refined)]
        for place, multipliers in sources:
            with self._moved(*place):
                found = multipliers()
            if found is None:
                continue
            repaired = self.statement.repair(self._dual_point(*found))
            value = self.statement.evaluate_dual(repaired).lower_end
            if value > lower or not dual:
                dual, lower = repaired, value
            if relative_gap(lower, upper) <= self.monitor.tol:
                break
        if dual and (not self.best_dual or lower > self.monitor.lower):
            self.best_dual = dual
        if upper <= self.monitor.upper:
            self.best_point = point
        return lower, upper

    def _upper(self) -> float:
        """Return the objective with the ridge, enlarged until a cardinality row is satisfied."""
        problem = self.problem
        u, v = problem.margins()
        norm = float(np.sum(problem.U[:, 0] ** 2))
        spread = float(np.sum(problem.U[:, 1:] ** 2)) + problem.ridge * problem.rank
        if self.fixed_lam:
            return float(objective(norm, spread, u, v, lam=problem.lam, weight=problem.weight))

        def within_allowance(factor: float) -> bool:
            return float(problem.weight @ relaxed_indicator(u, factor * v)) <= self.allowance

        low, high = 1.0, 1.0
        while not within_allowance(high):
            low, high = high, 4.0 * high * high
            # Bisection steps until a point satisfies the cardinality row, and its largest factor.
            if high > 1e200:
                return math.inf
        for _ in range(60 if high > 1.0 else 0):
            middle = math.sqrt(low * high)
            low, high = (low, middle) if within_allowance(middle) else (middle, high)
        return norm + high * spread


def _between(one: Floats, other: Floats, share: float) -> Floats:
    """Return the convex combination, in (w, W), of two points; `share` is the second one's."""
    share = min(max(share, 0.0), 1.0)
    return np.column_stack(
        [
            (1.0 - share) * one[:, 0] + share * other[:, 0],
            math.sqrt(1.0 - share) * one[:, 1:],
            math.sqrt(share) * other[:, 1:],
            math.sqrt(share * (1.0 - share)) * (one[:, 0] - other[:, 0]),
        ]
    )


def leading_directions(V: Floats) -> Floats:
    """Return the leading directions of a covariance factor, without those that a ridge added."""
    if V.shape[1] == 0:
        return V
    basis, sizes, _ = np.linalg.svd(V, full_matrices=False)
    # Most directions of a warm start's covariance, and their least share of the eigenvalues.
    leading = np.flatnonzero(sizes[:8] ** 2 > 1e-3 * sizes[0] ** 2)
    return np.asarray(basis[:, leading] * sizes[leading])
