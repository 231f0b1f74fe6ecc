"""Solvers that are installed and not licensed, or for small problems only: by stand-ins, and with
MOSEK itself where it is installed.
"""

import copy
import warnings

import cvxpy as cp
import numpy as np
import pytest
from cvxpy.reductions.solvers import defines
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL

import svmcvx as sx
from svmcvx.solve import backends, policy
from tests.conftest import make_data

X, Y = make_data(n=30)


class LicenceError(Exception):
    """As of a commercial solver: a class of its own package, below Exception."""


LicenceError.__module__ = "mosek"


class Unlicensed(CLARABEL):
    """Takes every problem, and raises when it is called."""

    MIP_CAPABLE = True
    MI_SUPPORTED_CONSTRAINTS = CLARABEL.SUPPORTED_CONSTRAINTS
    error: Exception = LicenceError("License cannot be located")
    calls = 0

    def name(self):
        return "MOSEK"

    def solve_via_data(self, *args, **keywords):
        type(self).calls += 1
        raise self.error


@pytest.fixture
def unlicensed(monkeypatch):
    monkeypatch.setitem(defines.SOLVER_MAP_CONIC, "MOSEK", Unlicensed())
    monkeypatch.setattr(Unlicensed, "calls", 0)


def constrained():
    primal = sx.odm_primal(X, Y)
    return primal.with_constraints([primal.var_dict["w"] >= 0])


BUILDS = {
    "QP": lambda: sx.psvm_primal(X, Y, C=1.0, p=1.0),
    "power cone": lambda: sx.psvm_dual(X, Y, C=1.0, p=1.5, kernel=sx.RBF(0.5)),
    "SDP": lambda: sx.conic_sdp(X[:8], Y[:8], lam=1.0),
    "MIQP": lambda: sx.zero_one_mio(X[:8], Y[:8], lam=0.1),
    "more constraints": constrained,
}


@pytest.mark.parametrize("kind", BUILDS)
def test_a_plain_solve_takes_a_free_solver(kind, unlicensed):
    x = cp.Variable()
    with pytest.raises(LicenceError):
        cp.Problem(cp.Minimize(x), [x >= 0]).solve()
    problem = BUILDS[kind]()
    value = problem.solve()
    assert Unlicensed.calls == 1
    solved = sx.solve(problem, solver="scip" if kind == "MIQP" else "clarabel").certificate
    assert value == pytest.approx(solved.upper, rel=1e-4)


def test_a_solver_that_is_named_is_called(unlicensed):
    problem = sx.psvm_primal(X, Y)
    with pytest.raises(LicenceError):
        problem.solve(solver="MOSEK")
    assert problem.solve(solver="CLARABEL") > 0


def test_a_copy_is_compiled_on_its_own():
    problem = sx.psvm_primal(X, Y, C=1.0, p=2.0)
    w = problem.var_dict["w"]
    for built in (problem, problem.with_constraints([w <= 0.1])):
        solved = sx.solve(built, solver="clarabel")
        twin = copy.copy(built)
        assert type(twin) is type(built)
        assert twin.value is None
        assert twin.var_dict["w"] is w
        again = sx.solve(twin, solver="clarabel")
        assert again.certificate.upper == pytest.approx(solved.certificate.upper, rel=1e-9)
    # Parameters are the same objects, as in a copy of any cvxpy problem.
    twin = copy.copy(problem)
    problem.C.value = 3.0
    assert twin.formulation.C == 3.0


# Licences for small problems


SAYINGS = [
    (
        "Model too large for size-limited license; visit https://gurobi.com/unrestricted for more"
        " information"
    ),
    "?120 Error: Problem has too many rows and columns. The maximum is 5000",
    "The size of the model exceeds the limit of the license",
]


