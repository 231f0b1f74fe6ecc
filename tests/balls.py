"""Exact arithmetic for tests: balls of any precision, kernels and models in them, and formulas on
arrays of them.
"""

import itertools
import operator
from fractions import Fraction

import flint
import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx
from svmcvx.formulations.margin_distribution import ODM, ODML
from svmcvx.model import LinearModel

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


def fractions(values):
    """An array of rational numbers."""
    found = [Fraction(float(x)) for x in np.ravel(values)]
    return np.array(found, dtype=object).reshape(np.shape(values))


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
    """v'Kv; in the features where the kernel is linear, as offsets would ask for many bits."""
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
    kernel, vectors, v = None, [getattr(model, "coef", None)], [1.0]
    if not isinstance(model, sx.LinearModel):
        kernel, vectors, v = model.kernel, model.vectors, model.dual_coef
    scores = [
        total(ball(c) * exact_kernel(kernel, row, z) for c, z in zip(v, vectors, strict=True))
        + ball(model.intercept)
        for row in X
    ]
    return scores, quadratic(kernel, np.asarray(vectors), np.asarray(v)) / 2


class Ball:
    """A number in ball arithmetic as formulas use it: 0 to a power is 0, and comparisons are those
    of the middles.
    """

    def __init__(self, x):
        self.x = x.x if isinstance(x, Ball) else x if isinstance(x, flint.arb) else ball(x)

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


class ExactMargins:
    """Margins, norms and sums of a space, from the rows as they were passed."""

    def __init__(self, space):
        self.space, self.X = space, dense(space.data.X)
        self.y = [int(label) for label in space.data.y]
        self.penalised = space.intercept == "penalised"

    def margins(self, model):
        scores, half = exact_point(model, self.X)
        norm = 2 * half + (ball(model.intercept) ** 2 if self.penalised else 0)
        return balls([Ball(label * f) for label, f in zip(self.y, scores, strict=True)]), Ball(norm)

    def point(self, model):
        """The margins and the squared norm, outside of arrays."""
        u, norm = self.margins(model)
        return [margin.x for margin in u], norm.x

    def squared_norm(self, v):
        return self.squared_norm_of_balls(balls(v))

    def squared_norm_of_balls(self, v):
        x, kernel = [each.x for each in v], self.space.kernel
        extra = total(x) ** 2 if self.penalised else 0
        if kernel is None:
            columns = (
                total(ball(a) * c for a, c in zip(column, x, strict=True)) for column in self.X.T
            )
            return Ball(total(w * w for w in columns) + extra)
        pairs = itertools.product(zip(x, self.X, strict=True), repeat=2)
        return Ball(total(a * b * exact_kernel(kernel, r, s) for (a, r), (b, s) in pairs) + extra)


# Hostile data, and the optimal margin machines


def size(rng):
    return float(10.0 ** (rng.uniform(-2, 2) if rng.random() < 0.6 else rng.uniform(-8, 8)))


