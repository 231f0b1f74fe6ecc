r"""The conic relaxation and the program of fixed γ as cvxpy problems.

The statement, with its symbols and its source, is :mod:`svmcvx.formulations.conic_loss.statement`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from svmcvx.arrays import Floats
from svmcvx.certificate import Dual
from svmcvx.data import check_choice, check_number, check_weights
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.base import RecoveredPoints, bound_space, check_price_or_limit, usable
from svmcvx.formulations.conic_loss.models import covariance_factor, enlarged_covariance, moment_of
from svmcvx.formulations.conic_loss.statement import ConicFixedGamma, ConicLoss, hard_margin_point
from svmcvx.formulations.problem import FormulationProblem, builder, scalar
from svmcvx.kernels import KernelLike, row_norms
from svmcvx.model import BinaryModel
from svmcvx.solution import Solution
from svmcvx.system import memory

FORMS = ("reduced", "paper")


class ConicSDP(FormulationProblem):
    lam: cp.Parameter | None = None
    kappa: cp.Parameter | None = None
    w: cp.Expression
    W: cp.Expression

    @property
    def coefficients(self) -> int:
        n, r = self.formulation.factor.shape
        return super().coefficients + int(n * r * (r + 1) // 2)

    def _mean_and_covariance(self) -> tuple[Floats, Floats] | None:
        """Return w and V of the present values; None where there are none."""
        if not (usable(self.w.value) and usable(self.W.value)):
            return None
        w, W = (
            np.asarray(self.w.value, dtype=np.float64),
            np.asarray(self.W.value, dtype=np.float64),
        )
        return w, covariance_factor(w, W)

    def recover(self) -> RecoveredPoints:
        point = self._mean_and_covariance()
        if point is None:
            return RecoveredPoints([], [])
        labelled = self.constraint_dict
        gamma, alpha = labelled["moment"].dual_value, labelled["margin"].dual_value
        lam: Any = None if self.kappa is None else labelled["cardinality"].dual_value
        duals: list[Dual] = []
        if usable(gamma) and usable(alpha) and (self.kappa is None or usable(lam)):
            dual = {"gamma": np.asarray(gamma), "alpha": np.asarray(alpha)}
            duals.append(
                dual if self.kappa is None else {**dual, "lam": np.array(lam, dtype=np.float64)}
            )
        statement: ConicLoss = self.formulation
        return statement.recover(*point, duals, float(lam) if usable(lam) else None)

    def model_at_variables(self) -> BinaryModel | None:
        """Return the model, its covariance scaled by as little as a solver's tolerance."""
        point = self._mean_and_covariance()
        if point is None:
            return None
        w, V = point
        statement: ConicLoss = self.formulation
        model = statement.model(w, V)
        if self.kappa is not None and math.isinf(statement.evaluate(model).value):
            enlarged = enlarged_covariance(statement.space, w, V, statement.allowance)
            if enlarged is not None and np.sum(enlarged**2) <= (1.0 + 1e-6) * np.sum(V**2):
                return statement.model(w, enlarged)
        return model


def scaled_factor(space: FeatureSpace) -> tuple[Floats, float]:
    """Return the factor, dense with root mean square row norm 1, and its divisor."""
    L = space.factor.toarray() if sp.issparse(space.factor) else space.factor
    scale = float(np.sqrt(np.mean(row_norms(L) ** 2))) or 1.0
    return L / scale, scale


def square_over(size: cp.Variable, bound: cp.Variable, over: cp.Expression) -> cp.Constraint:
    """State ``size² <= bound * over`` entrywise as rotated cones, both factors non-negative."""
    return cp.SOC(bound + over, cp.vstack([2 * size, bound - over]))


