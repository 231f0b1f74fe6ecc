r"""Newton's method for linear machines, with a certified gap after every step.

All of them minimise, over w and (for the pSVM) a free bias b,

.. math:: P(w, b) = \tfrac12\|w\|^2 - q'w + \sum_i \ell_i(z_i), \qquad z_i = 1 - y_i(x_i'w + b),

with convex losses of :mod:`svmcvx.fast.core.loss_passes`. Their multipliers :math:`\alpha_i = \ell_i'(z_i)` are a dual point,

.. math:: D(\alpha) = \sum_i \alpha_i - \sum_i \ell_i^*(\alpha_i) - \tfrac12\|w(\alpha)\|^2, \qquad
    w(\alpha) = q + \sum_i \alpha_i y_i x_i,

and as :math:`w - w(\alpha)` is the gradient of P, both bounds come with the gradient at no further cost:
:math:`P - D = \tfrac12\|w - w(\alpha)\|^2 + \sum_i(\ell_i(z_i) + \ell_i^*(\alpha_i) - \alpha_i z_i)`, the last sum being 0
for smooth losses.

**p ≥ 2 and ODM** are smooth: Newton's method with a line search, and the gap falls with the square of the gradient.

**p < 2**: the augmented Lagrangian method for the dual (semismooth Newton augmented Lagrangian; Li, Sun and Toh 2018 for the
lasso). The smooth envelope around a centre a is minimised in (w, b) until the gradient's part of the gap is a
tenth of it; then its multipliers become the centre and σ grows. The second derivatives weigh only the observations in
a band of width 1/σ around the kink, in the end about as many as there are features, so late steps are cheap. The
band, not an approximation of the loss, is what σ controls: the limit is exact.

**A variance of the margins**, :math:`\lambda_1\sum_i s_i(u_i - \bar u)^2` with shares s (:mod:`svmcvx.formulations.margin_distribution.odml`), is one more
smooth term for machines without bias: its multipliers :math:`\tau_i = 2\lambda_1 s_i(u_i - \bar u)` are subtracted from α in w(α), and
its conjugate at τ is its own value.

The bias is minimised out exactly after every step, which keeps :math:`y'\alpha = 0` to rounding.

**Systems.** :math:`(I + X'SX)` in the d coordinates of w, or :math:`(S^{-1} + XX')` on the observations with a slope if these
are fewer, by a factorisation while that costs less than `DIRECT_WORK` operations; else conjugate gradients with the
diagonal as preconditioner. Memory beyond the data: a few vectors, and the system.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate import EPS, accumulated_rounding
from svmcvx.data import Features
from svmcvx.fast.core import loss_passes as passes
from svmcvx.fast.core.monitor import Monitor
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.margin_distribution.odml import variance_multipliers
from svmcvx.kernels import row_norms
from svmcvx.model import LinearModel
from svmcvx.solution import Status

__all__ = ["Machine", "Point", "linear_model", "minimise"]

Floats: TypeAlias = NDArray[np.float64]

# Multiplications up to which a Newton system is formed and factored; more where it becomes ill-conditioned.
DIRECT_WORK = 4e9
DIRECT_WORK_STIFF = 4e10
LARGEST_SYSTEM = 4000
BLOCK_ENTRIES = 2**24
# Columns up to which a compiled loop forms the system of dense data sooner than a copy of the rows and a matrix product.
NARROW = 24
CONJUGATE_STEPS = 500
# The bias carries no penalty of its own; this keeps its row regular, relative to the sum of slopes.
BIAS_DAMPING = 1e-12
BIAS_STEPS = 100
# Imbalance y'α, relative to Σα, at which the bias is good enough: what is left costs the bound about as much.
BALANCED = 1e-13
LINE_STEPS = 40
# Least pivot with which the mean of the margins is taken from their second moment; below it too many digits are lost.
MEAN_LEFT = 1e-6
# The augmented Lagrangian: first σ, its growth, its largest value, and the gradient's share of the gap at which it grows.
SIGMA = 1.0
# It is smaller where σ times the weight times the squared norm of an observation would exceed this: the walls of large weights
# are hard to walk along.
STIFFEST = 1e4
SIGMA_WARM = 100.0
GROWTH = 6.0
LARGEST_SIGMA = 1e12
SHARE = 0.1
# A step that promises less than this share of the terms summed up is lost in their rounding; after so many of them in a row
# (rounds of the augmented Lagrangian for p < 2) without a smaller gap nothing more can be had.
NEGLIGIBLE = 1e-15
PATIENCE, PATIENCE_ROUNDS = 5, 15
# Steps of any kind without a smaller gap after which rounding in the scores must be what is left.
LONGEST_IDLE = 200
REFRESH = 20


@dataclass(frozen=True, eq=False)
class Machine:
    r"""The problem of one linear machine.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,)
        Labels ±1.
    c : ndarray of shape (n,)
        Weights of the losses (``C s`` for the pSVM).
    kind : int
        One of the kinds of :mod:`svmcvx.fast.core.loss_passes`.
    p, C1, C2, D : float
        Parameters of the loss, where it has them.
    bias : bool
        Whether there is a free bias.
    tilt : ndarray of shape (d,), optional
        The vector q; zero by default.
    expanded : bool
        Whether the model will be :math:`w(\alpha)` (kernel expansions) and not w itself: the upper bound is then taken there.
    variance : float
        Weight :math:`\lambda_1` of the variance of the margins; for :func:`minimise` without bias, and not expanded.
    share : ndarray of shape (n,), optional
        The shares of the observations in it; equal ones by default.
    """

    X: Features
    y: Floats
    c: Floats
    kind: int
    p: float = 2.0
    C1: float = 1.0
    C2: float = 1.0
    D: float = 0.0
    bias: bool = False
    tilt: Floats | None = None
    expanded: bool = False
    variance: float = 0.0
    share: Floats = None  # type: ignore[assignment]
    norms: Floats = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "norms", row_norms(self.X))
        if self.share is None:
            object.__setattr__(self, "share", np.full(self.y.size, 1.0 / self.y.size))

    @property
    def smooth(self) -> bool:
        """Whether the loss itself has a derivative that Newton's method can use."""
        return self.kind in (passes.POWER, passes.BAND)

    def back(self, alpha: Floats) -> Floats:
        r"""Return :math:`w(\alpha)`."""
        w = np.asarray(self.X.T @ (self.y * alpha))
        return w if self.tilt is None else w + self.tilt

    def spread(self, f: Floats) -> Floats:
        """The multipliers τ of the variance at scores `f`."""
        return variance_multipliers(self.y * f, self.variance, self.share)

    @property
    def loss(self) -> tuple[float, float, float, float]:
        """The parameters of the loss in the order of the kernels."""
        return self.p, self.C1, self.C2, self.D


