"""Model selection by cross-validation along warm-started paths, each fit with a certificate."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import KFold, ParameterGrid, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import indexable

from svmcvx.arguments import known_arguments
from svmcvx.catalogue import TOL
from svmcvx.data import check_number, check_time_limit, check_weights
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.request import TrainingData
from svmcvx.experiments.fit import Part, check_interval, cut_short, ends_of, fit_row, parts_of
from svmcvx.experiments.specifications import parse_models
from svmcvx.experiments.store import Row, collected, fingerprint
from svmcvx.experiments.tables import SummaryTable
from svmcvx.kernels.gram import GramCache
from svmcvx.solution import Solution
from svmcvx.system.deadline import current, time_limited, until

Fold: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
Grid: TypeAlias = "Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]"
Settings: TypeAlias = Mapping[str, Any]

# Hyper-parameters that a path can follow; of several that vary, the one with most values, and the
# first of these in case of a tie.
PATH_PARAMETERS = ("C", "lam", "kappa", "C1", "C2", "lam1", "lam2", "p", "D", "eps")
# Columns that are printed beside the parameters.
SHOWN: Final = (
    *("mean_test_score", "std_test_score", "mean_test_score_lower", "mean_test_score_upper"),
    *("undecided", "may_be_best", "gap", "certified", "n_support", "seconds"),
)


@dataclass(frozen=True)
class Path:
    """Settings that differ in at most one parameter, in order, and their positions in the grid."""

    parameter: str | None
    settings: tuple[Settings, ...]
    positions: tuple[int, ...]


def final_prefix(estimator: Any) -> str:
    """Return the prefix of the last step's parameters: ``""``, or ``"svm__"`` in a pipeline."""
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""


def parameter_of(estimator: Any, name: str) -> str:
    """Return the name of a parameter of an estimator or of its last step; empty if it has none."""
    known = estimator.get_params()
    return next((full for full in (name, f"{final_prefix(estimator)}{name}") if full in known), "")


def paths_of(estimator: Any, candidates: Sequence[Settings]) -> list[Path]:
    """Order the settings of a grid into paths."""
    alike: dict[frozenset[str], list[int]] = defaultdict(list)
    for position, settings in enumerate(candidates):
        alike[frozenset(settings)].append(position)
    paths = []
    for positions in alike.values():
        name = _path_parameter(final_prefix(estimator), [candidates[i] for i in positions])
        groups: dict[str, list[int]] = defaultdict(list)
        for i in positions:
            others = {key: value for key, value in candidates[i].items() if key != name}
            groups[repr(sorted(others.items(), key=repr)) if name else str(i)].append(i)
        for group in groups.values():
            ordered = sorted(group, key=lambda i: candidates[i][name]) if name else group
            paths.append(Path(name, tuple(candidates[i] for i in ordered), tuple(ordered)))
    return paths


def _path_parameter(prefix: str, candidates: Sequence[Settings]) -> str | None:
    best, most = None, 1
    for name in (prefix + parameter for parameter in PATH_PARAMETERS):
        values = [settings.get(name) for settings in candidates]
        ordered = all(isinstance(v, numbers.Real) and not isinstance(v, bool) for v in values)
        if ordered and len(set(values)) > most:
            best, most = name, len(set(values))
    return best


def with_settings(estimator: Any, settings: Settings) -> Any:
    """Give an estimator settings, without sharing estimators that are among their values."""
    return estimator.set_params(
        **{name: clone(value, safe=False) for name, value in settings.items()}
    )


