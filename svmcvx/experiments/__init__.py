"""Running models over data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from svmcvx.errors import no_attribute

if TYPE_CHECKING:
    from svmcvx.experiments.comparison import compare
    from svmcvx.experiments.ranges.paths import CertifiedPath, certified_path
    from svmcvx.experiments.ranges.selection import CertifiedSelection, certified_select
    from svmcvx.experiments.selection import Selection, select
    from svmcvx.experiments.specifications import parse_models
    from svmcvx.experiments.studies import Split, Study, study
    from svmcvx.experiments.studies.statistics import mcnemar

__all__ = [
    "CertifiedPath",
    "CertifiedSelection",
    "Selection",
    "Split",
    "Study",
    "certified_path",
    "certified_select",
    "compare",
    "mcnemar",
    "parse_models",
    "select",
    "study",
]

# Imported when they are first asked for: the command line reads the names of models without
# scikit-learn.
_LAZY = {
    "CertifiedPath": "ranges.paths",
    "CertifiedSelection": "ranges.selection",
    "certified_path": "ranges.paths",
    "certified_select": "ranges.selection",
    "Selection": "selection",
    "Split": "studies",
    "Study": "studies",
    "compare": "comparison",
    "mcnemar": "studies.statistics",
    "parse_models": "specifications",
    "select": "selection",
    "study": "studies",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise no_attribute(__name__, name, __all__)
    value = getattr(import_module(f"svmcvx.experiments.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
