r"""Losses that count: the exact 0-1 loss, the ramp loss and the l0-norm hinge, as mixed-integer programs.

With :math:`u_i = y_i(\langle w, \varphi(x_i)\rangle + b)` and weights :math:`s_i > 0` (1 by default):

================ ==================================================================================== =============
formulation      objective                                                                            intercept
================ ==================================================================================== =============
0-1 loss         :math:`\|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1]`                                      penalised
0-1, cardinality :math:`\|w\|^2` subject to :math:`\sum_i s_i\,1[u_i < 1] \le k`                      penalised
ramp loss        :math:`\tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+)`                             free
l0-norm hinge    :math:`\tfrac12\|w\|^2 + C\sum_i s_i\,1[u_i < 1]`                                    free
================ ==================================================================================== =============

All count observations inside the margin, not only misclassified ones. An indicator :math:`z_i \in \{0, 1\}` drops
observation i.

**Big-M.** :math:`u_i \ge 1 - M_i z_i`. With ``M="auto"`` the values are valid by construction. An incumbent of value U is
found first (from the conic relaxation, a soft margin, rounding and a local search). A point that is as good and drops
weight W has :math:`\|w\|^2 \le U - \lambda W`; and the margin of a dropped observation is no further below that of a kept
one than the norm times their distance. :func:`svmcvx.formulations.incumbents.reach` turns this into numbers. With a
free intercept, observations of one class are compared, so that b cancels and needs no bound; if a whole class is
dropped, then w = 0, b = ±1 is as good, and M = 2 covers it.

**Perspective form** (0-1 loss), for any γ > 0 with :math:`Q = I - \sum_i\gamma_i x_ix_i' \succeq 0`:

.. math::
    \min\; \|w\|^2 - \sum_i \gamma_i(1-u_i)^2 + \sum_i \gamma_i\Big(\frac{(1-u_i)_+^2}{z_i} + \frac{(1-u_i)_-^2}{1-z_i}\Big)
    + \lambda \sum_i s_i z_i.

It needs no M. A solver's tolerance ε lets through margins that are short by :math:`\sqrt\varepsilon`, so the valid big-M
rows are added by default; ``M=None`` leaves them out, and with the best γ the continuous relaxation is then the conic one.

**Bounds.** The upper bound is the objective of the model returned: the margins are counted after the hard-margin
machine of the kept observations has been solved exactly, and include the cost of scaling it until each kept margin is 1.
The lower bound is the one that the solver states to have proved; for the 0-1 loss the dual bound of the conic
relaxation (:mod:`svmcvx.formulations.conic`), which the checker does prove, where that is better.

**Local minima of the l0-norm hinge.** (w, b) is a local minimiser if and only if there are multipliers
:math:`\mu \in R^n` (λ in the paper) with, for :math:`u = 1 - y f` and some step τ > 0,

.. math:: c = -\mathrm{diag}(y)\mu,\qquad y'\mu = 0,\qquad u = \mathrm{prox}_{\tau C\|(\cdot)_+\|_0}(u - \tau\mu),

where the prox sets entries in :math:`(0, \sqrt{2\tau C s_i}]` to zero. Hence :math:`\mu \le 0`, and :math:`\mu_i \ne 0` only on the
canonical hyperplanes. The hard-margin machine of any set of observations is such a point, with :math:`\mu = -\alpha`.

============== ======================================== =========
symbol         meaning                                  shape
============== ======================================== =========
X, y           data, labels ±1                          (n, d), (n,)
L              data, or a factor of the Gram matrix     (n, r)
w, b           normal in the columns of L, bias         (r,), ()
z              1 for observations that are dropped      (n,)
M              how far a dropped margin may be below 1  (n,)
gamma          weights of the perspective form          (n,)
============== ======================================== =========

**Scaling.** The 0-1 problem has no ½: it is the l0 problem with C = λ/2 and a penalised intercept. The ramp optimum is at
most that of the hinge SVM (``psvm_dual`` with p = 1) at the same C.

**Source.** Brooks (2011) as restated in Robust support vector machines via conic optimization, § 2 and eq. (14) of § 3;
Kernel SVM with l0-norm hinge loss, eq. (2.4), Definition 3.12 and Theorems 3.13 and 3.14.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, TypeAlias, TypeVar

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation, Kind, accumulated_rounding
from svmcvx.data import binary_data, check_choice, check_number
from svmcvx.errors import BuildError, DataError
from svmcvx.formulations import incumbents
from svmcvx.formulations.base import Candidates, Formulation, FormulationProblem
from svmcvx.formulations.conic import ConicLoss, round_relaxation
from svmcvx.formulations.incumbents import Geometry, Incumbent
from svmcvx.kernels import KernelLike
from svmcvx.losses import ramp, zero_one
from svmcvx.model import BinaryModel, Model
from svmcvx.space import FeatureSpace, feature_space

__all__ = [
    "L0",
    "CountingProblem",
    "Ramp",
    "RampProblem",
    "ZeroOne",
    "l0_mio",
    "l0_objective",
    "l0_statement",
    "ramp_mio",
    "ramp_objective",
    "zero_one_mio",
    "zero_one_objective",
]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

FORMS = ("big-m", "perspective")
# A kept observation's margin may be below 1 by rounding, and never by more than this.
LARGEST_SHORTFALL = 1e-3
# An explicit M_i binds where the margin is as low as it allows, up to this share of M_i.
BINDING = 1e-6
# Margins whose distance from 1 exceeds this, relative to the largest, choose the step of the proximal residual.
CLEARLY_OFF = 1e-8


def zero_one_objective(squared_norm: float, u: Floats, *, lam: float, weight: Floats | float = 1.0) -> float:
    r"""Return :math:`\|w\|^2 + \lambda\sum_i s_i 1[u_i < 1]`."""
    return squared_norm + lam * float(np.sum(weight * zero_one(u)))


def l0_objective(squared_norm: float, u: Floats, *, C: float, weight: Floats | float = 1.0) -> float:
    r"""Return :math:`\tfrac12\|w\|^2 + C\sum_i s_i 1[u_i < 1]`."""
    return 0.5 * squared_norm + C * float(np.sum(weight * zero_one(u)))


def ramp_objective(squared_norm: float, u: Floats, *, C: float, weight: Floats | float = 1.0) -> float:
    r"""Return :math:`\tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+)`."""
    return 0.5 * squared_norm + C * float(np.sum(weight * ramp(u)))


@dataclass(frozen=True, eq=False)
class _Dropping(Formulation):
    r"""What the three share: a pool of feasible points, and what it says about M.

    Parameters
    ----------
    space : FeatureSpace
    pool : tuple of Incumbent
        Feasible points, whatever the hyper-parameters.
    explicit : ndarray of shape (n,), optional
        Values of M that the user chose. Where they are not known to be valid, the statement includes the constraint
        :math:`u_i \ge 1 - M_i`.
    """

    # What an observation that is not dropped may be below margin 1.
    slack_allowed: ClassVar[float] = 0.0
    space: FeatureSpace
    kind: Kind = "mixed-integer"
    pool: tuple[Incumbent, ...] = ()
    explicit: Floats | None = None

    @cached_property
    def geometry(self) -> Geometry:
        """Signed rows of the factor."""
        return Geometry.of(self.space)

    def price(self, norm: float, loss: float) -> float:
        """Objective of a point with a squared norm and a loss (in weight); ``inf`` where it is infeasible."""
        raise NotImplementedError

    def least(self, loss: float) -> float:
        """Lower bound on the objective of points with at least this loss."""
        return self.price(0.0, loss)

    def _reach(self, value: float) -> Floats:
        """Valid values of M for points no worse than `value`."""
        raise NotImplementedError

    @property
    def y(self) -> Floats:
        """Labels ±1."""
        return self.space.data.y

    @property
    def weight(self) -> Floats:
        """Weights of the losses."""
        return self.space.data.weight

    def _best(self, pool: Iterable[Incumbent]) -> Incumbent | None:
        best = min(pool, key=lambda point: self.price(point.norm, point.loss), default=None)
        return best if best is not None and math.isfinite(self.price(best.norm, best.loss)) else None

    @cached_property
    def valid_M(self) -> Floats | None:
        """Values of M that cut off no optimum, by the best point of the pool; None without one."""
        best = self._best(self.pool)
        return None if best is None else self._reach(self.price(best.norm, best.loss))

    @cached_property
    def incumbent(self) -> Incumbent | None:
        """The best point of the pool at these hyper-parameters that the statement allows."""
        return self._best(point for point in self.pool if not self._too_low(point.u, np.zeros(self.y.size)))

    @property
    def incumbent_value(self) -> float:
        """Objective of the incumbent; ``inf`` without one."""
        return math.inf if self.incumbent is None else self.price(self.incumbent.norm, self.incumbent.loss)

    @property
    def M(self) -> Floats | None:
        """The values of M in use; None if there are none."""
        return self.valid_M if self.explicit is None else self.explicit

    @cached_property
    def unproved(self) -> Bools:
        """Observations whose M is not known to be valid."""
        if self.explicit is None:
            return np.zeros(self.y.size, dtype=bool)
        return np.ones(self.y.size, dtype=bool) if self.valid_M is None else self.explicit < self.valid_M

    @property
    def facts(self) -> Mapping[str, float]:
        """Facts of the kernel, the incumbent's value, the range of M, and how many M are not known to be valid."""
        facts = dict(self.space.facts)
        if self.incumbent is not None:
            facts["incumbent"] = self.incumbent_value
        if self.M is not None:
            facts |= {"smallest_M": float(self.M.min()), "largest_M": float(self.M.max())}
        if self.unproved.any():
            facts["unproved_M"] = float(self.unproved.sum())
        return facts

    @property
    def details(self) -> Mapping[str, Floats]:
        """``M`` and the incumbent's margins ``incumbent_u``; NaN for observations of weight zero."""
        found = {"M": self.M, "incumbent_u": None if self.incumbent is None else self.incumbent.u}
        return {name: self._export(values) for name, values in found.items() if values is not None}

    def _export(self, values: Floats) -> Floats:
        data = self.space.data
        full = np.full(data.rows, np.nan)
        full[data.index] = values
        return full

    def _kernel_name(self) -> str:
        return "none" if self.space.kernel is None else str(self.space.kernel)

    def _too_low(self, u: Floats, rounding: Floats) -> bool:
        """Whether a margin violates an explicit M that belongs to the statement."""
        if not self.unproved.any():
            return False
        assert self.explicit is not None  # noqa: S101 - only explicit values are unproved
        low = 1.0 - self.explicit - 2 * rounding - accumulated_rounding(1) * (1.0 + self.explicit)
        return bool((u < np.minimum(low, 1.0 - self.slack_allowed))[self.unproved].any())

    def residuals(self, model: BinaryModel, dual: Dual) -> Mapping[str, float]:
        """With explicit M not known to be valid: ``"binding_M"``, the number of them that bind at the model."""
        if not self.unproved.any():
            return {}
        assert self.explicit is not None  # noqa: S101
        u = self.y * model.scores(self.space.data.X)[0]
        binding = self.unproved & (u < 1.0 - self.slack_allowed) & (u <= 1.0 - self.explicit * (1.0 - BINDING))
        return {"binding_M": float(binding.sum())}

    def repair(self, dual: Dual) -> Dual:
        """There is no dual to repair."""
        return dual

    def dual_violation(self, dual: Dual) -> float:
        """No dual point bounds the problem."""
        return math.inf

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """No bound."""
        return Evaluation(-math.inf, 0.0)

    def explain(self, status: str) -> str:
        """Infeasible: too small an M, or too small a k."""
        if status == "infeasible" and self.unproved.any():
            return "no point satisfies all constraints; raise M, or use M='auto'"
        return super().explain(status)

    def models_of(self, kept: Bools, w: Any, b: float) -> list[BinaryModel]:
        """Return the hard-margin machine of a kept set, (w, b) scaled until the kept margins are 1, and the incumbent's."""
        models: list[BinaryModel] = []
        found = self.geometry.refit(kept)
        if found is not None:
            models.append(self._scaled(found.alpha * self.y, found.b, kept))
        if w is not None and np.isfinite(w).all():
            u = self.geometry.incumbent(w, b, zero_one).u
            lowest = float(u[kept].min(initial=1.0))
            shrink = lowest if 1.0 - LARGEST_SHORTFALL < lowest < 1.0 else 1.0
            models.append(self.model_at(w / shrink, b / shrink))
        return [*models, *self.restricted_models(kept, None), *self.incumbent_models()]

    def incumbent_models(self) -> list[BinaryModel]:
        """Return the model of the incumbent, if there is one."""
        if self.incumbent is None:
            return []
        return [self.model_at(self.incumbent.w, self.incumbent.b)]

    def restricted_models(self, kept: Bools, C: float | None) -> list[BinaryModel]:
        """Return the best model that drops a set under explicit rows u ≥ 1 − M, if these belong to the statement."""
        if not self.unproved.any():
            return []
        assert self.explicit is not None  # noqa: S101
        point = incumbents.restricted_point(self.geometry, kept, np.where(self.unproved, self.explicit, np.inf), C)
        return [] if point is None else [self.model_at(*point)]

    def model_at(self, w: Floats, b: float) -> BinaryModel:
        """Return the model of (w, b); its support are the observations on or inside the margin."""
        u = self.geometry.incumbent(w, b, zero_one).u
        return self.space.model_from_factor(w, b, u <= 1.0 + LARGEST_SHORTFALL)

    def _scaled(self, v: Floats, b: float, kept: Bools) -> BinaryModel:
        """The model with coefficients `v`, scaled until the smallest kept margin is 1 to rounding."""
        f = self.space.product(v).scores
        y = self.y
        if not v.any():
            return self.space.model(v, b)
        if self.geometry.free:
            lowest, highest = float(f[kept & (y > 0)].min()), float(f[kept & (y < 0)].max())
            margin, b = (lowest - highest) / 2, -(lowest + highest) / 2
        else:
            margin = float((y * f)[kept].min())
        scale = margin if margin > 1.0 - LARGEST_SHORTFALL else 1.0
        return self.space.model(v / scale, b / scale if self.geometry.free else 0.0)