@dataclass
class Point:
    """The best primal point (w, b), and with it the multipliers `expansion`; the best dual point `alpha`; the bounds."""

    w: Floats
    b: float
    alpha: Floats
    expansion: Floats
    upper: float = math.inf
    lower: float = -math.inf
    steps: int = 0
    sigma: float = 0.0


class Bounds:
    """Both bounds at a point, each widened by what the certificate will allow for rounding."""

    def __init__(self, machine: Machine, w: Floats, alpha: Floats) -> None:
        self.best = Point(w.copy(), 0.0, alpha.copy(), alpha.copy())
        self.machine = machine

    def take(
        self, w: Floats, b: float, alpha: Floats, back: Floats, sums: tuple[float, ...], variance: float = 0.0
    ) -> tuple[float, float]:
        """Return (lower, upper) at (w, b) with multipliers α and ``back`` = w(α); keep the best of each.

        `variance` is the value of the variance at w, whose multipliers are in `back`.
        """
        m = self.machine
        _, loss, total, balance, size, reach, _ = sums
        conjugate = float(passes.conjugate(m.kind, alpha, m.c, *m.loss))
        dual_norm = float(back @ back)
        if m.expanded:
            w = back
            norm = dual_norm
            scores = np.asarray(m.X @ w)
            # Only the losses are needed there.
            scratch = np.empty_like(alpha)
            loss = passes.respond(
                m.kind, scores, m.y, b, alpha, m.c, 1.0, *m.loss, m.norms, scratch, np.empty_like(alpha)
            )[1]
        else:
            norm = float(w @ w)
        linear = 0.0 if m.tilt is None else float(m.tilt @ w)
        upper = 0.5 * norm - linear + loss + variance
        lower = total - conjugate - 0.5 * dual_norm - variance
        rounding = accumulated_rounding(alpha.size) * (
            4.0 * size
            + 4.0 * reach * (math.sqrt(norm) + math.sqrt(dual_norm))
            + abs(conjugate)
            + loss
            + abs(linear)
            + variance
        )
        # Scaling a class down to balance costs no more than the imbalance times the scores around it.
        off = abs(balance) * (1.0 + abs(b) + float(m.norms.max()) * math.sqrt(dual_norm)) if m.bias else 0.0
        upper, lower = upper + rounding, lower - rounding - off
        best = self.best
        if upper <= best.upper:
            best.w, best.b, best.upper = w.copy(), b, upper
            if m.expanded:
                best.expansion = alpha.copy()
        if lower >= best.lower:
            best.alpha, best.lower = alpha.copy(), lower
        return lower, upper


