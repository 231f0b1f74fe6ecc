"""Support vector machine formulations as convex and mixed-integer programs, with checked intervals.

>>> import numpy as np
>>> import svmcvx as sx
>>> X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), ["a", "a", "b", "b"]
>>> solution = sx.solve(sx.psvm_dual(X, y, C=1.0, p=1.5))
>>> solution.certificate.is_certified(1e-8)
True
>>> list(solution.model.predict([[0.5], [3.5]]))
[np.str_('a'), np.str_('b')]
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from svmcvx.catalogue import CATALOGUE
from svmcvx.errors import no_attribute

__version__ = "0.4.0.dev0"

# Names by the modules that define them, which are imported at the first use of a name: cvxpy takes
# most of a second, and the command line needs no cvxpy to report a typing error. Those before a bar
# are of everyday use; docs/api.md lists all of them by task.
_NAMES = {
    "svmcvx.certificate": "Certificate",
    "svmcvx.errors": (
        "SvmcvxError | BuildError DataError NotCertified SolverFailed SolverUnavailable"
    ),
    "svmcvx.estimators": "certify",
    "svmcvx.experiments": "certified_path certified_select compare select study | relaxation_gaps",
    "svmcvx.explorer": "explore | Explorer",
    "svmcvx.formulations.base": "Formulation | BinaryStatement",
    "svmcvx.formulations.problem": "FormulationProblem",
    "svmcvx.guarantees": "guarantee | Guarantee Interval",
    "svmcvx.kernels": "RBF Kernel Polynomial | Exponential Laplacian Linear Precomputed Sigmoid",
    "svmcvx.model": "Model load_model | KernelModel LinearModel MulticlassModel OneVsModel",
    "svmcvx.proofs": "verify | Verified",
    "svmcvx.row_blocks": "RowBlocks",
    "svmcvx.solution": "Solution | Attempt Status Timings",
    "svmcvx.solve": "available_solvers solve",
}
# Modules that are names of the package, and builders that are not of everyday use.
_MODULES = (
    "datasets fast kernels plot synthetic | certificate data estimators experiments feature_space"
    " formulations guarantees losses model proofs row_blocks solution system theory torch"
)
_FURTHER = (
    "odml_hard_margin m3svm_hard_margin weston_watkins crammer_singer msvm topk_svm multinomial_lr"
    " sparse_multinomial_lr"
)
_SUBPACKAGES = frozenset(_MODULES.replace("|", "").split())
_LOADED = [
    *(builder for entry in CATALOGUE.values() for builder in entry.builders),
    *(entry.estimator for entry in CATALOGUE.values() if entry.estimator is not None),
]
_LAZY = {
    **{name: module for module, names in _NAMES.items() for name in names.split() if name != "|"},
    **{loaded.name: loaded.module for loaded in _LOADED},
}
_EVERYDAY = " ".join(names.partition("|")[0] for names in (*_NAMES.values(), _MODULES)).split()
__all__ = sorted({*_EVERYDAY, *(loaded.name for loaded in _LOADED)} - {*_FURTHER.split()})


def __getattr__(name: str) -> Any:
    if name in _SUBPACKAGES:
        return import_module(f"svmcvx.{name}")
    if name not in _LAZY:
        raise no_attribute(__name__, name, (*_LAZY, *_SUBPACKAGES))
    value = getattr(import_module(_LAZY[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(
        {*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"}
    )


class _Package(ModuleType):
    """The package, in which ``solve`` is the function, not the subpackage."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "solve" and isinstance(value, ModuleType):
            value = value.solve
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
