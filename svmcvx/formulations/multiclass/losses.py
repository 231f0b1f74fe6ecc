r"""Losses of the score differences of one observation, and their conjugates, from which all dual
problems follow.

A loss is a convex, decreasing function of the differences :math:`f_{ik} = S_{iy_i} - S_{ik}`, k ≠
y_i, between the score of the observation's own class and the others. It is its own biconjugate,

.. math:: \ell(f_i) = \max_{a \in A}\; g(a) - \sum_k a_k f_{ik},

over multipliers :math:`a \ge 0` in a convex domain A, with the concave function :math:`g(a) =
-\ell^*(-a)`.

- hinge: :math:`\ell(f) = \sum_k (1-f_k)_+`, :math:`g(a) = \sum a_k`, 0 ≤ a ≤ 1;
- smoothed: :math:`\sum_k \tfrac12(\gamma_k+\sqrt{\gamma_k^2+\delta^2})`,
  :math:`\sum a_k+\delta\sqrt{a_k(1-a_k)}`, 0 ≤ a ≤ 1;
- logistic: :math:`\sum_k \log(1+e^{-f_k})`, :math:`\sum h(a_k)+h(1-a_k)`, 0 ≤ a ≤ 1;
- softmax: :math:`\log(1+\sum_k e^{-f_k})`, :math:`\sum h(a_k) + h(1-\sum a_k)`, a ≥ 0, Σa ≤ 1;
- largest: :math:`\max_k (1-f_k)_+`, :math:`\sum a_k`, a ≥ 0, Σa ≤ 1;
- top-k: the mean of the k largest, see ``TopHinge``;
- margin: 0 where every f ≥ 1, else infinite; :math:`\sum a_k`, a ≥ 0;

with :math:`\gamma = 1 - f` and :math:`h(a) = -a\log a`. Arrays have
one row per observation, shape (n, c − 1); the column j is the j-th class other than :math:`y_i`.


**Exact constraints.** Numbers on a grid of powers of two that are not too long are added without
rounding, so that their sums can be compared and repaired in whole steps of the grid. The
multipliers :math:`\alpha_{ik}` of an observation of class k' are *flows* from k' to k; they are
balanced, :math:`B'1 = 0`, if what leaves a class is what enters it. Any flow is a sum of cycles and
of paths from classes with a surplus to classes with a deficit, so that flows can be balanced by
reductions alone, along such paths.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import (
    Bounded,
    entropy,
    exact,
    hypot,
    largest_sums,
    log1p_exp,
    log1p_sum_exp,
    maximum,
    parts_of,
    positive_part,
    remainder,
    row_maxima,
    row_sums,
    sqrt,
    stacked,
    total,
    where,
)
from svmcvx.certificate.exactly import LARGEST_BITS, SUM_BITS, nearest_sum
from svmcvx.formulations.base import ON_SUPPORT
from svmcvx.formulations.optimal_intercepts import SumOfBounded
from svmcvx.losses import slack

if TYPE_CHECKING:
    import cvxpy as cp

Units: TypeAlias = NDArray[np.int64]
Room: TypeAlias = Callable[[Units], Units]


def _row_exponents(a: Floats) -> NDArray[np.intp]:
    """Return the exponents of a grid per row on which its numbers, sums and multiples are exact."""
    exponents = np.frexp(row_maxima(a))[1].astype(np.intp)
    return np.asarray(np.maximum(exponents - (51 - int(a.shape[1] + 1).bit_length()), -1074))


def _excess(found: Bounded, rows: Floats, exactly: Callable[[list[float], int], float]) -> Floats:
    """Return the positive parts per row; `exactly` decides the signs that rounding leaves open."""
    excess = found.value
    unsure = np.flatnonzero(np.abs(excess) <= found.error)
    units = np.ldexp(rows[unsure], -_row_exponents(rows[unsure])[:, None])
    for i in unsure[(units != np.floor(units)).any(axis=1)].tolist():
        excess[i] = exactly(rows[i].tolist(), i)
    return np.asarray(np.maximum(excess, 0.0))


def excess_of_sums(a: Floats, bound: Floats) -> Floats:
    """Return the excess of each row's sum over its bound: positive if and only if there is one."""
    found = row_sums(exact(a)) - bound
    return _excess(found, a, lambda row, i: math.fsum([*row, -float(bound[i])]))


