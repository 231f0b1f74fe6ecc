r"""Guarantees of machines of several classes with one linear score each: intervals of the
differences of two scores.

**Squared norms.** Let P be the objective of a machine with the regulariser
:math:`\lambda\kappa\|W\|^2` on weights whose columns sum to zero, and :math:`\mu = 2\lambda\kappa`.
The score difference of two classes, :math:`f = \langle W, x(e_k-e_l)'\rangle + b_k - b_l`, is that
of a machine of two classes: the multipliers of the observations of class k towards l, and of those
of class l towards k, are changed by ±ηd, so that with Σc = 1 the balance of the intercepts changes
by exactly :math:`\eta(e_k - e_l)`. The theorem of :mod:`svmcvx.guarantees.theorem` holds with the
same proof, with

.. math:: \rho^2 = U - L - \tfrac\mu4\|\hat W - W_\alpha\|^2, \qquad W_\alpha = G/\mu, \qquad
    \tfrac2\mu\|h\|^2 \text{ in the place of } \|h\|^2,

the 2 being :math:`\|e_k-e_l\|^2`. A model is taken with the mean of its columns subtracted, which
changes no difference and does not raise P.

**M3SVM** has :math:`\lambda\sum\|w_k-w_l\|^p`, without a modulus that holds everywhere, and
penalises b by ε alone. But a dual point has flows S: with :math:`S_{kl} - \eta h` beside the
changed multipliers neither :math:`R = G - \operatorname{div}S` nor the part of b changes, and

.. math:: \eta f^*(x) \ge L - U + \textstyle\sum_i(g_i(a_i + \delta_i) - g_i(a_i))
    + c(S_{kl}) - c(S_{kl} - \eta h), \qquad
    c(S) = (p-1)\lambda\Big(\frac{\|S\|}{\lambda p}\Big)^{p/(p-1)},

for every ε. It is the theorem with :math:`m = \nabla c(S_{kl})`, :math:`\rho^2 = U - L` and, in the
place of ‖h‖²/4, half of ‖h‖² times the largest second derivative of c between the two flows,
:math:`\max(1, \tfrac1{p-1})\,\|\nabla c(S)\|/\|S\|`, which is monotone in ‖S‖. For p > 2, where it
is not bounded at 0, η is limited to ‖ηh‖ ≤ ½‖S‖.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import Bounded, exact, exp, log, quietly, remainder, row_sums, sqrt
from svmcvx.certificate.rows import Ball, Rows
from svmcvx.data import check_features
from svmcvx.errors import DataError
from svmcvx.formulations.multiclass.losses import HingeSum, LogisticSum, Softmax, TopHinge
from svmcvx.formulations.multiclass.machines import (
    M3SVM,
    MACHINES,
    ClassicalStatement,
    bound_classical,
    bound_m3svm,
)
from svmcvx.formulations.multiclass.statement import MulticlassStatement, lengths
from svmcvx.guarantees.answers import CertifiedScores, Guarantee
from svmcvx.guarantees.binary import checked_rows, optimum_of, require_data
from svmcvx.guarantees.theorem import (
    Chosen,
    DualTerms,
    EntropyTerms,
    LinearPoints,
    Multipliers,
    Theorem,
    affine_terms,
    halved,
)
from svmcvx.model import MulticlassModel
from svmcvx.solution import OptimalIntercepts, Solution

__all__ = ["JOINT", "JointGuarantee", "joint_guarantee"]

# The losses of the classical machines by the names of their builders.
CLASSICAL: Mapping[str, str] = {
    machine.builder: loss
    for loss, machine in MACHINES.items()
    if machine.builder != "sparse_multinomial_lr"
}
JOINT = (*CLASSICAL, "m3svm")


@dataclass(frozen=True, eq=False, repr=False)
class JointGuarantee(Guarantee):
    """Guarantees on every optimal machine with one score a class; see :func:`svmcvx.guarantee`."""

    classes: NDArray[Any]
    lower: float
    upper: float
    theorems: tuple[Theorem, ...]
    model: MulticlassModel
    optimal_intercepts: OptimalIntercepts | None

    def __repr__(self) -> str:
        return (
            f"JointGuarantee(optimum in [{self.lower:.9g}, {self.upper:.9g}],"
            f" {self.classes.size} classes)"
        )

    @property
    def radius(self) -> float:
        r"""At least the distance of the optimal W from the mean of model and dual point, times the
        root of half its modulus; √(U − L) for M3SVM.
        """
        return math.sqrt(max(theorem.squared_radius for theorem in self.theorems)) * (
            1.0 + 2.0**-50
        )

    def scores(self, T: Any) -> CertifiedScores:
        """Return the intervals of the differences of the scores of two classes, the later one's
        less the earlier one's.
        """
        rows = check_features(T, name="T", n_features=int(self.model.coef.shape[0]))
        m, c = rows.shape[0], self.classes.size
        ends = zip(*(theorem.scores(rows) for theorem in self.theorems), strict=True)
        lower, upper = map(np.column_stack, ends)
        lower, upper = _closed(lower, upper, c)
        possible = np.ones((m, c), dtype=bool)
        for pair, (k, other) in enumerate(combinations(range(c), 2)):
            # Of equal scores the first is predicted.
            possible[:, k] &= ~(lower[:, pair] > 0.0)
            possible[:, other] &= ~(upper[:, pair] <= 0.0)
        open_ = possible.sum(axis=1) > 1
        return CertifiedScores(lower, upper, possible, self.classes, open_ & self._disputed(rows))

    def _disputed(self, rows: Any) -> NDArray[np.bool_]:
        """Return which rows optimal intercepts predict differently, in floating point."""
        b = self.optimal_intercepts
        if b is None or b.unique:
            return np.zeros(rows.shape[0], dtype=bool)
        f = np.asarray(rows @ self.model.coef)
        # A class that the least of its intercepts leaves behind another one's largest is not among
        # those that are disputed.
        low, high = f + b.lower, f + b.upper
        first = np.partition(low, -1, axis=1)[:, -1]
        return np.asarray((high >= first[:, None]).sum(axis=1) > 1)


@quietly
def _closed(lower: Floats, upper: Floats, c: int) -> tuple[Floats, Floats]:
    """Return the intervals of differences, narrowed by way of a third class."""
    first, second = np.triu_indices(c, 1)
    above = np.zeros((lower.shape[0], c, c))
    above[:, second, first], above[:, first, second] = upper, -lower
    for k in range(c):
        through = np.nextafter(above[:, :, k, None] + above[:, None, k, :], np.inf)
        above = np.where(through < above, through, above)
    return -above[:, first, second], above[:, second, first]


def joint_guarantee(solution: Solution, X: Any, y: Any) -> JointGuarantee:
    """Return the guarantee of a solution of several classes in one problem."""
    features, evidence = checked_rows(solution, X)
    settings = solution.hyperparameters
    statement: ClassicalStatement | M3SVM
    if solution.formulation == "m3svm":
        _refuse_m3svm(settings)
        numbers = {name: settings[name] for name in ("lam", "p", "eps", "loss", "norm")}
        statement = bound_m3svm(features, y, delta=1.0, sample_weight=evidence.weight, **numbers)
    else:
        statement = bound_classical(
            features,
            y,
            lam=settings["lam"],
            loss=CLASSICAL[solution.formulation],
            k=int(settings.get("k", 1)),
            intercept=settings["intercept"],
            sample_weight=evidence.weight,
        )
    data, model = statement.scores.data, cast("MulticlassModel", solution.model)
    require_data(solution, data)
    found = optimum_of(solution, statement)
    alpha = statement.multipliers(found.dual)
    make: Callable[..., Theorem]
    if isinstance(statement, M3SVM):
        make = _flow_theorem(statement, statement.required_flow(found.dual))
    else:
        make = _ridge_theorem(statement, model, alpha)
    sides = _PairMultipliers(statement, alpha)
    theorems = []
    for k, other in combinations(range(data.c), 2):
        rows = np.flatnonzero((data.codes == k) | (data.codes == other))
        theorems.append(make(k, other, rows, sides.multipliers(k, other, rows), found.gap))
    return JointGuarantee(
        classes=data.classes,
        lower=found.lower,
        upper=found.upper,
        theorems=tuple(theorems),
        model=model,
        optimal_intercepts=solution.optimal_intercepts,
    )


def _refuse_m3svm(settings: Mapping[str, Any]) -> None:
    if settings["norm"] != 2 or settings["p"] == 1:
        raise DataError(
            "there are no guarantees of m3svm with p = 1 or norm = 1: the pairwise norms have no"
            " curvature then, and eps alone says too little; use norm=2 and p > 1"
        )
    if settings["loss"] == "smoothed":
        raise DataError(
            "there are no guarantees of m3svm with the smoothed hinge; use loss='hinge', 'logistic'"
            " or 'softmax'"
        )


class _PairMultipliers:
    """The multipliers of two classes towards each other, with their rooms and terms."""

    def __init__(self, statement: MulticlassStatement, alpha: Floats) -> None:
        scores, s = statement.scores, statement.weight
        self.codes, self.balanced = scores.data.codes, scores.intercept != "none"
        self.alpha, self.above, self.below = map(
            scores.expand, (alpha, *_rooms(statement.loss, alpha, s))
        )
        self.left: Bounded | None = None
        if isinstance(statement.loss, Softmax):
            left = remainder(s, exact(alpha))
            ends, shape = (left.value[:, None], left.error[:, None]), self.alpha.shape
            self.left = Bounded(*(np.broadcast_to(part, shape) for part in ends))
        elif isinstance(statement.loss, LogisticSum):
            self.left = exact(s)[:, None] - exact(self.alpha)

    def multipliers(self, k: int, other: int, rows: Chosen) -> Multipliers:
        """Return the multipliers of two classes' observations towards the other of the two."""
        later = self.codes[rows] == other
        at = rows, np.where(later, k, other)
        values, signs = self.alpha[at], np.where(later, 1.0, -1.0)
        terms: DualTerms = (
            affine_terms(rows.size) if self.left is None else EntropyTerms(values, self.left[at])
        )
        return Multipliers(values, signs, self.above[at], self.balanced, terms, self.below[at])


