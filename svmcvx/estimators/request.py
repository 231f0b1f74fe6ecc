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

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from svmcvx.arrays import Floats
from svmcvx.catalogue import Entry, FastSolver
from svmcvx.data import CodedLabels, Features
from svmcvx.errors import BuildError, DataError, SolverFailed, SolverUnavailable, did_you_mean
from svmcvx.solution import Solution
from svmcvx.system.deadline import time_limited

if TYPE_CHECKING:
    from svmcvx.formulations.problem import FormulationProblem


GENERAL, FAST = "general", "fast"


class TrainingData(NamedTuple):
    X: Features
    labels: CodedLabels
    sample_weight: Floats | None


def weighed(data: TrainingData, of_class: Floats | None) -> TrainingData:
    """Return data with the weights of classes in those of the observations."""
    if of_class is None:
        return data
    weight, own = of_class[data.labels.codes], data.sample_weight
    return data._replace(sample_weight=weight if own is None else weight * own)


def unsupported_settings(solver: FastSolver, settings: Mapping[str, Any]) -> list[str]:
    """Return the settings by which the statement differs from the specialised solver's."""
    known = {
        name
        for name, value in solver.only.items()
        if isinstance(settings.get(name), type(value)) and settings.get(name) == value
    }
    return [name for name in settings if name not in solver.settings and name not in known]


def choose(
    solver: str, entry: Entry | None, formulation: str, n: int, settings: Mapping[str, Any]
) -> tuple[str, str, bool]:
    """Return the route, its reason, and whether the other one may follow, by the module's rule."""
    if not isinstance(solver, str):
        raise DataError(f"solver must be a name, got {solver!r}")
    if solver not in ("auto", "fast"):
        from svmcvx.solve.policy import SOLVERS

        known = [name.lower() for name in SOLVERS]
        if solver.lower() not in known:
            raise SolverUnavailable(
                f"solver must be 'auto', 'fast' or one of {', '.join(map(repr, known))}, got"
                f" {solver!r}{did_you_mean(solver, ('auto', 'fast', *known))}"
            )
        return GENERAL, f"solver={solver!r} was asked for", False
    if entry is None or entry.fast is None:
        why = f"there is no specialised solver for {formulation}"
        if solver == "fast":
            raise SolverUnavailable(f"{why}; use solver='auto'")
        return GENERAL, why, False
    name = f"fast.{entry.fast.name}"
    if missing := unsupported_settings(entry.fast, settings):
        why = f"{name} takes no {', '.join(missing)}"
        if solver == "fast":
            raise BuildError(f"{why}; leave it out, or use solver='auto'")
        return GENERAL, why, False
    if solver == "fast":
        return FAST, "solver='fast' was asked for", False
    few = entry.fast.second_opinion_up_to[settings.get("kernel") is not None]
    return FAST, f"{name} is faster at every size", n <= few


@dataclass(frozen=True)
class Request:
    """A formulation with its settings, and the route to its solution."""

    entry: Entry | None
    builder: Callable[[], Callable[..., FormulationProblem]]
    settings: Mapping[str, Any]
    solver: str
    route: str
    reason: str
    second_opinion: bool
    tol: float
    time_limit: float | None
    verbose: bool = False
    max_iter: int | None = None
    cache_size: float | None = None
    # Share of tol that the specialised solver is asked for on small data.
    sharper: float = 1.0

    def run(self, X: Any, y: Any, sample_weight: Any, warm_start: Solution | None) -> Solution:
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        with time_limited(self.time_limit) as deadline:
            if self.route != FAST or self.entry is None or self.entry.fast is None:
                return self._solve(X, y, weights, warm_start)
            fast = self.entry.fast
            own = {name: value for name, value in self.settings.items() if name in fast.settings}
            limits = {"max_iter": self.max_iter, "cache_size": self.cache_size}
            limits = {name: value for name, value in limits.items() if value is not None}
            # A smaller gap of at most 100 observations costs next to nothing.
            small = isinstance(y, CodedLabels) and y.codes.size <= 100
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
            if not self.second_opinion or enough or deadline.passed():
                return found
            try:
                other = replace(self, solver="auto", max_iter=None)._solve(X, y, weights, None)
            except (SolverFailed, BuildError) as error:
                tried = error.attempts if isinstance(error, SolverFailed) else ()
                return replace(found, attempts=(*found.attempts, *tried))
            best = other if other.certificate.gap < found.certificate.gap else found
            return replace(best, attempts=(*found.attempts, *other.attempts))

    def _solve(
        self, X: Any, y: Any, weights: Mapping[str, Any], warm_start: Solution | None
    ) -> Solution:
        # Imported here, since it takes cvxpy, and most fits need none.
        from svmcvx.solve import solve
        from svmcvx.solve.policy import iteration_limit

        most = self.max_iter
        return solve(
            self.problem(X, y, **weights),
            solver=self.solver,
            tol=self.tol,
            verbose=bool(self.verbose),
            warm_start=warm_start,
            solver_options=None if most is None else iteration_limit(self.solver, most),
        )

    def problem(self, X: Any, y: Any, **weights: Any) -> FormulationProblem:
        own = () if self.entry is None or self.entry.fast is None else self.entry.fast.own
        settings = {name: value for name, value in self.settings.items() if name not in own}
        return self.builder()(X, y, **settings, **weights)
