"""Losses of score differences that couple the classes: their multipliers lie in a simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp

from svmcvx.certificate import accumulated_rounding
from svmcvx.formulations.multiclass.losses import (
    ScoreLoss,
    StatedLoss,
    box_violation,
    diagonal_matrices,
    difference_variable,
    entropy_of_rest,
    steepness_of_rest,
)
from svmcvx.losses import slack

__all__ = ["LargestHinge", "Softmax", "TopHinge"]

Floats: TypeAlias = NDArray[np.float64]


class _SimplexLoss(ScoreLoss):
    """A loss with the domain a ≥ 0, Σa ≤ 1."""

    cap: float = 1.0

    def project(self, a: Floats) -> Floats:
        a = np.clip(a, 0.0, self.cap)
        return np.asarray(a / np.maximum(a.sum(axis=1, keepdims=True), 1.0))

    def domain_violation(self, a: Floats) -> float:
        over = float(a.sum(axis=1).max()) - 1.0 - accumulated_rounding(a.shape[1])
        return max(box_violation(a, self.cap), over)

    def feasible_move(self, a: Floats, z: Floats) -> Floats:
        # The slack 1 − Σa counts as one more multiplier, with z = 0.
        mobile = a * np.maximum(1.0 - a / self.cap, 0.0)
        rest = np.maximum(1.0 - a.sum(axis=1, keepdims=True), 0.0)
        total = mobile.sum(axis=1, keepdims=True) + rest * (1.0 - rest)
        mean = np.divide((mobile * z).sum(axis=1, keepdims=True), total, out=np.zeros_like(total), where=total > 0)
        return np.asarray(mobile * (z - mean))

    def uniform_multiplier(self, c: int) -> float:
        return min(self.cap, 1.0 / (c - 1))


class Softmax(_SimplexLoss):
    r"""Cross-entropy, :math:`\log(1+\sum_k e^{-f_k})`."""

    name = "softmax"
    smooth = True

    def value(self, f: Floats) -> Floats:
        """log(1 + Σ e^{−f})."""
        return np.asarray(np.logaddexp(0.0, logsumexp(-f, axis=1)))

    def multipliers(self, f: Floats) -> Floats:
        """The probabilities of the other classes."""
        return np.asarray(np.exp(-f - self.value(f)[:, None]))

    def curvature(self, f: Floats) -> Floats | None:
        """diag(a) − aa'."""
        a = self.multipliers(f)
        return diagonal_matrices(a) - a[:, :, None] * a[:, None, :]

    def conjugate_value(self, a: Floats) -> Floats:
        """The entropy, that of the own class included."""
        return np.asarray(entr(a).sum(axis=1) + entropy_of_rest(a.sum(axis=1)))

    def conjugate_sensitivity(self, a: Floats) -> Floats:
        """Σ a(1 + |log a| + |log(1 − Σa)|)."""
        total = a.sum(axis=1)
        return np.asarray(total + entr(a).sum(axis=1) + total * steepness_of_rest(total))

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> StatedLoss:
        """With exponential cones."""
        difference, margin = difference_variable(f)
        padded = cp.hstack([np.zeros((f.shape[0], 1)), -difference])
        return StatedLoss(weight @ cp.log_sum_exp(padded, axis=1), [margin])


class LargestHinge(_SimplexLoss):
    r"""The loss of [CrammerSinger], :math:`\max_k (1-f_k)_+`."""

    name = "crammer_singer"

    def value(self, f: Floats) -> Floats:
        """The largest (1 − f)₊."""
        return np.asarray(slack(f).max(axis=1))

    def multipliers(self, f: Floats) -> Floats:
        """1 for the nearest class if it is inside the margin, else 0."""
        a = np.zeros_like(f)
        rows = np.arange(f.shape[0])
        nearest = f.argmin(axis=1)
        a[rows, nearest] = np.where(f[rows, nearest] < 1.0, 1.0, 0.0)
        return a

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> StatedLoss:
        """With one slack ``xi`` an observation."""
        n, others = f.shape
        xi = cp.Variable((n, 1), name="xi")
        return StatedLoss(
            weight @ cp.vec(xi, order="F"),
            [(xi @ np.ones((1, others)) >= 1 - f).set_label("margin"), (xi >= 0).set_label("slack")],
        )


@dataclass(frozen=True)
class TopHinge(_SimplexLoss):
    r"""The top-k hinge :math:`\max(0, \tfrac1k \sum` of the k largest of :math:`(1-f_k)_{k\ne y}` and 0).

    The zero is the own class. With the multiplier of the own class eliminated the domain is
    :math:`0 \le a_j \le 1/k`, :math:`\sum a \le 1`, :math:`(k-1)\,a_j \le \sum a`. k = 1 is the loss of [CrammerSinger].

    Parameters
    ----------
    k : int
        From 1 to the number of classes.
    """

    k: int
    name: ClassVar[str] = "topk"

    @property
    def cap(self) -> float:  # type: ignore[override]
        """The largest multiplier."""
        return 1.0 / self.k

    def _top(self, f: Floats) -> tuple[Floats, NDArray[np.intp]]:
        gamma = np.hstack([1.0 - f, np.zeros((f.shape[0], 1))])
        return gamma, np.argsort(-gamma, axis=1, kind="stable")[:, : self.k]

    def value(self, f: Floats) -> Floats:
        """The mean of the k largest, or 0."""
        gamma, top = self._top(f)
        return np.asarray(np.maximum(np.take_along_axis(gamma, top, axis=1).sum(axis=1) / self.k, 0.0))

    def multipliers(self, f: Floats) -> Floats:
        """1/k for the classes among the k largest if their mean is positive, else 0."""
        gamma, top = self._top(f)
        a = np.zeros_like(gamma)
        np.put_along_axis(a, top, np.where(self.value(f) > 0, 1.0 / self.k, 0.0)[:, None], axis=1)
        return np.ascontiguousarray(a[:, :-1])

    def project(self, a: Floats) -> Floats:
        """Clip, scale to the simplex, then reduce the largest to what (k − 1) a ≤ Σa allows."""
        a = super().project(a)
        if self.k == 1:
            return a
        # Cut off at τ the sum is Σ min(a_j, τ) = min over m of mτ + (the sum of all but the m largest), which is at least
        # (k − 1)τ if and only if τ is at most each of these quotients.
        descending = -np.sort(-a, axis=1)
        tails = descending[:, ::-1].cumsum(axis=1)[:, ::-1][:, : self.k - 1]
        largest = (tails / (self.k - 1.0 - np.arange(tails.shape[1]))).min(axis=1, keepdims=True)
        return np.asarray(np.minimum(a, largest))

    def domain_violation(self, a: Floats) -> float:
        """Violation of the simplex, and of (k − 1) a ≤ Σa."""
        total = a.sum(axis=1) * (1.0 + accumulated_rounding(a.shape[1]))
        return max(super().domain_violation(a), float(((self.k - 1) * a.max(axis=1) - total).max()))

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> StatedLoss:
        """The sum of the k largest as k times a ``threshold`` plus the excess ``above`` it, minimised over the threshold."""
        n, others = f.shape
        xi = cp.Variable(n, name="xi")
        threshold = cp.Variable((n, 1), name="threshold")
        above = cp.Variable(f.shape, name="above")
        own_above = cp.Variable((n, 1), name="own_above")
        level = cp.vec(threshold, order="F")
        mean = level + (cp.sum(above, axis=1) + cp.vec(own_above, order="F")) / self.k
        return StatedLoss(
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
        """The number k."""
        return {"k": self.k}
