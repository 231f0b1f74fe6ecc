r"""pSVM: the soft-margin support vector machine with p-norm hinge loss.

**Primal**, p ≥ 1, C > 0, weights :math:`s_i > 0` (1 by default):

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

The limit without loss is the hard-margin machine of :mod:`svmcvx.formulations.margin.hard_margin`.

============== ======================================== =========
symbol         meaning                                  shape
============== ======================================== =========
X, y           data, labels ±1                          (n, d), (n,)
K              Gram matrix                              (n, n)
L              factor of it, or the centred data        (n, r)
alpha          multipliers                              (n,)
w, b           normal in the columns of L, bias         (r,), ()
============== ======================================== =========

**Scaling.** P is the objective of scikit-learn's ``SVC`` at p = 1 (same C). LIBLINEAR's squared
hinge is p = 2 with the bias penalised, which is another problem.

**Source.** [Sun], eqs. (9)-(17). The bias rule (see :func:`best_bias`) and the dual at p = 1, which
lacks the box there, are corrected here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, by_rows, exact, total
from svmcvx.certificate.exactly import product_below
from svmcvx.formulations.base import CLEARLY_ZERO, RecoveredPoints
from svmcvx.formulations.margin.alpha_dual import AlphaDualStatement, solve_support_equations
from svmcvx.formulations.margin.linear_dual import MarginLinearDual
from svmcvx.formulations.optimal_intercepts import hinge_intercepts
from svmcvx.losses import hinge_power, hinge_power_conjugate
from svmcvx.model import BinaryModel
from svmcvx.solution import OptimalIntercepts

__all__ = ["PSVM", "best_bias", "dual_objective", "objective"]

Floats: TypeAlias = NDArray[np.float64]

# The least relative accuracy that scipy's method of Brent takes.
LEAST_RTOL = float(4.0 * np.finfo(np.float64).eps)


def objective(squared_norm: Any, u: Any, *, C: Any, p: Any, weight: Any = 1.0) -> Any:
    r"""Return :math:`P = \tfrac12\|w\|^2 + C\sum_i s_i(1-u_i)_+^p`, of plain or of bounded numbers."""
    return 0.5 * squared_norm + C * total(weight * hinge_power(u, p))


def dual_objective(alpha: Any, squared_norm: Any, *, C: Any, p: Any, weight: Any = 1.0) -> Any:
    r"""Return :math:`D(\alpha)`, with :math:`v'Kv` passed as `squared_norm`; for p = 1 of an α
    within its box.
    """
    terms = alpha if p == 1 else alpha - hinge_power_conjugate(alpha, C * weight, p)
    return total(terms) - 0.5 * squared_norm


def best_bias(
    f: Floats, y: Floats, *, p: float, weight: Floats | None = None, near: float | None = None
) -> float:
    r"""Return the bias that minimises the loss :math:`\varphi(b) = \sum_i s_i(1 - y_i(f_i +
    b))_+^p`.

    It is the exact bias of the optimal `w`, and gives the smallest gap for any other. Where the
    minimisers are an interval, its middle is returned
    (:mod:`svmcvx.formulations.optimal_intercepts`). [Sun] averages :math:`y_k - f_k` over the
    support vectors, which leaves out the slack :math:`y_k\xi_k` and is right for p = 2 only.
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
        piece = _first(lambda k: slope(float(grid[k])) >= 0, grid.size - 1)
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
            rtol=LEAST_RTOL,
            maxiter=500,
        )
    )


