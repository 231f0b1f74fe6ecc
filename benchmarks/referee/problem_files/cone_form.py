r"""A problem as solvers receive it: a linear or quadratic objective, and affine maps in cones.

.. math:: \min_x \; \tfrac12 x'Px + q'x + d \quad\text{subject to}\quad b - Ax \in K, \;\; x_j \in \{0, 1\} \text{ for } j \in J.

K is a product of cones in the order of :attr:`ConeForm.cones`: zero, nonnegative, second-order,
positive semidefinite (the upper triangle by columns, off-diagonal entries times √2), exponential
(:math:`y e^{x/y} \le z`) and power cones (:math:`x^a y^{1-a} \ge |z|`). cvxpy computes the form; a
boolean variable is relaxed to [0, 1] before, since the solvers of cones take none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import BuildError

__all__ = ["Cone", "ConeForm", "cone_form"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Cone:
    """One cone of the product."""

    kind: str
    rows: int
    exponent: float | None = None


@dataclass(frozen=True, slots=True)
class ConeForm:
    """Arrays of a problem in the form above."""

    quadratic: sp.csc_matrix
    linear: Floats
    constant: float
    rows: sp.csc_matrix
    right: Floats
    cones: tuple[Cone, ...]
    integer: NDArray[np.int64]
    names: tuple[str, ...]
    maximise: bool


def cone_form(problem: cp.Problem, *, quadratic: bool) -> ConeForm:
    """Return a problem in cone form, at the present values of its parameters."""
    if not problem.is_dcp():
        raise BuildError("the problem is not convex by cvxpy's rules, and has no cone form")
    without = [parameter.name() for parameter in problem.parameters() if parameter.value is None]
    if without:
        raise BuildError(f"parameters have no value: {', '.join(without)}; set their value first")
    if any(variable.attributes["integer"] for variable in problem.variables()):
        raise BuildError(
            "the problem has integer variables; files are written for continuous and boolean ones"
        )
    relaxed, booleans = _relaxed(problem)
    data, _, _ = relaxed.get_problem_data(cp.CLARABEL, solver_opts={"use_quad_obj": quadratic})
    program = data["param_prob"]
    constant = float(program.apply_parameters()[1])
    m = len(data["c"])
    P = (
        sp.csc_matrix(data["P"])
        if quadratic and data.get("P") is not None
        else sp.csc_matrix((m, m))
    )
    columns = [
        (start, program.id_to_var[identity]) for identity, start in program.var_id_to_col.items()
    ]
    integer = [
        np.arange(start, start + variable.size)
        for start, variable in columns
        if variable.id in booleans
    ]
    return ConeForm(
        quadratic=P,
        linear=np.asarray(data["c"], dtype=float),
        constant=constant,
        rows=sp.csc_matrix(data["A"]),
        right=np.asarray(data["b"], dtype=float),
        cones=_cones(data["dims"]),
        integer=np.sort(np.concatenate([*integer, np.empty(0)])).astype(np.int64),
        names=_names(columns, {variable.id for variable in relaxed.variables()}, m),
        maximise=isinstance(problem.objective, cp.Maximize),
    )


def _relaxed(problem: cp.Problem) -> tuple[cp.Problem, set[int]]:
    """Return the problem with boolean variables in [0, 1], and the identities of these variables."""
    if not problem.is_mixed_integer():
        return cp.Problem(problem.objective, list(problem.constraints)), set()
    copies = {
        id(variable): cp.Variable(variable.shape, name=variable.name())
        for variable in problem.variables()
        if variable.attributes["boolean"]
    }
    objective = type(problem.objective)(problem.objective.expr.tree_copy(copies))
    bounds = [bound for copy in copies.values() for bound in (copy >= 0, copy <= 1)]
    constraints = [constraint.tree_copy(copies) for constraint in problem.constraints]
    return cp.Problem(objective, [*constraints, *bounds]), {copy.id for copy in copies.values()}


def _cones(dims: Any) -> tuple[Cone, ...]:
    """Return the cones of cvxpy's dimensions, in the order in which Clarabel takes them."""
    if dims.pnd:
        raise BuildError("files are written for power cones of three entries")
    return (
        *([Cone("zero", dims.zero)] if dims.zero else []),
        *([Cone("nonnegative", dims.nonneg)] if dims.nonneg else []),
        *(Cone("second-order", size) for size in dims.soc),
        *(Cone("semidefinite", size * (size + 1) // 2) for size in dims.psd),
        *(Cone("exponential", 3) for _ in range(dims.exp)),
        *(Cone("power", 3, float(exponent)) for exponent in dims.p3d),
    )


def _names(columns: list[tuple[int, Any]], own: set[int], m: int) -> tuple[str, ...]:
    """Return the names of columns: ``w_3`` is entry 3 of the variable w, ``W_1_2`` entry (1, 2) of
    W, ``aux_7`` a column of cvxpy's.
    """
    names = [f"aux_{column}" for column in range(m)]
    for start, variable in columns:
        if variable.id in own:
            for k, index in enumerate(np.ndindex(*variable.shape[::-1])):
                names[start + k] = "_".join([variable.name(), *map(str, index[::-1])])
    return tuple(names)
