r"""Losses of the score differences of one observation, and their conjugates, from which all dual problems follow.

A loss is a convex, decreasing function of the differences :math:`f_{ik} = S_{iy_i} - S_{ik}`, k ≠ y_i, between the score of the
observation's own class and the others. It is its own biconjugate,

.. math:: \ell(f_i) = \max_{a \in A}\; g(a) - \sum_k a_k f_{ik},

over multipliers :math:`a \ge 0` in a convex domain A, with the concave function :math:`g(a) = -\ell^*(-a)`.

========== ============================================================ ==================================== ==============
loss       :math:`\ell(f)`                                              g(a)                                 domain A
========== ============================================================ ==================================== ==============
hinge      :math:`\sum_k (1-f_k)_+`                                     :math:`\sum a_k`                     0 ≤ a ≤ 1
smoothed   :math:`\sum_k \tfrac12(\gamma_k+\sqrt{\gamma_k^2+\delta^2})` :math:`\sum a_k+\delta\sqrt{a_k(1-a_k)}` 0 ≤ a ≤ 1
logistic   :math:`\sum_k \log(1+e^{-f_k})`                              :math:`\sum h(a_k)+h(1-a_k)`         0 ≤ a ≤ 1
softmax    :math:`\log(1+\sum_k e^{-f_k})`                              :math:`\sum h(a_k) + h(1-\sum a_k)`  a ≥ 0, Σa ≤ 1
largest    :math:`\max_k (1-f_k)_+`                                     :math:`\sum a_k`                     a ≥ 0, Σa ≤ 1
top-k      the k largest, see ``TopHinge``                              :math:`\sum a_k`                     see there
margin     0 where every f ≥ 1, else infinite                           :math:`\sum a_k`                     a ≥ 0
========== ============================================================ ==================================== ==============

with :math:`\gamma = 1 - f` and :math:`h(a) = -a\log a`. Softmax, largest and top-k, whose domain is a part of the simplex, stand in
:mod:`svmcvx.formulations.multiclass.simplex_losses`. Arrays have one row an observation, shape (n, c − 1); the column j is the
j-th class other than :math:`y_i`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray
from scipy.special import entr, expit

from svmcvx.formulations.multiclass.exact_multipliers import Units, reduced_to_balance, row_sums
from svmcvx.formulations.optimal_intercepts import SumOfBounded
from svmcvx.losses import hinge_power_above, slack
from svmcvx.rounding import ELEMENTARY, UNDERFLOW, U

__all__ = [
    "LONGEST_MOVE",
    "HingeSum",
    "LogisticSum",
    "Margin",
    "ScoreLoss",
    "SmoothedHingeSum",
    "StatedLoss",
    "box_violation",
    "diagonal_matrices",
    "difference_variable",
    "entropy_below",
    "entropy_of_rest",
    "lowered",
    "total_below",
]

Floats: TypeAlias = NDArray[np.float64]

# A move z keeps 0 ≤ a ≤ 1 while |z| ≤ 1 and a simplex while |z| ≤ 1/2.
LONGEST_MOVE = 0.5
# Differences up to this far above 1 count as support of a model given by (W, b) alone.
ON_MARGIN = 1e-7


class StatedLoss(NamedTuple):
    """The sum of weighted losses as cvxpy states it."""

    value: cp.Expression
    constraints: list[cp.Constraint]
    parameters: tuple[cp.Parameter, ...] = ()


class ScoreLoss(ABC):
    """A loss of the score differences of one observation; methods take one row an observation, shape (n, c − 1)."""

    name: ClassVar[str]
    smooth: ClassVar[bool] = False

    @abstractmethod
    def value(self, f: Floats) -> Floats:
        """Return the loss of each row."""

    @abstractmethod
    def above(self, f: Floats, error: Floats) -> Floats:
        """Return numbers that are at least the loss of each row for all differences within `error` of the computed `f`."""

    @abstractmethod
    def multipliers(self, f: Floats) -> Floats:
        """Return minus a subgradient: multipliers that are optimal for `f`."""

    def curvature(self, f: Floats) -> Floats | None:
        """Return the matrices of second derivatives, shape (n, c − 1, c − 1); None if the loss is not smooth."""
        return None

    def conjugate_value(self, a: Floats) -> Floats:
        """Return g of each row, for multipliers inside the domain; Σa by default."""
        return row_sums(a)

    def conjugate_below(self, alpha: Floats, s: Floats) -> Floats:
        r"""Return numbers that are at most :math:`s_i\,g(\alpha_i/s_i)`, for multipliers inside the domain."""
        return total_below(alpha)

    @abstractmethod
    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        """Return multipliers exactly inside s times the domain (s = 1 if None); those that are so already as they are."""

    def nearly(self, a: Floats) -> Floats:
        """Return multipliers inside the domain up to rounding, cheaply."""
        return self.project(a)

    @abstractmethod
    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        """Return the largest violation of a constraint of s times the domain (s = 1 if None); 0 only if there is none."""

    def balanced_units(self, units: Units, codes: NDArray[np.intp], c: int) -> Units | None:
        """Return multipliers, in whole units, reduced until B'1 = 0 inside the domain; None where that fails."""
        return reduced_to_balance(units, codes, c)

    @abstractmethod
    def feasible_move(self, a: Floats, z: Floats) -> Floats:
        """Return a direction linear in `z`, of non-negative inner product with it, along which the domain is not left.

        It is zero for multipliers at a bound. ``a`` plus the direction is in the domain if no entry of `z` exceeds
        ``LONGEST_MOVE`` in absolute value.
        """

    @abstractmethod
    def uniform_multiplier(self, c: int) -> float:
        """Return the largest a for which (a, …, a) is inside the domain (1 if any is), c classes."""

    @abstractmethod
    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> StatedLoss:
        """State the weighted sum in cvxpy, with a constraint ``margin`` whose multipliers are α."""

    def support(self, f: Floats) -> NDArray[np.bool_]:
        """Tell which observations may have a multiplier different from zero at `f`."""
        return np.full(f.shape[0], True) if self.smooth else np.asarray((f <= 1.0 + ON_MARGIN).any(axis=1))

    @property
    def linear_pieces(self) -> SumOfBounded | None:
        """The domain, for a piecewise linear loss whose domain is of that kind."""
        return None

    @property
    def parameters(self) -> dict[str, float]:
        """Numbers that define the loss."""
        return {}


