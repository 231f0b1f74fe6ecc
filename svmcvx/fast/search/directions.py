r"""Exact search over directions, for losses that count and few columns.

A linear machine is a direction and two thresholds. Cells of directions are bounded and cut in two
(:mod:`svmcvx.fast.search.direction_passes`). Neither the intercept nor the length of w is a
coordinate, so that d columns make d − 1 dimensions. The number of cells grows exponentially in d,
and with the number of rows where many of them are near the optimal thresholds. The axes are the
best direction, in the middle of a side of the cube, and the principal axes of the rows across it.

**Record.** The axes, the coordinates of the cuts, a value that no point falls below, and the
supports suffice to prove the bound again.
"""

from __future__ import annotations

import heapq
import math
from concurrent.futures import Executor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.fast.search.direction_passes import (
    BOUND,
    CUT,
    HIGH,
    NO_INTERCEPT,
    NUMBER,
    NUMBERS,
    bound_cells,
)
from svmcvx.fast.search.state import CountingSearch, Support
from svmcvx.fast.search.tree import RoundSearch
from svmcvx.solution import Status

# Pairs of open rows of a cell up to which conflicts are looked for, of 8 bytes each.
PAIRS = 60_000
# Cells that a thread bounds at a time, and that are one entry of the queue; and that a round cuts.
PART, TASKS = 32, 1024
# Share of the work of a full round after which one ends.
ROUND = 0.3
# Supports of a record, the latest ones; cells are bounded by the last one.
SUPPORTS = 8
# Half-width of cells that are not cut any further.
NARROW = 2.0**-40
# The best point of a round is refitted if it is this much above the incumbent, or less.
NEAR = 0.1
# Largest size of the exponents of columns, in units of the longest row: squares stay finite.
UNEQUAL = 200
# Ratio of the sizes of columns up to which axes are combinations of them.
ALIKE = 1000.0
# Least singular value of the columns, of length 1, in units of the largest, below which they count
# as dependent.
DEPENDENT = 1e-3
# The entry of a record for a cell that is not cut; the share by which its value is lowered.
UNCUT, LOWERED = 255, 1.0 - 2.0**-34


