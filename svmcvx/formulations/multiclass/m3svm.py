r"""M3SVM: the multi-class support vector machine that maximises the minimum margin between classes.

**Primal**, p ≥ 1, λ > 0, ε > 0, weights :math:`s_i > 0` (1 by default):

.. math::
    \min_{W, b}\; P(W, b) = \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p + \varepsilon(\|W\|_F^2 + \|b\|^2),
    \qquad f_{ik} = (w_{y_i} - w_k)'x_i + b_{y_i} - b_k,\; k \ne y_i,

with the losses ``hinge`` :math:`\sum_k(1-f_k)_+`, ``smoothed`` :math:`\sum_k\tfrac12(\gamma_k+\sqrt{\gamma_k^2+\delta^2})`,
:math:`\gamma = 1 - f`, ``logistic`` :math:`\sum_k\log(1+e^{-f_k})` (ISM3) and ``softmax`` :math:`\log(1+\sum_k e^{-f_k})`, and with the
Euclidean norm or the sum of absolute values. The optimum has :math:`\sum_k w_k = 0` and :math:`\sum_k b_k = 0`.

**Dual.** With G and :math:`g_b` of the multipliers α (see :mod:`svmcvx.formulations.multiclass.score_space`) and *flows* :math:`S_{kl}`, k < l, from
class k to class l, whose divergence is :math:`(\operatorname{div}S)_k = \sum_{l>k}S_{kl} - \sum_{l<k}S_{lk}`,

.. math::
    \max_{\alpha, S}\; D(\alpha, S) = \sum_i s_i\,g(\alpha_i/s_i)
      - \sum_{k<l}(p-1)\lambda\Big(\frac{\|S_{kl}\|_*}{\lambda p}\Big)^{p/(p-1)}
      - \frac{\|R\|_F^2}{4\varepsilon} - \frac{\|g_b\|^2}{4\varepsilon}, \qquad R = G - \operatorname{div}S,

with :math:`\|\cdot\|_*` the Euclidean norm, or for ``norm=1`` the largest absolute value. For p = 1 the second term becomes the
constraints :math:`\|S_{kl}\|_* \le \lambda`. At the optimum :math:`S_{kl} = \lambda p\|w_k-w_l\|^{p-2}(w_k-w_l)` (Euclidean),
:math:`R = 2\varepsilon W` and :math:`g_b = 2\varepsilon b`.

**Hard margin** (separable classes, free b): minimise :math:`\sum_{k<l}\|w_k-w_l\|^p` subject to :math:`f \ge 1`; its dual has λ = 1,
:math:`\operatorname{div}S = G`, :math:`g_b = 0`. As p → ∞ it becomes: minimise :math:`\max_{k<l}\|w_k-w_l\|`, whose dual maximises
:math:`\sum\alpha` subject to :math:`\sum_{k<l}\|S_{kl}\|_* \le 1`. The smallest margin between two classes is 2 over that value.

============== ======================================================== =========
symbol         meaning                                                  shape
============== ======================================================== =========
X, y           data, labels of c classes                                (n, d), (n,)
W, b           weights, one column a class; biases                      (d, c), (c,)
P              column kl of WP is :math:`w_k - w_l`, k < l              (c, c(c − 1)/2)
f              score differences to the other classes, in order         (n, c − 1)
alpha          multipliers of f, zero for the own class                 (n, c)
flow           S, one column a pair of classes                          (d, c(c − 1)/2)
============== ======================================================== =========

**Scaling.** The losses are summed, not averaged, and b is penalised by ε alone, so that adding a constant to a feature changes the
problem (little while the offset times :math:`\sqrt\varepsilon` is small): standardise the features. At p = 2 and as ε → 0 the machine
is :func:`~svmcvx.formulations.multiclass.baselines.weston_watkins` with λc, and so M-SVM and the machine of Xu et al. (2017), which are
``m3svm`` at p = 2 with λ(c + 1)/(2c). Two classes: with :math:`w = w_1 - w_2` it is :math:`\sum(1-u)_+ + \lambda\|w\|^p +
\tfrac\varepsilon2(\|w\|^2+b^2)`, at p = 2 and as ε → 0 the pSVM with p = 1 and C = 1/(2λ), 2λ times its objective. The paper advises
p ≈ 4 and λ ≈ 1e-3.

**Source.** M3SVM paper, problems (4), (5) and (14), Theorems 1, 2 and 5; spec m3svm.md. **Erratum**: the paper allows any p > 0, but
p < 1 is not convex.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual, Evaluation, accumulated_rounding
from svmcvx.data import check_choice, check_number, multiclass_data
from svmcvx.errors import DataError
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.multiclass.baselines import (
    MulticlassProblem,
    MulticlassStatement,
    pair_differences,
    require_conic_memory,
)
from svmcvx.formulations.multiclass.newton import Penalty, minimum
from svmcvx.formulations.multiclass.score_space import (
    HingeSum,
    LogisticSum,
    Margin,
    ScoreLoss,
    Scores,
    SmoothedHingeSum,
    Softmax,
)
from svmcvx.losses import hinge_power_conjugate
from svmcvx.model import MulticlassModel

__all__ = [
    "M3SVM",
    "HardMarginM3SVM",
    "HardMarginM3SVMProblem",
    "M3SVMProblem",
    "bound_m3svm",
    "dual_objective",
    "m3svm",
    "m3svm_hard_margin",
    "objective",
]

Floats: TypeAlias = NDArray[np.float64]

# Differences up to this share above the smallest count as support of a hard-margin model.
NEAR_MARGIN = 1e-6

LOSSES: dict[str, type[ScoreLoss]] = {loss.name: loss for loss in (HingeSum, SmoothedHingeSum, LogisticSum, Softmax)}


def objective(loss: float, lengths: Floats, squared_norm: float, *, lam: float, p: float, eps: float) -> float:
    r"""Return P from the sum of losses, the norms :math:`\|w_k-w_l\|` and :math:`\|W\|_F^2+\|b\|^2`."""
    return loss + lam * float((lengths**p).sum()) + eps * squared_norm


def dual_objective(gain: float, lengths: Floats, squared_norm: float, *, lam: float, p: float, eps: float) -> float:
    r"""Return D from :math:`\sum s\,g`, the norms :math:`\|S_{kl}\|_*` and :math:`\|R\|_F^2+\|g_b\|^2`; −inf outside the balls of p = 1."""
    return gain - float(hinge_power_conjugate(lengths, lam, p).sum()) - squared_norm / (4.0 * eps)


def lengths(V: Floats, norm: int) -> Floats:
    """Return the norm of each column."""
    return np.asarray(np.linalg.norm(V, ord=norm, axis=0))


def dual_lengths(S: Floats, norm: int) -> Floats:
    """Return the dual norm of each column."""
    return np.asarray(np.linalg.norm(S, ord=2 if norm == 2 else np.inf, axis=0))


class _PairwiseStatement(MulticlassStatement):
    """Multipliers with flows between the classes."""

    norm: int

    @property
    def P(self) -> Floats:
        """The matrix whose columns take the difference of two classes."""
        return pair_differences(self.scores.data.c)

    def flow(self, dual: Dual) -> Floats | None:
        """Return S of a dual point, None if it has none."""
        if "flow" not in dual:
            return None
        S = np.asarray(dual["flow"], dtype=np.float64)
        shape = (self.scores.data.X.shape[1], self.P.shape[1])
        if S.shape != shape:
            raise DataError(
                f"flow of {self.name} must have one column a pair of classes: expected shape {shape}, got {S.shape}"
            )
        return S

    def spread(self, D: Floats) -> Floats:
        """Return flows whose divergence is D, of shape (d, c) with columns that sum to zero."""
        return np.asarray(D @ self.P / self.P.shape[0])

    def exact_flow(self, dual: Dual) -> Floats:
        """Return S of a dual point that has to have one."""
        S = self.flow(dual)
        if S is None:
            raise DataError(f"the dual point of {self.name} needs the entry 'flow'; repair() makes one from alpha")
        return S

    def power_flow(self, W: Floats, lam: float, p: float) -> Floats:
        r"""Return a subgradient of :math:`\lambda\sum\|w_k-w_l\|^p` in the differences."""
        V = W @ self.P
        size = lengths(V, self.norm)
        if self.norm == 1:
            return np.asarray(lam * p * size ** (p - 1.0) * np.sign(V))
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(size > 0, lam * p * size ** (p - 1.0) * (V / size), 0.0)


@dataclass(frozen=True, eq=False)
class M3SVM(_PairwiseStatement):
    """The statement of M3SVM bound to data.

    Parameters
    ----------
    scores : Scores
    loss : ScoreLoss
    lam : float
        Weight of the pairwise norms, positive.
    p : float
        Their exponent, at least 1.
    eps : float
        Weight of the squares, positive.
    norm : 2 or 1
        Euclidean norms, or sums of absolute values.
    """

    name: ClassVar[str] = "m3svm"
    scores: Scores
    loss: ScoreLoss
    lam: float
    p: float
    eps: float
    norm: int

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """lam, p, eps, the loss with its parameters, and the norm."""
        return {
            "lam": self.lam,
            "p": self.p,
            "eps": self.eps,
            "loss": self.loss.name,
            "norm": self.norm,
            **self.loss.parameters,
        }

    def evaluate(self, model: MulticlassModel) -> Evaluation:
        """P at a model, from its scores on the raw data."""
        loss = self.evaluate_loss(model)
        W, b = model.coef, model.intercept
        size = lengths(W @ self.P, self.norm)
        squares = float((W**2).sum() + (b**2).sum())
        with np.errstate(over="ignore"):
            value = objective(loss.value, size, squares, lam=self.lam, p=self.p, eps=self.eps)
            # Taking a difference costs an epsilon of what it is taken of.
            off = EPS * (lengths(W, self.norm) @ np.abs(self.P))
            slopes = self.lam * self.p * size ** (self.p - 1.0)
            relative = accumulated_rounding(W.size) + EPS * self.p
            rounding = loss.rounding + float(slopes @ off) + relative * (value - loss.value)
        return Evaluation(value, rounding)

    def repair(self, dual: Dual) -> Dual:
        """Project α into the domain of the loss, let the flows carry the change, and project them for p = 1.

        Without flows R = 0 is chosen.
        """
        given = self.multipliers(dual)
        alpha = self.projected(given)
        S = self.flow(dual)
        if S is None:
            S = self.spread(self.scores.gradient(alpha).W)
        elif not np.array_equal(alpha, given):
            S = S + self.spread(self.scores.gradient(alpha - given).W)
        if self.p == 1:
            S = self._confined(S)
        return {"alpha": self.scores.expand(alpha), "flow": S}

    def _confined(self, S: Floats) -> Floats:
        """Return the nearest flows inside the balls of radius λ."""
        if self.norm == 1:
            return np.clip(S, -self.lam, self.lam)
        size = dual_lengths(S, self.norm)
        return np.asarray(S * (self.lam / np.maximum(size, self.lam)))

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of the domain of the loss and, for p = 1, of the balls, beyond rounding."""
        S = self.exact_flow(dual) if "flow" in dual else np.zeros(1)
        excess = self.excess(self.multipliers(dual))
        if not (np.isfinite(excess) and np.isfinite(S).all()):
            return math.inf
        if self.p > 1 or "flow" not in dual:
            return excess
        rounding = accumulated_rounding(S.shape[0]) * self.lam
        return max(excess, float(dual_lengths(S, self.norm).max()) - self.lam - rounding)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """D at a feasible (α, S)."""
        alpha, S = self.multipliers(dual), self.exact_flow(dual)
        gain = self.evaluate_gain(alpha)
        gradient = self.scores.gradient(alpha)
        R = gradient.W - S @ self.P.T
        R_size, b_size = float(np.linalg.norm(R)), float(np.linalg.norm(gradient.b))
        R_off = gradient.W_rounding + accumulated_rounding(self.P.shape[0]) * float(np.linalg.norm(S))
        size = dual_lengths(S, self.norm)
        if self.p == 1:
            size = np.minimum(size, self.lam)
        value = dual_objective(gain.value, size, R_size**2 + b_size**2, lam=self.lam, p=self.p, eps=self.eps)
        squares = (R_size**2 + b_size**2) / (4.0 * self.eps)
        conjugates = gain.value - value - squares
        power = EPS * self.p / (self.p - 1.0) * (S.shape[0] + 4.0) if self.p > 1 else 0.0
        off = sum(
            (2.0 * size * error + error**2) / (4.0 * self.eps)
            for size, error in ((R_size, R_off), (b_size, gradient.b_rounding))
        )
        rounding = gain.rounding + off + power * abs(conjugates) + accumulated_rounding(R.size) * squares
        return Evaluation(value, rounding)

    def dual_points(self, W: Floats, b: Floats, alpha: Floats, flow: Floats | None = None) -> list[Dual]:
        r"""Return dual points near given multipliers and flows that fit weights close to the optimum.

        ε is small, so that the squares over 4ε forgive no error: the multipliers are moved until :math:`B'1 = 2\varepsilon b`,
        :math:`R = 2\varepsilon W` is chosen, and the flows of W, or those given, take up the rest. Near p = 1 this can cost
        more than to leave the rest to R, and for p = 1 than to scale everything down: these points are returned too.

        Parameters
        ----------
        W : ndarray of shape (d, c)
        b : ndarray of shape (c,)
        alpha : ndarray of shape (n, c − 1)
        flow : ndarray of shape (d, c(c − 1)/2), optional
        """
        alpha = self.scores.steered(self.projected(alpha), self.loss, 2.0 * self.eps * b)
        wanted = self.scores.gradient(alpha).W - 2.0 * self.eps * W
        points: list[Dual] = []
        for S in (self.power_flow(W, self.lam, self.p), flow):
            if S is None:
                continue
            exact = S + self.spread(wanted - S @ self.P.T)
            points.extend({"alpha": self.scores.expand(alpha), "flow": each} for each in (exact, S))
            if self.p == 1:
                factor = self.lam / max(float(dual_lengths(exact, self.norm).max()), self.lam)
                points.append({"alpha": self.scores.expand(alpha * factor), "flow": exact * factor})
        return points

    def polished(self, W: Floats, b: Floats) -> tuple[Floats, Floats] | None:
        """Return the minimum of P near (W, b) by Newton's method, None where P is not smooth or too large for it."""
        if self.norm != 2 or self.p == 1:
            return None
        point = minimum(self.scores, self.loss, self.scores.dense_with_constant, np.vstack([W, b]), self._penalty)
        return None if point is None else (point[:-1], point[-1])

    def _penalty(self, point: Floats) -> Penalty:
        """What P adds to the losses, in (W, b) stacked; Euclidean norms, p > 1."""
        (d, c), P, p = (point.shape[0] - 1, point.shape[1]), self.P, self.p
        V = point[:-1] @ P
        size = lengths(V, self.norm)
        value = objective(0.0, size, float((point**2).sum()), lam=self.lam, p=p, eps=self.eps)
        gradient = 2.0 * self.eps * point
        gradient[:-1] += self.power_flow(point[:-1], self.lam, p) @ P.T
        hessian = np.zeros((d + 1, c, d + 1, c))
        for m in np.flatnonzero(size):
            direction = V[:, m] / size[m]
            block = np.eye(d) + (p - 2.0) * np.outer(direction, direction)
            block *= self.lam * p * size[m] ** (p - 2.0)
            hessian[:-1, :, :-1, :] += np.einsum("ij,k,l->ikjl", block, P[:, m], P[:, m])
        squares = 2.0 * self.eps * np.eye(point.size)
        return Penalty(value, gradient, hessian + squares.reshape(hessian.shape))


