"""The operations of bounded arithmetic against exact arithmetic, for any module that offers them:
the real one or a mutant.

Values and errors are compared as they are, never the ends: the outward step of ``upper`` hides
errors of a unit in the last place.
"""

import itertools
from fractions import Fraction
from functools import partial

import flint
import numpy as np
import scipy.sparse as sp

BITS = 2400
ENTRIES = 40
# Points of the balls at which an operation of several operands is evaluated.
CORNERS = (-1, 0, 1)


def fraction(x):
    return Fraction(float(x))


def arb(x):
    if isinstance(x, flint.arb):
        return x
    x = Fraction(x)
    return flint.arb(flint.fmpq(x.numerator, x.denominator))


class Inaccurate:
    """Numpy with elementary functions that are off by three units in the last place beside their
    own error, at random.
    """

    def __init__(self):
        self.rng = np.random.default_rng(0)

    def __getattr__(self, name):
        function = getattr(np, name)
        if name not in ("exp", "expm1", "log", "log1p", "power"):
            return function

        def off(*arguments):
            values = function(*arguments)
            steps = self.rng.integers(-3, 4, np.shape(values))
            return np.where(
                np.isfinite(values) & (values != 0.0),
                values + steps * np.spacing(np.abs(values)),
                values,
            )[()]

        return off


# Operands


def numbers(rng, size, *, positive=False, low=-300, high=300):
    """Numbers of all sizes: near 1, whole, of any exponent, subnormal, zero."""
    kind = rng.integers(0, 7, size)
    found = np.select(
        [kind == 0, kind == 1, kind == 2, kind == 3, kind == 4],
        [
            1.0 + rng.integers(-4, 5, size) * 2.0**-52,
            rng.integers(-5, 6, size).astype(float),
            rng.standard_normal(size),
            10.0 ** rng.uniform(low, high, size) * rng.choice([-1.0, 1.0], size),
            rng.uniform(1, 2, size) * 2.0 ** rng.integers(-1074, -1000, size),
        ],
        rng.uniform(0.5, 2.0, size),
    )
    return np.abs(found) if positive else found


def errors(rng, values):
    """Errors of all sizes: none, a float for all, or one an entry from the smallest number to more
    than the value.
    """
    kind = int(rng.integers(0, 8))
    size = np.abs(values)
    if kind == 0:
        return 0.0
    if kind == 1:
        return float(10.0 ** rng.uniform(-20, 2))
    relative = size * 10.0 ** rng.uniform(-20, -3, values.shape)
    if kind == 2:
        return relative
    chosen = rng.integers(0, 7, values.shape)
    return np.select(
        [chosen == 0, chosen == 1, chosen == 2, chosen == 3, chosen == 4],
        [
            np.zeros_like(size),
            size,
            10.0 * size,
            np.full_like(size, 2.0**-1074),
            size * (1.0 - 10.0 ** rng.uniform(-15, -1)),
        ],
        relative,
    )


def corners(value, error, *, least=None):
    """Exact points of a ball: its ends and its middle, not below `least`."""
    middle, radius = fraction(value), fraction(error)
    found = [middle + corner * radius for corner in CORNERS]
    return [point for point in found if least is None or point >= least] or [Fraction(least)]


def entry(x, index):
    error = x.error if isinstance(x.error, float) else x.error[index]
    return x.value[index], error


def radii_of(x):
    return np.broadcast_to(x.error, x.shape)


def known(*numbers):
    return all(np.isfinite(number).all() for number in numbers)


def beyond(exact, value, error):
    """Whether an exact number, a fraction or a ball, is farther from a value than an error."""
    if isinstance(exact, flint.arb):
        return abs(exact - arb(value)) > arb(error)
    return abs(exact - fraction(value)) > fraction(error)


