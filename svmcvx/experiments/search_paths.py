"""Settings of a grid ordered into paths, and one path fitted and scored on one fold."""

from __future__ import annotations

import math
import numbers
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils.metaestimators import _safe_split

from svmcvx.certificate import Certificate
from svmcvx.data import Features, check_features
from svmcvx.errors import DataError, SvmcvxError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.estimators.request import TrainingData
from svmcvx.experiments.fits import foreign_certificates
from svmcvx.experiments.intervals import exact_scores
from svmcvx.experiments.store import Store, fingerprint
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.model import KernelModel, OneVsModel
from svmcvx.model.packed import KernelMembers
from svmcvx.solution import Solution, Status
from svmcvx.system import clock
from svmcvx.system.deadline import until

__all__ = [
    "PATH_PARAMETERS",
    "Finished",
    "Path",
    "PathOnFold",
    "PathState",
    "Row",
    "final_prefix",
    "parameter_of",
    "paths_of",
    "with_settings",
]

Row: TypeAlias = dict[str, Any]
Settings: TypeAlias = Mapping[str, Any]

# Hyper-parameters that a path can follow; of several that vary, the one with most values, and the
# first of these in case of a tie.
PATH_PARAMETERS = ("C", "lam", "kappa", "C1", "C2", "lam1", "lam2", "p", "D", "eps")

# Errors that make a failed row; any other is a mistake in the call and is raised.
FAILURES = (SvmcvxError, ValueError, ArithmeticError, np.linalg.LinAlgError)


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


@dataclass(frozen=True)
class PathOnFold:
    """One path on one fold: a piece of work that a process does by itself."""

    estimator: Any
    path: Path
    fold: int
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    scorer: Callable[..., float] | None
    whole: bool = False
    store: FilePath | None = None
    keys: tuple[str, ...] = ()
    until: float = math.inf
    interval: str | None = None

    def keys_of(self, parts: tuple[Any, ...]) -> tuple[str, ...]:
        """Return a key for each setting, with what else its row depends on."""
        return tuple(
            fingerprint(with_settings(clone(self.estimator), settings), *parts)
            for settings in self.path.settings
        )

    def part(self, places: Sequence[int]) -> Self:
        """Return the work on some of the settings."""
        settings, positions = self.path.settings, self.path.positions
        path = Path(
            self.path.parameter,
            tuple(settings[k] for k in places),
            tuple(positions[k] for k in places),
        )
        return replace(self, path=path, keys=tuple(self.keys[k] for k in places))

    def rows(
        self, X: Any, y: Any, sample_weight: Any = None, cache: GramCache | None = None
    ) -> Iterator[tuple[int, Row]]:
        """Yield the place on the path and the row of each of the settings as soon as it is done."""
        state = PathState(self, X, y, sample_weight, GramCache() if cache is None else cache)
        with nullcontext() if self.store is None else Store(self.store) as store:
            for k, settings in enumerate(self.path.settings):
                with until(self.until) as deadline:
                    row = None if deadline.passed() else state.row(settings)
                    cut_short = (
                        row is None
                        or row["status"] == Status.TIME_LIMIT
                        or self.interval is not None
                    )
                    if row is None or (deadline.passed() and cut_short):
                        return
                if store is not None:
                    store.add(self.keys[k], row, "select")
                yield k, row


Work = TypeVar("Work", bound=PathOnFold)


class Finished:
    """The rows of a search that a store holds already."""

    def __init__(self, store: str | os.PathLike[str], data: str, scoring: Any) -> None:
        self.store, self.data, self.scoring = FilePath(store), data, scoring
        try:
            self.store.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DataError(f"store cannot be used: {error}") from None

    def rows(self, work: PathOnFold) -> dict[str, Row]:
        """Return the rows of a piece of work that are there, by key."""
        with Store(self.store) as store:
            return store.found(work.keys)

    def keyed(self, work: Work) -> Work:
        """Return the work with keys, and the store that it writes to."""
        # Rows without intervals are the same as before there were any.
        more = () if work.interval is None else (work.interval,)
        parts = (self.scoring, self.data, work.train, work.test, *more)
        return replace(work, keys=work.keys_of(parts), store=self.store)


