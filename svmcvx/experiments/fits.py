"""Fit and score one model; the result is a row of a table."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from svmcvx.core.bounded import sum_above, sum_below
from svmcvx.errors import SvmcvxError
from svmcvx.estimators.pairs import CompositeSolution
from svmcvx.experiments.intervals import as_seen, ends, exact_scores
from svmcvx.solution import Attempt, Solution, Status
from svmcvx.system import clock
from svmcvx.system.deadline import until

__all__ = ["COLUMNS", "Fit", "Row", "certificates", "empty_row", "fit_one"]

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
    "note",
)


class Fit(NamedTuple):
    """What came of a fit.

    Attributes
    ----------
    row : dict
        With :data:`COLUMNS`, and ``certificates``, those of :func:`certificates`.
    fitted : estimator or None
        None unless requested.
    solution : Solution or None
        None unless requested.
    cut_short : bool
        Whether this fit was ended by the time limit of all fits.
    """

    row: Row
    fitted: Any
    solution: Solution | None
    cut_short: bool


def empty_row(name: str) -> Row:
    """Return the row of a model of which nothing is known."""
    return dict.fromkeys(COLUMNS) | {"model": name, "certified": False, "seconds": 0.0, "certificates": []}


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
) -> Fit:
    """Fit and score a model, in this process or another one.

    Parameters
    ----------
    name : str
    model : estimator
        Cloned.
    X_train, y_train, X_test, y_test : array-like
    tol : float
        Relative gap up to which an answer counts as certified.
    end : float
        Moment of the calendar's clock at which all fits have to end.
    keep_fitted, keep_solution : bool
        Return the fitted model and its solution.
    guaranteed : bool
        Compute intervals of the scores of every optimal machine on the test part.
    """
    row = empty_row(name)
    with until(end) as deadline:
        if deadline.passed():
            row |= {"status": str(Status.TIME_LIMIT), "note": "the time limit left no time for this model"}
            return Fit(row, None, None, cut_short=True)
        started = clock.now()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # the row has the gap
                fitted = clone(model).fit(X_train, y_train)
        except SvmcvxError as error:
            row |= {"status": "failed", "seconds": clock.now() - started, "note": str(error)}
            return Fit(row, None, None, cut_short=False)
        row["seconds"] = clock.now() - started
        row["train_accuracy"] = float(fitted.score(X_train, y_train))
        if X_test.shape[0]:
            row["test_accuracy"] = float(fitted.score(X_test, y_test))
        last = fitted[-1] if isinstance(fitted, Pipeline) else fitted
        solution = getattr(last, "solution_", None)
        if isinstance(solution, Solution):
            row |= _certified(solution, tol)
        else:
            row |= {"solver": type(last).__name__, "status": "", "note": "no certificate"}
            row["n_support"] = int(np.sum(last.n_support_)) if hasattr(last, "n_support_") else None
            solution = None
        if guaranteed:
            found = exact_scores(last, as_seen(fitted, X_train), y_train, as_seen(fitted, X_test), y_test)
            row |= ends(found.intervals) | {"undecided": found.undecided}
            row["note"] = "; ".join(filter(None, (row["note"], found.note)))
        cut_short = deadline.passed() and (row["status"] == Status.TIME_LIMIT or guaranteed)
    return Fit(row, fitted if keep_fitted else None, solution if keep_solution else None, cut_short)


def certificates(solution: Solution, tol: float) -> list[Row]:
    """Return the certificates of a solution as plain values: one, or one for each of the binary machines that make it.

    ``classes`` are the labels of a pair, the label of one class against the rest, or all labels.
    """
    if isinstance(solution, CompositeSolution):
        return [record for key, part in solution.parts.items() for record in _records(part, key, tol)]
    return _records(solution, solution.model.classes.tolist(), tol)


def _records(solution: Solution, classes: Any, tol: float) -> list[Row]:
    certificate = solution.certificate
    return [
        {
            "classes": list(classes) if isinstance(classes, (tuple, list)) else [classes],
            "lower": certificate.lower,
            "upper": certificate.upper,
            "gap": certificate.gap,
            "kind": certificate.kind,
            "certified": certificate.is_certified(tol),
            "solver": solution.solver,
            "status": str(solution.status),
            "n_support": solution.model.n_support,
        }
    ]


def _certified(solution: Solution, tol: float) -> Row:
    each = certificates(solution, tol)
    lowers = [record["lower"] for record in each if record["lower"] is not None]
    several = len(each) > 1
    upper = sum_above([record["upper"] for record in each]) if several else each[0]["upper"]
    lower = None if len(lowers) < len(each) else sum_below(lowers) if several else lowers[0]
    notes = [f"{solver}: {reason}" for solver, reason in _reasons(solution.attempts)]
    clipped = [c for c in (s.certificate.residuals.get("clipped_mass") for s in _parts(solution)) if c is not None]
    if clipped:
        notes.append(f"indefinite kernel clipped, mass {max(clipped):.2g}")
    if several:
        notes.append(f"sums over {len(each)} binary machines; gap: the largest of one")
    return {
        "solver": ", ".join(dict.fromkeys(record["solver"] for record in each)),
        "status": str(solution.status),
        "primal": upper,
        "dual_bound": lower,
        "gap": max(record["gap"] for record in each),
        "certified": all(record["certified"] for record in each),
        "n_support": solution.model.n_support,
        "note": "; ".join(notes),
        "certificates": each,
    }


def _parts(solution: Solution) -> list[Solution]:
    return list(solution.parts.values()) if isinstance(solution, CompositeSolution) else [solution]


def _reasons(attempts: Iterable[Attempt]) -> list[tuple[str, str]]:
    """Return why attempts were not enough, each reason once; missing licences are shown by ``svmcvx doctor``."""
    told = (attempt for attempt in attempts if attempt.reason and attempt.status is not Status.LICENCE)
    return list(dict.fromkeys((attempt.solver, attempt.reason) for attempt in told))
