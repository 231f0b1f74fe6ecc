import math
import pickle
from functools import cache

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.experiments.specifications import parse_models
from svmcvx.feature_space import feature_space
from svmcvx.formulations.margin_distribution import odm, odml
from svmcvx.formulations.margin_distribution.curvature import MarginHessian
from svmcvx.formulations.margin_distribution.odm import ODM
from svmcvx.formulations.margin_distribution.odml import ODML, ODMLHardMargin
from tests.conftest import make_data
from tests.intervals import overlap

X, Y = make_data(n=36)
RBF = sx.RBF(0.4)
BAND = {"C1": 2.0, "C2": 0.5, "D": 0.2}
BLEND = {"lam1": 0.8, "lam2": 0.3, "C": 4.0}
WEIGHT = np.random.default_rng(5).uniform(0.5, 2.0, Y.size)


def odm_paper(X, y, **keywords):
    return sx.odm_dual(X, y, form="paper", **keywords)


ODMS = (sx.odm_primal, sx.odm_dual, odm_paper)
ODMLS = (sx.odml_primal, sx.odml_dual)
ALL = [(build, BAND) for build in ODMS] + [(build, BLEND) for build in ODMLS]
NAMES = ["odm_primal", "odm_dual", "odm_paper", "odml_primal", "odml_dual"]
every_builder = pytest.mark.parametrize(("build", "settings"), ALL, ids=NAMES)


def space(X, y, kernel=None, weight=None, intercept="none"):
    return feature_space(binary_data(X, y, weight), kernel, intercept=intercept)


def certified(build, X, y, tol=1e-9, **keywords):
    """Solve by the free solver, asked for this gap, and return the certificate, which has to be as tight."""
    certificate = sx.solve(build(X, y, **keywords), solver="clarabel", tol=tol).certificate
    assert certificate.is_certified(tol), certificate
    return certificate


def gram(X, kernel):
    return X @ X.T if kernel is None else kernel.resolve(X)(X)


# The statements, written again as a reader of the paper would


def plain_odm(K, y, C1, C2, D, s=None):
    """Eq. (7) in coefficients of the data, one constraint at a time; Q from the Gram matrix."""
    n = y.size
    s = np.ones(n) if s is None else s
    factor = np.linalg.cholesky(K + 1e-12 * np.trace(K) * np.eye(n))
    w, xi, epsilon = cp.Variable(n), cp.Variable(n), cp.Variable(n)
    constraints = []
    for i in range(n):
        margin = y[i] * (factor[i] @ w)
        constraints += [margin >= 1 - D - xi[i], margin <= 1 + D + epsilon[i]]
    loss = sum(s[i] * (C1 * cp.square(xi[i]) + C2 * cp.square(epsilon[i])) for i in range(n)) / s.sum()
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + loss), constraints)
    return problem.solve(solver=cp.CLARABEL)


def plain_odml(K, y, lam1, lam2, C, s=None):
    """Eq. (5): variance and mean as sums over the observations."""
    n = y.size
    s = np.ones(n) if s is None else s
    factor = np.linalg.cholesky(K + 1e-12 * np.trace(K) * np.eye(n))
    w, xi = cp.Variable(n), cp.Variable(n, nonneg=True)
    margins = [y[i] * (factor[i] @ w) for i in range(n)]
    mean = sum(s[i] * margins[i] for i in range(n)) / s.sum()
    variance = sum(s[i] * cp.square(margins[i] - mean) for i in range(n)) / s.sum()
    loss = C / s.sum() * sum(s[i] * xi[i] for i in range(n))
    objective = cp.sum_squares(w) / 2 + lam1 * variance - lam2 * mean + loss
    problem = cp.Problem(cp.Minimize(objective), [margins[i] >= 1 - xi[i] for i in range(n)])
    return problem.solve(solver=cp.CLARABEL)


def paper_matrices(K, y, lam1):
    """A and H of eqs. (13)-(14), uniform weights, with the inverse that the page names."""
    n = y.size
    A = 2 * lam1 * (n * np.eye(n) - np.outer(y, y)) / n**2
    inverse = np.linalg.inv(np.eye(n) + A @ K)
    return inverse, np.diag(y) @ K @ inverse @ np.diag(y)


@pytest.mark.parametrize("kernel", [None, RBF])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("build", ODMS)
def test_odm_is_the_problem_of_the_paper(build, weight, kernel):
    certificate = certified(build, X, Y, kernel=kernel, sample_weight=weight, **BAND)
    assert certificate.upper == pytest.approx(plain_odm(gram(X, kernel), Y, s=weight, **BAND), rel=1e-6)


@pytest.mark.parametrize("kernel", [None, RBF])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("build", ODMLS)
def test_odml_is_the_problem_of_the_paper(build, weight, kernel):
    certificate = certified(build, X, Y, kernel=kernel, sample_weight=weight, **BLEND)
    assert certificate.upper == pytest.approx(plain_odml(gram(X, kernel), Y, s=weight, **BLEND), rel=1e-6)


