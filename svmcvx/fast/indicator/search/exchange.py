"""Better points for a search, found besides the tree: rows change sides one by one, from points
near the incumbent.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.rows import row_norms_above
from svmcvx.fast.indicator.search.exchange_passes import descend, ramp_descend
from svmcvx.fast.indicator.search.state import (
    CountingSearch,
    RampSearch,
    SearchSettings,
    SearchState,
)
from svmcvx.system.deadline import stop_flag

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# The cost of a product with all rows, for each entry of the rows and in the unit of the tree's
# work.
COST = 2.0
# Lengths of random moves, as shares of the norm of the point, and the margins above which rows are
# kept there.
MOVES, MARGINS, RAMP_MARGINS = (
    np.array([0.1, 0.3, 1.0]),
    np.array([0.01, 0.3, 0.7]),
    np.array([-1.0, -0.5, 0.0]),
)
# Price of a dropped row while there is no feasible point, in units of the longest row: so large
# that norms outweigh no weight.
DEAR = 1e8
# The constant feature that stands for a free intercept, in units of the longest row.
FREE_INTERCEPT = 1e3


class Exchange(ABC):
    """Iterated local search from the incumbent of a search."""

    def __init__(self, search: SearchState, settings: SearchSettings) -> None:
        self.search, self.settings = search, settings
        self.work = 0.0
        self._rng = np.random.default_rng(0)

    def begin(self, sets: Iterable[Bools], limit: float = math.inf) -> None:
        """Improve sets of kept rows, and then the incumbent until that brings nothing any more or a
        limit, of the clock or of work, is reached.
        """
        most = min(self._beginning, limit)
        with stop_flag(self.search.monitor.deadline) as stop:
            for kept in sets:
                self._improve(kept, most, stop)
            moves = last = 0
            before = self.search.best_value
            while self.search.best is not None and moves < self.settings.moves + last:
                if stop[0] or self.work >= most:
                    break
                self._improve(self._moved() if moves else self._incumbent_rows(), most, stop)
                moves += 1
                if self.search.best_value < before:
                    before, last = self.search.best_value, moves

    @property
    def _beginning(self) -> float:
        """The largest work before the tree."""
        n, r = self.search.rows.shape
        least, nodes = self.settings.beginning
        return max(least, float(nodes * n * r * (r + 20)))

    def keep_up(self, work: float, stop: NDArray[np.int64]) -> None:
        """Look for points in proportion to the work of the tree, until the flag is set."""
        beside = self.settings.beside
        most = math.sqrt(beside * work) if work >= beside else 0.0
        while self.search.best is not None and self.work < most and not stop[0]:
            self._improve(self._moved(), most, stop)

    @abstractmethod
    def _improve(self, kept: Bools, most: float, stop: NDArray[np.int64]) -> None:
        """Improve a set of rows, and offer what it comes to; end once all work is about `most`."""

    @abstractmethod
    def _moved(self) -> Bools:
        """Return the rows that a random point near the incumbent keeps."""

    def _incumbent_rows(self) -> Bools:
        """Return the rows that the incumbent keeps."""
        assert self.search.best is not None  # noqa: S101 - asked for before
        return ~self.search.best.dropped[self.search.first]

    def _moved_margins(self, rows: Floats, w: Floats, length: Floats) -> Floats:
        """Return the margins of rows at a random point near another; `length` has the norms of the
        columns.
        """
        size = min(float(np.linalg.norm(w)), 1e300) / math.sqrt(w.size)
        # No coordinate changes the margins by more than their size.
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.fmin(size, np.linalg.norm(rows @ w) / length)
        return np.asarray(
            rows @ (w + self._rng.choice(MOVES) * most * self._rng.standard_normal(w.size))
        )


class CountingExchange(Exchange):
    """Rows are dropped, taken in, and exchanged; points are those of least norm."""

    search: CountingSearch

    def __init__(self, search: CountingSearch, settings: SearchSettings) -> None:
        super().__init__(search, settings)
        self.rows = np.array(search.rows)
        if search.free:
            self.rows[:, -1] *= FREE_INTERCEPT * search.scale
        n, r = self.rows.shape
        active = [
            (np.empty(r + 1, dtype=np.int64), np.empty((r + 1, r + 1)), np.empty(r + 1))
            for _ in range(3)
        ]
        near = np.empty(settings.candidates, dtype=np.int64)
        self._w = np.empty(r)
        space = np.empty(r + 1), self._w, np.empty(n)
        self._scratch = near, tuple(active), space, np.empty(r + 1)
        self._length = np.sqrt(np.einsum("ij,ij->j", self.rows, self.rows))
        # The separable set that drops least, and its price, as long as there is no incumbent.
        self._nearest, self._nearest_price = np.zeros(n, dtype=np.bool_), math.inf

    def find_feasible(self) -> None:
        """Drop less and less from sets near the one that drops least, until the budget covers what
        is dropped or the work is done.
        """
        search = self.search
        most = self.work + self.settings.first_point * self._beginning
        with stop_flag(search.monitor.deadline) as stop:
            # Few rows have few sets.
            for _ in range(self.rows.shape[0] ** 2):
                if (
                    search.best is not None
                    or not self._nearest.any()
                    or self.work >= most
                    or stop[0]
                ):
                    break
                # Without work for moves it leaves the point of least norm of the set.
                self._descend(DEAR, math.inf, self._nearest, self.work, stop)
                u = self._moved_margins(self.rows, self._w, self._length)
                self._improve(u >= self._rng.choice(MARGINS), most, stop)

    def _improve(self, kept: Bools, most: float, stop: NDArray[np.int64]) -> None:
        """Improve a set of kept rows by single moves and exchanges; without an incumbent it first
        drops as little as possible.
        """
        search = self.search
        if search.best is None:
            price = self._descend(DEAR, math.inf, kept, most, stop)
            if price < self._nearest_price:
                self._nearest, self._nearest_price = kept.copy(), price
        value = self._descend(search.lam, search.k, kept, most, stop)
        if value < search.cutoff:
            search.try_set(kept)

    def _descend(
        self, lam: float, k: float, kept: Bools, most: float, stop: NDArray[np.int64]
    ) -> float:
        cost = COST * self.rows.size
        left = int(max((most - self.work) / cost, 1))
        value, products = descend(
            self.rows, self.search.weight, lam, k, kept, left, *self._scratch, stop
        )
        self.work += cost * (products + 1)
        return float(value)

    def _moved(self) -> Bools:
        """Return the rows with a margin above a threshold at a random point near the incumbent."""
        search, best = self.search, self.search.best
        assert best is not None  # noqa: S101 - asked for before
        w = best.w * search.scale
        if search.free:
            w = np.append(w, best.b / FREE_INTERCEPT)
        u = self._moved_margins(self.rows, w, self._length)
        margin = self._rng.choice(MARGINS)
        if math.isinf(search.k):
            return np.asarray(u >= margin)
        order = np.argsort(u, kind="stable")
        kept = np.ones(u.size, dtype=np.bool_)
        kept[order[np.cumsum(search.weight[order]) <= search.k]] = False
        return kept


class RampExchange(Exchange):
    """Rows are dropped and taken in; points are hinge machines of the kept rows, by Newton's
    method.
    """

    search: RampSearch

    def __init__(self, search: RampSearch, settings: SearchSettings) -> None:
        super().__init__(search, settings)
        self.HT, self.length = np.ascontiguousarray(search.rows.T), row_norms_above(search.H)
        r, n = self.HT.shape
        self._scratch = (
            np.empty(settings.candidates, dtype=np.int64), np.empty(settings.candidates), np.empty(n, dtype=np.int8),
            (tuple(np.empty((7, n))), tuple(np.empty((4, r))), np.empty((r + 1, r))),
        )  # fmt: skip
        self._column = np.linalg.norm(self.HT, axis=1)
        self._start = np.zeros(r)

    def _improve(self, kept: Bools, most: float, stop: NDArray[np.int64]) -> None:
        """Improve a set of kept rows by single moves."""
        search, (r, n) = self.search, self.HT.shape
        cost = float(n * r * (r + 20))
        left = int(max((most - self.work) / cost, 1))
        box, w = search.bias_interval(search.cutoff), self._start.copy()
        value, machines = ramp_descend(
            (self.HT, self.length), search.weight, search.lam, search.cut, *box, kept, left, w,
            *self._scratch, stop,
        )  # fmt: skip
        self.work += cost * machines
        if value < search.cutoff:
            search.try_point(w)

    def _moved(self) -> Bools:
        """Return the rows with a margin above a threshold at a random point near the incumbent."""
        best, scale = self.search.best, self.search.scale
        assert best is not None  # noqa: S101 - asked for before
        self._start = np.append(best.w * scale, best.b * scale)
        return np.asarray(
            self._moved_margins(self.HT.T, self._start, self._column)
            >= self._rng.choice(RAMP_MARGINS)
        )
