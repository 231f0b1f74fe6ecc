"""Decisions of branch and bound and multipliers of its bounds, which prove these again."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats

Integers: TypeAlias = NDArray[np.int64]

# Largest absolute value of the exponents of the doubles whose sum is one multiplier.
EXPONENT = 900


class BoundedNodes(NamedTuple):
    """Nodes that were bounded one after the other, some several times."""

    parents: Integers
    decisions: Integers
    rounds: Integers
    facts: Floats
    marks: NDArray[np.uint8]
    counts: Integers
    rows: Integers
    numbers: Floats


def empty_node(rows: int) -> BoundedNodes:
    """Return a first node with a free intercept that has no point: a bound without multipliers."""
    root, none = np.array([0]), np.zeros(0)
    facts = np.array([[0.0, math.inf, 1.0, 0.0, 0.0]])
    marks = np.zeros((1, -(-rows // 8)), dtype=np.uint8)
    return BoundedNodes(root - 1, root, root + 1, facts, marks, root, none.astype(np.int32), none)


class Leaf(NamedTuple):
    """Multipliers of rows that a leaf keeps or drops; those of the same row are added."""

    rows: Integers
    numbers: Floats


def leaf_of(
    rows: Sequence[int], alpha: Sequence[Fraction], labels: Floats | None = None, *, feasible: bool
) -> Leaf | None:
    """Return 2α of the least-norm point, or an exact vanishing combination; None on overflow."""
    norm, longest = _exponent(sum(alpha, Fraction(0))), max(map(_exponent, alpha), default=0)
    # Twice the digits of a double, and as many as the sum of the terms loses.
    terms, multiple = 2 + max(norm, 0) // 106, Fraction(2)
    if not feasible:
        # Doubles whose sum is an exact multiplier, at most.
        terms = 64
        multiple = Fraction(math.lcm(*(value.denominator for value in alpha)))
        longest += _exponent(multiple)
    if not feasible or longest > EXPONENT:
        # The bound of a leaf is that of all multiples.
        multiple *= Fraction(2) ** (EXPONENT // 2 - longest)
    found: list[tuple[int, float]] = []
    for row, value in zip(rows, alpha, strict=True):
        rest = multiple * value
        for _ in range(terms):
            if rest and _exponent(rest) >= -EXPONENT:
                found.append((row, float(rest)))
                rest -= Fraction(found[-1][1])
        if rest and not feasible:
            return None
    if labels is not None:
        # An intercept of any size has no price where Σ yβ vanishes exactly.
        sign = dict(zip(rows, labels.tolist(), strict=True))
        _, largest = max(zip(alpha, rows, strict=True))
        left = sum((Fraction(sign[row] * term) for row, term in found), Fraction(0))
        while float(left):
            found.append((largest, float(-sign[largest] * left)))
            left += Fraction(sign[largest] * found[-1][1])
    return Leaf(
        np.array([row for row, _ in found], dtype=np.int64), np.array([term for _, term in found])
    )


def _exponent(value: Fraction) -> int:
    return value.numerator.bit_length() - value.denominator.bit_length()


@dataclass
class TreeRecord:
    """Nodes in the order of bounding, the root first; some leaves have their own multipliers."""

    parts: list[BoundedNodes] = field(default_factory=list)
    uppers: list[float] = field(default_factory=list)
    leaves: dict[int, Leaf] = field(default_factory=dict)
    bytes: float = 0.0

    def add(self, nodes: BoundedNodes, upper: float) -> None:
        """Append nodes that were bounded while the value of the incumbent was `upper`."""
        self.parts.append(nodes)
        self.uppers.append(upper)
        self.bytes += sum(values.nbytes for values in nodes)

    def arrays(self, search: Any) -> dict[str, NDArray[Any]]:
        """Return the arrays ``tree.*`` of a proof; none beyond the range of the data units."""
        unit = search.scale**2
        if not self.parts or search.best_value < 2.0**-EXPONENT:
            return {}
        nodes = BoundedNodes(*(np.concatenate(values) for values in zip(*self.parts, strict=True)))
        upper = np.repeat(self.uppers, [len(part.facts) for part in self.parts])
        # Multipliers of leaves follow those of all other bounds.
        last = np.cumsum(nodes.rounds) - 1
        own = {leaf: len(upper) + k for k, leaf in enumerate(self.leaves)}
        upper = np.concatenate([upper, upper[last[list(own)]]])
        leaves = list(self.leaves.values())
        sizes = np.array([leaf.rows.size for leaf in leaves], dtype=np.int64)
        counts = np.concatenate([nodes.counts, sizes])
        rows = np.concatenate([nodes.rows, *(leaf.rows for leaf in leaves)]).astype(np.int64)
        numbers = np.concatenate([nodes.numbers, *(leaf.numbers for leaf in leaves)])
        price = np.concatenate([nodes.facts[:, 0], np.zeros(len(own))])

        order, bounds, kept, before = _preorder(nodes, last, own, search.cutoff)
        branch = np.full(nodes.parents.size, -1, dtype=np.int64)
        branch[nodes.parents[1:]] = np.abs(nodes.decisions[1:]) - 1
        flip_count, flip_row = _flips(nodes.marks, kept, before)
        # The multipliers of each bound, one bound after the other.
        sizes = counts[kept]
        begins = np.cumsum(counts)[kept] - np.cumsum(sizes)
        places = np.arange(sizes.sum()) + np.repeat(begins, sizes)
        found = {
            "branch": branch[order],
            "bounds": bounds,
            "upper": upper[kept] / unit,
            "flip_count": flip_count,
            "flip_row": flip_row,
            "beta_count": sizes,
            "beta_row": rows[places],
            "beta": numbers[places] / unit,
        }
        if not math.isinf(search.k):
            found["price"] = price[kept] / unit
        if search.free:
            cuts = np.concatenate([nodes.facts[:, 3:], np.zeros((len(own), 2))])[kept]
            found |= {"side": cuts[:, 0].astype(np.int64), "at": cuts[:, 1] / search.scale}
            space = search.statement.space
            if space.is_linear:
                found["centre"] = np.array(space.centre)
        fits = all(np.isfinite(values).all() for values in found.values())
        for name, values in found.items():
            found[name] = values.astype(np.int32) if values.dtype == np.int64 else values
        return found if fits else {}


def _preorder(
    nodes: BoundedNodes, last: Integers, own: dict[int, int], cutoff: float
) -> tuple[Integers, Integers, Integers, Integers]:
    """Return nodes in preorder, the keeping child first, and their bounds' data for a proof."""
    count, parents = nodes.parents.size, nodes.parents
    children = np.full((2, count), -1)
    child = np.arange(1, count)
    children[np.where(nodes.decisions[1:] > 0, 0, 1), parents[1:]] = child
    levels = [np.zeros(1, dtype=np.int64)]
    while levels[-1].size:
        below = children[:, levels[-1]].ravel()
        levels.append(below[below >= 0])
    leaf = children[0] < 0
    # A leaf that its own multipliers do not close is closed by bounds of nodes above.
    above, sizes = leaf & (nodes.facts[last, 1] < cutoff), np.ones(count, dtype=np.int64)
    above[list(own)] = False
    for level in reversed(levels):
        inner = level[~leaf[level]]
        kept_child, other = children[:, inner]
        sizes[inner] += sizes[kept_child] + sizes[other]
        above[inner] = above[kept_child] | above[other]
    needed = nodes.facts[:, 2] > 0
    # The first gives the M to begin with.
    needed[0] = needed[last[leaf | above]] = True
    of, latest = np.repeat(np.arange(count), nodes.rounds), np.full(count + 1, -1)
    # Of several bounds of a node the last one stays.
    latest[of[needed]] = np.flatnonzero(needed)
    position = np.zeros(count, dtype=np.int64)
    for level in levels:
        # The bound before those of a node is that of the nearest node above; latest[-1] is none.
        latest[level] = np.where(latest[level] < 0, latest[parents[level]], latest[level])
        inner = level[~leaf[level]]
        position[children[0, inner]] = position[inner] + 1
        position[children[1, inner]] = position[inner] + 1 + sizes[children[0, inner]]
    kept = np.concatenate([np.flatnonzero(needed), list(own.values())]).astype(np.int64)
    of = np.concatenate([of[needed], list(own)]).astype(np.int64)
    order = np.lexsort((kept, position[of]))
    kept, of = kept[order], of[order]
    first = np.diff(of, prepend=-1) != 0
    before = np.where(first, latest[parents[of]], np.roll(kept, 1))
    before[kept >= nodes.facts.shape[0]] = -1
    bounds = np.bincount(position[of], minlength=count)
    return np.argsort(position), bounds, kept, before


def _flips(marks: NDArray[np.uint8], kept: Integers, before: Integers) -> tuple[Integers, Integers]:
    """Return the number of changed marks per bound, and their rows in increasing order."""
    # The bounds of leaves with multipliers of their own have no marks.
    marks = np.vstack([marks, np.zeros((1, marks.shape[1]), dtype=np.uint8)])
    flips = marks[np.minimum(kept, len(marks) - 1)] ^ marks[before]
    # Few bytes differ: the bits of each of these.
    bound, byte = np.divmod(np.flatnonzero(flips.ravel() != 0), flips.shape[1])
    entry, bit = np.nonzero(np.unpackbits(flips[bound, byte][:, None], axis=1))
    rows = 8 * byte[entry] + bit
    return np.bincount(bound[entry], minlength=kept.size), rows
