"""Blocks of LIBSVM's text format, each parsed once and then stored in binary form."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import load_svmlight_file

from svmcvx.errors import DataError
from svmcvx.row_blocks.piece import Piece
from svmcvx.system.files import atomic_write

__all__ = ["libsvm_loaders"]


def libsvm_loaders(
    paths: list[str], n_features: int, zero_based: bool, block_bytes: int, cache: Path | None
) -> tuple[list[Callable[[], Any]], Any]:
    """Return one loader for each block of whole lines, and an object that removes the temporary
    folder of the binary form.
    """
    keeper = tempfile.TemporaryDirectory(prefix="svmcvx-libsvm-") if cache is None else None
    folder = Path(keeper.name) if keeper is not None else Path(cache or ".")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cache: the folder {folder} cannot be made: {error}") from None
    loaders: list[Callable[[], Any]] = []
    for path in paths:
        stat = os.stat(path)
        # A file that has changed gets new binary blocks.
        stem = f"{Path(path).name}-{stat.st_size:x}-{stat.st_mtime_ns:x}-{block_bytes:x}-{n_features:x}-{zero_based:d}"
        loaders.extend(
            _TextRows(
                path, first, last, n_features, zero_based, str(folder / f"{stem}-{first:x}.bin")
            )
            for first, last in pairwise(_line_starts(path, stat.st_size, block_bytes))
        )
    return loaders, keeper


def _line_starts(path: str, size: int, step: int) -> list[int]:
    """Return beginnings of lines about `step` bytes apart, the first and the end of the file
    included.
    """
    starts = [0]
    with open(path, "rb") as stream:
        while starts[-1] < size:
            stream.seek(min(starts[-1] + step, size) - 1)
            stream.readline()
            starts.append(stream.tell())
    return starts if len(starts) > 1 else [0, size]


@dataclass(frozen=True)
class _TextRows:
    """Whole lines of a file, from one byte to another."""

    path: str
    first: int
    last: int
    n_features: int
    zero_based: bool
    binary: str

    def __call__(self) -> Piece:
        """Load the binary form, or parse the text and write it; on another computer of a cluster it
        is parsed again.
        """
        try:
            return self._read_binary()
        except (OSError, ValueError, EOFError):
            # Missing, truncated or another file: parse the text.
            pass
        X, y = self._parse()
        self._keep(X, y)
        return Piece(X, y)

    def _read_binary(self) -> Piece:
        """Read the binary form: four arrays one after another."""
        with open(self.binary, "rb") as stream:
            data, indices, indptr, y = (np.load(stream, allow_pickle=False) for _ in range(4))
        X = sp.csr_array((data, indices, indptr), shape=(y.size, self.n_features))
        if indices.size and not (indices.min() >= 0 and indices.max() < self.n_features):
            raise ValueError("columns out of range")
        # The rows were written in canonical form.
        X.has_canonical_format = True
        return Piece(X, y)

    def _parse(self) -> tuple[Any, Any]:
        try:
            # The parser drops what it finds up to the end of the line at a positive offset, and
            # stops after the line that passes its last byte: it gets the end of the line before,
            # and the last byte of the block.
            begin = max(self.first - 1, 0)
            X, y = load_svmlight_file(
                self.path,
                n_features=self.n_features,
                offset=begin,
                length=max(self.last - 1 - begin, 1),
                zero_based=self.zero_based,
            )
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self.path} cannot be read as LIBSVM text near byte {self.first}: {error}"
            ) from None
        rows = sp.csr_array(X)
        rows.sum_duplicates()
        # Indices of one type, or scipy copies them each time; 32 bits if that is enough.
        index = np.int32 if max(rows.nnz, self.n_features) <= np.iinfo(np.int32).max else np.int64
        rows = sp.csr_array(
            (rows.data, rows.indices.astype(index), rows.indptr.astype(index)),
            shape=(y.size, self.n_features),
        )
        rows.has_canonical_format = True
        return rows, y

    def _keep(self, X: Any, y: Any) -> None:
        """Write the binary form atomically; if the disk is full, the text is parsed again next
        time.
        """
        with suppress(OSError), atomic_write(self.binary) as stream:
            for array in (X.data, X.indices, X.indptr, y):
                np.save(stream, array, allow_pickle=False)
