r"""M3SVM: the multi-class support vector machine that maximises the minimum margin between classes.

**Primal**, p ≥ 1, λ > 0, ε > 0, weights :math:`s_i > 0` (1 by default):

.. math::
    \min_{W, b}\; P(W, b) = \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p + \varepsilon(\|W\|_F^2 + \|b\|^2),
    \qquad f_{ik} = (w_{y_i} - w_k)'x_i + b_{y_i} - b_k,\; k \ne y_i,

with the losses ``hinge`` :math:`\sum_k(1-f_k)_+`, ``smoothed``
:math:`\sum_k\tfrac12(\gamma_k+\sqrt{\gamma_k^2+\delta^2})`, :math:`\gamma = 1 - f`, ``logistic``
:math:`\sum_k\log(1+e^{-f_k})` (ISM3) and ``softmax`` :math:`\log(1+\sum_k e^{-f_k})`, and with the
Euclidean norm or the sum of absolute values. The optimum has :math:`\sum_k w_k = 0` and
:math:`\sum_k b_k = 0`.

**Dual.** With G and :math:`g_b` of the multipliers α (see
:mod:`svmcvx.formulations.multiclass.score_space`), g of the conjugate of the loss (see
:mod:`svmcvx.formulations.multiclass.losses`) and *flows* :math:`S_{kl}`, k < l, from class k to
class l, whose divergence is :math:`(\operatorname{div}S)_k = \sum_{l>k}S_{kl} - \sum_{l<k}S_{lk}`,

.. math::
    \max_{\alpha, S}\; D(\alpha, S) = \sum_i s_i\,g(\alpha_i/s_i)
      - \sum_{k<l}(p-1)\lambda\Big(\frac{\|S_{kl}\|_*}{\lambda p}\Big)^{p/(p-1)}
      - \frac{\|R\|_F^2}{4\varepsilon} - \frac{\|g_b\|^2}{4\varepsilon}, \qquad R = G - \operatorname{div}S,

with :math:`\|\cdot\|_*` the Euclidean norm, or for ``norm=1`` the largest absolute value. For p = 1
the second term becomes the constraints :math:`\|S_{kl}\|_* \le \lambda`. At the optimum
:math:`S_{kl} = \lambda p\|w_k-w_l\|^{p-2}(w_k-w_l)` (Euclidean), :math:`R = 2\varepsilon W` and
:math:`g_b = 2\varepsilon b`.

**Hard margin** (separable classes, free b): minimise :math:`\sum_{k<l}\|w_k-w_l\|^p` subject to
:math:`f \ge 1`; its dual has λ = 1, :math:`\operatorname{div}S = G`, :math:`g_b = 0`. As p → ∞ it
becomes: minimise :math:`\max_{k<l}\|w_k-w_l\|`, whose dual maximises :math:`\sum\alpha` subject to
:math:`\sum_{k<l}\|S_{kl}\|_* \le 1`. The smallest margin between two classes is 2 over that value.

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

**Scaling.** The losses are summed, not averaged, and b is penalised by ε alone, so that adding a
constant to a feature changes the problem (little while the offset times :math:`\sqrt\varepsilon` is
small): standardise the features. At p = 2 and as ε → 0 the machine is
:func:`~svmcvx.formulations.multiclass.baselines_problems.weston_watkins` with λc, and so M-SVM and
the machine of [XuLiuHuo], which are ``m3svm`` at p = 2 with λ(c + 1)/(2c). Two classes: with
:math:`w = w_1 - w_2` it is :math:`\sum(1-u)_+ + \lambda\|w\|^p + \tfrac\varepsilon2(\|w\|^2+b^2)`,
at p = 2 and as ε → 0 the pSVM with p = 1 and C = 1/(2λ), 2λ times its objective. [NieHaoWang]
advises p ≈ 4 and λ ≈ 1e-3.

**Source.** [NieHaoWang], problems (4), (5) and (14), Theorems 1, 2 and 5; the dual problems and
bounds are derived here. **Erratum**: there any p > 0 is allowed, but p < 1 is not convex.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact, square, total
from svmcvx.data import check_choice, check_number, multiclass_data
from svmcvx.errors import DataError
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.multiclass.losses import HingeSum, LogisticSum, ScoreLoss, SmoothedHingeSum
from svmcvx.formulations.multiclass.newton import PenaltyDerivatives, newton_steps
from svmcvx.formulations.multiclass.pairwise import (
    PairwiseStatement,
    dual_lengths,
    lengths,
    pairwise,
)
from svmcvx.formulations.multiclass.score_space import ScoreSpace
from svmcvx.formulations.multiclass.simplex_losses import Softmax
from svmcvx.losses import hinge_power_conjugate
from svmcvx.model import MulticlassModel

__all__ = [
    "LOSSES",
    "M3SVM",
    "bound_m3svm",
    "check_exponent",
    "check_norm",
    "dual_objective_value",
    "objective_value",
]

Floats: TypeAlias = NDArray[np.float64]

# Share of their largest norm to which flows are shortened, so that rounding leaves them no longer.
SHRUNK = 1.0 - 2.0**-50

LOSSES: dict[str, type[ScoreLoss]] = {
    loss.name: loss for loss in (HingeSum, SmoothedHingeSum, LogisticSum, Softmax)
}


def objective_value(
    loss: Any, lengths: Any, squared_norm: Any, *, lam: Any, p: Any, eps: Any
) -> Any:
    r"""Return P from the sum of losses, the norms :math:`\|w_k-w_l\|` and
    :math:`\|W\|_F^2+\|b\|^2`, of plain or of bounded numbers.
    """
    return loss + lam * total(lengths**p) + eps * squared_norm


def dual_objective_value(
    losses: Any, lengths: Any, squared_norm: Any, *, lam: Any, p: Any, eps: Any
) -> Any:
    r"""Return D from the losses' part :math:`\sum s\,g`, the norms :math:`\|S_{kl}\|_*` and
    :math:`\|R\|_F^2+\|g_b\|^2`; for p = 1 of flows no longer than λ.
    """
    flows = 0.0 if p == 1 else total(hinge_power_conjugate(lengths, lam, p))
    return losses - flows - squared_norm / (4.0 * eps)


@dataclass(frozen=True, eq=False)
class M3SVM(PairwiseStatement):
    """The statement of M3SVM bound to data."""

    name: ClassVar[str] = "m3svm"
    lam: float
    eps: float

    def at(self, **values: float) -> Self:
        """Return the statement at other values of lam, eps and, for the smoothed hinge, delta."""
        fields: dict[str, Any] = dict(values)
        if "delta" in fields:
            fields["loss"] = SmoothedHingeSum(fields.pop("delta"))
        return replace(self, **fields)

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
        W, b = exact(model.coef), exact(model.intercept)
        squares = total(square(W)) + total(square(b))
        penalty = objective_value(0.0, lengths(pairwise(W), self.norm), squares, **self._parameters)
        return Evaluation.of(regulariser=penalty, losses=self.losses(model))

    @property
    def _parameters(self) -> dict[str, Bounded]:
        return {"lam": exact(self.lam), "p": exact(self.p), "eps": exact(self.eps)}

    def repair(self, dual: Dual) -> Dual:
        """Project α into the domain of the loss, add flows with the divergence of the change, and
        project them for p = 1.

        A dual point without flows gets those with R = 0.
        """
        given = self.multipliers(dual)
        alpha = self.projected(given)
        S = self.flow(dual)
        if S is None:
            S = self.least_flow(self.scores.gradient(alpha).W.value)
        elif not np.array_equal(alpha, given):
            change = self.scores.X.T @ self.scores.coefficients(alpha - given)
            S = S + self.least_flow(np.nan_to_num(np.asarray(change)))
        S = np.nan_to_num(S, nan=0.0)
        if self.p == 1:
            S = self._projected_flow(S)
        return {"alpha": self.scores.expand(alpha), "flow": S}

    def _projected_flow(self, S: Floats) -> Floats:
        """Return the nearest flows whose dual norm is at most λ for certain."""
        if self.norm == 1:
            return np.clip(S, -self.lam, self.lam)
        size = dual_lengths(exact(S), self.norm).upper
        short = size <= self.lam
        shrunk = S * np.where(short, 1.0, self.lam / np.where(short, 1.0, size) * SHRUNK)
        # Where norms over- or underflow.
        return np.where(dual_lengths(exact(shrunk), self.norm).upper <= self.lam, shrunk, 0.0)

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of the domain of the loss and, for p = 1, of the bound λ of the flows;
        0 only if there is none.
        """
        S = self.required_flow(dual) if "flow" in dual else np.zeros(1)
        outside = self.domain_violation(self.multipliers(dual))
        if not (np.isfinite(outside) and np.isfinite(S).all()):
            return math.inf
        if self.p > 1 or "flow" not in dual:
            return outside
        return max(outside, float(dual_lengths(exact(S), self.norm).upper.max()) - self.lam)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """D at a feasible (α, S)."""
        alpha, S = self.multipliers(dual), self.required_flow(dual)
        gradient = self.scores.gradient(alpha)
        squares = self.residual(gradient, S).squared_norm() + gradient.b.squared_norm()
        found: Bounded = dual_objective_value(
            self.minus_conjugate(alpha),
            dual_lengths(exact(S), self.norm),
            squares,
            **self._parameters,
        )
        return found

    def trivial(self) -> tuple[list[MulticlassModel], list[Dual]]:
        """W = 0 with the best of a few biases, and zero multipliers: P is not negative."""
        return [self.constant_model()], [self.zero_dual()]

    def bias_penalty(self, b: Floats) -> float:
        """ε‖b‖²."""
        return self.eps * float(b @ b)

    def dual_points(
        self, W: Floats, b: Floats, alpha: Floats, flow: Floats | None = None
    ) -> list[Dual]:
        r"""Return dual points near given multipliers and flows that fit weights close to the
        optimum.

        Since ε is small, an error in :math:`g_b` or R costs its square over 4ε. Therefore the
        multipliers are moved until :math:`B'1 = 2\varepsilon b`, :math:`R = 2\varepsilon W` is
        chosen, and the flows of W, or those given, are corrected by the flows of least squares with
        the remaining divergence. Near p = 1 the correction can cost more than R without it does,
        and for p = 1 it can violate the bound of the flows: the points without correction and the
        scaled points are returned too.
        """
        alpha = self.scores.moved_to_balance(self.projected(alpha), self.loss, 2.0 * self.eps * b)
        wanted = self.scores.gradient(alpha).W.value - 2.0 * self.eps * W
        points: list[Dual] = []
        for S in (self.power_flow(W, self.lam, self.p), flow):
            if S is None:
                continue
            exact = S + self.least_flow(wanted - S @ self.P.T)
            points.extend({"alpha": self.scores.expand(alpha), "flow": each} for each in (exact, S))
            if self.p == 1:
                factor = self.lam / max(float(dual_lengths(exact, self.norm).max()), self.lam)
                points.append({"alpha": self.scores.expand(alpha * factor), "flow": exact * factor})
        return points

    def polished(self, W: Floats, b: Floats) -> tuple[Floats, Floats] | None:
        """Return the minimum of P near (W, b) by Newton's method, None where P is not smooth or too
        large for it.
        """
        if self.norm != 2 or self.p == 1:
            return None
        point = newton_steps(
            self.scores,
            self.loss,
            self.scores.dense_with_constant,
            np.vstack([W, b]),
            self._penalty,
        )
        return None if point is None else (point[:-1], point[-1])

    def _penalty(self, point: Floats) -> PenaltyDerivatives:
        """The terms of P without losses, as a function of (W, b) stacked; Euclidean norms, p > 1."""
        (d, c), P, p = (point.shape[0] - 1, point.shape[1]), self.P, self.p
        V = point[:-1] @ P
        size = lengths(V, self.norm)
        value = objective_value(0.0, size, float((point**2).sum()), lam=self.lam, p=p, eps=self.eps)
        gradient = 2.0 * self.eps * point
        gradient[:-1] += self.power_flow(point[:-1], self.lam, p) @ P.T
        hessian = np.zeros((d + 1, c, d + 1, c))
        for m in np.flatnonzero(size):
            direction = V[:, m] / size[m]
            block = np.eye(d) + (p - 2.0) * np.outer(direction, direction)
            block *= self.lam * p * size[m] ** (p - 2.0)
            hessian[:-1, :, :-1, :] += np.einsum("ij,k,l->ikjl", block, P[:, m], P[:, m])
        squares = 2.0 * self.eps * np.eye(point.size)
        return PenaltyDerivatives(value, gradient, hessian + squares.reshape(hessian.shape))

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        """The models of (W, b), polished and as solved, and the multipliers with the flows of W and
        those of the solver.
        """
        weights = self.solved_weights(variables)
        if weights is None:
            return RecoveredPoints([], [])
        solved = multipliers["pairs"]
        flow = self.scores.unreduced(-np.asarray(solved)) if usable(solved) else None
        points = RecoveredPoints([], [])
        # A common shift of the columns changes no difference; with columns that sum to zero the
        # squares are smallest.
        centred = (
            weights[0] - weights[0].mean(axis=1, keepdims=True),
            weights[1] - weights[1].mean(),
        )
        for point in (self.polished(*centred), centred):
            if point is not None:
                W, b = point
                points.models.append(self.model(W, b))
                for alpha in self.solved_multipliers(multipliers["margin"], W, b):
                    points.duals.extend(self.dual_points(W, b, alpha, flow))
        return points


