r"""ODML: the hinge loss with the mean and the variance of the margins, soft and hard.

**Primal**, :math:`\lambda_1, \lambda_2 \ge 0`, C > 0, with shares :math:`c_i = s_i / m` of the
weights :math:`s_i` (1 by default) and their sum :math:`m = \sum_i s_i`, so that an observation of
weight k counts as k copies of it:

.. math::
    \min_w\; P(w) = \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u
      + C \sum_i c_i (1 - u_i)_+, \qquad
    u_i = y_i \langle w, \varphi(x_i)\rangle,\quad \bar u = \sum_i c_i u_i.

**Dual** [ZhangZhou], with :math:`q = \alpha + \lambda_2 c`, :math:`A = 2\lambda_1(\mathrm{diag}(c)
- (yc)(yc)')` and :math:`H = YG(I + AG)^{-1}Y`, where G is the Gram matrix (its value is stated here
for maximisation):

.. math:: \max_{0 \le \alpha \le C c}\; \sum_i \alpha_i - \tfrac12 q'Hq.

A is singular along the labels and is never inverted. With a factor :math:`G = LL'`, :math:`Z = YL`,
and

.. math:: R = I + L'AL, \qquad H = Z R^{-1} Z', \qquad w = R^{-1}Z'q

(push-through), only the r × r matrix R is factored; its eigenvalues are at least 1.

**The certificate** needs no inverse. The variance has its own multipliers τ, and for every α in the
box and every τ of sum 0, with :math:`v_i = y_i(\alpha_i + \lambda_2 c_i - \tau_i)`,

.. math:: G(\alpha, \tau) = \sum_i \alpha_i - \tfrac12 v'Kv - \frac{1}{4\lambda_1} \sum_i \frac{\tau_i^2}{c_i}

is a lower bound (τ = 0 for :math:`\lambda_1 = 0`). The sum of τ is 0 exactly, on a grid of powers
of two. The best τ of a given α is :math:`\tau_i = 2\lambda_1 c_i(u_i - \bar u)` at :math:`w =
R^{-1}Z'q`; it makes :math:`G(\alpha, \tau)` the dual of [ZhangZhou] and :math:`w = \sum_i v_i
\varphi(x_i)`.

**Hard margin**: the same without the hinge loss subject to :math:`u_i \ge 1`; its dual has
:math:`\alpha \ge 0` only.

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

**Scaling.** At :math:`\lambda_1 = \lambda_2 = 0` this is the soft-margin SVM without intercept
whose C is C/m here, scikit-learn's ``LinearSVC(loss="hinge", fit_intercept=False, C=C / m)``. The
objective can be negative.

**Source.** [ZhangZhou], Optimal Margin Distribution Machine, eqs. (3)-(5), (8)-(14). Its Lemma 1
writes :math:`A^{-1}`, which does not exist; the identity (13) that it serves holds.
"""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import InitVar, dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import (
    Bounded,
    between,
    by_rows,
    down,
    exact,
    signed,
    square,
    total,
    weighted_total,
)
from svmcvx.data import check_number
from svmcvx.formulations.base import CLEARLY_ZERO, RecoveredPoints
from svmcvx.formulations.margin_distribution.centring import centred, exact_sum
from svmcvx.formulations.margin_distribution.curvature import MarginHessian
from svmcvx.formulations.margin_distribution.odm import ODMStatement, solve_positive
from svmcvx.losses import slack, variance_multipliers
from svmcvx.model import BinaryModel
from svmcvx.system.cancellation import interruptible
from svmcvx.system.deadline import OutOfTime, current

__all__ = ["ODML", "ODMLHardMargin", "check_penalties", "dual_objective", "objective"]

Floats: TypeAlias = NDArray[np.float64]

