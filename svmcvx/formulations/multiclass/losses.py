r"""Losses of the score differences of one observation, and their conjugates, from which all dual
problems follow.

A loss is a convex, decreasing function of the differences :math:`f_{ik} = S_{iy_i} - S_{ik}`, k ≠
y_i, between the score of the observation's own class and the others. It is its own biconjugate,

.. math:: \ell(f_i) = \max_{a \in A}\; g(a) - \sum_k a_k f_{ik},

over multipliers :math:`a \ge 0` in a convex domain A, with the concave function :math:`g(a) =
-\ell^*(-a)`.

========== ============================================================ ==================================== ==============
loss       :math:`\ell(f)`                                              g(a)
domain A ========== ============================================================
==================================== ============== hinge      :math:`\sum_k (1-f_k)_+`
:math:`\sum a_k`                     0 ≤ a ≤ 1 smoothed   :math:`\sum_k
\tfrac12(\gamma_k+\sqrt{\gamma_k^2+\delta^2})` :math:`\sum a_k+\delta\sqrt{a_k(1-a_k)}` 0 ≤ a ≤ 1
logistic   :math:`\sum_k \log(1+e^{-f_k})`                              :math:`\sum h(a_k)+h(1-a_k)`
0 ≤ a ≤ 1 softmax    :math:`\log(1+\sum_k e^{-f_k})`                              :math:`\sum h(a_k)
+ h(1-\sum a_k)`  a ≥ 0, Σa ≤ 1 largest    :math:`\max_k (1-f_k)_+`
:math:`\sum a_k`                     a ≥ 0, Σa ≤ 1 top-k      the k largest, see ``TopHinge``
:math:`\sum a_k`                     see there margin     0 where every f ≥ 1, else infinite
:math:`\sum a_k`                     a ≥ 0 ==========
============================================================ ====================================
==============

with :math:`\gamma = 1 - f` and :math:`h(a) = -a\log a`. Softmax, largest and top-k, whose domain is
a part of the simplex, stand in :mod:`svmcvx.formulations.multiclass.simplex_losses`. Arrays have
one row an observation, shape (n, c − 1); the column j is the j-th class other than :math:`y_i`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from svmcvx.certificate.bounded import entropy, hypot, log1p_exp, parts_of, row_sums, sqrt, where
from svmcvx.formulations.multiclass.exact_multipliers import Units, reduced_to_balance
from svmcvx.formulations.optimal_intercepts import SumOfBounded
from svmcvx.losses import slack

if TYPE_CHECKING:
    import cvxpy as cp

__all__ = [
    "LONGEST_MOVE",
    "CvxpyLoss",
    "HingeSum",
    "LogisticSum",
    "Margin",
    "ScoreLoss",
    "SmoothedHingeSum",
    "box_violation",
    "diagonal_matrices",
    "difference_variable",
]

Floats: TypeAlias = NDArray[np.float64]

# A move z keeps 0 ≤ a ≤ 1 while |z| ≤ 1 and a simplex while |z| ≤ 1/2.
LONGEST_MOVE = 0.5
# Differences up to this far above 1 count as support of a model given by (W, b) alone.
ON_MARGIN = 1e-7


class CvxpyLoss(NamedTuple):
    """The sum of weighted losses as cvxpy states it."""

    value: cp.Expression
    constraints: list[cp.Constraint]
    parameters: tuple[cp.Parameter, ...] = ()


class ScoreLoss(ABC):
    """A loss of the score differences of one observation; methods take one row an observation,
    shape (n, c − 1).
    """

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
        """Return the matrices of second derivatives, shape (n, c − 1, c − 1); None if the loss is
        not smooth.
        """
        return None

    def conjugate(self, alpha: Any, s: Any) -> Any:
        r"""Return :math:`s_i\,g(\alpha_i/s_i)` of plain or bounded multipliers inside s times the
        domain; Σα by default.
        """
        return row_sums(alpha)

    @abstractmethod
    def project(self, a: Floats, s: Floats | None = None) -> Floats:
        """Return multipliers exactly inside s times the domain (s = 1 if None); those that are so
        already as they are.
        """

    def project_approx(self, a: Floats) -> Floats:
        """Return multipliers inside the domain up to rounding, cheaply."""
        return self.project(a)

    @abstractmethod
    def domain_violation(self, a: Floats, s: Floats | None = None) -> float:
        """Return the largest violation of a constraint of s times the domain (s = 1 if None); 0
        only if there is none.
        """

    def balanced_units(self, units: Units, codes: NDArray[np.intp], c: int) -> Units | None:
        """Return multipliers, in whole units, reduced until B'1 = 0 inside the domain; None where
        that fails.
        """
        return reduced_to_balance(units, codes, c)

    @abstractmethod
    def feasible_move(self, a: Floats, z: Floats) -> Floats:
        """Return a direction linear in `z`, of non-negative inner product with it, along which the
        domain is not left.

        It is zero for multipliers at a bound. ``a`` plus the direction is in the domain if no entry
        of `z` exceeds ``LONGEST_MOVE`` in absolute value.
        """

    @abstractmethod
    def uniform_multiplier(self, c: int) -> float:
        """Return the largest a for which (a, …, a) is inside the domain (1 if any is), c classes."""

    @abstractmethod
    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """State the weighted sum in cvxpy, with a constraint ``margin`` whose multipliers are α."""

    def support(self, f: Floats) -> NDArray[np.bool_]:
        """Tell which observations may have a multiplier different from zero at `f`."""
        return (
            np.full(f.shape[0], True)
            if self.smooth
            else np.asarray((f <= 1.0 + ON_MARGIN).any(axis=1))
        )

    @property
    def linear_pieces(self) -> SumOfBounded | None:
        """The domain, for a piecewise linear loss whose domain is of that kind."""
        return None

    @property
    def parameters(self) -> dict[str, float]:
        """Numbers that define the loss."""
        return {}


def difference_variable(f: cp.Expression) -> tuple[cp.Variable, cp.Constraint]:
    """Return the differences as a variable ``f``, and the constraint that defines it, whose
    multipliers are α.
    """
    import cvxpy as cp

    difference = cp.Variable(f.shape, name="f")
    return difference, (difference == f).set_label("margin")


def box_violation(a: Floats, s: Floats | None) -> float:
    """Largest violation of 0 ≤ a ≤ s; s = 1 if None."""
    return max(0.0, float(-a.min()), float((a - (1.0 if s is None else s[:, None])).max()))


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

    def value(self, f: Any) -> Any:
        """Σ (1 − f)₊."""
        return row_sums(slack(f))

    @property
    def linear_pieces(self) -> SumOfBounded:
        """The box."""
        return SumOfBounded(1.0)

    def multipliers(self, f: Floats) -> Floats:
        """1 below the margin, else 0."""
        return np.where(f < 1.0, 1.0, 0.0)

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """With a slack ``xi`` for each difference."""
        import cvxpy as cp

        xi = cp.Variable(f.shape, name="xi")
        return CvxpyLoss(
            cp.sum(weight @ xi), [(xi >= 1 - f).set_label("margin"), (xi >= 0).set_label("slack")]
        )


@dataclass(frozen=True)
class SmoothedHingeSum(_SeparateLoss):
    r"""The smoothed hinge, :math:`\sum_k \tfrac12(\gamma_k + \sqrt{\gamma_k^2+\delta^2})`, at most
    δ/2 a term above the hinge.

    Source: [NieHaoWang], Lemma 2 and eq. (14).
    """

    delta: float
    name: ClassVar[str] = "smoothed"
    smooth: ClassVar[bool] = True

    def value(self, f: Any) -> Any:
        """Σ (γ + √(γ² + δ²))/2; for γ < 0, where that cancels, as δ²/(√(γ² + δ²) − γ)/2."""
        gamma = 1.0 - f
        root = hypot(gamma, self.delta)
        tail = self.delta * (self.delta / (root + abs(gamma)))
        return 0.5 * row_sums(where(parts_of(gamma)[0] >= 0, gamma + root, tail))

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

    def conjugate(self, alpha: Any, s: Any) -> Any:
        """Σ α + δ√(α(s − α))."""
        return row_sums(alpha + self.delta * (sqrt(alpha) * sqrt(s[:, None] - alpha)))

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """With second-order cones; δ is the cvxpy parameter ``delta``."""
        import cvxpy as cp

        delta = cp.Parameter(pos=True, name="delta", value=self.delta)
        difference, margin = difference_variable(f)
        gamma = cp.vec(1 - difference, order="F")
        root = cp.norm(cp.vstack([gamma, delta * np.ones(gamma.shape)]), 2, axis=0)
        repeated = np.tile(weight, f.shape[1])
        return CvxpyLoss(0.5 * (repeated @ (gamma + root)), [margin], (delta,))

    @property
    def parameters(self) -> dict[str, float]:
        """δ."""
        return {"delta": self.delta}


class LogisticSum(_SeparateLoss):
    r"""The logistic loss of each difference, :math:`\sum_k \log(1+e^{-f_k})`. Source: [NieHaoWang],
    eq. (33).
    """

    name = "logistic"
    smooth = True

    def value(self, f: Any) -> Any:
        """Σ log(1 + e^{−f})."""
        return row_sums(log1p_exp(-f))

    def multipliers(self, f: Floats) -> Floats:
        """1/(1 + e^f)."""
        return np.asarray(expit(-f))

    def curvature(self, f: Floats) -> Floats | None:
        """a(1 − a) on the diagonal."""
        return diagonal_matrices(np.asarray(expit(f) * expit(-f)))

    def conjugate(self, alpha: Any, s: Any) -> Any:
        """The binary entropies."""
        s = s[:, None]
        rest = s - alpha
        return row_sums(entropy(alpha, rest, s) + entropy(rest, alpha, s))

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """With exponential cones."""
        import cvxpy as cp

        difference, margin = difference_variable(f)
        return CvxpyLoss(cp.sum(weight @ cp.logistic(-difference)), [margin])


class Margin(ScoreLoss):
    """The hard margin: every difference has to be at least 1."""

    name = "margin"
    cone = True

    def value(self, f: Any) -> Any:
        """0, or infinity if a difference is below 1; of plain differences only."""
        return np.where((f >= 1.0).all(axis=1), 0.0, np.inf)

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

    def cvxpy_statement(self, f: cp.Expression, weight: Floats) -> CvxpyLoss:
        """As constraints alone."""
        import cvxpy as cp

        return CvxpyLoss(cp.Constant(0.0), [(f >= 1).set_label("margin")])
