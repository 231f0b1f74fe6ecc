"""Refuse work that would exhaust the memory, with a number and a suggestion."""

from __future__ import annotations

import math

import psutil

from svmcvx.errors import BuildError

__all__ = ["SMALL_ENTRIES", "available", "require"]

GIB = 2.0**30
# Bytes that are there in any case; asking the system takes longer than a small fit.
SMALL = 2.0**24
# Numbers of a data set of which a copy is made without asking, 16 MiB: arrays are copied at the begin of a call, and rows in
# blocks are loaded and solved in memory.
SMALL_ENTRIES = 2**21


def available() -> int:
    """Return the bytes that can be allocated now without swapping."""
    return int(psutil.virtual_memory().available)


def require(needed: float, what: str, remedy: str) -> None:
    """Raise unless `needed` bytes are available.

    Parameters
    ----------
    needed : float
        Estimate of the peak, in bytes.
    what : str
        What needs them, for the message.
    remedy : str
        What the user can do instead.

    Raises
    ------
    BuildError
        With both numbers and the remedy.
    """
    free = available() if needed > SMALL else math.inf
    if needed > free:
        raise BuildError(
            f"{what} needs about {needed / GIB:.1f} GiB of memory and {free / GIB:.1f} GiB are free; {remedy}"
        )
