r"""Scores of several classes: their differences on training data, the losses of these, and the conjugates of the losses.

One linear score a class, :math:`S = XW + 1b'`, of shape (n, c). Every multi-class loss here is a function of the
differences between the score of an observation's own class and the others,

.. math:: f_{ik} = S_{iy_i} - S_{ik}, \qquad k \ne y_i,

kept as a matrix of shape (n, c − 1) whose column j is the j-th class other than :math:`y_i`. A loss is its own
biconjugate,

.. math:: \ell(f_i) = \max_{a \in A}\; g(a) - \sum_k a_k f_{ik},

over multipliers :math:`a \ge 0` in a convex domain A with a concave *gain* g, from which all dual problems follow:
with weights :math:`s_i` and :math:`\alpha_{ik} = s_i a_{ik}`,

.. math::
    \sum_i s_i\,\ell(f_i) \;\ge\; \sum_i s_i\, g(\alpha_i/s_i) - \langle G, W\rangle - g_b'b,
    \qquad G = X'B,\; g_b = B'1,

where :math:`B_{iy_i} = \sum_k \alpha_{ik}` and :math:`B_{ik} = -\alpha_{ik}`, so that the columns of G sum to zero.

========== ============================================================ ==================================== ==============
loss       :math:`\ell(f)`                                              gain g(a)                            domain A
========== ============================================================ ==================================== ==============
hinge      :math:`\sum_k (1-f_k)_+`                                     :math:`\sum a_k`                     0 ≤ a ≤ 1
smoothed   :math:`\sum_k \tfrac12(\gamma_k+\sqrt{\gamma_k^2+\delta^2})` :math:`\sum a_k+\delta\sqrt{a_k(1-a_k)}` 0 ≤ a ≤ 1
logistic   :math:`\sum_k \log(1+e^{-f_k})`                              :math:`\sum h(a_k)+h(1-a_k)`         0 ≤ a ≤ 1
softmax    :math:`\log(1+\sum_k e^{-f_k})`                              :math:`\sum h(a_k) + h(1-\sum a_k)`  a ≥ 0, Σa ≤ 1
largest    :math:`\max_k (1-f_k)_+`                                     :math:`\sum a_k`                     a ≥ 0, Σa ≤ 1
top-k      the k largest, see :class:`TopHinge`                         :math:`\sum a_k`                     see there
margin     0 where every f ≥ 1, else infinite                           :math:`\sum a_k`                     a ≥ 0
========== ============================================================ ==================================== ==============

with :math:`\gamma = 1 - f` and :math:`h(a) = -a\log a`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import entr, expit, logsumexp

from svmcvx.certificate import EPS, accumulated_rounding
from svmcvx.data import Features, MulticlassData
from svmcvx.errors import DataError
from svmcvx.kernels import row_norms
from svmcvx.losses import slack
from svmcvx.model import MulticlassModel
from svmcvx.system import memory

__all__ = [
    "Gradient",
    "HingeSum",
    "LargestHinge",
    "LogisticSum",
    "Margin",
    "ScoreLoss",
    "Scores",
    "SmoothedHingeSum",
    "Softmax",
    "Stated",
    "TopHinge",
]

Floats: TypeAlias = NDArray[np.float64]

# Moves of the multipliers that restore the balance of the intercepts.
BALANCING_PASSES = 30
# A move z keeps 0 ≤ a ≤ 1 while |z| ≤ 1 and a simplex while |z| ≤ 1/2.
LONGEST_MOVE = 0.5
# Differences up to this far above 1 count as support of a model given by (W, b) alone.
ON_MARGIN = 1e-7


class Stated(NamedTuple):
    """The sum of weighted losses as cvxpy states it."""

    value: cp.Expression
    constraints: list[cp.Constraint]


class ScoreLoss(ABC):
    """A loss of the score differences of one observation; methods take one row an observation, shape (n, c − 1)."""

    name: ClassVar[str]
    smooth: ClassVar[bool] = False

    @abstractmethod
    def value(self, f: Floats) -> Floats:
        """Return the loss of each row."""

    @abstractmethod
    def multipliers(self, f: Floats) -> Floats:
        """Return minus a subgradient: multipliers that are optimal for `f`."""

    def curvature(self, f: Floats) -> Floats | None:
        """Return the matrices of second derivatives, shape (n, c − 1, c − 1); None if the loss is not smooth."""
        return None

    def gain(self, a: Floats) -> Floats:
        """Return g of each row, for multipliers inside the domain: Σa, unless the loss says otherwise."""
        return np.asarray(a.sum(axis=1))

    def sensitivity(self, a: Floats) -> Floats:
        """Return by how much g of each row changes with a relative change of the multipliers by 1."""
        return np.asarray(a.sum(axis=1))

    @abstractmethod
    def project(self, a: Floats) -> Floats:
        """Return multipliers inside the domain."""

    @abstractmethod
    def excess(self, a: Floats) -> float:
        """Return by how much the domain is violated, beyond rounding."""

    @abstractmethod
    def drift(self, a: Floats, z: Floats) -> Floats:
        """Return a move linear in `z`, of positive inner product with it, that stays inside the domain.

        It moves no multiplier that is at a bound, and keeps the domain while the entries of `z` are at most
        ``LONGEST_MOVE`` in absolute value.
        """

    @abstractmethod
    def uniform(self, c: int) -> float:
        """Return the largest a for which (a, …, a) is inside the domain (1 if any is), c classes."""

    @abstractmethod
    def statement(self, f: cp.Expression, weight: Floats) -> Stated:
        """State the weighted sum for cvxpy, with a constraint ``margin`` whose multipliers are α."""

    def support(self, f: Floats) -> NDArray[np.bool_]:
        """Tell which observations have a multiplier different from zero at `f`."""
        return np.full(f.shape[0], True) if self.smooth else np.asarray((f <= 1.0 + ON_MARGIN).any(axis=1))

    @property
    def parameters(self) -> dict[str, float]:
        """Numbers that define the loss."""
        return {}


def _as_variable(f: cp.Expression) -> tuple[cp.Variable, cp.Constraint]:
    """The differences as a variable ``f``, and the constraint that says so, whose multipliers are α."""
    difference = cp.Variable(f.shape, name="f")
    return difference, (difference == f).set_label("margin")


def _box_excess(a: Floats, high: float) -> float:
    return max(0.0, float(-a.min()), float(a.max()) - high * (1.0 + accumulated_rounding(1)))


def _entropy_of_rest(t: Floats) -> Floats:
    """h(1 − t), to full relative accuracy for small t."""
    rest = np.maximum(1.0 - t, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(rest > 0, -rest * np.log1p(-np.minimum(t, 1.0)), 0.0)


def _steepness_of_rest(t: Floats) -> Floats:
    """|log(1 − t)|, no more than rounding of t lets it be."""
    return np.asarray(np.abs(np.log(np.maximum(1.0 - t, EPS))))


def _diagonal(h: Floats) -> Floats:
    return np.asarray(h[:, :, None] * np.eye(h.shape[1]))


class _Separate(ScoreLoss):
    """A sum of losses of one difference each, with the domain 0 ≤ a ≤ 1."""

    def project(self, a: Floats) -> Floats:
        return np.clip(a, 0.0, 1.0)

    def excess(self, a: Floats) -> float:
        return _box_excess(a, 1.0)

    def drift(self, a: Floats, z: Floats) -> Floats:
        return a * (1.0 - np.minimum(a, 1.0)) * z

    def uniform(self, c: int) -> float:
        return 1.0


class HingeSum(_Separate):
    r"""The loss of Weston and Watkins, :math:`\sum_k (1-f_k)_+`."""

    name = "hinge"

    def value(self, f: Floats) -> Floats:
        """Σ (1 − f)₊."""
        return np.asarray(slack(f).sum(axis=1))

    def multipliers(self, f: Floats) -> Floats:
        """1 below the margin, else 0."""
        return np.where(f < 1.0, 1.0, 0.0)

    def statement(self, f: cp.Expression, weight: Floats) -> Stated:
        """With a slack ``xi`` for each difference."""
        xi = cp.Variable(f.shape, name="xi")
        return Stated(cp.sum(weight @ xi), [(xi >= 1 - f).set_label("margin"), (xi >= 0).set_label("slack")])


@dataclass(frozen=True)
class SmoothedHingeSum(_Separate):
    r"""The paper's smoothing, :math:`\sum_k \tfrac12(\gamma_k + \sqrt{\gamma_k^2+\delta^2})`, at most δ/2 a term above the hinge.

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
        # γ + √(γ²+δ²) loses all its digits for γ < 0, where it is δ²/(√(γ²+δ²) − γ).
        return np.asarray(np.where(gamma >= 0, gamma + root, self.delta**2 / (root + np.abs(gamma))).sum(axis=1) / 2)

    def multipliers(self, f: Floats) -> Floats:
        """(1 + γ/√(γ² + δ²))/2."""
        gamma = 1.0 - f
        root = np.hypot(gamma, self.delta)
        tail = (self.delta / root) * (self.delta / (root + np.abs(gamma))) / 2
        return np.where(gamma >= 0, 1.0 - tail, tail)

    def curvature(self, f: Floats) -> Floats | None:
        """δ²/(2(γ² + δ²)^{3/2}) on the diagonal."""
        root = np.hypot(1.0 - f, self.delta)
        return _diagonal((self.delta / root) ** 2 / (2.0 * root))

    def gain(self, a: Floats) -> Floats:
        """Σ a + δ√(a(1 − a))."""
        return np.asarray((a + self.delta * np.sqrt(np.maximum(a * (1.0 - a), 0.0))).sum(axis=1))

    def statement(self, f: cp.Expression, weight: Floats) -> Stated:
        """With second-order cones; δ is the parameter ``delta``."""
        delta = cp.Parameter(pos=True, name="delta", value=self.delta)
        difference, margin = _as_variable(f)
        gamma = cp.vec(1 - difference, order="F")
        root = cp.norm(cp.vstack([gamma, delta * np.ones(gamma.shape)]), 2, axis=0)
        repeated = np.tile(weight, f.shape[1])
        return Stated(0.5 * (repeated @ (gamma + root)), [margin])

    @property
    def parameters(self) -> dict[str, float]:
        """δ."""
        return {"delta": self.delta}


