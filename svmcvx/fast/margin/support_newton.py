r"""Newton's method on the optimality conditions of the support vectors, as a shortcut for pair
steps from an earlier solution.

With :math:`v_i = \alpha_i y_i` and the slack :math:`\xi_i(\alpha_i)` of a multiplier, the optimum
satisfies

.. math:: (Kv)_i + b + y_i\,\xi_i(\alpha_i) = y_i \quad (i \in F), \qquad \sum_i v_i = 0,

where F is the set of observations whose multipliers are neither zero nor, for p = 1, at their upper
bound. Starting from the solution for a nearby C, the set F is almost known. Each step solves the
linearised equations on F by a Cholesky factorisation, clips the multipliers to their bounds, and
updates F: clipped observations leave it, observations whose margin is on the wrong side join it.
For p = 1 the first step follows the piecewise linear solution path to the new C. Convergence is
local only: the steps end at the wanted gap or without progress, and their best point is used if its
gap is smaller.

**When it is used.** Where the whole Gram matrix is in memory (:mod:`svmcvx.kernels.gram_cache`), p
≤ 2, n is at most 2 000, there is an earlier solution, and the pair steps of this fit have cost as
much as the Newton steps are expected to; after a failure again when they have cost a multiple of
that. For p > 2 the slack has an infinite derivative at α = 0, and steps on F are of little use.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import relative_gap
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.margin.decomposition import BoundsOf
from svmcvx.formulations.margin import PSVM
from svmcvx.numerical import bordered_solution

__all__ = ["SupportNewton"]

Floats: TypeAlias = NDArray[np.float64]

# Shares of the mean of the diagonal that are added to it where the system is singular. They slow
# down convergence but do not change its limit, since the residual is exact.
RIDGES = (1e-13, 1e-10, 1e-7)
# A multiplier this close to its upper bound, relative to the bound, counts as being at it.
AT_BOUND = 1e-6
# Newton steps, at most.
NEWTON_STEPS = 15
# Consecutive steps that do not halve the gap, after which the method ends.
PATIENCE = 6
# Number of observations up to which the method is used: beyond, a system costs too much.
LARGEST_SAMPLE = 5000
# If no step reduced the gap, the method is tried again when pair steps have cost this many times as
# much.
RETRY_FACTOR = 4.0
# Cost of a Newton step, counted in multiplications of pair steps: FACTORISATION_WORK times the cube
# of the number of free multipliers, PRODUCT_WORK times n² (products with the Gram matrix, where
# many are free), and STEP_WORK. Factorisations run about 40 times as fast as pair steps, products
# 20 times.
FACTORISATION_WORK = 1.0 / 120.0
PRODUCT_WORK = 3.0 / 20.0
STEP_WORK = 7e4


@dataclass
class SupportNewton:
    """Newton's method on the support vectors, for one run of the decomposition."""

    statement: PSVM
    K: Floats
    bounds: BoundsOf
    expected_steps: float

    def __post_init__(self) -> None:
        self.useful_steps = 0
        # Cost of pair steps before which the method is not tried again.
        self.next_work = 0.0
        shape = self.statement.y.shape
        self.upper_bound = np.broadcast_to(
            np.asarray(self.statement.upper_bound(), dtype=np.float64), shape
        )

    @staticmethod
    def applies(p: float, n: int) -> bool:
        """Whether the method is of use for an exponent and a number of observations whose Gram
        matrix is in memory.
        """
        return p <= 2 and n <= LARGEST_SAMPLE

    def due(self, work: float, alpha: Floats) -> bool:
        """Whether pair steps that have cost `work` multiplications and led to `alpha` should be
        replaced by Newton steps.
        """
        if self.allowance(work, alpha) > 0:
            return False
        self.next_work = RETRY_FACTOR * max(work, self._cost_of_step(alpha))
        return True

    def last_resort(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return nothing: if these steps are due, they have been taken."""
        return []

    def allowance(self, work: float, alpha: Floats) -> float:
        """Return the multiplications of pair steps after which Newton steps from `alpha` would be
        due.
        """
        return max(self.next_work, self.expected_steps * self._cost_of_step(alpha)) - work

    def _cost_of_step(self, alpha: Floats) -> float:
        """Return the cost of a Newton step, in multiplications of pair steps."""
        free = int(((alpha > 0) & (alpha < self.upper_bound * (1.0 - AT_BOUND))).sum())
        return FACTORISATION_WORK * free**3 + PRODUCT_WORK * alpha.size**2 + STEP_WORK

    def solve(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return the multipliers of the smallest gap on the way from feasible ones; none if no step
        reduces it.
        """
        statement, K, upper_bound = self.statement, self.K, self.upper_bound
        y, p = statement.y, statement.p
        c = statement.C * p * statement.weight
        r = 0.0 if p == 1 else 1.0 / (p - 1.0)
        alpha = np.where(alpha >= upper_bound * (1.0 - AT_BOUND), upper_bound, alpha)
        free = (alpha > 0) & (alpha < upper_bound)
        f = K @ (alpha * y)
        best, smallest = alpha, self._gap(alpha, f)
        useful, idle = 0, 0
        for step in range(1, NEWTON_STEPS + 1):
            rows = np.flatnonzero(free)
            if rows.size < 2 or monitor.out_of_time():
                break
            # For p ≤ 2, r is at least 1, and the derivative of the slack is finite at α = 0.
            with np.errstate(over="ignore"):
                xi = (alpha[rows] / c[rows]) ** r if r > 0 else np.zeros(rows.size)
                slope = r / c[rows] * (alpha[rows] / c[rows]) ** (r - 1.0) if r > 0 else xi
            of_free = K.take(rows, axis=0)
            residual = y[rows] * (1.0 - xi) - f[rows]
            found = _newton_step(
                of_free.take(rows, axis=1), slope, residual, float((alpha * y).sum())
            )
            if found is None:
                break
            change, b = found
            moved = alpha.copy()
            moved[rows] += y[rows] * change
            clipped = (moved <= 0.0) | (moved >= upper_bound)
            moved = np.clip(moved, 0.0, upper_bound)
            # Margins of the solution of the equations, before clipping, decide which observations
            # join F.
            solved, clipped_too = (
                np.stack([change, (moved[rows] - alpha[rows]) * y[rows]]) @ of_free
            )
            u = y * (f + solved + b)
            f = f + clipped_too
            point = statement.feasible(moved)
            gap = self._gap(point, f)
            if gap < smallest:
                idle = 0 if gap < 0.5 * smallest else idle + 1
                best, smallest, useful = point, gap, step
            else:
                idle += 1
            if smallest <= monitor.tol or idle >= PATIENCE or not math.isfinite(b):
                break
            alpha = moved
            free = (
                (free & ~clipped)
                | ((alpha <= 0.0) & (u < 1.0))
                | ((alpha >= upper_bound) & (u > 1.0))
            )
        if not useful:
            return []
        self.useful_steps = useful
        return [best]

    def _gap(self, alpha: Floats, f: Floats) -> float:
        found = self.bounds(alpha, f)
        return math.inf if found is None else relative_gap(*found)


def _newton_step(
    system: Floats, slope: Floats, residual: Floats, imbalance: float
) -> tuple[Floats, float] | None:
    """Return the change of the v_i and the bias, from the residual of the equations and Σv; None if
    the system is singular.
    """
    diagonal = system.diagonal() + slope
    ones = np.ones(residual.size)
    scale = float(diagonal.mean())
    for ridge in RIDGES:
        np.fill_diagonal(system, diagonal + ridge * scale)
        factor, failed = sl.lapack.dpotrf(system.T, lower=True, clean=False)
        if failed:
            continue

        def solve(right: Floats, factor: Floats = factor) -> Floats:
            return np.asarray(sl.lapack.dpotrs(factor, right, lower=True)[0])

        change, b = bordered_solution(solve, ones, residual, -imbalance)
        if np.isfinite(change).all() and math.isfinite(b):
            return change, b
    return None
