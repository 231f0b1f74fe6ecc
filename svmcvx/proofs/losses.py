r"""Losses of score differences f, and their conjugates: :math:`\ell(f) = \max_{a\in A} g(a) - a'f`.

=========== ============================================================ ================================================== ===============================
loss        :math:`\ell(f)`                                              g(a)                                               A
=========== ============================================================ ================================================== ===============================
hinge       :math:`\sum(1-f_k)_+`                                        :math:`\sum a_k`                                   0 ≤ a ≤ 1
smoothed    :math:`\tfrac12\sum(\gamma_k+\sqrt{\gamma_k^2+\delta^2})`    :math:`\sum a_k+\delta\sqrt{a_k(1-a_k)}`           0 ≤ a ≤ 1
logistic    :math:`\sum\log(1+e^{-f_k})`                                 :math:`\sum h(a_k)+h(1-a_k)`                       0 ≤ a ≤ 1
softmax     :math:`\log(1+\sum e^{-f_k})`                                :math:`\sum h(a_k)+h(1-\sum a_k)`                  a ≥ 0, Σa ≤ 1
largest     :math:`\max(1-f_k)_+`                                        :math:`\sum a_k`                                   a ≥ 0, Σa ≤ 1
topk        mean of the k largest of 1 − f and 0, or 0                   :math:`\sum a_k`                                   and a ≤ 1/k, (k − 1)a ≤ Σa
margin      0 where every f ≥ 1, else infinite                           :math:`\sum a_k`                                   a ≥ 0
=========== ============================================================ ================================================== ===============================

Here γ = 1 − f and h(a) = −a log a. Each A is convex, and contains 0 and (u, …, u).
"""

from __future__ import annotations

from collections.abc import Sequence

from flint import arb

from svmcvx.proofs.balls import Ball, as_fraction, entropy, nonneg, power, total
from svmcvx.proofs.margin import ROUNDING
from svmcvx.proofs.problem import Problem

__all__ = ["LOSSES", "ScoreLoss"]

BOXES = ("hinge", "smoothed", "logistic")


class ScoreLoss:
    """A loss by its name, with the parameters that the problem gives it.

    Parameters
    ----------
    name : str
    problem : Problem
    """

    def __init__(self, name: str, problem: Problem) -> None:
        self.name = name
        self.delta = arb(problem.positive("delta")) if name == "smoothed" else arb(0)
        self.k = int(problem.positive("k")) if name == "topk" else 1

    def value(self, f: Sequence[Ball]) -> Ball:
        """Return the loss of one observation."""
        slacks = [1 - x for x in f]
        if self.name == "hinge":
            return total(map(nonneg, slacks))
        if self.name == "smoothed":
            return total(self._smoothed(x) for x in slacks)
        if self.name == "logistic":
            return total((-x).exp().log1p() for x in f)
        if self.name == "softmax":
            return total((-x).exp() for x in f).log1p()
        # Largest and top-k grow with every slack.
        low = self._mean_of_largest([x.lower() for x in slacks])
        return low.union(self._mean_of_largest([x.upper() for x in slacks]))

    def _smoothed(self, x: Ball) -> Ball:
        root = (x * x + self.delta * self.delta).sqrt()
        return (x + root) / 2 if x > 0 else self.delta * self.delta / (root - x) / 2

    def _mean_of_largest(self, slacks: list[Ball]) -> Ball:
        if self.name == "topk":
            slacks = [*slacks, arb(0)]
        largest = sorted(slacks, key=_Ordered, reverse=True)[: self.k]
        return nonneg(total(largest) / self.k)

    def gain(self, a: Sequence[Ball]) -> Ball:
        """Return g at multipliers inside the domain."""
        if self.name == "smoothed":
            return total(x + self.delta * power(nonneg(x * (1 - x)), arb(0.5)) for x in a)
        if self.name == "logistic":
            return total(entropy(x) + entropy(1 - x) for x in a)
        if self.name == "softmax":
            return total(map(entropy, a)) + entropy(1 - total(a))
        return total(a)

    def uniform(self, others: int) -> Ball:
        """Return the largest u, at most 1, for which (u, …, u) is inside the domain."""
        if self.name in (*BOXES, "margin"):
            return as_fraction(1.0)
        return as_fraction(1.0) / max(self.k, others)

    def inside(self, alpha: list[Ball], s: Ball) -> list[Ball] | str:
        """Return rational multipliers of an observation of weight s put into the domain from as far as rounding, or what is violated."""
        for a in alpha:
            if a < 0:
                return f"is {_float(a)!r}, below 0"
        if self.name == "margin":
            return alpha
        cap = s / self.k if self.name not in BOXES else s
        for a in alpha:
            if a > cap * (1 + ROUNDING):
                return f"is {_float(a)!r}, above its bound {_float(cap)!r}"
        alpha = [min(a, cap) for a in alpha]
        if self.name in BOXES:
            return alpha
        whole = sum(alpha, as_fraction(0.0))
        if whole > s:
            if whole > s * (1 + ROUNDING):
                return f"and the others of this row sum to {_float(whole)!r}, above {_float(s)!r}"
            alpha = [a * s / whole for a in alpha]
        if self.k > 1:
            ceiling = self._ceiling(alpha)
            if max(alpha) > ceiling:
                if max(alpha) > ceiling * (1 + ROUNDING):
                    return f"is above {_float(ceiling)!r}, the share that the top-{self.k} loss allows"
                alpha = [min(a, ceiling) for a in alpha]
        return alpha

    def _ceiling(self, alpha: list[Ball]) -> Ball:
        """The largest τ for which multipliers cut to τ have (k − 1)τ ≤ their sum."""
        ordered = sorted(alpha)
        quotients = []
        for m in range(min(self.k - 1, len(ordered) + 1)):
            tail = sum(ordered[: len(ordered) - m], as_fraction(0.0))
            quotients.append(tail / (self.k - 1 - m))
        return min(quotients)


class _Ordered:
    """Sorts exact balls."""

    def __init__(self, x: Ball) -> None:
        self.x = x

    def __lt__(self, other: _Ordered) -> bool:
        return bool(self.x < other.x)


def _float(value: Ball) -> float:
    return float(arb(value).mid())


# The loss of each classical machine.
LOSSES = {
    "weston_watkins": "hinge",
    "crammer_singer": "largest",
    "msvm": "hinge",
    "topk_svm": "topk",
    "multinomial_lr": "softmax",
    "sparse_multinomial_lr": "softmax",
}