# The polishing: rounds, and unknowns of one of its systems, at most; residual at which it ends;
# damping of its systems.
ACTIVE_ROUNDS = 40
LARGEST_ACTIVE = 2500
RESIDUAL = 1e-11
DAMPING = 1e-13
# Refinements of a normal, and the squared residual relative to it at which they end.
REFINEMENTS = 6
NEGLIGIBLE = 1e-20
TINY = float(np.finfo(np.float64).tiny)
# Observations that may become free in one round: more at once tends to overshoot and cycle.
RELEASED = 5


def odml_objective(
    squared_norm: Any,
    u: Any,
    *,
    lam1: Any,
    lam2: Any,
    C: Any,
    share: Any = None,
    around: float | None = None,
) -> Any:
    r"""Return :math:`P = \tfrac12\|w\|^2 + \lambda_1 \mathrm{var}(u) - \lambda_2 \bar u + C\sum_i
    c_i(1-u_i)_+`; :math:`c_i = 1/n` by default.

    Of plain or of bounded numbers, like :func:`dual_objective`. The variance is taken `around` a
    number, the mean by default; it is least there.
    """
    c = 1.0 / u.size if share is None else share
    m = weighted_total(c, u) if around is None else around
    return 0.5 * squared_norm + weighted_total(c, lam1 * square(u - m) - lam2 * u + C * slack(u))


def dual_objective(alpha: Any, tau: Any, squared_norm: Any, *, lam1: Any, share: Any = None) -> Any:
    r"""Return :math:`G(\alpha, \tau)`, with :math:`v'Kv` passed as `squared_norm`; τ is ignored for
    :math:`\lambda_1 = 0`.
    """
    c = 1.0 / alpha.size if share is None else share
    terms = alpha - tau * (tau / (4.0 * lam1 * c)) if lam1 > 0 else alpha
    return total(terms) - 0.5 * squared_norm


