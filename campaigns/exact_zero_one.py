"""The 0-1, l0 and ramp problems over all vertices in rational arithmetic, and hostile instances to
hold the search against; "k" is the 0-1 problem with a budget.

    python -m campaigns.exact_zero_one [--problem zero-one|k|l0|ramp] [--count 20000] [--rows 12]

An optimum of a counted loss is the point of least norm on the hyperplanes u = 1 of some linearly
independent rows. With the ramp loss some other rows have slacks between 0 and 2 besides, whose
losses pull at the point of least norm. There are few enough for few rows to try them all. Every
failing seed is printed.
"""

import itertools
import math
from fractions import Fraction
from functools import lru_cache

import numpy as np

import svmcvx as sx
from campaigns import common
from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.indicator import l0, ramp, zero_one

PROBLEMS = ("zero-one", "k", "l0", "ramp")
# Rows of an instance with a free intercept, at most, unless told otherwise.
FREE_ROWS = {"l0": 9, "ramp": 6}
# Designs of integers, whose products have no rounding error.
EXACT_PRODUCTS = ("integers", "duplicates", "signs")
DESIGNS = ("integers", "offset", "columns", "duplicates", "gaussian", "far", "tiny", "signs")


def solved(A, b):
    """Solve a square system of fractions; None if it is singular."""
    size = len(b)
    rows = [[*row, right] for row, right in zip(A, b, strict=True)]
    for k in range(size):
        pivot = next((i for i in range(k, size) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(size):
            if i != k and rows[i][k]:
                factor = rows[i][k] / rows[k][k]
                rows[i] = [x - factor * z for x, z in zip(rows[i], rows[k], strict=True)]
    return [rows[k][size] / rows[k][k] for k in range(size)]


def inner(x, z):
    return sum((a * b for a, b in zip(x, z, strict=True)), Fraction(0))


def exact_optimum(G, weight, *, lam=None, k=None):
    """The smallest objective of a vertex, w = 0 included; None if none is feasible."""
    rows = [[Fraction(value) for value in row] for row in G.tolist()]
    return least_vertex([[inner(x, z) for z in rows] for x in rows], weight, lam=lam, k=k)


def least_vertex(gram, weight, *, lam=None, k=None):
    """The smallest objective of a vertex of the 0-1 problem whose signed rows have this Gram
    matrix.
    """
    s = [Fraction(value) for value in weight.tolist()]
    best = None
    for size in range(len(gram) + 1):
        independent = False
        for tight in itertools.combinations(range(len(gram)), size):
            alpha = solved([[gram[i][j] for j in tight] for i in tight], [Fraction(1)] * size)
            if alpha is None:
                continue
            independent = True
            norm = sum(alpha, Fraction(0))
            if best is not None and norm >= best:
                continue
            margins = [
                sum((a * gram[j][i] for a, j in zip(alpha, tight, strict=True)), Fraction(0))
                for i in range(len(gram))
            ]
            lost = sum((s[i] for i in range(len(gram)) if margins[i] < 1), Fraction(0))
            if k is not None and lost > Fraction(k):
                continue
            value = norm + (Fraction(lam) * lost if lam is not None else 0)
            if best is None or value < best:
                best = value
        if not independent:
            break
    return best


def integers(values):
    """Fractions as an array of integers, and their common denominator."""
    denominator = math.lcm(*(value.denominator for line in values for value in line))
    return (
        np.array([[int(value * denominator) for value in line] for line in values], dtype=object),
        denominator,
    )


def integer_solved(A):
    """Solve a square system of integers whose right sides follow its columns; return a denominator
    and the numerators, or None if it is singular.

    This is Bareiss' elimination, whose divisions leave no remainder.
    """
    size, divisor = len(A), 1
    for k in range(size):
        pivot = next((i for i in range(k, size) if A[i, k]), None)
        if pivot is None:
            return None
        A[[k, pivot]] = A[[pivot, k]]
        for i in range(size):
            if i != k:
                A[i] = (A[k, k] * A[i] - A[i, k] * A[k]) // divisor
        divisor = A[k, k]
    return divisor, A[:, size:]


def exact_free_optimum(K, y, weight, C, problem):
    """The smallest objective with a free intercept, of the l0-norm hinge or the ramp loss, for the
    Gram matrix of the observations.

    With the slopes of some rows, T of them on their hyperplanes, the best point solves the
    optimality conditions of a quadratic program, whose right side is linear in the slopes. Of the
    ramp loss only the points count at which the rows with a slope, and no others, have slacks
    between 0 and 2; the optimum is one of them. The objective of a point is that of the true loss.
    """
    n = len(y)
    signs = np.array([int(sign) for sign in y], dtype=object)
    gram, unit = integers([[Fraction(value) for value in line] for line in K])
    gram = gram * signs * signs[:, None]
    price = [Fraction(C) * Fraction(value) for value in weight.tolist()]
    numerators, share = integers([price])
    # The pull of a row with a slope on all rows, in units of 1 / (unit · share).
    pulls = numerators[0][:, None] * gram
    best = None
    for size in range(1, n + 1):
        independent = False
        for tight in map(list, itertools.combinations(range(n), size)):
            # A multiplier for each row of T, the intercept, and a right side without slopes and for
            # the slope of each row.
            system = np.zeros((size + 1, size + 2 + n), dtype=object)
            system[:size, :size] = gram[np.ix_(tight, tight)]
            system[:size, size] = system[size, :size] = signs[tight]
            system[:size, size + 1] = unit * share
            system[:size, size + 2 :] = -pulls[:, tight].T
            system[size, size + 2 :] = -numerators[0] * signs
            found = integer_solved(system)
            if found is None:
                continue
            independent, (denominator, parts) = True, found
            if denominator < 0:
                denominator, parts = -denominator, -parts
            one = denominator * unit * share
            margins = parts[:size].T @ gram[tight] + parts[size][:, None] * signs
            margins[1:] += denominator * pulls
            multipliers = parts[:size].sum(axis=0)
            free = [i for i in range(n) if i not in tight]
            slopes = consistent(margins, free, one) if problem == "ramp" else [()]
            for sloped in slopes:
                used = [0, *(j + 1 for j in sloped)]
                u = [Fraction(margin, one) for margin in margins[used].sum(axis=0)]
                value = Fraction(multipliers[used].sum(), 2 * denominator * share)
                value += sum((price[j] * u[j] for j in sloped), Fraction(0)) / 2
                for i in free:
                    slack = 1 - u[i]
                    value += price[i] * (min(2, max(0, slack)) if problem == "ramp" else slack > 0)
                if best is None or value < best:
                    best = value
        if not independent:
            break
    return best


def consistent(margins, free, one):
    """The sets of rows with a slope, of the rows not in T, at whose points these rows and no others
    have slacks between 0 and 2.
    """
    left = np.arange(2 ** len(free))
    for place, i in enumerate(free):
        values = margins[:1, i]
        for j in free:
            values = np.concatenate([values, values + margins[j + 1, i]])
        size = abs(values[left])
        left = left[np.where(left >> place & 1, size <= one, size >= one).astype(bool)]
        if not left.size:
            break
    return [[i for place, i in enumerate(free) if number >> place & 1] for number in left]


def gram_of(X, kernel):
    """The Gram matrix of a linear, polynomial or precomputed kernel in fractions."""
    rows = [[Fraction(value) for value in row] for row in X.tolist()]
    if kernel == "precomputed":
        return rows
    products = [[inner(x, z) for z in rows] for x in rows]
    if kernel is None:
        return products
    gamma, coef0 = Fraction(kernel.gamma), Fraction(kernel.coef0)
    return [[(gamma * value + coef0) ** kernel.degree for value in line] for line in products]


def kernel_of(rng, design):
    """None, a kernel whose values are fractions, or "precomputed" where the products of
    observations have no rounding error.
    """
    return (None, sx.Polynomial(2, 0.5, 1.0), "precomputed")[
        int(rng.integers(3 if design in EXACT_PRODUCTS else 2))
    ]


def free_instance(seed, problem, rows=None):
    """Rows (or a Gram matrix), labels, weights, the price C and the kernel of an instance with a
    free intercept.
    """
    X, y, weight, _, _ = hostile_instance(seed, rows)
    most = FREE_ROWS[problem] if rows is None else rows
    X, y = X[:most], y[:most]
    rng = np.random.default_rng(seed)
    C = float(10 ** rng.uniform(*((-9, 14) if seed % 2 else (-2, 2))))
    design = DESIGNS[seed % len(DESIGNS)]
    kernel = kernel_of(rng, design) if rows is not None or design in EXACT_PRODUCTS else None
    weight = np.ones(len(y)) if weight is None else weight[:most]
    return X @ X.T if kernel == "precomputed" else X, y, weight, C, kernel


def hostile_instance(seed, rows=None):
    """Rows, labels, weights, hyper-parameters and the intercept of an instance of few rows: at most
    11, or as many as `rows` says.
    """
    rng = np.random.default_rng(seed)
    if rows is None:
        n, d = int(rng.integers(2, 12 if seed % 4 == 3 else 8)), int(rng.integers(1, 3))
    else:
        n, d = int(rng.integers(2, rows + 1)), int(rng.integers(1, 4))
    design = DESIGNS[seed % len(DESIGNS)]
    X = rng.integers(-3, 4, (n, d)).astype(float)
    if design == "offset":
        X += np.round(10 ** rng.uniform(0, 8))
    elif design == "columns":
        X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-8, 8, d)
    elif design == "duplicates":
        X[rng.integers(0, n, n // 2)] = X[0]
    elif design == "gaussian":
        X = rng.standard_normal((n, d))
    elif design == "far":
        X = rng.standard_normal((n, d)) + 10 ** rng.uniform(0, 8)
    elif design == "tiny":
        X = X * 10 ** rng.uniform(-9, -3)
    elif design == "signs":
        X = np.sign(X)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    if seed % 13 == 12:
        y[2:] = 1
    weight = rng.choice([0.25, 1.0, 2.0, 0.3], n) if seed % 3 == 0 else None
    drawn = float(rng.integers(0, n)), float(10 ** rng.uniform(-9, 14))
    hyper = {"k": drawn[0]} if seed % 5 == 0 else {"lam": drawn[1]}
    return X, y, weight, hyper, bool(rng.random() < 0.7)


def counted_instance(seed, problem, rows=None):
    """An instance of the 0-1 problem: rows (or a Gram matrix), labels, weights, hyper-parameters,
    the intercept and the kernel.
    """
    X, y, weight, hyper, intercept = hostile_instance(seed, rows)
    if problem == "k":
        hyper = {"k": float(seed // 2 % len(y))}
    design, rng = DESIGNS[seed % len(DESIGNS)], np.random.default_rng(seed)
    kernel = None if rows is None else kernel_of(rng, design)
    return X @ X.T if kernel == "precomputed" else X, y, weight, hyper, intercept, kernel


@lru_cache(maxsize=100)
def optimum_of(seed, problem="zero-one", rows=None):
    """The optimum of an instance in fractions; None where no point keeps enough."""
    if problem in FREE_ROWS:
        X, y, weight, C, kernel = free_instance(seed, problem, rows)
        return exact_free_optimum(gram_of(X, kernel), y, weight, C, problem)
    X, y, weight, hyper, intercept, kernel = counted_instance(seed, problem, rows)
    signs = [int(sign) for sign in y]
    gram = [
        [(value + intercept) * a * b for value, b in zip(line, signs, strict=True)]
        for line, a in zip(gram_of(X, kernel), signs, strict=True)
    ]
    return least_vertex(gram, np.ones(len(y)) if weight is None else weight, **hyper)


def searched(seed, problem, rows=None, **limits):
    """The package's answer, by directions for every other eight seeds and by blocks for every
    fourth, where these take the data.
    """
    method = (None, "directions", "partition", "directions")[seed // len(DESIGNS) % 4]
    if problem != "ramp" and method is not None:
        try:
            return searched_by(seed, problem, rows, method=method, **limits)
        except DataError as error:
            if f"method='{method}'" not in str(error):
                raise
    return searched_by(seed, problem, rows, **limits)


def searched_by(seed, problem, rows=None, **limits):
    """The package's answer with these arguments."""
    if problem not in FREE_ROWS:
        X, y, weight, hyper, intercept, kernel = counted_instance(seed, problem, rows)
        arguments = {"sample_weight": weight, "intercept": intercept, "kernel": kernel}
        return zero_one(X, y, **arguments, **hyper, **limits)
    X, y, weight, C, kernel = free_instance(seed, problem, rows)
    arguments = {"C": C, "kernel": kernel, "sample_weight": weight, **limits}
    if problem == "ramp":
        return ramp(X, y, **arguments)
    return l0(X, y, **{"method": "search", **arguments})


def judge(seed, tol=1e-6, time_limit=30.0, problem="zero-one", rows=None):
    """Solve an instance and hold it against the exact optimum; return what is wrong, or how it
    ended.
    """
    best = optimum_of(seed, problem, rows)
    try:
        solution = searched(seed, problem, rows, tol=tol, time_limit=time_limit)
    except SolverFailed as error:
        if "not separable" in str(error):
            return "WRONG: false infeasible" if best is not None else "infeasible"
        return "undecided"
    except DataError:
        return "refused"
    if best is None:
        return "WRONG: a model of an infeasible problem"
    found = solution.certificate
    if found.lower is not None and Fraction(found.lower) > best:
        return f"WRONG: lower {found.lower!r} exceeds {float(best)!r}"
    if math.isfinite(found.upper) and Fraction(found.upper) < best:
        return f"WRONG: upper {found.upper!r} is below {float(best)!r}"
    if solution.status == "optimal" and not found.gap <= tol:
        return f"WRONG: called optimal with a gap of {found.gap!r}"
    return "certified" if found.gap <= tol else "wide"


def main() -> int:
    options = common.options_of(
        __doc__,
        20_000,
        ("--problem", {"choices": PROBLEMS, "default": "zero-one"}),
        ("--rows", {"type": int, "help": "up to so many rows, three columns, and kernels"}),
    )

    def check(seed):
        end, _, why = judge(seed, problem=options.problem, rows=options.rows).partition(": ")
        design = DESIGNS[seed % len(DESIGNS)]
        left = {f"not decided ({design})": 1} if end in ("wide", "undecided") else {}
        return design, end, left, why

    return common.run(check, options)


if __name__ == "__main__":
    raise SystemExit(main())
