"""Certified gaps of the pSVM through the conic solvers, over data sets, exponents, weights and
kernels.

    python benchmarks/certified_gaps.py --data-dir DIR [--csv FILE] [DATASET ...]

One line a solve; then the share certified to 1e-6 and every solve that was not, with the reason.
"""

import itertools
import time

import pandas as pd
from command import DATA, parser_of
from sklearn.preprocessing import StandardScaler

import svmcvx as sx

DATASETS = ("breast_cancer", "ionosphere", "heart-statlog", "banknote", "promoters")
EXPONENTS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 7.0)
WEIGHTS = (1e-3, 1.0, 1e3)
KERNELS = {"linear": None, "rbf": sx.RBF()}


def main() -> None:
    parser = parser_of(__doc__, data_dir=DATA, solver="clarabel", csv=None)
    parser.add_argument("datasets", nargs="*", default=DATASETS)
    parser.add_argument("--form", choices=("dual", "primal"), default="dual")
    arguments = parser.parse_args()
    build = sx.psvm_dual if arguments.form == "dual" else sx.psvm_primal
    rows = []
    for name in arguments.datasets:
        data = sx.datasets.load(name, arguments.data_dir).without_missing()
        X = StandardScaler().fit_transform(data.X)
        for (label, kernel), p in itertools.product(KERNELS.items(), EXPONENTS):
            problem = build(X, data.y, C=1.0, p=p, kernel=kernel)
            for C in WEIGHTS:
                problem.C.value = C
                started = time.perf_counter()
                try:
                    solution = sx.solve(problem, solver=arguments.solver)
                    gap, status = solution.certificate.gap, str(solution.status)
                    reason = "; ".join(
                        attempt.reason for attempt in solution.attempts if attempt.reason
                    )
                except sx.SvmcvxError as error:
                    gap, status, reason = float("inf"), "failed", str(error)
                seconds = time.perf_counter() - started
                rows.append((name, label, p, C, gap, status, seconds, reason))
                print(
                    f"{name:14s} {label:6s} p={p:<5g} C={C:<6g} gap={gap:.1e}"
                    f" {status:12s} {seconds:6.2f} s",
                    flush=True,
                )
    table = pd.DataFrame(
        rows, columns=["data", "kernel", "p", "C", "gap", "status", "seconds", "reason"]
    )
    print()
    print(table.groupby(["data", "kernel"])["gap"].agg(["median", "max", "count"]).to_string())
    missed = table[~(table["gap"] <= 1e-6)]
    print(f"\ncertified to 1e-6: {len(table) - len(missed)} of {len(table)}")
    if len(missed):
        print(missed.to_string(index=False))
    if arguments.csv:
        table.to_csv(arguments.csv, index=False)


if __name__ == "__main__":
    main()
