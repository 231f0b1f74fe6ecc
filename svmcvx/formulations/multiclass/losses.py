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
rounding, so that their sums can be compared and repaired in whole steps of the grid.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import (
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
    where,
)
from svmcvx.formulations.base import ON_SUPPORT
from svmcvx.formulations.optimal_intercepts import SumOfBounded
from svmcvx.losses import slack

# A move z keeps 0 ≤ a ≤ 1 while |z| ≤ 1 and a simplex while |z| ≤ 1/2.
LONGEST_MOVE = 0.5


def positive_sums(terms: Floats) -> Floats:
    """Return the positive part of each row's sum: positive if and only if the exact one is."""
    sums, found = row_sums(exact(terms)), np.zeros(len(terms))
    near = np.flatnonzero(~(sums.value < -sums.error))
    if near.size:
        closer = -remainder(found[near], exact(terms[near]))
        for i in np.flatnonzero((closer.error > 0) & (np.abs(closer.value) <= closer.error)):
            closer.value[i] = math.fsum(terms[near[i]].tolist())
        # Sums beyond the range of doubles are no numbers.
        found[near] = np.where(np.isnan(closer.value), np.inf, np.maximum(closer.value, 0.0))
    return found


def cut_off(units: Floats, k: int) -> Floats:
    """Return whole numbers cut off where ``(k − 1) a ≤ Σa`` holds for the largest.

    Cut off at τ the sum is Σ min(a_j, τ) = min over m of mτ + (the sum of all but the m largest),
    which is at least (k − 1)τ if and only if τ is at most each of these quotients.
    """
    if k == 1:
        return units
    descending = -np.sort(-units, axis=1)
    tails = descending[:, ::-1].cumsum(axis=1)[:, ::-1][:, : k - 1]
    largest = np.floor(tails / (k - 1.0 - np.arange(tails.shape[1]))).min(axis=1, keepdims=True)
    return np.asarray(np.minimum(units, largest))


class Domain(SumOfBounded):
    """Multipliers 0 ≤ a ≤ `largest` of an observation of weight 1 with Σa ≤ `total`, 1 or infinite;
    for k = `total`/`largest` > 1 also with (k − 1) a ≤ Σa.
    """

    __slots__ = ()

    @property
    def k(self) -> int:
        return round(self.total / self.largest) if self.coupled else 1

    def _excess(self, a: Floats, s: Floats) -> Floats:
        """Return the largest violation by a sum in each row; 0 only if there is none."""
        if not self.coupled:
            return np.zeros(len(a))
        own = -s[:, None]
        found = positive_sums(np.hstack([a, own]))
        if self.k > 1:
            tops = np.repeat(row_maxima(a)[:, None], self.k, axis=1)
            for terms in ([tops, own], [tops[:, 1:], -a]):
                found = np.maximum(found, positive_sums(np.hstack(terms)))
        return found

    def violation(self, a: Floats, s: Floats) -> float:
        """Return the violation of s times the domain; 0 only if there is none."""
        above = a - s[:, None] if self.largest < math.inf else np.zeros(1)
        return max(0.0, float(-a.min()), float(above.max()), float(self._excess(a, s).max()))

    def project(self, a: Floats, s: Floats) -> Floats:
        """Return multipliers inside s times the domain; unchanged if they are."""
        a = np.clip(a, 0.0, self.largest * s[:, None])
        wrong = np.flatnonzero(self._excess(a, s) > 0)
        if not wrong.size:
            return a
        rows, limit = a[wrong], s[wrong, None]
        rows = rows * np.minimum(limit / row_sums(rows)[:, None], 1.0)
        # Sums and multiples of so many digits are exact.
        digits = 51 - int(a.shape[1] + 1).bit_length()
        exponents = np.maximum(np.frexp(row_maxima(rows))[1] - digits, -1074)[:, None]
        units, most = (np.floor(np.ldexp(each, -exponents)) for each in (rows, limit))
        largest = np.arange(wrong.size), units.argmax(axis=1)
        left = np.maximum(row_sums(units) - most[:, 0], 0.0)
        units[largest] = np.maximum(units[largest] - left, 0.0)
        units = cut_off(np.minimum(units, np.floor(most / self.k)), self.k)
        a[wrong] = np.ldexp(units, exponents)
        return a

    def mobility(self, a: Floats) -> tuple[Floats, Floats]:
        """Return the distance of multipliers from their bounds, and what one over their sum is."""
        mobile = a * np.maximum(1.0 - a / self.largest, 0.0)
        # The slack T − Σa counts as one more multiplier; it is infinite if the sum has no bound.
        rest = np.maximum(self.total - row_sums(a), 0.0)
        sums = row_sums(mobile) + rest * np.abs(1.0 - rest)
        return mobile, np.divide(1.0, sums, out=np.zeros_like(sums), where=sums > 0)

    def move(self, a: Floats, z: Floats) -> Floats:
        """Return a feasible direction, linear in `z` and of non-negative inner product with it.

        It is zero for multipliers at a bound, and a step of 1 stays in the domain while
        ``|z| ≤ LONGEST_MOVE``.
        """
        mobile, share = self.mobility(a)
        return np.asarray(mobile * (z - (share * row_sums(mobile * z))[:, None]))

    def uniform(self, c: int) -> float:
        """Return the largest a for which (a, …, a) is in the domain of c classes."""
        return min(self.largest, self.total / (c - 1))

    def room(self, units: Floats, most: Floats) -> Floats:
        """Return by how many units all multipliers of an observation may grow together."""
        if math.isinf(self.largest):
            return np.full(len(units), np.inf)
        room = np.floor(most / self.k) - row_maxima(units)
        if self.coupled:
            room = np.minimum(room, np.floor((most - row_sums(units)) / units.shape[1]))
        return np.asarray(room)


