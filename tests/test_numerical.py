"""Line search, Newton's loop, bordered systems and equations on support vectors."""

import math

import numpy as np
import pytest
import scipy.linalg as sl

from svmcvx.fast import psvm
from svmcvx.formulations.signed_rows import never, squared_hinge
from svmcvx.numerical import (
    MarginOperator,
    NewtonStep,
    bordered_solution,
    line_search,
    newton,
    semidefinite_solution,
    solve_support_equations,
)


def counted(derivative):
    """Return the function and the list of the points at which it was asked."""
    asked = []

    def function(t):
        asked.append(t)
        return derivative(t)

    return function, asked


@pytest.mark.parametrize("minimum", [1e-6, 0.03, 0.7, 1.0, 1.5, 3.9])
@pytest.mark.parametrize("power", [1, 3, 5])
def test_it_ends_where_the_derivative_is_a_small_share(minimum, power):
    derivative, asked = counted(lambda t: (t - minimum) ** power)
    t = line_search(derivative, derivative(0.0))
    assert abs(derivative(t)) <= 0.2 * minimum**power
    assert len(asked) < 15


def test_before_a_jump_the_function_still_falls():
    for jump in (1e-4, 0.4, 1.0, 2.5):
        t = line_search(lambda t, jump=jump: -1.0 if t <= jump else 5.0, -1.0)
        assert 0.999 * jump < t <= jump
    # What is not finite counts as beyond the minimum, and a step is extended four times at most.
    t = line_search(lambda t: math.nan if t > 0.01 else t - 0.005, -0.005)
    assert abs(t - 0.005) <= 0.2 * 0.005
    assert line_search(lambda t: -1.0, -1.0) == 4.0


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("cost", [1.0, 1e6])
def test_squared_hinges_end_where_the_gradient_vanishes(seed, cost):
    r = np.random.default_rng(seed)
    rows, weight, norm = r.standard_normal((30, 4)), r.random(30), np.array([1.0, 1.0, 1e-8, 2.0])
    u, loss, w = squared_hinge(
        rows, norm, weight, cost, 10 * r.standard_normal(4) if seed % 2 else None, never
    )
    slack = np.maximum(1.0 - rows @ w, 0.0)
    assert np.allclose(u, rows @ w, rtol=0, atol=1e-9 * np.abs(rows @ w).max())
    assert math.isclose(loss, weight @ slack**2, rel_tol=1e-9, abs_tol=1e-12)
    terms = np.abs(norm * w) + cost * np.abs(rows).T @ (weight * slack)
    assert (np.abs(norm * w - cost * rows.T @ (weight * slack)) <= 1e-8 * terms).all()


class Power:
    """|x|^p / p with Newton's step, from x; `promise` replaces what its steps promise."""

    def __init__(self, x, p, promise=None, last=50):
        self.x, self.p, self.promise, self.last = x, p, promise, last
        self.calls = []

    def slope(self, x):
        return np.sign(x) * abs(x) ** (self.p - 1)

    def examine(self, steps):
        self.calls.append(("examine", steps))
        return (
            "solved" if abs(self.slope(self.x)) < 1e-12 else "tired" if steps >= self.last else None
        )

    def direction(self):
        self.calls.append("direction")
        x, d = self.x, -self.x / (self.p - 1)
        promised = -self.slope(x) * d if self.promise is None else self.promise

        def take(t):
            self.calls.append("take")
            self.x = x + t * d

        return NewtonStep(promised, lambda t: self.slope(x + t * d) * d, take)


@pytest.mark.parametrize("p", [1.1, 1.4, 2.0, 3.0, 8.0])
def test_it_ends_with_the_reason_of_the_point_examined(p):
    problem = Power(3.0, p)
    assert newton(problem) == "solved"
    steps = problem.calls.count("take")
    loop = [call for k in range(steps) for call in (("examine", k), "direction", "take")]
    assert problem.calls == [*loop, ("examine", steps)]


@pytest.mark.parametrize("promise", [0.0, -1.0, np.inf, np.nan])
def test_a_step_that_promises_nothing_is_taken_in_full(promise):
    # For p < 1.5 full steps diverge: the search would shorten them.
    problem = Power(1.0, 1.25, promise, last=1)
    assert newton(problem) == "tired"
    assert problem.x == 1.0 - 1.0 / 0.25


@pytest.mark.parametrize("positive", [False, True], ids=["corner of zero", "positive corner"])
@pytest.mark.parametrize("m", [1, 2, 7])
def test_the_whole_system_is_solved(m, positive):
    rng = np.random.default_rng(m)
    rows, h, right = map(rng.standard_normal, ((m + 3, m + 1), m, m + 1))
    whole = rows.T @ rows
    if not positive:
        whole[:m, m] = whole[m, :m] = h
        whole[m, m] = 0.0
    factor = sl.cho_factor(whole[:m, :m])
    x, t = bordered_solution(
        lambda columns: sl.cho_solve(factor, columns),
        whole[:m, m],
        right[:m],
        right[m],
        corner=whole[m, m],
    )
    np.testing.assert_allclose(whole @ np.append(x, t), right, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("bordered", [False, True])
@pytest.mark.parametrize("equal", [0, 3], ids=["distinct rows", "equal rows"])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_semidefinite_systems_are_solved_by_nearly_the_shortest_vector(scale, equal, bordered):
    rng = np.random.default_rng(equal)
    rows = rng.standard_normal((4, 5)) * scale
    rows = np.vstack([rows, rows[:equal]])
    A, h = rows @ rows.T, np.where(np.arange(len(rows)) % 4 < 2, 1.0, -1.0)
    right = A @ rng.standard_normal(len(rows))
    found = semidefinite_solution(A, right, h if bordered else None, 2.0)
    whole = np.block([[A, h[:, None]], [h[None], np.zeros((1, 1))]]) if bordered else A
    values = np.append(right, 2.0) if bordered else right
    x, t = found
    np.testing.assert_allclose(A @ x + t * h, right, rtol=1e-10, atol=1e-12 * scale**2)
    if bordered:
        np.testing.assert_allclose(h @ x, 2.0, rtol=1e-12)
    if scale == 1.0:
        shortest = np.linalg.lstsq(whole, values)[0][: len(rows)]
        # Rounding, relative to what is added to the diagonal, is some thousandth.
        np.testing.assert_allclose(x, shortest, rtol=1e-9, atol=1e-2 if equal else 0.0)


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
@pytest.mark.parametrize("seed", range(2))
def test_kinds_that_are_slightly_wrong_are_corrected(seed, bias):
    rng, y, X = data(seed)
    C, n = 0.7, y.size
    exact = psvm(X, y, C=C, p=2, intercept="free" if bias else "none", tol=1e-11).dual["alpha"]
    # With the squared hinge the kinds are those of positive multipliers.
    free = exact > 0
    free[np.where(free, exact, np.inf).argmin()] = False
    free[rng.choice(np.flatnonzero(exact == 0))] = True
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
    free, alpha = np.ones(y.size, dtype=bool), np.full(y.size, 0.1)
    problem = {"free": free, "upper_bound": 10 * alpha, "bias": 0.0, "slack": None}
    rows = rows_of(X, y, False)
    assert solve_support_equations(rows, alpha, stop=lambda: True, **problem) is None
