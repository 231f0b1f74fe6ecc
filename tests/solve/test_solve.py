"""The solve layer: policy, options, fallback, limits, interruption."""

import contextlib
import ctypes
import os
import pickle
import signal
import threading
from importlib.util import find_spec
from unittest.mock import ANY

import clarabel
import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL

import svmcvx as sx
from svmcvx.solve import backends, policy
from svmcvx.solve.policy import ProblemClass
from svmcvx.system import clock
from tests.conftest import make_data

X, Y = make_data(n=30)
X_APART = np.random.default_rng(0).uniform(-1, 1, (5, 2))


def small(p=1.5, **keywords):
    return sx.psvm_dual(X, Y, C=1.0, p=p, kernel=sx.RBF(0.5), **keywords)


def large(n):
    data, labels = make_data(seed=1, n=n, d=5)
    return sx.psvm_dual(data, labels, C=1.0, p=1.3, kernel=sx.RBF(0.5))


# Classes and order


def problem_classes():
    x, z, W = cp.Variable(2), cp.Variable(2, boolean=True), cp.Variable((2, 2), symmetric=True)
    linear, quadratic = cp.sum(x), cp.sum_squares(x)
    yield ProblemClass.LP, cp.Problem(cp.Minimize(linear), [x >= 0])
    yield ProblemClass.QP, cp.Problem(cp.Minimize(quadratic), [x >= 0])
    yield ProblemClass.SOCP, cp.Problem(cp.Minimize(linear), [cp.norm(x) <= 1])
    yield ProblemClass.SOCP, cp.Problem(cp.Minimize(cp.sum(cp.power(x, 3))), [x >= 0])
    yield ProblemClass.SDP, cp.Problem(cp.Minimize(cp.trace(W)), [W >> np.eye(2)])
    yield ProblemClass.SDP, cp.Problem(cp.Minimize(cp.trace(cp.Variable((2, 2), PSD=True))))
    yield ProblemClass.MILP, cp.Problem(cp.Minimize(linear), [x >= z])
    yield ProblemClass.MIQP, cp.Problem(cp.Minimize(quadratic), [x >= z])
    yield ProblemClass.MISOCP, cp.Problem(cp.Minimize(linear), [cp.norm(x) <= cp.sum(z)])
    yield ProblemClass.MISOCP, cp.Problem(cp.Minimize(cp.sum(cp.power(x, 3))), [x >= z])
    yield ProblemClass.MIXED_POWER, cp.Problem(cp.Minimize(cp.sum(cp.exp(x))), [x >= z])
    yield ProblemClass.QP, small(1.0)
    yield ProblemClass.QP, small(2.0)
    yield ProblemClass.SOCP, small(1.5)


@pytest.mark.parametrize(("kind", "problem"), list(problem_classes()))
def test_problems_are_classified_by_what_they_are(kind, problem):
    assert policy.classify(problem) is kind


def test_what_no_solver_takes_is_refused():
    x, W = cp.Variable(boolean=True), cp.Variable((2, 2), PSD=True)
    with pytest.raises(sx.BuildError, match="mixed-integer semidefinite"):
        policy.classify(cp.Problem(cp.Minimize(x + cp.trace(W))))
    with pytest.raises(sx.BuildError, match="DCP"):
        policy.classify(cp.Problem(cp.Minimize(cp.sqrt(cp.Variable()))))


def test_the_order_puts_mosek_first():
    for kind, names in policy.ORDER.items():
        assert names[0] == "MOSEK"
        assert all(kind in policy.SOLVERS[name].classes for name in names)


def test_available_solvers_tell_installed_from_licensed():
    found = {info.name: info for info in sx.available_solvers()}
    assert found["SCS"].usable
    assert (found["CLARABEL"].usable, found["CLARABEL"].licence) == (True, "not needed")
    assert set(found) == set(policy.SOLVERS)
    assert all(info.usable <= info.installed and info.install for info in found.values())


# Licences


def test_a_probe_reports_any_exception(monkeypatch):
    def fail(*args, **kwargs):
        raise RuntimeError("broken\n installation")

    policy._probe.cache_clear()
    monkeypatch.setattr(cp.Problem, "solve", fail)
    assert policy.licence_problem("MOSEK") == "broken installation"
    assert policy.licence_problem("CLARABEL") is None
    policy._probe.cache_clear()


# Options


def words(solver, kind=ProblemClass.QP, **keywords):
    card = policy.SOLVERS[solver]
    return policy.limited(card, policy.translate(card, kind, tol=1e-7, **keywords), 5.0)


