"""LIBSVM's text format: a whole file, and blocks of whole lines, each parsed once and then stored
in binary form.
"""

from __future__ import annotations

import hashlib
import io
import re
import struct
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import scipy.sparse as sp

from svmcvx.digests import sums_of
from svmcvx.errors import DataError
from svmcvx.row_blocks.piece import Piece
from svmcvx.system.files import atomic_write, opened, packing

LINE: Final = re.compile(r"[^\s:#]+(\s+qid:\d+)?(\s+\d+:[^\s:]+)*\s*(#.*)?")
BOM: Final = b"\xef\xbb\xbf"
# The largest index of the parser.
LARGEST: Final = np.iinfo(np.int32).max
# Characters of a line in a message.
SHOWN: Final = 60
# Of the binary form.
HEADER: Final = struct.Struct("<7q")
# A line that is neither blank nor a comment.
ROW: Final = re.compile(rb"^[ \t\r\f\v]*[^\s#]", re.MULTILINE)


def parse_libsvm(
    stream: IO[bytes], where: str, n_features: int | None = None, zero_based: bool | str = "auto"
) -> tuple[Any, Any]:
    """Return the rows, with canonical indices of one type, and the labels of LIBSVM text."""
    from sklearn.datasets import load_svmlight_file

    try:
        if stream.read(len(BOM)) != BOM:
            stream.seek(0)
        X, y = load_svmlight_file(stream, n_features=n_features, zero_based=zero_based)
    except (ValueError, OverflowError, OSError, EOFError) as error:
        raise DataError(
            f"{where} is not LIBSVM text ({_first_fault(stream) or ' '.join(str(error).split())})"
        ) from None
    if y.size == 0:
        raise DataError(f"{where} has no rows: each line is blank or a comment")
    rows = sp.csr_array(X)
    rows.sum_duplicates()
    # Indices of one type, or scipy copies them each time; 32 bits if that is enough.
    index = np.int32 if max(rows.nnz, rows.shape[1]) <= LARGEST else np.int64
    rows = sp.csr_array(
        (rows.data, rows.indices.astype(index), rows.indptr.astype(index)), shape=rows.shape
    )
    rows.has_canonical_format = True
    return rows, y


def _first_fault(stream: IO[bytes]) -> str | None:
    """Describe the first line of a text that is not LIBSVM's."""
    with suppress(OSError, EOFError):
        stream.seek(0)
        for number, line in enumerate(stream, start=1):
            text = line.removeprefix(BOM).decode("utf-8", errors="replace").strip()
            if not text or text.startswith("#"):
                continue
            shown = repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}…")
            if not LINE.fullmatch(text):
                return f"line {number} is not 'LABEL INDEX:VALUE …': {shown}"
            indices = [int(index) for index in re.findall(r"\s(\d+):", text)]
            if any(index > LARGEST for index in indices):
                return f"line {number} has an index above {LARGEST}: {shown}"
            if any(later <= earlier for earlier, later in pairwise(indices)):
                return f"the indices of line {number} do not ascend: {shown}"
    return None


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
        first, before = 0, len(loaders)
        try:
            with opened(path) as stream:
                packed = packing(path) is not None
                while text := stream.read(block_bytes) + stream.readline():
                    if ROW.search(text.removeprefix(BOM)):
                        digest = hashlib.sha256(text).hexdigest()
                        rows = _TextRows(
                            path, first, len(text), digest, n_features, zero_based, str(folder)
                        )
                        loaders.append(rows)
                        # To reach a block of a packed file all text before it is unpacked.
                        if packed and not rows.binary.exists():
                            rows.parse(text)
                    first += len(text)
        except (OSError, EOFError) as error:
            raise DataError(f"{path} cannot be read as LIBSVM text: {error}") from None
        if len(loaders) == before:
            raise DataError(f"{path} has no rows: each line is blank or a comment")
    return loaders, keeper


@dataclass(frozen=True)
class _TextRows:
    """Whole lines of a file, from a byte of its unpacked text on; their digest names the file of
    the binary form.
    """

    path: str
    first: int
    length: int
    digest: str
    n_features: int
    zero_based: bool
    folder: str

    @property
    def binary(self) -> Path:
        """File of the binary form."""
        return Path(self.folder) / f"{self.digest}-{self.n_features:x}-{self.zero_based:d}.bin"

    def __call__(self) -> Piece:
        """Load the binary form, or parse the text and write it; on another computer of a cluster it
        is parsed again.
        """
        with suppress(OSError, ValueError, TypeError, struct.error):
            return self._read_binary()
        try:
            with opened(self.path) as stream:
                stream.seek(self.first)
                text = stream.read(self.length)
        except (OSError, EOFError) as error:
            raise DataError(f"{self.path} cannot be read as LIBSVM text: {error}") from None
        if hashlib.sha256(text).hexdigest() != self.digest:
            raise DataError(
                f"{self.path} has changed near byte {self.first}; make the blocks again"
            )
        return self.parse(text)

    def parse(self, text: bytes) -> Piece:
        """Parse the text, and write the binary form unless the disk is full."""
        place = f"{self.path}, from byte {self.first} on,"
        X, y = parse_libsvm(io.BytesIO(text), place, self.n_features, self.zero_based)
        arrays = (X.data, X.indices, X.indptr, y)
        header = [*map(sums_of, arrays), X.nnz, y.size, X.indices.itemsize]
        with suppress(OSError), atomic_write(self.binary) as stream:
            stream.write(HEADER.pack(*header))
            for array in arrays:
                stream.write(array.data)
        return Piece(X, y)

    def _read_binary(self) -> Piece:
        """Read the binary form: sums of four arrays and their sizes, and the arrays. It has no
        header that Python has to parse, which is not safe in threads.
        """
        with open(self.binary, "rb") as stream:
            *sums, entries, m, width = HEADER.unpack(stream.read(HEADER.size))
            index = f"i{width}"
            layout = (("f8", entries), (index, entries), (index, m + 1), ("f8", m))
            size = HEADER.size + entries * (8 + width) + m * (8 + width) + width
            if min(entries, m) < 0 or size != self.binary.stat().st_size:
                raise ValueError("the binary form is damaged")
            arrays = [np.fromfile(stream, dtype, count) for dtype, count in layout]
        if sums != [sums_of(array) for array in arrays]:
            raise ValueError("the binary form is damaged")
        data, indices, indptr, y = arrays
        X = sp.csr_array((data, indices, indptr), shape=(y.size, self.n_features))
        # The rows were written in canonical form.
        X.has_canonical_format = True
        return Piece(X, y)
