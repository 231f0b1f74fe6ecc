r"""Dual bounds of an objective to which a linear term was added, as multipliers of further constraints do.

For a statement :math:`\min_{w,b} \tfrac12\|w\|^2 + \sum_i \ell_i(u_i)` with multipliers α of its losses and
:math:`v_i = \alpha_i y_i`,

.. math::
    \min_{w, b}\; \tfrac12\|w\|^2 + \sum_i \ell_i(u_i) + \kappa\|w\|^2 + c_w'w + c_b b + k
    \;\ge\; \sum_i -\ell_i^*(-\alpha_i) - \frac{\|X'v - c_w\|^2}{2(1 + 2\kappa)} + k
    \quad\text{where}\quad \textstyle\sum_i v_i = c_b .
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.feature_space import FeatureSpace, LinearSpace
from svmcvx.feature_space.linear import square_error
from svmcvx.model import BinaryModel
from svmcvx.rounding import UNDERFLOW, U, norm_above, sum_below

__all__ = ["Bounded", "HasLinearDual", "LinearDual", "LinearTerm"]

Floats: TypeAlias = NDArray[np.float64]


class Bounded(NamedTuple):
    """Numbers and bounds on their errors."""

    values: Floats
    errors: Floats


@dataclass(frozen=True)
class LinearTerm:
    r"""A term :math:`\kappa\|w\|^2 + c_w'w + c_b b + c_\xi'\xi + k` of an objective.

    Attributes
    ----------
    w : ndarray of shape (d,) or None
        c_w; None for zero.
    w_error : float
        Bound on the norm of its error.
    on_b : ndarray
        Numbers whose sum is exactly c_b, each the part of one multiplier.
    xi : ndarray of shape (n,) or None
        At most c_ξ; None for zero.
    curvature : float
        κ, at least 0.
    constant : float
        At most k.
    """

    w: Floats | None
    w_error: float
    on_b: Floats
    xi: Floats | None
    curvature: float
    constant: float


class LinearDual:
    """The dual side of a statement with ½‖w‖² and no free intercept, beside a linear term.

    Parameters
    ----------
    statement : BinaryStatement
        With ``gains`` and ``coefficients``, the parts of its dual objective.
    """

    def __init__(self, statement: Any) -> None:
        self.statement = statement
        self.space: FeatureSpace = statement.space

    @property
    def variables(self) -> frozenset[str]:
        """Variables of the primal problem that a linear term may have; with a kernel only ‖w‖² can be bounded."""
        return frozenset(("w",)) if isinstance(self.space, LinearSpace) and self.space.factor_is_data else frozenset()

    def values(self, model: BinaryModel, variables: Mapping[str, Any]) -> dict[str, Bounded]:
        """Return the values of :attr:`variables` at a model, `variables` for what is no part of it."""
        if "w" not in self.variables:
            return {}
        w = np.asarray(model.coef)  # type: ignore[attr-defined]
        w = np.append(w, model.intercept) if self.space.intercept == "penalised" else w
        return {"w": Bounded(w, np.zeros(w.size))}

    def model(self, values: Mapping[str, Floats], like: BinaryModel) -> BinaryModel:
        """Return the model of other values of the variables, on the same observations."""
        support = np.isin(self.space.data.index, like.support)
        return self.space.model_from_factor(values["w"], float(values.get("b", np.zeros(1))[0]), support)

    def squared_norm_above(self, model: BinaryModel) -> float:
        """Return a number that is at least ‖w‖²."""
        value, rounding = self.space.squared_norm(model)
        return (value + rounding) * (1.0 + 4.0 * U)

    def evaluate(self, model: BinaryModel, variables: Mapping[str, Any]) -> Evaluation:
        """Objective at a model, with values for variables that are no part of it."""
        found: Evaluation = self.statement.evaluate(model)
        return found

    def start(self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]) -> Dual:
        """Return the multipliers of the losses from what a solver has left."""
        w = np.asarray(variables["w"], dtype=np.float64)
        return {"theta": self.statement.multipliers(self.statement.margins_at(w))}

    def expansion(self, dual: Dual) -> tuple[Floats, float]:
        """Return X'v and a bound on the norm of its error."""
        found: tuple[Floats, float] = self.space.expansion(self.statement.coefficients(dual))  # type: ignore[attr-defined]
        return found

    def repair(self, dual: Dual, term: LinearTerm) -> tuple[Dual, Floats]:
        """Return feasible multipliers of the losses, and the parts of c_b that go with them."""
        return self.statement.repair(dual), term.on_b

    def violation(self, dual: Dual, term: LinearTerm) -> float:
        """Largest violation of a dual constraint, 0 only if there is none."""
        found: float = self.statement.dual_violation(dual)
        return found

    def gains(self, dual: Dual, term: LinearTerm) -> Evaluation:
        """The part of the dual objective without w."""
        found: Evaluation = self.statement.gains(dual)
        return found

    def bound(self, dual: Dual, term: LinearTerm) -> Evaluation:
        """The dual objective with the term, a lower bound at feasible multipliers."""
        gains = self.gains(dual, term)
        if term.w is None:
            point = self.space.product(self.statement.coefficients(dual))
            square, error = point.squared_norm, point.squared_norm_rounding
        else:
            w, w_error = self.expansion(dual)
            rest = w - term.w
            square = float(rest @ rest)
            error = square_error(rest, (w_error + term.w_error + U * norm_above(rest)) * (1.0 + 4.0 * U))
        scale = 1.0 + 2.0 * term.curvature
        above = (square + error) / scale * (1.0 + 8.0 * U) + UNDERFLOW
        value = gains.value - 0.5 * square / scale + term.constant
        return Evaluation.at_least(value, sum_below([gains.below, -0.5 * above, term.constant]))


@runtime_checkable
class HasLinearDual(Protocol):
    """A statement whose dual side can have a linear term beside."""

    def linear_dual(self) -> LinearDual:
        """Return that dual side."""
