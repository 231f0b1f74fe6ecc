r"""Local search over the sets of rows that a point keeps, compiled.

The point of least norm that keeps a set T, :math:`\min \|w\|^2` s.t. :math:`h_i'w \ge 1` for i in
T, is found by a dual active-set method ([LawsonHanson], chapter 23) that begins at the active rows
of the point before. The sum of the multipliers is a lower bound on the norm, so that a trial ends
as soon as it shows that the set is no improvement.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.fast.core.active_set_passes import backward, forward, remove
from svmcvx.system.compilation import compiled

# Margins of at least this are satisfied, and a value below this share of another one improves it.
ALMOST = 1.0 - 1e-9


@compiled(inner=True)
def _inner(H, gram, i, j):
    """The inner product of two rows."""
    if gram.size:
        return gram[i, j]
    value = 0.0
    for c in range(H.shape[1]):
        value += H[i, c] * H[j, c]
    return value


@compiled(inner=True)
def _append(H, gram, i, members, count, L, alpha):
    """Make row i active at 0; if it is in the others' span, write coefficients, return False."""
    r = H.shape[1]
    row = L[count]
    whole = _inner(H, gram, i, i)
    rest = whole
    for a in range(count):
        row[a] = _inner(H, gram, i, members[a])
    forward(L, count, row)
    for a in range(count):
        rest -= row[a] * row[a]
    # The share of the squared length outside of the span.
    if rest <= 1e-13 * whole or count == r:
        backward(L, count, row)
        return False
    row[count] = rest**0.5
    members[count], alpha[count] = i, 0.0
    return True


@compiled(inner=True)
def leave(at, members, count, L, alpha):
    remove(L, count, at)
    for a in range(at, count - 1):
        members[a], alpha[a] = members[a + 1], alpha[a + 1]
    return count - 1


@compiled(inner=True)
def _point(H, members, count, alpha, w):
    w[:] = 0.0
    for a in range(count):
        for c in range(w.size):
            w[c] += alpha[a] * H[members[a], c]


@compiled(inner=True)
def _margins(H, gram, members, count, alpha, w, u):
    """Set margins, without a Gram matrix the point too; return the work in products of all rows."""
    n, r = H.shape
    if gram.size:
        u[:] = 0.0
        for a in range(count):
            for i in range(n):
                u[i] += alpha[a] * gram[members[a], i]
        return (count + 1.0) / r
    _point(H, members, count, alpha, w)
    for i in range(n):
        value = 0.0
        for c in range(r):
            value += H[i, c] * w[c]
        u[i] = value
    return 1.0


@compiled(inner=True)
def least_norm(H, gram, kept, members, count, L, alpha, z, w, u, limit):
    """Go to the least-norm point that keeps a set, or until its squared norm reaches `limit`.

    The norm is infinite if there is none: the row behind the members, −1 if the iteration did not
    end, depends on them by the coefficients in the next row of L, none of which is positive.
    """
    n, r = H.shape
    work = 0.0
    for _ in range(10 * (r + 1)):
        # The multipliers of the active rows, all of whose margins are 1; on the way there those
        # that become 0 leave.
        while True:
            for a in range(count):
                z[a] = 1.0
            forward(L, count, z)
            backward(L, count, z)
            first, length = -1, 1.0
            for a in range(count):
                if z[a] <= 0.0:
                    share = alpha[a] / (alpha[a] - z[a]) if alpha[a] > 0.0 else 0.0
                    if first < 0 or share < length:
                        first, length = a, share
            for a in range(count):
                alpha[a] += length * (z[a] - alpha[a])
            if first < 0:
                break
            count = leave(first, members, count, L, alpha)
        norm = 0.0
        for a in range(count):
            norm += alpha[a]
        if norm >= limit:
            return norm, count, work
        work += _margins(H, gram, members, count, alpha, w, u)
        worst = -1
        # Those of the active rows are 1 but for rounding, which is more than is allowed where the
        # intercept's column is long.
        for a in range(count):
            u[members[a]] = 1.0
        for i in range(n):
            if kept[i] and (worst < 0 or u[i] < u[worst]):
                worst = i
        if worst < 0 or u[worst] >= ALMOST:
            if gram.size:
                _point(H, members, count, alpha, w)
            return norm, count, work
        while not _append(H, gram, worst, members, count, L, alpha):
            # The point stays where it is while the multiplier of this row grows, until one of the
            # others becomes 0.
            first, length = -1, 0.0
            for a in range(count):
                if L[count, a] > 1e-12:
                    share = alpha[a] / L[count, a]
                    if first < 0 or share < length:
                        first, length = a, share
            if first < 0:
                members[count] = worst
                return math.inf, count, work
            for a in range(count):
                alpha[a] -= length * L[count, a]
            count = leave(first, members, count, L, alpha)
        count += 1
    members[count] = -1
    return math.inf, count, work


