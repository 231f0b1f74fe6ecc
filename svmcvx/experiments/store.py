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
import os
import pickle
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from functools import cache
from multiprocessing import current_process
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias, TypeVar

import joblib
import psutil
from joblib.externals.loky import ProcessPoolExecutor
from joblib.externals.loky.process_executor import BrokenProcessPool
from joblib.parallel import LokyBackend, SequentialBackend, ThreadingBackend, get_active_backend

import svmcvx
from svmcvx.errors import DataError, SvmcvxError, optional
from svmcvx.system.deadline import current, epoch_end

log = logging.getLogger(__name__)

Row: TypeAlias = dict[str, Any]

# The status of work that failed.
FAILED: Final = "failed"
# Number of the form of rows, a part of every key: rows of another form are computed again.
FORM: Final = 5
# Backends of joblib whose workers are on this machine.
LOCAL: Final = (LokyBackend, SequentialBackend, ThreadingBackend)
# "SVMC": the application number of our SQLite files.
APPLICATION: Final = 0x53564D43
# Seconds that a writer waits for others, and seconds between lines of progress.
PATIENCE: Final = 60.0
LINE_SECONDS: Final = 60.0


def plain(value: Any) -> Any:
    """Return a value for JSON: null for numbers that are not finite, text for other objects."""
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
        return str(joblib.hash((FORM, svmcvx.__version__, *parts)))
    except (pickle.PicklingError, AttributeError) as error:
        raise DataError(
            f"store cannot tell these parameters again ({error}); use functions of a module"
        ) from None


