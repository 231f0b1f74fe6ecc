"""Mixed-integer solvers: the bound that they prove, and the point that they start from.

cvxpy drops the bound that SCIP has proved, offers it no starting point, and takes Ctrl-C for an
error. Bounds of the other solvers are found in what cvxpy keeps of them.

SCIP solves to feasibility tolerances of 1e-6 by default: its incumbent may be below the true
optimum by an amount that these tolerances allow, and so may its bound, which is pruned against that
incumbent. Here solvers use 1e-7, which costs little time (SCIP's simplex method refuses less). A
bound from linear programs in floating point has errors of the order of the dual tolerance, and
:data:`ALLOWANCE` times its size is subtracted from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import cvxpy as cp
import cvxpy.settings as cps
import numpy as np
from cvxpy.reductions.solvers.conic_solvers.conic_solver import dims_to_solver_dict
from cvxpy.reductions.solvers.conic_solvers.scip_conif import SCIP

from svmcvx.arrays import Floats
from svmcvx.certificate import SolverBound
from svmcvx.solve.policy import FEASIBILITY
from svmcvx.system import clock

# Relative error that is subtracted from a bound that a solver reports.
ALLOWANCE = FEASIBILITY
# Gurobi's status of a model that was not optimised.
LOADED = 1
# Entry of SCIP's data that holds the point to start from, complete and in the solver's own
# coordinates.
START = "svmcvx_start"

_STATUS = {
    "optimal": cps.OPTIMAL,
    "gaplimit": cps.OPTIMAL,
    "infeasible": cps.INFEASIBLE,
    "unbounded": cps.UNBOUNDED,
    "inforunbd": cps.INFEASIBLE_OR_UNBOUNDED,
}


class SCIPWithBound(SCIP):
    """SCIP with its proved bound in the result, a starting point, and Ctrl-C."""

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
        found = model.getNSols() > 0
        infinity = float(model.infinity())
        bound = float(model.getDualbound())
        result: dict[str, Any] = {
            cps.SOLVE_TIME: model.getSolvingTime(),
            cps.NUM_ITERS: model.getNNodes(),
            "status": _STATUS.get(status, cps.USER_LIMIT if found else cps.SOLVER_ERROR),
            "scip_status": status,
            "bound": bound if abs(bound) < infinity else math.nan,
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
    if solver not in ("SCIP", "HIGHS"):
        return False
    start = starting_point(problem, data, values)
    if start is None:
        return False
    if solver == "SCIP":
        data[START] = start
    else:
        import highspy

        # cvxpy's interface starts HiGHS from the last result in its cache.
        solution = highspy.HighsSolution()
        solution.col_value = list(start)
        problem._solver_cache[cps.HIGHS] = (
            None,
            None,
            {"model_status": "kOptimal", "solution": solution},
        )
    return True


def start_used(solver: str, raw: Any, *, offered: bool) -> bool:
    """Return whether the solver accepted the starting point."""
    return bool(raw["start_used"]) if solver == "SCIP" else offered


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
