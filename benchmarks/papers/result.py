"""A table of a paper with the printed and our numbers, and what its cells are made of."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.papers.trials import Trials
from svmcvx import DataError
from svmcvx.experiments import Study
from svmcvx.experiments.reports import computer, versions
from svmcvx.experiments.statistics import corrected_t
from svmcvx.experiments.tables import outward
from svmcvx.system.files import atomic_write

# A grid of at most this many values is used whole.
WHOLE_GRID = 3
# What tables of means say of their intervals.
EXACT = (
    "Exact: the mean over the splits of the intervals of what every optimal machine with the chosen"
    " hyper-parameters scores, one number where both ends meet; empty where there is no guarantee."
)
# What tables say of their tests over splits.
TESTED = (
    "Less: the mean over the splits of the difference of two scores, with its 95 % interval by the"
    " corrected resampled t-test, the median, and the share of splits on which this row is the"
    " better one, equal scores counted half. There is no p-value where all differences are equal."
)
# Of the tests.
LEVEL = 0.05


@dataclass(frozen=True, eq=False)
class Reproduction:
    """A table of a paper with the printed and our numbers."""

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
        with atomic_write(path) as stream:
            stream.write(self._csv())

    def _csv(self) -> bytes:
        return self.frame.to_csv(index=False).encode()

    def record(self) -> dict[str, Any]:
        """Return what the table was computed with and from: options, versions, commit, computer,
        data, solves, and the SHA-256 of its CSV file.
        """
        certified, solves = self.study.solves()
        options = {} if self.run is None else self.run.size()
        return {
            "table": self.name,
            "title": self.title,
            "options": options,
            "date": datetime.now(tz=UTC).date().isoformat(),
            "versions": versions(),
            "commit": commit(),
            "computer": computer(),
            "data": self.study.datasets.to_dict("records"),
            "left_out": self.study.left_out,
            "complete": self.complete,
            "solves": solves,
            "certified": certified,
            "seconds": (
                round(float(self.study.frame["seconds"].sum()), 1) if len(self.study.frame) else 0.0
            ),
            "rows": len(self.frame),
            "sha256_of_csv": hashlib.sha256(self._csv()).hexdigest(),
            "notes": list(self.notes),
        }

    def to_record(self, path: str | os.PathLike[str]) -> None:
        """Write :meth:`record` as JSON, whole or not at all."""
        with atomic_write(path) as stream:
            stream.write((json.dumps(self.record(), indent=1, ensure_ascii=False) + "\n").encode())


def commit() -> str | None:
    """Return the commit of the sources, with "+" for changes; None without git or a repository."""
    folder, git = Path(__file__).parents[2], shutil.which("git")
    if git is None or not (folder / ".git").exists():
        return None
    words = [git, "-C", str(folder), "describe", "--always", "--abbrev=40", "--exclude=*"]
    done = subprocess.run(  # noqa: S603 - no shell, and words of our own
        [*words, "--dirty=+"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


class Run(NamedTuple):
    """How a table is computed: in part or in full, with how many repetitions, and with which
    arguments of :func:`svmcvx.study`.
    """

    quick: bool
    options: Mapping[str, Any]
    repeats: int | None = None
    every: int | None = None
    sets: tuple[str, ...] | None = None

    def size(self) -> dict[str, Any]:
        """Return the arguments that change the size of a table, but for those that are not
        given.
        """
        given: dict[str, Any] = {
            "quick": self.quick or None,
            "repeats": self.repeats,
            "every": self.every,
        }
        given["sets"] = None if self.sets is None else list(self.sets)
        return {name: value for name, value in given.items() if value is not None}

    def chosen(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return those of the data sets of a table that are asked for."""
        names = tuple(names)
        if self.sets is None:
            return names
        strange = sorted(set(self.sets) - set(names))
        if strange or not self.sets:
            raise DataError(
                f"sets must be of {', '.join(names)}; got {', '.join(strange) or 'none'}"
            )
        return tuple(name for name in names if name in self.sets)

    def repetitions(self, full: int, quick: int) -> int:
        """Return the number of repetitions, of those of the paper and of the quick part."""
        return self.repeats or (quick if self.quick else full)


