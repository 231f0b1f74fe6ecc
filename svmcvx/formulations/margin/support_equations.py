"""The equations of :mod:`svmcvx.numerical.support_equations` for the observations of a feature space."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
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
    y, L = space.data.y, space.factor

    def margins(alpha: Floats) -> Floats:
        return np.asarray(y * space.scores_of(alpha * y))

    def dense(rows: NDArray[np.intp]) -> Floats:
        return np.asarray((L[rows].toarray() if sp.issparse(L) else L[rows]) * y[rows, None])

    signed = equations.MarginOperator(margins, dense, y if space.intercept == "free" else None)
    return equations.solve_support_equations(
        signed, alpha, free=free, upper_bound=upper_bound, bias=bias, slack=slack, stop=current().passed
    )
