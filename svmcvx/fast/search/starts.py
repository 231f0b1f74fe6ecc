"""Points from which a search starts: earlier solutions, soft margins, and the conic relaxation."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from svmcvx.arrays import Bools, Floats
from svmcvx.certificate import Dual
from svmcvx.errors import DataError, DataTypeError, SolverFailed
from svmcvx.fast.conic_loss.conic import minimised_relaxation
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.search.state import CountingSearch, RampSearch, SearchState
from svmcvx.formulations.conic_loss.models import relaxed_indicator
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.formulations.indicator.statement import IndicatorStatement
from svmcvx.formulations.signed_rows import elastic_filter, soft_margin_scores
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution

# Share of the time left that soft margins may take, and the relaxation.
TIME_SHARE = 0.3


def earlier_margins(
    warm_start: Solution | None, statement: IndicatorStatement, *, same: bool = False
) -> Floats | None:
    """Return the margins of an earlier solution's model, of the same data if these must be."""
    if warm_start is None:
        return None
    model, data = warm_start.model, statement.space.data
    if not isinstance(model, BinaryModel):
        raise DataTypeError(
            f"warm_start must be a Solution with a model of two classes, got {type(model).__name__}"
        )
    if same or not statement.space.is_linear:
        weight = None if warm_start.evidence is None else warm_start.evidence.weight
        sizes = [len(values) for values in warm_start.dual.values() if np.ndim(values) > 0]
        for size in sizes if weight is None else [weight.size, *sizes]:
            if size != data.rows:
                raise DataError(
                    f"warm_start must be a Solution of the same data: it is of {size}"
                    f" observations, these are {data.rows}"
                )
    return np.asarray(statement.y * model.scores(data.X).value)


def _soft_margins(search: SearchState) -> Iterator[Floats]:
    """Yield the margins of the distinct rows at soft-margin machines."""
    stop = search.monitor.deadline.share(TIME_SHARE).passed
    for cost in (0.1, 10.0):
        if not stop():
            yield soft_margin_scores(search.statement.geometry, cost, stop)[search.first]


def counting_starts(search: CountingSearch) -> Iterator[Bools]:
    """Yield sets kept by multiples of soft-margin machines, or one that drops few rows."""
    for u in _soft_margins(search):
        order = np.argsort(-u, kind="stable")
        dropped = np.append(np.cumsum(search.weight[order][::-1])[::-1][1:], 0.0)
        if math.isfinite(search.k):
            # As few as the budget asks for, if there is a multiple that keeps them.
            cuts = np.minimum(np.flatnonzero(dropped <= search.k)[:1], np.count_nonzero(u > 0) - 1)
        else:
            # The norm of the multiple that keeps the first few rows, in units of the machine's own.
            with np.errstate(divide="ignore"):
                value = np.where(u[order] > 0, 1.0 / u[order] ** 2, math.inf)
            prices = (0.03, 0.1, 0.3, 1.0)
            cuts = np.unique([int(np.argmin(price * value + dropped)) for price in prices])
        for cut in cuts:
            kept = np.zeros(u.size, dtype=bool)
            kept[order[: cut + 1]] = True
            yield kept
    if search.best is None:
        stop = search.monitor.deadline.share(TIME_SHARE).passed
        yield np.isinf(elastic_filter(search.statement.geometry, stop)[search.first])


def ramp_starts(search: RampSearch) -> Iterator[Bools]:
    """Yield what soft-margin machines give up of the distinct rows."""
    for u in _soft_margins(search):
        yield u < 0.0


def relaxation(search: CountingSearch, rng: np.random.Generator) -> tuple[Dual, list[Bools]]:
    """Return the conic relaxation's dual point and kept sets of rows, nothing on failure."""
    statement, monitor = search.statement, search.monitor
    total, G = float(statement.weight.sum()), statement.geometry.G
    kappa = None if statement.k is None else statement.k / total
    if G.size > 1e7 or (kappa is not None and not 0.0 < kappa <= 0.5):
        return {}, []
    relaxed = ConicLoss(space=statement.space, lam=statement.lam, kappa=kappa, improve_alpha=False)
    part = Monitor(1e-5, 5000, deadline=monitor.deadline.share(TIME_SHARE))
    try:
        found = minimised_relaxation(relaxed, part, rng)
    except SolverFailed:
        return {}, []
    U, ridge = found.problem.U, found.problem.ridge
    variance = np.sum((G @ U[:, 1:]) ** 2, axis=1) + ridge * np.sum(G**2, axis=1)
    u = G @ U[:, 0]
    z, u = relaxed_indicator(u, variance)[search.first], u[search.first]
    sets = [z <= 0.25, z <= 0.5, z <= 0.75, u >= 0.0, u >= 0.5]
    if kappa is not None:
        orders = [np.argsort(score, kind="stable") for score in (-z, u)]
        sets = [np.ones(z.size, dtype=bool) for _ in orders]
        for kept, order in zip(sets, orders, strict=True):
            kept[order[np.cumsum(search.weight[order]) <= search.k]] = False
    lam = found.best_dual["lam"] if statement.lam is None else np.array(statement.lam)
    return {"gamma": found.best_dual["gamma"], "lam": lam}, sets
