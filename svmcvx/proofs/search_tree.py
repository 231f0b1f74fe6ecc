r"""The tree of a search for the 0-1 loss, checked in double precision with bounds on the rounding; leaves that need it in fractions.

Each node keeps some rows (u ≥ 1) and drops others (u ≤ 1); the two children of a node decide one more row. Of the points of a node only
those with an objective below the value U of its bounds count. For any multipliers β with :math:`0 \le \beta_i \le h_i/M_i` for rows that
are not decided, β ≥ 0 for rows kept, β ≤ 0 for rows dropped, each such point w costs at least

.. math:: D + \|w - m\|^2, \qquad m = \tfrac12\sum\beta_ig_i,\quad D = \sum\beta_i + \sum_{dropped} h_i - \|m\|^2 \;(-\,\text{price} \cdot k),

where :math:`h_i` is the price of a loss and :math:`M_i` is at least :math:`1 - u_i` at all points that count. So these lie within
:math:`\sqrt{U - D}` of m, which gives new :math:`M_i`, and decides rows that the ball leaves no choice.

What no leaf contains costs at least the smallest U; what a leaf contains at least the largest D on the way to it. Where double precision
does not show that a leaf is at least its U, its last multipliers of decided rows do in fractions: :math:`(\sum\beta)^2/\|\sum\beta_ig_i\|^2`
and the prices of what it drops, and there is no such point where the combination vanishes and :math:`\sum\beta > 0`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.proofs.arithmetic.intervals import U
from svmcvx.proofs.problem import Problem, ProofRejected

__all__ = ["has_tree", "tree_bound"]

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]
States: TypeAlias = NDArray[np.int8]

FREE, KEPT, DROPPED = 0, 1, 2
# Exponents of the longest row and of the smallest entry beyond which squares could overflow or be lost.
LARGEST: Final = 400
# What underflow may cost a sum, and the length of a vector.
LOST, SHORT = 2.0**-960, 2.0**-480
# M have this many units between one half and one.
DIGITS: Final = 4096.0
# Bytes of the open nodes of a path, in addition to the data.
STACK: Final = 2**28
# Entries of rows up to which a leaf is evaluated in fractions.
EXACT: Final = 100_000


def has_tree(problem: Problem) -> bool:
    """Whether the proof has the tree of a search."""
    return bool(problem.proof.tree)


def tree_bound(problem: Problem) -> float:
    """Return a number that the optimum is not below.

    Raises
    ------
    ProofRejected
        If the arrays are not those of a tree on these data.
    """
    with np.errstate(all="ignore"):
        return _Tree(problem).bound()


class _Multipliers(NamedTuple):
    """What one bound says: a price and a value to be below, rows whose marks flip, and multipliers."""

    price: float
    upper: float
    flips: Integers
    rows: Integers
    values: Floats


@dataclass
class _Node:
    """Decisions, M, the marked rows, and the largest bound on the path."""

    state: States
    M: Floats
    marked: Bools
    bound: float

    def copy(self) -> _Node:
        return _Node(self.state.copy(), self.M.copy(), self.marked.copy(), self.bound)


class _Tree:
    """The arrays, and the rows that they are about in units of a power of two near the longest."""

    def __init__(self, problem: Problem) -> None:
        self.H, self.weight, scale = _distinct_rows(problem)
        squares = np.einsum("ij,ij->i", self.H, self.H) * (1 + (self.H.shape[1] + 4) * U)
        self.length = np.sqrt(squares) * (1 + 4 * U) + SHORT
        self.unit = scale * scale
        self.k = problem.number("k") if problem.has("k") else math.inf
        self.lam = 0.0 if problem.has("k") else problem.number("lam")
        tree = problem.proof.tree
        self.branch, bounds = tree["branch"].tolist(), tree["bounds"].astype(np.int64)
        self.upper = [_up(value * self.unit) for value in tree["upper"].tolist()]
        prices = tree["price"].tolist() if "price" in tree else [self.lam] * len(self.upper)
        self.price = [_down(value * self.unit) for value in prices]
        if min(self.upper, default=0.0) < 0 or min(prices, default=0.0) < 0:
            raise ProofRejected("values and prices of the tree must not be negative")
        self.bounds = _ends(bounds, len(self.upper), "bounds")
        self.flips, self.flipped = _rows(tree["flip_row"], tree["flip_count"], len(self.H), "marks")
        ends = np.zeros(self.flipped.size + 1, dtype=np.bool_)
        ends[self.flips] = True
        if not (ends[1:-1] | (np.diff(self.flipped) > 0)).all():
            raise ProofRejected("the tree's marks of a bound are not in increasing order")
        self.numbers, self.rows = _rows(tree["beta_row"], tree["beta_count"], len(self.H), "multipliers")
        self.beta = tree["beta"] * self.unit

    def _step(self, number: int) -> _Multipliers:
        """The multipliers of a bound."""
        flips, numbers = (slice(ends[number], ends[number + 1]) for ends in (self.flips, self.numbers))
        return _Multipliers(
            self.price[number], self.upper[number], self.flipped[flips], self.rows[numbers], self.beta[numbers]
        )

    def bound(self) -> float:
        """Go through the nodes, each before its children, the one that keeps its row first."""
        least = min(self.upper, default=math.inf)
        # Of each node the state that it begins with, and the row and the decision that lead to it.
        stack: list[tuple[_Node, int, int, int]] = [(self._root(), -1, FREE, 0)]
        deepest = STACK // (10 * len(self.H)) + 64
        for number, row in enumerate(self.branch):
            if not stack:
                raise ProofRejected("the tree has nodes behind its last leaf")
            node, decided, decision, depth = stack.pop()
            if decision == KEPT:
                # The sibling, which begins with the same state, is the next on the stack.
                node = node.copy()
            if decided >= 0:
                # Also where a ball has settled the row: one of the two sides is empty then.
                node.state[decided] = decision
            steps = [self._step(k) for k in range(self.bounds[number], self.bounds[number + 1])]
            self._bound(node, steps)
            if row < 0:
                least = min(least, self._leaf(node, steps))
                continue
            if row >= len(self.H) or depth >= deepest:
                raise ProofRejected(f"node {number} of the tree branches on no row, or is too deep for this check")
            stack += [(node, row, DROPPED, depth + 1), (node, row, KEPT, depth + 1)]
        if stack:
            raise ProofRejected("the tree ends before its last leaf")
        # No objective is negative.
        return max(_down(least / self.unit), 0.0) if math.isfinite(least) else -math.inf

    def _root(self) -> _Node:
        if not self.branch or not self.bounds[1]:
            raise ProofRejected("the first node of the tree has no bound")
        size = _up(math.sqrt(self.upper[0]))
        M = _few_digits((1.0 + self.length * size) * (1 + 4 * U))
        m = len(self.H)
        return _Node(np.zeros(m, dtype=np.int8), M, np.zeros(m, dtype=np.bool_), 0.0)

    def _bound(self, node: _Node, steps: list[_Multipliers]) -> None:
        """Bound a node and tighten its M, until it is seen to contain nothing that counts."""
        H, (m, r) = self.H, self.H.shape
        for step in steps:
            node.marked[step.flips] ^= True
            beta, height = self._beta(node, step)
            dropped = node.state == DROPPED
            size = np.abs(beta)
            mass, total = float(size @ self.length), float(size.sum())
            prices = float(height[dropped].sum())
            given = 0.0 if math.isinf(self.k) else step.price * self.k
            centre = 0.5 * (beta @ H)
            blur = (m + 16) * U * mass + SHORT
            longest = math.sqrt(float(centre @ centre)) * (1 + (r + 8) * U) + blur
            sizes = total + prices + longest * longest + given
            value = float(beta.sum()) + prices - longest * longest - given - (m + 24) * U * sizes - LOST
            if not math.isfinite(value):
                continue
            node.bound = max(node.bound, value)
            if node.bound >= step.upper:
                return
            radius = math.sqrt(step.upper - value) * (1 + 8 * U) + blur + (r + 16) * U * (longest + 1.0)
            away = 1.0 - H @ centre
            reach = self.length * (radius * (1 + 8 * U)) + 16 * U * (1.0 + np.abs(away))
            free = node.state == FREE
            most = away + reach
            node.state[free & (most <= 0)] = KEPT
            node.state[free & (away > reach)] = DROPPED
            lower = np.flatnonzero(free & (most > 0) & (most < node.M))
            node.M[lower] = np.minimum(_few_digits(most[lower]), node.M[lower])

    def _beta(self, node: _Node, step: _Multipliers) -> tuple[Floats, Floats]:
        """Return the multipliers within their limits, and the prices of the losses, rounded downwards."""
        height = np.maximum(step.price * self.weight * (1 - 4 * U) - LOST, 0.0)
        beta = np.zeros(len(self.H))
        marked = np.flatnonzero(node.marked)
        marked = marked[node.state[marked] == FREE]
        beta[marked] = self._limits(node, height, marked)
        if step.rows.size:
            rows, state = step.rows, node.state[step.rows]
            given = np.bincount(rows, weights=step.values, minlength=len(beta))[rows]
            low = np.where(state == DROPPED, -np.inf, 0.0)
            high = np.where(state == FREE, self._limits(node, height, rows), np.where(state == KEPT, np.inf, 0.0))
            beta[rows] = np.clip(given, low, high)
        return beta, height

    def _limits(self, node: _Node, height: Floats, rows: Integers) -> Floats:
        return np.maximum(height[rows] / node.M[rows] * (1 - 8 * U) - LOST, 0.0)

    def _leaf(self, node: _Node, steps: list[_Multipliers]) -> float:
        """The proved bound of the points of a node without children."""
        dropped = node.state == DROPPED
        weight = math.fsum(self.weight[dropped].tolist()) * (1 - 4 * U)
        if weight > self.k:
            return math.inf
        bound = max(node.bound, _down(_down(self.lam * self.unit * (1 - 4 * U)) * weight))
        if not steps or bound >= steps[-1].upper:
            return bound
        price = steps[-1].price
        prices = _down(price * weight) - (0.0 if math.isinf(self.k) else _up(price * self.k))
        return max(bound, _down(self._in_fractions(node, steps[-1]) + prices))

    def _in_fractions(self, node: _Node, step: _Multipliers) -> float:
        """At most the squared norm of points that keep and drop what the node does; infinite if there are none."""
        free = node.state == FREE
        if step.rows.size * self.H.shape[1] > EXACT or (node.marked & free).any() or free[step.rows].any():
            return 0.0
        if not np.isfinite(step.values).all():
            return 0.0
        beta: dict[int, Fraction] = {}
        for row, value in zip(step.rows.tolist(), step.values.tolist(), strict=True):
            beta[row] = beta.get(row, Fraction(0)) + Fraction(value)
        beta = {row: value for row, value in beta.items() if (value > 0) == (node.state[row] == KEPT)}
        total = sum(beta.values(), Fraction(0))
        if total <= 0:
            return 0.0
        rows = [[Fraction(entry) for entry in self.H[row].tolist()] for row in beta]
        along = [
            sum((value * entry for value, entry in zip(beta.values(), column, strict=True)), Fraction(0))
            for column in zip(*rows, strict=True)
        ]
        squared = sum((value * value for value in along), Fraction(0))
        return _below(total * total / squared) if squared else math.inf


def _distinct_rows(problem: Problem) -> tuple[Floats, Floats, float]:
    """Return the distinct signed rows in the order in which they first occur, divided by a power of two, their weights and that power."""
    kept = problem.X[problem.index]
    rows = np.asarray(kept.toarray() if sp.issparse(kept) else kept, dtype=np.float64)
    if problem.penalised:
        rows = np.column_stack([rows, np.ones(len(rows))])
    # Zeros have one sign.
    rows = rows * problem.signs[:, None] + 0.0
    _, first, copies = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty_like(order)
    place[order] = np.arange(order.size)
    copies = place[copies.ravel()]
    distinct = rows[first[order]]
    exponents = np.frexp(distinct[distinct != 0])[1]
    largest, smallest = (int(exponents.max()), int(exponents.min())) if exponents.size else (0, 0)
    if max(largest, -smallest) > LARGEST:
        raise ProofRejected("the rows of the data are too large or too small for the check of a tree")
    scale = math.ldexp(1.0, largest + math.ceil(math.log2(distinct.shape[1]) / 2))
    count = np.bincount(copies)
    weight = np.bincount(copies, weights=problem.weight) * (1 - (2 + count) * U)
    return np.ascontiguousarray(distinct / scale), weight, scale


def _ends(counts: Integers, size: int, what: str) -> list[int]:
    """Where the entries of each begin and end."""
    ends: Integers = np.concatenate([[0], np.cumsum(counts)])
    if (counts < 0).any() or ends[-1] != size:
        raise ProofRejected(f"the counts of the tree's {what} do not fit their number")
    return [int(end) for end in ends]


def _rows(values: NDArray[np.int32], counts: NDArray[np.int32], rows: int, what: str) -> tuple[list[int], Integers]:
    """Where the rows of each bound begin and end, and the rows."""
    if values.size and not (values.min() >= 0 and values.max() < rows):
        raise ProofRejected(f"the tree's {what} name rows that the data do not have")
    return _ends(counts.astype(np.int64), values.size, what), values.astype(np.int64)


def _few_digits(values: Floats) -> Floats:
    """Round up to twelve binary digits, the rule for M."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.ceil(mantissa * DIGITS) / DIGITS, exponent))


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _below(value: Fraction) -> float:
    try:
        return _down(float(value))
    except OverflowError:
        return math.nextafter(math.inf, 0.0)
