"""."""

import math
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from sklearn.svm import LinearSVC

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations import margin_distribution as odm
from svmcvx.formulations import margin_distribution as odml
from svmcvx.formulations.margin_distribution import ODML, MarginHessian, ODMLHardMargin, centred
from svmcvx.kernels.entry_error import CLOSEST, FAR
from tests.balls import ball, exact_kernel, precision
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


def space(X, y, kernel=None, weight=None, intercept="none"):
    return feature_space(binary_data(X, y, weight), kernel, intercept=intercept)


def certified(build, X, y, tol=1e-9, **keywords):
    """Solve by the free solver, asked for this gap, and return the certificate, which has to be as
    tight.
    """
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
    loss = (
        sum(s[i] * (C1 * cp.square(xi[i]) + C2 * cp.square(epsilon[i])) for i in range(n)) / s.sum()
    )
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
    assert certificate.upper == pytest.approx(
        plain_odm(gram(X, kernel), Y, s=weight, **BAND), rel=1e-6
    )


@pytest.mark.parametrize("kernel", [None, RBF])
@pytest.mark.parametrize("weight", [None, WEIGHT])
@pytest.mark.parametrize("build", ODMLS)
def test_odml_is_the_problem_of_the_paper(build, weight, kernel):
    certificate = certified(build, X, Y, kernel=kernel, sample_weight=weight, **BLEND)
    assert certificate.upper == pytest.approx(
        plain_odml(gram(X, kernel), Y, s=weight, **BLEND), rel=1e-6
    )


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
    expected = (
        w @ w / 2
        + 0.8 * sum(s * (u - mean) ** 2) / m
        - 0.3 * mean
        + 4.0 / m * sum(s * np.maximum(1 - u, 0))
    )
    assert problem.objective.value == pytest.approx(expected, rel=1e-12)
    assert odml.odml_objective(w @ w, u, share=s / m, **BLEND) == pytest.approx(expected, rel=1e-12)
    assert all(np.max(constraint.violation()) < 1e-12 for constraint in problem.constraints)


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
        svc = LinearSVC(
            loss="hinge", dual=True, C=C / n, fit_intercept=False, tol=1e-10, max_iter=1000000
        )
        w = svc.fit(X, Y).coef_[0]
        theirs = odml.odml_objective(w @ w, Y * (X @ w), lam1=0.0, lam2=0.0, C=C)
        assert certificate.lower <= theirs == pytest.approx(certificate.upper, rel=1e-6)


def test_a_large_weight_of_the_variance_makes_it_small():
    def variance(lam1):
        model = sx.solve(sx.odml_primal(X, Y, lam1=lam1, lam2=1.0, C=4.0), solver="clarabel").model
        return np.var(Y * model.decision_function(X))

    spreads = [variance(lam1) for lam1 in (0.0, 1.0, 100.0)]
    assert spreads[0] > spreads[1] > spreads[2]
    assert spreads[2] < 1e-3


# Certificates


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
    plain = cp.Problem(
        cp.Minimize(cp.sum_squares(w) / 2), [y[i] * (A[i] @ w) >= 1 for i in range(y.size)]
    )
    assert certificate.upper == pytest.approx(plain.solve(solver=cp.CLARABEL), rel=1e-6)


def test_hard_margin_models_have_the_margin():
    A, y = separable()
    for lam2 in (0.0, 40.0):  # with a large weight of the mean no margin is at 1
        solution = sx.solve(sx.odml_hard_margin(A, y, lam1=0.3, lam2=lam2), solver="clarabel")
        assert (y * solution.model.decision_function(A)).min() >= 1 - 1e-12
    statement = ODMLHardMargin(space(A, y), 0.3, 0.0)
    small = sx.LinearModel(
        coef=0.01 * np.ones(3), intercept=0.0, classes=np.array([-1.0, 1.0]), support=np.arange(20)
    )
    assert statement.objective(small) == math.inf
    assert statement.certify(small, solution.dual).gap == math.inf


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
    assert ODMLHardMargin(space(A, y), 0.1, 0.1).explain("stuck") == "the problem is stuck"


# Parameters


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


# Errors


