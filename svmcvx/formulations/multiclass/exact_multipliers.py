r"""Multipliers that meet their constraints exactly, not to rounding.

Numbers on a grid of powers of two that are not too long are added without rounding, so that their
sums can be compared and repaired in whole steps of the grid. The multipliers :math:`\alpha_{ik}` of
an observation of class k' are *flows* from k' to k; they are balanced, :math:`B'1 = 0`, if what
leaves a class is what enters it. Any flow is a sum of cycles and of paths from classes with a
surplus to classes with a deficit, so that flows can be balanced by reductions alone, along such
paths.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import Bounded, exact, maximum, row_maxima, row_sums, stacked, total
from svmcvx.certificate.exactly import LARGEST_BITS, SUM_BITS, nearest_sum

__all__ = [
    "Units",
    "class_flows",
    "common_units",
    "cut_to_top",
    "cut_units",
    "excess_of_sums",
    "imbalance",
    "is_balanced",
    "reduced_to_balance",
    "reduced_to_sums",
    "violation_of_top",
]

Floats: TypeAlias = NDArray[np.float64]
Units: TypeAlias = NDArray[np.int64]
Room: TypeAlias = Callable[[Units], Units]


def _row_exponents(a: Floats) -> NDArray[np.intp]:
    """Exponents of a grid for each row on which numbers up to its largest, and sums and multiples
    of them, are exact.
    """
    exponents = np.frexp(row_maxima(a))[1].astype(np.intp)
    return np.asarray(np.maximum(exponents - (51 - int(a.shape[1] + 1).bit_length()), -1074))


def _on_grid(a: Floats, exponents: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether the rows lie on their grids."""
    units = np.ldexp(a, -exponents[:, None])
    return np.asarray((units == np.floor(units)).all(axis=1))


def excess_of_sums(a: Floats, bound: Floats) -> Floats:
    """Return by how much the sum of each row exceeds its bound: positive if and only if it does,
    and else 0.
    """
    found = row_sums(exact(a)) - bound
    excess = found.value
    unsure = np.flatnonzero(np.abs(excess) <= found.error)
    if unsure.size:
        rows = a[unsure]
        for i in unsure[~_on_grid(rows, _row_exponents(rows))]:
            excess[i] = math.fsum([*a[i].tolist(), -float(bound[i])])
    return np.asarray(np.maximum(excess, 0.0))


def reduced_to_sums(a: Floats, bound: Floats) -> Floats:
    """Return rows of non-negative numbers whose sums are at most their bounds; those that are so
    already as they are.
    """
    over = np.flatnonzero(excess_of_sums(a, bound) > 0)
    if not over.size:
        return a
    a = a.copy()
    rows, limit = a[over], bound[over]
    # In two steps: huge numbers overflow in a sum, tiny ones underflow in a product.
    rows = np.minimum(rows, limit[:, None])
    rows = rows * np.minimum(limit / row_sums(rows), 1.0)[:, None]
    exponents = _row_exponents(rows)
    units = np.floor(np.ldexp(rows, -exponents[:, None]))
    left = np.ceil(row_sums(units) - np.ldexp(limit, -exponents))
    largest = units.argmax(axis=1)
    every = np.arange(over.size)
    units[every, largest] = np.maximum(units[every, largest] - np.maximum(left, 0.0), 0.0)
    a[over] = np.ldexp(units, exponents[:, None])
    return a


def violation_of_top(a: Floats, bound: Floats, k: int) -> Floats:
    """Return the larger violation of ``k a ≤ bound`` and ``(k − 1) a ≤ sum``, row by row: positive
    if and only if there is one.
    """
    largest = row_maxima(exact(a))
    violation = maximum(float(k) * largest - bound, float(k - 1) * largest - row_sums(exact(a)))
    found = violation.value
    unsure = np.flatnonzero(np.abs(found) <= violation.error)
    if unsure.size:
        rows = a[unsure]
        for i in unsure[~_on_grid(rows, _row_exponents(rows))]:
            top = float(largest.value[i])
            others = [-each for each in a[i].tolist()]
            found[i] = max(
                math.fsum([top] * k + [-float(bound[i])]), math.fsum([top] * (k - 1) + others)
            )
    return np.asarray(np.maximum(found, 0.0))


def cut_units(units: Floats, k: int) -> Floats:
    """Return whole numbers cut off where ``(k − 1) a ≤ sum`` holds for the largest.

    Cut off at τ the sum is Σ min(a_j, τ) = min over m of mτ + (the sum of all but the m largest),
    which is at least (k − 1)τ if and only if τ is at most each of these quotients.
    """
    if k == 1:
        return units
    descending = -np.sort(-units, axis=1)
    tails = descending[:, ::-1].cumsum(axis=1)[:, ::-1][:, : k - 1]
    largest = np.floor(tails / (k - 1.0 - np.arange(tails.shape[1]))).min(axis=1, keepdims=True)
    return np.asarray(np.minimum(units, largest))


