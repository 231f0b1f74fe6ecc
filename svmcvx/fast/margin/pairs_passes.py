r"""Compiled pSMO for many small problems that share the rows of a kernel matrix.

The steps are those of :mod:`svmcvx.fast.margin.smo_passes`, with its c, r, ξ and g: the first of a
pair violates optimality most, the second has the largest predicted increase. With the best known
bias b and :math:`z_i = \xi_i + y_i(g_i - b)` the gap of a point is the sum of terms that are not
negative,

.. math:: P - D = \sum_i \tfrac{c_i}p (z_i)_+^p + \tfrac{p-1}p \alpha_i\xi_i - \alpha_iz_i.

For p = 2 the dual is that of a machine without upper bounds whose kernel matrix has the additional
diagonal :math:`1/c_i`, so that the active-set method takes it as well as p = 1.

Where it is small enough, the multipliers are put on a grid that balances the classes exactly, their
scores are computed anew from the rows, and the gap is compared again. Nothing depends on other
problems, on the order in which they are solved, or on where a call is interrupted: each has its
numbers in `state`.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.fast.core.active_set_passes import RIDGE, add_scaled, append, maximised, violators
from svmcvx.fast.margin.smo_passes import FLAT, curvature, pair_step, slack_of
from svmcvx.kernels.class_rows_passes import piece_of
from svmcvx.system.compilation import compiled

Places: TypeAlias = NDArray[np.int64]

# How a problem stands: unfinished, solved, without room for another row, without further progress,
# waiting for the active-set method.
ACTIVE, DONE, FULL, STUCK, WAITING = range(5)
# Columns of the state: steps, violation at the last comparison, step of the next one, exact
# evaluations, step of the next active-set method, whether the last one has ended; their number.
STEPS, COMPARED, NEXT, EXACT, EQUATIONS, SETTLED, STATE = range(7)
# Share of the tolerance at which the updated scores are replaced by exact ones.
TRUST = 0.8
# Observations and tolerances up to which a problem is solved to a violation that is nearly
# rounding.
FEW, FEW_TOL, ROUNDED = 64, 1e-5, 1e-11
# Passes over a problem's numbers that a pair step costs: the active set is given up where it costs
# more than the steps did.
PASSES = 5.0
# Share of a violation that a step may leave: the roots of general exponents take half of the time.
LEFT = 1e-3
# The ends of integers; what makes a search for the largest one for the smallest.
HIGHEST, LOWEST = 0x7FFFFFFFFFFFFFFF, -0x8000000000000000
LARGEST, LEAST = 0, -1
# Least squared distance of two observations, besides the share FLAT of the largest squared norm.
SMALLEST = 1e-250


class Problems(NamedTuple):
    """Groups, places, labels, costs C s p, upper bounds, p, r = 1/(p − 1) or 0, K's diagonal."""

    groups: Places
    offsets: Places
    y: Floats
    c: Floats
    bounds: Floats
    p: float
    r: float
    norms: Floats


class Answers(NamedTuple):
    """Multipliers, g, and how each problem stands."""

    alpha: Floats
    g: Floats
    status: Places
    state: Floats


@compiled(inner=True)
def first_place(values, extreme):
    """Return where the largest or the smallest number is first; -1 where there is none."""
    bits = values.view(np.int64)
    # The block with the largest number is searched for a second time.
    best, block, size = LOWEST, 0, 64
    start = 0
    while start < bits.size:
        part = bits[start : start + size]
        most = LOWEST
        for k in range(part.size):
            key = part[k] ^ ((part[k] >> 63) & HIGHEST) ^ extreme
            most = key if key > most else most
        if most > best:
            best, block = most, start
        start += size
    for k in range(block, min(block + size, bits.size)):
        if bits[k] ^ ((bits[k] >> 63) & HIGHEST) ^ extreme == best:
            return k
    return -1


