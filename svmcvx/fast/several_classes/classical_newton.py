r"""Newton's method for the classical multi-class machines.

**Hinges** (Weston-Watkins, Crammer-Singer, M-SVM, top-k): the augmented Lagrangian method for the
dual problem [LiSunToh]. The envelope of the loss around multipliers
(:mod:`svmcvx.fast.several_classes.systems.envelopes`) is minimised, with the penalty, in (W, b) by
a semismooth Newton method until the part of the gap from the gradient is a small share of the other
part; then its multipliers become the centre, and σ grows. At the multipliers α of a point, with
:math:`\Omega(W) = \tfrac\rho2\|W\|^2`,

.. math:: P(W, b) - D(\alpha) = \sum_i\Big(s_i\ell(f_i) - \sum_k\alpha_{ik}(1 - f_{ik})\Big) + \frac{\|\rho W - G\|^2}{2\rho} - g_b'b.

**Softmax** is smooth: Newton's method itself, whose steps are found by conjugate gradients where
factors would cost more. A sum of absolute values is smoothed, ever less
(:mod:`svmcvx.fast.several_classes.systems.penalties`): ν is reduced when the decrease that a step
predicts has become smaller than the error due to smoothing.

Source: [ChanGolubMulet]; [LiSunToh] = Li, Sun and Toh 2018, A highly efficient semismooth Newton
augmented Lagrangian method for solving lasso problems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import quietly
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.several_classes.points import ScoreBounds
from svmcvx.fast.several_classes.systems.envelopes import Envelope, FaceCurvature, Projection
from svmcvx.fast.several_classes.systems.observation_steps import observation_step
from svmcvx.fast.several_classes.systems.penalties import (
    AbsoluteWeights,
    EntrySquares,
    SmoothPenalty,
    Squares,
    WeightPenalty,
)
from svmcvx.fast.several_classes.systems.score_systems import (
    JointCurvature,
    Preconditioner,
    ScoreSystem,
)
from svmcvx.numerical import NewtonStep, newton
from svmcvx.solution import Status

__all__ = ["AugmentedNewton", "ClassicalNewtonSettings"]

Floats: TypeAlias = NDArray[np.float64]

# A step whose predicted decrease is less than this share of the terms of the objective is below
# their rounding.
NEGLIGIBLE = 1e-15
# Steps after which the scores are computed afresh.
REFRESH = 20
# Smoothing ν of the absolute values, at least.
LEAST_NU = 1e-12
# Steps in which the multipliers settle: after five the systems of most problems are up to ten times
# as large as after ten.
SETTLED = 10
# Factor by which σ grows; that after a subproblem that took one step; and its largest value in
# these units.
SIGMA_GROWTH = 2.0
FAST_GROWTH = 10.0
LARGEST_SIGMA = 1e20
# Part of the gap from the gradient, relative to the other part, at which the multipliers become the
# centre.
GRADIENT_SHARE = 0.1
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
# Second derivative of the biases that is added, relative to their gradient.
DAMPING = 1e-2
# Dual points are computed when the estimated gap has fallen by this factor, or is at most
# DUAL_CLOSE times the tolerance: on few observations one takes longer than a step.
DUAL_PROGRESS = 1e-3
DUAL_CLOSE = 3.0
# Steps of any kind without a smaller gap or objective after which it ends.
LONGEST_IDLE = 300
# Floating-point operations of a factorisation above which conjugate gradients are used, for hinges
# and for softmax, of whose conjugate gradients a handful a step suffices with one block for all
# classes.
DIRECT_WORK = 3e10
SMOOTH_DIRECT_WORK = 5e6
# Relative accuracy of conjugate gradients for softmax with a sum of squares, whose steps are cheap
# in comparison with a hinge's.
SMOOTH_FORCING = 0.3


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
        if steps and steps % REFRESH == 0:
            self.S = np.asarray(self.system.Z @ self.U)
        self.point = self._evaluate(self.promised)
        status = self.bounds.report(self.monitor, steps)
        if self.monitor.gap < 0.99 * self.smallest or self.bounds.upper < self.lowest:
            self.improved = steps
        if self.monitor.gap < 0.99 * self.smallest:
            self.idle = 0
        elif self.promised <= NEGLIGIBLE * self.terms:
            self.idle += 1
        self.smallest = min(self.smallest, self.monitor.gap)
        self.lowest = min(self.lowest, self.bounds.upper)
        costly = steps >= SETTLED and self.work > self.cheap
        stuck = max(self.idle, self.fruitless) > self.settings.patience
        exhausted = stuck or steps - self.improved > LONGEST_IDLE
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
        if envelope is not None and response is not None and part <= GRADIENT_SHARE * left:
            envelope.centre = response.full
            growth = SIGMA_GROWTH if self.inner_steps > 1 else FAST_GROWTH
            envelope.sigma = min(envelope.sigma * growth, LARGEST_SIGMA * self.unit)
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
        damping = DAMPING * float(np.abs(gradient[system.columns :]).max(initial=0.0))
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
        return system.iterative_step(
            gradient,
            curvature,
            second,
            forcing=settings.forcing if uniform is None else SMOOTH_FORCING,
            limit=settings.cg_limit,
            stop=self.monitor.out_of_time,
            kept=self.preconditioner if self.envelope is None else None,
            shared=None if uniform is None else uniform.weights,
        )
