"""The work that comparisons and studies have in common: one model on one split of a data set."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from svmcvx.certificate import relative_gap
from svmcvx.data import check_choice, check_number, check_whole
from svmcvx.errors import DataError
from svmcvx.experiments.fit import (
    INTERVALS,
    MISSING,
    SCALES,
    Part,
    as_seen,
    check_interval,
    cut_short,
    exact_scores,
    file_stem,
    fit_row,
    last_step,
    one_class_note,
    part_of,
    save_proof,
)
from svmcvx.experiments.selection import Selection, select, with_settings
from svmcvx.experiments.store import Row
from svmcvx.solution import Solution
from svmcvx.system import clock
from svmcvx.system.deadline import OutOfTime, current, until

Rows: TypeAlias = NDArray[np.intp]

GUARANTEES = (False, True, "tuning")
LOWER_UPPER = ("lower", "upper")


@dataclass(frozen=True)
class Protocol:
    """Settings that all tasks of a study share; see :func:`svmcvx.study` for the parameters."""

    repeats: int = 10
    cv: Any = 5
    scoring: Any = None
    metrics: tuple[str, ...] = ("accuracy",)
    scale: str = "standard"
    scale_by: str = "training"
    missing: str = "error"
    tol: float = 1e-6
    seed: int = 0
    guarantee: bool | str = False

    def __post_init__(self) -> None:
        check_whole(self.repeats, "repeats", 1)
        check_whole(self.seed, "seed", 0)
        check_number(self.tol, "tol", low=0, open_low=True)
        check_choice(self.scale, "scale", SCALES)
        if self.guarantee not in GUARANTEES:
            raise DataError(f"guarantee must be False, True or 'tuning', got {self.guarantee!r}")
        if self.guarantee == "tuning":
            check_interval(self.scoring)
        check_choice(self.scale_by, "scale_by", ("training", "all"))
        check_choice(self.missing, "missing", MISSING)

    def described(self) -> dict[str, str]:
        return {
            name: " ".join(str(value).split())
            for name, value in asdict(self).items()
            if value is not None
        }


@dataclass(frozen=True, eq=False)
class Task:
    """One model on one split of one data set: `names` are its data set, model, repeat and fold, and
    the estimator has the preparation of the features before it, the grid its parameters.

    A comparison asks for `details`: certificates of all binary machines, and the training accuracy;
    with `keep` the row has the fitted estimator.
    """

    names: Mapping[str, Any]
    estimator: Any
    grid: Any
    train: Rows
    test: Rows
    protocol: Protocol
    keys: tuple[str]
    proofs: Path | None = None
    # The folder of its proofs in that folder.
    place: str = ""
    details: bool = False
    keep: bool = False

    def __str__(self) -> str:
        return ", ".join(map(str, self.names.values()))

    def empty_row(self) -> Row:
        tuning = {"tuning_fits": 0, "tuning_certified": 0, "tuning_seconds": 0.0}
        return {
            **self.names,
            "n_train": self.train.size,
            "n_test": self.test.size,
            "upper": None,
            "params": {},
            "certified": False,
            **tuning,
            "proof": None,
            "note": "",
            "seconds": None,
        }

    def rows(
        self, keys: Sequence[str], X: Any, y: NDArray[Any], end: float
    ) -> Iterator[tuple[str, Row]]:
        with until(end) as deadline, warnings.catch_warnings():
            if not keys or deadline.passed():
                return
            warnings.filterwarnings(
                "ignore", message="(the time limit passed|interrupted) after", category=UserWarning
            )
            started = clock.now()
            row = self._row(part_of(self.estimator, X, y, self.train, self.test))
            if not self.details:
                row["seconds"] = clock.now() - started
            row["_unfinished"] = cut_short(row, deadline)
        yield keys[0], row

    def _row(self, part: Part) -> Row:
        tables: list[Selection] = []

        def fit() -> Any:
            if self.grid is None:
                return clone(self.estimator).fit(part.X, part.y)
            tables.append(self._tuned(part))
            return tables[0].best_estimator_

        protocol, tested = self.protocol, self.test.size > 0
        found, fitted = fit_row(
            fit,
            part,
            tol=protocol.tol,
            metrics=protocol.metrics if tested else (),
            intervals=protocol.metrics if protocol.guarantee else (),
            details=self.details,
        )
        row = self.empty_row() | found
        for table in tables:
            row |= self._of_tuning(table)
        if fitted is None:
            return row
        if tables and protocol.guarantee == "tuning":
            row |= self._tied(row, tables[0], part)
        notes = [row["note"]]
        if self.details:
            predicted = np.asarray(fitted.predict(part.X))
            row["train_accuracy"] = float(np.mean(predicted == part.y))
            notes.append("" if tested else one_class_note(predicted, part.y))
        solution = getattr(last_step(fitted), "solution_", None)
        if self.proofs is not None and isinstance(solution, Solution):
            row["proof"] = self.place
            folder, name = self.proofs / self.place, file_stem(self.names["model"])
            notes.append(save_proof(folder, name, fitted, part))
        if self.keep:
            row["_fitted"] = fitted
        return row | {"note": "; ".join(filter(None, notes))}

    def _tuned(self, part: Part) -> Selection:
        protocol = self.protocol
        table = select(
            clone(self.estimator),
            self.grid,
            part.X,
            part.y,
            cv=protocol.cv,
            scoring=protocol.scoring,
            tol=protocol.tol,
            seed=protocol.seed + self.names["repeat"],
            guarantee=protocol.guarantee == "tuning",
        )
        if not table.complete and not current().passed():
            raise KeyboardInterrupt  # which select has turned into an incomplete table
        if table.best_estimator_ is None:
            raise OutOfTime
        return table

    def _of_tuning(self, table: Selection) -> Row:
        ends = [table.filter(regex=rf"^split\d+_{end}$").to_numpy(float) for end in LOWER_UPPER]
        pairs = zip(*(end.ravel() for end in ends), strict=True)
        gaps = [relative_gap(*pair) for pair in pairs if not np.isnan(pair).any()]
        return {
            "params": _shortened(table.best_params_ or {}),
            "tuning_fits": ends[0].size,
            "tuning_certified": sum(gap <= self.protocol.tol for gap in gaps),
            "tuning_seconds": float(table["seconds"].sum()),
        }

    def _tied(self, row: Row, table: Selection, part: Part) -> Row:
        """Return the settings that may be the best by cross-validation, and the least intervals
        that contain those of all of them.
        """
        if table["mean_test_score_lower"].isna().all():
            return {"tied": []}
        tied = list(table.loc[table["may_be_best"] & table["mean_test_score"].notna(), "params"])
        each: list[Mapping[str, float]] = [row]
        for settings in tied:
            if _shortened(settings) != row["params"]:
                fitted = with_settings(clone(self.estimator), settings).fit(part.X, part.y)
                seen, test = as_seen(fitted, part.X), as_seen(fitted, part.X_test)
                scores = (test, part.y_test, self.protocol.metrics)
                each.append(exact_scores(last_step(fitted), seen, part.y, *scores)[0])
        cells: Row = {"tied": [_shortened(settings) for settings in tied]}
        for name in self.protocol.metrics:
            ends = [f"{name}_{end}" for end in LOWER_UPPER]
            if name in INTERVALS and all(end in one for one in each for end in ends):
                cells[f"{name}_tied_lower"] = min(one[ends[0]] for one in each)
                cells[f"{name}_tied_upper"] = max(one[ends[1]] for one in each)
        return cells


def _shortened(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("model__"): value for name, value in params.items()}
