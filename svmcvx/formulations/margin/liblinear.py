r"""The pSVM whose intercept is penalised with the rest, or absent: the problem of LIBLINEAR.

**Primal** and **dual** are those of :mod:`svmcvx.formulations.margin.psvm` with b = 0; the dual
then has no constraint :math:`y'\alpha = 0`:

.. math::
    \min_w\; \tfrac12\|w\|^2 + C \sum_i s_i\, (1 - y_i\langle w, \varphi(x_i)\rangle)_+^p, \qquad
    \max_{\alpha \ge 0}\; \sum_i \alpha_i - C (p-1) \sum_i s_i \Big(\frac{\alpha_i}{C s_i p}\Big)^{\gamma} - \tfrac12 v'Kv.

A penalised intercept is the coefficient of a constant feature in `X`.

**Scaling.** At p = 1 and p = 2 this is ``LinearSVC`` with ``loss="hinge"`` and ``"squared_hinge"``,
the same C; its constant feature has the value ``intercept_scaling``.

**Source.** [FanEtAl] (LIBLINEAR, 2008), eq. (1) and section 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arguments import INTERCEPTS, intercept_kind
from svmcvx.certificate import Dual
from svmcvx.formulations.margin.psvm import PSVM
from svmcvx.model import BinaryModel

__all__ = ["PenalisedPSVM", "check_intercept", "kind_of_psvm"]

Floats: TypeAlias = NDArray[np.float64]


def check_intercept(intercept: Any) -> str:
    """Return what a pSVM does with its intercept."""
    return intercept_kind(intercept, own="free", kinds=INTERCEPTS)


def kind_of_psvm(intercept: str) -> type[PSVM]:
    """Return the statement of the pSVM with an intercept of this kind."""
    return PSVM if intercept == "free" else PenalisedPSVM


@dataclass(frozen=True, eq=False)
class PenalisedPSVM(PSVM):
    """The statement bound to data."""

    name: ClassVar[str] = "penalised psvm"

    def exact_intercept(self, f: Floats, near: float | None = None) -> float:
        """Zero: an intercept is part of the scores, or there is none."""
        return 0.0

    def optimal_intercepts(self, model: BinaryModel) -> None:
        """None: no intercept is free."""

    def feasible(self, alpha: Floats) -> Floats:
        """Clip multipliers to their domain."""
        return np.clip(np.nan_to_num(alpha, nan=0.0), 0.0, self.largest_multiplier())

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −α and the excess of α over its upper bound."""
        return self.outside_box(self.alpha(dual))

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """The model w = 0, and α = 0."""
        return [self.constant(0.0)], [{"alpha": np.zeros(self.y.size)}]
