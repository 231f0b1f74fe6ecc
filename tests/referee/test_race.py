"""The race: what solvers return is judged, what they say is not."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import svmcvx as sx
from benchmarks.referee import library, racing
from benchmarks.referee.racing.entries import READY
from benchmarks.referee.racing.outcome import Lap, Note, Race
from svmcvx import DataError
from tests.referee.solvers import dying, failing, growing, libsvm

X, Y = sx.synthetic.outlier_data(40, 2, sigma=0.4, outliers="none", seed=0)
HINGE = (X, Y, sx.PSVMClassifier(C=1.0, p=1.0))


@pytest.fixture(scope="module")
def outcome():
    entry = racing.Entry(libsvm, budgets=(1, 3, 8))
    solvers = {"libsvm": entry, "growing": growing, "failing": failing, "dying": dying}
    return racing.race({"hinge": HINGE}, solvers, time=600.0)


@pytest.mark.slow
def test_models_are_judged_by_the_objective_and_the_proved_bound(outcome):
    laps = [lap for lap in outcome.laps if lap.solver == "growing"]
    assert [lap.budget for lap in laps] == ["1", "2", "3", "4"]
    assert [lap.gap for lap in laps] == sorted((lap.gap for lap in laps), reverse=True)
    # The zero model: C for each row.
    assert laps[0].objective == pytest.approx(40.0, rel=1e-12)
    optimum = sx.fast.psvm(X, Y, C=1.0, p=1.0, tol=1e-10).certificate
    assert laps[0].gap == pytest.approx(1 - optimum.upper / 40.0, rel=1e-9)
    assert laps[-1].gap < 1e-6
    assert all(lap.objective >= optimum.lower for lap in laps)
    assert [lap.seconds for lap in laps] == sorted(lap.seconds for lap in laps)


@pytest.mark.slow
def test_each_budget_is_a_lap(outcome):
    laps = [lap for lap in outcome.laps if lap.solver == "libsvm"]
    assert [lap.budget for lap in laps] == ["1", "3", "8"]
    assert laps[-1].gap < 1e-7


@pytest.mark.slow
def test_failures_are_notes_and_bad_models_have_no_gap(outcome):
    notes = {note.solver: note.why for note in outcome.notes}
    assert notes == {"failing": "RuntimeError: no luck", "dying": "its process ended (code 3)"}
    assert outcome.complete
    referee = racing.Referee(
        racing.Task.of("hinge", X, Y, library.looking_up.stated_problem(*HINGE, {}))
    )
    assert referee.gap_of(referee.objective((np.full(2, np.nan), 0.0))) == np.inf


def endless(task, budget):
    """The zero model, and then none."""
    while budget > 1:
        pass
    return np.zeros(task.X.shape[1]), 0.0


@pytest.mark.slow
def test_a_call_ends_at_the_limit_and_what_there_is_is_kept_and_not_run_again(tmp_path):
    rules = {"time": 0.2, "repeats": 2, "clock": "processor", "store": tmp_path / "race.sqlite"}
    outcome = racing.race({"hinge": HINGE}, {"endless": endless, "failing": failing}, **rules)
    assert [(lap.repeat, lap.budget) for lap in outcome.laps] == [(0, "1"), (1, "1")]
    assert outcome.laps[1].objective == pytest.approx(40.0)
    assert [note.solver for note in outcome.notes] == ["failing"]
    started = []
    again = racing.race(
        {"hinge": HINGE},
        {"endless": endless, "failing": failing},
        **rules,
        progress=lambda *names: started.append(names),
    )
    assert again == outcome
    assert not started


def made(*rows):
    return Race(
        tuple(Lap(*row) for row in rows), (Note("t", "c", "why"),), 1.0, 1, 1, "wall", complete=True
    )


def test_times_profiles_and_wins_are_those_of_the_laps():
    race = made(
        ("t", "a", 0, "1", 1.0, 0.5, 2.0),
        ("t", "a", 0, "2", 2.0, 1e-4, 1.0),
        ("t", "b", 0, "1", 4.0, 1e-10, 1.0),
        ("u", "b", 0, "1", 3.0, 1e-3, 1.0),
    )
    times = race.times()
    assert times.loc[("t", "a"), "1e-04"] == 2.0
    assert times.loc[("t", "a"), "1e-05"] == np.inf
    assert times.loc[("t", "b")].tolist() == [4.0] * 8
    profile = race.profile(1e-3)
    assert profile.index.tolist() == [1.0, 2.0]
    assert profile["a"].tolist() == [0.5, 0.5]
    assert profile["b"].tolist() == [0.5, 1.0]
    assert race.wins()["1e-03"].to_dict() == {"a": 1, "b": 1}
    with pytest.raises(DataError, match="gap must be one of"):
        race.profile(0.5)
    for draw, table in (
        (sx.plot.performance_profile, profile),
        (sx.plot.race_curves, race.to_frame().iloc[:3]),
    ):
        assert [line.get_label() for line in draw(table).lines] == ["a", "b"]
    with pytest.raises(DataError, match="of one task"):
        sx.plot.race_curves(race)


def test_medians_count_repeats_that_did_not_arrive():
    laps = tuple(
        Lap("t", "a", repeat, "1", 1.0 + repeat, gap, 1.0)
        for repeat, gap in enumerate((1e-9, 1.0, 1.0))
    )
    times = Race(laps, (), 1.0, 3, 1, "wall", complete=True).times()
    assert times["1e-02"].tolist() == [np.inf]


def test_a_report_has_tables_and_pictures(tmp_path):
    pytest.importorskip("jinja2")
    race = made(("t", "a", 0, "1", 1.0, 1e-9, 2.0), ("t", "b", 0, "1", 4.0, 1e-10, 1.0))
    race.report(tmp_path / "race.html")
    page = (tmp_path / "race.html").read_text()
    assert page.count("<svg") == 4
    assert "Seconds to each certified gap" in page


@pytest.mark.parametrize("name", sorted(set(racing.entries()) - {"scip"}))
def test_entries_reach_a_small_gap_on_what_they_solve(name):
    entry = READY[name]
    problems = [
        sx.PSVMClassifier(C=0.1, p=1.0),
        sx.PSVMClassifier(C=0.1, p=1.0, intercept="penalised"),
    ]
    tasks = [
        racing.Task.of("t", X, Y, library.looking_up.stated_problem(X, Y, one, {}))
        for one in problems
    ]
    task = next(one for one in tasks if not entry.refusal(one))
    given = task if entry.prepare is None else entry.prepare(task)
    budget = 2000 if name == "sgd" else "default" if name == "highs" else 1e-8
    referee = racing.Referee(task)
    gap = referee.gap_of(referee.objective(entry.solve(given, budget)))
    assert gap < (1e-2 if name == "sgd" else 1e-5)


def test_models_with_another_kernel_have_no_gap_and_model_files_have_one():
    files = Path(__file__).parents[1] / "estimators" / "model_files"
    data = np.loadtxt(files / "data.csv", delimiter=",", skiprows=1)
    problem = sx.PSVMClassifier(C=2.0, p=1.0, kernel="rbf", gamma=0.5)
    (task,) = racing.tasks.tasks_of((data[:, :2], data[:, 2], problem), None)
    referee = racing.Referee(task)
    assert referee.gap_of(referee.objective(files / "libsvm_rbf.model")) < 1e-6
    other = sx.fast.psvm(task.X, task.y, C=2.0, p=1.0, kernel=sx.RBF(gamma=0.5001)).model
    assert referee.objective(other) == np.inf


def test_instances_of_the_library_are_tasks():
    instance = next(one for one in library.instances() if one.data_set == "gauss-60x2")
    (task,) = racing.tasks.tasks_of(instance.id, None)
    referee = racing.Referee(task)
    assert referee.lower >= library.Index()[instance.id].lower
    assert READY["liblinear"].refusal(task)
    assert not READY["libsvm"].refusal(task)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (lambda: racing.race(HINGE, ["no such"]), "no entry 'no such'"),
        (lambda: racing.race(HINGE, ["liblinaer"]), "did you mean 'liblinear'"),
        (lambda: racing.race(HINGE, []), "one solver at least"),
        (lambda: racing.race(HINGE, [3]), "must hold functions"),
        (lambda: racing.race(HINGE, ["svmcvx", "svmcvx"]), "two entries called"),
        (lambda: racing.race(HINGE, "svmcvx", time=0), "time must be"),
        (lambda: racing.race(HINGE, "svmcvx", repeats=0), "repeats must be"),
        (lambda: racing.race(3, "svmcvx"), "problem must be an instance"),
        (lambda: sx.plot.race_curves(pd.DataFrame()), "laps must have rows"),
        (lambda: sx.plot.performance_profile(pd.DataFrame()), "profile must be a data frame"),
    ],
)
def test_bad_arguments_are_named(call, why):
    with pytest.raises(DataError, match=why):
        call()
