"""The conic loss: the semidefinite relaxation against independent statements, its two intervals, and degenerate data."""

import itertools
import math
import pickle

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import svmcvx as sx
from svmcvx.certificate import check
from svmcvx.data import binary_data
from svmcvx.errors import BuildError, DataError, NotCertified, SolverFailed
from svmcvx.feature_space import feature_space
from svmcvx.formulations.conic_loss import dual as conic_dual
from svmcvx.formulations.conic_loss import primal as conic_primal
from svmcvx.formulations.conic_loss.recovery import moment_of
from svmcvx.formulations.conic_loss.relaxation import relaxation
from svmcvx.formulations.conic_loss.sdp import semidefinite_rows
from svmcvx.heuristics.rounding import round_relaxation
from svmcvx.losses import conic_loss, conic_loss_derivative
from tests.conftest import make_data

REAL = (0, 1, 2)


def solve(X, y, **settings):
    return sx.solve(sx.conic_sdp(X, y, **settings), solver="clarabel")


def value(solution):
    """The optimum, to the accuracy of the certificate."""
    assert solution.certificate.is_certified(1e-6)
    return solution.certificate.upper


def agree(a, b, tol=1e-6):
    assert value(a) == pytest.approx(value(b), rel=tol, abs=tol)


def rows(X, intercept=True):
    return np.hstack([X, np.ones((len(X), 1))]) if intercept else np.asarray(X, dtype=float)


def theorem_2(X, y, lam=None, kappa=None):
    """The semidefinite program of Theorem 2, one constraint at a time, from [CepedaGomezHan] alone."""
    n, p = X.shape
    M = cp.Variable((p + 1, p + 1), symmetric=True)
    z = cp.Variable(n)
    w, W = M[0, 1:], M[1:, 1:]
    constraints = [M >> 0, M[0, 0] == 1, z >= 0, z <= 1]
    for i in range(n):
        u = y[i] * (X[i] @ w)
        squares = cp.quad_over_lin(cp.pos(1 - u), z[i]) + cp.quad_over_lin(cp.pos(u - 1), 1 - z[i])
        constraints.append(cp.trace(np.outer(X[i], X[i]) @ W) - 2 * u + 1 >= squares)
    if kappa is not None:
        constraints.append(cp.sum(z) <= kappa * n)
    problem = cp.Problem(cp.Minimize(cp.trace(W) + (0 if lam is None else lam) * cp.sum(z)), constraints)
    problem.solve(solver="CLARABEL")
    return problem.value


def least_norm_by_cvxpy(A):
    w = cp.Variable(A.shape[1])
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w)), [A @ w >= 1])
    problem.solve(solver="CLARABEL")
    return problem.value if problem.status in ("optimal", "optimal_inaccurate") else math.inf


def zero_one_by_enumeration(X, y, *, lam=None, k=None):
    """The 0-1 optimum over all sets of observations that are dropped."""
    A, n = y[:, None] * X, len(y)
    best = math.inf
    for size in range(n + 1):
        if (k is not None and size > k) or (lam is not None and lam * size >= best):
            break
        for dropped in itertools.combinations(range(n), size):
            kept = [i for i in range(n) if i not in dropped]
            norm = least_norm_by_cvxpy(A[kept]) if kept else 0.0
            best = min(best, norm + (0.0 if lam is None else lam * size))
    return best


@pytest.fixture(scope="module")
def real():
    from sklearn.datasets import load_breast_cancer
    from sklearn.preprocessing import scale

    X, y = load_breast_cancer(return_X_y=True)
    picked = [np.random.default_rng(seed).permutation(len(y))[:100] for seed in REAL]
    return [(scale(X[index, :10]), y[index]) for index in picked]


# --- the program, against [CepedaGomezHan]


