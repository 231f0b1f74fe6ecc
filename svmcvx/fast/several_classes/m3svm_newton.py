r"""Newton's method for M3SVM with decreasing smoothing, whose multipliers and flows are independent
unknowns.

The hinge is the limit of :math:`\tfrac12(\gamma + \sqrt{\gamma^2+\delta^2})` as δ → 0, with
multipliers :math:`(2\alpha - 1)\sqrt{\gamma^2+\delta^2} = \gamma`. Newton's method for this
equation in α *and* γ has

.. math:: d\alpha = \frac{1 - (2\alpha-1)\gamma/\sqrt{\gamma^2+\delta^2}}{2\sqrt{\gamma^2+\delta^2}}\, d\gamma

and, unlike Newton's method for the quotient, converges in a few steps also for tiny δ. Its step is
a direction of descent of the smoothed objective for every α, so that a line search makes the method
globally convergent. For p < 2 the norms are smoothed likewise
(:class:`~svmcvx.fast.several_classes.systems.m3svm_systems.PairNorms`). δ is reduced when the
decrease that a Newton step predicts has become smaller than the error due to smoothing.

Source: [ChanGolubMulet]; [AndersenChristiansenConnOverton].
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import quietly
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.several_classes.points import ScoreBounds
from svmcvx.fast.several_classes.systems.m3svm_systems import M3SVMSystem, PairNorms
from svmcvx.fast.several_classes.systems.score_systems import (
    Curvature,
    JointCurvature,
    SeparateCurvature,
)
from svmcvx.formulations.multiclass.losses import HingeSum, LogisticSum, ScoreLoss, SmoothedHingeSum
from svmcvx.formulations.multiclass.m3svm import M3SVM
from svmcvx.losses import hinge_power_conjugate
from svmcvx.numerical import NewtonStep, newton
from svmcvx.solution import Status

__all__ = ["LARGEST_DIRECT", "Continuation", "M3SVMBounds"]

Floats: TypeAlias = NDArray[np.float64]

# Smoothing ν of the norms at the start, at least.
LEAST_NU = 1e-12
# Relative accuracy of conjugate gradients while the estimated error exceeds the share FAR of the
# objective, and below it.
FORCING_FAR, FORCING_NEAR, FAR = 0.1, 0.03, 1e-2
# Smoothing δ of the hinge at the start, at most; the margin is 1.
LARGEST_DELTA = 1.0
# δ is multiplied by the factor after a step whose predicted decrease is at most this share of the
# error by smoothing.
FAST_FACTOR = 0.1
FAST_SHARE = 0.1
# Likewise, for a larger share.
SLOW_FACTOR = 0.2
SLOW_SHARE = 1.0
# Share of the tolerance that smoothing may contribute in the end.
FINAL_SHARE = 0.1
# No step takes a multiplier nearer to a bound than this share of its distance before.
BOUNDARY_SHARE = 0.1
# After a step shorter than this the Newton matrix has all observations.
SHORT_STEP = 0.1
# Dual points are computed when the estimated error has fallen by this factor, or is at most
# DUAL_CLOSE times the tolerance: on few observations one takes longer than a step.
DUAL_PROGRESS = 1e-3
DUAL_CLOSE = 10.0
# Steps without progress after which the method ends.
PATIENCE = 25
# Floating-point operations of a factorisation above which smooth losses use conjugate gradients.
DIRECT_WORK = 1e9
# Products in a run of conjugate gradients, at most.
CG_LIMIT = 400
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
    """Newton steps with decreasing smoothing."""

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
        self.direct = system.unknowns <= largest_direct and (
            not self.statement.loss.smooth or work <= DIRECT_WORK
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
            for delta in LARGEST_DELTA * 0.5 ** np.arange(40):
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
        """Return the multipliers of f, and the second derivatives with the independent multipliers."""
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
        stuck = max(self.stalled, self.fruitless) > PATIENCE
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
            D = system.iterative_step(
                gradient, curvature, norms, forcing=self._forcing, limit=CG_LIMIT
            )
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
            self.complete = t < SHORT_STEP
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
        far = self.estimated_error > FAR * self._size(self.bounds.upper)
        return FORCING_FAR if far else FORCING_NEAR

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
        close = self.estimated_error <= DUAL_CLOSE * allowed
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
