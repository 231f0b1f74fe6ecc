"""Compilation of passes by numba: once on a computer, with all timers stopped.

Only the package's own functions are affected: other functions that a process compiles by numba
keep their cache, are not counted, and print nothing. The savings of compile time use options of
numba that are private; versions outside :data:`TESTED` compile by its public ones alone.
"""

from __future__ import annotations

import gc
import hashlib
import logging
import multiprocessing
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numba
from numba.core import event
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.types.misc import unliteral

from svmcvx.system import clock

try:
    import fcntl
except ImportError:  # on Windows, where two processes may compile the same function
    fcntl = None  # type: ignore[assignment]

MESSAGE = (
    "svmcvx: compiling solvers, once on this computer; the command 'svmcvx compile' compiles all of"
    " them in advance"
)

# First and last minor version of numba whose private options are tested.
TESTED = (0, 61), (0, 68)

log = logging.getLogger(__name__)


class Compiled(NamedTuple):
    """A compiled function, and the seconds of its compilation without those of the functions that
    it calls.
    """

    module: str
    name: str
    seconds: float


def _is_ours(event: Any) -> bool:
    """Whether the function that is compiled belongs to this package."""
    module: str = event.data["dispatcher"].py_func.__module__
    return module.partition(".")[0] == __package__.partition(".")[0]


class _StopsTheClock(event.Listener):
    """Records what numba compiles, and stops the package's clock meanwhile."""

    def __init__(self) -> None:
        self.records: list[list[Compiled]] = []
        # Begin of each function that is being compiled, and what others have taken meanwhile.
        self.open: list[tuple[float, float]] = []
        self.told = False

    def on_start(self, event: Any) -> None:
        """Stop it, for a function of this package."""
        if not _is_ours(event):
            return
        if not self.open:
            self._tell()
        clock.compiling_begins()
        self.open.append((clock.compile_seconds(), 0.0))

    def _tell(self) -> None:
        """Print once why the first call takes seconds, where somebody is waiting for it."""
        if not self.told and not self.records and _is_watched():
            sys.stderr.write(f"{MESSAGE}\n")
            sys.stderr.flush()
        self.told = True

    def on_end(self, event: Any) -> None:
        """Restart the timer."""
        if not _is_ours(event):
            return
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


def _is_watched() -> bool:
    """Whether this is the main process at a terminal or in a notebook, rather than a worker, a pipe
    or a test.
    """
    stream = sys.stderr
    notebook = type(stream).__module__.partition(".")[0] == "ipykernel"
    terminal = stream is not None and stream.isatty()
    return (notebook or terminal) and multiprocessing.current_process().name == "MainProcess"


