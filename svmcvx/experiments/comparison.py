"""One table for many models on the same data, each with its certificate."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.model_selection import train_test_split

import svmcvx
from svmcvx.data import check_choice, check_number, check_time_limit, check_whole
from svmcvx.errors import DataError, DataTypeError, warn_deprecated
from svmcvx.experiments.fits import (
    COLUMNS,
    Fit,
    Row,
    check_metrics,
    columns_of,
    empty_row,
    fit_one,
    last_step,
    of_guarantee,
)
from svmcvx.experiments.preparation import (
    MISSING,
    SCALES,
    imputer,
    is_pairwise,
    observations,
    prepares_itself,
    rows_of,
    scaler,
)
from svmcvx.experiments.progress import progress_bar
from svmcvx.experiments.proofs import ProofFolder
from svmcvx.experiments.store import Store, fingerprint
from svmcvx.experiments.tables import CertifiedTable
from svmcvx.experiments.workers import DIED, Call, results, workers
from svmcvx.solution import Status
from svmcvx.system.deadline import current, epoch_end, time_limited
from svmcvx.system.interrupt import deferred_interrupt

__all__ = ["COLUMNS", "Comparison", "Models", "compare", "named_models"]

Models: TypeAlias = "Mapping[str, Any] | Sequence[Any]"

log = logging.getLogger(__name__)

# Rows of another number, in stores of earlier versions, mean something else.
ROWS = 3


@dataclass
class Comparison:
    """A comparison in progress: the split data, and what has been fitted so far."""

    models: Models
    X: Any
    y: Any
    split: float = 0.3
    seed: int = 0
    scale: str = "standard"
    missing: str = "error"
    metrics: str | Sequence[str] = ("accuracy",)
    tol: float = 1e-6
    store: str | os.PathLike[str] | None = None
    refit: bool = False
    proofs: str | os.PathLike[str] | None = None
    guarantee: bool = False
    backend: str | None = None
    n_jobs: int | None = None
    fitted: dict[str, Any] = field(default_factory=dict, init=False)
    reused: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.named = named_models(self.models)
        check_choice(self.scale, "scale", SCALES)
        check_choice(self.missing, "missing", MISSING)
        self.metrics = check_metrics(self.metrics)
        check_number(self.split, "split", low=0, high=1, open_high=True)
        check_number(self.tol, "tol", low=0, open_low=True)
        check_whole(self.seed, "seed", 0)
        if self.guarantee and self.split == 0:
            raise DataError(
                "guarantee=True is about a test part, and split=0 leaves none; change one of them"
            )
        self.data = observations(self.X, self.y, self.missing)
        numbers = self.data.numbers
        if isinstance(numbers, DataError) and not any(
            prepares_itself(model) for _, model in self.named
        ):
            raise numbers
        train, test = self.parts = self._split()
        labels = self.data.labels
        self.y_train, self.y_test = labels[train], labels[test]
        self.table_train, self.table_test = (
            rows_of(self.data.table, train),
            rows_of(self.data.table, test),
        )
        # As models see them that are no pipelines; the reason if they are not numbers.
        self.X_train: Any = numbers
        self.X_test: Any = numbers
        if not isinstance(numbers, DataError):
            self.X_train, self.X_test = numbers[train], numbers[test]
            self._prepare()
        self._rows: dict[int, Row] = {}
        self._store = None if self.store is None else Store(self.store)
        self._proofs = (
            None if self.proofs is None else ProofFolder(self.proofs, self.X_train, self.y_train)
        )

    def _split(self) -> tuple[Any, Any]:
        """Return the rows of the training and the test part."""
        rows = np.arange(self.data.codes.size)
        if not self.split > 0:
            return rows, rows[:0]
        codes, classes = self.data.codes, self.data.classes
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

    def _matrices(self) -> tuple[Any, Any, Any, Any]:
        """Return the data as kernel matrices, or the reason why they are none."""
        K, (train, test) = self.data.numbers, self.parts
        if not isinstance(K, DataError) and K.shape[0] != K.shape[1]:
            K = DataError(f"X must be the square kernel matrix of all rows, got shape {K.shape}")
        if isinstance(K, DataError):
            return K, self.y_train, K, self.y_test
        return K[train][:, train], self.y_train, K[test][:, train], self.y_test

    def _prepare(self) -> None:
        """Fill in missing values and scale the columns, both by the training part."""
        sparse = self.data.sparse
        for step in (
            imputer(self.missing) if self.data.holes else None,
            scaler(self.scale, sparse=sparse),
        ):
            if step is not None:
                self.X_train = step.fit_transform(self.X_train)
                if self.X_test.shape[0]:
                    self.X_test = step.transform(self.X_test)

    @property
    def rows(self) -> list[Row]:
        """Finished rows, in the order of the models."""
        return [self._rows[place] for place in sorted(self._rows)]

    def _key(self, name: str, model: Any) -> str:
        whole = prepares_itself(model)
        parts: tuple[Any, ...] = (
            self.data.table_digest if whole else self.data.digest,
            self.split,
            self.seed,
        )
        parts = (*parts, *(() if whole else (self.scale, self.missing)), self.tol, self.metrics)
        parts = (*parts, "guarantee") if self.guarantee else parts
        return fingerprint("compare", ROWS, svmcvx.__version__, name, clone(model), *parts)

    def run(self) -> Iterable[Row]:
        """Fit the models and yield a row for each as soon as it is done."""
        again = self.refit or self.proofs is not None
        keys = [] if self._store is None else [self._key(name, model) for name, model in self.named]
        known = {} if self._store is None or again else self._store.found(keys)
        found = {place: known[key] for place, key in enumerate(keys) if key in known}
        self.reused = len(found)
        for place, row in found.items():
            self._rows[place] = row
            yield row
        todo = [place for place in range(len(self.named)) if place not in found]
        with (
            workers(self.backend, self.n_jobs) as parallel,
            closing(self._fits(todo, parallel)) as fits,
        ):
            for place, fit in fits:
                name, row = self.named[place][0], fit.row
                if row["status"] == Status.INTERRUPTED:
                    raise KeyboardInterrupt
                if fit.fitted is not None:
                    self.fitted[name] = fit.fitted
                if self._proofs is not None and fit.solution is not None:
                    folder = self._proofs
                    if fit.seen is not None:
                        folder = ProofFolder(folder.of_model(name), fit.seen, self.y_train)
                    note = folder.write(name, fit.solution)
                    row["note"] = "; ".join(filter(None, (row["note"], note)))
                # Ctrl-C between the two statements would leave a row in the store that the table
                # lacks.
                with deferred_interrupt() as pressed:
                    # Rows that the time limit cut short are not stored for another run.
                    if self._store is not None and not fit.cut_short:
                        self._store.add(keys[place], row, "compare", again=again)
                    self._rows[place] = row
                log.info(
                    "%s: %s in %.2f s. %s", name, row["status"], row["seconds"], row["note"] or ""
                )
                if pressed.is_set():
                    raise KeyboardInterrupt
                yield row

    def _fits(self, todo: list[int], parallel: Any) -> Generator[tuple[int, Fit]]:
        # In this process the deadline holds as it is, which does not count compiling.
        end = math.inf if parallel is None else epoch_end(current())

        def data(model: Any) -> tuple[Any, ...]:
            if is_pairwise(model):
                return self._matrices()
            if prepares_itself(model):
                return self.table_train, self.y_train, self.table_test, self.y_test
            return self.X_train, self.y_train, self.X_test, self.y_test

        how = (self.tol, end, self.refit, self.proofs is not None, self.guarantee, self.metrics)
        work: dict[int, Call] = {
            place: (fit_one, (*self.named[place], *data(self.named[place][1]), *how))
            for place in todo
        }
        if parallel is None:
            for place, (function, arguments) in work.items():
                yield place, function(*arguments)
            return
        for place, fit in results(work, parallel):
            if fit is DIED:
                row = empty_row(self.named[place][0], self.named[place][1], self.metrics) | {
                    "status": "failed",
                    "note": "its process died, killed or out of memory",
                }
                fit = Fit(row, None, None, None, cut_short=False)
            yield place, fit

    def frame(self) -> CertifiedTable:
        """Return the rows so far."""
        columns = [
            name for name in columns_of(self.metrics) if self.guarantee or not of_guarantee(name)
        ]
        table = CertifiedTable(self.rows, columns=columns)
        # For plot.against_exponent.
        last = [(name, last_step(model)) for name, model in self.named]
        table.attrs["exponents"] = {name: model.p for name, model in last if _is_psvm(model)}
        return table


def _is_psvm(model: Any) -> bool:
    return isinstance(model, svmcvx.PSVMClassifier)


def named_models(models: Models) -> list[tuple[str, Any]]:
    """Return the models by distinct names."""
    if not isinstance(models, Iterable) or isinstance(models, (str, bytes)):
        raise DataTypeError(
            f"models must be a sequence or a mapping of estimators, got {models!r}; pass"
            " [PSVMClassifier()]"
        )
    try:
        pairs = list(models.items()) if isinstance(models, Mapping) else list(models)
    except TypeError:
        # A class that can be iterated over, or an estimator that has a length.
        raise DataTypeError(
            f"models must be a sequence or a mapping of estimators, got {models!r}"
        ) from None
    named: list[tuple[str, Any]] = []
    for entry in pairs:
        name, model = (
            entry if isinstance(entry, tuple) and len(entry) == 2 else (_label(entry), entry)
        )
        if isinstance(model, type) or not hasattr(model, "fit") or not hasattr(model, "get_params"):
            raise DataError(
                f"models must hold scikit-learn estimators, got {model!r}; pass instances such as"
                " PSVMClassifier(p=1.5)"
            )
        named.append((str(name), model))
    if not named:
        raise DataError("models is empty; pass at least one estimator")
    counts: dict[str, int] = {}
    unique = []
    for name, model in named:
        counts[name] = counts.get(name, 0) + 1
        unique.append((name if counts[name] == 1 else f"{name} #{counts[name]}", model))
    return unique


def _label(model: Any) -> str:
    return " ".join(repr(model).split())


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
    test_size: float | None = None,
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
        ``"loky"`` (processes, the default), ``"threading"``, ``"dask"`` (the client that is there),
        or the address of a Dask scheduler, as in ``"tcp://10.0.0.1:8786"`` (extra ``dask``).
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
    test_size : float, optional
        Deprecated: it is called `split`.

    Returns
    -------
    DataFrame
        A row a model: ``model``, ``solver``, ``status``, ``primal`` (objective at the model),
        ``dual_bound``, ``gap`` (relative), ``certified`` (None for a model whose problem is not
        known), ``train_accuracy``, ``test_accuracy``, a column ``test_<metric>`` for each of the
        other metrics, ``n_support``, ``seconds``, ``conventions`` (kernel, intercept, and whether
        losses are summed or averaged), ``note``. With `guarantee` also ``accuracy_lower`` and
        ``accuracy_upper`` (the interval of every optimal machine on the test part; of other metrics
        as ``<metric>_lower`` and ``<metric>_upper``) and ``undecided`` (share of the test rows
        whose label is not proved); they are empty for models of which there are none, as ``note``
        says. If a model consists of several binary machines, objectives and bounds are the sums
        over them, and the gap is the largest one. A model that failed has the reason in ``note``,
        and one that predicts a single class is named there. A notebook shows the table with whole
        numbers, certified rows marked; its method ``latex`` writes it for a document.

    Raises
    ------
    DataError
        If an argument cannot be used.
    SolverUnavailable
        If `progress` is True and rich is not installed.
    """
    if test_size is not None:
        warn_deprecated("compare(test_size=…)", "it is called split")
        split = test_size
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