@pytest.mark.parametrize("settings", [{"lam": 0.3}, {"lam": 3.0}, {"kappa": 0.2}], ids=str)
@pytest.mark.parametrize("form", ["reduced", "paper"])
def test_both_forms_equal_theorem_2_written_from_the_paper(settings, form):
    X, y = make_data(3, n=12, d=2)
    ours = solve(X, y, form=form, **settings)
    assert value(ours) == pytest.approx(theorem_2(rows(X), y, **settings), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("seed", REAL)
@pytest.mark.parametrize("settings", [{"lam": 0.01}, {"lam": 1.0}, {"lam": 100.0}, {"kappa": 0.1}], ids=str)
def test_both_forms_are_certified_on_real_data_and_agree(real, seed, settings):
    X, y = real[seed]
    reduced, paper = solve(X, y, **settings), solve(X, y, form="paper", **settings)
    agree(reduced, paper)


def test_the_numpy_objective_is_the_cvxpy_one():
    X, y = make_data(1, n=30, d=3)
    problem = sx.conic_sdp(X, y, lam=0.7)
    problem.solve(solver="CLARABEL")
    w, W = problem.w.value, problem.W.value
    u = y * (rows(X) @ w)
    v = np.einsum("ij,jk,ik->i", rows(X), W - np.outer(w, w), rows(X))
    ours = conic_primal.objective(w @ w, np.trace(W) - w @ w, u, np.maximum(v, 0), lam=0.7)
    assert ours == pytest.approx(problem.value, rel=1e-6)


def test_without_an_intercept_the_constant_feature_can_be_given_as_data():
    X, y = make_data(2, n=30, d=2)
    agree(solve(X, y, lam=0.5), solve(rows(X), y, lam=0.5, intercept=False))


@pytest.mark.parametrize("lam", [0.1, 2.0])
def test_kappa_and_its_multiplier_state_the_same_problem(lam):
    X, y = make_data(5, n=40, d=2)
    penalised = solve(X, y, lam=lam)
    found = relaxation(penalised)
    share = found.z.mean()
    assert 0 < share < 0.5
    constrained = solve(X, y, kappa=share)
    assert value(constrained) + lam * found.z.sum() == pytest.approx(value(penalised), rel=1e-6)
    assert relaxation(constrained).lam == pytest.approx(lam, rel=1e-3)
    assert np.nansum(relaxation(constrained).z) <= share * 40 * (1 + 1e-9)


def test_the_sum_of_relaxed_indicators_falls_as_lambda_rises():
    X, y = make_data(6, n=40, d=3)
    problem = sx.conic_sdp(X, y, lam=1.0)
    sums = []
    for lam in (0.01, 0.1, 1.0, 10.0):
        problem.lam.value = lam
        sums.append(relaxation(sx.solve(problem, solver="clarabel")).z.sum())
    assert sums == sorted(sums, reverse=True)


# --- kernels


def test_a_linear_kernel_equals_the_linear_form():
    X, y = make_data(7, n=24, d=3)
    for setting in ({"lam": 0.5}, {"lam": 0.5, "intercept": False}, {"kappa": 0.15}):
        agree(solve(X, y, **setting), solve(X, y, kernel=sx.Linear(), **setting))


def test_a_precomputed_kernel_equals_the_kernel_and_predicts_alike():
    X, y = make_data(8, n=20, d=2)
    kernel = sx.RBF(gamma=0.5)
    direct, precomputed = solve(X, y, lam=0.8, kernel=kernel), solve(kernel(X, X), y, lam=0.8, kernel="precomputed")
    agree(direct, precomputed)
    scores = direct.model.decision_function(X)
    np.testing.assert_allclose(scores, precomputed.model.decision_function(kernel(X, X)), atol=1e-3)


def test_more_columns_than_rows():
    rng = np.random.default_rng(9)
    X, y = rng.standard_normal((12, 30)), np.tile([-1, 1], 6)
    agree(solve(X, y, lam=0.05), solve(X, y, lam=0.05, kernel="linear"))


def test_an_indefinite_kernel_is_refused_or_clipped():
    X, y = make_data(10, n=16, d=2)
    with pytest.raises(DataError, match="indefinite"):
        sx.conic_sdp(X, y, lam=1.0, kernel=sx.Sigmoid(1.0, 1.0))
    clipped = solve(X, y, lam=1.0, kernel=sx.Sigmoid(1.0, 1.0), indefinite="clip")
    assert clipped.certificate.is_certified(1e-6)
    assert clipped.certificate.residuals["clipped_mass"] > 0


# --- the two intervals


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_zero_one_optimum_lies_between_bound_and_rounding(seed):
    X, y = make_data(seed, n=8, d=2, overlap=1.5)
    for lam in (0.5, 2.0):
        certificate = solve(X, y, lam=lam).certificate
        exact = zero_one_by_enumeration(rows(X), y, lam=lam)
        assert certificate.lower <= exact * (1 + 1e-6)
        assert certificate.residuals["zero_one_lower"] == pytest.approx(certificate.lower, rel=1e-9)
        assert exact * (1 - 1e-6) <= certificate.residuals["zero_one_upper"]
        assert certificate.upper <= certificate.residuals["zero_one_upper"] * (1 + 1e-9)


def test_the_zero_one_optimum_with_a_cardinality_lies_between_bound_and_rounding():
    X, y = make_data(4, n=8, d=2, overlap=1.5)
    certificate = solve(X, y, kappa=0.375).certificate
    exact = zero_one_by_enumeration(rows(X), y, k=3)
    assert certificate.lower <= exact * (1 + 1e-6)
    assert exact * (1 - 1e-6) <= certificate.residuals["zero_one_upper"]


def test_rounding_finds_the_optimum_of_small_problems_more_often_than_not():
    hits = 0
    for seed in range(4):
        X, y = make_data(seed, n=8, d=2, overlap=1.5)
        found = solve(X, y, lam=1.0).certificate.residuals["zero_one_upper"]
        hits += found <= zero_one_by_enumeration(rows(X), y, lam=1.0) * (1 + 1e-5)
    assert hits >= 3


def test_a_tight_relaxation_solves_the_zero_one_problem():
    X, y = make_data(0, n=20, d=2, overlap=0.2)
    solution = solve(X, y, lam=10.0)
    residuals = solution.certificate.residuals
    assert residuals["zero_one_upper"] - residuals["zero_one_lower"] <= 1e-6
    found = relaxation(solution)
    assert found.spectrum.size == 1
    np.testing.assert_array_equal(found.z, 0)
    assert value(solution) == pytest.approx(least_norm_by_cvxpy(y[:, None] * rows(X)), rel=1e-6)


def test_the_rounding_is_what_its_value_says():
    X, y = make_data(11, n=40, d=2)
    space = feature_space(binary_data(X, y), None, intercept="penalised")
    found = relaxation(solve(X, y, lam=0.5))
    for setting in ({"lam": 0.5}, {"k": 8}):
        w, reached = round_relaxation(space, found.w, found.z, **setting)
        missed = int((y * (space.factor @ w) < 1).sum())
        assert reached == pytest.approx(w @ w + setting.get("lam", 0.0) * missed, rel=1e-12)
        assert missed <= setting.get("k", 40)
    with pytest.raises(DataError, match="exactly one of lam and k"):
        round_relaxation(space, found.w, found.z)


def test_rounding_with_nothing_to_drop_is_the_hard_margin():
    X, y = make_data(12, n=20, d=2, overlap=0.2)
    space = feature_space(binary_data(X, y), None, intercept="penalised")
    w, reached = round_relaxation(space, np.zeros(3), np.zeros(20), k=0)
    assert reached == pytest.approx(least_norm_by_cvxpy(y[:, None] * rows(X)), rel=1e-6)
    assert (y * (space.factor @ w) >= 1).all()
    noisy = np.where(np.arange(20) < 2, -y, y)
    assert (
        round_relaxation(
            feature_space(binary_data(np.vstack([X, X]), np.r_[y, noisy]), None, intercept="penalised"),
            w,
            np.zeros(40),
            k=0,
        )[1]
        == math.inf
    )


# --- the dual


def strong_convexity_bound(gamma, X, y, lam, w):
    """q(w) − ‖g‖²/(4μ), a bound by the strong convexity of q alone, without the package's dual."""
    mu = 1 - np.linalg.eigvalsh(X.T @ (gamma[:, None] * X))[-1]
    assert mu > 0
    u = y * (X @ w)
    gradient = 2 * w + X.T @ (y * conic_loss_derivative(u, gamma, lam))
    return w @ w + conic_loss(u, gamma, lam).sum() - gradient @ gradient / (4 * mu)


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), lam=st.floats(0.01, 30.0))
def test_any_gamma_bounds_and_never_less_than_strong_convexity_does(seed, lam):
    rng = np.random.default_rng(seed)
    X, y = make_data(seed, n=15, d=2)
    A = rows(X)
    gamma = rng.exponential(size=15) * (rng.random(15) < 0.7)
    gamma /= 1.5 * max(np.linalg.eigvalsh(A.T @ (gamma[:, None] * A))[-1], 1e-9)
    statement = sx.conic_sdp(X, y, lam=lam).formulation
    bound = statement.dual_objective({"gamma": gamma})
    # A point near the minimiser of q, from a method that knows nothing of the package's.
    start = minimize(lambda w: w @ w + conic_loss(y * (A @ w), gamma, lam).sum(), np.zeros(3), method="Nelder-Mead").x
    assert strong_convexity_bound(gamma, A, y, lam, start) <= bound + 1e-9 * lam * 15
    for _ in range(5):
        w = rng.standard_normal(3)
        q = w @ w + conic_loss(y * (A @ w), gamma, lam).sum()
        assert bound <= q + 1e-9 * max(1.0, q)
        assert bound <= w @ w + lam * (y * (A @ w) < 1).sum() + 1e-9


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_no_dual_point_exceeds_any_primal_point(seed):
    rng = np.random.default_rng(seed)
    X, y = make_data(seed, n=12, d=2)
    for setting in ({"lam": float(rng.exponential())}, {"kappa": float(rng.uniform(0.05, 0.5))}):
        statement = sx.conic_sdp(X, y, **setting).formulation
        dual = {"gamma": rng.standard_normal(12), "alpha": rng.standard_normal(12), "lam": np.array(rng.exponential())}
        repaired = statement.repair(dual)
        assert statement.dual_violation(repaired) == 0
        bound = statement.dual_objective(repaired)
        for size in (0.0, 1.0, 10.0):
            model = statement.model(rng.standard_normal(3) * size, rng.standard_normal((3, 2)) * size)
            assert bound <= statement.objective(model) + 1e-9


