r"""The SVM with ramp loss, as a mixed-integer program.

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+), \qquad u_i = y_i(\langle w, \varphi(x_i)\rangle + b).

An indicator :math:`z_i \in \{0, 1\}` drops observation i at the price of a loss of 2; the others
have slacks :math:`\xi_i \in [0, 2]`. For big-M and the symbols see
:mod:`svmcvx.formulations.indicator.statement`. The upper bound is the objective of the model
returned, the lower bound the one that the solver states to have proved.

**Scaling.** The optimum is at most that of the hinge SVM (``psvm_dual`` with p = 1) at the same C.

**Source.** [Brooks], as restated in [CepedaGomezHan], § 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import exact, total
from svmcvx.formulations.indicator.l0 import L0, weighted_objective
from svmcvx.formulations.indicator.pool import counting_pool
from svmcvx.formulations.indicator.statement import IndicatorStatement, ModelMargins
from svmcvx.formulations.optimal_intercepts import hinge_intercepts
from svmcvx.heuristics.big_m_bound import WIDENING, big_m_bound
from svmcvx.heuristics.hinge_machine import ramp_descent
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent
from svmcvx.losses import ramp
from svmcvx.model import BinaryModel
from svmcvx.solution import OptimalIntercepts
from svmcvx.system.cancellation import interruptible
from svmcvx.system.deadline import Deadline, current

__all__ = ["Ramp", "ramp_objective", "ramp_pool"]

Floats: TypeAlias = NDArray[np.float64]


def ramp_objective(squared_norm: Any, u: Any, *, C: Any, weight: Any = 1.0) -> Any:
    r"""Return :math:`\tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+)`."""
    return weighted_objective(squared_norm, total(weight * ramp(u)), C=C)


@dataclass(frozen=True, eq=False)
class Ramp(IndicatorStatement):
    """The ramp loss problem bound to data."""

    name: ClassVar[str] = "ramp"
    slack_allowed: ClassVar[float] = 2.0
    C: float = 1.0

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C and the kernel."""
        return {"C": self.C, **super().hyperparameters}

    def objective_value(self, norm: Any, loss: Any) -> Any:
        """½‖w‖² + C·loss."""
        return weighted_objective(norm, loss, C=self.C)

    def _value_above(self, measured: ModelMargins, tie: float) -> tuple[float, float]:
        u, norm = measured
        high = ramp_objective(norm, exact(u.lower), C=self.C, weight=self.loss_weight)
        return high.upper_end, float(total(self.weight * ramp(u.value)))

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts:
        """Those of the hinge machine of the observations that are not dropped; without an end where
        these are of one class.
        """
        lower, upper = self._optimal_moves(self.measured(model).u.value)
        return OptimalIntercepts(model.intercept + lower, model.intercept + upper)

    def _optimal_moves(self, u: Floats) -> tuple[float, float]:
        """Return the ends of the interval of moves of b, from these margins, to what is optimal
        with the same w.

        An observation with u ≤ −1 is dropped. Where (w, b) is optimal the others have at least the
        margin −1 on all of the interval: below it the ramp loss would be less than the hinge loss.
        """
        f, kept = self.y * u, u > -1.0 + ON_MARGIN
        signs = np.unique(self.y[kept])
        if signs.size == 2:
            return hinge_intercepts(f[kept], self.y[kept], self.weight[kept])
        if not signs.size:
            return 0.0, 0.0
        end = float((signs[0] - f).max() if signs[0] > 0 else (signs[0] - f).min())
        return (end, math.inf) if signs[0] > 0 else (-math.inf, end)

    def model_in_the_middle(self, w: Floats, b: float) -> BinaryModel:
        """Return the model of w with the middle of the optimal intercepts, or their only end; of
        (w, b) under explicit M.
        """
        if not self.unproved.any():
            lower, upper = self._optimal_moves(self.geometry.incumbent(w, b, ramp).u)
            b += (
                (lower + upper) / 2
                if math.isfinite(lower + upper)
                else lower
                if math.isfinite(lower)
                else upper
            )
        return self.model_at(w, b)

    def incumbent_models(self) -> list[BinaryModel]:
        """Return the model of the incumbent, if there is one."""
        point = self.incumbent
        return [] if point is None else [self.model_in_the_middle(point.w, point.b)]

    def bound_of_search(self, value: float) -> float:
        """As the module on the error of the factor derives it."""
        return self.factor_error.ramp(value, exact(self.C) * self.loss_weight)

    def _big_m_bound(self, value: float) -> Floats:
        return big_m_bound(
            self.geometry,
            lambda weight: 2 * (value * (1 + WIDENING) - 2 * self.C * weight),
            lowest=self.slack_allowed,
            all_dropped=2.0,
        )


def ramp_pool(
    counting: L0,
    earlier: Floats | None,
    *,
    heuristics: bool = True,
    deadline: Deadline | None = None,
) -> tuple[Incumbent, ...]:
    """Return feasible points: constant scores, hinge machines of what these give up, and those of
    the counting heuristics.
    """
    geometry, sets = counting.geometry, [np.zeros(counting.y.size, dtype=bool)]
    points = [(np.zeros(geometry.G.shape[1]), b) for b in (1.0, -1.0)]
    if earlier is not None:
        sets.append(earlier < -1.0)
    if heuristics:
        starts, _ = counting_pool(counting, earlier, lam=2 * counting.C, k=None)
        points += [(point.w, point.b) for point in starts]
        sets.append(starts[0].u < -1.0)
    deadline = deadline or current()
    with interruptible(deadline):
        points += [ramp_descent(geometry, counting.C, dropped, deadline.passed) for dropped in sets]
    return tuple(geometry.incumbent(w, b, ramp) for w, b in points)