def difference_variable(f: cp.Expression) -> tuple[cp.Variable, cp.Constraint]:
    """Return the differences as a variable ``f``, and the constraint that defines it, whose multipliers are α."""
    difference = cp.Variable(f.shape, name="f")
    return difference, (difference == f).set_label("margin")


def box_violation(a: Floats, s: Floats | None) -> float:
    """Largest violation of 0 ≤ a ≤ s; s = 1 if None."""
    return max(0.0, float(-a.min()), float((a - (1.0 if s is None else s[:, None])).max()))


def total_below(alpha: Floats) -> Floats:
    """Return numbers that are at most the sum of each row of non-negative numbers."""
    return np.asarray(row_sums(alpha) * (1.0 - (alpha.shape[1] + 2) * U))


def entropy_below(x: Floats, rest: Floats, s: Floats) -> Floats:
    r"""Return numbers that are at most :math:`-x\log(x/s)`, where x + rest = s, for an x and a rest known to a relative 2u.

    Up to half of s by the logarithm itself, beyond by :math:`\log(1 - rest/s)`: both are accurate relative to their value.
    """
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        ratio = x / s
        value = x * np.where(x <= rest, -np.log(ratio), -np.log1p(-np.minimum(rest / s, 1.0)))
        # Where something may have underflowed nothing is claimed: an entropy is not negative.
        sure = (x > UNDERFLOW) & (ratio > UNDERFLOW) & (rest > UNDERFLOW * s) & (value > UNDERFLOW)
    return np.where(sure, value * (1.0 - 3.0 * ELEMENTARY - 8.0 * U), 0.0)


def entropy_of_rest(t: Floats) -> Floats:
    """h(1 − t), to full relative accuracy for small t."""
    rest = np.maximum(1.0 - t, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rest > 0, -rest * np.log1p(-np.minimum(t, 1.0)), 0.0)


