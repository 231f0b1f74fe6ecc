"""The operations of bounded arithmetic against exact arithmetic, for any module that offers them:
the real one or a mutant.

Values and errors are compared as they are, never the ends: the outward step of ``upper`` hides
errors of a unit in the last place.
"""

import math
from fractions import Fraction

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


def known(value, error):
    return math.isfinite(value) and math.isfinite(error)


def misses(exact_values, value, error):
    """The exact values that are certainly not within the error of a computed one."""
    if not known(value, error):
        return []
    found = []
    for exact in exact_values:
        if isinstance(exact, flint.arb):
            if abs(exact - arb(value)) > arb(error):
                found.append((exact, value, error))
        elif abs(exact - fraction(value)) > fraction(error):
            found.append((exact, value, error))
    return found


class Report:
    """Entries compared, those of which nothing is known, and misses."""

    def __init__(self):
        self.entries, self.unknown, self.missed = 0, 0, []

    def add(self, exact_values, value, error):
        self.entries += 1
        self.unknown += not known(value, error)
        self.missed += misses(exact_values, value, error)


def elementwise(compute, exact, operands, *, least=None):
    """Compare an operation entry by entry at the ends of its operands' balls.

    `operands(rng, module)` returns bounded arrays; `exact` gets an exact point of each, and returns
    None where the operation has no value, of which nothing may be claimed.
    """

    def compare(module, rng):
        report = Report()
        chosen = operands(rng, module)
        found = compute(module, *chosen)
        for index in np.ndindex(*found.value.shape):
            value, error = entry(found, index)
            points = [[]]
            for operand in chosen:
                ends = (
                    corners(*entry(operand, index), least=least)
                    if isinstance(operand, module.Bounded) and operand.shape
                    else (
                        [fraction(operand)]
                        if not isinstance(operand, module.Bounded)
                        else corners(operand.value, operand.error, least=least)
                    )
                )
                points = [[*point, end] for point in points for end in ends]
            values = [exact(*point) for point in points]
            if any(each is None for each in values):
                if known(value, error):
                    report.missed.append(("claimed", value, error))
                continue
            report.add(values, value, error)
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


def positive(rng, module):
    return one(rng, module, positive=True)


def moderate(rng, module):
    """Exponents: usual ones, and those whose exponential underflows."""
    a = (
        numbers(rng, ENTRIES, low=-3, high=2.8)
        if rng.random() < 0.7
        else rng.uniform(-760, -600, ENTRIES)
    )
    return (
        module.Bounded(
            a,
            np.minimum(errors(rng, a), 10.0 ** rng.uniform(-2, 2.8)) if rng.random() < 0.8 else 0.0,
        ),
    )


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


def scalars(compute, exact, operands):
    """An operation on single numbers, which takes other branches than on arrays."""

    def compare(module, rng):
        report = Report()
        arrays = operands(rng, module)
        for index in range(ENTRIES):
            chosen = [module.Bounded(*map(float, entry(operand, index))) for operand in arrays]
            found = compute(module, *chosen)
            points = [[]]
            for operand in chosen:
                points = [
                    [*point, end]
                    for point in points
                    for end in corners(operand.value, operand.error)
                ]
            values = [exact(*point) for point in points]
            if any(each is None for each in values):
                if known(found.value, found.error):
                    report.missed.append(("claimed", found))
                continue
            report.add(values, found.value, found.error)
        return report

    return compare


def usual(rng, module):
    return one(rng, module, positive=True, low=-40, high=40)


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
    p = (
        1.0 + 10.0 ** rng.uniform(-15, 3)
        if rng.random() < 0.5
        else 1.0 + rng.integers(1, 4) * 2.0**-52
    )
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
    found = module.total(x)
    middle = sum(map(Fraction, a.tolist()))
    radius = sum(map(Fraction, np.broadcast_to(x.error, a.shape).tolist()))
    report.add(
        [middle + corner * radius for corner in CORNERS], float(found.value), float(found.error)
    )
    return report


