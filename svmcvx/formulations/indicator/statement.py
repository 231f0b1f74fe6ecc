r"""Losses that count or drop observations: the 0-1 loss, the ramp loss and the l0-norm hinge, as
mixed-integer programs.

With :math:`u_i = y_i(\langle w, \varphi(x_i)\rangle + b)` and weights :math:`s_i > 0` (1 by
default) all three count observations inside the margin, not only misclassified ones. An indicator
:math:`z_i \in \{0, 1\}` drops observation i.

**Big-M.** :math:`u_i \ge 1 - M_i z_i`. With ``M="auto"`` the values are valid by construction. An
incumbent of value U is found first. In the 0-1 problem, say, a point that is as good and drops
weight W has :math:`\|w\|^2 \le U - \lambda W`; and the margin of a dropped observation is no
further below that of a kept one than the norm times their distance
(:func:`svmcvx.formulations.signed_rows.big_m_bound`). With a free intercept, observations of one
class are compared, so that b cancels; if a whole class is dropped, then w = 0, b = ±1 is as good,
and M = 2 covers it.

**Upper bound.** Each loss is taken at the worst end of what rounding leaves open, the norm at its
upper end. Where margins are counted, a margin counts as kept only if its lower end is 1; or the
model is divided by the smallest lower end of the margins that are kept, where these are short by
rounding and by no more than :data:`LARGEST_SHORTFALL`: the objective of *that* model is the upper
bound then. Recovered models are scaled beforehand, so that it is their own.

**Lower bound.** A search works on the factor L; :class:`FactorError` has what its bound says of the
kernel. No objective is negative: 0 is a bound in any case.

The bounds on M are derived here; scalings and sources: ``docs/formulations/zero_one.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, partial
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Bools, Floats
from svmcvx.certificate import Dual, Evaluation, Kind
from svmcvx.certificate.bounded import Bounded, exact, positive_part, roundings, sqrt, square, total
from svmcvx.certificate.rows import (
    inner_error,
    norm_above,
    row_bytes,
    row_norms_above,
    smallest_eigenvalue_below,
    sums_above,
)
from svmcvx.data import check_number
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import (
    BinaryStatement,
    RecoveredPoints,
    check_price_or_limit,
    divided,
    full_entry,
    usable,
)
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.formulations.margin import PSVM, PenalisedPSVM
from svmcvx.formulations.optimal_intercepts import hinge_intercepts
from svmcvx.formulations.signed_rows import (
    ON_MARGIN,
    WIDENING,
    Incumbent,
    SignedRows,
    big_m_bound,
    restricted_point,
)
from svmcvx.losses import ramp
from svmcvx.model import BinaryModel, LinearModel, is_constant
from svmcvx.solution import OptimalIntercepts
from svmcvx.system.deadline import OutOfTime, interruptible, run_with_deadline

# A kept observation's margin may be below 1 by rounding, and never by more than this.
LARGEST_SHORTFALL = 1e-3


@dataclass(frozen=True)
class FactorError:
    """Bounds on the loss by the factor: of squared row lengths, and of distances from the data."""

    missing: Floats
    shift: Floats

    @classmethod
    def of(cls, space: FeatureSpace) -> Self:
        shift = zeros = np.zeros(space.data.n)
        if space.is_linear and space.centre.any():
            shift = roundings(1) * row_norms_above(space.X)
        if space.is_linear and space.factor_is_data:
            return cls(zeros, shift)
        try:
            with interruptible():
                return cls(_missing(space), shift)
        except OutOfTime:
            return cls(np.full(space.data.n, math.inf), shift)

    def counting(self, value: float, half: float) -> float:
        """Return the lower bound with counted or ramp losses; `half` prices the squared norm."""
        if not 0.0 < value < math.inf:
            return value
        missing, shift = float(self.missing.max(initial=0.0)), float(self.shift.max(initial=0.0))
        bound = exact(value)
        if missing > 0.0:
            bound = bound / (1.0 + missing * bound / half) if math.isfinite(missing) else exact(0.0)
        if shift > 0.0:
            bound = bound / square(1.0 + shift * sqrt(bound / half))
        return max(bound.lower_end, 0.0)

    def ramp(self, value: float, price: Bounded) -> float:
        """Return the lower bound with ramp losses of one price, or one per observation."""
        if not 0.0 < value < math.inf:
            return value
        bound, scaled = exact(value), self.counting(value, 0.5)
        if self.missing.any():
            bound = exact(
                (bound - 0.5 * square(total(price * sqrt(exact(self.missing))))).lower_end
            )
        if not bound.value > 0.0:
            return scaled
        if self.shift.any():
            A = sqrt(exact(2.0)) * total(price * self.shift)
            bound = square(2.0 * bound / (A + sqrt(square(A) + 4.0 * bound)))
        return max(bound.lower_end, scaled)


def _missing(space: FeatureSpace) -> Floats:
    r"""Return the diagonal of a positive semidefinite :math:`E + \tau I`, :math:`E = K - LL'`."""
    L, rows = np.asarray(space.factor), np.arange(space.data.n)
    if space.is_linear:
        X, norms = space.X, exact(row_norms_above(space.X))
        product = X @ X.T
        # Each entry is an inner product, and the mean of two.
        entries = inner_error(X.shape[1] + 4, (norms * total(norms)).upper)
        K = product.toarray() if sp.issparse(product) else product
    else:
        K, entries = space.block(rows, rows), space.point(np.ones(rows.size)).scores.error
    K = (K + K.T) / 2
    E = K - run_with_deadline(np.matmul, L, L.T)
    E = (E + E.T) / 2
    if not np.isfinite(E).all():
        return np.full(rows.size, math.inf)
    # The product, the difference and the means of two round.
    size = np.abs(L)
    products = np.asarray(sums_above(size @ sums_above(size.sum(axis=0), rows.size), L.shape[1]))
    whole, sizes = (sums_above(np.abs(A).sum(axis=1), rows.size) for A in (K, E))
    errors = (roundings(4) * (exact(whole) + sizes) + inner_error(L.shape[1] + 1, products)).upper
    below = -float(sizes.max(initial=0.0))
    # The smallest eigenvalue takes as long as the factor.
    if 0 < rows.size <= 1500 and below < 0.0:
        least = float(run_with_deadline(np.linalg.eigvalsh, E)[0])
        below = max(below, smallest_eigenvalue_below(E, least))
    tau = max(-below, 0.0) + exact(float((exact(errors) + entries).upper.max(initial=0.0)))
    lengths = np.asarray(np.einsum("ij,ij->i", L, L))
    rest = exact(space.diagonal_above()) - Bounded(lengths, inner_error(L.shape[1], lengths))
    return np.asarray((positive_part(rest) + tau).upper)


@dataclass(frozen=True, eq=False)
class IndicatorStatement(BinaryStatement):
    """A statement with a pool of feasible points, and the values of M that follow from it."""

    # What an observation that is not dropped may be below margin 1.
    slack_allowed: ClassVar[float] = 0.0
    half: ClassVar[float] = 0.5
    kind: Kind = "mixed-integer"
    pool: tuple[Incumbent, ...] = ()
    explicit: Floats | None = None
    smaller_set: bool = False

    def at(self, **values: float) -> Self:
        found = super().at(**values)
        vars(found)["geometry"] = self.geometry
        return found

    def extra_arrays(self) -> Mapping[str, Floats]:
        if self.explicit is None or not self.unproved.any():
            return {}
        limits = np.where(self.unproved, self.explicit, np.finfo(np.float64).max)
        return {"M": full_entry(limits, self.space.data)}

    def with_added_constraints(self) -> Self:
        return replace(self, smaller_set=True)

    @cached_property
    def geometry(self) -> SignedRows:
        return SignedRows.of(self.space)

    @property
    @abstractmethod
    def price(self) -> float:
        """The weight of the losses; that of the squared norm is :attr:`half`."""

    def objective_value(self, norm: Any, loss: Any) -> Any:
        """Return the objective for squared norms and losses; ``inf`` where it is infeasible."""
        return self.half * norm + self.price * loss

    def _norm_beside(self, value: float, weight: Floats) -> Floats:
        """Return the squared norm left to points below `value` that drop a weight; < 0 if none."""
        loss = max(self.slack_allowed, 1.0)
        return (value * (1 + WIDENING) - loss * self.price * weight) / self.half

    @abstractmethod
    def _value_above(self, u: Bounded, norm: Bounded, tie: float) -> tuple[float, float]:
        """Return upper bounds of objective and loss; margins short by `tie` may be scaled to 1."""

    @cached_property
    def valid_M(self) -> Floats | None:
        """Values of M that keep all optima, by the best point of the pool; None without one."""
        if not math.isfinite(self.least_known):
            return None
        return big_m_bound(
            self.geometry,
            partial(self._norm_beside, self.least_known),
            lowest=self.slack_allowed,
            all_dropped=2.0 if self.geometry.free else 1.0,
        )

    @cached_property
    def least_known(self) -> float:
        """An upper bound on the objective of the best point of the pool."""
        return min((self.value_of(point) for point in self.pool), default=math.inf)

    @property
    def complete_below(self) -> float:
        """Objective below which M admits all points: these are no worse than the best point of the
        pool, and drop no whole class (or, without a free intercept, not all observations).
        """
        if self.explicit is not None:
            return math.inf
        y = self.y if self.geometry.free else np.zeros(self.y.size)
        lightest = np.min([self.weight[y == label].sum() for label in np.unique(y)])
        if self._norm_beside(self.least_known, lightest) < 0:
            return self.least_known
        return float(max(self.slack_allowed, 1.0) * self.price * lightest / (1 + WIDENING))

    def value_of(self, point: Incumbent) -> float:
        """Return an upper bound on the objective of a point, or of a multiple within rounding."""
        error: Floats | float = 0.0
        if point.w.any():
            lengths = row_norms_above(self.geometry.G) * norm_above(point.w) + abs(point.b)
            error = inner_error(self.geometry.G.shape[1] + 2, lengths)
        norm = total(square(exact(point.w)))
        return self._value_above(Bounded(point.u, error), norm, 2 * ON_MARGIN)[0]

    @cached_property
    def incumbent(self) -> Incumbent | None:
        values = [
            (self.objective_value(point.norm, point.loss), point)
            for point in self.pool
            if not self._below_explicit_M(point.u, np.zeros(self.y.size))
        ]
        best = min(values, key=lambda item: item[0], default=(math.inf, None))
        return best[1] if math.isfinite(best[0]) else None

    @property
    def M(self) -> Floats | None:
        """The values of M in use; None without any, as where no program is solved."""
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
        facts = dict(self.space.facts)
        if (point := self.incumbent) is not None:
            facts["incumbent"] = self.objective_value(point.norm, point.loss)
        if self.M is not None:
            facts |= {"smallest_M": float(self.M.min()), "largest_M": float(self.M.max())}
        if self.unproved.any():
            facts["unproved_M"] = float(self.unproved.sum())
        return facts

    @property
    def details(self) -> Mapping[str, Floats]:
        found = {"M": self.M, "incumbent_u": None if self.incumbent is None else self.incumbent.u}
        data = self.space.data
        return {
            name: full_entry(values, data, math.nan)
            for name, values in found.items()
            if values is not None
        }

    def _below_explicit_M(self, u: Floats, rounding: Floats) -> bool:
        """Return whether a margin violates an unproved explicit M by over twice its rounding."""
        if self.explicit is None or not self.unproved.any():
            return False
        low = 1.0 - self.explicit - 2 * rounding - roundings(10) * (1.0 + self.explicit)
        return bool((u < np.minimum(low, 1.0 - self.slack_allowed))[self.unproved].any())

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """Return the objective with each loss at the worst end of its rounding."""
        u, norm = self.margins_of(model), self.penalty(model)
        if not np.isfinite(u.lower).all():
            return Evaluation(math.nan, 0.0)
        if self._below_explicit_M(u.value, np.broadcast_to(u.error, u.shape)):
            return Evaluation(math.inf, 0.0)
        high, loss = self._value_above(u, norm, 0.0)
        if high == math.inf:
            return Evaluation(high, 0.0)
        regulariser = self.objective_value(float(norm.value), 0.0)
        losses = self.objective_value(0.0, loss)
        return Evaluation.at_most(high, regulariser=regulariser, losses=losses)

    @cached_property
    def factor_error(self) -> FactorError:
        return FactorError.of(self.space)

    @property
    def rows_are_exact(self) -> bool:
        """Whether the factor misses and rounds nothing, so that its infeasibility is the data's."""
        return not (self.factor_error.missing.any() or self.factor_error.shift.any())

    @abstractmethod
    def bound_of_search(self, value: float) -> float:
        """Return the lower bound that follows from one on the problem of the factor's rows."""

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        w = np.zeros(self.y.size)
        biases = (1.0, -1.0) if self.space.intercept == "free" else (0.0,)
        return [self.space.model(w, bias) for bias in biases], [{}]

    def residuals(self, model: BinaryModel, dual: Dual) -> Mapping[str, float]:
        """Return ``"binding_M"``, the number of unproved M that bind at the model."""
        if self.explicit is None or not self.unproved.any():
            return {}
        u = self.margins_of(model).value
        binding = (u < 1.0 - self.slack_allowed) & (u <= 1.0 - self.explicit * (1.0 - 1e-6))
        return {"binding_M": float((self.unproved & binding).sum())}

    def repair(self, dual: Dual) -> Dual:
        return dual

    def dual_violation(self, dual: Dual) -> float:
        return math.inf if dual else 0.0

    def evaluate_dual(self, dual: Dual) -> Bounded:
        return exact(-math.inf if dual else 0.0)

    def explain(self, status: str) -> str:
        if status == "infeasible" and self.unproved.any():
            return "no point satisfies all constraints; raise M, or use M='auto'"
        return super().explain(status)

    def recovered_models(self, kept: Bools, w: Any, b: float) -> list[BinaryModel]:
        """Return the machine of a kept set, (w, b) scaled to it, and the best under explicit M."""
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
        if self.incumbent is None:
            return []
        return [self.model_at(self.incumbent.w, self.incumbent.b)]

    def restricted_models(self, kept: Bools, C: float | None) -> list[BinaryModel]:
        """Return the best model of a kept set under unproved explicit M, if there are any."""
        if self.explicit is None or not self.unproved.any():
            return []
        M = np.where(self.unproved, self.explicit, np.inf)
        point = restricted_point(self.geometry, kept, M, C)
        return [] if point is None else [self.model_at(*point)]

    def model_at(self, w: Floats, b: float) -> BinaryModel:
        """Return the model of (w, b); its support are the observations on or inside the margin."""
        u = self.geometry.margins(w, b)
        return self.space.model_from_factor(w, b, u <= 1.0 + LARGEST_SHORTFALL)

    def _scaled(self, v: Floats, b: float, kept: Bools) -> BinaryModel:
        """Return the model with coefficients `v`, scaled until the smallest kept margin is 1."""
        if not v.any():
            return self.space.model(v, b)
        f, y = self.space.point(v).scores.value, self.y
        if self.space.intercept == "free":
            lowest, highest = float(f[kept & (y > 0)].min()), float(f[kept & (y < 0)].max())
            margin, b = (lowest - highest) / 2, -(lowest + highest) / 2
        else:
            margin, b = float((y * f)[kept].min()), 0.0
        scale = margin if margin > 1.0 - LARGEST_SHORTFALL else 1.0
        # The model evaluates its kernel in another order than the Gram matrix: its own margins may
        # be short by rounding.
        return self._kept_by(self.space.model(v / scale, b / scale), kept)

    def _kept_by(self, model: BinaryModel, kept: Bools) -> BinaryModel:
        """Return the model with lower ends of kept margins at 1, where a small step does that."""
        for attempt in range(3):
            divisor = self.divisor(model, kept, attempt)
            if divisor is None:
                break
            model = divided(model, divisor, model.intercept / divisor)
        return model

    def divisor(self, model: BinaryModel, kept: Bools, attempt: int) -> float | None:
        """Return a divisor that takes kept margins to 1; None for none or too large a step."""
        lowest = float(self.margins_of(model).lower[kept].min(initial=1.0))
        # An error as large as that would grow with the model.
        if not 1.0 - LARGEST_SHORTFALL < lowest < 1.0:
            return None
        # Margins near 1 change about so much where the numbers of a model are rounded.
        size = 1.0 + abs(model.intercept)
        if isinstance(model, LinearModel):
            longest = float(row_norms_above(self.space.data.X).max(initial=0.0))
            size += longest * float(np.linalg.norm(model.coef))
        return lowest - 4.0**attempt * min(roundings(1) * size, LARGEST_SHORTFALL)


