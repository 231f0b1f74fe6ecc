"""Ball arithmetic: numbers, sums, positive definite matrices and kernels whose every result encloses the true value.

A float is a dyadic number, so data, models and multipliers enter without any error; comparisons of balls are true only
where they are certain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from flint import arb, arb_mat, ctx, fmpq
from numpy.typing import NDArray

from svmcvx.proofs.problem import Problem, Refused

__all__ = [
    "Ball",
    "Inverse",
    "Point",
    "Space",
    "above",
    "as_fraction",
    "balls",
    "below",
    "combination",
    "entropy",
    "fractions",
    "least",
    "nonneg",
    "norm_squared",
    "power",
    "product",
    "total",
]

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
# python-flint has no types.
Ball: TypeAlias = Any
Matrix: TypeAlias = Any

# Entries of a kernel that are kept for the next product.
KEPT = 6_000_000
# Entries of one block of a matrix of balls.
BLOCK = 400_000
# Steps that refine the solution of a linear system.
REFINEMENTS = 4
# A kernel matrix with a diagonal of ones has no eigenvalue below minus this share of its size, and is symmetric to this.
INDEFINITE = 1e-10
ASYMMETRY = 1e-10


def below(ball: Ball) -> float:
    """Return the largest float that is at most every number of a ball, or a little less."""
    end = ball.lower()
    if not end.is_finite():
        return -math.inf
    value = float(end)
    while not arb(value) <= end:
        value = math.nextafter(value, -math.inf)
    return value


def above(ball: Ball) -> float:
    """Return the smallest float that is at least every number of a ball, or a little more."""
    return -below(-ball)


def as_fraction(value: float) -> Ball:
    """Return a float as the rational number that it is."""
    return fmpq(*float(value).as_integer_ratio())


def fractions(values: Floats) -> list[Ball]:
    """Return floats as rational numbers."""
    return [fmpq(*value.as_integer_ratio()) for value in values.tolist()]


def balls(values: Floats) -> list[Ball]:
    """Return floats as balls without radius."""
    return [arb(value) for value in values.ravel().tolist()]


def total(values: Iterable[Ball]) -> Ball:
    """Return a sum of balls."""
    return sum(values, arb(0))


def nonneg(x: Ball) -> Ball:
    """Return max(x, 0)."""
    if x >= 0:
        return x
    if x <= 0:
        return arb(0)
    return arb(0).union(x.upper())


def least(values: Sequence[Ball]) -> Ball:
    """Return the smallest of some balls."""
    if not all(x.is_finite() for x in values):
        return arb("nan")
    return _ends(min(values, key=lambda x: x.lower()).lower(), min(values, key=lambda x: x.upper()).upper())


def _ends(low: Ball, high: Ball) -> Ball:
    return low.union(high)


def power(x: Ball, exponent: Ball) -> Ball:
    """Return x to the power of a positive number, for x of at least 0."""
    if x > 0:
        return x**exponent
    high = x.upper()
    if not high > 0:
        return arb(0)
    return arb(0).union((high**exponent).upper())


def entropy(x: Ball) -> Ball:
    """Return −x log x for x in [0, 1]."""
    if x > 0:
        return nonneg(-x * x.log())
    high = x.upper()
    if not high > 0:
        return arb(0)
    # It increases up to 1/e and is at most 1/e.
    return arb(0).union((-high * high.log()).upper() if high < arb("0.36") else arb("0.368"))


def _columns(vectors: Sequence[Sequence[Ball]]) -> Matrix:
    """The matrix whose columns are these vectors."""
    rows = len(vectors[0])
    return arb_mat(rows, len(vectors), [vector[i] for i in range(rows) for vector in vectors])


def _matrix(values: Floats) -> Matrix:
    return arb_mat(values.shape[0], values.shape[1], values.ravel().tolist())


def product(X: Any, w: Sequence[Ball]) -> list[Ball]:
    """Return X w for a dense or sparse matrix of floats."""
    if sp.issparse(X):
        found = []
        for start, end in zip(X.indptr[:-1], X.indptr[1:], strict=True):
            row = zip(X.indices[start:end].tolist(), X.data[start:end].tolist(), strict=True)
            found.append(total(w[j] * x for j, x in row))
        return found
    column, step = arb_mat(len(w), 1, list(w)), max(1, BLOCK // max(1, len(w)))
    return [x for i in range(0, X.shape[0], step) for x in (_matrix(X[i : i + step]) * column).entries()]


def combination(X: Any, v: Sequence[Ball]) -> list[Ball]:
    """Return X'v for a dense or sparse matrix of floats."""
    if sp.issparse(X):
        return product(sp.csr_array(X.T), v)
    return product(np.ascontiguousarray(X.T), v)


