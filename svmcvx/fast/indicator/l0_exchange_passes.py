r"""Local search over the set of satisfied observations by the active-set method, compiled.

The objective of a set T is :math:`\tfrac12\|w_T\|^2` of its hard-margin machine plus the prices of the others. A move drops a
support vector or takes an observation in; what it would change if nothing but the tight observations mattered is

.. math:: \frac{\alpha_k^2}{2\,(M^{-1})_{kk}} - \mathrm{price}_k \quad\text{and}\quad
    \mathrm{price}_j - \frac{(1-u_j)^2}{2\kappa_j},

with the bordered matrix M of the tight observations and the curvature κ_j along which j would become tight. Moves are tried in
the order of these estimates; a trial ends as soon as its dual value, a lower bound, shows that it does not improve.
"""

from __future__ import annotations

import math

import numpy as np

from svmcvx.fast.core.active_set_factor_passes import REORDERED, clear, forward, value
from svmcvx.fast.core.active_set_passes import (
    DEPENDENT,
    FULL,
    INSEPARABLE,
    MORE,
    OVER,
    SOLVED,
    add,
    drop,
    lower_multiplier,
    ray,
    solve,
    workspace,
)
from svmcvx.fast.core.compilation import compiled

__all__ = ["copy_state", "descend", "explore", "lost", "solve_or_evict"]

# Trials a move, at most.
TRIALS = 25
# An improvement is one by more than this share of the objective.
BETTER = 1e-10
# A margin this little below 1 is satisfied.
SATISFIED = 1e-11


@compiled()
def _copy(source, target):
    """Copy entry by entry: an assignment of arrays takes long to compile."""
    for i in range(target.size):
        target[i] = source[i]


@compiled()
def copy_state(s, to):
    """Copy what is in use."""
    m = s.tight[0]
    to.tight[0] = m
    _copy(s.inside, to.inside)
    _copy(s.v, to.v)
    _copy(s.u, to.u)
    _copy(s.number, to.number)
    for i in range(m):
        to.S[i] = s.S[i]
        for j in range(i + 1):
            to.L[i, j] = s.L[i, j]


@compiled()
def lost(kept, price):
    """Prices of the observations that are not kept."""
    total = 0.0
    for i in range(kept.size):
        if not kept[i]:
            total += price[i]
    return total


@compiled()
def absorb(s, kept):
    """Keep what is satisfied anyway."""
    for i in range(kept.size):
        if not kept[i] and s.u[i] >= 1.0 - SATISFIED:
            kept[i] = True


@compiled()
def _estimates(s, kept, price, gain, allowed):
    """What dropping (support vectors) or taking in (others) might improve; −∞ where there is no move."""
    m, rho = s.tight[0], s.number[1]
    for q in range(s.y.size):
        gain[q] = -math.inf
    ones, e, x = 0.0, np.empty(m), np.empty(m)
    for k in range(m):
        e[k] = 1.0
    forward(s.L, m, e)
    for k in range(m):
        ones += e[k] * e[k]
    for k in range(m):
        q = s.S[k]
        if allowed[q]:
            gain[q] = _worth(s, e, ones, k, x) - price[q]
    for q in range(s.y.size):
        if kept[q] or not allowed[q] or m == 0:
            continue
        for k in range(m):
            x[k] = s.K[q, s.S[k]] + rho
        forward(s.L, m, x)
        pivot, rest = s.K[q, q] + rho, 1.0
        for k in range(m):
            pivot -= x[k] * x[k]
            rest -= x[k] * e[k]
        if pivot > DEPENDENT * (abs(s.K[q, q]) + rho):
            gain[q] = price[q] - 0.5 * (1.0 - s.u[q]) ** 2 / (pivot + rest * rest / ones)


@compiled(fastmath=REORDERED)
def _worth(s, e, ones, k, x):
    """How much the norm would fall without the member at position k, if only the tight observations mattered."""
    m = s.tight[0]
    square, along = 0.0, 0.0
    for i in range(k, m):
        total = 1.0 if i == k else 0.0
        for j in range(k, i):
            total -= s.L[i, j] * x[j]
        x[i] = total / s.L[i, i]
        square += x[i] * x[i]
        along += x[i] * e[i]
    inverse = square - along * along / ones
    return 0.5 * s.v[s.S[k]] ** 2 / inverse if inverse > 0.0 else -math.inf


@compiled()
def _drop(s, q):
    for k in range(s.tight[0]):
        if s.S[k] == q:
            drop(s, k)
            return