@dataclass(frozen=True, eq=False)
class _Counting(_Dropping):
    """Violated margins are counted: 0-1 loss and l0-norm hinge."""

    half: ClassVar[float]

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """The objective at a model.

        A margin that is below 1 by no more than its rounding is counted as satisfied; the cost of scaling the model
        until it is satisfied is part of the rounding.
        """
        f, f_rounding = model.scores(self.space.data.X)
        norm, norm_rounding = self.space.squared_norm(model)
        u = self.y * f
        if not np.isfinite(u).all():
            return Evaluation(math.nan, 0.0)
        kept = u >= 1.0 - np.minimum(2 * f_rounding, LARGEST_SHORTFALL)
        loss = float(self.weight @ ~kept)
        if self._too_low(u, f_rounding):
            return Evaluation(math.inf, 0.0)
        short = 1.0 - float(np.minimum(u[kept], 1.0).min(initial=1.0))
        growth = norm * ((1.0 - short) ** -2 - 1.0)
        value = self.price(norm, loss)
        return Evaluation(
            value,
            self.half * (norm_rounding + growth) + (accumulated_rounding(u.size) * value if value < math.inf else 0.0),
        )


@dataclass(frozen=True, eq=False)
class ZeroOne(_Counting):
    """The 0-1 loss problem bound to data: penalised by `lam`, or with dropped weight at most `k`."""

    name: ClassVar[str] = "zero_one"
    half: ClassVar[float] = 1.0
    lam: float | None = None
    k: float | None = None
    form: str = "big-m"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """λ or k, the kernel, and the form."""
        price = {"lam": self.lam} if self.lam is not None else {"k": self.k}
        return {**price, "kernel": self._kernel_name(), "form": self.form}

    def price(self, norm: float, loss: float) -> float:
        """‖w‖² + λ·loss, or ‖w‖² while the loss is at most k."""
        if self.lam is not None:
            return norm + self.lam * loss
        assert self.k is not None  # noqa: S101 - exactly one is given
        return norm if loss <= self.k * (1.0 + accumulated_rounding(self.y.size)) else math.inf

    def _reach(self, value: float) -> Floats:
        if self.lam is not None:
            lam = self.lam
            norm_left: Callable[[Floats], Floats] = lambda weight: value * (1 + incumbents.WIDENING) - lam * weight  # noqa: E731
        else:
            norm_left = lambda weight: np.array([self.price(value, loss) for loss in weight])  # noqa: E731

        def left(weight: Floats) -> Floats:
            bound = norm_left(weight)
            return np.where(np.isfinite(bound), bound, -1.0)

        return incumbents.reach(self.geometry, left, lowest=self.slack_allowed, all_dropped=1.0)

    @cached_property
    def relaxed(self) -> ConicLoss:
        """The conic relaxation, whose dual bounds this problem too."""
        kappa = None if self.k is None else self.k / float(self.weight.sum())
        return ConicLoss(space=self.space, lam=self.lam, kappa=kappa)

    def repair(self, dual: Dual) -> Dual:
        """As for the conic relaxation."""
        return self.relaxed.repair(dual)

    def dual_violation(self, dual: Dual) -> float:
        """As for the conic relaxation."""
        return self.relaxed.dual_violation(dual)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """The dual objective of the conic relaxation."""
        return self.relaxed.evaluate_dual(dual)

    def export_dual(self, dual: Dual) -> Dual:
        """γ and α with a zero for each observation of weight zero."""
        return self.relaxed.export_dual(dual)

    def explain(self, status: str) -> str:
        """Infeasible: the data cannot be separated by dropping so little."""
        if status == "infeasible" and self.k is not None and not self.unproved.any():
            return (
                f"the classes are not separable in this feature space when observations of total weight at most {self.k:g} "
                "are dropped; raise k, or use lam"
            )
        return super().explain(status)


