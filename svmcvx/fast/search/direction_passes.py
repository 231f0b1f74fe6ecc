r"""Bounds of cells of directions, compiled.

Observations are signed rows :math:`g_i = y_ix_i` of two classes. A point with w ≠ 0 is w = tv with
t > 0 and v on the surface of the cube [−1, 1]^d. It keeps row i of class c where
:math:`v'g_i \ge \theta_c`, with :math:`\theta_{1,2} = (1 \mp b)/t` and
:math:`s = \theta_1 + \theta_2 = 2/t`, and

.. math:: \|w\|^2 + \rho b^2 = \frac{4}{s^2}(\|v\|^2 + \rho m^2),
    \qquad m = \tfrac12(\theta_1 - \theta_2),

with ρ = 0 for a free intercept, and m = 0 without an intercept. A *cell* is a box of directions
with one coordinate at 1 or −1. Only its points below a value U count; numbers that hold for all of
them pass to the parts of the cell: :math:`\sigma_l \le s/\|v\| \le \sigma_h` and
:math:`\theta_c \le T_c`. Let V ≤ ‖v‖² in the cell, and :math:`s' = s\sqrt V/\|v\| \le s`, which is
between :math:`s_{l,h} = \sigma_{l,h}\sqrt V`.

**Windows.** A row of class c whose largest v'g is below :math:`s_l - T_{3-c} \le \theta_c` is
dropped; one whose smallest v'g is at least :math:`T_c` is kept; the others are open. If U has no
room for the rows of a class up to one of them, in the order of their largest v'g, then
:math:`T_c` is at most the largest v'g of that row.

**Conflicts.** Two rows of different classes with :math:`v'(g_k + g_l) < s` are not both kept. With
:math:`u'v \le \|v\|` for all v that holds where :math:`s' \ge s_l` exceeds
:math:`s_l + \max v'(g_k + g_l - \sigma_l u)`. So a point drops at least T(s'): the dropped rows and
a largest matching of the conflicts between open ones, or, if there are many, the least number of
rows below thresholds with a sum of s'.

**Interval of s'.** :math:`\lambda T(s_l) + 4V/s_h^2 \ge U` closes a cell; :math:`s_l` grows to
:math:`2\sqrt{V/(U - \lambda T(s_l))}`; :math:`s_h` falls to any s' with
:math:`\lambda T(s') + 4V/s_h^2 \ge U`.

**Thresholds.** For each pair of numbers of rows below the thresholds, the least norm with
thresholds at the next rows' ends bounds the points between, exactly at a single direction.

**Support.** Points that keep a set S have a squared norm of at least :math:`\nu_S`; the others
drop one row of S, and no fewer of the remaining rows than a matching of conflicts without S has.

All sums have a bound on their rounding: the bounds hold for the rows as they are in memory.
"""

from __future__ import annotations

import math

import numpy as np

from svmcvx.certificate.bounded import U as UNIT
from svmcvx.system.compilation import compiled

# numba infers the types.
# mypy: allow-untyped-defs

# Sums may be reordered and contracted: the bounds on their rounding hold for any order.
ANY_ORDER = {"reassoc", "contract"}
# Factors that exceed the rounding of a few operations.
LESS, MORE = 1.0 - 2.0**-48, 1.0 + 2.0**-48
# The price ρ of m² that stands for m = 0: it exceeds any value.
NO_INTERCEPT = 1e300
# Numbers of a cell behind its centre and half-widths: σ_l, σ_h, both T, a bound, the coordinate in
# which it is cut in two, and its own number.
LOW, HIGH, FIRST, SECOND, BOUND, CUT, NUMBER, NUMBERS = range(8)
# Largest number of matchings of a cell, and of times that its windows are narrowed.
MATCHINGS, WINDOWS = 8, 4
# The work of other searches that takes the time of a number of a cell's rows or pairs.
WORK = 0.4
# Moves of insertion for each row, on average, after which rows are sorted in another way.
MOVED = 32
# Place of a power of two by its remainder modulo 67, of which 2 generates all.
PLACE = np.zeros(67, dtype=np.int64)
PLACE[[pow(2, i, 67) for i in range(64)]] = np.arange(64)
# The factor that moves the lowest bit of byte i of a word to bit i of its highest byte.
GATHER = np.uint64(0x0102040810204080)


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _ranges(rows, centre, half, middle, low, high):
    """Set v'g at the centre and its interval in the cell; return the largest upper end."""
    GT, error, _ = rows
    d, n = GT.shape
    for k in range(n):
        middle[k] = 0.0
        high[k] = error[k]
    for e in range(d):
        c, h = centre[e], half[e]
        for k in range(n):
            middle[k] += c * GT[e, k]
            high[k] += h * abs(GT[e, k])
    most = -math.inf
    for k in range(n):
        radius = high[k]
        low[k], high[k] = middle[k] - radius, middle[k] + radius
        most = max(most, high[k])
    return most


