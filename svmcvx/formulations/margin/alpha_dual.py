r"""What the soft and the hard margin share: multipliers α ≥ 0 with y'α = 0, the dual of a free intercept."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, accumulated_rounding
from svmcvx.feature_space import Product
from svmcvx.formulations.base import BinaryStatement

__all__ = ["AlphaDualStatement", "balance"]

Floats: TypeAlias = NDArray[np.float64]


def balance(alpha: Floats, y: Floats) -> Floats:
    """Scale down the class whose multipliers sum to more until y'α = 0."""
    positive, negative = float(alpha[y > 0].sum()), float(alpha[y < 0].sum())
    if positive == negative:
        return alpha
    smaller = min(positive, negative)
    factor = np.where(
        y > 0,
        smaller / max(positive, smaller, np.finfo(float).tiny),
        smaller / max(negative, smaller, np.finfo(float).tiny),
    )
    return alpha * factor


@dataclass(frozen=True, eq=False)
class AlphaDualStatement(BinaryStatement):
    """A statement whose dual point is ``alpha``, with α ≥ 0 and y'α = 0."""

    def alpha(self, dual: Dual) -> Floats:
        """Return the multipliers of the observations that are kept, whichever way they are indexed."""
        return self.entry(dual, "alpha")

    def _balance(self, alpha: Floats) -> float:
        """Return y'α without rounding."""
        return math.fsum((self.y * alpha)[alpha != 0].tolist())

    def upper_bound(self) -> Floats | float:
        """Return the upper bounds of the multipliers."""
        return math.inf

    def repair(self, dual: Dual) -> Dual:
        """Clip α to its domain, then balance the classes."""
        return {"alpha": balance(np.clip(self.alpha(dual), 0.0, self.upper_bound()), self.y)}

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −α, the excess of α over its upper bound, and |y'α| beyond the rounding of that sum."""
        alpha = self.alpha(dual)
        if not np.isfinite(alpha).all():
            return math.inf
        imbalance = abs(self._balance(alpha)) - accumulated_rounding(alpha.size) * float(np.abs(alpha).sum())
        return max(0.0, float(-alpha.min()), float((alpha - self.upper_bound()).max()), imbalance)

    def dual_rounding(self, alpha: Floats, point: Product, terms: float) -> float:
        """Return the rounding of the dual objective, `terms` being the sum of what is added up besides the norm."""
        # An imbalance δ, of rounding size, changes the value by |b δ|, and |b| is at most 1 + max|f|.
        off = abs(self._balance(alpha)) * (1.0 + float(np.abs(point.scores).max()))
        return accumulated_rounding(alpha.size) * terms + 0.5 * point.squared_norm_rounding + off
