"""Mixed-integer solves: the solver's bound, starting points, time limits, Ctrl-C, on toys that know
their answers.
"""

import itertools
import math
import os
import signal
import subprocess
import sys

import cvxpy as cp
import numpy as np
import pyscipopt
import pytest

import svmcvx as sx
from svmcvx.certificate import Evaluation, SolverBound
from svmcvx.errors import SolverFailed
from svmcvx.formulations.base import Formulation, RecoveredPoints
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.solution import Status
from svmcvx.solve import backends, policy
from svmcvx.system import clock


class Choice:
    """A toy model: the items chosen."""

    n_support = 0

    def __init__(self, x):
        self.x = np.asarray(x, dtype=float)


class ToyStatement(Formulation):
    """Minimise a function of a binary vector subject to a test of feasibility."""

    name = "toy"
    kind = "mixed-integer"
    hyperparameters = {}  # noqa: RUF012
    facts = {}  # noqa: RUF012

    def __init__(self, cost, feasible):
        self.cost, self.feasible = cost, feasible

    def evaluate(self, model):
        return Evaluation(self.cost(model.x) if self.feasible(model.x) else math.inf, 0.0)

    def repair(self, dual):
        return dual

    def dual_violation(self, dual):
        return math.inf

    def evaluate_dual(self, dual):
        return Evaluation(-math.inf, 0.0)


class Toy(FormulationProblem):
    known = None

    def recover(self):
        x = self.var_dict["x"].value
        found = [] if x is None else [Choice(np.round(x))]
        return RecoveredPoints(found + ([] if self.known is None else [Choice(self.known)]), [])

    def start(self):
        return None if self.known is None else {"x": self.known}


VALUES, SIZES, CAPACITY = np.array([5.0, 4, 3, 7, 6, 2]), np.array([2.0, 3, 1, 4, 5, 2]), 9.0


def knapsack(known=None):
    """Maximise the value plus a constant, so that sign and offset of bounds matter."""
    x = cp.Variable(6, boolean=True, name="x")
    problem = Toy(
        cp.Maximize(VALUES @ x + 100),
        [SIZES @ x <= CAPACITY],
        ToyStatement(lambda v: -float(VALUES @ v) - 100.0, lambda v: SIZES @ v <= CAPACITY),
    )
    problem.known = known
    return problem


BEST_VALUE = max(
    float(VALUES @ v)
    for v in (np.array(bits) for bits in itertools.product([0, 1], repeat=6))
    if SIZES @ v <= CAPACITY
)

TARGET = np.array([0.4, 1.7, -0.2, 0.9])


def closest(known=None):
    """The binary vector of sum at most 2 closest to a target: a quadratic objective, for which
    compilation adds a variable.
    """
    x = cp.Variable(4, boolean=True, name="x")
    problem = Toy(
        cp.Minimize(cp.sum_squares(x - TARGET) + 3),
        [cp.sum(x) <= 2],
        ToyStatement(lambda v: float(np.sum((v - TARGET) ** 2)) + 3, lambda v: v.sum() <= 2),
    )
    problem.known = known
    return problem


def market_split(rows=4, columns=30, seed=0):
    """An equality problem that no solver finishes soon, relaxed by slacks so that points are easy
    to find.
    """
    rng = np.random.default_rng(seed)
    D = rng.integers(0, 100, size=(rows, columns)).astype(float)
    d = np.floor(D.sum(axis=1) / 2)
    x = cp.Variable(columns, boolean=True, name="x")
    return Toy(
        cp.Minimize(cp.norm1(D @ x - d)),
        [],
        ToyStatement(lambda v: float(np.abs(D @ v - d).sum()), lambda v: True),
    )


@pytest.mark.parametrize("solver", ["scip", "highs"])
def test_bound_and_optimum_of_a_maximisation_with_an_offset(solver):
    solution = sx.solve(knapsack(), solver=solver)
    certificate, residuals = solution.certificate, solution.certificate.residuals
    assert (certificate.kind, certificate.upper) == ("mixed-integer", -BEST_VALUE - 100)
    assert certificate.gap <= 1e-6
    assert residuals["solver_bound"] == pytest.approx(-BEST_VALUE - 100, rel=1e-6)
    assert certificate.lower == residuals["solver_bound"] - residuals["solver_allowance"]
    assert (solution.status, solution.warm_start_used) == (Status.OPTIMAL, False)
    start = np.array([1.0, 0, 1, 0, 0, 0])
    assert sx.solve(knapsack(start), solver=solver).warm_start_used
    assert not sx.solve(knapsack(start), solver=solver, warm_start=False).warm_start_used


def test_an_infeasible_start_is_not_used():
    solution = sx.solve(knapsack(np.ones(6)), solver="scip")
    assert not solution.warm_start_used
    assert solution.certificate.upper == -BEST_VALUE - 100


