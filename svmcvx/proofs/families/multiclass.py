r"""Machines of several classes, with differences :math:`f_{ik} = (w_{y_i}-w_k)'x_i + b_{y_i} - b_k`.

Upper end: :math:`\sum s_i\ell(f_i) + \Omega(W)` at the model. Lower end: every loss is :math:`\max_{a\in A} g(a) - a'f`, whence for
:math:`\alpha_i = s_ia_i` in its domain, with :math:`G = X'B`, :math:`g_b = B'1` of the coefficients B of the scores in
:math:`\sum\alpha f`,

.. math:: \sum s_ig(\alpha_i/s_i) - \sup_{W,b}\,(\langle G, W\rangle + g_b'b - \Omega(W, b)).

Free biases need :math:`g_b = 0`: an imbalance of rounding is mixed away with multipliers that are equal within a class, and α is
scaled down to :math:`|G_{jk}| \le \lambda` where Ω is the sum of absolute values, both in exact terms, as the domains are convex
and contain 0. M3SVM has flows S of divergence G − R between the classes; :math:`-\|R\|^2/4\varepsilon` prices what they leave.
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
from flint import arb

from svmcvx.proofs.arithmetic.balls import Ball, balls, least, norm_squared, power, total
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
from svmcvx.proofs.problem import Problem, Refused
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
            ((k, j) for k in range(len(G)) for j in range(len(G[0]))), key=lambda at: float(abs(G[at[0]][at[1]]).mid())
        )
        if abs(G[k][j]) > lam * (1 + arb(ROUNDING)):
            raise Refused(
                f"the gradient of feature {j} and class {problem.proof.statement.classes[k]} is {float(G[k][j].mid())!r}, above lam in size"
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


def _flows(space: Space, G: Columns) -> Columns:
    """The flows of a proof, one list a pair; without them those of divergence G."""
    problem = space.problem
    c = len(G)
    if "flow" not in problem.proof.dual:
        return [[x / c for x in pair] for pair in pairs(G)]
    S = problem.proof.dual["flow"]
    if not np.isfinite(S).all():
        raise Refused("the flows of the dual point are not finite")
    return [balls(S[:, m]) for m in range(S.shape[1])]


def _rest(G: Columns, S: Columns) -> Columns:
    """R = G − div S."""
    R = [list(column) for column in G]
    for (k, other), flow in zip(combinations(range(len(G)), 2), S, strict=True):
        R[k] = [r - x for r, x in zip(R[k], flow, strict=True)]
        R[other] = [r + x for r, x in zip(R[other], flow, strict=True)]
    return R


def _conjugates(sizes: list[Ball], lam: Ball, p: float) -> Ball:
    """Σ (p − 1) λ (size/(λp))^{p/(p−1)}."""
    exact = arb(p)
    return (exact - 1) * lam * total(power(size / (lam * exact), exact / (exact - 1)) for size in sizes)


def _m3svm_lower(space: Space) -> Ball:
    problem = space.problem
    lam, eps, p, norm = (
        arb(problem.number("lam")),
        arb(problem.number("eps")),
        problem.number("p"),
        problem.number("norm"),
    )
    loss = _named_loss(problem)
    rows, G, g = multipliers(space, loss)
    S = _flows(space, G)
    value = gain(space, loss, rows) - norm_squared(g) / (4 * eps)
    if p == 1:
        for m, (k, other) in enumerate(combinations(problem.proof.statement.classes, 2)):
            size = _dual_length(S[m], norm)
            if size > lam * (1 + arb(ROUNDING)) and "flow" in problem.proof.dual:
                raise Refused(f"the flow between the classes {k} and {other} is {float(size.mid())!r} long, above lam")
            factor = fitting_factor(lam, [size])
            S[m] = [x * factor for x in S[m]]
    else:
        value -= _conjugates([_dual_length(v, norm) for v in S], lam, p)
    return value - total(map(norm_squared, _rest(G, S))) / (4 * eps)


def _hard_upper(space: Space) -> Ball:
    problem = space.problem
    p, norm = problem.number("p"), problem.number("norm")
    smallest = least([arb(1), *(x for f in differences(space) for x in f)])
    if not smallest >= SHORTEST:
        raise Refused(f"a difference of scores is {float(smallest.mid()):.6g} at the model, below 1")
    lengths = [_length([x / smallest for x in v], norm) for v in pairs(weights(problem)[0])]
    return -least([-x for x in lengths]) if math.isinf(p) else total(power(x, arb(p)) for x in lengths)


def _hard_lower(space: Space) -> Ball:
    problem = space.problem
    p, norm = problem.number("p"), problem.number("norm")
    rows, G, _ = multipliers(space, ScoreLoss("margin", problem))
    S = _flows(space, G)
    # The rest has columns that sum to 0: flows (R_k − R_l)/c carry it away.
    spread = [[x / len(G) for x in pair] for pair in pairs(_rest(G, S))]
    S = [[x + z for x, z in zip(flow, more, strict=True)] for flow, more in zip(S, spread, strict=True)]
    sizes, value = [_dual_length(v, norm) for v in S], total(a for row in rows for a in row)
    if 1 < p < math.inf:
        return value - _conjugates(sizes, arb(1), p)
    gauge = sizes if p == 1 else [total(sizes)]
    if any(x > 1 + arb(ROUNDING) for x in gauge):
        raise Refused(f"the flows are {float(least([-x for x in gauge]).mid()) * -1.0!r} long, above 1")
    return value * fitting_factor(arb(1), gauge)


FAMILY = {
    **dict.fromkeys(LOSSES, (_classical_upper, _classical_lower)),
    "m3svm": (_m3svm_upper, _m3svm_lower),
    "m3svm_hard_margin": (_hard_upper, _hard_lower),
}