class Report:
    """Entries compared, those of which nothing is known, and misses."""

    def __init__(self):
        self.entries, self.unknown, self.missed = 0, 0, []

    def add(self, exact_values, value, error):
        """Compare a number with exact ones; of one that does not exist nothing may be claimed."""
        self.entries += 1
        if not known(value, error):
            self.unknown += 1
        elif any(exact is None for exact in exact_values):
            self.missed.append(("claimed", value, error))
        else:
            missed = (exact for exact in exact_values if beyond(exact, value, error))
            self.missed += [(exact, value, error) for exact in missed]

    def within(self, exact, found, room=0):
        """Compare a point with an exact one, which is nearer than its distance less `room`."""
        self.entries += 1
        if not known(found.value, found.distance):
            self.unknown += 1
            return
        exact, values = np.ravel(np.array(exact, dtype=object)), vector(found.value)
        distance = sum(((a - b) ** 2 for a, b in zip(exact, values, strict=True)), Fraction(0))
        left = Fraction(found.distance) - room
        if left < 0 or distance > left**2:
            self.missed.append((distance, found.distance))


def elementwise(compute, exact, operands, *, least=None):
    """Compare an operation at the ends of its operands' balls, entry by entry or, by other branches
    of the code, on single numbers.

    `operands(rng, module)` returns bounded arrays; `exact` gets an exact point of each, and returns
    None where the operation has no value.
    """

    def compare(module, rng):
        report = Report()
        chosen = operands(rng, module)
        found = compute(module, *chosen) if rng.random() < 0.7 else None
        for index in range(ENTRIES):
            ends = [entry(operand, index) for operand in chosen]
            one = None if found is None else entry(found, index)
            if one is None:
                number = compute(module, *(module.Bounded(*map(float, end)) for end in ends))
                one = number.value, number.error
            points = itertools.product(*(corners(*end, least=least) for end in ends))
            report.add([exact(*point) for point in points], *one)
        return report

    return compare


def pair(rng, module):
    a, b = numbers(rng, ENTRIES), numbers(rng, ENTRIES)
    b[::5] = a[::5] * rng.choice([1.0, -1.0, 1.0 + 2.0**-50], a[::5].size)
    return module.Bounded(a, errors(rng, a)), module.Bounded(b, errors(rng, b))


def moderate_pair(rng, module):
    """Numbers whose products and quotients neither overflow nor underflow, as well as those of
    :func:`pair`.
    """
    if rng.random() < 0.5:
        return pair(rng, module)
    a, b = numbers(rng, ENTRIES, low=-100, high=100), numbers(rng, ENTRIES, low=-100, high=100)
    a[np.abs(a) < 1e-110], b[np.abs(b) < 1e-110] = 1.5, 0.75
    return module.Bounded(a, errors(rng, a)), module.Bounded(b, errors(rng, b))


def one(rng, module, **keywords):
    a = numbers(rng, ENTRIES, **keywords)
    return (module.Bounded(a, errors(rng, a)),)


def moderate(rng, module):
    """Exponents: usual ones, and those whose exponential underflows."""
    usual = rng.random() < 0.7
    a = numbers(rng, ENTRIES, low=-3, high=2.8) if usual else rng.uniform(-760, -600, ENTRIES)
    if rng.random() < 0.8:
        return (module.Bounded(a, np.minimum(errors(rng, a), 10.0 ** rng.uniform(-2, 2.8))),)
    return (module.Bounded(a),)


def above_minus_one(rng, module):
    """Numbers of all sizes, or a few units in the last place above −1, with errors of a part of
    that.
    """
    if rng.random() < 0.5:
        return one(rng, module)
    k = rng.integers(1, 9, ENTRIES)
    return (module.Bounded(k * 2.0**-53 - 1.0, k * 2.0**-53 * rng.uniform(0, 1, ENTRIES)),)


def near_one(rng, module):
    """Numbers of all sizes, or 1 with tiny errors, so that the logarithm is 0."""
    if rng.random() < 0.5:
        return one(rng, module)
    return (module.Bounded(np.ones(ENTRIES), 10.0 ** rng.uniform(-30, -14, ENTRIES)),)


def amplified(rng, module):
    """A divisor whose error is nearly as large as itself, under a quotient that underflows."""
    a = rng.uniform(1, 2, ENTRIES) * 2.0 ** rng.integers(-1074, -1000, ENTRIES)
    b = rng.uniform(1, 2, ENTRIES) * 2.0 ** rng.integers(-30, 40, ENTRIES)
    return module.Bounded(a), module.Bounded(b, b * (1.0 - 10.0 ** rng.uniform(-12, -1, ENTRIES)))


