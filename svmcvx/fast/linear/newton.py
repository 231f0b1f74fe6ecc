r"""Newton's method for linear machines, with a certified gap after every step.

Problems and bounds are defined in :mod:`svmcvx.fast.linear.problem`, the linear systems in
:mod:`svmcvx.fast.linear.steps`.

**p ≥ 2 and ODM** are smooth: Newton's method with a line search, and the gap falls with the square
of the gradient.

**p < 2**: the augmented Lagrangian method for the dual [LiSunToh]. The smooth envelope around a
centre a is minimised in (w, b) until the part of the gap from the gradient is a tenth of the other
part; then its multipliers become the centre and σ grows. The second derivatives weigh only the
observations in a band of width 1/σ around the kink, in the end about as many as there are features,
so late steps are cheap. The method converges to the minimum of the loss itself, not of a smoothed
one. For p = 1 it ends as soon as the set of free multipliers is optimal
(:mod:`svmcvx.fast.linear.polish`).

The bias is minimised out exactly after every step, which keeps :math:`y'\alpha = 0` to rounding.

Source: [LiSunToh] = Li, Sun and Toh 2018, A highly efficient semismooth Newton augmented Lagrangian
method for solving lasso problems.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import relative_gap
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear.margins import Margins, flat_middle
from svmcvx.fast.linear.polish import Polish
from svmcvx.fast.linear.problem import (
    FIRST_SIGMA,
    GRADIENT_SHARE,
    LARGEST_SIGMA,
    LARGEST_STIFFNESS,
    LONGEST_IDLE,
    PATIENCE,
    PATIENCE_ROUNDS,
    REFRESH,
    SIGMA_GROWTH,
    WARM_SIGMA,
    BestPoint,
    LinearBounds,
    LinearNewtonSettings,
    LinearProblem,
    LinearTerms,
    RowSums,
)
from svmcvx.fast.linear.steps import newton_step
from svmcvx.numerical import NewtonStep, newton
from svmcvx.solution import Status
from svmcvx.system.deadline import OutOfTime

__all__ = ["LinearNewtonSettings", "minimise"]

Floats: TypeAlias = NDArray[np.float64]

BIAS_STEPS = 100
# Imbalance y'α, relative to Σα, at which the bias is good enough: the loss of the lower bound is
# about as large.
BALANCED = 1e-13
# A step that promises less than this share of the terms summed up is lost in their rounding.
NEGLIGIBLE = 1e-15


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
    m = problem
    settings = LinearNewtonSettings() if settings is None else settings
    if sigma is None:
        sigma = _first_sigma(m, warm=alpha is not None)
    if margins is None:
        assert isinstance(problem, LinearProblem)  # noqa: S101 - rows in blocks come with their margins
        margins = Margins(problem, alpha)
    rows = margins
    q = np.zeros(m.d) if m.linear_term is None else m.linear_term
    if w is None:
        w = q.copy() if alpha is None else rows.centre_expansion() + q
    bounds = LinearBounds(m, w, np.zeros(0))
    bounds.best.b = b
    try:
        status = (
            newton(_Descent(m, monitor, rows, bounds, w, b, sigma, settings)) or Status.INACCURATE
        )
    except OutOfTime:
        status = (
            Status.INTERRUPTED
            if monitor.deadline.interrupt_requested.is_set()
            else Status.TIME_LIMIT
        )
    bounds.best.alpha, bounds.best.expansion = rows.best_alpha, rows.expansion
    return bounds.best, status


class _Descent:
    """The problem at a point (w, b), with its steps; the best points are stored in `bounds`."""

    sums: RowSums
    primal: Floats
    gradient: Floats

    def __init__(
        self,
        problem: LinearTerms,
        monitor: Monitor,
        rows: Margins,
        bounds: LinearBounds,
        w: Floats,
        b: float,
        sigma: float,
        settings: LinearNewtonSettings,
    ) -> None:
        self.problem, self.monitor, self.rows, self.bounds = problem, monitor, rows, bounds
        self.w, self.b, self.sigma, self.settings = w, b, sigma, settings
        self.q = np.zeros(problem.d) if problem.linear_term is None else problem.linear_term
        rows.set_point(w)
        self.polish = Polish(rows) if Polish.applies(problem, rows) else None
        # Steps so far, and those up to the last progress; steps without progress that count; the
        # best of the gap and of the lower bound.
        self.steps, self.improved, self.idle = 0, 0, 0
        self.smallest, self.proved = math.inf, 0.0
        # The decrease that the last step promised, and the first norm of the gradient of a
        # subproblem.
        self.promised = self.first = math.inf

    def _set_multipliers(self) -> None:
        """Set multipliers and slopes at the point, its bias included."""
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
        m, rows, bounds, monitor = self.problem, self.rows, self.bounds, self.monitor
        self.steps = steps
        self._set_multipliers()
        sums, primal = self.sums, self.primal
        judged = bounds.update_bounds(
            self.w,
            self.b,
            sums,
            primal,
            rows.loss_of(primal, self.b) if m.kernel_expansion else None,
        )
        if judged.better_lower:
            rows.keep()
        if judged.better_upper and m.kernel_expansion:
            rows.keep_expansion()
        bounds.best.steps, bounds.best.sigma = steps, self.sigma
        status = monitor.report(steps, judged.lower, judged.upper)
        gap = judged.upper - judged.lower
        part = 0.5 * float(self.gradient @ self.gradient)
        # The gap of a kernel expansion far from the optimum is much larger than the decrease of one
        # step.
        terms = abs(sums.smooth) + sums.size + (0.0 if m.kernel_expansion else abs(gap))
        negligible = self.promised <= NEGLIGIBLE * terms
        # The other part of the gap is loss + conjugate − product at (z, α): it decreases only if σ
        # grows.
        grow_sigma = False
        if not m.smooth:
            left = sums.loss + sums.conjugate - sums.product
            grow_sigma = part <= GRADIENT_SHARE * left or negligible
        if status is None and (self._exhausted(negligible or grow_sigma) or not math.isfinite(gap)):
            status = Status.INACCURATE
        if (
            status is None
            and self.polish is not None
            and (exact := self.polish(grow_sigma)) is not None
        ):
            judged = bounds.update_bounds(exact.w, exact.b, exact.response, exact.w)
            if judged.better_lower:
                rows.best_alpha = exact.alpha
            if relative_gap(bounds.best.lower, bounds.best.upper) <= monitor.tol:
                status = monitor.report(steps, judged.lower, judged.upper)
        if status is None and grow_sigma:
            rows.update_prox_center()
            self.sigma = min(self.sigma * SIGMA_GROWTH, LARGEST_SIGMA)
            self._set_multipliers()
            self.first = math.inf
        return status

    def _exhausted(self, idle: bool) -> bool:
        """Whether too many steps have made no progress; `idle` counts steps of which no progress is
        expected.
        """
        # If the lower bound is small relative to the upper one, the relative gap does not show that
        # it grows.
        lower = self.bounds.best.lower
        if self.monitor.gap < 0.999 * self.smallest or lower > 2.0 * self.proved:
            self.smallest, self.idle, self.improved = self.monitor.gap, 0, self.steps
            self.proved = max(lower, self.proved)
        elif idle:
            self.idle += 1
        patience = PATIENCE if self.problem.smooth else PATIENCE_ROUNDS
        return self.idle >= patience or self.steps - self.improved > LONGEST_IDLE

    def direction(self) -> NewtonStep:
        """Return Newton's step in (w, b)."""
        m, rows, w, b, sigma = self.problem, self.rows, self.w - self.q, self.b, self.sigma
        gradient, balance = self.gradient, self.sums.balance if m.bias else 0.0
        norm = math.sqrt(float(gradient @ gradient))
        self.first = self.first if math.isfinite(self.first) else norm
        accuracy = min(0.1, max(math.sqrt(norm / self.first) if self.first > 0 else 0.1, 1e-6))
        dw, db = newton_step(
            m,
            rows,
            gradient,
            -balance,
            accuracy=accuracy,
            settings=self.settings,
            stop=self.monitor.out_of_time,
        )
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


def _first_sigma(m: LinearTerms, *, warm: bool) -> float:
    if m.smooth:
        return 1.0
    if warm:
        return WARM_SIGMA
    return min(FIRST_SIGMA, LARGEST_STIFFNESS / m.stiffness) if m.stiffness > 0 else FIRST_SIGMA


def _best_bias(rows: Margins, b: float, sigma: float) -> float:
    """Root of the decreasing function y'α(b), by Newton's method inside a bracket."""
    low, high, width = -math.inf, math.inf, 1.0
    for _ in range(BIAS_STEPS):
        balance, curvature, size = rows.balance(b, sigma)
        if abs(balance) <= BALANCED * size:
            if curvature == 0:
                # Any bias of an interval is optimal; its middle leaves the most room for the next
                # step in w.
                b += flat_middle(*rows.flat_ends(b, sigma))
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
