"""Intervals of the multi-class machines are theorems: held against ball arithmetic and rational
numbers on hostile data.
"""

import math
import os
from fractions import Fraction

import flint
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.certificate.bounded import Bounded
from svmcvx.certificate.bounded import exact as bounded
from svmcvx.data import multiclass_data
from svmcvx.formulations.multiclass.losses import (
    HingeSum,
    LargestHinge,
    LogisticSum,
    Margin,
    SmoothedHingeSum,
    Softmax,
    TopHinge,
)
from svmcvx.formulations.multiclass.statement import ScoreSpace
from tests.balls import ball, dense, fractions, inner, precision, total

precise = precision(220)
EXAMPLES = int(os.environ.get("SVMCVX_EXAMPLES", "12"))
LOSSES = [
    HingeSum(),
    SmoothedHingeSum(1e-2),
    SmoothedHingeSum(1e-9),
    LogisticSum(),
    Softmax(),
    LargestHinge(),
    TopHinge(1),
    TopHinge(3),
]
CLASSICAL = (
    "weston_watkins",
    "crammer_singer",
    "msvm",
    "topk_svm",
    "multinomial_lr",
    "sparse_multinomial_lr",
)


# The statements in ball arithmetic, written from their definitions


def rational(x):
    return flint.arb(flint.fmpq(*Fraction(x).as_integer_ratio()))


def exact_loss(loss, f):
    gamma = [1 - v for v in f]
    if loss.name == "hinge":
        return total(g.max(0) for g in gamma)
    if loss.name == "smoothed":
        delta = ball(loss.delta)
        roots = [(g * g + delta * delta).sqrt() for g in gamma]
        # For γ < 0 in the form without cancellation.
        return total(
            delta * delta / (root - g) / 2 if g < 0 else (g + root) / 2
            for g, root in zip(gamma, roots, strict=True)
        )
    if loss.name == "logistic":
        return total((-v).exp().log1p() for v in f)
    if loss.name == "softmax":
        shift = flint.arb(min(0.0, *(float(v.mid()) for v in f)))
        if shift == 0:
            return total((-v).exp() for v in f).log1p()
        return -shift + (shift.exp() + total((shift - v).exp() for v in f)).log()
    # Sums of the k largest, the zero of the own class among them.
    k = getattr(loss, "k", 1)
    ordered = sorted([*gamma, flint.arb(0)], key=lambda g: g.mid(), reverse=True)
    return (total(ordered[:k]) / k).max(0)


def exact_differences(X, codes, W, b):
    rows = []
    for x, own in zip(dense(X), codes, strict=True):
        scores = [inner(x, column) + ball(bias) for column, bias in zip(W.T, b, strict=True)]
        rows.append([scores[own] - score for k, score in enumerate(scores) if k != own])
    return rows


def exact_losses(statement, model):
    data = statement.scores.data
    rows = exact_differences(data.X, data.codes, model.coef, model.intercept)
    weighted = zip(data.weight, rows, strict=True)
    return total(ball(s) * exact_loss(statement.loss, f) for s, f in weighted)


def pairs(c):
    return [(k, j) for k in range(c) for j in range(k + 1, c)]


def exact_squares(A):
    return total(ball(x) ** 2 for x in np.ravel(A))


def exact_lengths(W, norm):
    columns = [
        [ball(a) - ball(b) for a, b in zip(W[:, k], W[:, j], strict=True)]
        for k, j in pairs(W.shape[1])
    ]
    if norm == 1:
        return [total(abs(x) for x in v) for v in columns]
    return [total(x * x for x in v).sqrt() for v in columns]


def exact_powers(lengths, p):
    return total(x ** ball(p) for x in lengths if x != 0)


def exact_objective(statement, model):
    W, b, name = model.coef, model.intercept, statement.name
    if name == "m3svm_hard_margin":
        lengths = exact_lengths(W, statement.norm)
        if math.isinf(statement.p):
            return max(lengths, key=lambda x: x.mid())
        return exact_powers(lengths, statement.p)
    value, lam = exact_losses(statement, model), ball(statement.lam)
    if name == "m3svm":
        powers = exact_powers(exact_lengths(W, statement.norm), statement.p)
        return value + lam * powers + ball(statement.eps) * (exact_squares(W) + exact_squares(b))
    if name == "sparse_multinomial_lr":
        return value + lam * total(abs(ball(w)) for w in W.ravel())
    if name == "msvm":
        return value + lam * (exact_powers(exact_lengths(W, 2), 2.0) + exact_squares(W)) / 2
    return value + lam * exact_squares(W)


