"""Non-cancellable calls, such as a factorisation by LAPACK, in detached worker threads.

Inside :func:`interruptible` such a call runs in a worker thread, and the caller waits for it until
the deadline or Ctrl-C. After that the thread is detached: nothing can stop numpy's factorisations
and products, which release the interpreter lock, so it runs to its end and its result is dropped.
The next call waits for detached threads first, so that there is at most one. Elsewhere the call
blocks until it returns.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from svmcvx.system.deadline import Deadline, OutOfTime, current

Floats: TypeAlias = NDArray[np.float64]
T = TypeVar("T")

# Seconds between two polls of the clock and of Ctrl-C.
POLL_SECONDS = 0.02
# Entries of matrices up to which a call is too short for a thread.
SMALL = 1_000_000

# Detached threads.
_detached: list[threading.Thread] = []

_deadline: ContextVar[Deadline | None] = ContextVar("svmcvx_interruptible_until", default=None)
_in_worker: ContextVar[bool] = ContextVar("svmcvx_awaited", default=False)


@contextmanager
def interruptible(deadline: Deadline | None = None) -> Iterator[None]:
    """Allow :func:`run_with_deadline` and :func:`checkpoint` to raise
    :class:`~svmcvx.system.deadline.OutOfTime` in the block.
    """
    token = _deadline.set(deadline or current())
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def uninterruptible() -> Iterator[None]:
    """Disable interruption in the block, also inside other blocks."""
    token = _deadline.set(None)
    try:
        yield
    finally:
        _deadline.reset(token)


def checkpoint() -> None:
    """Raise :class:`~svmcvx.system.deadline.OutOfTime` in interruptible work whose deadline has
    passed.
    """
    deadline = _deadline.get()
    if deadline is not None and deadline.passed():
        raise OutOfTime


def check_cancelled() -> None:
    """Raise :class:`~svmcvx.system.deadline.OutOfTime` in a detached worker thread of
    :func:`run_with_deadline`.
    """
    if _in_worker.get():
        checkpoint()


def cholesky(A: Floats) -> Floats:
    """Return the lower triangle of Cholesky's method by :func:`run_with_deadline`."""
    return np.asarray(run_with_deadline(np.linalg.cholesky, A))


def triangle(A: Floats) -> Floats:
    """Return the upper triangle of the QR factorisation by :func:`run_with_deadline`."""
    return np.asarray(run_with_deadline(lambda matrix: np.linalg.qr(matrix, mode="r"), A))


def run_with_deadline(work: Callable[..., T], *arguments: Any, entries: float | None = None) -> T:
    """Call a function; where interruption is allowed, until the deadline at most."""
    deadline = _deadline.get()
    if deadline is None:
        return work(*arguments)
    if entries is None:
        entries = sum(int(getattr(argument, "size", 0)) for argument in arguments)
    if entries <= SMALL:
        return work(*arguments)
    checkpoint()
    if _in_worker.get():
        return work(*arguments)
    _wait_for_detached(deadline)
    results: list[T] = []
    errors: list[BaseException] = []
    finished, cancelled = threading.Event(), threading.Event()
    context = copy_context()
    # Work that calls check_cancelled ends at its next call of it.
    context.run(_deadline.set, Deadline(interrupt_requested=cancelled))
    context.run(_in_worker.set, True)

    def run() -> None:
        try:
            results.append(context.run(work, *arguments))
        except BaseException as error:  # raised again in the calling thread
            errors.append(error)
        finally:
            finished.set()

    thread = threading.Thread(target=run, name="svmcvx-worker", daemon=True)
    thread.start()
    while not finished.wait(POLL_SECONDS):
        if deadline.passed():
            cancelled.set()
            _detached.append(thread)
            raise OutOfTime
    if errors:
        raise errors[0]
    return results[0]


def _wait_for_detached(deadline: Deadline) -> None:
    """Wait for detached threads, which hold their matrices and a core until they end."""
    while _detached:
        _detached[0].join(POLL_SECONDS)
        if deadline.passed():
            raise OutOfTime
        # Another caller may have removed it.
        with suppress(IndexError):
            if not _detached[0].is_alive():
                _detached.pop(0)
