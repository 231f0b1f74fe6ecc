"""Better points for a search, found besides the tree: rows of the kept set are exchanged one by one."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.indicator.search.exchange_passes import descend
from svmcvx.fast.indicator.search.search_state import CountingSearch

__all__ = ["Exchange"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Work of the tree from which on points are looked for: smaller trees end before that pays.
BEGIN = 2e7
# The cost of a product with all rows, for each entry of the rows and in the unit of the tree's work.
COST = 2.0
# Lengths of random moves, as shares of the norm of the point, and the margins above which rows are kept there.
MOVES, MARGINS = np.array([0.1, 0.3, 1.0]), np.array([0.01, 0.3, 0.7])
# Largest number of dropped rows that are tried, and of products with all rows for one set.
CANDIDATES, MOST = 8, 20_000
# The constant feature that stands for a free intercept, in units of the longest row.
FREE_INTERCEPT = 1e3


class Exchange:
    """Iterated local search from the incumbent of a search.

    The incumbent is moved at random, and the set of rows that the moved point keeps is improved by single moves and exchanges. Its work grows as the
    square root of the work of the tree. The draws depend on the problem alone.

    Parameters
    ----------
    search : CountingSearch

    Attributes
    ----------
    work : float
        Work so far, in the unit of :attr:`~svmcvx.fast.indicator.search.branch_and_bound.BranchAndBound.work`.
    """

    def __init__(self, search: CountingSearch) -> None:
        self.search = search
        self.work = 0.0
        self._rng = np.random.default_rng(0)

    def keep_up(self, work: float, stop: NDArray[np.int64]) -> None:
        """Look for points in proportion to the work of the tree, until the flag is set."""
        if work < BEGIN or self.search.best is None:
            return
        if not self.work:
            self._prepare()
        while self.work < math.sqrt(BEGIN * work) and not stop[0]:
            kept = self._moved() if self.work else self._incumbent_rows()
            value, products = descend(
                self.rows, self.search.weight, self.search.lam, self.search.k, kept, MOST, *self._scratch, stop
            )
            self.work += COST * self.rows.size * (products + 1)
            if value < self.search.cutoff:
                self.search.try_set(kept)

    def _prepare(self) -> None:
        search = self.search
        self.rows = np.array(search.rows)
        if search.free:
            self.rows[:, -1] *= FREE_INTERCEPT * search.scale
        n, r = self.rows.shape
        active = [(np.empty(r + 1, dtype=np.int64), np.empty((r + 1, r + 1)), np.empty(r + 1)) for _ in range(3)]
        near = np.empty(CANDIDATES, dtype=np.int64)
        self._scratch = (near, *active, np.empty(r + 1), np.empty(r), np.empty(n), np.empty(r + 1))
        self._length = np.sqrt(np.einsum("ij,ij->j", self.rows, self.rows))

    def _incumbent_rows(self) -> Bools:
        """Return the rows that the incumbent keeps."""
        assert self.search.best is not None  # noqa: S101 - asked for in keep_up
        return ~self.search.best.dropped[self.search.first]

    def _moved(self) -> Bools:
        """Return the rows with a margin above a threshold at a random point near the incumbent.

        With a budget, these are all rows but those of the smallest margins that the budget covers.
        """
        search, best, rng = self.search, self.search.best, self._rng
        assert best is not None  # noqa: S101 - asked for in keep_up
        w = best.w * search.scale
        if search.free:
            w = np.append(w, best.b / FREE_INTERCEPT)
        size = min(float(np.linalg.norm(w)), 1e300) / math.sqrt(w.size)
        # No coordinate changes the margins by more than their size.
        with np.errstate(divide="ignore"):
            most = np.minimum(size, np.linalg.norm(self.rows @ w) / self._length)
        u = self.rows @ (w + rng.choice(MOVES) * most * rng.standard_normal(w.size))
        margin = rng.choice(MARGINS)
        if math.isinf(search.k):
            return np.asarray(u >= margin)
        order = np.argsort(u, kind="stable")
        kept = np.ones(u.size, dtype=np.bool_)
        kept[order[np.cumsum(search.weight[order]) <= search.k]] = False
        return kept