def test_tolerance_and_time_limit_in_each_solvers_words():
    clarabel_words = {"tol_gap_abs": 1e-7, "tol_gap_rel": 1e-7, "tol_feas": 1e-7, "time_limit": 5.0}
    assert words("CLARABEL").items() >= clarabel_words.items()
    assert all(hasattr(clarabel.DefaultSettings(), name) for name in words("CLARABEL"))
    assert words("SCS") == {"eps_abs": 1e-7, "eps_rel": 1e-7, "time_limit_secs": 5.0}
    given = words("MOSEK", ProblemClass.SOCP)
    assert given.pop("accept_unknown")
    assert given == {
        "mosek_params": {
            "MSK_DPAR_INTPNT_CO_TOL_REL_GAP": 1e-7,
            "MSK_DPAR_INTPNT_CO_TOL_PFEAS": 1e-7,
            "MSK_DPAR_INTPNT_CO_TOL_DFEAS": 1e-7,
            "MSK_DPAR_OPTIMIZER_MAX_TIME": 5.0,
        }
    }


def test_raw_options_win_but_for_a_longer_time_limit():
    merged = words("CLARABEL", raw={"tol_feas": 1e-3, "max_iter": 7, "time_limit": 6.0})
    assert merged["time_limit"] == 5.0
    assert words("SCIP", raw={"limits/time": 2.0})["scip_params"]["limits/time"] == 2.0
    assert (merged["tol_feas"], merged["tol_gap_rel"], merged["max_iter"]) == (1e-3, 1e-7, 7)
    own = {"MSK_DPAR_INTPNT_CO_TOL_PFEAS": 1e-3}
    flat = words("MOSEK", raw=own)
    assert flat == words("MOSEK", raw={"mosek_params": own})
    assert flat["mosek_params"].items() >= own.items()


@pytest.fixture
def unpolished(monkeypatch):
    """Take a solver's point as it is: solving the support equations would rescue even a poor
    one.
    """
    monkeypatch.setattr(
        "svmcvx.formulations.margin.solve_support_equations", lambda *args, **keywords: None
    )


def test_raw_options_reach_the_solver_and_are_recorded(unpolished):
    solution = sx.solve(small(), solver="clarabel", solver_options={"max_iter": 3})
    assert solution.status == "iteration_limit"
    assert solution.attempts[0].options["max_iter"] == 3
    again = sx.solve(
        small(), solver_options={"clarabel": {"max_iter": 3}, "scs": {"max_iters": 50}}
    )
    assert [attempt.status for attempt in again.attempts if attempt.solver != "MOSEK"] == [
        "iteration_limit",
        "iteration_limit",
    ]


@pytest.mark.parametrize(
    ("keywords", "error", "message"),
    [
        ({"solver": "clarabel", "solver_options": {"eps": 1}}, sx.DataError, "no option 'eps'"),
        ({"solver": "scs", "solver_options": {"tol": 1}}, sx.SolverFailed, "SCS: TypeError: 'tol'"),
        ({"solver_options": {"max_iter": 3}}, sx.DataError, "Name the solver"),
        ({"solver_options": 3}, sx.DataError, "must be a mapping"),
        ({"solver": "cplex_"}, sx.SolverUnavailable, "'clarabel'"),
        ({"solver": 3}, sx.DataError, "solver must be a name"),
        ({"solver": "scip"}, sx.SolverUnavailable, "not used for"),
        ({"solver": "osqp"}, sx.SolverUnavailable, "OSQP is not used for SOCP/power"),
        ({"solver": "clarable"}, sx.SolverUnavailable, "did you mean 'clarabel'"),
        ({"solver": "nag"}, sx.SolverUnavailable, "not installed"),
        # cvxpy alone knows this one.
        ({"solver": "scipy"}, sx.SolverFailed, "SCIPY cannot"),
        ({"tol": 0.0}, sx.DataError, "tol must be"),
        ({"tol": 2.0}, sx.DataError, "tol must be"),
        ({"time_limit": 0}, sx.DataError, "time_limit must be"),
        ({"warm_start": "yes"}, sx.DataError, "warm_start must be"),
    ],
)
def test_bad_arguments(keywords, error, message):
    with pytest.raises(error, match=message):
        sx.solve(small(), **keywords)


def test_only_our_own_problems_are_solved():
    x = cp.Variable()
    with pytest.raises(sx.BuildError, match="its own solve"):
        sx.solve(cp.Problem(cp.Minimize(x), [x >= 0]))


