"""Code that the kernel solvers of the soft and the hard margin share: their arguments, and
multipliers that are exactly feasible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import earlier_solution
from svmcvx.formulations.margin.alpha_dual import AlphaDualStatement

__all__ = ["BoundsOf", "earlier_multipliers"]

Floats: TypeAlias = NDArray[np.float64]
# Lower and upper bound of the optimum from multipliers and their scores; None if the dual is
# unbounded.
BoundsOf: TypeAlias = Callable[[Floats, Floats], tuple[float, float] | None]


def earlier_multipliers(
    warm_start: Any, statement: AlphaDualStatement, *, required: bool = True
) -> Floats | None:
    """Return the multipliers of an earlier solution on the same data, None if there is no earlier
    solution.
    """
    earlier = earlier_solution(warm_start, statement if required else None)
    rows = statement.space.data.rows
    if earlier is not None and not required and np.shape(earlier.dual.get("alpha", 0.0)) != (rows,):
        return None
    return None if earlier is None else np.array(statement.alpha(earlier.dual))
