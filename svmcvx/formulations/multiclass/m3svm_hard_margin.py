"""The statement of the hard-margin M3SVM, in the notation of :mod:`svmcvx.formulations.multiclass.m3svm`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual, Evaluation, accumulated_rounding
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.multiclass.pairwise import PairwiseStatement, dual_lengths, lengths
from svmcvx.losses import hinge_power_conjugate
from svmcvx.model import MulticlassModel

__all__ = ["HardMarginM3SVM"]

Floats: TypeAlias = NDArray[np.float64]

# Differences up to this share above the smallest count as support of a hard-margin model.
NEAR_MARGIN = 1e-6


@dataclass(frozen=True, eq=False)
class HardMarginM3SVM(PairwiseStatement):
    """The statement of the hard-margin M3SVM bound to data.

    Parameters
    ----------
    scores : ScoreSpace
    loss : ScoreLoss
        The margin constraints.
    p : float
        Exponent, at least 1, possibly infinite.
    norm : 2 or 1
    """

    name: ClassVar[str] = "m3svm_hard_margin"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Exponent and norm."""
        return {"p": self.p, "norm": self.norm}

    def evaluate(self, model: MulticlassModel) -> Evaluation:
        """The regulariser, or ``inf`` if a difference is below 1 by more than rounding."""
        f, f_rounding = self.scores.model_differences(model)
        if (f < 1.0 - 2.0 * f_rounding).any():
            return Evaluation(math.inf, 0.0)
        size = lengths(model.coef @ self.P, self.norm)
        degree = 1.0 if math.isinf(self.p) else self.p
        value = float(size.max()) if math.isinf(self.p) else float((size**self.p).sum())
        # Scaling the model until every difference is 1 would change the value by no more than this.
        short = max(0.0, float((1.0 - f + f_rounding).max()))
        return Evaluation(value, (accumulated_rounding(model.coef.size) + 2.0 * short) * (degree + 1.0) * value)

    def repair(self, dual: Dual) -> Dual:
        """Clip and balance α, give the flows the divergence G, and take the best multiple of both."""
        alpha = self.scores.balanced(self.projected(self.multipliers(dual)), self.loss)
        G = self.scores.gradient(alpha).W
        S = self.flow(dual)
        S = self.least_flow(G) if S is None else S + self.least_flow(G - S @ self.P.T)
        total, cost = float(alpha.sum()), self._cost(S)
        if math.isinf(self.p) or self.p == 1:
            factor = 1.0 / cost if cost > 0 else 1.0
        else:
            # With q = p/(p − 1), θ Σα − θ^q cost is largest at θ = (Σα/(q cost))^(p − 1).
            factor = (total * (self.p - 1.0) / (self.p * cost)) ** (self.p - 1.0) if cost > 0 else 1.0
        return {"alpha": self.scores.expand(alpha * factor), "flow": S * factor}

    def _cost(self, S: Floats) -> float:
        """The conjugate of the regulariser; for p = 1 and ∞ the dual norm, at most 1 on its domain."""
        size = dual_lengths(S, self.norm)
        if math.isinf(self.p):
            return float(size.sum())
        return float(size.max()) if self.p == 1 else float(hinge_power_conjugate(size, 1.0, self.p).sum())

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of α ≥ 0, the balance, div S = G and, for p = 1 and ∞, the bound of S, beyond rounding."""
        alpha = self.multipliers(dual)
        S = self.flow(dual)
        outside = self.domain_violation(alpha)
        if not np.isfinite(outside) or (S is not None and not np.isfinite(S).all()):
            return math.inf
        if S is None:
            return outside
        gradient = self.scores.gradient(alpha)
        relative = accumulated_rounding(S.size)
        unbalanced = float(np.abs(gradient.b).max()) - accumulated_rounding(alpha.shape[0]) * float(alpha.sum())
        residual = float(np.abs(gradient.W - S @ self.P.T).max())
        residual -= gradient.W_rounding + relative * float(np.linalg.norm(S))
        over = self._cost(S) - 1.0 - relative if self.p == 1 or math.isinf(self.p) else 0.0
        return max(0.0, outside, unbalanced, residual, over)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """Σα less the conjugate at a feasible (α, S)."""
        alpha, S = self.multipliers(dual), self.required_flow(dual)
        losses = self.evaluate_conjugate(alpha)
        bounded = self.p == 1 or math.isinf(self.p)
        conjugate = 0.0 if bounded else self._cost(S)
        gradient = self.scores.gradient(alpha)
        value = losses.value - conjugate
        power = EPS * (S.shape[0] + 4.0) * (1.0 if bounded else self.p / (self.p - 1.0))
        rounding = losses.rounding + power * (losses.value if bounded else conjugate)
        # A residual of the equations costs at most its norm times that of an optimal W or b. The value bounds the differences
        # of the weights, and these with the longest observation bound the differences of the biases.
        longest = max(value, 0.0) ** (1.0 if math.isinf(self.p) else 1.0 / self.p)
        residual = float(np.linalg.norm(gradient.W - S @ self.P.T)) + gradient.W_rounding
        rounding += residual * longest * math.sqrt(self.P.shape[1] / self.P.shape[0])
        rounding += (float(np.abs(gradient.b).sum()) + gradient.b_rounding) * longest * self.scores.longest_row
        return Evaluation(value, rounding)

    def explain(self, status: str) -> str:
        """Infeasible means that the classes are not separable."""
        if status in ("infeasible", "unbounded"):
            return (
                "some two classes are not separable by linear scores, so no hard-margin M3SVM exists; "
                "use m3svm, which allows for violations"
            )
        return super().explain(status)

    def recover_from(self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]) -> RecoveredPoints:
        """The model of (W, b) scaled to the margin, and the multipliers with the flows of the solver and those of W."""
        weights = self.solved_weights(variables)
        if weights is None:
            return RecoveredPoints([], [])
        W, b = (each - each.mean(axis=-1, keepdims=True) for each in weights)
        f = self.differences(W, b)
        smallest = float(f.min())
        models: list[MulticlassModel] = []
        if smallest > 0:
            support = np.asarray((f <= smallest * (1.0 + NEAR_MARGIN)).any(axis=1))
            models.append(self.scores.model(W / smallest, b / smallest, support))
        solved = multipliers["pairs"]
        flows = [self.scores.unreduced(-np.asarray(solved))] if usable(solved) else []
        if 1 < self.p < math.inf:
            flows.append(self.power_flow(W, 1.0, self.p))
        duals: list[Dual] = [
            {"alpha": self.scores.expand(alpha), "flow": flow}
            for alpha in self.solved_multipliers(multipliers["margin"], W, b)
            for flow in flows
        ]
        return RecoveredPoints(models, duals)
