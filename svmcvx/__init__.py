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

__version__ = "0.3.0"

# Names of everyday use. Those of `_LAZY` and the modules of `_SUBPACKAGES` are attributes too;
# docs/api.md lists all of them by task.
__all__ = [
    "RBF",
    "Certificate",
    "ConicSVMClassifier",
    "Formulation",
    "FormulationProblem",
    "Kernel",
    "L0SVMClassifier",
    "M3SVMClassifier",
    "Model",
    "MulticlassSVMClassifier",
    "ODMClassifier",
    "ODMLClassifier",
    "PSVMClassifier",
    "Polynomial",
    "RampSVMClassifier",
    "RowBlocks",
    "Solution",
    "SvmcvxError",
    "ZeroOneSVMClassifier",
    "available_solvers",
    "certified_path",
    "certified_select",
    "certify",
    "compare",
    "conic_fixed_gamma",
    "conic_sdp",
    "datasets",
    "explore",
    "fast",
    "guarantee",
    "hard_margin_dual",
    "kernels",
    "l0_mio",
    "load_model",
    "m3svm",
    "multiclass",
    "odm_dual",
    "odm_primal",
    "odml_dual",
    "odml_primal",
    "plot",
    "psvm_dual",
    "psvm_primal",
    "ramp_mio",
    "select",
    "solve",
    "study",
    "synthetic",
    "verify",
    "zero_one_mio",
]

# Names by the modules that define them, which are imported at the first use of a name: cvxpy takes
# most of a second, and the command line needs no cvxpy to report a typing error.
_MODULES: dict[str, tuple[str, ...]] = {
    "svmcvx.certificate": ("Certificate",),
    "svmcvx.errors": (
        "BuildError",
        "DataError",
        "NotCertified",
        "SolverFailed",
        "SolverUnavailable",
        "SvmcvxError",
    ),
    "svmcvx.estimators": ("certify",),
    "svmcvx.experiments": ("certified_path", "certified_select", "compare", "select", "study"),
    "svmcvx.explorer": ("Explorer", "explore"),
    "svmcvx.formulations.base": ("BinaryStatement", "Formulation"),
    "svmcvx.formulations.problem": ("FormulationProblem",),
    "svmcvx.guarantees": ("Guarantee", "Interval", "guarantee"),
    "svmcvx.kernels": (
        "RBF",
        "Exponential",
        "Kernel",
        "Laplacian",
        "Linear",
        "Polynomial",
        "Precomputed",
        "Sigmoid",
    ),
    "svmcvx.model": (
        "KernelModel",
        "LinearModel",
        "Model",
        "MulticlassModel",
        "OneVsModel",
        "load_model",
    ),
    "svmcvx.proofs": ("Verified", "verify"),
    "svmcvx.row_blocks": ("RowBlocks",),
    "svmcvx.solution": ("Attempt", "Solution", "Status", "Timings"),
    "svmcvx.solve": ("available_solvers", "solve"),
}
_LAZY: dict[str, str] = {
    **{name: module for module, names in _MODULES.items() for name in names},
    **{builder.name: builder.module for entry in CATALOGUE.values() for builder in entry.builders},
    **{e.estimator.name: e.estimator.module for e in CATALOGUE.values() if e.estimator is not None},
}
# Modules that are names of the package.
_SUBPACKAGES = frozenset(
    (
        "certificate",
        "data",
        "datasets",
        "estimators",
        "experiments",
        "fast",
        "feature_space",
        "formulations",
        "guarantees",
        "kernels",
        "losses",
        "model",
        "plot",
        "proofs",
        "row_blocks",
        "solution",
        "synthetic",
        "system",
        "theory",
        "torch",
    )
)


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