@dataclass(frozen=True, eq=False)
class CountingStatement(IndicatorStatement):
    """Violated margins are counted: 0-1 loss and l0-norm hinge."""

    def _above(self, norm: Bounded, dropped: Bools) -> float:
        """Return an upper bound on the objective with this squared norm and dropped set."""
        if isinstance(self.loss_weight, float):
            return float(self.objective_value(norm, exact(np.count_nonzero(dropped))).upper)
        return float(self.objective_value(norm, total(exact(self.weight[dropped]))).upper)

    def dominates_trivial_bounds(self, upper: float, lower: float) -> bool:
        """Return whether w = 0, which drops all observations or a class, is no better, nor 0."""
        positive = self.y > 0
        sides = float(self.weight[positive].sum()), float(self.weight[~positive].sum())
        least = min(sides) if self.space.intercept == "free" else sum(sides)
        return lower >= 0.0 and upper < self.objective_value(0.0, least) * (1.0 - 1e-9)

    def bound_of_search(self, value: float) -> float:
        return self.factor_error.counting(value, self.half)

    def _value_above(self, u: Bounded, norm: Bounded, tie: float) -> tuple[float, float]:
        low = u.lower
        # Short of 1 by rounding: each such lower end is a number that the model may be divided by.
        near = (low < 1.0) & (low > 1.0 - LARGEST_SHORTFALL)
        near &= u.upper >= (1.0 - tie) * (1.0 - roundings(4))
        divisors = np.append(np.unique(low[near]), 1.0)
        # A smaller divisor keeps more observations at a larger norm; in plain numbers:
        weights = np.bincount(np.searchsorted(divisors, low[near]), weights=self.weight[near])
        left = float(self.weight[(low < 1.0) & ~near].sum()) + np.append(0.0, np.cumsum(weights))
        values = self.objective_value(float(norm.value) / divisors**2, left)
        high, dropped = math.inf, low < 1.0
        for divisor in (float(divisors[int(np.argmin(values))]), float(divisors[0])):
            dropped = low < divisor
            scaled = norm if divisor == 1.0 else norm / square(exact(divisor))
            high = self._above(scaled, dropped)
            if high < math.inf:
                break
        return high, math.fsum(self.weight[dropped].tolist())


