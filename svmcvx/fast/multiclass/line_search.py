"""The line search of Newton's methods for several classes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["LineSearchSettings", "line_search"]


@dataclass(frozen=True)
class LineSearchSettings:
    """Numbers that steer :func:`line_search`.

    Attributes
    ----------
    slope_share : float
        It ends where the slope has fallen to this share.
    evaluations : int
        Evaluations of the slope, at most.
    longest_step : float
        Step length at which it ends while the slope is still negative.
    """

    slope_share: float = 0.2
    evaluations: int = 20
    longest_step: float = 4.0


def line_search(slope: Callable[[float], float], predicted: float, settings: LineSearchSettings) -> float:
    """Return a step length near which the slope of a convex function, −`predicted` at 0, vanishes."""
    low, low_slope, high, high_slope = 0.0, -predicted, math.inf, math.inf
    length = 1.0
    for _ in range(settings.evaluations):
        now = slope(length)
        if abs(now) <= settings.slope_share * predicted or (now < 0 and length >= settings.longest_step):
            return length
        if now < 0:
            low, low_slope = length, now
            # Halve the slope at the end that is kept (the Illinois variant of regula falsi): slopes may jump.
            high_slope /= 2.0
        else:
            # A slope that is not finite counts as positive.
            high, high_slope = length, now if math.isfinite(now) else math.inf
            low_slope /= 2.0
        if math.isinf(high):
            length = 2.0 * length
        else:
            share = low_slope / (low_slope - high_slope) if math.isfinite(high_slope) else 0.0
            length = low + (high - low) * min(0.9, max(0.1, share))
    return low
