"""The one line search: a step length at which the derivative of a convex function along a line
nearly vanishes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

__all__ = ["line_search"]

# The search ends where the derivative is at most this share of that at the start.
SHARE = 0.2
# Step length from which on a negative derivative ends it.
LONGEST = 4.0
# Evaluations of the derivative, at most.
EVALUATIONS = 40
# A trial is at least this share of the bracket away from its ends.
INSIDE = 0.05


def line_search(derivative: Callable[[float], float], start: float) -> float:
    r"""Return a step length t near which the derivative of a convex function :math:`\phi` along a
    line vanishes.
    """
    low, low_slope, high, high_slope = 0.0, start, math.inf, math.inf
    length = 1.0
    for _ in range(EVALUATIONS):
        slope = derivative(length)
        if abs(slope) <= -SHARE * start or (slope < 0 and math.isinf(high) and length >= LONGEST):
            return length
        if slope < 0:
            low, low_slope = length, slope
            high_slope /= 2.0
        else:
            high, high_slope = length, slope if math.isfinite(slope) else math.inf
            low_slope /= 2.0
        if math.isinf(high):
            length = 2.0 * length
        else:
            share = low_slope / (low_slope - high_slope) if math.isfinite(high_slope) else 0.0
            length = low + (high - low) * min(1.0 - INSIDE, max(INSIDE, share))
    return low
