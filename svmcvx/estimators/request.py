"""A formulation with the settings of an estimator, and its solution by the route that was chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.catalogue import find
from svmcvx.data import CodedLabels, Features, check_number, check_time_limit
from svmcvx.errors import BuildError, SolverFailed
from svmcvx.estimators.routes import FAST, Route, choose, mixed_integer_solver
from svmcvx.formulations.base import FormulationProblem
from svmcvx.solution import Solution
from svmcvx.solve import solve
from svmcvx.system.deadline import allowed

__all__ = ["Request", "TrainingData"]

Floats: TypeAlias = NDArray[np.float64]

# A limit in the past is one that leaves no time for anything but what is known without solving.
LEAST_SECONDS = 1e-9


class TrainingData(NamedTuple):
    """Validated training data.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n, d)
    labels : CodedLabels
    sample_weight : ndarray of shape (n,) or None
    """

    X: Features
    labels: CodedLabels
    sample_weight: Floats | None


@dataclass(frozen=True)
class Request:
    """A formulation with its settings.

    Parameters
    ----------
    formulation : str
        Name in :mod:`svmcvx.catalogue`, or any other for a formulation that is not there.
    builder : callable
        Makes the problem from data and settings.
    settings : mapping
        Arguments of the builder, which the specialised solver shares.
    solver : str
    tol : float
        Certified relative gap that is asked for.
    time_limit : float or None
        Seconds, building the problem included.
    verbose : bool
        Print the solver's progress.
    """

    formulation: str
    builder: Callable[..., FormulationProblem]
    settings: Mapping[str, Any]
    solver: str
    tol: float
    time_limit: float | None
    verbose: bool = False

    def __post_init__(self) -> None:
        check_time_limit(self.time_limit)
        check_number(self.tol, "tol", low=0, high=1, open_low=True, open_high=True)

    def limited_to(self, seconds: float) -> Request:
        """Return the same with at most so many seconds, which may be infinite."""
        if math.isinf(seconds):
            return self
        return replace(self, time_limit=max(min(seconds, self.time_limit or math.inf), LEAST_SECONDS))

    def route(self, n: int, *, weighted: bool) -> Route:
        """Choose the route for `n` observations."""
        return choose(
            self.solver,
            self.formulation,
            n,
            kernel=self.settings.get("kernel") is not None,
            settings={**self.settings, **({"sample_weight": True} if weighted else {})},
            mixed_integer=mixed_integer_solver(),
        )

    def run(self, route: Route, data: TrainingData, warm_start: Solution | None) -> Solution:
        """Solve on data."""
        X, y, sample_weight = data
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        entry = find(self.formulation)
        if route.name == FAST and entry is not None and entry.fast is not None:
            fast = entry.fast
            settings = {name: value for name, value in self.settings.items() if name in fast.settings}
            shared = {"tol": self.tol, "time_limit": self.time_limit, "verbose": bool(self.verbose)}
            with allowed(self.time_limit) as deadline:
                found: Solution = fast.load()(X, y, warm_start=warm_start, **shared, **settings, **weights)
                if not route.second_opinion or found.certificate.is_certified(self.tol) or deadline.passed():
                    return found
                return self._second_opinion(found, X, y, weights)
        with allowed(self.time_limit):
            problem = self.builder(X, y, **self.settings, **weights)
            return solve(problem, solver=self.solver, tol=self.tol, verbose=bool(self.verbose), warm_start=warm_start)

    def _second_opinion(self, found: Solution, X: Any, y: Any, weights: Mapping[str, Any]) -> Solution:
        """Solve by the general route what the specialised solver has not certified; return the narrower interval."""
        try:
            problem = self.builder(X, y, **self.settings, **weights)
            other = solve(problem, solver="auto", tol=self.tol, verbose=bool(self.verbose))
        except (SolverFailed, BuildError) as error:
            attempts = error.attempts if isinstance(error, SolverFailed) else ()
            return replace(found, attempts=(*found.attempts, *attempts))
        attempts = (*found.attempts, *other.attempts)
        best = other if other.certificate.gap < found.certificate.gap else found
        return replace(best, attempts=attempts)
