"""Write a built problem to a file that other programs read."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import cvxpy as cp
import numpy as np

from benchmarks.referee.problem_files.cbf import cbf_lines
from benchmarks.referee.problem_files.cone_form import ConeForm, cone_form
from benchmarks.referee.problem_files.linear_files import write_linear
from svmcvx.errors import BuildError
from svmcvx.system.files import atomic_write

__all__ = ["write_problem"]

SUFFIXES = (".mps", ".lp", ".cbf", ".npz")

ARRAYS = """\
minimise  x'Px/2 + q'x + d  subject to  b - Ax in K,  x[j] in {0, 1} for j in integer.
If maximise is true, the problem maximises the negative of this objective.

P_data, P_indices, P_indptr   P, symmetric, by columns (the arrays of scipy.sparse.csc_matrix)
A_data, A_indices, A_indptr   A, the same
q, d, b, integer              vectors, d a number
cone_kinds, cone_rows         K, cone by cone in the order of the rows of A
cone_exponents                exponents of power cones, NaN for the others
names                         of the columns; aux_7 is a column that the modelling language added

zero            s = 0
nonnegative     s >= 0
second-order    s[0] >= norm(s[1:])
semidefinite    the upper triangle of a matrix by columns, entries off the diagonal times sqrt(2)
exponential     s[1] > 0 and s[1] * exp(s[0] / s[1]) <= s[2]
power           s[0]**a * s[1]**(1 - a) >= abs(s[2]) with the exponent a
"""


def write_problem(problem: cp.Problem, path: str | os.PathLike[str]) -> None:
    """Write a problem to a file that other programs read.

    Parameters
    ----------
    problem : cvxpy.Problem
        Of a builder, with constraints added to it or not, or any other convex problem; variables
        may be boolean. Parameters have the values that they have now.
    path : str or path
        The end of the name is the format:

        - ``.mps``, ``.lp``: linear constraints, a linear or quadratic objective, boolean variables
          (the mixed-integer formulations, and those with p = 1 or p = 2). HiGHS writes them, of the
          extra ``mip``.
        - ``.cbf``: all formulations, in cone form [1]_.
        - ``.npz``: the arrays of the cone form, with a text ``README`` that states it.

    Raises
    ------
    BuildError
        If the end of the name is another one, the problem is not convex, has no linear constraints
        where the format needs them, or a parameter has no value.
    SolverUnavailable
        If highspy is missing for MPS and LP files.

    Notes
    -----
    Variables keep their names: the column ``w_3`` is entry 3 of the variable w. A file in conic
    benchmark format has no names; comments at its head tell the name of each column, and the values
    of the parameters. The optimal value of the file is that of the problem.

    References
    ----------
    .. [1] H. A. Friberg, "CBLIB 2014: a benchmark library for conic mixed-integer and continuous optimization", Mathematical
       Programming Computation 8, 2016.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[0.0], [1.0], [2.0]], [-1, 1, 1]
    >>> sx.write_problem(sx.zero_one_mio(X, y, lam=1.0), "problem.cbf")  # doctest: +SKIP
    """
    path = Path(path)
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise BuildError(
            f"path ends in {suffix!r}; the end of the name is the format: {', '.join(SUFFIXES)}"
        )
    form = cone_form(problem, quadratic=suffix != ".cbf")
    if suffix in (".mps", ".lp"):
        # HiGHS writes to a name: the file takes its place when it is complete.
        with tempfile.TemporaryDirectory(dir=path.absolute().parent) as folder:
            draft = Path(folder) / f"problem{suffix}"
            write_linear(form, draft)
            draft.replace(path)
        return
    with atomic_write(path) as stream:
        if suffix == ".cbf":
            stream.writelines(f"{line}\n".encode() for line in cbf_lines(form, _remarks(problem)))
        else:
            np.savez_compressed(stream, allow_pickle=False, **_arrays(form))


def _remarks(problem: cp.Problem) -> list[str]:
    """Return what the head of a file says of a problem."""
    return [
        f"{type(problem).__name__}",
        *(
            f"{name} = {parameter.value!s}"
            for name, parameter in sorted(problem.param_dict.items())
            if parameter.is_scalar()
        ),
    ]


def _arrays(form: ConeForm) -> dict[str, np.ndarray]:
    """Return the arrays of a file, and the text that states them."""
    return {
        "README": np.array(ARRAYS),
        **{
            f"{name}_{part}": getattr(matrix, part)
            for name, matrix in (("P", form.quadratic), ("A", form.rows))
            for part in ("data", "indices", "indptr")
        },
        "q": form.linear,
        "d": np.array(form.constant),
        "b": form.right,
        "integer": form.integer,
        "maximise": np.array(form.maximise),
        "cone_kinds": np.array([cone.kind for cone in form.cones]),
        "cone_rows": np.array([cone.rows for cone in form.cones]),
        "cone_exponents": np.array(
            [np.nan if cone.exponent is None else cone.exponent for cone in form.cones]
        ),
        "names": np.array(form.names),
    }
