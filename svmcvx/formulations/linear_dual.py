r"""Dual bounds of an objective to which a linear term was added, as multipliers of further
constraints do.

For a statement :math:`\min_{w,b} \tfrac12\|w\|^2 + \sum_i \ell_i(u_i)` with multipliers α of its
losses and :math:`v_i = \alpha_i y_i`,

.. math::
    \min_{w, b}\; \tfrac12\|w\|^2 + \sum_i \ell_i(u_i) + \kappa\|w\|^2 + c_w'w + c_b b + k
    \;\ge\; \sum_i -\ell_i^*(-\alpha_i) - \frac{\|X'v - c_w\|^2}{2(1 + 2\kappa)} + k
    \quad\text{where}\quad \textstyle\sum_i v_i = c_b .
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.core.bounded import Bounded, exact
from svmcvx.core.rows import Ball
from svmcvx.feature_space import FeatureSpace, LinearSpace
from svmcvx.model import BinaryModel

__all__ = ["HasLinearDual", "LinearDual", "LinearTerm"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class LinearTerm:
    r"""A term :math:`\kappa\|w\|^2 + c_w'w + c_b b + c_\xi'\xi + k` of an objective."""

    w: Ball | None
    on_b: Floats
    xi: Bounded | None
    curvature: Bounded
    constant: Bounded


class LinearDual:
    """The dual side of a statement with ½‖w‖² and no free intercept, plus a linear term."""

    def __init__(self, statement: Any) -> None:
        self.statement = statement
        self.space: FeatureSpace = statement.space

    @property
    def variables(self) -> frozenset[str]:
        """Variables of the primal problem that a linear term may have; with a kernel only ‖w‖² can
        be bounded.
        """
        return (
            frozenset(("w",))
            if isinstance(self.space, LinearSpace) and self.space.factor_is_data
            else frozenset()
        )

    def values(self, model: BinaryModel, variables: Mapping[str, Any]) -> dict[str, Bounded]:
        """Return the values of :attr:`variables` at a model; `variables` has the values that are
        not part of the model.
        """
        if "w" not in self.variables:
            return {}
        w = np.asarray(model.coef)  # type: ignore[attr-defined]
        w = np.append(w, model.intercept) if self.space.intercept == "penalised" else w
        return {"w": exact(w)}

    def model(self, values: Mapping[str, Floats], like: BinaryModel) -> BinaryModel:
        """Return the model of other values of the variables, on the same observations."""
        support = np.isin(self.space.data.index, like.support)
        return self.space.model_from_factor(
            values["w"], float(values.get("b", np.zeros(1))[0]), support
        )

    def squared_norm(self, model: BinaryModel) -> Bounded:
        """Return ‖w‖²."""
        return self.space.squared_norm(model)

    def evaluate(self, model: BinaryModel, variables: Mapping[str, Any]) -> Bounded:
        """Objective at a model, with values for variables that are no part of it."""
        found: Bounded = self.statement.evaluate(model)
        return found

    def start(self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]) -> Dual:
        """Return the multipliers of the losses from what a solver has left."""
        w = np.asarray(variables["w"], dtype=np.float64)
        return {"theta": self.statement.multipliers(self.statement.margins_at(w))}

    def expansion(self, dual: Dual) -> Ball:
        """Return X'v."""
        found: Ball = self.space.expansion(self.statement.coefficients(dual))  # type: ignore[attr-defined]
        return found

    def repair(self, dual: Dual, term: LinearTerm) -> tuple[Dual, Floats]:
        """Return feasible multipliers of the losses, and the parts of c_b that go with them."""
        return self.statement.repair(dual), term.on_b

    def violation(self, dual: Dual, term: LinearTerm) -> float:
        """Largest violation of a dual constraint, 0 only if there is none."""
        found: float = self.statement.dual_violation(dual)
        return found

    def minus_conjugate(self, dual: Dual, term: LinearTerm) -> Bounded:
        """The part of the dual objective without w."""
        found: Bounded = self.statement.minus_conjugate(dual)
        return found

    def bound(self, dual: Dual, term: LinearTerm) -> Bounded:
        """The dual objective with the term, a lower bound at feasible multipliers."""
        if term.w is None:
            norm = self.space.point(self.statement.coefficients(dual)).squared_norm
        else:
            norm = (self.expansion(dual) - term.w).squared_norm()
        return (
            self.minus_conjugate(dual, term)
            - 0.5 * (norm / (1.0 + 2.0 * term.curvature))
            + term.constant
        )


@runtime_checkable
class HasLinearDual(Protocol):
    """A statement whose dual side can have an added linear term."""

    def linear_dual(self) -> LinearDual:
        """Return that dual side."""