@dataclass(frozen=True, eq=False)
class L0(_Counting):
    """The kernel SVM with l0-norm hinge bound to data.

    Parameters
    ----------
    kind : "mixed-integer" or "local"
        What a certificate means: a bound on the optimum from a mixed-integer solver, or no bound but the residuals
        of proximal stationarity of a model and multipliers ``{"mu": ...}``.
    """

    name: ClassVar[str] = "l0"
    half: ClassVar[float] = 0.5
    C: float = 1.0

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C and the kernel."""
        return {"C": self.C, "kernel": self._kernel_name()}

    def price(self, norm: float, loss: float) -> float:
        """½‖w‖² + C·loss."""
        return 0.5 * norm + self.C * loss

    def _reach(self, value: float) -> Floats:
        return incumbents.reach(
            self.geometry,
            lambda weight: 2 * (value * (1 + incumbents.WIDENING) - self.C * weight),
            lowest=self.slack_allowed,
            all_dropped=2.0,
        )

    def _mu(self, dual: Dual) -> Floats:
        data = self.space.data
        if "mu" not in dual:
            raise DataError(f"the multipliers of {self.name} are the entry 'mu', got {', '.join(dual) or 'nothing'}")
        mu = np.asarray(dual["mu"], dtype=np.float64)
        if mu.shape == (data.rows,):
            return mu[data.index]
        if mu.shape == (data.n,):
            return mu
        raise DataError(f"mu must have one multiplier an observation: expected shape ({data.rows},), got {mu.shape}")

    def dual_violation(self, dual: Dual) -> float:
        """0 for finite multipliers of a local certificate: their worth is in the residuals."""
        return 0.0 if self.kind == "local" and np.isfinite(self._mu(dual)).all() else math.inf

    def export_dual(self, dual: Dual) -> Dual:
        """μ with a zero for each observation of weight zero."""
        return {"mu": np.nan_to_num(self._export(self._mu(dual)))}

    def residuals(self, model: BinaryModel, dual: Dual) -> Mapping[str, float]:
        r"""Residuals of proximal stationarity, if there are multipliers.

        ``"expansion"``: largest difference between the scores of the model and of :math:`c = -\mathrm{diag}(y)\mu`,
        relative to the largest score; ``"balance"``: :math:`|y'\mu|` relative to :math:`\sum|\mu_i|`;
        ``"complementarity"``: largest of :math:`(\mu_i)_+` and :math:`\min(|\mu_i|, |u_i|)`, relative to the largest
        multiplier; ``"proximal"``: largest entry of u − prox(u − τμ) at the step ``"tau"``; ``"stationarity"``: the
        largest of these.
        """
        found = dict(super().residuals(model, dual))
        if "mu" not in dual:
            return found
        mu, f = self._mu(dual), model.scores(self.space.data.X)[0]
        u = 1.0 - self.y * f
        expanded = self.space.product(-self.y * mu).scores
        # The scores of the space are without the bias, and those of a linear space belong to centred data.
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
            "complementarity": float(np.maximum(mu, np.minimum(np.abs(mu), np.abs(u))).max(initial=0.0)) / size,
            "proximal": float(np.abs(u - proximal).max()),
        }
        return {**found, **residuals, "stationarity": max(residuals.values()), "tau": tau}

    def step(self, u: Floats, mu: Floats) -> float:
        r"""Return a step at which the proximal equation holds for a local minimiser with u = 1 − y f and multipliers μ.

        The prox must keep each violated u_i, :math:`u_i > \sqrt{2\tau C s_i}`, and zero each supporting one,
        :math:`-\tau\mu_i \le \sqrt{2\tau C s_i}`; half of the largest such step.
        """
        price = 2 * self.C * self.weight
        off = u > CLEARLY_OFF * max(1.0, float(np.abs(u).max()))
        keeps = float(((u**2 / price)[off]).min(initial=math.inf))
        with np.errstate(divide="ignore"):
            zeroes = float((price / mu**2).min(initial=math.inf))
        largest = min(keeps, zeroes)
        return 0.5 * largest if math.isfinite(largest) else 1.0

    def polish(self, kept: NDArray[np.bool_]) -> Candidates:
        """Return the hard-margin machine of a set of observations and its multipliers, a local minimiser.

        Parameters
        ----------
        kept : ndarray of bool, shape (n,)
            The set, such as the satisfied observations of any iterate. Empty candidates if it is not separable.
        """
        kept = np.asarray(kept, dtype=bool)
        found = self.geometry.refit(kept)
        if found is None:
            return Candidates([], [])
        return Candidates([self._scaled(found.alpha * self.y, found.b, kept)], [{"mu": -found.alpha}])


@dataclass(frozen=True, eq=False)
class Ramp(_Dropping):
    """The ramp loss problem bound to data."""

    name: ClassVar[str] = "ramp"
    slack_allowed: ClassVar[float] = 2.0
    C: float = 1.0

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C and the kernel."""
        return {"C": self.C, "kernel": self._kernel_name()}

    def price(self, norm: float, loss: float) -> float:
        """½‖w‖² + C·loss."""
        return 0.5 * norm + self.C * loss

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """The objective at a model."""
        f, f_rounding = model.scores(self.space.data.X)
        norm, norm_rounding = self.space.squared_norm(model)
        u = self.y * f
        if self._too_low(u, f_rounding):
            return Evaluation(math.inf, 0.0)
        value = ramp_objective(norm, u, C=self.C, weight=self.weight)
        inside = (u < 1.0 + f_rounding) & (u > -1.0 - f_rounding)
        rounding = 0.5 * norm_rounding + self.C * float((self.weight * f_rounding)[inside].sum())
        return Evaluation(value, rounding + accumulated_rounding(u.size) * value)

    def _reach(self, value: float) -> Floats:
        return incumbents.reach(
            self.geometry,
            lambda weight: 2 * (value * (1 + incumbents.WIDENING) - 2 * self.C * weight),
            lowest=self.slack_allowed,
            all_dropped=2.0,
        )


