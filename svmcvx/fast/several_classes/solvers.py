r"""Specialised solvers of M3SVM and of the classical multi-class machines.

**Coordinate ascent** on the dual for summed hinges and the largest one, on sparse rows and wherever
it promises less work than the rest (:mod:`svmcvx.fast.several_classes.ascent`).

**Interior-point steps** for hinges, where the Newton matrix is small: all multipliers change
together in about 10 to 20 steps, which are compiled
(:mod:`svmcvx.fast.several_classes.interior_passes`): on few observations the steps of Newton's
method take longer to be called than to be computed.

**Hinges**, smoothed or not: the augmented Lagrangian method for the dual problem [LiSunToh]. The
envelope of the loss around multipliers is minimised, with the penalty, in (W, b) by a semismooth
Newton method until the part of the gap from the gradient is a small share of the other part; then
its multipliers become the centre, and σ grows. At the multipliers α of a point, with
:math:`\Omega(W) = \tfrac\rho2\|W\|^2`,

.. math::
    P(W, b) - D(\alpha) = \sum_i\Big(s_i\ell(f_i) - s_i g(\alpha_i/s_i)
    + \sum_k\alpha_{ik}f_{ik}\Big) + \frac{\|\rho W - G\|^2}{2\rho} - g_b'b.

**Logistic losses** are smooth: Newton's method itself, whose steps are found by conjugate gradients
where factors would cost more. **Norms** that are not smooth are smoothed, ever less
(:mod:`svmcvx.fast.several_classes.systems`).

Source: [Keerthi]; [Mehrotra]; [ChanGolubMulet]; [LiSunToh] = Li, Sun and Toh 2018, A highly
efficient semismooth Newton augmented Lagrangian method for solving lasso problems.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.catalogue import TOL
from svmcvx.certificate import Dual, relative_gap
from svmcvx.certificate.bounded import TINY, quietly
from svmcvx.data import check_choice, merged
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import Callback, Found, Monitor, earlier_solution, limited, solve
from svmcvx.fast.linear.ascent import NEAR
from svmcvx.fast.several_classes import projection_passes as passes
from svmcvx.fast.several_classes.ascent import (
    INTERIOR_WORK,
    Point,
    applies,
    ascend,
    interior_work,
    other_work,
)
from svmcvx.fast.several_classes.interior_passes import interior_step
from svmcvx.fast.several_classes.systems import (
    AbsolutePenalty,
    Curvature,
    FaceCurvature,
    PairPenalty,
    ScoreSystem,
    SeparateCurvature,
    SoftmaxCurvature,
    centred,
)
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.multiclass.losses import (
    HingeSum,
    ScoreLoss,
    SmoothedHingeSum,
    Softmax,
    TopHinge,
)
from svmcvx.formulations.multiclass.machines import (
    M3SVM,
    ClassicalStatement,
    bound_classical,
    bound_m3svm,
)
from svmcvx.formulations.multiclass.statement import MulticlassStatement, ScoreSpace
from svmcvx.model import MulticlassModel
from svmcvx.numerical import NewtonStep, newton
from svmcvx.solution import Solution, Status

# First penalty σ of the hinges, in units in which a step moves scores by about 1, without and with
# multipliers to start from.
FIRST_STIFFNESS, WARM_STIFFNESS = 10.0, 1e3
# Steps that promise less than rounding and do not reduce the gap, or dual points that hardly do,
# after which the method ends.
PATIENCE = 25
# Rows of a system above which conjugate gradients are used, and multiplications of a factorisation
# above which they are, for hinges and for smooth losses, whose preconditioner is better.
LARGEST_DIRECT, DIRECT_WORK, SMOOTH_DIRECT_WORK = 6000, 3e10, 5e6


@limited
def multiclass(
    X: Any,
    y: Any,
    *,
    lam: float = 1.0,
    loss: str = "weston_watkins",
    k: int = 2,
    intercept: bool | str = True,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
    max_iter: int = 1000,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "auto",
) -> Solution:
    r"""Solve one of the classical multi-class machines to a certified relative gap.

    .. math:: \min\; \sum_i s_i\,\ell(f_i) + \lambda\,\Omega(W)

    Source: [NieHaoWang], related work; see :mod:`svmcvx.formulations.multiclass.machines`.
    Methods: [Keerthi], [Mehrotra] and [LiSunToh]; see
    :mod:`svmcvx.fast.several_classes.solvers`. A warm start is not for interior-point steps.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Sparse data stay sparse unless a third of their entries is not zero.
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam, loss, k, intercept
        As for :func:`svmcvx.multiclass`.
    max_iter : int
        Steps, 1000 by default; of coordinate ascent, rounds of up to 20 epochs.
    method : str
        ``"auto"``, ``"interior"``, ``"newton"``, and for hinges that are summed and the largest one
        ``"dcd"``, coordinate ascent on the dual. ``"auto"`` takes this as long as the rate at which
        its gap falls promises less work than the others, then the others: interior-point steps on
        few observations of few columns, and Newton's method, which goes on where they gain nothing.
    warm_start : Solution, optional
        An earlier solution of the same data with multipliers ``alpha``, for any hyper-parameters
        and loss.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> sx.fast.multiclass(X, y, lam=0.1, loss="crammer_singer").certificate.is_certified(1e-6)
    True
    """
    statement = bound_classical(
        X, y, lam=lam, loss=loss, k=k, intercept=intercept, sample_weight=sample_weight
    )
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    return _solved("multiclass", statement, warm_start, method, limits)


@limited
def m3svm(
    X: Any,
    y: Any,
    *,
    lam: float = 0.001,
    p: float = 4.0,
    eps: float = 1e-6,
    loss: str = "hinge",
    delta: float = 1e-2,
    sample_weight: Any = None,
    tol: float = TOL,
    time_limit: float | None = None,
    max_iter: int = 500,
    verbose: bool = False,
    callback: Callback | None = None,
    warm_start: Solution | None = None,
    method: str = "auto",
) -> Solution:
    r"""Solve M3SVM to a certified relative gap.

    .. math::
        \min\; \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p
        + \varepsilon(\|W\|_F^2 + \|b\|^2)

    Norms are Euclidean; for sums of absolute values (``norm=1``) pass :func:`svmcvx.m3svm` to
    :func:`svmcvx.solve`.

    Source: [NieHaoWang], problem (14). Methods: as for :func:`multiclass`, with smoothed norms for
    p < 2 [ChanGolubMulet], [AndersenChristiansenConnOverton].

    Parameters
    ----------
    X, y, warm_start
        As for :func:`multiclass`, features standardised.
    lam, p, eps, loss, delta
        As for :func:`svmcvx.m3svm`.
    max_iter : int
        Steps, 500 by default.
    method : str
        ``"auto"``, ``"interior"`` or ``"newton"``.

    Examples
    --------
    >>> import svmcvx as sx
    >>> data = sx.datasets.load("iris")
    >>> X, y = data.X[::5], data.y[::5]
    >>> sx.fast.m3svm(X, y, lam=0.1, p=4.0).certificate.is_certified(1e-6)
    True
    """
    statement = bound_m3svm(
        X, y, lam=lam, p=p, eps=eps, loss=loss, norm=2, delta=delta, sample_weight=sample_weight
    )
    limits = {"tol": tol, "max_iter": max_iter, "verbose": verbose, "callback": callback}
    return _solved("m3svm", statement, warm_start, method, limits)


def _solved(
    name: str,
    statement: MulticlassStatement,
    warm_start: Solution | None,
    method: str,
    limits: dict[str, Any],
) -> Solution:
    """Solve by coordinate ascent and interior-point steps where they are little work, and by
    Newton's method where they are not, or fail.
    """
    choices = ("auto", *(["dcd"] if applies(statement) else []), "interior", "newton")
    check_choice(method, "method", choices)

    def run(monitor: Monitor, warm: Solution | None) -> Found:
        if warm is None and (distinct := merged(statement.scores.data)) is not None:
            some, place, share = distinct
            part = replace(statement, scores=replace(statement.scores, data=some))
            points, status, options = by_steps(part, monitor, None)
            lifted = (
                {**dual, "alpha": dual["alpha"][place] * share[:, None]} for dual in points.duals
            )
            return RecoveredPoints(points.models, [*lifted]), status, options
        return by_steps(statement, monitor, start_from(statement, warm))

    def by_steps(statement: MulticlassStatement, monitor: Monitor, start: Point | None) -> Found:
        points, methods, steps, status = RecoveredPoints([], []), [], 0, Status.INACCURATE
        options: dict[str, Any] = {}
        most = math.inf if method == "dcd" else 0.0
        if method == "auto" and applies(statement):
            most = other_work(statement)
        if most and isinstance(statement, ClassicalStatement):
            methods.append("dcd")
            found, points, status, steps = ascend(statement, monitor, start, most)
            start = found if monitor.gap <= NEAR else start
        if status is Status.INACCURATE and method != "dcd":
            system = ScoreSystem(statement.scores)
            bounds, penalty = ScoreBounds(system, statement), penalty_of(statement, system)
            U, alpha = np.zeros(system.shape), None
            if start is not None:
                U, alpha = system.point(start[0], start[1]), start[2]
                U = centred(U) if penalty.at(U).shift_invariant else U
            elif method != "newton":
                tried = interior_steps(system, penalty, bounds, monitor)
                if tried is not None:
                    methods.append("interior")
                    (status, some, alpha), U = tried, bounds.U
                    steps += some
            if status is Status.INACCURATE:
                methods.append("newton")
                descent = AugmentedNewton(system, penalty, bounds, monitor, U, alpha)
                status = newton(descent) or Status.INACCURATE
                steps += descent.steps
                options["linear_systems"] = ", ".join(sorted(descent.kinds)) or "none"
            points.models.extend(statement.models(*system.weights(bounds.U), bounds.dual))
            points.duals.append(bounds.dual)
        options |= {"method": "+".join(methods), "iterations": steps}
        return points, status, options

    return solve(statement, run, warm_start, limits, name=f"fast.{name}/{{method}}")


def interior_steps(
    system: ScoreSystem, penalty: PairPenalty, bounds: ScoreBounds, monitor: Monitor
) -> tuple[Status, int, Floats] | None:
    """Step inside the bounds; return status, steps and multipliers, None if not applicable."""
    domain, (r, c) = bounds.statement.loss.linear_pieces, system.shape
    own = interior_work(system.scores.data.n, r, c)
    if domain is None or system.sparse or own > INTERIOR_WORK or penalty.p < 2:
        return None
    data = system.scores.data
    # Where one multiplier alone reaches the bound of the sum, it needs no other bound.
    largest = domain.largest if domain.largest < domain.total else math.inf
    weight = data.weight[:, None]
    # All multipliers start at this share of the largest that all can have.
    first = 2.0 / 3.0 * min(largest, domain.total / (c - 1)) * weight
    slack = [np.repeat(first, c - 1, axis=1)]
    if largest < math.inf:
        slack.append(largest * weight - slack[0])
    if domain.total < math.inf:
        slack.append(domain.total * weight - (c - 1) * first)
    U, slacks = np.zeros(system.shape), np.hstack(slack)
    # γ = 1 at the start: the multipliers of the lower bounds are 1, those of the others 2 together.
    z = np.ones(slacks.shape)
    if len(slack) == 2:
        z[:, c - 1 :] = 2.0
    Z = np.ascontiguousarray(system.Z)
    powers = penalty.lam, penalty.p, penalty.eps
    # Share of the tolerance at which a dual point is computed; a hundredth after a failure.
    target, smallest, idle, steps = 0.1 * monitor.tol, math.inf, 0, 0
    while True:
        before = U.copy()
        value, gap, moved = interior_step(
            Z, system.columns, system.q, data.codes, data.weight, largest, domain.total, *powers,
            U, slacks, z, target,
        )  # fmt: skip
        bounds.offer_model(before, value)
        idle = 0 if gap < 0.5 * smallest else idle + 1
        smallest = min(smallest, gap)
        alpha = np.ascontiguousarray(slacks[:, : c - 1])
        if not moved:
            bounds.offer_multipliers(before, alpha)
        status = bounds.report(monitor, steps)
        close = gap <= target * value
        # Steps without half of the smallest gap after which another method goes on.
        if status is None and (idle > 25 or not (moved or close)):
            status = Status.INACCURATE
        if status is not None:
            if status is not Status.OPTIMAL:
                bounds.offer_multipliers(U, shortened(alpha, penalty, system.scores))
            return status, steps, alpha
        if close:
            target *= 0.01
        else:
            steps += 1


def penalty_of(statement: MulticlassStatement, system: ScoreSystem) -> PairPenalty:
    c, d, q = system.scores.data.c, system.columns, system.q
    if isinstance(statement, M3SVM):
        return PairPenalty(c, d, q, lam=statement.lam, p=statement.p, eps=statement.eps)
    classical: Any = statement
    kappa = classical.regulariser.curvature(c)
    if kappa is None:
        return AbsolutePenalty(c, d, q, lam=classical.lam, p=1.0, eps=0.0)
    return PairPenalty(c, d, q, lam=classical.lam * kappa / c, p=2.0, eps=0.0)


class ScoreBounds:
    def __init__(self, system: ScoreSystem, statement: MulticlassStatement) -> None:
        self.system, self.statement = system, statement
        # The multipliers 0, whose bound is 0: all losses and penalties are at least 0.
        self.dual: Dual = statement.zero_dual()
        self.lower = 0.0
        self.U = np.zeros(system.shape)
        self.upper = math.inf

    def offer_model(self, U: Floats, value: float) -> None:
        if value < self.upper:
            self.U, self.upper = U, value

    def offer_multipliers(self, U: Floats, alpha: Floats, flow: Floats | None = None) -> bool:
        """Keep the best repaired dual point; return whether it closed a tenth of the gap."""
        before, scores = self.lower, self.system.scores
        if flow is not None and not self.system.sparse:
            flow = scores.unreduced(flow)
        for point in self.statement.dual_points(*self.system.weights(U), alpha, flow):
            repaired = self.statement.repair(point)
            value = self.statement.evaluate_dual(repaired).lower_end
            if value > self.lower:
                self.dual, self.lower = repaired, value
        return self.lower - before > 0.1 * (self.upper - before)

    @property
    def size(self) -> float:
        return max(abs(self.upper), abs(self.lower))

    def report(self, monitor: Monitor, steps: int) -> Status | None:
        """Report the bounds; the upper one is proved before it ends the method."""
        upper = self.upper
        if relative_gap(self.lower, upper) <= monitor.tol:
            model = self.statement.model(*self.system.weights(self.U))
            upper = self.statement.evaluate(model).upper_end
        status = monitor.report(steps, self.lower, upper)
        if status is Status.OPTIMAL and relative_gap(self.lower, upper) > monitor.tol:
            return Status.INACCURATE
        return status


def start_from(statement: MulticlassStatement, warm: Any) -> Point | None:
    """Return the starting point from an earlier solution, or None; raise DataError on a misfit."""
    warm = earlier_solution(warm, statement)
    if warm is None:
        return None
    scores, model = statement.scores, warm.model
    data = scores.data
    refused = "warm_start must be a Solution of the same data, got "
    if not isinstance(model, MulticlassModel) or not np.array_equal(model.classes, data.classes):
        raise DataError(f"{refused}one of other classes")
    fits = model.coef.shape == (data.X.shape[1], data.c)
    if not (fits and usable(model.coef) and usable(model.intercept)):
        raise DataError(
            f"{refused}weights of shape {model.coef.shape} for {data.X.shape[1]} features and"
            f" {data.c} classes"
        )
    if "alpha" not in warm.dual:
        raise DataError(
            "warm_start must have multipliers alpha, as solutions of multi-class formulations have;"
            " got one without"
        )
    # A model's biases belong to the data as passed, others to the data of the scores.
    intercept = model.intercept + scores.centre @ model.coef
    return model.coef, intercept, statement.projected(statement.multipliers(warm.dual))


class Projection(NamedTuple):
    """Multipliers of differences, with their faces or a smoothed hinge's second derivatives."""

    full: Floats
    state: NDArray[np.int8]
    mode: NDArray[np.int8]
    bend: Floats | None = None


