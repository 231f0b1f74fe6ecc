"""One table for many models on the same data, each with its certificate."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import train_test_split

import svmcvx
from svmcvx.data import check_choice, check_number, check_time_limit, check_whole
from svmcvx.errors import DataError, DataTypeError
from svmcvx.experiments.fit import (
    INTERVALS,
    MISSING,
    SCALES,
    Part,
    check_folder,
    check_metrics,
    conventions,
    cut_short,
    file_stem,
    fit_row,
    is_pairwise,
    last_step,
    observations,
    one_class_note,
    part_of,
    prepares_itself,
    save_proof,
)
from svmcvx.experiments.store import Row, Store, end_of_work, fingerprint, finished, progress_bar
from svmcvx.experiments.tables import CertifiedTable
from svmcvx.solution import Solution, Status
from svmcvx.system.deadline import time_limited, until

Models: TypeAlias = "Mapping[str, Any] | Sequence[Any]"

# The columns before those of the metrics, and after those of the intervals.
FIRST = ("model", "solver", "status", "lower", "upper", "gap", "certified", "train_accuracy")
LAST = ("n_support", "seconds", "conventions", "note")


@dataclass(frozen=True, eq=False)
class _Task:
    """One model of a comparison."""

    name: str
    model: Any
    keys: tuple[str]
    tol: float
    metrics: tuple[str, ...]
    guarantee: bool
    proofs: Path | None
    refit: bool

    def __str__(self) -> str:
        return self.name

    def empty_row(self) -> Row:
        row: Row = dict.fromkeys(columns(self.metrics, self.guarantee))
        row |= {"model": self.name, "certified": False, "seconds": 0.0, "certificates": []}
        return row | {"conventions": conventions(self.model), "note": ""}

    def rows(self, keys: Sequence[str], part: Part, end: float) -> Iterator[tuple[str, Row]]:
        with until(end) as deadline:
            for key in keys:
                row = self.empty_row()
                if deadline.passed():
                    note = "the time limit left no time for this model"
                    row |= {"status": str(Status.TIME_LIMIT), "note": note, "_unfinished": True}
                else:
                    row |= self._fitted(part)
                    row["_unfinished"] = cut_short(row, deadline)
                yield key, row

    def _fitted(self, part: Part) -> Row:
        tested = len(part.y_test) > 0
        row, fitted = fit_row(
            lambda: clone(self.model).fit(part.X, part.y),
            part,
            tol=self.tol,
            metrics=self.metrics if tested else (),
            intervals=self.metrics if self.guarantee else (),
            details=True,
        )
        row.pop("right", None)
        if fitted is None:
            return row
        predicted = np.asarray(fitted.predict(part.X))
        row["train_accuracy"] = float(np.mean(predicted == part.y))
        notes = [row["note"], "" if tested else one_class_note(predicted, part.y)]
        if self.proofs is not None and isinstance(
            getattr(last_step(fitted), "solution_", None), Solution
        ):
            own = prepares_itself(self.model) or is_pairwise(self.model)
            folder = self.proofs / file_stem(self.name) if own else self.proofs
            notes.append(save_proof(folder, self.name, fitted, part))
        kept = {"_fitted": fitted} if self.refit else {}
        return row | kept | {"note": "; ".join(filter(None, notes))}


@dataclass(eq=False)
class Comparison:
    """A comparison in progress: the split data, and the rows of the models fitted so far.

    The arguments are those of :func:`compare`; with `refit` all models are fitted, also those in
    the store, and kept.
    """

    models: Models
    X: Any
    y: Any
    _: KW_ONLY
    split: float = 0.3
    seed: int = 0
    scale: str = "standard"
    missing: str = "error"
    metrics: str | Sequence[str] = ("accuracy",)
    tol: float = 1e-6
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
        check_choice(self.scale, "scale", SCALES)
        check_choice(self.missing, "missing", MISSING)
        self.metrics = tuple(dict.fromkeys(("accuracy", *check_metrics(self.metrics))))
        check_number(self.split, "split", low=0, high=1, open_high=True)
        check_number(self.tol, "tol", low=0, open_low=True)
        check_whole(self.seed, "seed", 0)
        if self.guarantee and self.split == 0:
            raise DataError(
                "guarantee=True is about a test part, and split=0 leaves none; change one of them"
            )
        self.data = observations(self.X, self.y, self.missing)
        numbers = self.data.numbers
        if isinstance(numbers, DataError) and not any(prepares_itself(m) for _, m in self.named):
            raise numbers
        self.train, self.test = self._split()
        self.prepared = self.data.prepared(self.scale, self.missing, self.train)
        # The parts of models that are no pipelines.
        part = part_of(None, self.prepared, self.data.labels, self.train, self.test)
        self.X_train, self.y_train, self.X_test, self.y_test, _ = part
        self._store = None if self.store is None else Store(self.store)
        folder = None if self.proofs is None else check_folder(self.proofs)
        own = (self.tol, self.metrics, self.guarantee, folder, self.refit)
        self._tasks = [
            _Task(name, model, (self._key(name, model),), *own) for name, model in self.named
        ]
        self._rows: dict[str, Row] = {}

    def _split(self) -> tuple[Any, Any]:
        codes, classes = self.data.codes, self.data.classes
        rows = np.arange(codes.size)
        if not self.split > 0:
            return rows, rows[:0]
        alone = np.flatnonzero(np.bincount(codes) == 1)
        if alone.size:
            raise DataError(
                f"the data have {classes.size} classes, of which {alone.size} have a single"
                f" observation, such as {classes[alone[0]]}, which no split can share; leave them"
                " out, or name another column where this is not that of the labels"
            )
        try:
            train, test = train_test_split(
                rows, test_size=self.split, random_state=self.seed, stratify=codes
            )
        except ValueError as error:
            raise DataError(
                f"split={self.split} leaves a class without observations ({error}); change it"
            ) from None
        return train, test

    def _key(self, name: str, model: Any) -> str:
        if self._store is None:
            return name
        how = () if prepares_itself(model) else (self.scale, self.missing)
        parts = (self.data.digest_for(model), self.split, self.seed, how, self.tol, self.metrics)
        return fingerprint("compare", self.guarantee, name, clone(model), *parts)

    def _part_of(self, model: Any) -> Part:
        own, pairwise = prepares_itself(model), is_pairwise(model)
        seen = self.data.seen_by(self.prepared, table=own, pairwise=pairwise)
        return part_of(model, seen, self.data.labels, self.train, self.test)

    @property
    def rows(self) -> list[Row]:
        """Finished rows, in the order of the models."""
        return [self._rows[name] for name, _ in self.named if name in self._rows]

    def run(self) -> Iterator[Row]:
        """Fit the models and yield a row for each as soon as it is done."""
        again = self.refit or self.proofs is not None
        work = finished(
            self._tasks,
            lambda task, alone: (self._part_of(task.model), end_of_work(alone)),
            self._store,
            "compare",
            backend=self.backend,
            n_jobs=self.n_jobs,
            usable=lambda row: not again,
            again=again,
        )
        with closing(work):
            for task, _, row, stored in work:
                self.reused += stored
                if (fitted := row.pop("_fitted", None)) is not None:
                    self.fitted[task.name] = fitted
                row.pop("_unfinished", None)
                self._rows[task.name] = row
                yield row

    def frame(self) -> CertifiedTable:
        names = columns(self.metrics, self.guarantee)
        rows = [{name: row.get(name) for name in names} for row in self.rows]
        table = CertifiedTable(rows, columns=names)
        # For plot.against_exponent.
        last = [(name, last_step(model)) for name, model in self.named]
        table.attrs["exponents"] = {
            name: model.p for name, model in last if isinstance(model, svmcvx.PSVMClassifier)
        }
        return table


def columns(metrics: Sequence[str], guarantee: bool) -> list[str]:
    known = [name for name in metrics if name in INTERVALS and guarantee]
    exact = [f"{name}_{end}" for name in known for end in ("lower", "upper")]
    return [*FIRST, *metrics, *exact, *(("undecided",) if guarantee else ()), *LAST]


def named_models(models: Models) -> list[tuple[str, Any]]:
    """Return the models by distinct names."""
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
    tol: float = 1e-6,
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
        Estimators of this package, others of scikit-learn, or pipelines. Of ``SVC``, ``NuSVC``,
        ``LinearSVC`` and ``LogisticRegression`` the interval is that of :func:`svmcvx.certify`;
        other models have none. Pipelines, and searches over them, get the rows of `X` as they are,
        with text, categories and missing values; `scale` and `missing` are for the other models.
    X : array-like, data frame or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    split : float
        Share held out, 0.3 by default; 0 trains on everything.
    seed : int
        Of the stratified split.
    scale : "none", "standard" or "minmax"
        Scaling of the columns by the training part; standard by default, as on the command line and
        in :func:`svmcvx.study`.
    missing : "error", "drop" or "median"
        Treatment of missing values: refuse models that are no pipelines, drop the rows for all
        models, or fill in the column's median in the training part.
    metrics : str or sequence of str
        Scores on the test part beside the accuracy, by their names in scikit-learn, as in
        ``("balanced_accuracy", "roc_auc")``.
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
        those after it have the status ``"time_limit"`` and no model. A limit of each fit is the
        model's own ``time_limit``.

    Returns
    -------
    DataFrame
        A row a model: ``model``, ``solver``, ``status``, ``lower`` and ``upper`` (checked interval
        around the optimum of the training problem; if a model consists of several binary machines,
        that of the largest gap), ``gap`` (relative), ``certified`` (None for a model whose problem
        is not known), ``train_accuracy``, ``accuracy`` and the other metrics (test part),
        ``n_support``, ``seconds`` (of the fit), ``conventions`` (kernel, intercept, and whether
        losses are summed or averaged), ``note`` (why a model failed, has no score, or predicts a
        single class). With `guarantee` also ``accuracy_lower`` and ``accuracy_upper`` (the interval
        of every optimal machine on the test part; so for each metric of which there are intervals)
        and ``undecided`` (share of the test rows whose label is not proved). A notebook shows the
        table with certified rows marked; its method ``latex`` writes it for a document.

    Raises
    ------
    DataError
        If an argument cannot be used.
    SolverUnavailable
        If `progress` is True and rich is not installed.
    """
    comparison = Comparison(
        models,
        X,
        y,
        split=split,
        seed=seed,
        scale=scale,
        missing=missing,
        metrics=metrics,
        tol=tol,
        store=store,
        proofs=proofs,
        guarantee=guarantee,
        backend=backend,
        n_jobs=n_jobs,
    )
    with (
        time_limited(check_time_limit(time_limit)),
        progress_bar(progress, "models", len(comparison.named)) as advance,
    ):
        for row in comparison.run():
            advance()
            if callback is not None:
                callback(row)
    return comparison.frame()