@dataclass(frozen=True, eq=False)
class _PathOnFold:
    """One path on one fold: a piece of work that a process does by itself."""

    estimator: Any
    path: Path
    fold: int
    X: Any
    y: NDArray[Any]
    weight: NDArray[np.float64] | None
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    scorer: Callable[..., float] | None
    # Whether the scorer takes the whole pipeline, and not its last step.
    whole: bool
    tol: float
    intervals: tuple[str, ...]
    keys: tuple[str, ...]

    def __str__(self) -> str:
        return f"fold {self.fold}, {self.path.settings[0]}"

    def empty_row(self) -> Row:
        row = dict.fromkeys(("score", "lower", "upper", "gap", "solver", "n_support"))
        return row | {"certified": False, "warm_start_used": False, "seconds": 0.0}

    def rows(
        self, keys: Sequence[str], end: float, shared: dict[Any, Any]
    ) -> Iterator[tuple[str, Row]]:
        """Yield keys of settings and their rows, each fit starting from the one before it."""
        if self.fold not in shared:
            # One fold after the other: Gram matrices of the last one are dropped.
            shared.clear()
            shared[self.fold] = GramCache()
        estimator = with_settings(clone(self.estimator), self.path.settings[0])
        *before, (step, last) = getattr(estimator, "steps", [("", estimator)])
        training: TrainingData | None = None
        solution: Solution | None = None
        # A subclass with a fit of its own is fitted by that.
        own = getattr(type(last), "fit", None) is CertifiedClassifier.fit
        try:
            X_train, y_train = _safe_split(estimator, self.X, self.y, self.train)
            X_test, y_test = _safe_split(estimator, self.X, self.y, self.test, self.train)
            seen = X_train, X_test
            if before:
                # No setting on the path is one of theirs.
                transformers = Pipeline(before)
                seen = transformers.fit_transform(X_train, y_train), transformers.transform(X_test)
            weight = None if self.weight is None else self.weight[self.train]
            part = Part(seen[0], np.asarray(y_train), seen[1], np.asarray(y_test), weight)
        except Exception as error:  # each fit then fails with it
            part = Part(error, self.y, error, self.y)

        def fit() -> Any:
            nonlocal training, solution
            if own:
                if training is None:
                    training = last._training_data(part.X, part.y, part.weight)
                with shared[self.fold].shared():
                    last._fit(training, solution)
                solution = last.solution_
            else:
                weights = {} if part.weight is None else {"sample_weight": part.weight}
                last.fit(part.X, part.y, **weights)
            return last

        def score(last: Any) -> float:
            if self.scorer is None:
                return float(last.score(part.X_test, part.y_test))
            if self.whole and before:
                return self.scorer(Pipeline([*before, (step, last)]), X_test, part.y_test)
            return self.scorer(last, part.X_test, part.y_test)

        name = self.path.parameter
        how: Any = {"tol": self.tol, "score": score, "intervals": self.intervals}
        with until(end) as deadline:
            for key, settings in zip(self.keys, self.path.settings, strict=True):
                if key not in keys:
                    continue
                if deadline.passed():
                    return
                if name is not None:
                    # The name has been checked before the search; set_params would take as long as
                    # a short fit.
                    setattr(last, name.rpartition("__")[2], settings[name])
                row, fitted = fit_row(fit, part, **how)
                if cut_short(row, deadline):
                    return
                found = getattr(fitted, "solution_", None)
                warm = isinstance(found, Solution) and bool(found.warm_start_used)
                yield key, row | {"warm_start_used": warm}


# The search


class Selection(SummaryTable):
    """The table of :func:`select`: a DataFrame with the best model, which prints its main columns.

    Attributes
    ----------
    best_index_ : int or None
        Row of the highest mean score; of equal ones the first. None if nothing is finished.
    best_params_ : dict or None
    best_score_ : float or None
    best_estimator_ : estimator or None
        Fitted to all data with the best parameters; None without `refit`, and for a table that is
        not complete.
    complete : bool
        Whether all fits are there; False after Ctrl-C and at a time limit.
    reused : int
        Fits that were found in the store.
    """

    best_index_: int | None
    best_params_: dict[str, Any] | None
    best_score_: float | None
    best_estimator_: Any
    complete: bool
    reused: int

    _metadata: ClassVar[list[str]] = [
        *("best_index_", "best_params_", "best_score_", "best_estimator_", "complete", "reused")
    ]

    _needed: ClassVar[frozenset[str]] = frozenset(("rank_test_score", "note"))

    def shown(self) -> pd.DataFrame:
        best = pd.DataFrame(self).sort_values("rank_test_score", kind="stable").head(25)
        return best[[name for name in best if str(name).startswith("param_") or name in SHOWN]]

    def notes(self) -> list[str]:
        most = min(len(self), 25)
        counts = [f"the best {most} of {len(self)} settings"] if len(self) > most else []
        state = [] if self.complete else ["not complete"]
        return [*counts, *state, *filter(None, dict.fromkeys(self["note"]))]


