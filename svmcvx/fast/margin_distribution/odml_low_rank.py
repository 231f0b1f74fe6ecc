r"""Kernel ODML for more observations than a Gram matrix allows: on a partial Cholesky factor, certified on K itself.

With :math:`K \approx FF'`, Newton's method (:mod:`svmcvx.fast.core.linear_newton`) solves the machine on the rows of F. Its multipliers α and τ
are feasible for K too, whatever F lacks, and :math:`v = y(\alpha + \lambda_2 c - \tau)` is a point of the kernel's own space, so one
product with K, evaluated by blocks, gives both bounds; where the point of the factor's own machine is better, it is expanded on
the pivots. While the gap is too large the factor grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.fast.core import loss_passes as passes
from svmcvx.fast.core.linear_newton import Machine, minimise
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.pivoted_cholesky import partial_factor
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin_distribution.odml import ODML, variance_multipliers
from svmcvx.solution import Status
from svmcvx.system import memory

__all__ = ["LARGEST_RANK", "ascend_ranks"]

Floats: TypeAlias = NDArray[np.float64]

FIRST_RANK, LARGEST_RANK = 300, 2400
# Newton's method on the factor: share of the tolerance, and steps.
SHARE, STEPS = 0.3, 300


@dataclass
class Found:
    """Models and dual points, the latest first; what they took."""

    candidates: RecoveredPoints = field(default_factory=lambda: RecoveredPoints([], []))
    rank: int = 0
    exhausted: bool = False


def ascend_ranks(statement: ODML, space: FeatureSpace, monitor: Monitor, alpha: Floats | None) -> tuple[Found, Status]:
    """Solve the machine on partial factors of growing rank until the monitor says stop.

    Returns
    -------
    Found
    Status
        ``INACCURATE`` if the factor is complete or has reached its largest rank (2400, or what fits into memory).
    """
    s, y, c = statement, statement.y, statement.share
    n = y.size
    largest = int(min(LARGEST_RANK, n, memory.available() / (8.0 * 4.0 * n)))
    memory.require(
        8.0 * 4.0 * n * min(n, FIRST_RANK), f"a partial factor of {n} kernel columns", "use fewer observations"
    )
    partial = partial_factor(space)
    found, v, rank = Found(), np.zeros(n), min(FIRST_RANK, largest)
    best: tuple[float, float] = (-math.inf, math.inf)
    steps = 0
    while True:
        partial.grow(rank, lambda: monitor.out_of_time)
        F = partial.factor
        machine = Machine(F, y, s.C * c, passes.HINGE, p=1.0, tilt=s.lam2 * (F.T @ (y * c)), variance=s.lam1, share=c)
        inner = monitor.within(SHARE * monitor.tol, STEPS)
        point, _ = minimise(machine, inner, w=None if alpha is None else F.T @ v, alpha=alpha)
        alpha = point.alpha
        tau = variance_multipliers(y * (F @ point.w), s.lam1, c)
        dual: Dual = s.repair({"alpha": alpha, "tau": tau})
        v = s.expansion(dual["alpha"], dual["tau"])
        model = space.model(v)
        upper, lower = s.evaluate(model), s.evaluate_dual(dual)
        if partial.pivots and inner.upper < upper.above:
            # F w are also the scores of the kernel expansion on the pivots, since K[:, pivots] = F F[pivots]'.
            on_pivots = np.zeros(n)
            on_pivots[partial.pivots] = sl.solve_triangular(F[partial.pivots], point.w, lower=True, trans=1)
            spanned = space.model(on_pivots)
            value = s.evaluate(spanned)
            if value.above < upper.above:
                model, upper = spanned, value
        found.rank, found.exhausted = len(partial.pivots), partial.done
        # The checker tries all of them: two are enough.
        if upper.above < best[1] or lower.below > best[0]:
            best = (max(best[0], lower.below), min(best[1], upper.above))
            found.candidates = RecoveredPoints(
                [model, *found.candidates.models[:1]], [dual, *found.candidates.duals[:1]]
            )
        steps += 1
        status = monitor.report(steps, lower.below, upper.above)
        if status is None and (partial.done or found.rank >= largest):
            status = Status.INACCURATE
        if status is not None:
            return found, status
        rank = min(2 * rank, largest)
