r"""Newton's method for linear machines, with a certified gap after every step.

The problems minimise, over w and (for the pSVM) a free bias b,

.. math:: P(w, b) = \tfrac12\|w\|^2 - q'w + \sum_i \ell_i(z_i), \qquad z_i = 1 - y_i(x_i'w + b),

with convex losses of :mod:`svmcvx.fast.linear.loss_passes`. Their multipliers :math:`\alpha_i =
\ell_i'(z_i)` are a dual point,

.. math:: D(\alpha) = \sum_i \alpha_i - \sum_i \ell_i^*(\alpha_i) - \tfrac12\|w(\alpha)\|^2, \qquad
    w(\alpha) = q + \sum_i \alpha_i y_i x_i,

and :math:`w - w(\alpha)` is the gradient of P: :math:`P - D = \tfrac12\|w - w(\alpha)\|^2 +
\sum_i(\ell_i(z_i) + \ell_i^*(\alpha_i) - \alpha_i z_i)`, the last sum being 0 for smooth losses.

**A variance of the margins**, :math:`\lambda_1\sum_i s_i(u_i - \bar u)^2` with shares s, is another
smooth term for problems without bias: its multipliers :math:`\tau_i = 2\lambda_1 s_i(u_i - \bar u)`
are subtracted from α in w(α), and its conjugate at τ is its own value.

**p ≥ 2 and ODM** are smooth: Newton's method with a line search, and the gap falls with the square
of the gradient.

**p < 2**: the augmented Lagrangian method for the dual [LiSunToh]. The smooth envelope around a
centre a is minimised in (w, b) until the part of the gap from the gradient is a tenth of the other
part; then its multipliers become the centre and σ grows. The second derivatives weigh only the
observations in a band of width 1/σ around the kink, in the end about as many as there are features,
so late steps are cheap. The method converges to the minimum of the loss itself, not of a smoothed
one. For p = 1 it ends as soon as the set of free multipliers is optimal (:class:`Polish`).

The bias is minimised out exactly after every step, which keeps :math:`y'\alpha = 0` to rounding.

Source: [LiSunToh] = Li, Sun and Toh 2018, A highly efficient semismooth Newton augmented Lagrangian
method for solving lasso problems.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.lapack import dposv

from svmcvx.arrays import Floats
from svmcvx.certificate import EPS, relative_gap
from svmcvx.data import BinaryData, Features
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear import loss_passes as passes
from svmcvx.fast.linear.loss_passes import HINGE, LinearLoss
from svmcvx.feature_space import FeatureSpace, with_constant
from svmcvx.kernels import KernelLike, Linear, as_kernel, row_norms
from svmcvx.model import LinearModel
from svmcvx.numerical import (
    NewtonStep,
    bordered_solution,
    conjugate_gradients,
    estimated_rounding,
    newton,
    semidefinite_solution,
)
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import OutOfTime
from svmcvx.system.memory import SMALL_ENTRIES

# Products of conjugate gradients in one step, at most.
CONJUGATE_STEPS = 500


def minimise(
    problem: LinearTerms,
    monitor: Monitor,
    *,
    w: Floats | None = None,
    b: float = 0.0,
    alpha: Floats | None = None,
    sigma: float | None = None,
    settings: LinearNewtonSettings | None = None,
    margins: Margins | None = None,
) -> tuple[BestPoint, Status]:
    """Run Newton's method until the monitor says stop."""
    if sigma is None:
        # A first subproblem with a large σ, for its weights and norms, is ill-conditioned.
        largest = STIFFNESS / problem.stiffness if problem.stiffness > 0 else math.inf
        cold = 1.0 if problem.smooth else min(FIRST_SIGMA, largest)
        sigma = cold if problem.smooth or alpha is None else WARM_SIGMA
    # Rows in blocks come with their margins.
    rows = Margins(cast(LinearProblem, problem), alpha) if margins is None else margins
    q = np.zeros(problem.d) if problem.linear_term is None else problem.linear_term
    if w is None:
        w = q.copy() if alpha is None else rows.centre_expansion() + q
    method = _Descent(problem, monitor, rows, w, b, sigma, q, settings or LinearNewtonSettings())
    try:
        status = newton(method) or Status.INACCURATE
    except OutOfTime:
        status = monitor.late
    best = method.best
    best.alpha, best.expansion = rows.best_alpha, rows.expansion
    return best, status


