"""One thread for BLAS, and several for work that splits into independent parts.

The threads of BLAS wait for each other in small products and in factorisations. Where another process takes a core, one waits
for the time slice of that process again and again, and the work takes many times as long; alone, a second thread gains a third at best
(Cholesky of order 4000 on two cores), and most solvers nothing. So BLAS has one thread in every solver and in the checker.
Tiles of kernel matrices and branches of a search are handed to threads of our own (:func:`threads_allowed`).

The number of BLAS threads belongs to the process. Calls that overlap in several threads share what there is, and the last one
restores it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

__all__ = ["blas_held_to_one", "each_part", "threads_allowed"]

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
class _Held:
    """Calls that hold BLAS to one thread now, and what it was allowed before the first of them."""

    calls: int = 0
    allowed: int = 1
    threads: list[int] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


_held = _Held()


@contextmanager
def blas_held_to_one() -> Iterator[None]:
    """Limit BLAS to one thread inside the block."""
    with _held.lock:
        if not _held.calls:
            # What threadpool_limits does, without its descriptions of the libraries.
            _held.threads = [int(library.num_threads) for library in _blas()]
            _held.allowed = max(_held.threads, default=1)
            for library in _blas():
                library.set_num_threads(1)
        _held.calls += 1
    try:
        yield
    finally:
        with _held.lock:
            _held.calls -= 1
            if not _held.calls:
                for library, threads in zip(_blas(), _held.threads, strict=True):
                    library.set_num_threads(threads)


def threads_allowed() -> int:
    """Return how many threads a call may start: those that BLAS was allowed, shared with the calls beside it."""
    with _held.lock:
        return max(1, _held.allowed // _held.calls) if _held.calls else _blas_threads()


def each_part(call: Callable[[Part], None], parts: Sequence[Part], *, threads: bool = True) -> None:
    """Call a function for each part of some work, on as many threads as this call may start.

    Parameters
    ----------
    call : callable
        It releases the interpreter lock most of the time, and its parts touch nothing in common.
    parts : sequence
    threads : bool
        Whether the work is worth them.
    """
    workers = min(threads_allowed(), len(parts)) if threads else 1
    if workers <= 1:
        for part in parts:
            call(part)
        return
    with blas_held_to_one(), ThreadPoolExecutor(workers) as pool:
        # Settings of numpy and the deadline belong to the context of the caller.
        contexts = [copy_context() for _ in parts]
        for _ in pool.map(lambda context, part: context.run(call, part), contexts, parts):
            pass
