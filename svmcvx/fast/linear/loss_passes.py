r"""Compiled passes over the margins for the Newton methods of :mod:`svmcvx.fast.linear.newton`.

Every loss is seen through its multiplier. With :math:`z_i = 1 - y_i(f_i + b)` a pass gives, for each observation,

* the multiplier :math:`\alpha_i`, the derivative of a smooth function :math:`e_i` at :math:`z_i`;
* the slope :math:`\mathrm{d}\alpha_i/\mathrm{d}z_i`;
* the value :math:`e_i(z_i)`, and the loss :math:`\ell_i(z_i)` of the statement.

For smooth losses (p ≥ 2 and ODM) :math:`e = \ell`. For p < 2 it is the augmented Lagrangian around a centre a,

.. math:: e(z) = \max_\alpha\; \alpha z - \ell^*(\alpha) - \frac{(\alpha - a)^2}{2\sigma c},

where c is the weight of the observation: the Moreau envelope of the loss, shifted. Its multiplier is
:math:`c\,\mathrm{clip}(a/c + \sigma z, 0, 1)` for p = 1, and otherwise :math:`c\,p\,r` with the root r of
:math:`p r + \sigma r^{1/(p-1)} = a/c + \sigma z`, a convex increasing function: Newton's method from above cannot overshoot.

For p = 1 and p = 2 the multiplier is a clipped linear function, :math:`\alpha = \mathrm{clip}(a + c\,t z, 0, \bar c)` with
t = σ or 2 (and a = 0), and :math:`e = \alpha z - (\alpha - a)^2/2ct`: loops without a branch, which the compiler
can vectorise.
"""

from __future__ import annotations

import math

from svmcvx.fast.core.compilation import compiled

__all__ = [
    "BAND",
    "ENVELOPE",
    "HINGE",
    "POWER",
    "along",
    "conjugate",
    "curvature_product",
    "flat_ends",
    "gram_narrow",
    "gram_rows",
    "prox_sums",
    "slope_of_bias",
    "squared_columns",
]

# Kinds of loss: c ξ^p for p ≥ 2; the envelopes for p = 1 and 1 < p < 2; the band of ODM.
POWER, HINGE, ENVELOPE, BAND = 0, 1, 2, 3

ROOT_STEPS = 60
ROOT_TOLERANCE = 4e-16
# Sums may be taken in any order; NaN and infinity stay what they are.
ANY_ORDER = {"reassoc", "nsz", "contract"}


@compiled(nogil=True)
def _root(nu, sigma, p):
    """Return the root r ≥ 0 of p r + σ r^(1/(p−1)) = ν > 0."""
    power = 1.0 / (p - 1.0)
    # Each term alone bounds the root from above.
    r = min(nu / p, (nu / sigma) ** (p - 1.0))
    for _ in range(ROOT_STEPS):
        t = sigma * r ** (power - 1.0)
        step = (r * (p + t) - nu) / (p + power * t)
        r -= step
        if step <= ROOT_TOLERANCE * r:
            break
    return max(r, 0.0)


@compiled(nogil=True)
def _one(kind, z, a, c, sigma, p, C1, C2, D):
    """Return multiplier, slope, value of the smooth function and loss of one observation, where they are not clipped linear."""
    if kind == POWER:
        if z <= 0.0:
            return 0.0, 0.0, 0.0, 0.0
        lower = c * z ** (p - 2.0)
        value = lower * z * z
        return p * lower * z, p * (p - 1.0) * lower, value, value
    if kind == ENVELOPE:
        loss = c * z**p if z > 0.0 else 0.0
        share = a / c
        nu = share + sigma * z
        if nu <= 0.0:
            return 0.0, 0.0, -0.5 * c * share * share / sigma, loss
        r = _root(nu, sigma, p)
        power = 1.0 / (p - 1.0)
        t = r ** (power - 1.0)
        beta = p * r
        slope = c * p * sigma / (p + sigma * power * t)
        value = c * (beta * z - (p - 1.0) * t * r * r - 0.5 * (beta - share) ** 2 / sigma)
        return c * beta, slope, value, loss
    if z > D:
        value = c * C1 * (z - D) ** 2
        return 2.0 * c * C1 * (z - D), 2.0 * c * C1, value, value
    if z < -D:
        value = c * C2 * (z + D) ** 2
        return 2.0 * c * C2 * (z + D), 2.0 * c * C2, value, value
    return 0.0, 0.0, 0.0, 0.0


@compiled(nogil=True)
def _clipped(kind, p):
    """Tell whether the multiplier is a clipped linear function of z."""
    return kind == HINGE or (kind == POWER and p == 2.0)


@compiled(nogil=True)
def _ramp(kind, sigma):
    """Return the slope of the clipped linear multiplier and its upper bound, both relative to the weight."""
    return (sigma, 1.0) if kind == HINGE else (2.0, math.inf)


@compiled(nogil=True, fastmath=ANY_ORDER)
def _clip(raw, top):
    """Clip to [0, top]; NaN stays NaN."""
    raw = 0.0 if raw <= 0.0 else raw
    return top if raw >= top else raw


@compiled(nogil=True, fastmath=ANY_ORDER)
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


@compiled(nogil=True, fastmath=ANY_ORDER)
def _along_clipped(f, df, step, y, b, db, a, c, t, limit):
    derivative = 0.0
    for i in range(f.size):
        move = y[i] * (df[i] + db)
        z = 1.0 - y[i] * (f[i] + b) - step * move
        derivative -= _clip(a[i] + c[i] * t * z, c[i] * limit) * move
    return derivative


