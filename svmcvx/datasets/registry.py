"""The data sets of the papers, as records read from ``registry.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from svmcvx.data import Features
from svmcvx.datasets.content import Dataset, content_digest
from svmcvx.datasets.names import REGISTRY
from svmcvx.errors import DataError

__all__ = ["PaperTable", "Record", "known_sets", "paper_tables"]


class PaperTable(NamedTuple):
    """A data set in a table of a paper.

    Attributes
    ----------
    table : str
        Such as ``"psvm 1"``.
    printed : str
        Name of the set in the paper's table.
    preprocessing : str
        How the paper prepares the data.
    """

    table: str
    printed: str
    preprocessing: str


@dataclass(frozen=True)
class Record:
    """Record of a data set.

    Attributes
    ----------
    name, title : str
    rows, features : int or None
        None for a set that cannot be had.
    classes : mapping of str to int
        Observations of each class.
    missing : int
        Values that are missing.
    sparse : bool
    content : str or None
        :func:`~svmcvx.datasets.content_digest` of the data.
    source, page, licence, note : str
    papers : tuple of PaperTable
    download : mapping or None
        How the set is read from its source; None if that is not known.
    unavailable : str
        Why the set cannot be had; empty if it can.
    """

    name: str
    title: str
    rows: int | None = None
    features: int | None = None
    classes: Mapping[str, int] = field(default_factory=dict)
    missing: int = 0
    sparse: bool = False
    content: str | None = None
    source: str = ""
    page: str = ""
    licence: str = ""
    note: str = ""
    papers: tuple[PaperTable, ...] = ()
    download: Mapping[str, Any] | None = None
    unavailable: str = ""

    @property
    def size(self) -> str:
        """Rows and columns, as in ``"351 × 34"``."""
        return "" if self.rows is None else f"{self.rows} × {self.features}"

    def difference(self, data: Dataset) -> str | None:
        """Say how data of this name differ from the record; None if they do not."""
        X: Features = data.X
        if X.shape != (self.rows, self.features):
            return f"it has {X.shape[0]} × {X.shape[1]} values, the record {self.size}"
        if (found := content_digest(X, data.y)) != self.content:
            return (
                f"its values have the digest {found[:12]}…, those of the record"
                f" {str(self.content)[:12]}…"
            )
        return None


@cache
def _read(path: Path) -> tuple[Mapping[str, Record], Mapping[str, str]]:
    with path.open("rb") as stream:
        content = tomllib.load(stream)
    tables: dict[str, str] = content["tables"]
    records = {}
    for name, entry in content["sets"].items():
        own = entry.pop("preprocessing", {})
        papers = tuple(
            PaperTable(table, printed, own.get(table, tables[table]))
            for table, printed in entry.pop("tables", {}).items()
        )
        try:
            records[name] = Record(name=name, papers=papers, **entry)
        except TypeError as error:
            raise DataError(f"{path}: the record of {name} cannot be read ({error})") from None
    return MappingProxyType(records), MappingProxyType(tables)


def known_sets() -> Mapping[str, Record]:
    """Return the records of all data sets that the papers use, by name; those that cannot be had
    say so.
    """
    return _read(REGISTRY)[0]


def paper_tables() -> Mapping[str, str]:
    """Return the tables of the papers, with the protocol by which each prepares and splits its
    data.
    """
    return _read(REGISTRY)[1]
