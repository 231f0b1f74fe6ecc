r"""The classical multi-class machines: one loss of score differences, one regulariser.

.. math::
    \min_{W, b}\; P(W, b) = \sum_i s_i\,\ell(f_i) + \Omega(W), \qquad
    f_{ik} = (w_{y_i} - w_k)'x_i + b_{y_i} - b_k,\; k \ne y_i.

The loss and the regulariser of each builder are in :data:`MACHINES`, their formulas in
:mod:`svmcvx.formulations.multiclass.losses` and :class:`Regulariser`. The biases are free, or 0.

**Dual.** With G and :math:`g_b` of the multipliers α (see
:mod:`svmcvx.formulations.multiclass.statement`) and g and A of the conjugate of the loss (see
:mod:`svmcvx.formulations.multiclass.losses`),

.. math::
    \max_\alpha\; D(\alpha) = \sum_i s_i\, g(\alpha_i/s_i) - \Omega^*(G) \quad\text{s.t.}\quad
    \alpha_i/s_i \in A, \qquad g_b = 0 \;\text{(free b only)}.

The columns of G sum to zero, whence :math:`\Omega^*(G) = \|G\|_F^2/(4\lambda)` for the squared
norms, :math:`\|G\|_F^2/(2\lambda(c+1))` for M-SVM, and for the sum of absolute values the
constraint :math:`|G_{jk}| \le \lambda`. At the optimum :math:`W = G/(2\lambda)`, for M-SVM :math:`W
= G/(\lambda(c+1))`; :math:`\sum_k w_k = 0` follows.

Scalings against other packages, special cases, and sources: ``docs/formulations/multiclass.md``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from svmcvx.arguments import intercept_kind
from svmcvx.arrays import Floats
from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact, exp, log, row_maxima, sqrt, square, total
from svmcvx.data import check_choice, check_number, check_whole, multiclass_data
from svmcvx.errors import BuildError, DataError
from svmcvx.formulations.base import CLEARLY_ZERO, ON_SUPPORT, SHRINKS, RecoveredPoints, usable
from svmcvx.formulations.multiclass.losses import (
    HingeSum,
    LargestHinge,
    LogisticSum,
    ScoreLoss,
    SmoothedHingeSum,
    Softmax,
    TopHinge,
)
from svmcvx.formulations.multiclass.statement import (
    MulticlassStatement,
    PairwiseStatement,
    Regulariser,
    ScoreSpace,
    dual_lengths,
    lengths,
    pairwise,
)
from svmcvx.formulations.optimal_intercepts import equal_share
from svmcvx.losses import hinge_power_conjugate
from svmcvx.model import MulticlassModel
from svmcvx.solution import OptimalIntercepts


class Machine(NamedTuple):
    """The builder, the loss at k and the regulariser of a classical machine."""

    builder: str
    loss: Callable[[int], ScoreLoss]
    regulariser: Regulariser


# By the name of the loss that the estimator, the common builder and the specialised solver take.
MACHINES: dict[str, Machine] = {
    "weston_watkins": Machine("weston_watkins", lambda k: HingeSum(), Regulariser.SQUARES),
    "crammer_singer": Machine("crammer_singer", lambda k: LargestHinge(), Regulariser.SQUARES),
    "msvm": Machine("msvm", lambda k: HingeSum(), Regulariser.PAIRS),
    "topk": Machine("topk_svm", TopHinge, Regulariser.SQUARES),
    "softmax": Machine("multinomial_lr", lambda k: Softmax(), Regulariser.SQUARES),
    "sparse_softmax": Machine("sparse_multinomial_lr", lambda k: Softmax(), Regulariser.ABSOLUTE),
}


@dataclass(frozen=True, eq=False)
class ClassicalStatement(MulticlassStatement):
    repair_improves: ClassVar[bool] = False
    name: str  # type: ignore[misc]
    regulariser: Regulariser
    lam: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {
            "lam": self.lam,
            **self.loss.parameters,
            "intercept": self.scores.intercept == "free",
        }

    def evaluate(self, model: MulticlassModel) -> Evaluation:
        if self.scores.intercept == "none" and np.ptp(model.intercept) > 0:
            return Evaluation(np.inf, 0.0)
        penalty = exact(self.lam) * self.regulariser.at(exact(model.coef))
        return Evaluation.of(regulariser=penalty, losses=self.losses(model))

    @property
    def sums_to_zero(self) -> bool:
        return self.regulariser.curvature(self.scores.data.c) is not None

    def _largest_entry(self, alpha: Floats) -> float:
        """Return an upper bound on the entries of G in absolute value."""
        return self.scores.gradient(alpha).W.largest.upper_end

    def repair(self, dual: Dual) -> Dual:
        """Project α into the domain of the loss, balance it, and scale it to a bound on |G|."""
        alpha = self._balanced(self.multipliers(dual))
        if not self.sums_to_zero:
            for shrink in SHRINKS:
                largest = self._largest_entry(alpha)
                if largest <= self.lam:
                    break
                alpha = self._balanced(alpha * (self.lam / largest * (1.0 - shrink)))
            else:
                alpha = np.zeros_like(alpha)
        return {"alpha": self.scores.expand(alpha)}

    def _balanced(self, alpha: Floats) -> Floats:
        if self.scores.intercept == "free":
            return self.scores.balanced(np.nan_to_num(alpha, nan=0.0), self.loss.domain)
        return self.projected(alpha)

    def dual_violation(self, dual: Dual) -> float:
        alpha = self.multipliers(dual)
        outside = self.domain_violation(alpha)
        if outside > 0:
            return outside
        unbalanced = self.scores.imbalance(alpha) if self.scores.intercept == "free" else 0.0
        over = 0.0 if self.sums_to_zero else self._largest_entry(alpha) - self.lam
        return max(0.0, unbalanced, over)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        alpha = self.multipliers(dual)
        curvature = self.regulariser.curvature(self.scores.data.c)
        if curvature is None:
            return self.minus_conjugate(alpha)
        return self.minus_conjugate(alpha) - self.scores.gradient(alpha).W.squared_norm() / (
            exact(4.0 * curvature) * self.lam
        )

    def models(self, W: Floats, b: Floats, dual: Dual | None = None) -> list[MulticlassModel]:
        """Return models, for the sum of absolute values sparser ones first."""
        b = b - b.mean()
        if self.regulariser.curvature(self.scores.data.c) is None:
            # Weights that are negligible, or whose entry of G is clearly below λ, are zeros.
            alpha = self.weight[:, None] * self.loss.multipliers(self.differences(W, b))
            G = np.abs(self.scores.gradient(self.projected(alpha)).W.value)
            zero = (np.abs(W) <= 1e-6 * np.abs(W).max(initial=0.0)) | (
                (1.0 - CLEARLY_ZERO) * self.lam > G
            )
            sparse = np.where(zero, 0.0, W)
            points = [(sparse, b), (W, b)]
        else:
            points = [(W - W.mean(axis=1, keepdims=True), b)]
        return [
            self.model(each, self._middle(each, intercepts, dual)) for each, intercepts in points
        ]

    def _tied(self, W: Floats, b: Floats) -> Floats:
        """Return biases in exact proportion to the class weights among classes of equal weights W.

        The softmax has this property at its optimum, so that rounding decides no prediction.
        """
        b, sums = b.copy(), self.scores.class_weights
        _, groups = np.unique(W, axis=1, return_inverse=True)
        for group in range(groups.max() + 1):
            members = np.flatnonzero(groups.ravel() == group)
            shares = np.log(sums[members] / sums[members[0]])
            shares[np.abs(shares) <= equal_share(self.scores.data.n)] = 0.0
            if members.size > 1:
                b[members] = shares + (logsumexp(b[members]) - logsumexp(shares))
        return b

    @cached_property
    def _ranges(self) -> dict[bytes, OptimalIntercepts | None]:
        """Optimal intercepts of centred data, by the bytes of W; None where they are not found."""
        return {}

    def _middle(self, W: Floats, b: Floats, dual: Dual | None) -> Floats:
        """Return the middle of the intercepts that are optimal with W; `b` is near one of them."""
        domain = self.loss.linear_pieces
        if self.scores.intercept != "free":
            return b
        if domain is None:
            return self._tied(W, b) if self.loss.smooth else b
        slacks = self.slacks(W, domain)
        found: tuple[Floats, Floats] | None = b, b
        if dual is None or not slacks.are_unique(self.multipliers(dual), b):
            found = slacks.ranges(b)
        self._ranges[W.tobytes()] = None if found is None else OptimalIntercepts(*found)
        return b if found is None else (found[0] + found[1]) / 2

    def optimal_intercepts(self, model: MulticlassModel) -> OptimalIntercepts | None:
        """Return ranges for hinges, and a point for softmax, which is strictly convex in f."""
        if self.scores.intercept != "free":
            return None
        if self.loss.smooth:
            return OptimalIntercepts(model.intercept, model.intercept)
        shift = self.scores.centre @ model.coef
        if model.coef.tobytes() not in self._ranges:
            self._middle(model.coef, model.intercept + shift, None)
        found = self._ranges.get(model.coef.tobytes())
        if found is None:
            return None
        return OptimalIntercepts(found.lower - shift, found.upper - shift)


def bound_classical(
    X: Any, y: Any, *, lam: float, loss: str, k: Any, intercept: bool | str, sample_weight: Any
) -> ClassicalStatement:
    """Check the arguments of :func:`multiclass` and bind the statement to the data."""
    machine = MACHINES[check_choice(loss, "loss", tuple(MACHINES))]
    lam = check_number(lam, "lam")
    kind = intercept_kind(intercept, own="free")
    chosen, regulariser = machine.loss(check_whole(k, "k", 1)), machine.regulariser
    data = multiclass_data(X, y, sample_weight)
    if isinstance(chosen, TopHinge) and chosen.k > data.c:
        raise DataError(f"k must be at most the number of classes, {data.c}, got {k}")
    scores = ScoreSpace(data, kind, rotations=regulariser is not Regulariser.ABSOLUTE)
    return ClassicalStatement(
        name=machine.builder, scores=scores, loss=chosen, regulariser=regulariser, lam=lam
    )


LOSSES: dict[str, type[ScoreLoss]] = {
    loss.name: loss for loss in (HingeSum, SmoothedHingeSum, LogisticSum, Softmax)
}


@dataclass(frozen=True, eq=False)
class M3SVM(PairwiseStatement):
    r"""M3SVM: the multi-class support vector machine that maximises the minimum margin between
    classes.

    **Primal**, p ≥ 1, λ > 0, ε > 0, weights :math:`s_i > 0` (1 by default):

    .. math::
        \min_{W, b}\; P(W, b) = \sum_i s_i\,\ell(f_i) + \lambda\sum_{k<l}\|w_k - w_l\|^p
          + \varepsilon(\|W\|_F^2 + \|b\|^2), \qquad
        f_{ik} = (w_{y_i} - w_k)'x_i + b_{y_i} - b_k,\; k \ne y_i,

    with the losses of :data:`LOSSES`, and with the Euclidean norm or the sum of absolute values.
    The optimum has :math:`\sum_k w_k = 0` and :math:`\sum_k b_k = 0`.

    **Dual.** With G and :math:`g_b` of the multipliers α, g of the conjugate of the loss and
    *flows* :math:`S_{kl}`, k < l, from class k to class l, whose divergence is
    :math:`(\operatorname{div}S)_k = \sum_{l>k}S_{kl} - \sum_{l<k}S_{lk}`,

    .. math::
        \max_{\alpha, S}\; D(\alpha, S) = \sum_i s_i\,g(\alpha_i/s_i)
          - \sum_{k<l}(p-1)\lambda\Big(\frac{\|S_{kl}\|_*}{\lambda p}\Big)^{p/(p-1)}
          - \frac{\|R\|_F^2}{4\varepsilon} - \frac{\|g_b\|^2}{4\varepsilon},
        \qquad R = G - \operatorname{div}S,

    with :math:`\|\cdot\|_*` the Euclidean norm, or for ``norm=1`` the largest absolute value. For p
    = 1 the second term becomes the constraints :math:`\|S_{kl}\|_* \le \lambda`. At the optimum
    :math:`S_{kl} = \lambda p\|w_k-w_l\|^{p-2}(w_k-w_l)` (Euclidean), :math:`R = 2\varepsilon W` and
    :math:`g_b = 2\varepsilon b`.

    **Hard margin** (separable classes, free b): minimise :math:`\sum_{k<l}\|w_k-w_l\|^p` subject to
    :math:`f \ge 1`; its dual has λ = 1, :math:`\operatorname{div}S = G`, :math:`g_b = 0`. As p → ∞
    it becomes: minimise :math:`\max_{k<l}\|w_k-w_l\|`, whose dual maximises :math:`\sum\alpha`
    subject to :math:`\sum_{k<l}\|S_{kl}\|_* \le 1`. The smallest margin between two classes is 2
    over that value.

    Column kl of WP is :math:`w_k - w_l`, k < l; S has one column per pair, shape (d, c(c − 1)/2).
    The dual problems and bounds are derived here, the rest is from [NieHaoWang].
    """

    name: ClassVar[str] = "m3svm"
    lam: float
    eps: float

    def at(self, **values: float) -> Self:
        fields: dict[str, Any] = dict(values)
        if "delta" in fields:
            fields["loss"] = SmoothedHingeSum(fields.pop("delta"))
        return replace(self, **fields)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {
            "lam": self.lam,
            "p": self.p,
            "eps": self.eps,
            "loss": self.loss.name,
            "norm": self.norm,
            **self.loss.parameters,
        }

    def evaluate(self, model: MulticlassModel) -> Evaluation:
        W, b = exact(model.coef), exact(model.intercept)
        squares = total(square(W)) + total(square(b))
        powers = total(lengths(pairwise(W), self.norm) ** exact(self.p))
        penalty = exact(self.lam) * powers + exact(self.eps) * squares
        return Evaluation.of(regulariser=penalty, losses=self.losses(model))

    def repair(self, dual: Dual) -> Dual:
        """Project α, and correct the flows by the change; without flows take those with R = 0."""
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
        # Rounding leaves flows that were shortened no longer than λ, but where norms over- or
        # underflow.
        shrunk = S * np.where(short, 1.0, self.lam / np.where(short, 1.0, size) * (1.0 - 2.0**-50))
        return np.where(dual_lengths(exact(shrunk), self.norm).upper <= self.lam, shrunk, 0.0)

    def dual_violation(self, dual: Dual) -> float:
        S = self.required_flow(dual) if "flow" in dual else np.zeros(1)
        outside = self.domain_violation(self.multipliers(dual))
        if not (np.isfinite(outside) and np.isfinite(S).all()):
            return math.inf
        if self.p > 1 or "flow" not in dual:
            return outside
        return max(outside, float(dual_lengths(exact(S), self.norm).upper.max()) - self.lam)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        alpha, S = self.multipliers(dual), self.required_flow(dual)
        gradient = self.scores.gradient(alpha)
        squares = self.rest(gradient, S).squared_norm() + gradient.b.squared_norm()
        found = self.minus_conjugate(alpha) - squares / (exact(4.0) * self.eps)
        if self.p > 1:
            sizes = dual_lengths(exact(S), self.norm)
            found = found - total(hinge_power_conjugate(sizes, exact(self.lam), exact(self.p)))
        return found

    def bias_penalty(self, b: Floats) -> float:
        return self.eps * float(b @ b)

    def dual_points(
        self, W: Floats, b: Floats, alpha: Floats, flow: Floats | None = None
    ) -> list[Dual]:
        r"""Return dual points near given multipliers and flows for nearly optimal weights.

        An error in :math:`g_b` or R costs its square over 4ε: the multipliers move until :math:`B'1
        = 2\varepsilon b`, and flows of least squares correct those of W, and those given, to
        :math:`R = 2\varepsilon W`. Near p = 1 the correction can cost more than R does, and violate
        the bound of the flows: points without it, and scaled ones, are returned too.
        """
        alpha = self.scores.moved_to_balance(
            self.projected(alpha), self.loss.domain, 2.0 * self.eps * b
        )
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


def check_exponent(p: Any, *, infinite: bool) -> float:
    """Return p as a number of at least 1, or infinity where that is allowed."""
    if infinite and isinstance(p, (float, np.floating)) and p == math.inf:
        return math.inf
    return check_number(p, "p")


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
    """Check the arguments of :func:`m3svm` and bind the statement to the data."""
    lam = check_number(lam, "lam")
    p = check_exponent(p, infinite=False)
    eps = check_number(
        eps, "eps", "(0, inf)", why="the certificate divides by it; take a small one"
    )
    delta = check_number(delta, "delta")
    kind = LOSSES[check_choice(loss, "loss", tuple(LOSSES))]
    norm = check_norm(norm)
    chosen = SmoothedHingeSum(delta) if kind is SmoothedHingeSum else kind()
    scores = ScoreSpace(multiclass_data(X, y, sample_weight), "penalised", rotations=norm == 2)
    return M3SVM(scores=scores, loss=chosen, lam=lam, p=p, eps=eps, norm=norm)


@dataclass(frozen=True, eq=False)
class HardMarginM3SVM(PairwiseStatement):
    r"""The hard-margin form of :class:`M3SVM`, in its notation, bound to data."""

    name: ClassVar[str] = "m3svm_hard_margin"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {"p": self.p, "norm": self.norm}

    def evaluate(self, model: MulticlassModel) -> Evaluation:
        """Return the regulariser, of a scaled model where f < 1 by rounding; ``inf`` past that."""
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
        given = self.multipliers(dual)
        if self.flow(dual) is not None and self.dual_violation(dual) == 0:
            return {"alpha": self.scores.expand(given), "flow": self.required_flow(dual)}
        alpha = self.scores.balanced(self.projected(given), self.loss.domain)
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
            scaled = self.scores.balanced(alpha * (factor * (1.0 - shrink)), self.loss.domain)
            flow = S * (factor * (1.0 - shrink))
            flow = flow + self.least_flow(self.scores.gradient(scaled).W.value - flow @ self.P.T)
            point: Dual = {"alpha": self.scores.expand(scaled), "flow": flow}
            if self.dual_violation(point) == 0:
                return point
        return self.zero_dual()

    @property
    def _bounded(self) -> bool:
        return self.p == 1 or math.isinf(self.p)

    def _cost(self, S: Bounded) -> Bounded:
        """Return the conjugate of the regulariser; for p = 1 and ∞ the dual norm, at most 1."""
        size = dual_lengths(S, self.norm)
        if self.p == 1:
            size = row_maxima(size[None, :])
        elif not math.isinf(self.p):
            size = hinge_power_conjugate(size, 1.0, exact(self.p))
        return total(size)

    def dual_violation(self, dual: Dual) -> float:
        """A residual of div S = G within its rounding is none: :meth:`evaluate_dual` counts it."""
        alpha = self.multipliers(dual)
        S = self.flow(dual)
        outside = self.domain_violation(alpha)
        if not np.isfinite(outside) or (S is not None and not np.isfinite(S).all()):
            return math.inf
        if S is None or outside > 0:
            return outside
        unbalanced = self.scores.imbalance(alpha)
        R = self.rest(self.scores.gradient(alpha), S)
        # A flow that was corrected has the rounding of that as well: eight bounds of one suffice.
        apart = float(np.abs(R.value).max()) - 8.0 * R.distance
        over = self._cost(exact(S)).upper_end - 1.0 if self._bounded else 0.0
        found = max(0.0, unbalanced, apart, over)
        return found if math.isfinite(R.distance) else math.inf

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """Return Σα less the conjugate at a feasible (α, S) and the cost of R = G − div S.

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
            found - share * sqrt(self.rest(self.scores.gradient(alpha), S).squared_norm()) * longest
        )

    def trivial(self) -> tuple[list[MulticlassModel], list[Dual]]:
        return [], [self.zero_dual()]

    def scaled_to_margin(
        self, W: Floats, b: Floats, smallest: float, support: NDArray[np.bool_]
    ) -> MulticlassModel:
        """Return a model's multiple, of least difference `smallest`, with f ≥ 1 for certain."""
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
        """Return the least and the largest biases of sum 0 with which the weights have f ≥ 1."""
        slacks = self.slacks(W, self.loss.domain)
        return slacks.tight_ranges(np.zeros_like(slacks.gamma))

    def optimal_intercepts(self, model: MulticlassModel) -> OptimalIntercepts:
        shift = self.scores.centre @ model.coef
        lower, upper = self._ranges(model.coef)
        return OptimalIntercepts(lower - shift, upper - shift)

    def explain(self, status: str) -> str:
        if status in ("infeasible", "unbounded"):
            return (
                "some two classes are not separable by linear scores, so no hard-margin M3SVM"
                " exists; use m3svm, which allows for violations"
            )
        return super().explain(status)

    def model_of(self, variables: Mapping[str, Any]) -> MulticlassModel | None:
        raise BuildError(
            "a hard-margin model is the solver's point scaled until every score difference is at"
            " least 1, so that the values of the variables do not tell whether it meets added"
            " constraints; pass holds= to say of a model whether it does"
        )

    def _root_flow(self, W: Floats) -> Floats:
        """Return the gradient of the p-th root of the regulariser in the differences."""
        size = lengths(W @ self.P, self.norm)
        largest = float(size.max())
        if not largest > 0:
            return np.zeros_like(W @ self.P)
        powers = float(((size / largest) ** self.p).sum())
        flow = self.power_flow(W / largest, 1.0 / self.p, self.p)
        return np.asarray(flow * powers ** (1.0 / self.p - 1.0))

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
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
            support = np.asarray((f <= smallest * (1.0 + ON_SUPPORT)).any(axis=1))
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
