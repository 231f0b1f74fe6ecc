"""Threads that share independent tasks of compiled code that releases the global interpreter lock.

numba's own threads are not used: they must not be started from several threads at once, or before a
fork.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeAlias

from svmcvx.system.threads import available_threads

__all__ = ["Share", "shares"]

# Calls a function with the number of a worker and the number of workers; it does the tasks worker,
# worker + workers, …
Share: TypeAlias = Callable[[Callable[[int, int], None]], None]


@contextmanager
def shares() -> Iterator[Share]:
    """Yield a function that runs a call on as many threads as this call may start."""
    workers = available_threads()
    with ThreadPoolExecutor(workers) as pool:

        def run(call: Callable[[int, int], None]) -> None:
            for done in [pool.submit(call, worker, workers) for worker in range(workers)]:
                done.result()

        yield run