def cut_to_top(a: Floats, bound: Floats, k: int) -> Floats:
    """Return rows reduced to ``k a ≤ bound`` and ``(k − 1) a ≤ sum``; those that meet both as they
    are.
    """
    wrong = np.flatnonzero(violation_of_top(a, bound, k) > 0)
    if not wrong.size:
        return a
    a = a.copy()
    rows = np.minimum(a[wrong], bound[wrong, None])
    exponents = _row_exponents(rows)
    units = np.floor(np.ldexp(rows, -exponents[:, None]))
    cap = np.floor(np.floor(np.ldexp(bound[wrong], -exponents)) / k)
    cap = np.where(k * cap > np.ldexp(bound[wrong], -exponents), cap - 1.0, cap)
    a[wrong] = np.ldexp(cut_units(np.minimum(units, cap[:, None]), k), exponents[:, None])
    return a


def common_units(alpha: Floats) -> tuple[Floats, int]:
    """Return multipliers in units of one grid, not rounded, and its exponent; their largest sum
    fits into 64 bits.
    """
    bits = min(LARGEST_BITS, SUM_BITS - max(1, int(alpha.size).bit_length()))
    exponent = max(math.frexp(float(alpha.max(initial=0.0)))[1] - bits, -1074)
    return np.ldexp(alpha, -exponent), exponent


def class_flows(units: Units, codes: NDArray[np.intp], c: int) -> Units:
    """Return the sums of the flows from class to class, shape (c, c)."""
    table = np.zeros((c, c), dtype=np.int64)
    for k in range(c):
        table[k, np.arange(c) != k] = units[codes == k].sum(axis=0)
    return table


def _columns(alpha: Floats, codes: NDArray[np.intp], c: int) -> list[Floats]:
    """Return what leaves each class, and less what enters it."""
    columns: list[list[Floats]] = [[] for _ in range(c)]
    for k in range(c):
        own = alpha[codes == k]
        columns[k].append(own.ravel())
        for column, other in zip(own.T, np.flatnonzero(np.arange(c) != k), strict=True):
            columns[other].append(-column)
    return [np.concatenate(parts) for parts in columns]


def imbalance(alpha: Floats, codes: NDArray[np.intp], c: int) -> Bounded:
    """Return B'1 of non-negative multipliers; whole units of a grid are added exactly."""
    units, exponent = common_units(alpha)
    whole = np.floor(units)
    table = class_flows(whole.astype(np.int64), codes, c)
    left = table.sum(axis=1) - table.sum(axis=0)
    # Halves of 64 bits are numbers without rounding.
    found: Bounded = exact((left >> 32).astype(np.float64)) * 2.0**32 + (left & 0xFFFFFFFF).astype(
        np.float64
    )
    if not np.array_equal(whole, units):
        found = found + stacked(
            total(exact(column)) for column in _columns(units - whole, codes, c)
        )
    return found * 2.0**exponent


def is_balanced(
    alpha: Floats, codes: NDArray[np.intp], c: int, found: Bounded | None = None
) -> bool:
    """Whether B'1 is exactly 0; `found` is its :func:`imbalance` where that is known."""
    found = imbalance(alpha, codes, c) if found is None else found
    if (np.abs(found.value) > found.error).any():
        return False
    return not np.any(found.error) or all(
        nearest_sum(column) == 0.0 for column in _columns(alpha, codes, c)
    )


def reduced_to_balance(
    units: Units, codes: NDArray[np.intp], c: int, room: Room | None = None
) -> Units | None:
    """Return multipliers in whole units reduced until they are balanced; None where the room does
    not suffice.
    """
    units = units.copy()
    members = [np.flatnonzero(codes == k) for k in range(c)]
    table = class_flows(units, codes, c)
    surplus = table.sum(axis=1) - table.sum(axis=0)
    while surplus.any():
        capacity = table if room is None else class_flows(room(units), codes, c)
        path = _path(capacity, surplus)
        if path is None:
            return None
        steps = list(itertools.pairwise(path))
        amount = min(
            int(surplus[path[0]]), -int(surplus[path[-1]]), *(int(capacity[step]) for step in steps)
        )
        for k, other in steps:
            column = other - (other > k)
            rows = members[k]
            most = (units if room is None else room(units))[rows, column]
            order = rows[np.argsort(-units[rows, column], kind="stable")]
            most = most[np.argsort(-units[rows, column], kind="stable")]
            taken = np.minimum(np.cumsum(most), amount)
            units[order, column] -= np.diff(taken, prepend=0)
            table[k, other] -= amount
        surplus[path[0]] -= amount
        surplus[path[-1]] += amount
    return units


def _path(capacity: Units, surplus: Units) -> list[int] | None:
    """Return a shortest path of arcs with capacity from a class with a surplus to one with a
    deficit.
    """
    for start in np.argsort(-surplus, kind="stable"):
        if surplus[start] <= 0:
            return None
        came: dict[int, int] = {int(start): -1}
        queue = [int(start)]
        for k in queue:
            if surplus[k] < 0:
                path = [k]
                while came[path[-1]] >= 0:
                    path.append(came[path[-1]])
                return path[::-1]
            for other in np.flatnonzero(capacity[k]):
                if int(other) not in came:
                    came[int(other)] = k
                    queue.append(int(other))
    return None
