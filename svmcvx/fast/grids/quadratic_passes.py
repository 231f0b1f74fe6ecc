r"""Compiled Newton's method for piecewise quadratic losses along a path through a grid of settings.

With signed rows :math:`z_i = y_ix_i` and margins :math:`u_i = z_i'w` a setting (l, h, a, c) has the
objective

.. math:: P(w) = \tfrac12\sum_j r_jw_j^2 + \sum_i s_i\big(a\,(l - u_i)_+^2 + c\,(u_i - h)_+^2\big),

where :math:`r_j` is 1, or 0 for the coefficient of a free intercept. While it is known which
margins are below l (the set B) and which above h (the set A), the minimiser solves

.. math:: \Big(R + 2a\sum_B s_iz_iz_i' + 2c\sum_A s_iz_iz_i'\Big)w = 2al\sum_B s_iz_i + 2ch\sum_A s_iz_i.

The sums belong to the sets, not to the setting: a neighbour in the grid starts from them, and only
rows that change their set are added or taken away. The method ends when the sets of a full step are
those of its system, which is then solved exactly up to rounding.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.active_set_passes import add_scaled
from svmcvx.fast.linear.loss_passes import ANY_ORDER
from svmcvx.system.compilation import compiled

__all__ = ["follow"]

Floats: TypeAlias = NDArray[np.float64]

# Newton steps of one setting, and halvings of one step; a setting that needs more is left to
# another method.
STEPS, HALVINGS = 60, 40
# Relative increase of the objective that is rounding.
ROUNDING = 1e-14
# Least pivot, relative to the diagonal, of a system that determines all coefficients.
LEAST_PIVOT = 1e-14


@compiled(inner=True, fastmath=ANY_ORDER)
def dot(a: Floats, b: Floats) -> float:
    """Return the inner product."""
    total = 0.0
    for k in range(a.size):
        total += a[k] * b[k]
    return total


@compiled(inner=True)
def copy_to(target: Floats, source: Floats) -> None:
    """Copy a vector, without the messages of errors that an assignment of slices compiles."""
    for k in range(target.size):
        target[k] = source[k]


@compiled(inner=True, fastmath=ANY_ORDER)
def value_at(
    u: Floats, s: Floats, norm: float, low: float, high: float, below: float, above: float
) -> float:
    """Return the objective at margins `u`, with the regulariser `norm`."""
    short, long = 0.0, 0.0
    for k in range(u.size):
        under = max(low - u[k], 0.0)
        over = max(u[k] - high, 0.0)
        short += s[k] * under * under
        long += s[k] * over * over
    return norm + below * short + above * long


@compiled(inner=True)
def add_row(moment: Floats, first: Floats, z: Floats, share: float) -> None:
    """Add a row to the sums of a set: to the upper triangle of its second moments, and to its
    first.
    """
    d = z.size
    for j in range(d):
        row, factor = moment[j], share * z[j]
        for k in range(j, d):
            row[k] += factor * z[k]
        first[j] += factor


@compiled(inner=True)
def regroup(
    Z: Floats,
    s: Floats,
    u: Floats,
    low: float,
    high: float,
    kinds: Any,
    moments: Floats,
    firsts: Floats,
) -> int:
    """Move rows to the sets of their margins: 1 below, 2 above, 0 neither; return how many moved."""
    moved, there = 0, 0
    for i in range(u.size):
        kind = 1 if u[i] < low else 2 if u[i] > high else 0
        moved += kind != kinds[i]
        there += kind != 0
    if not moved:
        return 0
    # What is added anew has no rounding errors of earlier changes.
    anew = moved >= there
    if anew:
        moments[:] = 0.0
        firsts[:] = 0.0
    for i in range(u.size):
        kind = 1 if u[i] < low else 2 if u[i] > high else 0
        before = 0 if anew else kinds[i]
        if kind != before:
            if before:
                add_row(moments[before - 1], firsts[before - 1], Z[i], -s[i])
            if kind:
                add_row(moments[kind - 1], firsts[kind - 1], Z[i], s[i])
        kinds[i] = kind
    return moved


@compiled(inner=True, fastmath=ANY_ORDER)
def solve_upper(H: Floats, x: Floats) -> bool:
    """Solve Hx = x in place by Cholesky's factor of the upper triangle of H, which it replaces;
    False for a system that is singular.
    """
    d = x.size
    for i in range(d):
        row = H[i]
        k = 0
        # Four rows at a time: what a row loses is loaded and stored a quarter as often.
        while k + 4 <= i:
            one, two, three, four = H[k], H[k + 1], H[k + 2], H[k + 3]
            p, q, r, s = one[i], two[i], three[i], four[i]
            for j in range(i, d):
                row[j] -= p * one[j] + q * two[j] + r * three[j] + s * four[j]
            x[i] -= p * x[k] + q * x[k + 1] + r * x[k + 2] + s * x[k + 3]
            k += 4
        while k < i:
            one = H[k]
            p = one[i]
            for j in range(i, d):
                row[j] -= p * one[j]
            x[i] -= p * x[k]
            k += 1
        if not row[i] > 0.0:
            return False
        scale = 1.0 / math.sqrt(row[i])
        for j in range(i, d):
            row[j] *= scale
        x[i] *= scale
    for k in range(d - 1, -1, -1):
        row, total = H[k], x[k]
        for j in range(k + 1, d):
            total -= row[j] * x[j]
        x[k] = total / row[k]
    return True


@compiled(nogil=True, allocates=True)
def follow(
    Z: Floats,
    s: Floats,
    ridge: Floats,
    settings: Floats,
    first: int,
    last: int,
    kinds: Any,
    moments: Floats,
    firsts: Floats,
    w: Floats,
    points: Floats,
    multipliers: Floats,
    values: Floats,
    gaps: Floats,
) -> None:
    """Solve the settings `first` to `last` − 1, each from the one before."""
    n, d = Z.shape
    u, trial, full = np.empty(n), np.empty(n), np.empty(n)
    H, target, gradient = np.empty((d, d)), np.empty(d), np.empty(d)
    for i in range(n):
        u[i] = dot(Z[i], w)
    for k in range(first, last):
        low, high, below, above = settings[k, 0], settings[k, 1], settings[k, 2], settings[k, 3]
        value = value_at(u, s, 0.5 * dot(ridge * w, w), low, high, below, above)
        solved = whole = False
        for _ in range(STEPS):
            if regroup(Z, s, u, low, high, kinds, moments, firsts) == 0 and whole:
                solved = True
                break
            upper = high if above > 0.0 else 0.0
            for j in range(d):
                row, short, long = H[j], moments[0, j], moments[1, j]
                for i in range(j, d):
                    row[i] = 2.0 * (below * short[i] + above * long[i])
                floor = LEAST_PIVOT * H[j, j]
                H[j, j] += ridge[j] + (floor if ridge[j] == 0.0 else 0.0)
                target[j] = 2.0 * below * low * firsts[0, j] + 2.0 * above * upper * firsts[1, j]
            if not solve_upper(H, target):
                break
            for i in range(n):
                full[i] = dot(Z[i], target)
            t = 1.0
            norm, cross, other = (
                dot(ridge * w, w),
                dot(ridge * w, target),
                dot(ridge * target, target),
            )
            found = value_at(full, s, 0.5 * other, low, high, below, above)
            for _ in range(HALVINGS):
                if found <= value + ROUNDING * abs(value):
                    break
                t *= 0.5
                for i in range(n):
                    trial[i] = u[i] + t * (full[i] - u[i])
                half = (1.0 - t) * (1.0 - t) * norm + 2.0 * t * (1.0 - t) * cross + t * t * other
                found = value_at(trial, s, 0.5 * half, low, high, below, above)
            whole = t == 1.0
            if whole:
                copy_to(w, target)
                copy_to(u, full)
            else:
                for j in range(d):
                    w[j] += t * (target[j] - w[j])
                copy_to(u, trial)
            value = found
        for j in range(d):
            gradient[j] = ridge[j] * w[j]
        theta = multipliers[k]
        for i in range(n):
            theta[i] = 2.0 * s[i] * (below * max(low - u[i], 0.0) - above * max(u[i] - high, 0.0))
            add_scaled(gradient, -theta[i], Z[i])
        copy_to(points[k], w)
        values[k] = value
        gaps[k] = 0.5 * dot(gradient, gradient) / value if solved and value > 0.0 else math.inf
        if not solved:
            # The next setting does not start from what may be no point at all.
            w[:] = 0.0
            u[:] = 0.0
