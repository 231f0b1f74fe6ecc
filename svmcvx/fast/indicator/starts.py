"""Where a search for the exact 0-1 loss starts: feasible points, and the conic relaxation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.conic_loss.conic import minimised_relaxation
from svmcvx.fast.core.monitor import Monitor
from svmcvx.formulations.conic_loss.primal import relaxed_indicator
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.formulations.indicator.pool import RELAXATION_ROWS, RelaxedPoint, counting_pool
from svmcvx.formulations.indicator.zero_one import ZeroOne
from svmcvx.heuristics.local_search import local_search
from svmcvx.heuristics.rounding import round_relaxation
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent, violated
from svmcvx.heuristics.soft_margin import soft_margin_scores
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution

__all__ = ["StartSettings", "earlier_margins", "simple_starts", "starts"]

Floats: TypeAlias = NDArray[np.float64]

# The cardinality form of the relaxation is stated for shares up to this one.
LARGEST_SHARE = 0.5


@dataclass(frozen=True)
class StartSettings:
    """Numbers that steer the search for starting points.

    Attributes
    ----------
    small : int
        Observations up to which all heuristics of the builders run, with their own minimisation of the relaxation.
    most_rows, most_columns : int
        Observations and columns up to which the relaxation of more is solved.
    tol : float
        Relative gap to which it is solved.
    time_share : float
        Share of the time limit that it may take.
    max_iter : int
        Newton steps of its solver.
    rounded_rows, rounded_rows_limited : int
        Observations up to which its solution is rounded, without and with a time limit: rounding cannot be interrupted.
    """

    small: int = RELAXATION_ROWS
    most_rows: int = 100_000
    most_columns: int = 1000
    tol: float = 1e-5
    time_share: float = 0.3
    max_iter: int = 5000
    rounded_rows: int = 5000
    rounded_rows_limited: int = 2000


def earlier_margins(warm_start: Solution, statement: ZeroOne) -> Floats:
    """Return the margins of an earlier solution's model.

    Raises
    ------
    DataError
        If the solution is not one of two classes on as many observations and features.
    """
    model, data = warm_start.model, statement.space.data
    if not isinstance(model, BinaryModel):
        raise DataError(f"warm_start must be a Solution with a model of two classes, got {type(model).__name__}")
    for name, values in warm_start.dual.items():
        if np.ndim(values) > 0 and len(values) != data.rows:
            raise DataError(
                f"warm_start must be a Solution of the same data: its {name} has {len(values)} entries, these are {data.rows} "
                "observations"
            )
    return np.asarray(statement.y * model.scores(data.X)[0])


def simple_starts(statement: ZeroOne, earlier: Floats | None) -> tuple[Incumbent, ...]:
    """Return w = 0, and the point of least norm that keeps what an earlier solution with these margins keeps."""
    geometry = statement.geometry
    points = [geometry.incumbent(np.zeros(geometry.G.shape[1]), 0.0, zero_one)]
    if earlier is not None:
        found = geometry.refit(earlier >= 1.0 - ON_MARGIN)
        if found is not None:
            points.append(geometry.incumbent(found.w, 0.0, violated))
    return tuple(points)


def starts(
    statement: ZeroOne,
    earlier: Floats | None,
    monitor: Monitor,
    rng: np.random.Generator,
    settings: StartSettings,
) -> tuple[tuple[Incumbent, ...], RelaxedPoint | None]:
    """Return good feasible points, and the point of the conic relaxation if it could be solved.

    Parameters
    ----------
    statement : ZeroOne
    earlier : ndarray of shape (n,) or None
        Margins of an earlier solution.
    monitor : Monitor
        Its clock and its interruption hold for the relaxation too.
    rng : Generator
        Draws the sample that precedes the relaxation of many observations.
    settings : StartSettings
    """
    geometry = statement.geometry
    n, r = geometry.G.shape
    if n <= settings.small:
        return counting_pool(statement, earlier, lam=statement.lam, k=statement.k)
    solvable = n <= settings.most_rows and r <= settings.most_columns
    relaxation = _relaxation(statement, monitor, rng, settings) if solvable else None
    pool = simple_starts(statement, earlier)
    scores = [soft_margin_scores(geometry, 1.0)]
    points = [(point.w, 0.0) for point in pool]
    if relaxation is not None:
        scores += [-relaxation.z, geometry.G @ relaxation.w]
        rows = settings.rounded_rows if monitor.time_limit is None else settings.rounded_rows_limited
        if n <= rows:
            w, _ = round_relaxation(statement.space, relaxation.w, relaxation.z, lam=statement.lam, k=statement.k)
            points.append((w, 0.0))
    best = local_search(
        geometry, statement.objective_value, loss_bound=statement.loss_bound, scores=scores, points=points
    )
    return ((best,) if best is not None else ()) + pool, relaxation


def _relaxation(
    statement: ZeroOne, monitor: Monitor, rng: np.random.Generator, settings: StartSettings
) -> RelaxedPoint | None:
    """Solve the conic relaxation on the space of the statement, as accurately as the limits allow."""
    total = float(statement.weight.sum())
    if statement.k is not None and not 0.0 < statement.k <= LARGEST_SHARE * total:
        return None
    kappa = None if statement.k is None else statement.k / total
    relaxed = ConicLoss(space=statement.space, lam=statement.lam, kappa=kappa, improve_alpha=False)
    limit = None if monitor.time_limit is None else settings.time_share * monitor.time_limit
    part = Monitor(settings.tol, limit, settings.max_iter, False, None, monitor.pressed)
    try:
        search = minimised_relaxation(relaxed, part, rng)
    except SolverFailed:
        return None
    dual, U, ridge = search.best_dual, search.problem.U, search.problem.ridge
    G = statement.geometry.G
    w, variance = U[:, 0], np.sum((G @ U[:, 1:]) ** 2, axis=1) + ridge * np.sum(G**2, axis=1)
    lam = statement.lam if statement.lam is not None else float(dual["lam"])
    return RelaxedPoint(w, relaxed_indicator(G @ w, variance), dual["gamma"], lam)
