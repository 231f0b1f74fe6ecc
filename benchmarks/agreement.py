"""Do the fast solvers agree with the builders? Random small problems, degenerate ones among them.

    python benchmarks/agreement.py [--parts conic,m3svm,zero_one] [--count 300] [--first 0]
    [--verbose]

``conic``     fast.conic against ``solve(conic_sdp(...))``: λ and κ, both intercepts, linear and RBF
kernels, weights. ``m3svm``     fast.m3svm against ``solve(m3svm(...))``: hinge, smoothed, logistic
and softmax losses, p from 1 to 6. ``zero_one``  fast.zero_one against SCIP with the
builder, and against all subsets of n ≤ 10 observations.

Every problem is drawn from its number, and --first and --count choose the numbers, so that a run
can be split and any problem repeated. A problem fails if the fast solver raises, warns of an
invalid number or ends without a certified gap of 1e-6, or if the two intervals do not meet:
agreement to the sum of the gaps. Problems for which the builder's solvers end with a wider gap
count as agreeing if the intervals meet, and are counted beside. The exit status is 1 if any problem
failed.
"""

import itertools
import math
import sys
import time
import traceback
import warnings
from collections import Counter

import numpy as np
from command import parser_of
from scipy.optimize import nnls

import svmcvx as sx
from svmcvx.fast.conic_loss.conic import conic
from svmcvx.fast.indicator import zero_one
from svmcvx.fast.several_classes.solvers import m3svm

TOL = 1e-6
DESIGNS = (
    "plain",
    "duplicates of one label",
    "duplicates of both labels",
    "on the margin",
    "separable",
    "one-point class",
    "fewer rows than columns",
    "constant column",
    "collinear",
    "offset",
    "integers",
    "signs",
    "rows of zeros",
    "large",
    "small",
    "mixed scales",
)