def test_the_bound_by_gamma_alone_is_tight():
    X, y = make_data(13, n=60, d=3)
    solution = solve(X, y, lam=0.5)
    statement = sx.conic_sdp(X, y, lam=0.5).formulation
    certificate = statement.certify(solution.model, {"gamma": solution.dual["gamma"]})
    assert certificate.is_certified(1e-6)


def test_the_checker_evaluates_the_dual_objective_as_written():
    X, y = make_data(14, n=30, d=2)
    solution = solve(X, y, lam=0.5)
    gamma, alpha = solution.dual["gamma"] * 0.9, solution.dual["alpha"] * 0.9
    statement = sx.conic_sdp(X, y, lam=0.5).formulation
    assert statement.dual_objective({"gamma": gamma, "alpha": alpha}) == pytest.approx(
        conic_dual.dual_objective(gamma, alpha, rows(X), y.astype(float), lam=0.5), rel=1e-10
    )


def test_at_the_optimum_gamma_follows_from_the_primal_point():
    X, y = make_data(15, n=40, d=2)
    found = relaxation(solve(X, y, lam=0.5))
    A = rows(X)
    u = y * (A @ found.w)
    t = np.einsum("ij,jk,ik->i", A, found.W, A) - 2 * u + 1
    np.testing.assert_allclose(found.gamma, 0.5 * np.maximum(1 - u, 0) ** 2 / t**2, atol=1e-4)
    np.testing.assert_allclose(found.z, np.maximum(1 - u, 0) ** 2 / t, atol=1e-8)
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvalsh(found.W))[::-1][: found.spectrum.size], found.spectrum, atol=1e-10
    )
    assert np.linalg.eigvalsh(A.T @ (found.gamma[:, None] * A))[-1] < 1