def check_exponent(p: Any, *, infinite: bool) -> float:
    """Return p as a number of at least 1, or infinity where that is allowed."""
    if infinite and isinstance(p, (float, np.floating)) and p == math.inf:
        return math.inf
    return check_number(p, "p", low=1, why="p < 1 is not convex")


def check_norm(norm: Any) -> int:
    """Return 2 for Euclidean norms, 1 for sums of absolute values."""
    if isinstance(norm, (bool, np.bool_)) or np.ndim(norm) or norm not in (1, 2):
        raise DataError(f"norm must be 2 (Euclidean) or 1 (sum of absolute values), got {norm!r}")
    return int(norm)


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
    """Check all arguments and bind the statement to the data; the arguments are those of
    :func:`m3svm`.
    """
    lam = check_number(lam, "lam", low=0, open_low=True)
    p = check_exponent(p, infinite=False)
    eps = check_number(
        eps, "eps", low=0, open_low=True, why="the certificate divides by it; take a small one"
    )
    delta = check_number(delta, "delta", low=0, open_low=True)
    kind = LOSSES[check_choice(loss, "loss", tuple(LOSSES))]
    norm = check_norm(norm)
    chosen = SmoothedHingeSum(delta) if kind is SmoothedHingeSum else kind()
    scores = ScoreSpace(multiclass_data(X, y, sample_weight), "penalised", rotations=norm == 2)
    return M3SVM(scores=scores, loss=chosen, lam=lam, p=p, eps=eps, norm=norm)