@quietly
def _rooms(loss: Any, alpha: Floats, s: Floats) -> tuple[Floats, Floats]:
    """Return lower bounds on how much each multiplier alone may grow and fall."""
    a, weight = exact(alpha), exact(s)[:, None]
    if isinstance(loss, (HingeSum, LogisticSum)):
        return np.maximum((weight - a).lower, 0.0), alpha
    left = np.maximum(remainder(s, a).lower, 0.0)[:, None]
    if not isinstance(loss, TopHinge) or loss.k == 1:
        if not isinstance(loss, (Softmax, TopHinge)):
            raise DataError(f"there are no guarantees with the loss {loss.name}")
        return np.broadcast_to(left, alpha.shape), alpha
    # 0 ≤ a ≤ s/k, Σa ≤ s and (k − 1)a ≤ Σa for each of the classes.
    k = float(loss.k)
    above = np.minimum((weight / k - a).lower, left)
    spare = row_sums(a)[:, None] - (k - 1.0) * a
    if loss.k > 2:
        above = np.minimum(above, (spare / (k - 2.0)).lower)
    below = alpha.copy()
    for column in range(alpha.shape[1]):
        others = np.delete(spare.lower, column, axis=1)
        below[:, column] = np.minimum(below[:, column], others.min(axis=1, initial=np.inf))
    return np.maximum(above, 0.0), np.maximum(below, 0.0)


