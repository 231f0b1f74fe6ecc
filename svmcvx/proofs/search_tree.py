r"""The record of a search for the 0-1 loss, the l0-norm hinge or the ramp loss, checked in double
precision with bounds on the rounding.

``docs/proof_format.md``, section Trees, has the formulas: for any multipliers β within their limits
each point of a node costs at least

.. math:: D + \|w - m\|^2, \qquad m = \tfrac12\sum\beta_ig_i,\quad \delta = \sum\beta_iy_i,
    \quad D = \sum e_i + t\sum_{dropped} s_i - \|m\|^2 - \max(\delta l, \delta r) \;(-\,tk),

so that the points below a value U lie within :math:`\sqrt{U - D}` of m, which gives new M, and
decides rows that the ball leaves no choice. With a kernel all of this is evaluated with the kernel
itself. A point of no leaf costs at least the smallest U, or drops a whole class. Where double
precision does not show that a leaf is at least its U, its last multipliers do, in fractions without
a kernel. Blocks of the rows have a tree each.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.proofs.intervals import SLACK, Bools, Floats, U
from svmcvx.proofs.problem import Problem, ProofRejected, dense
from svmcvx.proofs.search_cells import cells_bound
from svmcvx.proofs.search_sets import sets_bound
from svmcvx.proofs.space import Space, require_small

Integers: TypeAlias = NDArray[np.int64]
States: TypeAlias = NDArray[np.int8]
Tree: TypeAlias = Mapping[str, Any]

FREE, KEPT, DROPPED = 0, 1, 2
# Exponents of the longest row and of the smallest entry beyond which squares could overflow or be
# lost.
LARGEST: Final = 400
# Losses by underflow: of a sum, and of the length of a vector.
LOST, SHORT = 2.0**-960, 2.0**-480
# Bytes of the open nodes of a path, in addition to the data.
STACK: Final = 2**28
# Entries of rows up to which a leaf is evaluated in fractions.
EXACT: Final = 100_000


def search_bound(space: Space[Any]) -> float:
    """Return the lower end that the record of a search proves."""
    with np.errstate(all="ignore"):
        tree = space.problem.proof.tree
        if "block" in tree:
            return _blocks_bound(space.problem)
        rows = _Vectors(space.problem) if space.kernel is None else _Kernel(space)
        if "paid" in tree or "cut" in tree:
            return (sets_bound if "paid" in tree else cells_bound)(space.problem, rows)
        return _Tree(space.problem, rows).bound()


class _Step(NamedTuple):
    """One bound: prices, a value to be below, flipped marks, multipliers, and an interval."""

    price: float
    height: Floats
    paid: float
    upper: float
    flips: Integers
    rows: Integers
    values: Floats
    side: int
    at: float


class _Combination(NamedTuple):
    """Half of Σβg: products with all rows, errors of these, its length from above, influence."""

    along: Floats
    spread: Floats
    longest: float
    influence: float


@dataclass
class _Node:
    """Decisions, M, marked rows, interval of the intercept, and the largest bound on the path."""

    state: States
    M: Floats
    marked: Bools
    low: float
    high: float
    bound: float = 0.0


class _Vectors:
    """The distinct signed rows of a linear machine, in units of a power of two near the longest."""

    def __init__(self, problem: Problem) -> None:
        rows = dense(problem.X[problem.index])
        if problem.statement.intercept != "none":
            rows = np.column_stack([rows, np.ones(len(rows))])
        # Zeros have one sign.
        rows = rows * problem.signs[:, None] + 0.0
        first, self.weight = _distinct(rows, problem.weight)
        self.given, self.signs = rows[first], problem.signs[first]
        # In fractions: the rows less this, times their labels.
        self.centre = np.zeros(rows.shape[1])
        if problem.free:
            self.given, self.centre = self.given[:, :-1], problem.proof.tree["centre"]
        # Subtraction rounds each coordinate by its own last place.
        distinct = self.given - self.signs[:, None] * self.centre
        exponents, columns = np.frexp(distinct[distinct != 0])[1], distinct.shape[1]
        if np.abs(exponents).max(initial=0) > LARGEST:
            raise ProofRejected(
                "the rows of the data are too large or too small for the check of a tree"
            )
        largest = int(exponents.max()) if exponents.size else 0
        scale = math.ldexp(1.0, largest + math.ceil(math.log2(columns) / 2))
        self.unit, self.H = scale * scale, np.ascontiguousarray(distinct / scale)
        squares = np.einsum("ij,ij->i", self.H, self.H) * (1 + (columns + 8) * U)
        # No price is so large that a row of zeros is one of some length.
        self.length = (np.sqrt(squares) * (1 + 4 * U) + SHORT) * self.H.any(axis=1)

    def combination(self, beta: Floats) -> _Combination:
        m, r = self.H.shape
        centre = 0.5 * (beta @ self.H)
        blur = (m + 20) * U * float(np.abs(beta) @ self.length) + SHORT
        longest = math.sqrt(float(centre @ centre)) * (1 + (r + 8) * U) + blur
        spread = self.length * ((blur + (r + 20) * U * (longest + 1.0)) * (1 + 8 * U))
        return _Combination(self.H @ centre, spread, longest, 0.0)

    def least_square(self, beta: dict[int, Fraction], total: Fraction) -> tuple[float, float]:
        """Return at most total²/‖Σβg‖² in the units of the rows, infinite if Σβg = 0, and 0."""
        if len(beta) * self.H.shape[1] > EXACT:
            return 0.0, 0.0
        squared = Fraction(0)
        for column, centre in zip(self.given.T, self.centre.tolist(), strict=True):
            shift = Fraction(centre)
            terms = (
                value * (Fraction(float(column[row])) - int(self.signs[row]) * shift)
                for row, value in beta.items()
            )
            squared += sum(terms, Fraction(0)) ** 2
        return (_below(total * total * Fraction(self.unit) / squared) if squared else math.inf), 0.0


class _Kernel:
    """The scaled kernel of the distinct rows; K + τ diag K if it is definite up to τ."""

    def __init__(self, space: Space[Any]) -> None:
        problem, self.tolerance = space.problem, space.tolerance
        labelled = np.column_stack([dense(space.rows) + 0.0, problem.signs])
        first, self.weight = _distinct(labelled, problem.weight)
        self.signs, index = problem.signs[first], problem.index[first]
        K, error = space.floats(index, index)
        diagonal = np.abs(np.diagonal(K))
        K = K + self.tolerance * np.diag(diagonal) + float(problem.penalised)
        largest = float(np.abs(K).max())
        exponent = math.ceil(math.frexp(largest)[1] / 2) if 0 < largest < math.inf else 0
        if not np.isfinite(K).all() or abs(exponent) > LARGEST:
            raise ProofRejected(
                "the kernel of the data is too large or too small for the check of a tree"
            )
        self.unit = math.ldexp(1.0, exponent) ** 2
        self.Q = K * self.signs[:, None] * self.signs / self.unit
        self.diagonal = diagonal / self.unit
        # Errors of the entries, and of the sums above.
        rounding = 8 * U * (1.0 + self.tolerance)
        self.error = (float(error.max()) / self.unit + rounding) * SLACK + LOST
        squares = np.maximum(np.diagonal(self.Q), 0.0) + self.error
        self.length = np.sqrt(squares) * (1 + 4 * U) + SHORT

    def combination(self, beta: Floats) -> _Combination:
        used = np.flatnonzero(beta)
        values, m = beta[used], used.size
        along = 0.5 * (self.Q[:, used] @ values)
        mass = float(np.abs(values).sum())
        # No scaled entry is above 1.
        spread = 0.5 * mass * ((m + 8) * U + self.error) * SLACK + SHORT
        largest = float(np.abs(along[used]).max(initial=0.0))
        square = 0.5 * float(values @ along[used]) + mass * (0.5 * spread + (m + 8) * U * largest)
        longest = math.sqrt(max(square, 0.0)) * (1 + 4 * U)
        influence = 0.25 * self.tolerance * float((self.diagonal[used] * values * values).sum())
        return _Combination(along, np.full(beta.size, spread), longest, influence)

    def least_square(self, beta: dict[int, Fraction], total: Fraction) -> tuple[float, float]:
        """Return at most total²/‖Σβg‖² in the units of the rows, and the influence of rounding."""
        largest = max(map(abs, beta.values()))
        values = np.zeros(self.weight.size)
        values[list(beta)] = [float(value / largest) for value in beta.values()]
        found = self.combination(values)
        # Rounding of the multipliers adds its own combination.
        length = 2.0 * found.longest + 2 * U * float(np.abs(values) @ self.length) + SHORT
        share = float(total / largest)
        if not (math.isfinite(length) and share > 0.0):
            return 0.0, 0.0
        bound = _below((total / largest) ** 2 / Fraction(length) ** 2 * (1 - Fraction(8 * U)))
        return bound, 4.0 * found.influence / share**2


class _Tree:
    """The nodes of a tree, gone through once, and the rows that they are about."""

    def __init__(self, problem: Problem, rows: _Vectors | _Kernel) -> None:
        self.data, self.length, self.weight, self.signs = rows, rows.length, rows.weight, rows.signs
        self.unit, self.m, self.free = rows.unit, rows.weight.size, problem.free
        self.half = 1.0 if problem.formulation == "zero_one" else 0.5
        self.cut = 2.0 if problem.formulation == "ramp" else 0.0
        self.k, self.price = math.inf, 0.0
        if problem.has("k"):
            self.k = problem.number("k")
        else:
            largest = max(self.cut, 1.0) / self.half
            # Not infinite: the product with a small unit would be, too.
            self.price = _down(largest * problem.number("C" if self.free else "lam"))
        self.tree = tree = problem.proof.tree
        # The largest effect of the kernel's rounding, as a share of a proved bound.
        self.influence = 0.0
        if any((tree[name] < 0).any() for name in ("upper", "price") if name in tree):
            raise ProofRejected("values and prices of the tree must not be negative")
        self.ends = {"bounds": _ends(tree, "bounds", "upper", "bounds")}
        for entry, what in (("flip", "marks"), ("beta", "multipliers")):
            rows_of = tree[f"{entry}_row"]
            self.ends[entry] = _ends(tree, f"{entry}_count", f"{entry}_row", what)
            if rows_of.size and not (rows_of.min() >= 0 and rows_of.max() < self.m):
                raise ProofRejected(f"the tree's {what} name rows that the data do not have")
        starts = np.zeros(tree["flip_row"].size + 1, dtype=np.bool_)
        starts[self.ends["flip"]] = True
        if not (starts[1:-1] | (np.diff(tree["flip_row"]) > 0)).all():
            raise ProofRejected("the tree's marks of a bound are not in increasing order")
        if "side" in tree and np.abs(tree["side"]).max(initial=0) > 1:
            raise ProofRejected("a side of the tree's bounds is none of 0, 1 and -1")

    def _step(self, number: int) -> _Step:
        tree = self.tree
        flips, betas = (
            slice(*self.ends[entry][number : number + 2].tolist()) for entry in ("flip", "beta")
        )
        price = float(tree["price"][number]) if "price" in tree else self.price
        price = _down(price * self.unit)
        return _Step(
            price,
            np.maximum(price * self.weight * (1 - 4 * U) - LOST, 0.0),
            0.0 if math.isinf(self.k) else price * self.k,
            _up(float(tree["upper"][number]) * self.unit),
            tree["flip_row"][flips].astype(np.int64),
            tree["beta_row"][betas].astype(np.int64),
            tree["beta"][betas] * self.unit,
            int(tree["side"][number]) if "side" in tree else 0,
            float(tree["at"][number]) if "at" in tree else 0.0,
        )

    def bound(self) -> float:
        """Go through the nodes, each before its children, the one that keeps its row first."""
        least = _up(float(self.tree["upper"].min(initial=math.inf)) * self.unit)
        if self.free:
            # A point with no row of a class with u ≥ 1, or u > −1, drops the class.
            sums = [math.fsum(self.weight[self.signs == sign].tolist()) for sign in (-1.0, 1.0)]
            least = min(least, _down(self.price * self.unit) * min(sums) * (1 - 8 * U))
        # Each node with the state that it begins with, the row and the decision that lead to it.
        stack: list[tuple[_Node, int, int, int]] = [(self._root(), -1, FREE, 0)]
        deepest = STACK // (10 * self.m) + 64
        for number, row in enumerate(self.tree["branch"].tolist()):
            if not stack:
                raise ProofRejected("the tree has nodes behind its last leaf")
            node, decided, decision, depth = stack.pop()
            if decision == KEPT:
                # The sibling, which begins with the same state, is the next on the stack.
                node = replace(
                    node, state=node.state.copy(), M=node.M.copy(), marked=node.marked.copy()
                )
            if decided >= 0:
                # Also where a ball has settled the row: one of the two sides is empty then.
                node.state[decided] = decision
            steps = [self._step(i) for i in range(*self.ends["bounds"][number : number + 2])]
            self._bound(node, steps)
            if row < 0:
                least = min(least, self._leaf(node, steps))
                continue
            if row >= self.m or depth >= deepest:
                raise ProofRejected(
                    f"node {number} of the tree branches on no row, or is too deep for this check"
                )
            stack += [(node, row, DROPPED, depth + 1), (node, row, KEPT, depth + 1)]
        if stack:
            raise ProofRejected("the tree ends before its last leaf")
        if not math.isfinite(least):
            return -math.inf
        require_small(self.influence * least, least, least)
        # No objective is negative.
        return max(_down(self.half * _down(least / self.unit)), 0.0)

    def _root(self) -> _Node:
        if not self.tree["bounds"][:1].any():
            raise ProofRejected("the first node of the tree has no bound")
        size, reach = _up(math.sqrt(_up(float(self.tree["upper"][0]) * self.unit))), 0.0
        if self.free:
            # Each class has a row with u ≥ 1, or u > −1.
            reach = _up(float(self.length.max()) * size * (1 + 8 * U) + (1.0 if self.cut else -1.0))
        M = _few_digits((1.0 + self.length * size + max(reach, 0.0)) * (1 + 4 * U))
        none = np.zeros(self.m, dtype=np.bool_)
        return _Node(none.astype(np.int8), M, none, -reach, reach)

    def _bound(self, node: _Node, steps: list[_Step]) -> None:
        """Bound a node and tighten its M, or its interval, until nothing in it counts."""
        for step in steps:
            if node.low > node.high:
                node.bound = math.inf
            if node.bound >= step.upper:
                return
            node.marked[step.flips] ^= True
            beta = self._beta(node, step)
            low = step.at if step.side > 0 else node.low
            high = step.at if step.side < 0 else node.high
            value, found = self._value(node, step, beta, low, high)
            if not math.isfinite(value):
                continue
            if step.side:
                if value >= step.upper and step.side > 0:
                    node.high = min(node.high, step.at)
                elif value >= step.upper:
                    node.low = max(node.low, step.at)
                continue
            if value >= step.upper and found.influence > 0:
                value, found = self._shortened(node, step, beta, value, found)
            if value > node.bound:
                node.bound = value
                self.influence = max(self.influence, found.influence / max(value, step.upper))
            if node.bound >= step.upper:
                return
            self._tighten(node, math.sqrt(step.upper - value) * (1 + 8 * U), found)
        if node.low > node.high:
            node.bound = math.inf

    def _value(
        self, node: _Node, step: _Step, beta: Floats, low: float, high: float
    ) -> tuple[float, _Combination]:
        """Return D from below, for intercepts between two numbers, and m."""
        dropped = node.state == DROPPED
        gain, prices = beta, float(step.height[dropped].sum())
        if self.cut:
            over = np.maximum(beta - step.height / self.cut * (1 - 8 * U), 0.0)
            lost = np.where(dropped, beta, np.where(node.state == KEPT, over, 0.0))
            gain = beta - self.cut * lost
        found = self.data.combination(beta)
        total, square = float(np.abs(beta).sum()) * (1.0 + self.cut), found.longest * found.longest
        sizes = total + prices + square + step.paid
        value = float(gain.sum()) + prices - square - step.paid
        if self.free:
            delta, reach = float(beta @ self.signs), max(abs(low), abs(high))
            value -= max(delta * low, delta * high)
            sizes += (total + abs(delta)) * reach
        return value - (self.m + 32) * U * sizes - LOST, found

    def _shortened(
        self, node: _Node, step: _Step, beta: Floats, value: float, found: _Combination
    ) -> tuple[float, _Combination]:
        """Return D and m of shorter multipliers, less prone to rounding, where still D ≥ U."""
        square = found.longest * found.longest
        # D(s) = cs + p − s²‖m‖² at s times the multipliers, up to the rest of the losses of kept
        # rows.
        constant = float(step.height[node.state == DROPPED].sum()) - step.paid
        slope, wanted = value + square - constant, step.upper - constant
        root = slope * slope - 4.0 * square * wanted
        if not (root > 0 and slope > 0):
            return value, found
        share = min(2.0 * max(wanted, 0.0) / (slope + math.sqrt(root)) * (1.0 + 2.0**-20), 1.0)
        shorter = self._value(node, step, share * beta, node.low, node.high)
        return shorter if shorter[0] >= step.upper else (value, found)

    def _tighten(self, node: _Node, radius: float, found: _Combination) -> None:
        """Decide rows and lower M by the ball around m."""
        away = 1.0 - found.along
        reach = self.length * (radius * (1 + 8 * U)) + found.spread + 16 * U * (1.0 + np.abs(away))
        most, least, free = away + reach, away - reach, node.state == FREE
        if self.free:
            ends = self.signs * node.low, self.signs * node.high
            shift = 8 * U * (max(abs(node.low), abs(node.high)) + np.abs(away) + reach)
            least, most = least - np.maximum(*ends) - shift, most - np.minimum(*ends) + shift
        node.state[free & (most <= self.cut)] = KEPT
        node.state[free & (least > self.cut)] = DROPPED
        lower = np.flatnonzero(free & (most > self.cut) & (most < node.M))
        node.M[lower] = np.minimum(_few_digits(most[lower]), node.M[lower])

    def _beta(self, node: _Node, step: _Step) -> Floats:
        """Return the multipliers within their limits."""
        free, limits = node.state == FREE, step.height / np.maximum(node.M, self.cut) * (1 - 8 * U)
        limits = np.maximum(limits - LOST, 0.0)
        beta = np.where(node.marked & free, limits, 0.0)
        rows = step.rows
        given = np.bincount(rows, weights=step.values, minlength=self.m)[rows]
        low = np.where(node.state[rows] == DROPPED, -np.inf, 0.0)
        kept = np.where(node.state[rows] == KEPT, np.inf, 0.0)
        beta[rows] = np.clip(given, low, np.where(free[rows], limits[rows], kept))
        return beta

    def _leaf(self, node: _Node, steps: list[_Step]) -> float:
        """The proved bound of the points of a node without children."""
        weight = math.fsum(self.weight[node.state == DROPPED].tolist()) * (1 - 4 * U)
        if weight > self.k or node.low > node.high:
            return math.inf
        bound = max(node.bound, _down(_down(self.price * self.unit * (1 - 4 * U)) * weight))
        if not steps or bound >= steps[-1].upper or self.cut:
            return bound
        step = steps[-1]
        prices = _down(step.price * weight) - _up(step.paid)
        square, share = self._least_norm(node, step)
        self.influence = max(self.influence, share * min(square, step.upper) if share else 0.0)
        return max(bound, _down(square + prices))

    def _least_norm(self, node: _Node, step: _Step) -> tuple[float, float]:
        """Return at most the least squared norm in a node, infinite if empty, and the influence."""
        free = node.state == FREE
        unsettled = (node.marked & free).any() or free[step.rows].any()
        finite = np.isfinite(step.values).all() and math.isfinite(node.high - node.low)
        if step.rows.size > EXACT or unsettled or not finite:
            return 0.0, 0.0
        given: dict[int, Fraction] = {}
        for row, value in zip(step.rows.tolist(), step.values.tolist(), strict=True):
            given[row] = given.get(row, Fraction(0)) + Fraction(value)
        beta = {row: x for row, x in given.items() if (x > 0) == (node.state[row] == KEPT)}
        total = sum(beta.values(), Fraction(0))
        if self.free:
            delta = sum((x * int(self.signs[row]) for row, x in beta.items()), Fraction(0))
            total -= max(delta * Fraction(node.low), delta * Fraction(node.high))
        return self.data.least_square(beta, total) if total > 0 else (0.0, 0.0)


def _ends(tree: Tree, counts: str, of: str, what: str) -> Integers:
    """The first entry of each node, bound or block in another array, and the end of that array."""
    found = np.concatenate([[0], np.cumsum(tree[counts], dtype=np.int64)])
    if (np.diff(found) < 0).any() or found[-1] != tree[of].size:
        raise ProofRejected(f"the counts of the tree's {what} do not fit their number")
    return found


def _blocks_bound(problem: Problem) -> float:
    """Return the sum of what trees of blocks prove, each with its share of the squared norm.

    A block is the problem in which the rows of other blocks have no weight, at a larger price.
    """
    proof, statement, tree = problem.proof, problem.statement, problem.proof.tree
    if problem.kernel is not None or problem.has("k") or problem.formulation == "ramp":
        raise ProofRejected(
            "blocks are about linear machines and losses that are counted at a price"
        )
    # A byte names one of 256 blocks.
    shares = [Fraction(share) for share in tree["share"][:257].tolist()]
    if not 0 < len(shares) <= 256 or min(shares) <= 0 or sum(shares) > 1:
        raise ProofRejected(
            "the shares of the blocks, 256 at most, must be positive, and their sum at most 1"
        )
    if tree["block"].max() >= len(shares):
        raise ProofRejected("a row names a block that the proof does not have")
    whole, name = Fraction(0), "C" if problem.free else "lam"
    for number, (share, own) in enumerate(zip(shares, _trees(tree), strict=True)):
        weight = np.where(tree["block"] == number, statement.weighted, 0.0)
        price = _below(Fraction(problem.number(name)) / share)
        if weight.any() and price > 0.0:
            about = replace(statement, weight=weight, hyperparameters={name: price})
            block = Problem(replace(proof, statement=about, tree=own), problem.X, problem.codes)
            whole += share * Fraction(max(_Tree(block, _Vectors(block)).bound(), 0.0))
    return max(_below(whole), 0.0)


def _trees(tree: Tree) -> Iterator[dict[str, Any]]:
    """Yield the tree of each block."""
    nodes = _ends(tree, "nodes", "branch", "nodes")
    bounds = _ends(tree, "bounds", "upper", "bounds")[nodes]
    ends = {"branch": nodes, "bounds": nodes}
    for entry, what, names in (
        ("flip", "marks", ("flip_row",)),
        ("beta", "multipliers", ("beta_row", "beta")),
    ):
        first = _ends(tree, f"{entry}_count", names[0], what)[bounds]
        ends |= dict.fromkeys(names, first)
    for number in range(nodes.size - 1):
        found = {}
        for name in tree.keys() - {"nodes", "share", "block", "centre"}:
            begin, end = ends.get(name, bounds)[number : number + 2]
            found[name] = tree[name][begin:end]
        if "centre" in tree:
            found["centre"] = tree["centre"][number]
        yield found


def _distinct(rows: Floats, weight: Floats) -> tuple[Integers, Floats]:
    """Return the first of each of the distinct rows in order, and their weights from below."""
    _, first, copies = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    order, counts = np.argsort(first), np.bincount(copies.ravel())
    weights = np.bincount(copies.ravel(), weights=weight) * (1 - (2 + counts) * U)
    return first[order], weights[order]


def _few_digits(values: Floats) -> Floats:
    """Round up to twelve binary digits, the rule for M."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.ceil(mantissa * 4096.0) / 4096.0, exponent))


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)


def _up(value: float) -> float:
    return math.nextafter(value, math.inf)


def _below(value: Fraction) -> float:
    try:
        return _down(float(value))
    except OverflowError:
        return math.nextafter(math.inf, 0.0)