def lowered(f: Floats, error: Floats) -> Floats:
    """Return numbers that are at most f less its error."""
    return np.asarray(f - error - 2.0 * U * (np.abs(f) + error))


def diagonal_matrices(h: Floats) -> Floats:
    """Return a diagonal matrix for each row."""
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

    def value(self, f: Floats) -> Floats:
        """Σ (1 − f)₊."""
        return row_sums(slack(f))

    def above(self, f: Floats, error: Floats) -> Floats:
        """Σ (1 − f + e)₊."""
        return np.asarray(row_sums(hinge_power_above(f, error, 1.0)) * (1.0 + 2.0 * f.shape[1] * U))

    @property
    def linear_pieces(self) -> SumOfBounded:
        """The box."""
        return SumOfBounded(1.0)

    def multipliers(self, f: Floats) -> Floats:
        """1 below the margin, else 0."""
        return np.where(f < 1.0, 1.0, 0.0)

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> StatedLoss:
        """With a slack ``xi`` for each difference."""
        xi = cp.Variable(f.shape, name="xi")
        return StatedLoss(cp.sum(weight @ xi), [(xi >= 1 - f).set_label("margin"), (xi >= 0).set_label("slack")])


@dataclass(frozen=True)
class SmoothedHingeSum(_SeparateLoss):
    r"""The smoothed hinge, :math:`\sum_k \tfrac12(\gamma_k + \sqrt{\gamma_k^2+\delta^2})`, at most δ/2 a term above the hinge.

    Source: [NieHaoWang], Lemma 2 and eq. (14).

    Parameters
    ----------
    delta : float
        Positive.
    """

    delta: float
    name: ClassVar[str] = "smoothed"
    smooth: ClassVar[bool] = True

    def value(self, f: Floats) -> Floats:
        """Σ (γ + √(γ² + δ²))/2."""
        gamma = 1.0 - f
        root = np.hypot(gamma, self.delta)
        # For γ < 0 the sum γ + √(γ²+δ²) cancels; δ²/(√(γ²+δ²) − γ) is the same number without cancellation.
        return np.asarray(np.where(gamma >= 0, gamma + root, self.delta**2 / (root + np.abs(gamma))).sum(axis=1) / 2)

    def above(self, f: Floats, error: Floats) -> Floats:
        """The loss at γ + e, its root from the larger of the two numbers."""
        room = 1.0 - f
        gamma = room + error + 4.0 * U * (np.abs(room) + error)
        size = np.abs(gamma)
        larger = np.maximum(size, self.delta)
        with np.errstate(under="ignore", invalid="ignore"):
            root = larger * np.sqrt(1.0 + (np.minimum(size, self.delta) / larger) ** 2)
            terms = np.where(gamma >= 0, gamma + root, self.delta * (self.delta / (root + size)))
        share = 1.0 + (2.0 * f.shape[1] + 24.0) * U
        return np.asarray(row_sums(terms) / 2 * share + f.shape[1] * UNDERFLOW)

    def multipliers(self, f: Floats) -> Floats:
        """(1 + γ/√(γ² + δ²))/2."""
        gamma = 1.0 - f
        root = np.hypot(gamma, self.delta)
        tail = (self.delta / root) * (self.delta / (root + np.abs(gamma))) / 2
        return np.where(gamma >= 0, 1.0 - tail, tail)

    def curvature(self, f: Floats) -> Floats | None:
        """δ²/(2(γ² + δ²)^{3/2}) on the diagonal."""
        root = np.hypot(1.0 - f, self.delta)
        return diagonal_matrices((self.delta / root) ** 2 / (2.0 * root))

    def conjugate_value(self, a: Floats) -> Floats:
        """Σ a + δ√(a(1 − a))."""
        return np.asarray((a + self.delta * np.sqrt(np.maximum(a * (1.0 - a), 0.0))).sum(axis=1))

    def conjugate_below(self, alpha: Floats, s: Floats) -> Floats:
        """Σ α + δ√(α(s − α))."""
        roots = np.sqrt(alpha) * np.sqrt(np.maximum(s[:, None] - alpha, 0.0))
        with np.errstate(under="ignore"):
            terms = row_sums(self.delta * roots) * (1.0 - (alpha.shape[1] + 12.0) * U)
        # What a product with δ may lose to underflow.
        return np.asarray(np.maximum(total_below(alpha) + terms - 4.0 * U * terms - alpha.shape[1] * UNDERFLOW, 0.0))

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> StatedLoss:
        """With second-order cones; δ is the cvxpy parameter ``delta``."""
        delta = cp.Parameter(pos=True, name="delta", value=self.delta)
        difference, margin = difference_variable(f)
        gamma = cp.vec(1 - difference, order="F")
        root = cp.norm(cp.vstack([gamma, delta * np.ones(gamma.shape)]), 2, axis=0)
        repeated = np.tile(weight, f.shape[1])
        return StatedLoss(0.5 * (repeated @ (gamma + root)), [margin], (delta,))

    @property
    def parameters(self) -> dict[str, float]:
        """δ."""
        return {"delta": self.delta}


