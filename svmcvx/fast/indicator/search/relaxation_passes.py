r"""The dual value of the big-M relaxation at a node, and its minimisation, compiled.

What is minimised is stated in :mod:`svmcvx.fast.indicator.search.big_m_passes`: a squared norm and
a sum of hinges, with a price of squares for what violates a decision. Newton's method works on the
sum with its kinks rounded from below. Slopes are numbers within their limits, whatever the
minimisation did: the dual value is evaluated at them with a bound on the rounding errors of its
sums in any order (:mod:`svmcvx.certificate.bounded`).
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

from svmcvx.numerical import EVALUATIONS, INSIDE, SHARE
from svmcvx.system.compilation import compiled

__all__ = [
    "ANY_ORDER",
    "DROPPED",
    "FREE",
    "KEPT",
    "UNIT",
    "dual_value",
    "minimise_relaxation",
    "shortfalls",
]

FREE, KEPT, DROPPED = 0, 1, 2

# Sums may be reordered and contracted: the bounds on their rounding hold for any order.
ANY_ORDER = {"reassoc", "contract"}
UNIT = 2.0**-53
NEWTON_STEPS = 50
# The minimisation ends when its error is this share of the value.
ACCURATE = 1e-13
# Share of the decrease promised by the slope that a step must reach, and the shortest step.
ARMIJO, SHORTEST = 1e-4, 2.0**-39
# Pivots up to this share of the diagonal entry leave their coordinate where it is.
PIVOT = 1e-15


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _solve(A, x, stop):
    """Solve Ax = b by Cholesky's factorisation in place, and return b'x."""
    r, product = x.size, 0.0
    for j in range(r):
        if stop[0]:
            return product
        size = A[j, j]
        for i in range(j, r + 1):
            rest = A[i, j]
            for k in range(j):
                rest -= A[i, k] * A[j, k]
            if i == j:
                A[i, j] = math.sqrt(rest) if rest > PIVOT * size else math.inf
            else:
                A[i, j] = rest / A[j, j]
        product += A[r, j] * A[r, j]
    for i in range(r - 1, -1, -1):
        rest = A[r, i]
        for k in range(i + 1, r):
            rest -= A[k, i] * x[k]
        x[i] = rest / A[i, i]
    return product


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def shortfalls(HT, w, a):
    """Write 1 − u to `a`."""
    r, n = HT.shape
    for i in range(n):
        a[i] = 1.0
    for c in range(r):
        for i in range(n):
            a[i] -= HT[c, i] * w[c]


# Without branches, and a division that raises nothing, the loop takes several rows at a time.
@compiled(inner=True, nogil=True, fastmath=ANY_ORDER, error_model="numpy")
def _value(HT, state, cap, big_m, share, cut, rho, columns, w, a, slope, bend):
    """Return the squared norm and the sum of the rounded terms at `w`, without the prices of
    dropped ones.
    """
    shortfalls(HT, w, a)
    value = 0.0
    for i in range(a.size):
        width = share * big_m[i]
        near, turn, beyond = min(max(a[i], 0.0), width), cap[i] / width, a[i] - cut
        out = (
            max(beyond, 0.0)
            if state[i] == KEPT
            else min(beyond, 0.0)
            if state[i] == DROPPED
            else 0.0
        )
        rise = (turn * a[i] if a[i] < width else cap[i]) if a[i] > 0.0 else 0.0
        slope[i] = rise + 2.0 * rho * out
        bend[i] = (turn if 0.0 < a[i] < width else 0.0) + (2.0 * rho if out != 0.0 else 0.0)
        value += turn * near * (a[i] - 0.5 * near) + rho * out * beyond
    for c in range(columns):
        value += w[c] * w[c]
    return value


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER, error_model="numpy")
def _derivative(state, cap, big_m, share, cut, rho, a, along, size):
    """Return the derivative of the rounded terms where the shortfalls are `a` and `size` times
    their change `along`.
    """
    total = 0.0
    for i in range(a.size):
        at, width = a[i] + size * along[i], share * big_m[i]
        beyond = at - cut
        out = (
            max(beyond, 0.0)
            if state[i] == KEPT
            else min(beyond, 0.0)
            if state[i] == DROPPED
            else 0.0
        )
        total += along[i] * (cap[i] * min(max(at / width, 0.0), 1.0) + 2.0 * rho * out)
    return total


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _step_length(state, cap, big_m, share, cut, rho, a, along, norm_slope, curvature, start, stop):
    """Return a step length, at most 1, near which the derivative along a line vanishes, as
    :func:`~svmcvx.numerical.line_search` does.
    """
    low, low_slope, high, high_slope, size = 0.0, start, 1.0, 0.0, 1.0
    for _ in range(EVALUATIONS):
        here = (
            norm_slope
            + curvature * size
            + _derivative(state, cap, big_m, share, cut, rho, a, along, size)
        )
        if abs(here) <= -SHARE * start or (here < 0.0 and size >= 1.0) or stop[0]:
            return size
        if here < 0.0:
            low, low_slope, high_slope = size, here, 0.5 * high_slope
        else:
            high, high_slope, low_slope = size, here, 0.5 * low_slope
        size = low + (high - low) * min(
            1.0 - INSIDE, max(INSIDE, low_slope / (low_slope - high_slope))
        )
    return low


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def dual_value(HT, length, state, cap, height, cut, slope, free, low, high, centre):
    """Evaluate the dual value at slopes, rounded downwards; `centre` becomes m."""
    r, n = HT.shape
    columns = r - 1 if free else r
    constant = size = mass = 0.0
    for i in range(n):
        beta = slope[i]
        if state[i] == FREE:
            beta = min(max(beta, 0.0), cap[i])
            part = beta
        elif state[i] == KEPT:
            beta = max(beta, 0.0)
            inner = min(beta, cap[i])
            part = inner + (beta - inner) * (1.0 - cut)
        else:
            beta = min(beta, 0.0)
            part = height[i] + beta * (1.0 - cut)
            size += height[i]
        constant += part
        size += abs(beta) * (1.0 + cut)
        mass += abs(beta) * length[i]
        slope[i] = beta
    squared = 0.0
    for c in range(r):
        along = 0.0
        for i in range(n):
            along += slope[i] * HT[c, i]
        centre[c] = 0.5 * along
        squared += centre[c] * centre[c] if c < columns else 0.0
    error = (n + 8) * UNIT * mass
    longest = math.sqrt(squared) * (1.0 + (r + 8) * UNIT) + error
    below = constant - (n + 8) * UNIT * size - longest * longest * (1.0 + 8 * UNIT)
    delta = 0.0
    if free:
        delta, centre[r - 1], total = 2.0 * centre[r - 1], 0.0, 0.0
        for i in range(n):
            total += abs(slope[i] * HT[r - 1, i])
        reach = max(abs(low), abs(high))
        below -= max(delta * low, delta * high) + (n + 8) * UNIT * total * reach
    below -= 8 * UNIT * (size + longest * longest)
    return below, error, longest, delta


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def minimise_relaxation(
    HT, length, state, cap, height, big_m, share, cut, rho, free, low, high, enough, upper, w, a, slope, centre,
    bend, base, step, system, stop
):  # fmt: skip
    """Newton's method from `w`, which becomes the minimiser, `a` its shortfalls and `slope` the
    slopes there.
    """
    r, n = HT.shape
    columns = r - 1 if free else r
    prices = 0.0
    for i in range(n):
        if state[i] == DROPPED:
            prices += height[i]
    for c in range(r):
        base[c], step[c] = w[c], 0.0
    size, before, decrease = 0.0, math.inf, 0.0
    for iteration in range(NEWTON_STEPS):
        while True:
            for c in range(r):
                w[c] = base[c] - size * step[c]
            value = _value(HT, state, cap, big_m, share, cut, rho, columns, w, a, slope, bend)
            if size == 0.0 or value <= before - ARMIJO * size * decrease:
                break
            size = 0.5 * size if size > SHORTEST and not stop[0] else 0.0
        below, error, longest, delta = dual_value(
            HT, length, state, cap, height, cut, slope, free, low, high, centre
        )
        missing = value + prices - below
        if (
            below >= upper
            or missing <= enough * (upper - below)
            or missing <= ACCURATE * abs(value)
        ):
            break
        # What no step makes smaller is the minimum to rounding.
        if (iteration > 0 and size == 0.0) or iteration == NEWTON_STEPS - 1 or stop[0]:
            break
        # The slopes are within their limits, so that m is half of their sum.
        for c in range(r):
            base[c] = w[c]
            system[r, c] = 2.0 * (w[c] - centre[c]) if c < columns else -delta
            for e in range(c + 1):
                system[c, e] = 2.0 if c == e and c < columns else 0.0
        # Few rows are near their kink.
        for i in range(n):
            if stop[0]:
                break
            if bend[i] != 0.0:
                for c in range(r):
                    step[c] = HT[c, i]
                for c in range(r):
                    along = bend[i] * step[c]
                    for e in range(c + 1):
                        system[c, e] += along * step[e]
        if free:
            # Where no rounded kink is near, the sum is linear in the bias: a step there is no
            # longer than its interval.
            system[r - 1, r - 1] += abs(system[r, r - 1]) / (high - low) if high > low else math.inf
        before = value
        decrease = _solve(system, step, stop)
        if stop[0] or not decrease > 0.0:
            break
        # What the shortfalls change by along the step.
        for i in range(n):
            bend[i] = 0.0
        norm_slope = curvature = 0.0
        for c in range(r):
            if c < columns:
                norm_slope -= 2.0 * base[c] * step[c]
                curvature += 2.0 * step[c] * step[c]
            for i in range(n):
                bend[i] += HT[c, i] * step[c]
        size = _step_length(
            state, cap, big_m, share, cut, rho, a, bend, norm_slope, curvature, -decrease, stop
        )
    return below, error, longest, delta
