"""Refuse work that would exhaust the memory, with a number and a suggestion."""

from __future__ import annotations

import math

import psutil

from svmcvx.errors import BuildError

MEGABYTE, GIB = 2.0**20, 2.0**30
# Bytes that are taken to be available without asking the system, which takes longer than a small
# fit.
SMALL = 2.0**24
# Entries (16 MiB) of data that are always copied: arrays at the start of a call, rows in blocks,
# which are then solved in memory, and one block of larger data.
SMALL_ENTRIES = 2**21


def available() -> int:
    """Return the bytes that can be allocated now without swapping."""
    return int(psutil.virtual_memory().available)


def columns_in(megabytes: float, n: int, itemsize: int = 8) -> int:
    """Return how many columns of n numbers there is room for."""
    # The number is an integer of 64 bits.
    return int(min(megabytes * MEGABYTE / (itemsize * n), 2.0**62))


def require(needed: float, what: str, remedy: str) -> None:
    """Raise unless `needed` bytes are available."""
    free = available() if needed > SMALL else math.inf
    if needed > free:
        raise BuildError(
            f"{what} needs about {needed / GIB:.1f} GiB of memory and {free / GIB:.1f} GiB are"
            f" free; {remedy}"
        )