def test_builders_state_the_numpy_objective_of_odm():
    rng = np.random.default_rng(1)
    share = WEIGHT / WEIGHT.sum()
    problem = sx.odm_primal(X, Y, sample_weight=WEIGHT, **BAND)
    w = 3 * rng.standard_normal(3)
    u = Y * (X @ w)
    values = {"w": w, "u": u, "xi": np.maximum(0.8 - u, 0), "epsilon": np.maximum(u - 1.2, 0)}
    for name, variable in problem.var_dict.items():
        variable.value = values[name]
    expected = w @ w / 2 + sum(
        s / WEIGHT.sum() * (2.0 * max(0.8 - ui, 0) ** 2 + 0.5 * max(ui - 1.2, 0) ** 2)
        for s, ui in zip(WEIGHT, u, strict=True)
    )
    assert problem.objective.value == pytest.approx(expected, rel=1e-12)
    assert odm.objective(w @ w, u, share=share, **BAND) == pytest.approx(expected, rel=1e-12)
    assert all(np.max(constraint.violation()) < 1e-12 for constraint in problem.constraints)


@pytest.mark.parametrize("form", ["signed", "paper"])
@pytest.mark.parametrize("kernel", [None, RBF])
def test_builders_state_the_numpy_dual_of_odm(kernel, form):
    """Against the 2n × 2n matrix of eq. (19)."""
    theta = np.random.default_rng(2).standard_normal(Y.size) / Y.size
    zeta, beta = np.maximum(theta, 0), np.maximum(-theta, 0)
    n, Q = Y.size, np.outer(Y, Y) * gram(X, kernel)
    hessian = np.block([[Q + n / (2 * 2.0) * np.eye(n), -Q], [-Q, Q + n / (2 * 0.5) * np.eye(n)]])
    alpha = np.r_[zeta, beta]
    linear = np.r_[np.full(n, 0.2 - 1), np.full(n, 0.2 + 1)]
    expected = -(alpha @ hessian @ alpha / 2 + linear @ alpha)
    problem = sx.odm_dual(X, Y, kernel=kernel, form=form, **BAND)
    scale = n / (2 * 2.0)
    values = {"eta": scale * theta, "zeta_scaled": scale * zeta, "beta_scaled": scale * beta}
    for name, variable in problem.var_dict.items():
        variable.value = values[name]
    assert np.allclose(problem.theta.value, theta)
    assert problem.objective.value == pytest.approx(expected, rel=1e-10)
    squared_norm = (Y * theta) @ gram(X, kernel) @ (Y * theta)
    assert odm.dual_objective(theta, squared_norm, **BAND) == pytest.approx(expected, rel=1e-10)


def test_builders_state_the_numpy_objective_of_odml():
    w = np.random.default_rng(1).standard_normal(3)
    u = Y * (X @ w)
    s, m = WEIGHT, WEIGHT.sum()
    problem = sx.odml_primal(X, Y, sample_weight=s, **BLEND)
    mean = sum(s * u) / m
    values = {"w": w, "u": u, "mean": mean, "xi": np.maximum(1 - u, 0)}
    for name, variable in problem.var_dict.items():
        variable.value = values[name]
    expected = w @ w / 2 + 0.8 * sum(s * (u - mean) ** 2) / m - 0.3 * mean + 4.0 / m * sum(s * np.maximum(1 - u, 0))
    assert problem.objective.value == pytest.approx(expected, rel=1e-12)
    assert odml.objective(w @ w, u, share=s / m, **BLEND) == pytest.approx(expected, rel=1e-12)
    assert all(np.max(constraint.violation()) < 1e-12 for constraint in problem.constraints)


@pytest.mark.parametrize("kernel", [None, RBF])
@pytest.mark.parametrize("lam1", [0.0, 0.8, 50.0])
def test_builders_state_the_numpy_dual_of_odml(lam1, kernel):
    """Against −(½ (α + λ₂/m e)'H(α + λ₂/m e) − e'α) with H from an explicit inverse, and the bound with multipliers τ."""
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
    by_hand = odml.dual_objective(alpha, repaired["tau"], v @ gram(X, kernel) @ v, lam1=lam1)
    assert by_hand == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("kernel", [None, RBF])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_quadratic_part_is_factored_without_the_inverse_of_a(kernel, sparse):
    """N N' = H, on weights and on data with an offset."""
    data = binary_data(sp.csr_array(X) if sparse else X + 5.0, Y, WEIGHT)
    here = feature_space(data, kernel, intercept="none")
    c = WEIGHT / WEIGHT.sum()
    curvature = MarginHessian(here, c, 1.7)
    dense = np.asarray(data.X.toarray() if sparse else data.X)
    K = gram(dense, kernel)
    A = 2 * 1.7 * (np.diag(c) - np.outer(c * Y, c * Y))
    H = np.diag(Y) @ K @ np.linalg.inv(np.eye(Y.size) + A @ K) @ np.diag(Y)
    N = curvature.whitened()
    assert np.allclose(N @ N.T, H, atol=1e-9 * np.abs(H).max())
    rows = np.array([1, 4, 30])
    assert np.allclose(curvature.whitened(rows), N[rows])


# Known machines


