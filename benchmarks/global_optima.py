"""Searches for a global minimum: other losses, kernels and sizes than `zero_one.py`, and real data
beside mixed-integer solvers and cell enumeration.

    python benchmarks/global_optima.py [--seeds 3] [--limit 20]
    python benchmarks/global_optima.py --beside [--data-dir DIR] [--limit 20] [--data haberman sonar
    ...] python benchmarks/global_optima.py --cells [--data-dir DIR]

The first prints the seconds of a clock and the nodes until an optimum is proved, or the gap at the
limit. With --beside each of the three losses is searched at several λ and C on real data with
standardised columns (--data-dir or SVMCVX_DATA) and on generated data. SCIP gets the package's
big-M programs with the same limit; HiGHS takes no integer program with a quadratic objective.
Printed are the processor seconds of the whole call, building included, or the certified gap that is
left, and upper ends of the same objective. With --cells the cell enumeration of [HeLittle] (`pip
install --no-deps e01loss`) counts misclassifications, and the search counts margins below 1 with a
λ at which its norm costs nothing to speak of.
"""

from __future__ import annotations

import math
import time
import warnings

import numpy as np
from command import DATA, parser_of
from sklearn.preprocessing import scale

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
    return sx.fast.l0(
        X, y, C=float(what.split()[-1]), kernel=kernel, method="search", time_limit=limit
    )


REAL = ("haberman", "immunotherapy", "liver-disorders", "heart-statlog", "sonar", "ionosphere")
# Name of generated data: n and features.
GENERATED = {"spread-50x3": (50, 3), "spread-100x3": (100, 3), "spread-100x8": (100, 8)}
PROBLEMS = (("0-1", "lam", (1.0, 10.0, 100.0)), ("ramp", "C", (0.5, 5.0)), ("l0", "C", (0.5, 5.0)))
SEARCHES = {
    "0-1": sx.fast.zero_one,
    "ramp": sx.fast.ramp,
    "l0": lambda X, y, **given: sx.fast.l0(X, y, method="search", **given),
}
BUILDERS = {"0-1": sx.zero_one_mio, "ramp": sx.ramp_mio, "l0": sx.l0_mio}
# Data of cell enumeration: n and features of generated data, and the first rows of real data.
CELLS = (
    (50, 2),
    (100, 2),
    (200, 2),
    (30, 3),
    (60, 3),
    (100, 3),
    (30, 4),
    (50, 4),
    ("haberman", 100),
    ("haberman", 306),
)
# λ at which the norm of a separating machine counts for nothing.
DEAR = 1e10
# Memory of the enumeration that is not begun, in bytes, and its arrays of one entry for each row
# and vertex.
TOO_LARGE, ARRAYS = 6e9, 5


def data_set(name: str, folder: str | None):
    """Return rows and labels of ±1, or None if the data are not there."""
    if name in GENERATED:
        return sx.synthetic.outlier_data(*GENERATED[name], sigma=0.5, outliers="spread", seed=0)
    try:
        bundle = sx.datasets.load(name, data_dir=folder)
    except sx.SvmcvxError as error:
        print(f"{name} left out: {error}", flush=True)
        return None
    X, y = scale(bundle.X), np.asarray(bundle.y)
    return X, np.where(y == np.unique(y)[1], 1, -1)


def told(call) -> tuple[str, float]:
    """Run a search or a solver; return its processor seconds and gap in words, and the upper
    end.
    """
    began = time.process_time()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            certificate = call().certificate
    except sx.SvmcvxError as error:
        return type(error).__name__, math.nan
    took, gap = time.process_time() - began, certificate.gap
    return f"{took:.2f} s" if gap <= 1e-6 else f"gap {gap:.2g}", certificate.upper


