"""Call every specialised solver once on a few points, so that all code is compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from svmcvx.data import FEW, CodedLabels
from svmcvx.fast.conic_loss.conic import conic
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.core.rows import RowCacheSettings
from svmcvx.fast.indicator import l0, ramp, zero_one
from svmcvx.fast.linear.newton import LinearNewtonSettings
from svmcvx.fast.margin.hard_margin import ActiveSetSettings, HardMarginSettings, hard_margin
from svmcvx.fast.margin.pairs import solve_parts
from svmcvx.fast.margin.psvm import PSVMSettings, psvm
from svmcvx.fast.margin_distribution.solvers import ODMSettings, odm, odml
from svmcvx.fast.search.covering import Covering
from svmcvx.fast.search.state import CountingSearch, SearchSettings
from svmcvx.fast.several_classes.solvers import m3svm, multiclass
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.indicator.statement import l0_statement
from svmcvx.kernels import RBF
from svmcvx.system import clock
from svmcvx.system.compilation import Compiled, recorded

__all__ = ["FirstCall", "first_calls"]


class FirstCall(NamedTuple):
    """A call, its seconds of compiling and of everything else, and the functions compiled."""

    name: str
    compiling: float
    running: float
    functions: list[Compiled]


def _sets(X: Any, y: Any) -> None:
    """Run a round of the set-covering bound, which searches take up late."""
    statement = l0_statement(bound_space(X, y, None, "free", None, "error", own="free"), 1.0)
    asked: dict[str, Any] = {"tol": 1e-3, "max_iter": 10, "verbose": False, "callback": None}
    with monitored(**asked) as monitor, ThreadPoolExecutor(1) as pool:
        Covering(CountingSearch(statement, monitor), SearchSettings()).run(pool, 1.0)


def _calls() -> dict[str, dict[str, Callable[[], Any]]]:
    """Return calls that reach every compiled function with every type that it is compiled for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(40) > 0, 1, -1)
    apart, classes = X + 4.0 * y[:, None], np.arange(40) % 3
    forms = {"dense": X, "sparse": sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))}
    wide = sp.csr_array(sp.random_array((40, 3000), density=0.02, rng=rng))
    # Enough observations that their kernel matrix is not stored.
    many = rng.standard_normal((FEW + 1, 2))
    signs, powers = np.where(many[:, 0] > 0, 1, -1), (1.0, 1.5, 2.0)
    growing = HardMarginSettings(active_set=ActiveSetSettings(first=2))
    products = ODMSettings(newton=LinearNewtonSettings(largest_system=1))
    single = PSVMSettings(rows=RowCacheSettings(double_precision=0))
    several = CodedLabels(classes, np.arange(3))
    together: Any = {"C": 10.0, "p": 1.0, "kernel": RBF(0.3), "tol": 1e-3, "cache_size": 1.0}
    return {
        # The starts of zero_one belong to the linear list, which is compiled meanwhile.
        "branch": {
            "ramp": partial(ramp, X, y),
            **{
                f"zero_one, {method}": partial(zero_one, X, y, lam=1.0, method=method)
                for method in ("directions", "tree")
            },
        },
        "active": {
            "hard_margin, linear": partial(hard_margin, apart, y),
            "hard_margin, growing": partial(hard_margin, apart, y, settings=growing),
            "l0": partial(l0, X, y),
            "sets of rows": partial(_sets, X, y),
        },
        "linear": {
            **{
                f"psvm p={p:g}, linear, {name}": partial(psvm, rows, y, p=p, method="newton")
                for p in powers
                for name, rows in forms.items()
            },
            "odm, by products": partial(odm, wide, y, method="newton", settings=products),
            **{
                f"odm, {method}, {name}": partial(odm, rows, y, method=method, max_iter=20)
                for method in ("newton", "dcd")
                for name, rows in forms.items()
            },
            "odm, kernel": partial(odm, X, y, kernel="rbf"),
            "odml": partial(odml, X, y, lam1=0.1, lam2=0.1, C=1.0),
            "m3svm": partial(m3svm, X, classes, lam=0.1),
            **{
                f"multiclass, {loss}": partial(
                    multiclass, X, classes, lam=0.1, loss=loss, method="newton"
                )
                for loss in ("weston_watkins", "topk")
            },
            **{
                f"multiclass, dcd, {name}": partial(multiclass, rows, classes, method="dcd")
                for name, rows in forms.items()
            },
            "conic": partial(conic, X, y, lam=1.0),
        },
        "kernel": {
            "hard_margin, kernel": partial(hard_margin, apart, y, kernel="rbf"),
            **{f"psvm p={p:g}, kernel": partial(psvm, X, y, p=p, kernel="rbf") for p in powers},
            "psvm, kernel, none": partial(psvm, X, y, kernel="rbf", intercept="none"),
            "psvm, several classes": partial(
                solve_parts, X, several, None, scheme="ovo", **together
            ),
            "psvm, kernel, many": partial(psvm, many, signs, kernel="rbf", tol=0.1),
            "psvm, kernel, single precision": partial(
                psvm, many, signs, kernel="rbf", tol=0.1, settings=single
            ),
        },
    }


def first_calls(group: str) -> list[FirstCall]:
    """Call the solvers of one group; functions that are not on disk yet are compiled."""
    calls = []
    for name, call in _calls()[group].items():
        with recorded() as functions, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            # The timer is stopped while compiled code is loaded, too.
            started = clock.now() + clock.compile_seconds()
            call()
            whole = clock.now() + clock.compile_seconds() - started
            compiling = sum(function.seconds for function in functions)
            calls.append(FirstCall(name, compiling, whole - compiling, functions))
    return calls
