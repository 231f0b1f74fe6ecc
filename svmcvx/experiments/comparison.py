"""Comparisons of models on one split of a data set, and the task that they share with studies."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline

from svmcvx.arguments import known_arguments
from svmcvx.catalogue import TOL
from svmcvx.certificate import relative_gap
from svmcvx.data import Features, check_choice, check_number, check_time_limit, check_whole
from svmcvx.errors import DataError, DataTypeError
from svmcvx.experiments import fit
from svmcvx.experiments.selection import Selection, parameter_of, select
from svmcvx.experiments.specifications import parse_models
from svmcvx.experiments.store import Row, collected, fingerprint
from svmcvx.experiments.tables import SummaryTable
from svmcvx.solution import Solution, Status
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
    guarantee: bool = False

    def __post_init__(self) -> None:
        check_whole(self.repeats, "repeats", 1)
        check_whole(self.seed, "seed", 0)
        check_number(self.tol, "tol", "(0, inf)")
        check_choice(self.scale, "scale", ("none", "standard", "minmax"))
        if not isinstance(self.guarantee, bool):
            raise DataTypeError(f"guarantee must be True or False, got {self.guarantee!r}")
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
    """One model on one split of one data set."""

    names: Mapping[str, Any]
    estimator: Any
    grid: Any
    X: Any
    y: NDArray[Any]
    train: Rows
    test: Rows
    protocol: Protocol
    keys: tuple[str]
    proofs: Path | None
    # The folder of its proofs in that folder.
    place: str
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
            row = self._row(fit.part_of(self.estimator, self.X, self.y, self.train, self.test))
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
                seed=protocol.seed,
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
            details=True,
        )
        row = self.empty_row() | found
        for table in tables:
            row |= self._of_tuning(table)
        if fitted is None:
            return row
        predicted = np.asarray(fitted.predict(part.X))
        row["train_accuracy"] = float(np.mean(predicted == part.y))
        notes = [row["note"], "" if tested else fit.one_class_note(predicted, part.y)]
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


def _shortened(params: Mapping[str, Any]) -> dict[str, Any]:
    return {name.removeprefix("model__"): value for name, value in params.items()}


def task(
    names: Mapping[str, Any],
    model: Any,
    grid: Any,
    data: fit.Observations,
    numbers: Features | DataError,
    split: tuple[Rows, Rows],
    protocol: Protocol,
    place: str = "",
    *,
    stored: bool,
    **how: Any,
) -> Task:
    """Return the fit of a model on a split; its key in a store is of all that the row depends on,
    but not of its names.
    """
    own = fit.prepares_itself(model) or fit.is_pairwise(model)
    place = "/".join(filter(None, (place, fit.file_stem(names["model"]) if own else "")))
    estimator, key = clone(model), str(tuple(names.values()))
    steps = fit.preparation(protocol.scale, protocol.missing, data.table)
    if steps and not own and protocol.scale_by == "training":
        estimator = Pipeline([*steps, ("model", estimator)])
    if stored:
        # The preparation of such a model is its own.
        seen = replace(protocol, scale="none", missing="error") if own else protocol
        key = fingerprint("task", estimator, grid, seen, data.digest_for(model), *split)
    seen_by = data.seen_by(model, numbers), data.labels
    return Task(names, estimator, grid, *seen_by, *split, protocol, keys=(key,), place=place, **how)


def grids(models: Sequence[tuple[str, Any]], tune: Any) -> dict[str, Any]:
    """Return the grid of each model that is to be tuned."""
    if tune is None:
        return {}
    if not isinstance(tune, Mapping):
        raise DataTypeError(
            f"tune must be a mapping, such as {{'C': [0.1, 1.0, 10.0]}}, got {tune!r}"
        )
    names = [name for name, _ in models]
    if tune and all(_is_grid(value) for value in tune.values()):
        return {
            check_choice(name, "a model of tune", names): grid
            for name, grid in tune.items()
            if grid
        }
    found = {
        name: {key: list(values) for key, values in tune.items() if parameter_of(model, key)}
        for name, model in models
    }
    there = sorted({name for _, model in models for name in model.get_params()})
    for key in tune.keys() - {key for grid in found.values() for key in grid}:
        check_choice(key, "a parameter of tune", there)
    return {name: grid for name, grid in found.items() if grid}


def conventions(models: Sequence[tuple[str, Any]], tuned: Mapping[str, Any]) -> dict[str, str]:
    """Return the conventions of each model, and a remark if it has no grid while others have."""
    missing = "no grid: fitted as given" if tuned else ""
    return {
        name: ", ".join(filter(None, (fit.conventions(model), "" if name in tuned else missing)))
        for name, model in models
    }


def _is_grid(value: Any) -> bool:
    several = isinstance(value, (list, tuple)) and len(value) > 0
    each = value if several else [value]
    return value is None or all(isinstance(part, Mapping) for part in each)


def observed(models: Sequence[tuple[str, Any]], missing: str, *parts: Any) -> fit.Observations:
    """Return the data for models; raise if none of these can use them."""
    data = fit.observations(missing, *parts)
    if isinstance(data.numbers, DataError) and not any(fit.prepares_itself(m) for _, m in models):
        raise data.numbers
    return data


class Comparison(SummaryTable):
    """The table of :func:`compare`: a DataFrame that prints its main columns.

    Attributes
    ----------
    complete : bool
        Whether all models are fitted; False after Ctrl-C and at a time limit.
    reused : int
        Rows that were found in the store.
    certificates : dict
        By model the intervals of its binary problems, or of the one problem.
    estimators : dict
        By model the fitted estimator, if `return_estimator` is True; it takes rows that are not
        scaled.
    part : tuple
        ``X``, ``y``, ``X_test`` and ``y_test`` of these estimators, not scaled.
    """

    complete: bool
    reused: int
    certificates: dict[str, list[Row]]
    estimators: dict[str, Any]
    part: fit.Part

    _metadata: ClassVar[list[str]] = ["complete", "reused", "certificates", "estimators", "part"]
    _needed: ClassVar[frozenset[str]] = frozenset((*FIRST, *LAST))

    def shown(self) -> pd.DataFrame:
        names = ["model", "params", "lower", "upper", "gap", "certified"]
        whole = [*map(str, self)]
        scores = whole[whole.index("train_accuracy") + 1 : whole.index("n_support")]
        return pd.DataFrame(self)[
            [name for name in (*names, *scores, "n_support", "seconds") if name in whole]
        ]

    def notes(self) -> list[str]:
        return [
            f"{', '.join(self['model'][column == text])}: {text}"
            for column in (self["note"], self["conventions"])
            for text in filter(None, dict.fromkeys(column))
        ]


def named_models(models: Models) -> list[tuple[str, Any]]:
    try:
        entries = [models] if isinstance(models, str) else models
        pairs = list(entries.items()) if isinstance(entries, Mapping) else list(entries)
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
        label, given = entry if isinstance(entry, tuple) and len(entry) == 2 else (None, entry)
        text = " ".join(repr(given).split())
        for own, model in parse_models(given) if isinstance(given, str) else [(text, given)]:
            fits = hasattr(model, "fit") and hasattr(model, "get_params")
            if not fits or isinstance(model, type):
                raise DataError(
                    f"models must hold scikit-learn estimators, got {model!r}; pass instances such"
                    " as PSVMClassifier(p=1.5)"
                )
            name = own if label is None else str(label)
            counts[name] += 1
            named[name if counts[name] == 1 else f"{name} #{counts[name]}"] = model
    return list(named.items())


@known_arguments
def compare(
    models: Models,
    X: Any,
    y: Any = None,
    *,
    split: float = 0.3,
    tune: Mapping[str, Any] | None = None,
    cv: Any = 5,
    seed: int = 0,
    scale: str = "standard",
    missing: str = "error",
    metrics: str | Sequence[str] = ("accuracy",),
    tol: float = TOL,
    store: str | os.PathLike[str] | None = None,
    proofs: str | os.PathLike[str] | None = None,
    guarantee: bool = False,
    return_estimator: bool = False,
    n_jobs: int | None = None,
    progress: bool = False,
    time_limit: float | None = None,
) -> Comparison:
    """Fit several models to the same data and tabulate their certificates and accuracies.

    Parameters
    ----------
    models : mapping, or sequence of estimators, of (str, estimator) or of str
        Estimators of this package, of scikit-learn, or pipelines; or names and settings as on the
        command line (``["psvm:p=1.5", "odm", "svc"]``), where ``svc`` and ``linearsvc`` are those
        of scikit-learn, the former linear unless a kernel is named. ``SVC``, ``NuSVC``,
        ``LinearSVC`` and ``LogisticRegression`` have the interval of :func:`svmcvx.certify`, other
        models none. Pipelines, and searches over them, get the rows of `X` as they are, with text,
        categories and missing values; `scale` and `missing` are for the other models.
    X : array-like, data frame or sparse matrix of shape (n, d); or Dataset, str or path
        Features; or a data set, or its name or file for :func:`svmcvx.datasets.load`.
    y : array-like of shape (n,) or str, optional
        Labels of two or more classes; of a file or data frame the column that holds them.
    split : float
        Share held out, 0.3 by default; 0 trains on everything.
    tune : mapping, optional
        Values to choose from by cross-validation in the training part, by parameter or by model, as
        for :func:`svmcvx.study`.
    cv : int or splitter
        Folds of the tuning, 5 by default.
    seed : int
        Of the stratified split, and of the folds.
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
    return_estimator : bool
        Keep the fitted estimators in the result; rows found in the store are computed again.
    n_jobs : int, optional
        Models at a time, in the backend of ``joblib.parallel_config``; 1 by default.
    progress : bool
        Show a bar, or a line a minute where there is no terminal (extra ``cli``).
    time_limit : float, optional
        Seconds for everything. The model that is being fitted then ends with its best point so far,
        those after it have the status ``"time_limit"``, and a warning says so.

    Returns
    -------
    Comparison
        A DataFrame with a row a model: ``model``, ``solver``, ``status``, ``lower`` and ``upper``
        (checked interval around the optimum; of several binary problems that of their sum),
        ``gap`` (relative), ``certified`` (None if the problem is not known), ``train_accuracy``,
        ``accuracy`` and the other metrics, ``n_support``, ``seconds`` (of the fit and its tuning),
        ``conventions`` (kernel, intercept, losses) and ``note``; with `guarantee` also
        ``accuracy_lower``, ``accuracy_upper`` (so for each metric of which there are intervals) and
        ``undecided`` (share of the test rows whose label is not proved); with `tune` also
        ``params`` (chosen), ``tuning_fits`` and ``tuning_certified``. Its method ``latex`` writes
        it for a document.

    Raises
    ------
    DataError
        If an argument cannot be used.
    SolverUnavailable
        If `progress` is True and rich is not installed.

    Examples
    --------
    >>> import svmcvx as sx
    >>> table = sx.compare(["psvm:p=1.5", "zero-one:lam=2"], "iris:versicolor-virginica")
    >>> table["certified"].tolist()
    [True, True]
    """
    named = named_models(models)
    metrics = tuple(dict.fromkeys(("accuracy", *fit.check_metrics(metrics))))
    check_number(split, "split", "[0, 1)")
    if guarantee and split == 0:
        raise DataError(
            "guarantee=True is about a test part, and split=0 leaves none; change one of them"
        )
    how: dict[str, Any] = {"scale": scale, "missing": missing, "tol": tol, "seed": seed, "cv": cv}
    protocol = Protocol(repeats=1, metrics=metrics, guarantee=guarantee, **how)
    tuned, limit = grids(named, tune), check_time_limit(time_limit)
    data = observed(named, missing, *fit.parts_of(X, y))
    rows = np.arange(data.labels.size)
    train, test = next(Split(split).parts(data.labels, seed)) if split else (rows, rows[:0])
    how = {"proofs": None if proofs is None else fit.check_folder(proofs), "protocol": protocol}
    how |= {"keep": return_estimator, "stored": store is not None}
    tasks = [
        task({"model": name}, model, tuned.get(name), data, data.numbers, (train, test), **how)
        for name, model in named
    ]
    again = return_estimator or proofs is not None
    how = {"n_jobs": n_jobs, "again": again, "usable": lambda row: not again}
    with time_limited(limit) as deadline:
        found, reused, complete = collected(tasks, store, "models", progress, partial=True, **how)
        late = deadline.remaining == 0
    note = "the time limit left no time for this model"
    for one in tasks if late else ():
        unfitted = {"status": str(Status.TIME_LIMIT), "note": note, "seconds": 0.0}
        found.setdefault(one.keys[0], one.empty_row() | unfitted)
    fitted = {one.names["model"]: found[one.keys[0]] for one in tasks if one.keys[0] in found}
    asked = metrics if guarantee else ()
    columns = [*FIRST, *metrics, *fit.ends_of(asked), *(["undecided"] if guarantee else [])]
    columns += [*LAST, *(["params", "tuning_fits", "tuning_certified"] if tuned else [])]
    said = conventions(named, tuned)
    named_rows = [r | {"model": n, "conventions": said[n]} for n, r in fitted.items()]
    table = Comparison(named_rows, columns=columns)
    table.complete, table.reused = complete, reused
    table.certificates = {name: row.get("certificates", []) for name, row in fitted.items()}
    table.estimators = {n: row["_fitted"] for n, row in fitted.items() if "_fitted" in row}
    table.part = fit.part_of(None, data.table, data.labels, train, test)
    return table
