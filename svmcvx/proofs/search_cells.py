r"""The record of a search over directions, checked in double precision with bounds on the rounding.

``docs/proof_format.md``, section Cells, has the formulas. A point keeps row i of class c where
:math:`v'g_i \ge \theta_c`; with s = θ₁ + θ₂ and m = (θ₁ − θ₂)/2 its squared norm is
4(‖v‖² + ρm²)/s². Each cell of directions v without parts has to have no point below U.
"""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import maximum_bipartite_matching

from svmcvx.proofs.intervals import Bools, Floats, U
from svmcvx.proofs.problem import Problem, ProofRejected
from svmcvx.proofs.search_sets import supports_of

# The entry of a cell without parts; exponents of columns, and of half-widths, that are allowed.
UNCUT: Final = 255
LARGEST: Final = 400
NARROWEST: Final = 2.0**-45
# Refinements of the numbers of a cell, which go on while the interval of s falls below this share;
# cells beyond those of the record, in multiples of these.
ROUNDS: Final = 8
NARROWED: Final = 0.9
MORE: Final = 8
# Pairs of open rows of a cell up to which conflicts are looked for.
PAIRS: Final = 4_000_000
# The price ρ of m² that stands for m = 0: it exceeds any value.
NO_INTERCEPT: Final = 1e300
# A factor below the rounding of a few operations.
LESS: Final = 1.0 - 2.0**-47


class _Points(NamedTuple):
    """Limits of the points of a cell: of s, and of both thresholds."""

    low: float
    high: float
    tops: tuple[float, float]


