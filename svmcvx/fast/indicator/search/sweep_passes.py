r"""Sweep enumeration of the 0-1 problem, compiled.

With signed rows :math:`g_i` (r columns), margins :math:`u_i = g_i'w` and weights :math:`s_i`, the
problem is to minimise

.. math:: \|w\|^2 + \lambda\,d(w) \quad\text{while } d(w) \le k, \qquad d(w) = \sum_i s_i\,1[u_i < 1].

**Vertices.** An optimum is the point of least norm that keeps some set. By its optimality
conditions and Carathéodory's theorem it is :math:`w = \sum_{i \in B}\alpha_i g_i` with linearly
independent rows, :math:`\alpha > 0` and :math:`u_B = 1`: the point :math:`w_B` of least norm on an
affine subspace, one of :math:`\sum_{m \le r}\binom nm`. Let j be the last index of B. As
:math:`\alpha_j > 0`, :math:`u_j(w_{B \setminus j}) < 1`.

**Sweep.** For r − 1 rows the subspace is a line :math:`w_B + tv`, which each other hyperplane
:math:`u_j = 1` crosses once. The crossings are sorted once, and what is dropped is counted along
them, so that :math:`\binom n{r-1}` lines stand for :math:`\binom nr` points. Only crossings of
later indices at which an observation becomes satisfied, away from t = 0, are vertices that no other
line has.

**Bounds.** All of a subspace that is better than the incumbent U lies in the ball of radius R
around :math:`w_B`, :math:`R^2 = U - \|w_B\|^2 - \lambda F`, where F is the weight of the
observations whose margins are below 1 in all of the ball. A smaller ball has a larger F, and so on;
F > k or R² < 0 ends the search below B. Observations that are satisfied in all of the ball, or in
none of it, need not be looked at again below B. On a line the weight that can be regained within
reach bounds it before anything is sorted.

**Rounding.** A subspace comes with bounds on the errors of its margins at :math:`w_B` and of the
changes of the margins along it. They grow by one over the part of a new row that is orthogonal to
the rows of B. Margins are taken at their upper ends throughout: the values compared are at most the
true ones, and what is proved with them is a lower bound. Whether the best of them is attained is
found out by solving for the point of least norm that keeps its set. Where the error of a subspace
would be too large to tell anything, and the hyperplane of the new row meets the ball, the value of
the subspace counts as lost, and the bound is lowered to it.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from svmcvx.system.compilation import compiled

__all__ = ["UNIT", "children", "search_one"]

UNIT = 2.0**-53
# Errors of margins from which on a subspace tells nothing.
BLURRED = 1e-2
# Rounds in which the ball is shrunk.
SHRINKINGS = 4


@compiled(inner=True)
def _length(P, i, m):
    total = 0.0
    for c in range(m):
        total += P[i, c] * P[i, c]
    return math.sqrt(total)


@compiled(inner=True)
def _objective_value(norm, dropped, lam, k):
    return norm + lam * dropped if dropped <= k else math.inf


@compiled(inner=True)
def _confine(count, index, a, P, m, norm, forced, blur, turn, weight, lam, k, upper):
    """Shrink the ball; keep in `index` the observations that its points may tell apart."""
    square = math.inf
    for _ in range(SHRINKINGS):
        if forced > k:
            return 0, forced, -1.0
        now = upper - norm - lam * forced
        if now <= 0.0:
            return 0, forced, -1.0
        if now >= square:
            break
        square = now
        radius = math.sqrt(square)
        left, before = 0, forced
        for position in range(count):
            i = index[position]
            length = 0.0
            for c in range(m):
                length += P[i, c] * P[i, c]
            length = radius * (math.sqrt(length) + turn) * (1.0 + 8 * UNIT) + blur
            if a[i] + length < 1.0 - 4 * UNIT:
                forced += weight[i]
            elif a[i] - length < 1.0 + 4 * UNIT:
                index[left] = i
                left += 1
        count = left
        if forced == before:
            break
    return count, forced, square


@compiled(inner=True)
def _errors(length, step, blur, turn, r):
    """Bounds on the errors of margins, changes and the step on the subspace below, from those of
    the present one.
    """
    own = 8 * (r + 4) * UNIT
    tilt = 2.0 * (turn + own) / length
    slip = (blur + abs(step) * (turn + own)) / length + own * abs(step)
    return (
        blur + slip + abs(step) * (turn + tilt + own) + own * (1.0 + abs(step)),
        turn + tilt + own,
        slip,
    )


@compiled(inner=True)
def _least_missed_value(length, margin, norm, forced, blur, turn, lam, upper, r):
    """Return a lower bound of the vertices on the hyperplane of a row that rounding hides: ``inf``
    if there are none.
    """
    base = norm + lam * forced
    if base >= upper:
        return math.inf, False
    distance = abs(1.0 - margin) - blur
    reach = (length + turn) * math.sqrt(upper - base) * (1.0 + 8 * UNIT)
    if distance > reach:
        return math.inf, False
    if length <= 0.0:
        return base, False
    step = (1.0 - margin) / length
    below, turned, _ = _errors(length, step, blur, turn, r)
    if below + turned * min(math.sqrt(upper - base), 1e300) <= BLURRED:
        return math.inf, True
    return base, False


@compiled(inner=True)
def _descend(j, count, index, a, P, m, below_index, below_a, below_P):
    """Go to the subspace u_j = 1 of the present one: a reflection turns p_j into the first axis,
    which is then left out.
    """
    length = 0.0
    for c in range(m):
        length += P[j, c] * P[j, c]
    length = math.sqrt(length)
    step = (1.0 - a[j]) / length
    sign = 1.0 if P[j, 0] >= 0.0 else -1.0
    # v = p_j + sign ‖p_j‖ e_1; the reflection maps p_j to −sign ‖p_j‖ e_1.
    head = P[j, 0] + sign * length
    scale = 2.0 / (head * head + length * length - P[j, 0] * P[j, 0])
    left = 0
    for position in range(count):
        i = index[position]
        if i == j:
            continue
        along = P[i, 0] * head
        inner = P[i, 0] * P[j, 0]
        for c in range(1, m):
            product = P[i, c] * P[j, c]
            along += product
            inner += product
        along *= scale
        for c in range(1, m):
            below_P[i, c - 1] = P[i, c] - along * P[j, c]
        below_a[i] = a[i] + step * inner / length
        below_index[left] = i
        left += 1
    return left, step


@compiled(inner=True)
def _sort(times, changes, rows, count):
    """Sort events by their times, by Shell's method."""
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, count):
            time, change, row = times[i], changes[i], rows[i]
            place = i
            while place >= gap and times[place - gap] > time:
                times[place], changes[place], rows[place] = (
                    times[place - gap],
                    changes[place - gap],
                    rows[place - gap],
                )
                place -= gap
            times[place], changes[place], rows[place] = time, change, row
        gap //= 3