class LogisticSum(_SeparateLoss):
    r"""The logistic loss of each difference, :math:`\sum_k \log(1+e^{-f_k})`. Source: [NieHaoWang], eq. (33)."""

    name = "logistic"
    smooth = True

    def value(self, f: Floats) -> Floats:
        """Σ log(1 + e^{−f})."""
        return np.asarray(np.logaddexp(0.0, -f).sum(axis=1))

    def above(self, f: Floats, error: Floats) -> Floats:
        """The loss at f − e."""
        low = lowered(f, error)
        with np.errstate(under="ignore"):
            terms = np.maximum(-low, 0.0) + np.log1p(np.exp(-np.abs(low)))
        share = 1.0 + 3.0 * ELEMENTARY + (2.0 * f.shape[1] + 8.0) * U
        return np.asarray(row_sums(terms) * share + f.shape[1] * UNDERFLOW)

    def multipliers(self, f: Floats) -> Floats:
        """1/(1 + e^f)."""
        return np.asarray(expit(-f))

    def curvature(self, f: Floats) -> Floats | None:
        """a(1 − a) on the diagonal."""
        return diagonal_matrices(np.asarray(expit(f) * expit(-f)))

    def conjugate_value(self, a: Floats) -> Floats:
        """The binary entropies."""
        return np.asarray((entr(a) + entropy_of_rest(a)).sum(axis=1))

    def conjugate_below(self, alpha: Floats, s: Floats) -> Floats:
        """The binary entropies."""
        s = s[:, None]
        rest = np.maximum(s - alpha, 0.0)
        return total_below(entropy_below(alpha, rest, s) + entropy_below(rest, alpha, s))

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> StatedLoss:
        """With exponential cones."""
        difference, margin = difference_variable(f)
        return StatedLoss(cp.sum(weight @ cp.logistic(-difference)), [margin])


class Margin(ScoreLoss):
    """The hard margin: every difference has to be at least 1."""

    name = "margin"

    def value(self, f: Floats) -> Floats:
        """0, or infinity if a difference is below 1."""
        return np.where((f >= 1.0).all(axis=1), 0.0, np.inf)

    def above(self, f: Floats, error: Floats) -> Floats:
        """0, or infinity if a difference may be below 1."""
        return np.where((lowered(f, error) >= 1.0).all(axis=1), 0.0, np.inf)

    def multipliers(self, f: Floats) -> Floats:
        """0, a subgradient where the margin holds."""
        return np.zeros_like(f)

    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        """Clip."""
        return np.maximum(a, 0.0)

    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        """Of a ≥ 0."""
        return max(0.0, float(-a.min()))

    def feasible_move(self, a: Floats, z: Floats) -> Floats:
        """In proportion to the multipliers."""
        return a * z

    def uniform_multiplier(self, c: int) -> float:
        """1; every value is in the domain."""
        return 1.0

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> StatedLoss:
        """As constraints alone."""
        return StatedLoss(cp.Constant(0.0), [(f >= 1).set_label("margin")])
