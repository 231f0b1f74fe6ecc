"""Run one solver on one cvxpy problem and return its last point, for every status.

cvxpy drops the point of a solver that stopped early or in numerical trouble, because it cannot know
how accurate the point is. The checker can, so the two solvers that the package depends on are
wrapped here (SCIP is in :mod:`svmcvx.solve.mixed_integer`): the result has the status and,
separately, whether there is a point.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import clarabel
import cvxpy.settings as cps
import scipy.sparse as sp
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL, dims_to_solver_cones
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver

from svmcvx.certificate import SolverBound
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.solution import Status
from svmcvx.solve import mixed_integer, policy
from svmcvx.system import clock
from svmcvx.system.deadline import deferred_interrupt, interruptible, run_with_deadline


@dataclass(frozen=True)
class Outcome:
    """How a solver ended; the point itself is in the problem's variables."""

    status: Status
    message: str
    has_point: bool
    compile_seconds: float
    solve_seconds: float
    bound: SolverBound | None = None
    start_used: bool = False
    iterations: int | None = None


class _InterruptibleClarabel(CLARABEL):
    """Clarabel that stops at the next iteration after Ctrl-C and keeps its last point."""

    STATUS_MAP = {  # noqa: RUF012 - cvxpy's class attribute
        **CLARABEL.STATUS_MAP,
        CLARABEL.NUMERICAL_ERROR: cps.OPTIMAL_INACCURATE,
        CLARABEL.INSUFFICIENT_PROGRESS: cps.OPTIMAL_INACCURATE,
        "CallbackTerminated": cps.USER_LIMIT,
    }

    def name(self) -> str:
        return "SVMCVX_CLARABEL"

    def solve_via_data(
        self,
        data: Mapping[str, Any],
        warm_start: bool,
        verbose: bool,
        solver_opts: dict[str, Any],
        solver_cache: Any = None,
    ) -> Any:
        A, b, q = data[cps.A], data[cps.B], data[cps.C]
        P = sp.triu(data[cps.P]).tocsc() if cps.P in data else sp.csc_array((q.size, q.size))
        cones = dims_to_solver_cones(data[ConicSolver.DIMS])
        solver = clarabel.DefaultSolver(
            P, q, A, b, cones, self.parse_solver_opts(verbose, solver_opts)
        )
        with deferred_interrupt() as pressed:
            solver.set_termination_callback(lambda info: pressed.is_set())
            solution = solver.solve()
        if pressed.is_set():
            raise KeyboardInterrupt
        return solution


# Approximate seconds that cvxpy needs for a coefficient of a compiled problem.
COMPILE_SECONDS = 4e-7
# Solvers whose cvxpy interface is replaced by one that returns more.
_OWN: dict[str, Any] = {"CLARABEL": _InterruptibleClarabel(), "SCIP": mixed_integer.SCIPWithBound()}

_CLARABEL_STATUS = {
    "Solved": Status.OPTIMAL,
    "AlmostSolved": Status.INACCURATE,
    "PrimalInfeasible": Status.INFEASIBLE,
    "DualInfeasible": Status.UNBOUNDED,
    "MaxIterations": Status.ITERATION_LIMIT,
    "MaxTime": Status.TIME_LIMIT,
    "CallbackTerminated": Status.INTERRUPTED,
}
_SCIP_STATUS = {
    "timelimit": Status.TIME_LIMIT,
    "nodelimit": Status.ITERATION_LIMIT,
    "totalnodelimit": Status.ITERATION_LIMIT,
    "stallnodelimit": Status.ITERATION_LIMIT,
}
_CVXPY_STATUS = {
    cps.OPTIMAL: Status.OPTIMAL,
    cps.OPTIMAL_INACCURATE: Status.INACCURATE,
    cps.INFEASIBLE: Status.INFEASIBLE,
    cps.UNBOUNDED: Status.UNBOUNDED,
    cps.USER_LIMIT: Status.TIME_LIMIT,
}


