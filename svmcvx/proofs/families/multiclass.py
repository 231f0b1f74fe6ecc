r"""Several classes: losses of differences of scores, and the machines that minimise them.

Scores of several classes: losses of their differences f and conjugates of these, multipliers,
and their gradient.

:math:`\ell(f) = \max_{a\in A} g(a) - a'f` with

=========== ============================================================ ================================================== ===============================
loss        :math:`\ell(f)`                                              g(a)
A =========== ============================================================
================================================== =============================== hinge
:math:`\sum(1-f_k)_+`                                        :math:`\sum a_k`
0 ≤ a ≤ 1 smoothed    :math:`\tfrac12\sum(\gamma_k+\sqrt{\gamma_k^2+\delta^2})`    :math:`\sum
a_k+\delta\sqrt{a_k(1-a_k)}`           0 ≤ a ≤ 1 logistic    :math:`\sum\log(1+e^{-f_k})`
:math:`\sum h(a_k)+h(1-a_k)`                       0 ≤ a ≤ 1 softmax     :math:`\log(1+\sum
e^{-f_k})`                                :math:`\sum h(a_k)+h(1-\sum a_k)`                  a ≥ 0,
Σa ≤ 1 largest     :math:`\max(1-f_k)_+`                                        :math:`\sum a_k`
a ≥ 0, Σa ≤ 1 topk        mean of the k largest of 1 − f and 0, or 0                   :math:`\sum
a_k`                                   and a ≤ 1/k, (k − 1)a ≤ Σa margin      0 where every f ≥ 1,
else infinite                           :math:`\sum a_k`                                   a ≥ 0
=========== ============================================================
================================================== ===============================

Here γ = 1 − f and h(a) = −a log a. Each A is convex, and contains 0 and (u, …, u).

Machines of several classes, with differences :math:`f_{ik} = (w_{y_i}-w_k)'x_i + b_{y_i} -
b_k`.

Upper end: :math:`\sum s_i\ell(f_i) + \Omega(W)` at the model. Lower end: every loss is
:math:`\max_{a\in A} g(a) - a'f`, whence for :math:`\alpha_i = s_ia_i` in its domain, with :math:`G
= X'B`, :math:`g_b = B'1` of the coefficients B of the scores in :math:`\sum\alpha f`,

.. math:: \sum s_ig(\alpha_i/s_i) - \sup_{W,b}\,(\langle G, W\rangle + g_b'b - \Omega(W, b)).

Free biases need :math:`g_b = 0`: an imbalance of rounding is mixed away with multipliers that are
equal within a class, and α is scaled down to :math:`|G_{jk}| \le \lambda` where Ω is the sum of
absolute values, both in exact terms, as the domains are convex and contain 0. M3SVM has flows S of
divergence G − R between the classes; :math:`-\|R\|^2/4\varepsilon` prices what they leave.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from flint import arb

from svmcvx.proofs.balls import (
    Ball,
    as_fraction,
    balls,
    combination,
    entropy,
    fractions,
    least,
    nonneg,
    norm_squared,
    power,
    product,
    total,
)
from svmcvx.proofs.families import margin
from svmcvx.proofs.families.margin import SHORTEST
from svmcvx.proofs.problem import Problem, ProofRejected
from svmcvx.proofs.space import Space

# A multiplier may be above its bound by this share; more is no rounding.
ROUNDING = as_fraction(margin.ROUNDING)

BOXES = ("hinge", "smoothed", "logistic")
Columns = list[list[Ball]]


class ScoreLoss:
    """A loss by its name, with the parameters that the problem gives it."""

    def __init__(self, name: str, problem: Problem) -> None:
        self.name = name
        self.delta = arb(problem.number("delta")) if name == "smoothed" else arb(0)
        self.k = int(problem.number("k")) if name == "topk" else 1

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
            return total(entropy(x) + _rest_entropy(x) for x in a)
        if self.name == "softmax":
            return total(map(entropy, a)) + _rest_entropy(total(a))
        return total(a)

    def uniform(self, others: int) -> Ball:
        """Return the largest u, at most 1, for which (u, …, u) is inside the domain."""
        if self.name in (*BOXES, "margin"):
            return as_fraction(1.0)
        return as_fraction(1.0) / max(self.k, others)

    def inside(self, alpha: list[Ball], s: Ball) -> list[Ball] | str:
        """Return rational multipliers of an observation of weight s, moved into the domain by at
        most rounding, or the violated constraint.
        """
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
                    return (
                        f"is above {_float(ceiling)!r}, the share that the top-{self.k} loss allows"
                    )
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


class ScoreMultipliers(NamedTuple):
    """Multipliers inside the domain of a loss, one row an observation without its own class, and G
    and g_b.
    """

    rows: list[list[Ball]]
    G: Columns
    g: list[Ball]


def _classes(problem: Problem) -> int:
    return len(problem.proof.statement.classes)


def weights(problem: Problem) -> tuple[Columns, list[Ball]]:
    """W, one list a class, and b."""
    W, b = problem.proof.model["coef"], problem.proof.model["intercept"]
    if problem.proof.statement.intercept == "none" and np.ptp(b) > 0:
        raise ProofRejected("the biases of the model differ, the formulation has none")
    return [balls(w) for w in W.T], balls(b)


def differences(space: Space) -> list[list[Ball]]:
    """The differences f of each observation."""
    problem = space.problem
    W, b = weights(problem)
    scores = [[x + bias for x in product(space.rows, w)] for w, bias in zip(W, b, strict=True)]
    codes = problem.codes[problem.index].tolist()
    return [
        [scores[own][i] - scores[k][i] for k in range(len(W)) if k != own]
        for i, own in enumerate(codes)
    ]


def loss_at_model(space: Space, loss: ScoreLoss) -> Ball:
    """Return the weighted sum of losses."""
    weights = balls(space.problem.weight)
    return total(s * loss.value(f) for s, f in zip(weights, differences(space), strict=True))


def multipliers(space: Space, loss: ScoreLoss) -> ScoreMultipliers:
    """Return the multipliers of a proof inside the domain of the loss, balanced where the biases
    are free, or refuse them.
    """
    problem = space.problem
    codes = problem.codes[problem.index].tolist()
    given = problem.dual("alpha")
    rows: list[list[Ball]] = []
    for i, (own, s) in enumerate(zip(codes, fractions(problem.weight), strict=True)):
        row = problem.index[i]
        if given[i, own] != 0:
            raise ProofRejected(
                f"the multiplier of row {row} and its own class is {float(given[i, own])!r}, not 0"
            )
        inside = loss.inside(fractions(np.delete(given[i], own)), s)
        if isinstance(inside, str):
            raise ProofRejected(f"a multiplier of row {row} {inside}")
        rows.append(inside)
    if problem.proof.statement.intercept == "free":
        rows = _balanced(problem, loss, rows, codes)
    return _gradient(space, [[arb(a) for a in row] for row in rows])


def _coefficients(rows: list[list[Ball]], codes: list[int], c: int, zero: Ball) -> Columns:
    """The columns of B."""
    B = [[zero] * len(rows) for _ in range(c)]
    for i, (own, row) in enumerate(zip(codes, rows, strict=True)):
        for k, a in zip((k for k in range(c) if k != own), row, strict=True):
            B[k][i] = -a
        B[own][i] = sum(row, zero)
    return B


def _balanced(
    problem: Problem, loss: ScoreLoss, rows: list[list[Ball]], codes: list[int]
) -> list[list[Ball]]:
    """Mix in multipliers that are equal within a class until B'1 = 0."""
    c, zero = _classes(problem), as_fraction(0.0)
    excess = [sum(column, zero) for column in _coefficients(rows, codes, c, zero)]
    if not any(excess):
        return rows
    size = sum((sum(row, zero) for row in rows), zero)
    worst = max(range(c), key=lambda k: abs(excess[k]))
    if abs(excess[worst]) > ROUNDING * size:
        raise ProofRejected(
            f"the multipliers of class {problem.proof.statement.classes[worst]} do not balance: B'1"
            f" = 0 is off by {float(arb(excess[worst]).mid()):.6g}"
        )
    weights = fractions(problem.weight)
    u, highest = loss.uniform(c - 1), max(excess)
    whole = [
        sum((s for s, own in zip(weights, codes, strict=True) if own == k), zero) for k in range(c)
    ]
    if any(w == 0 for w in whole):
        raise ProofRejected(
            "a class has no observation of positive weight, so that its bias is not bounded"
        )
    wanted = [(highest - e) / c / (w * u) for e, w in zip(excess, whole, strict=True)]
    share = 1 if loss.name == "margin" else 1 / (1 + max(wanted))
    return [
        [(a + s * u * wanted[own]) * share for a in row]
        for row, own, s in zip(rows, codes, weights, strict=True)
    ]


