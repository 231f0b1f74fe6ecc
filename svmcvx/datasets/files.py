"""Reading and writing the files of data sets."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.datasets.content import Dataset
from svmcvx.errors import DataError, missing_extra
from svmcvx.system.files import written_whole

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["LIBSVM_SUFFIXES", "read_file", "read_libsvm", "read_npz", "write_npz"]

LIBSVM_SUFFIXES = (".svm", ".libsvm", ".svmlight", ".t")


def read_npz(path: str | os.PathLike[str]) -> Dataset:
    """Read a ``.npz`` file of plain arrays: ``X`` or the parts of a CSR matrix, ``y``, and ``labels`` if y are indices."""
    path = Path(path)
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


def write_npz(path: str | os.PathLike[str], X: Any, y: NDArray[Any]) -> None:
    """Write data whole or not at all, in the form that :func:`read_npz` reads; labels are stored apart, without pickle."""
    labels, codes = np.unique(y, return_inverse=True)
    arrays: dict[str, Any] = {
        "y": codes.astype(np.int64),
        "labels": labels.astype(str) if labels.dtype.kind == "O" else labels,
    }
    if sp.issparse(X):
        matrix = sp.csr_array(X)
        arrays |= {
            "data": matrix.data,
            "indices": matrix.indices,
            "indptr": matrix.indptr,
            "shape": np.array(matrix.shape),
        }
    else:
        arrays["X"] = np.asarray(X, dtype=np.float64)
    with written_whole(path) as stream:
        np.savez(stream, **arrays)


def read_libsvm(path: str | os.PathLike[str], n_features: int | None = None) -> tuple[Any, NDArray[Any]]:
    """Read a LIBSVM file, which may be packed by gzip or bzip2."""
    from sklearn.datasets import load_svmlight_file

    try:
        X, y = load_svmlight_file(str(path), n_features=n_features)
    except ValueError as error:
        raise DataError(f"{path} is not a LIBSVM file ({error})") from None
    return sp.csr_array(X), y


def read_file(path: Path, target: str | None) -> Dataset:
    """Read a file of any type that is known, by its suffix."""
    suffix = path.suffix.lower()
    if suffix == ".npz":
        return read_npz(path)
    if suffix in LIBSVM_SUFFIXES:
        return Dataset(path.stem, *read_libsvm(path))
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
