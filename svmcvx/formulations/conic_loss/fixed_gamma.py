r"""The SVM with the conic loss for given γ, as a second-order cone program.

.. math:: \min_w\; q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i), \qquad u_i = y_i\langle w, x_i\rangle,

with the conic loss L of :func:`svmcvx.losses.conic_loss`. L is not convex, but q is convex if
:math:`\sum_i\gamma_i x_i x_i' \preceq I`. With the γ of a solved relaxation
(:func:`svmcvx.formulations.conic_loss.relaxation.relaxation`) the optimum is that of the
relaxation. Symbols, scaling and dual are those of the relaxation
(:mod:`svmcvx.formulations.conic_loss.statement`).

**Source.** [CepedaGomezHan], eq. (14), without its superfluous −1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from svmcvx.certificate import Dual, Evaluation
from svmcvx.certificate.bounded import exact, total
from svmcvx.data import check_number
from svmcvx.errors import DataError, DataTypeError
from svmcvx.formulations.base import RecoveredPoints, full_entry, usable
from svmcvx.formulations.conic_loss.dual import ConicDual
from svmcvx.formulations.conic_loss.primal import weighted_gram
from svmcvx.formulations.conic_loss.sdp import scaled_factor, square_over
from svmcvx.formulations.conic_loss.statement import conic_space
from svmcvx.formulations.problem import FormulationProblem, builder
from svmcvx.heuristics.rounding import ON_MARGIN
from svmcvx.kernels import KernelLike
from svmcvx.losses import conic_loss
from svmcvx.model import BinaryModel

__all__ = ["ConicFixedGamma", "ConicFixedGammaProblem", "conic_fixed_gamma"]

Floats: TypeAlias = NDArray[np.float64]

# Columns above which Lanczos' method first tests whether γ is too large.
MANY_COLUMNS = 500
# Distances from 1 below which a margin is taken to be exactly 1; the checker keeps the best of the
# resulting points.
NEAR_KINK = (1e-6, 1e-4, 1e-2)


@dataclass(frozen=True, eq=False)
class ConicFixedGamma(ConicDual):
    r"""The statement min :math:`q(w) = \|w\|^2 + \sum_i L(u_i; \gamma_i)` for given γ, bound to
    data.

    Dual points hold ``"alpha"`` and optionally ``"gamma"``: since L increases with γ, D at any
    smaller γ is a bound too.
    """

    name: ClassVar[str] = "conic_fixed_gamma"
    gamma: Floats
    lam: float

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """λ and the kernel; γ is omitted, since it is an array."""
        return {"lam": self.lam, "kernel": self.kernel_name}

    def extra_arrays(self) -> Mapping[str, Floats]:
        """The γ."""
        return {"gamma": full_entry(self.gamma, self.space.data)}

    def gamma_of(self, dual: Dual) -> Floats:
        """γ of a dual point; that of the statement where it has none."""
        return super().gamma_of(dual) if "gamma" in dual else self.gamma

    def lam_of(self, dual: Dual) -> float:
        """λ, for any dual point."""
        return self.lam

    def gamma_upper_bound(self) -> Floats | float:
        """γ of the statement: D at any smaller γ is a bound, since L increases with γ."""
        return self.gamma

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """The objective q at a model, every loss at the worst end of its margin."""
        low = self.margins_of(model).lower
        return Evaluation.of(
            regulariser=self.penalty(model),
            losses=total(conic_loss(exact(low), exact(self.gamma), exact(self.lam))),
        )

    def trivial(self) -> tuple[list[BinaryModel], list[Dual]]:
        """Return w = 0; γ = α = 0, whose bound is 0."""
        zeros = np.zeros(self.y.size)
        return [self.model(np.zeros(self.factor.shape[1]))], [{"gamma": zeros, "alpha": zeros}]

    def minimiser_on_piece(self, w: Floats, near: float) -> Floats:
        r"""Return the minimiser of the quadratic piece of q that `w` lies on.

        Margins within `near` of 1 are constrained to be 1, with multipliers μ. For the others the
        loss is 0, λ, or :math:`2\sqrt{\lambda\gamma_i}(1-u_i) - \gamma_i(1-u_i)^2`, so that w and μ
        solve a linear system.
        """
        L = self.factor.toarray() if sp.issparse(self.factor) else self.factor
        rows = L * self.y[:, None]
        distance = 1.0 - rows @ w
        kink = np.flatnonzero(np.abs(distance) <= near)
        curved = np.flatnonzero((distance > near) & (self.gamma * distance**2 < self.lam))
        r, k = L.shape[1], kink.size
        gamma = self.gamma[curved]
        system = np.zeros((r + k, r + k))
        system[:r, :r] = 2.0 * (np.eye(r) - rows[curved].T @ (gamma[:, None] * rows[curved]))
        system[:r, r:], system[r:, :r] = -rows[kink].T, rows[kink]
        right = np.concatenate(
            [rows[curved].T @ (2.0 * np.sqrt(self.lam * gamma) - 2.0 * gamma), np.ones(k)]
        )
        solution, *_ = sl.lstsq(system, right, check_finite=False)
        return np.asarray(solution[:r])

    def model(self, w: Floats) -> BinaryModel:
        """Return the model of `w`, given in the columns of ``space.factor``."""
        u = self.y * np.asarray(self.factor @ w)
        return self.space.model_from_factor(w, support=u <= 1.0 + ON_MARGIN)


class ConicFixedGammaProblem(FormulationProblem):
    """The second-order cone program; see :func:`conic_fixed_gamma`."""

    lam: cp.Parameter
    w: cp.Expression

    def recover(self) -> RecoveredPoints:
        """Models of w and of minimisers of q; α from a minimiser, and from the multipliers."""
        if not usable(self.w.value):
            return RecoveredPoints([], [])
        statement: ConicFixedGamma = self.formulation
        w = np.asarray(self.w.value, dtype=np.float64)
        duals = [statement.repair({"gamma": statement.gamma})]
        margin, beyond = (self.constraint_dict[label].dual_value for label in ("margin", "beyond"))
        if usable(margin) and usable(beyond):
            duals.append(
                {"gamma": statement.gamma, "alpha": np.asarray(margin) - np.asarray(beyond)}
            )
        start = statement.minimiser(duals[0])
        points = [*(statement.minimiser_on_piece(start, near) for near in NEAR_KINK), w, start]
        return RecoveredPoints([statement.model(point) for point in points], duals)

    def model_at_variables(self) -> BinaryModel | None:
        """The model of the present w."""
        if not usable(self.w.value):
            return None
        statement: ConicFixedGamma = self.formulation
        return statement.model(np.asarray(self.w.value, dtype=np.float64))


def _root_of_curvature(statement: ConicFixedGamma) -> Floats:
    r"""Return A with :math:`A'A = I - \sum_i\gamma_i x_i x_i'`, or raise a :class:`DataError` where
    that is not semidefinite.
    """
    L, gamma = statement.factor, statement.gamma
    r, error = L.shape[1], statement.spectrum_error(gamma)
    largest = -math.inf
    if r > MANY_COLUMNS:
        product = LinearOperator((r, r), matvec=lambda w: L.T @ (gamma * (L @ w)), dtype=np.float64)
        (largest,) = eigsh(product, k=1, which="LA", v0=np.ones(r), return_eigenvectors=False)
    if not largest > 1.0 + error:
        try:
            return np.asarray(np.linalg.cholesky(np.eye(r) - weighted_gram(L, gamma)).T)
        except np.linalg.LinAlgError:
            # Singular up to rounding, or indefinite.
            values, vectors, _ = statement.spectrum(gamma)
            largest = float(values[-1])
        if not largest > 1.0 + error:
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
        \min\; w'Qw + 2\sum_i \gamma_i u_i - \sum_i \gamma_i + \sum_i (\gamma_i a_i + \lambda z_i + \gamma_i n_i^2)
        \quad\text{s.t.}\quad m_i^2 \le a_i z_i,\; 0 \le z_i \le 1,\; m_i \ge 1 - u_i,\; n_i \ge u_i - 1,\; m, n \ge 0

    with :math:`Q = I - \sum_i \gamma_i x_i x_i'`: minimised over :math:`z_i`, the last terms are
    :math:`L(u_i;\gamma_i) + \gamma_i(1-u_i)^2`. Observations with :math:`\gamma_i = 0` have no
    loss.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
        Without the constant feature.
    gamma : array-like of shape (n,) or float
        Non-negative; those of a solved relaxation are returned by
        :func:`svmcvx.formulations.conic_loss.relaxation.relaxation`.
    lam : float
        Height of the losses, positive; 1 by default. The cvxpy parameter ``problem.lam``.

    Returns
    -------
    ConicFixedGammaProblem
        A ``cvxpy.Problem``. Variables ``w_scaled`` (of the data divided by their root mean square
        row norm; ``problem.w`` is in the data's own scale), ``z``, ``m``, ``n``, ``a``; parameter
        ``lam``; constraints labelled ``margin``, ``slack``, ``beyond``, ``excess``, ``box_high``
        and ``cone``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used, among others if γ makes the problem non-convex.

    Notes
    -----
    Source: [CepedaGomezHan], eq. (14) without its superfluous −1, z relaxed to [0, 1], and
    :math:`n_i^2/(1-z_i)` replaced by :math:`n_i^2`: where :math:`n_i > 0` the best :math:`z_i` is
    0.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> solution = sx.solve(sx.conic_fixed_gamma(X, y, gamma=1e-3, lam=1.0))
    >>> solution.certificate.is_certified(1e-6)
    True
    """
    lam = check_number(lam, "lam", low=0, open_low=True)
    data, space = conic_space(X, y, kernel, intercept, None, indefinite)
    given = _check_gamma(gamma, data.n)
    statement = ConicFixedGamma(space=space, gamma=given, lam=lam)
    root = _root_of_curvature(statement)
    L, scale = scaled_factor(space)
    n, r = L.shape
    w = cp.Variable(r, name="w_scaled")
    z, a, m, beyond = (cp.Variable(n, name=name) for name in ("z", "a", "m", "n"))
    u = cp.multiply(data.y, L @ w)
    lam_parameter = cp.Parameter(pos=True, name="lam", value=lam)
    quadratic = cp.sum_squares(root @ w) / scale**2 + 2 * (given @ u) - float(given.sum())
    loss = (
        given @ a + lam_parameter * cp.sum(z) + cp.sum_squares(cp.multiply(np.sqrt(given), beyond))
    )
    constraints = [
        (m >= 1 - u).set_label("margin"),
        (m >= 0).set_label("slack"),
        (beyond >= u - 1).set_label("beyond"),
        (beyond >= 0).set_label("excess"),
        (z <= 1).set_label("box_high"),
        square_over(m, a, z).set_label("cone"),
    ]
    problem = ConicFixedGammaProblem(
        cp.Minimize(quadratic + loss), constraints, statement, [lam_parameter]
    )
    problem.w = w / scale
    return problem


def _check_gamma(gamma: Any, n: int) -> Floats:
    values = np.asarray(gamma)
    if values.dtype.kind not in "biuf":
        raise DataTypeError(f"gamma must be numeric, got dtype {values.dtype}")
    values = values.astype(np.float64)
    if values.ndim == 0:
        values = np.full(n, float(values))
    if values.shape != (n,):
        raise DataError(
            f"gamma must hold one number an observation: expected shape ({n},), got {values.shape}"
        )
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError(
            f"gamma must be finite and non-negative; the smallest value is {values.min()}"
        )
    return values