@dataclass(frozen=True, eq=False)
class ZeroOne(CountingStatement):
    r"""The SVM with the exact 0-1 loss, as a mixed-integer program.

    .. math:: \min_w\; \|w\|^2 + \lambda\sum_i s_i\,1[u_i < 1] \qquad\text{or}\qquad
        \min_w\; \|w\|^2 \;\text{ s.t. }\; \sum_i s_i\,1[u_i < 1] \le k,

    with :math:`u_i = y_i\langle w, \varphi(x_i)\rangle`, the intercept being the coefficient of a
    constant feature.

    **Lower bound.** The better of two: the one that the solver states to have proved, and the dual
    bound of the conic relaxation (:mod:`svmcvx.formulations.conic_loss.statement`), which the
    checker computes.
    """

    name: ClassVar[str] = "zero_one"
    half: ClassVar[float] = 1.0
    _scalars: ClassVar[tuple[str, ...]] = ("lam", "k")
    lam: float | None = None
    k: float | None = None
    form: str = "big-m"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {**super().hyperparameters, "form": self.form}

    def objective_value(self, norm: Any, loss: Any) -> Any:
        if self.k is None:
            return norm + self.price * loss
        found = np.where(loss <= self.k, norm, math.inf)
        return found if found.ndim else float(found)

    def _above(self, norm: Bounded, dropped: Bools) -> float:
        if self.k is None:
            return super()._above(norm, dropped)
        # The sign of a correctly rounded sum is exact.
        within = math.fsum([*self.weight[dropped].tolist(), -self.k]) <= 0.0
        return float(norm.upper) if within else math.inf

    @property
    def price(self) -> float:
        return 0.0 if self.lam is None else self.lam

    def _norm_beside(self, value: float, weight: Floats) -> Floats:
        if self.k is None:
            return super()._norm_beside(value, weight)
        return np.where(weight <= self.k, value, -1.0)

    @cached_property
    def relaxed(self) -> ConicLoss:
        """The conic relaxation, whose dual bounds this problem too."""
        # Rounded so that κ Σ s is at least k.
        kappa = None if self.k is None else float((exact(self.k) / total(exact(self.weight))).upper)
        return ConicLoss(space=self.space, lam=self.lam, kappa=kappa)

    @cached_property
    def is_inseparable(self) -> bool:
        """Whether equal features of both labels force every model to drop more weight than k."""
        if self.k is None:
            return False
        X = self.space.data.X
        rows = X.tocsr() if sp.issparse(X) else X
        weights: dict[bytes, list[Fraction]] = defaultdict(lambda: [Fraction(0), Fraction(0)])
        for i, (sign, weight) in enumerate(zip(self.y.tolist(), self.weight.tolist(), strict=True)):
            weights[row_bytes(rows, i)][sign > 0] += Fraction(weight)
        return sum((min(sides) for sides in weights.values()), Fraction(0)) > Fraction(self.k)

    def repair(self, dual: Dual) -> Dual:
        return self.relaxed.repair(dual) if dual else dual

    def dual_violation(self, dual: Dual) -> float:
        return self.relaxed.dual_violation(dual) if dual else 0.0

    def evaluate_dual(self, dual: Dual) -> Bounded:
        return self.relaxed.evaluate_dual(dual) if dual else super().evaluate_dual(dual)

    def explain(self, status: str) -> str:
        if self.k is None:
            return super().explain(status)
        none = f"no point that drops observations of total weight at most {self.k:g} was found"
        if status in ("time_limit", "iteration_limit", "interrupted"):
            return f"{none} before the search was stopped; raise k or the limits, or use lam"
        if status not in ("infeasible", "numerical") or self.unproved.any():
            return super().explain(status)
        if not self.is_inseparable and (status == "numerical" or not self.rows_are_exact):
            return f"{none}, and rounding hides whether there is one; raise k, or use lam"
        return (
            "the classes are not separable in this feature space when observations of total"
            f" weight at most {self.k:g} are dropped; raise k, or use lam"
        )


