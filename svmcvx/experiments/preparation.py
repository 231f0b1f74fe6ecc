"""Preparation of the data of a comparison: tables as they are, for pipelines, and numbers, scaled
and without holes, for other models.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.utils import _safe_indexing, get_tags

from svmcvx.containers import as_array
from svmcvx.data import Features, check_features, check_labels
from svmcvx.datasets.registry import content_digest, missing_counts
from svmcvx.errors import DataError
from svmcvx.experiments.store import fingerprint

__all__ = [
    "MISSING",
    "SCALES",
    "Observations",
    "imputer",
    "is_pairwise",
    "observations",
    "prepares_itself",
    "rows_of",
    "scaler",
]

SCALES = ("none", "standard", "minmax")
MISSING = ("error", "drop", "median")
# Columns that a message lists.
LISTED = 5


def scaler(scale: str, *, sparse: bool) -> Any:
    """Return the transformer of a scaling, None for ``"none"``; of sparse columns zeros stay zeros."""
    if scale == "none":
        return None
    if scale == "minmax":
        return MaxAbsScaler() if sparse else MinMaxScaler()
    return StandardScaler(with_mean=not sparse)


def imputer(missing: str) -> Any:
    """Return what fills in missing values, None where nothing does; a column without any value
    becomes 0.
    """
    return (
        SimpleImputer(strategy="median", keep_empty_features=True) if missing == "median" else None
    )


def prepares_itself(model: Any) -> bool:
    """Whether a model is a pipeline, or a search or another estimator around one, which takes the
    table as it is.
    """
    inner = getattr(model, "estimator", None)
    return isinstance(model, Pipeline) or (inner is not None and prepares_itself(inner))


def is_pairwise(model: Any) -> bool:
    """Whether the columns of a model's data are observations, as those of a kernel matrix are."""
    return bool(get_tags(model).input_tags.pairwise)


def rows_of(table: Any, index: NDArray[np.intp]) -> Any:
    """Return rows of an array, a sparse matrix or a data frame, in the same container."""
    return _safe_indexing(table, index)


@dataclass(frozen=True, eq=False)
class Observations:
    """The data of a comparison."""

    table: Any
    numbers: Features | DataError
    codes: NDArray[np.intp]
    classes: NDArray[Any]

    @property
    def labels(self) -> NDArray[Any]:
        """The labels of the rows."""
        labels: NDArray[Any] = self.classes[self.codes]
        return labels

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of rows and columns."""
        n, d = self.table.shape
        return int(n), int(d)

    @property
    def sparse(self) -> bool:
        """Whether the table is a sparse matrix."""
        return bool(sp.issparse(self.table))

    @property
    def holes(self) -> bool:
        """Whether values are to be imputed."""
        return not isinstance(self.numbers, DataError) and bool(
            missing_counts(self.numbers)[0].any()
        )

    @cached_property
    def digest(self) -> str:
        """A name of the content: that of the numbers, or of the table if it is not numeric."""
        if isinstance(self.numbers, DataError):
            return self.table_digest
        return content_digest(self.numbers, self.labels)

    @cached_property
    def table_digest(self) -> str:
        """A name of the content of the table, names and types of its columns included."""
        return fingerprint(self.table, self.labels)


def observations(X: Any, y: Any, missing: str) -> Observations:
    """Return the data of a comparison; what cannot be numbers concerns the models alone that need
    numbers.
    """
    if sp.issparse(X):
        labels = as_array(y, "y")
        holes = np.isnan(X.data) if X.dtype.kind == "f" and X.format == "csr" else np.zeros(0, bool)
        if missing == "error" or not holes.any():
            table = check_features(X)
        elif missing == "median":
            filled = sp.csr_array((np.where(holes, 0.0, X.data), X.indices, X.indptr), X.shape)
            check_features(filled)
            table = sp.csr_array(X)
        else:
            complete = np.flatnonzero(missing_counts(X)[0] == 0)
            table, labels = check_features(sp.csr_array(X)[complete]), labels[complete]
        codes, classes = check_labels(labels, table.shape[0])
        return Observations(table, table, codes, classes)
    values = as_array(X, "X")
    if values.ndim != 2 or 0 in values.shape:
        check_features(X)  # which says what is wrong
    absent = np.asarray(pd.isna(values))
    table = X if hasattr(X, "columns") else values
    codes, classes = check_labels(y, values.shape[0])
    if absent.any() and missing == "drop":
        complete = np.flatnonzero(~absent.any(axis=1))
        if not complete.size:
            raise DataError("every row has a missing value; pass missing='median', or drop columns")
        table, values, labels = rows_of(table, complete), values[complete], classes[codes[complete]]
        absent = absent[complete]
        codes, classes = check_labels(labels, labels.size)
    return Observations(table, _numbers(table, values, absent, missing), codes, classes)


def _numbers(
    table: Any, values: NDArray[Any], absent: NDArray[np.bool_], missing: str
) -> Features | DataError:
    """Return the table as numbers, or the reason why it cannot be."""
    try:
        if not absent.any():
            return check_features(table)
        filled = values.copy() if values.dtype.kind == "f" else values.astype(object)
        filled[absent] = 0.0
        numbers = check_features(pd.DataFrame(filled, columns=getattr(table, "columns", None)))
    except DataError as error:
        return error
    if missing == "median":
        return np.where(absent, np.nan, numbers)
    columns = [str(name) for name in getattr(table, "columns", range(values.shape[1]))]
    where = [columns[j] for j in np.flatnonzero(absent.any(axis=0))]
    shown = ", ".join(where[:LISTED]) + (", …" if len(where) > LISTED else "")
    return DataError(
        f"{int(absent.sum())} values are missing, in column{'s' if len(where) > 1 else ''} {shown};"
        " pass missing='drop' or missing='median', or a pipeline with an imputer"
    )
