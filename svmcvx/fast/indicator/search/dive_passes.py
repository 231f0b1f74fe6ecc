"""Depth-first search below a node of branch and bound, compiled."""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

from svmcvx.fast.indicator.search.big_m_passes import relax
from svmcvx.fast.indicator.search.relaxation_passes import ANY_ORDER, KEPT, shortfalls
from svmcvx.system.compilation import compiled

__all__ = ["best_multiple", "dive"]


@compiled(nogil=True, fastmath=ANY_ORDER)
def best_multiple(HT, weight, lam, k, cut, free, raised, points, best, found, a):
    """Write the best multiple of the nodes' points to `found` if it beats `best`; return its
    objective up to rounding, or `best`.
    """
    r, n = HT.shape
    for w in points:
        squared = 0.0
        for c in range(r - free):
            squared += w[c] * w[c]
        shortfalls(HT, w, a)
        for margin in raised:
            lost, slope = 0.0, 1.0 / (margin * cut)
            for i in range(n):
                lost += weight[i] * min(max(slope * (margin - 1.0 + a[i]), 0.0), 1.0)
            value = squared / (margin * margin) + lam * lost
            if lost <= k and value < best:
                best = value
                for c in range(r):
                    found[c] = w[c] / margin
    return best


@compiled(nogil=True, fastmath=ANY_ORDER)
def dive(
    HT, length, weight, budget, cut, rho, free, widths, enough, rounds, wider, loose, upper, states, big_ms, starts, boxes, prices,
    bounds, undecided, names, slots, parents, decisions, points, used, facts, marks, number_rows, numbers, behind,
    rows, columns, system, stop,
):  # fmt: skip
    """Search below a node, depth first, the more promising child first."""
    r, n = HT.shape
    left, made = 1, 0
    # Leaves are moved below the open nodes.
    leaves = end = 0
    # What was not bounded is bounded whatever `stop` says, if only by zero steps: there is nothing
    # else to tell of it.
    first = undecided[slots[0]] < 0
    while left > leaves and made + 2 <= parents.size and (not stop[0] or (first and made == 0)):
        # The children take the place of the node, and the one above.
        left -= 1
        node, above = slots[left], slots[left + 1]
        on, bound, name, price = undecided[node], bounds[node], names[node], prices[node]
        for i in range(n):
            states[above, i] = states[node, i]
            big_ms[above, i] = big_ms[node, i]
        for c in range(r):
            starts[above, c] = starts[node, c]
        boxes[above, 0], boxes[above, 1] = boxes[node, 0], boxes[node, 1]
        base, children = left, 1 if on < 0 else 2
        for child in range(children):
            place = slots[base + child]
            parents[made], decisions[made], names[place] = name, 0, made
            if on >= 0:
                states[place, on] = KEPT + child
                decisions[made] = on + 1 if child == 0 else -on - 1
            below, undecided[place], prices[place], used[made] = relax(
                HT,
                length,
                weight,
                price,
                budget,
                cut,
                rho,
                free,
                widths,
                enough,
                rounds,
                wider,
                loose,
                upper,
                states[place],
                big_ms[place],
                starts[place],
                boxes[place],
                facts[made],
                marks[made],
                number_rows,
                numbers,
                behind[made],
                end,
                rows,
                columns,
                system,
                stop,
            )
            bounds[place] = max(bound, below)
            end = behind[made, used[made] - 1]
            for c in range(r):
                points[made, c] = starts[place, c]
            made += 1
        # The more promising one comes last.
        if children == 2 and not bounds[node] > bounds[above]:
            slots[base], slots[base + 1] = above, node
        for entry in range(base, base + children):
            place = slots[entry]
            if bounds[place] < upper:
                slots[entry], slots[left] = slots[left], place
                if undecided[place] < 0:
                    slots[left], slots[leaves] = slots[leaves], place
                    leaves += 1
                left += 1
    return left, made
