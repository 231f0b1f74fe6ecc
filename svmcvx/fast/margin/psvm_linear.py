r"""The linear pSVM without a Gram matrix: Newton's method on (w, b), see
:mod:`svmcvx.fast.linear.newton`.

For p ≥ 2 Newton's method minimises the primal; for p < 2 it minimises the subproblems of the
augmented Lagrangian method. There is one method for each loss, so that ``"auto"`` and ``"newton"``
are the same.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import Callback, Monitor
from svmcvx.fast.linear.blocks import BlockLoss, solve_in_blocks
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.newton import minimise
from svmcvx.fast.linear.problem import LinearProblem, linear_model
from svmcvx.feature_space import FeatureSpace
from svmcvx.feature_space.blocks import BlockSpace
from svmcvx.feature_space.linear import DENSE
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin.liblinear import kind_of_psvm
from svmcvx.formulations.margin.psvm import PSVM, best_bias
from svmcvx.formulations.margin.psvm_blocks import PSVMInBlocks
from svmcvx.model import LinearModel
from svmcvx.solution import Solution, Status

__all__ = ["METHODS", "LinearStart", "solve_blocks", "solve_linear", "start_from"]

Floats: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "newton")


class LinearStart(NamedTuple):
    """A point to start from."""

    w: Floats
    bias: float
    alpha: Floats | None


def solve_linear(
    statement: PSVM, monitor: Monitor, *, start: LinearStart | None
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve the linear pSVM until the monitor says stop."""
    space, p = statement.space, statement.p
    c = statement.C * statement.weight
    X, centre = _features(space)
    problem = LinearProblem(X, statement.y, c, hinge_power(p), bias=True)
    if start is None:
        point, status = minimise(problem, monitor)
    else:
        b = start.bias + float(centre @ start.w)
        point, status = minimise(
            problem, monitor, w=start.w, b=b, alpha=None if problem.smooth else start.alpha
        )
    # For p = 1 the method's bias is optimal for an envelope, whose interval of optimal biases
    # differs.
    b = statement.exact_intercept(np.asarray(X @ point.w)) if p == 1 else point.b
    models: list[Any] = [linear_model(space, point.w, b, point.alpha > 0, centre)]
    if p > 1 and status is not Status.OPTIMAL and not problem.smooth:
        # For a smooth loss the bias is optimal for its w up to rounding; for p < 2 only
        # approximately.
        b = statement.exact_intercept(np.asarray(X @ point.w))
        models.append(linear_model(space, point.w, b, point.alpha > 0, centre))
    options: dict[str, Any] = {"method": "newton", "steps": point.steps}
    if not problem.smooth:
        options["sigma"] = point.sigma
    return RecoveredPoints(models, [{"alpha": point.alpha}]), status, options


def solve_blocks(
    space: BlockSpace,
    *,
    C: float,
    p: float,
    warm_start: Solution | None,
    tol: float,
    max_iter: int,
    verbose: bool,
    callback: Callback | None,
) -> Solution:
    """Solve the linear pSVM on rows in blocks; see :func:`svmcvx.fast.psvm` for the arguments."""
    free = space.intercept == "free"
    make = partial(kind_of_psvm(space.intercept), C=C, p=p)
    statement = PSVMInBlocks(make, space, "alpha", balanced=free, bounded=True)
    return solve_in_blocks(
        statement,
        BlockLoss(hinge_power(p), C, {"bias": free}),
        solver="fast.psvm/newton",
        warm_start=warm_start,
        tol=tol,
        max_iter=max_iter,
        verbose=verbose,
        callback=callback,
    )


def _features(space: FeatureSpace) -> tuple[Features, Floats]:
    """Return the data and their centre; sparse data with many non-zeros become dense and centred."""
    X = space.X
    n, d = X.shape
    if not sp.issparse(X) or X.nnz < DENSE * n * d:
        return X, space.centre
    dense = X.toarray()
    centre = np.asarray(dense.mean(axis=0))
    dense -= centre
    return dense, centre


def start_from(statement: PSVM, earlier: Solution, multipliers: Floats | None) -> LinearStart:
    """Return the start that an earlier solution gives."""
    X = statement.space.X
    if isinstance(earlier.model, LinearModel):
        w, bias = np.array(earlier.model.coef), float(earlier.model.intercept)
        if w.shape != (X.shape[1],):
            raise DataError(
                f"warm_start is a solution of data with {w.size} features, these have {X.shape[1]}"
            )
    elif multipliers is None:
        raise DataError(
            "warm_start must be a Solution with a linear model, or with multipliers of the same"
            " data"
        )
    else:
        w = np.asarray(X.T @ (multipliers * statement.y))
        bias = best_bias(np.asarray(X @ w), statement.y, p=statement.p, weight=statement.weight)
        bias -= float(statement.space.centre @ w)
    C = earlier.hyperparameters.get("C", statement.C)
    ratio = statement.C / C if isinstance(C, (int, float)) and C > 0 else 1.0
    return LinearStart(w, bias, None if multipliers is None else multipliers * ratio)
