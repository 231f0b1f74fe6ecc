"""A cvxpy problem with its statement, and the common parts of all builders."""

from __future__ import annotations

import copy
import logging
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass, replace
from functools import partial, wraps
from inspect import signature
from typing import Any, NamedTuple, ParamSpec, Self, TypeAlias, TypeVar, cast

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from cvxpy.problems.problem import Cache
from cvxpy.utilities.canonical import Canonical

from svmcvx.arguments import check_shared, documented, refuse_unknown
from svmcvx.arrays import Floats
from svmcvx.catalogue import TOL
from svmcvx.certificate import Dual, Evaluation, Kind
from svmcvx.certificate.bounded import Bounded
from svmcvx.data import CodedLabels, check_number, owned
from svmcvx.errors import BuildError, DataError, DataTypeError
from svmcvx.feature_space import FeatureSpace, LinearSpace
from svmcvx.formulations.base import Formulation, LinearTerm, LossStatement, RecoveredPoints, usable
from svmcvx.formulations.constraints import AddedRows, completed, read
from svmcvx.model import Model
from svmcvx.proofs import Statement
from svmcvx.solution import Summary
from svmcvx.system import clock, memory
from svmcvx.system.deadline import time_limited
from svmcvx.system.threads import single_blas_thread

Holds: TypeAlias = Callable[[Any], bool]

# Entry of a dual point that holds the multipliers of the rows.
ADDED = "added"
# Variables that are the coefficients of a model; the others follow from them at an optimum.
WEIGHTS = frozenset(("w", "W", "w_scaled", "W_scaled"))
OF_THE_MODEL = WEIGHTS | {"b"}


# What cvxpy writes of a formula, and what is shown: numbers that are repeated for each entry,
# squared lengths, differences, and numbers with fewer digits.
_SHORT: tuple[tuple[re.Pattern[str], Any], ...] = (
    (re.compile(r"Promote\(([\w.-]+), \([\d, ]*\)\)"), r"\1"),
    (re.compile(r"Promote(\([^()]*), \([\d, ]*\)\)"), r"\1)"),
    (re.compile(r"quad_over_lin\((.*?), 1\.0, None, False\)"), r"‖\1‖²"),
    (re.compile(r" \+ -"), " - "),
    (re.compile(r"\d+\.\d+"), lambda number: f"{float(number[0]):.6g}"),
)


# Parameters that the builder at work was called with, by the names of the hyper-parameters.
_PASSED: ContextVar[Mapping[str, cp.Parameter]] = ContextVar("_PASSED")