def minimise_on_factor(
    problem: LinearProblem,
    monitor: Monitor,
    alpha: Floats | None = None,
    settings: LinearNewtonSettings | None = None,
) -> BestPoint:
    """Return the best point on a partial factor K ≈ FF'; its multipliers are feasible for K."""
    # The error of the factor takes the rest of the tolerance.
    part = monitor.within(0.3 * monitor.tol, 300)
    alpha = None if problem.smooth else alpha
    return minimise(problem, part, alpha=alpha, settings=settings)[0]


class _Descent:
    """The problem at a point (w, b), with its steps; the best ones are stored in `best`."""

    sums: RowSums
    primal: Floats
    gradient: Floats

    def __init__(
        self,
        problem: LinearTerms,
        monitor: Monitor,
        rows: Margins,
        w: Floats,
        b: float,
        sigma: float,
        q: Floats,
        settings: LinearNewtonSettings,
    ) -> None:
        self.problem, self.monitor, self.rows, self.settings = problem, monitor, rows, settings
        self.w, self.b, self.sigma, self.q = w, b, sigma, q
        self.best = BestPoint(w.copy(), b, rows.best_alpha, rows.expansion)
        applies = rows.whole and Polish.applies(problem)
        self.polish = Polish(cast(LinearProblem, problem)) if applies else None
        # Whether conjugate gradients may be less work than a sparse system.
        self.iterates = rows.whole and sp.issparse(rows.problem.X)
        # Steps so far, and those up to the last progress; steps without progress that count; the
        # best of the gap and of the lower bound.
        self.steps, self.improved, self.idle = 0, 0, 0
        self.smallest, self.proved = math.inf, 0.0
        # The decrease of the last step's model, and a subproblem's first gradient norm.
        self.promised = self.first = math.inf

    def _set_multipliers(self) -> None:
        m, rows = self.problem, self.rows
        if m.bias:
            self.b = _best_bias(rows, self.b, self.sigma)
        self.sums, expansion = rows.prox_step(
            self.b, self.sigma, rows.mean("f") if m.variance > 0 else 0.0
        )
        self.primal = expansion if m.linear_term is None else expansion + self.q
        self.gradient = self.w - self.primal

    def examine(self, steps: int) -> Status | None:
        """Bound the optimum; increase σ if the point is near the minimum of its subproblem."""
        m, rows, best, monitor = self.problem, self.rows, self.best, self.monitor
        self.steps = steps
        if steps == 0:
            rows.set_point(self.w)
        self._set_multipliers()
        sums, primal = self.sums, self.primal
        expanded = rows.loss_of(primal, self.b) if m.kernel_expansion else None
        lower, upper, better_lower, better_upper = best.update(
            m, self.w, self.b, sums, primal, expanded
        )
        if better_lower:
            rows.keep()
        if better_upper and m.kernel_expansion:
            rows.expansion = rows.alpha.copy()
        best.steps, best.sigma = steps, self.sigma
        status = monitor.report(steps, lower, upper)
        gap = upper - lower
        part = 0.5 * float(self.gradient @ self.gradient)
        # The gap of a kernel expansion far from the optimum far exceeds one step's decrease.
        terms = abs(sums.smooth) + sums.size + (0.0 if m.kernel_expansion else abs(gap))
        negligible = self.promised <= 4.0 * EPS * terms
        # The other part, loss + conjugate − product at (z, α), decreases only if σ grows.
        grow_sigma = False
        if not m.smooth:
            left = sums.loss + sums.conjugate - sums.product
            grow_sigma = part <= 0.1 * left or negligible
        if status is None and (self._exhausted(negligible or grow_sigma) or not math.isfinite(gap)):
            status = Status.INACCURATE
        end = None
        if status is None and self.polish is not None:
            end = self.polish(rows.alpha, np.flatnonzero(rows.slope), end_of_round=grow_sigma)
        if end is not None:
            w, b, alpha, sums = end
            lower, upper, better_lower, _ = best.update(m, w, b, sums, w)
            if better_lower:
                rows.best_alpha = alpha
            if relative_gap(best.lower, best.upper) <= monitor.tol:
                status = monitor.report(steps, lower, upper)
        if status is None and grow_sigma:
            rows.update_prox_center()
            if self.sigma < LARGEST_SIGMA:
                self.improved = self.steps
            self.sigma = min(self.sigma * GROWTH, LARGEST_SIGMA)
            self._set_multipliers()
            self.first = math.inf
        return status

    def _exhausted(self, idle: bool) -> bool:
        """Whether too many steps made no progress; `idle` steps are expected to make none."""
        # The relative gap does not show the growth of a relatively small lower bound.
        lower = self.best.lower
        if self.monitor.gap < 0.999 * self.smallest or lower > 2.0 * self.proved:
            self.smallest, self.idle, self.improved = self.monitor.gap, 0, self.steps
            self.proved = max(lower, self.proved)
        elif idle:
            self.idle += 1
        return self.steps - self.improved > LONGEST_IDLE or self.idle >= PATIENCE

    def direction(self) -> NewtonStep:
        m, rows, w, b, sigma = self.problem, self.rows, self.w - self.q, self.b, self.sigma
        gradient, balance = self.gradient, self.sums.balance if m.bias else 0.0
        norm = math.sqrt(float(gradient @ gradient))
        self.first = self.first if math.isfinite(self.first) else norm
        accuracy = min(0.1, max(math.sqrt(norm / self.first) if self.first > 0 else 0.1, 1e-6))
        dw, db = self._newton_step(gradient, -balance, accuracy)
        rows.project(dw)
        self.promised = -float(gradient @ dw) + balance * db
        linear, square = float(w @ dw), float(dw @ dw)
        if m.variance > 0 and self.promised > 0:
            across, along = rows.variance_along(rows.mean("df"))
            linear, square = linear + across, square + along

        def derivative(t: float) -> float:
            return linear + t * square + rows.along(t, b, db, sigma)

        def take(t: float) -> None:
            self.w = self.w + t * dw
            self.b += t * db
            if (self.steps + 1) % REFRESH == 0:
                rows.set_point(self.w)
            else:
                rows.take_step(t)

        return NewtonStep(self.promised, derivative, take)

    def _newton_step(
        self, gradient: Floats, bias_gradient: float, accuracy: float
    ) -> tuple[Floats, float]:
        r"""Return the solution (dw, db) of :math:`(I + X'SX)\,dw = -g`, S the losses' curvature.

        It is solved in w, or as :math:`(S^{-1} + XX')\nu = -Xg` on fewer curved rows in memory, by
        a Cholesky factor up to ``direct_work`` operations, else by conjugate gradients; on many
        sparse rows by these as long as they end with less work than a factor.
        """
        problem, margins = self.problem, self.rows
        d, curved = problem.d, margins.curved()
        if curved == 0:
            return -gradient, 0.0
        if self.iterates and d <= curved:
            most = int(system_work(margins.problem, curved) / (2.0 * curved * problem.entries + d))
            found = self._iterated_step(gradient, bias_gradient, accuracy, most)
            if found is not None:
                return found
            self.iterates = False
        small = min(curved, d) if margins.whole else d
        work = curved * problem.entries * min(problem.entries, small) + small**3 / 3.0
        limit = self.settings.direct_work * (1.0 if problem.smooth else 10.0)
        if not margins.whole:
            # A product of conjugate gradients reads all blocks again.
            limit = max(limit, 1000.0 * problem.n * problem.entries)
        if small <= self.settings.largest_system and work <= limit:
            primal = d <= curved or not margins.whole
            solve = (_primal_system if primal else _dual_system)(problem, margins)
            try:
                step, db = solve(gradient, bias_gradient)
                if problem.variance == 0:
                    return step, db
                mean = margins.mean_gradient()
                return _without_mean(problem, mean, step, solve(-mean, 0.0)[0]), db
            except (sl.LinAlgError, ValueError):
                # Not positive definite to rounding: conjugate gradients go on without a factor.
                pass
        return self._iterated_step(gradient, bias_gradient, accuracy) or (-gradient, 0.0)

    def _iterated_step(
        self, gradient: Floats, bias_gradient: float, accuracy: float, most: int = CONJUGATE_STEPS
    ) -> tuple[Floats, float] | None:
        """Conjugate gradients on (w, b), preconditioned by the diagonal; None without a step, or if
        fewer products than CONJUGATE_STEPS are allowed and needed.
        """
        problem, margins, d = self.problem, self.rows, self.problem.d
        squares, total = margins.diagonal()
        diagonal = np.append(1.0 + squares, total * (1.0 + BIAS_DAMPING))
        mean = margins.mean_gradient() if problem.variance > 0 else np.zeros(d)

        def product(direction: Floats) -> Floats:
            w, db = direction[:d], float(direction[d]) if problem.bias else 0.0
            curved, moved = margins.curvature_product(w, db, float(mean @ w))
            out = np.append(w + curved, 0.0)
            out[d] = moved + BIAS_DAMPING * total * db if problem.bias else 0.0
            return out

        limit = min(most, CONJUGATE_STEPS)
        step, products, _ = conjugate_gradients(
            product,
            np.append(-gradient, -bias_gradient),
            lambda r: r / diagonal,
            accuracy=accuracy,
            limit=limit,
            stop=self.monitor.out_of_time,
        )
        if not step.any() or products == limit < CONJUGATE_STEPS:
            return None
        return step[:d], float(step[d]) if problem.bias else 0.0


