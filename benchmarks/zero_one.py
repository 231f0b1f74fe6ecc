"""The exact 0-1 loss by search: targets, SCIP beside it, and what each part of the search gains.

    python benchmarks/zero_one.py [--quick] [--outliers spread clustered] [--seeds 3] [--limit 120]
    [--scip-limit 600] [--plot zero_one.png]

Data of [CepedaGomezHan] with λ = 1. Each row has the median and the slowest of its draws in
seconds, proved to 1e-6, or the largest gap that was left at the limit. At the end it is said by how
much the first value of all runs was above the best one, and after which share of a run the best one
was there. The targets are for spread outliers. SCIP solves the package's big-M program of the
smallest rows, building included. With --plot the gap of three instances is drawn against time with
all parts of the search and without one of them.
"""

import statistics
import time

from command import parser_of

import svmcvx as sx
from svmcvx.fast.indicator import zero_one
from svmcvx.fast.search.state import SearchSettings
from svmcvx.synthetic import outlier_data

LAM = 1.0
# Rows, features, σ, and the target in seconds.
TARGETS = [
    (500, 2, 0.5, 2), (1000, 2, 0.5, 30),
    (200, 2, 1.0, 0.5), (500, 2, 1.0, 3), (1000, 2, 1.0, 30),
    (200, 3, 0.2, 0.5), (500, 3, 0.2, 5), (1000, 3, 0.2, 60),
    (100, 3, 0.5, 0.3), (200, 3, 0.5, 5), (500, 3, 0.5, 120),
    (100, 3, 1.0, 0.5), (200, 3, 1.0, 10),
    (200, 5, 0.2, 1), (500, 5, 0.2, 120),
    (100, 5, 0.5, 0.5), (200, 5, 0.5, 60),
    (100, 5, 1.0, 1),
    (200, 8, 0.2, 5), (100, 8, 0.5, 3), (200, 8, 0.5, 60), (100, 8, 1.0, 60),
    (100, 20, 0.2, 3),
]  # fmt: skip
PARTS = {
    "all parts": SearchSettings(),
    "M of the root only": SearchSettings(rounds=0),
    "M tightened once": SearchSettings(rounds=1),
    "no dives": SearchSettings(expansions=1),
}
PICTURED = [(200, 3, 0.5), (100, 8, 0.5), (500, 2, 1.0)]


def timed(run):
    started = time.perf_counter()
    result = run()
    return time.perf_counter() - started, result


def table(arguments) -> None:
    above, shares, proved = [], [], 0
    print(
        f"{'n':>5} {'p':>3} {'σ':>4} {'outliers':>10} {'target':>7} {'median':>8} {'slowest':>8} "
        " left",
        flush=True,
    )
    for n, p, sigma, target in TARGETS:
        if arguments.quick and target > 5:
            continue
        for outliers in arguments.outliers:
            seconds, gaps = [], []
            for seed in range(arguments.seeds):
                X, y = outlier_data(n, p, sigma=sigma, outliers=outliers, seed=seed)
                taken, found = timed(
                    lambda X=X, y=y: zero_one(X, y, lam=LAM, time_limit=arguments.limit)
                )
                seconds.append(taken)
                gaps.append(found.certificate.gap)
                best = found.trace[-1, 2]
                above.append(found.trace[0, 2] / best - 1.0)
                shares.append(
                    found.trace[found.trace[:, 2] <= best * (1.0 + 1e-6), 0].min()
                    / found.trace[-1, 0]
                )
                proved += found.certificate.gap <= 1e-6
            left = "proved" if max(gaps) <= 1e-6 else f"gap {max(gaps):.2g}"
            wanted = f"{target:7g}" if outliers == "spread" else " " * 7
            print(
                f"{n:5d} {p:3d} {sigma:4g} {outliers:>10} {wanted}"
                f" {statistics.median(seconds):8.2f} {max(seconds):8.2f} "
                f" {left}",
                flush=True,
            )

    print(
        f"{len(above)} runs, {proved} proved: the first value is at most 2 % above the best one in"
        f" {sum(a <= 0.02 for a in above) / len(above):.0%}, by {statistics.median(above):.2%} in"
        f" the median and {max(above):.1%} at most; the best one is there after"
        f" {statistics.median(shares):.1%} of a run in the median, after at most 10 % in"
        f" {sum(s <= 0.1 for s in shares) / len(shares):.0%}"
    )


def beside_scip(arguments) -> None:
    for sigma in (0.2, 0.5):
        for outliers in ("spread", "clustered"):
            X, y = outlier_data(50, 3, sigma=sigma, outliers=outliers, seed=0)
            ours, search = timed(lambda X=X, y=y: zero_one(X, y, lam=LAM))
            theirs, program = timed(
                lambda X=X, y=y: sx.solve(
                    sx.zero_one_mio(X, y, lam=LAM), solver="scip", time_limit=arguments.scip_limit
                )
            )
            print(
                f"n=50 p=3 σ={sigma} {outliers}: search {ours:.3f} s (gap"
                f" {search.certificate.gap:.1e}), SCIP {theirs:.1f} s (gap"
                f" {program.certificate.gap:.1e}), SCIP ÷ search {theirs / ours:.0f}",
                flush=True,
            )


def ablation(path, limit) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(PICTURED), figsize=(4 * len(PICTURED), 3.4), sharey=True)
    for axis, (n, p, sigma) in zip(axes, PICTURED, strict=True):
        X, y = outlier_data(n, p, sigma=sigma, outliers="spread", seed=0)
        for name, settings in PARTS.items():
            taken, found = timed(
                lambda X=X, y=y, s=settings: zero_one(X, y, lam=LAM, time_limit=limit, settings=s)
            )
            gap = (found.trace[:, 2] - found.trace[:, 1]) / found.trace[:, 2]
            axis.semilogy(found.trace[:, 0], gap.clip(1e-7), label=name)
            print(
                f"n={n} p={p} σ={sigma} {name}: {taken:.2f} s, gap {found.certificate.gap:.1e}",
                flush=True,
            )
        axis.set(xlabel="seconds", title=f"n = {n}, p = {p}, σ = {sigma}", xscale="log")
    axes[0].set_ylabel("relative gap")
    axes[-1].legend(fontsize="x-small")
    figure.savefig(path, dpi=120, bbox_inches="tight")


def main() -> None:
    parser = parser_of(__doc__, seeds=3, scip_limit=600.0, skip_scip=False)
    parser.add_argument("--quick", action="store_true", help="rows with a target of 5 s at most")
    parser.add_argument(
        "--outliers", nargs="+", default=["spread", "clustered"], choices=["spread", "clustered"]
    )
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for each search")
    parser.add_argument("--plot", help="write the picture of what each part gains to this file")
    arguments = parser.parse_args()
    X, y = outlier_data(20, 3, sigma=0.5, seed=0)
    zero_one(X, y, lam=LAM)  # compile
    zero_one(X, y, lam=LAM, settings=SearchSettings(easy=0.0))
    table(arguments)
    if not arguments.skip_scip:
        beside_scip(arguments)
    if arguments.plot:
        ablation(arguments.plot, arguments.limit)


if __name__ == "__main__":
    main()
