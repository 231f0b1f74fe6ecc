"""What the plain use of a built problem needs beyond ``cvxpy.Problem``: a default solver that is
licensed, and copies.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import cvxpy as cp
from cvxpy.problems.problem import Cache
from cvxpy.reductions.solvers.defines import COMMERCIAL_SOLVERS
from cvxpy.utilities.canonical import Canonical

__all__ = ["PlainProblem"]

log = logging.getLogger(__name__)


class PlainProblem(cp.Problem):
    """A cvxpy problem whose ``solve()`` does not end at a commercial solver without a licence."""

    _passed_over: bool = False

    def solve(self, *args: Any, **kwargs: Any) -> Any:
        """Solve as ``cvxpy.Problem`` does; see there.

        cvxpy takes a commercial solver first as soon as it is installed. Where none is named and
        that one fails, for want of a licence or since the problem exceeds a size-limited one,
        Clarabel solves the problem, or HiGHS or SCIP where it is mixed-integer; the next call
        begins with these.
        """
        if args or kwargs.keys() & {"solver", "solver_path", "method", "requires_grad"}:
            return super().solve(*args, **kwargs)
        if not self._passed_over:
            try:
                return super().solve(**kwargs)
            except Exception as error:  # licence errors share no base class
                chain = self._cache.solving_chain
                of_a_solver = isinstance(error, cp.SolverError) or _package(error) not in (
                    "builtins",
                    "cvxpy",
                )
                if (
                    chain is None
                    or chain.solver.name() not in COMMERCIAL_SOLVERS
                    or not of_a_solver
                ):
                    raise
                log.info("%s failed and is passed over: %s", chain.solver.name(), error)
                self._passed_over = True
        solver = "CLARABEL" if not self.is_mixed_integer() else "HIGHS" if self.is_lp() else "SCIP"
        return super().solve(solver=solver, **kwargs)

    def __copy__(self) -> Self:
        """Return a problem with the same objective, constraints and variables, to be compiled and
        solved on its own.
        """
        found = type(self).__new__(type(self))
        found.__dict__.update(self.__dict__)
        cp.Problem.__init__(found, self._objective, self._constraints)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return all but what is compiled, which belongs to the variables of this problem."""
        state = {k: v for k, v in self.__dict__.items() if k not in ("__deepcopy__", "last_solver")}
        return {**state, "_cache": Cache(), "_solver_cache": {}}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Return a problem with variables of its own, to be compiled and solved on its own."""
        found = type(self).__new__(type(self))
        memo[id(self)] = found
        found.__dict__.update(copy.deepcopy(self.__getstate__(), memo))
        # cvxpy copies compiled forms, which have the numbers of the variables copied from.
        for part in [part for part in memo.values() if isinstance(part, Canonical)]:
            for name in [name for name in part.__dict__ if name.startswith("_lazy")]:
                del part.__dict__[name]
        return found


def following(
    function: Callable[..., Any], *parameters: cp.Parameter, name: str, **shape: Any
) -> cp.CallbackParam:
    """Return a parameter >= 0 that follows others, those of the copy in a copy of the problem."""
    return cp.CallbackParam(
        partial(_at_values, function, parameters), name=name, nonneg=True, **shape
    )


def _at_values(function: Callable[..., Any], parameters: tuple[cp.Parameter, ...]) -> Any:
    return function(*(float(parameter.value) for parameter in parameters))


def _package(error: Exception) -> str:
    """Return the package that the class of an error belongs to."""
    return type(error).__module__.partition(".")[0]
