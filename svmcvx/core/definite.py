r"""Proved bounds of the eigenvalues of symmetric matrices.

If the Cholesky factorisation of a symmetric A runs to its end in floating point, then
:math:`\lambda_{\min}(A) \ge -\frac{\gamma}{1-\gamma}\,\mathrm{tr}\,A` with :math:`\gamma =
(n+2)u/(1-(n+2)u)` [Rump].
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.core.bounded import Bounded, exact, roundings, total
from svmcvx.core.exactly import SMALLEST
from svmcvx.core.rows import sums_above

__all__ = [
    "LARGEST_GROWTH",
    "Spectrum",
    "largest_eigenvalue_above",
    "smallest_eigenvalue_below",
    "spectrum_above",
]

Floats: TypeAlias = NDArray[np.float64]

# The largest (n + 4)u of which a bound on the backward error of a factorisation is used.
LARGEST_GROWTH = 0.01


class Spectrum(NamedTuple):
    """Approximate eigenvalues and vectors of a symmetric matrix, and a number that is proved to be
    at least the largest one.
    """

    values: Floats
    vectors: Floats
    top: float


def spectrum_above(A: Floats, error: float) -> Spectrum:
    """Return the spectrum of a symmetric matrix that is known up to an error of this norm."""
    n = A.shape[0]
    if not np.isfinite(A).all():
        return Spectrum(np.full(n, math.inf), np.eye(n), math.inf)
    values, vectors = sl.eigh(A, check_finite=False)
    return Spectrum(
        values, vectors, (exact(largest_eigenvalue_above(A, float(values[-1]))) + error).upper
    )


def backward_error(n: int) -> Bounded:
    r"""Return :math:`\gamma_n = nu/(1 - nu)` of computations that round n times [Rump]."""
    growth = exact(roundings(n))
    return growth / (1.0 - growth)


def smallest_eigenvalue_below(A: Floats, guess: float) -> float:
    """Return a number that is proved to be at most the smallest eigenvalue of a symmetric matrix."""
    n = A.shape[0]
    diagonal = np.abs(np.diagonal(A))
    size = float(diagonal.max(initial=0.0)) + abs(guess)
    if not math.isfinite(size):
        return -math.inf
    backward = backward_error(3 * (n + 3)) / 3.0
    step = max(4.0 * backward.upper * (float(diagonal.sum()) + n * abs(guess)), 2.0**-1000)
    for _ in range(8):
        shift = guess - step
        shifted = A.copy()
        shifted[np.diag_indices(n)] -= shift
        try:
            sl.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        except (sl.LinAlgError, ValueError):
            step *= 8.0
            continue
        # The backward error of the factorisation, and the rounding of the shifted diagonal.
        error = (
            backward * total(exact(diagonal) + abs(shift))
            + roundings(2) * (exact(size) + abs(shift))
            + n * SMALLEST
        )
        return float((shift - error).lower)
    return -math.inf


def largest_eigenvalue_above(A: Floats, guess: float) -> float:
    """Return a number that is proved to be at least the largest eigenvalue of a symmetric matrix; ∞
    if nothing could be proved.
    """
    n = A.shape[0]
    if n == 0:
        return 0.0
    diagonal = np.abs(np.diagonal(A))
    size = float(diagonal.max()) + abs(guess)
    if not math.isfinite(size):
        return math.inf
    if roundings(n + 4) > LARGEST_GROWTH:
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
