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

__all__ = ["Deadline", "OutOfTime", "allowed", "current", "epoch_end", "until"]


class OutOfTime(Exception):
    """A deadline has ended work in its middle, whose results are lost."""


@dataclass(frozen=True)
class Deadline:
    """When a call has to be back.

    Attributes
    ----------
    end : float
        Moment of :func:`svmcvx.system.clock.now`; infinite without a limit.
    started : float
    pressed : threading.Event
        Set by Ctrl-C where that is only noted (:mod:`svmcvx.system.interrupt`).
    compiled_before : float
        What :func:`svmcvx.system.clock.compile_seconds` was when the call began.
    """

    end: float = math.inf
    started: float = field(default_factory=clock.now)
    pressed: threading.Event = field(default_factory=threading.Event)
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
    def left(self) -> float:
        """Seconds left, at least 0; infinite without a limit."""
        return math.inf if self.end == math.inf else max(self.end - clock.now(), 0.0)

    def passed(self) -> bool:
        """Whether the time has run out or Ctrl-C was pressed; cheap enough to ask often."""
        return self.pressed.is_set() or (self.end < math.inf and clock.now() >= self.end)

    def earlier(self, seconds: float) -> Deadline:
        """Return a deadline that ends so many seconds before this one, and began with it."""
        return replace(self, end=self.end - seconds)

    def share(self, share: float) -> Deadline:
        """Return the deadline of a part of the work that may take this share of what is left."""
        started = clock.now()
        end = math.inf if self.end == math.inf else started + share * max(self.end - started, 0.0)
        return Deadline(end, started, self.pressed)


_innermost: ContextVar[Deadline | None] = ContextVar("svmcvx_deadline", default=None)


def epoch_end(deadline: Deadline) -> float:
    """Return the end of a deadline in seconds of the calendar's clock, which other processes and machines share."""
    return time.time() + deadline.left


def until(epoch: float) -> AbstractContextManager[Deadline]:
    """Give the block the time until a moment of the calendar's clock, for work that another process has sent."""
    return allowed(None if math.isinf(epoch) else epoch - time.time())


def current() -> Deadline:
    """Return the deadline of the innermost call that has one; without any limit if there is none."""
    return _innermost.get() or Deadline()


@contextmanager
def allowed(seconds: float | None) -> Iterator[Deadline]:
    """Give the block so many seconds, and no more than what the calls around it have left.

    Parameters
    ----------
    seconds : float or None
        None: only what the calls around it have left.
    """
    outer, started = _innermost.get(), clock.now()
    end = math.inf if seconds is None else started + seconds
    deadline = Deadline(end, started) if outer is None else Deadline(min(end, outer.end), started, outer.pressed)
    token = _innermost.set(deadline)
    try:
        yield deadline
    finally:
        _innermost.reset(token)
