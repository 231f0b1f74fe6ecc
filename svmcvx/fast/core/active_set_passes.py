r"""Compiled dual active-set method for hard-margin machines; see :mod:`svmcvx.fast.core.active_set`.

A step costs :math:`O(|S|^2 + n|S|)`. The Cholesky factor is that of :mod:`svmcvx.fast.core.active_set_factor_passes`.

**Source.** [GoldfarbIdnani], A numerically stable dual method for solving strictly convex quadratic programs, 1983.
"""

from __future__ import annotations

import math

import numpy as np

from svmcvx.fast.core.active_set_factor_passes import append, clear, direction, evaluate, polish, remove, value
from svmcvx.fast.core.compilation import compiled

__all__ = [
    "DEPENDENT",
    "FULL",
    "INSEPARABLE",
    "MORE",
    "OVER",
    "SOLVED",
    "TOUCHING",
    "add",
    "drop",
    "lower_multiplier",
    "ray",
    "solve",
    "workspace",
]

# Why the method stopped: the machine of T is found; the classes are not separable; the dual value exceeds the limit; too many
# observations are tight; the number of observations to add is used up.
SOLVED, INSEPARABLE, OVER, FULL, MORE = 0, 1, 2, 3, 4
# A pivot below this share of the diagonal counts as zero: the observation depends linearly on the tight ones.
DEPENDENT = 1e-13
# Squared distance of the hulls, relative to the largest diagonal entry of the Gram matrix, below which they intersect.
TOUCHING = 1e-13
# A margin counts as violated if it is short by more than the sum of this and so many roundings of its terms.
VIOLATED, ROUNDINGS = 1e-12, 16.0
EPS = float(np.finfo(np.float64).eps)


@compiled()
def _move(s, q, t, a, e, rest, ones, step):
    """Raise α_q by t, and change the multipliers of S and b so that S stays tight."""
    m, y = s.tight[0], s.y
    change = t * y[q]
    db = change * rest / ones
    n = y.size
    for i in range(n):
        step[i] = change * s.K[q, i]
    for k in range(m):
        dv = -change * a[k] - db * e[k]
        member = s.S[k]
        s.v[member] += dv
        for i in range(n):
            step[i] += dv * s.K[member, i]
    s.v[q] += change
    s.number[0] += db
    for i in range(n):
        s.u[i] += y[i] * (step[i] + db)


@compiled()
def _blocking(s, sign, a, e, rest, ones):
    """Return the change of α_q (y_q = `sign`) at which the first multiplier of S falls to 0, and that member's position."""
    t, blocking = math.inf, -1
    for k in range(s.tight[0]):
        member = s.S[k]
        slope = s.y[member] * sign * (-a[k] - rest / ones * e[k])
        if slope < 0.0:
            reached = max(s.y[member] * s.v[member], 0.0) / -slope
            if reached < t:
                t, blocking = reached, k
    return t, blocking


@compiled()
def _first_pair(s, kept):
    """Start from two near observations of different classes.

    Returns −1 if there is such a pair, −2 if T has one class only, and otherwise one of two equal observations of different
    classes.
    """
    clear(s)
    n, y, K = s.y.size, s.y, s.K
    first = -1
    for i in range(n):
        if kept[i]:
            if first < 0:
                first = i
            elif y[i] != y[first]:
                break
    i = first
    j = -1
    for _ in range(2):
        best, nearest = math.inf, -1
        for k in range(n):
            if kept[k] and y[k] != y[i]:
                distance = K[i, i] + K[k, k] - 2.0 * K[i, k]
                if distance < best:
                    best, nearest = distance, k
        if nearest < 0:
            s.number[0] = y[first]
            for k in range(n):
                s.u[k] = y[k] * y[first]
            return -2
        i, j = nearest, i
    square = K[i, i] + K[j, j] - 2.0 * K[i, j]
    if not square > DEPENDENT * (abs(K[i, i]) + abs(K[j, j])):
        return i
    rho = s.number[1]
    scratch = np.empty(2)
    append(s, i, scratch, K[i, i] + rho)
    scratch[0] = (K[i, j] + rho) / s.L[0, 0]
    pivot = K[j, j] + rho - scratch[0] ** 2
    if not pivot > 0.0:
        clear(s)
        return i
    append(s, j, scratch, pivot)
    s.v[i], s.v[j] = 2.0 * y[i] / square, 2.0 * y[j] / square
    evaluate(s)
    s.number[0] = y[i] - s.u[i] * y[i]
    for k in range(n):
        s.u[k] += y[k] * s.number[0]
    return -1


@compiled()
def lower_multiplier(s, q, buffers):
    """Lower the multiplier of q, which is not in S, to 0; members of S whose multipliers fall to 0 leave."""
    column, a, e, cosines, sines, step = buffers
    y = s.y
    while s.tight[0] > 0:
        left = y[q] * s.v[q]
        if left <= 0.0:
            break
        _, rest, ones = direction(s, q, column, a, e)
        t, blocking = _blocking(s, -y[q], a, e, rest, ones)
        whole = t > left
        _move(s, q, -min(t, left), a, e, rest, ones, step)
        if whole:
            break
        member = s.S[blocking]
        remove(s, blocking, cosines, sines)
        s.v[member] = 0.0
    s.v[q] = 0.0
    if s.tight[0] < 2:
        clear(s)