@known_arguments
def select(
    estimator: Any,
    grid: Grid,
    X: Any,
    y: Any = None,
    *,
    cv: Any = 5,
    scoring: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    refit: bool = True,
    tol: float = TOL,
    guarantee: bool = False,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = False,
    seed: int | None = None,
    time_limit: float | None = None,
) -> Selection:
    """Cross-validate an estimator over a grid, each fit starting from its neighbour's answer.

    The result is that of :class:`sklearn.model_selection.GridSearchCV` with the same arguments, up
    to the gaps of the certificates. Within a fold, settings that differ in one hyper-parameter are
    solved in ascending order of it, each warm-started from the previous solution; Gram matrices are
    evaluated once for all fits on a fold that share a kernel, and the transformers of a pipeline
    are fitted once for each path.

    Parameters
    ----------
    estimator : estimator or str
        Name and settings, as in ``"psvm:p=1.5"``; one of this package, a pipeline that ends in one,
        or any other of scikit-learn (without warm starts; ``SVC``, ``NuSVC``, ``LinearSVC`` and
        ``LogisticRegression`` with certificates).
    grid : dict of sequences, or list of such
        As for GridSearchCV; the last step of a pipeline may have its parameters under their own
        names. The path follows the one of ``C``, ``lam``, ``kappa``, ``C1``, ``C2``, ``lam1``,
        ``lam2``, ``p``, ``D``, ``eps`` that takes most values.
    X, y : of the same types
        As for ``fit`` of the estimator; or a data set, or its name, without `y`; or a file or data
        frame, and the column of the labels.
    cv : int, splitter or iterable of (train, test)
        Stratified folds for a number; 5 by default.
    scoring : str or callable, optional
        A score, the greater the better; the accuracy by default.
    sample_weight : array-like of shape (n,), optional
        Weights of the training losses, for the final estimator; scores are not weighted.
    groups : array-like of shape (n,), optional
        For splitters that need them.
    refit : bool
        Fit the best model to all data.
    tol : float
        Relative gap up to which a fit counts as certified in the table.
    guarantee : bool
        Compute an interval of the score of *every optimal machine* on each fold
        (:func:`svmcvx.guarantee`), and which settings may be the best. It may take ten times as
        long as the fits, so that it is off by default. For `scoring` None, ``"accuracy"``,
        ``"balanced_accuracy"`` or ``"roc_auc"``.
    n_jobs : int, optional
        Paths solved at a time, one path on one fold being one task, in the backend of
        ``joblib.parallel_config``; 1 by default.
    store : path-like, optional
        A file for finished fits (SQLite; made if it is not there), which comparisons and studies
        may share. Each is written as soon as it is finished; a later call with the same data, grid
        and folds continues where the first one stopped, also after a kill.
    progress : bool
        Show a bar, or a line a minute where there is no terminal (extra ``cli``).
    seed : int, optional
        Shuffle the observations before they are cut into folds, if `cv` is a number.
    time_limit : float, optional
        Seconds for everything. At the limit, as after Ctrl-C, the table has the finished rows, with
        a warning.

    Returns
    -------
    Selection
        A DataFrame with a row for each setting of the grid, in its order: ``param_<name>``,
        ``params``; ``split<k>_test_score``, ``mean_test_score``, ``std_test_score`` and
        ``rank_test_score`` as in ``GridSearchCV.cv_results_`` (NaN if a fit failed or is missing);
        ``split<k>_lower`` and ``split<k>_upper`` (checked interval around the optimum of fold k; of
        several binary problems that of their sum); ``gap`` (largest relative one),
        ``certified`` (None if the problem is not known); ``n_support`` (mean), ``solver``,
        ``status``, ``warm_starts`` (folds in which the solver used the earlier solution),
        ``seconds`` (of all its fits) and ``note``. With `guarantee` also ``mean_test_score_lower``
        and ``mean_test_score_upper`` (mean interval of every optimal machine), ``undecided`` (mean
        share of validation rows whose label is not proved) and ``may_be_best`` (whether no other
        setting is surely better).

    Raises
    ------
    DataError
        If an argument cannot be used, or if every fit fails.
    SolverUnavailable
        If `progress` is True and rich is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> import svmcvx as sx
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> found = sx.select(sx.PSVMClassifier(p=2.0), {"C": np.logspace(-3, 1, 5)}, scale(X), y)
    >>> found.best_params_
    {'C': np.float64(0.1)}
    """
    named = parse_models(estimator) if isinstance(estimator, str) else [("", estimator)]
    given, (_, estimator) = estimator, named[0]
    fits = all(hasattr(estimator, name) for name in ("fit", "get_params"))
    if isinstance(estimator, type) or not fits or len(named) > 1:
        raise DataError(f"estimator must be one estimator such as PSVMClassifier(), got {given!r}")
    tol = check_number(tol, "tol", "(0, inf)")
    candidates = _candidates(estimator, grid)
    X, y = parts_of(X, y)[:2]
    try:
        X = np.asarray(X) if isinstance(X, (list, tuple)) else X
        X, y, groups = indexable(X, np.asarray(y), groups)
    except (ValueError, TypeError) as error:
        raise DataError(f"X and y cannot be used: {error}") from None
    weight = None if sample_weight is None else check_weights(sample_weight, len(y))
    scorer = _scorer(estimator, scoring)
    interval = check_interval(scoring) if guarantee else None
    intervals = () if interval is None else (interval,)
    content = None if store is None else fingerprint(scoring, interval, X, y, weight)
    folds = folds_of(estimator, X, y, groups, cv, seed)
    # One fold after the other, whose Gram matrices are kept in this process.
    work = [
        _PathOnFold(
            *(clone(estimator), path, k, X, y, weight, *fold, scorer, callable(scoring), tol),
            intervals,
            _keys(estimator, path, content, k, *fold),
        )
        for k, fold in enumerate(folds)
        for path in paths_of(estimator, candidates)
    ]
    with time_limited(check_time_limit(time_limit)):
        found, reused, complete = collected(work, store, "fits", progress, n_jobs=n_jobs)
        rows = {
            (position, task.fold): found[key]
            for task in work
            for key, position in zip(task.keys, task.path.positions, strict=True)
            if key in found
        }
        table = _table(candidates, len(folds), rows, tol, intervals)
        table.complete, table.reused = complete, reused
        if complete and refit and table.best_params_ is not None and not current().passed():
            best = with_settings(clone(estimator), table.best_params_)
            keywords = {} if weight is None else {f"{final_prefix(estimator)}sample_weight": weight}
            try:
                table.best_estimator_ = best.fit(X, y, **keywords)
            except KeyboardInterrupt:
                table.complete = False
                message = f"interrupted after {len(rows)} fits: best_estimator_ is None"
                warnings.warn(message, stacklevel=3)
    return table


