r"""Compiled active-set steps for the dual of hinge losses, on rows of a kernel matrix.

The multipliers strictly inside their bounds are the members E. A step goes to the maximiser of the
members, or to the first bound on the way there, at which that multiplier leaves E; at the maximiser
the row that violates its condition most may enter. The members' part of K has a Cholesky factor, to
which rows are appended, and from which rotations take rows.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.factor_passes import backward, backward_both, forward, forward_both, remove
from svmcvx.system.compilation import compiled

__all__ = ["RIDGE", "add_scaled", "append", "maximised", "violators"]

Floats: TypeAlias = NDArray[np.float64]

# Added to the diagonal of systems, relative to its largest entry: they are solved where
# observations depend on each other, and the next step takes its error away.
RIDGE = 1e-11
# Steps in succession that only take away errors of this kind.
MEMBER_REFINEMENTS = 5


@compiled(inner=True)
def append(
    L: Floats, entries: Floats, members: Any, m: int, i: int, constant: float, ridge: float
) -> None:
    """Add a row of K to the factor of the members' part of K plus a constant."""
    row = L[m]
    for k in range(m):
        row[k] = entries[members[k]] + constant
    forward(L, m, row)
    rest = entries[i] + constant + ridge
    for k in range(m):
        rest -= row[k] * row[k]
    row[m] = math.sqrt(max(rest, ridge))
    members[m] = i


@compiled(inner=True)
def _take_out(L: Floats, members: Any, slots: Any, m: int, place: int) -> None:
    """Take the member at a place out; its slot is free then."""
    free = slots[place]
    for i in range(place, m - 1):
        members[i], slots[i] = members[i + 1], slots[i + 1]
    slots[m - 1] = free
    remove(L, m, place)


@compiled(inner=True)
def maximised(
    rows: Floats,
    L: Floats,
    members: Any,
    slots: Any,
    m: int,
    y: Floats,
    c: Floats,
    alpha: Floats,
    g: Floats,
    balanced: bool,
    tol: float,
    direction: Floats,
    ones: Floats,
) -> tuple[int, float]:
    """Go to the maximiser of the members, without those that reach a bound on the way; return how
    many are left, and the intercept.
    """
    b, refined = 0.0, 0
    while m:
        for k in range(m):
            direction[k], ones[k] = g[members[k]], 1.0
        if balanced:
            forward_both(L, m, direction, ones)
            backward_both(L, m, direction, ones)
            total, unit = 0.0, 0.0
            for k in range(m):
                total += direction[k]
                unit += ones[k]
            b = total / unit
            for k in range(m):
                direction[k] -= b * ones[k]
        else:
            forward(L, m, direction)
            backward(L, m, direction)
        t, blocking, at_top = 1.0, -1, False
        for k in range(m):
            i = members[k]
            move = y[i] * direction[k]
            free = c[i] - alpha[i] if move > 0.0 else alpha[i]
            if abs(move) * t > free:
                t, blocking, at_top = free / abs(move), k, move > 0.0
        for k in range(m):
            i = members[k]
            direction[k] *= t
            alpha[i] = min(max(alpha[i] + y[i] * direction[k], 0.0), c[i])
        subtract_rows(g, direction, rows, slots, m)
        if blocking >= 0:
            i = members[blocking]
            alpha[i] = c[i] if at_top else 0.0
            _take_out(L, members, slots, m, blocking)
            m -= 1
            refined = 0
            continue
        error = 0.0
        for k in range(m):
            error = max(error, abs(g[members[k]] - b))
        if error <= tol or refined == MEMBER_REFINEMENTS:
            break
        refined += 1
    return m, b


@compiled(inner=True)
def subtract_rows(g: Floats, factors: Floats, rows: Floats, slots: Any, m: int) -> None:
    """Subtract the first m multiples of rows of K, four at a time, which reads and writes g a
    quarter as often.
    """
    k = 0
    while k + 4 <= m:
        a, b, c, d = rows[slots[k]], rows[slots[k + 1]], rows[slots[k + 2]], rows[slots[k + 3]]
        ta, tb, tc, td = factors[k], factors[k + 1], factors[k + 2], factors[k + 3]
        for i in range(g.size):
            g[i] -= (ta * a[i] + tb * b[i]) + (tc * c[i] + td * d[i])
        k += 4
    while k < m:
        add_scaled(g, -factors[k], rows[slots[k]])
        k += 1


@compiled(inner=True)
def add_scaled(target: Floats, factor: float, source: Floats) -> None:
    """Add a multiple of a vector."""
    for k in range(target.size):
        target[k] += factor * source[k]


@compiled(inner=True)
def violators(y: Floats, c: Floats, alpha: Floats, g: Floats) -> tuple[float, int, float, int]:
    """Return the largest derivative among those that can grow along v, and the smallest among those
    that can shrink, with their places.
    """
    top, bottom, up, down = -math.inf, math.inf, -1, -1
    for i in range(g.size):
        if ((alpha[i] < c[i]) if y[i] > 0.0 else (alpha[i] > 0.0)) and g[i] > top:
            top, up = g[i], i
        if ((alpha[i] > 0.0) if y[i] > 0.0 else (alpha[i] < c[i])) and g[i] < bottom:
            bottom, down = g[i], i
    return top, up, bottom, down
