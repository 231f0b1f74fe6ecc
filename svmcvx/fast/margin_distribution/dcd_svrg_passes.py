r"""Dual coordinate ascent and SVRG for the ODM family, compiled.

**Dual coordinate ascent** [HsiehChang]. With rows h_i (the signed rows of the factor, :math:`H = (h_i'h_j)`), both machines have the
dual

.. math:: \max_{l \le \theta \le r}\; \sum_i \theta_i - D\sum_i|\theta_i| - \tfrac12\|v + \sum_i\theta_i h_i\|^2
    - \sum_i \tfrac12 a_i (\theta_i)_+^2 - \sum_i \tfrac12 b_i (\theta_i)_-^2 ,

with :math:`a_i = 1/(2C_1c_i)`, :math:`b_i = 1/(2C_2c_i)` and no box for ODM; D = a = b = 0 and the box [0, C c_i] for ODML. The
best value of one coordinate is a soft threshold, clipped. ``w = v + Σθ_i h_i`` is kept, so a step costs one row. A round
is an epoch over all observations in random order, which finds those that are optimal at a kink or an end of their interval by
more than the largest violation of the epoch before (shrinking), and then a few epochs over the others.

[HsiehChang] = Hsieh, Chang, Lin, Keerthi and Sundararajan 2008, A dual coordinate descent method for large-scale linear SVM.

**SVRG** is Algorithm 2 of [ZhangZhou]: an outer step takes the full gradient μ at a snapshot :math:`\tilde w`, m inner steps move along
single-observation gradients corrected by it. The dense part of a step, :math:`w \leftarrow (1-\eta)w + \eta(\tilde w - \mu)`, acts on each
coordinate alone and is the same in every step, so for sparse rows a coordinate is brought up to date only when a row needs it:
after k steps :math:`w_j = s_j + (1-\eta)^k(w_j - s_j)`, :math:`s = \tilde w - \mu`.
"""

from __future__ import annotations

import math

from svmcvx.fast.core.compilation import compiled

__all__ = ["ascend_dense", "ascend_sparse", "svrg_dense", "svrg_sparse"]


@compiled()
def _best(theta, gradient, curvature, D, a, b, low, high):
    """Return the best value of one coordinate; `gradient` is that of the smooth part without the terms in a and b."""
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


@compiled()
def _rests(theta, gradient, D, low, high, margin):
    """Tell whether a coordinate at a kink or an end of its interval is optimal there by more than `margin`."""
    if theta == 0.0 and low == 0.0:
        return gradient < D - margin
    if theta == 0.0:
        return abs(gradient) < D - margin
    if theta == high:
        return gradient > D + margin
    return False


@compiled()
def ascend_dense(rows, y, diagonal, theta, w, D, a, b, low, high, order, active, margin):
    """Run one epoch over ``order``; update θ, w and `active` in place and return the largest violation."""
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


@compiled()
def ascend_sparse(data, indices, indptr, y, diagonal, theta, w, D, a, b, low, high, order, active, margin):
    """Do the same for the rows of a CSR matrix."""
    largest = 0.0
    for position in range(order.size):
        i = order[position]
        score = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            score += data[j] * w[indices[j]]
        gradient = 1.0 - y[i] * score
        old = theta[i]
        active[i] = not _rests(old, gradient, D, low[i], high[i], margin)
        new = _best(old, gradient, diagonal[i], D, a[i], b[i], low[i], high[i])
        if new != old:
            theta[i] = new
            change = (new - old) * y[i]
            largest = max(largest, abs(change) * (diagonal[i] + max(a[i], b[i])))
            for j in range(indptr[i], indptr[i + 1]):
                w[indices[j]] += change * data[j]
    return largest


@compiled()
def _force(score, y, other, other_y, hinge, lam1, C1, C2, D):
    """Return the factor of x_i in the gradient at one observation (and, for ODML, a second one), without constants."""
    u = y * score
    if hinge:
        force = -C1 * y if u < 1.0 else 0.0
        return force + 2.0 * lam1 * (score - y * other_y * other)
    if u < 1.0 - D:
        return 2.0 * C1 * (u - 1.0 + D) * y
    if u > 1.0 + D:
        return 2.0 * C2 * (u - 1.0 - D) * y
    return 0.0


@compiled()
def svrg_dense(X, y, w, still, before, picks, others, eta, hinge, lam1, C1, C2, D, visits, hits):
    """Run the inner loop of SVRG; `before` are the snapshot's scores and `still` is s.

    For ODML (`hinge`) `others` are the second observations; `visits` and `hits` count how often an observation was
    drawn, and how often with a margin below 1.
    """
    keep = 1.0 - eta
    for position in range(picks.size):
        i, k = picks[position], others[position]
        score = other = 0.0
        for j in range(w.size):
            score += X[i, j] * w[j]
        if hinge and lam1 > 0.0:
            for j in range(w.size):
                other += X[k, j] * w[j]
        visits[i] += 1
        hits[i] += y[i] * score < 1.0
        now = _force(score, y[i], other, y[k], hinge, lam1, C1, C2, D)
        change = eta * (now - _force(before[i], y[i], before[k], y[k], hinge, lam1, C1, C2, D))
        for j in range(w.size):
            w[j] = keep * w[j] + eta * still[j] - change * X[i, j]


@compiled()
def _current_score(data, indices, indptr, i, w, still, rate, position, touched):
    """Return the score of a sparse row, after bringing its coordinates up to date."""
    score = 0.0
    for j in range(indptr[i], indptr[i + 1]):
        column = indices[j]
        behind = position - touched[column]
        if behind > 0:
            w[column] = still[column] + math.exp(rate * behind) * (w[column] - still[column])
            touched[column] = position
        score += data[j] * w[column]
    return score


@compiled()
def svrg_sparse(
    data, indices, indptr, y, w, still, before, picks, others, eta, hinge, lam1, C1, C2, D, visits, hits, touched
):
    """Do the same with lazy updates; `touched` holds the step up to which each coordinate is current."""
    rate = math.log1p(-eta)
    touched[:] = 0
    for position in range(picks.size):
        i, k = picks[position], others[position]
        other = 0.0
        if hinge and lam1 > 0.0:
            other = _current_score(data, indices, indptr, k, w, still, rate, position, touched)
        score = _current_score(data, indices, indptr, i, w, still, rate, position, touched)
        visits[i] += 1
        hits[i] += y[i] * score < 1.0
        now = _force(score, y[i], other, y[k], hinge, lam1, C1, C2, D)
        change = eta * (now - _force(before[i], y[i], before[k], y[k], hinge, lam1, C1, C2, D))
        for j in range(indptr[i], indptr[i + 1]):
            column = indices[j]
            w[column] = still[column] + (1.0 - eta) * (w[column] - still[column]) - change * data[j]
            touched[column] = position + 1
    for column in range(w.size):
        behind = picks.size - touched[column]
        if behind > 0:
            w[column] = still[column] + math.exp(rate * behind) * (w[column] - still[column])
