r"""Newton's method for M3SVM by smoothing, with multipliers and flows of their own.

The hinge is the limit of :math:`\tfrac12(\gamma + \sqrt{\gamma^2+\delta^2})` as δ → 0, with multipliers
:math:`(2\alpha - 1)\sqrt{\gamma^2+\delta^2} = \gamma`. Newton's method for this equation in α *and* γ has

.. math:: d\alpha = \frac{1 - (2\alpha-1)\gamma/\sqrt{\gamma^2+\delta^2}}{2\sqrt{\gamma^2+\delta^2}}\, d\gamma

and, unlike that for the quotient, still converges in a few steps when δ is tiny; its step is one of descent for the smoothed
objective whatever α is, so that a line search makes it safe. The norms are smoothed likewise where p < 2
(:class:`~svmcvx.fast.multiclass.m3svm_systems.PairNorms`). δ falls whenever a Newton step has come to promise less than smoothing costs.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.multiclass.m3svm_systems import Curvature, JointCurvature, Machine, PairNorms, SeparateCurvature
from svmcvx.formulations.multiclass.m3svm import M3SVM
from svmcvx.formulations.multiclass.score_space import HingeSum, LogisticSum, ScoreLoss, SmoothedHingeSum
from svmcvx.losses import hinge_power_conjugate
from svmcvx.solution import Status

__all__ = ["Bounds", "Continuation"]

Floats: TypeAlias = NDArray[np.float64]

# δ at the start, where margins are 1.
WIDEST = 1.0
# Factors of δ after a step that promised less than the first, or the second, share of what smoothing costs.
QUICK, QUICK_SHARE = 0.1, 0.1
SLOW, SLOW_SHARE = 0.2, 1.0
# Smoothing may cost this share of the tolerance in the end.
LAST_SHARE = 0.1
# The line search ends when the slope has fallen to this share.
FLAT = 0.2
SEARCHES = 20
LONGEST = 4.0
# No step takes a multiplier nearer to a bound than this share of the distance it had.
BACK = 0.1
# After a step shorter than this no observation is left out of the Newton matrix.
SHORT = 0.1
# Dual points are looked for when what is missing has fallen by this factor, or is this many times the tolerance.
PROGRESS = 0.1
CLOSE = 10.0
# Steps without progress before giving up.
PATIENCE = 25
# Floating-point operations of a direct step above which smooth losses take conjugate gradients.
DIRECT_WORK = 1e9
# Rows of the Newton matrix above which every loss does.
LARGEST_DIRECT = 6000
CG_LIMIT = 400


class Bounds:
    """The best model and the best dual point so far.

    Parameters
    ----------
    machine : Machine
    """

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        statement = machine.statement
        n, c = statement.scores.data.n, statement.scores.data.c
        # All losses are at least 0.
        self.dual: Dual = statement.repair({"alpha": np.zeros((n, c))})
        self.lower = statement.evaluate_dual(self.dual).below
        self.U = np.zeros(machine.shape)
        self.upper = math.inf

    def take_model(self, U: Floats, value: float) -> None:
        """Keep U if its objective is lower."""
        if value < self.upper:
            self.U, self.upper = U, value

    def take_dual(self, U: Floats, alphas: list[Floats], flow: Floats | None) -> None:
        """Keep the best of the dual points near multipliers and flows that fit U."""
        statement = self.machine.statement
        W, b = self.machine.weights(U)
        if flow is not None:
            flow = self.machine.full_flow(flow)
        for alpha in alphas:
            for point in statement.dual_points(W, b, alpha, flow):
                point = statement.repair(point)
                value = statement.evaluate_dual(point).below
                if value > self.lower:
                    self.dual, self.lower = point, value


class Continuation:
    """Newton steps while the smoothing falls.

    Parameters
    ----------
    machine : Machine
    bounds : Bounds
    monitor : Monitor
    U : ndarray
        Start.
    alpha : ndarray of shape (n, c − 1), optional
        Multipliers to start with.
    """

    def __init__(
        self, machine: Machine, bounds: Bounds, monitor: Monitor, U: Floats, alpha: Floats | None = None
    ) -> None:
        self.machine, self.bounds, self.monitor = machine, bounds, monitor
        self.statement: M3SVM = machine.statement
        self.U, self.alpha = U, alpha
        self.scores = np.asarray(machine.Z @ U)
        self.flow: Floats | None = None
        # What the point is expected to be off by: at the last step, and when dual points were last looked for.
        self.promised = self.missing = math.inf
        self.whole = False
        f = self._differences(self.scores)
        upper = machine.objective(U, self._total(self.statement.loss, f))
        bounds.take_model(U, upper)
        if alpha is not None:
            bounds.take_dual(U, [alpha], None)
        self._first_smoothing(f, upper)
        n, c = f.shape[0], machine.shape[1]
        work = n * (c - 1.0) * machine.shape[0] ** 2 * (1.0 if self._separate else c / 2) + machine.unknowns**3 / 3
        self.direct = machine.unknowns <= LARGEST_DIRECT and (not self.statement.loss.smooth or work <= DIRECT_WORK)

    @property
    def _separate(self) -> bool:
        return isinstance(self.statement.loss, (HingeSum, SmoothedHingeSum, LogisticSum))

    def _differences(self, S: Floats) -> Floats:
        return self.machine.scores.differences(S)

    def _total(self, loss: ScoreLoss, f: Floats) -> float:
        return float(self.machine.weight[:, 0] @ loss.value(f))

    def _first_smoothing(self, f: Floats, upper: float) -> None:
        """δ and ν that cost as much as the start is known to be off by."""
        off = upper - self.bounds.lower
        loss = self.statement.loss
        self.delta = self.narrowest = loss.delta if isinstance(loss, SmoothedHingeSum) else 0.0
        if isinstance(loss, (HingeSum, SmoothedHingeSum)):
            for delta in WIDEST * 0.5 ** np.arange(40):
                self.delta = max(delta, self.narrowest)
                if self._smoothing_cost(f) <= off:
                    break
        self.nu = 0.0
        if self.statement.p < 2:
            self.nu = (off / (self.statement.lam * len(self.machine.pairs))) ** (1.0 / self.statement.p)
            self.nu = max(self.nu, 1e-12)

    @property
    def _loss(self) -> ScoreLoss:
        """The loss, smoothed if it has to be."""
        return SmoothedHingeSum(self.delta) if self.delta > 0 else self.statement.loss

    def _smoothing_cost(self, f: Floats) -> float:
        """What is lost by multipliers of the smoothed loss: its gain above that of the loss itself."""
        if self.delta == self.narrowest:
            return 0.0
        a = self._loss.multipliers(f)
        return float(self.machine.weight[:, 0] @ (self._loss.gain(a) - self.statement.loss.gain(a)))

    def _respond(self, f: Floats) -> tuple[Floats, Curvature]:
        """Return the multipliers of f, and the second derivatives that go with the present ones."""
        loss, s, machine = self._loss, self.machine.weight, self.machine
        a = loss.multipliers(f)
        if isinstance(loss, SmoothedHingeSum):
            gamma = 1.0 - f
            root = np.hypot(gamma, loss.delta)
            own = a if self.alpha is None else self.alpha / s
            h = np.maximum(1.0 - (2.0 * own - 1.0) * (gamma / root), 0.0) / (2.0 * root)
            return s * a, SeparateCurvature(machine.scores, machine.members, s * h)
        if isinstance(loss, LogisticSum):
            return s * a, SeparateCurvature(machine.scores, machine.members, s * a * (1.0 - a))
        return s * a, JointCurvature(machine.scores, a)

    def run(self) -> tuple[Status, int]:
        """Step until the monitor says stop; return why and how many steps it took."""
        steps = stalled = 0
        smallest, lowest = math.inf, self.bounds.upper
        status = self.monitor.report(0, self.bounds.lower, self.bounds.upper)
        while status is None:
            # A step too long for floating point is found out by the line search.
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                self._step()
            steps += 1
            status = self.monitor.report(steps, self.bounds.lower, self.bounds.upper)
            slight = 1e-2 * self.monitor.tol * max(1.0, lowest)
            stalled = 0 if self.promised < 0.9 * smallest or self.bounds.upper < lowest - slight else stalled + 1
            smallest, lowest = min(smallest, self.promised), min(lowest, self.bounds.upper)
            if status is None and stalled > PATIENCE:
                status = Status.INACCURATE
        if status is not Status.OPTIMAL:
            self._look_for_duals(self.alpha)
        return status, steps

    def _look_for_duals(self, *alphas: Floats | None) -> None:
        s = self.machine.weight
        candidates = [np.clip(alpha, 0.0, s) for alpha in alphas if alpha is not None]
        self.bounds.take_dual(self.U, candidates, self.flow)

    def _step(self) -> None:
        machine, statement = self.machine, self.statement
        f = self._differences(self.scores)
        exact, curvature = self._respond(f)
        norms = PairNorms(machine, self.U, self.nu, self.flow)
        gradient = machine.gradient(exact, norms)
        if self.direct:
            D = machine.direct_step(gradient, curvature, norms, whole=self.whole)
        else:
            D = machine.iterative_step(gradient, curvature, norms, forcing=self._forcing, limit=CG_LIMIT)
        promise = -float((gradient * D).sum())
        if not 0 < promise < math.inf:
            D, promise = np.zeros_like(D), 0.0
        dS = np.asarray(machine.Z @ D)
        df = self._differences(dS)
        length = self._search(f, df, D, promise) if promise > 0 else 1.0
        self.whole = length < SHORT
        # What the linearised equations say of the multipliers and flows after a full step.
        full = exact - curvature.apply(df)
        own = exact if self.alpha is None else self.alpha
        part = min(length, 1.0)
        s = machine.weight
        # At a bound a multiplier would be blind to what smoothing has left.
        self.alpha = np.clip(own + part * (full - own), BACK * own, s - BACK * (s - own))
        if statement.p < 2:
            start = norms.flow if self.flow is None else self.flow
            self.flow = start + part * (norms.flow + norms.apply(D[:-1] @ machine.P) - start)
        self.U = self.U + length * D
        self.scores = self.scores + length * dS
        self._take_stock(promise, full, part)

    @property
    def _forcing(self) -> float:
        return 0.1 if self.missing > 1e-2 * max(1.0, self.bounds.upper) else 0.03

    def _take_stock(self, promise: float, full: Floats, part: float) -> None:
        """Evaluate the new point, look for dual points if it is worth it, and lower the smoothing."""
        machine, statement, monitor = self.machine, self.statement, self.monitor
        f = self._differences(self.scores)
        norms = PairNorms(machine, self.U, self.nu, self.flow)
        upper = machine.objective(self.U, self._total(statement.loss, f))
        self.bounds.take_model(self.U, upper)
        loss_cost = self._smoothing_cost(f)
        norm_cost = self._norm_cost(norms) if self.nu > 0 else 0.0
        allowed = monitor.tol * max(1.0, upper)
        self.promised = promise + loss_cost + norm_cost
        if self.promised <= CLOSE * allowed or self.promised <= PROGRESS * min(self.missing, abs(upper)):
            self.missing = self.promised
            if isinstance(self._loss, SmoothedHingeSum):
                self._look_for_duals(self.alpha, full if part < 1 else None)
            else:
                self._look_for_duals(machine.weight * self._loss.multipliers(f))
        cost = loss_cost + norm_cost
        if promise <= SLOW_SHARE * cost:
            factor = QUICK if promise <= QUICK_SHARE * cost else SLOW
            if loss_cost > LAST_SHARE * allowed:
                self.delta = max(factor * self.delta, self.narrowest)
            if norm_cost > LAST_SHARE * allowed:
                self.nu *= factor

    def _norm_cost(self, norms: PairNorms) -> float:
        """What is lost by the flows of smoothed norms."""
        statement = self.statement
        lam, p = statement.lam, statement.p
        size, length = np.linalg.norm(norms.flow, axis=0), np.linalg.norm(norms.V, axis=0)
        size = np.minimum(size, lam) if p == 1 else size
        return float((lam * length**p + hinge_power_conjugate(size, lam, p) - size * length).sum())

    def _search(self, f: Floats, df: Floats, D: Floats, promise: float) -> float:
        """Return a step length near which the slope of the smoothed objective vanishes."""
        machine, loss = self.machine, self._loss

        def slope(length: float) -> float:
            norms = PairNorms(machine, self.U + length * D, self.nu, None)
            multipliers = machine.weight * loss.multipliers(f + length * df)
            return float((norms.gradient * D).sum() - (multipliers * df).sum())

        low, low_slope, high, high_slope = 0.0, -promise, math.inf, math.inf
        length = 1.0
        for _ in range(SEARCHES):
            now = slope(length)
            if abs(now) <= FLAT * promise or (now < 0 and length >= LONGEST):
                return length
            if now < 0:
                low, low_slope = length, now
                # What stays an end for long counts less and less: slopes may jump.
                high_slope /= 2.0
            else:
                # Also where the slope is not finite.
                high, high_slope = length, now if math.isfinite(now) else math.inf
                low_slope /= 2.0
            if math.isinf(high):
                length = 2.0 * length
            else:
                share = low_slope / (low_slope - high_slope) if math.isfinite(high_slope) else 0.0
                length = low + (high - low) * min(0.9, max(0.1, share))
        return low