def norm_squared(w: Iterable[Ball]) -> Ball:
    """Return the sum of squares."""
    return total(x * x for x in w)


class Point(NamedTuple):
    """Scores of the rows that take part, without a bias, and a squared norm."""

    scores: list[Ball]
    norm: Ball


class Inverse:
    """A symmetric matrix that is proved to be positive definite, and bounds on its inverse.

    With any G, here the inverse of an approximate factor, G A G' = I + E is positive definite if the absolute sums of the
    rows of E are at most e < 1, and then A is (Sylvester), and r'A⁻¹r ≤ ‖Gr‖²/(1 − e).

    Parameters
    ----------
    A : arb_mat
    what : str
        Its name in the refusal.
    """

    def __init__(self, A: Matrix, what: str) -> None:
        n = A.nrows()
        values, vectors = np.linalg.eigh(np.array([float(x) for x in A.mid().entries()]).reshape(n, n))
        smallest = float(np.abs(values).max()) * 1e-18
        G = _matrix(vectors.T / np.sqrt(np.maximum(values, smallest))[:, None])
        rows = (G * A * G.transpose() - arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])).tolist()
        self.error = -least([-total(abs(x) for x in row).upper() for row in rows])
        self.A, self.G = A, G
        if not self.error < 1:
            raise Refused(
                f"{what} is not proved to be positive definite; its smallest eigenvalue is about {values[0]:.3g}"
            )

    def form(self, c: Sequence[Ball]) -> Ball:
        """Return an upper bound on c'A⁻¹c, which any x gives: 2c'x − x'Ax + r'A⁻¹r with r = c − Ax."""
        right = arb_mat(len(c), 1, list(c))
        x, residual = arb_mat(len(c), 1), right
        for _ in range(REFINEMENTS):
            x = (x + self.G.transpose() * (self.G * residual)).mid()
            residual = right - self.A * x
        value = (x.transpose() * (right + residual))[0, 0]
        return (value + norm_squared((self.G * residual).entries()) / (1 - self.error)).upper()