@compiled()
def workspace(s):
    """Scratch arrays."""
    cap = s.S.size
    return np.empty(cap), np.empty(cap), np.empty(cap), np.empty(cap), np.empty(cap), np.empty(s.y.size)


@compiled()
def drop(s, position):
    """Drop the member at a position: the state becomes the machine of some of the other members."""
    buffers = workspace(s)
    q = s.S[position]
    remove(s, position, buffers[3], buffers[4])
    lower_multiplier(s, q, buffers)


@compiled()
def add(s, q, buffers):
    """Raise the multiplier of a violated q until it is tight; return ``SOLVED``, ``INSEPARABLE`` or ``FULL``."""
    column, a, e, cosines, sines, step = buffers
    y = s.y
    while True:
        if s.tight[0] >= s.S.size:
            return FULL
        pivot, rest, ones = direction(s, q, column, a, e)
        t, blocking = _blocking(s, y[q], a, e, rest, ones)
        independent = pivot > DEPENDENT * (abs(s.K[q, q]) + s.number[1])
        enough = (1.0 - s.u[q]) / (pivot + rest * rest / ones) if independent else math.inf
        if blocking < 0 and not independent:
            return INSEPARABLE
        if enough <= t:
            _move(s, q, max(enough, 0.0), a, e, rest, ones, step)
            append(s, q, column, pivot)
            return SOLVED
        _move(s, q, t, a, e, rest, ones, step)
        member = s.S[blocking]
        remove(s, blocking, cosines, sines)
        s.v[member] = 0.0
        if s.tight[0] == 0:
            return INSEPARABLE


@compiled()
def most_violated(s, kept):
    """Return the observation of T outside S with the smallest margin, −1 if none is below 1 by more than rounding."""
    size, largest = 0.0, s.number[1]
    for k in range(s.tight[0]):
        size += abs(s.v[s.S[k]])
    allowed = VIOLATED + ROUNDINGS * EPS * (size * largest + abs(s.number[0]))
    lowest, q = 1.0 - allowed, -1
    for i in range(s.y.size):
        if kept[i] and not s.inside[i] and s.u[i] < lowest:
            lowest, q = s.u[i], i
    return q


@compiled()
def ray(s, kept, q):
    """Return a direction of the multipliers in which the dual is unbounded, after ``INSEPARABLE`` because of q.

    It gives equal points of the convex hulls of the classes, up to rounding.
    """
    column, a, e = np.empty(s.S.size), np.empty(s.S.size), np.empty(s.S.size)
    weight = np.empty(s.y.size)
    for i in range(weight.size):
        weight[i] = 0.0
    weight[q] = 1.0
    if s.tight[0] == 0:
        best, nearest = math.inf, q
        for k in range(s.y.size):
            if kept[k] and s.y[k] != s.y[q]:
                distance = s.K[q, q] + s.K[k, k] - 2.0 * s.K[q, k]
                if distance < best:
                    best, nearest = distance, k
        weight[nearest] = 1.0
        return weight
    _, rest, ones = direction(s, q, column, a, e)
    for k in range(s.tight[0]):
        member = s.S[k]
        weight[member] = max(-s.y[member] * s.y[q] * (a[k] + rest / ones * e[k]), 0.0)
    return weight


@compiled()
def solve(s, kept, limit, most):
    """Make the state the machine of T, the observations with ``kept``, starting from the present state.

    Members of S outside T have to be dropped before.

    Parameters
    ----------
    limit : float
        Stop with ``OVER`` when the dual value exceeds this.
    most : int
        Observations to add before stopping with ``MORE``; the next call continues.

    Returns
    -------
    code : int
        ``SOLVED``, ``INSEPARABLE``, ``OVER``, ``MORE``, or ``FULL`` (too many tight observations).
    q : int
        The observation that cannot be added (its multiplier may have been raised), −1 if there is none.
    """
    buffers = workspace(s)
    steps = 0
    polished = False
    while True:
        if s.tight[0] == 0:
            found = _first_pair(s, kept)
            if found == -2:
                return SOLVED, -1
            if found >= 0:
                return INSEPARABLE, found
        q = most_violated(s, kept)
        now = value(s)
        if now > limit:
            return OVER, -1
        if 2.0 * now * TOUCHING * s.number[1] > 1.0:
            return OVER, -1
        if q < 0:
            if polished:
                return SOLVED, -1
            position = polish(s)
            while position >= 0:
                member = s.S[position]
                remove(s, position, buffers[3], buffers[4])
                s.v[member] = 0.0
                if s.tight[0] < 2:
                    clear(s)
                    break
                position = polish(s)
            polished = True
            continue
        polished = False
        steps += 1
        if steps > most:
            return MORE, -1
        code = add(s, q, buffers)
        if code != SOLVED:
            return code, q