@dataclass(frozen=True, eq=False)
class Ramp(IndicatorStatement):
    r"""The SVM with ramp loss, as a mixed-integer program.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i \min(2, (1-u_i)_+),
        \qquad u_i = y_i(\langle w, \varphi(x_i)\rangle + b).

    An indicator drops observation i at the price of a loss of 2; the others have slacks
    :math:`\xi_i \in [0, 2]`.
    """

    name: ClassVar[str] = "ramp"
    slack_allowed: ClassVar[float] = 2.0
    _scalars: ClassVar[tuple[str, ...]] = ("C",)
    C: float = 1.0

    @property
    def price(self) -> float:
        return self.C

    def _value_above(self, u: Bounded, norm: Bounded, tie: float) -> tuple[float, float]:
        loss = total(self.loss_weight * ramp(exact(u.lower)))
        high = self.objective_value(norm, loss).upper_end
        return high, float(total(self.weight * ramp(u.value)))

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts:
        """Return those of the hinge machine of the kept observations, unbounded for one class."""
        lower, upper = self._optimal_moves(self.margins_of(model).value)
        return OptimalIntercepts(model.intercept + lower, model.intercept + upper)

    def _optimal_moves(self, u: Floats) -> tuple[float, float]:
        """Return the ends of the optimal moves of b from margins u, where u ≤ −1 is dropped."""
        f, kept = self.y * u, u > -1.0 + ON_MARGIN
        signs = np.unique(self.y[kept])
        if signs.size == 2:
            return hinge_intercepts(f[kept], self.y[kept], self.weight[kept])
        if not signs.size:
            return 0.0, 0.0
        end = float((signs[0] - f).max() if signs[0] > 0 else (signs[0] - f).min())
        return (end, math.inf) if signs[0] > 0 else (-math.inf, end)

    def model_in_the_middle(self, w: Floats, b: float) -> BinaryModel:
        """Return the model with the middle of the optimal intercepts; (w, b) under explicit M."""
        if not self.unproved.any():
            moves = self._optimal_moves(self.geometry.margins(w, b))
            finite = [move for move in moves if math.isfinite(move)]
            b += sum(finite) / len(finite)
        return self.model_at(w, b)

    def incumbent_models(self) -> list[BinaryModel]:
        """Return the incumbent, also with margins of 1 made exact: a large C magnifies rounding."""
        if self.incumbent is None:
            return []
        model = self.model_in_the_middle(self.incumbent.w, self.incumbent.b)
        return [model, self._kept_by(model, self.incumbent.u > 1.0 - 1e-6)]

    def bound_of_search(self, value: float) -> float:
        return self.factor_error.ramp(value, exact(self.C) * self.loss_weight)


