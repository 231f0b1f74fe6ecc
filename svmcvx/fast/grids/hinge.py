"""Batches of machines with hinge losses: the pSVM at p = 1, and the ODML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import relative_gap
from svmcvx.fast.grids.hinge_passes import settle, slopes
from svmcvx.fast.grids.rows import Answers, Rows
from svmcvx.fast.margin.smo_passes import ascend
from svmcvx.formulations import margin as psvm
from svmcvx.formulations import margin_distribution as odml
from svmcvx.losses import variance_multipliers
from svmcvx.system.deadline import current
from svmcvx.system.threads import single_blas_thread

__all__ = ["MeanVariance", "solve_hinges", "solve_mean_variances"]

Floats: TypeAlias = NDArray[np.float64]

# Violation up to which the first setting is solved by pair steps, and pair steps a row, at most.
ROUGH, PAIR_STEPS = 0.1, 20
# Largest violation of a condition at the end, in units of a score, and relative to the sum of all
# multipliers times the largest product.
VIOLATION, ROUNDING = 1e-11, 1e-14
# Steps of the active-set method a row, at most, and multiplications between two looks at the clock.
STEPS, WORK = 20, 2e8


class MeanVariance(NamedTuple):
    """A setting of the ODML."""

    lam2: float
    C: float
    lam1: float


class _PathPoints(NamedTuple):
    """Multipliers, t − Kv, the intercepts that members determine, the number of members, and
    whether the method ended; a row a setting.
    """

    alpha: Floats
    left: Floats
    intercepts: Floats
    members: NDArray[np.intp]
    solved: NDArray[np.bool_]


@single_blas_thread()
def solve_hinges(rows: Rows, costs: Sequence[float]) -> Answers | None:
    """Solve the settings of C, in ascending order, each from the one before; None if the deadline
    passes.
    """
    y, weight, balanced = rows.y, rows.weight, rows.intercept == "free"
    found = _solve_in_turn(rows.gram, y, [y] * len(costs), costs, weight, balanced=balanced)
    if found is None:
        return None
    v, intercepts, values, gaps = (
        found.alpha * y,
        found.intercepts,
        np.empty(len(costs)),
        np.empty(len(costs)),
    )
    for place, C in enumerate(costs):
        f = y - found.left[place]
        if balanced and not found.members[place]:
            # Several intercepts are optimal.
            intercepts[place] = psvm.best_bias(f, y, p=1.0, weight=weight)
        norm, u = float(v[place] @ f), y * (f + intercepts[place])
        lower = psvm.dual_objective(found.alpha[place], norm, C=C, p=1.0, weight=weight)
        values[place] = psvm.objective(norm, u, C=C, p=1.0, weight=weight)
        gaps[place] = relative_gap(lower, values[place])
    return _answers(rows, v, intercepts, values, gaps, found)


@single_blas_thread()
def solve_mean_variances(rows: Rows, settings: Sequence[MeanVariance]) -> Answers | None:
    """Solve settings of the ODML with one λ₁, each from the one before; None if the deadline
    passes.
    """
    y, (lam2, C, lam1) = rows.y, settings[0]
    statement = odml.ODML(rows.space, lam1, lam2, C)
    share, whitened, positive = statement.share, statement.curvature.whitened(), np.ones(y.size)
    H = whitened @ whitened.T
    mean = H @ share
    targets = [1.0 - setting.lam2 * mean for setting in settings]
    found = _solve_in_turn(
        H, positive, targets, [setting.C for setting in settings], share, balanced=False
    )
    if found is None:
        return None
    k = len(settings)
    v, values, gaps = np.empty((k, y.size)), np.empty(k), np.empty(k)
    tau = np.empty((k, y.size))
    for place, (lam2, _, _) in enumerate(settings):
        alpha = found.alpha[place]
        tau[place] = variance_multipliers(1.0 - found.left[place], lam1, share)
        v[place] = y * (alpha + lam2 * share - tau[place])
    f = v @ rows.gram
    for place, (lam2, C, _) in enumerate(settings):
        norm = float(v[place] @ f[place])
        lower = odml.odml_dual_objective(
            found.alpha[place], tau[place], norm, lam1=lam1, share=share
        )
        values[place] = odml.odml_objective(
            norm, y * f[place], lam1=lam1, lam2=lam2, C=C, share=share
        )
        gaps[place] = relative_gap(lower, values[place])
    return _answers(rows, v, np.zeros(k), values, gaps, found)


def _solve_in_turn(
    K: Floats,
    y: Floats,
    targets: Sequence[Floats],
    costs: Sequence[float],
    weight: Floats,
    *,
    balanced: bool,
) -> _PathPoints | None:
    """Solve for targets and costs in turn, each from the one before; None if the deadline passes."""
    K = np.ascontiguousarray(K)
    n, k = y.size, len(costs)
    alpha, g = np.zeros(n), targets[0].copy()
    room = np.empty((n, n))
    found = _PathPoints(
        np.empty((k, n)),
        np.empty((k, n)),
        np.zeros(k),
        np.zeros(k, dtype=np.intp),
        np.zeros(k, dtype=np.bool_),
    )
    # A step has n² multiplications, at most.
    at_once = max(10, int(WORK / n**2))
    for place, (C, t) in enumerate(zip(costs, targets, strict=True)):
        c = C * weight
        if place:
            ratio = C / costs[place - 1]
            alpha, g = np.minimum(alpha * ratio, c), t - ratio * (targets[place - 1] - g)
        elif balanced:
            ascend(K, g, alpha, y, c, c, 0.0, ROUGH, PAIR_STEPS * n)
        left, steps, inside, b = STEPS * n, -1, 0, 0.0
        tol = max(VIOLATION, ROUNDING * float(alpha.sum() * np.abs(K).max()))
        while steps < 0 < left:
            if current().passed():
                return None
            steps, inside, b = settle(K, y, c, alpha, g, room, balanced, tol, min(left, at_once))
            left -= at_once
        slopes(K, t, y, c, alpha, g, balanced)
        found.alpha[place], found.left[place], found.intercepts[place] = alpha, g, b
        found.members[place], found.solved[place] = inside, steps >= 0
    return found


def _answers(
    rows: Rows, v: Floats, intercepts: Floats, values: Floats, gaps: Floats, found: _PathPoints
) -> Answers:
    """Return the scores of the rows that are to be scored, and infinite gaps where the method did
    not end.
    """
    scores = v @ rows.cross.T + intercepts[:, None]
    return Answers(
        scores,
        values,
        np.where(found.solved, gaps, math.inf),
        np.count_nonzero(found.alpha, axis=1).astype(np.intp),
    )
