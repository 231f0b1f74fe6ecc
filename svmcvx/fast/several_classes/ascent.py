"""Dual coordinate ascent for the hinges of the classical machines."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import TINY, quietly
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear import ascent as binary
from svmcvx.fast.linear.ascent_passes import ROUND
from svmcvx.fast.linear.newton import AT_ONCE, PRODUCTS, REFRESH, STEP_WORK
from svmcvx.fast.several_classes import ascent_passes as passes
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.multiclass.losses import HingeSum, LargestHinge
from svmcvx.formulations.multiclass.machines import ClassicalStatement
from svmcvx.formulations.multiclass.statement import MulticlassStatement
from svmcvx.kernels import row_norms
from svmcvx.solution import Status

# Steps of the other methods, about; multiplications of an interior-point step up to which these,
# which are not vectorised, are taken.
NEWTON_STEPS, INTERIOR_STEPS, INTERIOR_WORK = 40.0, 15.0, 3e6

# Weights, biases and multipliers.
Point: TypeAlias = tuple[Floats, Floats, Floats]


def applies(statement: MulticlassStatement) -> bool:
    classical = isinstance(statement, ClassicalStatement) and statement.sums_to_zero
    return classical and isinstance(statement.loss, (HingeSum, LargestHinge))


def epoch_work(statement: MulticlassStatement) -> float:
    """Return the numbers that an epoch reads and writes; the arithmetic on a row's multipliers
    costs as much as eight entries.
    """
    X, data = statement.scores.X, statement.scores.data
    return 2.0 * data.c * (float(X.nnz if sp.issparse(X) else X.size) + 8.0 * data.n)


def interior_work(n: int, r: int, c: int) -> float:
    """Return the multiplications of an interior-point step on n rows of r entries."""
    return n * (c * r) ** 2 / 4.0 + (r * (c - 1)) ** 3 / 3.0


def other_work(statement: MulticlassStatement) -> float:
    """Return the work of the other methods, roughly, in the same unit; 0 where it is so little
    that coordinate ascent is not worth a trial.
    """
    c, (n, d), epoch = statement.scores.data.c, statement.scores.X.shape, epoch_work(statement)
    r = min(n, d) + (statement.scores.intercept != "none")
    system = min(min(r * (c - 1), 2.0 * n) ** 3 / 3.0 / AT_ONCE, PRODUCTS * epoch)
    work, own = NEWTON_STEPS * (STEP_WORK + 3.0 * epoch + system), interior_work(n, r, c)
    if own <= INTERIOR_WORK and not sp.issparse(statement.scores.X):
        work = min(work, INTERIOR_STEPS * (STEP_WORK + own))
    return work if work >= binary.WORTH * epoch + binary.LEAST else 0.0


def _points(statement: ClassicalStatement, point: Point) -> RecoveredPoints:
    dual = statement.repair({"alpha": statement.scores.expand(point[2])})
    return RecoveredPoints(statement.models(*point[:2], dual), [dual])


@quietly
def ascend(
    statement: ClassicalStatement, monitor: Monitor, start: Point | None, most: float
) -> tuple[Point, RecoveredPoints, Status, int]:
    """Run coordinate ascent; inaccurate if it stalls, or will read more than `most` numbers at the
    rate at which its gap falls. Return the point, what it gives, the reason and the rounds.
    """
    scores, s = statement.scores, statement.weight
    n, c, X, codes = scores.data.n, scores.data.c, scores.X, scores.data.codes
    rho = 2.0 * statement.lam * (statement.regulariser.curvature(c) or 0.0)
    rows, norms, tau = binary.entries_of(X), row_norms(X), 0.0
    summed, curvature = isinstance(statement.loss, HingeSum), norms**2 / rho
    if scores.intercept == "free":
        tau = max(binary.DAMPING * float(curvature.mean()), binary.MOVE / float(s.sum()))
    curvature = np.maximum(curvature + tau, TINY)
    b, alpha = (np.zeros(c), np.zeros((n, c - 1))) if start is None else map(np.copy, start[1:])
    W, balance = np.zeros((X.shape[1], c)), np.zeros(c)
    order, state = np.arange(n), np.array([n, 0])
    numbers, tol, read, rounds = np.array([math.inf, 0.0]), monitor.tol, 0.0, 0
    left, lower, upper, best = math.inf, 0.0, math.inf, (W, b, alpha)
    gaps: list[tuple[float, float]] = []
    while True:
        if rounds % REFRESH == 0 and alpha.any():
            # It is updated along the way.
            B = scores.coefficients(alpha)
            W, balance = np.ascontiguousarray(X.T @ B) / rho, B.sum(axis=0)
        f = scores.differences(X @ W + b if alpha.any() else np.broadcast_to(b, (n, c)))
        losses, size = float(s @ statement.loss.value(f)), float(alpha.sum())
        length = float(np.linalg.norm(W))
        price = 1.0 + float(np.abs(b).max()) + float(norms.max()) * length if tau else 0.0
        numbers[1] = size - 0.5 * rho * length**2
        value, bound = losses + 0.5 * rho * length**2, numbers[1] - price * np.abs(balance).sum()
        if value < upper or bound > lower:
            best = (W.copy(), b.copy(), best[2]) if value < upper else best
            best = (best[0], best[1], alpha.copy()) if bound > lower else best
            lower, upper = max(lower, bound), min(upper, value)
        gaps.append((read, upper - lower))
        points = None
        if upper - lower <= tol * abs(upper):
            # Balance without rounding, and what rounding may have changed, count as well.
            points = _points(statement, best)
            high, low = statement.evaluate(points.models[0]), statement.evaluate_dual(*points.duals)
            status = monitor.report(rounds, low.lower_end, high.upper_end)
            tol *= 0.5
        else:
            status = monitor.report(rounds, lower, upper, estimated=True)
        if status is None and not binary.promising(gaps, monitor.tol * abs(upper), most):
            status = Status.INACCURATE
        if status is not None:
            return best, points or _points(statement, best), status, rounds
        if value - bound > 2.0 * left:
            # Rows that were left out are optimal no more.
            state[0], numbers[0] = n, math.inf
        work = min(binary.EPOCHS * epoch_work(statement), binary.MOST_ENTRIES)
        if read < binary.TRIAL * most:
            work = min(work, max(binary.TRIAL * most - read, epoch_work(statement)))
        passed, left = passes.ascend(
            *rows, codes, s, curvature, summed, alpha, W, b, balance, (tau, price, 1.0 / rho),
            order, state, numbers, tol, work,
        )  # fmt: skip
        read += passed + ROUND
        rounds += 1
