"""One solver after the other, until the certified gap is good enough, the time is up, or none is
left.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from cvxpy.reductions.solvers.solver import Solver

from svmcvx.arguments import check_shared, known_arguments
from svmcvx.catalogue import find
from svmcvx.certificate import Checked, SolverBound, check, status_of
from svmcvx.errors import BuildError, DataError, DataTypeError, NotCertified, SolverFailed
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.problem import ConstrainedProblem, FormulationProblem, values_restored
from svmcvx.solution import Attempt, DataFacts, Solution, Status, Timings
from svmcvx.solve import backends, policy
from svmcvx.system import clock
from svmcvx.system.deadline import Deadline, OutOfTime, time_limited
from svmcvx.system.threads import single_blas_thread

Planned: TypeAlias = tuple[policy.SolverCard, Mapping[str, Any] | None]

# Reason of the attempt on a problem without its added constraints.
WITHOUT_CONSTRAINTS = "the problem without its added constraints, whose lower bound holds with them"

log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Chain:
    """The attempts on one problem, and the best of them."""

    problem: FormulationProblem
    kind: policy.ProblemClass
    tol: float
    deadline: Deadline
    raw_options: Mapping[str, Mapping[str, Any]]
    # Arguments of all runs of solvers.
    shared: Mapping[str, Any]
    warm_start: bool = False
    # Whether the solvers are those of the table, and not one that was named.
    automatic: bool = True
    attempts: list[Attempt] = field(default_factory=list)
    best: tuple[Checked[Any], Attempt, Timings] | None = None
    # The statement at the variables of the best point.
    statement: Any = None
    trace: list[tuple[float, float, float]] = field(default_factory=list)

    @property
    def mixed(self) -> bool:
        """Whether the problem has integers."""
        return self.kind in policy.MIXED

    @property
    def acceptance(self) -> float:
        """The certified gap that ends the chain."""
        # A smaller gap of a mixed-integer problem cannot be reached: the tolerances of linear
        # programs and of the search are of this size.
        return max(self.tol, 1e-6) if self.mixed else self.tol

    def run(self, cards: tuple[policy.SolverCard, ...]) -> Solution:
        """Try the solvers in order."""
        planned: list[Planned] = [(card, self.raw_options.get(card.name)) for card in cards]
        while planned and not self.deadline.passed():
            card, own = planned.pop(0)
            if not policy.installed(card):
                self._note(Attempt(card.name, Status.UNAVAILABLE, "not installed"))
                continue
            if (reason := policy.licence_problem(card.name)) is not None:
                # available_solvers() has the reason; here it is needed only if no other solver is
                # tried.
                told = "not licensed" if len(cards) > 1 else f"not licensed: {reason}"
                self._note(Attempt(card.name, Status.LICENCE, told))
                continue
            again = self._attempt(card, own)
            if again is None:
                break
            planned[:0] = again
        ended = [attempt.status for attempt in self.attempts]
        limits = [each for each in ended if each in (Status.TIME_LIMIT, Status.ITERATION_LIMIT)]
        if self.best is None and (limits or self.deadline.passed()):
            self._known_points(limits[-1] if limits else Status.TIME_LIMIT)
        if self.best is None:
            # A missing licence is not the reason why the others failed.
            causes = sorted(self.attempts, key=lambda attempt: attempt.status.passed_over)
            told = "; ".join(
                f"{attempt.solver}: {attempt.reason or attempt.status}" for attempt in causes
            )
            raise SolverFailed(
                f"no solver produced a point: {told or 'the time limit left no time for any'}",
                self.attempts,
            )
        if isinstance(self.problem, ConstrainedProblem) and not self.mixed:
            self._bound_without_constraints(self.problem, cards)
        return self._solution(*self.best)

    def _bound_without_constraints(
        self, problem: ConstrainedProblem, cards: tuple[policy.SolverCard, ...]
    ) -> None:
        """Use the lower bound of the problem without its added constraints if it is larger."""
        assert self.best is not None  # noqa: S101 - called by run
        (checked, attempt, timings), began = self.best, clock.now()
        if checked.certificate.gap <= self.acceptance or self.deadline.passed():
            return
        kind = policy.classify(problem.built)
        free = replace(
            self, problem=problem.built, kind=kind, warm_start=False, attempts=[], best=None
        )
        with values_restored(problem):
            try:
                found = free.run(cards)
            except SolverFailed:
                return
        duals = [dual for dual in (checked.dual, found.dual) if dual]
        narrowed = check(self.statement, [checked.model], duals)
        seconds, gap = clock.now() - began, narrowed.certificate.gap
        without = ", ".join(str(constraint) for constraint in problem.without_multipliers())
        reason = WITHOUT_CONSTRAINTS + (
            f"; no multipliers are known of {without}" if without else ""
        )
        self._note(Attempt(found.solver, found.status, reason, seconds, gap))
        self.best = narrowed, attempt, replace(timings, solve=timings.solve + seconds)

    def _note(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        log.info(
            "%s: %s in %.2f s. %s", attempt.solver, attempt.status, attempt.seconds, attempt.reason
        )

    def _attempt(
        self, card: policy.SolverCard, own: Mapping[str, Any] | None
    ) -> list[Planned] | None:
        """Run one solver and certify its point; return solvers to try next, None for the end."""
        problem, name, began = self.problem, card.name, clock.now()
        limit = self.deadline.remaining
        # A fifth, at most a second, is left for the recovery and the certificate of a point.
        limit -= min(0.2 * limit, 1.0)
        # The gap of a repaired point exceeds the solver's criterion by about a factor of 100; below
        # 1e-8 the criterion is mostly rounding.
        asked = self.tol if self.mixed else min(self.tol, max(self.tol / 100.0, 1e-8))
        raw = own if self.best is None else {**card.second_opinion, **(own or {})}
        options = policy.translate(card, self.kind, tol=asked, raw=raw)
        options = policy.limited(card, options, limit)
        warm = (
            self.warm_start and not self.mixed and card.warm_start and problem.last_solver == name
        )
        note = partial(Attempt, name, options=options)
        try:
            until = began + limit
            outcome = backends.run(
                problem, card, options, warm_start=warm, until=until, **self.shared
            )
        except (KeyboardInterrupt, SystemExit):
            raise
        except OutOfTime:
            self._note(note(Status.TIME_LIMIT, "", clock.now() - began))
            return None
        except BaseException as error:  # solvers raise what they like, and panics are no Exception
            self._note(note(Status.ERROR, policy.failure(error), clock.now() - began))
            return []
        problem.last_solver = name
        if outcome.status in (Status.INFEASIBLE, Status.UNBOUNDED):
            known = self._without_solver()
            if known and math.isfinite(known.certificate.gap):
                # Data of size 1e-6 are rounding for a solver whose tolerances are partly absolute.
                reason = f"calls the problem {outcome.status}, although its optimum is bounded"
                self._note(note(Status.ERROR, reason, clock.now() - began))
                return []
            reason = problem.formulation.explain(str(outcome.status))
            self._note(note(outcome.status, reason, clock.now() - began))
            if self.best is None:
                raise SolverFailed(f"{name}: {reason}", self.attempts)
            return None
        solved, points = clock.now(), RecoveredPoints([], [])
        if outcome.has_point or outcome.bound is not None:
            points = problem.recover()
        recovered = clock.now()
        checked, failure = self._certify(points, outcome.bound)
        finished = clock.now()
        gap = checked.certificate.gap if checked else math.inf
        if not points.models:
            failure = f"stopped without a point ({outcome.message})"
        elif checked and not failure and not gap <= self.acceptance:
            failure = f"certified gap {gap:.2g} exceeds {self.acceptance:.2g} ({outcome.message})"
        attempt = note(
            outcome.status,
            failure,
            finished - began,
            gap,
            warm_start_used=warm or outcome.start_used,
            iterations=outcome.iterations,
        )
        self._note(attempt)
        if checked:
            solving = outcome.solve_seconds + recovered - solved
            self._keep(checked, attempt, outcome.compile_seconds, solving, finished - recovered)
        # Too little of the time limit may be left for another solver.
        whole = self.deadline.end - self.deadline.started
        over = math.isfinite(whole) and self.deadline.seconds >= 0.75 * whole
        if not failure or (outcome.status is Status.TIME_LIMIT and over):
            return None
        refinable = checked and own is None and not self.mixed and outcome.status is Status.OPTIMAL
        return [(card, card.refined)] if refinable and card.refined else []

    def _keep(self, checked: Checked[Any], attempt: Attempt, *seconds: float) -> None:
        """Store an answer, with the seconds of its parts, if it is the best so far."""
        certificate = checked.certificate
        lower = math.nan if certificate.lower is None else certificate.lower
        self.trace.append((self.deadline.seconds, lower, certificate.upper))
        if self.best is None or certificate.gap < self.best[0].certificate.gap:
            timings = Timings(self.problem.build_seconds, *seconds)
            self.best = checked, attempt, timings
            self.statement = self.problem.formulation

    def _certify(
        self, points: RecoveredPoints, bound: SolverBound | None = None
    ) -> tuple[Checked[Any] | None, str]:
        """Certify points with a solver's bound; return what failed, too."""
        statement, reason = self.problem.formulation, ""
        if bound is not None:
            bound = bound._replace(value=self.problem.proved_bound(bound.value))
        # A wrong bound is dropped; the point stays.
        for stated in dict.fromkeys((bound, None)) if points.models else ():
            try:
                found = check(statement, points.models, points.duals, solver_bound=stated)
            except NotCertified as error:
                reason = str(error)
            else:
                return found, reason
        return None, reason

    def _without_solver(self) -> Checked[Any] | None:
        """Certify the points that are known without a solver."""
        known = self.problem.recover if self.mixed else self.problem.formulation.trivial
        return self._certify(RecoveredPoints(*known()))[0]

    def _known_points(self, limit: Status) -> None:
        """Use what is known without a solver if a limit ended every one before it had a point."""
        began, checked = clock.now(), self._without_solver()
        if checked is None:
            return
        which = "time limit" if limit is Status.TIME_LIMIT else "limit on iterations"
        reason = f"the {which} left no time for a solver; the model is one that is known without"
        ran = [attempt.solver for attempt in self.attempts if not attempt.status.passed_over]
        last = ran[-1] if ran else "NONE"
        attempt = Attempt(last, limit, reason, 0.0, checked.certificate.gap, iterations=0)
        self._note(attempt)
        self._keep(checked, attempt, 0.0, 0.0, clock.now() - began)

    def _reason(self, chosen: Attempt) -> str:
        """Return the class of the problem, the solver, and why those before it were not enough."""
        why = "the first choice" if self.automatic else "which was named"
        passed = {}
        for one in self.attempts[: self.attempts.index(chosen)]:
            said = f"is {one.reason.partition(':')[0]}"
            ended = f"ended with {one.status}"
            passed[one.solver] = f"{one.solver} {said if one.status.passed_over else ended}"
        passed.pop(chosen.solver, None)
        why = f"since {' and '.join(passed.values())}" if passed else why
        return f"{self.kind}: {chosen.solver}, {why}"

    def _solution(self, checked: Checked[Any], attempt: Attempt, timings: Timings) -> Solution:
        statement = self.problem.formulation
        return Solution(
            model=checked.model,
            certificate=checked.certificate,
            status=Status(status_of(checked.certificate, self.acceptance, attempt.status)),
            solver=attempt.solver,
            attempts=tuple(self.attempts),
            timings=timings,
            dual=statement.export_dual(checked.dual) if checked.dual else {},
            trace=np.array(self.trace),
            formulation=statement.name,
            hyperparameters=statement.hyperparameters,
            details=statement.details,
            evidence=statement.evidence(checked.model),
            data=statement.data_facts,
            terms=checked.terms,
            optimal_intercepts=statement.optimal_intercepts(checked.model),
            solver_reason=self._reason(attempt),
        )


