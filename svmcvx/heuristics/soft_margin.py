"""Scores from machines with squared hinge loss, which propose observations to drop."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from svmcvx.heuristics.least_norm import FREE_BIAS
from svmcvx.heuristics.signed_rows import Geometry

__all__ = ["elastic_filter", "soft_margin_scores"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# The elastic filter: price of slack, slacks that count as none, and observations tried in each step.
HARD, SEPARATED, TRIED = 1e6, 1e-3, 5


def soft_margin_scores(geometry: Geometry, cost: float) -> Floats:
    r"""Return the margins u of :math:`\min \|w\|^2 + \mathrm{cost} \sum s_i (1-u_i)_+^2`."""
    return _soft_margin(geometry, cost, np.ones(geometry.y.size, dtype=bool))[0]


def elastic_filter(geometry: Geometry) -> Floats:
    """Return a score that drops few observations before the others are separable.

    Of the observations with the largest slacks, that one is dropped first whose loss lets the total slack fall the most,
    and so on (Chinneck's heuristic for the largest feasible subsystem).
    """
    n = geometry.y.size
    score, kept = np.full(n, np.inf), np.ones(n, dtype=bool)
    u, _ = _soft_margin(geometry, HARD, kept)
    for rank in range(n - 1):
        slack = np.where(kept, 1.0 - u, -np.inf)
        candidates = [i for i in np.argsort(slack)[::-1][:TRIED] if slack[i] > SEPARATED]
        if not candidates:
            break
        trials = []
        for i in candidates:
            smaller = kept.copy()
            smaller[i] = False
            trials.append((*_soft_margin(geometry, HARD, smaller), i))
        u, _, chosen = min(trials, key=lambda trial: trial[1])
        score[chosen], kept[chosen] = rank, False
    return score


def _soft_margin(geometry: Geometry, cost: float, kept: Bools) -> tuple[Floats, float]:
    """Margins of the squared-hinge machine of the observations kept, and their weighted sum of squared slacks.

    Least-distance programming in (w, ξ): the elastic version of :func:`least_norm`.
    """
    G, y, weight = geometry.G, geometry.y, geometry.weight
    scale = max(float(np.abs(G).max(initial=0.0)), np.finfo(float).tiny)
    columns = np.hstack([G, scale * FREE_BIAS * y[:, None]]) if geometry.free else G
    # In units of the largest entry of G, so that `cost` has a meaning whatever the scale of the data.
    columns = columns / scale
    elastic = np.diag(1.0 / np.sqrt(cost * weight[kept]))
    system = np.vstack([columns[kept].T, elastic, np.ones((1, int(kept.sum())))])
    try:
        mu, _ = nnls(system, np.append(np.zeros(system.shape[0] - 1), 1.0))
    except RuntimeError:
        return np.asarray(G.sum(axis=1)), math.inf
    rest = max(1.0 - float(mu.sum()), np.finfo(float).tiny)
    u = np.asarray(columns @ (columns[kept].T @ mu)) / rest
    return u, float(weight[kept] @ np.maximum(1.0 - u[kept], 0.0) ** 2)
