r"""Hard-margin SVM: the largest margin that separates two classes, with a free intercept.

**Primal**:

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 \quad\text{s.t.}\quad u_i = y_i(\langle w, \varphi(x_i)\rangle + b) \ge 1.

**Dual**, with :math:`v_i = \alpha_i y_i`:

.. math:: \max_{\alpha \ge 0,\; y'\alpha = 0}\; \sum_i \alpha_i - \tfrac12 v'Kv.

It is the pSVM dual without its loss term and without the box, unbounded when the classes are not
separable in feature space. The margin is :math:`1/\|w\|`. Symbols and shapes are those of
:mod:`svmcvx.formulations.margin.psvm`.

**Source.** [Sun], Table 1, column "p = 1": the model of p = 1 there has no box on the multipliers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact, roundings, square, total
from svmcvx.formulations.base import CLEARLY_ZERO, RecoveredPoints
from svmcvx.formulations.margin.alpha_dual import AlphaDualStatement, solve_support_equations
from svmcvx.model import BinaryModel, KernelModel, LinearModel
from svmcvx.solution import OptimalIntercepts

__all__ = ["ATTEMPTS", "HardMargin", "separated"]

Floats: TypeAlias = NDArray[np.float64]

# Times that a model is scaled, at most, until its margins are at least 1 after rounding.
ATTEMPTS = 6


@dataclass(frozen=True, eq=False)
class HardMargin(AlphaDualStatement):
    r"""The statement of the hard-margin SVM bound to data: min ½‖w‖² subject to :math:`u_i \ge 1`."""

    name: ClassVar[str] = "hard_margin"

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """½‖w‖²/m² with m the smallest margin, at most 1: the objective of the model scaled until
        every margin is at least 1.

        It is infinite if a margin is below 1 by more than rounding.
        """
        return self.value_at(model, *self.lowest_margin(model))

    def lowest_margin(self, model: BinaryModel) -> tuple[float, bool]:
        """Return a number that every margin is at least, and whether one is below 1 by more than
        rounding.
        """
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

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """Σα − ½ v'Kv at a feasible α."""
        alpha = self.alpha(dual)
        return total(exact(alpha)) - 0.5 * self.space.point(alpha * self.y).squared_norm

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """No model, and α = 0."""
        return [], [{"alpha": np.zeros(self.y.size)}]

    def explain(self, status: str) -> str:
        """An unbounded dual means that the classes are not separable."""
        if status in ("unbounded", "infeasible"):
            return (
                "the two classes are not separable in this feature space, so no hard-margin SVM"
                " exists; use the soft margin (a finite C of the pSVM) or a richer kernel"
            )
        return super().explain(status)

    def optimal_intercepts(self, model: BinaryModel) -> OptimalIntercepts:
        """One intercept alone: both classes have observations on the margin."""
        return OptimalIntercepts(model.intercept, model.intercept)

    def recover(self, alpha: Floats) -> RecoveredPoints:
        """Return models scaled to margin 1 (none if the classes are not separated) and multipliers
        at their best scale.

        A point whose objective is optimal to a relative ε has an error of the order √ε in its
        margins. The first candidate therefore solves the equations u = 1 on the support vectors to
        rounding.
        """
        start = self.feasible(alpha)
        return self._candidates(
            [point for point in (self._polish(start), start) if point is not None]
        )

    def separator(self, alpha: Floats) -> RecoveredPoints:
        """Return the points of :meth:`recover` without the first, which needs a factor of the Gram
        matrix.
        """
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
            model = self._separating(self.space.model(best * self.y))
            if model is not None:
                models.append(model)
        return RecoveredPoints(models, duals)

    def _separating(self, model: BinaryModel) -> BinaryModel | None:
        """Return the multiple with the bias in the middle whose margins are at least 1 after
        rounding; None if there is none.

        With an offset of the data the intercept is large, and its rounding shifts all margins: the
        room for this is left, and scores are looked at again.
        """
        best = None
        for _ in range(ATTEMPTS):
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
        upper_bound = np.full(alpha.size, np.inf)
        polished = solve_support_equations(
            self.space,
            np.where(free, alpha, 0.0),
            free=free,
            upper_bound=upper_bound,
            bias=b,
            slack=None,
        )
        return None if polished is None else self.feasible(polished)


def separated(
    model: BinaryModel, positive: float, negative: float, centre: Floats | None
) -> BinaryModel | None:
    """Return the multiple of a model, with the bias in the middle, whose margins are about 1; None
    if it does not separate.
    """
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
    if isinstance(model, LinearModel):
        return replace(model, coef=model.coef / margin, intercept=intercept)
    if isinstance(model, KernelModel):
        return replace(model, dual_coef=model.dual_coef / margin, intercept=intercept)
    raise TypeError(f"no way to scale a {type(model).__name__}")
