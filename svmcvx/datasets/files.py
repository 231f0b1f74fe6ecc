"""Reading and writing the files of data sets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.datasets.content import Dataset
from svmcvx.datasets.tables import read_table
from svmcvx.errors import DataError
from svmcvx.row_blocks.sources import BOM, LINE, parse_libsvm
from svmcvx.system.files import atomic_write, opened, read_archive, unpacked

__all__ = ["LIBSVM_SUFFIXES", "read_file", "read_libsvm", "read_npz", "write_npz"]

LIBSVM_SUFFIXES = (".svm", ".libsvm", ".svmlight", ".t")
# Number of lines with which a file's format is recognised.
LOOKED_AT = 20


def read_npz(path: str | os.PathLike[str]) -> Dataset:
    """Read a ``.npz`` file of plain arrays: ``X`` or the parts of a CSR matrix, ``y``, and
    ``labels`` if y are indices.
    """
    path = Path(path)
    with read_archive(path) as archive:
        shapes = archive.shapes
        there = ", ".join(shapes) or "nothing"
        if "y" not in shapes:
            raise DataError(f"{path} holds {there}; an array y of labels is needed")
        sparse = {"data", "indices", "indptr", "shape"} <= shapes.keys()
        if "X" not in shapes and not sparse:
            raise DataError(
                f"{path} holds {there}; a dense array X, or data, indices, indptr and shape, is"
                " needed"
            )
        y = archive["y"]
        n = archive["shape"].tolist()[0] if "X" not in shapes else (*shapes["X"][0], 0)[0]
        if y.shape != (n,):
            raise DataError(f"{path}: y has the shape {y.shape}, but X has {n} rows")
        if "labels" in shapes:
            y = archive["labels"][y]
        X: Features
        if "X" in shapes:
            X = np.asarray(archive["X"], dtype=np.float64)
        else:
            parts = (archive["data"], archive["indices"], archive["indptr"])
            X = sp.csr_array(parts, shape=tuple(archive["shape"].tolist()))
            X.check_format()
    return Dataset(path.stem, X, y)


def write_npz(path: str | os.PathLike[str], X: Any, y: NDArray[Any]) -> None:
    """Write data whole or not at all, in the form that :func:`read_npz` reads; labels are stored
    apart, without pickle.
    """
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
    with atomic_write(path) as stream:
        np.savez(stream, **arrays)


def read_libsvm(
    path: str | os.PathLike[str], n_features: int | None = None
) -> tuple[Any, NDArray[Any]]:
    """Read a LIBSVM file, which may be packed by gzip, bzip2 or xz."""
    with opened(path) as stream:
        return parse_libsvm(stream, str(path), n_features)


def _is_libsvm(path: Path) -> bool:
    """Whether the first lines of a file are LIBSVM's."""
    try:
        with opened(path) as stream:
            lines = [
                line.removeprefix(BOM).decode("ascii").strip() for line in islice(stream, LOOKED_AT)
            ]
    except (OSError, EOFError, UnicodeDecodeError):
        return False
    lines = [line for line in lines if line and not line.startswith("#")]
    # If most lines are numeric, the reader names the line that is not.
    alike = sum(LINE.fullmatch(line) is not None for line in lines)
    return any(":" in line for line in lines) and 2 * alike > len(lines)


def read_file(
    path: Path,
    target: str | None,
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    n_features: int | None = None,
) -> Dataset:
    """Read a file of any type that is known, by its suffix, or as LIBSVM's if it looks so; they are
    distributed without one.
    """
    plain = unpacked(path)
    suffix = plain.suffix.lower()
    named = suffix in LIBSVM_SUFFIXES
    tables = (".csv", ".tsv", ".tab", ".parquet", ".npz")
    if named or (suffix not in tables and _is_libsvm(path)):
        name = plain.stem if named else plain.name
        return Dataset(name, *read_libsvm(path, n_features))
    if n_features is not None:
        raise DataError(f"n_features is for files of LIBSVM, which {path} is not; leave it out")
    if suffix == ".npz" or (suffix == ".parquet" and plain != path):
        if plain != path:
            raise DataError(f"{path} is packed twice; unpack it to {plain.name}")
        return read_npz(path)
    if suffix in tables:
        return read_table(path, plain.stem, target, drop, keep)
    if suffix in (".txt", ".data", ".dat"):
        return read_table(path, plain.stem, target, drop, keep)
    raise DataError(
        f"{path} is of no known type: end its name in .csv, .tsv, .txt, .parquet or .npz (text may"
        " be packed: .gz, .bz2, .xz); LIBSVM files are known by their lines, 'LABEL INDEX:VALUE …'"
    )
