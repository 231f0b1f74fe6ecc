"""Operations without an error, or with a single rounding: sums, inner products, multipliers that
balance two classes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats

# The smallest positive number.
SMALLEST = 2.0**-1074
# Bits of the sum of all multipliers on a grid, an integer of 64 bits, and of one of them, a double.
SUM_BITS, LARGEST_BITS = 62, 50


def nearest_sum(values: Iterable[float] | Floats, beyond: float = math.nan) -> float:
    """Return the sum, rounded once; `beyond` on overflow, NaN where infinities cancel."""
    listed = values.ravel().tolist() if isinstance(values, np.ndarray) else list(values)
    try:
        return math.fsum(listed)
    except OverflowError:
        return beyond
    except ValueError:
        return math.nan


def dot_exactly(x: Floats, y: Floats, constant: float = 0.0) -> float:
    """Return ``constant + x'y``, rounded once."""
    with np.errstate(over="ignore", invalid="ignore"):
        product, rest = _two_product(x, y)
    if not (np.isfinite(product).all() and np.isfinite(rest).all()):
        return math.nan
    # Below this the low part of a product may itself be rounded off.
    small = (np.abs(product) < 2.0**-960) & (product != 0.0)
    if small.any() or ((product == 0.0) & (x != 0.0) & (y != 0.0)).any():
        return math.nan
    return nearest_sum([constant, *product.tolist(), *rest.tolist()])


def _two_product(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Return the rounded products and what the rounding has lost [Dekker]."""
    product, x_wide, y_wide = x * y, x * 134217729.0, y * 134217729.0
    # The upper halves of the digits.
    x_high, y_high = x_wide - (x_wide - x), y_wide - (y_wide - y)
    x_low, y_low = x - x_high, y - y_high
    known = ((product - x_high * y_high) - x_low * y_high) - x_high * y_low
    return product, x_low * y_low - known


def product_below(x: Floats | float, y: Floats | float) -> Floats:
    """Return the largest numbers that are at most the products of non-negative numbers."""
    (a, of_a), (b, of_b) = (np.frexp(np.asarray(z, dtype=np.float64)) for z in (x, y))
    product, rest = _two_product(a, b)
    product = np.where(rest < 0.0, np.nextafter(product, 0.0), product)
    exponent = of_a + of_b
    with np.errstate(over="ignore", under="ignore"):
        value = np.minimum(np.ldexp(product, exponent), np.finfo(np.float64).max)
        # Below the normal numbers ldexp itself rounds, to nearest. Twice a half exponent, for
        # neither step may overflow.
        small = exponent < -1000
        back = np.ldexp(np.ldexp(value, 1000), np.where(small, -exponent - 1000, 0))
    return np.asarray(np.where(small & (back > product), np.nextafter(value, 0.0), value))


def grid_exponent(largest: float, size: int) -> int:
    """Return k of the grid 2^k on which so many numbers up to `largest` are summed exactly."""
    bits = min(LARGEST_BITS, SUM_BITS - max(1, int(size).bit_length()))
    return max(math.frexp(largest)[1] - bits, -1074)


def imbalance(alpha: Floats, y: Floats) -> float:
    r"""Return :math:`y'\alpha` rounded once, 0 only if it is exactly 0, for labels ±1."""
    largest = float(np.abs(alpha).max(initial=0.0))
    if largest == 0.0:
        return 0.0
    if not math.isfinite(largest):
        return math.nan
    exponent = grid_exponent(largest, alpha.size)
    # What underflows is not on the grid either.
    whole = grid_imbalance(alpha, y, exponent)
    if whole is not None:
        with np.errstate(over="ignore"):
            return float(np.ldexp(float(whole), exponent))
    return nearest_sum(y * alpha)


def balanced(alpha: Floats, y: Floats, upper_bound: Floats | float) -> Floats:
    r"""Return α near `alpha` with exactly 0 ≤ α ≤ `upper_bound` and :math:`y'\alpha = 0`."""
    if not np.isfinite(alpha).all():
        alpha = np.nan_to_num(alpha, nan=0.0, posinf=np.finfo(np.float64).max)
    alpha = np.clip(alpha, 0.0, upper_bound)
    if not alpha.any() or imbalance(alpha, y) == 0.0:
        return alpha
    # The class of the larger sum is scaled down, and the rest is taken from it on a grid.
    positive, negative = y > 0, y < 0
    sums = float(alpha[positive].sum()), float(alpha[negative].sum())
    larger = positive if sums[0] > sums[1] else negative
    alpha = np.where(larger, alpha * (min(sums) / max(sums)), alpha)
    largest = float(alpha.max())
    if largest == 0.0:
        return np.zeros(alpha.size)
    exponent = grid_exponent(largest, alpha.size)
    units = np.floor(np.ldexp(alpha, -exponent)).astype(np.int64)
    left = int(units[positive].sum()) - int(units[negative].sum())
    if left:
        _take(units, np.flatnonzero(positive if left > 0 else negative), abs(left))
    return np.ldexp(units.astype(np.float64), exponent)


def _take(units: NDArray[np.int64], rows: NDArray[np.intp], steps: int) -> None:
    """Take steps of the grid in place, from one row that has as many, else from the largest."""
    if units[first := rows[np.argmax(units[rows])]] >= steps:
        units[first] -= steps
        return
    order = rows[np.argsort(-units[rows], kind="stable")]
    taken = np.minimum(np.cumsum(units[order]), steps)
    units[order] -= np.diff(taken, prepend=0)


def grid_imbalance(alpha: Floats, y: Floats, exponent: int) -> int | None:
    r"""Return :math:`y'\alpha` in steps of the grid 2^exponent; None for α off the grid."""
    units = np.ldexp(y * alpha, -exponent)
    whole = units.astype(np.int64)
    if not np.array_equal(whole, units) or np.count_nonzero(whole) != np.count_nonzero(alpha):
        return None
    return int(whole.sum())
