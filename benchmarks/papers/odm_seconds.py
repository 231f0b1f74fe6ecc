"""What Figure 2 of the ODM paper [ZhangZhou] shows: processor seconds on the large sets."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import MaxAbsScaler
from sklearn.svm import LinearSVC

from benchmarks.papers.odm import BANDS, COSTS, LARGE, SMALL, SOURCES, SPLIT
from benchmarks.papers.published import published
from benchmarks.papers.result import Reproduction, Run, words
from benchmarks.papers.trials import accepted, timed, trials
from svmcvx import DataError, ODMClassifier, ODMLClassifier, PSVMClassifier, SvmcvxError, certify
from svmcvx.datasets import content_digest, known_sets, load
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.experiments.store import Row

REPEATS, QUICK_SETS = 10, ("cod-rna",)
TOL = 1e-3
SHOWN = words(
    "dataset method as_written as_written_sd as_written_over_liblinear as_written_gap "
    "as_written_accuracy"
)
# The middle values of the grids.
COST = COSTS[1]


def machines(n: int) -> dict[str, Any]:
    """Return the machines of the figure, and the SVM of this package, for n training rows."""
    shared: dict[str, Any] = {"solver": "fast", "tol": TOL}
    return {
        "svm, LIBLINEAR": LinearSVC(C=COST, loss="hinge", max_iter=10_000, random_state=0),
        "svm, SGD": SGDClassifier(alpha=1.0 / (COST * n), random_state=0),
        "svm": PSVMClassifier(C=COST, **shared),
        "odml": ODMLClassifier(C=COST, lam1=SMALL[3], lam2=SMALL[3], intercept=False, **shared),
        "odm": ODMClassifier(C1=LARGE[5], C2=LARGE[5], D=BANDS[2], intercept=False, **shared),
    }


METHODS = tuple(machines(1))


def seconds(X: Any, y: Any, *, dataset: str, method: str, repeat: int) -> Row:
    """Fit a machine to a random half, in the columns' range: processor seconds, accuracy on the
    other half, and the certified gap.
    """
    ((train, test),) = SPLIT.parts(y, repeat)
    scaled = MaxAbsScaler().fit(X[train])
    X, Z = scaled.transform(X[train]), scaled.transform(X[test])
    machine = machines(train.size)[method]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        _, _, used = timed(lambda: machine.fit(X, y[train]))
    certificate = _certificate(machine, X, y[train])
    return {
        "solves": 1,
        "certified": int(certificate.is_certified(TOL)),
        "processor_seconds": used,
        "gap": certificate.gap,
        "accuracy": machine.score(Z, y[test]),
    }


def _certificate(machine: Any, X: Any, y: Any) -> Any:
    if isinstance(machine, CertifiedClassifier):
        return accepted(machine.solution_).certificate
    if isinstance(machine, SGDClassifier):
        return certify(machine, X, y, problem="psvm", C=COST)
    return certify(machine, X, y)


def figure2(run: Run) -> Reproduction:
    """Compute what Figure 2 shows: processor seconds of SVM, ODML and ODM on the large sets."""
    names = run.chosen(
        QUICK_SETS if run.quick and run.sets is None else published("odm_table4_large")["dataset"]
    )
    repeats = run.repetitions(REPEATS, 1)
    data, left_out = {}, {}
    for name in names:
        try:
            loaded = load(SOURCES.get(name, name), run.options.get("data_dir"))
        except (SvmcvxError, OSError) as error:
            record = known_sets().get(SOURCES.get(name, name))
            left_out[name] = (record and record.unavailable) or " ".join(str(error).split())
            continue
        data[name] = (content_digest(loaded.X, loaded.y), loaded.X, loaded.y)
    if not data:
        raise DataError("no data set of the figure is available: " + "; ".join(left_out.values()))
    cells = [{"dataset": name, "method": method} for name in data for method in METHODS]
    found = trials("odm seconds", seconds, cells, repeats, run.options, data, left_out)
    done = found.done()
    rows = [
        _row(done[done["dataset"] == name], name, method, left_out)
        for name in names
        for method in METHODS
    ]
    notes = (
        (
            "Processor seconds of one fit on a random half, compiling apart, and their standard"
            f" deviation over {repeats} (the paper: {REPEATS}). The picture has no numbers;"
            " hyper-parameters are the middle ones of the grids, the columns divided by their"
            " largest size."
        ),
        (
            "Over LIBLINEAR: the seconds divided by those of LIBLINEAR's SVM, the mean over the"
            " halves."
        ),
        (
            "Gap: the largest certified gap of the answers, of each in its own problem: those of"
            " LIBLINEAR and SGD are what their stopping rules reach."
        ),
    )
    return Reproduction(
        "odm-figure2", "ODM, Figure 2 (processor seconds)", pd.DataFrame(rows), SHOWN, notes, found
    )


def _row(
    part: pd.DataFrame, dataset: str, method: str, left_out: Mapping[str, str]
) -> dict[str, Any]:
    """Return the seconds of a machine on a set, beside LIBLINEAR's."""
    row: dict[str, Any] = {"dataset": dataset, "method": method}
    by_method = {name: rows.set_index("repeat") for name, rows in part.groupby("method")}
    if method not in by_method:
        return row | {"as_written": math.nan, "as_written_note": left_out.get(dataset, "missing")}
    own = by_method[method]
    used = own["processor_seconds"]
    row |= {
        "as_written": round(float(used.mean()), 3),
        "as_written_sd": round(float(used.std(ddof=1)), 3),
        "as_written_gap": float(f"{own['gap'].max():.2g}"),
        "as_written_accuracy": round(float(own["accuracy"].mean()), 3),
        "repetitions": len(own),
    }
    if METHODS[0] in by_method:
        row["as_written_over_liblinear"] = round(
            float((used / by_method[METHODS[0]]["processor_seconds"]).mean()), 2
        )
    return row
