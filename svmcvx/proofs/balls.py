"""Ball arithmetic: arrays of numbers, kernels and positive definite matrices whose every result
encloses the true value.

A float is a dyadic number, so data, models and multipliers enter without any error; comparisons of
balls are true only where they are certain. Arrays of fractions are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from flint import arb, arb_mat, ctx, fmpq
from numpy.typing import NDArray

from svmcvx.proofs.intervals import BLOCK, SLACK, TINY, Bools, Floats, Inexact, U
from svmcvx.proofs.problem import ProofRejected

# python-flint has no types.
Ball: TypeAlias = Any
Matrix: TypeAlias = Any
Fractions: TypeAlias = NDArray[np.object_]


def _nonneg(x: Ball) -> Ball:
    return x if x >= 0 else arb(0) if x <= 0 else arb(0).union(x.upper())


def _power(x: Ball, exponent: Ball) -> Ball:
    high = x.upper()
    return x**exponent if x > 0 else arb(0).union((high**exponent).upper()) if high > 0 else arb(0)


def _entropy(x: Ball) -> Ball:
    high = x.upper()
    if x > 0 or not high > 0:
        return _nonneg(-x * x.log()) if x > 0 else arb(0)
    # It increases up to 1/e and is at most 1/e.
    return arb(0).union((-high * high.log()).upper() if high < arb("0.36") else arb("0.368"))


def _smaller(a: Ball, b: Ball) -> Ball:
    b = arb(b)
    return a if a <= b else b if b <= a else Balls([a, b]).least().ball


def _by_sign(x: Ball, a: Ball, b: Ball) -> Ball:
    a, b = arb(a), arb(b)
    return a if x > 0 else b if x <= 0 else a.union(b)


def _raw(other: Any) -> Any:
    return other.values if isinstance(other, Balls) else other


def _each(function: Any, arguments: int = 1) -> Callable[..., Balls]:
    """Return a method that applies a function to each number, with those of its arguments."""
    apply = function if isinstance(function, np.ufunc) else np.frompyfunc(function, arguments, 1)
    return lambda self, *others: Balls(apply(self.values, *map(_raw, others)))


_BALL = np.frompyfunc(arb, 1, 1)
_FRACTION = np.frompyfunc(lambda x: fmpq(*x.as_integer_ratio()), 1, 1)


class Balls:
    """An array of balls, or one ball, with the operations of :class:`Interval` and some more."""

    # Arrays leave operations with balls to these.
    __array_ufunc__ = None
    __add__ = __radd__ = _each(np.add)
    __mul__ = __rmul__ = _each(np.multiply)
    __sub__, __rsub__ = _each(np.subtract), _each(lambda a, b: b - a, 2)
    __truediv__, __neg__, size = _each(np.divide), _each(np.negative), _each(np.absolute)
    nonneg, power, entropy = _each(_nonneg), _each(_power, 2), _each(_entropy)
    at_most, by_sign = _each(_smaller, 2), _each(_by_sign, 3)
    exp, log1p = _each(arb.exp), _each(arb.log1p)

    def __init__(self, values: Any) -> None:
        self.values: NDArray[np.object_] = np.asarray(_raw(values), dtype=object)

    @classmethod
    def exactly(cls, values: Any) -> Balls:
        return values if isinstance(values, Balls) else cls(_BALL(np.asarray(values)))

    def __getitem__(self, rows: Any) -> Balls:
        return Balls(self.values[rows])

    def root(self) -> Balls:
        return self.power(0.5)

    def sum(self, axis: int | None = None) -> Balls:
        return Balls(np.add.reduce(self.values, axis=axis, initial=arb(0)))

    def least(self) -> Balls:
        if not all(x.is_finite() for x in self.entries):
            return Balls(arb("nan"))
        low = min(self.entries, key=lambda x: x.lower()).lower()
        return Balls(low.union(min(self.entries, key=lambda x: x.upper()).upper()))

    def greatest(self) -> Balls:
        return -(-self).least()

    def above(self, other: Any) -> Bools:
        return np.asarray(self.values > _raw(other), dtype=np.bool_)

    def cancels(self, signs: Floats) -> bool:
        return bool((self * signs).sum().ball.is_zero())

    @property
    def entries(self) -> list[Ball]:
        found: list[Ball] = self.values.ravel().tolist()
        return found

    @property
    def ball(self) -> Ball:
        return self.values.item()

    @property
    def nonzero(self) -> Bools:
        return np.reshape(~np.array([x.is_zero() for x in self.entries], bool), self.values.shape)

    @property
    def middle(self) -> Floats:
        return np.reshape(np.array([float(x.mid()) for x in self.entries]), self.values.shape)

    @property
    def largest(self) -> Floats:
        return np.array([-below(-abs(x)) for x in self.entries])

    @property
    def ends(self) -> tuple[float, float]:
        return below(self.ball), -below(-self.ball)

    @classmethod
    def concatenate(cls, parts: Sequence[Balls]) -> Balls:
        return cls(np.concatenate([part.values for part in parts]))

    def scatter(self, size: int, places: NDArray[np.intp]) -> Balls:
        found = np.full(size, arb(0), dtype=object)
        found[places] = self.values
        return Balls(found)

    @classmethod
    def times(cls, matrix: Any, v: Balls) -> Balls:
        if isinstance(matrix, arb_mat):
            return cls((matrix * arb_mat(v.values.size, 1, v.entries)).entries())
        if sp.issparse(matrix):
            ends = zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
            parts = [(v[matrix.indices[a:b]] * matrix.data[a:b]).sum().ball for a, b in ends]
            return cls(parts)
        step = max(1, BLOCK // max(1, v.values.size))
        parts = [as_matrix(matrix[i : i + step]) for i in range(0, matrix.shape[0], step)]
        return cls.concatenate([cls([]), *(cls.times(part, v) for part in parts)])

    @staticmethod
    def floats(matrix: Matrix) -> Inexact:
        found = [(float(x.mid()), float(x.rad())) for x in matrix.entries()]
        shape = (matrix.nrows(), matrix.ncols(), 2)
        values, errors = np.array(found).reshape(shape).transpose(2, 0, 1)
        return values, errors * SLACK + 2 * U * np.abs(values) + TINY

    @staticmethod
    def kernel(kernel: Mapping[str, Any] | None, A: Floats, B: Floats) -> Matrix:
        """Return the matrix of a kernel between rows; inner products without a kernel."""
        if kernel is None:
            return as_matrix(A) * as_matrix(B).transpose()
        name, m, n = kernel["name"], A.shape[0], B.shape[0]
        if name == "precomputed":
            return (as_matrix(A) + as_matrix(B)) * arb(0.5)
        gamma = arb(kernel["gamma"])
        if name in ("rbf", "exponential"):
            factor = gamma if name == "rbf" else gamma * gamma
            largest = max(float(np.abs(A).max(initial=0.0)), float(np.abs(B).max(initial=0.0)))
            digits = 2.0 * math.log2(max(largest, 1e-300)) + math.log2(A.shape[1] + 1)
            digits += math.log2(max(float(factor), 1e-300))
            # Squared distances from squared norms: as many bits more as may cancel.
            with ctx.workprec(ctx.prec + max(8, 8 + int(digits))):
                rows, columns = (Balls.exactly(Z) for Z in (A, B))
                squares = (rows * rows).sum(axis=1)[:, None] + (columns * columns).sum(axis=1)
                inner = as_matrix(A) * as_matrix(B).transpose()
                exponents = (arb_mat(m, n, squares.entries) - inner * arb(2)) * factor
            powers = Balls(exponents.entries())
            powers = powers if name == "rbf" else powers.nonneg().root()
            return arb_mat(m, n, (-powers).exp().entries)
        if name == "laplacian":
            rows, columns = Balls.exactly(A), Balls.exactly(B)
            distances = [(rows[i] - columns).size().sum(axis=1) * gamma for i in range(m)]
            return arb_mat(m, n, (-Balls.concatenate(distances)).exp().entries)
        shift = arb(kernel["coef0"])
        arguments = (as_matrix(A) * as_matrix(B).transpose() * gamma).entries()
        if name == "polynomial":
            return arb_mat(m, n, [(x + shift) ** int(kernel["degree"]) for x in arguments])
        return arb_mat(m, n, [(x + shift).tanh() for x in arguments])


def fractions(values: Any) -> Fractions:
    return np.asarray(_FRACTION(np.asarray(values, dtype=np.float64)), dtype=object)


def below(ball: Ball) -> float:
    """Return the largest float that is at most every number of a ball, or a little less."""
    end = ball.lower()
    if not end.is_finite():
        return -math.inf
    value = float(end)
    while not arb(value) <= end:
        value = math.nextafter(value, -math.inf)
    return value


def as_matrix(values: Any) -> Matrix:
    array = np.asarray(_raw(values))
    return arb_mat(array.shape[0], array.shape[1], array.ravel().tolist())


def inverse_form(A: Matrix, c: Balls, what: str) -> Balls:
    """Bound c'A⁻¹c above by 2c'x − x'Ax + r'A⁻¹r with r = c − Ax, or refuse A as indefinite."""
    n = A.nrows()
    middle = np.array([float(x) for x in A.mid().entries()]).reshape(n, n)
    if not np.isfinite(middle).all():
        raise ProofRejected(f"{what} is out of the range of doubles")
    values, vectors = np.linalg.eigh(middle)
    smallest = float(np.abs(values).max()) * U / 100
    G = as_matrix(vectors.T / np.sqrt(np.maximum(values, smallest))[:, None])
    off = Balls((G * A * G.transpose() - as_matrix(np.eye(n))).entries())
    error = Balls(off.size().values.reshape(n, n)).sum(axis=1).greatest().ball.upper()
    if not error < 1:
        raise ProofRejected(
            f"{what} is not proved to be positive definite; its smallest eigenvalue is about"
            f" {values[0]:.3g}"
        )
    x, right = arb_mat(n, 1), arb_mat(n, 1, c.entries)
    residual = right
    for _ in range(4):
        x = (x + G.transpose() * (G * residual)).mid()
        residual = right - A * x
    value, rest = (x.transpose() * (right + residual))[0, 0], G * residual
    return Balls((value + (rest.transpose() * rest)[0, 0] / (1 - error)).upper())
