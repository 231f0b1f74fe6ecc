"""The generators: seeds, moments, shares, and the Bayes rules."""

import numpy as np
import pytest

from svmcvx.errors import DataError
from svmcvx.synthetic import label_noise_data, label_noise_rule, outlier_data, outlier_rule

N = 20000


def centroid(p, seed):
    d = outlier_rule(p, seed=seed).coef
    return 0.5 * d / np.linalg.norm(d)


def test_a_seed_determines_the_data_and_a_sample_number_draws_others():
    def data(seed, **sample):
        return outlier_data(50, 3, sigma=0.5, outliers="spread", seed=seed, **sample)

    (X, y), again = data(7), data(7)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    assert set(y) == {-1, 1}
    assert not np.array_equal(X, data(8)[0])
    assert not np.array_equal(X, data(7, sample=1)[0])


def test_without_outliers_the_classes_are_gaussian_around_centroids_one_unit_apart():
    X, y = outlier_data(N, 4, sigma=0.3, seed=1)
    chi = centroid(4, 1)
    assert (y == 1).mean() == pytest.approx(0.5, abs=0.02)
    for label in (-1, 1):
        np.testing.assert_allclose(X[y == label].mean(axis=0), label * chi, atol=0.02)
        np.testing.assert_allclose(np.cov(X[y == label].T), 0.09 * np.eye(4), atol=0.01)
    assert np.linalg.norm(2 * chi) == pytest.approx(1.0)


def test_clustered_outliers_are_a_tight_cluster_of_positive_labels_far_on_the_negative_side():
    X, y = outlier_data(N, 3, sigma=0.5, outliers="clustered", seed=2)
    chi = centroid(3, 2)
    far = np.linalg.norm(X + 10 * chi, axis=1) < 1.0
    assert far.mean() == pytest.approx(0.1, abs=0.01)
    assert (y[far] == 1).all()
    np.testing.assert_allclose(X[far].var(axis=0), 0.001 * 0.25, rtol=0.15)
    assert (y[~far] == 1).mean() == pytest.approx(0.5, abs=0.02)


def test_the_bayes_rule_is_the_best_for_clean_data():
    X, y = outlier_data(N, 2, sigma=0.5, seed=4)
    rule = outlier_rule(2, seed=4)
    best = (rule.predict(X) == y).mean()
    # Φ(1): the centroids are half a unit, one standard deviation, away from the plane.
    assert best == pytest.approx(0.8413, abs=0.01)
    for angle in (0.3, -0.3):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        assert (rule._replace(coef=turn @ rule.coef).predict(X) == y).mean() < best
    assert rule.intercept == 0
    assert (np.abs(rule.coef) <= 1).all()


@pytest.mark.parametrize("tau", [0.0, 0.1, 0.3])
def test_label_noise_flips_the_labels_of_a_hyperplane(tau):
    X, y = label_noise_data(N, 5, tau=tau, seed=5)
    rule = label_noise_rule(5, seed=5)
    assert (rule.predict(X) != y).mean() == pytest.approx(tau, abs=0.01)
    assert np.abs(X).max() <= 1
    np.testing.assert_allclose(X.var(axis=0), 1 / 3, atol=0.01)
    clean = label_noise_data(100, 5, tau=0.0, seed=5, sample=2)
    assert (rule.predict(clean[0]) == clean[1]).all()


def test_arguments_are_checked():
    cases = [
        (lambda: outlier_data(0, 2, sigma=1.0, seed=0), "n must be a whole number of at least 1"),
        (lambda: outlier_data(5, 2, sigma=0.0, seed=0), "sigma must be"),
        (lambda: outlier_data(5, 2, sigma=1.0, outliers="some", seed=0), "outliers must be one of"),
        (lambda: outlier_data(5, 2, sigma=1.0, seed=-1), "seed must be"),
        (lambda: label_noise_data(5, 2, tau=0.6, seed=0), "tau must be"),
    ]
    for call, text in cases:
        with pytest.raises(DataError, match=text):
            call()
