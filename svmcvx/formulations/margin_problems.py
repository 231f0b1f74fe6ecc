"""The margin family as cvxpy problems; the statements are :mod:`svmcvx.formulations.margin`."""

from __future__ import annotations

from typing import Any, TypeVar

import cvxpy as cp
import numpy as np

from svmcvx.arguments import INTERCEPTS
from svmcvx.data import check_costs, check_number, check_numbers
from svmcvx.errors import BuildError
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.margin import PSVM, AbsoluteNormSVM, HardMargin, kind_of_psvm
from svmcvx.formulations.problem import (
    FormulationProblem,
    builder,
    half_squared_norm,
    require_conic_memory,
    scalar,
)
from svmcvx.kernels import KernelLike

Problem = TypeVar("Problem", bound=FormulationProblem)


def _loss_epigraph(size: cp.Variable, power: float) -> tuple[cp.Expression, cp.Constraint]:
    """Return a bound of ``size**power`` elementwise, and the power cone that states it."""
    if not 0.0 < 1.0 - 1.0 / power < 1.0:
        raise BuildError("p is too large for a power cone; use fast.psvm, or a p below 1e15")
    t = cp.Variable(size.shape, name="t")
    ones = np.ones(size.shape)
    return t, cp.PowCone3D(t, ones, size, 1.0 / power).set_label("power")


class PSVMPrimal(FormulationProblem):
    C: cp.Parameter
    cone: str


class PSVMDual(FormulationProblem):
    C: cp.Parameter
    cone: str
    alpha: cp.Expression


def _statement(
    X: Any,
    y: Any,
    C: float,
    p: float,
    kernel: KernelLike,
    sample_weight: Any,
    intercept: str,
    indefinite: str,
) -> PSVM:
    C, p = check_numbers(C=C, p=p)
    rule: dict[str, Any] = {"own": "free", "kinds": INTERCEPTS}
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite, **rule)
    check_costs(C, space.data.weight)
    return kind_of_psvm(space.intercept)(space, C, p)


@builder
def psvm_primal(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    p: float = 1.0,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    intercept: str = "free",
    indefinite: str = "error",
) -> PSVMPrimal:
    r"""Build the pSVM primal as a cvxpy problem ([Sun], eq. 9).

    .. math::
        \min\; \tfrac12\|w\|^2 + C \sum_i s_i t_i \quad\text{s.t.}\quad
        y_i(L_i w + b) \ge 1 - \xi_i,\; \xi_i \ge 0,\; t_i \ge \xi_i^p,

    where the rows of `L` are the (centred) data or those of a factor of the Gram matrix.

    Parameters
    ----------
    C : float
        Weight of the losses, positive; 1 by default. The cvxpy parameter ``problem.C``.
    p : float
        Exponent of the hinge, any real number of at least 1, the default.
    intercept : "free", "penalised" or "none"
        A free intercept; that of a constant feature, which is penalised like the others, as in
        LIBLINEAR; or none. The statement of the last two is
        :mod:`svmcvx.formulations.margin`, and there is no variable ``b``.

    Returns
    -------
    PSVMPrimal
        A ``cvxpy.Problem``. The multipliers of ``margin`` are α; ``problem.cone`` says which cone
        states the loss. The variable ``b`` belongs to centred data when `X` is dense and linear.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.psvm_primal(X, y, C=1.0, p=2.0)
    >>> list(problem.constraint_dict)
    ['margin', 'slack']
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    statement = _statement(X, y, C, p, kernel, sample_weight, intercept, indefinite)
    data, L = statement.space.data, statement.space.factor
    require_conic_memory(L, "pSVM primal")
    C_parameter = scalar("C", statement.C, pos=True)
    w = cp.Variable(L.shape[1], name="w")
    b = cp.Variable(name="b") if statement.space.intercept == "free" else 0.0
    xi = cp.Variable(data.n, name="xi")
    constraints = [
        (cp.multiply(data.y, L @ w + b) >= 1 - xi).set_label("margin"),
        (xi >= 0).set_label("slack"),
    ]
    if statement.p == 1:
        loss, cone = data.weight @ xi, "linear"
    elif statement.p == 2:
        loss, cone = cp.sum_squares(cp.multiply(np.sqrt(data.weight), xi)), "quadratic"
    else:
        t, power = _loss_epigraph(xi, statement.p)
        loss, cone = data.weight @ t, "power cone"
        constraints.append(power)
    value = 0.5 * cp.sum_squares(w) + C_parameter * loss
    problem = PSVMPrimal(cp.Minimize(value), constraints, statement, {"C": C_parameter})
    problem.cone = cone
    return problem


@builder
def psvm_dual(
    X: Any,
    y: Any,
    *,
    C: float = 1.0,
    p: float = 1.0,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    intercept: str = "free",
    indefinite: str = "error",
) -> PSVMDual:
    r"""Build the pSVM dual as a cvxpy problem ([Sun], eq. 17, with the box at p = 1).

    In the scaled multipliers :math:`\beta_i = \alpha_i/(C p s_i)`, which equal :math:`\xi_i^{p-1}`
    at the optimum and stay of order one however large or small C is and as p → 1:

    .. math::
        \max\; C p\, s'\beta - C (p-1)\, s't - \tfrac12 C^2 p^2\, (y s \beta)'K(y s \beta)
        \quad\text{s.t.}\quad \beta \ge 0,\; y'(s\beta) = 0,\; t_i \ge \beta_i^{\gamma},

    with :math:`\gamma = p/(p-1)`; for p = 1 the last constraint is the box :math:`\beta \le 1` and
    `t` is absent. Its value is that of the dual in α.

    Parameters
    ----------
    X, y, C, p, intercept
        As for :func:`psvm_primal`; a precomputed kernel takes the Gram matrix as `X`.

    Returns
    -------
    PSVMDual
        A ``cvxpy.Problem`` in ``beta``; ``problem.alpha`` is the expression :math:`\alpha = C p s
        \beta`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.psvm_dual(X, y, C=1.0, p=1.5, kernel=sx.RBF())
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    >>> problem.C.value = 10.0  # solved again without compiling
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    statement = _statement(X, y, C, p, kernel, sample_weight, intercept, indefinite)
    data, s, p = statement.space.data, statement.space.data.weight, statement.p
    C_parameter = scalar("C", statement.C, pos=True)
    beta = cp.Variable(data.n, name="beta")
    signed = cp.multiply(data.y * s, beta)
    constraints = [(beta >= 0).set_label("nonnegative")]
    if statement.space.intercept == "free":
        constraints.append(((data.y * s) @ beta == 0).set_label("balance"))
    norm = half_squared_norm(statement.space.factor, p * signed, C_parameter, "pSVM dual")
    value = C_parameter * (p * (s @ beta)) - norm
    if p == 1:
        constraints.append((beta <= 1).set_label("box"))
        cone = "linear"
    elif p == 2:
        value -= C_parameter * cp.sum_squares(cp.multiply(np.sqrt(s), beta))
        cone = "quadratic"
    else:
        t, power = _loss_epigraph(beta, p / (p - 1.0))
        value -= C_parameter * ((p - 1.0) * (s @ t))
        constraints.append(power)
        cone = "power cone"
    problem = PSVMDual(cp.Maximize(value), constraints, statement, {"C": C_parameter})
    problem.cone, problem.alpha = cone, cp.multiply(p * s, beta) * C_parameter
    return problem


