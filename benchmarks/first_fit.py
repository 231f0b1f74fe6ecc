"""Seconds until the first fit of a session is there, imports included, beside scikit-learn's SVC.

``python benchmarks/first_fit.py`` on a quiet machine; ``--repeats 5 --cold 2`` say how many
processes a median is of. Every fit is in a process of its own: with compiled code on disk, and with
an empty cache (``NUMBA_CACHE_DIR`` in a new folder). The data are breast_cancer, scaled by hand, so
that nothing but the estimator is imported.
"""

import os
import statistics
import subprocess
import sys
import tempfile

from command import parser_of

DATA = """
import time; began, used = time.perf_counter(), time.process_time()
{imports}
import numpy as np
from sklearn.datasets import load_breast_cancer
X, y = load_breast_cancer(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
loaded = time.perf_counter()
{fit}
first = time.perf_counter()
{fit}
print(first - began, loaded - began, time.perf_counter() - first, time.process_time() - used)
"""
SVC, OURS = (
    "from sklearn.svm import SVC, LinearSVC",
    "from svmcvx import ConicSVMClassifier, ODMClassifier, PSVMClassifier",
)
FITS = {
    "SVC(), RBF": (SVC, "SVC().fit(X, y)"),
    "PSVMClassifier(), RBF": (OURS, "PSVMClassifier(kernel='rbf').fit(X, y)"),
    "LinearSVC()": (SVC, "LinearSVC().fit(X, y)"),
    "PSVMClassifier()": (OURS, "PSVMClassifier().fit(X, y)"),
    "PSVMClassifier(p=2), RBF": (OURS, "PSVMClassifier(p=2.0, kernel='rbf').fit(X, y)"),
    "ODMClassifier(), RBF": (OURS, "ODMClassifier(kernel='rbf').fit(X, y)"),
    "ConicSVMClassifier()": (OURS, "ConicSVMClassifier().fit(X, y)"),
}


def seconds(name, folder=None):
    """Return seconds until the first fit, of the imports among them, of a second fit, and of the
    processor, in a new process.
    """
    imports, fit = FITS[name]
    environment = {**os.environ, **({"NUMBA_CACHE_DIR": folder} if folder else {})}
    code = DATA.format(imports=imports, fit=fit)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    return [float(word) for word in done.stdout.split()]


def main():
    parser = parser_of(__doc__, repeats=5, cold=2)
    arguments = parser.parse_args()
    print(
        f"medians of {arguments.repeats} processes, of {arguments.cold} with an empty cache;"
        " seconds"
    )
    print(
        f"{'fit':26} {'first':>7} {'imports':>8} {'second':>8} {'processor':>10} |"
        f" {'empty cache':>12} {'processor':>10}"
    )
    for name, (imports, _) in FITS.items():
        seconds(name)  # fills the cache of compiled code, and the computer's of files
        warm = [
            statistics.median(column)
            for column in zip(*(seconds(name) for _ in range(arguments.repeats)), strict=True)
        ]
        line = f"{name:26} {warm[0]:7.2f} {warm[1]:8.2f} {warm[2]:8.3f} {warm[3]:10.2f} |"
        if imports == OURS:
            cold = []
            for _ in range(arguments.cold):
                with tempfile.TemporaryDirectory() as folder:
                    cold.append(seconds(name, folder))
            empty = [statistics.median(column) for column in zip(*cold, strict=True)]
            line += f" {empty[0]:12.2f} {empty[3]:10.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
