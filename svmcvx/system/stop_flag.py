"""A flag for compiled loops, which see no clock and no Ctrl-C."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from svmcvx.system.deadline import Deadline

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