@compiled(inner=True, error_model="numpy")
def promises(top, norm, flat, diagonal, row, low, out):
    """Write twice the increase of a step with each second observation, negative where none."""
    for k in range(out.size):
        difference = top - low[k]
        curvature = norm + diagonal[k] - 2.0 * row[k]
        curvature = curvature if curvature > flat else flat
        out[k] = difference * abs(difference) / curvature


@compiled(inner=True)
def updated(t, row, other, g, up, down, high, low):
    """Subtract the change of the scores, and renew what the search for violators reads."""
    for k in range(g.size):
        g[k] -= t * (row[k] - other[k])
        high[k] = g[k] + up[k]
        low[k] = g[k] + down[k]


@compiled(inner=True)
def renew(own, bounds, labels, g, up, down, high, low, c, r, plain, xi, norms):
    """Write the scores of those that can be raised, or lowered, for the search of violators, the
    slacks, and K's diagonal with the curvature of the losses.
    """
    for k in range(g.size):
        xi[k] = slack_of(own[k], c[k], r)
        norms[k] = plain[k] + curvature(own[k], xi[k], c[k], r)
        grows, shrinks = own[k] < bounds[k], own[k] > 0.0
        raised, lowered = (grows, shrinks) if labels[k] > 0.0 else (shrinks, grows)
        up[k] = 0.0 if raised else -math.inf
        down[k] = 0.0 if lowered else math.inf
        high[k] = g[k] + up[k]
        low[k] = g[k] + down[k]


@compiled(inner=True)
def power_of(z, p):
    """Return (z)₊^{p−1}."""
    if z <= 0.0:
        return 0.0
    if p == 1.0:
        return 1.0
    return z if p == 2.0 else math.sqrt(z) if p == 1.5 else z ** (p - 1.0)


@compiled(inner=True)
def gap_of(p, g, y, c, xi, alpha, low, high, bisections):
    """Return P - D with a nearly best bias between two, and D."""
    for _ in range(bisections):
        b, slope = 0.5 * (low + high), 0.0
        for k in range(g.size):
            slope += y[k] * (alpha[k] - c[k] * power_of(xi[k] + y[k] * (g[k] - b), p))
        if slope > 0.0:
            high = b
        else:
            low = b
    b, gap, dual = 0.5 * (low + high), 0.0, 0.0
    for k in range(g.size):
        z, lost = xi[k] + y[k] * (g[k] - b), alpha[k] * xi[k] / p
        gap += c[k] / p * z * power_of(z, p) + (p - 1.0) * lost - alpha[k] * z
        dual += alpha[k] + alpha[k] * y[k] * g[k] + (2.0 - p) * lost
    return gap, 0.5 * dual


@compiled(inner=True)
def balance(alpha, y):
    """Change multipliers slightly so that both classes have exactly the same sum."""
    positive, negative, one, other = 0.0, 0.0, 0.0, 0.0
    for k in range(alpha.size):
        if y[k] > 0.0:
            positive += alpha[k]
            one = max(one, alpha[k])
        else:
            negative += alpha[k]
            other = max(other, alpha[k])
    scale, larger = 1.0, 1.0
    if positive > negative:
        scale = negative / positive
        one *= scale
    elif negative > positive:
        scale, larger = positive / negative, -1.0
        other *= scale
    most = max(one, other)
    if most < 2.0**-500:
        alpha[:] = 0.0
        return
    # The grid has 50 bits for the largest multiplier, and 62 for the sum.
    bits, size = 62, alpha.size
    while size > 0:
        bits -= 1
        size >>= 1
    unit = math.ldexp(1.0, math.frexp(most)[1] - min(50, bits))
    inverse = 1.0 / unit
    left: Any = 0
    for k in range(alpha.size):
        whole = math.floor((alpha[k] * scale if y[k] == larger else alpha[k]) * inverse)
        alpha[k] = whole
        left += np.int64(whole) if y[k] > 0.0 else -np.int64(whole)
    sign = 1.0 if left > 0 else -1.0
    left = abs(left)
    while left > 0:
        best, place = 0.0, 0
        for k in range(alpha.size):
            if y[k] == sign and alpha[k] > best:
                best, place = alpha[k], k
        taken: Any = min(left, np.int64(best))
        alpha[place] -= taken
        left -= taken
    for k in range(alpha.size):
        alpha[k] *= unit


