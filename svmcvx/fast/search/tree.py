r"""Branch and bound for losses that count: one observation at a time is kept or dropped.

Each node is bounded by a big-M relaxation whose M shrink with the node
(:mod:`svmcvx.fast.search.node_passes`). The most promising nodes are handed to threads,
each of which searches below its node for a while, depth first; the open nodes that remain go back
into one queue. The bounds hold for the rows as they are in memory, to the last digit.

**Cardinality.** The budget of dropped weight has a multiplier, which each node adjusts so that its
relaxation spends the budget.

**Record.** The decisions and the multipliers of each bound suffice to prove the bounds again:
:class:`~svmcvx.fast.search.record.TreeRecord`.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from concurrent.futures import Executor
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import up
from svmcvx.certificate.rows import row_norms_above
from svmcvx.fast.search.exchange import Exchange
from svmcvx.fast.search.node_passes import DIGITS, DROPPED, KEPT, dive
from svmcvx.fast.search.record import BoundedNodes, Leaf, TreeRecord, empty_node
from svmcvx.fast.search.state import SearchSettings, SearchState
from svmcvx.solution import Status
from svmcvx.system.deadline import stop_flag

# Work of a thread before it returns its open nodes, at least one node; nodes that are passed to
# threads in one round, at most.
DIVE_WORK, TASKS = 2.5e6, 64
# Margins that multiples of the nodes' points raise to 1.
RAISED = 1.0, 0.95, 0.9, 0.8, 0.7, 0.5


class TreeNode(NamedTuple):
    """Bound, number, decisions, M, minimiser, bias interval, price and branching row."""

    bound: float
    number: int
    state: NDArray[np.int8]
    big_m: NDArray[np.float32]
    w: Floats
    box: Floats
    price: float
    undecided: int


class Dive(NamedTuple):
    """A thread's open and bounded nodes, best point and value, and last minimiser."""

    nodes: list[TreeNode]
    bounded: BoundedNodes
    value: float
    point: Floats
    last: Floats


class RoundSearch(ABC):
    """A search in rounds, which can be left and taken up again.

    Each entry of the queue, a heap, begins with its bound.
    """

    way: ClassVar[str]
    # Whether a search that is not stopped ends with the optimum; and nodes that are passed to
    # threads in a round.
    ends, tasks = True, 1

    def __init__(
        self, search: Any, settings: SearchSettings, exchange: Exchange | None = None
    ) -> None:
        self.search, self.settings, self.exchange = search, settings, exchange
        self.queue: list[Any] = []
        self.nodes, self.work, self.proved = 0, 0.0, 0.0
        self._begun, self.unresolved = False, math.inf

    @property
    def proof(self) -> dict[str, NDArray[Any]]:
        """Arrays that prove the bound, if the format has any."""
        return {}

    @property
    def open_bound(self) -> float:
        return float(self.queue[0][0]) if self.queue else math.inf

    def run(self, pool: Executor, most: float = math.inf) -> Status | None:
        """Search to the end; None if it has done a work of `most` before."""
        self.search.unresolved_bound = self.unresolved
        with stop_flag(self.search.monitor.deadline) as self.stop:
            status = None
            if not self._begun:
                self._begun = True
                status = self._begin(pool)
                self.proved = max(self.proved, self.search.proved_with(self.open_bound))
            while status is None and self.work < most:
                status = self._round(pool)
        self.unresolved = self.search.unresolved_bound
        return status

    def _begin(self, pool: Executor) -> Status | None:
        """Return what ends the search before its first round."""
        return None

    @abstractmethod
    def _round(self, pool: Executor) -> Status | None: ...

    def _next(self, size: float) -> Any:
        """Remove the most promising entry, the last one if all of this size exceed the memory."""
        full = size * len(self.queue) > self.settings.memory
        # The last entry of a heap can be removed without changing the others.
        return self.queue.pop() if full else heapq.heappop(self.queue)

    def _end_round(self) -> Status | None:
        """Search beside the open part, and report."""
        if self.exchange is not None:
            self.exchange.keep_up(self.work, self.stop)
        if self.open_bound >= self.search.cutoff:
            self.queue.clear()
        self.proved = max(self.proved, self.search.proved_with(self.open_bound))
        status: Status | None = self.search.report(self.open_bound)
        return status


