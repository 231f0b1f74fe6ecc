"""Run one solver on one cvxpy problem and return its last point and its bound, for every status.

cvxpy drops the point of a solver that stopped early or in numerical trouble, because it cannot know
how accurate the point is. The checker can, so the interfaces of Clarabel and SCIP are replaced
here: the result has the status and, separately, whether there is a point. Of mixed-integer solvers
cvxpy also drops the bound that SCIP has proved, offers it no starting point, and takes Ctrl-C for
an error; bounds of the others are found in what cvxpy keeps of them.

SCIP solves to feasibility tolerances of 1e-6 by default: its incumbent may be below the true
optimum by an amount that these tolerances allow, and so may its bound, which is pruned against that
incumbent. Here solvers use 1e-7, which costs little time (SCIP's simplex method refuses less). A
bound from linear programs in floating point has errors of the order of the dual tolerance, and
:data:`ALLOWANCE` times its size is subtracted from it.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

import clarabel
import cvxpy as cp
import cvxpy.settings as cps
import numpy as np
import scipy.sparse as sp
from cvxpy.reductions.solvers.conic_solvers.clarabel_conif import CLARABEL, dims_to_solver_cones
from cvxpy.reductions.solvers.conic_solvers.conic_solver import ConicSolver, dims_to_solver_dict
from cvxpy.reductions.solvers.conic_solvers.scip_conif import SCIP

from svmcvx.arrays import Floats
from svmcvx.certificate import SolverBound
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.solution import Status
from svmcvx.solve import policy
from svmcvx.system import clock
from svmcvx.system.deadline import deferred_interrupt, interruptible, run_with_deadline

# Relative error that is subtracted from a bound that a solver reports.
ALLOWANCE = policy.FEASIBILITY
# Gurobi's status of a model that was not optimised.
LOADED = 1
# Entry of SCIP's data that holds the point to start from, complete and in the solver's own
# coordinates.
START = "svmcvx_start"


@dataclass(frozen=True)
class Outcome:
    """How a solver ended; the point itself is in the problem's variables."""

    status: Status
    message: str
    has_point: bool = False
    compile_seconds: float = 0.0
    solve_seconds: float = 0.0
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


class SCIPWithBound(SCIP):
    """SCIP with its proved bound in the result, a starting point, and Ctrl-C."""

    STATUS_OF_SCIP = {  # noqa: RUF012 - as cvxpy's class attributes
        "optimal": cps.OPTIMAL,
        "gaplimit": cps.OPTIMAL,
        "infeasible": cps.INFEASIBLE,
        "unbounded": cps.UNBOUNDED,
        "inforunbd": cps.INFEASIBLE_OR_UNBOUNDED,
    }

    def name(self) -> str:
        """Return the name of this interface, which differs from cvxpy's."""
        return "SVMCVX_SCIP"

    def solve_via_data(
        self,
        data: dict[str, Any],
        warm_start: bool,
        verbose: bool,
        solver_opts: dict[str, Any],
        solver_cache: Any = None,
    ) -> dict[str, Any]:
        """Solve; the result has ``"bound"``, ``"start_used"`` and SCIP's own status."""
        import pyscipopt

        began = clock.now()
        model = pyscipopt.Model()
        if verbose:
            model.redirectOutput()
        start = data.get(START)
        A, b, c, dims = self._define_data(data)
        variables = self._create_variables(model, data, c)
        self._add_constraints(model, variables, A, b, dims)
        self._set_params(model, verbose, solver_opts, data, dims)
        used = start is not None and _add_start(model, variables, A, b, dims, start)
        limit = float(model.getParam("limits/time"))
        if limit < model.infinity():
            # Passing many rows to SCIP takes seconds.
            model.setParam("limits/time", max(limit - (clock.now() - began), 0.0))
        # SCIP catches Ctrl-C itself while it runs, and restores Python's handler. Other threads go
        # on.
        model.optimizeNogil()
        status = str(model.getStatus())
        if status == "userinterrupt":
            raise KeyboardInterrupt
        found, bound = model.getNSols() > 0, float(model.getDualbound())
        ended = cps.USER_LIMIT if found else cps.SOLVER_ERROR
        result: dict[str, Any] = {
            cps.SOLVE_TIME: model.getSolvingTime(),
            cps.NUM_ITERS: model.getNNodes(),
            "status": self.STATUS_OF_SCIP.get(status, ended),
            "scip_status": status,
            "bound": bound if abs(bound) < float(model.infinity()) else math.nan,
            "start_used": used,
        }
        if found:
            best = model.getBestSol()
            result["primal"] = np.array([best[variable] for variable in variables[: c.size]])
            result["value"] = float(c @ result["primal"])
        return result