def reduced_to_sums(a: Floats, bound: Floats) -> Floats:
    """Return non-negative rows reduced to a bound of the sum; others stay as they are."""
    over = np.flatnonzero(excess_of_sums(a, bound) > 0)
    if not over.size:
        return a
    a = a.copy()
    rows, limit = a[over], bound[over]
    # In two steps: huge numbers overflow in a sum, tiny ones underflow in a product.
    rows = np.minimum(rows, limit[:, None])
    rows = rows * np.minimum(limit / row_sums(rows), 1.0)[:, None]
    exponents = _row_exponents(rows)
    units = np.floor(np.ldexp(rows, -exponents[:, None]))
    left = np.ceil(row_sums(units) - np.ldexp(limit, -exponents))
    largest = units.argmax(axis=1)
    every = np.arange(over.size)
    units[every, largest] = np.maximum(units[every, largest] - np.maximum(left, 0.0), 0.0)
    a[over] = np.ldexp(units, exponents[:, None])
    return a


def violation_of_top(a: Floats, bound: Floats, k: int) -> Floats:
    """Return the violation of ``k a ≤ bound``, ``(k − 1) a ≤ sum`` per row, 0 only if none."""
    largest = row_maxima(exact(a))
    found = maximum(float(k) * largest - bound, float(k - 1) * largest - row_sums(exact(a)))

    def exactly(row: list[float], i: int) -> float:
        top = max(row)
        over, apart = [top] * k + [-float(bound[i])], [top] * (k - 1) + [-each for each in row]
        return max(math.fsum(over), math.fsum(apart))

    return _excess(found, a, exactly)


def cut_units(units: Floats, k: int) -> Floats:
    """Return whole numbers cut off where ``(k − 1) a ≤ sum`` holds for the largest.

    Cut off at τ the sum is Σ min(a_j, τ) = min over m of mτ + (the sum of all but the m largest),
    which is at least (k − 1)τ if and only if τ is at most each of these quotients.
    """
    if k == 1:
        return units
    descending = -np.sort(-units, axis=1)
    tails = descending[:, ::-1].cumsum(axis=1)[:, ::-1][:, : k - 1]
    largest = np.floor(tails / (k - 1.0 - np.arange(tails.shape[1]))).min(axis=1, keepdims=True)
    return np.asarray(np.minimum(units, largest))


def cut_to_top(a: Floats, bound: Floats, k: int) -> Floats:
    """Return rows cut to ``k a ≤ bound`` and ``(k − 1) a ≤ sum``; others stay as they are."""
    wrong = np.flatnonzero(violation_of_top(a, bound, k) > 0)
    if not wrong.size:
        return a
    a = a.copy()
    rows = np.minimum(a[wrong], bound[wrong, None])
    exponents = _row_exponents(rows)
    units = np.floor(np.ldexp(rows, -exponents[:, None]))
    cap = np.floor(np.floor(np.ldexp(bound[wrong], -exponents)) / k)
    cap = np.where(k * cap > np.ldexp(bound[wrong], -exponents), cap - 1.0, cap)
    a[wrong] = np.ldexp(cut_units(np.minimum(units, cap[:, None]), k), exponents[:, None])
    return a


def common_units(alpha: Floats) -> tuple[Floats, int]:
    """Return multipliers in units of a grid, not rounded, and its exponent; sums fit 64 bits."""
    bits = min(LARGEST_BITS, SUM_BITS - max(1, int(alpha.size).bit_length()))
    exponent = max(math.frexp(float(alpha.max(initial=0.0)))[1] - bits, -1074)
    return np.ldexp(alpha, -exponent), exponent


