"""Compilation of passes by numba: once on a computer, with all timers stopped.

Only the package's own functions are affected. The savings of compile time, and the stopped timers,
use options of numba that are private; versions outside :data:`TESTED` compile by its public ones
alone.
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
from llvmlite import ir
from numba.core import cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.types.misc import unliteral
from numba.extending import intrinsic

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
    """A compiled function, and the seconds of its compilation with all that it calls."""

    module: str
    name: str
    seconds: float


_records: list[list[Compiled]] = []


@contextmanager
def recorded() -> Iterator[list[Compiled]]:
    """Yield a list that gets every function compiled inside the block."""
    record: list[Compiled] = []
    _records.append(record)
    try:
        yield record
    finally:
        _records.remove(record)


def is_watched() -> bool:
    """Whether this is the main process at a terminal or in a notebook."""
    stream = sys.stderr
    notebook = type(stream).__module__.partition(".")[0] == "ipykernel"
    terminal = stream is not None and stream.isatty()
    return (notebook or terminal) and multiprocessing.current_process().name == "MainProcess"


@cache
def announce() -> None:
    """Print once why the first call takes seconds."""
    sys.stderr.write(f"{MESSAGE}\n")
    sys.stderr.flush()


# One thread of a process compiles at a time.
_compiling = threading.RLock()


@cache
def _lock_file() -> int:
    """Return the lock file, open for the life of the process: closing would release the lock."""
    place = hashlib.sha256(f"{os.getuid()} {Path(__file__).parent}".encode()).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"svmcvx-{place}.lock"
    return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@contextmanager
def _alone() -> Iterator[None]:
    """Let one thread of one process compile or load at a time, and collect no garbage meanwhile.

    numba numbers the files of a function's signatures in an index, which two processes may read
    before either has written it.
    """
    with _compiling:
        file, collects = -1, gc.isenabled()
        gc.disable()
        try:
            if fcntl is not None:
                file = _lock_file()
                fcntl.lockf(file, fcntl.LOCK_EX)
        except OSError as error:
            log.info("no lock for compiling: %s", error)
            file = -1
        try:
            yield
        finally:
            if file >= 0:
                fcntl.lockf(file, fcntl.LOCK_UN)
            if collects:
                gc.enable()


def _with_room(function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    return function(*arguments)


# CPython keeps frames in chunks of 16 KB, and gives a chunk back when its last frame returns. If
# deep calls, such as a compiler's, cross the end of a chunk repeatedly, each takes several times as
# long. A larger frame gets a chunk with room for all frames above it.
_with_room.__code__ = _with_room.__code__.replace(co_stacksize=70_000)


class _Linked(JITCodeLibrary):
    """The code of an inner function, optimised and translated only as a part of its callers."""

    @property
    def codegen(self) -> _Linked:
        """The object that numba asks to fill in the environment of a function."""
        return self

    def set_env(self, name: str, env: Any) -> None:
        """Leave the environment empty: only errors with their own message would need it."""

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
    """Stop the timer, and record, while a call loads, compiles or stores code."""
    prepare, function = dispatcher._compile_for_args, dispatcher.py_func

    def stopped(*arguments: Any) -> Any:
        clock.compiling_begins()
        try:
            with _alone():
                began = clock.compile_seconds()
                before = sum(dispatcher.stats.cache_misses.values())
                if is_watched() and not dispatcher._cache._cache_file._load_index():
                    announce()
                found = _with_room(prepare, arguments)
                if sum(dispatcher.stats.cache_misses.values()) > before:
                    seconds = clock.compile_seconds() - began
                    record = Compiled(function.__module__, function.__qualname__, seconds)
                    log.info("compiled %s.%s in %.2f s", *record)
                    for listed in _records:
                        listed.append(record)
                return found
        finally:
            clock.compiling_ends()

    dispatcher._compile_for_args = stopped
    return dispatcher


def compiled(
    *, inner: bool = False, allocates: bool = False, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """Compile a function at its first call, and store the code; 1/0 is infinite, as in numpy."""
    options.setdefault("error_model", "numpy")

    def decorate(function: Callable[..., Any]) -> Any:
        version = tuple(int(part) for part in numba.__version__.split(".")[:2])
        if not TESTED[0] <= version <= TESTED[1]:
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
        # numba's key of stored code lacks the options.
        key = found._cache._index_key
        found._cache._index_key = lambda *of: (*key(*of), repr(sorted(settings.items())))
        return _prepared(found)

    return decorate


def _prefetch(context: Any, array: Any, index: Any) -> Any:
    """Ask memory for an entry of an array, inside compiled functions."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(array)(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = cgutils.int32_t
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        instruction = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # The numbers stand for a read, for all levels of the cache, and for data.
        builder.call(instruction, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return numba.types.none(array, index), build


prefetch: Any = (lambda array, index: None) if numba.config.DISABLE_JIT else intrinsic(_prefetch)
