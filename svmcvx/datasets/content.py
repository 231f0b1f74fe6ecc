"""A data set in memory, and the fingerprint of its content."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.errors import DataError


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
            if label not in known:
                raise DataError(
                    f"{self.name} has no class {label!r}; its classes are {', '.join(known)}"
                )
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
    """Return the SHA-256 of the values of a data set, in hexadecimal.

    It depends on the numbers, their order, and whether they are sparse; not on the file, the layout
    in memory, the order of the entries within a sparse row, the sign of zeros, or the type in which
    labels are stored.

    Parameters
    ----------
    X : ndarray or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
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
