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

**Dual.** With G and :math:`g_b` of the multipliers α (see :mod:`svmcvx.formulations.multiclass.score_space`, which also has the gains g),

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
p = 2 with λ(c + 1)/(2c); at λ = 1 it is also the machine of Xu et al. (2017).

**Source.** M3SVM paper, related work and Table 1, and the papers it cites: Weston and Watkins (1998), Crammer and Singer
(2001), Bredensteiner and Bennett (1999), Lapin, Hein and Schiele (2015), Böhning (1992), Krishnapuram et al. (2005). The top-k
loss is the one with :math:`1[j \ne y]`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation, accumulated_rounding
from svmcvx.data import check_number, multiclass_data
from svmcvx.errors import DataError
from svmcvx.formulations.base import Formulation, FormulationProblem, RecoveredPoints, usable
from svmcvx.formulations.multiclass.newton import Penalty, minimum
from svmcvx.formulations.multiclass.score_space import (
    Gradient,
    HingeSum,
    LargestHinge,
    ScoreLoss,
    Scores,
    Softmax,
    TopHinge,
)
from svmcvx.model import MulticlassModel
from svmcvx.system import memory

__all__ = [
    "AbsoluteSum",
    "Multiclass",
    "MulticlassProblem",
    "MulticlassStatement",
    "PairwiseNorms",
    "Regulariser",
    "SquaredNorms",
    "crammer_singer",
    "msvm",
    "multinomial_lr",
    "sparse_multinomial_lr",
    "topk_svm",
    "weston_watkins",
]

Floats: TypeAlias = NDArray[np.float64]

# Bytes that compiling and solving need for each non-zero of the differences as functions of (W, b).
CONIC_BYTES = 140.0
# Weights of a sparse model up to this share of the largest are tried as zeros.
NEGLIGIBLE = 1e-6


class MulticlassStatement(Formulation):
    """What all formulations on score differences share."""

    scores: Scores
    loss: ScoreLoss

    @property
    def facts(self) -> Mapping[str, float]:
        """Nothing to report."""
        return {}

    def evaluate_loss(self, model: MulticlassModel) -> Evaluation:
        """The weighted sum of losses at a model, from its scores on the raw data."""
        f, f_rounding = self.scores.model_differences(model)
        weight = self.scores.data.weight
        value = float(weight @ self.loss.value(f))
        # The loss is convex and decreasing: its slope at f − δ bounds those on the way from there to f.
        steepness = weight[:, None] * self.loss.multipliers(f - f_rounding)
        return Evaluation(value, float((steepness * f_rounding).sum()) + accumulated_rounding(f.size) * value)

    def multipliers(self, dual: Dual) -> Floats:
        """Return α of a dual point, shape (n, c − 1)."""
        if "alpha" not in dual:
            raise DataError(
                f"the dual point of {self.name} needs the entry 'alpha', got {', '.join(dual) or 'nothing'}"
            )
        return self.scores.compress(dual["alpha"], self.name)

    def projected(self, alpha: Floats) -> Floats:
        """Return multipliers inside the domain of the loss."""
        s = self.scores.data.weight[:, None]
        return s * self.loss.project(alpha / s)

    def excess(self, alpha: Floats) -> float:
        """Violation of the domain of the loss; ``inf`` for multipliers that are not numbers."""
        if not np.isfinite(alpha).all():
            return np.inf
        return self.loss.excess(alpha / self.scores.data.weight[:, None])

    def evaluate_gain(self, alpha: Floats) -> Evaluation:
        r"""The linear or entropy part of the dual, :math:`\sum_i s_i g(\alpha_i/s_i)`."""
        weight = self.scores.data.weight
        a = alpha / weight[:, None]
        value = float(weight @ self.loss.gain(a))
        return Evaluation(
            value, accumulated_rounding(alpha.size) * (abs(value) + float(weight @ self.loss.sensitivity(a)))
        )

    def export_dual(self, dual: Dual) -> Dual:
        """α with a row of zeros for each observation of weight zero; everything else as it is."""
        data = self.scores.data
        full = np.zeros((data.rows, data.c))
        full[data.index] = self.scores.expand(self.multipliers(dual))
        return {**dual, "alpha": full}


