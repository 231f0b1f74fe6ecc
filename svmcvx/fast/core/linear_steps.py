r"""Newton's step of a linear problem: :math:`(I + X'SX)\,dw = -g` with the second derivatives S of the losses.

It is solved in the d coordinates of w, or as :math:`(S^{-1} + XX')\nu = -Xg` on the observations with a second derivative if these
are fewer, by a Cholesky factor while that costs less than ``direct_work`` operations; otherwise by conjugate gradients with
the diagonal as preconditioner. Memory beyond the data: a few vectors, and the system.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from svmcvx.conjugate_gradients import conjugate_gradients
from svmcvx.fast.core import loss_passes as passes
from svmcvx.fast.core.linear_problem import LinearNewtonSettings, LinearProblem

__all__ = ["newton_step"]

Floats: TypeAlias = NDArray[np.float64]

# Entries of one block of dense rows.
BLOCK_ENTRIES = 2**24
# Columns up to which a compiled loop forms the system of dense data sooner than a copy of the rows and a matrix product.
NARROW = 24
# The bias carries no penalty of its own; this keeps its row regular, relative to the sum of second derivatives.
BIAS_DAMPING = 1e-12
# Least pivot with which the mean of the margins is taken from their second moment; below it too many digits are lost.
MEAN_LEFT = 1e-6


def newton_step(
    problem: LinearProblem,
    curvature: Floats,
    gradient: Floats,
    bias_gradient: float,
    *,
    accuracy: float,
    settings: LinearNewtonSettings,
    stop: Callable[[], bool],
) -> tuple[Floats, float]:
    """Return Newton's step in w and in the bias.

    Parameters
    ----------
    problem : LinearProblem
    curvature : ndarray of shape (n,)
        Second derivatives of the losses; that of a variance of the margins is added.
    gradient, bias_gradient
        First derivatives in w and in the bias.
    accuracy : float
        Relative residual at which conjugate gradients end.
    settings : LinearNewtonSettings
    stop : callable
        Asked by conjugate gradients before each product; True ends them.
    """
    moments = curvature
    if problem.variance > 0:
        moments = curvature + 2.0 * problem.variance * problem.shares
    rows = np.flatnonzero(moments)
    if rows.size == 0:
        return -gradient, 0.0
    d = problem.X.shape[1]
    small = min(rows.size, d)
    fill = problem.X.nnz / problem.X.shape[0] if sp.issparse(problem.X) else float(d)
    work = rows.size * fill * min(fill, small) + small**3 / 3.0
    limit = settings.direct_work if problem.smooth else settings.direct_work_stiff
    if small <= settings.largest_system and work <= limit:
        solve = _step_in_coordinates if d <= rows.size else _step_on_observations
        try:
            step, db = solve(problem, moments, rows, gradient, bias_gradient)
            if problem.variance == 0:
                return step, db
            return _without_mean(problem, step, solve(problem, moments, rows, -_mean_gradient(problem), 0.0)[0]), db
        except (sl.LinAlgError, ValueError):
            # Not positive definite to rounding: conjugate gradients go on without a factor.
            pass
    return _iterated_step(problem, moments, curvature, gradient, bias_gradient, accuracy, settings, stop)


def _mean_gradient(problem: LinearProblem) -> Floats:
    """The gradient of the mean margin."""
    return np.asarray(problem.X.T @ (problem.y * problem.shares))


def _without_mean(problem: LinearProblem, step: Floats, mean_step: Floats) -> Floats:
    """Take the square of the mean from the second derivative (Sherman-Morrison).

    `mean_step` solves the system for the gradient of the mean on the right-hand side.
    """
    mean = _mean_gradient(problem)
    pivot = 1.0 - 2.0 * problem.variance * float(mean @ mean_step)
    if pivot < MEAN_LEFT:
        raise sl.LinAlgError("the mean of the margins is too large against their variance")
    return step + (2.0 * problem.variance * float(mean @ step) / pivot) * mean_step


def _solved(system: Floats, right: Floats) -> Floats:
    """Solve a symmetric positive definite system, which is overwritten, by LAPACK itself: scipy's checks take as long where it is small."""
    # Its transpose is the same system in the layout of LAPACK.
    _, solution, info = dposv(system.T, right, overwrite_a=True)
    if info:
        raise sl.LinAlgError("the system is not positive definite to rounding")
    return np.asarray(solution)


