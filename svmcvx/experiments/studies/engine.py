"""Studies: models over data sets and repeated splits, in parallel, resumable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import svmcvx
from svmcvx.data import Features, check_time_limit
from svmcvx.datasets import Dataset, load
from svmcvx.errors import DataError, DataTypeError, SvmcvxError
from svmcvx.experiments.comparison import Models, named_models
from svmcvx.experiments.fits import conventions
from svmcvx.experiments.preparation import (
    Observations,
    imputer,
    is_pairwise,
    observations,
    prepares_itself,
    scaler,
)
from svmcvx.experiments.running import FAILED, Row, Running
from svmcvx.experiments.store import fingerprint
from svmcvx.experiments.studies.protocol import Protocol, Split, as_split, grids, piped
from svmcvx.experiments.studies.result import Study
from svmcvx.experiments.studies.tasks import Task
from svmcvx.experiments.workers import is_dask
from svmcvx.system.deadline import epoch_end, time_limited

__all__ = ["study"]


def study(
    models: Models,
    datasets: Any,
    *,
    repeats: int = 10,
    split: Any = 0.3,
    tune: Mapping[str, Any] | None = None,
    cv: Any = 5,
    scoring: Any = None,
    metrics: str | Sequence[str] = ("accuracy",),
    scale: str = "standard",
    scale_by: str = "training",
    missing: str = "error",
    tol: float = 1e-6,
    certify: str = "chosen",
    guarantee: bool | str = False,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    proofs: str | os.PathLike[str] | None = None,
    backend: str | None = None,
    n_jobs: int | None = None,
    retry_failed: bool = False,
    progress: bool = False,
    time_limit: float | None = None,
) -> Study:
    """Compare models over data sets and repeated splits, each model tuned inside its training part.

    A task is one model on one split of one data set. Its training part is prepared, cut into folds
    to choose the model's hyper-parameters (along warm-started paths, :func:`svmcvx.select`), and
    fitted with the best; the test part is used for the scores alone. A task that fails is a row
    with the reason; the other tasks continue.

    Parameters
    ----------
    models : mapping, or sequence of estimators or of (str, estimator)
        Estimators of this package, others of scikit-learn, or pipelines. The final fits of ``SVC``,
        ``NuSVC``, ``LinearSVC`` and ``LogisticRegression`` get the interval of
        :func:`svmcvx.certify`; other models have none. Pipelines, and searches over them, get the
        rows of a table as they are, with text, categories and missing values; `scale` and `missing`
        are for the other models.
    datasets : sequence or mapping
        Names for :func:`svmcvx.datasets.load`, data sets, or a mapping from names to data sets or
        pairs (X, y). A set that cannot be loaded or split is omitted, and the result has the
        reason.
    repeats : int
        Splits of each data set, or cross-validations if `split` has folds; 10 by default. Repeat r
        has the seed ``seed + r``.
    split : float, int, Split, or a mapping from data sets to these
        Share of the test part (0.3 by default), or number of folds; stratified unless a Split says
        otherwise. With a mapping, data sets that it does not name are split by its entry
        ``"default"``, else 0.3.
    tune : mapping, optional
        Values by parameter, for all models that have it, themselves or in the last step of a
        pipeline, as in ``{"C": [0.1, 1.0, 10.0]}``; or by model a grid as for
        :func:`svmcvx.select`. Models without a grid are fitted as they are.
    cv : int or splitter
        Folds in the training part, 5 by default; stratified and shuffled by the seed of the repeat.
    scoring : str or callable, optional
        What the tuning maximises; the estimator's own score (the accuracy) by default.
    metrics : str or sequence of str
        Names of scikit-learn's scores, the greater the better, for the test part. The first is the
        one of the tables.
    scale : "none", "standard" or "minmax"
        Scaling of the columns, standard by default.
    scale_by : "training" or "all"
        Whether scaling and medians come from the training part (the default) or, as in some papers,
        from all observations.
    missing : "error", "drop" or "median"
        Treatment of missing values: no fit of models that are no pipelines, drop the rows for all
        models, or fill in the column's median.
    tol : float
        Relative gap up to which a solve counts as certified.
    certify : "chosen" or "all"
        Which fits of the tuning have certificates: those of the chosen setting and its neighbours
        (the default), the others being solved in compiled batches where there are some, or all of
        them; see :func:`svmcvx.select`. Final fits always have one.
    guarantee : False, True or "tuning"
        Compute intervals of what *every optimal machine* scores on the test part
        (:func:`svmcvx.guarantee`), for ``"accuracy"``, ``"balanced_accuracy"`` and ``"roc_auc"``
        among the metrics. ``"tuning"`` does so for the fits of the tuning, too, and finds the
        hyper-parameters that may be the best. It may take ten times as long as the fits, so that it
        is off by default.
    seed : int
    data_dir : path-like, optional
        Folder of ``.npz`` data sets.
    store : path-like, optional
        A file for finished tasks (SQLite; made if it is not there), which comparisons and searches
        may share. Each is on the disk as soon as it is finished; a later call continues where this
        one stopped, also after a kill. Several processes of one computer may use it at the same
        time; a task that two of them run is stored once.
    proofs : path-like, optional
        Folder that gets, for each final fit, the training data and a proof that
        :func:`svmcvx.verify` checks. Finished tasks without one are run again.
    backend : str, optional
        ``"loky"`` (processes, the default), ``"threading"``, ``"dask"`` (the client that is there),
        or the address of a Dask scheduler, as in ``"tcp://10.0.0.1:8786"`` (extra ``dask``). With
        Dask the calling process alone writes the store.
    n_jobs : int, optional
        Tasks at a time; 1 by default, all workers with Dask.
    retry_failed : bool
        Do tasks again that are in the store as failed.
    progress : bool
        Show a bar with an estimate of the time left (extra ``cli``).
    time_limit : float, optional
        Seconds for everything. Tasks that are not done then are missing in the result.

    Returns
    -------
    Study
        The rows, and tables, tests and reports made of them.

    Raises
    ------
    DataError
        If an argument cannot be used, or no data set can be.
    SolverUnavailable
        If an extra is missing.

    Warns
    -----
    UserWarning
        After Ctrl-C or at the time limit: the result then has the finished tasks.

    Examples
    --------
    >>> import svmcvx as sx
    >>> models = {"hinge": sx.PSVMClassifier(), "squared": sx.PSVMClassifier(p=2.0)}
    >>> found = sx.study(models, ["iris:versicolor-virginica"], repeats=2, tune={"C": [0.1, 1.0]}, cv=3)
    >>> found.frame["certified"].all().item()
    True
    """
    protocol = Protocol(
        repeats=repeats,
        cv=cv,
        scoring=scoring,
        metrics=(metrics,) if isinstance(metrics, str) else tuple(metrics),
        scale=scale,
        scale_by=scale_by,
        missing=missing,
        tol=tol,
        guarantee=guarantee,
        seed=seed,
        certify=certify,
    )
    named = named_models(models)
    tuned = grids(named, tune)
    splits = _splits(split)
    limit = check_time_limit(time_limit)
    files = [None if path is None else Path(path) for path in (store, proofs)]
    tables = any(prepares_itself(model) for _, model in named)
    sets, left_out = _loaded(datasets, data_dir, protocol, splits, tables=tables)
    strange = sorted(set(splits) - {one.name for one in sets} - set(left_out) - {"default"})
    if strange:
        raise DataError(f"split names {', '.join(strange)}, which are not among the data sets")
    with time_limited(limit) as deadline:
        work = [
            # Workers on other machines have no such store.
            replace(
                task,
                store=None if is_dask(backend) else files[0],
                proofs=files[1],
                until=epoch_end(deadline),
            )
            for task in _tasks(named, sets, tuned, protocol)
        ]
        named_sets = {one.name: one for one in sets}
        run = Running(
            work,
            lambda task: (named_sets[task.dataset].seen_by(task), named_sets[task.dataset].y),
            files[0],
            "study",
            done=partial(_done, files[1], retry_failed),
            again=retry_failed or proofs is not None,
        )
        complete = run.do(backend, n_jobs, progress, deadline)
    # A row in the store may have been computed under other names.
    rows = [
        run.rows[task.key]
        | {"dataset": task.dataset, "model": task.model, "repeat": task.repeat, "fold": task.fold}
        for task in work
        if task.key in run.rows
    ]
    described = [
        {
            "dataset": one.name,
            "rows": one.data.shape[0],
            "features": one.data.shape[1],
            "classes": int(one.classes.size),
            "split": str(one.split),
            "content": one.data.digest,
        }
        for one in sets
    ]
    lines = {name: " ".join(repr(model).split()) for name, model in named}
    return Study(
        rows,
        protocol,
        lines,
        {name: repr(grid) for name, grid in tuned.items()},
        described,
        left_out,
        complete,
        reused=run.reused,
        conventions={name: conventions(model) for name, model in named},
    )


class _Prepared(NamedTuple):
    """A data set with its splits."""

    name: str
    table: Any
    numbers: Features | DataError
    y: NDArray[Any]
    classes: NDArray[Any]
    split: Split
    parts: list[tuple[int, int, NDArray[np.intp], NDArray[np.intp]]]
    data: Observations

    def seen_by(self, task: Task) -> Any:
        """Return the table for pipelines, and for other models its numbers, or why there are none."""
        if is_pairwise(task.estimator) and not isinstance(self.data.numbers, DataError):
            return self.data.numbers  # not scaled
        return self.table if task.takes_table else self.numbers


def _splits(split: Any) -> dict[str, Split]:
    if isinstance(split, Mapping) and not set(split) <= {"test_size", "folds", "stratify"}:
        return {"default": Split()} | {str(name): as_split(one) for name, one in split.items()}
    return {"default": as_split(split)}


def _loaded(
    datasets: Any, data_dir: Any, protocol: Protocol, splits: Mapping[str, Split], *, tables: bool
) -> tuple[list[_Prepared], dict[str, str]]:
    """Load and split all data sets; return those that can be used, and why the others cannot."""
    if isinstance(datasets, (str, Dataset)):
        datasets = [datasets]
    if not isinstance(datasets, (Mapping, Iterable)):
        raise DataTypeError(f"datasets must be a sequence of names or a mapping, got {datasets!r}")
    given: list[tuple[str, Any]] = [
        (str(name), one)
        for name, one in (
            datasets.items() if isinstance(datasets, Mapping) else ((None, d) for d in datasets)
        )
    ]
    found: dict[str, _Prepared] = {}
    left_out: dict[str, str] = {}
    for label, one in given:
        name = label
        if not isinstance(datasets, Mapping):
            name = (
                one.name
                if isinstance(one, Dataset)
                else Path(one).stem
                if Path(str(one)).exists()
                else str(one)
            )
        if name in found or name in left_out:
            raise DataError(
                f"datasets names {name!r} twice; pass a mapping with names of their own"
            )
        try:
            data = load(one, data_dir) if isinstance(one, (str, os.PathLike)) else one
            X, y = (data.X, data.y) if isinstance(data, Dataset) else data
            found[name] = _prepared(
                name, X, y, protocol, splits.get(name, splits["default"]), tables=tables
            )
        except (SvmcvxError, OSError) as error:
            left_out[name] = " ".join(str(error).split())
        except (TypeError, ValueError) as error:
            raise DataTypeError(
                f"datasets must hold names, data sets or pairs (X, y); {name} is none ({error})"
            ) from None
    if not found:
        raise DataError(
            "no data set can be used: "
            + ("; ".join(f"{k}: {v}" for k, v in left_out.items()) or "datasets is empty")
        )
    return list(found.values()), left_out


def _prepared(
    name: str, X: Any, y: Any, protocol: Protocol, split: Split, *, tables: bool
) -> _Prepared:
    """Split a data set, and prepare it as far as it is prepared as a whole; `tables` says whether
    pipelines are among the models.
    """
    data = observations(X, y, protocol.missing)
    numbers = data.numbers
    if isinstance(numbers, DataError):
        if not tables:
            raise numbers
    elif protocol.scale_by == "all":
        holes = data.holes
        for step in (
            imputer(protocol.missing) if holes else None,
            scaler(protocol.scale, sparse=data.sparse),
        ):
            numbers = numbers if step is None else step.fit_transform(numbers)
    labels = data.labels
    parts = [
        (repeat, fold, train, test)
        for repeat in range(protocol.repeats)
        for fold, (train, test) in enumerate(split.parts(labels, protocol.seed + repeat))
    ]
    return _Prepared(name, data.table, numbers, labels, data.classes, split, parts, data)


def _tasks(
    named: list[tuple[str, Any]],
    sets: list[_Prepared],
    tuned: Mapping[str, Any],
    protocol: Protocol,
) -> Iterator[Task]:
    """Yield all tasks, one repeat after the other: the first tasks are a fair sample for the
    estimate of the time.
    """
    models = dict(named)
    pipes = {
        (name, sparse): piped(model, protocol, sparse=sparse)
        for name, model in named
        for sparse in (False, True)
    }
    for repeat in range(protocol.repeats):
        for data in sets:
            for _, fold, train, test in (part for part in data.parts if part[0] == repeat):
                for name, _ in named:
                    estimator, prefix = pipes[name, data.data.sparse]
                    grid = _prefixed(tuned.get(name), prefix)
                    # The key does not contain the names of models and data sets, nor the number of
                    # repeats.
                    settings = replace(protocol, repeats=1, seed=protocol.seed + repeat)
                    takes_table = prepares_itself(models[name])
                    digest = data.data.table_digest if takes_table else data.data.digest
                    key = fingerprint(
                        "study", svmcvx.__version__, estimator, grid, settings, digest, train, test
                    )
                    yield Task(
                        data.name,
                        name,
                        repeat,
                        fold,
                        train,
                        test,
                        estimator,
                        grid,
                        protocol,
                        key,
                        None,
                        None,
                        np.inf,
                        takes_table,
                    )


def _prefixed(grid: Any, prefix: str) -> Any:
    if grid is None:
        return None
    if isinstance(grid, Mapping):
        return {f"{prefix}{name}": list(values) for name, values in grid.items()}
    return [_prefixed(part, prefix) for part in grid]


def _done(proofs: Path | None, retry_failed: bool, row: Row) -> bool:
    """Return whether a row of the store need not be computed again."""
    if row["status"] == FAILED:
        return not retry_failed
    wants = proofs is not None and row["upper"] is not None
    return not wants or bool(row["proof"] and proofs and (proofs / row["proof"]).is_dir())
