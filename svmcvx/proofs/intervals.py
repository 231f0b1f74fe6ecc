"""Numbers known up to bounds, of which the formulas are written; and intervals of doubles, rounded
outwards.

Assumed of the arithmetic: see :mod:`svmcvx.proofs.large`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Final, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

U: Final = 2.0**-53
# Bounds are themselves computed in doubles: enlarged by this factor, and by what may underflow.
SLACK: Final = 1.0 + 1e-6
TINY: Final = 1e-290


class Number(ABC):
    """An array of numbers, or one number, known up to bounds: balls or intervals."""

    @classmethod
    @abstractmethod
    def exactly(cls, values: Any) -> Self:
        """Return doubles without error."""

    @abstractmethod
    def __add__(self, other: Self) -> Self: ...

    @abstractmethod
    def __neg__(self) -> Self: ...

    @abstractmethod
    def __mul__(self, other: Self) -> Self: ...

    @abstractmethod
    def __getitem__(self, rows: Any) -> Self: ...

    def __sub__(self, other: Self) -> Self:
        return self + -other

    @abstractmethod
    def over(self, other: Self) -> Self:
        """Return the quotient by positive numbers."""

    @abstractmethod
    def nonneg(self) -> Self:
        """Return max(x, 0)."""

    @abstractmethod
    def size(self) -> Self:
        """Return the absolute values."""

    @abstractmethod
    def power(self, exponent: Self) -> Self:
        """Return powers of numbers that are not negative, to one positive exponent."""

    @abstractmethod
    def sum(self) -> Self:
        """Return the sum of the numbers."""

    @abstractmethod
    def least(self) -> Self:
        """Return the smallest of the numbers."""

    @abstractmethod
    def at_most(self, other: Self) -> Self:
        """Return the smaller of two numbers."""

    @abstractmethod
    def by_sign(self, positive: Self, negative: Self) -> Self:
        """Return one of two numbers for each number of the array, by its sign."""

    @abstractmethod
    def above(self, other: Self) -> NDArray[np.bool_]:
        """Return whether numbers are certainly above others."""

    @abstractmethod
    def cancels(self, signs: Floats) -> bool:
        """Return whether the sum of the numbers times signs is certainly 0."""

    @property
    @abstractmethod
    def nonzero(self) -> NDArray[np.bool_]:
        """Whether each number may differ from 0."""

    @property
    @abstractmethod
    def middle(self) -> Floats:
        """Doubles near the numbers."""

    @property
    @abstractmethod
    def ends(self) -> tuple[float, float]:
        """Doubles that a single number lies between."""


@dataclass(frozen=True, eq=False)
class Interval(Number):
    """Numbers between two arrays of doubles, or two doubles."""

    low: Floats
    high: Floats

    @classmethod
    def exactly(cls, values: Any) -> Interval:
        array = np.asarray(values, dtype=np.float64)
        return cls(array, array)

    @classmethod
    def around(cls, centre: Floats, radius: Floats) -> Interval:
        """Numbers no further from a centre than a radius that was computed in doubles."""
        radius = radius * SLACK + TINY
        return cls(_down(centre - radius), _up(centre + radius))

    def __add__(self, other: Interval) -> Interval:
        return Interval(_down(self.low + other.low), _up(self.high + other.high))

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return Interval(_down(np.minimum.reduce(ends)), _up(np.maximum.reduce(ends)))

    def over(self, other: Interval) -> Interval:
        return self * Interval(_down(1.0 / other.high), _up(1.0 / other.low))

    def nonneg(self) -> Interval:
        return Interval(np.maximum(self.low, 0.0), np.maximum(self.high, 0.0))

    def size(self) -> Interval:
        inside = (self.low <= 0) & (self.high >= 0)
        low, high = np.abs(self.low), np.abs(self.high)
        return Interval(np.where(inside, 0.0, np.minimum(low, high)), np.maximum(low, high))

    def power(self, exponent: Interval) -> Interval:
        low, high = np.maximum(self.low, 0.0), np.maximum(self.high, 0.0)
        small, large = float(exponent.low), float(exponent.high)
        # Below 1 the larger exponent gives the smaller power.
        lowest = np.minimum(low**small, low**large)
        highest = np.maximum(high**small, high**large)
        return Interval(
            np.maximum(_down(lowest * (1 - 16 * U)) - TINY, 0.0), _up(highest * (1 + 16 * U)) + TINY
        )

    def sum(self) -> Interval:
        low, high = (rounded_sum(end) for end in (self.low, self.high))
        return Interval(_down(low), _up(high))

    def __getitem__(self, rows: Any) -> Interval:
        return Interval(self.low[rows], self.high[rows])

    def least(self) -> Interval:
        return Interval(np.asarray(self.low.min()), np.asarray(self.high.min()))

    def at_most(self, other: Interval) -> Interval:
        return Interval(np.minimum(self.low, other.low), np.minimum(self.high, other.high))

    def by_sign(self, positive: Interval, negative: Interval) -> Interval:
        up, down = self.low > 0, self.high <= 0
        low, high = (
            np.where(up, a, np.where(down, b, extreme(a, b)))
            for a, b, extreme in (
                (positive.low, negative.low, np.minimum),
                (positive.high, negative.high, np.maximum),
            )
        )
        return Interval(low, high)

    def above(self, other: Interval) -> NDArray[np.bool_]:
        return np.asarray(self.low > other.high)

    def cancels(self, signs: Floats) -> bool:
        # A sum that is rounded once to 0 is 0.
        return bool((self.low == self.high).all()) and float(rounded_sum(self.low * signs)) == 0.0

    @property
    def nonzero(self) -> NDArray[np.bool_]:
        return np.asarray((self.low != 0) | (self.high != 0))

    @property
    def middle(self) -> Floats:
        return np.asarray(0.5 * self.low + 0.5 * self.high)

    @property
    def ends(self) -> tuple[float, float]:
        # Infinite where one is not a number.
        low, high = float(self.low), float(self.high)
        return (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)


def _down(x: Floats) -> Floats:
    return np.asarray(np.nextafter(x, -np.inf))


def _up(x: Floats) -> Floats:
    return np.asarray(np.nextafter(x, np.inf))


def rounded_sum(values: Floats) -> Floats:
    """Return a sum that is rounded once; not a number where it overflows."""
    try:
        return np.asarray(math.fsum(np.ravel(values).tolist()))
    except (OverflowError, ValueError):
        return np.asarray(math.nan)


def products(block: Any, error: Floats | float, v: Interval) -> Interval:
    """Return a matrix, known to an error of its entries, times numbers."""
    centre = 0.5 * v.low + 0.5 * v.high
    radius = np.maximum(v.high - centre, centre - v.low) * SLACK + TINY * (v.high > v.low)
    sizes, terms = np.abs(centre), block.shape[1]
    if sp.issparse(block):
        longest = int(np.diff(block.indptr).max(initial=0))
        found, size = (
            np.asarray(block @ centre),
            np.asarray(abs(block) @ np.stack([sizes, radius], axis=1)),
        )
        return Interval.around(found, (longest + 1) * U * size[:, 0] + size[:, 1])
    chunk = min(terms, max(32, math.isqrt(terms)))
    chunks = -(-terms // chunk) if terms else 0
    depth = chunk + 1 + (chunks if chunks > 1 else 0)
    found, spread = np.zeros(block.shape[0]), np.zeros(block.shape[0])
    for start in range(0, terms, max(1, chunk)):
        part = slice(start, start + chunk)
        columns = block[:, part]
        found += columns @ centre[part]
        spread += np.abs(columns) @ (depth * U * sizes[part] + radius[part])
        if isinstance(error, np.ndarray):
            spread += error[:, part] @ (sizes[part] + radius[part])
    return Interval.around(found, spread)