@compiled(inner=True, nogil=True, allocates=True)
def _order(keys, found):
    """Sort numbers of rows by their keys: into as many intervals of one length, then by insertion.

    Insertion that takes more than `MOVED` moves a row, as for keys of different sizes, is given up.
    """
    count = found.size
    if not count:
        return
    low, high = math.inf, -math.inf
    for k in found:
        low, high = min(low, keys[k]), max(high, keys[k])
    scale = (count - 1) / (high - low) if high > low else 0.0
    begins, before, left = np.zeros(count + 1, np.int64), found.copy(), MOVED * count
    scale = scale if scale < math.inf else 0.0
    for k in before:
        begins[np.int64((keys[k] - low) * scale) + 1] += 1
    for i in range(count):
        begins[i + 1] += begins[i]
    for k in before:
        interval = np.int64((keys[k] - low) * scale)
        found[begins[interval]] = k
        begins[interval] += 1
    for i in range(1, count):
        k, j = found[i], i
        while j > 0 and keys[found[j - 1]] > keys[k]:
            found[j] = found[j - 1]
            j -= 1
        found[j] = k
        left -= i - j
        if left < 0:
            found[:] = before[np.argsort(keys[before])]
            break


@compiled(inner=True, nogil=True, allocates=True)
def _sort(weight, low, high, limit, top, found):
    """Find the open rows, in the order of their upper ends; return their number, and the weight of
    the dropped ones.
    """
    count, below = 0, 0.0
    for k in range(weight.size):
        if high[k] < limit:
            below += weight[k]
        elif low[k] < top:
            found[count] = k
            count += 1
    _order(high, found[:count])
    return count, below


@compiled(inner=True, nogil=True)
def _thresholds(weight, low, high, limit, top, found, count, below, ends, sums):
    """Leave sorted rows that are still open, and list upper ends below `top` with the weight that
    is dropped below each.

    Return the numbers of both, and the weight of the dropped rows.
    """
    left = ends_below = 0
    for i in range(count):
        k = found[i]
        if high[k] < limit:
            below += weight[k]
        elif low[k] < top:
            found[left] = k
            left += 1
    lost, less = below, 1.0 - 2.0 * (weight.size + 2) * UNIT
    for i in range(left):
        if high[found[i]] >= top:
            break
        ends[i], sums[i] = high[found[i]], below * less
        below += weight[found[i]]
        ends_below += 1
    ends[ends_below], sums[ends_below] = top, below * less
    return left, ends_below, lost


@compiled(inner=True, nogil=True)
def _highest(ends, sums, count, most):
    """Return the largest threshold that drops no more than `most`, and its place."""
    for i in range(count):
        if sums[i + 1] > most:
            return ends[i], i
    return ends[count], count


@compiled(inner=True, nogil=True)
def _least_weight(ends, sums, counts, s):
    """Return the least weight below thresholds with a sum of s or more; infinite if none has."""
    P, Q = ends
    best, j, s = math.inf, counts[1], s * LESS
    for i in range(counts[0] + 1):
        while j > 0 and P[i] + Q[j - 1] >= s:
            j -= 1
        if P[i] + Q[j] >= s:
            best = min(best, sums[0][i] + sums[1][j])
    return best * LESS