class ScoreLoss(ABC):
    """A loss of one observation's score differences; arrays have one row per observation."""

    name: ClassVar[str]
    smooth: ClassVar[bool] = False

    @property
    def domain(self) -> Domain:
        """The multipliers a of an observation of weight 1; 0 ≤ a ≤ 1 by default."""
        return Domain(1.0)

    @abstractmethod
    def value(self, f: Any) -> Any:
        """Return the loss of each row, of plain or of bounded differences."""

    @abstractmethod
    def multipliers(self, f: Floats) -> Floats:
        """Return minus a subgradient: multipliers that are optimal for `f`."""

    def curvature(self, f: Floats, df: Floats) -> Floats:
        """Return the second derivatives at `f` times `df`; zero by default."""
        return np.zeros_like(f)

    def conjugate(self, alpha: Any, s: Any) -> Any:
        r"""Return :math:`s_i\,g(\alpha_i/s_i)` of α inside s times the domain; Σα by default."""
        return row_sums(alpha)

    def support(self, f: Floats) -> NDArray[np.bool_]:
        """Return whether each observation may have a multiplier different from zero at `f`."""
        if self.smooth:
            return np.full(f.shape[0], True)
        return np.asarray((f <= 1.0 + ON_SUPPORT).any(axis=1))

    @property
    def linear_pieces(self) -> Domain | None:
        """The domain of a piecewise linear loss; None where it also bounds (k − 1) a by Σa."""
        return None if self.smooth or self.domain.k > 2 else self.domain

    @property
    def parameters(self) -> dict[str, float]:
        return {}


class HingeSum(ScoreLoss):
    r"""The loss of [WestonWatkins], :math:`\sum_k (1-f_k)_+`."""

    name = "hinge"

    def value(self, f: Any) -> Any:
        return row_sums(slack(f))

    def multipliers(self, f: Floats) -> Floats:
        return np.where(f < 1.0, 1.0, 0.0)


@dataclass(frozen=True)
class SmoothedHingeSum(ScoreLoss):
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

    def curvature(self, f: Floats, df: Floats) -> Floats:
        root = np.hypot(1.0 - f, self.delta)
        return np.asarray((self.delta / root) ** 2 / (2.0 * root) * df)

    def conjugate(self, alpha: Any, s: Any) -> Any:
        return row_sums(alpha + self.delta * (sqrt(alpha) * sqrt(s[:, None] - alpha)))

    @property
    def parameters(self) -> dict[str, float]:
        return {"delta": self.delta}