@dataclass(frozen=True, eq=False)
class L0(CountingStatement):
    r"""The kernel SVM with l0-norm hinge loss: a mixed-integer program, and certificates of its
    local minima.

    .. math:: \min_{w, b}\; \tfrac12\|w\|^2 + C\sum_i s_i\,1[u_i < 1],
        \qquad u_i = y_i(\langle w, \varphi(x_i)\rangle + b).

    **Local minima.** (w, b) is a local minimiser if and only if there are multipliers
    :math:`\mu \in R^n` (λ in [LinYaoLiu]) with, for :math:`u = 1 - y f` and some step τ > 0,

    .. math:: c = -\mathrm{diag}(y)\mu,\qquad y'\mu = 0,
        \qquad u = \mathrm{prox}_{\tau C\|(\cdot)_+\|_0}(u - \tau\mu),

    where the prox sets entries in :math:`(0, \sqrt{2\tau C s_i}]` to zero. Hence :math:`\mu \le 0`,
    and :math:`\mu_i \ne 0` only on the canonical hyperplanes. The hard-margin machine of any set of
    observations is such a point, with :math:`\mu = -\alpha` [LinYaoLiu].
    """

    name: ClassVar[str] = "l0"
    _scalars: ClassVar[tuple[str, ...]] = ("C",)
    C: float = 1.0

    @property
    def price(self) -> float:
        return self.C

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts | None:
        """Return b, which both classes fix; a half-line at w = 0; None for a local minimum."""
        b = model.intercept
        if self.kind == "local":
            return None
        if not is_constant(model):
            return OptimalIntercepts(b, b)
        return OptimalIntercepts(1.0, math.inf) if b > 0 else OptimalIntercepts(-math.inf, -1.0)

    def dual_violation(self, dual: Dual) -> float:
        """Return 0 for none and for finite multipliers of a local certificate, else ``inf``."""
        if not dual:
            return 0.0
        local = self.kind == "local" and np.isfinite(self.entry(dual, "mu")).all()
        return 0.0 if local else math.inf

    def evaluate_dual(self, dual: Dual) -> Bounded:
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
        r"""Return half of the largest τ at which the proximal equation holds for u = 1 − y f and μ.

        The prox must keep each violated u_i, :math:`u_i > \sqrt{2\tau C s_i}`, and zero each
        supporting one, :math:`-\tau\mu_i \le \sqrt{2\tau C s_i}`.
        """
        price = 2 * self.C * self.weight
        off = u > 1e-8 * max(1.0, float(np.abs(u).max()))
        keeps = float(((u**2 / price)[off]).min(initial=math.inf))
        with np.errstate(divide="ignore"):
            zeroes = float((price / mu**2).min(initial=math.inf))
        largest = min(keeps, zeroes)
        return 0.5 * largest if math.isfinite(largest) else 1.0

    def polish(self, kept: NDArray[np.bool_]) -> RecoveredPoints:
        """Return the hard-margin machine of a set and its multipliers, a local minimiser."""
        kept = np.asarray(kept, dtype=bool)
        found = self.geometry.refit(kept)
        if found is None:
            return RecoveredPoints([], [])
        return self.restricted_points(found.alpha, found.b, kept)

    def restricted_points(
        self, alpha: Floats, b: float, kept: NDArray[np.bool_]
    ) -> RecoveredPoints:
        """Return the model and multipliers μ = −α of the hard-margin machine (α, b) of a set."""
        return RecoveredPoints([self._scaled(alpha * self.y, b, kept)], [{"mu": -alpha}])


