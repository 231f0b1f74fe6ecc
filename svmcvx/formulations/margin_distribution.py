r"""The margin distribution family: ODM, the optimal margin distribution machine, and ODML.

**ODM**, :math:`C_1, C_2 > 0`, :math:`0 \le D < 1`, with shares :math:`c_i = s_i / m` of the
weights :math:`s_i` (1 by default) and their sum :math:`m = \sum_i s_i`, so that an observation of
weight k counts as k copies of it:

.. math::
    \min_w\; P(w) = \tfrac12\|w\|^2
    + \sum_i c_i \big(C_1 (1 - D - u_i)_+^2 + C_2 (u_i - 1 - D)_+^2\big), \qquad
    u_i = y_i \langle w, \varphi(x_i)\rangle.

**Dual**, unconstrained in the signed multipliers :math:`\theta = \zeta - \beta`:

.. math::
    \max_\theta\; G(\theta) = \sum_i \theta_i - D \sum_i |\theta_i| - \tfrac12 v'Kv
      - \sum_i \frac{(\theta_i)_+^2}{4 C_1 c_i} - \sum_i \frac{(\theta_i)_-^2}{4 C_2 c_i}, \qquad
      v_i = \theta_i y_i.

The dual of [ZhangZhou] has :math:`\zeta, \beta \ge 0`, twice as many variables. At the optimum

.. math::
    \theta_i = 2 C_1 c_i (1 - D - u_i)_+ - 2 C_2 c_i (u_i - 1 - D)_+, \qquad
    w = \sum_i v_i \varphi(x_i),

and for *every* w the first formula gives a dual point with :math:`P(w) - G(\theta) = \tfrac12\|w -
\sum_i v_i\varphi(x_i)\|^2`.

**ODML**, the hinge loss with the mean and the variance of the margins, :math:`\lambda_1, \lambda_2
\ge 0`, C > 0:

.. math::
    \min_w\; P(w) = \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u
      + C \sum_i c_i (1 - u_i)_+, \qquad
    u_i = y_i \langle w, \varphi(x_i)\rangle,\quad \bar u = \sum_i c_i u_i.

**Dual** [ZhangZhou], with :math:`q = \alpha + \lambda_2 c`, :math:`A = 2\lambda_1(\mathrm{diag}(c)
- (yc)(yc)')` and :math:`H = YG(I + AG)^{-1}Y`, where G is the Gram matrix:

.. math:: \max_{0 \le \alpha \le C c}\; \sum_i \alpha_i - \tfrac12 q'Hq.

A is singular along the labels and is never inverted. With a factor :math:`G = LL'`, :math:`Z = YL`,
and

.. math:: R = I + L'AL, \qquad H = Z R^{-1} Z', \qquad w = R^{-1}Z'q

(push-through), only the r × r matrix R is factored; its eigenvalues are at least 1.

**The certificate** needs no inverse. The variance has its own multipliers τ, and for every α in the
box and every τ of sum 0, with :math:`v_i = y_i(\alpha_i + \lambda_2 c_i - \tau_i)`,

.. math::
    G(\alpha, \tau) = \sum_i \alpha_i - \tfrac12 v'Kv
    - \frac{1}{4\lambda_1} \sum_i \frac{\tau_i^2}{c_i}

is a lower bound (τ = 0 for :math:`\lambda_1 = 0`). The sum of τ is 0 exactly, on a grid of powers
of two. The best τ of a given α is :math:`\tau_i = 2\lambda_1 c_i(u_i - \bar u)` at :math:`w =
R^{-1}Z'q`; it makes :math:`G(\alpha, \tau)` the dual of [ZhangZhou] and :math:`w = \sum_i v_i
\varphi(x_i)`.

**Hard margin**: the same without the hinge loss subject to :math:`u_i \ge 1`; its dual has
:math:`\alpha \ge 0` only.

Scalings against other packages and sources: ``docs/formulations/odm.md``.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import (
    TINY,
    Bounded,
    between,
    by_rows,
    down,
    exact,
    positive_part,
    signed,
    square,
    total,
    weighted_total,
    where,
)
from svmcvx.certificate.exactly import grid_exponent
from svmcvx.data import check_number
from svmcvx.errors import BuildError, DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import CLEARLY_ZERO, BinaryStatement, LossStatement, RecoveredPoints
from svmcvx.losses import slack, variance_multipliers
from svmcvx.model import BinaryModel
from svmcvx.numerical import MarginOperator, conjugate_gradients, solve_support_equations
from svmcvx.system import memory
from svmcvx.system.deadline import OutOfTime, checkpoint, current, interruptible, run_with_deadline

# Smallest share of an observation in the sum of weights.
LEAST_SHARE = 2.0**-300


def objective(squared_norm: Any, u: Any, *, C1: Any, C2: Any, D: Any, share: Any = None) -> Any:
    r"""Return :math:`\tfrac12\|w\|^2 + \sum_i c_i (C_1 (1-D-u_i)_+^2 + C_2 (u_i-1-D)_+^2)`."""
    short, long = _deviations(u, D)
    return 0.5 * squared_norm + weighted_total(
        _share(share, u), C1 * square(short) + C2 * square(long)
    )


def dual_objective(
    theta: Any, squared_norm: Any, *, C1: Any, C2: Any, D: Any, share: Any = None
) -> Any:
    r"""Return :math:`G(\theta)`, with :math:`v'Kv` passed as `squared_norm`."""
    conjugate = theta * (theta / (4.0 * where(theta > 0, C1, C2) * _share(share, theta)))
    return total(theta - D * abs(theta) - conjugate) - 0.5 * squared_norm


def multipliers(
    u: Floats, *, C1: float, C2: float, D: float, share: Floats | float | None = None
) -> Floats:
    """Return θ = 2c (C₁ (1 − D − u)₊ − C₂ (u − 1 − D)₊), minus the derivative of the losses."""
    short, long = _deviations(u, D)
    return np.asarray(2.0 * _share(share, u) * (C1 * short - C2 * long))


def _deviations(u: Any, D: Any) -> tuple[Any, Any]:
    return positive_part(1.0 - D - u), positive_part(u - (1.0 + D))


def mean_weights(space: Any, **given: float | None) -> tuple[float, ...]:
    """Return weights of mean losses, checked; for None the sum of the observations' weights, by
    which the losses are summed.
    """
    return tuple(
        space.data.total_weight
        if value is None
        else check_number(value, name, "[0, inf)" if name == "C" else "")
        for name, value in given.items()
    )


def _share(share: Any, like: Any) -> Any:
    return 1.0 / like.size if share is None else share


@dataclass(frozen=True, eq=False)
class ODMStatement(BinaryStatement):
    """A statement without a free intercept and with averaged losses."""

    @cached_property
    def share(self) -> Floats:
        """Shares of the weights, of sum 1, rounded."""
        found = self.weight / self.space.data.total_weight
        smallest = float(found.min(initial=1.0))
        if not smallest >= LEAST_SHARE:
            raise DataError(
                f"sample_weight gives an observation the share {smallest:.3g} of the sum of"
                f" weights, below {LEAST_SHARE:.3g}, where losses underflow; leave it out by a"
                " weight of zero"
            )
        return found

    @cached_property
    def bounded_share(self) -> Bounded:
        """The shares with their errors; a number where all are equal."""
        if (self.weight == self.weight[0]).all():
            return exact(1.0) / float(self.weight.size)
        return exact(self.weight) / self.space.data.bounded_weight

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {**super().hyperparameters, "intercept": self.space.intercept == "penalised"}


@dataclass(frozen=True, eq=False)
class ODM(ODMStatement, LossStatement):
    name: ClassVar[str] = "odm"
    _scalars: ClassVar[tuple[str, ...]] = ("C1", "C2", "D")
    _multiplier: ClassVar[str] = "theta"
    C1: float
    C2: float
    D: float

    @property
    def priced(self) -> Bounded:
        return self.bounded_share

    def losses_at(self, u: Bounded, weight: Any) -> Bounded:
        found: Bounded = objective(0.0, u, share=weight, **self.exact_scalars)
        return found

    def minus_conjugates_at(self, multipliers: Bounded, weight: Any) -> Bounded:
        found: Bounded = dual_objective(multipliers, 0.0, share=weight, **self.exact_scalars)
        return found

    def margins_at(self, w: Floats) -> Floats:
        return np.asarray(self.y * (self.space.factor @ w))

    def multipliers(self, u: Floats) -> Floats:
        return multipliers(u, C1=self.C1, C2=self.C2, D=self.D, share=self.share)

    def repair(self, dual: Dual) -> Dual:
        return {"theta": self.entry(dual, "theta")}

    def dual_violation(self, dual: Dual) -> float:
        return 0.0 if np.isfinite(self.entry(dual, "theta")).all() else math.inf

    def multipliers_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> Dual:
        w = np.asarray(variables["w"], dtype=np.float64)
        return {"theta": self.multipliers(self.margins_at(w))}

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        return [self.space.model(np.zeros(self.y.size))], [{"theta": np.zeros(self.y.size)}]

    def dominates_trivial_bounds(self, upper: float, lower: float) -> bool:
        """Return whether w = 0, of C₁(1 − D)², and θ = 0 are no better."""
        return lower >= 0.0 and upper < self.C1 * (1.0 - self.D) ** 2 * (1.0 - 1e-9)

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        w, eta = variables.get("w"), variables.get("eta")
        if w is not None:
            return self.recover(self.multipliers(self.margins_at(w)), w)
        if variables.get("zeta_scaled") is not None:
            eta = variables["zeta_scaled"] - variables["beta_scaled"]
        scale = 2.0 * self.C1 * self.share
        return RecoveredPoints([], []) if eta is None else self.recover(scale * eta)

    def model_at(self, w: Floats, b: float = 0.0) -> BinaryModel:
        return self.space.model_from_factor(w, support=self.multipliers(self.margins_at(w)) != 0)

    def recover(self, theta: Floats, w: Floats | None = None) -> RecoveredPoints:
        """Return models and multipliers; the first ones, if any, are polished to rounding."""
        u = (
            self.y * self.space.point(theta * self.y).scores.value
            if w is None
            else self.margins_at(w)
        )
        points = [theta]
        polished = self._polish(u)
        if polished is not None:
            points, w = [polished[0], theta], polished[1]
        models: list[BinaryModel] = [self.space.model(point * self.y) for point in points]
        if w is not None:
            models.append(self.space.model_from_factor(w, support=points[0] != 0))
        return RecoveredPoints(
            models, [{"theta": point} for point in (*points, self.multipliers(u), np.zeros(u.size))]
        )

    def _polish(self, u: Floats) -> tuple[Floats, Floats | None] | None:
        r"""Return θ of P's minimiser, and w if it is solved for, by Newton's method from `u`.

        P is piecewise quadratic; the method ends when the set A of margins outside the band stays.
        On A the conditions are :math:`\theta_A = S (t - u_A)` with :math:`S = \mathrm{diag}(2 C c)`
        and the ends t of the band: :math:`(S^{-1} + Q_{AA}) \theta_A = t`, or if that is smaller
        :math:`(I + Z_A' S Z_A) w = Z_A' S t`, with :math:`Z = YL`, :math:`Q = ZZ'`.
        """
        L, c = self.space.factor, self.share
        theta: Floats = np.zeros(u.size)
        w: Floats | None = None
        for _ in range(40):
            short, long = u < 1.0 - self.D, u > 1.0 + self.D
            rows = np.flatnonzero(short | long)
            # A system of more unknowns takes seconds.
            if min(rows.size, L.shape[1]) > 4000 or current().passed():
                return None
            stiffness = 2.0 * c[rows] * np.where(short[rows], self.C1, self.C2)
            end = np.where(short[rows], 1.0 - self.D, 1.0 + self.D)
            part = self.y[rows, None] * (L[rows].toarray() if sp.issparse(L) else L[rows])
            theta, w = np.zeros(u.size), None
            try:
                if rows.size <= L.shape[1]:
                    system = part @ part.T
                    system[np.diag_indices(rows.size)] += 1.0 / stiffness
                    factor = sl.cho_factor(system, lower=True, overwrite_a=True)
                    theta[rows] = sl.cho_solve(factor, end)
                    u = self.y * np.asarray(L @ (part.T @ theta[rows]))
                else:
                    # As a least-squares problem, by an orthogonal factor: squaring Z would lose its
                    # digits.
                    root = np.sqrt(stiffness)
                    stacked = np.vstack([root[:, None] * part, np.eye(L.shape[1])])
                    orthogonal, upper = sl.qr(stacked, mode="economic", overwrite_a=True)
                    w = sl.solve_triangular(upper, orthogonal[: rows.size].T @ (root * end))
                    u = self.margins_at(w)
                    theta[rows] = stiffness * (end - u[rows])
            except (ValueError, sl.LinAlgError):
                return None
            if np.array_equal(short, u < 1.0 - self.D) and np.array_equal(long, u > 1.0 + self.D):
                break
        return theta, w


def centred(tau: Floats, share: Floats) -> Floats:
    """Return `tau` less its sum in shares, on a grid with sum exactly 0; unchanged if it is 0."""
    total = exact_sum(tau) if np.isfinite(tau).all() else math.inf
    if total == 0.0:
        return tau
    # A share is at most 1.
    largest = float(np.abs(tau).max()) + abs(total)
    if not math.isfinite(largest):
        return np.zeros(tau.size)
    exponent = grid_exponent(largest, tau.size)
    units = np.rint(np.ldexp(tau - share * total, -exponent)).astype(np.int64)
    each, rest = divmod(int(units.sum()), tau.size)
    units -= each
    if rest:
        units[np.argpartition(-share, rest - 1)[:rest]] -= 1
    return np.ldexp(units.astype(np.float64), exponent)


def exact_sum(values: Floats) -> float:
    """Return the sum, rounded once: 0 only if it is; infinite where it overflows."""
    try:
        return math.fsum(values.tolist())
    except OverflowError:
        return math.inf


@dataclass(frozen=True, eq=False)
class MarginHessian:
    """The matrix :math:`R = I + L'AL` of the quadratic part of P in the columns of the factor L."""

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
            R = (
                2.0
                * self.lam1
                * ((L.T @ sp.diags_array(self.share) @ L).toarray() - np.outer(mean, mean))
            )
            R[np.diag_indices(r)] += 1.0
            try:
                return np.asarray(sl.cholesky(R, lower=True, overwrite_a=True, check_finite=False))
            except sl.LinAlgError:
                # The mean is so large that the difference has lost its digits: form the centred
                # margins instead.
                L = L.toarray()
        self._require(3.0 * (n + r) * r)
        margins = self.space.data.y[:, None] * L
        centred = np.sqrt(2.0 * self.lam1 * self.share)[:, None] * (margins - self.share @ margins)
        # The trace of L'AL, and with it the condition of R, costs at most four digits.
        if float(np.vdot(centred, centred)) <= 1e4:
            R = run_with_deadline(np.matmul, centred.T, centred)
            R[np.diag_indices(r)] += 1.0
            return np.asarray(run_with_deadline(np.linalg.cholesky, R))
        # R is the Gram matrix of the identity stacked on the centred margins, so T is the triangle
        # of their QR factor.
        upper: Any = run_with_deadline(np.linalg.qr, np.vstack([np.eye(r), centred]), "r")
        return np.ascontiguousarray(upper.T)

    def _require(self, entries: float) -> None:
        memory.require(
            8.0 * entries,
            f"the matrix of the margin variance in {self.space.factor.shape[1]} dimensions",
            "use fewer observations or features, or a specialised solver",
        )

    def solve(self, g: Floats) -> Floats:
        """Return ``w`` with ``R w = g``."""
        return np.asarray(sl.cho_solve((self.triangle, True), g, check_finite=False))

    @property
    def by_products(self) -> bool:
        """Whether R of a linear space is too large to be factored only to repair a dual point."""
        if not self.space.is_linear:
            return False
        X = self.space.X
        n, d = X.shape
        # Sparse data would become dense.
        return bool(min(n, d) > 2500 or (sp.issparse(X) and (d > n or n * d > 1e8)))

    def solve_by_products(self, v: Floats) -> Floats:
        """Return ``w`` in the columns of the data X with ``R w = X'v``, by conjugate gradients."""
        X, y, c = self.space.X, self.space.data.y, self.share

        def product(w: Floats) -> Floats:
            u = y * np.asarray(X @ w)
            return np.asarray(w + X.T @ (y * variance_multipliers(u, self.lam1, c)))

        squares = X.multiply(X) if sp.issparse(X) else X**2
        mean = np.asarray(X.T @ (y * c))
        diagonal = 1.0 + 2.0 * self.lam1 * np.maximum(np.asarray(squares.T @ c) - mean**2, 0.0)
        right = np.asarray(X.T @ v)
        return conjugate_gradients(
            product, right, lambda r: r / diagonal, accuracy=1e-10, limit=1000
        ).x

    def whitened(self, rows: Any = slice(None)) -> Floats:
        """Return the rows of N with ``N N' = H``, that is ``N = Z T^{-T}``."""
        part = self.space.factor[rows]
        found = self.space.data.y[rows, None] * (part.toarray() if sp.issparse(part) else part)
        # A few rows at a time, so that Ctrl-C need not wait for all.
        for start in range(0, found.shape[0], 512):
            checkpoint()
            some = slice(start, start + 512)
            found[some] = sl.solve_triangular(
                self.triangle, found[some].T, lower=True, check_finite=False
            ).T
        return np.asarray(found)


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
    """Return the ODML objective, with the variance `around` the mean by default, the least one."""
    c = 1.0 / u.size if share is None else share
    m = weighted_total(c, u) if around is None else around
    return 0.5 * squared_norm + weighted_total(c, lam1 * square(u - m) - lam2 * u + C * slack(u))