@pytest.mark.parametrize(
    ("build", "change", "message"),
    [
        (
            sx.odm_primal,
            {"D": 1.0},
            r"D must be a finite number in \[0, 1\).*would make w = 0 optimal",
        ),
        (sx.odm_dual, {"D": -0.1}, r"D must be a finite number in \[0, 1\)"),
        (sx.odm_dual, {"form": "half"}, "form must be one of 'signed', 'paper', got 'half'"),
        (sx.odm_primal, {"intercept": "yes"}, "intercept must be .*True .* or False .*, got 'yes'"),
        (sx.odml_primal, {"lam1": -0.1}, r"lam1 must be a finite number in \[0, inf\).*not convex"),
        (sx.odml_dual, {"lam2": -0.1}, r"lam2 must be a finite number in \[0, inf\)"),
        (sx.odml_hard_margin, {"lam1": math.nan}, "lam1 must be a finite number"),
    ],
)
def test_arguments_out_of_range_are_refused(build, change, message):
    usual = {"odm_primal": BAND, "odm_dual": BAND, "odml_hard_margin": {"lam1": 0.1, "lam2": 0.1}}
    with pytest.raises(sx.DataError, match=message):
        build(X, Y, **{**usual.get(build.__name__, BLEND), **change})


def test_too_large_a_curvature_is_refused(monkeypatch):
    monkeypatch.setattr("svmcvx.system.memory.available", lambda: 10_000)
    monkeypatch.setattr("svmcvx.system.memory.SMALL", 0.0)
    with pytest.raises(sx.BuildError, match="the matrix of the margin variance in 3 dimensions"):
        _ = MarginHessian(
            space(np.tile(X, (20, 1)), np.tile(Y, 20)), np.full(720, 1 / 720), 1.0
        ).triangle


# Solutions and estimators


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


precise = precision(500)


def cloud(n=10, d=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.resize([-1, 1], n)
    return rng.standard_normal((n, d)) + 0.8 * y[:, None], y


# Regimes in which the estimates failed


def test_the_bound_of_odml_keeps_its_digits_on_data_with_an_offset():
    X, y = cloud(60, 3)
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
@pytest.mark.parametrize("n", [3, 7, 10, 49])
def test_the_box_holds_for_the_real_product(C, n):
    X, y = cloud(n)
    rng = np.random.default_rng(n)
    for weight in (None, np.full(n, 0.3), rng.random(n), 10.0 ** rng.uniform(-12, 12, n)):
        statement = ODML(
            feature_space(binary_data(X, y, weight), None, intercept="none"), 1.0, 0.0, C
        )
        s = [Fraction(v) for v in statement.weight.tolist()]
        exact = [Fraction(C) * v / sum(s) for v in s]
        found = statement.upper_bound()
        assert all(Fraction(a) <= b for a, b in zip(found.tolist(), exact, strict=True))
        least = Fraction(1e-322)
        assert all(
            Fraction(a) >= b * (1 - Fraction(1, 10**14)) - least
            for a, b in zip(found.tolist(), exact, strict=True)
        )
        beyond = {"alpha": np.nextafter(found, np.inf) * (1.0 + 1e-14) + 1e-321, "tau": np.zeros(n)}
        assert statement.dual_violation(beyond) > 0
        assert statement.dual_violation({"alpha": found, "tau": np.zeros(n)}) == 0


def test_a_sum_that_is_not_exactly_zero_is_a_violation():
    X, y = cloud(4)
    statement = ODML(feature_space(binary_data(X, y), None, intercept="none"), 1.0, 0.0, 1.0)
    tau = np.array([1.0, -1.0, 2.0**-1000, 0.0])
    assert statement.dual_violation({"alpha": np.zeros(4), "tau": tau}) > 0
    assert (
        statement.dual_violation({"alpha": np.zeros(4), "tau": tau - [0.0, 0.0, 2.0**-1000, 0.0]})
        == 0
    )


# Rows that are far out for a kernel


@pytest.mark.parametrize("factor", [1e-4, 0.3, 1.01, 3.0, 1e4, 1e12])
def test_entries_of_rows_that_are_far_out(factor):
    """On either side of the exponent from which rows have no relative error, and of the distance
    computed from differences.
    """
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 2))
    A /= np.linalg.norm(A, axis=1)[:, None]
    step = math.sqrt(CLOSEST)
    B = np.vstack([A[:3] * (1.0 + step * size) for size in (0.0, 0.5, 1.9, 2.1, 3.0)])
    gamma = factor * FAR
    for kernel in (sx.RBF(gamma), sx.Exponential(math.sqrt(gamma)), sx.Exponential(gamma)):
        values, error = kernel.bounded_block(A, B)
        bound = error.matrix(values)
        for i in range(A.shape[0]):
            for j in range(B.shape[0]):
                assert not abs(exact_kernel(kernel, A[i], B[j]) - ball(values[i, j])) > ball(
                    bound[i, j]
                )
        assert bound.max() < 1e-6 or kernel.name == "exponential"
