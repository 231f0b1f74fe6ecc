r"""Sweep enumeration of the 0-1 problem, compiled.

With signed rows :math:`g_i` (r columns), margins :math:`u_i = g_i'w` and weights :math:`s_i`, the problem is to minimise

.. math:: \|w\|^2 + \lambda\,d(w) \quad\text{while } d(w) \le k, \qquad d(w) = \sum_i s_i\,1[u_i < 1].

**Vertices.** An optimum is the point of least norm that keeps some set. By its optimality conditions and Carathéodory's
theorem it is :math:`w = \sum_{i \in B}\alpha_i g_i` with linearly independent rows, :math:`\alpha > 0` and :math:`u_B = 1`: the
point :math:`w_B` of least norm on an affine subspace, one of :math:`\sum_{m \le r}\binom nm`. Let j be the last index of B.
As :math:`\alpha_j > 0`, :math:`u_j(w_{B \setminus j}) < 1`.

**Sweep.** For r − 1 rows the subspace is a line :math:`w_B + tv`, which each other hyperplane :math:`u_j = 1` crosses once. All
vertices on it are counted from the n crossings, so that :math:`\binom n{r-1}` lines stand for :math:`\binom nr` points. Only
crossings of later indices at which an observation becomes satisfied, away from t = 0, have to be looked at.

**Bounds.** All of a subspace that is better than the incumbent U lies in the ball of radius R around :math:`w_B`,
:math:`R^2 = U - \|w_B\|^2 - \lambda F`, where F is the weight of the observations whose margins are below 1 in all of the ball. A
smaller ball has a larger F, and so on; F > k or R² < 0 ends the search below B. Observations that are satisfied in
all of the ball, or in none of it, need not be looked at again below B.

**Ties.** A margin counts as satisfied if it is short of 1 by no more than a tolerance. The values compared are then at
most the true ones, and what is proved with them is a lower bound; whether the best of them is attained is found out by
solving for the point of least norm that keeps its set.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

__all__ = ["children", "search_below"]

# Rows with a smaller part orthogonal to those of B, in units of the largest row, are taken for linearly dependent.
DEPENDENT = 1e-11
# Rounds in which the ball is shrunk.
SHRINKINGS = 4


@njit(cache=True)
def _objective_value(norm, dropped, lam, k):
    return norm + lam * dropped if dropped <= k else math.inf


@njit(cache=True)
def _confine(count, index, a, P, m, norm, forced, weight, lam, k, upper, tie):
    """Shrink the ball; keep in `index` the observations that its points may tell apart.

    Returns their number, the weight dropped in all of the ball, and R² (negative: there is no better point).
    """
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
            length = radius * math.sqrt(length)
            if a[i] + length < 1.0 - tie:
                forced += weight[i]
            elif a[i] - length < 1.0 + tie:
                index[left] = i
                left += 1
        count = left
        if forced == before:
            break
    return count, forced, square


@njit(cache=True)
def _descend(j, count, index, a, P, m, below_index, below_a, below_P):
    """Go to the subspace u_j = 1 of the present one: a reflection turns p_j into the first axis, which is then left out.

    Returns the number of observations left and the step length.
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


@njit(cache=True)
def _side(sign, last, count, index, a, P, norm, forced, dropped, weight, lam, k, square, upper, tie):
    """Best vertex on one half of a line; returns its value and its index."""
    # The weight that can be regained on the way to R, and how far that lets R shrink.
    radius = math.sqrt(square)
    while True:
        regained, eligible, nearest = 0.0, 0, math.inf
        for position in range(count):
            i = index[position]
            c = sign * P[i, 0]
            if a[i] < 1.0 - tie and c > 0.0 and a[i] + c * radius >= 1.0 - tie:
                regained += weight[i]
                if i > last:
                    eligible += 1
                    nearest = min(nearest, (1.0 - a[i]) / c)
        least = max(dropped - regained, 0.0)
        if eligible == 0 or norm + nearest * nearest + lam * least >= upper or least > k:
            return math.inf, -1
        now = math.sqrt(max(upper - norm - lam * least, 0.0))
        if now >= radius * 0.98:
            break
        radius = now
    best, at = math.inf, -1
    for position in range(count):
        j = index[position]
        c = sign * P[j, 0]
        if j <= last or a[j] >= 1.0 - tie or c <= DEPENDENT or a[j] + c * radius < 1.0 - tie:
            continue
        t = (1.0 - a[j]) / c
        if norm + t * t + lam * least >= min(upper, best):
            continue
        short = 0.0
        for other in range(count):
            i = index[other]
            if a[i] + sign * t * P[i, 0] < 1.0 - tie:
                short += weight[i]
        value = _objective_value(norm + t * t, forced + short, lam, k)
        if value < best:
            best, at = value, j
    return best, at