@compiled(nogil=True, fastmath=ANY_ORDER)
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


@compiled(nogil=True)
def prox_sums(kind, f, y, b, a, c, sigma, p, C1, C2, D, norms, alpha, slope):
    """Fill multipliers and slopes; return Σe, Σℓ, Σα, Σyα, Σ|α|, Σ|α|‖x‖ and Σα z."""
    if _clipped(kind, p):
        t, limit = _ramp(kind, sigma)
        sums = _prox_sums_clipped(f, y, b, a, c, t, limit, norms, alpha, slope)
        return sums if kind == HINGE else (sums[0], sums[0], sums[2], sums[3], sums[4], sums[5], sums[6])
    smooth = loss = total = balance = size = norm_sum = product = 0.0
    for i in range(f.size):
        z = 1.0 - y[i] * (f[i] + b)
        alpha[i], slope[i], value, true = _one(kind, z, a[i], c[i], sigma, p, C1, C2, D)
        smooth += value
        loss += true
        absolute = abs(alpha[i])
        total += alpha[i]
        size += absolute
        balance += y[i] * alpha[i]
        norm_sum += absolute * norms[i]
        product += alpha[i] * z
    return smooth, loss, total, balance, size, norm_sum, product


@compiled(nogil=True)
def conjugate(kind, alpha, c, p, C1, C2, D):
    """Return Σ ℓ*(α), so that the dual objective is Σα − Σℓ*(α) − ½‖w(α)‖²."""
    total = 0.0
    if kind == HINGE:
        return total
    if kind == BAND:
        for i in range(alpha.size):
            total += D * abs(alpha[i]) + alpha[i] ** 2 / (4.0 * c[i] * (C1 if alpha[i] > 0 else C2))
        return total
    gamma = p / (p - 1.0)
    for i in range(alpha.size):
        if alpha[i] > 0.0:
            ratio = alpha[i] / (c[i] * p)
            total += c[i] * (p - 1.0) * (ratio * ratio if p == 2.0 else ratio**gamma)
    return total


@compiled(nogil=True)
def along(kind, f, df, t, y, b, db, a, c, sigma, p, C1, C2, D):
    """Return the derivative of Σe in t at scores ``f + t df`` and bias ``b + t db``."""
    if _clipped(kind, p):
        gain, limit = _ramp(kind, sigma)
        return _along_clipped(f, df, t, y, b, db, a, c, gain, limit)
    derivative = 0.0
    for i in range(f.size):
        move = y[i] * (df[i] + db)
        z = 1.0 - y[i] * (f[i] + b) - t * move
        derivative -= _one(kind, z, a[i], c[i], sigma, p, C1, C2, D)[0] * move
    return derivative


@compiled(nogil=True)
def slope_of_bias(kind, f, y, b, a, c, sigma, p, C1, C2, D):
    """Return Σyα, minus the derivative of Σe in b; Σ of the slopes, its second derivative; and Σ|α|."""
    if _clipped(kind, p):
        t, limit = _ramp(kind, sigma)
        return _slope_of_bias_clipped(f, y, b, a, c, t, limit)
    balance = curvature = size = 0.0
    for i in range(f.size):
        alpha, slope, _, _ = _one(kind, 1.0 - y[i] * (f[i] + b), a[i], c[i], sigma, p, C1, C2, D)
        balance += y[i] * alpha
        curvature += slope
        size += abs(alpha)
    return balance, curvature, size


@compiled(nogil=True)
def flat_ends(kind, f, y, b, a, c, sigma):
    """Return the moves of the bias to the ends of the interval without slopes; ±∞ where it has none."""
    left, right = -math.inf, math.inf
    for i in range(f.size):
        z = 1.0 - y[i] * (f[i] + b)
        share = 0.0 if kind == POWER else a[i] / (c[i] * sigma)
        # An observation without a slope is at zero or, for the hinge, at its upper bound; it stays so on one side.
        upper_bound = kind == HINGE and z + share > 0.0
        move = y[i] * (z + share - (1.0 / sigma if upper_bound else 0.0))
        if upper_bound == (y[i] > 0.0):
            right = min(right, move)
        else:
            left = max(left, move)
    return left, right


@compiled(nogil=True)
def gram_rows(data, indices, indptr, slope, H, border):
    """Add Σ_i slope_i x_i x_i' of sparse rows to the lower triangle of H, and Σ_i slope_i x_i to `border`."""
    for i in range(slope.size):
        s = slope[i]
        if s == 0.0:
            continue
        for j in range(indptr[i], indptr[i + 1]):
            scaled, row = s * data[j], indices[j]
            border[row] += scaled
            for k in range(indptr[i], j + 1):
                H[row, indices[k]] += scaled * data[k]


@compiled(nogil=True)
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


@compiled(nogil=True)
def curvature_product(data, indices, indptr, slope, direction, db, out):
    """Add X' diag(slope) (X direction + db) to `out`; return the sum of the middle factor."""
    total = 0.0
    for i in range(slope.size):
        if slope[i] == 0.0:
            continue
        score = db
        for j in range(indptr[i], indptr[i + 1]):
            score += data[j] * direction[indices[j]]
        score *= slope[i]
        total += score
        for j in range(indptr[i], indptr[i + 1]):
            out[indices[j]] += score * data[j]
    return total


@compiled(nogil=True)
def squared_columns(data, indices, indptr, slope, out):
    """Add Σ_i slope_i x_ij² to out_j."""
    for i in range(slope.size):
        if slope[i] != 0.0:
            for j in range(indptr[i], indptr[i + 1]):
                out[indices[j]] += slope[i] * data[j] * data[j]
