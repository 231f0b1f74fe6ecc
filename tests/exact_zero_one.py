"""The 0-1, l0 and ramp problems over all vertices in rational arithmetic, and hostile instances to hold the search against.

    python -m tests.exact_zero_one [--problem zero-one|l0|ramp] [--count 20000] [--first 0] [--method auto]

An optimum of a counted loss is the point of least norm on the hyperplanes u = 1 of some linearly independent rows. With the ramp loss some
other rows have slacks between 0 and 2 besides, whose losses pull at the point of least norm. There are few enough for few rows to try them
all. Every failing seed is printed.
"""

import argparse
import collections
import itertools
import math
import time
from fractions import Fraction
from functools import lru_cache

import numpy as np

import svmcvx as sx
from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.indicator.l0 import l0
from svmcvx.fast.indicator.ramp import ramp
from svmcvx.fast.indicator.zero_one import zero_one

PROBLEMS = ("zero-one", "l0", "ramp")
# Rows of an instance with a free intercept, at most.
FREE_ROWS = {"l0": 9, "ramp": 6}
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
    s = [Fraction(value) for value in weight.tolist()]
    gram = [[inner(x, z) for z in rows] for x in rows]
    best = None
    for size in range(G.shape[1] + 1):
        for tight in itertools.combinations(range(len(rows)), size):
            alpha = solved([[gram[i][j] for j in tight] for i in tight], [Fraction(1)] * size)
            if alpha is None:
                continue
            norm = sum(alpha, Fraction(0))
            if best is not None and norm >= best:
                continue
            margins = [
                sum((a * gram[j][i] for a, j in zip(alpha, tight, strict=True)), Fraction(0)) for i in range(len(rows))
            ]
            lost = sum((s[i] for i in range(len(rows)) if margins[i] < 1), Fraction(0))
            if k is not None and lost > Fraction(k):
                continue
            value = norm + (Fraction(lam) * lost if lam is not None else 0)
            if best is None or value < best:
                best = value
    return best


def exact_free_optimum(K, y, weight, C, problem):
    """The smallest objective with a free intercept, of the l0-norm hinge or the ramp loss, for the Gram matrix of the observations.

    With the slopes of some rows, T of them on their hyperplanes, the best point solves the optimality conditions of a quadratic program;
    its objective is that of the true loss, so that each of the points is one of the problem.
    """
    signs = [Fraction(int(sign)) for sign in y]
    n, C = len(signs), Fraction(C)
    gram = [[Fraction(K[i][j]) * signs[i] * signs[j] for j in range(n)] for i in range(n)]
    price = [C * Fraction(value) for value in weight.tolist()]
    best = None
    for states in itertools.product((0, 1, 2) if problem == "ramp" else (0, 1), repeat=n):
        tight = [i for i in range(n) if states[i] == 1]
        sloped = [i for i in range(n) if states[i] == 2]
        if not tight:
            # Moving the intercept until a row is on its hyperplane costs nothing.
            continue
        system = [[*(gram[i][j] for j in tight), signs[i]] for i in tight]
        system.append([*(signs[j] for j in tight), Fraction(0)])
        right = [1 - sum((price[j] * gram[i][j] for j in sloped), Fraction(0)) for i in tight]
        right.append(-sum((price[j] * signs[j] for j in sloped), Fraction(0)))
        found = solved(system, right)
        if found is None:
            continue
        support = [*zip(tight, found[:-1], strict=True), *((j, price[j]) for j in sloped)]
        pull = [sum((a * gram[i][j] for j, a in support), Fraction(0)) for i in range(n)]
        value = sum((a * pull[j] for j, a in support), Fraction(0)) / 2
        for i in range(n):
            slack = 1 - pull[i] - signs[i] * found[-1]
            value += price[i] * (min(2, max(0, slack)) if problem == "ramp" else slack > 0)
        if best is None or value < best:
            best = value
    return best


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