def test_an_infeasible_dual_point_bounds_nothing_unless_repaired():
    X, y = make_data(16, n=20, d=2)
    statement = sx.conic_sdp(X, y, lam=1.0).formulation
    model = statement.model(np.zeros(3), np.zeros((3, 0)))
    dual = {"gamma": np.full(20, 10.0)}
    # What is left is the bound that needs no solver.
    assert statement.certify(model, dual, repair=False).lower == 0
    assert statement.dual_violation(dual) > 0
    assert statement.certify(model, dual).lower > 0
    assert check(statement, [model], []).certificate.lower == 0
    with pytest.raises(DataError, match="needs the entry 'gamma', got alpha"):
        statement.certify(model, {"alpha": np.zeros(20)})
    with pytest.raises(DataError, match=r"expected shape \(20,\), got \(3,\)"):
        statement.certify(model, {"gamma": np.zeros(3)})
    with pytest.raises(DataError, match="needs the entry 'lam'"):
        sx.conic_sdp(X, y, kappa=0.1).formulation.certify(model, {"gamma": np.zeros(20)})


def test_a_rough_answer_still_gets_a_true_interval():
    X, y = make_data(17, n=40, d=3)
    rough = sx.solve(sx.conic_sdp(X, y, lam=1.0), solver="clarabel", solver_options={"max_iter": 6})
    exact = value(solve(X, y, lam=1.0))
    assert rough.certificate.lower <= exact * (1 + 1e-7)
    assert exact * (1 - 1e-7) <= rough.certificate.upper


# --- γ given


