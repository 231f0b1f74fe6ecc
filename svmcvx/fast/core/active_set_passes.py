r"""Compiled steps of the dual active-set method for hard-margin machines; see
:mod:`svmcvx.fast.core.active_set`.

A step costs :math:`O(|S|^2 + n|S|)`. With :math:`y'\alpha = 0` a constant added to the kernel
changes nothing: the factor is that of :math:`K_{SS} + \rho`
(:mod:`svmcvx.fast.core.factor_passes`), and its Schur complement solves the bordered system of (v,
b). `s` is a :class:`~svmcvx.fast.core.active_set.State`.

**Source.** [GoldfarbIdnani], A numerically stable dual method for solving strictly convex quadratic
programs, 1983.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math
from typing import Any

import numpy as np

from svmcvx.fast.core.factor_passes import backward_both, forward_both, remove
from svmcvx.system.compilation import compiled

__all__ = [
    "DEPENDENT",
    "EMPTY",
    "FULL",
    "INSEPARABLE",
    "MORE",
    "OVER",
    "SOLVED",
    "TOUCHING",
    "solve_active",
    "step_multiplier",
]

# Why the method stopped: the restricted solution of T is found; the classes are not separable; the
# dual value exceeds the limit; too many observations are tight; the number of observations to add
# is used up; fewer than two observations are left tight.
SOLVED, INSEPARABLE, OVER, FULL, MORE, EMPTY = 0, 1, 2, 3, 4, 5
# A pivot below this share of the diagonal counts as zero: the observation depends linearly on the
# tight ones.
DEPENDENT = 1e-13
# Squared distance of the hulls, relative to the largest diagonal entry of the Gram matrix, below
# which they intersect.
TOUCHING = 1e-13
# A margin counts as violated if it is short by more than the sum of this and such a share of its
# terms.
VIOLATED, ROUNDING = 1e-12, 2.0**-48
# Steps of iterative refinement.
REFINEMENTS = 2


@compiled(inner=True)
def _direction(s, q, column, a, e):
    """Compute `column` = L⁻¹k_q, `a` = K̃⁻¹k_q and `e` = K̃⁻¹1 with K̃ = K_SS + ρ; return the pivot
    of q, 1 − 1'a and 1'e.
    """
    K, S, L, m, rho = s.K, s.S, s.L, s.tight[0], s.number[1]
    for k in range(m):
        column[k] = K[q, S[k]] + rho
        e[k] = 1.0
    forward_both(L, m, column, e)
    pivot = K[q, q] + rho
    for k in range(m):
        pivot -= column[k] * column[k]
        a[k] = column[k]
    backward_both(L, m, a, e)
    rest, ones = 1.0, 0.0
    for k in range(m):
        rest -= a[k]
        ones += e[k]
    return pivot, rest, ones


@compiled(inner=True)
def _leave(s, position):
    """Take the member at a position out of S."""
    S, m = s.S, s.tight[0]
    s.inside[S[position]] = False
    for i in range(position, m - 1):
        S[i] = S[i + 1]
    remove(s.L, m, position)
    s.tight[0] = m - 1


@compiled(inner=True)
def _evaluate(s):
    """Compute the margins from the multipliers."""
    K, S, v, u, y = s.K, s.S, s.v, s.u, s.y
    n = y.size
    for i in range(n):
        u[i] = s.number[0]
    for k in range(s.tight[0]):
        member = S[k]
        coefficient = v[member]
        for i in range(n):
            u[i] += coefficient * K[member, i]
    for i in range(n):
        u[i] *= y[i]


@compiled(inner=True)
def _polish(s, buffers):
    """Solve u = 1 on S by iterative refinement; return the position of the smallest multiplier, −1
    if all are positive.
    """
    _, x, e, _ = buffers
    S, L, v, y, m = s.S, s.L, s.v, s.y, s.tight[0]
    for _ in range(REFINEMENTS):
        _evaluate(s)
        balance, total, ones = 0.0, 0.0, 0.0
        for k in range(m):
            balance += v[S[k]]
        # The constant ρ of the factor acts on the imbalance Σv only, which this step removes.
        for k in range(m):
            member = S[k]
            x[k] = y[member] * (1.0 - s.u[member]) - s.number[1] * balance
            e[k] = 1.0
        forward_both(L, m, x, e)
        backward_both(L, m, x, e)
        for k in range(m):
            total += x[k]
            ones += e[k]
        db = (total + balance) / ones
        for k in range(m):
            v[S[k]] += x[k] - db * e[k]
        s.number[0] += db
    _evaluate(s)
    worst, position = 0.0, -1
    for k in range(m):
        alpha = y[S[k]] * v[S[k]]
        if alpha <= worst:
            worst, position = alpha, k
    return position


@compiled()
def step_multiplier(s, q, way, buffers):
    """Raise the multiplier of a violated q until q is tight and joins S, or lower it to 0, out of
    S.
    """
    column, a, e, step = buffers
    K, S, L, tight, y, v, u = s.K, s.S, s.L, s.tight, s.y, s.v, s.u
    up, sign = way > 0.0, way * y[q]
    # Not a constant, as below: numba would compile what it is passed to for that as well.
    leaving: Any = np.int64(-1)
    if s.inside[q]:
        for k in range(tight[0]):
            if S[k] == q:
                leaving = k
    while True:
        if leaving >= 0:
            member = S[leaving]
            _leave(s, leaving)
            if member != q:
                v[member] = 0.0
        m, left = tight[0], y[q] * v[q]
        if up and m == S.size:
            return FULL
        if up and m == 0:
            return INSEPARABLE
        if not up and (m == 0 or left <= 0.0):
            v[q] = 0.0
            return SOLVED
        pivot, rest, ones = _direction(s, q, column, a, e)
        # The change of α_q at which the first multiplier of S falls to 0.
        t, leaving = math.inf, np.int64(-1)
        for k in range(m):
            member = S[k]
            slope = y[member] * sign * (-a[k] - rest / ones * e[k])
            if slope < 0.0:
                reached = max(y[member] * v[member], 0.0) / -slope
                if reached < t:
                    t, leaving = reached, k
        # That at which q is tight, or out.
        enough = left
        if up:
            independent = pivot > DEPENDENT * (abs(K[q, q]) + s.number[1])
            if leaving < 0 and not independent:
                return INSEPARABLE
            enough = (
                max((1.0 - u[q]) / (pivot + rest * rest / ones), 0.0) if independent else math.inf
            )
        done = enough <= t if up else enough < t
        # S stays tight.
        change = sign * (enough if done else t)
        db = change * rest / ones
        n = y.size
        for i in range(n):
            step[i] = change * K[q, i]
        for k in range(m):
            dv = -change * a[k] - db * e[k]
            member = S[k]
            v[member] += dv
            for i in range(n):
                step[i] += dv * K[member, i]
        v[q] += change
        s.number[0] += db
        for i in range(n):
            u[i] += y[i] * (step[i] + db)
        if done and up:
            for k in range(m):
                L[m, k] = column[k]
            L[m, m] = math.sqrt(pivot)
            S[m] = q
            s.inside[q] = True
            tight[0] = m + 1
            return SOLVED
        if done:
            v[q] = 0.0
            return SOLVED


@compiled()
def solve_active(s, buffers, kept, limit, most, polished):
    """Add observations of T to a set that is not empty until none is violated; see
    :func:`svmcvx.fast.core.active_set.solve`.
    """
    S, tight, v, u, inside = s.S, s.tight, s.v, s.u, s.inside
    largest = s.number[1]
    steps = 0
    while True:
        size = 0.0
        for k in range(tight[0]):
            size += abs(v[S[k]])
        # The observation of T outside S with the smallest margin, if that is below 1 by more than
        # rounding.
        lowest = 1.0 - (VIOLATED + ROUNDING * (size * largest + abs(s.number[0])))
        q: Any = np.int64(-1)
        for i in range(u.size):
            if kept[i] and not inside[i] and u[i] < lowest:
                lowest, q = u[i], i
        if 0.5 * size > limit or size * TOUCHING * largest > 1.0:
            return OVER, -1, steps
        if q < 0:
            if polished:
                return SOLVED, -1, steps
            while not polished:
                position = _polish(s, buffers)
                if position >= 0:
                    member = S[position]
                    _leave(s, position)
                    v[member] = 0.0
                    if tight[0] < 2:
                        return EMPTY, -1, steps
                polished = position < 0
            continue
        polished = False
        steps += 1
        if steps > most:
            return MORE, -1, steps
        code = step_multiplier(s, q, 1.0, buffers)
        if code != SOLVED:
            return code, q, steps
