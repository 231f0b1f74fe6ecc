"""Sets of rows that no point of a small norm keeps, compiled.

The dual active-set method of :mod:`svmcvx.fast.search.exchange_passes` raises the least norm of
points that keep the rows allowed. When it reaches a limit, or a row depends on the active ones such
that no point keeps it with them, the multipliers name a set of independent rows, or one more.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.fast.search.exchange_passes import ALMOST, copy, least_norm, leave
from svmcvx.system.compilation import compiled

# Multipliers below this are rounding; an exchange is worth this cost.
NO_MULTIPLIER, WORTH = 1e-10, 1e-3


@compiled(inner=True)
def _write(cost, share, norm, state, count, rows, mu):
    """Write the set that a state names; return its size, and its cost with that of the norm."""
    (members, L, alpha), size, value = state, 0, share / norm
    depends = norm == math.inf
    for a in range(count + depends):
        each = alpha[a]
        if depends:
            each = -L[count, a] if a < count else 1.0
        if each > NO_MULTIPLIER:
            rows[size], mu[size] = members[a], each
            value += cost[members[a]]
            size += 1
    return size, value


@compiled(nogil=True)
def cheap_sets(H, gram, cost, order, wanted, share, good, sets, marks, active, space, stop):
    """Write sets whose least squared norm is `wanted` or more; return their number and the work.

    The first one is within the shortest part of the order that has one. Then each of its rows, the
    dearest first, is to be replaced by cheaper ones. The cost of a set is that of its rows, and
    `share` over the norm; sets on the way are written if it is below `good`. `marks` are false.
    """
    (rows, mu, sizes), (here, there, _), (scratch, w, u) = sets, active, space
    n, count, front, norm, made = H.shape[0], 0, 0, 0.0, 0.0
    kept, out, tried = marks
    u[:] = 0.0
    while norm < wanted and front < n and not stop[0]:
        while front < n:
            front += 1
            kept[order[front - 1]] = True
            if u[order[front - 1]] < ALMOST:
                break
        norm, count, work = least_norm(
            H, gram, kept, here[0], count, here[1], here[2], scratch, w, u, wanted
        )
        made += work
    if norm < wanted or (norm == math.inf and here[0][count] < 0):
        return 0, made
    sizes[0], value = _write(cost, share, norm, here, count, rows[0], mu[0])
    found, best = 1, 0
    while not stop[0]:
        on = -1
        for a in range(sizes[best]):
            i = rows[best, a]
            if not tried[i] and (on < 0 or cost[i] > cost[on]):
                on = i
        if on < 0:
            break
        for i in range(n):
            kept[i] = cost[i] < cost[on] and not out[i]
        for a in range(sizes[best]):
            kept[rows[best, a]] = rows[best, a] != on
        tried[on], number = True, count
        copy(here, count, there)
        for a in range(count):
            if there[0][a] == on:
                number = leave(a, there[0], count, there[1], there[2])
                break
        norm, number, work = least_norm(
            H, gram, kept, there[0], number, there[1], there[2], scratch, w, u, wanted
        )
        made += work
        if norm < wanted or (norm == math.inf and there[0][number] < 0):
            continue
        at = found if found < sizes.size else sizes.size - 1 - (best == sizes.size - 1)
        sizes[at], now = _write(cost, share, norm, there, number, rows[at], mu[at])
        better = now < value - WORTH
        found += at == found and (better or now < good)
        if better:
            out[on], best, value, count = True, at, now, number
            copy(there, number, here)
    return found, made
