"""Names of tolerance and time limit, translated for each solver."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from svmcvx.errors import DataError
from svmcvx.solve.mixed_integer import DUAL_FEASIBILITY, FEASIBILITY
from svmcvx.solve.policy import MIXED, ProblemClass

__all__ = ["SCS_SETTINGS", "iteration_limit", "shortened", "translate"]

# cvxpy's name of the nested dictionary in which a solver takes its parameters.
NESTED = {"MOSEK": "mosek_params", "SCIP": "scip_params"}

# For each solver the names of the options that `tol` and `time_limit` set, for convex and for
# mixed-integer problems.
TOLERANCES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "CLARABEL": (("tol_gap_abs", "tol_gap_rel", "tol_feas"), ()),
    "SCS": (("eps_abs", "eps_rel"), ()),
    "MOSEK": (
        (
            "MSK_DPAR_INTPNT_CO_TOL_REL_GAP",
            "MSK_DPAR_INTPNT_CO_TOL_PFEAS",
            "MSK_DPAR_INTPNT_CO_TOL_DFEAS",
        ),
        ("MSK_DPAR_MIO_TOL_REL_GAP",),
    ),
    "GUROBI": (("BarConvTol", "BarQCPConvTol", "FeasibilityTol", "OptimalityTol"), ("MIPGap",)),
    "SCIP": ((), ("limits/gap",)),
    "HIGHS": (
        ("primal_feasibility_tolerance", "dual_feasibility_tolerance", "ipm_optimality_tolerance"),
        ("mip_rel_gap",),
    ),
    "COPT": (("FeasTol", "DualTol", "RelGap"), ("RelGap",)),
    "XPRESS": (("BARGAPSTOP", "FEASTOL", "OPTIMALITYTOL"), ("MIPRELSTOP",)),
    "OSQP": (("eps_abs", "eps_rel"), ()),
    "PIQP": (("eps_abs", "eps_rel", "eps_duality_gap_abs", "eps_duality_gap_rel"), ()),
    "PROXQP": (("eps_abs", "eps_rel"), ()),
    "DAQP": (("primal_tol", "dual_tol"), ()),
    "QOCO": (("abstol", "reltol"), ()),
    "ECOS": (("abstol", "reltol", "feastol"), ()),
    "CVXOPT": (("abstol", "reltol", "feastol"), ()),
}
# Tolerances of mixed-integer solvers that limit the accuracy of their bounds.
FEASIBILITIES: dict[str, dict[str, float]] = {
    "MOSEK": {"MSK_DPAR_MIO_TOL_FEAS": FEASIBILITY},
    "GUROBI": {
        "FeasibilityTol": FEASIBILITY,
        "IntFeasTol": FEASIBILITY,
        "OptimalityTol": DUAL_FEASIBILITY,
    },
    "SCIP": {"numerics/feastol": FEASIBILITY, "numerics/dualfeastol": DUAL_FEASIBILITY},
    "HIGHS": {
        "primal_feasibility_tolerance": FEASIBILITY,
        "mip_feasibility_tolerance": FEASIBILITY,
        "dual_feasibility_tolerance": DUAL_FEASIBILITY,
    },
}
TIME_LIMITS: dict[str, str] = {
    "CLARABEL": "time_limit",
    "SCS": "time_limit_secs",
    "MOSEK": "MSK_DPAR_OPTIMIZER_MAX_TIME",
    "GUROBI": "TimeLimit",
    "SCIP": "limits/time",
    "HIGHS": "time_limit",
    "COPT": "TimeLimit",
    "XPRESS": "TIMELIMIT",
    "OSQP": "time_limit",
    "DAQP": "time_limit",
}
# Of convex problems; nodes of a mixed-integer solver are not iterations.
ITERATIONS: dict[str, str] = {
    "CLARABEL": "max_iter",
    "SCS": "max_iters",
    "MOSEK": "MSK_IPAR_INTPNT_MAX_ITERATIONS",
    "OSQP": "max_iter",
    "PIQP": "max_iter",
    "PROXQP": "max_iter",
    "QOCO": "max_iters",
    "ECOS": "max_iters",
    "CVXOPT": "max_iters",
}
# Always set unless overridden. MOSEK returns its point also after numerical trouble, and the
# checker evaluates it. Clarabel's own limits on short steps give up power-cone problems far from
# their optimum which it can solve to the end.
FIXED: dict[str, dict[str, Any]] = {
    "MOSEK": {"accept_unknown": True},
    "CLARABEL": {"min_switch_step_length": 1e-6, "min_terminate_step_length": 1e-8},
}

SCS_SETTINGS = frozenset(
    [
        "acceleration_interval",
        "acceleration_lookback",
        "adaptive_scale",
        "alpha",
        "eps_abs",
        "eps_infeas",
        "eps_rel",
        "linear_solver",
        "log_csv_filename",
        "max_iters",
        "normalize",
        "rho_x",
        "scale",
        "time_limit_secs",
        "use_indirect",
        "write_data_filename",
    ]
)


def _unknown(solver: str, raw: Mapping[str, Any]) -> list[str]:
    if solver == "CLARABEL":
        import clarabel

        known = {name for name in dir(clarabel.DefaultSettings()) if not name.startswith("_")}
    elif solver == "SCS":
        known = set(SCS_SETTINGS)
    else:
        return []  # their own interfaces refuse what they do not know
    return [name for name in raw if name not in known]


def translate(
    solver: str,
    kind: ProblemClass,
    *,
    tol: float,
    time_limit: float | None,
    raw: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the keyword arguments for one solver."""
    own = dict(raw or {})
    unknown = _unknown(solver, own)
    if unknown:
        raise DataError(
            f"{solver} has no option {', '.join(map(repr, unknown))}; see that solver's"
            " documentation of its settings"
        )
    parameters: dict[str, Any] = dict.fromkeys(TOLERANCES.get(solver, ((), ()))[kind in MIXED], tol)
    if kind in MIXED:
        parameters |= FEASIBILITIES.get(solver, {})
    if time_limit is not None and solver in TIME_LIMITS:
        parameters[TIME_LIMITS[solver]] = time_limit
    fixed = dict(FIXED.get(solver, {}))
    nested = NESTED.get(solver)
    if nested is None:
        return {**fixed, **parameters, **own}
    parameters |= own.pop(nested, {})
    flat = {name: own.pop(name) for name in list(own) if "/" in name or name.startswith("MSK_")}
    return {**fixed, **own, nested: {**parameters, **flat}}


def shortened(solver: str, options: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the keyword arguments for a solver with a time limit; unchanged if it is infinite."""
    found = dict(options)
    if math.isinf(seconds) or solver not in TIME_LIMITS:
        return found
    nested, name = NESTED.get(solver), TIME_LIMITS[solver]
    parameters = found if nested is None else dict(found.get(nested, {}))
    parameters[name] = min(float(parameters.get(name, math.inf)), seconds)
    return parameters if nested is None else {**found, nested: parameters}


def iteration_limit(solver: str, most: int) -> dict[str, Any]:
    """Return the options for :func:`svmcvx.solve` that limit the iterations of a solver, or of each
    of ``"auto"``.
    """
    if solver == "auto":
        return {name: {option: most} for name, option in ITERATIONS.items()}
    if solver.upper() not in ITERATIONS:
        raise DataError(
            f"max_iter does not limit {solver}, which takes a time_limit; leave max_iter out"
        )
    return {ITERATIONS[solver.upper()]: most}