class LogisticSum(_Separate):
    r"""The loss of ISM3, :math:`\sum_k \log(1+e^{-f_k})`."""

    name = "logistic"
    smooth = True

    def value(self, f: Floats) -> Floats:
        """Σ log(1 + e^{−f})."""
        return np.asarray(np.logaddexp(0.0, -f).sum(axis=1))

    def multipliers(self, f: Floats) -> Floats:
        """1/(1 + e^f)."""
        return np.asarray(expit(-f))

    def curvature(self, f: Floats) -> Floats | None:
        """a(1 − a) on the diagonal."""
        return _diagonal(np.asarray(expit(f) * expit(-f)))

    def gain(self, a: Floats) -> Floats:
        """The binary entropies."""
        return np.asarray((entr(a) + _entropy_of_rest(a)).sum(axis=1))

    def sensitivity(self, a: Floats) -> Floats:
        """Σ a(1 + |log a| + |log(1 − a)|)."""
        return np.asarray((a + entr(a) + a * _steepness_of_rest(a)).sum(axis=1))

    def statement(self, f: cp.Expression, weight: Floats) -> Stated:
        """With exponential cones."""
        difference, margin = _as_variable(f)
        return Stated(cp.sum(weight @ cp.logistic(-difference)), [margin])


class _Simplex(ScoreLoss):
    """A loss with the domain a ≥ 0, Σa ≤ 1."""

    cap: float = 1.0

    def project(self, a: Floats) -> Floats:
        a = np.clip(a, 0.0, self.cap)
        return np.asarray(a / np.maximum(a.sum(axis=1, keepdims=True), 1.0))

    def excess(self, a: Floats) -> float:
        over = float(a.sum(axis=1).max()) - 1.0 - accumulated_rounding(a.shape[1])
        return max(_box_excess(a, self.cap), over)

    def drift(self, a: Floats, z: Floats) -> Floats:
        # What is left of the simplex, 1 − Σa, counts as one more multiplier, that of z = 0.
        mobile = a * np.maximum(1.0 - a / self.cap, 0.0)
        rest = np.maximum(1.0 - a.sum(axis=1, keepdims=True), 0.0)
        total = mobile.sum(axis=1, keepdims=True) + rest * (1.0 - rest)
        mean = np.divide((mobile * z).sum(axis=1, keepdims=True), total, out=np.zeros_like(total), where=total > 0)
        return np.asarray(mobile * (z - mean))

    def uniform(self, c: int) -> float:
        return min(self.cap, 1.0 / (c - 1))


