"""The fast M3SVM against Clarabel, Adam and scikit-learn's multinomial logistic regression, side by
side in one run.

    python benchmarks/m3svm.py [--data-dir DIR] [--repeat 3] [--part small|hinge|softmax ...]
    [--quick] [--cpu] [--plot FILE]

p = 4, lambda = 1e-3, standardised features. With --data-dir the sets glass, vehicle, dermatology
and usps are read from there, else data of their sizes are generated. Parts:

small    hinge to certified gap 1e-6 against the same problem through Clarabel: building, compiling
and certifying included, and
         what Clarabel alone took;
hinge    USPS sized, certified gap 1e-3 and 1e-6; 500 epochs of Adam (full batches, the paper's
learning rate 0.01), and the
         objective that Newton's method has after as many seconds;
softmax  USPS sized, certified gap 1e-6 against LogisticRegression (C = 1; another regulariser, so
its gap is to its own best
         value) at its default tolerance, and at the first one that comes within 1e-6.

--quick runs each work once; --cpu counts seconds of the processor, for machines with other work
(set OPENBLAS_NUM_THREADS=1);
--plot draws the certified gap against time.
"""

import statistics
import time
import warnings

import numpy as np
from command import DATA, parser_of
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

import svmcvx as sx
from benchmarks.papers.exhibits import m3svm_by_adam
from svmcvx.fast.several_classes.solvers import m3svm

# Observations, features, classes.
SIZES = {
    "glass": (214, 9, 6),
    "vehicle": (846, 18, 4),
    "dermatology": (358, 34, 6),
    "usps": (9298, 256, 10),
}
SMALL = ("glass", "vehicle", "dermatology")
PARTS = ("small", "hinge", "softmax")
SETTINGS = {"lam": 1e-3, "p": 4.0}
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7)


def load(name, data_dir):
    if data_dir:
        data = sx.datasets.load(name, data_dir).without_missing()
        X, y = np.asarray(data.X, dtype=float), data.y
    else:
        n, d, c = SIZES[name]
        rng = np.random.default_rng(0)
        y = np.arange(n) % c
        X = (
            rng.standard_normal((n, d)) @ rng.standard_normal((d, d))
            + 2.0 * rng.standard_normal((c, d))[y]
        )
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def timed(clock, repeat, *solvers):
    """Median seconds of each solver, run in turns, and their last results."""
    seconds = [[] for _ in solvers]
    results = [None] * len(solvers)
    for _ in range(repeat):
        for k, solve in enumerate(solvers):
            started = clock()
            results[k] = solve()
            seconds[k].append(clock() - started)
    return [statistics.median(times) for times in seconds], results


def small(arguments, curves):
    for name in SMALL:
        X, y = load(name, arguments.data_dir)
        seconds, (ours, peer) = timed(
            arguments.clock,
            arguments.repeat,
            lambda X=X, y=y: m3svm(X, y, **SETTINGS),
            lambda X=X, y=y: sx.solve(sx.m3svm(X, y, **SETTINGS), solver="clarabel", tol=1e-6),
        )
        print(
            f"{name:12s} gap {ours.certificate.gap:.1e} in {seconds[0]:.3f} s; Clarabel gap"
            f" {peer.certificate.gap:.1e} in {seconds[1]:.3f} s, alone {peer.timings.solve:.3f} s"
            f" (wall): {seconds[0] / seconds[1]:.2f} × all of it,"
            f" {seconds[0] / peer.timings.solve:.2f} × Clarabel alone",
            flush=True,
        )
        curves[f"{name}, hinge"] = ours.trace


def hinge(arguments, curves):
    X, y = load("usps", arguments.data_dir)
    for tol in (1e-3, 1e-6):
        (seconds,), (ours,) = timed(
            arguments.clock, arguments.repeat, lambda tol=tol: m3svm(X, y, tol=tol, **SETTINGS)
        )
        print(
            f"usps hinge   gap {ours.certificate.gap:.1e} in {seconds:.2f} s, {ours.certificate}",
            flush=True,
        )
    curves["usps, hinge"] = ours.trace
    (seconds,), (adam,) = timed(
        arguments.clock,
        arguments.repeat,
        lambda: m3svm_by_adam(X, y, learning_rate=0.01, **SETTINGS),
    )
    started = arguments.clock()
    cut = m3svm(X, y, **SETTINGS, callback=lambda _: arguments.clock() - started > 0.9 * seconds)
    spent = arguments.clock() - started
    print(
        f"usps hinge   500 epochs of Adam: objective {adam.certificate.upper:.6g} in"
        f" {seconds:.2f} s; Newton's method: {cut.certificate.upper:.6g} in {spent:.2f} s",
        flush=True,
    )
    curves["usps, hinge, Adam"] = adam.trace


def logistic_value(model, X, y):
    """Objective of LogisticRegression at C = 1, classes by their number."""
    scores = X @ model.coef_.T + model.intercept_
    own = scores[np.arange(y.size), np.searchsorted(model.classes_, y)]
    return float((logsumexp(scores, axis=1) - own).sum() + 0.5 * (model.coef_**2).sum())


def softmax(arguments, curves):
    X, y = load("usps", arguments.data_dir)

    def regression(tol):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LogisticRegression(C=1.0, tol=tol, max_iter=20_000).fit(X, y)

    best = logistic_value(regression(1e-9), X, y)
    gaps = {tol: logistic_value(regression(tol), X, y) / best - 1.0 for tol in TOLERANCES}
    same = next((tol for tol in TOLERANCES if gaps[tol] <= 1e-6), TOLERANCES[-1])
    seconds, (ours, *_) = timed(
        arguments.clock,
        arguments.repeat,
        lambda: m3svm(X, y, loss="softmax", **SETTINGS),
        lambda: regression(1e-4),
        lambda: regression(same),
    )
    print(f"usps softmax gap {ours.certificate.gap:.1e} in {seconds[0]:.2f} s, {ours.certificate}")
    for tol, spent in zip((1e-4, same), seconds[1:], strict=True):
        print(
            f"usps softmax LogisticRegression tol {tol:.0e}: {spent:.2f} s, {gaps[tol]:.1e} above"
            f" its best: {seconds[0] / spent:.2f} ×",
            flush=True,
        )
    curves["usps, softmax"] = ours.trace


def draw(curves, path):
    import matplotlib

    matplotlib.use("agg")
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, trace in curves.items():
        gap = (trace[:, 2] - trace[:, 1]) / np.maximum(1.0, np.abs(trace[:, 2]))
        ax.loglog(np.maximum(trace[:, 0], 1e-3), np.maximum(gap, 1e-16), marker=".", label=name)
    ax.set(xlabel="seconds", ylabel="certified relative gap", title="M3SVM, p = 4, λ = 1e-3")
    ax.legend()
    figure.savefig(path, dpi=120)


def main():
    parser = parser_of(__doc__, data_dir=DATA, repeat=3, quick=False, cpu=False, plot=None)
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    arguments = parser.parse_args()
    arguments.clock = time.process_time if arguments.cpu else time.perf_counter
    if arguments.quick:
        arguments.repeat = 1
    # What is imported on first use is not counted.
    X, y = load("glass", None)
    m3svm(X, y, **SETTINGS)
    sx.solve(sx.m3svm(X, y, **SETTINGS), solver="clarabel")
    curves = {}
    for part in arguments.part:
        {"small": small, "hinge": hinge, "softmax": softmax}[part](arguments, curves)
    if arguments.plot:
        draw(curves, arguments.plot)


if __name__ == "__main__":
    main()
