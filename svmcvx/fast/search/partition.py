r"""Bound by a partition of the observations, for losses that count and many more rows than columns.

With blocks b of the observations, each in one of B, every point costs

.. math:: \tfrac12\|w\|^2 + C\sum_i s_iz_i = \sum_b \tfrac1B\Bigl(\tfrac12\|w\|^2
    + BC\sum_{i\in b} s_iz_i\Bigr),

so that the mean of the blocks' optima at the price BC bounds it. Branch and bound proves these,
since its work grows steeply with the number of rows. Blocks are alike at first: of a row and its
nearest of the same class each goes to another one. Then rows of the same class change places, so
that no point that is known is cheap in a block. Blocks grow as long as they end in their work.
"""

from __future__ import annotations

import math
from concurrent.futures import Executor
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Bools, Floats
from svmcvx.fast.search.exchange import Exchange
from svmcvx.fast.search.state import CountingSearch
from svmcvx.fast.search.tree import BranchAndBound, RoundSearch
from svmcvx.formulations.base import bound_space, full_entry
from svmcvx.formulations.indicator.statement import L0
from svmcvx.formulations.signed_rows import violated
from svmcvx.solution import Status

# Rows of the first blocks, for each column and besides; more observations are not partitioned.
ROWS, MORE_ROWS, MOST = 4, 20, 3000
# Factor of the number of blocks if more than a quarter of them do not end.
MORE_BLOCKS = 1.2
# Gap at which a block has ended, the work of a block, at first, and rounds of two blocks that end
# without a better bound, after which the search ends.
GAP, WORK, IDLE = 1e-4, 5e8, 10
# Points by which blocks are balanced, and the new ones of a block; pairs of rows that are looked
# at, and the work of a pair and point.
POINTS, NEW, SWAPS, SWAP_WORK = 400, 40, 20_000, 50.0


