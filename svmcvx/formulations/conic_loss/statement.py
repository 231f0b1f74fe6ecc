r"""The conic loss: the SVM with 0-1 loss, relaxed to a semidefinite program.

**0-1 problem**, with weights :math:`s_i > 0` (1 by default) and margins :math:`u_i = y_i\langle w,
x_i\rangle`:

.. math:: \min_w\; \|w\|^2 + \lambda \sum_i s_i\, 1[u_i < 1].

**Relaxation** ([CepedaGomezHan], Theorem 2), with :math:`t_i = \langle x_i x_i', W\rangle - 2u_i +
1`:

.. math::
    \min_{w, W}\; \mathrm{Tr}\,W + \lambda \sum_i s_i z_i, \quad z_i = \frac{(1-u_i)_+^2}{t_i},
    \quad\text{s.t.}\quad \begin{pmatrix}1 & w'\\ w & W\end{pmatrix} \succeq 0,

or with :math:`W = ww' + VV'` and :math:`v_i = \|V'x_i\|^2`

.. math::
    P(w, V) = \|w\|^2 + \|V\|_F^2 + \lambda \sum_i s_i z_i, \qquad
    z_i = \frac{(1-u_i)_+^2}{v_i + (1-u_i)_+^2}.

**Cardinality form** (Appendix C): no λ, but :math:`\sum s_i z_i \le \kappa \sum s_i`; λ is then the
multiplier of this row.

**Dual.** With multipliers :math:`\gamma_i \ge 0` of the definition of :math:`t_i` and
:math:`\alpha_i` of :math:`m_i \ge 1 - u_i`, and :math:`Q = I - \sum_i \gamma_i x_i x_i' \succ 0`:

.. math::
    D(\gamma, \alpha) = \sum_i (\alpha_i - \gamma_i) - \sum_i h_i^*(\alpha_i)
    - \tfrac14 c'Q^{-1}c, \qquad
    c = \sum_i (\alpha_i - 2\gamma_i)\, y_i x_i,

.. math::
    h_i^*(\alpha) = \Big(\frac{(\alpha)_+^2}{4\gamma_i} - \lambda s_i\Big)_+
    + \frac{(\alpha)_-^2}{4\gamma_i}.

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
upper end attained by a rounding (:func:`svmcvx.formulations.signed_rows.round_relaxation`).

w, W and V are in the columns of the factor L. P is coded in
:mod:`~svmcvx.formulations.conic_loss.models`. Interpretation, scaling and sources:
``docs/formulations/conic.md``.
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from svmcvx.arrays import Floats
from svmcvx.certificate import EPS, Dual, Evaluation
from svmcvx.certificate.bounded import (
    Bounded,
    exact,
    parts_of,
    positive_part,
    quietly,
    roundings,
    total,
    where,
)
from svmcvx.certificate.rows import inner_error
from svmcvx.errors import DataError
from svmcvx.formulations.base import (
    ON_SUPPORT,
    BinaryStatement,
    RecoveredPoints,
    dual_entry,
    full_entry,
    latest,
    usable,
)
from svmcvx.formulations.conic_loss.geometry import (
    ConicMultipliers,
    Geometry,
    RowGeometry,
    WeightedSpectrum,
    geometry_of,
)
from svmcvx.formulations.conic_loss.models import (
    SecondMoment,
    enlarged_covariance,
    low_rank_gradient,
    moment_of,
    objective,
    polish,
    polish_to_cardinality,
    relaxed_indicator,
    relaxed_model,
    rounded_point,
    total_loss,
    weighted_gram,
    within,
    worst_indicator,
)
from svmcvx.formulations.signed_rows import LeastNorm, least_norm, round_relaxation
from svmcvx.kernels import row_norms
from svmcvx.losses import conic_loss
from svmcvx.model import BinaryModel
from svmcvx.numerical import NewtonStep, newton
from svmcvx.system.deadline import current


@quietly
def conjugate(alpha: Any, gamma: Any, height: Any) -> Any:
    r"""Return :math:`(\alpha_+^2/(4\gamma) - h)_+ + \alpha_-^2/(4\gamma)`, of exact numbers."""
    sign = parts_of(alpha)[0]
    quarter = where(sign == 0.0, np.zeros(sign.shape), alpha / (4.0 * gamma) * alpha)
    return where(sign > 0.0, positive_part(quarter - height), quarter)


def minus_conjugate(gamma: Any, alpha: Any, *, lam: Any, weight: Any = 1.0) -> Any:
    r"""Return :math:`\sum_i (\alpha_i - \gamma_i - h_i^*(\alpha_i))`."""
    return total(alpha) - total(gamma) - total(conjugate(alpha, gamma, lam * weight))


# Of multipliers that are not proved to be feasible.
NOTHING = Bounded(-math.inf, 0.0)


class _Repaired(NamedTuple):
    """A feasible dual point with its bound."""

    point: Dual
    bound: Bounded


def top_of(top: float, scale: float) -> float:
    """Return an upper bound on an eigenvalue for γ that were scaled up to eight times."""
    # Each repair of a scaled point rounds γ twice.
    return float((exact(scale) * top * Bounded(1.0, roundings(16))).upper)


@dataclass(frozen=True, eq=False)
class ConicDual(BinaryStatement):
    """The dual that the relaxation and the problem of fixed γ share."""

    improve_alpha: bool = field(default=True, kw_only=True)

    @property
    def factor(self) -> Any:
        return self.space.factor

    def alpha_of(self, dual: Dual) -> Floats | None:
        """Return α for the observations of positive weight; None if a dual point has no α."""
        return self.entry(dual, "alpha") if "alpha" in dual else None

    def gamma_of(self, dual: Dual) -> Floats:
        return self.entry(dual, "gamma")

    @abstractmethod
    def lam_of(self, dual: Dual) -> float:
        """Return the weight of the losses that belongs to a dual point."""

    def dual_constant(self, lam: float) -> Bounded:
        """Return the terms of the dual objective that do not depend on γ and α."""
        return exact(0.0)

    def capped(self, alpha: Floats, gamma: Floats, lam: float) -> Floats:
        """Return α so small that even the upper end of h* is 0."""
        with np.errstate(over="ignore"):
            cap = 2.0 * np.sqrt(lam) * np.sqrt(self.weight) * np.sqrt(gamma)
        return np.asarray(np.minimum(alpha, cap * (1.0 - roundings(32))))

    @cached_property
    def squared_row_norms(self) -> Floats:
        return row_norms(self.factor) ** 2

    @cached_property
    def geometry(self) -> Geometry:
        """The feature vectors, for bounds that do not rest on a factor of K."""
        return geometry_of(self.space)

    @cached_property
    def _repaired(self) -> list[_Repaired]:
        return []

    def _known(self, dual: Dual) -> _Repaired | None:
        return next((known for known in self._repaired if same_point(known.point, dual)), None)

    @latest
    def _curvature(self, gamma: Floats) -> WeightedSpectrum:
        return self.geometry.curvature(gamma)

    # Multipliers so large that they overflow give the bound −∞.
    @quietly
    def _bound(
        self,
        gamma: Floats,
        alpha: Floats,
        lam: float,
        curvature: WeightedSpectrum,
        scale: float = 1.0,
    ) -> Bounded:
        """Return D for γ that are `scale` times the curvature's; −∞ where it is not feasible."""
        mu = (1.0 - exact(top_of(curvature.top, scale))).lower
        if not mu > 0 or (gamma < 0).any() or (alpha[gamma == 0] != 0).any():
            return NOTHING
        found: Bounded = self.dual_constant(lam) + minus_conjugate(
            exact(gamma), exact(alpha), lam=exact(lam), weight=self.loss_weight
        )
        rows = curvature.rows
        if rows.size:
            m = ConicMultipliers(gamma[rows], alpha[rows], self.y[rows], scale)
            found = found + self.geometry.minimum(curvature, m, mu)
        return found if math.isfinite(found.lower_end) else NOTHING

    def _alphas_by_newton(self, gamma: Floats, lam: float) -> list[Floats]:
        """Return α at the minimum of q(w) = ‖w‖² + Σ L(u_i; γ_i), by Newton's method from w = 0.

        :math:`h = L + γ(1-u)²` is smoothed at u = 1, with a width that shrinks. Each width has its
        α, since rounding may spoil the later ones.
        """
        rows = np.flatnonzero(gamma > 0)
        if rows.size == 0 or lam == 0:
            return [np.zeros(gamma.size)]
        L = self.factor[rows]
        A = (L.toarray() if sp.issparse(L) else L) * self.y[rows, None]
        bend, height = gamma[rows], lam * self.weight[rows]
        found = []
        for lagrangian in smoothed(A, bend, height, current().passed):
            found.append(np.zeros(gamma.size))
            found[-1][rows] = lagrangian.multipliers()
        return found

    def gamma_upper_bound(self) -> Floats | float:
        """Return the upper bound on a feasible γ."""
        return math.inf

    @quietly
    def repair(self, dual: Dual) -> Dual:
        """Clip γ, scale it until λ_max(Σ γ_i x_i x_i') < 1 is proved, and choose the best α.

        The candidates are γ at two relative distances from the boundary, near which Q⁻¹ amplifies
        the errors of γ and α, while further inside the bound is looser, with α as passed (times the
        root of the scale, which leaves α²/γ unchanged) and with that of a minimiser of q; both also
        with h* = 0, whose rounding can exceed the objective for large λ.
        """
        if (known := self._known(dual)) is not None:
            return known.point
        gamma = np.clip(
            np.nan_to_num(self.gamma_of(dual), posinf=0.0), 0.0, self.gamma_upper_bound()
        )
        # No scaled γ is subnormal.
        gamma = np.where(gamma < 1e-290, 0.0, gamma)
        lam, given = self.lam_of(dual), self.alpha_of(dual)
        zeros, beside = np.zeros(gamma.size), {name: dual[name] for name in dual.keys() & {"lam"}}
        best = _Repaired({**beside, "gamma": zeros, "alpha": zeros}, self.dual_constant(lam))
        if not gamma.any():
            return best.point
        # λ_max is at least each of the terms γ_i‖x_i‖².
        largest = float(gamma.max())
        share = gamma / largest
        longest = float(np.max(share * self.geometry.norms * self.geometry.norms))
        if longest > 0 and largest > 2.0 / longest:
            gamma = share / longest
        curvature = self._curvature(gamma)
        top = top_of(curvature.top, 1.0)
        scales = {min(1.0, 1.0 / (top * (1.0 + d))) if top > 0 else 1.0 for d in (1e-10, 1e-7)}

        def better(best: _Repaired, alpha: Floats) -> _Repaired:
            for scale in scales:
                scaled, moved = gamma * scale, np.where(gamma > 0, math.sqrt(scale) * alpha, 0.0)
                capped = self.capped(moved, scaled, lam)
                # Multipliers within a few roundings of the kink of h* are taken to be at it.
                at_kink = (moved <= capped * (1.0 + 2.0**-40)).all()
                for each in (capped,) if at_kink else (moved, capped):
                    bound = self._bound(scaled, each, lam, curvature, scale)
                    if bound.lower_end > best.bound.lower_end:
                        best = _Repaired({**beside, "gamma": scaled, "alpha": each}, bound)
            return best

        nothing = best
        if given is not None:
            best = better(best, np.nan_to_num(given))
        if self.improve_alpha or best is nothing:
            scale = max(scales)
            for alpha in self._alphas_by_newton(gamma * scale, lam):
                best = better(best, alpha / math.sqrt(scale))
        # Eight candidates of one answer are stored.
        self._repaired[:] = [best, *self._repaired[:7]]
        return best.point

    def dual_violation(self, dual: Dual) -> float:
        """Return the violation of γ's bounds, of α = 0 where γ = 0, or of a proof of λ_max < 1."""
        if self._known(dual) is not None:
            return 0.0
        gamma, alpha = self.gamma_of(dual), self.alpha_of(dual)
        if not np.isfinite(gamma).all() or (alpha is not None and not np.isfinite(alpha).all()):
            return math.inf
        outside = max(0.0, float(-gamma.min()), float((gamma - self.gamma_upper_bound()).max()))
        if outside == 0 and alpha is not None:
            outside = float(np.abs(alpha[gamma == 0]).max(initial=0.0))
        if outside > 0 or not gamma.any():
            return outside
        # Each of the terms γ_i‖x_i‖² is at most λ_max.
        with np.errstate(over="ignore"):
            longest = float(np.max(gamma * self.geometry.norms * self.geometry.norms, initial=0.0))
        if longest > 2.0:
            return longest - 1.0
        found = self._curvature(gamma)
        return 0.0 if found.top < 1.0 else max(float(found.values[-1]) - 1.0, EPS)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        if (known := self._known(dual)) is not None:
            return known.bound
        gamma, alpha, lam = self.gamma_of(dual), self.alpha_of(dual), self.lam_of(dual)
        if not gamma.any() and (alpha is None or not alpha.any()):
            return self.dual_constant(lam)
        if alpha is None:
            alpha = self._alphas_by_newton(gamma, lam)[-1]
        return self._bound(gamma, alpha, lam, self._curvature(gamma))


