"""Which solver for which problem, written as data.

cvxpy's own choice puts a commercial solver first as soon as it can be imported, licensed or not,
and hands quadratic programs to OSQP and semidefinite ones to SCS at 1e-5. Here the order is a
table, a licence is tested by solving a toy problem, and a solver is always named.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import Any

import clarabel
import cvxpy as cp
import numpy as np
from cvxpy.problems.problem_form import ProblemForm
from cvxpy.reductions.solvers.conic_solvers.scip_conif import SCIP
from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC, SOLVER_MAP_QP
from cvxpy.reductions.solvers.solver import Solver

from svmcvx.errors import BuildError, DataError, SolverUnavailable, did_you_mean

CVXPY_SOLVERS = (*SOLVER_MAP_CONIC, *SOLVER_MAP_QP)
# Messages of solvers about a problem that is larger than such a licence allows.
TOO_LARGE = re.compile(
    r"size.limited|too many (rows|columns|variables|constraints)|(exceed|too large).*licen[cs]e",
    re.IGNORECASE,
)


class ProblemClass(StrEnum):
    """Classes of problems, by which solvers are chosen."""

    LP = "LP"
    QP = "QP"
    SOCP = "SOCP/power"
    SDP = "SDP"
    MILP = "MILP"
    MIQP = "MIQP"
    MISOCP = "MISOCP"
    MIXED_POWER = "MISOCP/power"


CONVEX = frozenset({ProblemClass.LP, ProblemClass.QP, ProblemClass.SOCP, ProblemClass.SDP})
LINEAR = frozenset({ProblemClass.LP, ProblemClass.QP})
WITHOUT_SDP = CONVEX - {ProblemClass.SDP}
WITHOUT_POWERS = frozenset({ProblemClass.MILP, ProblemClass.MIQP, ProblemClass.MISOCP})
MIXED = WITHOUT_POWERS | {ProblemClass.MIXED_POWER}


# Feasibility tolerances of mixed-integer solvers: their incumbents and bounds are off by about as
# much.
FEASIBILITY = 1e-7


@dataclass(frozen=True, kw_only=True)
class SolverCard:
    """Properties of a solver that are known before it is called, and the names of its options.

    `tolerances` are the options that `tol` sets for convex problems, `gaps` those for mixed-integer
    ones, `feasibility` further tolerances of the latter, and `fixed` options that are always set.
    `refined` are those of a second run if the solver says "optimal" but the certified gap is too
    large (its criteria are partly absolute, which matters for small objectives), `second_opinion`
    limits when there is a point already, unless the caller sets them; interior-point methods have
    their own. Solvers take their parameters in a dictionary of the name `nested`, if there is one.
    """

    name: str
    classes: frozenset[ProblemClass]
    install: str = ""
    accuracy: float = 1e-8
    licence: bool = False
    warm_start: bool = False
    module: str = ""
    interface: Solver | None = None
    tolerances: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    feasibility: tuple[str, ...] = ()
    time_limit: str = ""
    iterations: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    refined: Mapping[str, Any] = field(default_factory=dict)
    second_opinion: Mapping[str, Any] = field(default_factory=dict)
    nested: str = ""


SOLVERS: dict[str, SolverCard] = {
    card.name: card
    for card in (
        SolverCard(
            name="MOSEK",
            classes=CONVEX | MIXED,
            install="pip install 'svmcvx[mosek]' and a licence file",
            licence=True,
            tolerances=(
                "MSK_DPAR_INTPNT_CO_TOL_REL_GAP",
                "MSK_DPAR_INTPNT_CO_TOL_PFEAS",
                "MSK_DPAR_INTPNT_CO_TOL_DFEAS",
            ),
            gaps=("MSK_DPAR_MIO_TOL_REL_GAP",),
            feasibility=("MSK_DPAR_MIO_TOL_FEAS",),
            time_limit="MSK_DPAR_OPTIMIZER_MAX_TIME",
            iterations="MSK_IPAR_INTPNT_MAX_ITERATIONS",
            # MOSEK returns its point after numerical trouble too, and the checker evaluates it.
            fixed={"accept_unknown": True},
            nested="mosek_params",
        ),
        SolverCard(
            name="CLARABEL",
            classes=CONVEX,
            install="pip install clarabel",
            tolerances=("tol_gap_abs", "tol_gap_rel", "tol_feas"),
            time_limit="time_limit",
            iterations="max_iter",
            # Clarabel's own limits on short steps give up power-cone problems far from their
            # optimum which it can solve to the end.
            fixed={"min_switch_step_length": 1e-6, "min_terminate_step_length": 1e-8},
            refined={"tol_feas": 1e-11, "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11},
        ),
        SolverCard(
            name="SCS",
            classes=CONVEX,
            install="pip install scs",
            accuracy=1e-5,
            warm_start=True,
            tolerances=("eps_abs", "eps_rel"),
            time_limit="time_limit_secs",
            iterations="max_iters",
            second_opinion={"max_iters": 20_000},
        ),
        SolverCard(
            name="GUROBI",
            module="gurobipy",
            classes=WITHOUT_SDP | WITHOUT_POWERS,
            install="pip install gurobipy and a licence",
            licence=True,
            tolerances=("BarConvTol", "BarQCPConvTol", "FeasibilityTol", "OptimalityTol"),
            gaps=("MIPGap",),
            feasibility=("FeasibilityTol", "IntFeasTol", "OptimalityTol"),
            time_limit="TimeLimit",
            second_opinion={"NodeLimit": 20_000},
        ),
        SolverCard(
            name="SCIP",
            module="pyscipopt",
            classes=WITHOUT_POWERS,
            install="pip install 'svmcvx[mip]'",
            accuracy=1e-6,
            warm_start=True,
            gaps=("limits/gap",),
            feasibility=("numerics/feastol", "numerics/dualfeastol"),
            time_limit="limits/time",
            second_opinion={"scip_params": {"limits/nodes": 20_000}},
            nested="scip_params",
        ),
        SolverCard(
            name="HIGHS",
            module="highspy",
            classes=LINEAR | {ProblemClass.MILP},
            install="pip install 'svmcvx[mip]'",
            accuracy=1e-6,
            warm_start=True,
            tolerances=(
                "primal_feasibility_tolerance",
                "dual_feasibility_tolerance",
                "ipm_optimality_tolerance",
            ),
            gaps=("mip_rel_gap",),
            feasibility=(
                "primal_feasibility_tolerance",
                "mip_feasibility_tolerance",
                "dual_feasibility_tolerance",
            ),
            time_limit="time_limit",
            second_opinion={"mip_max_nodes": 20_000},
        ),
        SolverCard(
            name="OSQP",
            classes=LINEAR,
            install="pip install osqp",
            accuracy=1e-5,
            tolerances=("eps_abs", "eps_rel"),
            time_limit="time_limit",
            iterations="max_iter",
        ),
    )
}

ORDER: dict[ProblemClass, tuple[str, ...]] = {
    **dict.fromkeys(CONVEX, ("MOSEK", "CLARABEL", "SCS")),
    **dict.fromkeys(WITHOUT_POWERS, ("MOSEK", "GUROBI", "SCIP")),
    ProblemClass.MILP: ("MOSEK", "GUROBI", "HIGHS", "SCIP"),
    ProblemClass.MIXED_POWER: ("MOSEK",),
}

# Solvers that are tried unless one is named.
AUTOMATIC = frozenset(name for names in ORDER.values() for name in names)


def classify(problem: cp.Problem) -> ProblemClass:
    """Return the class of a convex or mixed-integer convex problem."""
    if not problem.is_dcp():
        raise BuildError(
            "the problem does not follow cvxpy's rules for convex programs (DCP); restate it"
        )
    mixed = bool(problem.is_mixed_integer())
    semidefinite = any(
        isinstance(constraint, cp.constraints.PSD) for constraint in problem.constraints
    ) or any(
        variable.attributes.get("PSD") or variable.attributes.get("NSD")
        for variable in problem.variables()
    )
    if semidefinite:
        if mixed:
            raise BuildError(
                "mixed-integer semidefinite programs are not supported; relax the integers or the"
                " cone"
            )
        return ProblemClass.SDP
    if mixed and not SCIP().can_solve(ProblemForm(problem)):
        return ProblemClass.MIXED_POWER
    if problem.is_lp():
        return ProblemClass.MILP if mixed else ProblemClass.LP
    if problem.is_qp():
        return ProblemClass.MIQP if mixed else ProblemClass.QP
    return ProblemClass.MISOCP if mixed else ProblemClass.SOCP


def installed(card: SolverCard) -> bool:
    """Return whether the solver's module can be found, without importing it."""
    return importlib.util.find_spec(module_of(card)) is not None


