"""Grids: tuning fits in batches beside certified fits and GridSearchCV over SVC.

    python benchmarks/grids.py [--data-dir DIR] [--sets NAME ...] [--repeat 3] [--halves 1] [--only
    nested svc] [--csv FILE]

**nested**: the grids of [ZhangZhou] and ranges of C on random halves, columns scaled to [0, 1],
five folds. Microseconds a fit of the batches alone, of `select(certify="chosen")` with everything
(folds, table, certificates of the chosen setting and its neighbours), and of
`select(certify="all")` on one setting of 33 of large grids; how many validation scores of these two
differ. **svc**: `select` and GridSearchCV over SVC with the same values of C, kernel and folds; 50
values on breast_cancer, 9 on the ten classes of digits. All of processor time of this process, on
one thread, least of the repeats, compiled before.
"""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse  # noqa: E402 - threads are counted when numpy is first imported
import time  # noqa: E402

import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402
from sklearn.datasets import load_breast_cancer, load_digits, load_wine  # noqa: E402
from sklearn.model_selection import GridSearchCV, StratifiedKFold  # noqa: E402
from sklearn.preprocessing import minmax_scale, scale  # noqa: E402
from sklearn.svm import SVC  # noqa: E402
from svmcvx.experiments.batches.machines import machine_of, numbers_of, solve  # noqa: E402

import svmcvx as sx  # noqa: E402
from svmcvx.fast.grids.order import serpentine  # noqa: E402
from svmcvx.fast.grids.rows import Rows  # noqa: E402
from svmcvx.kernels.gram_cache import GramCache  # noqa: E402

SETS = ("sonar", "diabetes")
LARGE = [2.0**k for k in range(11)]
NESTED = {"C1": LARGE, "C2": LARGE, "D": np.linspace(0.0, 0.5, 6).tolist()}
MACHINES = {
    "ODM, linear": (sx.ODMClassifier(intercept=False), NESTED),
    "ODM, RBF": (sx.ODMClassifier(intercept=False, kernel="rbf"), {**NESTED, "D": [0.2]}),
    "pSVM p = 2, linear": (sx.PSVMClassifier(p=2.0), {"C": np.logspace(-2, 3, 21)}),
    "pSVM p = 1, linear": (sx.PSVMClassifier(), {"C": np.logspace(-2, 3, 21)}),
    "pSVM p = 1, RBF": (sx.PSVMClassifier(kernel="rbf"), {"C": np.logspace(-2, 3, 9)}),
}
# Settings from which the certified search takes one of 33.
MANY, EVERY = 100, 33


def loaded(name, data_dir):
    """Rows and labels of two classes."""
    if data_dir:
        data = sx.datasets.load(name, data_dir)
        return data.X, data.y
    X, y = (load_breast_cancer if name == "breast_cancer" else load_wine)(return_X_y=True)
    return X, y == 1


def least(call, repeat):
    """Least processor seconds of so many calls, and the last result."""
    taken = []
    for _ in range(repeat):
        started = time.process_time()
        found = call()
        taken.append(time.process_time() - started)
    return min(taken), found


def batches_alone(estimator, grid, X, y, folds):
    """Solve all settings on all folds, and count them."""
    names = list(grid)
    settings = [
        dict(zip(names, values, strict=True))
        for values in np.stack(np.meshgrid(*grid.values()), -1).reshape(-1, len(names)).tolist()
    ]
    count = 0
    for train, test in folds:
        data = estimator._training_data(X[train], y[train])
        machine, numbers, rows = None, [], None
        for one in settings:
            # As the batches of select do; set_params would take half of the time.
            for name, value in one.items():
                setattr(estimator, name, value)
            request = estimator._request(data, None)
            machine = machine or machine_of(request, data)
            numbers.append(numbers_of(machine, request))
        rows = Rows(
            data.X,
            np.where(data.labels.codes == 1, 1.0, -1.0),
            np.ones(len(data.labels)),
            X[test],
            machine.kernel,
            machine.intercept,
            GramCache(),
        )
        for places in serpentine(numbers):
            answers = solve(machine, [numbers[k] for k in places], rows)
            assert answers.gaps.max() <= estimator.tol
            count += len(places)
    return count