class M3SVMProblem(MulticlassProblem):
    """The problem of M3SVM; see :func:`m3svm`."""

    lam: cp.Parameter
    eps: cp.Parameter
    cone: str
    _fixed: M3SVM

    @property
    def formulation(self) -> M3SVM:
        """The statement at the present values of the parameters."""
        return replace(self._fixed, lam=float(self.lam.value), eps=float(self.eps.value), loss=self.loss)

    @property
    def loss(self) -> ScoreLoss:  # type: ignore[override]
        """The loss at the present value of δ."""
        if "delta" in self.param_dict:
            return SmoothedHingeSum(float(self.param_dict["delta"].value))
        return self._fixed.loss

    def recover(self) -> RecoveredPoints:
        """The model of (W, b), and the multipliers with the flows of W and those of the solver."""
        weights = self.solved_weights
        if weights is None:
            return RecoveredPoints([], [])
        statement = self.formulation
        multiplier = self.constraint_dict["pairs"].dual_value
        flow = self.scores.unreduced(-np.asarray(multiplier)) if usable(multiplier) else None
        candidates = RecoveredPoints([], [])
        # A common shift changes no difference, and this one makes the squares smallest.
        centred = (weights[0] - weights[0].mean(axis=1, keepdims=True), weights[1] - weights[1].mean())
        for point in (statement.polished(*centred), centred):
            if point is not None:
                W, b = point
                f = self.scores.differences(self.scores.X @ W + b)
                candidates.models.append(self.scores.model(W, b, self.loss.support(f)))
                for alpha in self.solved_multipliers(W, b):
                    candidates.duals.extend(statement.dual_points(W, b, alpha, flow))
        candidates.duals.append(statement.repair({"alpha": np.zeros((self.scores.data.n, self.scores.data.c))}))
        return candidates


