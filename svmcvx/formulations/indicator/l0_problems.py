"""The l0-norm hinge as a mixed-integer cvxpy problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.formulations.indicator.big_m import explicit_M
from svmcvx.formulations.indicator.l0 import l0_statement
from svmcvx.formulations.indicator.pool import counting_pool, incumbent_margins
from svmcvx.formulations.indicator.problems import CountingProblem, free_intercept
from svmcvx.formulations.problem import builder
from svmcvx.kernels import KernelLike
from svmcvx.model import Model

__all__ = ["l0_mio"]

Floats: TypeAlias = NDArray[np.float64]


@builder
def l0_mio(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    M: Any = "auto",
    kernel: KernelLike = None,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
    time_limit: float | None = None,
) -> CountingProblem:
    r"""Build the SVM with l0-norm hinge loss as a mixed-integer program.

    .. math::
        \min\; \tfrac12\|w\|^2 + C \sum_i s_i z_i \quad\text{s.t.}\quad y_i (L_i w + b) \ge 1 - M_i z_i,\; z \in \{0,1\}^n.

    Parameters
    ----------
    X, y, M, incumbent
        As for :func:`svmcvx.zero_one_mio`.
    C : float
        Price of a margin below 1, positive; 1 by default. The cvxpy parameter
        ``problem.param_dict["C"]``.

    Returns
    -------
    CountingProblem
        A ``cvxpy.Problem``. Variables ``w``, ``b`` (of centred data when `X` is dense and linear)
        and ``z``; parameter ``C`` (and ``M``, which follows it); constraint ``margin``.

    Notes
    -----
    Source: [LinYaoLiu], eq. (2.4), solved globally.
    Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0], [9.0]], [-1, -1, 1, 1, -1]
    >>> solution = sx.solve(sx.l0_mio(X, y, C=1.0))  # the last observation costs 1
    >>> round(solution.certificate.upper, 6), solution.certificate.kind
    (1.5, 'mixed-integer')
    """
    statement = replace(
        l0_statement(X, y, C=C, kernel=kernel, sample_weight=sample_weight, indefinite=indefinite),
        kind="mixed-integer",
    )
    statement = replace(statement, explicit=explicit_M(M, statement.space, optional=False))
    statement = replace(
        statement,
        pool=counting_pool(
            statement, incumbent_margins(incumbent, statement), lam=2 * statement.C, k=None
        )[0],
    )

    def terms(
        C: cp.Parameter, z: cp.Variable, right: cp.Expression
    ) -> tuple[cp.Expression, cp.Expression, list[cp.Constraint]]:
        return C * (statement.weight @ z), right, []

    return free_intercept(statement, CountingProblem, terms)