@compiled(inner=True)
def _side(
    sign,
    last,
    count,
    index,
    a,
    P,
    norm,
    forced,
    blur,
    turn,
    dropped,
    slack,
    weight,
    lam,
    k,
    square,
    upper,
    times,
    changes,
    rows,
):
    """Best vertex on one half of a line: returns its value and its index."""
    # The weight that can be regained on the way to R, and how far that lets R shrink.
    radius = math.sqrt(square)
    while True:
        regained, nearest = 0.0, math.inf
        for position in range(count):
            i = index[position]
            high, change = a[i] + blur, sign * P[i, 0] + turn
            if high < 1.0 and change > 0.0 and high + change * radius >= 1.0 - 8 * UNIT:
                regained += weight[i]
                if i > last:
                    nearest = min(nearest, (1.0 - high) / change)
        least = max(dropped - regained - slack, 0.0)
        nearest *= 1.0 - 8 * UNIT
        if math.isinf(nearest) or norm + nearest * nearest + lam * least >= upper or least > k:
            return math.inf, -1
        now = math.sqrt(max(upper - norm - lam * least, 0.0))
        if now >= radius * 0.98:
            break
        radius = now
    # Not a constant: numba would compile the sort for that as well.
    events = np.int64(0)
    for position in range(count):
        i = index[position]
        high, change = a[i] + blur, sign * P[i, 0] + turn
        if high < 1.0 and change > 0.0:
            time, gain = (1.0 - high) / change * (1.0 - 8 * UNIT), -weight[i]
        elif high >= 1.0 and change < 0.0:
            # Later by a little: an observation that leaves where another enters is still there.
            time, gain = (1.0 - high) / change * (1.0 + 8 * UNIT) + 8 * UNIT, weight[i]
        else:
            continue
        if time <= radius:
            times[events], changes[events], rows[events] = time, gain, i
            events += 1
    _sort(times, changes, rows, events)
    best, at, short = math.inf, -1, dropped
    for event in range(events):
        short += changes[event]
        if changes[event] > 0.0 or rows[event] <= last:
            continue
        # Those that enter at the same place are counted with it.
        following = event + 1
        together = short
        while following < events and times[following] <= times[event] and changes[following] < 0.0:
            together += changes[following]
            following += 1
        value = _objective_value(
            norm + times[event] * times[event], max(together - slack, forced), lam, k
        )
        if value < best:
            best, at = value, rows[event]
    return best, at


