r"""Newton's method for the classical multi-class machines.

**Hinges** (Weston-Watkins, Crammer-Singer, M-SVM, top-k): the augmented Lagrangian method for the dual problem [LiSunToh]. The
envelope of the loss around multipliers (:mod:`svmcvx.fast.multiclass.envelopes`) is minimised, with the penalty, in (W, b) by a
semismooth Newton method until the gradient's part of the gap is a small share of the rest; then its multipliers become the
centre, and σ grows. At the multipliers α of a point

.. math:: P(W, b) - D(\alpha) = \sum_i\Big(s_i\ell(f_i) - \sum_k\alpha_{ik}(1 - f_{ik})\Big) + \frac{\|\rho W - G\|^2}{2\rho} - g_b'b.

**Softmax** with squared norms is smooth: Newton's method itself, whose steps are found by conjugate gradients where factors would
cost more.

Source: [LiSunToh] = Li, Sun and Toh 2018, A highly efficient semismooth Newton augmented Lagrangian method for solving lasso
problems.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.multiclass.bounds import ScoreBounds
from svmcvx.fast.multiclass.classical_systems import ClassicalSystem, Squares
from svmcvx.fast.multiclass.envelopes import Envelope, FaceCurvature, Response
from svmcvx.fast.multiclass.line_search import LineSearchSettings, line_search
from svmcvx.fast.multiclass.score_systems import Curvature, JointCurvature
from svmcvx.solution import Status

__all__ = ["AugmentedNewton", "ClassicalNewtonSettings"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class ClassicalNewtonSettings:
    """Numbers that steer Newton's method.

    Attributes
    ----------
    first_stiffness, warm_stiffness : float
        First penalty σ times the mean squared norm of an observation over ρ, without and with multipliers to start from.
    sigma_growth, largest_sigma : float
        Factor by which σ grows, and the largest stiffness.
    gradient_share : float
        The gradient's part of the gap, relative to the rest, at which the multipliers become the centre.
    damping : float
        Second derivative of the biases that is added, relative to their gradient.
    line_search : LineSearchSettings
        Of the line search.
    dual_progress, dual_close : float
        Dual points are computed when the estimated gap has fallen by the factor ``dual_progress``, or is at most
        ``dual_close`` times the tolerance.
    patience : int
        Steps without progress after which the method ends.
    direct_work : float
        Floating-point operations of a factorisation above which conjugate gradients are used.
    largest_direct : int
        Rows of a system above which they are.
    cg_limit : int
        Products in a run of conjugate gradients, at most.
    """

    first_stiffness: float = 10.0
    warm_stiffness: float = 1e3
    sigma_growth: float = 4.0
    largest_sigma: float = 1e14
    gradient_share: float = 0.1
    damping: float = 1e-2
    line_search: LineSearchSettings = field(default_factory=LineSearchSettings)
    dual_progress: float = 0.1
    dual_close: float = 3.0
    patience: int = 25
    direct_work: float = 3e10
    largest_direct: int = 6000
    cg_limit: int = 400


class AugmentedNewton:
    """Newton steps on envelopes of the loss, or on the loss itself where it is smooth.

    Parameters
    ----------
    system : ClassicalSystem
    bounds : ScoreBounds
    monitor : Monitor
    U : ndarray
        Start.
    alpha : ndarray of shape (n, c − 1), optional
        Multipliers to start with, inside their domain.
    settings : ClassicalNewtonSettings, optional
        The defaults if None.
    """

    def __init__(
        self,
        system: ClassicalSystem,
        bounds: ScoreBounds,
        monitor: Monitor,
        U: Floats,
        alpha: Floats | None = None,
        *,
        settings: ClassicalNewtonSettings | None = None,
    ) -> None:
        self.system, self.bounds, self.monitor = system, bounds, monitor
        self.settings = settings or ClassicalNewtonSettings()
        self.statement, self.loss = system.statement, system.statement.loss
        self.U, self.S = U, np.asarray(system.Z @ U)
        self.envelope: Envelope | None = None
        if not self.loss.smooth:
            self.envelope = Envelope(system.scores, self.loss)
            stiffness = self.settings.first_stiffness if alpha is None else self.settings.warm_stiffness
            self.unit = system.rho / max(float(system.squares.mean()), np.finfo(float).tiny)
            self.envelope.sigma = stiffness * self.unit
            if alpha is not None:
                self.envelope.start(alpha)
        if alpha is not None:
            bounds.update_dual_point({"alpha": system.scores.expand(alpha)})
        self.error_at_duals = math.inf
        self.kinds: set[str] = set()

    def run(self) -> tuple[Status, int]:
        """Step until the monitor says stop; return why and how many steps it took."""
        steps, best, idle = 0, math.inf, 0
        while True:
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                estimate, proposal = self._evaluate()
            status = self.bounds.report(self.monitor, steps)
            gap = min(estimate, self.bounds.upper - self.bounds.lower)
            idle = 0 if gap < 0.99 * best else idle + 1
            best = min(best, gap)
            if status is None and idle > self.settings.patience:
                status = Status.INACCURATE
            if status is not None:
                if status is not Status.OPTIMAL:
                    self.bounds.update_dual_point({"alpha": self.system.scores.expand(self.alpha)})
                return status, steps
            with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
                self._step(proposal)
            steps += 1

    def _differences(self, S: Floats) -> Floats:
        return self.system.scores.differences(S)

    def _multipliers(self, f: Floats) -> tuple[Floats, Response | None]:
        if self.envelope is None:
            return self.system.weight * self.loss.multipliers(f), None
        response = self.envelope.respond(f)
        return self.envelope.multipliers(response), response

    def _evaluate(self) -> tuple[float, tuple[Floats, Floats, Response | None]]:
        """Evaluate the present point; move the centre while the gradient is small enough. Return an estimate of the gap."""
        system, settings = self.system, self.settings
        f = self._differences(self.S)
        losses = system.weight[:, 0] @ self.loss.value(f)
        upper = float(losses) + system.penalty_value(self.U)
        self.bounds.update_model(self.U, upper)
        for _ in range(2):
            alpha, response = self._multipliers(f)
            gradient = system.gradient(alpha, self.U)
            d = system.columns
            part = 0.5 * float((gradient[:d] ** 2).sum()) / system.rho + float(np.abs(gradient[d:]).sum())
            left = 0.0
            if self.envelope is not None:
                left = max(float(losses) - float((alpha * (1.0 - f)).sum()), 0.0)
            self.alpha = alpha
            self._offer_dual(part + left, upper)
            if self.envelope is None or part > settings.gradient_share * left:
                break
            self.envelope.centre = response.full
            self.envelope.sigma = min(self.envelope.sigma * settings.sigma_growth, settings.largest_sigma * self.unit)
            if DEBUG: print(f"   centre moved, stiffness {self.envelope.sigma/self.unit:.1e}")
        if DEBUG:
            print(f"{self.monitor.seconds:.2f} upper {self.bounds.upper:.6g} now {upper:.6g} part {part:.2e} left {left:.2e} lower {self.bounds.lower:.6g} imb {np.abs(gradient[d:]).sum():.1e} free {0 if response is None else (response.state==1).sum()}")
        return part + left, (f, gradient, response)

    def _offer_dual(self, estimate: float, upper: float) -> None:
        """Compute a dual point if the estimated gap has become small enough."""
        size = max(abs(self.bounds.upper), abs(self.bounds.lower))
        close = estimate <= self.settings.dual_close * self.monitor.tol * size
        if close or estimate <= self.settings.dual_progress * min(self.error_at_duals, size):
            self.error_at_duals = estimate
            self.bounds.update_dual_point({"alpha": self.system.scores.expand(self.alpha)})

    def _step(self, point: tuple[Floats, Floats, Response | None]) -> None:
        f, gradient, response = point
        system = self.system
        damping = self.settings.damping * float(np.abs(gradient[system.columns :]).max(initial=0.0))
        D = self._direction(f, gradient, response, damping)
        predicted = -float((gradient * D).sum())
        if not 0 < predicted < math.inf:
            if DEBUG: print("no descent")
            return
        dS = np.asarray(system.Z @ D)
        df = self._differences(dS)
        d = system.columns
        along = system.rho * float((self.U[:d] * D[:d]).sum()), system.rho * float((D[:d] ** 2).sum())

        def slope(length: float) -> float:
            alpha, _ = self._multipliers(f + length * df)
            return along[0] + length * along[1] - float((alpha * df).sum())

        length = line_search(slope, predicted, self.settings.line_search)
        if DEBUG: print(f"      length {length:.3g} predicted {predicted:.2e}")
        self.U = self.U + length * D
        self.S = self.S + length * dS

    def _direction(self, f: Floats, gradient: Floats, response: Response | None, damping: float) -> Floats:
        system, settings = self.system, self.settings
        penalty = Squares(system, damping)
        curvature: Curvature
        n, d = system.scores.data.n, system.shape[0]
        by_classes = system.unknowns**3 / 3.0
        if response is None or self.envelope is None:
            curvature = JointCurvature(system.scores, self.loss.multipliers(f))
            by_classes += n * system.shape[1] ** 2 / 2.0 * d**2
        else:
            faces = self.envelope.faces(response)
            curvature = FaceCurvature(system.scores, self.envelope.sigma, faces)
            m = faces.owner.size
            by_classes += m * d**2
            by_faces = m**3 / 3.0 + 4.0 * m**2 + np.unique(faces.owner).size ** 2 * d
            if m <= settings.largest_direct and by_faces <= min(by_classes, settings.direct_work):
                step = system.observation_step(gradient, curvature, damping)
                if step is not None:
                    self.kinds.add("by observations")
                    return step
        if system.unknowns <= settings.largest_direct and by_classes <= settings.direct_work:
            self.kinds.add("by classes")
            return system.direct_step(gradient, curvature, penalty, complete=True)
        self.kinds.add("conjugate gradients")
        return system.iterative_step(gradient, curvature, penalty, forcing=0.03, limit=settings.cg_limit)

DEBUG = False
