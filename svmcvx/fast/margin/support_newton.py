r"""A way in for pSMO from an earlier solution: Newton's method on the equations of the support vectors.

With :math:`v_i = \alpha_i y_i` and the slack :math:`\xi_i(\alpha_i)` of a multiplier, the optimum satisfies

.. math:: (Kv)_i + b + y_i\,\xi_i(\alpha_i) = y_i \quad (i \in F), \qquad \sum_i v_i = 0,

F being the observations whose multipliers are neither zero nor, for p = 1, at their upper_bound. From a solution for a nearby C
the set F is almost known. Each step solves the linearised equations on F by a Cholesky factorisation, cuts the multipliers off
at their bounds, and takes F anew: out go those that were cut off, in come those whose margin is on the wrong side. For p = 1 the
first step is the piecewise linear path of the solution followed to the new C. Nothing makes these steps converge from afar:
they end with the gap asked for or are given up, and what they found is a start like any other.

**The rule.** Where all of the Gram matrix is there (:mod:`svmcvx.kernels.gram_cache`), p ≤ 2, and the earlier solution on the same data
took pair steps that cost more than the factorisations would, or came from here itself. Above p = 2 the slack is infinitely
steep at α = 0, and steps on F are of little use.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.formulations.margin.psvm import PSVM

__all__ = ["newton_applies", "newton_on_support", "newton_pays"]

Floats: TypeAlias = NDArray[np.float64]

STEPS = 15
# Steps without a much smaller gap after which it is given up.
PATIENCE = 6
# What a step costs, in multiplications of pair steps: those of a factorisation go 40 times as fast, those of products with the
# matrix, which there are three of, 20 times, and then there is what every step costs. So many steps are expected.
FACTORISATION, PRODUCT, STEP = 1.0 / 120.0, 3.0 / 20.0, 7e4
EXPECTED = 3.0
LARGEST = 2000
# Shares of the mean of the diagonal that are added where the system is singular. The residual is exact: nothing is lost.
RIDGES = (1e-13, 1e-10, 1e-7)
# A multiplier this close to its upper_bound, relative to it, is there.
AT_CEILING = 1e-6


def newton_applies(p: float, n: int) -> bool:
    """Whether Newton steps are of use for an exponent and a number of observations, with the Gram matrix at hand."""
    return p <= 2 and n <= LARGEST


def newton_pays(alpha: Floats, upper_bound: Floats, earlier: Mapping[str, Any]) -> bool:
    """Whether to begin with Newton steps where they apply.

    Parameters
    ----------
    alpha, upper_bound : ndarray of shape (n,)
        The start.
    earlier : mapping
        The options of the earlier solution.
    """
    free = int(((alpha > 0) & (alpha < upper_bound * (1.0 - AT_CEILING))).sum())
    pair_steps = float(earlier.get("pair_steps", 0))
    if pair_steps == 0 and earlier.get("newton_steps", 0):
        return True
    cost = FACTORISATION * free**3 + PRODUCT * alpha.size**2 + STEP
    return pair_steps * alpha.size > EXPECTED * cost


def newton_on_support(
    statement: PSVM,
    K: Floats,
    alpha: Floats,
    bounds: Callable[[Floats, Floats], tuple[float, float]],
    settled: Callable[[Floats], Floats],
    monitor: Monitor,
) -> tuple[Floats, int]:
    """Take Newton steps as long as the gap falls.

    Parameters
    ----------
    statement : PSVM
        With p at most 2.
    K : ndarray of shape (n, n)
    alpha : ndarray of shape (n,)
        The start, feasible.
    bounds : callable
        ``bounds(alpha, f)`` returns lower and upper bound.
    settled : callable
        Returns feasible multipliers.
    monitor : Monitor
        Its tolerance, and its clock.

    Returns
    -------
    alpha : ndarray of shape (n,)
        The multipliers with the smallest gap, those of the start included.
    steps : int
        Newton steps; 0 if none of them was of use.
    """
    y, p = statement.y, statement.p
    c = statement.C * p * statement.space.data.weight
    r = 0.0 if p == 1 else 1.0 / (p - 1.0)
    upper_bound = np.broadcast_to(np.asarray(statement.upper_bound(), dtype=np.float64), y.shape)
    alpha = np.where(alpha >= upper_bound * (1.0 - AT_CEILING), upper_bound, alpha)
    free = (alpha > 0) & (alpha < upper_bound)
    f = K @ (alpha * y)
    best, smallest = alpha, _gap(bounds(alpha, f))
    useful, idle = 0, 0
    for step in range(1, STEPS + 1):
        rows = np.flatnonzero(free)
        if rows.size < 2 or monitor.out_of_time:
            break
        # r is at least 1: the slope is finite at α = 0.
        with np.errstate(over="ignore"):
            xi = (alpha[rows] / c[rows]) ** r if r > 0 else np.zeros(rows.size)
            slope = r / c[rows] * (alpha[rows] / c[rows]) ** (r - 1.0) if r > 0 else xi
        found = _solve(K, rows, slope, y[rows] * (1.0 - xi) - f[rows], float((alpha * y).sum()))
        if found is None:
            break
        change, b = found
        moved = alpha.copy()
        moved[rows] += y[rows] * change
        cut = (moved <= 0.0) | (moved >= upper_bound)
        moved = np.clip(moved, 0.0, upper_bound)
        # Who comes in is told by the solution of the equations, not by what is left of it.
        u = y * (f + K[rows].T @ change + b)
        f = K @ (moved * y)
        point = settled(moved)
        gap = _gap(bounds(point, f))
        if gap < smallest:
            idle = 0 if gap < 0.5 * smallest else idle + 1
            best, smallest, useful = point, gap, step
        else:
            idle += 1
        if smallest <= monitor.tol or idle >= PATIENCE or not math.isfinite(b):
            break
        alpha = moved
        free = (free & ~cut) | ((alpha <= 0.0) & (u < 1.0)) | ((alpha >= upper_bound) & (u > 1.0))
    return best, useful


def _solve(
    K: Floats, rows: NDArray[np.intp], slope: Floats, residual: Floats, sum_: float
) -> tuple[Floats, float] | None:
    """Return the change of the v_i and the bias."""
    system = K.take(rows, axis=0).take(rows, axis=1)
    diagonal = system.diagonal() + slope
    ones = np.ones(rows.size)
    scale = float(diagonal.mean())
    for ridge in RIDGES:
        np.fill_diagonal(system, diagonal + ridge * scale)
        factor, failed = sl.lapack.dpotrf(system.T, lower=True, clean=False)
        if failed:
            continue
        both, _ = sl.lapack.dpotrs(factor, np.stack([residual, ones], axis=1), lower=True)
        mass = float(both[:, 1].sum())
        if not np.isfinite(both).all() or mass <= 0.0:
            continue
        b = (float(both[:, 0].sum()) + sum_) / mass
        return both[:, 0] - b * both[:, 1], b
    return None


def _gap(found: tuple[float, float]) -> float:
    lower, upper = found
    gap = (upper - lower) / max(1.0, abs(upper))
    return gap if math.isfinite(gap) else math.inf
