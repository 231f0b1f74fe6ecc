"""Store of finished rows of comparisons, searches and studies: one SQLite file for all.

Several processes can write to one store at the same time, and each can be killed at any moment.
SQLite in its write-ahead mode is made for this: a row is one transaction, on disk when
:meth:`Store.add` returns; writers wait for each other, readers do not wait; the next to open the
file after a kill recovers it. A text file to which lines are appended would need locks of our own,
and repair by the reader. The mode needs a local file system, not a network file system.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import sqlite3
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import joblib

from svmcvx.errors import DataError

__all__ = ["Store", "fingerprint", "plain"]

# "SVMC": by this number SQLite files of ours are known among others.
APPLICATION = 0x53564D43
# Seconds that a writer waits for others.
PATIENCE = 60.0
# Number of keys in one query: below SQLite's limit on the parameters of a statement.
CHUNK = 500


def plain(value: Any) -> Any:
    """Return a value as JSON can hold it: numbers that are not finite become null, what JSON does
    not know its text.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return (
        value
        if value is None or isinstance(value, (bool, int, str))
        else " ".join(repr(value).split())
    )


def fingerprint(*parts: Any) -> str:
    """Return a key for what a row depends on: equal values, equal key."""
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
        if self.path.exists():
            self._open()

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._process == os.getpid():
            return self._connection
        # A connection must not be carried into a forked process, not even to be closed there.
        self._process = os.getpid()
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self._connection = self._connected()
                return self._connection
            except sqlite3.OperationalError as error:
                # Two processes that make the file at the same moment: the change to the write-ahead
                # mode does not wait.
                if (
                    error.sqlite_errorname not in ("SQLITE_BUSY", "SQLITE_BUSY_RECOVERY")
                    or time.monotonic() > end
                ):
                    raise DataError(f"store {self.path} cannot be opened ({error})") from None
                time.sleep(0.01)
            except sqlite3.DatabaseError as error:
                raise self._foreign(str(error)) from None

    def _connected(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            (application,) = connection.execute("PRAGMA application_id").fetchone()
            if application != APPLICATION:
                (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                if tables and not self._ours(connection):
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

    @staticmethod
    def _ours(connection: sqlite3.Connection) -> bool:
        """Whether another process created the table in the meantime."""
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        return bool(application == APPLICATION)

    def _foreign(self, why: str) -> DataError:
        return DataError(f"{self.path} was not written by svmcvx ({why}); pass another file")

    def close(self) -> None:
        """Close the file; it is opened again when it is needed."""
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

    def __contains__(self, key: str) -> bool:
        return bool(self._select("SELECT 1 FROM rows WHERE key = ?", (key,)))

    def __getitem__(self, key: str) -> dict[str, Any]:
        return self.found((key,))[key]

    def __len__(self) -> int:
        return sum(count for (count,) in self._select("SELECT count(*) FROM rows"))

    def found(self, keys: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the stored rows of these keys."""
        wanted, rows = list(keys), {}
        for start in range(0, len(wanted), CHUNK):
            part = wanted[start : start + CHUNK]
            marks = ", ".join("?" * len(part))
            query = f"SELECT key, row FROM rows WHERE key IN ({marks})"  # noqa: S608 - marks only
            rows.update({key: json.loads(row) for key, row in self._select(query, part)})
        return rows

    def items(self, kind: str | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield keys and rows, in the order in which they were added; of one kind, or of all."""
        query = "SELECT key, row FROM rows WHERE kind = coalesce(?, kind) ORDER BY number"
        for key, row in self._select(query, (kind,)):
            yield key, json.loads(row)

    def add(self, key: str, row: Mapping[str, Any], kind: str = "", *, again: bool = False) -> None:
        """Write a row, on disk when this returns; if the key is there, the row that is there stays."""
        self.add_all({key: row}, kind, again=again)

    def add_all(
        self, rows: Mapping[str, Mapping[str, Any]], kind: str = "", *, again: bool = False
    ) -> None:
        """Write rows by their keys, all or none of them; as :meth:`add`."""
        values = [(key, kind, json.dumps(plain(row))) for key, row in rows.items()]
        replaced = "UPDATE SET kind = excluded.kind, row = excluded.row" if again else "NOTHING"
        query = (
            f"INSERT INTO rows (key, kind, row) VALUES (?, ?, ?) ON CONFLICT (key) DO {replaced}"  # noqa: S608
        )
        try:
            connection = self._open()
            connection.execute("BEGIN IMMEDIATE")
            try:
                connection.executemany(query, values)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            raise DataError(f"store {self.path} cannot be written ({error})") from None