def _gradient(space: Space, rows: list[list[Ball]]) -> ScoreMultipliers:
    problem = space.problem
    B = _coefficients(rows, problem.codes[problem.index].tolist(), _classes(problem), arb(0))
    return ScoreMultipliers(
        rows, [combination(space.rows, column) for column in B], [total(column) for column in B]
    )


def gain(space: Space, loss: ScoreLoss, rows: list[list[Ball]]) -> Ball:
    """Return Σ s g(α/s)."""
    weights = balls(space.problem.weight)
    return total(s * loss.gain([a / s for a in row]) for s, row in zip(weights, rows, strict=True))


def _rest_entropy(x: Ball) -> Ball:
    """Return the entropy of 1 - x, which for small x is about x: 1 - x alone would lose its digits."""
    return (x - 1) * (-x).log1p() if x < 0.5 else entropy(1 - x)


def pairs(columns: Columns) -> Iterator[list[Ball]]:
    """The differences of two columns, k < l."""
    return (
        [x - z for x, z in zip(first, second, strict=True)]
        for first, second in combinations(columns, 2)
    )


def fitting_factor(bound: Ball, sizes: Sequence[Ball]) -> Ball:
    """A number of at most 1 that brings sizes below a bound."""
    return least([arb(1), *((bound / x.upper()).lower() for x in sizes if not x <= bound)])


