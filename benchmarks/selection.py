"""Model selection against GridSearchCV over the same estimator: a path of 50 values of C, five
folds, side by side in one run.

    python benchmarks/selection.py [--data-dir DIR] [--sets NAME ...] [--repeat 3] [--quick]
    [--wall]

Sets of scikit-learn by default; with --data-dir (or SVMCVX_DATA) the sets wdbc, german and
svmguide1, read from there. Both searches have the same estimator (a standard scaler and
PSVMClassifier with solver="fast", tol = 1e-6), grid and folds. Ratios are of processor seconds of
this process, on one thread; --wall takes the wall clock. That the results are equal is shown by the
largest difference of a mean score and the largest certified gap.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import statistics  # noqa: E402 - threads are counted when numpy is first imported
import time  # noqa: E402

import numpy as np  # noqa: E402
from command import DATA, parser_of  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_digits  # noqa: E402
from sklearn.model_selection import GridSearchCV  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

import svmcvx as sx  # noqa: E402

VALUES = np.logspace(-3, 3, 50)
OWN = ("breast_cancer", "digits 3-8", "digits odd-even")
STORED = ("wdbc", "german", "svmguide1")


def load(name, data_dir):
    if data_dir:
        data = sx.datasets.load(name, data_dir)
        return data.X, data.y
    if name == "breast_cancer":
        return load_breast_cancer(return_X_y=True)
    X, y = load_digits(return_X_y=True)
    if name == "digits odd-even":
        return X, y % 2
    chosen = np.isin(y, (3, 8))
    return X[chosen], y[chosen]


def timed(search, clock):
    started = clock()
    result = search()
    return clock() - started, result


def compare(name, X, y, kernel, p, repeat, clock):
    model = make_pipeline(
        StandardScaler(), sx.PSVMClassifier(p=p, kernel=kernel, solver="fast", tol=1e-6)
    )
    grid = {"psvmclassifier__C": VALUES}
    warm = {"psvmclassifier__C": VALUES[::25]}
    sx.select(model, warm, X, y, cv=2)
    GridSearchCV(model, warm, cv=2).fit(X, y)
    ours, theirs = [], []
    for _ in range(repeat):
        seconds, table = timed(lambda: sx.select(model, grid, X, y), clock)
        ours.append(seconds)
        seconds, search = timed(lambda: GridSearchCV(model, grid).fit(X, y), clock)
        theirs.append(seconds)
    difference = np.abs(table["mean_test_score"] - search.cv_results_["mean_test_score"])
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(
        f"{name:16s} {X.shape[0]:5d} ×"
        f" {X.shape[1]:<3d} {kernel or 'linear':6s} p={p:<4g} {ratio:5.2f} × faster   select"
        f" {statistics.median(ours):6.2f} s   GridSearchCV {statistics.median(theirs):6.2f} s  "
        f" scores differ by {difference.max():.1e} ({int((difference > 0).sum())} of"
        f" {difference.size} settings)   worst gap {table['gap'].max():.1e}   best C"
        f" {table.best_params_['psvmclassifier__C']:.3g} and"
        f" {search.best_params_['psvmclassifier__C']:.3g}",
        flush=True,
    )


def main():
    parser = parser_of(__doc__, data_dir=DATA, repeat=3)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument(
        "--quick", action="store_true", help="p = 1 only, once, without the largest set"
    )
    parser.add_argument("--wall", action="store_true", help="wall clock instead of processor time")
    arguments = parser.parse_args()
    clock = time.perf_counter if arguments.wall else time.process_time
    names = arguments.sets or (STORED if arguments.data_dir else OWN)
    for name in names[:2] if arguments.quick else names:
        X, y = load(name, arguments.data_dir)
        for kernel in (None, "rbf"):
            for p in (1.0,) if arguments.quick else (1.0, 1.5, 2.0):
                compare(name, X, y, kernel, p, 1 if arguments.quick else arguments.repeat, clock)


if __name__ == "__main__":
    main()
