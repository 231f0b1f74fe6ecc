"""Which tables can be computed, and what comes out."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from svmcvx.data import check_choice, check_whole
from svmcvx.errors import DataError
from svmcvx.experiments.reproduction.figures import drawn, write_figures
from svmcvx.experiments.reproduction.trials import Trials
from svmcvx.experiments.studies import Study
from svmcvx.system.files import written_whole

__all__ = [
    "Reproduction",
    "Run",
    "accuracy_noise",
    "compared",
    "mean_noise",
    "outcome",
    "reproduce",
    "reproducible",
    "thinned",
]

# A grid of so many values is never thinned.
WHOLE_GRID = 3
# Of the tests.
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class Reproduction:
    """A table of a paper with the printed and our numbers.

    Attributes
    ----------
    name, title : str
    frame : DataFrame
        A row a number of the table. ``published``; ``as_written`` (the protocol of the paper's text) and ``as_released`` (that of the
        code published with it), each with its difference from the printed number and whether that is within ``noise``.
    shown : tuple of str
        The columns that the command line prints.
    notes : tuple of str
        What the columns are, and how the protocols differ.
    study : Study or Trials
        All fits.
    run : Run, optional
        How it was computed, for what its figures compute besides.
    """

    name: str
    title: str
    frame: pd.DataFrame
    shown: tuple[str, ...]
    notes: tuple[str, ...]
    study: Study | Trials
    run: Run | None = None

    @property
    def complete(self) -> bool:
        """Whether all fits are there."""
        return self.study.complete

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table, whole or not at all."""
        with written_whole(path) as stream:
            stream.write(self.frame.to_csv(index=False).encode())

    def figures(self, folder: str | os.PathLike[str]) -> list[Path]:
        """Write the figures that go with the table as SVG into a folder, and return the files (extra ``plot``)."""
        return write_figures(self, folder)

    def report(self, path: str | os.PathLike[str]) -> None:
        """Write table, figures and study into one HTML file (extra ``study``)."""
        pictures = [(one.svg, one.caption) for one in drawn(self)]
        noted = self.frame.copy()
        noted.attrs["note"] = " ".join(self.notes)
        self.study.report(path, {self.title: noted}, title=f"{self.title}, reproduced", figures=pictures)


class _Table(NamedTuple):
    title: str
    module: str
    function: str
    # Which of the arguments of `reproduce` that change its size it has a use for.
    takes: tuple[str, ...] = ("repeats",)

    def load(self) -> Callable[..., Reproduction]:
        found: Callable[..., Reproduction] = getattr(import_module(self.module), self.function)
        return found


_ROOM = "svmcvx.experiments.reproduction"
_TABLES: Mapping[str, _Table] = {
    "psvm-table1": _Table("pSVM, Table 1", f"{_ROOM}.psvm", "table1", ("sets",)),
    "psvm-table1-baselines": _Table(
        "pSVM, Table 1, the other classifiers", f"{_ROOM}.psvm_baselines", "table1", ("repeats", "sets")
    ),
    "psvm-table3": _Table("pSVM, Table 3", f"{_ROOM}.psvm", "table3", ("sets",)),
    "odm-table2": _Table("ODM, Table 2 (linear)", f"{_ROOM}.odm", "table2", ("repeats", "every", "sets")),
    "odm-table3": _Table("ODM, Table 3 (Gaussian kernel)", f"{_ROOM}.odm", "table3", ("repeats", "every", "sets")),
    "odm-table4": _Table("ODM, Table 4 (large sets)", f"{_ROOM}.odm", "table4", ("repeats", "every", "sets")),
    "m3svm-table1": _Table("M3SVM, Table 1", f"{_ROOM}.m3svm", "table1", ("repeats", "every", "sets")),
    "m3svm-figure3": _Table("M3SVM, Figure 3 (exponents)", f"{_ROOM}.m3svm", "figure3", ("repeats", "every", "sets")),
    "conic-table1": _Table("Conic loss, Table 1", f"{_ROOM}.conic", "table1"),
    "conic-table2": _Table("Conic loss, Table 2 (seconds)", f"{_ROOM}.conic", "table2"),
    "conic-table3": _Table("Conic loss, Table 3", f"{_ROOM}.conic", "table3"),
    "conic-table4": _Table("Conic loss, Table 4", f"{_ROOM}.conic", "table4"),
    "l0-table51": _Table("l0-KSVM, Table 5.1 (Double Circles)", f"{_ROOM}.l0", "table51"),
    "l0-table52": _Table("l0-KSVM, Table 5.2 (Double Moons)", f"{_ROOM}.l0", "table52"),
    "l0-table53": _Table("l0-KSVM, Table 5.3", f"{_ROOM}.l0", "table53"),
}


def reproducible() -> dict[str, str]:
    """Return the names of the tables that can be computed, with their titles."""
    return {name: table.title for name, table in _TABLES.items()}


