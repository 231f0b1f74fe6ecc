"""The solve layer: choose a solver, run it, certify what it returns, fall back if that is not enough."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from svmcvx.certificate import Checked, SolverBound, check
from svmcvx.data import check_number
from svmcvx.errors import BuildError, DataError, DataTypeError, NotCertified, SolverFailed
from svmcvx.formulations.base import Formulation, FormulationProblem, RecoveredPoints
from svmcvx.solution import Attempt, Solution, Status, Timings
from svmcvx.solve import backends, policy
from svmcvx.solve.options import translate

__all__ = ["solve"]

# A solver is asked for so much less than the certified gap that is wanted, since the gap of a repaired point exceeds its own
# criterion by such factors; and for no less than the second number on that account, where its criterion is mostly rounding.
STRICTER, FINEST = 100.0, 1e-8
# What a solver is asked for once more where it says "optimal" and the certified gap says otherwise: its criteria are partly
# absolute, and small objectives feel that.
REFINED: dict[str, dict[str, Any]] = {"CLARABEL": {"tol_feas": 1e-11, "tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11}}
# The gap of a mixed-integer problem that its solver calls solved comes from the tolerances of linear programs and of
# the search; less than this cannot be asked of it.
MIXED_ACCEPTANCE = 1e-6
# A fallback may take this many times as long as the attempts before it, and at least so many seconds: it is a
# second opinion on a point that exists already.
FALLBACK_FACTOR = 10.0
FALLBACK_SECONDS = 10.0


def solve(
    problem: FormulationProblem,
    *,
    solver: str = "auto",
    tol: float = 1e-8,
    time_limit: float | None = None,
    verbose: bool = False,
    warm_start: Solution | bool | None = None,
    solver_options: Mapping[str, Any] | None = None,
) -> Solution:
    """Solve a problem made by one of the builders, and certify the answer.

    Solvers are tried in the order of :mod:`svmcvx.solve.policy` until the certified relative gap is at most `tol`.
    A solver that is not licensed, fails, or returns a point whose certified gap is larger is recorded in
    ``Solution.attempts`` with the reason, and the next one is tried; the best interval found is returned.

    The lower bound of a mixed-integer problem is the one that the solver states to have proved, less an allowance for
    its tolerances (see ``residuals["solver_bound"]`` of the certificate); a relative gap of 1e-6 is then good enough.
    The solver starts from the builder's incumbent where it can, which ``Solution.warm_start_used`` tells. At a time
    limit the incumbent is returned with whatever interval was proved by then.

    Parameters
    ----------
    problem : FormulationProblem
        What a builder returned. Its variables hold the values of the last attempt afterwards.
    solver : str
        ``"auto"``, or one solver: ``"mosek"``, ``"clarabel"``, ``"scs"``, ``"scip"``, ``"highs"``, ``"gurobi"``.
    tol : float
        Certified relative gap that is wanted, 1e-8 by default. A solver is asked for a hundredth of it, or for 1e-8 where that
        is more; for `tol` itself below that.
    time_limit : float, optional
        Seconds for all attempts together. At the limit the best point so far is returned with its interval.
    verbose : bool
        Print the solver's log.
    warm_start : Solution or bool, optional
        Start from the last solution of this problem where the solver can (SCS); ``Solution.warm_start_used`` tells.
        A mixed-integer solver starts from the builder's incumbent unless this is False.
    solver_options : mapping, optional
        The solver's own options, which win over `tol` and `time_limit` and are recorded in the attempts. With
        ``solver="auto"`` a mapping from solver names to such options.

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
    """
    if not isinstance(problem, FormulationProblem):
        raise BuildError(
            f"solve takes a problem made by one of svmcvx's builders, got {type(problem).__name__}; "
            "for any other cvxpy problem call its own solve(), which gives no certificate"
        )
    tol = check_number(tol, "tol", low=0, high=1, open_low=True, open_high=True)
    if time_limit is not None:
        time_limit = check_number(time_limit, "time_limit", low=0, open_low=True)
    if not isinstance(solver, str):
        raise DataError(f"solver must be a name, got {solver!r}")
    if warm_start is not None and not isinstance(warm_start, (bool, Solution)):
        raise DataTypeError(f"warm_start must be a Solution, True, False or None, got {type(warm_start).__name__}")
    kind = policy.classify(problem)
    cards = policy.candidates(kind, solver)
    mixed = kind in policy.MIXED
    acceptance = max(tol, MIXED_ACCEPTANCE) if mixed else tol
    asked = tol if mixed else min(tol, max(tol / STRICTER, FINEST))
    raw_options = _options_by_solver(cards, solver, solver_options)

    started = time.perf_counter()
    problem.require_as_built()
    statement = problem.formulation
    start = problem.start() if mixed and warm_start is not False else None
    attempts: list[Attempt] = []
    best: tuple[Checked[Any], Attempt, Timings] | None = None
    trace: list[tuple[float, float, float]] = []
    planned: list[tuple[policy.SolverCard, Mapping[str, Any] | None]] = [
        (card, raw_options.get(card.name)) for card in cards
    ]
    while planned:
        card, own = planned.pop(0)
        elapsed = time.perf_counter() - started
        limit = None if time_limit is None else time_limit - elapsed
        if limit is not None and limit <= 0:
            break
        if best is not None:
            fallback = max(FALLBACK_SECONDS, FALLBACK_FACTOR * elapsed)
            limit = fallback if limit is None else min(limit, fallback)
        reason = policy.licence_problem(card.name)
        if reason is not None:
            attempts.append(Attempt(card.name, Status.LICENCE, f"not licensed: {reason}"))
            continue
        options = translate(card.name, kind, tol=asked, time_limit=limit, raw=own)
        warm = not mixed and bool(warm_start) and card.warm_start and problem.last_solver == card.name
        attempt_started = time.perf_counter()
        try:
            outcome = backends.run(problem, card.name, options, verbose=verbose, warm_start=warm, start=start)
        except (KeyboardInterrupt, SystemExit):
            raise
        except (
            BaseException
        ) as error:  # solvers raise what they like, and panics are no Exception; the chain carries on
            attempts.append(
                Attempt(
                    card.name, Status.ERROR, _one_line(error), time.perf_counter() - attempt_started, options=options
                )
            )
            continue
        problem.last_solver = card.name
        if outcome.status in (Status.INFEASIBLE, Status.UNBOUNDED):
            reason = statement.explain(str(outcome.status))
            attempts.append(
                Attempt(card.name, outcome.status, reason, time.perf_counter() - attempt_started, options=options)
            )
            if best is None:
                raise SolverFailed(f"{card.name}: {reason}", attempts)
            break
        recover_started = time.perf_counter()
        statement = problem.formulation
        points = problem.recover() if outcome.has_point or outcome.bound is not None else RecoveredPoints([], [])
        certify_started = time.perf_counter()
        checked, failure = _certify(problem, statement, points, outcome)
        finished = time.perf_counter()
        gap = checked.certificate.gap if checked else math.inf
        if checked and not failure and not gap <= acceptance:
            failure = f"certified gap {gap:.2g} exceeds {acceptance:.2g} ({outcome.message})"
        attempt = Attempt(
            card.name,
            outcome.status,
            failure,
            finished - attempt_started,
            gap,
            options,
            warm or outcome.start_used,
            outcome.iterations,
        )
        attempts.append(attempt)
        if checked:
            lower = checked.certificate.lower
            trace.append((finished - started, math.nan if lower is None else lower, checked.certificate.upper))
            timings = Timings(
                problem.build_seconds,
                outcome.compile_seconds,
                outcome.solve_seconds + certify_started - recover_started,
                finished - certify_started,
            )
            if best is None or gap < best[0].certificate.gap:
                best = checked, attempt, timings
        if not failure or (
            outcome.status is Status.TIME_LIMIT and time_limit is not None and finished - started >= 0.9 * time_limit
        ):
            break
        if checked and own is None and not mixed and outcome.status is Status.OPTIMAL and card.name in REFINED:
            planned.insert(0, (card, REFINED[card.name]))
    if best is None:
        # A licence that is missing is not why the others failed.
        causes = sorted(attempts, key=lambda attempt: attempt.status is Status.LICENCE)
        chain = "; ".join(f"{attempt.solver}: {attempt.reason or attempt.status}" for attempt in causes)
        raise SolverFailed(f"no solver produced a point: {chain or 'the time limit left no time for any'}", attempts)
    checked, attempt, timings = best
    return Solution(
        model=checked.model,
        certificate=checked.certificate,
        status=attempt.status,
        solver=attempt.solver,
        attempts=tuple(attempts),
        timings=timings,
        dual=statement.export_dual(checked.dual) if checked.dual else {},
        trace=np.array(trace),
        formulation=statement.name,
        hyperparameters=statement.hyperparameters,
        details=statement.details,
        evidence=statement.evidence(checked.model),
    )


def _certify(
    problem: FormulationProblem, statement: Formulation, points: RecoveredPoints, outcome: backends.Outcome
) -> tuple[Checked[Any] | None, str]:
    """Certify the points recovered, with the bound that a solver states; return why not, or what is wrong with the bound."""
    if not points.models:
        return None, f"stopped without a point ({outcome.message})"
    bound = None
    if outcome.bound is not None and (value := problem.proved_bound(outcome.bound.value)) is not None:
        bound = SolverBound(value, outcome.bound.allowance)
    try:
        return check(statement, points.models, points.duals, solver_bound=bound), ""
    except NotCertified as error:
        reason = str(error)
    if bound is None:
        return None, reason
    try:
        # A wrong bound is dropped, not the point.
        return check(statement, points.models, points.duals), reason
    except NotCertified as error:
        return None, str(error)


def _one_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _options_by_solver(
    cards: tuple[policy.SolverCard, ...], solver: str, solver_options: Mapping[str, Any] | None
) -> dict[str, Mapping[str, Any]]:
    if solver_options is None:
        return {}
    if not isinstance(solver_options, Mapping):
        raise DataTypeError(f"solver_options must be a mapping, got {type(solver_options).__name__}")
    if solver != "auto":
        return {cards[0].name: solver_options}
    by_name = {str(name).upper(): options for name, options in solver_options.items()}
    wrong = [
        name for name, options in by_name.items() if name not in policy.SOLVERS or not isinstance(options, Mapping)
    ]
    if wrong:
        raise DataError(
            f"with solver='auto', solver_options maps solver names to their options, as in {{'clarabel': {{'max_iter': 50}}}}; "
            f"{', '.join(map(repr, wrong))} is not of this form. Name the solver, or nest the options"
        )
    return by_name
