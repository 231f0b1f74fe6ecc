"""Newton's method with a line search: the loop that all solvers of smooth convex problems share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from svmcvx.numerical.line_search import line_search

__all__ = ["NewtonMethod", "NewtonStep", "newton"]

Reason = TypeVar("Reason")
Reason_co = TypeVar("Reason_co", covariant=True)


class NewtonStep(NamedTuple):
    """A direction d at a point x of a convex function P."""

    promised: float
    derivative: Callable[[float], float]
    take: Callable[[float], None]


class NewtonMethod(Protocol[Reason_co]):
    """A problem with its present point."""

    def examine(self, steps: int) -> Reason_co | None:
        """Evaluate the present point after so many steps; return why the method ends there, None
        where it continues.
        """

    def direction(self) -> NewtonStep | None:
        """Return Newton's step at the point that was examined, None if there is none."""


def newton(method: NewtonMethod[Reason]) -> Reason | None:
    """Take steps until there is a reason to end, and return it; None where there is no step."""
    steps = 0
    while True:
        reason = method.examine(steps)
        if reason is not None:
            return reason
        step = method.direction()
        if step is None:
            return None
        falls = 0.0 < step.promised < float("inf")
        step.take(line_search(step.derivative, -step.promised) if falls else 1.0)
        steps += 1
