"""The line search on derivatives that are curved, that jump, and that overflow."""

import math

import numpy as np
import pytest

from svmcvx.heuristics.machines import squared_hinge
from svmcvx.heuristics.signed_rows import never
from svmcvx.numerical import line_search


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


def test_a_full_step_that_is_good_costs_one_evaluation():
    derivative, asked = counted(lambda t: t - 1.0)
    assert line_search(derivative, -1.0) == 1.0
    assert asked == [1.0]


@pytest.mark.parametrize("jump", [1e-4, 0.4, 1.0, 2.5])
def test_before_a_jump_the_function_still_falls(jump):
    t = line_search(lambda t: -1.0 if t <= jump else 5.0, -1.0)
    assert 0.999 * jump < t <= jump


def test_what_is_not_finite_counts_as_beyond_the_minimum():
    t = line_search(lambda t: math.nan if t > 0.01 else t - 0.005, -0.005)
    assert abs(t - 0.005) <= 0.2 * 0.005


def test_a_step_is_extended_four_times_at_most():
    assert line_search(lambda t: -1.0, -1.0) == 4.0


@pytest.mark.parametrize("seed", range(6))
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
