r"""Compiled active-set method for hinge losses on a Gram matrix, solved exactly up to rounding.

With a target t, which is y for the pSVM at p = 1, it solves

.. math:: \max\; t'v - \tfrac12v'Kv \quad\text{subject to } \sum_iv_i = 0,\; 0 \le y_iv_i \le c_i,

where the sum is free without a free intercept.

A step goes to the maximiser of the multipliers strictly inside their bounds, the set E, or to the first bound on the way there, at which that
multiplier leaves E. At the maximiser the row that violates its condition most enters E. From the solution of a neighbouring C the steps are
about as many as the rows that change, where pair steps (:mod:`svmcvx.fast.margin.smo_passes`) need thousands if there are few features.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.compilation import compiled
from svmcvx.fast.linear.margin_passes import ANY_ORDER

__all__ = ["settle", "slopes"]

Floats: TypeAlias = NDArray[np.float64]

# Added to the diagonal of systems, relative to its largest entry: they are solved where observations depend on each other, and the
# next step takes its error away.
RIDGE = 1e-11
# Steps in succession that only take away errors of this kind.
REFINEMENTS = 5


@compiled(inner=True, fastmath=ANY_ORDER)
def forward(L: Floats, x: Floats, m: int) -> None:
    """Solve Lx = x in place for the first m rows of a lower triangular factor."""
    for i in range(m):
        row, total = L[i], x[i]
        for j in range(i):
            total -= row[j] * x[j]
        x[i] = total / row[i]


@compiled(inner=True, fastmath=ANY_ORDER)
def backward(L: Floats, x: Floats, m: int) -> None:
    """Solve L'x = x in place."""
    for i in range(m - 1, -1, -1):
        row = L[i]
        value = x[i] / row[i]
        x[i] = value
        for j in range(i):
            x[j] -= row[j] * value


@compiled(inner=True)
def append(L: Floats, K: Floats, members: Any, m: int, i: int, constant: float, ridge: float) -> None:
    """Add a row to the factor of the members' part of K plus a constant."""
    row, other = L[m], K[i]
    for k in range(m):
        row[k] = other[members[k]] + constant
    forward(L, row, m)
    rest = other[i] + constant + ridge
    for k in range(m):
        rest -= row[k] * row[k]
    row[m] = math.sqrt(max(rest, ridge))
    members[m] = i


@compiled(inner=True)
def remove(L: Floats, members: Any, m: int, place: int) -> None:
    """Take a row out of the factor; rotations make it triangular again."""
    for i in range(place, m - 1):
        members[i] = members[i + 1]
        L[i, : i + 2] = L[i + 1, : i + 2]
    for k in range(place, m - 1):
        a, b = L[k, k], L[k, k + 1]
        radius = math.hypot(a, b)
        cosine, sine = a / radius, b / radius
        for i in range(k, m - 1):
            row = L[i]
            x, y = row[k], row[k + 1]
            row[k] = cosine * x + sine * y
            row[k + 1] = cosine * y - sine * x


@compiled()
def settle(
    K: Floats,
    y: Floats,
    c: Floats,
    alpha: Floats,
    g: Floats,
    L: Floats,
    members: Any,
    balanced: bool,
    tol: float,
    most: int,
) -> tuple[int, int, float]:
    """Solve from a feasible point, in place.

    Parameters
    ----------
    K : ndarray of shape (n, n)
    y, c, alpha, g : ndarray of shape (n,)
        Labels, upper bounds, multipliers, and :math:`t - Kv`; the last two are updated.
    L, members : ndarray of shape (r, r), (r,)
        Room for a factor of at most r members.
    balanced : bool
        Whether the sum of v has to stay zero.
    tol : float
        Largest violation of a condition, in units of a score.
    most : int
        Steps, at most.

    Returns
    -------
    int
        Steps taken; −1 if the factor had no room or the steps did not suffice.
    int
        Members at the end.
    float
        The intercept that the members determine; without members the middle of those that violate nothing; 0 if v is not balanced.
    """
    n, room = y.size, members.size
    # With balanced v a constant changes nothing; added to K it makes a system regular that lacks only the intercept's direction.
    largest = 0.0
    for i in range(n):
        largest = max(largest, K[i, i])
    ridge = RIDGE * largest
    constant = largest if balanced else 0.0
    direction, ones = np.empty(room), np.empty(room)
    m = 0
    for i in range(n):
        if 0.0 < alpha[i] < c[i]:
            if m == room:
                return -1, m, 0.0
            append(L, K, members, m, i, constant, ridge)
            m += 1
    refined = 0
    for step in range(most):
        b = 0.0
        if m:
            for k in range(m):
                direction[k], ones[k] = g[members[k]], 1.0
            forward(L, direction, m)
            backward(L, direction, m)
            if balanced:
                forward(L, ones, m)
                backward(L, ones, m)
                total, unit = 0.0, 0.0
                for k in range(m):
                    total += direction[k]
                    unit += ones[k]
                b = total / unit
                for k in range(m):
                    direction[k] -= b * ones[k]
            t, blocking = 1.0, -1
            for k in range(m):
                i = members[k]
                move = y[i] * direction[k]
                free = c[i] - alpha[i] if move > 0.0 else alpha[i]
                if abs(move) * t > free:
                    t, blocking = free / abs(move), k
            for k in range(m):
                i = members[k]
                alpha[i] = min(max(alpha[i] + t * (y[i] * direction[k]), 0.0), c[i])
                change, row = t * direction[k], K[i]
                if change != 0.0:
                    for j in range(n):
                        g[j] -= change * row[j]
            if blocking >= 0:
                i = members[blocking]
                alpha[i] = c[i] if y[i] * direction[blocking] > 0.0 else 0.0
                remove(L, members, m, blocking)
                m -= 1
                refined = 0
                continue
            error = 0.0
            for k in range(m):
                error = max(error, abs(g[members[k]] - b))
            if error > 0.5 * tol and refined < REFINEMENTS:
                refined += 1
                continue
        top, bottom, up, down = -math.inf, math.inf, -1, -1
        for i in range(n):
            if ((alpha[i] < c[i]) if y[i] > 0.0 else (alpha[i] > 0.0)) and g[i] > top:
                top, up = g[i], i
            if ((alpha[i] > 0.0) if y[i] > 0.0 else (alpha[i] < c[i])) and g[i] < bottom:
                bottom, down = g[i], i
        if m == 0 and balanced:
            if up < 0 or down < 0 or top - bottom <= tol:
                return step, 0, 0.5 * (top + bottom)
            if room < 2:
                return -1, m, b
            append(L, K, members, 0, up, constant, ridge)
            append(L, K, members, 1, down, constant, ridge)
            m = 2
        else:
            worst = max(top - b, b - bottom)
            if worst <= tol:
                return step, m, b
            enters = up if top - b >= b - bottom else down
            inside = False
            for k in range(m):
                inside = inside or members[k] == enters
            if inside:
                # Rounding is all that is left of its violation.
                return step, m, b
            if m == room:
                return -1, m, b
            append(L, K, members, m, enters, constant, ridge)
            m += 1
        refined = 0
    return -1, m, 0.0


@compiled()
def slopes(K: Floats, t: Floats, y: Floats, c: Floats, alpha: Floats, g: Floats, balanced: bool) -> None:
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