def linear_model(
    space: FeatureSpace, w: Floats, b: float, support: NDArray[np.bool_], centre: Floats | None = None
) -> LinearModel:
    """Return the model of `w` in the columns of ``space.X``, whatever their number; `centre` is what they lack."""
    centre = space.centre if centre is None else centre
    if space.intercept == "penalised":
        w, b = w[:-1], float(w[-1])
    return LinearModel(
        coef=w,
        intercept=b - float(centre @ w),
        classes=space.data.classes,
        support=space.data.index[support],
    )


def minimise(
    machine: Machine,
    monitor: Monitor,
    *,
    w: Floats | None = None,
    b: float = 0.0,
    alpha: Floats | None = None,
) -> tuple[Point, Status]:
    """Run Newton's method until the monitor says stop.

    Parameters
    ----------
    machine : Machine
    monitor : Monitor
    w, b, alpha
        Where to start; zero by default. For losses that are not smooth `alpha` is the first centre.

    Returns
    -------
    Point
        The best primal and dual points.
    Status
        Why it stopped; ``INACCURATE`` if rounding keeps the gap above the tolerance.
    """
    m = machine
    n, d = m.X.shape
    warm = w is not None or alpha is not None
    sigma = 1.0 if m.smooth else SIGMA_WARM if alpha is not None else _first_sigma(m)
    centre: Floats = np.zeros(n) if alpha is None else np.clip(alpha, 0.0, m.c if m.kind == passes.HINGE else np.inf)
    if w is None:
        w = m.back(centre) if warm else np.zeros(d) if m.tilt is None else m.tilt.copy()
    f = np.asarray(m.X @ w)
    alpha, slope = np.zeros(n), np.zeros(n)
    bounds = Bounds(m, w, alpha)
    steps, idle, smallest, improved = 0, 0, math.inf, 0
    first, promised = math.inf, math.inf

    def multipliers(w: Floats) -> tuple[tuple[float, ...], float, Floats, Floats]:
        nonlocal b
        if m.bias:
            b = _best_bias(m, f, b, centre, sigma)
        sums = passes.respond(m.kind, f, m.y, b, centre, m.c, sigma, *m.loss, m.norms, alpha, slope)
        if m.variance == 0.0:
            back = m.back(alpha)
            return sums, 0.0, back, w - back
        tau = m.spread(f)
        back = m.back(alpha - tau)
        # Half of τ'u, because the variance is quadratic.
        return sums, 0.5 * float(tau @ (m.y * f)), back, w - back

    while True:
        sums, variance, back, gradient = multipliers(w)
        lower, upper = bounds.take(w, b, alpha, back, sums, variance)
        status = monitor.report(steps, lower, upper)
        gap = upper - lower
        part = 0.5 * float(gradient @ gradient)
        # The gap of an expansion far from the optimum is out of all proportion to what a step gains.
        terms = abs(sums[0]) + sums[4] + (0.0 if m.expanded else abs(gap))
        negligible = promised <= NEGLIGIBLE * terms
        # The other part of the gap is what the loss and its conjugate leave at (z, α): it falls with the rounds only.
        rounds_up = False
        if not m.smooth:
            left = sums[1] + float(passes.conjugate(m.kind, alpha, m.c, *m.loss)) - sums[6]
            rounds_up = part <= SHARE * left or negligible
        if monitor.gap < 0.999 * smallest:
            smallest, idle, improved = monitor.gap, 0, steps
        elif negligible or rounds_up:
            idle += 1
        exhausted = idle >= (PATIENCE if m.smooth else PATIENCE_ROUNDS) or steps - improved > LONGEST_IDLE
        if status is None and (exhausted or not math.isfinite(gap)):
            status = Status.INACCURATE
        if status is not None:
            bounds.best.steps, bounds.best.sigma = steps, sigma
            return bounds.best, status
        if rounds_up:
            centre, sigma = alpha.copy(), min(sigma * GROWTH, LARGEST_SIGMA)
            sums, variance, back, gradient = multipliers(w)
            first = math.inf
        norm = float(np.linalg.norm(gradient))
        first = first if math.isfinite(first) else norm
        forcing = min(0.1, max(math.sqrt(norm / first) if first > 0 else 0.1, 1e-6))
        dw, db = _direction(m, slope, gradient, -sums[3] if m.bias else 0.0, forcing, monitor)
        df = np.asarray(m.X @ dw)
        promised = -float(gradient @ dw) + (sums[3] * db if m.bias else 0.0)
        t = _line(m, w, f, b, centre, sigma, dw, df, db, sums[0], -promised) if promised > 0 else 1.0
        w = w + t * dw
        b += t * db
        steps += 1
        f = np.asarray(m.X @ w) if steps % REFRESH == 0 else f + t * df


