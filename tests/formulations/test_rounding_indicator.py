"""Intervals of the 0-1, ramp and l0 problems hold: against rational numbers, on data that are
hostile to floating point.
"""

import math
import os
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.certificate.bounded import exact
from svmcvx.data import binary_data
from svmcvx.fast import zero_one
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.search.state import CountingSearch, RampSearch
from svmcvx.feature_space import feature_space
from svmcvx.formulations.indicator.statement import (
    L0,
    LARGEST_SHORTFALL,
    FactorError,
    Ramp,
    ZeroOne,
)
from svmcvx.model import KernelModel, LinearModel
from svmcvx.solution import Status
from tests.balls import (
    ExactMargins,
    ball,
    fractions,
    hostile,
    inner,
    positive,
    precision,
    size,
    total,
)
from tests.designs import polynomial_outliers

precise = precision(1500)
EXAMPLES = int(os.environ.get("SVMCVX_EXAMPLES", "12"))


def exact_objective(statement, u, norm):
    """The objective at these margins and this squared norm; infinite where it is infeasible."""
    weight = list(map(ball, statement.space.data.weight))
    missed = total(s for s, m in zip(weight, u, strict=True) if m < 1)
    if isinstance(statement, Ramp):
        losses = (s * positive(1 - m).min(ball(2)) for s, m in zip(weight, u, strict=True))
        return norm / 2 + ball(statement.C) * total(losses)
    if isinstance(statement, L0):
        return norm / 2 + ball(statement.C) * missed
    if statement.lam is not None:
        return norm + ball(statement.lam) * missed
    return ball(math.inf) if missed > ball(statement.k) else norm


def attained(statement, model, upper):
    """Whether the model, or the model over one of its margins just below 1, costs no more than
    `upper`.
    """
    u, norm = ExactMargins(statement.space).point(model)
    near = [m for m in u if m > 1 - LARGEST_SHORTFALL and m < 1]
    return any(
        not exact_objective(statement, [m / by for m in u], norm / by**2) > ball(upper)
        for by in [ball(1), *([] if isinstance(statement, Ramp) else near)]
    )


def statements(X, y, price, weight=None, kernel=None):
    data = binary_data(X, y, weight)
    free, penalised = (
        feature_space(data, kernel, intercept=kind) for kind in ("free", "penalised")
    )
    k = float(np.floor(len(y) / 3))
    return [
        ZeroOne(space=penalised, lam=price, kind="enumeration"),
        ZeroOne(space=penalised, k=k, kind="enumeration"),
        L0(space=free, C=price),
        Ramp(space=free, C=price),
    ]


def candidates(statement, rng):
    """Models with margins at 1: machines of random sets, and random directions scaled so that some
    margin is 1.
    """
    n, free = statement.y.size, statement.space.intercept == "free"
    for _ in range(3):
        kept = rng.random(n) < 0.6
        yield from statement.recovered_models(kept, None, 0.0)
        v = rng.standard_normal(n) * (rng.random(n) < 0.5)
        f = statement.space.point(v).scores.value
        size = np.abs(f[rng.integers(n)])
        if size > 0 and np.isfinite(f).all():
            yield statement.space.model(v / size, float(rng.integers(-1, 2)) if free else 0.0)


@settings(max_examples=EXAMPLES)
@given(st.integers(0, 2**32 - 1))
def test_a_recovered_model_costs_no_more_than_its_upper_end(seed):
    # Recovered models are scaled until their kept margins are 1 in spite of rounding: nothing has
    # to be divided any more.
    rng = np.random.default_rng(seed)
    X, y, _, weight = hostile(rng, kernels=False)
    X = X - X.mean(axis=0)
    X /= np.abs(X).max() or 1.0
    for statement in statements(X, y, size(rng), weight):
        kept = rng.random(y.size) < 0.6
        for model in statement.recovered_models(kept, None, 0.0):
            u, norm = ExactMargins(statement.space).point(model)
            # Rows that are not kept may have a margin of 1 too, to rounding.
            near = [not k and m > 1 - LARGEST_SHORTFALL for m, k in zip(u, kept, strict=True)]
            u = [m.max(ball(1)) if close else m for m, close in zip(u, near, strict=True)]
            upper = statement.evaluate(model).upper_end
            assert not exact_objective(statement, u, norm) > ball(upper)


# --- one margin


