r"""The losses of linear machines: all that the Newton methods of :mod:`svmcvx.fast.linear.newton`
ask of a loss.

A loss :math:`\ell(z)` of :math:`z = 1 - y(f + b)`, times the weight c of the observation, is seen
through its multiplier :math:`\alpha`, the derivative at z of a smooth function e. For smooth losses
:math:`e = \ell`. For others e is the augmented Lagrangian around a centre a,

.. math:: e(z) = \max_\alpha\; \alpha z - \ell^*(\alpha) - \frac{(\alpha - a)^2}{2\sigma c},

the Moreau envelope of the loss, shifted. A :class:`LinearLoss` says which loss it is; the functions
below tell what it is:

* :func:`prox_one`: the multiplier, its derivative in z, e and the loss;
* :func:`clipped`: the same in short where the multiplier is a clipped linear function of z;
* :func:`conjugate_one`: :math:`\ell^*(\alpha)`;
* :func:`flat_one`: the interval of z on which the multiplier is constant.

A new loss is a kind, its case in each of these functions, and a function that makes its record.

**The envelope for 1 < p < 2.** The multiplier is :math:`c\,p\,r` with the root r of :math:`p r +
\sigma r^{1/(p-1)} = a/c + \sigma z`, a convex increasing function: Newton's method from above
cannot overshoot.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from svmcvx.system.compilation import compiled

# numba infers the types.
# mypy: allow-untyped-defs


# Kinds of loss: c ξ^p for p ≥ 2; the envelopes for p = 1 and 1 < p < 2; the band of ODM.
POWER, HINGE, ENVELOPE, BAND = range(4)


class LinearLoss(NamedTuple):
    """A loss with its parameters, those of other kinds at their defaults."""

    kind: int
    p: float = 2.0
    C1: float = 1.0
    C2: float = 1.0
    D: float = 0.0

    @property
    def smooth(self) -> bool:
        """Whether the loss itself has a derivative that Newton's method can use."""
        return self.kind in (POWER, BAND)

    @property
    def domain(self) -> tuple[float, float]:
        """Bounds of the multipliers, relative to the weights."""
        return -math.inf if self.kind == BAND else 0.0, 1.0 if self.kind == HINGE else math.inf


def hinge_power(p: float) -> LinearLoss:
    return LinearLoss(HINGE if p == 1 else ENVELOPE if p < 2 else POWER, p=float(p))


def band(C1: float, C2: float, D: float) -> LinearLoss:
    r"""Return the loss of ODM, :math:`C_1 (z - D)_+^2 + C_2 (-z - D)_+^2`."""
    return LinearLoss(BAND, C1=float(C1), C2=float(C2), D=float(D))


@compiled(inner=True, nogil=True, error_model="numpy")
def _root(nu, linear, weight, power):
    """Return the root r of `linear` r + `weight` r^`power` = ν > 0, for a power of at least 1."""
    # Each term alone bounds the root from above.
    r = min(nu / linear, (nu / weight) ** (1.0 / power))
    for _ in range(60):
        t = weight * r ** (power - 1.0)
        step = (r * (linear + t) - nu) / (linear + power * t)
        r -= step
        # Two roundings.
        if step <= 4e-16 * r:
            break
    return max(r, 0.0)


@compiled(inner=True, nogil=True, error_model="numpy")
def clipped(loss, sigma):
    """Return the slope s and the relative bound t of a multiplier clip(a + c s z, 0, c t)."""
    if loss.kind == HINGE:
        return sigma, 1.0
    if loss.kind == POWER and loss.p == 2.0:
        return 2.0, math.inf
    return 0.0, 0.0


