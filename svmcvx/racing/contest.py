"""A solver in its own process: its clock, its threads, and what it hands over."""

from __future__ import annotations

import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import IO, Any, Final, NamedTuple

from joblib import wrap_non_picklable_objects

from svmcvx.racing.entry import Entry
from svmcvx.racing.tasks import Task

__all__ = ["Handed", "contest", "serve"]

# Seconds for the start of a process, its imports and the call that is not timed, and beyond the limit for the last model.
START, GRACE = 120.0, 10.0
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
MODEL, ERROR, END = "model", "error", "end"


class Handed(NamedTuple):
    """What a solver has handed over.

    Attributes
    ----------
    repeat : int
    budget : object
        What it was called with; for a generator the number of the model.
    seconds : float
        On its clock.
    model : object
        None where there is none.
    error : str
        Why there is none.
    """

    repeat: int
    budget: Any
    seconds: float
    model: Any
    error: str


def contest(entry: Entry, task: Task, *, seconds: float, repeats: int, threads: int) -> Iterator[Handed]:
    """Run a solver in its own process and yield what it hands over.

    Parameters
    ----------
    entry : Entry
    task : Task
    seconds : float
        On the clock of each repeat.
    repeats : int
    threads : int
        That libraries may use: told to the process by the variables that they read when they are loaded.
    """
    payload = _packed((sys.path, entry, task, seconds, repeats, threads))
    environment = os.environ | dict.fromkeys(THREADS, str(threads))
    command = [sys.executable, "-c", "from svmcvx.racing.contest import serve; serve()"]
    environment["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(path for path in sys.path if path))
    process = subprocess.Popen(  # noqa: S603 - this Python and nothing else
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    messages: queue.Queue[tuple[Any, ...] | None] = queue.Queue()
    try:
        assert process.stdin is not None  # noqa: S101 - a pipe
        assert process.stdout is not None  # noqa: S101
        threading.Thread(target=_reader, args=(process.stdout, messages), daemon=True).start()
        try:
            process.stdin.write(payload)
            process.stdin.close()
        except OSError:
            pass  # the end of the process is told below
        patience = START + seconds
        while True:
            try:
                message = messages.get(timeout=patience)
            except queue.Empty:
                yield Handed(0, None, float("inf"), None, f"no model within {patience:.0f} s; it was ended")
                return
            if message is None:
                yield Handed(0, None, float("inf"), None, f"its process ended (code {process.wait()})")
                return
            if message[0] == END:
                return
            yield Handed(*message[1:])
            patience = seconds + GRACE
    finally:
        process.kill()
        process.wait()


def _packed(content: Any) -> bytes:
    """Return what another process can load, functions and classes of scripts and notebooks included."""
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
    """Run the solver that comes through the standard input; hand its models over through the standard output."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        path, entry, task, seconds, repeats, threads = pickle.loads(sys.stdin.buffer.read())  # noqa: S301 - of our parent
        sys.path[:] = path

        def send(*message: Any) -> None:
            content = _packed(message)
            out.write(LENGTH.pack(len(content)) + content)
            out.flush()

        try:
            from threadpoolctl import threadpool_limits

            with threadpool_limits(threads):
                given = task if entry.prepare is None else entry.prepare(task)
                _warm_up(entry, given)
                for repeat in range(repeats):
                    for budget, spent, model in _timed(entry, given, seconds):
                        send(MODEL, repeat, budget, spent, model, "")
        except Exception as error:  # whatever a solver raises is its result
            send(ERROR, 0, None, float("inf"), None, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        send(END)


def _warm_up(entry: Entry, given: Any) -> None:
    """Call the solver once for what is loaded and compiled at the first call."""
    if entry.yields:
        models = entry.solve(given)
        next(models, None)
        models.close()
    else:
        entry.solve(given, entry.budgets[0])


def _timed(entry: Entry, given: Any, seconds: float) -> Iterator[tuple[Any, float, Any]]:
    """Yield budget, seconds and model; the clock stands still while a model is handed over."""
    spent = 0.0
    if entry.yields:
        models = entry.solve(given)
        number = 0
        while spent < seconds:
            started = time.perf_counter()
            model = next(models, None)
            spent += time.perf_counter() - started
            if model is None:
                return
            number += 1
            yield number, spent, model
        models.close()
        return
    for budget in entry.budgets:
        started = time.perf_counter()
        model = entry.solve(given, budget)
        own = time.perf_counter() - started
        spent += own
        if own <= seconds:
            yield budget, own, model
        if spent >= seconds:
            return
