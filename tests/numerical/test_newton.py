"""The loop of Newton's method: its order of calls and its ends."""

import numpy as np
import pytest

from svmcvx.numerical import NewtonStep, newton


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


def test_without_a_step_there_is_no_reason():
    problem = Power(1.0, 2.0)
    problem.direction = lambda: None
    assert newton(problem) is None
    assert problem.x == 1.0