def odml_dual_objective(
    alpha: Any, tau: Any, squared_norm: Any, *, lam1: Any, share: Any = None
) -> Any:
    r"""Return :math:`G(\alpha, \tau)`, given :math:`v'Kv`; τ is ignored for λ₁ = 0."""
    c = 1.0 / alpha.size if share is None else share
    terms = alpha - tau * (tau / (4.0 * lam1 * c)) if lam1 > 0 else alpha
    return total(terms) - 0.5 * squared_norm


@dataclass(frozen=True, eq=False)
class _ODML(ODMStatement):
    _scalars: ClassVar[tuple[str, ...]] = ("lam1", "lam2")
    lam1: float
    lam2: float

    @cached_property
    def curvature(self) -> MarginHessian:
        return MarginHessian(self.space, self.share, self.lam1)

    def at(self, **values: float) -> Self:
        found = super().at(**values)
        if found.lam1 == self.lam1:
            vars(found)["curvature"] = self.curvature
        return found

    def upper_bound(self) -> Floats:
        return np.full(self.y.size, np.inf)

    def variance_multipliers(self, u: Floats) -> Floats:
        return variance_multipliers(u, self.lam1, self.share)

    def normal(self, alpha: Floats) -> Floats:
        """Return the Lagrangian's minimiser ``w = R^{-1} Z'(α + λ₂c)`` in the factor's columns."""
        return self.curvature.solve(
            np.asarray(self.space.factor.T @ (self.y * (alpha + self.lam2 * self.share)))
        )

    def margins(self, alpha: Floats) -> Floats:
        return np.asarray(self.y * (self.space.factor @ self.normal(alpha)))

    def _best_tau(self, alpha: Floats) -> Floats:
        """Return the best τ of α, for large R to the accuracy of conjugate gradients."""
        if not self.curvature.by_products:
            return self._refined_tau(alpha)
        w = self.curvature.solve_by_products(self.y * (alpha + self.lam2 * self.share))
        return self.variance_multipliers(np.asarray(self.y * (self.space.X @ w)))

    def _refined_tau(self, alpha: Floats) -> Floats:
        r"""Return the best τ of α from a normal that is refined twice.

        A residual r of :math:`w = \sum_i v_i\varphi(x_i)` costs the bound at most
        :math:`\tfrac12\|r\|^2`; on data with a large offset w loses digits.
        """
        L, w = self.space.factor, self.normal(alpha)
        tau = np.zeros(alpha.size)
        for _ in range(3):
            tau = self.variance_multipliers(np.asarray(self.y * (L @ w)))
            w = w + self.curvature.solve(np.asarray(L.T @ self.expansion(alpha, tau)) - w)
        return tau

    def expansion(self, alpha: Floats, tau: Floats) -> Floats:
        r"""Return v of :math:`w = \sum_i v_i \varphi(x_i)`."""
        return self.y * (alpha + self.lam2 * self.share - tau)

    def repair(self, dual: Dual) -> Dual:
        """Clip α to its box and take the best τ of sum exactly 0; an inexact τ weakens the bound.

        In blocks, or where time is up before R is factored, the point's own τ is centred.
        """
        alpha = np.clip(self.entry(dual, "alpha"), 0.0, self.upper_bound())
        # Where the minimiser of the Lagrangian is 0, so are its margins.
        at_rest = self.lam2 == 0 and not alpha.any()
        if self.lam1 == 0 or not np.isfinite(alpha).all() or at_rest:
            return {"alpha": alpha, "tau": np.zeros(alpha.size)}
        tau = self.entry(dual, "tau") if "tau" in dual else np.zeros(alpha.size)
        if not self.space.blockwise:
            with suppress(OutOfTime), interruptible():
                tau = self._best_tau(alpha)
        return {"alpha": alpha, "tau": centred(tau, self.share)}

    def _point(self, dual: Dual) -> tuple[Floats, Floats]:
        alpha = self.entry(dual, "alpha")
        return alpha, self.entry(dual, "tau") if "tau" in dual else self.repair(dual)["tau"]

    def dual_violation(self, dual: Dual) -> float:
        alpha = self.entry(dual, "alpha")
        tau = self.entry(dual, "tau") if "tau" in dual else np.zeros(alpha.size)
        if not (np.isfinite(alpha).all() and np.isfinite(tau).all()):
            return math.inf
        uncentred = abs(exact_sum(tau)) if self.lam1 > 0 else float(np.abs(tau).max())
        return max(0.0, float(-alpha.min()), float((alpha - self.upper_bound()).max()), uncentred)

    def evaluate_dual(self, dual: Dual) -> Bounded:
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
        alpha, tau = (exact(values) for values in self._point(dual))
        found: Bounded = by_rows(
            lambda a, t, c: odml_dual_objective(a, t, 0.0, lam1=exact(self.lam1), share=c),
            alpha,
            tau,
            self.bounded_share,
        )
        return found

    def coefficients(self, dual: Dual) -> Bounded:
        alpha, tau = self._point(dual)
        q = exact(alpha)
        if self.lam2 > 0:
            q = q + exact(self.lam2) * self.bounded_share
        return signed(self.y, q - tau if tau.any() else q)

    def value_at(self, u: Bounded, squared_norm: Bounded, C: float) -> Evaluation:
        """Return an upper bound on P by margins, a squared norm and the hinge weighted by C."""
        mean = float(self.share @ u.value)
        parameters = {"lam1": exact(self.lam1), "lam2": exact(self.lam2), "C": exact(C)}
        losses = by_rows(
            lambda u, c: odml_objective(0.0, u, share=c, around=mean, **parameters),
            u,
            self.bounded_share,
        )
        return Evaluation.of(regulariser=0.5 * squared_norm, losses=losses)

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        if self.lam2 > 0 and (self.space.blockwise or self.curvature.by_products):
            return [], []
        return [], [{"alpha": np.zeros(self.y.size), "tau": np.zeros(self.y.size)}]

    def _polish(self, alpha: Floats) -> Floats | None:
        """Solve u = 1 on the observations inside their box; None if that fails."""
        upper_bound, u = self.upper_bound(), self.margins(alpha)
        if not upper_bound.any():
            return None
        typical = np.minimum(upper_bound, max(float(alpha.max()), TINY))
        inside = alpha >= CLEARLY_ZERO * (u - 1.0) * typical
        above = (
            inside
            & np.isfinite(upper_bound)
            & (1.0 - alpha / upper_bound < CLEARLY_ZERO * (1.0 - u))
        )

        def gram(rows: NDArray[np.intp]) -> Floats:
            part = self.curvature.whitened(rows)
            return part @ part.T

        return solve_support_equations(
            MarginOperator(self.margins, gram, None),
            np.where(above, upper_bound, np.where(inside, alpha, 0.0)),
            free=inside & ~above,
            upper_bound=upper_bound,
            stop=current().passed,
        )

    def recover_from(
        self, variables: Mapping[str, Any], multipliers: Mapping[str, Any]
    ) -> RecoveredPoints:
        w, alpha = variables.get("w"), multipliers.get("margin")
        if w is not None:
            return self.recover(np.zeros(self.y.size) if alpha is None else alpha, w)
        beta = variables.get("beta")
        return RecoveredPoints([], []) if beta is None else self.recover(self.upper_bound() * beta)

    @abstractmethod
    def recover(self, alpha: Floats, w: Floats | None = None) -> RecoveredPoints:
        """Return models and multipliers near approximate multipliers and a normal."""

    def _points(self, alpha: Floats) -> list[Floats]:
        """Return the multipliers polished (if that succeeds), as they are, and zero."""
        clipped = np.clip(alpha, 0.0, self.upper_bound())
        polished = self._polish(clipped)
        return [*([] if polished is None else [polished]), clipped, np.zeros(clipped.size)]

    def minimiser(self, alpha: Floats) -> tuple[Floats, Floats]:
        """Return coefficients v of the Lagrangian's minimiser, and w in the factor's columns."""
        w = self.normal(alpha)
        return (
            self.expansion(
                alpha, self.variance_multipliers(self.y * np.asarray(self.space.factor @ w))
            ),
            w,
        )


