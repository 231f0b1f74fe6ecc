r"""Dual coordinate ascent for the ODM family, compiled.

**Dual coordinate ascent** [HsiehChang]. With rows h_i (the signed rows of the factor, :math:`H =
(h_i'h_j)`), both machines have the dual

.. math:: \max_{l \le \theta \le r}\; \sum_i \theta_i - D\sum_i|\theta_i|
    - \tfrac12\|v + \sum_i\theta_i h_i\|^2
    - \sum_i \tfrac12 a_i (\theta_i)_+^2 - \sum_i \tfrac12 b_i (\theta_i)_-^2 ,

with :math:`a_i = 1/(2C_1c_i)`, :math:`b_i = 1/(2C_2c_i)` and no box for ODM; D = a = b = 0 and the
box [0, C c_i] for ODML. The best value of one coordinate is a soft threshold, clipped. ``w = v +
Σθ_i h_i`` is kept, so a step costs one row. A round is an epoch over all observations in random
order, which finds those that are optimal at a kink or an end of their interval by more than the
largest violation of the epoch before (shrinking), and then a few epochs over the others.

[HsiehChang] = Hsieh, Chang, Lin, Keerthi and Sundararajan 2008, A dual coordinate descent method
for large-scale linear SVM.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

from svmcvx.system.compilation import compiled


@compiled(inner=True)
def _best(theta, gradient, curvature, D, a, b, low, high):
    """Return a coordinate's best value; `gradient` is of the smooth part without a and b."""
    # The gradient of the smooth part where the coordinate is zero.
    at_zero = gradient + curvature * theta
    if at_zero > D:
        weight = curvature + a
        value = (at_zero - D) / weight if weight > 0.0 else high
    elif at_zero < -D:
        weight = curvature + b
        value = (at_zero + D) / weight if weight > 0.0 else low
    else:
        value = 0.0
    return min(max(value, low), high)


@compiled(inner=True)
def _rests(theta, gradient, D, low, high, margin):
    """Whether a coordinate at a kink or an end is optimal there by more than `margin`."""
    if theta == 0.0 and low == 0.0:
        return gradient < D - margin
    if theta == 0.0:
        return abs(gradient) < D - margin
    if theta == high:
        return gradient > D + margin
    return False


@compiled()
def ascend_rows(rows, y, diagonal, theta, w, D, a, b, low, high, order, active, margin):
    """Run one epoch over ``order`` in place; return the largest violation."""
    largest = 0.0
    for position in range(order.size):
        i = order[position]
        score = 0.0
        for j in range(w.size):
            score += rows[i, j] * w[j]
        gradient = 1.0 - y[i] * score
        old = theta[i]
        active[i] = not _rests(old, gradient, D, low[i], high[i], margin)
        new = _best(old, gradient, diagonal[i], D, a[i], b[i], low[i], high[i])
        if new != old:
            theta[i] = new
            change = (new - old) * y[i]
            largest = max(largest, abs(change) * (diagonal[i] + max(a[i], b[i])))
            for j in range(w.size):
                w[j] += change * rows[i, j]
    return largest