def _first_sigma(m: Machine) -> float:
    stiffness = float((m.c * m.norms**2).max())
    return min(SIGMA, STIFFEST / stiffness) if stiffness > 0 else SIGMA


def _best_bias(m: Machine, f: Floats, b: float, centre: Floats, sigma: float) -> float:
    """Root of the decreasing function y'α(b), by Newton's method inside a bracket."""
    low, high, width = -math.inf, math.inf, 1.0
    for _ in range(BIAS_STEPS):
        balance, curvature, size = passes.slope_of_bias(m.kind, f, m.y, b, centre, m.c, sigma, *m.loss)
        if abs(balance) <= BALANCED * size:
            if curvature == 0:
                # Any bias of an interval will do; from its middle a step in w can go furthest.
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


def _line(
    m: Machine,
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
) -> float:
    """Length of a step along (dw, db): 1 if that decreases the function enough, else near the minimum on the line.

    `smooth` is the sum of the smooth losses and `start` the derivative along the line, both at its start.
    """
    tilt = np.zeros_like(w) if m.tilt is None else m.tilt
    linear, square = float((w - tilt) @ dw), float(dw @ dw)
    if m.variance > 0:
        tau = m.spread(df) * m.y
        linear, square = linear + float(tau @ f), square + float(tau @ df)
    low, high, t = 0.0, math.inf, 1.0
    steep = (start, 0.0)
    for trial in range(LINE_STEPS):
        value, slope = passes.along(m.kind, f, df, t, m.y, b, db, centre, m.c, sigma, *m.loss)
        here = linear + t * square + slope
        change = value - smooth + t * linear + 0.5 * t * t * square
        if not (math.isfinite(here) and here <= -0.25 * start and (here <= 0 or change <= 4 * EPS * abs(smooth))):
            high, steep = t, (steep[0], here)
        elif here < 0.5 * start and math.isfinite(high):
            low, steep = t, (here, steep[1])
        else:
            break
        # The secant of the derivative, in turns with the middle: the derivative may rise like a wall.
        share = steep[0] / (steep[0] - steep[1]) if trial % 2 == 0 and math.isfinite(steep[1]) else 0.5
        t = low + min(max(share, 0.05), 0.95) * (high - low)
    return t