class Softmax(_Simplex):
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
        return _diagonal(a) - a[:, :, None] * a[:, None, :]

    def gain(self, a: Floats) -> Floats:
        """The entropy, that of the own class included."""
        return np.asarray(entr(a).sum(axis=1) + _entropy_of_rest(a.sum(axis=1)))

    def sensitivity(self, a: Floats) -> Floats:
        """Σ a(1 + |log a| + |log(1 − Σa)|)."""
        total = a.sum(axis=1)
        return np.asarray(total + entr(a).sum(axis=1) + total * _steepness_of_rest(total))

    def statement(self, f: cp.Expression, weight: Floats) -> Stated:
        """With exponential cones."""
        difference, margin = _as_variable(f)
        padded = cp.hstack([np.zeros((f.shape[0], 1)), -difference])
        return Stated(weight @ cp.log_sum_exp(padded, axis=1), [margin])


class LargestHinge(_Simplex):
    r"""The loss of Crammer and Singer, :math:`\max_k (1-f_k)_+`."""

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

    def statement(self, f: cp.Expression, weight: Floats) -> Stated:
        """With one slack ``xi`` an observation."""
        n, others = f.shape
        xi = cp.Variable((n, 1), name="xi")
        return Stated(
            weight @ cp.vec(xi, order="F"),
            [(xi @ np.ones((1, others)) >= 1 - f).set_label("margin"), (xi >= 0).set_label("slack")],
        )