@compiled(inner=True)
def pieces(k, q, one, other, K):
    """Return whether there is room for the row of a problem's k-th observation, and its two parts,
    of which the second is empty where all observations are of one group.
    """
    m = K.starts[one + 1] - K.starts[one]
    row = K.starts[one] + k if k < m else K.starts[other] + k - m
    first, second = piece_of(row, one, K), 0
    if other >= 0:
        second = piece_of(row, other, K)
    room = first >= 0 and second >= 0
    return room, K.store[first : first + m], K.store[second : second + q - m]


@compiled(inner=True)
def write_row(k, more, one, other, out, K):
    """Write the row of a problem's k-th observation, with more on the diagonal; return False
    without room for it.
    """
    room, first, second = pieces(k, out.size, one, other, K)
    if not room:
        return False
    # By entries: an assignment of slices compiles numpy's messages of errors, too.
    m = first.size
    for j in range(m):
        out[j] = first[j]
    for j in range(second.size):
        out[m + j] = second[j]
    out[k] += more
    return True


@compiled(inner=True)
def outside(y, c, alpha, g, b, error):
    """Return how many multipliers violate optimality at a bias."""
    count = 0
    for k in range(g.size):
        slack = y[k] * (g[k] - b)
        count += (alpha[k] < c[k] and slack > error) or (alpha[k] > 0.0 and slack < -error)
    return count


@compiled(inner=True, allocates=True)
def solve_by_active_set(part, problem, answer, tol, K):
    """Solve by the active-set method; return whether that succeeds."""
    start, end = problem.offsets[part], problem.offsets[part + 1]
    one, other = problem.groups[part, 0], problem.groups[part, 1]
    y, c, alpha = problem.y[start:end], problem.bounds[start:end], answer.alpha[start:end]
    g, costs = answer.g[start:end], problem.c[start:end]
    q, free, largest = end - start, 0, 0.0
    diagonal, xi = np.empty(q), np.empty(q)
    for k in range(q):
        diagonal[k] = problem.r / costs[k]
        largest = max(largest, problem.norms[start + k] + diagonal[k])
        free += 0.0 < alpha[k] < c[k]
    if q <= FEW and tol <= FEW_TOL:
        tol = 0.0
    tol *= TRUST
    # As many rows may enter as there are members, and some more.
    most = 30 + free
    room = min(q, free + most + 2)
    own, L = np.empty((room, q)), np.empty((room, room))
    direction, ones = np.empty(room), np.empty(room)
    members, slots = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
    for k in range(room):
        slots[k] = k
    ridge = RIDGE * largest
    m, left = 0, 4.0 * PASSES * answer.state[part, STEPS]
    for k in range(q):
        if 0.0 < alpha[k] < c[k]:
            if not write_row(k, diagonal[k], one, other, own[slots[m]], K):
                return False
            append(L, own[slots[m]], members, m, k, largest, ridge)
            m += 1
    for entered in range(most):
        # An error of the members' scores makes the relative gap larger by at most twice itself, as
        # Σα is at most twice the optimum.
        error = max(0.5 * ROUNDED, 0.05 * tol)
        m, b = maximised(own, L, members, slots, m, y, c, alpha, g, True, error, direction, ones)
        top, up, bottom, down = violators(y, c, alpha, g)
        if m == 0 or max(top - b, b - bottom) <= ROUNDED:
            return m > 0
        if tol > 0.0:
            for k in range(q):
                xi[k] = diagonal[k] * alpha[k]
            gap, dual = gap_of(problem.p, g, y, costs, xi, alpha, b, b, 0)
            if gap <= tol * (dual + gap):
                return True
        # Each violator is expected to enter, and passes over the rows of all members.
        left -= m if entered else m * outside(y, c, alpha, g, b, error)
        if left < 0.0:
            return False
        enters = up if top - b >= b - bottom else down
        for k in range(m):
            if members[k] == enters:
                return False
        if m == room or not write_row(enters, diagonal[enters], one, other, own[slots[m]], K):
            return False
        append(L, own[slots[m]], members, m, enters, largest, ridge)
        m += 1
    return False


