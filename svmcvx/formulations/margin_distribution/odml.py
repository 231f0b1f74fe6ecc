r"""ODML: the hinge loss with the mean and the variance of the margins, soft and hard.

**Primal**, :math:`\lambda_1, \lambda_2 \ge 0`, C > 0, with shares :math:`c_i = s_i / m` of the weights :math:`s_i` (1 by
default) and their sum :math:`m = \sum_i s_i`, so that an observation of weight k counts as k copies of it:

.. math::
    \min_w\; P(w) = \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u
      + C \sum_i c_i (1 - u_i)_+, \qquad
    u_i = y_i \langle w, \varphi(x_i)\rangle,\quad \bar u = \sum_i c_i u_i.

**Dual** of the paper, with :math:`q = \alpha + \lambda_2 c`, :math:`A = 2\lambda_1(\mathrm{diag}(c) - (yc)(yc)')` and
:math:`H = YG(I + AG)^{-1}Y`, where G is the Gram matrix (its value is stated here for maximisation):

.. math:: \max_{0 \le \alpha \le C c}\; \sum_i \alpha_i - \tfrac12 q'Hq.

A is singular along the labels and is never inverted. With a factor :math:`G = LL'`, :math:`Z = YL`, and

.. math:: R = I + L'AL, \qquad H = Z R^{-1} Z', \qquad w = R^{-1}Z'q

(push-through), only the r × r matrix R is factored; its eigenvalues are at least 1.

**What is certified** needs no inverse at all. The variance has its own multipliers τ, and for every α in the box and
every τ of sum 0, with :math:`v_i = y_i(\alpha_i + \lambda_2 c_i - \tau_i)`,

.. math:: G(\alpha, \tau) = \sum_i \alpha_i - \tfrac12 v'Kv - \frac{1}{4\lambda_1} \sum_i \frac{\tau_i^2}{c_i}

is a lower bound (τ = 0 for :math:`\lambda_1 = 0`). The best τ of a given α is :math:`\tau_i = 2\lambda_1 c_i(u_i - \bar u)` at
:math:`w = R^{-1}Z'q`; it makes :math:`G(\alpha, \tau)` the dual of the paper and :math:`w = \sum_i v_i \varphi(x_i)`.

**Hard margin**: the same without the hinge loss subject to :math:`u_i \ge 1`; its dual has :math:`\alpha \ge 0` only.

============== ================================================ =========
symbol         meaning                                          shape
============== ================================================ =========
X, y           data, labels ±1                                  (n, d), (n,)
K              Gram matrix (G above)                            (n, n)
L              factor of it, or the data                        (n, r)
c              shares of the weights, 1/n without weights       (n,)
alpha          multipliers of the margins                       (n,)
tau            multipliers of the variance                      (n,)
w              normal in the columns of L                       (r,)
u              margins                                          (n,)
============== ================================================ =========

**Scaling.** At :math:`\lambda_1 = \lambda_2 = 0` this is the soft-margin SVM without intercept whose C is C/m here, scikit-learn's
``LinearSVC(loss="hinge", fit_intercept=False, C=C / m)``. The objective can be negative.

**Source.** Optimal Margin Distribution Machine, eqs. (3)-(5), (8)-(14). Its Lemma 1 writes :math:`A^{-1}`, which does not
exist; the identity (13) that it serves holds.
"""

from __future__ import annotations

import math
import time
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual, Evaluation, accumulated_rounding
from svmcvx.data import Features, check_number
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import CLEARLY_ZERO, FormulationProblem, RecoveredPoints, require_conic_memory, usable
from svmcvx.formulations.margin_distribution.odm import MarginDistribution, margin_space, solve_positive
from svmcvx.kernels import KernelLike
from svmcvx.losses import slack
from svmcvx.model import BinaryModel
from svmcvx.system import memory

__all__ = [
    "ODML",
    "Curvature",
    "ODMLDual",
    "ODMLHardMargin",
    "ODMLHardMarginProblem",
    "ODMLPrimal",
    "check_penalties",
    "dual_objective",
    "objective",
    "odml_dual",
    "odml_hard_margin",
    "odml_primal",
    "variance_multipliers",
]

Floats: TypeAlias = NDArray[np.float64]