def _add_start(
    model: Any, variables: list[Any], A: Any, b: Floats, dims: dict[str, Any], start: Floats
) -> bool:
    """Give SCIP a starting point; return whether SCIP accepted it as feasible."""
    rows = sum(dims[key] for key in (cps.EQ_DIM, cps.LEQ_DIM))
    # cvxpy adds one variable for each row of a second-order cone, in order.
    values = np.concatenate([start, (b - A.tocsr() @ start)[rows:]])
    solution = model.createSol()
    for variable, value in zip(variables, values, strict=True):
        model.setSolVal(solution, variable, float(value))
    if not model.checkSol(solution, printreason=False, original=True):
        model.freeSol(solution)
        return False
    return bool(model.addSol(solution))


# Solvers whose cvxpy interface is replaced by one that returns more.
_OWN: dict[str, Any] = {"CLARABEL": _InterruptibleClarabel(), "SCIP": SCIPWithBound()}
# Where a solver says in its own words how it ended, and what cvxpy has no status for, by parts of
# these words.
_WORDS: dict[str, Callable[[Any], str]] = {
    "CLARABEL": lambda raw: str(raw.status),
    "SCS": lambda raw: str(raw["info"]["status"]),
    "SCIP": lambda raw: str(raw["scip_status"]),
}
_STATUS_OF_WORDS = {
    **dict.fromkeys(("MaxTime", "time_limit", "timelimit"), Status.TIME_LIMIT),
    **dict.fromkeys(("MaxIterations", "max_iters", "nodelimit"), Status.ITERATION_LIMIT),
    **dict.fromkeys(("NumericalError", "InsufficientProgress"), Status.NUMERICAL),
    "CallbackTerminated": Status.INTERRUPTED,
}
_STATUS_OF_CVXPY = {
    cps.OPTIMAL: Status.OPTIMAL,
    cps.OPTIMAL_INACCURATE: Status.INACCURATE,
    cps.INFEASIBLE: Status.INFEASIBLE,
    cps.UNBOUNDED: Status.UNBOUNDED,
    cps.USER_LIMIT: Status.TIME_LIMIT,
}


def _status(solver: str, raw: Any, status: str) -> tuple[Status, str]:
    """Return how a solver ended, and what it or cvxpy says of it."""
    said = _WORDS[solver](raw) if solver in _WORDS else status
    known = _STATUS_OF_CVXPY.get(status, Status.NUMERICAL)
    return next((found for part, found in _STATUS_OF_WORDS.items() if part in said), known), said


def starting_point(
    problem: cp.Problem, data: Mapping[str, Any], values: Mapping[str, Any]
) -> Floats | None:
    """Return the solver's vector of variables for given values, None if undetermined."""
    x = np.full(data[cps.C].size, np.nan)
    columns = data[cps.PARAM_PROB].var_id_to_col
    for variable in problem.variables():
        if variable.id in columns and variable.name() in values:
            first = columns[variable.id]
            x[first : first + variable.size] = np.ravel(
                np.asarray(values[variable.name()], dtype=float), order="F"
            )
    A, b = data[cps.A].tocsr(), data[cps.B]
    dims = dims_to_solver_dict(data["dims"])
    row = dims[cps.EQ_DIM] + dims[cps.LEQ_DIM]
    for size in dims[cps.SOC_DIM]:
        block = A[row : row + size].toarray()
        unknown = np.flatnonzero(np.isnan(x) & block.any(axis=0))
        if unknown.size == 1:
            (t,) = unknown
            slope = -block[:, t]
            s = b[row : row + size] - block @ np.where(np.isnan(x), 0.0, x)
            scale = s[0] + s[1]
            if slope[0] > 0 and slope[1] == -slope[0] and not slope[2:].any() and scale > 0:
                x[t] = (float(s[2:] @ s[2:]) / scale - (s[0] - s[1])) / (2 * slope[0])
        row += size
    return None if np.isnan(x).any() else x