@cache
def _lock_file() -> int:
    """The file whose bytes processes of a user lock, open as long as this process lives: closing it
    would give all of them back.
    """
    place = hashlib.sha256(f"{os.getuid()} {Path(__file__).parent}".encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"svmcvx-{place}.lock"
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextmanager
def _alone(what: str) -> Iterator[None]:
    """Let one process at a time do something; without a lock, which not every system has, several
    do it.
    """
    byte, file = int(hashlib.sha256(what.encode()).hexdigest()[:12], 16), -1
    if fcntl is not None:
        try:
            file = _lock_file()
            fcntl.lockf(file, fcntl.LOCK_EX, 1, byte)
        except OSError as error:
            log.info("no lock for compiling: %s", error)
            file = -1
    try:
        yield
    finally:
        if file >= 0:
            fcntl.lockf(file, fcntl.LOCK_UN, 1, byte)


def _save_alone(save: Callable[..., None]) -> Callable[..., None]:
    """Store compiled code with a lock: numba numbers the files of a function's signatures in an
    index, which two processes may read before either has written it.
    """

    def saved(*arguments: Any) -> None:
        with _alone("index"):
            save(*arguments)

    return saved


# One thread of a process compiles at a time.
_compiling = threading.RLock()
_listener = _StopsTheClock()
event.register("numba:compile", _listener)


@contextmanager
def _without_collections() -> Iterator[None]:
    """Collect no garbage meanwhile."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


@contextmanager
def recorded() -> Iterator[list[Compiled]]:
    """Yield a list that gets every function compiled inside the block."""
    record: list[Compiled] = []
    _listener.records.append(record)
    try:
        yield record
    finally:
        _listener.records.remove(record)


def _with_room(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)


# CPython keeps frames in chunks of 16 KB, and gives a chunk back when its last frame returns. If
# deep calls, such as a compiler's, cross the end of a chunk repeatedly, each takes several times as
# long. A larger frame gets a chunk with room for all frames above it.
_with_room.__code__ = _with_room.__code__.replace(co_stacksize=70_000)


class _Linked(JITCodeLibrary):
    """The code of an inner function, which is optimised and translated only as a part of its
    callers.
    """

    @property
    def codegen(self) -> _Linked:
        """What numba asks to fill in the environment of a function, which lies in its callers here."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Leave it empty, as it is where callers are loaded from disk: only errors with a message
        of their own would need it.
        """

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _ForCallers(Compiler):
    """numba's compiler, for inner functions."""

    def __init__(self, typing_context: Any, target_context: Any, library: Any, *rest: Any) -> None:
        library = _Linked(target_context.codegen(), "inner") if library is None else library
        super().__init__(typing_context, target_context, library, *rest)


class _Inner:
    """A compiled function without an entry point for Python, which runs its source instead."""

    def __init__(self, dispatcher: Any) -> None:
        self.dispatcher, self.py_func = dispatcher, dispatcher.py_func
        # numba uses this to recognise a function that another one calls.
        self._numba_type_ = dispatcher._numba_type_

    def __call__(self, *arguments: Any) -> Any:
        return self.py_func(*arguments)


def _prepared(dispatcher: Any) -> Any:
    """Stop the timer while a call from Python looks for compiled code on disk, compiles, and stores
    the result.
    """
    prepare = dispatcher._compile_for_args

    def stopped(*arguments: Any) -> Any:
        clock.compiling_begins()
        try:
            # Of two processes that need the same function one compiles it, and the other loads the
            # result.
            what = f"{dispatcher.py_func.__module__}.{dispatcher.py_func.__qualname__}"
            with _compiling, _alone(what), _without_collections():
                return _with_room(prepare, arguments)
        finally:
            clock.compiling_ends()

    dispatcher._compile_for_args = stopped
    return dispatcher


def _is_tested(version: str) -> bool:
    """Whether private options of this version of numba are tested."""
    first, last = TESTED
    return first <= tuple(int(part) for part in version.split(".")[:2]) <= last


def compiled(
    *, inner: bool = False, allocates: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function on its first call; the compiled code is stored between sessions.

    A division by zero is infinite or no number, as in numpy.
    """
    options.setdefault("error_model", "numpy")

    def decorate(function: Callable[..., Any]) -> Any:
        if not _is_tested(numba.__version__):
            return numba.njit(cache=not inner, **options)(function)
        # No function is handed to another as a value, so that none needs an entry point for C.
        settings = {
            "no_cfunc_wrapper": True,
            "no_cpython_wrapper": inner,
            "cache": not inner,
            "_nrt": allocates,
            **options,
        }
        if inner:
            settings["pipeline_class"] = _ForCallers
        found = numba.njit(**settings)(function)
        if numba.config.DISABLE_JIT or "inline" in options:
            return found
        # numba would compile a function once more for each constant that it is called with.
        template = found.get_call_template
        found.get_call_template = lambda arguments, names: template(
            tuple(map(unliteral, arguments)), names
        )
        if inner:
            return _Inner(found)
        stored = found._cache._cache_file
        stored.save = _save_alone(stored.save)
        return _prepared(found)

    return decorate