def summed_parts(module, rng):
    """The sum of a list of scalars, some of them exact."""
    report = Report()
    values = numbers(rng, 12, low=-30, high=30)
    radii = np.where(rng.random(12) < 0.4, 0.0, np.abs(values) * 10.0 ** rng.uniform(-18, 0, 12))
    found = module.total(
        [module.Bounded(float(a), float(r)) for a, r in zip(values, radii, strict=True)]
    )
    middle, radius = sum(map(Fraction, values.tolist())), sum(map(Fraction, radii.tolist()))
    report.add(
        [middle + corner * radius for corner in CORNERS], float(found.value), float(found.error)
    )
    return report


def matrix(rng, module, n=6, k=None, **keywords):
    a = numbers(rng, (n, int(rng.integers(1, 8)) if k is None else k), **keywords)
    return module.Bounded(a, errors(rng, a))


def rows_of(x):
    radius = np.broadcast_to(x.error, x.shape)
    for a, r in zip(x.value.tolist(), radius.tolist(), strict=True):
        yield [Fraction(each) for each in a], [Fraction(each) for each in r]


def row_sums(module, rng):
    report = Report()
    x = matrix(rng, module, low=-100, high=100)
    found = module.row_sums(x)
    for i, (a, r) in enumerate(rows_of(x)):
        report.add([sum(a) + corner * sum(r) for corner in CORNERS], *entry(found, i))
    return report


def remainder(module, rng):
    report = Report()
    s = 10.0 ** rng.uniform(-6, 6, 8)
    k = int(rng.integers(1, 8))
    share = rng.dirichlet(np.ones(k), 8) * rng.choice([1.0, 1.0 - 1e-14, 0.3], (8, 1))
    a = share * s[:, None]
    x = module.Bounded(a, errors(rng, a))
    if rng.random() < 0.5:
        # Of all sizes; what is left is rounded and taken away as well, three times, so that even
        # the rounding errors cancel.
        a = numbers(rng, a.shape, low=-12, high=2)
        for _ in range(3):
            left = [
                float(Fraction(t) - sum(map(Fraction, row)))
                for t, row in zip(s.tolist(), a.tolist(), strict=True)
            ]
            a = np.column_stack([a, left])
        x = module.Bounded(a)
    found = module.remainder(s, x)
    for i, (row, r) in enumerate(rows_of(x)):
        report.add(
            [Fraction(s[i]) - sum(row) + corner * sum(r) for corner in CORNERS], *entry(found, i)
        )
    return report


def log1p_sum_exp(module, rng):
    report = Report()
    k = int(rng.integers(1, 6))
    a = numbers(rng, (8, k), low=-3, high=2.9)
    if rng.random() < 0.3:
        a = -rng.uniform(0, 800, (8, k)) if rng.random() < 0.5 else -rng.uniform(690, 750, (8, k))
    error = (
        0.0 if rng.random() < 0.3 else np.minimum(np.broadcast_to(errors(rng, a), a.shape), 300.0)
    )
    x = module.Bounded(a, error)
    found = module.log1p_sum_exp(x)
    for i, (row, r) in enumerate(rows_of(x)):
        exact = [
            (
                1
                + sum(
                    (arb(z + corner * e).exp() for z, e in zip(row, r, strict=True)), flint.arb(0)
                )
            ).log()
            for corner in CORNERS
        ]
        report.add(exact, *entry(found, i))
    return report


def log1p_exp(module, rng):
    a = (
        numbers(rng, ENTRIES, low=-3, high=2.9)
        if rng.random() < 0.6
        else rng.uniform(-760, 0, ENTRIES)
    )
    x = module.Bounded(a, np.minimum(np.broadcast_to(errors(rng, a), a.shape), 300.0))
    return elementwise(
        lambda m, x: m.log1p_exp(x), lambda a: (1 + arb(a).exp()).log(), lambda r, m: (x,)
    )(module, rng)


