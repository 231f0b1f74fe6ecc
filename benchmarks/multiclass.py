"""The fast classical multi-class machines beside scikit-learn's LinearSVC and LogisticRegression,
side by side in one run.

    python benchmarks/multiclass.py [--data-dir DIR] [--data usps isolet] [--part machines peers]
    [--lam 0.1 0.001]
                                    [--loss crammer_singer ...] [--tol 1e-3] [--repeat 1] [--limit
                                    300] [--cpu]

Standardised features, summed losses, intercept. With --data-dir (or SVMCVX_DATA) usps and isolet
are read from there, else data of their sizes are generated. Parts:

machines  every loss for every lambda to the certified gap, with its seconds, steps and methods;
peers     where scikit-learn solves the same problem: Crammer-Singer without
intercept beside
          LinearSVC(multi_class="crammer_singer") at its default tolerance and number of iterations,
          softmax beside LogisticRegression at its default tolerance and at the first that comes
          within --tol of the optimum. Their objectives are compared with the certified lower bound.

--limit is the time limit of each of our solves; --cpu counts seconds of the processor, for machines
with other work (set OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1, so that scikit-learn too has one
thread).
"""

import time
import warnings

import numpy as np
from command import DATA, parser_of
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import svmcvx as sx

# Observations, features, classes.
SIZES = {"usps": (9298, 256, 10), "isolet": (7797, 617, 26)}
LOSSES = ("weston_watkins", "crammer_singer", "msvm", "topk", "softmax", "sparse_softmax")
PARTS = ("machines", "peers")
TOLERANCES = (1e-4, 1e-5, 1e-6, 1e-7, 1e-8)


def load(name, data_dir):
    if data_dir:
        data = sx.datasets.load(name, data_dir).without_missing()
        X, y = np.asarray(data.X, dtype=float), np.unique(data.y, return_inverse=True)[1]
    else:
        n, d, c = SIZES[name]
        rng = np.random.default_rng(0)
        y = np.arange(n) % c
        X = (
            rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) / np.sqrt(d)
            + rng.standard_normal((c, d))[y]
        )
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0), y


def best(clock, repeat, solve):
    """Fewest seconds of a work, and its last result."""
    seconds = []
    for _ in range(repeat):
        started = clock()
        result = solve()
        seconds.append(clock() - started)
    return min(seconds), result


def solved(arguments, X, y, lam, **settings):
    return best(
        arguments.clock,
        arguments.repeat,
        lambda: sx.fast.multiclass(
            X, y, lam=lam, tol=arguments.tol, time_limit=arguments.limit, **settings
        ),
    )


def machines(arguments, name, X, y):
    for loss in arguments.loss:
        for lam in arguments.lam:
            seconds, ours = solved(arguments, X, y, lam, loss=loss)
            options = ours.attempts[0].options
            print(
                f"{name:7s} {loss:15s} lambda {lam:<7g} {seconds:7.2f} s, {ours.status}, gap"
                f" {ours.certificate.gap:.1e}, upper {ours.certificate.upper:.6g},"
                f" {options['iterations']} steps by {options['method']}",
                flush=True,
            )


def violations(S, y):
    """The largest (1 − f)₊ of each observation."""
    rows = np.arange(y.size)
    gamma = 1.0 + S - S[rows, y][:, None]
    gamma[rows, y] = 0.0
    return gamma.max(axis=1)


def tell(name, label, lam, ours, seconds, peer, spent, value):
    above = value / ours.certificate.lower - 1.0
    print(
        f"{name:7s} {label:15s} lambda {lam:<7g} ours gap {ours.certificate.gap:.1e} in"
        f" {seconds:.2f} s; {peer} {spent:.2f} s, at most {above:.1e} above the optimum:"
        f" {seconds / spent:.3f} ×",
        flush=True,
    )


def peers(arguments, name, X, y):
    rows = np.arange(y.size)
    for lam in arguments.lam:
        C = 1.0 / (2.0 * lam)
        seconds, ours = solved(arguments, X, y, lam, loss="crammer_singer", intercept=False)
        spent, model = best(
            arguments.clock,
            1,
            lambda C=C: LinearSVC(
                multi_class="crammer_singer", fit_intercept=False, C=C, random_state=0
            ).fit(X, y),
        )
        value = lam * float((model.coef_**2).sum()) + float(violations(X @ model.coef_.T, y).sum())
        tell(name, "crammer_singer", lam, ours, seconds, "LinearSVC", spent, value)
        seconds, ours = solved(arguments, X, y, lam, loss="softmax")
        for tol in TOLERANCES:
            spent, model = best(
                arguments.clock,
                1,
                lambda C=C, tol=tol: LogisticRegression(C=C, tol=tol, max_iter=50_000).fit(X, y),
            )
            S = X @ model.coef_.T + model.intercept_
            value = lam * float((model.coef_**2).sum()) + float(
                (logsumexp(S, axis=1) - S[rows, y]).sum()
            )
            tell(
                name,
                "softmax",
                lam,
                ours,
                seconds,
                f"LogisticRegression tol {tol:.0e}",
                spent,
                value,
            )
            if value <= ours.certificate.lower * (1.0 + arguments.tol):
                break


def main():
    parser = parser_of(__doc__, data_dir=DATA, tol=1e-3, repeat=1, limit=300.0, cpu=False)
    parser.add_argument("--data", nargs="+", choices=tuple(SIZES), default=("usps",))
    parser.add_argument("--part", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--lam", nargs="+", type=float, default=(0.1, 0.01, 0.001, 0.0001))
    parser.add_argument("--loss", nargs="+", choices=LOSSES, default=LOSSES)
    arguments = parser.parse_args()
    arguments.clock = time.process_time if arguments.cpu else time.perf_counter
    # What is compiled and imported on first use is not counted.
    X, y = np.random.default_rng(0).standard_normal((40, 3)), np.arange(40) % 3
    for loss in LOSSES:
        sx.fast.multiclass(X, y, lam=0.1, loss=loss)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in arguments.data:
            X, y = load(name, arguments.data_dir)
            for part in arguments.part:
                {"machines": machines, "peers": peers}[part](arguments, name, X, y)


if __name__ == "__main__":
    main()
