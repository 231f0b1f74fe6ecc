"""Where a search for the exact 0-1 loss starts: feasible points, and the conic relaxation."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import cvxpy as cp
import numpy as np

from svmcvx.errors import DataError
from svmcvx.formulations.base import usable
from svmcvx.formulations.big_m import counting_pool
from svmcvx.formulations.conic import ConicSDP
from svmcvx.formulations.incumbents import (
    ON_MARGIN,
    RELAXATION_COLUMNS,
    RELAXATION_ROWS,
    Incumbent,
    Relaxation,
    local_search,
    soft_margin_scores,
    violated,
)
from svmcvx.formulations.rounding import round_relaxation
from svmcvx.formulations.zero_one import ZeroOne
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution

__all__ = ["at_zero", "heuristics"]

# Observations up to which the conic relaxation is solved.
MOST_ROWS = 5000
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
    statement: ZeroOne, warm_start: Solution | None, relaxed: Callable[[], ConicSDP]
) -> tuple[tuple[Incumbent, ...], Relaxation | None]:
    """Return good feasible points, and the conic relaxation if it could be solved; `relaxed` builds it."""
    geometry = statement.geometry
    n, r = geometry.G.shape
    if n <= RELAXATION_ROWS:
        return counting_pool(statement, warm_start, lam=statement.lam, k=statement.k)
    relaxation = _relaxation(statement, relaxed) if n <= MOST_ROWS and r <= RELAXATION_COLUMNS else None
    pool = at_zero(statement, warm_start)
    scores = [soft_margin_scores(geometry, 1.0)]
    points = [(point.w, 0.0) for point in pool]
    if relaxation is not None:
        w, _ = round_relaxation(statement.space, relaxation.w, relaxation.z, lam=statement.lam, k=statement.k)
        points.append((w, 0.0))
    best = local_search(geometry, statement.price, least=statement.least, scores=scores, points=points)
    return ((best,) if best is not None else ()) + pool, relaxation


def _relaxation(statement: ZeroOne, relaxed: Callable[[], ConicSDP]) -> Relaxation | None:
    """Solve the conic relaxation by an interior-point method; any point is welcome, however inaccurate."""
    if statement.k is not None and not 0.0 < statement.k <= LARGEST_SHARE * float(statement.weight.sum()):
        return None
    problem = relaxed()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return None
    found = problem.recover()
    if not found.duals or not usable(found.duals[0]["gamma"]):
        return None
    price = statement.lam if statement.lam is not None else float(found.duals[0]["lam"])
    z = np.clip(problem.var_dict["z"].value, 0.0, 1.0)
    return Relaxation(np.asarray(problem.w.value), z, np.asarray(found.duals[0]["gamma"]), price)