class Envelope:
    def __init__(self, scores: ScoreSpace, loss: ScoreLoss) -> None:
        self.scores, self.loss, self.weight = scores, loss, scores.data.weight
        self.boxed = isinstance(loss, (HingeSum, SmoothedHingeSum))
        self.k = loss.k if isinstance(loss, TopHinge) else 1
        n, c = scores.data.n, scores.data.c
        self.shape = n, c - 1 if self.boxed else c
        self.centre = np.zeros(self.shape)
        self.sigma = 1.0

    def start(self, alpha: Floats) -> None:
        """Centre the envelope at multipliers of shape (n, c − 1) inside their domain."""
        self.centre[:, : alpha.shape[1]] = alpha
        if not self.boxed:
            # The least sum for the largest multiplier, with the remainder for the own class.
            total = alpha.sum(axis=1)
            sums = np.maximum(total, self.k * alpha.max(axis=1))
            self.centre[:, -1] = np.maximum(sums - total, 0.0)

    def project(self, f: Floats) -> Projection:
        """Return the multipliers at differences f, projected onto their domain."""
        raw = self.centre.copy()
        raw[:, : f.shape[1]] += self.sigma * (1.0 - f)
        full, mode = np.empty(self.shape), np.zeros(self.shape[0], np.int8)
        state = np.empty(self.shape, np.int8)
        if isinstance(self.loss, SmoothedHingeSum):
            bend = np.empty(self.shape)
            passes.project_smoothed(raw, self.weight, self.sigma, self.loss.delta, full, bend)
            return Projection(full, state, mode, bend)
        if self.boxed:
            s = self.weight[:, None]
            state[:] = np.where(
                raw <= 0, passes.BOUND, np.where(raw < s, passes.FREE, passes.LARGEST)
            )
            return Projection(np.clip(raw, 0.0, s), state, mode)
        order = np.argsort(-raw, axis=1) if self.k > 1 else np.empty((len(raw), 0), dtype=np.intp)
        passes.project_top(raw, order, self.weight, self.k, full, state, mode)
        return Projection(full, state, mode)

    def multipliers(self, response: Projection) -> Floats:
        return np.ascontiguousarray(response.full[:, : self.scores.data.c - 1])

    def curvature(self, response: Projection) -> FaceCurvature | SeparateCurvature:
        """Return the second derivatives, by orthonormal vectors of the projections' faces."""
        if response.bend is not None:
            return SeparateCurvature(self.scores, response.bend)
        data = self.scores.data
        most = int((response.state == passes.FREE).sum()) + data.n
        owner, rows = np.empty(most, dtype=np.intp), np.empty((most, data.c))
        count = passes.face_rows(
            response.state, response.mode, data.codes, self.k, self.boxed, owner, rows
        )
        return FaceCurvature(data.n, self.sigma, owner[:count], rows[:count])