class PathState:
    """State of a path between fits: split data, fitted transformers, the last solution."""

    def __init__(
        self, work: PathOnFold, X: Any, y: Any, sample_weight: Any, cache: GramCache
    ) -> None:
        self.work, self.cache = work, cache
        self.estimator = with_settings(clone(work.estimator), work.path.settings[0])
        self.X_train, self.y_train = _safe_split(self.estimator, X, y, work.train)
        self.X_test, self.y_test = _safe_split(self.estimator, X, y, work.test, work.train)
        self.weight = None if sample_weight is None else sample_weight[work.train]
        self.transformers: Pipeline | None = None
        self.transformed: tuple[Any, Any] | None = None
        self.training: TrainingData | None = None
        self.tested: Features | None = None
        self.solution: Solution | None = None

    def empty_row(self) -> Row:
        """Return a row of which nothing is known."""
        row: Row = dict.fromkeys(
            ("score", "lower", "upper", "gap", "kind", "solver", "status", "n_support")
        )
        if self.work.interval is not None:
            row |= dict.fromkeys(("exact_lower", "exact_upper", "undecided"))
        return row | {"warm_start_used": False, "batched": False, "note": ""}

    def row(self, settings: Settings) -> Row:
        """Fit and score."""
        row, started = self.empty_row(), clock.now()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the row has the gap
                last = self._fitted(settings)
        except FAILURES as error:
            return row | {"status": "failed", "note": str(error), "seconds": clock.now() - started}
        row |= self._optimum(last) | {"score": self._score(last)}
        if self.work.interval is not None:
            exact = self._exact(last, self.work.interval)
            row |= exact | {"note": "; ".join(filter(None, (row["note"], exact["note"])))}
        row["seconds"] = clock.now() - started
        return row

    def _fitted(self, settings: Settings) -> Any:
        """Return the final estimator, fitted to the transformed training part."""
        last = self._final(settings)
        X_train, _ = self._transform()
        if isinstance(last, CertifiedClassifier):
            if self.training is None:
                # The same data for the same estimator all along the path.
                self.training = last._training_data(X_train, self.y_train, self.weight)
            last._fit(self.training, self.solution, self.cache)
            self.solution = last.solution_
            if self.solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt
        elif self.weight is None:
            last.fit(X_train, self.y_train)
        else:
            last.fit(X_train, self.y_train, sample_weight=self.weight)
        return last

    def _final(self, settings: Settings) -> Any:
        """Return the final estimator with its settings; along a path only one of them changes."""
        name = self.work.path.parameter
        if name is None:
            with_settings(self.estimator, settings)
        last = (
            self.estimator.steps[-1][1] if isinstance(self.estimator, Pipeline) else self.estimator
        )
        if name is not None:
            # The name has been checked before the search; set_params would take as long as a short
            # fit.
            setattr(last, name.rpartition("__")[2], settings[name])
        return last

    def _transform(self) -> tuple[Any, Any]:
        """Return training and test part behind the transformers, which are fitted once: no setting
        on the path is theirs.
        """
        if self.transformed is None:
            self.transformed = self.X_train, self.X_test
            if isinstance(self.estimator, Pipeline) and len(self.estimator.steps) > 1:
                self.transformers = clone(self.estimator)[:-1]
                X_train = self.transformers.fit_transform(self.X_train, self.y_train)
                self.transformed = X_train, self.transformers.transform(self.X_test)
        return self.transformed

    def _score(self, last: Any) -> float:
        if self.work.scorer is not None and self.work.whole and self.transformers is not None:
            fitted = Pipeline([*self.transformers.steps, (self.estimator.steps[-1][0], last)])
            return self._scored(fitted, self.X_test)
        X_test = self._transform()[1]
        if self.work.scorer is None:
            if type(last).score is CertifiedClassifier.score:
                # The accuracy, with one evaluation of the kernel for all.
                return float(np.mean(self._predicted(last, X_test) == np.asarray(self.y_test)))
            return float(last.score(X_test, self.y_test))
        return self._scored(last, X_test)

    def _optimum(self, last: Any) -> Row:
        """Return the fields of the interval around the optimum of the training problem; the widest
        where there are several problems.
        """
        solution = getattr(last, "solution_", None)
        if isinstance(solution, Solution):
            own = {
                "solver": solution.solver,
                "status": str(solution.status),
                "n_support": int(solution.model.n_support),
                "warm_start_used": bool(solution.warm_start_used),
            }
            return own | _ends(last.certificate_)
        row: Row = {"solver": type(last).__name__, "status": ""}
        if hasattr(last, "n_support_"):
            row["n_support"] = int(np.sum(last.n_support_))
        found = foreign_certificates(
            last, self._transform()[0], np.asarray(self.y_train), self.weight
        )
        if isinstance(found, str):
            return row | {"note": found}
        return row | _ends(max(found.values(), key=lambda certificate: certificate.gap))

    def _exact(self, last: Any, name: str) -> Row:
        """Return intervals of the scores of every optimal machine on the fold."""
        X_train, X_test = self._transform()
        found = exact_scores(
            last, X_train, np.asarray(self.y_train), X_test, np.asarray(self.y_test), (name,)
        )
        interval = found.intervals.get(name)
        ends = (
            {}
            if interval is None
            else {"exact_lower": interval.lower, "exact_upper": interval.upper}
        )
        return ends | {"undecided": found.undecided, "note": found.note}

    def _scored(self, fitted: Any, X_test: Any) -> float:
        """Return the score of a fitted estimator."""
        assert self.work.scorer is not None  # noqa: S101 - asked before
        try:
            return float(self.work.scorer(fitted, X_test, self.y_test))
        except (TypeError, ValueError, AttributeError) as error:
            raise DataError(
                f"scoring failed on a fitted estimator: {type(error).__name__}: {error}"
            ) from error

    def _predicted(self, last: Any, X_test: Any) -> NDArray[Any]:
        """Return the predictions of the final estimator; the kernel is evaluated once a path if it
        fits into memory.
        """
        if isinstance(last, BinaryClassifier) and type(last).predict is BinaryClassifier.predict:
            model = last.model_
            several = model._together if isinstance(model, OneVsModel) else None
            members = model if isinstance(model, KernelModel) else several
            if (
                isinstance(members, (KernelModel, KernelMembers))
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
                if cross is not None and isinstance(members, KernelMembers):
                    scores = cross[:, members.support] @ members.table + members.intercepts
                    return np.asarray(last.classes_[last._decided(scores, last.multiclass)])
        return np.asarray(last.predict(X_test))


def _ends(certificate: Certificate) -> Row:
    return {
        "lower": certificate.lower,
        "upper": certificate.upper,
        "gap": certificate.gap,
        "kind": certificate.kind,
    }
