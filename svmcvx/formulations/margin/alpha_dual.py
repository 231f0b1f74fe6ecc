r"""What the soft and the hard maximum-margin machines share: multipliers α ≥ 0 with y'α = 0 and a free intercept."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, accumulated_rounding
from svmcvx.feature_space import FeatureSpace, Product
from svmcvx.formulations.base import Formulation, full_entry, kept_entry

__all__ = ["CLEARLY_ZERO", "MaximumMargin", "balance"]

Floats: TypeAlias = NDArray[np.float64]

# By complementarity α(u − 1)₊ = 0; a solver's point decides which factor is zero where one is this much smaller.
CLEARLY_ZERO = 1e-3


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
class MaximumMargin(Formulation):
    """What the soft and the hard margin share: multipliers α ≥ 0 with y'α = 0."""

    space: FeatureSpace

    @property
    def facts(self) -> Mapping[str, float]:
        """Facts of the kernel."""
        return self.space.facts

    @property
    def y(self) -> Floats:
        """Labels ±1."""
        return self.space.data.y

    def alpha(self, dual: Dual) -> Floats:
        """Return the multipliers of the observations that are kept, whichever way they are indexed."""
        return kept_entry(dual, "alpha", self.space.data, self.name)

    def _balance(self, alpha: Floats) -> float:
        """Return y'α without rounding."""
        return math.fsum((self.y * alpha)[alpha != 0].tolist())

    def upper_bound(self) -> Floats | float:
        """Return the upper bounds of the multipliers."""
        return math.inf

    def repair(self, dual: Dual) -> Dual:
        """Clip α to its domain, then scale down the class whose sum is larger."""
        return {"alpha": balance(np.clip(self.alpha(dual), 0.0, self.upper_bound()), self.y)}

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −α, α above its upper_bound, and |y'α| beyond the rounding of that sum."""
        alpha = self.alpha(dual)
        if not np.isfinite(alpha).all():
            return math.inf
        imbalance = abs(self._balance(alpha)) - accumulated_rounding(alpha.size) * float(np.abs(alpha).sum())
        return max(0.0, float(-alpha.min()), float((alpha - self.upper_bound()).max()), imbalance)

    def export_dual(self, dual: Dual) -> Dual:
        """α with a zero for each observation of weight zero."""
        return {"alpha": full_entry(self.alpha(dual), self.space.data)}

    def dual_rounding(self, alpha: Floats, point: Product, terms: float) -> float:
        """Return the rounding of the dual objective, `terms` being the sum of what is added up besides the norm."""
        # A balance that is off by δ costs |b δ|; the bias is no larger than the scores around it.
        off = abs(self._balance(alpha)) * (1.0 + float(np.abs(point.scores).max()))
        return accumulated_rounding(alpha.size) * terms + 0.5 * point.squared_norm_rounding + off
