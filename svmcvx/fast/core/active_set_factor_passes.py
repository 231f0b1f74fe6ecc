r"""Compiled Cholesky factor of the active-set method, updated when the set of tight observations changes.

With :math:`y'\alpha = 0` a constant added to the kernel changes nothing. The Cholesky factor of :math:`K_{SS} + \rho` is kept,
by whose Schur complement the bordered system of (v, b) is solved. `s` is a :class:`~svmcvx.fast.core.active_set.State`.
"""

from __future__ import annotations

import math

import numpy as np

from svmcvx.fast.core.compilation import compiled

__all__ = [
    "REORDERED",
    "append",
    "backward",
    "clear",
    "direction",
    "evaluate",
    "extended",
    "forward",
    "polish",
    "remove",
    "value",
]

REFINEMENTS = 2
# Allows sums of products in any order, so that they are vectorised; NaN and infinity keep their meaning.
REORDERED = {"reassoc", "contract"}


@compiled()
def value(s):
    """Return the dual value ½Σα, which is ½‖w‖² while S is tight."""
    total = 0.0
    for k in range(s.tight[0]):
        total += abs(s.v[s.S[k]])
    return 0.5 * total


@compiled(fastmath=REORDERED)
def forward(L, m, x):
    """Solve L x = x in place."""
    for i in range(m):
        total = x[i]
        for j in range(i):
            total -= L[i, j] * x[j]
        x[i] = total / L[i, i]


@compiled()
def backward(L, m, x):
    """Solve L'x = x in place."""
    for i in range(m - 1, -1, -1):
        x[i] /= L[i, i]
        t = x[i]
        for j in range(i):
            x[j] -= t * L[i, j]


@compiled()
def direction(s, q, column, a, e):
    """Compute `column` = L⁻¹k_q, `a` = K̃⁻¹k_q and `e` = K̃⁻¹1 with K̃ = K_SS + ρ; return the pivot of q, 1 − 1'a and 1'e."""
    m, rho = s.tight[0], s.number[1]
    for k in range(m):
        column[k] = s.K[q, s.S[k]] + rho
        e[k] = 1.0
    forward(s.L, m, column)
    pivot = s.K[q, q] + rho
    for k in range(m):
        pivot -= column[k] * column[k]
        a[k] = column[k]
    backward(s.L, m, a)
    forward(s.L, m, e)
    backward(s.L, m, e)
    rest, ones = 1.0, 0.0
    for k in range(m):
        rest -= a[k]
        ones += e[k]
    return pivot, rest, ones


@compiled()
def append(s, q, column, pivot):
    """Append q to S, and its row to the factor."""
    m = s.tight[0]
    for k in range(m):
        s.L[m, k] = column[k]
    s.L[m, m] = math.sqrt(pivot)
    s.S[m] = q
    s.inside[q] = True
    s.tight[0] = m + 1


@compiled()
def remove(s, position, cosines, sines):
    """Remove the member at a position from S, and restore the factor by Givens rotations."""
    m = s.tight[0]
    s.inside[s.S[position]] = False
    for i in range(position, m - 1):
        s.S[i] = s.S[i + 1]
        for j in range(i + 2):
            s.L[i, j] = s.L[i + 1, j]
        for j in range(position, i):
            left, right = s.L[i, j], s.L[i, j + 1]
            s.L[i, j] = cosines[j] * left + sines[j] * right
            s.L[i, j + 1] = cosines[j] * right - sines[j] * left
        size = math.hypot(s.L[i, i], s.L[i, i + 1])
        cosines[i], sines[i] = s.L[i, i] / size, s.L[i, i + 1] / size
        s.L[i, i] = size
    s.tight[0] = m - 1


@compiled()
def clear(s):
    """Set all multipliers to 0 and S to the empty set."""
    for i in range(s.y.size):
        s.v[i] = s.u[i] = 0.0
        s.inside[i] = False
    s.tight[0] = 0
    s.number[0] = 0.0


@compiled()
def evaluate(s):
    """Compute the margins from the multipliers."""
    n = s.y.size
    for i in range(n):
        s.u[i] = s.number[0]
    for k in range(s.tight[0]):
        member = s.S[k]
        coefficient = s.v[member]
        for i in range(n):
            s.u[i] += coefficient * s.K[member, i]
    for i in range(n):
        s.u[i] *= s.y[i]


@compiled()
def polish(s):
    """Solve u = 1 on S by iterative refinement; return the position of the smallest multiplier, −1 if all are positive."""
    m = s.tight[0]
    x, e = np.empty(m), np.empty(m)
    for _ in range(REFINEMENTS):
        evaluate(s)
        balance, total, ones = 0.0, 0.0, 0.0
        for k in range(m):
            member = s.S[k]
            x[k] = s.y[member] * (1.0 - s.u[member])
            e[k] = 1.0
            balance += s.v[member]
        # The constant ρ of the factor acts on the imbalance Σv only, which this step removes.
        for k in range(m):
            x[k] -= s.number[1] * balance
        forward(s.L, m, x)
        backward(s.L, m, x)
        forward(s.L, m, e)
        backward(s.L, m, e)
        for k in range(m):
            total += x[k]
            ones += e[k]
        db = (total + balance) / ones
        for k in range(m):
            s.v[s.S[k]] += x[k] - db * e[k]
        s.number[0] += db
    evaluate(s)
    worst, position = 0.0, -1
    for k in range(m):
        alpha = s.y[s.S[k]] * s.v[s.S[k]]
        if alpha <= worst:
            worst, position = alpha, k
    return position


@compiled()
def extended(s, old):
    """Copy to the empty state `s` the tight set and multipliers of `old`, a state of the first of its observations."""
    m = old.tight[0]
    if m == 0:
        return
    s.number[:] = old.number
    s.tight[0] = m
    for k in range(m):
        member = old.S[k]
        s.S[k] = member
        s.inside[member] = True
        s.v[member] = old.v[member]
        for j in range(k + 1):
            s.L[k, j] = old.L[k, j]
    evaluate(s)
