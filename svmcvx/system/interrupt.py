"""Deferred Ctrl-C, for code that cannot be interrupted and polls an event instead."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.system.deadline import Deadline


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


# Seconds between two polls of the clock.
INTERVAL = 0.05


@contextmanager
def stop_flag(deadline: Deadline) -> Iterator[NDArray[np.int64]]:
    """Yield an array of one number that is 0, and 1 once the deadline has passed or Ctrl-C was
    pressed.
    """
    flag, done = np.zeros(1, dtype=np.int64), threading.Event()

    def watch() -> None:
        while not done.wait(INTERVAL):
            if deadline.passed():
                flag[0] = 1
                return

    thread = threading.Thread(target=watch, name="svmcvx deadline", daemon=True)
    thread.start()
    try:
        yield flag
    finally:
        done.set()
        thread.join()
