r"""The dual of the conic loss: D(γ, α), the repair of γ, and the best α for a given γ.

The symbols are those of :mod:`svmcvx.formulations.conic_loss.statement`. For fixed γ the best α comes from the minimiser of the
convex function :math:`q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i)`, found by Newton's method on smoothed losses.

Source: [CepedaGomezHan], Proposition 1 and eq. (14).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual, Evaluation, accumulated_rounding
from svmcvx.formulations.base import BinaryStatement
from svmcvx.formulations.conic_loss.primal import weighted_gram
from svmcvx.kernels import row_norms

__all__ = ["ConicDual", "dual_objective"]

Floats: TypeAlias = NDArray[np.float64]

# Relative distances of a repaired γ from the boundary of λ_max(Σ γ_i x_i x_i') ≤ 1. Near the boundary Q⁻¹ amplifies the errors
# of γ and α; further inside the bound is looser. The best of these is taken.
INTERIORS = (1e-11, 1e-9, 1e-7, 1e-5)
# Widths of the smoothing of the conic loss at u = 1, in units of the margin, while q is minimised.
SMOOTHINGS = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7)
NEWTON_STEPS = 30


def _conjugate(alpha: Floats, gamma: Floats, height: Floats | float) -> Floats:
    """h*(α) = (α₊²/(4γ) − λs)₊ + α₋²/(4γ); for γ = 0 the indicator of α = 0."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
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
class ConicDual(BinaryStatement):
    """The dual that the relaxation and the problem of fixed γ share.

    Parameters
    ----------
    space : FeatureSpace
        With a penalised intercept or none.
    improve_alpha : bool
        Whether a repair minimises q for a better α than the one that is passed; True by default. The multipliers of an
        exact stationary point need no improvement.
    """

    improve_alpha: bool = field(default=True, kw_only=True)

    @property
    def factor(self) -> Any:
        """Dense or sparse matrix `L`."""
        return self.space.factor

    def alpha_of(self, dual: Dual) -> Floats | None:
        """α of a dual point, for the observations that are kept; None where it has none."""
        return self.entry(dual, "alpha") if "alpha" in dual else None

    def gamma_of(self, dual: Dual) -> Floats:
        """γ of a dual point, for the observations that are kept."""
        return self.entry(dual, "gamma")

    @abstractmethod
    def lam_of(self, dual: Dual) -> float:
        """The weight of the losses that belongs to a dual point."""

    def dual_constant(self, lam: float) -> float:
        """The terms of the dual objective beside D, which do not depend on γ and α."""
        return 0.0

    def _alpha_candidates(self, alpha: Floats, gamma: Floats, lam: float) -> list[Floats]:
        """α itself, and capped where h* becomes positive; both with α = 0 where γ = 0, as h* is infinite elsewhere."""
        supported = np.where(gamma > 0, alpha, 0.0)
        return [supported, np.minimum(supported, 2.0 * np.sqrt(lam * self.weight * gamma))]

    def spectrum(self, gamma: Floats) -> tuple[Floats, Floats, float]:
        """Return eigenvalues and vectors of Σ γ_i x_i x_i', and the rounding error of the former.

        The last result is kept, since the checker asks for the same γ several times.
        """
        if not np.array_equal(self._latest.get("gamma", ()), gamma):
            values, vectors = sl.eigh(weighted_gram(self.factor, gamma), check_finite=False)
            trace = float(np.abs(gamma) @ self.squared_row_norms)
            error = (accumulated_rounding(gamma.size) + EPS * values.size) * trace
            self._latest.update(gamma=gamma.copy(), spectrum=(values, vectors, error))
        found: tuple[Floats, Floats, float] = self._latest["spectrum"]
        return found

    @cached_property
    def _latest(self) -> dict[str, Any]:
        """Cache of one spectrum, by its γ."""
        return {}

    @cached_property
    def squared_row_norms(self) -> Floats:
        """Squared norms of the rows of the factor."""
        return row_norms(self.factor) ** 2

    # Multipliers so large that they overflow give the bound −∞.
    @np.errstate(over="ignore", invalid="ignore")
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
        value = float(np.sum(alpha - gamma)) - conjugate - 0.25 * float(projected @ solved) + self.dual_constant(lam)
        relative = accumulated_rounding(gamma.size)
        c_error = relative * (float(np.abs(coefficients) @ row_norms(L)) + float(np.linalg.norm(c)))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            magnitude = float(np.sum(np.abs(alpha) + gamma + np.where(alpha == 0, 0.0, alpha**2 / (2.0 * gamma))))
        rounding = (
            relative * (magnitude + float(projected @ solved) + abs(self.dual_constant(lam)))
            + 0.5 * float(np.linalg.norm(solved)) * c_error
            + 0.25 * c_error**2 / float(lowest[-1])
        )
        return Evaluation(value, rounding) if math.isfinite(value) else Evaluation(-math.inf, 0.0)

    def minimiser(self, dual: Dual) -> Floats:
        """Return the minimiser w of the Lagrangian of a feasible dual point, in the columns of ``space.factor``."""
        gamma, alpha = self.gamma_of(dual), self.alpha_of(dual)
        values, vectors, error = self.spectrum(gamma)
        c = np.asarray(self.factor.T @ (self.y * ((0.0 if alpha is None else alpha) - 2.0 * gamma)))
        return np.asarray(0.5 * vectors @ ((vectors.T @ c) / np.maximum(1.0 - values, error)))

    def _alphas_by_newton(self, gamma: Floats, lam: float) -> list[Floats]:
        """Minimise q(w) = ‖w‖² + Σ L(u_i; γ_i) from w = 0 and return the α at the minimum for each width of smoothing.

        Newton's method with a line search. :math:`h = L + γ(1-u)²` is smoothed at u = 1, with a width that shrinks.
        """
        rows = np.flatnonzero(gamma > 0)
        if rows.size == 0 or lam == 0:
            return [np.zeros(gamma.size)]
        L = self.factor[rows]
        A = (L.toarray() if sp.issparse(L) else L) * self.y[rows, None]
        bend, height = gamma[rows], lam * self.weight[rows]
        # Roots before products, so that a tiny γ does not underflow; the knee √(λs/γ) may be infinite.
        with np.errstate(over="ignore"):
            slope, knee = np.sqrt(bend) * np.sqrt(height), np.sqrt(height) / np.sqrt(bend)
        Q = np.eye(A.shape[1]) - A.T @ (bend[:, None] * A)
        linear = 2.0 * (A.T @ bend)

        def smoothed(w: Floats, width: float) -> tuple[float, Floats, Floats]:
            """Return the smoothed q up to a constant, and the derivatives h' and h'' with respect to 1 − u."""
            a = 1.0 - A @ w
            outside = np.minimum(a, 0.0) + np.maximum(a - knee, 0.0)
            root = np.hypot(a, width)
            value = float(w @ Q @ w + linear @ w + np.sum(bend * outside**2 + slope * (a + root)))
            return (
                value,
                2.0 * bend * outside + slope * (1.0 + a / root),
                (2.0 * bend * (outside != 0) + slope * width**2 / root**3),
            )

        w, found = np.zeros(A.shape[1]), []
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

    def gamma_upper_bound(self) -> Floats | float:
        """Upper bound on a feasible γ; none by default."""
        return math.inf

    def repair(self, dual: Dual) -> Dual:
        """Clip γ to its bounds, scale it so that λ_max(Σ γ_i x_i x_i') < 1, and choose the α with the best bound.

        The candidates are γ at the distances :data:`INTERIORS` from the boundary, with α as passed (scaled by the
        root of the same factor, which leaves α²/γ unchanged) and with the α of a minimiser of q, unless `improve_alpha` is off and an α was passed.
        """
        gamma = np.clip(np.nan_to_num(self.gamma_of(dual), posinf=0.0), 0.0, self.gamma_upper_bound())
        lam, given = self.lam_of(dual), self.alpha_of(dual)
        spectrum = self.spectrum(gamma)
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
                offer(scale, self._alpha_candidates(np.nan_to_num(given) * math.sqrt(scale), gamma * scale, lam))
        if best_scale is not None and not self.improve_alpha:
            return best
        for scale in scales if best_scale is None else [best_scale]:
            offer(scale, self._alphas_by_newton(gamma * scale, lam))
        return best

    def dual_violation(self, dual: Dual) -> float:
        """Largest of −γ, of γ above its upper bound, and of λ_max(Σ γ_i x_i x_i') − 1 beyond its rounding."""
        gamma = self.gamma_of(dual)
        if not np.isfinite(gamma).all():
            return math.inf
        values, _, error = self.spectrum(gamma)
        return max(
            0.0, float(-gamma.min()), float((gamma - self.gamma_upper_bound()).max()), float(values[-1]) - 1.0 - error
        )

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """D at a feasible γ, with α from a minimiser of q where `dual` has none."""
        gamma, lam = self.gamma_of(dual), self.lam_of(dual)
        alpha, spectrum = self.alpha_of(dual), self.spectrum(gamma)
        if alpha is not None:
            return self._bound(gamma, alpha, lam, spectrum)
        bounds = [self._bound(gamma, alpha, lam, spectrum) for alpha in self._alphas_by_newton(gamma, lam)]
        return max(bounds, key=lambda bound: bound.value)
