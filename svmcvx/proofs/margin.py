r"""Soft and hard maximum margins, and the margin distribution machines ODM and ODML, in balls or in
intervals of doubles; ``docs/proof_format.md`` has their objectives and dual values. Shares of the
weights are :math:`c_i = s_i/\sum s`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, NamedTuple, TypeAlias

import numpy as np

from svmcvx.proofs.intervals import Floats, Rows
from svmcvx.proofs.problem import ProofRejected
from svmcvx.proofs.space import N, Space

Numbers: TypeAlias = Mapping[str, float]

# A multiplier may be above its bound, and a sum off zero, by this share; more is no rounding.
ROUNDING = 2.0**-40
# The smallest margin of a model that is scaled until it has margins of 1. Any positive one would do
# as well.
SHORTEST = 0.5


class Multipliers(NamedTuple, Generic[N]):
    """A feasible dual point, and how its dual value changes with single multipliers."""

    values: N
    coefficients: N
    # Gains of multipliers of given rows, and their slopes and curvatures at the point.
    gain: Callable[[Any, N], N]
    slopes: Floats
    bends: Floats
    highest: N | None = None
    signed: bool = False
    # What variables that stay take from the dual value.
    fixed: N | None = None


# Formulas of rows.


def hinge_losses(u: N, caps: N, p: float) -> N:
    """Return Σ Cs(1 − u)₊^p."""
    slack = (1.0 - u).nonneg()
    return (caps * (slack if p == 1 else slack * slack if p == 2 else slack.power(p))).sum()


def hinge_conjugates(alpha: N, caps: N, p: float) -> N:
    """Return Cs(p − 1)(α/(Csp))^{p/(p−1)}."""
    exact = alpha.exactly(p)
    less = exact - 1.0
    return less * (caps * (alpha / (caps * p)).power(exact / less))


def band_losses(u: N, shares: N, numbers: Numbers) -> N:
    """Return Σ c(C1 (1 − D − u)₊² + C2 (u − 1 − D)₊²)."""
    C1, C2, D = numbers.values()
    short, beyond = (1.0 - u - D).nonneg(), (u - 1.0 - D).nonneg()
    return (shares * (short * short * C1 + beyond * beyond * C2)).sum()


def band_gains(theta: N, shares: N, numbers: Numbers) -> N:
    """Return θ − D|θ| − θ²/(4c C1), or C2 for θ below 0."""
    C1, C2, D = numbers.values()
    return theta - theta.size() * D - (theta * theta) / (shares * 4.0 * theta.by_sign(C1, C2))


# Multipliers.


def boxed(given: Floats, rows: Rows, highest: N | None, numbers: type[N]) -> N:
    """Return multipliers of rows in [0, highest], or name the one that is clearly outside."""
    alpha = numbers.exactly(given)
    for row in np.flatnonzero(given < 0)[:1]:
        raise ProofRejected(f"the multiplier of row {rows[row]} is {float(given[row])!r}, below 0")
    if highest is None:
        return alpha
    for row in np.flatnonzero(alpha.above(highest * (1.0 + ROUNDING)))[:1]:
        raise ProofRejected(
            f"the multiplier of row {rows[row]} is {float(given[row])!r}, above its bound"
            f" {float(highest.middle[row])!r}"
        )
    return alpha.at_most(highest)


def balanced(signs: Floats, alpha: N) -> N:
    """Scale both classes of multipliers to the smaller of their sums, so that y'α = 0."""
    if alpha.cancels(signs):
        return alpha
    negative, positive = (alpha[signs == sign].sum() for sign in (-1, 1))
    smaller, larger = sorted((negative, positive), key=lambda value: value.ends[1])
    if (larger - smaller).above(larger * ROUNDING):
        raise ProofRejected(
            f"the multipliers do not satisfy y'α = 0: they sum to {float(positive.middle)!r} in"
            f" the positive class and to {float(negative.middle)!r} in the negative one"
        )
    factors = balancing(negative, positive)
    return alpha * alpha.exactly(signs).by_sign(factors[1], factors[0])


def balancing(negative: N, positive: N) -> tuple[N, N]:
    """Return factors of at most 1 that bring both sums to the smaller one."""
    least = negative.at_most(positive)
    if not least.ends[0] > 0:
        return least.exactly(0.0), least.exactly(0.0)
    return (least / negative).at_most(1.0), (least / positive).at_most(1.0)


def _straight(space: Space[N], alpha: N, coefficients: N, highest: N | None) -> Multipliers[N]:
    """Multipliers whose gains are themselves."""
    ones = np.ones(space.problem.n)
    return Multipliers(alpha, coefficients, lambda _, a: a, ones, 0.0 * ones, highest)


# The formulations.


def _shares(space: Space[N]) -> N:
    weights = space.numbers.exactly(space.problem.weight)
    return weights / weights.sum()


def _caps(space: Space[N]) -> N:
    return space.numbers.exactly(space.problem.weight) * space.problem.number("C")


