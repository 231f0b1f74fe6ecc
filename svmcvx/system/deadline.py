"""Time limits and Ctrl-C: one deadline for a call and for everything that it calls.

Solvers poll the deadline between iterations, compiled code reads :func:`stop_flag`, and a call
that nothing can stop, such as a factorisation by LAPACK or a solver without a limit, runs in a
worker thread (:func:`run_with_deadline`).
"""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from svmcvx.system import clock

T = TypeVar("T")

# Seconds between two polls of the clock and of Ctrl-C.
POLL_SECONDS = 0.02
# Entries of matrices up to which a call is too short for a thread.
SMALL = 1_000_000
# Name of worker threads, in which nothing starts another one.
WORKER = "svmcvx-worker"


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
        """Return the deadline of work that may take this share of the remaining time."""
        started = clock.now()
        return Deadline(started + share * self.remaining, started, self.interrupt_requested)


_innermost: ContextVar[Deadline | None] = ContextVar("svmcvx_deadline", default=None)
_interruptible: ContextVar[Deadline | None] = ContextVar("svmcvx_interruptible", default=None)


def epoch_end(deadline: Deadline) -> float:
    """Return the end of a deadline in seconds since the epoch, which other processes share."""
    return time.time() + deadline.remaining


def until(epoch: float) -> AbstractContextManager[Deadline]:
    """Limit the block to a moment in seconds since the epoch, sent by another process."""
    return time_limited(None if math.isinf(epoch) else epoch - time.time())


def current() -> Deadline:
    """Return the deadline of the innermost call that has one; else one without a limit."""
    return _innermost.get() or Deadline()


@contextmanager
def _set(variable: ContextVar[Deadline | None], deadline: Deadline | None) -> Iterator[Any]:
    token = variable.set(deadline)
    try:
        yield deadline
    finally:
        variable.reset(token)


def time_limited(seconds: float | None) -> AbstractContextManager[Deadline]:
    """Limit the time of a block; limits of enclosing calls hold as well."""
    outer, started = _innermost.get(), clock.now()
    end = math.inf if seconds is None else started + seconds
    if outer is None:
        return _set(_innermost, Deadline(end, started))
    return _set(_innermost, Deadline(min(end, outer.end), started, outer.interrupt_requested))


def interruptible(deadline: Deadline | None = None) -> AbstractContextManager[None]:
    """Allow :func:`run_with_deadline` and :func:`checkpoint` to raise :class:`OutOfTime`."""
    return _set(_interruptible, deadline or current())


def uninterruptible() -> AbstractContextManager[None]:
    """Disable interruption in the block, also inside other blocks."""
    return _set(_interruptible, None)


def checkpoint() -> None:
    """Raise :class:`OutOfTime` in interruptible work whose deadline has passed."""
    deadline = _interruptible.get()
    if deadline is not None and deadline.passed():
        raise OutOfTime


def check_cancelled() -> None:
    """Raise :class:`OutOfTime` in a worker thread that nobody waits for."""
    if threading.current_thread().name == WORKER:
        checkpoint()


# Threads whose callers have stopped waiting for them.
_detached: list[threading.Thread] = []


def run_with_deadline(work: Callable[..., T], *arguments: Any, entries: float | None = None) -> T:
    """Call a function; where interruption is allowed, until the deadline at most.

    After that the worker thread is detached: nothing can stop numpy's factorisations, which release
    the interpreter lock, so it runs to its end or to its next :func:`check_cancelled`, and its
    result is lost. The next call waits for detached threads, which hold their matrices and a core.
    """
    deadline = _interruptible.get()
    if entries is None:
        entries = sum(int(getattr(argument, "size", 0)) for argument in arguments)
    if deadline is None or entries <= SMALL or threading.current_thread().name == WORKER:
        return work(*arguments)
    for thread in tuple(_detached):
        while thread.is_alive() and not deadline.passed():
            thread.join(POLL_SECONDS)
    checkpoint()
    _detached[:] = [thread for thread in _detached if thread.is_alive()]
    outcome: Future[T] = Future()
    cancelled = threading.Event()
    context = copy_context()
    context.run(_interruptible.set, Deadline(interrupt_requested=cancelled))

    def run() -> None:
        try:
            outcome.set_result(context.run(work, *arguments))
        except BaseException as error:  # raised again in the calling thread
            outcome.set_exception(error)

    worker = threading.Thread(target=run, name=WORKER, daemon=True)
    worker.start()
    while not wait([outcome], POLL_SECONDS).done:
        if deadline.passed():
            cancelled.set()
            _detached.append(worker)
            raise OutOfTime
    return outcome.result()


@contextmanager
def deferred_interrupt(requested: threading.Event | None = None) -> Iterator[threading.Event]:
    """Set an event on Ctrl-C in the block, unless SIGINT is ignored; call a host's handler too."""
    requested = threading.Event() if requested is None else requested
    previous = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or previous is signal.SIG_IGN:
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


@contextmanager
def stop_flag(deadline: Deadline) -> Iterator[NDArray[np.int64]]:
    """Yield an array of one number, 1 once the deadline has passed or Ctrl-C was pressed."""
    flag, done = np.zeros(1, dtype=np.int64), threading.Event()

    def watch() -> None:
        while not (done.wait(POLL_SECONDS) or flag[0]):
            flag[0] = deadline.passed()

    thread = threading.Thread(target=watch, name="svmcvx deadline", daemon=True)
    thread.start()
    try:
        yield flag
    finally:
        done.set()
        thread.join()
