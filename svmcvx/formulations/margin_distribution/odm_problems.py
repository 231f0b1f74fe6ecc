r"""The ODM as cvxpy problems; the statement is :mod:`svmcvx.formulations.margin_distribution.odm`."""

from __future__ import annotations

from typing import Any, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import check_choice
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.building import builder, require_conic_memory
from svmcvx.formulations.margin_distribution.odm import ODM, bound_odm
from svmcvx.formulations.plain_solve import following
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel

__all__ = ["ODMDual", "ODMPrimal", "odm_dual", "odm_primal"]

Floats: TypeAlias = NDArray[np.float64]

FORMS = ("signed", "paper")


class _ODMProblem(FormulationProblem):
    C1: cp.Parameter
    C2: cp.Parameter
    D: cp.Parameter


class ODMPrimal(_ODMProblem):
    """The primal problem; see :func:`odm_primal`."""

    def recover(self) -> RecoveredPoints:
        """Return the models of w and of the multipliers of its margins."""
        w = self._normal()
        if w is None:
            return RecoveredPoints([], [])
        statement: ODM = self.formulation
        return statement.recover(statement.multipliers(statement.margins_at(w)), w)

    def model_at_variables(self) -> BinaryModel | None:
        """Return the model of w as it is; None before a solve."""
        w = self._normal()
        if w is None:
            return None
        statement: ODM = self.formulation
        support = statement.multipliers(statement.margins_at(w)) != 0
        return statement.space.model_from_factor(w, support=support)

    def _normal(self) -> Floats | None:
        w = self.var_dict["w"].value
        return np.asarray(w, dtype=np.float64) if usable(w) else None


class ODMDual(_ODMProblem):
    """The dual problem; see :func:`odm_dual`."""

    theta: cp.Expression

    def recover(self) -> RecoveredPoints:
        """Return the models of the multipliers."""
        theta = self.theta.value
        if not usable(theta):
            return RecoveredPoints([], [])
        found: RecoveredPoints = self.formulation.recover(np.asarray(theta, dtype=np.float64))
        return found


def _parameters(statement: ODM) -> tuple[cp.Parameter, cp.Parameter, cp.Parameter]:
    """C1, C2 and D as cvxpy parameters."""
    return (
        cp.Parameter(pos=True, name="C1", value=statement.C1),
        cp.Parameter(pos=True, name="C2", value=statement.C2),
        cp.Parameter(nonneg=True, name="D", value=statement.D),
    )


@builder
def odm_primal(
    X: Any,
    y: Any,
    *,
    C1: float = 1.0,
    C2: float = 1.0,
    D: float = 0.1,
    kernel: KernelLike = None,
    intercept: bool | str = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMPrimal:
    r"""Build the ODM primal as a cvxpy problem.

    .. math::
        \min\; \tfrac12\|w\|^2 + \sum_i c_i (C_1 \xi_i^2 + C_2 \epsilon_i^2) \quad\text{s.t.}\quad
        u_i = y_i L_i w,\; 1 - D - \xi_i \le u_i \le 1 + D + \epsilon_i,

    where the rows of `L` are the data or those of a factor of the Gram matrix, and :math:`c_i =
    s_i/\sum_j s_j`.

    Parameters
    ----------
    C1, C2 : float
        Weights of the mean squared deviation of margins below and above the band, positive; 1 by
        default. The cvxpy parameters ``problem.C1`` and ``problem.C2``.
    D : float
        Half-width of the band around the margin 1 inside which deviations cost nothing, 0 ≤ D < 1;
        0.1 by default. The cvxpy parameter ``problem.D``.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses; only their ratios matter.

    Returns
    -------
    ODMPrimal
        A ``cvxpy.Problem``. Variables ``w``, ``u``, ``xi``, ``epsilon``; parameters ``C1``, ``C2``,
        ``D``; constraints labelled ``margins`` (the definition of u), ``lower`` and ``upper``, the
        last two with the multipliers ζ and β.

    Notes
    -----
    Source: [ZhangZhou], eq. (7).

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.odm_primal(X, y, C1=1.0, C2=1.0, D=0.1)
    >>> sx.solve(problem).certificate.is_certified(1e-6)
    True
    """
    statement = bound_odm(X, y, C1, C2, D, kernel, intercept, sample_weight, indefinite)
    L, n = statement.space.factor, statement.y.size
    require_conic_memory(L, "ODM primal")
    C1_parameter, C2_parameter, D_parameter = _parameters(statement)
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
    parameters = (C1_parameter, C2_parameter, D_parameter)
    return ODMPrimal(
        cp.Minimize(0.5 * cp.sum_squares(w) + loss), constraints, statement, parameters
    )


@builder
def odm_dual(
    X: Any,
    y: Any,
    *,
    C1: float = 1.0,
    C2: float = 1.0,
    D: float = 0.1,
    kernel: KernelLike = None,
    form: str = "signed",
    intercept: bool | str = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMDual:
    r"""Build the ODM dual as a cvxpy problem.

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
        n free variables, or the 2n non-negative variables of [ZhangZhou].

    Returns
    -------
    ODMDual
        A ``cvxpy.Problem``. Variable ``eta``, or ``zeta_scaled`` and ``beta_scaled``;
        ``problem.theta`` is the expression θ; parameters ``C1``, ``C2``, ``D`` (and ``C1_D``,
        ``C1_squared``, ``C1_squared_over_C2``, which follow them); no constraint, or those labelled
        ``zeta_nonnegative`` and ``beta_nonnegative``.

    Notes
    -----
    Source: [ZhangZhou], eq. (19).

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> problem = sx.odm_dual(X, y, C1=1.0, C2=1.0, D=0.1, kernel="rbf")
    >>> len(problem.constraints), sx.solve(problem).certificate.is_certified(1e-6)
    (0, True)
    """
    check_choice(form, "form", FORMS)
    statement = bound_odm(X, y, C1, C2, D, kernel, intercept, sample_weight, indefinite)
    n, c = statement.y.size, statement.share
    C1_parameter, C2_parameter, D_parameter = _parameters(statement)
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
    root = np.sqrt(c)
    value = (
        C1_parameter * (2 * (c @ eta))
        - C1_D * (2 * (c @ (positive + negative)))
        - _half_squared_norm(statement, eta, C1_parameter)
        - C1_parameter * cp.sum_squares(cp.multiply(root, positive))
        - ratio * cp.sum_squares(cp.multiply(root, negative))
    )
    problem = ODMDual(
        cp.Maximize(value), constraints, statement, (C1_parameter, C2_parameter, D_parameter)
    )
    problem.theta = C1_parameter * cp.multiply(2 * c, eta)
    return problem


def _half_squared_norm(statement: ODM, eta: cp.Expression, C1: cp.Parameter) -> cp.Expression:
    """½ v'Kv at v = 2 C1 y c η: through a thin factor, or through K itself where the factor is as
    large.
    """
    L = statement.space.factor
    require_conic_memory(L, "ODM dual")
    n, r = L.shape
    signed = cp.multiply(statement.y * statement.share, eta)
    if 2 * r <= n or sp.issparse(L):
        return 2 * cp.sum_squares(L.T @ (C1 * signed))
    C1_squared = following(np.square, C1, name="C1_squared")
    # The factor has shown that K is positive semidefinite, so cvxpy need not estimate its
    # eigenvalues again.
    return C1_squared * (2 * cp.quad_form(signed, cp.psd_wrap(L @ L.T)))


def _ratio(C1: float, C2: float) -> float:
    """C1²/C2."""
    return C1**2 / C2
