"""Running one solver on one cvxpy problem, keeping whatever point it ends with.

cvxpy drops the point of a solver that stopped early or in numerical trouble, because it cannot know what the
point is worth. The checker can, so the two solvers that the package depends on are wrapped here: their statuses
are kept apart from the question whether there is a point.
"""

from __future__ import annotations

import signal
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import clarabel
import cvxpy as cp
import cvxpy.settings as cps
import scipy.sparse as sp
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL, dims_to_solver_cones
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver

from svmcvx.solution import Status

__all__ = ["Outcome", "run"]


@dataclass(frozen=True)
class Outcome:
    """How a solver ended; the point itself is in the problem's variables.

    Attributes
    ----------
    status : Status
    message : str
        The solver's own word for it.
    has_point : bool
    compile_seconds, solve_seconds : float
    """

    status: Status
    message: str
    has_point: bool
    compile_seconds: float
    solve_seconds: float


@contextmanager
def _deferred_interrupt() -> Iterator[threading.Event]:
    """Note Ctrl-C in an event instead of raising, and raise when the block ends.

    An exception cannot cross a solver written in another language; it asks for the event instead.
    """
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return
    previous = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, previous)
    if pressed.is_set():
        raise KeyboardInterrupt


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
        solver = clarabel.DefaultSolver(P, q, A, b, cones, self.parse_solver_opts(verbose, solver_opts))
        with _deferred_interrupt() as pressed:
            solver.set_termination_callback(lambda info: pressed.is_set())
            return solver.solve()


_CLARABEL = _InterruptibleClarabel()

_CLARABEL_STATUS = {
    "Solved": Status.OPTIMAL,
    "AlmostSolved": Status.INACCURATE,
    "PrimalInfeasible": Status.INFEASIBLE,
    "DualInfeasible": Status.UNBOUNDED,
    "MaxIterations": Status.ITERATION_LIMIT,
    "MaxTime": Status.TIME_LIMIT,
    "CallbackTerminated": Status.INTERRUPTED,
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
    return _CVXPY_STATUS.get(status, Status.NUMERICAL), status


def run(problem: cp.Problem, solver: str, options: dict[str, Any], *, verbose: bool, warm_start: bool) -> Outcome:
    """Solve `problem` with one solver and leave its point in the variables.

    Parameters
    ----------
    problem : cvxpy.Problem
    solver : str
        Name in the policy's table.
    options : dict
        In the solver's spelling.
    verbose, warm_start : bool

    Raises
    ------
    Exception
        Whatever the solver or cvxpy raise.
    """
    with warnings.catch_warnings():
        # "Solution may be inaccurate": the certificate says by how much.
        warnings.simplefilter("ignore")
        data, chain, inverse = problem.get_problem_data(
            _CLARABEL if solver == "CLARABEL" else solver, enforce_dpp=True, solver_opts=options
        )
        started = time.perf_counter()
        raw = chain.solve_via_data(problem, data, warm_start, verbose, dict(options))
        seconds = time.perf_counter() - started
        solution = chain.invert(raw, inverse)
        status, message = _native_status(solver, raw, solution.status)
        if solution.status in cps.SOLUTION_PRESENT or solution.status in cps.INF_OR_UNB:
            problem.unpack(solution)
        return Outcome(
            status=status,
            message=message,
            has_point=solution.status in cps.SOLUTION_PRESENT,
            compile_seconds=float(problem.compilation_time or 0.0),
            solve_seconds=seconds,
        )
