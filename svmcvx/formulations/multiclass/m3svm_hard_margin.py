"""The statement of the hard-margin M3SVM, in the notation of
:mod:`svmcvx.formulations.multiclass.m3svm`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact, exp, log, row_maxima, sqrt, total
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.multiclass.pairwise import (
    PairwiseStatement,
    dual_lengths,
    lengths,
    pairwise,
)
from svmcvx.formulations.optimal_intercepts import SumOfBounded, tight_ranges
from svmcvx.losses import hinge_power_conjugate
from svmcvx.model import MulticlassModel
from svmcvx.solution import OptimalIntercepts

__all__ = ["HardMarginM3SVM"]

Floats: TypeAlias = NDArray[np.float64]

# Differences up to this share above the smallest count as support of a hard-margin model.
NEAR_MARGIN = 1e-6
# Bounds on the rounding of div S = G that a repaired flow keeps to.
ROUNDINGS = 8.0
# Shares by which a point is shrunk or stretched until rounding does not matter.
SHRINKS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6)


@dataclass(frozen=True, eq=False)
class HardMarginM3SVM(PairwiseStatement):
    """The statement of the hard-margin M3SVM bound to data."""

    name: ClassVar[str] = "m3svm_hard_margin"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Exponent and norm."""
        return {"p": self.p, "norm": self.norm}

    def evaluate(self, model: MulticlassModel) -> Evaluation:
        """The regulariser at the model, or ``inf`` if a difference is below 1 by more than
        rounding.

        Where a difference may be below 1 by rounding the upper end is that of the multiple of the
        model that has the margin.
        """
        f = self.scores.model_differences(model)
        smallest = min(1.0, f.least)
        if not ((f.upper >= 1.0).all() and smallest > 0):
            return Evaluation(math.inf, 0.0)
        size = lengths(pairwise(exact(model.coef)), self.norm)
        return Evaluation.of(
            regulariser=self._total(size if smallest == 1.0 else size / smallest), losses=exact(0.0)
        )

    def _total(self, size: Bounded) -> Bounded:
        """Return the sum of the powers of norms; for p = ∞ the largest of them."""
        found: Bounded = row_maxima(size[None, :])[0] if math.isinf(self.p) else total(size**self.p)
        return found

    def repair(self, dual: Dual) -> Dual:
        """Clip and balance α, give the flows the divergence G, and take the best multiple of both."""
        given = self.multipliers(dual)
        if self.flow(dual) is not None and self.dual_violation(dual) == 0:
            return {"alpha": self.scores.expand(given), "flow": self.required_flow(dual)}
        alpha = self.scores.balanced(self.projected(given), self.loss)
        G = self.scores.gradient(alpha).W.value
        S = self.flow(dual)
        S = self.least_flow(G) if S is None else np.nan_to_num(S, nan=0.0)
        S = S + self.least_flow(G - S @ self.P.T)
        cost = float(self._cost(exact(S)).value)
        if self._bounded:
            factor = 1.0 / cost if cost > 0 else 1.0
        else:
            # With q = p/(p − 1), θ Σα − θ^q cost is largest at θ = (Σα/(q cost))^(p − 1).
            with np.errstate(over="ignore"):
                share = (
                    np.float64(alpha.sum() * (self.p - 1.0) / (self.p * cost)) if cost > 0 else 1.0
                )
                factor = float(share ** (self.p - 1.0))
        if not 0 < factor < math.inf:
            return self.zero_dual()
        # Multiples are rounded, and balanced once more; then the flows are those of what has become
        # of α.
        for shrink in SHRINKS:
            scaled = self.scores.balanced(alpha * (factor * (1.0 - shrink)), self.loss)
            flow = S * (factor * (1.0 - shrink))
            flow = flow + self.least_flow(self.scores.gradient(scaled).W.value - flow @ self.P.T)
            point: Dual = {"alpha": self.scores.expand(scaled), "flow": flow}
            if self.dual_violation(point) == 0:
                return point
        return self.zero_dual()

    @property
    def _bounded(self) -> bool:
        """Whether the flows have a bound instead of a cost."""
        return self.p == 1 or math.isinf(self.p)

    def _cost(self, S: Bounded) -> Bounded:
        """Return the conjugate of the regulariser; for p = 1 and ∞ the dual norm, at most 1 on its
        domain.
        """
        size = dual_lengths(S, self.norm)
        if self.p == 1:
            size = row_maxima(size[None, :])
        elif not math.isinf(self.p):
            size = hinge_power_conjugate(size, 1.0, exact(self.p))
        return total(size)

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of α ≥ 0, the balance, div S = G and, for p = 1 and ∞, the bound of S.

        A residual of div S = G within the bound on its rounding is not a violation:
        :meth:`evaluate_dual` counts it.
        """
        alpha = self.multipliers(dual)
        S = self.flow(dual)
        outside = self.domain_violation(alpha)
        if not np.isfinite(outside) or (S is not None and not np.isfinite(S).all()):
            return math.inf
        if S is None or outside > 0:
            return outside
        unbalanced = self.scores.imbalance(alpha)
        R = self.residual(self.scores.gradient(alpha), S)
        # A flow that was corrected once more has the rounding of that as well.
        apart = float(np.abs(R.value).max()) - ROUNDINGS * R.distance
        over = self._cost(exact(S)).upper_end - 1.0 if self._bounded else 0.0
        found = max(0.0, unbalanced, apart, over)
        return found if math.isfinite(R.distance) else math.inf

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """Σα less the conjugate at a feasible (α, S), and less what a residual R of div S = G can
        cost.

        For an optimal W whose columns sum to zero <R, W> is at most ‖R‖‖W‖, and ‖W‖² is the mean
        over the classes of the squared differences: with κ = ‖R‖√(pairs/c) the optimum x has x + κ
        x^{1/p} ≥ D, whence x ≥ D − κ D^{1/p}. The balance is exact, so that the biases cost
        nothing.
        """
        alpha, S = self.multipliers(dual), self.required_flow(dual)
        found = (
            self.minus_conjugate(alpha)
            if self._bounded
            else self.minus_conjugate(alpha) - self._cost(exact(S))
        )
        if not found.lower_end > 0:
            return found
        # For p = ∞ too the value bounds the longest difference, by itself.
        longest = found if self._bounded else exp(log(found) / self.p)
        share = sqrt(exact(float(self.P.shape[1])) / float(self.P.shape[0]))
        return (
            found
            - share * sqrt(self.residual(self.scores.gradient(alpha), S).squared_norm()) * longest
        )

    def trivial(self) -> tuple[list[MulticlassModel], list[Dual]]:
        """Zero multipliers alone: no model is known to have the margin."""
        return [], [self.zero_dual()]

    def scaled_to_margin(
        self, W: Floats, b: Floats, smallest: float, support: NDArray[np.bool_]
    ) -> MulticlassModel:
        """Return the multiple of a model, of least difference `smallest`, whose differences are at
        least 1 for certain if possible.
        """
        for shrink in SHRINKS:
            divisor = smallest * (1.0 - shrink)
            model = self.scores.model(W / divisor, b / divisor, support)
            least = self.scores.model_differences(model).least
            if least >= 1.0:
                return model
            if shrink == 0.0 and least > 0.5:
                smallest *= least
        return self.scores.model(W / smallest, b / smallest, support)

    def _ranges(self, W: Floats) -> tuple[Floats, Floats]:
        """Return the least and the largest value of each bias of sum 0 with which the weights have
        the margin.
        """
        data = self.scores.data
        gamma = 1.0 - self.differences(W, np.zeros(data.c))
        return tight_ranges(
            gamma, np.zeros_like(gamma), data.codes, self.scores.others, SumOfBounded(math.inf)
        )

    def optimal_intercepts(self, model: MulticlassModel) -> OptimalIntercepts:
        """The intercepts with which its weights have the margin."""
        shift = self.scores.centre @ model.coef
        lower, upper = self._ranges(model.coef)
        return OptimalIntercepts(lower - shift, upper - shift)

    def explain(self, status: str) -> str:
        """Infeasible means that the classes are not separable."""
        if status in ("infeasible", "unbounded"):
            return (
                "some two classes are not separable by linear scores, so no hard-margin M3SVM"
                " exists; use m3svm, which allows for violations"
            )
        return super().explain(status)

    def _root_flow(self, W: Floats) -> Floats:
        """Return the gradient of the p-th root of the regulariser in the differences."""
        V = W @ self.P
        size = lengths(V, self.norm)
        largest = float(size.max())
        if not largest > 0:
            return np.zeros_like(V)
        share = (size / largest) ** (self.p - 1.0)
        share /= float((share * size / largest).sum()) ** (1.0 - 1.0 / self.p)
        if self.norm == 1:
            return np.asarray(share * np.sign(V))
        return np.asarray(share * V / np.where(size > 0, size, 1.0))

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        """The model of (W, b) scaled to the margin, and the multipliers with the flows of the
        solver and those of W.
        """
        weights = self.solved_weights(variables)
        if weights is None:
            return RecoveredPoints([], [])
        W, b = (each - each.mean(axis=-1, keepdims=True) for each in weights)
        models: list[MulticlassModel] = []
        smallest = float(self.differences(W, b).min())
        if smallest > 0:
            W, b = W / smallest, b / smallest
            b = np.mean(self._ranges(W), axis=0)
            f = self.differences(W, b)
            smallest = float(f.min())
            support = np.asarray((f <= smallest * (1.0 + NEAR_MARGIN)).any(axis=1))
            models.append(self.scaled_to_margin(W, b, smallest, support))
        solved = multipliers["pairs"]
        flows = [self.scores.unreduced(-np.asarray(solved))] if usable(solved) else []
        if 1 < self.p < math.inf:
            flows.append(self._root_flow(W))
        duals: list[Dual] = [
            {"alpha": self.scores.expand(alpha), "flow": flow}
            for alpha in self.solved_multipliers(multipliers["margin"], W, b)
            for flow in flows
        ]
        return RecoveredPoints(models, duals)
