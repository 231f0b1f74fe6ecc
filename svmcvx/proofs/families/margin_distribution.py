r"""The margin distribution machines ODM and ODML, with shares :math:`c_i = s_i/\sum s` of the
weights.

ODM: :math:`\tfrac12\|w\|^2 + \sum c_i(C_1(1-D-u_i)_+^2 + C_2(u_i-1-D)_+^2)`, and for any θ the
lower end :math:`\sum\theta_i - D\sum|\theta_i| - \tfrac12v'Kv - \sum(\theta_i)_+^2/(4C_1c_i) -
\sum(\theta_i)_-^2/(4C_2c_i)`, :math:`v = y\theta`.

ODML: :math:`\tfrac12\|w\|^2 + \lambda_1\sum c_i(u_i-\bar u)^2 - \lambda_2\bar u + C\sum
c_i(1-u_i)_+`, and for :math:`0 \le \alpha_i \le Cc_i` and τ of sum 0 the lower end
:math:`\sum\alpha_i - \tfrac12v'Kv - \sum\tau_i^2/(4\lambda_1c_i)`, :math:`v_i = y_i(\alpha_i +
\lambda_2c_i - \tau_i)`. For every τ, :math:`\tau_i - c_i\sum\tau` has the sum 0. With hard margins
α has no upper bound, and a model whose smallest margin is m < 1 is divided by m.
"""

from __future__ import annotations

import numpy as np
from flint import arb

from svmcvx.proofs.arithmetic.balls import Ball, as_fraction, balls, fractions, nonneg, total
from svmcvx.proofs.families.margin import boxed, shrink
from svmcvx.proofs.problem import Problem
from svmcvx.proofs.space import Multipliers, Space

__all__ = ["FAMILY", "MULTIPLIERS"]


def _shares(problem: Problem) -> list[Ball]:
    weights = fractions(problem.weight)
    whole = sum(weights, as_fraction(0.0))
    return [s / whole for s in weights]


def _band(problem: Problem) -> tuple[Ball, Ball, Ball]:
    return arb(problem.number("C1")), arb(problem.number("C2")), arb(problem.number("D"))


def _odm_upper(space: Space) -> Ball:
    C1, C2, D = _band(space.problem)
    value = space.model.norm / 2
    for share, u in zip(_shares(space.problem), space.margins, strict=True):
        short, beyond = nonneg(1 - D - u), nonneg(u - 1 - D)
        value += arb(share) * (C1 * short * short + C2 * beyond * beyond)
    return value


def _odm_multipliers(space: Space) -> Multipliers:
    problem = space.problem
    C1, C2, D = _band(problem)
    shares = [arb(share) for share in _shares(problem)]

    def gain(i: int, t: Ball) -> Ball:
        # Where the sign is not certain both prices bound the gain from below together.
        price = t * t / (4 * shares[i])
        if t > 0 or t < 0 or t.is_zero():
            return t - D * abs(t) - price / (C1 if t > 0 else C2)
        return t - D * abs(t) - (price / C1).union(price / C2)

    theta = problem.dual("theta")
    values, down = balls(theta), theta < 0
    cost = (
        np.where(down, problem.number("C2"), problem.number("C1"))
        * problem.weight
        / problem.weight.sum()
    )
    slopes = np.where(down, 1.0 + problem.number("D"), 1.0 - problem.number("D")) - theta / (
        2.0 * cost
    )
    return Multipliers(values, None, True, gain, space.signed(values), slopes, 0.5 / cost)


def _odm_lower(space: Space) -> Ball:
    found = _odm_multipliers(space)
    gains = total(found.gain(i, t) for i, t in enumerate(found.values))
    return gains - space.dual_point(found.coefficients).norm / 2


def _soft_upper(space: Space) -> Ball:
    return _objective(space, arb(space.problem.number("C")), arb(1))


def _hard_upper(space: Space) -> Ball:
    return _objective(space, arb(0), shrink(space))


def _objective(space: Space, C: Ball, divisor: Ball) -> Ball:
    """The objective at the model divided by a number."""
    problem = space.problem
    lam1, lam2 = arb(problem.number("lam1")), arb(problem.number("lam2"))
    margins = [u / divisor for u in space.margins]
    shares = [arb(c) for c in _shares(problem)]
    mean = total(c * u for c, u in zip(shares, margins, strict=True))
    value = space.model.norm / 2 / divisor**2 - lam2 * mean
    for c, u in zip(shares, margins, strict=True):
        value += c * (lam1 * (u - mean) * (u - mean) + (C * nonneg(1 - u) if C > 0 else 0))
    return value


def _soft_lower(space: Space) -> Ball:
    C = as_fraction(space.problem.number("C"))
    return _bound(space, [C * c for c in _shares(space.problem)])


def _hard_lower(space: Space) -> Ball:
    return _bound(space, None)


def _bound(space: Space, highest: list[Ball] | None) -> Ball:
    problem = space.problem
    alpha, shares, tau = _dual_point(problem, highest)
    lam1 = arb(problem.number("lam1"))
    value = total(alpha) - space.dual_point(_coefficients(space, alpha, shares, tau)).norm / 2
    if lam1 > 0:
        value -= total(t * t / c for t, c in zip(tau, shares, strict=True)) / (4 * lam1)
    return value


def _dual_point(
    problem: Problem, highest: list[Ball] | None
) -> tuple[list[Ball], list[Ball], list[Ball]]:
    """The multipliers α, the shares, and τ of sum 0."""
    alpha = [arb(a) for a in boxed(problem, "alpha", highest)]
    exact = _shares(problem)
    tau = [arb(0)] * problem.n
    if problem.number("lam1") > 0 and problem.has_dual("tau"):
        given = fractions(problem.dual("tau"))
        whole = sum(given, as_fraction(0.0))
        tau = [arb(t - c * whole) for t, c in zip(given, exact, strict=True)]
    return alpha, [arb(c) for c in exact], tau


def _coefficients(
    space: Space, alpha: list[Ball], shares: list[Ball], tau: list[Ball]
) -> list[Ball]:
    lam2 = arb(space.problem.number("lam2"))
    return space.signed([a + lam2 * c - t for a, c, t in zip(alpha, shares, tau, strict=True)])


def _odml_multipliers(space: Space) -> Multipliers:
    """Those of α alone, which move while τ stays."""
    problem = space.problem
    C = as_fraction(problem.number("C"))
    highest = [C * c for c in _shares(problem)]
    point = _dual_point(problem, highest)
    ones = np.ones(problem.n)
    caps = [arb(cap) for cap in highest]
    return Multipliers(
        point[0], caps, False, lambda _, a: a, _coefficients(space, *point), ones, 0.0 * ones
    )


FAMILY = {
    "odm": (_odm_upper, _odm_lower),
    "odml": (_soft_upper, _soft_lower),
    "odml_hard_margin": (_hard_upper, _hard_lower),
}
MULTIPLIERS = {"odm": _odm_multipliers, "odml": _odml_multipliers}