def free_instance(seed, problem):
    """Rows (or a Gram matrix), labels, weights, the price C and the kernel of an instance with a free intercept."""
    X, y, weight, _, _ = hostile_instance(seed)
    rows = FREE_ROWS[problem]
    X, y = X[:rows], y[:rows]
    rng = np.random.default_rng(seed)
    C = float(10 ** rng.uniform(*((-9, 14) if seed % 2 else (-2, 2))))
    kernel = None
    if DESIGNS[seed % len(DESIGNS)] in ("integers", "duplicates", "signs"):
        kernel = (None, sx.Polynomial(2, 0.5, 1.0), "precomputed")[int(rng.integers(3))]
    return X @ X.T if kernel == "precomputed" else X, y, np.ones(len(y)) if weight is None else weight[:rows], C, kernel


def hostile_instance(seed):
    """Rows, labels, weights, hyper-parameters and the intercept of an instance of few rows."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 12 if seed % 4 == 3 else 8)), int(rng.integers(1, 3))
    design = DESIGNS[seed % len(DESIGNS)]
    X = rng.integers(-3, 4, (n, d)).astype(float)
    if design == "offset":
        X += np.round(10 ** rng.uniform(0, 6))
    elif design == "columns":
        X = rng.standard_normal((n, d)) * 10 ** rng.uniform(-6, 6, d)
    elif design == "duplicates":
        X[rng.integers(0, n, n // 2)] = X[0]
    elif design == "gaussian":
        X = rng.standard_normal((n, d))
    elif design == "far":
        X = rng.standard_normal((n, d)) + 10 ** rng.uniform(0, 6)
    elif design == "tiny":
        X = X * 10 ** rng.uniform(-9, -3)
    elif design == "signs":
        X = np.sign(X)
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    weight = rng.choice([0.25, 1.0, 2.0, 0.3], n) if seed % 3 == 0 else None
    drawn = float(rng.integers(0, n)), float(10 ** rng.uniform(-9, 14))
    return X, y, weight, {"k": drawn[0]} if seed % 5 == 0 else {"lam": drawn[1]}, bool(rng.random() < 0.7)


@lru_cache(maxsize=100)
def optimum_of(seed, problem="zero-one"):
    """The optimum of an instance in fractions; None where no point keeps enough."""
    if problem != "zero-one":
        X, y, weight, C, kernel = free_instance(seed, problem)
        return exact_free_optimum(gram_of(X, kernel), y, weight, C, problem)
    X, y, weight, hyper, intercept = hostile_instance(seed)
    rows = (np.column_stack([X, np.ones(len(X))]) if intercept else X) * y[:, None]
    return exact_optimum(rows, np.ones(len(y)) if weight is None else weight, **hyper)


def searched(seed, problem, method, **limits):
    """The package's answer."""
    if problem == "zero-one":
        X, y, weight, hyper, intercept = hostile_instance(seed)
        return zero_one(X, y, sample_weight=weight, intercept=intercept, method=method, **hyper, **limits)
    X, y, weight, C, kernel = free_instance(seed, problem)
    arguments = {"C": C, "kernel": kernel, "sample_weight": weight, **limits}
    return ramp(X, y, **arguments) if problem == "ramp" else l0(X, y, method="search", **arguments)


def judge(seed, method="auto", tol=1e-6, time_limit=30.0, problem="zero-one"):
    """Solve an instance and hold it against the exact optimum; return what is wrong, or how it ended."""
    best = optimum_of(seed, problem)
    try:
        solution = searched(seed, problem, method, tol=tol, time_limit=time_limit)
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--problem", choices=PROBLEMS, default="zero-one")
    parser.add_argument("--method", default="auto", help="of the 0-1 problem")
    arguments = parser.parse_args()
    ends, wide, started = collections.Counter(), collections.Counter(), time.perf_counter()
    for seed in range(arguments.first, arguments.first + arguments.count):
        end = judge(seed, arguments.method, problem=arguments.problem)
        if end.startswith("WRONG"):
            print(f"seed {seed} ({DESIGNS[seed % len(DESIGNS)]}): {end}", flush=True)
            end = "WRONG"
        if end in ("wide", "undecided"):
            wide[DESIGNS[seed % len(DESIGNS)]] += 1
        ends[end] += 1
    print(f"{dict(ends)} in {time.perf_counter() - started:.0f} s; not decided, by design: {dict(wide)}")


if __name__ == "__main__":
    main()
