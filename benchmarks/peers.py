"""What the benchmarks share: peers that may not be installed, turns, peak memory, and the paper's
pSMO.

    pip install 'svmcvx[bench]'

installs every peer. One that is missing is left out, with a line that says so.
"""

import contextlib
import importlib
import importlib.metadata
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

# Before all others: a solver that cvxpy imports may bring another version of the threading library
# it needs.
with contextlib.suppress(ImportError):
    import sklearnex.svm  # noqa: F401
import numpy as np

from benchmarks.papers.exhibits import psmo
from svmcvx.formulations.margin import best_bias, dual_objective, objective

# Distribution, module and name of what is compared.
PEERS = {
    "Intel": ("scikit-learn-intelex", "sklearnex.svm", "SVC"),
    "ReHLine": ("rehline", "rehline", "ReHLine"),
    "skglm": ("skglm", "skglm.estimators", "LinearSVC"),
    "snapml": ("snapml", "snapml", "SupportVectorMachine"),
}


def peer(name):
    """The class of a peer, or None after saying why not."""
    distribution, module, attribute = PEERS[name]
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        print(f"{name} left out: {error} (pip install {distribution})")
        return None


def versions():
    """One line: machine and versions."""
    names = [
        "numpy",
        "scipy",
        "scikit-learn",
        "numba",
        "cvxpy",
        "clarabel",
        "scs",
        *(p[0] for p in PEERS.values()),
    ]
    found = []
    for name in names:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            continue
    return f"{os.cpu_count()} cores; Python {platform.python_version()}, {', '.join(found)}"


def medians(runs, repeats, clock=time.perf_counter):
    """Medians of seconds, the competitors taking turns, and what each returned last."""
    seconds, results = {name: [] for name in runs}, {}
    for _ in range(repeats):
        for name, run in runs.items():
            started = clock()
            results[name] = run()
            seconds[name].append(clock() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}, results


def peak_memory(script, *arguments):
    """Peak resident MiB of ``python script *arguments``, a fresh process that prints it in its last
    line.
    """
    command = [sys.executable, script, *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - ourselves
    if run.returncode:
        raise SystemExit(run.stderr)
    return float(run.stdout.split()[-1])


def own_peak():
    """Peak resident MiB of this process since it started; what the process that forked it held does
    not count.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (found,) = (row for row in status.read_text().splitlines() if row.startswith("VmHWM"))
        return float(found.split()[1]) / 2**10
    unit = 2**20 if sys.platform == "darwin" else 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit


def paper_psmo(K, y, *, C, p, gap, seed=0, limit=600.0):
    """The paper's own pSMO: the first observation that violates the optimality conditions, a
    partner drawn at random.

    An emulation: the paper stops when α hardly changes, this one when our bounds are within `gap`
    (tested every n steps), or after `limit` seconds. The scores of all observations are kept up to
    date from a stored Gram matrix, whose computation is not timed here.

    Returns (lower, upper, steps).
    """
    y, started = y.astype(float), time.perf_counter()
    taken, lower, upper = 0, -np.inf, np.inf
    for alpha, steps, _ in psmo(K, y, C=C, p=p, seed=seed):
        taken, f = steps, K @ (alpha * y)
        norm = float((alpha * y) @ f)
        upper = min(upper, objective(norm, y * (f + best_bias(f, y, p=p)), C=C, p=p))
        lower = max(lower, dual_objective(alpha, norm, C=C, p=p))
        if (upper - lower) / max(1.0, upper) <= gap or time.perf_counter() - started > limit:
            break
    return lower, upper, taken