class MulticlassProblem(FormulationProblem):
    """What the cvxpy problems on score differences share."""

    loss: ScoreLoss
    scores: Scores

    @property
    def solved_weights(self) -> tuple[Floats, Floats] | None:
        """W in terms of the features and b, as a solver has left them."""
        W, b = self.var_dict["W"].value, self.var_dict["b"].value if "b" in self.var_dict else np.zeros(1)
        if not (usable(W) and usable(b)):
            return None
        return self.scores.unreduced(np.asarray(W)), np.broadcast_to(np.asarray(b), (self.scores.data.c,))

    def solved_multipliers(self, W: Floats, b: Floats) -> list[Floats]:
        """RecoveredPoints for α, shape (n, c − 1): the solver's, and for a smooth loss its derivative at (W, b)."""
        values = self.constraint_dict["margin"].dual_value
        candidates = [np.asarray(values)] if usable(values) else []
        if self.loss.smooth:
            a = self.loss.multipliers(self.scores.differences(self.scores.X @ W + b))
            candidates.append(self.scores.data.weight[:, None] * a)
        return candidates


def require_conic_memory(scores: Scores, what: str) -> None:
    """Refuse a problem whose differences, as functions of (W, b), would not fit into memory."""
    n, d = scores.factor.shape
    entries = 2.0 * n * (scores.data.c - 1) * d
    memory.require(
        CONIC_BYTES * entries,
        f"the {what} with {n} × {d} data and {scores.data.c} classes",
        "use fewer observations or features, or a first-order solver",
    )


class Regulariser(ABC):
    """A regulariser of W with its conjugate on matrices whose columns sum to zero."""

    rotations: ClassVar[bool] = True

    @abstractmethod
    def value(self, W: Floats) -> float:
        """Return Ω(W) for λ = 1."""

    @abstractmethod
    def statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """State Ω(W) for λ = 1."""

    @abstractmethod
    def radius(self, value: float, c: int) -> float:
        """Return a bound on the Frobenius norm of W, columns summing to zero, from a bound on Ω(W) for λ = 1."""

    def curvature(self, c: int) -> float | None:
        """Return κ where Ω(W) = κ‖W‖² for λ = 1 and columns that sum to zero, None for another regulariser."""
        return None


class SquaredNorms(Regulariser):
    r""":math:`\sum_k\|w_k\|^2`."""

    def value(self, W: Floats) -> float:
        """Σ‖w_k‖²."""
        return float((W**2).sum())

    def statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """Σ‖w_k‖²."""
        return cp.sum_squares(W)

    def curvature(self, c: int) -> float | None:
        """1."""
        return 1.0

    def radius(self, value: float, c: int) -> float:
        """‖W‖² is Ω."""
        return float(np.sqrt(value))


class PairwiseNorms(Regulariser):
    r""":math:`\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2`."""

    def value(self, W: Floats) -> float:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        first, second = np.triu_indices(W.shape[1], 1)
        return 0.5 * float(((W[:, first] - W[:, second]) ** 2).sum()) + 0.5 * float((W**2).sum())

    def statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """½Σ‖w_k − w_l‖² + ½Σ‖w_k‖²."""
        return 0.5 * cp.sum_squares(W @ pair_differences(n_classes)) + 0.5 * cp.sum_squares(W)

    def curvature(self, c: int) -> float | None:
        """(c + 1)/2."""
        return (c + 1) / 2

    def radius(self, value: float, c: int) -> float:
        """‖W‖² is at most 2Ω."""
        return float(np.sqrt(2.0 * value))


class AbsoluteSum(Regulariser):
    r""":math:`\sum_{jk}|W_{jk}|`."""

    rotations = False

    def value(self, W: Floats) -> float:
        """Σ|W|."""
        return float(np.abs(W).sum())

    def statement(self, W: cp.Variable, n_classes: int) -> cp.Expression:
        """Σ|W|."""
        return cp.sum(cp.abs(W))

    def radius(self, value: float, c: int) -> float:
        """‖W‖ is at most Ω."""
        return value


def pair_differences(c: int) -> Floats:
    """Return P of shape (c, c(c − 1)/2): the columns of W P are the differences w_k − w_l, k < l."""
    first, second = np.triu_indices(c, 1)
    P = np.zeros((c, first.size))
    P[first, np.arange(first.size)] = 1.0
    P[second, np.arange(first.size)] = -1.0
    return P


