"""One model on one split of one data set: tuned, fitted, scored."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import get_scorer
from sklearn.utils.metaestimators import _safe_split

from svmcvx.certificate import relative_gap
from svmcvx.errors import DataError
from svmcvx.experiments.fits import FAILURES, foreign_certificates, last_step, one_class_note
from svmcvx.experiments.intervals import as_seen, ends, exact_scores, hull
from svmcvx.experiments.proofs import ProofFolder
from svmcvx.experiments.running import FAILED, Row, failed
from svmcvx.experiments.search_paths import with_settings
from svmcvx.experiments.selection import Selection, select
from svmcvx.experiments.store import Store, plain
from svmcvx.experiments.studies.protocol import Protocol
from svmcvx.solution import Solution, Status
from svmcvx.system import clock
from svmcvx.system.deadline import current, until

__all__ = ["FIELDS", "FOREIGN", "Task"]

# The status of a model of another package, of which the final fit alone may have a certificate.
FOREIGN = "fitted"

# The fields of every row, in the order of a table; the scores are after n_test, then the ends of
# their intervals. The last one, which no table shows, says which test rows are predicted right, as
# the hexadecimal digits of a bit a row.
FIELDS = (
    "dataset",
    "model",
    "repeat",
    "fold",
    "status",
    "n_train",
    "n_test",
    "scores",
    "intervals",
    "undecided",
    "params",
    "tied",
    "lower",
    "upper",
    "gap",
    "certified",
    "tuning_fits",
    "tuning_certified",
    "tuning_batched",
    "n_support",
    "solver",
    "tuning_seconds",
    "seconds",
    "proof",
    "note",
    "right",
)


@dataclass(frozen=True)
class Task:
    """A task of a study, as it is sent to a process.

    Attributes
    ----------
    dataset, model : str
    repeat, fold : int
    train, test : ndarray of int
    estimator : estimator
        Not fitted; with what prepares the features.
    grid : mapping, list of mappings, or None
        Values to be tuned, by the names of the estimator's parameters.
    protocol : Protocol
    key : str
        Of its row in the store.
    store, proofs : path or None
    until : float
        Time, in seconds since the epoch, after which no task starts, and unfinished tasks are
        dropped.
    takes_table : bool
        Whether the model is a pipeline, which gets the table as it is.
    """

    dataset: str
    model: str
    repeat: int
    fold: int
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    estimator: Any
    grid: Any
    protocol: Protocol
    key: str
    store: Path | None
    proofs: Path | None
    until: float
    takes_table: bool = False

    def __str__(self) -> str:
        return f"{self.dataset}, {self.model}, repeat {self.repeat}"

    @property
    def group(self) -> str:
        """The data set."""
        return self.dataset

    def run(self, X: Any, y: NDArray[Any]) -> Row | None:
        """Return the row; None if the time ran out before it was done.

        Raises
        ------
        KeyboardInterrupt
            If Ctrl-C ended a fit early.
        """
        if self.store is not None and self.proofs is None:
            with Store(self.store) as store:
                # Another process may have finished it meanwhile.
                if (row := store.found((self.key,)).get(self.key)) is not None and row[
                    "status"
                ] != FAILED:
                    return row
        with until(self.until) as deadline, warnings.catch_warnings():
            if deadline.passed():
                return None
            warnings.simplefilter("ignore", ConvergenceWarning)  # the row has the gap
            warnings.filterwarnings(
                "ignore", message="(the time limit passed|interrupted) after", category=UserWarning
            )
            row = self._row(X, y)
            # Intervals that the limit has cut short are not kept either.
            cut_short = row["status"] in (Status.TIME_LIMIT, FAILED) or bool(
                self.protocol.guarantee
            )
            late = deadline.passed() and cut_short
        return None if late else plain(row)

    def empty_row(self) -> Row:
        """Return the row before anything is known."""
        row: Row = dict.fromkeys(FIELDS)
        return row | {
            "dataset": self.dataset,
            "model": self.model,
            "repeat": self.repeat,
            "fold": self.fold,
            "n_train": self.train.size,
            "n_test": self.test.size,
            "scores": {},
            "intervals": {},
            "params": {},
            "certified": False,
            "tuning_fits": 0,
            "tuning_certified": 0,
            "tuning_batched": 0,
            "tuning_seconds": 0.0,
            "note": "",
        }

    def _row(self, X: Any, y: NDArray[Any]) -> Row:
        row, started = self.empty_row(), clock.now()
        try:
            if isinstance(X, DataError):
                raise X
            X_train, y_train = _safe_split(self.estimator, X, y, self.train)
            X_test, y_test = _safe_split(self.estimator, X, y, self.test, self.train)
            row |= self._fitted(X_train, y_train, X_test, y_test)
        except Exception as error:  # an exception of one model does not stop the others
            row |= failed(error)
        row["seconds"] = clock.now() - started
        return row

    def _fitted(self, X: Any, y: NDArray[Any], X_test: Any, y_test: NDArray[Any]) -> Row:
        row: Row = {}
        tied: list[Any] = []
        estimator = clone(self.estimator)
        if self.grid is not None:
            table = select(
                estimator,
                self.grid,
                X,
                y,
                cv=self.protocol.cv,
                scoring=self.protocol.scoring,
                tol=self.protocol.tol,
                seed=self.protocol.seed + self.repeat,
                certify=self.protocol.certify,
                guarantee=self.protocol.guarantee == "tuning",
            )
            row |= self._tuned(table)
            tied = _tied_settings(table)
            row["tied"] = [_shortened(settings) for settings in tied]
            fitted = table.best_estimator_
            if fitted is None:
                return row | {"status": str(Status.TIME_LIMIT)}
        else:
            fitted = estimator.fit(X, y)
        last = last_step(fitted)
        row |= self._certified(last, fitted, X, y)
        if row["status"] == Status.INTERRUPTED:
            raise KeyboardInterrupt
        row["scores"], unscored = {}, []
        for name in self.protocol.metrics:
            try:
                row["scores"][name] = float(get_scorer(name)(fitted, X_test, y_test))
            except (*FAILURES, AttributeError) as error:
                unscored.append(f"no {name}: {' '.join(str(error).split())}")
        predicted = np.asarray(fitted.predict(X_test))
        row["right"] = np.packbits(predicted == y_test).tobytes().hex()
        notes = [row.get("note"), *unscored, one_class_note(predicted, y_test)]
        if self.protocol.guarantee:
            row |= self._exact(fitted, X, y, X_test, y_test)
            notes.append(row["note"])
            if self.protocol.guarantee == "tuning":
                row |= self._tied(row, tied, X, y, X_test, y_test)
        if self.proofs is not None and isinstance(
            solution := getattr(last, "solution_", None), Solution
        ):
            proved = self._proved(fitted, X, y, solution)
            row |= proved
            notes.append(proved["note"])
        return row | {"note": "; ".join(filter(None, notes))}

    def _exact(
        self, fitted: Any, X: Any, y: NDArray[Any], X_test: Any, y_test: NDArray[Any]
    ) -> Row:
        """Return the intervals of the scores of every optimal machine."""
        last = last_step(fitted)
        seen, rows = as_seen(fitted, X), as_seen(fitted, X_test)
        found = exact_scores(last, seen, y, rows, y_test, self.protocol.metrics)
        return {
            "intervals": ends(found.intervals),
            "undecided": found.undecided,
            "note": found.note,
        }

    def _tied(
        self, row: Row, tied: list[Any], X: Any, y: NDArray[Any], X_test: Any, y_test: NDArray[Any]
    ) -> Row:
        """Return the intervals over all settings that may be the best by cross-validation."""
        each = [row["intervals"]]
        for settings in tied:
            if _shortened(settings) != row["params"]:
                fitted = with_settings(clone(self.estimator), settings).fit(X, y)
                each.append(self._exact(fitted, X, y, X_test, y_test)["intervals"])
        return {"intervals": row["intervals"] | hull(each)}

    def _tuned(self, table: Selection) -> Row:
        if not table.complete and not current().passed():
            raise KeyboardInterrupt  # which select has turned into an incomplete table
        folds = sum(
            column.startswith("split") and column.endswith("_upper") for column in table.columns
        )
        bounds = [
            table[[f"split{k}_lower", f"split{k}_upper"]].to_numpy(dtype=np.float64)
            for k in range(folds)
        ]
        gaps = [
            relative_gap(lower, upper)
            for lower, upper in np.concatenate(bounds)
            if not np.isnan(lower + upper)
        ]
        params = table.best_params_ or {}
        return {
            "params": _shortened(params),
            "tuning_fits": len(table) * folds,
            "tuning_certified": sum(gap <= self.protocol.tol for gap in gaps),
            # Of which no certificate was asked for.
            "tuning_batched": int(table["batched"].sum()) if "batched" in table else 0,
            "tuning_seconds": float(table["seconds"].sum()),
        }

    def _certified(self, last: Any, fitted: Any, X: Any, y: NDArray[Any]) -> Row:
        solution = getattr(last, "solution_", None)
        if not isinstance(solution, Solution):
            return self._of_others(last, as_seen(fitted, X), y)
        certificate = solution.certificate
        return {
            "status": str(solution.status),
            "solver": solution.solver,
            "lower": certificate.lower,
            "upper": certificate.upper,
            "gap": certificate.gap,
            "certified": certificate.is_certified(self.protocol.tol),
            "n_support": solution.model.n_support,
        }

    def _of_others(self, last: Any, X: Any, y: NDArray[Any]) -> Row:
        """Return the fields of a model that is not of this package: of several certificates the one
        with the largest gap.
        """
        support = int(np.sum(last.n_support_)) if hasattr(last, "n_support_") else None
        row: Row = {
            "status": FOREIGN,
            "solver": type(last).__name__,
            "n_support": support,
            "certified": None,
        }
        found = foreign_certificates(last, X, y)
        if isinstance(found, str):
            return row | {"note": found}
        worst = max(found.values(), key=lambda certificate: certificate.gap)
        return row | {
            "lower": worst.lower,
            "upper": worst.upper,
            "gap": worst.gap,
            "certified": worst.is_certified(self.protocol.tol),
        }

    def _proved(self, fitted: Any, X: Any, y: NDArray[Any], solution: Solution) -> Row:
        """Write the proof of the final fit next to its training data, which the models of a split
        share.
        """
        assert self.proofs is not None  # noqa: S101 - asked before
        folder = self.proofs / _file_name(self.dataset) / f"repeat-{self.repeat}-fold-{self.fold}"
        # A pipeline of the user may transform the features.
        folder = folder / _file_name(self.model) if self.takes_table else folder
        X = as_seen(fitted, X)
        note = ProofFolder(folder, X, y).write(self.model, solution)
        return {"proof": str(folder.relative_to(self.proofs)), "note": note}


def _tied_settings(table: Selection) -> list[Any]:
    """Return the settings that may be the best by cross-validation, as far as their fits have
    guarantees.
    """
    if "may_be_best" not in table or table["mean_score_lower"].isna().all():
        return []
    return list(table.loc[table["may_be_best"] & table["mean_test_score"].notna(), "params"])


def _shortened(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings without the name of the step that a study puts the model into."""
    return {name.removeprefix("model__"): value for name, value in params.items()}


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9=.,_-]+", "_", text).strip("_.")[:100] or "_"
