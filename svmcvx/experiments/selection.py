"""Model selection by cross-validation along warm-started paths, each fit with a certificate."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from difflib import get_close_matches
from itertools import groupby
from pathlib import Path as FilePath
from typing import Any, ClassVar, Final, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import KFold, ParameterGrid, StratifiedKFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split
from sklearn.utils.validation import indexable

import svmcvx
from svmcvx.arguments import what_was_meant
from svmcvx.data import Features, check_features, check_number, check_time_limit, check_weights
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.estimators.request import TrainingData
from svmcvx.experiments.fit import Part, check_interval, cut_short, fit_row
from svmcvx.experiments.store import (
    DIED,
    DIED_NOTE,
    Row,
    Store,
    failed,
    fingerprint,
    is_dask,
    progress_bar,
    results,
    warn_incomplete,
    workers,
)
from svmcvx.experiments.tables import table_html
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.model import KernelModel, Members, OneVsModel
from svmcvx.solution import Solution
from svmcvx.system import clock
from svmcvx.system.deadline import epoch_end, time_limited, until

Fold: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
Grid: TypeAlias = "Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]"
Settings: TypeAlias = Mapping[str, Any]

# Hyper-parameters that a path can follow; of several that vary, the one with most values, and the
# first of these in case of a tie.
PATH_PARAMETERS = ("C", "lam", "kappa", "C1", "C2", "lam1", "lam2", "p", "D", "eps")
# The number of this form of a row, in the keys of stores.
FORM: Final = 2
# Equal means differ by less, others by more.
ROUNDING: Final = 1e-12
# Columns that HTML shows in addition to the parameters.
SHOWN: Final = (
    *("mean_test_score", "std_test_score", "rank_test_score"),
    *("mean_test_score_lower", "mean_test_score_upper", "may_be_best", "gap", "certified"),
    *("n_support", "solver", "warm_starts", "seconds", "note"),
)


# Paths of settings


@dataclass(frozen=True)
class Path:
    """Settings that differ in at most one parameter, in the order in which they are solved."""

    parameter: str | None
    settings: tuple[Settings, ...]
    positions: tuple[int, ...]


def final_prefix(estimator: Any) -> str:
    """Return the prefix of the parameters of the final estimator: ``""``, or ``"svm__"`` in a
    pipeline.
    """
    return f"{estimator.steps[-1][0]}__" if isinstance(estimator, Pipeline) else ""


def parameter_of(estimator: Any, name: str) -> str:
    """Return what an estimator calls a parameter: in a pipeline also that of its last step; empty
    if it has none.
    """
    known = estimator.get_params()
    return next((full for full in (name, f"{final_prefix(estimator)}{name}") if full in known), "")


def paths_of(estimator: Any, candidates: Sequence[Settings]) -> list[Path]:
    """Order the settings of a grid into paths."""
    prefix = final_prefix(estimator)
    alike: dict[frozenset[str], list[int]] = {}
    for position, settings in enumerate(candidates):
        alike.setdefault(frozenset(settings), []).append(position)
    paths = []
    for positions in alike.values():
        name = _path_parameter(prefix, [candidates[i] for i in positions])
        groups: dict[str, list[int]] = {}
        for i in positions:
            others = sorted(
                (key, repr(value)) for key, value in candidates[i].items() if key != name
            )
            groups.setdefault(repr(others) if name else str(i), []).append(i)
        for group in groups.values():
            ordered = sorted(group, key=lambda i: candidates[i][name]) if name else group
            paths.append(Path(name, tuple(candidates[i] for i in ordered), tuple(ordered)))
    return paths


def _path_parameter(prefix: str, candidates: Sequence[Settings]) -> str | None:
    best, most = None, 1
    for name in (prefix + parameter for parameter in PATH_PARAMETERS):
        values = [settings[name] for settings in candidates if name in settings]
        ordered = all(
            isinstance(value, numbers.Real) and not isinstance(value, bool) for value in values
        )
        if values and ordered and len(set(values)) > most:
            best, most = name, len(set(values))
    return best


def with_settings(estimator: Any, settings: Settings) -> Any:
    """Give an estimator settings, without sharing estimators that are among their values."""
    return estimator.set_params(
        **{name: clone(value, safe=False) for name, value in settings.items()}
    )


# One path on one fold


@dataclass(frozen=True)
class PathOnFold:
    """One path on one fold: a piece of work that a process does by itself."""

    estimator: Any
    path: Path
    fold: int
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    scorer: Callable[..., float] | None
    # Whether the scorer takes the whole pipeline, and not its last step.
    whole: bool
    tol: float
    until: float
    interval: str | None
    store: FilePath | None = None
    keys: tuple[str, ...] = ()

    def rows(
        self, X: Any, y: Any, sample_weight: Any, cache: GramCache | None = None
    ) -> Iterator[tuple[int, Row]]:
        """Yield the place on the path and the row of each of the settings as soon as it is done."""
        state = _PathState(self, X, y, sample_weight, GramCache() if cache is None else cache)
        with nullcontext() if self.store is None else Store(self.store) as store:
            for k, settings in enumerate(self.path.settings):
                with until(self.until) as deadline:
                    if deadline.passed():
                        return
                    row = state.row(settings)
                    if cut_short(row, deadline):
                        return
                if store is not None:
                    store.add(self.keys[k], row, "select")
                yield k, row

    def failed(self, note: str) -> list[tuple[int, Row]]:
        """Return rows that say why nothing is known."""
        row = dict.fromkeys(("score", "lower", "upper", "gap", "solver", "n_support"))
        row |= {"certified": False, "warm_start_used": False, "seconds": 0.0, **failed(note)}
        return [(k, dict(row)) for k in range(len(self.path.settings))]


class _PathState:
    """State of a path between fits: split data, fitted transformers, the last solution."""

    def __init__(
        self, work: PathOnFold, X: Any, y: Any, sample_weight: Any, cache: GramCache
    ) -> None:
        self.work, self.cache = work, cache
        estimator = with_settings(clone(work.estimator), work.path.settings[0])
        weight = None if sample_weight is None else sample_weight[work.train]
        self.X_test: Any = None
        self.transformers: Pipeline | None = None
        try:
            X_train, y_train = _safe_split(estimator, X, y, work.train)
            X_test, y_test = _safe_split(estimator, X, y, work.test, work.train)
            self.X_test = X_test
            if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
                # No setting on the path is one of theirs.
                self.transformers = clone(estimator)[:-1]
                X_train = self.transformers.fit_transform(X_train, y_train)
                X_test = self.transformers.transform(X_test)
            self.part = Part(X_train, np.asarray(y_train), X_test, np.asarray(y_test), weight)
        except Exception as error:  # each fit then fails with it
            self.part = Part(error, y, error, y)
        steps = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
        self.name: str = steps[-1][0]
        self.last: Any = steps[-1][1]
        self.training: TrainingData | None = None
        self.tested: Features | None = None
        self.solution: Solution | None = None

    def row(self, settings: Settings) -> Row:
        started, name = clock.now(), self.work.path.parameter
        if name is not None:
            # The name has been checked before the search; set_params would take as long as a short
            # fit.
            setattr(self.last, name.rpartition("__")[2], settings[name])
        interval = self.work.interval
        row, fitted = fit_row(
            self._fitted,
            self.part,
            tol=self.work.tol,
            score=self._score,
            intervals=() if interval is None else (interval,),
        )
        solution = getattr(fitted, "solution_", None)
        row["warm_start_used"] = isinstance(solution, Solution) and bool(solution.warm_start_used)
        return row | {"seconds": clock.now() - started}

    def _fitted(self) -> Any:
        """Return the last step, fitted to the transformed training part."""
        last, part = self.last, self.part
        if isinstance(last, CertifiedClassifier):
            if self.training is None:
                # The same data for the same estimator all along the path.
                self.training = last._training_data(part.X, part.y, part.weight)
            last._fit(self.training, self.solution, self.cache)
            self.solution = last.solution_
        elif part.weight is None:
            last.fit(part.X, part.y)
        else:
            last.fit(part.X, part.y, sample_weight=part.weight)
        return last

    def _score(self, last: Any) -> float:
        X, y, scorer = self.part.X_test, self.part.y_test, self.work.scorer
        if scorer is None:
            if type(last).score is CertifiedClassifier.score:
                # The accuracy, with one evaluation of the kernel for the whole path.
                return float(np.mean(self._predicted(last, X) == y))
            return float(last.score(X, y))
        if self.work.whole and self.transformers is not None:
            last, X = Pipeline([*self.transformers.steps, (self.name, last)]), self.X_test
        return scorer(last, X, y)

    def _predicted(self, last: Any, X_test: Any) -> NDArray[Any]:
        """Return the predictions of the final estimator; the kernel is evaluated once a path if it
        fits into memory.
        """
        if isinstance(last, BinaryClassifier) and type(last).predict is BinaryClassifier.predict:
            model = last.model_
            several = model._together if isinstance(model, OneVsModel) else None
            members = model if isinstance(model, KernelModel) else several
            if (
                isinstance(members, (KernelModel, Members))
                and members.kernel is not None
                and members.vectors is not None
                and self.training is not None
            ):
                if self.tested is None:
                    self.tested = check_features(X_test)
                cross = self.cache.cross(members.kernel, self.tested, self.training.X)
                if cross is not None and isinstance(members, KernelModel):
                    v = np.zeros(cross.shape[1])
                    v[members.support] = members.dual_coef
                    return np.asarray(
                        last.classes_[(cross @ v + members.intercept > 0).astype(np.intp)]
                    )
                if cross is not None and isinstance(members, Members):
                    scores = cross[:, members.supports[0]] @ members.table + members.intercepts
                    return np.asarray(last.classes_[last._decided(scores, last.multiclass)])
        return np.asarray(last.predict(X_test))


# The search


class Selection(pd.DataFrame):
    """The table of :func:`select`: a DataFrame with the best model.

    Parts of it, copies with other columns and the like are plain DataFrames.

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

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def _repr_html_(self) -> str:
        whole = pd.DataFrame(self)
        names = [name for name in whole if str(name).startswith("param_") or name in SHOWN]
        best = [] if self.best_index_ is None else [self.best_index_]
        state = "" if self.complete else ", not complete"
        title = f"{len(whole)} settings{state}; the best is bold"
        return table_html(whole[names], title, bold=best)