class _DroppingProblem(FormulationProblem):
    _statement: Callable[[], Any]

    @property
    def formulation(self) -> Any:
        """The statement at the present values of the parameters."""
        return self._statement()

    @property
    def M(self) -> Floats | None:
        """Values of M, indexed like the kept observations; None in a perspective form without them."""
        found: Floats | None = self.formulation.M
        return found

    @property
    def incumbent(self) -> Incumbent | None:
        """The feasible point behind them."""
        found: Incumbent | None = self.formulation.incumbent
        return found

    def _point(self) -> tuple[Any, float, Bools]:
        """w, b and the kept set that a solver has left; without a point None, 0 and the incumbent's set."""
        statement = self.formulation
        w, z = self.var_dict["w"].value, self.var_dict["z"].value
        b = self.var_dict["b"].value if "b" in self.var_dict else 0.0
        if w is None or z is None or b is None:
            kept = np.zeros(statement.y.size, dtype=bool)
            return None, 0.0, kept if statement.incumbent is None else ~statement.incumbent.dropped
        return np.asarray(w), float(b), np.asarray(z) < 0.5

    def _start(self) -> dict[str, Any] | None:
        point = self.incumbent
        if point is None:
            return None
        return {"w": point.w} | ({"b": point.b} if "b" in self.var_dict else {})


