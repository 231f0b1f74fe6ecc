"""Better points for a counting search, besides the tree: rows change sides one by one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Bools, Floats
from svmcvx.fast.search.exchange_passes import descend
from svmcvx.fast.search.state import CountingSearch, SearchSettings
from svmcvx.system.deadline import stop_flag

# Lengths of random moves, relative to the point's norm, and the margins of rows kept there.
MOVES, MARGINS = np.array([0.1, 0.3, 1.0]), np.array([0.01, 0.3, 0.7])
# The constant feature that stands for a free intercept, in units of the longest row. The squared
# intercept costs a thousandth of the squared norm or less; a larger feature hides how rows differ.
FREE_INTERCEPT = 30.0
# Number of columns of the factor from which margins come from the Gram matrix.
GRAM_COLUMNS = 16
# Number of random moves of the incumbent without an improvement, besides as many as there were up
# to the last one, after which the tree begins.
STILL = 40
# Work before the tree: least, and in nodes of the tree; and for a first point within a budget, in
# units of that: without one no M is known.
BEGINNING, BEGINNING_NODES, FIRST_POINT = 1e8, 100.0, 5.0
# Work of a search from which on there is some beside it, and the least share of that. The share is
# about that of the work up to the last better point.
LEAST, SHARE = 2e7, 0.1
# Numbers of dropped rows that a move keeps by force. In units of a row's price: the largest rise of
# the squared norm in such a move, and how much worse a set is, on average, that replaces the last.
FORCED, RISE, WORSE = np.array([1, 2, 3, 5, 8]), 3.0, 0.1
# The value of a good set, in units of the best one.
GOOD = 1.3
# Number of dropped rows, those with the largest margins, that an exchange tries to take in.
CANDIDATES = 8


class Exchange:
    """Iterated local search over least-norm points: rows are dropped, added and exchanged."""

    def __init__(self, search: CountingSearch, settings: SearchSettings) -> None:
        self.search, self.settings = search, settings
        # Work in all, and up to the last better point, of this value.
        self.work = self._useful = 0.0
        self._seen = math.inf
        # Good sets and their values, if they are to be remembered.
        self.good: dict[bytes, tuple[float, Bools]] | None = None
        self._rng = np.random.default_rng(0)
        self.rows = np.array(search.rows)
        if search.free:
            self.rows[:, -1] *= FREE_INTERCEPT * search.scale
        n, r = self.rows.shape
        # Points with few active rows have margins by few rows of the Gram matrix.
        wide = r >= GRAM_COLUMNS and n <= settings.whole
        self.gram = self.rows @ self.rows.T if wide else np.empty((0, 0))
        self._beginning = max(BEGINNING, BEGINNING_NODES * n * r * (r + 20))
        active = [
            (np.empty(r + 1, dtype=np.int64), np.empty((r + 1, r + 1)), np.empty(r + 1))
            for _ in range(3)
        ]
        near = np.empty(CANDIDATES, dtype=np.int64)
        self._w = np.empty(r)
        space = np.empty(r + 1), self._w, np.empty(n)
        self.scratch = near, tuple(active), space, np.empty(r + 1)
        self._length = np.sqrt(np.einsum("ij,ij->j", self.rows, self.rows))
        # Of rows in many columns some are kept by force: the last set that such moves have led to.
        self._last = np.ones(n, dtype=np.bool_) if wide and math.isinf(search.k) else None
        self._value = math.inf
        # The separable set that drops least, and its price, as long as there is no incumbent.
        self._nearest, self._nearest_price = np.zeros(n, dtype=np.bool_), math.inf

    def begin(self, sets: Iterable[Bools], limit: float | None = None) -> None:
        """Improve sets of kept rows, then the incumbent, until no gain or a limit."""
        search, most = self.search, self.work + (limit or self._beginning)
        with stop_flag(search.monitor.deadline) as stop:
            for kept in sets:
                self._improve(kept, most, stop)
            moves = last = 0
            while search.best is not None and moves < STILL + last:
                if stop[0] or self.work >= most:
                    break
                before = search.best_value
                if moves:
                    self._step(most, stop)
                else:
                    self._improve(~search.best.dropped[search.first], most, stop)
                moves += 1
                if search.best_value < before:
                    last = moves

    def keep_up(self, work: float, stop: NDArray[np.int64]) -> None:
        """Look for points in proportion to the work of a search, until the flag is set."""
        search = self.search
        while search.best is not None and work >= LEAST and not stop[0]:
            if search.best_value < self._seen:
                self._seen, self._useful = search.best_value, self.work
            if self.work >= max(SHARE * work, math.sqrt(self._useful * work)):
                break
            self._step(work, stop)

    def _step(self, most: float, stop: NDArray[np.int64]) -> None:
        """Improve a set near the best one, or, of rows in many columns, near the last one."""
        search, best = self.search, self.search.best
        if self._last is None or best is None or not best.w.any():
            self._improve(self._moved(), most, stop)
            return
        if search.best_value < self._value:
            self._last, self._value = ~best.dropped[search.first], search.best_value
        dropped, price = np.flatnonzero(~self._last), search.lam * float(search.weight.mean())
        forced = np.zeros(self._last.size, dtype=np.bool_)
        forced[self._rng.permutation(dropped)[: self._rng.choice(FORCED)]] = True
        kept, limit = self._last | forced, best.norm * search.scale**2 + RISE * price
        value = self._improve(kept, most, stop, (forced, limit))
        if value <= self._value + WORSE * price * self._rng.exponential():
            self._last, self._value = kept, value

    def improve(self, kept: Bools, stop: NDArray[np.int64]) -> None:
        """Improve and offer a set."""
        self._improve(kept, self.work + self._beginning, stop)

    def find_feasible(self) -> None:
        """Drop less from sets near the cheapest, until the budget covers it or the work ends."""
        search = self.search
        most = self.work + FIRST_POINT * self._beginning
        with stop_flag(search.monitor.deadline) as stop:
            # Few rows have few sets.
            for _ in range(self.rows.shape[0] ** 2):
                if search.best is not None or not self._nearest.any():
                    break
                if self.work >= most or stop[0]:
                    break
                # Without work for moves it leaves the point of least norm of the set.
                self._descend(self._nearest, self.work, stop, only_weight=True)
                u = self._moved_margins(self._w)
                self._improve(u >= self._rng.choice(MARGINS), most, stop)

    def _improve(
        self, kept: Bools, most: float, stop: NDArray[np.int64], first: Any = None
    ) -> float:
        """Improve and offer a set within `most` work, and return its objective; without an
        incumbent first drop least.
        """
        search = self.search
        if search.best is None:
            price = self._descend(kept, most, stop, only_weight=True)
            if price < self._nearest_price:
                self._nearest, self._nearest_price = kept.copy(), price
        value = self._descend(kept, most, stop, first)
        if value < search.cutoff:
            search.try_set(kept)
        return value

    def _descend(
        self,
        kept: Bools,
        most: float,
        stop: NDArray[np.int64],
        first: Any = None,
        *,
        only_weight: bool = False,
    ) -> float:
        """Improve a set in place; return its objective, or with `only_weight` its price."""
        lam, k = (1e8, math.inf) if only_weight else (self.search.lam, self.search.k)
        # A product with all rows, in the unit of the tree's work.
        cost = 2.0 * self.rows.size
        left = max((most - self.work) / cost, 0.0)
        first = first or (np.zeros(kept.size, dtype=np.bool_), math.inf)
        value, products = descend(
            self.rows, self.gram, self.search.weight, lam, k, kept, first, left, *self.scratch, stop
        )
        self.work += cost * (products + 1)
        if self.good is not None and value < GOOD * self.search.best_value:
            self.good[kept.tobytes()] = float(value), kept.copy()
        return float(value)

    def _moved(self) -> Bools:
        """Return the rows with a margin above a threshold at a random point near the incumbent."""
        search, best = self.search, self.search.best
        assert best is not None  # noqa: S101 - asked for before
        w = best.w * search.scale
        if search.free:
            w = np.append(w, best.b / FREE_INTERCEPT)
        u = self._moved_margins(w)
        margin = self._rng.choice(MARGINS)
        if math.isinf(search.k):
            return np.asarray(u >= margin)
        order = np.argsort(u, kind="stable")
        kept = np.ones(u.size, dtype=np.bool_)
        kept[order[np.cumsum(search.weight[order]) <= search.k]] = False
        return kept

    def _moved_margins(self, w: Floats) -> Floats:
        size = min(float(np.linalg.norm(w)), 1e300) / math.sqrt(w.size)
        # No coordinate changes the margins by more than their size.
        with np.errstate(divide="ignore", invalid="ignore"):
            most = np.fmin(size, np.linalg.norm(self.rows @ w) / self._length)
        move = self._rng.choice(MOVES) * most * self._rng.standard_normal(w.size)
        return np.asarray(self.rows @ (w + move))
