r"""The cvxpy problem of the linear SVM with absolute coefficients; the statement is
:mod:`svmcvx.formulations.margin.absolute_norm`.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np

from svmcvx.data import binary_data, check_choice, check_costs, check_number
from svmcvx.feature_space import feature_space
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.building import builder, require_conic_memory
from svmcvx.formulations.margin.absolute_norm import AbsoluteNormSVM
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.model import LinearModel

__all__ = ["L1Problem", "l1_svm"]


class L1Problem(FormulationProblem):
    """The problem; see :func:`l1_svm`."""

    C: cp.Parameter

    def recover(self) -> RecoveredPoints:
        """The models of the coefficients, with zeros where the multipliers say so, and multipliers."""
        w, alpha = self.var_dict["w"].value, self.constraint_dict["margin"].dual_value
        if not usable(w) or not usable(alpha):
            return RecoveredPoints([], [])
        found: RecoveredPoints = self.formulation.recover(np.asarray(w), np.asarray(alpha))
        return found

    def model_at_variables(self) -> LinearModel | None:
        """The model of the present value of w; None where it has none."""
        w = self.var_dict["w"].value
        if not usable(w):
            return None
        model: LinearModel = self.formulation.model(np.asarray(w))
        return model


@builder
def l1_svm(
    X: Any, y: Any, *, C: float, intercept: str = "penalised", sample_weight: Any = None
) -> L1Problem:
    r"""Build the linear SVM with the sum of absolute coefficients and the squared hinge loss as a
    cvxpy problem.

    .. math::
        \min\; \|w\|_1 + C \sum_i s_i \xi_i^2 \quad\text{s.t.}\quad y_i\langle w, x_i\rangle \ge 1 - \xi_i,\; \xi_i \ge 0.
    """
    C = check_number(C, "C", low=0, open_low=True)
    check_choice(intercept, "intercept", ("penalised", "none"))
    data = binary_data(X, y, sample_weight)
    check_costs(C, data.weight)
    statement = AbsoluteNormSVM(space=feature_space(data, None, intercept=intercept), C=C)
    rows = statement.space.X
    require_conic_memory(rows, "l1 SVM")
    C_parameter = cp.Parameter(pos=True, name="C", value=C)
    w = cp.Variable(rows.shape[1], name="w")
    xi = cp.Variable(data.n, name="xi")
    constraints = [
        (cp.multiply(data.y, rows @ w) >= 1 - xi).set_label("margin"),
        (xi >= 0).set_label("slack"),
    ]
    losses = cp.sum_squares(cp.multiply(np.sqrt(data.weight), xi))
    return L1Problem(
        cp.Minimize(cp.norm1(w) + C_parameter * losses), constraints, statement, [C_parameter]
    )
