"""Starting points of a search for the exact 0-1 loss: feasible points, and the conic relaxation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError, DataTypeError, SolverFailed
from svmcvx.fast.conic_loss.conic import minimised_relaxation
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.indicator.search.state import (
    CountingSearch,
    RampSearch,
    SearchSettings,
    ZeroOneSearch,
)
from svmcvx.formulations.conic_loss.models import relaxed_indicator
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.formulations.indicator.pool import RelaxedPoint, counting_pool
from svmcvx.formulations.indicator.statement import IndicatorStatement, ZeroOne
from svmcvx.heuristics.local_search import local_search
from svmcvx.heuristics.machines import elastic_filter, soft_margin_scores
from svmcvx.heuristics.signed_rows import ON_MARGIN, Incumbent, violated
from svmcvx.losses import zero_one
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Weights of the slacks in the SVMs that propose sets, and of their squared norm if one is cut.
COSTS, PRICES = (0.1, 10.0), (0.03, 0.1, 0.3, 1.0)
# Largest share for which the cardinality form of the relaxation is stated.
LARGEST_SHARE = 0.5
# Observations and columns up to which the relaxation of larger problems is solved.
MOST_ROWS = 100_000
MOST_COLUMNS = 1000
# Relative gap to which the relaxation is solved.
RELAXATION_TOL = 1e-5
# Share of the time left that soft margins may take, the relaxation, and the heuristics after it.
TIME_SHARE = 0.3
# Newton steps of its solver, at most.
RELAXATION_STEPS = 5000


def earlier_margins(
    warm_start: Solution | None, statement: IndicatorStatement, *, same: bool = False
) -> Floats | None:
    """Return the margins of an earlier solution's model, if need be of the same data; None for None."""
    if warm_start is None:
        return None
    model, data = warm_start.model, statement.space.data
    if not isinstance(model, BinaryModel):
        raise DataTypeError(
            f"warm_start must be a Solution with a model of two classes, got {type(model).__name__}"
        )
    if same or not statement.space.is_linear:
        weight = None if warm_start.evidence is None else warm_start.evidence.weight
        if weight is not None and weight.size != data.rows:
            raise DataError(
                f"warm_start must be a Solution of the same data: it is of {weight.size} observations,"
                f" these are {data.rows}"
            )
        for name, values in warm_start.dual.items():
            if np.ndim(values) > 0 and len(values) != data.rows:
                raise DataError(
                    f"warm_start must be a Solution of the same data: its {name} has"
                    f" {len(values)} entries, these are {data.rows} observations"
                )
    return np.asarray(statement.y * model.scores(data.X).value)


def simple_starts(statement: ZeroOne, earlier: Floats | None) -> tuple[Incumbent, ...]:
    """Return w = 0, and the point of least norm that keeps what an earlier solution with these
    margins keeps.
    """
    geometry = statement.geometry
    points = [geometry.incumbent(np.zeros(geometry.G.shape[1]), 0.0, zero_one)]
    if earlier is not None:
        found = geometry.refit(earlier >= 1.0 - ON_MARGIN)
        if found is not None:
            points.append(geometry.incumbent(found.w, 0.0, violated))
    return tuple(points)


def counting_starts(search: CountingSearch) -> Iterator[Bools]:
    """Yield sets of distinct rows that multiples of soft-margin machines keep; if none fits a
    budget, one that drops few rows.
    """
    geometry, stop = search.statement.geometry, search.monitor.deadline.share(TIME_SHARE).passed
    for cost in COSTS:
        if stop():
            break
        u = soft_margin_scores(geometry, cost, stop)[search.first]
        order = np.argsort(-u, kind="stable")
        dropped = np.append(np.cumsum(search.weight[order][::-1])[::-1][1:], 0.0)
        if math.isfinite(search.k):
            # As few as the budget asks for, if there is a multiple that keeps them.
            cuts = np.minimum(np.flatnonzero(dropped <= search.k)[:1], np.count_nonzero(u > 0) - 1)
        else:
            # The norm of the multiple that keeps the first few rows, in units of the machine's own.
            with np.errstate(divide="ignore"):
                value = np.where(u[order] > 0, 1.0 / u[order] ** 2, math.inf)
            cuts = np.unique([int(np.argmin(price * value + dropped)) for price in PRICES])
        for cut in cuts:
            kept = np.zeros(u.size, dtype=bool)
            kept[order[: cut + 1]] = True
            yield kept
    if search.best is None:
        yield np.isinf(elastic_filter(geometry, stop)[search.first])


def ramp_starts(search: RampSearch) -> Iterator[Bools]:
    """Yield all rows, and those that soft-margin machines do not give up."""
    geometry, stop = search.statement.geometry, search.monitor.deadline.share(TIME_SHARE).passed
    yield np.ones(search.weight.size, dtype=bool)
    for cost in COSTS:
        if stop():
            break
        yield soft_margin_scores(geometry, cost, stop)[search.first] >= 0.0


def starts(
    search: ZeroOneSearch, rng: np.random.Generator, settings: SearchSettings
) -> tuple[tuple[Incumbent, ...], RelaxedPoint | None]:
    """Return good feasible points, and the point of the conic relaxation if it could be solved."""
    statement, monitor = search.statement, search.monitor
    geometry = statement.geometry
    n, r = geometry.G.shape
    stop = monitor.deadline.share(TIME_SHARE).passed
    if n <= settings.relaxation_rows:
        return counting_pool(statement, None, lam=statement.lam, k=statement.k, stop=stop)
    solvable = n <= MOST_ROWS and r <= MOST_COLUMNS
    relaxation = _relaxation(statement, monitor, rng) if solvable else None
    pool = () if search.best is None else (search.best,)
    scores = [soft_margin_scores(geometry, 1.0, stop), *(point.u for point in pool)]
    if relaxation is not None:
        scores += [-relaxation.z, geometry.G @ relaxation.w]
    best = local_search(geometry, statement.objective_value, scores=scores, stop=stop)
    return ((best,) if best is not None else ()) + pool, relaxation


def _relaxation(
    statement: ZeroOne, monitor: Monitor, rng: np.random.Generator
) -> RelaxedPoint | None:
    """Solve the conic relaxation on the space of the statement, as accurately as the limits allow."""
    total = float(statement.weight.sum())
    if statement.k is not None and not 0.0 < statement.k <= LARGEST_SHARE * total:
        return None
    kappa = None if statement.k is None else statement.k / total
    relaxed = ConicLoss(space=statement.space, lam=statement.lam, kappa=kappa, improve_alpha=False)
    part = Monitor(RELAXATION_TOL, RELAXATION_STEPS, deadline=monitor.deadline.share(TIME_SHARE))
    try:
        search = minimised_relaxation(relaxed, part, rng)
    except SolverFailed:
        return None
    dual, U, ridge = search.best_dual, search.problem.U, search.problem.ridge
    G = statement.geometry.G
    w, variance = U[:, 0], np.sum((G @ U[:, 1:]) ** 2, axis=1) + ridge * np.sum(G**2, axis=1)
    lam = statement.lam if statement.lam is not None else float(dual["lam"])
    return RelaxedPoint(w, relaxed_indicator(G @ w, variance), dual["gamma"], lam)
