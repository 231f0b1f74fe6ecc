"""Fit, certify and score a model on a training and a test part: a row of a table.

:func:`fit_row` makes the rows of :func:`svmcvx.compare`, :func:`svmcvx.select` and
:func:`svmcvx.study`, which are schedules of it.
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC
from sklearn.utils import _safe_indexing, get_tags

from svmcvx.catalogue import CATALOGUE
from svmcvx.certificate import Certificate
from svmcvx.data import Features, as_array, check_choice, check_features, check_labels
from svmcvx.datasets import Dataset, load
from svmcvx.datasets.files import write_npz
from svmcvx.datasets.registry import content_digest, missing_counts
from svmcvx.display import listed
from svmcvx.errors import DataError, DataTypeError, SvmcvxError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.certification import CERTIFIABLE, certify
from svmcvx.experiments.store import FAILED, Row, failed, fingerprint
from svmcvx.guarantees import CertifiedScores, Guarantee, Interval
from svmcvx.solution import Solution, Status
from svmcvx.system import clock
from svmcvx.system.deadline import Deadline, OutOfTime, interruptible

# The status of a model of another package.
FOREIGN: Final = "fitted"
# How a note begins on a model whose predictions name one class.
ONE_CLASS: Final = "predicts one class only"
# The scores of scikit-learn of which there are intervals, by the methods of a guarantee.
INTERVALS: Final[Mapping[str, str]] = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "roc_auc": "auc",
}
ENDS: Final = ("lower", "upper")
# Tolerance of a second solve, where the gap of the first leaves test rows undecided.
SMALLEST: Final = 1e-12
# Intercept and losses of models of scikit-learn.
OF_OTHERS: Final[Mapping[type, str]] = {
    SVC: "free intercept, losses summed",
    NuSVC: "free intercept, ν in place of C",
    LinearSVC: "penalised intercept, losses summed",
    LogisticRegression: "free intercept, losses summed",
}


# The data


def preparation(scale: str, missing: str, X: Any) -> list[tuple[str, Any]]:
    """Return the steps of a pipeline that fill in missing values and scale columns of X."""
    steps: list[tuple[str, Any]] = []
    sparse = sp.issparse(X)
    if missing == "median":
        steps.append(("impute", SimpleImputer(strategy="median", keep_empty_features=True)))
    if scale == "standard":
        steps.append(("scale", StandardScaler(with_mean=not sparse)))
    elif scale == "minmax":
        steps.append(("scale", MaxAbsScaler() if sparse else MinMaxScaler()))
    return steps


def prepares_itself(model: Any) -> bool:
    """Whether a model takes the table as it is: a pipeline, or an estimator around one."""
    inner = getattr(model, "estimator", None)
    return isinstance(model, Pipeline) or (inner is not None and prepares_itself(inner))


def is_pairwise(model: Any) -> bool:
    """Whether the columns of a model's data are observations, as those of a kernel matrix are."""
    return hasattr(model, "__sklearn_tags__") and bool(get_tags(model).input_tags.pairwise)


@dataclass(frozen=True, eq=False)
class Observations:
    """Data for pipelines, which take the table, and for other models, which take numbers."""

    table: Any
    numbers: Features | DataError
    codes: NDArray[np.intp]
    classes: NDArray[Any]

    @property
    def labels(self) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes[self.codes]
        return labels

    @cached_property
    def digest(self) -> str:
        """A name of the content: that of the numbers, or of the table if it is not numeric."""
        if isinstance(self.numbers, DataError):
            return self.table_digest
        return content_digest(self.numbers, self.labels)

    @cached_property
    def table_digest(self) -> str:
        """A name of the content of the table, names and types of its columns included."""
        return fingerprint(self.table, self.labels)

    def digest_for(self, model: Any) -> str:
        return self.table_digest if prepares_itself(model) else self.digest

    def seen_by(self, model: Any, prepared: Features | DataError) -> Any:
        """Return the table for pipelines, else the prepared numbers; a kernel matrix as it is."""
        if prepares_itself(model):
            return self.table
        return self.numbers if is_pairwise(model) else prepared


