"""How the cost of the fast solvers grows with n, and how their certified gap closes with time.

    python benchmarks/growth.py [--out DIR] [--largest-kernel 16000] [--largest-linear 640000]

Seconds to certified gap 1e-3 over a range of n, the exponent fitted to them, and two pictures:
growth.png and gaps.png.
"""

import statistics
import time
from pathlib import Path

import matplotlib as mpl
import numpy as np
from command import parser_of

mpl.use("Agg")
import matplotlib.pyplot as plt

import svmcvx as sx

D = 20
EXPONENTS = (1.0, 1.5, 2.0)


def data(n, seed=0):
    """A noisy quadratic boundary in 20 features."""
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, D)), rng.standard_normal(D)
    half = D // 2
    score = X[:, :half] @ w[:half] + X[:, half:] ** 2 @ w[half:] + rng.standard_normal(n)
    return X, np.where(score > 0, 1, -1)


def seconds(solve, repeats=3):
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        solution = solve()
        times.append(time.perf_counter() - started)
        if not solution.certificate.is_certified(1e-3):
            raise SystemExit(f"not certified: {solution}")
    return statistics.median(times)


def doubling(first, last):
    sizes = [first]
    while sizes[-1] * 2 <= last:
        sizes.append(sizes[-1] * 2)
    return sizes


def growth(sizes, solve):
    """Median seconds at each size, and the slope of their logarithms."""
    solve(*data(sizes[0]))  # compilation stays outside the clock
    times = [seconds(lambda X=X, y=y: solve(X, y)) for X, y in (data(n) for n in sizes)]
    exponent = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
    return times, exponent


def main():
    parser = parser_of(
        __doc__, out=Path(__file__).parent, largest_kernel=16000, largest_linear=640000
    )
    arguments = parser.parse_args()
    solvers = {}
    for p in EXPONENTS:
        solvers[f"kernel pSVM p = {p:g}"] = (
            doubling(1000, arguments.largest_kernel),
            lambda X, y, p=p: sx.fast.psvm(X, y, C=1.0, p=p, kernel="rbf", tol=1e-3),
        )
        solvers[f"linear pSVM p = {p:g}"] = (
            doubling(10000, arguments.largest_linear),
            lambda X, y, p=p: sx.fast.psvm(X, y, C=1.0, p=p, tol=1e-3),
        )
    solvers["linear ODM"] = (
        doubling(10000, arguments.largest_linear),
        lambda X, y: sx.fast.odm(X, y, C1=8.0, C2=4.0, D=0.2, intercept=True, tol=1e-3),
    )
    figure, ax = plt.subplots(figsize=(7, 5), layout="constrained")
    for name, (sizes, solve) in solvers.items():
        times, exponent = growth(sizes, solve)
        print(
            f"{name:20s} exponent {exponent:.2f}   "
            + "  ".join(f"{n}: {t:.3g} s" for n, t in zip(sizes, times, strict=True)),
            flush=True,
        )
        ax.loglog(sizes, times, marker="o", markersize=3, label=f"{name}: n^{exponent:.2f}")
    ax.set(
        xlabel="observations", ylabel="seconds to certified gap 1e-3", title="Growth of the cost"
    )
    ax.legend(fontsize="small")
    figure.savefig(arguments.out / "growth.png", dpi=120)

    figure, axes = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    for ax, (kernel, n) in zip(axes, (("rbf", 4000), (None, 100000)), strict=True):
        X, y = data(n)
        for p in EXPONENTS:
            rows = sx.fast.psvm(X, y, C=1.0, p=p, kernel=kernel, tol=1e-7, time_limit=60).trace
            gaps = (rows[:, 2] - rows[:, 1]) / np.maximum(1, np.abs(rows[:, 2]))
            ax.semilogy(rows[:, 0], np.maximum(gaps, 1e-16), label=f"fast.psvm p = {p:g}")
        ax.set(
            xlabel="seconds",
            ylabel="relative gap",
            title=f"{'RBF' if kernel else 'linear'}, n = {n}",
        )
        ax.legend(fontsize="small")
    figure.savefig(arguments.out / "gaps.png", dpi=120)


if __name__ == "__main__":
    main()