@pytest.mark.parametrize("said", SAYINGS)
def test_a_licence_for_small_problems_is_told(said, monkeypatch):
    genuine = cp.Problem.solve

    def solve(problem, *args, **keywords):
        if keywords.get("solver") != "GUROBI":
            return genuine(problem, *args, **keywords)
        if problem.size_metrics.num_scalar_variables > 2000:
            raise RuntimeError(said)
        keywords["solver"] = "CLARABEL"
        return genuine(problem, *args, **keywords)

    policy._probe.cache_clear()
    monkeypatch.setattr(cp.Problem, "solve", solve)
    monkeypatch.setattr(policy, "installed", lambda card: card.name == "GUROBI")
    info = next(info for info in sx.available_solvers() if info.name == "GUROBI")
    policy._probe.cache_clear()
    assert (info.usable, info.licence) == (True, "size-limited")
    assert policy.failure(RuntimeError(said)).startswith(
        "the problem exceeds the size-limited licence"
    )
    assert policy.failure(RuntimeError("no\n start")) == "RuntimeError: no start"


def test_an_error_that_kept_a_solver_from_starting_is_found_again():
    class Model:
        Status = backends.LOADED

        def optimize(self):
            raise RuntimeError(SAYINGS[0])

    problem = sx.zero_one_mio(X[:8], Y[:8], lam=0.1)
    with pytest.raises(RuntimeError, match="size-limited"):
        backends.proved_bound(problem, "GUROBI", {"model": Model()}, 0.0)


def test_a_problem_beyond_the_licence_goes_to_the_next_solver(monkeypatch):
    genuine = backends.run

    def run(problem, card, opts, **keywords):
        if card.name == "GUROBI":
            raise RuntimeError(SAYINGS[0])
        return genuine(problem, card, opts, **keywords)

    monkeypatch.setattr(backends, "run", run)
    monkeypatch.setattr(policy, "installed", lambda card: card.name in ("GUROBI", "SCIP"))
    monkeypatch.setattr(policy, "licence_problem", lambda name: None)
    problem = sx.zero_one_mio(X[:8], Y[:8], lam=0.1)
    solution = sx.solve(problem)
    assert [attempt.solver for attempt in solution.attempts] == ["MOSEK", "GUROBI", "SCIP"]
    assert solution.attempts[1].reason.startswith("the problem exceeds the size-limited licence")
    assert solution.solver_reason == (
        "MIQP: SCIP, since MOSEK is not installed and GUROBI ended with error"
    )
    with pytest.raises(sx.SolverFailed, match="the problem exceeds the size-limited licence"):
        sx.solve(problem, solver="gurobi")


# MOSEK itself, up to its licence


def test_mosek_itself_is_probed_not_trusted(monkeypatch):
    mosek = pytest.importorskip("mosek")
    assert policy.installed(policy.SOLVERS["MOSEK"])
    reason, problem = policy.licence_problem("MOSEK"), sx.psvm_primal(X, Y, C=1.0, p=1.0)
    solution = sx.solve(problem)
    assert solution.certificate.is_certified(1e-6)
    assert solution.solver == "MOSEK" if reason is None else "CLARABEL"
    if reason is not None:
        first = solution.attempts[0]
        assert (first.solver, first.reason) == ("MOSEK", "not licensed")
        with pytest.raises(sx.SolverFailed, match="not licensed") as failure:
            sx.solve(problem, solver="mosek")
        assert reason in str(failure.value)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of MOSEK, on the format of arrays
        value = problem.solve()
        assert problem.solver_stats.solver_name == "CLARABEL"
        free = sx.solve(problem, solver="clarabel").certificate.upper
        assert value == pytest.approx(free, rel=1e-5)
        if reason is not None:
            x = cp.Variable(2)
            with pytest.raises(mosek.Error, match=r"(?i)license"):
                cp.Problem(cp.Minimize(cp.sum_squares(x - np.ones(2)))).solve()
    # Up to the licence: the probe is answered for it, and the call reaches MOSEK itself.
    monkeypatch.setattr(policy, "licence_problem", lambda name: None)
    first = sx.solve(problem).attempts[0]
    assert first.solver == "MOSEK"
    assert first.options["mosek_params"]["MSK_DPAR_INTPNT_CO_TOL_REL_GAP"] == 1e-8
    if reason is not None:
        assert first.status == "error"
        assert "icense" in first.reason