@compiled(inner=True, nogil=True, error_model="numpy")
def prox_one(loss, z, a, c, sigma):
    """Return multiplier, slope, smooth value and loss of an observation, if not clipped linear."""
    p = loss.p
    if loss.kind == POWER:
        if z <= 0.0:
            return 0.0, 0.0, 0.0, 0.0
        lower = c * z ** (p - 2.0)
        value = lower * z * z
        return p * lower * z, p * (p - 1.0) * lower, value, value
    if loss.kind == ENVELOPE:
        true = loss_one(loss, z, c)
        share = a / c
        nu = share + sigma * z
        if nu <= 0.0:
            return 0.0, 0.0, -0.5 * c * share * share / sigma, true
        power = 1.0 / (p - 1.0)
        r = _root(nu, p, sigma, power)
        t = r ** (power - 1.0)
        beta = p * r
        slope = c * p * sigma / (p + sigma * power * t)
        value = c * (beta * z - (p - 1.0) * t * r * r - 0.5 * (beta - share) ** 2 / sigma)
        return c * beta, slope, value, true
    # NaN is on no side, and stays what it is.
    if -loss.D <= z <= loss.D:
        return 0.0, 0.0, 0.0, 0.0
    if z < -loss.D:
        value = c * loss.C2 * (z + loss.D) ** 2
        return 2.0 * c * loss.C2 * (z + loss.D), 2.0 * c * loss.C2, value, value
    value = c * loss.C1 * (z - loss.D) ** 2
    return 2.0 * c * loss.C1 * (z - loss.D), 2.0 * c * loss.C1, value, value


@compiled(inner=True, nogil=True, error_model="numpy")
def loss_one(loss, z, c):
    if loss.kind == BAND:
        outside = abs(z) - loss.D
        return c * (loss.C1 if z > 0.0 else loss.C2) * outside**2 if outside > 0.0 else 0.0
    if z <= 0.0:
        return 0.0
    p = loss.p
    return c * (z if p == 1.0 else z * z if p == 2.0 else z**p)


@compiled(inner=True, nogil=True, error_model="numpy")
def maximiser_one(loss, z, q, c):
    r"""Return argmax_α :math:`\alpha z - \ell^*(\alpha) - \tfrac12 q\alpha^2`."""
    if loss.kind == BAND:
        outside = abs(z) - loss.D
        weight = 0.5 / (c * (loss.C1 if z > 0.0 else loss.C2))
        return math.copysign(outside / (q + weight), z) if outside > 0.0 else 0.0
    if z <= 0.0:
        return 0.0
    p = loss.p
    if p == 1.0:
        return min(z / q, c)
    if p == 2.0:
        return z / (q + 0.5 / c)
    if p < 2.0:
        # The slack is a convex power of the multiplier.
        return c * p * _root(z, q * c * p, 1.0, 1.0 / (p - 1.0))
    return c * p * _root(z, 1.0, q * c * p, p - 1.0) ** (p - 1.0)


@compiled(inner=True, nogil=True, error_model="numpy")
def violation_one(loss, z, alpha, c, low, high):
    """Return the derivative of the dual in α, 0 at a kink or an end where α is best, and whether it
    is best there by more than the violations of others, from `low` to `high`.
    """
    if loss.kind == BAND:
        if alpha == 0.0:
            outside = abs(z) - loss.D
            rests = outside < -max(high, -low)
            return math.copysign(outside, z) if outside > 0.0 else 0.0, rests
        weight = 0.5 / (c * (loss.C1 if alpha > 0.0 else loss.C2))
        return z - math.copysign(loss.D, alpha) - weight * alpha, False
    if alpha <= 0.0:
        return max(z, 0.0), z < low
    p = loss.p
    if p == 1.0:
        return (min(z, 0.0), z > high) if alpha >= c else (z, False)
    slack = alpha / (c * p)
    return z - (slack if p == 2.0 else slack ** (1.0 / (p - 1.0))), False


@compiled(inner=True, nogil=True, error_model="numpy")
def conjugate_one(loss, alpha, c):
    """Return ℓ*(α) of one observation with a multiplier in its domain."""
    if loss.kind == HINGE:
        return 0.0
    if loss.kind == BAND:
        return loss.D * abs(alpha) + alpha**2 / (4.0 * c * (loss.C1 if alpha > 0.0 else loss.C2))
    if alpha <= 0.0:
        return 0.0
    ratio = alpha / (c * loss.p)
    power = ratio * ratio if loss.p == 2.0 else ratio ** (loss.p / (loss.p - 1.0))
    return c * (loss.p - 1.0) * power


