"""What an estimator asks for: a formulation with its settings, solved on some data by the route that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from svmcvx.data import check_number
from svmcvx.estimators.routes import FAST, OWN_TOL, Route, arguments, choose, fast_solver, lacking, mixed_integer_solver
from svmcvx.formulations.base import FormulationProblem
from svmcvx.solution import Solution
from svmcvx.solve import solve

__all__ = ["Request"]


@dataclass(frozen=True)
class Request:
    """A formulation with its settings.

    Parameters
    ----------
    formulation : str
        Name in :mod:`svmcvx.estimators.routes`.
    builder : callable
        Makes the problem from data and settings.
    settings : mapping
        Arguments of the builder, which the fast solver shares.
    solver : str
    tol : float
        Certified relative gap that is asked for.
    time_limit : float or None
        Seconds.
    """

    formulation: str
    builder: Callable[..., FormulationProblem]
    settings: Mapping[str, Any]
    solver: str
    tol: float
    time_limit: float | None

    def __post_init__(self) -> None:
        check_number(self.tol, "tol", low=0, high=1, open_low=True, open_high=True)

    def route(self, n: int, *, weighted: bool) -> Route:
        """Choose the route for `n` observations."""
        found = fast_solver(self.formulation)
        used: dict[str, Any] = {**self.settings, **({"sample_weight": True} if weighted else {})}
        return choose(
            self.solver,
            self.formulation,
            n,
            kernel=self.settings.get("kernel") is not None,
            available=found is not None,
            missing=() if found is None else tuple(lacking(found, self.builder, used)),
            mixed_integer=mixed_integer_solver(),
        )

    def run(self, route: Route, X: Any, y: Any, sample_weight: Any, warm_start: Solution | None) -> Solution:
        """Solve on data."""
        found = fast_solver(self.formulation)
        if route.name == FAST and found is not None:
            taken = arguments(found)
            settings = {name: value for name, value in self.settings.items() if name in taken}
            if sample_weight is not None:
                settings["sample_weight"] = sample_weight
            if self.formulation not in OWN_TOL:
                settings["tol"] = self.tol
            return found(X, y, time_limit=self.time_limit, warm_start=warm_start, **settings)
        problem = self.builder(X, y, sample_weight=sample_weight, **self.settings)
        return solve(problem, solver=self.solver, tol=self.tol, time_limit=self.time_limit, warm_start=warm_start)