def select(
    estimator: Any,
    grid: Grid,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    scoring: Any = None,
    sample_weight: Any = None,
    groups: Any = None,
    refit: bool = True,
    tol: float = 1e-6,
    guarantee: bool = False,
    backend: str | None = None,
    n_jobs: int | None = None,
    store: str | os.PathLike[str] | None = None,
    progress: bool = False,
    seed: int | None = None,
    time_limit: float | None = None,
) -> Selection:
    """Cross-validate an estimator over a grid, each fit starting from its neighbour's answer.

    The result is the same as with :class:`sklearn.model_selection.GridSearchCV` and the same
    arguments, up to the gaps of the certificates. It is faster: within one fold, settings that
    differ in one hyper-parameter only are solved in ascending order of it, each warm-started from
    the previous solution; Gram matrices are evaluated once for all fits on a fold that share a
    kernel, and the transformers of a pipeline are fitted once for each path.

    Parameters
    ----------
    estimator : estimator
        One of this package, a pipeline that ends in one, or any other of scikit-learn (without warm
        starts; ``SVC``, ``NuSVC``, ``LinearSVC`` and ``LogisticRegression`` with certificates).
    grid : dict of sequences, or list of such
        As for GridSearchCV; the last step of a pipeline may have its parameters under their own
        names. The path parameter is the one of ``C``, ``lam``, ``kappa``, ``C1``, ``C2``, ``lam1``,
        ``lam2``, ``p``, ``D``, ``eps`` that takes most values; of several the first.
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    cv : int, splitter or iterable of (train, test)
        Stratified folds for a number; 5 by default.
    scoring : str or callable, optional
        A score, the greater the better; the accuracy by default.
    sample_weight : array-like of shape (n,), optional
        Weights of the training losses, for the final estimator. Scores are not weighted, as in
        GridSearchCV.
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
    backend : str, optional
        One of joblib's, such as ``"loky"`` (processes) or ``"threading"``; ``"dask"`` (the current
        client), or the address of a Dask scheduler, as in ``"tcp://10.0.0.1:8786"`` (extra
        ``dask``), whose workers need not see the store; by default that of
        ``joblib.parallel_config``.
    n_jobs : int, optional
        Paths solved at a time, one path on one fold being one task; 1 by default, all workers with
        Dask.
    store : path-like, optional
        A file for finished fits (SQLite; made if it is not there), which comparisons and studies
        may share. Each is written as soon as it is finished; a later call with the same data, grid
        and folds continues where the first one stopped, also after a kill. Several processes of one
        computer may use it at the same time.
    progress : bool
        Show a bar (extra ``cli``).
    seed : int, optional
        Shuffle the observations before they are cut into folds, if `cv` is a number; by default
        they are not.
    time_limit : float, optional
        Seconds for everything. At the limit the table has the finished rows. A limit of each fit is
        the estimator's own ``time_limit``.

    Returns
    -------
    Selection
        A DataFrame with a row for each setting of the grid, in its order. Columns:

        ``param_<name>``, ``params``
            The setting.
        ``split<k>_test_score``, ``mean_test_score``, ``std_test_score``, ``rank_test_score``
            As in ``GridSearchCV.cv_results_``; NaN if a fit failed or is missing.
        ``split<k>_lower``, ``split<k>_upper``
            The checked interval around the optimum of the training problem of fold k; if a model
            consists of several binary machines, that of the largest gap.
        ``gap``, ``certified``
            Largest relative gap over the folds, and whether it is at most `tol`; of ``SVC``,
            ``NuSVC``, ``LinearSVC`` and ``LogisticRegression`` that of :func:`svmcvx.certify`. NaN
            and None for other models, whose problem is not known.
        ``mean_test_score_lower``, ``mean_test_score_upper``, ``undecided``, ``may_be_best``
            With `guarantee`: the mean over the folds of the intervals of the scores of every
            optimal machine, the mean share of validation rows whose label is not proved, and
            whether no other setting is surely better. Several may be the best where their errors
            are equal, or where rows that matter are undecided.
        ``n_support``, ``solver``, ``status``
            Mean number of support vectors; solvers and statuses that occurred.
        ``warm_starts``
            Folds in which the solver used the earlier solution.
        ``seconds``
            Wall clock of all its fits and scores.
        ``note``
            Why a fit failed, or has no score or certificate.

    Raises
    ------
    DataError
        If an argument cannot be used, or if every fit fails.
    SolverUnavailable
        If `progress` is True and rich is not installed.

    Warns
    -----
    UserWarning
        After Ctrl-C or at the time limit: the table then has the finished rows.

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
    >>> bool(found["certified"].all())
    True
    """
    _check_estimator(estimator)
    tol = check_number(tol, "tol", low=0, open_low=True)
    X, y, groups = _data(X, y, groups)
    weight = None if sample_weight is None else check_weights(sample_weight, len(y))
    candidates = _candidates(estimator, grid)
    folds = _folds(estimator, X, y, groups, cv, seed)
    scorer = _scorer(estimator, scoring)
    interval = check_interval(scoring) if guarantee else None
    with time_limited(check_time_limit(time_limit)) as deadline:
        end = epoch_end(deadline)
        work = [
            PathOnFold(
                clone(estimator),
                path,
                fold,
                train,
                test,
                scorer,
                callable(scoring),
                tol,
                end,
                interval,
            )
            for path in paths_of(estimator, candidates)
            for fold, (train, test) in enumerate(folds)
        ]
        search = _Search(work, (X, y, weight), store, scoring, backend, n_jobs)
        complete = search.run(progress)
        table = _table(candidates, len(folds), search.rows, tol, interval)
        table.complete, table.reused = complete, search.reused
        if not complete:
            count = f"{len(search.rows)} of {search.size} fits: the table holds these"
            warn_incomplete(deadline, count, store is not None)
        elif refit and table.best_params_ is not None and not deadline.passed():
            best = with_settings(clone(estimator), table.best_params_)
            keywords = {} if weight is None else {f"{final_prefix(estimator)}sample_weight": weight}
            table.best_estimator_ = best.fit(X, y, **keywords)
    return table


