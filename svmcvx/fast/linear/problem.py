r"""The problems of :mod:`svmcvx.fast.linear.newton`, and both bounds at a point.

They minimise, over w and (for the pSVM) a free bias b,

.. math:: P(w, b) = \tfrac12\|w\|^2 - q'w + \sum_i \ell_i(z_i), \qquad z_i = 1 - y_i(x_i'w + b),

with convex losses of :mod:`svmcvx.fast.linear.loss_passes`. Their multipliers :math:`\alpha_i =
\ell_i'(z_i)` are a dual point,

.. math:: D(\alpha) = \sum_i \alpha_i - \sum_i \ell_i^*(\alpha_i) - \tfrac12\|w(\alpha)\|^2, \qquad
    w(\alpha) = q + \sum_i \alpha_i y_i x_i,

and as :math:`w - w(\alpha)` is the gradient of P, both bounds come with the gradient at no further
cost: :math:`P - D = \tfrac12\|w - w(\alpha)\|^2 + \sum_i(\ell_i(z_i) + \ell_i^*(\alpha_i) -
\alpha_i z_i)`, the last sum being 0 for smooth losses.

**A variance of the margins**, :math:`\lambda_1\sum_i s_i(u_i - \bar u)^2` with shares s, is another
smooth term for problems without bias: its multipliers :math:`\tau_i = 2\lambda_1 s_i(u_i - \bar u)`
are subtracted from α in w(α), and its conjugate at τ is its own value.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS
from svmcvx.data import BinaryData, Features
from svmcvx.fast.linear import margin_passes as passes
from svmcvx.fast.linear.loss_passes import LinearLoss
from svmcvx.feature_space import FeatureSpace
from svmcvx.kernels import KernelLike, Linear, as_kernel, row_norms
from svmcvx.kernels.gram_cache import CachedKernel
from svmcvx.model import LinearModel

__all__ = [
    "ArrayBounds",
    "BestPoint",
    "LinearBounds",
    "LinearNewtonSettings",
    "LinearProblem",
    "LinearTerms",
    "PointBounds",
    "RowSums",
    "earlier_coefficients",
    "estimated_rounding",
    "kernel_for",
    "linear_model",
]

Floats: TypeAlias = NDArray[np.float64]
# Multiplications for each entry of rows in blocks up to which a system is formed: a product of
# conjugate gradients reads all blocks again.
DIRECT_PER_ENTRY = 1000.0
# Largest number of products of conjugate gradients in one step.
CONJUGATE_STEPS = 500
# First penalty σ of the augmented Lagrangian, without and with multipliers to start from.
FIRST_SIGMA = 1.0
WARM_SIGMA = 100.0
# The first σ without multipliers is reduced until σ times the weight times the squared norm of an
# observation is at most this: with a larger value the first subproblem is ill-conditioned.
LARGEST_STIFFNESS = 1e4
# Factor by which σ grows, and its largest value.
SIGMA_GROWTH = 6.0
LARGEST_SIGMA = 1e12
# Part of the gap from the gradient, relative to the other part, at which σ grows.
GRADIENT_SHARE = 0.1
# Steps (smooth losses) and rounds of the augmented Lagrangian (p < 2) that promise less than
# rounding and do not reduce the gap, after which the method ends.
PATIENCE = 5
PATIENCE_ROUNDS = 15
# Steps of any kind without a smaller gap after which it ends.
LONGEST_IDLE = 200
# Steps after which the scores are computed afresh.
REFRESH = 20
# Largest squared length of a row, relative to the smallest variance of a column, of data on which a
# linear kernel is evaluated.
SPREAD = 1e8


@dataclass(frozen=True)
class LinearNewtonSettings:
    """Parameters of the algorithms of :func:`svmcvx.fast.linear.newton.minimise`.

    Parameters
    ----------
    direct_work, direct_work_stiff : float
        Multiplications up to which a Newton system is formed and factored, for smooth losses and
        for those with p < 2, whose systems become ill-conditioned.
    largest_system : int
        Unknowns of a system that is factored, at most.
    """

    direct_work: float = 4e9
    direct_work_stiff: float = 4e10
    largest_system: int = 4000


def estimated_rounding(terms: int) -> float:
    """Return the relative error that a solver expects of a sum of `terms` products: (4 + √terms)
    machine epsilons.
    """
    return EPS * (4.0 + math.sqrt(terms))


@dataclass(frozen=True, eq=False)
class LinearTerms:
    """A linear problem without its rows."""

    n: int
    d: int
    loss: LinearLoss
    bias: bool = False
    linear_term: Floats | None = None
    kernel_expansion: bool = False
    variance: float = 0.0
    largest_norm: float = 0.0
    stiffness: float = 0.0
    entries: float = 0.0

    @cached_property
    def smooth(self) -> bool:
        """Whether the loss itself has a derivative that Newton's method can use."""
        return self.loss.smooth


