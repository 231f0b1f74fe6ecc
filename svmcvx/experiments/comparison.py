"""One table for many models on the same data, each with its certificate."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline

import svmcvx
from svmcvx.data import check_choice, check_features, check_labels, check_number, check_time_limit, check_whole
from svmcvx.datasets.content import content_digest
from svmcvx.errors import DataError, DataTypeError, SvmcvxError
from svmcvx.experiments.preparation import SCALES, scaler
from svmcvx.experiments.progress import shown
from svmcvx.experiments.proofs import ProofFolder
from svmcvx.experiments.store import Store, fingerprint
from svmcvx.experiments.tables import CertifiedTable
from svmcvx.solution import Solution, Status
from svmcvx.system import clock
from svmcvx.system.deadline import allowed, current
from svmcvx.system.interrupt import deferred_interrupt

__all__ = ["COLUMNS", "Comparison", "Models", "compare", "named_models"]

Models: TypeAlias = "Mapping[str, Any] | Sequence[Any]"

log = logging.getLogger(__name__)

COLUMNS = (
    "model",
    "solver",
    "status",
    "primal",
    "dual_bound",
    "gap",
    "certified",
    "train_accuracy",
    "test_accuracy",
    "n_support",
    "seconds",
    "note",
)


@dataclass
class Comparison:
    """A comparison in progress: the split data, and what has been fitted so far.

    Parameters
    ----------
    models : mapping, or sequence of estimators or of (str, estimator)
    X, y : array-like
        Data; split into a training and a test part.
    test_size : float
        Share of the test part; 0 trains on everything and reports no test accuracy.
    seed : int
        Of the split, which is stratified.
    scale : "none", "standard" or "minmax"
        How columns are scaled, by the training part.
    tol : float
        Relative gap up to which an answer counts as certified.
    store : path-like, optional
        File for finished rows; those found there are not computed again.
    refit : bool
        Compute models again whose rows were found in the store (their fitted estimators are not stored).
    proofs : path-like, optional
        Folder for the training data and a proof of each solution; see :class:`~svmcvx.experiments.proofs.ProofFolder`.
    """

    models: Models
    X: Any
    y: Any
    test_size: float = 0.3
    seed: int = 0
    scale: str = "none"
    tol: float = 1e-6
    store: str | os.PathLike[str] | None = None
    refit: bool = False
    proofs: str | os.PathLike[str] | None = None
    rows: list[dict[str, Any]] = field(default_factory=list, init=False)
    fitted: dict[str, Any] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.named = named_models(self.models)
        check_choice(self.scale, "scale", SCALES)
        check_number(self.test_size, "test_size", low=0, high=1, open_high=True)
        check_number(self.tol, "tol", low=0, open_low=True)
        check_whole(self.seed, "seed", 0)
        X = check_features(self.X)
        codes, classes = check_labels(self.y, X.shape[0])
        labels = classes[codes]
        parts: list[Any] = [X, np.zeros((0, X.shape[1])), labels, labels[:0]]
        if self.test_size > 0:
            try:
                parts = train_test_split(X, labels, test_size=self.test_size, random_state=self.seed, stratify=labels)
            except ValueError as error:
                raise DataError(
                    f"test_size={self.test_size} leaves a class without observations ({error}); change it"
                ) from None
        self.X_train, self.X_test, self.y_train, self.y_test = parts
        self._scale(sparse=bool(sp.issparse(X)))
        self._data_digest = content_digest(X, codes)
        self._store = None if self.store is None else Store(self.store)
        self._proofs = None if self.proofs is None else ProofFolder(self.proofs, self.X_train, self.y_train)

    def _scale(self, *, sparse: bool) -> None:
        columns = scaler(self.scale, sparse=sparse)
        if columns is None:
            return
        self.X_train = columns.fit_transform(self.X_train)
        if self.X_test.shape[0]:
            self.X_test = columns.transform(self.X_test)

    def _key(self, name: str, model: Any) -> str:
        parts = (self._data_digest, self.test_size, self.seed, self.scale, self.tol)
        return fingerprint("compare", svmcvx.__version__, name, clone(model), *parts)

    def run(self) -> Iterable[dict[str, Any]]:
        """Fit the models one by one and yield a row for each as soon as it is done."""
        for name, model in self.named:
            key = None if self._store is None else self._key(name, model)
            again = self.refit or self._proofs is not None
            known = None if self._store is None or key is None or again else self._store.found((key,)).get(key)
            deadline = current()
            late = known is None and deadline.passed()
            row = known or (self._left_out(name) if late else self._row(name, model))
            # What the time limit has cut short is not kept for another run.
            kept = known is None and not (deadline.passed() and row["status"] == Status.TIME_LIMIT)
            # Ctrl-C between the two statements would leave a row in the store that the table lacks.
            with deferred_interrupt() as pressed:
                if self._store is not None and key is not None and kept:
                    self._store.add(key, row, "compare", again=again)
                self.rows.append(row)
            log.info("%s: %s in %.2f s. %s", name, row["status"], row["seconds"], row["note"] or "")
            if pressed.is_set():
                raise KeyboardInterrupt
            yield row

    def _left_out(self, name: str) -> dict[str, Any]:
        """Return the row of a model for which no time was left."""
        row = dict.fromkeys(COLUMNS)
        return row | {
            "model": name,
            "status": str(Status.TIME_LIMIT),
            "certified": False,
            "seconds": 0.0,
            "note": "the time limit left no time for this model",
        }

    def _row(self, name: str, model: Any) -> dict[str, Any]:
        row: dict[str, Any] = dict.fromkeys(COLUMNS)
        row["model"] = name
        started = clock.now()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the gap stands in the row
                fitted = clone(model).fit(self.X_train, self.y_train)
        except SvmcvxError as error:
            row |= {
                "status": "failed",
                "certified": False,
                "seconds": clock.now() - started,
                "note": str(error),
            }
            return row
        row["seconds"] = clock.now() - started
        self.fitted[name] = fitted
        row["train_accuracy"] = float(fitted.score(self.X_train, self.y_train))
        if self.X_test.shape[0]:
            row["test_accuracy"] = float(fitted.score(self.X_test, self.y_test))
        last = fitted[-1] if isinstance(fitted, Pipeline) else fitted
        solution = getattr(last, "solution_", None)
        if isinstance(solution, Solution):
            row |= self._certified(solution)
            if self._proofs is not None and (note := self._proofs.write(name, solution)):
                row["note"] = "; ".join(filter(None, (row["note"], note)))
        else:
            row |= {"solver": type(last).__name__, "status": "", "certified": False, "note": "no certificate"}
            row["n_support"] = int(np.sum(last.n_support_)) if hasattr(last, "n_support_") else None
        return row

    def _certified(self, solution: Solution) -> dict[str, Any]:
        certificate = solution.certificate
        tried = (attempt for attempt in solution.attempts if attempt.status is not Status.LICENCE)
        notes = list(dict.fromkeys(f"{attempt.solver}: {attempt.reason}" for attempt in tried if attempt.reason))
        clipped = certificate.residuals.get("clipped_mass")
        if clipped is not None:
            notes.append(f"indefinite kernel clipped, mass {clipped:.2g}")
        return {
            "solver": solution.solver,
            "status": str(solution.status),
            "primal": certificate.upper,
            "dual_bound": certificate.lower,
            "gap": certificate.gap,
            "certified": certificate.is_certified(self.tol),
            "n_support": solution.model.n_support,
            "note": "; ".join(notes),
        }

    def frame(self) -> pd.DataFrame:
        """Return the rows so far."""
        table = CertifiedTable(self.rows, columns=list(COLUMNS))
        # For plot.against_exponent.
        table.attrs["exponents"] = {name: model.p for name, model in map(_last, self.named) if _is_psvm(model)}
        return table


def _last(entry: tuple[str, Any]) -> tuple[str, Any]:
    """Return a name with the last step of its pipeline."""
    name, model = entry
    return name, model[-1] if isinstance(model, Pipeline) else model


def _is_psvm(model: Any) -> bool:
    return isinstance(model, svmcvx.PSVMClassifier)


def named_models(models: Models) -> list[tuple[str, Any]]:
    """Return models under names of their own, which do not repeat."""
    if not isinstance(models, Iterable) or isinstance(models, (str, bytes)):
        raise DataTypeError(
            f"models must be a sequence or a mapping of estimators, got {models!r}; pass [PSVMClassifier()]"
        )
    try:
        pairs = list(models.items()) if isinstance(models, Mapping) else list(models)
    except TypeError:
        # A class that can be iterated over, or an estimator that has a length.
        raise DataTypeError(f"models must be a sequence or a mapping of estimators, got {models!r}") from None
    named: list[tuple[str, Any]] = []
    for entry in pairs:
        name, model = entry if isinstance(entry, tuple) and len(entry) == 2 else (_label(entry), entry)
        if isinstance(model, type) or not hasattr(model, "fit") or not hasattr(model, "get_params"):
            raise DataError(
                f"models must hold scikit-learn estimators, got {model!r}; pass instances such as PSVMClassifier(p=1.5)"
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
    test_size: float = 0.3,
    seed: int = 0,
    scale: str = "none",
    tol: float = 1e-6,
    store: str | os.PathLike[str] | None = None,
    proofs: str | os.PathLike[str] | None = None,
    callback: Callable[[dict[str, Any]], None] | None = None,
    progress: bool = False,
    time_limit: float | None = None,
) -> pd.DataFrame:
    """Fit several models to the same data and tabulate their certificates and accuracies.

    Parameters
    ----------
    models : mapping, or sequence of estimators or of (str, estimator)
        Estimators of this package, others of scikit-learn (which have no certificate), or pipelines.
    X : array-like or sparse matrix of shape (n, d)
    y : array-like of shape (n,)
    test_size : float
        Share held out, 0.3 by default; 0 trains on everything.
    seed : int
        Of the stratified split.
    scale : "none", "standard" or "minmax"
        Scaling of the columns by the training part; none by default.
    tol : float
        Relative gap up to which an answer counts as certified.
    store : path-like, optional
        A file that keeps finished rows (SQLite; made if it is not there), so that a run that was interrupted goes on where it
        stopped. Searches and studies may share it.
    proofs : path-like, optional
        Folder that gets the training data (``training.npz``) and a proof of each solution, which :func:`svmcvx.verify` checks;
        rows found in the store are computed again for it.
    callback : callable, optional
        Called with each row as soon as it is done.
    progress : bool
        Show a bar (extra ``cli``).
    time_limit : float, optional
        Seconds for everything. The model that is being fitted then ends with its best point so far, those after it have the
        status ``"time_limit"`` and no model. A limit of each fit is the model's own ``time_limit``.

    Returns
    -------
    DataFrame
        A row a model: ``model``, ``solver``, ``status``, ``primal`` (objective at the model), ``dual_bound``, ``gap``
        (relative), ``certified``, ``train_accuracy``, ``test_accuracy``, ``n_support``, ``seconds``, ``note``. A model that
        failed has the reason in ``note``. A notebook shows it with whole numbers, certified rows marked.

    Raises
    ------
    DataError
        If an argument cannot be used.
    SolverUnavailable
        If `progress` is asked for and rich is not installed.
    """
    comparison = Comparison(
        models, X, y, test_size=test_size, seed=seed, scale=scale, tol=tol, store=store, proofs=proofs
    )
    with (
        allowed(check_time_limit(time_limit)),
        shown(progress, "models", len(comparison.named)) as advance,
    ):
        for row in comparison.run():
            advance()
            if callback is not None:
                callback(row)
    return comparison.frame()