def _shifted(statement: MulticlassStatement) -> tuple[Rows, Floats]:
    """Return the rows, shifted, and what was subtracted from them."""
    scores = statement.scores
    X, shift = scores.data.X, scores.centre
    if scores.intercept == "penalised" and not sp.issparse(X):
        # With Σc = 1 no shift of the rows changes anything.
        shift = np.asarray(X.mean(axis=0))
    shifted = bool(shift.any())
    rows = Rows(X - shift if shifted else X, shifted=shifted)
    return rows, shift


def _ridge_theorem(
    statement: ClassicalStatement, model: MulticlassModel, alpha: Floats
) -> Callable[..., Theorem]:
    """Return a function that makes the theorem of two classes, for a regulariser λκ‖W‖²."""
    c = statement.scores.data.c
    curvature = statement.regulariser.curvature(c)
    assert curvature is not None  # noqa: S101 - the sparse machine is refused
    mu = exact(2.0 * curvature) * exact(statement.lam)
    expanded = statement.scores.gradient(alpha).W.scaled(1.0 / mu)
    W = model.coef
    centred = Ball.around(exact(W) - (row_sums(exact(W)) / float(c))[:, None])
    separation = mu * (centred - expanded).squared_norm()
    rows, shift = _shifted(statement)

    def make(k: int, other: int, chosen: Chosen, multipliers: Multipliers, gap: float) -> Theorem:
        own, dual = (
            Ball(w.value[:, other], w.distance) - Ball(w.value[:, k], w.distance)
            for w in (Ball(W), expanded)
        )
        points = LinearPoints(rows[chosen], shift, False, halved(own + dual), separation, 2.0 / mu)
        return Theorem(points, multipliers, gap)

    return make