class LinearProblem(LinearTerms):
    """A linear problem with all rows in memory."""

    X: Features
    y: Floats
    c: Floats
    shares: Floats
    norms: Floats

    def __init__(
        self,
        X: Features,
        y: Floats,
        c: Floats,
        loss: LinearLoss,
        *,
        share: Floats | None = None,
        norms: Floats | None = None,
        **terms: Any,
    ) -> None:
        n, d = X.shape
        # Passes are compiled for a single memory layout.
        rows = X if sp.issparse(X) else np.ascontiguousarray(X)
        norms = row_norms(rows) if norms is None else norms
        super().__init__(
            n,
            d,
            loss,
            largest_norm=float(norms.max(initial=0.0)),
            stiffness=float((c * norms**2).max(initial=0.0)),
            entries=X.nnz / max(n, 1) if sp.issparse(X) else float(d),
            **terms,
        )
        shares = np.broadcast_to(1.0 / max(n, 1), n) if share is None else share
        for name, value in (("X", rows), ("y", y), ("c", c), ("shares", shares), ("norms", norms)):
            object.__setattr__(self, name, value)

    def with_rows(self, X: Features | None) -> LinearProblem:
        """Return the same problem with other rows, or None for rows that come later."""
        other = copy(self)
        object.__setattr__(other, "X", X)
        return other

    def primal_of(self, alpha: Floats) -> Floats:
        r"""Return :math:`w(\alpha)`."""
        w = np.asarray(self.X.T @ (self.y * alpha))
        return w if self.linear_term is None else w + self.linear_term

    def loss_at(self, f: Floats, b: float, centre: Floats) -> float:
        """Return the sum of the losses at scores `f` and a bias."""
        scratch = np.empty((2, self.n))
        sums = passes.prox_sums(
            self.loss, f, self.y, b, centre, self.c, 1.0, self.norms, scratch[0], scratch[1]
        )
        return float(sums[1])

    def sums_of(self, alpha: Floats, loss: float) -> RowSums:
        """Return the sums that both objectives need, for multipliers and the losses of a point that
        does not follow from them.
        """
        size = np.abs(alpha)
        norm_sum, conjugate = (
            float(size @ self.norms),
            float(passes.conjugate(self.loss, alpha, self.c)),
        )
        total, balance = float(alpha.sum()), float(self.y @ alpha)
        return RowSums(0.0, loss, total, balance, float(size.sum()), norm_sum, 0.0, conjugate, 0.0)


class RowSums(NamedTuple):
    """Sums over the observations at a point."""

    smooth: float
    loss: float
    total: float
    balance: float
    size: float
    norm_sum: float
    product: float
    conjugate: float
    variance: float


class PointBounds(NamedTuple):
    """Bounds at a point, and which of them is the best so far."""

    lower: float
    upper: float
    better_lower: bool
    better_upper: bool


@dataclass
class BestPoint:
    """The best primal and the best dual point that were met."""

    w: Floats
    b: float
    alpha: Floats
    expansion: Floats
    upper: float = math.inf
    lower: float = -math.inf
    steps: int = 0
    sigma: float = 0.0