@compiled(nogil=True)
def search_one(H, weight, lam, k, upper, prefix, size, budget, basis, room):
    """Search below a prefix."""
    n, r = H.shape
    P, a, index, count, cursor, chosen, norm, forced, blur, turn, times, changes, rows = room
    norm[0] = forced[0] = blur[0] = turn[0] = 0.0
    total = 0.0
    for i in range(n):
        total += weight[i]
        for c in range(r):
            P[0, i, c] = H[i, c]
        a[0, i] = 0.0
        index[0, i] = i
    count[0] = n
    slack = 8 * n * UNIT * total
    best, best_size, nodes, lost = math.inf, 0, 0, math.inf
    depth = 0
    fresh = True
    while depth >= 0:
        m = r - depth
        if fresh:
            nodes += 1
            fresh = False
            cursor[depth] = 0
            left, forced[depth], square = _confine(
                count[depth],
                index[depth],
                a[depth],
                P[depth],
                m,
                norm[depth],
                forced[depth],
                blur[depth],
                turn[depth],
                weight,
                lam,
                k,
                upper,
            )
            count[depth] = left
            if square < 0.0:
                depth -= 1
                continue
            if depth >= size:
                dropped = forced[depth]
                for position in range(left):
                    i = index[depth, position]
                    if a[depth, i] + blur[depth] < 1.0:
                        dropped += weight[i]
                last = chosen[depth - 1] if depth > 0 else -1
                # The subspace's own vertex, and those on the two halves of a line.
                for part in range(3 if m == 1 else 1):
                    if part == 0:
                        value, at = _objective_value(norm[depth], dropped, lam, k), -1
                    else:
                        value, at = _side(
                            3.0 - 2.0 * part,
                            last,
                            left,
                            index[depth],
                            a[depth],
                            P[depth],
                            norm[depth],
                            forced[depth],
                            blur[depth],
                            turn[depth],
                            dropped,
                            slack,
                            weight,
                            lam,
                            k,
                            square,
                            upper,
                            times,
                            changes,
                            rows,
                        )
                    if value < upper:
                        upper = best = value
                        for c in range(depth):
                            basis[c] = chosen[c]
                        best_size = depth
                        if at >= 0:
                            basis[depth] = at
                            best_size = depth + 1
                if m == 1:
                    depth -= 1
                    continue
        if nodes > budget:
            return best, best_size, nodes, False, lost
        # The next row to add: the prefix's own, or any later one.
        found = -1
        if depth < size:
            if cursor[depth] == 0:
                cursor[depth] = 1
                for position in range(count[depth]):
                    if index[depth, position] == prefix[depth]:
                        found = prefix[depth]
        else:
            last = chosen[depth - 1] if depth > 0 else -1
            while cursor[depth] < count[depth]:
                i = index[depth, cursor[depth]]
                cursor[depth] += 1
                if i > last:
                    found = i
                    break
        if found < 0:
            depth -= 1
            continue
        length = _length(P[depth], found, m)
        missed, fit = _least_missed_value(
            length,
            a[depth, found],
            norm[depth],
            forced[depth],
            blur[depth],
            turn[depth],
            lam,
            upper,
            r,
        )
        lost = min(lost, missed)
        if not fit:
            continue
        step = (1.0 - a[depth, found]) / length
        below = depth + 1
        blur[below], turn[below], slip = _errors(length, step, blur[depth], turn[depth], r)
        beyond = max(abs(step) - slip, 0.0)
        norm[below] = (norm[depth] + beyond * beyond) * (1.0 - 8 * UNIT)
        if norm[below] + lam * forced[depth] >= upper:
            continue
        chosen[depth] = found
        count[below], _ = _descend(
            found,
            count[depth],
            index[depth],
            a[depth],
            P[depth],
            m,
            index[below],
            a[below],
            P[below],
        )
        forced[below] = forced[depth]
        depth = below
        fresh = True
    return best, best_size, nodes, True, lost


