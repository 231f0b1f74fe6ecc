"""Deferred Ctrl-C, for code that cannot be interrupted and polls an event instead."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["deferred_interrupt"]


@contextmanager
def deferred_interrupt(requested: threading.Event | None = None) -> Iterator[threading.Event]:
    """Set an event on Ctrl-C instead of raising, inside the block."""
    requested = threading.Event() if requested is None else requested
    if threading.current_thread() is not threading.main_thread():
        yield requested
        return
    previous = signal.signal(signal.SIGINT, lambda *_: requested.set())
    try:
        yield requested
    finally:
        signal.signal(signal.SIGINT, previous)
