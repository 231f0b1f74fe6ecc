r"""The optimality conditions of a machine with hinge losses or hard margins as equations on its
support vectors.

At the optimum every observation is of one of three kinds: outside the margin (:math:`\alpha_i =
0`), at the upper bound of its multiplier (p = 1 only, :math:`\alpha_i = C s_i`), or *free*, with

.. math:: u_i + \xi_i(\alpha_i) = 1, \qquad u_i = g_i'\sum_j \alpha_j g_j + y_i b, \qquad \sum_i y_i \alpha_i = 0

for signed rows g, without b and the last equation where the bias is not free. Here
:math:`\xi_i(\alpha_i)` is the slack that belongs to a multiplier: :math:`(\alpha_i/(C s_i
p))^{1/(p-1)}`, or 0 for p = 1 and for the hard margin. With the kinds known this is a square
system, linear for p = 1 and 2, which Newton's method solves to rounding. It turns the point of
another method into a basic solution, like crossover in linear programming.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.numerical.bordered import semidefinite_solution

__all__ = ["MarginOperator", "Slack", "solve_support_equations"]

Floats: TypeAlias = NDArray[np.float64]
# Slack and its derivative as functions of the multipliers of the rows given.
Slack: TypeAlias = Callable[[Floats, NDArray[np.intp]], tuple[Floats, Floats]]

ROUNDS = 40
LARGEST_SYSTEM = 2500
# Limit on the sum over the rounds of the cubes of the system sizes: about a second of one core.
WORK = 2e10
# Largest violation of the conditions that is accepted, relative to the largest margin.
RESIDUAL = 1e-11
# Newton's method converges quadratically: below this residual the step just taken was the last one
# needed.
ALMOST_SOLVED = 1e-6
# Share of the largest multiplier below which one counts as zero.
NEGLIGIBLE = 1e-9
# Observations that may become free in one round: with more at once the rounds tend to cycle.
RELEASED = 5


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
    upper_bound: Floats,
    bias: float,
    slack: Slack | None,
    stop: Callable[[], bool] = lambda: False,
) -> Floats | None:
    """Return multipliers that solve the equations, or None if the guess was not good enough."""
    border = signed.border
    # Unknowns beside the multipliers.
    others = 0 if border is None else 1
    alpha, free = alpha.copy(), free.copy()
    work = 0.0
    for _ in range(ROUNDS):
        rows = np.flatnonzero(free).astype(np.intp)
        work += float(rows.size) ** 3
        if work > WORK or stop():
            return None
        if not 1 + others <= rows.size <= LARGEST_SYSTEM:
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
            gone = rows[low & (alpha[rows] < NEGLIGIBLE * float(alpha.max()))]
            alpha[gone], free[gone] = 0.0, False
            finished = not low.any() and float(np.abs(residual).max()) < ALMOST_SOLVED
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
        released = np.argsort(wrong)[-RELEASED:]
        released = released[wrong[released] > 0]
        free[released] = True
        if slack:
            # The slack has no derivative at α = 0 for p > 2: start from a small positive
            # multiplier.
            alpha[released] = NEGLIGIBLE * float(alpha.max())
    return None
