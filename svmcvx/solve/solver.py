"""The solve layer: choose a solver, run it, certify its point, and try another one if the gap is
too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cvxpy.reductions.solvers.solver import Solver

from svmcvx.arguments import known_arguments
from svmcvx.data import check_choice, check_number, check_time_limit
from svmcvx.errors import BuildError, DataError, DataTypeError
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.solution import DataFacts, Solution
from svmcvx.solve import policy
from svmcvx.solve.chain import Chain
from svmcvx.system.deadline import time_limited
from svmcvx.system.threads import single_blas_thread

__all__ = ["solve"]

# Of cvxpy's compilation.
BACKENDS = ("CPP", "SCIPY", "COO")


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
    canon_backend: str | None = None,
) -> Solution:
    """Solve a problem made by one of the builders, and certify the answer.

    Solvers are tried in the order of :mod:`svmcvx.solve.policy` until the certified relative gap is
    at most `tol`. A solver that is not licensed, fails, or returns a point whose certified gap is
    larger is recorded in ``Solution.attempts`` with the reason, and the next one is tried; the best
    interval found is returned.

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
        ``"clarabel"``, ``"scs"``, ``"scip"``, ``"highs"``, ``"gurobi"``, ``"osqp"``, ``"piqp"``,
        ``"qoco"``, ``"ecos"``, ``"copt"``, ``"xpress"``; or an interface that cvxpy can call (an
        instance of a subclass of its ``ConicSolver`` or ``QpSolver``). What a solver returns is
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
    canon_backend : str, optional
        What cvxpy compiles the problem with: ``"CPP"``, ``"SCIPY"``, ``"COO"``; its own choice by
        default.

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
    tol = check_number(tol, "tol")
    time_limit = check_time_limit(time_limit)
    if not isinstance(solver, str | Solver):
        raise DataError(
            f"solver must be a name or one of cvxpy's solver interfaces, got {solver!r}"
        )
    if canon_backend is not None:
        canon_backend = check_choice(canon_backend, "canon_backend", BACKENDS)
    if warm_start is not None and not isinstance(warm_start, (bool, Solution)):
        raise DataTypeError(
            f"warm_start must be a Solution, True, False or None, got {type(warm_start).__name__}"
        )
    kind = policy.classify(problem)
    cards = policy.candidates(kind, solver)
    raw_options = _options_by_solver(cards, solver, solver_options)

    problem.require_as_built()
    these: DataFacts | None = problem.formulation.data_facts
    earlier = warm_start.data if isinstance(warm_start, Solution) else None
    if (
        these is not None
        and earlier is not None
        and (these.size != earlier.size or these.differ_from(earlier))
    ):
        raise DataError(
            f"warm_start must be a Solution of this problem, got one of other data ({earlier};"
            f" these are {these}); leave it out"
        )
    with time_limited(time_limit) as deadline, single_blas_thread():
        start = problem.start() if kind in policy.MIXED and warm_start is not False else None
        chain = Chain(
            problem,
            kind,
            tol,
            deadline,
            verbose=verbose,
            warm_start=bool(warm_start),
            start=start,
            raw_options=raw_options,
            canon_backend=canon_backend,
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
