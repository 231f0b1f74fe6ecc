"""Fit and score one model; the result is a row of a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import get_scorer
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, LinearSVC, NuSVC

from svmcvx.catalogue import CATALOGUE
from svmcvx.certificate import Certificate
from svmcvx.certificate.bounded import sum_above, sum_below
from svmcvx.errors import DataError, DataTypeError, SvmcvxError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.certification import CERTIFIABLE, certify
from svmcvx.estimators.pairs import CompositeSolution
from svmcvx.experiments.intervals import INTERVALS, as_seen, ends, exact_scores
from svmcvx.experiments.preparation import is_pairwise
from svmcvx.solution import Attempt, Solution, Status
from svmcvx.system import clock
from svmcvx.system.deadline import OutOfTime, until

__all__ = [
    "COLUMNS",
    "ONE_CLASS",
    "Fit",
    "Row",
    "certificates",
    "check_metrics",
    "columns_of",
    "conventions",
    "empty_row",
    "fit_one",
    "foreign_certificates",
    "last_step",
    "of_guarantee",
    "one_class_note",
]

Row: TypeAlias = dict[str, Any]

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
    "accuracy_lower",
    "accuracy_upper",
    "undecided",
    "n_support",
    "seconds",
    "conventions",
    "note",
)

# How a note begins on a model whose predictions name one class.
ONE_CLASS: Final = "predicts one class only"
# Errors that make a failed row: ours, and those of other packages' estimators on data that they
# cannot use.
FAILURES = (SvmcvxError, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError)
# What models of scikit-learn do with the intercept and the losses.
OF_OTHERS: Final[Mapping[type, str]] = {
    SVC: "free intercept, losses summed",
    NuSVC: "free intercept, ν in place of C",
    LinearSVC: "penalised intercept, losses summed",
    LogisticRegression: "free intercept, losses summed",
}


def check_metrics(metrics: str | Sequence[str]) -> tuple[str, ...]:
    """Return the names of scores, each of which scikit-learn has."""
    if not isinstance(metrics, Iterable):
        raise DataTypeError(
            "metrics must be a name of a score of scikit-learn, such as 'accuracy', or a sequence"
            f" of names, got {metrics!r}"
        )
    names = (metrics,) if isinstance(metrics, str) else tuple(metrics)
    if not names:
        raise DataError("metrics is empty; pass for example ('accuracy', 'balanced_accuracy')")
    for name in names:
        try:
            get_scorer(name)
        except (ValueError, TypeError):
            raise DataError(
                "metrics must hold names of scores of scikit-learn, such as 'accuracy', got"
                f" {name!r}"
            ) from None
    return names


def columns_of(metrics: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a comparison with these metrics; the accuracy is always among them."""
    others = [name for name in metrics if name != "accuracy"]
    place = COLUMNS.index("undecided")
    scores = [f"test_{name}" for name in others]
    found = [f"{name}_{end}" for name in others if name in INTERVALS for end in ("lower", "upper")]
    start = COLUMNS.index("accuracy_lower")
    return (*COLUMNS[:start], *scores, *COLUMNS[start:place], *found, *COLUMNS[place:])


def of_guarantee(column: str) -> bool:
    """Return whether a column of a comparison is about what every optimal machine scores."""
    return column == "undecided" or column.endswith(("_lower", "_upper"))


def last_step(fitted: Any) -> Any:
    """Return the last step of a pipeline; any other estimator as it is."""
    return fitted[-1] if isinstance(fitted, Pipeline) else fitted


def conventions(model: Any) -> str:
    """Return the kernel of a model, and what its problem does with intercept and losses, in words."""
    last = last_step(getattr(model, "estimator", model))
    parameters = last.get_params() if hasattr(last, "get_params") else {}
    known = isinstance(last, (CertifiedClassifier, *CERTIFIABLE))
    if not known:
        return ""
    words = [_kernel(parameters.get("kernel"))]
    if isinstance(last, CertifiedClassifier):
        entry = next(
            (
                e
                for e in CATALOGUE.values()
                if e.estimator is not None and e.estimator.name == type(last).__name__
            ),
            None,
        )
        if entry is not None:
            own = entry.intercept.partition(" ")[0].rstrip(",")
            own = "free" if own == "free" else "penalised"
            asked = parameters.get("intercept", True)
            kind = asked if isinstance(asked, str) else own if asked else "none"
            words.append("no intercept" if kind == "none" else f"{kind} intercept")
            words.append("losses averaged" if entry.losses.startswith("(1/n)") else "losses summed")
    else:
        said = next(text for cls, text in OF_OTHERS.items() if isinstance(last, cls))
        words.append(
            said
            if parameters.get("fit_intercept", True)
            else said.replace(said.split()[0], "no", 1)
        )
    return ", ".join(words)


