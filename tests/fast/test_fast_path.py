import itertools

import numpy as np
import pytest

import svmcvx as sx
from campaigns import warm_paths
from svmcvx.fast.margin import psvm as linear
from svmcvx.fast.warm_path import PATHS
from svmcvx.formulations.base import RecoveredPoints
from tests.conftest import make_data
from tests.intervals import overlap

X, Y = make_data(n=50)
FIXED = {
    "psvm": {"C": 1.0, "p": 1.5},
    "odm": {"C1": 8.0, "C2": 4.0, "D": 0.2},
    "odml": {"lam1": 0.25, "lam2": 0.25, "C": 10.0},
    "conic": {},
    "m3svm": {"lam": 0.1, "p": 3.0, "eps": 1e-4},
    "multiclass": {"loss": "crammer_singer"},
    "ramp": {},
    "zero_one": {},
}
VALUES = {
    "C": (0.1, 1.0, 10.0),
    "p": (1.0, 1.5, 2.0, 3.0),
    "C1": (1, 4, 16),
    "C2": (1, 4),
    "D": (0.0, 0.3),
    "kappa": (0.05, 0.2),
    "eps": (1e-4, 1e-2),
    "k": (6, 9),
    **dict.fromkeys(("lam1", "lam2", "lam"), (0.1, 1)),
}
# Every path but those of l0, whose certificates have no lower bound; M3SVM and its relatives are
# linear.
CERTIFIED = [
    (formulation, name, kernel)
    for formulation, solver in PATHS.items()
    for name in solver.path
    for kernel in (None, sx.RBF(0.5))
    if formulation != "l0" and not (formulation in ("m3svm", "multiclass") and kernel)
]


@pytest.mark.parametrize(("formulation", "name", "kernel"), CERTIFIED)
def test_a_path_gives_what_single_solves_give(formulation, name, kernel):
    # The optima of the 0-1 loss and the ramp loss are sought among few observations only.
    few = slice(20 if formulation in ("zero_one", "ramp") else None)
    fixed = {**FIXED[formulation], **({} if kernel is None else {"kernel": kernel})}
    solutions = sx.fast.path(formulation, X[few], Y[few], **{**fixed, name: VALUES[name]})
    assert [solution.hyperparameters[name] for solution in solutions] == [
        float(value) for value in VALUES[name]
    ]
    # Each but the first starts from the solution before.
    started = [solution.warm_start_used for solution in solutions]
    assert started == [False] + [True] * (len(solutions) - 1)
    for value, solution in zip(VALUES[name], solutions, strict=True):
        single = PATHS[formulation].load()(X[few], Y[few], **{**fixed, name: value})
        overlap(solution, single)


def test_a_path_of_local_solutions_has_the_trivial_lower_bound():
    solutions = sx.fast.path("l0", X, Y, C=[0.1, 1.0], kernel=sx.RBF(0.5), method="local")
    assert [solution.certificate.lower for solution in solutions] == [0.0, 0.0]
    assert all(solution.certificate.residuals["stationarity"] < 1e-8 for solution in solutions)


def test_a_path_can_be_ended_and_keeps_what_it_has():
    seen = []
    solutions = sx.fast.path(
        "psvm", X, Y, C=[0.1, 1.0, 10.0], p=2, callback=lambda s: seen.append(s) or len(seen) == 2
    )
    assert len(solutions) == 2
    assert seen == solutions
    assert len(sx.fast.path("psvm", X, Y, C=[0.1, 1.0], p=2, time_limit=1e-9)) < 2


@pytest.mark.parametrize(
    ("formulation", "keywords", "message"),
    [
        ("svm", {"C": [1.0]}, "formulation must be one of"),
        ("psvm", {"C": 1.0, "p": 2}, "exactly one of C, p"),
        ("psvm", {"C": [1.0], "p": [1, 2]}, "exactly one of C, p"),
        ("psvm", {"C": [], "p": 2}, "empty sequence"),
        ("psvm", {"C": [1.0, "a"], "p": 2}, "C must be a number"),
        ("odm", {"C1": [1.0], "C2": 1.0, "D": 0.1, "q": 3}, "no argument 'q'"),
    ],
)
def test_bad_paths(formulation, keywords, message):
    with pytest.raises(sx.DataError, match=message):
        sx.fast.path(formulation, X, Y, **keywords)


@pytest.mark.parametrize("seed", [117, 121, 177, 181, 217, 231, 257])
def test_no_step_of_a_path_is_worse_than_from_nothing(seed):
    """Paths of the campaign ``python -m campaigns.warm_paths`` that had such a step."""
    steps, found = warm_paths.worse(seed)
    assert steps
    assert not found


def test_a_start_that_leads_nowhere_is_followed_by_none(monkeypatch):
    X, y = make_data()
    first = sx.fast.psvm(X, y, C=1.0, p=1.5)
    solve = linear._solve_linear

    def stalls(statement, monitor, start, *others):
        if start is None:
            return solve(statement, monitor, start, *others)
        monitor.report(3, first.certificate.lower / 2, first.certificate.upper * 2)
        models, duals = statement.trivial()
        return RecoveredPoints(models, duals), sx.Status.INACCURATE, {"method": "newton"}

    monkeypatch.setattr(linear, "_solve_linear", stalls)
    seen = []
    found = sx.fast.psvm(
        *(X, y),
        C=2.0,
        p=1.5,
        warm_start=first,
        method="newton",
        callback=lambda p: seen.append(p) and None,
    )
    warm, cold = found.attempts
    assert (warm.warm_start_used, cold.warm_start_used) == (True, False)
    assert warm.gap > 1e-6 >= found.certificate.gap
    assert found.warm_start_used
    # Progress goes on: iterations and both bounds.
    for one, other in itertools.pairwise(seen):
        assert other.iteration >= one.iteration
        assert other.lower >= one.lower
        assert other.upper <= one.upper
    assert (np.diff(found.trace[:-1, 0]) >= 0).all()
