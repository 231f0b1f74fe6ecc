"""Coordinate ascent on the duals of ODM and ODML."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear.problem import ArrayBounds, BestPoint, LinearProblem
from svmcvx.fast.margin_distribution import coordinate_ascent_passes as compiled
from svmcvx.solution import Status

__all__ = ["METHODS", "ascend"]

Floats: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "newton", "dcd")

# Epochs over the active observations after each epoch over all.
SHORT_EPOCHS = 4
# Rounds after which w = w(θ), which is updated along the way, is computed afresh.
REFRESH = 10
# Rounds without a smaller gap after which it ends.
PATIENCE = 1000
# Number of rounds from which the rate of the gap is estimated, and the largest ratio of predicted
# to remaining rounds.
RATED, GENEROUS = 3, 3.0


def ascend(
    problem: LinearProblem,
    monitor: Monitor,
    theta: Floats,
    rng: np.random.Generator,
    *,
    most: float = math.inf,
) -> tuple[BestPoint, Status]:
    """Run dual coordinate ascent [HsiehChang] from `theta`."""
    m = problem
    n = theta.size
    low, high = (end * m.c for end in m.loss.domain)
    D, above, below = m.loss.quadratic_conjugate
    a, b = above / m.c, below / m.c
    theta = np.clip(theta, low, high)
    diagonal = m.norms**2
    active = np.ones(n, dtype=np.bool_)
    w = m.primal_of(theta)
    bounds = ArrayBounds(m, w, theta)
    rounds, margin = 0, math.inf
    stalled, smallest = 0, math.inf
    gaps: list[float] = []
    while True:
        if rounds % REFRESH == 0:
            w = m.primal_of(theta)
        lower, upper = bounds.update_pair(w, theta)
        status = monitor.report(rounds, lower, upper)
        stalled = 0 if monitor.gap < 0.999 * smallest else stalled + 1
        smallest = min(smallest, monitor.gap)
        gaps.append(smallest)
        hopeless = rounds + _predicted_rounds(gaps, monitor.tol) > GENEROUS * most
        if status is None and (
            rounds >= most or hopeless or stalled > PATIENCE or not math.isfinite(upper - lower)
        ):
            status = Status.INACCURATE
        if status is not None:
            bounds.best.steps = rounds
            return bounds.best, status
        largest = 0.0
        for epoch in range(1 + SHORT_EPOCHS):
            order = rng.permutation(n if epoch == 0 else np.flatnonzero(active))
            arguments = (m.y, diagonal, theta, w, D, a, b, low, high, order, active, margin)
            if sp.issparse(m.X):
                largest = compiled.ascend_sparse(m.X.data, m.X.indices, m.X.indptr, *arguments)
            else:
                largest = compiled.ascend_dense(m.X, *arguments)
            if largest == 0.0 or monitor.out_of_time():
                break
        margin = largest
        rounds += 1


def _predicted_rounds(gaps: list[float], tol: float) -> float:
    """Return the number of rounds until the gap is `tol` at the rate of the last rounds; 0 before
    there are enough rounds for a rate.
    """
    if len(gaps) <= RATED or not math.isfinite(gaps[-1 - RATED]):
        return 0.0
    fallen = math.log(gaps[-1 - RATED] / gaps[-1]) if gaps[-1] > 0 else math.inf
    return RATED * math.log(max(gaps[-1] / tol, 1.0)) / fallen if fallen > 0 else math.inf