def hostile(rng, kernels=True):
    """Data with offsets, far clusters, copies, an outlier or margins on a grid; a kernel or none;
    weights or none.
    """
    n, d = int(rng.integers(4, 10)), int(rng.integers(1, 4))
    scale = 10.0 ** rng.uniform(-6, 6)
    X, y = rng.standard_normal((n, d)) * scale, np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    kind = int(rng.integers(0, 6))
    if kind == 1:
        X += 10.0 ** rng.uniform(0, 8) * scale
    elif kind == 2:
        X += rng.choice([-1.0, 1.0], (n, 1)) * 10.0 ** rng.uniform(0, 8) * scale
    elif kind == 3:
        X[n // 2 :] = X[: n - n // 2]
    elif kind == 4:
        X[-2:] = 0.0
        X[-2:, -1] = 1e3 * scale
    elif kind == 5:
        X = (np.round(2 * X / scale) / 2 + y[:, None]) * scale
    choice = int(rng.integers(0, 4)) if kernels else 0
    rbf = sx.RBF(10.0 ** rng.uniform(-3, 3) / scale**2)
    kernel = [None, None, rbf, sx.Polynomial(3, 1 / scale**2, 1.0)][choice]
    weight = 10.0 ** rng.uniform(-6, 6, n) if rng.random() < 0.4 else None
    if weight is not None:
        weight[0] = 1.0
    return X, y, kernel, weight


def some_models(rng, space):
    """Models of different sizes: at random, and one whose margins are all but 1."""
    n, y, free = space.data.n, space.data.y, space.intercept == "free"
    for fitted in (False, True):
        bias = (
            float(rng.standard_normal() * 10.0 ** rng.uniform(-3, 1))
            if space.intercept != "none"
            else 0.0
        )
        if space.kernel is None:
            X = space.data.X
            w = rng.standard_normal(X.shape[1])
            w *= 10.0 ** rng.uniform(-2, 2) / (float(np.abs(X @ w).max()) or 1.0)
            if fitted:
                w, *_ = np.linalg.lstsq(X, y, rcond=None)
            yield LinearModel(
                coef=w, intercept=bias, classes=np.array([-1, 1]), support=np.arange(n)
            )
            continue
        v = rng.standard_normal(n) * (rng.random(n) < 0.7)
        v = np.linalg.lstsq(space.gram, y, rcond=None)[0] if fitted or not v.any() else v
        v *= (1.0 if fitted else 10.0 ** rng.uniform(-2, 2)) / (
            float(np.abs(space.point(v).scores.value).max()) or 1.0
        )
        yield space.model(v, bias if free else 0.0)


class Exact:
    """The problem of a statement in ball arithmetic, from the rows as they were passed."""

    def __init__(self, statement):
        self.statement, self.truth = statement, ExactMargins(statement.space)
        self.y = self.truth.y
        s = [ball(v) for v in statement.space.data.weight]
        self.c = [v / total(s) for v in s]

    def primal(self, model):
        return self.objective(*self.truth.point(model))

    def objective(self, u, norm):
        s = self.statement
        if isinstance(s, ODM):
            short = (positive(1 - ball(s.D) - m) ** 2 for m in u)
            long = (positive(m - 1 - ball(s.D)) ** 2 for m in u)
            parts = zip(self.c, short, long, strict=True)
            return norm / 2 + total(c * (ball(s.C1) * a + ball(s.C2) * b) for c, a, b in parts)
        mean = total(c * m for c, m in zip(self.c, u, strict=True))
        variance = total(c * (m - mean) ** 2 for c, m in zip(self.c, u, strict=True))
        hinge = total(c * positive(1 - m) for c, m in zip(self.c, u, strict=True))
        C = ball(s.C) if isinstance(s, ODML) else ZERO
        return norm / 2 + ball(s.lam1) * variance - ball(s.lam2) * mean + C * hinge

    def scaled(self, model):
        """Hard margin: P of the model times the least number that makes it feasible; None if there
        is none.
        """
        u, norm = self.truth.point(model)
        lowest = least(u)
        if not lowest > 0:
            return None
        t = (1 / lowest).max(flint.arb(1))
        return self.objective([t * m for m in u], t * t * norm)

    def dual(self, dual):
        s = self.statement
        if isinstance(s, ODM):
            q = [ball(t) for t in dual["theta"]]
            linear = total(
                t - ball(s.D) * abs(t) - t * t / (4 * ball(s.C1 if t > 0 else s.C2) * c)
                for t, c in zip(q, self.c, strict=True)
                if t != 0
            )
        else:
            alpha, tau = ([ball(t) for t in dual[name]] for name in ("alpha", "tau"))
            assert sum(map(Fraction, dual["tau"].tolist())) == 0
            q = [a + ball(s.lam2) * c - t for a, c, t in zip(alpha, self.c, tau, strict=True)]
            linear = total(alpha)
            for a, t, c in zip(alpha, tau, self.c, strict=True):
                assert a >= 0
                if isinstance(s, ODML):
                    assert not a > ball(s.C) * c
                if t != 0:
                    linear -= t * t / (4 * ball(s.lam1) * c)
        v = balls([Ball(t * y) for t, y in zip(q, self.y, strict=True)])
        return linear - self.truth.squared_norm_of_balls(v).x / 2