def system_work(problem: LinearProblem, curved: float) -> float:
    """Return the work of a Newton system with so many curved rows, in entries of a row that
    coordinate ascent reads in the same time.
    """
    small, whole = min(curved, float(problem.d)), curved / problem.n
    if not sp.issparse(problem.rows):
        return (curved * problem.d * small + small**3 / 3.0) / AT_ONCE
    primal = problem.d <= curved
    pairs = 0.5 * curved * problem.entries**2 if primal else problem.pairs * whole**2
    return pairs + small**3 / 3.0 / AT_ONCE


def newton_work(problem: LinearProblem) -> float:
    """Return the work of Newton's method, roughly, in the same unit."""
    n, (steps, share) = problem.n, SMOOTH if problem.smooth else AUGMENTED
    # Of fewer rows than columns nearly all are curved.
    curved = max(share * n, float(min(n, problem.d)))
    system = system_work(problem, curved)
    if sp.issparse(problem.rows) and problem.d <= curved:
        system = min(system, PRODUCTS * (2.0 * curved * problem.entries + problem.d))
    return steps * (STEP_WORK + 10.0 * n + system)


def _best_bias(rows: Margins, b: float, sigma: float) -> float:
    """Root of the decreasing function y'α(b), by Newton's method inside a bracket."""
    low, high, width = -math.inf, math.inf, 1.0
    for _ in range(100):
        balance, curvature, size = rows.balance(b, sigma)
        # The loss of the lower bound is about as large.
        if abs(balance) <= 1e-13 * size:
            if curvature == 0:
                # Any bias of an interval is optimal; its middle leaves most room for a step in w.
                left, right = rows.flat_ends(b, sigma)
                middle = 0.5 * (left + right)
                b += middle if math.isfinite(middle) else 0.0
            break
        if balance > 0:
            low = b
        else:
            high = b
        trial = b + balance / curvature if curvature > 0 else math.nan
        if not low < trial < high or abs(trial - b) > width:
            if math.isfinite(low) and math.isfinite(high):
                trial = 0.5 * (low + high) if not low < trial < high else trial
            else:
                trial = b + math.copysign(width, balance)
                width *= 4.0
        if trial == b:
            break
        b = trial
    return b


