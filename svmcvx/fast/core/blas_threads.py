"""One thread for BLAS, several for blocks of kernel rows.

The matrix products that give kernel rows are thin: several BLAS threads gain little there, and lose time waiting for each other
when the machine has other work. Blocks of rows are independent, so that a thread for each never waits.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["blas_held_to_one"]

# Up to this many observations one thread is used.
FEW = 1000


@cache
def _libraries() -> ThreadpoolController:
    """Return the controller of the loaded libraries; finding them takes milliseconds."""
    return ThreadpoolController()


@contextmanager
def blas_held_to_one(n: int) -> Iterator[int]:
    """Limit BLAS to one thread inside the block, and yield the number of threads to use for `n` observations.

    That is the number that BLAS was allowed before, or one for few observations.
    """
    controller = _libraries()
    allowed = max((library["num_threads"] for library in controller.info() if library["user_api"] == "blas"), default=1)
    with controller.limit(limits=1, user_api="blas"):
        yield int(allowed) if n > FEW else 1
