"""Names of data sets, for the command line: to know them takes no numpy."""

from __future__ import annotations

import os
import tomllib
from functools import cache
from pathlib import Path

from svmcvx.errors import DataError

BUILT_IN = ("breast_cancer", "digits", "iris", "wine", "moons", "circles", "blobs")
REGISTRY = Path(__file__).with_name("registry.toml")


@cache
def known_names() -> tuple[str, ...]:
    """Return the names of the sets of the papers."""
    with REGISTRY.open("rb") as stream:
        return tuple(tomllib.load(stream)["sets"])


def check_path(name: str) -> None:
    """Raise a :class:`~svmcvx.errors.DataError` for what must be the path of a file, but is none."""
    path = Path(name)
    if name in BUILT_IN or name in known_names():
        return
    if path.is_dir():
        raise DataError(f"{name} is a folder; name a file in it, or pass it as data_dir")
    if (path.suffix or os.sep in name) and not path.exists():
        raise DataError(f"the file {name} does not exist; check the path")