def _step_in_coordinates(
    problem: LinearProblem, curvature: Floats, rows: NDArray[np.intp], gradient: Floats, bias_gradient: float
) -> tuple[Floats, float]:
    """Solve the d × d system."""
    X = problem.X
    d = X.shape[1]
    H, border = np.zeros((d, d)), np.zeros(d)
    if sp.issparse(X):
        passes.gram_rows(X.data, X.indices, X.indptr, curvature, H, border)
    elif d <= NARROW:
        passes.gram_narrow(X, curvature, H, border)
    else:
        block = max(1, BLOCK_ENTRIES // d)
        for first in range(0, rows.size, block):
            part = rows[first : first + block]
            scaled = X[part]
            border += scaled.T @ curvature[part]
            scaled *= np.sqrt(curvature[part])[:, None]
            H += scaled.T @ scaled
    H.ravel()[:: d + 1] += 1.0
    if not problem.bias:
        return _solved(H, -gradient), 0.0
    # The bias by its Schur complement.
    total = float(curvature.sum())
    step, across = _solved(H, np.stack([-gradient, border]).T).T
    pivot = max(total - float(border @ across), 0.0) + BIAS_DAMPING * total
    db = (-bias_gradient - float(border @ step)) / pivot
    return step - db * across, db


def _step_on_observations(
    problem: LinearProblem, curvature: Floats, rows: NDArray[np.intp], gradient: Floats, bias_gradient: float
) -> tuple[Floats, float]:
    r"""Solve for :math:`\nu = S(X\,dw + db)` on the rows with a second derivative: :math:`dw = -g - X'\nu`."""
    part = problem.X[rows]
    size = rows.size
    gram = part @ part.T
    system = np.ascontiguousarray(gram.toarray() if sp.issparse(gram) else gram)
    system.ravel()[:: size + 1] += 1.0 / curvature[rows]
    right = -np.asarray(part @ gradient)
    if not problem.bias:
        return -gradient - np.asarray(part.T @ _solved(system, right)), 0.0
    first, second = _solved(system, np.stack([right, np.ones(size)]).T).T
    # 1'ν = −g_b, with ν = first + db second.
    db = (-bias_gradient - float(first.sum())) / float(second.sum())
    nu = first + db * second
    return -gradient - np.asarray(part.T @ nu), db


def _iterated_step(
    problem: LinearProblem,
    moments: Floats,
    curvature: Floats,
    gradient: Floats,
    bias_gradient: float,
    accuracy: float,
    settings: LinearNewtonSettings,
    stop: Callable[[], bool],
) -> tuple[Floats, float]:
    """Conjugate gradients on (w, b), preconditioned by the diagonal.

    `moments` includes the second moment of the margins, for the diagonal; with `curvature` the product adds their variance.
    """
    X = problem.X
    n, d = X.shape
    sparse = sp.issparse(X)
    diagonal = np.ones(d + 1)
    if sparse:
        passes.squared_columns(X.data, X.indices, X.indptr, moments, diagonal)
    else:
        block = max(1, BLOCK_ENTRIES // d)
        for first in range(0, n, block):
            diagonal[:d] += moments[first : first + block] @ X[first : first + block] ** 2
    total = float(moments.sum())
    diagonal[d] = total * (1.0 + BIAS_DAMPING)

    def product(direction: Floats) -> Floats:
        out = direction.copy()
        db = float(direction[d]) if problem.bias else 0.0
        if problem.variance > 0:
            scores = np.asarray(X @ direction[:d])
            out[:d] += X.T @ (curvature * scores + problem.y * problem.multipliers_of_variance(scores))
            moved = 0.0
        elif sparse:
            moved = passes.curvature_product(X.data, X.indices, X.indptr, moments, direction, db, out)
        else:
            middle = moments * (X @ direction[:d] + db)
            out[:d] += X.T @ middle
            moved = float(middle.sum())
        out[d] = moved + BIAS_DAMPING * total * db if problem.bias else 0.0
        return out

    right = np.append(-gradient, -bias_gradient)
    step = conjugate_gradients(
        product, right, lambda r: r / diagonal, accuracy=accuracy, limit=settings.conjugate_steps, stop=stop
    ).x
    if not step.any():
        return -gradient, 0.0
    return step[:d], float(step[d]) if problem.bias else 0.0
