"""Lemmas and theorems of the papers that are identities or closed forms, at random points; those
that the solvers rest on are tested with them.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

import svmcvx as sx
from svmcvx.synthetic import outlier_data
from tests.conftest import make_data

SEEDS = st.integers(0, 10_000)


@given(SEEDS)
def test_the_gradients_of_two_random_rows_are_unbiased(seed):
    """Theorem 1 of [ZhangZhou], by the sum over all pairs of rows; the gradients of (21) and (22)
    by differences.
    """
    rng = np.random.default_rng(seed)
    m, d, lam1, lam2, C, C1, C2, D = 6, 3, 0.7, 0.4, 2.0, 1.5, 3.0, 0.2
    X, w, y = rng.normal(size=(m, d)), rng.normal(size=d), rng.choice([-1.0, 1.0], size=m)

    def odml(w):
        u = y * (X @ w)
        return (
            0.5 * w @ w
            + lam1 * (np.mean(u**2) - np.mean(u) ** 2)
            - lam2 * u.mean()
            + C * np.maximum(1 - u, 0).mean()
        )

    def odm(w):
        u = y * (X @ w)
        below, above = np.maximum(1 - D - u, 0), np.maximum(u - 1 - D, 0)
        return 0.5 * w @ w + C1 * np.mean(below**2) + C2 * np.mean(above**2)

    def difference(f):
        steps = 1e-6 * np.eye(d)
        return np.array([(f(w + step) - f(w - step)) / 2e-6 for step in steps])

    def of_pair(i, j):
        one = (
            w
            + 2 * lam1 * X[i] * (X[i] @ w)
            - 2 * lam1 * y[i] * y[j] * X[i] * (X[j] @ w)
            - lam2 * y[i] * X[i]
        )
        return one - C * y[i] * X[i] * (y[i] * (X[i] @ w) < 1)

    def of_row(i):
        u = y[i] * (X[i] @ w)
        return w + 2 * y[i] * X[i] * (
            C1 * (u + D - 1) * (u < 1 - D) + C2 * (u - D - 1) * (u > 1 + D)
        )

    pairs = np.mean([of_pair(i, j) for i in range(m) for j in range(m)], axis=0)
    np.testing.assert_allclose(pairs, difference(odml), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        np.mean([of_row(i) for i in range(m)], axis=0), difference(odm), rtol=1e-5, atol=1e-6
    )


@given(SEEDS)
def test_the_inverse_of_odml(seed):
    """Lemma 1 of [ZhangZhou]."""
    rng = np.random.default_rng(seed)
    X, root = rng.normal(size=(4, 3)), rng.normal(size=(3, 3))
    A = root @ root.T + np.eye(3)
    left = np.linalg.inv(np.eye(4) + X @ A @ X.T)
    np.testing.assert_allclose(
        left, np.eye(4) - X @ np.linalg.inv(np.linalg.inv(A) + X.T @ X) @ X.T, atol=1e-9
    )


@given(st.floats(-3, 3), st.floats(-3, 3), st.floats(0.05, 0.95))
def test_the_convex_hull_of_one_indicator(w, b, z):
    """Lemma 1 of [CepedaGomezHan]: the least (1 - z) w0² + z w1² with w0 >= b >= w1 and the mean
    w.
    """
    closed = max(w - b, 0) ** 2 / (1 - z) + min(w - b, 0) ** 2 / z + 2 * b * w - b**2

    def of(w1):
        w0 = (w - z * w1) / (1 - z)
        return (1 - z) * w0**2 + z * w1**2

    # w0 >= b says w1 <= (w - (1 - z) b)/z.
    end = min(b, (w - (1 - z) * b) / z)
    least = min(
        of(end),
        minimize_scalar(
            of, bounds=(end - 100, end), method="bounded", options={"xatol": 1e-10}
        ).fun,
    )
    assert closed == pytest.approx(least, rel=1e-6, abs=1e-6)


@given(SEEDS)
def test_the_convex_hull_of_one_observation_is_below_and_touches(seed):
    """Theorem 1 of [CepedaGomezHan]: a convex function, equal to w'Qw at points that the indicator
    allows.
    """
    rng = np.random.default_rng(seed)
    root, x, y = rng.normal(size=(3, 3)), rng.normal(size=3), rng.choice([-1.0, 1.0])
    Q = root @ root.T + 0.1 * np.eye(3)
    gamma = 1.0 / (x @ np.linalg.solve(Q, x))

    def hull(w, z):
        slack = 1 - y * (x @ w)
        rest = w @ Q @ w - gamma * slack**2
        parts = [(max(slack, 0), z), (min(slack, 0), 1 - z)]
        return rest + gamma * sum(part**2 / share for part, share in parts if part)

    points = [(w, float(1 - y * (x @ w) > 0)) for w in rng.normal(size=(6, 3)) * 3]
    for w, z in points:
        assert hull(w, z) == pytest.approx(w @ Q @ w, rel=1e-9, abs=1e-9)
    share = rng.dirichlet(np.ones(6))
    mean_w, mean_z = (
        sum(s * w for s, (w, _) in zip(share, points, strict=True)),
        share @ [z for _, z in points],
    )
    above = sum(s * (w @ Q @ w) for s, (w, _) in zip(share, points, strict=True))
    assert hull(mean_w, mean_z) <= above * (1 + 1e-9) + 1e-9
    # γ is the largest: a larger one leaves a quadratic form that is not convex.
    assert np.linalg.eigvalsh(Q - gamma * np.outer(x, x)).min() >= -1e-9 * np.abs(Q).max()
    assert np.linalg.eigvalsh(Q - 1.01 * gamma * np.outer(x, x)).min() < 0


@given(SEEDS, st.integers(2, 5))
def test_identities_of_pairs_of_classes(seed, classes):
    """Theorems 3 and 7, Lemmas 3 and 5 of [NieHaoWang]."""
    rng = np.random.default_rng(seed)
    W, scores = rng.normal(size=(3, classes)), 2 * rng.normal(size=(7, classes))
    rows = list(zip(scores, rng.integers(0, classes, 7), strict=True))
    pairs = list(itertools.combinations(range(classes), 2))
    # Pairs of normals are distances from their mean.
    lengths = sum(np.sum((W[:, k] - W[:, j]) ** 2) for k, j in pairs)
    mean = W.mean(axis=1, keepdims=True)
    assert lengths == pytest.approx(classes * np.sum((W - mean) ** 2))
    # Losses of pairs are losses against the own class, for the hinge and for the logistic loss.
    for loss in (lambda u: np.maximum(1 - u, 0), lambda u: np.logaddexp(0, -u)):
        of_pairs = sum(
            loss((1 if own == k else -1) * (f[k] - f[j]))
            for k, j in pairs
            for f, own in rows
            if own in (k, j)
        )
        assert of_pairs == pytest.approx(
            sum(loss(f[own] - np.delete(f, own)).sum() for f, own in rows)
        )
    # Softmax by differences of scores.
    for f, own in rows:
        by_differences = np.log1p(np.exp(np.delete(f, own) - f[own]).sum())
        assert by_differences == pytest.approx(-log_softmax(f)[own])


@given(st.floats(-50, 50), st.floats(1e-6, 10))
def test_the_smooth_hinge_is_at_most_half_of_delta_above(x, delta):
    """Lemma 2 of [NieHaoWang], for g(x) = (x + √(x² + δ²))/2."""
    above = 0.5 * (x + np.hypot(x, delta)) - max(x, 0.0)
    assert -1e-12 <= above <= 0.5 * delta + 1e-12


@given(SEEDS)
def test_intercepts_of_a_bounded_logistic_loss_are_an_interval(seed):
    """Lemma 4 of [NieHaoWang], with w'x in place of its (28), which is another function of b."""
    rng = np.random.default_rng(seed)
    scores, y = rng.normal(size=7), np.array([1.0, -1.0, *rng.choice([-1.0, 1.0], 5)])
    b = np.linspace(-40, 40, 1601)
    loss = np.logaddexp(0, -y * (scores + b[:, None])).sum(axis=1)
    printed = np.logaddexp(0, -y * b[:, None]).sum(axis=1)
    inside = np.flatnonzero(loss <= rng.uniform(loss.min(), 30))
    assert inside[-1] - inside[0] == inside.size - 1
    assert set(inside).isdisjoint((0, b.size - 1))
    assert np.abs(loss - printed).max() > 1e-3


