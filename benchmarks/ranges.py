"""Certified selections and paths over whole ranges: problems solved, and processor time beside a
grid.

    python benchmarks/ranges.py [--data-dir DIR] [--sets NAME ...] [--eps 0.01 0] [--quick]

Selections: five folds, C from 0.01 to 100, pSVM with p = 1 and 2, linear and with an RBF kernel
(gamma="scale"), on standardised features; a row has the errors that are proved, the fits of all
folds, and the processor time divided by that of `select` on a grid of 50 values (250 fits). Covers:
solutions of certified paths in C to a relative gap of 1e-2 and 1e-3, and how many more values means
of two of them cover; the same in p from 1 to 3. Fits are
counted; time is processor time of this process, rough on a machine that others use. breast_cancer
of scikit-learn by default; heart-statlog, ionosphere and sonar with --data-dir (or SVMCVX_DATA).
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import time  # noqa: E402 - threads are counted when numpy is first imported
import warnings  # noqa: E402

import numpy as np  # noqa: E402
from command import DATA, parser_of  # noqa: E402
from sklearn.datasets import load_breast_cancer  # noqa: E402
from sklearn.model_selection import StratifiedKFold  # noqa: E402
from sklearn.preprocessing import scale  # noqa: E402

import svmcvx as sx  # noqa: E402

SETS = ("heart-statlog", "ionosphere", "sonar")
LOW, HIGH = 0.01, 100.0


def load(name, data_dir):
    if name == "breast_cancer":
        X, y = load_breast_cancer(return_X_y=True)
    else:
        data = sx.datasets.load(name, data_dir).without_missing()
        X, y = np.asarray(data.X, dtype=float), data.y
    return scale(X), y


def timed(call):
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


def selections(names, data_dir, shares, quick):
    print(
        "| set | kernel | p | eps | errors proved | fewest of the grid | fits | values | time ÷"
        " grid |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in names:
        X, y = load(name, data_dir)
        for kernel in (None, "rbf"):
            for p in (1.0, 2.0):
                machine = sx.PSVMClassifier(p=p, kernel=kernel)
                grid = {"C": np.geomspace(LOW, HIGH, 10 if quick else 50).tolist()}
                table, of_grid = timed(
                    lambda m=machine, g=grid, X=X, y=y: sx.select(m, g, X, y, refit=False)
                )
                tested = np.array([len(part) for _, part in StratifiedKFold(5).split(X, y)])
                scores = table[[f"split{k}_test_score" for k in range(5)]].to_numpy()
                fewest = int(np.rint(((1.0 - scores) * tested).sum(axis=1)).min())
                for eps in shares:
                    found, own = timed(
                        lambda m=machine, e=eps, X=X, y=y: sx.certified_select(
                            m, X, y, C=(LOW, HIGH), eps=e
                        )
                    )
                    proved = (
                        f"{found.least} to {found.errors}"
                        if found.least < found.errors
                        else f"{found.errors}"
                    )
                    proved += "" if found.complete else " (not closed)"
                    print(
                        f"| {name} | {kernel or 'linear'} | {p:g} | {eps:g} | {proved} | {fewest} |"
                        f" {found.fits} | {len(found.values)} | {own / of_grid:.1f} |",
                        flush=True,
                    )


def covers(names, data_dir, quick):
    print("| set | kernel | p | range | 1e-2: solutions + means | 1e-3 |")
    print("|---|---|---|---|---|---|")
    for name in names:
        X, y = load(name, data_dir)
        for kernel in (None, "rbf"):
            rows = [(1.0, "C", (LOW, HIGH)), (2.0, "C", (LOW, HIGH)), (1.0, "p", (1.0, 3.0))]
            for p, varies, ends in rows:
                cells = []
                for eps in (1e-2,) if quick else (1e-2, 1e-3):
                    path = sx.certified_path(
                        sx.PSVMClassifier(p=p, kernel=kernel), X, y, eps=eps, **{varies: ends}
                    )
                    cells.append(
                        f"{len(path)} + {path.means}"
                        + ("" if path.complete else f", gap {path.gap:.1g}")
                    )
                told = "" if varies == "p" else f"{p:g}"
                print(
                    f"| {name} | {kernel or 'linear'} | {told} | {varies} from {ends[0]:.3g} to"
                    f" {ends[1]:.3g} | {' | '.join(cells)} |",
                    flush=True,
                )


def main():
    parser = parser_of(__doc__, data_dir=DATA)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--eps", nargs="+", type=float, default=[0.01, 0.0])
    parser.add_argument("--only", choices=("selections", "covers"))
    parser.add_argument(
        "--quick", action="store_true", help="a grid of 10, and covers to 1e-2 alone"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    names = options.sets or (SETS if options.data_dir else ("breast_cancer",))
    if options.only != "covers":
        selections(
            names, options.data_dir, options.eps[: 1 if options.quick else None], options.quick
        )
    if options.only != "selections":
        covers(names, options.data_dir, options.quick)


if __name__ == "__main__":
    main()
