r"""What bounds on the conic loss need of the data.

These are proofs that :math:`Q = I - \sum_i\gamma_i\varphi_i\varphi_i'` is definite, and lower bounds of
:math:`\psi(w) = w'Qw - c'w` with :math:`c = \sum_i a_i\varphi_i`, for feature vectors :math:`\varphi_i` (a constant feature included).

**Definiteness.** :math:`\lambda_{\max}(\sum_i\gamma_i\varphi_i\varphi_i')` is that of :math:`X'\Gamma X` for rows with d ≤ n columns, else of
:math:`\Gamma^{1/2}K\Gamma^{1/2}` on the observations with :math:`\gamma_i > 0`. A Cholesky factorisation bounds it for the computed matrix;
a bound on the norm of the matrix of errors is added.

**Minimum.** If :math:`0 < \mu \le \lambda_{\min}(Q)`, then for *any* point, such as the approximate minimiser, :math:`\min\psi \ge
\psi(\hat w) - \|\nabla\psi(\hat w)\|^2/(4\mu)`: no inverse and no factor of K has to be trusted. With a kernel :math:`\hat w =
\Phi'\beta`, :math:`\beta = \tfrac12 a + \Gamma^{1/2} s` and :math:`s \approx \Gamma^{1/2}K\beta`, so that with the residual
:math:`\tau = s - \Gamma^{1/2}K\beta` the gradient is :math:`2\Phi'\Gamma^{1/2}\tau`, whose norm is at most :math:`2\|\tau\|` as
:math:`\Gamma^{1/2}K\Gamma^{1/2} \preceq I`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.feature_space import FeatureSpace, KernelSpace
from svmcvx.kernels import Linear
from svmcvx.kernels.entry_error import EntryError
from svmcvx.rounding import (
    PART,
    UNDERFLOW,
    U,
    down,
    inner_error,
    largest_eigenvalue_above,
    norm_above,
    row_norms_above,
    sum_above,
    sum_below,
    up,
    weighted_rows,
)

__all__ = ["Curvature", "Geometry", "GramGeometry", "Minimum", "RowGeometry", "geometry_of"]

Floats: TypeAlias = NDArray[np.float64]

# Entries of a block of which absolute values are taken.
BLOCK_ENTRIES = 2**18
# Terms of one part of a product with a Gram matrix.
COLUMNS = 256
# Columns of a covariance up to which its products are bounded entry by entry.
FEW_COLUMNS = 16


class Curvature(NamedTuple):
    """Σ γ_i φ_i φ_i' of some γ.

    Attributes
    ----------
    rows : ndarray of int
        Observations with γ > 0.
    values, vectors : ndarray
        Approximate eigenvalues and vectors of its matrix.
    top : float
        Proved to be at least its largest eigenvalue.
    """

    rows: NDArray[np.intp]
    values: Floats
    vectors: Floats
    top: float


class Minimum(NamedTuple):
    """A value near ψ's minimum, a proved lower bound of the minimum, and a bound on the gradient's norm where it was taken."""

    value: float
    below: float
    gradient: float


class Multipliers(NamedTuple):
    """Multipliers of the observations with γ > 0 and labels; `scale` is that of γ against the one of the curvature."""

    gamma: Floats
    alpha: Floats
    y: Floats
    scale: float

    @property
    def a(self) -> Floats:
        """Coefficients of c: y(α − 2γ), each to a relative rounding."""
        return np.asarray(self.y * (self.alpha - 2.0 * self.gamma))


class Geometry(ABC):
    """The feature vectors of the observations."""

    @cached_property
    @abstractmethod
    def norms(self) -> Floats:
        """At least their norms."""

    @abstractmethod
    def curvature(self, gamma: Floats) -> Curvature:
        """Return the spectrum of Σ γ_i φ_i φ_i' and a bound of it."""

    @abstractmethod
    def guess(self, curvature: Curvature, m: Multipliers) -> float:
        """Return the minimum of ψ approximately."""

    @abstractmethod
    def minimum(self, curvature: Curvature, m: Multipliers, mu: float) -> Minimum:
        """Bound the minimum of ψ from below; `mu` > 0 is proved to be at most the smallest eigenvalue of Q."""

    @abstractmethod
    def spread(self, moment: Any) -> tuple[Floats, float]:
        """Return lower bounds of the variances of the scores, and an upper bound of the trace of a covariance."""


