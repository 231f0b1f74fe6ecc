"""Compiled projections onto the domains of the losses of score differences, with the faces that
they end in.

The multipliers of an observation of weight s are projected onto

- the box 0 ≤ a ≤ s (the hinge of each difference);
- the top-k set 0 ≤ a ≤ t/k, t = Σa ≤ s, where one more entry stands for the own class. For k = 1 it
  is the simplex.

The derivative of a projection is the orthogonal projector onto the face, from which the rows of the
Newton system follow.
"""

# numba infers the types.
# mypy: allow-untyped-defs

from __future__ import annotations

import numpy as np

from svmcvx.certificate.bounded import EPS
from svmcvx.system.compilation import compiled

# Where an entry ends: at zero, inside, at its largest value.
BOUND, FREE, LARGEST = range(3)
# Whether the sum of a row is below its bound, or at it.
CONE, SUM = range(2)


@compiled(inner=True, nogil=True)
def capped(x, total, cap, slope, a):
    """Shift x and cut it off to 0 ≤ a ≤ cap, Σa = total + slope × shift, by Newton's method; for
    the slope 0 that is a projection.
    """
    m = x.size
    low, high = np.inf, -np.inf
    for j in range(m):
        low, high = min(low, x[j] - cap), max(high, x[j])
    shift = high - total / m if m > 0 else 0.0
    if slope > 0.0:
        low, high, shift = -total / slope, (m * cap - total) / slope, 0.0
    shift = min(max(shift, low), high)
    for _ in range(100):
        mass, free = 0.0, 0
        for j in range(m):
            value = x[j] - shift
            if value >= cap:
                mass += cap
            elif value > 0.0:
                mass += value
                free += 1
        excess = mass - total - slope * shift
        if abs(excess) <= EPS * (mass + total):
            break
        if excess > 0.0:
            low = shift
        else:
            high = shift
        steep = free + slope
        following = shift + excess / steep if steep > 0.0 else 0.5 * (low + high)
        if not low < following < high:
            following = 0.5 * (low + high)
        if following == shift or following in (low, high):
            break
        shift = following
    for j in range(m):
        a[j] = min(max(x[j] - shift, 0.0), cap)


@compiled(inner=True, nogil=True)
def _cone_threshold(x, order, k, u, free):
    """Return the shift and largest value with u entries cut off and `free` entries after them."""
    above, inside = 0.0, 0.0
    for j in range(u):
        above += x[order[j]]
    for j in range(u, u + free):
        inside += x[order[j]]
    if u == 0:
        return 0.0, np.inf
    rest = k - u
    largest = (rest * inside + free * above) / (rest * rest + free * u)
    return (above - u * largest) / rest, largest


@compiled(inner=True, nogil=True)
def _top_cone(x, order, k, a):
    """Project x onto 0 ≤ a ≤ Σa/k; return the largest value, infinite if nothing is cut off."""
    m = x.size
    positive, total = 0, 0.0
    for j in range(m):
        a[j] = max(x[j], 0.0)
        total += a[j]
        positive += x[j] > 0.0
    if positive == 0:
        return 0.0
    if k == 1 or k * x[order[0]] <= total:
        return np.inf
    mean = 0.0
    for j in range(k):
        mean += x[order[j]]
    mean /= k
    chosen, shift, largest = k, 0.0, max(mean, 0.0)
    # The k largest entries are equal and all others zero.
    others = x[order[k]] if k < m else -np.inf
    best = max(mean - x[order[k - 1]] + others, 0.0) if mean > 0.0 else 0.0
    for u in range(1, k):
        for free in range(m - u + 1):
            if best == 0.0:
                break
            theta, top = _cone_threshold(x, order, k, u, free)
            wrong = max(top - x[order[u - 1]] - theta, -theta, -top, 0.0)
            if free > 0:
                wrong = max(wrong, x[order[u]] + theta - top, -x[order[u + free - 1]] - theta)
            if u + free < m:
                wrong = max(wrong, x[order[u + free]] + theta)
            if wrong < best:
                best, chosen, shift, largest = wrong, u, theta, top
    for j in range(m):
        a[j] = 0.0
    if largest <= 0.0:
        return 0.0
    for j in range(m):
        value = x[order[j]] + shift
        if j < chosen:
            a[order[j]] = largest
        elif chosen < k:
            a[order[j]] = min(max(value, 0.0), largest)
    return largest


