"""ODM and ODML: the dual of the paper, known machines, and numbers at the ends of their range."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations import margin_distribution as odml
from svmcvx.formulations.margin_distribution import ODML, centred
from tests.balls import fractions
from tests.conftest import make_data

X, Y = make_data(n=36)
RBF = sx.RBF(0.4)
BAND = {"C1": 2.0, "C2": 0.5, "D": 0.2}
BLEND = {"lam1": 0.8, "lam2": 0.3, "C": 4.0}


def certified(build, X, y, tol=1e-9, **keywords):
    """Solve by the free solver, asked for this gap, and return the certificate, which has to be as
    tight.
    """
    certificate = sx.solve(build(X, y, **keywords), solver="clarabel", tol=tol).certificate
    assert certificate.is_certified(tol), certificate
    return certificate


def gram(X, kernel):
    return X @ X.T if kernel is None else kernel.resolve(X)(X)


# The dual of the paper


def paper_matrices(K, y, lam1):
    """A and H of eqs. (13)-(14), uniform weights, with the inverse that the page names."""
    n = y.size
    A = 2 * lam1 * (n * np.eye(n) - np.outer(y, y)) / n**2
    inverse = np.linalg.inv(np.eye(n) + A @ K)
    return inverse, np.diag(y) @ K @ inverse @ np.diag(y)


@pytest.mark.parametrize("lam1", [0.0, 0.8])
def test_without_a_hinge_odml_is_a_linear_system(lam1, tmp_path):
    how = {"lam1": lam1, "lam2": 0.3, "C": 0.0, "intercept": "penalised"}
    rows = Y[:, None] * np.column_stack([X, np.ones(Y.size)])
    mean = rows.mean(axis=0)
    spread = 2 * lam1 * (rows - mean).T @ (rows - mean) / Y.size
    w = np.linalg.solve(np.eye(mean.size) + spread, 0.3 * mean)
    best = -0.15 * mean @ w
    for method in ("newton", "dcd", "unwhitened"):
        solution = sx.fast.odml(X, Y, method=method, **how)
        assert solution.certificate.upper == pytest.approx(best, rel=1e-9)
        assert solution.certificate.is_certified(1e-9)
    solution.save_proof(tmp_path / "proof.npz")
    assert sx.verify(tmp_path / "proof.npz", X, Y).holds
    for build in (sx.odml_primal, sx.odml_dual):
        assert certified(build, X, Y, **how).upper == pytest.approx(best, rel=1e-6)
    for wrong in (-1.0, 1e-301):
        with pytest.raises(sx.DataError, match="C must be a finite number in"):
            sx.fast.odml(X, Y, C=wrong)


@pytest.mark.parametrize("kernel", [None, RBF])
@pytest.mark.parametrize("lam1", [0.0, 0.8, 50.0])
def test_builders_state_the_numpy_dual_of_odml(lam1, kernel):
    """Against −(½ (α + λ₂/m e)'H(α + λ₂/m e) − e'α) with H from an explicit inverse, and the bound
    with multipliers τ.
    """
    n = Y.size
    alpha = np.random.default_rng(3).uniform(0, 4.0 / n, n)
    inverse, H = paper_matrices(gram(X, kernel), Y, lam1)
    q = alpha + 0.3 / n
    expected = -(q @ H @ q / 2 - alpha.sum())
    problem = sx.odml_dual(X, Y, lam1=lam1, lam2=0.3, C=4.0, kernel=kernel)
    problem.var_dict["beta"].value = alpha * n / 4.0
    if kernel is None:
        problem.var_dict["g"].value = X.T @ (Y * q)
    assert np.allclose(problem.alpha.value, alpha)
    assert problem.objective.value == pytest.approx(expected, rel=1e-10)
    assert all(np.max(constraint.violation()) < 1e-12 for constraint in problem.constraints)
    statement = problem.formulation
    repaired = statement.repair({"alpha": alpha})
    v = statement.expansion(repaired["alpha"], repaired["tau"])
    assert np.allclose(v, inverse @ (Y * q))  # the prediction coefficients of the paper
    assert statement.dual_objective(repaired) == pytest.approx(expected, rel=1e-10)
    assert statement.dual_objective({"alpha": alpha}) == pytest.approx(expected, rel=1e-10)
    by_hand = odml.odml_dual_objective(alpha, repaired["tau"], v @ gram(X, kernel) @ v, lam1=lam1)
    assert by_hand == pytest.approx(expected, rel=1e-10)


# Known machines


def test_odm_without_a_band_is_ridge_regression_on_the_labels():
    C, n = 3.0, Y.size
    solution = sx.solve(sx.odm_dual(X, Y, C1=C, C2=C, D=0.0), solver="clarabel")
    ridge = Ridge(alpha=n / (2 * C), fit_intercept=False, solver="cholesky").fit(X, Y)
    assert np.allclose(solution.model.decision_function(X), ridge.predict(X), atol=1e-9)


@pytest.mark.parametrize("build", [sx.odml_primal, sx.odml_dual])
def test_odml_without_statistics_is_the_svm_without_intercept(build):
    C, n = 5.0, Y.size
    certificate = certified(build, X, Y, lam1=0.0, lam2=0.0, C=C)
    svc = LinearSVC(
        loss="hinge", dual=True, C=C / n, fit_intercept=False, tol=1e-10, max_iter=1000000
    )
    w = svc.fit(X, Y).coef_[0]
    theirs = odml.odml_objective(w @ w, Y * (X @ w), lam1=0.0, lam2=0.0, C=C)
    assert certificate.lower <= theirs == pytest.approx(certificate.upper, rel=1e-6)


# Hard margin


def separable(n=20, seed=0, d=3):
    rng = np.random.default_rng(seed)
    y = np.resize([-1.0, 1.0], n)
    return rng.standard_normal((n, d)) * 0.4 + 1.2 * y[:, None], y


def test_hard_margin_of_data_that_are_not_separable_says_so():
    with pytest.raises(
        sx.SolverFailed,
        match="not separable in this feature space by a hyperplane through the origin",
    ):
        sx.solve(sx.odml_hard_margin(X, Y, lam1=0.1, lam2=0.1), solver="clarabel")
    A, y = separable()
    shifted = A + 4.0  # separable, but not through the origin
    with pytest.raises(sx.SolverFailed, match="intercept=True or a richer kernel"):
        sx.solve(sx.odml_hard_margin(shifted, y, lam1=0.1, lam2=0.1), solver="clarabel")
    certified(sx.odml_hard_margin, shifted, y, lam1=0.1, lam2=0.1, intercept=True)
    with pytest.raises(sx.SolverFailed, match="not separable in this feature space, so"):
        sx.solve(sx.odml_hard_margin(X, Y, lam1=0.1, lam2=0.1, intercept=True), solver="clarabel")


# Regimes in which the estimates failed


def test_the_bound_of_odml_keeps_its_digits_on_data_with_an_offset():
    X, y = make_data(n=60)
    for offset, gap in ((1e4, 1e-6), (1e6, 1e-5)):
        certificate = sx.fast.odml(X + offset, y, lam1=0.8, lam2=0.3, C=4.0).certificate
        assert certificate.gap <= gap


# The dual cone


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.lists(st.floats(1e-9, 1e9), min_size=40, max_size=40),
)
def test_centred_multipliers_have_a_sum_of_exactly_zero(values, weights):
    tau, weight = np.array(values), np.array(weights[: len(values)])
    share = weight / weight.sum()
    found = centred(tau, share)
    assert sum(map(Fraction, found.tolist())) == 0
    assert np.array_equal(centred(found, share), found)
    plain = tau - share * tau.sum()
    assert np.abs(found - plain).max() <= 1e-11 * np.abs(tau).max()


@pytest.mark.parametrize("C", [1.0, 0.1, 1e-300, 3e300])
@pytest.mark.parametrize("n", [7, 10])
def test_the_box_holds_for_the_real_product(C, n):
    X, y = make_data(n=n)
    rng = np.random.default_rng(n)
    for weight in (None, np.full(n, 0.3), rng.random(n), 10.0 ** rng.uniform(-12, 12, n)):
        statement = ODML(
            feature_space(binary_data(X, y, weight), None, intercept="none"), 1.0, 0.0, C
        )
        s, found = fractions(statement.weight), statement.upper_bound()
        exact = Fraction(C) * s / sum(s)
        assert (fractions(found) <= exact).all()
        assert (fractions(found) >= exact * (1 - Fraction(1, 10**14)) - Fraction(1e-322)).all()
        beyond = {"alpha": np.nextafter(found, np.inf) * (1.0 + 1e-14) + 1e-321, "tau": np.zeros(n)}
        assert statement.dual_violation(beyond) > 0
        assert statement.dual_violation({"alpha": found, "tau": np.zeros(n)}) == 0
