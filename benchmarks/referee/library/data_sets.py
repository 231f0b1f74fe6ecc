"""The data sets of the library: recipes that make the same numbers on every machine, and the digest
by which they are held.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.datasets import content_digest, load
from svmcvx.errors import DataError, did_you_mean
from svmcvx.synthetic import label_noise_data, outlier_data

__all__ = ["DataSet", "Recorded", "data_digest", "known_data_sets", "make_data_set", "recorded"]

Floats: TypeAlias = NDArray[np.float64]
Arrays: TypeAlias = tuple[Any, NDArray[Any]]

# Numbers that a recipe computes are multiples of this one: the last bits of a mean or of a sine
# differ from machine to machine.
STEP: Final = 2.0**-20
RECORDS: Final = Path(__file__).with_name("data_sets.csv")


class Recorded(NamedTuple):
    """What the package records of a data set."""

    rows: int
    columns: int
    classes: int
    digest: str


@dataclass(frozen=True, eq=False)
class DataSet:
    """The arrays of a data set of the library.

    Attributes
    ----------
    name : str
    X : ndarray of shape (n, d)
    y : ndarray of shape (n,)
    digest : str
        See :func:`data_digest`.
    """

    name: str
    X: Any
    y: NDArray[Any]
    digest: str

    def __repr__(self) -> str:
        return (
            f"DataSet({self.name!r}, {self.X.shape[0]} × {self.X.shape[1]},"
            f" {np.unique(self.y).size} classes)"
        )


def data_digest(X: Any, y: Any) -> str:
    """Return the SHA-256 of the numbers of a data set and of which rows share a label."""
    _, first, codes = np.unique(np.asarray(y).ravel(), return_index=True, return_inverse=True)
    return content_digest(X, np.argsort(np.argsort(first))[codes])


def _rounded(X: Any) -> Floats:
    return np.asarray(np.round(np.asarray(X, dtype=np.float64) / STEP) * STEP + 0.0)


def _standard(X: Any) -> Floats:
    """Return columns of mean 0 and variance 1, without constant ones, as multiples of :data:`STEP`."""
    dense = np.asarray(X.toarray() if sp.issparse(X) else X, dtype=np.float64)
    spread = dense.std(axis=0)
    kept = spread > STEP * np.abs(dense).max(axis=0)
    return _rounded((dense[:, kept] - dense[:, kept].mean(axis=0)) / spread[kept])


def _blobs(classes: int, n: int, p: int, seed: int) -> Arrays:
    """Draw Gaussian classes around centres of a Gaussian."""
    draw = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return 2.0 * draw.standard_normal((classes, p))[y] + draw.standard_normal((n, p)), y


GENERATED: Final[Mapping[str, Callable[[], Arrays]]] = {
    "gauss-60x2": partial(outlier_data, 60, 2, sigma=0.5, outliers="none", seed=1),
    "clustered-60x2": partial(outlier_data, 60, 2, sigma=0.5, outliers="clustered", seed=2),
    "spread-80x5": partial(outlier_data, 80, 5, sigma=0.5, outliers="spread", seed=3),
    "spread-150x3": partial(outlier_data, 150, 3, sigma=1.0, outliers="spread", seed=4),
    "noise-100x3": partial(label_noise_data, 100, 3, tau=0.1, seed=5),
    "noise-120x8": partial(label_noise_data, 120, 8, tau=0.2, seed=6),
    "wide-40x100": partial(outlier_data, 40, 100, sigma=0.3, outliers="none", seed=7),
    "blobs4-120x5": partial(_blobs, 4, 120, 5, 8),
    "blobs6-120x3": partial(_blobs, 6, 120, 3, 9),
}
# Of scikit-learn, by the names of :func:`svmcvx.datasets.load`.
BUNDLED: Final = (
    "breast_cancer/standard",
    "breast_cancer/raw",
    "iris:setosa-versicolor/standard",
    "iris:setosa-virginica/standard",
    "iris:versicolor-virginica/standard",
    "iris:versicolor-virginica/raw",
    "iris/standard",
    "wine:class_0-class_1/standard",
    "wine:class_0-class_2/standard",
    "wine:class_1-class_2/standard",
    "wine:class_1-class_2/raw",
    "wine/standard",
    "digits:0-6/standard",
    "digits:1-7/standard",
    "digits:3-8/standard",
    "digits:4-9/standard",
    "moons/rounded",
    "circles/rounded",
)
# Of the papers; they are on this machine, or in a folder, or are downloaded.
PAPERS: Final = (
    "australian/standard",
    "banknote/standard",
    "colon-cancer/standard",
    "diabetes/standard",
    "fourclass/standard",
    "german/standard",
    "haberman/standard",
    "heart-statlog/standard",
    "ionosphere/standard",
    "liver-disorders/standard",
    "parkinsons/standard",
    "sonar/standard",
    "vehicle/standard",
    "glass/standard",
)


def known_data_sets(part: str = "core") -> tuple[str, ...]:
    """Return the names of the data sets of a part of the library."""
    return (*BUNDLED, *GENERATED) if part == "core" else PAPERS


@cache
def recorded() -> dict[str, Recorded]:
    """Return what the package records of each data set, by its name."""
    with RECORDS.open(newline="", encoding="utf-8") as stream:
        return {
            row["name"]: Recorded(
                int(row["rows"]), int(row["columns"]), int(row["classes"]), row["digest"]
            )
            for row in csv.DictReader(stream)
        }


def make_data_set(name: str, data_dir: str | os.PathLike[str] | None = None) -> DataSet:
    """Make a data set of the library by its recipe."""
    known = (*known_data_sets(), *known_data_sets("extended"))
    if name not in known:
        raise DataError(f"the library has no data set {name!r}{did_you_mean(str(name), known)}")
    if name in GENERATED:
        X, y = GENERATED[name]()
        X = _rounded(X)
    else:
        source, _, scaling = name.rpartition("/")
        loaded = load(source, data_dir).without_missing()
        y = loaded.y
        X = (
            loaded.X
            if scaling == "raw"
            else _rounded(loaded.X)
            if scaling == "rounded"
            else _standard(loaded.X)
        )
    found = DataSet(name, X, y, data_digest(X, y))
    record = recorded().get(name)
    if record is not None and record.digest != found.digest:
        raise DataError(
            f"the data set {name} is another than that of the library: its digest is"
            f" {found.digest}, recorded is {record.digest}; another version of its source may have"
            " other numbers"
        )
    return found