@compiled(inner=True)
def drive(first, problem, most, answer, work, tol, spent, budget, K):
    """Take pair steps to the budget or a waiting problem; return the first open one, and costs."""
    for part in range(first, most.size):
        if answer.status[part] != ACTIVE:
            continue
        start, end = problem.offsets[part], problem.offsets[part + 1]
        one, other = problem.groups[part, 0], problem.groups[part, 1]
        q, m = end - start, K.starts[one + 1] - K.starts[one]
        own, gradient, labels = answer.alpha[start:end], answer.g[start:end], problem.y[start:end]
        bounds, c, p, r = problem.bounds[start:end], problem.c[start:end], problem.p, problem.r
        up, down, high, low = work[0, :q], work[1, :q], work[2, :q], work[3, :q]
        promise, norms, xi = work[4, :q], work[5, :q], work[6, :q]
        plain, state = problem.norms[start:end], answer.state[part]
        # Equations of the active set are linear.
        linear = r in (0.0, 1.0)
        flat = SMALLEST
        for k in range(q):
            flat = max(flat, FLAT * plain[k])
        renew(own, bounds, labels, gradient, up, down, high, low, c, r, plain, xi, norms)
        while answer.status[part] == ACTIVE:
            i = first_place(high, LARGEST)
            top, bottom = high[i], low[first_place(low, LEAST)]
            violation = top - bottom
            steps = state[STEPS]
            if (
                state[SETTLED] > 0.0
                or violation <= 0.5 * state[COMPARED]
                or steps >= min(state[NEXT], most[part])
                or not violation > 0.0
            ):
                state[COMPARED], state[NEXT] = violation, steps + q
                # All biases at which no step is possible lie between the two; another one is as
                # valid. During the steps it is known up to their violation of optimality.
                times = 10 if linear else 2
                gap, dual = gap_of(p, gradient, labels, c, xi, own, bottom, top, times)
                ends = state[SETTLED] > 0.0 or gap <= TRUST * tol * (dual + gap)
                exactly = linear and q <= FEW and tol <= FEW_TOL
                if ends and exactly and not state[SETTLED] > 0.0:
                    ends = violation <= ROUNDED or steps >= 50.0 * q
                free = 0
                for k in range(q):
                    free += 0.0 < own[k] < bounds[k]
                due = steps >= max(state[EQUATIONS], free)
                cheap = free**3 <= 3.0 * PASSES * (q + 256.0) * steps
                if linear and not ends and 0 < free <= 800 and due and cheap:
                    # After a step for each member, and when the steps have doubled again, where a
                    # factor costs no more than the steps.
                    state[EQUATIONS] = 2.0 * steps
                    answer.status[part] = WAITING
                    return part, spent
                if ends or not violation > 0.0 or steps >= most[part]:
                    state[SETTLED] = 0.0
                    balance(own, labels)
                    for k in range(q):
                        gradient[k] = labels[k] * (1.0 - slack_of(own[k], c[k], r))
                    for k in range(q):
                        if own[k] == 0.0:
                            continue
                        if not write_row(k, 0.0, one, other, promise, K):
                            answer.status[part] = FULL
                            break
                        add_scaled(gradient, -labels[k] * own[k], promise)
                    spent += q * 100.0
                    state[EXACT] += 1.0
                    renew(
                        own, bounds, labels, gradient, up, down, high, low, c, r, plain, xi, norms
                    )
                    if answer.status[part] == FULL:
                        break
                    i = first_place(high, LARGEST)
                    top, bottom = high[i], low[first_place(low, LEAST)]
                    times = 50 if linear else 10
                    gap, dual = gap_of(p, gradient, labels, c, xi, own, bottom, top, times)
                    if gap <= 0.9 * tol * (dual + gap):
                        answer.status[part] = DONE
                        break
                    if not top > bottom or state[EXACT] >= 12.0 or steps >= most[part]:
                        answer.status[part] = STUCK
                        break
            if spent > budget:
                return part, spent
            held = K.used[0]
            room, row, row_other = pieces(i, q, one, other, K)
            if not room:
                answer.status[part] = FULL
                break
            promises(top, norms[i], flat, norms[:m], row, low[:m], promise[:m])
            promises(top, norms[i], flat, norms[m:], row_other, low[m:], promise[m:])
            j = first_place(promise, LARGEST)
            if not linear and (steps % 2.0 == 1.0 or not promise[j] > 0.0):
                # The model of the losses may be far off where multipliers are small.
                j = first_place(low, LEAST)
            elif not promise[j] > 0.0:
                answer.status[part] = STUCK
                break
            room, second, second_other = pieces(j, q, one, other, K)
            if not room:
                answer.status[part] = FULL
                break
            spent += (K.used[0] - held) * K.rows.shape[1] + 3.0 * q
            entry = row[j] if j < m else row_other[j - m]
            eta = plain[i] + plain[j] - 2.0 * entry
            eta = eta if eta > flat else flat
            room_i = bounds[i] - own[i] if labels[i] > 0.0 else own[i]
            room_j = own[j] if labels[j] > 0.0 else bounds[j] - own[j]
            t = pair_step(
                *(gradient[i] - gradient[j], eta, own[i], c[i], labels[i]),
                *(own[j], c[j], labels[j], r, min(room_i, room_j), LEFT),
            )
            # Ends of the domain are reached exactly, not up to rounding.
            end_i = bounds[i] if labels[i] > 0.0 else 0.0
            end_j = 0.0 if labels[j] > 0.0 else bounds[j]
            own[i] = end_i if t >= room_i else max(own[i] + labels[i] * t, 0.0)
            own[j] = end_j if t >= room_j else max(own[j] - labels[j] * t, 0.0)
            for k in (i, j):
                grows, shrinks = own[k] < bounds[k], own[k] > 0.0
                raised, lowered = (grows, shrinks) if labels[k] > 0.0 else (shrinks, grows)
                up[k] = 0.0 if raised else -math.inf
                down[k] = 0.0 if lowered else math.inf
                after = slack_of(own[k], c[k], r)
                gradient[k] -= labels[k] * (after - xi[k])
                xi[k], norms[k] = after, plain[k] + curvature(own[k], after, c[k], r)
            updated(t, row, second, gradient[:m], up[:m], down[:m], high[:m], low[:m])
            updated(t, row_other, second_other, gradient[m:], up[m:], down[m:], high[m:], low[m:])
            state[STEPS] += 1.0
    return most.size, spent


@compiled(nogil=True, allocates=True)
def ascend(first, problem, most, answer, work, tol, budget, K):
    """Solve from problem `first` to the budget; return the first open problem."""
    spent = 0.0
    while first < most.size and spent <= budget:
        first, spent = drive(first, problem, most, answer, work, tol, spent, budget, K)
        if first < most.size and answer.status[first] == WAITING:
            # The pair steps continue from what the active-set method leaves.
            solved = solve_by_active_set(first, problem, answer, tol, K)
            answer.state[first, SETTLED] = 1.0 if solved else 0.0
            answer.status[first] = ACTIVE
            spent += 10.0 * (problem.offsets[first + 1] - problem.offsets[first]) ** 2
    return first