@dataclass(frozen=True, eq=False)
class HardMarginM3SVM(_PairwiseStatement):
    """The statement of the hard-margin M3SVM bound to data.

    Parameters
    ----------
    scores : Scores
    loss : ScoreLoss
        The margin constraints.
    p : float
        Exponent, at least 1, possibly infinite.
    norm : 2 or 1
    """

    name: ClassVar[str] = "m3svm_hard_margin"
    scores: Scores
    loss: ScoreLoss
    p: float
    norm: int

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """Exponent and norm."""
        return {"p": self.p, "norm": self.norm}

    @property
    def facts(self) -> Mapping[str, float]:
        """Nothing to report."""
        return {}

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
        S = self.spread(G) if S is None else S + self.spread(G - S @ self.P.T)
        total, cost = float(alpha.sum()), self._cost(S)
        if math.isinf(self.p) or self.p == 1:
            factor = 1.0 / cost if cost > 0 else 1.0
        else:
            # θ Σα − θ^q cost is largest at θ = (Σα/(q cost))^(1/(q − 1)), q − 1 = 1/(p − 1).
            factor = (total * (self.p - 1.0) / (self.p * cost)) ** (self.p - 1.0) if cost > 0 else 1.0
        return {"alpha": self.scores.expand(alpha * factor), "flow": S * factor}

    def _cost(self, S: Floats) -> float:
        """The conjugate of the regulariser; for p = 1 and ∞ the gauge of its domain."""
        size = dual_lengths(S, self.norm)
        if math.isinf(self.p):
            return float(size.sum())
        return float(size.max()) if self.p == 1 else float(hinge_power_conjugate(size, 1.0, self.p).sum())

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of α ≥ 0, the balance, div S = G and, for p = 1 and ∞, the bound of S, beyond rounding."""
        alpha = self.multipliers(dual)
        S = self.flow(dual)
        excess = self.excess(alpha)
        if not np.isfinite(excess) or (S is not None and not np.isfinite(S).all()):
            return math.inf
        if S is None:
            return excess
        gradient = self.scores.gradient(alpha)
        relative = accumulated_rounding(S.size)
        unbalanced = float(np.abs(gradient.b).max()) - accumulated_rounding(alpha.shape[0]) * float(alpha.sum())
        residual = float(np.abs(gradient.W - S @ self.P.T).max())
        residual -= gradient.W_rounding + relative * float(np.linalg.norm(S))
        over = self._cost(S) - 1.0 - relative if self.p == 1 or math.isinf(self.p) else 0.0
        return max(0.0, excess, unbalanced, residual, over)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """Σα less the conjugate at a feasible (α, S)."""
        alpha, S = self.multipliers(dual), self.exact_flow(dual)
        gain = self.evaluate_gain(alpha)
        bounded = self.p == 1 or math.isinf(self.p)
        conjugate = 0.0 if bounded else self._cost(S)
        gradient = self.scores.gradient(alpha)
        value = gain.value - conjugate
        power = EPS * (S.shape[0] + 4.0) * (1.0 if bounded else self.p / (self.p - 1.0))
        rounding = gain.rounding + power * (gain.value if bounded else conjugate)
        # What the equations are off by is priced by W and b: no difference of weights is longer than the value allows,
        # and the biases lie between the scores of the classes.
        longest = max(value, 0.0) ** (1.0 if math.isinf(self.p) else 1.0 / self.p)
        off = float(np.linalg.norm(gradient.W - S @ self.P.T)) + gradient.W_rounding
        rounding += off * longest * math.sqrt(self.P.shape[1] / self.P.shape[0])
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


class HardMarginM3SVMProblem(MulticlassProblem):
    """The hard-margin problem; see :func:`m3svm_hard_margin`."""

    _fixed: HardMarginM3SVM

    @property
    def formulation(self) -> HardMarginM3SVM:
        """The statement."""
        return self._fixed

    def recover(self) -> RecoveredPoints:
        """The model of (W, b) scaled to the margin, and the multipliers with the flows of W and those of the solver."""
        weights = self.solved_weights
        if weights is None:
            return RecoveredPoints([], [])
        statement, scores = self._fixed, self.scores
        W, b = (each - each.mean(axis=-1, keepdims=True) for each in weights)
        f = scores.differences(scores.X @ W + b)
        smallest = float(f.min())
        models: list[MulticlassModel] = []
        if smallest > 0:
            support = np.asarray((f <= smallest * (1.0 + NEAR_MARGIN)).any(axis=1))
            models.append(scores.model(W / smallest, b / smallest, support))
        multiplier = self.constraint_dict["pairs"].dual_value
        flows = [scores.unreduced(-np.asarray(multiplier))] if usable(multiplier) else []
        if 1 < statement.p < math.inf:
            flows.append(statement.power_flow(W, 1.0, statement.p))
        duals: list[Dual] = [
            {"alpha": scores.expand(alpha), "flow": flow} for alpha in self.solved_multipliers(W, b) for flow in flows
        ]
        return RecoveredPoints(models, duals)


def _exponent(p: Any, *, infinite: bool) -> float:
    if infinite and isinstance(p, (float, np.floating)) and p == math.inf:
        return math.inf
    return check_number(p, "p", low=1, why="p < 1 is not convex")


def _norm(norm: Any) -> int:
    if isinstance(norm, (bool, np.bool_)) or norm not in (1, 2):
        raise DataError(f"norm must be 2 (Euclidean) or 1 (sum of absolute values), got {norm!r}")
    return int(norm)


class _PairNorms:
    """The differences of classes as variables of a cvxpy problem, with their norms and powers."""

    def __init__(self, W: cp.Variable, c: int, norm: int) -> None:
        P = pair_differences(c)
        self.norm = norm
        self.V = cp.Variable((W.shape[0], P.shape[1]), name="V")
        self.constraints = [(self.V == W @ P).set_label("pairs")]

    def sizes(self) -> cp.Expression:
        """Norm of each column."""
        return cp.norm(self.V, 2, axis=0) if self.norm == 2 else cp.sum(cp.abs(self.V), axis=0)

    def largest(self) -> cp.Expression:
        """The largest norm."""
        u = cp.Variable(name="u")
        self.constraints.append((self.sizes() <= u).set_label("length"))
        return u

    def powers(self, p: float) -> tuple[cp.Expression, str]:
        """The sum of the norms to the power p, and the cone that states it."""
        cone = "second-order cones" if self.norm == 2 else "linear"
        if p == 1:
            return cp.sum(self.sizes()), cone
        if p == 2 and self.norm == 2:
            return cp.sum_squares(self.V), "quadratic"
        u = cp.Variable(self.V.shape[1], name="u")
        self.constraints.append((self.sizes() <= u).set_label("length"))
        if p == 2:
            return cp.sum_squares(u), "quadratic"
        t = cp.Variable(self.V.shape[1], name="t")
        self.constraints.append(cp.PowCone3D(t, np.ones(t.shape), u, 1.0 / p).set_label("power"))
        return cp.sum(t), "power cone"


def bound_m3svm(
    X: Any,
    y: Any,
    *,
    lam: float,
    p: float,
    eps: float,
    loss: str,
    norm: int,
    delta: float,
    sample_weight: Any,
) -> M3SVM:
    """Check all arguments and bind the statement to the data; the arguments are those of :func:`m3svm`."""
    lam = check_number(lam, "lam", low=0, open_low=True)
    p = _exponent(p, infinite=False)
    eps = check_number(eps, "eps", low=0, open_low=True, why="the certificate divides by it; take a small one")
    delta = check_number(delta, "delta", low=0, open_low=True)
    kind = LOSSES[check_choice(loss, "loss", tuple(LOSSES))]
    norm = _norm(norm)
    chosen = SmoothedHingeSum(delta) if kind is SmoothedHingeSum else kind()
    scores = Scores(multiclass_data(X, y, sample_weight), "penalised", rotations=norm == 2)
    return M3SVM(scores=scores, loss=chosen, lam=lam, p=p, eps=eps, norm=norm)


def m3svm(
    X: Any,
    y: Any,
    *,
    lam: float,
    p: float,
    eps: float = 1e-6,
    loss: str = "hinge",
    norm: int = 2,
    delta: float = 1e-2,
    sample_weight: Any = None,
) -> M3SVMProblem:
    r"""Build M3SVM as a cvxpy problem.

    .. math:: \min\; \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p + \varepsilon(\|W\|_F^2 + \|b\|^2)

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Standardised features: the biases are penalised too, and ε is for features of order one.
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam : float
        Weight λ of the pairwise norms, positive. The cvxpy parameter ``problem.lam``.
    p : float
        Exponent, any real number of at least 1; the paper advises 4.
    eps : float
        Weight ε of the squares, positive; 1e-6 by default, as in the paper. The cvxpy parameter ``problem.eps``.
    loss : "hinge", "smoothed", "logistic" or "softmax"
        See the module. ``"logistic"`` is the paper's ISM3.
    norm : 2 or 1
        Euclidean norms, or sums of absolute values.
    delta : float
        Smoothing δ of ``"smoothed"``, positive; 1e-2 by default (the paper gives no number). A cvxpy parameter.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses.

    Returns
    -------
    M3SVMProblem
        A ``cvxpy.Problem``. Variables ``W`` of shape (d, c) — (n, c) in the columns of a square factor of the data when d > n
        and ``norm=2`` —, ``b`` of shape (c,), for dense data ``a`` (the scores at the mean observation), ``V`` (the differences of the columns of W, one a pair k < l in lexicographic
        order), ``xi`` for the hinge, ``f`` for the other losses, and for p other than 1 and 2 ``u`` and ``t`` (norms and their powers; for ``norm=1`` and
        p = 2 ``u`` alone); parameters ``lam``, ``eps`` and ``delta`` (smoothed only); constraints labelled ``pairs`` (minus its
        multipliers are the flows), ``margin`` (its multipliers are α), ``slack``, ``shift`` (:math:`a = b + W'\bar x`), ``length`` and
        ``power``.
        ``problem.cone`` tells which cone states the powers.

    Raises
    ------
    DataError
        If the data or an argument cannot be used; p < 1 because it is not convex.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: M3SVM paper, problem (14) and its variants; spec m3svm.md.
    """
    started = time.perf_counter()
    statement = bound_m3svm(X, y, lam=lam, p=p, eps=eps, loss=loss, norm=norm, delta=delta, sample_weight=sample_weight)
    scores, chosen, p, norm = statement.scores, statement.loss, statement.p, statement.norm
    require_conic_memory(scores, "m3svm")
    data = scores.data
    lam_parameter = cp.Parameter(pos=True, name="lam", value=statement.lam)
    eps_parameter = cp.Parameter(pos=True, name="eps", value=statement.eps)
    W = cp.Variable((scores.factor.shape[1], data.c), name="W")
    b = cp.Variable(data.c, name="b")
    differences, shift = scores.stated_differences(W, b)
    stated = chosen.statement(differences, data.weight)
    pairs = _PairNorms(W, data.c, norm)
    powers, cone = pairs.powers(p)
    squares = cp.sum_squares(W) + cp.sum_squares(b)
    problem = M3SVMProblem(
        cp.Minimize(stated.value + lam_parameter * powers + eps_parameter * squares),
        [*shift, *stated.constraints, *pairs.constraints],
    )
    problem.lam, problem.eps, problem.cone, problem.scores = lam_parameter, eps_parameter, cone, scores
    problem._fixed = statement
    problem.build_seconds = time.perf_counter() - started
    return problem


def m3svm_hard_margin(X: Any, y: Any, *, p: float, norm: int = 2) -> HardMarginM3SVMProblem:
    r"""Build the hard-margin M3SVM as a cvxpy problem.

    .. math::
        \min\; \sum_{k<l}\|w_k - w_l\|^p \quad\text{or, for } p = \infty, \quad \min\; \max_{k<l}\|w_k - w_l\|,
        \qquad\text{s.t.}\quad f_{ik} \ge 1.

    The biases are free. For p = ∞ the smallest margin between two classes, 2 over the objective, is maximised.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
        Labels of two or more classes, of any type; every two classes have to be separable.
    p : float
        Exponent of at least 1, or ``math.inf``.
    norm : 2 or 1
        Euclidean norms, or sums of absolute values.

    Returns
    -------
    HardMarginM3SVMProblem
        A ``cvxpy.Problem``. Variables ``W``, ``b``, ``V`` and, as the exponent demands, ``u`` and ``t``; constraints labelled
        ``margin``, ``pairs``, ``length``, ``power``, and ``gauge`` (:math:`\sum_k w_k = 0`, :math:`\sum_k b_k = 0`, which costs
        nothing). The biases belong to centred data when `X` is dense.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: M3SVM paper, problems (4) and (5), Theorem 1.
    """
    started = time.perf_counter()
    p, norm = _exponent(p, infinite=True), _norm(norm)
    scores = Scores(multiclass_data(X, y), "free", rotations=norm == 2)
    require_conic_memory(scores, "m3svm_hard_margin")
    data = scores.data
    W = cp.Variable((scores.factor.shape[1], data.c), name="W")
    b = cp.Variable(data.c, name="b")
    loss = Margin()
    differences, shift = scores.stated_differences(W, b)
    stated = loss.statement(differences, data.weight)
    pairs = _PairNorms(W, data.c, norm)
    value = pairs.largest() if math.isinf(p) else pairs.powers(p)[0]
    gauge = [
        (cp.sum(W, axis=1) == 0).set_label("gauge"),
        (cp.sum(b) == 0).set_label("gauge_b"),
    ]
    problem = HardMarginM3SVMProblem(cp.Minimize(value), [*shift, *stated.constraints, *pairs.constraints, *gauge])
    problem.scores, problem.loss = scores, loss
    problem._fixed = HardMarginM3SVM(scores=scores, loss=loss, p=p, norm=norm)
    problem.build_seconds = time.perf_counter() - started
    return problem