def same_point(one: Dual, other: Dual) -> bool:
    return set(one) == set(other) and all(np.array_equal(one[name], other[name]) for name in one)


def smoothed(
    A: Floats, gamma: Floats, height: Floats, stop: Callable[[], bool]
) -> Iterator[SmoothedLagrangian]:
    """Yield q of rows with γ > 0 at its minimum, smoothed over 0.01 to 1e-7 of the margin."""
    # Roots before products, so that a tiny γ does not underflow; the knee √(λs/γ) may be infinite.
    with np.errstate(over="ignore"):
        slope, knee = np.sqrt(gamma) * np.sqrt(height), np.sqrt(height) / np.sqrt(gamma)
    lagrangian = SmoothedLagrangian(A, gamma, slope, knee, stop)
    for digits in range(2, 8):
        lagrangian.smooth(10.0**-digits)
        newton(lagrangian)
        yield lagrangian
        if stop():
            break


class SmoothedLagrangian:
    r"""q(w) up to a constant, with :math:`h = L + \gamma(1-u)^2` smoothed at u = 1, at a point."""

    def __init__(
        self, A: Floats, bend: Floats, slope: Floats, knee: Floats, stop: Callable[[], bool]
    ) -> None:
        self.A, self.bend, self.slope, self.knee, self.stop = A, bend, slope, knee, stop
        self.w = np.zeros(A.shape[1])
        self.smooth(math.inf)
        # At w = 0 it has no effect, and it takes long.
        self.Q = np.zeros((0, 0)) if stop() else np.eye(A.shape[1]) - A.T @ (bend[:, None] * A)
        self.linear = 2.0 * (A.T @ bend)

    def smooth(self, width: float) -> None:
        """Set the width of the smoothing."""
        self.width, self.solved = width, False

    def _first(self, shortfall: Floats) -> Floats:
        """Return h' with respect to 1 − u."""
        outside = np.minimum(shortfall, 0.0) + np.maximum(shortfall - self.knee, 0.0)
        first = 2.0 * self.bend * outside + self.slope * (
            1.0 + shortfall / np.hypot(shortfall, self.width)
        )
        return np.asarray(first)

    def multipliers(self) -> Floats:
        return self._first(1.0 - self.A @ self.w)

    def examine(self, steps: int) -> bool | None:
        """Return whether the minimum is reached, or there is no time for another step."""
        return True if self.solved or steps >= 30 or self.stop() else None

    def direction(self) -> NewtonStep | None:
        """Return Newton's step; None for a singular system or a gain below rounding."""
        A, w, a = self.A, self.w, 1.0 - self.A @ self.w
        outside = np.minimum(a, 0.0) + np.maximum(a - self.knee, 0.0)
        root = np.hypot(a, self.width)
        second = 2.0 * self.bend * (outside != 0) + self.slope * self.width**2 / root**3
        value = float(
            (self.Q @ w + self.linear) @ w
            + np.sum(self.bend * outside**2 + self.slope * (a + root))
        )
        gradient = 2.0 * (self.Q @ w) + self.linear
        first = gradient - A.T @ self._first(a)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", sl.LinAlgWarning)
                step = -sl.solve(2.0 * self.Q + A.T @ (second[:, None] * A), first, assume_a="pos")
        except (sl.LinAlgError, ValueError):
            return None
        promised = -float(first @ step)
        if not promised > 2.0 * math.ulp(max(1.0, abs(value))):
            return None
        change = A @ step
        along, square = float(gradient @ step), 2.0 * float(step @ self.Q @ step)

        def derivative(t: float) -> float:
            return along + t * square - float(self._first(a - t * change) @ change)

        def take(t: float) -> None:
            self.w, self.solved = w + t * step, t == 0.0

        return NewtonStep(promised, derivative, take)


