r"""The dual side of the pSVM with a linear term in its objective.

A term :math:`c_\xi'\xi` adds to the cost of the slacks :math:`\xi_i \ge (1-u_i)_+`: the conjugate
of a loss is taken at :math:`(\alpha_i - c_{\xi i})_+`, and the box of p = 1 is :math:`\alpha_i \le
C s_i + c_{\xi i}`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, correctly_rounded, exact, positive_part, total
from svmcvx.certificate.exactly import balanced, dot_exactly, imbalance
from svmcvx.formulations.base import LinearDual, LinearTerm
from svmcvx.losses import hinge_power_conjugate, slack
from svmcvx.model import BinaryModel

__all__ = ["MarginLinearDual"]

Floats: TypeAlias = NDArray[np.float64]


class MarginLinearDual(LinearDual):
    """The dual side of a pSVM plus a linear term; a free intercept demands Σv = c_b exactly."""

    @property
    def free(self) -> bool:
        """Whether there is a free intercept."""
        return self.space.intercept == "free"

    @property
    def variables(self) -> frozenset[str]:
        """A free intercept, the slacks, and the normal of a linear machine."""
        return super().variables | {"xi"} | ({"b"} if self.free else set())

    def values(self, model: BinaryModel, variables: Mapping[str, Any]) -> dict[str, Bounded]:
        """Return w, the intercept that belongs to the centred data, and slacks that are large
        enough.
        """
        found = super().values(model, variables)
        if self.free:
            b = exact(model.intercept)
            if self.space.is_linear and self.space.centre.any():
                b = correctly_rounded(dot_exactly(self.space.centre, model.coef, model.intercept))  # type: ignore[attr-defined]
            found["b"] = Bounded(np.array([b.value]), np.array([b.error]))
        if "xi" in variables:
            found["xi"] = exact(self.slacks(model, variables["xi"]))
        return found

    def slacks(self, model: BinaryModel, xi: Floats) -> Floats:
        """Return numbers that are at least ξ and every loss :math:`(1-u_i)_+`."""
        found: Floats = np.maximum(
            np.asarray(xi, dtype=np.float64), slack(self.statement.margins_of(model)).upper
        )
        return found

    def evaluate(self, model: BinaryModel, variables: Mapping[str, Any]) -> Bounded:
        """½‖w‖² + CΣsξ^p, with the losses of the model where no slacks are passed."""
        if "xi" not in variables:
            return super().evaluate(model, variables)
        statement = self.statement
        powers = exact(self.slacks(model, variables["xi"])) ** exact(statement.p)
        losses = exact(statement.C) * total(statement.loss_weight * powers)
        return Evaluation.of(regulariser=0.5 * statement.penalty(model), losses=losses)

    def start(self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]) -> Dual:
        """Return the multipliers of the margins."""
        return {"alpha": np.asarray(multipliers["margin"], dtype=np.float64)}

    def upper_bound(self, term: LinearTerm) -> Floats | float:
        """Return what the multipliers are cut at; negative where no multiplier is feasible."""
        largest = self.statement.largest_multiplier()
        if term.xi is None or self.statement.p != 1:
            return np.asarray(largest)
        return np.asarray((exact(largest) + term.xi).lower)

    def repair(self, dual: Dual, term: LinearTerm) -> tuple[Dual, Floats]:
        """Clip α to its box, and balance it with the parts of c_b: these are observations of the
        other sign.
        """
        upper_bound = np.broadcast_to(
            np.maximum(self.upper_bound(term), 0.0), self.statement.y.shape
        )
        alpha = self.statement.alpha(dual)
        if not self.free:
            return {"alpha": np.clip(np.nan_to_num(alpha, nan=0.0), 0.0, upper_bound)}, term.on_b
        parts = np.concatenate([alpha, np.abs(term.on_b)])
        sides = np.concatenate([self.statement.y, np.where(term.on_b > 0, -1.0, 1.0)])
        largest = np.full(term.on_b.size, np.max(self.statement.largest_multiplier()))
        found = balanced(
            parts, sides, np.concatenate([upper_bound, np.maximum(largest, np.abs(term.on_b))])
        )
        return {"alpha": found[: alpha.size]}, np.copysign(found[alpha.size :], term.on_b)

    def violation(self, dual: Dual, term: LinearTerm) -> float:
        """Largest of −α, the excess of α over its box, and |Σv − c_b|; 0 only if none of them is
        above 0.
        """
        alpha = self.statement.alpha(dual)
        upper_bound = np.asarray(self.upper_bound(term))
        if (
            not (np.isfinite(alpha).all() and np.isfinite(term.on_b).all())
            or (upper_bound < 0.0).any()
        ):
            return math.inf
        outside = max(0.0, float(-alpha.min()), float((alpha - upper_bound).max()))
        if not self.free:
            return outside
        parts = np.concatenate([alpha, np.abs(term.on_b)])
        sides = np.concatenate([self.statement.y, np.where(term.on_b > 0, -1.0, 1.0)])
        off = abs(imbalance(parts, sides))
        return max(outside, off) if math.isfinite(off) else math.inf

    def minus_conjugate(self, dual: Dual, term: LinearTerm) -> Bounded:
        """Σα minus the conjugates of the losses plus the term in ξ."""
        statement = self.statement
        if term.xi is None:
            return super().minus_conjugate(dual, term)
        alpha = exact(statement.alpha(dual))
        if statement.p == 1:
            # The conjugates are zero inside the box.
            return total(alpha)
        beyond, cost = positive_part(alpha - term.xi), exact(statement.C) * statement.loss_weight
        found: Bounded = total(alpha - hinge_power_conjugate(beyond, cost, exact(statement.p)))
        return found
