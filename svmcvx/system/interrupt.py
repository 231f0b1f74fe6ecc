"""Deferred Ctrl-C, for code that cannot be interrupted and polls an event instead."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def deferred_interrupt(requested: threading.Event | None = None) -> Iterator[threading.Event]:
    """Set an event on Ctrl-C instead of raising, inside the block.

    A process that ignores SIGINT goes on ignoring it, and a handler of the host is called too.
    """
    requested = threading.Event() if requested is None else requested
    here = threading.current_thread() is threading.main_thread()
    previous = signal.getsignal(signal.SIGINT)
    if not here or previous is signal.SIG_IGN:
        yield requested
        return

    def handle(number: int, frame: Any) -> None:
        requested.set()
        if callable(previous) and previous is not signal.default_int_handler:
            previous(number, frame)

    signal.signal(signal.SIGINT, handle)
    try:
        yield requested
    finally:
        # None: the handler was not installed from Python, and cannot be put back.
        signal.signal(signal.SIGINT, signal.SIG_DFL if previous is None else previous)