ROUNDS = 40
LARGEST_SYSTEM = 2500
RESIDUAL = 1e-11
DAMPING = 1e-13
TINY = float(np.finfo(np.float64).tiny)
# Observations that may change to free in one round: more at once tends to overshoot and cycle.
RELEASED = 5
# R of linear machines in more dimensions, and of sparse data with more entries if they were dense, is not factored to repair
# a dual point: products with the data, to this relative residual, do as well.
LARGEST_FACTORED = 2500
LARGEST_WHITENED = 1e8
SOLVED = 1e-10
PRODUCTS = 1000


def objective(
    squared_norm: float, u: Floats, *, lam1: float, lam2: float, C: float, share: Floats | None = None
) -> float:
    r"""Return :math:`P = \tfrac12\|w\|^2 + \lambda_1 \mathrm{var}(u) - \lambda_2 \bar u + C\sum_i c_i(1-u_i)_+`; :math:`c_i = 1/n` by default."""
    c = np.full(u.size, 1.0 / u.size) if share is None else share
    mean = float(c @ u)
    return 0.5 * squared_norm + lam1 * float(c @ (u - mean) ** 2) - lam2 * mean + C * float(c @ slack(u))


def dual_objective(
    alpha: Floats, tau: Floats, squared_norm: float, *, lam1: float, share: Floats | None = None
) -> float:
    r"""Return :math:`G(\alpha, \tau)`, with :math:`v'Kv` passed as `squared_norm`; τ is not looked at for :math:`\lambda_1 = 0`."""
    c = np.full(alpha.size, 1.0 / alpha.size) if share is None else share
    conjugate = float(np.sum(tau / c * (tau / (4.0 * lam1)))) if lam1 > 0 else 0.0
    return float(alpha.sum()) - 0.5 * squared_norm - conjugate


def variance_multipliers(u: Floats, lam1: float, share: Floats) -> Floats:
    r"""Return :math:`\tau_i = 2\lambda_1 c_i(u_i - \bar u)`, of sum 0 to rounding: the derivative of the variance at margins u."""
    spread = 2.0 * lam1 * share * (u - float(share @ u))
    return np.asarray(spread - share * float(spread.sum()))


@dataclass(frozen=True, eq=False)
class Curvature:
    r"""The matrix :math:`R = I + L'AL` of the quadratic part of P in the columns of the factor, factored once.

    Parameters
    ----------
    space : FeatureSpace
    share : ndarray of shape (n,)
        Shares of the weights.
    lam1 : float
        Weight of the margin variance.
    """

    space: FeatureSpace
    share: Floats
    lam1: float

    @cached_property
    def triangle(self) -> Floats:
        """The lower triangular T with ``T T' = R``."""
        L = self.space.factor
        n, r = L.shape
        if sp.issparse(L):
            self._require(3.0 * r * r)
            mean = np.asarray(L.T @ (self.space.data.y * self.share))
            R = 2.0 * self.lam1 * ((L.T @ sp.diags_array(self.share) @ L).toarray() - np.outer(mean, mean))
            R[np.diag_indices(r)] += 1.0
            try:
                return np.asarray(sl.cholesky(R, lower=True, overwrite_a=True, check_finite=False))
            except sl.LinAlgError:  # a mean so large that the difference has lost its digits
                L = L.toarray()
        # R is the Gram matrix of the identity above the centred margins: it need not be formed.
        self._require(3.0 * (n + r) * r)
        margins = self.space.data.y[:, None] * L
        centred = np.sqrt(2.0 * self.lam1 * self.share)[:, None] * (margins - self.share @ margins)
        (upper,) = sl.qr(np.vstack([np.eye(r), centred]), mode="r", overwrite_a=True, check_finite=False)
        return np.ascontiguousarray(upper[:r].T)

    def _require(self, entries: float) -> None:
        memory.require(
            8.0 * entries,
            f"the matrix of the margin variance in {self.space.factor.shape[1]} dimensions",
            "use fewer observations or features, or a first-order solver",
        )

    def solve(self, g: Floats) -> Floats:
        """Return ``w`` with ``R w = g``."""
        return np.asarray(sl.cho_solve((self.triangle, True), g, check_finite=False))

    @property
    def by_products(self) -> bool:
        """Whether R is large, and has not been factored: products with the data then take its place."""
        space = self.space
        if not space.is_linear or "triangle" in self.__dict__:
            return False
        n, d = space.X.shape
        return bool(min(n, d) > LARGEST_FACTORED or (sp.issparse(space.X) and (d > n or n * d > LARGEST_WHITENED)))

    def approach(self, X: Features, v: Floats) -> Floats:
        """Return ``w`` in the columns of the data X with ``R w = X'v``, by conjugate gradients, to about `SOLVED`."""
        y, c = self.space.data.y, self.share

        def product(w: Floats) -> Floats:
            u = y * np.asarray(X @ w)
            return np.asarray(w + X.T @ (y * variance_multipliers(u, self.lam1, c)))

        squares = X.multiply(X) if sp.issparse(X) else X**2
        mean = np.asarray(X.T @ (y * c))
        diagonal = 1.0 + 2.0 * self.lam1 * np.maximum(np.asarray(squares.T @ c) - mean**2, 0.0)
        residual = np.asarray(X.T @ v)
        w: Floats = np.zeros(residual.size)
        better = residual / diagonal
        direction, size = better, float(residual @ better)
        target = SOLVED**2 * size
        for _ in range(PRODUCTS):
            if not size > target:
                break
            image = product(direction)
            length = size / float(direction @ image)
            w += length * direction
            residual = residual - length * image
            better = residual / diagonal
            grown = float(residual @ better)
            direction, size = better + (grown / size) * direction, grown
        return w

    def whitened(self, rows: Any = slice(None)) -> Floats:
        """Return the rows of N with ``N N' = H``, that is ``N = Z T^{-T}``."""
        part = self.space.factor[rows]
        signed = self.space.data.y[rows, None] * (part.toarray() if sp.issparse(part) else part)
        return np.asarray(sl.solve_triangular(self.triangle, signed.T, lower=True, check_finite=False)).T


