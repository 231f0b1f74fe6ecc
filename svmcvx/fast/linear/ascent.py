"""Dual coordinate ascent for linear machines, and the choice between it and Newton's method by
their work.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.data import Features
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear import ascent_passes as passes
from svmcvx.fast.linear.newton import (
    REFRESH,
    BestPoint,
    LinearNewtonSettings,
    LinearProblem,
    Polish,
    RowSums,
    minimise,
    newton_work,
    system_work,
)
from svmcvx.solution import Status

# Epochs between two evaluations of the gap, and entries read between them, at most, about half a
# second.
EPOCHS, MOST_ENTRIES = 20, 2e8
# Least τ of a bias: relative to the mean squared norm, and to move the bias in an epoch
# if all multipliers are unbalanced.
DAMPING, MOVE = 0.1, 1.0
# Evaluations after which a gap that has not fallen ends the method.
STALLED = 200
# Epochs and entries that Newton's method must be worth; the share of its work that is spent before
# the gap is extrapolated; the gap from which it starts at the point found.
WORTH, LEAST, TRIAL, NEAR = 8.0, 3e5, 0.05, 1e-2


def entries_of(X: Features) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the rows for compiled passes: those of a CSR matrix, or dense ones without indices."""
    if sp.issparse(X):
        return X.data, X.indices, X.indptr
    n, d = X.shape
    # Types of most sparse data, for which passes are compiled in any case.
    ends = np.arange(n + 1, dtype=np.int32 if X.size < 2**31 else np.int64) * d
    return X.reshape(-1), np.zeros(0, dtype=np.int32), ends


def epoch_work(problem: LinearProblem) -> float:
    """Return the entries of all rows, and those that are read in the time of a row's step."""
    return problem.n * (problem.entries + passes.STEP)


def solve_rows(
    problem: LinearProblem,
    monitor: Monitor,
    method: str = "auto",
    *,
    w: Floats | None = None,
    b: float = 0.0,
    alpha: Floats | None = None,
    most: float | None = None,
    seed: int = 0,
    newton: LinearNewtonSettings | None = None,
) -> tuple[BestPoint, Status, dict[str, Any]]:
    """Solve a problem by coordinate ascent (``"dcd"``), Newton's method, or for ``"auto"`` the
    first and then the second, if it will not end within `most` entries, the work of Newton's
    method; return the better ends of both.
    """
    earlier: BestPoint | None = None
    if most is None:
        most = newton_work(problem)
        worth = WORTH * epoch_work(problem) + LEAST
        if most < worth or (w is not None and alpha is None):
            most = 0.0
    chosen = ("dcd" if most else "newton") if method == "auto" else method
    if chosen == "dcd":
        most = most if method == "auto" else math.inf
        earlier, status = ascend(problem, monitor, alpha, b, most=most, seed=seed)
        if method == "dcd" or status is not Status.INACCURATE:
            return earlier, status, {"method": chosen, "iterations": earlier.steps}
        chosen = "dcd+newton"
        if monitor.gap <= NEAR:
            w, b, alpha = earlier.w, earlier.b, earlier.alpha
    alpha = None if problem.smooth else alpha
    point, status = minimise(problem, monitor, w=w, b=b, alpha=alpha, settings=newton)
    if earlier is not None:
        point.take(earlier)
    return point, status, {"method": chosen, "iterations": point.steps}