class CountingProblem(_DroppingProblem):
    """A problem that counts violated margins; see :func:`zero_one_mio` and :func:`l0_mio`.

    Attributes
    ----------
    M : ndarray of shape (n,) or None
    incumbent : Incumbent or None
    gamma : ndarray of shape (n,) or None
        Weights of the perspective form.
    """

    gamma: Floats | None = None
    _duals: tuple[Dual, ...] = ()

    def recover(self) -> Candidates:
        """The hard-margin machine of the kept observations, the solver's own point, the incumbent; γ of the relaxation."""
        w, b, kept = self._point()
        return Candidates(self.formulation.models_of(kept, w, b), list(self._duals))

    def start(self) -> Mapping[str, Any] | None:
        """The incumbent."""
        values = self._start()
        point = self.incumbent
        if values is None or point is None:
            return None
        values["z"] = z = point.dropped.astype(float)
        if self.gamma is not None:
            values["shortfall"] = np.where(z > 0, 1.0 - point.u, 0.0)
            values["excess"] = np.where(z > 0, 0.0, np.maximum(point.u - 1.0, 0.0))
            values["shortfall_cost"], values["excess_cost"] = values["shortfall"] ** 2, values["excess"] ** 2
        return values


class RampProblem(_DroppingProblem):
    """The ramp loss problem; see :func:`ramp_mio`.

    Attributes
    ----------
    M : ndarray of shape (n,)
    incumbent : Incumbent
    """

    def recover(self) -> Candidates:
        """The hinge machine of the observations that are not dropped, the solver's own point, and the incumbent."""
        statement = self.formulation
        w, b, kept = self._point()
        points = []
        if w is not None and np.isfinite(w).all() and math.isfinite(b):
            points = [incumbents.ramp_descent(statement.geometry, statement.C, ~kept), (w, b)]
        models = [statement.model_at(*point) for point in points] + statement.restricted_models(kept, statement.C)
        return Candidates([*models, *statement.incumbent_models()], [])

    def start(self) -> Mapping[str, Any] | None:
        """The incumbent."""
        values = self._start()
        point = self.incumbent
        if values is None or point is None:
            return None
        return values | {
            "z": (point.u < -1.0).astype(float),
            "xi": np.where(point.u < -1.0, 0.0, ramp(point.u)) * max(1.0, self.formulation.C),
        }