def test_a_solver_that_is_not_installed_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(policy, "installed", lambda card: False)
    for solver, how in {"scs": "scs", "scip": r"'svmcvx\[mip\]'"}.items():
        said = f"{solver.upper()} is not installed; run: pip install {how}"
        with pytest.raises(sx.SolverUnavailable, match=said):
            sx.solve(small(), solver=solver)
    for problem, said in (
        (small(), r"no solver for SOCP/power is installed.*svmcvx\[mosek\]"),
        (sx.zero_one_mio(X[:8], Y[:8], lam=0.1), r"no solver for MIQP .*svmcvx\[mip\]"),
    ):
        with pytest.raises(sx.SolverUnavailable, match=said):
            sx.solve(problem)


@pytest.mark.parametrize(
    ("builder", "name"), [("zero_one_mio", "zero_one"), ("ramp_mio", "ramp"), ("l0_mio", "l0")]
)
def test_without_a_mixed_integer_solver_the_specialised_one_is_named(builder, name, monkeypatch):
    monkeypatch.setattr(policy, "installed", lambda card: card.name == "CLARABEL")
    cost = {"lam" if name == "zero_one" else "C": 0.1}
    problem = getattr(sx, builder)(X[:8], Y[:8], **cost)
    for solver in ("auto", "scip"):
        with pytest.raises(sx.SolverUnavailable, match=rf"svmcvx\.fast\.{name} solves the form"):
            sx.solve(problem, solver=solver)
    assert getattr(sx.fast, name)(X[:8], Y[:8], **cost).certificate.is_certified(1e-6)
    relaxed = sx.solve(getattr(sx, builder)(X[:8], Y[:8], **cost, relax=True))
    assert relaxed.solver_reason == "QP: CLARABEL, since MOSEK is not installed"


# Fallback


@pytest.mark.parametrize(
    ("here", "status", "reason"),
    [
        ({"CLARABEL"}, "unavailable", "since MOSEK is not installed"),
        ({"MOSEK", "CLARABEL"}, "licence", "since MOSEK is not licensed"),
    ],
)
def test_the_choice_of_a_solver_and_its_reason_are_told(here, status, reason, monkeypatch):
    monkeypatch.setattr(policy, "installed", lambda card: card.name in here)
    monkeypatch.setattr(policy, "licence_problem", lambda name: "none" if name == "MOSEK" else None)
    solution = sx.solve(small())
    first, last = solution.attempts
    assert (first.solver, first.status, first.reason) == ("MOSEK", status, reason[15:])
    assert last.solver == solution.solver == "CLARABEL"
    assert solution.solver_reason == f"SOCP/power: CLARABEL, {reason}"
    assert f"Tried ({solution.solver_reason}):" in " ".join(solution.summary().split())
    assert ("after MOSEK" in repr(solution)) == (status == "licence")
    assert pickle.loads(pickle.dumps(solution)).solver_reason == solution.solver_reason  # noqa: S301
    named = sx.solve(small(), solver="clarabel")
    assert named.solver_reason == "SOCP/power: CLARABEL, which was named"
    assert [attempt.solver for attempt in named.attempts] == ["CLARABEL"]
    assert sx.fast.psvm(X, Y).solver_reason == ""


def test_the_reason_names_those_that_were_tried_before(monkeypatch):
    fail_for(monkeypatch, "CLARABEL")
    reason = sx.solve(small(), tol=1e-6).solver_reason
    assert reason == "SOCP/power: SCS, since MOSEK is not licensed and CLARABEL ended with error"


class Panic(BaseException):
    """What a solver in another language raises where it has a defect."""


def fail_for(monkeypatch, *names, error=None):
    """Let solvers raise, with MOSEK installed and not licensed."""
    genuine = backends.run

    def run(problem, card, opts, **keywords):
        if card.name in names:
            raise error or RuntimeError(f"{card.name} is out of order")
        return genuine(problem, card, opts, **keywords)

    monkeypatch.setattr(backends, "run", run)
    monkeypatch.setattr(policy, "installed", lambda card: True)
    monkeypatch.setattr(
        policy,
        "licence_problem",
        lambda name: "none here" if policy.SOLVERS[name].licence else None,
    )


@pytest.mark.parametrize(
    "error", [RuntimeError("out\n of order"), MemoryError("too large"), Panic("overflow")], ids=repr
)
def test_a_solver_that_raises_is_recorded_and_the_next_is_tried(error, monkeypatch):
    fail_for(monkeypatch, "CLARABEL", error=error)
    solution = sx.solve(small(), tol=1e-6)
    assert solution.solver == "SCS"
    found = {attempt.solver: (attempt.status, attempt.reason) for attempt in solution.attempts}
    said = f"{type(error).__name__}: {' '.join(str(error).split())}"
    assert found == {"MOSEK": ("licence", "not licensed"), "CLARABEL": ("error", said), "SCS": ANY}
    assert "after MOSEK" in repr(solution)
    assert solution.certificate.is_certified(1e-4)


