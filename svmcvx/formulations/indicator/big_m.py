"""Values of M as users pass them, as parameters of a program, and the program with a free intercept."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

import cvxpy as cp
import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_number
from svmcvx.errors import BuildError, DataError
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.indicator.problems import DroppingProblem
from svmcvx.formulations.indicator.statement import IndicatorStatement

__all__ = ["check_total_price", "explicit_M", "free_intercept", "margin_parameter"]

Floats: TypeAlias = NDArray[np.float64]
# Of C, z and the right-hand side 1 − Mz of the margins: the loss, the final right-hand side, and further constraints.
Terms: TypeAlias = Callable[
    [cp.Parameter, cp.Variable, cp.Expression], tuple[cp.Expression, cp.Expression, list[cp.Constraint]]
]


def check_total_price(price: float, weight: Floats, name: str) -> None:
    """Raise a :class:`DataError` unless four times the price of all observations is a number, with room for squares of its root."""
    with np.errstate(over="ignore"):
        total = 4.0 * price * float(weight.sum())
    if not total <= 1e300:
        raise DataError(
            f"{name} times the sum of the weights is {total / 4.0:.3g}, where arithmetic overflows; make {name} smaller"
        )


def explicit_M(M: Any, space: FeatureSpace, *, optional: bool) -> Floats | None:
    """Return the user's values of M, one for each observation of positive weight; None for "auto" (and for None where that is allowed)."""
    if (isinstance(M, str) and M == "auto") or (M is None and optional):
        return None
    data = space.data
    if isinstance(M, str) or M is None or np.ndim(M) == 0:
        words = "'auto', a positive number or one an observation"
        if isinstance(M, str) or M is None:
            raise DataError(f"M must be {words}, got {M!r}")
        return np.full(data.n, check_number(M, "M", low=0, open_low=True))
    values = np.asarray(M)
    if values.dtype.kind not in "iuf" or values.shape not in ((data.rows,), (data.n,)):
        raise DataError(f"M must hold one number an observation: expected shape ({data.rows},), got {values.shape}")
    values = values.astype(np.float64)
    if not np.isfinite(values).all() or (values < 0).any():
        raise DataError("M must be finite and non-negative; use M='auto' for values that are valid by construction")
    return values[data.index] if values.shape == (data.rows,) else values


def margin_parameter(statement: IndicatorStatement, parameter: cp.Parameter) -> cp.Expression:
    """Return M as an expression: constant if explicit, else a parameter that follows the hyper-parameter.

    Raises
    ------
    BuildError
        If no feasible point is known, from which valid values would follow.
    """
    if statement.explicit is not None:
        return cp.Constant(statement.explicit)

    @lru_cache(maxsize=1)
    def values_at(value: float) -> Floats:
        M = statement.at(**{parameter.name(): value}).M
        if M is None:
            raise BuildError(
                "no feasible point is known at this k, so M='auto' has nothing to start from; raise k, pass an incumbent or "
                "a number M, or use form='perspective' with M=None"
            )
        return M

    def values() -> Floats:
        # cvxpy asks for the values again and again.
        return values_at(float(parameter.value))

    values()
    return cp.CallbackParam(callback=values, shape=(statement.y.size,), nonneg=True, name="M")


P = TypeVar("P", bound=DroppingProblem)


def free_intercept(statement: Any, cls: type[P], terms: Terms) -> P:
    r"""State a problem with the parameter C and a free intercept: the l0 or the ramp problem.

    .. math:: \min\; \tfrac12\|w\|^2 + \mathrm{loss} \quad\text{s.t.}\quad y_i (L_i w + b) \ge \mathrm{right}_i.

    Parameters
    ----------
    statement : IndicatorStatement
        With a field ``C``.
    cls : subclass of DroppingProblem
    terms : callable
        Values that depend on the loss; see :data:`Terms`.
    """
    C = cp.Parameter(nonneg=True, name="C", value=statement.C)
    space, n = statement.space, statement.y.size
    w, b = cp.Variable(space.factor.shape[1], name="w"), cp.Variable(name="b")
    z = cp.Variable(n, boolean=True, name="z")
    loss, right, constraints = terms(C, z, 1 - cp.multiply(margin_parameter(statement, C), z))
    margin = (cp.multiply(statement.y, space.factor @ w + b) >= right).set_label("margin")
    return cls(cp.Minimize(0.5 * cp.sum_squares(w) + loss), [margin, *constraints], statement, [C])
