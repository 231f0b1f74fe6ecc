"""An entry of a race: a solver, the budgets that it is called with, and the problems that it
solves.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.referee.racing.tasks import Task
from svmcvx.errors import DataError, did_you_mean

__all__ = ["DOUBLING", "TOLERANCES", "Entry", "entries_of"]

# Budgets by default: iterations, or whatever a solver counts.
DOUBLING: Final = tuple(2**k for k in range(31))
# Budgets of solvers that are asked for a tolerance.
TOLERANCES: Final = tuple(10.0**-k for k in range(1, 13))


@dataclass(frozen=True)
class Entry:
    """A solver in a race.

    Attributes
    ----------
    solve : callable
        ``solve(task, budget)`` returns a model, or ``solve(task)`` yields better and better ones. A
        model is ``(coef, intercept)``, a mapping with ``coef`` or ``dual_coef``, a fitted
        estimator, or a model of this package: whatever :func:`svmcvx.certify` takes.
    budgets : tuple
        For a function of a budget, from the smallest to the largest; 1, 2, 4, … by default.
    prepare : callable, optional
        ``prepare(task)`` returns what is passed on in place of the task: what is not timed, such as
        the translation for a modelling language.
    refuses : callable, optional
        ``refuses(task)`` says why the solver does not solve a problem; empty where it does. By
        default it solves all.
    package : str
        What has to be installed, empty for nothing.
    """

    solve: Callable[..., Any]
    budgets: tuple[Any, ...] = ()
    prepare: Callable[[Task], Any] | None = None
    refuses: Callable[[Task], str] | None = None
    package: str = ""

    def __post_init__(self) -> None:
        if not self.budgets:
            object.__setattr__(self, "budgets", DOUBLING)

    def refusal(self, task: Task) -> str:
        """Return why the solver does not solve a problem; empty where it does."""
        return "" if self.refuses is None else self.refuses(task)

    @property
    def yields(self) -> bool:
        """Whether the solver is a generator of models."""
        return inspect.isgeneratorfunction(self.solve)


def entries_of(solvers: Any, ready: Mapping[str, Entry]) -> dict[str, Entry]:
    """Return entries by their names."""
    if isinstance(solvers, (str, Entry)) or callable(solvers):
        solvers = [solvers]
    named = solvers.items() if isinstance(solvers, Mapping) else [(None, one) for one in solvers]
    found: dict[str, Entry] = {}
    for name, one in named:
        if isinstance(one, str):
            if one not in ready:
                hint = did_you_mean(one, ready)
                raise DataError(
                    f"solvers has no entry {one!r} that is ready; there are"
                    f" {', '.join(ready)}{hint}"
                )
            entry, own = ready[one], one
        elif isinstance(one, Entry) or callable(one):
            entry = one if isinstance(one, Entry) else Entry(one)
            own = getattr(entry.solve, "__name__", type(entry.solve).__name__)
        else:
            raise DataError(
                f"solvers must hold functions, entries or names, got {type(one).__name__}"
            )
        key = str(own if name is None else name)
        if key in found:
            raise DataError(
                f"solvers has two entries called {key!r}; pass a mapping of names to solvers"
            )
        found[key] = entry
    if not found:
        raise DataError("solvers must hold one solver at least")
    return found