# Steps after which the scores are computed afresh.
REFRESH = 20
# The bias has no penalty; this share of the sum of second derivatives keeps its row regular.
BIAS_DAMPING = 1e-12
# Multiplications of a matrix product in the time in which coordinate ascent reads an entry.
AT_ONCE = 64.0
# The same of the fixed work of a Newton step, and products of conjugate gradients in one.
STEP_WORK, PRODUCTS = 1.5e4, 60.0
# Steps of Newton's method, about, and the least share of curved rows: smooth losses, others.
SMOOTH, AUGMENTED = (5.0, 0.5), (25.0, 0.25)
# First penalty σ of the augmented Lagrangian, without and with multipliers to start from; without
# them σ times the weight times the squared norm of an observation is at most STIFFNESS.
FIRST_SIGMA, WARM_SIGMA, STIFFNESS = 1.0, 100.0, 1e4
# Factor by which σ grows, and its largest value.
GROWTH, LARGEST_SIGMA = 6.0, 1e12
# Steps that promise less than rounding, and steps of any kind, without a smaller gap, after which
# the method ends.
PATIENCE, LONGEST_IDLE = 15, 200


@dataclass(frozen=True)
class LinearNewtonSettings:
    """Multiplications up to which a Newton system is formed and factored, ten times as many for
    p < 2, whose systems are ill-conditioned, and the most unknowns of one; conjugate gradients
    beyond.
    """

    direct_work: float = 4e9
    largest_system: int = 4000


@dataclass(eq=False)
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

    def __post_init__(self) -> None:
        self.smooth, self.rounding = self.loss.smooth, estimated_rounding(self.n)


