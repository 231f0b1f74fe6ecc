r"""Newton's methods for machines of several classes.

**Hinges** (Weston-Watkins, Crammer-Singer, M-SVM, top-k): the augmented Lagrangian method for the
dual problem [LiSunToh]. The envelope of the loss around multipliers is minimised, with the penalty,
in (W, b) by a semismooth Newton method until the part of the gap from the gradient is a small share
of the other part; then its multipliers become the centre, and σ grows. At the multipliers α of a
point, with :math:`\Omega(W) = \tfrac\rho2\|W\|^2`,

.. math:: P(W, b) - D(\alpha) = \sum_i\Big(s_i\ell(f_i) - \sum_k\alpha_{ik}(1 - f_{ik})\Big) + \frac{\|\rho W - G\|^2}{2\rho} - g_b'b.

**Softmax** is smooth: Newton's method itself, whose steps are found by conjugate gradients where
factors would cost more. A sum of absolute values is smoothed, ever less: ν is reduced when the
decrease that a step predicts has become smaller than the error due to smoothing.

Source: [ChanGolubMulet]; [LiSunToh] = Li, Sun and Toh 2018, A highly efficient semismooth Newton
augmented Lagrangian method for solving lasso problems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import Dual, relative_gap
from svmcvx.certificate.bounded import quietly
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import Monitor, earlier_solution
from svmcvx.fast.several_classes import projection_passes as passes
from svmcvx.fast.several_classes.penalties import (
    AbsoluteWeights,
    EntrySquares,
    M3SVMSystem,
    PairNorms,
    PenaltyInverse,
    SmoothPenalty,
    Squares,
    WeightPenalty,
)
from svmcvx.fast.several_classes.systems import (
    TINY,
    Curvature,
    JointCurvature,
    Preconditioner,
    ScoreSystem,
    SeparateCurvature,
    centred,
)
from svmcvx.formulations.base import usable
from svmcvx.formulations.multiclass.losses import (
    HingeSum,
    LogisticSum,
    ScoreLoss,
    SmoothedHingeSum,
    TopHinge,
)
from svmcvx.formulations.multiclass.machines import M3SVM
from svmcvx.formulations.multiclass.statement import MulticlassStatement, ScoreSpace
from svmcvx.losses import hinge_power_conjugate
from svmcvx.model import MulticlassModel
from svmcvx.numerical import NewtonStep, newton
from svmcvx.solution import Status

Floats: TypeAlias = NDArray[np.float64]


class ScoreBounds:
    """The best model and the best dual point so far."""

    def __init__(self, system: ScoreSystem, statement: MulticlassStatement) -> None:
        self.system, self.statement = system, statement
        # The multipliers 0, whose bound is 0: all losses and penalties are at least 0.
        self.dual: Dual = statement.zero_dual()
        self.lower = 0.0
        self.U = np.zeros(system.shape)
        self.upper = math.inf

    def update_model(self, U: Floats, value: float) -> None:
        """Keep U if its objective is lower."""
        if value < self.upper:
            self.U, self.upper = U, value

    def update_dual_point(self, point: Dual) -> None:
        """Keep a dual point, repaired, if its value is higher."""
        point = self.statement.repair(point)
        value = self.statement.evaluate_dual(point).lower_end
        if value > self.lower:
            self.dual, self.lower = point, value

    def offer_multipliers(self, U: Floats, alpha: Floats) -> None:
        """Keep the dual point of multipliers at U if its value is higher."""
        self.update_dual_point({"alpha": self.system.scores.expand(alpha)})

    @property
    def proved_upper(self) -> float:
        """Upper bound of the objective at the best model, with the rounding of its evaluation."""
        return self.statement.evaluate(self.statement.model(*self.system.weights(self.U))).upper_end

    def report(self, monitor: Monitor, steps: int) -> Status | None:
        """Report the bounds; the upper bound is proved before it ends the method."""
        near = relative_gap(self.lower, self.upper) <= monitor.tol
        upper = self.proved_upper if near else self.upper
        status = monitor.report(steps, self.lower, upper)
        if status is Status.OPTIMAL and relative_gap(self.lower, upper) > monitor.tol:
            return Status.INACCURATE
        return status


class Start(NamedTuple):
    """A point U and multipliers inside their domain, both of an earlier solution."""

    U: Floats
    alpha: Floats


def start_from(system: ScoreSystem, statement: MulticlassStatement, warm: Any) -> Start | None:
    """Return the starting point from an earlier solution, None without one; raise a DataError if it
    does not fit the data.
    """
    warm = earlier_solution(warm, statement)
    if warm is None:
        return None
    data, model = system.scores.data, warm.model
    if not isinstance(model, MulticlassModel) or not np.array_equal(model.classes, data.classes):
        raise DataError("warm_start must be a Solution of the same data, got one of other classes")
    if model.coef.shape != (data.X.shape[1], data.c) or not (
        usable(model.coef) and usable(model.intercept)
    ):
        raise DataError(
            "warm_start must be a Solution of the same data, got weights of shape"
            f" {model.coef.shape} for {data.X.shape[1]} features and {data.c} classes"
        )
    if "alpha" not in warm.dual:
        raise DataError(
            "warm_start must have multipliers alpha, as solutions of multi-class formulations have;"
            " got one without"
        )
    # The biases of a model belong to the data as they were passed, those of U to the data of the
    # scores.
    intercept = model.intercept + system.scores.centre @ model.coef
    return Start(
        system.point(model.coef, intercept), statement.projected(statement.multipliers(warm.dual))
    )


Rows: TypeAlias = NDArray[np.intp]


class Projection(NamedTuple):
    """Multipliers of differences, with the entry of the own class if there is one, and the faces
    that contain them.
    """

    full: Floats
    state: NDArray[np.int8]
    mode: NDArray[np.int8]


class Faces(NamedTuple):
    """Orthonormal vectors of all faces: the observation of each, and its coefficients of the scores
    of all classes.
    """

    owner: Rows
    rows: Floats


class Envelope:
    """The envelope of a hinge loss."""

    def __init__(self, scores: ScoreSpace, loss: ScoreLoss) -> None:
        self.scores, self.weight = scores, scores.data.weight
        self.boxed = isinstance(loss, HingeSum)
        self.k = loss.k if isinstance(loss, TopHinge) else 1
        n, c = scores.data.n, scores.data.c
        self.shape = n, c - 1 if self.boxed else c
        self.centre = np.zeros(self.shape)
        self.sigma = 1.0

    def start(self, alpha: Floats) -> None:
        """Centre the envelope at multipliers of shape (n, c − 1) inside their domain."""
        self.centre[:, : alpha.shape[1]] = alpha
        if not self.boxed:
            # The least sum that the largest multiplier allows, with the remainder for the own
            # class.
            total = alpha.sum(axis=1)
            sums = np.maximum(total, self.k * alpha.max(axis=1))
            self.centre[:, -1] = np.maximum(sums - total, 0.0)

    def project(self, f: Floats) -> Projection:
        """Return the multipliers at differences f, projected onto their domain."""
        raw = self.centre.copy()
        raw[:, : f.shape[1]] += self.sigma * (1.0 - f)
        found = Projection(
            np.empty(self.shape), np.empty(self.shape, np.int8), np.zeros(self.shape[0], np.int8)
        )
        if self.boxed:
            passes.project_box(raw, self.weight, found.full, found.state)
        else:
            order = (
                np.argsort(-raw, axis=1)
                if self.k > 1
                else np.empty((raw.shape[0], 0), dtype=np.intp)
            )
            passes.project_top(raw, order, self.weight, self.k, found.full, found.state, found.mode)
        return found

    def multipliers(self, response: Projection) -> Floats:
        """Return the multipliers of the differences, shape (n, c − 1)."""
        return np.ascontiguousarray(response.full[:, : self.scores.data.c - 1])

    def faces(self, response: Projection) -> Faces:
        """Return orthonormal vectors of the faces in which the projections end."""
        data = self.scores.data
        most = int((response.state == passes.FREE).sum()) + data.n
        owner, rows = np.empty(most, dtype=np.intp), np.empty((most, data.c))
        count = passes.face_rows(
            response.state, response.mode, data.codes, self.k, self.boxed, owner, rows
        )
        return Faces(owner[:count], rows[:count])


class FaceCurvature:
    """Second derivatives of an envelope."""

    def __init__(self, scores: ScoreSpace, sigma: float, faces: Faces) -> None:
        self.scores, self.sigma, self.faces = scores, sigma, faces
        self.n = scores.data.n
        self.vectors = -np.take_along_axis(faces.rows, scores.others[faces.owner], axis=1)

    def _sums(self, products: Floats) -> Floats:
        return np.asarray(
            np.bincount(self.faces.owner, weights=products, minlength=self.n), dtype=np.float64
        )

    def edge(self, k: int, j: int) -> list[tuple[Rows, Floats]]:
        """The observations whose faces join k and j."""
        h = -self.sigma * self._sums(self.faces.rows[:, k] * self.faces.rows[:, j])
        rows = np.flatnonzero(h)
        return [(rows, h[rows])]

    def leave_out(self, k: int, j: int, part: int, rows: NDArray[np.bool_]) -> None:
        """Do nothing: the multipliers are projections for any matrix that was factorised."""

    def apply(self, df: Floats) -> Floats:
        """σ times the projections of df."""
        image = np.zeros_like(df)
        passes.face_product(self.faces.owner, self.vectors, df, image)
        return self.sigma * image

    def vertex(self, k: int) -> Floats:
        """The squares of the coefficients of k."""
        return self.sigma * self._sums(self.faces.rows[:, k] ** 2)


def observation_step(
    system: ScoreSystem,
    gradient: Floats,
    curvature: FaceCurvature,
    inverse: PenaltyInverse,
    damping: float,
) -> Floats | None:
    """Return the Newton step; None where the system cannot be factorised."""
    owner, Q = curvature.faces
    d = system.columns
    # Minus the means of the features where the unknowns are those of centred features and the
    # penalty is not.
    offset = np.zeros(d) if inverse.centred else system.q[:d]
    g = gradient[:d]
    bias = damping + inverse.bias
    if offset.any():
        g = g - np.outer(offset, gradient[d])
    step = np.zeros(system.shape)
    step[:d] = -inverse.apply(g)
    if not owner.size:
        if system.biased:
            step[d] = -gradient[d] / bias if bias > 0 else 0.0
            step[d] -= offset @ step[:d]
        return centred(step)
    members, position = np.unique(owner, return_inverse=True)
    X = system.Z[members][:, :d]
    if offset.any():
        X = X - offset
    matrix = inverse.gram(X, position, Q)
    matrix[np.diag_indices_from(matrix)] += 1.0 / max(curvature.sigma, TINY)
    right = (Q * np.asarray(X @ step[:d])[position]).sum(axis=1)
    try:
        factor = sl.cho_factor(matrix, lower=True, overwrite_a=True, check_finite=False)
    except sl.LinAlgError:
        return None
    solved = sl.cho_solve(
        factor, np.column_stack([right, Q]) if system.biased else right, check_finite=False
    )
    if system.biased:
        # Q'T Q is singular along common shifts, and where no vector joins two groups of classes.
        schur = Q.T @ solved[:, 1:]
        c = schur.shape[0]
        schur[np.diag_indices(c)] += bias
        db, *_ = np.linalg.lstsq(
            schur + np.trace(schur) / c**2, -gradient[d] - Q.T @ solved[:, 0], rcond=1e-14
        )
        nu = solved[:, 0] + solved[:, 1:] @ db
        step[d] = db
    else:
        nu = solved
    weighted = np.zeros((members.size, Q.shape[1]))
    np.add.at(weighted, position, nu[:, None] * Q)
    step[:d] -= inverse.apply(np.asarray(X.T @ weighted))
    if system.biased:
        step[d] -= offset @ step[:d]
    return centred(step) if np.isfinite(step).all() else None


# Smoothing ν of the absolute values, at least.
LEAST_NU = 1e-12
# Factor by which σ grows; that after a subproblem that took one step; and its largest value in
# these units.
SIGMA_GROWTH = 2.0
FAST_GROWTH = 10.0
# ν is multiplied by the factor after a step whose predicted decrease is at most this share of the
# error by smoothing.
FAST_FACTOR = 0.1
FAST_SHARE = 0.1
# Likewise, for a larger share.
SLOW_FACTOR = 0.2
SLOW_SHARE = 1.0
# Share of the tolerance that smoothing may contribute in the end.
FINAL_SHARE = 0.1
# No step takes a multiplier of a weight nearer to a bound than this share of its distance before.
BOUNDARY_SHARE = 0.1
# Dual points are computed when the estimated gap has fallen by this factor, or is at most
# DUAL_CLOSE times the tolerance: on few observations one takes longer than a step.
DUAL_PROGRESS = 1e-3
DUAL_CLOSE = 3.0
# Floating-point operations of a factorisation above which conjugate gradients are used, for hinges
# and for softmax, of whose conjugate gradients a handful a step suffices with one block for all
# classes.
DIRECT_WORK = 3e10
SMOOTH_DIRECT_WORK = 5e6


@dataclass(frozen=True)
class ClassicalNewtonSettings:
    """Parameters of Newton's method that differ between the classical machines and M3SVM, and those
    that tests vary.

    Attributes
    ----------
    first_stiffness, warm_stiffness : float
        First penalty σ of the hinges times the mean squared norm of an observation over ρ, without
        and with multipliers to start from.
    patience : int
        Steps that promise less than rounding and do not reduce the gap, or dual points that hardly
        do, after which the method ends.
    largest_direct : int
        Rows of a system above which they are.
    forcing : float
        Relative accuracy of conjugate gradients.
    cg_limit : int
        Products in a run of them, at most.
    """

    first_stiffness: float = 10.0
    warm_stiffness: float = 1e3
    patience: int = 25
    largest_direct: int = 6000
    forcing: float = 0.03
    cg_limit: int = 400


class _Point(NamedTuple):
    """Differences, gradient of the minimised function, and the projection of the envelope of a
    hinge.
    """

    f: Floats
    gradient: Floats
    response: Projection | None


class AugmentedNewton:
    """Newton steps on the problem, or on its envelope if it is not smooth."""

    def __init__(
        self,
        system: ScoreSystem,
        penalty: WeightPenalty,
        bounds: ScoreBounds,
        monitor: Monitor,
        U: Floats,
        alpha: Floats | None = None,
        *,
        settings: ClassicalNewtonSettings | None = None,
        cheap: float = math.inf,
    ) -> None:
        self.system, self.bounds, self.monitor = system, bounds, monitor
        # Multiplications of the last step's direct system, and those that it may take.
        self.work, self.cheap = 0.0, cheap
        self.settings = settings or ClassicalNewtonSettings()
        self.loss, self.penalty = bounds.statement.loss, penalty
        self.U, self.S = U, np.asarray(system.Z @ U)
        self.envelope = None if self.loss.smooth else Envelope(system.scores, self.loss)
        self._start_envelope(alpha)
        self.alpha = alpha
        # Multipliers that the last step predicts, for a sum of absolute values.
        self.predicted: Floats | None = None
        # Dual points in a row that did not close a tenth of what separates the bounds.
        self.fruitless = 0
        if alpha is not None:
            self._offer_dual(alpha)
        bounds.update_model(U, self._objective(system.scores.differences(self.S)))
        self._start_smoothing()
        self.error_at_duals = math.inf
        # Steps since the centre was moved.
        self.inner_steps = 0
        self.preconditioner = Preconditioner()
        # How the linear systems were solved.
        self.kinds: set[str] = set()
        # Steps so far, those up to the last progress, and those that promised nothing since; what
        # the last one promised.
        self.steps, self.improved, self.idle, self.promised = 0, 0, 0, math.inf
        # The smallest gap and the lowest upper bound.
        self.smallest = self.lowest = math.inf

    def _start_envelope(self, alpha: Floats | None) -> None:
        """Choose the first σ and the first centre of the envelope of a hinge."""
        if self.envelope is None or not isinstance(self.penalty, SmoothPenalty):
            return
        system, settings = self.system, self.settings
        squares = float((system.squares - system.biased).mean())
        self.unit = self.penalty.unit(squares, float(system.weight.mean()))
        self.envelope.sigma = (
            settings.first_stiffness if alpha is None else settings.warm_stiffness
        ) * self.unit
        if alpha is not None:
            self.envelope.start(alpha)

    def _start_smoothing(self) -> None:
        """Choose ν with an error of the size of the interval at the start."""
        if isinstance(self.penalty, AbsoluteWeights):
            width = self.bounds.upper - self.bounds.lower
            entries = self.system.columns * self.system.shape[1]
            self.penalty.nu = max(width / (self.penalty.lam * entries), LEAST_NU)

    def run(self) -> tuple[Status, int]:
        """Step until the monitor says stop; return why and how many steps it took."""
        return newton(self) or Status.INACCURATE, self.steps

    def examine(self, steps: int) -> Status | None:
        """Bound the optimum; move the centre, or reduce the smoothing."""
        self.steps = steps
        # Steps after which the scores are computed afresh.
        if steps and steps % 20 == 0:
            self.S = np.asarray(self.system.Z @ self.U)
        self.point = self._evaluate(self.promised)
        status = self.bounds.report(self.monitor, steps)
        if self.monitor.gap < 0.99 * self.smallest or self.bounds.upper < self.lowest:
            self.improved = steps
        if self.monitor.gap < 0.99 * self.smallest:
            self.idle = 0
        # A step whose predicted decrease is less than this share of the terms of the objective is
        # below their rounding.
        elif self.promised <= 1e-15 * self.terms:
            self.idle += 1
        self.smallest = min(self.smallest, self.monitor.gap)
        self.lowest = min(self.lowest, self.bounds.upper)
        # Steps in which the multipliers settle: after five the systems of most problems are up to
        # ten times as large as after ten.
        costly = steps >= 10 and self.work > self.cheap
        stuck = max(self.idle, self.fruitless) > self.settings.patience
        # Steps of any kind without a smaller gap or objective after which it ends.
        exhausted = stuck or steps - self.improved > 300
        if status is None and (costly or exhausted):
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

    def _objective(self, f: Floats) -> float:
        return float(self.system.weight[:, 0] @ self.loss.value(f)) + self.penalty.value(self.U)

    # The line search detects and shortens steps that overflow.
    @quietly
    def _evaluate(self, promised: float) -> _Point:
        """Evaluate the present point; move the centre, or reduce the smoothing, if the point is
        near its optimum.
        """
        system, envelope, penalty = self.system, self.envelope, self.penalty
        f = system.scores.differences(self.S)
        upper = self._objective(f)
        losses = upper - penalty.value(self.U)
        self.bounds.update_model(self.U, upper)
        self.alpha, response = self._multipliers(f)
        gradient = system.gradient(self.alpha, penalty.gradient(self.U))
        part, left = penalty.gap(self.U, gradient, losses)
        self.terms = upper
        if envelope is not None:
            left += max(losses - float((self.alpha * (1.0 - f)).sum()), 0.0)
            # Of the envelope, which is far below the loss while σ is small.
            self.terms = float(self.alpha.sum()) + penalty.value(self.U)
        self._offer_if_close(part + left)
        if self.predicted is not None and promised + left <= self._close:
            self._offer_dual(self.predicted)
        # Part of the gap from the gradient, relative to the other part, at which the multipliers
        # become the centre.
        if envelope is not None and response is not None and part <= 0.1 * left:
            envelope.centre = response.full
            growth = SIGMA_GROWTH if self.inner_steps > 1 else FAST_GROWTH
            envelope.sigma = min(envelope.sigma * growth, 1e20 * self.unit)
            self.inner_steps = 0
        elif isinstance(penalty, AbsoluteWeights) and promised <= SLOW_SHARE * left:
            if left > FINAL_SHARE * self.monitor.tol * self._size:
                fast = promised <= FAST_SHARE * left
                penalty.nu = max(penalty.nu * (FAST_FACTOR if fast else SLOW_FACTOR), LEAST_NU)
        else:
            return _Point(f, gradient, response)
        self.alpha, response = self._multipliers(f)
        return _Point(f, system.gradient(self.alpha, penalty.gradient(self.U)), response)

    @property
    def _size(self) -> float:
        """The number that divides the gap."""
        return max(abs(self.bounds.upper), abs(self.bounds.lower))

    @property
    def _close(self) -> float:
        """Estimated gap at which dual points are computed."""
        return DUAL_CLOSE * self.monitor.tol * self._size

    def _offer_if_close(self, estimate: float) -> None:
        """Compute a dual point if the estimated gap has become small enough."""
        if estimate <= self._close or estimate <= DUAL_PROGRESS * min(
            self.error_at_duals, self._size
        ):
            self.error_at_duals = estimate
            self._offer_dual(self.alpha)

    def _offer_dual(self, alpha: Floats | None) -> None:
        if alpha is not None:
            before = self.bounds.lower
            self.bounds.offer_multipliers(self.U, alpha)
            gained = self.bounds.lower - before > 0.1 * (self.bounds.upper - before)
            self.fruitless = 0 if gained else self.fruitless + 1

    def _offer_last(self) -> None:
        """Offer the last multipliers and the centre, for hinges and squares as short as their bound
        is best.
        """
        candidates = [self.alpha]
        if self.envelope is not None:
            candidates.append(self.envelope.centre[:, : self.system.shape[1] - 1])
        for alpha in candidates:
            if (
                alpha is not None
                and self.envelope is not None
                and isinstance(self.penalty, SmoothPenalty)
            ):
                alpha = self.penalty.shortened(alpha, self.system.scores)
            self._offer_dual(alpha)

    @quietly
    def direction(self) -> NewtonStep:
        """Return Newton's step; a step of length 0 if no decrease is predicted."""
        f, gradient, _ = self.point
        D = self._direction(self.point)
        predicted = -float((gradient * D).sum())
        if not 0 < predicted < math.inf:
            self.promised = 0.0
            return NewtonStep(0.0, lambda t: 0.0, lambda t: None)
        dS = np.asarray(self.system.Z @ D)
        df = self.system.scores.differences(dS)
        own = self.penalty.slope(self.U, D)

        @quietly
        def derivative(t: float) -> float:
            return own(t) - float((self._multipliers(f + t * df)[0] * df).sum())

        @quietly
        def take(t: float) -> None:
            if isinstance(self.penalty, AbsoluteWeights):
                self.penalty.move(self.U, D, t, BOUNDARY_SHARE)
            self.U = self.U + t * D
            self.S = self.S + t * dS
            self.promised = t * predicted

        return NewtonStep(predicted, derivative, take)

    def _direction(self, point: _Point) -> Floats:
        """Return the Newton step, by the system that costs least."""
        system, settings, penalty = self.system, self.settings, self.penalty
        f, gradient, response = point
        r, c = system.shape
        # Second derivative of the biases that is added, relative to their gradient.
        damping = 1e-2 * float(np.abs(gradient[system.columns :]).max(initial=0.0))
        curvature: FaceCurvature | JointCurvature
        work = system.unknowns**3 / 3.0
        limit = SMOOTH_DIRECT_WORK if self.envelope is None else DIRECT_WORK
        if response is None or self.envelope is None:
            curvature = JointCurvature(system.scores, self.loss.multipliers(f))
            work += system.scores.data.n * c**2 / 2.0 * r**2
        else:
            faces = self.envelope.faces(response)
            curvature = FaceCurvature(system.scores, self.envelope.sigma, faces)
            m = faces.owner.size
            work += m * r**2
            by_faces = m**3 / 3.0 + 4.0 * m**2 + np.unique(faces.owner).size ** 2 * r
            inverse = penalty.inverse(self.U) if isinstance(penalty, SmoothPenalty) else None
            few = m <= settings.largest_direct and by_faces <= min(work, DIRECT_WORK)
            if inverse is not None and few:
                self.work = by_faces
                step = observation_step(system, gradient, curvature, inverse, damping)
                if step is not None:
                    self.kinds.add("by observations")
                    return step
        if (
            isinstance(penalty, SmoothPenalty)
            and system.unknowns <= settings.largest_direct
            and work <= limit
        ):
            self.kinds.add("by classes")
            self.work = work
            squares = penalty.curvature(self.U, gradient, damping)
            return system.direct_step(gradient, curvature, squares, complete=True)
        second = penalty.curvature(self.U, gradient, damping)
        if (
            isinstance(second, EntrySquares)
            and isinstance(curvature, JointCurvature)
            and r * c <= settings.largest_direct
            and (r * c) ** 3 / 3.0 + system.scores.data.n * (r * c) ** 2 / 2.0 <= SMOOTH_DIRECT_WORK
        ):
            self.kinds.add("by entries")
            step = system.entry_step(gradient, curvature, second.entries, second.shift)
            # The linearised equations lose less to rounding than the multipliers at the next point.
            alpha = system.weight * self.loss.multipliers(f)
            df = system.scores.differences(np.asarray(system.Z @ step))
            self.predicted = alpha - curvature.apply(df)
            return step
        self.kinds.add("conjugate gradients")
        self.work = 0.0
        uniform = second if self.envelope is None and isinstance(second, Squares) else None
        # Relative accuracy of conjugate gradients for softmax with a sum of squares, whose steps
        # are cheap in comparison with a hinge's.
        return system.iterative_step(
            gradient,
            curvature,
            second,
            forcing=settings.forcing if uniform is None else 0.3,
            limit=settings.cg_limit,
            stop=self.monitor.out_of_time,
            kept=self.preconditioner if self.envelope is None else None,
            shared=None if uniform is None else uniform.weights,
        )