def parts_of(data: Any, y: Any = None, data_dir: Any = None) -> tuple[Any, ...]:
    """Return features, labels and perhaps names of columns of a data set, its name, or a pair; `y`
    may be the labels, or the column of a file or data frame that holds them.
    """
    if y is None and isinstance(data, (tuple, list)) and len(data) == 2:
        data, y = data
    if isinstance(y, str) or (y is None and isinstance(data, (str, os.PathLike))):
        data, y = load(data, data_dir, target=y), None
    if y is not None:
        return data, y
    if isinstance(data, Dataset):
        return data.X, data.y, data.feature_names
    raise DataTypeError(
        "data must be the name of a data set, a Dataset, or features and labels (X, y), got a"
        f" {type(data).__name__}; for a data frame or a file name the column of the labels, as y"
    )


def observations(missing: str, X: Any, y: Any, names: Sequence[str] = ()) -> Observations:
    """Return data of which some models may be unable to use the table, others the numbers."""
    if sp.issparse(X):
        table, labels = sp.csr_array(X), as_array(y, "y")
        holes = missing_counts(table)[0]
        if missing == "drop" and holes.any():
            complete = np.flatnonzero(holes == 0)
            table, labels = table[complete], labels[complete]
        if missing == "median" and holes.any():
            filled = np.where(np.isnan(table.data), 0.0, table.data)
            check_features(sp.csr_array((filled, table.indices, table.indptr), table.shape))
        else:
            table = check_features(table)
        return Observations(table, table, *check_labels(labels, table.shape[0]))
    values = as_array(X, "X")
    if values.ndim != 2 or 0 in values.shape:
        check_features(X)  # which raises with the reason
    absent = np.asarray(pd.isna(values))
    table = X if hasattr(X, "columns") else values
    codes, classes = check_labels(y, values.shape[0])
    if absent.any() and missing == "drop":
        complete = np.flatnonzero(~absent.any(axis=1))
        if not complete.size:
            raise DataError("every row has a missing value; pass missing='median', or drop columns")
        table, values = _safe_indexing(table, complete), values[complete]
        absent = absent[complete]
        codes, classes = check_labels(classes[codes[complete]], complete.size)
    return Observations(table, _numbers(table, values, absent, missing, names), codes, classes)


def _numbers(
    table: Any, values: NDArray[Any], absent: NDArray[np.bool_], missing: str, names: Sequence[str]
) -> Features | DataError:
    """Return the table as numbers, or the reason why it cannot be."""
    try:
        if not absent.any():
            return check_features(table)
        filled = values.copy() if values.dtype.kind == "f" else values.astype(object)
        filled[absent] = 0.0
        numbers = check_features(pd.DataFrame(filled, columns=getattr(table, "columns", None)))
    except DataError as error:
        return error
    if missing == "median":
        return np.where(absent, np.nan, numbers)
    columns = np.asarray(getattr(table, "columns", names or range(values.shape[1])))
    where = columns[absent.any(axis=0)]
    return DataError(
        f"{int(absent.sum())} values are missing, in column{'s' if where.size > 1 else ''}"
        f" {listed(where)}; pass missing='drop' or missing='median', or a pipeline with an imputer"
    )


class Part(NamedTuple):
    """A training and a test part; errors in place of features that cannot be used."""

    X: Any
    y: NDArray[Any]
    X_test: Any
    y_test: NDArray[Any]
    weight: NDArray[np.float64] | None = None


def part_of(
    model: Any, X: Any, y: NDArray[Any], train: NDArray[np.intp], test: NDArray[np.intp]
) -> Part:
    """Return the rows of a split as a model takes them: of a kernel matrix also the columns."""
    if is_pairwise(model) and not isinstance(X, DataError):
        if X.shape[0] == X.shape[1]:
            return Part(X[train][:, train], y[train], X[test][:, train], y[test])
        X = DataError(f"X must be the square kernel matrix of all rows, got shape {X.shape}")
    if isinstance(X, DataError):
        return Part(X, y[train], X, y[test])
    return Part(_safe_indexing(X, train), y[train], _safe_indexing(X, test), y[test])


