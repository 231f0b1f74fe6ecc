"""One thread for BLAS, and several for work that splits into independent parts.

The threads of BLAS wait for each other in small products and in factorisations: beside another
process the work takes many times as long, without one a second thread saves a third of the time at
best (Cholesky of order 4000 on two cores). Therefore BLAS has one thread in every solver and in the
checker; tiles of kernel matrices and branches of a search run in threads of the package.

The number of BLAS threads belongs to the process. Concurrent calls share them, and the last one
restores the number.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

Part = TypeVar("Part")

_lock = threading.Lock()
# Concurrent calls that limit BLAS to one thread, and its numbers of threads before the first.
_calls = 0
_before: list[int] = []


@cache
def _blas() -> list[Any]:
    """Return the controllers of the BLAS libraries; finding them takes milliseconds."""
    libraries = ThreadpoolController().lib_controllers
    return [library for library in libraries if library.user_api == "blas"]


def _set_threads(numbers: list[int]) -> None:
    for library, before, threads in zip(_blas(), _before, numbers, strict=True):
        if before != 1:
            library.set_num_threads(threads)


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread inside the block."""
    global _calls, _before
    with _lock:
        if not _calls:
            _before = [int(library.num_threads) for library in _blas()]
            _set_threads([1] * len(_before))
        _calls += 1
    try:
        yield
    finally:
        with _lock:
            _calls -= 1
            if not _calls:
                _set_threads(_before)


def available_threads() -> int:
    """Return the BLAS threads of the process, divided among concurrent calls."""
    with _lock:
        threads = _before if _calls else [int(library.num_threads) for library in _blas()]
        return max(1, max(threads, default=1) // max(_calls, 1))


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
