"""The two routes to an answer, and the one rule that chooses between them.

A formulation is solved by a general solver behind :func:`svmcvx.solve` (conic or mixed-integer; the route ``"conic"``), or
by a solver of its own in :mod:`svmcvx.fast` (``"fast"``). Both end in the same kind of certificate, so the choice is one of
time alone. The rule of ``solver="auto"``, in this order:

1. No solver in :mod:`svmcvx.fast` for the formulation, or none that takes all the settings that were changed: conic.
2. A mixed-integer program, and no mixed-integer solver is installed: fast.
3. At most as many observations as :data:`LIMITS` says: conic. For the convex machines it needs a few hundredths of a second
   there and ends in a gap near 1e-12; for the l0 machine it proves the optimum, which the other route does not.
4. More: fast.

With several classes it is the largest binary problem that counts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from svmcvx import fast
from svmcvx.errors import BuildError, DataError, SolverUnavailable
from svmcvx.solution import Solution
from svmcvx.solve.policy import MIXED, SOLVERS, installed

__all__ = [
    "CONIC",
    "FAST",
    "LIMITS",
    "OWN_TOL",
    "Limits",
    "Route",
    "arguments",
    "choose",
    "fast_solver",
    "lacking",
    "mixed_integer_solver",
]

CONIC, FAST = "conic", "fast"


class Limits(NamedTuple):
    """Numbers of observations up to which a general solver is used, without and with a kernel."""

    linear: int
    kernel: int


# The solvers of svmcvx.fast, by formulation, with the sizes from which they are worth it: a Clarabel solve of a machine
# with a kernel takes 0.1 s at 200 observations, and ten times as long at twice as many; a semidefinite one with a
# kernel, a second at 50; the l0 machine as a mixed-integer program may take hours beyond 50. fast.m3svm and the
# search of fast.zero_one are the quicker ones at any size.
LIMITS: dict[str, Limits] = {
    "psvm": Limits(200, 200),
    "odm": Limits(200, 200),
    "odml": Limits(200, 200),
    "m3svm": Limits(0, 0),
    "conic": Limits(200, 50),
    "zero_one": Limits(0, 0),
    "l0": Limits(50, 50),
}
# Solvers whose `tol` is not a certified gap, and is left at their default.
OWN_TOL = ("l0",)
MIXED_INTEGER = ("zero_one", "ramp", "l0")


class Route(NamedTuple):
    """A route, ``"conic"`` or ``"fast"``, and why it was taken."""

    name: str
    reason: str


def fast_solver(formulation: str) -> Callable[..., Solution] | None:
    """Return the solver of :mod:`svmcvx.fast` for a formulation, None if there is none."""
    found = getattr(fast, formulation, None) if formulation in LIMITS else None
    # A module of svmcvx.fast may have the name of its solver.
    return found if callable(found) else None


@cache
def arguments(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return the arguments of a solver or builder; looked up once, since a fit may take no longer than that."""
    return inspect.signature(function).parameters


def lacking(solver: Callable[..., Solution], builder: Callable[..., Any], settings: Mapping[str, Any]) -> list[str]:
    """Return the settings that a fast solver does not take and that differ from the builder's defaults."""
    taken, defaults = arguments(solver), arguments(builder)
    return [
        name
        for name, value in settings.items()
        if name not in taken
        and not (isinstance(value, type(defaults[name].default)) and value == defaults[name].default)
    ]


def mixed_integer_solver() -> bool:
    """Tell whether a mixed-integer solver is installed."""
    return any(installed(card) for card in SOLVERS.values() if card.classes & MIXED)


def choose(
    solver: str,
    formulation: str,
    n: int,
    *,
    kernel: bool,
    available: bool = True,
    missing: tuple[str, ...] = (),
    mixed_integer: bool = True,
) -> Route:
    """Choose the route; see the module's text for the rule.

    Parameters
    ----------
    solver : str
        ``"auto"``, ``"fast"``, or the name of a solver of :func:`svmcvx.solve`.
    formulation : str
        ``"psvm"``, ``"odm"``, ``"odml"``, ``"m3svm"``, ``"conic"``, ``"zero_one"``, ``"l0"``, ``"ramp"`` or another.
    n : int
        Observations; those of the largest binary problem.
    kernel : bool
        Whether there is a kernel.
    available : bool
        Whether the formulation has a solver in :mod:`svmcvx.fast`.
    missing : tuple of str
        Settings in use that this solver does not take.
    mixed_integer : bool
        Whether a mixed-integer solver is installed.

    Returns
    -------
    Route

    Raises
    ------
    DataError
        If `solver` is no name.
    SolverUnavailable
        If `solver` is unknown, or ``"fast"`` and there is none.
    BuildError
        If `solver` is ``"fast"`` and it does not take all settings.
    """
    if not isinstance(solver, str):
        raise DataError(f"solver must be a name, got {solver!r}")
    if solver == "fast":
        if not available:
            raise SolverUnavailable(f"there is no first-order solver for {formulation}; use solver='auto'")
        if missing:
            raise BuildError(f"fast.{formulation} takes no {', '.join(missing)}; leave it out, or use solver='auto'")
        return Route(FAST, "solver='fast' was asked for")
    if solver != "auto":
        if solver.upper() not in SOLVERS:
            names = ", ".join(repr(name.lower()) for name in SOLVERS)
            raise SolverUnavailable(f"solver must be 'auto', 'fast' or one of {names}, got {solver!r}")
        return Route(CONIC, f"solver={solver!r} was asked for")
    if not available:
        return Route(CONIC, f"there is no first-order solver for {formulation}")
    if missing:
        return Route(CONIC, f"fast.{formulation} takes no {', '.join(missing)}")
    if formulation in MIXED_INTEGER and not mixed_integer:
        return Route(FAST, "no mixed-integer solver is installed")
    limit = LIMITS[formulation].kernel if kernel else LIMITS[formulation].linear
    if limit == 0:
        return Route(FAST, f"fast.{formulation} is the quicker one at any size")
    form = "with a kernel" if kernel else "of a linear machine"
    if n <= limit:
        return Route(CONIC, f"{n} observations {form}, at most {limit}")
    return Route(FAST, f"{n} observations {form}, more than {limit}")
