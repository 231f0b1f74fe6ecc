"""The nodes of a tree, their marks and multipliers in the order of a proof, compiled."""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from svmcvx.system.compilation import compiled

__all__ = ["count_flips", "find_flips", "put_in_order", "sort_multipliers"]


@compiled(nogil=True, allocates=True)
def put_in_order(children, first, last, needed, own, order, bounds, kept, before):
    """Write the nodes, each before its children and the child that keeps its row first, and the
    bounds of each that are needed.
    """
    stack, previous = (
        np.empty(order.size + 1, dtype=np.int64),
        np.empty(order.size + 1, dtype=np.int64),
    )
    stack[0], previous[0] = 0, -1
    left, done, made = 1, 0, 0
    while left > 0:
        left -= 1
        node, earlier, begun = stack[left], previous[left], made
        for number in range(first[node], last[node] + 1):
            if needed[number]:
                kept[made], before[made] = number, earlier
                earlier = number
                made += 1
        if own[node] >= 0:
            kept[made], before[made] = own[node], -1
            made += 1
        order[done], bounds[done] = node, made - begun
        done += 1
        if children[0, node] >= 0:
            # The child that keeps the row comes first.
            stack[left], stack[left + 1] = children[1, node], children[0, node]
            previous[left] = previous[left + 1] = earlier
            left += 2


@compiled(nogil=True)
def count_flips(marks, kept, before, counts):
    """Count the marks of each bound that differ from those of the bound before."""
    for entry in range(kept.size):
        now, then, found = kept[entry], before[entry], 0
        for byte in range(marks.shape[1]):
            flips = (marks[now, byte] if now < len(marks) else 0) ^ (
                marks[then, byte] if then >= 0 else 0
            )
            while flips:
                flips &= flips - 1
                found += 1
        counts[entry] = found


@compiled(nogil=True)
def find_flips(marks, kept, before, data_order, rows):
    """Write the rows of the marks of each bound that differ from those of the bound before."""
    found = 0
    for entry in range(kept.size):
        now, then = kept[entry], before[entry]
        for place in range(data_order.size):
            i = data_order[place]
            byte, bit = i >> 3, 0x80 >> (i & 7)
            is_marked = now < len(marks) and marks[now, byte] & bit != 0
            was_marked = then >= 0 and marks[then, byte] & bit != 0
            if is_marked != was_marked:
                rows[found] = place
                found += 1


@compiled(nogil=True, allocates=True)
def sort_multipliers(counts, kept, rows, numbers, rank, places, values):
    """Write the multipliers of bounds, those of each by the places of their rows in the order of
    the proof.
    """
    begin, end = np.zeros(counts.size + 1, dtype=np.int64), 0
    for bound in range(counts.size):
        begin[bound + 1] = begin[bound] + counts[bound]
    for bound in kept:
        first = end
        for entry in range(begin[bound], begin[bound + 1]):
            place, at = rank[rows[entry]], end
            while at > first and places[at - 1] > place:
                places[at], values[at] = places[at - 1], values[at - 1]
                at -= 1
            places[at], values[at] = place, numbers[entry]
            end += 1
