"""What busy neighbours cost: seconds of each solver beside 0, 1, 2 and 4 processes that keep a core
busy.

    python benchmarks/neighbours.py [--busy 0,1,2,4] [--repeat 3] [--only TEXT] [--data-dir DIR]
    [--csv FILE]

A fair share of two cores is the whole machine's for one thread beside one neighbour, two thirds of
it beside two, two fifths beside four. What costs more than the share waits for threads of its own.
With --data-dir the sets w8a and usps are read from there, else data of their sizes are generated.
Everything is compiled before the first clock starts. The last column counts the different answers:
solver, options with numbers of nodes and steps, certificate, and the bytes of the proof. It is 1,
since no choice depends on the clock.
"""

import hashlib
import multiprocessing
import os
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from command import DATA, parser_of
from linear import load
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

import svmcvx as sx
from svmcvx import fast


def spin(ready):
    """Keep a core busy."""
    ready.set()
    while True:
        sum(range(10_000))


class Neighbours:
    """Busy processes for the length of a block."""

    def __init__(self, count):
        context = multiprocessing.get_context("spawn")
        self.ready = [context.Event() for _ in range(count)]
        self.processes = [
            context.Process(target=spin, args=(event,), daemon=True) for event in self.ready
        ]

    def __enter__(self):
        for process in self.processes:
            process.start()
        for event in self.ready:
            event.wait()

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.join()


def several_classes(data_dir):
    """3 000 rows of ten classes in 256 columns."""
    if data_dir and os.path.exists(os.path.join(data_dir, "usps.npz")):
        with np.load(os.path.join(data_dir, "usps.npz"), allow_pickle=False) as held:
            return held["X"][:3000].astype(float), held["y"][:3000]
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    rows = rng.integers(0, len(X), 3000)
    return X[rows] @ rng.standard_normal((64, 256)) / 64 + 0.1 * rng.standard_normal(
        (3000, 256)
    ), y[rows]


def cloud(n, d, seed=0):
    """Two overlapping classes."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(X[:, :3].sum(axis=1) + rng.standard_normal(n) > 0, 1, -1)


def calls(data_dir):
    """Name and call of each row."""
    w8a, w8a_y = load("w8a", data_dir)
    usps, usps_y = several_classes(data_dir)
    X, y = cloud(10_000, 20)
    small, small_y = cloud(100, 5)
    digits, digits_y = load_digits(return_X_y=True)
    digits = scale(digits)
    yield "psvm p=1, w8a", lambda: fast.psvm(w8a, w8a_y, C=1.0, p=1.0, tol=1e-3)
    yield "psvm p=2, w8a", lambda: fast.psvm(w8a, w8a_y, C=1.0, p=2.0, tol=1e-4)
    yield "odm, w8a", lambda: fast.odm(w8a, w8a_y, C1=1e3, C2=1e3, D=0.1, tol=1e-4)
    yield (
        "psvm p=1, rbf, 10 000 x 20",
        lambda: fast.psvm(X, y, C=1.0, p=1.0, kernel="rbf", tol=1e-3),
    )
    yield (
        "psvm p=1.5, rbf, 10 000 x 20",
        lambda: fast.psvm(X, y, C=1.0, p=1.5, kernel="rbf", tol=1e-3),
    )
    yield "m3svm, usps, 3 000 rows", lambda: fast.m3svm(usps, usps_y, lam=0.01, p=4.0, tol=1e-2)
    yield "conic, 10 000 x 20", lambda: fast.conic(X, y, lam=1.0, tol=1e-4)
    yield (
        "odml, rbf, digits",
        lambda: fast.odml(digits, digits_y % 2, lam1=1.0, lam2=1.0, C=10.0, kernel="rbf"),
    )
    yield "l0, rbf, digits", lambda: fast.l0(digits[:300], digits_y[:300] % 2, C=1.0, kernel="rbf")
    noisy = np.random.default_rng(2).standard_normal((100, 3))
    noisy_y = np.where(noisy[:, 0] + 0.5 * np.random.default_rng(3).standard_normal(100) > 0, 1, -1)
    yield "zero_one, 100 x 5", lambda: fast.zero_one(small, small_y, lam=1.0)
    yield "zero_one, 100 x 3", lambda: fast.zero_one(noisy, noisy_y, lam=1.0)
    yield "solve(psvm_dual), 100 x 5", lambda: sx.solve(sx.psvm_dual(small, small_y, C=1.0, p=1.5))
    yield (
        "solve(odm_dual), rbf, 300 rows",
        lambda: sx.solve(
            sx.odm_dual(digits[:300], digits_y[:300] % 2, C1=1.0, C2=1.0, D=0.1, kernel="rbf")
        ),
    )


def identity(solution):
    """A digest of all that is not a time."""
    found = hashlib.sha256(repr((solution.solver, solution.certificate)).encode())
    found.update(
        repr(
            [(attempt.solver, attempt.options, attempt.iterations) for attempt in solution.attempts]
        ).encode()
    )
    with tempfile.TemporaryDirectory() as folder:
        solution.save_proof(Path(folder) / "proof.npz")
        found.update((Path(folder) / "proof.npz").read_bytes())
    return found.hexdigest()


def main():
    parser = parser_of(__doc__, busy="0,1,2,4", repeat=3, only="", data_dir=DATA, csv=None)
    options = parser.parse_args()
    counts = [int(count) for count in options.busy.split(",")]
    work = [(name, call) for name, call in calls(options.data_dir) if options.only in name]
    for _, call in work:
        call()
    seconds, answers = {name: {} for name, _ in work}, {name: set() for name, _ in work}
    for count in counts:
        with Neighbours(count):
            for name, call in work:
                taken = []
                for _ in range(options.repeat):
                    started = time.perf_counter()
                    found = call()
                    taken.append(time.perf_counter() - started)
                    answers[name].add(identity(found))
                seconds[name][count] = statistics.median(taken)
    table = pd.DataFrame(seconds).T
    table.columns = [f"{count} busy" for count in counts]
    for count in counts[1:]:
        table[f"x {count}"] = table[f"{count} busy"] / table[f"{counts[0]} busy"]
    table["answers"] = [len(each) for each in answers.values()]
    print(table.round(3).to_string())
    if options.csv:
        table.to_csv(options.csv)


if __name__ == "__main__":
    main()