def class_flows(units: Units, codes: NDArray[np.intp], c: int) -> Units:
    """Return the sums of the flows from class to class, shape (c, c)."""
    table = np.zeros((c, c), dtype=np.int64)
    for k in range(c):
        table[k, np.arange(c) != k] = units[codes == k].sum(axis=0)
    return table


def _columns(alpha: Floats, codes: NDArray[np.intp], c: int) -> list[Floats]:
    """Return what leaves each class, and less what enters it."""
    columns: list[list[Floats]] = [[] for _ in range(c)]
    for k in range(c):
        own = alpha[codes == k]
        columns[k].append(own.ravel())
        for column, other in zip(own.T, np.flatnonzero(np.arange(c) != k), strict=True):
            columns[other].append(-column)
    return [np.concatenate(parts) for parts in columns]


def imbalance(alpha: Floats, codes: NDArray[np.intp], c: int) -> Bounded:
    """Return B'1 of non-negative multipliers; whole units of a grid are added exactly."""
    units, exponent = common_units(alpha)
    whole = np.floor(units)
    table = class_flows(whole.astype(np.int64), codes, c)
    left = table.sum(axis=1) - table.sum(axis=0)
    # Halves of 64 bits are numbers without rounding.
    found: Bounded = exact((left >> 32).astype(np.float64)) * 2.0**32 + (left & 0xFFFFFFFF).astype(
        np.float64
    )
    if not np.array_equal(whole, units):
        found = found + stacked(
            total(exact(column)) for column in _columns(units - whole, codes, c)
        )
    return found * 2.0**exponent


def is_balanced(
    alpha: Floats, codes: NDArray[np.intp], c: int, found: Bounded | None = None
) -> bool:
    """Whether B'1 is exactly 0; `found` is its :func:`imbalance` where that is known."""
    found = imbalance(alpha, codes, c) if found is None else found
    if (np.abs(found.value) > found.error).any():
        return False
    return not np.any(found.error) or all(
        nearest_sum(column) == 0.0 for column in _columns(alpha, codes, c)
    )


def reduced_to_balance(
    units: Units, codes: NDArray[np.intp], c: int, room: Room | None = None
) -> Units | None:
    """Return multipliers in whole units reduced to balance; None if the room is too small."""
    units = units.copy()
    members = [np.flatnonzero(codes == k) for k in range(c)]
    table = class_flows(units, codes, c)
    surplus = table.sum(axis=1) - table.sum(axis=0)
    while surplus.any():
        capacity = table if room is None else class_flows(room(units), codes, c)
        path = _path(capacity, surplus)
        if path is None:
            return None
        steps = list(itertools.pairwise(path))
        amount = min(
            int(surplus[path[0]]), -int(surplus[path[-1]]), *(int(capacity[step]) for step in steps)
        )
        for k, other in steps:
            column = other - (other > k)
            rows = members[k]
            most = (units if room is None else room(units))[rows, column]
            order = rows[np.argsort(-units[rows, column], kind="stable")]
            most = most[np.argsort(-units[rows, column], kind="stable")]
            taken = np.minimum(np.cumsum(most), amount)
            units[order, column] -= np.diff(taken, prepend=0)
            table[k, other] -= amount
        surplus[path[0]] -= amount
        surplus[path[-1]] += amount
    return units


def _path(capacity: Units, surplus: Units) -> list[int] | None:
    """Return a shortest path of arcs with capacity from a surplus to a deficit."""
    for start in np.argsort(-surplus, kind="stable"):
        if surplus[start] <= 0:
            return None
        came: dict[int, int] = {int(start): -1}
        queue = [int(start)]
        for k in queue:
            if surplus[k] < 0:
                path = [k]
                while came[path[-1]] >= 0:
                    path.append(came[path[-1]])
                return path[::-1]
            for other in np.flatnonzero(capacity[k]):
                if int(other) not in came:
                    came[int(other)] = k
                    queue.append(int(other))
    return None