def set_start(
    problem: cp.Problem, solver: str, data: dict[str, Any], values: Mapping[str, Any]
) -> bool:
    """Pass values to a solver that can start from them; return whether it can."""
    known = solver in ("SCIP", "HIGHS")
    start = starting_point(problem, data, values) if known else None
    if start is None:
        return False
    if solver == "SCIP":
        data[START] = start
        return True
    import highspy

    # cvxpy's interface starts HiGHS from the last result in its cache.
    solution = highspy.HighsSolution()
    solution.col_value = list(start)
    cached = {"model_status": "kOptimal", "solution": solution}
    problem._solver_cache[cps.HIGHS] = (None, None, cached)
    return True


def proved_bound(problem: cp.Problem, solver: str, raw: Any, offset: float) -> SolverBound | None:
    """Return the bound on the problem's value that the solver reports, None if it has none."""
    if solver == "SCIP":
        bound = raw["bound"]
    elif solver == "HIGHS":
        bound = raw["info"].mip_dual_bound
    elif solver == "GUROBI":
        model = raw["model"]
        if model.Status == LOADED:
            # cvxpy hides the error that prevented the start, for example of a size-limited licence;
            # it is raised again here.
            model.optimize()
        bound = model.ObjBound
    elif solver == "MOSEK":
        import mosek

        bound = raw["task"].getdouinf(mosek.dinfitem.mio_obj_bound)
    else:
        return None
    # Gurobi's and HiGHS's infinities are 1e100 and larger.
    if not abs(bound) < 1e30:
        return None
    value = float(bound) + offset
    value = value if isinstance(problem.objective, cp.Minimize) else -value
    return SolverBound(value, ALLOWANCE * max(1.0, abs(value)))


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
    # Compilation cannot be interrupted: it is not started if it would pass the deadline. cvxpy
    # needs some 4e-7 seconds for a coefficient.
    if math.isfinite(until):
        seconds = 4e-7 * problem.coefficients
        if seconds >= until - clock.now():
            message = f"compiling takes about {seconds:.2g} s, more than is left"
            return Outcome(Status.TIME_LIMIT, message)
    with warnings.catch_warnings():
        # "Solution may be inaccurate": the certificate says by how much.
        warnings.simplefilter("ignore")
        data, chain, inverse = problem.get_problem_data(
            card.interface or _OWN.get(solver, solver), enforce_dpp=True, solver_opts=options
        )
        if start is not None:
            warm_start = set_start(problem, solver, data, start)
        compiling, started = float(problem.compilation_time or 0.0), clock.now()
        if started >= until:
            message = "the time limit passed while compiling"
            return Outcome(Status.TIME_LIMIT, message, compile_seconds=compiling)
        options = policy.limited(card, options, until - started)
        arguments = (problem, data, warm_start, verbose, options)
        if solver in policy.AUTOMATIC and card.interface is None:
            raw = chain.solve_via_data(*arguments)
        else:
            # Other solvers may have no limit of time, and no ear for Ctrl-C.
            with interruptible():
                raw = run_with_deadline(chain.solve_via_data, *arguments, entries=math.inf)
        seconds = clock.now() - started
        solution = chain.invert(raw, inverse)
        if solution.status in cps.SOLUTION_PRESENT or solution.status in cps.INF_OR_UNB:
            problem.unpack(solution)
    status, message = _status(solver, raw, solution.status)
    offset = float(inverse[-1][cps.OFFSET]) if mixed else 0.0
    accepted = bool(raw["start_used"]) if solver == "SCIP" else warm_start
    return Outcome(
        status,
        message,
        has_point=solution.status in cps.SOLUTION_PRESENT,
        compile_seconds=compiling,
        solve_seconds=seconds,
        bound=proved_bound(problem, solver, raw, offset) if mixed else None,
        start_used=mixed and start is not None and accepted,
        iterations=solution.attr.get(cps.NUM_ITERS),
    )
