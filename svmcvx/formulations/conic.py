r"""The conic loss: the SVM with 0-1 loss, relaxed to a semidefinite program.

**What is relaxed**, with weights :math:`s_i > 0` (1 by default) and :math:`u_i = y_i\langle w, x_i\rangle`:

.. math:: \min_w\; \|w\|^2 + \lambda \sum_i s_i\, 1[u_i < 1].

**Relaxation** (Theorem 2 of the paper, ``form="paper"``), with :math:`t_i = \langle x_i x_i', W\rangle - 2u_i + 1`:

.. math::
    \min_{w, W, z}\; \mathrm{Tr}\,W + \lambda \sum_i s_i z_i \quad\text{s.t.}\quad
    t_i \ge \frac{(1-u_i)_+^2}{z_i} + \frac{(1-u_i)_-^2}{1-z_i},\quad 0 \le z \le 1,\quad
    \begin{pmatrix}1 & w'\\ w & W\end{pmatrix} \succeq 0.

**Reduced form** (``form="reduced"``, the default, same optimum): :math:`t_i \ge (1-u_i)^2` follows from the last
constraint, and the best :math:`z_i` is :math:`(1-u_i)_+^2/t_i`, so one cone an observation is enough. With
:math:`W = ww' + VV'` and :math:`v_i = \|V'x_i\|^2`

.. math:: P(w, V) = \|w\|^2 + \|V\|_F^2 + \lambda \sum_i s_i z_i, \qquad z_i = \frac{(1-u_i)_+^2}{v_i + (1-u_i)_+^2}.

*A reading.* :math:`z_i` is Cantelli's bound: the smallest probability, over all random hyperplanes with mean w and
covariance :math:`VV'`, of a margin below 1. The relaxation replaces one hyperplane by the most favourable random one.

**Cardinality form** (Appendix C): no λ, but :math:`\sum s_i z_i \le \kappa \sum s_i`; λ is then the multiplier of this row.

**Dual.** With multipliers :math:`\gamma_i \ge 0` of the definition of :math:`t_i` and :math:`\alpha_i` of
:math:`m_i \ge 1 - u_i`, and :math:`Q = I - \sum_i \gamma_i x_i x_i' \succ 0`:

.. math::
    D(\gamma, \alpha) = \sum_i (\alpha_i - \gamma_i) - \sum_i h_i^*(\alpha_i) - \tfrac14 c'Q^{-1}c, \qquad
    c = \sum_i (\alpha_i - 2\gamma_i)\, y_i x_i,

.. math:: h_i^*(\alpha) = \Big(\frac{(\alpha)_+^2}{4\gamma_i} - \lambda s_i\Big)_+ + \frac{(\alpha)_-^2}{4\gamma_i}.

For fixed γ the best α gives :math:`\min_w q(w)`, :math:`q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i)` with the *conic loss*
L of :func:`svmcvx.losses.conic_loss`; for any w with subgradient g, α taken from the slopes at w gives at least the
page's :math:`q(w) - \|g\|^2/(4\mu)` with :math:`\mu = \lambda_{\min}(Q)`. At the optimum
:math:`\gamma_i = \lambda s_i (1-u_i)_+^2/t_i^2` and :math:`\alpha_i = 2\lambda s_i (1-u_i)_+/t_i`. In the cardinality form λ is a
multiplier too, and :math:`-\lambda\kappa\sum s_i` is added to D.

**Two intervals.** D is a lower bound of the 0-1 problem as well (in the cardinality form: of
:math:`\min \|w\|^2` with observations of total weight at most :math:`\kappa\sum s_i` dropped). The certificate's
``lower`` and ``upper`` enclose the optimum of the semidefinite program; its residuals ``"zero_one_lower"`` and
``"zero_one_upper"`` enclose that of the 0-1 problem, the upper end attained by a rounding (:func:`round_relaxation`).

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

**Scaling.** There is no ½ on the norm: with a hinge in place of the 0-1 loss this would be the SVM with C = λ/2. The
intercept is the coefficient of a constant feature and is penalised with the rest (LIBLINEAR's ``-B 1``).

**Source.** Robust support vector machines via conic optimization, Theorem 2, eqs. (10), (19), (21), Appendices A and C.
The factor γ that the proof of Proposition 1 drops and the stray −1 in eq. (14) are corrected.
"""

from __future__ import annotations

import itertools
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls

from svmcvx import memory
from svmcvx.certificate import EPS, Dual, Evaluation, accumulated_rounding, check
from svmcvx.data import BinaryData, binary_data, check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.formulations.base import Candidates, Formulation, FormulationProblem
from svmcvx.kernels import KernelLike, row_norms
from svmcvx.losses import conic_loss, slack, zero_one
from svmcvx.model import BinaryModel, KernelModel, LinearModel, frozen
from svmcvx.solution import Solution
from svmcvx.space import FeatureSpace, feature_space

__all__ = [
    "ConicFixedGamma",
    "ConicFixedGammaProblem",
    "ConicLoss",
    "ConicSDP",
    "Relaxation",
    "RelaxedKernelModel",
    "RelaxedLinearModel",
    "SecondMoment",
    "conic_fixed_gamma",
    "conic_sdp",
    "dual_objective",
    "low_rank_gradient",
    "objective",
    "relaxation",
    "relaxed_indicator",
    "round_relaxation",
]

Floats: TypeAlias = NDArray[np.float64]

FORMS = ("reduced", "paper")
KAPPA_HIGHEST = 0.5

# How far inside the cone λ_max(Σ γ_i x_i x_i') ≤ 1 a repaired γ is put: near the boundary Q⁻¹ amplifies the errors of
# γ and α, further inside the bound loses as much; the best of these is taken.
INTERIORS = (1e-11, 1e-9, 1e-7, 1e-5)
# Widths, in units of the margin, to which the kink of the conic loss is rounded off while q is minimised.
SMOOTHINGS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
NEWTON_STEPS = 30
# Steps of the descent on the low-rank form that polishes an interior-point solution; it has seldom needed 50.
POLISHING_STEPS = 500
# In the cardinality form: values of λ that are tried, the relative accuracy asked of its row, and the largest change of
# log λ at once.
BALANCING_STEPS = 15
BALANCED = 1e-9
LARGEST_CHANGE = 2.0
# Directions of the covariance below this share of the largest are not polished.
POLISHED_RANK = 1e-7
# Directions of the covariance below this share of the largest are rounding.
COVARIANCE_RANK = 1e-14
# Of a rounding: keep-sets that are refitted along one ordering of the observations, sweeps until nothing improves, and
# exchanges that are tried in one sweep.
KEPT_SIZES = 40
ROUNDING_SWEEPS = 10
EXCHANGES = 100
# Parts in which the worst violators are peeled off, and the weight of the squared hinge that finds them.
PEELINGS = 100
PEELING_WEIGHT = 100.0
# Bytes for each entry of the dense part of an interior-point method's matrix, its factor and the constraints; measured.
SDP_BYTES = 120.0
# A margin up to this far above 1 counts as on it.
ON_MARGIN = 1e-7


def relaxed_indicator(u: Floats, v: Floats) -> Floats:
    r"""Return :math:`z = (1-u)_+^2/(v + (1-u)_+^2)`, and 0 where u ≥ 1."""
    m = slack(u)
    total = v + m**2
    return np.where(m > 0, m**2 / np.where(total > 0, total, 1.0), 0.0)


def objective(
    squared_norm: float, spread: float, u: Floats, v: Floats, *, lam: float, weight: Floats | float = 1.0
) -> float:
    r"""Return :math:`P = \|w\|^2 + \|V\|_F^2 + \lambda\sum_i s_i z_i`, with the two squared norms passed.

    With `spread` and `v` zero it is the 0-1 objective :math:`\|w\|^2 + \lambda\sum_i s_i 1[u_i < 1]`.
    """
    return squared_norm + spread + lam * float(np.sum(weight * relaxed_indicator(u, v)))


