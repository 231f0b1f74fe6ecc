"""Data sets: scikit-learn's built-in ones, files, and those of the papers (extra ``data`` to
download them).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from svmcvx.datasets.names import BUILT_IN
from svmcvx.errors import no_attribute

if TYPE_CHECKING:
    from svmcvx.datasets.loading import ENVIRONMENT_VARIABLE, load
    from svmcvx.datasets.registry import (
        Dataset,
        PaperTable,
        Record,
        content_digest,
        known_sets,
        paper_tables,
    )

# Imported at their first use: the command line reads the names of data sets without numpy.
_REGISTRY = ("Dataset", "PaperTable", "Record", "content_digest", "known_sets", "paper_tables")
_LAZY = dict.fromkeys(_REGISTRY, "registry") | dict.fromkeys(
    ("ENVIRONMENT_VARIABLE", "load"), "loading"
)
__all__ = [
    "BUILT_IN",
    "ENVIRONMENT_VARIABLE",
    "Dataset",
    "PaperTable",
    "Record",
    "content_digest",
    "known_sets",
    "load",
    "paper_tables",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise no_attribute(__name__, name, __all__)
    value = getattr(import_module(f"svmcvx.datasets.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