def _kernel(kernel: Any) -> str:
    if kernel is None or kernel == "linear" or type(kernel).__name__ == "Linear":
        return "linear"
    if isinstance(kernel, str):
        return f"{kernel} kernel"
    return f"{getattr(kernel, '__name__', type(kernel).__name__)} kernel"


def one_class_note(predicted: NDArray[Any], y: NDArray[Any]) -> str:
    """Return a note if the predictions for rows of several classes name one class only, else
    nothing.
    """
    found = np.unique(predicted)
    return f"{ONE_CLASS}, {found[0]}" if found.size == 1 and np.unique(y).size > 1 else ""


def foreign_certificates(
    last: Any, X: Any, y: NDArray[Any], sample_weight: Any = None
) -> dict[Any, Certificate] | str:
    """Return the certificates of a model that scikit-learn has trained, by its classes, or why
    there are none.
    """
    if not isinstance(last, CERTIFIABLE):
        named = "; name one in certify(model, X, y, problem=…)" if hasattr(last, "coef_") else ""
        return f"no certificate: {type(last).__name__} answers no problem that svmcvx knows{named}"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the row has the gap
            found = certify(last, X, y, sample_weight)
    except OutOfTime:
        return "no certificate: the time limit left no time for it"
    except SvmcvxError as error:
        return f"no certificate: {error}"
    return found if isinstance(found, dict) else {tuple(np.unique(y).tolist()): found}


class Fit(NamedTuple):
    """What came of a fit."""

    row: Row
    fitted: Any
    solution: Solution | None
    seen: Any
    cut_short: bool


def empty_row(name: str, model: Any = None, metrics: Sequence[str] = ()) -> Row:
    """Return the row of a model of which nothing is known."""
    row: Row = dict.fromkeys(columns_of(metrics))
    return row | {
        "model": name,
        "certified": False,
        "seconds": 0.0,
        "certificates": [],
        "conventions": conventions(model),
    }


def fit_one(
    name: str,
    model: Any,
    X_train: Any,
    y_train: NDArray[Any],
    X_test: Any,
    y_test: NDArray[Any],
    tol: float,
    end: float,
    keep_fitted: bool,
    keep_solution: bool,
    guaranteed: bool = False,
    metrics: Sequence[str] = (),
) -> Fit:
    """Fit and score a model, in this process or another one."""
    row = empty_row(name, model, metrics)
    with until(end) as deadline:
        if deadline.passed():
            row |= {
                "status": str(Status.TIME_LIMIT),
                "note": "the time limit left no time for this model",
            }
            return Fit(row, None, None, None, cut_short=True)
        started = clock.now()
        try:
            if isinstance(X_train, DataError):
                raise X_train
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the row has the gap
                fitted = clone(model).fit(X_train, y_train)
        except FAILURES as error:
            told = (
                str(error) if isinstance(error, SvmcvxError) else f"{type(error).__name__}: {error}"
            )
            row |= {
                "status": "failed",
                "seconds": clock.now() - started,
                "note": " ".join(told.split()),
            }
            return Fit(row, None, None, None, cut_short=False)
        row["seconds"] = clock.now() - started
        notes = []
        predicted = np.asarray(fitted.predict(X_train))
        row["train_accuracy"] = float(np.mean(predicted == y_train))
        shown = y_train
        if len(y_test):
            predicted, shown = np.asarray(fitted.predict(X_test)), y_test
            row["test_accuracy"] = float(np.mean(predicted == y_test))
            for metric in (metric for metric in metrics if metric != "accuracy"):
                try:
                    row[f"test_{metric}"] = float(get_scorer(metric)(fitted, X_test, y_test))
                except (*FAILURES, AttributeError) as error:
                    notes.append(f"no {metric}: {' '.join(str(error).split())}")
        notes.append(one_class_note(predicted, shown))
        last = last_step(fitted)
        seen = as_seen(fitted, X_train)
        solution = getattr(last, "solution_", None)
        if isinstance(solution, Solution):
            row |= _certified(solution, tol)
        else:
            row |= _of_others(last, seen, y_train, tol)
            solution = None
        if guaranteed:
            found = exact_scores(
                last, seen, y_train, as_seen(fitted, X_test), y_test, tuple({"accuracy", *metrics})
            )
            row |= ends(found.intervals) | {"undecided": found.undecided}
            notes.append(found.note)
        row["note"] = "; ".join(filter(None, (row["note"], *notes)))
        cut_short = deadline.passed() and (row["status"] == Status.TIME_LIMIT or guaranteed)
    kept = solution if keep_solution else None
    own = isinstance(fitted, Pipeline) or is_pairwise(fitted)
    behind = seen if kept is not None and own else None
    return Fit(row, fitted if keep_fitted else None, kept, behind, cut_short)