# A move z keeps 0 ≤ a ≤ 1 while |z| ≤ 1 and a simplex while |z| ≤ 1/2.
LONGEST_MOVE = 0.5


class CvxpyLoss(NamedTuple):
    value: cp.Expression
    constraints: list[cp.Constraint]
    parameters: tuple[cp.Parameter, ...] = ()


class ScoreLoss(ABC):
    """A loss of one observation's score differences; arrays have one row per observation."""

    name: ClassVar[str]
    smooth: ClassVar[bool] = False
    # Whether the domain is a cone.
    cone: ClassVar[bool] = False

    @abstractmethod
    def value(self, f: Any) -> Any:
        """Return the loss of each row, of plain or of bounded differences."""

    @abstractmethod
    def multipliers(self, f: Floats) -> Floats:
        """Return minus a subgradient: multipliers that are optimal for `f`."""

    def curvature(self, f: Floats) -> Floats | None:
        """Return second derivatives, shape (n, c − 1, c − 1); None if the loss is not smooth."""
        return None

    def conjugate(self, alpha: Any, s: Any) -> Any:
        r"""Return :math:`s_i\,g(\alpha_i/s_i)` of α inside s times the domain; Σα by default."""
        return row_sums(alpha)

    @abstractmethod
    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        """Return multipliers inside s times the domain (s = 1 if None); unchanged if they are."""

    def project_approx(self, a: Floats) -> Floats:
        """Return multipliers inside the domain up to rounding, cheaply."""
        return self.project(a)

    @abstractmethod
    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        """Return the violation of s times the domain (s = 1 if None); 0 only if there is none."""

    def balanced_units(self, units: Units, codes: NDArray[np.intp], c: int) -> Units | None:
        """Return whole units reduced until B'1 = 0 inside the domain; None where that fails."""
        return reduced_to_balance(units, codes, c)

    @abstractmethod
    def feasible_move(self, a: Floats, z: Floats) -> Floats:
        """Return a feasible direction, linear in `z` and of non-negative inner product with it.

        It is zero for multipliers at a bound, and a step of 1 stays in the domain while
        ``|z| ≤ LONGEST_MOVE``.
        """

    @abstractmethod
    def uniform_multiplier(self, c: int) -> float:
        """Return the largest a for which (a, …, a) is in the domain of c classes (1 if any is)."""

    @abstractmethod
    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """State the weighted sum in cvxpy, with a constraint ``margin`` whose multipliers are α."""

    def support(self, f: Floats) -> NDArray[np.bool_]:
        """Return whether each observation may have a multiplier different from zero at `f`."""
        return (
            np.full(f.shape[0], True)
            if self.smooth
            else np.asarray((f <= 1.0 + ON_SUPPORT).any(axis=1))
        )

    @property
    def linear_pieces(self) -> SumOfBounded | None:
        """The domain of a piecewise linear loss, if it is of that kind."""
        return None

    @property
    def parameters(self) -> dict[str, float]:
        return {}


def difference_variable(f: cp.Expression) -> tuple[cp.Variable, cp.Constraint]:
    """Return the differences as a variable ``f``, and its constraint, whose multipliers are α."""
    import cvxpy as cp

    difference = cp.Variable(f.shape, name="f")
    return difference, (difference == f).set_label("margin")


def box_violation(a: Floats, s: Floats | None) -> float:
    """Return the largest violation of 0 ≤ a ≤ s; s = 1 if None."""
    return max(0.0, float(-a.min()), float((a - (1.0 if s is None else s[:, None])).max()))


def diagonal_matrices(h: Floats) -> Floats:
    return np.asarray(h[:, :, None] * np.eye(h.shape[1]))


