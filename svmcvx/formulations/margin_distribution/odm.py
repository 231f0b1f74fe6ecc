r"""ODM: the optimal margin distribution machine, and what it shares with its predecessor ODML.

**Primal**, :math:`C_1, C_2 > 0`, :math:`0 \le D < 1`, with shares :math:`c_i = s_i / m` of the weights :math:`s_i`
(1 by default) and their sum :math:`m = \sum_i s_i`, so that an observation of weight k counts as k copies of it:

.. math::
    \min_w\; P(w) = \tfrac12\|w\|^2 + \sum_i c_i \big(C_1 (1 - D - u_i)_+^2 + C_2 (u_i - 1 - D)_+^2\big), \qquad
    u_i = y_i \langle w, \varphi(x_i)\rangle.

**Dual**, unconstrained in the signed multipliers :math:`\theta = \zeta - \beta`:

.. math::
    \max_\theta\; G(\theta) = \sum_i \theta_i - D \sum_i |\theta_i| - \tfrac12 v'Kv
      - \sum_i \frac{(\theta_i)_+^2}{4 C_1 c_i} - \sum_i \frac{(\theta_i)_-^2}{4 C_2 c_i}, \qquad v_i = \theta_i y_i.

The paper's dual has :math:`\zeta, \beta \ge 0`, twice as many variables; at its optimum :math:`\zeta_i \beta_i = 0`, so
both have the same value. At the optimum

.. math:: \theta_i = 2 C_1 c_i (1 - D - u_i)_+ - 2 C_2 c_i (u_i - 1 - D)_+, \qquad w = \sum_i v_i \varphi(x_i),

and for *every* w the first formula gives a dual point with :math:`P(w) - G(\theta) = \tfrac12\|w - \sum_i v_i\varphi(x_i)\|^2`.

============== ================================================ =========
symbol         meaning                                          shape
============== ================================================ =========
X, y           data, labels ±1                                  (n, d), (n,)
K              Gram matrix                                      (n, n)
L              factor of it, or the data                        (n, r)
c              shares of the weights, 1/n without weights       (n,)
theta          signed multipliers                               (n,)
w              normal in the columns of L                       (r,)
u              margins                                          (n,)
============== ================================================ =========

**Scaling.** Losses are averaged, so multiplying all weights by a number changes nothing. At D = 0 and
:math:`C_1 = C_2 = C` this is ridge regression on the labels, scikit-learn's ``Ridge(alpha=m / (2 * C),
fit_intercept=False)``. There is no intercept; ``intercept=True`` appends a constant feature, whose coefficient
is penalised with the others.

**Source.** Optimal Margin Distribution Machine, eqs. (7), (15)-(19), (22). Eq. (15) there ends in :math:`-\xi` where
:math:`-\epsilon` is meant.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS, Dual, Evaluation, accumulated_rounding
from svmcvx.data import binary_data, check_choice, check_number
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace, feature_space
from svmcvx.formulations.base import (
    Formulation,
    FormulationProblem,
    RecoveredPoints,
    full_entry,
    kept_entry,
    require_conic_memory,
    usable,
)
from svmcvx.kernels import KernelLike
from svmcvx.model import BinaryModel

__all__ = [
    "ODM",
    "MarginDistribution",
    "ODMDual",
    "ODMPrimal",
    "bound_odm",
    "dual_objective",
    "margin_space",
    "multipliers",
    "objective",
    "odm_dual",
    "odm_primal",
    "solve_positive",
]

Floats: TypeAlias = NDArray[np.float64]

FORMS = ("signed", "paper")

# Newton's method on a piecewise quadratic function ends when the pieces stop changing.
ROUNDS = 40
LARGEST_SYSTEM = 4000


def objective(
    squared_norm: float, u: Floats, *, C1: float, C2: float, D: float, share: Floats | float | None = None
) -> float:
    r"""Return :math:`P = \tfrac12\|w\|^2 + \sum_i c_i (C_1 (1-D-u_i)_+^2 + C_2 (u_i-1-D)_+^2)`; :math:`c_i = 1/n` by default."""
    short, long = _deviations(u, D)
    return 0.5 * squared_norm + float(np.sum(_share(share, u) * (C1 * short**2 + C2 * long**2)))


def dual_objective(
    theta: Floats, squared_norm: float, *, C1: float, C2: float, D: float, share: Floats | float | None = None
) -> float:
    r"""Return :math:`G(\theta)`, with :math:`v'Kv` passed as `squared_norm`."""
    conjugate = np.sum(theta**2 / (4.0 * np.where(theta > 0, C1, C2) * _share(share, theta)))
    return float(theta.sum()) - D * float(np.abs(theta).sum()) - float(conjugate) - 0.5 * squared_norm


def multipliers(u: Floats, *, C1: float, C2: float, D: float, share: Floats | float | None = None) -> Floats:
    r"""Return :math:`\theta_i = 2 C_1 c_i (1-D-u_i)_+ - 2 C_2 c_i (u_i-1-D)_+`, minus the derivative of the losses."""
    short, long = _deviations(u, D)
    return 2.0 * _share(share, u) * (C1 * short - C2 * long)


def _deviations(u: Floats, D: float) -> tuple[Floats, Floats]:
    return np.maximum(1.0 - D - u, 0.0), np.maximum(u - 1.0 - D, 0.0)


def _share(share: Floats | float | None, like: Floats) -> Floats | float:
    return 1.0 / like.size if share is None else share


@dataclass(frozen=True, eq=False)
class MarginDistribution(Formulation):
    """What the statements of the ODM family share: a space without a free intercept, and averaged losses.

    Parameters
    ----------
    space : FeatureSpace
    """

    space: FeatureSpace

    @property
    def facts(self) -> Mapping[str, float]:
        """Facts of the kernel."""
        return self.space.facts

    @property
    def y(self) -> Floats:
        """Labels ±1."""
        return self.space.data.y

    @property
    def share(self) -> Floats:
        """Shares of the weights, of sum 1."""
        return self.space.data.weight / float(self.space.data.weight.sum())

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The kernel, and whether a constant feature was appended."""
        kernel = self.space.kernel
        return {"kernel": "none" if kernel is None else str(kernel), "intercept": self.space.intercept == "penalised"}

    def entry(self, dual: Dual, name: str) -> Floats:
        """Return one entry of a dual point for the observations that are kept."""
        return kept_entry(dual, name, self.space.data, self.name)

    def export_dual(self, dual: Dual) -> Dual:
        """Return the entries with a zero for each observation of weight zero."""
        return {name: full_entry(self.entry(dual, name), self.space.data) for name in dual}


