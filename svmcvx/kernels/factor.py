"""Factors :math:`K = LL'` of Gram matrices, by which it is tested whether they are definite."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from types import EllipsisType

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from scipy.linalg import lapack

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import EPS, TINY
from svmcvx.data import check_choice
from svmcvx.errors import DataError
from svmcvx.kernels.functions import SQUARE
from svmcvx.system.deadline import checkpoint, run_with_deadline

# An entry, or a squared length in feature space, times a usual cost still is a number.
LARGEST_ENTRY = 1e250


@dataclass(frozen=True, eq=False)
class GramFactor:
    """A factor :math:`K_+ = LL'` of a Gram matrix: triangular in the rows `pivots`, or with
    orthogonal columns in units `unit` of the rows, whose squared lengths are the eigenvalues
    `values`; `projector` belongs to a positive part.
    """

    L: Floats
    rank: int
    clipped_mass: float
    pivots: NDArray[np.intp] | EllipsisType = ...
    projector: Floats | None = None
    values: Floats | None = None
    unit: Floats | float = 1.0

    def expansion(self, w: Floats) -> Floats:
        """Return v with L'v = w; `w` may have several columns."""
        v = np.zeros((self.L.shape[0], *w.shape[1:]))
        if not (self.rank and w.any()):
            return v
        if self.values is not None:
            return np.asarray((self.L @ (w.T / self.values).T).T / self.unit**2).T
        v[self.pivots] = sl.solve_triangular(
            self.L[self.pivots], w, trans="T", lower=True, check_finite=False
        )
        return v


def gram_factor(K: Floats, *, indefinite: str = "error", single: bool | None = None) -> GramFactor:
    """Factor a Gram matrix: Cholesky, else eigenvalues with clipping. With `single`, which says
    whether its entries are of single precision, it must be symmetric; else both are tested.
    """
    check_choice(indefinite, "indefinite", ("error", "clip"))
    K = np.asarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise DataError(f"the Gram matrix must be square, got shape {K.shape}")
    checkpoint()
    low, high = float(K.min(initial=0.0)), float(K.max(initial=0.0))
    if not math.isfinite(low + high):
        raise DataError("the Gram matrix has NaN or infinity; scale the data or reduce gamma")
    if (largest := max(high, -low)) > LARGEST_ENTRY:
        raise DataError(
            f"the Gram matrix has entries of {largest:.3g}, beyond {LARGEST_ENTRY:g}, where"
            " arithmetic overflows; scale the data or the kernel"
        )
    if single is None:
        require_symmetric(K)
    if (found := definite_factor(K)) is not None:
        return found
    n = K.shape[0]
    if indefinite == "error":
        scaled, unit = _scaled(K)
        values, vectors = run_with_deadline(np.linalg.eigh, scaled)
        largest = float(np.abs(values).max())
        if not (values < -10 * n * EPS * largest).any():
            return _from_spectrum(values, vectors, unit)
        single = is_single(K) if single is None else single
        rounded = float(np.finfo(np.float32).eps) if single else 10 * EPS
        negative = values < -n * rounded * largest
        if negative.any():
            raise DataError(
                f"the kernel is indefinite on these data: {int(negative.sum())} of {n} eigenvalues"
                f" are negative, with the diagonal scaled to 1 the smallest {values[0]:.3g} against"
                f" the largest {values[-1]:.3g}; use a positive semidefinite kernel, or pass"
                " indefinite='clip' to replace the Gram matrix by its positive part (recorded in"
                " the certificate)"
            )
    return _from_spectrum(*run_with_deadline(np.linalg.eigh, K))


def _from_spectrum(values: Floats, vectors: Floats, unit: Floats | None = None) -> GramFactor:
    """Return the factor from a spectrum in units of the rows; without units, of a positive part."""
    n = values.size
    # The eigenvalues are sorted.
    rank = int((values > 10 * n * EPS * float(np.abs(values).max())).sum())
    basis, significant = vectors[:, n - rank :], values[n - rank :]
    L = basis * np.sqrt(significant) if rank else np.zeros((n, 1))
    return GramFactor(
        L=L if unit is None else unit[:, None] * L,
        rank=rank,
        clipped_mass=float(-values[values < 0].sum() / max(np.abs(values).sum(), TINY)),
        projector=basis if unit is None else None,
        values=significant,
        unit=1.0 if unit is None else unit,
    )


