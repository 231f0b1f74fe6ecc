"""The ramp loss as a mixed-integer cvxpy problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.indicator.big_m import explicit_M
from svmcvx.formulations.indicator.l0 import l0_statement
from svmcvx.formulations.indicator.pool import incumbent_margins
from svmcvx.formulations.indicator.problems import DroppingProblem, free_intercept
from svmcvx.formulations.indicator.ramp import Ramp, ramp_pool
from svmcvx.formulations.problem import builder, following
from svmcvx.heuristics.hinge_machine import ramp_descent
from svmcvx.kernels import KernelLike
from svmcvx.losses import ramp
from svmcvx.model import Model
from svmcvx.system.deadline import current

__all__ = ["RampProblem", "ramp_mio"]

Floats: TypeAlias = NDArray[np.float64]


class RampProblem(DroppingProblem):
    """The ramp loss problem; see :func:`ramp_mio`."""

    def recover(self) -> RecoveredPoints:
        """The hinge machine of the observations that are not dropped, the solver's own point, and
        the incumbent.
        """
        statement = self.formulation
        w, b, kept = self.solver_point()
        points = []
        if w is not None:
            points = [
                ramp_descent(statement.geometry, statement.C, ~kept, current().passed),
                (w, b),
            ]
        models = [
            statement.model_in_the_middle(*point) for point in points
        ] + statement.restricted_models(kept, statement.C)
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
        Weight of the losses, positive; 1 by default. The cvxpy parameter
        ``problem.param_dict["C"]``.

    Returns
    -------
    RampProblem
        A ``cvxpy.Problem``. Variables ``w``, ``b`` (of centred data when `X` is dense and linear),
        ``z`` and ``xi``, which is :math:`\max(1, C)\,\xi`; parameter ``C`` (and ``M``, ``unit``,
        ``price``, which follow it); constraints labelled ``margin``, ``slack`` and ``ceiling``.

    Notes
    -----
    Source: [Brooks], in the scaling of [CepedaGomezHan], § 2, with ½‖w‖². An observation that is
    dropped needs no slack: the upper bound 2(1 − z_i) in place of 2 cuts off no optimum and gives
    the stronger relaxation. Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0], [9.0]], [-1, -1, 1, 1, -1]
    >>> solution = sx.solve(sx.ramp_mio(X, y, C=1.0))  # the last observation costs 2
    >>> round(solution.certificate.upper, 6), solution.certificate.kind
    (2.5, 'mixed-integer')
    """
    counting = l0_statement(
        X, y, C=C, kernel=kernel, sample_weight=sample_weight, indefinite=indefinite
    )
    statement = Ramp(
        space=counting.space, explicit=explicit_M(M, counting.space, optional=False), C=counting.C
    )
    statement = replace(statement, pool=ramp_pool(counting, incumbent_margins(incumbent, counting)))

    def terms(
        C: cp.Parameter, z: cp.Variable, right: cp.Expression
    ) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        # A solver lets ξ be below 0 by its tolerance, at a price of C: for large C the variable is
        # Cξ instead.
        unit = following(_unit, C, name="unit")
        price = following(_price, C, name="price")
        xi = cp.Variable(z.size, name="xi")
        loss = C * (2 * (statement.weight @ z)) + price * (statement.weight @ xi)
        constraints = [
            (xi >= 0).set_label("slack"),
            (unit * xi <= 2 * (1 - z)).set_label("ceiling"),
        ]
        return loss, right - unit * xi, constraints

    return free_intercept(statement, RampProblem, terms)


def _unit(C: float) -> float:
    """The unit of a slack: Cξ where C is above 1."""
    return 1.0 / max(1.0, C)


def _price(C: float) -> float:
    """The price of a slack in its unit."""
    return min(1.0, C)
