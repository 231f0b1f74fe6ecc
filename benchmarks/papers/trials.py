"""Repetitions of a protocol that no estimator's fit and score describes: data drawn anew, a
validation part, labels that are flipped.

A trial is one repetition of one cell of a table. It is computed by a function of the cell, and its
row is stored like the task of a study.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from svmcvx import DataError, Solution, Status, SvmcvxError
from svmcvx.data import check_time_limit
from svmcvx.datasets import content_digest, load
from svmcvx.experiments.store import FAILED, Row, collected, failed, fingerprint, plain
from svmcvx.system import clock
from svmcvx.system.deadline import OutOfTime, time_limited, until

# Computes the row of a cell and the number of the repetition, on the data of the cell.
Compute: TypeAlias = Callable[..., Row]

T = TypeVar("T")


@dataclass(frozen=True)
class Trial:
    """A repetition of a cell, as it is sent to a process."""

    compute: Compute
    cell: Mapping[str, Any]
    repeat: int
    keys: tuple[str]
    data: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return ", ".join(
            f"{name} {value}" for name, value in [*self.cell.items(), ("repeat", self.repeat)]
        )

    def empty_row(self) -> Row:
        """Return the row before anything is known."""
        return {
            **self.cell,
            "repeat": self.repeat,
            "status": None,
            "solves": 0,
            "certified": 0,
            "note": "",
        }

    def rows(
        self, keys: Sequence[str], end: float, shared: Mapping[Any, Any]
    ) -> Iterator[tuple[str, Row]]:
        """Yield the row; nothing if the time ran out before it was done."""
        row, started = self.empty_row(), clock.now()
        with until(end) as deadline, warnings.catch_warnings():
            if not keys or deadline.passed():
                return
            warnings.simplefilter("ignore", ConvergenceWarning)  # the row has the gap
            try:
                row |= {"status": "done"} | self.compute(
                    *self.data, repeat=self.repeat, **self.cell
                )
            except OutOfTime:
                return
            except Exception as error:  # an error of one solver does not stop the others
                if deadline.passed():
                    return
                row |= failed(error)
        yield keys[0], plain(row | {"seconds": clock.now() - started})


def accepted(solution: Solution) -> Solution:
    """Return a solution that was not cut short."""
    if solution.status is Status.INTERRUPTED:
        raise KeyboardInterrupt
    if solution.status is Status.TIME_LIMIT:
        raise OutOfTime
    return solution


def timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """Return what some work gives, its seconds, and its seconds of the processor; where something
    was compiled, those of a second time.
    """
    for _ in range(2):
        compiled, started, cpu = clock.compile_seconds(), clock.now(), time.process_time()
        found = work()
        seconds, cpu = clock.now() - started, time.process_time() - cpu
        if clock.compile_seconds() == compiled:
            break
    return found, seconds, cpu


def binary_sets(
    names: Mapping[str, str], data_dir: str | os.PathLike[str] | None
) -> tuple[dict[str, tuple[str, NDArray[np.float64], NDArray[np.float64]]], dict[str, str]]:
    """Load data sets of two classes, by what a table calls them."""
    data, left_out = {}, {}
    for name, source in names.items():
        try:
            loaded = load(source, data_dir).without_missing()
        except (SvmcvxError, OSError) as error:
            left_out[name] = " ".join(str(error).split())
            continue
        labels = np.where(loaded.y == loaded.classes[1], 1.0, -1.0)
        data[name] = (
            content_digest(loaded.X, loaded.y),
            np.asarray(loaded.X, dtype=np.float64),
            labels,
        )
    if not data:
        raise DataError("no data set of the table is available: " + "; ".join(left_out.values()))
    return data, left_out


class Trials:
    """What has been computed for a table."""

    def __init__(
        self,
        rows: Sequence[Row],
        left_out: Mapping[str, str],
        complete: bool,
        reused: int = 0,
        digests: Mapping[str, str] | None = None,
    ) -> None:
        self.frame = pd.DataFrame(list(rows))
        self.left_out = dict(left_out)
        # The digest of each data set.
        facts = [{"dataset": name, "digest": one} for name, one in (digests or {}).items()]
        self.datasets = pd.DataFrame(facts)
        self.complete, self.reused = complete, reused

    def done(self) -> pd.DataFrame:
        """Return the rows of the trials that did not fail."""
        return self.frame[self.frame["status"] != FAILED]

    def failures(self) -> pd.DataFrame:
        """Return the rows of the trials that failed."""
        return self.frame[self.frame["status"] == FAILED]

    def solves(self) -> tuple[int, int]:
        """Return how many solves are certified, and how many there are."""
        return int(self.frame["certified"].sum()), int(self.frame["solves"].sum())

    def report(
        self,
        path: str | os.PathLike[str],
        comparisons: Mapping[str, pd.DataFrame],
        title: str,
        figures: Sequence[tuple[str, str]] = (),
    ) -> None:
        """Write tables, figures and all trials into one HTML file (extra ``study``)."""
        from svmcvx.experiments.reports import report

        report(Path(path), None, {**comparisons, "Trials": self.frame}, title, figures)


def trials(
    name: str,
    compute: Compute,
    cells: Sequence[Mapping[str, Any]],
    repeats: int | Sequence[int],
    options: Mapping[str, Any],
    data: Mapping[str, tuple[Any, ...]] | None = None,
    left_out: Mapping[str, str] | None = None,
) -> Trials:
    """Compute all repetitions of all cells that are not in the store."""
    sets = {} if data is None else data
    counts = [repeats] * len(cells) if isinstance(repeats, int) else repeats
    work = [
        Trial(compute, cell, repeat, (_key(name, cell, repeat, sets),), _set(cell, sets)[1:])
        for repeat in range(max(counts))
        for cell, count in zip(cells, counts, strict=True)
        if repeat < count
    ]
    how: Any = {"n_jobs": options["n_jobs"], "again": True}
    how["usable"] = lambda row: row["status"] != FAILED
    with time_limited(check_time_limit(options["time_limit"])):
        found, reused, complete = collected(
            work, options["store"], "tasks", options["progress"], **how
        )
    rows = [found[trial.keys[0]] for trial in work if trial.keys[0] in found]
    digests = {name: str(one[0]) for name, one in sets.items()}
    return Trials(rows, left_out or {}, complete, reused, digests)


def _set(cell: Mapping[str, Any], sets: Mapping[str, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return the data set of a cell, its digest first; empty if it has none."""
    return sets.get(str(cell.get("dataset")), ())


def _key(name: str, cell: Mapping[str, Any], repeat: int, sets: Mapping[str, Any]) -> str:
    return fingerprint("trial", name, dict(cell), repeat, *_set(cell, sets)[:1])