@compiled(inner=True, nogil=True, fastmath=ANY_ORDER)
def _pair_ends(GT, error, half, shift, more, found, middles, sizes, near, heights):
    """Set the largest v'(g_k + g_l − shift), and what does not vary, of the open rows of two
    classes.
    """
    (m1, m2), (G1, G2) = sizes, GT
    # The open rows of the second class, one column after the other.
    for b in range(m2):
        near[b] = middles[1][found[1][b]] + error[1][found[1][b]] + more
    used = 0
    for e in range(half.size):
        if half[e] > 0.0:
            used += 1
            for b in range(m2):
                near[used * m2 + b] = G2[e, found[1][b]] - shift[e]
    for a in range(m1):
        k, row = found[0][a], heights[a * m2 : (a + 1) * m2]
        for b in range(m2):
            row[b] = middles[0][k] + error[0][k] + near[b]
        place = 0
        for e in range(half.size):
            g, h = G1[e, k], half[e]
            if h > 0.0:
                place += 1
                other = near[place * m2 : (place + 1) * m2]
                for b in range(m2):
                    row[b] += h * abs(g + other[b])


@compiled(inner=True, nogil=True)
def _lowest(bits):
    return PLACE[np.int64((bits & (~bits + np.uint64(1))) % np.uint64(67))]


@compiled(inner=True, nogil=True)
def _bit(place):
    return np.uint64(1) << np.uint64(place % 64)


@compiled(inner=True, nogil=True)
def _conflicts(graph, sizes, s):
    """Mark the conflicts at s, 64 rows of the second class a word."""
    (heights, bits, marks, _, _, _, _), (m1, m2) = graph, sizes
    words, packed = (m2 + 63) // 64, marks.view(np.uint64)
    marks[m2:] = 0
    for a in range(m1):
        for b in range(m2):
            marks[b] = heights[a * m2 + b] < s
        for w in range(words):
            found = np.uint64(0)
            for i in range(8):
                # The product has the eight marks in its first byte.
                byte = (packed[8 * w + i] * GATHER) >> np.uint64(56)
                found |= byte << np.uint64(8 * i)
            bits[a * words + w] = found