@dataclass(frozen=True, eq=False)
class _ODML(ODMStatement):
    """What the soft and the hard margin share."""

    lam1: float
    lam2: float
    reuse: InitVar[MarginHessian | None] = field(default=None, kw_only=True)
    curvature: MarginHessian = field(init=False)

    def __post_init__(self, reuse: MarginHessian | None) -> None:
        shared = (
            reuse
            if reuse is not None and reuse.lam1 == self.lam1
            else MarginHessian(self.space, self.share, self.lam1)
        )
        object.__setattr__(self, "curvature", shared)

    def at(self, **values: float) -> Self:
        """Return the statement at other values of its hyper-parameters, with the same curvature
        unless λ₁ changes.
        """
        changed: dict[str, Any] = {"reuse": self.curvature, **values}
        return replace(self, **changed)

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """lam1, lam2, the kernel and the intercept."""
        return {"lam1": self.lam1, "lam2": self.lam2, **super().hyperparameters}

    def upper_bound(self) -> Floats:
        """Return the upper ends of the box of α."""
        return np.full(self.y.size, np.inf)

    def variance_multipliers(self, u: Floats) -> Floats:
        """Return the best τ at margins `u`."""
        return variance_multipliers(u, self.lam1, self.share)

    def normal(self, alpha: Floats) -> Floats:
        """Return ``w = R^{-1} Z'(α + λ₂c)``, the minimiser of the Lagrangian, in the columns of the
        factor.
        """
        return self.curvature.solve(
            np.asarray(self.space.factor.T @ (self.y * (alpha + self.lam2 * self.share)))
        )

    def margins(self, alpha: Floats) -> Floats:
        """Return the margins of :meth:`normal`."""
        return np.asarray(self.y * (self.space.factor @ self.normal(alpha)))

    def _best_tau(self, alpha: Floats) -> Floats:
        """The best τ of α; where R is too large to be factored, to the accuracy of conjugate
        gradients.
        """
        if not self.curvature.by_products:
            return self._refined_tau(alpha)
        w = self.curvature.solve_by_products(self.y * (alpha + self.lam2 * self.share))
        return self.variance_multipliers(np.asarray(self.y * (self.space.X @ w)))

    def _refined_tau(self, alpha: Floats) -> Floats:
        r"""The best τ of α; its normal is improved by iterative refinement.

        With r the difference of :math:`\sum_i v_i\varphi(x_i)` and w the bound is short of the best
        one by at most :math:`\tfrac12\|r\|^2`; on data with a large offset w has lost digits that r
        has not.
        """
        L, y = self.space.factor, self.y
        w = self.normal(alpha)
        best, smallest = np.zeros(alpha.size), math.inf
        for _ in range(REFINEMENTS):
            tau = self.variance_multipliers(np.asarray(y * (L @ w)))
            left = np.asarray(L.T @ self.expansion(alpha, tau)) - w
            size = float(left @ left)
            if not size < smallest:
                break
            best, last, smallest = tau, smallest, size
            if size <= NEGLIGIBLE * float(w @ w) or size > 0.25 * last:
                break
            w = w + self.curvature.solve(left)
        return best

    def expansion(self, alpha: Floats, tau: Floats) -> Floats:
        r"""Return the coefficients v of :math:`w = \sum_i v_i \varphi(x_i)`."""
        return self.y * (alpha + self.lam2 * self.share - tau)

    def repair(self, dual: Dual) -> Dual:
        """Clip α to its box and take the best τ for it, with a sum of exactly 0.

        Any τ of sum 0 is feasible: an inexact τ makes the bound a little weaker, never invalid. A
        space that keeps no Gram matrix has no R; there the point's own τ is centred instead, as
        where a time limit passes before R is factored.
        """
        alpha = np.clip(self.entry(dual, "alpha"), 0.0, self.upper_bound())
        if self.lam1 == 0 or not np.isfinite(alpha).all() or self._rests(alpha):
            return {"alpha": alpha, "tau": np.zeros(alpha.size)}
        tau = self.entry(dual, "tau") if "tau" in dual else np.zeros(alpha.size)
        if not self.space.blockwise:
            with suppress(OutOfTime), interruptible():
                tau = self._best_tau(alpha)
        return {"alpha": alpha, "tau": centred(tau, self.share)}

    def _rests(self, alpha: Floats) -> bool:
        """Whether the minimiser of the Lagrangian is 0, and with it its margins."""
        return self.lam2 == 0 and not alpha.any()

    def _point(self, dual: Dual) -> tuple[Floats, Floats]:
        alpha = self.entry(dual, "alpha")
        return alpha, self.entry(dual, "tau") if "tau" in dual else self.repair(dual)["tau"]

    def dual_violation(self, dual: Dual) -> float:
        """Return the largest of −α, α above its upper bound, and the sum of τ (τ itself for λ₁ =
        0); 0 only if they hold exactly.
        """
        alpha = self.entry(dual, "alpha")
        tau = self.entry(dual, "tau") if "tau" in dual else np.zeros(alpha.size)
        if not (np.isfinite(alpha).all() and np.isfinite(tau).all()):
            return math.inf
        uncentred = abs(exact_sum(tau)) if self.lam1 > 0 else float(np.abs(tau).max())
        return max(0.0, float(-alpha.min()), float((alpha - self.upper_bound()).max()), uncentred)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """G at a feasible point; without an entry ``"tau"`` at the best τ."""
        alpha, tau = self._point(dual)
        v = self.coefficients({"alpha": alpha, "tau": tau})
        try:
            with interruptible():
                squared_norm = self.space.squared_norm_of(v)
        except OutOfTime:
            # The norm of a sum is between 0 and the sum of the norms.
            squared_norm = between(0.0, square(total(abs(v) * self.space.lengths)).upper_end)
        return self.minus_conjugate({"alpha": alpha, "tau": tau}) - 0.5 * squared_norm

    def minus_conjugate(self, dual: Dual) -> Bounded:
        """Σα less the conjugate of the variance."""
        alpha, tau = (exact(values) for values in self._point(dual))
        found: Bounded = by_rows(
            lambda a, t, c: dual_objective(a, t, 0.0, lam1=exact(self.lam1), share=c),
            alpha,
            tau,
            self.bounded_share,
        )
        return found

    def coefficients(self, dual: Dual) -> Bounded:
        """Return v of w = Σ v φ(x): multipliers alone are exact, shares and sums are not."""
        alpha, tau = self._point(dual)
        q = exact(alpha)
        if self.lam2 > 0:
            q = q + exact(self.lam2) * self.bounded_share
        return signed(self.y, q - tau if tau.any() else q)

    def losses_around(self, u: Bounded, C: float, mean: float) -> Bounded:
        """Return all of P but the norm at margins, with the hinge weighted by C; at least that
        where the variance is not around its mean.
        """
        parameters = {"lam1": exact(self.lam1), "lam2": exact(self.lam2), "C": exact(C)}
        found: Bounded = by_rows(
            lambda u, c: odml_objective(0.0, u, share=c, around=mean, **parameters),
            u,
            self.bounded_share,
        )
        return found

    def value_at(self, u: Bounded, squared_norm: Bounded, C: float) -> Evaluation:
        """Return P at margins and a squared norm, with the hinge weighted by C."""
        losses = self.losses_around(u, C, float(self.share @ u.value))
        return Evaluation.of(regulariser=0.5 * squared_norm, losses=losses)

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        """Return zero multipliers where they cost no more than a look: without the mean, or with a
        factor of R.
        """
        if self.lam2 > 0 and (self.space.blockwise or self.curvature.by_products):
            return [], []
        return [], [{"alpha": np.zeros(self.y.size), "tau": np.zeros(self.y.size)}]

    def _polish(self, alpha: Floats) -> Floats | None:
        """Solve u = 1 on the observations that are neither at zero nor at their upper bound; None
        if that fails.

        An active-set method from a solver's point: a multiplier that would leave its box stays at
        the end of it, and those at an end whose margin is on the wrong side of 1 become free. The
        systems may be singular, so each is damped a little and solved again until the residual no
        longer falls.
        """
        upper_bound = self.upper_bound()
        typical = np.minimum(upper_bound, max(float(alpha.max()), TINY))
        u = self.margins(alpha)
        free = alpha >= CLEARLY_ZERO * (u - 1.0) * typical
        above = (
            free & np.isfinite(upper_bound) & (1.0 - alpha / upper_bound < CLEARLY_ZERO * (1.0 - u))
        )
        alpha = np.where(above, upper_bound, np.where(free, alpha, 0.0))
        free &= ~above
        last = math.inf
        for _ in range(ACTIVE_ROUNDS):
            rows = np.flatnonzero(free)
            if rows.size > LARGEST_ACTIVE or current().passed():
                return None
            u = self.margins(alpha)
            if rows.size:
                part = self.curvature.whitened(rows)
                system = part @ part.T
                system[np.diag_indices(rows.size)] += (
                    DAMPING * float(system.diagonal().max()) + TINY
                )
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
        """Return the multipliers polished, if that succeeds, as they are, and zero, which gives
        some bound on any data.
        """
        clipped = np.clip(alpha, 0.0, self.upper_bound())
        polished = self._polish(clipped)
        return [*([] if polished is None else [polished]), clipped, np.zeros(clipped.size)]

    def minimiser(self, alpha: Floats) -> tuple[Floats, Floats]:
        """Return the minimiser of the Lagrangian as coefficients v of the data, and as w in the
        columns of the factor.
        """
        w = self.normal(alpha)
        return (
            self.expansion(
                alpha, self.variance_multipliers(self.y * np.asarray(self.space.factor @ w))
            ),
            w,
        )


