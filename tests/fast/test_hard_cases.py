"""Kernel machines with costs, columns and matrices that have broken solvers."""

import math
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.preprocessing import scale

import svmcvx as sx
from svmcvx.errors import DataError
from svmcvx.fast import conic, hard_margin, odm, odml, psvm, zero_one
from tests.intervals import overlap

RNG = np.random.default_rng(0)
BLOBS, SIDES = make_blobs(50, centers=2, random_state=0, cluster_std=0.6)
Z = RNG.standard_normal((60, 5)).astype(np.float32)
LABELS = np.where(Z[:, 0] > 0, 1, -1)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1e10, 1e20])
@pytest.mark.parametrize("p", [1.0, 2.0])
def test_a_huge_cost_is_a_hard_margin(kernel, C, p):
    solution = psvm(BLOBS, SIDES, C=C, p=p, kernel=kernel)
    hard = hard_margin(BLOBS, SIDES, kernel=kernel).certificate
    assert solution.certificate.is_certified(1e-6)
    assert solution.certificate.lower <= hard.upper
    assert solution.certificate.upper == pytest.approx(hard.upper, rel=2e-6)


@pytest.mark.parametrize("C", [1e6, 1e8, 1e12])
def test_a_huge_cost_on_columns_that_nearly_touch(C):
    X, y = load_breast_cancer(return_X_y=True)
    solution = psvm(scale(X), y, C=C, kernel="linear")
    assert solution.status is sx.Status.OPTIMAL
    assert solution.certificate.is_certified(1e-6)
    assert solution.certificate.upper == pytest.approx(
        psvm(scale(X), y, C=C).certificate.upper, rel=2e-6
    )


def test_a_class_with_a_huge_weight():
    weight = np.where(SIDES == 1, 1e10, 1.0)
    found = psvm(BLOBS, SIDES, kernel="rbf", sample_weight=weight)
    assert found.certificate.is_certified(1e-6)


def unscaled(n=200):
    rng = np.random.default_rng(1)
    X = np.c_[rng.normal(0, 1, (n, 5)), rng.normal(0, 1e5, n)]
    return X, np.where(X[:, 0] + rng.normal(0, 1, n) > 0, 1, -1)


@pytest.mark.parametrize(
    "solve",
    [
        *(partial(psvm, C=1000.0, p=p) for p in (1.0, 1.5, 2.0)),
        partial(psvm, C=1000.0, intercept="penalised"),
        odm,
        odml,
    ],
)
def test_a_linear_kernel_of_unscaled_columns(solve):
    overlap(solve(*unscaled(), kernel="linear"), solve(*unscaled()))


def test_unscaled_columns_of_several_classes_have_coefficients():
    X, y = unscaled()
    y = np.where(X[:, 1] > 0.7, 2, y)
    model = sx.PSVMClassifier(kernel="linear", C=1000.0).fit(X, y)
    assert model.certificate_.is_certified(1e-6)
    assert model.coef_.shape == (3, 6)
    assert model.dual_coef_.shape[0] == 3


@pytest.mark.parametrize(
    ("p", "intercept"), [(1.0, "penalised"), (1.5, "none"), (2.0, "penalised"), (3.0, "none")]
)
def test_a_kernel_without_a_free_intercept_on_many_rows(intercept, p):
    X = np.random.default_rng(0).standard_normal((2500, 6))
    y = np.where(X[:, 0] * X[:, 1] > 0, 1, -1)
    solution = psvm(X, y, p=p, kernel="rbf", intercept=intercept, tol=1e-5)
    assert solution.certificate.is_certified(1e-5)
    assert np.mean(solution.model.predict(X) == y) > 0.9


@pytest.mark.parametrize("degree", [10, 25, 50])
def test_entries_that_are_all_rounding_leave_a_model_that_separates(degree):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 5)), np.where(rng.random(60) < 0.5, -1, 1)
    solution = psvm(X, y, C=1000.0, kernel=sx.Polynomial(degree, gamma=0.2, coef0=1.0))
    assert solution.certificate.lower <= solution.certificate.upper
    assert np.mean(solution.model.predict(X) == y) == 1.0


