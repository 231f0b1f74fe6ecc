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


@compiled(inner=True, nogil=True)
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
        value = norm / (kept * kept) + (price * lost if math.isinf(budget) else 0.0)
        if lost <= budget and value < best:
            best = value
            for c in range(r):
                found[c] = w[c] / kept
    return best


@compiled(inner=True, nogil=True)
def _exchange(states, reaches, starts, boxes, prices, bounds, undecided, names, one, other):
    """Exchange two entries of the stack; an assignment of rows takes a second to compile."""
    for i in range(states.shape[1]):
        states[one, i], states[other, i] = states[other, i], states[one, i]
        reaches[one, i], reaches[other, i] = reaches[other, i], reaches[one, i]
    for c in range(starts.shape[1]):
        starts[one, c], starts[other, c] = starts[other, c], starts[one, c]
    for end in range(2):
        boxes[one, end], boxes[other, end] = boxes[other, end], boxes[one, end]
    prices[one], prices[other] = prices[other], prices[one]
    bounds[one], bounds[other] = bounds[other], bounds[one]
    undecided[one], undecided[other] = undecided[other], undecided[one]
    names[one], names[other] = names[other], names[one]


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
    # Leaves are moved below the open nodes. Not a constant: numba would compile the exchange for that as well.
    leaves = np.int64(0)
    while left > leaves and made < 2 * expansions and not stop[0]:
        # The children take the place of the node, and the one above.
        left -= 1
        on, bound, name, now = undecided[left], bounds[left], names[left], prices[left]
        for i in range(n):
            states[left + 1, i] = states[left, i]
            reaches[left + 1, i] = reaches[left, i]
        for c in range(r):
            starts[left + 1, c] = starts[left, c]
        for end in range(2):
            boxes[left + 1, end] = boxes[left, end]
        for child in range(2):
            place = left + child
            states[place, on] = KEPT + child
            parents[made] = name
            decisions[made] = on + 1 if child == 0 else -on - 1
            names[place] = made
            below, undecided[place], prices[place], used[made] = relax(
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
                states[place],
                reaches[place],
                starts[place],
                boxes[place],
                a,
                points[made],
                stop,
            )
            bounds[place] = max(bound, below)
            made += 1
            if bounds[place] < upper:
                best = _try(HT, weight, price, budget, cut, free, starts[place], a, best, found)
        # The more promising one comes last.
        base = left
        if not bounds[base] > bounds[base + 1]:
            _exchange(states, reaches, starts, boxes, prices, bounds, undecided, names, base, base + 1)
        for place in range(base, base + 2):
            if not bounds[place] < upper:
                continue
            if place > left:
                _exchange(states, reaches, starts, boxes, prices, bounds, undecided, names, place, left)
            if undecided[left] < 0:
                if left > leaves:
                    _exchange(states, reaches, starts, boxes, prices, bounds, undecided, names, left, leaves)
                leaves += 1
            left += 1
    return left, made, best
