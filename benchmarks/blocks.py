"""Rows in blocks on disk: certified answers in bounded memory, against one bare pass, and beside
other libraries.

    python benchmarks/blocks.py [--rows 10000000] [--columns 100] [--workers 2] [--memory 1.5GiB]
    [--folder DIR] [--kill]
                                [--parts disk,memory,peers] [--only TEXT] [--csv FILE]

**disk**: pSVM (p = 2, p = 1) and ODM on float32 rows in .npy files, on a cluster of processes with
a memory limit each. The measure is the time of one bare pass: read every block and multiply it with
a vector, by the same cluster. With --kill one worker is killed in the middle of each run, and the
answer is held against that of the undisturbed one.
**memory**: data in memory against the same data in blocks. **peers**: objective and seconds beside
dask-ml's LogisticRegression-like solver for the squared hinge's nearest relative, and
scikit-learn's SGDClassifier.partial_fit on the hinge.
"""

import logging
import os
import signal
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
from command import parser_of
from distributed import Client, LocalCluster
from sklearn.linear_model import SGDClassifier

import svmcvx as sx
from svmcvx.feature_space.blocks import block_space, spaces
from svmcvx.row_blocks import reads_rows

# Rows of one generated file.
FILE_ROWS = 1_000_000


def generated(folder, rows, columns):
    """Write float32 rows and labels to .npy files, if they are not there yet; return the paths."""
    names = []
    for part, first in enumerate(range(0, rows, FILE_ROWS)):
        m = min(FILE_ROWS, rows - first)
        name = (
            folder / f"X-{rows}-{columns}-{part:03d}.npy",
            folder / f"y-{rows}-{columns}-{part:03d}.npy",
        )
        names.append(name)
        if all(path.exists() for path in name):
            continue
        rng = np.random.default_rng(part)
        X = rng.standard_normal((m, columns), dtype=np.float32)
        w = np.random.default_rng(99).standard_normal(columns) / np.sqrt(columns)
        y = np.where(X @ w + 0.5 * rng.standard_normal(m) > 0, 1, -1).astype(np.int8)
        for path, array in zip(name, (X, y), strict=True):
            np.save(path, array)
    return [str(x) for x, _ in names], [str(y) for _, y in names]


class Memory:
    """The largest memory of any worker inside the block, sampled."""

    def __init__(self, pids):
        self.pids, self.largest, self.running = pids, 0, True
        self.thread = threading.Thread(target=self.watch, daemon=True)

    def watch(self):
        while self.running:
            for pid in self.pids():
                try:
                    self.largest = max(self.largest, psutil.Process(pid).memory_info().rss)
                except psutil.Error:
                    continue
            time.sleep(0.05)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.running = False
        self.thread.join()


def processor_seconds(pids):
    """Seconds that this process and its workers have computed: what the clock shows where nothing
    else runs.
    """
    used = 0.0
    for pid in (os.getpid(), *pids()):
        try:
            used += sum(psutil.Process(pid).cpu_times()[:2])
        except psutil.Error:
            continue
    return used


@reads_rows
def multiplied(pieces, parts, settings, w):
    """The bare pass: read, and multiply with a vector."""
    return sum(float((space.X @ w).sum()) for space in spaces(pieces, parts, settings))


def bare_pass(blocks, pids):
    """Seconds of one bare pass by the clock, and of computing; the better of two."""
    space = block_space(blocks, blocks.y, None, intercept="free")
    seconds = []
    for _ in range(2):
        started, used = time.perf_counter(), processor_seconds(pids)
        space.shards.read(multiplied, None, space.settings, np.ones(space.d))
        seconds.append((time.perf_counter() - started, processor_seconds(pids) - used))
    return np.min(seconds, axis=0)