@dataclass(frozen=True, eq=False)
class ConicLoss(ConicDual):
    """The statement of the relaxation; a model without a second moment has W = ww'.

    Dual points hold ``"gamma"``, optionally ``"alpha"``, and ``"lam"`` in the cardinality form.
    """

    name: ClassVar[str] = "conic"
    _scalars: ClassVar[tuple[str, ...]] = ("lam", "kappa")
    lam: float | None = None
    kappa: float | None = None

    @property
    def allowance(self) -> float:
        """The weight κ Σ s_i of margins below 1, in which sum and product are rounded once."""
        return math.inf if self.kappa is None else self.kappa * self.space.data.total_weight

    def lam_of(self, dual: Dual) -> float:
        if self.lam is not None:
            return self.lam
        lam = float(np.asarray(dual_entry(dual, "lam", "the cardinality form")).item())
        return max(lam, 0.0) if math.isfinite(lam) else 0.0

    def dual_constant(self, lam: float) -> Bounded:
        if self.kappa is None:
            return exact(0.0)
        # Of κΣs itself, which may differ from the allowance by two roundings: κ may come of a right
        # side k/Σs.
        return -exact(lam) * (self.kappa * self.space.data.bounded_weight)

    def _evaluate(self, model: BinaryModel, moment: SecondMoment | None) -> Evaluation:
        """Return P with each term at its worst end; ``inf`` where Σ s z may exceed κ Σ s."""
        u, norm = self.margins_of(model), self.penalty(model)
        low, value = u.lower, u.value
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
        return self._evaluate(model, moment_of(model))

    def zero_one(self, model: BinaryModel) -> Evaluation:
        """Return the 0-1 objective at a model; ``inf`` where too many margins are below 1."""
        return self._evaluate(model, None)

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        """Return w = 0, for data rows with intercepts 1 and −1 too, and γ = α = 0 of bound 0."""
        zeros, duals = np.zeros(self.y.size), [self.trivial_dual()]
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

    def trivial_dual(self) -> Dual:
        """Return γ = α = 0, and λ = 0 where it is a multiplier."""
        zeros = np.zeros(self.y.size)
        dual: Dual = {"gamma": zeros, "alpha": zeros}
        return dual if self.kappa is None else {**dual, "lam": np.zeros(())}

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """Return the 0-1 problem's interval: the same bound, and the better model or rounding."""
        moment = moment_of(model)
        points = [model, *([] if moment is None or moment.rounded is None else [moment.rounded])]
        found = {"zero_one_upper": min(self.zero_one(point).upper_end for point in points)}
        if dual:
            found["zero_one_lower"] = self.evaluate_dual(dual).lower_end
        return found

    def repair(self, dual: Dual) -> Dual:
        """Take the better of λ as passed and the best λ for γ and α in the cardinality form."""
        if self.kappa is None or self._known(dual) is not None:
            return super().repair(dual)
        repair, lams = super().repair, (self.lam_of(dual), self._best_lam(dual))
        points = [repair({**dual, "lam": np.array(lam)}) for lam in lams]
        best = max(points, key=lambda point: self.evaluate_dual(point).lower_end)
        if self.evaluate_dual(best).lower_end > 0.0:
            return best
        # λ = γ = α = 0 is feasible, with the bound 0.
        return self.trivial_dual()

    def _best_lam(self, dual: Dual) -> float:
        """Return the λ ≥ 0 that maximises D − λκΣs: a quantile of α²/(4γs) with weights s."""
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
        """Return V in the columns of the data, or coefficients of the observations and a ridge."""
        moment = None if model is None else moment_of(model)
        if moment is None:
            return {}
        if moment.coefficients is None:
            return {"V": moment.V} if moment.V.shape[1] else {}
        data = self.space.data
        columns = [full_entry(column, data) for column in moment.coefficients.T]
        return {
            "V_coef": np.column_stack(columns) if columns else np.zeros((data.rows, 0)),
            "ridge": np.array(0.0),
        }

    def explain(self, status: str) -> str:
        if status == "infeasible" and self.kappa is not None:
            return (
                f"no hyperplane keeps all but a share of {self.kappa:g} of the observations outside"
                " the margin, even in the relaxation; raise kappa, or allow an intercept"
            )
        return super().explain(status)

    def model(self, w: Floats, V: Floats, rounded: BinaryModel | None = None) -> BinaryModel:
        return relaxed_model(self.space, w, V, rounded)

    def recover(
        self, w: Floats, V: Floats, duals: Sequence[Dual] = (), lam: float | None = None
    ) -> RecoveredPoints:
        """Return models and dual points from an approximate solution, with λ as a multiplier."""
        space, weight, L, penalised = self.space, self.weight, self.factor, self.lam is not None
        rows = sp.csr_array(sp.diags_array(self.y) @ L) if sp.issparse(L) else self.y[:, None] * L
        height, points = self.lam if penalised else lam, [(w, V)]
        if self.lam is not None:
            points.insert(0, polish(w, V, rows, self.lam * weight))
        elif height is not None and height > 0:
            height, *polished = polish_to_cardinality(
                w, V, rows, weight, lam=height, allowance=self.allowance
            )
            points.insert(0, (polished[0], polished[1]))
        w, V = points[0]
        z = relaxed_indicator(self.y * np.asarray(L @ w), np.sum(np.asarray(L @ V) ** 2, axis=1))
        limit = None if penalised else self.allowance
        best, value = round_relaxation(space, w, z, lam=self.lam, k=limit, stop=current().passed)
        models: list[BinaryModel] = []
        rounded = None
        if math.isfinite(value):
            best, rounded = rounded_point(space, best)
            models.append(self.model(best, np.zeros((w.size, 0)), rounded))
        for w, V in points:
            larger = V if penalised else enlarged_covariance(space, w, V, self.allowance)
            if larger is not None:
                models.append(self.model(w, larger, rounded))
        found: list[Dual] = []
        if height is not None:
            for w, V in points:
                *_, gamma, alpha = low_rank_gradient(w, V, rows, height * weight)
                point: dict[str, Floats] = {"gamma": gamma, "alpha": alpha}
                found.append(point if penalised else {**point, "lam": np.array(height)})
        return RecoveredPoints(models, [*found[:1], *duals, *found[1:]])


