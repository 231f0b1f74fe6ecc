r"""pSVM: the soft-margin support vector machine with p-norm hinge loss.

**Primal**, p ≥ 1, C > 0, weights :math:`s_i > 0` (1 by default):

.. math::
    \min_{w, b}\; P(w, b) = \tfrac12\|w\|^2 + C \sum_i s_i\, (1 - u_i)_+^p, \qquad
    u_i = y_i(\langle w, \varphi(x_i)\rangle + b).

**Dual**, p > 1, with :math:`\gamma = p/(p-1)` and :math:`v_i = \alpha_i y_i`:

.. math::
    \max_{\alpha \ge 0,\; y'\alpha = 0}\; D(\alpha) = \sum_i \alpha_i
      - C (p-1) \sum_i s_i \Big(\frac{\alpha_i}{C s_i p}\Big)^{\gamma} - \tfrac12 v'Kv;

for p = 1 the middle term becomes the box :math:`\alpha_i \le C s_i`, its limit as p ↓ 1. At the optimum
:math:`\alpha_i = C s_i p\, \xi_i^{p-1}` with :math:`\xi_i = (1-u_i)_+`, and :math:`w = \sum_i v_i \varphi(x_i)`.

The limit without loss is the hard-margin machine of :mod:`svmcvx.formulations.margin.hard_margin`.

============== ======================================== =========
symbol         meaning                                  shape
============== ======================================== =========
X, y           data, labels ±1                          (n, d), (n,)
K              Gram matrix                              (n, n)
L              factor of it, or the centred data        (n, r)
alpha          multipliers                              (n,)
w, b           normal in the columns of L, bias         (r,), ()
============== ======================================== =========

**Scaling.** P is the objective of scikit-learn's ``SVC`` at p = 1 (same C). LIBLINEAR's squared hinge is p = 2 with
the bias penalised, which is another problem.

**Source.** Soft-margin SVMs with p-norm hinge loss, eqs. (9)-(17); the bias rule and the p = 1 column of the
paper are corrected here (see :func:`best_bias`).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import brentq

from svmcvx.certificate import EPS, Dual, Evaluation, accumulated_rounding
from svmcvx.data import binary_data, check_choice, check_number
from svmcvx.feature_space import FeatureSpace, feature_space
from svmcvx.formulations.base import FormulationProblem, RecoveredPoints, require_conic_memory, usable
from svmcvx.formulations.margin.alpha_dual import CLEARLY_ZERO, MaximumMargin
from svmcvx.formulations.margin.support_equations import solve_support_equations
from svmcvx.kernels import KernelLike
from svmcvx.losses import hinge_power, hinge_power_conjugate, slack
from svmcvx.model import BinaryModel

__all__ = [
    "PSVM",
    "PSVMDual",
    "PSVMPrimal",
    "best_bias",
    "dual_objective",
    "objective",
    "psvm_dual",
    "psvm_primal",
]

Floats: TypeAlias = NDArray[np.float64]

BIAS_RULES = ("exact", "paper", "released")
EXPONENTS = ("power", "rational")

# The paper counts as support vectors the observations with a multiplier above this number.
PAPER_SUPPORT = 1e-5
# Observations with a margin up to this far above 1 count as support of a model given by (w, b) alone.
ON_MARGIN = 1e-7


def objective(squared_norm: float, u: Floats, *, C: float, p: float, weight: Floats | float = 1.0) -> float:
    r"""Return :math:`P = \tfrac12\|w\|^2 + C\sum_i s_i(1-u_i)_+^p`."""
    return 0.5 * squared_norm + C * float(np.sum(weight * hinge_power(u, p)))


def dual_objective(alpha: Floats, squared_norm: float, *, C: float, p: float, weight: Floats | float = 1.0) -> float:
    r"""Return :math:`D(\alpha)`, with :math:`v'Kv` passed as `squared_norm`; −inf outside the box for p = 1."""
    return float(alpha.sum()) - float(hinge_power_conjugate(alpha, C * weight, p).sum()) - 0.5 * squared_norm


def best_bias(f: Floats, y: Floats, *, p: float, weight: Floats | None = None, near: float | None = None) -> float:
    r"""Return the bias that minimises the loss :math:`\varphi(b) = \sum_i s_i(1 - y_i(f_i + b))_+^p`.

    It is the exact bias of the optimal `w`, and gives the smallest gap for any other. Where the minimiser is an
    interval, its midpoint is returned. The paper averages :math:`y_k - f_k` over the support vectors, which leaves out
    the slack :math:`y_k\xi_k` and is right for p = 2 only.

    Parameters
    ----------
    f : ndarray of shape (n,)
        Scores without bias.
    y : ndarray of shape (n,)
        Labels ±1, both present.
    p : float
        Exponent of the hinge, at least 1.
    weight : ndarray of shape (n,), optional
    near : float, optional
        A guess, which saves a search; it does not change the result.
    """
    s = np.ones_like(f) if weight is None else weight
    breaks = y - f  # observation i has a loss while y_i b < y_i breaks_i
    negative = y < 0
    first, last = float(breaks[negative].min()), float(breaks[~negative].max())
    if last <= first:  # nobody has a loss in between
        return (first + last) / 2
    if p == 1:
        order = np.argsort(breaks)
        # The slope behind each break; each one passed adds its weight.
        slopes = np.cumsum(s[order]) - float(s[~negative].sum())
        left, right = order[int(np.argmax(slopes >= 0))], order[int(np.argmax(slopes > 0))]
        return float((breaks[left] + breaks[right]) / 2)
    if p == 2:
        # φ' is linear between two neighbouring breaks. Below b lose those of the negative class, above it the others.
        order = np.argsort(breaks)
        grid = breaks[order] - first
        lower = np.where(negative[order], s[order], 0.0)
        upper = s[order] - lower
        mass = np.cumsum(lower) + float(upper.sum()) - np.cumsum(upper)
        moment = np.cumsum(lower * grid) + float(upper @ grid) - np.cumsum(upper * grid)
        behind = int(np.argmax(mass * grid >= moment))
        before = breaks[order[max(behind - 1, 0)]]
        lost = s * np.where(negative, breaks <= before, breaks >= breaks[order[behind]])
        return first + float(lost @ (breaks - first) / lost.sum())
    above, weight_above = breaks[~negative], s[~negative]
    below, weight_below = breaks[negative], s[negative]

    def slope(b: float) -> float:
        # Slacks in the form that is exactly 0 at an observation's own break: with p near 1 rounding counts. They are scaled
        # by the largest: only the sign matters, and large p would overflow.
        largest = max(b - first, last - b)
        up, down = above > b, below < b
        push = weight_below[down] @ ((b - below[down]) / largest) ** (p - 1.0)
        return float(push - weight_above[up] @ ((above[up] - b) / largest) ** (p - 1.0))

    # Between two neighbouring breaks φ is one smooth piece; φ' increases from the first break of a loss to the last.
    grid = np.unique(breaks[(breaks >= first) & (breaks <= last)])
    piece = 0 if near is None else int(np.searchsorted(grid, near))
    if not 0 < piece < grid.size or not slope(float(grid[piece - 1])) < 0 <= slope(float(grid[piece])):
        piece = _first(lambda k: slope(float(grid[k])) >= 0, grid.size - 1)
    if piece == 0:
        return first
    low, high = float(grid[piece - 1]), float(grid[piece])
    if not slope(low) < 0 < slope(high):
        return high
    return float(brentq(slope, low, high, xtol=4 * EPS * max(abs(low), abs(high), EPS), rtol=4 * EPS, maxiter=500))


def _first(holds: Any, size: int) -> int:
    """Smallest k in 0 … size with holds(k), for a property that once true stays true."""
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return low


@dataclass(frozen=True, eq=False)
class PSVM(MaximumMargin):
    """The statement of the pSVM bound to data.

    Parameters
    ----------
    space : FeatureSpace
    C : float
        Weight of the losses, positive.
    p : float
        Exponent of the hinge, at least 1.
    bias : "exact", "paper" or "released"
        The rule for the intercept of recovered models.
    """

    name: ClassVar[str] = "psvm"
    C: float
    p: float
    bias: str = "exact"

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """C, p, the kernel, and the bias rule where it is not the exact one."""
        kernel = self.space.kernel
        rule = {} if self.bias == "exact" else {"bias": self.bias}
        return {"C": self.C, "p": self.p, "kernel": "none" if kernel is None else str(kernel), **rule}

    def upper_bound(self) -> Floats | float:
        """Return the box of p = 1."""
        return self.C * self.space.data.weight if self.p == 1 else math.inf

    def evaluate(self, model: BinaryModel) -> Evaluation:
        """P at a model, from its scores on the raw data."""
        data = self.space.data
        f, f_rounding = self.space.scores(model)
        norm, norm_rounding = self.space.squared_norm(model)
        u = self.y * f
        with np.errstate(over="ignore"):
            value = objective(norm, u, C=self.C, p=self.p, weight=data.weight)
            steepness = self.C * self.p * data.weight * np.where(u < 1, slack(u) ** (self.p - 1.0), 0.0)
            rounding = (
                0.5 * norm_rounding
                + float(steepness @ f_rounding)
                + (accumulated_rounding(data.n) + EPS * self.p) * value
            )
        return Evaluation(value, rounding)

    def evaluate_dual(self, dual: Dual) -> Evaluation:
        """D at a feasible α."""
        alpha = self.alpha(dual)
        data = self.space.data
        point = self.space.product(alpha * self.y)
        value = dual_objective(alpha, point.squared_norm, C=self.C, p=self.p, weight=data.weight)
        conjugate = float(alpha.sum()) - value - 0.5 * point.squared_norm
        power = EPS * self.p / (self.p - 1.0) * abs(conjugate) if self.p > 1 else 0.0
        return Evaluation(value, self.dual_rounding(alpha, point, float(alpha.sum()) + abs(conjugate)) + power)

    def intercept(self, alpha: Floats, f: Floats, near: float | None = None) -> float:
        r"""Return the bias by the rule asked for, from multipliers and scores without bias; `near` is a guess.

        ``"paper"`` is the mean over support vectors of :math:`y_k - f_k`; ``"released"`` that of
        :math:`y_k - \mathrm{sign} f_k`, which the paper's released code computes.
        """
        if self.bias == "exact":
            return best_bias(f, self.y, p=self.p, weight=self.space.data.weight, near=near)
        support = alpha > PAPER_SUPPORT
        if not support.any():
            return 0.0
        scores = f if self.bias == "paper" else np.sign(f)
        return float(np.mean(self.y[support] - scores[support]))

    def recover(self, alpha: Floats) -> RecoveredPoints:
        """Return the models of (approximate) multipliers, and the multipliers repaired.

        An interior-point solver leaves all multipliers slightly positive. The first candidate, if there is one,
        solves the optimality conditions as equations on the support vectors; see
        :mod:`svmcvx.formulations.margin.support_equations`.
        """
        kept = self.alpha(self.repair({"alpha": alpha}))
        f = self.space.product(kept * self.y).scores
        b = best_bias(f, self.y, p=self.p, weight=self.space.data.weight)
        points = [self._polish(kept, b, f), kept]
        candidates = RecoveredPoints([], [])
        for point in points:
            if point is not None:
                v = point * self.y
                candidates.models.append(self.space.model(v, self.intercept(point, self.space.product(v).scores)))
                candidates.duals.append({"alpha": point})
        return candidates

    def _polish(self, alpha: Floats, b: float, f: Floats) -> Floats | None:
        """Solve the equations on the support vectors exactly, from a guess which observations they are."""
        u = self.y * (f + b)
        weight = self.space.data.weight
        scaled = alpha / (self.C * self.p * weight)
        outside = scaled < CLEARLY_ZERO * (u - 1.0)
        guess = np.where(outside, 0.0, alpha)
        if self.p > 1:

            def slack_of(values: Floats, rows: NDArray[np.intp]) -> tuple[Floats, Floats]:
                # Infinite slacks (p near 1, multipliers above C s) end the iteration.
                with np.errstate(over="ignore"):
                    xi = (values / (self.C * self.p * weight[rows])) ** (1.0 / (self.p - 1.0))
                    return xi, xi / ((self.p - 1.0) * values)

            free, rule = ~outside & (alpha > 0), slack_of
        else:
            upper_bound = self.C * weight
            above = 1.0 - scaled < CLEARLY_ZERO * (1.0 - u)
            guess = np.where(above, upper_bound, guess)
            free, rule = ~(outside | above), None
        polished = solve_support_equations(
            self.space, guess, free=free, upper_bound=np.broadcast_to(self.upper_bound(), u.shape), bias=b, slack=rule
        )
        return None if polished is None else self.alpha(self.repair({"alpha": polished}))


def _loss_epigraph(size: cp.Variable, power: float, exponent: str) -> tuple[cp.Expression, list[cp.Constraint], str]:
    """Return an expression that is at least ``size**power`` elementwise, its constraints, and the cone used."""
    if exponent == "rational":
        return cp.power(size, power, approx=True), [], "second-order cones, rational exponent"
    t = cp.Variable(size.shape, name="t")
    ones = np.ones(size.shape)
    return t, [cp.PowCone3D(t, ones, size, 1.0 / power).set_label("power")], "power cone"


class _PSVMProblem(FormulationProblem):
    C: cp.Parameter
    cone: str
    _fixed: PSVM

    @property
    def formulation(self) -> PSVM:
        """The pSVM at the present value of C."""
        return PSVM(space=self._fixed.space, C=float(self.C.value), p=self._fixed.p, bias=self._fixed.bias)


class PSVMPrimal(_PSVMProblem):
    """The primal problem; see :func:`psvm_primal`."""

    @cached_property
    def margin(self) -> cp.Constraint:
        """The constraint whose multipliers are α."""
        return self.constraint_dict["margin"]

    def recover(self) -> RecoveredPoints:
        """The models of the multipliers, and that of (w, b) itself."""
        statement = self.formulation
        models: list[BinaryModel] = []
        duals: list[Dual] = []
        alpha = np.zeros(statement.y.size)
        if usable(self.margin.dual_value):
            alpha = np.asarray(self.margin.dual_value, dtype=np.float64)
            candidates = statement.recover(alpha)
            models, duals = [*candidates.models], [*candidates.duals]
        w = self.var_dict["w"].value
        if usable(w):
            f = np.asarray(statement.space.factor @ w)
            b = statement.intercept(alpha, f)
            models.append(statement.space.model_from_factor(np.asarray(w), b, statement.y * (f + b) <= 1.0 + ON_MARGIN))
        return RecoveredPoints(models, duals)


class PSVMDual(_PSVMProblem):
    """The dual problem; see :func:`psvm_dual`."""

    alpha: cp.Expression

    def recover(self) -> RecoveredPoints:
        """The models of the multipliers."""
        alpha = self.alpha.value
        return (
            self.formulation.recover(np.asarray(alpha, dtype=np.float64)) if usable(alpha) else RecoveredPoints([], [])
        )


def _statement(
    X: Any,
    y: Any,
    C: float,
    p: float,
    kernel: KernelLike,
    sample_weight: Any,
    bias: str,
    exponent: str,
    indefinite: str,
) -> PSVM:
    C = check_number(C, "C", low=0, open_low=True)
    p = check_number(p, "p", low=1, why="p < 1 is not convex")
    check_choice(bias, "bias", BIAS_RULES)
    check_choice(exponent, "exponent", EXPONENTS)
    data = binary_data(X, y, sample_weight)
    return PSVM(space=feature_space(data, kernel, intercept="free", indefinite=indefinite), C=C, p=p, bias=bias)


def psvm_primal(
    X: Any,
    y: Any,
    *,
    C: float,
    p: float,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    exponent: str = "power",
    bias: str = "exact",
    indefinite: str = "error",
) -> PSVMPrimal:
    r"""Build the pSVM primal as a cvxpy problem.

    .. math::
        \min\; \tfrac12\|w\|^2 + C \sum_i s_i t_i \quad\text{s.t.}\quad
        y_i(L_i w + b) \ge 1 - \xi_i,\; \xi_i \ge 0,\; t_i \ge \xi_i^p,

    where the rows of `L` are the (centred) data or those of a factor of the Gram matrix.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
        Two labels of any type.
    C : float
        Weight of the losses, positive. The cvxpy parameter ``problem.C``.
    p : float
        Exponent of the hinge, any real number of at least 1.
    kernel : Kernel, str, callable or None
        None for the linear formulation.
    sample_weight : array-like of shape (n,), optional
        Weights :math:`s_i \ge 0` of the losses.
    exponent : "power" or "rational"
        State :math:`\xi^p` for p other than 1 and 2 by the exact power cone, or by second-order cones with
        the nearest rational exponent, which is another problem and shows up as a gap.
    bias : "exact", "paper" or "released"
        Rule for the intercept of the model recovered; the others reproduce the paper and its code.
    indefinite : "error" or "clip"
        What to do with a kernel that is indefinite on the data.

    Returns
    -------
    PSVMPrimal
        A ``cvxpy.Problem``. Variables ``w``, ``b``, ``xi`` and, for a power cone, ``t``; parameter ``C``;
        constraints labelled ``margin`` (its multipliers are α), ``slack`` and ``power``. ``problem.cone`` tells
        which cone states the loss. The bias variable belongs to centred data when `X` is dense and linear.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: pSVM paper, eq. (9).
    """
    started = time.perf_counter()
    statement = _statement(X, y, C, p, kernel, sample_weight, bias, exponent, indefinite)
    data, L = statement.space.data, statement.space.factor
    require_conic_memory(L, "pSVM primal")
    C_parameter = cp.Parameter(pos=True, name="C", value=statement.C)
    w = cp.Variable(L.shape[1], name="w")
    b = cp.Variable(name="b")
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
        t, power, cone = _loss_epigraph(xi, statement.p, exponent)
        loss = data.weight @ t
        constraints += power
    problem = PSVMPrimal(cp.Minimize(0.5 * cp.sum_squares(w) + C_parameter * loss), constraints)
    problem.C, problem.cone, problem._fixed = C_parameter, cone, statement
    problem.build_seconds = time.perf_counter() - started
    return problem


def psvm_dual(
    X: Any,
    y: Any,
    *,
    C: float,
    p: float,
    kernel: KernelLike = None,
    sample_weight: Any = None,
    exponent: str = "power",
    bias: str = "exact",
    indefinite: str = "error",
) -> PSVMDual:
    r"""Build the pSVM dual as a cvxpy problem.

    In the scaled multipliers :math:`\beta_i = \alpha_i/(C p s_i)`, which equal :math:`\xi_i^{p-1}` at the optimum and
    stay of order one however large or small C is and as p → 1:

    .. math::
        \max\; C p\, s'\beta - C (p-1)\, s't - \tfrac12 C^2 p^2\, (y s \beta)'K(y s \beta)
        \quad\text{s.t.}\quad \beta \ge 0,\; y'(s\beta) = 0,\; t_i \ge \beta_i^{\gamma},

    with :math:`\gamma = p/(p-1)`; for p = 1 the last constraint is the box :math:`\beta \le 1` and `t` is absent.
    Its value is that of the dual in α.

    Parameters
    ----------
    X, y, C, p, kernel, sample_weight, exponent, bias, indefinite
        As for :func:`psvm_primal`; a precomputed kernel takes the Gram matrix as `X`.

    Returns
    -------
    PSVMDual
        A ``cvxpy.Problem``. Variables ``beta`` and, for a power cone, ``t``; ``problem.alpha`` is the expression
        :math:`\alpha = C p s \beta`; parameter ``C`` (and ``C_squared``, which follows it); constraints labelled
        ``nonnegative``, ``balance`` and ``box`` (p = 1) or ``power``.

    Raises
    ------
    DataError
        If the data or an argument cannot be used.
    BuildError
        If the problem would not fit into memory.

    Notes
    -----
    Source: pSVM paper, eq. (17), corrected at p = 1: without its box that is :func:`hard_margin_dual`.
    """
    started = time.perf_counter()
    statement = _statement(X, y, C, p, kernel, sample_weight, bias, exponent, indefinite)
    data, s, p = statement.space.data, statement.space.data.weight, statement.p
    C_parameter = cp.Parameter(pos=True, name="C", value=statement.C)
    beta = cp.Variable(data.n, name="beta")
    signed = cp.multiply(data.y * s, beta)
    constraints = [(beta >= 0).set_label("nonnegative"), ((data.y * s) @ beta == 0).set_label("balance")]
    value = C_parameter * (p * (s @ beta)) - _half_squared_norm(statement.space, signed, C_parameter, p)
    if p == 1:
        constraints.append((beta <= 1).set_label("box"))
        cone = "linear"
    elif p == 2:
        value -= C_parameter * cp.sum_squares(cp.multiply(np.sqrt(s), beta))
        cone = "quadratic"
    else:
        t, power, cone = _loss_epigraph(beta, p / (p - 1.0), exponent)
        value -= C_parameter * ((p - 1.0) * (s @ t))
        constraints += power
    problem = PSVMDual(cp.Maximize(value), constraints)
    problem.C, problem.cone, problem._fixed = C_parameter, cone, statement
    problem.alpha = cp.multiply(p * s, beta) * C_parameter
    problem.build_seconds = time.perf_counter() - started
    return problem


def _half_squared_norm(space: FeatureSpace, signed: cp.Expression, C: cp.Parameter, p: float) -> cp.Expression:
    """½ C² p² v'Kv for v = `signed`: through a thin factor, or through K itself where the factor is as large."""
    L = space.factor
    require_conic_memory(L, "pSVM dual")
    n, r = L.shape
    if 2 * r <= n or sp.issparse(L):
        return 0.5 * cp.sum_squares(L.T @ (C * (p * signed)))
    C_squared = cp.CallbackParam(callback=lambda: C.value**2, nonneg=True, name="C_squared")
    # The factor has shown that K is positive semidefinite, so cvxpy need not estimate its eigenvalues again.
    return C_squared * (0.5 * p**2 * cp.quad_form(signed, cp.psd_wrap(space.factor @ space.factor.T)))
