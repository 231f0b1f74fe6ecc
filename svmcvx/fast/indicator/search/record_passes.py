"""The nodes of a tree and their marks in the order of a proof, compiled."""

from __future__ import annotations

import numpy as np

from svmcvx.system.compilation import compiled

__all__ = ["find_flips", "put_in_order"]


@compiled(nogil=True, allocates=True)
def put_in_order(children, first, last, needed, own, order, bounds, kept, before):
    """Write the nodes, each before its children and the child that keeps its row first, and the bounds of each that are needed.

    Parameters
    ----------
    children : ndarray of int, shape (2, nodes)
        The child that keeps the row and the one that drops it; −1 for none.
    first, last : ndarray of int, shape (nodes,)
        Numbers of the first and the last bound of each node.
    needed : ndarray of bool, shape (bounds,)
    own : ndarray of int, shape (nodes,)
        The number of one more bound of a leaf; −1 for none.
    order, bounds : ndarray of int, shape (nodes,)
        Output: the nodes, and how many bounds of each are needed.
    kept, before : ndarray of int
        Output: numbers of these bounds, and of the one before each on the way from the first node; −1 for none.
    """
    stack, previous = np.empty(order.size + 1, dtype=np.int64), np.empty(order.size + 1, dtype=np.int64)
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
def find_flips(marks, kept, before, data_order, counts, rows):
    """Count the marks of each bound that differ from those of the bound before, and write their rows where there is room.

    Parameters
    ----------
    marks : ndarray of uint8, shape (bounds, bytes)
        Bits of the rows; bounds that are not among these have no marks.
    kept, before : ndarray of int
        Numbers of the bounds and of those before them; −1 for none.
    data_order : ndarray of int
        The row of each bit in the order of the proof.
    counts : ndarray of int
        Output.
    rows : ndarray of int
        Output: places in the order of the proof, increasing for each bound; of size 0 if only the counts are wanted.
    """
    n, found = data_order.size, 0
    for entry in range(kept.size):
        now, then, begun = kept[entry], before[entry], found
        for place in range(n):
            i = data_order[place]
            byte, bit = i >> 3, 0x80 >> (i & 7)
            is_marked = now < len(marks) and marks[now, byte] & bit != 0
            was_marked = then >= 0 and marks[then, byte] & bit != 0
            if is_marked != was_marked:
                if rows.size > 0:
                    rows[found] = place
                found += 1
        counts[entry] = found - begun