@compiled()
def children(H, weight, lam, k, upper, prefix, size, room, bounds):
    """Write the rows that may follow a prefix, and for each a lower bound on all that lies below;
    return their number.
    """
    n, r = H.shape
    P, a, index = room[0][0], room[1][0], room[2][0]
    below_P, below_a, below_index = room[0][1], room[1][1], room[2][1]
    rows = room[12]
    for i in range(n):
        index[i], a[i] = i, 0.0
        for c in range(r):
            P[i, c] = H[i, c]
    norm, forced, blur, turn = 0.0, 0.0, 0.0, 0.0
    found, lost = 0, math.inf
    # Down to the prefix, and then one step to each of its children.
    count, m = n, r
    for depth in range(size + 1):
        count, forced, square = _confine(
            count, index, a, P, m, norm, forced, blur, turn, weight, lam, k, upper
        )
        if square < 0.0 or depth == size:
            break
        told_apart = False
        for position in range(count):
            told_apart = told_apart or index[position] == prefix[depth]
        if not told_apart:
            return 0, math.inf
        length = _length(P, prefix[depth], m)
        count, step = _descend(prefix[depth], count, index, a, P, m, below_index, below_a, below_P)
        blur, turn, slip = _errors(length, step, blur, turn, r)
        beyond = max(abs(step) - slip, 0.0)
        norm = (norm + beyond * beyond) * (1.0 - 8 * UNIT)
        m -= 1
        for position in range(count):
            i = below_index[position]
            index[position], a[i] = i, below_a[i]
            for c in range(m):
                P[i, c] = below_P[i, c]
    if square < 0.0:
        return 0, math.inf
    for position in range(count):
        j = index[position]
        if size > 0 and j <= prefix[size - 1]:
            continue
        length = _length(P, j, m)
        missed, fit = _least_missed_value(length, a[j], norm, forced, blur, turn, lam, upper, r)
        lost = min(lost, missed)
        if not fit:
            continue
        left, step = _descend(j, count, index, a, P, m, below_index, below_a, below_P)
        new_blur, new_turn, slip = _errors(length, step, blur, turn, r)
        beyond = max(abs(step) - slip, 0.0)
        value = (norm + beyond * beyond) * (1.0 - 8 * UNIT)
        _, dropped, square = _confine(
            left,
            below_index,
            below_a,
            below_P,
            m - 1,
            value,
            forced,
            new_blur,
            new_turn,
            weight,
            lam,
            k,
            upper,
        )
        if square >= 0.0:
            rows[found], bounds[found] = j, value + lam * dropped
            found += 1
    return found, lost
