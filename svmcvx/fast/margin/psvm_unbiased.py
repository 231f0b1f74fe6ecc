r"""The pSVM without a free bias, with a kernel or without: Newton's method on w, see :mod:`svmcvx.fast.linear.newton`.

The statement is :mod:`svmcvx.formulations.margin.liblinear`. Its dual has no constraint :math:`y'\alpha = 0`, along which the pair
steps of pSMO run. A machine with a kernel is the linear one on the rows of a factor of its Gram matrix, which is kept.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear.newton import minimise
from svmcvx.fast.linear.problem import LinearProblem, kind_of_power, linear_model
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin.psvm import PSVM
from svmcvx.solution import Status

__all__ = ["solve_unbiased"]

Floats: TypeAlias = NDArray[np.float64]

# Observations up to which the equations of the support vectors are solved where rounding keeps Newton's method from the gap.
POLISHED = 1000


def solve_unbiased(
    statement: PSVM, monitor: Monitor, *, start: Floats | None
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve until the monitor says stop.

    Parameters
    ----------
    statement : PSVM
        With a penalised intercept or none.
    monitor : Monitor
    start : ndarray of shape (n,) or None
        Multipliers to start from.

    Returns
    -------
    RecoveredPoints
        The model of w, or of the multipliers for a kernel; the multipliers.
    Status
    dict
        ``method``, ``steps``, and the last ``sigma`` for p < 2.
    """
    space, p, y = statement.space, statement.p, statement.y
    rows = space.X if space.is_linear else space.factor
    c = statement.C * statement.weight
    problem = LinearProblem(rows, y, c, kind_of_power(p), p=p, kernel_expansion=not space.is_linear)
    if start is None:
        point, status = minimise(problem, monitor)
    else:
        start = np.clip(start, 0.0, statement.largest_multiplier())
        point, status = minimise(problem, monitor, w=problem.primal_of(start), alpha=None if problem.smooth else start)
    options: dict[str, Any] = {"method": "newton", "steps": point.steps}
    if not problem.smooth:
        options["sigma"] = point.sigma
    linear = space.is_linear
    model: Any = linear_model(space, point.w, 0.0, point.alpha > 0) if linear else space.model(point.expansion * y)
    found = RecoveredPoints([model], [{"alpha": point.alpha}])
    if status is Status.INACCURATE and y.size <= POLISHED:
        more = statement.recover(point.alpha)
        found = RecoveredPoints([*found.models, *more.models], [*found.duals, *more.duals])
    return found, status, options
