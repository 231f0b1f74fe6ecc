r"""Intervals of doubles, rounded outwards: the numbers of large data.

:class:`Interval` and :class:`svmcvx.proofs.balls.Balls` have the same operations, in which the
formulas are written once: sums, products, quotients by positive numbers, what is named below, and
matrices of data and kernels times numbers. Plain doubles stand for themselves.

Assumed of the arithmetic, as nowhere else in this checker: IEEE doubles; a dot product of k terms
is off by at most :math:`k\,2^{-53}` times that of the sizes, in any order of summation; square
roots are rounded correctly; numpy's exp, tanh and power are off by at most 8 units in the last
place. Sums are those of ``math.fsum``, which rounds once. Every other operation is widened by a
unit in the last place on either side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
Bools: TypeAlias = NDArray[np.bool_]
# Entries of a matrix, and bounds on their errors.
Inexact: TypeAlias = tuple[Floats, Floats]

U: Final = 2.0**-53
# Bounds are themselves computed in doubles: enlarged by this factor, and by what may underflow.
SLACK: Final = 1.0 + 1e-6
TINY: Final = 1e-290
# Entries of a matrix that are computed at a time: a ball takes some 100 bytes.
BLOCK: Final = 400_000


@dataclass(frozen=True, eq=False)
class Interval:
    """Numbers between two arrays of doubles, or two doubles."""

    low: Floats
    high: Floats
    # Arrays leave operations with intervals to these.
    __array_ufunc__ = None

    @classmethod
    def exactly(cls, values: Any) -> Interval:
        if isinstance(values, Interval):
            return values
        array = np.asarray(values, dtype=np.float64)
        return cls(array, array)

    @classmethod
    def around(cls, centre: Floats, radius: Floats) -> Interval:
        """Return numbers no further from a centre than a radius that was computed in doubles."""
        radius = radius * SLACK + TINY
        return _outwards(centre - radius, centre + radius)

    def __add__(self, other: Interval | Floats | float) -> Interval:
        other = Interval.exactly(other)
        return _outwards(self.low + other.low, self.high + other.high)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __sub__(self, other: Interval | Floats | float) -> Interval:
        return self + -Interval.exactly(other)

    def __rsub__(self, other: Floats | float) -> Interval:
        return -self + other

    def __mul__(self, other: Interval | Floats | float) -> Interval:
        other = Interval.exactly(other)
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return _outwards(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def __truediv__(self, other: Interval | Floats | float) -> Interval:
        other = Interval.exactly(other)
        return self * _outwards(1.0 / other.high, 1.0 / other.low)

    __radd__, __rmul__ = __add__, __mul__

    def __getitem__(self, rows: Any) -> Interval:
        return Interval(self.low[rows], self.high[rows])

    def nonneg(self) -> Interval:
        return Interval(np.maximum(self.low, 0.0), np.maximum(self.high, 0.0))

    def size(self) -> Interval:
        return Interval(np.maximum(np.maximum(self.low, -self.high), 0.0), self.largest)

    def power(self, exponent: Interval | float) -> Interval:
        """Return powers of numbers that are not negative, to one positive exponent."""
        exponents, base = Interval.exactly(exponent).ends, self.nonneg()
        # Below 1 the larger exponent gives the smaller power.
        low, high = ([end**x for x in exponents] for end in (base.low, base.high))
        found = _outwards(np.minimum(*low) * (1 - 16 * U), np.maximum(*high) * (1 + 16 * U))
        return Interval(np.maximum(found.low - TINY, 0.0), found.high + TINY)

    def sum(self) -> Interval:
        return _outwards(_rounded_sum(self.low), _rounded_sum(self.high))

    def least(self) -> Interval:
        return Interval(np.asarray(self.low.min()), np.asarray(self.high.min()))

    def at_most(self, other: Interval | float) -> Interval:
        other = Interval.exactly(other)
        return Interval(np.minimum(self.low, other.low), np.minimum(self.high, other.high))

    def by_sign(self, positive: Interval | float, negative: Interval | float) -> Interval:
        """Return one of two numbers for each number of the array, by its sign."""
        a, b = Interval.exactly(positive), Interval.exactly(negative)
        up, down = self.low > 0, self.high <= 0
        return Interval(
            np.where(up, a.low, np.where(down, b.low, np.minimum(a.low, b.low))),
            np.where(up, a.high, np.where(down, b.high, np.maximum(a.high, b.high))),
        )

    def above(self, other: Interval) -> Bools:
        return np.asarray(self.low > other.high)

    def cancels(self, signs: Floats) -> bool:
        """Return whether the sum of the numbers times signs is certainly 0."""
        # A sum that is rounded once to 0 is 0.
        exact = bool((self.low == self.high).all())
        return exact and float(_rounded_sum(self.low * signs)) == 0.0

    @property
    def nonzero(self) -> Bools:
        """Whether each number may differ from 0."""
        return np.asarray((self.low != 0) | (self.high != 0))

    @property
    def middle(self) -> Floats:
        return np.asarray(0.5 * self.low + 0.5 * self.high)

    @property
    def largest(self) -> Floats:
        """Doubles that the sizes are not above."""
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def ends(self) -> tuple[float, float]:
        """Doubles that a single number lies between, infinite where one is not a number."""
        low, high = float(self.low), float(self.high)
        return (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)

    @classmethod
    def concatenate(cls, parts: Sequence[Interval]) -> Interval:
        return cls(*(np.concatenate([getattr(x, end) for x in parts]) for end in ("low", "high")))

    def scatter(self, size: int, places: Rows) -> Interval:
        """Return an array of zeros that has the numbers at these places."""
        low, high = np.zeros(size), np.zeros(size)
        low[places], high[places] = self.low, self.high
        return Interval(low, high)

    @classmethod
    def times(cls, matrix: Any, v: Interval) -> Interval:
        """Return a matrix of doubles, or of doubles and bounds on their errors, times numbers."""
        block, error = matrix if isinstance(matrix, tuple) else (matrix, None)
        centre = v.middle
        radius = np.maximum(v.high - centre, centre - v.low) * SLACK + TINY * (v.high > v.low)
        sizes, terms = np.abs(centre), block.shape[1]
        if sp.issparse(block):
            longest = int(np.diff(block.indptr).max(initial=0))
            size = np.asarray(abs(block) @ np.stack([sizes, radius], axis=1))
            spread = (longest + 1) * U * size[:, 0] + size[:, 1]
            return cls.around(np.asarray(block @ centre), spread)
        # Sums in chunks, which are added up one after the other.
        chunk = max(1, min(terms, max(32, math.isqrt(terms))))
        chunks = -(-terms // chunk)
        depth = chunk + 1 + (chunks if chunks > 1 else 0)
        found, spread = np.zeros(block.shape[0]), np.zeros(block.shape[0])
        for start in range(0, terms, chunk):
            part = slice(start, start + chunk)
            columns = block[:, part]
            found += columns @ centre[part]
            spread += np.abs(columns) @ (depth * U * sizes[part] + radius[part])
            if error is not None:
                spread += error[:, part] @ (sizes[part] + radius[part])
        return cls.around(found, spread)

    @staticmethod
    def floats(matrix: Inexact) -> Inexact:
        return matrix

    @staticmethod
    def kernel(kernel: Any, A: Floats, B: Floats) -> Inexact:
        """Return the entries of a kernel between rows, and bounds on their errors."""
        name, d = kernel["name"], A.shape[1]
        if name == "precomputed":
            # Both triangles, whose mean is exact where they are equal.
            mean, error = 0.5 * A + 0.5 * B, np.zeros(A.shape)
            return (A, error) if (A == B).all() else (mean, 2 * U * np.abs(mean) + TINY)
        gamma = float(kernel["gamma"])
        if name in ("rbf", "exponential", "laplacian"):
            distance, error = _distances(A, B, name == "laplacian")
            if name == "exponential":
                root = np.sqrt(distance)
                with np.errstate(divide="ignore", invalid="ignore"):
                    change = np.minimum(np.sqrt(error), error / root)
                error, distance = np.where(error == 0, 0.0, change) + U * root, root
            exponent = gamma * distance
            shift = (gamma * error + 2 * U * exponent) * SLACK
            value = np.exp(-exponent)
            spread = (value * (np.expm1(np.minimum(shift, 700.0)) + 16 * U)) * SLACK
            return value, spread + np.where(shift > 700, 1.0, TINY)
        constant = float(kernel["coef0"])
        argument = gamma * (A @ B.T) + constant
        error = (d + 4) * U * gamma * (np.abs(A) @ np.abs(B).T)
        error = (error + 2 * U * abs(constant) + 2 * U * np.abs(argument)) * SLACK + TINY
        if name == "sigmoid":
            return np.tanh(argument), error + 16 * U
        degree = int(kernel["degree"])
        largest = np.abs(argument) + error
        with np.errstate(over="ignore"):
            spread = degree * largest ** (degree - 1) * error + 32 * U * largest**degree
            return argument**degree, spread * SLACK + TINY


def _outwards(low: Any, high: Any) -> Interval:
    return Interval(np.asarray(np.nextafter(low, -np.inf)), np.asarray(np.nextafter(high, np.inf)))


def _rounded_sum(values: Floats) -> Floats:
    """Return a sum that is rounded once; not a number where it overflows."""
    try:
        return np.asarray(math.fsum(np.ravel(values).tolist()))
    except (OverflowError, ValueError):
        return np.asarray(math.nan)


def _distances(A: Floats, B: Floats, absolute: bool) -> Inexact:
    """Squared Euclidean distances, or sums of absolute differences, and bounds on their errors."""
    d = A.shape[1]
    # Differences lose no digits, and take longer with many columns.
    if absolute or d <= 32:
        total = np.zeros((A.shape[0], B.shape[0]))
        for a, b in zip(A.T, B.T, strict=True):
            difference = a[:, None] - b[None, :]
            total += np.abs(difference) if absolute else difference * difference
        return total, (d + 4) * U * total * SLACK + TINY * d
    centre = 0.5 * (A.mean(axis=0) + B.mean(axis=0))
    # One subtraction rounds each coordinate by its own last place.
    A, B = A - centre, B - centre
    squares = (A * A).sum(axis=1)[:, None] + (B * B).sum(axis=1)
    total = np.maximum(squares - 2.0 * (A @ B.T), 0.0)
    return total, (4 * (d + 6) * U) * squares * SLACK + TINY
