"""The line search of Newton's methods for several classes."""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["line_search"]

# It ends where the slope has fallen to this share.
SLOPE_SHARE = 0.2
# Evaluations of the slope, at most.
EVALUATIONS = 20
# Step length at which it ends while the slope is still negative.
LONGEST_STEP = 4.0


def line_search(slope: Callable[[float], float], predicted: float) -> float:
    """Return a step length near which the slope of a convex function, −`predicted` at 0, vanishes."""
    low, low_slope, high, high_slope = 0.0, -predicted, math.inf, math.inf
    length = 1.0
    for _ in range(EVALUATIONS):
        now = slope(length)
        if abs(now) <= SLOPE_SHARE * predicted or (now < 0 and length >= LONGEST_STEP):
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
