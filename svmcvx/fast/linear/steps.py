r"""Newton's step of a linear problem: :math:`(I + X'SX)\,dw = -g` with the second derivatives S of
the losses.

It is solved in the d coordinates of w, or as :math:`(S^{-1} + XX')\nu = -Xg` on the observations
with a second derivative if these are fewer and in memory, by a Cholesky factor while that costs
less than ``direct_work`` operations; otherwise by conjugate gradients with the diagonal as
preconditioner. Memory beyond the data: a few vectors, and the system.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from svmcvx.fast.linear.margins import Margins
from svmcvx.fast.linear.problem import (
    CONJUGATE_STEPS,
    DIRECT_PER_ENTRY,
    LinearNewtonSettings,
    LinearTerms,
)
from svmcvx.numerical import bordered_solution, conjugate_gradients

__all__ = ["newton_step"]

Floats: TypeAlias = NDArray[np.float64]

# The bias has no penalty; this keeps its row regular, relative to the sum of second derivatives.
BIAS_DAMPING = 1e-12
# Least pivot with which the squared mean of the margins is subtracted from their second moment;
# below it cancellation is too large.
MEAN_LEFT = 1e-6


def newton_step(
    problem: LinearTerms,
    margins: Margins,
    gradient: Floats,
    bias_gradient: float,
    *,
    accuracy: float,
    settings: LinearNewtonSettings,
    stop: Callable[[], bool],
) -> tuple[Floats, float]:
    """Return Newton's step in w and in the bias."""
    curved = margins.curved()
    if curved == 0:
        return -gradient, 0.0
    d = problem.d
    small = min(curved, d) if margins.whole else d
    work = curved * problem.entries * min(problem.entries, small) + small**3 / 3.0
    limit = settings.direct_work if problem.smooth else settings.direct_work_stiff
    if not margins.whole:
        limit = max(limit, DIRECT_PER_ENTRY * problem.n * problem.entries)
    if small <= settings.largest_system and work <= limit:
        solver = (
            _System(problem, margins)
            if d <= curved or not margins.whole
            else _DualSystem(problem, margins)
        )
        try:
            step, db = solver.solve(gradient, bias_gradient)
            if problem.variance == 0:
                return step, db
            mean = margins.mean_gradient()
            return _without_mean(problem, mean, step, solver.solve(-mean, 0.0)[0]), db
        except (sl.LinAlgError, ValueError):
            # Not positive definite to rounding: conjugate gradients go on without a factor.
            pass
    return _iterated_step(problem, margins, gradient, bias_gradient, accuracy, stop)


def _without_mean(problem: LinearTerms, mean: Floats, step: Floats, mean_step: Floats) -> Floats:
    """Take the square of the mean from the second derivative (Sherman-Morrison)."""
    pivot = 1.0 - 2.0 * problem.variance * float(mean @ mean_step)
    if pivot < MEAN_LEFT:
        raise sl.LinAlgError("the mean of the margins is too large against their variance")
    return step + (2.0 * problem.variance * float(mean @ step) / pivot) * mean_step


def _solved(system: Floats, right: Floats) -> Floats:
    """Solve a symmetric positive definite system, which is overwritten, by LAPACK itself: scipy's
    checks take as long where it is small.
    """
    # Its transpose is the same system in the layout of LAPACK.
    _, solution, info = dposv(system.T, right, overwrite_a=True)
    if info:
        raise sl.LinAlgError("the system is not positive definite to rounding")
    return np.asarray(solution)


class _System:
    """The d × d system."""

    def __init__(self, problem: LinearTerms, margins: Margins) -> None:
        self.bias = problem.bias
        self.H, self.border, self.total = margins.normal_matrix()
        self.H.ravel()[:: problem.d + 1] += 1.0

    def solve(self, gradient: Floats, bias_gradient: float) -> tuple[Floats, float]:
        """Return the step for a gradient."""
        if not self.bias:
            return _solved(self.H.copy(), -gradient), 0.0
        return bordered_solution(
            partial(_solved, self.H.copy()),
            self.border,
            -gradient,
            -bias_gradient,
            corner=self.total,
            damping=BIAS_DAMPING,
        )


class _DualSystem:
    r"""The system for :math:`\nu = S(X\,dw + db)` on the rows with a second derivative: :math:`dw =
    -g - X'\nu`.
    """

    def __init__(self, problem: LinearTerms, margins: Margins) -> None:
        self.bias = problem.bias
        self.part, second = margins.observations()
        gram = self.part @ self.part.T
        self.system = np.ascontiguousarray(gram.toarray() if sp.issparse(gram) else gram)
        self.system.ravel()[:: second.size + 1] += 1.0 / second

    def solve(self, gradient: Floats, bias_gradient: float) -> tuple[Floats, float]:
        """Return the step for a gradient."""
        part, right = self.part, -np.asarray(self.part @ gradient)
        if not self.bias:
            return -gradient - np.asarray(part.T @ _solved(self.system.copy(), right)), 0.0
        # 1'ν = −g_b.
        nu, minus_db = bordered_solution(
            partial(_solved, self.system.copy()), np.ones(right.size), right, -bias_gradient
        )
        return -gradient - np.asarray(part.T @ nu), -minus_db


def _iterated_step(
    problem: LinearTerms,
    margins: Margins,
    gradient: Floats,
    bias_gradient: float,
    accuracy: float,
    stop: Callable[[], bool],
) -> tuple[Floats, float]:
    """Conjugate gradients on (w, b), preconditioned by the diagonal."""
    d = problem.d
    squares, total = margins.diagonal()
    diagonal = np.append(1.0 + squares, total * (1.0 + BIAS_DAMPING))
    mean = margins.mean_gradient() if problem.variance > 0 else np.zeros(d)

    def product(direction: Floats) -> Floats:
        db = float(direction[d]) if problem.bias else 0.0
        curved, moved = margins.curvature_product(direction[:d], db, float(mean @ direction[:d]))
        out = np.append(direction[:d] + curved, 0.0)
        out[d] = moved + BIAS_DAMPING * total * db if problem.bias else 0.0
        return out

    right = np.append(-gradient, -bias_gradient)
    step = conjugate_gradients(
        product, right, lambda r: r / diagonal, accuracy=accuracy, limit=CONJUGATE_STEPS, stop=stop
    ).x
    if not step.any():
        return -gradient, 0.0
    return step[:d], float(step[d]) if problem.bias else 0.0
