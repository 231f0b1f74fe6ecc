r"""The dual of the conic loss: D(γ, α), the repair of γ, and the best α for a given γ.

The symbols are those of :mod:`svmcvx.formulations.conic_loss.statement`. For fixed γ the best α
comes from the minimiser of the convex function :math:`q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i)`,
found by Newton's method on smoothed losses.

**Rounding.** D is evaluated with the feature vectors themselves, that is with K and not with a
factor of it, at a γ that is proved to be feasible: :mod:`svmcvx.formulations.conic_loss.geometry`.

Source: [CepedaGomezHan], Proposition 1 and eq. (14).
"""

from __future__ import annotations

import math
import warnings
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual
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
from svmcvx.formulations.base import BinaryStatement
from svmcvx.formulations.conic_loss.geometry import (
    ConicMultipliers,
    Geometry,
    WeightedSpectrum,
    geometry_of,
)
from svmcvx.formulations.conic_loss.primal import weighted_gram
from svmcvx.kernels import row_norms
from svmcvx.numerical import NewtonStep, newton
from svmcvx.system.deadline import current

__all__ = ["ConicDual", "dual_objective", "same_point"]

Floats: TypeAlias = NDArray[np.float64]

# Relative distances of a repaired γ from the boundary of λ_max(Σ γ_i x_i x_i') ≤ 1. Near the
# boundary Q⁻¹ amplifies the errors of γ and α; further inside the bound is looser. The best of
# these is taken.
INTERIORS = (1e-11, 1e-9, 1e-7, 1e-5)
# Widths of the smoothing of the conic loss at u = 1, in units of the margin, while q is minimised.
SMOOTHINGS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
NEWTON_STEPS = 30
# Number of cached spectra and repaired points: the checker uses the same ones several times.
KEPT = 4
# Times that scaled γ may have been rounded: each repair of a scaled point takes two.
SCALED = 16
# What multipliers are multiplied by where h* is to be 0 in spite of its rounding.
CAPPED = 1.0 - 2.0**-48
# γ below this is taken to be 0, so that no scaled one is subnormal.
NEGLIGIBLE = 1e-290


@quietly
def conjugate(alpha: Any, gamma: Any, height: Any) -> Any:
    r"""Return :math:`h^*(\alpha) = (\alpha_+^2/(4\gamma) - \lambda s)_+ + \alpha_-^2/(4\gamma)`;
    for γ = 0 the indicator of α = 0.

    Of plain arrays, or of bounded ones without an error.
    """
    sign = parts_of(alpha)[0]
    quarter = where(sign == 0.0, np.zeros(sign.shape), alpha / (4.0 * gamma) * alpha)
    return where(sign > 0.0, positive_part(quarter - height), quarter)


def minus_conjugate(gamma: Any, alpha: Any, *, lam: Any, weight: Any = 1.0) -> Any:
    r"""Return :math:`\sum_i (\alpha_i - \gamma_i - h_i^*(\alpha_i))`."""
    return total(alpha) - total(gamma) - total(conjugate(alpha, gamma, lam * weight))


# Of multipliers that are not proved to be feasible.
NOTHING = Bounded(-math.inf, 0.0)


class _Spectrum(NamedTuple):
    """A γ with the curvature of that γ divided by `scale`."""

    gamma: Floats
    curvature: WeightedSpectrum
    scale: float

    @property
    def top(self) -> float:
        """Proved to be at least λ_max(Σ γ_i x_i x_i'); the rounding of the scaled γ included."""
        return top_of(self.curvature.top, self.scale)


def top_of(top: float, scale: float) -> float:
    """Return a number that is at least an eigenvalue for scaled γ, which are products that were
    rounded a few times.
    """
    return float((exact(scale) * top * Bounded(1.0, roundings(SCALED))).upper)