def test_if_all_fail_the_chain_is_attached_and_a_missing_licence_named_last(monkeypatch):
    fail_for(monkeypatch, "CLARABEL", "SCS")
    with pytest.raises(sx.SolverFailed) as caught:
        sx.solve(small())
    assert str(caught.value) == (
        "no solver produced a point: CLARABEL: RuntimeError: CLARABEL is out of order; SCS:"
        " RuntimeError: SCS is out of order; MOSEK: not licensed"
    )
    assert [attempt.solver for attempt in caught.value.attempts] == ["MOSEK", "CLARABEL", "SCS"]
    twin = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert twin.attempts == caught.value.attempts


def test_a_poor_point_is_judged_by_its_gap_and_the_best_is_kept(unpolished):
    solution = sx.solve(
        large(200), solver_options={"clarabel": {"max_iter": 4}, "scs": {"max_iters": 20}}
    )
    tried = [attempt for attempt in solution.attempts if not attempt.status.passed_over]
    assert [attempt.solver for attempt in tried] == ["CLARABEL", "SCS"]
    assert all("certified gap" in attempt.reason for attempt in tried)
    assert solution.certificate.gap == min(attempt.gap for attempt in tried)
    assert solution.certificate.lower <= solution.certificate.upper


# Limits and interruption


def test_a_time_limit_gives_the_best_point_with_its_interval():
    # The package's clock stands still, so that the limit falls into the solve.
    with clock.substituted(lambda: 0.0):
        solution = sx.solve(large(60), time_limit=1e-6, solver="clarabel")
    exact = sx.fast.psvm(*make_data(seed=1, n=60, d=5), C=1.0, p=1.3, kernel=sx.RBF(0.5))
    assert (solution.status, solution.attempts[0].status) == ("time_limit", "time_limit")
    assert solution.certificate.lower <= exact.certificate.upper
    assert solution.certificate.upper >= exact.certificate.lower


def test_a_time_limit_that_leaves_no_time_gives_what_is_known_without_a_solver():
    problem = small()
    solution = sx.solve(problem, time_limit=1e-9)
    assert solution.status == "time_limit"
    assert "left no time" in solution.attempts[-1].reason
    # w = 0 costs C at most for each observation, and no objective is below 0.
    lower, upper = solution.certificate.lower, solution.certificate.upper
    assert 0 <= lower <= sx.solve(problem).certificate.upper <= upper <= len(Y) * (1 + 1e-12)


def test_a_time_limit_that_leaves_no_time_says_so_where_nothing_is_known():
    X, y = np.vstack([X_APART - 3, X_APART + 3]), np.repeat([0, 1], len(X_APART))
    with pytest.raises(sx.SolverFailed, match=r"time limit left no time"):
        sx.solve(sx.hard_margin_dual(X, y), time_limit=1e-9)


def test_an_interrupt_stops_at_once_and_leaves_nothing_broken(monkeypatch):
    ended = []
    solver_of_clarabel = clarabel.DefaultSolver

    class Interrupted:
        def __init__(self, *data):
            self.solver = solver_of_clarabel(*data)
            self.set_termination_callback = self.solver.set_termination_callback

        def solve(self):
            os.kill(os.getpid(), signal.SIGINT)
            ended.append(self.solver.solve())
            return ended[0]

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patched:
            patched.setattr(clarabel, "DefaultSolver", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                sx.solve(small(), solver="clarabel")
        assert (str(ended[0].status), ended[0].iterations <= 1) == ("CallbackTerminated", True)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert sx.solve(small(), solver="clarabel").certificate.is_certified(1e-6)
    finally:
        signal.signal(signal.SIGINT, before)


def test_solving_outside_the_main_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(sx.solve(small())))
    thread.start()
    thread.join()
    assert found[0].certificate.is_certified(1e-6)


# What a solution is


def test_no_later_solve_changes_a_solution():
    problem = small()
    first = sx.solve(problem)
    kept = pickle.dumps(first)
    problem.C.value = 50.0
    sx.solve(problem)
    problem.var_dict["beta"].value = np.zeros(Y.size)
    assert pickle.dumps(first) == kept
    with pytest.raises(ValueError, match="read-only"):
        first.dual["alpha"][0] = 1.0
    with pytest.raises(AttributeError):
        first.status = "other"