@dataclass(frozen=True, eq=False)
class _ODML(MarginDistribution):
    """What the soft and the hard margin share."""

    lam1: float
    lam2: float
    reuse: InitVar[Curvature | None] = field(default=None, kw_only=True)
    curvature: Curvature = field(init=False)

    def __post_init__(self, reuse: Curvature | None) -> None:
        kept = reuse if reuse is not None and reuse.lam1 == self.lam1 else Curvature(self.space, self.share, self.lam1)
        object.__setattr__(self, "curvature", kept)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """lam1, lam2, the kernel and the intercept."""
        return {"lam1": self.lam1, "lam2": self.lam2, **super().hyperparameters}

    def _upper_bound(self) -> Floats:
        return np.full(self.y.size, np.inf)

    def _spread(self, values: Floats) -> Floats:
        """The best τ at margins `values`."""
        return variance_multipliers(values, self.lam1, self.share)

    def normal(self, alpha: Floats) -> Floats:
        """Return ``w = R^{-1} Z'(α + λ₂c)``, the minimiser of the Lagrangian, in the columns of the factor."""
        return self.curvature.solve(np.asarray(self.space.factor.T @ (self.y * (alpha + self.lam2 * self.share))))

    def margins(self, alpha: Floats) -> Floats:
        """Return the margins of :meth:`normal`; where R is too large to be factored, to about `SOLVED`."""
        if self.curvature.by_products:
            w = self.curvature.approach(self.space.X, self.y * (alpha + self.lam2 * self.share))
            return np.asarray(self.y * (self.space.X @ w))
        return np.asarray(self.y * (self.space.factor @ self.normal(alpha)))

    def expansion(self, alpha: Floats, tau: Floats) -> Floats:
        r"""Return the coefficients v of :math:`w = \sum_i v_i \varphi(x_i)`."""
        return self.y * (alpha + self.lam2 * self.share - tau)

    def repair(self, dual: Dual) -> Dual:
        """Clip α to its box and take the best τ for it, which is exactly centred.

        Any τ of sum 0 is feasible: margins that are not quite those of :meth:`normal` cost the bound a little, not its truth. A
        space that keeps no Gram matrix has no R, and the point's own τ is centred instead.
        """
        alpha = np.clip(self.entry(dual, "alpha"), 0.0, self._upper_bound())
        if self.space.blockwise:
            tau = self.entry(dual, "tau") if self.lam1 > 0 else np.zeros(alpha.size)
            return {"alpha": alpha, "tau": tau - self.share * float(tau.sum())}
        return {"alpha": alpha, "tau": self._spread(self.margins(alpha))}

    def _point(self, dual: Dual) -> tuple[Floats, Floats]:
        alpha = self.entry(dual, "alpha")
        return alpha, self.entry(dual, "tau") if "tau" in dual else self._spread(self.margins(alpha))

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −α, α above its upper_bound, and the sum of τ beyond rounding (τ itself for λ₁ = 0)."""
        alpha = self.entry(dual, "alpha")
        tau = self.entry(dual, "tau") if "tau" in dual else np.zeros(alpha.size)
        if not (np.isfinite(alpha).all() and np.isfinite(tau).all()):
            return math.inf
        size = float(np.abs(tau).sum())
        uncentred = abs(math.fsum(tau)) - accumulated_rounding(tau.size) * size if self.lam1 > 0 else size
        return max(0.0, float(-alpha.min()), float((alpha - self._upper_bound()).max()), uncentred)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """G at a feasible point; without an entry ``"tau"`` at the best τ."""
        alpha, tau = self._point(dual)
        point = self.space.product(self.expansion(alpha, tau))
        with np.errstate(over="ignore", invalid="ignore"):
            value = dual_objective(alpha, tau, point.squared_norm, lam1=self.lam1, share=self.share)
            total, size = float(alpha.sum()), np.abs(point.scores)
            # A sum of τ that is off by δ costs |δ ū|, and ū is no larger than the margins around it.
            off = abs(math.fsum(tau)) * (1.0 + float(size.max()))
            # v is a difference: its rounding is that of what it was computed from.
            off += 2 * EPS * float((alpha + self.lam2 * self.share + np.abs(tau)) @ size)
            terms = 2 * total + abs(total - value)
            rounding = accumulated_rounding(alpha.size) * terms + 0.5 * point.squared_norm_rounding + off
        return Evaluation(value, rounding)

    def _value(self, model: BinaryModel, C: float) -> tuple[Evaluation, Floats, Floats]:
        """P with the hinge weighted by C; margins and their rounding."""
        data, c = self.space.data, self.share
        f, f_rounding = self.space.scores(model)
        norm, norm_rounding = self.space.squared_norm(model)
        u = self.y * f
        with np.errstate(over="ignore", invalid="ignore"):
            value = objective(norm, u, lam1=self.lam1, lam2=self.lam2, C=C, share=c)
            off = f_rounding + EPS * (1.0 + np.abs(u))
            slope = np.abs(self._spread(u)) + c * (self.lam2 + C * (u < 1.0 + off))
            terms = abs(value) + 2.0 * self.lam2 * abs(float(c @ u))
            rounding = (
                0.5 * norm_rounding
                + float(slope @ off)
                + self.lam1 * float(c @ off**2)
                + accumulated_rounding(data.n) * terms
            )
        return Evaluation(value, rounding), u, f_rounding

    def _polish(self, alpha: Floats) -> Floats | None:
        """Solve u = 1 on the observations that are neither at zero nor at their upper_bound; None if that fails.

        An active-set method started from a solver's point: a multiplier that would leave its box stays at the edge, and
        those at an edge whose margin is on the wrong side of 1 are released. The systems may be singular, so each
        step is damped a little, and repeated until it no longer helps.
        """
        upper_bound = self._upper_bound()
        typical = np.minimum(upper_bound, max(float(alpha.max()), TINY))
        u = self.margins(alpha)
        free = alpha >= CLEARLY_ZERO * (u - 1.0) * typical
        above = free & np.isfinite(upper_bound) & (1.0 - alpha / upper_bound < CLEARLY_ZERO * (1.0 - u))
        alpha = np.where(above, upper_bound, np.where(free, alpha, 0.0))
        free &= ~above
        last = math.inf
        for _ in range(ROUNDS):
            rows = np.flatnonzero(free)
            if rows.size > LARGEST_SYSTEM:
                return None
            u = self.margins(alpha)
            if rows.size:
                part = self.curvature.whitened(rows)
                system = part @ part.T
                system[np.diag_indices(rows.size)] += DAMPING * float(system.diagonal().max()) + TINY
                try:
                    moved = alpha[rows] + solve_positive(system, 1.0 - u[rows])
                except (ValueError, sl.LinAlgError):
                    return None
                outside = (moved < 0) | (moved > upper_bound[rows])
                alpha[rows] = np.clip(moved, 0.0, upper_bound[rows])
                free[rows[outside]] = False
                if outside.any():
                    continue
                u = self.margins(alpha)
            tolerance = RESIDUAL * max(1.0, float(np.abs(u).max()))
            wrong = np.where(alpha <= 0, 1.0 - u, u - 1.0)
            wrong[free] = 0.0
            released = np.argsort(wrong)[-RELEASED:]
            released = released[wrong[released] > tolerance]
            residual = float(np.abs(u[free] - 1.0).max(initial=0.0))
            if not released.size and (residual <= tolerance or residual > 0.5 * last):
                return alpha
            free[released] = True
            last = math.inf if released.size else residual
        return alpha

    def _points(self, alpha: Floats) -> list[Floats]:
        """The multipliers polished, if that succeeds, as they are, and zero, which gives some bound on any data."""
        kept = np.clip(alpha, 0.0, self._upper_bound())
        polished = self._polish(kept)
        return [*([] if polished is None else [polished]), kept, np.zeros(kept.size)]

    def _expansion_and_normal(self, alpha: Floats) -> tuple[Floats, Floats]:
        """The minimiser of the Lagrangian as coefficients v of the data, and as w in the columns of the factor."""
        w = self.normal(alpha)
        return self.expansion(alpha, self._spread(self.y * np.asarray(self.space.factor @ w))), w


@dataclass(frozen=True, eq=False)
class ODML(_ODML):
    """The statement of the soft-margin ODML bound to data.

    Parameters
    ----------
    space : FeatureSpace
        With its intercept "none" or "penalised".
    lam1, lam2 : float
        Weights of the variance and the mean of the margins, not negative.
    C : float
        Weight of the mean hinge loss, positive.
    reuse : Curvature, optional
        One of this space whose factor is used again if it has the same ``lam1``.
    """

    name: ClassVar[str] = "odml"
    C: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """lam1, lam2, C, the kernel and the intercept."""
        return {"lam1": self.lam1, "lam2": self.lam2, "C": self.C, **super().hyperparameters}

    def _upper_bound(self) -> Floats:
        return self.C * self.share

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model, from its scores on the raw data."""
        return self._value(model, self.C)[0]

    def recover(self, alpha: Floats, w: Floats | None = None) -> RecoveredPoints:
        """Return the models of (approximate) multipliers, polished and as they are, and of `w`, and the multipliers.

        Parameters
        ----------
        alpha : ndarray of shape (n,)
        w : ndarray of shape (r,), optional
            The normal in the columns of the factor, where a solver has found it.
        """
        points = self._points(alpha)
        models: list[BinaryModel] = []
        for point in points:
            v, normal = self._expansion_and_normal(point)
            models.append(self.space.model(v))
            if 2 * normal.size <= v.size:
                models.append(self.space.model_from_factor(normal, support=v != 0))
        if w is not None:
            models.append(self.space.model_from_factor(w))
        return RecoveredPoints(models, [{"alpha": point} for point in points])