class _Ranges(NamedTuple):
    """The bound on ‖v‖², and of each class the intervals of v'g, with the upper ends in order and
    the weight up to each.
    """

    square: float
    low: tuple[Floats, ...]
    high: tuple[Floats, ...]
    ends: tuple[Floats, ...]
    sums: tuple[Floats, ...]

    @property
    def most(self) -> tuple[float, float]:
        return float(self.ends[0][-1]), float(self.ends[1][-1])


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
            self.lam = price * self.unit * LESS
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
        if used.size < 2 or np.abs(exponents).max() > LARGEST:
            raise ProofRejected("the scales of the cells are out of range, or columns too few")
        G = np.ldexp(H[:, used], -exponents)
        self.metric = np.ldexp(1.0, -2 * exponents)
        error = 2.0 * (used.size + 10) * U * np.abs(G).sum(axis=1)
        self.sides = np.flatnonzero(rows.signs > 0), np.flatnonzero(rows.signs < 0)
        self.G = tuple(G[side] for side in self.sides)
        self.sizes = tuple(np.abs(part) for part in self.G)
        self.error = tuple(error[side] for side in self.sides)
        self.weight = tuple(rows.weight[side] for side in self.sides)
        # Sums of weights are rounded downwards.
        self.least, largest = float(rows.weight.min()), float(rows.weight.max())
        self.equal = largest <= self.least * (1.0 + 64 * U)
        self.spread = np.abs(G).sum(axis=0)
        self.longest = float(rows.length.max())
        self.free = problem.free
        self.supports = self._supports(rows)

    def _supports(self, rows: Any) -> list[_Support]:
        found = []
        for beta, square in supports_of(self.tree, rows, free=self.free):
            marks = np.zeros(rows.signs.size, dtype=np.bool_)
            marks[list(beta)] = True
            one, two = self.sides
            least = float(rows.weight[marks].min())
            found.append(_Support((marks[one], marks[two]), square, least))
        return found

    def bound(self) -> float:
        """Go through the cells, each before its parts."""
        if not self._classes_are_kept():
            raise ProofRejected("points that keep no row of a class are not covered by the cells")
        cuts, d = self.tree["cut"].tolist(), self.metric.size
        stack = [(c, h) for c, h in reversed([*_sides(d)])]
        spare = MORE * len(cuts) + 100
        for number, cut in enumerate(cuts):
            if not stack:
                raise ProofRejected("the record has cells behind its last one")
            cell = stack.pop()
            if cut == UNCUT:
                spare -= self._close(*cell, spare)
            elif cut < d and cell[1][cut] > NARROWEST:
                stack += _parts(*cell, cut)
            else:
                raise ProofRejected(f"cell {number} is cut in no coordinate that it has")
        if stack:
            raise ProofRejected("the record ends before its last cell")
        lower = self.half * (self.upper / self.unit)
        return max(math.nextafter(lower, -math.inf), 0.0)

    def _classes_are_kept(self) -> bool:
        """Whether points that keep no row of one of the classes are not below U, either."""
        first, second = (math.fsum(w.tolist()) * (1.0 - 8 * U) for w in self.weight)
        least = 0.0 if self.free else LESS / (self.longest * self.longest)
        return all(
            dropped > self.k or self.lam * dropped * LESS + norm >= self.upper
            for dropped, norm in ((first, least), (second, least), (first + second, 0.0))
        )

    def _close(self, centre: Floats, half: Floats, spare: int) -> int:
        """Prove that a cell has no point below U, by cutting it if necessary; return the cells."""
        stack, count = [(centre, half)], 0
        while stack:
            cell = stack.pop()
            if not self._is_empty(*cell):
                cut = int(np.argmax(cell[1] * self.spread))
                if count >= spare or cell[1][cut] <= NARROWEST:
                    raise ProofRejected("the record does not show that a cell has no better point")
                count += 1
                stack += _parts(*cell, cut)
        return count

    # One cell.

    def _is_empty(self, centre: Floats, half: Floats) -> bool:
        """Whether no point of a cell is below U."""
        ranges = self._ranges(centre, half)
        points = _Points(0.0, self._largest(*ranges.most), ranges.most)
        for _ in range(ROUNDS):
            # Rows that are open here count once, also where later numbers drop some of them.
            opened, width = self._narrowed(ranges, points), points.high - points.low
            if opened is None:
                return True
            if self.rho and self._threshold_cost(ranges, opened, 0.0) >= self.upper:
                return True
            rows = self._open(ranges, opened)
            heights = self._heights(ranges, half, rows)
            if heights is None:
                return False
            points = self._matched(ranges, opened, rows, heights)
            if not points.low <= points.high:
                return True
            if self._is_closed(ranges, opened, points, rows, heights):
                return True
            if points.high - points.low > NARROWED * width:
                return False
        return False

    def _ranges(self, centre: Floats, half: Floats) -> _Ranges:
        near = np.maximum(np.abs(centre) - half, 0.0)
        square = float((self.metric * near * near).sum()) * (1.0 - 2 * (near.size + 6) * U)
        low, high, ends, sums = [], [], [], []
        for G, size, error, weight in zip(self.G, self.sizes, self.error, self.weight, strict=True):
            middle, radius = G @ centre, size @ half + error
            low.append(middle - radius)
            high.append(middle + radius)
            order = np.argsort(high[-1], kind="stable")
            ends.append(high[-1][order])
            sums.append(np.cumsum(weight[order]) * (1.0 - 2 * order.size * U))
        return _Ranges(square, tuple(low), tuple(high), tuple(ends), tuple(sums))

    def _price(self, ranges: _Ranges, points: _Points, dropped: float) -> float:
        """Return at most the value of points that drop a weight."""
        if dropped > self.k:
            return math.inf
        square = self._square(ranges, points)
        return (self.lam * dropped + 4.0 * square / points.high**2) * LESS

    def _threshold_cost(self, ranges: _Ranges, points: _Points, norm: float) -> float:
        """Return at most the cost of points, by the rows below their thresholds, and this norm."""
        ends, dropped = [], []
        for c, top in enumerate(points.tops):
            count = int(np.searchsorted(ranges.ends[c], top))
            below = np.append(0.0, ranges.sums[c][:count])
            count = int(np.searchsorted(below, self._most(norm) / LESS, side="right"))
            ends.append(np.append(ranges.ends[c][: below.size - 1], top)[:count])
            dropped.append(below[:count])
        if ends[0].size * ends[1].size > PAIRS:
            return 0.0
        low = np.minimum(ends[0][:, None], ends[1])
        high = np.maximum(ends[0][:, None], ends[1])
        s, m, V = low + high, 0.5 * (high - low), ranges.square
        norms = np.where(s > 0.0, 4.0 * (V + self.rho * m * m) / (s * s), math.inf)
        # The other threshold rises until the intercept costs more than it saves.
        inner = (low > 0.0) & ((high - low) * self.rho * low >= 2.0 * V)
        norms = np.where(inner, 1.0 / (low * low / V + 1.0 / self.rho), norms)
        weights = (dropped[0][:, None] + dropped[1]) * LESS
        costs = self.lam * weights + np.maximum(norms, norm)
        least = float(np.min(np.where(weights > self.k, math.inf, costs), initial=math.inf))
        # Larger weights cost the upper value or more.
        return least * LESS

    def _most(self, norm: float) -> float:
        """Return the largest weight that a point below U with such a squared norm drops."""
        return self.k if self.lam == 0.0 else min(self.k, max(self.upper - norm, 0.0) / self.lam)

    def _square(self, ranges: _Ranges, points: _Points) -> float:
        off = max(0.5 * points.low - top for top in points.tops)
        return (ranges.square + self.rho * max(off, 0.0) ** 2 * LESS) * LESS

    def _raised(self, ranges: _Ranges, points: _Points, dropped: float) -> _Points:
        """Return larger least s of points that drop a weight, or an empty interval."""
        if self._price(ranges, points, dropped) >= self.upper:
            return points._replace(low=math.inf)
        rest = self.upper - self.lam * dropped * LESS
        least = 2.0 * math.sqrt(self._square(ranges, points) / rest) * LESS
        return points._replace(low=max(points.low, least))

    def _largest(self, one: float, two: float) -> float:
        """Return the largest sum of thresholds up to these, which are equal without intercept."""
        return 2.0 * min(one, two) if self.rho == NO_INTERCEPT else _above(one, two)

    def _lost(self, ranges: _Ranges, points: _Points) -> tuple[Bools, Bools]:
        """Mark the rows that all points drop."""
        (one, two), low = points.tops, points.low
        limits = -_above(two, -low), -_above(one, -low)
        if self.rho == NO_INTERCEPT:
            limits = 0.5 * low, 0.5 * low
        return ranges.high[0] < limits[0], ranges.high[1] < limits[1]

    def _open(self, ranges: _Ranges, points: _Points) -> list[NDArray[np.intp]]:
        """Return the rows that are neither dropped nor kept, in the order of their upper ends."""
        found = []
        for c, lost in enumerate(self._lost(ranges, points)):
            rows = np.flatnonzero(~lost & (ranges.low[c] < points.tops[c]))
            found.append(rows[np.argsort(ranges.high[c][rows], kind="stable")])
        return found

    def _narrowed(self, ranges: _Ranges, points: _Points) -> _Points | None:
        """Return what the thresholds alone prove; None if there is no point."""
        for _ in range(ROUNDS):
            if not points.low <= points.high:
                return None
            before = points
            points = self._raised(ranges, points, self._lost_weight(ranges, points))
            if not 0.0 < points.low <= points.high:
                return None
            first, second = self._lost(ranges, points)
            if first.all() or second.all():
                return None
            lost = _below(self.weight[0][first]), _below(self.weight[1][second])
            most = self._most(self._price(ranges, points, 0.0)) / LESS
            tops = [
                min(top, _first(ends, sums > (most - other) / LESS))
                for top, ends, sums, other in zip(
                    points.tops, ranges.ends, ranges.sums, reversed(lost), strict=True
                )
            ]
            high = min(points.high, self._largest(*tops))
            points = points._replace(high=high, tops=(tops[0], tops[1]))
            if points.high - points.low > NARROWED * (before.high - before.low):
                break
        return points if points.low <= points.high else None

    def _heights(
        self, ranges: _Ranges, half: Floats, rows: list[NDArray[np.intp]]
    ) -> Floats | None:
        """Return the largest v'(g_k + g_l) of open rows; None if there are too many."""
        one, two = rows
        if one.size * two.size > PAIRS:
            return None
        heights = ranges.high[0][one][:, None] + ranges.high[1][two]
        for e in np.flatnonzero(half).tolist():
            g, other = self.G[0][one, e][:, None], self.G[1][two, e]
            heights += half[e] * (np.abs(g + other) - (np.abs(g) + np.abs(other)))
        return np.asarray(heights)

    def _dropped(self, rows: list[NDArray[np.intp]], conflicts: Bools, lost: float) -> float:
        """Return at most the weight that points drop if no conflict is kept on both sides."""
        one, two = rows
        if not (one.size and two.size):
            return lost
        if self.equal:
            mates = maximum_bipartite_matching(sp.csr_array(conflicts), perm_type="column")
            matched = np.flatnonzero(mates >= 0)
            partners = mates[matched]
            # Whatever the library returns is looked at.
            valid = conflicts[matched, partners].all() and np.unique(partners).size == partners.size
            return (lost + self.least * (matched.size * bool(valid))) * LESS
        left, rest, total = self.weight[0][one], self.weight[1][two].copy(), 0.0
        # Rows with large ends have few conflicts.
        for a in range(one.size - 1, -1, -1):
            room = np.where(conflicts[a], rest, 0.0)
            part = np.clip(left[a] - (np.cumsum(room) - room), 0.0, room)
            rest = np.maximum(rest - part, 0.0)
            total += float(part.sum())
        return lost + total * (1.0 - 16.0 * (one.size + two.size) * U)

    def _matched(
        self, ranges: _Ranges, points: _Points, rows: list[NDArray[np.intp]], heights: Floats
    ) -> _Points:
        """Return what conflicts prove at the least s, then above a larger one."""
        lost, before, dropped = self._lost_weight(ranges, points), 0.0, 0.0
        while before < points.low * (1.0 - 2.0**-6) and points.low <= points.high:
            before = points.low
            dropped = self._dropped(rows, heights < points.low, lost)
            points = self._raised(ranges, points, dropped)
        share = 0.5
        for _ in range(ROUNDS):
            if not points.low <= points.high:
                break
            # 4V/s² between its values at both ends.
            middle = (share * points.low**-2 + (1.0 - share) * points.high**-2) ** -0.5
            middle = min(max(middle, points.low), points.high)
            beyond = self._dropped(rows, heights < middle, lost)
            if self._price(ranges, points, beyond) >= self.upper:
                points = self._raised(ranges, points._replace(high=middle), dropped)
            elif share < 0.1:
                break
            else:
                share *= 0.25
        return points

    def _lost_weight(self, ranges: _Ranges, points: _Points) -> float:
        lost = self._lost(ranges, points)
        return sum(_below(w[mark]) for w, mark in zip(self.weight, lost, strict=True)) * LESS

    def _is_closed(
        self,
        ranges: _Ranges,
        opened: _Points,
        points: _Points,
        rows: list[NDArray[np.intp]],
        heights: Floats,
    ) -> bool:
        """Whether points that keep a support, and those that do not, are not below U."""
        marks, lost = self._lost(ranges, opened), self._lost_weight(ranges, opened)
        conflicts = heights < points.low
        dropped = self._dropped(rows, conflicts, lost)
        for support in self.supports:
            if any((mark & given).any() for mark, given in zip(marks, support.marked, strict=True)):
                continue
            kept = (self.lam * dropped + support.square) * LESS if dropped <= self.k else math.inf
            if self.rho and kept < self.upper:
                kept = self._threshold_cost(ranges, points, support.square)
            if kept < self.upper:
                continue
            inside = [given[part] for given, part in zip(support.marked, rows, strict=True)]
            outside = conflicts & ~(inside[0][:, None] | inside[1])
            weight = self._dropped(rows, outside, lost) + support.least
            if self._price(ranges, points, weight * LESS) >= self.upper:
                return True
        return False


def _sides(d: int) -> Any:
    """The sides of the cube [−1, 1]^d, as centres and half-widths."""
    for e in range(d):
        for end in (1.0, -1.0):
            centre, half = np.zeros(d), np.ones(d)
            centre[e], half[e] = end, 0.0
            yield centre, half


def _parts(centre: Floats, half: Floats, cut: int) -> list[tuple[Floats, Floats]]:
    """Return both parts of a cell, the upper one first: the lower one is the next of a stack."""
    half = half.copy()
    half[cut] *= 0.5
    parts = []
    for sign in (1.0, -1.0):
        moved = centre.copy()
        moved[cut] += sign * half[cut]
        parts.append((moved, half))
    return parts


def _above(first: float, second: float) -> float:
    return first + second + (abs(first) + abs(second)) * 2.0**-48


def _first(values: Floats, marks: Bools) -> float:
    """Return the first value that is marked; infinite if none is."""
    return float(values[np.argmax(marks)]) if marks.any() else math.inf


def _below(weights: Floats) -> float:
    return math.fsum(weights.tolist()) * (1.0 - 4 * U)