@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
def test_a_gram_matrix_in_single_precision(intercept):
    K = Z @ Z.T
    single = psvm(K, LABELS, kernel="precomputed", intercept=intercept)
    double = psvm(Z.astype(float), LABELS, kernel="linear", intercept=intercept)
    assert single.certificate.is_certified(1e-6)
    assert single.certificate.upper == pytest.approx(double.certificate.upper, rel=1e-5)
    assert 0.0 < single.certificate.residuals["clipped_mass"] < 1e-6
    with pytest.raises(DataError, match="clipped"):
        single.proof()


def test_rounding_that_depends_on_the_order_is_stated_as_the_mean():
    K = Z @ Z.T
    K[3, 7] *= 1 + 2e-6
    mean = 0.5 * (K.astype(float) + K.astype(float).T)
    one = psvm(K, LABELS, kernel="precomputed", tol=1e-9)
    overlap(one, psvm(mean, LABELS, kernel="precomputed", tol=1e-9, indefinite="clip"))


@pytest.mark.parametrize("solve", [odm, odml, hard_margin])
def test_a_function_in_single_precision(solve):
    def kernel(A, B):
        return A.astype(np.float32) @ B.astype(np.float32).T

    assert solve(Z.astype(float), LABELS, kernel=kernel).certificate.is_certified(1e-6)


@pytest.mark.parametrize(
    "solve",
    [
        partial(psvm, intercept="penalised"),
        partial(odm, intercept="penalised"),
        *(partial(solve, lam=1.0) for solve in (conic, zero_one, sx.conic_sdp)),
    ],
)
def test_a_constant_does_not_hide_an_indefinite_kernel(solve):
    with pytest.raises(DataError, match="indefinite"):
        solve(np.eye(4) - 0.5, [1, -1, 1, -1], kernel="precomputed")


SPREAD = [3.0, 1.0, 1e300, 1e10, 1e-300, 1.0]
EXTREME_WEIGHTS = [
    (partial(odml, C=4e-100, lam1=1.0, lam2=0.0), SPREAD, 3),
    (partial(odm, C1=1e250, C2=5e-50, D=0.0), SPREAD, 3),
    (partial(odm, C1=1.0, C2=9e-100, D=1e-300), SPREAD, 3),
    (partial(conic, kappa=0.0), [1e-300, 1e10, 1.0, 1.0, 1e300, 1e10, 1.0], 0),
    (partial(conic, kappa=0.3), [1e300, 1e300, 1.0, 1.0], 0),
    (partial(conic, kappa=0.1), [1e-300, 1e10, 1e-10, 1e-10, 1e300], 0),
]


@pytest.mark.parametrize(("solve", "weight", "seed"), EXTREME_WEIGHTS)
@pytest.mark.parametrize("kernel", [None, "linear", "poly", "rbf"])
def test_weights_of_extreme_sizes_end_in_an_interval_or_a_refusal(solve, weight, seed, kernel):
    y = (np.arange(len(weight)) + seed) % 2
    X = np.random.default_rng(seed).standard_normal((y.size, 2))
    X += 0.0 if seed else 4.0 * y[:, None]
    try:
        found = solve(X, y, kernel=kernel, sample_weight=weight)
    except sx.SvmcvxError:
        return
    assert found.certificate.lower is None or found.certificate.lower <= found.certificate.upper
    assert (found.status == "optimal") == (found.certificate.gap <= 1e-6)


# Searches on numbers at the ends of double precision: an interval, or an error of the package


CALLS = {"l0": "C", "ramp": "C", "zero_one": "lam"}


