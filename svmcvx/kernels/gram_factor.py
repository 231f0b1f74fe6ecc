r"""The factor :math:`K = LL'` of a Gram matrix, with its rank and what was clipped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.data import check_choice
from svmcvx.errors import DataError

__all__ = ["GramFactor", "gram_factor"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class GramFactor:
    r"""A factor :math:`K_+ = LL'` of a Gram matrix.

    Attributes
    ----------
    L : ndarray of shape (n, rank)
    rank : int
        Numerical rank; columns of `L` (at least one column is kept).
    clipped_mass : float
        :math:`\sum|\lambda_i^-| / \sum|\lambda_i|`, the share of the spectrum that was negative and was set
        to zero; 0 for a factor by Cholesky.
    method : "cholesky" or "eigh"
    projector : ndarray of shape (n, rank) or None
        Orthonormal basis `U` of the part kept, when more than rounding was clipped: then ``K_+ = UU'K``.
    """

    L: Floats
    rank: int
    clipped_mass: float
    method: str
    projector: Floats | None = None


def gram_factor(K: Floats, *, indefinite: str = "error") -> GramFactor:
    """Factor a symmetric Gram matrix: Cholesky, else eigenvalues with clipping.

    Parameters
    ----------
    K : ndarray of shape (n, n)
        Symmetric matrix.
    indefinite : "error" or "clip"
        What to do with negative eigenvalues beyond rounding: refuse, or replace `K` by its positive part
        :math:`K_+` and report the mass that was clipped.

    Raises
    ------
    DataError
        If `K` is not symmetric, not finite, or indefinite and clipping was not asked for.
    """
    check_choice(indefinite, "indefinite", ("error", "clip"))
    K = np.asarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise DataError(f"the Gram matrix must be square, got shape {K.shape}")
    if not np.isfinite(K).all():
        raise DataError("the Gram matrix contains NaN or infinity; scale the data or use a smaller gamma or degree")
    largest = float(np.abs(K).max(initial=0.0))
    if float(np.abs(K - K.T).max(initial=0.0)) > 1e-8 * largest:
        raise DataError("the Gram matrix is not symmetric; pass k(x_i, x_j) for all pairs of training observations")
    n = K.shape[0]
    try:
        return GramFactor(
            L=np.tril(sl.cholesky(K, lower=True, check_finite=False)), rank=n, clipped_mass=0.0, method="cholesky"
        )
    except sl.LinAlgError:
        pass
    values, vectors = sl.eigh(K, check_finite=False)
    rounding = 10 * n * np.finfo(np.float64).eps * float(np.abs(values).max(initial=0.0))
    negative = values < -rounding
    mass = float(-values[values < 0].sum() / max(np.abs(values).sum(), np.finfo(np.float64).tiny))
    if negative.any() and indefinite == "error":
        raise DataError(
            f"the kernel is indefinite on these data: {int(negative.sum())} of {n} eigenvalues are negative, the smallest "
            f"{values[0]:.3g} against the largest {values[-1]:.3g}; use a positive semidefinite kernel, or pass "
            "indefinite='clip' to replace the Gram matrix by its positive part (recorded in the certificate)"
        )
    kept = values > rounding
    rank = int(kept.sum())
    if rank == 0:
        return GramFactor(L=np.zeros((n, 1)), rank=0, clipped_mass=mass, method="eigh", projector=None)
    basis = vectors[:, kept]
    return GramFactor(
        L=basis * np.sqrt(values[kept]),
        rank=rank,
        clipped_mass=mass,
        method="eigh",
        projector=basis if negative.any() else None,
    )
