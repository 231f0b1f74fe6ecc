r"""Compiled dual coordinate ascent for hinges of several classes [Keerthi].

The dual is maximised in all multipliers :math:`a` of one observation at a time, while :math:`W =
X'B/\rho` is kept. With the slacks γ = 1 − f, :math:`Q = \|x\|^2/\rho` and the sum t of all changes
the best new ones are :math:`a + \gamma/Q - t`, cut off to [0, s], since t changes the score of the
own class. For the largest hinge their sum is at most s; if it is more, another shift in place of t
makes it s.

The gap, the order of the observations, their shrinking, and free biases are those of
:mod:`svmcvx.fast.linear.ascent_passes`, with a balance and a bias for each class.

[Keerthi] = Keerthi, Sundararajan, Chang, Hsieh and Lin 2008, A sequential dual method for large
scale multi-class linear SVMs.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from svmcvx.certificate.bounded import EPS
from svmcvx.fast.linear.ascent_passes import drawn
from svmcvx.fast.linear.loss_passes import place
from svmcvx.fast.several_classes.projection_passes import capped
from svmcvx.system.compilation import compiled


@compiled(inner=True, error_model="numpy")
def _slacks(data, indices, first, last, W, b, own, a, gamma):
    """Write the slacks of a row; return the sum of them times the multipliers."""
    c = W.shape[1]
    score = gamma[c:]
    for k in range(c):
        score[k] = b[k]
    # Two entries at a time: scores are read and written half as often.
    for j in range(first, last, 2):
        row, x = place(indices[j] if indices.size else j - first), data[j]
        other, z = row, 0.0
        if j + 1 < last:
            other, z = place(indices[j + 1] if indices.size else j + 1 - first), data[j + 1]
        for k in range(c):
            score[k] += x * W[row, k] + z * W[other, k]
    along = 0.0
    for j in range(c - 1):
        gamma[j] = 1.0 - score[own] + score[j + (j >= own)]
        along += a[j] * gamma[j]
    return along


@compiled(inner=True, error_model="numpy")
def _violation(gamma, a, s, summed):
    """Return by how much the conditions of optimality fail, by how much slacks have to change
    until a multiplier leaves its bound, the loss, and the largest slack, at least 0.
    """
    wrong, distance, loss = 0.0, np.inf, 0.0
    top, second, least, total = 0.0, -np.inf, np.inf, 0.0
    for j in range(a.size):
        loss += s * max(gamma[j], 0.0)
        distance = min(distance, abs(gamma[j]))
        if a[j] < s:
            wrong = max(wrong, gamma[j])
        if a[j] > 0.0:
            wrong = max(wrong, -gamma[j])
            least = min(least, gamma[j])
        second = max(second, min(top, gamma[j]))
        top = max(top, gamma[j])
        total += a[j]
    if summed:
        return wrong, distance, loss, top
    # Beyond rounding of the sum, the own class has what is left.
    if total < s * (1.0 - a.size * EPS):
        least = min(least, 0.0)
    return top - least, top - second, s * top, top


@compiled(nogil=True, error_model="numpy", allocates=True)
def ascend(
    data, indices, indptr, codes, s, curvature, summed, alpha, W, b, balance, bias, order, state,
    numbers, tol, work,
):  # fmt: skip
    """Run epochs in place until the relative gap is about `tol`, or `work` numbers were read;
    return these, and the gap of the last epoch.

    `state` has the number of active rows, which are the first of `order`, and the state of the
    random numbers; `numbers` the largest violation of the epoch before, beyond which a row is left
    out, and about the dual objective; `bias` τ, the cost of an imbalance, and what W is of X'B.
    """
    read, (tau, price, scale) = 0.0, bias
    c = W.shape[1]
    gamma, target, new, move = np.empty(2 * c), np.empty(c - 1), np.empty(c - 1), np.empty(c)
    while True:
        gap, largest, position, active = 0.0, 0.0, 0, state[0]
        while position < active:
            i = drawn(order, position, active, state)
            first, last = indptr[i], indptr[i + 1]
            own, a, Q = codes[i], alpha[i], curvature[i]
            # The arithmetic on multipliers costs as much as some entries.
            read += c * (last - first + 8.0)
            along = _slacks(data, indices, first, last, W, b, own, a, gamma)
            wrong, distance, loss, top = _violation(gamma, a, s[i], summed)
            if wrong == 0.0:
                if distance > numbers[0]:
                    active -= 1
                    order[position], order[active] = order[active], i
                else:
                    position += 1
                continue
            position += 1
            largest = max(largest, wrong)
            gap += loss - along
            for j in range(c - 1):
                target[j] = a[j] + gamma[j] / Q
            capped(target, a.sum(), s[i], 1.0, new)
            for j in range(c - 1):
                target[j] = a[j] + (gamma[j] - top) / Q
            if new.sum() > s[i] and not summed:
                capped(target, s[i], s[i], 0.0, new)
            size, grown = 0.0, 0.0
            for j in range(c - 1):
                change = new[j] - a[j]
                size += abs(change)
                numbers[1] += change * (gamma[j] - 0.5 * Q * change)
                grown += change
                move[j + (j >= own)] = -change
                a[j] = new[j]
            if size == 0.0:
                continue
            numbers[1] -= 0.5 * Q * grown * grown
            move[own] = grown
            read += c * (last - first)
            for k in range(c):
                balance[k] += move[k]
                b[k] += tau * move[k]
                move[k] *= scale
            for j in range(first, last):
                row, x = place(indices[j] if indices.size else j - first), data[j]
                for k in range(c):
                    W[row, k] += x * move[k]
        state[0] = active
        read += 8.0
        if tau > 0.0:
            for k in range(c):
                gap += price * abs(balance[k]) - b[k] * balance[k]
                b[k] += tau * balance[k]
        numbers[0] = largest if largest > 0.0 else np.inf
        if gap <= tol * max(abs(numbers[1]), abs(numbers[1] + gap)) or read >= work:
            return read, gap
