"""The low-rank solver of the conic relaxation: seconds, certified gaps and memory.

    python benchmarks/conic.py [--parts small,paths,large,kernel] [--repeat 3] [--plot FILE.png]

``small``   n = 1 000 (clustered outliers, σ = 0.5, λ = 1) against Clarabel, and SCS with --scs, on
the reduced builder:
            ratios of the seconds of the solvers alone, and of all that leads to a certificate;
            target 1/30 for p = 30.
``paths``   100 values of κ, and of λ, for p = 10 and p = 30; the paper prints 25 s and 167 s
(Mosek) for those of κ. ``large``   n = 100 000, p = 100 to a gap of 1e-4, with the peak memory
beyond the process that holds the data; target 60 s, 4 × the data. ``kernel``  an RBF kernel, n = 2
000.

All run to a certified relative gap of 1e-6 unless said otherwise. The default is ``small,paths``,
which takes a minute, most of it Clarabel's. --plot draws the gap against time of the problems in
``small`` and ``large``.
"""

import resource
import statistics
import time

import numpy as np
import psutil
from command import parser_of

import svmcvx as sx
from svmcvx.fast.conic_loss.conic import conic

PAPER_SECONDS = {10: 25.0, 30: 167.0}


def data(n, p, seed=0):
    return sx.synthetic.outlier_data(n, p, sigma=0.5, outliers="clustered", seed=seed)


def timed(repeat, solve):
    """Median seconds and the last result."""
    seconds = []
    for _ in range(repeat):
        started = time.perf_counter()
        result = solve()
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds), result


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def direct(X, y, solver):
    """Seconds of cvxpy's own solve of the builder, compiled once before, and its value."""
    problem = sx.conic_sdp(X, y, lam=1.0)
    started = time.perf_counter()
    problem.solve(solver=solver)
    return time.perf_counter() - started, problem.value


def small(repeat, scs, traces):
    for p in (3, 10, 30):
        X, y = data(1000, p)
        seconds, fast = timed(repeat, lambda X=X, y=y: conic(X, y, lam=1.0))
        traces[f"n = 1000, p = {p}"] = fast.trace
        row = (
            f"n=1000 p={p:<3d} fast.conic {seconds:8.3f} s  objective {fast.certificate.upper:.8f} "
            f" gap {fast.certificate.gap:.1e}"
        )
        for solver in ("CLARABEL", "SCS") if scs else ("CLARABEL",):
            theirs, value = direct(X, y, solver)
            row += f"   {solver} {theirs:8.2f} s (value {value:.8f}): 1/{theirs / seconds:.0f}"
        print(row, flush=True)


def paths():
    for p in (10, 30):
        X, y = data(1000, p)
        for name, values in (
            ("kappa", np.linspace(0.5, 0.005, 100)),
            ("lam", np.geomspace(1e-2, 1e1, 100)),
        ):
            started, warm, gaps = time.perf_counter(), None, []
            for value in values:
                warm = conic(X, y, warm_start=warm, **{name: value})
                gaps.append(warm.certificate.gap)
            seconds = time.perf_counter() - started
            printed = f"  (the paper: {PAPER_SECONDS[p]:.0f} s)" if name == "kappa" else ""
            print(
                f"n=1000 p={p:<3d} 100 values of {name:5s} {seconds:8.2f} s  largest gap"
                f" {max(gaps):.1e}{printed}",
                flush=True,
            )


def large(traces):
    X, y = data(100_000, 100)
    before = psutil.Process().memory_info().rss / 2**20
    seconds, fast = timed(1, lambda: conic(X, y, lam=1.0, tol=1e-4))
    traces["n = 100 000, p = 100"] = fast.trace
    size = X.nbytes / 2**20
    print(
        f"n=100000 p=100 {seconds:8.1f} s  {fast!r}\n  data {size:.0f} MiB, resident before"
        f" {before:.0f} MiB, peak {peak():.0f} MiB: at most {(peak() - before + size) / size:.1f} ×"
        " the data with them",
        flush=True,
    )


def kernel():
    X, y = data(2000, 10)
    seconds, fast = timed(1, lambda: conic(X, y, lam=1.0, kernel=sx.RBF("scale")))
    print(f"n=2000 RBF {seconds:8.1f} s  {fast!r}", flush=True)


def draw(traces, path):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    _, axes = plt.subplots(figsize=(6, 4))
    for name, trace in traces.items():
        gap = (trace[:, 2] - trace[:, 1]) / np.maximum(1.0, np.abs(trace[:, 2]))
        axes.loglog(trace[:, 0], gap, "o-", label=name)
    axes.set(xlabel="seconds", ylabel="certified relative gap")
    axes.legend()
    plt.savefig(path, bbox_inches="tight", dpi=150)


def main():
    parser = parser_of(__doc__, repeat=3, plot=None)
    parser.add_argument(
        "--parts", default="small,paths", help="of small, paths, large, kernel; separated by commas"
    )
    parser.add_argument("--scs", action="store_true", help="SCS beside Clarabel")
    arguments = parser.parse_args()
    X, y = data(60, 3)
    for problem in ({"lam": 1.0}, {"kappa": 0.2}):
        conic(X, y, **problem)  # warms the JIT
    traces = {}
    for part in arguments.parts.split(","):
        {
            "small": lambda: small(arguments.repeat, arguments.scs, traces),
            "paths": paths,
            "large": lambda: large(traces),
            "kernel": kernel,
        }[part]()
    if arguments.plot:
        draw(traces, arguments.plot)


if __name__ == "__main__":
    main()
