"""The package's one clock: seconds of work, without those in which code is being compiled, or loaded that was compiled before.

Compiling happens on the first call of a function on a machine, loading on the first of a process. They belong to no time limit, and no
choice that rests on how long something took may feel them: then a first call ends as every later one. The compiler tells of its work
by :func:`compiling_begins` and :func:`compiling_ends`; in between the clock stands still, in all threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

__all__ = ["compile_seconds", "compiling_begins", "compiling_ends", "now", "replaced"]


@dataclass
class _Clock:
    """Where the time comes from, and how much of it was spent compiling."""

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
    """Return all seconds spent compiling and loading so far."""
    with _clock.lock:
        return _clock.compiled + (_clock.source() - _clock.since if _clock.depth else 0.0)


def compiling_begins() -> None:
    """Stop the clock; calls may be nested."""
    with _clock.lock:
        if not _clock.depth:
            _clock.since = _clock.source()
        _clock.depth += 1


def compiling_ends() -> None:
    """Let the clock go on."""
    with _clock.lock:
        _clock.depth -= 1
        if not _clock.depth:
            _clock.compiled += _clock.source() - _clock.since


@contextmanager
def replaced(source: Callable[[], float]) -> Iterator[None]:
    """Read another source of seconds inside the block; for tests, which then decide how long a thing takes."""
    previous, _clock.source = _clock.source, source
    try:
        yield
    finally:
        _clock.source = previous
