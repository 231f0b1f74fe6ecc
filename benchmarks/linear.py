"""Linear machines against LIBLINEAR, side by side in one run: ratios of wall-clock seconds, median of three.

    python benchmarks/linear.py [--data-dir DIR] [--repeat 3] [--large]

With --data-dir the sets a9a, w8a, ijcnn1 and cod-rna are read from there, else data of their sizes are generated. Ours run to a
*certified* relative gap: pSVM p = 2 and ODM to 1e-4, p = 1 to 1e-3; their seconds include validation and certificate.

LIBLINEAR (scikit-learn's LinearSVC) penalises the bias, which is another problem. Two things are therefore reported of it:
its seconds at its default tolerance, and for p = 1 also at the first tolerance with which the gap of *its own* problem
(primal minus dual is not available: its primal value against the best one known, ours with a penalised constant
feature) falls below 1e-3. All primal values are computed by one numpy objective on the same data.
"""

import argparse
import os
import resource
import statistics
import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.svm import LinearSVC

import svmcvx as sx
from svmcvx.formulations.psvm import objective

SETS = ("a9a", "w8a", "ijcnn1", "cod-rna")
# Rows, columns, non-zeros a row (None: dense), share of the positive class.
SIZES = {
    "a9a": (32561, 123, 14, 0.24),
    "w8a": (49749, 300, 12, 0.03),
    "ijcnn1": (49990, 22, None, 0.10),
    "cod-rna": (59535, 8, None, 0.33),
}
TOLERANCES = (1e-1, 1e-2, 1e-3, 1e-4)


def generate(n, d, nonzeros, share, seed=0):
    rng = np.random.default_rng(seed)
    if nonzeros is None:
        X = rng.normal(size=(n, d))
    else:
        # Popular columns and rare ones, as in text.
        columns = (d * rng.random((n, nonzeros)) ** 2).astype(np.int32)
        X = sp.csr_array(
            (np.ones(n * nonzeros), columns.ravel(), np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)),
            shape=(n, d),
        )
        X.sum_duplicates()
        X.data[:] = 1.0
    score = X @ rng.normal(size=d) + rng.normal(size=n)
    return X, np.where(score > np.quantile(score, 1 - share), 1, -1)


def load(name, data_dir):
    if not data_dir:
        return generate(*SIZES[name])
    data = sx.datasets.load(name, data_dir)
    return data.X, np.where(data.y == data.classes[1], 1, -1)


def timed(repeat, *solvers):
    """Median seconds of each solver, run in turns, and their last results; one run before warms the JIT."""
    results = [solve() for solve in solvers]
    seconds = [[] for _ in solvers]
    for _ in range(repeat):
        for k, solve in enumerate(solvers):
            started = time.perf_counter()
            results[k] = solve()
            seconds[k].append(time.perf_counter() - started)
    return [statistics.median(times) for times in seconds], results


def liblinear(X, y, C, loss, tol, dual):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LinearSVC(C=C, loss=loss, tol=tol, dual=dual, max_iter=20_000, random_state=0).fit(X, y)


def penalised_value(model, X, y, C, p):
    """Primal value of LIBLINEAR's own problem, whose bias is penalised."""
    w, b = model.coef_.ravel(), float(model.intercept_[0])
    return objective(float(w @ w) + b * b, y * (X @ w + b), C=C, p=p)


def free_value(w, b, X, y, C, p):
    """Primal value of the pSVM, whose bias is free."""
    return objective(float(w @ w), y * (X @ w + b), C=C, p=p)


def hinge_reference(X, y, C):
    """Best value of LIBLINEAR's hinge problem: ODML without mean and variance is the same machine."""
    solution = sx.fast.odml(X, y, lam1=0.0, lam2=0.0, C=C * y.size, intercept=True, tol=1e-6)
    return solution.certificate.lower


