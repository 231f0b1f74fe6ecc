"""Searches for a global minimum with other losses, kernels and sizes than `zero_one.py`: seconds and nodes until the optimum is proved, or the gap at the limit.

python benchmarks/global_optima.py [--seeds 3] [--limit 20]
"""

from __future__ import annotations

import argparse
import time

import svmcvx as sx

# What is solved, n, features, σ, kernel.
ROWS = (
    ("0-1", 200, 5, 0.5, None),
    ("0-1", 500, 3, 0.5, None),
    ("0-1", 100, 8, 1.0, None),
    ("0-1", 200, 8, 0.5, None),
    ("0-1", 100, 20, 0.2, None),
    ("0-1", 100, 2, 0.5, "rbf"),
    ("0-1", 200, 2, 0.5, "rbf"),
    ("ramp", 200, 2, 0.5, None),
    ("l0, C = 0.5", 150, 2, 0.5, None),
    ("l0, C = 5", 150, 2, 0.5, None),
    ("l0, C = 0.5", 50, 2, 0.5, "rbf"),
    ("l0, C = 5", 50, 2, 0.5, "rbf"),
    ("l0, C = 0.5", 100, 2, 0.5, "rbf"),
    ("l0, C = 5", 100, 2, 0.5, "rbf"),
)


def search(what: str, X, y, kernel, limit: float) -> sx.Solution:
    if what == "0-1":
        return sx.fast.zero_one(X, y, lam=1.0, kernel=kernel, time_limit=limit)
    if what == "ramp":
        return sx.fast.ramp(X, y, C=1.0, kernel=kernel, time_limit=limit)
    return sx.fast.l0(X, y, C=float(what.split()[-1]), kernel=kernel, method="search", time_limit=limit)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for each search")
    given = parser.parse_args()
    small = sx.synthetic.outlier_data(24, 2, sigma=0.5, outliers="spread", seed=9)
    print("| problem | n | features | σ | seconds, or gap at the limit | nodes |\n|---|---|---|---|---|---|")
    for what, n, features, sigma, kernel in ROWS:
        search(what, *small, kernel, given.limit)  # compile
        seconds, nodes = [], []
        for seed in range(given.seeds):
            X, y = sx.synthetic.outlier_data(n, features, sigma=sigma, outliers="spread", seed=seed)
            began = time.perf_counter()
            found = search(what, X, y, kernel, given.limit)
            took = time.perf_counter() - began
            gap = found.certificate.gap
            seconds.append(f"{took:.2f}" if gap <= 1e-6 else f"gap {gap:.2g}")
            nodes.append(f"{found.attempts[0].options.get('nodes', 0):,}".replace(",", " "))
        name = what if kernel is None else f"{what}, RBF"
        print(f"| {name} | {n} | {features} | {sigma} | {', '.join(seconds)} | {', '.join(nodes)} |", flush=True)


if __name__ == "__main__":
    main()
