r"""The margin family: pSVM with a free, a penalised or no intercept; hard margin; absolute norm.

**pSVM.** The soft-margin support vector machine with p-norm hinge loss: p ≥ 1, C > 0, weights
:math:`s_i > 0` (1 by default).

.. math::
    \min_{w, b}\; P(w, b) = \tfrac12\|w\|^2 + C \sum_i s_i\, (1 - u_i)_+^p, \qquad
    u_i = y_i(\langle w, \varphi(x_i)\rangle + b).

**Dual**, p > 1, with :math:`\gamma = p/(p-1)` and :math:`v_i = \alpha_i y_i`:

.. math::
    \max_{\alpha \ge 0,\; y'\alpha = 0}\; D(\alpha) = \sum_i \alpha_i
      - C (p-1) \sum_i s_i \Big(\frac{\alpha_i}{C s_i p}\Big)^{\gamma} - \tfrac12 v'Kv;

for p = 1 the middle term becomes the box :math:`\alpha_i \le C s_i`, its limit as p ↓ 1. At the
optimum :math:`\alpha_i = C s_i p\, \xi_i^{p-1}` with :math:`\xi_i = (1-u_i)_+`, and :math:`w =
\sum_i v_i \varphi(x_i)`.

**Penalised or no intercept**: the same with b = 0, and without :math:`y'\alpha = 0` in the dual. A
penalised intercept is the coefficient of a constant feature.

**Hard margin**, the limit without loss:

.. math::
    \min_{w, b}\; \tfrac12\|w\|^2 \quad\text{s.t.}\quad u_i \ge 1, \qquad
    \max_{\alpha \ge 0,\; y'\alpha = 0}\; \sum_i \alpha_i - \tfrac12 v'Kv.

Its dual is unbounded when the classes are not separable in feature space.

**Absolute norm**, with the squared hinge loss:

.. math::
    \min_w\; \|w\|_1 + C\sum_i s_i (1-u_i)_+^2, \qquad
    \max_{\alpha \ge 0}\; \sum_i \alpha_i - \sum_i \frac{\alpha_i^2}{4Cs_i} \quad\text{s.t.}\quad
    \Big|\sum_i \alpha_iy_ix_{ij}\Big| \le 1 \text{ for all } j.

K is the Gram matrix, L a factor of it or the (centred) data. Scalings against other packages and
sources: ``docs/formulations/psvm.md``.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq

from svmcvx.arguments import INTERCEPTS, intercept_kind
from svmcvx.arrays import Floats
from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, correctly_rounded, exact, roundings, square, total
from svmcvx.certificate.exactly import balanced, dot_exactly, imbalance, product_below
from svmcvx.certificate.rows import inner_error
from svmcvx.formulations.base import (
    CLEARLY_ZERO,
    ON_SUPPORT,
    BinaryStatement,
    LinearTerm,
    LossStatement,
    RecoveredPoints,
    divided,
)
from svmcvx.formulations.optimal_intercepts import hinge_intercepts
from svmcvx.losses import hinge_power, hinge_power_conjugate
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.numerical import Slack, solve_support_equations
from svmcvx.solution import Evidence, OptimalIntercepts
from svmcvx.system.deadline import current


@dataclass(frozen=True, eq=False)
class AlphaDualStatement(LossStatement):
    """A statement whose dual point is ``alpha``, with α ≥ 0 and y'α = 0."""

    _multiplier: ClassVar[str] = "alpha"
    repair_improves: ClassVar[bool] = False

    def alpha(self, dual: Dual) -> Floats:
        """Return the multipliers of the observations of positive weight, for either indexing."""
        return self.entry(dual, "alpha")

    def multipliers_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> Dual:
        return {"alpha": np.asarray(multipliers["margin"], dtype=np.float64)}

    def upper_bound(self) -> Floats | float:
        return math.inf

    def largest_multiplier(self) -> Floats | float:
        """Return the upper bounds, at most a number with finite sums and squares."""
        return np.minimum(self.upper_bound(), 2.0**400)

    def feasible(self, alpha: Floats) -> Floats:
        return balanced(alpha, self.y, self.largest_multiplier())

    def repair(self, dual: Dual) -> Dual:
        return {"alpha": self.feasible(self.alpha(dual))}

    def dual_violation(self, dual: Dual) -> float:
        alpha = self.alpha(dual)
        outside = self.outside_box(alpha)
        off = abs(imbalance(alpha, self.y)) if math.isfinite(outside) else math.inf
        return max(outside, off) if math.isfinite(off) else math.inf

    def outside_box(self, alpha: Floats) -> float:
        """Return the violation of 0 ≤ α ≤ :meth:`largest_multiplier`; infinite for NaN."""
        if not np.isfinite(alpha).all():
            return math.inf
        return max(0.0, float(-alpha.min()), float((alpha - self.largest_multiplier()).max()))