def _native_status(solver: str, raw: Any, status: str) -> tuple[Status, str]:
    if solver == "CLARABEL":
        word = str(raw.status)
        return _CLARABEL_STATUS.get(word, Status.NUMERICAL), word
    if solver == "SCS":
        word = str(raw["info"]["status"])
        if "time_limit" in word:
            return Status.TIME_LIMIT, word
        if "max_iters" in word:
            return Status.ITERATION_LIMIT, word
        return _CVXPY_STATUS.get(status, Status.NUMERICAL), word
    if solver == "SCIP":
        word = raw["scip_status"]
        return _SCIP_STATUS.get(word, _CVXPY_STATUS.get(status, Status.NUMERICAL)), word
    return _CVXPY_STATUS.get(status, Status.NUMERICAL), status


@cache
def _greet_highs() -> None:
    """Construct HiGHS once with its banner, the first of a process, on the standard error."""
    import highspy

    sys.stdout.flush()
    kept = os.dup(1)
    try:
        os.dup2(2, 1)
        highspy.Highs()
    finally:
        os.dup2(kept, 1)
        os.close(kept)


def run(
    problem: FormulationProblem,
    card: policy.SolverCard,
    options: dict[str, Any],
    *,
    verbose: bool,
    warm_start: bool,
    start: Mapping[str, Any] | None = None,
    until: float = math.inf,
    canon_backend: str | None = None,
) -> Outcome:
    """Solve `problem` with one solver and store its point in the variables."""
    solver = card.name
    if solver == "HIGHS":
        with suppress(ImportError, OSError):
            _greet_highs()
    mixed = problem.is_mixed_integer()
    if mixed:
        # A solver that ends without a point leaves no stale one.
        for variable in problem.variables():
            variable.save_value(None)
    # Compilation cannot be interrupted: it is not started if it would pass the deadline.
    seconds = COMPILE_SECONDS * problem.coefficients if math.isfinite(until) else 0.0
    if seconds >= until - clock.now():
        message = f"compiling takes about {seconds:.2g} s, more than is left"
        return Outcome(Status.TIME_LIMIT, message, False, 0.0, 0.0)
    with warnings.catch_warnings():
        # "Solution may be inaccurate": the certificate says by how much.
        warnings.simplefilter("ignore")
        data, chain, inverse = problem.get_problem_data(
            card.interface or _OWN.get(solver, solver),
            enforce_dpp=True,
            canon_backend=canon_backend,
            solver_opts=options,
        )
        if start is not None:
            warm_start = mixed_integer.set_start(problem, solver, data, start)
        compiling = float(problem.compilation_time or 0.0)
        started = clock.now()
        if started >= until:
            message = "the time limit passed while compiling"
            return Outcome(Status.TIME_LIMIT, message, False, compiling, 0.0)
        options = policy.shortened(card, options, until - started)
        arguments = (problem, data, warm_start, verbose, options)
        if solver in policy.AUTOMATIC and card.interface is None:
            raw = chain.solve_via_data(*arguments)
        else:
            # Other solvers may have no limit of time, and no ear for Ctrl-C.
            with interruptible():
                raw = run_with_deadline(chain.solve_via_data, *arguments, entries=math.inf)
        seconds = clock.now() - started
        solution = chain.invert(raw, inverse)
        status, message = _native_status(solver, raw, solution.status)
        if solution.status in cps.SOLUTION_PRESENT or solution.status in cps.INF_OR_UNB:
            problem.unpack(solution)
    bound, used = None, False
    if mixed:
        bound = mixed_integer.proved_bound(problem, solver, raw, float(inverse[-1][cps.OFFSET]))
        used = start is not None and mixed_integer.start_used(solver, raw, offered=warm_start)
    return Outcome(
        status,
        message,
        solution.status in cps.SOLUTION_PRESENT,
        compiling,
        seconds,
        bound,
        used,
        solution.attr.get(cps.NUM_ITERS),
    )
