"""Specialised solvers for large instances, with the certified Solution of the general route."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from svmcvx.catalogue import CATALOGUE
from svmcvx.errors import no_attribute

if TYPE_CHECKING:
    from svmcvx.fast.conic_loss.conic import conic
    from svmcvx.fast.indicator import l0, ramp, zero_one
    from svmcvx.fast.margin.hard_margin import hard_margin
    from svmcvx.fast.margin.psvm import psvm
    from svmcvx.fast.margin_distribution.solvers import odm, odml
    from svmcvx.fast.several_classes.solvers import m3svm, multiclass
    from svmcvx.fast.warm_path import path

__all__ = ["conic", "hard_margin", "l0", "m3svm", "multiclass", "odm", "odml"]
__all__ += ["path", "psvm", "ramp", "zero_one"]

# Imported at their first use, with their compiled code. No folder has a function's name.
_MODULES = {
    entry.fast.name: entry.fast.module for entry in CATALOGUE.values() if entry.fast is not None
}
_MODULES["path"] = "svmcvx.fast.warm_path"

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise no_attribute(__name__, name, __all__)
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__"})