def from_disk(options):
    """Solve on a cluster of processes with little memory."""
    wide = sx.RowBlocks.from_npy(*generated(options.folder, options.rows, options.columns))
    n = options.rows
    calls = {
        "psvm p=2": (
            1e-4,
            lambda **more: sx.fast.psvm(wide, wide.y, C=100.0 / n, p=2.0, tol=1e-4, **more),
        ),
        "odm": (
            1e-4,
            lambda **more: sx.fast.odm(wide, wide.y, C1=100.0, C2=50.0, D=0.2, tol=1e-4, **more),
        ),
        "psvm p=1": (
            1e-3,
            lambda **more: sx.fast.psvm(wide, wide.y, C=100.0 / n, p=1.0, tol=1e-3, **more),
        ),
    }
    found = []
    with (
        LocalCluster(
            n_workers=options.workers,
            threads_per_worker=1,
            memory_limit=options.memory,
            dashboard_address=None,
            silence_logs=logging.ERROR,
        ) as cluster,
        Client(cluster) as client,
    ):

        def pids():
            return [
                nanny.process.pid
                for nanny in cluster.workers.values()
                if getattr(nanny, "process", None)
            ]

        bare = bare_pass(wide, pids)
        print(f"one bare pass: {bare[0]:.2f} s, {bare[1]:.2f} s of computing", flush=True)
        for name, (tol, call) in calls.items():
            if options.only not in name:
                continue
            with Memory(pids) as memory:
                started, used = time.perf_counter(), processor_seconds(pids)
                solution = call()
                seconds, computing = time.perf_counter() - started, processor_seconds(pids) - used
            passes = int(solution.certificate.residuals["row_passes"])
            row = {
                "work": name,
                "asked": tol,
                "gap": solution.certificate.gap,
                "seconds": seconds,
                "passes": passes,
                "times a bare pass each": seconds / (passes * bare[0]),
                "computing, s": computing,
                "computing, times a bare pass each": computing / (passes * bare[1]),
                "largest worker, GiB": memory.largest / 2**30,
            }
            print(row, flush=True)
            if options.kill:
                undone = killed(call, client, solution)
                print(undone, flush=True)
                row |= undone
            found.append(row)
    return found


def killed(call, client, quiet):
    """Kill one worker after the first step, and compare the interval."""
    victims = []

    def kill(progress):
        if not victims:
            victims.append(next(iter(client.run(os.getpid).values())))
            os.kill(victims[0], signal.SIGKILL)

    started = time.perf_counter()
    solution = call(callback=kill)
    seconds = time.perf_counter() - started
    one, other = quiet.certificate, solution.certificate
    same = max(abs(one.upper - other.upper), abs(one.lower - other.lower)) <= 1e-9 * abs(one.upper)
    return {"killed, seconds": seconds, "same interval": same}


def against_memory(options):
    """The same data in memory and in blocks."""
    X, y = generated(options.folder, min(options.rows, FILE_ROWS), 50)
    arrays = (
        np.concatenate([np.load(part) for part in X]),
        np.concatenate([np.load(part) for part in y]),
    )
    blocks, found = sx.RowBlocks.from_npy(X, y), []
    n = arrays[1].size
    for name, call in {
        "psvm p=2": lambda X, y: sx.fast.psvm(X, y, C=100.0 / n, p=2.0, tol=1e-9),
        "psvm p=1": lambda X, y: sx.fast.psvm(X, y, C=100.0 / n, p=1.0, tol=1e-8),
        "odm": lambda X, y: sx.fast.odm(X, y, C1=100.0, C2=50.0, D=0.2, tol=1e-9),
    }.items():
        seconds, answers = [], []
        for source in (arrays, (blocks, blocks.y)):
            started = time.perf_counter()
            answers.append(call(*source).certificate)
            seconds.append(time.perf_counter() - started)
        found.append(
            {
                "work": f"{name}, {n} x 50",
                "in memory": seconds[0],
                "in blocks": seconds[1],
                "ratio": seconds[1] / seconds[0],
                "relative difference": abs(answers[0].upper - answers[1].upper) / answers[0].upper,
                "gaps": tuple(answer.gap for answer in answers),
            }
        )
        print(found[-1], flush=True)
    return found