@dataclass(frozen=True, eq=False)
class ODM(MarginDistribution):
    """The statement of the ODM bound to data.

    Parameters
    ----------
    space : FeatureSpace
        With its intercept "none" or "penalised".
    C1, C2 : float
        Weights of margins that are too short and too long, positive.
    D : float
        Deviation from the margin 1 that costs nothing, in [0, 1).
    """

    name: ClassVar[str] = "odm"
    C1: float
    C2: float
    D: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C1, C2, D, the kernel and the intercept."""
        return {"C1": self.C1, "C2": self.C2, "D": self.D, **super().hyperparameters}

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model, from its scores on the raw data."""
        data, c = self.space.data, self.share
        f, f_rounding = self.space.scores(model)
        norm, norm_rounding = self.space.squared_norm(model)
        u = self.y * f
        with np.errstate(over="ignore", invalid="ignore"):
            value = objective(norm, u, C1=self.C1, C2=self.C2, D=self.D, share=c)
            off = f_rounding + EPS * (1.0 + self.D + np.abs(u))
            slope = np.abs(self.multipliers(u))
            rounding = (
                0.5 * norm_rounding
                + float(slope @ off)
                + max(self.C1, self.C2) * float(c @ off**2)
                + accumulated_rounding(data.n) * value
            )
        return Evaluation(value, rounding)

    def multipliers(self, u: Floats) -> Floats:
        """Return the dual point of margins, optimal if they are."""
        return multipliers(u, C1=self.C1, C2=self.C2, D=self.D, share=self.share)

    def repair(self, dual: Dual) -> Dual:
        """Return θ as it is: every point is feasible."""
        return {"theta": self.entry(dual, "theta")}

    def dual_violation(self, dual: Dual) -> float:
        """0 for every θ that is made of numbers."""
        return 0.0 if np.isfinite(self.entry(dual, "theta")).all() else math.inf

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """G at any θ."""
        theta = self.entry(dual, "theta")
        point = self.space.product(theta * self.y)
        with np.errstate(over="ignore", invalid="ignore"):
            value = dual_objective(theta, point.squared_norm, C1=self.C1, C2=self.C2, D=self.D, share=self.share)
            linear = float(theta.sum()) - self.D * float(np.abs(theta).sum())
            conjugate = linear - 0.5 * point.squared_norm - value
            terms = (1.0 + self.D) * float(np.abs(theta).sum()) + abs(conjugate)
            rounding = accumulated_rounding(theta.size) * terms + 0.5 * point.squared_norm_rounding
        return Evaluation(value, rounding)

    def recover(self, theta: Floats, w: Floats | None = None) -> RecoveredPoints:
        """Return the models of (approximate) multipliers, and multipliers.

        The first candidate, if there is one, solves the optimality conditions to rounding. The multipliers of the
        margins that the approximate ones give, and zero, are further candidates for the bound.

        Parameters
        ----------
        theta : ndarray of shape (n,)
        w : ndarray of shape (r,), optional
            The normal in the columns of the factor, where a solver has found it.
        """
        u = self.y * (self.space.product(theta * self.y).scores if w is None else np.asarray(self.space.factor @ w))
        points = [theta]
        polished = self._polish(u)
        if polished is not None:
            points, w = [polished[0], theta], polished[1]
        models: list[BinaryModel] = [self.space.model(point * self.y) for point in points]
        if w is not None:
            models.append(self.space.model_from_factor(w, support=points[0] != 0))
        return RecoveredPoints(models, [{"theta": point} for point in (*points, self.multipliers(u), np.zeros(u.size))])

    def _polish(self, u: Floats) -> tuple[Floats, Floats | None] | None:
        r"""Newton's method on P from the margins `u`: θ of the minimiser, and w where that was solved for; None if it fails.

        While it is known which margins are too short or too long, the set A, the conditions are linear:
        :math:`\theta_A = S (t - u_A)` with the stiffness :math:`S = \mathrm{diag}(2 C c)` and the ends t of the band. They
        are solved for θ_A, or for w where that is the smaller system:
        :math:`(S^{-1} + Q_{AA}) \theta_A = t` or :math:`(I + Z_A' S Z_A) w = Z_A' S t`, where :math:`Z = YL`, :math:`Q = ZZ'`.
        """
        L, c = self.space.factor, self.share
        theta: Floats = np.zeros(u.size)
        w: Floats | None = None
        for _ in range(ROUNDS):
            short, long = u < 1.0 - self.D, u > 1.0 + self.D
            rows = np.flatnonzero(short | long)
            if min(rows.size, L.shape[1]) > LARGEST_SYSTEM:
                return None
            stiffness = 2.0 * c[rows] * np.where(short[rows], self.C1, self.C2)
            end = np.where(short[rows], 1.0 - self.D, 1.0 + self.D)
            part = self.y[rows, None] * (L[rows].toarray() if sp.issparse(L) else L[rows])
            theta, w = np.zeros(u.size), None
            try:
                if rows.size <= L.shape[1]:
                    system = part @ part.T
                    system[np.diag_indices(rows.size)] += 1.0 / stiffness
                    theta[rows] = solve_positive(system, end)
                    u = self.y * np.asarray(L @ (part.T @ theta[rows]))
                else:
                    # As a least-squares problem, by an orthogonal factor: squaring Z would lose its digits.
                    root = np.sqrt(stiffness)
                    stacked = np.vstack([root[:, None] * part, np.eye(L.shape[1])])
                    orthogonal, upper = sl.qr(stacked, mode="economic", overwrite_a=True)
                    w = sl.solve_triangular(upper, orthogonal[: rows.size].T @ (root * end))
                    u = self.y * np.asarray(L @ w)
                    theta[rows] = stiffness * (end - u[rows])
            except (ValueError, sl.LinAlgError):
                return None
            if np.array_equal(short, u < 1.0 - self.D) and np.array_equal(long, u > 1.0 + self.D):
                break
        return theta, w