@dataclass(frozen=True, eq=False)
class ODML(_ODML):
    """The statement of the soft-margin ODML bound to data."""

    name: ClassVar[str] = "odml"
    C: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """lam1, lam2, C, the kernel and the intercept."""
        return {"lam1": self.lam1, "lam2": self.lam2, "C": self.C, **super().hyperparameters}

    def upper_bound(self) -> Floats:
        """Return numbers near and at most the upper ends C c of the box of α: the nearest below
        where all weights are equal.
        """
        return self._upper_bound

    @cached_property
    def _upper_bound(self) -> Floats:
        s = self.weight
        if self.space.data.whole_weight is None and (s == s[0]).all():
            box = Fraction(self.C) / s.size
            nearest = float(box)
            return np.full(s.size, nearest if Fraction(nearest) <= box else down(nearest))
        found: Floats = np.maximum((exact(self.C) * self.bounded_share).lower, 0.0)
        return found

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        """Return w = 0, where P is C, and zero multipliers."""
        return [self.space.model(np.zeros(self.y.size))], super().trivial()[1]

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model, from its scores on the raw data."""
        return self.value_at(self.margins_of(model), self.penalty(model), self.C)

    def recover(self, alpha: Floats, w: Floats | None = None) -> RecoveredPoints:
        """Return the models of (approximate) multipliers, polished and as they are, and of `w`, and
        the multipliers.
        """
        points = self._points(alpha)
        models: list[BinaryModel] = []
        for point in points:
            v, normal = self.minimiser(point)
            models.append(self.space.model(v))
            if 2 * normal.size <= v.size:
                models.append(self.space.model_from_factor(normal, support=v != 0))
        if w is not None:
            models.append(self.space.model_from_factor(w))
        return RecoveredPoints(models, [{"alpha": point} for point in points])


@dataclass(frozen=True, eq=False)
class ODMLHardMargin(_ODML):
    r"""The statement of the hard-margin ODML bound to data: :math:`u_i \ge 1` in place of the hinge
    loss.
    """

    name: ClassVar[str] = "odml_hard_margin"

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P of the model divided by its smallest margin where that is below 1; ``inf`` if it is so
        by more than rounding.
        """
        u, squared_norm = self.margins_of(model), self.penalty(model)
        if not ((u.value >= 1.0 - 2.0 * u.error).all() and u.least > 0.0):
            return Evaluation(math.inf, 0.0)
        if u.least < 1.0:
            smallest = between(u.least, 1.0)
            u, squared_norm = u / smallest, squared_norm / square(smallest)
        return self.value_at(u, squared_norm, 0.0)

    def explain(self, status: str) -> str:
        """An infeasible primal means that no hyperplane through the origin separates the classes."""
        if status in ("infeasible", "unbounded"):
            origin = (
                "" if self.space.intercept == "penalised" else " by a hyperplane through the origin"
            )
            return (
                f"the two classes are not separable in this feature space{origin}, so no"
                " hard-margin ODML exists; use the soft margin (odml_primal or"
                f" odml_dual){', intercept=True' if origin else ''} or a richer kernel"
            )
        return super().explain(status)

    def recover(self, alpha: Floats, w: Floats | None = None) -> RecoveredPoints:
        """Return models with every margin at least 1 (none if the classes are not separated) and
        the multipliers; arguments as of :meth:`ODML.recover`.
        """
        points = self._points(alpha)
        models: list[BinaryModel] = []
        for point in points:
            v = self.minimiser(point)[0]
            smallest = signed(self.y, self.space.point(v).scores).least
            if smallest > 0:
                models.append(self.space.model(v / min(1.0, smallest)))
        if w is not None:
            smallest = float((self.y * np.asarray(self.space.factor @ w)).min())
            if smallest > 0:
                models.append(self.space.model_from_factor(w / min(1.0, smallest)))
        return RecoveredPoints(models, [{"alpha": point} for point in points])


def check_penalties(lam1: float, lam2: float) -> tuple[float, float]:
    """Return λ1 and λ2 as numbers, or raise a :class:`~svmcvx.errors.DataError`."""
    return check_number(
        lam1, "lam1", low=0, why="a negative weight of the variance is not convex"
    ), check_number(lam2, "lam2", low=0)
