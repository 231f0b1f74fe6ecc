"""A timer that excludes the time of just-in-time compilation and of loading compiled code.

Compilation happens at the first call of a function on a machine, loading at the first of a process.
Neither counts towards a time limit, so that a first call ends like a later one. The compiler
reports its work by :func:`compiling_begins` and :func:`compiling_ends`; in between the timer is
stopped, in all threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class _Clock:
    """The source of seconds, and the seconds spent compiling."""

    source: Callable[[], float] = time.perf_counter
    compiled: float = 0.0
    depth: int = 0
    since: float = 0.0
    lock: threading.Lock = field(default_factory=threading.Lock)


_clock = _Clock()


def now() -> float:
    """Return seconds since an arbitrary moment."""
    with _clock.lock:
        moment = _clock.since if _clock.depth else _clock.source()
        return moment - _clock.compiled


def compile_seconds() -> float:
    """Return the seconds spent compiling and loading so far."""
    with _clock.lock:
        return _clock.compiled + (_clock.source() - _clock.since if _clock.depth else 0.0)


def compiling_begins() -> None:
    """Stop the timer; calls may be nested."""
    with _clock.lock:
        if not _clock.depth:
            _clock.since = _clock.source()
        _clock.depth += 1


def compiling_ends() -> None:
    """Restart the timer."""
    with _clock.lock:
        _clock.depth -= 1
        if not _clock.depth:
            _clock.compiled += _clock.source() - _clock.since


@contextmanager
def substituted(source: Callable[[], float]) -> Iterator[None]:
    """Use another source of seconds inside the block, for tests."""
    previous, _clock.source = _clock.source, source
    try:
        yield
    finally:
        _clock.source = previous
