r"""What the mixed-integer programs of the 0-1 loss, the ramp loss and the l0-norm hinge share:
dropping and big-M.

With :math:`u_i = y_i(\langle w, \varphi(x_i)\rangle + b)` and weights :math:`s_i > 0` (1 by
default):

================ ==================================================================================== =============
formulation      objective
intercept ================
==================================================================================== =============
0-1 loss         :math:`\|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1]`
penalised 0-1, cardinality :math:`\|w\|^2` subject to :math:`\sum_i s_i\,1[u_i < 1] \le k`
penalised ramp loss        :math:`\tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+)`
free l0-norm hinge    :math:`\tfrac12\|w\|^2 + C\sum_i s_i\,1[u_i < 1]`
free ================
==================================================================================== =============

They are stated in :mod:`~svmcvx.formulations.indicator.zero_one`,
:mod:`~svmcvx.formulations.indicator.ramp` and :mod:`~svmcvx.formulations.indicator.l0`. All count
observations inside the margin, not only misclassified ones. An indicator :math:`z_i \in \{0, 1\}`
drops observation i.

**Big-M.** :math:`u_i \ge 1 - M_i z_i`. With ``M="auto"`` the values are valid by construction. An
incumbent of value U is found first (from the conic relaxation, a soft margin, rounding and a local
search). In the 0-1 problem, say, a point that is as good and drops weight W has :math:`\|w\|^2 \le
U - \lambda W`; and the margin of a dropped observation is no further below that of a kept one than
the norm times their distance. :func:`svmcvx.heuristics.big_m_bound.reach` turns this into numbers.
With a free intercept, observations of one class are compared, so that b cancels and needs no bound;
if a whole class is dropped, then w = 0, b = ±1 is as good, and M = 2 covers it.

**Upper bound.** Each loss is taken at the worst end of what rounding leaves open, the norm at its
upper end. Where margins are counted, a margin counts as kept only if its lower end is 1; or the
model is divided by the smallest lower end of the margins that are kept, where these are short by
rounding and by no more than :data:`LARGEST_SHORTFALL`: the objective of *that* model is the upper
bound then. Recovered models are scaled beforehand, so that it is their own.

**Lower bound.** A search works on the factor L. What its bound says of the kernel as it is follows
by :mod:`svmcvx.formulations.indicator.factor_error`. No objective is negative: 0 is a bound in any
case.

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
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation, Kind
from svmcvx.certificate.bounded import Bounded, exact, roundings, square, total
from svmcvx.certificate.rows import inner_error, norm_above, row_norms_above
from svmcvx.formulations.base import BinaryStatement, full_entry
from svmcvx.formulations.indicator.factor_error import FactorError
from svmcvx.heuristics.hinge_machine import restricted_point
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent, SignedRows
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel, KernelModel, LinearModel

__all__ = [
    "LARGEST_SHORTFALL",
    "SCALINGS",
    "CountingStatement",
    "IndicatorStatement",
    "ModelMargins",
]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# A kept observation's margin may be below 1 by rounding, and never by more than this.
LARGEST_SHORTFALL = 1e-3
# An explicit M_i binds where the margin is as low as it allows, up to this share of M_i.
BINDING = 1e-6
# Rounds in which a model is scaled until its kept margins are 1 in spite of their rounding.
SCALINGS = 3


class ModelMargins(NamedTuple):
    """A model on the data: its margins and its squared norm."""

    u: Bounded
    norm: Bounded


@dataclass(frozen=True, eq=False)
class IndicatorStatement(BinaryStatement):
    """What the three share: a pool of feasible points, and the values of M that follow from it."""

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

    def extra_arrays(self) -> Mapping[str, Floats]:
        """Explicit values of M that belong to the statement."""
        if self.explicit is None or not self.unproved.any():
            return {}
        limits = np.where(self.unproved, self.explicit, np.finfo(np.float64).max)
        return {"M": full_entry(limits, self.space.data)}

    def with_added_constraints(self) -> Self:
        """Return the statement with further constraints: each explicit M belongs to it."""
        return replace(self, smaller_set=True)

    @cached_property
    def geometry(self) -> SignedRows:
        """Signed rows of the factor."""
        return SignedRows.of(self.space)

    @abstractmethod
    def objective_value(self, norm: Any, loss: Any) -> Any:
        """Objective of points with a squared norm and a loss (in weight), plain or bounded; ``inf``
        where it is infeasible.
        """

    def loss_bound(self, loss: float) -> float:
        """Lower bound on the objective of points with at least this loss."""
        return float(self.objective_value(0.0, loss))

    @abstractmethod
    def _big_m_bound(self, value: float) -> Floats:
        """Valid values of M for points no worse than `value`."""

    def _best(self, pool: Iterable[Incumbent]) -> Incumbent | None:
        best = min(
            pool, key=lambda point: self.objective_value(point.norm, point.loss), default=None
        )
        return (
            best
            if best is not None and math.isfinite(self.objective_value(best.norm, best.loss))
            else None
        )

    @abstractmethod
    def _value_above(self, measured: ModelMargins, tie: float) -> tuple[float, float]:
        """A number that is at least the objective, and the loss; margins that are short by `tie` at
        most may be scaled to 1.
        """

    @cached_property
    def valid_M(self) -> Floats | None:
        """Values of M that cut off no optimum of the program, by the best point of the pool; None
        without one.
        """
        least = min((self.value_of(point) for point in self.pool), default=math.inf)
        return self._big_m_bound(least) if math.isfinite(least) else None

    def value_of(self, point: Incumbent) -> float:
        """Return a number that is at least the objective of a point, or of its multiple that keeps
        what it keeps to rounding.
        """
        error: Floats | float = 0.0
        if point.w.any():
            lengths = self._factor_lengths * norm_above(point.w) + abs(point.b)
            error = inner_error(self.geometry.G.shape[1] + 2, lengths)
        measured = ModelMargins(Bounded(point.u, error), total(square(exact(point.w))))
        return self._value_above(measured, 2 * ON_MARGIN)[0]

    @cached_property
    def _factor_lengths(self) -> Floats:
        return row_norms_above(self.geometry.G)

    @cached_property
    def incumbent(self) -> Incumbent | None:
        """The best point of the pool at these hyper-parameters that the statement allows."""
        return self._best(
            point
            for point in self.pool
            if not self._below_explicit_M(point.u, np.zeros(self.y.size))
        )

    @property
    def incumbent_value(self) -> float:
        """Objective of the incumbent; ``inf`` without one."""
        return (
            math.inf
            if self.incumbent is None
            else self.objective_value(self.incumbent.norm, self.incumbent.loss)
        )

    @property
    def M(self) -> Floats | None:
        """The values of M in use; None if there are none, as where no mixed-integer program is
        solved.
        """
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
        """Facts of the kernel, the incumbent's value, the range of M, and how many M are not known
        to be valid.
        """
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
        return {
            name: full_entry(values, data, math.nan)
            for name, values in found.items()
            if values is not None
        }

    def _below_explicit_M(self, u: Floats, rounding: Floats) -> bool:
        """Whether a margin violates an explicit M that belongs to the statement, by more than twice
        its rounding.

        Where such an M binds at the answer, no model in floating point meets it exactly: it is met
        to rounding.
        """
        if not self.unproved.any():
            return False
        assert self.explicit is not None  # noqa: S101 - only explicit values are unproved
        low = 1.0 - self.explicit - 2 * rounding - roundings(10) * (1.0 + self.explicit)
        return bool((u < np.minimum(low, 1.0 - self.slack_allowed))[self.unproved].any())

    def measured(self, model: BinaryModel) -> ModelMargins:
        """Return the margins of a model on the data as they were passed, and its norm, with what
        rounding leaves open.
        """
        return ModelMargins(self.margins_of(model), self.penalty(model))

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """The objective at a model, each loss at the worst end of what rounding leaves open.

        Where margins are counted, its upper end is that of the model divided by its smallest kept
        margin, which is 1 or short of it by rounding, and by at most :data:`LARGEST_SHORTFALL`.
        """
        found = self.measured(model)
        if not np.isfinite(found.u.lower).all():
            return Evaluation(math.nan, 0.0)
        if self._below_explicit_M(found.u.value, np.broadcast_to(found.u.error, found.u.shape)):
            return Evaluation(math.inf, 0.0)
        high, loss = self._value_above(found, 0.0)
        if high == math.inf:
            return Evaluation(high, 0.0)
        norm = float(found.norm.value)
        return Evaluation.at_most(
            high,
            regulariser=self.objective_value(norm, 0.0),
            losses=self.objective_value(0.0, loss),
        )

    @cached_property
    def factor_error(self) -> FactorError:
        """What the factor, and with it a search, leaves out of the data or the kernel."""
        return FactorError.of(self.space)

    @property
    def rows_are_exact(self) -> bool:
        """Whether what is impossible with the rows of the factor is impossible with the features
        themselves: nothing is missing or rounded.
        """
        return not (self.factor_error.missing.any() or self.factor_error.shift.any())

    @abstractmethod
    def bound_of_search(self, value: float) -> float:
        """Return the lower bound that follows from one on the problem that has the factor for its
        data.
        """

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        """The models w = 0 with the best bias; and no multipliers, since no objective is negative."""
        w = np.zeros(self.y.size)
        biases = (1.0, -1.0) if self.space.intercept == "free" else (0.0,)
        return [self.space.model(w, bias) for bias in biases], [{}]

    def residuals(self, model: BinaryModel, dual: Dual) -> Mapping[str, float]:
        """With explicit M not known to be valid: ``"binding_M"``, the number of them that bind at
        the model.
        """
        if not self.unproved.any():
            return {}
        assert self.explicit is not None  # noqa: S101
        u = self.y * model.scores(self.space.data.X).value
        binding = (
            self.unproved
            & (u < 1.0 - self.slack_allowed)
            & (u <= 1.0 - self.explicit * (1.0 - BINDING))
        )
        return {"binding_M": float(binding.sum())}

    def repair(self, dual: Dual) -> Dual:
        """There is no dual to repair."""
        return dual

    def dual_violation(self, dual: Dual) -> float:
        """No dual point bounds the problem, except the one without multipliers."""
        return math.inf if dual else 0.0

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """No bound; 0 without multipliers."""
        return exact(-math.inf if dual else 0.0)

    def explain(self, status: str) -> str:
        """Infeasible: too small an M, or too small a k."""
        if status == "infeasible" and self.unproved.any():
            return "no point satisfies all constraints; raise M, or use M='auto'"
        return super().explain(status)

    def recovered_models(self, kept: Bools, w: Any, b: float) -> list[BinaryModel]:
        """Return the hard-margin solution of a kept set, (w, b) scaled until the kept margins are
        1, and the best under explicit M.
        """
        models: list[BinaryModel] = []
        found = self.geometry.refit(kept)
        if found is not None:
            models.append(self._scaled(found.alpha * self.y, found.b, kept))
        if w is not None and np.isfinite(w).all():
            # The margins of the model itself: with fewer rows than features its coefficients have
            # an error of their own.
            models.append(self._kept_by(self.model_at(w, b), kept))
        return [*models, *self.restricted_models(kept, None)]

    def incumbent_models(self) -> list[BinaryModel]:
        """Return the model of the incumbent, if there is one."""
        if self.incumbent is None:
            return []
        return [self.model_at(self.incumbent.w, self.incumbent.b)]

    def restricted_models(self, kept: Bools, C: float | None) -> list[BinaryModel]:
        """Return the best model that drops a set under explicit rows u ≥ 1 − M, if these belong to
        the statement.
        """
        if not self.unproved.any():
            return []
        assert self.explicit is not None  # noqa: S101
        point = restricted_point(
            self.geometry, kept, np.where(self.unproved, self.explicit, np.inf), C
        )
        return [] if point is None else [self.model_at(*point)]

    def model_at(self, w: Floats, b: float) -> BinaryModel:
        """Return the model of (w, b); its support are the observations on or inside the margin."""
        u = self.geometry.incumbent(w, b, zero_one).u
        return self.space.model_from_factor(w, b, u <= 1.0 + LARGEST_SHORTFALL)

    def _scaled(self, v: Floats, b: float, kept: Bools) -> BinaryModel:
        """The model with coefficients `v`, scaled until the smallest kept margin is 1 to rounding."""
        f = self.space.point(v).scores.value
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
        # The model evaluates its kernel in another order than the Gram matrix: its own margins may
        # be short by rounding.
        return self._kept_by(self.space.model(v / scale, b / scale if free else 0.0), kept)

    def _kept_by(self, model: BinaryModel, kept: Bools) -> BinaryModel:
        """Return the model scaled until the lower ends of its kept margins are 1, where that is a
        small step.
        """
        for attempt in range(SCALINGS):
            lowest = float(self.measured(model).u.lower[kept].min(initial=1.0))
            # An error as large as that would grow with the model.
            if not 1.0 - LARGEST_SHORTFALL < lowest < 1.0:
                break
            model = divided(model, lowest - 4.0**attempt * self.scaling_error(model))
        return model

    def scaling_error(self, model: BinaryModel) -> float:
        """By how much margins near 1 may change where the numbers of a model are rounded, about."""
        size = 1.0 + abs(model.intercept)
        if isinstance(model, LinearModel):
            size += self._longest * float(np.linalg.norm(model.coef))
        return min(roundings(1) * size, LARGEST_SHORTFALL)

    @cached_property
    def _longest(self) -> float:
        return float(row_norms_above(self.space.data.X).max(initial=0.0))


@dataclass(frozen=True, eq=False)
class CountingStatement(IndicatorStatement):
    """Violated margins are counted: 0-1 loss and l0-norm hinge."""

    half: ClassVar[float]

    def _above(self, norm: Bounded, dropped: Bools) -> float:
        """A number that is at least the objective of a point with this squared norm that keeps all
        but these.
        """
        return float(self.objective_value(norm, self.dropped_weight(dropped)).upper)

    @cached_property
    def _weights_are_one(self) -> bool:
        return bool((self.weight == 1.0).all())

    def dropped_weight(self, dropped: Bools) -> Bounded:
        """Return the weight of these observations."""
        if self._weights_are_one:
            return exact(float(np.count_nonzero(dropped)))
        found: Bounded = total(exact(self.weight[dropped]))
        return found

    def bound_of_search(self, value: float) -> float:
        """As the module on the error of the factor derives it."""
        return self.factor_error.counting(value, self.half)

    def _value_above(self, measured: ModelMargins, tie: float) -> tuple[float, float]:
        (u, norm), low = measured, measured.u.lower
        # Short of 1 by rounding: each such lower end is a number that the model may be divided by.
        open_ = (
            (low < 1.0)
            & (low > 1.0 - LARGEST_SHORTFALL)
            & (u.upper >= (1.0 - tie) * (1.0 - roundings(4)))
        )
        kept = low >= 1.0
        best, chosen = self._above(norm, ~kept), kept
        if open_.any():
            divisors = np.unique(low[open_])
            # A smaller divisor keeps more observations at a larger norm: the best few are evaluated
            # exactly.
            weights = np.bincount(np.searchsorted(divisors, low[open_]), weights=self.weight[open_])
            left = float(self.weight[~kept].sum()) - np.cumsum(weights[::-1])[::-1]
            size = float(norm.value)
            values = self.objective_value(size / divisors**2, left)
            for place in {0, int(np.argmin(values))}:
                divisor = float(divisors[place])
                within = low >= divisor
                value = self._above(norm / square(exact(divisor)), ~within)
                if value < best:
                    best, chosen = value, within
        return best, math.fsum(self.weight[~chosen].tolist())


def divided(model: BinaryModel, divisor: float) -> BinaryModel:
    """Return the model with its score divided by a number."""
    bias = model.intercept / divisor
    if isinstance(model, KernelModel):
        return replace(model, dual_coef=model.dual_coef / divisor, intercept=bias)
    assert isinstance(model, LinearModel)  # noqa: S101 - there is no third kind
    return replace(model, coef=model.coef / divisor, intercept=bias)