class _ODMProblem(FormulationProblem):
    C1: cp.Parameter
    C2: cp.Parameter
    D: cp.Parameter
    _fixed: ODM

    @property
    def param_dict(self) -> dict[str, cp.Parameter]:
        """The parameters by their names, with those that enter only through others."""
        return {**super().param_dict, "C1": self.C1, "C2": self.C2, "D": self.D}

    @property
    def formulation(self) -> ODM:
        """The ODM at the present values of C1, C2 and D."""
        return ODM(space=self._fixed.space, C1=float(self.C1.value), C2=float(self.C2.value), D=float(self.D.value))


class ODMPrimal(_ODMProblem):
    """The primal problem; see :func:`odm_primal`."""

    def recover(self) -> RecoveredPoints:
        """The models of w and of the multipliers of its margins."""
        w = self.var_dict["w"].value
        if not usable(w):
            return RecoveredPoints([], [])
        statement = self.formulation
        w = np.asarray(w, dtype=np.float64)
        return statement.recover(statement.multipliers(statement.y * np.asarray(statement.space.factor @ w)), w)


class ODMDual(_ODMProblem):
    """The dual problem; see :func:`odm_dual`."""

    theta: cp.Expression

    def recover(self) -> RecoveredPoints:
        """The models of the multipliers."""
        theta = self.theta.value
        return (
            self.formulation.recover(np.asarray(theta, dtype=np.float64)) if usable(theta) else RecoveredPoints([], [])
        )


