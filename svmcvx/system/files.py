"""Writing files whole or not at all."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

__all__ = ["written_whole"]


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Give a stream that takes the place of `path` when the block ends well, and leaves nothing when it does not."""
    target = Path(path)
    # Not by tempfile, whose files others may not read.
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as stream:
            yield stream
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
