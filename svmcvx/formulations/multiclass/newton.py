"""Newton's method for a smooth loss of score differences with a smooth penalty, which polishes a
solver's point.

The error of the multipliers that follow from (W, b) is the curvature of the loss times the error of
(W, b), so that the dual bound from a solver's point is less accurate than the objective there. A
few Newton steps reduce both to rounding.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

from svmcvx.formulations.multiclass.losses import ScoreLoss
from svmcvx.formulations.multiclass.score_space import ScoreSpace
from svmcvx.numerical import NewtonStep, newton

__all__ = ["PenaltyDerivatives", "newton_steps"]

Floats: TypeAlias = NDArray[np.float64]

# Unknowns up to which the method is tried.
LARGEST_SYSTEM = 600
STEPS = 30


class PenaltyDerivatives(NamedTuple):
    """A penalty at a point of shape (r, c): value, gradient, and second derivatives of shape (r, c,
    r, c).
    """

    value: float
    gradient: Floats
    hessian: Floats


def newton_steps(
    scores: ScoreSpace,
    loss: ScoreLoss,
    X: Floats,
    start: Floats,
    penalty: Callable[[Floats], PenaltyDerivatives],
    free: NDArray[np.bool_] | None = None,
) -> Floats | None:
    """Return the point of shape (r, c) near `start` that minimises the loss of the scores ``X @
    point`` plus a penalty.

    Only the entries that are `free` change, all by default. None for a loss that is not smooth, and
    for a problem too large.
    """
    if not loss.smooth or start.size > LARGEST_SYSTEM:
        return None
    unknowns = np.arange(start.size) if free is None else np.flatnonzero(free)
    problem = _Smooth(scores, loss, X, start, penalty, unknowns)
    newton(problem)
    return problem.point


class _Smooth:
    """The problem of :func:`minimise` at a point."""

    def __init__(
        self,
        scores: ScoreSpace,
        loss: ScoreLoss,
        X: Floats,
        point: Floats,
        penalty: Callable[[Floats], PenaltyDerivatives],
        unknowns: NDArray[np.intp],
    ) -> None:
        self.scores, self.loss, self.X, self.point, self.penalty = scores, loss, X, point, penalty
        self.unknowns, self.weight = unknowns, scores.data.weight[:, None]
        # Whether the last step promised no more than rounding.
        self.solved = False

    def examine(self, steps: int) -> bool | None:
        """Whether the minimum was reached, or steps enough were taken."""
        return True if self.solved or steps >= STEPS else None

    def direction(self) -> NewtonStep | None:
        """Return Newton's step; None where the system is singular or the function does not fall."""
        scores, loss, point = self.scores, self.loss, self.point
        f, terms = scores.differences(self.X @ point), self.penalty(point)
        gradient = terms.gradient - self.X.T @ scores.coefficients(
            self.weight * loss.multipliers(f)
        )
        hessian = (terms.hessian + _loss_hessian(scores, loss, self.X, f)).reshape(
            point.size, point.size
        )
        system, right = (
            hessian[np.ix_(self.unknowns, self.unknowns)],
            gradient.ravel()[self.unknowns],
        )
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error", sl.LinAlgWarning)
                part = sl.solve(system, right, assume_a="sym")
        except (sl.LinAlgError, sl.LinAlgWarning, ValueError):
            return None
        step = np.zeros(point.shape)
        step.flat[self.unknowns] = -part
        promised = -float((gradient * step).sum())
        if not promised > 0:
            return None
        df = scores.differences(self.X @ step)

        def derivative(t: float) -> float:
            lost = float((self.weight * loss.multipliers(f + t * df) * df).sum())
            return float((self.penalty(point + t * step).gradient * step).sum()) - lost

        def take(t: float) -> None:
            self.point = point + step * t
            rounding = 2.0 * math.ulp(float(self.weight[:, 0] @ loss.value(f)) + terms.value)
            self.solved = t == 0.0 or promised <= rounding

        return NewtonStep(promised, derivative, take)


def _loss_hessian(scores: ScoreSpace, loss: ScoreLoss, X: Floats, f: Floats) -> Floats:
    (n, r), c = X.shape, scores.data.c
    # Second derivatives of the losses in the scores, shape (n, c, c).
    A = np.zeros((n, c, c - 1))
    A[np.arange(n), scores.data.codes] = 1.0
    A[np.arange(n)[:, None], scores.others, np.arange(c - 1)] = -1.0
    M = (
        A
        @ (scores.data.weight[:, None, None] * np.asarray(loss.curvature(f)))
        @ A.transpose(0, 2, 1)
    )
    hessian = np.zeros((r, c, r, c))
    for k, other in zip(*np.triu_indices(c), strict=True):
        hessian[:, k, :, other] = hessian[:, other, :, k] = X.T @ (M[:, k, other, None] * X)
    return hessian
