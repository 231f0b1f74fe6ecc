"""The same call gives the same answer, nodes and proof, whatever the clock says and however many
threads there are.
"""

import dataclasses
import itertools
from functools import partial

import joblib
import numpy as np
import pytest

import svmcvx as sx
from svmcvx.catalogue import CATALOGUE
from svmcvx.fast import indicator
from svmcvx.fast.core import rows as kernel_rows
from svmcvx.fast.indicator import zero_one
from svmcvx.fast.search.state import SearchSettings
from svmcvx.synthetic import outlier_data
from svmcvx.system import clock
from tests.conftest import make_data
from tests.system.test_deadline import FAST


def going_on(steps):
    """A source of seconds that goes on by these steps."""
    return itertools.accumulate(steps).__next__


def jumps():
    """Steps from nanoseconds to days."""
    rng = np.random.default_rng(0)
    while True:
        yield 10.0 ** rng.uniform(-9, 5)


# A machine without end, one so busy that an hour passes between two readings, and one that stalls
# now and then.
CLOCKS = {
    "standing": lambda: going_on(itertools.repeat(0.0)),
    "an hour": lambda: going_on(itertools.repeat(3600.0)),
    "jumping": lambda: going_on(jumps()),
}


def answer(solution, folder):
    """All that a solution holds but its seconds, and the bytes of its proof."""
    path = folder / "proof.npz"
    if solution.evidence is not None:
        solution.save_proof(path)
    return {
        "solver": solution.solver,
        "attempts": [dataclasses.replace(attempt, seconds=0.0) for attempt in solution.attempts],
        "status": str(solution.status),
        "certificate": repr(solution.certificate),
        "model": joblib.hash(solution.model),
        "dual": joblib.hash(dict(solution.dual)),
        "trace": joblib.hash(solution.trace[:, 1:]),
        "proof": None if solution.evidence is None else joblib.hash(path.read_bytes()),
    }


def same_under_all_clocks(call, folder):
    """Run a call under every clock and compare; return the answer of the first."""
    found = {}
    for name, source in CLOCKS.items():
        with clock.substituted(source()):
            found[name] = answer(call(), folder)
        assert found[name] == found["standing"], name
    return found["standing"]


@pytest.mark.parametrize(
    ("entry", "kernel"),
    [
        pytest.param(entry, kernel, id=f"{entry.name}-{kernel}")
        for entry in FAST
        for kernel in ((None, sx.RBF(0.5)) if entry.takes.kernel else (None,))
    ],
)
def test_a_specialised_solver_takes_no_choice_from_the_clock(entry, kernel, tmp_path):
    solver, (X, y) = entry.fast.load(), make_data(n=40, d=3)
    keywords = {**entry.builder().example, **({} if kernel is None else {"kernel": kernel})}
    if entry.name == "hard_margin":
        X = X + 6.0 * np.where(y == y.max(), 1.0, -1.0)[:, None]
    same_under_all_clocks(lambda: solver(X, y, **keywords), tmp_path)


@pytest.mark.parametrize(
    "entry",
    [entry for entry in CATALOGUE.values() if entry.estimator is not None],
    ids=lambda entry: entry.name,
)
def test_an_estimator_takes_no_choice_from_the_clock(entry, tmp_path):
    X, y = make_data(n=40, d=3)
    labels = np.arange(40) % 3 if entry.takes.several_classes else y
    face = entry.estimator.load()(time_limit=None)
    same_under_all_clocks(lambda: face.fit(X, labels).solution_, tmp_path)


def test_the_search_takes_no_choice_from_the_clock_or_the_number_of_threads(tmp_path, monkeypatch):
    """Long enough for several rounds of dives and better starting points."""
    X, y = outlier_data(60, 2, sigma=1.0, outliers="spread", seed=1)
    settings = SearchSettings(expansions=4, round_work=1e5, easy=1e6)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(indicator, "available_threads", lambda threads=threads: threads)
        search = partial(zero_one, X, y, lam=1.0, settings=settings)
        found.append(
            same_under_all_clocks(search, tmp_path) if threads > 1 else answer(search(), tmp_path)
        )
    assert found[0] == found[1]
    assert found[0]["attempts"][0].options["nodes"] > 200


def test_rows_of_a_kernel_do_not_depend_on_the_number_of_threads(tmp_path, monkeypatch):
    X, y = make_data(n=1200, d=3)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(kernel_rows, "available_threads", lambda threads=threads: threads)
        found.append(answer(sx.fast.psvm(X, y, p=1.5, kernel=sx.RBF(0.5), tol=1e-3), tmp_path))
    assert found[0] == found[1]


@pytest.mark.parametrize("build", ["psvm_dual", "odm_primal", "zero_one_mio"])
def test_a_builder_and_its_solvers_take_no_choice_from_the_clock(build, tmp_path, monkeypatch):
    # Points that do not suffice make the second opinion's turn come.
    monkeypatch.setattr(
        "svmcvx.formulations.margin.solve_support_equations", lambda *given, **named: None
    )
    X, y = make_data(n=12, d=2)
    builders = {builder.name: builder for entry in CATALOGUE.values() for builder in entry.builders}
    short = {"clarabel": {"max_iter": 4}} if build == "psvm_dual" else None
    found = same_under_all_clocks(
        lambda: sx.solve(
            builders[build].load()(X, y, **builders[build].example), solver_options=short
        ),
        tmp_path,
    )
    tried = [attempt for attempt in found["attempts"] if not attempt.status.passed_over]
    assert [attempt.solver for attempt in tried][1:] == (["SCS"] if short else [])


def test_select_and_compare_take_no_choice_from_the_clock():
    X, y = make_data(n=60, d=3)
    tables = []
    machine = sx.PSVMClassifier(kernel="rbf")
    for source in CLOCKS.values():
        with clock.substituted(source()):
            both = (
                sx.select(machine, {"C": [0.1, 1.0, 10.0]}, X, y, cv=3),
                sx.compare([sx.PSVMClassifier(p=1.5), sx.ODMClassifier()], X, y),
            )
            tables.append([table.drop(columns="seconds").to_csv() for table in both])
    assert tables[0] == tables[1] == tables[2]


def test_rows_in_blocks_are_summed_in_the_same_parts_by_any_number_of_threads(monkeypatch):
    X, y = make_data(n=400, d=3)
    found = []
    for threads in (1, 3, 30):
        monkeypatch.setattr("svmcvx.row_blocks.available_threads", lambda threads=threads: threads)
        blocks = sx.RowBlocks(
            [partial(lambda a: (X[a : a + 8], y[a : a + 8]), a) for a in range(0, 400, 8)],
            labelled=True,
        )
        solution = sx.fast.psvm(blocks, blocks.y, p=1.5)
        parts = solution.model.coef, solution.model.intercept, solution.trace[:, 1:]
        found.append((joblib.hash(parts), repr(solution.certificate)))
    assert found[0] == found[1] == found[2]
