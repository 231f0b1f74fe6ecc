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

**Minimisation.** Newton's method works on the sum with its kinks rounded from below and a price of
squares for what violates a decision. Slopes are numbers within their limits, whatever the
minimisation did.

**Rounding.** The dual value is evaluated at the slopes with a bound on the rounding errors of its
sums in any order, and with the error of m, by which the ball is widened. A bound returned here
holds for the rows as they are in memory.
"""

from __future__ import annotations

import math

import numpy as np

from svmcvx.certificate.bounded import U
from svmcvx.numerical import EVALUATIONS, INSIDE, SHARE
from svmcvx.system.compilation import compiled

# numba infers the types.
# mypy: allow-untyped-defs


FREE, KEPT, DROPPED = range(3)

# Sums may be reordered and contracted: the bounds on their rounding hold for any order.
ANY_ORDER = {"reassoc", "contract"}


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _solve(A, x, stop):
    """Solve Ax = b by Cholesky in place, return b'x; coordinates without pivots stay unchanged."""
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
                A[i, j] = math.sqrt(rest) if rest > 8.0 * U * size else math.inf
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
    r, n = HT.shape
    for i in range(n):
        a[i] = 1.0
    for c in range(r):
        for i in range(n):
            a[i] -= HT[c, i] * w[c]


# Without branches, and a division that raises nothing, the loop takes several rows at a time.
@compiled(inner=True, nogil=True, fastmath=ANY_ORDER, error_model="numpy")
def _value(rows, node, loss, share, columns, w, a, slope, bend):
    """Return the squared norm and rounded terms at `w`, without the prices of dropped ones."""
    (HT, _), (state, cap, _, big_m), (cut, rho, _) = rows, node, loss
    shortfalls(HT, w, a)
    value = 0.0
    for i in range(a.size):
        width = share * big_m[i]
        near, turn, beyond = min(max(a[i], 0.0), width), cap[i] / width, a[i] - cut
        out = max(beyond, 0.0) if state[i] == KEPT else 0.0
        out = min(beyond, 0.0) if state[i] == DROPPED else out
        rise = (turn * a[i] if a[i] < width else cap[i]) if a[i] > 0.0 else 0.0
        slope[i] = rise + 2.0 * rho * out
        bend[i] = (turn if 0.0 < a[i] < width else 0.0) + (2.0 * rho if out != 0.0 else 0.0)
        value += turn * near * (a[i] - 0.5 * near) + rho * out * beyond
    for c in range(columns):
        value += w[c] * w[c]
    return value


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER, error_model="numpy")
def _derivative(node, loss, share, a, along, size):
    """Return the rounded terms' derivative at shortfalls `a`, for the change `size` × `along`."""
    (state, cap, _, big_m), (cut, rho, _) = node, loss
    total = 0.0
    for i in range(a.size):
        at, width = a[i] + size * along[i], share * big_m[i]
        beyond = at - cut
        out = max(beyond, 0.0) if state[i] == KEPT else 0.0
        out = min(beyond, 0.0) if state[i] == DROPPED else out
        total += along[i] * (cap[i] * min(max(at / width, 0.0), 1.0) + 2.0 * rho * out)
    return total


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _step_length(node, loss, share, a, along, norm_slope, curvature, start, stop):
    """Return a step of at most 1 where the line's derivative nearly vanishes."""
    low, low_slope, high, high_slope, size = 0.0, start, 1.0, 0.0, 1.0
    for _ in range(EVALUATIONS):
        here = norm_slope + curvature * size + _derivative(node, loss, share, a, along, size)
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
def dual_value(rows, node, loss, slope, low, high, centre):
    """Evaluate the dual value at slopes, rounded downwards; `centre` becomes m."""
    (HT, length), (state, cap, height, _), (cut, _, free) = rows, node, loss
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
    error = (n + 8) * U * mass
    longest = math.sqrt(squared) * (1.0 + (r + 8) * U) + error
    below = constant - (n + 8) * U * size - longest * longest * (1.0 + 8 * U)
    delta = 0.0
    if free:
        delta, centre[r - 1], total = 2.0 * centre[r - 1], 0.0, 0.0
        for i in range(n):
            total += abs(slope[i] * HT[r - 1, i])
        reach = max(abs(low), abs(high))
        below -= max(delta * low, delta * high) + (n + 8) * U * total * reach
    below -= 8 * U * (size + longest * longest)
    return below, error, longest, delta


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def minimise_relaxation(rows, node, loss, share, low, high, enough, upper, w, work, stop):
    """Run Newton's method from `w` to the minimiser; `work` starts with shortfalls, slopes, m."""
    (HT, _), (state, _, height, _), free = rows, node, loss[2]
    a, slope, centre, bend, base, step, system = work
    r, n = HT.shape
    columns = r - 1 if free else r
    prices = 0.0
    for i in range(n):
        if state[i] == DROPPED:
            prices += height[i]
    for c in range(r):
        base[c], step[c] = w[c], 0.0
    size, before, decrease = 0.0, math.inf, 0.0
    for iteration in range(50):
        while True:
            for c in range(r):
                w[c] = base[c] - size * step[c]
            value = _value(rows, node, loss, share, columns, w, a, slope, bend)
            # A step reaches a share of the decrease that the slope promises.
            if size == 0.0 or value <= before - 1e-4 * size * decrease:
                break
            size = 0.5 * size if size > 2.0**-39 and not stop[0] else 0.0
        below, error, longest, delta = dual_value(rows, node, loss, slope, low, high, centre)
        missing = value + prices - below
        if (
            below >= upper
            or missing <= enough * (upper - below)
            or missing <= 1000.0 * U * abs(value)
        ):
            break
        # What no step makes smaller is the minimum to rounding.
        if (iteration > 0 and size == 0.0) or iteration == 49 or stop[0]:
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
        size = _step_length(node, loss, share, a, bend, norm_slope, curvature, -decrease, stop)
    return below, error, longest, delta