def failed(error: BaseException | str) -> Row:
    """Return the entries of a row about failed work."""
    own = isinstance(error, (str, SvmcvxError))
    text = str(error) if own else f"{type(error).__name__}: {error}"
    return {"status": FAILED, "note": " ".join(text.split())[:500]}


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
        self._process, end = os.getpid(), time.monotonic() + PATIENCE
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
                connection.execute("COMMIT")
            # Files of version 0.3 have another table, of rows of another form.
            connection.execute(
                "CREATE TABLE IF NOT EXISTS finished (number INTEGER PRIMARY KEY, key TEXT UNIQUE"
                " NOT NULL, row TEXT NOT NULL)"
            )
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

    def _select(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        if self._connection is None and not self.path.exists():
            return []
        try:
            return self._open().execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise DataError(f"store {self.path} cannot be read ({error})") from None

    def __len__(self) -> int:
        return sum(count for (count,) in self._select("SELECT count(*) FROM finished"))

    def found(self, keys: Iterable[str]) -> dict[str, Row]:
        query = "SELECT key, row FROM finished WHERE key IN (SELECT value FROM json_each(?))"
        rows = self._select(query, json.dumps(list(keys)))
        return {key: json.loads(row) for key, row in rows}

    def add(self, key: str, row: Mapping[str, Any], *, again: bool = False) -> None:
        """Write a row, but for entries ``_…``, to disk; an older one stays unless `again`."""
        older = "UPDATE SET row = excluded.row" if again else "NOTHING"
        query = f"""INSERT INTO finished (key, row) VALUES (?, ?)
            ON CONFLICT (key) DO {older}"""  # noqa: S608 - words of our own
        kept = {name: value for name, value in row.items() if not name.startswith("_")}
        try:
            self._open().execute(query, (key, json.dumps(plain(kept))))
        except sqlite3.DatabaseError as error:
            raise DataError(f"store {self.path} cannot be written ({error})") from None


@contextmanager
def progress_bar(wanted: bool, what: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar of progress on the standard error, or lines where that is no terminal; yield the
    function that advances it.
    """
    if not wanted:
        yield lambda: None
        return
    console = optional("rich.console", "cli").Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        # The estimate uses all finished work: a piece may take longer than rich's half a minute.
        with optional("rich.progress", "cli").Progress(
            console=console, transient=True, speed_estimate_period=math.inf
        ) as bar:
            task = bar.add_task(what, total=total)
            yield lambda: bar.advance(task)
        return
    done, ended, started = list[None](), threading.Event(), time.monotonic()

    def report() -> None:
        while not ended.wait(LINE_SECONDS):
            minutes = (time.monotonic() - started) / 60
            console.print(f"{len(done)} of {total} {what} in {minutes:.0f} min")

    thread = threading.Thread(target=report, daemon=True, name="progress")
    thread.start()
    try:
        yield lambda: done.append(None)
    finally:
        ended.set()
        thread.join()


# Workers


def workers(n_jobs: int | None) -> tuple[joblib.Parallel | None, bool]:
    """Return the runner of joblib's active backend, None for sequential work in this process, and
    whether its workers are on this machine.
    """
    try:
        count = joblib.effective_n_jobs(n_jobs)
    except ValueError:
        raise DataError("n_jobs must not be 0, got 0; pass -1 for all cores") from None
    backend = get_active_backend()[0]
    order = "generator_unordered" if backend.supports_return_generator else "list"
    parallel = joblib.Parallel(n_jobs, return_as=order, batch_size=1)
    return None if count == 1 else parallel, isinstance(backend, LOCAL)


@cache
def _end_with_parent(process: int) -> None:
    """Start the thread that ends this worker of joblib when its parent is killed."""
    if not type(current_process()).__module__.startswith("joblib.externals.loky"):
        return
    # On Windows the number of the parent stays when it has ended.
    parent = psutil.Process(os.getppid())

    def watch() -> None:
        while os.getppid() == parent.pid and parent.is_running():
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name=f"parent of {process}").start()


# Tasks


class Task(Protocol):
    """A piece of work, with its data, that makes one row for each of its keys."""

    @property
    def keys(self) -> Sequence[str]: ...

    def empty_row(self) -> Row:
        """Return a row before anything is known."""

    def rows(
        self, keys: Sequence[str], end: float, shared: dict[Any, Any]
    ) -> Iterator[tuple[str, Row]]:
        """Yield some keys and their rows; fewer if the time runs out, at `end` since the epoch.

        `shared` is one for all tasks of a sequential run.
        """


T = TypeVar("T", bound=Task)


def collected(
    tasks: Sequence[Task],
    path: str | os.PathLike[str] | None,
    what: str,
    progress: bool,
    *,
    n_jobs: int | None = None,
    usable: Callable[[Row], bool] = lambda row: True,
    again: bool = False,
    partial: bool = False,
) -> tuple[dict[str, Row], int, bool]:
    """Do tasks under a progress bar; return the rows by key, those that a limit has cut short if
    `partial`, the number of stored ones, and whether all are there; warn if not.
    """
    rows: dict[str, Row] = {}
    reused, size, left = 0, sum(len(task.keys) for task in tasks), list[tuple[Task, list[str]]]()
    opened = nullcontext() if path is None else closing(Store(path))
    bar, until_ctrl_c = progress_bar(progress, what, size), suppress(KeyboardInterrupt)
    with bar as advance, opened as store, until_ctrl_c:
        stored = {} if store is None else store.found(key for task in tasks for key in task.keys)
        for task in tasks:
            known = {key: stored[key] for key in task.keys if key in stored and usable(stored[key])}
            rows.update(known)
            reused += len(known)
            for _ in known:
                advance()
            if missing := [key for key in task.keys if key not in known]:
                left.append((task, missing))
        parallel, here = workers(n_jobs)
        # Workers on other machines have no such file.
        file = store.path if store is not None and here and not again else None
        run = _in_turn(left, file) if parallel is None else _by_workers(left, file, parallel)
        with closing(run):
            for one, key, row in run:
                log.info("%s: %s %s", one, row["status"], row["note"] or "")
                short = row.pop("_unfinished", False)
                if store is not None and not short:
                    store.add(key, row, again=again)
                if partial or not short:
                    rows[key] = row
                    advance()
    # Several tasks may have one key.
    done = sum(key in rows for task in tasks for key in task.keys)
    if done < size:
        why = "the time limit passed" if current().remaining == 0 else "interrupted"
        advice = "pass store='rows.sqlite' to go on from there next time"
        advice = advice if path is None else "the same call goes on from there"
        warnings.warn(
            f"{why} after {done} of {size} {what}: the result holds these; {advice}", stacklevel=4
        )
    return rows, reused, done == size


Left: TypeAlias = "Sequence[tuple[T, list[str]]]"


def _in_turn(left: Left[T], file: Path | None) -> Generator[tuple[T, str, Row]]:
    shared: dict[Any, Any] = {}
    for task, keys in left:
        yield from ((task, *one) for one in _rows(task, keys, file, math.inf, shared))


def _by_workers(
    left: Left[T], file: Path | None, parallel: joblib.Parallel
) -> Generator[tuple[T, str, Row]]:
    """Do tasks in other processes or threads; one whose process dies is done again alone."""
    end = epoch_end(current())
    calls: dict[int, tuple[Any, ...]] = {
        k: (k, task, keys, file, end, {}) for k, (task, keys) in enumerate(left)
    }
    while calls:
        sent: list[int] = []
        try:
            # Closing the generator ends the calls that are left.
            with closing(_answers(parallel, list(calls.values()), sent)) as answers:
                for number, rows in answers:
                    del calls[number]
                    yield from ((left[number][0], key, row) for key, row in rows)
        except Exception as error:
            # Dask tries several workers before it gives up.
            names = ("KilledWorker", "FutureCancelledError")
            if not isinstance(error, BrokenProcessPool) and type(error).__name__ not in names:
                raise
            for number in [number for number in sent if number in calls]:
                task, keys = left[number]
                # A process of its own, whose end ends nothing else.
                with ProcessPoolExecutor(max_workers=1) as executor:
                    try:
                        _, rows = executor.submit(_listed, *calls.pop(number)).result()
                    except BrokenProcessPool:
                        died = failed("its process died, killed or out of memory")
                        rows = [(key, {**task.empty_row(), **died}) for key in keys]
                yield from ((task, key, row) for key, row in rows)


def _answers(
    parallel: joblib.Parallel, work: Sequence[tuple[Any, ...]], sent: list[int]
) -> Generator[tuple[int, list[tuple[str, Row]]]]:
    """Yield what workers return; `sent` takes the numbers of the calls that have begun."""

    def calls() -> Iterator[Any]:
        for call in work:
            sent.append(call[0])
            yield joblib.delayed(_listed)(*call)

    yield from parallel(calls())


def _listed(number: int, *arguments: Any) -> tuple[int, list[tuple[str, Row]]]:
    _end_with_parent(os.getpid())
    return number, list(_rows(*arguments))


def _rows(
    task: Task, keys: Sequence[str], file: Path | None, end: float, shared: dict[Any, Any]
) -> Iterator[tuple[str, Row]]:
    """Yield the rows of a task, also those that another process has stored in the meantime; each is
    written to the file at once.
    """
    with nullcontext() if file is None else closing(Store(file)) as store:
        known: dict[str, Row] = {}
        if store is not None:
            stored = store.found(keys).items()
            known = {key: row for key, row in stored if row["status"] != FAILED}
        yield from known.items()
        for key, row in task.rows([key for key in keys if key not in known], end, shared):
            if store is not None and not row.get("_unfinished"):
                store.add(key, row)
            yield key, row
