"""A solver in its own process: its clock, its threads, and what it hands over."""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import IO, Any, Final, NamedTuple

from joblib import wrap_non_picklable_objects

from benchmarks.referee.racing.entry import Entry
from benchmarks.referee.racing.tasks import Task

__all__ = ["CLOCKS", "Handed", "contest", "serve"]

# Seconds for the call that is not timed.
START: Final = 60.0
# Seconds by the wall clock without a message after which a process is ended that does not end
# itself: for its imports, and in multiples of the limit.
PATIENCE, PATIENCE_TIMES = 120.0, 10.0
# Shares of the limit after which a call is ended.
LONGEST: Final = 1.05
LENGTH: Final = struct.Struct("<Q")
THREADS: Final = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
)
# Kinds of messages; what solvers print goes nowhere.
REPEAT, MODEL, ERROR, END = "repeat", "model", "error", "end"


def _processor_time() -> float:
    """Return the processor time of this process, of all its threads, and of the processes that it
    has started and waited for.
    """
    others = os.times()
    return time.process_time() + others.children_user + others.children_system


# What a clock reads, and the timer and signal of the system that end a process by it.
CLOCKS: Final[dict[str, tuple[Callable[[], float], str, str]]] = {
    "wall": (time.perf_counter, "ITIMER_REAL", "SIGALRM"),
    "processor": (_processor_time, "ITIMER_PROF", "SIGPROF"),
}


class Handed(NamedTuple):
    """What a solver has handed over."""

    repeat: int
    budget: Any
    seconds: float
    model: Any
    error: str


def contest(
    entry: Entry, task: Task, *, seconds: float, repeats: int, threads: int, clock: str = "wall"
) -> Iterator[Handed]:
    """Run a solver in its own process and yield what it hands over."""
    first = 0
    while first < repeats:
        last = yield from _process(entry, task, seconds, range(first, repeats), threads, clock)
        if last is None:
            return
        first = last + 1


def _process(
    entry: Entry, task: Task, seconds: float, repeats: range, threads: int, clock: str
) -> Generator[Handed, None, int | None]:
    """Yield what one process hands over; return the repeat in which its time was over, None if it
    ended otherwise.
    """
    payload = _packed((sys.path, entry, task, seconds, repeats, threads, clock))
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    command = [sys.executable, "-c", "from benchmarks.referee.racing.contest import serve; serve()"]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in sys.path if path))
    process = subprocess.Popen(  # noqa: S603 - this Python and nothing else
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )
    messages: queue.Queue[tuple[Any, ...] | None] = queue.Queue()
    repeat: int | None = None
    over = getattr(signal, CLOCKS[clock][2], None)
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        threading.Thread(target=_reader, args=(process.stdout, messages), daemon=True).start()
        try:
            process.stdin.write(payload)
            process.stdin.close()
        except OSError:
            pass  # the end of the process is told below
        patience = PATIENCE + PATIENCE_TIMES * START
        while True:
            try:
                message = messages.get(timeout=patience)
            except queue.Empty:
                yield Handed(
                    0, None, float("inf"), None, f"no model within {patience:.0f} s; it was ended"
                )
                return repeat
            if message is None:
                code = process.wait()
                if over is None or code != -over:
                    yield Handed(0, None, float("inf"), None, f"its process ended (code {code})")
                    return None
                if repeat is None:
                    yield Handed(
                        0,
                        None,
                        float("inf"),
                        None,
                        f"its first call took longer than {START:.0f} s",
                    )
                return repeat
            if message[0] == END:
                return None
            if message[0] == REPEAT:
                repeat = message[1]
            else:
                yield Handed(*message[1:])
            patience = PATIENCE + PATIENCE_TIMES * seconds
    finally:
        process.kill()
        process.wait()


def _packed(content: Any) -> bytes:
    """Return what another process can load, functions and classes of scripts and notebooks
    included.
    """
    return pickle.dumps(wrap_non_picklable_objects(content, keep_wrapper=False))


def _reader(stream: IO[bytes], messages: queue.Queue[tuple[Any, ...] | None]) -> None:
    while True:
        head = stream.read(LENGTH.size)
        content = stream.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else b""
        if not content:
            messages.put(None)
            return
        message = pickle.loads(content)  # noqa: S301 - of a process that we started
        messages.put(message)


def serve() -> None:
    """Run the solver that comes through the standard input; hand its models over through the
    standard output.
    """
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        path, entry, task, seconds, repeats, threads, clock = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - of our parent
        sys.path[:] = path
        watch = _Watch(clock)

        def send(*message: Any) -> None:
            content = _packed(message)
            out.write(LENGTH.pack(len(content)) + content)
            out.flush()

        try:
            from threadpoolctl import threadpool_limits

            with threadpool_limits(threads):
                given = task if entry.prepare is None else entry.prepare(task)
                _warm_up(entry, given, watch)
                for repeat in repeats:
                    send(REPEAT, repeat)
                    for budget, spent, model in _timed(entry, given, seconds, watch):
                        send(MODEL, repeat, budget, spent, model, "")
        except Exception as error:  # whatever a solver raises is its result
            send(
                ERROR,
                0,
                None,
                float("inf"),
                None,
                f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
            )
        send(END)


class _Watch:
    """A clock, and the system's timer by the same clock, which ends the process in whatever code it
    is.
    """

    def __init__(self, clock: str) -> None:
        self._read, timer, end = CLOCKS[clock]
        self._timer = getattr(signal, timer, None)
        if self._timer is not None:
            signal.signal(getattr(signal, end), signal.SIG_DFL)

    def call(
        self, function: Callable[..., Any], *arguments: Any, limit: float
    ) -> tuple[Any, float]:
        """Return what a function returns and the seconds that it took; the process ends where they
        are more than the limit.
        """
        if self._timer is not None:
            signal.setitimer(self._timer, limit)
        started = self._read()
        result = function(*arguments)
        spent = self._read() - started
        if self._timer is not None:
            signal.setitimer(self._timer, 0.0)
        return result, spent


def _warm_up(entry: Entry, given: Any, watch: _Watch) -> None:
    """Call the solver once for what is loaded and compiled at the first call."""
    if entry.yields:
        models = entry.solve(given)
        watch.call(next, models, None, limit=START)
        models.close()
    else:
        watch.call(entry.solve, given, entry.budgets[0], limit=START)


def _timed(
    entry: Entry, given: Any, seconds: float, watch: _Watch
) -> Iterator[tuple[Any, float, Any]]:
    """Yield budget, seconds and model; the clock stands still while a model is handed over."""
    spent, longest = 0.0, LONGEST * seconds
    if entry.yields:
        models = entry.solve(given)
        number = 0
        while spent < seconds:
            model, own = watch.call(next, models, None, limit=longest - spent)
            spent += own
            if model is None:
                return
            number += 1
            yield number, spent, model
        models.close()
        return
    for budget in entry.budgets:
        model, own = watch.call(entry.solve, given, budget, limit=longest)
        spent += own
        if own <= seconds:
            yield budget, own, model
        if spent >= seconds:
            return
