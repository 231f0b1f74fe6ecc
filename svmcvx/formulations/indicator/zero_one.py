r"""The SVM with the exact 0-1 loss, as a mixed-integer program.

.. math:: \min_w\; \|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1] \qquad\text{or}\qquad
    \min_w\; \|w\|^2 \;\text{ s.t. }\; \sum_i s_i\,1[u_i < 1] \le k,

with :math:`u_i = y_i\langle w, \varphi(x_i)\rangle`, the intercept being the coefficient of a
constant feature, and weights :math:`s_i > 0` (1 by default). An indicator :math:`z_i \in \{0, 1\}`
drops observation i.

**Big-M form.** :math:`u_i \ge 1 - M_i z_i`, with values of M that are valid by construction:
:mod:`svmcvx.formulations.indicator.statement`.

**Perspective form** (0-1 loss), for any γ > 0 with :math:`Q = I - \sum_i\gamma_i x_ix_i' \succeq
0`:

.. math::
    \min\; \|w\|^2 - \sum_i \gamma_i(1-u_i)^2 + \sum_i \gamma_i\Big(\frac{(1-u_i)_+^2}{z_i} + \frac{(1-u_i)_-^2}{1-z_i}\Big)
    + \lambda \sum_i s_i z_i.

It needs no M. A solver's tolerance ε lets through margins that are short by
:math:`\sqrt\varepsilon`, so the valid big-M rows are added by default; ``M=None`` leaves them out,
and with the best γ the continuous relaxation is then the conic one.

**Bounds.** The upper bound is the objective of the model returned
(:mod:`svmcvx.formulations.indicator.statement`). The lower bound is the better of two: the one that
the solver states to have proved, and the dual bound of the conic relaxation
(:mod:`svmcvx.formulations.conic_loss.statement`), which the checker computes.

============== ======================================== =========
symbol         meaning                                  shape
============== ======================================== =========
X, y           data, labels ±1                          (n, d), (n,)
L              data, or a factor of the Gram matrix     (n, r)
w              normal in the columns of L               (r,)
z              1 for observations that are dropped      (n,)
M              how far a dropped margin may be below 1  (n,)
gamma          weights of the perspective form          (n,)
============== ======================================== =========

**Scaling.** There is no ½: it is the l0-norm hinge (:mod:`svmcvx.formulations.indicator.l0`) with C
= λ/2 and a penalised intercept.

**Source.** [Brooks], as restated in [CepedaGomezHan], § 2 and eq. (14) of § 3.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import Bounded, exact, total
from svmcvx.certificate.rows import row_bytes
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.formulations.indicator.statement import CountingStatement
from svmcvx.heuristics.big_m_bound import WIDENING, big_m_bound
from svmcvx.losses import zero_one

__all__ = ["ZeroOne", "zero_one_objective"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


def zero_one_objective(squared_norm: float, u: Floats, *, lam: float) -> float:
    r"""Return :math:`\|w\|^2 + \lambda\sum_i 1[u_i < 1]`."""
    return float(counted_objective(squared_norm, total(zero_one(u)), lam=lam))


def counted_objective(squared_norm: Any, missed: Any, *, lam: Any) -> Any:
    r"""Return :math:`\|w\|^2 + \lambda W` of the dropped weight W, of plain or of bounded numbers."""
    return squared_norm + lam * missed


@dataclass(frozen=True, eq=False)
class ZeroOne(CountingStatement):
    """The 0-1 loss problem bound to data: penalised by `lam`, or with dropped weight at most `k`."""

    name: ClassVar[str] = "zero_one"
    half: ClassVar[float] = 1.0
    lam: float | None = None
    k: float | None = None
    form: str = "big-m"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """λ or k, the kernel, and the form."""
        own = {"lam": self.lam} if self.lam is not None else {"k": self.k}
        return {**own, **super().hyperparameters, "form": self.form}

    def objective_value(self, norm: Any, loss: Any) -> Any:
        """‖w‖² + λ·loss, or ‖w‖² while the loss is at most k."""
        if self.lam is not None:
            return counted_objective(norm, loss, lam=self.lam)
        assert self.k is not None  # noqa: S101 - exactly one is given
        found = np.where(loss <= self.k, norm, math.inf)
        return found if found.ndim else float(found)

    def _within_budget(self, dropped: Bools, k: float) -> bool:
        """Whether the weight of these observations is at most k, exactly."""
        # The sign of a correctly rounded sum is exact.
        return math.fsum([*self.weight[dropped].tolist(), -k]) <= 0.0

    def _above(self, norm: Bounded, dropped: Bools) -> float:
        if self.k is None:
            return float(counted_objective(norm, self.dropped_weight(dropped), lam=self.lam).upper)
        return float(norm.upper) if self._within_budget(dropped, self.k) else math.inf

    def _big_m_bound(self, value: float) -> Floats:
        def norm_limit(weight: Floats) -> Floats:
            if self.lam is not None:
                return value * (1 + WIDENING) - self.lam * weight
            bound = self.objective_value(value, weight)
            return np.where(np.isfinite(bound), bound, -1.0)

        return big_m_bound(self.geometry, norm_limit, lowest=self.slack_allowed, all_dropped=1.0)

    @cached_property
    def relaxed(self) -> ConicLoss:
        """The conic relaxation, whose dual bounds this problem too."""
        # Rounded so that κ Σ s is at least k.
        kappa = None if self.k is None else float((exact(self.k) / total(exact(self.weight))).upper)
        return ConicLoss(space=self.space, lam=self.lam, kappa=kappa)

    @cached_property
    def is_inseparable(self) -> bool:
        """Whether no model drops weight k only, since observations with equal features and other
        labels, whose scores are equal for any kernel, weigh more.
        """
        if self.k is None:
            return False
        X = self.space.data.X
        rows = X.tocsr() if sp.issparse(X) else X
        weights: dict[bytes, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
        for i, (sign, weight) in enumerate(zip(self.y.tolist(), self.weight.tolist(), strict=True)):
            weights[row_bytes(rows, i)][sign > 0] += Fraction(weight)
        return sum((min(sides) for sides in weights.values()), Fraction(0)) > Fraction(self.k)

    def repair(self, dual: Dual) -> Dual:
        """As for the conic relaxation."""
        return self.relaxed.repair(dual) if dual else dual

    def dual_violation(self, dual: Dual) -> float:
        """As for the conic relaxation."""
        return self.relaxed.dual_violation(dual) if dual else 0.0

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """The dual objective of the conic relaxation; 0 without multipliers."""
        return self.relaxed.evaluate_dual(dual) if dual else super().evaluate_dual(dual)

    def explain(self, status: str) -> str:
        """Infeasible: the data cannot be separated by dropping so little. Stopped, or hidden by
        rounding: it is not known whether they can.
        """
        if status in ("infeasible", "numerical") and self.k is not None and not self.unproved.any():
            if not self.is_inseparable and (status == "numerical" or not self.rows_are_exact):
                return (
                    f"no point that drops observations of total weight at most {self.k:g} was"
                    " found, and rounding hides whether there is one; raise k, or use lam"
                )
            return (
                "the classes are not separable in this feature space when observations of total"
                f" weight at most {self.k:g} are dropped; raise k, or use lam"
            )
        if status in ("time_limit", "iteration_limit", "interrupted") and self.k is not None:
            return (
                f"no point that drops observations of total weight at most {self.k:g} was found"
                " before the search was stopped; raise k or the limits, or use lam"
            )
        return super().explain(status)