def quotient(a, b):
    return None if b == 0 else a / b


def power(g_of):
    """a^g with an exponent that is exact, or known to an error."""

    def compare(module, rng):
        report = Report()
        g, ends = g_of(module, rng)
        a = numbers(rng, ENTRIES, positive=True, low=-40, high=40)
        x = module.Bounded(a, errors(rng, a))
        found = x**g
        for index in range(ENTRIES):
            value, error = entry(found, index)
            exact = [
                flint.arb(0) if point == 0 else arb(point) ** arb(end)
                for point in corners(*entry(x, index), least=0)
                for end in ends
            ]
            report.add(exact, value, error)
        return report

    return compare


def exact_exponent(module, rng):
    g = float(rng.choice([1.0, 2.0, 3.0, 1.5, 1.0001, 9.5, round(rng.uniform(1, 12), 3)]))
    return g, [Fraction(g)]


def conjugate_exponent(module, rng):
    """p/(p − 1) of an exact p near 1 and far from it."""
    near = rng.random() < 0.5
    p = 1.0 + (rng.integers(1, 4) * 2.0**-52 if near else 10.0 ** rng.uniform(-15, 3))
    bounded = module.exact(p)
    return bounded / (bounded - 1.0), [Fraction(p) / (Fraction(p) - 1)]


def wide_exponent(module, rng):
    g = rng.uniform(1.0, 6.0)
    e = (g - 1.0) * 10.0 ** rng.uniform(-17, -1)
    return module.Bounded(g, e), [Fraction(g) - Fraction(e), Fraction(g), Fraction(g) + Fraction(e)]


def exponential(point):
    return None if point > 10_000 else arb(point).exp()


def logarithm(point):
    return None if point <= 0 else arb(point).log()


def logarithm_of_more(point):
    return None if point <= -1 else arb(1 + point).log()


# Sums


def interval(middle, radius):
    return [middle + corner * radius for corner in CORNERS]