@dataclass(frozen=True, eq=False)
class BigMRelaxation(PSVM):
    r"""A big-M program with :math:`z \in [0, 1]^n`, which is a hinge machine with bounded losses.

    Let :math:`h_i` be the price of a dropped observation (λs_i, Cs_i, 2Cs_i of the ramp), and
    :math:`M_i \ge 2` for the ramp, below which its z_i is of no use. The best z_i is :math:`(1 -
    u_i)_+ / M_i`. With ½ on the norm,

    .. math::
        \min\; \tfrac12\|w\|^2 + \sum_i h_i \frac{(1 - u_i)_+}{M_i} \;\text{ s.t. }\; u_i \ge 1 -
        M_i, \qquad
        \max_{\alpha \ge 0}\; \sum_i \alpha_i - \sum_i (M_i\alpha_i - h_i)_+
        - \tfrac12 \Big\|\sum_i \alpha_i y_i \varphi(x_i)\Big\|^2

    and :math:`y'\alpha = 0` for a free intercept. Without the ½ (0-1 loss) it is twice the machine
    of the prices h/2. A lower bound of it is one of the program.
    """

    name: ClassVar[str] = "big_m_relaxation"
    _scalars: ClassVar[tuple[str, ...]] = ()
    program: IndicatorStatement

    @classmethod
    def of(cls, program: IndicatorStatement) -> BigMRelaxation:
        """Return the relaxation of a program whose M are known."""
        kind = cls if program.space.intercept == "free" else PenalisedBigMRelaxation
        return kind(program.space, 1.0, 1.0, program)

    def at(self, **values: float) -> BigMRelaxation:
        return self.of(self.program.at(**values))

    @cached_property
    def M(self) -> Floats:
        """The values of M, at which a loss is h."""
        M: Floats = np.maximum(np.asarray(self.program.M), self.program.slack_allowed)
        return M

    @cached_property
    def prices(self) -> Bounded:
        """The prices h of the machine with ½ on the norm."""
        unit = max(self.program.slack_allowed, 1.0) / self.scale
        return unit * self.program.price * exact(self.program.weight)

    @property
    def scale(self) -> float:
        """The objective divided by that of the machine with ½ on the norm: a power of two."""
        return 2.0 * self.program.half

    @cached_property
    def weight(self) -> Floats:
        """The hinge losses' weights h/M; large where M is 0 and the margin must be at least 1."""
        return np.asarray(self.prices.value) / np.maximum(self.M, 2.0**-200)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {**self.program.hyperparameters, "relax": True}

    @property
    def linear_variables(self) -> frozenset[str]:
        """No variables: added constraints have no multipliers here."""
        return frozenset()

    def evidence(self, model: Any = None) -> None:
        """Return None: the second checker has no big-M relaxation."""

    def optimal_intercepts(self, model: BinaryModel) -> None:
        """Return None: the bounds on the margins are not looked at."""

    def explain(self, status: str) -> str:
        return self.program.explain(status)

    def evaluate(self, model: BinaryModel) -> Evaluation:
        shortfall = positive_part(1.0 - self.margins_of(model))
        if not (shortfall.upper <= self.M).all():
            return Evaluation(math.inf, 0.0)
        losses = total(self.prices * shortfall / np.maximum(self.M, 2.0**-200))
        norm = self.program.half * self.penalty(model)
        return Evaluation.of(regulariser=norm, losses=self.scale * losses)

    def largest_multiplier(self) -> float:
        """Return a number with finite sums and squares: no multiplier is bounded."""
        return 2.0**400

    def minus_conjugate(self, dual: Dual) -> Bounded:
        alpha = exact(self.alpha(dual))
        return total(alpha) - total(positive_part(self.M * alpha - self.prices))

    def evaluate_dual(self, dual: Dual) -> Bounded:
        return self.scale * super().evaluate_dual(dual)

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        """Return the points of the hinge machine, the solver's, and multiples within all bounds."""
        w, b, alpha = variables["w"], variables.get("b", 0.0), multipliers["margin"]
        points = RecoveredPoints([], []) if alpha is None else self.recover(alpha / self.scale)
        if usable((w, b)):
            points.models.append(self.model_at(w, float(b)))
        for model in tuple(points.models):
            if (divisor := self.divisor(model)) is not None:
                points.models.append(divided(model, divisor, model.intercept / divisor))
        return points

    def divisor(self, model: BinaryModel, *_: Any) -> float | None:
        """Return the divisor nearest to 1 after which margins are at least 1 − M; None for 1."""
        u, least = self.margins_of(model).lower, 1.0 - self.M
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = least / u
        # Multiples are computed with a relative rounding error of less than 1e-12.
        low = float(np.max(factor[least > 0.0], initial=0.0)) * (1.0 + 1e-12)
        high = float(np.min(factor[(least < 0.0) & (u < 0.0)], initial=math.inf)) * (1.0 - 1e-12)
        multiple = min(max(1.0, low), high)
        return None if multiple == 1.0 else 1.0 / multiple


