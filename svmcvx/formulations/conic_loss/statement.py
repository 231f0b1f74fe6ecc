r"""The conic loss: the SVM with 0-1 loss, relaxed to a semidefinite program.

**0-1 problem**, with weights :math:`s_i > 0` (1 by default) and margins :math:`u_i = y_i\langle w,
x_i\rangle`:

.. math:: \min_w\; \|w\|^2 + \lambda \sum_i s_i\, 1[u_i < 1].

**Relaxation** ([CepedaGomezHan], Theorem 2, ``form="paper"``), with :math:`t_i = \langle x_i x_i',
W\rangle - 2u_i + 1`:

.. math::
    \min_{w, W, z}\; \mathrm{Tr}\,W + \lambda \sum_i s_i z_i \quad\text{s.t.}\quad
    t_i \ge \frac{(1-u_i)_+^2}{z_i} + \frac{(1-u_i)_-^2}{1-z_i},\quad 0 \le z \le 1,\quad
    \begin{pmatrix}1 & w'\\ w & W\end{pmatrix} \succeq 0.

**Reduced form** (``form="reduced"``, the default, same optimum): :math:`t_i \ge (1-u_i)^2` follows
from the last constraint, and the best :math:`z_i` is :math:`(1-u_i)_+^2/t_i`, so one cone an
observation is enough. With :math:`W = ww' + VV'` and :math:`v_i = \|V'x_i\|^2`

.. math:: P(w, V) = \|w\|^2 + \|V\|_F^2 + \lambda \sum_i s_i z_i, \qquad z_i = \frac{(1-u_i)_+^2}{v_i + (1-u_i)_+^2}.

*Interpretation.* :math:`z_i` is Cantelli's bound: the smallest probability, over all random
hyperplanes with mean w and covariance :math:`VV'`, of a margin below 1. The relaxation replaces one
hyperplane by the most favourable random one.

**Cardinality form** (Appendix C): no λ, but :math:`\sum s_i z_i \le \kappa \sum s_i`; λ is then the
multiplier of this row.

**Dual.** With multipliers :math:`\gamma_i \ge 0` of the definition of :math:`t_i` and
:math:`\alpha_i` of :math:`m_i \ge 1 - u_i`, and :math:`Q = I - \sum_i \gamma_i x_i x_i' \succ 0`:

.. math::
    D(\gamma, \alpha) = \sum_i (\alpha_i - \gamma_i) - \sum_i h_i^*(\alpha_i) - \tfrac14 c'Q^{-1}c, \qquad
    c = \sum_i (\alpha_i - 2\gamma_i)\, y_i x_i,

.. math:: h_i^*(\alpha) = \Big(\frac{(\alpha)_+^2}{4\gamma_i} - \lambda s_i\Big)_+ + \frac{(\alpha)_-^2}{4\gamma_i}.

For fixed γ the best α gives :math:`\min_w q(w)`, :math:`q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i)`
with the *conic loss* L of :func:`svmcvx.losses.conic_loss`. For any w with subgradient g of q, the
α taken from the slopes of L at w gives at least :math:`q(w) - \|g\|^2/(4\mu)` with :math:`\mu =
\lambda_{\min}(Q)`, since q is strongly convex with modulus 2μ. At the optimum :math:`\gamma_i =
\lambda s_i (1-u_i)_+^2/t_i^2` and :math:`\alpha_i = 2\lambda s_i (1-u_i)_+/t_i`. In the cardinality
form λ is a multiplier too, and :math:`-\lambda\kappa\sum s_i` is added to D.

**Rounding.** Both ends hold for K, not for a factor of it. A covariance of a kernel model is
:math:`\Phi'BB'\Phi + \varepsilon I` with the coefficients B and the number ε of its second moment,
and :math:`\min_w w'Qw - c'w` is bounded from any point by its gradient and a proved :math:`\mu`
(:mod:`svmcvx.formulations.conic_loss.geometry`). The right side :math:`\kappa\sum s_i` is the
number that it evaluates to.

**Two intervals.** D is a lower bound of the 0-1 problem as well (in the cardinality form: of
:math:`\min \|w\|^2` with margins below 1 on observations of total weight at most :math:`\kappa\sum
s_i`). The certificate's ``lower`` and ``upper`` enclose the optimum of the semidefinite program;
its residuals ``"zero_one_lower"`` and ``"zero_one_upper"`` enclose that of the 0-1 problem, the
upper end attained by a rounding (:func:`svmcvx.heuristics.rounding.round_relaxation`).

============== ====================================================== ==========
symbol         meaning                                                shape
============== ====================================================== ==========
X, y           data, labels ±1                                        (n, d), (n,)
L              data with the constant feature, or a factor of K       (n, r)
w, W           mean and second moment, in the columns of L            (r,), (r, r)
V              factor of the covariance W − ww'                       (r, k)
z              relaxed indicator of a margin below 1                  (n,)
gamma, alpha   multipliers                                            (n,), (n,)
============== ====================================================== ==========

**Scaling.** There is no ½ on the norm: with a hinge instead of the 0-1 loss this would be the SVM
with C = λ/2. The intercept is the coefficient of a constant feature and is penalised with the rest
(LIBLINEAR's ``-B 1``).

**Source.** [CepedaGomezHan], Theorem 2, eqs. (10), (19), (21), Appendices A and C. The factor γ
that the proof of Proposition 1 drops and the superfluous −1 in eq. (14) are corrected.

P is coded in :mod:`~svmcvx.formulations.conic_loss.primal`, D in
:mod:`~svmcvx.formulations.conic_loss.dual`, models in
:mod:`~svmcvx.formulations.conic_loss.recovery`, the cvxpy problem in
:mod:`~svmcvx.formulations.conic_loss.sdp`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import Bounded, exact, maximum, signed
from svmcvx.data import BinaryData, binary_data, check_number
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace, feature_space, penalised_or_none
from svmcvx.formulations.base import RecoveredPoints, full_entry
from svmcvx.formulations.conic_loss.dual import ConicDual, same_point
from svmcvx.formulations.conic_loss.geometry import RowGeometry
from svmcvx.formulations.conic_loss.primal import objective, total_loss, worst_indicator
from svmcvx.formulations.conic_loss.recovery import (
    SecondMoment,
    coordinates_of,
    moment_of,
    recover,
    relaxed_model,
    within,
)
from svmcvx.heuristics.least_norm import least_norm
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel

__all__ = ["ConicLoss", "check_lam_or_kappa", "conic_space", "hard_margin_point"]

Floats: TypeAlias = NDArray[np.float64]

# Largest share of margins below 1 in the cardinality form.
KAPPA_HIGHEST = 0.5


@dataclass(frozen=True, eq=False)
class ConicLoss(ConicDual):
    """The statement of the relaxation bound to data.

    A model without a :class:`~svmcvx.formulations.conic_loss.recovery.SecondMoment` is evaluated at
    :math:`W = ww'`, where the objective is that of the 0-1 problem. Dual points hold ``"gamma"``,
    optionally ``"alpha"``, and ``"lam"`` in the cardinality form.
    """

    name: ClassVar[str] = "conic"
    lam: float | None = None
    kappa: float | None = None

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """λ or κ, and the kernel."""
        own = {"lam": self.lam} if self.kappa is None else {"kappa": self.kappa}
        return {**own, "kernel": self.kernel_name}

    @property
    def allowance(self) -> float:
        """κ Σ s_i, the weight that may have a margin below 1 in the cardinality form: the sum and
        the product are rounded once.
        """
        return math.inf if self.kappa is None else self.kappa * self.space.data.total_weight

    def lam_of(self, dual: Dual) -> float:
        """λ, in the cardinality form the one of the dual point, clipped to be non-negative."""
        if self.lam is not None:
            return self.lam
        if "lam" not in dual:
            raise DataError(
                "the dual point of the cardinality form needs the entry 'lam', got"
                f" {', '.join(dual) or 'nothing'}"
            )
        lam = float(np.asarray(dual["lam"]).item())
        return max(lam, 0.0) if math.isfinite(lam) else 0.0

    def dual_constant(self, lam: float) -> Bounded:
        """−λκΣs in the cardinality form."""
        if self.kappa is None:
            return exact(0.0)
        # Of κΣs itself, which may differ from the allowance by two roundings: κ may come of a right
        # side k/Σs.
        return -exact(lam) * (self.kappa * self.space.data.bounded_weight)

    def _evaluate(self, model: BinaryModel, moment: SecondMoment | None) -> Evaluation:
        """P at a model and a covariance, every term at its worst end; ``inf`` where Σ s z may
        exceed κ Σ s.
        """
        u, norm = self.margins_of(model), self.penalty(model)
        low, value = u.lower, u.value
        if moment is not None and self.space.blockwise:
            # The problem of the approximation, whose rows are those of the factor, too.
            f, square = coordinates_of(self.factor, moment.w)
            f = signed(self.y, f)
            low, value, norm = np.minimum(low, f.lower), f.value, maximum(norm, square)
        variance, trace = np.zeros(low.size), exact(0.0)
        if moment is not None and moment.V.shape[1] > 0:
            self._check_moment(moment)
            variance, trace = self.geometry.spread(moment)
        if self.kappa is not None:
            if not within(self.weight, worst_indicator(low, variance), self.allowance):
                return Evaluation(math.inf, 0.0)
            return Evaluation.of(regulariser=norm + trace, losses=exact(0.0))
        assert self.lam is not None  # noqa: S101 - exactly one is given
        high = objective(
            norm, trace, exact(low), exact(variance), lam=exact(self.lam), weight=self.loss_weight
        )
        missed = total_loss(value, variance, lam=self.lam, weight=self.weight)
        regulariser = float((norm + trace).value)
        return Evaluation.at_most(high.upper_end, regulariser=regulariser, losses=missed)

    def _check_moment(self, moment: SecondMoment) -> None:
        """Raise a :class:`DataError` unless a second moment is one of these data."""
        r, B = self.factor.shape[1], moment.coefficients
        if moment.V.shape[0] != r:
            raise DataError(
                f"the second moment of the model has {moment.V.shape[0]} rows, these data need {r};"
                " certify a model with the data that it was trained on"
            )
        rows = isinstance(self.geometry, RowGeometry)
        if rows != (B is None) or (B is not None and B.shape[0] != self.y.size):
            raise DataError(
                "the second moment of the model is that of other data; certify a model with the"
                " data that it was trained on"
            )

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model and its second moment; ``inf`` where the cardinality row is violated."""
        return self._evaluate(model, moment_of(model))

    def zero_one(self, model: BinaryModel) -> Evaluation:
        """The objective of the 0-1 problem at a model; ``inf`` where too many observations are
        below the margin.
        """
        return self._evaluate(model, None)

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        """Return w = 0 without and, for rows that are the data, with the intercepts 1 and −1; γ = α
        = 0, whose bound is 0.
        """
        zeros = np.zeros(self.y.size)
        dual: Dual = {"gamma": zeros, "alpha": zeros}
        duals = [dual if self.kappa is None else {**dual, "lam": np.zeros(())}]
        if not self.space.factored:
            # The time limit has passed before there was a factor, in whose columns a second moment
            # is stated.
            return [self.space.model(zeros)], duals
        w = np.zeros(self.factor.shape[1])
        models = [self.model(w, np.zeros((w.size, 0)))]
        if (
            self.space.intercept == "penalised"
            and self.space.is_linear
            and self.space.X.shape[1] == w.size
        ):
            for sign in (1.0, -1.0):
                bias = w.copy()
                bias[-1] = sign * (1.0 + 2.0**-48)
                models.append(self.model(bias, np.zeros((w.size, 0))))
        return models, duals

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """The interval around the optimum of the 0-1 problem: the same bound, and the better of
        model and rounding.
        """
        moment = moment_of(model)
        points = [model, *([] if moment is None or moment.rounded is None else [moment.rounded])]
        found = {"zero_one_upper": min(self.zero_one(point).upper_end for point in points)}
        if dual:
            found["zero_one_lower"] = self.evaluate_dual(dual).lower_end
        return found

    def repair(self, dual: Dual) -> Dual:
        """As for any conic dual; in the cardinality form with the better of λ as passed and the
        best λ for γ and α.
        """
        if self.kappa is None:
            return super().repair(dual)
        for known in self._repaired:
            if same_point(known, dual):
                return known
        zeros = np.zeros(self.y.size)
        # λ = γ = α = 0 is feasible, with the bound 0.
        best: Dual = {"lam": np.zeros(()), "gamma": zeros, "alpha": zeros}
        best_value = 0.0
        for lam in (self.lam_of(dual), self._best_lam(dual)):
            point = {**super().repair({**dual, "lam": np.array(lam)}), "lam": np.array(lam)}
            value = self.evaluate_dual(point).lower_end
            if value > best_value:
                best, best_value = point, value
        self._repaired.insert(0, best)
        return best

    def _best_lam(self, dual: Dual) -> float:
        """The λ ≥ 0 that maximises D − λκΣs for given γ and α: a quantile of α²/(4γs), weighted by
        s.
        """
        gamma, alpha = self.gamma_of(dual), self.alpha_of(dual)
        if alpha is None:
            return self.lam_of(dual)
        charged = (gamma > 0) & (alpha > 0)
        breaks = np.zeros(gamma.size)
        with np.errstate(over="ignore"):
            breaks[charged] = alpha[charged] ** 2 / (4.0 * gamma[charged] * self.weight[charged])
        order = np.argsort(-breaks)
        beyond = np.cumsum(self.weight[order]) > self.allowance
        lam = float(breaks[order[np.argmax(beyond)]]) if beyond.any() else 0.0
        return lam if math.isfinite(lam) else 0.0

    def spread(self, model: Any) -> Mapping[str, Floats]:
        """The covariance of the model: V in the columns of the data, or coefficients of the
        observations and a ridge.
        """
        moment = None if model is None else moment_of(model)
        if moment is None:
            return {}
        if moment.coefficients is None:
            return {"V": moment.V} if moment.V.shape[1] else {}
        data = self.space.data
        columns = [full_entry(column, data) for column in moment.coefficients.T]
        return {
            "V_coef": np.column_stack(columns) if columns else np.zeros((data.rows, 0)),
            "ridge": np.array(moment.ridge),
        }

    def explain(self, status: str) -> str:
        """Only the cardinality form can be infeasible."""
        if status == "infeasible" and self.kappa is not None:
            return (
                f"no hyperplane keeps all but a share of {self.kappa:g} of the observations outside"
                " the margin, even in the relaxation; raise kappa, or allow an intercept"
            )
        return super().explain(status)

    def model(self, w: Floats, V: Floats, rounded: BinaryModel | None = None) -> BinaryModel:
        """Return the model of mean `w` and covariance ``VV'``, both in the columns of
        ``space.factor``.
        """
        return relaxed_model(self.space, w, V, rounded)

    def recover(
        self, w: Floats, V: Floats, duals: Sequence[Dual] = (), lam: float | None = None
    ) -> RecoveredPoints:
        """Return models and dual points from an approximate solution of the relaxation, whoever
        found it.
        """
        return recover(
            self.space, w, V, duals, lam=self.lam, allowance=self.allowance, multiplier=lam
        )


