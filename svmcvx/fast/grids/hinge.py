"""Batches of the pSVM at p = 1 with a free intercept."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.grids.hinge_passes import ends, settle, slopes
from svmcvx.fast.grids.rows import Answers, Rows
from svmcvx.fast.margin.smo_passes import ascend
from svmcvx.formulations.margin.psvm import best_bias
from svmcvx.system.deadline import current
from svmcvx.system.threads import single_blas_thread

__all__ = ["solve_hinges"]

Floats: TypeAlias = NDArray[np.float64]

# Violation up to which the first setting is solved by pair steps, and pair steps a row, at most.
ROUGH, PAIR_STEPS = 0.1, 20
# Largest violation of a condition at the end, in units of a score, and relative to the sum of all multipliers times the largest product.
VIOLATION, ROUNDING = 1e-11, 1e-14
# Steps of the active-set method a row, at most, and multiplications between two looks at the clock.
STEPS, WORK = 20, 2e8


@single_blas_thread()
def solve_hinges(rows: Rows, costs: Sequence[float]) -> Answers | None:
    """Solve the settings of C, in ascending order, each from the one before; None if the deadline passes."""
    K, y = np.ascontiguousarray(rows.gram), rows.y
    n, k = y.size, len(costs)
    alpha, g, before = np.zeros(n), y.copy(), 0.0
    room, members = np.empty((n, n)), np.empty(n, dtype=np.int64)
    v, intercepts, values, gaps = np.empty((k, n)), np.empty(k), np.empty(k), np.full(k, math.inf)
    supports = np.zeros(k, dtype=np.intp)
    # A step has n² multiplications, at most.
    at_once = max(10, int(WORK / n**2))
    for place, C in enumerate(costs):
        c = C * rows.weight
        if before:
            ratio = C / before
            alpha, g = np.minimum(alpha * ratio, c), y - ratio * (y - g)
        else:
            ascend(K, g, alpha, y, c, c, 0.0, ROUGH, PAIR_STEPS * n)
        before, left, steps, inside, b = C, STEPS * n, -1, 0, 0.0
        tol = max(VIOLATION, ROUNDING * float(alpha.sum() * np.abs(K).max()))
        while steps < 0 < left:
            if current().passed():
                return None
            steps, inside, b = settle(K, y, c, alpha, g, room, members, tol, min(left, at_once))
            left -= at_once
        slopes(K, y, c, alpha, g)
        if not inside:
            # Several intercepts are optimal.
            b = best_bias(y - g, y, p=1.0, weight=rows.weight)
        lower, upper = ends(y, c, alpha, g, b)
        v[place], intercepts[place], values[place] = alpha * y, b, upper
        supports[place] = np.count_nonzero(alpha)
        if steps >= 0 and upper > 0.0:
            gaps[place] = (upper - lower) / upper
    return Answers(v @ rows.cross.T + intercepts[:, None], values, gaps, supports)
