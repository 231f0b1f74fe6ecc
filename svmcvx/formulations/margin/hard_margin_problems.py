"""The dual of the hard margin as a cvxpy problem."""

from __future__ import annotations

from typing import Any, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.building import builder, require_conic_memory
from svmcvx.formulations.margin.hard_margin import HardMargin
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.kernels import KernelLike

__all__ = ["HardMarginProblem", "hard_margin_dual"]

Floats: TypeAlias = NDArray[np.float64]

# Times that a model is scaled, at most, until its margins are at least 1 after rounding.


class HardMarginProblem(FormulationProblem):
    """The dual of the hard-margin SVM; see :func:`hard_margin_dual`."""

    def recover(self) -> RecoveredPoints:
        """The model of the multipliers, if it separates the classes."""
        alpha = self.var_dict["alpha"].value
        return (
            self.formulation.recover(np.asarray(alpha, dtype=np.float64))
            if usable(alpha)
            else RecoveredPoints([], [])
        )


@builder
def hard_margin_dual(
    X: Any,
    y: Any,
    *,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> HardMarginProblem:
    r"""Build the dual of the hard-margin SVM as a cvxpy problem.

    .. math:: \max\; \sum_i \alpha_i - \tfrac12 v'Kv \quad\text{s.t.}\quad \alpha \ge 0,\; y'\alpha = 0, \qquad v_i = \alpha_i y_i.

    It is unbounded when the classes are not separable in feature space.

    Parameters
    ----------
    X, y
        As for :func:`psvm_primal`.
    sample_weight : array-like of shape (n,), optional
        Observations of weight zero are left out; any other weight is the same as 1.

    Returns
    -------
    HardMarginProblem
        A ``cvxpy.Problem`` with the variable ``alpha`` and constraints labelled ``nonnegative`` and
        ``balance``.

    Notes
    -----
    [Sun] tabulates this problem as "p = 1" (Table 1).

    Examples
    --------
    >>> import svmcvx as sx
    >>> problem = sx.hard_margin_dual([[0.0], [1.0], [3.0]], [-1, -1, 1])
    >>> round(float(sx.solve(problem).model.coef[0]), 6)  # from 1 to 3, a margin of 1
    1.0
    """
    data = binary_data(X, y, sample_weight)
    statement = HardMargin(
        space=feature_space(data, kernel, intercept="free", indefinite=indefinite)
    )
    y_signs, L = statement.y, statement.space.factor
    require_conic_memory(L, "hard-margin dual")
    alpha = cp.Variable(y_signs.size, name="alpha")
    constraints = [
        (alpha >= 0).set_label("nonnegative"),
        (y_signs @ alpha == 0).set_label("balance"),
    ]
    value = cp.sum(alpha) - 0.5 * cp.sum_squares(L.T @ cp.multiply(y_signs, alpha))
    return HardMarginProblem(cp.Maximize(value), constraints, statement)