class _SeparateLoss(ScoreLoss):
    """A sum of losses of one difference each, with the domain 0 ≤ a ≤ 1."""

    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        return np.clip(a, 0.0, 1.0 if s is None else s[:, None])

    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        return box_violation(a, s)

    def feasible_move(self, a: Floats, z: Floats) -> Floats:
        return a * (1.0 - np.minimum(a, 1.0)) * z

    def uniform_multiplier(self, c: int) -> float:
        return 1.0


class HingeSum(_SeparateLoss):
    r"""The loss of [WestonWatkins], :math:`\sum_k (1-f_k)_+`."""

    name = "hinge"

    def value(self, f: Any) -> Any:
        return row_sums(slack(f))

    @property
    def linear_pieces(self) -> SumOfBounded:
        return SumOfBounded(1.0)

    def multipliers(self, f: Floats) -> Floats:
        return np.where(f < 1.0, 1.0, 0.0)

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        import cvxpy as cp

        xi = cp.Variable(f.shape, name="xi")
        return CvxpyLoss(
            cp.sum(weight @ xi), [(xi >= 1 - f).set_label("margin"), (xi >= 0).set_label("slack")]
        )


@dataclass(frozen=True)
class SmoothedHingeSum(_SeparateLoss):
    """The smoothed hinge, at most δ/2 per term above the hinge: [NieHaoWang], Lemma 2 and (14)."""

    delta: float
    name: ClassVar[str] = "smoothed"
    smooth: ClassVar[bool] = True

    def value(self, f: Any) -> Any:
        gamma = 1.0 - f
        root = hypot(gamma, self.delta)
        tail = self.delta * (self.delta / (root + abs(gamma)))
        return 0.5 * row_sums(where(parts_of(gamma)[0] >= 0, gamma + root, tail))

    def multipliers(self, f: Floats) -> Floats:
        gamma = 1.0 - f
        root = np.hypot(gamma, self.delta)
        tail = (self.delta / root) * (self.delta / (root + np.abs(gamma))) / 2
        return np.where(gamma >= 0, 1.0 - tail, tail)

    def curvature(self, f: Floats) -> Floats | None:
        root = np.hypot(1.0 - f, self.delta)
        return diagonal_matrices((self.delta / root) ** 2 / (2.0 * root))

    def conjugate(self, alpha: Any, s: Any) -> Any:
        return row_sums(alpha + self.delta * (sqrt(alpha) * sqrt(s[:, None] - alpha)))

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        import cvxpy as cp

        delta = cp.Parameter(pos=True, name="delta", value=self.delta)
        difference, margin = difference_variable(f)
        gamma = cp.vec(1 - difference, order="F")
        root = cp.norm(cp.vstack([gamma, delta * np.ones(gamma.shape)]), 2, axis=0)
        repeated = np.tile(weight, f.shape[1])
        return CvxpyLoss(0.5 * (repeated @ (gamma + root)), [margin], (delta,))

    @property
    def parameters(self) -> dict[str, float]:
        return {"delta": self.delta}


class LogisticSum(_SeparateLoss):
    r"""The logistic loss of each difference, :math:`\sum_k \log(1+e^{-f_k})`, [NieHaoWang] (33)."""

    name = "logistic"
    smooth = True

    def value(self, f: Any) -> Any:
        return row_sums(log1p_exp(-f))

    def multipliers(self, f: Floats) -> Floats:
        return np.asarray(expit(-f))

    def curvature(self, f: Floats) -> Floats | None:
        return diagonal_matrices(np.asarray(expit(f) * expit(-f)))

    def conjugate(self, alpha: Any, s: Any) -> Any:
        s = s[:, None]
        rest = s - alpha
        return row_sums(entropy(alpha, rest, s) + entropy(rest, alpha, s))

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        import cvxpy as cp

        difference, margin = difference_variable(f)
        return CvxpyLoss(cp.sum(weight @ cp.logistic(-difference)), [margin])