class HardMarginProblem(FormulationProblem):
    """The dual of the hard-margin SVM; see :func:`hard_margin_dual`."""


@builder
def hard_margin_dual(
    X: Any,
    y: Any,
    *,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> HardMarginProblem:
    r"""Build the dual of the hard-margin SVM as a cvxpy problem.

    .. math::
        \max\; \sum_i \alpha_i - \tfrac12 v'Kv \quad\text{s.t.}\quad
        \alpha \ge 0,\; y'\alpha = 0, \qquad v_i = \alpha_i y_i.

    It is unbounded when the classes are not separable in feature space. [Sun] tabulates it as "p =
    1" (Table 1).

    Parameters
    ----------
    X, y
        As for :func:`psvm_primal`.
    sample_weight : array-like of shape (n,), optional
        Observations of weight zero are left out; any other weight is the same as 1.

    Returns
    -------
    HardMarginProblem
        A ``cvxpy.Problem`` in ``alpha``.

    Examples
    --------
    >>> import svmcvx as sx
    >>> problem = sx.hard_margin_dual([[0.0], [1.0], [3.0]], [-1, -1, 1])
    >>> round(float(sx.solve(problem).model.coef[0]), 6)  # from 1 to 3, a margin of 1
    1.0
    """
    statement = HardMargin(bound_space(X, y, kernel, "free", sample_weight, indefinite, own="free"))
    y_signs, L = statement.y, statement.space.factor
    require_conic_memory(L, "hard-margin dual")
    alpha = cp.Variable(y_signs.size, name="alpha")
    constraints = [
        (alpha >= 0).set_label("nonnegative"),
        (y_signs @ alpha == 0).set_label("balance"),
    ]
    value = cp.sum(alpha) - 0.5 * cp.sum_squares(L.T @ cp.multiply(y_signs, alpha))
    return HardMarginProblem(cp.Maximize(value), constraints, statement)


class L1Problem(FormulationProblem):
    C: cp.Parameter


@builder
def l1_svm(
    X: Any, y: Any, *, C: float, intercept: str = "penalised", sample_weight: Any = None
) -> L1Problem:
    r"""Build the linear SVM with absolute norm and squared hinge loss.

    .. math::
        \min\; \|w\|_1 + C \sum_i s_i \xi_i^2 \quad\text{s.t.}\quad
        y_i\langle w, x_i\rangle \ge 1 - \xi_i,\; \xi_i \ge 0.
    """
    C = check_number(C, "C")
    space = bound_space(X, y, None, intercept, sample_weight, "error")
    check_costs(C, space.data.weight)
    statement, data, rows = AbsoluteNormSVM(space, C), space.data, space.X
    require_conic_memory(rows, "l1 SVM")
    C_parameter = scalar("C", C, pos=True)
    w = cp.Variable(rows.shape[1], name="w")
    xi = cp.Variable(data.n, name="xi")
    constraints = [
        (cp.multiply(data.y, rows @ w) >= 1 - xi).set_label("margin"),
        (xi >= 0).set_label("slack"),
    ]
    losses = cp.sum_squares(cp.multiply(np.sqrt(data.weight), xi))
    return L1Problem(
        cp.Minimize(cp.norm1(w) + C_parameter * losses), constraints, statement, {"C": C_parameter}
    )
