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
from typing import Any, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.heuristics.signed_rows import SignedRows, never
from svmcvx.numerical import NewtonStep, newton
from svmcvx.system.deadline import OutOfTime, run_with_deadline

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
    point = _InteriorPoint(G / scale, y, threshold, cost * scale * scale)
    best: tuple[float, Floats, float] | None = None
    for _ in range(STEPS):
        error = point.error()
        if math.isfinite(error) and (best is None or error < best[0]):
            best = error, point.w, point.b
        if error <= ACCURATE or stop() or not point.advance():
            break
    if best is None or not best[0] <= SOLVED:
        return None
    return best[1] / scale, best[2]


class _InteriorPoint:
    """A point inside the box, with its slacks and the multipliers of both sides."""

    def __init__(self, H: Floats, y: Floats | None, threshold: Floats, cost: Floats) -> None:
        m = H.shape[0]
        self.H, self.threshold, self.cost = H, threshold, cost
        self.free, self.border = y is not None, np.zeros(m) if y is None else y
        self.boxed = np.isfinite(cost)
        upper = np.where(self.boxed, cost, 1.0)
        self.alpha = np.where(self.boxed, 0.5 * np.minimum(upper, 2.0), 1.0)
        # Stored besides α, because the difference of the two numbers would cancel near the upper
        # bound.
        self.room = np.where(self.boxed, upper - self.alpha, 1.0)
        self.low, self.high, self.b = np.ones(m), np.where(self.boxed, 1.0, 0.0), 0.0

    def error(self) -> float:
        """Return the largest of the relative gap, the violation of a hard row, and that of the
        balance of the multipliers.
        """
        alpha, threshold = self.alpha, self.threshold
        self.w = self.H.T @ alpha
        self.u = self.H @ self.w + self.b * self.border
        short, norm = np.maximum(threshold - self.u, 0.0), float(self.w @ self.w)
        primal = 0.5 * norm + float(self.cost[self.boxed] @ short[self.boxed])
        dual = float(threshold @ alpha) - 0.5 * norm
        tiny = np.finfo(np.float64).tiny
        size = max(NEGLIGIBLE * min(1.0, float(self.cost.min())), tiny)
        gap = abs(primal - dual) / max(abs(primal), abs(dual), size)
        balance = abs(float(self.border @ alpha)) / max(float(alpha.sum()), size)
        violation = (short / np.maximum(1.0, np.abs(threshold)))[~self.boxed].max(initial=0.0)
        return max(gap, float(violation), balance)

    def advance(self) -> bool:
        """Make a predictor-corrector step; return whether it is longer than rounding."""
        H, border, r = self.H, self.border, self.H.shape[1]
        self.theta = self.low / self.alpha + np.where(self.boxed, self.high / self.room, 0.0)
        weighted, system = H / self.theta[:, None], np.empty((r + 1, r + 1))
        try:
            system[:r, :r] = run_with_deadline(np.matmul, H.T, weighted)
            system[np.diag_indices(r)] += 1.0
            system[:r, r] = system[r, :r] = weighted.T @ border
            system[r, r] = float(border @ (border / self.theta)) if self.free else 1.0
            factor = run_with_deadline(np.linalg.cholesky, system), True
        except (np.linalg.LinAlgError, OutOfTime):
            return False
        sides, boxed = self.alpha.size + int(self.boxed.sum()), self.boxed

        def mean(low: Floats, alpha: Floats, high: Floats, room: Floats) -> float:
            return (float(low @ alpha) + float(high[boxed] @ room[boxed])) / sides

        mu = mean(self.low, self.alpha, self.high, self.room)
        step = self._step(factor, 0.0, 0.0, 0.0)
        length = self._length(step)
        d_alpha, _, d_low, d_high = step
        after = mean(
            self.low + length * d_low,
            self.alpha + length * d_alpha,
            self.high + length * d_high,
            self.room - length * d_alpha,
        )
        step = self._step(factor, (after / mu) ** 3 * mu, d_alpha * d_low, d_alpha * d_high)
        length = self._length(step)
        if not length > SHORTEST:
            return False
        self.alpha = self.alpha + length * step[0]
        self.room = np.where(boxed, self.room - length * step[0], 1.0)
        self.b += length * step[1]
        self.low, self.high = self.low + length * step[2], self.high + length * step[3]
        return True

    def _step(
        self, factor: tuple[Floats, bool], centring: float, below: Any, above: Any
    ) -> tuple[Floats, float, Floats, Floats]:
        """Return the steps of α, b and the multipliers of both sides of the box; the last two
        arguments correct the products.
        """
        H, border, alpha, room, r = self.H, self.border, self.alpha, self.room, self.H.shape[1]
        to_low = (centring - alpha * self.low - below) / alpha
        to_high = np.where(self.boxed, (centring - room * self.high + above) / room, 0.0)
        right = self.threshold - self.u + self.low - self.high + to_low - to_high
        scaled = right / self.theta
        balance = float(border @ scaled) + float(border @ alpha)
        solved = sl.cho_solve(factor, np.append(H.T @ scaled, balance), check_finite=False)
        d_w, d_b = solved[:r], float(solved[r]) if self.free else 0.0
        d_alpha = (right - H @ d_w - border * d_b) / self.theta
        d_low = to_low - self.low * d_alpha / alpha
        d_high = np.where(self.boxed, to_high + self.high * d_alpha / room, 0.0)
        return d_alpha, d_b, d_low, d_high

    def _length(self, step: tuple[Floats, float, Floats, Floats]) -> float:
        """Return the longest step, up to 1, that stays inside."""
        (d_alpha, _, d_low, d_high), boxed, longest = step, self.boxed, 1.0
        for value, change in (
            (self.alpha, d_alpha),
            (self.low, d_low),
            (self.room[boxed], -d_alpha[boxed]),
            (self.high[boxed], d_high[boxed]),
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


# The elastic filter: weight of the slacks, slacks that count as 0, observations tried in each step,
# and the largest number of SVMs solved, in units of their size.
HARD, SEPARATED, TRIED, WORK = 1e6, 1e-3, 5, 3e9
NEWTON_STEPS = 50
# Newton's method ends at a step whose predicted decrease is less than this share of the objective,
# which is below rounding.
NO_DECREASE = 1e-14
# Weight of the squared bias if it is free, so that the system is definite.
BIAS = 1e-8


def soft_margin_scores(
    geometry: SignedRows, cost: float, stop: Callable[[], bool] = never
) -> Floats:
    r"""Return the margins u of :math:`\min \|w\|^2 + \mathrm{cost} \sum s_i (1-u_i)_+^2`, rows
    divided by their largest entry.
    """
    return squared_hinge(*_scaled(geometry), geometry.weight, cost, None, stop)[0]


def elastic_filter(geometry: SignedRows, stop: Callable[[], bool] = never) -> Floats:
    """Return a score that drops few observations before the others are separable."""
    n = geometry.y.size
    score, kept = np.full(n, np.inf), np.ones(n, dtype=bool)
    if stop():
        return score
    rows, norm = _scaled(geometry)
    u, _, w = squared_hinge(rows, norm, geometry.weight, HARD, None, stop)
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
            trials.append((*squared_hinge(rows, norm, weight, HARD, w, stop), i))
        u, _, w, chosen = min(trials, key=lambda trial: trial[1])
        score[chosen], kept[chosen] = rank, False
    return score


def _scaled(geometry: SignedRows) -> tuple[Floats, Floats]:
    """Return the rows divided by their largest entry, with the signed constant if the bias is free,
    and the price of each column.
    """
    G, y = geometry.G, geometry.y
    rows = G / (float(np.abs(G).max(initial=0.0)) or 1.0)
    norm = np.ones(rows.shape[1])
    if not geometry.free:
        return rows, norm
    return np.column_stack([rows, y]), np.append(norm, BIAS)


def _newton_step(
    rows: Floats, norm: Floats, chosen: NDArray[np.intp], price: Floats, gradient: Floats
) -> Floats:
    some = rows[chosen]
    hessian = np.diag(norm) + (some * price[:, None]).T @ some
    try:
        return -np.asarray(
            sl.cho_solve((np.linalg.cholesky(hessian), True), gradient, check_finite=False)
        )
    except np.linalg.LinAlgError:
        return np.asarray(
            sl.lstsq(hessian, -gradient, lapack_driver="gelsy", check_finite=False)[0]
        )


class _SquaredHinge:
    """The function of :func:`squared_hinge`, with half of its derivatives, at a point w of margins
    u.
    """

    def __init__(
        self,
        rows: Floats,
        norm: Floats,
        price: Floats,
        start: Floats | None,
        stop: Callable[[], bool],
    ) -> None:
        self.rows, self.norm, self.price, self.stop = rows, norm, price, stop
        self.w = np.zeros(norm.size) if start is None else start
        self.u = rows @ self.w
        # Whether the last step ended at the minimum.
        self.solved = False

    def examine(self, steps: int) -> bool | None:
        """Whether the point is the minimum, or there is no time for another step."""
        return True if self.solved or steps >= NEWTON_STEPS or self.stop() else None

    def direction(self) -> NewtonStep | None:
        """Return Newton's step; None where time is up or it promises less than rounding."""
        rows, norm, w, u = self.rows, self.norm, self.w, self.u
        price = np.where(u < 1.0, self.price, 0.0)
        gradient = norm * w - rows.T @ (price * (1.0 - u))
        lost = np.flatnonzero(price)
        try:
            step = run_with_deadline(_newton_step, rows, norm, lost, price[lost], gradient)
        except OutOfTime:
            return None
        promised = -float(gradient @ step)
        if not promised > NO_DECREASE * (float(norm @ w**2) + float(price @ (1.0 - u) ** 2)):
            return None
        change = rows @ step
        linear, square = float((norm * w) @ step), float((norm * step) @ step)

        def derivative(t: float) -> float:
            slack = np.maximum(1.0 - (u + t * change), 0.0)
            return linear + t * square - float((self.price * slack) @ change)

        def take(t: float) -> None:
            self.w, self.u = w + t * step, u + t * change
            self.solved = t == 0.0 or (t == 1.0 and np.array_equal(self.u < 1.0, price > 0))

        return NewtonStep(promised, derivative, take)


def squared_hinge(
    rows: Floats,
    norm: Floats,
    weight: Floats,
    cost: float,
    start: Floats | None,
    stop: Callable[[], bool],
) -> tuple[Floats, float, Floats]:
    r"""Minimise :math:`\sum_j n_j w_j^2 + c\sum_i s_i (1-u_i)_+^2` with u = Gw by Newton's method."""
    problem = _SquaredHinge(rows, norm, cost * weight, start, stop)
    newton(problem)
    return problem.u, float(weight @ np.maximum(1.0 - problem.u, 0.0) ** 2), problem.w