def beside_peers(options):
    """Objectives and seconds of other libraries for larger-than-memory data, on the same rows."""
    X, y = generated(options.folder, min(options.rows, FILE_ROWS), options.columns)
    blocks = sx.RowBlocks.from_npy(X, y)
    n, found = sum(blocks.lengths), []
    C = 100.0 / n
    started = time.perf_counter()
    ours = sx.fast.psvm(blocks, blocks.y, C=C, p=1.0, tol=1e-3)
    found.append(
        {
            "work": "hinge",
            "who": "svmcvx",
            "seconds": time.perf_counter() - started,
            "gap": ours.certificate.gap,
        }
    )
    for epochs in (1, 5):
        started = time.perf_counter()
        peer = SGDClassifier(loss="hinge", alpha=1.0 / (C * n), random_state=0)
        for _ in range(epochs):
            for load in blocks.loaders:
                piece = load()
                peer.partial_fit(piece.X, piece.y, classes=[-1, 1])
        seconds = time.perf_counter() - started
        found.append(
            {
                "work": "hinge",
                "who": f"SGDClassifier.partial_fit, {epochs} passes",
                "seconds": seconds,
                "above our lower end": hinge_objective(blocks, peer.coef_[0], peer.intercept_[0], C)
                / ours.certificate.lower
                - 1.0,
            }
        )
    found.extend(dask_ml(blocks, n))
    for row in found:
        print(row, flush=True)
    return found


def hinge_objective(blocks, w, b, C):
    """The objective of the soft margin at a model."""
    loss = 0.0
    for load in blocks.loaders:
        piece = load()
        loss += float(np.maximum(1.0 - piece.y * (piece.X @ w + b), 0.0).sum())
    return 0.5 * float(w @ w) + C * loss


def dask_ml(blocks, n):
    """Seconds of dask-ml's logistic regression, which has no hinge and no certificate."""
    try:
        import dask.array as da
        from dask_ml.linear_model import LogisticRegression
    except ImportError as error:
        return [{"work": "logistic", "who": f"dask-ml is left out: {error}"}]
    pieces = [load() for load in blocks.loaders]
    X = da.from_array(np.vstack([piece.X for piece in pieces]), chunks=(n // 8, -1))
    y = da.from_array(
        (np.concatenate([piece.y for piece in pieces]) > 0).astype(int), chunks=n // 8
    )
    rows = []
    for solver in ("newton", "lbfgs"):
        started = time.perf_counter()
        LogisticRegression(solver=solver, C=100.0, max_iter=50).fit(X, y)
        rows.append(
            {
                "work": "logistic",
                "who": f"dask-ml, {solver}",
                "seconds": time.perf_counter() - started,
            }
        )
    return rows


def main():
    parser = parser_of(
        __doc__,
        rows=10_000_000,
        columns=100,
        workers=2,
        memory="1.5GiB",
        folder=Path(tempfile.gettempdir()) / "svmcvx-blocks",
        kill=False,
        parts="disk,memory,peers",
    )
    parser.add_argument(
        "--only", default="", help="Of the part disk, the works whose name holds this text."
    )
    parser.add_argument("--csv", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    warm = np.random.default_rng(0).standard_normal((200, 3))
    for p in (1.0, 2.0):
        sx.fast.psvm(warm, warm[:, 0] > 0, C=1.0, p=p)
    sx.fast.odm(warm, warm[:, 0] > 0, C1=1.0, C2=1.0, D=0.1)
    parts = {"disk": from_disk, "memory": against_memory, "peers": beside_peers}
    rows = [row for part in options.parts.split(",") for row in parts[part](options)]
    print(pd.DataFrame(rows).to_string())
    if options.csv is not None:
        pd.DataFrame(rows).to_csv(options.csv, index=False)


if __name__ == "__main__":
    main()