def _explicit_M(M: Any, space: FeatureSpace, *, optional: bool) -> Floats | None:
    """Values of M that the user chose, one an observation kept; None for "auto" (and for None where that is allowed)."""
    if (isinstance(M, str) and M == "auto") or (M is None and optional):
        return None
    data = space.data
    if isinstance(M, str) or M is None or np.ndim(M) == 0:
        words = "'auto', a positive number or one an observation"
        if isinstance(M, str) or M is None:
            raise DataError(f"M must be {words}, got {M!r}")
        return np.full(data.n, check_number(M, "M", low=0, open_low=True))
    values = np.asarray(M)
    if values.dtype.kind not in "iuf" or values.shape not in ((data.rows,), (data.n,)):
        raise DataError(f"M must hold one number an observation: expected shape ({data.rows},), got {values.shape}")
    values = values.astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError("M must be finite and non-negative; use M='auto' for values that are valid by construction")
    return values[data.index] if values.shape == (data.rows,) else values


def _model_margins(incumbent: Any, statement: _Dropping) -> list[Floats]:
    """Margins of a model that the user passes as incumbent."""
    if incumbent is None:
        return []
    model = getattr(incumbent, "model", incumbent)
    if not isinstance(model, BinaryModel):
        raise DataError(f"incumbent must be a model of two classes or a Solution, got {type(incumbent).__name__}")
    return [statement.y * model.scores(statement.space.data.X)[0]]


def _counting_pool(
    statement: ZeroOne | L0, incumbent: Any
) -> tuple[tuple[Incumbent, ...], incumbents.Relaxation | None]:
    """Feasible points from all heuristics, and the conic relaxation if it was solved."""
    geometry = statement.geometry
    lam = statement.lam if isinstance(statement, ZeroOne) else 2 * statement.C
    k = statement.k if isinstance(statement, ZeroOne) else None
    relaxed, relaxation = geometry, None
    if geometry.free:
        # For a score only: the free bias as the coefficient of a large constant feature.
        size = max(1.0, float(np.sqrt(np.mean(geometry.G**2))))
        relaxed = replace(geometry, G=np.hstack([geometry.G, 10 * size * geometry.y[:, None]]), free=False)
    relaxation = incumbents.conic_relaxation(relaxed, lam=lam, k=k)
    scores = [np.where(u < 1.0 - incumbents.ON_MARGIN, u, np.inf) for u in _model_margins(incumbent, statement)]
    scores += [incumbents.soft_margin_scores(geometry, 1.0), incumbents.elastic_filter(geometry)]
    points = []
    if relaxation is not None:
        scores += [-relaxation.z, relaxed.G @ relaxation.w]
        if not geometry.free:
            w, _ = round_relaxation(statement.space, relaxation.w, relaxation.z, lam=lam, k=k)
            points.append((w, 0.0))
    best = incumbents.local_search(geometry, statement.price, least=statement.least, scores=scores, points=points)
    zeros = np.zeros(geometry.G.shape[1])
    biases = (0.0, 1.0, -1.0) if geometry.free else (0.0,)
    pool = [geometry.incumbent(zeros, b, zero_one) for b in biases]
    return tuple(([] if best is None else [best]) + pool), relaxation


def _margin_parameter(statement: Callable[[], _Dropping], n: int) -> cp.Expression:
    """M as an expression: constant if explicit, else a parameter that follows the hyper-parameters."""
    explicit = statement().explicit
    if explicit is not None:
        return cp.Constant(explicit)

    def values() -> Floats:
        M = statement().M
        if M is None:
            raise BuildError(
                "no feasible point is known at this k, so M='auto' has nothing to start from; raise k, pass an incumbent or "
                "a number M, or use form='perspective' with M=None"
            )
        return M

    values()
    return cp.CallbackParam(callback=values, shape=(n,), nonneg=True, name="M")