def every_kth(values: Sequence[Any], k: int) -> list[Any]:
    """Return every k-th value of a grid, its middle among them; up to three values stay as they
    are.
    """
    if k == 1 or len(values) <= WHOLE_GRID:
        return list(values)
    return list(values[(len(values) - 1) // 2 % k :: k])


def compared(
    what: str, published_pct: float, task: Mapping[str, Any] | None, why_not: str = "missing"
) -> dict[str, float | bool | str]:
    """Return the part of a row with the result of a task of a study next to the printed
    accuracy.
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
        f"{what}_certified": (
            f"{task['tuning_certified'] + task['certified']}/{task['tuning_fits'] + 1}"
        ),
        f"{what}_seconds": round(task["seconds"], 2),
        **exact_cells(
            what, task.get("accuracy_lower"), task.get("accuracy_upper"), unit=100.0, decimals=2
        ),
    }


def exact_cells(
    what: str, lower: float | None, upper: float | None, *, unit: float, decimals: int
) -> dict[str, float]:
    """Return the cells of what every optimal machine scores, rounded outward; none where that is
    not known.
    """
    if lower is None or upper is None or math.isnan(lower) or math.isnan(upper):
        return {}
    ends = outward(unit * lower, unit * upper, decimals)
    return {f"{what}_exact_lower": ends[0], f"{what}_exact_upper": ends[1]}


def mean_exact(
    what: str, tasks: pd.DataFrame, *, unit: float = 1.0, decimals: int = 3
) -> dict[str, float]:
    """Return the cells of the mean interval over the splits, as :func:`exact_cells`."""
    if "accuracy_lower" not in tasks:
        return {}
    lower, upper = (
        float(tasks[f"accuracy_{end}"].mean(skipna=False)) for end in ("lower", "upper")
    )
    return exact_cells(what, lower, upper, unit=unit, decimals=decimals)


def accuracy_noise(first_pct: float, second_pct: float, n_test: int) -> float:
    """Return the larger of two standard errors of accuracies on a number of test observations, in
    percentage points.
    """
    shares = [min(max(accuracy / 100.0, 0.0), 1.0) for accuracy in (first_pct, second_pct)]
    return 200.0 * math.sqrt(max(a * (1.0 - a) for a in shares) / n_test)


def joined(studies: Sequence[Study]) -> Study:
    """Return one study of the rows of studies with the same protocol."""
    found = copy(studies[0])
    lines: dict[str, list[str]] = {}
    for name, line in (item for one in studies for item in one.model_lines.items()):
        lines.setdefault(name, []).append(line)
    found.models = tuple(lines)
    found.model_lines = {name: "; ".join(dict.fromkeys(own)) for name, own in lines.items()}
    for name in ("conventions", "grids", "left_out"):
        merged = {k: value for one in studies for k, value in getattr(one, name).items()}
        setattr(found, name, merged)
    for name in ("datasets", "frame"):
        setattr(found, name, pd.concat([getattr(one, name) for one in studies], ignore_index=True))
    found.complete = all(one.complete for one in studies)
    found.reused = sum(one.reused for one in studies)
    return found


def significant(value: float, digits: int = 3) -> float:
    """Return a number rounded to some significant digits, so that a small p-value is not 0."""
    return float(f"{value:.{digits}g}")


def over_splits(
    part: pd.DataFrame, other: pd.DataFrame, name: str, tests: Mapping[str, tuple[str, bool]]
) -> dict[str, Any]:
    """Return the cells that compare a model with another one over the splits that both have."""
    both = part.merge(other, on=["repeat", "fold"], suffixes=("", "_other"))
    difference = (both["accuracy"] - both["accuracy_other"]).to_numpy(dtype=np.float64)
    ratio = float((both["n_test"] / both["n_train"]).mean())
    found = corrected_t(difference, ratio)
    sizes = {"": found.mean, "_low": found.low, "_high": found.high}
    sizes |= dict.fromkeys(("_median", "_win"), math.nan)
    if difference.size:
        sizes["_median"] = float(np.median(difference))
        sizes["_win"] = float((difference > 0).mean() + 0.5 * (difference == 0).mean())
    cells: dict[str, Any] = {
        f"_less_{name}{end}": round(value, 4) + 0.0 for end, value in sizes.items()
    }
    for said, (cell, overlapping) in tests.items():
        p_value = corrected_t(difference, ratio if overlapping else 0.0).p
        cells |= {said: _outcome(difference, p_value), cell: significant(p_value)}
    return cells


def _outcome(difference: NDArray[np.float64], p_value: float) -> str:
    """Return whether scores with these differences are better or worse at 95 %, or a tie; nothing
    if there is no p-value.
    """
    if math.isnan(p_value):
        return ""
    return "tie" if p_value >= LEVEL else "better" if difference.sum() > 0 else "worse"


def mean_noise(first_sd: float, first_splits: int, second_sd: float, second_splits: int) -> float:
    """Return two standard errors of the difference of two mean scores, each over independent random
    splits of the same data.
    """
    return 2.0 * math.sqrt(first_sd**2 / first_splits + second_sd**2 / second_splits)


def words(text: str) -> tuple[str, ...]:
    """Return the words of a text, such as names of columns."""
    return tuple(text.split())


def cell_text(value: object) -> str:
    """Return a cell as it is printed."""
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "—"
    return format(value, ".4g") if isinstance(value, float) else str(value)
