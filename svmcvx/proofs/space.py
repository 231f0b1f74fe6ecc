"""The feature space of a problem in ball arithmetic: scores and norms of the model and of dual
points, and kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from flint import arb, arb_mat, ctx
from numpy.typing import NDArray

from svmcvx.proofs.balls import (
    BLOCK,
    Ball,
    Balls,
    Matrix,
    above,
    as_matrix,
    balls,
    combination,
    nonneg,
    norm_squared,
    power,
    product,
    total,
)
from svmcvx.proofs.intervals import SLACK, TINY, U
from svmcvx.proofs.problem import (
    Problem,
    ProofRejected,
    dense,
    is_symmetric,
    precomputed_block,
    proved_definite,
)

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]

# Entries of a kernel that are stored for the next product.
KEPT = 6_000_000


class Point(NamedTuple):
    """Scores of the rows that take part, without a bias, and a squared norm."""

    scores: list[Ball]
    norm: Ball


class Space:
    """The feature space of a problem."""

    numbers = Balls

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.kernel = problem.kernel
        self.symmetric = True
        if self.kernel is not None and self.kernel["name"] == "precomputed":
            self.symmetric = is_symmetric(problem)
        self.indefinite, self.influence = proved_definite(problem, self.floats), 0.0

    def floats(self, rows: Rows, columns: Rows) -> tuple[Floats, Floats]:
        """Return entries of a kernel as floats, without a constant feature, and bounds on their
        errors.
        """
        if self.kernel is not None and self.kernel["name"] == "precomputed":
            return precomputed_block(self.problem.X, rows, columns, symmetric=self.symmetric)
        found = [(float(x.mid()), float(x.rad())) for x in self.gram(rows, columns).entries()]
        values, errors = np.array(found).reshape(rows.size, columns.size, 2).transpose(2, 0, 1)
        return values, errors * SLACK + 2 * U * np.abs(values) + TINY

    @cached_property
    def rows(self) -> Any:
        """The rows that take part."""
        return self.problem.X[self.problem.index]

    @cached_property
    def model(self) -> Point:
        """Scores with the bias and squared norm of the model; the norm includes a penalised bias."""
        problem = self.problem
        if problem.linear_model:
            w = balls(problem.proof.model["coef"])
            point = Point(product(self.rows, w), norm_squared(w))
        else:
            point = self.expansion(
                problem.support, balls(problem.proof.model["dual_coef"]), constant=False
            )
        bias = arb(problem.bias)
        norm = point.norm + bias * bias if problem.penalised else point.norm
        return Point([score + bias for score in point.scores], norm)

    @cached_property
    def margins(self) -> list[Ball]:
        """The margins u = y f of the model."""
        return self.signed(self.model.scores)

    @property
    def u(self) -> Balls:
        """The margins of the model."""
        return Balls(self.margins)

    @property
    def square(self) -> Balls:
        """The squared norm of the model."""
        return Balls(self.model.norm)

    def squared_norm(self, v: Balls) -> Balls:
        """Return the squared norm of the point with coefficients `v` on the rows that take part."""
        return Balls(self.dual_point(v.entries).norm)

    def signed(self, values: Sequence[Ball]) -> list[Ball]:
        """Return each value times the label ±1 of its row."""
        return [
            x if sign > 0 else -x
            for x, sign in zip(values, self.problem.signs.tolist(), strict=True)
        ]

    def dual_point(self, v: Sequence[Ball]) -> Point:
        """Return the point Σ v_i φ(x_i) over the rows that take part, with the constant feature
        where it is penalised.
        """
        return self.expansion(self.problem.index, v, constant=self.problem.penalised)

    def expansion(self, rows: Rows, v: Sequence[Ball], *, constant: bool) -> Point:
        """Return the point with coefficients `v` on rows of the data."""
        if self.kernel is None:
            w = combination(self.problem.X[rows], v)
            point = Point(product(self.rows, w), norm_squared(w))
        else:
            used = [j for j, x in enumerate(v) if not x.is_zero()]
            scores = self._kernel_scores(rows[used], [v[j] for j in used])
            point = Point(
                [scores[i] for i in self.problem.index.tolist()],
                total(v[j] * scores[row] for j, row in zip(used, rows[used].tolist(), strict=True)),
            )
            require_norm(point.norm)
            self.note(rows, v)
        if constant:
            shift = total(v)
            return Point(
                [score + shift for score in point.scores], nonneg(point.norm + shift * shift)
            )
        return Point(point.scores, nonneg(point.norm))

    def note(self, rows: Rows, v: Sequence[Ball]) -> None:
        """Add what the rounding of a kernel that may be indefinite may do to the norm of these
        coefficients.
        """
        if self.indefinite.tolerance:
            self.influence += self.indefinite.influence(rows, np.array([above(abs(x)) for x in v]))

    def _kernel_scores(self, columns: Rows, v: Sequence[Ball]) -> dict[int, Ball]:
        """Scores of the rows that take part and of the columns themselves."""
        rows = np.union1d(self.problem.index, columns)
        if not columns.size:
            return dict.fromkeys(rows.tolist(), arb(0))
        if (
            rows.size * self._all_columns.size > KEPT
            or not np.isin(columns, self._all_columns).all()
        ):
            step = max(1, BLOCK // columns.size)
            vector, found = arb_mat(len(v), 1, list(v)), []
            for start in range(0, rows.size, step):
                found += (self.gram(rows[start : start + step], columns) * vector).entries()
            return dict(zip(rows.tolist(), found, strict=True))
        full = [arb(0)] * int(self._all_columns.size)
        for position, x in zip(
            np.searchsorted(self._all_columns, columns).tolist(), v, strict=True
        ):
            full[position] = x
        rows, blocks = self._blocks
        vector = arb_mat(len(full), 1, full)
        return dict(
            zip(
                rows.tolist(),
                [x for block in blocks for x in (block * vector).entries()],
                strict=True,
            )
        )

    @cached_property
    def _all_columns(self) -> Rows:
        """Columns that products are wanted of: the support of the model and that of the dual point."""
        problem = self.problem
        used = np.zeros(problem.codes.size, dtype=bool)
        if not problem.linear_model:
            used[problem.support] = True
        if "tau" in problem.proof.dual:
            used[problem.index] = True
        for values in problem.proof.dual.values():
            if values.shape == used.shape:
                used |= values != 0
        if "V_coef" in problem.proof.model:
            used |= (problem.proof.model["V_coef"] != 0).any(axis=1)
        return np.flatnonzero(used)

    @cached_property
    def _blocks(self) -> tuple[Rows, list[Matrix]]:
        columns = self._all_columns
        rows = np.union1d(self.problem.index, columns)
        step = max(1, BLOCK // max(1, columns.size))
        return rows, [self.gram(rows[i : i + step], columns) for i in range(0, rows.size, step)]

    def gram(self, rows: Rows, columns: Rows) -> Matrix:
        """Return the matrix of the kernel between rows of the data, without a constant feature."""
        X = self.problem.X
        if self.kernel is not None and self.kernel["name"] == "precomputed":
            first = as_matrix(dense(X[rows][:, columns]))
            return (
                first
                if self.symmetric
                else (first + as_matrix(dense(X[columns][:, rows].T))) * arb(0.5)
            )
        return kernel_matrix(self.kernel, dense(X[rows]), dense(X[columns]))


def require_norm(norm: Ball) -> None:
    """Refuse a squared norm that is certainly negative."""
    if norm < 0:
        raise ProofRejected(
            "the kernel is not positive semidefinite on these data: a squared norm is negative"
        )


def kernel_matrix(kernel: Mapping[str, Any] | None, A: Floats, B: Floats) -> Matrix:
    """Return the matrix of a kernel between the rows of two matrices of floats; inner products
    without a kernel.
    """
    name = "linear" if kernel is None else kernel["name"]
    if kernel is None:
        return as_matrix(A) * as_matrix(B).transpose()
    gamma = arb(kernel["gamma"])
    m, n = A.shape[0], B.shape[0]
    if name in ("rbf", "exponential"):
        factor = gamma if name == "rbf" else gamma * gamma
        largest = max(float(np.abs(A).max(initial=0.0)), float(np.abs(B).max(initial=0.0)))
        digits = (
            2.0 * math.log2(max(largest, 1e-300))
            + math.log2(A.shape[1] + 1)
            + math.log2(max(float(factor), 1e-300))
        )
        # Squared distances from squared norms: as many bits more as may cancel.
        with ctx.workprec(ctx.prec + max(8, 8 + int(digits))):
            left, right = as_matrix(A), as_matrix(B)
            rows, columns = _row_squares(A), _row_squares(B)
            squares = arb_mat(m, 2, [x for s in rows for x in (s, arb(1))]) * arb_mat(
                2, n, [arb(1)] * n + columns
            )
            exponents = (squares - left * right.transpose() * arb(2)) * factor
        entries = exponents.entries()
        if name == "rbf":
            return arb_mat(m, n, [(-x).exp() for x in entries])
        return arb_mat(m, n, [(-_root(x)).exp() for x in entries])
    if name == "laplacian":
        rows, columns = [balls(a) for a in A], [balls(b) for b in B]
        found = [
            (-gamma * total(abs(x - z) for x, z in zip(a, b, strict=True))).exp()
            for a in rows
            for b in columns
        ]
        return arb_mat(m, n, found)
    arguments = (as_matrix(A) * as_matrix(B).transpose() * gamma).entries()
    shift = arb(kernel["coef0"])
    if name == "polynomial":
        degree = int(kernel["degree"])
        return arb_mat(m, n, [(x + shift) ** degree for x in arguments])
    return arb_mat(m, n, [(x + shift).tanh() for x in arguments])


def _row_squares(A: Floats) -> list[Ball]:
    return [norm_squared(balls(row)) for row in A]


def _root(x: Ball) -> Ball:
    """The square root of a number that is not negative."""
    return x.sqrt() if x > 0 else power(nonneg(x), arb(0.5))
