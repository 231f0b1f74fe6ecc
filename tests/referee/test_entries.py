"""The entries of the benchmark: what solvers return is judged, what they say is not."""

import numpy as np
import pytest

import svmcvx as sx
from benchmarks.benchopt_svm.benchmark_utils.entries import READY, Referee, Task, entries
from benchmarks.referee import library
from benchmarks.referee.instances import Problem

X, Y = sx.synthetic.outlier_data(40, 2, sigma=0.4, outliers="none", seed=0)
TEXTS = (
    "psvm C=0.1 p=1 intercept=free",
    "penalised-psvm C=0.1 p=1 intercept=penalised",
    "zero_one lam=1 intercept=penalised",
)


def task_of(text, rows=40):
    return Task(X[:rows], Y[:rows], Problem.read(text))


@pytest.mark.parametrize("name", entries())
def test_entries_reach_a_small_gap_on_what_they_solve(name):
    entry = READY[name]
    tasks = [task_of(text, 12 if "zero" in text else 40) for text in TEXTS]
    task = next(one for one in tasks if not entry.refusal(one))
    refused = [one for one in tasks if entry.refusal(one)]
    assert len(refused) == 0 if name == "svmcvx" else refused
    budget = {"sgd": 2000, "highs": "default", "scip": 8.0}.get(name, 1e-8)
    referee = Referee(task)
    gap = referee.gap_of(referee.objective(entry.solve(entry.prepare(task), budget)))
    assert gap < (1e-2 if name == "sgd" else 1e-5)


def test_models_are_judged_by_the_objective_and_the_proved_bound():
    referee = Referee(task_of(TEXTS[0]))
    optimum = sx.fast.psvm(X, Y, C=0.1, p=1.0, tol=1e-10).certificate
    zero = referee.objective(([0.0, 0.0], 0.0))
    assert zero == pytest.approx(4.0, rel=1e-12)  # C for each row
    assert referee.gap_of(zero) == pytest.approx(1 - optimum.upper / 4.0, rel=1e-9)
    for model in (([np.nan, 0.0], 0.0), ([1.0], 0.0), "nothing", None):
        assert referee.gap_of(referee.objective(model)) == np.inf


def test_a_model_with_another_kernel_has_no_gap():
    referee = Referee(task_of("psvm C=2 p=1 intercept=free kernel=rbf gamma=0.5"))
    own, other = (
        sx.fast.psvm(X, Y, C=2.0, p=1.0, kernel=sx.RBF(gamma)).model for gamma in (0.5, 0.5001)
    )
    assert referee.gap_of(referee.objective(own)) < 1e-6
    assert referee.objective(other) == np.inf
    libsvm = READY["libsvm"].solve(referee.task, 1e-9)
    assert referee.gap_of(referee.objective(libsvm)) < 1e-6


def test_instances_of_the_library_are_tasks_of_benchopt():
    instance = next(one for one in library.instances() if one.data_set == "gauss-60x2")
    data, problem = library.get(instance.id)
    referee = Referee(Task(data.X, data.y, problem))
    assert referee.lower >= library.Index()[instance.id].lower
    assert READY["liblinear"].refusal(referee.task)
    assert not READY["libsvm"].refusal(referee.task)