class BranchAndBound(RoundSearch):
    """A search over decisions to keep or to drop an observation."""

    search: SearchState
    way, tasks = "branch", 2

    def __init__(self, *shared: Any) -> None:
        super().__init__(*shared)
        self.HT = np.ascontiguousarray(self.search.rows.T)
        self.length = row_norms_above(self.search.H)
        r, n = self.HT.shape
        self.node_work = float(n * r * (r + 20))
        self.expansions = int(
            min(self.settings.expansions, max(1, DIVE_WORK / (2 * self.node_work)))
        )
        self.record: TreeRecord | None = TreeRecord()

    @property
    def proof(self) -> dict[str, NDArray[Any]]:
        """Arrays that prove the bound; none without a record or an accurate factor."""
        if self.record is None or not self.search.is_repeatable:
            return {}
        return self.record.arrays(self.search)

    def _begin(self, pool: Executor) -> Status | None:
        search, r = self.search, self.HT.shape[0]
        upper = search.cutoff
        n = self.HT.shape[1]
        state, w = np.zeros(n, dtype=np.int8), np.zeros(r)
        box = np.array(search.bias_interval(upper))
        if box[0] > box[1]:
            # No point is better than the incumbent.
            if self.record is not None:
                self.record.add(empty_node(self.HT.shape[1]), upper)
            return search.report(math.inf)
        size = math.sqrt(upper) if math.isfinite(upper) else math.inf
        big_m = (1.0 + self.length * up(size)) * (1.0 + 1e-14)
        if search.free:
            big_m = big_m + np.abs(self.HT[-1]) * float(np.abs(box).max()) * (1.0 + 1e-14)
        # To few digits, as the compiled passes round it.
        mantissa, exponent = np.frexp(big_m)
        big_m = np.ldexp(np.ceil(mantissa * DIGITS) / DIGITS, exponent)
        root = TreeNode(0.0, -1, state, big_m.astype(np.float32), w, box, search.loss_price, -1)
        dived = self._dive(root, upper, 2)
        if self.record is not None:
            self.record.add(dived.bounded, upper)
        self.nodes += 1
        search.try_point(dived.last)
        self.queue += [node._replace(number=0) for node in dived.nodes]
        return search.report(self.open_bound)

    def _problem(self, upper: float, *, refine: bool = False) -> tuple[Any, Any]:
        """Return the passes' problem and parameters, most accurate if a leaf is refined."""
        search, rounds = self.search, self.settings.rounds
        # The weight of squared violations of a decision is some 100 incumbents.
        loss = search.cut, 100.0 * max(upper, 1.0), search.free
        # Widths of the rounded kinks as shares of M, and the accuracy of the minimum as a share of
        # the distance to the incumbent. Consecutive widths are close where digits count, so that
        # Newton's method needs few steps.
        accuracy: tuple[Any, ...] = np.array([1e-3, 1e-6]), 0.02, rounds
        if refine:
            accuracy = 1e-3 * 0.25 ** np.arange(16), 0.0, 0
        problem = (self.HT, self.length), loss, search.weight, search.k
        return problem, (*accuracy, search.wider, search.loose)

    def _round(self, pool: Executor) -> Status | None:
        """Pass the most promising nodes to threads, and process the results."""
        search, before = self.search, self.nodes
        upper = search.cutoff
        chosen: list[TreeNode] = []
        while self.queue and len(chosen) < self.tasks:
            node = self._next(5.0 * self.HT.shape[1] + 200.0)
            if node.bound >= upper:
                continue
            if node.undecided < 0:
                bound, refined = self._refined_leaf(node, upper)
                leaf = search.close_leaf(node.state == KEPT, node.state == DROPPED, bound)
                leaf = leaf or refined
                if self.record is not None and leaf is not None:
                    self.record.leaves[node.number] = leaf
                upper = search.cutoff
            else:
                chosen.append(node)
        most = 2 * self.expansions
        found = list(pool.map(lambda node: self._dive(node, upper, most), chosen))
        for node, dived in zip(chosen, found, strict=True):
            base = self.nodes
            bounded = dived.bounded
            self.nodes += len(bounded.parents)
            if self.record is not None:
                parents = np.where(bounded.parents < 0, node.number, bounded.parents + base)
                self.record.add(bounded._replace(parents=parents), upper)
                if self.record.bytes > self.settings.record:
                    self.record = None
            for below in dived.nodes:
                number = node.number if below.number < 0 else below.number + base
                heapq.heappush(self.queue, below._replace(number=number))
        best = min(found, key=lambda dived: dived.value, default=None)
        if best is not None and best.value < upper:
            search.try_point(best.point)
        work = (self.nodes - before) * self.node_work
        self.work += work
        if work < 0.5 * self.settings.round_work:
            self.tasks = min(2 * self.tasks, TASKS)
        elif work > self.settings.round_work:
            self.tasks = max(self.tasks // 2, 1)
        return self._end_round()

    def _refined_leaf(self, node: TreeNode, upper: float) -> tuple[float, Leaf | None]:
        """Return a better bound of a leaf in this arithmetic, and its multipliers."""
        if not self.search.cut:
            return node.bound, None
        refined = self._dive(node._replace(undecided=-1), upper, 2, refine=True)
        self.search.try_point(refined.last)
        bounded = refined.bounded
        # All rows are decided, so that no multiplier is at a limit.
        leaf = Leaf(bounded.rows.astype(np.int64), bounded.numbers)
        return max(node.bound, refined.nodes[0].bound if refined.nodes else math.inf), leaf

    def _dive(self, node: TreeNode, upper: float, most: int, *, refine: bool = False) -> Dive:
        """Search below a node for at most `most` nodes, or bound a leaf to rounding."""
        search, (r, n), room = self.search, self.HT.shape, most // 2 + 1
        passed = self._problem(upper, refine=refine)
        upper = math.inf if refine else upper
        # Bounds of a node, two cuts of the interval of the bias among them.
        entries, width = max(self.settings.rounds, 1) + 2 * search.free, 5 if search.free else 3
        states, big_ms = np.empty((room, n), dtype=np.int8), np.empty((room, n))
        starts, boxes = np.empty((room, r)), np.empty((room, 2))
        prices, bounds = np.empty(room), np.empty(room)
        undecided, names, parents, decisions, used = (
            np.empty(size, dtype=np.int64) for size in (room, room, most, most, most)
        )
        points, facts = np.empty((most, r)), np.empty((most, entries, width))
        marks = np.empty((most, entries, -(-n // 8)), dtype=np.uint8)
        number_rows = np.empty(most * entries * n, dtype=np.int32)
        numbers = np.empty(most * entries * n)
        behind = np.empty((most, entries), dtype=np.int64)
        stack = states, big_ms, starts, boxes, prices, bounds, undecided, names
        made_nodes = parents, decisions, used, points
        made_bounds = facts, marks, number_rows, numbers, behind
        scratch = tuple(np.empty((8, n))), tuple(np.empty((5, r))), np.empty((r + 1, r))
        slots = np.arange(len(states))
        states[0], big_ms[0], starts[0], boxes[0] = node.state, node.big_m, node.w, node.box
        prices[0], bounds[0], undecided[0], names[0] = node.price, node.bound, node.undecided, -1
        left, made = dive(*passed, upper, stack, slots, made_nodes, made_bounds, scratch, self.stop)
        # An M beyond single precision is infinite, which is valid.
        with np.errstate(over="ignore"):
            nodes = [
                TreeNode(
                    float(bounds[k]), int(names[k]), states[k].copy(), big_ms[k].astype(np.float32),
                    starts[k].copy(), boxes[k].copy(), float(prices[k]), int(undecided[k]),
                )
                for k in slots[:left]
            ]  # fmt: skip
        value, point = self._best_multiple(points[:made])
        kept = np.arange(facts.shape[1]) < used[:made, None]
        ends = behind[:made][kept]
        end = ends[-1] if made else 0
        bounded = BoundedNodes(
            parents[:made].copy(),
            decisions[:made].copy(),
            used[:made].copy(),
            facts[:made][kept],
            marks[:made][kept],
            np.diff(ends, prepend=0),
            number_rows[:end].copy(),
            numbers[:end].copy(),
        )
        return Dive(nodes, bounded, value, point, points[made - 1].copy() if made else point)

    @np.errstate(all="ignore")
    def _best_multiple(self, points: Floats) -> tuple[float, Floats]:
        """Return the least objective of multiples of points, and its point."""
        search, best = self.search, (math.inf, np.zeros(self.HT.shape[0]))
        # The 0-1 loss is 1 a little below a margin of 1, so that margins of 1 count as such in
        # spite of rounding; multiples raise these margins to 1.
        cut, u = max(search.cut, 1e-9), points @ self.HT
        squared = (points[:, : search.H.shape[1]] ** 2).sum(axis=1)
        for margin in RAISED if len(points) else ():
            lost = np.clip((margin - u) / (margin * cut), 0.0, 1.0) @ search.weight
            values = squared / margin**2 + search.lam * lost
            least = int(np.where(lost <= search.k, values, math.inf).argmin())
            if lost[least] <= search.k and values[least] < best[0]:
                best = float(values[least]), points[least] / margin
        return best