@builder
def conic_sdp(
    X: Any,
    y: Any,
    *,
    lam: float | None = None,
    kappa: float | None = None,
    kernel: KernelLike = None,
    form: str = "reduced",
    intercept: bool | str = True,
    sample_weight: Any = None,
    indefinite: str = "error",
) -> ConicSDP:
    r"""Build the semidefinite relaxation of the SVM with 0-1 loss as a cvxpy problem.

    .. math::
        \min\; \mathrm{Tr}\,W + \lambda \sum_i s_i z_i \quad\text{s.t.}\quad
        t_i \le \langle L_i L_i', W\rangle - 2 y_i L_i w + 1,\; m_i \ge 1 - y_i L_i w,\;
        m \ge 0,\; m_i^2 \le z_i t_i,\;
        \begin{pmatrix}1 & w'\\ w & W\end{pmatrix} \succeq 0,

    where the rows of `L` are the data with a constant feature, or those of a factor of the Gram
    matrix; with `kappa` the second term is replaced by the row :math:`\sum s_i z_i \le \kappa\sum
    s_i`.

    With a kernel the semidefinite block has the order n + 1, for which SCS (``solver="scs"`` of
    :func:`svmcvx.solve`) is faster; its lower accuracy does not matter, since the recovery polishes
    the point.

    Source: [CepedaGomezHan], Theorem 2 (eq. 21), Appendix A (kernels) and Appendix C (cardinality).

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature.
    lam : float, optional
        Weight of the losses, positive; there is no ½ on the norm. The cvxpy parameter
        ``problem.lam``.
    kappa : float, optional
        Share of the observations that may have a margin below 1, in [0, 0.5], instead of `lam`;
        exactly one of the two. The cvxpy parameter ``problem.kappa``. 0 is the hard margin and
        needs separable classes.
    form : "reduced" or "paper"
        One second-order cone an observation, or the two of Theorem 2 with z ≤ 1; the optimum is the
        same.

    Returns
    -------
    ConicSDP
        A ``cvxpy.Problem``. ``w_scaled`` and ``W_scaled`` are those of the data divided by their
        root mean square row norm; ``problem.w`` and ``problem.W`` are expressions in the data's own
        scale. The multipliers of ``moment``, ``margin`` and ``cardinality`` are γ, α and λ.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> solution = sx.solve(sx.conic_sdp(X, y, lam=1.0))
    >>> bounds = solution.certificate.residuals  # of the 0-1 problem too
    >>> bounds["zero_one_lower"] <= bounds["zero_one_upper"]
    True
    """
    check_choice(form, "form", FORMS)
    lam, kappa = check_price_or_limit("conic_sdp", lam, kappa, "kappa", "[0, 0.5]")
    space = bound_space(X, y, kernel, intercept, sample_weight, indefinite)
    labels, s, (n, r) = space.data.y, space.data.weight, space.factor.shape
    memory.require(
        # Measured bytes for each entry of the dense part of an interior-point method's matrix, its
        # factor and the constraints.
        120.0 * (0.5 * (0.5 * (r + 1) * (r + 2)) ** 2 + n * float(r) ** 2),
        f"the semidefinite program with a block of order {r + 1} and {n} observations",
        "select features, use fewer observations, or svmcvx.fast.conic",
    )
    L, scale = scaled_factor(space)
    if kappa == 0:
        hard_margin_point(L * labels[:, None])
    w = cp.Variable(r, name="w_scaled")
    W = cp.Variable((r, r), symmetric=True, name="W_scaled")
    z, t, m = (cp.Variable(n, name=name) for name in ("z", "t", "m"))
    u, column = cp.multiply(labels, L @ w), cp.reshape(w, (r, 1), order="F")
    constraints = [
        (t <= cp.sum(cp.multiply(L @ W, L), axis=1) - 2 * u + 1).set_label("moment"),
        (m >= 1 - u).set_label("margin"),
        (m >= 0).set_label("slack"),
        (cp.bmat([[np.ones((1, 1)), column.T], [column, W]]) >> 0).set_label("semidefinite"),
    ]
    if form == "reduced":
        constraints.append(square_over(m, t, z).set_label("cone"))
    else:
        beyond, a, b = (cp.Variable(n, name=name) for name in ("n", "a", "b"))
        constraints += [
            (z >= 0).set_label("box_low"),
            (z <= 1).set_label("box_high"),
            (beyond >= u - 1).set_label("beyond"),
            (beyond >= 0).set_label("excess"),
            (a + b <= t).set_label("split"),
            square_over(m, a, z).set_label("cone"),
            square_over(beyond, b, 1 - z).set_label("cone_beyond"),
        ]
    objective = cp.trace(W) / scale**2
    if lam is not None:
        parameters = {"lam": (parameter := scalar("lam", lam, pos=True))}
        objective = objective + parameter * (s @ z)
    else:
        parameters = {"kappa": (parameter := scalar("kappa", kappa, nonneg=True))}
        constraints.append((s @ z <= parameter * float(s.sum())).set_label("cardinality"))
    statement = ConicLoss(space=space, lam=lam, kappa=kappa)
    problem = ConicSDP(cp.Minimize(objective), constraints, statement, parameters)
    problem.w, problem.W = w / scale, W / scale**2
    return problem


class ConicFixedGammaProblem(FormulationProblem):
    lam: cp.Parameter
    w: cp.Variable


def perspective(
    statement: ConicFixedGamma, w: cp.Variable, z: cp.Variable
) -> tuple[cp.Expression, list[cp.Constraint]]:
    """Return ‖w‖² − Σ γ(1−u)² + Σ γ(a²/z + c²/(1−z)) with a − c = 1 − u, and its constraints."""
    gamma, n = statement.gamma, z.size
    u = cp.multiply(statement.y, statement.factor @ w)
    a, c = cp.Variable(n, name="shortfall"), cp.Variable(n, name="excess")
    p, q = cp.Variable(n, name="shortfall_cost"), cp.Variable(n, name="excess_cost")
    convex = cp.sum_squares(_root_of_curvature(statement) @ w) + 2 * (gamma @ u)
    constraints = [
        (a - c == 1 - u).set_label("split"),
        (a >= 0).set_label("nonnegative_shortfall"),
        (c >= 0).set_label("nonnegative_excess"),
        square_over(a, p, z).set_label("shortfall_cone"),
        square_over(c, q, 1 - z).set_label("excess_cone"),
    ]
    return convex - float(gamma.sum()) + gamma @ (p + q), constraints