class LogisticSum(ScoreLoss):
    r"""The logistic loss of each difference, :math:`\sum_k \log(1+e^{-f_k})`, [NieHaoWang] (33)."""

    name = "logistic"
    smooth = True

    def value(self, f: Any) -> Any:
        return row_sums(log1p_exp(-f))

    def multipliers(self, f: Floats) -> Floats:
        return np.asarray(expit(-f))

    def curvature(self, f: Floats, df: Floats) -> Floats:
        return np.asarray(expit(f) * expit(-f) * df)

    def conjugate(self, alpha: Any, s: Any) -> Any:
        s = s[:, None]
        rest = s - alpha
        return row_sums(entropy(alpha, rest, s) + entropy(rest, alpha, s))


class Margin(ScoreLoss):
    """The hard margin: every difference has to be at least 1."""

    name = "margin"

    @property
    def domain(self) -> Domain:
        return Domain(math.inf)

    def value(self, f: Any) -> Any:
        return np.where((f >= 1.0).all(axis=1), 0.0, np.inf)

    def multipliers(self, f: Floats) -> Floats:
        return np.zeros_like(f)


class Softmax(ScoreLoss):
    r"""Cross-entropy, :math:`\log(1+\sum_k e^{-f_k})`."""

    name = "softmax"
    smooth = True

    @property
    def domain(self) -> Domain:
        return Domain(1.0, 1.0)

    def value(self, f: Any) -> Any:
        return log1p_sum_exp(-f)

    def multipliers(self, f: Floats) -> Floats:
        top = np.maximum(row_maxima(-f), 0.0)
        terms = np.exp(-f - top[:, None])
        return np.asarray(terms / (row_sums(terms) + np.exp(-top))[:, None])

    def curvature(self, f: Floats, df: Floats) -> Floats:
        a = self.multipliers(f)
        return np.asarray(a * (df - row_sums(a * df)[:, None]))

    def conjugate(self, alpha: Any, s: Any) -> Any:
        others = entropy(alpha, s[:, None] - alpha, s[:, None])
        return row_sums(others) + entropy(remainder(s, alpha), row_sums(alpha), s)


@dataclass(frozen=True)
class TopHinge(ScoreLoss):
    r"""The mean of the k largest of :math:`(1-f_k)_{k\ne y}` and the own class's 0, at least 0.

    Without the own class's multiplier the domain is :math:`0 \le a_j \le 1/k`,
    :math:`\sum a \le 1`, :math:`(k-1)\,a_j \le \sum a`.
    """

    k: int
    name: ClassVar[str] = "topk"

    @property
    def domain(self) -> Domain:
        return Domain(1.0 / self.k, 1.0)

    def value(self, f: Any) -> Any:
        gamma = 1.0 - f
        top = positive_part(largest_sums(gamma, self.k))
        return (
            top if self.k == 1 else maximum(top, positive_part(largest_sums(gamma, self.k - 1)))
        ) / self.k

    def multipliers(self, f: Floats) -> Floats:
        gamma = np.hstack([1.0 - f, np.zeros((f.shape[0], 1))])
        top = np.argsort(-gamma, axis=1, kind="stable")[:, : self.k]
        a = np.zeros_like(gamma)
        np.put_along_axis(a, top, np.where(self.value(f) > 0, 1.0 / self.k, 0.0)[:, None], axis=1)
        return np.ascontiguousarray(a[:, :-1])

    @property
    def parameters(self) -> dict[str, float]:
        return {"k": self.k}


class LargestHinge(TopHinge):
    r""":math:`\max_k (1-f_k)_+` of [CrammerSinger]: top-k at k = 1, without k as a parameter."""

    name = "crammer_singer"
    parameters: ClassVar[dict[str, float]] = {}

    def __init__(self) -> None:
        super().__init__(1)