def entropy(a):
    return flint.arb(0) if a == 0 else -a * a.log()


def exact_conjugate(loss, alpha, s):
    a, rest = [rational(x / s) for x in alpha], [rational(1 - x / s) for x in alpha]
    value = total(a)
    if loss.name == "smoothed":
        both = zip(a, rest, strict=True)
        value += ball(loss.delta) * total((x * r).sqrt() for x, r in both)
    elif loss.name == "logistic":
        value = total(entropy(x) for x in a + rest)
    elif loss.name == "softmax":
        value = total(entropy(x) for x in [*a, rational(1 - sum(alpha) / s)])
    return rational(s) * value


def exact_rows(scores, dual):
    """The multipliers of the classes that are not an observation's own."""
    return np.take_along_axis(fractions(dual["alpha"]), scores.others, axis=1)


def exact_coupling(scores, rows):
    """B, whose columns sum to zero where multipliers balance."""
    B = np.full((scores.data.n, scores.data.c), Fraction(0))
    np.put_along_axis(B, scores.others, -rows, axis=1)
    B[np.arange(scores.data.n), scores.data.codes] = rows.sum(axis=1)
    return B


def exact_flow_lengths(statement, S):
    if statement.norm == 2:
        return [exact_squares(column).sqrt() for column in S.T]
    return [ball(np.abs(column).max(initial=0.0)) for column in S.T]


def assert_feasible(statement, dual):
    """Every constraint of the dual in rational numbers, but div S = G of the hard margin."""
    scores, loss = statement.scores, statement.loss
    rows, s = exact_rows(scores, dual), fractions(scores.data.weight)
    largest, sums = rows.max(axis=1), rows.sum(axis=1)
    assert rows.min() >= 0
    if isinstance(loss, (HingeSum, SmoothedHingeSum, LogisticSum)):
        assert (largest <= s).all()
    elif not isinstance(loss, Margin):
        assert (sums <= s).all()
    if isinstance(loss, TopHinge):
        assert (loss.k * largest <= s).all()
        assert ((loss.k - 1) * largest <= sums).all()
    B = exact_coupling(scores, rows)
    if scores.intercept == "free":
        assert not B.sum(axis=0).any()
    if statement.name == "m3svm" and statement.p == 1:
        lam = ball(statement.lam)
        assert not any(x > lam for x in exact_flow_lengths(statement, np.asarray(dual["flow"])))
    if statement.name == "sparse_multinomial_lr":
        gradient = fractions(dense(scores.data.X)).T @ B
        assert (abs(gradient) <= Fraction(statement.lam)).all()


def exact_dual_objective(statement, dual):
    data, name, rows = statement.scores.data, statement.name, exact_rows(statement.scores, dual)
    weights = map(Fraction, statement.weight.tolist())
    value = total(
        exact_conjugate(statement.loss, row, s) for row, s in zip(rows, weights, strict=True)
    )
    if name == "sparse_multinomial_lr":
        return value
    B = exact_coupling(statement.scores, rows)
    G = fractions(dense(data.X)).T @ B
    if name != "m3svm":
        kappa = Fraction(data.c + 1, 2) if name == "msvm" else 1
        squares = total(rational(x) ** 2 for x in G.ravel())
        return value - squares / (4 * ball(statement.lam) * rational(kappa))
    S, lam, p = np.asarray(dual["flow"]), ball(statement.lam), ball(statement.p)
    for flow, (k, j) in zip(fractions(S).T, pairs(data.c), strict=True):
        G[:, k] -= flow
        G[:, j] += flow
    if statement.p > 1:
        sizes = [size for size in exact_flow_lengths(statement, S) if size != 0]
        value -= total((p - 1) * lam * (size / (lam * p)) ** (p / (p - 1)) for size in sizes)
    residual = total(rational(x) ** 2 for x in [*G.ravel(), *B.sum(axis=0)])
    return value - residual / (4 * ball(statement.eps))


