"""What all specialised solvers share: clock, limits, progress, and the certified end."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from inspect import signature
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arguments import check_shared, documented, refuse_unknown
from svmcvx.certificate import SolverBound, check, relative_gap, status_of
from svmcvx.data import CodedLabels, as_array, checksum, owned
from svmcvx.errors import DataError, DataTypeError, NotCertified, SolverFailed
from svmcvx.formulations.base import Formulation, RecoveredPoints
from svmcvx.model import LinearModel
from svmcvx.row_blocks import in_blocks
from svmcvx.solution import Attempt, Solution, Status, Timings
from svmcvx.system import clock
from svmcvx.system.deadline import (
    Deadline,
    OutOfTime,
    current,
    deferred_interrupt,
    interruptible,
    time_limited,
)
from svmcvx.system.memory import SMALL_ENTRIES
from svmcvx.system.threads import single_blas_thread

# Statuses of a method that ended above the tolerance without a limit or an interruption.
FELL_SHORT = (Status.INACCURATE, Status.ITERATION_LIMIT, Status.NUMERICAL)

Arguments = ParamSpec("Arguments")
Settings = TypeVar("Settings")
# Candidates, why the method stopped, and options for the record.
Found: TypeAlias = tuple[RecoveredPoints, Status, dict[str, Any]]
log = logging.getLogger(__name__)


class Progress(NamedTuple):
    iteration: int
    seconds: float
    lower: float
    upper: float
    gap: float


# How a report is printed and logged.
REPORT = "%8d %9.2f s  lower %.9g  upper %.9g  gap %.2e"

# Returns True to stop.
Callback: TypeAlias = Callable[[Progress], bool | None]


RAISES = {
    "DataError": "If the data or an argument cannot be used, or `warm_start` does not fit.",
    "BuildError": "If the problem would not fit into memory.",
}


def limited(solver: Callable[Arguments, Solution]) -> Callable[Arguments, Solution]:
    """Start a solver's time limit with its call, limit BLAS to one thread, and copy small data."""
    known = tuple(signature(documented(solver, raises=RAISES)).parameters)

    @wraps(solver)
    def run(X: Any, y: Any, **keywords: Any) -> Solution:
        refuse_unknown(f"fast.{solver.__name__}", keywords, known)
        check_shared(keywords)
        with (
            time_limited(cast(float | None, keywords.get("time_limit"))),
            single_blas_thread(),
            owned_data(X, y) as (own, labels),
        ):
            return cast(Callable[..., Solution], solver)(own, labels, **keywords)

    return cast(Callable[Arguments, Solution], run)


