r"""More constraints on a built problem: the same objective on a smaller set.

If S' ⊂ S, then :math:`\min_S f \le \min_{S'} f`: every lower bound for the problem as built holds for the smaller set. It need
not be tight, since the multipliers of the added constraints take no part in it. An upper bound is the objective at a model
that meets them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.core.bounded import Bounded
from svmcvx.data import check_number
from svmcvx.errors import BuildError, DataError, DataTypeError
from svmcvx.formulations.base import Formulation, FormulationProblem, RecoveredPoints, usable
from svmcvx.solution import DataFacts

__all__ = ["ConstrainedProblem", "ConstrainedStatement", "constrained"]

Floats: TypeAlias = NDArray[np.float64]
Holds: TypeAlias = Callable[[Any], bool]


# Variables that are the coefficients of a model; all others follow from them at an optimum of the problem as built.
OF_THE_MODEL = frozenset(("w", "b", "W", "w_scaled", "W_scaled"))


class Measured(NamedTuple):
    """The model at the present values of the variables, and what the added constraints say of it.

    Attributes
    ----------
    model : Model
    violation : float
        The largest of the added constraints.
    objective : float
        Of the problem at the variables, where an added constraint binds other variables than those of the model; −inf
        where none does.
    """

    model: Any
    violation: float
    objective: float


@dataclass(frozen=True, eq=False)
class ConstrainedStatement(Formulation):
    """A statement with further constraints.

    Parameters
    ----------
    whole : Formulation
        The statement without them.
    count : int
        Number of constraints that were added.
    holds : callable, optional
        Tells of a model whether it meets them.
    measured : Measured, optional
        Without `holds`: what the present values of the variables say.
    tol : float
        Violation that counts as none.
    """

    whole: Formulation
    count: int
    holds: Holds | None
    measured: Measured | None
    tol: float

    @property
    def name(self) -> str:  # type: ignore[override]
        """That of the statement without the constraints."""
        return self.whole.name

    @property
    def kind(self) -> Any:  # type: ignore[override]
        """That of the statement without the constraints."""
        return self.whole.kind

    @property
    def hyperparameters(self) -> dict[str, Any]:
        """The statement's own, and the number of constraints that were added."""
        return {**self.whole.hyperparameters, "added_constraints": self.count}

    @property
    def facts(self) -> Mapping[str, float]:
        """Facts of the statement without the constraints."""
        return self.whole.facts

    @property
    def details(self) -> Mapping[str, Floats]:
        """Details of the statement without the constraints."""
        return self.whole.details

    def at(self, **values: float) -> Self:
        """Return the statement at other values of the hyper-parameters."""
        return type(self)(self.whole.at(**values), self.count, self.holds, self.measured, self.tol)

    @property
    def data_facts(self) -> DataFacts | None:
        """Those of the statement without the constraints."""
        return self.whole.data_facts

    def violation(self, model: Any) -> float:
        """Return by how much a model violates the added constraints; infinite where that is not known."""
        if self.holds is not None:
            return 0.0 if self.holds(model) else math.inf
        if self.measured is None or _numbers(model) != _numbers(self.measured.model):
            return math.inf
        return self.measured.violation

    def evaluate(self, model: Any) -> Bounded:
        """The objective, or ``inf`` at a model that is not known to meet the added constraints.

        Where these bind variables that do not belong to the model, such as slacks, the objective of the problem at all
        variables counts if it is larger: the model alone may be better than the constraints allow.
        """
        if not self.violation(model) <= self.tol:
            return Evaluation(math.inf, 0.0)
        found = self.whole.evaluate(model)
        if self.measured is None or self.measured.objective <= found.above:
            return found
        return Evaluation(self.measured.objective, found.error)

    def repair(self, dual: Dual) -> Dual:
        """As without the constraints."""
        return self.whole.repair(dual)

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """The dual points that are known without a solver; whether the models meet the constraints is not known."""
        return [], self.whole.trivial()[1]

    def dual_violation(self, dual: Dual) -> float:
        """As without the constraints."""
        return self.whole.dual_violation(dual)

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """The dual objective without the constraints, a bound with them."""
        return self.whole.evaluate_dual(dual)

    def export_dual(self, dual: Dual) -> Dual:
        """As without the constraints."""
        return self.whole.export_dual(dual)

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """Those of the statement, and ``"added_violation"``."""
        return {**self.whole.residuals(model, dual), "added_violation": self.violation(model)}

    def explain(self, status: str) -> str:
        """Infeasible may be due to the added constraints."""
        if status == "infeasible":
            return f"no point meets the {self.count} added constraints beside those of {self.name}"
        return self.whole.explain(status)