def module_of(card: SolverCard) -> str:
    """Return the name of the module, and of the distribution, of a solver."""
    return card.module or card.name.lower()


def licence_problem(name: str, size: int = 2) -> str | None:
    """Return why the solver is not licensed for problems of a size, or None; cached for five
    minutes.
    """
    if name not in SOLVERS or not SOLVERS[name].licence:
        return None
    return _probe(name, size, int(time.monotonic() // 300.0))


def failure(error: BaseException) -> str:
    """Return the message for an error that a solver or its interface has raised."""
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return (
        f"the problem exceeds the size-limited licence ({message})"
        if TOO_LARGE.search(str(error))
        else message
    )


@lru_cache(maxsize=16)
def _probe(name: str, size: int, period: int) -> str | None:
    x = cp.Variable(size)
    toy = cp.Problem(
        cp.Minimize(cp.sum_squares(x - np.arange(1.0, size + 1.0))), [cp.sum(x) == 1, x <= size]
    )
    try:
        toy.solve(solver=name)
    except (KeyboardInterrupt, SystemExit):
        raise
    # licence errors share no base class, and a solver's panic is no Exception
    except BaseException as error:
        return " ".join(str(error).split()) or type(error).__name__
    return None if toy.status == cp.OPTIMAL else f"the licence test ended with status {toy.status}"


@dataclass(frozen=True)
class SolverInfo:
    """The state of one solver on this computer."""

    name: str
    installed: bool
    usable: bool
    version: str | None
    licence: str
    classes: tuple[str, ...]
    accuracy: float
    install: str


def available_solvers() -> tuple[SolverInfo, ...]:
    """Return the state of every solver that :func:`svmcvx.solve` knows, installed or not.

    Licences are tested by solving a toy problem, and a larger one; nothing is raised.

    Returns
    -------
    tuple of SolverInfo
        One a solver.

    Examples
    --------
    >>> import svmcvx as sx
    >>> {solver.name for solver in sx.available_solvers() if solver.usable} >= {"CLARABEL", "SCS"}
    True
    """
    found = []
    for card in SOLVERS.values():
        present = installed(card)
        problem = licence_problem(card.name) if present else None
        licence = "not needed"
        if card.licence:
            licence = problem or ("valid" if present else "not tested")
        # Beyond the limits of licences that come with the solvers: 2 000 variables or constraints
        # of Gurobi's, 5 000 of Xpress's.
        if licence == "valid" and licence_problem(card.name, 6000) is not None:
            licence = "size-limited"
        try:
            version = importlib.metadata.version(module_of(card)) if present else None
        except importlib.metadata.PackageNotFoundError:
            version = None
        usable = present and problem is None
        kinds = tuple(str(kind) for kind in ProblemClass if kind in card.classes)
        state = (card.name, present, usable, version, licence, kinds)
        found.append(SolverInfo(*state, card.accuracy, card.install))
    return tuple(found)


def candidates(kind: ProblemClass, solver: str | Solver, fast: str = "") -> tuple[SolverCard, ...]:
    """Return the solvers to try in order, by "auto" those that are not installed too.

    `fast` names the specialised solver of the formulation for the message without any.
    """
    without = f"; svmcvx.fast.{fast} solves the formulation without one" if fast else ""
    if kind is ProblemClass.MIXED_POWER:
        without = (
            "; beside variables that are integers choose p = 1 or p = 2, which have no power cones,"
            " and constraints without exponentials and logarithms"
        )
    if solver == "auto":
        cards = tuple(SOLVERS[name] for name in ORDER[kind])
        if not any(map(installed, cards)):
            hints = "; ".join(f"{card.name}: {card.install}" for card in cards)
            raise SolverUnavailable(
                f"no solver for {kind} is installed; install one of {hints}{without}"
            )
        return cards
    interface = solver if isinstance(solver, Solver) else None
    name = solver.upper() if isinstance(solver, str) else solver.name()
    card = None if interface else SOLVERS.get(name)
    if interface or (card is None and name in cp.installed_solvers()):
        # cvxpy alone knows its classes and options.
        known_by: dict[str, Any] = {"module": "cvxpy", "interface": interface}
        return (SolverCard(name=name, classes=CONVEX | MIXED, accuracy=math.nan, **known_by),)
    if card is None:
        why = "is one of cvxpy's solvers that is not installed"
        if name not in CVXPY_SOLVERS:
            known = dict.fromkeys((*SOLVERS, *CVXPY_SOLVERS))
            why = f"is not a solver{did_you_mean(solver, map(str.lower, known))}"
        raise SolverUnavailable(
            f"{solver!r} {why}; solver must be 'auto', one of"
            f" {', '.join(map(repr, map(str.lower, SOLVERS)))}, or another that cvxpy has installed"
        )
    if not installed(card):
        raise SolverUnavailable(f"{card.name} is not installed; run: {card.install}{without}")
    if kind not in card.classes:
        others = ", ".join(name for name, other in SOLVERS.items() if kind in other.classes)
        raise SolverUnavailable(
            f"{card.name} is not used for {kind}; choose one of {others}{without}"
        )
    return (card,)


def translate(
    card: SolverCard, kind: ProblemClass, *, tol: float, raw: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the keyword arguments for one solver without a time limit."""
    own = dict(raw or {})
    if card.name == "CLARABEL":
        unknown = own.keys() - set(dir(clarabel.DefaultSettings()))
        if unknown:
            raise DataError(
                f"CLARABEL has no option {', '.join(map(repr, sorted(unknown)))}; see its"
                " documentation of settings"
            )
    mixed = kind in MIXED
    parameters: dict[str, Any] = dict.fromkeys(card.gaps if mixed else card.tolerances, tol)
    if mixed:
        parameters |= dict.fromkeys(card.feasibility, FEASIBILITY)
    if not card.nested:
        return {**card.fixed, **parameters, **own}
    parameters |= own.pop(card.nested, {})
    flat = {name: own.pop(name) for name in list(own) if "/" in name or name.startswith("MSK_")}
    return {**card.fixed, **own, card.nested: {**parameters, **flat}}


def limited(card: SolverCard, options: Mapping[str, Any], seconds: float) -> dict[str, Any]:
    """Return the keyword arguments for a solver with a time limit, or a shorter one that they have;
    unchanged if it is infinite.
    """
    found = dict(options)
    if math.isinf(seconds) or not card.time_limit:
        return found
    parameters = dict(found.get(card.nested, {})) if card.nested else found
    parameters[card.time_limit] = min(float(parameters.get(card.time_limit, math.inf)), seconds)
    return {**found, card.nested: parameters} if card.nested else parameters


def iteration_limit(solver: str, most: int) -> dict[str, Any]:
    """Return the options that limit the iterations of a solver, or of each of ``"auto"``."""
    names = {card.name: card.iterations for card in SOLVERS.values() if card.iterations}
    if solver == "auto":
        return {name: {option: most} for name, option in names.items()}
    if solver.upper() not in names:
        raise DataError(
            f"max_iter does not limit {solver}, which takes a time_limit; leave max_iter out"
        )
    return {names[solver.upper()]: most}
