r"""The point of least norm with margins of at least 1, in rational arithmetic.

Rows of floating-point numbers are rational numbers. The method is that of Goldfarb and Idnani: from
w = 0 the most violated row is added to a set of tight, linearly independent rows, whose multipliers
stay non-negative; a row that depends on the tight ones, when no multiplier can decrease, proves
that the rows are infeasible.

With a free intercept the sum of one row of each class has a margin of at least 2 for any intercept.
Conversely, if all such sums have it, there is an intercept. The sums are added one by one when they
are violated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from svmcvx.arrays import Floats


class ExactPoint(NamedTuple):
    """Multipliers of the point of least norm, or of its infeasibility: Σ α_i g_i = 0, Σ α_i > 0."""

    feasible: bool
    rows: list[int]
    alpha: list[Fraction]
    norm: Fraction
    b: Fraction = Fraction(0)


def exact_least_norm(
    G: Floats, y: Floats | None = None, *, stop: Callable[[], bool]
) -> ExactPoint | None:
    """Return the point of least norm with g_i'w + y_i b ≥ 1, a proof of infeasibility, or None."""
    if len(G) == 0:
        return ExactPoint(True, [], [], Fraction(0))
    if y is not None and (y == y[0]).all():
        return ExactPoint(True, [], [], Fraction(0), Fraction(float(y[0])))
    # All numbers are integers in units of the smallest binary digit.
    exponents = np.frexp(G[G != 0.0])[1]
    digits = max(53 - int(exponents.min()), 0) if exponents.size else 0
    one = 1 << digits
    ratios = [map(float.as_integer_ratio, row) for row in G.tolist()]
    H = [[top * (one // bottom) for top, bottom in row] for row in ratios]
    return _least_norm(H, one, one, stop) if y is None else _with_intercept(H, y, one, stop)


def _with_intercept(
    H: list[list[int]], y: Floats, one: int, stop: Callable[[], bool]
) -> ExactPoint | None:
    """Add the most violated sum of a row of each class until an intercept suits all rows."""
    positive, negative = np.flatnonzero(y > 0).tolist(), np.flatnonzero(y < 0).tolist()
    pairs = [(positive[0], negative[0])]
    while not stop():
        sums = [[a + b for a, b in zip(H[i], H[j], strict=True)] for i, j in pairs]
        found = _least_norm(sums, 2 * one, one, stop)
        if found is None:
            return None
        alpha: dict[int, Fraction] = {}
        for pair, value in zip(found.rows, found.alpha, strict=True):
            for row in pairs[pair]:
                alpha[row] = alpha.get(row, Fraction(0)) + value
        point = found._replace(rows=list(alpha), alpha=list(alpha.values()))
        if not found.feasible:
            return point
        w = _combination(len(H[0]), [(a / one, H[i]) for i, a in alpha.items()])
        u = [Fraction(_inner(row, w)) for row in H]
        low, high = min(positive, key=lambda i: u[i]), min(negative, key=lambda i: u[i])
        if u[low] + u[high] >= 2 * one:
            return point._replace(b=(u[high] - u[low]) / (2 * one))
        pairs.append((low, high))
    return None


def _least_norm(
    H: list[list[int]], right: int, one: int, stop: Callable[[], bool]
) -> ExactPoint | None:
    """Return the point of least norm with Hw ≥ right; its multipliers are those of H / one."""
    r = len(H[0])
    squares = [_inner(row, row) or 1 for row in H]
    rows: list[int] = []
    alpha: list[Fraction] = []
    w = [Fraction(0)] * r
    while not stop():
        violations = [
            Fraction(right - _inner(h, w)) / size for h, size in zip(H, squares, strict=True)
        ]
        worst = max(range(len(H)), key=violations.__getitem__)
        if violations[worst] <= 0:
            return ExactPoint(True, rows, [value * one for value in alpha], _inner(w, w))
        added, is_tight = Fraction(0), False
        while not is_tight:
            if stop():
                return None
            # Multipliers t of the tight rows so that H_B'(direction) vanishes along the new row.
            gram = [[Fraction(_inner(H[i], H[j])) for j in rows] for i in rows]
            solved = _solved(gram, [Fraction(_inner(H[i], H[worst])) for i in rows])
            terms = [(-t, H[i]) for t, i in zip(solved, rows, strict=True)]
            direction = _combination(r, [(Fraction(1), H[worst]), *terms])
            growth = _inner(H[worst], direction)
            steps = [(alpha[k] / t, k) for k, t in enumerate(solved) if t > 0]
            if growth:
                steps.append(((right - _inner(H[worst], w)) / growth, -1))
            if not steps:
                negative = [-value for value in solved]
                return ExactPoint(False, [*rows, worst], [*negative, Fraction(1)], Fraction(0))
            # The row becomes tight, or the multiplier of another one vanishes before.
            step, leaving = min(steps)
            alpha = [value - step * t for value, t in zip(alpha, solved, strict=True)]
            added += step
            w = [value + step * part for value, part in zip(w, direction, strict=True)]
            is_tight = leaving < 0
            if is_tight:
                rows.append(worst)
                alpha.append(added)
            else:
                del rows[leaving], alpha[leaving]
    return None


def _combination(r: int, terms: Sequence[tuple[Fraction, Sequence[int]]]) -> list[Fraction]:
    return [sum((a * row[c] for a, row in terms), Fraction(0)) for c in range(r)]


def _inner(x: Sequence[Any], y: Sequence[Any]) -> Any:
    return sum(a * b for a, b in zip(x, y, strict=True) if a and b)


def _solved(A: list[list[Fraction]], b: list[Fraction]) -> list[Fraction]:
    """Solve a positive definite system by elimination, in place."""
    size = len(b)
    for k in range(size):
        for i in range(k + 1, size):
            if A[i][k]:
                factor = A[i][k] / A[k][k]
                for j in range(k, size):
                    A[i][j] -= factor * A[k][j]
                b[i] -= factor * b[k]
    x = [Fraction(0)] * size
    for k in reversed(range(size)):
        x[k] = (b[k] - sum((A[k][j] * x[j] for j in range(k + 1, size)), Fraction(0))) / A[k][k]
    return x
