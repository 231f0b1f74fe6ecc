"""The data sets of the papers, as records read from ``registry.toml``."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features, check_choice
from svmcvx.errors import DataError

REGISTRY = Path(__file__).with_name("registry.toml")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set, raw: not scaled, missing values as NaN.

    Attributes
    ----------
    name : str
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,)
        Labels as in the source.
    feature_names : tuple of str, possibly empty
    """

    name: str
    X: Features
    y: NDArray[Any]
    feature_names: tuple[str, ...] = ()

    def __repr__(self) -> str:
        rows, columns = self.X.shape
        return f"Dataset({self.name!r}, {rows} × {columns}, {self.classes.size} classes)"

    @property
    def classes(self) -> NDArray[Any]:
        """The distinct labels, sorted."""
        return np.unique(self.y)

    @property
    def missing_values(self) -> int:
        """Number of values that are missing."""
        return int(missing_counts(self.X)[0].sum())

    def pair(self, first: Any, second: Any) -> Dataset:
        """Return the observations of two classes only; labels are compared as text."""
        text = label_text(self.y)
        known = sorted(set(text))
        wanted = [str(label_text(np.asarray([label]))[0]) for label in (first, second)]
        for label in wanted:
            check_choice(label, f"a class of {self.name}", known)
        rows = np.isin(text, wanted)
        return Dataset(
            f"{self.name}:{first}-{second}", self.X[rows], self.y[rows], self.feature_names
        )

    def without_missing(self) -> Dataset:
        """Return the rows without a missing value."""
        complete = missing_counts(self.X)[0] == 0
        if not complete.any():
            raise DataError(f"every row of {self.name} has a missing value; impute them instead")
        return Dataset(self.name, self.X[complete], self.y[complete], self.feature_names)


def missing_counts(X: Features) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the numbers of missing values of each row and of each column."""
    n, d = X.shape
    where = sp.coo_array(X) if sp.issparse(X) else None
    rows, columns = np.nonzero(np.isnan(X)) if where is None else where.coords
    if where is not None:
        missing = np.isnan(where.data)
        rows, columns = rows[missing], columns[missing]
    return np.bincount(rows, minlength=n), np.bincount(columns, minlength=d)


def label_text(y: NDArray[Any]) -> NDArray[np.str_]:
    """Return labels as text; whole numbers without a decimal point, however they are stored."""
    if y.dtype.kind == "f" and np.isfinite(y).all() and (y == np.round(y)).all():
        y = y.astype(np.int64)
    return y.astype(str)


def content_digest(X: Any, y: Any) -> str:
    """Return the SHA-256 of the values of a data set.

    It depends on the numbers, their order, and whether they are sparse; not on the file, the layout
    in memory, the order of the entries within a sparse row, the sign of zeros, or the type in which
    labels are stored.

    Parameters
    ----------
    X, y : ndarray or sparse matrix of shape (n, d), array-like of shape (n,)
        Data and labels.

    Returns
    -------
    str
        64 hexadecimal digits.

    Examples
    --------
    >>> import svmcvx as sx
    >>> sx.datasets.content_digest([[1.0]], [0])[:8]
    '2a12a9c3'
    """
    sha = hashlib.sha256()
    if sp.issparse(X):
        matrix = sp.csr_array(X, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        sha.update(f"sparse {matrix.shape}".encode())
        parts = [matrix.indptr.astype("<i8"), matrix.indices.astype("<i8"), matrix.data]
    else:
        matrix = np.asarray(X, dtype=np.float64)
        sha.update(f"dense {matrix.shape}".encode())
        parts = [matrix]
    for part in parts:
        if part.dtype.kind == "f":
            # One bit pattern for every NaN, and for both zeros.
            part = np.where(np.isnan(part), np.nan, part + 0.0).astype("<f8")
        sha.update(np.ascontiguousarray(part).tobytes())
    sha.update("\0".join(label_text(np.asarray(y))).encode())
    return sha.hexdigest()


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
    papers : mapping of str to str
        By table, as in ``"psvm 1"``, how the paper prepares the data.
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
    papers: Mapping[str, str] = field(default_factory=dict)
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
def _read(path: Path) -> Mapping[str, Record]:
    with path.open("rb") as stream:
        content = tomllib.load(stream)
    prepared, records = content["tables"], {}
    for name, entry in content["sets"].items():
        papers = {table: prepared[table] for table in entry.pop("tables", {})}
        papers |= entry.pop("preprocessing", {})
        try:
            records[name] = Record(name=name, papers=papers, **entry)
        except TypeError as error:
            raise DataError(f"{path}: the record of {name} cannot be read ({error})") from None
    return MappingProxyType(records)


def known_sets() -> Mapping[str, Record]:
    """Return the records of all data sets that the papers use.

    Returns
    -------
    mapping from str to Record
        By name. Those that cannot be had say so.

    Examples
    --------
    >>> import svmcvx as sx
    >>> sx.datasets.known_sets()["sonar"].rows
    208
    """
    return _read(REGISTRY)
