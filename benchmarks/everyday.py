"""What people fit every day: small sets and several classes, beside scikit-learn's SVC, in
processor seconds of one run.

    python benchmarks/everyday.py [--data-dir DIR] [--data iris digits] [--repeat 3] [--C 1 100]
    [--tol 1e-3 1e-6]
                                  [--pairs 5] [--no-linear-peers] [--csv FILE]

Whole fits of classifiers on standardised features, p = 1, one thread each, compiled before, the
competitors taking turns: medians of --repeat runs, divided by those of SVC at its default
tolerance. `ours 0.001` is PSVMClassifier to that certified gap, of every pair of classes; `SVC gap`
is the largest certified gap of SVC's own answers, of --pairs pairs that are evenly spaced among
all. Linear kernels have two more columns, which solve other problems: LinearSVC (squared hinge, one
against the rest) and LogisticRegression, at their default tolerances. Intel's extension has a
column if it is installed.

With --data-dir (or SVMCVX_DATA) the sets below that are bundled with no package are read from
there; without it they are left out.
"""

import itertools
import time
import warnings

import numpy as np
import pandas as pd
from command import DATA, parser_of
from peers import medians, peer, versions
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

import svmcvx as sx

BUNDLED = {
    "iris": load_iris,
    "wine": load_wine,
    "breast_cancer": load_breast_cancer,
    "digits": load_digits,
}
# Name, and observations that are taken, evenly spaced.
READ = {
    "german": None,
    "wine-quality": None,
    "fourclass": None,
    "svmguide1": None,
    "banknote": None,
    "vehicle": None,
    "dermatology": None,
    "isolet": 1560,
    "usps": 6000,
}


def load(name, data_dir):
    """Standardised rows and labels; None where they are not there."""
    if name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    elif data_dir:
        data = sx.datasets.load(name, data_dir).without_missing()
        X, y = np.asarray(data.X, dtype=float), np.unique(data.y, return_inverse=True)[1]
        most = READ[name] or len(y)
        rows = np.linspace(0, len(y) - 1, min(most, len(y))).astype(int)
        X, y = X[rows], y[rows]
    else:
        print(f"{name} left out: it is read from --data-dir")
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # means that are not exactly 0
        return np.ascontiguousarray(scale(X)), y


def largest_gap(X, y, kernel, gamma, C, pairs):
    """The largest certified gap of what SVC finds for some pairs of classes: it solves each as if
    it were alone.
    """
    every = list(itertools.combinations(np.unique(y), 2))
    gaps = []
    for k in np.unique(np.linspace(0, len(every) - 1, min(pairs, len(every))).astype(int)):
        chosen = np.isin(y, every[k])
        found = SVC(kernel=kernel, gamma=gamma, C=C).fit(X[chosen], y[chosen])
        ours = None if kernel == "linear" else sx.RBF(gamma)
        gaps.append(sx.certify(found, X[chosen], y[chosen], problem="psvm", C=C, kernel=ours).gap)
    return max(gaps)


def measured(name, X, y, kernel, C, arguments, intel):
    """One row of the table."""
    gamma = 1.0 / (X.shape[1] * X.var())
    ours = {
        f"ours {tol:g}": sx.PSVMClassifier(
            kernel=None if kernel == "linear" else sx.RBF(gamma), C=C, tol=tol
        )
        for tol in arguments.tol
    }
    rivals = {"SVC": SVC(kernel=kernel, gamma=gamma, C=C)}
    if intel is not None:
        rivals["Intel"] = intel(kernel=kernel, gamma=gamma, C=C)
    if kernel == "linear" and arguments.linear_peers:
        rivals |= {"LinearSVC": LinearSVC(C=C), "LogisticRegression": LogisticRegression(C=C)}
    fits = {
        label: (lambda model=model: model.fit(X, y)) for label, model in (ours | rivals).items()
    }
    for fit in fits.values():
        fit()
    seconds, fitted = medians(fits, arguments.repeat, clock=time.process_time)
    row = {
        "data": name,
        "n": X.shape[0],
        "d": X.shape[1],
        "classes": np.unique(y).size,
        "kernel": kernel,
        "C": C,
    }
    row["SVC ms"] = 1e3 * seconds["SVC"]
    row |= {
        f"{label} ÷ SVC": taken / seconds["SVC"]
        for label, taken in seconds.items()
        if label != "SVC"
    }
    row |= {f"gap {tol:g}": fitted[f"ours {tol:g}"].certificate_.gap for tol in arguments.tol}
    row["SVC gap"] = largest_gap(X, y, kernel, gamma, C, arguments.pairs)
    return row


def main():
    parser = parser_of(__doc__, data_dir=DATA, repeat=3, pairs=5, csv=None)
    parser.add_argument("--data", nargs="+", choices=(*BUNDLED, *READ))
    parser.add_argument("--C", nargs="+", type=float, default=[1.0, 100.0])
    parser.add_argument("--tol", nargs="+", type=float, default=[1e-3, 1e-6])
    parser.add_argument("--kernel", nargs="+", choices=("rbf", "linear"), default=["rbf", "linear"])
    parser.add_argument("--no-linear-peers", dest="linear_peers", action="store_false")
    arguments = parser.parse_args()
    print(versions())
    intel, rows = peer("Intel"), []
    names = arguments.data or [*BUNDLED, *(READ if arguments.data_dir else ())]
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence: the gaps are in the table
        for name in names:
            found = load(name, arguments.data_dir)
            if found is None:
                continue
            for kernel, C in itertools.product(arguments.kernel, arguments.C):
                if kernel == "linear" and C > 1 and name in ("wine-quality", "german"):
                    continue  # SVC takes minutes
                rows.append(measured(name, *found, kernel, C, arguments, intel))
                print(
                    ", ".join(
                        f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}"
                        for key, value in rows[-1].items()
                    ),
                    flush=True,
                )
    table = pd.DataFrame(rows)
    print()
    print(table.to_string(index=False, float_format=lambda value: f"{value:.2g}", na_rep=""))
    if arguments.csv:
        table.to_csv(arguments.csv, index=False)


if __name__ == "__main__":
    main()
