r"""The linear pSVM without a Gram matrix: Newton's method on (w, b), see :mod:`svmcvx.fast.core.linear_newton`.

The rule: p ≥ 2 by Newton's method on the primal, p < 2 by the augmented Lagrangian with Newton's method inside. There is
one method for each loss, so ``method`` is ``"auto"`` or ``"newton"``.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features, check_choice
from svmcvx.errors import DataError
from svmcvx.fast.core.linear_newton import minimise
from svmcvx.fast.core.linear_problem import LinearProblem, kind_of_power, linear_model
from svmcvx.fast.core.monitor import Monitor
from svmcvx.feature_space import LinearSpace
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.margin.psvm import PSVM
from svmcvx.model import LinearModel
from svmcvx.solution import Solution, Status

__all__ = ["METHODS", "solve_linear"]

Floats: TypeAlias = NDArray[np.float64]

METHODS = ("auto", "newton")
# Share of non-zeros from which sparse data are treated as dense: faster, and it lets them be centred.
DENSE = 0.3


def solve_linear(
    statement: PSVM, monitor: Monitor, *, warm: Solution | None, seed: int, method: str = "auto"
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve the linear pSVM until the monitor says stop.

    Parameters
    ----------
    statement : PSVM
        With a :class:`~svmcvx.feature_space.LinearSpace`, dense or CSR.
    monitor : Monitor
    warm : Solution or None
        An earlier solution for data of the same number of features; its coefficients are the start, and its
        multipliers, scaled to the new C, the first centre for p < 2 if there are as many observations.
    seed : int
        Nothing here is random; taken for the sake of the common signature.
    method : "auto" or "newton"

    Returns
    -------
    RecoveredPoints
        The model of (w, b), b the best bias of w, and that of the multipliers; the multipliers.
    Status
    dict
        ``method``, ``steps``, and the last ``sigma`` for p < 2.

    Raises
    ------
    DataError
        If the method is unknown or the space is not linear.
    """
    check_choice(method, "method", METHODS)
    space = statement.space
    if not isinstance(space, LinearSpace):
        raise DataError("solve_linear takes a linear pSVM; pass kernel=None")
    data, p = space.data, statement.p
    c = statement.C * data.weight
    X, centre = _features(space)
    problem = LinearProblem(X, data.y, c, kind_of_power(p), p=p, bias=True)
    w, b, alpha = _start(statement, centre, warm)
    point, status = minimise(problem, monitor, w=w, b=b, alpha=None if problem.smooth else alpha)
    models: list[Any] = []
    if statement.bias == "exact":
        models.append(linear_model(space, point.w, point.b, point.alpha > 0, centre))
    if statement.bias != "exact" or (status is not Status.OPTIMAL and not problem.smooth):
        # The bias of a smooth loss is the best one for its w already, up to rounding; that of an envelope nearly.
        b = statement.intercept(point.alpha, np.asarray(X @ point.w))
        models.append(linear_model(space, point.w, b, point.alpha > 0, centre))
    options: dict[str, Any] = {"method": "newton", "steps": point.steps}
    if not problem.smooth:
        options["sigma"] = point.sigma
    return RecoveredPoints(models, [{"alpha": point.alpha}]), status, options


def _features(space: LinearSpace) -> tuple[Features, Floats]:
    """Return the data and what was subtracted from them: sparse data that are hardly so become dense and centred."""
    X = space.X
    n, d = X.shape
    if not sp.issparse(X) or X.nnz < DENSE * n * d:
        return X, space.centre
    dense = X.toarray()
    centre = np.asarray(dense.mean(axis=0))
    dense -= centre
    return dense, centre


def _start(statement: PSVM, centre: Floats, warm: Solution | None) -> tuple[Floats | None, float, Floats | None]:
    """Return (w, b, α) of an earlier solution in the present coordinates, as far as it has them."""
    if warm is None or not isinstance(warm.model, LinearModel):
        return None, 0.0, None
    data = statement.space.data
    w, b = warm.model.coef, warm.model.intercept
    if w.shape != (data.X.shape[1],) or not usable(w) or not math.isfinite(b):
        return None, 0.0, None
    alpha = warm.dual.get("alpha")
    if alpha is not None and alpha.shape in ((data.rows,), (data.n,)):
        kept = statement.alpha({"alpha": alpha})
        earlier = warm.hyperparameters.get("C", statement.C)
        alpha = kept * (statement.C / earlier) if isinstance(earlier, (int, float)) and earlier > 0 else kept
    else:
        alpha = None
    return np.array(w), float(b) + float(centre @ w), alpha
