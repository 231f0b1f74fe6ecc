"""Routines that every floor uses: line search, Newton's method, bordered systems, equations on
support vectors, conjugate gradients.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.arrays import Floats

# The search ends where the derivative is at most this share of that at the start.
SHARE = 0.2
# Evaluations of the derivative, at most.
EVALUATIONS = 40
# A trial is at least this share of the bracket away from its ends.
INSIDE = 0.05


def estimated_rounding(terms: int) -> float:
    """Return the estimated relative error (4 + √terms) ε of a sum of `terms` products."""
    return float(np.finfo(np.float64).eps) * (4.0 + math.sqrt(terms))


def line_search(derivative: Callable[[float], float], start: float) -> float:
    """Return a step near which the derivative of a convex function along a line vanishes."""
    low, low_slope, high, high_slope = 0.0, start, math.inf, math.inf
    length = 1.0
    for _ in range(EVALUATIONS):
        slope = derivative(length)
        # A longer step than four times Newton's is not searched for.
        if abs(slope) <= -SHARE * start or (slope < 0 and math.isinf(high) and length >= 4.0):
            return length
        if slope < 0:
            low, low_slope = length, slope
            high_slope /= 2.0
        else:
            high, high_slope = length, slope if math.isfinite(slope) else math.inf
            low_slope /= 2.0
        if math.isinf(high):
            length = 2.0 * length
        else:
            share = low_slope / (low_slope - high_slope) if math.isfinite(high_slope) else 0.0
            length = low + (high - low) * min(1.0 - INSIDE, max(INSIDE, share))
    return low


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
        """Evaluate the present point; return why the method ends there, or None."""

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


# Share of each diagonal entry of a semidefinite matrix that is added to it. Iterative refinement
# takes back what that changes, until a correction is the same share of the solution.
RIDGE = 1e-13


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def bordered_solution(
    solve: Callable[[Floats], Floats],
    border: Floats,
    right: Floats,
    last: float,
    *,
    corner: float = 0.0,
    damping: float = 0.0,
) -> tuple[Floats, float]:
    """Solve Ax + ht = r, h'x + ct = l by the Schur complement of A, kept positive."""
    x, across = solve(np.stack([right, border], axis=1)).T
    pivot = corner - float(border @ across)
    if corner > 0:
        pivot = max(pivot, 0.0) + damping * corner
    t = float(np.divide(last - float(border @ x), pivot))
    return x - t * across, t


def semidefinite_solution(
    A: Floats, right: Floats, border: Floats | None = None, last: float = 0.0
) -> tuple[Floats, float] | None:
    """Solve the same for a semidefinite A and c = 0; None if there is no solution."""
    diagonal = A.diagonal()
    # A multiple of hh' that is added to A changes t by its multiple of l alone, and x not at all.
    shift = 0.0 if border is None else float(diagonal.mean())
    system = A.copy() if border is None else A + shift * border * border[:, None]
    system.ravel()[:: right.size + 1] += RIDGE * diagonal
    factor, failed = sl.lapack.dpotrf(system, lower=True, clean=False)
    if failed:
        return None

    def solve(columns: Floats) -> Floats:
        return np.asarray(sl.lapack.dpotrs(factor, columns, lower=True)[0])

    x, t, rest = np.zeros(right.size), 0.0, right
    for _ in range(4):
        if border is None:
            part = solve(rest)
        else:
            left = last - float(border @ x)
            part, change = bordered_solution(solve, border, rest, left)
            t += change + shift * left
        x += part
        if not float(np.abs(part).max()) > RIDGE * float(np.abs(x).max()):
            break
        rest = right - A @ x if border is None else right - A @ x - t * border
    return (x, t) if np.isfinite(x).all() else None


# Slack and its derivative as functions of the multipliers of the rows given.
Slack: TypeAlias = Callable[[Floats, NDArray[np.intp]], tuple[Floats, Floats]]

# Largest violation of the conditions that is accepted, relative to the largest margin.
RESIDUAL = 1e-11


