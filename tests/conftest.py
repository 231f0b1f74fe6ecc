"""Data that many tests share. No test needs a network, a licence or a data folder."""

import hashlib
import os
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale
from threadpoolctl import threadpool_limits

# The same draws in each run: random campaigns are commands of their own.
settings.register_profile("svmcvx", deadline=None, max_examples=25, derandomize=True, database=None)
settings.load_profile("svmcvx")

# A background job of a shell script inherits SIGINT as ignored; tests of Ctrl-C need the default,
# and so do the processes that they start.
if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).parents[1]

try:
    import fcntl
except ImportError:  # Windows: a folder for each worker
    fcntl = None


def share_the_machine():
    """Several workers of pytest-xdist: one thread of the BLAS each, and one safe folder for what
    numba has compiled.

    The folder's name holds a digest of the sources, as numba does not notice that a function in
    another module has changed.
    """
    sources = sorted((ROOT / "svmcvx").rglob("*.py"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:16]
    # numba's cache does not tell code with bounds checks from code without.
    digest += "-bounds" if os.environ.get("NUMBA_BOUNDSCHECK", "0") != "0" else ""
    folder = (
        ROOT
        / ".pytest_cache"
        / "numba"
        / (digest if fcntl else f"{digest}-{os.environ['PYTEST_XDIST_WORKER']}")
    )
    folder.mkdir(parents=True, exist_ok=True)
    # Read when numba is imported, here and in the processes that tests start.
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    threadpool_limits(1)


if "PYTEST_XDIST_WORKER" in os.environ:
    share_the_machine()


def make_data(seed=0, n=40, d=3, overlap=1.0):
    """Two Gaussian clouds that overlap."""
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 2 == 0, -1, 1)
    X = rng.standard_normal((n, d)) * overlap + 0.7 * y[:, None]
    return X, y


@pytest.fixture(scope="session")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X), y


@pytest.fixture
def clouds():
    return make_data()