def solve_positive(system: Floats, right: Floats) -> Floats:
    """Solve a symmetric positive definite system, which is overwritten."""
    return np.asarray(sl.cho_solve(sl.cho_factor(system, lower=True, overwrite_a=True), right))


def margin_space(
    X: Any,
    y: Any,
    *,
    kernel: KernelLike,
    intercept: bool,
    sample_weight: Any,
    indefinite: str,
    largest_gram: float = math.inf,
) -> FeatureSpace:
    """Return the space of validated data, with a constant feature appended if `intercept`.

    No Gram matrix is kept of more than `largest_gram` observations, if the kernel is positive semidefinite on any data.
    """
    if not isinstance(intercept, (bool, np.bool_)):
        raise DataError(
            f"intercept must be True (append a constant feature, penalised like the others) or False, got {intercept!r}"
        )
    data = binary_data(X, y, sample_weight)
    return feature_space(
        data,
        kernel,
        intercept="penalised" if intercept else "none",
        indefinite=indefinite,
        keep_gram=data.n <= largest_gram,
    )


def bound_odm(
    X: Any,
    y: Any,
    C1: float,
    C2: float,
    D: float,
    kernel: KernelLike,
    intercept: bool,
    sample_weight: Any,
    indefinite: str,
    largest_gram: float = math.inf,
) -> ODM:
    """Return the statement bound to validated data and hyper-parameters; raises as :func:`odm_primal`.

    `largest_gram` is that of :func:`margin_space`.
    """
    C1 = check_number(C1, "C1", low=0, open_low=True)
    C2 = check_number(C2, "C2", low=0, open_low=True)
    D = check_number(D, "D", low=0, high=1, open_high=True, why="a band of half-width 1 would make w = 0 optimal")
    space = margin_space(
        X,
        y,
        kernel=kernel,
        intercept=intercept,
        sample_weight=sample_weight,
        indefinite=indefinite,
        largest_gram=largest_gram,
    )
    return ODM(space=space, C1=C1, C2=C2, D=D)


def _parameters(statement: ODM) -> tuple[cp.Parameter, cp.Parameter, cp.Parameter]:
    return (
        cp.Parameter(pos=True, name="C1", value=statement.C1),
        cp.Parameter(pos=True, name="C2", value=statement.C2),
        cp.Parameter(nonneg=True, name="D", value=statement.D),
    )