class MarginOperator(NamedTuple):
    """The signed rows g of a problem, as an operator on multipliers."""

    margins: Callable[[Floats], Floats]
    gram: Callable[[NDArray[np.intp]], Floats]
    border: Floats | None

    def at(self, alpha: Floats, bias: float) -> Floats:
        """Return the margins u."""
        u = self.margins(alpha)
        return u if self.border is None else u + self.border * bias


def solve_support_equations(
    signed: MarginOperator,
    alpha: Floats,
    *,
    free: NDArray[np.bool_],
    upper_bound: Floats | float = math.inf,
    bias: float = 0.0,
    slack: Slack | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Floats | None:
    """Return multipliers that solve the equations, or None if the guess was not good enough."""
    border = signed.border
    others = 0 if border is None else 1
    alpha, free, work = alpha.copy(), free.copy(), 0.0
    upper_bound = np.broadcast_to(upper_bound, alpha.shape)
    # A multiplier below this counts as zero.
    negligible = 1e-9
    for _ in range(40):
        rows = np.flatnonzero(free).astype(np.intp)
        work += float(rows.size) ** 3
        # About a second of one core.
        if rows.size <= others or work > 2e10 or stop():
            return None
        residual, k = 1.0 - signed.at(alpha, bias)[rows], rows.size
        system = signed.gram(rows)
        if slack:
            xi, slope = slack(alpha[rows], rows)
            residual -= xi
            system.ravel()[:: k + 1] += slope
        if not np.isfinite(system).all() or not np.isfinite(residual).all():
            return None
        own, imbalance = (None, 0.0) if border is None else (border[rows], float(border @ alpha))
        found = semidefinite_solution(system, residual, own, -imbalance)
        if found is None:
            return None
        step, change = found
        bias += change
        moved = alpha[rows] + step
        low, high = moved < 0, moved > upper_bound[rows]
        if slack:
            # A multiplier that would become negative is divided by ten instead, and set to zero
            # once it is negligible.
            alpha[rows] = np.where(low, 0.1 * alpha[rows], moved)
            gone = rows[low & (alpha[rows] < negligible * float(alpha.max()))]
            alpha[gone], free[gone] = 0.0, False
            # The residual falls with the square of that before the step.
            finished = not low.any() and float(np.abs(residual).max()) < math.sqrt(RESIDUAL)
        else:
            alpha[rows] = np.clip(moved, 0.0, upper_bound[rows])
            free[rows[low | high]] = False
            finished = not (low | high).any()
        if not finished:
            continue
        u = signed.at(alpha, bias)
        wrong = np.where(alpha <= 0, 1.0 - u, np.where(alpha >= upper_bound, u - 1.0, 0.0))
        wrong[free] = 0.0
        if float(wrong.max()) <= RESIDUAL * max(1.0, float(np.abs(u).max())):
            return alpha
        # With more at once the rounds tend to cycle.
        released = np.argsort(wrong)[-5:]
        released = released[wrong[released] > 0]
        free[released] = True
        if slack:
            # The slack has no derivative at α = 0 for p > 2: start from a small positive
            # multiplier.
            alpha[released] = negligible * float(alpha.max())
    return None


class Conjugate(NamedTuple):
    """What the method ended with."""

    x: Floats
    products: int
    definite: bool


def conjugate_gradients(
    product: Callable[[Floats], Floats],
    right: Floats,
    precondition: Callable[[Floats], Floats],
    *,
    accuracy: float,
    limit: int,
    stop: Callable[[], bool] = lambda: False,
    follow: Callable[[float, Floats], None] | None = None,
) -> Conjugate:
    """Solve to `accuracy` times the residual of x = 0, in the preconditioner's norm."""
    x = np.zeros_like(right)
    residual = right.copy()
    better = precondition(residual)
    direction = better.copy()
    size = float(np.vdot(residual, better))
    target = accuracy**2 * size
    for count in range(limit):
        if not size > target or stop():
            return Conjugate(x, count, True)
        image = product(direction)
        bend = float(np.vdot(direction, image))
        if not bend > 0:
            return Conjugate(x, count + 1, False)
        length = size / bend
        x += length * direction
        if follow is not None:
            follow(length, direction)
        residual -= length * image
        better = precondition(residual)
        size, before = float(np.vdot(residual, better)), size
        direction *= size / before
        direction += better
    return Conjugate(x, limit, True)