@dataclass(frozen=True, eq=False, kw_only=True)
class FlowTheorem(Theorem):
    """The theorem with the conjugate of λ‖w‖^p at a flow."""

    lam: float
    p: float
    length: Bounded

    @quietly
    def bend(self, squares: Floats, step: Floats) -> Floats:
        """Half of ‖h‖² times the largest second derivative up to the step."""
        moved = exact(step) * sqrt(exact(squares))
        far = self.length + moved if self.p <= 2.0 else self.length - moved
        far = exact(far.upper if self.p <= 2.0 else far.lower)
        steeper = 1.0 if self.p >= 2.0 else 1.0 / (exact(self.p) - 1.0)
        second = _gradient_factor(far, self.lam, self.p) * steeper
        found = (0.5 * exact(squares) * second).upper
        nothing = (squares == 0.0) | (far.value <= 0.0 if self.p < 2.0 else False)
        return np.asarray(np.where(nothing, 0.0, found))

    @quietly
    def longest_step(self, squares: Floats) -> Floats:
        """‖ηh‖ ≤ ½‖S‖ for p > 2."""
        if self.p <= 2.0:
            return super().longest_step(squares)
        found = (0.5 * exact(max(self.length.lower_end, 0.0)) / sqrt(exact(squares))).lower
        return np.asarray(np.where(squares == 0.0, np.inf, np.maximum(found, 0.0)))


@quietly
def _gradient_factor(r: Bounded, lam: float, p: float) -> Any:
    """Return ‖∇c‖/‖S‖ at flows of a length: what a flow is multiplied by."""
    if p == 2.0:
        return 1.0 / (2.0 * exact(lam))
    return exp(log(r / (exact(lam) * exact(p))) / (exact(p) - 1.0)) / r


def _flow_theorem(statement: M3SVM, S: Floats) -> Callable[..., Theorem]:
    """Return a function that makes the theorem of two classes, for M3SVM."""
    rows, shift = _shifted(statement)
    every = lengths(exact(S), 2)
    column = {pair: j for j, pair in enumerate(combinations(range(statement.scores.data.c), 2))}

    def make(k: int, other: int, chosen: Chosen, multipliers: Multipliers, gap: float) -> Theorem:
        j = column[k, other]
        centre = Ball(np.zeros(S.shape[0]))
        if S[:, j].any():
            centre = Ball(-S[:, j]).scaled(_gradient_factor(every[j], statement.lam, statement.p))
        points = LinearPoints(rows[chosen], shift, False, centre, exact(0.0))
        return FlowTheorem(
            points, multipliers, gap, lam=statement.lam, p=statement.p, length=every[j]
        )

    return make