class Directions(RoundSearch):
    """A search over cells of directions."""

    search: CountingSearch
    way = "directions"

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        search = self.search
        self.columns, H = _columns(search)
        self.axes = _axes(H, None if search.best is None else search.best.w[self.columns])
        # Coordinates of about the same size.
        self.exponents = np.frexp(np.abs(H @ self.axes).mean(axis=0))[1]
        self.G = np.ldexp(H @ self.axes, -self.exponents)
        d = self.columns.size
        labels = search.statement.geometry.y[search.first]
        self.members = np.flatnonzero(labels > 0), np.flatnonzero(labels < 0)
        size = np.ldexp(np.abs(H) @ np.abs(self.axes), -self.exponents).sum(axis=1)
        error = 4.0 * (d + 8) * 2.0**-53 * size
        self.classes: Any = tuple(
            (values[self.members[0]].T.copy(), values[self.members[1]].T.copy())
            for values in (self.G, error, search.weight)
        )
        self.equal = bool((search.weight == search.weight[0]).all())
        # The price of the squared intercept, in units of the squared norm.
        prices = {"free": 0.0, "penalised": search.scale**2, "none": NO_INTERCEPT}
        rho = prices[search.statement.space.intercept]
        # The axes are orthogonal up to rounding.
        product = np.abs(self.axes.T @ self.axes - np.eye(d)).sum(axis=1)
        metric = 1.0 - product - 4.0 * d * (d + 4) * 2.0**-53
        self.shape = np.ldexp(metric, -2 * self.exponents), rho, PAIRS
        self.supports: list[Support] = []
        # Arrays that threads work on, if no thread does.
        self.idle: list[tuple[Any, ...]] = []
        # Numbers of the cells that were cut, with the coordinates.
        self.cuts: list[tuple[NDArray[np.intp], NDArray[np.intp]]] | None = []

    @staticmethod
    def takes(search: CountingSearch) -> bool:
        """Whether the cells cover all points below the incumbent's value."""
        exponents = np.frexp(np.abs(_columns(search)[1]).mean(axis=0))[1]
        labels = search.statement.geometry.y[search.first]
        sides = [float(search.weight[labels == sign].sum()) for sign in (1.0, -1.0)]
        # A point that keeps no row of a class drops the class. Where a row is kept, its norm is at
        # least 1, unless the intercept is free: then a constant score is no worse.
        least = min(sides)
        covered = search.lam * least + (not search.free) >= search.cutoff
        return (
            exponents.size > 1
            and int(np.abs(exponents).max()) <= UNEQUAL
            and math.isfinite(search.cutoff)
            and (covered or least > search.k)
        )

    def _begin(self, pool: Executor) -> Status | None:
        """Bound the sides of the cube."""
        d = self.columns.size
        cells = np.zeros((2 * d, 2 * d + NUMBERS))
        cells[:, d : 2 * d] = 1.0
        cells[:, 2 * d + HIGH : 2 * d + BOUND] = math.inf
        sides = np.arange(2 * d)
        cells[sides, sides // 2] = 1.0 - 2.0 * (sides % 2)
        cells[sides, d + sides // 2] = 0.0
        # A side that cannot be bounded in time is cut in its first coordinate.
        cells[:, 2 * d + CUT] = np.where(sides < 2, 1.0, 0.0)
        self.work += self._add(cells, pool)
        return self._end_round()

    def _round(self, pool: Executor) -> Status | None:
        """Cut the most promising cells in two, again and again until that was some work."""
        whole = ROUND * self.settings.round_work
        end = self.work + whole
        while self.queue and self.work < end and not self.stop[0]:
            work = self._cut(pool)
            self.work += work
            # As many as take the work of a round, at most.
            most = max(int(self.tasks * whole / max(work, 1.0)), 1)
            self.tasks = min(2 * self.tasks, TASKS, most)
        return self._end_round()

    def _cut(self, pool: Executor) -> float:
        """Cut the most promising cells in two; return the work."""
        search, d, parents = self.search, self.columns.size, list[Floats]()
        while self.queue and PART * len(parents) < self.tasks:
            parents.append(self._next(8.0 * PART * (2 * d + NUMBERS))[2])
        cells = np.concatenate(parents)
        bounds, cuts = cells[:, 2 * d + BOUND], cells[:, 2 * d + CUT].astype(np.intp)
        useful, narrow = bounds < search.cutoff, cells[np.arange(cuts.size), d + cuts] < NARROW
        narrow |= cuts < 0
        search.mark_unresolved(float(bounds.min(initial=math.inf, where=useful & narrow)))
        # Cells above one that cannot be resolved do not raise what is proved.
        useful &= ~narrow & (bounds < search.unresolved_bound)
        cells, cuts = cells[useful], cuts[useful]
        if self.cuts is not None:
            self.cuts.append((cells[:, 2 * d + NUMBER].astype(np.intp), cuts))
            self.cuts = self.cuts if 50.0 * self.nodes <= self.settings.record else None
        cells, cuts = np.repeat(cells, 2, axis=0), np.repeat(cuts, 2)
        parts = np.arange(cuts.size)
        cells[parts, d + cuts] *= 0.5
        cells[parts, cuts] += np.where(parts % 2, 1.0, -1.0) * cells[parts, d + cuts]
        return self._add(cells, pool)

    def _add(self, cells: Floats, pool: Executor) -> float:
        """Bound cells, keep the open ones, and offer the best point at their centres; return the
        work.
        """
        search, d = self.search, self.columns.size
        new = search.support
        if new is not None and new.rows.size and all(new is not one for one in self.supports):
            self.supports = [*self.supports, new][-SUPPORTS:]
        upper = search.cutoff
        price, support = (search.lam, search.k, upper), self._packed_support()

        def bound(part: Floats) -> tuple[float, Floats]:
            best = np.zeros(3 + d)
            best[0] = upper * (1.0 + NEAR)
            try:
                scratch = self.idle.pop()
            except IndexError:  # another thread may have taken the last ones
                scratch = self._scratch()
            work = bound_cells(
                part, self.classes, price, self.shape, support, scratch, best, self.stop
            )
            self.idle.append(scratch)
            return work, best

        parts = [cells[begin : begin + PART] for begin in range(0, len(cells), PART)]
        found = list(pool.map(bound, parts))
        cells[:, 2 * d + NUMBER] = self.nodes + np.arange(len(cells))
        self.nodes += len(cells)
        bounds = cells[:, 2 * d + BOUND]
        order = np.argsort(bounds, kind="stable")[: np.count_nonzero(bounds < upper)]
        for begin in range(0, order.size, PART):
            part = cells[order[begin : begin + PART]]
            least, number = part[0, [2 * d + BOUND, 2 * d + NUMBER]].tolist()
            heapq.heappush(self.queue, (least, number, part))
        _, best = min(found, key=lambda one: float(one[1][0]), default=(0.0, np.zeros(3)))
        if best[1:3].any():
            self._offer(best)
        return sum(work for work, _ in found)

    def _offer(self, best: Floats) -> None:
        """Try the set of rows that thresholds keep in a direction."""
        kept = np.zeros(len(self.G), dtype=np.bool_)
        for rows, theta in zip(self.members, best[1:3], strict=True):
            # Thresholds are the values of rows up to rounding.
            kept[rows] = self.G[rows] @ best[3:] >= theta - 2.0**-40 * abs(theta)
        self.search.try_set(kept)

    def _packed_support(self) -> tuple[NDArray[np.int64], float, float]:
        if not self.supports:
            return np.empty(0, dtype=np.int64), 0.0, 0.0
        last, places = self.supports[-1], np.empty(len(self.G), dtype=np.int64)
        places[np.concatenate(self.members)] = np.arange(len(self.G))
        return places[last.rows], last.norm, float(self.search.weight[last.rows].min())

    def _scratch(self) -> tuple[Any, ...]:
        sizes = [rows.size for rows in self.members]

        def both(dtype: Any, more: int = 0) -> tuple[NDArray[Any], ...]:
            return tuple(np.empty(size + more, dtype=dtype) for size in sizes)

        few, few_too = (min(size, PAIRS) + 1 for size in sizes)
        words = few_too // 64 + 1
        heights = np.empty(min(PAIRS, sizes[0] * sizes[1]))
        bits = np.empty(PAIRS // 64 + few, dtype=np.uint64)
        marks = np.zeros(64 * words, dtype=np.uint8)
        masks = tuple(np.empty(words, dtype=np.uint64) for _ in range(3))
        path, near = np.empty(few, dtype=np.int64), np.empty((self.columns.size + 1) * few_too)
        return (
            (both(float), both(float), both(float)),
            (both(np.int64), both(float, 1), both(float, 1)),
            (heights, bits, marks, masks, path, both(float), self.equal),
            (both(np.bool_), both(np.int64), both(np.int64), near),
        )

    @property
    def proof(self) -> dict[str, NDArray[Any]]:
        """Arrays that prove the bound; none without a record, or of a factor."""
        search, space = self.search, self.search.statement.space
        if self.cuts is None or not (self.proved > 0.0 and space.factor_is_data):
            return {}
        # The parts of the j-th cell that is cut have the numbers 2d + 2j and 2d + 2j + 1.
        d = self.columns.size
        below, sizes = 2 * d, np.ones(self.nodes, dtype=np.intp)
        turns = []
        for numbers, cuts in self.cuts:
            turns.append((numbers, cuts, below + 2 * np.arange(numbers.size)))
            below += 2 * numbers.size
        for numbers, _, parts in turns[::-1]:
            sizes[numbers] += sizes[parts] + sizes[parts + 1]
        places, preorder = np.empty_like(sizes), np.full(sizes.size, UNCUT, dtype=np.uint8)
        places[: 2 * d] = np.cumsum(sizes[: 2 * d]) - sizes[: 2 * d]
        for numbers, cuts, parts in turns:
            preorder[places[numbers]] = cuts
            places[parts] = places[numbers] + 1
            places[parts + 1] = places[parts] + sizes[parts]
        exponents = np.zeros(space.data.X.shape[1], dtype=np.int32)
        exponents[self.columns] = self.exponents
        found = {
            "cut": preorder,
            "exponent": exponents,
            "axes": self.axes,
            "below": np.array(self.proved * LOWERED / search.scale**2),
        }
        return found | search.proof_of(self.supports)


def _columns(search: CountingSearch) -> tuple[NDArray[np.intp], Floats]:
    """Return the columns that are not zero, the constant apart, and the distinct rows in these."""
    H = search.H[:, :-1] if search.statement.space.intercept == "penalised" else search.H
    columns = np.flatnonzero(H.any(axis=0))
    return columns, H[:, columns]


def _axes(H: Floats, w: Floats | None) -> Floats:
    """Return orthogonal axes: w and the principal axes of the rows across it, or the columns if
    the rows are much longer along some axes or columns than along others.
    """
    columns = np.eye(H.shape[1])
    if w is None or not w.any():
        return columns
    first = w / np.linalg.norm(w)
    across = H - np.outer(H @ first, first)
    principal = np.linalg.svd(across.T @ across)[2][:-1]
    axes = np.linalg.qr(np.column_stack([first, principal.T]))[0]
    sizes = np.abs(H @ np.hstack([columns, axes])).mean(axis=0)
    return axes if sizes.max() <= ALIKE * sizes.min() else columns


def column_count(search: CountingSearch, most: int) -> int:
    """Return the number of columns that are not zero, the constant apart; 0 for more than `most`,
    and for columns that are almost dependent: cells are narrow in no combination of columns.
    """
    _, H = _columns(search)
    if not 0 < H.shape[1] <= most:
        return 0
    values = np.linalg.svd(H / np.linalg.norm(H, axis=0), compute_uv=False)
    return H.shape[1] if values[-1] >= DEPENDENT * values[0] else 0