# The loss of each classical machine.
LOSSES = {
    "weston_watkins": "hinge",
    "crammer_singer": "largest",
    "msvm": "hinge",
    "topk_svm": "topk",
    "multinomial_lr": "softmax",
    "sparse_multinomial_lr": "softmax",
}


# The classical machines.


def _classical_upper(space: Space) -> Ball:
    problem = space.problem
    lam, name = arb(problem.number("lam")), problem.formulation
    W, _ = weights(problem)
    if name == "sparse_multinomial_lr":
        penalty = total(abs(x) for w in W for x in w)
    elif name == "msvm":
        penalty = (total(map(norm_squared, pairs(W))) + total(map(norm_squared, W))) / 2
    else:
        penalty = total(map(norm_squared, W))
    return loss_at_model(space, ScoreLoss(LOSSES[name], problem)) + lam * penalty


def _classical_lower(space: Space) -> Ball:
    problem = space.problem
    lam, name = arb(problem.number("lam")), problem.formulation
    loss = ScoreLoss(LOSSES[name], problem)
    rows, G, _ = multipliers(space, loss)
    if name == "sparse_multinomial_lr":
        # Constraints |G| ≤ λ in place of a conjugate.
        k, j = max(
            ((k, j) for k in range(len(G)) for j in range(len(G[0]))),
            key=lambda at: float(abs(G[at[0]][at[1]]).mid()),
        )
        if abs(G[k][j]) > lam * (1 + arb(ROUNDING)):
            raise ProofRejected(
                f"the gradient of feature {j} and class {problem.proof.statement.classes[k]} is"
                f" {float(G[k][j].mid())!r}, above lam in size"
            )
        return gain(space, loss, _scaled(rows, lam, [abs(x) for column in G for x in column]))
    curvature = arb(len(G) + 1) / 2 if name == "msvm" else arb(1)
    return gain(space, loss, rows) - total(map(norm_squared, G)) / (4 * lam * curvature)


def _scaled(rows: list[list[Ball]], bound: Ball, sizes: list[Ball]) -> list[list[Ball]]:
    """Multipliers scaled down by which these sizes are at most a bound."""
    factor = fitting_factor(bound, sizes)
    return rows if factor == 1 else [[a * factor for a in row] for row in rows]


# M3SVM.


def _length(v: list[Ball], norm: float) -> Ball:
    return total(abs(x) for x in v) if norm == 1 else power(norm_squared(v), arb(0.5))


def _dual_length(v: list[Ball], norm: float) -> Ball:
    if norm == 2:
        return power(norm_squared(v), arb(0.5))
    return -least([-abs(x) for x in v])


def _m3svm_upper(space: Space) -> Ball:
    problem = space.problem
    lam, eps, p = arb(problem.number("lam")), arb(problem.number("eps")), problem.number("p")
    W, b = weights(problem)
    lengths = total(power(_length(v, problem.number("norm")), arb(p)) for v in pairs(W))
    return (
        loss_at_model(space, _named_loss(problem))
        + lam * lengths
        + eps * (total(map(norm_squared, W)) + norm_squared(b))
    )


def _named_loss(problem: Problem) -> ScoreLoss:
    return ScoreLoss(problem.proof.statement.hyperparameters["loss"], problem)