class PenalisedBigMRelaxation(BigMRelaxation, PenalisedPSVM):
    """The relaxation with a penalised intercept or none."""


def zero_one_statement(space: FeatureSpace, lam: Any, k: Any, caller: str) -> ZeroOne:
    """Return the 0-1 problem in a space, for a function of this name."""
    lam, k = check_price_or_limit(caller, lam, k, "k", "[0, inf)")
    price, name = (1.0, "sample_weight") if lam is None else (lam, "lam")
    check_total_price(price, space.data.weight, name)
    return ZeroOne(space=space, lam=lam, k=k)


def l0_statement(space: FeatureSpace, C: Any) -> L0:
    """Return the l0-norm hinge SVM in a space, for local certificates."""
    C = check_number(C, "C")
    check_total_price(C, space.data.weight, "C")
    return L0(space=space, kind="local", C=C)


def check_total_price(price: float, weight: Floats, name: str) -> None:
    """Raise a :class:`DataError` unless four times the price of all observations is ≤ 1e300."""
    with np.errstate(over="ignore"):
        total = 4.0 * price * float(weight.sum())
    if not total <= 1e300:
        raise DataError(
            f"{name} times the sum of the weights is {total / 4.0:.3g}, where arithmetic overflows;"
            f" make {name} smaller"
        )