@compiled(inner=True)
def copy(source, count, target):
    for a in range(count):
        target[0][a], target[2][a] = source[0][a], source[2][a]
        for b in range(a + 1):
            target[1][a, b] = source[1][a, b]


@compiled(inner=True)
def _cost(weight, lam, budget, u):
    """The price of the rows that a point does not keep; infinite beyond the budget."""
    dropped = 0.0
    for i in range(u.size):
        if u[i] < ALMOST:
            dropped += weight[i]
    return lam * dropped if dropped <= budget else math.inf


@compiled(inner=True)
def _move(problem, kept, dropped, on, start, count, state, space, limit):
    """Move row `on` to the other side; return the value, the number of active rows, the work."""
    (H, gram, weight, lam, budget), (members, L, alpha), (scratch, w, u) = problem, state, space
    copy(start, count, state)
    kept[on] = not kept[on]
    dropped += -weight[on] if kept[on] else weight[on]
    for a in range(count):
        if members[a] == on:
            count = leave(a, members, count, L, alpha)
            break
    norm, made = math.inf, 0.0
    if dropped <= budget:
        norm, count, made = least_norm(
            H, gram, kept, members, count, L, alpha, scratch, w, u, limit - lam * dropped
        )
    kept[on] = not kept[on]
    value = norm + _cost(weight, lam, budget, u) if norm < limit - lam * dropped else math.inf
    return value, count, made


@compiled(inner=True)
def _settle(weight, kept, u, near):
    """Keep all that a point keeps; write dropped rows to `near`, the largest margins first."""
    found, dropped = 0, 0.0
    for i in range(u.size):
        kept[i] = u[i] >= ALMOST
        if kept[i]:
            continue
        dropped += weight[i]
        at = found
        while at > 0 and u[near[at - 1]] < u[i]:
            at -= 1
        if at < near.size:
            for later in range(min(found, near.size - 1), at, -1):
                near[later] = near[later - 1]
            near[at] = i
            found = min(found + 1, near.size)
    return found, dropped


@compiled(nogil=True)
def descend(H, gram, weight, lam, budget, kept, first, most, near, active, space, found, stop):
    """Improve a set by moves and exchanges until none is better; inner products are those of
    `gram` unless that is empty.

    `first` has marks of rows that stay at first, and a squared norm: of the others those with the
    largest multiplier leave until a point of less than this norm keeps the set.
    """
    (stays, limit), (here, there, beyond) = first, active
    scratch, w, u = space
    problem, unlimited = (H, gram, weight, lam, budget), (H, gram, weight, lam, math.inf)
    count, norm, made = 0, math.inf, 0.0
    while True:
        norm, count, work = least_norm(
            H, gram, kept, here[0], count, here[1], here[2], scratch, w, u, limit
        )
        made += work
        if norm < limit:
            break
        worst = -1
        for a in range(count):
            if not stays[here[0][a]] and (worst < 0 or here[2][a] > here[2][worst]):
                worst = a
        # A large inseparable set would lose many rows, one by one, before a point keeps it.
        if worst < 0 or (limit == math.inf and made > most) or stop[0]:
            return math.inf, made
        kept[here[0][worst]] = False
        count = leave(worst, here[0], count, here[1], here[2])
    value = norm + _cost(weight, lam, budget, u)
    if not value < math.inf:
        return math.inf, made
    candidates, dropped = _settle(weight, kept, u, near)
    improved = True
    while improved and made < most and not stop[0]:
        improved = False
        # Drop an active row, the one with the largest multiplier first; then take in a row, and
        # drop an active one for it.
        for turn in range(candidates + 1):
            joined = near[turn - 1] if turn > 0 else -1
            number, start = count, here
            before, lost = value, dropped
            if joined >= 0:
                now, number, work = _move(
                    unlimited, kept, dropped, joined, here, count, there, space, 2.0 * value
                )
                made += work
                if not now < math.inf:
                    continue
                start, lost = there, dropped - weight[joined]
                kept[joined] = True
                now = now if lost <= budget else math.inf
                if now < before * ALMOST:
                    copy(there, number, here)
                    count, value, improved = number, now, True
            if not improved:
                for a in range(number):
                    found[a] = start[2][a]
                for _ in range(number):
                    at = 0
                    for a in range(1, number):
                        if found[a] > found[at]:
                            at = a
                    found[at] = -1.0
                    leaving = start[0][at]
                    if leaving == joined:
                        continue
                    now, after, work = _move(
                        problem, kept, lost, leaving, start, number, beyond, space, before * ALMOST
                    )
                    made += work
                    if now < before * ALMOST:
                        copy(beyond, after, here)
                        count, value, improved = after, now, True
                        break
                    if made >= most or stop[0]:
                        break
            if improved:
                candidates, dropped = _settle(weight, kept, u, near)
                break
            if joined >= 0:
                kept[joined] = False
            if made >= most or stop[0]:
                break
    return value, made
