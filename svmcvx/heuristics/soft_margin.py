"""Scores from SVMs with squared hinge loss: observations with low scores are dropped first."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.heuristics.signed_rows import SignedRows, never
from svmcvx.numerical import NewtonStep, newton
from svmcvx.system.cancellation import run_with_deadline
from svmcvx.system.deadline import OutOfTime

__all__ = ["elastic_filter", "soft_margin_scores", "squared_hinge"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]

# The elastic filter: weight of the slacks, slacks that count as 0, observations tried in each step,
# and the largest number of SVMs solved, in units of their size.
HARD, SEPARATED, TRIED, WORK = 1e6, 1e-3, 5, 3e9
NEWTON_STEPS = 50
# Newton's method ends at a step whose predicted decrease is less than this share of the objective,
# which is below rounding.
NEGLIGIBLE = 1e-14
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
        if not promised > NEGLIGIBLE * (float(norm @ w**2) + float(price @ (1.0 - u) ** 2)):
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