@compiled(inner=True, nogil=True, error_model="numpy")
def flat_one(loss, z, a, c, sigma):
    """Return the ends of the interval around z in which an observation has no slope."""
    if loss.kind == BAND:
        return -loss.D, loss.D
    if loss.kind == POWER:
        return -math.inf, 0.0
    low = -a / (c * sigma)
    # The multiplier of the hinge is at its upper bound beyond 1/σ.
    return (low + 1.0 / sigma, math.inf) if loss.kind == HINGE and z > low else (-math.inf, low)


# numba tests an index for counting from the end, unless it is unsigned or of a range from 0.
place = np.uint64
# Sums may be taken in any order; NaN and infinity stay what they are.
ANY_ORDER = {"reassoc", "nsz", "contract"}


@compiled(inner=True, fastmath=ANY_ORDER, error_model="numpy")
def _clip(raw, top):
    raw = 0.0 if raw <= 0.0 else raw
    return top if raw >= top else raw


@compiled(inner=True, fastmath=ANY_ORDER, error_model="numpy")
def _prox_sums_clipped(f, y, b, a, c, t, limit, norms, alpha, slope):
    """:func:`prox_sums` for a clipped linear multiplier; the loss is that of the hinge."""
    smooth = loss = total = balance = norm_sum = product = 0.0
    for i in range(f.size):
        z = 1.0 - y[i] * (f[i] + b)
        gain = c[i] * t
        raw = a[i] + gain * z
        top = c[i] * limit
        multiplier = _clip(raw, top)
        alpha[i] = multiplier
        slope[i] = gain if 0.0 < raw < top else 0.0
        moved = multiplier - a[i]
        smooth += multiplier * z - 0.5 * moved * moved / gain
        loss += c[i] * (0.0 if z <= 0.0 else z)
        total += multiplier
        balance += y[i] * multiplier
        norm_sum += multiplier * norms[i]
        product += multiplier * z
    return smooth, loss, total, balance, total, norm_sum, product


@compiled(inner=True, fastmath=ANY_ORDER, error_model="numpy")
def _along_clipped(f, df, step, y, b, db, a, c, t, limit):
    derivative = 0.0
    for i in range(f.size):
        move = y[i] * (df[i] + db)
        z = 1.0 - y[i] * (f[i] + b) - step * move
        derivative -= _clip(a[i] + c[i] * t * z, c[i] * limit) * move
    return derivative


@compiled(inner=True, fastmath=ANY_ORDER, error_model="numpy")
def _slope_of_bias_clipped(f, y, b, a, c, t, limit):
    balance = curvature = size = 0.0
    for i in range(f.size):
        gain = c[i] * t
        raw = a[i] + gain * (1.0 - y[i] * (f[i] + b))
        top = c[i] * limit
        multiplier = _clip(raw, top)
        balance += y[i] * multiplier
        curvature += gain if 0.0 < raw < top else 0.0
        size += multiplier
    return balance, curvature, size


@compiled(nogil=True, error_model="numpy")
def prox_sums(loss, f, y, b, a, c, sigma, norms, alpha, slope):
    """Fill multipliers and slopes; return Σe, Σℓ, Σα, Σyα, Σ|α|, Σ|α|‖x‖ and Σα z."""
    t, limit = clipped(loss, sigma)
    if t > 0.0:
        sums = _prox_sums_clipped(f, y, b, a, c, t, limit, norms, alpha, slope)
        # A smooth loss is its own smooth function.
        return (sums[0], sums[0], *sums[2:]) if loss.kind in (POWER, BAND) else sums
    smooth = true = total = balance = size = norm_sum = product = 0.0
    for i in range(f.size):
        z = 1.0 - y[i] * (f[i] + b)
        alpha[i], slope[i], value, own = prox_one(loss, z, a[i], c[i], sigma)
        smooth += value
        true += own
        absolute = abs(alpha[i])
        total += alpha[i]
        size += absolute
        balance += y[i] * alpha[i]
        norm_sum += absolute * norms[i]
        product += alpha[i] * z
    return smooth, true, total, balance, size, norm_sum, product