def extreme(seed):
    """Draw rows, labels, a price, weights and a kernel, some of them out of any usual range."""
    rng = np.random.default_rng(seed)

    def far(*size):
        return 10.0 ** rng.uniform(-300, 300, *size)

    n, d = int(rng.choice([2, 3, 5, 8])), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d))
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    match seed % 6:
        case 0:
            X *= far()
        case 1:
            X *= far(d)
        case 2:
            X[rng.integers(n)] *= 5e-324
        case 3:
            X = np.round(X)[rng.integers(n, size=n)]
        case 4:
            X *= 1e-310
    price = float(rng.choice([1.0, far(), 1e-300, 1e300]))
    weight = [None, far(n), rng.choice([0.0, 1.0, 1e300], n)][int(rng.integers(3))]
    kernel = [None, None, "rbf"][int(rng.integers(3))]
    return np.clip(X, -1e308, 1e308), y, price, {"sample_weight": weight, "kernel": kernel}


@pytest.mark.parametrize("call", CALLS)
def test_numbers_of_any_size_give_an_interval_or_an_error_of_the_package(call):
    answered = 0
    for seed in range(24):
        X, y, price, more = extreme(seed)
        try:
            found = getattr(sx.fast, call)(X, y, max_iter=1, **{CALLS[call]: price}, **more)
        except sx.SvmcvxError:
            continue
        answered += 1
        certificate = found.certificate
        assert 0.0 <= certificate.lower <= certificate.upper < math.inf
        assert found.status != "optimal" or certificate.gap <= 1e-6
    assert answered > 4


@pytest.mark.parametrize("call", CALLS)
def test_prices_that_overflow_in_the_units_of_the_rows_are_refused_by_name(call):
    X, y = np.array([[1.0], [-2.0], [3.0]]) * 1e120, [1, -1, 1]
    with pytest.raises(sx.DataError, match=r"divide X by [0-9]e.120, or lower"):
        getattr(sx.fast, call)(X, y, **{CALLS[call]: 1e80})


def test_fractions_beyond_the_range_of_doubles_are_no_points():
    """A leaf that is solved in fractions has coordinates above 1e308."""
    X = np.array([[1e-200, 1.0], [3e-200, 1.0], [1.0, 1.0]])
    found = sx.fast.zero_one(X, [1, -1, 1], lam=5e40, intercept=False).certificate
    assert 0.0 <= found.lower <= found.upper


FAR = 1e15 + np.array(
    [[1.2, 0], [-1.4, 0], [0.5, 1.2], [1.9, -1.4], [-0.6, -0.1], [0.9, -0.1], [-0.6, -0.2], [-1.2,
    -0.6]]
)  # fmt: skip
COLUMNS = np.array(
    [[-2.8, -2.2, 3.4], [-0.3, -2.4, -1.2], [-0.6, -2.5, 5.6], [-9.0, 0.4, 6.0], [4.7, 1.4, 9.3],
    [5.5, 0.0, -4.3]]
)  # fmt: skip
HUGE_PRICES = {
    # The multipliers of a point of least norm cancel in more digits than two doubles have.
    "cancelled multipliers": ("zero_one", FAR, [0, 1, 0, 0, 1, 1, 1, 1], {"lam": 1e75}),
    # They are beyond the range of doubles.
    "columns of any length": (
        *("zero_one", COLUMNS * [1e-18, 1e-38, 1e109], [0, 1, 1, 0, 1, 0]),
        {"lam": 4.9e28},
    ),
    # The search proves no more than that no objective is negative.
    "nothing proved": (
        *("zero_one", np.ones((4, 3)), [0, 1, 0, 1]),
        {"lam": 1e76, "kernel": sx.Polynomial(31, 436.0, 1.0)},
    ),
    "rows of zeros": ("ramp", np.ones((3, 2)), [0, 1, 1], {"C": 4e285}),
    "a price near underflow": ("ramp", np.full((3, 1), 0.463), [0, 1, 1], {"C": 2e-265}),
    "a local minimum": ("l0", FAR, [0, 1, 0, 0, 1, 1, 1, 1], {"C": 1.0, "method": "local"}),
}


@pytest.mark.parametrize("case", HUGE_PRICES)
def test_proofs_claim_what_the_second_checker_proves(case):
    name, X, y, given = HUGE_PRICES[case]
    found = sx.verify(getattr(sx.fast, name)(X, y, **given).proof(), X, y)
    assert found.holds, found.why
