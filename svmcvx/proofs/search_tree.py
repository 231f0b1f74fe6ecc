r"""The record of a branch and bound for the 0-1 loss, computed again in double precision with bounds on the rounding.

Each node keeps some rows (u ≥ 1) and drops others (u ≤ 1); the two children of a node decide one more row. Of the points of a node only
those with an objective below the node's U count. For any slopes β, with :math:`0 \le \beta_i \le h_i/M_i` for rows that are not decided,
β ≥ 0 for rows kept, β ≤ 0 for rows dropped, each such point w costs at least

.. math:: D + \|w - m\|^2, \qquad m = \tfrac12\sum\beta_ig_i,\quad D = \sum\beta_i + \sum_{dropped} h_i - \|m\|^2 \;(-\,\text{price} \cdot k),

where :math:`h_i` is the price of a loss and :math:`M_i` is at least :math:`1 - u_i` at all points that count. So these lie within
:math:`\sqrt{U - D}` of m, which gives new :math:`M_i`, and decides rows that the ball leaves no choice.

What no leaf contains costs at least the smallest U; what a leaf contains at least its D, or what multipliers of a leaf without undecided
rows prove: :math:`(\sum\alpha)^2/\|\sum\alpha_ig_i\|^2` and the prices of what it drops.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.proofs.arithmetic.intervals import TINY, U
from svmcvx.proofs.problem import Problem, Refused

__all__ = ["has_tree", "tree_bound"]

Floats: TypeAlias = NDArray[np.float64]
States: TypeAlias = NDArray[np.int8]

# Scales and penalties beyond are no search's; prices below underflow.
LARGEST, SMALLEST = 2.0**200, 2.0**-700
FREE, KEPT, DROPPED = 0, 1, 2
# Bounds are themselves computed in doubles: enlarged by this factor. M that are larger than those of the search prove less.
SLACK: Final = 1.0 + 1e-13
# M have this many units between one half and one, in the search too.
DIGITS: Final = 4096.0


def has_tree(problem: Problem) -> bool:
    """Whether the proof has the record of a search."""
    return bool(problem.proof.tree)


def tree_bound(problem: Problem) -> float:
    """Return a number that the optimum is not below.

    Raises
    ------
    Refused
        If the record is not one of a search on these data.
    """
    return _Tree(problem).bound()


@dataclass
class _Node:
    state: States
    M: Floats
    bound: float


class _Tree:
    """The record, and the rows that it is about."""

    def __init__(self, problem: Problem) -> None:
        self.extra: dict[str, Any] = dict(problem.proof.tree)
        for name, values in self.extra.items():
            if not np.isfinite(values).all():
                raise Refused(f"the {name} of the search's record are not finite")
        self.H, self.length = self._rows(problem)
        self.weight = self._weights(problem)
        cardinality = problem.has("k")
        scale = float(self.extra["scale"])
        self.k = problem.number("k") if cardinality else math.inf
        self.lam = 0.0 if cardinality else _down(problem.number("lam") * scale**2)
        self.unit = scale**2
        self.penalty = float(self.extra["penalty"])
        if not 0 < self.penalty <= LARGEST:
            raise Refused(f"the penalty of the search's record must be positive and at most {LARGEST:g}")
        if not cardinality and self.lam * float(self.weight.min()) < SMALLEST:
            raise Refused("the prices of the search's record are too small for the arithmetic of this check")

    def _rows(self, problem: Problem) -> tuple[Floats, Floats]:
        """Distinct signed rows, divided by a power of two, and bounds on their lengths."""
        scale = float(self.extra["scale"])
        if not (1 / LARGEST <= scale <= LARGEST and math.frexp(scale)[0] == 0.5):
            raise Refused(
                f"the scale of the search's record is no power of two between {1 / LARGEST:g} and {LARGEST:g}"
            )
        kept = problem.X[problem.index]
        rows = np.asarray(kept.toarray() if sp.issparse(kept) else kept, dtype=np.float64)
        if problem.penalised:
            rows = np.column_stack([rows, np.ones(len(rows))])
        signed = rows * problem.signs[:, None]
        rows = signed / scale
        if (rows * scale != signed).any():
            raise Refused("rows divided by the scale of the search's record are not exact")
        distinct = self.extra["distinct"].astype(np.int64).ravel()
        position = np.full(problem.codes.size, -1)
        position[problem.index] = np.arange(problem.n)
        if not ((distinct >= 0) & (distinct < position.size)).all() or (position[distinct] < 0).any():
            raise Refused("the record of the search names rows that the data do not have")
        named = self.extra["rows"].ravel()
        if named.shape != (problem.codes.size,):
            raise Refused("the record of the search is not about as many rows as the data have")
        place = np.full(problem.codes.size, -1)
        place[distinct] = np.arange(distinct.size)
        self.copies = place[named[problem.index].astype(np.int64)]
        if (self.copies < 0).any() or (rows[position[distinct]][self.copies] != rows).any():
            raise Refused("the record of the search takes different rows for the same")
        H = np.ascontiguousarray(rows[position[distinct]])
        return H, np.sqrt(np.einsum("ij,ij->i", H, H) * (1 + (H.shape[1] + 4) * U)) * SLACK + TINY

    def _weights(self, problem: Problem) -> Floats:
        found = np.bincount(self.copies, weights=problem.weight, minlength=len(self.H))
        return np.asarray(found * (1 - (1 + np.bincount(self.copies, minlength=len(self.H))) * 2 * U))

    def bound(self) -> float:
        """Go through the nodes, parents first."""
        parents, decisions = (self.extra[name].astype(np.int64).ravel() for name in ("parents", "decisions"))
        rounds, points = self.extra["rounds"].astype(np.int64).ravel(), self.extra["points"]
        n, r = self.H.shape
        count = parents.size + 1
        if decisions.size != count - 1 or rounds.size != count or points.shape != (int(rounds.sum()), r + 3):
            raise Refused("the parts of the search's record do not fit each other")
        if (rounds < 0).any() or (parents < 0).any() or (parents >= np.arange(1, count)).any():
            raise Refused("the record of the search names a node before its parent")
        first = np.concatenate([[0], np.cumsum(rounds)])
        children = np.bincount(parents, minlength=count) if count > 1 else np.zeros(count, dtype=np.int64)
        if not np.isin(children, (0, 2)).all():
            raise Refused("a node of the search's record has one child, or more than two")
        least = math.inf
        open_: dict[int, _Node] = {}
        halves: dict[int, int] = {}
        for number in range(count):
            if number == 0:
                node = _Node(np.zeros(n, dtype=np.int8), self._first_reach(points, int(rounds[0])), 0.0)
            else:
                parent, decision = int(parents[number - 1]), int(decisions[number - 1])
                row = abs(decision) - 1
                if not 0 <= row < n or parent not in open_:
                    raise Refused(f"node {number} of the search's record decides nothing that is open")
                above = open_[parent]
                # Also where the ball of the parent has settled the row here: one of the children is empty then.
                state = above.state.copy()
                state[row] = KEPT if decision > 0 else DROPPED
                node = _Node(state, above.M, above.bound)
                other = halves.pop(parent, None)
                if other is None:
                    halves[parent] = decision
                else:
                    if other != -decision:
                        raise Refused(f"the children of node {parent} of the search's record do not cover it")
                    del open_[parent]
            used = points[first[number] : first[number + 1]]
            node = self._relaxed(node, used)
            for upper in used[:, r + 1]:
                least = min(least, float(upper))
            if children[number]:
                open_[number] = node
            else:
                least = min(least, max(node.bound, self._leaf(number, node)))
        # No objective is negative.
        return max(_down(least / self.unit), 0.0) if math.isfinite(least) else -math.inf

    def _first_reach(self, points: Floats, rounds: int) -> Floats:
        if rounds == 0:
            raise Refused("the first node of the search's record has no point")
        upper = float(points[0, self.H.shape[1] + 1])
        size = math.sqrt(upper) * SLACK if upper >= 0 else math.inf
        return _few_digits((1.0 + self.length * size) * SLACK)

    def _relaxed(self, node: _Node, points: Floats) -> _Node:
        H, r, n = self.H, self.H.shape[1], self.H.shape[0]
        state, M, bound = node.state.copy(), node.M.copy(), node.bound
        for point in points:
            w, price, upper, share = point[:r], float(point[r]), float(point[r + 1]), float(point[r + 2])
            if math.isinf(self.k):
                price = self.lam
            elif price < 0:
                raise Refused("a multiplier of the budget is negative in the search's record")
            if not (upper >= 0 and 0 < share <= 1):
                raise Refused("a point of the search's record has no value to be better than")
            height = price * self.weight * (1 - 4 * U)
            shortfall = 1.0 - H @ w
            rho = self.penalty * max(upper, 1.0)
            free, kept, dropped = state == FREE, state == KEPT, state == DROPPED
            with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
                cap = np.where(free, height / np.maximum(M, TINY) * (1 - 8 * U), 0.0)
                beta = np.where(free, cap * np.clip(shortfall / (share * M), 0.0, 1.0), 0.0)
            beta[kept] = 2 * rho * np.maximum(shortfall[kept], 0.0)
            beta[dropped] = 2 * rho * np.minimum(shortfall[dropped], 0.0)
            if not np.isfinite(beta).all():
                continue
            m = 0.5 * (beta @ H)
            mass, size = float(np.abs(beta) @ self.length), float(np.abs(beta).sum() + height[dropped].sum())
            blur = (n + 16) * U * mass * SLACK
            longest = math.sqrt(float(m @ m)) * (1 + (r + 8) * U) + blur
            given = 0.0 if math.isinf(self.k) else price * self.k
            value = math.fsum([*beta.tolist(), *height[dropped].tolist(), -longest * longest, -given])
            value -= 16 * U * (size + longest * longest + given) * SLACK + TINY
            bound = max(bound, value)
            if bound >= upper:
                break
            radius = (math.sqrt(upper - value) + blur + (r + 16) * U * (longest + 1.0)) * SLACK
            centre = 1.0 - H @ m
            reach = self.length * radius * SLACK + 16 * U * (1.0 + np.abs(centre))
            most, fewest = centre + reach, centre - reach
            M = np.where(free & (most > 0), np.minimum(_few_digits(most), M), M)
            state = np.where(free & (most <= 0), KEPT, np.where(free & (fewest > 0), DROPPED, state)).astype(np.int8)
        if math.fsum(self.weight[state == DROPPED].tolist()) * (1 - 4 * U) > self.k:
            bound = math.inf
        return _Node(state, M, bound)

    def _leaf(self, number: int, node: _Node) -> float:
        """What the prices of a leaf, and multipliers if it has any, prove."""
        prices = self.lam * math.fsum(self.weight[node.state == DROPPED].tolist()) * (1 - 16 * U)
        here = self.extra["leaves"] == number
        if not here.any():
            return prices
        rows, alpha = self.extra["leaf_rows"][here].astype(np.int64), self.extra["leaf_multipliers"][here]
        if (alpha < 0).any() or not ((rows >= 0) & (rows < len(self.H))).all() or (node.state[rows] != KEPT).any():
            raise Refused(
                f"the multipliers of leaf {number} of the search's record are not those of rows that it keeps"
            )
        largest = float(alpha.max(initial=0.0))
        if largest == 0.0:
            return prices
        # A power of two, so that neither squares underflow nor do they overflow.
        alpha = np.ldexp(alpha, -math.frexp(largest)[1])
        along = np.array([math.fsum(column) for column in (self.H[rows] * alpha[:, None]).T.tolist()])
        blur = 4 * U * float(alpha @ self.length[rows]) * SLACK
        size = math.sqrt(math.fsum((along**2).tolist())) * (1 + 16 * U) + blur
        if not 0 < size < math.inf:
            return math.inf if _vanishes(self.H[rows], alpha) else prices
        norm = (math.fsum(alpha.tolist()) / size) ** 2 * (1 - 16 * U)
        if rows.size <= self.H.shape[1] + 1:
            norm = max(norm, _least_norm(self.H[rows]))
        return norm * (1 - 4 * U) + prices


def _vanishes(rows: Floats, alpha: Floats) -> bool:
    """Whether Σ αᵢgᵢ = 0 exactly, for α ≥ 0 of which some is positive: then no point has all u ≥ 1."""
    exact = [Fraction(a) for a in alpha.tolist()]
    return sum(exact) > 0 and all(
        sum((a * Fraction(x) for a, x in zip(exact, column, strict=True)), Fraction(0)) == 0
        for column in rows.T.tolist()
    )


def _least_norm(rows: Floats) -> float:
    """Return a number that is at most the least norm, squared, with u ≥ 1 on some rows, in rational arithmetic.

    Where all u = 1 with multipliers that are not negative, it is their sum; a combination of the rows that vanishes, with weights that
    are not negative, says that there is no such point; else 0.
    """
    G = [[Fraction(value) for value in row] for row in rows.tolist()]
    size = len(G)
    gram = [[sum((a * b for a, b in zip(x, z, strict=True)), Fraction(0)) for z in G] + [Fraction(1)] for x in G]
    found, left = _reduced(gram, size)
    if not left:
        alpha = [found[k][size] for k in range(size)]
        return _down(float(sum(alpha, Fraction(0)))) if min(alpha) >= 0 else 0.0
    found, left = _reduced([list(column) for column in zip(*G, strict=True)], size)
    if len(left) != 1:
        return 0.0
    others = [k for k in range(size) if k != left[0]]
    weights = [-row[left[0]] for row in found[: len(others)]]
    return math.inf if min(weights, default=Fraction(0)) >= 0 else 0.0


def _reduced(A: list[list[Fraction]], columns: int) -> tuple[list[list[Fraction]], list[int]]:
    """Reduce the first columns of a matrix to those of the identity; return it, and the columns without a pivot."""
    left, row = [], 0
    for k in range(columns):
        pivot = next((i for i in range(row, len(A)) if A[i][k]), None)
        if pivot is None:
            left.append(k)
            continue
        A[row], A[pivot] = A[pivot], A[row]
        A[row] = [x / A[row][k] for x in A[row]]
        for i in range(len(A)):
            if i != row and A[i][k]:
                factor = A[i][k]
                A[i] = [x - factor * z for x, z in zip(A[i], A[row], strict=True)]
        row += 1
    return A, left


def _few_digits(values: Floats) -> Floats:
    """Round up to the numbers that the search takes for M."""
    mantissa, exponent = np.frexp(values)
    return np.asarray(np.ldexp(np.ceil(mantissa * DIGITS) / DIGITS, exponent))


def _down(value: float) -> float:
    return math.nextafter(value, -math.inf)
