"""Losses of score differences that couple the classes: their multipliers lie in a simplex."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import (
    entropy,
    largest_sums,
    log1p_sum_exp,
    maximum,
    positive_part,
    remainder,
    row_maxima,
    row_sums,
)
from svmcvx.formulations.multiclass.exact_multipliers import (
    Units,
    cut_to_top,
    cut_units,
    excess_of_sums,
    reduced_to_balance,
    reduced_to_sums,
    violation_of_top,
)
from svmcvx.formulations.multiclass.losses import (
    CvxpyLoss,
    ScoreLoss,
    box_violation,
    diagonal_matrices,
    difference_variable,
)
from svmcvx.formulations.optimal_intercepts import SumOfBounded
from svmcvx.losses import slack

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = ["LargestHinge", "Softmax", "TopHinge"]

Floats: TypeAlias = NDArray[np.float64]


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
        """log(1 + Σ e^{−f})."""
        return log1p_sum_exp(-f)

    def multipliers(self, f: Floats) -> Floats:
        """The probabilities of the other classes."""
        top = np.maximum(row_maxima(-f), 0.0)
        terms = np.exp(-f - top[:, None])
        return np.asarray(terms / (row_sums(terms) + np.exp(-top))[:, None])

    def curvature(self, f: Floats) -> Floats | None:
        """diag(a) − aa'."""
        a = self.multipliers(f)
        return diagonal_matrices(a) - a[:, :, None] * a[:, None, :]

    def conjugate(self, alpha: Any, s: Any) -> Any:
        """The entropies, that of the own class included."""
        others = entropy(alpha, s[:, None] - alpha, s[:, None])
        return row_sums(others) + entropy(remainder(s, alpha), row_sums(alpha), s)

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """With exponential cones."""
        import cvxpy as cp

        difference, margin = difference_variable(f)
        padded = cp.hstack([np.zeros((f.shape[0], 1)), -difference])
        return CvxpyLoss(weight @ cp.log_sum_exp(padded, axis=1), [margin])


class LargestHinge(_SimplexLoss):
    r"""The loss of [CrammerSinger], :math:`\max_k (1-f_k)_+`."""

    name = "crammer_singer"

    def value(self, f: Any) -> Any:
        """The largest (1 − f)₊."""
        return row_maxima(slack(f))

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

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """With one slack ``xi`` an observation."""
        import cvxpy as cp

        n, others = f.shape
        xi = cp.Variable((n, 1), name="xi")
        return CvxpyLoss(
            weight @ cp.vec(xi, order="F"),
            [
                (xi @ np.ones((1, others)) >= 1 - f).set_label("margin"),
                (xi >= 0).set_label("slack"),
            ],
        )


@dataclass(frozen=True)
class TopHinge(_SimplexLoss):
    r"""The top-k hinge :math:`\max(0, \tfrac1k \sum` of the k largest of :math:`(1-f_k)_{k\ne y}`
    and 0).

    The zero is the own class. With the multiplier of the own class eliminated the domain is
    :math:`0 \le a_j \le 1/k`, :math:`\sum a \le 1`, :math:`(k-1)\,a_j \le \sum a`. k = 1 is the
    loss of [CrammerSinger].
    """

    k: int
    name: ClassVar[str] = "topk"

    @property
    def cap(self) -> float:  # type: ignore[override]
        """The largest multiplier."""
        return 1.0 / self.k

    def value(self, f: Any) -> Any:
        """The mean of the k largest with or without the 0, if that is positive."""
        gamma = 1.0 - f
        top = positive_part(largest_sums(gamma, self.k))
        return (
            top if self.k == 1 else maximum(top, positive_part(largest_sums(gamma, self.k - 1)))
        ) / self.k

    @property
    def linear_pieces(self) -> SumOfBounded | None:
        """For k = 1 and 2, where (k − 1) a ≤ Σa holds by itself."""
        return SumOfBounded(self.cap, 1.0) if self.k <= 2 else None

    def multipliers(self, f: Floats) -> Floats:
        """1/k for the classes among the k largest if their mean is positive, else 0."""
        gamma = np.hstack([1.0 - f, np.zeros((f.shape[0], 1))])
        top = np.argsort(-gamma, axis=1, kind="stable")[:, : self.k]
        a = np.zeros_like(gamma)
        np.put_along_axis(a, top, np.where(self.value(f) > 0, 1.0 / self.k, 0.0)[:, None], axis=1)
        return np.ascontiguousarray(a[:, :-1])

    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        """Clip, scale to the simplex, then reduce the largest to what 1/k and (k − 1) a ≤ Σa allow."""
        s = np.ones(a.shape[0]) if s is None else s
        return cut_to_top(super().project(np.minimum(a, s[:, None] * self.cap), s), s, self.k)

    def project_approx(self, a: Floats) -> Floats:
        """Clip, scale to the simplex, then cut off."""
        return self.project(a) if self.k > 2 else super().project_approx(a)

    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        """Violation of the simplex, of 1/k, and of (k − 1) a ≤ Σa."""
        s = np.ones(a.shape[0]) if s is None else s
        return max(super().domain_violation(a, s), float(violation_of_top(a, s, self.k).max()))

    def balanced_units(self, units: Units, codes: NDArray[np.intp], c: int) -> Units | None:
        """By reductions that leave (k − 1) a ≤ Σa; for k = c, where all entries of a row are equal,
        of whole rows.
        """
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
        """The sum of the k largest as k times a ``threshold`` plus the excess ``above`` it,
        minimised over the threshold.
        """
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
        """The number k."""
        return {"k": self.k}