def zero_one_mio(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    k: float | None = None,
    M: Any = "auto",
    form: str = "big-m",
    kernel: KernelLike = None,
    intercept: bool = True,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> CountingProblem:
    r"""Build the SVM with the exact 0-1 loss as a mixed-integer program.

    .. math::
        \min\; \|w\|^2 + \lambda \sum_i s_i z_i \quad\text{s.t.}\quad y_i L_i w \ge 1 - M_i z_i,\; z \in \{0,1\}^n,

    or with :math:`\sum_i s_i z_i \le k` in place of the penalty, or in the perspective form (see the module).

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
        Two labels of any type.
    lam : float
        Price of a margin below 1, positive. The cvxpy parameter ``problem.param_dict["lam"]``. Exactly one of `lam`, `k`.
    k : float
        Largest weight of observations with a margin below 1 (their number, without weights). A cvxpy parameter.
    M : "auto", float, array-like of shape (n,), or None
        ``"auto"`` (the default) is valid by construction. Numbers that are smaller than these are not known to be valid:
        then the problem solved is the one with :math:`u_i \ge 1 - M_i` added, the certificate's interval is about
        *that* problem, and its residuals say so: ``"unproved_M"`` counts such values, ``"binding_M"`` those that bind at
        the model. If one binds the answer is not exact; if none does it still need not be, since an optimum elsewhere
        may have been cut off. None: the perspective form without big-M rows.
    form : "big-m" or "perspective"
        The latter has the stronger relaxation.
    kernel : Kernel, str, callable or None
        None for the linear formulation.
    intercept : bool
        Append the constant feature (add 1 to the kernel), penalised with the rest; True by default.
    incumbent : Model or Solution, optional
        A classifier to start the search for an incumbent from, besides the builder's own heuristics.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.

    Returns
    -------
    CountingProblem
        A ``cvxpy.Problem``. Variables ``w``, ``z`` and, in the perspective form, ``shortfall`` :math:`=(1-u)_+`, ``excess``
        :math:`=(1-u)_-`, ``shortfall_cost``, ``excess_cost``; parameter ``lam`` or ``k`` (and ``M``, which follows it);
        constraints labelled ``margin``, ``budget`` (with `k`), and ``split``, ``nonnegative_shortfall``,
        ``nonnegative_excess``, ``shortfall_cone``, ``excess_cone``. ``problem.M``, ``problem.incumbent`` and
        ``problem.gamma`` hold what was derived; a solution has M in ``details``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory, or ``M="auto"`` finds no feasible point for `k`.

    Notes
    -----
    Source: Robust SVMs via conic optimization, § 2 (big-M, after Brooks) and eq. (14) with integer z.
    Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.
    """
    started = time.perf_counter()
    if (lam is None) == (k is None):
        raise DataError(
            "zero_one_mio takes exactly one of lam and k; pass lam=1.0 for a penalty, or k for a cardinality"
        )
    lam = None if lam is None else check_number(lam, "lam", low=0, open_low=True)
    k = None if k is None else check_number(k, "k", low=0)
    check_choice(form, "form", FORMS)
    data = binary_data(X, y, sample_weight)
    space = feature_space(data, kernel, intercept="penalised" if intercept else "none", indefinite=indefinite)
    explicit = _explicit_M(M, space, optional=form == "perspective")
    fixed = ZeroOne(space=space, explicit=explicit, lam=lam, k=k, form=form)
    pool, relaxation = _counting_pool(fixed, incumbent)
    fixed = replace(fixed, pool=pool)

    name = "lam" if lam is not None else "k"
    parameter = cp.Parameter(nonneg=True, name=name, value=lam if lam is not None else k)

    def statement() -> ZeroOne:
        value = float(parameter.value)
        return replace(fixed, lam=value) if k is None else replace(fixed, k=value)

    G, weight, n = fixed.geometry.G, data.weight, data.n
    w, z = cp.Variable(G.shape[1], name="w"), cp.Variable(n, boolean=True, name="z")
    u = cp.multiply(data.y, space.factor @ w)
    constraints: list[cp.Constraint] = []
    # Without a known feasible point there is no valid M; the perspective form can do without.
    if form == "big-m" or (M is not None and fixed.M is not None):
        constraints.append((u >= 1 - cp.multiply(_margin_parameter(statement, n), z)).set_label("margin"))
    gamma = None
    value: cp.Expression = cp.sum_squares(w)
    if form == "perspective":
        gamma = incumbents.feasible_gamma(G, None if relaxation is None else relaxation.gamma)
        value, rows = _perspective(w, z, u, G, gamma)
        constraints += rows
    if k is not None:
        constraints.append((weight @ z <= parameter).set_label("budget"))
    else:
        value = value + parameter * (weight @ z)
    problem = CountingProblem(cp.Minimize(value), constraints)
    problem._statement, problem.gamma = statement, gamma
    if relaxation is not None:
        problem._duals = ({"gamma": relaxation.gamma, "lam": np.array(relaxation.price)},)
    problem.build_seconds = time.perf_counter() - started
    return problem


def _perspective(
    w: cp.Variable, z: cp.Variable, u: cp.Expression, G: Floats, gamma: Floats
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """‖w‖² − Σ γ(1−u)² + Σ γ(a²/z + c²/(1−z)) with a − c = 1 − u, and its constraints."""
    n = gamma.size
    a, c = cp.Variable(n, name="shortfall"), cp.Variable(n, name="excess")
    p, q = cp.Variable(n, name="shortfall_cost"), cp.Variable(n, name="excess_cost")
    spectrum, basis = sl.eigh(np.eye(G.shape[1]) - (G * gamma[:, None]).T @ G)
    root = np.sqrt(np.maximum(spectrum, 0.0))[:, None] * basis.T
    convex = cp.sum_squares(root @ w) + 2 * (G.T @ gamma) @ w - float(gamma.sum())
    constraints = [
        (a - c == 1 - u).set_label("split"),
        (a >= 0).set_label("nonnegative_shortfall"),
        (c >= 0).set_label("nonnegative_excess"),
        cp.SOC(p + z, cp.vstack([2 * a, p - z]), axis=0).set_label("shortfall_cone"),
        cp.SOC(q + 1 - z, cp.vstack([2 * c, q - 1 + z]), axis=0).set_label("excess_cone"),
    ]
    return convex + gamma @ (p + q), constraints


def l0_statement(
    X: Any,
    y: Any,
    *,
    C: float,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> L0:
    """Return the l0-norm hinge SVM bound to data, for local certificates.

    ``statement.certify(model, {"mu": multipliers})`` has kind "local": no lower bound, but the residuals of proximal
    stationarity; ``statement.polish(kept)`` makes local minimisers.

    Parameters
    ----------
    X, y, C, kernel, sample_weight, indefinite
        As for :func:`l0_mio`.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    """
    C = check_number(C, "C", low=0, open_low=True)
    space = feature_space(binary_data(X, y, sample_weight), kernel, intercept="free", indefinite=indefinite)
    return L0(space=space, kind="local", C=C)


def l0_mio(
    X: Any,
    y: Any,
    *,
    C: float,
    M: Any = "auto",
    kernel: KernelLike = None,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> CountingProblem:
    r"""Build the SVM with l0-norm hinge loss as a mixed-integer program.

    .. math::
        \min\; \tfrac12\|w\|^2 + C \sum_i s_i z_i \quad\text{s.t.}\quad y_i (L_i w + b) \ge 1 - M_i z_i,\; z \in \{0,1\}^n.

    Parameters
    ----------
    X, y, M, kernel, incumbent, sample_weight, indefinite
        As for :func:`zero_one_mio`.
    C : float
        Price of a margin below 1, positive. The cvxpy parameter ``problem.param_dict["C"]``.

    Returns
    -------
    CountingProblem
        A ``cvxpy.Problem``. Variables ``w``, ``b`` (of centred data when `X` is dense and linear) and ``z``; parameter
        ``C`` (and ``M``, which follows it); constraint ``margin``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: Kernel SVM with l0-norm hinge loss, eq. (2.4), of which this is the global form.
    Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.
    """
    started = time.perf_counter()
    fixed = replace(
        l0_statement(X, y, C=C, kernel=kernel, sample_weight=sample_weight, indefinite=indefinite), kind="mixed-integer"
    )
    fixed = replace(fixed, explicit=_explicit_M(M, fixed.space, optional=False))
    fixed = replace(fixed, pool=_counting_pool(fixed, incumbent)[0])
    problem = _free_intercept(fixed, CountingProblem)
    problem.build_seconds = time.perf_counter() - started
    return problem


def ramp_mio(
    X: Any,
    y: Any,
    *,
    C: float,
    M: Any = "auto",
    kernel: KernelLike = None,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> RampProblem:
    r"""Build the SVM with ramp loss as a mixed-integer program.

    .. math::
        \min\; \tfrac12\|w\|^2 + C \sum_i s_i (\xi_i + 2 z_i) \quad\text{s.t.}\quad
        y_i (L_i w + b) \ge 1 - \xi_i - M_i z_i,\; 0 \le \xi_i \le 2(1 - z_i),\; z \in \{0,1\}^n.

    Parameters
    ----------
    X, y, M, kernel, incumbent, sample_weight, indefinite
        As for :func:`zero_one_mio`.
    C : float
        Weight of the losses, positive. The cvxpy parameter ``problem.param_dict["C"]``.

    Returns
    -------
    RampProblem
        A ``cvxpy.Problem``. Variables ``w``, ``b`` (of centred data when `X` is dense and linear), ``z`` and ``xi``, which
        is :math:`\max(1, C)\,\xi`; parameter ``C`` (and ``M``, ``unit``, ``price``, which follow it); constraints
        labelled ``margin``, ``slack`` and ``ceiling``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: Brooks (2011), in the scaling of the conic paper's § 2 with ½‖w‖². An observation that is dropped needs no
    slack: the upper bound 2(1 − z_i) in place of his 2 cuts off no optimum and is the stronger relaxation.
    Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.
    """
    started = time.perf_counter()
    counting = l0_statement(X, y, C=C, kernel=kernel, sample_weight=sample_weight, indefinite=indefinite)
    fixed = Ramp(space=counting.space, explicit=_explicit_M(M, counting.space, optional=False), C=counting.C)
    geometry = fixed.geometry
    starts, _ = _counting_pool(counting, incumbent)
    points = [(point.w, point.b) for point in starts]
    sets = (np.zeros(geometry.y.size, dtype=bool), starts[0].u < -1.0)
    points += [incumbents.ramp_descent(geometry, counting.C, dropped) for dropped in sets]
    fixed = replace(fixed, pool=tuple(geometry.incumbent(w, b, ramp) for w, b in points))
    problem = _free_intercept(fixed, RampProblem)
    problem.build_seconds = time.perf_counter() - started
    return problem


P = TypeVar("P", bound=_DroppingProblem)


def _free_intercept(fixed: L0 | Ramp, cls: type[P]) -> P:
    """State the l0 or the ramp problem."""
    C = cp.Parameter(nonneg=True, name="C", value=fixed.C)

    def statement() -> Any:
        return replace(fixed, C=float(C.value))

    space, weight, n = fixed.space, fixed.weight, fixed.y.size
    w, b = cp.Variable(space.factor.shape[1], name="w"), cp.Variable(name="b")
    z = cp.Variable(n, boolean=True, name="z")
    right = 1 - cp.multiply(_margin_parameter(statement, n), z)
    constraints: list[cp.Constraint] = []
    if cls is RampProblem:
        # A solver lets ξ be below 0 by its tolerance, at a price of C: for large C the variable is Cξ instead.
        unit = cp.CallbackParam(callback=lambda: 1.0 / max(1.0, float(C.value)), nonneg=True, name="unit")
        price = cp.CallbackParam(callback=lambda: min(1.0, float(C.value)), nonneg=True, name="price")
        xi = cp.Variable(n, name="xi")
        loss = C * (2 * (weight @ z)) + price * (weight @ xi)
        constraints = [(xi >= 0).set_label("slack"), (unit * xi <= 2 * (1 - z)).set_label("ceiling")]
        right = right - unit * xi
    else:
        loss = C * (weight @ z)
    margin = (cp.multiply(fixed.y, space.factor @ w + b) >= right).set_label("margin")
    problem = cls(cp.Minimize(0.5 * cp.sum_squares(w) + loss), [margin, *constraints])
    problem._statement = statement
    return problem