@compiled(inner=True, nogil=True)
def _begin(sizes, held, mates, masks):
    """Drop the pairs of rows that are held; set the masks, and return the number of pairs."""
    (m1, m2), (allowed, free, _) = sizes, masks
    mate1, mate2 = mates
    size = 0
    for w in range((m2 + 63) // 64):
        allowed[w] = free[w] = np.uint64(0)
    for b in range(m2):
        if held[1][b]:
            if mate2[b] >= 0:
                mate1[mate2[b]] = -1
            mate2[b] = -1
    for a in range(m1):
        if held[0][a]:
            if mate1[a] >= 0:
                mate2[mate1[a]] = -1
            mate1[a] = -2
        size += mate1[a] >= 0
    for b in range(m2):
        if not held[1][b]:
            allowed[b // 64] |= _bit(b)
            if mate2[b] < 0:
                free[b // 64] |= _bit(b)
    return size


@compiled(inner=True, nogil=True)
def _match(bits, sizes, mates, masks, path, size, enough):
    """Enlarge a matching until it is a largest one or has enough pairs; return its size."""
    (m1, m2), (allowed, free, unseen) = sizes, masks
    mate1, mate2 = mates
    words, grown = (m2 + 63) // 64, True
    while grown and size < enough:
        grown = False
        for w in range(words):
            unseen[w] = allowed[w]
        # Rows with large ends have few conflicts.
        for start in range(m1 - 1, -1, -1):
            if mate1[start] != -1 or size >= enough:
                continue
            path[0], top = start, 0
            while top >= 0:
                begin, end, via = path[top] * words, -1, -1
                for w in range(words):
                    found = bits[begin + w] & unseen[w]
                    if found & free[w]:
                        end = 64 * w + _lowest(found & free[w])
                        break
                    if found and via < 0:
                        via = 64 * w + _lowest(found)
                if end >= 0:
                    free[end // 64] &= ~_bit(end)
                    for i in range(top, -1, -1):
                        before = mate1[path[i]]
                        mate1[path[i]], mate2[end] = end, path[i]
                        end = before
                    size, grown, top = size + 1, True, -1
                elif via >= 0:
                    unseen[via // 64] &= ~_bit(via)
                    top += 1
                    path[top] = mate2[via]
                else:
                    top -= 1
    return size


@compiled(inner=True, nogil=True)
def _shared(bits, sizes, rests, enough):
    """Return the weight of conflicts that use up the weights of open rows, one after the other."""
    (m1, m2), total = sizes, 0.0
    words = (m2 + 63) // 64
    # Rows with large ends have few conflicts.
    for a in range(m1 - 1, -1, -1):
        for b in range(m2):
            if not (rests[0][a] > 0.0 and total < enough):
                break
            if rests[1][b] > 0.0 and bits[a * words + b // 64] & _bit(b):
                share = min(rests[0][a], rests[1][b])
                rests[0][a] -= share
                rests[1][b] -= share
                total += share
    return total * (1.0 - 4.0 * (m1 + m2) * UNIT)


@compiled(inner=True, nogil=True)
def _matched(weights, found, sizes, held, mates, graph, enough):
    """Return the weight of a matching of the marked conflicts, without the rows that are held."""
    _, bits, _, masks, path, rests, equal = graph
    if equal:
        size, each = _begin(sizes, held, mates, masks), weights[0][0]
        return each * _match(bits, sizes, mates, masks, path, size, enough / each)
    for c in range(2):
        for a in range(sizes[c]):
            rests[c][a] = 0.0 if held[c][a] else weights[c][found[c][a]]
    return _shared(bits, sizes, rests, enough)


@compiled(inner=True, nogil=True)
def _above(first, second):
    """Return the sum of two numbers, rounded upwards."""
    return first + second + (abs(first) + abs(second)) * (MORE - 1.0)


@compiled(inner=True, nogil=True)
def _largest_s(tops, rho):
    """Return the largest sum of thresholds up to these, which are equal without an intercept."""
    return 2.0 * min(tops[0], tops[1]) if rho == NO_INTERCEPT else _above(tops[0], tops[1])


@compiled(inner=True, nogil=True)
def _square(V, rho, tops, s):
    """Return the least ‖v‖² + ρm² at thresholds with a sum of s or more."""
    off = max(0.5 * s - tops[0], 0.5 * s - tops[1], 0.0)
    return (V + rho * off * off) * LESS


@compiled(inner=True, nogil=True)
def _cost(price, square, dropped, s_high):
    """Return a bound on points that drop a weight, with s of at most `s_high`."""
    lam, k, _ = price
    if dropped > k:
        return math.inf
    return (lam * dropped + 4.0 * square / (s_high * s_high)) * LESS


@compiled(inner=True, nogil=True)
def _least_s(price, square, dropped):
    """Return the least s of points below the upper value that drop a weight."""
    lam, _, upper = price
    return 2.0 * math.sqrt(square / (upper - lam * dropped * LESS)) * LESS


@compiled(inner=True, nogil=True)
def _norm_below(V, rho, one, two):
    """Return the least squared norm with thresholds of at most these numbers."""
    low, high = min(one, two), max(one, two)
    # The other threshold rises until the intercept costs more than it saves.
    if low > 0.0 and (high - low) * rho * low >= 2.0 * V:
        return 1.0 / (low * low / V + 1.0 / rho)
    s, m = low + high, 0.5 * (high - low)
    return 4.0 * (V + rho * m * m) / (s * s) if s > 0.0 else math.inf


@compiled(inner=True, nogil=True)
def _cheapest(ends, sums, counts, V, rho, price, norm, s_low, enough):
    """Return the least cost, if it is below the upper value, of thresholds of both classes with a
    sum of `s_low` or more and squared norms of `norm` or more, and their places. Costs of at most
    `enough` need no comparison.
    """
    lam, k, upper = price
    best, one, two, s_low = upper, -1, -1, s_low * LESS
    # Thresholds of a class that are compared, or excluded, together.
    size = 1 + int(0.3 * math.sqrt(counts[0] + counts[1]))
    for begin in range(0, counts[0] + 1, size):
        end = min(begin + size, counts[0] + 1)
        for start in range(0, counts[1] + 1, size):
            # No pair of both parts has a smaller weight than the first one, or larger thresholds
            # than the last one.
            dropped = (sums[0][begin] + sums[1][start]) * LESS
            if dropped > k or lam * dropped + norm >= best:
                break
            stop = min(start + size, counts[1] + 1)
            P, Q = ends[0][end - 1], ends[1][stop - 1]
            if s_low > P + Q or lam * dropped + _norm_below(V, rho, P, Q) >= best:
                continue
            for i in range(begin, end):
                for j in range(start, stop):
                    dropped = (sums[0][i] + sums[1][j]) * LESS
                    if dropped > k or lam * dropped + norm >= best:
                        break
                    if ends[0][i] + ends[1][j] >= s_low:
                        found = max(_norm_below(V, rho, ends[0][i], ends[1][j]), norm)
                        if lam * dropped + found < best:
                            best, one, two = lam * dropped + found, i, j
            if best <= enough:
                return best, one, two
    return best, one, two


@compiled(inner=True, nogil=True)
def _bound_by_thresholds(ends, sums, counts, V, rho, price, norm, s_low, bound):
    """Return the least cost of thresholds, infinite if no less than the upper value; `bound` if it
    is larger.
    """
    best, place, _ = _cheapest(ends, sums, counts, V, rho, price, norm, s_low, bound)
    return max(best * LESS, bound) if place >= 0 else math.inf


@compiled(inner=True, nogil=True)
def _copy(sizes, mates, other):
    for c in range(2):
        for a in range(sizes[c]):
            other[c][a] = mates[c][a]


@compiled(inner=True, nogil=True)
def _bound_by_support(
    weights, price, support, open_rows, sizes, counts, points, limits, highs, scratch
):
    """Return the bound of a cell by the support of the best point, if it is better."""
    (found, ends, sums), (lam, _, upper), (members, norm, least) = open_rows, price, support
    s_low, s_high, square, lost, dropped, bound, V, rho = points
    held, base, mates, graph = scratch
    kept = (lam * dropped + max(norm, 4.0 * square / (s_high * s_high))) * LESS
    if rho > 0.0 and kept < upper:
        kept = _bound_by_thresholds(ends, sums, counts, V, rho, price, norm, s_low, kept)
    if not (members.size and kept > bound):
        return bound
    for i in members:
        c = 0 if i < weights[0].size else 1
        row = i - c * weights[0].size
        if highs[c][row] < limits[c]:
            return bound
        for a in range(sizes[c]):
            held[c][a] = held[c][a] or found[c][a] == row
    _conflicts(graph, sizes, s_low)
    _copy(sizes, base, mates)
    weight = _matched(weights, found, sizes, held, mates, graph, math.inf)
    return max(bound, min(kept, _cost(price, square, (lost + weight + least) * LESS, s_high)))


@compiled(inner=True, nogil=True, allocates=True)
def _bound(cell, classes, price, shape, support, scratch):
    """Bound the points of a cell, and tighten the numbers that hold for them; return the work."""
    (GT, _, weights), (metric, rho, room), (lam, k, upper) = classes, shape, price
    (middles, lows, highs), (found, ends, sums), graph, (held, base, mates, near) = scratch
    d, n = metric.size, weights[0].size + weights[1].size
    centre, half, numbers = cell[:d], cell[d : 2 * d], cell[2 * d :]
    work, bound = 10.0 * n * d, numbers[BOUND]
    V = middle = far = 0.0
    for e in range(d):
        least, most = max(abs(centre[e]) - half[e], 0.0), abs(centre[e]) + half[e]
        V += metric[e] * least * least
        middle += metric[e] * centre[e] * centre[e]
        far += metric[e] * most * most
    V *= 1.0 - 2.0 * (d + 6) * UNIT
    # Of m² in units of s², since s' is less than s by this share at most.
    root, rho_part = math.sqrt(V), rho * V / far * LESS
    tops, counts, sizes = np.empty(2), np.zeros(2, np.int64), np.zeros(2, np.int64)
    limits, largest, gone = np.empty(2), np.empty(2), np.empty(2)
    for c in range(2):
        rows = (classes[0][c], classes[1][c], weights[c])
        largest[c] = _ranges(rows, centre, half, middles[c], lows[c], highs[c])
        tops[c] = min(numbers[FIRST + c], largest[c])
    s_low = max(numbers[LOW] * root * LESS, _least_s(price, V * LESS, 0.0))
    s_high = min(numbers[HIGH] * root * MORE, _largest_s(tops, rho))
    numbers[BOUND] = math.inf
    # Windows and thresholds.
    square = dropped = 0.0
    for turn in range(WINDOWS):
        if not s_low <= s_high:
            return work
        square = _square(V, rho_part, tops, s_low)
        floor = _cost(price, square, 0.0, s_high)
        most = k if lam == 0.0 else min(k, max(upper - floor, 0.0) / lam)
        before = tops[0] + tops[1] - s_low
        for c in range(2):
            limits[c] = 0.5 * s_low if rho == NO_INTERCEPT else -_above(tops[1 - c], -s_low)
        for c in range(2):
            if largest[c] < limits[c]:
                return work
            ranges = weights[c], lows[c], highs[c], limits[c], tops[c], found[c]
            if turn == 0:
                sizes[c], gone[c] = _sort(*ranges)
            sizes[c], counts[c], gone[c] = _thresholds(*ranges, sizes[c], gone[c], ends[c], sums[c])
        for c in range(2):
            room_left = (most - sums[1 - c][0]) * MORE
            tops[c], counts[c] = _highest(ends[c], sums[c], counts[c], room_left)
        work += 4.0 * n
        s_high = min(s_high, _largest_s(tops, rho))
        dropped = _least_weight(ends, sums, counts, s_low)
        bound = max(bound, _cost(price, square, dropped, s_high))
        if bound >= upper:
            return work
        s_low = max(s_low, _least_s(price, square, dropped))
        # Another turn pays where the windows have become narrower by a twentieth.
        if not tops[0] + tops[1] - s_low < 0.95 * before:
            break
    if not s_low <= s_high:
        return work
    lost = (sums[0][0] + sums[1][0]) * LESS
    paired = 0 < sizes[0] * sizes[1] <= room
    norm = 4.0 * square / (s_high * s_high)
    bound = _bound_by_thresholds(ends, sums, counts, V, rho, price, norm, s_low, bound)
    work += 10.0 * (counts[0] + counts[1])
    if bound >= upper:
        return work
    # Conflicts, and the interval of s.
    if paired:
        shift, more, rounding = np.empty(d), s_low, s_low
        for e in range(d):
            shift[e] = s_low / root * metric[e] * centre[e] / math.sqrt(middle) * (1.0 - 2.0**-40)
            more -= centre[e] * shift[e]
            rounding += abs(shift[e])
        more += 4.0 * (d + 8) * UNIT * rounding
        _pair_ends(GT, classes[1], half, shift, more, found, middles, sizes, near, graph[0])
        work += float(sizes[0]) * sizes[1] * d
        for c in range(2):
            for a in range(sizes[c]):
                held[c][a], base[c][a] = False, -1
    at_low, s = True, s_low
    for _ in range(MATCHINGS):
        square = _square(V, rho_part, tops, s_low)
        weight = _least_weight(ends, sums, counts, s)
        if paired:
            enough = k + 1.0
            if lam > 0.0:
                enough = min(enough, (upper - _cost(price, square, 0.0, s_high)) / lam + 1e-9)
            mate = base
            if not at_low:
                _copy(sizes, base, mates)
                mate = mates
            _conflicts(graph, sizes, s)
            pairs = _matched(weights, found, sizes, held, mate, graph, enough - lost)
            weight = max(weight, (lost + pairs) * LESS)
            work += float(sizes[0]) * sizes[1]
        beyond = _cost(price, square, weight, s_high)
        if at_low:
            dropped, bound = max(dropped, weight), max(bound, beyond)
            if bound >= upper:
                return work
            before, s_low = s_low, max(s_low, _least_s(price, square, dropped))
            at_low = s_low > 1.02 * before
        elif beyond >= upper:
            s_high = s
        else:
            bound = max(bound, min(_cost(price, square, dropped, s), beyond))
            break
        if not s_low <= s_high:
            return work
        s = s_low
        if not at_low:
            # 4V/s² half way between its values at both ends.
            s = math.sqrt(2.0 / (1.0 / (s_low * s_low) + 1.0 / (s_high * s_high)))
            s = min(max(s, s_low), s_high)
    if paired and bound < upper:
        square = _square(V, rho_part, tops, s_low)
        points = s_low, s_high, square, lost, dropped, bound, V, rho
        bound = _bound_by_support(
            weights, price, support, (found, ends, sums), sizes, counts, points, limits, highs,
            (held, base, mates, graph),
        )  # fmt: skip
        work += float(sizes[0]) * sizes[1]
    if bound >= upper:
        return work
    numbers[LOW], numbers[HIGH] = s_low / root * LESS, s_high / root * MORE
    numbers[FIRST], numbers[SECOND], numbers[BOUND] = tops[0], tops[1], bound
    # The cut goes through the coordinate that moves the open rows most, if that is more than their
    # rounding.
    best, numbers[CUT] = 0.0, -1.0
    for c in range(2):
        for a in range(sizes[c]):
            best += classes[1][c][found[c][a]]
    for e in range(d):
        mean = spread = 0.0
        for c in range(2):
            for a in range(sizes[c]):
                mean += (1 - 2 * c) * GT[c][e, found[c][a]] / (sizes[0] + sizes[1])
        for c in range(2):
            for a in range(sizes[c]):
                spread += abs((1 - 2 * c) * GT[c][e, found[c][a]] - mean)
        if half[e] * max(spread, UNIT) > best and half[e] > 0.0:
            best, numbers[CUT] = half[e] * max(spread, UNIT), float(e)
    return work


@compiled(inner=True, nogil=True, allocates=True)
def _try_centre(cell, weights, price, shape, middles, lows, open_rows, best):
    """Evaluate the sets that thresholds keep at the centre; update the best point of all."""
    (metric, rho, _), (lam, k, _) = shape, price
    d = metric.size
    centre, numbers, (found, ends, sums) = cell[:d], cell[2 * d :], open_rows
    V = 0.0
    for e in range(d):
        V += metric[e] * centre[e] * centre[e]
    counts, s_low = np.zeros(2, np.int64), numbers[LOW] * math.sqrt(V) * LESS
    for c in range(2):
        limit = s_low - numbers[SECOND - c]
        ranges = weights[c], lows[c], middles[c], limit, numbers[FIRST + c], found[c]
        _, counts[c], _ = _thresholds(*ranges, *_sort(*ranges), ends[c], sums[c])
    price = lam, k, best[0]
    value, i, j = _cheapest(ends, sums, counts, V, rho, price, 0.0, s_low, -math.inf)
    if i >= 0:
        one, two = ends[0][i], ends[1][j]
        # A lower threshold of one class may cost less by its intercept.
        if rho > 0.0 and two > 0.0 and 0.5 * rho * (one - two) * two > V:
            one = two + 2.0 * V / (rho * two)
        elif rho > 0.0 and one > 0.0 and 0.5 * rho * (two - one) * one > V:
            two = one + 2.0 * V / (rho * one)
        best[0], best[1], best[2] = value, one, two
        best[3:] = centre


@compiled(nogil=True, allocates=True)
def bound_cells(cells, classes, price, shape, support, scratch, best, stop):
    """Bound cells one after the other, until the flag is set; return the work.

    `best` has the value, both thresholds, and the direction of the best point at a centre.
    """
    (middles, lows, _), work = scratch[0], 0.0
    for i in range(len(cells)):
        if stop[0]:
            break
        work += WORK * _bound(cells[i], classes, price, shape, support, scratch)
        if cells[i, 2 * shape[0].size + BOUND] < price[2]:
            _try_centre(cells[i], classes[2], price, shape, middles, lows, scratch[1], best)
    return work
