r"""The factor :math:`K = LL'` of a Gram matrix, with its rank and what was clipped."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.data import check_choice
from svmcvx.errors import DataError
from svmcvx.system.deadline import check_cancelled, checkpoint, run_with_deadline

EPS = float(np.finfo(np.float64).eps)

# Rows and columns of a part of a matrix that stays in the processor's cache with its transpose.
SQUARE = 256
# Share of the lengths of two observations by which the kernel of the two may depend on their order:
# of any matrix, and of one whose numbers are all of single precision.
ASYMMETRY, SINGLE_ASYMMETRY = 1e-8, 64.0 * float(np.finfo(np.float32).eps)
# An entry times a usual cost still is a number.
LARGEST_ENTRY = 1e250


@dataclass(frozen=True, eq=False)
class GramFactor:
    """A factor :math:`K_+ = LL'` of a Gram matrix."""

    L: Floats
    rank: int
    clipped_mass: float
    method: str
    projector: Floats | None = None
    values: Floats | None = None
    unit: Floats | None = None

    def expansion(self, w: Floats) -> Floats:
        if not w.any():
            return np.zeros(self.L.shape[0])
        if self.values is not None:
            # Columns of L, in the units, are orthogonal and have the eigenvalues as squared
            # lengths.
            v = self.L[:, : self.rank] @ (w[: self.rank] / self.values)
            return np.asarray(v if self.unit is None else v / self.unit**2)
        return np.asarray(sl.solve_triangular(self.L, w, trans="T", lower=True, check_finite=False))


def gram_factor(K: Floats, *, indefinite: str = "error", single: bool | None = None) -> GramFactor:
    """Factor a symmetric Gram matrix: Cholesky, else eigenvalues with clipping."""
    check_choice(indefinite, "indefinite", ("error", "clip"))
    K = np.asarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise DataError(f"the Gram matrix must be square, got shape {K.shape}")
    checkpoint()
    low, high = float(K.min(initial=0.0)), float(K.max(initial=0.0))
    if not math.isfinite(low + high):
        raise DataError(
            "the Gram matrix contains NaN or infinity; scale the data or use a smaller gamma or"
            " degree"
        )
    if (largest := max(high, -low)) > LARGEST_ENTRY:
        raise DataError(
            f"the Gram matrix has entries of {largest:.3g}, beyond {LARGEST_ENTRY:g}, where"
            " arithmetic overflows; scale the data or the kernel"
        )
    require_symmetric(K)
    n = K.shape[0]
    try:
        L = run_with_deadline(np.linalg.cholesky, K)
        return GramFactor(L=L, rank=n, clipped_mass=0.0, method="cholesky")
    except np.linalg.LinAlgError:
        pass
    # In units of each observation's length, so that a few long observations do not hide negative or
    # small eigenvalues of the others.
    length = np.sqrt(np.maximum(np.diagonal(K), 0.0))
    unit = np.where(length > 0, length, 1.0)
    values, vectors = run_with_deadline(np.linalg.eigh, K / unit[:, None] / unit[None, :])
    largest = float(np.abs(values).max(initial=0.0))
    if not (values < -10 * n * EPS * largest).any():
        return _from_spectrum(values, vectors, unit)
    single = is_single(K) if single is None else single
    tolerated = n * (float(np.finfo(np.float32).eps) if single else 10 * EPS) * largest
    if indefinite == "error" and (values < -tolerated).any():
        raise DataError(
            f"the kernel is indefinite on these data: {int((values < -tolerated).sum())} of"
            f" {n} eigenvalues are negative, with the diagonal scaled to 1 the smallest"
            f" {values[0]:.3g} against the largest {values[-1]:.3g}; use a positive semidefinite"
            " kernel, or pass indefinite='clip' to replace the Gram matrix by its positive part"
            " (recorded in the certificate)"
        )
    return _from_spectrum(*run_with_deadline(np.linalg.eigh, K), None)


def _from_spectrum(values: Floats, vectors: Floats, unit: Floats | None) -> GramFactor:
    """Return the factor from a spectrum in the units of the observations, or of a positive part."""
    n, total = values.size, float(np.abs(values).sum())
    significant = values > 10 * n * EPS * float(np.abs(values).max(initial=0.0))
    basis, rank = vectors[:, significant], int(significant.sum())
    L = basis * np.sqrt(values[significant]) if rank else np.zeros((n, 1))
    return GramFactor(
        L=L if unit is None else unit[:, None] * L,
        rank=rank,
        clipped_mass=float(-values[values < 0].sum() / max(total, np.finfo(np.float64).tiny)),
        method="eigh",
        projector=basis if unit is None else None,
        values=values[significant],
        unit=unit,
    )


def require_symmetric(K: Floats) -> None:
    r"""Raise unless :math:`|K_{ij} - K_{ji}|` is rounding in :math:`\sqrt{K_{ii} K_{jj}}`."""
    length = np.sqrt(np.abs(np.diagonal(K)))
    share = SINGLE_ASYMMETRY if is_single(K) else ASYMMETRY
    for start in range(0, length.size, SQUARE):
        part, rest = slice(start, start + SQUARE), slice(start, None)
        off = np.abs(K[part, rest] - K[rest, part].T) > share * np.outer(length[part], length[rest])
        if not off.any():
            continue
        i, j = np.argwhere(off)[0] + start
        raise DataError(
            f"the Gram matrix is not symmetric: k(x_{i}, x_{j}) = {float(K[i, j])!r} and"
            f" k(x_{j}, x_{i}) = {float(K[j, i])!r}; pass k(x_i, x_j) for all pairs of training"
            " observations, by a symmetric function"
        )


def is_single(K: Floats) -> bool:
    """Whether a kernel was rounded to single precision: all numbers of its matrix are."""
    with np.errstate(over="ignore"):
        return (
            K.size > 1
            and bool((K[0] == K[0].astype(np.float32)).all())
            and bool((K.astype(np.float32) == K).all())
        )


def symmetrised(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the mean of a square matrix and its transpose, in parts that fit in a cache."""
    n, found = matrix.shape[0], np.empty_like(matrix)
    for i in range(0, n, SQUARE):
        check_cancelled()
        rows = slice(i, i + SQUARE)
        for j in range(0, i + 1, SQUARE):
            columns = slice(j, j + SQUARE)
            mean = matrix[rows, columns] + matrix[columns, rows].T
            mean *= 0.5
            found[rows, columns], found[columns, rows] = mean, mean.T
    return found
