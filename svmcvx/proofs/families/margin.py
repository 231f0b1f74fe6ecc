r"""Soft and hard maximum margins, and the margin distribution machines ODM and ODML, in balls or in
intervals of doubles; ``docs/proof_format.md`` has their objectives and dual values. Shares of the
weights are :math:`c_i = s_i/\sum s`.

Multipliers are cut to their bounds; with a free intercept both classes are scaled down to the
smaller of their sums, so that :math:`y'\alpha = 0`. For every τ, :math:`\tau_i - c_i\sum\tau` has
the sum 0. With hard margins a model whose smallest margin is m < 1 is divided by m.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.proofs.intervals import Floats
from svmcvx.proofs.problem import ProofRejected
from svmcvx.proofs.space import N, Space

Band: TypeAlias = tuple[float, float, float]

# A multiplier may be above its bound, and a sum off zero, by this share; more is no rounding.
ROUNDING = 2.0**-40
# The smallest margin of a model that is scaled until it has margins of 1. Any positive one would do
# as well.
SHORTEST = 0.5


class Multipliers(NamedTuple, Generic[N]):
    """A feasible dual point, and how its dual value changes with single multipliers."""

    values: N
    highest: N | None
    signed: bool
    # Gains of multipliers of given rows.
    gain: Callable[[Any, N], N]
    coefficients: N
    slopes: Floats
    bends: Floats


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


def band_losses(u: N, shares: N, band: Band) -> N:
    """Return Σ c(C1 (1 − D − u)₊² + C2 (u − 1 − D)₊²)."""
    C1, C2, D = band
    short, beyond = (1.0 - u - D).nonneg(), (u - 1.0 - D).nonneg()
    return (shares * (short * short * C1 + beyond * beyond * C2)).sum()


def band_gains(theta: N, shares: N, band: Band) -> N:
    """Return θ − D|θ| − θ²/(4c C1), or C2 for θ below 0."""
    C1, C2, D = band
    return theta - theta.size() * D - (theta * theta) / (shares * 4.0 * theta.by_sign(C1, C2))


# Multipliers.


def boxed(given: Floats, rows: NDArray[np.intp], highest: N | None, numbers: type[N]) -> N:
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


def _shares(space: Space[N]) -> N:
    weights = space.numbers.exactly(space.problem.weight)
    return weights / weights.sum()


def _caps(space: Space[N]) -> N:
    return space.numbers.exactly(space.problem.weight) * space.problem.number("C")


def band_of(numbers: Any) -> Band:
    return numbers["C1"], numbers["C2"], numbers["D"]


def lower_end(space: Space[N], found: Multipliers[N]) -> N:
    used = np.flatnonzero(found.values.nonzero)
    gains = found.gain(used, found.values[used]).sum()
    return gains - space.squared_norm(found.coefficients) * 0.5


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


# The formulations.


def _straight(space: Space[N], alpha: N, highest: N | None, coefficients: N) -> Multipliers[N]:
    """Multipliers whose gains are themselves."""
    ones = np.ones(space.problem.n)
    return Multipliers(alpha, highest, False, lambda _, a: a, coefficients, ones, 0.0 * ones)


def _psvm_upper(space: Space[N]) -> N:
    losses = hinge_losses(space.u, _caps(space), space.problem.number("p"))
    return space.model.norm * 0.5 + losses


def _psvm_multipliers(space: Space[N]) -> Multipliers[N]:
    problem, caps = space.problem, _caps(space)
    C, p = problem.number("C"), problem.number("p")
    highest = caps if p == 1 else None
    alpha = boxed(problem.dual("alpha"), problem.index, highest, space.numbers)
    if problem.free:
        alpha = balanced(problem.signs, alpha)
    coefficients = alpha * problem.signs
    if p == 1:
        return _straight(space, alpha, caps, coefficients)
    size, full = alpha.middle, p * C * problem.weight
    with np.errstate(all="ignore"):
        xi = (size / full) ** (1.0 / (p - 1.0))
        bends = np.where(size > 0, xi, 1.0) / ((p - 1.0) * np.where(size > 0, size, full))

    def gain(rows: Any, a: N) -> N:
        return a - hinge_conjugates(a, caps[rows], p)

    return Multipliers(alpha, None, False, gain, coefficients, 1.0 - xi, bends)


def _hard_upper(space: Space[N]) -> N:
    divisor = shrink(space)
    return space.model.norm * 0.5 / (divisor * divisor)


def _hard_multipliers(space: Space[N]) -> Multipliers[N]:
    problem = space.problem
    alpha = boxed(problem.dual("alpha"), problem.index, None, space.numbers)
    alpha = balanced(problem.signs, alpha)
    return _straight(space, alpha, None, alpha * problem.signs)


def _odm_upper(space: Space[N]) -> N:
    band = band_of(space.problem.statement.hyperparameters)
    return space.model.norm * 0.5 + band_losses(space.u, _shares(space), band)


def _odm_multipliers(space: Space[N]) -> Multipliers[N]:
    problem, shares = space.problem, _shares(space)
    C1, C2, D = band = band_of(problem.statement.hyperparameters)
    theta = problem.dual("theta")
    values, down = space.numbers.exactly(theta), theta < 0
    with np.errstate(all="ignore"):
        cost = np.where(down, C2, C1) * problem.weight / problem.weight.sum()
        slopes = np.where(down, 1.0 + D, 1.0 - D) - theta / (2.0 * cost)
        bends = 0.5 / cost

    def gain(rows: Any, t: N) -> N:
        return band_gains(t, shares[rows], band)

    return Multipliers(values, None, True, gain, values * problem.signs, slopes, bends)


def _odml_upper(space: Space[N]) -> N:
    """The objective at the model, that of hard margins at the model scaled until it has them."""
    problem, u, square, shares = space.problem, space.u, space.model.norm, _shares(space)
    hard = problem.formulation == "odml_hard_margin"
    if hard:
        divisor = shrink(space)
        u, square = u / divisor, square / (divisor * divisor)
    mean = (shares * u).sum()
    off = u - mean
    variance = (shares * (off * off)).sum()
    value = square * 0.5 - mean * problem.number("lam2") + variance * problem.number("lam1")
    return value if hard else value + hinge_losses(u, shares * problem.number("C"), 1.0)


def _odml_point(space: Space[N]) -> tuple[Multipliers[N], N | None]:
    """The multipliers α, and τ of sum 0 where it is not 0."""
    problem, shares = space.problem, _shares(space)
    highest = shares * problem.number("C") if problem.has("C") else None
    alpha = boxed(problem.dual("alpha"), problem.index, highest, space.numbers)
    moved, tau = alpha + shares * problem.number("lam2"), None
    if problem.number("lam1") > 0 and "tau" in problem.proof.dual:
        given = space.numbers.exactly(problem.dual("tau"))
        tau = given - shares * given.sum()
        moved = moved - tau
    return _straight(space, alpha, highest, moved * problem.signs), tau


def _odml_multipliers(space: Space[N]) -> Multipliers[N]:
    """The multipliers α alone, which move while τ stays."""
    return _odml_point(space)[0]


def _odml_lower(space: Space[N]) -> N:
    found, tau = _odml_point(space)
    value = lower_end(space, found)
    if tau is None:
        return value
    return value - (tau * tau / (_shares(space) * (4.0 * space.problem.number("lam1")))).sum()


# The objective at the model, and the dual point.
POINTS: dict[str, tuple[Any, Any]] = {
    **dict.fromkeys(("psvm", "penalised psvm"), (_psvm_upper, _psvm_multipliers)),
    "hard_margin": (_hard_upper, _hard_multipliers),
    "odm": (_odm_upper, _odm_multipliers),
    **dict.fromkeys(("odml", "odml_hard_margin"), (_odml_upper, _odml_multipliers)),
}


def _ends_of(name: str) -> tuple[Any, Any]:
    upper, point = POINTS[name]
    lower = _odml_lower if "odml" in name else lambda space: lower_end(space, point(space))
    return upper, lower


FAMILY: dict[str, Any] = {name: _ends_of(name) for name in POINTS}
