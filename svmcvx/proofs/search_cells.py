r"""The record of a search over directions, checked in double precision with bounds on the rounding.

``docs/proof_format.md``, section Cells, has the formulas. A point keeps row i of class c where
:math:`v'g_i \ge \theta_c`; with s = θ₁ + θ₂ and m = (θ₁ − θ₂)/2 its squared norm is
4(‖v‖² + ρm²)/s². Each cell of directions v without parts has to have no point below U. With
V ≤ ‖v‖² in the cell, s' is s√V/‖v‖.

Many cells are bounded at a time: the first axis of arrays is that of cells, if nothing else is
said. A cell is empty where the least s of its points exceeds the largest one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import maximum_bipartite_matching

from svmcvx.proofs.intervals import Bools, Floats, Rows, U
from svmcvx.proofs.problem import Problem, ProofRejected
from svmcvx.proofs.search_sets import supports_of

# The entry of a cell without parts.
UNCUT: Final = 255
# Exponents of columns, and of their largest entries, and half-widths that are allowed.
LARGEST: Final = 400
WIDEST: Final = 2.0**100
NARROWEST: Final = 2.0**-45
# Refinements of the windows of cells, which go on while an interval of s falls below this share;
# cells beyond those of the record, in multiples of these.
ROUNDS: Final = 8
NARROWED: Final = 0.9
MORE: Final = 8
# Pairs of open rows of a cell up to which conflicts are looked for, and numbers of an array for
# many cells: 4 MB, of which some twenty are in use.
PAIRS: Final = 4_000_000
BLOCK: Final = 2**19
# Cells up to which a largest matching of each takes less time.
FEW: Final = 8
# The price ρ of m² that stands for m = 0: it exceeds any value.
NO_INTERCEPT: Final = 1e300
# A factor below the rounding of a few operations.
LESS: Final = 1.0 - 2.0**-47

Cell: TypeAlias = tuple[Floats, Floats]
Sides: TypeAlias = list["_Side"]
Lists: TypeAlias = list[Rows]


class _Points(NamedTuple):
    """Limits of the points of cells: of ‖v‖², of its share in their own one, of s' (the lower one)
    and s (the upper one), and of both thresholds, side by side.
    """

    square: Floats
    share: Floats
    low: Floats
    high: Floats
    tops: Floats


class _Side(NamedTuple):
    """The rows of a class in the order of the upper ends of v'g: both ends, what does not vary in
    the cell, and the weight before each row and behind the last one.
    """

    rows: Rows
    low: Floats
    high: Floats
    middle: Floats
    sums: Floats


class _Support(NamedTuple):
    """Marks of the rows of each class, a bound on the squared norm, and the least weight."""

    marked: tuple[Bools, Bools]
    square: float
    least: float


def cells_bound(problem: Problem, rows: Any) -> float:
    """Return the lower end that the cells of a proof prove."""
    if problem.statement.kernel is not None:
        raise ProofRejected("cells are about linear machines")
    return _Cells(problem, rows).bound()


class _Cells:
    def __init__(self, problem: Problem, rows: Any) -> None:
        self.tree = tree = problem.proof.tree
        self.unit, self.half = rows.unit, 1.0 if problem.formulation == "zero_one" else 0.5
        self.k, self.lam = math.inf, 0.0
        if problem.has("k"):
            self.k = problem.number("k")
        else:
            price = problem.number("C" if problem.free else "lam") / self.half
            # Not infinite: the product with a small weight or unit would be, too.
            self.lam = math.nextafter(math.nextafter(price, 0.0) * self.unit, 0.0) * LESS
        self.upper = float(tree["below"]) * self.unit
        if not 0.0 < self.upper < math.inf:
            raise ProofRejected("the value that the cells are about must be positive")
        # The squared intercept costs this much, in units of the squared norm.
        self.rho = 0.0 if problem.free else NO_INTERCEPT
        if problem.penalised:
            self.rho = rows.unit * LESS
        H = rows.H[:, :-1] if problem.penalised else rows.H
        used = np.flatnonzero(H.any(axis=0))
        exponents = tree["exponent"][used]
        axes = tree.get("axes", np.eye(used.size))
        squares = _least_squares(axes, used.size)
        G = np.ldexp(H[:, used] @ axes, -exponents)
        widest = np.abs(G).max(axis=0)
        in_range = (np.abs(exponents) <= LARGEST) & (widest * WIDEST >= 1.0) & (widest <= WIDEST)
        if used.size < 2 or not in_range.all():
            raise ProofRejected("the scales of the cells are out of range, or columns too few")
        self.metric = np.ldexp(squares, -2 * exponents)
        least, weight = float(rows.weight.min()), rows.weight
        copies = np.rint(weight / least)
        self.equal = bool((np.abs(weight - copies * least) <= 32 * U * weight).all())
        self.equal &= copies.sum() <= 4 * copies.size
        copy, each = np.arange(copies.size), weight
        if self.equal:
            # Rows are counted, those of larger weights some times.
            copy, weight, each = np.repeat(copy, copies.astype(np.intp)), copies, np.ones(copy.size)
            self.lam, self.k = self.lam * least * LESS, self.k / (least * LESS)
        size = np.ldexp(np.abs(H[:, used]) @ np.abs(axes), -exponents).sum(axis=1)
        error = 4.0 * (used.size + 10) * U * size
        self.sides = tuple(copy[rows.signs[copy] == sign] for sign in (1.0, -1.0))
        self.G = tuple(G[side] for side in self.sides)
        self.error = tuple(error[side] for side in self.sides)
        self.weight = tuple(each[side] for side in self.sides)
        # Sums of weights are rounded downwards, and those of whole numbers are not rounded.
        self.below = 1.0 if self.equal else 1.0 - 16 * weight.size * U
        self.spread = np.abs(G).sum(axis=0)
        self.longest = float(rows.length.max())
        self.free = problem.free
        self.supports = self._supports(rows, weight)

    def _supports(self, rows: Any, weight: Floats) -> list[_Support]:
        found = []
        for beta, square in supports_of(self.tree, rows, free=self.free):
            marks = np.zeros(rows.signs.size, dtype=np.bool_)
            marks[list(beta)] = True
            one, two = self.sides
            least = float(weight[marks].min())
            found.append(_Support((marks[one], marks[two]), square, least))
        return found

    def bound(self) -> float:
        """Go through the cells without parts, many at a time."""
        if not self._classes_are_kept():
            raise ProofRejected("points that keep no row of a class are not covered by the cells")
        leaves, spare = self._leaves(), MORE * self.tree["cut"].size + 100
        room = max(BLOCK // max(side.size for side in self.sides), 1)
        cells: list[Cell] = []
        while True:
            cells += islice(leaves, max(room - len(cells), 0))
            if not cells:
                lower = self.half * (self.upper / self.unit)
                return max(math.nextafter(lower, -math.inf), 0.0)
            batch, cells = cells[-room:], cells[:-room]
            for i in self._left(*(np.array(part) for part in zip(*batch, strict=True))):
                centre, half = batch[i]
                cut = int(np.argmax(half * self.spread))
                if not spare or half[cut] <= NARROWEST:
                    raise ProofRejected("the record does not show that a cell has no better point")
                spare -= 1
                cells += _parts(centre, half, cut)

    def _leaves(self) -> Iterator[Cell]:
        """Yield the cells without parts, in the order of the record."""
        d, stack = self.metric.size, [*_sides(self.metric.size)][::-1]
        for number, cut in enumerate(self.tree["cut"].astype(np.uint8, copy=False).tobytes()):
            if not stack:
                raise ProofRejected("the record has cells behind its last one")
            cell = stack.pop()
            if cut == UNCUT:
                yield cell
            elif cut < d and cell[1][cut] > NARROWEST:
                stack += _parts(*cell, cut)
            else:
                raise ProofRejected(f"cell {number} is cut in no coordinate that it has")
        if stack:
            raise ProofRejected("the record ends before its last cell")

    def _classes_are_kept(self) -> bool:
        """Whether points that keep no row of one of the classes are not below U, either."""
        first, second = (float(w.sum()) * self.below for w in self.weight)
        least = 0.0 if self.free else LESS / (self.longest * self.longest)
        return all(
            dropped > self.k or self.lam * dropped * LESS + norm >= self.upper
            for dropped, norm in ((first, least), (second, least), (first + second, 0.0))
        )

    def _left(self, centre: Floats, half: Floats) -> list[int]:
        """Return the numbers of cells that are not shown to have no point below U."""
        sides, points = self._ranges(centre, half)
        points = self._narrowed(sides, points)
        opened = self._open(sides, points)
        cells, left = np.flatnonzero(~(points.low > points.high)), []
        if self.rho:
            each = (([_at(side, [i]) for side in sides], _at(points, [i])) for i in cells)
            costs = np.array([self._threshold_cost(*cell, 0.0) for cell in each])
            cells = cells[~(costs >= self.upper)]
        for group, size in _groups(cells, *(mask.sum(axis=1).tolist() for mask in opened)):
            if size > PAIRS:
                left += group
                continue
            part = [_at(side, group) for side in sides], _at(points, group)
            left += [group[i] for i in self._unmatched(*part, centre[group], half[group])]
        return left

    def _ranges(self, centre: Floats, half: Floats) -> tuple[Sides, _Points]:
        near, far = np.maximum(np.abs(centre) - half, 0.0), np.abs(centre) + half
        square = (near * near) @ self.metric * (1.0 - 2 * (self.metric.size + 6) * U)
        share = square / ((far * far) @ self.metric) * LESS
        sides = []
        for G, error, weight in zip(self.G, self.error, self.weight, strict=True):
            middle, radius = centre @ G.T, half @ np.abs(G).T + error
            order = np.argsort(middle + radius, axis=1, kind="stable")
            low, high, middle = (
                np.take_along_axis(values, order, axis=1)
                for values in (middle - radius, middle + radius, middle + error)
            )
            sums = np.zeros((len(order), weight.size + 1))
            np.cumsum(weight[order], axis=1, out=sums[:, 1:])
            sides.append(_Side(order, low, high, middle, sums * self.below))
        tops = np.stack([side.high[:, -1] for side in sides], axis=1)
        return sides, _Points(square, share, np.zeros(len(square)), self._sum(tops), tops)

    def _sum(self, tops: Floats) -> Floats:
        """Return the largest sum of thresholds up to these, which are equal without intercept."""
        return 2.0 * tops.min(axis=1) if self.rho == NO_INTERCEPT else _above(*tops.T)

    def _lost(self, sides: Sides, points: _Points) -> tuple[Lists, list[Floats]]:
        """Return how many rows of each class all points drop, the first ones, and their weight."""
        counts, lost = [], []
        for side, top in zip(sides, points.tops.T[::-1], strict=True):
            no_intercept = self.rho == NO_INTERCEPT
            limit = 0.5 * points.low if no_intercept else -_above(top, -points.low)
            counts.append((side.high < limit[:, None]).sum(axis=1))
            lost.append(side.sums[np.arange(limit.size), counts[-1]])
        return counts, lost

    def _norm(self, points: _Points, s: Floats) -> Floats:
        """Return the square root of the least squared norm of points with s of at most this."""
        square = points.square
        if self.rho:
            off = np.maximum(0.5 * points.low - points.tops.min(axis=1), 0.0)
            square = square + self.rho * points.share * off * off * LESS
        return 2.0 * np.sqrt(square) / s * LESS

    def _least(self, points: _Points, dropped: Floats) -> Floats:
        """Return the least s of points below U that drop a weight; infinite if there is none."""
        rest = np.sqrt(np.maximum(self.upper - self.lam * dropped * LESS, 0.0))
        least = np.maximum(points.low, self._norm(points, rest))
        return np.where(dropped > self.k, math.inf, least)

    def _most(self, norm: Any) -> Any:
        """Return the largest weight that a point below U with such a squared norm drops."""
        if self.lam == 0.0:
            return self.k
        return np.minimum(self.k, np.maximum(self.upper - norm, 0.0) / self.lam)

    def _narrowed(self, sides: Sides, points: _Points) -> _Points:
        """Return what the thresholds alone prove."""
        for _ in range(ROUNDS):
            width = points.high - points.low
            counts, lost = self._lost(sides, points)
            low = self._least(points, (lost[0] + lost[1]) * LESS)
            for count, side in zip(counts, sides, strict=True):
                low = np.where(count == side.high.shape[1], math.inf, low)
            points = points._replace(low=low)
            most = self._most(self._norm(points, points.high) ** 2) / LESS
            tops = []
            for side, top, other in zip(sides, points.tops.T, lost[::-1], strict=True):
                heavy = side.sums[:, 1:] > ((most - other) / LESS)[:, None]
                cells, first = np.arange(top.size), heavy.argmax(axis=1)
                limit = np.where(heavy[cells, first], side.high[cells, first], math.inf)
                tops.append(np.minimum(top, limit))
            both = np.stack(tops, axis=1)
            points = points._replace(high=np.minimum(points.high, self._sum(both)), tops=both)
            if not (points.high - points.low < NARROWED * width).any():
                break
        return points

    def _threshold_cost(self, sides: Sides, points: _Points, norm: float) -> float:
        """Return at most the cost of points of one cell, by the rows below their thresholds, and
        this norm.
        """
        ends, dropped = [], []
        for side, top in zip(sides, points.tops[0], strict=True):
            count = int(np.searchsorted(side.high[0], top))
            below = side.sums[0, : count + 1]
            size = int(np.searchsorted(below, self._most(norm) / LESS, side="right"))
            ends.append(np.append(side.high[0, :count], top)[:size])
            dropped.append(below[:size])
        if ends[0].size * ends[1].size > PAIRS:
            return 0.0
        low = np.minimum(ends[0][:, None], ends[1])
        high = np.maximum(ends[0][:, None], ends[1])
        s, m, V = low + high, 0.5 * (high - low), float(points.square[0])
        norms = np.where(s > 0.0, 4.0 * (V + self.rho * m * m) / s / s, math.inf)
        # The other threshold rises until the intercept costs more than it saves.
        inner = (low > 0.0) & ((high - low) * self.rho * low >= 2.0 * V)
        norms = np.where(inner, 1.0 / ((low / math.sqrt(V)) ** 2 + 1.0 / self.rho), norms)
        weights = (dropped[0][:, None] + dropped[1]) * LESS
        costs = self.lam * weights + np.maximum(norms, norm)
        least = float(np.min(np.where(weights > self.k, math.inf, costs), initial=math.inf))
        # Larger weights cost the upper value or more.
        return least * LESS

    def _open(self, sides: Sides, points: _Points) -> list[Bools]:
        """Mark the rows that are neither dropped nor kept."""
        counts, _ = self._lost(sides, points)
        return [
            (np.arange(side.low.shape[1]) >= count[:, None]) & (side.low < top[:, None])
            for side, count, top in zip(sides, counts, points.tops.T, strict=True)
        ]

    def _heights(
        self, sides: Sides, points: _Points, centre: Floats, half: Floats
    ) -> tuple[Lists, Floats]:
        """Return the open rows of both classes, those with large ends first, and for each pair the
        s' above which both are not kept, by rows of the first class, cells, and rows of the second.
        """
        # At most s'‖v‖/√V, for v times this.
        size = np.sqrt((centre * centre) @ self.metric * points.square)
        shift = (points.low / size)[:, None] * self.metric * centre * (1.0 - 2.0**-40)
        rounding = 4.0 * (self.metric.size + 10) * U * (np.abs(shift).sum(axis=1) + points.low)
        more = points.low - (centre * shift).sum(axis=1) + rounding
        rows: Lists = []
        middle, parts = [], []
        for G, side, mask in zip(self.G, sides, self._open(sides, points), strict=True):
            # Fewer than the most are filled up by others, in front.
            count = int(mask.sum(axis=1).max())
            place = np.argsort(~mask, axis=1, kind="stable")[:, :count][:, ::-1]
            is_open, row, inner = (
                np.take_along_axis(values, place, axis=1)
                for values in (mask, side.rows, side.middle)
            )
            rows.append(np.asarray(row, dtype=np.intp))
            middle.append(np.where(is_open, inner, math.inf))
            parts.append(G[row] * half[:, None])
        parts[1] -= (shift * half)[:, None]
        heights = (middle[0] + more[:, None]).T[:, :, None] + middle[1]
        for e in np.flatnonzero(half.any(axis=0)):
            change = parts[0][:, :, e].T[:, :, None] + parts[1][:, :, e]
            heights += np.abs(change, out=change)
        return rows, np.asarray(heights)

    def _matched(self, conflicts: Bools, weights: list[Floats]) -> Floats:
        """Return the weight of a matching of conflicts, one row of the first class after the other:
        those with large ends have few conflicts and come first.
        """
        if self.equal and conflicts.shape[1] <= FEW:
            return np.array([self._largest(each, []) for each in conflicts.swapaxes(0, 1)])
        rest, total = weights[1].copy(), np.zeros(conflicts.shape[1])
        free, cells = rest > 0.0, np.arange(total.size)
        for a in np.flatnonzero(conflicts.any(axis=(1, 2))):
            left, going = weights[0][:, a], True
            while going:
                room = conflicts[a] & free
                b = room.argmax(axis=1)
                part = room[cells, b]
                if self.equal:
                    free[cells, b] ^= part
                    going = False
                else:
                    part = np.where(part, np.minimum(left, rest[cells, b]), 0.0)
                    rest[cells, b] -= part
                    free[cells, b] = rest[cells, b] > 0.0
                    left = left - part
                    going = bool((part * left).any())
                total += part
        return total * self.below

    def _largest(self, conflicts: Bools, rows: Lists) -> float:
        """Return at most the weight of a largest matching of conflicts of one cell."""
        if not self.equal:
            weights = [w[row][None] for w, row in zip(self.weight, rows, strict=True)]
            return float(self._matched(conflicts[:, None], weights)[0])
        mates = maximum_bipartite_matching(sp.csr_array(conflicts), perm_type="column")
        matched = np.flatnonzero(mates >= 0)
        partners = mates[matched]
        # Whatever the library returns is looked at.
        valid = conflicts[matched, partners].all() and np.unique(partners).size == partners.size
        return float(matched.size * bool(valid))

    def _unmatched(self, sides: Sides, points: _Points, centre: Floats, half: Floats) -> list[int]:
        """Return the cells that neither thresholds, conflicts nor supports close.

        Conflicts at the least s drop a weight, which makes it larger.
        """
        left: list[int] = []
        rows, heights = self._heights(sides, points, centre, half)
        counts, (first, second) = self._lost(sides, points)
        weights = [w[row] for w, row in zip(self.weight, rows, strict=True)]
        on, lost, dropped = np.arange(len(half)), first + second, -np.ones(len(half))
        while on.size:
            conflicts = heights < points.low[:, None]
            found = lost[on] + self._matched(conflicts, [w[on] for w in weights])
            for i in np.flatnonzero(found <= dropped).tolist():
                cell, graph = int(on[i]), (conflicts[:, i], [row[on[i]] for row in rows])
                found[i] = lost[cell] + self._largest(*graph)
                if found[i] <= dropped[i]:
                    part = [_at(side, [cell]) for side in sides], _at(points, [i])
                    gone = [
                        side.rows[cell, : n[cell]] for side, n in zip(sides, counts, strict=True)
                    ]
                    found[i] = lost[cell] + self._paired(*part, *graph, gone, float(dropped[i]))
            left += on[found <= dropped].tolist()
            low = self._least(points, found * LESS)
            going = (found > dropped) & ~(low > points.high)
            points, heights = _at(points._replace(low=low), going), heights[:, going]
            on, dropped = on[going], found[going]
        return left

    def _paired(
        self,
        sides: Sides,
        points: _Points,
        conflicts: Bools,
        rows: Lists,
        gone: Lists,
        least: float,
    ) -> float:
        """Return at most the weight of open rows that points of one cell drop since those that keep
        a support are not below U.
        """
        most = 0.0
        for support in self.supports:
            if any(given[lost].any() for given, lost in zip(support.marked, gone, strict=True)):
                continue
            kept = (self.lam * least + support.square) * LESS if least <= self.k else math.inf
            if self.rho and kept < self.upper:
                kept = self._threshold_cost(sides, points, support.square)
            if kept >= self.upper:
                one, two = (given[row] for given, row in zip(support.marked, rows, strict=True))
                outside = self._largest(conflicts & ~(one[:, None] | two), rows)
                most = max(most, (outside + support.least) * LESS)
        return most


def _least_squares(axes: Floats, columns: int) -> Floats:
    """Return m with ‖Ax‖² ≥ Σmₑxₑ² for all x, for the axes A."""
    sizes, least = np.abs(axes), 0.0
    if axes.shape == (columns, columns) and sizes.max(initial=0.0) <= 2.0:
        products, rounding = axes.T @ axes, 2.0 * (columns + 8) * U * (sizes.T @ sizes)
        least = 2.0 * np.diagonal(products) - (np.abs(products) + rounding).sum(axis=1)
    if not np.all(least > 0.5):
        raise ProofRejected("the axes of the cells are not orthogonal ones, one a column")
    return np.asarray(least)


def _sides(d: int) -> Iterator[Cell]:
    """The sides of the cube [−1, 1]^d, as centres and half-widths."""
    for e in range(d):
        for end in (1.0, -1.0):
            centre, half = np.zeros(d), np.ones(d)
            centre[e], half[e] = end, 0.0
            yield centre, half


def _parts(centre: Floats, half: Floats, cut: int) -> list[Cell]:
    """Return both parts of a cell, the upper one first: the lower one is the next of a stack."""
    half = half.copy()
    half[cut] *= 0.5
    parts = []
    for sign in (1.0, -1.0):
        moved = centre.copy()
        moved[cut] += sign * half[cut]
        parts.append((moved, half))
    return parts


def _at(arrays: Any, cells: Any) -> Any:
    return type(arrays)(*(values[cells] for values in arrays))


def _groups(cells: Rows, one: Any, two: Any) -> Iterator[tuple[list[int], int]]:
    """Split cells so that arrays over pairs of rows are small; yield the pairs of each, too."""
    group: list[int] = []
    size = a = b = 0
    for cell in sorted(cells.tolist(), key=lambda i: one[i] * two[i]):
        a, b = max(a, one[cell]), max(b, two[cell])
        if group and (len(group) + 1) * a * b > BLOCK:
            yield group, size
            group, a, b = [], one[cell], two[cell]
        group.append(cell)
        size = a * b
    if group:
        yield group, size


def _above(first: Floats, second: Floats) -> Floats:
    return first + second + (abs(first) + abs(second)) * 2.0**-48