@dataclass(frozen=True, eq=False)
class ODMLHardMargin(_ODML):
    r"""The statement of the hard-margin ODML bound to data: :math:`u_i \ge 1` in place of the hinge loss.

    Parameters
    ----------
    space, lam1, lam2, reuse
        As for :class:`ODML`.
    """

    name: ClassVar[str] = "odml_hard_margin"

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P, or ``inf`` if an observation has a margin below 1 by more than rounding."""
        (value, rounding), u, u_rounding = self._value(model, 0.0)
        if not (u >= 1.0 - 2 * u_rounding).all():
            return Evaluation(math.inf, 0.0)
        # Scaling the model until every margin is 1 would change P by no more than this.
        short = float(np.max(slack(u)))
        return Evaluation(value, rounding + 3 * short * (abs(value) + 2 * self.lam2 * abs(float(self.share @ u))))

    def explain(self, status: str) -> str:
        """An infeasible primal means that no hyperplane through the origin separates the classes."""
        if status in ("infeasible", "unbounded"):
            origin = "" if self.space.intercept == "penalised" else " by a hyperplane through the origin"
            return (
                f"the two classes are not separable in this feature space{origin}, so no hard-margin ODML exists; "
                f"use the soft margin (odml_primal or odml_dual)"
                f"{', intercept=True' if origin else ''} or a richer kernel"
            )
        return super().explain(status)

    def recover(self, alpha: Floats, w: Floats | None = None) -> RecoveredPoints:
        """Return models with every margin at least 1 (none if the classes are not separated) and the multipliers.

        Parameters
        ----------
        alpha : ndarray of shape (n,)
        w : ndarray of shape (r,), optional
            The normal in the columns of the factor, where a solver has found it.
        """
        points = self._points(alpha)
        models: list[BinaryModel] = []
        for point in points:
            v = self._expansion_and_normal(point)[0]
            product = self.space.product(v)
            smallest = float((self.y * product.scores - product.scores_rounding).min())
            if smallest > 0:
                models.append(self.space.model(v / min(1.0, smallest)))
        if w is not None:
            smallest = float((self.y * np.asarray(self.space.factor @ w)).min())
            if smallest > 0:
                models.append(self.space.model_from_factor(w / min(1.0, smallest)))
        return RecoveredPoints(models, [{"alpha": point} for point in points])


class ODMLPrimal(FormulationProblem):
    """The primal problem; see :func:`odml_primal`."""

    lam1: cp.Parameter
    lam2: cp.Parameter
    C: cp.Parameter
    _fixed: ODML

    @property
    def formulation(self) -> ODML:
        """The ODML at the present values of lam1, lam2 and C."""
        lam1, lam2, C = (float(parameter.value) for parameter in (self.lam1, self.lam2, self.C))
        return ODML(self._fixed.space, lam1, lam2, C, reuse=self._fixed.curvature)

    def recover(self) -> RecoveredPoints:
        """The models of the multipliers, and that of w itself."""
        return _recover_primal(self, self.formulation)


class ODMLDual(FormulationProblem):
    """The dual problem; see :func:`odml_dual`."""

    lam2: cp.Parameter
    C: cp.Parameter
    alpha: cp.Expression
    _fixed: ODML

    @property
    def param_dict(self) -> dict[str, cp.Parameter]:
        """The parameters by their names, with those that enter only through others."""
        return {**super().param_dict, "lam2": self.lam2, "C": self.C}

    @property
    def formulation(self) -> ODML:
        """The ODML at the present values of lam2 and C."""
        lam1, lam2, C = self._fixed.lam1, float(self.lam2.value), float(self.C.value)
        return ODML(self._fixed.space, lam1, lam2, C, reuse=self._fixed.curvature)

    def recover(self) -> RecoveredPoints:
        """The models of the multipliers."""
        alpha = self.alpha.value
        return (
            self.formulation.recover(np.asarray(alpha, dtype=np.float64)) if usable(alpha) else RecoveredPoints([], [])
        )


class ODMLHardMarginProblem(FormulationProblem):
    """The primal of the hard-margin ODML; see :func:`odml_hard_margin`."""

    lam1: cp.Parameter
    lam2: cp.Parameter
    _fixed: ODMLHardMargin

    @property
    def formulation(self) -> ODMLHardMargin:
        """The hard-margin ODML at the present values of lam1 and lam2."""
        lam1, lam2 = float(self.lam1.value), float(self.lam2.value)
        return ODMLHardMargin(self._fixed.space, lam1, lam2, reuse=self._fixed.curvature)

    def recover(self) -> RecoveredPoints:
        """The models of the multipliers and of w itself, if they separate the classes."""
        return _recover_primal(self, self.formulation)


def _recover_primal(problem: FormulationProblem, statement: ODML | ODMLHardMargin) -> RecoveredPoints:
    w, alpha = problem.var_dict["w"].value, problem.constraint_dict["margin"].dual_value
    if not usable(w):
        return RecoveredPoints([], [])
    guess = np.asarray(alpha, dtype=np.float64) if usable(alpha) else np.zeros(statement.y.size)
    return statement.recover(guess, np.asarray(w, dtype=np.float64))


def check_penalties(lam1: float, lam2: float) -> tuple[float, float]:
    """Return λ1 and λ2 as numbers, or raise a :class:`~svmcvx.errors.DataError`."""
    return check_number(lam1, "lam1", low=0, why="a negative weight of the variance is not convex"), check_number(
        lam2, "lam2", low=0
    )


def _quadratic_part(
    statement: ODML | ODMLHardMargin, what: str
) -> tuple[cp.Parameter, cp.Parameter, cp.Variable, cp.Expression, list[cp.Constraint]]:
    """λ₁, λ₂, the margins, ½‖w‖² + λ₁ var − λ₂ mean, and the constraints that define margins and mean."""
    L, c = statement.space.factor, statement.share
    require_conic_memory(L, what)
    lam1 = cp.Parameter(nonneg=True, name="lam1", value=statement.lam1)
    lam2 = cp.Parameter(nonneg=True, name="lam2", value=statement.lam2)
    w = cp.Variable(L.shape[1], name="w")
    u, mean = cp.Variable(c.size, name="u"), cp.Variable(name="mean")
    constraints = [
        (u == cp.multiply(statement.y, L @ w)).set_label("margins"),
        (mean == c @ u).set_label("mean"),
    ]
    variance = cp.sum_squares(cp.multiply(np.sqrt(c), u - mean))
    return lam1, lam2, u, 0.5 * cp.sum_squares(w) + lam1 * variance - lam2 * mean, constraints


def odml_primal(
    X: Any,
    y: Any,
    *,
    lam1: float,
    lam2: float,
    C: float,
    kernel: KernelLike = None,
    intercept: bool = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMLPrimal:
    r"""Build the soft-margin ODML primal as a cvxpy problem.

    .. math::
        \min\; \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u + C \sum_i c_i \xi_i
        \quad\text{s.t.}\quad u_i = y_i L_i w,\; \bar u = c'u,\; u_i \ge 1 - \xi_i,\; \xi_i \ge 0,

    where the rows of `L` are the data or those of a factor of the Gram matrix, and :math:`c_i = s_i/\sum_j s_j`.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
        Two labels of any type.
    lam1, lam2 : float
        Weights of the variance and the mean of the margins, not negative. The cvxpy parameters ``problem.lam1`` and
        ``problem.lam2``.
    C : float
        Weight of the mean hinge loss, positive. The cvxpy parameter ``problem.C``.
    kernel : Kernel, str, callable or None
        None for the linear formulation.
    intercept : bool
        Append the constant feature 1 (add 1 to the kernel); its coefficient is penalised. Not by default.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the observations in mean, variance and loss; only their ratios matter.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.

    Returns
    -------
    ODMLPrimal
        A ``cvxpy.Problem``. Variables ``w``, ``u``, ``mean``, ``xi``; parameters ``lam1``, ``lam2``, ``C``; constraints
        labelled ``margins`` and ``mean`` (definitions), ``margin`` (its multipliers are α) and ``slack``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: ODM paper, eq. (5).
    """
    started = time.perf_counter()
    lam1, lam2 = check_penalties(lam1, lam2)
    C = check_number(C, "C", low=0, open_low=True)
    space = margin_space(X, y, kernel=kernel, intercept=intercept, sample_weight=sample_weight, indefinite=indefinite)
    statement = ODML(space, lam1, lam2, C)
    lam1_parameter, lam2_parameter, u, quadratic, constraints = _quadratic_part(statement, "ODML primal")
    C_parameter = cp.Parameter(pos=True, name="C", value=C)
    xi = cp.Variable(statement.y.size, name="xi")
    constraints += [(u >= 1 - xi).set_label("margin"), (xi >= 0).set_label("slack")]
    problem = ODMLPrimal(cp.Minimize(quadratic + C_parameter * (statement.share @ xi)), constraints)
    problem.lam1, problem.lam2, problem.C, problem._fixed = lam1_parameter, lam2_parameter, C_parameter, statement
    problem.build_seconds = time.perf_counter() - started
    return problem


def odml_dual(
    X: Any,
    y: Any,
    *,
    lam1: float,
    lam2: float,
    C: float,
    kernel: KernelLike = None,
    intercept: bool = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMLDual:
    r"""Build the soft-margin ODML dual as a cvxpy problem.

    In the scaled multipliers :math:`\beta_i = \alpha_i / (C c_i)`, with :math:`q = c(C\beta + \lambda_2)`:

    .. math:: \max\; C c'\beta - \tfrac12 q'Hq \quad\text{s.t.}\quad 0 \le \beta \le 1.

    Its value is the optimal value of the primal (the dual of the paper leaves out a constant). H is not formed when the
    factor is thin: then :math:`q'Hq = \|T^{-1}g\|^2` with :math:`g = Z'q` and :math:`TT' = R`.

    Parameters
    ----------
    X, y, lam1, lam2, C, kernel, intercept, sample_weight, indefinite
        As for :func:`odml_primal`; a precomputed kernel takes the Gram matrix as `X`. `lam1` enters H and is not a
        cvxpy parameter here: build again for another value, or use :func:`odml_primal`.

    Returns
    -------
    ODMLDual
        A ``cvxpy.Problem``. Variables ``beta`` and, with a thin factor, ``g``; ``problem.alpha`` is the expression
        :math:`\alpha = C c \beta`; parameters ``lam2`` and ``C`` (and, with a square factor, ``C_squared``, ``C_lam2`` and
        ``lam2_squared``, which follow them); constraints labelled ``nonnegative``, ``box`` and, with a thin factor,
        ``combination``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: ODM paper, eqs. (12)-(14).
    """
    started = time.perf_counter()
    lam1, lam2 = check_penalties(lam1, lam2)
    C = check_number(C, "C", low=0, open_low=True)
    space = margin_space(X, y, kernel=kernel, intercept=intercept, sample_weight=sample_weight, indefinite=indefinite)
    statement = ODML(space, lam1, lam2, C)
    C_parameter = cp.Parameter(pos=True, name="C", value=C)
    lam2_parameter = cp.Parameter(nonneg=True, name="lam2", value=lam2)
    c = statement.share
    beta = cp.Variable(c.size, name="beta")
    half, constraints = _half_quadratic(statement, beta, C_parameter, lam2_parameter)
    constraints += [(beta >= 0).set_label("nonnegative"), (beta <= 1).set_label("box")]
    problem = ODMLDual(cp.Maximize(C_parameter * (c @ beta) - half), constraints)
    problem.lam2, problem.C, problem._fixed = lam2_parameter, C_parameter, statement
    problem.alpha = C_parameter * cp.multiply(c, beta)
    problem.build_seconds = time.perf_counter() - started
    return problem


def _half_quadratic(
    statement: ODML, beta: cp.Variable, C: cp.Parameter, lam2: cp.Parameter
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """½ q'Hq at q = c (C β + λ₂): through a thin factor, or through H itself where the factor is as large."""
    L, c = statement.space.factor, statement.share
    require_conic_memory(L, "ODML dual")
    n, r = L.shape
    if 2 * r <= n or sp.issparse(L):
        whiten = sl.solve_triangular(statement.curvature.triangle, np.eye(r), lower=True, check_finite=False)
        g = cp.Variable(r, name="g")
        combination = (g == L.T @ cp.multiply(statement.y * c, C * beta + lam2)).set_label("combination")
        return 0.5 * cp.sum_squares(whiten @ g), [combination]
    shared = c[:, None] * statement.curvature.whitened()
    H = shared @ shared.T
    C_squared = cp.CallbackParam(callback=lambda: C.value**2, nonneg=True, name="C_squared")
    C_lam2 = cp.CallbackParam(callback=lambda: C.value * lam2.value, nonneg=True, name="C_lam2")
    lam2_squared = cp.CallbackParam(callback=lambda: lam2.value**2, nonneg=True, name="lam2_squared")
    # H is a product with its transpose, so cvxpy need not estimate its eigenvalues.
    quadratic = C_squared * (0.5 * cp.quad_form(beta, cp.psd_wrap(H)))
    return quadratic + C_lam2 * (H.sum(axis=1) @ beta) + lam2_squared * (0.5 * float(H.sum())), []


