"""Intervals of many pSVM together, held against fractions."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.certificate.bounded import Bounded
from svmcvx.certificate.exactly import imbalance
from svmcvx.formulations.margin_pairs import PartsPoint, PSVMParts
from svmcvx.kernels.class_rows import ClassRows, Layout
from tests.balls import fractions

SIZES = [4, 3, 5]
LAYOUT = Layout(np.concatenate([[0], np.cumsum(SIZES)]), [[0, 1], [0, 2], [1, 2]])
ROWS = LAYOUT.all_rows
Y = np.where(np.concatenate([np.arange(7) < 4, np.arange(9) < 4, np.arange(8) < 3]), -1.0, 1.0)


def numbers(rng, *shape, spread):
    """Numbers of sizes that differ by so many powers of ten."""
    return rng.standard_normal(shape) * 10.0 ** rng.uniform(-spread, spread, shape)


def terms(f, b, y, alpha, weight, C, p, square):
    """Regulariser, losses and dual objective of one problem."""
    losses = C * (weight @ np.maximum(1 - y * (f + b), 0) ** p)
    conjugate = alpha @ (alpha / (4 * C * weight)) if p == 2 else 0
    return square / 2, losses, sum(alpha) - conjugate - square / 2


def check(found, part, exact):
    for term, number in zip(found[:3], exact, strict=True):
        off = term.error[part]
        assert not np.isfinite(off) or abs(Fraction(float(term.value[part])) - number) <= Fraction(
            float(off)
        )


class WithScores(PSVMParts):
    """Problems with a kernel, whose scores and errors are given."""

    given = None

    def scores(self, alpha):
        return self.given


@settings(max_examples=60)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 2.0, 40.0]),
    st.sampled_from([1, 2]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1e-9, 1.0, 3e7]),
)
def test_terms_contain_the_exact_ones(seed, spread, p, weighted, linear, C):
    rng = np.random.default_rng(seed)
    total = Y.size
    alpha = np.abs(numbers(rng, total, spread=spread)) * (rng.random(total) < 0.7)
    bias = numbers(rng, 3, spread=spread)
    weight = np.abs(numbers(rng, total, spread=3.0)) if weighted else 1.0
    f, error = numbers(rng, total, spread=spread), np.abs(numbers(rng, total, spread=1.0)) * 1e-9
    X = numbers(rng, 12, 2, spread=spread)
    centre = X.mean(axis=0) if rng.random() < 0.5 else np.zeros(2)
    kernel = None if linear else sx.RBF(1.0)
    statement = (PSVMParts if linear else WithScores)(
        ClassRows(kernel, X - centre, LAYOUT.starts, 144), LAYOUT, Y, weight, C, p, centre
    )
    if linear:
        W = statement.normals(alpha)[0]
    else:
        object.__setattr__(statement, "given", Bounded(f, error))
    found = statement.evaluate(PartsPoint(alpha, bias))
    if spread < 40.0:
        assert all(np.isfinite([*term.value, *term.error]).all() for term in found[:3])
    for part in range(3):
        own = LAYOUT.of_part(part)
        a, labels, b = fractions(alpha[own]), fractions(Y[own]), Fraction(float(bias[part]))
        s, cost = fractions(np.broadcast_to(weight, total)[own]), Fraction(C)
        if linear:
            rows, w = fractions(X[ROWS[own]]) - fractions(centre), fractions(W[part])
            point = rows @ w, b + w @ fractions(centre), labels, a, s, cost, p
            normal = (a * labels) @ rows
            lower = terms(*point, normal @ normal)[2]
            check(found, part, (*terms(*point, w @ w)[:2], lower))
        else:
            ends = error[own] * rng.choice([-1.0, 0.0, 1.0], a.size)
            scores = fractions(f[own]) + fractions(ends)
            square = (a * labels) @ scores
            # A square is not negative.
            if square >= 0:
                check(found, part, terms(scores, b, labels, a, s, cost, p, square))


@pytest.mark.parametrize("kind", ["balanced", "any", "far", "tiny", "nan", "above", "negative"])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_violations_are_exact(kind, p):
    rng = np.random.default_rng(3)
    alpha = rng.random(Y.size)
    if kind in ("balanced", "above"):
        alpha = np.round(alpha * 4) / 4
    elif kind in ("far", "tiny"):
        alpha *= 2.0 ** rng.integers(-1060 if kind == "tiny" else -200, 0, alpha.size)
    elif kind != "any":
        alpha[0] = np.nan if kind == "nan" else -1e-300
    upper = 0.5 if kind == "above" else 1.0
    X = rng.standard_normal((12, 2))
    statement = PSVMParts(
        ClassRows(None, X, LAYOUT.starts, 144), LAYOUT, Y, 1.0, upper, p, np.zeros(2)
    )
    found = statement.evaluate(PartsPoint(alpha, np.zeros(3))).violation
    for part in range(3):
        own = alpha[LAYOUT.of_part(part)]
        if not np.isfinite(own).all():
            assert found[part] == np.inf
            continue
        outside = max(float(-own.min()), float((own - upper).max()) if p == 1 else 0.0, 0.0)
        assert found[part] == max(outside, abs(imbalance(own, Y[LAYOUT.of_part(part)])))