def odm_primal(
    X: Any,
    y: Any,
    *,
    C1: float,
    C2: float,
    D: float,
    kernel: KernelLike = None,
    intercept: bool = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMPrimal:
    r"""Build the ODM primal as a cvxpy problem.

    .. math::
        \min\; \tfrac12\|w\|^2 + \sum_i c_i (C_1 \xi_i^2 + C_2 \epsilon_i^2) \quad\text{s.t.}\quad
        u_i = y_i L_i w,\; 1 - D - \xi_i \le u_i \le 1 + D + \epsilon_i,

    where the rows of `L` are the data or those of a factor of the Gram matrix, and :math:`c_i = s_i/\sum_j s_j`.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
        Two labels of any type.
    C1, C2 : float
        Weights of the mean squared deviation of margins below and above the band, positive. The cvxpy parameters
        ``problem.C1`` and ``problem.C2``.
    D : float
        Half-width of the band around the margin 1 inside which deviations cost nothing, 0 ≤ D < 1. The cvxpy
        parameter ``problem.D``.
    kernel : Kernel, str, callable or None
        None for the linear formulation.
    intercept : bool
        Append the constant feature 1 (add 1 to the kernel); its coefficient is penalised. Not by default.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses; only their ratios matter.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.

    Returns
    -------
    ODMPrimal
        A ``cvxpy.Problem``. Variables ``w``, ``u``, ``xi``, ``epsilon``; parameters ``C1``, ``C2``, ``D``; constraints
        labelled ``margins`` (the definition of u), ``lower`` and ``upper``, the last two with the multipliers ζ and β.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: ODM paper, eq. (7).
    """
    started = time.perf_counter()
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
    problem = ODMPrimal(cp.Minimize(0.5 * cp.sum_squares(w) + loss), constraints)
    problem.C1, problem.C2, problem.D, problem._fixed = C1_parameter, C2_parameter, D_parameter, statement
    problem.build_seconds = time.perf_counter() - started
    return problem


def odm_dual(
    X: Any,
    y: Any,
    *,
    C1: float,
    C2: float,
    D: float,
    kernel: KernelLike = None,
    form: str = "signed",
    intercept: bool = False,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ODMDual:
    r"""Build the ODM dual as a cvxpy problem.

    In the scaled multipliers :math:`\eta_i = \theta_i / (2 C_1 c_i)`, which stay of order one however large or small
    :math:`C_1` is (where positive, :math:`\eta_i = \xi_i` at the optimum):

    .. math::
        \max\; 2 C_1 c'\eta - 2 C_1 D\, c'(\eta_+ + \eta_-) - 2 C_1^2 (y c \eta)'K(y c \eta)
        - C_1 c'\eta_+^2 - \frac{C_1^2}{C_2} c'\eta_-^2.

    Its value is that of the dual in θ. With ``form="paper"`` the parts :math:`\eta_+, \eta_- \ge 0` are two vectors of
    variables with :math:`\eta = \eta_+ - \eta_-`: the dual of the paper in :math:`\zeta = 2 C_1 c\, \eta_+` and
    :math:`\beta = 2 C_1 c\, \eta_-`.

    Parameters
    ----------
    X, y, C1, C2, D, kernel, intercept, sample_weight, indefinite
        As for :func:`odm_primal`; a precomputed kernel takes the Gram matrix as `X`.
    form : "signed" or "paper"
        n free variables, or the 2n non-negative variables of the paper.

    Returns
    -------
    ODMDual
        A ``cvxpy.Problem``. Variable ``eta``, or ``zeta_scaled`` and ``beta_scaled``; ``problem.theta`` is the
        expression θ; parameters ``C1``, ``C2``, ``D`` (and ``C1_D``, ``C1_squared``, ``C1_squared_over_C2``, which follow
        them); no constraint, or those labelled ``zeta_nonnegative`` and ``beta_nonnegative``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: ODM paper, eq. (19).
    """
    started = time.perf_counter()
    check_choice(form, "form", FORMS)
    statement = bound_odm(X, y, C1, C2, D, kernel, intercept, sample_weight, indefinite)
    n, c = statement.y.size, statement.share
    C1_parameter, C2_parameter, D_parameter = _parameters(statement)
    C1_D = cp.CallbackParam(callback=lambda: C1_parameter.value * D_parameter.value, nonneg=True, name="C1_D")
    ratio = cp.CallbackParam(
        callback=lambda: C1_parameter.value**2 / C2_parameter.value, nonneg=True, name="C1_squared_over_C2"
    )
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
    problem = ODMDual(cp.Maximize(value), constraints)
    problem.C1, problem.C2, problem.D, problem._fixed = C1_parameter, C2_parameter, D_parameter, statement
    problem.theta = C1_parameter * cp.multiply(2 * c, eta)
    problem.build_seconds = time.perf_counter() - started
    return problem


def _half_squared_norm(statement: ODM, eta: cp.Expression, C1: cp.Parameter) -> cp.Expression:
    """½ v'Kv at v = 2 C1 y c η: through a thin factor, or through K itself where the factor is as large."""
    L = statement.space.factor
    require_conic_memory(L, "ODM dual")
    n, r = L.shape
    signed = cp.multiply(statement.y * statement.share, eta)
    if 2 * r <= n or sp.issparse(L):
        return 2 * cp.sum_squares(L.T @ (C1 * signed))
    C1_squared = cp.CallbackParam(callback=lambda: C1.value**2, nonneg=True, name="C1_squared")
    # The factor has shown that K is positive semidefinite, so cvxpy need not estimate its eigenvalues again.
    return C1_squared * (2 * cp.quad_form(signed, cp.psd_wrap(L @ L.T)))
