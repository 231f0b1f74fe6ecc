"""Work that nothing interrupts, such as a factorisation by LAPACK, left behind when a deadline passes.

Where the caller knows what to do without it (:func:`may_be_abandoned`), such work runs in a thread of its own, and the caller
waits for it until the deadline or Ctrl-C. The thread then ends by itself, and what it finds is dropped: numpy's factorisations and
products release the interpreter lock, while nothing can stop them. Work that is left behind does not pile up: the next waits for its
end first. Elsewhere the work is done to its end.
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

__all__ = ["awaited", "checkpoint", "cholesky", "may_be_abandoned", "to_the_end", "triangle", "unless_left_behind"]

Floats: TypeAlias = NDArray[np.float64]
T = TypeVar("T")

# Seconds between two looks at the clock and at Ctrl-C.
PATIENCE = 0.02
# Entries of matrices up to which no work takes long enough to be worth a thread.
SMALL = 1_000_000

# Threads that nobody waits for.
_left: list[threading.Thread] = []

_deadline: ContextVar[Deadline | None] = ContextVar("svmcvx_abandoned_at", default=None)
_inside: ContextVar[bool] = ContextVar("svmcvx_awaited", default=False)


@contextmanager
def may_be_abandoned(deadline: Deadline | None = None) -> Iterator[None]:
    """Let :func:`awaited` and :func:`checkpoint` end the block by :class:`~svmcvx.system.deadline.OutOfTime`.

    Parameters
    ----------
    deadline : Deadline, optional
        That of the call by default.
    """
    token = _deadline.set(deadline or current())
    try:
        yield
    finally:
        _deadline.reset(token)


@contextmanager
def to_the_end() -> Iterator[None]:
    """Do all work inside the block to its end, whatever is around it."""
    token = _deadline.set(None)
    try:
        yield
    finally:
        _deadline.reset(token)


def checkpoint() -> None:
    """Raise :class:`~svmcvx.system.deadline.OutOfTime` where the work may be abandoned and its deadline has passed."""
    deadline = _deadline.get()
    if deadline is not None and deadline.passed():
        raise OutOfTime


def unless_left_behind() -> None:
    """Raise :class:`~svmcvx.system.deadline.OutOfTime` in the thread of work that :func:`awaited` no longer waits for."""
    if _inside.get():
        checkpoint()


def cholesky(A: Floats) -> Floats:
    """Return the lower triangle of Cholesky's method by :func:`awaited`."""
    return np.asarray(awaited(np.linalg.cholesky, A))


def triangle(A: Floats) -> Floats:
    """Return the upper triangle of the QR factorisation by :func:`awaited`."""
    return np.asarray(awaited(lambda matrix: np.linalg.qr(matrix, mode="r"), A))


def awaited(work: Callable[..., T], *arguments: Any, entries: float | None = None) -> T:
    """Return what some work returns, or raise what it raises.

    Parameters
    ----------
    work : callable
        It releases the interpreter lock, and changes nothing that others read.
    *arguments
        Its arguments.
    entries : float, optional
        Of the largest matrix involved; by default those of the arguments. Work on few is done at once.

    Raises
    ------
    OutOfTime
        Where the work may be abandoned, and the deadline passes before its end.
    """
    deadline = _deadline.get()
    if deadline is None:
        return work(*arguments)
    if entries is None:
        entries = sum(int(getattr(argument, "size", 0)) for argument in arguments)
    if entries <= SMALL:
        return work(*arguments)
    checkpoint()
    if _inside.get():
        return work(*arguments)
    _wait_for_others(deadline)
    results: list[T] = []
    errors: list[BaseException] = []
    finished, given_up = threading.Event(), threading.Event()
    context = copy_context()
    # Work in steps ends at its next checkpoint.
    context.run(_deadline.set, Deadline(pressed=given_up))
    context.run(_inside.set, True)

    def run() -> None:
        try:
            results.append(context.run(work, *arguments))
        except BaseException as error:  # raised again in the thread that waits
            errors.append(error)
        finally:
            finished.set()

    thread = threading.Thread(target=run, name="svmcvx-awaited", daemon=True)
    thread.start()
    while not finished.wait(PATIENCE):
        if deadline.passed():
            given_up.set()
            _left.append(thread)
            raise OutOfTime
    if errors:
        raise errors[0]
    return results[0]


def _wait_for_others(deadline: Deadline) -> None:
    """Wait for work that has been left behind, which keeps its matrices and a core until it ends."""
    while _left:
        _left[0].join(PATIENCE)
        if deadline.passed():
            raise OutOfTime
        # Another thread may have done so.
        with suppress(IndexError):
            if not _left[0].is_alive():
                _left.pop(0)