def _root_of_curvature(statement: ConicFixedGamma) -> Floats:
    """Return A with A'A = I − Σ γ_i x_i x_i', or raise a :class:`DataError`."""
    values, vectors, error = statement.spectrum
    largest = float(values[-1])
    if largest <= 1.0 + error:
        return np.asarray((vectors * np.sqrt(np.maximum(1.0 - values, 0.0))).T)
    raise DataError(
        "gamma makes the problem non-convex: the largest eigenvalue of the sum of gamma_i x_i x_i'"
        f" is {largest:.9g} and must be at most 1; divide gamma by it"
    )


@builder
def conic_fixed_gamma(
    X: Any,
    y: Any,
    *,
    gamma: Any,
    lam: float = 1.0,
    kernel: KernelLike = None,
    intercept: bool | str = True,
    indefinite: str = "error",
) -> ConicFixedGammaProblem:
    r"""Build the SVM with the conic loss for given γ as a second-order cone program.

    The loss of :func:`svmcvx.losses.conic_loss` is not convex, but its sum with :math:`\|w\|^2` is
    if :math:`\sum_i\gamma_i x_i x_i' \preceq I`:

    .. math::
        \min\; w'Qw + 2\sum_i \gamma_i u_i - \sum_i \gamma_i
        + \sum_i \gamma_i \Big(\frac{a_i^2}{z_i} + \frac{c_i^2}{1 - z_i}\Big) + \lambda\sum_i z_i
        \quad\text{s.t.}\quad a_i - c_i = 1 - u_i,\; a, c \ge 0,\; 0 \le z_i \le 1

    with :math:`Q = I - \sum_i \gamma_i x_i x_i'`: minimised over :math:`z_i`, the last terms are
    :math:`L(u_i;\gamma_i) + \gamma_i(1-u_i)^2`. Observations with :math:`\gamma_i = 0` have no
    loss.

    Source: [CepedaGomezHan], eq. (14) without its superfluous −1, z relaxed to [0, 1].

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature.
    gamma : array-like of shape (n,) or float
        Non-negative, with :math:`Q \succeq 0`, or a DataError is raised; those of a solved
        relaxation are returned by :func:`svmcvx.formulations.conic_loss.problems.relaxation`.
    lam : float
        Height of the losses, positive; 1 by default. The cvxpy parameter ``problem.lam``.

    Returns
    -------
    ConicFixedGammaProblem
        A ``cvxpy.Problem``. ``shortfall`` is a, ``excess`` is c, with the quotients as costs.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> solution = sx.solve(sx.conic_fixed_gamma(X, y, gamma=1e-3, lam=1.0))
    >>> solution.certificate.is_certified(1e-6)
    True
    """
    lam = check_number(lam, "lam")
    space = bound_space(X, y, kernel, intercept, None, indefinite)
    given = check_weights(np.asarray(gamma), space.data.n, name="gamma")
    statement = ConicFixedGamma(space=space, gamma=given, lam=lam)
    w = cp.Variable(space.factor.shape[1], name="w")
    z = cp.Variable(space.data.n, name="z")
    parameter = scalar("lam", lam, pos=True)
    value, constraints = perspective(statement, w, z)
    objective = cp.Minimize(value + parameter * cp.sum(z))
    problem = ConicFixedGammaProblem(objective, constraints, statement, {"lam": parameter})
    problem.w = w
    return problem


@dataclass(frozen=True, eq=False)
class ConicRelaxation:
    """Mean, second moment, indicators and multipliers of a solution of the relaxation."""

    w: Floats
    W: Floats
    spectrum: Floats
    z: Floats
    gamma: Floats
    lam: float
    zero_one: tuple[float, float]


def relaxation(solution: Solution) -> ConicRelaxation:
    """Return γ, the relaxed z and the spectrum of W of a solution."""
    moment, residuals = moment_of(solution.model), solution.certificate.residuals
    if moment is None:
        raise DataError(
            "relaxation takes a solution of the conic relaxation, got one of"
            f" {getattr(solution, 'formulation', solution)!r} without a second moment"
        )
    lam = solution.hyperparameters.get("lam", solution.dual.get("lam", math.nan))
    interval = residuals.get("zero_one_lower", -math.inf), residuals["zero_one_upper"]
    return ConicRelaxation(
        w=moment.w,
        W=moment.W,
        spectrum=moment.spectrum,
        z=moment.z,
        gamma=solution.dual.get("gamma", np.zeros(0)),
        lam=float(np.asarray(lam).item()),
        zero_one=interval,
    )