def summed(module, rng):
    report = Report()
    n = int(rng.choice([1, 5, 300, 1023, 1024, 1500, 4097]))
    a = numbers(rng, n, low=-30, high=30)
    if rng.random() < 0.3:
        # Everything cancels but a tiny number.
        half = rng.standard_normal(n)
        a = np.concatenate([half, -half, [1e-40]])
        rng.shuffle(a)
    elif rng.random() < 0.6:
        a[1::2] = -a[: n // 2 * 2 : 2] * (1.0 + 1e-13 * rng.standard_normal(n // 2))
        rng.shuffle(a)
    x = module.Bounded(a, errors(rng, a))
    # A list of numbers, some of them exact, is added in the same way.
    listed = n < 20 and rng.random() < 0.5
    found = module.total([x[i] for i in range(n)] if listed and a.size == n else x)
    exact = interval(sum(vector(a)), sum(vector(radii_of(x))))
    report.add(exact, float(found.value), float(found.error))
    return report


def squares_summed(module, rng):
    """Of numbers of all sizes, equal ones, whose roundings add up, and tiny ones and zeros."""
    report = Report()
    n, kind = int(rng.choice([1023, 1024, 1101])), int(rng.integers(0, 3))
    a = numbers(rng, n, low=-30, high=30) if kind == 0 else np.full(n, rng.uniform(1.0, 2.0))
    if kind == 2:
        a = 2.0 ** rng.uniform(-545, -530, n) * (rng.random() < 0.8)
    found = module.sum_of_squares(module.Bounded(a))
    report.add([dot(vector(a), vector(a))], float(found.value), float(found.error))
    return report


def matrix(rng, module, n=6, **keywords):
    a = numbers(rng, (n, int(rng.integers(1, 8))), **keywords)
    return module.Bounded(a, errors(rng, a))


def by_rows(compute, exact, operands):
    """Compare a function of the rows of a matrix, at the ends of all intervals and where entries
    lie at different ends.
    """

    def compare(module, rng):
        report = Report()
        x, *rest = operands(rng, module)
        found = compute(module, x, *rest)
        rows = zip(map(vector, x.value), map(vector, radii_of(x)), strict=True)
        for i, (a, r) in enumerate(rows):
            each = [[corner] * len(a) for corner in CORNERS]
            each.append(rng.choice(CORNERS, len(a)).tolist())
            points = [
                [z + corner * e for z, corner, e in zip(a, ends, r, strict=True)] for ends in each
            ]
            others = [other if np.ndim(other) == 0 else fraction(other[i]) for other in rest]
            report.add([exact(point, *others) for point in points], *entry(found, i))
        return report

    return compare


def wide(rng, module):
    return (matrix(rng, module, low=-100, high=100),)


def largest(rng, module):
    return (*wide(rng, module), int(rng.integers(1, 5)))


def shares(rng, module):
    """Parts of numbers s: shares of them, or numbers of all sizes; what is left is rounded and
    taken away as well, three times, so that even the rounding errors cancel.
    """
    s, k = 10.0 ** rng.uniform(-6, 6, 8), int(rng.integers(1, 8))
    if rng.random() < 0.5:
        share = rng.dirichlet(np.ones(k), 8) * rng.choice([1.0, 1.0 - 1e-14, 0.3], (8, 1))
        a = share * s[:, None]
        return module.Bounded(a, errors(rng, a)), s
    a = numbers(rng, (8, k), low=-12, high=2)
    for _ in range(3):
        left = [float(Fraction(t) - sum(vector(row))) for t, row in zip(s.tolist(), a, strict=True)]
        a = np.column_stack([a, left])
    return module.Bounded(a), s


def exponents(rng, module):
    a = numbers(rng, (8, int(rng.integers(1, 6))), low=-3, high=2.9)
    if rng.random() < 0.3:
        a = -rng.uniform(0 if rng.random() < 0.5 else 690, 775, a.shape)
    error = 0.0 if rng.random() < 0.3 else errors(rng, a)
    return (module.Bounded(a, np.minimum(np.broadcast_to(error, a.shape), 300.0)),)


def softened(point):
    return (1 + sum((arb(z).exp() for z in point), flint.arb(0))).log()


def one_exponent(rng, module):
    x = exponents(rng, module)[0][:, 0]
    return (module.Bounded(np.resize(x.value, ENTRIES), np.resize(x.error, ENTRIES)),)


def entropy(module, rng):
    """−x log(x/s) of numbers near 0, near s and between, with a rest that is known to an error of
    its own, or exactly.
    """
    report = Report()
    s = 10.0 ** rng.uniform(-6, 6, ENTRIES)
    near = 10.0 ** (
        rng.uniform(-18, -0.2, ENTRIES) if rng.random() < 0.7 else rng.uniform(-330, -250, ENTRIES)
    )
    share = rng.choice([0.0, 0.5, 1.0, 1.0 - 2.0**-53, 2.0**-1074], ENTRIES)
    kind = rng.integers(0, 4, ENTRIES)
    a = s * np.select(
        [kind == 0, kind == 1, kind == 2], [share, near, 1.0 - near], rng.random(ENTRIES)
    )
    relative = np.select(
        [kind == 0, kind == 1],
        [0.0, 10.0 ** rng.uniform(-18, 1, ENTRIES)],
        10.0 ** rng.uniform(-18, -8, ENTRIES),
    )
    r = 0.0
    if rng.random() < 0.6:
        r = a * relative if rng.random() < 0.5 else s * 10.0 ** rng.uniform(-40, 1, ENTRIES)
    x = module.Bounded(a, r)
    left = (max(z - w, 0) for z, w in zip(vector(s), vector(a), strict=True))
    b = np.array([float(z) for z in left])
    # At least the distance from b to s − x for every x; or x is known by its rest alone.
    t = np.broadcast_to(r, a.shape) * (1.0 + 2.0**-40) + 2.0**-53 * b
    if kind[0] == 3:
        b = np.where(kind == 2, near * s, b)
        t = np.where(kind == 2, b * 10.0 ** rng.uniform(-18, -1), t)
    found = module.entropy(x, module.Bounded(b, t), s)
    for i in range(ENTRIES):
        low, _, high = corners(*entry(x, i))
        whole = fraction(s[i])
        low = max(low, Fraction(0), whole - fraction(b[i]) - fraction(t[i]))
        high = min(high, whole, whole - fraction(b[i]) + fraction(t[i]))
        if low > high:
            continue
        points = [low, (low + high) / 2, high]
        exact = [
            flint.arb(0) if z in (0, whole) else -arb(z) * (arb(z) / arb(whole)).log()
            for z in points
        ]
        report.add(exact, *entry(found, i))
    return report


def with_a_matrix(module, rng):
    """The product with an exact matrix, of signs or of any numbers."""
    report = Report()
    (x,) = wide(rng, module)
    shape = x.shape[1], 3
    B = rng.choice([-1.0, 0.0, 1.0], shape)
    B = B if rng.random() < 0.5 else numbers(rng, shape, low=-100, high=100)
    found = x @ B
    for i, j in np.ndindex(found.shape):
        column = vector(B[:, j])
        reach = dot(map(abs, column), vector(radii_of(x)[i]))
        report.add(interval(dot(vector(x.value[i]), column), reach), *entry(found, (i, j)))
    return report


# Rows


def vector(values):
    return [Fraction(float(x)) for x in np.ravel(values)]


def dot(x, y):
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def rows_of(module, rng):
    """Rows, dense and sparse, centred or not, and their exact counterparts."""
    n, d = (int(rng.integers(1, 7)), int(rng.integers(1, 6)))
    if rng.random() < 0.3:
        n, d = (1, 1) if rng.random() < 0.8 else (1100, 2)
    X = numbers(rng, (n, d), low=-120, high=120)
    if rng.random() < 0.4:
        X = rng.standard_normal((n, d)) + 10.0 ** rng.uniform(0, 8)
    if rng.random() < 0.15:
        # Products of coordinates underflow.
        X = X * 2.0**-600
    shifted = bool(rng.random() < 0.4)
    centre = X.mean(axis=0) / 3.0 if shifted else np.zeros(d)
    rows = X - centre
    if not shifted and rng.random() < 0.5:
        rows = sp.csr_array(rows)
    exact = [[a - b for a, b in zip(vector(row), vector(centre), strict=True)] for row in X]
    return module.Rows(rows, shifted=shifted), exact


def on_the_sphere(point, distance):
    """Exact points at most a distance away: along each axis, where that is exact."""
    moves = [(j, sign * Fraction(distance)) for j in range(len(point)) for sign in (-1, 1)]
    return [point] + [
        [x + move * (i == j) for i, x in enumerate(point)] for j, move in moves if move
    ]


def ball(module, rng, shape, size=1.0):
    w = numbers(rng, shape, low=-120, high=120)
    w = w if rng.random() < 0.6 else size * rng.standard_normal(shape)
    if rng.random() < 0.1:
        w = w * 2.0**-560
    if rng.random() < 0.1:
        # The square of the distance underflows.
        return module.Ball(np.zeros(shape), 10.0 ** rng.uniform(-172, -160))
    length = np.linalg.norm(w) if rng.random() < 0.7 else 1.0
    return module.Ball(w, float(rng.choice([0.0, 0.0, 1e-17, 1e-9, 1.0, 2.0**-1074]) * length))


def small_ball(module, rng):
    return ball(module, rng, int(rng.integers(1, 5)))


def products(module, rng, *, exactly=False):
    """Rows @ Ball, or Rows.product of an exact point; each column of a matrix is such a point, with
    the distance of all.
    """
    report = Report()
    rows, exact = rows_of(module, rng)
    shape = (len(exact[0]),) if rng.random() < 0.6 else (len(exact[0]), 2)
    w = ball(module, rng, shape)
    if exactly:
        w = module.Ball(numbers(rng, shape, low=-50, high=50), 0.0)
    found = rows.product(w.value) if exactly else rows @ w
    for index in np.ndindex(found.shape):
        if index[0] < 8:
            point = vector(w.value if w.value.ndim == 1 else w.value[:, index[1]])
            ends = on_the_sphere(point, w.distance)
            report.add([dot(exact[index[0]], end) for end in ends], *entry(found, index))
    return report


def aligned_products(module, rng):
    """A row along the error of w, where the bound of Cauchy and Schwarz is attained."""
    report = Report()
    raw = np.abs(numbers(rng, (ENTRIES, 1), low=-50, high=50)) + 0.1
    centre = 0.0 if rng.random() < 0.3 else 1.0 / 3.0
    distance = 0.0 if rng.random() < 0.5 else float(10.0 ** rng.uniform(-18, 3))
    w = module.Ball(numbers(rng, 1, low=-50, high=50), distance)
    found = module.Rows(raw - centre, shifted=centre > 0) @ w
    for i in range(ENTRIES):
        x = fraction(raw[i, 0]) - Fraction(centre)
        ends = interval(fraction(w.value[0]), Fraction(w.distance))
        report.add([x * end for end in ends], *entry(found, i))
    return report


def grams(module, rng):
    """Rows.gram, whose distance to the exact matrix is compared."""
    report = Report()
    rows, exact = rows_of(module, rng)
    c = numbers(rng, len(exact), low=-50, high=50, positive=True)
    columns = [list(column) for column in zip(*exact, strict=True)]
    weighted = [[a * s for a, s in zip(column, vector(c), strict=True)] for column in columns]
    report.within([[dot(x, z) for z in columns] for x in weighted], rows.gram(c))
    return report


def combinations(module, rng):
    """X'v, whose distance to the exact point is compared; a matrix has columns v."""
    report = Report()
    rows, exact = rows_of(module, rng)
    shape = (len(exact),) if rng.random() < 0.6 else (len(exact), 2)
    v = numbers(rng, shape, low=-50, high=50)
    if rng.random() < 0.2:
        v = v * 2.0**-500
    x = module.Bounded(v, 0.0 if rng.random() < 0.5 else errors(rng, v))
    found = rows.combined(x)
    columns = [list(column) for column in zip(*exact, strict=True)]
    for corner in CORNERS if np.any(x.error) else (0,):
        ends = [a + corner * e for a, e in zip(vector(v), vector(radii_of(x)), strict=True)]
        ends = np.array(ends, dtype=object).reshape(v.shape[0], -1)
        report.within([[dot(column, end) for end in ends.T] for column in columns], found)
    return report


def around_numbers(module, rng):
    report = Report()
    (x,) = one(rng, module, low=-100, high=100)
    ends = [a + e for a, e in zip(vector(x.value), vector(radii_of(x)), strict=True)]
    report.within(ends, module.Ball.around(x))
    return report


def of_a_ball(compute, exact):
    """Compare a function of the squared length of a point."""

    def compare(module, rng):
        report, w = Report(), small_ball(module, rng)
        found = compute(w)
        squares = [dot(point, point) for point in on_the_sphere(vector(w.value), w.distance)]
        report.add([exact(square) for square in squares], float(found.value), float(found.error))
        return report

    return compare


def multiples_of_balls(module, rng):
    report = Report()
    x, error = small_ball(module, rng), float(rng.choice([0.0, 1e-12, 0.3]))
    factor = module.Bounded(float(rng.standard_normal()), error)
    found = x.scaled(factor)
    for times in interval(fraction(factor.value), fraction(factor.error)):
        for point in on_the_sphere(vector(x.value), x.distance):
            report.within([times * a for a in point], found)
    return report


def sums_of_balls(module, rng):
    report = Report()
    x = small_ball(module, rng)
    y = ball(module, rng, x.value.size)
    exact = [a + b for a, b in zip(vector(x.value), vector(y.value), strict=True)]
    report.within(exact, x + y, Fraction(x.distance) + Fraction(y.distance))
    return report


def scaled(module, rng):
    """A product with a plain number, which may be a power of 2."""
    factor = float(rng.choice([2.0, -1.0, 4.0, 0.5, 0.25, 1.0, 3.0, -0.1, 2.0**600, 0.0]))
    return elementwise(lambda m, u: factor * u, lambda a: Fraction(factor) * a, one)(module, rng)


def root(point):
    return arb(max(point, Fraction(0))).sqrt()


def sums_of_parts(m, x):
    k = x.shape[1]
    flat = m.Bounded(x.value.ravel(), np.broadcast_to(x.error, x.shape).ravel())
    return m.sums_of_parts(flat, starts=np.arange(0, x.size, k), sizes=k, largest=k)


OPERATIONS = {
    "add": elementwise(lambda m, x, y: x + y, lambda a, b: a + b, pair),
    "subtract": elementwise(lambda m, x, y: x - y, lambda a, b: a - b, pair),
    "from one": elementwise(lambda m, x: 1.0 - x, lambda a: 1 - a, one),
    "multiply": elementwise(lambda m, x, y: x * y, lambda a, b: a * b, moderate_pair),
    "scale": scaled,
    "divide": elementwise(lambda m, x, y: x / y, quotient, moderate_pair),
    "divide by an uncertain number": elementwise(lambda m, x, y: x / y, quotient, amplified),
    "divide a number": elementwise(lambda m, x: 3.0 / x, lambda a: quotient(3, a), one),
    "square": elementwise(lambda m, x: m.square(x), lambda a: a * a, one),
    "absolute": elementwise(lambda m, x: abs(-x), abs, one),
    "positive part": elementwise(
        lambda m, x: m.positive_part(x), lambda a: max(a, Fraction(0)), one
    ),
    "maximum": elementwise(lambda m, x, y: m.maximum(x, y), max, pair),
    "minimum": elementwise(lambda m, x, y: m.minimum(x, y), min, pair),
    "root": elementwise(lambda m, x: m.sqrt(x), root, partial(one, positive=True), least=0),
    "power": power(exact_exponent),
    "conjugate power": power(conjugate_exponent),
    "uncertain power": power(wide_exponent),
    "exponential": elementwise(lambda m, x: m.exp(x), exponential, moderate),
    "logarithm": elementwise(lambda m, x: m.log(x), logarithm, near_one),
    "logarithm of 1 + x": elementwise(lambda m, x: m.log1p(x), logarithm_of_more, above_minus_one),
    "log1p_exp": elementwise(lambda m, x: m.log1p_exp(x), lambda a: softened([a]), one_exponent),
    "total": summed,
    "sum of squares": squares_summed,
    "row sums": by_rows(lambda m, x: m.row_sums(x), sum, wide),
    "sums of parts": by_rows(sums_of_parts, sum, wide),
    "remainder": by_rows(lambda m, x, s: m.remainder(s, x), lambda a, s: s - sum(a), shares),
    "log1p_sum_exp": by_rows(lambda m, x: m.log1p_sum_exp(x), softened, exponents),
    "largest sums": by_rows(
        lambda m, x, k: m.largest_sums(x, k), lambda a, k: sum(sorted(a)[::-1][:k]), largest
    ),
    "entropy": entropy,
    "product with a matrix": with_a_matrix,
    "rows times a point": products,
    "rows times a point along them": aligned_products,
    "rows times an exact point": partial(products, exactly=True),
    "combinations of rows": combinations,
    "matrix of rows": grams,
    "point around numbers": around_numbers,
    "norm": of_a_ball(lambda w: w.norm(), root),
    "squared norm": of_a_ball(lambda w: w.squared_norm(), Fraction),
    "multiple of a point": multiples_of_balls,
    "sum of points": sums_of_balls,
}


def run(module, name, count, seed=0):
    """Compare an operation `count` times; return the entries compared, the unknown ones, and what
    was missed.
    """
    entries, unknown, missed = 0, 0, []
    before, flint.ctx.prec = flint.ctx.prec, BITS
    try:
        with np.errstate(all="ignore"):
            for k in range(count):
                report = OPERATIONS[name](module, np.random.default_rng([seed, k, len(name)]))
                entries, unknown = entries + report.entries, unknown + report.unknown
                missed += report.missed
    finally:
        flint.ctx.prec = before
    return entries, unknown, missed