# The model


def check_metrics(metrics: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of scores, each of which scikit-learn has."""
    try:
        names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
        for name in names:
            get_scorer(name)
    except (ValueError, TypeError):
        raise DataTypeError(
            "metrics must hold names of scores of scikit-learn, such as 'accuracy', got"
            f" {metrics!r}"
        ) from None
    if not names:
        raise DataError("metrics is empty; pass for example ('accuracy', 'balanced_accuracy')")
    return names


def ends_of(metrics: Sequence[str]) -> list[str]:
    """Return the columns of the ends of the intervals of those metrics that have some."""
    return [f"{name}_{end}" for name in metrics if name in INTERVALS for end in ENDS]


def check_interval(scoring: Any) -> str:
    """Return the name of a score of which there are intervals; None is the accuracy."""
    return check_choice(scoring or "accuracy", "scoring with guarantee", tuple(INTERVALS))


def last_step(fitted: Any) -> Any:
    return fitted[-1] if isinstance(fitted, Pipeline) else fitted


def as_seen(fitted: Any, X: Any) -> Any:
    """Return rows as the last step of a fitted pipeline sees them; unchanged without a pipeline."""
    return fitted[:-1].transform(X) if isinstance(fitted, Pipeline) and len(fitted.steps) > 1 else X


def conventions(model: Any) -> str:
    """Return the kernel of a model, its intercept, and whether losses are summed, in words."""
    last = last_step(getattr(model, "estimator", model))
    name = type(last).__name__
    own = [e for e in CATALOGUE.values() if e.estimator is not None and e.estimator.name == name]
    text = next((text for cls, text in OF_OTHERS.items() if isinstance(last, cls)), "")
    if own:
        asked = getattr(last, "intercept", True)
        free = "free" if own[0].intercept.startswith("free") else "penalised"
        kept = asked if isinstance(asked, str) else free if asked else "none"
        losses = "averaged" if own[0].losses.startswith("(1/n)") else "summed"
        text = f"{'no' if kept == 'none' else kept} intercept, losses {losses}"
    elif not text:
        return ""
    elif not getattr(last, "fit_intercept", True):
        text = f"no {text.partition(' ')[2]}"
    kernel = getattr(last, "kernel", None)
    kind = kernel if isinstance(kernel, str) else getattr(kernel, "__name__", type(kernel).__name__)
    linear = kernel is None or kind.lower() == "linear"
    return f"{'linear' if linear else f'{kind} kernel'}, {text}"


# The row


def fit_row(
    fit: Callable[[], Any],
    part: Part,
    *,
    tol: float,
    metrics: Sequence[str] = (),
    score: Callable[[Any], float] | None = None,
    intervals: Sequence[str] = (),
    details: bool = False,
) -> tuple[Row, Any]:
    """Fit, certify and score a model; return its row, and the fitted estimator, None if it failed.

    `metrics` are scores on the test part, `score` is another one, of the fitted estimator, and
    `intervals` are scores with an interval over every optimal machine.
    """
    row: Row = dict.fromkeys(("solver", "lower", "upper", "gap", "n_support", *metrics))
    row |= {"certified": False, "note": ""}
    started = clock.now()
    try:
        if isinstance(part.X, Exception):
            raise part.X
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the row has the gap, and a note
            warnings.filterwarnings("ignore", message=f".* {ONE_CLASS}")
            fitted = fit()
    except OutOfTime:
        row |= {"status": str(Status.TIME_LIMIT), "note": "the time limit left no time"}
        return row | {"seconds": clock.now() - started}, None
    except Exception as error:  # an exception of one model does not stop the others
        return row | failed(error) | {"seconds": clock.now() - started}, None
    row["seconds"] = clock.now() - started
    last, seen = last_step(fitted), as_seen(fitted, part.X)
    row |= certified(last, seen, part.y, tol, part.weight, details=details)
    if row["status"] == Status.INTERRUPTED:
        raise KeyboardInterrupt
    notes = [row["note"]]
    scores: dict[str, Callable[[], float]] = {}
    if metrics:
        predicted = np.asarray(fitted.predict(part.X_test))
        notes.append(one_class_note(predicted, part.y_test))
        for name in metrics:
            scores[name] = partial(get_scorer(name), fitted, part.X_test, part.y_test)
        if "accuracy" in metrics:
            scores["accuracy"] = lambda: np.mean(predicted == part.y_test)
    if score is not None:
        scores["score"] = partial(score, fitted)
    for name, compute in scores.items():
        try:
            row[name] = float(compute())
        except Exception as error:  # such as a score of probabilities, which not all models have
            row[name] = None
            notes.append(f"no {name}: {' '.join(str(error).split())}")
    if intervals:
        test = as_seen(fitted, part.X_test)
        found, note = exact_scores(last, part._replace(X=seen, X_test=test), intervals)
        row |= found
        notes.append(note)
    row["note"] = "; ".join(filter(None, notes))
    return row, fitted


def cut_short(row: Row, deadline: Deadline) -> bool:
    """Whether a time limit may have made a row worse, so that it is not stored."""
    limited = row["status"] in (Status.TIME_LIMIT, FAILED) or "undecided" in row
    return limited and deadline.passed()


def one_class_note(predicted: NDArray[Any], y: NDArray[Any]) -> str:
    """Return a note if the predictions for rows of several classes name one class only."""
    found = np.unique(predicted)
    return f"{ONE_CLASS}, {found[0]}" if found.size == 1 and np.unique(y).size > 1 else ""


def certified(
    last: Any, X: Any, y: NDArray[Any], tol: float, weight: Any = None, *, details: bool = False
) -> Row:
    """Return the fields of the checked interval: of the sum of several binary problems."""
    solution = getattr(last, "solution_", None)
    if isinstance(solution, Solution):
        certificate = solution.certificate
        row: Row = {
            "solver": solution.solver,
            "status": str(solution.status),
            "n_support": int(solution.model.n_support),
        }
        listing = certificates(solution, tol) if details else []
        notes = _reasons(solution) if details else []
    else:
        support = int(np.sum(last.n_support_)) if hasattr(last, "n_support_") else None
        row = {"solver": type(last).__name__, "status": FOREIGN, "n_support": support}
        found = foreign_certificate(last, X, y, weight)
        if isinstance(found, str):
            return row | {"certified": None, "note": found}
        certificate, each = found, found.parts or {tuple(np.unique(y).tolist()): found}
        alone = row | {"n_support": support if len(each) == 1 else None}
        listing = [
            certificate_row(one, tol, classes=_classes(key), kind=one.kind, **alone)
            for key, one in each.items()
        ]
        notes = []
    row |= certificate_row(certificate, tol)
    if details:
        row["certificates"] = listing
        if len(listing) > 1:
            notes.append(f"interval of the sum of {len(listing)} binary problems")
    return row | {"note": "; ".join(notes)}


def certificate_row(certificate: Certificate, tol: float, **facts: Any) -> Row:
    """Return the interval of one binary machine, and other facts, as plain values."""
    ends = {"lower": certificate.lower, "upper": certificate.upper, "gap": certificate.gap}
    return {**facts, **ends, "certified": certificate.is_certified(tol)}


def _classes(key: Any) -> list[Any]:
    return list(key) if isinstance(key, tuple) else [key]


def foreign_certificate(
    last: Any, X: Any, y: NDArray[Any], sample_weight: Any = None
) -> Certificate | str:
    """Return the certificate of a model of scikit-learn, or why there is none."""
    if not isinstance(last, CERTIFIABLE):
        named = "; name one in certify(model, X, y, problem=…)" if hasattr(last, "coef_") else ""
        return f"no certificate: {type(last).__name__} answers no problem that svmcvx knows{named}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row has the gap
            return certify(last, X, y, sample_weight)
    except OutOfTime:
        return "no certificate: the time limit left no time for it"
    except SvmcvxError as error:
        return f"no certificate: {error}"


def certificates(solution: Solution, tol: float) -> list[Row]:
    """Return the certificates of a solution as plain values: one for each binary machine."""
    parts = solution.parts or {tuple(solution.model.classes.tolist()): solution}
    return [
        certificate_row(
            one.certificate,
            tol,
            classes=_classes(key),
            kind=one.certificate.kind,
            status=str(one.status),
            solver=one.solver,
            n_support=one.model.n_support,
        )
        for key, one in parts.items()
    ]


def _reasons(solution: Solution) -> list[str]:
    """Return why attempts were not enough, and how much of an indefinite kernel was clipped."""
    notes = dict.fromkeys(
        f"{attempt.solver}: {attempt.reason}"
        for attempt in solution.attempts
        if attempt.reason and not attempt.status.passed_over
    )
    clipped = solution.certificate.residuals.get("clipped_mass")
    return [*notes, *([f"indefinite kernel clipped, mass {clipped:.2g}"] if clipped else [])]


@dataclass(frozen=True, eq=False, repr=False)
class _Scored(Guarantee):
    """A guarantee with the scores of some rows, so that several scores cost one evaluation."""

    classes: NDArray[Any]
    found: CertifiedScores
    radius: float = np.nan

    def scores(self, T: Any) -> CertifiedScores:
        return self.found


def exact_scores(last: Any, part: Part, scores: Sequence[str]) -> tuple[Row, str]:
    """Return cells of intervals and of undecided test rows, and a note on unknown intervals."""
    cells: Row = {"undecided": None}
    if not isinstance(last, CertifiedClassifier):
        return cells, ""
    try:
        rows = check_features(part.X_test)
        with interruptible():
            found = last.guarantee(part.X, part.y).scores(rows)
        if found.by_gap.any():
            # A smaller gap may decide more labels.
            closer = clone(last).set_params(solver="fast", tol=SMALLEST)
            with warnings.catch_warnings(), suppress(OutOfTime, SvmcvxError):
                warnings.simplefilter("ignore")
                closer.fit(part.X, part.y, sample_weight=part.weight)
                with interruptible():
                    found = min(
                        found,
                        closer.guarantee(part.X, part.y).scores(rows),
                        key=lambda scores: scores.undecided.sum(),
                    )
    except OutOfTime:
        return cells, "no guarantee: the time limit left no time for it"
    except SvmcvxError as error:
        return cells, f"no guarantee: {error}"
    scored, notes = _Scored(found.classes, found), []
    for name in scores:
        if name in INTERVALS:
            try:
                one: Interval = getattr(scored, INTERVALS[name])(rows, part.y_test)
                cells |= {f"{name}_lower": one.lower, f"{name}_upper": one.upper}
            except SvmcvxError as error:
                notes.append(f"no interval of {name}: {error}")
    return cells | {"undecided": float(found.undecided.mean())}, "; ".join(notes)


def check_folder(folder: str | os.PathLike[str]) -> Path:
    """Return a folder for proofs, made if it is not there."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"proofs cannot be used as a folder: {error}") from None
    return Path(folder)


def file_stem(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9=.,_-]+", "_", name).strip("_.")[:100] or "_"


def save_proof(folder: Path, name: str, fitted: Any, part: Part) -> str:
    """Write data and proofs of a model, one per pair of classes; return a note on absent proofs."""
    solution: Solution = last_step(fitted).solution_
    folder, y, stem = check_folder(folder), np.asarray(part.y), file_stem(name)
    write_npz(folder / "training.npz", as_seen(fitted, part.X), y)
    try:
        if not solution.parts:
            solution.save_proof(folder / f"{stem}.npz")
            return ""
        for key, one in solution.parts.items():
            if not isinstance(key, tuple):
                return "one class against the rest: no proofs were written"
            one.save_proof(folder / f"{stem}.{key[0]}-{key[1]}.npz")
    except DataError as error:
        return f"no proof: {error}"
    return ""
