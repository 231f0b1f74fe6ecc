"""A timer that excludes the time of just-in-time compilation and of loading compiled code.

Compilation happens at the first call of a function on a machine, loading at the first of a process.
Neither counts towards a time limit, so that a first call ends like a later one: between
:func:`compiling_begins` and :func:`compiling_ends` the timer is stopped, in all threads.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_lock = threading.Lock()
# The source of seconds, the seconds spent compiling, how many compilations are nested, and when the
# outermost one began.
_source: Callable[[], float] = time.perf_counter
_compiled, _depth, _since = 0.0, 0, 0.0


def now() -> float:
    with _lock:
        return (_since if _depth else _source()) - _compiled


def compile_seconds() -> float:
    """Return the seconds spent compiling and loading so far."""
    with _lock:
        return _compiled + (_source() - _since if _depth else 0.0)


def compiling_begins() -> None:
    """Stop the timer; calls may be nested."""
    global _depth, _since
    with _lock:
        if not _depth:
            _since = _source()
        _depth += 1


def compiling_ends() -> None:
    """Restart the timer."""
    global _compiled, _depth
    with _lock:
        _depth -= 1
        if not _depth:
            _compiled += _source() - _since


@contextmanager
def substituted(source: Callable[[], float]) -> Iterator[None]:
    """Use another source of seconds inside the block, for tests: nothing is compiled yet in it."""
    global _source, _compiled
    previous, _source, _compiled = (_source, _compiled), source, 0.0
    try:
        yield
    finally:
        _source, _compiled = previous