def largest_sums(module, rng):
    """Maxima and sums of the largest entries, at the ends of all intervals and where entries lie at
    different ends.
    """
    report = Report()
    x = matrix(rng, module, low=-100, high=100)
    k = int(rng.integers(1, 5))
    found = module.largest_sums(x, k)
    for i, (a, r) in enumerate(rows_of(x)):
        points = [[z + corner * e for z, e in zip(a, r, strict=True)] for corner in CORNERS]
        points.append([z + int(rng.choice(CORNERS)) * e for z, e in zip(a, r, strict=True)])
        report.add([sum(sorted(point)[::-1][:k]) for point in points], *entry(found, i))
    return report


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
    r = (
        0.0
        if rng.random() < 0.4
        else a * relative
        if rng.random() < 0.5
        else s * 10.0 ** rng.uniform(-40, 1, ENTRIES)
    )
    x = module.Bounded(a, r)
    b = np.array(
        [float(max(Fraction(whole) - Fraction(one), 0)) for whole, one in zip(s, a, strict=True)]
    )
    # At least the distance from b to s − x for every x; or x is known by its rest alone.
    t = np.broadcast_to(r, a.shape) * (1.0 + 2.0**-40) + 2.0**-53 * b
    if kind[0] == 3:
        b = np.where(kind == 2, near * s, b)
        t = np.where(kind == 2, b * 10.0 ** rng.uniform(-18, -1), t)
    found = module.entropy(x, module.Bounded(b, t), s)
    for i in range(ENTRIES):
        low, high = (
            fraction(a[i]) - Fraction(entry(x, i)[1]),
            fraction(a[i]) + Fraction(entry(x, i)[1]),
        )
        whole = Fraction(float(s[i]))
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
    x = matrix(rng, module, low=-100, high=100)
    k = x.shape[1]
    B = (
        rng.choice([-1.0, 0.0, 1.0], (k, 3))
        if rng.random() < 0.5
        else numbers(rng, (k, 3), low=-100, high=100)
    )
    found = x @ B
    for i, (a, r) in enumerate(rows_of(x)):
        for j in range(3):
            column = vector(B[:, j])
            reach = sum((abs(z) * e for z, e in zip(column, r, strict=True)), Fraction(0))
            report.add(
                [dot(a, column) + corner * reach for corner in CORNERS], *entry(found, (i, j))
            )
    return report


# Rows


def data(rng, *, parts=False):
    n, d = (1100, 2) if parts else (int(rng.integers(1, 7)), int(rng.integers(1, 6)))
    X = numbers(rng, (n, d), low=-120, high=120)
    if rng.random() < 0.4:
        X = rng.standard_normal((n, d)) + 10.0 ** rng.uniform(0, 8)
    if rng.random() < 0.15:
        # Products of coordinates underflow.
        X = X * 2.0**-600
    return X


def vector(values):
    return [Fraction(float(x)) for x in values]


def dot(x, y):
    return sum((a * b for a, b in zip(x, y, strict=True)), Fraction(0))


def on_the_sphere(rng, point, distance):
    """Exact points at most a distance away: along each axis, where that is exact."""
    radius = Fraction(distance)
    return [point] + [
        [x + sign * radius * (i == j) for i, x in enumerate(point)]
        for j in range(len(point))
        for sign in (-1, 1)
    ]


def ball(module, rng, d, size=1.0):
    w = numbers(rng, d, low=-120, high=120) if rng.random() < 0.6 else size * rng.standard_normal(d)
    if rng.random() < 0.1:
        w = w * 2.0**-560
    if rng.random() < 0.1:
        # The square of the distance underflows.
        return module.Ball(np.zeros(d), 10.0 ** rng.uniform(-172, -160))
    distance = float(
        rng.choice([0.0, 0.0, 1e-17, 1e-9, 1.0, 2.0**-1074])
        * (np.linalg.norm(w) if rng.random() < 0.7 else 1.0)
    )
    return module.Ball(w, distance)


def products(module, rng):
    """Rows @ Ball, dense and sparse, shifted or not; the exact point is the best and the worst of
    each row.
    """
    report = Report()
    raw = data(rng)
    shifted = bool(rng.random() < 0.4)
    centre = raw.mean(axis=0) if shifted else np.zeros(raw.shape[1])
    X = raw - centre
    rows = module.Rows(
        sp.csr_array(X) if not shifted and rng.random() < 0.5 else X, shifted=shifted
    )
    w = ball(module, rng, X.shape[1])
    found = rows @ w
    for i in range(X.shape[0]):
        exact_row = [a - b for a, b in zip(vector(raw[i]), vector(centre), strict=True)]
        values = [
            dot(exact_row, point) for point in on_the_sphere(rng, vector(w.value), w.distance)
        ]
        report.add(values, *entry(found, i))
    return report


