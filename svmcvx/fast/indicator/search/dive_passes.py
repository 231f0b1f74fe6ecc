"""Depth-first search below a node of branch and bound, compiled."""

from __future__ import annotations

import math

import numpy as np

from svmcvx.fast.core.compilation import compiled
from svmcvx.fast.indicator.search.big_m_passes import relax
from svmcvx.fast.indicator.search.relaxation_passes import KEPT

__all__ = ["dive"]

# Margins at which a point of the relaxation is tried as the smallest that is kept.
TRIED = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5)


@compiled(nogil=True)
def _try(HT, weight, price, budget, cut, free, w, a, best, found):
    """Note in `found` the best multiple of a point that beats `best`; return its value."""
    r, n = HT.shape
    norm = 0.0
    for c in range(r - 1 if free else r):
        norm += w[c] * w[c]
    for kept in TRIED:
        lost = 0.0
        for i in range(n):
            short = 1.0 - (1.0 - a[i]) / kept
            if cut > 0.0:
                lost += weight[i] * min(max(short, 0.0) / cut, 1.0)
            elif short > 1e-9:
                lost += weight[i]
        value = norm / kept**2 + (price * lost if math.isinf(budget) else 0.0)
        if lost <= budget and value < best:
            best = value
            for c in range(r):
                found[c] = w[c] / kept
    return best


@compiled(nogil=True)
def _copy(source, k, target, j, size):
    """Copy the first entries of row k of one array to row j of another; an assignment of rows takes a second to compile."""
    for i in range(size):
        target[j, i] = source[k, i]


@compiled(nogil=True)
def dive(
    HT, length, weight, price, budget, cut, rho, free, rounds, upper, states, reaches, starts, boxes, prices, bounds,
    undecided, names, expansions, parents, decisions, points, used, found, stop,
):  # fmt: skip
    """Search below a node, depth first, the more promising child first.

    The arrays `states` to `names` hold a stack, whose first entry is the node, and have room for `expansions` + 1 of them.

    Parameters
    ----------
    HT, length, weight, price, budget, cut, rho, free, rounds, upper
        As for :func:`relax`; `price` is λ.
    states, reaches, starts, boxes : ndarray
        Of shapes (…, n), (…, n), (…, r), (…, 2): M is in `reaches`.
    prices, bounds : ndarray of shape (…,)
    undecided, names : ndarray of int, shape (…,)
        What to branch on, and the numbers of the nodes: −1 is the first, others count from 0.
    expansions : int
        Nodes whose children are bounded, at most.
    parents, decisions, used : ndarray of int, shape (2 * expansions,)
        Output: for each child the number of its parent, what was decided (i + 1 kept, −i − 1 dropped) and its rounds.
    points : ndarray of shape (2 * expansions, rounds, r + 3)
        Output: their minimisers, as for :func:`relax`.
    found : ndarray of shape (r,)
        Output: the best point seen.
    stop : ndarray of int, shape (1,)
        Not 0 once the search should end.

    Returns
    -------
    left : int
        Entries of the stack that are left; those with nothing to branch on are leaves.
    made : int
        Children bounded.
    value : float
        Of the point in `found`; not less than `upper` if there is none.
    """
    r, n = HT.shape
    left, made, best = 1, 0, upper
    a = np.empty(n)
    child_state, child_reach = np.empty((2, n), np.int8), np.empty((2, n))
    child_w, child_box = np.empty((2, r)), np.empty((2, 2))
    child_bound, child_price = np.empty(2), np.empty(2)
    child_next, child_name = np.empty(2, np.int64), np.empty(2, np.int64)
    # Leaves are moved below the open nodes.
    leaves = 0
    while left > leaves and made < 2 * expansions and not stop[0]:
        left -= 1
        on, bound, name, now = undecided[left], bounds[left], names[left], prices[left]
        for child in range(2):
            _copy(states, left, child_state, child, n)
            _copy(reaches, left, child_reach, child, n)
            _copy(starts, left, child_w, child, r)
            _copy(boxes, left, child_box, child, 2)
        for child in range(2):
            fixed = KEPT + child
            child_state[child, on] = fixed
            parents[made], decisions[made] = name, (on + 1 if child == 0 else -on - 1)
            child_name[child] = made
            below, child_next[child], child_price[child], used[made] = relax(
                HT,
                length,
                weight,
                now,
                budget,
                cut,
                rho,
                free,
                rounds,
                upper,
                child_state[child],
                child_reach[child],
                child_w[child],
                child_box[child],
                a,
                points[made],
                stop,
            )
            child_bound[child] = max(bound, below)
            made += 1
            if child_bound[child] < upper:
                best = _try(HT, weight, price, budget, cut, free, child_w[child], a, best, found)
        first = 0 if child_bound[0] > child_bound[1] else 1
        for child in (first, 1 - first):
            if not child_bound[child] < upper:
                continue
            place = left
            if child_next[child] < 0:
                # Exchange with the lowest open node.
                place = leaves
                if left > leaves:
                    _copy(states, leaves, states, left, n)
                    _copy(reaches, leaves, reaches, left, n)
                    _copy(starts, leaves, starts, left, r)
                    _copy(boxes, leaves, boxes, left, 2)
                    prices[left], bounds[left] = prices[leaves], bounds[leaves]
                    undecided[left], names[left] = undecided[leaves], names[leaves]
                leaves += 1
            _copy(child_state, child, states, place, n)
            _copy(child_reach, child, reaches, place, n)
            _copy(child_w, child, starts, place, r)
            _copy(child_box, child, boxes, place, 2)
            prices[place], bounds[place] = child_price[child], child_bound[child]
            undecided[place], names[place] = child_next[child], child_name[child]
            left += 1
    return left, made, best