@compiled()
def _evict(s, kept, price, q):
    """Drop the member that costs most; if q cannot be taken in, what has most weight in making that impossible."""
    m = s.tight[0]
    if q < 0:
        worst, most, e, x, ones = -1, -math.inf, np.empty(m), np.empty(m), 0.0
        for k in range(m):
            e[k] = 1.0
        forward(s.L, m, e)
        for k in range(m):
            ones += e[k] * e[k]
        for k in range(m):
            worth = _worth(s, e, ones, k, x) - price[s.S[k]]
            if worst < 0 or worth > most:
                worst, most = s.S[k], worth
        kept[worst] = False
        _drop(s, worst)
        return
    weight = ray(s, kept, q)
    if m == 0:
        kept[q] = False
        return
    worst = q
    for i in range(weight.size):
        if weight[i] * price[worst] > weight[worst] * price[i]:
            worst = i
    lower_multiplier(s, q, workspace(s))
    kept[worst] = False
    if worst != q:
        _drop(s, worst)


@compiled()
def solve_or_evict(s, kept, price, limit, most):
    """As :func:`settle`, but drop observations until T is separable and its dual value at most `limit`."""
    evictions = 0
    while True:
        code, q = solve(s, kept, limit, most)
        if code != INSEPARABLE and code != OVER:
            return code
        _evict(s, kept, price, q)
        evictions += 1
        if evictions > most:
            return MORE


@compiled()
def force(s, kept, q):
    """Move q to the other side, and make the state the machine of the new set; tell whether that was possible."""
    if kept[q]:
        kept[q] = False
        _drop(s, q)
    else:
        kept[q] = True
        if s.tight[0] > 0 and s.u[q] < 1.0:
            buffers = workspace(s)
            code = add(s, q, buffers)
            if code != SOLVED:
                kept[q] = False
                lower_multiplier(s, q, buffers)
                return False
    return solve(s, kept, math.inf, 50 * s.y.size)[0] == SOLVED


@compiled()
def descend(s, spare, kept, price, allowed, most):
    """Improve the set of a settled state by single moves until none is left, or `most` trials have been made.

    Returns
    -------
    float
        The objective.
    int
        Trials that were made.
    """
    n = s.y.size
    gain, before = np.empty(n), np.empty(n, dtype=np.bool_)
    absorb(s, kept)
    best = value(s) + lost(kept, price)
    trials = 0
    while trials < most:
        _estimates(s, kept, price, gain, allowed)
        copy_state(s, spare)
        _copy(kept, before)
        improved = False
        for _ in range(TRIALS):
            # The most promising move that has not been tried.
            q, promise = -1, 0.0
            for i in range(n):
                if gain[i] > promise:
                    q, promise = i, gain[i]
            if q < 0:
                break
            gain[q] = -math.inf
            trials += 1
            if kept[q]:
                kept[q] = False
                _drop(s, q)
            else:
                kept[q] = True
            limit = best * (1.0 - BETTER) - lost(kept, price)
            code, _ = solve(s, kept, limit, 50 * n)
            if code == SOLVED:
                absorb(s, kept)
                now = value(s) + lost(kept, price)
                if now < best * (1.0 - BETTER):
                    best, improved = now, True
                    break
            if code in (INSEPARABLE, FULL):
                clear(s)
            copy_state(spare, s)
            _copy(before, kept)
        if not improved:
            break
    return best, trials


@compiled()
def explore(s, spare, store, kept, price, best, picks, most):
    """Force one observation at a time to the other side, descend from there, and keep what is better.

    Parameters
    ----------
    s : State
        At a local minimum of value `best`.
    spare, store : State
        Room for copies.
    picks : ndarray
        Random numbers in [0, 1) that choose the observations, among those dropped and the support vectors.
    most : int
        Trials after each.

    Returns
    -------
    float
        The objective.
    """
    n = s.y.size
    allowed, before, choice = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.int64)
    for i in range(n):
        allowed[i] = True
    copy_state(s, store)
    _copy(kept, before)
    for pick in picks:
        size = 0
        for i in range(n):
            if not kept[i] or s.inside[i]:
                choice[size] = i
                size += 1
        if size == 0:
            break
        q = choice[int(pick * size)]
        now = math.inf
        if force(s, kept, q):
            allowed[q] = False
            descend(s, spare, kept, price, allowed, most)
            allowed[q] = True
            now, _ = descend(s, spare, kept, price, allowed, most)
        if now < best * (1.0 - BETTER):
            best = now
            copy_state(s, store)
            _copy(kept, before)
        else:
            copy_state(store, s)
            _copy(before, kept)
    return best
