r"""Soft and hard maximum margins: psvm, the same with a penalised intercept or none, and the hard
margin.

Upper end: :math:`\tfrac12\|w\|^2 + C\sum s_i(1-u_i)_+^p` at the model; with hard margins
:math:`\tfrac12\|w\|^2/m^2`, m being the smallest margin if that is below 1, since (w, b)/m has no
margin below 1.

Lower end: :math:`\sum\alpha_i - C(p-1)\sum s_i(\alpha_i/(Cs_ip))^{p/(p-1)} - \tfrac12v'Kv`, for any
:math:`\alpha \ge 0`, with p = 1 for :math:`\alpha_i \le Cs_i`, and with a free intercept for
:math:`y'\alpha = 0`. Rounding errors are corrected in rational numbers: multipliers are cut to
their bounds, and the class with the larger sum is scaled down.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from flint import arb

from svmcvx.proofs.arithmetic.balls import (
    Ball,
    as_fraction,
    balls,
    fractions,
    least,
    nonneg,
    power,
    total,
)
from svmcvx.proofs.problem import Problem, ProofRejected
from svmcvx.proofs.space import Multipliers, Space

__all__ = ["FAMILY", "MULTIPLIERS", "SHORTEST", "boxed", "shrink"]

# A multiplier may be above its bound, and a sum off zero, by this share; more is no rounding.
ROUNDING = as_fraction(2.0**-40)
# The smallest margin of a model that is scaled until it has margins of 1. Any positive one would do
# as well.
SHORTEST = 0.5


def boxed(problem: Problem, name: str, highest: list[Ball] | None) -> list[Ball]:
    """Return multipliers as rational numbers in [0, highest], or name the one that is clearly
    outside.
    """
    alpha = fractions(problem.dual(name))
    for i, a in enumerate(alpha):
        if a < 0:
            raise ProofRejected(f"the multiplier of row {problem.index[i]} is {_show(a)}, below 0")
        if highest is not None and a > highest[i]:
            if a > highest[i] * (1 + ROUNDING):
                raise ProofRejected(
                    f"the multiplier of row {problem.index[i]} is {_show(a)}, above its bound"
                    f" {_show(highest[i])}"
                )
            alpha[i] = highest[i]
    return alpha


def _show(value: Ball) -> str:
    return repr(float(arb(value).mid()))


def _balanced(problem: Problem, alpha: list[Ball]) -> list[Ball]:
    """Scale the class whose multipliers have the larger sum, so that y'α = 0."""
    signs = problem.signs.tolist()
    sums = {
        sign: sum((a for a, s in zip(alpha, signs, strict=True) if s == sign), as_fraction(0.0))
        for sign in (1, -1)
    }
    if sums[1] == sums[-1]:
        return alpha
    smaller, larger = sorted(sums.values())
    if larger - smaller > ROUNDING * larger:
        raise ProofRejected(
            f"the multipliers do not satisfy y'α = 0: they sum to {_show(sums[1])} in the positive"
            f" class and to {_show(sums[-1])} in the negative one"
        )
    heavy, factor = (1 if sums[1] == larger else -1), smaller / larger
    return [a * factor if s == heavy else a for a, s in zip(alpha, signs, strict=True)]


def _soft_upper(space: Space) -> Ball:
    problem = space.problem
    C, p = arb(problem.number("C")), arb(problem.number("p"))
    losses = (
        s * power(nonneg(1 - u), p)
        for s, u in zip(balls(problem.weight), space.margins, strict=True)
    )
    return space.model.norm / 2 + C * total(losses)


def _soft_multipliers(space: Space) -> Multipliers:
    problem = space.problem
    C, p = as_fraction(problem.number("C")), problem.number("p")
    exact = [C * s for s in fractions(problem.weight)]
    alpha = boxed(problem, "alpha", exact if p == 1 else None)
    if problem.proof.statement.intercept == "free":
        alpha = _balanced(problem, alpha)
    values, caps = [arb(a) for a in alpha], [arb(cap) for cap in exact]
    if p == 1:
        return _straight(space, values, caps)
    size = np.array([float(a) for a in values])
    full = p * problem.number("C") * problem.weight
    xi = (size / full) ** (1.0 / (p - 1.0))
    bends = np.where(size > 0, xi, 1.0) / ((p - 1.0) * np.where(size > 0, size, full))
    return Multipliers(
        values, None, False, _curved(caps, arb(p)), space.signed(values), 1.0 - xi, bends
    )


def _straight(space: Space, values: list[Ball], highest: list[Ball] | None) -> Multipliers:
    """Multipliers whose gains are themselves."""
    ones, zeros = np.ones(len(values)), np.zeros(len(values))
    return Multipliers(values, highest, False, lambda _, a: a, space.signed(values), ones, zeros)


def _curved(caps: list[Ball], p: Ball) -> Callable[[int, Ball], Ball]:
    """Multipliers less the conjugates of their losses."""
    gamma, scale = p / (p - 1), p - 1
    return lambda i, a: a if a.is_zero() else a - scale * caps[i] * power(a / (caps[i] * p), gamma)


def _lower(space: Space, found: Multipliers) -> Ball:
    gains = total(found.gain(i, a) for i, a in enumerate(found.values))
    return gains - space.dual_point(found.coefficients).norm / 2


def _soft_lower(space: Space) -> Ball:
    return _lower(space, _soft_multipliers(space))


def shrink(space: Space) -> Ball:
    """Return min(1, the smallest margin), by which a model is divided so that no margin is below 1."""
    margins = space.margins
    smallest = least([*margins, arb(1)])
    if not smallest >= SHORTEST:
        worst = min(range(len(margins)), key=lambda i: margins[i].lower())
        raise ProofRejected(
            f"the margin of row {space.problem.index[worst]} is {float(margins[worst].mid()):.6g},"
            " below 1"
        )
    return smallest


def _hard_upper(space: Space) -> Ball:
    return space.model.norm / 2 / shrink(space) ** 2


def _hard_multipliers(space: Space) -> Multipliers:
    problem = space.problem
    alpha = _balanced(problem, boxed(problem, "alpha", None))
    return _straight(space, [arb(a) for a in alpha], None)


def _hard_lower(space: Space) -> Ball:
    return _lower(space, _hard_multipliers(space))


# The upper and the lower end of each formulation.
FAMILY = {
    **dict.fromkeys(("psvm", "penalised psvm"), (_soft_upper, _soft_lower)),
    "hard_margin": (_hard_upper, _hard_lower),
}
# Dual points of the formulations whose scores can be checked.
MULTIPLIERS = {
    **dict.fromkeys(("psvm", "penalised psvm"), _soft_multipliers),
    "hard_margin": _hard_multipliers,
}
