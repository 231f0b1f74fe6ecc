"""Methods of the papers that the solvers replace: their intervals are right."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons

import svmcvx as sx
from benchmarks.papers.exhibits import (
    RandomPairs,
    bias_by_rule,
    m3svm_by_adam,
    odm_by_svrg,
    odml_by_svrg,
    with_bias,
)
from benchmarks.papers.exhibits.svrg import InnerLoop
from svmcvx.fast.margin.decomposition import DecompositionSettings
from svmcvx.fast.margin.hard_margin import HardMarginSettings
from svmcvx.fast.margin.psvm import PSVMSettings
from tests.conftest import make_data
from tests.intervals import overlap

RANDOM = DecompositionSettings(ascent=RandomPairs)
BAND, BLEND = {"C1": 20.0, "C2": 5.0, "D": 0.2}, {"lam1": 2.0, "lam2": 1.0, "C": 5.0}


def gaussians(n=40, d=3, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


# Pairs drawn at random [Sun]


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 2.7])
def test_random_pairs_reach_the_same_interval(p):
    X, y = make_data(2, n=60)
    random = sx.fast.psvm(
        X,
        y,
        C=1.0,
        p=p,
        kernel="rbf",
        tol=1e-6,
        time_limit=20,
        settings=PSVMSettings(decomposition=RANDOM),
    )
    assert random.certificate.is_certified(2e-6)
    assert random.attempts[0].options["selection"] == "random"
    overlap(random, sx.fast.psvm(X, y, C=1.0, p=p, kernel="rbf"))


def test_random_pairs_take_more_steps():
    X, y = make_data(2, n=200)
    steps = [
        sx.fast.psvm(X, y, C=1.0, p=1.5, kernel="rbf", tol=1e-3, settings=rule)
        .attempts[0]
        .options["pair_steps"]
        for rule in (PSVMSettings(), PSVMSettings(decomposition=RANDOM))
    ]
    assert steps[1] > 2 * steps[0]


def test_random_pairs_of_the_same_seed_give_the_same_result():
    X, y = make_data(3, n=1500, d=4)
    rule = PSVMSettings(decomposition=RANDOM)
    one, two, other = (
        sx.fast.psvm(X, y, C=1.0, p=1.5, kernel="rbf", tol=1e-2, seed=seed, settings=rule)
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one.dual["alpha"], two.dual["alpha"])
    assert not np.array_equal(one.dual["alpha"], other.dual["alpha"])


def test_random_pairs_take_no_shortcut():
    X, y = gaussians(300, seed=2)
    first = sx.fast.psvm(X, y, C=300.0, p=1.5, kernel="rbf")
    at_once = PSVMSettings(expected_newton_steps=0.0)
    for rule, newton in (
        (at_once, True),
        (PSVMSettings(expected_newton_steps=0.0, decomposition=RANDOM), False),
    ):
        found = sx.fast.psvm(
            X, y, C=400.0, p=1.5, kernel="rbf", warm_start=first, tol=1e-2, settings=rule
        )
        assert ("newton_steps" in found.attempts[-1].options) == newton


def test_random_pairs_find_the_hard_margin():
    X, y = gaussians(60)
    X[:, 0] = y * (1 + np.abs(X[:, 0]))
    rule = HardMarginSettings(decomposition=RANDOM)
    random = sx.fast.hard_margin(X, y, kernel="rbf", tol=1e-4, settings=rule)
    exact = sx.fast.hard_margin(X, y, kernel="rbf")
    assert random.certificate.is_certified(2e-4)
    overlap(random, exact)


# SVRG [ZhangZhou]


@pytest.mark.slow
@given(
    st.booleans(),
    st.sampled_from(((1.0, 1.0, 0.0), (100.0, 10.0, 0.3), (1e-2, 50.0, 0.9))),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=5, deadline=None)
def test_svrg_encloses_the_optimum_of_odm(sparse, weights, intercept, seed):
    X, y = gaussians(16, seed=seed)
    C1, C2, D = weights
    X = sp.csr_array(X) if sparse else X
    found = odm_by_svrg(X, y, C1=C1, C2=C2, D=D, intercept=intercept, max_iter=300)
    exact = sx.fast.odm(X, y, C1=C1, C2=C2, D=D, intercept=intercept)
    overlap(found, exact, gap=1e-2)
    assert found.solver == "papers.odm/svrg"


@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5), sx.Polynomial(2, 1.0, 1.0)])
def test_svrg_comes_near_the_optimum(kernel):
    X, y = gaussians()
    odm = odm_by_svrg(X, y, **BAND, kernel=kernel, max_iter=4000)
    overlap(odm, sx.fast.odm(X, y, **BAND, kernel=kernel), gap=0.2)
    assert odm.certificate.gap <= 0.3
    odml = odml_by_svrg(X, y, **BLEND, kernel=kernel, max_iter=300)
    overlap(odml, sx.fast.odml(X, y, **BLEND, kernel=kernel), gap=0.2)
    assert odml.certificate.gap <= 0.3


@pytest.mark.parametrize("solve", [odm_by_svrg, odml_by_svrg])
def test_limits_and_starts_of_svrg(solve):
    X, y = gaussians(100, d=5)
    X_first, y_first = X[:80], y[:80]
    first = (sx.fast.odm if solve is odm_by_svrg else sx.fast.odml)(X_first, y_first)
    one, two = (solve(X, y, seed=3, tol=1e-2, max_iter=20) for _ in range(2))
    assert np.array_equal(one.model.coef, two.model.coef)
    counted = solve(X, y, tol=1e-14, max_iter=1)
    assert counted.status == "iteration_limit"
    assert (
        solve(X, y, tol=1e-14, callback=lambda progress: progress.iteration >= 1).status
        == "interrupted"
    )
    assert solve(X, y, tol=1e-14, time_limit=1e-9).status == "time_limit"
    if solve is odm_by_svrg:
        warm = solve(X, y, warm_start=first, max_iter=5)
        assert warm.warm_start_used
        overlap(warm, counted, gap=0.1)
    kernel = {"kernel": sx.RBF(0.5)}
    other = (sx.fast.odml if solve is odm_by_svrg else sx.fast.odm)(X, y, **kernel)
    with pytest.raises(sx.DataError, match="warm_start does not fit"):
        solve(X, y, **kernel, warm_start=other)


@pytest.mark.parametrize("lam1", [None, 0.0, 1.5])
def test_lazy_updates_of_svrg_do_what_dense_ones_do(lam1):
    rng = np.random.default_rng(0)
    X = sp.random_array((60, 30), density=0.1, rng=rng, format="csr")
    y = np.where(rng.random(60) < 0.5, 1.0, -1.0)
    picks, others = rng.integers(60, size=300), rng.integers(60, size=300)
    still, w = rng.normal(size=30), rng.normal(size=30)
    band = {"C1": 3.0, "C2": 2.0, "D": 0.2} if lam1 is None else {"lam1": lam1, "C": 2.0}
    results, counts = [], []
    for data in (X.toarray(), sp.csr_array(X)):
        loop, moved = InnerLoop(data, y, **band), w.copy()
        loop.run(moved, still, X @ w, picks, others, 0.01)
        results.append(moved)
        counts.append((loop.visits.copy(), loop.hits.copy()))
    assert not np.allclose(results[0], w, atol=1e-3)
    assert np.allclose(*results, rtol=1e-10, atol=1e-12)
    assert np.array_equal(counts[0][0], counts[1][0])
    assert np.array_equal(counts[0][1], counts[1][1])


# Adam [NieHaoWang]


def three_classes(seed, n=60):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + 1.5 * np.eye(3, 4)[y], y


@pytest.mark.parametrize("loss", ["hinge", "smoothed", "logistic", "softmax"])
def test_adam_comes_near_the_optimum_from_above(loss):
    X, y = three_classes(16)
    optimum = sx.fast.m3svm(X, y, lam=0.05, p=4.0, loss=loss).certificate
    slow = m3svm_by_adam(X, y, lam=0.05, p=4.0, loss=loss, learning_rate=0.02)
    assert slow.solver == "papers.m3svm/adam"
    assert slow.attempts[0].options["iterations"] <= 500
    assert optimum.lower <= slow.certificate.upper <= optimum.upper * 1.01
    assert slow.certificate.lower <= optimum.upper


def test_limits_of_adam_give_the_best_point_with_its_interval():
    X, y = three_classes(14, n=80)
    optimum = sx.fast.m3svm(X, y, lam=0.01, p=4.0, tol=1e-9)
    few = m3svm_by_adam(X, y, lam=0.01, p=4.0, max_iter=4)
    assert few.status == "iteration_limit"
    stopped = m3svm_by_adam(
        X, y, lam=0.01, p=4.0, callback=lambda progress: progress.iteration >= 3
    )
    assert stopped.status == "interrupted"
    late = m3svm_by_adam(X, y, lam=0.01, p=4.0, time_limit=1e-9)
    assert late.status == "time_limit"
    for solution in (few, stopped, late):
        overlap(solution, optimum, gap=1.0)
        assert 1e-6 < solution.certificate.gap <= 1.0
    with pytest.raises(sx.DataError, match="learning_rate must be a finite number"):
        m3svm_by_adam(X, y, learning_rate=0.0)


# Rules for the intercept [Sun]


def test_the_papers_bias_is_right_for_p_two_only():
    X, y = make_moons(80, noise=0.3, random_state=0)
    for p in (1.25, 1.5, 2.0, 3.0):
        exact = sx.solve(sx.psvm_dual(X, y, C=1.0, p=p, kernel=sx.RBF(1.0)))
        paper, released = (
            with_bias(exact, X, y, rule).certificate for rule in ("paper", "released")
        )
        assert released.gap > 1e-7
        assert released.lower <= exact.certificate.upper
        if p == 2.0:
            assert paper.gap < 1e-6
        else:
            assert paper.gap > 1e-4
            assert paper.lower <= exact.certificate.upper


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5)])
def test_bias_rules_by_their_definition(kernel, weighted):
    X, y = gaussians()
    X = X + 5.0
    weight = np.random.default_rng(0).uniform(0.5, 2.0, y.size) if weighted else None
    exact = sx.fast.psvm(X, y, C=1.0, p=1.5, kernel=kernel, sample_weight=weight, tol=1e-11)
    alpha = exact.dual["alpha"]
    support = alpha > 1e-5
    f = (X @ X.T if kernel is None else kernel(X)) @ (alpha * y)
    for rule, scores in (("paper", f), ("released", np.sign(f))):
        found = with_bias(exact, X, y, rule, sample_weight=weight)
        assert found.model.intercept == pytest.approx(np.mean((y - scores)[support]), abs=1e-6)
        assert found.hyperparameters["bias"] == rule
        assert found.optimal_intercepts is None
        assert found.certificate.upper > exact.certificate.upper
        assert sum(found.terms.values()) == pytest.approx(found.certificate.upper, rel=1e-9)
    assert bias_by_rule("paper", y, np.zeros(y.size), f) == 0.0


def test_rules_are_for_a_free_intercept_of_a_psvm():
    X, y = gaussians()
    with pytest.raises(sx.DataError, match=r"pass one of fast\.psvm"):
        with_bias(sx.fast.psvm(X, y, intercept="penalised"), X, y, "paper")
    with pytest.raises(sx.DataError, match="rule must be one of 'paper', 'released'"):
        with_bias(sx.fast.psvm(X, y), X, y, "best")
