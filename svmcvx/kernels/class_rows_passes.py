r"""Compiled rows of kernel matrices between observations that are sorted by group, computed when
they are first used.

The matrix is stored in pieces: the entries between an observation and all of one group, one after
another in a pool in the order of their first use. Each entry depends on its two observations and on
the size of the group alone, not on when it is computed.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import GROW, U
from svmcvx.certificate.rows import UNDERFLOW
from svmcvx.system.compilation import compiled

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.int64]


class Pieces(NamedTuple):
    """Arrays of :class:`svmcvx.kernels.class_rows.ClassRows`: the rows and their transposes by group,
    where each group starts, γ (0 for inner products), where each piece is stored, the pool and how
    much of it is used, and scratch space.
    """

    rows: Floats
    across: Floats
    starts: Places
    gamma: float
    places: Places
    store: Floats
    used: Places
    scratch: Floats


class EntryTerms(NamedTuple):
    """The fields of :class:`svmcvx.kernels.EntryError` that are not of single entries."""

    rows: Floats
    columns: Floats
    left: Floats
    right: Floats
    absolute: float


# Exponents below this give exp(LEAST), some 3e-308.
LEAST = -708.0
LOG2_E = 1.4426950408889634
# ln 2 in two parts, of which the first has so many zeros at its end that small multiples of it are
# exact [Cody, Waite].
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10
# Adding it rounds to a whole number, which the last bits of the sum then hold.
ROUNDING = 6755399441055744.0
EXPONENT_BITS = 52
EXPONENT_OF_ONE = 1023 << 52


@compiled(inner=True)
def exponentials(x, scratch):
    """Replace numbers from -inf to 0 by their exponentials: 2^k times a polynomial on half a unit
    around 0.
    """
    for k in range(x.size):
        value = x[k] if x[k] > LEAST else LEAST
        shifted = value * LOG2_E + ROUNDING
        scratch[k] = shifted
        whole = shifted - ROUNDING
        r = (value - whole * LN2_HIGH) - whole * LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        x[k] = 1.0 + (r + (r * r) * p)
    bits = scratch.view(np.int64)
    for k in range(x.size):
        bits[k] = (bits[k] << EXPONENT_BITS) + EXPONENT_OF_ONE
    for k in range(x.size):
        x[k] *= scratch[k]


@compiled(inner=True)
def squared_differences(x, across, out):
    """Write the squared distances of a row to all of a group, whose columns follow each other in
    `across`.
    """
    m, d = out.size, x.size
    out[:] = 0.0
    k = 0
    while k + 4 <= d:
        a, b = across[k * m : (k + 1) * m], across[(k + 1) * m : (k + 2) * m]
        c, e = across[(k + 2) * m : (k + 3) * m], across[(k + 3) * m : (k + 4) * m]
        xa, xb, xc, xe = x[k], x[k + 1], x[k + 2], x[k + 3]
        for j in range(m):
            ta, tb, tc, te = xa - a[j], xb - b[j], xc - c[j], xe - e[j]
            out[j] += (ta * ta + tb * tb) + (tc * tc + te * te)
        k += 4
    while k < d:
        a, xa = across[k * m : (k + 1) * m], x[k]
        for j in range(m):
            ta = xa - a[j]
            out[j] += ta * ta
        k += 1


@compiled(inner=True)
def inner_products(x, across, out):
    """Write the inner products of a row with all of a group, whose columns follow each other in
    `across`.
    """
    m, d = out.size, x.size
    out[:] = 0.0
    k = 0
    while k + 4 <= d:
        a, b = across[k * m : (k + 1) * m], across[(k + 1) * m : (k + 2) * m]
        c, e = across[(k + 2) * m : (k + 3) * m], across[(k + 3) * m : (k + 4) * m]
        xa, xb, xc, xe = x[k], x[k + 1], x[k + 2], x[k + 3]
        for j in range(m):
            out[j] += (xa * a[j] + xb * b[j]) + (xc * c[j] + xe * e[j])
        k += 4
    while k < d:
        a, xa = across[k * m : (k + 1) * m], x[k]
        for j in range(m):
            out[j] += xa * a[j]
        k += 1


@compiled(inner=True)
def piece_of(i, group, K):
    """Return where the entries between an observation and a group are stored, after computing them
    at the first use; -1 if there is no room.
    """
    at = K.places[i, group]
    if at >= 0:
        return int(at)
    first, last = K.starts[group], K.starts[group + 1]
    m, d = last - first, K.rows.shape[1]
    at = K.used[0]
    if at + m > K.store.size:
        return -1
    K.used[0] = at + m
    out = K.store[at : at + m]
    if K.gamma > 0.0:
        squared_differences(K.rows[i], K.across[first * d : last * d], out)
        for j in range(m):
            out[j] *= -K.gamma
        exponentials(out, K.scratch[:m])
    else:
        inner_products(K.rows[i], K.across[first * d : last * d], out)
    K.places[i, group] = at
    return int(at)


@compiled(inner=True)
def add_piece(entries, v, share, scores, magnitude, weighted):
    """Add what one coefficient contributes."""
    size = abs(v)
    if weighted.size == 0:
        for j in range(entries.size):
            scores[j] += v * entries[j]
            magnitude[j] += size * abs(entries[j])
        return
    part = share * size
    for j in range(entries.size):
        entry = abs(entries[j])
        scores[j] += v * entries[j]
        magnitude[j] += size * entry
        weighted[j] += part * entry


@compiled(nogil=True)
def write_places(groups, starts, offsets, out):
    """Write the sorted observation of each number of an array of all parts; see
    :class:`svmcvx.kernels.class_rows.Layout`.
    """
    for part in range(groups.shape[0]):
        at = offsets[part]
        for side in range(2):
            group = groups[part, side]
            if group >= 0:
                for row in range(starts[group], starts[group + 1]):
                    out[at] = row
                    at += 1


@compiled(inner=True)
def enlarged(k):
    """Return :func:`svmcvx.certificate.bounded.growth`."""
    return GROW + 4.0 * k * U


@compiled(nogil=True)
def add_scores(groups, offsets, v, error, scores, magnitude, weighted, K):
    """Add K v of several parts to zeros, with bounds on the errors of the sums and of the entries;
    return whether there was room for all K.rows.
    """
    for part in range(groups.shape[0]):
        first, last = offsets[part], offsets[part + 1]
        one, other = groups[part, 0], groups[part, 1]
        middle = first + K.starts[one + 1] - K.starts[one]
        terms, whole, others = 0.0, 0.0, 0.0
        for k in range(first, last):
            if v[k] == 0.0:
                continue
            i = K.starts[one] + k - first if k < middle else K.starts[other] + k - middle
            share = error.columns[i] if error.columns.size else 0.0
            terms += 1.0
            whole += abs(v[k])
            others += error.right[i] * abs(v[k]) if error.right.size else 0.0
            at = piece_of(i, one, K)
            if at < 0:
                return False
            end = middle if weighted.size else first
            extra = weighted[first:end]
            add_piece(
                K.store[at : at + middle - first],
                v[k],
                share,
                scores[first:middle],
                magnitude[first:middle],
                extra,
            )
            if other >= 0:
                at = piece_of(i, other, K)
                if at < 0:
                    return False
                extra = weighted[middle:last] if weighted.size else weighted
                add_piece(
                    K.store[at : at + last - middle],
                    v[k],
                    share,
                    scores[middle:last],
                    magnitude[middle:last],
                    extra,
                )
        # Sums of numbers that are not negative, from above.
        wider = enlarged(terms + 2.0)
        whole = (whole * wider + UNDERFLOW) * error.absolute
        others = others * wider + UNDERFLOW
        more = 1.0 + (terms + 16.0) * 2.0 * U
        for k in range(first, last):
            i = K.starts[one] + k - first if k < middle else K.starts[other] + k - middle
            size = magnitude[k] * wider + UNDERFLOW
            entries = whole
            if error.rows.size:
                entries += error.rows[i] * size
            if error.left.size:
                entries += error.left[i] * others
            if weighted.size:
                entries += weighted[k] * wider + UNDERFLOW
            magnitude[k] = (terms + 2.0) * U * wider * size + entries * more + 2.0 * UNDERFLOW
    return True
