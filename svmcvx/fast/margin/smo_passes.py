r"""Compiled inner loops of pSMO: exact ascent in two multipliers at a time.

With :math:`f = Kv`, :math:`v_i = \alpha_i y_i` and the slack that belongs to a multiplier,
:math:`\xi_i = (\alpha_i/c_i)^r` with :math:`c_i = C s_i p` and :math:`r = 1/(p-1)` (zero for p = 1
and for the hard margin, written r = 0), the derivative of the dual along :math:`v_i` is

.. math:: g_i = y_i (1 - \xi_i) - f_i.

A point is optimal when :math:`g_i \le g_j` for every i whose :math:`v_i` can be raised and every j
whose :math:`v_j` can be lowered. A step moves :math:`v_i` up and :math:`v_j` down by the same t ≥
0, to the root of the strictly decreasing

.. math::
    \psi(t) = g_i - g_j - \eta t - y_i[\xi_i(\alpha_i + y_i t) - \xi_i(\alpha_i)]
                                 + y_j[\xi_j(\alpha_j - y_j t) - \xi_j(\alpha_j)],
    \qquad \eta = K_{ii} + K_{jj} - 2K_{ij},

or to the end of its domain. It is the function g(x) of [Sun] in :math:`x = \alpha_j - y_j t`.

Without a free intercept the dual has a box alone: one more observation, without features and
without a loss, takes up any imbalance.

**Source.** [Sun], Algorithm 1 (pSMO), with η corrected.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from svmcvx.fast.core.active_set_passes import violators
from svmcvx.system.compilation import compiled

# Least curvature η of a pair, the squared distance of two observations, as a share of the squared
# norms and absolutely; a smaller one is rounding error.
FLAT, SMALLEST = 1e-14, 1e-100
# Sum of the derivatives of the losses, relative to that of their absolute values, at which a bias
# is accepted.
BIAS_ACCURACY = 1e-10


@compiled(inner=True)
def slack_of(alpha, c, r):
    if r == 0.0 or alpha <= 0.0:
        return 0.0
    x = alpha / c
    if r == 1.0:
        return x
    if r == 2.0:
        return x * x
    return float(x**r)


@compiled()
def near_best_bias(f, y, weight, p, b):
    r"""Return argmin_b of :math:`\sum_is_i(1 - y_i(f_i + b))_+^p`, p > 1, to ``BIAS_ACCURACY``."""
    low, high = math.inf, -math.inf
    for k in range(f.size):
        if y[k] < 0.0:
            low = min(low, y[k] - f[k])
        else:
            high = max(high, y[k] - f[k])
    if high <= low:
        return 0.5 * (low + high)
    width = high - low
    if not low < b < high:
        b = 0.5 * (low + high)
    before = math.inf
    for _ in range(100):
        push, size, bend = 0.0, 0.0, 0.0
        for k in range(f.size):
            z = (1.0 - y[k] * (f[k] + b)) / width
            if z > 0.0:
                power = weight[k] * (
                    z if p == 2.0 else math.sqrt(z) if p == 1.5 else z ** (p - 1.0)
                )
                push += y[k] * power
                size += power
                bend += (p - 1.0) * power / z
        if abs(push) <= BIAS_ACCURACY * size:
            break
        if push > 0.0:
            low = b
        else:
            high = b
        newton = b + width * push / bend if bend > 0.0 else low
        # For p < 2 the derivative has infinite slopes, between which Newton's method can oscillate:
        # bisect where the last step has not halved the bracket.
        b = newton if low < newton < high and high - low <= 0.5 * before else 0.5 * (low + high)
        before = high - low
        if before <= BIAS_ACCURACY * width:
            break
    return b


@compiled(inner=True)
def curvature(alpha, xi, c, r):
    r"""Return :math:`d\xi/d\alpha = r\xi/\alpha`, infinite at α = 0 for r < 1."""
    if r == 0.0:
        return 0.0
    if r == 1.0:
        return 1.0 / c
    if alpha <= 0.0:
        return 0.0 if r > 1.0 else math.inf
    return r * xi / alpha


@compiled(inner=True)
def pair_step(violation, eta, ai, ci, yi, aj, cj, yj, r, limit, left):
    """Return the root t of ψ on [0, `limit`], where at most the share `left` of ψ(0) is left, or
    `limit` if ψ is still positive there.
    """
    if r == 0.0:
        return min(violation / eta, limit)
    if r == 1.0:
        return min(violation / (eta + 1.0 / ci + 1.0 / cj), limit)
    if r == 2.0:
        square = yi / ci**2 - yj / cj**2
        slope = eta + 2.0 * ai / ci**2 + 2.0 * aj / cj**2
        discriminant = slope * slope + 4.0 * square * violation
        if discriminant < 0.0:
            return limit
        bottom = slope + math.sqrt(discriminant)
        return min(2.0 * violation / bottom, limit) if bottom > 0.0 else limit
    xi, xj = slack_of(ai, ci, r), slack_of(aj, cj, r)
    # At the root the slack of a growing multiplier has increased by at most the violation, which
    # bounds t.
    high = limit
    if eta > 0.0:
        high = min(high, violation / eta)
    if yi > 0.0:
        high = min(high, max(ci * (violation + xi) ** (1.0 / r) - ai, 0.0))
    if yj < 0.0:
        high = min(high, max(cj * (violation + xj) ** (1.0 / r) - aj, 0.0))
    low, t, before = 0.0, high, math.inf
    for _ in range(100):
        bi, bj = ai + yi * t, aj - yj * t
        zi, zj = slack_of(bi, ci, r), slack_of(bj, cj, r)
        value = violation - eta * t - yi * (zi - xi) + yj * (zj - xj)
        if value >= 0.0:
            if t >= high:
                return high
            low = t
        else:
            high = t
        width = high - low
        if width <= 1e-14 * high or abs(value) <= left * violation:
            break
        slope = eta + curvature(bi, zi, ci, r) + curvature(bj, zj, cj, r)
        newton = t + value / slope if 0.0 < slope < math.inf else -1.0
        t = newton if low < newton < high and width <= 0.5 * before else low + 0.5 * width
        before = width
    return t


@compiled(inner=True)
def move(i, j, Q, r, g, alpha, xi, y, c, upper_bound):
    """Step in the pair (i, j): update the multipliers, their slacks and g."""
    norms = Q[i, i] + Q[j, j]
    eta = max(norms - 2.0 * Q[i, j], FLAT * norms, SMALLEST)
    room_i = upper_bound[i] - alpha[i] if y[i] > 0.0 else alpha[i]
    room_j = alpha[j] if y[j] > 0.0 else upper_bound[j] - alpha[j]
    limit = min(room_i, room_j)
    t = pair_step(g[i] - g[j], eta, alpha[i], c[i], y[i], alpha[j], c[j], y[j], r, limit, 1e-11)
    # Ends of the domain are reached exactly, not up to rounding.
    end_i = upper_bound[i] if y[i] > 0.0 else 0.0
    end_j = 0.0 if y[j] > 0.0 else upper_bound[j]
    alpha[i] = end_i if t >= room_i else max(alpha[i] + y[i] * t, 0.0)
    alpha[j] = end_j if t >= room_j else max(alpha[j] - y[j] * t, 0.0)
    for k in (i, j):
        after = slack_of(alpha[k], c[k], r)
        g[k] -= y[k] * (after - xi[k])
        xi[k] = after
    row, other = Q[i], Q[j]
    for k in range(g.size):
        g[k] -= t * (row[k] - other[k])


@compiled(allocates=True)
def ascend(Q, g, alpha, y, c, upper_bound, r, tol, steps):
    """Ascend in the pairs of a working set, in place, until its violation is at most `tol`."""
    q = y.size
    xi = np.empty(q)
    bend = np.empty(q)
    for k in range(q):
        xi[k] = slack_of(alpha[k], c[k], r)
        bend[k] = curvature(alpha[k], xi[k], c[k], r)
    for step in range(steps):
        top, i, bottom, j = violators(y, upper_bound, alpha, g)
        if i < 0 or j < 0 or top - bottom <= tol:
            return step
        row = Q[i]
        if r == 0.0 or step % 2 == 0:
            best = -1.0
            for k in range(q):
                if g[k] < top and (
                    (y[k] < 0.0 and alpha[k] < upper_bound[k]) or (y[k] > 0.0 and alpha[k] > 0.0)
                ):
                    model = row[i] + Q[k, k] - 2.0 * row[k] + bend[i] + bend[k]
                    difference = top - g[k]
                    promise = difference * difference / max(model, 1e-12)
                    if promise > best:
                        best, j = promise, k
        move(i, j, Q, r, g, alpha, xi, y, c, upper_bound)
        bend[i] = curvature(alpha[i], xi[i], c[i], r)
        bend[j] = curvature(alpha[j], xi[j], c[j], r)
    return steps