class LinearProblem(LinearTerms):
    """The problem on rows, with a constant column 1 at their end if that is asked for."""

    def __init__(
        self,
        rows: Features,
        y: Floats,
        c: Floats,
        loss: LinearLoss,
        *,
        constant: bool = False,
        share: Floats | None = None,
        norms: Floats | None = None,
        **terms: Any,
    ) -> None:
        n, d = rows.shape
        # Passes are compiled for a single memory layout.
        self.rows: Features = rows if sp.issparse(rows) else np.ascontiguousarray(rows)
        self.y, self.c, self.constant = y, c, constant
        self.norms = row_norms(self.X) if norms is None else norms
        self.shares = np.broadcast_to(1.0 / max(n, 1), n) if share is None else share
        super().__init__(
            n,
            d + constant,
            loss,
            largest_norm=float(self.norms.max(initial=0.0)),
            stiffness=float((c * self.norms**2).max(initial=0.0)),
            entries=(rows.nnz / max(n, 1) if sp.issparse(rows) else float(d)) + constant,
            **terms,
        )

    @cached_property
    def X(self) -> Features:
        return with_constant(self.rows) if self.constant else self.rows

    def with_rows(self, X: Features | None) -> LinearProblem:
        """Return the same problem with other rows, or None for rows that come later."""
        other = copy(self)
        other.rows = other.X = X
        return other

    @cached_property
    def pairs(self) -> float:
        """Multiplications of the sparse product XX', estimated from some of the entries."""
        some = self.rows.indices[:: 1 + self.rows.nnz // 2**12]
        counts, share = np.bincount(some), some.size / max(self.rows.nnz, 1)
        return float(counts @ counts - some.size) / share**2 + self.rows.nnz if some.size else 0.0

    def primal_of(self, alpha: Floats) -> Floats:
        w = np.asarray(self.rows.T @ (self.y * alpha))
        w = np.append(w, self.y @ alpha) if self.constant else w
        return w if self.linear_term is None else w + self.linear_term

    def loss_at(self, f: Floats, b: float, centre: Floats) -> float:
        scratch = np.empty((2, self.n))
        sums = passes.prox_sums(
            self.loss, f, self.y, b, centre, self.c, 1.0, self.norms, scratch[0], scratch[1]
        )
        return float(sums[1])

    def sums_of(self, alpha: Floats, loss: float) -> RowSums:
        """Return both objectives' sums, for multipliers and losses of a separate point."""
        size, conjugate = np.abs(alpha), float(passes.conjugate(self.loss, alpha, self.c))
        norm_sum = float(size @ self.norms)
        total, balance = float(alpha.sum()), float(self.y @ alpha)
        return RowSums(0.0, loss, total, balance, float(size.sum()), norm_sum, 0.0, conjugate, 0.0)


class RowSums(NamedTuple):
    smooth: float
    loss: float
    total: float
    balance: float
    size: float
    norm_sum: float
    product: float
    conjugate: float
    variance: float


@dataclass
class BestPoint:
    """The model of the lowest upper bound, and multipliers of the largest lower one."""

    w: Floats
    b: float
    alpha: Floats
    expansion: Floats
    upper: float = math.inf
    lower: float = -math.inf
    steps: int = 0
    sigma: float = 0.0

    def take(self, other: BestPoint) -> None:
        """Take the model and the multipliers of another point where its bounds are better."""
        if other.upper < self.upper:
            self.w, self.b, self.upper, self.expansion = (
                other.w,
                other.b,
                other.upper,
                other.expansion,
            )
        if other.lower > self.lower:
            self.alpha, self.lower = other.alpha, other.lower

    def update(
        self,
        problem: LinearTerms,
        w: Floats,
        b: float,
        response: RowSums,
        primal: Floats,
        expanded_loss: float | None = None,
    ) -> tuple[float, float, bool, bool]:
        """Return lower and upper bound at (w, b), with ``primal`` = w(α), each widened by its
        estimated rounding, and whether they are the best so far.
        """
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
        rounding = problem.rounding * (
            4.0 * response.size
            + 4.0 * response.norm_sum * (math.sqrt(norm) + math.sqrt(dual_norm))
            + abs(conjugate)
            + loss
            + abs(linear)
            + variance
        )
        # Scaling one class's multipliers to balance costs at most the imbalance times scores.
        unbalanced = 0.0
        if problem.bias:
            unbalanced = abs(response.balance) * (
                1.0 + abs(b) + problem.largest_norm * math.sqrt(dual_norm)
            )
        upper, lower = upper + rounding, lower - rounding - unbalanced
        better_lower, better_upper = lower >= self.lower, upper <= self.upper
        if better_upper:
            self.w, self.b, self.upper = w.copy(), b, upper
        if better_lower:
            self.lower = lower
        return lower, upper, better_lower, better_upper


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
    b, rows = b - float(centre @ w), space.data.index[support]
    return LinearModel(coef=w, intercept=b, classes=space.data.classes, support=rows)


def earlier_point(
    statement: Any, warm: Solution | None, entry: str
) -> tuple[Floats | None, Floats | None]:
    """Return w of an earlier solution, in the columns of ``space.X``, and the multipliers `entry`;
    None for what does not fit.
    """
    if warm is None:
        return None, None
    space, model, w = statement.space, warm.model, None
    features, rows = (space.data.X.shape[1],), space.data.rows
    if space.is_linear and isinstance(model, LinearModel) and model.coef.shape == features:
        penalised = space.intercept == "penalised"
        found = np.append(model.coef, model.intercept) if penalised else model.coef
        w = found if np.isfinite(model.coef).all() else None
    alpha = warm.dual.get(entry)
    if alpha is not None and np.shape(alpha) in ((rows,), (space.data.n,)):
        return w, statement.entry({entry: alpha}, entry)
    if w is None and warm.dual:
        got = "none" if alpha is None else f"one of shape {np.shape(alpha)}"
        raise DataError(
            f"warm_start does not fit: its dual point needs the entry {entry!r} of shape ({rows},),"
            f" got {got}; pass a solution of {statement.name} for the same data"
        )
    return w, None


def kernel_for(data: BinaryData, kernel: KernelLike, cost: float = 0.0) -> KernelLike:
    """Return a kernel, None for a linear one that loses small columns or is slow by `cost`."""
    if not isinstance(as_kernel(kernel), Linear):
        return kernel
    X = data.X
    mean = np.asarray(X.mean(axis=0)).ravel()
    if sp.issparse(X):
        variance = np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2
    else:
        variance = X.var(axis=0)
    smallest = float(variance[variance > 0].min(initial=math.inf))
    return None if max(cost, 1.0 / smallest) * float(row_norms(X).max()) ** 2 > 1e8 else kernel


class Margins:
    """Scores and multipliers of the rows of a problem."""

    # Whether all rows are in memory, so that systems of the order of their number can be formed.
    whole = True

    def __init__(self, problem: LinearProblem, alpha: Floats | None = None) -> None:
        self.problem = problem
        n = problem.n
        low, high = problem.loss.domain
        self.centre = (
            np.zeros(n) if alpha is None else np.clip(alpha, low * problem.c, high * problem.c)
        )
        self.alpha, self.slope = np.zeros(n), np.zeros(n)
        self.best_alpha = self.expansion = self.alpha
        self.f = self.df = self.alpha
        # The mean margin of the multipliers, and the variance's multipliers of the best bound.
        self.mean_margin = 0.0
        self.best_tau = self.alpha

    def centre_expansion(self) -> Floats:
        return np.asarray(self.problem.X.T @ (self.problem.y * self.centre))

    def set_point(self, w: Floats) -> None:
        self.f = np.asarray(self.problem.X @ w)

    def project(self, dw: Floats) -> None:
        self.df = np.asarray(self.problem.X @ dw)

    def take_step(self, t: float) -> None:
        self.f = self.f + t * self.df

    def update_prox_center(self) -> None:
        self.centre = self.alpha.copy()

    def keep(self) -> None:
        """Store the multipliers as those of the best lower bound."""
        self.best_alpha = self.alpha.copy()
        if self.problem.variance > 0:
            self.best_tau = self._deviations(self.f, self.mean_margin)

    def mean(self, scores: str) -> float:
        """Return the mean margin of the scores ``"f"`` or of their change ``"df"``."""
        m = self.problem
        return float(m.shares @ (m.y * getattr(self, scores)))

    def _deviations(self, scores: Floats, mean: float) -> Floats:
        """Return the multipliers τ of the variance at scores with this mean margin."""
        m = self.problem
        return np.asarray(2.0 * m.variance * m.shares * (m.y * scores - mean))

    def balance(self, b: float, sigma: float) -> tuple[float, float, float]:
        """Return Σyα, Σ of the slopes, and Σ|α| at a bias."""
        m = self.problem
        found = passes.slope_of_bias(m.loss, self.f, m.y, b, self.centre, m.c, sigma)
        return float(found[0]), float(found[1]), float(found[2])

    def flat_ends(self, b: float, sigma: float) -> tuple[float, float]:
        m = self.problem
        left, right = passes.flat_ends(m.loss, self.f, m.y, b, self.centre, m.c, sigma)
        return float(left), float(right)

    def prox_step(self, b: float, sigma: float, mean: float) -> tuple[RowSums, Floats]:
        """Set multipliers and slopes; return sums, and X'(y(α − τ)) with the variance's τ at this
        mean of the margins.
        """
        m = self.problem
        sums = passes.prox_sums(
            m.loss, self.f, m.y, b, self.centre, m.c, sigma, m.norms, self.alpha, self.slope
        )
        conjugate = float(passes.conjugate(m.loss, self.alpha, m.c))
        variance, v = 0.0, self.alpha
        if m.variance > 0:
            self.mean_margin = mean
            tau = self._deviations(self.f, mean)
            # Half of τ'u, because the variance is quadratic.
            variance, v = 0.5 * float(tau @ (m.y * self.f)), self.alpha - tau
        response = RowSums(*map(float, (*sums, conjugate, variance)))
        return response, np.asarray(m.X.T @ (m.y * v))

    def loss_of(self, w: Floats, b: float) -> float:
        return self.problem.loss_at(np.asarray(self.problem.X @ w), b, self.centre)

    def along(self, t: float, b: float, db: float, sigma: float) -> float:
        m = self.problem
        return float(passes.along(m.loss, self.f, self.df, t, m.y, b, db, self.centre, m.c, sigma))

    def variance_along(self, mean: float) -> tuple[float, float]:
        """Return τ'f and τ'df for the step's multipliers τ of the variance, of mean `mean`."""
        tau = self._deviations(self.df, mean) * self.problem.y
        return float(tau @ self.f), float(tau @ self.df)

    @property
    def _second(self) -> Floats:
        """Second derivatives of the losses, with the second moment of the margins."""
        m = self.problem
        return self.slope + 2.0 * m.variance * m.shares if m.variance > 0 else self.slope

    def curved(self) -> int:
        return int(np.count_nonzero(self._second))

    def mean_gradient(self) -> Floats:
        m = self.problem
        return np.asarray(m.X.T @ (m.y * m.shares))

    def normal_matrix(self) -> tuple[Floats, Floats, float]:
        """Return X'SX, X'S1 and 1'S1."""
        X, second = self.problem.X, self._second
        d = X.shape[1]
        H, border = np.zeros((d, d)), np.zeros(d)
        if sp.issparse(X):
            passes.gram_rows(X.data, X.indices, X.indptr, second, H, border)
        elif d <= 24:
            # A compiled loop takes less time than a copy of the rows and a matrix product.
            passes.gram_narrow(X, second, H, border)
        else:
            rows = np.flatnonzero(second)
            block = max(1, SMALL_ENTRIES // d)
            for first in range(0, rows.size, block):
                part = rows[first : first + block]
                scaled = X[part]
                border += scaled.T @ second[part]
                scaled *= np.sqrt(second[part])[:, None]
                H += scaled.T @ scaled
        return H, border, float(second.sum())

    def observations(self) -> tuple[Any, Floats]:
        """Return the rows with a second derivative, and these."""
        second = self._second
        rows = np.flatnonzero(second)
        return self.problem.X[rows], second[rows]

    def diagonal(self) -> tuple[Floats, float]:
        X, second = self.problem.X, self._second
        n, d = X.shape
        diagonal = np.zeros(d)
        if sp.issparse(X):
            passes.squared_columns(X.data, X.indices, X.indptr, second, diagonal)
        else:
            block = max(1, SMALL_ENTRIES // d)
            for first in range(0, n, block):
                diagonal += second[first : first + block] @ X[first : first + block] ** 2
        return diagonal, float(second.sum())

    def curvature_product(self, direction: Floats, db: float, mean: float) -> tuple[Floats, float]:
        """Return X'S(X direction + db) and its middle sum, with a variance of mean `mean`."""
        X, m = self.problem.X, self.problem
        if m.variance > 0:
            scores = np.asarray(X @ direction)
            changed = self.slope * scores + m.y * self._deviations(scores, mean)
            return np.asarray(X.T @ changed), 0.0
        if sp.issparse(X):
            out = np.zeros(direction.size)
            moved = passes.curvature_product(
                X.data, X.indices, X.indptr, self.slope, direction, db, out
            )
            return out, float(moved)
        middle = self.slope * (X @ direction + db)
        return np.asarray(X.T @ middle), float(middle.sum())


def _without_mean(problem: LinearTerms, mean: Floats, step: Floats, mean_step: Floats) -> Floats:
    """Take the square of the mean from the second derivative (Sherman-Morrison)."""
    pivot = 1.0 - 2.0 * problem.variance * float(mean @ mean_step)
    if pivot < 1e-6:
        raise sl.LinAlgError("the mean of the margins is too large against their variance")
    return step + (2.0 * problem.variance * float(mean @ step) / pivot) * mean_step


def _solved(system: Floats, right: Floats) -> Floats:
    """Solve a positive definite system, overwritten, by LAPACK without the checks of scipy."""
    # Its transpose is the same system in the layout of LAPACK.
    _, solution, info = dposv(system.T, right, overwrite_a=True)
    if info:
        raise sl.LinAlgError("the system is not positive definite to rounding")
    return np.asarray(solution)


# Solves a Newton system for a gradient in w and in the bias.
SystemSolver: TypeAlias = Callable[[Floats, float], tuple[Floats, float]]


def _primal_system(problem: LinearTerms, margins: Margins) -> SystemSolver:
    H, border, total = margins.normal_matrix()
    H.ravel()[:: problem.d + 1] += 1.0

    def solve(gradient: Floats, bias_gradient: float) -> tuple[Floats, float]:
        own = partial(_solved, H.copy())
        if not problem.bias:
            return own(-gradient), 0.0
        return bordered_solution(
            own, border, -gradient, -bias_gradient, corner=total, damping=BIAS_DAMPING
        )

    return solve


def _dual_system(problem: LinearTerms, margins: Margins) -> SystemSolver:
    r"""The system for :math:`\nu = S(X\,dw + db)` on curved rows, :math:`dw = -g - X'\nu`."""
    part, second = margins.observations()
    gram = part @ part.T
    system = np.ascontiguousarray(gram.toarray() if sp.issparse(gram) else gram)
    system.ravel()[:: second.size + 1] += 1.0 / second

    def solve(gradient: Floats, bias_gradient: float) -> tuple[Floats, float]:
        own, right, db = partial(_solved, system.copy()), -np.asarray(part @ gradient), 0.0
        if problem.bias:
            # 1'ν = −g_b.
            nu, db = bordered_solution(own, np.ones(right.size), right, -bias_gradient)
        else:
            nu = own(right)
        return -gradient - np.asarray(part.T @ nu), -db

    return solve


class Polish:
    r"""The exact optimum for p = 1, once it is known which multipliers lie inside their bounds.

    Multipliers at 0 and c are fixed, and the others F solve :math:`X_Fw + b = y_F,\; w =
    X'(y\alpha),\; y'\alpha = 0`: as many equations as there are features and one more, unless rows
    are equal.
    """

    def __init__(self, problem: LinearProblem) -> None:
        self.problem = problem
        self.before = self.tried = np.zeros(0, dtype=np.intp)

    @staticmethod
    def applies(terms: LinearTerms) -> bool:
        plain = terms.linear_term is None and not terms.variance and not terms.kernel_expansion
        return terms.loss.kind == HINGE and plain

    def __call__(
        self, alpha: Floats, free: NDArray[np.intp], *, end_of_round: bool = False
    ) -> tuple[Floats, float, Floats, RowSums] | None:
        """Solve for the multipliers that were free before, or are few at the end of a round; return
        w, b, α and sums.
        """
        m, c = self.problem, self.problem.c
        equations = m.d + 1
        before, self.before = self.before, free
        # The system takes the cube of their number.
        if not 0 < free.size <= min(4 * equations, 1000) or np.array_equal(free, self.tried):
            return None
        if not (end_of_round and free.size <= equations) and not np.array_equal(free, before):
            return None
        self.tried = free
        v = np.where(alpha >= c, c, 0.0)
        v[free] = alpha[free]
        v *= m.y
        Z = m.X[free]
        system = Z @ Z.T
        found = semidefinite_solution(
            system.toarray() if sp.issparse(system) else system,
            m.y[free] - Z @ (m.X.T @ v),
            np.ones(free.size) if m.bias else None,
            -float(v.sum()),
        )
        if found is None:
            return None
        inside, b = (v[free] + found[0]) * m.y[free], found[1]
        room = 1e-8 * c[free]
        if not ((inside >= -room) & (inside <= c[free] + room)).all():
            return None
        v[free] = np.clip(inside, 0.0, c[free]) * m.y[free]
        w = np.asarray(m.X.T @ v)
        loss = m.loss_at(np.asarray(m.X @ w), b, np.zeros(m.n))
        return w, b, v * m.y, m.sums_of(v * m.y, loss)