@dataclass
class Monitor:
    """Stopping rules of a solver, and the record of its bounds."""

    tol: float
    max_iter: int
    verbose: bool = False
    callback: Callback | None = None
    deadline: Deadline = field(default_factory=current)
    build_seconds: float = 0.0

    def __post_init__(self) -> None:
        self._end = self.deadline.end
        self.lower, self.upper, self.gap = -math.inf, math.inf, math.inf
        # The best of those that are valid up to rounding in double precision.
        self.valid = -math.inf, math.inf
        # The best bounds, and the iterations, of an earlier start.
        self._before = -math.inf, math.inf
        self._done = 0
        self.iteration = 0
        self.rows: list[tuple[float, float, float]] = []

    def out_of_time(self) -> bool:
        """Whether the time limit has passed or Ctrl-C was pressed; cheap enough for inner loops."""
        return self.deadline.passed()

    @property
    def late(self) -> Status:
        return (
            Status.INTERRUPTED if self.deadline.interrupt_requested.is_set() else Status.TIME_LIMIT
        )

    def begin_again(self) -> None:
        """Reset the bounds that stopping rules use; reported progress continues from them."""
        self._before = max(self._before[0], self.lower), min(self._before[1], self.upper)
        self._done += self.iteration
        self.lower, self.upper = self.valid = -math.inf, math.inf
        self.gap = math.inf

    def reserve(self, seconds: float) -> None:
        """Reserve this many seconds of a time limit, in total, for the certificate."""
        self.deadline = replace(self.deadline, end=self._end - seconds)

    def within(self, tol: float, max_iter: int) -> Monitor:
        """Return a monitor with separate bounds for a subproblem; the deadline is shared."""
        return Monitor(tol, max_iter, deadline=self.deadline)

    def report(
        self, iteration: int, lower: float, upper: float, *, estimated: bool = False
    ) -> Status | None:
        """Record the bounds of an iteration; return the reason to stop, or None."""
        self.iteration = iteration
        if not estimated:
            self.valid = max(self.valid[0], lower), min(self.valid[1], upper)
        self.lower, self.upper = max(self.lower, lower), min(self.upper, upper)
        lower, upper = max(self.lower, self._before[0]), min(self.upper, self._before[1])
        self.gap, gap = relative_gap(self.lower, self.upper), relative_gap(lower, upper)
        valid, seconds = relative_gap(*self.valid), self.deadline.seconds
        progress = Progress(self._done + iteration, seconds, lower, upper, gap)
        self.rows.append((seconds, lower, upper))
        log.debug(REPORT, *progress)
        if self.verbose:
            print(REPORT % progress)  # noqa: T201 - what verbose asks for
        if valid <= self.tol:
            return Status.OPTIMAL
        if self.callback is not None and self.callback(progress):
            return Status.INTERRUPTED
        if self.deadline.passed():
            return self.late
        return Status.ITERATION_LIMIT if iteration >= self.max_iter else None


@contextmanager
def monitored(
    *, tol: float, max_iter: int, verbose: bool, callback: Callback | None
) -> Iterator[Monitor]:
    """Yield a :class:`Monitor` of checked arguments; Ctrl-C is deferred inside the block."""
    deadline = current()
    built, left = deadline.seconds, deadline.remaining
    monitor = Monitor(float(tol), int(max_iter), bool(verbose), callback, deadline, built)
    # The certificate passes over the data, or kernel matrix, twice as often as preparation; the
    # solver keeps 0.4 of the time in any case.
    monitor.reserve(min(2.0 * built, 0.6 * left))
    with deferred_interrupt(deadline.interrupt_requested):
        yield monitor


def checked_settings(settings: Any, kind: type[Settings]) -> Settings:
    """Return the settings of a method; the defaults for None."""
    if settings is None:
        return kind()
    if not isinstance(settings, kind):
        raise DataTypeError(
            f"settings must be of {kind.__name__} or None, got {type(settings).__name__}"
        )
    return settings


def solve_interruptible(
    monitor: Monitor,
    solve: Callable[Arguments, Found],
    *arguments: Arguments.args,
    **keywords: Arguments.kwargs,
) -> Found:
    """Run a method; return no points if the deadline passes inside a non-cancellable call."""
    try:
        with interruptible():
            return solve(*arguments, **keywords)
    except OutOfTime:
        return RecoveredPoints([], []), monitor.late, {}


def earlier_solution(warm_start: Any, statement: Formulation | None = None) -> Solution | None:
    """Return `warm_start`, a Solution or None; each solver checks whether it fits the sizes."""
    if warm_start is None:
        return None
    if not isinstance(warm_start, Solution):
        raise DataTypeError(
            f"warm_start must be a Solution of the same data, got {type(warm_start).__name__}"
        )
    these = None if statement is None else statement.data_facts
    if these is not None and warm_start.data is not None and these.differ_from(warm_start.data):
        raise DataError(
            "warm_start must be a Solution of the same data, got one of"
            f" {warm_start.data.fingerprint}, these are {these.fingerprint}: as many observations,"
            " features and classes, but other numbers or labels; leave it out"
        )
    return warm_start


