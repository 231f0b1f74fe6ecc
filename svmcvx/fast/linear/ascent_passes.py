r"""Dual coordinate ascent for linear machines, compiled [HsiehChang].

The dual of :mod:`svmcvx.fast.linear.newton` is maximised in one multiplier at a time; w(α) is kept,
so that a step costs one row. The sum of :math:`\ell_i(z_i) + \ell_i^*(\alpha_i) - \alpha_iz_i` over
an epoch, taken before each step, is about the gap P − D of the point. Multipliers at a kink or an
end of their interval by more than the largest violation of the epoch before are left out
(shrinking) until the others are done.

**Over-relaxation.** Where the dual is quadratic between kinks, steps are longer by the factor
:math:`\omega = 2/(1 + \sqrt{1 - \varrho})` [Young], ϱ² being the share of the gap that an epoch has
left; up to 3/2, and 1 if the gap has grown. The terms of the gap are those of the middle of the
epoch on average, so that ϱ of them is left at its end.

**A free bias** is the multiplier of :math:`s = y'\alpha = 0`. The augmented Lagrangian
:math:`D(\alpha) - b_ks - \tfrac12\tau s^2`, whose steps see the bias :math:`b = b_k + \tau s`, is
maximised in an epoch; then b becomes the next :math:`b_k`. A penalised bias, with the dual
:math:`D(\alpha) - \tfrac12s^2`, is found in the same way with :math:`b = (b_k + \tau s)/(1 +
\tau)`, which takes about half of the epochs of a constant column.

Rows are sparse, or dense in the same three arrays, of which `indices` is then empty. They are drawn
some steps ahead, so that memory delivers them while others are worked on: a row in random order is
in no cache, and waiting for it takes several times as long as its step.

[HsiehChang] = Hsieh, Chang, Lin, Keerthi and Sundararajan 2008, A dual coordinate descent method
for large-scale linear SVM.

[Young] = Young 1954, Iterative methods for solving partial difference equations of elliptic type.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.fast.linear.loss_passes import (
    ANY_ORDER,
    conjugate_one,
    loss_one,
    maximiser_one,
    place,
    violation_one,
)
from svmcvx.system.compilation import compiled, prefetch

# Steps ahead at which numbers of a row are asked for, and its entries.
NUMBERS, ENTRIES = 8, 4
# Entries that are read in the time of one step, and in that of an evaluation's fixed work.
STEP, ROUND = 16, 10_000


@compiled(inner=True, fastmath=ANY_ORDER, error_model="numpy")
def _dense_inner(row, w):
    score = 0.0
    for j in range(w.size):
        score += row[j] * w[j]
    return score


@compiled(inner=True, error_model="numpy")
def _inner(data, indices, first, last, w):
    if indices.size == 0:
        return _dense_inner(data[first:last], w)
    score = 0.0
    for j in range(place(first), place(last)):
        score += data[j] * w[place(indices[j])]
    return score


@compiled(inner=True, error_model="numpy")
def _add(data, indices, first, last, factor, w):
    if indices.size == 0:
        row = data[first:last]
        for j in range(w.size):
            w[j] += factor * row[j]
    else:
        for j in range(place(first), place(last)):
            w[place(indices[j])] += factor * data[j]


@compiled(inner=True, error_model="numpy")
def drawn(order, position, active, state):
    """Exchange one of the entries from `position` on, by chance, with the first; return it."""
    # Knuth's generator of 48 bits.
    state[1] = (state[1] * 0x5DEECE66D + 0xB) & 0xFFFFFFFFFFFF
    other = position + (((state[1] >> 17) * (active - position)) >> 31)
    order[position], order[other] = order[other], order[position]
    return order[position]


@compiled(inner=True, error_model="numpy")
def prefetch_row(data, indices, first, last):
    """Ask for the entries of a row, 64 bytes at a time."""
    for j in range(first, last, 8):
        prefetch(data, j)
    if indices.size:
        for j in range(first, last, 16):
            prefetch(indices, j)


@compiled(nogil=True, error_model="numpy")
def scores(data, indices, indptr, w, f):
    """Fill f with Xw."""
    for i in range(f.size):
        f[i] = _inner(data, indices, indptr[i], indptr[i + 1], w)


@compiled(nogil=True, error_model="numpy")
def ascend(
    loss, data, indices, indptr, y, c, curvature, alpha, w, bias, order, state, numbers, tol, work
):
    """Run epochs in place until the relative gap is about `tol` and ROUND entries of rows were
    read, or `work` were; return the entries, and the gap of the last epoch.

    `state` has the number of active multipliers, which are the first of `order`, and the state of
    the random numbers; `numbers` the violations of the epoch before, beyond which a multiplier is
    left out, about the dual objective, b, s, ω − 1 and the gap; `bias` τ, 1 for a penalised bias,
    else 0, and the cost of an imbalance. The curvature of the dual along each multiplier, without
    its conjugate, includes that of the augmented term.
    """
    read, (tau, penalty, price) = 0, bias
    step = tau / (1.0 + penalty * tau)
    quadratic, limit = loss.p in (1.0, 2.0), 1.0 if loss.p == 1.0 else math.inf
    while True:
        gap, low, high, kept, active = 0.0, 0.0, 0.0, 0, state[0]
        for position in range(-NUMBERS, active):
            if position + NUMBERS < active:
                i = drawn(order, position + NUMBERS, active, state)
                prefetch(indptr, i)
                prefetch(y, i)
                prefetch(c, i)
                prefetch(curvature, i)
                prefetch(alpha, i)
            if 0 <= position + ENTRIES < active:
                i = order[position + ENTRIES]
                prefetch_row(data, indices, indptr[i], indptr[i + 1])
            if position < 0:
                continue
            i = order[position]
            first, last = indptr[i], indptr[i + 1]
            read += last - first
            z = 1.0 - y[i] * (_inner(data, indices, first, last, w) + numbers[3])
            old = alpha[i]
            violation, rests = violation_one(loss, z, old, c[i], numbers[0], numbers[1])
            if rests:
                continue
            order[position], order[kept] = order[kept], i
            kept += 1
            if violation == 0.0:
                continue
            low, high = min(low, violation), max(high, violation)
            before = conjugate_one(loss, old, c[i])
            gap += loss_one(loss, z, c[i]) + before - old * z
            new = maximiser_one(loss, z + curvature[i] * old, curvature[i], c[i])
            if quadratic and new != 0.0:
                side = math.copysign(1.0, new)
                longer = side * (new + numbers[5] * (new - old))
                new = side * max(0.0, min(longer, limit * c[i]))
            move = new - old
            if move != 0.0:
                alpha[i] = new
                change = move * (z - 0.5 * curvature[i] * move)
                numbers[2] += change + before - conjugate_one(loss, new, c[i])
                _add(data, indices, first, last, move * y[i], w)
                numbers[3] += step * move * y[i]
                numbers[4] += move * y[i]
        # An epoch of no rows is work as well.
        read += STEP * (active + 1)
        state[0] = kept
        if tau > 0.0:
            b, s = numbers[3], numbers[4]
            gap += 0.5 * (b - s) ** 2 if penalty > 0.0 else price * abs(s) - b * s
            numbers[3] = (b + tau * s) / (1.0 + penalty * tau)
        share = gap / numbers[6]
        left = math.sqrt(share) if 0.0 < share < 1.0 else 0.0
        numbers[5] = min(2.0 / (1.0 + math.sqrt(1.0 - left)) - 1.0, 0.5)
        numbers[6] = gap
        gap *= left or 1.0
        numbers[0] = low if low < 0.0 else -math.inf
        numbers[1] = high if high > 0.0 else math.inf
        close = gap <= tol * max(abs(numbers[2]), abs(numbers[2] + gap))
        if (close and read >= ROUND) or read >= work:
            return read, gap
