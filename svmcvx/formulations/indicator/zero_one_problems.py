"""The 0-1 loss as a mixed-integer cvxpy problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.data import binary_data, check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.feature_space import feature_space, penalised_or_none
from svmcvx.formulations.indicator.big_m import check_total_price, explicit_M
from svmcvx.formulations.indicator.perspective import feasible_gamma, perspective_rows
from svmcvx.formulations.indicator.pool import counting_pool, incumbent_margins
from svmcvx.formulations.indicator.problems import CountingProblem, margin_parameter
from svmcvx.formulations.indicator.zero_one import ZeroOne
from svmcvx.formulations.problem import builder
from svmcvx.kernels import KernelLike
from svmcvx.model import Model

__all__ = ["zero_one_mio"]

Floats: TypeAlias = NDArray[np.float64]


FORMS = ("big-m", "perspective")


@builder
def zero_one_mio(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    k: float | None = None,
    M: Any = "auto",
    form: str = "big-m",
    kernel: KernelLike = None,
    intercept: bool | str = True,
    incumbent: Model | Any = None,
    sample_weight: Any = None,
    indefinite: str = "error",
    time_limit: float | None = None,
) -> CountingProblem:
    r"""Build the SVM with the exact 0-1 loss as a mixed-integer program.

    .. math::
        \min\; \|w\|^2 + \lambda \sum_i s_i z_i \quad\text{s.t.}\quad y_i L_i w \ge 1 - M_i z_i,\; z \in \{0,1\}^n,

    or with :math:`\sum_i s_i z_i \le k` in place of the penalty, or in the perspective form (see
    the module).

    Parameters
    ----------
    lam : float
        Price of a margin below 1, positive. The cvxpy parameter ``problem.param_dict["lam"]``.
        Exactly one of `lam`, `k`.
    k : float
        Largest weight of observations with a margin below 1 (their number, without weights). A
        cvxpy parameter.
    M : "auto", float, array-like of shape (n,), or None
        ``"auto"`` (the default) is valid by construction. Numbers that are smaller than these are
        not known to be valid: then the problem solved is the one with :math:`u_i \ge 1 - M_i`
        added, the certificate's interval is about *that* problem, and its residuals say so:
        ``"unproved_M"`` counts such values, ``"binding_M"`` those that bind at the model. If one
        binds the answer is not exact; if none does it still need not be, since an optimum elsewhere
        may have been cut off. None: the perspective form without big-M rows.
    form : "big-m" or "perspective"
        The latter has the stronger relaxation.
    incumbent : Model or Solution, optional
        A classifier to start the search for an incumbent from, besides the builder's own
        heuristics.
    time_limit : float, optional
        Seconds for building; the heuristics that look for an incumbent take some on hundreds of
        observations, and end there.

    Returns
    -------
    CountingProblem
        A ``cvxpy.Problem``. Variables ``w``, ``z`` and, in the perspective form, ``shortfall``
        :math:`=(1-u)_+`, ``excess`` :math:`=(1-u)_-`, ``shortfall_cost``, ``excess_cost``;
        parameter ``lam`` or ``k`` (and ``M``, which follows it); constraints labelled ``margin``,
        ``budget`` (with `k`), and ``split``, ``nonnegative_shortfall``, ``nonnegative_excess``,
        ``shortfall_cone``, ``excess_cone``. ``problem.M``, ``problem.incumbent`` and
        ``problem.gamma`` hold what was derived; a solution has M in ``details``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory, or ``M="auto"`` finds no feasible point for `k`.

    Notes
    -----
    Source: [CepedaGomezHan], § 2 (big-M, after [Brooks]) and eq. (14) with integer z.
    Needs a mixed-integer solver: ``pip install 'svmcvx[mip]'``.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[-2.0], [-1.0], [1.0], [2.0], [9.0]], [-1, -1, 1, 1, -1]
    >>> solution = sx.solve(sx.zero_one_mio(X, y, lam=2.0))  # the last observation is dropped
    >>> round(solution.certificate.upper, 6), solution.certificate.kind
    (3.0, 'mixed-integer')
    """
    if (lam is None) == (k is None):
        raise DataError(
            "zero_one_mio takes exactly one of lam and k; pass lam=1.0 for a penalty, or k for a"
            " cardinality"
        )
    lam = None if lam is None else check_number(lam, "lam", low=0, open_low=True)
    k = None if k is None else check_number(k, "k", low=0)
    check_choice(form, "form", FORMS)
    data = binary_data(X, y, sample_weight)
    space = feature_space(
        data, kernel, intercept=penalised_or_none(intercept), indefinite=indefinite
    )
    check_total_price(
        lam if lam is not None else 1.0, data.weight, "lam" if lam is not None else "sample_weight"
    )
    explicit = explicit_M(M, space, optional=form == "perspective")
    statement = ZeroOne(space=space, explicit=explicit, lam=lam, k=k, form=form)
    pool, relaxation = counting_pool(
        statement, incumbent_margins(incumbent, statement), lam=lam, k=k
    )
    statement = replace(statement, pool=pool)

    name = "lam" if lam is not None else "k"
    parameter = cp.Parameter(nonneg=True, name=name, value=lam if lam is not None else k)
    G, weight, n = statement.geometry.G, data.weight, data.n
    w, z = cp.Variable(G.shape[1], name="w"), cp.Variable(n, boolean=True, name="z")
    u = cp.multiply(data.y, space.factor @ w)
    constraints: list[cp.Constraint] = []
    # Without a known feasible point there is no valid M; the perspective form can do without.
    if form == "big-m" or (M is not None and statement.M is not None):
        constraints.append(
            (u >= 1 - cp.multiply(margin_parameter(statement, parameter), z)).set_label("margin")
        )
    gamma = None
    value: cp.Expression = cp.sum_squares(w)
    if form == "perspective":
        gamma = feasible_gamma(G, None if relaxation is None else relaxation.gamma)
        value, rows = perspective_rows(w, z, u, G, gamma)
        constraints += rows
    if k is not None:
        constraints.append((weight @ z <= parameter).set_label("budget"))
    else:
        value = value + parameter * (weight @ z)
    problem = CountingProblem(cp.Minimize(value), constraints, statement, [parameter])
    problem.gamma = gamma
    if relaxation is not None:
        problem.relaxed_duals = ({"gamma": relaxation.gamma, "lam": np.array(relaxation.lam)},)
    return problem