def _below(psi: float, lowest: float, gradient: float, mu: float) -> Minimum:
    """Subtract what the gradient allows from a value, and from what it is at least."""
    if not (math.isfinite(lowest) and math.isfinite(gradient)):
        return Minimum(-math.inf, -math.inf, math.inf)
    # A power of a float would raise where it overflows.
    excess = gradient * gradient / (4.0 * mu) * (1.0 + 8 * U) + UNDERFLOW
    return Minimum(psi - excess, down(lowest - excess), gradient)


@dataclass(frozen=True, eq=False)
class RowGeometry(Geometry):
    """Feature vectors that are the rows of a matrix with no more columns than rows.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
    """

    X: Any

    @cached_property
    def norms(self) -> Floats:
        """At least the norms of the rows."""
        return row_norms_above(self.X)

    def curvature(self, gamma: Floats) -> Curvature:
        """Return the spectrum of X'ΓX and a bound of it."""
        rows = np.flatnonzero(gamma > 0)
        d = int(self.X.shape[1])
        if rows.size == 0:
            return Curvature(rows, np.zeros(d), np.eye(d), 0.0)
        values, vectors, top = bounded_spectrum(*weighted_gram_above(self._chosen(rows), gamma[rows], self.norms[rows]))
        return Curvature(rows, values, vectors, top)

    def _chosen(self, rows: NDArray[np.intp]) -> Any:
        return self.X if rows.size == self.X.shape[0] else self.X[rows]

    def guess(self, curvature: Curvature, m: Multipliers) -> float:
        """Return the minimum of ψ approximately."""
        projected, solved = self._solved(curvature, m.scale, np.asarray(self._chosen(curvature.rows).T @ m.a))
        return -0.25 * float(projected @ solved)

    @staticmethod
    def _solved(curvature: Curvature, scale: float, c: Floats) -> tuple[Floats, Floats]:
        projected = curvature.vectors.T @ c
        least = max(1.0 - scale * curvature.top, U)
        return projected, projected / np.maximum(1.0 - scale * curvature.values, least)

    def minimum(self, curvature: Curvature, m: Multipliers, mu: float) -> Minimum:
        """Bound the minimum of ψ from below, at a point that is improved once where its gradient matters."""
        X, norms, a = self._chosen(curvature.rows), self.norms[curvature.rows], m.a
        w = 0.5 * (curvature.vectors @ self._solved(curvature, m.scale, np.asarray(X.T @ a))[1])
        best = Minimum(-math.inf, -math.inf, math.inf)
        for _ in range(2):
            found, g = self._at(X, norms, w, a, m, mu)
            if found.below > best.below:
                best = found
            if not math.isfinite(found.below) or found.gradient**2 / (4.0 * mu) <= 1e-13 * abs(found.value):
                break
            w = w - 0.5 * (curvature.vectors @ self._solved(curvature, m.scale, g)[1])
        return best

    def _at(self, X: Any, norms: Floats, w: Floats, a: Floats, m: Multipliers, mu: float) -> tuple[Minimum, Floats]:
        """Return the bound from a point, and the gradient there."""
        return minimum_from(w, [row_sums(X, norms, w, a, m)], mu)

    def spread(self, moment: Any) -> tuple[Floats, float]:
        """Return lower bounds of ‖V'x_i‖², and an upper bound of ‖V‖²."""
        V = moment.V
        columns = np.einsum("ij,ij->j", V, V) * (1.0 + (V.shape[0] + 4) * U) + UNDERFLOW
        trace = sum_above(columns)
        if V.shape[1] <= FEW_COLUMNS:
            P, E = scores_with_error(self.X, V)
            deviation = np.maximum(np.abs(P) - E, 0.0)
            square = np.einsum("ij,ij->i", deviation, deviation)
        else:
            P = np.asarray(self.X @ V)
            lost = inner_error(V.shape[0] + 2, self.norms * math.sqrt(trace) * (1.0 + 4 * U)) + UNDERFLOW
            square = np.sqrt(np.einsum("ij,ij->i", P, P)) * (1.0 - (V.shape[1] + 4) * U) - lost
            square = np.maximum(square, 0.0) ** 2
        return np.maximum(square * (1.0 - (V.shape[1] + 8) * U) - UNDERFLOW, 0.0), trace