def test_odm_without_a_band_is_ridge_regression_on_the_labels():
    C, n = 3.0, Y.size
    solution = sx.solve(sx.odm_dual(X, Y, C1=C, C2=C, D=0.0), solver="clarabel")
    ridge = Ridge(alpha=n / (2 * C), fit_intercept=False, solver="cholesky").fit(X, Y)
    assert np.allclose(solution.model.decision_function(X), ridge.predict(X), atol=1e-9)


def test_odm_without_the_upper_side_is_the_squared_hinge():
    n = Y.size
    certificate = certified(sx.odm_primal, X, Y, C1=3.0, C2=1e-12, D=0.0)
    svc = LinearSVC(loss="squared_hinge", dual=False, C=3.0 / n, fit_intercept=False, tol=1e-10)
    w = svc.fit(X, Y).coef_[0]
    theirs = w @ w / 2 + 3.0 * np.mean(np.maximum(1 - Y * (X @ w), 0) ** 2)
    assert certificate.lower - 1e-9 <= theirs == pytest.approx(certificate.upper, rel=1e-9)


@pytest.mark.parametrize("build", ODMLS)
@pytest.mark.parametrize("kernel", [None, RBF])
def test_odml_without_statistics_is_the_svm_without_intercept(kernel, build):
    C, n, K = 5.0, Y.size, gram(X, kernel)
    certificate = certified(build, X, Y, lam1=0.0, lam2=0.0, C=C, kernel=kernel)
    factor = np.linalg.cholesky(K + 1e-12 * np.eye(n))
    w = cp.Variable(n)
    hinge = sum(cp.pos(1 - Y[i] * (factor[i] @ w)) for i in range(n))
    value = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + C / n * hinge)).solve(solver=cp.CLARABEL)
    assert certificate.upper == pytest.approx(value, rel=1e-6)
    if kernel is None:
        svc = LinearSVC(loss="hinge", dual=True, C=C / n, fit_intercept=False, tol=1e-10, max_iter=1000000)
        w = svc.fit(X, Y).coef_[0]
        theirs = odml.objective(w @ w, Y * (X @ w), lam1=0.0, lam2=0.0, C=C)
        assert certificate.lower <= theirs == pytest.approx(certificate.upper, rel=1e-6)


def test_a_large_weight_of_the_variance_makes_it_small():
    def variance(lam1):
        model = sx.solve(sx.odml_primal(X, Y, lam1=lam1, lam2=1.0, C=4.0), solver="clarabel").model
        return np.var(Y * model.decision_function(X))

    spreads = [variance(lam1) for lam1 in (0.0, 1.0, 100.0)]
    assert spreads[0] > spreads[1] > spreads[2]
    assert spreads[2] < 1e-3


# The two forms, the primal and the kernel agree


