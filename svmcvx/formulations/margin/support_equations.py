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
    """Return multipliers that solve the equations, or None if the guess was not good enough or time is up.

    Parameters
    ----------
    space : FeatureSpace
    alpha : ndarray of shape (n,)
        The guess; multipliers of observations that are not free are fixed (zero or the upper bound).
    free : ndarray of bool, shape (n,)
        The guess of the kinds.
    upper_bound : ndarray of shape (n,)
        Upper bounds, possibly infinite.
    bias : float
        Guess of a free bias.
    slack : callable or None
        Slack and derivative for p > 1; None for p = 1 and the hard margin.
    """
    y, L = space.data.y, space.factor

    def margins(alpha: Floats) -> Floats:
        return np.asarray(y * space.scores_of(alpha * y))

    def dense(rows: NDArray[np.intp]) -> Floats:
        return np.asarray((L[rows].toarray() if sp.issparse(L) else L[rows]) * y[rows, None])

    signed = equations.MarginOperator(margins, dense, y if space.intercept == "free" else None)
    return equations.solve_support_equations(
        signed, alpha, free=free, upper_bound=upper_bound, bias=bias, slack=slack, stop=current().passed
    )