# M have this many units between one half and one, so that a second program with other rounding
# finds the same: bits of a double beyond.
DIGITS = 4096
BEYOND = (1 << 53) // DIGITS - 1
# Multipliers are recorded with 65 536 units: bits beyond.
UNRECORDED = (1 << 53) // 65536 - 1


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _limits(node, weight, price, M, cut):
    """Write the prices of losses, the largest slopes, and the shortfalls to which a loss grows."""
    state, cap, height, big_m = node
    for i in range(M.size):
        height[i] = price * weight[i] * (1.0 - 4 * U)
        cap[i], big_m[i] = 0.0, max(cut, 1.0)
        if state[i] == FREE and math.isfinite(M[i]):
            big_m[i] = max(M[i], cut)
            cap[i] = height[i] / big_m[i] * (1.0 - 4 * U)
        elif state[i] == KEPT and cut > 0.0:
            cap[i] = height[i] / cut * (1.0 - 4 * U)


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def rounded_up(value):
    """Round up to a number of few digits; what is not positive or infinite stays."""
    if not value > 0.0:
        return value
    # The next double is the next whole number, read as such.
    return np.int64((np.float64(value).view(np.int64) + BEYOND) & ~BEYOND).view(np.float64)


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _tighten(rows, state, M, loss, box, upper, ball, a, wider, loose):
    """Lower M and settle observations by the ball; return whether to repeat, and any change."""
    (HT, length), (cut, _, free), (below, error, longest, centre) = rows, loss, ball
    r, n = HT.shape
    radius = math.sqrt(max(upper - below, 0.0) + loose) * (1.0 + 8 * U) + error
    radius += (r + 8) * U * (longest + 1.0)
    shortfalls(HT, centre, a)
    again = changed = False
    for i in range(n):
        if state[i] != FREE:
            continue
        reach = length[i] * radius * (1.0 + 16 * U + wider) + wider * (1.0 + abs(a[i]))
        most = a[i] + reach + 8 * U * (1.0 + abs(a[i]))
        least = a[i] - reach - 8 * U * (1.0 + abs(a[i]))
        if free:
            one, other = HT[r - 1, i] * box[0], HT[r - 1, i] * box[1]
            most -= min(one, other) - 8 * U * (abs(one) + abs(other))
            least -= max(one, other) + 8 * U * (abs(one) + abs(other))
        if most <= cut:
            state[i] = KEPT
            changed = True
        elif least > cut:
            state[i] = DROPPED
            again = changed = True
        else:
            most = rounded_up(most)
            if most < M[i]:
                # Tightening goes on while one of the M falls by a tenth.
                again = again or most < 0.9 * M[i]
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
    """Write bits of slopes at their limits, the other non-zero ones from `end`; return the end."""
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
    """Return the free row with the most fractional indicator, else the one nearest its margin."""
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
def relax(problem, search, price, upper, state, M, w, box, record, end, scratch, stop):
    """Bound a node: what keeps and drops as `state` says and is better than `upper`."""
    (rows, loss, weight, budget), (widths, enough, rounds, wider, loose) = problem, search
    (HT, _), (cut, _, free) = rows, loss
    facts, marks, number_rows, numbers, behind = record
    (a, cap, big_m, height, slope, bend, shift, tilt), columns, system = scratch
    (centre, trial, middle, base, step), (r, n) = columns, HT.shape
    node, work = (state, cap, height, big_m), (a, slope, centre, bend, base, step, system)
    bound, used = -math.inf, 0
    for turn in range(max(rounds, 1)):
        _limits(node, weight, price, M, cut)
        given = 0.0 if math.isinf(budget) else price * budget * (1.0 + 4 * U)
        goal = upper + given
        below = error = longest = value = final = 0.0
        best = -math.inf
        for share in widths:
            final = share
            below, error, longest, _delta = minimise_relaxation(
                rows, node, loss, share, box[0], box[1], enough, goal, w, work, stop
            )
            # The kinks are rounded less where the bound is near the incumbent.
            if below >= goal or goal - below > 5e-3 * abs(goal) or stop[0]:
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
                rows, node, loss, slope, box[0], box[1], centre
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
                        rows, node, loss, final, at, at, 0.0, math.inf, trial,
                        (shift, tilt, middle, bend, base, step, system), stop,
                    )  # fmt: skip
                    low, high = (box[0], at) if side == 0 else (at, box[1])
                    there, _, _, _ = dual_value(rows, node, loss, tilt, low, high, middle)
                    if there - wider * abs(there) - loose >= upper:
                        _note(facts, used, free, price, there, 2.0 * side - 1.0, at)
                        facts[used, 2] = 1.0
                        end = _record(state, cap, tilt, marks[used], number_rows, numbers, end)
                        behind[used] = end
                        used += 1
                        box[side] = at
                below, error, longest, _delta = dual_value(
                    rows, node, loss, slope, box[0], box[1], centre
                )
        else:
            # The bound is that of the slopes which are recorded.
            _few_digits(state, cap, slope, tilt)
            rounded, error, longest, _delta = dual_value(
                rows, node, loss, tilt, box[0], box[1], centre
            )
            if below >= goal > rounded:
                _, error, longest, _delta = dual_value(
                    rows, node, loss, slope, box[0], box[1], centre
                )
            else:
                below = rounded
                for i in range(n):
                    slope[i] = tilt[i]
        value = below - given - 4 * U * (abs(below) + given)
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
            ball = value, error, longest, centre
            again, changed = _tighten(rows, state, M, loss, box, upper, ball, shift, wider, loose)
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
            if room < -4 * n * U * budget:
                return math.inf, -1, price, used
            ratio = min(max((asked + 1e-3) / (room + 1e-3), 0.25), 4.0)
            price *= ratio
            again = again or abs(ratio - 1.0) > 0.1
        if not again:
            break
    return bound, _undecided(state, weight, M, cut, a), price, used


