"""Model selection by cross-validation along warm-started paths, with a certificate for every fit."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from itertools import groupby
from typing import Any, ClassVar, Final, TypeAlias

import joblib
import numpy as np
import pandas as pd
from joblib.parallel import get_active_backend
from numpy.typing import NDArray
from scipy.stats import rankdata
from sklearn.base import clone, is_classifier
from sklearn.metrics import check_scoring, get_scorer_names
from sklearn.model_selection import KFold, ParameterGrid, StratifiedKFold, check_cv
from sklearn.utils.validation import indexable

import svmcvx
from svmcvx.arguments import what_was_meant
from svmcvx.data import check_choice, check_number, check_time_limit, check_weights
from svmcvx.errors import DataError
from svmcvx.experiments.batches.fold import BatchOnFold, batches_of
from svmcvx.experiments.batches.machines import no_batch_for
from svmcvx.experiments.batches.neighbours import neighbours
from svmcvx.experiments.intervals import check_interval
from svmcvx.experiments.progress import progress_bar
from svmcvx.experiments.search_paths import (
    Finished,
    Path,
    PathOnFold,
    Row,
    final_prefix,
    parameter_of,
    paths_of,
    with_settings,
)
from svmcvx.experiments.store import Store, fingerprint
from svmcvx.experiments.tables import table_html
from svmcvx.experiments.workers import end_with_parent, is_dask, workers
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.system.deadline import epoch_end, time_limited

__all__ = ["Selection", "select"]

Fold: TypeAlias = tuple[NDArray[np.intp], NDArray[np.intp]]
Grid: TypeAlias = "Mapping[str, Sequence[Any]] | Sequence[Mapping[str, Sequence[Any]]]"

# Equal means differ by less, others by more.
ROUNDING: Final = 1e-12
# Columns that HTML shows in addition to the parameters.
SHOWN = (
    *(
        "mean_test_score",
        "std_test_score",
        "rank_test_score",
        "mean_score_lower",
        "mean_score_upper",
        "may_be_best",
        "worst_gap",
        "certified",
        "n_support",
        "solver",
    ),
    *("warm_starts", "batched", "seconds", "note"),
)


class Selection(pd.DataFrame):
    """The table of :func:`select`: a DataFrame that also knows the best model.

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
    certify : "all" or "chosen"
        Of which settings certificates were asked for.
    """

    best_index_: int | None
    best_params_: dict[str, Any] | None
    best_score_: float | None
    best_estimator_: Any
    complete: bool
    reused: int
    certify: str

    _metadata: ClassVar[list[str]] = [
        "best_index_",
        "best_params_",
        "best_score_",
        "best_estimator_",
        "complete",
        "reused",
        "certify",
    ]

    @property
    def _constructor(self) -> Callable[..., pd.DataFrame]:
        return pd.DataFrame

    def _repr_html_(self) -> str:
        whole = pd.DataFrame(self)
        shown = whole[
            [name for name in whole.columns if str(name).startswith("param_") or name in SHOWN]
        ]
        best = [] if self.best_index_ is None else [self.best_index_]
        state = "" if self.complete else ", not complete"
        what = (
            f"; {int(whole['batched'].sum())} fits without certificates"
            if "batched" in whole
            else ""
        )
        return table_html(shown, f"{len(whole)} settings{state}{what}; the best is bold", bold=best)


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
    certify: str = "all",
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
    certify : "all" or "chosen"
        Whether every fit has a certificate (the default), or those of the chosen setting and of its
        neighbours in the grid only: the others are solved in compiled batches
        (:mod:`svmcvx.fast.grids`) up to the estimator's `tol`, which takes a twentieth of the time.
        There are batches for ODM, ODML and the pSVM with p = 1 or p = 2, on dense rows; other fits
        have certificates, and ``note`` says why. A validation row whose score is zero up to
        rounding may be counted differently by the two; the certified fit decides, and the choice is
        made again with it.
    guarantee : bool
        Compute an interval of what *every optimal machine* scores on each fold
        (:func:`svmcvx.guarantee`), and which settings may be the best. It may take ten times as
        long as the fits, so that it is off by default. For `scoring` None, ``"accuracy"``,
        ``"balanced_accuracy"`` or ``"roc_auc"``.
    backend : str, optional
        ``"loky"`` (processes), ``"threading"``, ``"dask"`` (the client that is there), or the
        address of a Dask scheduler, as in ``"tcp://10.0.0.1:8786"`` (extra ``dask``), whose workers
        need not see the store; by default joblib's, as set by ``joblib.parallel_config``.
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
        ``worst_gap``, ``certified``
            Largest relative gap over the folds, and whether it is at most `tol`; of ``SVC``,
            ``NuSVC``, ``LinearSVC`` and ``LogisticRegression`` that of :func:`svmcvx.certify`. NaN
            and False without certificates, NaN and None for other models, whose problem is not
            known.
        ``mean_score_lower``, ``mean_score_upper``, ``undecided``, ``may_be_best``
            With `guarantee`: the mean over the folds of the intervals of the scores of every
            optimal machine, the mean share of validation rows whose label is not proved, and
            whether no other setting is surely better. Several may be the best where their errors
            are equal, or where rows that matter are undecided.
        ``n_support``, ``solver``, ``status``
            Mean number of support vectors; solvers and statuses that occurred.
        ``warm_starts``
            Folds in which the solver used the earlier solution.
        ``batched``
            With ``certify="chosen"``: folds whose fits have no certificate.
        ``seconds``
            Wall clock of all its fits and scores.
        ``note``
            Why a fit failed, or has a certificate that was not asked for.

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
    check_choice(certify, "certify", ("all", "chosen"))
    X, y, groups = _data(X, y, groups)
    weight = None if sample_weight is None else check_weights(sample_weight, len(y))
    candidates = _candidates(estimator, grid)
    folds = _folds(estimator, X, y, groups, cv, seed)
    scorer = _scorer(estimator, scoring)
    interval = check_interval(scoring) if guarantee else None
    with time_limited(check_time_limit(time_limit)) as deadline:
        end = epoch_end(deadline)
        finished = None
        if store is not None:
            finished = Finished(store, fingerprint(svmcvx.__version__, X, y, weight), scoring)
        # A batch, or why there is none.
        reason = None
        if certify == "chosen":
            reason = _no_batch(estimator, scorer, interval, whole=callable(scoring))
        batched = certify == "chosen" and reason is None

        def search_of(kind: type[PathOnFold], paths: Iterable[Path]) -> _Search:
            work = [
                kind(
                    clone(estimator),
                    path,
                    fold,
                    train,
                    test,
                    scorer,
                    whole=callable(scoring),
                    until=end,
                    interval=interval,
                )
                for path in paths
                for fold, (train, test) in enumerate(folds)
            ]
            return _Search(work, finished, X, y, weight, backend, n_jobs)

        if batched:
            search = search_of(BatchOnFold, batches_of(estimator, candidates))
        else:
            search = search_of(PathOnFold, paths_of(estimator, candidates))
        complete = search.run(progress)
        reused = search.reused
        while complete and batched:
            open_places = _uncertified_choice(candidates, len(folds), search.rows)
            if not open_places:
                break
            chosen = [candidates[place] for place in open_places]
            more = search_of(
                PathOnFold, [_at(path, open_places) for path in paths_of(estimator, chosen)]
            )
            complete = more.run(progress)
            search.rows |= more.rows
            reused += more.reused
        table = _table(candidates, len(folds), search.rows, tol, guarantee=guarantee)
        if certify == "chosen":
            _tell_batched(table, candidates, len(folds), search.rows, reason)
        table.complete, table.reused, table.certify = complete, reused, certify
        if not complete:
            why = "the time limit passed" if deadline.passed() else "interrupted"
            advice = (
                "" if store is not None else "; pass a file as store to go on from there next time"
            )
            warnings.warn(
                f"{why} after {len(search.rows)} of {search.size} fits: the table holds"
                f" these{advice}",
                stacklevel=2,
            )
        elif refit and table.best_params_ is not None and not deadline.passed():
            best = with_settings(clone(estimator), table.best_params_)
            keywords = {} if weight is None else {f"{final_prefix(estimator)}sample_weight": weight}
            table.best_estimator_ = best.fit(X, y, **keywords)
    return table


def _no_batch(estimator: Any, scorer: Any, interval: str | None, *, whole: bool) -> str | None:
    """Return why fits cannot be solved in batches; None if they can."""
    if interval is not None:
        return "a guarantee is computed from certificates"
    if scorer is not None and whole:
        return "a scorer that is a function is given the fitted estimator"
    return no_batch_for(estimator)


def _at(path: Path, places: Sequence[int]) -> Path:
    """Return a path through some of the settings of a grid, with their positions in it."""
    return replace(path, positions=tuple(places[k] for k in path.positions))


def _means(
    candidates: Sequence[Any], folds: int, rows: Mapping[tuple[int, int], Row]
) -> NDArray[np.float64]:
    """Return the mean score of each setting; NaN without all of its fits."""
    scores = np.array(
        [[_number(rows.get((i, k)), "score") for k in range(folds)] for i in range(len(candidates))]
    )
    return np.asarray(scores.mean(axis=1))


def _uncertified_choice(
    candidates: list[dict[str, Any]], folds: int, rows: Mapping[tuple[int, int], Row]
) -> list[int]:
    """Return which of the chosen setting and its neighbours have fits without certificates."""
    means = _means(candidates, folds, rows)
    if not np.isfinite(means).any():
        return []
    best = int(np.nanargmax(means))
    return sorted(
        place
        for place in {best, *neighbours(candidates, best)}
        if any(rows[place, fold].get("batched", False) for fold in range(folds))
    )


def _tell_batched(
    table: pd.DataFrame,
    candidates: list[dict[str, Any]],
    folds: int,
    rows: Mapping[tuple[int, int], Row],
    reason: str | None,
) -> None:
    """Add the column that says which fits have no certificates, and why there are others."""
    found = [[rows.get((place, fold)) for fold in range(folds)] for place in range(len(candidates))]
    counts = [
        sum(row is not None and row.get("batched", False) for row in group) for group in found
    ]
    table.insert(list(table.columns).index("seconds"), "batched", counts)
    if reason is not None:
        table["note"] = [note or f"certified: {reason}" for note in table["note"]]


def _data(X: Any, y: Any, groups: Any) -> tuple[Any, Any, Any]:
    """Return data whose rows can be selected."""
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
    """Return what is wrong with a grid in fewer words than scikit-learn has, where that is known."""
    known = estimator.get_params()
    for part in [grid] if isinstance(grid, Mapping) else grid:
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
    """The work of :func:`select`, and the rows that are there, by position in the grid and fold."""

    def __init__(
        self,
        work: Sequence[PathOnFold],
        finished: Finished | None,
        X: Any,
        y: Any,
        weight: Any,
        backend: str | None,
        n_jobs: int | None,
    ) -> None:
        self.data = X, y, weight
        self.backend, self.n_jobs, self.finished = backend, n_jobs, finished
        self.size = sum(len(piece.path.settings) for piece in work)
        self.rows: dict[tuple[int, int], Row] = {}
        self.work = (
            list(work) if finished is None else [self._resumed(piece, finished) for piece in work]
        )
        self.reused = len(self.rows)

    def _resumed(self, piece: PathOnFold, finished: Finished) -> PathOnFold:
        """Take in the rows of the store; return the others."""
        piece = finished.keyed(piece)
        left, rows = [], finished.rows(piece)
        for k, key in enumerate(piece.keys):
            if key in rows:
                self.rows[piece.path.positions[k], piece.fold] = rows[key]
            else:
                left.append(k)
        return piece.part(left)

    def run(self, progress: bool) -> bool:
        """Do the work; return whether it was done to its end."""
        with progress_bar(progress, "fits", self.size, len(self.rows)) as advance:
            try:
                for piece, k, row in self._results(
                    [piece for piece in self.work if piece.path.settings]
                ):
                    self.rows[piece.path.positions[k], piece.fold] = row
                    advance()
            except KeyboardInterrupt:
                if self.finished is not None:
                    # What other processes have finished since.
                    for piece in self.work:
                        self._resumed(piece, self.finished)
        return len(self.rows) == self.size

    def _results(self, work: list[PathOnFold]) -> Iterator[tuple[PathOnFold, int, Row]]:
        if self.backend is not None:
            with workers(self.backend, self.n_jobs) as parallel:
                yield from (
                    self._serial(work) if parallel is None else self._parallel(work, parallel)
                )
        elif joblib.effective_n_jobs(self.n_jobs) == 1:
            yield from self._serial(work)
        else:
            backend, _ = get_active_backend()
            order = "generator_unordered" if backend.supports_return_generator else "list"
            yield from self._parallel(
                work, joblib.Parallel(n_jobs=self.n_jobs, return_as=order, batch_size=1)
            )

    def _serial(self, work: list[PathOnFold]) -> Iterator[tuple[PathOnFold, int, Row]]:
        for _, pieces in groupby(
            sorted(work, key=lambda piece: piece.fold), key=lambda piece: piece.fold
        ):
            cache = GramCache()
            for piece in pieces:
                for k, row in piece.rows(*self.data, cache):
                    yield piece, k, row

    def _parallel(
        self, work: list[PathOnFold], parallel: joblib.Parallel
    ) -> Iterator[tuple[PathOnFold, int, Row]]:
        # The workers of a cluster may be on other machines, without this store.
        remote = is_dask(self.backend)
        for number, rows in parallel(
            joblib.delayed(_run)(number, replace(piece, store=None) if remote else piece, self.data)
            for number, piece in enumerate(work)
        ):
            piece = work[number]
            if remote and piece.store is not None:
                with Store(piece.store) as store:
                    for k, row in rows:
                        store.add(piece.keys[k], row, "select")
            for k, row in rows:
                yield piece, k, row


def _run(
    number: int, piece: PathOnFold, data: tuple[Any, Any, Any]
) -> tuple[int, list[tuple[int, Row]]]:
    """Do a piece of work in another process or thread."""
    end_with_parent()
    return number, list(piece.rows(*data))


def _table(
    candidates: list[dict[str, Any]],
    folds: int,
    rows: Mapping[tuple[int, int], Row],
    tol: float,
    *,
    guarantee: bool,
) -> Selection:
    """Return the table; a setting without all of its fits has no mean score."""
    columns: dict[str, list[Any]] = {}
    names = sorted({name for settings in candidates for name in settings})
    for name in names:
        columns[f"param_{name}"] = [settings.get(name, math.nan) for settings in candidates]
    columns["params"] = list(candidates)
    found = [[rows.get((i, k)) for k in range(folds)] for i in range(len(candidates))]
    scores = np.array([[_number(row, "score") for row in group] for group in found])
    for k in range(folds):
        columns[f"split{k}_test_score"] = list(scores[:, k])
    means = scores.mean(axis=1)
    columns["mean_test_score"], columns["std_test_score"] = list(means), list(scores.std(axis=1))
    last = np.nanmin(means) - 1.0 if np.isfinite(means).any() else 0.0
    columns["rank_test_score"] = list(
        rankdata(-np.where(np.isnan(means), last, means), method="min").astype(int)
    )
    for k in range(folds):
        columns[f"split{k}_lower"] = [_number(group[k], "lower") for group in found]
        columns[f"split{k}_upper"] = [_number(group[k], "upper") for group in found]
    columns |= _exact(found) if guarantee else {}
    table = Selection(columns | _summaries(found, tol))
    table.best_index_ = table.best_params_ = table.best_score_ = table.best_estimator_ = None
    if np.isfinite(means).any():
        best = int(np.nanargmax(means))
        table.best_index_, table.best_params_, table.best_score_ = (
            best,
            dict(candidates[best]),
            float(means[best]),
        )
    elif len(rows) == scores.size:
        raise DataError(
            "every setting of the grid fails in some fold:"
            f" {next(row['note'] for row in rows.values() if row['note'])}"
        )
    return table


def _exact(found: list[list[Row | None]]) -> dict[str, list[Any]]:
    """Return the mean over the folds of the intervals of every optimal machine, and which settings
    may be the best.
    """
    names = ("exact_lower", "exact_upper", "undecided")
    lower, upper, undecided = (
        np.array([[_number(row, name) for row in group] for group in found]).mean(axis=1)
        for name in names
    )
    most = np.nanmax(lower, initial=-math.inf)
    # Means of different sums of the same shares differ by roundings; an unknown value may be the
    # best.
    may = ~(upper < most - ROUNDING)
    return {
        "mean_score_lower": list(lower),
        "mean_score_upper": list(upper),
        "undecided": list(undecided),
        "may_be_best": list(may),
    }


def _summaries(found: list[list[Row | None]], tol: float) -> dict[str, list[Any]]:
    summaries: dict[str, list[Any]] = {}
    gaps = [
        max(_number(row, "gap") for row in group) if all(group) else math.nan for group in found
    ]
    summaries["worst_gap"] = gaps
    # Of a model whose problem is not known there is nothing to be certified.
    summaries["certified"] = [
        None if group and all(_is_unknown(row) for row in group) else gap <= tol
        for gap, group in zip(gaps, found, strict=True)
    ]
    there = [[row for row in group if row is not None] for group in found]
    supports = [
        [row["n_support"] for row in group if row["n_support"] is not None] for group in there
    ]
    summaries["n_support"] = [float(np.mean(counts)) if counts else math.nan for counts in supports]
    for name in ("solver", "status"):
        summaries[name] = [
            ", ".join(sorted({row[name] for row in group if row[name]})) for group in there
        ]
    summaries["warm_starts"] = [sum(row["warm_start_used"] for row in group) for group in there]
    summaries["seconds"] = [sum(row["seconds"] for row in group) for group in there]
    summaries["note"] = [
        "; ".join(sorted({row["note"] for row in group if row["note"]})) for group in there
    ]
    return summaries


def _is_unknown(row: Row | None) -> bool:
    """Return whether a model was fitted that has no certificate, because svmcvx does not know its
    problem.
    """
    return (
        row is not None and row["score"] is not None and row["gap"] is None and not row["batched"]
    )


def _number(row: Row | None, name: str) -> float:
    return math.nan if row is None or row[name] is None else float(row[name])
