"""Files: atomic writing, and archives of arrays whose sizes are limited before they are read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import math
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError, SvmcvxError
from svmcvx.proofs.format import atomic_write as atomic_write

# Any archive may unpack to 256 MiB, and to this many times its own size.
UNPACKED = 64
# Readers of packed files, by the first bytes of these.
PACKED: Final[dict[bytes, Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}
PACKED_SUFFIXES = (".gz", ".bz2", ".xz")


def opened(path: str | os.PathLike[str]) -> IO[bytes]:
    """Open a file for reading, unpacked if its first bytes say that it is packed."""
    with open(path, "rb") as stream:
        start = stream.read(max(map(len, PACKED)))
    reader: Any = next((read for mark, read in PACKED.items() if start.startswith(mark)), open)
    unpacked: IO[bytes] = reader(path, "rb")
    return unpacked


def unpacked(path: Path) -> Path:
    """Return the path without the suffix of the packing."""
    return path.with_suffix("") if path.suffix.lower() in PACKED_SUFFIXES else path


class Archive:
    """An open ``.npz`` archive: shapes and types of its arrays, each of which is read by name."""

    def __init__(self, stream: IO[bytes], path: str | os.PathLike[str]) -> None:
        self.path = path
        self._zip = zipfile.ZipFile(stream)
        self._members = {one.filename.removesuffix(".npy"): one for one in self._zip.infolist()}
        allowed = max(2**28, UNPACKED * stream.seek(0, os.SEEK_END))
        total = sum(member.file_size for member in self._zip.infolist())
        if total > allowed:
            raise DataError(
                f"{path} is refused: it would unpack to {total:.2g} bytes, more than {UNPACKED}"
                " times its own size; if you trust it, write it again by numpy.savez"
            )
        self.shapes = {name: self._header(name) for name in self._members}

    def _header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return shape and type of an array; its size must be that of the member."""
        member = self._members[name]
        with self._zip.open(member) as stream:
            version = np.lib.format.read_magic(stream)
            read = np.lib.format.read_array_header_1_0
            read = read if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(stream)
            begin = stream.tell()
        if dtype.hasobject:
            raise DataError(
                f"{self.path} holds arrays of Python objects, which are not read, as they can run"
                " any code; store plain arrays, labels as numbers or as str"
            )
        if begin + math.prod(shape) * dtype.itemsize != member.file_size:
            raise DataError(f"{self.path} is damaged: the size of {name} is not that of its shape")
        return shape, dtype

    def __getitem__(self, name: str) -> NDArray[Any]:
        with self._zip.open(self._members[name]) as stream:
            return np.lib.format.read_array(stream, allow_pickle=False)


@contextmanager
def read_archive(path: str | os.PathLike[str], what: str = "an .npz archive") -> Iterator[Archive]:
    """Yield an archive, whose total size and headers are checked; any damage is a DataError."""
    try:
        with Path(path).open("rb") as stream:
            yield Archive(stream, path)
    except SvmcvxError:
        raise
    except FileNotFoundError:
        raise DataError(f"{path} does not exist; check the path") from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror or error})") from None
    except Exception:  # of the parsers of a damaged file, there are many
        raise DataError(f"{path} is not {what}, or is damaged; copy or write it again") from None