def _data(X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
    try:
        data: tuple[Any, Any, Any] = tuple(
            indexable(np.asarray(X) if isinstance(X, (list, tuple)) else X, np.asarray(y), groups)
        )
    except (ValueError, TypeError) as error:
        raise DataError(f"X and y cannot be used: {error}") from None
    return data


def _check_estimator(estimator: Any) -> None:
    if (
        isinstance(estimator, type)
        or not hasattr(estimator, "fit")
        or not hasattr(estimator, "get_params")
    ):
        raise DataError(
            f"estimator must be an estimator such as PSVMClassifier(), got {estimator!r}"
        )


def _candidates(estimator: Any, grid: Grid) -> list[dict[str, Any]]:
    """Return all settings, each of which the estimator takes."""
    try:
        candidates = [
            {parameter_of(estimator, name) or name: value for name, value in settings.items()}
            for settings in ParameterGrid(grid)
        ]
        # Numeric parameters do not distinguish two settings here; other values may be estimators
        # with parameters.
        unlike = {
            frozenset(
                (name, None if isinstance(value, numbers.Real) else id(value))
                for name, value in settings.items()
            ): settings
            for settings in candidates
        }
        for settings in unlike.values():
            with_settings(clone(estimator), settings)
    except (ValueError, TypeError) as error:
        raise DataError(f"grid cannot be used: {_grid_fault(estimator, grid) or error}") from None
    if not candidates:
        raise DataError("grid is empty; pass for example {'C': [0.1, 1, 10]}")
    return candidates


def _grid_fault(estimator: Any, grid: Grid) -> str:
    """Return the fault of a grid in fewer words than scikit-learn has, where it is known."""
    known, parts = estimator.get_params(), [grid] if isinstance(grid, Mapping) else grid
    if not isinstance(parts, (list, tuple)) or not all(isinstance(one, Mapping) for one in parts):
        return f"values by the names of parameters, or a list of such, got {type(grid).__name__}"
    for part in parts:
        for name, values in part.items():
            if not parameter_of(estimator, name):
                return (
                    f"{type(estimator).__name__} has no parameter"
                    f" {name!r}{what_was_meant(name, sorted(known))}"
                )
            if np.ndim(values) == 0:
                return (
                    f"{name} must have a list of values, as in {{{name!r}: [{values!r}]}}, got"
                    f" {values!r}"
                )
    return ""


def _folds(estimator: Any, X: Any, y: Any, groups: Any, cv: Any, seed: int | None) -> list[Fold]:
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
        why = str(error)
        if isinstance(scoring, str) and scoring not in get_scorer_names():
            # Its own message lists them all.
            near = get_close_matches(scoring, get_scorer_names()) or ["balanced_accuracy"]
            why = (
                f"scikit-learn has no score {scoring!r}; write for example"
                f" {' or '.join(map(repr, near))}"
            )
        raise DataError(f"scoring cannot be used: {why}") from None
    return None if scoring is None else scorer


class _Search:
    """The work of :func:`select`, and the finished rows, by position in the grid and fold."""

    def __init__(
        self,
        work: Sequence[PathOnFold],
        data: tuple[Any, Any, Any],
        store: str | os.PathLike[str] | None,
        scoring: Any,
        backend: str | None,
        n_jobs: int | None,
    ) -> None:
        self.work, self.data, self.backend, self.n_jobs = list(work), data, backend, n_jobs
        self.size = sum(len(piece.path.settings) for piece in work)
        self.rows: dict[tuple[int, int], Row] = {}
        if store is not None:
            Store(store).close()
            common = fingerprint(FORM, svmcvx.__version__, scoring, *data)
            self.work = [_keyed(piece, FilePath(store), common) for piece in work]
            self._take_stored()
        self.reused = len(self.rows)

    def _take_stored(self) -> None:
        """Take in the rows of the store, and leave the others to do."""
        for number, piece in enumerate(self.work):
            if piece.store is None:
                continue
            with Store(piece.store) as store:
                rows = store.found(piece.keys)
            left = [k for k, key in enumerate(piece.keys) if key not in rows]
            for k, key in enumerate(piece.keys):
                if key in rows:
                    self.rows[piece.path.positions[k], piece.fold] = rows[key]
            path = replace(
                piece.path,
                settings=tuple(piece.path.settings[k] for k in left),
                positions=tuple(piece.path.positions[k] for k in left),
            )
            keys = tuple(piece.keys[k] for k in left)
            self.work[number] = replace(piece, path=path, keys=keys)

    def run(self, progress: bool) -> bool:
        """Do the work; return whether it was done to its end."""
        with progress_bar(progress, "fits", self.size, len(self.rows)) as advance:
            try:
                with closing(self._results()) as found:
                    for piece, k, row in found:
                        self.rows[piece.path.positions[k], piece.fold] = row
                        advance()
            except KeyboardInterrupt:
                self._take_stored()  # what other processes have finished since
        return len(self.rows) == self.size

    def _results(self) -> Generator[tuple[PathOnFold, int, Row]]:
        work = [piece for piece in self.work if piece.path.settings]
        with workers(self.backend, self.n_jobs) as parallel:
            if parallel is None:
                for _, pieces in groupby(sorted(work, key=_fold_of), key=_fold_of):
                    cache = GramCache()
                    for piece in pieces:
                        for k, row in piece.rows(*self.data, cache):
                            yield piece, k, row
                return
            # The workers of a cluster may be on other machines, without this store.
            remote = is_dask(self.backend)
            calls = {
                number: (_run, (replace(piece, store=None) if remote else piece, self.data))
                for number, piece in enumerate(work)
            }
            for number, rows in results(calls, parallel):
                piece = work[number]
                if rows is DIED:
                    rows = piece.failed(DIED_NOTE)
                elif remote and piece.store is not None:
                    with Store(piece.store) as store:
                        for k, row in rows:
                            store.add(piece.keys[k], row, "select")
                for k, row in rows:
                    yield piece, k, row


def _fold_of(piece: PathOnFold) -> int:
    return piece.fold


def _keyed(piece: PathOnFold, store: FilePath, common: str) -> PathOnFold:
    """Return a piece with the store that it writes to, and a key for each setting."""
    shared = fingerprint(common, piece.train, piece.test, piece.interval)
    keys = tuple(
        fingerprint(with_settings(clone(piece.estimator), settings), shared)
        for settings in piece.path.settings
    )
    return replace(piece, store=store, keys=keys)


def _run(piece: PathOnFold, data: tuple[Any, Any, Any]) -> list[tuple[int, Row]]:
    return list(piece.rows(*data))


# The table


def _table(
    candidates: list[dict[str, Any]],
    folds: int,
    rows: Mapping[tuple[int, int], Row],
    tol: float,
    interval: str | None,
) -> Selection:
    """Return the table; a setting without all of its fits has no mean score."""
    found = [[rows.get((i, k)) for k in range(folds)] for i in range(len(candidates))]

    def each(name: str) -> NDArray[np.float64]:
        return np.array([[_number(row, name) for row in group] for group in found])

    columns: dict[str, Any] = {}
    for name in sorted({name for settings in candidates for name in settings}):
        columns[f"param_{name}"] = [settings.get(name, math.nan) for settings in candidates]
    columns["params"] = list(candidates)
    scores = each("score")
    means = scores.mean(axis=1)
    columns |= {f"split{k}_test_score": scores[:, k] for k in range(folds)}
    columns |= {"mean_test_score": means, "std_test_score": scores.std(axis=1)}
    last = np.nanmin(means) - 1.0 if np.isfinite(means).any() else 0.0
    ranked = rankdata(-np.where(np.isnan(means), last, means), method="min")
    columns["rank_test_score"] = ranked.astype(int)
    lower, upper = each("lower"), each("upper")
    for k in range(folds):
        columns |= {f"split{k}_lower": lower[:, k], f"split{k}_upper": upper[:, k]}
    if interval is not None:
        low, high = (each(f"{interval}_{end}").mean(axis=1) for end in ("lower", "upper"))
        columns |= {"mean_test_score_lower": low, "mean_test_score_upper": high}
        columns["undecided"] = each("undecided").mean(axis=1)
        # Means of different sums of the same shares differ by roundings; an unknown value may be
        # the best.
        columns["may_be_best"] = ~(high < np.nanmax(low, initial=-math.inf) - ROUNDING)
    columns |= _summaries(found, each("gap").max(axis=1), tol)
    table = Selection(columns)
    table.best_index_ = table.best_params_ = table.best_score_ = table.best_estimator_ = None
    if np.isfinite(means).any():
        best = int(np.nanargmax(means))
        table.best_index_, table.best_score_ = best, float(means[best])
        table.best_params_ = dict(candidates[best])
    elif len(rows) == scores.size:
        raise DataError(
            "every setting of the grid fails in some fold:"
            f" {next(row['note'] for row in rows.values() if row['note'])}"
        )
    return table


def _summaries(
    found: list[list[Row | None]], gaps: NDArray[np.float64], tol: float
) -> dict[str, Any]:
    there = [[row for row in group if row is not None] for group in found]

    def names(column: str) -> list[list[str]]:
        return [sorted({row[column] for row in group if row[column]}) for group in there]

    supports = [
        [row["n_support"] for row in group if row["n_support"] is not None] for group in there
    ]
    return {
        "gap": gaps,
        # A model whose problem is not known has nothing to be certified.
        "certified": [
            None
            if all(row is not None and row["certified"] is None for row in group)
            else gap <= tol
            for gap, group in zip(gaps.tolist(), found, strict=True)
        ],
        "n_support": [float(np.mean(counts)) if counts else math.nan for counts in supports],
        "solver": [", ".join(group) for group in names("solver")],
        "status": [", ".join(group) for group in names("status")],
        "warm_starts": [sum(row["warm_start_used"] for row in group) for group in there],
        "seconds": [sum(row["seconds"] for row in group) for group in there],
        "note": ["; ".join(group) for group in names("note")],
    }


def _number(row: Row | None, name: str) -> float:
    return math.nan if row is None or row.get(name) is None else float(row[name])