def nested_row(estimator, grid, X, y, folds, repeat):
    """What one machine takes on one half."""

    def search(certify, values):
        return sx.select(estimator, values, X, y, cv=folds, certify=certify)

    search("chosen", grid)
    fits = 5 * int(np.prod([len(values) for values in grid.values()]))
    alone, count = least(lambda: batches_alone(estimator, grid, X, y, folds), repeat)
    assert count == fits
    seconds, table = least(lambda: search("chosen", grid), repeat)
    part = table.index[:: EVERY if len(table) > MANY else 1]
    single = [{key: [value] for key, value in params.items()} for params in table["params"][part]]
    certified, every = least(lambda: search("all", single), 1)
    columns = [f"split{k}_test_score" for k in range(5)]
    return {
        "rows": len(y),
        "columns": X.shape[1],
        "fits": fits,
        "batch_us": 1e6 * alone / fits,
        "chosen_us": 1e6 * seconds / fits,
        "certified_us": 1e6 * certified / (5 * len(part)),
        "not_batched": int(fits - table["batched"].sum()),
        "scores_that_differ": int(
            (table.loc[part, columns].to_numpy() != every[columns].to_numpy()).sum()
        ),
    }


def nested(options):
    """Rows of the table of nested grids."""
    for name in options.sets or (SETS if options.data_dir else ("breast_cancer", "wine")):
        whole, labels = loaded(name, options.data_dir)
        for half in range(options.halves):
            order = np.random.default_rng(half).permutation(len(labels))[: len(labels) // 2]
            X, y = minmax_scale(whole[order]), labels[order]
            folds = list(StratifiedKFold(5, shuffle=True, random_state=half).split(X, y))
            for machine, (estimator, grid) in MACHINES.items():
                row = nested_row(estimator, grid, X, y, folds, options.repeat)
                yield {"set": name, "half": half, "machine": machine, **row}


def svc_row(kernel, certify, values, X, y, repeat):
    """What both searches take."""
    ours = sx.PSVMClassifier(kernel=None if kernel == "linear" else kernel, tol=1e-3)
    sx.select(ours, {"C": values[::8]}, X, y, certify=certify)
    seconds, table = least(lambda: sx.select(ours, {"C": values}, X, y, certify=certify), repeat)
    theirs, peer = least(lambda: GridSearchCV(SVC(kernel=kernel), {"C": values}).fit(X, y), repeat)
    difference = np.abs(table["mean_test_score"] - peer.cv_results_["mean_test_score"]).max()
    return {
        "ratio": seconds / theirs,
        "ours_s": seconds,
        "svc_s": theirs,
        "largest_difference": float(difference),
    }


def beside_svc(options):
    """Rows of the table beside SVC."""
    for name, load, values in (
        ("breast_cancer", load_breast_cancer, np.logspace(-3, 3, 50)),
        ("digits, ten classes", load_digits, np.logspace(-2, 2, 9)),
    ):
        X, y = load(return_X_y=True)
        for kernel in ("rbf", "linear"):
            for certify in ("chosen", "all"):
                row = svc_row(kernel, certify, values, scale(X), y, options.repeat)
                yield {"set": name, "kernel": kernel, "certify": certify, **row}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data-dir", default=os.environ.get("SVMCVX_DATA"))
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--halves", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=("nested", "svc"), default=("nested", "svc"))
    parser.add_argument("--csv")
    options = parser.parse_args()
    tables = {"nested": nested, "svc": beside_svc}
    frames = []
    for name in options.only:
        frames.append(pd.DataFrame(list(tables[name](options))).assign(table=name))
        print(
            frames[-1].drop(columns="table").to_string(index=False, float_format="{:.3g}".format),
            flush=True,
        )
    if options.csv:
        pd.concat(frames).to_csv(options.csv, index=False)


if __name__ == "__main__":
    main()