def _direction(
    m: Machine, slope: Floats, gradient: Floats, bias_gradient: float, forcing: float, monitor: Monitor
) -> tuple[Floats, float]:
    """Solve (I + X'SX) for the step in w and in the bias; with a variance, its second derivative beside S."""
    centred = slope
    if m.variance > 0:
        slope = slope + 2.0 * m.variance * m.share
    rows = np.flatnonzero(slope)
    if rows.size == 0:
        return -gradient, 0.0
    d = m.X.shape[1]
    small = min(rows.size, d)
    fill = m.X.nnz / m.X.shape[0] if sp.issparse(m.X) else float(d)
    work = rows.size * fill * min(fill, small) + small**3 / 3.0
    limit = DIRECT_WORK if m.smooth else DIRECT_WORK_STIFF
    if small <= LARGEST_SYSTEM and work <= limit:
        solve = _primal_step if d <= rows.size else _dual_step
        try:
            step, db = solve(m, slope, rows, gradient, bias_gradient)
            return (_less_mean(m, step, solve(m, slope, rows, *_mean(m))[0]), db) if m.variance > 0 else (step, db)
        except (sl.LinAlgError, ValueError):
            pass
    return _conjugate_step(m, slope, centred, gradient, bias_gradient, forcing, monitor)


def _mean(m: Machine) -> tuple[Floats, float]:
    """Minus the gradient of the mean margin, as the gradient of a step."""
    return -np.asarray(m.X.T @ (m.y * m.share)), 0.0


def _less_mean(m: Machine, step: Floats, across: Floats) -> Floats:
    """Take the square of the mean from the second derivative (Sherman and Morrison): `across` is the step of its gradient."""
    mean = -_mean(m)[0]
    left = 1.0 - 2.0 * m.variance * float(mean @ across)
    if left < MEAN_LEFT:
        raise sl.LinAlgError("the mean of the margins is too large against their variance")
    return step + (2.0 * m.variance * float(mean @ step) / left) * across