class Partition(RoundSearch):
    """Branch and bound on blocks of the observations."""

    search: CountingSearch
    way, ends = "partition", False

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        search, self.queue = self.search, [(0.0,)]
        self.sides = [np.flatnonzero(search.statement.y == sign) for sign in (1.0, -1.0)]
        n, columns = search.statement.geometry.G.shape
        wanted = max(round(n / (ROWS * columns + MORE_ROWS)), 2)
        self.most = min(side.size for side in self.sides)
        self.count, self.limit = min(wanted, self.most), WORK
        self.block, self.idle = np.zeros(0, dtype=np.intp), 0
        # The blocks of the best bound, and the search of each.
        self.proved_by: tuple[NDArray[np.intp], list[BranchAndBound]] = self.block, []
        # Points: the squared norm, and the weight of each row that it drops.
        best = search.best
        assert best is not None  # noqa: S101 - without a budget constant scores are feasible
        self.norms = np.array([best.norm])
        self.dropped = (violated(best.u) * search.statement.weight)[None]
        self._rng = np.random.default_rng(0)

    @staticmethod
    def takes(search: CountingSearch) -> bool:
        """Whether there are blocks of a problem."""
        statement = search.statement
        fewest = min(np.count_nonzero(statement.y == sign) for sign in (1.0, -1.0))
        linear = statement.space.is_linear and math.isinf(search.k)
        return bool(linear and fewest > 1 and statement.y.size <= MOST)

    def _round(self, pool: Executor) -> Status | None:
        """Bound the blocks of another partition."""
        if self.block.max(initial=-1) != self.count - 1:
            self.block = self._spread()
        self._balance()
        members = [np.flatnonzero(self.block == number) for number in range(self.count)]
        # The record of all blocks is no larger than that of one search.
        self.room = self.settings.record
        trees, ended = zip(*[self._bounded(rows, pool) for rows in members], strict=True)
        bounds = [tree.search.bound for tree in trees]
        lower = math.fsum(bound.value - bound.allowance for bound in bounds)
        mean = lower / self.count * (1.0 - 2.0**-40) * self.search.unit
        if mean > self.open_bound:
            self.queue, self.proved_by = [(mean,)], (self.block.copy(), [*trees])
            self.idle = 0
        if not all(ended):
            self.limit *= 2.0
            if 4 * sum(ended) < 3 * self.count:
                self.count = min(math.ceil(MORE_BLOCKS * self.count), self.most)
        elif self.count > 2:
            self.count -= 1
        else:
            self.idle += 1
        status = self._end_round()
        return Status.NUMERICAL if status is None and self.idle > IDLE else status

    @property
    def proof(self) -> dict[str, NDArray[Any]]:
        """Arrays that prove the bound, the trees of the blocks one after the other."""
        block, trees = self.proved_by
        found = [tree.proof for tree in trees]
        if not (found and all(found)):
            return {}
        arrays = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
        if "centre" in arrays:
            arrays["centre"] = arrays["centre"].reshape(len(trees), -1)
        share = 1.0 / len(trees)
        if Fraction(share) * len(trees) > 1:
            share = math.nextafter(share, 0.0)
        rows = full_entry(block.astype(np.float64), self.search.statement.space.data)
        return arrays | {
            "nodes": np.array([one["branch"].size for one in found], dtype=np.int32),
            "share": np.full(len(trees), share),
            "block": rows.astype(np.uint8),
        }

    def _bounded(self, rows: NDArray[np.intp], pool: Executor) -> tuple[BranchAndBound, bool]:
        """Return the search of a block, and whether it has ended; collect points."""
        search, whole = self.search, self.search.statement
        space, data = whole.space, whole.space.data
        name, rule = ("C", "free") if isinstance(whole, L0) else ("lam", "penalised")
        own = bound_space(
            data.X[rows], data.y[rows], None, space.intercept, data.weight[rows], "error", own=rule
        )
        # No larger than what the observations cost.
        price = math.nextafter(whole.price * self.count, 0.0)
        block = replace(whole, space=own, pool=(), **{name: price})
        zero = np.zeros(block.geometry.G.shape[1])
        biases = (1.0, -1.0) if search.free else (0.0,)
        pooled = tuple(block.geometry.incumbent(zero, bias, violated) for bias in biases)
        inner = CountingSearch(replace(block, pool=pooled), search.monitor.within(GAP, 10**9))
        exchange = Exchange(inner, self.settings)
        exchange.good = {}
        costs = self.norms * whole.half + price * self.dropped[:, rows].sum(axis=1)
        starts = self.dropped[np.argsort(costs, kind="stable")[:NEW]][:, rows[inner.first]] == 0
        exchange.begin([np.ones(inner.first.size, dtype=np.bool_), *starts])
        tree = BranchAndBound(inner, replace(self.settings, record=self.room), exchange)
        status = tree.run(pool, self.limit)
        tree.queue.clear()
        self.room -= tree.record.bytes if tree.record else self.room
        self.nodes += tree.nodes
        self.work += tree.work + exchange.work
        near = sorted(exchange.good.values(), key=lambda one: one[0])[:NEW]
        self._add([*filter(None, (self._margins(inner, kept) for _, kept in near))])
        return tree, status is Status.OPTIMAL

    def _margins(self, inner: CountingSearch, kept: Bools) -> tuple[float, Floats] | None:
        """Return the squared norm of the point that keeps a set of a block, and all margins."""
        point = inner.statement.geometry.refit(kept[inner.copies])
        if point is None:
            return None
        model = inner.statement.model_at(point.w, point.b)
        whole = self.search.statement
        return float(point.w @ point.w), whole.y * model.scores(whole.space.data.X).value

    def _add(self, points: list[tuple[float, Floats]]) -> None:
        """Add points to those by which blocks are balanced, and search from the best one."""
        search = self.search
        weight, price = search.statement.weight, search.statement.price / search.statement.half
        dropped = [violated(u) * weight for _, u in points]
        norms = np.concatenate([self.norms, [norm for norm, _ in points]])
        self.dropped, first = np.unique(
            np.vstack([self.dropped, *dropped]), axis=0, return_index=True
        )
        values = norms[first] + price * self.dropped.sum(axis=1)
        stay = np.argsort(values, kind="stable")[:POINTS]
        self.norms, self.dropped = norms[first][stay], self.dropped[stay]
        if self.exchange is not None:
            self.exchange.improve(self.dropped[0][search.first] == 0, self.stop)

    def _spread(self) -> NDArray[np.intp]:
        """Return blocks to which a row and its nearest of the same class are distributed."""
        G = self.search.statement.geometry.G
        block = np.zeros(len(G), dtype=np.intp)
        for left in self.sides:
            while left.size:
                apart = ((G[left] - G[self._rng.choice(left)]) ** 2).sum(axis=1)
                order = np.argsort(apart, kind="stable")
                near = left[order[: self.count]]
                block[near] = self._rng.permutation(self.count)[: near.size]
                left = np.sort(left[order[self.count :]])
        return block

    def _balance(self) -> None:
        """Exchange rows so that the smooth minimum over the points of the blocks' values rises."""
        statement, count = self.search.statement, self.count
        price, norms = statement.price / statement.half, self.norms / count
        loads = np.stack([self.dropped[:, self.block == b].sum(axis=1) for b in range(count)])

        def value(load: Floats) -> float:
            costs = norms / price + load
            least = float(costs.min())
            return least - math.log(float(np.exp(least - costs).sum()))

        values = [value(load) for load in loads]
        for _ in range(SWAPS):
            side = self.sides[self._rng.integers(2)]
            i, j = side[self._rng.integers(side.size, size=2)]
            a, b = self.block[i], self.block[j]
            if a != b:
                change = self.dropped[:, j] - self.dropped[:, i]
                first, second = loads[a] + change, loads[b] - change
                after = value(first), value(second)
                if sum(after) >= values[a] + values[b]:
                    loads[a], loads[b] = first, second
                    values[a], values[b] = after
                    self.block[i], self.block[j] = b, a
        self.work += SWAP_WORK * SWAPS * norms.size