def test_the_norms_of_m3svm_at_p_two_are_a_ridge():
    """Theorems 2 and 5 of [NieHaoWang]: at p = 2 the columns of W add up to 0, and the pairs are c
    times the squared norm.
    """
    X, _ = make_data(n=60, overlap=1.5)
    y = np.repeat([0, 1, 2], 20)
    X = X + 1.5 * np.outer(y, [1.0, -0.5, 0.2])
    lam, eps = 0.05, 1e-3
    found = sx.fast.m3svm(X, y, lam=lam, p=2.0, eps=eps, tol=1e-9)
    W, b = found.model.coef, found.model.intercept
    np.testing.assert_allclose(W.sum(axis=1), 0.0, atol=1e-4 * np.abs(W).max())
    scores = X @ W + b
    losses = sum(
        np.maximum(1 - scores[i, own] + scores[i, k], 0)
        for i, own in enumerate(y)
        for k in range(3)
        if k != own
    )
    pairs = sum(np.sum((W[:, k] - W[:, j]) ** 2) for k in range(3) for j in range(k + 1, 3))
    ridge = 3 * np.sum(W**2)
    assert pairs == pytest.approx(ridge, rel=1e-6)
    small = eps * (np.sum(W**2) + np.sum(b**2))
    assert found.certificate.upper == pytest.approx(losses + lam * ridge + small, rel=1e-6)


def test_the_hinge_breaks_down_with_clustered_outliers_as_written():
    """Table 1 of [CepedaGomezHan] prints an error of 3.9 %: with 500 rows it is near 50 % in each
    of 20 samples, whatever λ is chosen.
    """
    n, beta = 500, np.arange(0.05, 1.0, 0.1)
    costs = (beta / (1 - beta) * n / 2).tolist()
    errors = []
    for seed in range(20):
        X, y = outlier_data(n, 3, sigma=0.2, outliers="clustered", seed=seed)
        T, labels = outlier_data(20_000, 3, sigma=0.2, seed=seed, sample=2)
        path = sx.fast.path("odml", X, y, C=costs, lam1=0.0, lam2=0.0, intercept=True)
        # The best λ by the test rows themselves.
        errors.append(
            min(
                np.mean((T @ one.model.coef + one.model.intercept > 0) != (labels > 0))
                for one in path
            )
        )
    assert min(errors) > 0.3
    low, high = stats.t.interval(0.95, 19, np.mean(errors), stats.sem(errors))
    assert 0.49 < low < high < 0.51
