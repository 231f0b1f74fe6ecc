r"""Compiled intervals of many pSVM with p = 1 or 2, with bounds on the rounding of each operation.

The formulas are those of :mod:`svmcvx.formulations.margin`, the bounds those of
:mod:`svmcvx.certificate.bounded`: an operation adds its own rounding to the errors of its operands, and
each error is enlarged by more than its own computation rounds. What underflows loses less than
:data:`LOST`, which is added everywhere. Sums of k numbers in any order are off by at most k u times
that of their sizes [JeannerodRump]. NaN is never taken for a small number.
"""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import GROW, LOST, U
from svmcvx.certificate.exactly import LARGEST_BITS, SMALLEST, SUM_BITS
from svmcvx.certificate.rows import UNDERFLOW
from svmcvx.kernels.class_rows_passes import enlarged
from svmcvx.system.compilation import compiled

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.int64]

# Rows of what is returned: three numbers, each with its error in the row of that number plus ERROR,
# and the violation.
REGULARISER, LOSSES, DUAL, ERROR, VIOLATION = 0, 1, 2, 3, 6
# Exponent of the finest grid.
FINEST = -1000


@compiled(inner=True, fastmath={"reassoc"})
def sum_of(values: Floats) -> float:
    """Return the sum."""
    found = 0.0
    for k in range(values.size):
        found += values[k]
    return found


@compiled(inner=True)
def violation_of(alpha: Floats, y: Floats, cost: Floats, bounded: bool) -> float:
    r"""Return the largest of −α, of α − `cost` where it is an upper bound, and of
    :math:`|y'\alpha|`; NaN where the last is not known exactly.

    Multipliers on a grid are added as integers, as in :func:`svmcvx.certificate.exactly.imbalance`.
    """
    largest, outside = 0.0, 0.0
    for k in range(alpha.size):
        if not abs(alpha[k]) < math.inf:
            return math.inf
        largest = max(largest, abs(alpha[k]))
        outside = max(outside, -alpha[k])
        if bounded:
            outside = max(outside, alpha[k] - cost[k])
    if largest == 0.0:
        return outside
    bits = min(LARGEST_BITS, SUM_BITS - math.frexp(float(alpha.size))[1])
    exponent = max(math.frexp(largest)[1] - bits, FINEST)
    inverse = math.ldexp(1.0, -exponent)
    left = np.int64(0)
    for k in range(alpha.size):
        unit = alpha[k] * inverse
        whole = np.int64(unit)
        if float(whole) != unit or (unit == 0.0 and alpha[k] != 0.0):
            return math.nan
        left += whole if y[k] > 0.0 else -whole
    return max(outside, math.ldexp(abs(float(left)), exponent))


@compiled(inner=True)
def losses_of(
    f: Floats,
    error: Floats,
    bias: float,
    bias_error: float,
    y: Floats,
    weight: Floats,
    squared: bool,
    values: Floats,
    errors: Floats,
) -> None:
    r"""Write :math:`s_i (1 - u_i)_+^p` with :math:`u_i = y_i (f_i + b)`, and bounds on the errors."""
    for k in range(values.size):
        score = f[k] + bias
        off = (abs(score) * U + error[k] + bias_error) * GROW
        slack = 1.0 - y[k] * score
        off = (abs(slack) * U + off) * GROW
        # It is exactly 0 where the slack is known not to be positive.
        reach = (slack + off) * GROW
        values[k] = 0.0 if slack < 0.0 else slack
        errors[k] = 0.0 if reach <= 0.0 else (reach if reach < off else off)
    if squared:
        for k in range(values.size):
            value, off = values[k], errors[k]
            values[k] = value * value
            errors[k] = (value * value * U + (2.0 * value + off) * off) * GROW + LOST
    if weight.size:
        for k in range(values.size):
            value = values[k] * weight[k]
            errors[k] = (value * U + errors[k] * weight[k]) * GROW + LOST
            values[k] = value


@compiled(inner=True, error_model="numpy")
def dual_terms(
    alpha: Floats, C: float, weight: Floats, squared: bool, values: Floats, errors: Floats
) -> None:
    r"""Write :math:`\alpha_i`, at p = 2 less the conjugate :math:`\alpha_i^2/(4Cs_i)`, and bounds
    on the errors.
    """
    for k in range(values.size):
        values[k], errors[k] = alpha[k], 0.0
    if squared:
        for k in range(values.size):
            cost = C * weight[k] if weight.size else C
            # Product, quotient and product are rounded once each.
            conjugate = alpha[k] * (alpha[k] / (4.0 * cost))
            values[k] = alpha[k] - conjugate
            errors[k] = (abs(values[k]) * U + 4.0 * U * abs(conjugate)) * GROW + LOST * (
                1.0 + abs(alpha[k])
            )