def _of_others(last: Any, X: Any, y: NDArray[Any], tol: float) -> Row:
    """Return the fields of a model that is not of this package: its certificates, if its problem is
    known.
    """
    row: Row = {"solver": type(last).__name__, "status": "", "certified": None, "note": ""}
    row["n_support"] = int(np.sum(last.n_support_)) if hasattr(last, "n_support_") else None
    found = foreign_certificates(last, X, y)
    if isinstance(found, str):
        return row | {"note": found}
    each = [
        {
            **_interval(certificate, key, tol),
            "solver": type(last).__name__,
            "status": "",
            "n_support": row["n_support"] if len(found) == 1 else None,
        }
        for key, certificate in found.items()
    ]
    return row | _summed(each)


def certificates(solution: Solution, tol: float) -> list[Row]:
    """Return the certificates of a solution as plain values: one, or one for each of the binary
    machines that make it.
    """
    if isinstance(solution, CompositeSolution):
        return [
            record for key, part in solution.parts.items() for record in _records(part, key, tol)
        ]
    return _records(solution, solution.model.classes.tolist(), tol)


def _records(solution: Solution, classes: Any, tol: float) -> list[Row]:
    return [
        {
            **_interval(solution.certificate, classes, tol),
            "solver": solution.solver,
            "status": str(solution.status),
            "n_support": solution.model.n_support,
        }
    ]


def _interval(certificate: Certificate, classes: Any, tol: float) -> Row:
    return {
        "classes": list(classes) if isinstance(classes, (tuple, list)) else [classes],
        "lower": certificate.lower,
        "upper": certificate.upper,
        "gap": certificate.gap,
        "kind": certificate.kind,
        "certified": certificate.is_certified(tol),
    }


def _summed(each: list[Row]) -> Row:
    """Return the fields of the certificates of all binary machines together."""
    lowers = [record["lower"] for record in each if record["lower"] is not None]
    several = len(each) > 1
    return {
        "primal": sum_above([record["upper"] for record in each]) if several else each[0]["upper"],
        "dual_bound": (
            None if len(lowers) < len(each) else sum_below(lowers) if several else lowers[0]
        ),
        "gap": max(record["gap"] for record in each),
        "certified": all(record["certified"] for record in each),
        "note": (
            f"sums over {len(each)} binary machines; gap: the largest of one" if several else ""
        ),
        "certificates": each,
    }


def _certified(solution: Solution, tol: float) -> Row:
    each = certificates(solution, tol)
    row = _summed(each)
    notes = [f"{solver}: {reason}" for solver, reason in _reasons(solution.attempts)]
    clipped = [
        c
        for c in (s.certificate.residuals.get("clipped_mass") for s in _parts(solution))
        if c is not None
    ]
    if clipped:
        notes.append(f"indefinite kernel clipped, mass {max(clipped):.2g}")
    return row | {
        "solver": ", ".join(dict.fromkeys(record["solver"] for record in each)),
        "status": str(solution.status),
        "n_support": solution.model.n_support,
        "note": "; ".join(filter(None, (*notes, row["note"]))),
    }


def _parts(solution: Solution) -> list[Solution]:
    return list(solution.parts.values()) if isinstance(solution, CompositeSolution) else [solution]


def _reasons(attempts: Iterable[Attempt]) -> list[tuple[str, str]]:
    """Return why attempts were not enough, each reason once; missing licences are shown by ``svmcvx
    doctor``.
    """
    told = (
        attempt for attempt in attempts if attempt.reason and attempt.status is not Status.LICENCE
    )
    return list(dict.fromkeys((attempt.solver, attempt.reason) for attempt in told))