def test_a_start_is_completed_where_compilation_added_variables():
    first = np.array([0.0, 1, 0, 0])
    solution = sx.solve(closest(first))
    assert solution.warm_start_used
    few = (np.array(bits) for bits in itertools.product([0, 1], repeat=4) if sum(bits) <= 2)
    best = min(np.sum((bits - TARGET) ** 2) for bits in few)
    assert solution.certificate.upper == pytest.approx(best + 3, abs=1e-12)
    assert solution.certificate.gap <= 1e-6
    problem = closest()
    data, _, _ = problem.get_problem_data(backends.SCIPWithBound())
    start = backends.starting_point(problem, data, {"x": first})
    assert float(data["c"] @ start) == pytest.approx(np.sum((first - TARGET) ** 2), abs=1e-12)
    assert backends.starting_point(problem, data, {}) is None


def until_bounded(problem):
    """Solve with limits that are too short for the optimum, the last long enough for a bound; the
    package's clock stands still, so that all of a limit is SCIP's.
    """
    limit = 0.1
    with clock.substituted(lambda: 0.0):
        while (
            solution := sx.solve(problem, solver="scip", time_limit=limit)
        ).certificate.lower is None:
            limit *= 2.0
    return solution


def test_a_time_limit_leaves_the_incumbent_and_what_was_proved():
    solution = until_bounded(market_split(columns=40))
    certificate = solution.certificate
    assert solution.status is Status.TIME_LIMIT
    assert certificate.lower is not None
    assert certificate.lower <= certificate.upper
    assert certificate.gap > 1e-6
    assert "exceeds" in solution.attempts[-1].reason


def test_without_point_and_incumbent_there_is_no_solution():
    # Equality rows: no point is found in a moment.
    rng = np.random.default_rng(0)
    D = rng.integers(0, 100, size=(5, 50)).astype(float)
    x = cp.Variable(50, boolean=True, name="x")
    problem = Toy(
        cp.Minimize(cp.sum(x)),
        [D @ x == np.floor(D.sum(axis=1) / 2)],
        ToyStatement(lambda v: float(v.sum()), lambda v: True),
    )
    with pytest.raises(SolverFailed, match="without a point"):
        sx.solve(problem, solver="scip", solver_options={"limits/nodes": 1})


def test_the_known_point_is_returned_with_the_bound_when_the_solver_has_none(monkeypatch):
    problem = closest(np.array([0.0, 1, 0, 0]))
    outcome = backends.Outcome(
        Status.TIME_LIMIT, "timelimit", False, 0.0, 0.0, bound=SolverBound(3.0, 0.5)
    )
    monkeypatch.setattr(backends, "run", lambda *arguments, **options: outcome)
    solution = sx.solve(problem, solver="scip")
    assert list(solution.model.x) == [0, 1, 0, 0]
    assert solution.certificate.lower == 2.5
    assert solution.status is Status.TIME_LIMIT


def test_infeasible_problems_are_explained():
    problem = knapsack()
    rows = [*problem.constraints, cp.sum(problem.var_dict["x"]) >= 6]
    wrong = Toy(problem.objective, rows, problem.formulation)
    with pytest.raises(SolverFailed, match="the problem is infeasible"):
        sx.solve(wrong, solver="scip")


@pytest.mark.parametrize("excess", [1e-4, 1.0, 1e9])
def test_a_wrong_bound_is_dropped_and_named(monkeypatch, excess):
    monkeypatch.setattr(
        backends, "proved_bound", lambda *_: SolverBound(BEST_VALUE + 100 - excess, 1e-7)
    )  # of a maximisation: too low
    solution = sx.solve(knapsack(), solver="scip")
    assert solution.certificate.lower is None
    assert not solution.certificate.is_certified(1e9)
    assert "it is wrong" in solution.attempts[-1].reason


def test_ctrl_c_stops_scip_and_leaves_nothing_broken(monkeypatch):
    problem = market_split(columns=45)
    handler = signal.getsignal(signal.SIGINT)
    # Another process presses the keys while SCIP is at work.
    code = f"import os, signal; os.kill({os.getpid()}, signal.SIGINT)"
    pressing = []

    class Begun(pyscipopt.Model):
        def optimizeNogil(self):
            pressing.append(subprocess.Popen([sys.executable, "-c", code]))
            super().optimizeNogil()

    monkeypatch.setattr(pyscipopt, "Model", Begun)
    with pytest.raises(KeyboardInterrupt):
        sx.solve(problem, solver="scip", time_limit=600)
    monkeypatch.undo()
    assert [process.wait() for process in pressing] == [0]
    assert signal.getsignal(signal.SIGINT) is handler
    assert until_bounded(problem).status is Status.TIME_LIMIT
    assert sx.solve(knapsack(), solver="scip").certificate.gap <= 1e-6


def test_options_of_mixed_integer_solvers():
    solution = sx.solve(
        knapsack(), solver="scip", solver_options={"limits/nodes": 7}, time_limit=5.0
    )
    given = solution.attempts[-1].options["scip_params"]
    assert given["limits/nodes"] == 7
    assert given["numerics/feastol"] == policy.FEASIBILITY
    assert 0 < given["limits/time"] <= 5.0
    stopped = sx.solve(market_split(columns=40), solver="scip", solver_options={"limits/nodes": 1})
    assert stopped.status is Status.ITERATION_LIMIT
    with pytest.raises(SolverFailed, match="no_such_parameter"):
        sx.solve(knapsack(), solver="scip", solver_options={"limits/no_such_parameter": 1})