@pytest.mark.parametrize("kernel", [None, RBF, sx.Polynomial(2, 0.5, 1.0)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("band", [BAND, {"C1": 1e-3, "C2": 1e3, "D": 0.0}, {"C1": 1e4, "C2": 1e-2, "D": 0.9}])
def test_signed_and_paper_dual_and_primal_agree(kernel, intercept, band):
    certificates = [certified(build, X, Y, kernel=kernel, intercept=intercept, **band) for build in ODMS]
    for other in certificates[1:]:
        overlap(certificates[0], other)


@pytest.mark.parametrize("kernel", [None, RBF, sx.Polynomial(2, 0.5, 1.0)])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("blend", [BLEND, {"lam1": 1e3, "lam2": 0.0, "C": 1e-2}, {"lam1": 0.0, "lam2": 9.0, "C": 1e2}])
def test_odml_primal_and_dual_agree(kernel, intercept, blend):
    overlap(*(certified(build, X, Y, kernel=kernel, intercept=intercept, **blend) for build in ODMLS))


@every_builder
def test_a_linear_kernel_is_the_linear_formulation(build, settings):
    for intercept in (False, True):
        linear = certified(build, X, Y, intercept=intercept, **settings)
        overlap(linear, certified(build, X, Y, kernel=sx.Linear(), intercept=intercept, **settings))
        overlap(linear, certified(build, X @ X.T, Y, kernel=sx.Precomputed(), intercept=intercept, **settings))


@every_builder
def test_an_intercept_is_a_constant_feature(build, settings):
    appended = np.hstack([X, np.ones((Y.size, 1))])
    overlap(certified(build, X, Y, intercept=True, **settings), certified(build, appended, Y, **settings))
    model = sx.solve(build(X, Y, intercept=True, **settings), solver="clarabel").model
    assert model.intercept != 0
    assert sx.solve(build(X, Y, **settings), solver="clarabel").model.intercept == 0


@every_builder
def test_more_columns_than_rows(build, settings):
    wide = np.random.default_rng(4).standard_normal((12, 40))
    y = np.resize([-1, 1], 12)
    overlap(certified(build, wide, y, **settings), certified(build, wide, y, kernel=sx.Linear(), **settings))
    overlap(certified(build, wide, y, **settings), certified(build, sp.csr_array(wide), y, **settings))


@every_builder
def test_sparse_data(build, settings):
    thinned = np.where(np.abs(X) > 0.5, X, 0.0)
    overlap(certified(build, thinned, Y, **settings), certified(build, sp.csr_array(thinned), Y, **settings))


# Invariances


@every_builder
@pytest.mark.parametrize("kernel", [None, RBF])
def test_invariances(build, settings, kernel):
    reference = certified(build, X, Y, kernel=kernel, **settings)
    order = np.random.default_rng(7).permutation(Y.size)
    overlap(reference, certified(build, X[order], Y[order], kernel=kernel, **settings))
    overlap(reference, certified(build, X, -Y, kernel=kernel, **settings))
    overlap(reference, certified(build, X, np.where(Y > 0, "yes", "no"), kernel=kernel, **settings))
    overlap(reference, certified(build, X, Y, kernel=kernel, sample_weight=np.full(Y.size, 7.3), **settings))
    overlap(reference, certified(build, np.tile(X, (2, 1)), np.tile(Y, 2), kernel=kernel, **settings))


@every_builder
def test_weights_are_copies_and_zero_leaves_out(build, settings):
    counts = np.random.default_rng(8).integers(0, 4, Y.size)
    rows = np.repeat(np.arange(Y.size), counts)
    weighted = sx.solve(build(X, Y, sample_weight=counts, **settings), solver="clarabel")
    overlap(weighted.certificate, certified(build, X[rows], Y[rows], **settings))
    for values in weighted.dual.values():
        assert values.shape == Y.shape
        assert not values[counts == 0].any()
    # The exported dual point is accepted as it is.
    statement = build(X, Y, sample_weight=counts, **settings).formulation
    again = statement.certify(weighted.model, weighted.dual, repair=False)
    assert again.gap == pytest.approx(weighted.certificate.gap, abs=1e-12)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.sampled_from([1e-3, 0.1, 10.0]))
def test_scaling_the_data_is_scaling_the_regulariser(seed, scale):
    """min ½‖w‖² + L(Xw) for data tX is t⁻² (½‖w‖² + t² L(Xw))."""
    A, y = make_data(seed=seed, n=20)
    plain = certified(sx.odm_primal, A, y, C1=2.0 * scale**2, C2=0.5 * scale**2, D=0.2)
    scaled = certified(sx.odm_primal, scale * A, y, **BAND)
    assert scaled.upper == pytest.approx(plain.upper / scale**2, rel=1e-7, abs=1e-9 / scale**2)


# Certificates


@settings(max_examples=20)
@given(
    st.integers(0, 2000),
    st.floats(-4, 4),
    st.floats(-4, 4),
    st.floats(0, 0.99),
    st.sampled_from([None, RBF]),
    st.sampled_from(ODMS),
)
def test_odm_is_certified(seed, log1, log2, D, kernel, build):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 25)), int(rng.integers(1, 8))
    y = np.resize([-1.0, 1.0], n)
    A = rng.standard_normal((n, d)) + 0.5 * y[:, None]
    certified(build, A, y, C1=10**log1, C2=10**log2, D=D, kernel=kernel)


@settings(max_examples=20)
@given(
    st.integers(0, 2000),
    st.floats(-4, 3),
    st.floats(-4, 3),
    st.floats(-4, 4),
    st.sampled_from([None, RBF]),
    st.sampled_from(ODMLS),
)
@example(222, 0.0, -2.0, 1.25, None, sx.odml_primal)
def test_odml_is_certified(seed, log1, log2, logC, kernel, build):
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(2, 25)), int(rng.integers(1, 8))
    y = np.resize([-1.0, 1.0], n)
    A = rng.standard_normal((n, d)) + 0.5 * y[:, None]
    certified(build, A, y, lam1=10**log1, lam2=10**log2, C=10**logC, kernel=kernel)


@cache
def optimum_of(build, kernel):
    settings = BAND if build is sx.odm_primal else BLEND
    return certified(build, X, Y, kernel=kernel, sample_weight=WEIGHT, **settings).upper


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(-6, 3), st.sampled_from([None, RBF]))
def test_no_dual_point_of_odm_bounds_too_much(seed, log, kernel):
    """Every θ is feasible, and weak duality holds at every pair; the gap of θ(w) is ½‖w − Z'θ‖²."""
    rng = np.random.default_rng(seed)
    statement = ODM(space=space(X, Y, kernel, WEIGHT), **BAND)
    optimum = optimum_of(sx.odm_primal, kernel)
    theta = 10**log * rng.standard_normal(Y.size)
    assert statement.dual_violation({"theta": theta}) == 0
    assert statement.dual_objective({"theta": theta}) <= optimum * (1 + 1e-9)
    w = 10**log * rng.standard_normal(statement.space.factor.shape[1])
    model = statement.space.model_from_factor(w)
    partner = {"theta": statement.multipliers(Y * (statement.space.factor @ w))}
    difference = w - statement.space.factor.T @ (Y * partner["theta"])
    assert statement.objective(model) >= optimum * (1 - 1e-9)
    gap = statement.objective(model) - statement.dual_objective(partner)
    assert gap == pytest.approx(difference @ difference / 2, rel=1e-5, abs=1e-7 * statement.objective(model))


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.floats(-6, 3), st.floats(-6, 3), st.sampled_from([None, RBF]))
def test_no_dual_point_of_odml_bounds_too_much(seed, log, log_tau, kernel):
    rng = np.random.default_rng(seed)
    statement = ODML(space(X, Y, kernel, WEIGHT), **BLEND)
    optimum = optimum_of(sx.odml_primal, kernel)
    alpha = np.minimum(10**log * rng.random(Y.size), statement.upper_bound())
    tau = odml.centred(10**log_tau * rng.standard_normal(Y.size), statement.share)
    assert statement.dual_violation({"alpha": alpha, "tau": tau}) == 0
    value = statement.dual_objective({"alpha": alpha, "tau": tau})
    best = statement.dual_objective(statement.repair({"alpha": alpha}))
    assert value <= best + 1e-9 * max(1.0, abs(value))
    assert best <= optimum + 1e-9


