"""Mixed-integer programs that drop observations, as cvxpy problems that know their statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual
from svmcvx.errors import BuildError
from svmcvx.formulations.base import RecoveredPoints, usable
from svmcvx.formulations.indicator.statement import LARGEST_SHORTFALL, SCALINGS, IndicatorStatement
from svmcvx.formulations.problem import FormulationProblem, following
from svmcvx.heuristics.signed_rows import Incumbent
from svmcvx.model import BinaryModel

__all__ = ["CountingProblem", "DroppingProblem", "Terms", "free_intercept", "margin_parameter"]

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]


class DroppingProblem(FormulationProblem):
    """A mixed-integer program that drops observations."""

    @property
    def M(self) -> Floats | None:
        """Values of M, indexed like the observations of positive weight; None in a perspective form
        without them.
        """
        found: Floats | None = self.formulation.M
        return found

    @property
    def incumbent(self) -> Incumbent | None:
        """The feasible point behind them."""
        found: Incumbent | None = self.formulation.incumbent
        return found

    @property
    def bound_survives_constraints(self) -> bool:
        """Whether no big-M row rests on an incumbent, which further constraints may exclude."""
        return "margin" not in self.constraint_dict or self.formulation.explicit is not None

    def proved_bound(self, value: float) -> float | None:
        """What a bound on the program with the factor says of the problem with the kernel."""
        found: float = self.formulation.bound_of_search(value)
        return found

    def solver_point(self) -> tuple[Floats | None, float, Bools]:
        """Return w, b and the kept set of a solver's point; without a point None, 0 and the
        incumbent's set.
        """
        statement = self.formulation
        w, z = self.var_dict["w"].value, self.var_dict["z"].value
        b = self.var_dict["b"].value if "b" in self.var_dict else 0.0
        if not (usable(w) and usable(z) and usable(b)):
            kept = np.zeros(statement.y.size, dtype=bool)
            return None, 0.0, kept if statement.incumbent is None else ~statement.incumbent.dropped
        return np.asarray(w), float(b), np.asarray(z) < 0.5

    def model_at_variables(self) -> BinaryModel | None:
        """Return the model of the values of ``w`` and ``b``; None where they have none."""
        w, b, _ = self.solver_point()
        if w is None:
            return None
        found: BinaryModel = self.formulation.model_at(w, b)
        return found

    def start_at_incumbent(self) -> dict[str, Any] | None:
        """Values of ``w`` and ``b`` at the incumbent."""
        point = self.incumbent
        if point is None:
            return None
        return {"w": point.w} | ({"b": point.b} if "b" in self.var_dict else {})


class CountingProblem(DroppingProblem):
    """A problem that counts violated margins; see :func:`svmcvx.zero_one_mio` and
    :func:`svmcvx.l0_mio`.
    """

    gamma: Floats | None = None
    relaxed_duals: tuple[Dual, ...] = ()

    def recover(self) -> RecoveredPoints:
        """The hard-margin solution of the kept observations, the solver's point, the incumbent; γ
        of the relaxation.
        """
        w, b, kept = self.solver_point()
        models = [
            *self.formulation.recovered_models(kept, w, b),
            *self.formulation.incumbent_models(),
        ]
        return RecoveredPoints(models, list(self.relaxed_duals))

    def model_at_variables(self) -> BinaryModel | None:
        """Return the model of the values of ``w`` and ``b``; None where they have none.

        A solver meets the margins of 1 up to its tolerance, and a margin below 1 counts as a loss
        however near it is. Where the lower ends of kept margins are short of it, the values of
        ``w`` and ``b`` are first multiplied by the number next to 1 that repairs this, so that
        model and variables are the same point.
        """
        w, b, kept = self.solver_point()
        if w is None:
            return None
        statement = self.formulation
        model: BinaryModel = statement.model_at(w, b)
        for attempt in range(SCALINGS):
            lowest = float(statement.measured(model).u.lower[kept].min(initial=1.0))
            if not 1.0 - LARGEST_SHORTFALL < lowest < 1.0:
                break
            divisor = lowest - 4.0**attempt * statement.scaling_error(model)
            w, b = w / divisor, b / divisor
            self.var_dict["w"].value = w
            if "b" in self.var_dict:
                self.var_dict["b"].value = b
            model = statement.model_at(w, b)
        return model

    def start(self) -> Mapping[str, Any] | None:
        """The incumbent."""
        values = self.start_at_incumbent()
        point = self.incumbent
        if values is None or point is None:
            return None
        values["z"] = z = point.dropped.astype(float)
        if self.gamma is not None:
            values["shortfall"] = np.where(z > 0, 1.0 - point.u, 0.0)
            values["excess"] = np.where(z > 0, 0.0, np.maximum(point.u - 1.0, 0.0))
            values["shortfall_cost"], values["excess_cost"] = (
                values["shortfall"] ** 2,
                values["excess"] ** 2,
            )
        return values


# Of C, z and the right-hand side 1 − Mz of the margins: the loss, the final right-hand side, and
# further constraints.
Terms: TypeAlias = Callable[
    [cp.Parameter, cp.Variable, cp.Expression],
    tuple[cp.Expression, cp.Expression, list[cp.Constraint]],
]


def margin_parameter(statement: IndicatorStatement, parameter: cp.Parameter) -> cp.Expression:
    """Return M as an expression: constant if explicit, else a parameter that follows the
    hyper-parameter.
    """
    if statement.explicit is not None:
        return cp.Constant(statement.explicit)
    values = _MarginsAt(statement, parameter.name())
    values(float(parameter.value))
    return following(values, parameter, name="M", shape=(statement.y.size,))


class _MarginsAt:
    """M at values of the hyper-parameter; the last ones are kept, since cvxpy reads them often."""

    def __init__(self, statement: IndicatorStatement, name: str) -> None:
        self.statement, self.name = statement, name
        self.known: tuple[float, Floats] | None = None

    def __call__(self, value: float) -> Floats:
        if self.known is None or self.known[0] != value:
            M = self.statement.at(**{self.name: value}).M
            if M is None:
                raise BuildError(
                    "no feasible point is known at this k, so M='auto' has nothing to start from;"
                    " raise k, pass an incumbent or a number M, or use form='perspective' with"
                    " M=None"
                )
            self.known = value, M
        return self.known[1]


P = TypeVar("P", bound=DroppingProblem)


def free_intercept(statement: Any, cls: type[P], terms: Terms) -> P:
    r"""State a problem with the parameter C and a free intercept: the l0 or the ramp problem.

    .. math:: \min\; \tfrac12\|w\|^2 + \mathrm{loss} \quad\text{s.t.}\quad y_i (L_i w + b) \ge \mathrm{right}_i.
    """
    C = cp.Parameter(nonneg=True, name="C", value=statement.C)
    space, n = statement.space, statement.y.size
    w, b = cp.Variable(space.factor.shape[1], name="w"), cp.Variable(name="b")
    z = cp.Variable(n, boolean=True, name="z")
    loss, right, constraints = terms(C, z, 1 - cp.multiply(margin_parameter(statement, C), z))
    margin = (cp.multiply(statement.y, space.factor @ w + b) >= right).set_label("margin")
    return cls(cp.Minimize(0.5 * cp.sum_squares(w) + loss), [margin, *constraints], statement, [C])