# Unknowns above which every loss does.
LARGEST_DIRECT = 6000


class M3SVMBounds(ScoreBounds):
    """The best model and the best dual point so far."""

    statement: M3SVM
    system: M3SVMSystem

    def __init__(self, system: M3SVMSystem) -> None:
        super().__init__(system, system.statement)

    def update_dual(self, U: Floats, alphas: list[Floats], flow: Floats | None) -> None:
        """Keep the best of the present dual point and those near the given multipliers and flows
        that fit U.
        """
        W, b = self.system.weights(U)
        if flow is not None:
            flow = self.system.full_flow(flow)
        for alpha in alphas:
            for point in self.statement.dual_points(W, b, alpha, flow):
                self.update_dual_point(point)

    def offer_multipliers(self, U: Floats, alpha: Floats) -> None:
        """Keep the best dual point near multipliers at U if its value is higher."""
        self.update_dual(U, [alpha], None)


class Continuation:
    r"""Newton's method for M3SVM with decreasing smoothing, whose multipliers and flows are
    independent unknowns.

    The hinge is the limit of :math:`\tfrac12(\gamma + \sqrt{\gamma^2+\delta^2})` as δ → 0, with
    multipliers :math:`(2\alpha - 1)\sqrt{\gamma^2+\delta^2} = \gamma`. Newton's method for this
    equation in α *and* γ has

    .. math:: d\alpha = \frac{1 - (2\alpha-1)\gamma/\sqrt{\gamma^2+\delta^2}}{2\sqrt{\gamma^2+\delta^2}}\, d\gamma

    and, unlike Newton's method for the quotient, converges in a few steps also for tiny δ. Its step
    is a direction of descent of the smoothed objective for every α, so that a line search makes the
    method globally convergent. For p < 2 the norms are smoothed likewise. δ is reduced when the
    decrease that a Newton step predicts has become smaller than the error due to smoothing.

    Source: [ChanGolubMulet]; [AndersenChristiansenConnOverton].
    """

    def __init__(
        self,
        system: M3SVMSystem,
        bounds: M3SVMBounds,
        monitor: Monitor,
        U: Floats,
        alpha: Floats | None = None,
        *,
        largest_direct: int = LARGEST_DIRECT,
    ) -> None:
        self.system, self.bounds, self.monitor = system, bounds, monitor
        self.statement: M3SVM = system.statement
        self.U, self.alpha = U, alpha
        self.scores = np.asarray(system.Z @ U)
        self.flow: Floats | None = None
        # Estimated error of the objective: after the last step, and when dual points were last
        # computed.
        self.estimated_error = self.error_at_duals = math.inf
        self.complete = False
        # Steps so far, those since the last progress, and the least estimated error and upper
        # bound.
        # Dual points in a row that did not close a tenth of what separates the bounds.
        self.steps, self.stalled, self.fruitless = 0, 0, 0
        self.smallest = self.lowest = math.inf
        f = self._differences(self.scores)
        upper = system.objective_value(U, self._total(self.statement.loss, f))
        bounds.update_model(U, upper)
        if alpha is not None:
            bounds.update_dual(U, [alpha], None)
        self._first_smoothing(f, upper)
        n, c = f.shape[0], system.shape[1]
        work = (
            n * (c - 1.0) * system.shape[0] ** 2 * (1.0 if self._separate else c / 2)
            + system.unknowns**3 / 3
        )
        # Floating-point operations of a factorisation above which smooth losses use conjugate
        # gradients.
        self.direct = system.unknowns <= largest_direct and (
            not self.statement.loss.smooth or work <= 1e9
        )

    @property
    def _separate(self) -> bool:
        return isinstance(self.statement.loss, (HingeSum, SmoothedHingeSum, LogisticSum))

    def _differences(self, S: Floats) -> Floats:
        return self.system.scores.differences(S)

    def _total(self, loss: ScoreLoss, f: Floats) -> float:
        return float(self.system.weight[:, 0] @ loss.value(f))

    def _first_smoothing(self, f: Floats, upper: float) -> None:
        """Choose δ and ν with errors of the size of the interval at the start."""
        width = upper - self.bounds.lower
        loss = self.statement.loss
        self.delta = self.least_delta = loss.delta if isinstance(loss, SmoothedHingeSum) else 0.0
        if isinstance(loss, (HingeSum, SmoothedHingeSum)):
            # Smoothing δ of the hinge at the start, at most; the margin is 1.
            for delta in 1.0 * 0.5 ** np.arange(40):
                self.delta = max(delta, self.least_delta)
                if self._loss_smoothing_error(f) <= width:
                    break
        self.nu = 0.0
        if self.statement.p < 2:
            self.nu = (width / (self.statement.lam * len(self.system.pairs))) ** (
                1.0 / self.statement.p
            )
            self.nu = max(self.nu, LEAST_NU)

    @property
    def _loss(self) -> ScoreLoss:
        """The loss, smoothed if it has to be."""
        return SmoothedHingeSum(self.delta) if self.delta > 0 else self.statement.loss

    def _loss_smoothing_error(self, f: Floats) -> float:
        """Duality gap due to multipliers of the smoothed loss: the conjugate value of that loss
        less that of the loss itself.
        """
        if self.delta == self.least_delta:
            return 0.0
        a, s = self._loss.multipliers(f), np.ones(len(f))
        return float(
            self.system.weight[:, 0]
            @ (self._loss.conjugate(a, s) - self.statement.loss.conjugate(a, s))
        )

    def _derivatives(self, f: Floats) -> tuple[Floats, Curvature]:
        """Return the multipliers of f, and the second derivatives with the independent
        multipliers.
        """
        loss, s, system = self._loss, self.system.weight, self.system
        a = loss.multipliers(f)
        if isinstance(loss, SmoothedHingeSum):
            gamma = 1.0 - f
            root = np.hypot(gamma, loss.delta)
            own = a if self.alpha is None else self.alpha / s
            h = np.maximum(1.0 - (2.0 * own - 1.0) * (gamma / root), 0.0) / (2.0 * root)
            return s * a, SeparateCurvature(system.scores, system.members, s * h)
        if isinstance(loss, LogisticSum):
            return s * a, SeparateCurvature(system.scores, system.members, s * a * (1.0 - a))
        return s * a, JointCurvature(system.scores, a)

    def run(self) -> tuple[Status, int]:
        """Step until the monitor says stop; return why and how many steps it took."""
        status = newton(self) or Status.INACCURATE
        if status is not Status.OPTIMAL:
            self._update_duals(self.alpha)
        return status, self.steps

    def examine(self, steps: int) -> Status | None:
        """Compare the bounds, and look whether steps still make progress."""
        self.steps = steps
        status = self.bounds.report(self.monitor, steps)
        if steps == 0:
            self.lowest = self.bounds.upper
            return status
        slight = 1e-2 * self.monitor.tol * self._size(self.lowest)
        progress = (
            self.estimated_error < 0.9 * self.smallest or self.bounds.upper < self.lowest - slight
        )
        self.stalled = 0 if progress else self.stalled + 1
        self.smallest = min(self.smallest, self.estimated_error)
        self.lowest = min(self.lowest, self.bounds.upper)
        # Steps without progress after which the method ends.
        stuck = max(self.stalled, self.fruitless) > 25
        return Status.INACCURATE if status is None and stuck else status

    def _size(self, upper: float) -> float:
        """The number that divides the gap."""
        return max(abs(upper), abs(self.bounds.lower))

    def _update_duals(self, *alphas: Floats | None) -> None:
        s = self.system.weight
        candidates = [np.clip(alpha, 0.0, s) for alpha in alphas if alpha is not None]
        before = self.bounds.lower
        self.bounds.update_dual(self.U, candidates, self.flow)
        gained = self.bounds.lower - before > 0.1 * (self.bounds.upper - before)
        self.fruitless = 0 if gained else self.fruitless + 1

    # The line search detects and shortens steps that overflow.
    @quietly
    def direction(self) -> NewtonStep:
        """Return Newton's step for W and b; a step of length 0 if no decrease is predicted."""
        system, loss, nu = self.system, self._loss, self.nu
        f = self._differences(self.scores)
        exact, curvature = self._derivatives(f)
        norms = PairNorms(system, self.U, nu, self.flow)
        gradient = system.gradient(exact, norms.gradient)
        if self.direct:
            D = system.direct_step(gradient, curvature, norms, complete=self.complete)
        else:
            # Products in a run of conjugate gradients, at most.
            D = system.iterative_step(gradient, curvature, norms, forcing=self._forcing, limit=400)
        predicted = -float((gradient * D).sum())
        if not 0 < predicted < math.inf:
            D, predicted = np.zeros_like(D), 0.0
        dS = np.asarray(system.Z @ D)
        df = self._differences(dS)

        @quietly
        def derivative(t: float) -> float:
            multipliers = system.weight * loss.multipliers(f + t * df)
            return float(
                (PairNorms(system, self.U + t * D, nu, None).gradient * D).sum()
                - (multipliers * df).sum()
            )

        @quietly
        def take(t: float) -> None:
            # After a step shorter than this the Newton matrix has all observations.
            self.complete = t < 0.1
            # The linearised equations give the multipliers and flows after a full step.
            full = exact - curvature.apply(df)
            own = exact if self.alpha is None else self.alpha
            part = min(t, 1.0)
            s = system.weight
            # At a bound the second derivative of the smoothed loss is too small for later steps to
            # move the multiplier.
            share = BOUNDARY_SHARE
            self.alpha = np.clip(own + part * (full - own), share * own, s - share * (s - own))
            if self.statement.p < 2:
                start = norms.flow if self.flow is None else self.flow
                self.flow = start + part * (norms.flow + norms.apply(D[:-1] @ system.P) - start)
            self.U = self.U + t * D
            self.scores = self.scores + t * dS
            self._finish_step(predicted, full, part)

        return NewtonStep(predicted, derivative, take)

    @property
    def _forcing(self) -> float:
        """Relative accuracy of conjugate gradients."""
        far = self.estimated_error > 1e-2 * self._size(self.bounds.upper)
        # Relative accuracy of conjugate gradients while the estimated error exceeds the share FAR
        # of the objective, and below it.
        return 0.1 if far else 0.03

    def _finish_step(self, predicted: float, full: Floats, part: float) -> None:
        """Evaluate the new point, compute dual points if the error has fallen enough, and reduce
        the smoothing.
        """
        system, statement, monitor = self.system, self.statement, self.monitor
        f = self._differences(self.scores)
        norms = PairNorms(system, self.U, self.nu, self.flow)
        upper = system.objective_value(self.U, self._total(statement.loss, f))
        self.bounds.update_model(self.U, upper)
        loss_error = self._loss_smoothing_error(f)
        norm_error = self._norm_smoothing_error(norms) if self.nu > 0 else 0.0
        allowed = monitor.tol * self._size(upper)
        smoothing_error = loss_error + norm_error
        self.estimated_error = predicted + loss_error + norm_error
        # Dual points are computed when the estimated error has fallen by this factor, or is at most
        # SMOOTHED_CLOSE times the tolerance: on few observations one takes longer than a step.
        close = self.estimated_error <= 10.0 * allowed
        if close or self.estimated_error <= DUAL_PROGRESS * min(self.error_at_duals, abs(upper)):
            self.error_at_duals = self.estimated_error
            if isinstance(self._loss, SmoothedHingeSum):
                self._update_duals(self.alpha, full if part < 1 else None)
            else:
                self._update_duals(system.weight * self._loss.multipliers(f))
        if predicted <= SLOW_SHARE * smoothing_error:
            fast = predicted <= FAST_SHARE * smoothing_error
            factor = FAST_FACTOR if fast else SLOW_FACTOR
            if loss_error > FINAL_SHARE * allowed:
                self.delta = max(factor * self.delta, self.least_delta)
            if norm_error > FINAL_SHARE * allowed:
                self.nu *= factor

    def _norm_smoothing_error(self, norms: PairNorms) -> float:
        """Duality gap due to the flows of the smoothed norms, by the inequality of Fenchel and
        Young.
        """
        statement = self.statement
        lam, p = statement.lam, statement.p
        size, length = np.linalg.norm(norms.flow, axis=0), np.linalg.norm(norms.V, axis=0)
        size = np.minimum(size, lam) if p == 1 else size
        return float((lam * length**p + hinge_power_conjugate(size, lam, p) - size * length).sum())