def test_margins_of_exactly_one_are_kept_and_shorter_ones_counted():
    X, y = np.array([[1.0], [-1.0], [3.0]]), np.array([1, -1, -1])
    space = feature_space(binary_data(X, y, None), None, intercept="none")
    statement, v = ZeroOne(space=space, lam=2.0, kind="enumeration"), np.array([0.5, -0.5, 0.0])
    found = statement.evaluate(space.model(v))
    assert found.value == 3.0
    assert found.upper_end == pytest.approx(3.0, rel=1e-14)
    assert statement.evaluate(space.model(v * (1 - 1e-9))).upper_end >= 6.99


def test_the_cheapest_set_of_uncertain_margins_is_kept():
    # Margins short by 1e-13 and 2e-13 at an offset that hides both: the dear one is kept whatever
    # the other costs.
    X, y = np.array([[1e8, 1.0], [1e8, -1.0]]), np.array([1, -1])
    statement = ZeroOne(
        space=feature_space(binary_data(X, y, None), None, intercept="none"),
        lam=1.0,
        kind="enumeration",
    )
    model = LinearModel(
        coef=np.array([1e-12, 1.0]),
        intercept=0.0,
        classes=np.array([-1, 1]),
        support=np.array([0, 1]),
    )
    assert attained(statement, model, statement.evaluate(model).upper_end)


def test_dropped_weight_is_compared_with_k_exactly():
    X, y = np.eye(3), np.array([1, -1, 1])
    # Three times the double 0.1 is more than the double 0.3.
    for k, feasible in ((0.3, False), (math.nextafter(0.3, 1), True)):
        space = feature_space(binary_data(X, y, np.full(3, 0.1)), None, intercept="none")
        statement = ZeroOne(space=space, k=k, kind="enumeration")
        assert math.isfinite(statement.evaluate(space.model(np.zeros(3))).upper_end) == feasible
        kappa, weight = Fraction(statement.relaxed.kappa), fractions(space.data.weight)
        assert kappa * sum(weight) >= Fraction(k)


# --- bounds of a search


@pytest.mark.parametrize(
    ("build", "degree", "ratio"),
    [("zero_one", 3, 500.0), ("ramp", 3, 500.0), ("l0", 5, 1e3), ("fast", 5, 1e3)],
)
def test_what_the_factor_drops_does_not_raise_a_bound(build, degree, ratio):
    x, y, kernel = polynomial_outliers(degree, ratio)
    counted = {"lam": 1.0, "kernel": kernel, "intercept": False}
    if build == "fast":
        solution, statement = (
            zero_one(x, y, **counted),
            sx.zero_one_mio(x, y, **counted).formulation,
        )
    else:
        given_ = counted if build == "zero_one" else {"C": 0.5, "kernel": kernel}
        problem = getattr(sx, f"{build}_mio")(x, y, **given_)
        solution, statement = sx.solve(problem), problem.formulation
    # One expansion coefficient on the first observation separates the points near the origin.
    norm = np.float64(2.0 ** (2 * degree))
    for size_ in (norm, norm / 2):
        known = KernelModel(
            kernel=kernel,
            vectors=x[:1],
            dual_coef=np.array([1 / size_]),
            intercept=0.0,
            classes=np.array([-1, 1]),
            support=np.array([0]),
            n_features=2,
        )
        value = exact_objective(statement, *ExactMargins(statement.space).point(known))
        assert not value < ball(solution.certificate.lower)
    assert attained(statement, solution.model, solution.certificate.upper)


@pytest.mark.parametrize(
    ("kernel", "intercept"), [(None, "free"), (sx.RBF(gamma=1.0), "penalised")]
)
def test_usual_data_lose_next_to_nothing_to_the_factor(kernel, intercept):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60 if kernel is None else 3))
    space = feature_space(
        binary_data(X, np.where(rng.random(40) < 0.5, 1, -1), None), kernel, intercept=intercept
    )
    error = FactorError.of(space)
    assert error.counting(10.0, 1.0) >= 10.0 * (1 - 1e-9)
    assert error.ramp(10.0, exact(np.ones(40))) >= 10.0 * (1 - 1e-8)


def test_the_missing_part_bounds_the_difference_of_the_matrices():
    x, y, kernel = polynomial_outliers(3, 1e3)
    space = feature_space(binary_data(x, y, None), kernel, intercept="none")
    L = fractions(space.factor)
    rest = (fractions(x) @ fractions(x).T) ** 3 - L @ L.T
    # K + τI − LL' has to be semidefinite with the τ that the diagonal leaves room for.
    tau = min(fractions(FactorError.of(space).missing) - np.diag(rest))
    assert tau >= 0
    for k in range(len(x)):
        rest[k, k] += tau
    for k in range(len(x)):
        assert rest[k, k] >= 0
        if rest[k, k]:
            rest[k + 1 :, k:] -= np.outer(rest[k + 1 :, k] / rest[k, k], rest[k, k:])