def earlier_multipliers(
    warm_start: Any, statement: Any, *, required: bool = True
) -> NDArray[np.float64] | None:
    """Return the multipliers of an earlier solution on the same data, or None."""
    earlier = earlier_solution(warm_start, statement if required else None)
    rows = statement.space.data.rows
    if earlier is not None and not required and np.shape(earlier.dual.get("alpha", 0.0)) != (rows,):
        return None
    return None if earlier is None else np.array(statement.alpha(earlier.dual))


def start_of(warm_start: Any, statement: Any) -> Any:
    """Return ``(coef, intercept)`` of a linear machine as a Solution; anything else unchanged."""
    if not (isinstance(warm_start, (tuple, list)) and len(warm_start) == 2):
        return warm_start
    space = statement.space
    if not space.is_linear:
        raise DataError(
            "warm_start=(coef, intercept) is a start of linear machines; with a kernel pass a"
            " Solution of the same data"
        )
    try:
        coef, intercept = (np.ravel(np.asarray(part, dtype=np.float64)) for part in warm_start)
    except (TypeError, ValueError):
        raise DataTypeError("warm_start=(coef, intercept) must be numbers") from None
    d = space.data.X.shape[1]
    if coef.shape != (d,) or intercept.shape != (1,):
        raise DataError(
            f"warm_start has {coef.size} coefficients and {intercept.size} intercepts, these data"
            f" need {d} and 1"
        )
    if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
        raise DataError("warm_start=(coef, intercept) must be finite numbers")
    b, classes, support = float(intercept[0]), space.data.classes, np.zeros(0, dtype=np.intp)
    model = LinearModel(coef=coef, intercept=b, classes=classes, support=support)
    return Solution(
        model=model,
        certificate=check(statement, [model], [], own_models=False).certificate,
        status=Status.INACCURATE,
        solver="given",
        attempts=(),
        timings=Timings(),
        dual={},
        trace=np.zeros((0, 3)),
        formulation=statement.name,
        hyperparameters={},
        data=statement.data_facts,
    )


def conclude(
    statement: Formulation,
    candidates: RecoveredPoints,
    monitor: Monitor,
    status: Status,
    *,
    solver: str,
    warm_start_used: bool = False,
    options: dict[str, Any] | None = None,
    search_bound: SolverBound | None = None,
    proof: Mapping[str, NDArray[np.float64]] | None = None,
) -> Solution:
    started, certify_started = monitor.deadline.started, clock.now()
    solved = certify_started - started - monitor.build_seconds
    reason = "" if status is Status.OPTIMAL else f"stopped by {status}"
    details = options or {}, warm_start_used, monitor.iteration
    attempt = Attempt(solver, status, reason, solved, math.inf, *details)
    models, duals = candidates.models, candidates.duals
    if not models and status in (Status.TIME_LIMIT, Status.INTERRUPTED):
        # Those that need no solver and satisfy the constraints.
        known, trivial = statement.trivial()
        models = [model for model in known if math.isfinite(statement.evaluate(model).upper_end)]
        duals = duals or list(trivial)
    if not models:
        raise SolverFailed(f"{solver}: {statement.explain(str(status))}", [attempt])
    try:
        checked = check(statement, models, duals, solver_bound=search_bound)
    except NotCertified as error:
        raise SolverFailed(f"{solver}: {error}", [attempt]) from None
    certificate = checked.certificate
    if certificate.upper == math.inf and certificate.kind == "enumeration":
        # Rounding hides the feasibility of the points; a convex problem still has a lower end.
        raise SolverFailed(f"{solver}: {statement.explain(str(Status.NUMERICAL))}", [attempt])
    said, status = status, Status(status_of(certificate, monitor.tol, status))
    if said is Status.OPTIMAL and status is Status.INACCURATE:
        # The solver's gap did not include the rounding of the certificate.
        reason = f"the certified gap {certificate.gap:.2g} exceeds {monitor.tol:.2g}"
    lower = math.nan if certificate.lower is None else certificate.lower
    attempt = Attempt(solver, said, reason, solved, certificate.gap, *details)
    evidence = statement.evidence(checked.model)
    if proof and evidence is not None:
        evidence = replace(evidence, tree=proof)
    ended, compiled = clock.now(), monitor.deadline.compile_seconds
    trace = np.array([*monitor.rows, (ended - started, lower, certificate.upper)])
    trace[:-1][np.isinf(trace[:-1])] = math.nan
    return Solution(
        model=checked.model,
        certificate=certificate,
        status=status,
        solver=solver,
        attempts=(attempt,),
        timings=Timings(monitor.build_seconds, compiled, solved, ended - certify_started),
        dual=statement.export_dual(checked.dual) if checked.dual else {},
        trace=trace,
        formulation=statement.name,
        hyperparameters=statement.hyperparameters,
        evidence=evidence,
        data=statement.data_facts,
        terms=checked.terms,
        optimal_intercepts=statement.optimal_intercepts(checked.model),
    )


