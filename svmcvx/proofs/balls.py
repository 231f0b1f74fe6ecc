"""Ball arithmetic: numbers, sums, positive definite matrices and kernels whose every result
encloses the true value.

A float is a dyadic number, so data, models and multipliers enter without any error; comparisons of
balls are true only where they are certain.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from flint import arb, arb_mat, fmpq
from numpy.typing import NDArray

from svmcvx.proofs.intervals import Number
from svmcvx.proofs.problem import ProofRejected

Floats: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]
# python-flint has no types.
Ball: TypeAlias = Any
Matrix: TypeAlias = Any

# Entries of one block of a matrix of balls.
BLOCK = 400_000
# Steps that refine the solution of a linear system.
REFINEMENTS = 4


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
    return _ends(
        min(values, key=lambda x: x.lower()).lower(), min(values, key=lambda x: x.upper()).upper()
    )


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


def as_matrix(values: Floats) -> Matrix:
    """Return a matrix of floats."""
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
    return [
        x
        for i in range(0, X.shape[0], step)
        for x in (as_matrix(X[i : i + step]) * column).entries()
    ]


def combination(X: Any, v: Sequence[Ball]) -> list[Ball]:
    """Return X'v for a dense or sparse matrix of floats."""
    if sp.issparse(X):
        return product(sp.csr_array(X.T), v)
    return product(np.ascontiguousarray(X.T), v)


def norm_squared(w: Iterable[Ball]) -> Ball:
    """Return the sum of squares."""
    return total(x * x for x in w)


class Balls(Number):
    """An array of balls, or one ball."""

    def __init__(self, values: Any) -> None:
        self.values: NDArray[np.object_] = (
            values.values if isinstance(values, Balls) else np.array(values, dtype=object)
        )

    @classmethod
    def exactly(cls, values: Any) -> Balls:
        array = np.asarray(values, dtype=np.float64)
        return cls(balls(array)) if array.ndim else cls(arb(float(array)))

    def __add__(self, other: Balls) -> Balls:
        return Balls(self.values + other.values)

    def __neg__(self) -> Balls:
        return Balls(-self.values)

    def __mul__(self, other: Balls) -> Balls:
        return Balls(self.values * other.values)

    def __getitem__(self, rows: Any) -> Balls:
        return Balls(self.values[rows])

    def over(self, other: Balls) -> Balls:
        return Balls(self.values / other.values)

    def nonneg(self) -> Balls:
        return self._each(nonneg)

    def size(self) -> Balls:
        return self._each(abs)

    def power(self, exponent: Balls) -> Balls:
        return self._each(lambda x: power(x, exponent.ball))

    def sum(self) -> Balls:
        return Balls(total(self.entries))

    def least(self) -> Balls:
        return Balls(least(self.entries))

    def at_most(self, other: Balls) -> Balls:
        return Balls(np.frompyfunc(_smaller, 2, 1)(self.values, other.values))

    def by_sign(self, positive: Balls, negative: Balls) -> Balls:
        def choose(x: Ball, a: Ball, b: Ball) -> Ball:
            return a if x > 0 else b if x <= 0 else a.union(b)

        return Balls(np.frompyfunc(choose, 3, 1)(self.values, positive.values, negative.values))

    def above(self, other: Balls) -> NDArray[np.bool_]:
        return np.asarray(self.values > other.values, dtype=np.bool_)

    def cancels(self, signs: Floats) -> bool:
        return bool((self * Balls.exactly(signs)).sum().ball.is_zero())

    @property
    def entries(self) -> list[Ball]:
        """The balls of an array."""
        found: list[Ball] = self.values.ravel().tolist()
        return found

    @property
    def ball(self) -> Ball:
        """A single ball."""
        return self.values.item()

    @property
    def nonzero(self) -> NDArray[np.bool_]:
        return np.array([not x.is_zero() for x in self.entries])

    @property
    def middle(self) -> Floats:
        return np.array([float(x.mid()) for x in self.entries]).reshape(self.values.shape)

    @property
    def ends(self) -> tuple[float, float]:
        return below(self.ball), above(self.ball)

    def _each(self, function: Callable[[Ball], Ball]) -> Balls:
        return Balls(np.frompyfunc(function, 1, 1)(self.values))


def _smaller(a: Ball, b: Ball) -> Ball:
    return a if a <= b else b if b <= a else least([a, b])


class Inverse:
    """A symmetric matrix that is proved to be positive definite, and bounds on its inverse."""

    def __init__(self, A: Matrix, what: str) -> None:
        n = A.nrows()
        middle = np.array([float(x) for x in A.mid().entries()]).reshape(n, n)
        if not np.isfinite(middle).all():
            raise ProofRejected(f"{what} is out of the range of doubles")
        values, vectors = np.linalg.eigh(middle)
        smallest = float(np.abs(values).max()) * 1e-18
        G = as_matrix(vectors.T / np.sqrt(np.maximum(values, smallest))[:, None])
        rows = (
            G * A * G.transpose() - arb_mat(n, n, [int(i == j) for i in range(n) for j in range(n)])
        ).tolist()
        self.error = -least([-total(abs(x) for x in row).upper() for row in rows])
        self.A, self.G = A, G
        if not self.error < 1:
            raise ProofRejected(
                f"{what} is not proved to be positive definite; its smallest eigenvalue is about"
                f" {values[0]:.3g}"
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