@dataclass(frozen=True, eq=False)
class ConicFixedGamma(ConicDual):
    r"""The statement min :math:`q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i)` for given γ.

    Dual points hold ``"alpha"``, optionally a smaller ``"gamma"``: L increases with γ.
    """

    name: ClassVar[str] = "conic_fixed_gamma"
    _scalars: ClassVar[tuple[str, ...]] = ("lam",)
    gamma: Floats
    lam: float

    def extra_arrays(self) -> Mapping[str, Floats]:
        return {"gamma": full_entry(self.gamma, self.space.data)}

    def gamma_of(self, dual: Dual) -> Floats:
        return super().gamma_of(dual) if "gamma" in dual else self.gamma

    def lam_of(self, dual: Dual) -> float:
        return self.lam

    def gamma_upper_bound(self) -> Floats | float:
        return self.gamma

    def evaluate(self, model: BinaryModel) -> Evaluation:
        low = self.margins_of(model).lower
        return Evaluation.of(
            regulariser=self.penalty(model),
            losses=total(
                conic_loss(exact(low), exact(self.gamma), exact(self.lam) * self.loss_weight)
            ),
        )

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        zeros = np.zeros(self.y.size)
        return [self.model_at(np.zeros(self.factor.shape[1]))], [{"gamma": zeros, "alpha": zeros}]

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        if not usable(variables["w"]):
            return RecoveredPoints([], [])
        w = np.asarray(variables["w"], dtype=np.float64)
        duals = [self.repair({"gamma": self.gamma})]
        if multipliers["split"] is not None:
            duals.append({"gamma": self.gamma, "alpha": -np.asarray(multipliers["split"])})
        start = self.minimiser(duals[0])
        # Distances from 1 below which a margin is taken to be 1; the checker chooses.
        near = (1e-6, 1e-4, 1e-2)
        points = [w, start, *(self.minimiser_on_piece(p, d) for p in (w, start) for d in near)]
        return RecoveredPoints([self.model_at(point) for point in points], duals)

    @cached_property
    def spectrum(self) -> tuple[Floats, Floats, float]:
        """Eigenvalues and vectors of Σ γ_i x_i x_i', and the rounding error of the former."""
        values, vectors = sl.eigh(weighted_gram(self.factor, self.gamma), check_finite=False)
        trace = float(self.gamma @ self.squared_row_norms)
        return values, vectors, float(inner_error(sum(self.factor.shape), trace))

    def minimiser(self, dual: Dual) -> Floats:
        """Return the minimiser w of the Lagrangian of a feasible dual point."""
        values, vectors, error = self.spectrum
        c = np.asarray(self.factor.T @ (self.y * (dual["alpha"] - 2.0 * dual["gamma"])))
        return np.asarray(0.5 * vectors @ ((vectors.T @ c) / np.maximum(1.0 - values, error)))

    def minimiser_on_piece(self, w: Floats, near: float) -> Floats:
        r"""Return the minimiser of the quadratic piece of q that `w` lies on.

        Margins within `near` of 1 stay 1; the other losses are 0, λ, or
        :math:`2\sqrt{\lambda\gamma_i}(1-u_i) - \gamma_i(1-u_i)^2`.
        """
        L = self.factor.toarray() if sp.issparse(self.factor) else self.factor
        rows = L * self.y[:, None]
        distance = 1.0 - rows @ w
        kink = np.flatnonzero(np.abs(distance) <= near)
        height = self.lam * self.weight
        curved = np.flatnonzero((distance > near) & (self.gamma * distance**2 < height))
        r, k = L.shape[1], kink.size
        gamma, height = self.gamma[curved], height[curved]
        system = np.zeros((r + k, r + k))
        system[:r, :r] = 2.0 * (np.eye(r) - rows[curved].T @ (gamma[:, None] * rows[curved]))
        system[:r, r:], system[r:, :r] = -rows[kink].T, rows[kink]
        right = np.concatenate(
            [rows[curved].T @ (2.0 * np.sqrt(height * gamma) - 2.0 * gamma), np.ones(k)]
        )
        solution, *_ = sl.lstsq(system, right, check_finite=False)
        return np.asarray(solution[:r])

    def model_at(self, w: Floats, b: float = 0.0) -> BinaryModel:
        """Return the model of `w`, given in the columns of ``space.factor``."""
        u = self.y * np.asarray(self.factor @ w)
        return self.space.model_from_factor(w, support=u <= 1.0 + ON_SUPPORT)


def hard_margin_point(A: Floats) -> LeastNorm:
    """Return the least norm w with margins ≥ 1 on all signed rows, or raise a DataError."""
    found = least_norm(A, None)
    if found is None:
        raise DataError(
            "kappa = 0 allows no margin below 1, and the two classes are not separable in this"
            " feature space; pass a positive kappa, or a richer kernel"
        )
    return found
