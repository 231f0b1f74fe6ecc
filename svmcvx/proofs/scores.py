"""Scores of several classes: differences at a model, multipliers inside their domain, and the gradient that they make."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from flint import arb

from svmcvx.proofs.balls import Ball, as_fraction, balls, combination, fractions, least, product, total
from svmcvx.proofs.losses import ScoreLoss
from svmcvx.proofs.margin import ROUNDING
from svmcvx.proofs.problem import Problem, Refused
from svmcvx.proofs.space import Space

__all__ = ["Columns", "differences", "fitting_factor", "gain", "loss_at_model", "multipliers", "pairs", "weights"]

Columns = list[list[Ball]]


class Multipliers(NamedTuple):
    """Multipliers inside the domain of a loss, one row an observation without its own class, and G and g_b."""

    rows: list[list[Ball]]
    G: Columns
    g: list[Ball]


def _classes(problem: Problem) -> int:
    c = int(problem.proof.classes.size)
    if c < 2:
        raise Refused("the formulation has at least two classes")
    return c


def weights(problem: Problem) -> tuple[Columns, list[Ball]]:
    """W, one list a class, and b."""
    c, d = _classes(problem), problem.X.shape[1]
    W, b = problem.model("coef"), problem.model("intercept")
    if W.shape != (d, c) or b.shape != (c,):
        raise Refused(f"the model needs a matrix of {d} × {c} weights and {c} biases, got {W.shape} and {b.shape}")
    if problem.proof.intercept == "none" and np.ptp(b) > 0:
        raise Refused("the biases of the model differ, the formulation has none")
    return [balls(W[:, k]) for k in range(c)], balls(b)


def differences(space: Space) -> list[list[Ball]]:
    """The differences f of each observation."""
    problem = space.problem
    W, b = weights(problem)
    scores = [[x + bias for x in product(space.kept, w)] for w, bias in zip(W, b, strict=True)]
    codes = problem.codes[problem.index].tolist()
    return [[scores[own][i] - scores[k][i] for k in range(len(W)) if k != own] for i, own in enumerate(codes)]


def loss_at_model(space: Space, loss: ScoreLoss) -> Ball:
    """Return the weighted sum of losses."""
    weights = balls(space.problem.weight)
    return total(s * loss.value(f) for s, f in zip(weights, differences(space), strict=True))


def multipliers(space: Space, loss: ScoreLoss) -> Multipliers:
    """Return the multipliers of a proof inside the domain of the loss, balanced where the biases are free, or refuse them."""
    problem = space.problem
    c, codes = _classes(problem), problem.codes[problem.index].tolist()
    given = problem.dual("alpha", c)
    rows: list[list[Ball]] = []
    for i, (own, s) in enumerate(zip(codes, fractions(problem.weight), strict=True)):
        row = problem.index[i]
        if given[i, own] != 0:
            raise Refused(f"the multiplier of row {row} and its own class is {float(given[i, own])!r}, not 0")
        inside = loss.inside(fractions(np.delete(given[i], own)), s)
        if isinstance(inside, str):
            raise Refused(f"a multiplier of row {row} {inside}")
        rows.append(inside)
    if problem.proof.intercept == "free":
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


def _balanced(problem: Problem, loss: ScoreLoss, rows: list[list[Ball]], codes: list[int]) -> list[list[Ball]]:
    """Mix in multipliers that are equal within a class until B'1 = 0."""
    c, zero = _classes(problem), as_fraction(0.0)
    excess = [sum(column, zero) for column in _coefficients(rows, codes, c, zero)]
    if not any(excess):
        return rows
    size = sum((sum(row, zero) for row in rows), zero)
    worst = max(range(c), key=lambda k: abs(excess[k]))
    if abs(excess[worst]) > ROUNDING * size:
        raise Refused(
            f"the multipliers of class {problem.proof.classes[worst]} do not balance: B'1 = 0 is off by {float(arb(excess[worst]).mid()):.6g}"
        )
    weights = fractions(problem.weight)
    u, highest = loss.uniform(c - 1), max(excess)
    whole = [sum((s for s, own in zip(weights, codes, strict=True) if own == k), zero) for k in range(c)]
    if any(w == 0 for w in whole):
        raise Refused("a class has no observation of positive weight, so that its bias is not bounded")
    wanted = [(highest - e) / c / (w * u) for e, w in zip(excess, whole, strict=True)]
    share = 1 if loss.name == "margin" else 1 / (1 + max(wanted))
    return [[(a + s * u * wanted[own]) * share for a in row] for row, own, s in zip(rows, codes, weights, strict=True)]


def _gradient(space: Space, rows: list[list[Ball]]) -> Multipliers:
    problem = space.problem
    B = _coefficients(rows, problem.codes[problem.index].tolist(), _classes(problem), arb(0))
    return Multipliers(rows, [combination(space.kept, column) for column in B], [total(column) for column in B])


def gain(space: Space, loss: ScoreLoss, rows: list[list[Ball]]) -> Ball:
    """Return Σ s g(α/s)."""
    weights = balls(space.problem.weight)
    return total(s * loss.gain([a / s for a in row]) for s, row in zip(weights, rows, strict=True))


def pairs(columns: Columns) -> list[list[Ball]]:
    """The differences of two columns, k < l."""
    return [[x - z for x, z in zip(first, second, strict=True)] for first, second in combinations(columns, 2)]


def fitting_factor(bound: Ball, sizes: Sequence[Ball]) -> Ball:
    """A number of at most 1 that brings sizes below a bound."""
    return least([arb(1), *((bound / x.upper()).lower() for x in sizes if not x <= bound)])
