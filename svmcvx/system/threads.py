"""One thread for BLAS, and several for work that splits into independent parts.

The threads of BLAS wait for each other in small products and in factorisations. If another process
uses a core, each thread waits for the time slices of that process, and the work takes many times as
long. Without another process a second thread saves a third of the time at best (Cholesky of order
4000 on two cores), and most solvers gain nothing. Therefore BLAS has one thread in every solver and
in the checker. Tiles of kernel matrices and branches of a search are run in our own threads
(:func:`available_threads`).

The number of BLAS threads belongs to the process. Concurrent calls share them, and the last one
restores the number.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")


@cache
def _libraries() -> ThreadpoolController:
    """Return the controller of the loaded libraries; finding them takes milliseconds."""
    return ThreadpoolController()


@cache
def _blas() -> list[Any]:
    """Return the controllers of the BLAS libraries."""
    return [library for library in _libraries().lib_controllers if library.user_api == "blas"]


def _blas_threads() -> int:
    return max((int(library.num_threads) for library in _blas()), default=1)


@dataclass
class _BlasLimit:
    """Concurrent calls that limit BLAS to one thread, and its number of threads before the first of
    them.
    """

    calls: int = 0
    available: int = 1
    threads: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


_limit = _BlasLimit()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block."""
    with _limit.lock:
        if not _limit.calls:
            # What threadpool_limits does, without its descriptions of the libraries.
            _limit.threads = [int(library.num_threads) for library in _blas()]
            _limit.available = max(_limit.threads, default=1)
            for library, threads in zip(_blas(), _limit.threads, strict=True):
                if threads != 1:
                    library.set_num_threads(1)
        _limit.calls += 1
    try:
        yield
    finally:
        with _limit.lock:
            _limit.calls -= 1
            if not _limit.calls:
                for library, threads in zip(_blas(), _limit.threads, strict=True):
                    if threads != 1:
                        library.set_num_threads(threads)


def available_threads() -> int:
    """Return the number of threads a call may start: the BLAS threads of the process, divided among
    concurrent calls.
    """
    with _limit.lock:
        return max(1, _limit.available // _limit.calls) if _limit.calls else _blas_threads()


def for_each_part(
    call: Callable[[Part], None], parts: Sequence[Part], *, threads: bool = True
) -> None:
    """Call a function for each part, in as many threads as this call may start."""
    workers = min(available_threads(), len(parts)) if threads else 1
    if workers <= 1:
        for part in parts:
            call(part)
        return
    with single_blas_thread(), ThreadPoolExecutor(workers) as pool:
        # Settings of numpy and the deadline belong to the context of the caller.
        contexts = [copy_context() for _ in parts]
        for _ in pool.map(lambda context, part: context.run(call, part), contexts, parts):
            pass


def default_client() -> Any:
    """Return the client of a running cluster that is the default of this process."""
    if "distributed" not in sys.modules:
        return None
    import distributed

    try:
        distributed.get_worker()
    except ValueError:
        pass
    else:
        return None
    try:
        return distributed.default_client()
    except ValueError:
        return None
