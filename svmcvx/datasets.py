"""Data sets: scikit-learn's built-in ones, files, and a folder of ``.npz`` files.

This module sits beside the experiments, not on the bottom floor: it reads scikit-learn's data.
"""

from __future__ import annotations

import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.errors import DataError, DataTypeError, missing_extra

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BUILT_IN", "ENVIRONMENT_VARIABLE", "Dataset", "load"]

Floats: TypeAlias = NDArray[np.float64]

ENVIRONMENT_VARIABLE = "SVMCVX_DATA"
BUILT_IN = ("breast_cancer", "digits", "iris", "wine", "moons", "circles", "blobs")
LIBSVM_SUFFIXES = (".svm", ".libsvm", ".svmlight", ".t")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A data set, raw: not scaled, missing values as NaN.

    Attributes
    ----------
    name : str
    X : ndarray or csr_array of shape (n, d)
    y : ndarray of shape (n,)
        Labels as they stand in the source.
    feature_names : tuple of str, possibly empty
    """

    name: str
    X: Features
    y: NDArray[Any]
    feature_names: tuple[str, ...] = ()

    @property
    def classes(self) -> NDArray[Any]:
        """The distinct labels, sorted."""
        return np.unique(self.y)

    def pair(self, first: Any, second: Any) -> Dataset:
        """Return the observations of two classes only; labels are compared as text."""
        text = self.y.astype(str)
        known = sorted(set(text))
        for label in (first, second):
            if str(label) not in known:
                raise DataError(f"{self.name} has no class {label!r}; its classes are {', '.join(known)}")
        rows = (text == str(first)) | (text == str(second))
        return Dataset(f"{self.name}:{first}-{second}", self.X[rows], self.y[rows], self.feature_names)

    def without_missing(self) -> Dataset:
        """Return the rows without a missing value."""
        if sp.issparse(self.X):
            return self
        complete = ~np.isnan(self.X).any(axis=1)
        if not complete.any():
            raise DataError(f"every row of {self.name} has a missing value; impute them instead")
        return Dataset(self.name, self.X[complete], self.y[complete], self.feature_names)


def load(
    name: str | os.PathLike[str], data_dir: str | os.PathLike[str] | None = None, *, target: str | None = None
) -> Dataset:
    """Load a data set by name or path.

    Parameters
    ----------
    name : str or path-like
        One of scikit-learn's (``"breast_cancer"``, ``"digits"``, ``"iris"``, ``"wine"``, and the generated ``"moons"``,
        ``"circles"``, ``"blobs"``); the name of a ``.npz`` file in `data_dir`; or a path to a ``.csv``, ``.parquet``, ``.npz``
        or LIBSVM file (``.svm``, ``.libsvm``, ``.svmlight``, ``.t``). A name followed by ``:a-b`` selects the classes a and b,
        as in ``"digits:3-8"``.
    data_dir : path-like, optional
        Folder of ``.npz`` files; the environment variable ``SVMCVX_DATA`` by default.
    target : str, optional
        Column of the labels in a table; needed for CSV and Parquet files.

    Returns
    -------
    Dataset

    Raises
    ------
    DataError
        If nothing of that name exists, the file cannot be read, or a class is not there.
    """
    for value, what in ((name, "name"), (data_dir, "data_dir"), (target, "target")):
        allowed = str if what == "target" else (str, os.PathLike)
        if not isinstance(value, allowed) and (value is not None or what == "name"):
            raise DataTypeError(f"{what} must be a {'string' if what == 'target' else 'string or path'}, got {value!r}")
    text = os.fspath(name)
    base, _, classes = text.partition(":") if not Path(text).exists() else (text, "", "")
    found = _load(base, data_dir, target)
    if not classes:
        return found
    first, dash, second = classes.partition("-")
    if not dash:
        raise DataError(f"{text!r} selects one class only; write two, as in {base}:0-1")
    return found.pair(first, second)


def _load(name: str, data_dir: str | os.PathLike[str] | None, target: str | None) -> Dataset:
    path = Path(name)
    if path.suffix and path.exists():
        return _from_file(path, target)
    folder = data_dir if data_dir is not None else os.environ.get(ENVIRONMENT_VARIABLE)
    if folder is not None and (Path(folder) / f"{name}.npz").is_file():
        return _from_npz(Path(folder) / f"{name}.npz")
    if name in BUILT_IN:
        return _built_in(name)
    if path.suffix:
        raise DataError(f"the file {name} does not exist; check the path")
    where = (
        f"no {name}.npz in {folder}"
        if folder is not None
        else f"and neither data_dir nor {ENVIRONMENT_VARIABLE} is set"
    )
    raise DataError(
        f"no data set is called {name!r}: built in are {', '.join(BUILT_IN)}, {where}; pass a path or data_dir"
    )


def _built_in(name: str) -> Dataset:
    from sklearn import datasets

    if name in ("moons", "circles", "blobs"):
        make = {
            "moons": lambda: datasets.make_moons(300, noise=0.25, random_state=0),
            "circles": lambda: datasets.make_circles(300, noise=0.1, factor=0.5, random_state=0),
            "blobs": lambda: datasets.make_blobs(300, centers=2, cluster_std=2.5, random_state=0),
        }[name]
        X, y = make()  # type: ignore[no-untyped-call]
        return Dataset(name, X, y, ("x1", "x2"))
    bunch = getattr(datasets, f"load_{name}")()
    labels = np.asarray(bunch.target)
    if name != "digits":
        labels = np.asarray(bunch.target_names)[labels]
    return Dataset(name, np.asarray(bunch.data, dtype=np.float64), labels, tuple(map(str, bunch.feature_names)))


def _from_npz(path: Path) -> Dataset:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {key: archive[key] for key in archive.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{path} cannot be read as .npz without pickle ({error}); store plain arrays X and y") from None
    if "y" not in arrays:
        raise DataError(f"{path} holds {', '.join(arrays) or 'nothing'}; an array y of labels is needed")
    y = arrays["y"]
    if "labels" in arrays:
        y = arrays["labels"][y]
    X: Features
    if "X" in arrays:
        X = np.asarray(arrays["X"], dtype=np.float64)
    elif {"data", "indices", "indptr", "shape"} <= arrays.keys():
        X = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=tuple(arrays["shape"]))
    else:
        raise DataError(
            f"{path} holds {', '.join(arrays)}; a dense array X, or data, indices, indptr and shape, is needed"
        )
    return Dataset(path.stem, X, y)


def _from_file(path: Path, target: str | None) -> Dataset:
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return _from_npz(path)
    if suffix in LIBSVM_SUFFIXES:
        from sklearn.datasets import load_svmlight_file

        try:
            X, y = load_svmlight_file(str(path))
        except ValueError as error:
            raise DataError(f"{path} is not a LIBSVM file ({error})") from None
        return Dataset(path.stem, sp.csr_array(X), y)
    if suffix in (".csv", ".parquet"):
        return _from_table(path, _read_table(path), target)
    raise DataError(f"{path} has an unknown type; use .csv, .parquet, .npz or one of {', '.join(LIBSVM_SUFFIXES)}")


def _read_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        return pd.read_csv(path) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
    except ImportError:
        raise missing_extra("pyarrow", "parquet") from None
    except (ValueError, OSError, pd.errors.ParserError) as error:
        raise DataError(f"{path} cannot be read as a table ({error})") from None


def _from_table(path: Path, table: pd.DataFrame, target: str | None) -> Dataset:
    import pandas as pd

    columns = ", ".join(map(str, table.columns))
    if target is None:
        raise DataError(f"name the column of the labels with target; {path.name} has {columns}")
    if target not in table.columns:
        raise DataError(f"{path.name} has no column {target!r}; it has {columns}")
    labels = table[target]
    if labels.isna().any():
        raise DataError(
            f"column {target!r} of {path.name} has {int(labels.isna().sum())} missing labels; drop these rows"
        )
    features = table.drop(columns=[target])
    features = pd.get_dummies(features, dtype=float) if features.select_dtypes(exclude="number").shape[1] else features
    X = features.to_numpy(dtype=np.float64, na_value=np.nan)
    return Dataset(path.stem, X, labels.to_numpy(), tuple(map(str, features.columns)))