def test_wrong_dual_points_give_no_bound():
    solution = sx.solve(sx.odml_dual(X, Y, **BLEND), solver="clarabel")
    statement = ODML(space(X, Y), **BLEND)
    alpha, tau = solution.dual["alpha"], solution.dual["tau"]
    # Without a point, and with one that is not feasible, only what is known without a solver bounds the optimum.
    known = statement.certify(solution.model, repair=False).lower
    assert known <= statement.certify(solution.model, solution.dual, repair=False).lower - 1.0
    outside = {
        "above its upper_bound": {"alpha": alpha + 1e-6, "tau": tau},
        "negative": {"alpha": alpha - 1e-6, "tau": tau},
        "not centred": {"alpha": alpha, "tau": tau + 1e-6},
        "not a number": {"alpha": np.full(Y.size, np.nan), "tau": tau},
        "infinite": {"alpha": alpha, "tau": np.full(Y.size, np.inf)},
    }
    for point in outside.values():
        assert statement.dual_violation(point) > 0
        assert statement.certify(solution.model, point, repair=False).lower == known
    # A repair makes a true bound of all that are numbers.
    for name in ("above its upper_bound", "negative", "not centred"):
        repaired = statement.certify(solution.model, outside[name])
        assert repaired.lower <= solution.certificate.upper
        assert repaired.gap < 1e-2
    assert statement.certify(solution.model, outside["not a number"]) == statement.certify(solution.model)
    without_variance = ODML(space(X, Y), 0.0, 0.3, 4.0)
    assert without_variance.dual_violation({"alpha": alpha, "tau": tau}) > 0
    band = ODM(space=space(X, Y), **BAND)
    assert band.certify(solution.model, {"theta": np.full(Y.size, np.nan)}).lower == 0.0
    assert band.certify(solution.model).lower == 0.0


def test_dual_points_of_the_wrong_shape_are_refused():
    statement = ODM(space=space(X, Y), **BAND)
    with pytest.raises(sx.DataError, match="needs the entry 'theta', got alpha"):
        statement.repair({"alpha": np.zeros(Y.size)})
    with pytest.raises(sx.DataError, match=r"theta must have one multiplier an observation: expected shape \(36,\)"):
        statement.repair({"theta": np.zeros(5)})


def test_a_rough_solver_gives_a_wider_interval_or_a_polished_point():
    """What a solver leaves after few iterations is a model with a true interval."""
    for build, keywords in ALL:
        exact = certified(build, X, Y, **keywords)
        rough = sx.solve(build(X, Y, **keywords), solver="clarabel", solver_options={"max_iter": 4}).certificate
        assert rough.lower <= exact.upper
        assert rough.upper >= exact.lower


def test_the_objective_of_odml_can_be_negative():
    certificate = certified(sx.odml_dual, X, Y, lam1=0.0, lam2=50.0, C=1.0)
    assert certificate.upper < -100
    assert certificate.lower < certificate.upper


# Hard margin


def separable(n=20, seed=0, d=3):
    rng = np.random.default_rng(seed)
    y = np.resize([-1.0, 1.0], n)
    return rng.standard_normal((n, d)) * 0.4 + 1.2 * y[:, None], y


@pytest.mark.parametrize("kernel", [None, RBF])
@pytest.mark.parametrize(("lam1", "lam2"), [(0.0, 0.0), (2.0, 0.5), (0.1, 30.0)])
def test_hard_margin_is_the_limit_of_the_soft_margin(kernel, lam1, lam2):
    A, y = separable()
    hard = certified(sx.odml_hard_margin, A, y, lam1=lam1, lam2=lam2, kernel=kernel)
    soft = certified(sx.odml_dual, A, y, lam1=lam1, lam2=lam2, C=1e5, kernel=kernel)
    overlap(hard, soft)
    bounded = certified(sx.odml_dual, A, y, lam1=lam1, lam2=lam2, C=1e-3, kernel=kernel)
    assert bounded.lower <= hard.upper


def test_hard_margin_without_statistics_is_the_hard_margin_svm_through_the_origin():
    A, y = separable()
    certificate = certified(sx.odml_hard_margin, A, y, lam1=0.0, lam2=0.0)
    w = cp.Variable(3)
    plain = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2), [y[i] * (A[i] @ w) >= 1 for i in range(y.size)])
    assert certificate.upper == pytest.approx(plain.solve(solver=cp.CLARABEL), rel=1e-6)