class Space:
    """The feature space of a problem.

    Parameters
    ----------
    problem : Problem
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.kernel = problem.kernel
        if self.kernel is not None:
            self._require_symmetric()

    def _require_symmetric(self) -> None:
        if self.kernel is not None and self.kernel["name"] == "precomputed":
            K = _dense(self.problem.X)
            size = np.sqrt(np.abs(np.diagonal(K)))
            bad = np.abs(K - K.T) > ASYMMETRY * np.outer(size, size)
            if bad.any():
                i, j = np.argwhere(bad)[0]
                raise Refused(f"the precomputed kernel is not symmetric: see its entries ({i}, {j}) and ({j}, {i})")

    def require_definite(self) -> None:
        """Refuse a kernel that is clearly indefinite on the data; the theory speaks of none.

        Kernels that are definite on any data are not tested. The matrix is scaled to a diagonal of ones, so that no entry
        hides another.
        """
        name = "linear" if self.kernel is None else self.kernel["name"]
        if name not in ("precomputed", "sigmoid") and not (
            name == "polynomial" and self.kernel and self.kernel["coef0"] < 0
        ):
            return
        index = self.problem.index
        K = np.array([float(x) for x in self.gram(index, index).entries()]).reshape(index.size, index.size)
        size = np.sqrt(np.maximum(np.diagonal(K), 0.0))
        scaled = K / np.maximum(np.outer(size, size), 1e-300)
        smallest = float(np.linalg.eigvalsh(scaled)[0]) if np.isfinite(scaled).all() else -math.inf
        if smallest < -INDEFINITE * index.size or (np.diagonal(K) < 0).any():
            raise Refused(
                f"the kernel is indefinite on these data: scaled to a diagonal of ones it has the eigenvalue {smallest:.3g}"
            )

    @cached_property
    def kept(self) -> Any:
        """The rows that take part."""
        return self.problem.X[self.problem.index]

    @cached_property
    def model(self) -> Point:
        """Scores with the bias and squared norm of the model; the norm includes a penalised bias."""
        problem = self.problem
        if problem.linear_model:
            w = balls(problem.coef)
            point = Point(product(self.kept, w), norm_squared(w))
        else:
            point = self.expansion(problem.support, balls(problem.model("dual_coef")), constant=False)
        bias = arb(problem.bias)
        norm = point.norm + bias * bias if problem.penalised else point.norm
        return Point([score + bias for score in point.scores], norm)

    @cached_property
    def margins(self) -> list[Ball]:
        """The margins u = y f of the model."""
        return self.signed(self.model.scores)

    def signed(self, values: Sequence[Ball]) -> list[Ball]:
        """Return each value times the label ±1 of its row."""
        return [x if sign > 0 else -x for x, sign in zip(values, self.problem.signs.tolist(), strict=True)]

    def dual_point(self, v: Sequence[Ball]) -> Point:
        """Return the point Σ v_i φ(x_i) over the rows that take part, with the constant feature where it is penalised."""
        self.require_definite()
        return self.expansion(self.problem.index, v, constant=self.problem.penalised)

    def expansion(self, rows: Rows, v: Sequence[Ball], *, constant: bool) -> Point:
        """Return the point with coefficients `v` on rows of the data."""
        if self.kernel is None:
            w = combination(self.problem.X[rows], v)
            point = Point(product(self.kept, w), norm_squared(w))
        else:
            used = [j for j, x in enumerate(v) if not x.is_zero()]
            scores = self._kernel_scores(rows[used], [v[j] for j in used])
            point = Point(
                [scores[i] for i in self.problem.index.tolist()],
                total(v[j] * scores[row] for j, row in zip(used, rows[used].tolist(), strict=True)),
            )
            if point.norm < 0:
                raise Refused("the kernel is not positive semidefinite on these data: a squared norm is negative")
        if constant:
            shift = total(v)
            return Point([score + shift for score in point.scores], nonneg(point.norm + shift * shift))
        return Point(point.scores, nonneg(point.norm))

    def _kernel_scores(self, columns: Rows, v: Sequence[Ball]) -> dict[int, Ball]:
        """Scores of the rows that take part and of the columns themselves."""
        rows = np.union1d(self.problem.index, columns)
        if not columns.size:
            return dict.fromkeys(rows.tolist(), arb(0))
        if rows.size * self._all_columns.size > KEPT or not np.isin(columns, self._all_columns).all():
            step = max(1, BLOCK // columns.size)
            vector, found = arb_mat(len(v), 1, list(v)), []
            for start in range(0, rows.size, step):
                found += (self.gram(rows[start : start + step], columns) * vector).entries()
            return dict(zip(rows.tolist(), found, strict=True))
        full = [arb(0)] * int(self._all_columns.size)
        for position, x in zip(np.searchsorted(self._all_columns, columns).tolist(), v, strict=True):
            full[position] = x
        rows, blocks = self._blocks
        vector = arb_mat(len(full), 1, full)
        return dict(zip(rows.tolist(), [x for block in blocks for x in (block * vector).entries()], strict=True))

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
        spread = problem.proof.extra.get("V_coef")
        if spread is not None and spread.ndim == 2 and spread.shape[0] == used.size:
            used |= (spread != 0).any(axis=1)
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
            first, second = X[rows][:, columns], X[columns][:, rows].T
            one, two = (_matrix(_dense(part)) for part in (first, second))
            return (one + two) * arb(0.5)
        return kernel_matrix(self.kernel, _dense(X[rows]), _dense(X[columns]))


def _dense(part: Any) -> Floats:
    return np.asarray(part.toarray() if sp.issparse(part) else part)


def kernel_matrix(kernel: dict[str, Any] | None, A: Floats, B: Floats) -> Matrix:
    """Return the matrix of a kernel between the rows of two matrices of floats; inner products without a kernel."""
    name = "linear" if kernel is None else kernel["name"]
    if kernel is None:
        return _matrix(A) * _matrix(B).transpose()
    gamma = arb(kernel["gamma"])
    m, n = A.shape[0], B.shape[0]
    if name in ("rbf", "exponential"):
        factor = gamma if name == "rbf" else gamma * gamma
        largest = max(float(np.abs(A).max(initial=0.0)), float(np.abs(B).max(initial=0.0)))
        digits = (
            2.0 * math.log2(max(largest, 1e-300)) + math.log2(A.shape[1] + 1) + math.log2(max(float(factor), 1e-300))
        )
        # Squared distances from squared norms: as many bits more as may cancel.
        with ctx.workprec(ctx.prec + max(8, 8 + int(digits))):
            left, right = _matrix(A), _matrix(B)
            rows, columns = _row_squares(A), _row_squares(B)
            squares = arb_mat(m, 2, [x for s in rows for x in (s, arb(1))]) * arb_mat(2, n, [arb(1)] * n + columns)
            exponents = (squares - left * right.transpose() * arb(2)) * factor
        entries = exponents.entries()
        if name == "rbf":
            return arb_mat(m, n, [(-x).exp() for x in entries])
        return arb_mat(m, n, [(-_root(x)).exp() for x in entries])
    if name == "laplacian":
        rows, columns = [balls(a) for a in A], [balls(b) for b in B]
        found = [(-gamma * total(abs(x - z) for x, z in zip(a, b, strict=True))).exp() for a in rows for b in columns]
        return arb_mat(m, n, found)
    arguments = (_matrix(A) * _matrix(B).transpose() * gamma).entries()
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