def _primal_step(
    m: Machine, slope: Floats, rows: NDArray[np.intp], gradient: Floats, bias_gradient: float
) -> tuple[Floats, float]:
    d = m.X.shape[1]
    H, border = np.zeros((d, d)), np.zeros(d)
    if sp.issparse(m.X):
        passes.gram_rows(m.X.data, m.X.indices, m.X.indptr, slope, H, border)
    elif d <= NARROW:
        passes.gram_narrow(m.X, slope, H, border)
    else:
        block = max(1, BLOCK_ENTRIES // d)
        for first in range(0, rows.size, block):
            part = rows[first : first + block]
            scaled = m.X[part]
            border += scaled.T @ slope[part]
            scaled *= np.sqrt(slope[part])[:, None]
            H += scaled.T @ scaled
    H[np.diag_indices(d)] += 1.0
    factor = sl.cho_factor(H, lower=True, overwrite_a=True, check_finite=False)
    step = sl.cho_solve(factor, -gradient, check_finite=False)
    if not m.bias:
        return step, 0.0
    # The bias by its Schur complement.
    total = float(slope.sum())
    across = sl.cho_solve(factor, border, check_finite=False)
    pivot = max(total - float(border @ across), 0.0) + BIAS_DAMPING * total
    db = (-bias_gradient - float(border @ step)) / pivot
    return step - db * across, db


def _dual_step(
    m: Machine, slope: Floats, rows: NDArray[np.intp], gradient: Floats, bias_gradient: float
) -> tuple[Floats, float]:
    r"""Unknowns :math:`\nu = S(X\,dw + db)` on the rows with a slope: :math:`dw = -g - X'\nu`."""
    part = m.X[rows]
    size = rows.size
    gram = part @ part.T
    system = np.zeros((size + m.bias, size + m.bias))
    system[:size, :size] = gram.toarray() if sp.issparse(gram) else gram
    system[np.arange(size), np.arange(size)] += 1.0 / slope[rows]
    right = -np.asarray(part @ gradient)
    if not m.bias:
        nu = sl.cho_solve(sl.cho_factor(system, lower=True, overwrite_a=True, check_finite=False), right)
        return -gradient - np.asarray(part.T @ nu), 0.0
    factor = sl.cho_factor(system[:size, :size], lower=True, check_finite=False)
    solved = sl.cho_solve(factor, np.column_stack([right, np.ones(size)]), check_finite=False)
    # 1'ν = −g_b, with ν = solved_0 + db solved_1.
    db = (-bias_gradient - float(solved[:, 0].sum())) / float(solved[:, 1].sum())
    nu = solved[:, 0] + db * solved[:, 1]
    return -gradient - np.asarray(part.T @ nu), db


def _conjugate_step(
    m: Machine,
    slope: Floats,
    centred: Floats,
    gradient: Floats,
    bias_gradient: float,
    forcing: float,
    monitor: Monitor,
) -> tuple[Floats, float]:
    """Conjugate gradients on (w, b), preconditioned by the diagonal, to a relative residual `forcing`.

    `slope` includes the second moment of the margins, for the diagonal; `centred` leaves their variance to the product.
    """
    n, d = m.X.shape
    sparse = sp.issparse(m.X)
    diagonal = np.ones(d + 1)
    if sparse:
        passes.squared_columns(m.X.data, m.X.indices, m.X.indptr, slope, diagonal)
    else:
        block = max(1, BLOCK_ENTRIES // d)
        for first in range(0, n, block):
            diagonal[:d] += slope[first : first + block] @ m.X[first : first + block] ** 2
    total = float(slope.sum())
    diagonal[d] = total * (1.0 + BIAS_DAMPING)

    def product(direction: Floats) -> Floats:
        out = direction.copy()
        db = float(direction[d]) if m.bias else 0.0
        if m.variance > 0:
            scores = np.asarray(m.X @ direction[:d])
            out[:d] += m.X.T @ (centred * scores + m.y * m.spread(scores))
            moved = 0.0
        elif sparse:
            moved = passes.curvature_product(m.X.data, m.X.indices, m.X.indptr, slope, direction, db, out)
        else:
            middle = slope * (m.X @ direction[:d] + db)
            out[:d] += m.X.T @ middle
            moved = float(middle.sum())
        out[d] = moved + BIAS_DAMPING * total * db if m.bias else 0.0
        return out

    residual = np.append(-gradient, -bias_gradient)
    step = np.zeros(d + 1)
    scaled = residual / diagonal
    direction = scaled.copy()
    size = float(residual @ scaled)
    target = forcing**2 * size
    for _ in range(CONJUGATE_STEPS):
        if size <= target or size == 0 or monitor.out_of_time:
            break
        image = product(direction)
        length = size / float(direction @ image)
        step += length * direction
        residual -= length * image
        scaled = residual / diagonal
        grown = float(residual @ scaled)
        direction = scaled + (grown / size) * direction
        size = grown
    if not step.any():
        step = np.append(-gradient, 0.0)
    return step[:d], float(step[d]) if m.bias else 0.0
