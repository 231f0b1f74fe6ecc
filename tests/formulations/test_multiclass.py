"""Machines of several classes: losses, identities, hard margins, and scikit-learn's answers."""

import math

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.data import multiclass_data
from svmcvx.formulations.multiclass.losses import (
    HingeSum,
    LargestHinge,
    LogisticSum,
    SmoothedHingeSum,
    Softmax,
    TopHinge,
)
from svmcvx.formulations.multiclass.statement import ScoreSpace

LOSSES = [
    HingeSum(),
    SmoothedHingeSum(0.3),
    LogisticSum(),
    Softmax(),
    LargestHinge(),
    TopHinge(2),
    TopHinge(4),
]
losses = pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda loss: f"{loss.name}{loss.parameters or ''}"
)


def clouds(seed=0, n=30, d=3, c=4):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    return rng.standard_normal((n, d)) + rng.standard_normal((c, d))[y], y


def separable(seed=0, n=40):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    centres = np.array([[0, 0, 0], [9, 0, 0], [0, 12, 0], [0, 0, 15]])
    return rng.standard_normal((n, 3)) + centres[y], y


def solved(problem, **options):
    return sx.solve(problem, solver="clarabel", **options)


def value_of(problem):
    return solved(problem).certificate.upper


# Losses


@losses
@given(seed=st.integers(0, 10**6))
def test_a_conjugate_is_that_of_its_loss(loss, seed):
    rng = np.random.default_rng(seed)
    f, other = rng.normal(0.5, 2.0, (2, 6, 3))
    a, s = loss.multipliers(f), np.ones(6)
    assert loss.domain.violation(a, s) == 0
    attained = loss.conjugate(a, s) - (a * f).sum(axis=1)
    np.testing.assert_allclose(loss.value(f), attained, atol=1e-12)
    inside = loss.domain.project(rng.normal(0.3, 0.5, (6, 3)), s)
    assert loss.domain.violation(inside, s) == 0
    np.testing.assert_allclose(loss.domain.project(inside, s), inside, rtol=1e-14)
    below = loss.conjugate(inside, s) - (inside * other).sum(axis=1)
    assert (loss.value(other) >= below - 1e-12).all()


def test_balancing_leaves_no_multiplier_out_and_changes_little_where_little_is_missing():
    y = np.repeat([0, 1, 2], [7, 3, 2])
    scores = ScoreSpace(multiclass_data(np.ones((12, 1)), y), "free")
    alpha = scores.balanced(np.ones((12, 2)), HingeSum().domain)
    assert scores.imbalance(alpha) == 0
    assert alpha.min() > 0.2
    scores = ScoreSpace(multiclass_data(*clouds(1, n=60)), "free")
    rng = np.random.default_rng(1)
    balanced = scores.balanced(rng.choice([0.0, 0.3, 1.0], (60, 3)), HingeSum().domain)
    off = np.clip(balanced + 1e-8 * rng.standard_normal(balanced.shape), 0, 1)
    assert np.abs(scores.balanced(off, HingeSum().domain) - balanced).max() < 1e-6


# The machines among each other, and elsewhere


def test_two_classes_are_binary_machines():
    X, y = clouds(4, c=2)
    binary = value_of(sx.psvm_dual(X, y, C=1 / 0.4, p=1))
    for build in (sx.weston_watkins, sx.crammer_singer):
        assert value_of(build(X, y, lam=0.4)) == pytest.approx(0.4 * binary, rel=1e-6)
    signs, w, b = np.where(y == 0, 1.0, -1.0), cp.Variable(3), cp.Variable()
    for p in (1, 2, 3):
        hinges = cp.sum(cp.pos(1 - cp.multiply(signs, X @ w + b)))
        ridge = 0.5 * 1e-3 * (cp.sum_squares(w) + b**2)
        own = cp.Problem(cp.Minimize(hinges + 0.2 * cp.norm(w) ** p + ridge))
        found = value_of(sx.m3svm(X, y, lam=0.2, p=p, eps=1e-3))
        assert found == pytest.approx(own.solve(solver="CLARABEL"), rel=1e-6)


def test_machines_that_are_the_same_at_other_parameters():
    X, y = clouds(5)
    pairs = [
        (sx.msvm(X, y, lam=0.7), sx.weston_watkins(X, y, lam=0.7 * 5 / 2)),
        (sx.topk_svm(X, y, lam=0.5, k=1), sx.crammer_singer(X, y, lam=0.5)),
        # As ε vanishes.
        (sx.m3svm(X, y, lam=0.3, p=2, eps=1e-8), sx.weston_watkins(X, y, lam=4 * 0.3)),
        (sx.m3svm(X, y, lam=5 / 8, p=2, eps=1e-8), sx.msvm(X, y)),
        (
            sx.m3svm(X, y, lam=0.3, p=2, eps=1e-8, loss="softmax"),
            sx.multinomial_lr(X, y, lam=4 * 0.3),
        ),
    ]
    for one, other in pairs:
        found = solved(one)
        assert found.certificate.upper == pytest.approx(value_of(other), rel=1e-6)
        # Weights of an optimum sum to zero.
        np.testing.assert_allclose(found.model.coef.sum(axis=1), 0, atol=1e-6)
    uppers = [value_of(sx.topk_svm(X, y, lam=0.5, k=k)) for k in (1, 2, 3, 4)]
    assert (np.diff(uppers) < 0).all()
    hinge = value_of(sx.m3svm(X, y, lam=0.1, p=4))
    for delta in (0.1, 1e-3):
        smoothed = value_of(sx.m3svm(X, y, lam=0.1, p=4, loss="smoothed", delta=delta))
        assert hinge < smoothed <= hinge + 30 * 3 * delta / 2 + 1e-6