@known_arguments
def solve(
    problem: FormulationProblem,
    *,
    solver: str | Solver = "auto",
    tol: float = 1e-8,
    time_limit: float | None = None,
    verbose: bool = False,
    warm_start: Solution | bool | None = None,
    solver_options: Mapping[str, Any] | None = None,
) -> Solution:
    """Solve a problem made by one of the builders, and certify the answer.

    Solvers are tried in the order of :mod:`svmcvx.solve.policy` until the certified relative gap is
    at most `tol`. A solver that is not licensed, fails, or returns a point whose certified gap is
    larger is recorded in ``Solution.attempts`` with the reason, and the next one is tried; the best
    interval found is returned. Points are polished before they are checked, by the equations on the
    support; ``problem.solve()`` and :func:`svmcvx.certify` show those of the solver itself.

    The lower bound of a mixed-integer problem is the solver's bound minus an allowance for its
    tolerances (see ``residuals["solver_bound"]`` of the certificate); a relative gap of 1e-6 is
    then good enough. The solver starts from the builder's incumbent if it can;
    ``Solution.warm_start_used`` says whether it did. At a time limit the incumbent is returned with
    the interval that was proved so far.

    Parameters
    ----------
    problem : FormulationProblem
        The result of a builder. Afterwards its variables have the values of the last attempt.
    solver : str or cvxpy's Solver
        ``"auto"``; the name of one solver that cvxpy has installed, such as ``"mosek"``,
        ``"clarabel"``, ``"scs"``, ``"scip"``, ``"highs"``, ``"gurobi"``, ``"osqp"`` (others, such
        as ``"piqp"`` or ``"ecos"``, run with their own tolerances); or an interface that cvxpy can
        call (an instance of a subclass of its ``ConicSolver`` or ``QpSolver``). The result is
        certified in the same way, whoever made it.
    tol : float
        Certified relative gap that is wanted, 1e-8 by default. The tolerance of a solver is a
        hundredth of it, but at least 1e-8; a smaller `tol` is passed on unchanged.
    time_limit : float, optional
        Seconds for all attempts together. At the limit the best point so far is returned with its
        interval.
    verbose : bool
        Print the solver's log.
    warm_start : Solution or bool, optional
        Start from the last solution of this problem if the solver can (SCS); see
        ``Solution.warm_start_used``. A mixed-integer solver starts from the builder's incumbent
        unless this is False.
    solver_options : mapping, optional
        The solver's own options, which override `tol` and `time_limit` and are recorded in the
        attempts. With ``solver="auto"`` a mapping from solver names to such options.

    Returns
    -------
    Solution
        Independent of `problem`: no later solve changes it.

    Raises
    ------
    DataError
        If an argument is out of range or a solver has no such option.
    BuildError
        If `problem` was not made by a builder.
    SolverUnavailable
        If the solver asked for is unknown, not installed, or not capable of this class of problem.
    SolverFailed
        If no attempt produced a point; the chain is attached as ``attempts``.
    KeyboardInterrupt
        On Ctrl-C, at the solver's next iteration; the problem can be solved again.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> solution = sx.solve(sx.psvm_dual(X, y, C=1.0, p=2.0), solver="clarabel")
    >>> solution.solver, solution.status.value, solution.certificate.is_certified(1e-8)
    ('CLARABEL', 'optimal', True)
    """
    if not isinstance(problem, FormulationProblem):
        raise BuildError(
            f"solve takes a problem made by one of svmcvx's builders, got {type(problem).__name__};"
            " for any other cvxpy problem call its own solve(), which gives no certificate"
        )
    check_shared({"tol": tol, "time_limit": time_limit})
    if not isinstance(solver, str | Solver):
        raise DataError(
            f"solver must be a name or one of cvxpy's solver interfaces, got {solver!r}"
        )
    if warm_start is not None and not isinstance(warm_start, (bool, Solution)):
        raise DataTypeError(
            f"warm_start must be a Solution, True, False or None, got {type(warm_start).__name__}"
        )
    kind = policy.classify(problem)
    entry = find(problem.formulation.name)
    # The specialised solver takes no added constraints.
    elsewhere = kind in policy.MIXED and not isinstance(problem, ConstrainedProblem)
    fast = entry.fast.name if elsewhere and entry and entry.fast else ""
    cards = policy.candidates(kind, solver, fast)
    raw_options = _options_by_solver(cards, solver, solver_options)
    problem.require_as_built()
    these: DataFacts | None = problem.formulation.data_facts
    earlier = warm_start.data if isinstance(warm_start, Solution) else None
    if these and earlier and (these.size != earlier.size or these.differ_from(earlier)):
        raise DataError(
            f"warm_start must be a Solution of this problem, got one of other data ({earlier};"
            f" these are {these}); leave it out"
        )
    with time_limited(time_limit) as deadline, single_blas_thread():
        start = problem.start() if kind in policy.MIXED and warm_start is not False else None
        chain = Chain(
            problem=problem,
            kind=kind,
            tol=tol,
            deadline=deadline,
            raw_options=raw_options,
            shared={"verbose": verbose, "start": start},
            warm_start=bool(warm_start),
            automatic=solver == "auto",
        )
        return chain.run(cards)


def _options_by_solver(
    cards: tuple[policy.SolverCard, ...],
    solver: str | Solver,
    solver_options: Mapping[str, Any] | None,
) -> dict[str, Mapping[str, Any]]:
    if solver_options is None:
        return {}
    if not isinstance(solver_options, Mapping):
        raise DataTypeError(
            f"solver_options must be a mapping, got {type(solver_options).__name__}"
        )
    if solver != "auto":
        return {cards[0].name: solver_options}
    by_name = {str(name).upper(): options for name, options in solver_options.items()}
    wrong = [
        name
        for name, options in by_name.items()
        if name not in policy.SOLVERS or not isinstance(options, Mapping)
    ]
    if wrong:
        raise DataError(
            "with solver='auto', solver_options maps solver names to their options, as in"
            f" {{'clarabel': {{'max_iter': 50}}}}; {', '.join(map(repr, wrong))} is not of this"
            " form. Name the solver, or nest the options"
        )
    return by_name
