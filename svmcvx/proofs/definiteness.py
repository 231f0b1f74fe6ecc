r"""Kernels that are not definite on every data set: symmetric and positive semidefinite, up to rounding, on the rows that a proof uses.

The matrix is scaled to a diagonal of ones, so that no entry hides another. A Cholesky factorisation of it plus a multiple of
the identity that ends in doubles proves that no eigenvalue is below minus that multiple and what rounding may add: in any order
of summation the factor's product differs from the matrix by at most :math:`(n + 1)\,2^{-53}` in each entry, relatively to
the diagonal ([Rump], verification of positive definiteness, 2006).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.proofs.arithmetic.intervals import TINY, U
from svmcvx.proofs.problem import Problem, Refused

__all__ = ["Block", "dense", "is_symmetric", "precomputed_block", "require_definite"]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
# Entries of a kernel between rows of the data, and bounds on their errors.
Block: TypeAlias = Callable[[Rows, Rows], tuple[Floats, Floats]]

# Relatively to the diagonal: how far a precomputed matrix may be from symmetric, and its eigenvalues, over their number, below zero.
ASYMMETRY: Final = 1e-10
INDEFINITE: Final = 1e-10
# Rows up to which a kernel is computed for this test, where the data are not its matrix; and of one block.
TESTED: Final = 4000
BLOCK: Final = 500


def dense(part: Any) -> Floats:
    """Return rows of the data as a dense matrix."""
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def is_symmetric(problem: Problem) -> bool:
    """Return whether a precomputed kernel is exactly symmetric on the rows that are used; refuse one that is not to rounding."""
    X, used, exact = problem.X, problem.used, True
    size = np.sqrt(np.abs(X.diagonal()[used]))
    for part in _parts(used.size):
        first, second = dense(X[used[part]])[:, used], dense(X[:, used[part]])[used].T
        off = np.abs(first - second)
        exact = exact and not off.any()
        bad = off > ASYMMETRY * np.outer(size[part], size)
        if bad.any():
            i, j = np.argwhere(bad)[0]
            i, j = used[part][i], used[j]
            raise Refused(f"the precomputed kernel is not symmetric: see its entries ({i}, {j}) and ({j}, {i})")
    return exact


def precomputed_block(X: Any, rows: Rows, columns: Rows, *, symmetric: bool) -> tuple[Floats, Floats]:
    """Return a block of a precomputed kernel, the mean of the matrix and its transpose, and bounds on the errors."""
    first = dense(X[rows])[:, columns]
    if symmetric:
        return first, np.zeros_like(first)
    mean = 0.5 * first + 0.5 * dense(X[:, rows])[columns].T
    return mean, 2 * U * np.abs(mean) + TINY


def is_tested(kernel: Mapping[str, Any] | None) -> bool:
    """Return whether a kernel is indefinite on some data."""
    name = "linear" if kernel is None else kernel["name"]
    return name in ("precomputed", "sigmoid") or (name == "polynomial" and kernel is not None and kernel["coef0"] < 0)


def require_definite(problem: Problem, block: Block) -> None:
    """Refuse a kernel that is not positive semidefinite, to rounding, on the rows that the proof uses; the theory speaks of no other."""
    kernel, used = problem.kernel, problem.used
    if kernel is None or not is_tested(kernel):
        return
    n = used.size
    if n > TESTED and kernel["name"] != "precomputed":
        raise Refused(
            f"the kernel {kernel['name']} may be indefinite, which is tested on up to {TESTED} rows; these are {n}: precompute its matrix"
        )
    diagonal = np.concatenate([np.diagonal(block(used[part], used[part])[0]) for part in _parts(n)])
    if (diagonal < 0).any():
        raise Refused(
            f"the kernel is indefinite on these data: its diagonal entry of row {used[np.argmin(diagonal)]} is negative"
        )
    size = np.where(diagonal > 0, np.sqrt(diagonal), 1.0)
    A, error = np.empty((n, n)), 0.0
    for part in _parts(n):
        values, errors = block(used[part], used)
        if values[(diagonal == 0)[part]].any() or values[:, diagonal == 0].any():
            raise Refused(
                "the kernel is indefinite on these data: a diagonal entry is 0 where others of its row are not"
            )
        A[part] = values / size[part, None] / size
        error = max(error, float((errors / size[part, None] / size).sum(axis=1).max()))
    allowed, rounding = INDEFINITE * n, n * (n + 8) * U
    shift = allowed - error - rounding
    if not (shift > 0 and np.isfinite(A).all()):
        raise Refused("the entries of the kernel are too inexact to tell whether it is indefinite; take method='balls'")
    A.flat[:: n + 1] += shift
    if not _has_factor(A):
        raise Refused(
            "the kernel is indefinite on these data: scaled to a diagonal of ones it is not proved to have no eigenvalue below "
            f"{-allowed:.3g}"
        )


def _has_factor(A: Floats) -> bool:
    """Whether the Cholesky factorisation of a symmetric matrix ends, in blocks of columns; the lower half is overwritten."""
    for start in range(0, len(A), BLOCK):
        stop = min(start + BLOCK, len(A))
        try:
            L = np.linalg.cholesky(A[start:stop, start:stop])
        except np.linalg.LinAlgError:
            return False
        if not np.isfinite(L).all():
            return False
        below = A[stop:, start:stop]
        below[:] = scipy.linalg.solve_triangular(L, below.T, lower=True, check_finite=False).T
        for place in range(stop, len(A), BLOCK):
            end = min(place + BLOCK, len(A))
            A[place:, place:end] -= A[place:, start:stop] @ A[place:end, start:stop].T
    return True


def _parts(size: int) -> Iterator[slice]:
    return (slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))
