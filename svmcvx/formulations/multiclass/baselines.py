r"""The classical multi-class machines: one loss of score differences, one regulariser.

.. math::
    \min_{W, b}\; P(W, b) = \sum_i s_i\,\ell(f_i) + \Omega(W), \qquad
    f_{ik} = (w_{y_i} - w_k)'x_i + b_{y_i} - b_k,\; k \ne y_i.

======================== ======================================================== ===============================================
builder                  loss :math:`\ell`                                        regulariser
:math:`\Omega` ======================== ========================================================
=============================================== weston_watkins           :math:`\sum_k (1-f_k)_+`
:math:`\lambda\sum_k\|w_k\|^2` crammer_singer           :math:`\max_k (1-f_k)_+`
:math:`\lambda\sum_k\|w_k\|^2` msvm                     :math:`\sum_k (1-f_k)_+`
:math:`\lambda(\tfrac12\sum_{k<l}\|w_k-w_l\|^2 + \tfrac12\sum_k\|w_k\|^2)` topk_svm
the k largest of :math:`1-f` and 0, averaged             :math:`\lambda\sum_k\|w_k\|^2`
multinomial_lr           :math:`\log(1+\sum_k e^{-f_k})`
:math:`\lambda\sum_k\|w_k\|^2` sparse_multinomial_lr    :math:`\log(1+\sum_k e^{-f_k})`
:math:`\lambda\sum_{jk}|W_{jk}|` ========================
========================================================
===============================================

The losses are summed, not averaged. ``intercept=True`` (the default) has free biases b;
``intercept=False`` none.

**Dual.** With G and :math:`g_b` of the multipliers α (see
:mod:`svmcvx.formulations.multiclass.score_space`) and g and A of the conjugate of the loss (see
:mod:`svmcvx.formulations.multiclass.losses`),

.. math::
    \max_\alpha\; D(\alpha) = \sum_i s_i\, g(\alpha_i/s_i) - \Omega^*(G) \quad\text{s.t.}\quad
    \alpha_i/s_i \in A, \qquad g_b = 0 \;\text{(free b only)}.

The columns of G sum to zero, whence :math:`\Omega^*(G) = \|G\|_F^2/(4\lambda)` for the squared
norms, :math:`\|G\|_F^2/(2\lambda(c+1))` for M-SVM, and for the sum of absolute values the
constraint :math:`|G_{jk}| \le \lambda`. At the optimum :math:`W = G/(2\lambda)`, for M-SVM :math:`W
= G/(\lambda(c+1))`; :math:`\sum_k w_k = 0` follows.

============== ======================================================== =========
symbol         meaning                                                  shape
============== ======================================================== =========
X, y           data, labels of c classes                                (n, d), (n,)
W, b           weights, one column a class; biases                      (d, c), (c,)
f              score differences to the other classes, in order         (n, c − 1)
alpha          multipliers of f, zero for the own class                 (n, c)
============== ======================================================== =========

**Scaling.** scikit-learn's ``LinearSVC(multi_class="crammer_singer", fit_intercept=False)``
minimises :math:`\tfrac12\|W\|^2 + C\sum` and ``LogisticRegression`` too (free b): both are
:math:`\lambda = 1/(2C)`, with C times the objective here. Two classes: :math:`w_1 = -w_2`, and
weston_watkins and crammer_singer are the pSVM at p = 1 with :math:`C = 1/\lambda`, λ times its
objective, for :math:`w = w_1 - w_2`. M-SVM is weston_watkins with λ(c + 1)/2, and M3SVM at p = 2
with λ(c + 1)/(2c); at λ = 1 it is also the machine of [XuLiuHuo].

**Source.** [NieHaoWang], related work, and the papers it cites: [WestonWatkins], [CrammerSinger],
[BredensteinerBennett], [LapinHeinSchiele], [Boehning], [Krishnapuram]. The top-k loss is the one
with :math:`1[j \ne y]`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import logsumexp

from svmcvx.arguments import intercept_kind
from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact
from svmcvx.data import check_choice, check_number, multiclass_data
from svmcvx.errors import DataError
from svmcvx.formulations.base import CLEARLY_ZERO, RecoveredPoints
from svmcvx.formulations.multiclass.losses import HingeSum, ScoreLoss
from svmcvx.formulations.multiclass.newton import PenaltyDerivatives, newton_steps
from svmcvx.formulations.multiclass.regularisers import (
    AbsoluteSum,
    PairwiseNorms,
    Regulariser,
    SquaredNorms,
)
from svmcvx.formulations.multiclass.score_space import ScoreSpace
from svmcvx.formulations.multiclass.simplex_losses import LargestHinge, Softmax, TopHinge
from svmcvx.formulations.multiclass.statement import MulticlassStatement
from svmcvx.formulations.optimal_intercepts import are_unique, equal_share, intercept_ranges
from svmcvx.model import MulticlassModel
from svmcvx.solution import OptimalIntercepts
from svmcvx.system.deadline import current

__all__ = ["MACHINES", "ClassicalStatement", "Machine", "bound_classical"]

Floats: TypeAlias = NDArray[np.float64]

# Weights of a sparse model up to this share of the largest are tried as zeros.
NEGLIGIBLE = 1e-6
# Observations times the square of the number of weights up to which the optimum with their signs is
# solved for.
SPARSE_WORK = 1e9
# Shares by which multipliers are shrunk beyond their bound until rounding does not matter.
SHRINKS = (0.0, 1e-15, 1e-14, 1e-13, 1e-12, 1e-10, 1e-8, 1e-6)


class Machine(NamedTuple):
    """What one of the classical machines is made of: the name of its builder, loss and regulariser."""

    builder: str
    loss: Callable[[int], ScoreLoss]
    regulariser: type[Regulariser]


# By the name of the loss that the estimator, the common builder and the specialised solver take.
MACHINES: dict[str, Machine] = {
    "weston_watkins": Machine("weston_watkins", lambda k: HingeSum(), SquaredNorms),
    "crammer_singer": Machine("crammer_singer", lambda k: LargestHinge(), SquaredNorms),
    "msvm": Machine("msvm", lambda k: HingeSum(), PairwiseNorms),
    "topk": Machine("topk_svm", TopHinge, SquaredNorms),
    "softmax": Machine("multinomial_lr", lambda k: Softmax(), SquaredNorms),
    "sparse_softmax": Machine("sparse_multinomial_lr", lambda k: Softmax(), AbsoluteSum),
}


@dataclass(frozen=True, eq=False)
class ClassicalStatement(MulticlassStatement):
    """The statement of one of the classical machines bound to data."""

    name: str  # type: ignore[misc]
    regulariser: Regulariser
    lam: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """lam, the parameters of the loss, and whether there is an intercept."""
        return {
            "lam": self.lam,
            **self.loss.parameters,
            "intercept": self.scores.intercept == "free",
        }

    def evaluate(self, model: MulticlassModel) -> Evaluation:
        """P at a model; ``inf`` if it has an intercept that the formulation has not."""
        if self.scores.intercept == "none" and np.ptp(model.intercept) > 0:
            return Evaluation(np.inf, 0.0)
        penalty = exact(self.lam) * self.regulariser.value(exact(model.coef))
        return Evaluation.of(regulariser=penalty, losses=self.losses(model))

    @property
    def _entries_bounded(self) -> bool:
        """Whether the entries of G have the bound λ, as for the sum of absolute values."""
        return self.regulariser.curvature(self.scores.data.c) is None

    def _largest_entry(self, alpha: Floats) -> float:
        """A number that is at least the largest entry of G."""
        return self.scores.gradient(alpha).W.largest.upper_end

    def repair(self, dual: Dual) -> Dual:
        """Project α into the domain of the loss, balance it, and scale it down to entries of G of
        at most λ where that is a constraint.
        """
        alpha = self._balanced(self.projected(self.multipliers(dual)))
        if self._entries_bounded:
            for shrink in SHRINKS:
                largest = self._largest_entry(alpha)
                if largest <= self.lam:
                    break
                alpha = self._balanced(alpha * (self.lam / largest * (1.0 - shrink)))
            else:
                alpha = np.zeros_like(alpha)
        return {"alpha": self.scores.expand(alpha)}

    def _balanced(self, alpha: Floats) -> Floats:
        return (
            self.scores.balanced(alpha, self.loss)
            if self.scores.intercept == "free"
            else self.projected(alpha)
        )

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation of the domain of the loss, the balance and the bound of G; 0 only if
        there is none.
        """
        alpha = self.multipliers(dual)
        outside = self.domain_violation(alpha)
        if outside > 0:
            return outside
        unbalanced = self.scores.imbalance(alpha) if self.scores.intercept == "free" else 0.0
        over = self._largest_entry(alpha) - self.lam if self._entries_bounded else 0.0
        return max(0.0, unbalanced, over)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """D at a feasible α."""
        alpha = self.multipliers(dual)
        curvature = self.regulariser.curvature(self.scores.data.c)
        if curvature is None:
            return self.minus_conjugate(alpha)
        return self.minus_conjugate(alpha) - self.scores.gradient(alpha).W.squared_norm() / (
            exact(4.0 * curvature) * self.lam
        )

    def trivial(self) -> tuple[list[MulticlassModel], list[Dual]]:
        """W = 0 with the best of a few biases, and zero multipliers: P is not negative."""
        return [self.constant_model()], [self.zero_dual()]

    def polished(self, W: Floats, b: Floats) -> tuple[Floats, Floats] | None:
        """Return the minimum of P near (W, b) by Newton's method, None where P is not smooth or too
        large for it.
        """
        curvature = self.regulariser.curvature(self.scores.data.c)
        if curvature is None:
            return None
        d, free = W.shape[0], self.scores.intercept == "free"
        factor = 2.0 * self.lam * curvature

        def penalty(point: Floats) -> PenaltyDerivatives:
            W, b = point[:d], point[d:]
            hessian = np.zeros(point.shape * 2)
            hessian[:d, :, :d, :] = factor * np.eye(W.size).reshape(W.shape * 2)
            # Free biases are determined up to a common shift: the term (Σb)²/2 selects the one with
            # Σb = 0.
            hessian[d:, :, d:, :] = 1.0
            gradient = np.vstack([factor * W, np.broadcast_to(b.sum(), b.shape)])
            return PenaltyDerivatives(
                0.5 * factor * float((W**2).sum()) + 0.5 * float(b.sum()) ** 2, gradient, hessian
            )

        start = np.vstack([W, b]) if free else W
        point = newton_steps(
            self.scores, self.loss, self.scores.dense_with_constant, start, penalty
        )
        return None if point is None else (point[:d], point[d] if free else b)

    def models(self, W: Floats, b: Floats, dual: Dual | None = None) -> list[MulticlassModel]:
        """Return models of weights and biases; for the sum of absolute values sparser ones first. A
        dual point may save a linear program.
        """
        b = b - b.mean()
        if self.regulariser.curvature(self.scores.data.c) is None:
            sparse = np.where(np.abs(W) > NEGLIGIBLE * np.abs(W).max(initial=0.0), W, 0.0)
            polished = self._sparse(W, b)
            points = [(sparse, b), (W, b)] if polished is None else [polished, (sparse, b), (W, b)]
        else:
            # A common shift of the columns changes no difference; with columns that sum to zero the
            # norms are smallest.
            points = [(W - W.mean(axis=1, keepdims=True), b)]
        return [
            self.model(each, self._middle(each, intercepts, dual)) for each, intercepts in points
        ]

    def _sparse(self, W: Floats, b: Floats) -> tuple[Floats, Floats] | None:
        """Return the optimum near a point where weights whose entry of G is clearly below λ are
        zero and the others have their signs.

        None where it has other signs, and for a problem too large.
        """
        scores, (n, c) = self.scores, (self.scores.data.n, self.scores.data.c)
        alpha = self.projected(self.weight[:, None] * self.loss.multipliers(self.differences(W, b)))
        W = np.where(
            np.abs(scores.gradient(alpha).W.value) < (1.0 - CLEARLY_ZERO) * self.lam, 0.0, W
        )
        features = np.flatnonzero(W.any(axis=1))
        d = features.size
        if n * (d * c) ** 2 > SPARSE_WORK or current().passed():
            return None
        X = (
            scores.X.tocsc()[:, features].toarray()
            if sp.issparse(scores.X)
            else scores.X[:, features]
        )
        free = scores.intercept == "free"
        biases, signs = np.ones((int(free), c)), np.sign(W[features])

        def penalty(point: Floats) -> PenaltyDerivatives:
            hessian = np.zeros(point.shape * 2)
            # As for squares: of biases up to a common shift those with sum 0.
            hessian[d:, :, d:, :] = 1.0
            total = float(point[d:].sum())
            value = self.lam * float((signs * point[:d]).sum()) + 0.5 * total**2
            return PenaltyDerivatives(value, np.vstack([self.lam * signs, total * biases]), hessian)

        start = np.vstack([W[features], b]) if free else W[features]
        X = np.hstack([X, np.ones((n, 1))]) if free else X
        point = newton_steps(scores, self.loss, X, start, penalty, np.vstack([signs, biases]) != 0)
        if point is None or (np.sign(point[:d]) != signs).any():
            return None
        W[features] = point[:d]
        return W, point[d] - point[d].mean() if free else b

    def _tied(self, W: Floats, b: Floats) -> Floats:
        """Return optimal biases with those of classes with the same weights exactly as the weights
        of the observations have them.

        At the optimum of the softmax their probabilities are in proportion to these at every
        observation: they are equal where these are, and no rounding decides which of them is
        predicted.
        """
        b = b.copy()
        _, groups = np.unique(W, axis=1, return_inverse=True)
        for group in range(groups.max() + 1):
            members = np.flatnonzero(groups.ravel() == group)
            shares = np.log(self.class_weights[members] / self.class_weights[members[0]])
            shares[np.abs(shares) <= equal_share(self.scores.data.n)] = 0.0
            if members.size > 1:
                b[members] = shares + (logsumexp(b[members]) - logsumexp(shares))
        return b

    @cached_property
    def _ranges(self) -> list[tuple[Floats, OptimalIntercepts | None]]:
        """Weights in terms of the features, and the intercepts of centred data that are optimal
        with them, None where these are not found.
        """
        return []

    def _middle(self, W: Floats, b: Floats, dual: Dual | None) -> Floats:
        """Return the middle of the intercepts that are optimal with W, where they need not be
        unique; `b` is near one of them.
        """
        domain = self.loss.linear_pieces
        if self.scores.intercept != "free":
            return b
        if domain is None:
            return self._tied(W, b) if self.loss.smooth else b
        data = self.scores.data
        gamma = 1.0 - self.differences(W, np.zeros(data.c))
        problem = data.codes, self.scores.others, self.weight, domain, b
        found: tuple[Floats, Floats] | None = b, b
        if dual is None or not are_unique(gamma, self.multipliers(dual), *problem):
            found = intercept_ranges(gamma, *problem)
        self._ranges.append((W, None if found is None else OptimalIntercepts(*found)))
        return b if found is None else (found[0] + found[1]) / 2

    def optimal_intercepts(self, model: MulticlassModel) -> OptimalIntercepts | None:
        """The range of each intercept for hinges; a single one for softmax, which is strictly
        convex in the differences.
        """
        if self.scores.intercept != "free":
            return None
        if self.loss.smooth:
            return OptimalIntercepts(model.intercept, model.intercept)
        shift = self.scores.centre @ model.coef
        if not any(np.array_equal(W, model.coef) for W, _ in self._ranges):
            self._middle(model.coef, model.intercept + shift, None)
        found = next((found for W, found in self._ranges if np.array_equal(W, model.coef)), None)
        return (
            None if found is None else OptimalIntercepts(found.lower - shift, found.upper - shift)
        )

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
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
        return points


def bound_classical(
    X: Any, y: Any, *, lam: float, loss: str, k: Any, intercept: bool | str, sample_weight: Any
) -> ClassicalStatement:
    """Check all arguments and bind the statement to the data; the arguments are those of the
    builder ``multiclass``.
    """
    machine = MACHINES[check_choice(loss, "loss", tuple(MACHINES))]
    lam = check_number(lam, "lam", low=0, open_low=True)
    if isinstance(k, (bool, np.bool_)) or not isinstance(k, (int, np.integer)) or k < 1:
        raise DataError(f"k must be a whole number from 1 to the number of classes, got {k!r}")
    kind = intercept_kind(intercept, own="free")
    chosen, regulariser = machine.loss(int(k)), machine.regulariser()
    data = multiclass_data(X, y, sample_weight)
    if isinstance(chosen, TopHinge) and k > data.c:
        raise DataError(f"k must be at most the number of classes, {data.c}, got {k}")
    scores = ScoreSpace(data, kind, regulariser.rotations)
    return ClassicalStatement(
        name=machine.builder, scores=scores, loss=chosen, regulariser=regulariser, lam=lam
    )
