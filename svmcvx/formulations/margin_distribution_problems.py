"""ODM and ODML as cvxpy problems; the statements are
:mod:`svmcvx.formulations.margin_distribution`.
"""

from __future__ import annotations

from typing import Any

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from svmcvx.data import check_choice, check_number, check_numbers
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.margin_distribution import ODM, ODML, ODMLHardMargin, mean_weights
from svmcvx.formulations.problem import (
    FormulationProblem,
    builder,
    following,
    half_squared_norm,
    require_conic_memory,
    scalar,
)
from svmcvx.kernels import KernelLike

FORMS = ("signed", "paper")


class ODMPrimal(FormulationProblem):
    C1: cp.Parameter
    C2: cp.Parameter
    D: cp.Parameter


class ODMDual(ODMPrimal):
    theta: cp.Expression


def _parameters(statement: ODM) -> dict[str, cp.Parameter]:
    return {
        "C1": scalar("C1", statement.C1, pos=True),
        "C2": scalar("C2", statement.C2, pos=True),
        "D": scalar("D", statement.D, nonneg=True),
    }


@builder
def odm_primal(
    X: Any,
    y: Any,
    *,
    C1: float | None = None,
    C2: float | None = None,
    D: float = 0.1,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMPrimal:
    r"""Build the ODM primal as a cvxpy problem ([ZhangZhou], eq. 7).

    .. math::
        \min\; \tfrac12\|w\|^2 + \sum_i c_i (C_1 \xi_i^2 + C_2 \epsilon_i^2) \quad\text{s.t.}\quad
        u_i = y_i L_i w,\; 1 - D - \xi_i \le u_i \le 1 + D + \epsilon_i,

    where the rows of `L` are the data or those of a factor of the Gram matrix, and :math:`c_i =
    s_i/\sum_j s_j`.

    Parameters
    ----------
    C1, C2 : float, optional
        Weights of the mean squared deviation of margins below and above the band, positive. By
        default the sum of the observations' weights (n without weights), by which the deviations
        are summed, as the losses of an SVM. The cvxpy parameters ``problem.C1``, ``problem.C2``.
    D : float
        Half-width of the band around the margin 1 inside which deviations cost nothing, 0 ≤ D < 1;
        0.1 by default. The cvxpy parameter ``problem.D``.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses; only their ratios matter.

    Returns
    -------
    ODMPrimal
        A ``cvxpy.Problem``. The multipliers of ``lower`` and ``upper`` are ζ and β; ``margins``
        defines u.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.odm_primal(X, y, C1=1.0, C2=1.0, D=0.1)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    D = check_number(D, "D")
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite)
    C1, C2 = mean_weights(space, C1=C1, C2=C2)
    statement = ODM(space, C1, C2, D)
    L, n = statement.space.factor, statement.y.size
    require_conic_memory(L, "ODM primal")
    C1_parameter, C2_parameter, D_parameter = (parameters := _parameters(statement)).values()
    w = cp.Variable(L.shape[1], name="w")
    # Naming the margins lets the solver see the data matrix once instead of twice.
    u = cp.Variable(n, name="u")
    xi, epsilon = cp.Variable(n, name="xi"), cp.Variable(n, name="epsilon")
    root = np.sqrt(statement.share)
    constraints = [
        (u == cp.multiply(statement.y, L @ w)).set_label("margins"),
        (1 - D_parameter - xi <= u).set_label("lower"),
        (u <= 1 + D_parameter + epsilon).set_label("upper"),
    ]
    loss = C1_parameter * cp.sum_squares(cp.multiply(root, xi)) + C2_parameter * cp.sum_squares(
        cp.multiply(root, epsilon)
    )
    return ODMPrimal(
        cp.Minimize(0.5 * cp.sum_squares(w) + loss), constraints, statement, parameters
    )


@builder
def odm_dual(
    X: Any,
    y: Any,
    *,
    C1: float | None = None,
    C2: float | None = None,
    D: float = 0.1,
    kernel: KernelLike = None,
    form: str = "signed",
    intercept: bool | str = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMDual:
    r"""Build the ODM dual as a cvxpy problem ([ZhangZhou], eq. 19).

    In the scaled multipliers :math:`\eta_i = \theta_i / (2 C_1 c_i)`, which stay of order one
    however large or small :math:`C_1` is (where positive, :math:`\eta_i = \xi_i` at the optimum):

    .. math::
        \max\; 2 C_1 c'\eta - 2 C_1 D\, c'(\eta_+ + \eta_-) - 2 C_1^2 (y c \eta)'K(y c \eta)
        - C_1 c'\eta_+^2 - \frac{C_1^2}{C_2} c'\eta_-^2.

    Its value is that of the dual in θ. With ``form="paper"`` the parts :math:`\eta_+, \eta_- \ge 0`
    are two vectors of variables with :math:`\eta = \eta_+ - \eta_-`: the dual of [ZhangZhou] in
    :math:`\zeta = 2 C_1 c\, \eta_+` and :math:`\beta = 2 C_1 c\, \eta_-`.

    Parameters
    ----------
    X, y, C1, C2, D
        As for :func:`odm_primal`; a precomputed kernel takes the Gram matrix as `X`.
    form : "signed" or "paper"
        The n free variables, or the 2n non-negative ones of [ZhangZhou].

    Returns
    -------
    ODMDual
        A ``cvxpy.Problem`` in ``eta``, or in ``zeta_scaled`` and ``beta_scaled``; ``problem.theta``
        is the expression θ.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.odm_dual(X, y, C1=1.0, C2=1.0, D=0.1, kernel="rbf")
    >>> len(problem.constraints), sx.solve(problem).certificate.is_certified(1e-6)
    (0, True)
    """
    check_choice(form, "form", FORMS)
    D = check_number(D, "D")
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite)
    C1, C2 = mean_weights(space, C1=C1, C2=C2)
    statement = ODM(space, C1, C2, D)
    n, c = statement.y.size, statement.share
    C1_parameter, C2_parameter, D_parameter = (parameters := _parameters(statement)).values()
    C1_D = following(np.multiply, C1_parameter, D_parameter, name="C1_D")
    ratio = following(_ratio, C1_parameter, C2_parameter, name="C1_squared_over_C2")
    constraints: list[cp.Constraint] = []
    if form == "signed":
        eta = cp.Variable(n, name="eta")
        positive, negative = cp.pos(eta), cp.neg(eta)
    else:
        positive, negative = cp.Variable(n, name="zeta_scaled"), cp.Variable(n, name="beta_scaled")
        eta = positive - negative
        constraints = [
            (positive >= 0).set_label("zeta_nonnegative"),
            (negative >= 0).set_label("beta_nonnegative"),
        ]
    root, v = np.sqrt(c), cp.multiply(2 * statement.y * c, eta)
    value = (
        C1_parameter * (2 * (c @ eta))
        - C1_D * (2 * (c @ (positive + negative)))
        - half_squared_norm(statement.space.factor, v, C1_parameter, "ODM dual")
        - C1_parameter * cp.sum_squares(cp.multiply(root, positive))
        - ratio * cp.sum_squares(cp.multiply(root, negative))
    )
    problem = ODMDual(cp.Maximize(value), constraints, statement, parameters)
    problem.theta = C1_parameter * cp.multiply(2 * c, eta)
    return problem


def _ratio(C1: float, C2: float) -> float:
    return C1**2 / C2


class ODMLPrimal(FormulationProblem):
    lam1: cp.Parameter
    lam2: cp.Parameter
    C: cp.Parameter


class ODMLDual(FormulationProblem):
    lam2: cp.Parameter
    C: cp.Parameter
    alpha: cp.Expression


class ODMLHardMarginProblem(FormulationProblem):
    lam1: cp.Parameter
    lam2: cp.Parameter


def _quadratic_part(
    statement: ODML | ODMLHardMargin, what: str
) -> tuple[cp.Parameter, cp.Parameter, cp.Variable, cp.Expression, list[cp.Constraint]]:
    """Return λ₁, λ₂, u, ½‖w‖² + λ₁ var − λ₂ mean, and the constraints of margins and mean."""
    L, c = statement.space.factor, statement.share
    require_conic_memory(L, what)
    lam1 = scalar("lam1", statement.lam1, nonneg=True)
    lam2 = scalar("lam2", statement.lam2, nonneg=True)
    w = cp.Variable(L.shape[1], name="w")
    u, mean = cp.Variable(c.size, name="u"), cp.Variable(name="mean")
    constraints = [
        (u == cp.multiply(statement.y, L @ w)).set_label("margins"),
        (mean == c @ u).set_label("mean"),
    ]
    variance = cp.sum_squares(cp.multiply(np.sqrt(c), u - mean))
    return lam1, lam2, u, 0.5 * cp.sum_squares(w) + lam1 * variance - lam2 * mean, constraints


@builder
def odml_primal(
    X: Any,
    y: Any,
    *,
    lam1: float = 0.0625,
    lam2: float = 0.0625,
    C: float | None = None,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMLPrimal:
    r"""Build the soft-margin ODML primal as a cvxpy problem ([ZhangZhou], eq. 5).

    .. math::
        \min\; \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u
        + C \sum_i c_i \xi_i
        \quad\text{s.t.}\quad u_i = y_i L_i w,\; \bar u = c'u,\; u_i \ge 1 - \xi_i,\; \xi_i \ge 0,

    where the rows of `L` are the data or those of a factor of the Gram matrix, and :math:`c_i =
    s_i/\sum_j s_j`.

    Parameters
    ----------
    lam1, lam2 : float
        Weights of the variance and the mean of the margins, not negative; 1/16 by default. The
        cvxpy parameters ``problem.lam1`` and ``problem.lam2``.
    C : float, optional
        Weight of the mean hinge, at least 0. By default the sum of the observations' weights (n
        without weights), by which the losses are summed. The cvxpy parameter ``problem.C``.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the observations in mean, variance and loss; only their ratios
        matter.

    Returns
    -------
    ODMLPrimal
        A ``cvxpy.Problem``. The multipliers of ``margin`` are α; ``margins`` and ``mean`` are
        definitions.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.odml_primal(X, y, lam1=0.1, lam2=0.1, C=1.0)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    lam1, lam2 = check_numbers(lam1=lam1, lam2=lam2)
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite)
    (C,) = mean_weights(space, C=C)
    statement = ODML(space, lam1, lam2, C)
    lam1_parameter, lam2_parameter, u, quadratic, constraints = _quadratic_part(
        statement, "ODML primal"
    )
    C_parameter = scalar("C", C, nonneg=True)
    xi = cp.Variable(statement.y.size, name="xi")
    constraints += [(u >= 1 - xi).set_label("margin"), (xi >= 0).set_label("slack")]
    parameters = {"lam1": lam1_parameter, "lam2": lam2_parameter, "C": C_parameter}
    return ODMLPrimal(
        cp.Minimize(quadratic + C_parameter * (statement.share @ xi)),
        constraints,
        statement,
        parameters,
    )


