r"""The classical multi-class machines: one loss of score differences, one regulariser.

.. math::
    \min_{W, b}\; P(W, b) = \sum_i s_i\,\ell(f_i) + \Omega(W), \qquad
    f_{ik} = (w_{y_i} - w_k)'x_i + b_{y_i} - b_k,\; k \ne y_i.

======================== ======================================================== ===============================================
builder                  loss :math:`\ell`                                        regulariser :math:`\Omega`
======================== ======================================================== ===============================================
weston_watkins           :math:`\sum_k (1-f_k)_+`                                 :math:`\lambda\sum_k\|w_k\|^2`
crammer_singer           :math:`\max_k (1-f_k)_+`                                 :math:`\lambda\sum_k\|w_k\|^2`
msvm                     :math:`\sum_k (1-f_k)_+`                                 :math:`\lambda(\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2)`
topk_svm                 the k largest of :math:`1-f` and 0, averaged             :math:`\lambda\sum_k\|w_k\|^2`
multinomial_lr           :math:`\log(1+\sum_k e^{-f_k})`                          :math:`\lambda\sum_k\|w_k\|^2`
sparse_multinomial_lr    :math:`\log(1+\sum_k e^{-f_k})`                          :math:`\lambda\sum_{jk}|W_{jk}|`
======================== ======================================================== ===============================================

The losses are summed, not averaged. ``intercept=True`` (the default) has free biases b; ``intercept=False`` none.

**Dual.** With G and :math:`g_b` of the multipliers α (see :mod:`svmcvx.formulations.multiclass.score_space`) and g and A of the
conjugate of the loss (see :mod:`svmcvx.formulations.multiclass.losses`),

.. math::
    \max_\alpha\; D(\alpha) = \sum_i s_i\, g(\alpha_i/s_i) - \Omega^*(G) \quad\text{s.t.}\quad
    \alpha_i/s_i \in A, \qquad g_b = 0 \;\text{(free b only)}.

The columns of G sum to zero, whence :math:`\Omega^*(G) = \|G\|_F^2/(4\lambda)` for the squared norms,
:math:`\|G\|_F^2/(2\lambda(c+1))` for M-SVM, and for the sum of absolute values the constraint :math:`|G_{jk}| \le \lambda`.
At the optimum :math:`W = G/(2\lambda)`, for M-SVM :math:`W = G/(\lambda(c+1))`; :math:`\sum_k w_k = 0` follows.

============== ======================================================== =========
symbol         meaning                                                  shape
============== ======================================================== =========
X, y           data, labels of c classes                                (n, d), (n,)
W, b           weights, one column a class; biases                      (d, c), (c,)
f              score differences to the other classes, in order         (n, c − 1)
alpha          multipliers of f, zero for the own class                 (n, c)
============== ======================================================== =========

**Scaling.** scikit-learn's ``LinearSVC(multi_class="crammer_singer", fit_intercept=False)`` minimises
:math:`\tfrac12\|W\|^2 + C\sum` and ``LogisticRegression`` too (free b): both are :math:`\lambda = 1/(2C)`, with C times the
objective here. Two classes: :math:`w_1 = -w_2`, and weston_watkins and crammer_singer are the pSVM at p = 1 with
:math:`C = 1/\lambda`, λ times its objective, for :math:`w = w_1 - w_2`. M-SVM is weston_watkins with λ(c + 1)/2, and M3SVM at
p = 2 with λ(c + 1)/(2c); at λ = 1 it is also the machine of [XuLiuHuo].

**Source.** [NieHaoWang], related work, and the papers it cites: [WestonWatkins], [CrammerSinger], [BredensteinerBennett],
[LapinHeinSchiele], [Boehning], [Krishnapuram]. The top-k loss is the one with :math:`1[j \ne y]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation, accumulated_rounding
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.multiclass.newton import Penalty, minimise
from svmcvx.formulations.multiclass.regularisers import Regulariser
from svmcvx.formulations.multiclass.score_space import Gradient
from svmcvx.formulations.multiclass.statement import MulticlassStatement
from svmcvx.model import MulticlassModel

__all__ = ["ClassicalStatement"]

Floats: TypeAlias = NDArray[np.float64]

# Weights of a sparse model up to this share of the largest are tried as zeros.
NEGLIGIBLE = 1e-6


@dataclass(frozen=True, eq=False)
class ClassicalStatement(MulticlassStatement):
    """The statement of one of the classical machines bound to data.

    Parameters
    ----------
    scores : ScoreSpace
    loss : ScoreLoss
    name : str
        Of the builder.
    regulariser : Regulariser
    lam : float
        Weight of the regulariser, positive.
    """

    name: str  # type: ignore[misc]
    regulariser: Regulariser
    lam: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """lam, the parameters of the loss, and whether there is an intercept."""
        return {"lam": self.lam, **self.loss.parameters, "intercept": self.scores.intercept == "free"}

    def evaluate(self, model: MulticlassModel) -> Evaluation:
        """P at a model; ``inf`` if it has an intercept that the formulation has not."""
        if self.scores.intercept == "none" and np.ptp(model.intercept) > 0:
            return Evaluation(np.inf, 0.0)
        loss = self.evaluate_loss(model)
        penalty = self.lam * self.regulariser.value(model.coef)
        rounding = loss.rounding + accumulated_rounding(model.coef.size) * penalty
        return Evaluation(loss.value + penalty, rounding)

    def _largest_entry(self) -> float:
        """Bound on the entries of G: λ for the sum of absolute values, none for squared norms."""
        return self.lam if self.regulariser.curvature(self.scores.data.c) is None else np.inf

    def repair(self, dual: Dual) -> Dual:
        """Project α into the domain of the loss, balance it, and scale it down to entries of G of at most λ where that is a constraint."""
        alpha = self.projected(self.multipliers(dual))
        if self.scores.intercept == "free":
            alpha = self.scores.balanced(alpha, self.loss)
        gradient = self.scores.gradient(alpha)
        largest = float(np.abs(gradient.W).max()) + gradient.W_rounding
        if largest > self._largest_entry():
            alpha = alpha * (self._largest_entry() / largest)
        return {"alpha": self.scores.expand(alpha)}

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of the domain of the loss, the balance and the bound of G, beyond rounding."""
        alpha = self.multipliers(dual)
        outside = self.domain_violation(alpha)
        if not np.isfinite(outside):
            return outside
        gradient = self.scores.gradient(alpha)
        unbalanced = 0.0
        if self.scores.intercept == "free":
            unbalanced = float(np.abs(gradient.b).max()) - accumulated_rounding(alpha.shape[0]) * float(alpha.sum())
        over = float(np.abs(gradient.W).max()) - self._largest_entry() - gradient.W_rounding
        return max(0.0, outside, unbalanced, over)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """D at a feasible α."""
        alpha = self.multipliers(dual)
        losses = self.evaluate_conjugate(alpha)
        gradient = self.scores.gradient(alpha)
        regulariser = self._regulariser_conjugate(gradient)
        rounding = losses.rounding + regulariser.rounding
        if self.scores.intercept == "free":
            rounding += float(np.abs(gradient.b).sum()) * self._bias_range()
        return Evaluation(losses.value - regulariser.value, rounding)

    @property
    def _objective_at_zero(self) -> float:
        """P at W = 0, b = 0: no term of P is larger at an optimum."""
        return float(self.weight @ self.loss.value(np.zeros(self.scores.others.shape)))

    def _bias_range(self) -> float:
        r"""Bound on :math:`|b_k - b_l|` at an optimum, by which an imbalance of rounding is multiplied.

        The value of the regulariser there bounds the scores without biases; with these, each loss bounds the biases.
        """
        highest = self._objective_at_zero
        scores = self.scores.longest_row * self.regulariser.radius(highest / self.lam, self.scores.data.c)
        return highest / float(self.weight.min()) + 2.0 * scores

    def _regulariser_conjugate(self, gradient: Gradient) -> Evaluation:
        curvature = self.regulariser.curvature(self.scores.data.c)
        error = gradient.W_rounding
        if curvature is None:
            # An entry of G above λ by rounding costs the excess times Σ|W|, and λΣ|W| is at most the objective at zero.
            return Evaluation(0.0, error * self._objective_at_zero / self.lam)
        size = float(np.linalg.norm(gradient.W))
        scale = 4.0 * self.lam * curvature
        value = size**2 / scale
        rounding = (2.0 * size * error + error**2) / scale + accumulated_rounding(gradient.W.size) * value
        return Evaluation(value, rounding)

    def polished(self, W: Floats, b: Floats) -> tuple[Floats, Floats] | None:
        """Return the minimum of P near (W, b) by Newton's method, None where P is not smooth or too large for it."""
        curvature = self.regulariser.curvature(self.scores.data.c)
        if curvature is None:
            return None
        d, free = W.shape[0], self.scores.intercept == "free"
        factor = 2.0 * self.lam * curvature

        def penalty(point: Floats) -> Penalty:
            W, b = point[:d], point[d:]
            hessian = np.zeros(point.shape * 2)
            hessian[:d, :, :d, :] = factor * np.eye(W.size).reshape(W.shape * 2)
            # Free biases are determined up to a common shift: the term (Σb)²/2 selects the one with Σb = 0.
            hessian[d:, :, d:, :] = 1.0
            gradient = np.vstack([factor * W, np.broadcast_to(b.sum(), b.shape)])
            return Penalty(0.5 * factor * float((W**2).sum()) + 0.5 * float(b.sum()) ** 2, gradient, hessian)

        start = np.vstack([W, b]) if free else W
        point = minimise(self.scores, self.loss, self.scores.dense_with_constant, start, penalty)
        return None if point is None else (point[:d], point[d] if free else b)

    def models(self, W: Floats, b: Floats) -> list[MulticlassModel]:
        """Return models of weights and biases; for the sum of absolute values a sparser one first."""
        weights = []
        if self.regulariser.curvature(self.scores.data.c) is None:
            weights.append(np.where(np.abs(W) > NEGLIGIBLE * np.abs(W).max(initial=0.0), W, 0.0))
            weights.append(W)
        else:
            # A common shift of the columns changes no difference; with columns that sum to zero the norms are smallest.
            weights.append(W - W.mean(axis=1, keepdims=True))
        b = b - b.mean()
        return [self.model(each, b) for each in weights]

    def recover_from(self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]) -> RecoveredPoints:
        """The models of (W, b), polished and as solved, and the multipliers."""
        weights = self.solved_weights(variables)
        if weights is None:
            return RecoveredPoints([], [])
        points = RecoveredPoints([], [])
        W, b = weights
        centred = (W - W.mean(axis=1, keepdims=True), b - b.mean())
        for point in (self.polished(*centred), weights):
            if point is not None:
                points.models.extend(self.models(*point))
                solved = self.solved_multipliers(multipliers["margin"], *point)
                points.duals.extend({"alpha": self.scores.expand(alpha)} for alpha in solved)
        points.duals.append({"alpha": np.zeros((self.scores.data.n, self.scores.data.c))})
        return points