class Margin(ScoreLoss):
    """The hard margin: every difference has to be at least 1."""

    name = "margin"
    cone = True

    def value(self, f: Any) -> Any:
        return np.where((f >= 1.0).all(axis=1), 0.0, np.inf)

    def multipliers(self, f: Floats) -> Floats:
        return np.zeros_like(f)

    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        return np.maximum(a, 0.0)

    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        return max(0.0, float(-a.min()))

    def feasible_move(self, a: Floats, z: Floats) -> Floats:
        return a * z

    def uniform_multiplier(self, c: int) -> float:
        return 1.0

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        import cvxpy as cp

        return CvxpyLoss(cp.Constant(0.0), [(f >= 1).set_label("margin")])


class _SimplexLoss(ScoreLoss):
    """A loss with the domain a ≥ 0, Σa ≤ 1."""

    cap: float = 1.0

    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        s = np.ones(a.shape[0]) if s is None else s
        return reduced_to_sums(np.clip(a, 0.0, s[:, None]), s)

    def project_approx(self, a: Floats) -> Floats:
        a = np.clip(a, 0.0, self.cap)
        return np.asarray(a / np.maximum(row_sums(a), 1.0)[:, None])

    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        s = np.ones(a.shape[0]) if s is None else s
        return max(box_violation(a, s), float(excess_of_sums(a, s).max()))

    def feasible_move(self, a: Floats, z: Floats) -> Floats:
        # The slack 1 − Σa counts as one more multiplier, with z = 0.
        mobile = a * np.maximum(1.0 - a / self.cap, 0.0)
        rest = np.maximum(1.0 - row_sums(a), 0.0)
        total = row_sums(mobile) + rest * (1.0 - rest)
        mean = np.divide(row_sums(mobile * z), total, out=np.zeros_like(total), where=total > 0)
        return np.asarray(mobile * (z - mean[:, None]))

    def uniform_multiplier(self, c: int) -> float:
        return min(self.cap, 1.0 / (c - 1))


class Softmax(_SimplexLoss):
    r"""Cross-entropy, :math:`\log(1+\sum_k e^{-f_k})`."""

    name = "softmax"
    smooth = True

    def value(self, f: Any) -> Any:
        return log1p_sum_exp(-f)

    def multipliers(self, f: Floats) -> Floats:
        top = np.maximum(row_maxima(-f), 0.0)
        terms = np.exp(-f - top[:, None])
        return np.asarray(terms / (row_sums(terms) + np.exp(-top))[:, None])

    def curvature(self, f: Floats) -> Floats | None:
        a = self.multipliers(f)
        return diagonal_matrices(a) - a[:, :, None] * a[:, None, :]

    def conjugate(self, alpha: Any, s: Any) -> Any:
        others = entropy(alpha, s[:, None] - alpha, s[:, None])
        return row_sums(others) + entropy(remainder(s, alpha), row_sums(alpha), s)

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        import cvxpy as cp

        difference, margin = difference_variable(f)
        padded = cp.hstack([np.zeros((f.shape[0], 1)), -difference])
        return CvxpyLoss(weight @ cp.log_sum_exp(padded, axis=1), [margin])