@compiled(nogil=True, error_model="numpy")
def conjugate(loss, alpha, c):
    """Return Σ ℓ*(α), so that the dual objective is Σα − Σℓ*(α) − ½‖w(α)‖²."""
    total = 0.0
    for i in range(alpha.size):
        total += conjugate_one(loss, alpha[i], c[i])
    return total


@compiled(nogil=True, error_model="numpy")
def along(loss, f, df, t, y, b, db, a, c, sigma):
    """Return the derivative of Σe in t at scores ``f + t df`` and bias ``b + t db``."""
    gain, limit = clipped(loss, sigma)
    if gain > 0.0:
        return _along_clipped(f, df, t, y, b, db, a, c, gain, limit)
    derivative = 0.0
    for i in range(f.size):
        move = y[i] * (df[i] + db)
        z = 1.0 - y[i] * (f[i] + b) - t * move
        derivative -= prox_one(loss, z, a[i], c[i], sigma)[0] * move
    return derivative


@compiled(nogil=True, error_model="numpy")
def slope_of_bias(loss, f, y, b, a, c, sigma):
    """Return Σyα, minus the derivative of Σe in b; Σ of slopes, its second derivative; Σ|α|."""
    t, limit = clipped(loss, sigma)
    if t > 0.0:
        return _slope_of_bias_clipped(f, y, b, a, c, t, limit)
    balance = curvature = size = 0.0
    for i in range(f.size):
        alpha, slope, _, _ = prox_one(loss, 1.0 - y[i] * (f[i] + b), a[i], c[i], sigma)
        balance += y[i] * alpha
        curvature += slope
        size += abs(alpha)
    return balance, curvature, size


@compiled(nogil=True, error_model="numpy")
def flat_ends(loss, f, y, b, a, c, sigma):
    """Return the moves of the bias to the ends of its interval without slopes, ±∞ if open."""
    left, right = -math.inf, math.inf
    for i in range(f.size):
        z = 1.0 - y[i] * (f[i] + b)
        low, high = flat_one(loss, z, a[i], c[i], sigma)
        # A move of the bias changes z by its multiple with −y.
        if y[i] > 0.0:
            left, right = max(left, z - high), min(right, z - low)
        else:
            left, right = max(left, low - z), min(right, high - z)
    return left, right


@compiled(nogil=True, error_model="numpy")
def gram_rows(data, indices, indptr, slope, H, border):
    """Add Σ slope_i x_i x_i' of sparse rows to H's lower triangle, Σ slope_i x_i to `border`."""
    for i in range(slope.size):
        s = slope[i]
        if s == 0.0:
            continue
        for j in range(place(indptr[i]), place(indptr[i + 1])):
            scaled, row = s * data[j], place(indices[j])
            border[row] += scaled
            for k in range(place(indptr[i]), j + place(1)):
                H[row, place(indices[k])] += scaled * data[k]


@compiled(nogil=True, error_model="numpy")
def gram_narrow(X, slope, H, border):
    """Do the same for dense rows of few columns."""
    d = X.shape[1]
    for i in range(slope.size):
        s = slope[i]
        if s == 0.0:
            continue
        for j in range(d):
            scaled = s * X[i, j]
            border[j] += scaled
            for k in range(j + 1):
                H[j, k] += scaled * X[i, k]


@compiled(nogil=True, error_model="numpy")
def curvature_product(data, indices, indptr, slope, direction, db, out):
    """Add X' diag(slope) (X direction + db) to `out`; return the sum of the middle factor."""
    total = 0.0
    for i in range(slope.size):
        if slope[i] == 0.0:
            continue
        score = db
        for j in range(place(indptr[i]), place(indptr[i + 1])):
            score += data[j] * direction[place(indices[j])]
        score *= slope[i]
        total += score
        for j in range(place(indptr[i]), place(indptr[i + 1])):
            out[place(indices[j])] += score * data[j]
    return total


@compiled(nogil=True, error_model="numpy")
def squared_columns(data, indices, indptr, slope, out):
    """Add Σ_i slope_i x_ij² to out_j."""
    for i in range(slope.size):
        if slope[i] != 0.0:
            for j in range(place(indptr[i]), place(indptr[i + 1])):
                out[place(indices[j])] += slope[i] * data[j] * data[j]