@pytest.mark.parametrize("kernel", [None, sx.RBF(gamma=0.5)], ids=["linear", "rbf"])
def test_the_cone_program_at_the_best_gamma_reaches_the_relaxation(kernel):
    X, y = make_data(18, n=24, d=2)
    whole = solve(X, y, lam=0.7, kernel=kernel)
    fixed = sx.solve(
        sx.conic_fixed_gamma(X, y, gamma=relaxation(whole).gamma, lam=0.7, kernel=kernel), solver="clarabel"
    )
    agree(whole, fixed)


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), lam=st.floats(0.05, 5.0))
def test_the_cone_program_minimises_norm_plus_conic_loss(seed, lam):
    rng = np.random.default_rng(seed)
    X, y = make_data(seed, n=15, d=2)
    A = rows(X)
    gamma = rng.exponential(size=15) * (rng.random(15) < 0.7) + 1e-6
    gamma /= 1.3 * np.linalg.eigvalsh(A.T @ (gamma[:, None] * A))[-1]
    solution = sx.solve(sx.conic_fixed_gamma(X, y, gamma=gamma, lam=lam), solver="clarabel")

    def q(w):
        return w @ w + conic_loss(y * (A @ w), gamma, lam).sum()

    tries = [
        minimize(q, rng.standard_normal(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun
        for _ in range(3)
    ]
    assert value(solution) == pytest.approx(min(tries), rel=1e-5, abs=1e-6)
    model = solution.model
    assert q(np.r_[model.coef, model.intercept]) == pytest.approx(value(solution), rel=1e-9)


def test_gamma_is_checked():
    X, y = make_data(19, n=10, d=2)
    with pytest.raises(DataError, match=r"non-convex: the largest eigenvalue .* divide gamma by it"):
        sx.conic_fixed_gamma(X, y, gamma=10.0, lam=1.0)
    with pytest.raises(DataError, match=r"gamma must hold one number an observation: expected shape \(10,\)"):
        sx.conic_fixed_gamma(X, y, gamma=[1.0, 2.0], lam=1.0)
    with pytest.raises(DataError, match="gamma must be finite and non-negative"):
        sx.conic_fixed_gamma(X, y, gamma=-1.0, lam=1.0)
    nothing = sx.solve(sx.conic_fixed_gamma(X, y, gamma=0.0, lam=1.0), solver="clarabel")
    assert abs(value(nothing)) <= 1e-12


# --- added constraints


PRIMALS = {
    "sdp": lambda X, y: sx.conic_sdp(X, y, lam=0.7),
    "sdp, form of the paper": lambda X, y: sx.conic_sdp(X, y, lam=0.7, form="paper"),
    "sdp, kappa": lambda X, y: sx.conic_sdp(X, y, kappa=0.1),
    "sdp, kernel": lambda X, y: sx.conic_sdp(X, y, lam=0.7, kernel=sx.RBF(gamma=0.5)),
    "fixed gamma": lambda X, y: sx.conic_fixed_gamma(X, y, gamma=1e-3, lam=0.7),
    "fixed gamma, kernel": lambda X, y: sx.conic_fixed_gamma(X, y, gamma=1e-2, lam=0.7, kernel=sx.RBF(gamma=0.5)),
}


@pytest.fixture(params=PRIMALS)
def primal(request):
    return PRIMALS[request.param](*make_data(35, n=24, d=2))


def test_an_inactive_added_constraint_changes_nothing(primal):
    base = sx.solve(primal, solver="clarabel")
    found = sx.solve(primal.with_constraints([primal.w <= 1e3]), solver="clarabel")
    agree(found, base)
    assert found.certificate.residuals["added_violation"] == 0


def test_an_active_added_constraint_is_met_by_the_model(primal):
    base = sx.solve(primal, solver="clarabel")
    normal = np.array(primal.w.value)
    size = 0.5 * float(normal @ normal)
    larger = primal.with_constraints([normal @ primal.w >= 3.0 * size])
    found = sx.solve(larger, solver="clarabel", tol=1e-6)
    certificate = found.certificate
    assert certificate.residuals["added_violation"] <= 1e-6
    assert normal @ primal.w.value >= 3.0 * size - 1e-6
    # The model is that of the variables, and the objective at it that of the problem.
    model, statement = primal.model_at_variables(), primal.formulation
    # The variables hold the last attempt, the solution the best one.
    np.testing.assert_allclose(
        model.decision_function(statement.space.data.X),
        found.model.decision_function(statement.space.data.X),
        atol=1e-6,
    )
    assert certificate.upper == pytest.approx(larger.value, rel=1e-5)
    assert certificate.upper > base.certificate.upper * (1 + 1e-4)
    assert certificate.lower <= base.certificate.upper
    assert statement.objective(found.model) == pytest.approx(certificate.upper, rel=1e-9)


def test_the_model_at_the_variables_is_exactly_theirs(primal):
    assert primal.model_at_variables() is None
    primal.solve(solver="CLARABEL")
    model, space = primal.model_at_variables(), primal.formulation.space
    scores = model.scores(space.data.X).value
    np.testing.assert_allclose(scores, space.factor @ primal.w.value, rtol=1e-9, atol=1e-9)
    moment = moment_of(model)
    if moment is not None:
        np.testing.assert_array_equal(moment.w, primal.w.value)
        np.testing.assert_allclose(moment.W, primal.W.value, rtol=1e-6, atol=1e-6)


def test_a_constraint_added_behind_the_statement_is_refused(primal):
    primal._constraints.append(primal.w[0] == 0)
    with pytest.raises(BuildError, match="were changed after it was built"):
        sx.solve(primal)


def test_the_rows_are_those_of_the_program():
    X, y = make_data(36, n=20, d=2)
    for form in ("reduced", "paper"):
        part = semidefinite_rows(rows(X), y.astype(float), form=form)
        problem = cp.Problem(cp.Minimize(cp.trace(part.W) + 0.7 * cp.sum(part.z)), part.constraints)
        problem.solve(solver="CLARABEL")
        assert problem.value == pytest.approx(value(solve(X, y, lam=0.7, form=form)), rel=1e-6)


# --- invariances


@pytest.mark.parametrize("setting", [{"lam": 0.6}, {"kappa": 0.15}], ids=str)
def test_labels_order_and_repetition_do_not_matter(setting):
    X, y = make_data(20, n=20, d=2)
    base = solve(X, y, **setting)
    order = np.random.default_rng(0).permutation(20)
    agree(base, solve(X, -y, **setting))
    agree(base, solve(X[order], y[order], **setting))
    repeats = np.arange(20) % 3
    agree(
        solve(X, y, sample_weight=repeats, **setting),
        solve(np.repeat(X, repeats, axis=0), np.repeat(y, repeats), **setting),
    )


def test_weights_are_exported_like_the_data_passed():
    X, y = make_data(21, n=20, d=2)
    weight = np.where(np.arange(20) < 5, 0.0, 2.0)
    solution = solve(X, y, lam=0.5, sample_weight=weight)
    agree(solution, solve(X[5:], y[5:], lam=1.0))
    found = relaxation(solution)
    assert np.isnan(found.z[:5]).all()
    assert np.isfinite(found.z[5:]).all()
    np.testing.assert_array_equal(found.gamma[:5], 0)
    statement = sx.conic_sdp(X, y, lam=0.5, sample_weight=weight).formulation
    assert statement.certify(solution.model, solution.dual).is_certified(1e-6)


@settings(max_examples=6)
@given(factor=st.sampled_from([1e-3, 0.1, 10.0, 1e3]))
def test_scaling_the_data_scales_lambda(factor):
    X, y = make_data(22, n=20, d=2)
    scaled = solve(X * factor, y, lam=0.5, intercept=False)
    base = solve(X, y, lam=0.5 * factor**2, intercept=False)
    assert scaled.certificate.upper * factor**2 == pytest.approx(base.certificate.upper, rel=1e-5, abs=2e-6 * factor**2)


def test_sparse_data_equal_dense_data():
    X, y = make_data(23, n=30, d=4)
    X = X * (np.abs(X) > 0.5)
    dense, sparse = solve(X, y, lam=0.5), solve(sp.csr_array(X), y, lam=0.5)
    agree(dense, sparse)


# --- degenerate data and extreme settings


@pytest.mark.parametrize("lam", [1e-12, 1e-4, 1e4, 1e8])
def test_extreme_lambda(lam):
    X, y = make_data(24, n=30, d=2)
    certificate = solve(X, y, lam=lam).certificate
    assert certificate.gap <= 1e-6
    if lam <= 1e-4:
        assert certificate.upper == pytest.approx(30 * lam, rel=1e-9)


@pytest.mark.parametrize("offset", [1e2, 1e4, 1e6])
def test_offsets_of_the_features(offset):
    X, y = make_data(25, n=30, d=2)
    assert solve(X + offset, y, lam=1.0).certificate.is_certified(1e-6)


DEGENERATE = {
    "contradiction": (np.array([[0.0, 1.0], [0.0, 1.0]]), [0, 1]),
    "two points": (np.array([[0.0], [1.0]]), [0, 1]),
    "no information": (np.zeros((6, 2)), [0, 1] * 3),
    "constant columns": (np.column_stack([make_data(1, n=12, d=2)[0], np.ones(12), np.zeros(12)]), [0, 1] * 6),
    "one point in a class": (make_data(2, n=12, d=2)[0], [1] + [0] * 11),
    "duplicates": (np.repeat(make_data(3, n=6, d=2)[0], 3, axis=0), np.repeat([0, 1] * 3, 3)),
    "strings": (make_data(4, n=8, d=1)[0], ["no", "yes"] * 4),
}


@pytest.mark.parametrize("name", DEGENERATE)
@pytest.mark.parametrize("setting", [{"lam": 1.0}, {"kappa": 0.5}], ids=str)
@pytest.mark.parametrize("kernel", [None, sx.RBF(gamma=1.0)], ids=["linear", "rbf"])
def test_degenerate_data_are_certified(name, setting, kernel):
    X, y = DEGENERATE[name]
    solution = solve(X, y, kernel=kernel, **setting)
    assert solution.certificate.is_certified(1e-6)
    assert set(solution.model.predict(X)) <= set(y)


def test_rows_of_zeros_without_an_intercept():
    X, y = np.zeros((6, 2)), [0, 1] * 3
    assert value(solve(X, y, lam=1.0, intercept=False)) == pytest.approx(6.0)
    with pytest.raises(SolverFailed, match=r"no hyperplane keeps all but a share of 0\.3 .* allow an intercept"):
        solve(X, y, kappa=0.3, intercept=False)


def test_kappa_zero_is_the_hard_margin():
    X, y = make_data(26, n=20, d=2, overlap=0.2)
    assert value(solve(X, y, kappa=0.0)) == pytest.approx(least_norm_by_cvxpy(y[:, None] * rows(X)), rel=1e-6)
    with pytest.raises(DataError, match="kappa = 0 allows no margin below 1, and the two classes are not separable"):
        sx.conic_sdp(np.vstack([X, X]), np.r_[y, -y], kappa=0.0)


def test_arguments_are_checked():
    X, y = make_data(27, n=10, d=2)
    cases = [
        ({}, "exactly one of lam and kappa, got neither"),
        ({"lam": 1.0, "kappa": 0.1}, "exactly one of lam and kappa, got both"),
        ({"lam": 0.0}, r"lam must be a finite number in \(0, inf\)"),
        ({"kappa": 0.6}, r"kappa must be a finite number in \[0, 0\.5\]"),
        ({"kappa": -0.1}, "kappa must be"),
        ({"lam": 1.0, "form": "dual"}, "form must be one of 'reduced', 'paper', got 'dual'"),
        ({"lam": 1.0, "intercept": "yes"}, "intercept must be True"),
    ]
    for setting, text in cases:
        with pytest.raises(DataError, match=text):
            sx.conic_sdp(X, y, **setting)
    with pytest.raises(DataError, match="lam must be"):
        sx.conic_fixed_gamma(X, y, gamma=0.0, lam=-1.0)


def test_a_model_of_other_data_is_refused():
    X, y = make_data(28, n=20, d=2)
    solution = solve(X, y, lam=0.5)
    other = sx.conic_sdp(X, y, lam=0.5, intercept=False).formulation
    with pytest.raises(DataError, match="second moment of the model has 3 rows, these data need 2"):
        other.certify(solution.model)


# --- names, parameters, models


def test_names_are_fixed():
    X, y = make_data(29, n=10, d=2)
    reduced, paper = sx.conic_sdp(X, y, lam=1.0), sx.conic_sdp(X, y, kappa=0.2, form="paper")
    fixed = sx.conic_fixed_gamma(X, y, gamma=0.001, lam=1.0)
    assert set(reduced.var_dict) == {"w_scaled", "W_scaled", "z", "t", "m"}
    assert set(paper.var_dict) == {"w_scaled", "W_scaled", "z", "t", "m", "n", "a", "b"}
    assert set(fixed.var_dict) == {"w_scaled", "z", "a", "m", "n"}
    assert set(reduced.param_dict) == {"lam"}
    assert set(paper.param_dict) == {"kappa"}
    assert set(fixed.param_dict) == {"lam"}
    assert set(reduced.constraint_dict) == {"moment", "margin", "slack", "semidefinite", "cone"}
    more = {"cardinality", "box_low", "box_high", "beyond", "excess", "split", "cone_beyond"}
    assert set(paper.constraint_dict) == set(reduced.constraint_dict) | more
    assert set(fixed.constraint_dict) == {"margin", "slack", "beyond", "excess", "box_high", "cone"}
    for problem in (reduced, paper, fixed):
        assert problem.is_dcp(dpp=True)
        assert problem.build_seconds > 0


def test_a_new_value_of_a_parameter_is_solved_without_a_new_build():
    X, y = make_data(30, n=20, d=2)
    problem = sx.conic_sdp(X, y, lam=1.0)
    sx.solve(problem, solver="clarabel")
    problem.lam.value = 0.2
    again = sx.solve(problem, solver="clarabel")
    assert again.hyperparameters == {"lam": 0.2, "kernel": "none"}
    agree(again, solve(X, y, lam=0.2))
    problem = sx.conic_sdp(X, y, kappa=0.1)
    problem.kappa.value = 0.3
    agree(sx.solve(problem, solver="clarabel"), solve(X, y, kappa=0.3))


def test_plain_solve_and_relaxation_of_the_problem():
    X, y = make_data(31, n=30, d=2)
    problem = sx.conic_sdp(X, y, lam=0.5)
    with pytest.raises(DataError, match="has no values yet"):
        relaxation(problem)
    problem.solve(solver="CLARABEL")
    mine, other = relaxation(problem), relaxation(solve(X, y, lam=0.5))
    np.testing.assert_allclose(mine.W, other.W, atol=1e-5)
    assert mine.zero_one[0] <= mine.zero_one[1]
    with pytest.raises(DataError, match="without a second moment"):
        relaxation(sx.solve(sx.psvm_dual(X, y, C=1.0, p=2), solver="clarabel"))


@pytest.mark.parametrize("kernel", [None, sx.RBF(gamma=0.5)], ids=["linear", "rbf"])
def test_models_predict_save_and_pickle_like_any_other(kernel, tmp_path):
    X, y = make_data(32, n=20, d=2)
    solution = solve(X, y, lam=0.5, kernel=kernel)
    model = solution.model
    assert isinstance(model, sx.LinearModel if kernel is None else sx.KernelModel)
    model.save(tmp_path / "model.npz")
    loaded = sx.load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.decision_function(X), model.decision_function(X))
    kept = pickle.loads(pickle.dumps(solution))  # noqa: S301
    np.testing.assert_array_equal(relaxation(kept).W, relaxation(solution).W)
    # The stored model has no covariance: at W = ww' the objective is that of the 0-1 problem.
    statement = sx.conic_sdp(X, y, lam=0.5, kernel=kernel).formulation
    assert statement.objective(loaded) == pytest.approx(statement.zero_one(model).value)
    assert statement.objective(loaded) >= value(solution)


def test_a_model_that_drops_too_many_is_infeasible_for_kappa():
    X, y = make_data(33, n=20, d=2)
    statement = sx.conic_sdp(X, y, kappa=0.1).formulation
    assert statement.objective(statement.model(np.zeros(3), np.zeros((3, 0)))) == math.inf


def test_a_loose_answer_does_not_pass_for_certified():
    X, y = make_data(34, n=20, d=2)
    statement = sx.conic_sdp(X, y, lam=1.0).formulation
    with pytest.raises(NotCertified, match="relative gap"):
        statement.certify(statement.model(np.zeros(3), np.zeros((3, 0)))).require(1e-6)


def test_the_estimator():
    X, y = sx.synthetic.outlier_data(60, 2, sigma=0.2, outliers="clustered", seed=1)
    labels = np.where(y > 0, "b", "a")
    classifier = sx.ConicSVMClassifier(lam=0.5, solver="clarabel").fit(X, labels)
    assert classifier.certificate_.is_certified(1e-6)
    agree(classifier.solution_, solve(X, y, lam=0.5))
    assert classifier.coef_.shape == (1, 2)
    by_share = sx.ConicSVMClassifier(kappa=0.2, solver="clarabel").fit(X, labels)
    agree(by_share.solution_, solve(X, y, kappa=0.2))


def test_outliers_hurt_the_hinge_more_than_the_conic_loss():
    X, y = sx.synthetic.outlier_data(100, 3, sigma=0.2, outliers="clustered", seed=3)
    clean, labels = sx.synthetic.outlier_data(2000, 3, sigma=0.2, seed=3, sample=1)
    ours = sx.ConicSVMClassifier(kappa=0.05, solver="clarabel").fit(X, y).score(clean, labels)
    hinges = [sx.PSVMClassifier(C=C, solver="clarabel").fit(X, y).score(clean, labels) for C in (0.1, 1.0, 10.0)]
    assert max(hinges) < ours - 0.2
