r"""Small problems with hinge losses and hard constraints, solved by an interior-point method;
starting points from them.

.. math:: \min_{w, b}\; \tfrac12\|w\|^2 + \sum_i c_i (t_i - u_i)_+, \qquad u_i = g_i'w + y_i b,

where :math:`c_i = \infty` makes the row hard: :math:`u_i \ge t_i`. The dual has a multiplier in a
box for each row,

.. math:: \max_\alpha\; t'\alpha - \tfrac12\|G'\alpha\|^2 \quad\text{s.t.}\quad 0 \le \alpha \le c,\; y'\alpha = 0,

the last with a free bias only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.heuristics.signed_rows import SignedRows, never
from svmcvx.system.cancellation import cholesky, run_with_deadline
from svmcvx.system.deadline import OutOfTime

__all__ = ["hinge_machine", "ramp_descent", "restricted_point"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# Interior-point steps, at most; the relative gap and the violation at which they end.
STEPS, ACCURATE = 100, 1e-11
# An objective below this, in units of the cost of one row, counts as zero.
NEGLIGIBLE = 1e-6
# A point with a larger relative gap or violation counts as not solved.
SOLVED = 1e-5
# Largest fraction of the step to the boundary, and the shortest step that counts as progress.
INSIDE, SHORTEST = 0.99, 1e-12
# By how much hard rows are tightened, so that they hold in spite of the method's accuracy.
CLEAR = 3e-8
# Steps of the convex-concave procedure, at most.
DESCENT_STEPS = 20


def hinge_machine(
    G: Floats, y: Floats | None, threshold: Floats, cost: Floats, stop: Callable[[], bool] = never
) -> tuple[Floats, float] | None:
    """Return (w, b), or None if the method did not converge, for example because the hard rows are
    infeasible.
    """
    m, r = G.shape
    if m == 0:
        return np.zeros(r), 0.0
    if y is not None and (y == y[0]).all():
        # The bias alone satisfies the rows of one class.
        return np.zeros(r), float(y[0] * threshold.max())
    scale = float(np.sqrt(np.max(np.einsum("ij,ij->i", G, G)))) or 1.0
    # In units in which the longest row has length 1: w is multiplied by the scale, costs and
    # objective by its square.
    H, cost = G / scale, cost * scale**2
    boxed = np.isfinite(cost)
    border = np.zeros(m) if y is None else y
    upper = np.where(boxed, cost, 1.0)
    alpha = np.where(boxed, 0.5 * np.minimum(upper, 2.0), 1.0)
    # Stored besides α, because the difference of the two numbers would cancel near the upper bound.
    room = np.where(boxed, upper - alpha, 1.0)
    low, high = np.ones(m), np.where(boxed, 1.0, 0.0)
    b = 0.0
    sides = m + int(boxed.sum())
    best: tuple[float, Floats, float] | None = None
    for _ in range(STEPS):
        w = H.T @ alpha
        u = H @ w + b * border
        error = _error(w, u, alpha, border, threshold, cost)
        if math.isfinite(error) and (best is None or error < best[0]):
            best = error, w, b
        if error <= ACCURATE or stop():
            break
        dual_rest = threshold - u + low - high
        balance = -float(border @ alpha)
        theta = low / alpha + np.where(boxed, high / room, 0.0)
        weighted = H / theta[:, None]
        system = np.empty((r + 1, r + 1))
        try:
            system[:r, :r] = run_with_deadline(np.matmul, H.T, weighted)
        except OutOfTime:
            break
        system[np.diag_indices(r)] += 1.0
        system[:r, r] = system[r, :r] = weighted.T @ border
        system[r, r] = float(border @ (border / theta)) if y is not None else 1.0
        try:
            factor = cholesky(system), True
        except (np.linalg.LinAlgError, OutOfTime):
            break
        mu = (float(low @ alpha) + float(high[boxed] @ room[boxed])) / sides
        step = _step(
            H, border, theta, factor, dual_rest, balance, alpha, low, high, room, boxed, 0.0
        )
        length = _length(alpha, low, high, room, boxed, step)
        d_alpha, _, d_low, d_high = step
        after = float((low + length * d_low) @ (alpha + length * d_alpha))
        after += float((high + length * d_high)[boxed] @ (room - length * d_alpha)[boxed])
        centring = (after / sides / mu) ** 3 * mu
        corrections = d_alpha * d_low, d_alpha * d_high
        step = _step(
            H,
            border,
            theta,
            factor,
            dual_rest,
            balance,
            alpha,
            low,
            high,
            room,
            boxed,
            centring,
            *corrections,
        )
        length = _length(alpha, low, high, room, boxed, step)
        if not length > SHORTEST:
            break
        alpha = alpha + length * step[0]
        room = np.where(boxed, room - length * step[0], 1.0)
        b += length * step[1]
        low, high = low + length * step[2], high + length * step[3]
    if best is None or not best[0] <= SOLVED:
        return None
    return best[1] / scale, best[2]


def _error(
    w: Floats, u: Floats, alpha: Floats, border: Floats, threshold: Floats, cost: Floats
) -> float:
    """Return the largest of the relative gap, the violation of a hard row, and that of the balance
    of the multipliers.
    """
    short = np.maximum(threshold - u, 0.0)
    hard = ~np.isfinite(cost)
    norm = float(w @ w)
    primal = 0.5 * norm + float(cost[~hard] @ short[~hard])
    dual = float(threshold @ alpha) - 0.5 * norm
    size = max(NEGLIGIBLE * min(1.0, float(cost.min())), np.finfo(np.float64).tiny)
    gap = abs(primal - dual) / max(abs(primal), abs(dual), size)
    balance = abs(float(border @ alpha)) / max(float(alpha.sum()), size)
    violation = float((short / np.maximum(1.0, np.abs(threshold)))[hard].max(initial=0.0))
    return max(gap, violation, balance)


def _step(
    H: Floats,
    border: Floats,
    theta: Floats,
    factor: tuple[Floats, bool],
    dual_rest: Floats,
    balance: float,
    alpha: Floats,
    low: Floats,
    high: Floats,
    room: Floats,
    boxed: Bools,
    centring: float,
    below: Floats | float = 0.0,
    above: Floats | float = 0.0,
) -> tuple[Floats, float, Floats, Floats]:
    """Return the steps of α, b and the multipliers of both sides of the box; the last two arguments
    correct the products.
    """
    r = H.shape[1]
    to_low = (centring - alpha * low - below) / alpha
    to_high = np.where(boxed, (centring - room * high + above) / room, 0.0)
    right = dual_rest + to_low - to_high
    scaled = right / theta
    solved = sl.cho_solve(
        factor, np.append(H.T @ scaled, float(border @ scaled) - balance), check_finite=False
    )
    d_w, d_b = solved[:r], float(solved[r]) if border.any() else 0.0
    d_alpha = (right - H @ d_w - border * d_b) / theta
    d_low = to_low - low * d_alpha / alpha
    d_high = np.where(boxed, to_high + high * d_alpha / room, 0.0)
    return d_alpha, d_b, d_low, d_high


def _length(
    alpha: Floats,
    low: Floats,
    high: Floats,
    room: Floats,
    boxed: Bools,
    step: tuple[Floats, float, Floats, Floats],
) -> float:
    """Return the longest step, up to 1, that stays inside."""
    d_alpha, _, d_low, d_high = step
    longest = 1.0
    for value, change in (
        (alpha, d_alpha),
        (low, d_low),
        (room[boxed], -d_alpha[boxed]),
        (high[boxed], d_high[boxed]),
    ):
        falling = change < 0
        if falling.any():
            longest = min(longest, INSIDE * float((-value[falling] / change[falling]).min()))
    return longest


def restricted_point(
    geometry: SignedRows, kept: Bools, M: Floats, C: float | None
) -> tuple[Floats, float] | None:
    """Return the best (w, b) that drops a set while u ≥ 1 − M on it, feasible by a little more than
    rounding.
    """
    limited = ~kept & np.isfinite(M)
    allowed = np.where(limited, M, 0.0)
    threshold = 1.0 - allowed + CLEAR * (1.0 + allowed)
    cost = np.full(kept.size, math.inf)
    rows = [np.flatnonzero(kept | limited)]
    if C is not None:
        # A loss of at most 2 is a margin of at least −1: a hard row in addition to the hinge.
        cost[kept] = C * geometry.weight[kept]
        rows.append(np.flatnonzero(kept))
        threshold = np.concatenate([threshold[rows[0]], np.full(rows[1].size, -1.0 + CLEAR)])
        cost = np.concatenate([cost[rows[0]], np.full(rows[1].size, math.inf)])
    else:
        threshold, cost = threshold[rows[0]], cost[rows[0]]
    chosen = np.concatenate(rows)
    return hinge_machine(
        geometry.G[chosen], geometry.y[chosen] if geometry.free else None, threshold, cost
    )


def ramp_descent(
    geometry: SignedRows, C: float, dropped: Bools, stop: Callable[[], bool] = never
) -> tuple[Floats, float]:
    """Solve the hinge problem without the dropped observations, then drop those with u < −1; repeat
    until the set does not change.
    """
    point = np.zeros(geometry.G.shape[1]), 0.0
    for _ in range(DESCENT_STEPS):
        if stop():
            break
        kept = ~dropped
        y = geometry.y[kept] if geometry.free else None
        found = hinge_machine(
            geometry.G[kept], y, np.ones(int(kept.sum())), C * geometry.weight[kept], stop
        )
        if found is None:
            break
        point = found
        now = geometry.G @ point[0] + (geometry.y * point[1] if geometry.free else 0.0) < -1.0
        if (now == dropped).all():
            break
        dropped = now
    return point
