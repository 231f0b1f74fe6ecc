"""Running models over data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from svmcvx.errors import no_attribute

if TYPE_CHECKING:
    from svmcvx.experiments.certified_selection import CertifiedSelection, certified_select
    from svmcvx.experiments.comparison import compare
    from svmcvx.experiments.paths import CertifiedPath, certified_path
    from svmcvx.experiments.results import Study
    from svmcvx.experiments.selection import Selection, select
    from svmcvx.experiments.specifications import parse_models
    from svmcvx.experiments.statistics import mcnemar
    from svmcvx.experiments.studies import Split, study

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

# Modules by their names, imported at first use: the command line reads the names of models without
# scikit-learn.
_LAZY = {
    "comparison": ("compare",),
    "paths": ("CertifiedPath", "certified_path"),
    "certified_selection": ("CertifiedSelection", "certified_select"),
    "results": ("Study",),
    "selection": ("Selection", "select"),
    "specifications": ("parse_models",),
    "statistics": ("mcnemar",),
    "studies": ("Split", "study"),
}


def __getattr__(name: str) -> Any:
    module = next((module for module, names in _LAZY.items() if name in names), None)
    if module is None:
        raise no_attribute(__name__, name, __all__)
    value = getattr(import_module(f"svmcvx.experiments.{module}"), name)
    globals()[name] = value
    return value
