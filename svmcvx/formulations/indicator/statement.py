r"""What the mixed-integer programs of the 0-1 loss, the ramp loss and the l0-norm hinge share: dropping and big-M.

With :math:`u_i = y_i(\langle w, \varphi(x_i)\rangle + b)` and weights :math:`s_i > 0` (1 by default):

================ ==================================================================================== =============
formulation      objective                                                                            intercept
================ ==================================================================================== =============
0-1 loss         :math:`\|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1]`                                      penalised
0-1, cardinality :math:`\|w\|^2` subject to :math:`\sum_i s_i\,1[u_i < 1] \le k`                      penalised
ramp loss        :math:`\tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+)`                             free
l0-norm hinge    :math:`\tfrac12\|w\|^2 + C\sum_i s_i\,1[u_i < 1]`                                    free
================ ==================================================================================== =============

They are stated in :mod:`~svmcvx.formulations.indicator.zero_one`, :mod:`~svmcvx.formulations.indicator.ramp` and
:mod:`~svmcvx.formulations.indicator.l0`. All count observations inside the margin, not only misclassified ones. An indicator :math:`z_i \in \{0, 1\}` drops
observation i.

**Big-M.** :math:`u_i \ge 1 - M_i z_i`. With ``M="auto"`` the values are valid by construction. An incumbent of value U is
found first (from the conic relaxation, a soft margin, rounding and a local search). In the 0-1 problem, say, a point that
is as good and drops weight W has :math:`\|w\|^2 \le U - \lambda W`; and the margin of a dropped observation is no further
below that of a kept one than the norm times their distance. :func:`svmcvx.heuristics.big_m_reach.reach` turns this into
numbers. With a free intercept, observations of one class are compared, so that b cancels and needs no bound; if a whole
class is dropped, then w = 0, b = ±1 is as good, and M = 2 covers it.

**Upper bound.** It is the objective of the model returned. Where margins are counted, this is after the hard-margin
machine of the kept observations has been solved exactly, and includes the cost of scaling it until each kept margin is 1.

============== ======================================== =========
symbol         meaning                                  shape
============== ======================================== =========
X, y           data, labels ±1                          (n, d), (n,)
L              data, or a factor of the Gram matrix     (n, r)
w, b           normal in the columns of L, bias         (r,), ()
z              1 for observations that are dropped      (n,)
M              how far a dropped margin may be below 1  (n,)
============== ======================================== =========

**Source.** [Brooks], as restated in [CepedaGomezHan], § 2. The bounds on M are derived here.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation, Kind, accumulated_rounding
from svmcvx.formulations.base import BinaryStatement, full_entry
from svmcvx.heuristics.hinge_machine import restricted_point
from svmcvx.heuristics.signed_rows import Geometry, Incumbent
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel, KernelModel, LinearModel

__all__ = ["LARGEST_SHORTFALL", "CountingStatement", "IndicatorStatement"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# A kept observation's margin may be below 1 by rounding, and never by more than this.
LARGEST_SHORTFALL = 1e-3
# An explicit M_i binds where the margin is as low as it allows, up to this share of M_i.
BINDING = 1e-6


@dataclass(frozen=True, eq=False)
class IndicatorStatement(BinaryStatement):
    r"""What the three share: a pool of feasible points, and the values of M that follow from it.

    Parameters
    ----------
    space : FeatureSpace
    kind : "mixed-integer", "enumeration" or "local"
    pool : tuple of Incumbent
        Feasible points, whatever the hyper-parameters.
    explicit : ndarray of shape (n,), optional
        Values of M that the user chose. Where they are not known to be valid, the statement includes the constraint
        :math:`u_i \ge 1 - M_i`.
    smaller_set : bool
        Whether further constraints narrow the problem. No M is known to be valid then: an optimum under constraints may be
        worse than the incumbent, from which the valid values follow.
    """

    # What an observation that is not dropped may be below margin 1.
    slack_allowed: ClassVar[float] = 0.0
    kind: Kind = "mixed-integer"
    pool: tuple[Incumbent, ...] = ()
    explicit: Floats | None = None
    smaller_set: bool = False

    def at(self, **values: float) -> Self:
        """Return the statement at other values of the hyper-parameters; both share the signed rows."""
        found = super().at(**values)
        vars(found)["geometry"] = self.geometry
        return found

    def with_added_constraints(self) -> Self:
        """Return the statement that holds beside further constraints: each explicit M belongs to it."""
        return replace(self, smaller_set=True)

    @cached_property
    def geometry(self) -> Geometry:
        """Signed rows of the factor."""
        return Geometry.of(self.space)

    @abstractmethod
    def objective_value(self, norm: float, loss: float) -> float:
        """Objective of a point with a squared norm and a loss (in weight); ``inf`` where it is infeasible."""

    def loss_bound(self, loss: float) -> float:
        """Lower bound on the objective of points with at least this loss."""
        return self.objective_value(0.0, loss)

    @abstractmethod
    def _reach(self, value: float) -> Floats:
        """Valid values of M for points no worse than `value`."""

    def _best(self, pool: Iterable[Incumbent]) -> Incumbent | None:
        best = min(pool, key=lambda point: self.objective_value(point.norm, point.loss), default=None)
        return best if best is not None and math.isfinite(self.objective_value(best.norm, best.loss)) else None

    @cached_property
    def valid_M(self) -> Floats | None:
        """Values of M that cut off no optimum, by the best point of the pool; None without one."""
        best = self._best(self.pool)
        return None if best is None else self._reach(self.objective_value(best.norm, best.loss))

    @cached_property
    def incumbent(self) -> Incumbent | None:
        """The best point of the pool at these hyper-parameters that the statement allows."""
        return self._best(point for point in self.pool if not self._below_explicit_M(point.u, np.zeros(self.y.size)))

    @property
    def incumbent_value(self) -> float:
        """Objective of the incumbent; ``inf`` without one."""
        return math.inf if self.incumbent is None else self.objective_value(self.incumbent.norm, self.incumbent.loss)

    @property
    def M(self) -> Floats | None:
        """The values of M in use; None if there are none, as where no mixed-integer program is solved."""
        if self.kind != "mixed-integer":
            return None
        return self.valid_M if self.explicit is None else self.explicit

    @cached_property
    def unproved(self) -> Bools:
        """Observations whose M is not known to be valid."""
        if self.explicit is None:
            return np.zeros(self.y.size, dtype=bool)
        if self.smaller_set or self.valid_M is None:
            return np.ones(self.y.size, dtype=bool)
        return self.explicit < self.valid_M

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
        data = self.space.data
        return {name: full_entry(values, data, math.nan) for name, values in found.items() if values is not None}

    def _below_explicit_M(self, u: Floats, rounding: Floats) -> bool:
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

    def recovered_models(self, kept: Bools, w: Any, b: float) -> list[BinaryModel]:
        """Return the hard-margin machine of a kept set, (w, b) scaled until the kept margins are 1, and the incumbent's."""
        models: list[BinaryModel] = []
        found = self.geometry.refit(kept)
        if found is not None:
            models.append(self._scaled(found.alpha * self.y, found.b, kept))
        if w is not None and np.isfinite(w).all():
            # The margins of the model itself: with fewer rows than features its coefficients have an error of their own.
            models.append(self._kept_by(self.model_at(w, b), kept))
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
        point = restricted_point(self.geometry, kept, np.where(self.unproved, self.explicit, np.inf), C)
        return [] if point is None else [self.model_at(*point)]

    def model_at(self, w: Floats, b: float) -> BinaryModel:
        """Return the model of (w, b); its support are the observations on or inside the margin."""
        u = self.geometry.incumbent(w, b, zero_one).u
        return self.space.model_from_factor(w, b, u <= 1.0 + LARGEST_SHORTFALL)

    def _scaled(self, v: Floats, b: float, kept: Bools) -> BinaryModel:
        """The model with coefficients `v`, scaled until the smallest kept margin is 1 to rounding."""
        f = self.space.product(v).scores
        y = self.y
        free = self.space.intercept == "free"
        if not v.any():
            return self.space.model(v, b)
        if free:
            lowest, highest = float(f[kept & (y > 0)].min()), float(f[kept & (y < 0)].max())
            margin, b = (lowest - highest) / 2, -(lowest + highest) / 2
        else:
            margin = float((y * f)[kept].min())
        scale = margin if margin > 1.0 - LARGEST_SHORTFALL else 1.0
        # The model evaluates its kernel in another order than the Gram matrix: its own margins may be short by rounding.
        return self._kept_by(self.space.model(v / scale, b / scale if free else 0.0), kept)

    def _kept_by(self, model: BinaryModel, kept: Bools) -> BinaryModel:
        """Return the model scaled until its smallest kept margin is 1, where that is a small step."""
        u = self.y * model.scores(self.space.data.X)[0]
        lowest = float(u[kept].min(initial=1.0))
        return divided(model, lowest) if 1.0 - LARGEST_SHORTFALL < lowest < 1.0 else model


@dataclass(frozen=True, eq=False)
class CountingStatement(IndicatorStatement):
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
        if self._below_explicit_M(u, f_rounding):
            return Evaluation(math.inf, 0.0)
        short = 1.0 - float(np.minimum(u[kept], 1.0).min(initial=1.0))
        growth = norm * ((1.0 - short) ** -2 - 1.0)
        value = self.objective_value(norm, loss)
        return Evaluation(
            value,
            self.half * (norm_rounding + growth) + (accumulated_rounding(u.size) * value if value < math.inf else 0.0),
        )


def divided(model: BinaryModel, divisor: float) -> BinaryModel:
    """Return the model with its score divided by a number."""
    bias = model.intercept / divisor
    if isinstance(model, KernelModel):
        return replace(model, dual_coef=model.dual_coef / divisor, intercept=bias)
    assert isinstance(model, LinearModel)  # noqa: S101 - there is no third kind
    return replace(model, coef=model.coef / divisor, intercept=bias)