def odml_hard_margin(
    X: Any,
    y: Any,
    *,
    lam1: float,
    lam2: float,
    kernel: KernelLike = None,
    intercept: bool = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMLHardMarginProblem:
    r"""Build the primal of the hard-margin ODML as a cvxpy problem.

    .. math::
        \min\; \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u
        \quad\text{s.t.}\quad u_i = y_i L_i w,\; \bar u = c'u,\; u_i \ge 1.

    It is infeasible when no hyperplane through the origin of the feature space separates the classes.

    Parameters
    ----------
    X, y, lam1, lam2, kernel, intercept, sample_weight, indefinite
        As for :func:`odml_primal`.

    Returns
    -------
    ODMLHardMarginProblem
        A ``cvxpy.Problem``. Variables ``w``, ``u``, ``mean``; parameters ``lam1`` and ``lam2``; constraints labelled
        ``margins`` and ``mean`` (definitions) and ``margin`` (its multipliers are α).

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: ODM paper, section 3.1. The primal is built, not the dual, because λ₁ is a parameter of it.
    """
    started = time.perf_counter()
    lam1, lam2 = check_penalties(lam1, lam2)
    space = margin_space(X, y, kernel=kernel, intercept=intercept, sample_weight=sample_weight, indefinite=indefinite)
    statement = ODMLHardMargin(space, lam1, lam2)
    lam1_parameter, lam2_parameter, u, quadratic, constraints = _quadratic_part(statement, "hard-margin ODML")
    constraints.append((u >= 1).set_label("margin"))
    problem = ODMLHardMarginProblem(cp.Minimize(quadratic), constraints)
    problem.lam1, problem.lam2, problem._fixed = lam1_parameter, lam2_parameter, statement
    problem.build_seconds = time.perf_counter() - started
    return problem