@compiled(inner=True)
def error_of_sum(found: float, sizes: float, errors: float, terms: float) -> float:
    """Return a bound on the error of a sum of so many numbers, from the sums of their sizes and
    errors; what overflowed is unknown.
    """
    if not abs(found) < math.inf:
        return math.inf
    return float((sizes * terms * U + errors) * enlarged(terms))


@compiled(nogil=True)
def write_terms(
    groups: Places,
    starts: Places,
    offsets: Places,
    y: Floats,
    weight: Floats,
    cost: Floats,
    C: float,
    squared: bool,
    alpha: Floats,
    bias: Floats,
    f: Floats,
    error: Floats,
    W: Floats,
    centre: Floats,
    norms: Floats,
    terms: float,
    shifted: bool,
    work: Floats,
    out: Floats,
) -> None:
    """Write the terms of the objectives, the dual objectives, their errors, and the violations of
    the dual points.
    """
    d = float(W.shape[1])
    for part in range(groups.shape[0]):
        first, last = offsets[part], offsets[part + 1]
        one, other = groups[part, 0], groups[part, 1]
        q = last - first
        size = float(q)
        own, labels, scores, off = (
            alpha[first:last],
            y[first:last],
            f[first:last],
            error[first:last],
        )
        factors = weight[first:last] if weight.size else weight
        values, errors, sizes = work[0, :q], work[1, :q], work[2, :q]
        b, b_error = bias[part], 0.0
        if W.size:
            w = W[part]
            square, middle, magnitude = 0.0, 0.0, 0.0
            for k in range(w.size):
                square += w[k] * w[k]
                middle += w[k] * centre[k]
                magnitude += abs(w[k] * centre[k])
            length = (
                math.sqrt(square * (1.0 + (d + 4.0) * U)) * (1.0 + 4.0 * U)
                + math.sqrt(d) * 2.0**-536
            )
            square_error = ((d * U * enlarged(d) * square + UNDERFLOW) * enlarged(d)) * GROW
            # The normal is computed from the multipliers; its distance from the exact one.
            m = starts[one + 1] - starts[one]
            at = 0
            for k in range(q):
                row = starts[one] + k if k < m else starts[other] + k - m
                off[k] = norms[row]
                values[k] = norms[row] * abs(own[k])
                at += own[k] != 0.0
            summed = min(float(at), terms) + 1.0 + shifted
            reach = sum_of(values) * enlarged(size) + UNDERFLOW
            distance = (summed * U * enlarged(summed) * reach + UNDERFLOW) * GROW
            moved = (2.0 * length + distance) * distance
            dual_square, dual_square_error = square, (square_error + moved) * GROW
            # Scores are inner products of rows with the normal as it is.
            relative = (d + shifted) * U * length * enlarged(d)
            for k in range(q):
                off[k] = off[k] * relative * GROW + (d + 4.0) * SMALLEST
            middle_error = (d + 1.0) * U * enlarged(d + 1.0) * magnitude + UNDERFLOW
            b = middle + bias[part]
            b_error = (abs(b) * U + middle_error) * GROW
        else:
            for k in range(q):
                v = own[k] * labels[k]
                product = v * scores[k]
                values[k], sizes[k] = product, abs(product)
                errors[k] = (abs(product) * U + abs(v) * off[k]) * GROW + LOST
            square = sum_of(values)
            square_error = error_of_sum(square, sum_of(sizes), sum_of(errors), size)
            reach = (square + square_error) * GROW
            square = 0.0 if square < 0.0 else square
            square_error = (
                0.0 if reach <= 0.0 else (reach if reach < square_error else square_error)
            )
            dual_square, dual_square_error = square, square_error
        out[REGULARISER, part] = 0.5 * square
        out[REGULARISER + ERROR, part] = 0.5 * square_error + LOST
        losses_of(scores, off, b, b_error, labels, factors, squared, values, errors)
        loss = sum_of(values)
        loss_error = error_of_sum(loss, loss, sum_of(errors), size)
        out[LOSSES, part] = C * loss
        out[LOSSES + ERROR, part] = (C * loss * U + C * loss_error) * GROW + LOST
        dual_terms(own, C, factors, squared, values, errors)
        for k in range(q):
            sizes[k] = abs(values[k])
        total = sum_of(values)
        total_error = error_of_sum(total, sum_of(sizes), sum_of(errors), size)
        dual = total - 0.5 * dual_square
        out[DUAL, part] = dual
        out[DUAL + ERROR, part] = (
            abs(dual) * U + total_error + 0.5 * dual_square_error + LOST
        ) * GROW
        out[VIOLATION, part] = violation_of(own, labels, cost[first:last], not squared)