@dataclass(frozen=True)
class TopHinge(_Simplex):
    r"""The top-k hinge :math:`\max(0, \tfrac1k \sum` of the k largest of :math:`(1-f_k)_{k\ne y}` and 0).

    The zero is the own class. With the multiplier of the own class maximised out the domain is
    :math:`0 \le a_j \le 1/k`, :math:`\sum a \le 1`, :math:`(k-1)\,a_j \le \sum a`. k = 1 is the loss of Crammer and Singer.

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
        """Clip and scale to the simplex, then lower the largest."""
        a = super().project(a)
        if self.k == 1:
            return a
        # Σ min(a_j, τ) = min over m of mτ + (the sum of all but the m largest): it is at least (k − 1)τ if and only
        # if τ is at most each of these quotients.
        descending = -np.sort(-a, axis=1)
        tails = descending[:, ::-1].cumsum(axis=1)[:, ::-1][:, : self.k - 1]
        ceiling = (tails / (self.k - 1.0 - np.arange(tails.shape[1]))).min(axis=1, keepdims=True)
        return np.asarray(np.minimum(a, ceiling))

    def excess(self, a: Floats) -> float:
        """Violation of the simplex, and of (k − 1) a ≤ Σa."""
        room = a.sum(axis=1) * (1.0 + accumulated_rounding(a.shape[1]))
        return max(super().excess(a), float(((self.k - 1) * a.max(axis=1) - room).max()))

    def statement(self, f: cp.Expression, weight: Floats) -> Stated:
        """With a ``threshold`` an observation and what lies ``above`` it."""
        n, others = f.shape
        xi = cp.Variable(n, name="xi")
        threshold = cp.Variable((n, 1), name="threshold")
        above = cp.Variable(f.shape, name="above")
        own_above = cp.Variable((n, 1), name="own_above")
        level = cp.vec(threshold, order="F")
        mean = level + (cp.sum(above, axis=1) + cp.vec(own_above, order="F")) / self.k
        return Stated(
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


class Margin(ScoreLoss):
    """The hard margin: every difference has to be at least 1."""

    name = "margin"

    def value(self, f: Floats) -> Floats:
        """0, or infinity if a difference is below 1."""
        return np.where((f >= 1.0).all(axis=1), 0.0, np.inf)

    def multipliers(self, f: Floats) -> Floats:
        """0, a subgradient where the margin holds."""
        return np.zeros_like(f)

    def project(self, a: Floats) -> Floats:
        """Clip."""
        return np.maximum(a, 0.0)

    def excess(self, a: Floats) -> float:
        """Of a ≥ 0."""
        return max(0.0, float(-a.min()))

    def drift(self, a: Floats, z: Floats) -> Floats:
        """In proportion to the multipliers."""
        return a * z

    def uniform(self, c: int) -> float:
        """Any will do."""
        return 1.0

    def statement(self, f: cp.Expression, weight: Floats) -> Stated:
        """As constraints alone."""
        return Stated(cp.Constant(0.0), [(f >= 1).set_label("margin")])


class Gradient(NamedTuple):
    """G = X'B and g_b = B'1, with estimates of the rounding errors of their norms."""

    W: Floats
    b: Floats
    W_rounding: float
    b_rounding: float


@dataclass(frozen=True, eq=False)
class Scores:
    r"""Training data of several classes, and what the formulations do with their scores.

    With a free intercept the columns of dense data are centred: this changes nothing but the intercept, and keeps the
    digits of data with a large offset.

    Parameters
    ----------
    data : MulticlassData
    intercept : "free", "penalised" or "none"
        Of the biases b.
    rotations : bool
        Whether the regulariser does not change under rotations of the features, so that data with more columns than
        rows may be replaced by a square factor.
    """

    data: MulticlassData
    intercept: str
    rotations: bool = True

    @cached_property
    def centre(self) -> Floats:
        """What was subtracted from the columns."""
        if self.intercept == "free" and not sp.issparse(self.data.X):
            return np.asarray(self.data.X.mean(axis=0))
        return np.zeros(self.data.X.shape[1])

    @cached_property
    def X(self) -> Features:
        """The data as the formulation sees them."""
        return self.data.X - self.centre if self.centre.any() else self.data.X

    @cached_property
    def _reduction(self) -> tuple[Features, Floats | None]:
        n, d = self.X.shape
        if d <= n or not self.rotations:
            return self.X, None
        memory.require(
            8.0 * (3 * n * d + n * n), f"the factor of {n} × {d} data", "select features or use fewer observations"
        )
        dense = self.X.toarray() if sp.issparse(self.X) else self.X
        basis, triangle = sl.qr(dense.T, mode="economic", check_finite=False)
        return np.ascontiguousarray(triangle.T), basis

    @property
    def factor(self) -> Features:
        """The data, or L of shape (n, n) with X = LQ' where they have more columns than rows."""
        return self._reduction[0]

    def unreduced(self, W: Floats) -> Floats:
        """Return Q W: what belongs to the columns of :attr:`factor`, in terms of the features."""
        basis = self._reduction[1]
        return W if basis is None else np.asarray(basis @ W)

    def reduced(self, W: Floats) -> Floats:
        """Return Q'W, the inverse of :meth:`unreduced` on the span of the observations."""
        basis = self._reduction[1]
        return W if basis is None else np.asarray(basis.T @ W)

    @cached_property
    def others(self) -> NDArray[np.intp]:
        """The classes other than an observation's own, in order, shape (n, c − 1)."""
        columns = np.arange(self.data.c - 1)
        return np.asarray(columns + (columns >= self.data.codes[:, None]))

    @cached_property
    def _row_norms(self) -> Floats:
        return row_norms(self.X)

    @property
    def longest_row(self) -> float:
        """The largest norm of an observation, as the formulation sees it."""
        return float(self._row_norms.max())

    @property
    def dense_with_constant(self) -> Floats:
        """The data as the formulation sees them, dense, with a column of ones for the biases unless there are none."""
        X = self.X.toarray() if sp.issparse(self.X) else self.X
        return X if self.intercept == "none" else np.hstack([X, np.ones((X.shape[0], 1))])

    def differences(self, S: Floats) -> Floats:
        """Return the differences f of scores of shape (n, c)."""
        own = S[np.arange(self.data.n), self.data.codes]
        return np.asarray(own[:, None] - np.take_along_axis(S, self.others, axis=1))

    def model_differences(self, model: MulticlassModel) -> tuple[Floats, Floats]:
        """Return the differences of a model on the raw data, and estimates of their rounding errors."""
        sizes = row_norms(self.data.X)[:, None] * np.linalg.norm(model.coef, axis=0) + np.abs(model.intercept)
        rounding = accumulated_rounding(model.coef.shape[0]) * sizes
        own = rounding[np.arange(self.data.n), self.data.codes]
        return (
            self.differences(model.decision_function(self.data.X)),
            own[:, None] + np.take_along_axis(rounding, self.others, axis=1),
        )

    @cached_property
    def difference_matrix(self) -> sp.csr_array:
        """The matrix that takes the columns of S, stacked, to the columns of f, stacked."""
        n, c = self.data.n, self.data.c
        rows = np.arange(n * (c - 1))
        observations = np.tile(np.arange(n), c - 1)
        own = observations + n * self.data.codes[observations]
        other = observations + n * self.others.ravel(order="F")
        ones = np.ones(rows.size)
        return sp.csr_array((np.r_[ones, -ones], (np.r_[rows, rows], np.r_[own, other])), shape=(n * (c - 1), n * c))

    def stated_differences(self, W: cp.Variable, b: cp.Variable | None) -> tuple[cp.Expression, list[cp.Constraint]]:
        """Return the differences f of shape (n, c − 1) as a cvxpy expression, and the constraints that go with it.

        Penalised biases rule out centred data as another problem. But dense data may be centred by a change of
        variables, :math:`S = (X - 1m')W + 1a'` with :math:`a = b + W'm`, which spares the solver their offset.
        """
        n, c = self.data.n, self.data.c
        factor, constraints = self.factor, []
        if self.intercept == "penalised" and not sp.issparse(factor):
            mean = factor.mean(axis=0)
            a = cp.Variable(c, name="a")
            constraints.append((a == b + W.T @ mean).set_label("shift"))
            factor, b = factor - mean, a
        S = factor @ W
        if b is not None:
            S = S + np.ones((n, 1)) @ cp.reshape(b, (1, c), order="F")
        f = cp.reshape(self.difference_matrix @ cp.vec(S, order="F"), (n, c - 1), order="F")
        return f, constraints

    def coefficients(self, alpha: Floats) -> Floats:
        """Return B, the coefficients of the scores in Σ αf."""
        B = np.zeros((self.data.n, self.data.c))
        np.put_along_axis(B, self.others, -alpha, axis=1)
        B[np.arange(self.data.n), self.data.codes] = alpha.sum(axis=1)
        return B

    def balance(self, alpha: Floats) -> Floats:
        """Return g_b = B'1."""
        return np.asarray(self.coefficients(alpha).sum(axis=0))

    def gradient(self, alpha: Floats) -> Gradient:
        """Return G and g_b."""
        B = self.coefficients(alpha)
        relative = accumulated_rounding(self.data.n)
        W_rounding = relative * float(np.linalg.norm(self._row_norms)) * float(np.linalg.norm(B))
        b_rounding = relative * float(np.linalg.norm(np.abs(B).sum(axis=0)))
        return Gradient(np.asarray(self.X.T @ B), B.sum(axis=0), W_rounding, b_rounding)

    def steered(self, alpha: Floats, loss: ScoreLoss, target: Floats) -> Floats:
        """Move multipliers inside their domain until B'1 is `target`, or as near as they can get.

        A multiplier moves by its distance from its bounds times a difference of potentials, one a class: those at a bound
        stay there, and the dual objective changes to second order only where the others belong to differences f = 1.
        """
        s = self.data.weight[:, None]
        c = self.data.c
        a = alpha / s
        potentials = np.eye(c)
        for _ in range(BALANCING_PASSES):
            missing = target - self.balance(s * a)
            if np.abs(missing).max() <= accumulated_rounding(1) * float(np.abs(s * a).sum()):
                break
            responses = [self.balance(s * loss.drift(a, self._tension(potentials[k]))) for k in range(c)]
            potential, *_ = np.linalg.lstsq(np.stack(responses, axis=1), missing, rcond=1e-13)
            z = self._tension(np.asarray(potential, dtype=np.float64))
            longest = float(np.abs(z).max())
            moved = a + loss.drift(a, z * min(1.0, LONGEST_MOVE / longest) if longest > 0 else z)
            moved = loss.project(moved)
            if np.abs(target - self.balance(s * moved)).max() >= np.abs(missing).max():
                break
            a = moved
        return s * a

    def _tension(self, potential: Floats) -> Floats:
        return np.asarray(potential[self.data.codes][:, None] - potential[self.others])

    def balanced(self, alpha: Floats, loss: ScoreLoss) -> Floats:
        """Return multipliers inside their domain with B'1 = 0 up to rounding.

        What :meth:`steered` leaves is removed by mixing in multipliers that are equal for all observations of a class;
        any imbalance is the opposite of that of such a point, so that one step suffices.
        """
        alpha = self.steered(alpha, loss, np.zeros(self.data.c))
        s, codes, c = self.data.weight, self.data.codes, self.data.c
        excess = self.balance(alpha)
        if not excess.any():
            return alpha
        uniform = loss.uniform(c)
        capacity = uniform * (c - 1) * np.bincount(codes, weights=s, minlength=c)
        wanted = (excess.max() - excess) * (c - 1) / c / capacity
        largest = float(wanted.max())
        share = 1.0 / (1.0 + largest)
        counterweight = (uniform * s * wanted[codes])[:, None]
        return np.asarray(share * (alpha + counterweight))

    def expand(self, alpha: Floats) -> Floats:
        """Return multipliers as a matrix of shape (n, c) with a zero for the own class."""
        full = np.zeros((self.data.n, self.data.c))
        np.put_along_axis(full, self.others, alpha, axis=1)
        return full

    def compress(self, alpha: Any, name: str) -> Floats:
        """Return given multipliers, of shape (n, c) or with rows for observations of weight zero too, as (n, c − 1)."""
        given = np.asarray(alpha, dtype=np.float64)
        data = self.data
        if given.shape == (data.rows, data.c):
            given = given[data.index]
        if given.shape != (data.n, data.c):
            raise DataError(
                f"alpha of {name} must have one multiplier an observation and class: expected shape "
                f"({data.rows}, {data.c}), got {given.shape}"
            )
        return np.take_along_axis(given, self.others, axis=1)

    def model(self, W: Floats, b: Floats, support: NDArray[np.bool_]) -> MulticlassModel:
        """Return the model of weights in terms of the features and of biases on the data as the formulation sees them."""
        return MulticlassModel(
            coef=W, intercept=b - self.centre @ W, classes=self.data.classes, support=self.data.index[support]
        )