def test_hard_margin_models_have_the_margin():
    A, y = separable()
    for lam2 in (0.0, 40.0):  # with a large weight of the mean no margin is at 1
        solution = sx.solve(sx.odml_hard_margin(A, y, lam1=0.3, lam2=lam2), solver="clarabel")
        assert (y * solution.model.decision_function(A)).min() >= 1 - 1e-12
    statement = ODMLHardMargin(space(A, y), 0.3, 0.0)
    small = sx.LinearModel(coef=0.01 * np.ones(3), intercept=0.0, classes=np.array([-1.0, 1.0]), support=np.arange(20))
    assert statement.objective(small) == math.inf
    assert statement.certify(small, solution.dual).gap == math.inf


def test_hard_margin_of_data_that_are_not_separable_says_so():
    with pytest.raises(sx.SolverFailed, match="not separable in this feature space by a hyperplane through the origin"):
        sx.solve(sx.odml_hard_margin(X, Y, lam1=0.1, lam2=0.1), solver="clarabel")
    A, y = separable()
    shifted = A + 4.0  # separable, but not through the origin
    with pytest.raises(sx.SolverFailed, match="intercept=True or a richer kernel"):
        sx.solve(sx.odml_hard_margin(shifted, y, lam1=0.1, lam2=0.1), solver="clarabel")
    certified(sx.odml_hard_margin, shifted, y, lam1=0.1, lam2=0.1, intercept=True)
    with pytest.raises(sx.SolverFailed, match="not separable in this feature space, so"):
        sx.solve(sx.odml_hard_margin(X, Y, lam1=0.1, lam2=0.1, intercept=True), solver="clarabel")
    assert ODMLHardMargin(space(A, y), 0.1, 0.1).explain("stuck") == "the problem is stuck"


# Parameters


def test_a_path_over_the_parameters_of_odm():
    for build in ODMS:
        problem = build(X, Y, kernel=RBF, **BAND)
        sx.solve(problem, solver="clarabel")
        for band in (
            {"C1": 30.0, "C2": 0.5, "D": 0.2},
            {"C1": 30.0, "C2": 4.0, "D": 0.2},
            {"C1": 0.1, "C2": 9, "D": 0},
        ):
            for name, value in band.items():
                problem.param_dict[name].value = value
            solution = sx.solve(problem, solver="clarabel")
            assert {name: solution.hyperparameters[name] for name in band} == band
            overlap(solution.certificate, certified(build, X, Y, kernel=RBF, **band))


@pytest.mark.parametrize("kernel", [None, RBF])
def test_a_path_over_the_parameters_of_odml(kernel):
    for build in ODMLS:
        problem = build(X, Y, kernel=kernel, **BLEND)
        sx.solve(problem, solver="clarabel")
        for blend in ({"lam2": 3.0, "C": 4.0}, {"lam2": 3.0, "C": 0.2}, {"lam2": 0.0, "C": 60.0}):
            for name, value in blend.items():
                problem.param_dict[name].value = value
            overlap(
                sx.solve(problem, solver="clarabel").certificate,
                certified(build, X, Y, kernel=kernel, lam1=0.8, **blend),
            )


@pytest.mark.parametrize(
    ("build", "keywords"), [(sx.odml_primal, {"C": 3.0}), (sx.odml_hard_margin, {})], ids=["soft", "hard"]
)
def test_the_weight_of_the_variance_is_a_parameter_of_the_primal(build, keywords):
    A, y = separable()
    problem = build(A, y, lam1=0.0, lam2=0.2, **keywords)
    for lam1 in (0.0, 2.0, 300.0):
        problem.lam1.value = lam1
        solution = sx.solve(problem, solver="clarabel")
        assert solution.hyperparameters["lam1"] == lam1
        overlap(solution.certificate, certified(build, A, y, lam1=lam1, lam2=0.2, **keywords))


@pytest.mark.parametrize("kernel", [None, RBF])
def test_names_and_rules(kernel):
    square = kernel is not None
    derived = {"C1_squared"} if square else set()
    problem = sx.odm_primal(X, Y, kernel=kernel, **BAND)
    assert set(problem.var_dict) == {"w", "u", "xi", "epsilon"}
    assert set(problem.param_dict) == {"C1", "C2", "D"}
    assert set(problem.constraint_dict) == {"margins", "lower", "upper"}
    signed, paper = sx.odm_dual(X, Y, kernel=kernel, **BAND), odm_paper(X, Y, kernel=kernel, **BAND)
    assert set(signed.var_dict) == {"eta"}
    assert signed.constraints == []
    assert set(paper.var_dict) == {"zeta_scaled", "beta_scaled"}
    assert set(paper.constraint_dict) == {"zeta_nonnegative", "beta_nonnegative"}
    for dual in (signed, paper):
        assert set(dual.param_dict) == {"C1", "C2", "D", "C1_D", "C1_squared_over_C2"} | derived
    primal = sx.odml_primal(X, Y, kernel=kernel, **BLEND)
    assert set(primal.var_dict) == {"w", "u", "mean", "xi"}
    assert set(primal.param_dict) == {"lam1", "lam2", "C"}
    assert set(primal.constraint_dict) == {"margins", "mean", "margin", "slack"}
    dual = sx.odml_dual(X, Y, kernel=kernel, **BLEND)
    assert set(dual.var_dict) == {"beta"} | (set() if square else {"g"})
    assert set(dual.param_dict) == {"lam2", "C"} | ({"C_squared", "C_lam2", "lam2_squared"} if square else set())
    assert set(dual.constraint_dict) == {"nonnegative", "box"} | (set() if square else {"combination"})
    hard = sx.odml_hard_margin(X, Y, lam1=0.1, lam2=0.1, kernel=kernel)
    assert set(hard.var_dict) == {"w", "u", "mean"}
    assert set(hard.constraint_dict) == {"margins", "mean", "margin"}
    for built in (problem, signed, paper, primal, dual, hard):
        assert built.is_dcp()
        assert built.is_dpp()
        assert built.build_seconds > 0


