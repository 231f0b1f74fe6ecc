"""A cvxpy problem that knows its statement, and what all builders do around it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Self

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from svmcvx.errors import BuildError, DataError
from svmcvx.formulations.base import Formulation, RecoveredPoints
from svmcvx.formulations.plain_solve import PlainProblem
from svmcvx.model import Model
from svmcvx.proofs import Statement

if TYPE_CHECKING:
    from svmcvx.formulations.constraints import ConstrainedProblem


class _FixedConstraints(list[cp.Constraint]):
    """The constraints of a built problem; a change is refused instead of being lost."""

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise BuildError(
            "the constraints of a built problem cannot be changed; problem.with_constraints([...])"
            " gives a problem with more"
        )

    append = extend = insert = remove = pop = clear = _refuse
    __setitem__ = __delitem__ = __iadd__ = _refuse


class FormulationProblem(PlainProblem):
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
    parameters : iterable of cvxpy.Parameter
        Scalars with the names of the statement's hyper-parameters; :meth:`Formulation.at` is called
        with their values.

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
        parameters: Iterable[cp.Parameter] = (),
    ) -> None:
        super().__init__(objective, list(constraints))
        self._as_built = (self._objective, tuple(self._constraints))
        self._parameters = {parameter.name(): parameter for parameter in parameters}
        self._stated = (
            {name: float(parameter.value) for name, parameter in self._parameters.items()},
            statement,
        )
        for name, parameter in self._parameters.items():
            setattr(self, name, parameter)

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
        values = {}
        for name, parameter in self._parameters.items():
            if parameter.value is None:
                raise DataError(f"the parameter {name} has no value; set problem.{name}.value")
            values[name] = float(parameter.value)
        known, statement = self._stated
        if values != known and statement is not None:
            statement = statement.at(**values)
            self._stated = values, statement
        return statement

    def proof_statement(self) -> Statement:
        """Return the problem as a proof of it states it; :func:`svmcvx.verify` can be told to
        expect it.

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
        """Models and dual points from the present values of the variables and multipliers."""
        variables = {name: variable.value for name, variable in self.var_dict.items()}
        multipliers = {
            label: constraint.dual_value for label, constraint in self.constraint_dict.items()
        }
        found: RecoveredPoints = self.formulation.recover_from(variables, multipliers)
        return found

    def model_at_variables(self) -> Model | None:
        """Return the model of the present values of the variables, exactly as they are; None where
        they have none.

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
        found: Model | None = self.formulation.model_of(
            {name: variable.value for name, variable in self.var_dict.items()}
        )
        return found

    def start(self) -> Mapping[str, Any] | None:
        """Values of all variables, by their names, at a feasible point that the builder knows; None
        if there is none.

        A mixed-integer solver that can take it starts from there.
        """
        return None

    def proved_bound(self, value: float) -> float | None:
        """Lower bound on the statement's optimum that follows from a solver's proved bound on this
        problem's value.

        By default the statement's objective is that of the problem, negated if the problem
        maximises. None means that nothing follows.
        """
        return value if isinstance(self.objective, cp.Minimize) else -value

    @property
    def coefficients(self) -> int:
        """About how many coefficients its compiled form has, a measure of the time of compiling."""
        constants = (constant.value for constant in self.constants())
        return sum(value.nnz if sp.issparse(value) else np.size(value) for value in constants)

    @property
    def bound_survives_constraints(self) -> bool:
        """Whether a solver's bound on this problem with more constraints bounds its statement with
        them.

        It does not if the problem has been restricted to a neighbourhood of its optimum.
        """
        return True

    @property
    def constraint_dict(self) -> dict[str, cp.Constraint]:
        """The constraints by their labels."""
        return {
            str(constraint.label): constraint
            for constraint in self._constraints
            if constraint.label
        }

    def require_as_built(self) -> None:
        """Raise a :class:`~svmcvx.errors.BuildError` if the objective or a constraint is not the
        builder's any more.
        """
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
        tol: float = 1e-6,
    ) -> ConstrainedProblem:
        """Return a problem with further constraints on the variables, which :func:`svmcvx.solve`
        takes.

        Its statement has the same objective on a smaller set. A dual bound of this problem is a
        bound there too, so that ``lower`` is never worse, but for the `tol` of the solve, than what
        this problem proves. In ``psvm_primal`` and ``odm_primal`` linear constraints, absolute
        values and bounds on norms have multipliers with a bound of their own, which is tight. A
        model counts for ``upper`` only if it meets the constraints.

        ``w`` belongs to the columns of the problem's factor: those of the data, or with a kernel or
        more columns than rows those of a square root of the Gram matrix
        (``problem.formulation.space.factor``). In the latter case the interval is that of the
        problem with this factor, where a part of ``w`` that no observation sees has a cost too.

        Parameters
        ----------
        constraints : iterable of cvxpy.Constraint
            In the variables of this problem, by :attr:`var_dict`; possibly none. Constraints that
            this problem was given earlier stay.
        holds : callable, optional
            Returns whether a :class:`~svmcvx.Model` meets the constraints, computed in numpy.
            Without it the model is the value of the variables, moved by less than a solver's
            tolerance where it is on the wrong side of a constraint, and the constraints' own values
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
        from svmcvx.formulations.constraints import constrained

        return constrained(self, constraints, holds=holds, tol=tol)

    def stating(self, statement: Formulation) -> Self:
        """Return the same problem, whose variables mean those of another statement."""
        found = copy.copy(self)
        found._stated = (self._stated[0], statement)
        return found