# Hostile data, models and dual points


def hostile_data(rng, n, d, c):
    y = rng.permutation(np.arange(n) % c)
    X = rng.standard_normal((n, d)) + rng.standard_normal((c, d))[y]
    kind = rng.integers(0, 8)
    if kind == 0:
        X += 10.0 ** rng.uniform(0, 12)
    elif kind == 1:
        X += 10.0 ** rng.uniform(0, 12, d) * rng.choice([-1.0, 1.0], (n, 1))
    elif kind == 2:
        X = np.round(X)
    elif kind == 3:
        X *= 10.0 ** rng.uniform(-12, 12)
    elif kind == 4:
        X[n // 2 :] = X[: n - n // 2]
    elif kind == 5:
        X[0] *= 1e9
    elif kind == 6:
        X = np.round(4 * X) / 4 + 2.0 ** rng.integers(0, 40)
    data = sp.csr_array(np.where(np.abs(X) < 0.3, 0.0, X)) if rng.random() < 0.2 else X
    weight = rng.choice([np.ones(n), 10.0 ** rng.uniform(-12, 12, n), rng.uniform(0.1, 3.0, n)])
    return data, y, weight


def hostile_models(rng, statement):
    """Random models of all sizes, some with a difference of 1 up to rounding, and multiples of the
    gradient of the dual.
    """
    scores = statement.scores
    data = scores.data
    d, c = data.X.shape[1], data.c
    size = max(float(np.abs(dense(data.X)).max()), 1e-300)
    for _ in range(2):
        W = rng.standard_normal((d, c)) * 10.0 ** rng.uniform(-3, 3) / size
        b = rng.standard_normal(c) * 10.0 ** rng.uniform(-3, 3)
        if scores.intercept == "none":
            b[:] = 0.0
        model = sx.MulticlassModel(coef=W, intercept=b, classes=data.classes, support=np.arange(1))
        yield model
        f = scores.model_differences(model).value
        chosen = float(f.ravel()[rng.integers(f.size)])
        if chosen > 0:
            yield sx.MulticlassModel(
                coef=W / chosen, intercept=b / chosen, classes=data.classes, support=np.arange(1)
            )
    yield from statement.trivial()[0]


def hostile_duals(rng, statement):
    data = statement.scores.data
    n, c, s = data.n, data.c, data.weight[:, None]
    yield {"alpha": s * rng.random((n, c))}
    yield {"alpha": s * rng.choice([0.0, 1.0, 1.0 / 3.0, 0.5, 1e-17, 1e-9], (n, c))}
    yield {"alpha": s * 10.0 ** rng.uniform(-18, 1, (n, c))}
    yield {"alpha": s * rng.normal(0.3, 0.5, (n, c)) * 10.0 ** rng.uniform(-12, 0)}
    model = next(iter(hostile_models(rng, statement)))
    f = statement.scores.model_differences(model).value
    yield {"alpha": statement.scores.expand(s * statement.loss.multipliers(f))}


seeds = st.integers(0, 2**32 - 1)


def number(rng, wide):
    return float(10.0 ** rng.uniform(-12, 12)) if wide else float(10.0 ** rng.uniform(-3, 2))


# Losses and conjugates by themselves


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: f"{loss.name}{loss.parameters or ''}")
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=seeds)
def test_losses_and_conjugates_are_within_their_errors(loss, seed):
    rng = np.random.default_rng(seed)
    corners = [0.0, 1.0, np.nextafter(1.0, 0), 700.0, -700.0, 40.0]
    sizes = 10.0 ** rng.uniform(-12, 2, (6, 3)) * rng.choice([-1, 1], (6, 3))
    f = np.concatenate([rng.normal(0.5, 2.0, (6, 3)), rng.choice(corners, (6, 3)), sizes])
    error = rng.choice([0.0, 1e-17, 1e-9, 1e-3], f.shape)
    found = loss.value(Bounded(f, error))
    for sign in (-1.0, 1.0):
        for row, e, value, reach in zip(f, error, found.value, found.error, strict=True):
            exact = exact_loss(
                loss, [ball(v) + sign * ball(w) for v, w in zip(row, e, strict=True)]
            )
            assert not abs(exact - ball(value)) > ball(reach)
    np.testing.assert_allclose(found.value, loss.value(f), rtol=1e-14, atol=1e-300)
    s = 10.0 ** rng.uniform(-6, 6, 12)
    a = np.where(
        rng.random((12, 3)) < 0.5, rng.random((12, 3)), 10.0 ** rng.uniform(-20, 0, (12, 3))
    )
    alpha = loss.domain.project(s[:, None] * a, s)
    alpha[:3] = loss.domain.project(
        s[:3, None] * rng.choice([1.0, 1.0 - 2.0**-53, 2.0**-40, 1.0 / 3.0], (3, 3)), s[:3]
    )
    minus_conjugate = loss.conjugate(bounded(alpha), s)
    for row, weight, value, reach in zip(
        alpha.tolist(), s.tolist(), minus_conjugate.value, minus_conjugate.error, strict=True
    ):
        exact = exact_conjugate(loss, [Fraction(x) for x in row], Fraction(weight))
        assert not abs(exact - ball(value)) > ball(reach)
        # Not far from it either.
        assert reach <= 1e-14 * max(float(exact.mid()), 1e-290)
    np.testing.assert_allclose(loss.conjugate(alpha, s), minus_conjugate.value, rtol=1e-12)


