"""The intervals of the soft and the hard margin hold for every input: against rational numbers and
ball arithmetic.
"""

import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.feature_space import LinearSpace, feature_space
from svmcvx.formulations.margin import PSVM, HardMargin, PenalisedPSVM
from tests.balls import ball, exact_point, power, precision, total
from tests.conftest import make_data

precise = precision(200)

OFFSET = np.array([10002, 9998.3, 10001.73, 9997.11, 10001.55, 9997.01])[:, None]
SIGNS = np.array([1, -1] * 3)


def exact_primal(X, y, model, *, C, p, weight=None):
    scores, half = exact_point(model, X)
    s = np.ones(len(y)) if weight is None else weight
    return half + total(
        ball(C) * ball(w) * power(1 - int(label) * f, p)
        for f, label, w in zip(scores, y, s, strict=True)
    )


def balance(alpha, y):
    return sum(Fraction(a) * int(label) for a, label in zip(alpha.tolist(), y, strict=True))


# Margins at the kink


# Kernels of far clusters


# Hard margin


def test_a_model_without_a_margin_is_no_bound():
    X = OFFSET + 1e12
    statement = HardMargin(space=feature_space(binary_data(X, SIGNS), None, intercept="free"))
    for coef in (0.0, 1e-20):
        model = sx.LinearModel(np.array([coef]), -coef * 1e12, np.array([-1, 1]), np.arange(6))
        assert statement.evaluate(model).upper_end == math.inf


# What is known without a solver


@pytest.mark.parametrize("p", [1.0, 3.0])
@pytest.mark.parametrize("factor", [1e-150, 1e100])
def test_an_interval_is_never_worse_than_doing_nothing(p, factor):
    X, y = make_data(n=60, d=3, seed=1)
    zero = sx.LinearModel(np.zeros(3), 0.0, np.array([-1, 1]), np.arange(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = sx.fast.psvm(X * factor, y, C=1.0, p=p, time_limit=5.0)
    assert 0 <= solution.certificate.lower <= solution.certificate.upper
    assert ball(solution.certificate.upper) <= exact_primal(X, y, zero, C=1.0, p=p) * (1 + 1e-12)


@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5)])
@pytest.mark.parametrize("p", [1.0, 1.2, 5.0])
def test_the_trivial_model_has_the_best_bias(kernel, p):
    X, y = make_data(n=30, d=2, seed=2)
    weight = np.linspace(0.1, 3.0, 30)
    statement = PSVM(
        space=feature_space(binary_data(X, y, weight), kernel, intercept="free"), C=0.7, p=p
    )
    (model,), (dual,) = statement.trivial()
    value = statement.evaluate(model)
    assert statement.evaluate_dual(dual) == 0.0
    assert not exact_primal(X, y, model, C=0.7, p=p, weight=weight) > ball(value.upper_end)
    for bias in np.linspace(-1, 1, 41):
        other = sx.LinearModel(np.zeros(2), bias, model.classes, np.arange(2))
        assert not exact_primal(X, y, other, C=0.7, p=p, weight=weight) < ball(value.upper_end) * (
            1 - 1e-12
        )


# Multipliers


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.booleans(), st.floats(1e-6, 1e6)), min_size=2, max_size=25
    ),
    st.floats(1e-12, 1e12),
)
def test_repaired_multipliers_are_exactly_feasible_and_stay_as_they_are(rows, C):
    alpha, signs, weight = (np.array(column) for column in zip(*rows, strict=True))
    y = np.where(signs, 1, -1)
    y[:2] = 1, -1
    data = binary_data(np.arange(y.size, dtype=float)[:, None], y, weight)
    statement = PSVM(space=LinearSpace(data, "free"), C=C, p=1.0)
    repaired = statement.repair({"alpha": alpha})
    found = repaired["alpha"]
    assert balance(found, y) == 0
    assert all(
        0 <= Fraction(a) <= Fraction(C) * Fraction(s)
        for a, s in zip(found.tolist(), weight.tolist(), strict=True)
    )
    assert statement.dual_violation(repaired) == 0
    assert np.array_equal(statement.repair(repaired)["alpha"], found)
    # Exactly: one unit in the last place is too much.
    i = int(np.argmax(found))
    if found[i] > 0:
        off = found.copy()
        off[i] = math.nextafter(off[i], 0.0)
        assert statement.dual_violation({"alpha": off}) > 0


@pytest.mark.parametrize("values", [[np.nan, 1.0], [np.inf, 1.0], [1e308, 1.0], [-1.0, -1.0]])
def test_hopeless_multipliers_are_repaired_to_feasible_ones(values):
    data = binary_data(np.array([[0.0], [1.0]]), np.array([1, -1]))
    for statement in (
        PSVM(space=LinearSpace(data, "free"), C=1.7e308, p=1.0),
        PSVM(space=LinearSpace(data, "free"), C=1.0, p=2.0),
        PenalisedPSVM(space=LinearSpace(data, "none"), C=1.7e308, p=1.0),
        HardMargin(space=LinearSpace(data, "free")),
    ):
        assert statement.dual_violation(statement.repair({"alpha": np.array(values)})) == 0


# Width


def test_a_gap_that_rounding_leaves_is_no_optimum():
    X, y = make_data(n=60, d=3, seed=1)
    solution = sx.fast.psvm(X + 1e11, y, C=1.0, p=1.0)
    assert (solution.status == "optimal") == (solution.certificate.gap <= 2e-6)
    assert solution.certificate.gap > 1e-6


# Models of scikit-learn