def test_solutions_are_picklable_and_print_well():
    solution = sx.solve(small())
    twin = pickle.loads(pickle.dumps(solution))  # noqa: S301
    assert np.array_equal(twin.model.decision_function(X), solution.model.decision_function(X))
    assert twin.certificate == solution.certificate
    for word in ("psvm(C=1, p=1.5", "gap"):
        assert word in repr(solution)
    assert "<pre" in solution._repr_html_()
    frame = solution.to_frame()
    assert (frame.loc[0, "upper"], frame.loc[0, "C"]) == (solution.certificate.upper, 1.0)
    timings, (seconds, lower, upper) = solution.timings, solution.trace[-1]
    parts = (timings.build, timings.compile, timings.solve, timings.certify)
    assert min(*parts, seconds) > 0
    assert timings.total == pytest.approx(sum(parts))
    assert (lower, upper) == (solution.certificate.lower, solution.certificate.upper)


def test_warm_starts_are_used_where_they_can_be_and_said_to_be():
    problem = small()
    first = sx.solve(problem, solver="scs", tol=1e-6)
    assert not first.warm_start_used
    problem.C.value = 1.01
    second = sx.solve(problem, solver="scs", tol=1e-6, warm_start=first)
    assert second.warm_start_used
    assert second.certificate.is_certified(1e-4)
    assert not sx.solve(problem, solver="clarabel", warm_start=first).warm_start_used
    assert not sx.solve(small(), solver="scs", tol=1e-6, warm_start=first).warm_start_used
    with pytest.raises(sx.DataError, match="got one of other data"):
        sx.solve(sx.psvm_dual(X + 1.0, Y), warm_start=first)


def test_verbose_prints_the_solvers_log(capfd):
    sx.solve(small(), solver="clarabel", verbose=True)
    assert "Clarabel" in capfd.readouterr().out
    sx.solve(small(), solver="clarabel")
    assert capfd.readouterr().out == ""


def test_a_solver_that_is_optimal_in_its_own_opinion_only_is_asked_once_more():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 3)) * 1e4
    y = np.arange(30) % 2
    solution = sx.solve(sx.psvm_dual(X, y, C=1e-8, p=1.0), solver="clarabel")
    first = solution.attempts[0]
    assert len(solution.attempts) <= 2
    if not first.gap <= 1e-8:
        assert solution.attempts[1].solver == "CLARABEL"
        assert solution.attempts[1].options["tol_feas"] == 1e-11
        assert solution.certificate.gap <= first.gap


NAMED_ONLY = sorted(policy.SOLVERS.keys() - policy.AUTOMATIC)


@pytest.mark.parametrize("name", NAMED_ONLY)
def test_a_solver_that_is_named_is_certified_as_all_are(name):
    if not policy.installed(policy.SOLVERS[name]):
        with pytest.raises(sx.SolverUnavailable, match="is not installed; run: pip install"):
            sx.solve(sx.odm_primal(X[:8], Y[:8]), solver=name)
        return
    # So small that the licences that come with commercial solvers suffice.
    solution = sx.solve(sx.odm_primal(X[:8], Y[:8]), solver=name.lower())
    assert solution.solver == name
    assert solution.certificate.is_certified(1e-6)


class Blocked(CLARABEL):
    """A solver of somebody else's, which waits for an event."""

    def __init__(self, event):
        super().__init__()
        self.event = event

    def name(self):
        return "BLOCKED"

    def solve_via_data(self, *arguments, **keywords):
        self.event.wait()
        return super().solve_via_data(*arguments, **keywords)


def test_an_interface_of_ones_own_is_certified_and_keeps_a_limit():
    event = threading.Event()
    try:
        late = sx.solve(sx.psvm_primal(X, Y, C=1.0, p=1), solver=Blocked(event), time_limit=0.3)
        assert (late.status, late.attempts[0].solver) == (sx.Status.TIME_LIMIT, "BLOCKED")
        assert late.certificate.lower <= late.certificate.upper
    finally:
        event.set()
    ended = sx.solve(sx.psvm_primal(X, Y, C=1.0, p=1), solver=Blocked(event))
    assert (ended.solver, ended.certificate.is_certified(1e-8)) == ("BLOCKED", True)


@pytest.mark.skipif(find_spec("highspy") is None, reason="needs the extra mip")
def test_no_solver_prints_to_the_standard_output(capfd):
    rows = np.arange(6.0).reshape(-1, 1)
    for solver in ("highs", "clarabel", "scs", "scip"):
        with contextlib.suppress(sx.SolverUnavailable):
            sx.solve(sx.psvm_primal(rows, rows[:, 0] > 2, C=1.0, p=1.0), solver=solver)
    # What C has not written yet.
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out == ""