def _keys(
    estimator: Any, path: Path, content: str | None, fold: int, *rows: Any
) -> tuple[str, ...]:
    """Return the keys of a path on a fold: for a store by all that the rows depend on."""
    if content is None:
        return tuple(f"{position} {fold}" for position in path.positions)
    shared = fingerprint(content, *rows)
    return tuple(
        fingerprint(with_settings(clone(estimator), settings), shared) for settings in path.settings
    )


def _candidates(estimator: Any, grid: Grid) -> list[dict[str, Any]]:
    """Return all settings, each of which the estimator takes."""
    last = final_prefix(estimator)

    def full(name: str) -> str:
        return parameter_of(estimator, name) or (name if "__" in name else f"{last}{name}")

    try:
        names: dict[str, str] = {}
        candidates = [
            {names.setdefault(name, full(name)): value for name, value in settings.items()}
            for settings in ParameterGrid(grid)
        ]
        for settings in candidates:
            with_settings(clone(estimator), settings)
    except (ValueError, TypeError) as error:
        raise DataError(f"grid cannot be used: {error}") from None
    if not candidates:
        raise DataError("grid is empty; pass for example {'C': [0.1, 1, 10]}")
    return candidates


def folds_of(
    estimator: Any, X: Any, y: Any, groups: Any, cv: Any, seed: int | None = None
) -> list[Fold]:
    classes = is_classifier(estimator)
    try:
        if seed is not None and isinstance(cv, numbers.Integral):
            cv = (StratifiedKFold if classes else KFold)(int(cv), shuffle=True, random_state=seed)
        folds = [
            (np.asarray(train), np.asarray(test))
            for train, test in check_cv(cv, y, classifier=classes).split(X, y, groups)
        ]
    except (ValueError, TypeError) as error:
        raise DataError(f"cv cannot be used: {error}") from None
    if not folds:
        raise DataError(
            "cv gives no folds; pass a number such as 5, a splitter, or pairs (train, test)"
        )
    return folds


