r"""Compiled passes over the margins for the Newton methods of :mod:`svmcvx.fast.linear.newton`.

With :math:`z_i = 1 - y_i(f_i + b)` a pass sums what :mod:`svmcvx.fast.linear.loss_passes` tells of
every observation. Clipped linear multipliers have loops without a branch, which the compiler can
vectorise.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.fast.linear.loss_passes import BAND, POWER, clipped, conjugate_one, flat_one, prox_one
from svmcvx.system.compilation import compiled

__all__ = [
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

# Sums may be taken in any order; NaN and infinity stay what they are.
ANY_ORDER = {"reassoc", "nsz", "contract"}


@compiled(inner=True, fastmath=ANY_ORDER, error_model="numpy")
def _clip(raw, top):
    """Clip to [0, top]; NaN stays NaN."""
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
    """Return Σyα, minus the derivative of Σe in b; Σ of the slopes, its second derivative; and
    Σ|α|.
    """
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
    """Return the moves of the bias to the ends of the interval without slopes; ±∞ where it has
    none.
    """
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
    """Add Σ_i slope_i x_i x_i' of sparse rows to the lower triangle of H, and Σ_i slope_i x_i to
    `border`.
    """
    for i in range(slope.size):
        s = slope[i]
        if s == 0.0:
            continue
        for j in range(indptr[i], indptr[i + 1]):
            scaled, row = s * data[j], indices[j]
            border[row] += scaled
            for k in range(indptr[i], j + 1):
                H[row, indices[k]] += scaled * data[k]


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
        for j in range(indptr[i], indptr[i + 1]):
            score += data[j] * direction[indices[j]]
        score *= slope[i]
        total += score
        for j in range(indptr[i], indptr[i + 1]):
            out[indices[j]] += score * data[j]
    return total


@compiled(nogil=True, error_model="numpy")
def squared_columns(data, indices, indptr, slope, out):
    """Add Σ_i slope_i x_ij² to out_j."""
    for i in range(slope.size):
        if slope[i] != 0.0:
            for j in range(indptr[i], indptr[i + 1]):
                out[indices[j]] += slope[i] * data[j] * data[j]