def test_multipliers_of_the_primal_are_those_of_the_dual():
    primal, dual = sx.odm_primal(X, Y, **BAND), sx.odm_dual(X, Y, **BAND)
    primal.solve(solver=cp.CLARABEL)
    dual.solve(solver=cp.CLARABEL)
    constraints = primal.constraint_dict
    theta = constraints["lower"].dual_value - constraints["upper"].dual_value
    assert np.allclose(theta, dual.theta.value, atol=1e-5)
    primal, dual = sx.odml_primal(X, Y, **BLEND), sx.odml_dual(X, Y, **BLEND)
    primal.solve(solver=cp.CLARABEL)
    dual.solve(solver=cp.CLARABEL)
    assert np.allclose(primal.constraint_dict["margin"].dual_value, dual.alpha.value, atol=1e-5)


def test_a_problem_can_be_extended():
    problem = sx.odm_primal(X, Y, **BAND)
    extended = cp.Problem(problem.objective, [*problem.constraints, problem.var_dict["w"] >= 0.4])
    assert extended.solve(solver=cp.CLARABEL) > problem.solve(solver=cp.CLARABEL)


def test_nothing_is_recovered_before_a_solve():
    for build, keywords in [*ALL, (sx.odml_hard_margin, {"lam1": 0.1, "lam2": 0.1})]:
        assert build(X, Y, **keywords).recover() == ([], [])


# Degenerate data

N = 16
SIGNS = np.resize([-1, 1], N)
CLOUD = np.random.default_rng(9).standard_normal((N, 3)) + 0.5 * SIGNS[:, None]
DEGENERATE = {
    "duplicates": (np.repeat(CLOUD[:4], 4, axis=0), np.repeat(SIGNS[:4], 4)),
    "contradictions": (np.vstack([CLOUD, CLOUD]), np.r_[SIGNS, -SIGNS]),
    "constant column": (np.hstack([CLOUD, np.full((N, 1), 7.0)]), SIGNS),
    "all zero": (np.zeros((N, 2)), SIGNS),
    "one of a class": (CLOUD, np.where(np.arange(N) == 3, 1, -1)),
    "two observations": (CLOUD[:2], SIGNS[:2]),
    "large offset": (CLOUD + 1e5, SIGNS),
    "tiny": (CLOUD * 1e-8, SIGNS),
    "huge": (CLOUD * 1e6, SIGNS),
    "columns of unlike size": (CLOUD * np.array([1e-5, 1.0, 1e3]), SIGNS),
}


@pytest.mark.parametrize("name", DEGENERATE)
@every_builder
def test_degenerate_data_are_certified(build, settings, name):
    A, y = DEGENERATE[name]
    for kernel in (None, sx.RBF(1e-9), sx.RBF(1e6)):
        for intercept in (False, True):
            certified(build, A, y, tol=1e-6, kernel=kernel, intercept=intercept, **settings)


@every_builder
def test_extreme_hyperparameters_are_certified(build, settings):
    for factor in (1e-8, 1e8):
        extreme = {name: value if name == "D" else value * factor for name, value in settings.items()}
        for kernel in (None, RBF):
            certified(build, X, Y, tol=1e-6, kernel=kernel, **extreme)


def test_indefinite_kernels_are_refused_or_clipped():
    kernel = sx.Sigmoid(1.0, -1.0)
    for build, keywords in ALL:
        with pytest.raises(sx.DataError, match="indefinite='clip'"):
            build(X, Y, kernel=kernel, **keywords)
        clipped = certified(build, X, Y, kernel=kernel, indefinite="clip", tol=1e-6, **keywords)
        assert clipped.residuals["clipped_mass"] > 0


# Errors


