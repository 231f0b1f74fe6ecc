r"""The pSVM without a free bias, with a kernel or without: Newton's method on w, see
:mod:`svmcvx.fast.linear.newton`.

The statement is :mod:`svmcvx.formulations.margin.liblinear`. Its dual has no constraint
:math:`y'\alpha = 0`, along which the pair steps of pSMO run. A problem with a kernel is the linear
problem on the rows of a factor of its Gram matrix. The factor is complete up to rounding if there
is memory and time for it. Its multipliers are certified on the kernel itself.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.pivoted_cholesky import partial_factor
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.newton import minimise
from svmcvx.fast.linear.problem import LinearProblem, linear_model
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin.psvm import PSVM
from svmcvx.solution import Status
from svmcvx.system.memory import columns_in

__all__ = ["FACTORED", "solve_unbiased"]

Floats: TypeAlias = NDArray[np.float64]

# Observations up to which the Gram matrix is stored and factored in one call, which takes a
# fraction of a second.
FACTORED = 2000
# Observations up to which the equations of the support vectors are solved where rounding keeps
# Newton's method from the gap.
POLISHED = 1000


def solve_unbiased(
    statement: PSVM, monitor: Monitor, *, start: Floats | None, cache_size: float
) -> tuple[RecoveredPoints, Status, dict[str, Any]]:
    """Solve until the monitor says stop."""
    space, p, y = statement.space, statement.p, statement.y
    rows = space.X if space.is_linear else _factor(space, cache_size, monitor)
    c = statement.C * statement.weight
    problem = LinearProblem(rows, y, c, hinge_power(p), kernel_expansion=not space.is_linear)
    if start is None:
        point, status = minimise(problem, monitor)
    else:
        start = np.clip(start, 0.0, statement.largest_multiplier())
        point, status = minimise(
            problem, monitor, w=problem.primal_of(start), alpha=None if problem.smooth else start
        )
    options: dict[str, Any] = {"method": "newton", "steps": point.steps}
    if not problem.smooth:
        options["sigma"] = point.sigma
    if not space.is_linear:
        options["rank"] = rows.shape[1]
    linear = space.is_linear
    model: Any = (
        linear_model(space, point.w, 0.0, point.alpha > 0)
        if linear
        else space.model(point.expansion * y)
    )
    found = RecoveredPoints([model], [{"alpha": point.alpha}])
    if status is Status.INACCURATE and y.size <= POLISHED:
        more = statement.recover(point.alpha)
        found = RecoveredPoints([*found.models, *more.models], [*found.duals, *more.duals])
    return found, status, options


def _factor(space: FeatureSpace, cache_size: float, monitor: Monitor) -> Features:
    """Return a factor of the Gram matrix: of a stored matrix, or a factor that grows by columns up
    to the limit of time or memory.
    """
    if not space.blockwise:
        return space.factor
    growing = partial_factor(space)
    growing.grow(max(1, columns_in(cache_size, space.data.n)), monitor.out_of_time)
    return growing.factor
