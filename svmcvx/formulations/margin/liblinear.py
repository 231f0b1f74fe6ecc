r"""The pSVM whose intercept is penalised with the rest, or absent: the problem of LIBLINEAR.

**Primal** and **dual** are those of :mod:`svmcvx.formulations.margin.psvm` with b = 0; the dual then has no constraint
:math:`y'\alpha = 0`:

.. math::
    \min_w\; \tfrac12\|w\|^2 + C \sum_i s_i\, (1 - y_i\langle w, \varphi(x_i)\rangle)_+^p, \qquad
    \max_{\alpha \ge 0}\; \sum_i \alpha_i - C (p-1) \sum_i s_i \Big(\frac{\alpha_i}{C s_i p}\Big)^{\gamma} - \tfrac12 v'Kv.

A penalised intercept is the coefficient of a constant feature in `X`.

**Scaling.** At p = 1 and p = 2 this is ``LinearSVC`` with ``loss="hinge"`` and ``"squared_hinge"``, the same C; its constant
feature has the value ``intercept_scaling``.

**Source.** [FanEtAl] (LIBLINEAR, 2008), eq. (1) and section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, accumulated_rounding
from svmcvx.feature_space import Product
from svmcvx.formulations.margin.psvm import PSVM

__all__ = ["PenalisedPSVM"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class PenalisedPSVM(PSVM):
    """The statement bound to data.

    Parameters
    ----------
    space : FeatureSpace
        With a penalised intercept or none.
    C : float
        Weight of the losses, positive.
    p : float
        Exponent of the hinge, at least 1.
    """

    name: ClassVar[str] = "penalised psvm"

    def repair(self, dual: Dual) -> Dual:
        """Clip α to its domain."""
        return {"alpha": np.clip(self.alpha(dual), 0.0, self.upper_bound())}

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −α and the excess of α over its upper bound."""
        alpha = self.alpha(dual)
        if not np.isfinite(alpha).all():
            return float("inf")
        return max(0.0, float(-alpha.min()), float((alpha - self.upper_bound()).max()))

    def dual_rounding(self, alpha: Floats, point: Product, terms: float) -> float:
        """Return the rounding of the dual objective, `terms` being the sum of what is added up besides the norm."""
        return accumulated_rounding(alpha.size) * terms + 0.5 * point.squared_norm_rounding
