r"""Compiled steps of the dual active-set method for hard-margin machines; see :mod:`svmcvx.fast.core.active_set`.

A step costs :math:`O(|S|^2 + n|S|)`. The Cholesky factor is that of :mod:`svmcvx.fast.core.active_set_factor_passes`.

**Source.** [GoldfarbIdnani], A numerically stable dual method for solving strictly convex quadratic programs, 1983.
"""

from __future__ import annotations

import math

import numpy as np

from svmcvx.fast.core.active_set_factor_passes import direction, polish, remove
from svmcvx.fast.core.compilation import compiled

__all__ = [
    "DEPENDENT",
    "EMPTY",
    "FULL",
    "INSEPARABLE",
    "MORE",
    "OVER",
    "SOLVED",
    "TOUCHING",
    "add",
    "lower_multiplier",
    "settle",
]

# Why the method stopped: the machine of T is found; the classes are not separable; the dual value exceeds the limit; too many
# observations are tight; the number of observations to add is used up; fewer than two observations are left tight.
SOLVED, INSEPARABLE, OVER, FULL, MORE, EMPTY = 0, 1, 2, 3, 4, 5
# A pivot below this share of the diagonal counts as zero: the observation depends linearly on the tight ones.
DEPENDENT = 1e-13
# Squared distance of the hulls, relative to the largest diagonal entry of the Gram matrix, below which they intersect.
TOUCHING = 1e-13
# A margin counts as violated if it is short by more than the sum of this and so many roundings of its terms.
VIOLATED, ROUNDINGS = 1e-12, 16.0
EPS = float(np.finfo(np.float64).eps)


@compiled(inner=True)
def _move(s, q, t, a, e, rest, ones, step):
    """Raise α_q by t, and change the multipliers of S and b so that S stays tight."""
    K, y, S, v, u = s.K, s.y, s.S, s.v, s.u
    change = t * y[q]
    db = change * rest / ones
    n = y.size
    for i in range(n):
        step[i] = change * K[q, i]
    for k in range(s.tight[0]):
        dv = -change * a[k] - db * e[k]
        member = S[k]
        v[member] += dv
        for i in range(n):
            step[i] += dv * K[member, i]
    v[q] += change
    s.number[0] += db
    for i in range(n):
        u[i] += y[i] * (step[i] + db)


@compiled(inner=True)
def _blocking(s, sign, a, e, rest, ones):
    """Return the change of α_q (y_q = `sign`) at which the first multiplier of S falls to 0, and that member's position."""
    S, v, y = s.S, s.v, s.y
    t, blocking = math.inf, -1
    for k in range(s.tight[0]):
        member = S[k]
        slope = y[member] * sign * (-a[k] - rest / ones * e[k])
        if slope < 0.0:
            reached = max(y[member] * v[member], 0.0) / -slope
            if reached < t:
                t, blocking = reached, k
    return t, blocking


@compiled()
def lower_multiplier(s, q, buffers):
    """Lower the multiplier of q to 0, out of S; members of S whose multipliers fall to 0 leave.

    A set of fewer than two that is left has to be cleared.
    """
    column, a, e, cosines, sines, step = buffers
    S, tight, y, v = s.S, s.tight, s.y, s.v
    if s.inside[q]:
        for k in range(tight[0]):
            if S[k] == q:
                remove(s, k, cosines, sines)
                break
    while tight[0] > 0:
        left = y[q] * v[q]
        if left <= 0.0:
            break
        _, rest, ones = direction(s, q, column, a, e)
        t, blocking = _blocking(s, -y[q], a, e, rest, ones)
        whole = t > left
        _move(s, q, -min(t, left), a, e, rest, ones, step)
        if whole:
            break
        member = S[blocking]
        remove(s, blocking, cosines, sines)
        v[member] = 0.0
    v[q] = 0.0


@compiled()
def add(s, q, buffers):
    """Raise the multiplier of a violated q until it is tight; return ``SOLVED``, ``INSEPARABLE`` or ``FULL``."""
    column, a, e, cosines, sines, step = buffers
    S, L, tight, y = s.S, s.L, s.tight, s.y
    while True:
        m = tight[0]
        if m >= S.size:
            return FULL
        pivot, rest, ones = direction(s, q, column, a, e)
        t, blocking = _blocking(s, y[q], a, e, rest, ones)
        independent = pivot > DEPENDENT * (abs(s.K[q, q]) + s.number[1])
        enough = (1.0 - s.u[q]) / (pivot + rest * rest / ones) if independent else math.inf
        if blocking < 0 and not independent:
            return INSEPARABLE
        reached = enough <= t
        _move(s, q, max(enough, 0.0) if reached else t, a, e, rest, ones, step)
        if reached:
            for k in range(m):
                L[m, k] = column[k]
            L[m, m] = math.sqrt(pivot)
            S[m] = q
            s.inside[q] = True
            tight[0] = m + 1
            return SOLVED
        member = S[blocking]
        remove(s, blocking, cosines, sines)
        s.v[member] = 0.0
        if tight[0] == 0:
            return INSEPARABLE


@compiled()
def settle(s, buffers, kept, limit, most, polished):
    """Add observations of T to a set that is not empty until none is violated; see :func:`svmcvx.fast.core.active_set.solve`.

    Parameters
    ----------
    polished : bool
        Whether the set is known to be polished.

    Returns
    -------
    code, q : int
        ``EMPTY`` as well: polishing has left fewer than two observations, and the set has to be cleared.
    steps : int
        Observations added, or tried.
    """
    S, tight, v, u, inside = s.S, s.tight, s.v, s.u, s.inside
    largest = s.number[1]
    steps = 0
    while True:
        size = 0.0
        for k in range(tight[0]):
            size += abs(v[S[k]])
        # The observation of T outside S with the smallest margin, if that is below 1 by more than rounding.
        lowest, q = 1.0 - (VIOLATED + ROUNDINGS * EPS * (size * largest + abs(s.number[0]))), -1
        for i in range(u.size):
            if kept[i] and not inside[i] and u[i] < lowest:
                lowest, q = u[i], i
        if 0.5 * size > limit or size * TOUCHING * largest > 1.0:
            return OVER, -1, steps
        if q < 0:
            if polished:
                return SOLVED, -1, steps
            position = polish(s, buffers)
            while position >= 0:
                member = S[position]
                remove(s, position, buffers[3], buffers[4])
                v[member] = 0.0
                if tight[0] < 2:
                    return EMPTY, -1, steps
                position = polish(s, buffers)
            polished = True
            continue
        polished = False
        steps += 1
        if steps > most:
            return MORE, -1, steps
        code = add(s, q, buffers)
        if code != SOLVED:
            return code, q, steps
