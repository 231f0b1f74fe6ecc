"""All specialised solvers called once on a few points, so that nothing is left to be compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from svmcvx.fast.conic_loss.conic import conic
from svmcvx.fast.core.compilation import Compiled, recorded
from svmcvx.fast.core.row_cache import RowCacheSettings
from svmcvx.fast.indicator.l0 import l0
from svmcvx.fast.indicator.ramp import ramp
from svmcvx.fast.indicator.zero_one import zero_one
from svmcvx.fast.linear.problem import LinearNewtonSettings
from svmcvx.fast.margin.hard_margin import ActiveSetSettings, HardMarginSettings, hard_margin
from svmcvx.fast.margin.psvm import PSVMSettings, psvm
from svmcvx.fast.margin_distribution.odm import ODMSettings, odm
from svmcvx.fast.margin_distribution.odml import odml
from svmcvx.fast.multiclass.classical import multiclass
from svmcvx.fast.multiclass.m3svm import m3svm
from svmcvx.system import clock

__all__ = ["FirstCall", "compile_ahead"]


class FirstCall(NamedTuple):
    """A call, its seconds of compiling and of everything else, and the functions compiled."""

    name: str
    compiling: float
    running: float
    functions: list[Compiled]


def _calls() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield calls that reach every compiled function with every type that it is compiled for."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 3))
    y = np.where(X[:, 0] + 0.5 * rng.standard_normal(40) > 0, 1, -1)
    apart = X + 4.0 * y[:, None]
    sparse = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    for p in (1.0, 1.5, 2.0):
        for name, rows in (("dense", X), ("sparse", sparse)):
            yield f"psvm p={p:g}, linear, {name}", partial(psvm, rows, y, C=1.0, p=p)
        yield f"psvm p={p:g}, kernel", partial(psvm, X, y, C=1.0, p=p, kernel="rbf")
    single = PSVMSettings(rows=RowCacheSettings(double_precision=0))
    yield "psvm, kernel, single precision", partial(psvm, X, y, C=1.0, p=1.0, kernel="rbf", settings=single)
    yield "psvm, kernel, random pairs", partial(psvm, X, y, C=1.0, p=1.5, kernel="rbf", selection="random", max_iter=20)
    wide = sp.csr_array(sp.random_array((40, 3000), density=0.02, rng=rng))
    products = ODMSettings(newton=LinearNewtonSettings(largest_system=1))
    yield "odm, by products", partial(odm, wide, y, C1=1.0, C2=1.0, D=0.1, method="newton", settings=products)
    yield "hard_margin, linear", partial(hard_margin, apart, y)
    growing = HardMarginSettings(active_set=ActiveSetSettings(first=2))
    yield "hard_margin, growing", partial(hard_margin, apart, y, settings=growing)
    yield "hard_margin, kernel", partial(hard_margin, apart, y, kernel="rbf")
    yield "conic", partial(conic, X, y, lam=1.0)
    for method in ("newton", "dcd", "svrg"):
        for name, rows in (("dense", X), ("sparse", sparse)):
            yield (
                f"odm, {method}, {name}",
                partial(odm, rows, y, C1=1.0, C2=1.0, D=0.1, method=method, max_iter=20),
            )
    yield "odm, kernel", partial(odm, X, y, C1=1.0, C2=1.0, D=0.1, kernel="rbf")
    yield "odml", partial(odml, X, y, lam1=0.1, lam2=0.1, C=1.0)
    yield "m3svm", partial(m3svm, X, np.arange(40) % 3, lam=0.1, p=4.0)
    for loss in ("weston_watkins", "topk"):
        yield f"multiclass, {loss}", partial(multiclass, X, np.arange(40) % 3, lam=0.1, loss=loss)
    yield "l0", partial(l0, X, y, C=1.0)
    yield "ramp", partial(ramp, X, y, C=1.0)
    yield "zero_one", partial(zero_one, X, y, lam=1.0)
    yield "zero_one, sweep", partial(zero_one, X[:12], y[:12], lam=1.0, method="sweep")


def compile_ahead() -> Iterator[FirstCall]:
    """Call every specialised solver, and yield what each first call took.

    The machine code is kept between sessions, by numba beside the package or in ``NUMBA_CACHE_DIR``.
    """
    for name, call in _calls():
        with recorded() as functions, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            started, before = clock.now(), clock.compile_seconds()
            call()
            yield FirstCall(name, clock.compile_seconds() - before, clock.now() - started, functions)
