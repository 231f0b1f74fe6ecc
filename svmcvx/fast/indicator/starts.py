"""Where a search for the exact 0-1 loss starts: feasible points, and the conic relaxation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from svmcvx.errors import DataError, SolverFailed
from svmcvx.formulations.conic_loss.recovery import moment_of
from svmcvx.formulations.indicator.pool import RELAXATION_ROWS, RelaxedPoint, counting_pool
from svmcvx.formulations.indicator.zero_one import ZeroOne
from svmcvx.heuristics.rounding import round_relaxation
from svmcvx.heuristics.local_search import local_search
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent, violated
from svmcvx.heuristics.soft_margin import soft_margin_scores
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution

__all__ = ["at_zero", "heuristics"]

# Observations and columns up to which the conic relaxation is solved.
MOST_ROWS, MOST_COLUMNS = 100_000, 1000
# Observations up to which its solution is rounded, with and without a time limit: that cannot be interrupted.
ROUNDED_ROWS = {True: 2000, False: 5000}
# The cardinality form of the relaxation is stated for shares up to this one.
LARGEST_SHARE = 0.5


def at_zero(statement: ZeroOne, warm_start: Solution | None) -> tuple[Incumbent, ...]:
    """Return w = 0, and the point of least norm that keeps what an earlier solution keeps."""
    geometry = statement.geometry
    points = [geometry.incumbent(np.zeros(geometry.G.shape[1]), 0.0, zero_one)]
    if warm_start is not None:
        if not isinstance(warm_start.model, BinaryModel):
            raise DataError(f"warm_start must be a Solution with a model of two classes, got {warm_start.model!r}")
        u = statement.y * warm_start.model.scores(statement.space.data.X)[0]
        found = geometry.refit(u >= 1.0 - ON_MARGIN)
        if found is not None:
            points.append(geometry.incumbent(found.w, 0.0, violated))
    return tuple(points)


def heuristics(
    statement: ZeroOne, warm_start: Solution | None, relaxed: Callable[[], Solution], *, limited: bool
) -> tuple[tuple[Incumbent, ...], RelaxedPoint | None]:
    """Return good feasible points, and the conic relaxation if it could be solved.

    `relaxed` solves it, and `limited` says that time is.
    """
    geometry = statement.geometry
    n, r = geometry.G.shape
    if n <= RELAXATION_ROWS:
        return counting_pool(statement, warm_start, lam=statement.lam, k=statement.k)
    relaxation = _relaxation(statement, relaxed) if n <= MOST_ROWS and r <= MOST_COLUMNS else None
    pool = at_zero(statement, warm_start)
    scores = [soft_margin_scores(geometry, 1.0)]
    points = [(point.w, 0.0) for point in pool]
    if relaxation is not None:
        scores += [-relaxation.z, geometry.G @ relaxation.w]
    if relaxation is not None and n <= ROUNDED_ROWS[limited]:
        w, _ = round_relaxation(statement.space, relaxation.w, relaxation.z, lam=statement.lam, k=statement.k)
        points.append((w, 0.0))
    best = local_search(geometry, statement.objective_value, loss_bound=statement.loss_bound, scores=scores, points=points)
    return ((best,) if best is not None else ()) + pool, relaxation


def _relaxation(statement: ZeroOne, relaxed: Callable[[], Solution]) -> RelaxedPoint | None:
    """Take what the branching needs from a solution of the conic relaxation, however inaccurate."""
    if statement.k is not None and not 0.0 < statement.k <= LARGEST_SHARE * float(statement.weight.sum()):
        return None
    try:
        found = relaxed()
    except SolverFailed:
        return None
    moment = moment_of(found.model)
    if moment is None or not found.dual:
        return None
    price = statement.lam if statement.lam is not None else float(found.dual["lam"])
    rows = statement.space.data.index
    return RelaxedPoint(moment.w, moment.z[rows], found.dual["gamma"][rows], price)
