"""GridSearchCV over the package's estimator beside GridSearchCV over SVC: one and two processes,
first and second call of a session.

    python benchmarks/grid_search.py [--repeats 3] [--cold 1] [--only 1 2]

50 values of C, five folds, breast_cancer, columns scaled before, RBF and linear kernel, defaults
else. Each search is made in a new session (a Python process of its own): with an empty cache of
compiled code (``NUMBA_CACHE_DIR`` in a new folder), and with compiled code on disk; wall seconds of
the first call, in which workers of joblib start, import and load, and of the second one. Imports of
the session itself are not counted. Medians.
"""

import os
import statistics
import subprocess
import sys
import tempfile

from command import parser_of

SESSION = """
import sys, time
import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import scale
{imports}
X, y = load_breast_cancer(return_X_y=True)
X = scale(X)
for call in range(3):
    began = time.perf_counter()
    search = GridSearchCV({model}, {{"C": np.logspace(-3, 3, 50)}}, cv=5, n_jobs={jobs}).fit(X, y)
    print(time.perf_counter() - began)
"""
PEER, OURS = "from sklearn.svm import SVC", "from svmcvx import PSVMClassifier"
MODELS = {
    "RBF": ((PEER, "SVC()"), (OURS, "PSVMClassifier(kernel='rbf')")),
    "linear": ((PEER, "SVC(kernel='linear')"), (OURS, "PSVMClassifier()")),
}


def session(imports, model, jobs, folder=None):
    """Return the seconds of the first and of the later calls in a new session."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    if folder:
        environment["NUMBA_CACHE_DIR"] = folder
    code = SESSION.format(imports=imports, model=model, jobs=jobs)
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    first, *later = (float(word) for word in done.stdout.split())
    return first, statistics.median(later)


def medians(sessions):
    return [statistics.median(column) for column in zip(*sessions, strict=True)]


def main():
    parser = parser_of(__doc__)
    parser.add_argument(
        "--repeats", type=int, default=3, help="sessions with compiled code on disk"
    )
    parser.add_argument("--cold", type=int, default=1, help="sessions with an empty cache")
    parser.add_argument("--only", type=int, nargs="+", default=[1, 2], help="numbers of processes")
    arguments = parser.parse_args()
    print(
        f"{'kernel':8}{'n_jobs':>7}{'empty cache':>13}{'first':>8}{'second':>8} |"
        f" {'SVC first':>10}{'second':>8} | ratio"
    )
    for jobs in arguments.only:
        for kernel, (peer, ours) in MODELS.items():
            session(*ours, jobs)  # fills the cache of compiled code
            pairs = [(session(*ours, jobs), session(*peer, jobs)) for _ in range(arguments.repeats)]
            (first, second), (peer_first, peer_second) = map(medians, zip(*pairs, strict=True))
            cold = []
            for _ in range(arguments.cold):
                with tempfile.TemporaryDirectory() as folder:
                    cold.append(session(*ours, jobs, folder)[0])
            empty = f"{statistics.median(cold):13.1f}" if cold else f"{'':13}"
            print(
                f"{kernel:8}{jobs:7d}{empty}{first:8.2f}{second:8.2f} |"
                f" {peer_first:10.2f}{peer_second:8.2f} | {second / peer_second:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