def _flows(space: Space, G: Columns) -> Iterator[tuple[int, int, list[Ball]]]:
    """The two classes of each pair and the flow between them, by default those of divergence G; one
    at a time, as they may be many.
    """
    problem, c = space.problem, len(G)
    S = problem.proof.dual.get("flow")
    if S is None:
        given: Iterable[list[Ball]] = ([x / c for x in pair] for pair in pairs(G))
    else:
        given = (balls(flow) for flow in S.T)
    for (k, other), flow in zip(combinations(range(c), 2), given, strict=True):
        yield k, other, flow


def _carry(R: Columns, k: int, other: int, flow: list[Ball]) -> None:
    """Subtract a flow from the rest of the gradient."""
    R[k] = [r - x for r, x in zip(R[k], flow, strict=True)]
    R[other] = [r + x for r, x in zip(R[other], flow, strict=True)]


def _conjugates(sizes: list[Ball], lam: Ball, p: float) -> Ball:
    """Σ (p − 1) λ (size/(λp))^{p/(p−1)}."""
    exact = arb(p)
    return (
        (exact - 1)
        * lam
        * total(power(size / (lam * exact), exact / (exact - 1)) for size in sizes)
    )


def _m3svm_lower(space: Space) -> Ball:
    problem = space.problem
    lam, eps = arb(problem.number("lam")), arb(problem.number("eps"))
    p, norm, classes = problem.number("p"), problem.number("norm"), problem.proof.statement.classes
    loss = _named_loss(problem)
    rows, G, g = multipliers(space, loss)
    value = gain(space, loss, rows) - norm_squared(g) / (4 * eps)
    rest, sizes = [list(column) for column in G], []
    for k, other, flow in _flows(space, G):
        size = _dual_length(flow, norm)
        if p > 1:
            sizes.append(size)
            _carry(rest, k, other, flow)
            continue
        if size > lam * (1 + arb(ROUNDING)) and "flow" in problem.proof.dual:
            names = f"{classes[k]} and {classes[other]}"
            raise ProofRejected(
                f"the flow between the classes {names} is {float(size.mid())!r} long, above lam"
            )
        factor = fitting_factor(lam, [size])
        _carry(rest, k, other, [x * factor for x in flow])
    if p > 1:
        value -= _conjugates(sizes, lam, p)
    return value - total(map(norm_squared, rest)) / (4 * eps)


def _hard_upper(space: Space) -> Ball:
    problem = space.problem
    p, norm = problem.number("p"), problem.number("norm")
    smallest = least([arb(1), *(x for f in differences(space) for x in f)])
    if not smallest >= SHORTEST:
        raise ProofRejected(
            f"a difference of scores is {float(smallest.mid()):.6g} at the model, below 1"
        )
    lengths = [_length([x / smallest for x in v], norm) for v in pairs(weights(problem)[0])]
    return (
        -least([-x for x in lengths]) if math.isinf(p) else total(power(x, arb(p)) for x in lengths)
    )


def _hard_lower(space: Space) -> Ball:
    problem = space.problem
    p, norm = problem.number("p"), problem.number("norm")
    rows, G, _ = multipliers(space, ScoreLoss("margin", problem))
    rest = [list(column) for column in G]
    for k, other, flow in _flows(space, G):
        _carry(rest, k, other, flow)
    # The rest has columns that sum to 0: flows (R_k − R_l)/c carry it away.
    given, sizes, value = [], [], total(a for row in rows for a in row)
    for (_, _, flow), more in zip(_flows(space, G), pairs(rest), strict=True):
        given.append(_dual_length(flow, norm))
        sizes.append(_dual_length([x + z / len(G) for x, z in zip(flow, more, strict=True)], norm))
    if 1 < p < math.inf:
        return value - _conjugates(sizes, arb(1), p)
    longest = -least([-x for x in given]) if p == 1 else total(given)
    if longest > 1 + arb(ROUNDING):
        raise ProofRejected(f"the flows are {float(longest.mid())!r} long, above 1")
    # A rest of large rows, which is their rounding, may lengthen them by more than the flows
    # themselves may be too long.
    return value * fitting_factor(arb(1), sizes if p == 1 else [total(sizes)])


FAMILY = {
    **dict.fromkeys(LOSSES, (_classical_upper, _classical_lower)),
    "m3svm": (_m3svm_upper, _m3svm_lower),
    "m3svm_hard_margin": (_hard_upper, _hard_lower),
}
