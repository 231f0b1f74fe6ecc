"""Arrays that do not belong to a proof of the formulation, are missing, have other shapes, or hold
no numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .archive import File
from .corpus import enter_table, with_entry

N = 24
ONES = np.ones(N)


def _with(**arrays: np.ndarray) -> Callable[[File], None]:
    return lambda file: file.arrays.update(
        {name.replace("__", "."): values for name, values in arrays.items()}
    )


def _without(*names: str) -> Callable[[File], None]:
    def change(file: File) -> None:
        for name in names:
            del file.arrays[name]

    return change


SEVERAL_ARRAYS = "has the arrays"
CHANGES: dict[str, tuple[str, Callable[[File], None], str]] = {
    "an array of no family": ("psvm", _with(hyperparameters=ONES), "no array"),
    "a hyper-parameter as an array": ("psvm", _with(hyperparameters__C=np.array(7.5)), "no array"),
    "a loss as an array": (
        "m3svm logistic",
        _with(hyperparameters__loss=np.array(1.0)),
        "no array",
    ),
    "a number of the kernel as an array": (
        "psvm rbf",
        _with(kernel__gamma=np.array(9.0)),
        "no array",
    ),
    "multipliers of another machine": ("psvm", _with(dual__theta=ONES), SEVERAL_ARRAYS),
    "the γ of a problem without one": ("psvm", _with(statement__gamma=ONES), SEVERAL_ARRAYS),
    "the M of a problem without one": ("psvm", _with(statement__M=ONES), SEVERAL_ARRAYS),
    "no model": ("psvm", _without("model.coef", "model.intercept"), SEVERAL_ARRAYS),
    "a model without an intercept": ("psvm", _without("model.intercept"), SEVERAL_ARRAYS),
    "coefficients of a machine with a kernel": (
        "psvm rbf",
        _with(model__coef=np.ones(2)),
        SEVERAL_ARRAYS,
    ),
    "coefficients and a support": (
        "psvm",
        _with(model__support=np.arange(3), model__dual_coef=np.ones(3)),
        SEVERAL_ARRAYS,
    ),
    "a dual point without γ": ("conic", _without("dual.gamma"), SEVERAL_ARRAYS),
    "a dual point without λ": ("conic kappa", _without("dual.lam"), SEVERAL_ARRAYS),
    "a spread of two kinds": ("conic", _with(model__V_coef=np.ones((N, 1))), SEVERAL_ARRAYS),
    "a coefficient more": ("psvm", _with(model__coef=np.ones(3)), r"shape \(3,\) where \(2\)"),
    "a coefficient for each class": ("psvm", _with(model__coef=np.ones((2, 2))), "shape"),
    "an intercept in a list": ("psvm", _with(model__intercept=np.ones(1)), "shape"),
    "multipliers in two columns": ("psvm", _with(dual__alpha=np.ones((N, 2))), "shape"),
    "multipliers of one row less": ("psvm", _with(dual__alpha=np.ones(N - 1)), "shape"),
    "multipliers of one class less": ("m3svm", _with(dual__alpha=np.zeros((N, 2))), "shape"),
    "a number as weights": ("psvm", _with(statement__weight=np.array(1.0)), "shape"),
    "weights of two columns": ("psvm", _with(statement__weight=np.ones((N, 2))), "shape"),
    "flows of two columns": ("m3svm", _with(dual__flow=np.zeros((3, 2))), "shape"),
    "a spread of more columns than rows": (
        "conic",
        _with(model__V=np.zeros((3, 25))),
        "too many columns: 25",
    ),
    "a spread of more columns than observations": (
        "conic rbf",
        _with(model__V_coef=np.zeros((N, N + 1))),
        "too many columns",
    ),
    "a row of the data less": ("psvm", lambda file: _rows(file), "they have 23 rows"),
    "a class that no row has": (
        "weston_watkins",
        lambda file: _two_classes(file),
        "no row has its label 2",
    ),
    "a support of more rows than there are": (
        "psvm rbf",
        _with(model__support=np.arange(N + 1), model__dual_coef=np.ones(N + 1)),
        "names 25 rows",
    ),
    "a support of doubles": ("psvm rbf", lambda file: _floats(file, "model.support"), "dtype"),
    "negative weights": (
        "psvm weights",
        with_entry("statement.weight", 3, -1.0),
        "not be negative",
    ),
    "weights that are no numbers": (
        "psvm weights",
        with_entry("statement.weight", 3, np.nan),
        "finite",
    ),
    "infinite weights": ("psvm weights", with_entry("statement.weight", 3, np.inf), "finite"),
    "weights of zero alone": (
        "psvm weights",
        with_entry("statement.weight", ..., 0.0),
        "some weight",
    ),
    "multipliers that are no numbers": (
        "psvm",
        with_entry("dual.alpha", 5, np.nan),
        "row 5 is not finite|not finite",
    ),
    "infinite multipliers": ("psvm", with_entry("dual.alpha", 5, np.inf), "finite|above its bound"),
    "θ that is no number": ("odm", with_entry("dual.theta", 5, np.nan), "finite"),
    "coefficients that are no numbers": ("psvm", with_entry("model.coef", 0, np.nan), "finite"),
    "an infinite intercept": ("psvm", _with(model__intercept=np.array(np.inf)), "finite"),
    "a spread that is no number": ("conic", with_entry("model.V", (0, 0), np.nan), "finite"),
    "flows that are no numbers": ("m3svm", with_entry("dual.flow", (0, 0), np.nan), "finite"),
    "flows that are infinite": ("m3svm", with_entry("dual.flow", (0, 0), np.inf), "finite"),
    "a row of the support that there is not": (
        "psvm rbf",
        with_entry("model.support", 0, 1000),
        "rows of the data",
    ),
    "a negative row of the support": (
        "psvm rbf",
        with_entry("model.support", 0, -1),
        "rows of the data",
    ),
    "a row of the support twice": ("psvm rbf", lambda file: _twice(file), "twice"),
}


def _floats(file: File, name: str) -> None:
    file.arrays[name] = file.arrays[name].astype(float)


def _twice(file: File) -> None:
    file.arrays["model.support"][1] = file.arrays["model.support"][0]


def _rows(file: File) -> None:
    file.X, file.y = file.X[:-1], file.y[:-1]


def _two_classes(file: File) -> None:
    file.y = np.where(file.y == 2, 1, file.y)


enter_table(CHANGES)
