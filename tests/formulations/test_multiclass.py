"""The classical multi-class machines: statements, duals, certificates, identities, and
scikit-learn's answers.
"""

import warnings

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import scale

import svmcvx as sx
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

BUILDERS = {
    "weston_watkins": sx.weston_watkins,
    "crammer_singer": sx.crammer_singer,
    "msvm": sx.msvm,
    "topk_svm": sx.topk_svm,
    "multinomial_lr": sx.multinomial_lr,
    "sparse_multinomial_lr": sx.sparse_multinomial_lr,
}
builders = pytest.mark.parametrize("build", BUILDERS.values(), ids=BUILDERS)
LOSSES = [
    HingeSum(),
    SmoothedHingeSum(0.3),
    LogisticSum(),
    Softmax(),
    LargestHinge(),
    TopHinge(1),
    TopHinge(2),
    TopHinge(3),
    TopHinge(4),
]
losses = pytest.mark.parametrize(
    "loss", LOSSES, ids=lambda loss: f"{loss.name}{loss.parameters or ''}"
)


def clouds(seed=0, n=30, d=3, c=4, apart=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    return rng.standard_normal((n, d)) + apart * rng.standard_normal((c, d))[y], y


def solved(problem, **options):
    return sx.solve(problem, solver="clarabel", **options)


def model_of(statement, W, b):
    return statement.scores.model(W, b, np.full(W.shape[0], True)[:0])


def loop_objective(name, X, y, W, b, lam, k=2, weight=None):
    """The table of objectives in the module, written observation by observation."""
    total = 0.0
    classes = list(np.unique(y))
    for i, x in enumerate(X):
        s = [float(W[:, j] @ x + b[j]) for j in range(len(classes))]
        own = classes.index(y[i])
        margins = [1 - s[own] + s[j] for j in range(len(classes)) if j != own]
        if name in ("weston_watkins", "msvm"):
            loss = sum(max(0.0, m) for m in margins)
        elif name == "crammer_singer":
            loss = max(0.0, *margins)
        elif name == "topk_svm":
            loss = max(0.0, sum(sorted([*margins, 0.0])[-k:]) / k)
        else:
            loss = -np.log(np.exp(s[own]) / sum(np.exp(s)))
        total += loss if weight is None else weight[i] * loss
    if name == "sparse_multinomial_lr":
        return total + lam * sum(abs(w) for w in W.ravel())
    squares = sum(float(w @ w) for w in W.T)
    if name != "msvm":
        return total + lam * squares
    pairs = sum(
        float((W[:, p] - W[:, q]) @ (W[:, p] - W[:, q]))
        for p in range(W.shape[1])
        for q in range(p)
    )
    return total + lam * (pairs + squares) / 2


@losses
@given(seed=st.integers(0, 10**6))
def test_a_conjugate_is_that_of_its_loss(loss, seed):
    rng = np.random.default_rng(seed)
    f, other = rng.normal(0.5, 2.0, (2, 6, 3))
    a = loss.multipliers(f)
    assert loss.domain_violation(a) == 0
    np.testing.assert_allclose(
        loss.value(f), loss.conjugate(a, np.ones(len(a))) - (a * f).sum(axis=1), atol=1e-12
    )
    inside = loss.project(rng.normal(0.3, 0.5, (6, 3)))
    assert loss.domain_violation(inside) == 0
    np.testing.assert_allclose(loss.project(inside), inside, rtol=1e-14)
    assert (
        loss.value(other)
        >= loss.conjugate(inside, np.ones(len(inside))) - (inside * other).sum(axis=1) - 1e-12
    ).all()


@pytest.mark.parametrize(
    "loss", [loss for loss in LOSSES if loss.smooth], ids=lambda loss: loss.name
)
def test_derivatives_of_the_smooth_losses(loss):
    f = np.random.default_rng(0).normal(0.5, 1.5, (5, 3))
    h = 1e-6
    for k in range(3):
        step = h * np.eye(3)[k]
        slope = (loss.value(f + step) - loss.value(f - step)) / (2 * h)
        np.testing.assert_allclose(-loss.multipliers(f)[:, k], slope, atol=1e-8)
        bend = -(loss.multipliers(f + step) - loss.multipliers(f - step)) / (2 * h)
        np.testing.assert_allclose(loss.curvature(f)[:, :, k], bend, atol=1e-7)


@losses
@given(seed=st.integers(0, 10**6))
def test_moves_of_multipliers_stay_in_the_domain_and_go_where_they_should(loss, seed):
    rng = np.random.default_rng(seed)
    a, z = loss.project(rng.uniform(-0.2, 0.6, (5, 3))), rng.uniform(-0.5, 0.5, (5, 3))
    move = loss.feasible_move(a, z)
    assert (move * z).sum() >= -1e-15
    assert not move[a == 0].any()
    np.testing.assert_allclose(loss.feasible_move(a, 2 * z), 2 * move)
    if not isinstance(loss, TopHinge):
        assert loss.domain_violation(a + move) <= 1e-15


def test_the_top_hinge_projects_onto_its_domain_as_a_linear_program_says():
    rng = np.random.default_rng(0)
    for k in (2, 3, 4):
        f = rng.normal(0.5, 2.0, (8, 3))
        a = cp.Variable((8, 3))
        total = cp.sum(a, axis=1, keepdims=True) @ np.ones((1, 3))
        domain = [a >= 0, a <= 1 / k, cp.sum(a, axis=1) <= 1, (k - 1) * a <= total]
        best = cp.Problem(cp.Maximize(cp.sum(a) - cp.sum(cp.multiply(a, f))), domain).solve(
            solver="CLARABEL"
        )
        assert TopHinge(k).value(f).sum() == pytest.approx(best, rel=1e-6)


def test_balancing_leaves_no_multiplier_out():
    """Multipliers at their bounds, where classes have different sizes: a share of each stays."""
    y = np.repeat([0, 1, 2], [7, 3, 2])
    scores = ScoreSpace(multiclass_data(np.ones((12, 1)), y), "free")
    alpha = scores.balanced(np.ones((12, 2)), HingeSum())
    assert scores.imbalance(alpha) == 0
    assert alpha.min() > 0.2


def test_balancing_changes_little_where_little_is_missing():
    X, y = clouds(1, n=60)
    scores = ScoreSpace(multiclass_data(X, y), "free")
    rng = np.random.default_rng(1)
    exact = scores.balanced(rng.choice([0.0, 0.3, 1.0], (60, 3)), HingeSum())
    off = np.clip(exact + 1e-8 * rng.standard_normal(exact.shape), 0, 1)
    assert np.abs(scores.balanced(off, HingeSum()) - exact).max() < 1e-6


def test_sparse_multinomial_lr_is_that_of_scikit_learn_and_sparse():
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # l1_ratio alone says it all from scikit-learn 1.8 on.
        penalty = {} if LogisticRegression().penalty == "deprecated" else {"penalty": "elasticnet"}
        reference = LogisticRegression(
            C=0.2, l1_ratio=1.0, solver="saga", tol=1e-8, max_iter=20_000, **penalty
        ).fit(X, y)
    solution = solved(sx.sparse_multinomial_lr(X, y, lam=5.0))
    theirs = loop_objective(
        "sparse_multinomial_lr", X, y, reference.coef_.T, reference.intercept_, 5.0
    )
    assert solution.certificate.lower <= theirs
    assert theirs == pytest.approx(solution.certificate.upper, rel=1e-6)
    np.testing.assert_array_equal(solution.model.coef == 0, np.abs(reference.coef_.T) < 1e-6)
    assert (solution.model.coef == 0).any()


def test_biases_are_polished_where_weights_vanish():
    """With so large a weight of the squares the probabilities are the shares of the classes."""
    y = np.repeat([0, 1, 2], [7, 3, 2])
    statement = sx.multinomial_lr(np.linspace(-1.0, 1.0, 12)[:, None], y, lam=1e13).formulation
    _, b = statement.polished(np.zeros((1, 3)), np.zeros(3))
    np.testing.assert_allclose(b - b[0], np.log([1.0, 3 / 7, 2 / 7]), rtol=1e-9)


@pytest.mark.parametrize("build", [sx.weston_watkins, sx.crammer_singer])
def test_two_classes_are_the_psvm(build):
    X, y = clouds(4, c=2)
    lam = 0.4
    multi = solved(build(X, y, lam=lam)).certificate
    binary = solved(sx.psvm_dual(X, y, C=1 / lam, p=1)).certificate
    assert multi.upper == pytest.approx(lam * binary.upper, rel=1e-6)


def test_msvm_is_weston_watkins_at_another_weight():
    X, y = clouds(5)
    first = solved(sx.msvm(X, y, lam=0.7)).certificate
    second = solved(sx.weston_watkins(X, y, lam=0.7 * 5 / 2)).certificate
    assert first.upper == pytest.approx(second.upper, rel=1e-7)


def test_top_one_is_crammer_singer_and_the_top_decreases():
    X, y = clouds(6)
    uppers = [solved(sx.topk_svm(X, y, lam=0.5, k=k)).certificate.upper for k in (1, 2, 3, 4)]
    assert uppers[0] == pytest.approx(
        solved(sx.crammer_singer(X, y, lam=0.5)).certificate.upper, rel=1e-7
    )
    assert (np.diff(uppers) < 0).all()


@builders
def test_weights_of_an_optimum_sum_to_zero(build):
    X, y = clouds(7)
    model = solved(build(X, y, lam=0.5)).model
    if build is not sx.sparse_multinomial_lr:
        np.testing.assert_allclose(model.coef.sum(axis=1), 0, atol=1e-12)
    assert model.intercept.shape == (4,)


def test_a_model_with_an_intercept_is_infeasible_without_one():
    X, y = clouds()
    statement = sx.weston_watkins(X, y, lam=1.0, intercept=False).formulation
    assert statement.evaluate(model_of(statement, np.zeros((3, 4)), np.arange(4.0))).value == np.inf
    assert statement.evaluate(model_of(statement, np.zeros((3, 4)), np.ones(4))).value == 90.0


def test_errors_say_what_was_wrong():
    X, y = clouds()
    with pytest.raises(sx.DataError, match=r"lam must be a finite number in \(0, inf\), got 0"):
        sx.weston_watkins(X, y, lam=0)
    with pytest.raises(sx.DataError, match="k must be at most the number of classes, 4, got 5"):
        sx.topk_svm(X, y, lam=1.0, k=5)
    with pytest.raises(
        sx.DataError, match="k must be a whole number from 1 to the number of classes, got True"
    ):
        sx.topk_svm(X, y, lam=1.0, k=True)
    with pytest.raises(
        sx.DataError, match=r"intercept must be 'free', 'none', .* got 'penalised'; this"
    ):
        sx.crammer_singer(X, y, lam=1.0, intercept="penalised")
    with pytest.raises(sx.DataError, match="y holds one class only"):
        sx.msvm(X, np.zeros(30))
    statement = sx.msvm(X, y).formulation
    with pytest.raises(
        sx.DataError, match=r"alpha of msvm must have one multiplier .* expected shape \(30, 4\)"
    ):
        statement.repair({"alpha": np.zeros(30)})
    with pytest.raises(
        sx.DataError, match="the dual point of msvm needs the entry 'alpha', got beta"
    ):
        statement.repair({"beta": np.zeros(30)})


def test_two_classes_have_one_score_as_in_scikit_learn():
    X, y = clouds(13, c=2)
    face = sx.MulticlassSVMClassifier(solver="clarabel").fit(X, y)
    score = face.decision_function(X)
    assert score.shape == (30,)
    assert face.coef_.shape == (1, 3)
    np.testing.assert_allclose(X @ face.coef_[0] + face.intercept_[0], score)
    np.testing.assert_array_equal(face.predict(X), (score > 0).astype(int))


def test_the_hard_margin_costs_nothing_where_it_is_kept():
    assert Margin().value(np.array([[1.0, 2.0], [0.5, 3.0]])).tolist() == [0.0, np.inf]