def aligned_products(module, rng):
    """A row in the direction of the error of w, where the bound of Cauchy and Schwarz is attained."""
    report = Report()
    raw = np.abs(numbers(rng, (ENTRIES, 1), low=-50, high=50)) + 0.1
    centre = 0.0 if rng.random() < 0.3 else 1.0 / 3.0
    w = module.Ball(
        numbers(rng, 1, low=-50, high=50),
        0.0 if rng.random() < 0.5 else float(10.0 ** rng.uniform(-18, 3)),
    )
    found = module.Rows(raw - centre, shifted=centre > 0) @ w
    for i in range(ENTRIES):
        x, point = fraction(raw[i, 0]) - Fraction(centre), fraction(w.value[0])
        report.add(
            [x * (point + corner * Fraction(w.distance)) for corner in CORNERS], *entry(found, i)
        )
    return report


def products_entry_by_entry(module, rng):
    """Rows.product of an exact point, or of two, dense and sparse, shifted or not."""
    report = Report()
    raw = data(rng)
    shifted = bool(rng.random() < 0.4)
    centre = raw.mean(axis=0) if shifted else np.zeros(raw.shape[1])
    X = raw - centre
    rows = module.Rows(
        sp.csr_array(X) if not shifted and rng.random() < 0.5 else X, shifted=shifted
    )
    w = numbers(rng, (X.shape[1], 2) if rng.random() < 0.5 else X.shape[1], low=-50, high=50)
    found = rows.product(w)
    for i in range(X.shape[0]):
        exact_row = [a - b for a, b in zip(vector(raw[i]), vector(centre), strict=True)]
        for index in [(i,)] if w.ndim == 1 else [(i, 0), (i, 1)]:
            report.add(
                [dot(exact_row, vector(w if w.ndim == 1 else w[:, index[1]]))], *entry(found, index)
            )
    return report


def grams(module, rng):
    """Rows.gram, whose distance to the exact matrix is compared."""
    report = Report()
    X = data(rng, parts=rng.random() < 0.1)
    c = numbers(rng, X.shape[0], low=-50, high=50, positive=True)
    found = module.Rows(sp.csr_array(X) if rng.random() < 0.5 else X).gram(c)
    report.entries += 1
    if not (np.isfinite(found.value).all() and math.isfinite(found.distance)):
        report.unknown += 1
        return report
    weights, columns = vector(c), [vector(column) for column in X.T]
    distance = Fraction(0)
    for i, x in enumerate(columns):
        for j, z in enumerate(columns):
            exact = sum((a * b * s for a, b, s in zip(x, z, weights, strict=True)), Fraction(0))
            distance += (exact - fraction(found.value[i, j])) ** 2
    if distance > Fraction(found.distance) ** 2:
        report.missed.append((float(distance) ** 0.5, found.distance))
    return report


def norms_of_balls(module, rng):
    """The norms of points of a ball: their squares are within those of the ends."""
    report = Report()
    w = ball(module, rng, int(rng.integers(1, 5)))
    found = w.norm()
    report.entries += 1
    if not known(float(found.value), float(found.error)):
        report.unknown += 1
        return report
    low, high = (
        Fraction(float(found.value)) + sign * Fraction(float(found.error)) for sign in (-1, 1)
    )
    for point in on_the_sphere(rng, vector(w.value), w.distance):
        square = dot(point, point)
        if square > high**2 or (low > 0 and square < low**2):
            report.missed.append((float(square) ** 0.5, found))
    return report


