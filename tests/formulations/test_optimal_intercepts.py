"""Ties: where the optimal intercept is an interval, every route returns its middle."""

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris

import svmcvx as sx
from svmcvx.formulations import optimal_intercepts as module
from svmcvx.formulations.margin import best_bias
from svmcvx.formulations.multiclass.losses import HingeSum, LargestHinge, TopHinge
from svmcvx.formulations.optimal_intercepts import SHORT, ClassSlacks, hinge_intercepts

IRIS = load_iris(return_X_y=True)


# Two classes


def exact_intercepts(f, y, weight):
    """The ends of the interval of minimisers, in rational numbers."""
    breaks = sorted(
        (Fraction(float(label)) - Fraction(float(score)), s)
        for score, label, s in zip(f, y, weight, strict=True)
    )
    slope, lower = -sum(s for label, s in zip(y, weight, strict=True) if label > 0), None
    for place, s in breaks:
        slope += s
        if lower is None and slope >= 0:
            lower = place
        if slope > 0:
            return float(lower), float(place)
    raise AssertionError


POINTS = st.lists(
    st.tuples(st.integers(-12, 12), st.booleans(), st.integers(1, 4)), min_size=2, max_size=14
)
UNITS = st.sampled_from(
    [
        Fraction(1),
        Fraction(1, 3),
        Fraction(1, 10),
        Fraction(7, 10),
        Fraction(1, 150),
        Fraction(10**9),
    ]
)


def drawn(points, unit):
    f = np.array([value / 4 for value, _, _ in points])
    y = np.array([1.0 if positive else -1.0 for _, positive, _ in points])
    y[:2] = 1.0, -1.0
    return f, y, [unit * whole for _, _, whole in points]


@given(POINTS, UNITS, st.randoms())
def test_the_interval_is_that_of_exact_arithmetic(points, unit, random):
    f, y, exact = drawn(points, unit)
    weight = np.array([float(s) for s in exact])
    expected = exact_intercepts(f, y, exact)
    assert hinge_intercepts(f, y, weight) == expected
    order = np.array(random.sample(range(f.size), f.size))
    assert hinge_intercepts(f[order], y[order], weight[order]) == expected
    assert hinge_intercepts(f[order], y[order], weight[order] / weight.sum()) == expected
    # The other names of the classes, and the middle.
    assert hinge_intercepts(-f, -y, weight) == (-expected[1], -expected[0])
    assert best_bias(f, y, p=1.0, weight=weight) == sum(expected) / 2


def test_balanced_classes_of_many_observations_are_equal():
    rng = np.random.default_rng(0)
    for n, k in ((100_000, 33_333), (7, 3)):
        y = np.where(np.arange(n) < k, 1.0, -1.0)
        weight = np.where(y > 0, n / (2 * k), n / (2 * (n - k)))
        f = 1e-3 * rng.standard_normal(n)
        assert hinge_intercepts(f, y, weight) == (
            float((-1 - f)[y < 0].max()),
            float((1 - f)[y > 0].min()),
        )
        # A share that is no rounding counts.
        weight[0] *= 1.0 + 1e-3
        lower, upper = hinge_intercepts(f, y, weight)
        assert lower == upper == float((1 - f)[y > 0].min())


def gaussians(seed, equal):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(4, 41))
    k = n if equal else int(rng.integers(1, n))
    y = np.r_[np.ones(k), -np.ones(n if equal else n - k)]
    X = rng.standard_normal((y.size, 2))
    X[:, 0] += 1.5 * y
    return rng, X, y


