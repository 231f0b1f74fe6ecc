r"""Compiled Cholesky factor of the active-set method, updated when the set of tight observations changes.

With :math:`y'\alpha = 0` a constant added to the kernel changes nothing. The Cholesky factor of :math:`K_{SS} + \rho` is stored; its Schur
complement solves the bordered system of (v, b). `s` is a :class:`~svmcvx.fast.core.active_set.State`.
"""

from __future__ import annotations

import math

from svmcvx.system.compilation import compiled

__all__ = ["direction", "polish", "remove"]

REFINEMENTS = 2
# Allows sums of products in any order, so that they are vectorised; NaN and infinity keep their meaning.
REORDERED = {"reassoc", "contract"}


@compiled(inner=True, fastmath=REORDERED)
def _forward(L, m, x, e):
    """Solve L x = x and L e = e in place."""
    for i in range(m):
        one, other = x[i], e[i]
        for j in range(i):
            one -= L[i, j] * x[j]
            other -= L[i, j] * e[j]
        x[i] = one / L[i, i]
        e[i] = other / L[i, i]


@compiled(inner=True)
def _backward(L, m, x, e):
    """Solve L'x = x and L'e = e in place."""
    for i in range(m - 1, -1, -1):
        x[i] /= L[i, i]
        e[i] /= L[i, i]
        one, other = x[i], e[i]
        for j in range(i):
            x[j] -= one * L[i, j]
            e[j] -= other * L[i, j]


@compiled(inner=True)
def direction(s, q, column, a, e):
    """Compute `column` = L⁻¹k_q, `a` = K̃⁻¹k_q and `e` = K̃⁻¹1 with K̃ = K_SS + ρ; return the pivot of q, 1 − 1'a and 1'e."""
    K, S, L, m, rho = s.K, s.S, s.L, s.tight[0], s.number[1]
    for k in range(m):
        column[k] = K[q, S[k]] + rho
        e[k] = 1.0
    _forward(L, m, column, e)
    pivot = K[q, q] + rho
    for k in range(m):
        pivot -= column[k] * column[k]
        a[k] = column[k]
    _backward(L, m, a, e)
    rest, ones = 1.0, 0.0
    for k in range(m):
        rest -= a[k]
        ones += e[k]
    return pivot, rest, ones


@compiled(inner=True)
def remove(s, position, cosines, sines):
    """Remove the member at a position from S, and restore the factor by Givens rotations."""
    S, L, m = s.S, s.L, s.tight[0]
    s.inside[S[position]] = False
    for i in range(position, m - 1):
        S[i] = S[i + 1]
        for j in range(i + 2):
            L[i, j] = L[i + 1, j]
        for j in range(position, i):
            left, right = L[i, j], L[i, j + 1]
            L[i, j] = cosines[j] * left + sines[j] * right
            L[i, j + 1] = cosines[j] * right - sines[j] * left
        size = math.hypot(L[i, i], L[i, i + 1])
        cosines[i] = L[i, i] / size
        sines[i] = L[i, i + 1] / size
        L[i, i] = size
    s.tight[0] = m - 1


@compiled(inner=True)
def _evaluate(s):
    """Compute the margins from the multipliers."""
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
def polish(s, buffers):
    """Solve u = 1 on S by iterative refinement; return the position of the smallest multiplier, −1 if all are positive."""
    _, x, e, _, _, _ = buffers
    S, L, v, y, m = s.S, s.L, s.v, s.y, s.tight[0]
    for _ in range(REFINEMENTS):
        _evaluate(s)
        balance, total, ones = 0.0, 0.0, 0.0
        for k in range(m):
            balance += v[S[k]]
        # The constant ρ of the factor acts on the imbalance Σv only, which this step removes.
        for k in range(m):
            member = S[k]
            x[k] = y[member] * (1.0 - s.u[member]) - s.number[1] * balance
            e[k] = 1.0
        _forward(L, m, x, e)
        _backward(L, m, x, e)
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
