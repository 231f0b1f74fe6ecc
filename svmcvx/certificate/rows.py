"""Products with the rows of data, and points that are known up to a Euclidean distance."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import (
    GROW,
    LOST,
    Bounded,
    exact,
    growth,
    root_above,
    roundings,
    sqrt,
    square,
    sum_of_squares,
    total,
)
from svmcvx.certificate.exactly import SMALLEST

# More than any sum of products here loses to underflow.
UNDERFLOW = 2.0**-1000
# Rows that are summed by one product, so that the error grows with their number and with that of
# the parts.
PART = 512


def inner_error(terms: int, magnitude: Any) -> Any:
    """Return an error bound of inner products; `magnitude` is the computed :math:`|x|'|y|`."""
    return roundings(terms) * growth(terms) * magnitude + UNDERFLOW


def row_bytes(rows: Any, i: int) -> bytes:
    """Return a row, dense or sparse, as bytes that are the same for equal entries."""
    row = rows[[i]].toarray() if sp.issparse(rows) else rows[i]
    return bytes((row + 0.0).tobytes())


def sums_above(sums: Any, terms: int) -> Any:
    """Return upper bounds of sums of this many non-negative products, from the computed sums."""
    return sums * growth(terms) + UNDERFLOW


def norm_above(x: Floats) -> float:
    """Return a number that is at least the Euclidean norm."""
    return float(root_above(float(np.vdot(x, x)), x.size))


def row_norms_squared(X: Any) -> NDArray[Any]:
    if sp.issparse(X):
        found, used = np.zeros(X.shape[0]), np.flatnonzero(np.diff(X.indptr))
        # Squares of many rows at once would take fresh memory, which costs more than they do.
        step = max(1, 2**14 * used.size // max(X.nnz, 1))
        for some in (used[first : first + step] for first in range(0, used.size, step)):
            first = X.indptr[some[0]]
            part = X.data[first : X.indptr[some[-1] + 1]]
            found[some] = np.add.reduceat(part * part, X.indptr[some] - first)
        return found
    return np.asarray(np.einsum("ij,ij->i", X, X))


def row_norms_above(X: Any) -> Floats:
    """Return numbers that are at least the Euclidean norms of the rows."""
    return np.asarray(root_above(row_norms_squared(X), int(X.shape[1])), dtype=np.float64)


class Ball:
    """A point, or a matrix, whose Euclidean distance to the exact one is at most a number."""

    __slots__ = ("distance", "value")

    def __init__(self, value: Floats, distance: float = 0.0) -> None:
        self.value = value
        self.distance = distance

    def __repr__(self) -> str:
        return f"{self.value} within {self.distance}"

    @classmethod
    def around(cls, x: Bounded) -> Ball:
        """Return the point of numbers with an error each."""
        off = norm_above(np.broadcast_to(x.error, x.shape)) if np.any(x.error) else 0.0
        return cls(x.value, off)

    @property
    def largest(self) -> Bounded:
        """The largest absolute value of a coordinate."""
        return Bounded(float(np.abs(self.value).max(initial=0.0)), self.distance)

    def __add__(self, other: Ball) -> Ball:
        value, off = self.value + other.value, self.distance + other.distance
        if self._is_nothing() or other._is_nothing():
            return Ball(value, off)
        return Ball(value, (off + roundings(1) * norm_above(value)) * GROW)

    def __sub__(self, other: Ball) -> Ball:
        return self + Ball(-other.value, other.distance)

    def _is_nothing(self) -> bool:
        return self.distance == 0.0 and not self.value.any()

    def widened(self, by: float) -> Ball:
        """Return the same point with a distance that is larger by a number."""
        return Ball(self.value, (self.distance + by) * GROW)

    def scaled(self, factor: Bounded) -> Ball:
        length, distance = exact(norm_above(self.value)), exact(self.distance)
        off = abs(factor.value) * distance + factor.error * (length + distance)
        value = self.value * factor.value
        return Ball(value, (roundings(1) * norm_above(value) + off).upper_end + UNDERFLOW)

    def norm(self) -> Bounded:
        r"""Return :math:`\|w\|`, which moves by at most the distance."""
        found: Bounded = sqrt(sum_of_squares(exact(self.value)))
        return found if self.distance == 0.0 else found.widened(self.distance)

    def squared_norm(self) -> Bounded:
        r"""Return :math:`\|w\|^2`, which moves by at most :math:`(2\|w\| + \delta)\delta`."""
        found: Bounded = sum_of_squares(exact(self.value))
        if self.distance == 0.0:
            return found
        moved = (2.0 * norm_above(self.value) + self.distance) * self.distance
        return Bounded(found.value, (found.error + moved) * GROW + LOST)


class Rows:
    """The rows of data, and bounds on their norms for the errors of products (Cauchy–Schwarz)."""

    def __init__(self, X: Any, norms: Floats | None = None, *, shifted: bool = False) -> None:
        self.X = X
        self.norms = row_norms_above(X) if norms is None else norms
        self.shifted = shifted

    def __getitem__(self, rows: Any) -> Rows:
        """Return some of the rows."""
        return Rows(self.X[rows], self.norms[rows], shifted=self.shifted)

    def __matmul__(self, w: Ball) -> Bounded:
        """Return inner products, each off by at most ‖x_i‖(d u‖w‖ + u‖w‖ + δ)."""
        value = np.asarray(self.X @ w.value)
        if w._is_nothing():
            return Bounded(value)
        d = int(self.X.shape[1])
        length = norm_above(w.value) if w.value.ndim == 1 else row_norms_above(w.value.T)
        reach = (roundings(d + self.shifted) * length + w.distance) * growth(d)
        return Bounded(value, np.multiply.outer(self.norms, reach) * GROW + (d + 4.0) * SMALLEST)

    def product(self, w: Floats) -> Bounded:
        """Return inner products with an exact point, each off by at most :math:`d u |x|'|w|`."""
        value, size = np.asarray(self.X @ w), np.abs(w)
        if not size.any():
            return Bounded(value)
        n, d = (int(length) for length in self.X.shape)
        if sp.issparse(self.X):
            magnitude = np.asarray(abs(self.X) @ size)
        else:
            magnitude = np.empty_like(value)
            # Absolute values are taken in blocks of 2 MiB.
            step = max(1, 2**18 // max(1, d))
            for start in range(0, n, step):
                magnitude[start : start + step] = np.abs(self.X[start : start + step]) @ size
        relative = roundings(d + self.shifted) * growth(d)
        return Bounded(value, relative * magnitude + (d + 4.0) * SMALLEST)

    def gram(self, c: Floats) -> Ball:
        r"""Return the symmetric matrix :math:`\sum_i c_i x_i x_i'`, for c ≥ 0."""
        d = int(self.X.shape[1])
        if sp.issparse(self.X):
            M = np.asarray((self.X.T @ (sp.diags_array(c) @ self.X)).toarray())
            terms = int(np.bincount(self.X.indices, minlength=1).max())
        else:
            M = np.zeros((d, d))
            for start in range(0, c.size, PART):
                part = self.X[start : start + PART]
                M += part.T @ (c[start : start + PART, None] * part)
            terms = min(PART, c.size) + c.size // PART + 1
        trace = total(square(sqrt(exact(c)) * self.norms)).upper
        lost = float(inner_error(terms + 4 + 2 * self.shifted, trace))
        return Ball((M + M.T) / 2.0, lost + d * UNDERFLOW)

    def combined(self, v: Floats | Bounded) -> Ball:
        """Return ``X'v``, the sum of the rows with coefficients v or with each column of v."""
        coefficients = exact(v)
        chosen: Floats = coefficients.value
        if not chosen.any() and not np.any(coefficients.error):
            return Ball(np.zeros((self.X.shape[1], *chosen.shape[1:])))
        value, terms = summed_rows(self.X, chosen)
        error = inner_error(terms + self.shifted, _weighed(np.abs(chosen), self.norms))
        if not coefficients.is_exact:
            error += _weighed(np.broadcast_to(coefficients.error, chosen.shape), self.norms)
        error = error * GROW
        return Ball(value, norm_above(error) if value.ndim > 1 else float(error))