def _first(holds: Callable[[int], bool], size: int) -> int:
    """Return the smallest k in 0 … `size` with ``holds(k)``, for a condition that holds for all
    larger k as well.
    """
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, eq=False)
class PSVM(AlphaDualStatement):
    """The statement of the pSVM bound to data."""

    name: ClassVar[str] = "psvm"
    C: float
    p: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C, p and the kernel."""
        return {"C": self.C, "p": self.p, **super().hyperparameters}

    @cached_property
    def cost_below(self) -> Floats:
        """The largest numbers that are at most C s_i, whose floating-point product may be above it."""
        if (self.weight == 1.0).all():
            return np.full(self.weight.size, self.C)
        return product_below(self.C, self.weight)

    def upper_bound(self) -> Floats | float:
        """Return the upper bounds of the multipliers, finite for p = 1 only."""
        return self.cost_below if self.p == 1 else math.inf

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model, from its scores on the raw data."""
        return Evaluation.of(regulariser=0.5 * self.penalty(model), losses=self.losses(model))

    @property
    def _parameters(self) -> dict[str, Any]:
        return {"C": exact(self.C), "p": exact(self.p)}

    def losses(self, model: BinaryModel) -> Bounded:
        """C Σ s (1 − u)₊^p."""
        found: Bounded = by_rows(
            lambda u, s: objective(0.0, u, weight=s, **self._parameters),
            self.margins_of(model),
            self.loss_weight,
        )
        return found

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """D at a feasible α."""
        alpha = self.alpha(dual)
        return self._minus_conjugate_of(alpha) - 0.5 * self.space.point(alpha * self.y).squared_norm

    def coefficients(self, dual: Dual) -> Floats:
        """Return v of w = Σ v φ(x)."""
        return self.alpha(dual) * self.y

    def minus_conjugate(self, dual: Dual) -> Bounded:
        """Σα less the conjugates of the losses; multipliers of zero have none."""
        return self._minus_conjugate_of(self.alpha(dual))

    def _minus_conjugate_of(self, alpha: Floats) -> Bounded:
        s = self.loss_weight
        support = np.flatnonzero(alpha)
        if support.size < alpha.size:
            alpha, s = alpha[support], s if isinstance(s, float) else s[support]
        found: Bounded = by_rows(
            lambda a, s: dual_objective(a, 0.0, weight=s, **self._parameters), exact(alpha), s
        )
        return found

    def linear_dual(self) -> MarginLinearDual:
        """The dual side with an added linear term."""
        return MarginLinearDual(self)

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """The model w = 0 with its best bias, and α = 0."""
        y, weight = self.y, self.weight
        bias = self.constant_bias(float(weight[y > 0].sum()), float(weight[y < 0].sum()))
        return [self.constant(bias)], [{"alpha": np.zeros(y.size)}]

    def dominates_trivial_bounds(self, upper: float, lower: float) -> bool:
        r"""Whether w = 0, which costs at least :math:`2C\min(\sum_{y_i>0}s_i, \sum_{y_i<0}s_i)`,
        and α = 0 are no better.
        """
        positive = self.y > 0
        smaller = min(float(self.weight[positive].sum()), float(self.weight[~positive].sum()))
        return lower >= 0.0 and upper < 2.0 * self.C * smaller * (1.0 - 1e-9)

    def constant_bias(self, positive: float, negative: float) -> float:
        """Return the best bias of w = 0 for classes of these weights."""
        weight = np.array([positive, negative])
        return best_bias(np.zeros(2), np.array([1.0, -1.0]), p=self.p, weight=weight)

    def exact_intercept(self, f: Floats, near: float | None = None) -> float:
        """Return the bias that is best for scores without it; `near` is a guess."""
        return best_bias(f, self.y, p=self.p, weight=self.weight, near=near)

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts | None:
        """For p = 1 the interval that its scores give; a single intercept for p > 1, where the
        optimum is unique.
        """
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

    def recover(self, alpha: Floats) -> RecoveredPoints:
        """Return the models of approximate multipliers, and the multipliers repaired.

        An interior-point solver leaves all multipliers slightly positive. The first candidate,
        where it exists, solves the optimality conditions as equations on the support vectors; see
        :mod:`svmcvx.numerical`.
        """
        repaired = self.feasible(alpha)
        f = self.space.point(repaired * self.y).scores.value
        b = self.exact_intercept(f)
        found = RecoveredPoints([self.space.model(repaired * self.y, b)], [{"alpha": repaired}])
        polished = self._polish(repaired, b, f)
        if polished is not None:
            v = polished * self.y
            found.models.insert(
                0, self.space.model(v, self.exact_intercept(self.space.point(v).scores.value))
            )
            found.duals.insert(0, {"alpha": polished})
        return found

    def _polish(self, alpha: Floats, b: float, f: Floats) -> Floats | None:
        """Solve the equations on the support vectors; which observations these are follows from
        complementarity.
        """
        u = self.y * (f + b)
        weight = self.weight
        scaled = alpha / (self.C * self.p * weight)
        outside = scaled < CLEARLY_ZERO * (u - 1.0)
        guess = np.where(outside, 0.0, alpha)
        if self.p > 1:

            def slack_of(values: Floats, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
                # For p near 1 and a multiplier above C s the slack overflows; the iteration then
                # ends.
                with np.errstate(over="ignore"):
                    xi = (values / (self.C * self.p * weight[rows])) ** (1.0 / (self.p - 1.0))
                    return xi, xi / ((self.p - 1.0) * values)

            free, rule = ~outside & (alpha > 0), slack_of
        else:
            upper_bound = self.C * weight
            above = 1.0 - scaled < CLEARLY_ZERO * (1.0 - u)
            guess = np.where(above, upper_bound, guess)
            free, rule = ~(outside | above), None
        polished = solve_support_equations(
            self.space,
            guess,
            free=free,
            upper_bound=np.broadcast_to(self.upper_bound(), u.shape),
            bias=b,
            slack=rule,
        )
        return None if polished is None else self.feasible(polished)