def weighted_gram_above(X: Any, c: Floats, norms: Floats) -> tuple[Floats, float]:
    """Return Σ c x x' of rows with these norms, and a bound on the norm of its error."""
    d = int(X.shape[1])
    if sp.issparse(X):
        M = np.asarray((X.T @ (sp.diags_array(c) @ X)).toarray())
        terms = int(np.bincount(X.indices, minlength=1).max(initial=0)) if X.nnz else 0
    else:
        M = np.zeros((d, d))
        for start in range(0, c.size, PART):
            part = X[start : start + PART]
            M += part.T @ (c[start : start + PART, None] * part)
        terms = min(PART, c.size) + c.size // PART + 1
    # Of a matrix of errors that is at most t Σ c|x||x|' entry by entry, the norm is at most t Σ c‖x‖².
    trace = sum_above((np.sqrt(c) * norms) ** 2 * (1.0 + 8 * U))
    return (M + M.T) / 2.0, float(inner_error(terms + 4, trace)) + d * UNDERFLOW


def bounded_spectrum(M: Floats, error: float) -> tuple[Floats, Floats, float]:
    """Return eigenvalues and vectors of a matrix with an error of this norm, and a proved bound of the largest one."""
    d = M.shape[0]
    if not np.isfinite(M).all():
        return np.full(d, math.inf), np.eye(d), math.inf
    values, vectors = sl.eigh(M, check_finite=False)
    return values, vectors, up(largest_eigenvalue_above(M, float(values[-1])) + error)


class RowSums(NamedTuple):
    """Sums over rows for the bound of ψ from a point w.

    Attributes
    ----------
    sums : ndarray of shape (d,)
        Σ b x, the part of the gradient 2w − Σ b x.
    error : float
        Bound on the norm of its error.
    below, psi : float
        −Σ γf² − Σ af at most, and nearly.
    """

    sums: Floats
    error: float
    below: float
    psi: float


def row_sums(X: Any, norms: Floats, w: Floats, a: Floats, m: Multipliers) -> RowSums:
    """Return the sums of some rows; `a` are the coefficients of c."""
    f, e = scores_with_error(X, w)
    gamma, root = m.gamma, np.sqrt(m.gamma)
    b = a + 2.0 * gamma * f
    step = 8.0 * U * (np.abs(m.alpha) + 2.0 * gamma + 2.0 * gamma * np.abs(f))
    sums, error = weighted_rows(X, b, norms)
    error += sum_above(step * norms) + 2.0 * norm_above(root * e) * (1.0 + 8 * U)
    terms = np.concatenate(
        [-((root * (np.abs(f) + e)) ** 2) * (1.0 + 16 * U), -(a * f + np.abs(a) * (e + 8 * U * (np.abs(f) + e)))]
    )
    return RowSums(sums, error, sum_below(terms), -float(gamma @ (f * f)) - float(a @ f))


def minimum_from(w: Floats, parts: Sequence[RowSums], mu: float) -> tuple[Minimum, Floats]:
    """Return the bound of ψ from a point, and the gradient there, from the sums of all rows."""
    sums = parts[0].sums.copy()
    added = norm_above(sums)
    for part in parts[1:]:
        sums += part.sums
        added += norm_above(part.sums)
    g = 2.0 * w - sums
    size = norm_above(g) + sum(part.error for part in parts) + 4 * U * (2.0 * norm_above(w) + norm_above(sums))
    size += float(inner_error(len(parts), added)) if len(parts) > 1 else 0.0
    lowest = down(sum_below([*(w * w * (1.0 - 4 * U)).tolist(), *(part.below for part in parts)]) - UNDERFLOW)
    psi = float(w @ w) + sum(part.psi for part in parts)
    return _below(psi, lowest, size * (1.0 + (16 + 4 * len(parts)) * U) + UNDERFLOW, mu), g