class AugmentedNewton:
    """Newton steps on the problem, or on its envelope if the loss is not smooth."""

    @quietly
    def __init__(
        self,
        system: ScoreSystem,
        penalty: PairPenalty,
        bounds: ScoreBounds,
        monitor: Monitor,
        U: Floats,
        alpha: Floats | None,
    ) -> None:
        self.system, self.bounds, self.monitor = system, bounds, monitor
        self.penalty = penalty
        self.loss = bounds.statement.loss
        self.U, self.S, self.alpha = U, np.asarray(system.Z @ U), alpha
        smooth = self.loss.smooth and not isinstance(self.loss, SmoothedHingeSum)
        self.envelope = None if smooth else Envelope(system.scores, self.loss)
        Z = system.Z[:, : system.columns]
        squares = max(float((Z.power(2) if system.sparse else Z**2).sum()) / Z.shape[0], TINY)
        if self.envelope is not None:
            weight = float(system.weight.mean())
            rho = 2.0 * penalty.lam * system.shape[1] if penalty.p == 2 else 0.1 * weight
            self.unit = min(rho / squares, weight)
            self.envelope.sigma = self.unit * (FIRST_STIFFNESS if alpha is None else WARM_STIFFNESS)
            if alpha is not None:
                self.envelope.start(alpha)
        # Multipliers that the last step predicts, for a sum of absolute values.
        self.predicted: Floats | None = None
        # Dual points in a row that did not close a tenth of what separates the bounds.
        self.fruitless = 0
        if alpha is not None:
            self._offer_dual(alpha)
        bounds.offer_model(U, self._losses(system.scores.differences(self.S)) + penalty.at(U).value)
        penalty.start_smoothing(bounds.upper - bounds.lower, squares**-0.5)
        self.error_at_duals = math.inf
        # Steps since the centre was moved.
        self.inner_steps = 0
        # How the linear systems were solved.
        self.kinds: set[str] = set()
        # Steps so far, those up to the smallest gap, and those that promised nothing since; what
        # the last one promised.
        self.steps, self.improved, self.idle, self.promised = 0, 0, 0, math.inf
        self.smallest = math.inf

    def examine(self, steps: int) -> Status | None:
        """Bound the optimum; move the centre, or reduce the smoothing."""
        self.steps = steps
        # Steps after which the scores are computed afresh.
        if steps and steps % 20 == 0:
            self.S = np.asarray(self.system.Z @ self.U)
        self._evaluate()
        status = self.bounds.report(self.monitor, steps)
        if self.monitor.gap < 0.99 * self.smallest:
            self.improved, self.idle = steps, 0
        # Predicted decreases below this share of the objective's terms are below rounding.
        elif self.promised <= 1e-15 * self.rounded:
            self.idle += 1
        self.smallest = min(self.smallest, self.monitor.gap)
        stuck = max(self.idle, self.fruitless) > PATIENCE
        # Steps of any kind without a smaller gap after which it ends.
        if status is None and (stuck or steps - self.improved > 300):
            status = Status.INACCURATE
        if status is not None and status is not Status.OPTIMAL:
            self._offer_last()
        self.inner_steps += 1
        return status

    def _multipliers(self, f: Floats) -> tuple[Floats, Projection | None]:
        if self.envelope is None:
            return self.system.weight * self.loss.multipliers(f), None
        response = self.envelope.project(f)
        return self.envelope.multipliers(response), response

    def _losses(self, f: Floats) -> float:
        return float(self.system.weight[:, 0] @ self.loss.value(f))

    # The line search detects and shortens steps that overflow.
    @quietly
    def _evaluate(self) -> None:
        """Evaluate the point; near its optimum, move the centre or reduce the smoothing."""
        system, envelope, penalty, tol = self.system, self.envelope, self.penalty, self.monitor.tol
        self.f, self.terms = system.scores.differences(self.S), penalty.at(self.U)
        losses = self._losses(self.f)
        self.bounds.offer_model(self.U, losses + self.terms.value)
        self.alpha, self.response = self._multipliers(self.f)
        self.gradient = system.gradient(self.alpha, self.terms.gradient)
        part, smoothing = self.terms.gap(self.gradient, losses)
        left, self.rounded = smoothing, losses + self.terms.value
        if envelope is not None:
            s = self.bounds.statement.weight
            conjugate = float(self.loss.conjugate(self.alpha, s).sum())
            left += max(losses - conjugate + float((self.alpha * self.f).sum()), 0.0)
            # Of the envelope, which is far below the loss while σ is small.
            self.rounded = float(self.alpha.sum()) + self.terms.value
        # A dual point is computed where the estimated gap is near the tolerance or fell much.
        size, estimate = self.bounds.size, part + left
        if estimate <= max(3.0 * tol * size, 1e-3 * min(self.error_at_duals, size)):
            self.error_at_duals = estimate
            self._offer_dual(self.alpha)
        if self.predicted is not None and self.promised + left <= 3.0 * tol * self.bounds.size:
            self._offer_dual(self.predicted)
        moved = False
        # Gap part of the gradient, relative to the other, at which the centre moves.
        if envelope is not None and self.response is not None and part <= 0.1 * left:
            envelope.centre = self.response.full
            # σ grows slowly, but for subproblems that took one step.
            growth = 2.0 if self.inner_steps > 1 else 10.0
            envelope.sigma = min(envelope.sigma * growth, 1e20 * self.unit)
            self.inner_steps, moved = 0, True
        least = part if envelope is not None else self.promised
        if penalty.nu and least <= left and smoothing > 0.1 * tol * self.bounds.size:
            penalty.nu *= 0.1 if least <= 0.1 * left else 0.2
            self.terms, moved = penalty.at(self.U), True
        if moved:
            self.alpha, self.response = self._multipliers(self.f)
            self.gradient = system.gradient(self.alpha, self.terms.gradient)

    def _offer_dual(self, alpha: Floats | None) -> None:
        if alpha is not None:
            gained = self.bounds.offer_multipliers(self.U, alpha, self.penalty.flow)
            self.fruitless = 0 if gained else self.fruitless + 1

    def _offer_last(self) -> None:
        self._offer_dual(self.alpha)
        if self.envelope is not None:
            alpha = self.envelope.centre[:, : self.system.shape[1] - 1]
            self._offer_dual(alpha)
            self._offer_dual(shortened(alpha, self.penalty, self.system.scores))

    @quietly
    def direction(self) -> NewtonStep:
        """Return Newton's step; a step of length 0 if no decrease is predicted."""
        system, f = self.system, self.f
        D = self._direction()
        predicted = -float((self.gradient * D).sum())
        if not 0 < predicted < math.inf:
            self.promised = 0.0
            return NewtonStep(0.0, lambda t: 0.0, lambda t: None)
        dS = np.asarray(system.Z @ D)
        df = system.scores.differences(dS)

        @quietly
        def derivative(t: float) -> float:
            own = float((self.penalty.at(self.U + t * D).gradient * D).sum())
            return own - float((self._multipliers(f + t * df)[0] * df).sum())

        @quietly
        def take(t: float) -> None:
            self.penalty.move(self.U, D, t)
            self.U = self.U + t * D
            self.S = self.S + t * dS
            self.promised = t * predicted

        return NewtonStep(predicted, derivative, take)

    def _curvature(self) -> Curvature:
        scores, loss = self.system.scores, self.loss
        if self.envelope is not None and self.response is not None:
            return self.envelope.curvature(self.response)
        a = loss.multipliers(self.f)
        if isinstance(loss, Softmax):
            return SoftmaxCurvature(scores, a)
        return SeparateCurvature(scores, self.system.weight * a * (1.0 - a))

    def _direction(self) -> Floats:
        """Return the Newton step, by the system that costs least."""
        system, terms = self.system, self.terms
        curvature, gradient = self._curvature(), self.gradient
        (r, c), n = system.shape, system.scores.data.n
        terms.damp(gradient)
        rows = system.unknowns if terms.shift_invariant else r * c
        faces = curvature.owner.size if isinstance(curvature, FaceCurvature) else n * c**2 / 2
        work = rows**3 / 3.0 + faces * r**2
        limit = SMOOTH_DIRECT_WORK if self.envelope is None else DIRECT_WORK
        if isinstance(curvature, FaceCurvature):
            m = curvature.owner.size
            own = m**3 / 3.0 + 4.0 * m**2 + min(n, m) ** 2 * r
            inverse = terms.inverse()
            if inverse is not None and m <= LARGEST_DIRECT and own <= min(work, limit):
                step = system.observation_step(gradient, curvature, inverse, terms.damping)
                if step is not None:
                    self.kinds.add("by observations")
                    return step
        if rows <= LARGEST_DIRECT and work <= limit:
            self.kinds.add("by classes")
            step = system.direct_step(gradient, curvature, terms)
            if not terms.shift_invariant:
                # The linearised equations lose less to rounding than the next point's multipliers.
                change = curvature.product(np.asarray(system.Z @ step))
                self.predicted = np.asarray(self.alpha) + np.take_along_axis(
                    change, system.scores.others, 1
                )
            return step
        self.kinds.add("conjugate gradients")
        return system.iterative_step(gradient, curvature, terms, stop=self.monitor.out_of_time)


@quietly
def shortened(alpha: Floats, penalty: PairPenalty, scores: ScoreSpace) -> Floats:
    """Return a hinge's multipliers times their best share, for squares; others unchanged."""
    if penalty.p != 2 or penalty.eps:
        return alpha
    squares = float((scores.gradient(alpha).W.value ** 2).sum())
    curvature = 2.0 * penalty.lam * scores.data.c
    return alpha * min(1.0, curvature * float(alpha.sum()) / max(squares, TINY))
