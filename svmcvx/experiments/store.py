"""Finished rows on disk, and work by several processes, threads, or the workers of a Dask cluster.

The store is one SQLite file for comparisons, searches and studies. Several processes can write to
it at the same time, and each can be killed at any moment: in SQLite's write-ahead mode a row is one
transaction, on disk when :meth:`Store.add` returns, and the next process to open the file recovers
it. The mode needs a local file system, not a network file system.
"""

from __future__ import annotations

import json
import logging
import math
import multiprocessing
import os
import pickle
import sqlite3
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final, Generic, Protocol, Self, TypeAlias, TypeVar

import joblib
import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import BrokenProcessPool
from joblib.parallel import get_active_backend

from svmcvx.errors import DataError, DataTypeError, SvmcvxError, missing_extra
from svmcvx.system.deadline import Deadline

log = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]
# A function with its arguments.
Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

# The status of work that failed.
FAILED: Final = "failed"
# Result of work that ended its process, and the note of its row.
DIED: Final = object()
DIED_NOTE: Final = "its process died, killed or out of memory"
# "SVMC": the application number of our SQLite files.
APPLICATION: Final = 0x53564D43
# Seconds that a writer waits for others.
PATIENCE: Final = 60.0
# Seconds that a Dask scheduler, and its workers, are waited for.
SCHEDULER_PATIENCE, WORKERS_PATIENCE = 30.0, 120.0
# Number of keys in one query, below SQLite's limit on the parameters of a statement.
CHUNK: Final = 500


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: numbers that are not finite become null, other objects
    their text.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return " ".join(repr(value).split())


def fingerprint(*parts: Any) -> str:
    """Return a key for the values that a row depends on: equal values, equal key."""
    try:
        return str(joblib.hash(parts))
    except (pickle.PicklingError, AttributeError) as error:
        raise DataError(
            f"store cannot tell these parameters again ({error}); use functions of a module"
        ) from None


