"""The equations of the support vectors against the conditions of the optimum, from guesses that are
partly wrong.
"""

import numpy as np
import pytest

from svmcvx.fast import psvm
from svmcvx.numerical import MarginOperator, solve_support_equations


def data(seed, n=40, d=4):
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return rng, y, rng.standard_normal((n, d)) + 0.8 * y[:, None]


def rows_of(X, y, bias):
    G = y[:, None] * X
    return MarginOperator(
        lambda alpha: G @ (G.T @ alpha), lambda rows: G[rows] @ G[rows].T, y if bias else None
    )


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_kinds_that_are_slightly_wrong_are_corrected(seed, bias):
    rng, y, X = data(seed)
    C, n = 0.7, y.size
    exact = psvm(X, y, C=C, p=2, intercept="free" if bias else "none", tol=1e-11).dual["alpha"]
    # With the squared hinge the kinds are those of positive multipliers.
    free = exact > 0
    free[np.where(free, exact, np.inf).argmin()], free[rng.choice(np.flatnonzero(exact == 0))] = (
        False,
        True,
    )
    found = solve_support_equations(
        rows_of(X, y, bias),
        np.where(free, np.maximum(exact, 1e-3), 0.0),
        free=free,
        upper_bound=np.full(n, np.inf),
        bias=0.0,
        slack=lambda alpha, rows: (alpha / (2.0 * C), np.full(alpha.size, 1.0 / (2.0 * C))),
    )
    np.testing.assert_allclose(found, exact, rtol=1e-7, atol=1e-9)
    assert (found[exact == 0] == 0).all()


def test_multipliers_at_a_bound_stay_there_and_equal_rows_change_alike():
    # Two equal rows make the system singular; the third is inside the margin.
    X, y = np.array([[2.0], [2.0], [-2.0], [-0.1]]), np.array([1.0, 1.0, -1.0, -1.0])
    C = 0.2
    alpha = solve_support_equations(
        rows_of(X, y, False),
        np.array([0.01, 0.02, 0.01, C]),
        free=np.array([True, True, True, False]),
        upper_bound=np.full(4, C),
        bias=0.0,
        slack=None,
    )
    w = (y * alpha) @ X[:, 0]
    assert alpha[3] == C
    np.testing.assert_allclose(2.0 * w, 1.0)
    # The shortest change of the guess moves both alike.
    np.testing.assert_allclose(alpha[1] - alpha[0], 0.01)


def test_a_limit_ends_it_without_a_solution():
    _, y, X = data(0)
    arguments = {
        "free": np.ones(y.size, dtype=bool),
        "upper_bound": np.full(y.size, 1.0),
        "bias": 0.0,
        "slack": None,
    }
    assert (
        solve_support_equations(
            rows_of(X, y, False), np.full(y.size, 0.1), stop=lambda: True, **arguments
        )
        is None
    )
