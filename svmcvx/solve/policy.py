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
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

import cvxpy as cp
import numpy as np
from cvxpy.reductions.solvers.defines import SOLVER_MAP_CONIC, SOLVER_MAP_QP
from cvxpy.reductions.solvers.solver import Solver

from svmcvx.errors import BuildError, SolverUnavailable, did_you_mean

__all__ = [
    "MIXED",
    "ORDER",
    "SOLVERS",
    "ProblemClass",
    "SolverCard",
    "SolverInfo",
    "available_solvers",
    "candidates",
    "classify",
    "failure",
]

CVXPY_SOLVERS = (*SOLVER_MAP_CONIC, *SOLVER_MAP_QP)
LICENCE_MEMORY = 300.0  # seconds for which the result of a licence test is cached
# Variables and constraints beyond all limits of the licences that come with commercial solvers: 2
# 000 of Gurobi's, 5 000 of Xpress's.
BEYOND_LIMITS = 6000
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


CONVEX = frozenset({ProblemClass.LP, ProblemClass.QP, ProblemClass.SOCP, ProblemClass.SDP})
LINEAR = frozenset({ProblemClass.LP, ProblemClass.QP})
WITHOUT_SDP = CONVEX - {ProblemClass.SDP}
MIXED = frozenset({ProblemClass.MILP, ProblemClass.MIQP, ProblemClass.MISOCP})


@dataclass(frozen=True)
class SolverCard:
    """Properties of a solver that are known before it is called."""

    name: str
    module: str
    distribution: str
    classes: frozenset[ProblemClass]
    accuracy: float
    licence: bool
    install: str
    warm_start: bool = False
    interface: Solver | None = None


SOLVERS: dict[str, SolverCard] = {
    card.name: card
    for card in (
        SolverCard(
            "MOSEK",
            "mosek",
            "mosek",
            CONVEX | MIXED,
            1e-8,
            True,
            "pip install 'svmcvx[mosek]' and a licence file",
        ),
        SolverCard("CLARABEL", "clarabel", "clarabel", CONVEX, 1e-8, False, "pip install clarabel"),
        SolverCard("SCS", "scs", "scs", CONVEX, 1e-5, False, "pip install scs", warm_start=True),
        SolverCard(
            "GUROBI",
            "gurobipy",
            "gurobipy",
            WITHOUT_SDP | MIXED,
            1e-8,
            True,
            "pip install gurobipy and a licence",
        ),
        SolverCard(
            "SCIP",
            "pyscipopt",
            "pyscipopt",
            MIXED,
            1e-6,
            False,
            "pip install 'svmcvx[mip]'",
            warm_start=True,
        ),
        SolverCard(
            "HIGHS",
            "highspy",
            "highspy",
            LINEAR | {ProblemClass.MILP},
            1e-6,
            False,
            "pip install 'svmcvx[mip]'",
            warm_start=True,
        ),
        SolverCard(
            "COPT",
            "coptpy",
            "coptpy",
            CONVEX | MIXED,
            1e-8,
            True,
            "pip install coptpy and a licence",
        ),
        SolverCard(
            "XPRESS",
            "xpress",
            "xpress",
            WITHOUT_SDP | MIXED,
            1e-8,
            True,
            "pip install xpress and a licence",
        ),
        SolverCard("OSQP", "osqp", "osqp", LINEAR, 1e-5, False, "pip install osqp"),
        SolverCard("PIQP", "piqp", "piqp", LINEAR, 1e-8, False, "pip install piqp"),
        SolverCard(
            "PROXQP", "proxsuite", "proxsuite", LINEAR, 1e-8, False, "pip install proxsuite"
        ),
        SolverCard("DAQP", "daqp", "daqp", LINEAR, 1e-8, False, "pip install daqp"),
        SolverCard("QOCO", "qoco", "qoco", WITHOUT_SDP, 1e-8, False, "pip install qoco"),
        SolverCard("ECOS", "ecos", "ecos", WITHOUT_SDP, 1e-8, False, "pip install ecos"),
        SolverCard("CVXOPT", "cvxopt", "cvxopt", CONVEX, 1e-7, False, "pip install cvxopt"),
    )
}

_CONIC_ORDER = ("MOSEK", "CLARABEL", "SCS")
ORDER: dict[ProblemClass, tuple[str, ...]] = {
    ProblemClass.LP: _CONIC_ORDER,
    ProblemClass.QP: _CONIC_ORDER,
    ProblemClass.SOCP: _CONIC_ORDER,
    ProblemClass.SDP: _CONIC_ORDER,
    ProblemClass.MILP: ("MOSEK", "GUROBI", "HIGHS", "SCIP"),
    ProblemClass.MIQP: ("MOSEK", "GUROBI", "SCIP"),
    ProblemClass.MISOCP: ("MOSEK", "GUROBI", "SCIP"),
}