@pytest.mark.parametrize(
    ("build", "change", "message"),
    [
        (sx.odm_primal, {"C1": 0.0}, r"C1 must be a finite number in \(0, inf\)"),
        (sx.odm_dual, {"C2": -1.0}, r"C2 must be a finite number in \(0, inf\)"),
        (sx.odm_primal, {"D": 1.0}, r"D must be a finite number in \[0, 1\).*would make w = 0 optimal"),
        (sx.odm_dual, {"D": -0.1}, r"D must be a finite number in \[0, 1\)"),
        (sx.odm_dual, {"form": "half"}, "form must be one of 'signed', 'paper', got 'half'"),
        (sx.odm_primal, {"intercept": "yes"}, "intercept must be True .* or False, got 'yes'"),
        (sx.odml_primal, {"lam1": -0.1}, r"lam1 must be a finite number in \[0, inf\).*not convex"),
        (sx.odml_dual, {"lam2": -0.1}, r"lam2 must be a finite number in \[0, inf\)"),
        (sx.odml_dual, {"C": 0}, r"C must be a finite number in \(0, inf\)"),
        (sx.odml_primal, {"C": "1"}, "C must be a number"),
        (sx.odml_hard_margin, {"lam1": math.nan}, "lam1 must be a finite number"),
    ],
)
def test_arguments_out_of_range_are_refused(build, change, message):
    usual = {"odm_primal": BAND, "odm_dual": BAND, "odml_hard_margin": {"lam1": 0.1, "lam2": 0.1}}
    with pytest.raises(sx.DataError, match=message):
        build(X, Y, **{**usual.get(build.__name__, BLEND), **change})


def test_too_large_problems_are_refused(monkeypatch):
    monkeypatch.setattr("svmcvx.system.memory.available", lambda: 10_000)
    monkeypatch.setattr("svmcvx.system.memory.SMALL", 0.0)
    for build, keywords in [*ALL, (sx.odml_hard_margin, {"lam1": 0.1, "lam2": 0.1})]:
        with pytest.raises(sx.BuildError, match=r"ODML? (primal|dual)|hard-margin ODML"):
            build(X, Y, **keywords)
    with pytest.raises(sx.BuildError, match="the matrix of the margin variance in 3 dimensions"):
        _ = MarginHessian(space(np.tile(X, (20, 1)), np.tile(Y, 20)), np.full(720, 1 / 720), 1.0).triangle


# Solutions and estimators


def test_solutions_can_be_pickled_and_stored(tmp_path):
    for build, keywords in ALL:
        solution = sx.solve(build(X, Y, kernel=RBF, **keywords), solver="clarabel")
        again = pickle.loads(pickle.dumps(solution))  # noqa: S301
        assert again.certificate == solution.certificate
        assert solution.formulation in ("odm", "odml")
        assert solution.hyperparameters["intercept"] is False
        solution.model.save(tmp_path / "model.npz")
        loaded = sx.load_model(tmp_path / "model.npz")
        assert np.array_equal(loaded.decision_function(X), solution.model.decision_function(X))


def test_odm_is_sparse_inside_the_band():
    problem = sx.odm_dual(X, Y, C1=500.0, C2=500.0, D=0.5, kernel=RBF)
    solution = sx.solve(problem, solver="clarabel")
    u = Y * solution.model.decision_function(X)
    inside = np.abs(u - 1) < 0.5
    assert inside.any()
    assert set(solution.model.support) == set(np.flatnonzero(~inside))


def test_odml_without_statistics_is_sparse():
    solution = sx.solve(sx.odml_dual(X, Y, lam1=0.0, lam2=0.0, C=20.0), solver="clarabel")
    u = Y * solution.model.decision_function(X)
    assert set(np.flatnonzero(u < 1 - 1e-9)) <= set(solution.model.support) < set(range(Y.size))


@pytest.mark.parametrize(
    "estimator",
    [sx.ODMClassifier(C1=50.0, intercept=False), sx.ODMLClassifier(C=50.0, intercept=False)],
    ids=["odm", "odml"],
)
def test_estimators(estimator, cancer):
    A, y = cancer
    classifier = clone(estimator).set_params(solver="clarabel").fit(A, y)
    assert classifier.certificate_.is_certified(1e-9)
    assert classifier.score(A, y) > 0.9
    assert classifier.coef_.shape == (1, 30)
    assert classifier.intercept_ == 0
    machine = clone(estimator).set_params(solver="clarabel", kernel="rbf", gamma=0.02, intercept=True)
    machine.fit(A[:150], y[:150])
    assert machine.certificate_.is_certified(1e-9)
    assert machine.solution_.hyperparameters["intercept"] is True
    assert machine.score(A[150:], y[150:]) > 0.9


@parametrize_with_checks(
    [sx.ODMClassifier(solver="clarabel", intercept=True), sx.ODMLClassifier(solver="clarabel", intercept=True)],
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_estimators_pass_their_settings_on():
    classifier = sx.ODMClassifier(C1=3.0, C2=0.7, D=0.3, solver="clarabel").fit(X, Y, sample_weight=WEIGHT)
    overlap(
        classifier.certificate_,
        certified(sx.odm_primal, X, Y, C1=3.0, C2=0.7, D=0.3, intercept=True, sample_weight=WEIGHT),
    )
    classifier = sx.ODMLClassifier(lam1=0.9, lam2=0.4, C=7.0, solver="clarabel").fit(X, Y, sample_weight=WEIGHT)
    overlap(
        classifier.certificate_,
        certified(sx.odml_primal, X, Y, lam1=0.9, lam2=0.4, C=7.0, intercept=True, sample_weight=WEIGHT),
    )


def test_models_are_known_by_name():
    parsed = dict(parse_models("odm:D=0.3,odml:lam1=1,C=2", solver="clarabel"))
    assert parsed["odm(D=0.3)"].D == 0.3
    assert parsed["odml(lam1=1, C=2)"].get_params()["C"] == 2