@dataclass(frozen=True, eq=False)
class Multiclass(MulticlassStatement):
    """The statement of one of the classical machines bound to data.

    Parameters
    ----------
    name : str
        Of the builder.
    scores : Scores
    loss : ScoreLoss
    regulariser : Regulariser
    lam : float
        Weight of the regulariser, positive.
    """

    name: str  # type: ignore[misc]
    scores: Scores
    loss: ScoreLoss
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

    def _upper_bound(self) -> float:
        return self.lam if self.regulariser.curvature(self.scores.data.c) is None else np.inf

    def repair(self, dual: Dual) -> Dual:
        """Project α into the domain of the loss, balance it, and scale it down to entries of G of at most λ where that is a constraint."""
        alpha = self.projected(self.multipliers(dual))
        if self.scores.intercept == "free":
            alpha = self.scores.balanced(alpha, self.loss)
        gradient = self.scores.gradient(alpha)
        largest = float(np.abs(gradient.W).max()) + gradient.W_rounding
        if largest > self._upper_bound():
            alpha = alpha * (self._upper_bound() / largest)
        return {"alpha": self.scores.expand(alpha)}

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of the domain of the loss, the balance and the bound of G, beyond rounding."""
        alpha = self.multipliers(dual)
        excess = self.excess(alpha)
        if not np.isfinite(excess):
            return excess
        gradient = self.scores.gradient(alpha)
        unbalanced = 0.0
        if self.scores.intercept == "free":
            unbalanced = float(np.abs(gradient.b).max()) - accumulated_rounding(alpha.shape[0]) * float(alpha.sum())
        over = float(np.abs(gradient.W).max()) - self._upper_bound() - gradient.W_rounding
        return max(0.0, excess, unbalanced, over)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """D at a feasible α."""
        alpha = self.multipliers(dual)
        gain = self.evaluate_gain(alpha)
        gradient = self.scores.gradient(alpha)
        conjugate = self._conjugate(gradient)
        rounding = gain.rounding + conjugate.rounding
        if self.scores.intercept == "free":
            rounding += float(np.abs(gradient.b).sum()) * self._bias_range()
        return Evaluation(gain.value - conjugate.value, rounding)

    @property
    def _objective_at_zero(self) -> float:
        """P at W = 0, b = 0: no term of P is larger at an optimum."""
        return float(self.scores.data.weight @ self.loss.value(np.zeros(self.scores.others.shape)))

    def _bias_range(self) -> float:
        r"""Bound on :math:`|b_k - b_l|` at an optimum, the price of an imbalance within rounding.

        The regulariser there bounds the scores without biases, and with them each loss the biases.
        """
        highest = self._objective_at_zero
        scores = self.scores.longest_row * self.regulariser.radius(highest / self.lam, self.scores.data.c)
        return highest / float(self.scores.data.weight.min()) + 2.0 * scores

    def _conjugate(self, gradient: Gradient) -> Evaluation:
        curvature = self.regulariser.curvature(self.scores.data.c)
        off = gradient.W_rounding
        if curvature is None:
            # G beyond λ by rounding costs that much for each unit of Σ|W|.
            return Evaluation(0.0, off * self._objective_at_zero / self.lam)
        size = float(np.linalg.norm(gradient.W))
        scale = 4.0 * self.lam * curvature
        value = size**2 / scale
        rounding = (2.0 * size * off + off**2) / scale + accumulated_rounding(gradient.W.size) * value
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
            # Free biases are determined up to a common shift: (Σb)²/2 chooses one with Σb = 0.
            hessian[d:, :, d:, :] = 1.0
            gradient = np.vstack([factor * W, np.broadcast_to(b.sum(), b.shape)])
            return Penalty(0.5 * factor * float((W**2).sum()) + 0.5 * float(b.sum()) ** 2, gradient, hessian)

        start = np.vstack([W, b]) if free else W
        point = minimum(self.scores, self.loss, self.scores.dense_with_constant, start, penalty)
        return None if point is None else (point[:d], point[d] if free else b)

    def models(self, W: Floats, b: Floats) -> list[MulticlassModel]:
        """Return models of weights and biases, the sparser first where sparsity is what the regulariser is for."""
        weights = []
        if self.regulariser.curvature(self.scores.data.c) is None:
            weights.append(np.where(np.abs(W) > NEGLIGIBLE * np.abs(W).max(initial=0.0), W, 0.0))
            weights.append(W)
        else:
            # A common shift changes no difference, and this one makes the norms smallest.
            weights.append(W - W.mean(axis=1, keepdims=True))
        b = b - b.mean()
        return [
            self.scores.model(each, b, self.loss.support(self.scores.differences(self.scores.X @ each + b)))
            for each in weights
        ]


class ClassicalProblem(MulticlassProblem):
    """The problem of one of the classical machines."""

    lam: cp.Parameter
    _fixed: Multiclass

    @property
    def formulation(self) -> Multiclass:
        """The statement at the present value of λ."""
        return replace(self._fixed, lam=float(self.lam.value))

    def recover(self) -> RecoveredPoints:
        """The models of (W, b), and the multipliers."""
        weights = self.solved_weights
        if weights is None:
            return RecoveredPoints([], [])
        statement = self.formulation
        candidates = RecoveredPoints([], [])
        W, b = weights
        centred = (W - W.mean(axis=1, keepdims=True), b - b.mean())
        for point in (statement.polished(*centred), weights):
            if point is not None:
                candidates.models.extend(statement.models(*point))
                candidates.duals.extend({"alpha": self.scores.expand(a)} for a in self.solved_multipliers(*point))
        candidates.duals.append({"alpha": np.zeros((self.scores.data.n, self.scores.data.c))})
        return candidates


def _build(
    name: str,
    X: Any,
    y: Any,
    lam: float,
    loss: ScoreLoss,
    regulariser: Regulariser,
    intercept: bool,
    sample_weight: Any,
) -> ClassicalProblem:
    started = time.perf_counter()
    lam = check_number(lam, "lam", low=0, open_low=True)
    if not isinstance(intercept, (bool, np.bool_)):
        raise DataError(f"intercept must be True or False, got {intercept!r}")
    data = multiclass_data(X, y, sample_weight)
    if isinstance(loss, TopHinge) and loss.k > data.c:
        raise DataError(f"k must be at most the number of classes, {data.c}, got {loss.k}")
    scores = Scores(data, "free" if intercept else "none", regulariser.rotations)
    require_conic_memory(scores, name)
    parameter = cp.Parameter(pos=True, name="lam", value=lam)
    W = cp.Variable((scores.factor.shape[1], data.c), name="W")
    b = cp.Variable(data.c, name="b") if intercept else None
    differences, constraints = scores.stated_differences(W, b)
    stated = loss.statement(differences, data.weight)
    constraints += stated.constraints
    if b is not None:
        constraints.append((cp.sum(b) == 0).set_label("gauge"))
    objective = stated.value + parameter * regulariser.statement(W, data.c)
    problem = ClassicalProblem(cp.Minimize(objective), constraints)
    problem.lam, problem.scores, problem.loss = parameter, scores, loss
    problem._fixed = Multiclass(name=name, scores=scores, loss=loss, regulariser=regulariser, lam=lam)
    problem.build_seconds = time.perf_counter() - started
    return problem


def weston_watkins(
    X: Any, y: Any, *, lam: float, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build the machine of Weston and Watkins as a cvxpy problem.

    .. math:: \min\; \sum_i s_i \sum_{k\ne y_i} (1 - f_{ik})_+ + \lambda\sum_k\|w_k\|^2

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
        Labels of two or more classes, of any type.
    lam : float
        Weight of the regulariser, positive. The cvxpy parameter ``problem.lam``.
    intercept : bool
        Free biases (the default), or none.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses.

    Returns
    -------
    ClassicalProblem
        A ``cvxpy.Problem``. Variables ``W`` of shape (d, c) — (n, c) in the columns of a square factor of the data when d > n —,
        ``b`` of shape (c,) if there is an intercept, and ``xi``; parameter ``lam``; constraints labelled ``margin``
        (its multipliers are α), ``slack`` and, with an intercept, ``gauge`` (:math:`\sum_k b_k = 0`, which costs nothing).
        The biases belong to centred data when `X` is dense.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: M3SVM paper, related work; spec m3svm.md, table of baselines.
    """
    return _build("weston_watkins", X, y, lam, HingeSum(), SquaredNorms(), intercept, sample_weight)