@compiled(nogil=True, fastmath=ANY_ORDER)
def dive(problem, search, upper, stack, slots, nodes, record, scratch, stop):
    """Search below a node, depth first, the more promising child first."""
    states, big_ms, starts, boxes, prices, bounds, undecided, names = stack
    (parents, decisions, used, points), (r, n) = nodes, problem[0][0].shape
    facts, marks, number_rows, numbers, behind = record
    left, made = 1, 0
    # Leaves are moved below the open nodes.
    leaves = end = 0
    # What was not bounded is bounded whatever `stop` says, if only by zero steps: there is nothing
    # else to tell of it.
    first = undecided[slots[0]] < 0
    while left > leaves and made + 2 <= parents.size and (not stop[0] or (first and made == 0)):
        # The children take the place of the node, and the one above.
        left -= 1
        node, above = slots[left], slots[left + 1]
        on, bound, name, price = undecided[node], bounds[node], names[node], prices[node]
        for i in range(n):
            states[above, i] = states[node, i]
            big_ms[above, i] = big_ms[node, i]
        for c in range(r):
            starts[above, c] = starts[node, c]
        boxes[above, 0], boxes[above, 1] = boxes[node, 0], boxes[node, 1]
        base, children = left, 1 if on < 0 else 2
        for child in range(children):
            place = slots[base + child]
            parents[made], decisions[made], names[place] = name, 0, made
            if on >= 0:
                states[place, on] = KEPT + child
                decisions[made] = on + 1 if child == 0 else -on - 1
            below, undecided[place], prices[place], used[made] = relax(
                problem, search, price, upper,
                states[place], big_ms[place], starts[place], boxes[place],
                (facts[made], marks[made], number_rows, numbers, behind[made]), end, scratch, stop,
            )  # fmt: skip
            bounds[place] = max(bound, below)
            end = behind[made, used[made] - 1]
            for c in range(r):
                points[made, c] = starts[place, c]
            made += 1
        # The more promising one comes last.
        if children == 2 and not bounds[node] > bounds[above]:
            slots[base], slots[base + 1] = above, node
        for entry in range(base, base + children):
            place = slots[entry]
            if bounds[place] < upper:
                slots[entry], slots[left] = slots[left], place
                if undecided[place] < 0:
                    slots[left], slots[leaves] = slots[leaves], place
                    leaves += 1
                left += 1
    return left, made
