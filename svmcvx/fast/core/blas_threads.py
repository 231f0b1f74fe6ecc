"""One thread for BLAS, several for blocks of kernel rows.

The products behind kernel rows are thin: several BLAS threads gain little, and lose much waiting for each other when
the machine has other work. Blocks are independent of each other and can wait for nobody.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

__all__ = ["blas_held_to_one"]

FEW = 1000


@cache
def _libraries() -> ThreadpoolController:
    """Look for the libraries, which takes milliseconds, once."""
    return ThreadpoolController()


@contextmanager
def blas_held_to_one(n: int) -> Iterator[int]:
    """Hold BLAS to one thread inside the block, and give the number of threads that `n` observations are worth.

    That is the number BLAS was allowed before; one for few observations.
    """
    controller = _libraries()
    allowed = max((library["num_threads"] for library in controller.info() if library["user_api"] == "blas"), default=1)
    with controller.limit(limits=1, user_api="blas"):
        yield int(allowed) if n > FEW else 1
