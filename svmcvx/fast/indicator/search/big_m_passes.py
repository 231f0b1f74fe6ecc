r"""Bounds of the big-M relaxation with some observations kept and others dropped, compiled.

The search minimises

.. math:: \|w\|^2 + \sum_i h_i\,\ell(a_i), \qquad a_i = 1 - u_i,\; u_i = g_i'w + y_ib,

where the loss :math:`\ell` is 0 for a ≤ 0, grows linearly to 1 at a = c and is 1 beyond: the ramp
loss has c = 2, the 0-1 loss is its limit c = 0. Observations are kept (a ≤ c), dropped (a ≥ c), or
free. Of the points of a node only those better than the incumbent U count; let :math:`M_i` be the
largest :math:`a_i` among them.

**Relaxation.** Up to :math:`M_i` the loss of a free observation is at least :math:`(a_i)_+ /
\max(M_i, c)`. For any slopes β, with :math:`0 \le \beta_i \le h_i/\max(M_i, c)` where i is free,
anything beyond the slope of the loss on the side that is allowed where it is not, each point of the
node costs at least

.. math:: B - b\,\delta + \|w\|^2 - 2w'm \;=\; B - b\,\delta - \|m\|^2 + \|w - m\|^2,
    \qquad m = \tfrac12\sum\beta_ig_i,\; \delta = \sum\beta_iy_i,

where B collects the constants. Without a bias this is :math:`D + \|w - m\|^2` with the dual value
:math:`D = B - \|m\|^2`.

**Tightening.** So every point that counts lies in the ball of radius :math:`\sqrt{U - D}` around m.
The smallest margin there gives a new :math:`M_i`; where the ball does not reach a = c, the
observation is kept or dropped. Smaller :math:`M_i` raise D, and so on.

**Rounding.** The dual value comes with the error of m
(:mod:`svmcvx.fast.indicator.search.relaxation_passes`), by which the ball is widened. A bound
returned here holds for the rows as they are in memory.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import math

import numpy as np

from svmcvx.fast.indicator.search.relaxation_passes import (
    ANY_ORDER,
    DROPPED,
    FREE,
    KEPT,
    UNIT,
    dual_value,
    minimise_relaxation,
    shortfalls,
)
from svmcvx.system.compilation import compiled

__all__ = ["relax", "rounded_up", "strengthen"]

# The kinks are rounded less where the bound comes as near to the incumbent as this share.
CLOSE = 5e-3
# M have this many units between one half and one, so that a second program with other rounding
# finds the same: bits of a double beyond.
DIGITS = 4096
BEYOND = (1 << 53) // DIGITS - 1
# Multipliers are recorded with 65 536 units: bits beyond.
UNRECORDED = (1 << 53) // 65536 - 1
# Tightening goes on while one of the M falls below this share of itself.
TIGHTER = 0.9
# The term of a row whose shortfall is maximised is linear from this share of its M on.
KINK = 1e-9


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _limits(state, weight, price, M, cut, height, cap, big_m):
    """Write the prices of the losses, the largest slopes, and the shortfalls to which a loss grows."""
    for i in range(M.size):
        height[i] = price * weight[i] * (1.0 - 4 * UNIT)
        cap[i], big_m[i] = 0.0, max(cut, 1.0)
        if state[i] == FREE and math.isfinite(M[i]):
            big_m[i] = max(M[i], cut)
            cap[i] = height[i] / big_m[i] * (1.0 - 4 * UNIT)
        elif state[i] == KEPT and cut > 0.0:
            cap[i] = height[i] / cut * (1.0 - 4 * UNIT)


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def rounded_up(value):
    """Round up to a number of few digits; what is not positive or infinite stays."""
    if not value > 0.0:
        return value
    # The next double is the next whole number, read as such.
    return np.int64((np.float64(value).view(np.int64) + BEYOND) & ~BEYOND).view(np.float64)


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _tighten(
    HT, length, state, M, cut, free, box, upper, below, error, longest, centre, a, wider, loose
):
    """Lower M and settle observations by the ball; tell whether another round is worth while, and
    whether anything has changed.
    """
    r, n = HT.shape
    radius = (
        math.sqrt(max(upper - below, 0.0) + loose) * (1.0 + 8 * UNIT)
        + error
        + (r + 8) * UNIT * (longest + 1.0)
    )
    shortfalls(HT, centre, a)
    again = changed = False
    for i in range(n):
        if state[i] != FREE:
            continue
        reach = length[i] * radius * (1.0 + 16 * UNIT + wider) + wider * (1.0 + abs(a[i]))
        most, least = (
            a[i] + reach + 8 * UNIT * (1.0 + abs(a[i])),
            a[i] - reach - 8 * UNIT * (1.0 + abs(a[i])),
        )
        if free:
            one, other = HT[r - 1, i] * box[0], HT[r - 1, i] * box[1]
            most -= min(one, other) - 8 * UNIT * (abs(one) + abs(other))
            least -= max(one, other) + 8 * UNIT * (abs(one) + abs(other))
        if most <= cut:
            state[i] = KEPT
            changed = True
        elif least > cut:
            state[i] = DROPPED
            again = changed = True
        else:
            most = rounded_up(most)
            if most < M[i]:
                again = again or most < TIGHTER * M[i]
                changed = True
                M[i] = most
    return again, changed


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _few_digits(state, cap, slope, rounded):
    """Round slopes that are not at their limits to few digits, towards 0."""
    for i in range(slope.size):
        short = np.int64(np.float64(slope[i]).view(np.int64) & ~UNRECORDED).view(np.float64)
        rounded[i] = slope[i] if state[i] == FREE and slope[i] >= cap[i] else short


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _record(state, cap, slope, marks, rows, numbers, end):
    """Write which slopes are at their limits as bits, and the others that are not 0 from place
    `end` on; return the place behind.
    """
    for byte in range(marks.size):
        marks[byte] = 0
    for i in range(slope.size):
        if slope[i] == 0.0:
            continue
        if state[i] == FREE and slope[i] >= cap[i]:
            marks[i >> 3] |= 0x80 >> (i & 7)
        else:
            rows[end], numbers[end] = i, slope[i]
            end += 1
    return end


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _undecided(state, weight, M, cut, a):
    """The free observation whose relaxed indicator is the farthest from 0 and 1; of none such the
    nearest to its margin.
    """
    chosen, most, nearest = -1, 0.0, math.inf
    for i in range(a.size):
        if state[i] != FREE:
            continue
        share = min(max(a[i], 0.0) / max(M[i], cut), 1.0)
        doubt = min(share, 1.0 - share) * weight[i]
        if doubt > most:
            most, chosen = doubt, i
        elif most == 0.0 and abs(a[i] - cut) < nearest:
            nearest, chosen = abs(a[i] - cut), i
    return chosen


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _note(facts, entry, free, price, value, side, at):
    """Write a bound without its multipliers; what it has changed follows later."""
    facts[entry, 0], facts[entry, 1], facts[entry, 2] = price, value, 0.0
    if free:
        facts[entry, 3], facts[entry, 4] = side, at


@compiled(nogil=True, inline="always")
def relax(
    HT, length, weight, price, budget, cut, rho, free, widths, enough, rounds, wider, loose, upper, state, M, w, box,
    facts, marks, number_rows, numbers, behind, end, rows, columns, system, stop
):  # fmt: skip
    """Bound a node: what keeps and drops as `state` says and is better than `upper`."""
    r, n = HT.shape
    a, cap, big_m, height, slope, bend, shift, tilt = rows
    centre, trial, middle, base, step = columns
    bound, used = -math.inf, 0
    for turn in range(max(rounds, 1)):
        _limits(state, weight, price, M, cut, height, cap, big_m)
        given = 0.0 if math.isinf(budget) else price * budget * (1.0 + 4 * UNIT)
        goal = upper + given
        below = error = longest = value = final = 0.0
        best = -math.inf
        for share in widths:
            final = share
            below, error, longest, _delta = minimise_relaxation(
                HT,
                length,
                state,
                cap,
                height,
                big_m,
                share,
                cut,
                rho,
                free,
                box[0],
                box[1],
                enough,
                goal,
                w,
                a,
                slope,
                centre,
                bend,
                base,
                step,
                system,
                stop,
            )
            if below >= goal or goal - below > CLOSE * abs(goal) or stop[0]:
                break
            if free and below > best:
                best = below
                for i in range(n):
                    tilt[i] = slope[i]
        if best > below:
            # Newton's method has lost digits with the last widths.
            for i in range(n):
                slope[i] = tilt[i]
            below, error, longest, _delta = dual_value(
                HT, length, state, cap, height, cut, slope, free, box[0], box[1], centre
            )
        tightens = math.isfinite(upper) and rounds > 0 and not stop[0]
        if free:
            if tightens and turn == 0 and below < upper:
                # Shrink the interval of the bias: the dual value at a fixed b is a bound, linear in
                # b, for all b.
                for side in range(box.size):
                    for c in range(r):
                        trial[c] = w[c]
                    at = 0.5 * (w[r - 1] + box[side])
                    if not box[0] < at < box[1]:
                        continue
                    trial[r - 1] = at
                    minimise_relaxation(
                        HT,
                        length,
                        state,
                        cap,
                        height,
                        big_m,
                        final,
                        cut,
                        rho,
                        free,
                        at,
                        at,
                        0.0,
                        math.inf,
                        trial,
                        shift,
                        tilt,
                        middle,
                        bend,
                        base,
                        step,
                        system,
                        stop,
                    )
                    low, high = (box[0], at) if side == 0 else (at, box[1])
                    there, _, _, _ = dual_value(
                        HT, length, state, cap, height, cut, tilt, free, low, high, middle
                    )
                    if there - wider * abs(there) - loose >= upper:
                        _note(facts, used, free, price, there, 2.0 * side - 1.0, at)
                        facts[used, 2] = 1.0
                        end = _record(state, cap, tilt, marks[used], number_rows, numbers, end)
                        behind[used] = end
                        used += 1
                        box[side] = at
                below, error, longest, _delta = dual_value(
                    HT, length, state, cap, height, cut, slope, free, box[0], box[1], centre
                )
        else:
            # The bound is that of the slopes which are recorded.
            _few_digits(state, cap, slope, tilt)
            rounded, error, longest, _delta = dual_value(
                HT, length, state, cap, height, cut, tilt, free, box[0], box[1], centre
            )
            if below >= goal > rounded:
                _, error, longest, _delta = dual_value(
                    HT, length, state, cap, height, cut, slope, free, box[0], box[1], centre
                )
            else:
                below = rounded
                for i in range(n):
                    slope[i] = tilt[i]
        value = below - given - 4 * UNIT * (abs(below) + given)
        bound = max(bound, value)
        _note(facts, used, free, price, value, 0.0, 0.0)
        end = _record(state, cap, slope, marks[used], number_rows, numbers, end)
        behind[used] = end
        used += 1
        if bound >= upper:
            return bound, -1, price, used
        again = False
        if stop[0]:
            break
        if tightens:
            again, changed = _tighten(
                HT,
                length,
                state,
                M,
                cut,
                free,
                box,
                upper,
                value,
                error,
                longest,
                centre,
                shift,
                wider,
                loose,
            )
            facts[used - 1, 2] = 1.0 if changed else 0.0
        if not math.isinf(budget):
            # The budget should be spent by the relaxation: its multiplier rises where it asks for
            # more.
            asked = spent = 0.0
            for i in range(n):
                if state[i] == DROPPED:
                    spent += weight[i]
                elif state[i] == FREE:
                    asked += weight[i] * min(max(a[i], 0.0) / M[i], 1.0)
            room = budget - spent
            if room < -4 * n * UNIT * budget:
                return math.inf, -1, price, used
            ratio = min(max((asked + 1e-3) / (room + 1e-3), 0.25), 4.0)
            price *= ratio
            again = again or abs(ratio - 1.0) > 0.1
        if not again:
            break
    return bound, _undecided(state, weight, M, cut, a), price, used


@compiled(nogil=True)
def strengthen(
    HT, length, weight, price, rho, share, enough, wider, loose, upper, state, M, w,
    facts, marks, number_rows, numbers, behind, tilted, lengths, states, rows, columns, system, stop,
):  # fmt: skip
    """Lower the M of a node without a bias or a budget, each by another ball; return the best bound
    of these and their number.
    """
    r, n = HT.shape
    a, cap, big_m, height, slope, bend, short, away = rows
    centre, first, point, base, step = columns
    bound, radius, used, end, nowhere = -math.inf, 0.0, 0, 0, (0.0, 0.0)
    # One row more stands for −t a_i: it is dropped at no price, and its slope is −t.
    states[n], height[n] = DROPPED, 0.0
    # Before all rows the ball of the relaxation itself, from which each of them begins.
    for i in range(-1, n):
        if stop[0] or bound >= upper:
            break
        if i >= 0 and (state[i] != FREE or length[i] == 0.0):
            continue
        for j in range(n):
            states[j] = state[j]
        _limits(state, weight, price, M, 0.0, height, cap, big_m)
        tilt, value, reach, big_m[n], lengths[n] = 2.0 * radius, 0.0, math.inf, 1.0, 0.0
        if i >= 0:
            lengths[n], big_m[n] = length[i], KINK * M[i]
        below = error = longest = 0.0
        for _ in range(2):
            cap[n] = -tilt / length[i] if i >= 0 else 0.0
            for c in range(r):
                tilted[c, n] = HT[c, max(i, 0)]
                point[c] = first[c] + 0.5 * cap[n] * tilted[c, n] if i >= 0 else w[c]
            minimise_relaxation(
                tilted, lengths, states, cap, height, big_m, share, 0.0, rho, False, 0.0, 0.0, enough, upper, point, a, slope,
                centre, bend, base, step, system, stop,
            )  # fmt: skip
            _few_digits(states, cap, slope, short)
            # The ball is that of the multipliers without t.
            below, error, longest, _delta = dual_value(
                HT, length, state, cap, height, 0.0, short, False, 0.0, 0.0, centre
            )
            value = below - 4 * UNIT * abs(below)
            tilt = 2.0 * math.sqrt(max(upper - value, 0.0))
            if i < 0 or value >= upper:
                break
        if i < 0:
            radius = 0.5 * tilt
            for c in range(r):
                first[c] = centre[c]
            continue
        reach = 1.0 + 0.5 * tilt * length[i]
        for c in range(r):
            reach -= HT[c, i] * centre[c]
        if reach < TIGHTER * M[i] or value >= upper:
            bound = max(bound, value)
            _note(facts, used, False, price, value, 0.0, 0.0)
            facts[used, 2], short[n] = 1.0, 0.0
            end = _record(states, cap, short, marks[used], number_rows, numbers, end)
            behind[used] = end
            used += 1
            if value < upper:
                _tighten(
                    HT,
                    length,
                    state,
                    M,
                    0.0,
                    False,
                    nowhere,
                    upper,
                    value,
                    error,
                    longest,
                    centre,
                    away,
                    wider,
                    loose,
                )
    return bound, used