@dataclass(frozen=True)
class TopHinge(_SimplexLoss):
    r"""The mean of the k largest of :math:`(1-f_k)_{k\ne y}` and the own class's 0, at least 0.

    Without the own class's multiplier the domain is :math:`0 \le a_j \le 1/k`,
    :math:`\sum a \le 1`, :math:`(k-1)\,a_j \le \sum a`.
    """

    k: int
    name: ClassVar[str] = "topk"

    @property
    def cap(self) -> float:  # type: ignore[override]
        return 1.0 / self.k

    def value(self, f: Any) -> Any:
        gamma = 1.0 - f
        top = positive_part(largest_sums(gamma, self.k))
        return (
            top if self.k == 1 else maximum(top, positive_part(largest_sums(gamma, self.k - 1)))
        ) / self.k

    @property
    def linear_pieces(self) -> SumOfBounded | None:
        return SumOfBounded(self.cap, 1.0) if self.k <= 2 else None

    def multipliers(self, f: Floats) -> Floats:
        gamma = np.hstack([1.0 - f, np.zeros((f.shape[0], 1))])
        top = np.argsort(-gamma, axis=1, kind="stable")[:, : self.k]
        a = np.zeros_like(gamma)
        np.put_along_axis(a, top, np.where(self.value(f) > 0, 1.0 / self.k, 0.0)[:, None], axis=1)
        return np.ascontiguousarray(a[:, :-1])

    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        s = np.ones(a.shape[0]) if s is None else s
        inside = super().project(np.minimum(a, s[:, None] * self.cap), s)
        return inside if self.k == 1 else cut_to_top(inside, s, self.k)

    def project_approx(self, a: Floats) -> Floats:
        return self.project(a) if self.k > 2 else super().project_approx(a)

    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        s = np.ones(a.shape[0]) if s is None else s
        outside = super().domain_violation(a, s)
        return outside if self.k == 1 else max(outside, float(violation_of_top(a, s, self.k).max()))

    def balanced_units(self, units: Units, codes: NDArray[np.intp], c: int) -> Units | None:
        """Leave (k − 1) a ≤ Σa; for k = c, where rows have equal entries, reduce whole rows."""
        k = self.k
        units = cut_units(units.astype(np.float64), k).astype(np.int64)
        if k <= 2:
            return reduced_to_balance(units, codes, c)
        if k < c:

            def room(units: Units) -> Units:
                ordered = np.sort(units, axis=1)
                largest, second = ordered[:, -1:], ordered[:, -2:-1]
                others = np.where(
                    units == largest, np.where(second == largest, largest, second), largest
                )
                return np.asarray(
                    np.clip(units.sum(axis=1, keepdims=True) - (k - 1) * others, 0, units)
                )

            return reduced_to_balance(units, codes, c, room)
        sums = [int(units[codes == own, 0].sum()) for own in range(c)]
        for own in range(c):
            rows = np.flatnonzero(codes == own)
            order = rows[np.argsort(-units[rows, 0], kind="stable")]
            taken = np.minimum(np.cumsum(units[order, 0]), sums[own] - min(sums))
            units[order] -= np.diff(taken, prepend=0)[:, None]
        return units

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """State the k largest as k thresholds plus the excess, minimised over the threshold."""
        import cvxpy as cp

        n, others = f.shape
        xi = cp.Variable(n, name="xi")
        threshold = cp.Variable((n, 1), name="threshold")
        above = cp.Variable(f.shape, name="above")
        own_above = cp.Variable((n, 1), name="own_above")
        level = cp.vec(threshold, order="F")
        mean = level + (cp.sum(above, axis=1) + cp.vec(own_above, order="F")) / self.k
        return CvxpyLoss(
            weight @ xi,
            [
                (above >= 1 - f - threshold @ np.ones((1, others))).set_label("margin"),
                (own_above >= -threshold).set_label("own"),
                (above >= 0).set_label("above"),
                (own_above >= 0).set_label("own_above"),
                (xi >= mean).set_label("largest"),
                (xi >= 0).set_label("slack"),
            ],
        )

    @property
    def parameters(self) -> dict[str, float]:
        return {"k": self.k}


class LargestHinge(TopHinge):
    r""":math:`\max_k (1-f_k)_+` of [CrammerSinger]: top-k at k = 1, with one slack per row."""

    name = "crammer_singer"
    parameters: ClassVar[dict[str, float]] = {}

    def __init__(self) -> None:
        super().__init__(1)

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        import cvxpy as cp

        n, others = f.shape
        xi = cp.Variable((n, 1), name="xi")
        margin = xi @ np.ones((1, others)) >= 1 - f
        return CvxpyLoss(
            weight @ cp.vec(xi, order="F"),
            [margin.set_label("margin"), (xi >= 0).set_label("slack")],
        )