def crammer_singer(
    X: Any, y: Any, *, lam: float, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build the machine of Crammer and Singer as a cvxpy problem.

    .. math:: \min\; \sum_i s_i \max_{k\ne y_i} (1 - f_{ik})_+ + \lambda\sum_k\|w_k\|^2

    With ``intercept=False`` it is scikit-learn's ``LinearSVC(multi_class="crammer_singer", fit_intercept=False)`` at
    :math:`C = 1/(2\lambda)`.

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.

    Returns
    -------
    ClassicalProblem
        As for :func:`weston_watkins`, with one slack ``xi`` an observation.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: M3SVM paper, related work; spec m3svm.md, table of baselines.
    """
    return _build("crammer_singer", X, y, lam, LargestHinge(), SquaredNorms(), intercept, sample_weight)


def msvm(X: Any, y: Any, *, lam: float = 1.0, intercept: bool = True, sample_weight: Any = None) -> ClassicalProblem:
    r"""Build the M-SVM of Bredensteiner and Bennett as a cvxpy problem.

    .. math::
        \min\; \sum_i s_i \sum_{k\ne y_i} (1 - f_{ik})_+
        + \lambda\Big(\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2\Big)

    Because :math:`\sum_k w_k = 0` at the optimum it is :func:`weston_watkins` with λ(c + 1)/2. At λ = 1 (the default) it is
    the machine as published, and that of Xu et al. (2017).

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.

    Returns
    -------
    ClassicalProblem
        As for :func:`weston_watkins`.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: M3SVM paper, related work; spec m3svm.md, table of baselines.
    """
    return _build("msvm", X, y, lam, HingeSum(), PairwiseNorms(), intercept, sample_weight)


def topk_svm(
    X: Any, y: Any, *, lam: float, k: int = 2, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build the top-k SVM as a cvxpy problem.

    .. math::
        \min\; \sum_i s_i \max\Big(0, \tfrac1k\sum_{j=1}^k \gamma_{i[j]}\Big) + \lambda\sum_k\|w_k\|^2, \qquad
        \gamma_{ij} = 1[j \ne y_i] + S_{ij} - S_{iy_i},

    where :math:`\gamma_{i[1]} \ge \gamma_{i[2]} \ge \dots` are sorted, the zero of the own class among them. k = 1 is
    :func:`crammer_singer`.

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.
    k : int
        How many of the largest are averaged, 2 by default; from 1 to the number of classes.

    Returns
    -------
    ClassicalProblem
        As for :func:`weston_watkins`, with one slack ``xi`` an observation, and the variables ``threshold``, ``above`` and
        ``own_above`` and constraints ``own``, ``above``, ``own_above`` and ``largest`` that state the sum of the largest.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: Lapin, Hein and Schiele (2015); spec m3svm.md, table of baselines.
    """
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)) or k < 1:
        raise DataError(f"k must be a whole number from 1 to the number of classes, got {k!r}")
    return _build("topk_svm", X, y, lam, TopHinge(int(k)), SquaredNorms(), intercept, sample_weight)


