r"""Kernel ODML for more observations than a Gram matrix allows: on a partial Cholesky factor,
certified on K itself.

With :math:`K \approx FF'`, Newton's method (:mod:`svmcvx.fast.linear.newton`) solves the machine on
the rows of F. Its multipliers α and τ are feasible for K too, however rough F is, and :math:`v =
y(\alpha + \lambda_2 c - \tau)` is a point of the kernel's own space, so one product with K,
evaluated by blocks, gives both bounds; if the model of the factor's problem is better, it is
expanded on the pivots. While the gap is too large the factor grows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.pivoted_cholesky import on_pivots
from svmcvx.fast.core.row_cache import ProductSeconds
from svmcvx.fast.linear.kernel_newton import KernelNewton
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.problem import LinearNewtonSettings, LinearProblem
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin_distribution import ODML
from svmcvx.losses import variance_multipliers
from svmcvx.solution import Status
from svmcvx.system import memory
from svmcvx.system.deadline import current

__all__ = ["LARGEST_RANK", "LowRankPoints", "solve_by_ranks"]

Floats: TypeAlias = NDArray[np.float64]
# Rank of the first partial factor, and of the last.
FIRST_RANK = 300
LARGEST_RANK = 2400
# Time reserved, in products with K: those of this round's points and of an earlier round's, a tenth
# more.
PRODUCTS_LEFT = 2.2


@dataclass
class LowRankPoints:
    """Models and dual points that were recovered, the latest first."""

    candidates: RecoveredPoints = field(default_factory=lambda: RecoveredPoints([], []))
    rank: int = 0
    exhausted: bool = False


def solve_by_ranks(
    statement: ODML,
    monitor: Monitor,
    alpha: Floats | None,
    largest_rank: int,
    settings: LinearNewtonSettings,
) -> tuple[LowRankPoints, Status]:
    """Solve the machine on partial factors of growing rank until the monitor says stop."""
    s, y, c, space = statement, statement.y, statement.share, statement.space
    n = y.size
    largest = int(min(largest_rank, n, memory.available() / (8.0 * 4.0 * n)))
    memory.require(
        8.0 * 4.0 * n * min(n, FIRST_RANK),
        f"a partial factor of {n} kernel columns",
        "use fewer observations",
    )

    def on_factor(F: Floats) -> LinearProblem:
        q = s.lam2 * (F.T @ (y * c))
        return LinearProblem(
            F, y, s.C * c, hinge_power(1.0), linear_term=q, variance=s.lam1, share=c
        )

    product = 0.0
    if math.isfinite(monitor.deadline.end):
        timed = ProductSeconds(space)
        timed.after(0.0)
        product = timed.of(float(n) ** 2)
        # Without time for one, the factor may take all.
        monitor.reserve(PRODUCTS_LEFT * product if product < current().remaining else 0.0)
    newton = KernelNewton(space, on_factor, settings)
    partial = newton.factor
    found, v, rank = LowRankPoints(), np.zeros(n), min(FIRST_RANK, largest)
    best: tuple[float, float] = (-math.inf, math.inf)
    steps = 0
    while True:
        complete = newton.grow(rank, monitor)
        F = partial.factor
        point = newton.solve(monitor, alpha=alpha, v=None if alpha is None else v)
        alpha = point.alpha
        found.rank, found.exhausted = len(partial.pivots), complete
        if current().remaining < product:
            # Nothing is known of points that span all observations; those on the pivots take a
            # small product.
            if partial.pivots and not found.candidates.models:
                found.candidates.models.append(space.model(on_pivots(F, partial.pivots, point.w)))
            return found, monitor.late
        tau = variance_multipliers(y * (F @ point.w), s.lam1, c)
        dual: Dual = s.repair({"alpha": alpha, "tau": tau})
        v = s.expansion(dual["alpha"], dual["tau"])
        model = space.model(v)
        upper, lower = s.evaluate(model), s.evaluate_dual(dual)
        if partial.pivots and point.upper < upper.upper_end:
            spanned = space.model(on_pivots(F, partial.pivots, point.w))
            value = s.evaluate(spanned)
            if value.upper_end < upper.upper_end:
                model, upper = spanned, value
        # The checker evaluates every candidate; more than two would only cost time.
        if upper.upper_end < best[1] or lower.lower_end > best[0]:
            best = (max(best[0], lower.lower_end), min(best[1], upper.upper_end))
            found.candidates = RecoveredPoints(
                [model, *found.candidates.models[:1]], [dual, *found.candidates.duals[:1]]
            )
        steps += 1
        status = monitor.report(steps, lower.lower_end, upper.upper_end)
        if status is Status.TIME_LIMIT and best == (lower.lower_end, upper.upper_end):
            # What was found before has no part in the interval.
            found.candidates = RecoveredPoints([model], [dual])
        if status is None and (complete or found.rank >= largest):
            status = Status.INACCURATE
        if status is not None:
            return found, status
        rank = min(2 * rank, largest)