@builder
def odml_dual(
    X: Any,
    y: Any,
    *,
    lam1: float = 0.0625,
    lam2: float = 0.0625,
    C: float | None = None,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMLDual:
    r"""Build the soft-margin ODML dual as a cvxpy problem ([ZhangZhou], eqs. 12-14).

    In the scaled multipliers :math:`\beta_i = \alpha_i / (C c_i)`, with :math:`q = c(C\beta +
    \lambda_2)`:

    .. math:: \max\; C c'\beta - \tfrac12 q'Hq \quad\text{s.t.}\quad 0 \le \beta \le 1.

    Its value is the optimal value of the primal (the dual of [ZhangZhou] leaves out a constant). H
    is not formed when the factor is thin: then :math:`q'Hq = \|T^{-1}g\|^2` with :math:`g = Z'q`
    and :math:`TT' = R`.

    Parameters
    ----------
    X, y, lam1, lam2, C
        As for :func:`odml_primal`; a precomputed kernel takes the Gram matrix as `X`. `lam1` enters
        H and is not a cvxpy parameter here: build again for another value, or use
        :func:`odml_primal`.

    Returns
    -------
    ODMLDual
        A ``cvxpy.Problem`` in ``beta`` and, with a thin factor, ``g``; ``problem.alpha`` is the
        expression :math:`\alpha = C c \beta`.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.odml_dual(X, y, lam1=0.1, lam2=0.1, C=1.0)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    lam1, lam2 = check_numbers(lam1=lam1, lam2=lam2)
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite)
    (C,) = mean_weights(space, C=C)
    statement = ODML(space, lam1, lam2, C)
    C_parameter = scalar("C", C, nonneg=True)
    lam2_parameter = scalar("lam2", lam2, nonneg=True)
    c = statement.share
    beta = cp.Variable(c.size, name="beta")
    half, constraints = _half_quadratic(statement, beta, C_parameter, lam2_parameter)
    constraints += [(beta >= 0).set_label("nonnegative"), (beta <= 1).set_label("box")]
    objective = cp.Maximize(C_parameter * (c @ beta) - half)
    parameters = {"lam2": lam2_parameter, "C": C_parameter}
    problem = ODMLDual(objective, constraints, statement, parameters)
    problem.alpha = C_parameter * cp.multiply(c, beta)
    return problem


def _half_quadratic(
    statement: ODML, beta: cp.Variable, C: cp.Parameter, lam2: cp.Parameter
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return ½ q'Hq at q = c (C β + λ₂), through H itself where the factor is as large."""
    L, c = statement.space.factor, statement.share
    require_conic_memory(L, "ODML dual")
    n, r = L.shape
    if 2 * r <= n or sp.issparse(L):
        whiten = sl.solve_triangular(
            statement.curvature.triangle, np.eye(r), lower=True, check_finite=False
        )
        g = cp.Variable(r, name="g")
        combination = (g == L.T @ cp.multiply(statement.y * c, C * beta + lam2)).set_label(
            "combination"
        )
        return 0.5 * cp.sum_squares(whiten @ g), [combination]
    shared = c[:, None] * statement.curvature.whitened()
    H = shared @ shared.T
    C_squared = following(np.square, C, name="C_squared")
    C_lam2 = following(np.multiply, C, lam2, name="C_lam2")
    lam2_squared = following(np.square, lam2, name="lam2_squared")
    # H is a product with its transpose, so cvxpy need not estimate its eigenvalues.
    quadratic = C_squared * (0.5 * cp.quad_form(beta, cp.psd_wrap(H)))
    return quadratic + C_lam2 * (H.sum(axis=1) @ beta) + lam2_squared * (0.5 * float(H.sum())), []


@builder
def odml_hard_margin(
    X: Any,
    y: Any,
    *,
    lam1: float = 0.0625,
    lam2: float = 0.0625,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMLHardMarginProblem:
    r"""Build the primal of the hard-margin ODML as a cvxpy problem.

    .. math::
        \min\; \tfrac12\|w\|^2 + \lambda_1 \sum_i c_i (u_i - \bar u)^2 - \lambda_2 \bar u
        \quad\text{s.t.}\quad u_i = y_i L_i w,\; \bar u = c'u,\; u_i \ge 1.

    It is infeasible when no hyperplane through the origin of the feature space separates the
    classes ([ZhangZhou], section 3.1).

    Parameters
    ----------
    X, y, lam1, lam2
        As for :func:`odml_primal`.

    Returns
    -------
    ODMLHardMarginProblem
        A ``cvxpy.Problem``. The multipliers of ``margin`` are α; ``margins`` and ``mean`` are
        definitions.

    Examples
    --------
    >>> import svmcvx as sx
    >>> problem = sx.odml_hard_margin([[-2.0], [-1.0], [1.0]], [-1, -1, 1], lam1=0.1, lam2=0.1)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    lam1, lam2 = check_numbers(lam1=lam1, lam2=lam2)
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite)
    statement = ODMLHardMargin(space, lam1, lam2)
    lam1_parameter, lam2_parameter, u, quadratic, constraints = _quadratic_part(
        statement, "hard-margin ODML"
    )
    constraints.append((u >= 1).set_label("margin"))
    parameters = {"lam1": lam1_parameter, "lam2": lam2_parameter}
    return ODMLHardMarginProblem(cp.Minimize(quadratic), constraints, statement, parameters)
