"""Comparisons of models on one split of a data set, and the task that they share with studies."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split

import svmcvx
from svmcvx.catalogue import TOL
from svmcvx.certificate import relative_gap
from svmcvx.data import check_choice, check_number, check_time_limit, check_whole
from svmcvx.errors import DataError, DataTypeError
from svmcvx.experiments import fit
from svmcvx.experiments.selection import Selection, select, with_settings
from svmcvx.experiments.store import Row, fingerprint, finished, progress_bar
from svmcvx.experiments.tables import CertifiedTable
from svmcvx.solution import Solution, Status
from svmcvx.system import clock
from svmcvx.system.deadline import OutOfTime, current, time_limited, until

Models: TypeAlias = "Mapping[str, Any] | Sequence[Any]"
Rows: TypeAlias = NDArray[np.intp]

# The columns before those of the metrics, and after those of the intervals.
FIRST = ("model", "solver", "status", "lower", "upper", "gap", "certified", "train_accuracy")
LAST = ("n_support", "seconds", "conventions", "note")


@dataclass(frozen=True)
class Split:
    """How the observations of a data set are parted into training and test parts.

    Parameters
    ----------
    test_size : float
        Share of the test part, 0.3 by default; without effect if there are folds.
    folds : int, optional
        Parts of a cross-validation, each of which is the test part once.
    stratify : bool
        Keep the shares of the classes; True by default.
    """

    test_size: float = 0.3
    folds: int | None = None
    stratify: bool = True

    def __post_init__(self) -> None:
        check_number(self.test_size, "test_size", "(0, 1)")
        if self.folds is not None:
            check_whole(self.folds, "folds", 2)

    def parts(self, y: NDArray[Any], seed: int) -> Iterator[tuple[Rows, Rows]]:
        """Yield the rows of the training and the test part, once or once a fold.

        Raises
        ------
        DataError
            If a class has too few observations.
        """
        rows, strata = np.arange(y.size), y if self.stratify else None
        try:
            if self.folds is None:
                size, seeded = self.test_size, {"random_state": seed, "stratify": strata}
                yield tuple(train_test_split(rows, test_size=size, **seeded))
                return
            least = np.unique(y, return_counts=True)[1].min()
            if self.stratify and least < self.folds:
                # scikit-learn warns only, and leaves folds without the class.
                raise ValueError(f"a class has {least} observations for {self.folds} folds")
            kind = StratifiedKFold if self.stratify else KFold
            yield from kind(self.folds, shuffle=True, random_state=seed).split(rows, y)
        except ValueError as error:
            raise DataError(
                f"the split cannot be made ({error}); change it, leave out small classes, or, in a"
                " study, set stratify to False"
            ) from None

    def __str__(self) -> str:
        kind = f"{self.folds} folds" if self.folds is not None else f"test share {self.test_size:g}"
        return f"{kind}, {'stratified' if self.stratify else 'not stratified'}"


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
    tol: float = TOL
    seed: int = 0
    guarantee: bool | str = False

    def __post_init__(self) -> None:
        check_whole(self.repeats, "repeats", 1)
        check_whole(self.seed, "seed", 0)
        check_number(self.tol, "tol", "(0, inf)")
        check_choice(self.scale, "scale", ("none", "standard", "minmax"))
        if self.guarantee not in (False, True, "tuning"):
            raise DataError(f"guarantee must be False, True or 'tuning', got {self.guarantee!r}")
        if self.guarantee == "tuning":
            fit.check_interval(self.scoring)
        check_choice(self.scale_by, "scale_by", ("training", "all"))
        check_choice(self.missing, "missing", ("error", "drop", "median"))

    def described(self) -> dict[str, str]:
        return {
            name: " ".join(str(value).split())
            for name, value in asdict(self).items()
            if value is not None
        }


@dataclass(frozen=True, eq=False)
class Task:
    """One model on one split of one data set; `details` are the columns of comparisons alone."""

    names: Mapping[str, Any]
    estimator: Any
    grid: Any
    X: Any
    y: NDArray[Any]
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
        row: Row = {**self.names, "n_train": self.train.size, "n_test": self.test.size}
        row |= {"upper": None, "params": {}, "certified": False, "tuning_fits": 0}
        row |= {"tuning_certified": 0, "tuning_seconds": 0.0, "proof": None, "note": ""}
        return row | {"seconds": None}

    def rows(
        self, keys: Sequence[str], end: float, shared: Mapping[Any, Any]
    ) -> Iterator[tuple[str, Row]]:
        with until(end) as deadline, warnings.catch_warnings():
            if not keys or deadline.passed():
                return
            warnings.filterwarnings(
                "ignore", message="(the time limit passed|interrupted) after", category=UserWarning
            )
            started = clock.now()
            row = self._row(fit.part_of(self.estimator, self.X, self.y, self.train, self.test))
            if not self.details:
                row["seconds"] = clock.now() - started
            row["_unfinished"] = fit.cut_short(row, deadline)
        yield keys[0], row

    def _row(self, part: fit.Part) -> Row:
        protocol, tested, tables = self.protocol, self.test.size > 0, list[Selection]()

        def final_fit() -> Any:
            if self.grid is None:
                return clone(self.estimator).fit(part.X, part.y)
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
            if not table.complete and current().remaining > 0:
                raise KeyboardInterrupt  # which select has turned into an incomplete table
            if table.best_estimator_ is None:
                raise OutOfTime
            tables.append(table)
            return table.best_estimator_

        found, fitted = fit.fit_row(
            final_fit,
            part,
            tol=protocol.tol,
            metrics=protocol.metrics if tested else (),
            intervals=protocol.metrics if protocol.guarantee else (),
            details=self.details,
        )
        row = self.empty_row() | found
        for table in tables:
            row |= self._of_tuning(table)
            if fitted is not None and protocol.guarantee == "tuning":
                row |= self._tied(row, table, part)
        if fitted is None:
            return row
        notes = [row["note"]]
        if self.details:
            predicted = np.asarray(fitted.predict(part.X))
            row["train_accuracy"] = float(np.mean(predicted == part.y))
            notes.append("" if tested else fit.one_class_note(predicted, part.y))
        if self.proofs is not None and isinstance(
            getattr(fit.last_step(fitted), "solution_", None), Solution
        ):
            row["proof"] = self.place
            folder, name = self.proofs / self.place, fit.file_stem(self.names["model"])
            notes.append(fit.save_proof(folder, name, fitted, part))
        if self.keep:
            row["_fitted"] = fitted
        return row | {"note": "; ".join(filter(None, notes))}

    def _of_tuning(self, table: Selection) -> Row:
        ends = [table.filter(regex=rf"^split\d+_{end}$").to_numpy(float) for end in fit.ENDS]
        pairs = zip(*(end.ravel() for end in ends), strict=True)
        gaps = [relative_gap(*pair) for pair in pairs if not np.isnan(pair).any()]
        return {
            "params": _shortened(table.best_params_ or {}),
            "tuning_fits": ends[0].size,
            "tuning_certified": sum(gap <= self.protocol.tol for gap in gaps),
            "tuning_seconds": float(table["seconds"].sum()),
        }

    def _tied(self, row: Row, table: Selection, part: fit.Part) -> Row:
        """Return the settings that may be the best, and intervals that contain those of all."""
        if table["mean_test_score_lower"].isna().all():
            return {"tied": []}
        tied = list(table.loc[table["may_be_best"] & table["mean_test_score"].notna(), "params"])
        each: list[Mapping[str, Any]] = [row]
        for settings in tied:
            if _shortened(settings) != row["params"]:
                fitted = with_settings(clone(self.estimator), settings).fit(part.X, part.y)
                seen, test = fit.as_seen(fitted, part.X), fit.as_seen(fitted, part.X_test)
                scores = (test, part.y_test, self.protocol.metrics)
                each.append(fit.exact_scores(fit.last_step(fitted), seen, part.y, *scores)[0])
        cells: Row = {"tied": [_shortened(settings) for settings in tied]}
        for name in (name for name in self.protocol.metrics if name in fit.INTERVALS):
            low, high = ([one.get(f"{name}_{end}", np.nan) for one in each] for end in fit.ENDS)
            if not np.isnan((low, high)).any():
                cells |= {f"{name}_tied_lower": min(low), f"{name}_tied_upper": max(high)}
        return cells


def _shortened(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("model__"): value for name, value in params.items()}


@dataclass(eq=False)
class Comparison:
    """A comparison in progress; with `refit` all models, also those in the store, are fitted."""

    models: Models
    X: Any
    y: Any
    _: KW_ONLY
    split: float = 0.3
    seed: int = 0
    scale: str = "standard"
    missing: str = "error"
    metrics: str | Sequence[str] = ("accuracy",)
    tol: float = TOL
    store: str | os.PathLike[str] | None = None
    proofs: str | os.PathLike[str] | None = None
    guarantee: bool = False
    backend: str | None = None
    n_jobs: int | None = None
    refit: bool = False
    fitted: dict[str, Any] = field(default_factory=dict, init=False)
    reused: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.named = named_models(self.models)
        self.metrics = tuple(dict.fromkeys(("accuracy", *fit.check_metrics(self.metrics))))
        check_number(self.split, "split", "[0, 1)")
        shared = ("metrics", "scale", "missing", "tol", "seed")
        protocol = Protocol(
            **{name: getattr(self, name) for name in shared}, guarantee=bool(self.guarantee)
        )
        if self.guarantee and self.split == 0:
            raise DataError(
                "guarantee=True is about a test part, and split=0 leaves none; change one of them"
            )
        self.data = fit.observations(self.X, self.y, self.missing)
        numbers, labels = self.data.numbers, self.data.labels
        if isinstance(numbers, DataError) and not any(
            fit.prepares_itself(m) for _, m in self.named
        ):
            raise numbers
        rows = np.arange(labels.size)
        split = next(Split(self.split).parts(labels, self.seed)) if self.split else (rows, rows[:0])
        prepared = self.data.prepared(self.scale, self.missing, split[0])
        # The parts of models that are no pipelines.
        part = fit.part_of(None, prepared, labels, *split)
        self.X_train, self.y_train, self.X_test, self.y_test, _ = part
        folder = None if self.proofs is None else fit.check_folder(self.proofs)
        self._tasks = []
        for name, model in self.named:
            place = (
                fit.file_stem(name) if fit.prepares_itself(model) or fit.is_pairwise(model) else ""
            )
            seen = self.data.seen_by(model, prepared)
            work = ({"model": name}, model, None, seen, labels, *split, protocol)
            key = (self._key(name, model),)
            self._tasks.append(Task(*work, key, folder, place, details=True, keep=self.refit))
        self._rows: dict[str, Row] = {}
        asked = self.metrics if self.guarantee else ()
        undecided = ["undecided"] if self.guarantee else []
        self._columns = [*FIRST, *self.metrics, *fit.ends_of(asked), *undecided, *LAST]

    def _key(self, name: str, model: Any) -> str:
        if self.store is None:
            return name
        how = () if fit.prepares_itself(model) else (self.scale, self.missing)
        own = (self.split, self.seed, how, self.tol, self.metrics, bool(self.guarantee))
        return fingerprint("compare", clone(model), self.data.digest_for(model), *own)

    @property
    def rows(self) -> list[Row]:
        """Finished rows, in the order of the models."""
        return [self._rows[name] for name, _ in self.named if name in self._rows]

    def run(self) -> Iterator[Row]:
        """Fit the models and yield a row for each as soon as it is done."""
        again = self.refit or self.proofs is not None
        how: Any = {"backend": self.backend, "n_jobs": self.n_jobs, "again": again}
        with closing(
            finished(self._tasks, self.store, usable=lambda row: not again, **how)
        ) as work:
            for task, _, row, stored in work:
                self.reused += stored
                if "_fitted" in row:
                    self.fitted[task.names["model"]] = row["_fitted"]
                yield self._taken(task, row)
        for task in self._tasks:
            if task.names["model"] not in self._rows:
                note = "the time limit left no time for this model"
                late = {"status": str(Status.TIME_LIMIT), "note": note, "seconds": 0.0}
                yield self._taken(task, task.empty_row() | late)

    def finish(
        self,
        time_limit: float | None,
        progress: bool,
        callback: Callable[[dict[str, Any]], None] | None = None,
    ) -> bool:
        """Fit all models, under a bar; return whether the time limit passed."""
        with (
            time_limited(check_time_limit(time_limit)) as deadline,
            progress_bar(progress, "models", len(self.named)) as advance,
        ):
            for row in self.run():
                advance()
                if callback is not None:
                    callback(row)
            return deadline.passed()

    def _taken(self, task: Task, row: Row) -> Row:
        row |= {**task.names, "conventions": fit.conventions(task.estimator)}
        taken = {name: row.get(name) for name in self._columns}
        taken["certificates"] = row.get("certificates", [])
        self._rows[task.names["model"]] = taken
        return taken

    def frame(self) -> CertifiedTable:
        table = CertifiedTable(self.rows, columns=self._columns)
        # For plot.against_exponent.
        last = [(name, fit.last_step(model)) for name, model in self.named]
        table.attrs["exponents"] = {
            name: model.p for name, model in last if isinstance(model, svmcvx.PSVMClassifier)
        }
        return table


def named_models(models: Models) -> list[tuple[str, Any]]:
    try:
        if isinstance(models, (str, bytes)):
            raise TypeError
        pairs = list(models.items()) if isinstance(models, Mapping) else list(models)
    except TypeError:
        # Also a class that can be iterated over, or an estimator that has a length.
        raise DataTypeError(
            f"models must be a sequence or a mapping of estimators, got {models!r}; pass"
            " [PSVMClassifier()]"
        ) from None
    if not pairs:
        raise DataError("models is empty; pass at least one estimator")
    named: dict[str, Any] = {}
    counts: Counter[str] = Counter()
    for entry in pairs:
        pair = isinstance(entry, tuple) and len(entry) == 2
        name, model = entry if pair else (" ".join(repr(entry).split()), entry)
        if isinstance(model, type) or not hasattr(model, "fit") or not hasattr(model, "get_params"):
            raise DataError(
                f"models must hold scikit-learn estimators, got {model!r}; pass instances such as"
                " PSVMClassifier(p=1.5)"
            )
        counts[str(name)] += 1
        number = counts[str(name)]
        named[str(name) if number == 1 else f"{name} #{number}"] = model
    return list(named.items())


def compare(
    models: Models,
    X: Any,
    y: Any,
    *,
    split: float = 0.3,
    seed: int = 0,
    scale: str = "standard",
    missing: str = "error",
    metrics: str | Sequence[str] = ("accuracy",),
    tol: float = TOL,
    store: str | os.PathLike[str] | None = None,
    proofs: str | os.PathLike[str] | None = None,
    guarantee: bool = False,
    backend: str | None = None,
    n_jobs: int | None = None,
    callback: Callable[[dict[str, Any]], None] | None = None,
    progress: bool = False,
    time_limit: float | None = None,
) -> pd.DataFrame:
    """Fit several models to the same data and tabulate their certificates and accuracies.

    Parameters
    ----------
    models : mapping, or sequence of estimators or of (str, estimator)
        Estimators of this package, of scikit-learn, or pipelines. ``SVC``, ``NuSVC``, ``LinearSVC``
        and ``LogisticRegression`` have the interval of :func:`svmcvx.certify`, other models none.
        Pipelines, and searches over them, get the rows of `X` as they are, with text, categories
        and missing values; `scale` and `missing` are for the other models.
    X : array-like, data frame or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    split : float
        Share held out, 0.3 by default; 0 trains on everything.
    seed : int
        Of the stratified split.
    scale : "none", "standard" or "minmax"
        Scaling of the columns by the training part, standard by default.
    missing : "error", "drop" or "median"
        Treatment of missing values: refuse models that are no pipelines, drop the rows for all
        models, or fill in the column's median in the training part.
    metrics : str or sequence of str
        Scores on the test part beside the accuracy, by their names in scikit-learn.
    tol : float
        Relative gap up to which an answer counts as certified.
    store : path-like, optional
        A file that keeps finished rows (SQLite; made if it is not there), so that an interrupted
        run continues where it stopped. Searches and studies may share it.
    proofs : path-like, optional
        Folder that gets the training data (``training.npz``) and a proof of each solution, which
        :func:`svmcvx.verify` checks; rows found in the store are computed again for it.
    guarantee : bool
        Compute an interval of the accuracy of *every optimal machine* on the test part
        (:func:`svmcvx.guarantee`). It may take ten times as long as a fit, so that it is off by
        default.
    backend : str, optional
        As for :func:`svmcvx.select`.
    n_jobs : int, optional
        Models at a time; 1 by default, all workers with Dask.
    callback : callable, optional
        Called with each row as soon as it is done.
    progress : bool
        Show a bar (extra ``cli``).
    time_limit : float, optional
        Seconds for everything. The model that is being fitted then ends with its best point so far,
        those after it have the status ``"time_limit"``.

    Returns
    -------
    DataFrame
        A row a model: ``model``, ``solver``, ``status``, ``lower`` and ``upper`` (checked interval
        around the optimum; of several binary problems that of their sum), ``gap``
        (relative), ``certified`` (None if the problem is not known), ``train_accuracy``,
        ``accuracy`` and the other metrics, ``n_support``, ``seconds`` (of the fit), ``conventions``
        (kernel, intercept, losses) and ``note``; with `guarantee` also ``accuracy_lower``,
        ``accuracy_upper`` (so for each metric of which there are intervals) and ``undecided``
        (share of the test rows whose label is not proved). Its method ``latex`` writes it for a
        document.

    Raises
    ------
    DataError
        If an argument cannot be used.
    SolverUnavailable
        If `progress` is True and rich is not installed.
    """
    given = dict(locals())
    for name in ("callback", "progress", "time_limit"):
        del given[name]
    comparison = Comparison(**given)
    comparison.finish(time_limit, progress, callback)
    return comparison.frame()