def _scorer(estimator: Any, scoring: Any) -> Callable[..., float] | None:
    """Return the scorer, None for the estimator's own score."""
    if isinstance(scoring, (list, tuple, set, Mapping)):
        raise DataError(
            "scoring must be one score, such as 'balanced_accuracy'; several give no best model"
        )
    try:
        scorer: Callable[..., float] = check_scoring(estimator, scoring)
    except (ValueError, TypeError) as error:
        unknown = isinstance(scoring, str) and scoring not in get_scorer_names()
        # scikit-learn's own message lists all.
        why = f"scikit-learn has no score {scoring!r}" if unknown else str(error)
        raise DataError(f"scoring cannot be used: {why}") from None
    return None if scoring is None else scorer


def _table(
    candidates: list[dict[str, Any]],
    folds: int,
    rows: Mapping[tuple[int, int], Row],
    tol: float,
    intervals: Sequence[str],
) -> Selection:
    """Return the table; a setting without all of its fits has no mean score."""
    places = pd.MultiIndex.from_product([range(len(candidates)), range(folds)])
    names = ["score", "lower", "upper", "gap", "n_support", "solver", "status", "note"]
    names += ["warm_start_used", "seconds", "certified", *ends_of(intervals), "undecided"]
    known = pd.DataFrame([rows.get(place, {}) for place in places], index=places, columns=names)

    def each(name: str) -> NDArray[np.float64]:
        return known[name].to_numpy(dtype=float, na_value=math.nan).reshape(-1, folds)

    def words(name: str, separator: str) -> list[str]:
        texts = known[name].astype(object).where(known[name].notna(), "").groupby(level=0)
        return [separator.join(sorted(set(filter(None, group)))) for _, group in texts]

    columns: dict[str, Any] = {}
    for name in sorted({name for settings in candidates for name in settings}):
        columns[f"param_{name}"] = [settings.get(name, math.nan) for settings in candidates]
    columns["params"] = list(candidates)
    scores, lower, upper = map(each, ("score", "lower", "upper"))
    means = scores.mean(axis=1)
    columns |= {f"split{k}_test_score": scores[:, k] for k in range(folds)}
    columns |= {"mean_test_score": means, "std_test_score": scores.std(axis=1)}
    ranks = pd.Series(means).rank(method="min", ascending=False, na_option="bottom")
    columns["rank_test_score"] = ranks.astype(int)
    for k in range(folds):
        columns |= {f"split{k}_lower": lower[:, k], f"split{k}_upper": upper[:, k]}
    if intervals:
        low, high = (each(name).mean(axis=1) for name in ends_of(intervals))
        columns |= {"mean_test_score_lower": low, "mean_test_score_upper": high}
        columns["undecided"] = each("undecided").mean(axis=1)
        # Means of different sums of the same shares differ by roundings; an unknown value may be
        # the best.
        columns["may_be_best"] = ~(high < np.nanmax(low, initial=-math.inf) - 1e-12)
    columns["gap"] = each("gap").max(axis=1)
    # A model whose problem is not known has nothing to be certified.
    unknown = (known["status"].notna() & known["certified"].isna()).groupby(level=0).all()
    columns["certified"] = [
        None if none else bool(gap <= tol)
        for none, gap in zip(unknown, columns["gap"], strict=True)
    ]
    columns["n_support"] = known["n_support"].astype(float).groupby(level=0).mean()
    columns |= {name: words(name, ", ") for name in ("solver", "status")}
    columns["warm_starts"] = known["warm_start_used"].eq(True).groupby(level=0).sum()
    columns["seconds"] = np.nansum(each("seconds"), axis=1)
    columns["note"] = words("note", "; ")
    table = Selection(columns)
    table.best_index_ = table.best_params_ = table.best_score_ = table.best_estimator_ = None
    if np.isfinite(means).any():
        best = int(np.nanargmax(means))
        table.best_index_, table.best_score_ = best, float(means[best])
        table.best_params_ = dict(candidates[best])
    elif len(rows) == scores.size:
        why = next(filter(None, known["note"]))
        raise DataError(f"every setting of the grid fails in some fold: {why}")
    return table
