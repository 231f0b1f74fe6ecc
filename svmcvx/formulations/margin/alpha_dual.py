r"""What the soft and the hard margin share: multipliers α ≥ 0 with y'α = 0, the dual of a free
intercept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx import numerical as equations
from svmcvx.certificate import Dual
from svmcvx.certificate.exactly import balanced, imbalance
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import BinaryStatement
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.system.deadline import current

__all__ = ["AlphaDualStatement", "solve_support_equations"]

Floats: TypeAlias = NDArray[np.float64]

# Multipliers above this are cut, so that their sums and squares stay numbers.
LARGEST = 2.0**400


@dataclass(frozen=True, eq=False)
class AlphaDualStatement(BinaryStatement):
    """A statement whose dual point is ``alpha``, with α ≥ 0 and y'α = 0."""

    repair_improves: ClassVar[bool] = False

    def alpha(self, dual: Dual) -> Floats:
        """Return the multipliers of the observations of positive weight, for either indexing."""
        return self.entry(dual, "alpha")

    @classmethod
    def expansion_multipliers(cls, dual: Dual) -> Floats | None:
        """Return α."""
        return dual.get("alpha")

    def upper_bound(self) -> Floats | float:
        """Return the upper bounds of the multipliers."""
        return math.inf

    def largest_multiplier(self) -> Floats | float:
        """Return what multipliers are cut at: their upper bounds, and a number whose sums and
        squares still are numbers.
        """
        return np.minimum(self.upper_bound(), LARGEST)

    def constant(self, bias: float) -> BinaryModel:
        """Return the model w = 0 with a bias."""
        data = self.space.data
        if not self.space.is_linear:
            return self.space.model(np.zeros(data.n), bias)
        none = np.zeros(0, dtype=np.intp)
        return LinearModel(
            coef=np.zeros(data.X.shape[1]), intercept=bias, classes=data.classes, support=none
        )

    def feasible(self, alpha: Floats) -> Floats:
        """Clip multipliers to their domain and balance the classes, exactly."""
        return balanced(alpha, self.y, self.largest_multiplier())

    def repair(self, dual: Dual) -> Dual:
        """Make α feasible."""
        return {"alpha": self.feasible(self.alpha(dual))}

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −α, the excess of α over its upper bound, and |y'α|; 0 only if none of them is
        above 0.
        """
        alpha = self.alpha(dual)
        outside = self.outside_box(alpha)
        off = abs(imbalance(alpha, self.y)) if math.isfinite(outside) else math.inf
        return max(outside, off) if math.isfinite(off) else math.inf

    def outside_box(self, alpha: Floats) -> float:
        """Return the largest of −α and the excess of α over what it is cut at; infinite for NaN."""
        if not np.isfinite(alpha).all():
            return math.inf
        return max(0.0, float(-alpha.min()), float((alpha - self.largest_multiplier()).max()))


def solve_support_equations(
    space: FeatureSpace,
    alpha: Floats,
    *,
    free: NDArray[np.bool_],
    upper_bound: Floats,
    bias: float,
    slack: equations.Slack | None,
) -> Floats | None:
    """Return multipliers that solve
    :func:`svmcvx.numerical.solve_support_equations` in a space, or None, also
    where time is up.
    """
    y = space.data.y

    def margins(alpha: Floats) -> Floats:
        return np.asarray(y * space.scores_of(alpha * y))

    def gram(rows: NDArray[np.intp]) -> Floats:
        return np.asarray(y[rows, None] * space.block(rows, rows) * y[rows])

    signed = equations.MarginOperator(margins, gram, y if space.intercept == "free" else None)
    return equations.solve_support_equations(
        signed,
        alpha,
        free=free,
        upper_bound=upper_bound,
        bias=bias,
        slack=slack,
        stop=current().passed,
    )