def objective(
    squared_norm: Any, u: Any, *, C: Any, p: Any, weight: Any = 1.0, summed: Any = total
) -> Any:
    r"""Return :math:`P = \tfrac12\|w\|^2 + C\sum_i s_i(1-u_i)_+^p`, of plain or bounded numbers."""
    return 0.5 * squared_norm + C * summed(weight * hinge_power(u, p))


def dual_objective(
    alpha: Any, squared_norm: Any, *, C: Any, p: Any, weight: Any = 1.0, summed: Any = total
) -> Any:
    r"""Return :math:`D(\alpha)`, given :math:`v'Kv`; for p = 1 of an α within its box."""
    terms = alpha if p == 1 else alpha - hinge_power_conjugate(alpha, C * weight, p)
    return summed(terms) - 0.5 * squared_norm


def best_bias(
    f: Floats, y: Floats, *, p: float, weight: Floats | None = None, near: float | None = None
) -> float:
    r"""Return the bias that minimises the loss :math:`\sum_i s_i(1 - y_i(f_i + b))_+^p`.

    It is exact for the optimal `w`, and gives the smallest gap for any other; of an interval it is
    the middle. The mean of :math:`y_k - f_k` over the support vectors [Sun] is right for p = 2
    only.
    """
    s = np.ones_like(f) if weight is None else weight
    breaks = y - f  # observation i has a loss while y_i b < y_i breaks_i
    negative = y < 0
    first, last = float(breaks[negative].min()), float(breaks[~negative].max())
    if last <= first:  # no observation has a loss in between
        return (first + last) / 2
    if p == 1:
        ends = hinge_intercepts(f, y, s)
        return (ends[0] + ends[1]) / 2
    if p == 2:
        # φ' is linear between two neighbouring breaks. At b a negative observation has a loss if
        # its break is below b, a positive one if its break is above.
        order = np.argsort(breaks)
        grid = breaks[order] - first
        lower = np.where(negative[order], s[order], 0.0)
        upper = s[order] - lower
        mass = np.cumsum(lower) + float(upper.sum()) - np.cumsum(upper)
        moment = np.cumsum(lower * grid) + float(upper @ grid) - np.cumsum(upper * grid)
        behind = int(np.argmax(mass * grid >= moment))
        before = breaks[order[max(behind - 1, 0)]]
        lost = s * np.where(negative, breaks <= before, breaks >= breaks[order[behind]])
        return first + float(lost @ (breaks - first) / lost.sum())
    above, weight_above = breaks[~negative], s[~negative]
    below, weight_below = breaks[negative], s[negative]

    def slope(b: float) -> float:
        # The slack is written as a distance to the break, so that it is exactly 0 there; this
        # matters for p near 1. Slacks are divided by the largest, since only the sign is needed and
        # large p would overflow.
        largest = max(b - first, last - b)
        up, down = above > b, below < b
        push = weight_below[down] @ ((b - below[down]) / largest) ** (p - 1.0)
        return float(push - weight_above[up] @ ((above[up] - b) / largest) ** (p - 1.0))

    # φ is smooth between two neighbouring breaks, and φ' increases from `first` to `last`.
    grid = np.unique(breaks[(breaks >= first) & (breaks <= last)])
    piece = 0 if near is None else int(np.searchsorted(grid, near))
    if not 0 < piece < grid.size or not slope(float(grid[piece - 1])) < 0 <= slope(
        float(grid[piece])
    ):
        piece = bisect_left(range(grid.size - 1), True, key=lambda k: slope(float(grid[k])) >= 0)
    if piece == 0:
        return first
    low, high = float(grid[piece - 1]), float(grid[piece])
    if not slope(low) < 0 < slope(high):
        return high
    return float(
        brentq(
            slope,
            low,
            high,
            xtol=4.0 * math.ulp(max(abs(low), abs(high))),
            rtol=float(4.0 * np.finfo(np.float64).eps),
            maxiter=500,
        )
    )