class LinearBounds:
    """The solver's estimates of both bounds at a point, each widened by an estimate of its
    rounding.
    """

    def __init__(self, problem: LinearTerms, w: Floats, alpha: Floats) -> None:
        self.best = BestPoint(w.copy(), 0.0, alpha, alpha)
        self.problem = problem

    def update_bounds(
        self,
        w: Floats,
        b: float,
        response: RowSums,
        primal: Floats,
        expanded_loss: float | None = None,
    ) -> PointBounds:
        """Return the bounds at (w, b) with the multipliers of a response and ``primal`` = w(α), and
        whether they are the best.
        """
        problem = self.problem
        dual_norm = float(primal @ primal)
        loss = response.loss
        if expanded_loss is not None:
            w, norm, loss = primal, dual_norm, expanded_loss
        else:
            norm = float(w @ w)
        linear = 0.0 if problem.linear_term is None else float(problem.linear_term @ w)
        conjugate, variance = response.conjugate, response.variance
        upper = 0.5 * norm - linear + loss + variance
        lower = response.total - conjugate - 0.5 * dual_norm - variance
        rounding = estimated_rounding(problem.n) * (
            4.0 * response.size
            + 4.0 * response.norm_sum * (math.sqrt(norm) + math.sqrt(dual_norm))
            + abs(conjugate)
            + loss
            + abs(linear)
            + variance
        )
        # Scaling the multipliers of one class down to balance costs at most the imbalance times the
        # scores around it.
        unbalanced = 0.0
        if problem.bias:
            unbalanced = abs(response.balance) * (
                1.0 + abs(b) + problem.largest_norm * math.sqrt(dual_norm)
            )
        upper, lower = upper + rounding, lower - rounding - unbalanced
        best = self.best
        judged = PointBounds(lower, upper, lower >= best.lower, upper <= best.upper)
        if judged.better_upper:
            best.w, best.b, best.upper = w.copy(), b, upper
        if judged.better_lower:
            best.lower = lower
        return judged


class ArrayBounds(LinearBounds):
    """Bounds for a solver that stores the multipliers of all rows in one array."""

    problem: LinearProblem

    def update(
        self, w: Floats, b: float, alpha: Floats, primal: Floats, response: RowSums
    ) -> tuple[float, float]:
        """Return (lower, upper) at (w, b) with multipliers α and ``primal`` = w(α); keep the best
        of each.
        """
        problem = self.problem
        loss = (
            problem.loss_at(np.asarray(problem.X @ primal), b, alpha)
            if problem.kernel_expansion
            else None
        )
        judged = self.update_bounds(w, b, response, primal, loss)
        if judged.better_upper and problem.kernel_expansion:
            self.best.expansion = alpha.copy()
        if judged.better_lower:
            self.best.alpha = alpha.copy()
        return judged.lower, judged.upper

    def update_pair(self, w: Floats, alpha: Floats) -> tuple[float, float]:
        """Return (lower, upper) for a w and multipliers that do not follow from each other; keep
        the best of each.
        """
        problem = self.problem
        response = problem.sums_of(alpha, problem.loss_at(np.asarray(problem.X @ w), 0.0, alpha))
        return self.update(w, 0.0, alpha, problem.primal_of(alpha), response)


def linear_model(
    space: FeatureSpace,
    w: Floats,
    b: float,
    support: NDArray[np.bool_],
    centre: Floats | None = None,
) -> LinearModel:
    """Return the model of `w` in the columns of ``space.X``, for any number of columns."""
    centre = space.centre if centre is None else centre
    if space.intercept == "penalised":
        w, b = w[:-1], float(w[-1])
    return LinearModel(
        coef=w,
        intercept=b - float(centre @ w),
        classes=space.data.classes,
        support=space.data.index[support],
    )


def earlier_coefficients(space: FeatureSpace, model: object) -> Floats | None:
    """Return w in the columns of ``space.X`` of a linear model for as many features; None if there
    is none.
    """
    if not space.is_linear or not isinstance(model, LinearModel):
        return None
    if model.coef.shape != (space.data.X.shape[1],) or not np.isfinite(model.coef).all():
        return None
    return np.append(model.coef, model.intercept) if space.intercept == "penalised" else model.coef


def kernel_for(data: BinaryData, kernel: KernelLike) -> KernelLike:
    """Return a kernel, or None in place of the linear one of columns whose scales or offsets are so
    different that inner products lose the small ones.
    """
    chosen = as_kernel(kernel)
    chosen = chosen.kernel if isinstance(chosen, CachedKernel) else chosen
    if not isinstance(chosen, Linear):
        return kernel
    X = data.X
    mean = np.asarray(X.mean(axis=0)).ravel()
    if sp.issparse(X):
        variance = np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2
    else:
        variance = X.var(axis=0)
    smallest = float(variance[variance > 0].min(initial=math.inf))
    return None if smallest * SPREAD < float(row_norms(X).max()) ** 2 else kernel
