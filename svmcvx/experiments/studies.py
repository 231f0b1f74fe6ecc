"""Studies: models over data sets and repeated splits, in parallel, resumable."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from svmcvx.arguments import known_arguments
from svmcvx.catalogue import TOL
from svmcvx.data import Features, check_choice, check_time_limit
from svmcvx.datasets import Dataset
from svmcvx.errors import DataError, DataTypeError, SvmcvxError
from svmcvx.experiments import fit
from svmcvx.experiments.comparison import (
    Models,
    Protocol,
    Rows,
    Split,
    Task,
    conventions,
    grids,
    named_models,
    observed,
    task,
)
from svmcvx.experiments.results import Study
from svmcvx.experiments.store import FAILED, Row, collected, plain
from svmcvx.system.deadline import time_limited


def as_split(value: Any) -> Split:
    """Return a split, from a split, a test share or a number of folds."""
    if isinstance(value, Split):
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise DataTypeError(
            f"split must be a test share, a number of folds or a Split, got {value!r}"
        )
    return Split(folds=value) if isinstance(value, int) else Split(test_size=value)


@known_arguments
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
    tol: float = TOL,
    guarantee: bool = False,
    seed: int = 0,
    data_dir: str | os.PathLike[str] | None = None,
    store: str | os.PathLike[str] | None = None,
    proofs: str | os.PathLike[str] | None = None,
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
        As for :func:`svmcvx.compare`.
    datasets : sequence or mapping
        Names for :func:`svmcvx.datasets.load`, data sets, or a mapping from names to data sets or
        pairs (X, y). The result has the reason for a set that cannot be loaded or split.
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
    guarantee : bool
        Compute intervals of the scores of *every optimal machine* on the test part, as in
        :func:`svmcvx.compare`.
    seed : int
        Of the splits.
    data_dir : path-like, optional
        Folder of ``.npz`` data sets.
    store : path-like, optional
        As for :func:`svmcvx.select`; a task that two processes run is stored once.
    proofs : path-like, optional
        Folder that gets, for each final fit, the training data and a proof that
        :func:`svmcvx.verify` checks. Finished tasks without one are run again.
    n_jobs : int, optional
        Tasks at a time, in the backend of ``joblib.parallel_config``; 1 by default.
    retry_failed : bool
        Do tasks again that are in the store as failed.
    progress : bool
        Show a bar, or a line a minute where there is no terminal (extra ``cli``).
    time_limit : float, optional
        Seconds for everything. Tasks that are not done then, or at Ctrl-C, are missing in the
        result, with a warning.

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

    Examples
    --------
    >>> import svmcvx as sx
    >>> models = {"hinge": sx.PSVMClassifier(), "squared": sx.PSVMClassifier(p=2.0)}
    >>> grid = {"C": [0.1, 1.0]}
    >>> found = sx.study(models, ["iris:versicolor-virginica"], repeats=2, tune=grid, cv=3)
    >>> found.frame["certified"].all().item()
    True
    """
    given = locals() | {"metrics": fit.check_metrics(metrics)}
    protocol = Protocol(**{one.name: given[one.name] for one in fields(Protocol)})
    named = named_models(models)
    tuned, splits, limit = grids(named, tune), _splits(split), check_time_limit(time_limit)
    folder = None if proofs is None else Path(proofs)
    sets, left_out = _loaded(datasets, data_dir, protocol, splits, named)
    for name in splits:
        check_choice(name, "a data set of split", ("default", *sets, *left_out))
    how: Any = {"proofs": folder, "stored": store is not None}
    work = tasks = list(_tasks(named, sets, tuned, protocol, **how))
    if store is not None:
        # Each process shuffles the tasks of a repeat differently: several processes on one store
        # then seldom run the same task.
        order = np.random.default_rng(os.getpid()).permutation(len(work))
        tasks = sorted((work[k] for k in order), key=lambda task: task.names["repeat"])

    def usable(row: Row) -> bool:
        if row["status"] == FAILED:
            return not retry_failed
        if folder is None or row["upper"] is None:
            return True
        return bool(row["proof"]) and (folder / row["proof"]).is_dir()

    how = {"n_jobs": n_jobs, "usable": usable}
    how["again"] = retry_failed or folder is not None
    with time_limited(limit):
        found, reused, complete = collected(tasks, store, "tasks", progress, **how)
    return Study(
        # A stored row may have been computed under other names.
        [plain(found[task.keys[0]]) | task.names for task in work if task.keys[0] in found],
        protocol,
        {name: " ".join(repr(model).split()) for name, model in named},
        {name: repr(grid) for name, grid in tuned.items()},
        [one.described(name) for name, one in sets.items()],
        left_out,
        complete,
        reused,
        conventions(named, tuned),
    )