class _FixedConstraints(list[cp.Constraint]):
    """The constraints of a built problem; a change is refused instead of being lost."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise BuildError(
            "the constraints of a built problem cannot be changed; problem.with_constraints([...])"
            " gives a problem with more"
        )

    append = extend = insert = remove = pop = clear = _refuse
    __setitem__ = __delitem__ = __iadd__ = _refuse


class FormulationProblem(cp.Problem):
    """A cvxpy problem that knows the formulation it states.

    It can be solved by plain ``.solve()`` like any other problem, and passed to
    :func:`svmcvx.solve`. Scalar hyper-parameters are cvxpy parameters, found by name in
    ``param_dict`` and as attributes; set their ``value`` and solve again, nothing is compiled a
    second time.

    Parameters
    ----------
    objective : cvxpy.Minimize or cvxpy.Maximize
        With the statement's objective as its value, or with its dual's.
    constraints : iterable of cvxpy.Constraint
        Labelled, where their multipliers are wanted.
    statement : Formulation
        The mathematics, at the values that the parameters have now.
    parameters : iterable of cvxpy.Parameter, or mapping
        Scalars with the names of the statement's hyper-parameters, or by these names;
        :meth:`Formulation.at` is called with their values.

    Attributes
    ----------
    formulation : Formulation
        The statement at the present values of the parameters.
    constraint_dict : dict of str to cvxpy.Constraint
        The constraints by their labels.
    build_seconds : float
        What the construction took.
    last_solver : str or None
        The solver that was called last, whose state a warm start can use.
    """

    build_seconds: float = 0.0
    last_solver: str | None = None

    def __init__(
        self,
        objective: cp.Minimize | cp.Maximize,
        constraints: Iterable[cp.Constraint],
        statement: Formulation,
        parameters: Iterable[cp.Parameter] | Mapping[str, cp.Parameter] = (),
    ) -> None:
        super().__init__(objective, list(constraints))
        self._as_built = (self._objective, tuple(self._constraints))
        if not isinstance(parameters, Mapping):
            parameters = {one.name(): one for one in cast(Iterable[Any], parameters)}
        self._parameters = dict(parameters)
        self._stated = (
            {name: float(parameter.value) for name, parameter in self._parameters.items()},
            statement,
        )
        for name, parameter in self._parameters.items():
            setattr(self, name, parameter)

    def solve(self, *args: Any, **kwargs: Any) -> Any:
        """Solve as cvxpy does; without a named solver by Clarabel, HiGHS (linear) or SCIP."""
        if not (args or kwargs.keys() & {"solver", "solver_path", "method", "requires_grad"}):
            free = "CLARABEL"
            if self.is_mixed_integer():
                free = "HIGHS" if self.is_lp() else "SCIP"
            if free in cp.installed_solvers():
                kwargs["solver"] = free
        return super().solve(*args, **kwargs)

    def __str__(self) -> str:
        """Return the variables with their shapes, and the formula with labels, arrays as shapes."""
        lines = [str(self.objective)]
        for constraint in self._constraints:
            # cvxpy leaves out the label of a cone.
            label = f"{constraint.label}: " if constraint.label else ""
            lines.append(label + str(constraint).removeprefix(label))
        sizes = {leaf.name(): " × ".join(map(str, leaf.shape)) for leaf in self.constants()}
        for name in sorted((name for name, size in sizes.items() if size), key=len, reverse=True):
            lines = [line.replace(name, f"[{sizes[name]}]") for line in lines]
        for name, one in self._parameters.items():
            lines = [re.sub(rf"\b{re.escape(one.name())}\b", name, line) for line in lines]
        for pattern, short in _SHORT:
            lines = [pattern.sub(short, line) for line in lines]
        shown = (f"{one.name()} {one.shape if one.shape else ''}" for one in self.variables())
        head = f"{self._stated[1].name}: {', '.join(map(str.rstrip, shown))}"
        between = ["subject to", *lines[1:]] if lines[1:] else []
        return "\n    ".join([head, *lines[:1], *between])

    def _repr_html_(self) -> str:
        return Summary(self)._repr_html_()

    def __copy__(self) -> Self:
        """Return a problem with the same parts, to be compiled and solved on its own."""
        found = type(self).__new__(type(self))
        found.__dict__.update(self.__dict__)
        cp.Problem.__init__(found, self._objective, self._constraints)
        return found

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without compiled forms, which belong to this problem's variables."""
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

    @property
    def constraints(self) -> list[cp.Constraint]:
        """The constraints; :meth:`with_constraints` gives a problem with more."""
        return _FixedConstraints(self._constraints)

    @property
    def param_dict(self) -> dict[str, cp.Parameter]:
        """The parameters by their names, with those that enter only through others."""
        return {**super().param_dict, **self._parameters}

    @property
    def formulation(self) -> Any:
        """The statement at the present values of the parameters.

        Raises
        ------
        DataError
            If a parameter has no value.
        """
        for name, parameter in self.param_dict.items():
            # Those that follow others have values wherever these have.
            if not isinstance(parameter, cp.CallbackParam) and parameter.value is None:
                raise DataError(
                    f"the parameter {name} has no value; set problem.param_dict[{name!r}].value"
                )
        values = {name: float(one.value) for name, one in self._parameters.items()}
        known, statement = self._stated
        if values != known and statement is not None:
            statement = statement.at(**values)
            self._stated = values, statement
        return statement

    def proof_statement(self) -> Statement:
        """Return the problem as a proof states it, which :func:`svmcvx.verify` may expect.

        Raises
        ------
        DataError
            If there are no proofs of this formulation, or with its kernel.
        BuildError
            If the problem was changed after it was built.
        """
        self.require_as_built()
        statement: Statement = self.formulation.proof_statement()
        return statement

    def recover(self) -> RecoveredPoints:
        """Return models and dual points at the present values of variables and multipliers."""
        found: RecoveredPoints = self.formulation.recover_from(*self._values())
        return found

    def _values(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return variables by name and multipliers by label; None where they are not finite."""
        variables = {name: variable.value for name, variable in self.var_dict.items()}
        multipliers = {
            label: constraint.dual_value for label, constraint in self.constraint_dict.items()
        }
        return tuple(  # type: ignore[return-value]
            {name: value if usable(value) else None for name, value in values.items()}
            for values in (variables, multipliers)
        )

    def model_at_variables(self) -> Model | None:
        """Return the model at the present values of the variables; None where they have none.

        Raises
        ------
        BuildError
            If the problem is one in multipliers, or its statement does not say which model the
            variables are.
        """
        if isinstance(self.objective, cp.Maximize):
            raise BuildError(
                f"{type(self).__name__} is a problem in multipliers, which are not a model"
            )
        found: Model | None = self.formulation.model_of(self._values()[0])
        return found

    def start(self) -> Mapping[str, Any] | None:
        """Return the variables, by name, at a feasible point that the builder knows, or None.

        A mixed-integer solver that can take it starts from there.
        """
        return None

    def proved_bound(self, value: float) -> float:
        """Return a solver's bound on the statement's optimum: negated if the problem maximises."""
        return value if isinstance(self.objective, cp.Minimize) else -value

    @property
    def coefficients(self) -> int:
        """About how many coefficients its compiled form has, a measure of the time of compiling."""
        constants = (constant.value for constant in self.constants())
        return sum(value.nnz if sp.issparse(value) else np.size(value) for value in constants)

    @property
    def complete_below(self) -> float:
        """Value below which this problem has all points of its statement, not only optima: up to it
        a solver's bound on this problem with more constraints bounds the statement with them.
        """
        return math.inf

    @property
    def constraint_dict(self) -> dict[str, cp.Constraint]:
        """The constraints by their labels."""
        return {
            str(constraint.label): constraint
            for constraint in self._constraints
            if constraint.label
        }

    def require_as_built(self) -> None:
        """Raise a :class:`~svmcvx.errors.BuildError` if objective or constraints were changed."""
        objective, constraints = self._as_built
        same = len(constraints) == len(self._constraints) and all(
            mine is built for mine, built in zip(self._constraints, constraints, strict=True)
        )
        if self._objective is not objective or not same:
            raise BuildError(
                "the objective or the constraints of this problem were changed after it was built,"
                " so that its statement is not what it states; use problem.with_constraints([...]),"
                " which keeps both together"
            )

    def with_constraints(
        self,
        constraints: Iterable[cp.Constraint],
        *,
        holds: Callable[[Any], bool] | None = None,
        tol: float = TOL,
    ) -> FormulationProblem:
        """Return a problem with further constraints on the variables, for :func:`svmcvx.solve`.

        Its statement has the same objective on a smaller set. A dual bound of this problem is a
        bound there too, so that ``lower`` is never worse, but for the `tol` of the solve, than what
        this problem proves. In ``psvm_primal`` and ``odm_primal`` linear constraints on ``w`` and
        ``b``, bounds on absolute values, maxima, norms, sums of squares and quadratic forms have
        multipliers with a bound of their own, which is tight. A model counts for ``upper`` only if
        it meets the constraints.

        ``w`` belongs to the columns of the problem's factor: those of the data, or with a kernel or
        more columns than rows those of a square root of the Gram matrix
        (``problem.formulation.space.factor``). In the latter case the interval is that of the
        problem with this factor, where a part of ``w`` that no observation sees has a cost too.

        Parameters
        ----------
        constraints : iterable of cvxpy.Constraint
            In the variables of this problem, by :attr:`var_dict`, and in others, which may be
            integers: the lower bound then is that of a mixed-integer solver. Constraints that this
            problem was given earlier stay.
        holds : callable, optional
            Returns whether a :class:`~svmcvx.Model` meets the constraints, computed in numpy.
            Without it the model is the value of the variables, and the constraints' own values
            decide.
        tol : float
            Violation of a constraint that counts as none, without `holds`; 1e-6 by default. The
            largest is in ``certificate.residuals["added_violation"]``; where it is not 0 the
            interval is that of the constraints relaxed so far.

        Raises
        ------
        BuildError
            For a problem in multipliers: more constraints on these state another machine, not a
            smaller set of models.
        DataError
            If an argument is not as above.
        """
        self.require_as_built()
        if holds is not None and not callable(holds):
            raise DataTypeError(f"holds must be a function of a model, got {type(holds).__name__}")
        tol, problem = check_number(tol, "tol", "[0, inf)"), self
        added = (constraints,) if isinstance(constraints, cp.Constraint) else tuple(constraints)
        for constraint in added:
            if not isinstance(constraint, cp.Constraint):
                raise DataError(
                    "constraints must be a list of cvxpy constraints, got"
                    f" {type(constraint).__name__}"
                )
        if not added:
            return self
        if isinstance(self, ConstrainedProblem):
            earlier = cast(ConstrainedStatement, self._stated[1])
            if earlier.holds is not None or holds is not None:
                raise BuildError("constraints that need holds= are added in one call")
            problem, added, tol = self.original, (*self._added, *added), min(tol, earlier.tol)
        if isinstance(problem.objective, cp.Maximize):
            raise BuildError(
                f"{type(problem).__name__} is a problem in multipliers: more constraints on them"
                " state another machine, not a smaller set of models; add constraints to the"
                " primal problem"
            )
        mine = {variable.id for variable in problem.variables()}
        variables = {one.id: one for constraint in added for one in constraint.variables()}
        further = tuple(one for number, one in variables.items() if number not in mine)
        whole = stated = problem.formulation.with_added_constraints()
        built = problem
        if holds is None:
            # A statement that does not say which model the variables are raises here.
            problem.model_at_variables()
            if WEIGHTS & {one.name() for number, one in variables.items() if number in mine}:
                stated = _on_factor(whole)
        if stated is not whole:
            built = copy.copy(problem)
            built._stated = (problem._stated[0], stated)
        statement = ConstrainedStatement(whole, stated, len(added), holds, tol)
        if holds is None and any(one.boolean_idx or one.integer_idx for one in further):
            statement = replace(statement, integers=True)
        constraints = [*problem.constraints, *added]
        found = ConstrainedProblem(problem.objective, constraints, statement, problem._parameters)
        found.original, found.built, found._added, found._further = problem, built, added, further
        found.build_seconds = problem.build_seconds
        return found


class MeasuredModel(NamedTuple):
    """The model of the variables, `at` it in their coordinates, and the constraints there."""

    model: Any
    at: Any
    violation: float
    objective: float
    excess: list[Floats]


def _of_whole(name: str) -> Any:
    return property(lambda self: getattr(self.whole, name))


@dataclass(frozen=True, eq=False)
class ConstrainedStatement(Formulation):
    """A statement with further constraints; `stated` has the coordinates of the variables.

    Dual points without ``"added"``, the rows' multipliers, bound the problem as built.
    """

    name, facts, details, data_facts = map(_of_whole, ("name", "facts", "details", "data_facts"))
    whole: Formulation
    stated: Formulation
    count: int
    holds: Holds | None
    tol: float
    measured: MeasuredModel | None = None
    rows: AddedRows | None = None
    # Whether the added constraints have variables that are integers.
    integers: bool = False

    @property
    def kind(self) -> Kind:  # type: ignore[override]
        return "mixed-integer" if self.integers else self.whole.kind

    @property
    def hyperparameters(self) -> dict[str, Any]:
        return {**self.whole.hyperparameters, "added_constraints": self.count}

    def at(self, **values: float) -> Self:
        whole = self.whole.at(**values)
        stated = whole if self.stated is self.whole else self.stated.at(**values)
        return replace(self, whole=whole, stated=stated, measured=None)

    def violation(self, model: Any) -> float:
        if self.holds is not None:
            return 0.0 if self.holds(model) else math.inf
        if self.measured is None or _numbers(model) != _numbers(self.measured.model):
            return math.inf
        return self.measured.violation

    def evaluate(self, model: Any) -> Bounded:
        """Return the objective, at all variables if larger; ``inf`` if constraints may fail."""
        if not self.violation(model) <= self.tol:
            return Evaluation(math.inf, 0.0)
        measured = self.measured
        if measured is None:
            return self.whole.evaluate(model)
        found = self.stated.evaluate(measured.at)
        if measured.objective <= found.upper_end:
            return found
        return Evaluation(measured.objective, found.error)

    @property
    def _losses(self) -> LossStatement:
        return cast(LossStatement, self.stated)

    def _term(self, m: Floats) -> LinearTerm:
        """Return the term of multipliers, relaxed as far as the model needs it."""
        rows, measured = cast(AddedRows, self.rows), self.measured
        counts = measured is not None and measured.violation <= self.tol
        return rows.term(
            m, rows.relaxation(m, cast(MeasuredModel, measured).excess) if counts else 0.0
        )

    def _split(self, dual: Dual) -> tuple[Dual, Floats | None]:
        """Return the dual point of the losses, and the multipliers of the rows if they count."""
        m = None if self.rows is None else dual.get(ADDED)
        return _without_added(dual), None if m is None else np.asarray(m, dtype=np.float64)

    def repair(self, dual: Dual) -> Dual:
        rest, m = self._split(dual)
        if m is None:
            return self.stated.repair(rest)
        rows = cast(AddedRows, self.rows)
        m = rows.repaired(m)
        part, on_b = self._losses.repair_beside(rest, self._term(m))
        return {**part, ADDED: rows.with_parts(m, on_b)}

    def trivial(self) -> tuple[list[Any], list[Dual]]:
        return [], self.stated.trivial()[1]

    def dual_violation(self, dual: Dual) -> float:
        rest, m = self._split(dual)
        if m is None:
            return self.stated.dual_violation(rest)
        outside = cast(AddedRows, self.rows).outside(m)
        return outside or self._losses.violation_beside(rest, self._term(m))

    def evaluate_dual(self, dual: Dual) -> Bounded:
        rest, m = self._split(dual)
        if m is None:
            return self.stated.evaluate_dual(rest)
        return self._losses.bound_beside(rest, self._term(m))

    def export_dual(self, dual: Dual) -> Dual:
        part = self.whole.export_dual(_without_added(dual))
        return {**part, ADDED: dual[ADDED]} if ADDED in dual else part

    def residuals(self, model: Any, dual: Dual) -> Mapping[str, float]:
        at = model if self.measured is None else self.measured.at
        return {
            **self.stated.residuals(at, _without_added(dual)),
            "added_violation": self.violation(model),
        }

    def explain(self, status: str) -> str:
        if status == "infeasible":
            most = getattr(self.whole, "complete_below", math.inf)
            below = "" if most == math.inf else f" below {most:.6g}, which M='auto' covers,"
            what = f"the {self.count} added constraints beside those of {self.name}"
            return f"no point{below} meets {what}" + ("; pass numbers M" if below else "")
        return self.whole.explain(status)


def _without_added(dual: Dual) -> Dual:
    return {name: values for name, values in dual.items() if name != ADDED}


def _numbers(model: Any) -> tuple[Any, ...]:
    """Return the parts of a model, for comparison."""
    return tuple(
        part.tobytes() if isinstance(part, np.ndarray) else repr(part)
        for part in vars(model).values()
    )


class ConstrainedProblem(FormulationProblem):
    """A built problem with further constraints; see :meth:`FormulationProblem.with_constraints`."""

    # The problem as it was passed, and with the statement in the coordinates of its variables.
    original: FormulationProblem
    built: FormulationProblem
    _added: tuple[cp.Constraint, ...]
    # Variables of the added constraints alone.
    _further: tuple[cp.Variable, ...]
    # The rows, and what they were read with.
    _read: tuple[Any, AddedRows] | None = None

    @property
    def formulation(self) -> ConstrainedStatement:
        statement: ConstrainedStatement = super().formulation
        if statement.holds is not None:
            return statement
        if isinstance(statement.stated, LossStatement):
            rows = self._rows(statement.stated.linear_variables)
            statement = replace(statement, rows=rows)
        model = self.original.model_at_variables()
        if model is None or not all(usable(variable.value) for variable in self._further):
            return statement
        return replace(statement, measured=self._measured(statement, model))

    def _rows(self, known: frozenset[str]) -> AddedRows:
        """Return the rows of the added constraints at the present values of their parameters."""
        parameters = {
            parameter for constraint in self._added for parameter in constraint.parameters()
        }
        values = {parameter.id: np.asarray(parameter.value).tobytes() for parameter in parameters}
        if self._read is None or self._read[0] != (known, values):
            names = {variable.id: name for name, variable in self.built.var_dict.items()}
            self._read = (known, values), read(self._added, names, known)
        return self._read[1]

    def without_multipliers(self, rows: AddedRows | None = None) -> list[cp.Constraint]:
        """Return the added constraints that are not among the rows, those read last by default."""
        rows = self._read[1] if rows is None and self._read else rows
        return [c for k, c in enumerate(self._added) if rows is None or k in rows.left_out]

    def _measured(self, statement: ConstrainedStatement, model: Any) -> MeasuredModel:
        rows = statement.rows
        at: Any = model if self.built is self.original else self.built.model_at_variables()
        left_out = self.without_multipliers(rows)
        violations = [constraint.violation() for constraint in left_out]
        # Such a variable may have a sign, or be an integer.
        violations += [np.abs(one.value - one.project(one.value)) for one in self._further]
        largest = max([0.0, *(float(np.max(v)) if usable(v) else math.inf for v in violations)])
        names = {variable.name() for constraint in left_out for variable in constraint.variables()}
        objective = -math.inf
        if names - OF_THE_MODEL:
            value = self.objective.value
            objective = float(value) if usable(value) else math.inf
        excess = [] if rows is None else rows.excess(statement._losses.linear_values(at))
        return MeasuredModel(model, at, max([largest, *map(np.max, excess)]), objective, excess)

    def recover(self) -> RecoveredPoints:
        points = self.built.recover()
        statement = self.formulation
        if statement.holds is not None:
            return points
        if statement.measured is None:
            return RecoveredPoints([], points.duals)
        return RecoveredPoints(
            [statement.measured.model], [*self._beside(statement), *points.duals]
        )

    def _beside(self, statement: ConstrainedStatement) -> list[Dual]:
        """Return dual points with multipliers of the rows, from the values of a solver."""
        rows, measured = statement.rows, cast(MeasuredModel, statement.measured)
        if rows is None or not rows.groups:
            return []
        losses = statement._losses
        variables, multipliers = self.built._values()
        if any(value is None for value in multipliers.values()):
            return []
        dual = losses.multipliers_from(variables, multipliers)
        m = completed(rows, self._added, losses.linear_values(measured.at), losses, dual)
        return [] if m is None else [{**dual, ADDED: m}]

    def proved_bound(self, value: float) -> float:
        return self.built.proved_bound(min(value, self.built.complete_below))


@contextmanager
def values_restored(problem: ConstrainedProblem) -> Iterator[None]:
    """Restore the variables and multipliers after the block, in which problems may be solved."""
    constraints = problem.constraints
    leaves = [
        *problem.variables(),
        *(leaf for constraint in constraints for leaf in constraint.dual_variables),
    ]
    saved = [(leaf, leaf.value) for leaf in leaves]
    try:
        yield
    finally:
        for leaf, value in saved:
            leaf.save_value(value)


def _on_factor(statement: Formulation) -> Formulation:
    """Return a binary statement on the rows of its factor; others as they are."""
    space = getattr(statement, "space", None)
    if not isinstance(space, FeatureSpace) or space.factor_is_data or statement._weights_of_columns:
        return statement
    intercept = "free" if space.intercept == "free" else "none"
    data = replace(space.data, X=space.factor)
    changed: Any = statement
    found: Formulation = replace(
        changed, space=LinearSpace(data, intercept, np.zeros(space.factor.shape[1]))
    )
    return found


log = logging.getLogger(__name__)


def scalar(name: str, value: float | None, **sign: bool) -> cp.Parameter:
    """Return the parameter of a hyper-parameter: that of the caller, or a new one."""
    passed = _PASSED.get({}).get(name)
    if passed is not None and sign.get("pos") and not passed.attributes["pos"]:
        raise DataError(f"{name} must be positive: pass cvxpy.Parameter(pos=True, value=1.0)")
    return cp.Parameter(name=name, value=value, **sign) if passed is None else passed


def _numbers_of(passed: Mapping[str, cp.Parameter]) -> dict[str, Any]:
    for name, parameter in passed.items():
        if not (parameter.is_scalar() and parameter.is_nonneg() and parameter.value is not None):
            raise DataError(
                f"{name} must be a number, or a scalar parameter of cvxpy with a sign and a value,"
                f" as in cvxpy.Parameter(pos=True, value=1.0), got {parameter!r}"
            )
    return {name: np.asarray(parameter.value).item() for name, parameter in passed.items()}


def following(
    function: Callable[..., Any], *parameters: cp.Parameter, name: str, **shape: Any
) -> cp.CallbackParam:
    """Return a parameter ≥ 0 that follows others, in a copy of the problem their copies."""
    return cp.CallbackParam(
        partial(_at_values, function, parameters), name=name, nonneg=True, **shape
    )


def _at_values(function: Callable[..., Any], parameters: tuple[cp.Parameter, ...]) -> Any:
    return function(*(float(parameter.value) for parameter in parameters))


Arguments = ParamSpec("Arguments")
BuiltProblem = TypeVar("BuiltProblem", bound=FormulationProblem)

RAISES = {
    "DataError": "If the data or an argument cannot be used.",
    "BuildError": "If the problem would not fit into memory.",
}


def require_conic_memory(factor: Any, what: str) -> None:
    """Raise a BuildError unless a conic problem with this factor fits into memory."""
    n, r = factor.shape
    entries = factor.nnz if sp.issparse(factor) else factor.size
    memory.require(
        # Bytes that compiling and solving with Clarabel need for each entry, as measured for
        # n = 1 000 to 20 000: a thin factor is written into sparse constraints, a whole Gram matrix
        # into the objective.
        (300.0 if 2 * r <= n else 170.0) * float(entries),
        f"the {what} with a matrix of {n} × {r}",
        "use fewer observations or features, or a specialised solver of svmcvx.fast",
    )


def half_squared_norm(L: Any, v: cp.Expression, scale: cp.Parameter, what: str) -> cp.Expression:
    """Return ½‖scale L'v‖², through LL' itself where the factor is dense and as large."""
    require_conic_memory(L, what)
    n, r = L.shape
    if 2 * r <= n or sp.issparse(L):
        return 0.5 * cp.sum_squares(L.T @ (scale * v))
    squared = following(np.square, scale, name=f"{scale.name()}_squared")
    # A product with its transpose is positive semidefinite: cvxpy need not estimate eigenvalues.
    return squared * (0.5 * cp.quad_form(v, cp.psd_wrap(L @ L.T)))


def builder(build: Callable[Arguments, BuiltProblem]) -> Callable[Arguments, BuiltProblem]:
    """Let a builder own its arrays, document and check shared arguments, and measure its time."""
    known = tuple(signature(documented(build, raises=RAISES)).parameters)

    @wraps(build)
    def timed(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> BuiltProblem:
        started = clock.now()
        refuse_unknown(build.__name__, keywords, known)
        passed = {name: one for name, one in keywords.items() if isinstance(one, cp.Parameter)}
        keywords |= _numbers_of(passed)  # type: ignore[assignment]
        check_shared(keywords)
        if not any(isinstance(value, CodedLabels) for value in (*arguments, *keywords.values())):
            # Coded labels come from an estimator, whose problem does not outlive its fit.
            arguments = tuple(map(owned, arguments))  # type: ignore[assignment]
            keywords = dict(zip(keywords, map(owned, keywords.values()), strict=True))  # type: ignore[assignment]
        with time_limited(cast(float | None, keywords.get("time_limit"))), single_blas_thread():
            context = copy_context()
            context.run(_PASSED.set, passed)
            problem = context.run(build, *arguments, **keywords)
        if strange := passed.keys() - problem._parameters.keys():
            may = ", ".join(problem._parameters) or "none"
            raise DataError(
                f"{min(strange)} cannot be a parameter of cvxpy, pass a number; those of"
                f" {build.__name__} that can: {may}"
            )
        problem.build_seconds = clock.now() - started
        log.info("%s: built in %.2f s", build.__name__, problem.build_seconds)
        return problem

    return timed