def low_rank_gradient(w: Floats, V: Floats, A: Any, height: Floats) -> tuple[float, Floats, Floats, Floats, Floats]:
    r"""Return :math:`P(w, V)`, its gradients by w and V, and the γ and α of a stationary point.

    Parameters
    ----------
    w : ndarray of shape (r,)
    V : ndarray of shape (r, k)
    A : ndarray or csr_array of shape (n, r)
        Signed rows :math:`y_i x_i`.
    height : ndarray of shape (n,)
        :math:`\lambda s_i`.

    Returns
    -------
    value : float
    gradient_w : ndarray of shape (r,)
    gradient_V : ndarray of shape (r, k)
    gamma, alpha : ndarray of shape (n,)
        :math:`\lambda s_i (1-u_i)_+^2/t_i^2` and :math:`2\lambda s_i (1-u_i)_+/t_i`.
    """
    u, P = np.asarray(A @ w), np.asarray(A @ V)
    m, v = slack(u), np.sum(P**2, axis=1)
    ratio = np.divide(m, v + m**2, out=np.zeros_like(m), where=m > 0)
    gamma, alpha = height * ratio**2, 2.0 * height * ratio
    value = objective(float(w @ w), float(np.sum(V**2)), u, v, lam=1.0, weight=height)
    # ∂z/∂u = −2mv/t² and ∂z/∂v = −m²/t², in γ and α.
    gradient_w = 2.0 * w - np.asarray(A.T @ (alpha - 2.0 * gamma * m))
    return value, gradient_w, 2.0 * V - 2.0 * np.asarray(A.T @ (gamma[:, None] * P)), gamma, alpha


def _conjugate(alpha: Floats, gamma: Floats, height: Floats | float) -> Floats:
    """h*(α) = (α₊²/(4γ) − λs)₊ + α₋²/(4γ); for γ = 0 the indicator of α = 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quarter = np.where(alpha == 0, 0.0, alpha**2 / (4.0 * gamma))
    return np.where(alpha > 0, np.maximum(quarter - height, 0.0), quarter)


def dual_objective(
    gamma: Floats, alpha: Floats, L: Floats, y: Floats, *, lam: float, weight: Floats | float = 1.0
) -> float:
    r"""Return :math:`D(\gamma, \alpha)`, −inf unless γ ≥ 0 and :math:`\sum_i\gamma_i x_i x_i' \prec I`."""
    Q = np.eye(L.shape[1]) - L.T @ (gamma[:, None] * L)
    try:
        factor = sl.cho_factor(Q)
    except sl.LinAlgError:
        return -math.inf
    c = L.T @ (y * (alpha - 2.0 * gamma))
    if (gamma < 0).any():
        return -math.inf
    conjugate = float(np.sum(_conjugate(alpha, gamma, lam * weight)))
    return float(np.sum(alpha - gamma)) - conjugate - 0.25 * float(c @ sl.cho_solve(factor, c))


@dataclass(frozen=True, eq=False)
class SecondMoment:
    """The random hyperplane behind a model of the relaxation, in the columns of ``space.factor``.

    Attributes
    ----------
    w : ndarray of shape (r,)
        Mean; what the model predicts with.
    V : ndarray of shape (r, k)
        Factor of the covariance, so that ``W = ww' + VV'`` exceeds ``ww'`` by construction.
    z : ndarray of shape (rows,)
        Relaxed indicators, indexed like the training data; NaN for observations of weight zero.
    rounded : BinaryModel or None
        The best solution of the 0-1 problem that rounding found.
    """

    w: Floats
    V: Floats
    z: Floats
    rounded: BinaryModel | None = None

    def __post_init__(self) -> None:
        for name in ("w", "V", "z"):
            object.__setattr__(self, name, frozen(getattr(self, name)))

    @property
    def W(self) -> Floats:
        """The second moment, shape (r, r)."""
        return np.outer(self.w, self.w) + self.V @ self.V.T

    @property
    def spectrum(self) -> Floats:
        """Eigenvalues of W that can differ from zero, in descending order."""
        return np.asarray(np.linalg.svd(np.column_stack([self.w, self.V]), compute_uv=False)) ** 2


@dataclass(frozen=True, eq=False)
class RelaxedLinearModel(LinearModel):
    """A :class:`~svmcvx.LinearModel` that knows the second moment of the relaxation it came from.

    It predicts like the linear model of the mean, and :meth:`save` stores that.

    Attributes
    ----------
    moment : SecondMoment
    """

    moment: SecondMoment

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store the linear model of the mean; see :meth:`svmcvx.Model.save`."""
        LinearModel(coef=self.coef, intercept=self.intercept, classes=self.classes, support=self.support).save(path)


@dataclass(frozen=True, eq=False)
class RelaxedKernelModel(KernelModel):
    """A :class:`~svmcvx.KernelModel` that knows the second moment of the relaxation it came from.

    It predicts like the kernel model of the mean, and :meth:`save` stores that.

    Attributes
    ----------
    moment : SecondMoment
    """

    moment: SecondMoment

    def save(self, path: str | os.PathLike[str]) -> None:
        """Store the kernel model of the mean; see :meth:`svmcvx.Model.save`."""
        KernelModel(
            kernel=self.kernel,
            vectors=self.vectors,
            dual_coef=self.dual_coef,
            intercept=self.intercept,
            classes=self.classes,
            support=self.support,
            n_features=self.n_features,
        ).save(path)


def _with_moment(model: BinaryModel, moment: SecondMoment) -> BinaryModel:
    """A plain model with the second moment that it is the mean of."""
    return (RelaxedLinearModel if isinstance(model, LinearModel) else RelaxedKernelModel)(**vars(model), moment=moment)


