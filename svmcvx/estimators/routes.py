"""The two routes to an answer, and the one rule that chooses between them.

A formulation is solved by a general solver behind :func:`svmcvx.solve` (conic or mixed-integer; the
route ``"general"``), or by a specialised solver of :mod:`svmcvx.fast` (``"fast"``). Both end in the
same kind of certificate, so the choice is one of time alone. :mod:`svmcvx.catalogue` lists what the
solvers accept. The rule of ``solver="auto"``, in this order:

1. No specialised solver for the formulation, or none that takes all the settings that were changed:
   general.
2. A mixed-integer program, and no mixed-integer solver is installed: fast.
3. Else fast. If it does not certify the wanted gap, and there are at most ``second_opinion_up_to``
   observations, the general route is tried as well,
and the narrower interval is returned.

With several classes the size is that of the largest binary problem. A formulation outside the
catalogue has the general route only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from svmcvx.catalogue import FastSolver, find
from svmcvx.errors import BuildError, DataError, SolverUnavailable, did_you_mean

__all__ = ["FAST", "GENERAL", "Route", "choose", "unsupported_settings"]

GENERAL, FAST = "general", "fast"


class Route(NamedTuple):
    """A route, ``"general"`` or ``"fast"``, why it was taken, and whether the other one may follow."""

    name: str
    reason: str
    second_opinion: bool = False


def unsupported_settings(solver: FastSolver, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings that a specialised solver does not take, and whose values state another
    problem than it solves.
    """

    def the_same(name: str, value: Any) -> bool:
        only = solver.only.get(name)
        return name in solver.only and isinstance(value, type(only)) and bool(value == only)

    return tuple(
        name
        for name, value in settings.items()
        if name not in solver.settings and not the_same(name, value)
    )


def choose(
    solver: str,
    formulation: str,
    n: int,
    *,
    kernel: bool,
    settings: Mapping[str, Any] | None = None,
) -> Route:
    """Choose the route; see the module's text for the rule."""
    if not isinstance(solver, str):
        raise DataError(f"solver must be a name, got {solver!r}")
    entry = find(formulation)
    fast = None if entry is None else entry.fast
    missing = () if fast is None else unsupported_settings(fast, settings or {})
    if solver == "fast":
        if fast is None:
            raise SolverUnavailable(
                f"there is no specialised solver for {formulation}; use solver='auto'"
            )
        if missing:
            raise BuildError(
                f"fast.{fast.name} takes no {', '.join(missing)}; leave it out, or use"
                " solver='auto'"
            )
        return Route(FAST, "solver='fast' was asked for")
    if solver != "auto":
        from svmcvx.solve.policy import SOLVERS

        if solver.upper() not in SOLVERS:
            names = ", ".join(repr(name.lower()) for name in SOLVERS)
            raise SolverUnavailable(
                f"solver must be 'auto', 'fast' or one of {names}, got"
                f" {solver!r}{did_you_mean(solver, ('auto', 'fast', *map(str.lower, SOLVERS)))}"
            )
        return Route(GENERAL, f"solver={solver!r} was asked for")
    if entry is None or fast is None:
        return Route(GENERAL, f"there is no specialised solver for {formulation}")
    if missing:
        return Route(GENERAL, f"fast.{fast.name} takes no {', '.join(missing)}")
    few = fast.second_opinion_up_to.kernel if kernel else fast.second_opinion_up_to.linear
    return Route(FAST, f"fast.{fast.name} is the quicker one at any size", n <= few)
