r"""Machines of several classes, with differences :math:`f_{ik} = (w_{y_i}-w_k)'x_i + b_{y_i} -
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
from collections.abc import Iterable, Iterator
from itertools import combinations

from flint import arb

from svmcvx.proofs.balls import Ball, balls, least, norm_squared, power, total
from svmcvx.proofs.families.margin import ROUNDING, SHORTEST
from svmcvx.proofs.families.scores import (
    Columns,
    ScoreLoss,
    differences,
    fitting_factor,
    gain,
    loss_at_model,
    multipliers,
    pairs,
    weights,
)
from svmcvx.proofs.problem import Problem, ProofRejected
from svmcvx.proofs.space import Space

__all__ = ["FAMILY"]

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
