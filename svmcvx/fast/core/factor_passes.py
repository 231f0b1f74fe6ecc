r"""Compiled Cholesky factor of the Gram matrix of some rows, which changes as rows join and leave.

:math:`LL' = K_{SS}`, in the first `m` rows and columns of `L`, where K includes a constant or a
ridge if the caller has added one. A row that joins is appended: :func:`forward` solves for its part
of the factor, and what is left of its square is the pivot, from which the caller sees whether it
depends on the others. A row that leaves is taken out by Givens rotations [GoldfarbIdnani].
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.system.compilation import compiled

__all__ = ["backward", "backward_both", "forward", "forward_both", "remove"]

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
    """Solve L'x = x in place."""
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
    """Solve L'x = x and L'e = e in place."""
    for i in range(m - 1, -1, -1):
        row = L[i]
        one, other = x[i] / row[i], e[i] / row[i]
        x[i], e[i] = one, other
        for j in range(i):
            x[j] -= row[j] * one
            e[j] -= row[j] * other


@compiled(inner=True)
def remove(L, m, place):
    """Take out the row at a place."""
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