class _Prepared(NamedTuple):
    """A data set with its splits by repeat; `numbers` are scaled if they are as a whole."""

    data: fit.Observations
    numbers: Features | DataError
    split: Split
    parts: list[list[tuple[Rows, Rows]]]

    def described(self, name: str) -> dict[str, Any]:
        rows, features = self.data.table.shape
        size = {"rows": rows, "features": features, "classes": int(self.data.classes.size)}
        return {"dataset": name, **size, "split": str(self.split), "content": self.data.digest}


def _splits(split: Any) -> dict[str, Split]:
    if isinstance(split, Mapping):
        return {"default": Split()} | {str(name): as_split(one) for name, one in split.items()}
    return {"default": as_split(split)}


def _loaded(
    datasets: Any,
    data_dir: Any,
    protocol: Protocol,
    splits: Mapping[str, Split],
    models: Sequence[tuple[str, Any]],
) -> tuple[dict[str, _Prepared], dict[str, str]]:
    """Load and split all data sets; return those that can be used, and why the others cannot."""
    if isinstance(datasets, (str, Dataset)) or hasattr(datasets, "iloc"):
        datasets = [datasets]
    if not isinstance(datasets, (Mapping, Iterable)):
        raise DataTypeError(
            f"datasets must be a sequence of names or a mapping, got a {type(datasets).__name__}"
        )
    names = ((_name(one, place), one) for place, one in enumerate(datasets, 1))
    given = datasets.items() if isinstance(datasets, Mapping) else names
    found: dict[str, _Prepared] = {}
    left_out: dict[str, str] = {}
    for name, one in ((str(label), one) for label, one in given):
        if name in found or name in left_out:
            raise DataError(
                f"datasets names {name!r} twice; pass a mapping with names of their own"
            )
        try:
            data = observed(models, protocol.missing, *fit.parts_of(one, data_dir=data_dir))
            numbers, split = data.numbers, splits.get(name, splits["default"])
            if protocol.scale_by == "all" and not isinstance(numbers, DataError):
                for _, step in fit.preparation(protocol.scale, protocol.missing, data.table):
                    numbers = step.fit_transform(numbers)
            seeds = range(protocol.seed, protocol.seed + protocol.repeats)
            parts = [list(split.parts(data.labels, seed)) for seed in seeds]
            found[name] = _Prepared(data, numbers, split, parts)
        except (SvmcvxError, OSError) as error:
            if not isinstance(one, (str, os.PathLike, Dataset, tuple, list)):
                raise  # it is no data set at all
            left_out[name] = " ".join(str(error).split())
    if not found:
        reasons = "; ".join(f"{name}: {why}" for name, why in left_out.items())
        raise DataError(f"no data set can be used: {reasons or 'datasets is empty'}")
    return found, left_out


def _name(data: Any, place: int) -> str:
    if isinstance(data, Dataset):
        return data.name
    if not isinstance(data, (str, os.PathLike)):
        return f"data set {place}"
    return Path(data).stem if Path(data).exists() else str(data)


def _tasks(
    named: list[tuple[str, Any]],
    sets: Mapping[str, _Prepared],
    tuned: Mapping[str, Any],
    protocol: Protocol,
    **how: Any,
) -> Iterator[Task]:
    """Yield the tasks by repeat: the first ones are a fair sample for the estimate of the time."""
    for repeat in range(protocol.repeats):
        # A key does not contain the number of repeats.
        settings = replace(protocol, repeats=1, seed=protocol.seed + repeat)
        for dataset, one in sets.items():
            for fold, split in enumerate(one.parts[repeat]):
                place = f"{fit.file_stem(dataset)}/repeat-{repeat}-fold-{fold}"
                for name, model in named:
                    names = {"dataset": dataset, "model": name, "repeat": repeat, "fold": fold}
                    seen = (one.data, one.numbers, split, settings, place)
                    yield task(names, model, tuned.get(name), *seen, **how)