def shrink(space: Space[N]) -> N:
    """Return min(1, the smallest margin), by which a model is divided to have margins of 1."""
    smallest = space.u.least().at_most(1.0)
    if not smallest.ends[0] >= SHORTEST:
        middle = space.u.middle
        worst = int(np.argmin(middle))
        raise ProofRejected(
            f"the margin of row {space.problem.index[worst]} is {float(middle[worst]):.6g}, below 1"
        )
    return smallest


def _psvm_upper(space: Space[N]) -> N:
    losses = hinge_losses(space.u, _caps(space), space.problem.number("p"))
    return space.model.norm * 0.5 + losses


def _psvm_multipliers(space: Space[N]) -> Multipliers[N]:
    """Those of soft and of hard margins."""
    problem, soft = space.problem, space.problem.has("C")
    p = problem.number("p") if soft else 1.0
    highest = _caps(space) if soft and p == 1 else None
    alpha = boxed(problem.dual("alpha"), problem.index, highest, space.numbers)
    if problem.free:
        alpha = balanced(problem.signs, alpha)
    coefficients = alpha * problem.signs
    if p == 1:
        return _straight(space, alpha, coefficients, highest)
    size, full, caps = alpha.middle, p * problem.number("C") * problem.weight, _caps(space)
    with np.errstate(all="ignore"):
        xi = (size / full) ** (1.0 / (p - 1.0))
        bends = np.where(size > 0, xi, 1.0) / ((p - 1.0) * np.where(size > 0, size, full))

    def gain(rows: Any, a: N) -> N:
        return a - hinge_conjugates(a, caps[rows], p)

    return Multipliers(alpha, coefficients, gain, 1.0 - xi, bends)


def _hard_upper(space: Space[N]) -> N:
    divisor = shrink(space)
    return space.model.norm * 0.5 / (divisor * divisor)


def _odm_upper(space: Space[N]) -> N:
    losses = band_losses(space.u, _shares(space), space.problem.statement.hyperparameters)
    return space.model.norm * 0.5 + losses


def _odm_multipliers(space: Space[N]) -> Multipliers[N]:
    problem, theta, shares = space.problem, space.problem.dual("theta"), _shares(space)
    numbers, values, down = problem.statement.hyperparameters, shares.exactly(theta), theta < 0
    C1, C2, D = numbers.values()
    with np.errstate(all="ignore"):
        cost = np.where(down, C2, C1) * problem.weight / problem.weight.sum()
        slopes = np.where(down, 1.0 + D, 1.0 - D) - theta / (2.0 * cost)
        bends = 0.5 / cost

    def gain(rows: Any, t: N) -> N:
        return band_gains(t, shares[rows], numbers)

    return Multipliers(values, values * problem.signs, gain, slopes, bends, signed=True)


def _odml_upper(space: Space[N]) -> N:
    problem, u, square, shares = space.problem, space.u, space.model.norm, _shares(space)
    if not problem.has("C"):
        divisor = shrink(space)
        u, square = u / divisor, square / (divisor * divisor)
    mean = (shares * u).sum()
    off = u - mean
    variance = (shares * (off * off)).sum()
    value = square * 0.5 - mean * problem.number("lam2") + variance * problem.number("lam1")
    if problem.has("C"):
        value = value + hinge_losses(u, shares * problem.number("C"), 1.0)
    return value


def _odml_multipliers(space: Space[N]) -> Multipliers[N]:
    """The multipliers α, which move while τ stays; τ is moved to the sum 0."""
    problem, shares, lam1 = space.problem, _shares(space), space.problem.number("lam1")
    highest = shares * problem.number("C") if problem.has("C") else None
    alpha = boxed(problem.dual("alpha"), problem.index, highest, space.numbers)
    moved, fixed = alpha + shares * problem.number("lam2"), None
    if lam1 > 0 and "tau" in problem.proof.dual:
        given = space.numbers.exactly(problem.dual("tau"))
        tau = given - shares * given.sum()
        moved, fixed = moved - tau, (tau * tau / (shares * (4.0 * lam1))).sum()
    return _straight(space, alpha, moved * problem.signs, highest)._replace(fixed=fixed)


# The objective at the model, and the dual point.
POINTS: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("psvm", "penalised psvm"), (_psvm_upper, _psvm_multipliers)),
    "hard_margin": (_hard_upper, _psvm_multipliers),
    "odm": (_odm_upper, _odm_multipliers),
    **dict.fromkeys(("odml", "odml_hard_margin"), (_odml_upper, _odml_multipliers)),
}


def lower_end(space: Space[N]) -> N:
    found: Multipliers[N] = POINTS[space.problem.formulation][1](space)
    used = np.flatnonzero(found.values.nonzero)
    gains = found.gain(used, found.values[used]).sum()
    value = gains - space.squared_norm(found.coefficients) * 0.5
    return value if found.fixed is None else value - found.fixed


FAMILY: dict[str, Any] = {name: (upper, lower_end) for name, (upper, _) in POINTS.items()}