def compare(name, X, y, repeat, C=1.0):
    m = y.size
    solvers = {
        "psvm p=2, gap 1e-4": lambda: sx.fast.psvm(X, y, C=C, p=2.0, tol=1e-4),
        "odm, gap 1e-4": lambda: sx.fast.odm(X, y, C1=C * m, C2=C * m / 2, D=0.2, tol=1e-4),
        "psvm p=1, gap 1e-3": lambda: sx.fast.psvm(X, y, C=C, p=1.0, tol=1e-3),
        "liblinear primal": lambda: liblinear(X, y, C, "squared_hinge", 1e-4, False),
        "liblinear dual hinge": lambda: liblinear(X, y, C, "hinge", 1e-4, True),
    }
    reference, same = hinge_reference(X, y, C), None
    for tol in TOLERANCES:
        model = liblinear(X, y, C, "hinge", tol, True)
        value = penalised_value(model, X, y, C, 1.0)
        if value - reference <= 1e-3 * value:
            same = tol
            solvers["liblinear dual hinge, same gap"] = lambda tol=tol: liblinear(X, y, C, "hinge", tol, True)
            break
    seconds, results = timed(repeat, *solvers.values())
    seconds, results = dict(zip(solvers, seconds, strict=True)), dict(zip(solvers, results, strict=True))
    squared = seconds["liblinear primal"]
    hinge = seconds.get("liblinear dual hinge, same gap", seconds["liblinear dual hinge"])
    for key in solvers:
        if key.startswith("liblinear"):
            print(f"{name:8s} {key:31s} {seconds[key]:8.3f} s")
            continue
        peer, text = (hinge, "dual hinge") if "p=1" in key else (squared, "primal squared hinge")
        solution = results[key]
        print(
            f"{name:8s} {key:31s} {seconds[key]:8.3f} s  certified gap {solution.certificate.gap:.1e}  "
            f"{seconds[key] / peer:6.2f} × LIBLINEAR {text}"
        )
    print(f"{name:8s} tolerance of LIBLINEAR with which its hinge problem is within 1e-3: {same}")
    for key, peer, p in (
        ("psvm p=2, gap 1e-4", "liblinear primal", 2.0),
        ("psvm p=1, gap 1e-3", "liblinear dual hinge", 1.0),
    ):
        ours, theirs = results[key].model, results[peer]
        value = free_value(ours.coef, ours.intercept, X, y, C, p)
        other = free_value(theirs.coef_.ravel(), float(theirs.intercept_[0]), X, y, C, p)
        print(f"{name:8s} objective with a free bias, p={p:g}: ours {value:.6g}, LIBLINEAR's model {other:.6g}")


def large(n=1_000_000, d=100_000, nonzeros=50):
    """One run each on sparse data of 600 MB."""
    X, y = generate(n, d, nonzeros, 0.5)
    X.data[:] = np.random.default_rng(1).normal(size=X.nnz) / np.sqrt(nonzeros)
    size = (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes) / 2**20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    print(f"data {n} × {d}, {X.nnz / n:.1f} non-zeros a row, {size:.0f} MiB; peak while generating {before:.0f} MiB")
    for name, solve in (
        ("psvm p=2, gap 1e-3", lambda: sx.fast.psvm(X, y, C=1.0, p=2.0, tol=1e-3)),
        ("odm, gap 1e-3", lambda: sx.fast.odm(X, y, C1=1.0 * n, C2=0.5 * n, D=0.2, tol=1e-3)),
        ("psvm p=1, gap 1e-3", lambda: sx.fast.psvm(X, y, C=1.0, p=1.0, tol=1e-3, time_limit=300.0)),
        ("liblinear primal", lambda: liblinear(X, y, 1.0, "squared_hinge", 1e-4, False)),
    ):
        started = time.perf_counter()
        result = solve()
        seconds = time.perf_counter() - started
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        gap = f"certified gap {result.certificate.gap:.1e}" if hasattr(result, "certificate") else ""
        print(
            f"{name:24s} {seconds:8.1f} s  peak so far {peak:.0f} MiB = {peak / size:.1f} × the data  {gap}", flush=True
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", default=os.environ.get(sx.datasets.ENVIRONMENT_VARIABLE))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="the sparse synthetic set only")
    arguments = parser.parse_args()
    if arguments.large:
        large()
        return
    for name in SETS:
        compare(name, *load(name, arguments.data_dir), arguments.repeat)


if __name__ == "__main__":
    main()