def solve(
    statement: Formulation,
    run: Callable[[Monitor, Any], Found],
    start: Any,
    limits: Mapping[str, Any],
    *,
    name: str,
    method: str = "smo",
    used: Callable[[], bool] = lambda: True,
) -> Solution:
    """Run a method from a start within its limits, and certify what it found; if the gap exceeds
    the tolerance, once more without the start. The name has a place for the method.
    """

    def certified(points: RecoveredPoints, *, warm: bool) -> Solution:
        solver = name.format(method=options.get("method", method))
        return conclude(
            statement, points, monitor, status, solver=solver, warm_start_used=warm, options=options
        )

    with monitored(**limits) as monitor:
        deadline = monitor.deadline
        points, status, options = run(monitor, start)
        if start is None:
            return certified(points, warm=False)
        try:
            first = certified(points, warm=used())
            if first.status not in FELL_SHORT or monitor.out_of_time():
                return first
            attempts = first.attempts
        except SolverFailed as error:
            if status not in FELL_SHORT or monitor.out_of_time():
                raise
            attempts = error.attempts
        log.info("%s from the earlier solution: once more without it", status)
        monitor.begin_again()
        monitor.deadline = deadline
        (models, duals), status, options = run(monitor, None)
        others = [dual for dual in points.duals if all(dual is not known for known in duals)]
        every = RecoveredPoints([*models, *points.models], [*duals, *others])
        second = certified(every, warm=False)
        return replace(second, attempts=(*attempts, *second.attempts))


@contextmanager
def owned_data(X: Any, y: Any) -> Iterator[tuple[Any, Any]]:
    """Yield data that nothing else changes: small arrays copied, others compared at the end."""
    if not _read_in_place(X):
        yield X, y
        return
    numbers = _numbers(X)
    if (numbers.nnz if sp.issparse(numbers) else numbers.size) <= SMALL_ENTRIES:
        own = owned(X)
        own = numbers.copy() if own is X else own
        yield own, replace(y, features=own) if isinstance(y, CodedLabels) and y.features is X else y
        return
    before = checksum(numbers)
    try:
        yield X, y
    except (ArithmeticError, IndexError, RuntimeError, ValueError):
        _require_same(X, before)
        raise
    _require_same(X, before)


def _read_in_place(X: Any) -> bool:
    """Whether validation may use the array without a copy; other arrays are copied."""
    if sp.issparse(X):
        return bool(X.format == "csr" and X.dtype == np.float64)
    if isinstance(X, np.ndarray):
        return bool(X.dtype == np.float64 and X.flags.c_contiguous)
    return not in_blocks(X) and (hasattr(X, "to_numpy") or hasattr(X, "__array__"))


def _numbers(X: Any) -> Any:
    return X if sp.issparse(X) else as_array(X, "X")


def _require_same(X: Any, before: int) -> None:
    if checksum(_numbers(X)) != before:
        raise DataError(
            "X was changed while it was solved, by a callback or another thread: there is no answer"
            " for it; pass a copy"
        )
