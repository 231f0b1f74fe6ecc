r"""Compiled active-set method for hinge losses on a Gram matrix, solved exactly up to rounding.

With a target t, which is y for the pSVM at p = 1, it solves

.. math:: \max\; t'v - \tfrac12v'Kv \quad\text{subject to } \sum_iv_i = 0,\; 0 \le y_iv_i \le c_i,

where the sum is free without a free intercept.

From the solution of a neighbouring setting the active-set steps
(:mod:`svmcvx.fast.core.active_set_passes`) are about as many as the rows that change, where pair
steps (:mod:`svmcvx.fast.margin.smo_passes`) need thousands if there are few features.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.active_set_passes import RIDGE, append, maximised, violators
from svmcvx.system.compilation import compiled

__all__ = ["settle", "slopes"]

Floats: TypeAlias = NDArray[np.float64]


@compiled(allocates=True)
def settle(
    K: Floats,
    y: Floats,
    c: Floats,
    alpha: Floats,
    g: Floats,
    L: Floats,
    balanced: bool,
    tol: float,
    most: int,
) -> tuple[int, int, float]:
    """Solve from a feasible point, in place."""
    n = y.size
    # With balanced v a constant changes nothing; added to K it makes a system regular that lacks
    # only the intercept's direction.
    largest = 0.0
    for i in range(n):
        largest = max(largest, K[i, i])
    ridge = RIDGE * largest
    constant = largest if balanced else 0.0
    direction, ones = np.empty(n), np.empty(n)
    members, slots = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    m = 0
    for i in range(n):
        if 0.0 < alpha[i] < c[i]:
            append(L, K[i], members, m, i, constant, ridge)
            slots[m] = i
            m += 1
    for step in range(most):
        m, b = maximised(
            K, L, members, slots, m, y, c, alpha, g, balanced, 0.5 * tol, direction, ones
        )
        top, up, bottom, down = violators(y, c, alpha, g)
        if m == 0 and balanced:
            if up < 0 or down < 0 or top - bottom <= tol:
                return step, 0, 0.5 * (top + bottom)
            append(L, K[up], members, 0, up, constant, ridge)
            append(L, K[down], members, 1, down, constant, ridge)
            slots[0], slots[1] = up, down
            m = 2
            continue
        if max(top - b, b - bottom) <= tol:
            return step, m, b
        enters = up if top - b >= b - bottom else down
        for k in range(m):
            if members[k] == enters:
                # Rounding is all that is left of its violation.
                return step, m, b
        append(L, K[enters], members, m, enters, constant, ridge)
        slots[m] = enters
        m += 1
    return -1, m, 0.0


@compiled()
def slopes(
    K: Floats, t: Floats, y: Floats, c: Floats, alpha: Floats, g: Floats, balanced: bool
) -> None:
    """Balance the multipliers, and fill g with t − Kv, both without the errors of earlier changes."""
    n = y.size
    total, most, place = 0.0, 0.0, 0
    for i in range(n):
        total += y[i] * alpha[i]
        room = min(alpha[i], c[i] - alpha[i])
        if room > most:
            most, place = room, i
    if balanced and most > 0.0:
        alpha[place] = min(max(alpha[place] - y[place] * total, 0.0), c[place])
    for i in range(n):
        g[i] = t[i]
    for j in range(n):
        if alpha[j] != 0.0:
            v, row = alpha[j] * y[j], K[j]
            for i in range(n):
                g[i] -= v * row[i]