@compiled(nogil=True)
def project_top(raw, order, s, k, a, state, mode):
    """Project rows onto their weighted top-k sets; write states and whether sums are tight."""
    n, m = raw.shape
    for i in range(n):
        x = raw[i]
        largest = _top_cone(x, order[i], k, a[i])
        total = 0.0
        for j in range(m):
            total += a[i, j]
        mode[i] = CONE
        if total > s[i]:
            mode[i] = SUM
            largest = s[i] / k
            capped(x, s[i], largest, 0.0, a[i])
        for j in range(m):
            if a[i, j] <= 0.0:
                state[i, j] = BOUND
            elif a[i, j] >= largest:
                state[i, j] = LARGEST
            else:
                state[i, j] = FREE


@compiled(nogil=True, allocates=True)
def face_rows(state, mode, codes, k, boxed, owner, rows):
    """Write orthonormal bases of the faces, in scores of all classes; return their total rank."""
    n, m = state.shape
    c = rows.shape[1]
    count = 0
    vector = np.empty(m)
    free = np.empty(m, dtype=np.int64)
    for i in range(n):
        number, cut = 0, 0
        for j in range(m):
            if state[i, j] == FREE:
                free[number] = j
                number += 1
            elif state[i, j] == LARGEST:
                cut += 1
        summed = (not boxed) and mode[i] == SUM
        tied = (not boxed) and (not summed) and cut > 0
        if tied and cut >= k:
            # The others are zero but for rounding: k equal ones are the whole sum.
            number = 0
        vectors = number - 1 if summed else (1 if tied and number == 0 else number)
        spread, level = 0.0, 0.0
        if tied and number > 0:
            # v_j = e_j + 1_U/(k − u), made orthonormal by (I + β²u 11')^{-1/2}.
            beta = 1.0 / (k - cut)
            root = 1.0 / np.sqrt(1.0 + beta * beta * cut * number)
            spread, level = (root - 1.0) / number, beta * root
        for v in range(vectors):
            for j in range(m):
                vector[j] = 0.0
            if summed:
                # The basis of Helmert of the vectors whose entries sum to zero.
                size = 1.0 / np.sqrt((v + 1.0) * (v + 2.0))
                for j in range(v + 1):
                    vector[free[j]] = size
                vector[free[v + 1]] = -(v + 1.0) * size
            elif tied and number == 0:
                for j in range(m):
                    vector[j] = 1.0 / np.sqrt(cut) if state[i, j] == LARGEST else 0.0
            else:
                vector[free[v]] = 1.0
                if tied:
                    for j in range(m):
                        if state[i, j] == FREE:
                            vector[j] += spread
                        elif state[i, j] == LARGEST:
                            vector[j] = level
            own, size = 0.0, 0.0
            for j in range(c - 1):
                own += vector[j]
                size += abs(vector[j])
                rows[count, j + (j >= codes[i])] = -vector[j]
            rows[count, codes[i]] = own
            if size > 0.0:
                owner[count] = i
                count += 1
    return count


@compiled(nogil=True)
def project_smoothed(raw, s, sigma, delta, a, h):
    r"""Write a with :math:`2a/s = 1 + x/\sqrt{x^2+\delta^2}`, x = (raw − a)/σ, and derivatives."""
    n, m = raw.shape
    for i in range(n):
        for j in range(m):
            # The sign of x is that of the share; half of the bracket, and where the multiplier is
            # inside, the x at which raw itself would be a, are as large at least.
            share, middle = 2.0 * raw[i, j] / s[i] - 1.0, (raw[i, j] - 0.5 * s[i]) / sigma
            if share > 0.0:
                low, high = max(0.0, (raw[i, j] - s[i]) / sigma), middle
                x = low
            else:
                low, high = middle, min(0.0, raw[i, j] / sigma)
                x = high
            if abs(share) < 1.0:
                x = delta * share / np.sqrt(1.0 - share * share)
                x = min(max(x, low), high)
            for _ in range(100):
                root = np.hypot(x, delta)
                tail = delta / root * (delta / (root + abs(x))) / 2.0
                value = s[i] * (1.0 - tail if x >= 0.0 else tail)
                bend = s[i] * (delta / root) ** 2 / (2.0 * root)
                wrong = sigma * x + value - raw[i, j]
                if wrong > 0.0:
                    high = x
                elif wrong < 0.0:
                    low = x
                following = x - wrong / (sigma + bend)
                if not low < following < high:
                    following = 0.5 * (low + high)
                if wrong == 0.0 or following in (x, low, high):
                    break
                x = following
            a[i, j] = value
            h[i, j] = sigma * bend / (sigma + bend)