class Store:
    """Rows on disk, found again by their key."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        if self.path.is_dir():
            raise DataError(
                f"store must be a file, and {self.path} is a folder; name a file in it, as in"
                f" {self.path}/rows.sqlite"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"store cannot be used: {error}") from None
        if self.path.exists():
            self._open()

    def _open(self) -> sqlite3.Connection:
        # A connection must not be carried into a forked process, not even to be closed there.
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        self._process = os.getpid()
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._connection = self._connected()
                return self._connection
            except sqlite3.OperationalError as error:
                # The change to the write-ahead mode does not wait for another process.
                busy = error.sqlite_errorname in ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY")
                if not busy or time.monotonic() > end:
                    raise DataError(f"store {self.path} cannot be opened ({error})") from None
                time.sleep(0.01)
            except sqlite3.DatabaseError as error:
                raise DataError(
                    f"{self.path} was not written by svmcvx ({error}); pass another file"
                ) from None

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)

        def first(query: str) -> int:
            return int(connection.execute(query).fetchone()[0])

        try:
            if first("PRAGMA application_id") != APPLICATION:
                tables = first("SELECT count(*) FROM sqlite_master")
                # Another process may have made the table in the meantime.
                if tables and first("PRAGMA application_id") != APPLICATION:
                    raise sqlite3.DatabaseError("it holds other tables")
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("BEGIN IMMEDIATE")
                connection.execute(f"PRAGMA application_id = {APPLICATION}")
                connection.execute(
                    "CREATE TABLE IF NOT EXISTS rows (number INTEGER PRIMARY KEY, key TEXT UNIQUE"
                    " NOT NULL, kind TEXT NOT NULL, row TEXT NOT NULL)"
                )
                connection.execute("COMMIT")
            # A commit is on the disk, not with the system only.
            connection.execute("PRAGMA synchronous = FULL")
        except BaseException:
            connection.close()
            raise
        return connection

    def close(self) -> None:
        if self._connection is not None and self._process == os.getpid():
            self._connection.close()
        self._connection = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _select(self, query: str, values: Iterable[Any] = ()) -> list[tuple[Any, ...]]:
        if self._connection is None and not self.path.exists():
            return []
        try:
            return self._open().execute(query, tuple(values)).fetchall()
        except sqlite3.DatabaseError as error:
            raise DataError(f"store {self.path} cannot be read ({error})") from None

    def __len__(self) -> int:
        return sum(count for (count,) in self._select("SELECT count(*) FROM rows"))

    def found(self, keys: Iterable[str]) -> dict[str, Row]:
        """Return the stored rows of these keys."""
        wanted, rows = list(keys), {}
        for start in range(0, len(wanted), CHUNK):
            part = wanted[start : start + CHUNK]
            marks = ", ".join("?" * len(part))
            query = f"SELECT key, row FROM rows WHERE key IN ({marks})"  # noqa: S608 - marks only
            rows.update({key: json.loads(row) for key, row in self._select(query, part)})
        return rows

    def items(self, kind: str | None = None) -> Iterator[tuple[str, Row]]:
        """Yield keys and rows, in the order in which they were added; of one kind, or of all."""
        query = "SELECT key, row FROM rows WHERE kind = coalesce(?, kind) ORDER BY number"
        for key, row in self._select(query, (kind,)):
            yield key, json.loads(row)

    def add(self, key: str, row: Mapping[str, Any], kind: str = "", *, again: bool = False) -> None:
        """Write a row, on disk when this returns; an older row of the key stays, unless `again`."""
        replaced = "UPDATE SET kind = excluded.kind, row = excluded.row" if again else "NOTHING"
        query = f"""INSERT INTO rows (key, kind, row) VALUES (?, ?, ?)
            ON CONFLICT (key) DO {replaced}"""  # noqa: S608 - words of our own
        try:
            self._open().execute(query, (key, kind, json.dumps(plain(row))))
        except sqlite3.DatabaseError as error:
            raise DataError(f"store {self.path} cannot be written ({error})") from None


# Progress


@contextmanager
def progress_bar(
    wanted: bool, what: str, total: int, done: int = 0
) -> Iterator[Callable[[], None]]:
    """Show a bar with an estimate of the time left on the standard error; yield the function that
    advances it.
    """
    if not wanted:
        yield lambda: None
        return
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        raise missing_extra("rich", "cli") from None
    console = Console(stderr=True)
    # On a console that cannot draw, rich leaves an empty line.
    hidden = not (console.is_terminal or console.is_jupyter)
    # The estimate uses all finished work: a piece may take longer than rich's half a minute.
    with Progress(
        console=console, transient=True, speed_estimate_period=math.inf, disable=hidden
    ) as bar:
        task = bar.add_task(what, total=total, completed=done)
        yield lambda: bar.advance(task)


def progress_lines(wanted: bool, left: Iterable[str], done: int) -> Callable[[str], None]:
    """Return the function to call with the group of each finished task; without a terminal it
    writes a line when a group is finished.
    """
    counts = Counter(left)
    whole, total, finished = Counter(counts), counts.total() + done, done
    drawn = (
        sys.stderr is None
        or sys.stderr.isatty()
        or type(sys.stderr).__module__.startswith("ipykernel")
    )

    def advance(group: str) -> None:
        nonlocal finished
        finished += 1
        counts[group] -= 1
        if counts[group] == 0 and wanted and not drawn:
            sys.stderr.write(
                f"svmcvx: {group}: {whole[group]} tasks done; {finished} of {total} in all\n"
            )
            sys.stderr.flush()

    return advance


# Workers


def is_dask(backend: str | None) -> bool:
    """Whether a backend is a Dask cluster, whose workers may be on other machines."""
    return isinstance(backend, str) and (backend == "dask" or ":" in backend)


@contextmanager
def workers(backend: str | None, n_jobs: int | None) -> Iterator[joblib.Parallel | None]:
    """Give the runner of parallel work; None for sequential work in this process."""
    if backend is not None and not isinstance(backend, str):
        raise DataTypeError(f"backend must be a string or None, got {type(backend).__name__}")
    if not is_dask(backend):
        try:
            count = joblib.effective_n_jobs(n_jobs)
            with joblib.parallel_config(backend) if backend else joblib.parallel_config():
                found = get_active_backend()[0]
        except ValueError as error:
            if n_jobs == 0:
                raise DataError("n_jobs must not be 0, got 0; pass -1 for all cores") from None
            raise DataError(
                "backend must be one of joblib's, such as 'loky' or 'threading', 'dask', or an"
                f" address such as 'tcp://10.0.0.1:8786', got {backend!r} ({error})"
            ) from None
        order = "generator_unordered" if found.supports_return_generator else "list"
        yield (
            None
            if count == 1
            else joblib.Parallel(n_jobs=n_jobs, backend=backend, return_as=order, batch_size=1)
        )
        return
    try:
        from distributed import Client
    except ImportError:
        raise missing_extra("distributed", "dask") from None
    try:
        client = None if backend == "dask" else Client(backend, timeout=SCHEDULER_PATIENCE)
    except (OSError, ValueError) as error:
        raise DataError(
            f"no Dask scheduler answers at {backend} ({error}); check the address"
        ) from None
    try:
        with joblib.parallel_config("dask", wait_for_workers_timeout=WORKERS_PATIENCE):
            yield joblib.Parallel(
                n_jobs=-1 if n_jobs is None else n_jobs,
                return_as="generator_unordered",
                batch_size=1,
            )
    finally:
        if client is not None:
            client.close()


@cache
def _end_with_parent(process: int) -> None:
    """Start the thread that ends this worker of joblib when its parent is gone."""
    if not type(multiprocessing.current_process()).__module__.startswith("joblib.externals.loky"):
        return
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name=f"parent of {process}").start()


def results(
    work: Mapping[Any, Call], parallel: joblib.Parallel | None
) -> Generator[tuple[Any, Any]]:
    """Do work; yield the key of each piece and its result as soon as it is done."""
    if parallel is None:
        for key, (function, arguments) in work.items():
            yield key, function(*arguments)
        return
    left = dict(work)
    while left:
        sent: list[Any] = []
        try:
            with closing(_iterated(parallel(_calls(left, sent)))) as found:
                for key, result in found:
                    del left[key]
                    yield key, result
        except Exception as error:
            # Dask tries several workers before it gives up.
            names = ("KilledWorker", "FutureCancelledError")
            if not isinstance(error, BrokenProcessPool) and type(error).__name__ not in names:
                raise
            for key in [key for key in sent if key in left]:
                yield key, _alone(left.pop(key))
            continue
        return


def _iterated(found: Any) -> Generator[tuple[Any, Any]]:
    if isinstance(found, Generator):
        return found
    return (pair for pair in found)


def _calls(work: Mapping[Any, Call], sent: list[Any]) -> Iterator[Any]:
    for key, (function, arguments) in list(work.items()):
        sent.append(key)
        yield joblib.delayed(_keyed)(key, function, arguments)


def _keyed(key: Any, function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, Any]:
    """Do a piece of work in another process or thread."""
    _end_with_parent(os.getpid())
    return key, function(*arguments)


def _alone(call: Call) -> Any:
    """Do a piece of work in a process of its own; its end ends nothing else."""
    with ProcessPoolExecutor(max_workers=1) as executor:
        try:
            return executor.submit(_keyed, None, *call).result()[1]
        except BrokenProcessPool:
            return DIED


# Tasks


def failed(error: BaseException | str) -> Row:
    """Return the text of a row about failed work."""
    own = isinstance(error, (str, SvmcvxError))
    text = str(error) if own else f"{type(error).__name__}: {error}"
    return {"status": FAILED, "note": " ".join(text.split())[:500]}


class Work(Protocol):
    """A task: a row of a table."""

    @property
    def key(self) -> str: ...

    @property
    def repeat(self) -> int: ...

    @property
    def group(self) -> str: ...

    def run(self, *data: Any) -> Row | None:
        """Return the row; None if the time ran out before it was done."""

    def empty_row(self) -> Row:
        """Return the row before anything is known."""


T = TypeVar("T", bound=Work)


class Running(Generic[T]):
    """Tasks, and the rows that are finished."""

    def __init__(
        self,
        work: Sequence[T],
        data: Callable[[T], tuple[Any, ...]],
        store: Path | None,
        kind: str,
        *,
        done: Callable[[Row], bool],
        again: bool = False,
    ) -> None:
        self.work, self.data, self.kind, self.again = work, data, kind, again
        self.store = None if store is None else Store(store)
        found = {} if self.store is None else self.store.found(task.key for task in work)
        self.rows = {key: row for key, row in found.items() if done(row)}
        self.reused = len(self.rows)

    def do(
        self, backend: str | None, n_jobs: int | None, progress: bool, deadline: Deadline
    ) -> bool:
        """Run all tasks that are not stored; return whether they were done to the end."""
        complete = self._do(backend, n_jobs, progress)
        if not complete:
            warn_incomplete(
                deadline,
                f"{len(self.rows)} of {len(self.work)} tasks: the result holds these",
                self.store is not None,
            )
        return complete

    def _do(self, backend: str | None, n_jobs: int | None, progress: bool) -> bool:
        keys = {task.key for task in self.work}
        todo = {task.key: task for task in self.work if task.key not in self.rows}
        if self.store is not None:
            # Each process shuffles the tasks of a repeat differently: several processes on one
            # store then seldom run the same task.
            order = np.random.default_rng(os.getpid()).permutation(len(todo))
            tasks = list(todo.values())
            tasks = [tasks[k] for k in sorted(order, key=lambda k: tasks[k].repeat)]
            todo = {task.key: task for task in tasks}
        calls = {key: (task.run, self.data(task)) for key, task in todo.items()}
        finished = progress_lines(progress, (task.group for task in todo.values()), len(self.rows))
        with (
            workers(backend, n_jobs) as parallel,
            progress_bar(progress, "tasks", len(keys), len(self.rows)) as advance,
        ):
            try:
                for key, row in results(calls, parallel):
                    task = todo[key]
                    if row is DIED:
                        row = {**task.empty_row(), **failed(DIED_NOTE), "seconds": None}
                    if row is not None:
                        if self.store is not None:
                            self.store.add(key, row, self.kind, again=self.again)
                        self.rows[key] = row
                        log.info("%s: %s %s", task, row["status"], row["note"] or "")
                        advance()
                        finished(task.group)
            except KeyboardInterrupt:
                pass
            finally:
                if self.store is not None:
                    self.store.close()
        return len(self.rows) == len(keys)


def warn_incomplete(deadline: Deadline, what: str, stored: bool) -> None:
    """Warn that a call returns a part of the result."""
    why = "the time limit passed" if deadline.passed() else "interrupted"
    advice = "" if stored else "; pass a file as store to go on from there next time"
    warnings.warn(f"{why} after {what}{advice}", stacklevel=4)
