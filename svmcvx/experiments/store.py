"""Finished rows of a long run, kept as they come: one JSON object a line.

A run can be killed at any moment: a line is written whole and flushed to disk, and a last line that is not whole
is ignored and cut off.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from svmcvx.errors import DataError

__all__ = ["Store", "plain"]


def plain(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row as JSON can hold it: numbers that are not finite become null."""
    return {
        key: None
        if isinstance(value, float) and not math.isfinite(value)
        else value.item()
        if hasattr(value, "item")
        else value
        for key, value in row.items()
    }


class Store:
    """Rows on disk, found again by their key.

    Parameters
    ----------
    path : path-like
        A ``.jsonl`` file; made when the first row is added.

    Raises
    ------
    DataError
        If the file exists and was not written by a store.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._rows: dict[str, dict[str, Any]] = {}
        self._whole, self._torn = 0, False
        if self.path.exists():
            self._read()

    def _read(self) -> None:
        content = self.path.read_bytes()
        for line in content.splitlines(keepends=True):
            if not line.endswith(b"\n"):
                self._torn = True
                break
            try:
                entry = json.loads(line)
                self._rows[entry["key"]] = entry["row"]
            except (ValueError, KeyError, TypeError):
                raise DataError(f"{self.path} was not written by svmcvx; pass another file") from None
            self._whole += len(line)

    def __contains__(self, key: str) -> bool:
        return key in self._rows

    def __getitem__(self, key: str) -> dict[str, Any]:
        return dict(self._rows[key])

    def __len__(self) -> int:
        return len(self._rows)

    def items(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield keys and rows, in the order in which they were added."""
        for key in self._rows:
            yield key, self[key]

    def add(self, key: str, row: Mapping[str, Any]) -> None:
        """Append a row and flush it to disk. Lines of several writers may alternate; each is written at once."""
        line = json.dumps({"key": key, "row": plain(row)}).encode() + b"\n"
        if self._torn:
            os.truncate(self.path, self._whole)
            self._torn = False
        with open(self.path, "ab", buffering=0) as stream:
            stream.write(line)
            os.fsync(stream.fileno())
        self._rows[key] = plain(row)