@settings(max_examples=2 * EXAMPLES)
@given(
    st.floats(-12, 12),
    st.lists(
        st.tuples(st.floats(-20, 3), st.floats(-20, 3), st.floats(-3, 3)), min_size=1, max_size=5
    ),
    st.sampled_from([0.5, 1.0]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_what_the_factor_leaves_out_lowers_a_bound_as_derived(value, rows, half, drops, shifts):
    """The formulas of the module: V/(1 + eV/h) and V/(1 + q√(V/h))², and those of the ramp loss
    alone.
    """
    V = 10.0**value
    e, q, price = (10.0 ** np.array(column) for column in zip(*rows, strict=True))
    e, q = e * drops, q * shifts
    error = FactorError(missing=e, shift=q)
    V_ = flint.arb(V)

    def scaled(h):
        exact = V_ / (1 + flint.arb(e.max()) * V_ / h)
        return exact / (1 + flint.arb(q.max()) * (exact / h).sqrt()) ** 2

    exact = scaled(flint.arb(half))
    found = error.counting(V, half)
    assert not flint.arb(found) > exact
    assert found >= float(exact.mid()) * (1 - 1e-13)
    lost = total(ball(p) * ball(x).sqrt() for p, x in zip(price, e, strict=True))
    exact, found, other = V_ - lost * lost / 2, error.ramp(V, price), scaled(flint.arb(0.5))
    assert found >= error.counting(V, 0.5)
    if exact > 0:
        # The V' with V' + A √V' = V, as a fraction without a difference.
        A = ball(2).sqrt() * inner(price, q)
        least = exact
        exact = (2 * exact / (A + (A * A + 4 * exact).sqrt())) ** 2
        assert found >= float(exact.mid()) * (1 - 1e-13 * V / float(least.mid()))
        assert not (flint.arb(found) > exact and flint.arb(found) > other)
    else:
        assert not flint.arb(found) > other
    infinite = FactorError(missing=np.full(2, math.inf), shift=np.zeros(2))
    assert infinite.counting(V, half) == infinite.ramp(V, np.ones(2)) == 0.0


@pytest.mark.parametrize("name", ["zero_one", "l0", "ramp"])
def test_a_search_states_what_it_has_proved_of_the_data_and_not_of_the_factor(name):
    """Rows of all lengths: the search's own units are not those of the statement."""
    for degree, ratio in ((3, 0.1), (3, 1e3), (5, 1e3)):
        x, y, kernel = polynomial_outliers(degree, ratio)
        data, intercept = binary_data(x, y, None), "penalised" if name == "zero_one" else "free"
        space = feature_space(data, kernel, intercept=intercept)
        statement = {
            "zero_one": ZeroOne(space=space, lam=1.0, kind="enumeration"),
            "l0": L0(space=space, C=0.5, kind="enumeration"),
            "ramp": Ramp(space=space, C=0.5, kind="enumeration"),
        }[name]
        search = RampSearch if name == "ramp" else CountingSearch
        # As if there were no better points: a value of 3, in the search's units.
        running = search(statement, Monitor(1e-6, 10))
        running.report(3.0 * running.unit)
        lowered = statement.bound_of_search(3.0)
        assert running.bound.value == lowered
        assert running.bound.allowance >= 2.0**-52 * lowered
        assert lowered < 3.0


@pytest.mark.parametrize(
    ("X", "y", "lam", "optimum"),
    [
        ([[1e12, 1], [1e12, -1]], [1, -1], 5.0, 1.0),
        ([[1e13, 1], [1e13, -1]], [1, -1], 50.0, 1.0),
        (
            [[1495893, 1495891], [1495892, 1495890], [1495891, 1495893], [1495891, 1495891]],
            [1, -1, 1, 1],
            16640972348879.0,
            2.98e12,
        ),
    ],
    ids=["columns", "wider columns", "grid"],
)
def test_rows_that_rounding_cannot_tell_apart_lower_the_bound(X, y, lam, optimum):
    solution = zero_one(X, y, lam=lam)
    assert solution.certificate.lower <= optimum * 1.01
    assert solution.certificate.is_certified(1e-6) or solution.status != Status.OPTIMAL
