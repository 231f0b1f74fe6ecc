r"""Bounds of an optimum between two values of a hyper-parameter: lines below and above it.

On a piece, :math:`v = (1-t)v_0 + tv_1`, the optimum is at least each of some lower lines and at
most each of some upper ones (linear functions of t). Between two places where lines of one kind
cross, the relative gap of the best lines is linear-fractional in t and so largest at an end: its
largest value on the piece is one of a few numbers, which are compared in exact fractions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np

from svmcvx.data import check_number
from svmcvx.errors import DataError

__all__ = ["Line", "Piece", "line", "proportional", "rounded"]

Line: TypeAlias = tuple[Fraction, Fraction]

# A piece is bisected at least this far from its ends, on a logarithmic scale.
INSIDE = 0.1


def line(first: float, last: float, shift: float = 0.0) -> Line | None:
    """Return the line through two numbers at the ends, moved by a third one; None unless they are
    finite.
    """
    if not (math.isfinite(first) and math.isfinite(last) and math.isfinite(shift)):
        return None
    return Fraction(first) + Fraction(shift), Fraction(last) + Fraction(shift)


def at(of: Line, t: Fraction) -> Fraction:
    """Return the value at t."""
    return of[0] + t * (of[1] - of[0])


@dataclass(frozen=True)
class Piece:
    """Two neighbouring values of a parameter, and lines between which the optimum is."""

    ends: tuple[float, float]
    lower: tuple[Line | None, ...]
    upper: tuple[Line | None, ...]

    def place(self, value: float) -> Fraction:
        """The t of a value."""
        first, last = map(Fraction, self.ends)
        return (Fraction(value) - first) / (last - first)

    def bounds(self, t: Fraction) -> tuple[Fraction | None, Fraction | None]:
        """Lower and upper end at t; None where nothing is known."""
        lower = max((at(each, t) for each in self.lower if each is not None), default=None)
        return lower, min((at(each, t) for each in self.upper if each is not None), default=None)

    def worst(self) -> tuple[float, float]:
        """The largest relative gap, rounded upwards, and a value where the piece may be split."""
        places = [Fraction(0), Fraction(1), *_crossings(self.lower), *_crossings(self.upper)]
        gap, place = max((_gap(*self.bounds(t)), t) for t in places)
        if self._of_both_signs(places):
            gap = max(gap, 2.0)
        return gap, self._split(float(place))

    def _split(self, t: float) -> float:
        """Return a value at t or, where that is near an end, farther inside; the middle for an end."""
        first, last = self.ends
        if first == 0.0:
            return last * (min(max(t, INSIDE), 1.0 - INSIDE) if 0.0 < t < 1.0 else 0.5)
        width = math.log(last / first)
        inside = math.log1p(t * (last - first) / first) / width if 0.0 < t < 1.0 else 0.5
        return first * math.exp(min(max(inside, INSIDE), 1.0 - INSIDE) * width)

    def _of_both_signs(self, places: Iterable[Fraction]) -> bool:
        """Whether the bounds have not one sign: the relative gap, at most 2, is no monotone
        function of t then.
        """
        ends = [end for t in places for end in self.bounds(t) if end is not None]
        return bool(ends) and min(ends) <= 0 <= max(ends)


def _crossings(lines: tuple[Line | None, ...]) -> list[Fraction]:
    """Return the places inside of the piece where the order of two lines changes."""
    found = []
    for one, other in combinations([each for each in lines if each is not None], 2):
        first, last = one[0] - other[0], one[1] - other[1]
        if first * last < 0:
            found.append(first / (first - last))
    return found


def _gap(lower: Fraction | None, upper: Fraction | None) -> float:
    """The relative gap, rounded upwards."""
    if lower is None or upper is None:
        return math.inf
    size = max(abs(lower), abs(upper))
    return math.nextafter(float((upper - lower) / size), math.inf) if size else 0.0


def rounded(number: Fraction | None, direction: float) -> float:
    """Return the next double in a direction; that infinity for None."""
    if number is None:
        return direction
    value = float(number)
    exact = Fraction(value)
    wrong = exact > number if direction < 0 else exact < number
    return math.nextafter(value, direction) if wrong else value


def proportional(
    ranges: dict[str, Any], *, least: float = 0.0, closed: bool = False
) -> tuple[float, float, tuple[float, ...]]:
    """Return the range of the first of several parameters that vary in proportion, and what each of
    them is in units of the first.
    """
    ends = []
    for name, given in ranges.items():
        if not isinstance(given, (tuple, list, np.ndarray)) or len(given) != 2:
            raise DataError(
                f"{name} must be the two ends of a range, as in {name}=(0.01, 100.0), got {given!r}"
            )
        low, high = (check_number(end, name, low=least, open_low=not closed) for end in given)
        if not low <= high:
            raise DataError(f"the range of {name} must be increasing, got {given!r}")
        ends.append((low, high))
    (low, high), *others = ends
    for name, (a, b) in zip(list(ranges)[1:], others, strict=True):
        if Fraction(b) * Fraction(low) != Fraction(a) * Fraction(high):
            raise DataError(
                f"parameters vary in proportion: {name} must have the same ratio of its ends as"
                f" {next(iter(ranges))}"
            )
    ratios = (1.0, *(a / low for a, _ in others))
    if any(not math.frexp(ratio)[0] == 0.5 for ratio in ratios):
        raise DataError(
            "the first parameter times the ratio must be exact: pass ranges of which one is a power"
            " of two times the other"
        )
    return low, high, ratios