def definite_factor(K: Floats) -> GramFactor | None:
    """Factor a symmetric matrix by Cholesky's method, with pivots if it is singular; return None if
    it is not positive semidefinite up to rounding.
    """
    # The transposed matrix is the same, and in LAPACK's order.
    upper, minor = run_with_deadline(lapack.dpotrf, K.T)
    if not minor:
        return GramFactor(upper.T, K.shape[0], 0.0)
    if _falls(K[:minor, :minor], upper[: minor - 1, : minor - 1]):
        return None
    scaled, unit = _scaled(K)
    if (found := run_with_deadline(_pivoted, scaled)) is None:
        return None
    return GramFactor(unit[:, None] * found[0], found[1].size, 0.0, found[1])


def is_definite(K: Floats) -> bool:
    """Whether a symmetric matrix is positive semidefinite up to rounding: whether it has a factor
    after its diagonal has grown by as much, which takes no pivots unless its rank is low.
    """
    n = K.shape[0]
    few = max(n // 8, 1)
    if lapack.dpotrf(K[:few, :few].T)[1]:
        return definite_factor(K) is not None
    grown = np.array(K.T, order="F")
    diagonal = np.einsum("ii->i", grown)
    # A row of zeros stays one.
    diagonal[:] = (1.0 + 5 * n * EPS) * diagonal + TINY
    return not run_with_deadline(partial(lapack.dpotrf, overwrite_a=1, clean=0), grown)[1]


def _falls(K: Floats, upper: Floats) -> bool:
    """Whether x'Kx is below all rounding for the x that the first failing minor of Cholesky's
    method gives, of which `upper` factors all but the last row.
    """
    with np.errstate(all="ignore"):
        x = np.append(-sl.cho_solve((upper, False), K[:-1, -1], check_finite=False), 1.0)
        return bool(x @ (K @ x) < -10 * x.size * EPS * np.linalg.norm(K) * (x @ x))


def _scaled(K: Floats) -> tuple[Floats, Floats]:
    """Return the matrix in units of each observation's length, and these, so that a few long
    observations do not hide negative or small eigenvalues of the others.
    """
    length = np.sqrt(np.maximum(np.diagonal(K), 0.0))
    unit = np.where(length > 0, length, 1.0)
    return K / unit[:, None] / unit, unit


def _pivoted(K: Floats) -> tuple[Floats, NDArray[np.intp]] | None:
    """Return a factor by Cholesky's method with pivots, and these; None if it leaves a part larger
    than roundings of the matrix's largest eigenvalue.
    """
    n = K.shape[0]
    packed, order, rank, _ = lapack.dpstrf(K.T, lower=1, tol=2 * n * EPS)
    L = np.empty((n, max(rank, 1)))
    L[order - 1] = np.tril(packed[:, : L.shape[1]])
    order = order.astype(np.intp) - 1
    # Rows of pivots are factored up to rounding; where they are few, no copy is made without them.
    row, rest = K[order[0]], order[rank:] if 2 * rank > n else slice(None)
    with np.errstate(over="ignore", invalid="ignore"):
        # The norm of K is at least |Kx|/|x|.
        left = np.linalg.norm(K[rest][:, rest] - L[rest] @ L[rest].T) * np.linalg.norm(row)
        small = left <= 10 * n * EPS * np.linalg.norm(K @ row) < math.inf
    return (L, order[:rank]) if small else None


def require_symmetric(K: Floats) -> None:
    r"""Raise unless :math:`|K_{ij} - K_{ji}|` is rounding in :math:`\sqrt{K_{ii} K_{jj}}`."""
    length = np.sqrt(np.abs(np.diagonal(K)))
    # Some roundings of numbers in single precision; of others, more than the digits of a product.
    share = 64 * float(np.finfo(np.float32).eps) if is_single(K) else 1e-8
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
