"""Scores from machines with squared hinge loss, which propose observations to drop."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.heuristics.signed_rows import Geometry, never
from svmcvx.system.abandoned import awaited, cholesky
from svmcvx.system.deadline import OutOfTime

__all__ = ["elastic_filter", "soft_margin_scores"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# The elastic filter: price of slack, slacks that count as none, observations tried in each step, and machines solved, at most, in
# units of their size.
HARD, SEPARATED, TRIED, WORK = 1e6, 1e-3, 5, 3e9
NEWTON_STEPS = 50
# Price of the squared bias where it is free: the system has to be definite.
BIAS = 1e-8


def soft_margin_scores(geometry: Geometry, cost: float, stop: Callable[[], bool] = never) -> Floats:
    r"""Return the margins u of :math:`\min \|w\|^2 + \mathrm{cost} \sum s_i (1-u_i)_+^2`, rows divided by their largest entry."""
    return _soft_margin(*_scaled(geometry), geometry.weight, cost, None, stop)[0]


def elastic_filter(geometry: Geometry, stop: Callable[[], bool] = never) -> Floats:
    """Return a score that drops few observations before the others are separable.

    Of the observations with the largest slacks, that one is dropped first whose loss lets the total slack fall the most,
    and so on (Chinneck's heuristic for the largest feasible subsystem).

    Parameters
    ----------
    geometry : Geometry
    stop : callable
        Asked before each step.
    """
    n = geometry.y.size
    score, kept = np.full(n, np.inf), np.ones(n, dtype=bool)
    if stop():
        return score
    rows, norm = _scaled(geometry)
    u, _, w = _soft_margin(rows, norm, geometry.weight, HARD, None, stop)
    most = int(min(n - 1, max(WORK / (TRIED * 20.0 * n * rows.shape[1] ** 2), 1)))
    for rank in range(most):
        slack = np.where(kept, 1.0 - u, -np.inf)
        candidates = [i for i in np.argsort(slack)[::-1][:TRIED] if slack[i] > SEPARATED]
        if not candidates or stop():
            break
        trials = []
        for i in candidates:
            weight = np.where(kept, geometry.weight, 0.0)
            weight[i] = 0.0
            trials.append((*_soft_margin(rows, norm, weight, HARD, w, stop), i))
        u, _, w, chosen = min(trials, key=lambda trial: trial[1])
        score[chosen], kept[chosen] = rank, False
    return score


def _scaled(geometry: Geometry) -> tuple[Floats, Floats]:
    """Return the rows divided by their largest entry, with the signed constant if the bias is free, and the price of each column."""
    G, y = geometry.G, geometry.y
    rows = G / (float(np.abs(G).max(initial=0.0)) or 1.0)
    norm = np.ones(rows.shape[1])
    if not geometry.free:
        return rows, norm
    return np.column_stack([rows, y]), np.append(norm, BIAS)


def _second_moments(rows: Floats, chosen: NDArray[np.intp], price: Floats) -> Floats:
    some = rows[chosen]
    return np.asarray((some * price[:, None]).T @ some)


def _soft_margin(
    rows: Floats, norm: Floats, weight: Floats, cost: float, start: Floats | None, stop: Callable[[], bool]
) -> tuple[Floats, float, Floats]:
    """Return margins, weighted sum of squared slacks and w of the squared-hinge machine, by Newton's method."""
    w = np.zeros(norm.size) if start is None else start

    def value_at(u: Floats, w: Floats) -> float:
        return float(norm @ w**2 + cost * (weight @ np.maximum(1.0 - u, 0.0) ** 2))

    u = rows @ w
    value = value_at(u, w)
    for _ in range(NEWTON_STEPS):
        if stop():
            break
        price = np.where(u < 1.0, cost * weight, 0.0)
        gradient = norm * w - rows.T @ (price * (1.0 - u))
        lost = np.flatnonzero(price)
        try:
            hessian = np.diag(norm) + awaited(_second_moments, rows, lost, price[lost])
            triangle = cholesky(hessian)
            step = -sl.cho_solve((triangle, True), gradient, check_finite=False)
        except np.linalg.LinAlgError:
            step = sl.lstsq(hessian, -gradient, lapack_driver="gelsy", check_finite=False)[0]
        except OutOfTime:
            break
        size, before = 1.0, value
        while size > 1e-6:
            new = w + size * step
            there = rows @ new
            value = value_at(there, new)
            if value < before:
                break
            size /= 2
        if not value < before * (1.0 - 1e-12):
            break
        w, u = new, there
    return u, float(weight @ np.maximum(1.0 - u, 0.0) ** 2), w
