"""Which tables can be computed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from benchmarks.papers.result import Reproduction, Run
from svmcvx import DataError
from svmcvx.data import check_choice, check_whole


class _Table(NamedTuple):
    title: str
    module: str
    function: str
    # Which of the arguments of `reproduce` that change its size it has a use for.
    takes: tuple[str, ...] = ("repeats",)

    def load(self) -> Callable[..., Reproduction]:
        found: Callable[..., Reproduction] = getattr(import_module(self.module), self.function)
        return found


_PACKAGE = "benchmarks.papers"
_TABLES: Mapping[str, _Table] = {
    "psvm-table1": _Table("pSVM, Table 1", f"{_PACKAGE}.psvm", "table1", ("sets",)),
    "psvm-table1-baselines": _Table(
        "pSVM, Table 1, the other classifiers",
        f"{_PACKAGE}.psvm_baselines",
        "table1",
        ("repeats", "sets"),
    ),
    "psvm-figure2": _Table("pSVM, Figure 2 (training rows)", f"{_PACKAGE}.psvm", "figure2"),
    "psvm-table3": _Table("pSVM, Table 3", f"{_PACKAGE}.psvm", "table3", ("sets",)),
    "odm-table2": _Table(
        "ODM, Table 2 (linear)", f"{_PACKAGE}.odm", "table2", ("repeats", "every", "sets")
    ),
    "odm-table3": _Table(
        "ODM, Table 3 (Gaussian kernel)", f"{_PACKAGE}.odm", "table3", ("repeats", "every", "sets")
    ),
    "odm-table4": _Table(
        "ODM, Table 4 (large sets)", f"{_PACKAGE}.odm", "table4", ("repeats", "every", "sets")
    ),
    "odm-figure2": _Table(
        "ODM, Figure 2 (processor seconds)",
        f"{_PACKAGE}.odm_seconds",
        "figure2",
        ("sets", "repeats"),
    ),
    "m3svm-table1": _Table(
        "M3SVM, Table 1", f"{_PACKAGE}.m3svm", "table1", ("repeats", "every", "sets")
    ),
    "m3svm-table1-folds": _Table(
        "M3SVM, Table 1 (ten runs of five folds)",
        f"{_PACKAGE}.m3svm_folds",
        "folds",
        ("repeats", "every", "sets"),
    ),
    "m3svm-figure3": _Table(
        "M3SVM, Figure 3 (exponents)", f"{_PACKAGE}.m3svm", "figure3", ("repeats", "every", "sets")
    ),
    "m3svm-figure4": _Table(
        "M3SVM, Figure 4 (λ)", f"{_PACKAGE}.m3svm", "figure4", ("repeats", "sets")
    ),
    "conic-table1": _Table("Conic loss, Table 1", f"{_PACKAGE}.conic", "table1"),
    "conic-table2": _Table("Conic loss, Table 2 (seconds)", f"{_PACKAGE}.conic", "table2"),
    "conic-table3": _Table("Conic loss, Table 3", f"{_PACKAGE}.conic", "table3"),
    "conic-table4": _Table("Conic loss, Table 4", f"{_PACKAGE}.conic", "table4"),
    "l0-table51": _Table("l0-KSVM, Table 5.1 (Double Circles)", f"{_PACKAGE}.l0", "table51"),
    "l0-table52": _Table("l0-KSVM, Table 5.2 (Double Moons)", f"{_PACKAGE}.l0", "table52"),
    "l0-table53": _Table("l0-KSVM, Table 5.3", f"{_PACKAGE}.l0", "table53"),
}


def reproducible() -> dict[str, str]:
    """Return the names of the tables that can be computed, with their titles."""
    return {name: table.title for name, table in _TABLES.items()}


def reproduce(
    table: str,
    *,
    quick: bool = False,
    repeats: int | None = None,
    every: int | None = None,
    sets: Sequence[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    time_limit: float | None = None,
) -> Reproduction:
    """Compute a table of a paper again, by the protocol of its text and by that of the code
    published with it.
    """
    check_choice(table, "table", tuple(_TABLES))
    given = {"repeats": repeats, "every": every, "sets": sets}
    for name, value in given.items():
        if value is not None and name not in _TABLES[table].takes:
            raise DataError(f"{table} has no use for {name}; leave it out")
        if value is not None and name != "sets":
            check_whole(value, name, 1)
    options = {
        "data_dir": data_dir,
        "store": None if store is None else Path(store),
        "n_jobs": n_jobs,
        "progress": progress,
        "time_limit": time_limit,
    }
    run = Run(quick, options, repeats, every, None if sets is None else tuple(sets))
    return replace(_TABLES[table].load()(run), run=run)
