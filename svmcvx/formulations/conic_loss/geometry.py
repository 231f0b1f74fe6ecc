r"""The data in bounds on the conic loss.

These are proofs that :math:`Q = I - \sum_i\gamma_i\varphi_i\varphi_i'` is definite, and lower
bounds of :math:`\psi(w) = w'Qw - c'w` with :math:`c = \sum_i a_i\varphi_i`, for feature vectors
:math:`\varphi_i` (a constant feature included).

**Definiteness.** :math:`\lambda_{\max}(\sum_i\gamma_i\varphi_i\varphi_i')` is that of
:math:`X'\Gamma X` for rows with d ≤ n columns, else of :math:`\Gamma^{1/2}K\Gamma^{1/2}` on the
observations with :math:`\gamma_i > 0`. A Cholesky factorisation bounds it for the computed matrix;
a bound on the norm of the matrix of errors is added.

**Minimum.** If :math:`0 < \mu \le \lambda_{\min}(Q)`, then for *any* point, such as the approximate
minimiser, :math:`\min\psi \ge \psi(\hat w) - \|\nabla\psi(\hat w)\|^2/(4\mu)`: no inverse and no
factor of K has to be trusted. With a kernel :math:`\hat w = \Phi'\beta`, :math:`\beta = \tfrac12 a
+ \Gamma^{1/2} s` and :math:`s \approx \Gamma^{1/2}K\beta`, so that with the residual :math:`\tau =
s - \Gamma^{1/2}K\beta` the gradient is :math:`2\Phi'\Gamma^{1/2}\tau`, whose norm is at most
:math:`2\|\tau\|` as :math:`\Gamma^{1/2}K\Gamma^{1/2} \preceq I`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate import EPS
from svmcvx.certificate.bounded import Bounded, exact, row_sums, signed, sqrt, square, total
from svmcvx.certificate.rows import Ball, Rows, norm_above, spectrum_above
from svmcvx.feature_space import FeatureSpace, KernelSpace
from svmcvx.kernels import Linear
from svmcvx.kernels.gram import BoundedGram


class WeightedSpectrum(NamedTuple):
    """Eigenvalues and vectors of Σ γ_i φ_i φ_i' for γ_i > 0, and a bound of the largest."""

    rows: NDArray[np.intp]
    values: Floats
    vectors: Floats
    top: float

    def inverse(self, scale: float, x: Floats) -> Floats:
        """Return nearly Q⁻¹x, for γ times a number, in the coordinates of the matrix."""
        least = max(1.0 - scale * self.top, EPS)
        return np.asarray(
            self.vectors @ ((self.vectors.T @ x) / np.maximum(1.0 - scale * self.values, least))
        )


class ConicMultipliers(NamedTuple):
    """Multipliers with γ > 0, and labels; γ is `scale` times that of the curvature."""

    gamma: Floats
    alpha: Floats
    y: Floats
    scale: float

    @property
    def a(self) -> Bounded:
        """The coefficients of c: y(α − 2γ)."""
        return signed(self.y, exact(self.alpha) - 2.0 * self.gamma)


class Geometry(ABC):
    """The feature vectors of the observations."""

    @cached_property
    @abstractmethod
    def norms(self) -> Floats:
        """Upper bounds on the norms of the feature vectors."""

    @abstractmethod
    def curvature(self, gamma: Floats) -> WeightedSpectrum:
        """Return the spectrum of Σ γ_i φ_i φ_i' and a bound of it."""

    @abstractmethod
    def point(self, curvature: WeightedSpectrum, m: ConicMultipliers) -> tuple[Bounded, Bounded]:
        """Return ψ and its gradient's norm at the minimiser, refined once."""

    def minimum(self, curvature: WeightedSpectrum, m: ConicMultipliers, mu: float) -> Bounded:
        """Return a lower bound of ψ for `mu` ≤ λ_min(Q): ψ − ‖∇ψ‖²/(4μ) at a point."""
        psi, gradient = self.point(curvature, m)
        return psi - square(gradient) / (4.0 * mu)

    @abstractmethod
    def spread(self, moment: Any) -> tuple[Floats, Bounded]:
        """Return lower bounds of the variances of the scores, and the trace of a covariance."""


def variance_below(deviations: Bounded) -> Floats:
    """Return lower bounds of the sums of squares of each row."""
    least = np.maximum(abs(deviations).lower, 0.0)
    return np.asarray(np.maximum(row_sums(square(exact(least))).lower, 0.0))


