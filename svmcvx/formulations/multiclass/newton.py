"""Newton's method for a smooth loss of score differences with a smooth penalty, which polishes a solver's point.

The error of the multipliers that follow from (W, b) is the curvature of the loss times the error of (W, b), so that the dual
bound from a solver's point is less accurate than the objective there. A few Newton steps reduce both to rounding.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.formulations.multiclass.losses import ScoreLoss
from svmcvx.formulations.multiclass.score_space import ScoreSpace
from svmcvx.numerical.line_search import line_search

__all__ = ["Penalty", "minimise"]

Floats: TypeAlias = NDArray[np.float64]

# Unknowns up to which the method is tried.
LARGEST_SYSTEM = 600
STEPS = 30


class Penalty(NamedTuple):
    """A penalty at a point of shape (r, c): value, gradient, and second derivatives of shape (r, c, r, c)."""

    value: float
    gradient: Floats
    hessian: Floats


def minimise(
    scores: ScoreSpace,
    loss: ScoreLoss,
    X: Floats,
    start: Floats,
    penalty: Callable[[Floats], Penalty],
    free: NDArray[np.bool_] | None = None,
) -> Floats | None:
    """Return the point of shape (r, c) near `start` that minimises the loss of the scores ``X @ point`` plus a penalty.

    Only the entries that are `free` change, all by default. None for a loss that is not smooth, and for a problem too large.
    """
    if not loss.smooth or start.size > LARGEST_SYSTEM:
        return None
    unknowns = np.arange(start.size) if free is None else np.flatnonzero(free)
    weight = scores.data.weight[:, None]

    def derivative(point: Floats, step: Floats, f: Floats, df: Floats, t: float) -> float:
        lost = float((weight * loss.multipliers(f + t * df) * df).sum())
        return float((penalty(point + t * step).gradient * step).sum()) - lost

    point = start
    for _ in range(STEPS):
        f, terms = scores.differences(X @ point), penalty(point)
        gradient = terms.gradient - X.T @ scores.coefficients(weight * loss.multipliers(f))
        hessian = (terms.hessian + _loss_hessian(scores, loss, X, f)).reshape(point.size, point.size)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", sl.LinAlgWarning)
                part = sl.solve(hessian[np.ix_(unknowns, unknowns)], gradient.ravel()[unknowns], assume_a="sym")
        except (sl.LinAlgError, sl.LinAlgWarning, ValueError):
            break
        step = np.zeros(point.shape)
        step.flat[unknowns] = -part
        decrease = -float((gradient * step).sum())
        if not decrease > 0:
            break
        df = scores.differences(X @ step)
        point = point + step * line_search(partial(derivative, point, step, f, df), -decrease)
        if decrease <= 2.0 * math.ulp(float(weight[:, 0] @ loss.value(f)) + terms.value):
            break
    return point


def _loss_hessian(scores: ScoreSpace, loss: ScoreLoss, X: Floats, f: Floats) -> Floats:
    (n, r), c = X.shape, scores.data.c
    # Second derivatives of the losses in the scores, shape (n, c, c).
    A = np.zeros((n, c, c - 1))
    A[np.arange(n), scores.data.codes] = 1.0
    A[np.arange(n)[:, None], scores.others, np.arange(c - 1)] = -1.0
    M = A @ (scores.data.weight[:, None, None] * np.asarray(loss.curvature(f))) @ A.transpose(0, 2, 1)
    hessian = np.zeros((r, c, r, c))
    for k, other in zip(*np.triu_indices(c), strict=True):
        hessian[:, k, :, other] = hessian[:, other, :, k] = X.T @ (M[:, k, other, None] * X)
    return hessian
