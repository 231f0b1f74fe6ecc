r"""Compiled steps of the dual active-set method for hard-margin machines; see
:mod:`svmcvx.fast.core.active_set`.

A step costs :math:`O(|S|^2 + n|S|)`. With :math:`y'\alpha = 0` a constant added to the kernel
changes nothing: the factor is that of :math:`K_{SS} + \rho`
(:mod:`svmcvx.fast.core.active_set_passes`), and its Schur complement solves the bordered system of
(v, b). `s` is a :class:`~svmcvx.fast.core.active_set.State`.

**Source.** [GoldfarbIdnani], A numerically stable dual method for solving strictly convex quadratic
programs, 1983.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from svmcvx.system.compilation import compiled

# numba infers the types.
# mypy: allow-untyped-defs


# Why the method stopped: the solution is found; the classes are not separable;
# their hulls nearly touch; too many observations are tight; the number of observations to add is
# used up; fewer than two observations are left tight.
SOLVED, INSEPARABLE, OVER, FULL, MORE, EMPTY = range(6)
# Share of the largest diagonal entry of the Gram matrix below which a pivot, or the squared
# distance of the hulls, counts as zero.
TOUCHING = 1e-13


@compiled(inner=True)
def _direction(s, q, column, a, e):
    """Compute L⁻¹k_q, K̃⁻¹k_q and K̃⁻¹1, K̃ = K_SS + ρ; return the pivot of q, 1 − 1'a and 1'e."""
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
    S, m = s.S, s.tight[0]
    s.inside[S[position]] = False
    for i in range(position, m - 1):
        S[i] = S[i + 1]
    remove(s.L, m, position)
    s.tight[0] = m - 1


@compiled(inner=True)
def _evaluate(s):
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
    """Refine u = 1 on S; return the position of the smallest multiplier, −1 if all are positive."""
    _, x, e, _ = buffers
    S, L, v, y, m = s.S, s.L, s.v, s.y, s.tight[0]
    for _ in range(2):
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


@compiled(inner=True)
def _raise_multiplier(s, q, buffers):
    """Raise the multiplier of a violated q until q is tight and joins S."""
    column, a, e, step = buffers
    K, S, L, tight, y, v, u = s.K, s.S, s.L, s.tight, s.y, s.v, s.u
    while True:
        m = tight[0]
        if m == S.size:
            return FULL
        if m == 0:
            return INSEPARABLE
        pivot, rest, ones = _direction(s, q, column, a, e)
        # The change of α_q at which the first multiplier of S falls to 0.
        t = math.inf
        # Not a constant: numba would compile what it is passed to for that as well.
        leaving: Any = np.int64(-1)
        for k in range(m):
            member = S[k]
            slope = y[member] * y[q] * (-a[k] - rest / ones * e[k])
            if slope < 0.0:
                reached = max(y[member] * v[member], 0.0) / -slope
                if reached < t:
                    t, leaving = reached, k
        # That at which q is tight.
        independent = pivot > TOUCHING * (abs(K[q, q]) + s.number[1])
        if leaving < 0 and not independent:
            return INSEPARABLE
        enough = max((1.0 - u[q]) / (pivot + rest * rest / ones), 0.0) if independent else math.inf
        # S stays tight.
        change = y[q] * min(enough, t)
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
        if enough <= t:
            for k in range(m):
                L[m, k] = column[k]
            L[m, m] = math.sqrt(pivot)
            S[m] = q
            s.inside[q] = True
            tight[0] = m + 1
            return SOLVED
        member = S[leaving]
        _leave(s, leaving)
        v[member] = 0.0


@compiled()
def solve_active(s, buffers, most, polished):
    """Add observations to a set that is not empty until none is violated."""
    S, tight, v, u, inside = s.S, s.tight, s.v, s.u, s.inside
    largest = s.number[1]
    steps = 0
    while True:
        size = 0.0
        for k in range(tight[0]):
            size += abs(v[S[k]])
        # The observation outside S with the smallest margin, if that is below 1 by more than
        # rounding.
        lowest = 1.0 - (1e-12 + 2.0**-48 * (size * largest + abs(s.number[0])))
        q: Any = np.int64(-1)
        for i in range(u.size):
            if not inside[i] and u[i] < lowest:
                lowest, q = u[i], i
        if size * TOUCHING * largest > 1.0:
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
        code = _raise_multiplier(s, q, buffers)
        if code != SOLVED:
            return code, q, steps


# Sums of products may be taken in any order, so that they are vectorised; NaN and infinity stay
# what they are.
ANY_ORDER = {"reassoc", "nsz", "contract"}


@compiled(inner=True, fastmath=ANY_ORDER)
def forward(L, m, x):
    """Solve Lx = x in place."""
    for i in range(m):
        row, total = L[i], x[i]
        for j in range(i):
            total -= row[j] * x[j]
        x[i] = total / row[i]


@compiled(inner=True, fastmath=ANY_ORDER)
def backward(L, m, x):
    for i in range(m - 1, -1, -1):
        row = L[i]
        value = x[i] / row[i]
        x[i] = value
        for j in range(i):
            x[j] -= row[j] * value


@compiled(inner=True, fastmath=ANY_ORDER)
def forward_both(L, m, x, e):
    """Solve Lx = x and Le = e in place, in three quarters of the time of one after the other."""
    for i in range(m):
        row, one, other = L[i], x[i], e[i]
        for j in range(i):
            one -= row[j] * x[j]
            other -= row[j] * e[j]
        x[i] = one / row[i]
        e[i] = other / row[i]


@compiled(inner=True, fastmath=ANY_ORDER)
def backward_both(L, m, x, e):
    for i in range(m - 1, -1, -1):
        row = L[i]
        one, other = x[i] / row[i], e[i] / row[i]
        x[i], e[i] = one, other
        for j in range(i):
            x[j] -= row[j] * one
            e[j] -= row[j] * other


@compiled(inner=True)
def remove(L, m, place):
    for i in range(place, m - 1):
        # By entries: an assignment of slices compiles numpy's messages of errors, too.
        for j in range(i + 2):
            L[i, j] = L[i + 1, j]
    # One rotation after the other: no row waits for another one, which takes a third of the time of
    # going row by row.
    for j in range(place, m - 1):
        one, other = L[j, j], L[j, j + 1]
        size = math.hypot(one, other)
        cosine, sine = one / size, other / size
        for i in range(j, m - 1):
            row = L[i]
            left, right = row[j], row[j + 1]
            row[j] = cosine * left + sine * right
            row[j + 1] = cosine * right - sine * left


# Added to the diagonal of systems, relative to its largest entry: they are solved where
# observations depend on each other, and the next step takes its error away.
RIDGE = 1e-11


@compiled(inner=True)
def append(L, entries, members, m, i, constant, ridge):
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
def _take_out(L, members, slots, m, place):
    free = slots[place]
    for i in range(place, m - 1):
        members[i], slots[i] = members[i + 1], slots[i + 1]
    slots[m - 1] = free
    remove(L, m, place)


@compiled(inner=True)
def maximised(rows, L, members, slots, m, y, c, alpha, g, balanced, tol, direction, ones):
    """Go to the maximiser of the members, without those at a bound; return their number and b."""
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
        if error <= tol or refined == 5:
            break
        refined += 1
    return m, b


@compiled(inner=True)
def subtract_rows(g, factors, rows, slots, m):
    """Subtract the first m multiples of rows of K, four per pass over g."""
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
def add_scaled(target, factor, source):
    for k in range(target.size):
        target[k] += factor * source[k]


@compiled(inner=True)
def violators(y, c, alpha, g):
    """Return the largest g of those that can grow, the smallest that can shrink, and places."""
    top, bottom, up, down = -math.inf, math.inf, -1, -1
    for i in range(g.size):
        if ((alpha[i] < c[i]) if y[i] > 0.0 else (alpha[i] > 0.0)) and g[i] > top:
            top, up = g[i], i
        if ((alpha[i] > 0.0) if y[i] > 0.0 else (alpha[i] < c[i])) and g[i] < bottom:
            bottom, down = g[i], i
    return top, up, bottom, down
