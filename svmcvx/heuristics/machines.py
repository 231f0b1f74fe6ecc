r"""Machines from which searches start.

The hinge machine with some hard rows is a quadratic program, solved by Clarabel:

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 + \sum_i c_i (t_i - u_i)_+, \qquad u_i = g_i'w + y_i b,

where :math:`c_i = \infty` makes the row hard: :math:`u_i \ge t_i`. Scores come from the machine
with squared hinge losses, by Newton's method.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import clarabel
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from svmcvx.arrays import Bools, Floats
from svmcvx.certificate import EPS
from svmcvx.heuristics.signed_rows import SignedRows, never
from svmcvx.numerical import line_search
from svmcvx.system.deadline import OutOfTime, current, run_with_deadline

# Larger than any slope of the losses of other rows: a price at which no row is given up.
HARD = 1e6


def hinge_machine(
    G: Floats, y: Floats | None, threshold: Floats, cost: Floats
) -> tuple[Floats, float] | None:
    """Return (w, b), or None without convergence, for example for infeasible hard rows."""
    m, r = G.shape
    if m == 0:
        return np.zeros(r), 0.0
    if y is not None and (y == y[0]).all():
        # The bias alone satisfies the rows of one class.
        return np.zeros(r), float(y[0] * threshold.max())
    scale = float(np.sqrt(np.max(np.einsum("ij,ij->i", G, G)))) or 1.0
    # In units in which the longest row has length 1: w is multiplied by the scale, costs by its
    # square. The variables are w, b if there is one, and the slacks of the rows that are not hard.
    rows = G / scale if y is None else np.column_stack([G / scale, y])
    columns, soft = rows.shape[1], np.flatnonzero(np.isfinite(cost))
    k = soft.size
    norm, price = np.zeros(columns + k), np.zeros(columns + k)
    norm[:r], price[columns:] = 1.0, cost[soft] * scale * scale
    # Columns of the rows, and those of the slacks, which have an entry in their row and in their
    # bound.
    places = np.stack([soft, m + np.arange(k)], axis=1).ravel()
    places = np.concatenate([np.tile(np.arange(m), columns), places])
    ends = np.concatenate([m * np.arange(columns + 1), m * columns + 2 * np.arange(1, k + 1)])
    entries = np.concatenate([rows.ravel(order="F"), np.ones(2 * k)])
    settings = clarabel.DefaultSettings()
    settings.verbose, settings.max_threads = False, 1
    settings.time_limit = current().remaining
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 100 * EPS
    found = clarabel.DefaultSolver(
        sp.csc_matrix((norm, np.arange(columns + k), np.arange(columns + k + 1))),
        price,
        sp.csc_matrix((-entries, places, ends), shape=(m + k, columns + k)),
        np.concatenate([-threshold, np.zeros(k)]),
        [clarabel.NonnegativeConeT(m + k)],
        settings,
    ).solve()
    point = np.array(found.x)
    if "Solved" not in str(found.status) or not np.isfinite(point).all():
        return None
    return point[:r] / scale, 0.0 if y is None else float(point[r])


def restricted_point(
    geometry: SignedRows, kept: Bools, M: Floats, C: float | None
) -> tuple[Floats, float] | None:
    """Return the best (w, b) that drops a set with u ≥ 1 − M on it, feasible beyond rounding."""
    limited = ~kept & np.isfinite(M)
    allowed = np.where(limited, M, 0.0)
    threshold = 1.0 - allowed + np.sqrt(EPS) * (1.0 + allowed)
    hard = np.full(kept.size, np.inf)
    chosen = np.flatnonzero(kept | limited)
    cost = hard
    if C is not None:
        # A loss of at most 2 is a margin of at least −1: a hard row in addition to the hinge.
        chosen = np.concatenate([chosen, np.flatnonzero(kept)])
        cost = np.where(kept, C * geometry.weight, np.inf)
    twice = np.arange(chosen.size) >= np.count_nonzero(kept | limited)
    return hinge_machine(
        geometry.G[chosen],
        geometry.y[chosen] if geometry.free else None,
        np.where(twice, np.sqrt(EPS) - 1.0, threshold[chosen]),
        np.where(twice, np.inf, cost[chosen]),
    )


def ramp_descent(
    geometry: SignedRows, C: float, dropped: Bools, stop: Callable[[], bool] = never
) -> tuple[Floats, float]:
    """Solve the hinge problem, drop observations with u < −1, and repeat until none changes."""
    point, seen = (np.zeros(geometry.G.shape[1]), 0.0), set()
    while (key := dropped.tobytes()) not in seen and not stop():
        seen.add(key)
        kept = ~dropped
        y = geometry.y[kept] if geometry.free else None
        found = hinge_machine(geometry.G[kept], y, np.ones(kept.sum()), C * geometry.weight[kept])
        if found is None:
            break
        point = found
        dropped = geometry.margins(*point) < -1.0
    return point


def soft_margin_scores(
    geometry: SignedRows, cost: float, stop: Callable[[], bool] = never
) -> Floats:
    r"""Return u of :math:`\min \|w\|^2 + \mathrm{cost} \sum s_i (1-u_i)_+^2` for scaled rows."""
    return squared_hinge(*_scaled(geometry), geometry.weight, cost, None, stop)[0]


def elastic_filter(
    geometry: SignedRows,
    stop: Callable[[], bool] = never,
    *,
    tried: int = 5,
    slack: float = 1e-3,
    work: float = 3e9,
) -> Floats:
    """Return a score that drops few rows, in each step the most helpful of the largest slacks."""
    n = geometry.y.size
    score, kept = np.full(n, np.inf), np.ones(n, dtype=bool)
    rows, norm = _scaled(geometry)
    u, _, w = squared_hinge(rows, norm, geometry.weight, HARD, None, stop)
    most = int(min(n - 1, max(work / (tried * 20.0 * n * rows.shape[1] ** 2), 1)))
    for rank in range(most):
        short = np.where(kept, 1.0 - u, -np.inf)
        candidates = [i for i in np.argsort(short)[::-1][:tried] if short[i] > slack]
        if not candidates or stop():
            break
        trials = []
        for i in candidates:
            weight = np.where(kept, geometry.weight, 0.0)
            weight[i] = 0.0
            trials.append((*squared_hinge(rows, norm, weight, HARD, w, stop), i))
        u, _, w, chosen = min(trials, key=lambda trial: trial[1])
        score[chosen], kept[chosen] = rank, False
    return score


def _scaled(geometry: SignedRows) -> tuple[Floats, Floats]:
    """Return the scaled rows, with the signed constant of a free bias, and the columns' prices."""
    G = geometry.G
    rows = G / (float(np.abs(G).max(initial=0.0)) or 1.0)
    norm = np.ones(rows.shape[1])
    if not geometry.free:
        return rows, norm
    # A price of the squared bias makes the system definite.
    return np.column_stack([rows, geometry.y]), np.append(norm, np.sqrt(EPS))


