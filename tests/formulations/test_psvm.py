"""The pSVM and the hard margin: the statement against other writings, the bias, multipliers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.feature_space import LinearSpace
from svmcvx.formulations.margin import PSVM, HardMargin, PenalisedPSVM, best_bias
from tests.conftest import make_data

X, Y = make_data(n=36)


# Bias


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=2, max_size=12),
    st.sampled_from([1.0, 1.01, 1.5, 2.0, 4.0, 40.0]),
    st.booleans(),
)
def test_the_best_bias_is_a_minimiser(points, p, weighted):
    f = np.array([value / 4 for value, _ in points])
    y = np.array([1.0 if positive else -1.0 for _, positive in points])
    y[0], y[1] = 1.0, -1.0
    s = np.linspace(0.5, 2.0, f.size) if weighted else np.ones(f.size)
    b = best_bias(f, y, p=p, weight=s)

    def loss(at):
        return float(np.sum(s * np.maximum(1 - y * (f + at), 0) ** p))

    trial = np.concatenate([np.linspace(-12, 12, 481), b + np.array([-1e-3, 1e-3, -1e-6, 1e-6])])
    assert loss(b) <= min(loss(at) for at in trial) * (1 + 1e-9) + 1e-12


# Hard margin


@pytest.mark.parametrize("p", [1.0, 3.0])
@pytest.mark.parametrize("factor", [1e-150, 1e100])
def test_an_interval_is_never_worse_than_doing_nothing(p, factor):
    X, y = make_data(n=60, d=3, seed=1)
    with np.errstate(all="ignore"):
        found = sx.fast.psvm(X * factor, y, C=1.0, p=p, max_iter=100).certificate
    # w = 0 and b = 0 cost C for each observation.
    assert 0 <= found.lower <= found.upper <= 60.0 * (1 + 1e-12)


# Multipliers


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
