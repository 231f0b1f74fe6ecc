"""Exact arithmetic for tests: balls of any precision, kernels and models in them, and formulas on
arrays of them.
"""

import itertools
import math
import operator

import flint
import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx

ZERO = flint.arb(0)


def precision(bits):
    """A fixture that sets the precision of balls for the tests of a module: ``precise =
    precision(200)``.
    """

    @pytest.fixture(autouse=True, scope="module")
    def precise():
        before = flint.ctx.prec
        flint.ctx.prec = bits
        yield
        flint.ctx.prec = before

    return precise


def ball(x):
    return flint.arb(float(x))


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def total(terms):
    return sum(terms, ZERO)


def inner(a, b):
    return total(ball(s) * ball(t) for s, t in zip(a, b, strict=True))


def positive(x):
    return x.max(ZERO)


def power(x, p):
    """x^p for p ≥ 1, and 0 where x is not positive."""
    return ZERO if not x > 0 else x if p == 1 else x ** ball(p)


def least(numbers):
    """The least of several balls."""
    numbers = list(numbers)
    found = numbers[0]
    for x in numbers[1:]:
        found = found.min(x)
    return found


def exact_kernel(kernel, a, b):
    """An entry of a kernel; the inner product for None."""
    name = "linear" if kernel is None else kernel.name
    if name in ("linear", "polynomial", "sigmoid"):
        dot = inner(a, b)
        if name == "linear":
            return dot
        argument = ball(kernel.gamma) * dot + ball(kernel.coef0)
        return argument ** int(kernel.degree) if name == "polynomial" else argument.tanh()
    differences = [ball(x) - ball(z) for x, z in zip(a, b, strict=True)]
    match name:
        case "rbf":
            distance = total(x * x for x in differences)
        case "exponential":
            distance = total(x * x for x in differences).sqrt()
        case "laplacian":
            distance = total(abs(x) for x in differences)
    return (-ball(kernel.gamma) * distance).exp()


def quadratic(kernel, rows, v):
    """v'Kv; in the features where the kernel is linear, as few bits would not do for large offsets."""
    if kernel is None:
        return total(
            total(ball(c) * ball(x) for c, x in zip(v, column, strict=True)) ** 2
            for column in rows.T
        )
    used = np.flatnonzero(v)
    off = total(
        2 * ball(v[i]) * ball(v[j]) * exact_kernel(kernel, rows[i], rows[j])
        for i, j in itertools.combinations(used, 2)
    )
    return off + total(ball(v[i]) ** 2 * exact_kernel(kernel, rows[i], rows[i]) for i in used)


def exact_point(model, X):
    """Scores and ½‖w‖² of a model."""
    b = ball(model.intercept)
    if isinstance(model, sx.LinearModel):
        scores = [
            total(ball(x) * ball(c) for x, c in zip(row, model.coef, strict=True)) + b for row in X
        ]
        return scores, total(ball(c) ** 2 for c in model.coef) / 2
    scores = [
        total(
            ball(c) * exact_kernel(model.kernel, row, z)
            for c, z in zip(model.dual_coef, model.vectors, strict=True)
        )
        + b
        for row in X
    ]
    return scores, quadratic(model.kernel, model.vectors, model.dual_coef) / 2


class Ball:
    """A number in ball arithmetic as formulas use it: 0 to a power is 0, and comparisons are those
    of the middles.
    """

    def __init__(self, x):
        self.x = (
            x.x if isinstance(x, Ball) else x if isinstance(x, flint.arb) else flint.arb(float(x))
        )

    def __pow__(self, exponent):
        return Ball(flint.arb(0)) if self.x == 0 else Ball(self.x ** Ball(exponent).x)

    def __rpow__(self, base):
        return Ball(base) ** self

    def __abs__(self):
        return Ball(abs(self.x))

    def __neg__(self):
        return Ball(-self.x)

    def __ge__(self, other):
        return self.x.mid() >= Ball(other).x.mid()

    def __gt__(self, other):
        return self.x.mid() > Ball(other).x.mid()

    def __lt__(self, other):
        return self.x.mid() < Ball(other).x.mid()

    def __eq__(self, other):
        return self.x == Ball(other).x

    __hash__ = None


def operation(function, *, swapped):
    def apply(self, other):
        if isinstance(other, np.ndarray):
            return NotImplemented
        pair = (Ball(other).x, self.x) if swapped else (self.x, Ball(other).x)
        return Ball(function(*pair))

    return apply


for function in (operator.add, operator.sub, operator.mul, operator.truediv):
    for swapped in (False, True):
        setattr(
            Ball, f"__{'r' * swapped}{function.__name__}__", operation(function, swapped=swapped)
        )


def balls(values):
    """An object array, on which numpy's functions call the operations of balls."""
    return np.array([Ball(x) for x in np.ravel(values)], dtype=object).reshape(np.shape(values))


def encloses(found, wanted):
    """Hold a bounded number, or an array of them, against exact values, as they are and not their
    ends.
    """
    for value, error, x in zip(
        np.ravel(found.value),
        np.ravel(np.broadcast_to(found.error, np.shape(found.value))),
        np.ravel(wanted),
        strict=True,
    ):
        if math.isfinite(value) and math.isfinite(error):
            x = Ball(x).x
            assert not abs(x - flint.arb(float(value))) > flint.arb(float(error)), (x, value, error)


class ExactMargins:
    """Margins, norms and sums of a space, from the rows as they were passed."""

    def __init__(self, space):
        self.space, self.X, self.y = (
            space,
            dense(space.data.X),
            [int(label) for label in space.data.y],
        )
        self.penalised = space.intercept == "penalised"

    def margins(self, model):
        scores, half = exact_point(model, self.X)
        norm = 2 * half + (ball(model.intercept) ** 2 if self.penalised else 0)
        return balls([Ball(label * f) for label, f in zip(self.y, scores, strict=True)]), Ball(norm)

    def squared_norm(self, v):
        return self.squared_norm_of_balls(balls(v))

    def squared_norm_of_balls(self, v):
        x = [each.x for each in v]
        extra = sum(x, ZERO) ** 2 if self.penalised else 0
        if self.space.kernel is None:
            columns = [
                sum((ball(a) * c for a, c in zip(column, x, strict=True)), ZERO)
                for column in self.X.T
            ]
            return Ball(sum((w * w for w in columns), ZERO) + extra)
        pairs = itertools.product(range(len(x)), repeat=2)
        return Ball(
            sum(
                (
                    x[i] * x[j] * exact_kernel(self.space.kernel, self.X[i], self.X[j])
                    for i, j in pairs
                ),
                ZERO,
            )
            + extra
        )
