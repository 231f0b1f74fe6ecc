"""Support vector machine formulations as convex programs, every answer with a checked interval.

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

from importlib import import_module
from typing import TYPE_CHECKING, Any

from svmcvx.certificate import Certificate
from svmcvx.errors import BuildError, DataError, NotCertified, SolverFailed, SolverUnavailable, SvmcvxError
from svmcvx.formulations.psvm import hard_margin_dual, psvm_dual, psvm_primal
from svmcvx.kernels import RBF, Exponential, Kernel, Laplacian, Linear, Polynomial, Precomputed, Sigmoid
from svmcvx.model import KernelModel, LinearModel, Model, MulticlassModel, load_model
from svmcvx.solution import Attempt, Solution, Status, Timings

# Bound after the subpackage of the same name has been imported, so that svmcvx.solve is the function.
from svmcvx.solve import available_solvers, solve

if TYPE_CHECKING:
    from svmcvx import datasets, plot
    from svmcvx.estimators import PSVMClassifier
    from svmcvx.experiments import compare

__version__ = "0.1.0"

__all__ = [
    "RBF",
    "Attempt",
    "BuildError",
    "Certificate",
    "DataError",
    "Exponential",
    "Kernel",
    "KernelModel",
    "Laplacian",
    "Linear",
    "LinearModel",
    "Model",
    "MulticlassModel",
    "NotCertified",
    "PSVMClassifier",
    "Polynomial",
    "Precomputed",
    "Sigmoid",
    "Solution",
    "SolverFailed",
    "SolverUnavailable",
    "Status",
    "SvmcvxError",
    "Timings",
    "available_solvers",
    "compare",
    "datasets",
    "hard_margin_dual",
    "load_model",
    "plot",
    "psvm_dual",
    "psvm_primal",
    "solve",
]

# What needs scikit-learn, pandas or matplotlib is imported when it is first asked for.
_LAZY = {
    "PSVMClassifier": ("svmcvx.estimators", "PSVMClassifier"),
    "compare": ("svmcvx.experiments", "compare"),
    "datasets": ("svmcvx.datasets", None),
    "plot": ("svmcvx.plot", None),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'svmcvx' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = import_module(module) if attribute is None else getattr(import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