def dual_objective(
    gamma: Floats, alpha: Floats, L: Floats, y: Floats, *, lam: float, weight: Floats | float = 1.0
) -> float:
    r"""Return :math:`D(\gamma, \alpha)`, −inf unless γ ≥ 0 and :math:`\sum_i\gamma_i x_i x_i' \prec
    I`.
    """
    Q = np.eye(L.shape[1]) - L.T @ (gamma[:, None] * L)
    try:
        factor = sl.cho_factor(Q)
    except sl.LinAlgError:
        return -math.inf
    c = L.T @ (y * (alpha - 2.0 * gamma))
    if (gamma < 0).any():
        return -math.inf
    return float(minus_conjugate(gamma, alpha, lam=lam, weight=weight)) - 0.25 * float(
        c @ sl.cho_solve(factor, c)
    )


@dataclass(frozen=True, eq=False)
class ConicDual(BinaryStatement):
    """The dual that the relaxation and the problem of fixed γ share."""

    improve_alpha: bool = field(default=True, kw_only=True)

    @property
    def factor(self) -> Any:
        """Dense or sparse matrix `L`."""
        return self.space.factor

    def alpha_of(self, dual: Dual) -> Floats | None:
        """α of a dual point, for the observations of positive weight; None if it has no α."""
        return self.entry(dual, "alpha") if "alpha" in dual else None

    def gamma_of(self, dual: Dual) -> Floats:
        """γ of a dual point, for the observations of positive weight."""
        return self.entry(dual, "gamma")

    @abstractmethod
    def lam_of(self, dual: Dual) -> float:
        """The weight of the losses that belongs to a dual point."""

    def dual_constant(self, lam: float) -> Bounded:
        """The terms of the dual objective that do not depend on γ and α."""
        return exact(0.0)

    def _alpha_candidates(self, alpha: Floats, gamma: Floats, lam: float) -> list[Floats]:
        """α itself, and capped where even the upper end of h* is 0; both with α = 0 where γ = 0, as
        h* is infinite elsewhere.

        Where λ is large its rounding would cost more than the whole objective.
        """
        return [np.where(gamma > 0, alpha, 0.0), self.capped(alpha, gamma, lam)]

    def capped(self, alpha: Floats, gamma: Floats, lam: float) -> Floats:
        """Return α where γ > 0, and so small that even the upper end of h* is 0; 0 elsewhere."""
        with np.errstate(over="ignore"):
            cap = 2.0 * np.sqrt(lam) * np.sqrt(self.weight) * np.sqrt(gamma) * CAPPED
        return np.asarray(np.minimum(np.where(gamma > 0, alpha, 0.0), cap))

    def minus_conjugate_of(self, gamma: Floats, alpha: Floats, lam: float) -> Bounded:
        """Σ (α − γ − h*)."""
        found: Bounded = minus_conjugate(
            exact(gamma), exact(alpha), lam=exact(lam), weight=self.loss_weight
        )
        return found

    @cached_property
    def geometry(self) -> Geometry:
        """The feature vectors, for bounds that do not rest on a factor of K."""
        return geometry_of(self.space)

    def spectrum(self, gamma: Floats) -> tuple[Floats, Floats, float]:
        """Return eigenvalues and vectors of Σ γ_i x_i x_i' in the columns of the factor, and the
        rounding error of the former.
        """
        values, vectors = sl.eigh(weighted_gram(self.factor, gamma), check_finite=False)
        return values, vectors, self.spectrum_error(gamma)

    def spectrum_error(self, gamma: Floats) -> float:
        """Return the rounding error of the eigenvalues of :meth:`spectrum`."""
        trace = float(np.abs(gamma) @ self.squared_row_norms)
        return float(inner_error(gamma.size + self.factor.shape[1], trace))

    @cached_property
    def _spectra(self) -> list[_Spectrum]:
        """The spectra that were used last."""
        return []

    @cached_property
    def _repaired(self) -> list[Dual]:
        """The points that were repaired last."""
        return []

    def _spectrum_of(self, gamma: Floats) -> _Spectrum:
        for known in self._spectra:
            if np.array_equal(known.gamma, gamma):
                return known
        return self._keep(_Spectrum(gamma.copy(), self.geometry.curvature(gamma), 1.0))

    def _keep(self, found: _Spectrum) -> _Spectrum:
        self._spectra.insert(0, found)
        del self._spectra[KEPT:]
        # At most two matrices of eigenvectors are cached: scaled multipliers share one.
        while len({id(known.curvature) for known in self._spectra}) > 2:
            self._spectra.pop()
        return found

    @cached_property
    def squared_row_norms(self) -> Floats:
        """Squared norms of the rows of the factor."""
        return row_norms(self.factor) ** 2

    def _multipliers(
        self, gamma: Floats, alpha: Floats, curvature: WeightedSpectrum, scale: float
    ) -> ConicMultipliers:
        rows = curvature.rows
        return ConicMultipliers(gamma[rows], alpha[rows], self.y[rows], scale)

    def _charges(self, gamma: Floats, alphas: list[Floats], lam: float) -> list[float]:
        """Return Σ h* of several α from above, up to the rounding of the sums; that of h* may cost
        more than the whole objective.
        """
        charged = conjugate(
            exact(np.array(alphas)), exact(gamma), exact(lam) * self.loss_weight
        ).upper
        found: list[float] = np.sum(charged, axis=1).tolist()
        return found

    @quietly
    def _estimate(
        self,
        gamma: Floats,
        alpha: Floats,
        charge: float,
        lam: float,
        base: _Spectrum,
        scale: float,
        gradient: float,
    ) -> float:
        """D approximately, from Σ h*, less what a gradient of this norm would cost."""
        lowest = 1.0 - scale * base.top
        if not lowest > 0 or (alpha[gamma == 0] != 0).any():
            return -math.inf
        least = self.geometry.guess(
            base.curvature, self._multipliers(gamma, alpha, base.curvature, scale * base.scale)
        )
        value = float(np.sum(alpha - gamma)) - charge + least + self.dual_constant(lam).lower_end
        value -= gradient**2 / (4.0 * lowest)
        return value if math.isfinite(value) else -math.inf

    # Multipliers so large that they overflow give the bound −∞.
    @quietly
    def _bound(
        self, gamma: Floats, alpha: Floats, lam: float, spectrum: _Spectrum
    ) -> tuple[Bounded, float]:
        """D at feasible multipliers, less what the norm of the gradient may cost, and at most that
        norm.
        """
        mu = (1.0 - exact(spectrum.top)).lower
        found, gradient = self.minus_conjugate_of(gamma, alpha, lam) + self.dual_constant(lam), 0.0
        if not mu > 0 or (gamma < 0).any() or (alpha[gamma == 0] != 0).any():
            return NOTHING, math.inf
        if spectrum.curvature.rows.size:
            m = self._multipliers(gamma, alpha, spectrum.curvature, spectrum.scale)
            least = self.geometry.minimum(spectrum.curvature, m, mu)
            found, gradient = found + least.bound, least.gradient.upper_end
        return (found, gradient) if math.isfinite(found.lower_end) else (NOTHING, math.inf)

    def minimiser(self, dual: Dual) -> Floats:
        """Return the minimiser w of the Lagrangian of a feasible dual point, in the columns of
        ``space.factor``.
        """
        gamma, alpha = self.gamma_of(dual), self.alpha_of(dual)
        values, vectors, error = self.spectrum(gamma)
        error = max(error, EPS)
        c = np.asarray(self.factor.T @ (self.y * ((0.0 if alpha is None else alpha) - 2.0 * gamma)))
        return np.asarray(0.5 * vectors @ ((vectors.T @ c) / np.maximum(1.0 - values, error)))

    def _alphas_by_newton(self, gamma: Floats, lam: float) -> list[Floats]:
        """Minimise q(w) = ‖w‖² + Σ L(u_i; γ_i) from w = 0 and return the α at the minimum for each
        width of smoothing.

        Newton's method with a line search. :math:`h = L + γ(1-u)²` is smoothed at u = 1, with a
        width that shrinks. Where the time of the call is up, the α are those of the points that
        were reached.
        """
        rows = np.flatnonzero(gamma > 0)
        if rows.size == 0 or lam == 0:
            return [np.zeros(gamma.size)]
        L = self.factor[rows]
        A = (L.toarray() if sp.issparse(L) else L) * self.y[rows, None]
        bend, height = gamma[rows], lam * self.weight[rows]
        # Roots before products, so that a tiny γ does not underflow; the knee √(λs/γ) may be
        # infinite.
        with np.errstate(over="ignore"):
            slope, knee = np.sqrt(bend) * np.sqrt(height), np.sqrt(height) / np.sqrt(bend)
        lagrangian, found = _SmoothedLagrangian(A, bend, slope, knee, current().passed), []
        for width in SMOOTHINGS:
            lagrangian.smooth(width)
            newton(lagrangian)
            alpha = np.zeros(gamma.size)
            alpha[rows] = lagrangian.multipliers()
            found.append(alpha)
            if lagrangian.stop():
                break
        return found

    def gamma_upper_bound(self) -> Floats | float:
        """Upper bound on a feasible γ; none by default."""
        return math.inf

    @quietly
    def repair(self, dual: Dual) -> Dual:
        """Clip γ to its bounds, scale it so that λ_max(Σ γ_i x_i x_i') < 1 is proved, and choose
        the α with the best bound.

        The candidates are γ at the distances :data:`INTERIORS` from the boundary, with α as passed
        (scaled by the root of the same factor, which leaves α²/γ unchanged) and with the α of a
        minimiser of q, unless `improve_alpha` is off and an α was passed. A point that has been
        repaired stays as it is.
        """
        for known in self._repaired:
            if same_point(known, dual):
                return known
        gamma = np.clip(
            np.nan_to_num(self.gamma_of(dual), posinf=0.0), 0.0, self.gamma_upper_bound()
        )
        gamma = np.where(gamma < NEGLIGIBLE, 0.0, gamma)
        if not gamma.any():
            return {"gamma": gamma, "alpha": np.zeros_like(gamma)}
        lam, given = self.lam_of(dual), self.alpha_of(dual)
        # λ_max is at least each of the terms γ_i‖x_i‖².
        largest = float(gamma.max(initial=0.0))
        if largest > 0:
            share = gamma / largest
            longest = float(np.max(share * self.geometry.norms * self.geometry.norms))
            if longest > 0 and largest > 2.0 / longest:
                gamma = share / longest
        base = self._spectrum_of(gamma)
        top = base.top
        scales = sorted(
            {min(1.0, 1.0 / (top * (1.0 + interior))) if top > 0 else 1.0 for interior in INTERIORS}
        )
        scales = [scale for scale in scales if top_of(top, scale) < 1.0]
        best = {"gamma": np.zeros_like(gamma), "alpha": np.zeros_like(gamma)}
        best_value, best_scale, gradient = (
            0.0 if self.dual_constant(lam).value == 0 else -math.inf,
            None,
            None,
        )

        def scaled(scale: float) -> _Spectrum:
            return _Spectrum(
                gamma * scale if scale != 1.0 else gamma, base.curvature, base.scale * scale
            )

        def update_best(scale: float, alphas: list[Floats], charges: list[float]) -> None:
            nonlocal best, best_value, best_scale, gradient
            point = scaled(scale)
            for alpha, charge in zip(alphas, charges, strict=True):
                if gradient is None:
                    # The error of the gradient hardly depends on the distance from the boundary.
                    norm = self._bound(point.gamma, alpha, lam, point)[1]
                    gradient = norm if math.isfinite(norm) else None
                value = self._estimate(
                    point.gamma, alpha, charge, lam, base, scale, gradient or 0.0
                )
                if value > best_value:
                    best, best_value, best_scale = (
                        {"gamma": point.gamma, "alpha": alpha},
                        value,
                        scale,
                    )

        if given is not None:
            candidates = self._alpha_candidates(np.nan_to_num(given), gamma, lam)
            charges = self._charges(gamma, candidates, lam)
            # α²/γ is the same for all scales, and with it h*.
            for scale in scales:
                update_best(scale, [math.sqrt(scale) * alpha for alpha in candidates], charges)
        if best_scale is None or self.improve_alpha:
            for scale in scales if best_scale is None else [best_scale]:
                found = self._alphas_by_newton(gamma * scale, lam)
                found.append(self.capped(found[-1], gamma * scale, lam))
                update_best(scale, found, self._charges(gamma * scale, found, lam))
        if best_scale is not None:
            self._keep(scaled(best_scale))
            # What was estimated is not yet proved.
            if (
                not self._evaluated(best["gamma"], best["alpha"], lam).lower_end
                > self.dual_constant(lam).lower_end
            ):
                best = {"gamma": np.zeros_like(gamma), "alpha": np.zeros_like(gamma)}
        self._repaired.insert(0, best)
        del self._repaired[KEPT:]
        return best

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −γ, of γ above its bound, of α where γ = 0, and of the violation that prevents
        a proof of λ_max(Σ γ_i x_i x_i') < 1.
        """
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
        found = self._spectrum_of(gamma)
        if found.top < 1.0:
            return 0.0
        return max(float(found.curvature.values[-1]) * found.scale - 1.0, EPS)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """D at a feasible γ, with α from a minimiser of q where `dual` has none."""
        gamma, lam = self.gamma_of(dual), self.lam_of(dual)
        alpha = self.alpha_of(dual)
        if (
            self.dual_constant(lam).value == 0
            and not gamma.any()
            and (alpha is None or not alpha.any())
        ):
            return exact(0.0)
        if alpha is not None:
            return self._evaluated(gamma, alpha, lam)
        spectrum = self._spectrum_of(gamma)
        bounds = [
            self._bound(gamma, alpha, lam, spectrum)[0]
            for alpha in self._alphas_by_newton(gamma, lam)
        ]
        return max(bounds, key=lambda bound: bound.lower_end)

    def _evaluated(self, gamma: Floats, alpha: Floats, lam: float) -> Bounded:
        """D at multipliers; the last value is cached, since a repair evaluates it before the
        checker does.
        """
        for known, its_alpha, its_lam, bound in self._bounds:
            if its_lam == lam and np.array_equal(known, gamma) and np.array_equal(its_alpha, alpha):
                return bound
        bound = self._bound(gamma, alpha, lam, self._spectrum_of(gamma))[0]
        self._bounds.insert(0, (gamma.copy(), alpha.copy(), lam, bound))
        del self._bounds[KEPT:]
        return bound

    @cached_property
    def _bounds(self) -> list[tuple[Floats, Floats, float, Bounded]]:
        """The multipliers that were evaluated last."""
        return []


def same_point(one: Dual, other: Dual) -> bool:
    """Whether two points hold the same multipliers."""
    return set(one) == set(other) and all(np.array_equal(one[name], other[name]) for name in one)


class _SmoothedLagrangian:
    r"""The function q(w) up to a constant, with :math:`h = L + \gamma(1-u)^2` smoothed at u = 1, at
    a point.
    """

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
        """H' with respect to 1 − u."""
        outside = np.minimum(shortfall, 0.0) + np.maximum(shortfall - self.knee, 0.0)
        first = 2.0 * self.bend * outside + self.slope * (
            1.0 + shortfall / np.hypot(shortfall, self.width)
        )
        return np.asarray(first)

    def multipliers(self) -> Floats:
        """Return α of the point."""
        return self._first(1.0 - self.A @ self.w)

    def examine(self, steps: int) -> bool | None:
        """Whether the minimum was reached, or there is no time for another step."""
        return True if self.solved or steps >= NEWTON_STEPS or self.stop() else None

    def direction(self) -> NewtonStep | None:
        """Return Newton's step; None where the system is singular, or it promises less than
        rounding.
        """
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