# Exact multipliers


@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=seeds, k=st.integers(1, 5))
def test_rows_are_reduced_to_what_rational_numbers_allow(seed, k):
    rng, domain = np.random.default_rng(seed), TopHinge(k).domain
    bound = 10.0 ** rng.uniform(-12, 12, 20)
    shares = [1.0, 0.5, 1.0 / 3.0, 0.25, 0.2, 1e-17, 0.0, 1.1, 1.0 - 2.0**-53]
    a = rng.choice(shares, (20, 4)) * bound[:, None]
    reduced = domain.project(a, bound)
    before, after, limit = fractions(a), fractions(reduced), fractions(bound)

    def violation(rows):
        largest, sums = rows.max(axis=1), rows.sum(axis=1)
        found = np.maximum(sums - limit, 0)
        if k > 1:
            found = np.maximum(found, np.maximum(k * largest - limit, (k - 1) * largest - sums))
        return found

    assert not violation(after).any()
    assert (after <= before).all()
    kept = violation(before) == 0
    np.testing.assert_array_equal(reduced[kept], a[kept])
    # Reduced no further than the grid asks for: to the sum, and then to what it allows.
    most = np.minimum(before, limit[:, None] / k)
    most = most * np.minimum(1, limit / np.maximum(most.sum(axis=1), limit / 9))[:, None]
    cap, ordered = limit / k, np.sort(most, axis=1)
    for m in range(min(k - 1, 4)):
        cap = np.minimum(cap, ordered[:, : 4 - m].sum(axis=1) / (k - 1 - m))
    slack = most.max(axis=1, keepdims=True) / 2**30
    assert (after >= np.minimum(most, cap[:, None]) - slack).all()
    for rows, exact in ((a, before), (reduced, after)):
        each = zip(rows[:, None], bound[:, None], strict=True)
        wrong = [domain.violation(row, own) > 0 for row, own in each]
        np.testing.assert_array_equal(wrong, violation(exact) > 0)


@pytest.mark.parametrize(
    "loss", [*LOSSES, Margin()], ids=lambda loss: f"{loss.name}{loss.parameters or ''}"
)
@settings(max_examples=EXAMPLES, deadline=None)
@given(seed=seeds)
def test_balance_is_exact(loss, seed):
    rng = np.random.default_rng(seed)
    c = int(rng.integers(max(2, getattr(loss, "k", 2)), 7))
    n = int(rng.integers(c, 25))
    y = rng.permutation(np.arange(n) % c)
    weight = rng.choice([np.ones(n), 10.0 ** rng.uniform(-9, 9, n)])
    scores = ScoreSpace(multiclass_data(np.ones((n, 1)), y, weight), "free")
    a = rng.choice([0.0, 0.0, 1.0, 0.4, 1.0 / 3.0, 1e-12], (n, c - 1)) * rng.choice(
        [0.0, 1.0], (n, 1)
    )
    alpha = scores.balanced(weight[:, None] * a, loss.domain)
    assert loss.domain.violation(alpha, weight) == 0
    assert not exact_coupling(scores, fractions(alpha)).sum(axis=0).any()
    assert scores.imbalance(alpha) == 0
    np.testing.assert_array_equal(scores.balanced(alpha, loss.domain), alpha)
    if alpha.any():
        i, j = np.argwhere(alpha)[0]
        alpha[i, j] = np.nextafter(alpha[i, j], 0)
        assert scores.imbalance(alpha) > 0


