"""Running models over data."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from svmcvx.errors import no_attribute

if TYPE_CHECKING:
    from svmcvx.experiments.certified_selection import CertifiedSelection as CertifiedSelection
    from svmcvx.experiments.certified_selection import certified_select as certified_select
    from svmcvx.experiments.comparison import Comparison as Comparison
    from svmcvx.experiments.comparison import Split as Split
    from svmcvx.experiments.comparison import compare as compare
    from svmcvx.experiments.paths import CertifiedPath as CertifiedPath
    from svmcvx.experiments.paths import certified_path as certified_path
    from svmcvx.experiments.relaxations import relaxation_gaps as relaxation_gaps
    from svmcvx.experiments.results import Study as Study
    from svmcvx.experiments.selection import Selection as Selection
    from svmcvx.experiments.selection import select as select
    from svmcvx.experiments.specifications import parse_models as parse_models
    from svmcvx.experiments.studies import study as study

# Names by their modules, imported at first use: the command line reads the names of models without
# scikit-learn.
_NAMES = {
    "certified_selection": "CertifiedSelection certified_select",
    "comparison": "Comparison Split compare",
    "paths": "CertifiedPath certified_path",
    "relaxations": "relaxation_gaps",
    "results": "Study",
    "selection": "Selection select",
    "specifications": "parse_models",
    "studies": "study",
}
_LAZY = {name: module for module, names in _NAMES.items() for name in names.split()}
__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise no_attribute(__name__, name, __all__)
    value = getattr(import_module(f"svmcvx.experiments.{_LAZY[name]}"), name)
    globals()[name] = value
    return value