class Run(NamedTuple):
    """How a table is computed: in part or in full, with how many repetitions, and with which arguments of :func:`svmcvx.study`."""

    quick: bool
    options: Mapping[str, Any]
    repeats: int | None = None
    every: int | None = None
    sets: tuple[str, ...] | None = None

    def chosen(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the data sets of a table that are asked for.

        Raises
        ------
        DataError
            If one that is asked for is not among them.
        """
        names = tuple(names)
        if self.sets is None:
            return names
        strange = sorted(set(self.sets) - set(names))
        if strange or not self.sets:
            raise DataError(f"sets must be of {', '.join(names)}; got {', '.join(strange) or 'none'}")
        return tuple(name for name in names if name in self.sets)

    def repetitions(self, full: int, quick: int) -> int:
        """Return the number of repetitions, of those of the paper and of the quick part."""
        return self.repeats or (quick if self.quick else full)


def thinned(values: Sequence[Any], every: int) -> list[Any]:
    """Return every so manieth value of a grid, its middle among them; up to three values stay as they are."""
    if every == 1 or len(values) <= WHOLE_GRID:
        return list(values)
    return list(values[(len(values) - 1) // 2 % every :: every])


def reproduce(
    table: str,
    *,
    quick: bool = False,
    repeats: int | None = None,
    every: int | None = None,
    sets: Sequence[str] | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    backend: str | None = None,
    n_jobs: int | None = None,
    progress: bool = False,
    time_limit: float | None = None,
) -> Reproduction:
    """Compute a table of a paper again, by the protocol of its text and by that of the code published with it.

    Parameters
    ----------
    table : str
        One of :func:`reproducible`.
    quick : bool
        A part of the table that takes little time.
    repeats : int, optional
        Repetitions, where the numbers are means over some; those of the paper by default.
    every : int, optional
        Take every so manieth value of each grid of hyper-parameters of more than three values, the middle one among them; all by default.
        A model with one setting left is not tuned.
    sets : sequence of str, optional
        Data sets, by the names that the table prints; all by default.
    data_dir, store, backend, n_jobs, progress, time_limit
        As for :func:`svmcvx.study`.

    Raises
    ------
    DataError
        If there is no such table, it has no use for an argument, or no data set of it can be had.
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
        "backend": backend,
        "n_jobs": n_jobs,
        "progress": progress,
        "time_limit": time_limit,
    }
    run = Run(quick, options, repeats, every, None if sets is None else tuple(sets))
    return replace(_TABLES[table].load()(run), run=run)


def compared(
    what: str, published_pct: float, task: Mapping[str, Any] | None, why_not: str = "missing"
) -> dict[str, float | bool | str]:
    """Return the part of a row that says what a task of a study gives, beside the printed accuracy.

    Parameters
    ----------
    what : str
        ``"as_written"`` or ``"as_released"``; the names of the columns begin with it.
    published_pct : float
    task : mapping or None
        A row of :attr:`Study.frame`; None if there is none.
    why_not : str
        What is said then.
    """
    if task is None or math.isnan(task["accuracy"]):
        return {what: math.nan, f"{what}_note": why_not if task is None else task["note"]}
    ours = 100.0 * task["accuracy"]
    noise = accuracy_noise(published_pct, ours, task["n_test"])
    return {
        what: round(ours, 2),
        f"{what}_difference": round(ours - published_pct, 2) + 0.0,
        f"{what}_within_noise": bool(abs(ours - published_pct) <= noise),
        f"{what}_noise": round(noise, 2),
        f"{what}_certified": f"{task['tuning_certified'] + task['certified']}/{task['tuning_fits'] + 1}",
        f"{what}_seconds": round(task["seconds"], 2),
    }


def accuracy_noise(first_pct: float, second_pct: float, n_test: int) -> float:
    """Return two standard errors of accuracies on so many test observations, the larger of the two, in percentage points."""
    shares = [min(max(accuracy / 100.0, 0.0), 1.0) for accuracy in (first_pct, second_pct)]
    return 200.0 * math.sqrt(max(a * (1.0 - a) for a in shares) / n_test)


def outcome(difference: NDArray[np.float64], p_value: float) -> str:
    """Return whether scores with these differences are better or worse at 95 %, or a tie; nothing if there is no p-value."""
    if math.isnan(p_value):
        return ""
    return "tie" if p_value >= LEVEL else "better" if difference.sum() > 0 else "worse"


def mean_noise(first_sd: float, first_splits: int, second_sd: float, second_splits: int) -> float:
    """Return two standard errors of the difference of two mean scores, each over independent random splits of the same data.

    Given the data the splits of a mean are independent, although their training parts overlap.
    """
    return 2.0 * math.sqrt(first_sd**2 / first_splits + second_sd**2 / second_splits)