def ascend(
    problem: LinearProblem,
    monitor: Monitor,
    alpha: Floats | None = None,
    b: float = 0.0,
    *,
    most: float = math.inf,
    seed: int = 0,
) -> tuple[BestPoint, Status]:
    """Run coordinate ascent; inaccurate if it stalls, or will read more than `most` entries at the
    rate at which its gap falls.
    """
    m, n = problem, problem.n
    penalty, tau = float(m.constant), 0.0
    rows, f, zeros = entries_of(m.rows), np.zeros(n), np.zeros(n)
    curvature = np.maximum(m.norms**2 - penalty, 0.0)
    if m.bias or penalty:
        tau = max(DAMPING * float(curvature.sum()) / n, MOVE / float(m.c.sum()))
        curvature += tau / (1.0 + penalty * tau)
    if alpha is None:
        alpha, w = np.zeros(n), np.zeros(m.d) if m.linear_term is None else m.linear_term.copy()
    else:
        low, high = m.loss.domain
        alpha = np.clip(alpha, low * m.c, high * m.c)
        w = m.primal_of(alpha)
    if penalty:
        w, b = w[:-1].copy(), float(w[-1])
    best = BestPoint(w.copy(), b, alpha, alpha)
    polish = Polish(m) if Polish.applies(m) else None
    order, state = np.arange(n), np.array([n, seed])
    numbers = np.array([-math.inf, math.inf, 0.0, b, 0.0, 0.0, math.inf])
    rounds, tol, read = 0, monitor.tol, 0.0
    gaps: list[tuple[float, float]] = []

    def found(
        w: Floats, b: float, alpha: Floats, sums: RowSums, primal: Floats | None = None
    ) -> Status | None:
        primal = w if primal is None else primal
        lower, upper, better_lower, better_upper = best.update(m, w, b, sums, primal)
        if better_lower:
            best.alpha = alpha.copy()
        if better_upper:
            best.expansion = alpha.copy()
        best.steps = rounds
        return monitor.report(rounds, lower, upper)

    while True:
        if rounds % REFRESH == REFRESH - 1:
            # It is updated along the way.
            w = m.primal_of(alpha)[: w.size].copy()
        if w.any():
            passes.scores(*rows, w, f)
        b = float(numbers[3])
        sums = m.sums_of(alpha, m.loss_at(f, b, zeros))
        if penalty:
            status = found(np.append(w, b), 0.0, alpha, sums, np.append(w, sums.balance))
        else:
            status = found(w, b, alpha, sums)
        gaps.append((read, best.upper - best.lower))
        if status is None and polish is not None:
            free = np.flatnonzero((alpha > 0.0) & (alpha < m.c))
            if system_work(m, free.size) <= read and (end := polish(alpha, free)):
                status = found(*end)
        if status is None and not promising(gaps, monitor.tol * abs(best.upper), most):
            status = Status.INACCURATE
        if status is not None:
            return best, status
        length = math.sqrt(float(w @ w) + penalty * sums.balance**2)
        numbers[2] = sums.total - sums.conjugate - 0.5 * length**2
        numbers[4] = sums.balance if tau else 0.0
        bias = tau, penalty, 1.0 + abs(b) + m.largest_norm * length
        # A round reads at most as much as all rounds before it, so that a slow one is seen early.
        longest = max(TRIAL * most - read, min(read, most - read), epoch_work(m))
        work = max(min(EPOCHS * epoch_work(m), MOST_ENTRIES, longest), passes.ROUND)
        passed, gap = passes.ascend(
            m.loss, *rows, m.y, m.c, curvature, alpha, w, bias, order, state, numbers, tol, work
        )
        read += passed + passes.ROUND
        if gap <= tol * max(abs(numbers[2]), abs(numbers[2] + gap)):
            # Those left out may be optimal no more; if there are none, the sum was too small.
            tol *= 0.5 if state[0] == n else 1.0
            state[0], numbers[:2] = n, (-math.inf, math.inf)
        rounds += 1


def promising(gaps: list[tuple[float, float]], tol: float, most: float) -> bool:
    """Whether the gap falls, and fast enough to reach `tol` within `most` entries read; a few may
    be read in any case.
    """
    (read, gap), (before, largest) = gaps[-1], gaps[max(len(gaps) - 2, 0)]
    if not math.isfinite(gap) or (len(gaps) > STALLED and gap > 0.999 * gaps[-STALLED][1]):
        return False
    # Where rounding makes the estimated gap zero or negative, the checker decides.
    if gap <= 0.0 or read <= TRIAL * most:
        return read <= most
    fallen = math.log(largest / gap)
    return fallen > 0.0 and read + math.log(gap / tol) / fallen * (read - before) <= most
