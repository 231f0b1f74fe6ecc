"""Functions of each row of a matrix, or of each of its entries: sums, largest entries, soft maxima
and entropies.
"""

# As in bounded.py, what plain arrays give is plain, what bounded ones give is bounded.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import functools
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.core.bounded import (
    ELEMENTARY,
    GROW,
    LOST,
    SMALL,
    Bounded,
    expm1_above,
    growth,
    parts_of,
    quietly,
    roundings,
)

__all__ = [
    "entropy",
    "largest_sums",
    "log1p_exp",
    "log1p_sum_exp",
    "remainder",
    "row_maxima",
    "row_sums",
]

Floats: TypeAlias = NDArray[np.float64]

# Columns up to which they are taken one by one: reductions along short rows are slow.
FEW = 12
# A share of a whole from which nothing is lost to underflow, and more than the logarithm of any
# number beyond the share.
LEAST_SHARE = 2.0**-1000
LARGEST_LOGARITHM = 1500.0


@quietly
def row_sums(x: Any) -> Any:
    r"""Return the sums of the rows of a matrix of k columns, each off by at most :math:`k u
    \sum|a|` [JeannerodRump].
    """
    ones = np.ones(x.shape[1])
    if not isinstance(x, Bounded):
        return np.asarray(x @ ones)
    k = x.shape[1]
    error = (abs(x.value) @ ones) * roundings(k)
    if not x.is_exact:
        error = error + (x.error * k if isinstance(x.error, float) else x.error @ ones)
    # Sums of k numbers that are not negative.
    return Bounded(x.value @ ones, error * growth(k))


def row_maxima(x: Any) -> Any:
    """Return the largest entry of each row; it does not move by more than the largest error."""
    if isinstance(x, Bounded):
        return Bounded(
            row_maxima(x.value), x.error if isinstance(x.error, float) else row_maxima(x.error)
        )
    return functools.reduce(np.maximum, x.T) if 0 < x.shape[1] <= FEW else np.asarray(x.max(axis=1))


@quietly
def largest_sums(x: Any, k: int) -> Any:
    """Return the sums of the k largest entries of each row, of all if it has fewer; they move by no
    more than those of the errors do.
    """
    k = min(k, x.shape[1])
    if k == 1:
        return row_maxima(x)
    if not isinstance(x, Bounded):
        return row_sums(np.partition(x, x.shape[1] - k, axis=1)[:, x.shape[1] - k :])
    found = row_sums(Bounded(np.partition(x.value, x.shape[1] - k, axis=1)[:, x.shape[1] - k :]))
    moved = x.error * k if isinstance(x.error, float) else largest_sums(x.error, k)
    return Bounded(found.value, (found.error + moved) * growth(k))


@quietly
def remainder(s: Floats, x: Any) -> Any:
    r"""Return :math:`s_i - \sum_k x_{ik}` to full accuracy, however much of it cancels, for exact
    s.
    """
    if not isinstance(x, Bounded):
        return s - row_sums(x)
    left, slips, size = np.array(s, dtype=np.float64), np.zeros(len(s)), np.zeros(len(s))
    k = x.shape[1]
    for column in x.value.T:
        taken = left - column
        back = taken - left
        slip = (left - (taken - back)) + (-column - back)
        left, slips, size = taken, slips + slip, size + abs(slip)
    value = left + slips
    error = abs(value) * roundings(1) + size * roundings(k + 2)
    if not x.is_exact:
        error = error + (x.error * k if isinstance(x.error, float) else x.error.sum(axis=1))
    return Bounded(value, error * growth(k))


@quietly
def log1p_exp(x: Any) -> Any:
    r"""Return :math:`\ell = \log(1 + e^x)` of each entry; see :func:`log1p_sum_exp`."""
    a = x.value if isinstance(x, Bounded) else x
    value = np.maximum(a, 0.0) + np.log1p(np.exp(-abs(a)))
    return _softened(value, x.error, 1) if isinstance(x, Bounded) else value


@quietly
def log1p_sum_exp(x: Any) -> Any:
    r"""Return :math:`\ell = \log(1 + \sum_k e^{x_{ik}})` of each row."""
    a = x.value if isinstance(x, Bounded) else x
    top = np.maximum(row_maxima(a), 0.0)
    terms = np.exp(a - top[:, None])
    # The largest term itself is taken out, be it that of 0 or that of a column.
    rows = np.flatnonzero(top > 0.0)
    terms[rows, np.argmax(a[rows], axis=1)] = np.exp(-top[rows])
    value = top + np.log1p(row_sums(terms))
    if not isinstance(x, Bounded):
        return value
    return _softened(
        value, x.error if isinstance(x.error, float) else row_maxima(x.error), a.shape[1]
    )


def _softened(value: Floats, reach: Any, k: int) -> Bounded:
    """Return a soft maximum of k numbers and 0 with its error, whose arguments have errors up to
    `reach`.
    """
    error = value * roundings(24 + 2 * k) + np.where(value < SMALL, LOST * k, 0.0)
    if not (isinstance(reach, float) and reach == 0.0):
        probability = -np.expm1(-(value + error) * GROW) * (1.0 + ELEMENTARY)
        error = error + np.minimum(reach, probability * expm1_above(reach))
    return Bounded(value, error * GROW)


@quietly
def entropy(x: Any, rest: Any, s: Any) -> Any:
    r"""Return :math:`h = -x\log(x/s)` of numbers between 0 and s, with x + rest = s for the exact
    numbers; s is exact.
    """
    (a, r), (b, t) = parts_of(x), parts_of(rest)
    share = a / s
    large = share > 0.5
    share = np.where(large, np.minimum(b / s, 1.0), share)
    logarithm = -np.where(large, np.log1p(-share), np.log(share))
    value = np.where(a > 0.0, a * logarithm, 0.0)
    if not (isinstance(x, Bounded) or isinstance(rest, Bounded)):
        return value
    moved = r * logarithm + np.where(large, (a + r) * (t / (s - b - t)), 0.0)
    error = (value * (ELEMENTARY + roundings(8)) + moved) * GROW
    sure = ((share > LEAST_SHARE) | (large & (b == 0.0))) & (
        ~large | ((share <= 0.6) & (t <= 0.1 * s))
    )
    if not (sure & (value >= SMALL) & (error <= value)).all():
        # What is known of h by itself.
        farthest = (a + r) * GROW
        ratio = farthest / s
        logarithm = np.where(
            ratio < LEAST_SHARE, LARGEST_LOGARITHM, -np.log(ratio) * (1.0 + 2.0 * ELEMENTARY)
        )
        most = np.minimum(np.where(ratio < 0.36, farthest * logarithm, 0.38 * s), (b + t) * GROW)
        sure &= ~(error > most)
        value, error = np.where(sure, value, 0.5 * most), np.where(sure, error, 0.5 * most * GROW)
        nothing = (farthest == 0.0) | ((b == 0.0) & (np.asarray(t) == 0.0))
        error = error + np.where((value < SMALL) & ~nothing, LOST, 0.0)
    return Bounded(value, error)