# Solvers that are tried unless one is named.
AUTOMATIC = frozenset(name for names in ORDER.values() for name in names)


def classify(problem: cp.Problem) -> ProblemClass:
    """Return the class of a convex or mixed-integer convex problem, found from the problem itself."""
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
    if problem.is_lp():
        return ProblemClass.MILP if mixed else ProblemClass.LP
    if problem.is_qp():
        return ProblemClass.MIQP if mixed else ProblemClass.QP
    return ProblemClass.MISOCP if mixed else ProblemClass.SOCP


def installed(card: SolverCard) -> bool:
    """Return whether the solver's module can be found, without importing it."""
    return importlib.util.find_spec(card.module) is not None


def licence_problem(name: str) -> str | None:
    """Return why the solver is not licensed, or None if it is. The answer is cached for five
    minutes.
    """
    return _probe(name, int(time.monotonic() // LICENCE_MEMORY)) if _licensed(name) else None


def size_limited(name: str) -> bool:
    """Whether the solver's licence is for small problems only. The answer is cached for five
    minutes.
    """
    return (
        _licensed(name)
        and _probe(name, int(time.monotonic() // LICENCE_MEMORY), BEYOND_LIMITS) is not None
    )


def _licensed(name: str) -> bool:
    """Whether a solver needs a licence."""
    return name in SOLVERS and SOLVERS[name].licence


def failure(error: BaseException) -> str:
    """Return the message for an error that a solver or its interface has raised."""
    message = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return (
        f"the problem exceeds the size-limited licence ({message})"
        if TOO_LARGE.search(str(error))
        else message
    )


@lru_cache(maxsize=16)
def _probe(name: str, period: int, size: int = 2) -> str | None:
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
        licence = (
            "not needed" if not card.licence else problem or "valid" if present else "not tested"
        )
        if licence == "valid" and size_limited(card.name):
            licence = "size-limited"
        try:
            version = importlib.metadata.version(card.distribution) if present else None
        except importlib.metadata.PackageNotFoundError:
            version = None
        classes = tuple(str(kind) for kind in ProblemClass if kind in card.classes)
        found.append(
            SolverInfo(
                card.name,
                present,
                present and problem is None,
                version,
                licence,
                classes,
                card.accuracy,
                card.install,
            )
        )
    return tuple(found)


def candidates(kind: ProblemClass, solver: str | Solver) -> tuple[SolverCard, ...]:
    """Return the solvers to try, in order."""
    if solver == "auto":
        cards = tuple(SOLVERS[name] for name in ORDER[kind] if installed(SOLVERS[name]))
        if not cards:
            hints = "; ".join(f"{name}: {SOLVERS[name].install}" for name in ORDER[kind])
            raise SolverUnavailable(f"no solver for {kind} is installed; install one of {hints}")
        return cards
    if isinstance(solver, Solver):
        return (_unlisted(solver.name(), solver),)
    card = SOLVERS.get(solver.upper())
    if card is None:
        if solver.upper() in cp.installed_solvers():
            return (_unlisted(solver.upper()),)
        known = (*SOLVERS, *(name for name in CVXPY_SOLVERS if name not in SOLVERS))
        hint = did_you_mean(solver, map(str.lower, known))
        why = (
            "is one of cvxpy's solvers that is not installed"
            if solver.upper() in known
            else "is not a solver"
        )
        raise SolverUnavailable(
            f"{solver!r} {why}{hint if solver.upper() not in known else ''}; solver must be 'auto',"
            f" one of {', '.join(map(repr, map(str.lower, SOLVERS)))}, or another that cvxpy has"
            " installed"
        )
    if not installed(card):
        raise SolverUnavailable(f"{card.name} is not installed; run: {card.install}")
    if kind not in card.classes:
        others = ", ".join(name for name, other in SOLVERS.items() if kind in other.classes)
        raise SolverUnavailable(f"{card.name} is not used for {kind}; choose one of {others}")
    return (card,)


def _unlisted(name: str, interface: Solver | None = None) -> SolverCard:
    """Return a card of a solver of which cvxpy alone knows what it takes."""
    return SolverCard(
        name, "cvxpy", "cvxpy", CONVEX | MIXED, math.nan, False, "", interface=interface
    )
