r"""Soft and hard maximum margins, and the margin distribution machines ODM and ODML, in balls or in
intervals of doubles. Shares of the weights are :math:`c_i = s_i/\sum s`.

psvm with any intercept, and the hard margin. Upper end: :math:`\tfrac12\|w\|^2 + C\sum
s_i(1-u_i)_+^p` at the model; with hard margins :math:`\tfrac12\|w\|^2/m^2`, m being the smallest
margin if that is below 1, since (w, b)/m has no margin below 1. Lower end: :math:`\sum\alpha_i -
C(p-1)\sum s_i(\alpha_i/(Cs_ip))^{p/(p-1)} - \tfrac12v'Kv`, for any :math:`\alpha \ge 0`, with p = 1
for :math:`\alpha_i \le Cs_i`, and with a free intercept for :math:`y'\alpha = 0`. Multipliers are
cut to their bounds, and both classes are scaled down to the smaller of their sums.

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

from collections.abc import Callable
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from svmcvx.proofs.intervals import Number
from svmcvx.proofs.problem import Problem, ProofRejected

Floats: TypeAlias = NDArray[np.float64]
N = TypeVar("N", bound=Number)

# A multiplier may be above its bound, and a sum off zero, by this share; more is no rounding.
ROUNDING = 2.0**-40
# The smallest margin of a model that is scaled until it has margins of 1. Any positive one would do
# as well.
SHORTEST = 0.5


class Space(Protocol[N]):
    """The feature space of a problem, in one of the two arithmetics."""

    problem: Problem
    numbers: type[N]

    @property
    def u(self) -> N:
        """The margins of the model."""

    @property
    def square(self) -> N:
        """Its squared norm."""

    def squared_norm(self, v: N) -> N:
        """Return the squared norm of Σ v_i φ(x_i)."""


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
    slack = (u.exactly(1.0) - u).nonneg()
    if p != 1:
        slack = slack * slack if p == 2 else slack.power(u.exactly(p))
    return (caps * slack).sum()


def hinge_conjugates(alpha: N, caps: N, p: float) -> N:
    """Return Cs(p − 1)(α/(Csp))^{p/(p−1)}."""
    exact = alpha.exactly(p)
    less = exact - alpha.exactly(1.0)
    return less * (caps * alpha.over(caps * exact).power(exact.over(less)))


def band_losses(u: N, shares: N, band: tuple[float, float, float]) -> N:
    """Return Σ c(C1 (1 − D − u)₊² + C2 (u − 1 − D)₊²)."""
    C1, C2, D = (u.exactly(value) for value in band)
    one = u.exactly(1.0)
    short, beyond = (one - D - u).nonneg(), (u - one - D).nonneg()
    return (shares * (C1 * (short * short) + C2 * (beyond * beyond))).sum()


def band_gains(theta: N, shares: N, band: tuple[float, float, float]) -> N:
    """Return θ − D|θ| − θ²/(4c C1), or C2 for θ below 0."""
    C1, C2, D = (theta.exactly(value) for value in band)
    price = theta.exactly(4.0) * shares * theta.by_sign(C1, C2)
    return theta - D * theta.size() - (theta * theta).over(price)


# Multipliers.


def boxed(problem: Problem, name: str, numbers: type[N], highest: N | None) -> N:
    """Return multipliers in [0, highest], or name the one that is clearly outside."""
    value = problem.dual(name)
    alpha = numbers.exactly(value)
    below = np.flatnonzero(value < 0)
    if below.size:
        row = int(below[0])
        raise ProofRejected(
            f"the multiplier of row {problem.index[row]} is {float(value[row])!r}, below 0"
        )
    if highest is None:
        return alpha
    over = np.flatnonzero(alpha.above(highest * numbers.exactly(1.0 + ROUNDING)))
    if over.size:
        row = int(over[0])
        raise ProofRejected(
            f"the multiplier of row {problem.index[row]} is {float(value[row])!r}, above its bound"
            f" {float(highest.middle[row])!r}"
        )
    return alpha.at_most(highest)


def balanced(problem: Problem, alpha: N) -> N:
    """Scale both classes of multipliers to the smaller of their sums, so that y'α = 0."""
    signs = problem.signs
    if alpha.cancels(signs):
        return alpha
    sums = {sign: alpha[signs == sign].sum() for sign in (1, -1)}
    smaller, larger = sorted(sums.values(), key=lambda value: value.ends[1])
    if (larger - smaller).above(larger * alpha.exactly(ROUNDING)):
        shown = [repr(float(sums[sign].middle)) for sign in (1, -1)]
        raise ProofRejected(
            f"the multipliers do not satisfy y'α = 0: they sum to {shown[0]} in the positive class"
            f" and to {shown[1]} in the negative one"
        )
    least = smaller.at_most(larger)
    if not least.ends[0] > 0:
        return alpha.exactly(np.zeros(signs.size))
    one = alpha.exactly(1.0)
    factors = [least.over(sums[sign]).at_most(one) for sign in (1, -1)]
    return alpha * alpha.exactly(signs).by_sign(*factors)


def _shares(space: Space[N]) -> N:
    weights = space.numbers.exactly(space.problem.weight)
    return weights.over(weights.sum())


def _caps(space: Space[N]) -> N:
    problem = space.problem
    return space.numbers.exactly(problem.number("C")) * space.numbers.exactly(problem.weight)


