"""Call every specialised solver once on a few points, so that all code is compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp

from svmcvx.data import CodedLabels
from svmcvx.fast.conic_loss.conic import conic
from svmcvx.fast.core.rows import RowCacheSettings
from svmcvx.fast.indicator import l0, ramp, zero_one
from svmcvx.fast.linear.newton import LinearNewtonSettings
from svmcvx.fast.margin.hard_margin import ActiveSetSettings, HardMarginSettings, hard_margin
from svmcvx.fast.margin.pairs import solve_parts
from svmcvx.fast.margin.psvm import PSVMSettings, psvm
from svmcvx.fast.margin_distribution.odm import ODMSettings, odm
from svmcvx.fast.margin_distribution.odml import odml
from svmcvx.fast.several_classes.newton import MulticlassSettings
from svmcvx.fast.several_classes.solvers import m3svm, multiclass
from svmcvx.feature_space.kernel import FEW
from svmcvx.kernels import RBF
from svmcvx.system import clock
from svmcvx.system.compilation import Compiled, recorded

__all__ = ["FirstCall", "first_calls"]

Call: TypeAlias = tuple[str, Callable[[], Any]]


class FirstCall(NamedTuple):
    """A call, its seconds of compiling and of everything else, and the functions compiled."""

    name: str
    compiling: float
    running: float
    functions: list[Compiled]


def _calls() -> dict[str, list[Call]]:
    """Return calls that reach every compiled function with every type that it is compiled for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(40) > 0, 1, -1)
    apart = X + 4.0 * y[:, None]
    sparse = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    wide = sp.csr_array(sp.random_array((40, 3000), density=0.02, rng=rng))
    forms = (("dense", X), ("sparse", sparse))
    # The starts of zero_one belong to the linear list, which is compiled meanwhile.
    branch: list[Call] = [
        ("ramp", partial(ramp, X, y, C=1.0)),
        ("zero_one", partial(zero_one, X, y, lam=1.0)),
    ]
    first = ActiveSetSettings(first=2)
    active: list[Call] = [
        ("hard_margin, linear", partial(hard_margin, apart, y)),
        (
            "hard_margin, growing",
            partial(hard_margin, apart, y, settings=HardMarginSettings(active_set=first)),
        ),
        ("l0", partial(l0, X, y, C=1.0)),
    ]
    products = ODMSettings(newton=LinearNewtonSettings(largest_system=1))
    augmented = MulticlassSettings(interior_work=0.0)
    linear: list[Call] = [
        *(
            (f"psvm p={p:g}, linear, {name}", partial(psvm, rows, y, C=1.0, p=p, method="newton"))
            for p in (1.0, 1.5, 2.0)
            for name, rows in forms
        ),
        (
            "odm, by products",
            partial(odm, wide, y, C1=1.0, C2=1.0, D=0.1, method="newton", settings=products),
        ),
        *(
            (
                f"odm, {method}, {name}",
                partial(odm, rows, y, C1=1.0, C2=1.0, D=0.1, method=method, max_iter=20),
            )
            for method in ("newton", "dcd")
            for name, rows in forms
        ),
        ("odm, kernel", partial(odm, X, y, C1=1.0, C2=1.0, D=0.1, kernel="rbf")),
        ("odml", partial(odml, X, y, lam1=0.1, lam2=0.1, C=1.0)),
        ("m3svm", partial(m3svm, X, np.arange(40) % 3, lam=0.1, p=4.0)),
        *(
            (
                f"multiclass, {loss}",
                partial(multiclass, X, np.arange(40) % 3, lam=0.1, loss=loss, settings=augmented),
            )
            for loss in ("weston_watkins", "topk")
        ),
        ("conic", partial(conic, X, y, lam=1.0)),
    ]
    # Enough observations that their kernel matrix is not stored.
    many = rng.standard_normal((FEW + 1, 2))
    signs = np.where(many[:, 0] > 0, 1, -1)
    several = CodedLabels(np.arange(40) % 3, np.arange(3))
    together: Any = {"C": 10.0, "p": 1.0, "kernel": RBF(0.3), "tol": 1e-3, "cache_size": 1.0}
    single = PSVMSettings(rows=RowCacheSettings(double_precision=0))
    kernel: list[Call] = [
        ("hard_margin, kernel", partial(hard_margin, apart, y, kernel="rbf")),
        *(
            (f"psvm p={p:g}, kernel", partial(psvm, X, y, C=1.0, p=p, kernel="rbf"))
            for p in (1.0, 1.5, 2.0)
        ),
        ("psvm, kernel, none", partial(psvm, X, y, C=1.0, kernel="rbf", intercept="none")),
        ("psvm, several classes", partial(solve_parts, X, several, None, scheme="ovo", **together)),
        ("psvm, kernel, many", partial(psvm, many, signs, C=1.0, kernel="rbf", tol=0.1)),
        (
            "psvm, kernel, single precision",
            partial(psvm, many, signs, C=1.0, kernel="rbf", tol=0.1, settings=single),
        ),
    ]
    return {"branch": branch, "active": active, "linear": linear, "kernel": kernel}


def first_calls(group: str) -> list[FirstCall]:
    """Call the solvers of one group; functions that are not on disk yet are compiled."""
    calls = []
    for name, call in _calls()[group]:
        with recorded() as functions, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The timer is stopped while compiled code is loaded, too.
            started = clock.now() + clock.compile_seconds()
            call()
            whole = clock.now() + clock.compile_seconds() - started
            compiling = sum(function.seconds for function in functions)
            calls.append(FirstCall(name, compiling, whole - compiling, functions))
    return calls