@dataclass(frozen=True, eq=False)
class RowGeometry(Geometry):
    """Feature vectors that are the rows of a matrix with no more columns than rows."""

    X: Any

    @cached_property
    def rows(self) -> Rows:
        return Rows(self.X)

    @cached_property
    def norms(self) -> Floats:
        return self.rows.norms

    def curvature(self, gamma: Floats) -> WeightedSpectrum:
        rows = np.flatnonzero(gamma > 0)
        d = int(self.X.shape[1])
        if rows.size == 0:
            return WeightedSpectrum(rows, np.zeros(d), np.eye(d), 0.0)
        M = self._chosen(rows).gram(gamma[rows])
        return WeightedSpectrum(rows, *spectrum_above(M.value, M.distance))

    def _chosen(self, rows: NDArray[np.intp]) -> Rows:
        return self.rows if rows.size == self.X.shape[0] else self.rows[rows]

    def point(self, curvature: WeightedSpectrum, m: ConicMultipliers) -> tuple[Bounded, Bounded]:
        """With X'ΓX ⪯ I, an error e of the scores moves 2Σγfx by at most 2‖Γ^{1/2}e‖."""
        rows = self._chosen(curvature.rows)
        gamma, a = exact(m.gamma), m.a
        w = np.zeros(rows.X.shape[1])
        for _ in range(2):
            own = a.value + 2.0 * m.gamma * np.asarray(rows.X @ w)
            w = w - curvature.inverse(m.scale, w - 0.5 * np.asarray(rows.X.T @ own))
        f = rows.product(w)
        moved = 2.0 * norm_above((sqrt(gamma) * f.error).upper)
        gradient = Ball(2.0 * w) - rows.combined(a + 2.0 * (gamma * f.value)).widened(moved)
        psi = total(square(exact(w))) - (total(gamma * square(f)) + total(a * f))
        return psi, gradient.norm()

    def spread(self, moment: Any) -> tuple[Floats, Bounded]:
        V = moment.V
        # Of up to 16 columns the errors are bounded entry by entry.
        deviations = self.rows.product(V) if V.shape[1] <= 16 else self.rows @ Ball(V)
        return variance_below(deviations), total(square(exact(V)))


@dataclass(frozen=True, eq=False)
class GramGeometry(Geometry):
    """Feature vectors known by their inner products."""

    gram: BoundedGram

    @cached_property
    def norms(self) -> Floats:
        return np.asarray(sqrt(exact(np.maximum(self.gram.diagonal.upper, 0.0))).upper)

    def curvature(self, gamma: Floats) -> WeightedSpectrum:
        rows = np.flatnonzero(gamma > 0)
        if rows.size == 0:
            return WeightedSpectrum(rows, np.zeros(0), np.zeros((0, 0)), 0.0)
        return WeightedSpectrum(rows, *spectrum_above(*self.gram.block(rows).scaled(gamma[rows])))

    def point(self, curvature: WeightedSpectrum, m: ConicMultipliers) -> tuple[Bounded, Bounded]:
        r"""ρ is the residual of β as it is computed, τ that of s.

        The gradient is :math:`2\Phi'(\Gamma^{1/2}\tau + \rho)`, with :math:`\beta = \tfrac12 a +
        \Gamma^{1/2}s + \rho` and f = Kβ, and :math:`\psi = (\Gamma^{1/2}\tau + \rho)'f - \tfrac12
        a'f`.
        """
        gram, norms = self.gram.block(curvature.rows), self.norms[curvature.rows]
        a, root = m.a, sqrt(exact(m.gamma))
        # (I − Γ½KΓ½)s = ½Γ½Ka.
        s = curvature.inverse(m.scale, 0.5 * root.value * (gram.K @ a.value))
        s = s - curvature.inverse(
            m.scale, s - root.value * (gram.K @ (0.5 * a.value + root.value * s))
        )
        beta = 0.5 * a.value + root.value * s
        f = gram.product(beta)
        tau, rho = exact(s) - root * f, exact(beta) - 0.5 * a - root * s
        gradient = 2.0 * (Ball.around(tau).norm() + total(abs(rho) * norms))
        return total((root * tau + rho) * f) - 0.5 * total(a * f), gradient

    def spread(self, moment: Any) -> tuple[Floats, Bounded]:
        """Return lower bounds of the variances of W = Φ'BB'Φ, and its trace."""
        B = moment.coefficients
        deviations = self.gram.product(B)
        return variance_below(deviations), total(exact(B) * deviations)


_known: WeakKeyDictionary[FeatureSpace, Geometry] = WeakKeyDictionary()


def geometry_of(space: FeatureSpace) -> Geometry:
    if space not in _known:
        _known[space] = _geometry_of(space)
    return _known[space]


def _geometry_of(space: FeatureSpace) -> Geometry:
    if not space.is_linear:
        assert isinstance(space, KernelSpace)  # noqa: S101 - the only space with a kernel
        return GramGeometry(BoundedGram(space.gram, space.gram_error))
    if space.factor_is_data:
        return RowGeometry(space.X)
    every = np.arange(space.X.shape[0])
    K = space.block(every, every)
    K = (K + K.T) / 2.0
    return GramGeometry(BoundedGram(K, Linear().error_of(space.X, space.X, K).rounded(2.0)))
