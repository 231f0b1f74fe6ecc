"""Every builder on small real data, through the solve layer: certified gap and seconds.

    python benchmarks/every_builder.py [--seeds 3] [--csv FILE]

Convex formulations on about 100 observations of breast_cancer or wine (three classes),
mixed-integer ones on 25 observations and three features of breast_cancer; each seed draws other
observations.
"""

import math
import time

import numpy as np
import pandas as pd
from command import parser_of
from sklearn.preprocessing import scale

import svmcvx as sx


def draw(name, n, d, seed):
    """Standardised observations of a built-in set, both or all classes present."""
    data = sx.datasets.load(name)
    rng = np.random.default_rng(seed)
    rows = rng.permutation(data.y.size)[:n]
    columns = rng.permutation(data.X.shape[1])[:d]
    return scale(data.X[np.ix_(rows, columns)]), data.y[rows]


def separated(X, y):
    """The observations that a linear hinge machine classifies with room, so that hard margins
    exist.
    """
    model = sx.solve(sx.psvm_dual(X, y, C=1.0, p=1)).model
    signs = np.where(y == model.classes[1], 1, -1)
    kept = signs * model.decision_function(X) > 0.1
    return X[kept], y[kept]


def separated_classes(X, y):
    """Three classes pulled apart."""
    codes = np.unique(y, return_inverse=True)[1]
    return X + 6.0 * np.eye(3)[codes] @ np.eye(3, X.shape[1]), y


RBF = sx.RBF()


def convex(X, y, wide, labels):
    """Name and builder of every convex formulation."""
    hard, hard_y = separated(X, y)
    apart, apart_y = separated_classes(wide, labels)
    yield "psvm_primal p=1.5", lambda: sx.psvm_primal(X, y, C=1.0, p=1.5)
    yield "psvm_dual p=1", lambda: sx.psvm_dual(X, y, C=1.0, p=1)
    yield "psvm_dual p=1.5 rbf", lambda: sx.psvm_dual(X, y, C=1.0, p=1.5, kernel=RBF)
    yield "hard_margin_dual", lambda: sx.hard_margin_dual(hard, hard_y)
    yield "conic_sdp lam=1", lambda: sx.conic_sdp(X, y, lam=1.0)
    yield "conic_sdp lam=1 paper", lambda: sx.conic_sdp(X, y, lam=1.0, form="paper")
    yield "conic_sdp kappa=0.1", lambda: sx.conic_sdp(X, y, kappa=0.1)
    yield "conic_sdp rbf n=40", lambda: sx.conic_sdp(X[:40], y[:40], lam=1.0, kernel=RBF)
    yield (
        "conic_fixed_gamma",
        lambda: sx.conic_fixed_gamma(
            X, y, gamma=0.5 / np.linalg.norm(np.c_[X, np.ones(len(X))], 2) ** 2, lam=1.0
        ),
    )
    yield "odm_primal", lambda: sx.odm_primal(X, y, C1=8.0, C2=4.0, D=0.2)
    yield "odm_dual signed rbf", lambda: sx.odm_dual(X, y, C1=8.0, C2=4.0, D=0.2, kernel=RBF)
    yield "odm_dual paper", lambda: sx.odm_dual(X, y, C1=8.0, C2=4.0, D=0.2, form="paper")
    yield "odml_primal", lambda: sx.odml_primal(X, y, lam1=0.25, lam2=0.25, C=10.0)
    yield "odml_dual rbf", lambda: sx.odml_dual(X, y, lam1=0.25, lam2=0.25, C=10.0, kernel=RBF)
    yield (
        "odml_hard_margin",
        lambda: sx.odml_hard_margin(hard, hard_y, lam1=0.1, lam2=0.1, intercept=True),
    )
    for p in (1, 2, 4):
        yield f"m3svm p={p}", lambda p=p: sx.m3svm(wide, labels, lam=1e-2, p=p)
    for loss in ("smoothed", "logistic", "softmax"):
        yield (
            f"m3svm p=4 {loss}",
            lambda loss=loss: sx.m3svm(wide, labels, lam=1e-2, p=4, loss=loss),
        )
    yield "m3svm p=2 l1", lambda: sx.m3svm(wide, labels, lam=1e-2, p=2, norm=1)
    yield "m3svm_hard_margin p=2", lambda: sx.m3svm_hard_margin(apart, apart_y, p=2)
    yield "m3svm_hard_margin p=inf", lambda: sx.m3svm_hard_margin(apart, apart_y, p=math.inf)
    yield "weston_watkins", lambda: sx.weston_watkins(wide, labels, lam=0.1)
    yield "crammer_singer", lambda: sx.crammer_singer(wide, labels, lam=0.1)
    yield "msvm", lambda: sx.msvm(wide, labels, lam=0.1)
    yield "topk_svm k=2", lambda: sx.topk_svm(wide, labels, lam=0.1, k=2)
    yield "multinomial_lr", lambda: sx.multinomial_lr(wide, labels, lam=0.1)
    yield "sparse_multinomial_lr", lambda: sx.sparse_multinomial_lr(wide, labels, lam=0.1)


def mixed_integer(X, y):
    """Name and builder of every mixed-integer formulation."""
    yield "zero_one_mio big-m", lambda: sx.zero_one_mio(X, y, lam=1.0)
    yield "zero_one_mio perspective", lambda: sx.zero_one_mio(X, y, lam=1.0, form="perspective")
    yield "zero_one_mio k=2", lambda: sx.zero_one_mio(X, y, k=2)
    yield "ramp_mio", lambda: sx.ramp_mio(X, y, C=1.0)
    yield "l0_mio", lambda: sx.l0_mio(X, y, C=1.0)


def main():
    parser = parser_of(__doc__, seeds=3, time_limit=120.0, csv=None)
    arguments = parser.parse_args()
    rows = []
    for seed in range(arguments.seeds):
        X, y = draw("breast_cancer", 100, 8, seed)
        builders = [
            *convex(X, y, *draw("wine", 100, 8, seed)),
            *mixed_integer(*draw("breast_cancer", 25, 3, seed)),
        ]
        for name, build in builders:
            started = time.perf_counter()
            try:
                solution = sx.solve(build(), time_limit=arguments.time_limit)
                certificate = solution.certificate
                row = (
                    certificate.kind,
                    solution.solver,
                    certificate.upper,
                    certificate.gap,
                    certificate.is_certified(1e-6),
                )
            except sx.SvmcvxError as error:
                row = ("", "", math.nan, math.inf, False)
                print(f"{name}: {error}")
            rows.append((name, seed, *row, time.perf_counter() - started))
            print(
                f"{name:26s} seed {seed} {rows[-1][2]:13s} {rows[-1][3]:9s} gap"
                f" {row[3]:.1e} {rows[-1][-1]:6.2f} s",
                flush=True,
            )
    columns = ["builder", "seed", "kind", "solver", "objective", "gap", "certified", "seconds"]
    table = pd.DataFrame(rows, columns=columns)
    summary = table.groupby("builder", sort=False).agg(
        kind=("kind", "first"),
        solver=("solver", "first"),
        certified=("certified", "sum"),
        largest_gap=("gap", "max"),
        seconds=("seconds", "median"),
    )
    print(
        "\n"
        + summary.to_string(formatters={"largest_gap": "{:.1e}".format, "seconds": "{:.2f}".format})
    )
    print(f"\ncertified to 1e-6: {int(table['certified'].sum())} of {len(table)}")
    if arguments.csv:
        table.to_csv(arguments.csv, index=False)


if __name__ == "__main__":
    main()
