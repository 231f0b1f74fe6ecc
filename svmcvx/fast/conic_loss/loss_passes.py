r"""Compiled passes over the losses of the conic relaxation in low-rank form.

A row of the scores is :math:`(x'w, x'V)`; with :math:`m = (1-u)_+`, :math:`s = V'x`, :math:`v =
\|s\|^2 + e` and :math:`t = v + m^2` the loss of an observation is :math:`h\,z`, :math:`z = m^2/t`,
and

.. math::
    \partial_m z = \frac{2mv}{t^2},\quad \partial_s z = -\frac{2m^2}{t^2}s.

With :math:`a = m/t` the matrix of second derivatives by :math:`(x'w, s)` is :math:`-2a^2 I + qq'`,

.. math:: q = \sqrt{2/t}\,\Big(-y\,\frac{m^2 - v}{t},\; 2a s\Big),

that is
:math:`\partial_{mm} z = 2v(v-3m^2)/t^3`, :math:`\partial_{ms} z = 4m(m^2-v)s/t^3`,
:math:`\partial_{ss} z = -2(m^2/t^2) I + 8(m^2/t^3) ss'`.

The ridge :math:`e_i = \epsilon\|x_i\|^2` belongs to the covariance :math:`VV' + \epsilon I`;
without it z is discontinuous where m and s are both zero.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.system.compilation import compiled

__all__ = ["loss_derivatives", "total_loss"]


@compiled()
def total_loss(S, y, height, ridge):
    """Return Σ h z for scores `S` of shape (n, 1 + k)."""
    value = 0.0
    for i in range(S.shape[0]):
        m = 1.0 - y[i] * S[i, 0]
        if m > 0.0:
            v = ridge[i]
            for j in range(1, S.shape[1]):
                v += S[i, j] * S[i, j]
            value += height[i] * m * m / (v + m * m)
    return value


@compiled()
def loss_derivatives(S, y, height, ridge, slope, shift, rays):
    """Return Σ h z; write first derivatives by the scores to `slope`, of shape (n, 1 + k)."""
    width = S.shape[1]
    value = 0.0
    for i in range(S.shape[0]):
        m = 1.0 - y[i] * S[i, 0]
        if m <= 0.0:
            slope[i, :] = 0.0
            shift[i] = 0.0
            rays[i, :] = 0.0
            continue
        v = ridge[i]
        for j in range(1, width):
            v += S[i, j] * S[i, j]
        h, t = height[i], v + m * m
        value += h * m * m / t
        # Ratios first, so that powers of a tiny t neither overflow nor underflow.
        a, b = m / t, v / t
        ray = math.sqrt(2.0 * h / t)
        shift[i] = -2.0 * h * a * a
        slope[i, 0] = -2.0 * h * a * b * y[i]
        rays[i, 0] = -ray * (1.0 - 2.0 * b) * y[i]
        for j in range(1, width):
            slope[i, j] = shift[i] * S[i, j]
            rays[i, j] = 2.0 * ray * a * S[i, j]
    return value
