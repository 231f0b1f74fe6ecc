"""Several classes by binary machines: one against one, or one against the rest, each with its own
certificate.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.utils.parallel import Parallel, delayed

from svmcvx.catalogue import find
from svmcvx.data import CodedLabels, Features, check_choice
from svmcvx.errors import DataError
from svmcvx.estimators.request import Request, TrainingData
from svmcvx.estimators.routes import FAST, Route
from svmcvx.kernels import Precomputed
from svmcvx.kernels.gram_cache import CachedKernel
from svmcvx.model import BinaryModel, KernelModel, OneVsModel
from svmcvx.row_blocks.shards import ClassPartition
from svmcvx.solution import Attempt, Solution, Status, Timings
from svmcvx.solution.deferred import Deferred, DeferredSolution
from svmcvx.system.deadline import time_limited

__all__ = [
    "SCHEMES",
    "CompositeSolution",
    "Part",
    "check_n_jobs",
    "parts",
    "solve_parts",
    "solve_parts_in_blocks",
]

if TYPE_CHECKING:
    from svmcvx.fast.margin.pairs import SolvedParts

Floats: TypeAlias = NDArray[np.float64]

SCHEMES = ("ovo", "ovr")
# Megabytes of kernel rows where the estimator says nothing.
DEFAULT_CACHE = 500.0
# Number of binary problems that are solved before the total time is estimated, and the seconds
# above which a warning names it.
TIMED, LONG = 3, 30.0


class Part(NamedTuple):
    """One of the binary problems."""

    key: Any
    rows: NDArray[np.intp]
    labels: CodedLabels


def keys(labels: CodedLabels, scheme: str) -> list[Any]:
    """Return the keys of the binary problems in the order of :class:`svmcvx.OneVsModel`."""
    names = labels.classes.tolist()
    return (
        [*combinations(names, 2)] if check_choice(scheme, "multiclass", SCHEMES) == "ovo" else names
    )


def parts(labels: CodedLabels, scheme: str, places: Iterable[int] | None = None) -> Iterator[Part]:
    """Yield the binary problems in the order of :class:`svmcvx.OneVsModel`."""
    codes, classes = labels.codes, labels.classes
    every = keys(labels, scheme)
    chosen = range(len(every)) if places is None else places
    if scheme == "ovo":
        sides = [*combinations(range(classes.size), 2)]
        for place in chosen:
            k, other = sides[place]
            rows = np.flatnonzero((codes == k) | (codes == other))
            pair = CodedLabels((codes[rows] == other).astype(np.intp), classes[[k, other]])
            yield Part(every[place], rows, pair)
    else:
        rows = np.arange(codes.size)
        for k in chosen:
            yield Part(every[k], rows, CodedLabels((codes == k).astype(np.intp), np.arange(2)))


class _Parts(Mapping[Any, Solution]):
    """The solutions of problems that were solved together, each made when it is asked for; the
    others as they are.
    """

    def __init__(
        self,
        every: list[Any],
        solved: SolvedParts,
        members: Callable[[], Any],
        others: Mapping[int, Solution],
    ) -> None:
        self._places = {key: place for place, key in enumerate(every)}
        self._solved, self._members, self._made = solved, members, dict(others)

    def __getitem__(self, key: Any) -> Solution:
        place = self._places[key]
        if place not in self._made:
            self._made[place] = self._solved.solution(place, lambda: self._members()[place])
        return self._made[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


@dataclass(frozen=True, eq=False, repr=False)
class CompositeSolution(Solution):
    """The solutions of several binary problems as one."""

    parts: Mapping[Any, Solution] = field(default_factory=dict)

    @classmethod
    def of(
        cls, parts: Mapping[Any, Solution], scheme: str, classes: NDArray[Any]
    ) -> CompositeSolution:
        """Combine the solutions of binary problems."""
        each = list(parts.values())
        worst = max(each, key=lambda solution: solution.certificate.gap)
        unfinished = [solution.status for solution in each if solution.status is not Status.OPTIMAL]
        return cls(
            model=OneVsModel(
                scheme=scheme,
                members=tuple(cast(BinaryModel, solution.model) for solution in each),
                classes=classes,
            ),
            certificate=worst.certificate,
            status=unfinished[0] if unfinished else Status.OPTIMAL,
            solver=worst.solver,
            attempts=tuple(attempt for solution in each for attempt in solution.attempts),
            timings=Timings(
                *(
                    sum(getattr(solution.timings, clock.name) for solution in each)
                    for clock in fields(Timings)
                )
            ),
            dual={},
            trace=np.zeros((0, 3)),
            formulation=worst.formulation,
            hyperparameters={**worst.hyperparameters, "multiclass": scheme},
            parts=dict(parts),
        )

    @classmethod
    def together(
        cls, solved: SolvedParts, others: Mapping[int, Solution], scheme: str, labels: CodedLabels
    ) -> CompositeSolution:
        """Combine problems that were solved together, and the others that were not, by their
        places.
        """

        @cache
        def members() -> Any:
            return solved.members(
                {place: cast(BinaryModel, solution.model) for place, solution in others.items()}
            )

        def model() -> OneVsModel:
            return OneVsModel(scheme=scheme, members=members(), classes=labels.classes)

        every = solved.checked.gaps.copy()
        for place, solution in others.items():
            every[place] = solution.certificate.gap
        worst = max(range(len(every)), key=every.__getitem__)

        def attempts() -> tuple[Attempt, ...]:
            return tuple(
                attempt
                for k in range(len(every))
                for attempt in (others[k].attempts if k in others else (solved.attempt(k),))
            )

        unfinished = [
            solution.status for solution in others.values() if solution.status is not Status.OPTIMAL
        ]
        times = [solved.timings, *(solution.timings for solution in others.values())]
        return _DeferredComposite(
            model=cast(Any, Deferred(model)),
            certificate=(
                others[worst].certificate if worst in others else solved.checked.certificate(worst)
            ),
            status=unfinished[0] if unfinished else Status.OPTIMAL,
            solver=others[worst].solver if worst in others else solved.solver,
            attempts=cast(Any, Deferred(attempts)),
            timings=(
                Timings(
                    *(sum(getattr(each, clock.name) for each in times) for clock in fields(Timings))
                )
                if others
                else solved.timings
            ),
            dual={},
            trace=cast(Any, Deferred(lambda: np.zeros((0, 3)))),
            formulation=solved.formulation,
            hyperparameters=cast(
                Any, Deferred(lambda: {**solved.hyperparameters, "multiclass": scheme})
            ),
            parts=_Parts(keys(labels, scheme), solved, members, others),
        )


class _DeferredComposite(DeferredSolution, CompositeSolution):
    """A composite whose fields may be given as a :class:`~svmcvx.solution.deferred.Deferred`."""

    stored_as = CompositeSolution


def check_n_jobs(n_jobs: Any) -> None:
    """Raise a :class:`~svmcvx.DataError` unless this is a number of processes as joblib counts
    them.
    """
    whole = n_jobs is None or (
        isinstance(n_jobs, (int, np.integer)) and not isinstance(n_jobs, bool)
    )
    if not whole or n_jobs == 0:
        raise DataError(
            "n_jobs must be None or a whole number other than 0 (-1 for all processors), got"
            f" {n_jobs!r}"
        )


def _restricted(X: Features, rows: NDArray[np.intp], *, pairwise: bool) -> Features:
    if rows.size == X.shape[0]:
        return X
    return X[rows][:, rows] if pairwise else X[rows]


def _lifted(solution: Solution, rows: NDArray[np.intp], width: int) -> Solution:
    """Return a solution whose model counts the rows of all training data; `width` is the number of
    their columns.
    """
    model = cast(BinaryModel, solution.model)
    support = rows[model.support]
    if isinstance(model, KernelModel):
        return replace(solution, model=replace(model, support=support, n_features=width))
    return replace(solution, model=replace(model, support=support))  # type: ignore[type-var]


def _earlier(warm_start: Solution | None, keys: list[Any]) -> Mapping[Any, Solution | None]:
    if warm_start is None:
        return dict.fromkeys(keys)
    if not isinstance(warm_start, CompositeSolution) or list(warm_start.parts) != keys:
        raise DataError(
            "warm_start must be the solution_ of an earlier fit with the same classes and the same"
            " multiclass"
        )
    return warm_start.parts


def _warn_of_many(
    found: list[Solution], parts: int, *, classes: int, scheme: str, jobs: int
) -> None:
    """Warn where the first machines say that all of them take long."""
    seconds = min(solution.timings.total for solution in found) * parts / jobs
    if seconds > LONG:
        advice = (
            f"; multiclass='ovr' solves {classes}" if scheme == "ovo" and parts > classes else ""
        )
        warnings.warn(
            f"{classes} classes make {parts} binary problems, which take about {seconds:.0f} s by"
            f" the first of them; a time_limit is shared among all{advice}",
            stacklevel=6,
        )


def solve_parts(
    request: Request,
    data: TrainingData,
    *,
    scheme: str,
    n_jobs: int | None,
    warm_start: Solution | None = None,
) -> tuple[CompositeSolution, Route]:
    """Solve all binary problems, in parallel; the same result for any `n_jobs`."""
    X, labels, sample_weight = data
    route = request.route(_largest(labels, scheme), weighted=sample_weight is not None)
    pairwise = isinstance(request.settings.get("kernel"), Precomputed)
    check_n_jobs(n_jobs)

    def restricted(part: Part) -> TrainingData:
        weight = None if sample_weight is None else sample_weight[part.rows]
        return TrainingData(_restricted(X, part.rows, pairwise=pairwise), part.labels, weight)

    found: list[Solution] = []
    with time_limited(request.time_limit) as deadline:
        # Together they take less than warm starts one by one, so that these are for what is left.
        solved = solved_together(request, route, data, scheme)
        if solved is not None and solved.certified.all() and warm_start is None:
            return CompositeSolution.together(solved, {}, scheme, labels), route
        every = keys(labels, scheme)
        earlier = _earlier(warm_start, every)
        left = [k for k in range(len(every)) if solved is None or not solved.certified[k]]
        problems = list(parts(labels, scheme, left))
        jobs = min(int(effective_n_jobs(n_jobs)), len(problems)) if problems else 1
        for done, part in enumerate(problems[:TIMED] if jobs > 1 else problems):
            # The share of the remaining time for one of the binary problems that are not yet
            # solved.
            limited = request.limited_to(deadline.remaining * jobs / (len(problems) - done))
            found.append(limited.run(route, restricted(part), earlier[part.key]))
            if done + 1 == TIMED:
                _warn_of_many(
                    found, len(problems), classes=labels.classes.size, scheme=scheme, jobs=jobs
                )
        if jobs > 1:
            rest = problems[TIMED:]
            limited = request.limited_to(deadline.remaining * jobs / max(len(rest), 1))
            found += Parallel(n_jobs=n_jobs)(
                delayed(limited.run)(route, restricted(part), earlier[part.key]) for part in rest
            )
    lifted = [
        _lifted(solution, part.rows, X.shape[1])
        for part, solution in zip(problems, found, strict=True)
    ]
    if solved is not None:
        return (
            CompositeSolution.together(
                solved, dict(zip(left, lifted, strict=True)), scheme, labels
            ),
            route,
        )
    return (
        CompositeSolution.of(dict(zip(every, lifted, strict=True)), scheme, labels.classes),
        route,
    )


def _largest(labels: CodedLabels, scheme: str) -> int:
    """Return the number of observations of the largest binary problem."""
    counts = np.sort(np.bincount(labels.codes, minlength=labels.classes.size))
    return int(counts[-2:].sum() if scheme == "ovo" else counts.sum())


def solved_together(
    request: Request, route: Route, data: TrainingData, scheme: str
) -> SolvedParts | None:
    """Solve the binary problems together; None where they cannot be, or somebody wants to see or
    limit the iterations of each.
    """
    entry, settings = find(request.formulation), dict(request.settings)
    solve = (
        None
        if entry is None or entry.fast is None or route.name != FAST
        else entry.fast.load_parts()
    )
    kernel = settings.pop("kernel", None)
    usual = settings.pop("intercept", "free") == "free" and settings.pop("indefinite", "error") in (
        "error",
        "clip",
    )
    if (
        solve is None
        or not usual
        or settings.keys() != {"C", "p"}
        or request.verbose
        or request.max_iter is not None
    ):
        return None
    found: SolvedParts | None = solve(
        data.X,
        data.labels,
        data.sample_weight,
        scheme=scheme,
        kernel=kernel.kernel if isinstance(kernel, CachedKernel) else kernel,
        tol=request.tol,
        cache_size=DEFAULT_CACHE if request.cache_size is None else request.cache_size,
        cache=request.cache,
        **settings,
    )
    return found


def solve_parts_in_blocks(
    request: Request,
    route: Route,
    X: Any,
    sides: ClassPartition,
    sample_weight: Any,
    *,
    scheme: str,
) -> CompositeSolution:
    """Solve all binary problems of rows in blocks, one after another: each of them uses all
    processors, or the cluster.
    """
    names = sides.classes.tolist()
    count = len(names)
    problems: list[tuple[Any, ClassPartition]]
    if scheme == "ovo":
        pairs = combinations(range(count), 2)
        problems = [
            ((names[k], names[other]), replace(sides, pair=(k, other))) for k, other in pairs
        ]
    else:
        problems = [(name, replace(sides, against_rest=k)) for k, name in enumerate(names)]
    found: dict[Any, Solution] = {}
    with time_limited(request.time_limit) as deadline:
        for done, (key, part) in enumerate(problems):
            limited = request.limited_to(deadline.remaining / (len(problems) - done))
            found[key] = limited.run(route, cast(TrainingData, (X, part, sample_weight)), None)
            if done + 1 == TIMED < len(problems):
                _warn_of_many(
                    list(found.values()), len(problems), classes=count, scheme=scheme, jobs=1
                )
    return CompositeSolution.of(found, scheme, sides.classes)