def combinations(module, rng):
    """X'v, whose distance to the exact point is compared."""
    report = Report()
    raw = data(rng, parts=rng.random() < 0.1)
    if rng.random() < 0.3:
        raw = raw[:1, :1]
    shifted = bool(rng.random() < 0.4)
    centre = raw.mean(axis=0) / 3.0 if shifted else np.zeros(raw.shape[1])
    X = raw - centre
    v = numbers(rng, X.shape[0], low=-50, high=50)
    if rng.random() < 0.2:
        v = v * 2.0**-500
    off = 0.0 if rng.random() < 0.5 else errors(rng, v)
    coefficients = module.Bounded(v, off)
    sparse = not shifted and rng.random() < 0.5
    found = module.Rows(sp.csr_array(X) if sparse else X, shifted=shifted).combined(coefficients)
    ends = np.broadcast_to(off, v.shape)
    exact_rows = [[a - b for a, b in zip(vector(row), vector(centre), strict=True)] for row in raw]
    report.entries += 1
    if not (np.isfinite(found.value).all() and math.isfinite(found.distance)):
        report.unknown += 1
        return report
    for corner in CORNERS:
        chosen = [
            Fraction(float(a)) + corner * Fraction(float(e)) for a, e in zip(v, ends, strict=True)
        ]
        exact = [
            sum((c * row[j] for c, row in zip(chosen, exact_rows, strict=True)), Fraction(0))
            for j in range(raw.shape[1])
        ]
        distance = sum((a - b) ** 2 for a, b in zip(exact, vector(found.value), strict=True))
        if distance > Fraction(found.distance) ** 2:
            report.missed.append((float(distance) ** 0.5, found.distance))
    return report


def products_with_matrices(module, rng):
    """Rows @ Ball of a matrix: each column is such a point, with the distance of all."""
    report = Report()
    X = data(rng)
    w = ball(module, rng, X.shape[1] * 2)
    w = module.Ball(w.value.reshape(-1, 2), w.distance)
    found = module.Rows(X) @ w
    for k in range(2):
        points = on_the_sphere(rng, vector(w.value[:, k]), w.distance)
        for i, row in enumerate(map(vector, X)):
            report.add([dot(row, point) for point in points], *entry(found, (i, k)))
    return report


def combinations_of_columns(module, rng):
    """X'V of a matrix V, whose distance to the exact matrix is compared."""
    report = Report()
    X = data(rng, parts=rng.random() < 0.1)
    V = numbers(rng, (X.shape[0], 2), low=-50, high=50)
    off = 0.0 if rng.random() < 0.3 else errors(rng, V)
    found = module.Rows(X).combined(module.Bounded(V, off))
    report.entries += 1
    if not (np.isfinite(found.value).all() and math.isfinite(found.distance)):
        report.unknown += 1
        return report
    ends = np.broadcast_to(off, V.shape)
    for corner in CORNERS:
        distance = Fraction(0)
        for k in range(2):
            chosen = [
                Fraction(float(a)) + corner * Fraction(float(e))
                for a, e in zip(V[:, k], ends[:, k], strict=True)
            ]
            for j, column in enumerate(X.T):
                distance += (dot(vector(column), chosen) - fraction(found.value[j, k])) ** 2
        if distance > Fraction(found.distance) ** 2:
            report.missed.append((float(distance) ** 0.5, found.distance))
    return report


def around_numbers(module, rng):
    report = Report()
    (x,) = one(rng, module)
    found = module.Ball.around(x)
    report.entries += 1
    if math.isfinite(found.distance):
        squares = sum((fraction(e) ** 2 for e in np.broadcast_to(x.error, x.shape)), Fraction(0))
        if squares > Fraction(found.distance) ** 2:
            report.missed.append((found.distance,))
    return report


def squared_norms(module, rng):
    report = Report()
    w = ball(module, rng, int(rng.integers(1, 5)))
    found = w.squared_norm()
    values = [dot(point, point) for point in on_the_sphere(rng, vector(w.value), w.distance)]
    report.add(values, float(found.value), float(found.error))
    return report


def multiples_of_balls(module, rng):
    report = Report()
    x, factor = (
        ball(module, rng, int(rng.integers(1, 5))),
        module.Bounded(float(rng.standard_normal()), float(rng.choice([0.0, 1e-12, 0.3]))),
    )
    found = x.scaled(factor)
    report.entries += 1
    for corner in CORNERS:
        times = fraction(factor.value) + corner * fraction(factor.error)
        for point in on_the_sphere(rng, vector(x.value), x.distance):
            distance = sum(
                (times * a - b) ** 2 for a, b in zip(point, vector(found.value), strict=True)
            )
            if distance > fraction(found.distance) ** 2:
                report.missed.append((float(distance) ** 0.5, found.distance))
    return report


