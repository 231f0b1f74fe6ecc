r"""The optimality conditions of the pSVM and the hard margin as equations on the support vectors.

At the optimum every observation is of one of three kinds: outside the margin (:math:`\alpha_i = 0`), at the upper bound
of its multiplier (p = 1 only, :math:`\alpha_i = C s_i`), or *free*, with

.. math:: y_i\Big(\sum_j \alpha_j y_j K_{ij} + b\Big) + \xi_i(\alpha_i) = 1, \qquad \sum_i y_i \alpha_i = 0,

without b and the second equation where the bias is not free. Here :math:`\xi_i(\alpha_i)` is the slack that belongs to a
multiplier: :math:`(\alpha_i/(C s_i p))^{1/(p-1)}`, or 0 for p = 1 and for the hard margin. With the kinds known this is a square
system, linear for p = 1 and 2, which Newton's method solves to rounding. It turns the point of an interior-point solver into a
basic solution, like crossover in linear programming.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.feature_space import FeatureSpace
from svmcvx.system.deadline import current

__all__ = ["solve_support_equations"]

Floats: TypeAlias = NDArray[np.float64]
# Slack and its derivative as functions of the multipliers of the rows given.
Slack: TypeAlias = Callable[[Floats, NDArray[np.intp]], tuple[Floats, Floats]]

ROUNDS = 40
LARGEST_SYSTEM = 2500
# Limit on the sum over the rounds of the cubes of the system sizes: about a second of one core.
WORK = 2e10
# Largest violation of the conditions that is accepted, relative to the largest margin.
RESIDUAL = 1e-11
# Newton's method converges quadratically: below this residual the step just taken was the last one needed.
ALMOST_SOLVED = 1e-6
# Share of the largest multiplier below which one counts as zero.
NEGLIGIBLE = 1e-9
# Observations that may become free in one round: with more at once the rounds tend to cycle.
RELEASED = 5


def _solve(system: Floats, residual: Floats) -> Floats | None:
    """Solve a symmetric system, for the solution of least norm where it is singular, as with duplicate support vectors."""
    if not np.isfinite(system).all() or not np.isfinite(residual).all():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", sl.LinAlgWarning)
            return np.asarray(sl.solve(system, residual, assume_a="sym", check_finite=False))
    except (sl.LinAlgError, sl.LinAlgWarning):
        step, *_ = sl.lstsq(system, residual, check_finite=False, lapack_driver="gelsy")
        return np.asarray(step)


def solve_support_equations(
    space: FeatureSpace,
    alpha: Floats,
    *,
    free: NDArray[np.bool_],
    upper_bound: Floats,
    bias: float,
    slack: Slack | None,
) -> Floats | None:
    """Return multipliers that solve the equations, or None if the guess was not good enough.

    Parameters
    ----------
    space : FeatureSpace
    alpha : ndarray of shape (n,)
        The guess; multipliers of observations that are not free are kept (zero or the upper bound).
    free : ndarray of bool, shape (n,)
        The guess of the kinds.
    upper_bound : ndarray of shape (n,)
        Upper bounds, possibly infinite.
    bias : float
        Guess of the bias.
    slack : callable or None
        Slack and derivative for p > 1; None for p = 1 and the hard margin.
    """
    y, L = space.data.y, space.factor
    # Unknowns beside the multipliers.
    others = int(space.intercept == "free")
    alpha, free = alpha.copy(), free.copy()
    work = 0.0
    for _ in range(ROUNDS):
        rows = np.flatnonzero(free).astype(np.intp)
        work += float(rows.size) ** 3
        if work > WORK or current().passed():
            return None
        if not 1 + others <= rows.size <= LARGEST_SYSTEM:
            return None
        f = space.scores_of(alpha * y) + bias
        xi, slope = slack(alpha[rows], rows) if slack else (np.zeros(rows.size), np.zeros(rows.size))
        k = rows.size
        residual = np.zeros(k + others)
        residual[:k] = 1.0 - xi - y[rows] * f[rows]
        residual[k:] = -float(y @ alpha)
        part = L[rows].toarray() if sp.issparse(L) else L[rows]
        signed = part * y[rows, None]
        system = np.zeros((k + others, k + others))
        system[:k, :k] = signed @ signed.T
        system[np.arange(k), np.arange(k)] += slope
        system[:k, k:] = y[rows, None]
        system[k:, :k] = y[None, rows]
        step = _solve(system, residual)
        if step is None:
            return None
        moved = alpha[rows] + step[:k]
        bias += float(step[k:].sum())
        low, high = moved < 0, moved > upper_bound[rows]
        if slack:
            # A multiplier that would become negative is divided by ten instead, and set to zero once it is negligible.
            alpha[rows] = np.where(low, 0.1 * alpha[rows], moved)
            gone = rows[low & (alpha[rows] < NEGLIGIBLE * float(alpha.max()))]
            alpha[gone], free[gone] = 0.0, False
            finished = not low.any() and float(np.abs(residual).max()) < ALMOST_SOLVED
        else:
            alpha[rows] = np.clip(moved, 0.0, upper_bound[rows])
            free[rows[low | high]] = False
            finished = not (low | high).any()
        if not finished:
            continue
        u = y * (space.scores_of(alpha * y) + bias)
        wrong = np.where(alpha <= 0, 1.0 - u, np.where(alpha >= upper_bound, u - 1.0, 0.0))
        wrong[free] = 0.0
        if float(wrong.max()) <= RESIDUAL * max(1.0, float(np.abs(u).max())):
            return alpha
        released = np.argsort(wrong)[-RELEASED:]
        released = released[wrong[released] > 0]
        free[released] = True
        if slack:
            # The slack has no derivative at α = 0 for p > 2: start from a small positive multiplier.
            alpha[released] = NEGLIGIBLE * float(alpha.max())
    return None
