"""Time limits: one deadline for a call and for everything that it calls."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from svmcvx.system import clock


class OutOfTime(Exception):
    """A deadline has passed before the work was complete; its results are lost."""


@dataclass(frozen=True)
class Deadline:
    """The end of a call's time limit."""

    end: float = math.inf
    started: float = field(default_factory=clock.now)
    interrupt_requested: threading.Event = field(default_factory=threading.Event)
    compiled_before: float = field(default_factory=clock.compile_seconds)

    @property
    def seconds(self) -> float:
        """Seconds since the call began."""
        return clock.now() - self.started

    @property
    def compile_seconds(self) -> float:
        """Seconds spent compiling since the call began; the others do not count them."""
        return clock.compile_seconds() - self.compiled_before

    @property
    def remaining(self) -> float:
        """Remaining seconds, at least 0; infinite without a limit."""
        return math.inf if self.end == math.inf else max(self.end - clock.now(), 0.0)

    def passed(self) -> bool:
        """Whether the time limit has passed or Ctrl-C was pressed; cheap enough for inner loops."""
        return self.interrupt_requested.is_set() or (
            self.end < math.inf and clock.now() >= self.end
        )

    def earlier(self, seconds: float) -> Deadline:
        """Return a deadline with the same start that ends this many seconds earlier."""
        return replace(self, end=self.end - seconds)

    def share(self, share: float) -> Deadline:
        """Return the deadline of a part of the work that may take this share of the remaining time."""
        started = clock.now()
        end = math.inf if self.end == math.inf else started + share * max(self.end - started, 0.0)
        return Deadline(end, started, self.interrupt_requested)


_innermost: ContextVar[Deadline | None] = ContextVar("svmcvx_deadline", default=None)


def epoch_end(deadline: Deadline) -> float:
    """Return the end of a deadline in seconds since the epoch, which other processes and computers
    share.
    """
    return time.time() + deadline.remaining


def until(epoch: float) -> AbstractContextManager[Deadline]:
    """Limit the block to a moment in seconds since the epoch, for work that another process has
    sent.
    """
    return time_limited(None if math.isinf(epoch) else epoch - time.time())


def current() -> Deadline:
    """Return the deadline of the innermost call that has one; without any limit if there is none."""
    return _innermost.get() or Deadline()


@contextmanager
def time_limited(seconds: float | None) -> Iterator[Deadline]:
    """Limit the time of a block; limits of enclosing calls hold as well."""
    outer, started = _innermost.get(), clock.now()
    end = math.inf if seconds is None else started + seconds
    deadline = (
        Deadline(end, started)
        if outer is None
        else Deadline(min(end, outer.end), started, outer.interrupt_requested)
    )
    token = _innermost.set(deadline)
    try:
        yield deadline
    finally:
        _innermost.reset(token)