def sums_of_balls(module, rng):
    report = Report()
    d = int(rng.integers(1, 5))
    x, y = ball(module, rng, d), ball(module, rng, d)
    found = x + y
    report.entries += 1
    exact = [a + b for a, b in zip(vector(x.value), vector(y.value), strict=True)]
    distance = sum((a - b) ** 2 for a, b in zip(exact, vector(found.value), strict=True))
    room = Fraction(found.distance) - Fraction(x.distance) - Fraction(y.distance)
    if room < 0 or distance > room**2:
        report.missed.append((float(distance), found.distance))
    return report


def scaled(module, rng):
    """A product with a plain number, which may be a power of 2."""
    (x,) = one(rng, module)
    factor = float(rng.choice([2.0, -1.0, 4.0, 0.5, 0.25, 1.0, 3.0, -0.1, 2.0**600, 0.0]))
    return elementwise(lambda m, u: factor * u, lambda a: Fraction(factor) * a, lambda r, m: (x,))(
        module, rng
    )


def from_one(module, rng):
    return elementwise(lambda m, u: 1.0 - u, lambda a: 1 - a, one)(module, rng)


OPERATIONS = {
    "add": elementwise(lambda m, x, y: x + y, lambda a, b: a + b, pair),
    "subtract": elementwise(lambda m, x, y: x - y, lambda a, b: a - b, pair),
    "from one": from_one,
    "multiply": elementwise(lambda m, x, y: x * y, lambda a, b: a * b, moderate_pair),
    "scale": scaled,
    "divide": elementwise(lambda m, x, y: x / y, quotient, moderate_pair),
    "divide by an uncertain number": elementwise(lambda m, x, y: x / y, quotient, amplified),
    "divide a number": elementwise(lambda m, x: 3.0 / x, lambda a: quotient(3, a), one),
    "multiply numbers": scalars(lambda m, x, y: x * y, lambda a, b: a * b, moderate_pair),
    "divide numbers": scalars(lambda m, x, y: x / y, quotient, moderate_pair),
    "root of numbers": scalars(
        lambda m, x: m.sqrt(x), lambda a: arb(max(a, Fraction(0))).sqrt(), positive
    ),
    "power of numbers": scalars(
        lambda m, x: x**1.7, lambda a: arb(max(a, Fraction(0))) ** arb(1.7), usual
    ),
    "logarithm of numbers": scalars(lambda m, x: m.log(x), logarithm, near_one),
    "exponential of numbers": scalars(lambda m, x: m.exp(x), exponential, moderate),
    "square": elementwise(lambda m, x: m.square(x), lambda a: a * a, one),
    "absolute": elementwise(lambda m, x: abs(-x), abs, one),
    "positive part": elementwise(
        lambda m, x: m.positive_part(x), lambda a: max(a, Fraction(0)), one
    ),
    "maximum": elementwise(lambda m, x, y: m.maximum(x, y), max, pair),
    "minimum": elementwise(lambda m, x, y: m.minimum(x, y), min, pair),
    "root": elementwise(lambda m, x: m.sqrt(x), lambda a: arb(a).sqrt(), positive, least=0),
    "power": power(exact_exponent),
    "conjugate power": power(conjugate_exponent),
    "uncertain power": power(wide_exponent),
    "exponential": elementwise(lambda m, x: m.exp(x), exponential, moderate),
    "logarithm": elementwise(lambda m, x: m.log(x), logarithm, near_one),
    "logarithm of 1 + x": elementwise(lambda m, x: m.log1p(x), logarithm_of_more, above_minus_one),
    "total": summed,
    "total of parts": summed_parts,
    "row sums": row_sums,
    "remainder": remainder,
    "log1p_sum_exp": log1p_sum_exp,
    "log1p_exp": log1p_exp,
    "largest sums": largest_sums,
    "entropy": entropy,
    "product with a matrix": with_a_matrix,
    "rows times a point": products,
    "rows times a point along them": aligned_products,
    "combinations of rows": combinations,
    "rows times a matrix": products_with_matrices,
    "combinations of rows by columns": combinations_of_columns,
    "point around numbers": around_numbers,
    "rows times an exact point": products_entry_by_entry,
    "matrix of rows": grams,
    "norm": norms_of_balls,
    "squared norm": squared_norms,
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
                entries, unknown, missed = (
                    entries + report.entries,
                    unknown + report.unknown,
                    missed + report.missed,
                )
    finally:
        flint.ctx.prec = before
    return entries, unknown, missed
