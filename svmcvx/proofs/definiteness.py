r"""Kernels that are not definite on every data set: symmetric and positive semidefinite, up to
rounding, on the rows that a proof uses.

The matrix is scaled to a diagonal of ones, so that no entry hides another. A Cholesky factorisation
of it plus a multiple of the identity that ends in doubles proves that no eigenvalue is below minus
that multiple and what rounding may add: in any order of summation the factor's product differs from
the matrix by at most :math:`(n + 1)\,2^{-53}` in each entry, relatively to the diagonal ([Rump],
verification of positive definiteness, 2006).

With the tolerance :math:`\tau` that this proves, :math:`K + \tau\,\mathrm{diag}(K)` is positive
semidefinite, and the squared norm of coefficients v in it is larger by :math:`\tau\sum
K_{ii}v_i^2`. A point for which that is not small relative to the end that it proves is refused: it
would prove what the rounding of the matrix says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.proofs.intervals import SLACK, TINY, U
from svmcvx.proofs.problem import Problem, ProofRejected

__all__ = [
    "Block",
    "Indefiniteness",
    "dense",
    "is_symmetric",
    "precomputed_block",
    "proved_definite",
    "require_small",
]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
# Entries of a kernel between rows of the data, and bounds on their errors.
Block: TypeAlias = Callable[[Rows, Rows], tuple[Floats, Floats]]

# Relatively to the diagonal: how far a precomputed matrix may be from symmetric, and its
# eigenvalues, over their number, below zero.
ASYMMETRY: Final = 1e-10
INDEFINITE: Final = 1e-10
# What that may change, relatively to the end that a point proves.
INFLUENCE: Final = 1e-6
# Rows up to which a kernel is computed for this test, where the data are not its matrix; and of one
# block.
TESTED: Final = 4000
BLOCK: Final = 500


def dense(part: Any) -> Floats:
    """Return rows of the data as a dense matrix."""
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def is_symmetric(problem: Problem) -> bool:
    """Return whether a precomputed kernel is exactly symmetric on the rows that are used; refuse
    one that is not to rounding.
    """
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
            raise ProofRejected(
                f"the precomputed kernel is not symmetric: see its entries ({i}, {j}) and ({j},"
                f" {i})"
            )
    return exact


def precomputed_block(
    X: Any, rows: Rows, columns: Rows, *, symmetric: bool
) -> tuple[Floats, Floats]:
    """Return a block of a precomputed kernel, the mean of the matrix and its transpose, and bounds
    on the errors.
    """
    first = dense(X[rows])[:, columns]
    if symmetric:
        return first, np.zeros_like(first)
    mean = 0.5 * first + 0.5 * dense(X[:, rows])[columns].T
    return mean, 2 * U * np.abs(mean) + TINY


def is_tested(kernel: Mapping[str, Any] | None) -> bool:
    """Return whether a kernel is indefinite on some data."""
    name = "linear" if kernel is None else kernel["name"]
    return name in ("precomputed", "sigmoid") or (
        name == "polynomial" and kernel is not None and kernel["coef0"] < 0
    )


class Indefiniteness(NamedTuple):
    """How far a kernel may be from positive semidefinite, relatively to its diagonal, and this
    diagonal, one entry a row of the data.
    """

    tolerance: float
    diagonal: Floats

    def influence(self, rows: Rows, v: Floats) -> float:
        """Return what the tolerance may change the squared norm of coefficients by, of which sizes
        are given.
        """
        with np.errstate(over="ignore"):
            return (
                float(self.tolerance * (self.diagonal[rows] * v * v).sum()) * SLACK
                if self.tolerance
                else 0.0
            )


DEFINITE: Final = Indefiniteness(0.0, np.zeros(0))


def require_small(influence: float, low: float, high: float) -> None:
    """Refuse coefficients with which an end between two numbers rests on how a kernel that may be
    indefinite was rounded.
    """
    if influence > INFLUENCE * max(abs(low), abs(high)):
        raise ProofRejected(
            "the coefficients are so large that the rounding of the kernel decides: it may change"
            f" the squared norm by {influence:.3g}"
        )


def proved_definite(problem: Problem, block: Block) -> Indefiniteness:
    """Return how far the kernel may be from semidefinite on the rows that the proof uses; refuse
    one that is clearly not.
    """
    kernel, used = problem.kernel, problem.used
    if kernel is None or not is_tested(kernel):
        return DEFINITE
    n = used.size
    if n > TESTED and kernel["name"] != "precomputed":
        raise ProofRejected(
            f"the kernel {kernel['name']} may be indefinite, which is tested on up to"
            f" {TESTED} rows; these are {n}: precompute its matrix"
        )
    diagonal = np.concatenate([np.diagonal(block(used[part], used[part])[0]) for part in _parts(n)])
    if (diagonal < 0).any():
        raise ProofRejected(
            "the kernel is indefinite on these data: its diagonal entry of row"
            f" {used[np.argmin(diagonal)]} is negative"
        )
    size = np.where(diagonal > 0, np.sqrt(diagonal), 1.0)
    A, error = np.empty((n, n)), 0.0
    for part in _parts(n):
        values, errors = block(used[part], used)
        if values[(diagonal == 0)[part]].any() or values[:, diagonal == 0].any():
            raise ProofRejected(
                "the kernel is indefinite on these data: a diagonal entry is 0 where others of its"
                " row are not"
            )
        A[part] = values / size[part, None] / size
        error = max(error, float((errors / size[part, None] / size).sum(axis=1).max()))
    allowed, rounding = INDEFINITE * n, n * (n + 8) * U
    if not (error + rounding < allowed and np.isfinite(A).all()):
        raise ProofRejected(
            "the entries of the kernel are too inexact to tell whether it is indefinite; take"
            " method='balls'"
        )
    for tolerance in (0.0, error + 2 * rounding, allowed):
        shifted = A.copy()
        shifted.flat[:: n + 1] += tolerance - error - rounding
        if _has_factor(shifted):
            full = np.zeros(problem.codes.size)
            full[used] = diagonal
            return Indefiniteness(min(tolerance, allowed), full)
    raise ProofRejected(
        "the kernel is indefinite on these data: scaled to a diagonal of ones it is not proved to"
        f" have no eigenvalue below {-allowed:.3g}"
    )


def _has_factor(A: Floats) -> bool:
    """Whether the Cholesky factorisation of a symmetric matrix ends, in blocks of columns; the
    lower half is overwritten.
    """
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