@dataclass(frozen=True, eq=False)
class PSVM(AlphaDualStatement):
    name: ClassVar[str] = "psvm"
    _scalars: ClassVar[tuple[str, ...]] = ("C", "p")
    C: float
    p: float

    @cached_property
    def cost_below(self) -> Floats:
        """The largest numbers that are at most C s_i, whose rounded product may be above it."""
        weight = self.loss_weight
        known = isinstance(weight, float)
        return np.full(self.y.size, self.C if known else product_below(self.C, weight))

    def upper_bound(self) -> Floats | float:
        return self.cost_below if self.p == 1 else math.inf

    def losses_at(self, u: Bounded, weight: Any) -> Bounded:
        found: Bounded = objective(0.0, u, weight=weight, **self.exact_scalars)
        return found

    def minus_conjugates_at(self, multipliers: Bounded, weight: Any) -> Bounded:
        found: Bounded = dual_objective(multipliers, 0.0, weight=weight, **self.exact_scalars)
        return found

    @property
    def linear_variables(self) -> frozenset[str]:
        return super().linear_variables | ({"b"} if self.space.intercept == "free" else set())

    def linear_values(self, model: BinaryModel) -> dict[str, Bounded]:
        found = super().linear_values(model)
        if self.space.intercept == "free":
            b = exact(model.intercept)
            if self.space.is_linear and self.space.centre.any():
                b = correctly_rounded(dot_exactly(self.space.centre, model.coef, model.intercept))
            found["b"] = Bounded(np.array([b.value]), np.array([b.error]))
        return found

    def _with_parts(self, alpha: Floats, on_b: Floats) -> tuple[Floats, Floats]:
        """Return multipliers and sizes of the parts of c_b, and the sides of the balance."""
        sides = np.concatenate([self.y, np.where(on_b > 0, -1.0, 1.0)])
        return np.concatenate([alpha, np.abs(on_b)]), sides

    def repair_beside(self, dual: Dual, term: LinearTerm) -> tuple[Dual, Floats]:
        """A free intercept demands Σv = c_b exactly."""
        if self.space.intercept != "free":
            return super().repair_beside(dual, term)
        alpha, largest = self.alpha(dual), self.largest_multiplier()
        parts, sides = self._with_parts(alpha, term.on_b)
        bounds = np.broadcast_to(largest, alpha.shape)
        most = np.maximum(np.max(largest), parts[alpha.size :])
        found = balanced(parts, sides, np.concatenate([bounds, most]))
        return {"alpha": found[: alpha.size]}, np.copysign(found[alpha.size :], term.on_b)

    def violation_beside(self, dual: Dual, term: LinearTerm) -> float:
        if self.space.intercept != "free":
            return super().violation_beside(dual, term)
        alpha = self.alpha(dual)
        outside = self.outside_box(alpha)
        if not (math.isfinite(outside) and np.isfinite(term.on_b).all()):
            return math.inf
        off = abs(imbalance(*self._with_parts(alpha, term.on_b)))
        return max(outside, off) if math.isfinite(off) else math.inf

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        sides = np.array([1.0, -1.0])
        weight = np.array([self.weight[self.y == side].sum() for side in sides])
        bias = best_bias(np.zeros(2), sides, p=self.p, weight=weight)
        zeros = np.zeros(self.y.size)
        return [self.space.model(zeros, bias)], [{"alpha": zeros}]

    def dominates_trivial_bounds(self, upper: float, lower: float) -> bool:
        """Return whether w = 0 (at least 2C times the lighter class) and α = 0 are no better."""
        smaller = min(float(self.weight @ (self.y > 0)), float(self.weight @ (self.y < 0)))
        return lower >= 0.0 and upper < 2.0 * self.C * smaller * (1.0 - 1e-9)

    def exact_intercept(self, f: Floats, near: float | None = None) -> float:
        return best_bias(f, self.y, p=self.p, weight=self.weight, near=near)

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts | None:
        b = model.intercept
        if self.p > 1:
            return OptimalIntercepts(b, b)
        u = self.margins_of(model)
        lower, upper = hinge_intercepts(self.y * u.value, self.y, self.weight)
        # Breaks at the present intercept are known up to the rounding of the scores.
        lower, upper = (
            0.0 if abs(move) <= 2.0 * float(np.max(u.error)) else move for move in (lower, upper)
        )
        return OptimalIntercepts(b + lower, b + upper)

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        if "beta" in variables:
            beta = variables["beta"]
            points = None if beta is None else self.recover(self.C * self.p * self.weight * beta)
            return points or RecoveredPoints([], [])
        w, alpha = variables["w"], multipliers["margin"]
        points = RecoveredPoints([], []) if alpha is None else self.recover(alpha)
        if w is not None:
            points.models.append(self.model_at(w))
        return points

    def model_at(self, w: Floats, b: float | None = None) -> BinaryModel:
        """Return the model of w, in the columns of the factor, by default with the best bias."""
        f = np.asarray(self.space.factor @ w)
        b = self.exact_intercept(f) if b is None else b
        return self.space.model_from_factor(w, b, self.y * (f + b) <= 1.0 + ON_SUPPORT)

    def recover(self, alpha: Floats) -> RecoveredPoints:
        """Return models of approximate multipliers, the polished one first, and these repaired."""
        repaired = self.feasible(alpha)
        f = self.space.scores_of(repaired * self.y)
        b = self.exact_intercept(f)
        models: list[Any] = [self.space.model(repaired * self.y, b)]
        duals: list[Dual] = [{"alpha": repaired}]
        polished = self._polish(repaired, b, f)
        if polished is not None:
            v = polished * self.y
            b = self.exact_intercept(self.space.point(v).scores.value)
            models, duals = [self.space.model(v, b), *models], [{"alpha": polished}, *duals]
        return RecoveredPoints(models, duals)

    def _polish(self, alpha: Floats, b: float, f: Floats) -> Floats | None:
        """Solve the equations on the support vectors, which follow from complementarity."""
        u = self.y * (f + b)
        weight = self.weight
        scaled = alpha / (self.C * self.p * weight)
        outside = scaled < CLEARLY_ZERO * (u - 1.0)
        guess, free = np.where(outside, 0.0, alpha), ~outside & (alpha > 0)
        slack: Slack | None = None
        if self.p > 1:

            def slack_of(values: Floats, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
                # For p near 1 and a multiplier above C s the slack overflows; the iteration then
                # ends.
                with np.errstate(over="ignore"):
                    xi = (values / (self.C * self.p * weight[rows])) ** (1.0 / (self.p - 1.0))
                    return xi, xi / ((self.p - 1.0) * values)

            slack = slack_of
        else:
            upper_bound = self.C * weight
            above = 1.0 - scaled < CLEARLY_ZERO * (1.0 - u)
            guess = np.where(above, upper_bound, guess)
            free = ~(outside | above)
        polished = solve_support_equations(
            self.space.margin_operator(),
            guess,
            free=free,
            upper_bound=self.upper_bound(),
            bias=b,
            slack=slack,
            stop=current().passed,
        )
        return None if polished is None else self.feasible(polished)


def check_intercept(intercept: Any) -> str:
    return intercept_kind(intercept, own="free", kinds=INTERCEPTS)


def kind_of_psvm(intercept: str) -> type[PSVM]:
    """Return the statement of the pSVM with an intercept of this kind."""
    return PSVM if intercept == "free" else PenalisedPSVM


@dataclass(frozen=True, eq=False)
class PenalisedPSVM(PSVM):
    name: ClassVar[str] = "penalised psvm"

    def exact_intercept(self, f: Floats, near: float | None = None) -> float:
        return 0.0

    def optimal_intercepts(self, model: BinaryModel) -> None:
        """Return None: no intercept is free."""

    def feasible(self, alpha: Floats) -> Floats:
        return np.clip(np.nan_to_num(alpha, nan=0.0), 0.0, self.largest_multiplier())

    def dual_violation(self, dual: Dual) -> float:
        return self.outside_box(self.alpha(dual))

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        zeros = np.zeros(self.y.size)
        return [self.space.model(zeros)], [{"alpha": zeros}]


@dataclass(frozen=True, eq=False)
class HardMargin(AlphaDualStatement):
    r"""The hard-margin SVM bound to data: min ½‖w‖² with :math:`u_i \ge 1`."""

    name: ClassVar[str] = "hard_margin"

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """Return ½‖w‖²/m², m = min(1, smallest margin); ``inf`` if m < 1 by more than rounding."""
        return self.value_at(model, *self.lowest_margin(model))

    def lowest_margin(self, model: BinaryModel) -> tuple[float, bool]:
        """Return a lower bound of all margins, and whether one is below 1 by more than rounding."""
        u = self.margins_of(model)
        return u.least, bool((u.value < 1.0 - 2.0 * u.error).any())

    def value_at(self, model: BinaryModel, lowest: float, violated: bool) -> Evaluation:
        """Return the objective of a model whose margins are at least `lowest`."""
        if violated or not lowest > 0.0:
            return Evaluation(math.inf, 0.0)
        half = 0.5 * self.penalty(model)
        return Evaluation.of(
            regulariser=half / square(exact(lowest)) if lowest < 1.0 else half, losses=exact(0.0)
        )

    def losses_at(self, u: Bounded, weight: Any) -> Bounded:
        return exact(0.0)

    def minus_conjugates_at(self, multipliers: Bounded, weight: Any) -> Bounded:
        return total(multipliers)

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        return [], [{"alpha": np.zeros(self.y.size)}]

    def explain(self, status: str) -> str:
        if status in ("unbounded", "infeasible"):
            return (
                "the two classes are not separable in this feature space, so no hard-margin SVM"
                " exists; use the soft margin (a finite C of the pSVM) or a richer kernel"
            )
        return super().explain(status)

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts:
        return OptimalIntercepts(model.intercept, model.intercept)

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        alpha = variables["alpha"]
        return RecoveredPoints([], []) if alpha is None else self.recover(alpha)

    def recover(self, alpha: Floats) -> RecoveredPoints:
        """Return models of margin 1, if they separate, and multipliers at their best scale."""
        start = self.feasible(alpha)
        return self._candidates(
            [point for point in (self._polish(start), start) if point is not None]
        )

    def separator(self, alpha: Floats) -> RecoveredPoints:
        """Return the points of :meth:`recover` that need no factor of the Gram matrix."""
        return self._candidates([self.feasible(alpha)])

    def _candidates(self, points: list[Floats]) -> RecoveredPoints:
        models: list[BinaryModel] = []
        duals: list[Dual] = []
        for point in points:
            norm = float(self.space.point(point * self.y).squared_norm.value)
            # (Σα)²/(2 v'Kv) is the dual value at the best multiple of α.
            best = point * (float(point.sum()) / norm) if norm > 0 else point
            duals.append({"alpha": self.feasible(best)})
            # Scale the model, not the multipliers: where large multipliers cancel, this has the
            # smaller rounding error.
            model = self.separating(self.space.model(best * self.y))
            if model is not None:
                models.append(model)
        return RecoveredPoints(models, duals)

    def separating(self, model: BinaryModel) -> BinaryModel | None:
        """Return the multiple with the middle bias and margins ≥ 1 for certain, None without."""
        best = None
        for _ in range(6):
            u = self.margins_of(model)
            if best is not None and u.least >= 1.0:
                break
            # A little more than the bound, so that the scores of the next model, which are rounded
            # anew, are within it.
            low = u.value - 1.1 * u.error
            centre = self.space.centre if self.space.is_linear else None
            found = separated(
                model, float(low[self.y > 0].min()), float(low[self.y < 0].min()), centre
            )
            if found is None:
                break
            model = best = found
        return best

    def _polish(self, alpha: Floats) -> Floats | None:
        """Solve u = 1 on the observations whose multiplier is clearly positive."""
        free = alpha > CLEARLY_ZERO**2 * float(alpha.max(initial=0.0))
        f = self.space.point(alpha * self.y).scores.value
        b = -(float(f[self.y > 0].min()) + float(f[self.y < 0].max())) / 2
        polished = solve_support_equations(
            self.space.margin_operator(),
            np.where(free, alpha, 0.0),
            free=free,
            bias=b,
            stop=current().passed,
        )
        return None if polished is None else self.feasible(polished)


@dataclass(frozen=True, eq=False)
class HardMarginInBlocks(HardMargin):
    """The statement on rows in blocks: the multipliers are those of some rows, in memory."""

    working: HardMargin

    def repair(self, dual: Dual) -> Dual:
        return self.working.repair(dual)

    def dual_violation(self, dual: Dual) -> float:
        return self.working.dual_violation(dual)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        return self.working.evaluate_dual(dual)

    def export_dual(self, dual: Dual) -> Dual:
        return {}

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        return self.working.trivial()


def separated(
    model: BinaryModel, positive: float, negative: float, centre: Floats | None
) -> BinaryModel | None:
    """Return a model's multiple with margins about 1 and the middle bias; None without any."""
    margin = (positive + negative) / 2
    if not 0 < margin < math.inf:
        return None
    size = abs(model.intercept)
    if isinstance(model, LinearModel) and centre is not None:
        size += float(np.abs(centre) @ np.abs(model.coef))
    room = roundings(2) * size
    if room < margin / 2:
        margin -= room
    intercept = (model.intercept - (positive - negative) / 2) / margin
    return divided(model, margin, intercept)


@dataclass(frozen=True, eq=False)
class AbsoluteNormSVM(BinaryStatement):
    """The problem bound to data, in a linear space with a penalised intercept or none."""

    name: ClassVar[str] = "l1_squared_hinge"
    _scalars: ClassVar[tuple[str, ...]] = ("C",)
    _weights_of_columns: ClassVar[bool] = True
    C: float = 1.0

    def evidence(self, model: Any = None) -> Evidence | None:
        return None

    def evaluate(self, model: BinaryModel) -> Evaluation:
        assert isinstance(model, LinearModel)  # noqa: S101 - the formulation has no kernel
        u = self.margins_of(model)
        losses = exact(self.C) * total(self.loss_weight * hinge_power(u, exact(2.0)))
        return Evaluation.of(
            regulariser=total(exact(np.abs(np.append(model.coef, model.intercept)))), losses=losses
        )

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        return [self.model(np.zeros(self.space.X.shape[1]))], [{"alpha": np.zeros(self.y.size)}]

    def model(self, w: Floats) -> LinearModel:
        """Return the model of coefficients, with the observations of positive loss as support."""
        data = self.space.data
        support = (
            data.index[self.y * np.asarray(self.space.X @ w) < 1.0]
            if w.any()
            else np.zeros(0, dtype=np.intp)
        )
        coef, intercept = (
            (w[:-1], float(w[-1])) if self.space.intercept == "penalised" else (w, 0.0)
        )
        return LinearModel(coef=coef, intercept=intercept, classes=data.classes, support=support)

    def multipliers(self, model: LinearModel) -> Floats:
        f = self.space.scores(model).value
        return np.asarray(2.0 * self.C * self.weight * np.maximum(1.0 - self.y * f, 0.0))

    def polished(self, w: Floats) -> Floats | None:
        """Return the stationary coefficients with the same signs; None if there are none."""
        X, y = self.space.X, self.y
        used = np.flatnonzero(w)
        if not used.size:
            return np.zeros(w.size)
        columns = X[:, used].toarray() if sp.issparse(X) else X[:, used]
        signs, now = np.sign(w[used]), w[used].astype(np.float64)
        rows = columns * y[:, None]
        for _ in range(20):
            inside = rows @ now < 1.0
            weighted = 2.0 * self.C * self.weight[inside, None] * rows[inside]
            step, *_ = sl.lstsq(
                rows[inside].T @ weighted, weighted.sum(axis=0) - signs, lapack_driver="gelsy"
            )
            if not np.isfinite(step).all() or (np.sign(step) != signs).any():
                return None
            now = step
            if np.array_equal(rows @ now < 1.0, inside):
                found = np.zeros(w.size)
                found[used] = now
                return found
        return None

    def model_at(self, w: Floats, b: float = 0.0) -> LinearModel:
        return self.model(w)

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        w, alpha = variables["w"], multipliers["margin"]
        return RecoveredPoints([], []) if w is None or alpha is None else self.recover(w, alpha)

    def recover(self, w: Floats, alpha: Floats) -> RecoveredPoints:
        """Return models and multipliers near a solver's point, with small coefficients at zero."""
        slack = 1.0 - np.abs(np.asarray(self.space.X.T @ (self.y * alpha)))
        clearly, by_size = (
            slack > CLEARLY_ZERO,
            np.abs(w) < CLEARLY_ZERO * slack * float(np.abs(w).max(initial=0.0)),
        )
        sparse = [np.where(zero, 0.0, w) for zero in (by_size, clearly)]
        points = [*(self.polished(each) for each in sparse), *sparse, w]
        models = [self.model(each) for each in points if each is not None]
        return RecoveredPoints(
            models, [{"alpha": alpha}, *({"alpha": self.multipliers(model)} for model in models)]
        )

    def _largest(self, alpha: Floats) -> float:
        """Return an upper bound on the sides of the constraints."""
        X, terms = self.space.X, alpha.size
        sides = np.abs(np.asarray(X.T @ (self.y * alpha)))
        return float(
            np.max(
                Bounded(sides, inner_error(terms, np.asarray(abs(X).T @ alpha))).upper, initial=0.0
            )
        )

    def repair(self, dual: Dual) -> Dual:
        alpha = np.maximum(self.entry(dual, "alpha"), 0.0)
        squares = float(np.sum(alpha**2 / self.weight))
        if not (alpha.any() and math.isfinite(squares)):
            return {"alpha": np.zeros(alpha.size)}
        best, largest = 2.0 * self.C * float(alpha.sum()) / squares, self._largest(alpha)
        alpha = alpha * (best if best * largest <= 1.0 else 1.0 / largest)
        for _ in range(5):
            if (largest := self._largest(alpha)) <= 1.0:
                return {"alpha": alpha}
            alpha = np.maximum((exact(alpha) / largest).lower, 0.0)
        return {"alpha": np.zeros(alpha.size)}

    def dual_violation(self, dual: Dual) -> float:
        alpha = self.entry(dual, "alpha")
        if not np.isfinite(alpha).all():
            return math.inf
        return max(float(-alpha.min(initial=0.0)), self._largest(np.maximum(alpha, 0.0)) - 1.0, 0.0)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        alpha = exact(self.entry(dual, "alpha"))
        return total(alpha) - total(square(alpha) / self.loss_weight) / (4.0 * exact(self.C))
