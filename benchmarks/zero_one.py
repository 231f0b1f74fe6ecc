"""The exact 0-1 loss by exhaustion beside SCIP with the package's big-M builder.

    python benchmarks/zero_one.py [--quick] [--seeds 1] [--repeats 5] [--skip-scip] [--scip-limit 600] [--plot zero_one.png]

Data of [CepedaGomezHan]: 3 features and the constant, λ = 1, all kinds of outliers. Every row says what was proved: seconds,
certified gap, and both bounds; for SCIP the ratio of its seconds to ours, building included in both. The rows "hard" and
"columns" have no target: they show where branch and bound hands over to the sweep, and what more columns cost.
"""

import argparse
import statistics
import time

import svmcvx as sx
from svmcvx.fast.indicator.zero_one import zero_one
from svmcvx.feature_space import feature_space
from svmcvx.formulations.indicator.zero_one import ZeroOne
from svmcvx.synthetic import OUTLIERS, outlier_data

LAM = 1.0


def timed(run, repeats=1):
    """Median of the seconds, and the last result."""
    seconds = []
    for _ in range(repeats):
        started = time.perf_counter()
        result = run()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), result


def objective(X, y, solution):
    """Everyone's objective by our numpy statement."""
    space = feature_space(sx.data.binary_data(X, y), None, intercept="penalised")
    return ZeroOne(space=space, lam=LAM).objective(solution.model)


def row(what, seconds, X, y, solution, note=""):
    found = solution.certificate
    lower = float("nan") if found.lower is None else found.lower
    print(
        f"{what:40s} {seconds:9.3f} s  [{lower:.6f}, {objective(X, y, solution):.6f}]  gap {found.gap:.1e}  "
        f"{solution.status!s:10s} {note}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="n = 50 and 100 only")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument(
        "--repeats", type=int, default=5, help="runs of ours for n = 50, of which the median is printed"
    )
    parser.add_argument("--skip-scip", action="store_true")
    parser.add_argument("--scip-limit", type=float, default=600.0, help="seconds for each of SCIP's instances")
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each of ours")
    parser.add_argument("--plot", help="write the gap against time of the hardest rows to this file")
    arguments = parser.parse_args()
    X, y = outlier_data(20, 3, sigma=0.5, seed=0)
    for method in ("sweep", "branch"):  # compile
        zero_one(X, y, lam=LAM, method=method)

    traces = {}
    rows = [(n, 3, sigma, "10 s") for n in (50, 100) for sigma in (0.2, 0.5)]
    if not arguments.quick:
        rows += [(200, 3, 0.2, "120 s"), (200, 3, 0.5, "hard"), (500, 3, 0.2, "hard")]
        rows += [(50, 8, 0.5, "columns"), (50, 20, 0.2, "columns"), (100, 8, 0.2, "columns")]
    for n, p, sigma, target in rows:
        for outliers in OUTLIERS:
            for seed in range(arguments.seeds):
                X, y = outlier_data(n, p, sigma=sigma, outliers=outliers, seed=seed)
                what = f"n={n} p={p} sigma={sigma} {outliers} seed={seed}"
                seconds, ours = timed(
                    lambda X=X, y=y: zero_one(X, y, lam=LAM, time_limit=arguments.limit),
                    arguments.repeats if n == 50 else 1,
                )
                row(what, seconds, X, y, ours, f"target {target}; {ours.solver}")
                if target in ("120 s", "hard"):
                    traces[what] = ours.trace
                if n == 50 and not arguments.skip_scip:
                    taken, scip = timed(
                        lambda X=X, y=y: sx.solve(
                            sx.zero_one_mio(X, y, lam=LAM), solver="scip", time_limit=arguments.scip_limit
                        )
                    )
                    wanted = "target 20" if p == 3 else "no target"
                    row("  SCIP", taken, X, y, scip, f"ratio SCIP / ours {taken / seconds:.1f}, {wanted}")
    if arguments.plot:
        plot(traces, arguments.plot)


def plot(traces, path):
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 5))
    for what, trace in traces.items():
        gap = (trace[:, 2] - trace[:, 1]) / trace[:, 2]
        axes.semilogy(trace[:, 0], gap.clip(1e-9), label=what)
    axes.set(xlabel="seconds", ylabel="relative gap", title="exact 0-1 loss: what is proved")
    axes.legend(fontsize="x-small", loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=120, bbox_inches="tight")


if __name__ == "__main__":
    main()