def draw(number, most_rows, classes=2):
    """Data of the design that belongs to the number, and the generator for what else is drawn."""
    rng = np.random.default_rng(number)
    name = DESIGNS[number % len(DESIGNS)]
    n, d = int(rng.integers(2 * classes, most_rows + 1)), int(rng.integers(1, 5))
    if name == "fewer rows than columns":
        n, d = max(2 * classes, most_rows // 3), most_rows // 3 + 3
    centres = rng.normal(size=(classes, d))
    y = rng.integers(0, classes, size=n)
    y[:classes] = np.arange(classes)
    X = centres[y] + rng.normal(size=(n, d))
    half = n // 2
    if name == "duplicates of one label":
        X[half : 2 * half], y[half : 2 * half] = X[:half], y[:half]
    elif name == "duplicates of both labels":
        X[half : 2 * half], y[half : 2 * half] = X[:half], (y[:half] + 1) % classes
        y[:classes] = np.arange(classes)
    elif name == "on the margin":
        # The best plane has all points, or all but the outlier, at a margin of exactly 1.
        X = np.hstack([np.eye(classes)[y] * 2 - 1, np.zeros((n, d))])
        y[-1] = (y[-1] + rng.integers(0, 2)) % classes
    elif name == "separable":
        X = 10 * np.eye(max(classes, d))[y][:, : max(classes, d)] + 0.3 * rng.normal(
            size=(n, max(classes, d))
        )
    elif name == "one-point class":
        y[:] = np.where(np.arange(n) == 0, 0, rng.integers(1, classes, size=n))
        y[:classes] = np.arange(classes)
    elif name == "constant column":
        X[:, 0] = 3.0
    elif name == "collinear":
        X = np.column_stack([X, X @ rng.normal(size=d), X[:, 0]])
    elif name == "offset":
        X += 100.0
    elif name == "integers":
        X = np.round(X)
    elif name == "signs":
        X = np.sign(X)
    elif name == "rows of zeros":
        X[: n // 4] = 0.0
    elif name == "large":
        X *= 30.0
    elif name == "small":
        X *= 0.03
    elif name == "mixed scales":
        X *= 10.0 ** rng.uniform(-1.5, 1.5, size=X.shape[1])
    weight = None
    if rng.random() < 0.25:
        weight = rng.integers(0, 4, size=n).astype(float)
        weight[np.unique(y, return_index=True)[1]] = 1.0
    return name, X, y, weight, rng


def conic_case(number):
    name, X, y, weight, rng = draw(number, 22)
    arguments = {"intercept": bool(rng.random() < 0.7), "sample_weight": weight}
    if rng.random() < 0.6:
        arguments["lam"] = float(10 ** rng.uniform(-3, 3))
    else:
        arguments["kappa"] = float(rng.choice([0.02, 0.1, 0.2, 0.35, 0.5]))
    if rng.random() < 0.2:
        X, y, arguments["sample_weight"] = X[:14], y[:14], None
        arguments["kernel"] = sx.RBF(float(10 ** rng.uniform(-1.5, 0.5)))
    if len(np.unique(y)) < 2:
        y[0] = 1 - y[0]
    return (
        name,
        arguments,
        [lambda: conic(X, y, **arguments)],
        lambda: sx.solve(sx.conic_sdp(X, y, **arguments)),
        None,
    )


def m3svm_case(number):
    name, X, y, weight, rng = draw(number, 30, classes=2 + number % 3)
    arguments = {
        "lam": float(10 ** rng.uniform(-4, 1)),
        "p": float(rng.choice([1.0, 1.3, 2.0, 3.0, 4.0, 6.0])),
        "loss": str(rng.choice(["hinge", "smoothed", "logistic", "softmax"])),
        "eps": float(rng.choice([1e-6, 1e-3])),
        "sample_weight": weight,
    }
    return (
        name,
        arguments,
        [lambda: m3svm(X, y, **arguments)],
        lambda: sx.solve(sx.m3svm(X, y, **arguments)),
        None,
    )


def zero_one_case(number):
    name, X, y, weight, rng = draw(number, 10)
    arguments = {"intercept": bool(rng.random() < 0.7), "sample_weight": weight}
    if rng.random() < 0.7:
        arguments["lam"] = float(10 ** rng.uniform(-2, 3))
    else:
        arguments["k"] = float(rng.integers(0, len(y)))
    fast = [lambda: zero_one(X, y, **arguments)]
    reference = over_all_subsets(X, y, **arguments)
    return (
        name,
        arguments,
        fast,
        lambda: sx.solve(sx.zero_one_mio(X, y, **arguments), time_limit=60),
        reference,
    )


def over_all_subsets(X, y, *, intercept, sample_weight, lam=None, k=None):
    """The optimum of the 0-1 problem without the package; infinite if no subset of weight k leaves
    separable data.
    """
    rows = (np.hstack([X, np.ones((len(X), 1))]) if intercept else X) * np.where(
        y == max(y), 1.0, -1.0
    )[:, None]
    s = np.ones(len(y)) if sample_weight is None else sample_weight
    rows, s = rows[s > 0], s[s > 0]
    best = math.inf
    for bits in itertools.product((False, True), repeat=len(s)):
        dropped = np.array(bits)
        missed = s[dropped].sum()
        cost = lam * missed if lam is not None else (0.0 if missed <= k else math.inf)
        if cost < best:
            best = min(best, cost + least_norm(rows[~dropped]))
    return best


def least_norm(G):
    """The smallest squared norm with Gw ≥ 1 by least-distance programming, or over all sets of
    tight rows where that fails.
    """
    G = np.unique(G, axis=0)
    scale = np.abs(G).max(initial=0.0)
    if len(G) == 0 or scale == 0:
        return 0.0 if len(G) == 0 else math.inf
    G = G / scale
    mu, _ = nnls(np.vstack([G.T, np.ones((1, len(G)))]), np.append(np.zeros(G.shape[1]), 1.0))
    rest = 1.0 - mu.sum()
    if rest <= 1e-12:
        return math.inf
    w = G.T @ mu / rest
    if (G @ w).min() >= 1.0 - 1e-6:
        return float(w @ w) / scale**2
    found = math.inf
    for size in range(1, min(G.shape) + 1):
        for tight in itertools.combinations(range(len(G)), size):
            w = np.linalg.lstsq(G[list(tight)], np.ones(size), rcond=None)[0]
            found = min(found, float(w @ w)) if (G @ w).min() >= 1.0 - 1e-9 else found
    return found / scale**2


def attempt(run, expected=(sx.SolverFailed, sx.DataError)):
    """A solution, or None where the problem is infeasible or beyond the builder's solvers."""
    try:
        return run()
    except expected as error:
        return error


def fault(fast, built, reference):
    """Why a solution is not in order, or None; and by how much two intervals miss each other."""
    if reference is not None and math.isinf(reference):
        return (
            None if isinstance(fast, sx.SolverFailed) else "found a point of an infeasible problem"
        ), 0.0
    if isinstance(fast, Exception):
        same = reference is None and isinstance(built, Exception)
        return (None if same else f"{type(fast).__name__}: {fast}"), 0.0
    found = fast.certificate
    if not found.gap <= TOL:
        return f"ended as {fast.status} with a gap of {found.gap:.1e}", 0.0
    apart = 0.0
    if reference is not None:
        apart = max(found.lower - reference, reference - found.upper, 0.0)
        if not abs(found.upper - reference) <= TOL * max(1.0, reference):
            return f"{found.upper!r} instead of {reference!r} over all subsets", apart
        apart = 0.0
    if not isinstance(built, Exception):
        other = built.certificate
        lower = -math.inf if other.lower is None else other.lower
        apart = max(found.lower - other.upper, lower - found.upper, 0.0) / max(
            1.0, abs(found.upper)
        )
        if apart > 0:
            return (
                f"[{found.lower!r}, {found.upper!r}] and [{lower!r}, {other.upper!r}] do not meet",
                apart,
            )
    return None, apart


def part(title, case, numbers, verbose):
    """Run the problems of one solver and print what came of them; return the number of failures."""
    started, counts, designs, failures, farthest, widest = (
        time.perf_counter(),
        Counter(),
        Counter(),
        0,
        0.0,
        0.0,
    )
    for number in numbers:
        name, arguments, runs, build, reference = case(number)
        designs[name] += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            built = attempt(build, sx.SvmcvxError)
        if isinstance(built, Exception):
            counts["without an answer of the builder"] += 1
        elif not built.certificate.gap <= TOL:
            counts["with a wider gap of the builder"] += 1
        for run in runs:
            with warnings.catch_warnings():
                warnings.simplefilter("error", RuntimeWarning)
                try:
                    fast = attempt(run)
                    why, apart = fault(fast, built, reference)
                except Exception as error:
                    fast, apart = error, 0.0
                    why = (
                        f"{type(error).__name__}:"
                        f" {error} ({traceback.extract_tb(error.__traceback__)[-1].name})"
                    )
            counts["runs"] += 1
            farthest = max(farthest, apart)
            if not isinstance(fast, Exception):
                widest = max(widest, fast.certificate.gap)
            if why is not None:
                failures += 1
            if why is not None or verbose:
                print(f"  {title} {number} ({name}) {arguments}: {why or 'agrees'}", flush=True)
    seconds = time.perf_counter() - started
    beside = "".join(
        f", {count} {what}" for what, count in sorted(counts.items()) if what != "runs"
    )
    print(
        f"{title:9s} {len(numbers)} problems of {len(designs)} designs, {counts['runs']} runs:"
        f" {failures} failures, largest disagreement beyond the gaps {farthest:.1e}, largest gap"
        f" {widest:.1e}{beside}; {seconds:.0f} s",
        flush=True,
    )
    return failures


def main() -> int:
    cases = {"conic": conic_case, "m3svm": m3svm_case, "zero_one": zero_one_case}
    parser = parser_of(__doc__)
    parser.add_argument("--parts", default=",".join(cases), help="comma separated")
    parser.add_argument("--count", type=int, default=300, help="problems of each part")
    parser.add_argument("--first", type=int, default=0, help="number of the first problem")
    parser.add_argument("--verbose", action="store_true", help="print a line for every run")
    arguments = parser.parse_args()
    numbers = range(arguments.first, arguments.first + arguments.count)
    return sum(
        part(name, cases[name], numbers, arguments.verbose) for name in arguments.parts.split(",")
    )


if __name__ == "__main__":
    sys.exit(min(main(), 1))
