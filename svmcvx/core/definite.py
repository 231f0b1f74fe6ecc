r"""Proved bounds of the eigenvalues of symmetric matrices.

If the Cholesky factorisation of a symmetric A runs to its end in floating point, then
:math:`\lambda_{\min}(A) \ge -\frac{\gamma}{1-\gamma}\,\mathrm{tr}\,A` with :math:`\gamma = (n+2)u/(1-(n+2)u)` [Rump].
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.core.bounded import U, down, up
from svmcvx.core.exactly import SMALLEST

__all__ = ["largest_eigenvalue_above", "smallest_eigenvalue_below"]

Floats: TypeAlias = NDArray[np.float64]


def smallest_eigenvalue_below(A: Floats, guess: float) -> float:
    """Return a number that is proved to be at most the smallest eigenvalue of a symmetric matrix.

    Parameters
    ----------
    A : ndarray of shape (n, n)
        Exactly symmetric; its lower triangle is used.
    guess : float
        An approximation, such as that of ``eigvalsh``; bad ones cost accuracy, not truth.

    Returns
    -------
    float
        −inf if nothing could be proved.
    """
    n = A.shape[0]
    diagonal = np.abs(np.diagonal(A))
    size = float(diagonal.max(initial=0.0)) + abs(guess)
    if not math.isfinite(size):
        return -math.inf
    growth = (n + 3) * U
    backward = growth / (1.0 - 3.0 * growth)
    step = max(4.0 * backward * (float(diagonal.sum()) + n * abs(guess)), 2.0**-1000)
    for _ in range(8):
        shift = guess - step
        shifted = A.copy()
        shifted[np.diag_indices(n)] -= shift
        try:
            sl.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False)
        except (sl.LinAlgError, ValueError):
            step *= 8.0
            continue
        trace = float((diagonal + abs(shift)).sum()) * (1.0 + 2 * n * U)
        # The backward error of the factorisation, and the rounding of the shifted diagonal.
        error = backward * trace * (1.0 + 4 * U) + 2 * U * (size + abs(shift)) + n * SMALLEST
        return down(shift - error * (1.0 + 4 * U))
    return -math.inf


def largest_eigenvalue_above(A: Floats, guess: float) -> float:
    r"""Return a number that is proved to be at least the largest eigenvalue of a symmetric matrix; ∞ if nothing could be proved.

    If the factorisation RR' of tI − A runs to its end, then :math:`|RR' - (tI - A)| \le \gamma_{n+1}|R||R|'`
    (Higham, Accuracy and Stability of Numerical Algorithms, theorem 10.3), whose norm is at most its largest row sum.
    """
    n = A.shape[0]
    if n == 0:
        return 0.0
    diagonal = np.abs(np.diagonal(A))
    size = float(diagonal.max()) + abs(guess)
    if not math.isfinite(size):
        return math.inf
    growth = (n + 4) * U
    if growth > 0.01:
        return math.inf
    growth = growth / (1.0 - growth)
    step = 4.0 * growth * size + n * SMALLEST
    for _ in range(6):
        shift = guess + step
        shifted = -A
        shifted[np.diag_indices(n)] += shift
        try:
            R = np.abs(sl.cholesky(shifted, lower=True, overwrite_a=True, check_finite=False))
        except (sl.LinAlgError, ValueError):
            step *= 16.0
            continue
        row_sum = float((R @ R.sum(axis=0)).max()) * (1.0 + 4 * n * U)
        error = growth * row_sum * (1.0 + 8 * U) + 2 * U * (size + abs(shift)) + n * SMALLEST
        return up(shift + error * (1.0 + 4 * U)) if math.isfinite(error) else math.inf
    return math.inf
