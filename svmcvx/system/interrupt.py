"""Ctrl-C around code that cannot be interrupted: note it, and let the code ask."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["deferred_interrupt"]


@contextmanager
def deferred_interrupt(pressed: threading.Event | None = None) -> Iterator[threading.Event]:
    """Note Ctrl-C in an event instead of raising, for as long as the block lasts.

    An exception cannot cross compiled code; it asks for the event at its next iteration instead. Outside the main
    thread, where Python delivers no signals, the event is never set.

    Parameters
    ----------
    pressed : threading.Event, optional
        The event; a new one by default.
    """
    pressed = threading.Event() if pressed is None else pressed
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    previous = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, previous)