@njit(cache=True)
def _search_one(H, weight, lam, k, upper, tie, prefix, size, budget, basis):
    """Search below one prefix. Returns best value, size of its basis (in `basis`), nodes, whether it was finished."""
    n, r = H.shape
    P = np.empty((r, n, r))
    a = np.empty((r, n))
    index = np.empty((r, n), dtype=np.int64)
    count = np.zeros(r, dtype=np.int64)
    cursor = np.zeros(r, dtype=np.int64)
    chosen = np.full(r, -1, dtype=np.int64)
    norm, forced = np.zeros(r), np.zeros(r)
    P[0] = H
    a[0] = 0.0
    index[0] = np.arange(n)
    count[0] = n
    best, best_size, nodes = math.inf, 0, 0
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
                weight,
                lam,
                k,
                upper,
                tie,
            )
            count[depth] = left
            if square < 0.0:
                depth -= 1
                continue
            if depth >= size:
                dropped = forced[depth]
                for position in range(left):
                    i = index[depth, position]
                    if a[depth, i] < 1.0 - tie:
                        dropped += weight[i]
                value = _objective_value(norm[depth], dropped, lam, k)
                if value < upper:
                    upper = best = value
                    best_size = depth
                    basis[:depth] = chosen[:depth]
                if m == 1:
                    last = chosen[depth - 1] if depth > 0 else -1
                    for sign in (1.0, -1.0):
                        value, at = _side(
                            sign,
                            last,
                            left,
                            index[depth],
                            a[depth],
                            P[depth],
                            norm[depth],
                            forced[depth],
                            dropped,
                            weight,
                            lam,
                            k,
                            square,
                            upper,
                            tie,
                        )
                        if value < upper:
                            upper = best = value
                            best_size = depth + 1
                            basis[:depth] = chosen[:depth]
                            basis[depth] = at
                    depth -= 1
                    continue
        if nodes > budget:
            return best, best_size, nodes, False
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
        length = 0.0
        for c in range(m):
            length += P[depth, found, c] ** 2
        if length <= DEPENDENT**2:
            continue
        step = (1.0 - a[depth, found]) / math.sqrt(length)
        if norm[depth] + step * step + lam * forced[depth] >= upper:
            continue
        chosen[depth] = found
        below = depth + 1
        count[below], step = _descend(
            found, count[depth], index[depth], a[depth], P[depth], m, index[below], a[below], P[below]
        )
        norm[below] = norm[depth] + step * step
        forced[below] = forced[depth]
        depth = below
        fresh = True
    return best, best_size, nodes, True


@njit(cache=True, nogil=True)
def search_below(H, weight, lam, k, upper, tie, prefixes, sizes, budget, first, stride, values, bases, nodes, finished):
    """Search below every `stride`-th of several prefixes, each from the same incumbent.

    Parameters
    ----------
    H : ndarray of shape (n, r)
        Signed rows.
    weight : ndarray of shape (n,)
    lam, k : float
        λ (0 in the cardinality form) and the weight that may be dropped (infinite in the other).
    upper : float
        Value of the incumbent: only better points are looked for.
    tie : float
        Tolerance of margins.
    prefixes : ndarray of int, shape (tasks, r)
    sizes : ndarray of int, shape (tasks,)
        How many entries of a prefix count.
    budget : int
        Subspaces to visit below a prefix, at most.
    first, stride : int
        The share of the prefixes.
    values : ndarray of shape (tasks,)
        Output: the best found, ``inf`` if nothing was.
    bases : ndarray of int, shape (tasks, r)
        Output: its rows; entries for fewer than r are left alone.
    nodes : ndarray of int, shape (tasks,)
        Output: subspaces visited.
    finished : ndarray of bool, shape (tasks,)
        Output: whether the budget was enough.
    """
    for task in range(first, sizes.size, stride):
        basis = np.empty(H.shape[1], dtype=np.int64)
        values[task], held, nodes[task], finished[task] = _search_one(
            H, weight, lam, k, upper, tie, prefixes[task], sizes[task], budget, basis
        )
        bases[task, :held] = basis[:held]


@njit(cache=True)
def children(H, weight, lam, k, upper, tie, prefix, size):
    """Return the rows that may follow a prefix, and for each a lower bound on all that lies below."""
    n, r = H.shape
    P, a, index = H.copy(), np.zeros(n), np.arange(n)
    below_P, below_a, below_index = np.empty((n, r)), np.empty(n), np.empty(n, dtype=np.int64)
    count, norm, forced, m = n, 0.0, 0.0, r
    rows, bounds = np.empty(n, dtype=np.int64), np.empty(n)
    for depth in range(size):
        count, forced, square = _confine(count, index, a, P, m, norm, forced, weight, lam, k, upper, tie)
        if square < 0.0 or not (index[:count] == prefix[depth]).any():
            return rows[:0], bounds[:0]
        count, step = _descend(prefix[depth], count, index, a, P, m, below_index, below_a, below_P)
        norm += step * step
        m -= 1
        P[:, :m], a[:], index[:] = below_P[:, :m], below_a, below_index
    count, forced, square = _confine(count, index, a, P, m, norm, forced, weight, lam, k, upper, tie)
    if square < 0.0:
        return rows[:0], bounds[:0]
    found = 0
    for position in range(count):
        j = index[position]
        length = math.sqrt((P[j, :m] ** 2).sum())
        if length <= DEPENDENT or (size > 0 and j <= prefix[size - 1]):
            continue
        left, step = _descend(j, count, index, a, P, m, below_index, below_a, below_P)
        _, dropped, square = _confine(
            left, below_index, below_a, below_P, m - 1, norm + step * step, forced, weight, lam, k, upper, tie
        )
        if square >= 0.0:
            rows[found], bounds[found] = j, norm + step * step + lam * dropped
            found += 1
    return rows[:found], bounds[:found]
