r"""The SVM with ramp loss, as a mixed-integer program.

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+), \qquad u_i = y_i(\langle w, \varphi(x_i)\rangle + b).

An indicator :math:`z_i \in \{0, 1\}` drops observation i at the price of a loss of 2; the others have slacks
:math:`\xi_i \in [0, 2]`. For big-M and the symbols see :mod:`svmcvx.formulations.indicator.statement`. The upper bound is the objective of
the model returned, the lower bound the one that the solver states to have proved.

**Scaling.** The optimum is at most that of the hinge SVM (``psvm_dual`` with p = 1) at the same C.

**Source.** [Brooks], as restated in [CepedaGomezHan], § 2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Evaluation
from svmcvx.core.bounded import exact, total
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.building import builder
from svmcvx.formulations.indicator.big_m import explicit_M, free_intercept
from svmcvx.formulations.indicator.l0 import L0, l0_statement, weighted_objective
from svmcvx.formulations.indicator.pool import counting_pool, incumbent_margins
from svmcvx.formulations.indicator.problems import DroppingProblem
from svmcvx.formulations.indicator.statement import IndicatorStatement, ModelMargins
from svmcvx.formulations.optimal_intercepts import hinge_intercepts
from svmcvx.heuristics.big_m_bound import WIDENING, big_m_bound
from svmcvx.heuristics.hinge_machine import ramp_descent
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent
from svmcvx.kernels import KernelLike
from svmcvx.losses import ramp
from svmcvx.model import BinaryModel, Model
from svmcvx.solution import OptimalIntercepts
from svmcvx.system.cancellation import interruptible
from svmcvx.system.deadline import Deadline, current

__all__ = ["Ramp", "RampProblem", "ramp_mio", "ramp_objective", "ramp_pool"]

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

    def _value_above(self, measured: ModelMargins, tie: float) -> Evaluation:
        u, norm = measured
        high = ramp_objective(norm, exact(u.lower), C=self.C, weight=self.loss_weight)
        regulariser = 0.5 * float(norm.value)
        losses = float(ramp_objective(0.0, u.value, C=self.C, weight=self.weight))
        return Evaluation.at_most(high.upper_end, regulariser=regulariser, losses=losses)

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts:
        """Those of the hinge machine of the observations that are not dropped; without an end where these are of one class."""
        lower, upper = self._optimal_moves(self.measured(model).u.value)
        return OptimalIntercepts(model.intercept + lower, model.intercept + upper)

    def _optimal_moves(self, u: Floats) -> tuple[float, float]:
        """Return the ends of the interval of moves of b, from these margins, to what is optimal with the same w.

        An observation with u ≤ −1 is dropped. Where (w, b) is optimal the others have at least the margin −1 on all of the
        interval: below it the ramp loss would be less than the hinge loss.
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
        """Return the model of w with the middle of the optimal intercepts, or their only end; of (w, b) under explicit M."""
        if not self.unproved.any():
            lower, upper = self._optimal_moves(self.geometry.incumbent(w, b, ramp).u)
            b += (lower + upper) / 2 if math.isfinite(lower + upper) else lower if math.isfinite(lower) else upper
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
    counting: L0, earlier: Floats | None, *, heuristics: bool = True, deadline: Deadline | None = None
) -> tuple[Incumbent, ...]:
    """Return feasible points: constant scores, hinge machines of what these give up, and those of the counting heuristics.

    Parameters
    ----------
    counting : L0
        The l0 problem on the same data.
    earlier : ndarray of shape (n,) or None
        Margins of a known classifier.
    heuristics : bool
        Whether the counting heuristics run, which take seconds on hundreds of observations.
    deadline : Deadline, optional
        That of the call by default.
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


class RampProblem(DroppingProblem):
    """The ramp loss problem; see :func:`ramp_mio`.

    Attributes
    ----------
    M : ndarray of shape (n,)
    incumbent : Incumbent
    """

    def recover(self) -> RecoveredPoints:
        """The hinge machine of the observations that are not dropped, the solver's own point, and the incumbent."""
        statement = self.formulation
        w, b, kept = self.solver_point()
        points = []
        if w is not None:
            points = [ramp_descent(statement.geometry, statement.C, ~kept, current().passed), (w, b)]
        models = [statement.model_in_the_middle(*point) for point in points] + statement.restricted_models(
            kept, statement.C
        )
        return RecoveredPoints([*models, *statement.incumbent_models()], [])

    def start(self) -> Mapping[str, Any] | None:
        """The incumbent."""
        values = self.start_at_incumbent()
        point = self.incumbent
        if values is None or point is None:
            return None
        return values | {
            "z": (point.u < -1.0).astype(float),
            "xi": np.where(point.u < -1.0, 0.0, ramp(point.u)) * max(1.0, self.formulation.C),
        }


@builder
def ramp_mio(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    M: Any = "auto",
    kernel: KernelLike = None,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
    time_limit: float | None = None,
) -> RampProblem:
    r"""Build the SVM with ramp loss as a mixed-integer program.

    .. math::
        \min\; \tfrac12\|w\|^2 + C \sum_i s_i (\xi_i + 2 z_i) \quad\text{s.t.}\quad
        y_i (L_i w + b) \ge 1 - \xi_i - M_i z_i,\; 0 \le \xi_i \le 2(1 - z_i),\; z \in \{0,1\}^n.

    Parameters
    ----------
    X, y, M, incumbent
        As for :func:`svmcvx.zero_one_mio`.
    C : float
        Weight of the losses, positive; 1 by default. The cvxpy parameter ``problem.param_dict["C"]``.

    Returns
    -------
    RampProblem
        A ``cvxpy.Problem``. Variables ``w``, ``b`` (of centred data when `X` is dense and linear), ``z`` and ``xi``, which
        is :math:`\max(1, C)\,\xi`; parameter ``C`` (and ``M``, ``unit``, ``price``, which follow it); constraints
        labelled ``margin``, ``slack`` and ``ceiling``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: [Brooks], in the scaling of [CepedaGomezHan], § 2, with ½‖w‖². An observation that is dropped needs no
    slack: the upper bound 2(1 − z_i) in place of 2 cuts off no optimum and gives the stronger relaxation.
    Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0], [9.0]], [-1, -1, 1, 1, -1]
    >>> solution = sx.solve(sx.ramp_mio(X, y, C=1.0))  # the last observation costs 2
    >>> round(solution.certificate.upper, 6), solution.certificate.kind
    (2.5, 'mixed-integer')
    """
    counting = l0_statement(X, y, C=C, kernel=kernel, sample_weight=sample_weight, indefinite=indefinite)
    statement = Ramp(space=counting.space, explicit=explicit_M(M, counting.space, optional=False), C=counting.C)
    statement = replace(statement, pool=ramp_pool(counting, incumbent_margins(incumbent, counting)))

    def terms(
        C: cp.Parameter, z: cp.Variable, right: cp.Expression
    ) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        # A solver lets ξ be below 0 by its tolerance, at a price of C: for large C the variable is Cξ instead.
        unit = cp.CallbackParam(callback=lambda: 1.0 / max(1.0, float(C.value)), nonneg=True, name="unit")
        price = cp.CallbackParam(callback=lambda: min(1.0, float(C.value)), nonneg=True, name="price")
        xi = cp.Variable(z.size, name="xi")
        loss = C * (2 * (statement.weight @ z)) + price * (statement.weight @ xi)
        constraints = [(xi >= 0).set_label("slack"), (unit * xi <= 2 * (1 - z)).set_label("ceiling")]
        return loss, right - unit * xi, constraints

    return free_intercept(statement, RampProblem, terms)
