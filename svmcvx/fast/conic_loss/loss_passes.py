r"""Compiled passes over the losses of the conic relaxation in low-rank form.

A row of the scores is :math:`(x'w, x'V)`; with :math:`m = (1-u)_+`, :math:`s = V'x`, :math:`v = \|s\|^2 + e` and
:math:`t = v + m^2` the loss of an observation is :math:`h\,z`, :math:`z = m^2/t`, and

.. math::
    \partial_m z = \frac{2mv}{t^2},\quad \partial_s z = -\frac{2m^2}{t^2}s,\quad
    \partial_{mm} z = \frac{2v(v-3m^2)}{t^3},\quad \partial_{ms} z = \frac{4m(m^2-v)}{t^3}s,\quad
    \partial_{ss} z = -\frac{2m^2}{t^2}I + \frac{8m^2}{t^3}ss'.

The ridge :math:`e_i = \epsilon\|x_i\|^2` belongs to the covariance :math:`VV' + \epsilon I`; without it z is discontinuous
where m and s are both zero.
"""

from __future__ import annotations

from svmcvx.fast.core.compilation import compiled

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
def loss_derivatives(S, y, height, ridge, slope, bend):
    """Return Σ h z; write first derivatives by the scores to `slope`, of shape (n, 1 + k), and second ones to `bend`.

    A row of `bend` holds the upper triangle of a symmetric matrix, row by row.
    """
    width = S.shape[1]
    value = 0.0
    for i in range(S.shape[0]):
        m = 1.0 - y[i] * S[i, 0]
        if m <= 0.0:
            slope[i, :] = 0.0
            bend[i, :] = 0.0
            continue
        v = ridge[i]
        for j in range(1, width):
            v += S[i, j] * S[i, j]
        h, t = height[i], v + m * m
        value += h * m * m / t
        # Ratios first, so that powers of a tiny t neither overflow nor underflow.
        a, b = m / t, v / t
        slope[i, 0] = -2.0 * h * a * b * y[i]
        # v − 3m² = (4b − 3)t and m² − v = (1 − 2b)t.
        bend[i, 0] = 2.0 * h * b * (4.0 * b - 3.0) / t
        mixed = -4.0 * h * a * (1.0 - 2.0 * b) / t * y[i]
        within = -2.0 * h * a * a
        across = 8.0 * h * a * a / t
        position = 1
        for j in range(1, width):
            slope[i, j] = within * S[i, j]
            bend[i, position] = mixed * S[i, j]
            position += 1
        for j in range(1, width):
            for k in range(j, width):
                bend[i, position] = across * S[i, j] * S[i, k] + (within if j == k else 0.0)
                position += 1
    return value