def scores_with_error(X: Any, w: Floats) -> tuple[Floats, Floats]:
    """Return Xw and bounds on its errors, entry by entry; `w` may have several columns."""
    f = np.asarray(X @ w)
    size = np.abs(w)
    if sp.issparse(X):
        magnitude = np.asarray(abs(X) @ size)
    else:
        magnitude = np.empty_like(f)
        rows = max(1, BLOCK_ENTRIES // max(1, X.shape[1]))
        for start in range(0, X.shape[0], rows):
            magnitude[start : start + rows] = np.abs(X[start : start + rows]) @ size
    return f, np.asarray(inner_error(int(X.shape[1]) + 1, magnitude * (1.0 + (X.shape[1] + 4) * U)))


@dataclass(frozen=True, eq=False)
class GramGeometry(Geometry):
    """Feature vectors known by their inner products.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Computed.
    error : EntryError
        Bound on the errors of its entries.
    """

    K: Floats
    error: EntryError

    @cached_property
    def norms(self) -> Floats:
        """At least the norms of the feature vectors."""
        diagonal = np.diagonal(self.K)
        e = self.error
        lost = np.abs(diagonal) * (e.rows + e.columns) + e.left * e.right + e.absolute
        if e.entries is not None:
            lost = lost + np.diagonal(e.entries)
        return np.asarray(np.sqrt(np.maximum(diagonal + lost * (1.0 + 16 * U) + UNDERFLOW, 0.0)) * (1.0 + 8 * U))

    @cached_property
    def _positive(self) -> bool:
        return bool(self.K.min(initial=0.0) >= 0.0)

    def curvature(self, gamma: Floats) -> Curvature:
        """Return the spectrum of Γ½KΓ½ and a bound of it."""
        rows = np.flatnonzero(gamma > 0)
        m = rows.size
        if m == 0:
            return Curvature(rows, np.zeros(0), np.zeros((0, 0)), 0.0)
        K, error = self._part(rows)
        root = np.sqrt(gamma[rows])
        M = (root[:, None] * K) * root
        M = (M + M.T) / 2.0
        if not np.isfinite(M).all():
            return Curvature(rows, np.full(m, math.inf), np.eye(m), math.inf)
        values, vectors = sl.eigh(M, check_finite=False)
        size = M if self._positive else np.abs(M)
        magnitude, weighted = self._sizes(K, root, error)
        # The largest row sum of the bounds on the errors of the entries.
        sums = 8 * U * size.sum(axis=1) + root * error.of_products(magnitude, weighted, root) * (1.0 + 16 * U)
        lost = float(sums.max()) * (1.0 + 4 * m * U) + m * UNDERFLOW
        return Curvature(rows, values, vectors, up(largest_eigenvalue_above(M, float(values[-1])) + lost))

    def _part(self, rows: NDArray[np.intp]) -> tuple[Floats, EntryError]:
        """Return the block of some observations."""
        if rows.size == self.K.shape[0]:
            return self.K, self.error
        place = np.ix_(rows, rows)
        e = self.error
        entries = None if e.entries is None else e.entries[place]
        part = EntryError(e.rows[rows], e.columns[rows], e.left[rows], e.right[rows], e.absolute, entries)
        return self.K[place], part

    def _sizes(self, K: Floats, v: Floats, error: EntryError) -> tuple[Floats, Floats]:
        """Return |K||v| and |K|(c ∘ |v|), enlarged."""
        size = np.abs(v)
        two = np.stack([size, error.columns * size], axis=1)
        both = (K @ two if self._positive else np.abs(K) @ two) * (1.0 + (v.size + 8) * U) + UNDERFLOW
        return both[:, 0], both[:, 1]

    def _product(self, K: Floats, error: EntryError, v: Floats) -> tuple[Floats, Floats]:
        """Return Kv, summed in parts, and bounds on its errors."""
        f = np.zeros(K.shape[0])
        for start in range(0, v.size, COLUMNS):
            f += K[:, start : start + COLUMNS] @ v[start : start + COLUMNS]
        terms = min(COLUMNS, v.size) + v.size // COLUMNS + 3
        magnitude, weighted = self._sizes(K, v, error)
        lost = inner_error(terms, magnitude) + error.of_products(magnitude, weighted, v)
        return f, np.asarray(lost * (1.0 + 8 * U))

    @staticmethod
    def _solved(curvature: Curvature, m: Multipliers, products: Floats) -> Floats:
        """Return s with (I − Γ½KΓ½)s = ½Γ½Ka; `products` is Ka."""
        right = curvature.vectors.T @ (0.5 * np.sqrt(m.gamma) * products)
        least = max(1.0 - m.scale * curvature.top, U)
        return np.asarray(curvature.vectors @ (right / np.maximum(1.0 - m.scale * curvature.values, least)))

    def guess(self, curvature: Curvature, m: Multipliers) -> float:
        """Return the minimum of ψ approximately."""
        K = self._part(curvature.rows)[0]
        products = K @ m.a
        s = self._solved(curvature, m, products)
        return -0.25 * float(m.a @ products) - 0.5 * float(products @ (np.sqrt(m.gamma) * s))

    def minimum(self, curvature: Curvature, m: Multipliers, mu: float) -> Minimum:
        """Bound the minimum of ψ from below."""
        K, error = self._part(curvature.rows)
        gamma, a, root, norms = m.gamma, m.a, np.sqrt(m.gamma), self.norms[curvature.rows]
        s = self._solved(curvature, m, K @ a)
        best = Minimum(-math.inf, -math.inf, math.inf)
        for _ in range(2):
            beta = 0.5 * a + root * s
            f, e = self._product(K, error, beta)
            tau = s - root * f
            rest = np.abs(tau) + (root * e + 8 * U * (np.abs(s) + root * np.abs(f)))
            rounded = 16 * U * (np.abs(beta) + np.abs(m.alpha) + 2 * gamma + root * np.abs(s) + gamma * np.abs(f))
            gradient = 2.0 * norm_above(rest) + 2.0 * sum_above(rounded * norms)
            # ψ = (β − a/2 − Γf)'f − ½a'f, whose first part is nearly nothing.
            reach = np.abs(f) + e
            terms = np.concatenate(
                [
                    -(root * rest + rounded) * reach * (1.0 + 8 * U),
                    -0.5 * (a * f + np.abs(a) * (e + 8 * U * reach)),
                ]
            )
            lowest = down(sum_below(terms) - UNDERFLOW)
            found = _below(-0.5 * float(a @ f), lowest, gradient * (1.0 + 16 * U) + UNDERFLOW, mu)
            if found.below > best.below:
                best = found
            if not math.isfinite(found.below) or gradient**2 / (4.0 * mu) <= 1e-13 * abs(found.value):
                break
            # (I − M) δ = −τ.
            least = max(1.0 - m.scale * curvature.top, U)
            right = curvature.vectors.T @ tau
            s = s - curvature.vectors @ (right / np.maximum(1.0 - m.scale * curvature.values, least))
        return best

    def spread(self, moment: Any) -> tuple[Floats, float]:
        """Return lower bounds of the variances of W = Φ'BB'Φ + εI, and an upper bound of its trace on the span of the data."""
        B, ridge, n = moment.coefficients, moment.ridge, self.K.shape[0]
        variance, trace = np.zeros(n), [0.0]
        if B.shape[1]:
            P = np.zeros((n, B.shape[1]))
            for start in range(0, n, COLUMNS):
                P += self.K[:, start : start + COLUMNS] @ B[start : start + COLUMNS]
            terms = min(COLUMNS, n) + n // COLUMNS + 3
            size, e = np.abs(B), self.error
            K = self.K if self._positive else np.abs(self.K)
            grown = 1.0 + (n + 8) * 2.0 * U
            magnitude = (K @ size) * grown + UNDERFLOW
            E = e.rows[:, None] * magnitude + (K @ (e.columns[:, None] * size)) * grown
            E += e.left[:, None] * (e.right @ size) + e.absolute * size.sum(axis=0)
            if e.entries is not None:
                E += e.entries @ size
            E = (E * grown + inner_error(terms, magnitude)) * (1.0 + 8 * U) + UNDERFLOW
            deviation = np.maximum(np.abs(P) - E, 0.0)
            variance = np.einsum("ij,ij->i", deviation, deviation) * (1.0 - (B.shape[1] + 8) * U)
            products = B * P
            error = (size * E + 2 * U * np.abs(products)).sum() * (1.0 + 2 * B.size * U)
            trace = [sum_above(products.ravel()), float(error) + UNDERFLOW]
        if ridge > 0:
            lowest = 2.0 * np.diagonal(self.K) - self.norms**2 * (1.0 + 8 * U)
            variance = variance + ridge * np.maximum(lowest * (1.0 - 16 * U), 0.0)
            trace.append(ridge * n * (1.0 + 4 * U))
        return np.maximum(variance * (1.0 - 8 * U) - UNDERFLOW, 0.0), sum_above(trace)


_known: WeakKeyDictionary[FeatureSpace, Geometry] = WeakKeyDictionary()


def geometry_of(space: FeatureSpace) -> Geometry:
    """Return the geometry of a space: rows of the data, or of the factor of a named approximation, else a Gram matrix."""
    found = _known.get(space)
    if found is None:
        found = _known[space] = _geometry_of(space)
    return found


def _geometry_of(space: FeatureSpace) -> Geometry:
    if space.blockwise:
        return RowGeometry(space.factor)
    if not space.is_linear:
        assert isinstance(space, KernelSpace)  # noqa: S101 - the only space with a kernel
        return GramGeometry(space.gram, space.gram_error)
    if space.factor_is_data:
        return RowGeometry(space.X)
    every = np.arange(space.X.shape[0])
    K = space.block(every, every)
    K = (K + K.T) / 2.0
    error = Linear().error_of(space.X, space.X, K)
    return GramGeometry(K, error._replace(rows=error.rows + 2.0 * U))