def summed_rows(X: Any, v: Floats) -> tuple[Floats, int]:
    """Return ``X'v``, summed in parts for dense rows, and the number of terms for its error."""
    n, d = (int(size) for size in X.shape)
    if sp.issparse(X) or n <= 2 * PART:
        return np.asarray(X.T @ v), n
    whole = n - n % PART
    parts = X[:whole].reshape(-1, PART, d).transpose(0, 2, 1)
    sums = (parts @ v[:whole].reshape(len(parts), PART, -1)).sum(axis=0)
    return sums.reshape(d, *v.shape[1:]) + X[whole:].T @ v[whole:], PART + n // PART + 2


def _weighed(sizes: Floats, norms: Floats) -> Any:
    """Return upper bounds of the sums, one per column, of products of non-negative numbers."""
    return sums_above(norms @ sizes, norms.size)


class Spectrum(NamedTuple):
    """Approximate eigenvalues and vectors of a symmetric matrix, and a bound on the largest one."""

    values: Floats
    vectors: Floats
    top: float


def spectrum_above(A: Floats, error: float) -> Spectrum:
    """Return the spectrum of a symmetric matrix that is known up to an error of this norm."""
    n = A.shape[0]
    if not np.isfinite(A).all():
        return Spectrum(np.full(n, math.inf), np.eye(n), math.inf)
    values, vectors = sl.eigh(A, check_finite=False)
    largest = exact(largest_eigenvalue_above(A, float(values[-1])))
    return Spectrum(values, vectors, (largest + error).upper)


def backward_error(n: int) -> Bounded:
    r"""Return :math:`\gamma_n = nu/(1 - nu)` of computations that round n times [Rump]."""
    growth = exact(roundings(n))
    return growth / (1.0 - growth)


def smallest_eigenvalue_below(A: Floats, guess: float) -> float:
    """Return a number that is proved to be at most the smallest eigenvalue."""
    return -largest_eigenvalue_above(-A, -guess)


def largest_eigenvalue_above(A: Floats, guess: float) -> float:
    """Return a proved bound on the largest eigenvalue of a symmetric matrix; ∞ without a proof."""
    n = A.shape[0]
    if n == 0:
        return 0.0
    diagonal = np.abs(np.diagonal(A))
    size = float(diagonal.max()) + abs(guess)
    if not math.isfinite(size):
        return math.inf
    growth = backward_error(n + 4)
    step = 4.0 * growth.upper * size + n * SMALLEST
    for _ in range(6):
        shift = guess + step
        shifted = -A
        shifted[np.diag_indices(n)] += shift
        try:
            R = np.abs(sl.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False))
        except (sl.LinAlgError, ValueError):
            step *= 16.0
            continue
        largest = float(sums_above(R @ sums_above(R.sum(axis=0), n), n).max())
        error = growth * largest + roundings(2) * (exact(size) + abs(shift)) + n * SMALLEST
        return float((shift + error).upper)
    return math.inf
