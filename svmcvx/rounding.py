r"""Bounds on rounding errors that hold for every input, for the checker.

**Assumed.** IEEE binary64, round to nearest, no flush to zero; sums and products in any order, fused or not, but no
Strassen-like products; ``sqrt`` correctly rounded; numpy's ``exp``, ``log``, ``tanh`` and ``power`` within
:data:`ULPS` units in the last place (a test holds them against ball arithmetic). With :math:`u = 2^{-53}`:

* an inner product of n terms has an error of at most :math:`n u\, |x|'|y|` [JeannerodRump], plus what underflow loses;
* :func:`math.fsum` is correctly rounded;
* the rounding error of one addition is itself a number, and found by five more additions [Knuth];
* if the Cholesky factorisation of a symmetric A runs to its end in floating point, then
  :math:`\lambda_{\min}(A) \ge -\frac{\gamma}{1-\gamma}\,\mathrm{tr}\,A` with :math:`\gamma = (n+2)u/(1-(n+2)u)` [Rump].

Every bound is itself computed in floating point, and enlarged by more than its own rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

__all__ = [
    "ELEMENTARY",
    "SMALLEST",
    "ULPS",
    "UNDERFLOW",
    "BalancePlan",
    "ClassSums",
    "U",
    "balance_plan",
    "balanced",
    "class_sums",
    "clipped",
    "dot_exactly",
    "down",
    "grid_imbalance",
    "grid_units",
    "imbalance",
    "inner_error",
    "largest_eigenvalue_above",
    "nearest_sum",
    "norm_above",
    "product_below",
    "row_norms_above",
    "smallest_eigenvalue_below",
    "sum_above",
    "sum_below",
    "take_units",
    "unit_sums",
    "up",
    "weighted_rows",
]

Floats: TypeAlias = NDArray[np.float64]

U = 2.0**-53
# The smallest positive number.
SMALLEST = 2.0**-1074
# More than any sum of products here loses to underflow.
UNDERFLOW = 2.0**-1000
# Accuracy of numpy's elementary functions in units in the last place, and the relative error that this is.
ULPS = 4.0
ELEMENTARY = 2.0 * ULPS * U
# Bits of a multiplier on the grid, beside those that the sum of all of them needs.
SUM_BITS = 62
LARGEST_BITS = 50
# Length from which the sums of an array are not taken by math.fsum.
LONG = 1024
# Rows that are summed by one product, so that the error grows with their number and with that of the parts.
PART = 512


def up(x: float) -> float:
    """Return the next number above."""
    return math.nextafter(x, math.inf)


def down(x: float) -> float:
    """Return the next number below."""
    return math.nextafter(x, -math.inf)


def sum_above(values: Iterable[float] | Floats) -> float:
    """Return a number that is at least the sum: infinite where partial sums overflow."""
    value, error = _sum(values, math.inf)
    return up(up(value) + error) if error else up(value)


def sum_below(values: Iterable[float] | Floats) -> float:
    """Return a number that is at most the sum: −inf where partial sums overflow."""
    value, error = _sum(values, -math.inf)
    return down(down(value) - error) if error else down(value)


def _sum(values: Iterable[float] | Floats, beyond: float) -> tuple[float, float]:
    """Return the sum and a bound on its error beside the last rounding; `beyond` where partial sums overflow.

    The halves of a long array are added with their rounding errors, which are known exactly [Knuth], until it is short: many
    times faster than :func:`math.fsum`, and off by n u² log n at most.
    """
    if not isinstance(values, np.ndarray) or values.size < LONG:
        return nearest_sum(values, beyond), 0.0
    left, lost, size = np.ravel(values), 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        while left.size >= LONG // 4:
            half = left.size // 2
            a, b, odd = left[:half], left[half : 2 * half], left[2 * half :]
            added = a + b
            back = added - a
            errors = (a - (added - back)) + (b - back)
            lost += float(errors.sum())
            size += float(np.abs(errors).sum())
            left = np.concatenate([added, odd]) if odd.size else added
    if not (math.isfinite(size) and np.isfinite(left).all()):
        return nearest_sum(values, beyond), 0.0
    return nearest_sum([*left.tolist(), lost]), (values.size + 64) * U * size * (1.0 + 2.0**-20)


def nearest_sum(values: Iterable[float] | Floats, beyond: float = math.nan) -> float:
    """Return the sum, rounded once; `beyond` where partial sums of finite terms overflow, NaN where infinities cancel."""
    listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
    try:
        return math.fsum(listed)
    except OverflowError:
        return beyond
    except ValueError:
        return math.nan


def inner_error(terms: int, magnitude: Any) -> Any:
    r"""Return a bound on the error of inner products of `terms` terms, whose :math:`|x|'|y|` was computed as `magnitude`."""
    return (terms * U * (1.0 + 4.0 * terms * U + 8.0 * U)) * magnitude + UNDERFLOW


def norm_above(x: Floats) -> float:
    """Return a number that is at least the Euclidean norm."""
    return float(np.sqrt(float(np.vdot(x, x)) * (1.0 + (x.size + 4) * U)) * (1.0 + 4 * U) + _lost(x.size))


def row_norms_above(X: Any) -> Floats:
    """Return numbers that are at least the Euclidean norms of the rows."""
    squares = (
        np.asarray(X.multiply(X).sum(axis=1)).ravel() if sp.issparse(X) else np.asarray(np.einsum("ij,ij->i", X, X))
    )
    d = int(X.shape[1])
    return np.asarray(np.sqrt(squares * (1.0 + (d + 4) * U)) * (1.0 + 4 * U) + _lost(d), dtype=np.float64)


def _lost(terms: int) -> float:
    """What a norm loses if squares underflow."""
    return math.sqrt(terms) * 2.0**-536


def weighted_rows(X: Any, v: Floats, norms: Floats) -> tuple[Floats, float]:
    r"""Return :math:`X'v` and a bound on the norm of its error.

    Dense rows are summed in parts of :data:`PART`: the error grows with their length and their number instead of with n.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
    v : ndarray of shape (n,)
    norms : ndarray of shape (n,)
        At least the norms of the rows.
    """
    n = int(X.shape[0])
    reach = sum_above(np.abs(v) * norms) * (1.0 + 4 * U)
    if sp.issparse(X) or n <= 2 * PART:
        return np.asarray(X.T @ v), float(inner_error(n, reach))
    whole = n - n % PART
    parts = np.einsum("kij,ki->kj", X[:whole].reshape(-1, PART, X.shape[1]), v[:whole].reshape(-1, PART), optimize=True)
    rest = X[whole:].T @ v[whole:]
    return np.asarray(parts.sum(axis=0) + rest), float(inner_error(PART + n // PART + 2, reach))


def _grid(largest: float, size: int) -> int:
    """Return k of the grid 2^k on which so many numbers up to `largest` are added without rounding as integers."""
    bits = min(LARGEST_BITS, SUM_BITS - max(1, int(size).bit_length()))
    return max(math.frexp(largest)[1] - bits, -1074)


def imbalance(alpha: Floats, y: Floats) -> float:
    r"""Return :math:`y'\alpha` rounded once, 0 only if it is exactly 0; for labels ±1 and finite numbers.

    Numbers on a grid are added as integers, many times faster than by :func:`math.fsum`.
    """
    largest = float(np.abs(alpha).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    if not math.isfinite(largest):
        return math.nan
    exponent = _grid(largest, alpha.size)
    # What underflows is not on the grid either.
    whole = grid_imbalance(alpha, y, exponent)
    if whole is not None:
        with np.errstate(over="ignore"):
            return float(np.ldexp(float(whole), exponent))
    return nearest_sum(y * alpha)


def balanced(alpha: Floats, y: Floats, upper_bound: Floats | float) -> Floats:
    r"""Return multipliers near `alpha` with :math:`0 \le \alpha \le` `upper_bound` and :math:`y'\alpha = 0`, both exactly.

    The class of the larger sum is scaled down to the other's, all are put on a grid of powers of two, towards 0, and what is
    left of the imbalance is taken from the larger class in whole steps of the grid. Multipliers that meet the conditions
    are returned as they are.

    Parameters
    ----------
    alpha : ndarray of shape (n,)
        Approximate multipliers.
    y : ndarray of shape (n,)
        Labels ±1.
    upper_bound : ndarray of shape (n,) or float
        Not negative.
    """
    alpha = clipped(alpha, upper_bound)
    if not alpha.any() or imbalance(alpha, y) == 0.0:
        return alpha
    plan = balance_plan([class_sums(alpha, y)])
    if plan is None:
        return np.zeros(alpha.size)
    units = grid_units(alpha, y, plan)
    left = unit_sums(units, y)
    take_units(units, y, left[0] - left[1])
    return np.ldexp(units.astype(np.float64), plan.exponent)


def clipped(alpha: Floats, upper_bound: Floats | float) -> Floats:
    """Return numbers between 0 and their upper bounds; what is no number becomes 0."""
    if not np.isfinite(alpha).all():
        alpha = np.nan_to_num(alpha, nan=0.0, posinf=np.finfo(np.float64).max)
    return np.clip(alpha, 0.0, upper_bound)


class ClassSums(NamedTuple):
    """Sums and largest multipliers of the positive and the negative class, and the number of rows."""

    positive: float
    negative: float
    largest_positive: float
    largest_negative: float
    size: int


class BalancePlan(NamedTuple):
    """How multipliers are balanced: which class is scaled down by what, and the grid 2^exponent."""

    scale: float
    positive_larger: bool
    exponent: int


def class_sums(alpha: Floats, y: Floats) -> ClassSums:
    """Return the sums of some rows, from which :func:`balance_plan` starts."""
    one, other = alpha[y > 0], alpha[y < 0]
    return ClassSums(
        float(one.sum()), float(other.sum()), float(one.max(initial=0.0)), float(other.max(initial=0.0)), alpha.size
    )


def balance_plan(blocks: Sequence[ClassSums]) -> BalancePlan | None:
    """Return how the multipliers of all blocks are balanced; None where nothing but zeros is left."""
    positive, negative = sum(block.positive for block in blocks), sum(block.negative for block in blocks)
    larger = positive > negative
    scale = min(positive, negative) / max(positive, negative) if positive != negative else 1.0
    one = max(block.largest_positive for block in blocks)
    other = max(block.largest_negative for block in blocks)
    largest = max(one * scale, other) if larger else max(one, other * scale)
    if largest == 0.0:
        return None
    return BalancePlan(scale, larger, _grid(largest, sum(block.size for block in blocks)))


def grid_units(alpha: Floats, y: Floats, plan: BalancePlan) -> NDArray[np.int64]:
    """Return multipliers, the larger class scaled down, as whole numbers of the grid."""
    if plan.scale != 1.0:
        alpha = np.where((y > 0) == plan.positive_larger, alpha * plan.scale, alpha)
    return np.floor(np.ldexp(alpha, -plan.exponent)).astype(np.int64)


def unit_sums(units: NDArray[np.int64], y: Floats) -> tuple[int, int]:
    """Return the sums of the positive and of the negative class."""
    return int(units[y > 0].sum()), int(units[y < 0].sum())


def take_units(units: NDArray[np.int64], y: Floats, left: int) -> None:
    """Take `left` whole steps of the grid from the positive class, −`left` from the negative one, in place.

    The largest multipliers give first, as much as each has.
    """
    remaining = abs(left)
    if not remaining:
        return
    larger = np.flatnonzero((y > 0) if left > 0 else (y < 0))
    if units[first := larger[np.argmax(units[larger])]] >= remaining:
        units[first] -= remaining
        return
    order = larger[np.argsort(-units[larger], kind="stable")]
    taken = np.minimum(np.cumsum(units[order]), remaining)
    units[order] -= np.diff(taken, prepend=0)


def grid_imbalance(alpha: Floats, y: Floats, exponent: int) -> int | None:
    r"""Return :math:`y'\alpha` in steps of the grid 2^exponent, exactly; None where a multiplier is not on it."""
    units = np.ldexp(y * alpha, -exponent)
    whole = units.astype(np.int64)
    if not np.array_equal(whole, units) or np.count_nonzero(whole) != np.count_nonzero(alpha):
        return None
    return int(whole.sum())


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


def dot_exactly(x: Floats, y: Floats, constant: float = 0.0) -> float:
    """Return ``constant + x'y``, rounded once.

    Products are split into two numbers each [Dekker]; where that would overflow they are taken as they are, and the result
    is no number.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        product = x * y
        x_high, y_high = _upper_half(x), _upper_half(y)
        x_low, y_low = x - x_high, y - y_high
        rest = x_low * y_low - (((product - x_high * y_high) - x_low * y_high) - x_high * y_low)
    if not (np.isfinite(product).all() and np.isfinite(rest).all()):
        return math.nan
    # Below this the low part of a product may itself be rounded off.
    small = (np.abs(product) < 2.0**-960) & (product != 0.0)
    if small.any() or ((product == 0.0) & (x != 0.0) & (y != 0.0)).any():
        return math.nan
    return nearest_sum([constant, *product.tolist(), *rest.tolist()])


def _upper_half(x: Floats) -> Floats:
    """The upper half of the digits of each number."""
    wide = x * 134217729.0
    return np.asarray(wide - (wide - x))


def product_below(x: Floats | float, y: Floats | float) -> Floats:
    """Return the largest numbers that are at most the products of non-negative numbers.

    The error of a product of two fractions is exact [Dekker]; powers of two are taken out first, so that it neither over-
    nor underflows.
    """
    (a, of_a), (b, of_b) = np.frexp(np.asarray(x, dtype=np.float64)), np.frexp(np.asarray(y, dtype=np.float64))
    product = a * b
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    rest = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    product = np.where(rest < 0.0, np.nextafter(product, 0.0), product)
    exponent = of_a + of_b
    with np.errstate(over="ignore", under="ignore"):
        value = np.minimum(np.ldexp(product, exponent), np.finfo(np.float64).max)
        # Below the normal numbers ldexp itself rounds, to nearest. Twice a half exponent, for neither step may overflow.
        small = exponent < -1000
        back = np.ldexp(np.ldexp(value, 1000), np.where(small, -exponent - 1000, 0))
    return np.asarray(np.where(small & (back > product), np.nextafter(value, 0.0), value))
