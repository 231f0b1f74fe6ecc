"""Whole fits of small machines beside scikit-learn's SVC: median milliseconds in one run, one BLAS
thread, compiled before.

    python benchmarks/small_fits.py [--repeat 200] [--csv FILE]

Two classes of iris, wine and breast_cancer, and all classes of iris and wine; linear and RBF; p = 1
as in SVC, and the other estimators as they are. Ours end at a certified gap of 1e-6, SVC at its
default tolerance, without a certificate.
"""

import statistics
import time
import warnings

import numpy as np
import pandas as pd
from command import parser_of
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.preprocessing import scale
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

import svmcvx as sx


def data_sets():
    """Name, rows and labels."""
    for load in (load_iris, load_wine, load_breast_cancer):
        X, y = load(return_X_y=True)
        X, name = scale(X), load.__name__.removeprefix("load_")
        pair = y < 2
        yield f"{name}, two classes", X[pair], y[pair]
        # Classes that overlap.
        if name == "iris":
            yield "iris, the other two", X[y > 0], y[y > 0]
        if np.unique(y).size > 2:
            yield f"{name}, all", X, y


def milliseconds(fit, repeat):
    """Median of so many fits."""
    fit()
    taken = []
    for _ in range(repeat):
        started = time.perf_counter()
        fit()
        taken.append(1e3 * (time.perf_counter() - started))
    return statistics.median(taken)


def main():
    parser = parser_of(__doc__, repeat=200, csv=None)
    options = parser.parse_args()
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, X, y in data_sets():
            for kernel in ("linear", "rbf"):
                ours = None if kernel == "linear" else kernel
                svc = milliseconds(
                    lambda X=X, y=y, kernel=kernel: SVC(kernel=kernel).fit(X, y), options.repeat
                )
                row = {"data": name, "kernel": kernel, "SVC": svc}
                estimators = {
                    "pSVM p=1": sx.PSVMClassifier(kernel=ours),
                    "pSVM p=2": sx.PSVMClassifier(kernel=ours, p=2.0),
                    "ODM": sx.ODMClassifier(kernel=ours, intercept=False),
                    "ODML": sx.ODMLClassifier(kernel=ours, intercept=False),
                    "conic": sx.ConicSVMClassifier(kernel=ours),
                }
                for label, estimator in estimators.items():
                    row[label] = milliseconds(
                        lambda e=estimator, X=X, y=y: e.fit(X, y), max(3, options.repeat // 10)
                    )
                row["ratio p=1"] = row["pSVM p=1"] / svc
                row["gap p=1"] = sx.PSVMClassifier(kernel=ours).fit(X, y).certificate_.gap
                rows.append(row)
    table = pd.DataFrame(rows)
    print(
        table.round(2)
        .assign(**{"gap p=1": table["gap p=1"].map("{:.0e}".format)})
        .to_string(index=False)
    )
    if options.csv:
        table.to_csv(options.csv, index=False)


if __name__ == "__main__":
    main()
