"""From an estimator's request to the batch that solves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from svmcvx.certificate.bounded import quietly
from svmcvx.data import check_number
from svmcvx.errors import DataError
from svmcvx.estimators.base import CertifiedClassifier
from svmcvx.estimators.binary import BinaryClassifier
from svmcvx.estimators.request import Request, TrainingData
from svmcvx.fast.grids.hinge import MeanVariance, solve_hinges, solve_mean_variances
from svmcvx.fast.grids.quadratic import Band, SquaredHinge, solve_bands
from svmcvx.fast.grids.rows import Answers, Rows
from svmcvx.feature_space import penalised_or_none
from svmcvx.formulations.margin import check_intercept
from svmcvx.formulations.margin_distribution import check_band, check_penalties
from svmcvx.kernels.columns import is_definite
from svmcvx.kernels.gram_cache import CachedKernel

__all__ = ["NUMBERS", "Machine", "Numbers", "machine_of", "no_batch_for", "numbers_of", "solve"]

# The hyper-parameters that may differ within a batch.
NUMBERS: Final = frozenset(("C", "C1", "C2", "D", "lam1", "lam2"))
# Largest number of rows of which a batch stores all products, and of columns of which it stores
# second moments.
MOST_ROWS, MOST_COLUMNS = 2000, 400

Numbers: TypeAlias = tuple[float, ...]


class Machine(NamedTuple):
    """A machine without its numbers."""

    formulation: str
    loss: str
    intercept: str
    kernel: Any


def no_batch_for(estimator: Any) -> str | None:
    """Return why no setting of an estimator can be solved in batches; None if it depends on the
    setting and the data.
    """
    last = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    name = type(last).__name__
    if not isinstance(last, BinaryClassifier) or last._stated_as() not in ("psvm", "odm", "odml"):
        return f"there are no batches for {name}"
    own = [
        method
        for method, base in (
            ("_fit", CertifiedClassifier),
            ("_solve", BinaryClassifier),
            ("predict", BinaryClassifier),
        )
        if getattr(type(last), method) is not getattr(base, method)
    ]
    if own or type(last).score is not CertifiedClassifier.score:
        return f"{name} has methods of its own"
    if last.solver not in ("auto", "fast") or last.max_iter is not None or last.verbose:
        return "solver, max_iter or verbose of the estimator ask for single fits"
    return None


def machine_of(request: Request, data: TrainingData) -> Machine:
    """Return the machine that a request asks for."""
    settings = request.settings
    kernel = settings.get("kernel")
    kernel = kernel.kernel if isinstance(kernel, CachedKernel) else kernel
    rows, columns = data.X.shape
    if sp.issparse(data.X):
        raise DataError("the rows are sparse")
    if kernel is not None and not is_definite(kernel):
        raise DataError(f"{kernel} is not positive semidefinite on any data")
    if request.formulation == "odm":
        machine = Machine("odm", "band", penalised_or_none(settings["intercept"]), kernel)
    elif request.formulation == "odml":
        machine = Machine(
            "odml", "mean and variance", penalised_or_none(settings["intercept"]), kernel
        )
    elif request.formulation == "psvm":
        intercept = check_intercept(settings["intercept"])
        if settings["p"] == 2:
            machine = Machine("psvm", "squared hinge", intercept, kernel)
        elif settings["p"] == 1:
            machine = Machine("psvm", "hinge", intercept, kernel)
        else:
            raise DataError("there are batches of the pSVM for p = 1 and p = 2")
    else:
        raise DataError(f"there are no batches for {request.formulation}")
    by_gram = machine.loss in ("hinge", "mean and variance")
    if (kernel is not None or by_gram) and rows > MOST_ROWS:
        raise DataError(f"there are more than {MOST_ROWS} rows")
    if min(rows, columns) > MOST_COLUMNS and not by_gram and kernel is None:
        raise DataError(f"there are more than {MOST_COLUMNS} columns")
    return machine


def numbers_of(machine: Machine, request: Request) -> Numbers:
    """Return the numbers of a machine."""
    settings = request.settings
    if request.formulation != machine.formulation:
        raise DataError(f"there are no batches for {request.formulation}")
    if machine.loss == "band":
        return check_band(settings["C1"], settings["C2"], settings["D"])
    if machine.loss == "mean and variance":
        # A slice of the serpentine has one λ₁ in common, the last.
        lam1, lam2 = check_penalties(settings["lam1"], settings["lam2"])
        return (lam2, check_number(settings["C"], "C", low=0, open_low=True), lam1)
    return (check_number(settings["C"], "C", low=0, open_low=True),)


@quietly
def solve(machine: Machine, numbers: Sequence[Numbers], rows: Rows) -> Answers | None:
    """Solve a slice of the settings of a machine, in order; None if the deadline passes.

    What overflows has no gap, and is left to a certified fit.
    """
    if machine.loss == "hinge":
        return solve_hinges(rows, [C for (C,) in numbers])
    if machine.loss == "mean and variance":
        return solve_mean_variances(rows, [MeanVariance(*setting) for setting in numbers])
    if machine.loss == "squared hinge":
        return solve_bands(rows, [SquaredHinge(C) for (C,) in numbers])
    return solve_bands(rows, [Band(*setting) for setting in numbers])
