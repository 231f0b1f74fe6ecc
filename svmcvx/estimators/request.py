"""A formulation with the settings of an estimator, and its solution by the route that was chosen."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arguments import check_shared
from svmcvx.catalogue import find
from svmcvx.data import CodedLabels, Features
from svmcvx.errors import BuildError, SolverFailed
from svmcvx.estimators.routes import FAST, Route, choose
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.solution import Solution
from svmcvx.system.deadline import time_limited

if TYPE_CHECKING:
    from svmcvx.formulations.problem import FormulationProblem

__all__ = ["Request", "TrainingData", "iterations"]

Floats: TypeAlias = NDArray[np.float64]

# An expired limit: return the trivial bounds.
LEAST_SECONDS = 1e-9
# Largest number of observations for which a solver is asked for `sharper` times tol.
SMALL = 100


class TrainingData(NamedTuple):
    """Validated training data."""

    X: Features
    labels: CodedLabels
    sample_weight: Floats | None

    def weighted(self, of_class: Floats | None) -> TrainingData:
        """Return the same with the weights of classes in those of the observations."""
        if of_class is None:
            return self
        weight = of_class[self.labels.codes]
        return self._replace(
            sample_weight=weight if self.sample_weight is None else weight * self.sample_weight
        )

    def weighted_classes(self) -> NDArray[np.intp]:
        """Return the positions of the classes with an observation of positive weight; of all, if
        that is not so for two of them.
        """
        classes = np.arange(self.labels.classes.size)
        if self.sample_weight is None:
            return classes
        chosen = np.unique(self.labels.codes[self.sample_weight > 0])
        return chosen.astype(np.intp) if chosen.size > 1 else classes

    def of_classes(self, chosen: NDArray[np.intp]) -> TrainingData:
        """Return the same without the other classes, whose observations have no weight and count to
        the first of those chosen.
        """
        codes, classes, features = self.labels.codes, self.labels.classes, self.labels.features
        places = np.where(np.isin(codes, chosen), np.searchsorted(chosen, codes), 0)
        return self._replace(labels=CodedLabels(places, classes[chosen], features))


def iterations(solution: Solution) -> int:
    """Return the iterations of all solvers that were called, at least 1: a start that is good
    enough counts for one.
    """
    known = [attempt.iterations for attempt in solution.attempts if attempt.iterations is not None]
    if solution.attempts and not known:
        raise AttributeError("n_iter_ exists for solvers that tell their iterations only")
    return max(sum(known), 1)


@dataclass(frozen=True)
class Request:
    """A formulation with its settings."""

    formulation: str
    builder: Callable[[], Callable[..., FormulationProblem]]
    settings: Mapping[str, Any]
    solver: str
    tol: float
    time_limit: float | None
    verbose: bool = False
    max_iter: int | None = None
    cache_size: float | None = None
    cache: GramCache | None = None
    # Share of tol that the specialised solver is asked for on small data.
    sharper: float = 1.0

    def __post_init__(self) -> None:
        limits = ("tol", "time_limit", "max_iter", "cache_size")
        check_shared({name: getattr(self, name) for name in limits})

    def limited_to(self, seconds: float) -> Request:
        """Return the same request with a time limit in seconds, which may be infinite."""
        if math.isinf(seconds):
            return self
        return replace(
            self, time_limit=max(min(seconds, self.time_limit or math.inf), LEAST_SECONDS)
        )

    def route(self, n: int, *, weighted: bool) -> Route:
        """Choose the route for `n` observations."""
        return choose(
            self.solver,
            self.formulation,
            n,
            kernel=self.settings.get("kernel") is not None,
            settings={**self.settings, **({"sample_weight": True} if weighted else {})},
        )

    def run(self, route: Route, data: TrainingData, warm_start: Solution | None) -> Solution:
        """Solve on data."""
        X, y, sample_weight = data
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        entry = find(self.formulation)
        if route.name == FAST and entry is not None and entry.fast is not None:
            fast = entry.fast
            settings = {
                name: value for name, value in self.settings.items() if name in fast.settings
            }
            limits = {"max_iter": self.max_iter, "cache_size": self.cache_size}
            given = {name: value for name, value in limits.items() if value is not None}
            shared = {
                "tol": self.tol
                * (self.sharper if isinstance(y, CodedLabels) and len(y) <= SMALL else 1),
                "time_limit": self.time_limit,
                "verbose": bool(self.verbose),
                **given,
            }
            with time_limited(self.time_limit) as deadline:
                found: Solution = fast.load()(
                    X, y, warm_start=warm_start, **shared, **settings, **weights
                )
                enough = found.certificate.is_certified(self.tol) or self.max_iter is not None
                if not route.second_opinion or enough or deadline.passed():
                    return found
                return self._second_opinion(found, X, y, weights)
        # Imported here, since it takes cvxpy, and most fits need none.
        from svmcvx.solve import solve
        from svmcvx.solve.options import iteration_limit

        with time_limited(self.time_limit):
            problem = self.problem(X, y, **weights)
            return solve(
                problem,
                solver=self.solver,
                tol=self.tol,
                verbose=bool(self.verbose),
                warm_start=warm_start,
                solver_options=(
                    None if self.max_iter is None else iteration_limit(self.solver, self.max_iter)
                ),
            )

    def problem(self, X: Any, y: Any, **weights: Any) -> FormulationProblem:
        """Build the problem on data."""
        entry = find(self.formulation)
        own = () if entry is None or entry.fast is None else entry.fast.own
        return self.builder()(
            X,
            y,
            **{name: value for name, value in self.settings.items() if name not in own},
            **weights,
        )

    def _second_opinion(
        self, found: Solution, X: Any, y: Any, weights: Mapping[str, Any]
    ) -> Solution:
        """Solve by the general route what the specialised solver has not certified; return the
        narrower interval.
        """
        from svmcvx.solve import solve

        try:
            problem = self.problem(X, y, **weights)
            other = solve(problem, solver="auto", tol=self.tol, verbose=bool(self.verbose))
        except (SolverFailed, BuildError) as error:
            attempts = error.attempts if isinstance(error, SolverFailed) else ()
            return replace(found, attempts=(*found.attempts, *attempts))
        attempts = (*found.attempts, *other.attempts)
        best = other if other.certificate.gap < found.certificate.gap else found
        return replace(best, attempts=attempts)
