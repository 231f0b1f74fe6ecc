r"""More constraints on a built problem: the same objective on a smaller set.

**Upper end.** The objective at a model that meets the constraints up to `tol`.

**Lower end.** If S' ⊂ S, then :math:`\min_S f \le \min_{S'} f`: every bound for the problem as built holds for the smaller set. The
multipliers m of the added constraints give a bound of their own: where a point meets them, the product of m with their rows is at most
zero, so that

.. math:: \min_{z \in S'} f(z) \;\ge\; \min_{z \in S}\; f(z) + m'(Az + a),

an objective with one more linear term, whose dual bound :mod:`svmcvx.formulations.linear_dual` evaluates. The table of
:mod:`svmcvx.formulations.added_rows` tells which constraints have such multipliers; the others take no part in it.

Where the model violates a constraint by δ, the bound is less by the multiplier times δ: both ends then are those of the constraints
relaxed so far. A solver's point is moved to the inner side first, where a small step leads there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self, TypeAlias, cast

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, Evaluation
from svmcvx.core.bounded import Bounded
from svmcvx.data import check_number
from svmcvx.errors import BuildError, DataError, DataTypeError
from svmcvx.formulations.added_multipliers import STEPS, completed, moved_inside
from svmcvx.formulations.added_rows import AddedRows, read
from svmcvx.formulations.base import Formulation, FormulationProblem, RecoveredPoints, usable
from svmcvx.formulations.linear_dual import HasLinearDual, LinearDual, LinearTerm
from svmcvx.solution import DataFacts

__all__ = ["ConstrainedProblem", "ConstrainedStatement", "constrained", "values_restored"]

Floats: TypeAlias = NDArray[np.float64]
Holds: TypeAlias = Callable[[Any], bool]


# Entry of a dual point that holds the multipliers of the rows.
ADDED = "added"
# Variables that are the coefficients of a model; all others follow from them at an optimum of the problem as built.
OF_THE_MODEL = frozenset(("w", "b", "W", "w_scaled", "W_scaled"))


class Measured(NamedTuple):
    """The model near the present values of the variables, and what the added constraints say of it.

    Attributes
    ----------
    model : Model
    violation : float
        The largest of the added constraints.
    objective : float
        Of the problem at the variables, where a constraint that has no rows binds other variables than those of the model; −inf
        where none does.
    excess : list of ndarray
        At least the violations of the rows of each group.
    slacks : mapping of str to ndarray
        Values of variables in the rows that are no part of the model.
    """

    model: Any
    violation: float
    objective: float
    excess: list[Floats]
    slacks: Mapping[str, Floats]


@dataclass(frozen=True, eq=False)
class ConstrainedStatement(Formulation):
    """A statement with further constraints.

    Its dual points are those of the statement without them and, in ``"added"``, the multipliers of the rows; without that entry the
    bound is that of the problem as built.

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
    rows : AddedRows, optional
        The constraints that have multipliers.
    """

    whole: Formulation
    count: int
    holds: Holds | None
    measured: Measured | None
    tol: float
    rows: AddedRows | None = None

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
        return replace(self, whole=self.whole.at(**values), measured=None)

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
        if self.measured is None or not self.measured.slacks:
            found = self.whole.evaluate(model)
        else:
            found = self._linear.evaluate(model, self.measured.slacks)
        if self.measured is None or self.measured.objective <= found.above:
            return found
        return Evaluation(self.measured.objective, found.error)

    @property
    def _linear(self) -> LinearDual:
        """The dual side of the statement beside a linear term."""
        statement: Any = self.whole
        found: LinearDual = statement.linear_dual()
        return found

    def _term(self, m: Floats) -> LinearTerm:
        """What multipliers of the rows add to the objective; the constraints are relaxed as far as the model needs it."""
        rows, measured = cast(AddedRows, self.rows), self.measured
        counts = measured is not None and measured.violation <= self.tol
        return rows.term(m, rows.relaxation(m, cast(Measured, measured).excess) if counts else 0.0)

    def repair(self, dual: Dual) -> Dual:
        """Put the multipliers of the rows into their cones and, with them, those of the statement."""
        if ADDED not in dual or self.rows is None:
            return self.whole.repair(_without_added(dual))
        m = self.rows.repaired(dual[ADDED])
        part, on_b = self._linear.repair(_without_added(dual), self._term(m))
        return {**part, ADDED: self.rows.with_parts(m, on_b)}

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        """The dual points that are known without a solver; whether the models meet the constraints is not known."""
        return [], self.whole.trivial()[1]

    def dual_violation(self, dual: Dual) -> float:
        """Largest violation by the multipliers of the statement, and of the rows."""
        if ADDED not in dual or self.rows is None:
            return self.whole.dual_violation(_without_added(dual))
        m = np.asarray(dual[ADDED], dtype=np.float64)
        outside = self.rows.outside(m)
        return outside if outside > 0.0 else self._linear.violation(_without_added(dual), self._term(m))

    def evaluate_dual(self, dual: Dual) -> Bounded:
        """The dual objective with the multipliers of the rows; that of the problem as built without them."""
        if ADDED not in dual or self.rows is None:
            return self.whole.evaluate_dual(_without_added(dual))
        return self._linear.bound(_without_added(dual), self._term(np.asarray(dual[ADDED], dtype=np.float64)))

    def export_dual(self, dual: Dual) -> Dual:
        """As without the constraints, and the multipliers of the rows."""
        part = self.whole.export_dual(_without_added(dual))
        return {**part, ADDED: dual[ADDED]} if ADDED in dual else part

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        """Those of the statement, and ``"added_violation"``."""
        return {**self.whole.residuals(model, _without_added(dual)), "added_violation": self.violation(model)}

    def explain(self, status: str) -> str:
        """Infeasible may be due to the added constraints."""
        if status == "infeasible":
            return f"no point meets the {self.count} added constraints beside those of {self.name}"
        return self.whole.explain(status)


def _without_added(dual: Dual) -> Dual:
    """The entries of the statement without the constraints."""
    return {name: values for name, values in dual.items() if name != ADDED}


def _numbers(model: Any) -> tuple[Any, ...]:
    """What a model is made of, for comparison."""
    return tuple(part.tobytes() if isinstance(part, np.ndarray) else repr(part) for part in vars(model).values())


def _total(excess: Sequence[Floats]) -> float:
    """The largest violation."""
    return max((float(over.max(initial=0.0)) for over in excess), default=0.0)


class ConstrainedProblem(FormulationProblem):
    """A built problem with further constraints; see :meth:`FormulationProblem.with_constraints`.

    Attributes
    ----------
    built : FormulationProblem
        The problem without them. Variables and parameters are the same objects.
    """

    built: FormulationProblem
    _added: tuple[cp.Constraint, ...]
    # The rows, and what they were read with.
    _read: tuple[Any, AddedRows] | None = None

    @property
    def formulation(self) -> ConstrainedStatement:
        """The statement at the present values of the parameters, with what the variables' values say of the constraints."""
        statement: ConstrainedStatement = super().formulation
        if statement.holds is not None:
            return statement
        if isinstance(statement.whole, HasLinearDual):
            statement = replace(statement, rows=self._rows(statement.whole.linear_dual().variables))
        model = self.built.model_at_variables()
        return statement if model is None else replace(statement, measured=self._measured(statement, model))

    def _rows(self, known: frozenset[str]) -> AddedRows:
        """The rows of the added constraints at the present values of their parameters."""
        parameters = {parameter for constraint in self._added for parameter in constraint.parameters()}
        values = {parameter.id: np.asarray(parameter.value).tobytes() for parameter in parameters}
        if self._read is None or self._read[0] != (known, values):
            names = {variable.id: name for name, variable in self.built.var_dict.items()}
            self._read = (known, values), read(self._added, names, known)
        return self._read[1]

    def _measured(self, statement: ConstrainedStatement, model: Any) -> Measured:
        """Measure the model of the variables, moved to the inner side of the constraints where a small step leads there."""
        rows = statement.rows
        left_out = [c for k, c in enumerate(self._added) if rows is None or k in rows.left_out]
        violations = [constraint.violation() for constraint in left_out]
        largest = max([0.0, *(float(np.max(v)) if usable(v) else math.inf for v in violations)])
        others = {variable.name() for constraint in left_out for variable in constraint.variables()} - OF_THE_MODEL
        objective = (
            -math.inf if not others else float(self.objective.value) if usable(self.objective.value) else math.inf
        )
        if rows is None:
            return Measured(model, largest, objective, [], {})
        linear = statement._linear
        slacks = {name: self.built.var_dict[name].value for name in rows.matrices if name not in OF_THE_MODEL}
        if not all(map(usable, slacks.values())):
            return Measured(model, math.inf, objective, [], {})
        best, excess = model, self._excess(rows, linear, model, slacks)
        for _ in range(STEPS if not left_out else 0):
            at = linear.values(best, slacks)
            moving = [name for name in at if name not in slacks] if "w" in at else []
            moved = moved_inside(rows, at, excess, moving)
            if moved is None:
                break
            nearer = linear.model(moved, best)
            found = self._excess(rows, linear, nearer, slacks)
            if not _total(found) < _total(excess):
                break
            best, excess = nearer, found
        return Measured(best, max(largest, _total(excess)), objective, excess, slacks)

    @staticmethod
    def _excess(rows: AddedRows, linear: LinearDual, model: Any, slacks: Mapping[str, Floats]) -> list[Floats]:
        return rows.excess(linear.values(model, slacks), linear.squared_norm(model))

    def recover(self) -> RecoveredPoints:
        """The dual points of the problem as built, with the multipliers of the added constraints too; its models with `holds`, otherwise that of the variables."""
        points = self.built.recover()
        statement = self.formulation
        if statement.holds is not None:
            return points
        if statement.measured is None:
            return RecoveredPoints([], points.duals)
        return RecoveredPoints([statement.measured.model], [*self._beside(statement), *points.duals])

    def _beside(self, statement: ConstrainedStatement) -> list[Dual]:
        """Dual points with multipliers of the rows, from those that a solver has left."""
        rows, measured = statement.rows, cast(Measured, statement.measured)
        if rows is None or not rows.groups:
            return []
        linear = statement._linear
        variables = {name: variable.value for name, variable in self.built.var_dict.items()}
        multipliers = {label: constraint.dual_value for label, constraint in self.built.constraint_dict.items()}
        if not all(map(usable, multipliers.values())):
            return []
        dual = linear.start(variables, multipliers)
        m = completed(rows, self._added, linear.values(measured.model, measured.slacks), linear, dual)
        return [] if m is None else [{**dual, ADDED: m}]

    def proved_bound(self, value: float) -> float | None:
        """As for the problem as built, where its constraints do not rest on its own optimum."""
        return self.built.proved_bound(value) if self.built.bound_survives_constraints else None

    @property
    def bound_survives_constraints(self) -> bool:
        """As for the problem as built."""
        return self.built.bound_survives_constraints


@contextmanager
def values_restored(problem: ConstrainedProblem) -> Iterator[None]:
    """Leave the variables and multipliers as they are, whatever is solved inside."""
    constraints = problem.constraints
    leaves = [*problem.variables(), *(leaf for constraint in constraints for leaf in constraint.dual_variables)]
    kept = [(leaf, leaf.value) for leaf in leaves]
    try:
        yield
    finally:
        for leaf, value in kept:
            leaf.save_value(value)


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