@pytest.fixture(autouse=True, scope="module")
def however_few():
    """Solve rows in blocks block by block however few they are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("svmcvx.feature_space.blocks.SMALL_ENTRIES", 0)
        yield


def in_blocks(X, y, weight, order):
    parts = np.array_split(order, 3)
    return sx.RowBlocks(
        [lambda part=part: (X[part], y[part], weight[part]) for part in parts], labelled=True
    )


@pytest.mark.parametrize(
    ("kind", "seed"), [("balanced", 0), ("balanced", 1), ("third", 0), ("nth", 1), ("permuted", 0)]
)
def test_all_routes_return_the_same_middle(kind, seed):
    rng, X, y = gaussians(seed, kind != "balanced")
    n, half = y.size, y.size // 2
    weight = {
        "balanced": np.where(y > 0, n / (2 * (y > 0).sum()), n / (2 * (y < 0).sum())),
        "third": np.full(n, 1 / 3),
        "nth": np.full(n, 1 / n),
        "permuted": np.r_[s := rng.random(half) + 0.05, rng.permutation(s)]
        if kind == "permuted"
        else None,
    }[kind]
    C, order = 1e-4 / float(weight.mean()), rng.permutation(n)
    rows = in_blocks(X, y, weight, order)
    found = {
        "auto": sx.fast.psvm(X, y, C=C, sample_weight=weight),
        "newton": sx.fast.psvm(X, y, C=C, sample_weight=weight, method="newton"),
        "kernel": sx.fast.psvm(X, y, C=C, sample_weight=weight, kernel="linear"),
        "unit": sx.fast.psvm(X, y, C=7 * C, sample_weight=weight / 7),
        "order": sx.fast.psvm(X[order], y[order], C=C, sample_weight=weight[order]),
        "blocks": sx.fast.psvm(rows, rows.y, C=C),
        "dual": sx.solve(sx.psvm_dual(X, y, C=C, p=1.0, sample_weight=weight)),
        "primal": sx.solve(sx.psvm_primal(X, y, C=C, p=1.0, kernel="linear", sample_weight=weight)),
    }
    if kind == "balanced":
        estimator = sx.PSVMClassifier(C=1e-4, class_weight="balanced").fit(X, y)
        found["estimator"] = estimator.solution_
    # All multipliers are at their bounds: w is known without a solver.
    f = X @ (C * (weight * y) @ X)
    lower, upper = float((-1 - f)[y < 0].max()), float((1 - f)[y > 0].min())
    assert lower < upper
    for name, solution in found.items():
        close = {"abs": 1e-6 if name in ("dual", "primal") else 1e-9}
        assert solution.certificate.is_certified(1e-6), name
        assert solution.optimal_intercepts.lower == pytest.approx(lower, **close), name
        assert solution.optimal_intercepts.upper == pytest.approx(upper, **close), name
        assert solution.model.intercept == pytest.approx((lower + upper) / 2, **close), name
        assert not solution.optimal_intercepts.unique
        assert np.array_equal(
            solution.model.predict(X), np.where(f + (lower + upper) / 2 > 0, 1, -1)
        ), name


# Several classes


def lp_ranges(gamma, codes, others, weight, loss):
    """The ranges of intercepts of sum zero by linear programs, one for each end."""
    (n, m), c = gamma.shape, gamma.shape[1] + 1
    b = cp.Variable(c)
    apart = b[np.repeat(codes, m)] - b[others.ravel()]
    short = cp.reshape(gamma.ravel() - apart, (n, m), order="C")
    if isinstance(loss, HingeSum):
        losses = cp.sum(cp.pos(short), axis=1)
    else:
        k = getattr(loss, "k", 1)
        tops = [cp.sum_largest(cp.hstack([short[i], 0.0]), k) / k for i in range(n)]
        losses = cp.pos(cp.hstack(tops))
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}

    def least(value, *rows):
        problem = cp.Problem(cp.Minimize(value), [cp.sum(b) == 0, *rows])
        return problem.solve(solver="SCIPY", scipy_options={"method": "highs", **tight})

    cost = cp.sum(cp.multiply(weight, losses))
    best = least(cost)
    optimal = cost <= best + 1e-9 * max(1.0, best)
    ends = [[sign * least(sign * b[k], optimal) for k in range(c)] for sign in (1, -1)]
    return best, np.array(ends)


def classes(seed):
    rng = np.random.default_rng(seed)
    c = int(rng.integers(2, 5))
    codes = np.arange(int(rng.integers(c, 13))) % c
    S = rng.standard_normal((codes.size, c)) * 10.0 ** rng.uniform(-3, 1)
    S = np.round(4 * S) / 4 if rng.random() < 0.3 else S
    weight = (
        (codes.size / (c * np.bincount(codes)))[codes]
        if rng.random() < 0.5
        else rng.integers(1, 4, codes.size) / 3
    )
    return rng, S, codes, weight


def slacks(S, codes):
    others = np.arange(S.shape[1] - 1) + (np.arange(S.shape[1] - 1) >= codes[:, None])
    own = S[np.arange(codes.size), codes]
    return 1.0 - (own[:, None] - np.take_along_axis(S, others, axis=1)), others


HINGES = [HingeSum(), LargestHinge(), TopHinge(1), TopHinge(2)]


@pytest.mark.parametrize("loss", HINGES, ids=["sum", "largest", "top 1", "top 2"])
@pytest.mark.parametrize("seed", range(3))
def test_ranges_are_those_of_linear_programs(loss, seed, monkeypatch):
    rng, S, codes, weight = classes(seed)
    gamma, others = slacks(S, codes)
    start = rng.standard_normal(S.shape[1])
    problem = ClassSlacks(gamma, codes, others, weight, loss.linear_pieces)
    found = problem.ranges(start)
    best, expected = lp_ranges(gamma, codes, others, weight, loss)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    b = np.mean(found, axis=0)
    assert abs(b.sum()) <= 1e-12
    differences = 1.0 - (gamma - (b[codes][:, None] - b[others]))
    assert float(weight @ loss.value(differences)) <= best * (1 + 1e-8) + 1e-8
    # Few observations at a time, from far away.
    monkeypatch.setattr(module, "WINDOW", 2)
    again = problem.ranges(3 * start)
    np.testing.assert_allclose(again, found, atol=1e-9)


@given(st.integers(0, 10**6), st.sampled_from(HINGES), st.sampled_from([1 / 3, 1 / 150, 1e9]))
def test_ranges_change_with_the_names_of_classes_alone(seed, loss, unit):
    rng, S, codes, weight = classes(seed)
    c = S.shape[1]

    def middle(S, codes, weight):
        gamma, others = slacks(S, codes)
        problem = ClassSlacks(gamma, codes, others, weight, loss.linear_pieces)
        return np.mean(problem.ranges(np.zeros(c)), axis=0)

    found = middle(S, codes, weight)
    order, names = rng.permutation(codes.size), rng.permutation(c)
    np.testing.assert_allclose(
        middle(S[order], codes[order], unit * weight[order]), found, atol=1e-9
    )
    renamed = np.empty_like(S)
    renamed[:, names] = S
    np.testing.assert_allclose(middle(renamed, names[codes], weight)[names], found, atol=1e-9)
    # Scores that are shifted by class move the intercepts back.
    shift = rng.standard_normal(c)
    moved = middle(S + shift, codes, weight) + shift
    np.testing.assert_allclose(moved - moved.mean(), found, atol=1e-9)


@pytest.mark.parametrize("loss", ["weston_watkins", "crammer_singer", "topk"])
def test_two_classes_have_the_middle_of_the_binary_machine(loss):
    _, X, y = gaussians(2, False)
    weight = np.where(y > 0, y.size / (2 * (y > 0).sum()), y.size / (2 * (y < 0).sum()))
    C, factor = 1e-4, 0.5 if loss == "topk" else 1.0
    binary = sx.fast.psvm(X, y, C=C, sample_weight=weight)
    found = sx.fast.multiclass(X, y, lam=factor / C, loss=loss, sample_weight=weight, tol=1e-11)
    assert found.model.intercept == pytest.approx(
        np.array([-0.5, 0.5]) * binary.model.intercept, abs=1e-7
    )
    assert found.optimal_intercepts.upper[1] == pytest.approx(
        0.5 * binary.optimal_intercepts.upper, abs=1e-7
    )


@pytest.mark.parametrize("loss", ["weston_watkins", "crammer_singer", "topk"])
@pytest.mark.parametrize("tol", [1e-3, 1e-9])
def test_intercepts_that_multipliers_call_unique_are_so_in_the_linear_program(loss, tol):
    X, y = IRIS
    called = []
    for lam in (1e-2, 1.0, 1e2, 1e5):
        found = sx.fast.multiclass(X, y, loss=loss, lam=lam, tol=tol)
        statement = sx.multiclass(X, y, loss=loss, lam=lam).formulation
        scores = statement.scores
        problem = statement.slacks(found.model.coef, statement.loss.linear_pieces)
        b = found.model.intercept + scores.centre @ found.model.coef
        b -= b.mean()
        called.append(problem.are_unique(statement.multipliers(found.dual), b))
        if called[-1]:
            lower, upper = problem.ranges(b)
            assert (upper - lower).max() <= SHORT
            assert np.abs((lower + upper) / 2 - b).max() <= SHORT
    # Where none is left between its bounds, multipliers say nothing; with a wide gap they say
    # little.
    assert called[0] == (tol == 1e-9)
    # The interval of the largest hinge is short here too.
    assert called[-1] == (loss == "crammer_singer" and tol == 1e-9)


# What other formulations say


def test_the_ramp_has_the_middle_among_what_is_not_dropped():
    _, X, y = gaussians(4, True)
    X, y = X[::2][:16], y[::2][:16]
    weight = np.where(y > 0, 16 / (2 * (y > 0).sum()), 16 / (2 * (y < 0).sum()))
    found = [sx.fast.ramp(X, y, C=unit * 1e-3, sample_weight=weight / unit) for unit in (1.0, 3.0)]
    lower, upper = found[0].optimal_intercepts
    assert upper - lower > 0.5
    for solution in found:
        assert solution.model.intercept == pytest.approx((lower + upper) / 2, abs=1e-9)
    statement = sx.ramp_mio(X, y, C=1e-3, sample_weight=weight).formulation
    for b in (lower, upper):
        moved = sx.LinearModel(
            coef=found[0].model.coef,
            intercept=b,
            classes=found[0].model.classes,
            support=found[0].model.support,
        )
        assert statement.objective(moved) == pytest.approx(found[0].certificate.upper, rel=1e-9)