@dataclass(frozen=True, eq=False)
class _ConicDual(Formulation):
    """The dual that the relaxation and the problem of fixed γ share."""

    space: FeatureSpace

    @property
    def facts(self) -> Mapping[str, float]:
        """Facts of the kernel."""
        return self.space.facts

    @property
    def y(self) -> Floats:
        """Labels ±1."""
        return self.space.data.y

    @property
    def weight(self) -> Floats:
        """Weights of the losses."""
        return self.space.data.weight

    @property
    def factor(self) -> Any:
        """Dense or sparse matrix `L`."""
        return self.space.factor

    def _entry(self, dual: Dual, name: str) -> Floats | None:
        if name not in dual:
            return None
        data = self.space.data
        values = np.asarray(dual[name], dtype=np.float64)
        if values.shape == (data.rows,):
            return values[data.index]
        if values.shape == (data.n,):
            return values
        raise DataError(
            f"{name} must have one multiplier an observation: expected shape ({data.rows},), got {values.shape}"
        )

    def _gamma(self, dual: Dual) -> Floats:
        gamma = self._entry(dual, "gamma")
        if gamma is None:
            raise DataError(
                f"the dual point of {self.name} needs the entry 'gamma', got {', '.join(dual) or 'nothing'}"
            )
        return gamma

    def _lam(self, dual: Dual) -> float:
        """The weight of the losses that belongs to a dual point."""
        raise NotImplementedError

    def _constant(self, lam: float) -> float:
        """What the dual value has beside D."""
        return 0.0

    def _alphas(self, alpha: Floats, gamma: Floats, lam: float) -> list[Floats]:
        """α itself and cut off where h* starts to charge; both without the entries that no γ supports."""
        supported = np.where(gamma > 0, alpha, 0.0)
        return [supported, np.minimum(supported, 2.0 * np.sqrt(lam * self.weight * gamma))]

    def _spectrum(self, gamma: Floats) -> tuple[Floats, Floats, float]:
        """Eigenvalues and vectors of Σ γ_i x_i x_i', and the rounding error of the former."""
        L = self.factor
        G = (L.T @ (sp.diags_array(gamma) @ L)).toarray() if sp.issparse(L) else L.T @ (gamma[:, None] * L)
        values, vectors = sl.eigh(G, check_finite=False)
        trace = float(np.abs(gamma) @ row_norms(L) ** 2)
        return values, vectors, (accumulated_rounding(gamma.size) + EPS * values.size) * trace

    def _bound(
        self, gamma: Floats, alpha: Floats, lam: float, spectrum: tuple[Floats, Floats, float], scale: float = 1.0
    ) -> Evaluation:
        """D at feasible multipliers; `spectrum` belongs to γ divided by `scale`."""
        values, vectors, error = spectrum
        lowest = 1.0 - scale * (values + error)
        if lowest[-1] <= 0 or (gamma < 0).any():
            return Evaluation(-math.inf, 0.0)
        L = self.factor
        coefficients = alpha - 2.0 * gamma
        c = np.asarray(L.T @ (self.y * coefficients))
        projected = vectors.T @ c
        solved = projected / lowest
        conjugate = float(np.sum(_conjugate(alpha, gamma, lam * self.weight)))
        value = float(np.sum(alpha - gamma)) - conjugate - 0.25 * float(projected @ solved) + self._constant(lam)
        relative = accumulated_rounding(gamma.size)
        c_error = relative * (float(np.abs(coefficients) @ row_norms(L)) + float(np.linalg.norm(c)))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            magnitude = float(np.sum(np.abs(alpha) + gamma + np.where(alpha == 0, 0.0, alpha**2 / (2.0 * gamma))))
        rounding = (
            relative * (magnitude + float(projected @ solved) + abs(self._constant(lam)))
            + 0.5 * float(np.linalg.norm(solved)) * c_error
            + 0.25 * c_error**2 / float(lowest[-1])
        )
        return Evaluation(value, rounding) if math.isfinite(value) else Evaluation(-math.inf, 0.0)

    def minimiser(self, dual: Dual) -> Floats:
        """The w, in the columns of ``space.factor``, at which the Lagrangian of a feasible dual point is smallest."""
        gamma, alpha = self._gamma(dual), self._entry(dual, "alpha")
        values, vectors, error = self._spectrum(gamma)
        c = np.asarray(self.factor.T @ (self.y * ((0.0 if alpha is None else alpha) - 2.0 * gamma)))
        return np.asarray(0.5 * vectors @ ((vectors.T @ c) / np.maximum(1.0 - values, error)))

    def _slopes(self, gamma: Floats, lam: float, start: Floats) -> list[Floats]:
        """Minimise q(w) = ‖w‖² + Σ L(u_i; γ_i) and return the α that belong to ever better points.

        Newton's method, with the kink of :math:`h = L + γ(1-u)²` at u = 1 rounded off to widths that shrink.
        """
        rows = np.flatnonzero(gamma > 0)
        if rows.size == 0 or lam == 0:
            return [np.zeros(gamma.size)]
        L = self.factor[rows]
        A = (L.toarray() if sp.issparse(L) else L) * self.y[rows, None]
        bend, height = gamma[rows], lam * self.weight[rows]
        slope, knee = np.sqrt(bend * height), np.sqrt(height / bend)
        Q = np.eye(A.shape[1]) - A.T @ (bend[:, None] * A)
        linear = 2.0 * (A.T @ bend)

        def smoothed(w: Floats, width: float) -> tuple[float, Floats, Floats]:
            """Value of q but for a constant, and h' and h'' as functions of 1 − u."""
            a = 1.0 - A @ w
            outside = np.minimum(a, 0.0) + np.maximum(a - knee, 0.0)
            root = np.hypot(a, width)
            value = float(w @ Q @ w + linear @ w + np.sum(bend * outside**2 + slope * (a + root)))
            return (
                value,
                2.0 * bend * outside + slope * (1.0 + a / root),
                (2.0 * bend * (outside != 0) + slope * width**2 / root**3),
            )

        w, found = start, []
        for width in SMOOTHINGS:
            for _ in range(NEWTON_STEPS):
                value, first, second = smoothed(w, width)
                gradient = 2.0 * (Q @ w) + linear - A.T @ first
                try:
                    step = -sl.solve(2.0 * Q + A.T @ (second[:, None] * A), gradient, assume_a="pos")
                except sl.LinAlgError:
                    break
                decrease, length = float(gradient @ step), 1.0
                if not decrease < -EPS * max(1.0, abs(value)):
                    break
                while length > EPS and not smoothed(w + length * step, width)[0] <= value + 0.25 * length * decrease:
                    length *= 0.5
                if length <= EPS:
                    break
                w = w + length * step
            alpha = np.zeros(gamma.size)
            alpha[rows] = smoothed(w, width)[1]
            found.append(alpha)
        return found

    def _ceiling(self) -> Floats | float:
        return math.inf

    def repair(self, dual: Dual) -> Dual:
        """Clip γ, divide it by max(1, λ_max)(1 + small), and give it the best α.

        Of several "small", and of α as passed (scaled along) and from a minimiser of q, what bounds best is taken.
        """
        gamma = np.clip(np.nan_to_num(self._gamma(dual), posinf=0.0), 0.0, self._ceiling())
        lam, given = self._lam(dual), self._entry(dual, "alpha")
        spectrum = self._spectrum(gamma)
        top = float(spectrum[0][-1] + spectrum[2])
        scales = sorted({min(1.0, 1.0 / (top * (1.0 + interior))) if top > 0 else 1.0 for interior in INTERIORS})
        best = {"gamma": np.zeros_like(gamma), "alpha": np.zeros_like(gamma)}
        best_value, best_scale = -math.inf, None

        def offer(scale: float, alphas: list[Floats]) -> None:
            nonlocal best, best_value, best_scale
            for alpha in alphas:
                value = self._bound(gamma * scale, alpha, lam, spectrum, scale).value
                if value > best_value:
                    best, best_value, best_scale = {"gamma": gamma * scale, "alpha": alpha}, value, scale

        if given is not None:
            for scale in scales:
                offer(scale, self._alphas(np.nan_to_num(given) * math.sqrt(scale), gamma * scale, lam))
        for scale in scales if best_scale is None else [best_scale]:
            offer(scale, self._slopes(gamma * scale, lam, np.zeros(self.factor.shape[1])))
        return best

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −γ, of γ above its ceiling, and of λ_max(Σ γ_i x_i x_i') − 1 beyond its rounding."""
        gamma = self._gamma(dual)
        if not np.isfinite(gamma).all():
            return math.inf
        values, _, error = self._spectrum(gamma)
        return max(0.0, float(-gamma.min()), float((gamma - self._ceiling()).max()), float(values[-1]) - 1.0 - error)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """D at a feasible γ, with the α of a minimiser of q if there is none in `dual`."""
        gamma, lam = self._gamma(dual), self._lam(dual)
        alpha, spectrum = self._entry(dual, "alpha"), self._spectrum(gamma)
        if alpha is not None:
            return self._bound(gamma, alpha, lam, spectrum)
        start = np.zeros(self.factor.shape[1])
        bounds = [self._bound(gamma, alpha, lam, spectrum) for alpha in self._slopes(gamma, lam, start)]
        return max(bounds, key=lambda bound: bound.value)


@dataclass(frozen=True, eq=False)
class ConicLoss(_ConicDual):
    """The statement of the relaxation bound to data.

    A model without a :class:`SecondMoment` is evaluated at :math:`W = ww'`, where the objective is that of the 0-1
    problem. Dual points hold ``"gamma"``, optionally ``"alpha"``, and ``"lam"`` in the cardinality form.

    Parameters
    ----------
    space : FeatureSpace
        With a penalised intercept or none.
    lam : float or None
        Weight of the losses, positive.
    kappa : float or None
        Share of the observations that may have a margin below 1; one of the two is None.
    """

    name: ClassVar[str] = "conic"
    lam: float | None = None
    kappa: float | None = None

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """λ or κ, and the kernel."""
        kernel = self.space.kernel
        own = {"lam": self.lam} if self.kappa is None else {"kappa": self.kappa}
        return {**own, "kernel": "none" if kernel is None else str(kernel)}

    @property
    def allowance(self) -> float:
        """κ Σ s_i, the weight that may have a margin below 1 in the cardinality form."""
        return math.inf if self.kappa is None else self.kappa * float(self.weight.sum())

    def _lam(self, dual: Dual) -> float:
        if self.lam is not None:
            return self.lam
        if "lam" not in dual:
            raise DataError(
                f"the dual point of the cardinality form needs the entry 'lam', got {', '.join(dual) or 'nothing'}"
            )
        lam = float(np.asarray(dual["lam"]).item())
        return max(lam, 0.0) if math.isfinite(lam) else 0.0

    def _constant(self, lam: float) -> float:
        return 0.0 if self.kappa is None else -lam * self.allowance

    def _worst_indicators(self, model: BinaryModel) -> tuple[Floats, Floats]:
        """Indicators without and with the spread of a model, for margins and variances lowered by their rounding.

        Where both vanish the indicator jumps from 0 to 1, so the error of its argument cannot be bounded otherwise.
        """
        data = self.space.data
        f, f_rounding = model.scores(data.X)
        u = self.y * f - f_rounding
        moment = _moment(model)
        if moment is None or moment.V.shape[1] == 0:
            z = zero_one(u)
            return z, z
        L = self.factor
        if moment.V.shape[0] != L.shape[1]:
            raise DataError(
                f"the second moment of the model has {moment.V.shape[0]} rows, these data need {L.shape[1]}; "
                "certify a model with the data that it was trained on"
            )
        deviation = np.linalg.norm(L @ moment.V, axis=1)
        error = accumulated_rounding(L.shape[1]) * row_norms(L) * float(np.linalg.norm(moment.V))
        return zero_one(u), relaxed_indicator(u, np.maximum(deviation - error, 0.0) ** 2)

    def _value(self, model: BinaryModel, z: Floats, spread: float) -> Evaluation:
        """‖w‖² + spread + λ Σ s z, or in the cardinality form the first two if Σ s z is small enough."""
        norm, norm_rounding = self.space.squared_norm(model)
        total = float(self.weight @ z)
        rounding = norm_rounding + accumulated_rounding(self.factor.shape[1]) * spread
        if self.lam is not None:
            value = norm + spread + self.lam * total
            return Evaluation(value, rounding + accumulated_rounding(z.size) * value)
        if total > self.allowance * (1.0 + accumulated_rounding(z.size)):
            return Evaluation(math.inf, 0.0)
        return Evaluation(norm + spread, rounding)

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model and its second moment; ``inf`` where more than κ of the observations is below the margin."""
        moment = _moment(model)
        spread = 0.0 if moment is None else float(np.sum(moment.V**2))
        return self._value(model, self._worst_indicators(model)[1], spread)

    def zero_one(self, model: BinaryModel) -> Evaluation:
        """The objective of the 0-1 problem at a model; ``inf`` where too many observations are below the margin."""
        return self._value(model, self._worst_indicators(model)[0], 0.0)

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """The interval around the optimum of the 0-1 problem: the same bound, and the better of model and rounding."""
        moment = _moment(model)
        points = [model, *([] if moment is None or moment.rounded is None else [moment.rounded])]
        found = {"zero_one_upper": min(sum(self.zero_one(point)) for point in points)}
        if dual:
            bound = self.evaluate_dual(dual)
            found["zero_one_lower"] = bound.value - bound.rounding
        return found

    def repair(self, dual: Dual) -> Dual:
        """As in the base; in the cardinality form with λ as passed or the best for γ and α."""
        if self.kappa is None:
            return super().repair(dual)
        best, best_value = {"lam": np.zeros(()), **super().repair({**dual, "lam": np.zeros(())})}, -math.inf
        for lam in (self._lam(dual), self._best_lam(dual)):
            point = {**super().repair({**dual, "lam": np.array(lam)}), "lam": np.array(lam)}
            value = self.evaluate_dual(point).value
            if value > best_value:
                best, best_value = point, value
        return best

    def _best_lam(self, dual: Dual) -> float:
        """The λ ≥ 0 that maximises D − λκΣs for given γ and α: a quantile of α²/(4γs), weighted by s."""
        gamma, alpha = self._gamma(dual), self._entry(dual, "alpha")
        if alpha is None:
            return self._lam(dual)
        usable = (gamma > 0) & (alpha > 0)
        breaks = np.zeros(gamma.size)
        breaks[usable] = alpha[usable] ** 2 / (4.0 * gamma[usable] * self.weight[usable])
        order = np.argsort(-breaks)
        beyond = np.cumsum(self.weight[order]) > self.allowance
        return float(breaks[order[np.argmax(beyond)]]) if beyond.any() else 0.0

    def export_dual(self, dual: Dual) -> Dual:
        """γ and α with a zero for each observation of weight zero, and λ."""
        data = self.space.data
        exported = {}
        for name, values in dual.items():
            full = np.asarray(values, dtype=np.float64)
            if name != "lam":
                full = np.zeros(data.rows)
                full[data.index] = values
            exported[name] = full
        return exported

    def explain(self, status: str) -> str:
        """Infeasible can be a cardinality form only."""
        if status == "infeasible":
            return (
                f"no hyperplane keeps all but a share of {self.kappa:g} of the observations outside the margin, even in "
                "the relaxation; raise kappa, or allow an intercept"
            )
        return super().explain(status)

    def model(self, w: Floats, V: Floats, rounded: BinaryModel | None = None) -> BinaryModel:
        """Return the model of mean `w` and covariance ``VV'``, both in the columns of ``space.factor``."""
        data, L = self.space.data, self.factor
        u = self.y * np.asarray(L @ w)
        z = np.full(data.rows, math.nan)
        z[data.index] = relaxed_indicator(u, np.sum(np.asarray(L @ V) ** 2, axis=1))
        plain = self.space.model_from_factor(w, support=u <= 1.0 + ON_MARGIN)
        return _with_moment(plain, SecondMoment(w=w, V=V, z=z, rounded=rounded))

    def recover(self, w: Floats, V: Floats, duals: Sequence[Dual] = (), lam: float | None = None) -> Candidates:
        """Return models and dual points from an approximate solution of the relaxation, whoever found it.

        Parameters
        ----------
        w : ndarray of shape (r,)
        V : ndarray of shape (r, k)
            In the columns of ``space.factor``.
        duals : sequence of dict of ndarray
            Multipliers that the solver found.
        lam : float, optional
            Multiplier of the cardinality row, if there is one.

        Returns
        -------
        Candidates
            The rounding first (it is optimal where the relaxation is tight), then the point polished and as passed. The
            dual points that follow from these two, and those passed.
        """
        height = self.lam if self.lam is not None else lam
        points = [(w, V)]
        if self.lam is not None:
            points.insert(0, self._polish(w, V, self.lam))
        elif height is not None and height > 0:
            height, *polished = self._balance(w, V, height)
            points.insert(0, (polished[0], polished[1]))
        w, V = points[0]
        u, v = self.y * np.asarray(self.factor @ w), np.sum(np.asarray(self.factor @ V) ** 2, axis=1)
        cap = {"lam": self.lam} if self.lam is not None else {"k": self.allowance}
        best, value = round_relaxation(self.space, w, relaxed_indicator(u, v), **cap)
        models: list[BinaryModel] = []
        rounded = None
        if math.isfinite(value):
            best, rounded = self._rounded(best)
            models.append(self.model(best, np.zeros((w.size, 0)), rounded))
        models += [self.model(w, spread, rounded) for w, V in points for spread in self._spreads(w, V)]
        found: list[Dual] = []
        if height is not None:
            for w, V in points:
                *_, gamma, alpha = low_rank_gradient(w, V, self._signed, height * self.weight)
                point: dict[str, Floats] = {"gamma": gamma, "alpha": alpha}
                found.append(point if self.kappa is None else {**point, "lam": np.array(height)})
        return Candidates(models, [*found[:1], *duals, *found[1:]])

    @property
    def _signed(self) -> Any:
        """Rows y_i x_i."""
        L = self.factor
        return sp.csr_array(sp.diags_array(self.y) @ L) if sp.issparse(L) else self.y[:, None] * L

    def _balance(self, w: Floats, V: Floats, lam: float) -> tuple[float, Floats, Floats]:
        """Polish for a varying λ until the row Σ s z = κ Σ s holds: secants in logarithms, kept inside a bracket."""
        low, high = 0.0, math.inf
        best, best_error = (lam, w, V), math.inf
        previous: tuple[float, float] | None = None
        for _ in range(BALANCING_STEPS):
            w, V = self._polish(w, V, lam)
            u, v = self.y * np.asarray(self.factor @ w), np.sum(np.asarray(self.factor @ V) ** 2, axis=1)
            total = float(self.weight @ relaxed_indicator(u, v))
            if not self.allowance > 0 or not total > 0:
                break
            error = math.log(total / self.allowance)
            if abs(error) < best_error:
                best, best_error = (lam, w, V), abs(error)
            if abs(error) <= BALANCED or V.shape[1] == 0:
                break
            low, high = (lam, high) if error > 0 else (low, lam)
            # The sum falls as λ rises, at first about like 1/λ.
            rate = -1.0 if previous is None else (error - previous[1]) / (math.log(lam / previous[0]) or EPS)
            previous = (lam, error)
            new = lam * math.exp(min(max(-error / rate, -LARGEST_CHANGE), LARGEST_CHANGE)) if rate < 0 else math.nan
            if not low < new < high:
                new = math.sqrt(low * high) if low > 0 and high < math.inf else (2 * lam if error > 0 else lam / 2)
            lam = new
        return best

    def _polish(self, w: Floats, V: Floats, lam: float) -> tuple[Floats, Floats]:
        """Descend from a solution of moderate accuracy on P, which is smooth where V has an effect."""
        sizes = np.sum(V**2, axis=0)
        V = V[:, sizes > POLISHED_RANK * sizes.max(initial=0.0)]
        if V.shape[1] == 0:
            return w, V
        A, height, r = self._signed, lam * self.weight, w.size

        def stacked(point: Floats) -> tuple[float, Floats]:
            value, by_w, by_V, *_ = low_rank_gradient(point[:r], point[r:].reshape(V.shape), A, height)
            return value, np.concatenate([by_w, by_V.ravel()])

        start = np.concatenate([w, V.ravel()])
        options = {"maxiter": POLISHING_STEPS, "ftol": 0.0, "gtol": 0.0, "maxcor": 30}
        end = minimize(stacked, start, jac=True, method="L-BFGS-B", options=options).x
        return end[:r], end[r:].reshape(V.shape)

    def _rounded(self, w: Floats) -> tuple[Floats, BinaryModel]:
        """Scale a rounding until its margins of 1 stay there in spite of rounding; return it and its model."""
        kept = self.y * np.asarray(self.factor @ w) >= 1.0
        for _ in range(2):
            model = self.space.model_from_factor(w, support=kept)
            f, f_rounding = model.scores(self.space.data.X)
            reached = (self.y * f - 2.0 * f_rounding)[kept]
            if reached.size and reached.min() > 0:
                w = w * max(1.0, (1.0 + EPS) / float(reached.min()))
        return w, self.space.model_from_factor(w, support=kept)

    def _spreads(self, w: Floats, V: Floats) -> list[Floats]:
        """V itself; in the cardinality form enlarged until Σ s z ≤ κ Σ s, by a factor or by a multiple of I."""
        if self.kappa is None:
            return [V]
        probe = self.space.model_from_factor(w)
        f, f_rounding = probe.scores(self.space.data.X)
        u, L = self.y * f - f_rounding, self.factor
        relative = 2.0 * accumulated_rounding(max(L.shape[1], u.size))
        goal = self.allowance * (1.0 - relative)
        norms, v = row_norms(L) ** 2, np.sum(np.asarray(L @ V) ** 2, axis=1)
        V_norm, identity = float(np.sum(V**2)), np.eye(w.size)

        def excess(grown: Floats, size: float) -> float:
            deviation = np.sqrt(grown) - relative * np.sqrt(norms * size)
            return float(self.weight @ relaxed_indicator(u, np.maximum(deviation, 0.0) ** 2)) - goal

        unit = V_norm if V_norm > 0 else 1.0 / max(float(norms.max()), np.finfo(float).tiny)
        factor = _smallest(lambda c: excess(v * (1.0 + c), V_norm * (1.0 + c)))
        ridge = _smallest(lambda c: excess(v + c * unit * norms, V_norm + c * unit * w.size))
        spreads = [] if factor is None else [V * math.sqrt(1.0 + factor)]
        if ridge is not None:
            spreads.append(np.hstack([V, math.sqrt(ridge * unit) * identity]))
        return spreads


def _moment(model: Any) -> SecondMoment | None:
    return model.moment if isinstance(model, (RelaxedLinearModel, RelaxedKernelModel)) else None


def _smallest(excess: Any) -> float | None:
    """Smallest c ≥ 0 in the range of interest with ``excess(c) <= 0`` for a decreasing function, approached from above."""
    if excess(0.0) <= 0:
        return 0.0
    low, high = math.log(EPS), math.log(1e12)
    if excess(math.exp(low)) <= 0:
        return math.exp(low)
    if excess(math.exp(high)) > 0:
        return None
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(math.exp(middle)) > 0 else (low, middle)
    return math.exp(high)


@dataclass
class _Rounding:
    """Search for a good solution of the 0-1 problem with rows ``A = y L`` (scaled) and weights `s`."""

    A: Floats
    s: Floats
    lam: float | None
    k: float
    scale: float
    w: Floats
    value: float

    def dropped(self, u: Floats) -> float:
        """Weight of the observations with a margin below 1."""
        return float(self.s[u < 1.0].sum())

    def worth(self, norm: Any, missed: Any) -> Any:
        """Objective of points of squared norm `norm` with observations of weight `missed` below the margin."""
        if self.lam is not None:
            return norm + self.lam * missed
        return np.where(missed <= self.k * (1.0 + accumulated_rounding(self.s.size)), norm, np.inf)

    def offer(self, w: Floats) -> None:
        """Keep `w` if it is the best point so far."""
        missed = self.dropped(self.A @ w)
        norm = float(w @ w) / self.scale**2
        value = float(self.worth(norm, missed))
        if value < self.value:
            self.w, self.value = w, value

    def stretch(self, w: Floats) -> None:
        """Offer the best multiple of a direction: one of those that put a margin on 1."""
        u = self.A @ w
        positive = u[u > 0]
        if positive.size == 0:
            return
        order = np.sort(positive)[::-1]
        weight = self.s[u > 0][np.argsort(-positive, kind="stable")]
        missed = float(self.s.sum()) - np.cumsum(weight)
        with np.errstate(divide="ignore", over="ignore"):
            norm = (float(np.linalg.norm(w)) / self.scale / order) ** 2
        values = self.worth(norm, missed)
        best = int(np.argmin(values))
        if math.isfinite(values[best]):
            self.offer(_lift(self.A, w / order[best]))

    def refit(self, kept: NDArray[np.intp]) -> bool:
        """Offer the least-norm point with margins of at least 1 on the observations kept; False if there is none."""
        w = _least_norm(self.A[kept])
        if w is None:
            return False
        self.offer(_lift(self.A, w / min(1.0, float((self.A[kept] @ w).min(initial=1.0)))))
        return True

    def peel(self) -> None:
        """Drop the worst violators of an SVM with squared hinge in turn, and offer what is on the way."""
        kept = np.arange(self.A.shape[0])
        chunk = max(1, kept.size // PEELINGS)
        w = np.zeros(self.A.shape[1])
        while kept.size > chunk:
            w = _squared_hinge(self.A[kept], self.s[kept], w)
            self.stretch(w)
            u = self.A[kept] @ w
            order = np.argsort(u, kind="stable")
            left = np.sort(kept[order[chunk:]])
            over = self.lam is None and float(self.s.sum() - self.s[left].sum()) > self.k
            if (over or u[order[0]] > 0) and (self.refit(kept) or over):
                break
            kept = left

    def exchange(self) -> None:
        """Drop an observation on the margin, take in one below it, or both, for as long as that improves the best point."""
        for _ in range(ROUNDING_SWEEPS):
            before = self.value
            u = self.A @ self.w
            kept, missed = np.flatnonzero(u >= 1.0), np.flatnonzero(u < 1.0)
            tight = kept[u[kept] <= 1.0 + ON_MARGIN]
            near = missed[np.argsort(-u[missed], kind="stable")]
            neighbours = itertools.chain(
                (kept[kept != row] for row in tight),
                (np.append(kept, row) for row in near),
                (np.append(kept[kept != out], row) for row, out in itertools.product(near, tight)),
            )
            for neighbour in itertools.islice(neighbours, EXCHANGES):
                self.refit(neighbour)
            if not self.value < before:
                break


def _squared_hinge(A: Floats, s: Floats, w: Floats) -> Floats:
    """Minimise ‖w‖² + C Σ s (1 − Aw)₊² for a large C, by Newton's method from `w`."""
    identity = np.eye(A.shape[1])
    for _ in range(NEWTON_STEPS):
        inside = A @ w < 1.0
        weighted = PEELING_WEIGHT * s[inside, None] * A[inside]
        new = sl.solve(identity + A[inside].T @ weighted, weighted.sum(axis=0), assume_a="pos")
        if np.array_equal(A @ new < 1.0, inside):
            return np.asarray(new)
        w = new
    return w


def _lift(A: Floats, w: Floats) -> Floats:
    """Lift margins of 1 beyond the rounding of their products."""
    size = max(1.0, float(np.linalg.norm(w)))
    return w * (1.0 + 4.0 * accumulated_rounding(w.size) * float(row_norms(A).max()) * size)


def _least_norm(A: Floats) -> Floats | None:
    """Return the point of least norm with ``A w >= 1``, by least-distance programming; None if there is none.

    With the residual ρ of the non-negative least squares problem ``min |[A'; 1'] v - e|``, e the last unit vector, it is
    ``-ρ[:-1] / ρ[-1]`` (Lawson and Hanson, Solving Least Squares Problems, chapter 23).
    """
    if A.shape[0] == 0:
        return np.zeros(A.shape[1])
    stacked = np.vstack([A.T, np.ones(A.shape[0])])
    target = np.zeros(stacked.shape[0])
    target[-1] = 1.0
    try:
        v, _ = nnls(stacked, target)
    except RuntimeError:  # too many iterations
        return None
    residual = stacked @ v - target
    if not residual[-1] < -(EPS**0.75):
        return None
    w = -residual[:-1] / residual[-1]
    return w if float((A @ w).min()) > 0.5 else None


def round_relaxation(
    space: FeatureSpace, w: Floats, z: Floats, *, lam: float | None = None, k: float | None = None
) -> tuple[Floats, float]:
    r"""Round a solution of the relaxation to one of the 0-1 problem.

    Observations are kept in the order of their relaxed indicators, and in that of their margins; each prefix of an
    ordering is refitted by the least-norm program :math:`\min \|w\|^2` s.t. :math:`u_i \ge 1` on the observations kept.
    The direction of w itself is scaled best, and so are those of a squared-hinge SVM whose worst violators are dropped in
    turn. The winner's own margins then give a new ordering, and single observations on its margin are dropped, until
    nothing improves.

    Parameters
    ----------
    space : FeatureSpace
        With a penalised intercept or none.
    w : ndarray of shape (r,)
        In the columns of ``space.factor``.
    z : ndarray of shape (n,)
        Relaxed indicators of a margin below 1.
    lam : float, optional
        Minimise :math:`\|w\|^2 + \lambda\sum_i s_i 1[u_i<1]`.
    k : float, optional
        Minimise :math:`\|w\|^2` with :math:`\sum_i s_i 1[u_i<1] \le k`. Exactly one of the two.

    Returns
    -------
    w_best : ndarray of shape (r,)
        In the columns of ``space.factor``; margins that are meant to be 1 exceed it by more than rounding.
    value : float
        The objective at it, by the numbers ``y * (space.factor @ w_best)``; ``inf`` if no point with at most `k` was found.

    Raises
    ------
    DataError
        If not exactly one of `lam` and `k` is given.
    """
    if (lam is None) == (k is None):
        raise DataError("round_relaxation takes exactly one of lam and k; pass lam for the penalised form, else k")
    data = space.data
    L = space.factor.toarray() if sp.issparse(space.factor) else space.factor
    norms = row_norms(L)
    scale = float(np.sqrt(np.mean(norms**2))) or 1.0
    A = L * (data.y / scale)[:, None]
    start = np.zeros(L.shape[1])
    search = _Rounding(A, data.weight, lam, math.inf if k is None else k, scale, start, math.inf)
    search.offer(start)
    direction = np.asarray(w, dtype=np.float64) * scale
    search.stretch(direction)
    u = A @ direction
    for order in (np.lexsort((-u, z)), np.argsort(-u, kind="stable")):
        _refit_prefixes(search, order)
    search.peel()
    for _ in range(ROUNDING_SWEEPS):
        before = search.value
        search.stretch(search.w)
        _refit_prefixes(search, np.argsort(-(A @ search.w), kind="stable"))
        if not search.value < before:
            break
    search.exchange()
    return search.w / scale, search.value


def _refit_prefixes(search: _Rounding, order: NDArray[np.intp]) -> None:
    """Refit prefixes of an ordering: those that drop no more than k, or a grid of sizes around the best one."""
    n = order.size
    total = np.cumsum(search.s[order])
    if search.lam is None:
        smallest = int(np.searchsorted(total, (total[-1] - search.k) * (1.0 - EPS * n))) + 1
        search.refit(order[: min(max(smallest, 1), n)])
        return
    sizes = np.unique(np.linspace(1, n, min(n, KEPT_SIZES)).round().astype(int))
    best_size, best_value = 0, search.value
    for size in sizes:
        if not search.refit(order[:size]):
            break
        if search.value < best_value:
            best_size, best_value = int(size), search.value
    if best_size:
        # Between the neighbours of the best size on the grid.
        step = max(1, n // KEPT_SIZES)
        for size in range(max(1, best_size - step + 1), min(n, best_size + step)):
            if size not in sizes and not search.refit(order[:size]):
                break


@dataclass(frozen=True, eq=False)
class Relaxation:
    r"""What the relaxation says beside its model.

    Attributes
    ----------
    w : ndarray of shape (r,)
        Mean, in the columns of ``space.factor`` (for dense linear data with d + 1 ≤ n: the data and the constant).
    W : ndarray of shape (r, r)
        Second moment.
    spectrum : ndarray
        Eigenvalues of W in descending order, without the zeros that are there by construction. One of them says that the
        relaxation is tight: the random hyperplane is a fixed one.
    z : ndarray of shape (rows,)
        Relaxed indicators; NaN for observations of weight zero.
    gamma : ndarray of shape (rows,)
        Repaired multipliers, the parameters of the conic losses; empty without a dual point.
    lam : float
        Weight of the losses, in the cardinality form the multiplier of its row (NaN without a dual point).
    zero_one : tuple of float
        The interval that encloses the optimum of the 0-1 problem.
    """

    w: Floats
    W: Floats
    spectrum: Floats
    z: Floats
    gamma: Floats
    lam: float
    zero_one: tuple[float, float]


def relaxation(answer: Solution | ConicSDP) -> Relaxation:
    """Return γ, the relaxed z and the spectrum of W behind a solution, or behind the present values of a solved problem.

    Parameters
    ----------
    answer : Solution or ConicSDP
        A solution of :func:`conic_sdp`, by whatever solver, or the problem itself after a ``solve()``.

    Raises
    ------
    DataError
        If the solution is not one of the conic relaxation, or the problem has not been solved.
    """
    if isinstance(answer, ConicSDP):
        candidates = answer.recover()
        if not candidates.models:
            raise DataError("the problem has no values yet; call its solve() or svmcvx.solve first")
        statement = answer.formulation
        checked = check(statement, candidates.models, candidates.duals)
        model, dual, certificate = checked.model, statement.export_dual(checked.dual), checked.certificate
        lam = statement.lam
    else:
        model, dual, certificate = answer.model, answer.dual, answer.certificate
        lam = answer.hyperparameters.get("lam")
    moment = _moment(model)
    if moment is None:
        raise DataError(
            f"relaxation takes a solution of the conic relaxation, got one of {getattr(answer, 'formulation', answer)!r} "
            "without a second moment"
        )
    if lam is None:
        lam = float(np.asarray(dual.get("lam", math.nan)).item())
    interval = (certificate.residuals.get("zero_one_lower", -math.inf), certificate.residuals["zero_one_upper"])
    return Relaxation(
        w=moment.w,
        W=moment.W,
        spectrum=moment.spectrum,
        z=moment.z,
        gamma=dual.get("gamma", np.zeros(0)),
        lam=float(lam),
        zero_one=interval,
    )


class ConicSDP(FormulationProblem):
    """The semidefinite program; see :func:`conic_sdp`.

    Attributes
    ----------
    w, W : cvxpy.Expression
        Mean and second moment in the columns of ``formulation.space.factor``.
    lam, kappa : cvxpy.Parameter or None
    """

    lam: cp.Parameter | None
    kappa: cp.Parameter | None
    w: cp.Expression
    W: cp.Expression
    _space: FeatureSpace

    @property
    def formulation(self) -> ConicLoss:
        """The statement at the present value of λ or κ."""
        if self.lam is not None:
            return ConicLoss(space=self._space, lam=float(self.lam.value))
        return ConicLoss(space=self._space, kappa=float(self.kappa.value))  # type: ignore[union-attr]

    def recover(self) -> Candidates:
        """Models with their second moments, and the multipliers."""
        if not (_usable(self.w.value) and _usable(self.W.value)):
            return Candidates([], [])
        w, W = np.asarray(self.w.value, dtype=np.float64), np.asarray(self.W.value, dtype=np.float64)
        values, vectors = sl.eigh(0.5 * (W + W.T) - np.outer(w, w))
        kept = values > COVARIANCE_RANK * max(float(values[-1]), float(w @ w))
        V = vectors[:, kept] * np.sqrt(values[kept])
        labelled = self.constraint_dict
        gamma, alpha = labelled["moment"].dual_value, labelled["margin"].dual_value
        lam: Any = None if self.kappa is None else labelled["cardinality"].dual_value
        duals: list[Dual] = []
        if _usable(gamma) and _usable(alpha) and (self.kappa is None or _usable(lam)):
            point = {"gamma": np.asarray(gamma), "alpha": np.asarray(alpha)}
            duals.append(point if self.kappa is None else {**point, "lam": np.array(lam, dtype=np.float64)})
        return self.formulation.recover(w, V, duals, float(lam) if _usable(lam) else None)


def _usable(values: Any) -> bool:
    """Whether a solver has left finite numbers."""
    return values is not None and bool(np.isfinite(values).all())


def _space(
    X: Any, y: Any, kernel: KernelLike, intercept: bool, sample_weight: Any, indefinite: str
) -> tuple[BinaryData, FeatureSpace]:
    if not isinstance(intercept, (bool, np.bool_)):
        raise DataError(f"intercept must be True (a penalised constant feature) or False, got {intercept!r}")
    data = binary_data(X, y, sample_weight)
    return data, feature_space(data, kernel, intercept="penalised" if intercept else "none", indefinite=indefinite)


def _scaled(space: FeatureSpace) -> tuple[Floats, float]:
    """The factor as a dense matrix of root mean square row norm 1, and what it was divided by."""
    L = space.factor.toarray() if sp.issparse(space.factor) else space.factor
    scale = float(np.sqrt(np.mean(row_norms(L) ** 2))) or 1.0
    return L / scale, scale


def _square_over(size: cp.Variable, bound: cp.Variable, over: cp.Expression) -> cp.Constraint:
    """One rotated second-order cone an entry: ``size² <= bound * over``, both factors non-negative."""
    return cp.SOC(bound + over, cp.vstack([2 * size, bound - over]))


def conic_sdp(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    kappa: float | None = None,
    kernel: KernelLike = None,
    form: str = "reduced",
    intercept: bool = True,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ConicSDP:
    r"""Build the semidefinite relaxation of the SVM with 0-1 loss as a cvxpy problem.

    .. math::
        \min\; \mathrm{Tr}\,W + \lambda \sum_i s_i z_i \quad\text{s.t.}\quad
        t_i \le \langle L_i L_i', W\rangle - 2 y_i L_i w + 1,\; m_i \ge 1 - y_i L_i w,\; m \ge 0,\; m_i^2 \le z_i t_i,\;
        \begin{pmatrix}1 & w'\\ w & W\end{pmatrix} \succeq 0,

    where the rows of `L` are the data with a constant feature, or those of a factor of the Gram matrix; with `kappa` the
    second term is replaced by the row :math:`\sum s_i z_i \le \kappa\sum s_i`.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature.
    y : array-like of shape (n,)
        Two labels of any type.
    lam : float, optional
        Weight of the losses, positive; there is no ½ on the norm. The cvxpy parameter ``problem.lam``.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5], in place of `lam`; exactly one of the two.
        The cvxpy parameter ``problem.kappa``. 0 is the hard margin and needs separable classes.
    kernel : Kernel, str, callable or None
        None for the linear formulation.
    form : "reduced" or "paper"
        One second-order cone an observation, or the two of Theorem 2 with z ≤ 1; the optimum is the same.
    intercept : bool
        Append a constant feature (with a kernel: add 1 to it), whose coefficient is penalised with the rest.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.

    Returns
    -------
    ConicSDP
        A ``cvxpy.Problem``. Variables ``w_scaled`` and ``W_scaled`` (of the data divided by their root mean square row
        norm; ``problem.w`` and ``problem.W`` are expressions in the data's own scale), ``z``, ``t``, ``m`` and for the
        paper's form ``n``, ``a``, ``b``; parameter ``lam`` or ``kappa``; constraints labelled ``moment`` (its multipliers
        are γ), ``margin`` (α), ``slack``, ``semidefinite``, ``cone``, with `kappa` ``cardinality`` (λ), and for the
        paper's form ``box_low``, ``box_high``, ``beyond``, ``excess``, ``split`` and ``cone_beyond``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    With a kernel the semidefinite block has the order n + 1. An interior-point solver then needs seconds for n = 60 and
    minutes for n = 100, where SCS (``solver="scs"`` of :func:`svmcvx.solve`) is sooner: the recovery polishes its point.

    Source: conic paper, Theorem 2 (eq. 21), Appendix A (kernels) and Appendix C (cardinality).
    """
    started = time.perf_counter()
    check_choice(form, "form", FORMS)
    if (lam is None) == (kappa is None):
        given = "neither" if lam is None else "both"
        raise DataError(f"conic_sdp takes exactly one of lam and kappa, got {given}; pass lam=1.0, say, or kappa=0.1")
    if lam is not None:
        lam = check_number(lam, "lam", low=0, open_low=True)
    if kappa is not None:
        kappa = check_number(kappa, "kappa", low=0, high=KAPPA_HIGHEST)
    data, space = _space(X, y, kernel, intercept, sample_weight, indefinite)
    _require_sdp_memory(space.factor.shape)
    L, scale = _scaled(space)
    if kappa == 0 and _least_norm(L * data.y[:, None]) is None:
        raise DataError(
            "kappa = 0 allows no margin below 1, and the two classes are not separable in this feature space; "
            "pass a positive kappa, or a richer kernel"
        )
    n, r = L.shape
    s = data.weight
    w = cp.Variable(r, name="w_scaled")
    W = cp.Variable((r, r), symmetric=True, name="W_scaled")
    z, t, m = (cp.Variable(n, name=name) for name in ("z", "t", "m"))
    u = cp.multiply(data.y, L @ w)
    column = cp.reshape(w, (r, 1), order="F")
    constraints = [
        (t <= cp.sum(cp.multiply(L @ W, L), axis=1) - 2 * u + 1).set_label("moment"),
        (m >= 1 - u).set_label("margin"),
        (m >= 0).set_label("slack"),
        (cp.bmat([[np.ones((1, 1)), column.T], [column, W]]) >> 0).set_label("semidefinite"),
    ]
    if form == "reduced":
        constraints.append(_square_over(m, t, z).set_label("cone"))
    else:
        beyond, a, b = (cp.Variable(n, name=name) for name in ("n", "a", "b"))
        constraints += [
            (z >= 0).set_label("box_low"),
            (z <= 1).set_label("box_high"),
            (beyond >= u - 1).set_label("beyond"),
            (beyond >= 0).set_label("excess"),
            (a + b <= t).set_label("split"),
            _square_over(m, a, z).set_label("cone"),
            _square_over(beyond, b, 1 - z).set_label("cone_beyond"),
        ]
    norm = cp.trace(W) / scale**2
    lam_parameter = kappa_parameter = None
    if lam is not None:
        lam_parameter = cp.Parameter(pos=True, name="lam", value=lam)
        objective_expression = norm + lam_parameter * (s @ z)
    else:
        kappa_parameter = cp.Parameter(nonneg=True, name="kappa", value=kappa)
        objective_expression = norm
        constraints.append((s @ z <= kappa_parameter * float(s.sum())).set_label("cardinality"))
    problem = ConicSDP(cp.Minimize(objective_expression), constraints)
    problem.lam, problem.kappa, problem._space = lam_parameter, kappa_parameter, space
    problem.w, problem.W = w / scale, W / scale**2
    problem.build_seconds = time.perf_counter() - started
    return problem


def _require_sdp_memory(shape: tuple[int, int]) -> None:
    n, r = shape
    triangle = 0.5 * (r + 1) * (r + 2)
    memory.require(
        SDP_BYTES * (0.5 * triangle**2 + n * float(r) ** 2),
        f"the semidefinite program with a block of order {r + 1} and {n} observations",
        "select features, use fewer observations, or a first-order solver",
    )


@dataclass(frozen=True, eq=False)
class ConicFixedGamma(_ConicDual):
    r"""The statement min :math:`q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i)` for given γ, bound to data.

    Dual points hold ``"alpha"`` and optionally ``"gamma"``: since L increases with γ, D at any smaller γ is a bound too.

    Parameters
    ----------
    space : FeatureSpace
        With a penalised intercept or none.
    gamma : ndarray of shape (n,)
    lam : float
        Height of the losses, positive.
    """

    name: ClassVar[str] = "conic_fixed_gamma"
    gamma: Floats
    lam: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """λ and the kernel; γ is an array and stays out."""
        kernel = self.space.kernel
        return {"lam": self.lam, "kernel": "none" if kernel is None else str(kernel)}

    def _gamma(self, dual: Dual) -> Floats:
        return super()._gamma(dual) if "gamma" in dual else self.gamma

    def _lam(self, dual: Dual) -> float:
        return self.lam

    def _ceiling(self) -> Floats | float:
        return self.gamma

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """Q at a model, from its scores on the raw data."""
        f, f_rounding = model.scores(self.space.data.X)
        norm, norm_rounding = self.space.squared_norm(model)
        u = self.y * f
        value = norm + float(np.sum(conic_loss(u, self.gamma, self.lam)))
        steepest = 2.0 * np.sqrt(self.lam * self.gamma)
        return Evaluation(value, norm_rounding + float(steepest @ f_rounding) + accumulated_rounding(u.size) * value)

    def export_dual(self, dual: Dual) -> Dual:
        """The multipliers; no observation has weight zero here."""
        return dual


class ConicFixedGammaProblem(FormulationProblem):
    """The second-order cone program; see :func:`conic_fixed_gamma`.

    Attributes
    ----------
    w : cvxpy.Expression
        In the columns of ``formulation.space.factor``.
    lam : cvxpy.Parameter
    """

    lam: cp.Parameter
    w: cp.Expression
    _fixed: ConicFixedGamma

    @property
    def formulation(self) -> ConicFixedGamma:
        """The statement at the present value of λ."""
        return ConicFixedGamma(space=self._fixed.space, gamma=self._fixed.gamma, lam=float(self.lam.value))

    def recover(self) -> Candidates:
        """The models of w and of a minimiser of q; α from that minimiser, and from the multipliers."""
        if not _usable(self.w.value):
            return Candidates([], [])
        statement = self.formulation
        w = np.asarray(self.w.value, dtype=np.float64)
        duals = [statement.repair({"gamma": statement.gamma})]
        margin, beyond = (self.constraint_dict[label].dual_value for label in ("margin", "beyond"))
        if _usable(margin) and _usable(beyond):
            duals.append({"gamma": statement.gamma, "alpha": np.asarray(margin) - np.asarray(beyond)})
        models = []
        for point in (w, statement.minimiser(duals[0])):
            u = statement.y * np.asarray(statement.factor @ point)
            models.append(statement.space.model_from_factor(point, support=u <= 1.0 + ON_MARGIN))
        return Candidates(models, duals)


def conic_fixed_gamma(
    X: Any,
    y: Any,
    *,
    gamma: Any,
    lam: float,
    kernel: KernelLike = None,
    intercept: bool = True,
    indefinite: str = "error",
) -> ConicFixedGammaProblem:
    r"""Build the SVM with the conic loss for given γ as a second-order cone program.

    The loss of :func:`svmcvx.losses.conic_loss` is not convex, but its sum with :math:`\|w\|^2` is if
    :math:`\sum_i\gamma_i x_i x_i' \preceq I`:

    .. math::
        \min\; w'Qw + 2\sum_i \gamma_i u_i - \sum_i \gamma_i + \sum_i (\gamma_i a_i + \lambda z_i + \gamma_i n_i^2)
        \quad\text{s.t.}\quad m_i^2 \le a_i z_i,\; 0 \le z_i \le 1,\; m_i \ge 1 - u_i,\; n_i \ge u_i - 1,\; m, n \ge 0

    with :math:`Q = I - \sum_i \gamma_i x_i x_i'`: minimised over :math:`z_i`, the last terms are
    :math:`L(u_i;\gamma_i) + \gamma_i(1-u_i)^2`. Observations with :math:`\gamma_i = 0` have no loss.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature.
    y : array-like of shape (n,)
        Two labels of any type.
    gamma : array-like of shape (n,) or float
        Non-negative; those of a solved relaxation are in :func:`relaxation`.
    lam : float
        Height of the losses, positive. The cvxpy parameter ``problem.lam``.
    kernel, intercept, indefinite
        As for :func:`conic_sdp`.

    Returns
    -------
    ConicFixedGammaProblem
        A ``cvxpy.Problem``. Variables ``w_scaled`` (of the data divided by their root mean square row norm;
        ``problem.w`` is in the data's own scale), ``z``, ``m``, ``n``, ``a``; parameter ``lam``; constraints labelled
        ``margin``, ``slack``, ``beyond``, ``excess``, ``box_high`` and ``cone``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used, among others if γ makes the problem non-convex.

    Notes
    -----
    Source: conic paper, eq. (14) without its stray −1, z relaxed to [0, 1], and :math:`n_i^2/(1-z_i)` replaced by
    :math:`n_i^2`: where :math:`n_i > 0` the best :math:`z_i` is 0.
    """
    started = time.perf_counter()
    lam = check_number(lam, "lam", low=0, open_low=True)
    data, space = _space(X, y, kernel, intercept, None, indefinite)
    given = _check_gamma(gamma, data.n)
    statement = ConicFixedGamma(space=space, gamma=given, lam=lam)
    values, vectors, error = statement._spectrum(given)
    if values[-1] > 1.0 + error:
        raise DataError(
            f"gamma makes the problem non-convex: the largest eigenvalue of the sum of gamma_i x_i x_i' is {values[-1]:.9g} "
            "and must be at most 1; divide gamma by it"
        )
    L, scale = _scaled(space)
    n, r = L.shape
    w = cp.Variable(r, name="w_scaled")
    z, a, m, beyond = (cp.Variable(n, name=name) for name in ("z", "a", "m", "n"))
    u = cp.multiply(data.y, L @ w)
    root = (vectors * np.sqrt(np.maximum(1.0 - values, 0.0))).T
    lam_parameter = cp.Parameter(pos=True, name="lam", value=lam)
    quadratic = cp.sum_squares(root @ w) / scale**2 + 2 * (given @ u) - float(given.sum())
    loss = given @ a + lam_parameter * cp.sum(z) + cp.sum_squares(cp.multiply(np.sqrt(given), beyond))
    constraints = [
        (m >= 1 - u).set_label("margin"),
        (m >= 0).set_label("slack"),
        (beyond >= u - 1).set_label("beyond"),
        (beyond >= 0).set_label("excess"),
        (z <= 1).set_label("box_high"),
        _square_over(m, a, z).set_label("cone"),
    ]
    problem = ConicFixedGammaProblem(cp.Minimize(quadratic + loss), constraints)
    problem.lam, problem.w, problem._fixed = lam_parameter, w / scale, statement
    problem.build_seconds = time.perf_counter() - started
    return problem


def _check_gamma(gamma: Any, n: int) -> Floats:
    values = np.asarray(gamma)
    if values.dtype.kind not in "biuf":
        raise DataError(f"gamma must be numeric, got dtype {values.dtype}")
    values = values.astype(np.float64)
    if values.ndim == 0:
        values = np.full(n, float(values))
    if values.shape != (n,):
        raise DataError(f"gamma must hold one number an observation: expected shape ({n},), got {values.shape}")
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError(f"gamma must be finite and non-negative; the smallest value is {values.min()}")
    return values