def squared_hinge(
    rows: Floats,
    norm: Floats,
    weight: Floats,
    cost: float,
    start: Floats | None,
    stop: Callable[[], bool],
) -> tuple[Floats, float, Floats]:
    r"""Minimise :math:`\sum_j n_j w_j^2 + c\sum_i s_i (1-u_i)_+^2`; return u = Gw, the loss, w."""
    w = np.zeros(norm.size) if start is None else start
    u, price = rows @ w, cost * weight
    for _ in range(100):
        if stop():
            break
        short = u < 1.0
        lost = np.flatnonzero(short & (price > 0.0))
        some, slope = rows[lost], price[lost] * (1.0 - u[lost])
        gradient = norm * w - some.T @ slope
        try:
            step = -run_with_deadline(_newton_step, some, norm, price[lost], gradient)
        except (np.linalg.LinAlgError, OutOfTime):
            break
        promised = -float(gradient @ step)
        if not promised > 50 * EPS * (float(norm @ w**2) + float(slope @ (1.0 - u[lost]))):
            break
        change = rows @ step
        norm_terms = float((norm * w) @ step), float((norm * step) @ step)
        t = line_search(partial(_derivative, *norm_terms, price, 1.0 - u, change), -promised)
        w, u = w + t * step, u + t * change
        if t == 0.0 or (t == 1.0 and np.array_equal(u < 1.0, short)):
            break
    return u, float(weight @ np.maximum(1.0 - u, 0.0) ** 2), w


def _derivative(
    linear: float, square: float, price: Floats, short: Floats, change: Floats, t: float
) -> float:
    return linear + t * square - float((price * np.maximum(short - t * change, 0.0)) @ change)


def _newton_step(some: Floats, norm: Floats, price: Floats, gradient: Floats) -> Floats:
    hessian = np.diag(norm) + (some * price[:, None]).T @ some
    factor = np.linalg.cholesky(hessian), True
    return np.asarray(sl.cho_solve(factor, gradient, check_finite=False))