@dataclass(frozen=True, eq=False)
class ODML(_ODML):
    name: ClassVar[str] = "odml"
    _scalars: ClassVar[tuple[str, ...]] = ("lam1", "lam2", "C")
    C: float

    def upper_bound(self) -> Floats:
        return self._upper_bound

    @cached_property
    def _upper_bound(self) -> Floats:
        s = self.weight
        if (s == s[0]).all():
            box = Fraction(self.C) / s.size
            nearest = float(box)
            return np.full(s.size, nearest if Fraction(nearest) <= box else down(nearest))
        found: Floats = np.maximum((exact(self.C) * self.bounded_share).lower, 0.0)
        return found

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        return [self.space.model(np.zeros(self.y.size))], super().trivial()[1]

    def evaluate(self, model: BinaryModel) -> Evaluation:
        return self.value_at(self.margins_of(model), self.penalty(model), self.C)

    def recover(self, alpha: Floats, w: Floats | None = None) -> RecoveredPoints:
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
    r"""The hard-margin ODML bound to data: :math:`u_i \ge 1` in place of the hinge loss."""

    name: ClassVar[str] = "odml_hard_margin"

    def evaluate(self, model: BinaryModel) -> Evaluation:
        u, squared_norm = self.margins_of(model), self.penalty(model)
        if not ((u.value >= 1.0 - 2.0 * u.error).all() and u.least > 0.0):
            return Evaluation(math.inf, 0.0)
        if u.least < 1.0:
            smallest = between(u.least, 1.0)
            u, squared_norm = u / smallest, squared_norm / square(smallest)
        return self.value_at(u, squared_norm, 0.0)

    def model_of(self, variables: Mapping[str, Any]) -> BinaryModel | None:
        raise BuildError(
            "the variables of a hard margin are no model of this statement, because a solver leaves"
            " margins just below 1; pass holds= to with_constraints to say of a model whether it"
            " meets them"
        )

    def explain(self, status: str) -> str:
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
