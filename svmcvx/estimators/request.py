"""What an estimator asks to be solved, and the two routes to an answer.

A formulation is solved by a general solver behind :func:`svmcvx.solve` (conic or mixed-integer; the
route ``"general"``), or by a specialised solver of :mod:`svmcvx.fast` (``"fast"``). Both end in the
same kind of certificate, so the choice is one of time alone. :mod:`svmcvx.catalogue` lists what the
solvers accept. The rule of ``solver="auto"``, in this order:

1. No specialised solver for the formulation, or none that takes all the settings that were changed:
   general.
2. Else fast. If it does not certify the wanted gap, and there are at most ``second_opinion_up_to``
   observations, the general route is tried as well, and the narrower interval is returned.

With several classes the size is that of the largest binary problem. A formulation outside the
catalogue has the general route only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.catalogue import FastSolver, find
from svmcvx.data import CodedLabels, Features
from svmcvx.errors import BuildError, DataError, SolverFailed, SolverUnavailable, did_you_mean
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.solution import Solution
from svmcvx.system.deadline import time_limited

if TYPE_CHECKING:
    from svmcvx.formulations.problem import FormulationProblem

Floats: TypeAlias = NDArray[np.float64]

GENERAL, FAST = "general", "fast"
# Time limit in seconds of what is solved after the limit has passed: the trivial bounds.
LEAST_SECONDS = 1e-9
# Largest number of observations for which a solver is asked for `sharper` times tol.
SMALL = 100


class TrainingData(NamedTuple):
    """Validated training data."""

    X: Features
    labels: CodedLabels
    sample_weight: Floats | None


def weighed(data: TrainingData, of_class: Floats | None) -> TrainingData:
    """Return data with the weights of classes in those of the observations."""
    if of_class is None:
        return data
    weight = of_class[data.labels.codes]
    return data._replace(
        sample_weight=weight if data.sample_weight is None else weight * data.sample_weight
    )


class Route(NamedTuple):
    """A route, ``"general"`` or ``"fast"``, why it was taken, and whether the other one may follow."""

    name: str
    reason: str
    second_opinion: bool = False


def unsupported_settings(solver: FastSolver, settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the settings that a specialised solver does not take, and whose values state another
    problem than it solves.
    """
    missing = [name for name in settings if name not in solver.settings]
    return tuple(
        name
        for name in missing
        if name not in solver.only
        or not isinstance(settings[name], type(solver.only[name]))
        or bool(settings[name] != solver.only[name])
    )


def choose(solver: str, formulation: str, n: int, settings: Mapping[str, Any]) -> Route:
    """Choose the route; see the module's text for the rule."""
    if not isinstance(solver, str):
        raise DataError(f"solver must be a name, got {solver!r}")
    entry = find(formulation)
    fast = None if entry is None else entry.fast
    missing = () if fast is None else unsupported_settings(fast, settings)
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
    if fast is None:
        return Route(GENERAL, f"there is no specialised solver for {formulation}")
    if missing:
        return Route(GENERAL, f"fast.{fast.name} takes no {', '.join(missing)}")
    few = fast.second_opinion_up_to[settings.get("kernel") is not None]
    return Route(FAST, f"fast.{fast.name} is faster at every size", n <= few)


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

    def limited_to(self, seconds: float) -> Request:
        """Return the same request with a time limit in seconds, which may be infinite."""
        if math.isinf(seconds):
            return self
        return replace(
            self, time_limit=max(min(seconds, self.time_limit or math.inf), LEAST_SECONDS)
        )

    def route(self, n: int, *, weighted: bool) -> Route:
        """Choose the route for `n` observations."""
        weights = {"sample_weight": True} if weighted else {}
        return choose(self.solver, self.formulation, n, {**self.settings, **weights})

    def run(self, route: Route, data: TrainingData, warm_start: Solution | None) -> Solution:
        """Solve on data."""
        X, y, sample_weight = data
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        entry = find(self.formulation)
        with time_limited(self.time_limit) as deadline:
            if route.name != FAST or entry is None or entry.fast is None:
                return self._solve(X, y, weights, warm_start, self.solver, self.max_iter)
            fast = entry.fast
            own = {name: value for name, value in self.settings.items() if name in fast.settings}
            limits = {"max_iter": self.max_iter, "cache_size": self.cache_size}
            limits = {name: value for name, value in limits.items() if value is not None}
            small = isinstance(y, CodedLabels) and y.codes.size <= SMALL
            found: Solution = fast.load()(
                X,
                y,
                warm_start=warm_start,
                tol=self.tol * self.sharper if small else self.tol,
                time_limit=self.time_limit,
                verbose=bool(self.verbose),
                **limits,
                **own,
                **weights,
            )
            enough = found.certificate.is_certified(self.tol) or self.max_iter is not None
            if not route.second_opinion or enough or deadline.passed():
                return found
            try:
                other = self._solve(X, y, weights, None, "auto", None)
            except (SolverFailed, BuildError) as error:
                tried = error.attempts if isinstance(error, SolverFailed) else ()
                return replace(found, attempts=(*found.attempts, *tried))
            best = other if other.certificate.gap < found.certificate.gap else found
            return replace(best, attempts=(*found.attempts, *other.attempts))

    def _solve(
        self,
        X: Any,
        y: Any,
        weights: Mapping[str, Any],
        warm_start: Solution | None,
        solver: str,
        max_iter: int | None,
    ) -> Solution:
        """Solve by the general route."""
        # Imported here, since it takes cvxpy, and most fits need none.
        from svmcvx.solve import solve
        from svmcvx.solve.policy import iteration_limit

        return solve(
            self.problem(X, y, **weights),
            solver=solver,
            tol=self.tol,
            verbose=bool(self.verbose),
            warm_start=warm_start,
            solver_options=None if max_iter is None else iteration_limit(solver, max_iter),
        )

    def problem(self, X: Any, y: Any, **weights: Any) -> FormulationProblem:
        """Build the problem on data."""
        entry = find(self.formulation)
        own = () if entry is None or entry.fast is None else entry.fast.own
        settings = {name: value for name, value in self.settings.items() if name not in own}
        return self.builder()(X, y, **settings, **weights)
