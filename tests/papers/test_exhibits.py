"""Methods of the papers that the solvers replace: they come near the certified optimum, from
above.
"""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import svmcvx as sx
from benchmarks.papers.exhibits import (
    bias_by_rule,
    certificate_with_bias,
    m3svm_by_adam,
    odm_by_svrg,
    odml_by_svrg,
)
from tests.intervals import overlap


def gaussians(n=40, d=3, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1, -1)
    y[:2] = 1, -1
    return X, y


@pytest.mark.parametrize(
    ("solve", "estimator", "settings"),
    [
        (odm_by_svrg, sx.ODMClassifier, {"C1": 20.0, "C2": 5.0, "D": 0.2}),
        (odml_by_svrg, sx.ODMLClassifier, {"lam1": 2.0, "lam2": 1.0, "C": 5.0}),
    ],
)
def test_svrg_comes_near_the_optimum(solve, estimator, settings):
    X, y = gaussians()
    problem = estimator(**settings, intercept=False)
    gaps = [
        sx.certify((solve(X, y, **settings, epochs=epochs), 0.0), X, y, problem=problem).gap
        for epochs in (3, 400)
    ]
    assert gaps[1] < 0.02
    assert gaps[1] < 0.5 * gaps[0]
    first, second = (solve(X, y, **settings, epochs=3, seed=1) for _ in range(2))
    assert np.array_equal(first, second)


def three_classes(seed, n=60):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 4)) + 1.5 * np.eye(3, 4)[y], y


@pytest.mark.parametrize("loss", ["hinge", "smoothed", "logistic", "softmax"])
def test_adam_comes_near_the_optimum_from_above(loss):
    X, y = three_classes(16)
    optimum = sx.fast.m3svm(X, y, lam=0.05, p=4.0, loss=loss)
    slow = m3svm_by_adam(X, y, lam=0.05, p=4.0, loss=loss, learning_rate=0.02)
    overlap(slow, optimum, gap=1e-2)
    assert slow.trace[-1, 2] == pytest.approx(slow.certificate.upper)
    few = m3svm_by_adam(X, y, lam=0.05, p=4.0, loss=loss, epochs=4)
    overlap(few, optimum, gap=1.0)
    assert few.status == "iteration_limit"
    assert few.certificate.gap > slow.certificate.gap


@pytest.mark.parametrize("p", [1.5, 2.0])
def test_the_papers_bias_is_right_for_p_two_only(p):
    X, y = make_moons(80, noise=0.3, random_state=0)
    exact = sx.fast.psvm(X, y, C=1.0, p=p, kernel=sx.RBF(1.0), tol=1e-9)
    gaps = {r: certificate_with_bias(exact, X, y, r).gap for r in ("paper", "released")}
    assert gaps["released"] > 1e-7
    assert (gaps["paper"] < 1e-6) == (p == 2.0)


def test_rules_by_their_definition():
    X, y = gaussians()
    alpha = np.where(np.arange(y.size) % 2, 1.0, 1e-6)
    f = X[:, 0]
    assert bias_by_rule("paper", y, alpha, f) == np.mean((y - f)[1::2])
    assert bias_by_rule("released", y, alpha, f) == np.mean((y - np.sign(f))[1::2])
    assert bias_by_rule("paper", y, np.zeros(y.size), f) == 0.0
    with pytest.raises(sx.DataError, match="rule must be one of paper, released"):
        bias_by_rule("best", y, alpha, f)
