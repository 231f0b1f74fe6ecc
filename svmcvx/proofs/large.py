r"""Data too large for ball arithmetic: intervals of doubles, for linear and kernel psvm (intercept
free, penalised or none) and ODM.

Assumed of the arithmetic, as nowhere else in this checker: IEEE doubles; a dot product of k terms
is off by at most :math:`k\,2^{-53}` times that of the sizes, in any order of summation; square
roots are rounded correctly; numpy's exp, tanh and power are off by at most 8 units in the last
place. Sums are those of ``math.fsum``, which rounds once. Every other operation is widened by a
unit in the last place on either side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.proofs.intervals import SLACK, TINY, Interval, U, products
from svmcvx.proofs.problem import (
    Problem,
    ProofRejected,
    dense,
    is_symmetric,
    precomputed_block,
    proved_definite,
)

Floats: TypeAlias = NDArray[np.float64]

FORMULATIONS: Final = ("psvm", "penalised psvm", "odm")
# Numbers in one block of a kernel, and columns up to which distances come from differences.
BLOCK: Final = 2_000_000
FEW_COLUMNS: Final = 32


class Space:
    """Scores and norms of points of the feature space."""

    numbers = Interval

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.rows = problem.X[problem.index]
        self.symmetric = True
        if problem.kernel is not None and problem.kernel["name"] == "precomputed":
            self.symmetric = is_symmetric(problem)
        self.indefinite, self.influence = proved_definite(problem, self._block), 0.0

    @cached_property
    def model(self) -> tuple[Interval, Interval]:
        """Scores with the bias, and the squared norm with that of a penalised bias."""
        problem = self.problem
        if problem.linear_model:
            w = Interval.exactly(problem.proof.model["coef"])
            scores, norm = products(self.rows, 0.0, w), (w * w).sum()
        else:
            scores, norm = self.expansion(
                problem.support, Interval.exactly(problem.proof.model["dual_coef"]), constant=False
            )
        bias = Interval.exactly(problem.bias)
        return scores + bias, norm + bias * bias if problem.penalised else norm

    @property
    def u(self) -> Interval:
        """The margins of the model."""
        return self.model[0] * Interval.exactly(self.problem.signs)

    @property
    def square(self) -> Interval:
        """The squared norm of the model."""
        return self.model[1]

    def squared_norm(self, v: Interval) -> Interval:
        """Return the squared norm of the point with coefficients `v` on the rows that take part."""
        return self.expansion(self.problem.index, v, constant=self.problem.penalised)[1]

    def expansion(
        self, rows: NDArray[np.intp], v: Interval, *, constant: bool
    ) -> tuple[Interval, Interval]:
        """Scores and squared norm of Σ v_i φ(x_i)."""
        problem = self.problem
        used = (v.low != 0) | (v.high != 0)
        rows, v = rows[used], v[used]
        if problem.kernel is None:
            part = problem.X[rows]
            w = products(sp.csr_array(part.T) if sp.issparse(part) else part.T, 0.0, v)
            scores, norm = products(self.rows, 0.0, w), (w * w).sum()
        else:
            every = np.union1d(problem.index, rows)
            whole = self._kernel_scores(every, rows, v)
            scores = whole[np.searchsorted(every, problem.index)]
            norm = (v * whole[np.searchsorted(every, rows)]).sum()
            self.influence += self.indefinite.influence(
                rows, np.maximum(np.abs(v.low), np.abs(v.high))
            )
        if norm.high < 0:
            raise ProofRejected(
                "the kernel is not positive semidefinite on these data: a squared norm is negative"
            )
        norm = norm.nonneg()
        if constant:
            shift = v.sum()
            scores, norm = scores + shift, norm + (shift * shift).nonneg()
        return scores, norm

    def _kernel_scores(
        self, rows: NDArray[np.intp], columns: NDArray[np.intp], v: Interval
    ) -> Interval:
        low, high = np.zeros(rows.size), np.zeros(rows.size)
        for part in _parts(rows.size, max(1, columns.size)) if columns.size else ():
            block, error = self._block(rows[part], columns)
            found = products(block, error, v)
            low[part], high[part] = found.low, found.high
        return Interval(low, high)

    def _block(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> tuple[Floats, Floats]:
        X, kernel = self.problem.X, self.problem.kernel
        assert kernel is not None  # noqa: S101 - only called with one
        if kernel["name"] == "precomputed":
            return precomputed_block(X, rows, columns, symmetric=self.symmetric)
        return kernel_block(kernel, dense(X[rows]), dense(X[columns]))


def _parts(size: int, width: int) -> Iterator[slice]:
    step = max(1, BLOCK // width)
    return (slice(start, start + step) for start in range(0, size, step))


def kernel_block(kernel: Mapping[str, Any], A: Floats, B: Floats) -> tuple[Floats, Floats]:
    """Return a block of a kernel and a bound on the error of its entries."""
    name, d = kernel["name"], A.shape[1]
    if name in ("rbf", "exponential", "laplacian"):
        gamma = float(kernel["gamma"])
        distance, error = _distances(A, B, name == "laplacian")
        if name == "exponential":
            root = np.sqrt(distance)
            with np.errstate(divide="ignore", invalid="ignore"):
                error = (
                    np.where(error == 0, 0.0, np.minimum(np.sqrt(error), error / root)) + U * root
                )
            distance = root
        exponent = gamma * distance
        shift = (gamma * error + 2 * U * exponent) * SLACK
        value = np.exp(-exponent)
        return value, (value * (np.expm1(np.minimum(shift, 700.0)) + 16 * U)) * SLACK + np.where(
            shift > 700, 1.0, TINY
        )
    gamma, shift0 = float(kernel["gamma"]), float(kernel["coef0"])
    inner, sizes = A @ B.T, np.abs(A) @ np.abs(B).T
    argument = gamma * inner + shift0
    error = (
        (d + 4) * U * gamma * sizes + 2 * U * abs(shift0) + 2 * U * np.abs(argument)
    ) * SLACK + TINY
    if name == "sigmoid":
        return np.tanh(argument), error + 16 * U
    degree = int(kernel["degree"])
    largest = np.abs(argument) + error
    with np.errstate(over="ignore"):
        return (
            argument**degree,
            (degree * largest ** (degree - 1) * error + 32 * U * largest**degree) * SLACK + TINY,
        )


def _distances(A: Floats, B: Floats, absolute: bool) -> tuple[Floats, Floats]:
    """Squared Euclidean distances, or sums of absolute differences, and bounds on their errors."""
    d = A.shape[1]
    if absolute or d <= FEW_COLUMNS:
        total = np.zeros((A.shape[0], B.shape[0]))
        for a, b in zip(A.T, B.T, strict=True):
            difference = a[:, None] - b[None, :]
            total += np.abs(difference) if absolute else difference * difference
        return total, (d + 4) * U * total * SLACK + TINY * d
    centre = 0.5 * (A.mean(axis=0) + B.mean(axis=0))
    # One subtraction rounds each coordinate by its own last place.
    A, B = A - centre, B - centre
    a, b = (A * A).sum(axis=1), (B * B).sum(axis=1)
    total = np.maximum(a[:, None] + b[None, :] - 2.0 * (A @ B.T), 0.0)
    return total, (4 * (d + 6) * U) * (a[:, None] + b[None, :]) * SLACK + TINY


def can_check(problem: Problem) -> bool:
    """Whether there is a check in doubles."""
    return problem.formulation in FORMULATIONS


def require_check(problem: Problem) -> None:
    """Refuse a formulation without a check in doubles."""
    if not can_check(problem):
        raise DataError(
            f"there is no check of {problem.formulation!r} in doubles, only of"
            f" {', '.join(FORMULATIONS)}; use method='balls'"
        )


def ends_of(evaluate: Callable[[Space], Interval], space: Space) -> tuple[float, float]:
    """Return both ends of what a formula of the family gives."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        return evaluate(space).ends
