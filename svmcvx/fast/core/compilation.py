"""How passes are compiled: by numba, once a machine, outside every clock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numba
from numba.core import event

from svmcvx.system import clock

__all__ = ["Compiled", "compiled", "recorded"]

log = logging.getLogger(__name__)


class Compiled(NamedTuple):
    """A function that was compiled, and the seconds that it took without those of the functions that it calls."""

    module: str
    name: str
    seconds: float


class _StopsTheClock(event.Listener):
    """Tells the package's clock when numba compiles; loading what was compiled before is work like any other."""

    def __init__(self) -> None:
        self.records: list[list[Compiled]] = []
        # Begin of each function that is being compiled, and what others have taken meanwhile.
        self.open: list[tuple[float, float]] = []

    def on_start(self, event: Any) -> None:
        """Stop it."""
        clock.compiling_begins()
        self.open.append((clock.compile_seconds(), 0.0))

    def on_end(self, event: Any) -> None:
        """Let it go on."""
        began, inner = self.open.pop()
        whole = clock.compile_seconds() - began
        clock.compiling_ends()
        if self.open:
            self.open[-1] = self.open[-1][0], self.open[-1][1] + whole
        function = event.data["dispatcher"].py_func
        found = Compiled(function.__module__, function.__qualname__, whole - inner)
        log.info("compiled %s.%s in %.2f s", *found)
        for record in self.records:
            record.append(found)


_listener = _StopsTheClock()
event.register("numba:compile", _listener)


@contextmanager
def recorded() -> Iterator[list[Compiled]]:
    """Yield a list that gets every function compiled inside the block."""
    record: list[Compiled] = []
    _listener.records.append(record)
    try:
        yield record
    finally:
        _listener.records.remove(record)


def compiled(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call; the machine code is kept between sessions.

    Parameters
    ----------
    **options
        Of ``numba.njit``, such as ``nogil`` and ``fastmath``.
    """
    found: Callable[[Callable[..., Any]], Any] = numba.njit(cache=True, **options)
    return found