def test_a_common_feature_offset_is_another_problem_as_documented():
    X, y = clouds(14)
    plain = value_of(sx.m3svm(X, y, lam=0.1, p=4, eps=1e-2))
    shifted = solved(sx.m3svm(X + 100.0, y, lam=0.1, p=4, eps=1e-2)).certificate
    assert shifted.is_certified(1e-6)
    assert shifted.upper > plain * (1 + 1e-4)


def test_a_model_with_an_intercept_is_infeasible_without_one():
    X, y = clouds()
    statement = sx.weston_watkins(X, y, lam=1.0, intercept=False).formulation
    for b, value in ((np.arange(4.0), np.inf), (np.ones(4), 90.0)):
        model = statement.scores.model(np.zeros((3, 4)), b, np.zeros(30, dtype=bool))
        assert statement.evaluate(model).value == value


def test_two_classes_have_one_score_as_in_scikit_learn():
    X, y = clouds(13, c=2)
    face = sx.MulticlassSVMClassifier(solver="clarabel").fit(X, y)
    score = face.decision_function(X)
    assert score.shape == (30,)
    assert face.coef_.shape == (1, 3)
    np.testing.assert_allclose(X @ face.coef_[0] + face.intercept_[0], score)
    np.testing.assert_array_equal(face.predict(X), (score > 0).astype(int))


# Hard margins


@pytest.mark.parametrize(
    ("p", "norm"),
    [(1.0, 2), (1.5, 2), (3.0, 1), (48.0, 2), (200.0, 1), (math.inf, 1), (math.inf, 2)],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_hard_margins_of_any_exponent_are_certified(p, norm):
    """By the root of the sum of powers, held against cvxpy's own p-norm."""
    X = 0.5 * np.random.default_rng(5).standard_normal((40, 6))
    y = np.arange(40) % 4
    X = X + 2.0 * np.eye(6)[y]
    problem = sx.m3svm_hard_margin(X, y, p=p, norm=norm)
    certificate = sx.solve(problem, tol=1e-6).certificate
    assert certificate.gap <= 1e-6
    W, b = cp.Variable((6, 4)), cp.Variable(4)
    margins = [
        (X[y == k] @ (W[:, k] - W[:, j]) + b[k] - b[j]) >= 1
        for k in range(4)
        for j in range(4)
        if j != k
    ]
    sizes = [cp.norm(W[:, k] - W[:, j], norm) for k in range(4) for j in range(k + 1, 4)]
    own = cp.Problem(cp.Minimize(cp.pnorm(cp.hstack(sizes), p)), margins)
    own.solve(solver="CLARABEL")
    power = 1.0 if p == math.inf else p
    assert certificate.upper ** (1 / power) == pytest.approx(own.value, rel=1e-5)


def test_limits_of_the_hard_margin():
    X, y = separable(2)
    longest = value_of(sx.m3svm_hard_margin(X, y, p=math.inf))
    previous = math.inf
    for p in (1.5, 2, 4, 16):
        hard = value_of(sx.m3svm_hard_margin(X, y, p=p))
        # Of small λ.
        soft = value_of(sx.m3svm(X, y, lam=1e-4, p=p, eps=1e-12)) if p <= 4 else 1e-4 * hard
        assert soft / 1e-4 == pytest.approx(hard, rel=1e-4)
        # The p-norm of the six lengths tends to their maximum from above.
        assert longest * (1 - 1e-6) <= hard ** (1 / p) < previous
        previous = hard ** (1 / p)
    assert previous < longest * 6 ** (1 / 16)
    two = y < 2
    reference = value_of(sx.hard_margin_dual(X[two], y[two]))
    squares = value_of(sx.m3svm_hard_margin(X[two], y[two], p=2))
    assert squares == pytest.approx(2 * reference, rel=1e-6)


# Errors


def test_errors_say_what_was_wrong():
    X, y = clouds()
    for build, arguments, why in (
        (sx.topk_svm, {"k": 5}, "k must be at most the number of classes, 4, got 5"),
        (sx.topk_svm, {"k": True}, "k must be a whole number of at least 1, got True"),
        (sx.fast.multiclass, {"k": 1.5}, "k must be a whole number of at least 1, got 1.5"),
        (sx.crammer_singer, {"intercept": "penalised"}, "intercept must be 'free', 'none', .*this"),
        (sx.fast.multiclass, {"loss": "hinge"}, "loss must be one of 'weston_watkins', .*'hinge'"),
        (sx.m3svm, {"p": 0.5}, r"p must be .* in \[1, inf\), got 0.5; p < 1 is not convex"),
        (sx.fast.m3svm, {"p": math.inf}, r"p must be a finite number in \[1, inf\), got inf"),
        (sx.m3svm_hard_margin, {"p": 0.9}, "p < 1 is not convex"),
        (sx.m3svm, {"eps": 0}, "eps must be .* got 0; the certificate divides by it"),
        (sx.m3svm, {"loss": "log"}, "loss must be one of 'hinge', 'smoothed', .*, got 'log'"),
        (sx.m3svm, {"norm": 3}, r"norm must be 2 \(Euclidean\) or 1 \(sum of absolute values\)"),
        (sx.m3svm, {"loss": "smoothed", "delta": -1}, "delta must be a finite number"),
    ):
        with pytest.raises(sx.DataError, match=why):
            build(X, y, **arguments)
    with pytest.raises(sx.SolverFailed, match="some two classes are not separable"):
        solved(sx.m3svm_hard_margin(X, y, p=2))