def _numbers(model: Any) -> tuple[Any, ...]:
    """What a model is made of, for comparison."""
    return tuple(part.tobytes() if isinstance(part, np.ndarray) else repr(part) for part in vars(model).values())


class ConstrainedProblem(FormulationProblem):
    """A built problem with further constraints; see :meth:`FormulationProblem.with_constraints`.

    Attributes
    ----------
    built : FormulationProblem
        The problem without them. Variables and parameters are the same objects.
    """

    built: FormulationProblem
    _added: tuple[cp.Constraint, ...]

    @property
    def formulation(self) -> ConstrainedStatement:
        """The statement at the present values of the parameters, with what the variables' values say of the constraints."""
        statement: ConstrainedStatement = super().formulation
        if statement.holds is not None or (model := self.built.model_at_variables()) is None:
            return statement
        values = [constraint.violation() for constraint in self._added]
        largest = max(float(np.max(value)) for value in values) if all(map(usable, values)) else math.inf
        others = {variable.name() for constraint in self._added for variable in constraint.variables()} - OF_THE_MODEL
        objective = (
            -math.inf if not others else float(self.objective.value) if usable(self.objective.value) else math.inf
        )
        return replace(statement, measured=Measured(model, largest, objective))

    def recover(self) -> RecoveredPoints:
        """The dual points of the problem as built; its models with `holds`, otherwise that of the variables' values."""
        points = self.built.recover()
        if self.formulation.holds is not None:
            return points
        model = self.built.model_at_variables()
        return RecoveredPoints([] if model is None else [model], points.duals)

    def proved_bound(self, value: float) -> float | None:
        """As for the problem as built, where its constraints do not rest on its own optimum."""
        return self.built.proved_bound(value) if self.built.bound_survives_constraints else None

    @property
    def bound_survives_constraints(self) -> bool:
        """As for the problem as built."""
        return self.built.bound_survives_constraints


def constrained(
    problem: FormulationProblem, constraints: Iterable[cp.Constraint], *, holds: Holds | None, tol: float
) -> ConstrainedProblem:
    """Return `problem` with more constraints; see :meth:`FormulationProblem.with_constraints`."""
    problem.require_as_built()
    if isinstance(problem.objective, cp.Maximize):
        raise BuildError(
            f"{type(problem).__name__} is a problem in multipliers: more constraints on them state another machine, not a "
            "smaller set of models; add constraints to the primal problem"
        )
    if isinstance(problem, ConstrainedProblem):
        raise BuildError("this problem has added constraints already; pass all of them in one call of with_constraints")
    if holds is not None and not callable(holds):
        raise DataTypeError(f"holds must be a function of a model, got {type(holds).__name__}")
    tol = check_number(tol, "tol", low=0)
    added = tuple(constraints)
    wrong = [type(constraint).__name__ for constraint in added if not isinstance(constraint, cp.Constraint)]
    if wrong or not added:
        raise DataError(f"constraints must be a list of cvxpy constraints, got {wrong[0] if wrong else 'none'}")
    mine = {variable.id for variable in problem.variables()}
    strangers = [
        variable.name() for constraint in added for variable in constraint.variables() if variable.id not in mine
    ]
    if strangers and holds is None:
        raise DataError(
            f"the constraints have the variable {strangers[0]!r}, which is none of this problem's: "
            f"{', '.join(problem.var_dict)}; pass holds= to say of a model whether it meets them"
        )
    if holds is None:
        problem.model_at_variables()
    statement = ConstrainedStatement(problem.formulation.with_added_constraints(), len(added), holds, None, tol)
    found = ConstrainedProblem(
        problem.objective, [*problem.constraints, *added], statement, problem._parameters.values()
    )
    found.built, found._added, found.build_seconds = problem, added, problem.build_seconds
    return found
