"""Losses of score differences that couple the classes: their multipliers lie in a simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, logsumexp

from svmcvx.formulations.multiclass.exact_multipliers import (
    Units,
    cut_to_top,
    cut_units,
    excess_of_sums,
    reduced_to_balance,
    reduced_to_sums,
    row_maxima,
    row_sums,
    violation_of_top,
)
from svmcvx.formulations.multiclass.losses import (
    ScoreLoss,
    StatedLoss,
    box_violation,
    diagonal_matrices,
    difference_variable,
    entropy_below,
    entropy_of_rest,
    lowered,
    total_below,
)
from svmcvx.formulations.optimal_intercepts import SumOfBounded
from svmcvx.losses import hinge_power_above, slack
from svmcvx.rounding import ELEMENTARY, UNDERFLOW, U

__all__ = ["LargestHinge", "Softmax", "TopHinge"]

Floats: TypeAlias = NDArray[np.float64]


class _SimplexLoss(ScoreLoss):
    """A loss with the domain a ≥ 0, Σa ≤ 1."""

    cap: float = 1.0

    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        s = np.ones(a.shape[0]) if s is None else s
        return reduced_to_sums(np.clip(a, 0.0, s[:, None]), s)

    def nearly(self, a: Floats) -> Floats:
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

    def value(self, f: Floats) -> Floats:
        """log(1 + Σ e^{−f})."""
        return np.asarray(np.logaddexp(0.0, logsumexp(-f, axis=1)))

    def above(self, f: Floats, error: Floats) -> Floats:
        """The loss at f − e, the largest exponent taken out; where that is not 0, the value is at least log 2."""
        low = lowered(f, error)
        largest = np.maximum(row_maxima(-low), 0.0)
        with np.errstate(under="ignore", invalid="ignore"):
            total = row_sums(np.exp(-low - largest[:, None]))
            # One of the terms is exactly 1 and is left to log1p.
            rest = np.where(largest > 0, np.exp(-largest) + (total - 1.0), total)
        share = 1.0 + 3.0 * ELEMENTARY + (6.0 * f.shape[1] + 16.0) * U
        return np.asarray((largest + np.log1p(rest)) * share + f.shape[1] * UNDERFLOW)

    def multipliers(self, f: Floats) -> Floats:
        """The probabilities of the other classes."""
        return np.asarray(np.exp(-f - self.value(f)[:, None]))

    def curvature(self, f: Floats) -> Floats | None:
        """diag(a) − aa'."""
        a = self.multipliers(f)
        return diagonal_matrices(a) - a[:, :, None] * a[:, None, :]

    def conjugate_value(self, a: Floats) -> Floats:
        """The entropy, that of the own class included."""
        return row_sums(entr(a)) + entropy_of_rest(row_sums(a))

    def conjugate_below(self, alpha: Floats, s: Floats) -> Floats:
        """The entropies, that of the own class at the worse end of what s − Σα may be."""
        total = row_sums(alpha)
        terms = entropy_below(alpha, np.maximum(s[:, None] - alpha, 0.0), s[:, None])
        # s − Σα in twice the precision, as two numbers of which the second is small.
        rest, small = s, np.zeros_like(s)
        for column in alpha.T:
            following = rest - column
            back = following - rest
            small = small + ((rest - (following - back)) - (column + back))
            rest = following
        rest = rest + small
        error = (alpha.shape[1] + 2.0) ** 2 * 4.0 * U * U * s + UNDERFLOW
        low, high = np.maximum(rest - error, 0.0), np.minimum(rest + error, s)
        # −t log(t/s) is concave: on an interval it is least at an end. Near t = s the sum of α is what is accurate.
        near = total <= 0.5 * s
        own = np.where(
            near,
            entropy_below(s - total, total * (1.0 - (alpha.shape[1] + 2.0) * U), s)
            * (1.0 - (3.0 * alpha.shape[1] + 8.0) * U),
            np.minimum(entropy_below(low, s - low, s), entropy_below(high, s - high, s)),
        )
        return np.asarray((total_below(terms) + own) * (1.0 - 2.0 * U))

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
        return row_maxima(slack(f))

    def above(self, f: Floats, error: Floats) -> Floats:
        """The largest (1 − f + e)₊."""
        return row_maxima(hinge_power_above(f, error, 1.0))

    @property
    def linear_pieces(self) -> SumOfBounded:
        """The simplex."""
        return SumOfBounded(1.0, 1.0)

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

    def above(self, f: Floats, error: Floats) -> Floats:
        """The loss at f − e."""
        low = lowered(f, error)
        gamma, top = self._top(low)
        largest = np.take_along_axis(gamma, top, axis=1)
        lost = (self.k + 4.0) * 2.0 * U * np.abs(largest).sum(axis=1)
        return np.asarray(np.maximum((largest.sum(axis=1) + lost) / self.k, 0.0) * (1.0 + 4.0 * U))

    @property
    def linear_pieces(self) -> SumOfBounded | None:
        """For k = 1 and 2, where (k − 1) a ≤ Σa holds by itself."""
        return SumOfBounded(self.cap, 1.0) if self.k <= 2 else None

    def multipliers(self, f: Floats) -> Floats:
        """1/k for the classes among the k largest if their mean is positive, else 0."""
        gamma, top = self._top(f)
        a = np.zeros_like(gamma)
        np.put_along_axis(a, top, np.where(self.value(f) > 0, 1.0 / self.k, 0.0)[:, None], axis=1)
        return np.ascontiguousarray(a[:, :-1])

    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        """Clip, scale to the simplex, then reduce the largest to what 1/k and (k − 1) a ≤ Σa allow."""
        s = np.ones(a.shape[0]) if s is None else s
        return cut_to_top(super().project(np.minimum(a, s[:, None] * self.cap), s), s, self.k)

    def nearly(self, a: Floats) -> Floats:
        """Clip, scale to the simplex, then cut off."""
        return self.project(a) if self.k > 2 else super().nearly(a)

    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        """Violation of the simplex, of 1/k, and of (k − 1) a ≤ Σa."""
        s = np.ones(a.shape[0]) if s is None else s
        return max(super().domain_violation(a, s), float(violation_of_top(a, s, self.k).max()))

    def balanced_units(self, units: Units, codes: NDArray[np.intp], c: int) -> Units | None:
        """By reductions that leave (k − 1) a ≤ Σa; for k = c, where all entries of a row are equal, of whole rows."""
        k = self.k
        units = cut_units(units.astype(np.float64), k).astype(np.int64)
        if k <= 2:
            return reduced_to_balance(units, codes, c)
        if k < c:

            def room(units: Units) -> Units:
                ordered = np.sort(units, axis=1)
                largest, second = ordered[:, -1:], ordered[:, -2:-1]
                others = np.where(units == largest, np.where(second == largest, largest, second), largest)
                return np.asarray(np.clip(units.sum(axis=1, keepdims=True) - (k - 1) * others, 0, units))

            return reduced_to_balance(units, codes, c, room)
        sums = [int(units[codes == own, 0].sum()) for own in range(c)]
        for own in range(c):
            rows = np.flatnonzero(codes == own)
            order = rows[np.argsort(-units[rows, 0], kind="stable")]
            taken = np.minimum(np.cumsum(units[order, 0]), sums[own] - min(sums))
            units[order] -= np.diff(taken, prepend=0)[:, None]
        return units

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