def conic_space(
    X: Any, y: Any, kernel: KernelLike, intercept: bool | str, sample_weight: Any, indefinite: str
) -> tuple[BinaryData, FeatureSpace]:
    """Return the data and their feature space, with a penalised intercept or without one."""
    rule = penalised_or_none(intercept)
    data = binary_data(X, y, sample_weight)
    return data, feature_space(data, kernel, intercept=rule, indefinite=indefinite)


def check_lam_or_kappa(lam: Any, kappa: Any, caller: str) -> tuple[float | None, float | None]:
    """Return λ and κ as numbers, one of them None, or raise a :class:`DataError` that names
    `caller`.
    """
    if (lam is None) == (kappa is None):
        given = "neither" if lam is None else "both"
        raise DataError(
            f"{caller} takes exactly one of lam and kappa, got {given}; pass lam=1.0, say, or"
            " kappa=0.1"
        )
    if lam is not None:
        lam = check_number(lam, "lam", low=0, open_low=True)
    if kappa is not None:
        kappa = check_number(kappa, "kappa", low=0, high=KAPPA_HIGHEST)
    return lam, kappa


def hard_margin_point(A: Floats) -> Floats:
    """Return the point of least norm with margins of at least 1 on all signed rows, or raise a
    :class:`DataError`.
    """
    found = least_norm(A, None)
    if found is None:
        raise DataError(
            "kappa = 0 allows no margin below 1, and the two classes are not separable in this"
            " feature space; pass a positive kappa, or a richer kernel"
        )
    return found.w
