"""Files that may be packed."""

from __future__ import annotations

import bz2
import gzip
import lzma
from pathlib import Path
from typing import IO, Any

__all__ = ["PACKED", "opened", "unpacked"]

PACKED: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def opened(path: Path) -> IO[bytes]:
    """Open a file for reading, unpacked if its name says that it is packed."""
    stream: IO[bytes] = PACKED.get(path.suffix.lower(), open)(path, "rb")
    return stream


def unpacked(path: Path) -> Path:
    """Return the path without the suffix of the packing."""
    return path.with_suffix("") if path.suffix.lower() in PACKED else path