def test_a_balance_that_rounding_hides_is_decided_exactly():
    """Columns of numbers of all sizes whose sums are exactly 0, or off by the smallest of them."""
    own = np.array([1e40, 1.0, 1.0 / 3.0, 1e-40])
    # And so many that their sum in doubles leaves it open.
    rng = np.random.default_rng(0)
    many = rng.random(2000) * 10.0 ** rng.uniform(-12, 12, 2000)
    for column in (own, many):
        n = column.size
        scores = ScoreSpace(multiclass_data(np.ones((2 * n, 1)), np.repeat([0, 1], n)), "free")
        alpha = np.r_[column, rng.permutation(column)][:, None]
        assert scores.imbalance(alpha) == 0
        least = int(np.argmin(alpha))
        alpha[least] = np.nextafter(alpha[least], 1.0)
        assert scores.imbalance(alpha) > 0


# Where it broke


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(seed=seeds, name=st.sampled_from(["m3svm", "weston_watkins", "crammer_singer", "topk_svm"]))
def test_differences_that_round_to_one_count_with_what_they_may_cost(seed, name):
    """All losses are 0 but for those at the kink, whose weights are huge."""
    rng = np.random.default_rng(seed)
    y = np.arange(9) % 3
    X = (
        rng.standard_normal((9, 4))
        + 12.0 * np.eye(3, 4)[y]
        + rng.choice([0.0, 1.0]) * 10.0 ** rng.uniform(0, 8)
    )
    options = (
        {"p": 2.0, "eps": 1e-14} if name == "m3svm" else {"k": 1} if name == "topk_svm" else {}
    )
    statement = getattr(sx, name)(
        X, y, lam=1e-14, sample_weight=np.full(9, 1e12), **options
    ).formulation
    centre = X.mean(axis=0)
    W = np.linalg.lstsq(X - centre, np.eye(3)[y] - 1.0 / 3.0, rcond=None)[0]
    for _ in range(3):
        model = sx.MulticlassModel(
            coef=W, intercept=-centre @ W, classes=np.arange(3), support=np.arange(1)
        )
        found = statement.evaluate(model)
        assert not exact_objective(statement, model) > ball(found.upper_end)
        W = W / float(statement.scores.model_differences(model).value.min())


def test_an_offset_costs_the_differences_no_digits():
    rng = np.random.default_rng(0)
    X, y, W = rng.standard_normal((30, 2)), np.arange(30) % 3, rng.standard_normal((2, 3))
    errors = []
    for offset in (0.0, 1e8):
        # M3SVM penalises its biases, so that its data are not centred.
        scores = sx.m3svm(X + offset, y, lam=0.1, p=4.0).formulation.scores
        model = sx.MulticlassModel(
            coef=W, intercept=-offset * W.sum(axis=0), classes=np.arange(3), support=np.arange(1)
        )
        errors.append(scores.model_differences(model).error.max())
    assert errors[1] <= 4 * errors[0]


def test_the_best_constant_biases_are_found():
    rng = np.random.default_rng(2)
    y = np.repeat([0, 1, 2], [60, 30, 10])
    X = rng.standard_normal((100, 2))
    statement = sx.multinomial_lr(X, y, lam=1.0).formulation
    (model,), (zero,) = statement.trivial()
    share = np.array([0.6, 0.3, 0.1])
    assert statement.evaluate(model).upper_end == pytest.approx(
        -100 * float(share @ np.log(share)), rel=1e-12
    )
    assert statement.evaluate_dual(zero).lower_end == 0.0
    statement = sx.crammer_singer(X, np.repeat([0, 1, 2], [90, 5, 5]), lam=1.0).formulation
    assert statement.evaluate(statement.trivial()[0][0]).upper_end == pytest.approx(20.0, rel=1e-12)