def _band(problem: Problem) -> tuple[float, float, float]:
    return problem.number("C1"), problem.number("C2"), problem.number("D")


def _signed(space: Space[N], values: N) -> N:
    return values * space.numbers.exactly(space.problem.signs)


def _lower(space: Space[N], found: Multipliers[N]) -> N:
    half, used = space.numbers.exactly(0.5), np.flatnonzero(found.values.nonzero)
    gains = found.gain(used, found.values[used]).sum()
    return gains - half * space.squared_norm(found.coefficients)


def shrink(space: Space[N]) -> N:
    """Return min(1, the smallest margin), by which a model is divided so that no margin is below 1."""
    smallest = space.u.least().at_most(space.numbers.exactly(1.0))
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
    return space.numbers.exactly(0.5) * space.square + losses


def _psvm_multipliers(space: Space[N]) -> Multipliers[N]:
    problem, caps = space.problem, _caps(space)
    C, p = problem.number("C"), problem.number("p")
    alpha = boxed(problem, "alpha", space.numbers, caps if p == 1 else None)
    if problem.proof.statement.intercept == "free":
        alpha = balanced(problem, alpha)
    coefficients = _signed(space, alpha)
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
    return (space.numbers.exactly(0.5) * space.square).over(divisor * divisor)


def _hard_multipliers(space: Space[N]) -> Multipliers[N]:
    alpha = balanced(space.problem, boxed(space.problem, "alpha", space.numbers, None))
    return _straight(space, alpha, None, _signed(space, alpha))


def _odm_upper(space: Space[N]) -> N:
    losses = band_losses(space.u, _shares(space), _band(space.problem))
    return space.numbers.exactly(0.5) * space.square + losses


def _odm_multipliers(space: Space[N]) -> Multipliers[N]:
    problem, shares = space.problem, _shares(space)
    C1, C2, D = band = _band(problem)
    theta = problem.dual("theta")
    values, down = space.numbers.exactly(theta), theta < 0
    with np.errstate(all="ignore"):
        cost = np.where(down, C2, C1) * problem.weight / problem.weight.sum()
        slopes = np.where(down, 1.0 + D, 1.0 - D) - theta / (2.0 * cost)
        bends = 0.5 / cost

    def gain(rows: Any, t: N) -> N:
        return band_gains(t, shares[rows], band)

    return Multipliers(values, None, True, gain, _signed(space, values), slopes, bends)


def _odml_objective(space: Space[N], divisor: N | None) -> N:
    """The objective at the model; with a divisor that of hard margins at the model divided by it."""
    problem, exactly = space.problem, space.numbers.exactly
    lam1, lam2 = exactly(problem.number("lam1")), exactly(problem.number("lam2"))
    u, square, shares = space.u, space.square, _shares(space)
    if divisor is not None:
        u, square = u.over(divisor), square.over(divisor * divisor)
    mean = (shares * u).sum()
    off = u - mean
    value = exactly(0.5) * square - lam2 * mean + lam1 * (shares * (off * off)).sum()
    if divisor is not None:
        return value
    return value + hinge_losses(u, exactly(problem.number("C")) * shares, 1.0)


def _odml_multipliers(space: Space[N]) -> Multipliers[N]:
    """Those of α alone, which move while τ stays."""
    return _odml_point(space)[0]


def _odml_point(space: Space[N]) -> tuple[Multipliers[N], N | None]:
    """The multipliers α, and τ of sum 0 where it is not 0."""
    problem, exactly, shares = space.problem, space.numbers.exactly, _shares(space)
    hard = problem.formulation == "odml_hard_margin"
    highest = None if hard else exactly(problem.number("C")) * shares
    alpha = boxed(problem, "alpha", space.numbers, highest)
    moved, tau = alpha + exactly(problem.number("lam2")) * shares, None
    if problem.number("lam1") > 0 and problem.has_dual("tau"):
        given = exactly(problem.dual("tau"))
        tau = given - shares * given.sum()
        moved = moved - tau
    return _straight(space, alpha, highest, _signed(space, moved)), tau


def _odml_lower(space: Space[N]) -> N:
    found, tau = _odml_point(space)
    value = _lower(space, found)
    if tau is None:
        return value
    price = space.numbers.exactly(4.0 * space.problem.number("lam1")) * _shares(space)
    return value - (tau * tau).over(price).sum()


# Dual points of the formulations whose scores can be checked.
MULTIPLIERS: dict[str, Any] = {
    **dict.fromkeys(("psvm", "penalised psvm"), _psvm_multipliers),
    "hard_margin": _hard_multipliers,
    "odm": _odm_multipliers,
    "odml": _odml_multipliers,
}
# The upper and the lower end of each formulation.
FAMILY: dict[str, Any] = {
    **dict.fromkeys(
        ("psvm", "penalised psvm"),
        (_psvm_upper, lambda space: _lower(space, _psvm_multipliers(space))),
    ),
    "hard_margin": (_hard_upper, lambda space: _lower(space, _hard_multipliers(space))),
    "odm": (_odm_upper, lambda space: _lower(space, _odm_multipliers(space))),
    "odml": (lambda space: _odml_objective(space, None), _odml_lower),
    "odml_hard_margin": (lambda space: _odml_objective(space, shrink(space)), _odml_lower),
}