def multinomial_lr(
    X: Any, y: Any, *, lam: float, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build multinomial logistic regression as a cvxpy problem.

    .. math:: \min\; \sum_i s_i \log\Big(1 + \sum_{k\ne y_i} e^{-f_{ik}}\Big) + \lambda\sum_k\|w_k\|^2

    It is scikit-learn's ``LogisticRegression`` at :math:`C = 1/(2\lambda)`.

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.

    Returns
    -------
    ClassicalProblem
        A ``cvxpy.Problem``. Variables ``W`` and, if there is an intercept, ``b``; parameter ``lam``; constraint ``gauge``
        as for :func:`weston_watkins`.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: spec m3svm.md, table of baselines.
    """
    return _build("multinomial_lr", X, y, lam, Softmax(), SquaredNorms(), intercept, sample_weight)


def sparse_multinomial_lr(
    X: Any, y: Any, *, lam: float, intercept: bool = True, sample_weight: Any = None
) -> ClassicalProblem:
    r"""Build sparse multinomial logistic regression as a cvxpy problem.

    .. math:: \min\; \sum_i s_i \log\Big(1 + \sum_{k\ne y_i} e^{-f_{ik}}\Big) + \lambda\sum_{jk}|W_{jk}|

    Parameters
    ----------
    X, y, lam, intercept, sample_weight
        As for :func:`weston_watkins`.

    Returns
    -------
    ClassicalProblem
        As for :func:`multinomial_lr`. The model recovered has exact zeros where the solver's weights are negligible and
        the certificate does not suffer.

    Raises
    ------
    DataError, BuildError
        As :func:`weston_watkins`.

    Notes
    -----
    Source: Krishnapuram et al. (2005); spec m3svm.md, table of baselines.
    """
    return _build("sparse_multinomial_lr", X, y, lam, Softmax(), AbsoluteSum(), intercept, sample_weight)
