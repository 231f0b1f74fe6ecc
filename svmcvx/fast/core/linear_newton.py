r"""Newton's method for linear machines, with a certified gap after every step.

The problems and their bounds are those of :mod:`svmcvx.fast.core.linear_problem`, the linear systems those of
:mod:`svmcvx.fast.core.linear_steps`.

**p ≥ 2 and ODM** are smooth: Newton's method with a line search, and the gap falls with the square of the gradient.

**p < 2**: the augmented Lagrangian method for the dual [LiSunToh]. The smooth envelope around a centre a is minimised in (w, b)
until the gradient's part of the gap is a tenth of the rest; then its multipliers become the centre and σ grows. The second
derivatives weigh only the observations in a band of width 1/σ around the kink, in the end about as many as there are features,
so late steps are cheap. The method converges to the minimum of the loss itself, not of a smoothed one.

The bias is minimised out exactly after every step, which keeps :math:`y'\alpha = 0` to rounding.

Source: [LiSunToh] = Li, Sun and Toh 2018, A highly efficient semismooth Newton augmented Lagrangian method for solving lasso
problems.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import EPS
from svmcvx.fast.core import loss_passes as passes
from svmcvx.fast.core.linear_problem import LinearBounds, LinearNewtonSettings, LinearProblem, Point
from svmcvx.fast.core.linear_steps import newton_step
from svmcvx.fast.core.monitor import Monitor
from svmcvx.solution import Status

__all__ = ["LinearNewtonSettings", "minimise"]

Floats: TypeAlias = NDArray[np.float64]

BIAS_STEPS = 100
# Imbalance y'α, relative to Σα, at which the bias is good enough: what is left costs the bound about as much.
BALANCED = 1e-13
# A step that promises less than this share of the terms summed up is lost in their rounding.
NEGLIGIBLE = 1e-15


def minimise(
    problem: LinearProblem,
    monitor: Monitor,
    *,
    w: Floats | None = None,
    b: float = 0.0,
    alpha: Floats | None = None,
    settings: LinearNewtonSettings | None = None,
) -> tuple[Point, Status]:
    """Run Newton's method until the monitor says stop.

    Parameters
    ----------
    problem : LinearProblem
    monitor : Monitor
    w, b, alpha
        Where to start; zero by default. For losses that are not smooth `alpha` is the first centre.
    settings : LinearNewtonSettings, optional
        Numbers that steer the method; None for the defaults.

    Returns
    -------
    Point
        The best primal and dual points.
    Status
        Why it stopped; ``INACCURATE`` if rounding keeps the gap above the tolerance.
    """
    m = problem
    settings = LinearNewtonSettings() if settings is None else settings
    n, d = m.X.shape
    sigma = 1.0 if m.smooth else settings.warm_sigma if alpha is not None else _first_sigma(m, settings)
    centre: Floats = np.zeros(n) if alpha is None else np.clip(alpha, 0.0, m.c if m.kind == passes.HINGE else np.inf)
    if w is None and alpha is not None:
        w = m.primal_of(centre)
    elif w is None:
        w = np.zeros(d) if m.linear_term is None else m.linear_term.copy()
    f = np.asarray(m.X @ w)
    alpha, curvature = np.zeros(n), np.zeros(n)
    bounds = LinearBounds(m, w, alpha)
    steps, idle, smallest, improved = 0, 0, math.inf, 0
    first, promised = math.inf, math.inf

    def multipliers(w: Floats) -> tuple[tuple[float, ...], float, Floats, Floats]:
        """Fill `alpha` and `curvature`; return the sums over the observations, the variance, w(α) and the gradient."""
        nonlocal b
        if m.bias:
            b = _best_bias(m, f, b, centre, sigma)
        sums = passes.respond(m.kind, f, m.y, b, centre, m.c, sigma, *m.loss, m.norms, alpha, curvature)
        if m.variance == 0.0:
            primal = m.primal_of(alpha)
            return sums, 0.0, primal, w - primal
        tau = m.multipliers_of_variance(f)
        primal = m.primal_of(alpha - tau)
        # Half of τ'u, because the variance is quadratic.
        return sums, 0.5 * float(tau @ (m.y * f)), primal, w - primal

    while True:
        sums, variance, primal, gradient = multipliers(w)
        lower, upper = bounds.update(w, b, alpha, primal, sums, variance)
        status = monitor.report(steps, lower, upper)
        gap = upper - lower
        part = 0.5 * float(gradient @ gradient)
        # The gap of a kernel expansion far from the optimum is much larger than what a step can gain.
        terms = abs(sums[0]) + sums[4] + (0.0 if m.kernel_expansion else abs(gap))
        negligible = promised <= NEGLIGIBLE * terms
        # The other part of the gap is what the loss and its conjugate leave at (z, α): it falls only when σ grows.
        grow_sigma = False
        if not m.smooth:
            left = sums[1] + float(passes.conjugate(m.kind, alpha, m.c, *m.loss)) - sums[6]
            grow_sigma = part <= settings.gradient_share * left or negligible
        if monitor.gap < 0.999 * smallest:
            smallest, idle, improved = monitor.gap, 0, steps
        elif negligible or grow_sigma:
            idle += 1
        patience = settings.patience if m.smooth else settings.patience_rounds
        exhausted = idle >= patience or steps - improved > settings.longest_idle
        if status is None and (exhausted or not math.isfinite(gap)):
            status = Status.INACCURATE
        if status is not None:
            bounds.best.steps, bounds.best.sigma = steps, sigma
            return bounds.best, status
        if grow_sigma:
            centre, sigma = alpha.copy(), min(sigma * settings.sigma_growth, settings.largest_sigma)
            sums, variance, primal, gradient = multipliers(w)
            first = math.inf
        norm = math.sqrt(float(gradient @ gradient))
        first = first if math.isfinite(first) else norm
        accuracy = min(0.1, max(math.sqrt(norm / first) if first > 0 else 0.1, 1e-6))
        dw, db = newton_step(
            m,
            curvature,
            gradient,
            -sums[3] if m.bias else 0.0,
            accuracy=accuracy,
            settings=settings,
            stop=monitor.out_of_time,
        )
        df = np.asarray(m.X @ dw)
        promised = -float(gradient @ dw) + (sums[3] * db if m.bias else 0.0)
        t = 1.0
        if promised > 0:
            t = _step_length(m, w, f, b, centre, sigma, dw, df, db, sums[0], -promised, settings.line_steps)
        w = w + t * dw
        b += t * db
        steps += 1
        f = np.asarray(m.X @ w) if steps % settings.refresh == 0 else f + t * df


def _first_sigma(m: LinearProblem, settings: LinearNewtonSettings) -> float:
    stiffness = float((m.c * m.norms**2).max())
    return min(settings.first_sigma, settings.largest_stiffness / stiffness) if stiffness > 0 else settings.first_sigma


def _best_bias(m: LinearProblem, f: Floats, b: float, centre: Floats, sigma: float) -> float:
    """Root of the decreasing function y'α(b), by Newton's method inside a bracket."""
    low, high, width = -math.inf, math.inf, 1.0
    for _ in range(BIAS_STEPS):
        balance, curvature, size = passes.slope_of_bias(m.kind, f, m.y, b, centre, m.c, sigma, *m.loss)
        if abs(balance) <= BALANCED * size:
            if curvature == 0:
                # Any bias of an interval is optimal; its middle leaves the most room for the next step in w.
                b += passes.flat_middle(m.kind, f, m.y, b, centre, m.c, sigma)
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


def _step_length(
    m: LinearProblem,
    w: Floats,
    f: Floats,
    b: float,
    centre: Floats,
    sigma: float,
    dw: Floats,
    df: Floats,
    db: float,
    smooth: float,
    start: float,
    trials: int,
) -> float:
    """Length of a step along (dw, db): 1 if that decreases the function enough, else near the minimum on the line.

    `smooth` is the sum of the smooth losses and `start` the derivative along the line, both at its start.
    """
    linear_term = np.zeros_like(w) if m.linear_term is None else m.linear_term
    linear, square = float((w - linear_term) @ dw), float(dw @ dw)
    if m.variance > 0:
        tau = m.multipliers_of_variance(df) * m.y
        linear, square = linear + float(tau @ f), square + float(tau @ df)
    low, high, t = 0.0, math.inf, 1.0
    # Derivatives at both ends of the bracket.
    at_low, at_high = start, 0.0
    for trial in range(trials):
        value, slope = passes.along(m.kind, f, df, t, m.y, b, db, centre, m.c, sigma, *m.loss)
        here = linear + t * square + slope
        change = value - smooth + t * linear + 0.5 * t * t * square
        if not (math.isfinite(here) and here <= -0.25 * start and (here <= 0 or change <= 4 * EPS * abs(smooth))):
            high, at_high = t, here
        elif here < 0.5 * start and math.isfinite(high):
            low, at_low = t, here
        else:
            break
        # Secant steps alone can stall where the derivative rises steeply, so they take turns with bisection.
        share = at_low / (at_low - at_high) if trial % 2 == 0 and math.isfinite(at_high) else 0.5
        t = low + min(max(share, 0.05), 0.95) * (high - low)
    return t
