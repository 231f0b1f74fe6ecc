"""Files MPS and LP of built problems, which HiGHS writes: linear constraints, a linear or quadratic
objective, boolean variables.

Variables keep their names: the column ``w_3`` is entry 3 of the variable w, ``W_1_2`` entry (1, 2)
of W, ``aux_7`` a column that cvxpy added. The optimal value of the file is that of the problem.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import scipy.sparse as sp

from svmcvx.errors import BuildError, SolverUnavailable


def write_problem(problem: cp.Problem, path: str | os.PathLike[str]) -> None:
    """Write a problem to a file; the end of its name, ``.mps`` or ``.lp``, is the format.
    Parameters have the values that they have now.
    """
    path = Path(path)
    if path.suffix not in (".mps", ".lp"):
        raise BuildError(f"path ends in {path.suffix!r}; the end is the format: .mps, .lp")
    if not problem.is_dcp():
        raise BuildError("the problem is not convex by cvxpy's rules")
    without = [parameter.name() for parameter in problem.parameters() if parameter.value is None]
    if without:
        raise BuildError(f"parameters have no value: {', '.join(without)}; set their value first")
    if any(variable.attributes["integer"] for variable in problem.variables()):
        raise BuildError("the problem has integer variables; only boolean ones are written")
    try:
        import highspy
    except ImportError:
        raise SolverUnavailable(
            f"{path.suffix} files are written by HiGHS; pip install 'svmcvx[mip]'"
        ) from None
    highs = highspy.Highs()
    highs.silent()
    # HiGHS writes to a name: the file takes its place when it is complete.
    with tempfile.TemporaryDirectory(dir=path.absolute().parent) as folder:
        draft = Path(folder) / f"problem{path.suffix}"
        for status in (highs.passModel(_model(problem, highspy)), highs.writeModel(str(draft))):
            if status == highspy.HighsStatus.kError:
                raise BuildError(f"HiGHS could not write the problem to {path}")
        draft.replace(path)


def _model(problem: cp.Problem, highspy: Any) -> Any:
    """Return the problem as HiGHS has it, from cvxpy's cone form min x'Px/2 + q'x + d, b − Ax ∈
    K.
    """
    relaxed, booleans = _relaxed(problem)
    data, _, _ = relaxed.get_problem_data(cp.CLARABEL, solver_opts={"use_quad_obj": True})
    dims, form = data["dims"], data["param_prob"]
    if dims.soc or dims.psd or dims.exp or dims.p3d or dims.pnd:
        raise BuildError("MPS and LP files have linear constraints only, and the problem has cones")
    A, b, q = sp.csc_matrix(data["A"]), np.asarray(data["b"], dtype=float), data["c"]
    (k, m), sign = A.shape, -1.0 if isinstance(problem.objective, cp.Maximize) else 1.0
    columns = [(start, form.id_to_var[one]) for one, start in form.var_id_to_col.items()]
    whole = [
        column
        for start, variable in columns
        if variable.id in booleans
        for column in range(start, start + variable.size)
    ]
    model = highspy.HighsModel()
    program = model.lp_
    program.num_col_, program.num_row_ = m, k
    program.sense_ = highspy.ObjSense.kMinimize if sign > 0 else highspy.ObjSense.kMaximize
    program.col_cost_ = sign * np.asarray(q, dtype=float)
    program.offset_ = sign * float(form.apply_parameters()[1])
    lower, upper = np.full(m, -highspy.kHighsInf), np.full(m, highspy.kHighsInf)
    lower[whole], upper[whole] = 0.0, 1.0
    program.col_lower_, program.col_upper_ = lower, upper
    program.row_lower_ = np.where(np.arange(k) < dims.zero, b, -highspy.kHighsInf)
    program.row_upper_ = b
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_, program.a_matrix_.index_ = A.indptr, A.indices
    program.a_matrix_.value_ = A.data
    if whole:
        kinds = np.full(m, highspy.HighsVarType.kContinuous)
        kinds[whole] = highspy.HighsVarType.kInteger
        program.integrality_ = list(kinds)
    program.col_names_ = _names(columns, {one.id for one in relaxed.variables()}, m)
    program.row_names_ = [f"row_{row}" for row in range(k)]
    if data.get("P") is not None and sp.csc_matrix(data["P"]).nnz:
        triangle = sp.csc_matrix(sign * sp.tril(data["P"]))
        model.hessian_.dim_, model.hessian_.format_ = m, highspy.HessianFormat.kTriangular
        model.hessian_.start_, model.hessian_.index_ = triangle.indptr, triangle.indices
        model.hessian_.value_ = triangle.data
    return model


def _relaxed(problem: cp.Problem) -> tuple[cp.Problem, set[int]]:
    """Return the problem with boolean variables in [0, 1], and the identities of these
    variables.
    """
    copies = {
        id(variable): cp.Variable(variable.shape, name=variable.name())
        for variable in problem.variables()
        if variable.attributes["boolean"]
    }
    if not copies:
        return cp.Problem(problem.objective, list(problem.constraints)), set()
    objective = type(problem.objective)(problem.objective.expr.tree_copy(copies))
    bounds = [bound for copy in copies.values() for bound in (copy >= 0, copy <= 1)]
    constraints = [constraint.tree_copy(copies) for constraint in problem.constraints]
    return cp.Problem(objective, [*constraints, *bounds]), {copy.id for copy in copies.values()}


def _names(columns: list[tuple[int, Any]], own: set[int], m: int) -> list[str]:
    names = [f"aux_{column}" for column in range(m)]
    for start, variable in columns:
        if variable.id in own:
            for k, index in enumerate(np.ndindex(*variable.shape[::-1])):
                names[start + k] = "_".join([variable.name(), *map(str, index[::-1])])
    return names
