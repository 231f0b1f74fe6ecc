"""Files MPS and LP, which HiGHS writes: linear constraints, a linear or quadratic objective,
boolean variables.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from benchmarks.referee.problem_files.cone_form import ConeForm
from svmcvx.errors import BuildError, SolverUnavailable

__all__ = ["write_linear"]


def write_linear(form: ConeForm, path: Path) -> None:
    """Write a problem with linear constraints; the end of the name, ``.mps`` or ``.lp``, is the
    format.
    """
    others = sorted({cone.kind for cone in form.cones} - {"zero", "nonnegative"})
    if others:
        raise BuildError(
            f"{path.suffix} files have linear constraints only, and the problem has"
            f" {others[0]} cones; write a .cbf file"
        )
    try:
        import highspy
    except ImportError:
        raise SolverUnavailable(
            f"{path.suffix} files are written by HiGHS; pip install 'svmcvx[mip]'"
        ) from None
    m, k = len(form.linear), len(form.right)
    equalities = sum(cone.rows for cone in form.cones if cone.kind == "zero")
    sign = -1.0 if form.maximise else 1.0
    model = highspy.HighsModel()
    program = model.lp_
    program.num_col_, program.num_row_ = m, k
    program.sense_ = highspy.ObjSense.kMaximize if form.maximise else highspy.ObjSense.kMinimize
    program.col_cost_, program.offset_ = sign * form.linear, sign * form.constant
    lower, upper = np.full(m, -highspy.kHighsInf), np.full(m, highspy.kHighsInf)
    lower[form.integer], upper[form.integer] = 0.0, 1.0
    program.col_lower_, program.col_upper_ = lower, upper
    program.row_lower_ = np.concatenate(
        [form.right[:equalities], np.full(k - equalities, -highspy.kHighsInf)]
    )
    program.row_upper_ = form.right
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_, program.a_matrix_.index_ = form.rows.indptr, form.rows.indices
    program.a_matrix_.value_ = form.rows.data
    kinds = np.full(m, highspy.HighsVarType.kContinuous)
    kinds[form.integer] = highspy.HighsVarType.kInteger
    program.integrality_ = list(kinds) if len(form.integer) else []
    program.col_names_ = list(form.names)
    program.row_names_ = [f"row_{row}" for row in range(k)]
    if form.quadratic.nnz:
        triangle = sp.csc_matrix(sign * sp.tril(form.quadratic))
        model.hessian_.dim_, model.hessian_.format_ = m, highspy.HessianFormat.kTriangular
        model.hessian_.start_, model.hessian_.index_ = triangle.indptr, triangle.indices
        model.hessian_.value_ = triangle.data
    highs = highspy.Highs()
    highs.silent()
    for status in (highs.passModel(model), highs.writeModel(str(path))):
        if status == highspy.HighsStatus.kError:
            raise BuildError(f"HiGHS could not write the problem to {path}")
