"""Work by several processes, threads, or the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from functools import cache
from typing import Any, Final, TypeAlias

import joblib
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import BrokenProcessPool

from svmcvx.errors import DataError, DataTypeError, missing_extra

__all__ = ["DIED", "Call", "end_with_parent", "is_dask", "results", "workers"]

# A function with its arguments.
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

# Seconds for which a scheduler is waited for, and workers, which it may have to start again.
PATIENCE, WAITED_FOR = 30.0, 120.0
# Seconds between two looks at the parent of a worker.
LOOKS = 1.0
# Result of work that ended its process.
DIED: Final = object()


def is_dask(backend: str | None) -> bool:
    """Whether a backend is a Dask cluster, whose workers may be on other machines."""
    return isinstance(backend, str) and (backend == "dask" or ":" in backend)


@contextmanager
def workers(backend: str | None, n_jobs: int | None) -> Iterator[joblib.Parallel | None]:
    """Give what runs work in parallel; None for sequential work in this process."""
    if backend is not None and not isinstance(backend, str):
        raise DataTypeError(f"backend must be a string or None, got {type(backend).__name__}")
    if backend not in (None, "loky", "threading") and not is_dask(backend):
        raise DataError(
            "backend must be 'loky', 'threading', 'dask' or an address such as"
            f" 'tcp://10.0.0.1:8786', got {backend!r}"
        )
    options: dict[str, Any] = {"return_as": "generator_unordered", "batch_size": 1}
    if not is_dask(backend):
        try:
            count = joblib.effective_n_jobs(n_jobs)
        except ValueError:
            raise DataError(f"n_jobs must not be 0, got {n_jobs}; pass -1 for all cores") from None
        yield None if count == 1 else joblib.Parallel(n_jobs=n_jobs, backend=backend, **options)
        return
    try:
        from distributed import Client
    except ImportError:
        raise missing_extra("distributed", "dask") from None
    if backend == "dask":
        with joblib.parallel_config("dask", wait_for_workers_timeout=WAITED_FOR):
            yield joblib.Parallel(n_jobs=-1 if n_jobs is None else n_jobs, **options)
        return
    try:
        client = Client(backend, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise DataError(
            f"no Dask scheduler answers at {backend} ({error}); check the address"
        ) from None
    with client, joblib.parallel_config("dask", wait_for_workers_timeout=WAITED_FOR):
        yield joblib.Parallel(n_jobs=-1 if n_jobs is None else n_jobs, **options)


def end_with_parent() -> None:
    """Let this process, if it is a worker of joblib, end when the process that started it is gone."""
    if type(multiprocessing.current_process()).__module__.startswith("joblib.externals.loky"):
        _watch(os.getpid())


@cache
def _watch(process: int) -> None:
    """Start the thread that watches the parent, once in a process."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(LOOKS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name=f"parent of {process}").start()


def results(work: Mapping[Any, Call], parallel: joblib.Parallel) -> Iterator[tuple[Any, Any]]:
    """Do work in parallel; yield the key of each piece and its result as soon as it is done."""
    left = dict(work)
    while left:
        sent: list[Any] = []
        try:
            with closing(parallel(_calls(left, sent))) as found:
                for key, result in found:
                    del left[key]
                    yield key, result
        except Exception as error:
            if not _worker_died(error):
                raise
            for key in [key for key in sent if key in left]:
                yield key, _alone(left.pop(key))
            continue
        return


def _calls(work: Mapping[Any, Call], sent: list[Any]) -> Iterator[Any]:
    for key, (function, arguments) in list(work.items()):
        sent.append(key)
        yield joblib.delayed(_keyed)(key, function, arguments)


def _keyed(key: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """Do a piece of work in another process or thread."""
    end_with_parent()
    return key, function(*arguments)


def _alone(call: Call) -> Any:
    function, arguments = call
    with ProcessPoolExecutor(max_workers=1) as executor:
        try:
            return executor.submit(_keyed, None, function, arguments).result()[1]
        except BrokenProcessPool:
            return DIED


def _worker_died(error: Exception) -> bool:
    """Whether work has ended its process, according to joblib or to Dask, which tries several
    workers.
    """
    return isinstance(error, BrokenProcessPool) or type(error).__name__ in (
        "KilledWorker",
        "FutureCancelledError",
    )
