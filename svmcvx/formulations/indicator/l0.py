r"""The kernel SVM with l0-norm hinge loss: a mixed-integer program, and certificates of its local
minima.

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i\,1[u_i < 1], \qquad u_i = y_i(\langle w, \varphi(x_i)\rangle + b).

The global form drops observations by big-M rows; see
:mod:`svmcvx.formulations.indicator.statement`, also for the symbols. Its upper bound is the
objective of the model returned, its lower bound the one that the solver states to have proved.

**Local minima.** (w, b) is a local minimiser if and only if there are multipliers
:math:`\mu \in R^n` (λ in [LinYaoLiu]) with, for :math:`u = 1 - y f` and some step τ > 0,

.. math:: c = -\mathrm{diag}(y)\mu,\qquad y'\mu = 0,\qquad u = \mathrm{prox}_{\tau C\|(\cdot)_+\|_0}(u - \tau\mu),

where the prox sets entries in :math:`(0, \sqrt{2\tau C s_i}]` to zero. Hence :math:`\mu \le 0`, and
:math:`\mu_i \ne 0` only on the canonical hyperplanes. The hard-margin machine of any set of
observations is such a point, with :math:`\mu = -\alpha`.

**Scaling.** With a penalised intercept it would be the 0-1 problem
(:mod:`svmcvx.formulations.indicator.zero_one`) with λ = 2C.

**Source.** [LinYaoLiu], eq. (2.4), Definition 3.12 and Theorems 3.13 and 3.14.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.certificate.bounded import Bounded, exact, total
from svmcvx.data import binary_data, check_number
from svmcvx.feature_space import feature_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.indicator.big_m import check_total_price
from svmcvx.formulations.indicator.statement import CountingStatement
from svmcvx.heuristics.big_m_bound import WIDENING, big_m_bound
from svmcvx.kernels import KernelLike
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel
from svmcvx.model.binary import is_constant
from svmcvx.solution import OptimalIntercepts

__all__ = ["L0", "l0_objective", "l0_statement"]

Floats: TypeAlias = NDArray[np.float64]

# Margins whose distance from 1 exceeds this, relative to the largest, choose the step of the
# proximal residual.
CLEARLY_OFF = 1e-8


def l0_objective(
    squared_norm: float, u: Floats, *, C: float, weight: Floats | float = 1.0
) -> float:
    r"""Return :math:`\tfrac12\|w\|^2 + C\sum_i s_i 1[u_i < 1]`."""
    return float(weighted_objective(squared_norm, total(weight * zero_one(u)), C=C))


def weighted_objective(squared_norm: Any, loss: Any, *, C: Any) -> Any:
    r"""Return :math:`\tfrac12\|w\|^2 + C\,\ell` of a weighted loss, of plain or of bounded numbers."""
    return 0.5 * squared_norm + C * loss


@dataclass(frozen=True, eq=False)
class L0(CountingStatement):
    """The kernel SVM with l0-norm hinge bound to data."""

    name: ClassVar[str] = "l0"
    half: ClassVar[float] = 0.5
    C: float = 1.0

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C and the kernel."""
        return {"C": self.C, **super().hyperparameters}

    def objective_value(self, norm: Any, loss: Any) -> Any:
        """½‖w‖² + C·loss."""
        return weighted_objective(norm, loss, C=self.C)

    def _big_m_bound(self, value: float) -> Floats:
        return big_m_bound(
            self.geometry,
            lambda weight: 2 * (value * (1 + WIDENING) - self.C * weight),
            lowest=self.slack_allowed,
            all_dropped=2.0,
        )

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts | None:
        """One alone, which observations of both classes on the margin fix; of w = 0 a half-line.
        None for a local minimum.
        """
        b = model.intercept
        if self.kind == "local":
            return None
        if not is_constant(model):
            return OptimalIntercepts(b, b)
        return OptimalIntercepts(1.0, math.inf) if b > 0 else OptimalIntercepts(-math.inf, -1.0)

    def dual_violation(self, dual: Dual) -> float:
        """0 without multipliers, and for finite ones of a local certificate, whose quality is in the
        residuals.
        """
        if not dual:
            return 0.0
        local = self.kind == "local" and np.isfinite(self.entry(dual, "mu")).all()
        return 0.0 if local else math.inf

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """0, since no objective is negative: the multipliers of a local minimum prove no more."""
        return exact(0.0 if self.dual_violation(dual) == 0.0 else -math.inf)

    def residuals(self, model: BinaryModel, dual: Dual) -> Mapping[str, float]:
        r"""Residuals of proximal stationarity, if there are multipliers.

        ``"expansion"``: largest difference between the scores of the model and of :math:`c =
        -\mathrm{diag}(y)\mu`, relative to the largest score; ``"balance"``: :math:`|y'\mu|`
        relative to :math:`\sum|\mu_i|`; ``"complementarity"``: largest of :math:`(\mu_i)_+` and
        :math:`\min(|\mu_i|, |u_i|)`, relative to the largest multiplier; ``"proximal"``: largest
        entry of u − prox(u − τμ) at the step ``"tau"``; ``"stationarity"``: the largest of these.
        """
        found = dict(super().residuals(model, dual))
        if "mu" not in dual:
            return found
        mu, f = self.entry(dual, "mu"), model.scores(self.space.data.X).value
        u = 1.0 - self.y * f
        expanded = self.space.point(-self.y * mu).scores.value
        # The scores of the space are without the bias, and those of a linear space belong to
        # centred data.
        difference = f - expanded
        difference -= (difference.max() + difference.min()) / 2
        size = max(1.0, float(np.abs(mu).max()))
        tau = self.step(u, mu)
        moved = u - tau * mu
        threshold = np.sqrt(2 * tau * self.C * self.weight)
        proximal = np.where((moved > 0) & (moved <= threshold), 0.0, moved)
        residuals = {
            "expansion": float(np.abs(difference).max()) / max(1.0, float(np.abs(f).max())),
            "balance": abs(math.fsum(self.y * mu)) / max(1.0, float(np.abs(mu).sum())),
            "complementarity": float(
                np.maximum(mu, np.minimum(np.abs(mu), np.abs(u))).max(initial=0.0)
            )
            / size,
            "proximal": float(np.abs(u - proximal).max()),
        }
        return {**found, **residuals, "stationarity": max(residuals.values()), "tau": tau}

    def step(self, u: Floats, mu: Floats) -> float:
        r"""Return a step at which the proximal equation holds for a local minimiser with u = 1 − y
        f and multipliers μ.

        The prox must keep each violated u_i, :math:`u_i > \sqrt{2\tau C s_i}`, and zero each
        supporting one, :math:`-\tau\mu_i \le \sqrt{2\tau C s_i}`; half of the largest such step.
        """
        price = 2 * self.C * self.weight
        off = u > CLEARLY_OFF * max(1.0, float(np.abs(u).max()))
        keeps = float(((u**2 / price)[off]).min(initial=math.inf))
        with np.errstate(divide="ignore"):
            zeroes = float((price / mu**2).min(initial=math.inf))
        largest = min(keeps, zeroes)
        return 0.5 * largest if math.isfinite(largest) else 1.0

    def polish(self, kept: NDArray[np.bool_]) -> RecoveredPoints:
        """Return the hard-margin machine of a set of observations and its multipliers, a local
        minimiser.
        """
        kept = np.asarray(kept, dtype=bool)
        found = self.geometry.refit(kept)
        if found is None:
            return RecoveredPoints([], [])
        return self.restricted_points(found.alpha, found.b, kept)

    def restricted_points(
        self, alpha: Floats, b: float, kept: NDArray[np.bool_]
    ) -> RecoveredPoints:
        """Return the model and the multipliers μ = −α of the hard-margin machine (α, b) of a set of
        observations.
        """
        return RecoveredPoints([self._scaled(alpha * self.y, b, kept)], [{"mu": -alpha}])


def l0_statement(
    X: Any,
    y: Any,
    *,
    C: float,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    indefinite: str = "error",
    keep_gram: bool = True,
) -> L0:
    """Return the l0-norm hinge SVM bound to data, for local certificates.

    ``statement.certify(model, {"mu": multipliers})`` has kind "local": the lower bound 0
    and the residuals of proximal stationarity; ``statement.polish(kept)`` makes local minimisers.
    """
    C = check_number(C, "C", low=0, open_low=True)
    space = feature_space(
        binary_data(X, y, sample_weight),
        kernel,
        intercept="free",
        indefinite=indefinite,
        keep_gram=keep_gram,
    )
    check_total_price(C, space.data.weight, "C")
    return L0(space=space, kind="local", C=C)
