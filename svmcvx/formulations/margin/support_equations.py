"""The equations of :mod:`svmcvx.numerical.support_equations` for the observations of a feature space."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.feature_space import FeatureSpace
from svmcvx.numerical import support_equations as equations
from svmcvx.system.deadline import current

__all__ = ["solve_support_equations"]

Floats: TypeAlias = NDArray[np.float64]


def solve_support_equations(
    space: FeatureSpace,
    alpha: Floats,
    *,
    free: NDArray[np.bool_],
    upper_bound: Floats,
    bias: float,
    slack: equations.Slack | None,
) -> Floats | None:
    """Return multipliers that solve :func:`svmcvx.numerical.support_equations.solve_support_equations` in a space, or None, also where time is up."""
    y = space.data.y

    def margins(alpha: Floats) -> Floats:
        return np.asarray(y * space.scores_of(alpha * y))

    def gram(rows: NDArray[np.intp]) -> Floats:
        return np.asarray(y[rows, None] * space.block(rows, rows) * y[rows])

    signed = equations.MarginOperator(margins, gram, y if space.intercept == "free" else None)
    return equations.solve_support_equations(
        signed, alpha, free=free, upper_bound=upper_bound, bias=bias, slack=slack, stop=current().passed
    )
