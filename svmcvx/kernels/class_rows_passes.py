r"""Compiled rows of kernel matrices between observations that are sorted by group, computed when
they are first used.

The matrix is stored in pieces: the entries between an observation and all of one group, one after
another in a pool in the order of their first use. Each entry computed here depends on its two
observations and on the size of the group alone, not on when it is computed.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import GROW, U
from svmcvx.certificate.rows import UNDERFLOW
from svmcvx.system.compilation import compiled

Places: TypeAlias = NDArray[np.int64]


class Pieces(NamedTuple):
    """Arrays of :class:`~svmcvx.kernels.class_rows.ClassRows`: rows and their transposes by group,
    with a multiple of four columns; where each group starts, γ (0 for inner products), where each
    piece is stored, the pool and how much of it is used, and scratch space.
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
    """A bound on the error of an entry, :math:`|K_{ij}| r_i + p_i q_j + a`."""

    rows: Floats
    left: Floats
    right: Floats
    absolute: float


# Exponents below this give exp(LEAST), some 3e-308.
LEAST = -708.0
# ln 2 in two parts, of which the first has so many zeros at its end that small multiples of it are
# exact [Cody, Waite].
LN2_HIGH, LN2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10
# Adding it rounds to a whole number, which the last bits of the sum then hold.
ROUNDING = 6755399441055744.0


@compiled(inner=True)
def exponentials(x, scratch):
    """Replace numbers from −∞ to 0 by exponentials: 2^k times a polynomial on [−½, ½]."""
    for k in range(x.size):
        value = x[k] if x[k] > LEAST else LEAST
        shifted = value * 1.4426950408889634 + ROUNDING
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
        bits[k] = (bits[k] << 52) + (1023 << 52)
    for k in range(x.size):
        x[k] *= scratch[k]


@compiled(inner=True)
def write_row(x, across, squared, out):
    """Write a row's squared distances to, or inner products with, the group's columns `across`."""
    m = out.size
    out[:] = 0.0
    for k in range(0, x.size, 4):
        a, b = across[k * m : (k + 1) * m], across[(k + 1) * m : (k + 2) * m]
        c, e = across[(k + 2) * m : (k + 3) * m], across[(k + 3) * m : (k + 4) * m]
        xa, xb, xc, xe = x[k], x[k + 1], x[k + 2], x[k + 3]
        if squared:
            for j in range(m):
                ta, tb, tc, te = xa - a[j], xb - b[j], xc - c[j], xe - e[j]
                out[j] += (ta * ta + tb * tb) + (tc * tc + te * te)
        else:
            for j in range(m):
                out[j] += (xa * a[j] + xb * b[j]) + (xc * c[j] + xe * e[j])


@compiled(inner=True)
def piece_of(i, group, K):
    """Return the place of a row's entries with a group, computed at first use; -1 without room."""
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
    write_row(K.rows[i], K.across[first * d : last * d], K.gamma > 0.0, out)
    if K.gamma > 0.0:
        for j in range(m):
            out[j] *= -K.gamma
        exponentials(out, K.scratch[:m])
    K.places[i, group] = at
    return int(at)


@compiled(nogil=True)
def add_scores(groups, offsets, v, error, scores, magnitude, K):
    """Add K v of parts to zeros, with bounds on both errors; return whether all rows had room."""
    for part in range(groups.shape[0]):
        first, last = offsets[part], offsets[part + 1]
        one, other = groups[part, 0], groups[part, 1]
        middle = first + K.starts[one + 1] - K.starts[one]
        terms, whole, others = 0.0, 0.0, 0.0
        for k in range(first, last):
            if v[k] == 0.0:
                continue
            i = K.starts[one] + k - first if k < middle else K.starts[other] + k - middle
            coefficient, size = v[k], abs(v[k])
            terms += 1.0
            whole += size
            others += error.right[i] * size
            for side in range(2 if other >= 0 else 1):
                begin, end = (middle, last) if side else (first, middle)
                at = piece_of(i, groups[part, side], K)
                if at < 0:
                    return False
                entries = K.store[at : at + end - begin]
                f, sizes = scores[begin:end], magnitude[begin:end]
                for j in range(entries.size):
                    f[j] += coefficient * entries[j]
                    sizes[j] += size * abs(entries[j])
        # Sums of numbers that are not negative, from above.
        wider = GROW + 4.0 * (terms + 2.0) * U
        whole = (whole * wider + UNDERFLOW) * error.absolute
        others = others * wider + UNDERFLOW
        for k in range(first, last):
            i = K.starts[one] + k - first if k < middle else K.starts[other] + k - middle
            size = magnitude[k] * wider + UNDERFLOW
            entries_error = whole + error.rows[i] * size + error.left[i] * others
            entries_error *= 1.0 + (terms + 16.0) * 2.0 * U
            magnitude[k] = (terms + 2.0) * U * wider * size + entries_error + 2.0 * UNDERFLOW
    return True
