"""Inner products, norms and squared distances of rows, dense or sparse."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from svmcvx.certificate.bounded import roundings
from svmcvx.data import Features
from svmcvx.system.cancellation import check_cancelled

__all__ = [
    "dense",
    "distances",
    "distances_above",
    "from_differences",
    "inner",
    "row_norms",
    "row_norms_squared",
    "shifted",
    "squared_distances",
]

Matrix: TypeAlias = NDArray[Any]

# Entries of a part of a matrix, two of which fit into the processor's cache.
CACHED = 32_768


def _cancellation(dtype: DTypeLike) -> float:
    """Share of |a|² + |b|² below which |a|² + |b|² − 2a'b has lost too many digits to be used."""
    return float(np.finfo(dtype).eps ** 0.4)


def dense(A: Features) -> Matrix:
    """Return rows as a dense array."""
    return np.asarray(A.toarray() if sp.issparse(A) else A)


def inner(A: Features, B: Features) -> Matrix:
    """Return the inner products of all pairs of rows, dense."""
    product = A @ B.T
    return np.asarray(product.toarray() if sp.issparse(product) else product)


def squared_distances(A: Features, B: Features) -> Matrix:
    r"""Return :math:`\|a_i - b_j\|_2^2` for all pairs of rows.

    Computed as one matrix product on data shifted by a common centre, then recomputed from
    differences of the rows themselves for the pairs that are so close that the product has lost
    their digits. Duplicate rows have distance 0.

    Parameters
    ----------
    A : ndarray or csr_array of shape (m, d)
    B : ndarray or csr_array of shape (n, d)

    Returns
    -------
    ndarray of shape (m, n)
    """
    return distances(A, B)[0]


def shifted(A: Features, B: Features) -> tuple[Features, Features]:
    """Return dense rows less the mean of B; sparse ones as they are."""
    if sp.issparse(A) or sp.issparse(B):
        return A, B
    centre = np.asarray(B).mean(axis=0)
    return A - centre, B - centre


def distances(A: Features, B: Features) -> tuple[Matrix, Matrix, Matrix]:
    """Return squared distances, and the squared norms :math:`a_i` and :math:`b_j` of the shifted
    rows.
    """
    raw_A, raw_B = A, B
    A, B = shifted(A, B)
    a = row_norms_squared(A)
    b = row_norms_squared(B)
    found = np.ascontiguousarray(inner(A, B))
    share, n = _cancellation(found.dtype), b.size
    rows = max(1, CACHED // max(n, 1))
    for start in range(0, a.size, rows):
        check_cancelled()
        # A part that stays in the processor's cache.
        part = found[start : start + rows]
        scale = a[start : start + rows, None] + b[None, :]
        part *= -2.0
        part += scale
        scale *= share
        close = np.flatnonzero(part <= scale)
        for first in range(0, close.size, 65536):
            i, j = np.divmod(close[first : first + 65536], n)
            part[i, j] = row_norms_squared(raw_A[start + i] - raw_B[j])
    return found, a, b


def from_differences(squares: Matrix, a: Matrix, b: Matrix) -> NDArray[np.bool_]:
    """Return which of the pairs of :func:`distances` come from differences in every computation of
    these rows.
    """
    return np.asarray(squares <= 0.5 * _cancellation(squares.dtype) * (a[:, None] + b[None, :]))


def row_norms(A: Features) -> Matrix:
    """Return the Euclidean norm of each row."""
    return np.sqrt(row_norms_squared(A))


def row_norms_squared(A: Features) -> Matrix:
    """Return the squared Euclidean norm of each row."""
    if sp.issparse(A):
        return np.asarray(A.multiply(A).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", A, A))


def distances_above(A: Any, B: Any) -> NDArray[np.float64]:
    """Return upper bounds on the distances of rows; 0 for equal ones."""
    squares, a, b = distances(A, B)
    error = roundings(4 * (A.shape[1] + 8)) * (a[:, None] + b[None, :])
    error[from_differences(squares, a, b)] = 0.0
    # A difference that was squared and added has a relative error.
    share = 1.0 + roundings(A.shape[1] + 8)
    return np.asarray(np.sqrt(np.maximum(squares + error, 0.0)) * share)
