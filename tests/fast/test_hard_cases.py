"""Kernel machines with costs, columns and matrices that have broken solvers."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.preprocessing import scale

import svmcvx as sx
from svmcvx.errors import DataError

RNG = np.random.default_rng(0)
BLOBS, SIDES = make_blobs(50, centers=2, random_state=0, cluster_std=0.6)
Z = RNG.standard_normal((60, 5)).astype(np.float32)
LABELS = np.where(Z[:, 0] > 0, 1, -1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1e10, 1e15, 1e20])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_a_huge_cost_is_a_hard_margin(kernel, C, p):
    solution = sx.fast.psvm(BLOBS, SIDES, C=C, p=p, kernel=kernel)
    hard = sx.fast.hard_margin(BLOBS, SIDES, kernel=kernel).certificate
    assert solution.certificate.is_certified(1e-6)
    assert solution.certificate.lower <= hard.upper
    assert solution.certificate.upper == pytest.approx(hard.upper, rel=2e-6)


@pytest.mark.parametrize("C", [1e6, 1e8, 1e10, 1e12])
def test_a_huge_cost_on_columns_that_nearly_touch(C):
    data = load_breast_cancer()
    solution = sx.fast.psvm(scale(data.data), data.target, C=C, kernel="linear")
    assert solution.status is sx.solution.Status.OPTIMAL
    assert solution.certificate.is_certified(1e-6)
    assert solution.certificate.upper == pytest.approx(
        sx.fast.psvm(scale(data.data), data.target, C=C).certificate.upper, rel=2e-6
    )


def test_a_class_with_a_huge_weight():
    weight = np.where(SIDES == 1, 1e10, 1.0)
    found = sx.fast.psvm(BLOBS, SIDES, kernel="rbf", sample_weight=weight)
    assert found.certificate.is_certified(1e-6)


def unscaled(n=200):
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(0, 1, (n, 5)), rng.normal(0, 1e5, n)]
    return X, np.where(X[:, 0] + rng.normal(0, 1, n) > 0, 1, -1)


@pytest.mark.parametrize("arguments", [{}, {"p": 1.5}, {"p": 2.0}, {"intercept": "penalised"}])
def test_a_linear_kernel_of_unscaled_columns(arguments):
    X, y = unscaled()
    plain = sx.fast.psvm(X, y, C=1000.0, **arguments)
    kernel = sx.fast.psvm(X, y, C=1000.0, kernel="linear", **arguments)
    assert kernel.certificate.is_certified(1e-6)
    assert kernel.certificate.lower <= plain.certificate.upper
    assert plain.certificate.lower <= kernel.certificate.upper


@pytest.mark.parametrize("solver", [sx.fast.odm, sx.fast.odml])
def test_a_linear_kernel_of_unscaled_columns_in_margin_distributions(solver):
    X, y = unscaled()
    assert solver(X, y, kernel="linear").certificate.is_certified(1e-6)


def test_unscaled_columns_of_several_classes_have_coefficients():
    X, y = unscaled()
    y = np.where(X[:, 1] > 0.7, 2, y)
    model = sx.PSVMClassifier(kernel="linear", C=1000.0).fit(X, y)
    assert model.certificate_.is_certified(1e-6)
    assert model.coef_.shape == (3, 6)
    assert model.dual_coef_.shape[0] == 3


@pytest.mark.parametrize("intercept", ["penalised", "none"])
@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0])
def test_a_kernel_without_a_free_intercept_on_many_rows(intercept, p):
    X = np.random.default_rng(0).standard_normal((2500, 6))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    solution = sx.fast.psvm(X, y, p=p, kernel="rbf", intercept=intercept, tol=1e-5)
    assert solution.certificate.is_certified(1e-5)
    assert np.mean(solution.model.predict(X) == y) > 0.9


def test_entries_that_are_all_rounding_leave_a_model_that_separates():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), np.where(rng.random(60) < 0.5, -1, 1)
    for degree in (10, 25, 50):
        kernel = sx.Polynomial(degree=degree, gamma=0.2, coef0=1.0)
        solution = sx.fast.psvm(X, y, C=1000.0, kernel=kernel)
        assert solution.certificate.lower <= solution.certificate.upper
        assert np.mean(solution.model.predict(X) == y) == 1.0


@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
def test_a_gram_matrix_in_single_precision(intercept):
    K = Z @ Z.T
    single = sx.fast.psvm(K, LABELS, kernel="precomputed", intercept=intercept)
    double = sx.fast.psvm(Z.astype(float), LABELS, kernel="linear", intercept=intercept)
    assert single.certificate.is_certified(1e-6)
    assert single.certificate.upper == pytest.approx(double.certificate.upper, rel=1e-5)
    assert 0.0 < single.certificate.residuals["clipped_mass"] < 1e-6
    with pytest.raises(DataError, match="clipped"):
        single.proof(K, LABELS)


def test_rounding_that_depends_on_the_order_is_stated_as_the_mean():
    K = Z @ Z.T
    K[3, 7] *= 1 + 2e-6
    mean = 0.5 * (K.astype(float) + K.astype(float).T)
    one = sx.fast.psvm(K, LABELS, kernel="precomputed", tol=1e-9)
    other = sx.fast.psvm(mean, LABELS, kernel="precomputed", tol=1e-9, indefinite="clip")
    assert one.certificate.lower <= other.certificate.upper
    assert other.certificate.lower <= one.certificate.upper


@pytest.mark.parametrize("solver", [sx.fast.odm, sx.fast.odml, sx.fast.hard_margin])
def test_a_function_in_single_precision(solver):
    def kernel(A, B):
        return A.astype(np.float32) @ B.astype(np.float32).T

    assert solver(Z.astype(float), LABELS, kernel=kernel).certificate.is_certified(1e-6)


def test_an_asymmetric_matrix_shows_all_digits():
    K = Z.astype(float) @ Z.T.astype(float) + np.eye(60)
    K[0, 2] += 1e-6
    with pytest.raises(DataError, match="not symmetric") as raised:
        sx.fast.psvm(K, LABELS, kernel="precomputed")
    assert repr(float(K[0, 2])) in str(raised.value)
    assert repr(float(K[2, 0])) in str(raised.value)


@pytest.mark.parametrize(
    "solve",
    [
        lambda K, y: sx.fast.psvm(K, y, kernel="precomputed", intercept="penalised"),
        lambda K, y: sx.fast.odm(K, y, kernel="precomputed", intercept="penalised"),
        lambda K, y: sx.fast.conic(K, y, lam=1.0, kernel="precomputed"),
        lambda K, y: sx.fast.zero_one(K, y, lam=1.0, kernel="precomputed"),
        lambda K, y: sx.conic_sdp(K, y, lam=1.0, kernel="precomputed"),
    ],
)
def test_a_constant_does_not_hide_an_indefinite_kernel(solve):
    with pytest.raises(DataError, match="indefinite"):
        solve(np.eye(4) - 0.5, [1, -1, 1, -1])


@pytest.mark.parametrize(
    ("solver", "arguments"),
    [
        (sx.fast.odml, {"C": 4e-100, "lam1": 1.0, "lam2": 0.0}),
        (sx.fast.odm, {"C1": 1e250, "C2": 5e-50, "D": 0.0}),
        (sx.fast.odm, {"C1": 1.0, "C2": 9e-100, "D": 1e-300}),
    ],
)
@pytest.mark.parametrize("kernel", [None, "linear", "poly"])
def test_weights_whose_shares_underflow_end_in_an_interval_or_a_refusal(solver, arguments, kernel):
    X = np.random.default_rng(3).standard_normal((6, 2))
    weight = [3.0, 1.0, 1e300, 1e10, 1e-300, 1.0]
    try:
        solution = solver(
            X, [1, -1, 1, -1, 1, -1], kernel=kernel, sample_weight=weight, **arguments
        )
    except sx.SvmcvxError:
        return
    lower = solution.certificate.lower
    assert lower is None or lower <= solution.certificate.upper