def beside(given) -> None:
    small = sx.synthetic.outlier_data(24, 2, sigma=0.5, outliers="spread", seed=9)
    for problem, parameter, values in PROBLEMS:
        SEARCHES[problem](*small, **{parameter: values[0]})  # compile
    print(
        "| data | problem | search | upper end | SCIP | its upper end |\n|---|---|---|---|---|---|"
    )
    for name in given.data:
        found = data_set(name, given.data_dir)
        if found is None:
            continue
        X, y = found
        for problem, parameter, values in PROBLEMS:
            for value in values:
                asked = {parameter: value, "time_limit": given.limit}
                ours, upper = told(lambda X=X, y=y, p=problem, a=asked: SEARCHES[p](X, y, **a))
                cells = [ours, f"{upper:.5g}"]

                def call(X=X, y=y, p=problem, a=asked):
                    return sx.solve(BUILDERS[p](X, y, **a), solver="scip", time_limit=given.limit)

                theirs, end = told(call)
                cells += [theirs, f"{end:.5g}"]
                size = f"{name} {X.shape[0]} × {X.shape[1]}"
                print(
                    f"| {size} | {problem}, {'λ' if parameter == 'lam' else 'C'} = {value:g} |"
                    f" {' | '.join(cells)} |",
                    flush=True,
                )


def cells(given) -> None:
    from e01loss.exact_classify01loss import exact_classify01loss_cell

    print(
        "| data | vertices | cell enumeration: errors | processor seconds | search: errors (lower"
        " end ÷ λ) | processor seconds |"
    )
    print("|---|---|---|---|---|---|")
    # compile
    sx.fast.zero_one(
        *sx.synthetic.outlier_data(24, 2, sigma=0.5, outliers="spread", seed=9), lam=DEAR
    )
    for first, second in CELLS:
        if isinstance(first, str):
            found = data_set(first, given.data_dir)
            if found is None:
                continue
            X, y = found[0][:second], found[1][:second]
        else:
            X, y = sx.synthetic.outlier_data(first, second, sigma=0.5, outliers="spread", seed=0)
        n, d = X.shape
        vertices = math.comb(n, d)
        began = time.process_time()
        if ARRAYS * 8.0 * n * vertices > TOO_LARGE:
            counted = [f"not run: arrays of {8e-9 * n * vertices:.3g} GB each", ""]
        else:
            try:
                errors = exact_classify01loss_cell(X, y)[1]
                counted = [f"{errors}", f"{time.process_time() - began:.2f}"]
            except (np.linalg.LinAlgError, ValueError, TypeError) as error:
                counted = [f"{type(error).__name__}: {error}", ""]
        began = time.process_time()
        answer = sx.fast.zero_one(X, y, lam=DEAR, time_limit=given.limit)
        took = time.process_time() - began
        wrong = int((np.sign(answer.model.decision_function(X)) != y).sum())
        lower = answer.certificate.lower / DEAR
        print(
            f"| {n} × {d} | {vertices} | {' | '.join(counted)} | {wrong} ({lower:.7g}) |"
            f" {took:.2f} |",
            flush=True,
        )


def sizes(given) -> None:
    small = sx.synthetic.outlier_data(24, 2, sigma=0.5, outliers="spread", seed=9)
    print(
        "| problem | n | features | σ | seconds, or gap at the limit | nodes"
        " |\n|---|---|---|---|---|---|"
    )
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
        print(
            f"| {name} | {n} | {features} | {sigma} | {', '.join(seconds)} | {', '.join(nodes)} |",
            flush=True,
        )


def main() -> None:
    parser = parser_of(__doc__, seeds=3, data_dir=DATA)
    parser.add_argument("--limit", type=float, default=20.0, help="seconds for each search")
    parser.add_argument(
        "--beside",
        action="store_true",
        help="several λ and C on real and generated data beside SCIP",
    )
    parser.add_argument("--cells", action="store_true", help="beside cell enumeration")
    parser.add_argument("--data", nargs="+", default=[*GENERATED, *REAL], help="of --beside")
    given = parser.parse_args()
    if given.beside:
        beside(given)
    if given.cells:
        cells(given)
    if not given.beside and not given.cells:
        sizes(given)


if __name__ == "__main__":
    main()
