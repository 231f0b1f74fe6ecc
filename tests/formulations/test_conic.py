"""The conic loss: the semidefinite relaxation against independent statements, its two intervals,
and degenerate data.
"""

import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import svmcvx as sx
from svmcvx.errors import DataError, SolverFailed
from svmcvx.formulations.conic_loss.problems import relaxation
from svmcvx.losses import conic_loss
from tests.conftest import make_data
from tests.formulations.test_zero_one import enumerate_subsets


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
    """The semidefinite program of Theorem 2, one constraint at a time, from the paper alone."""
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
    problem = cp.Problem(
        cp.Minimize(cp.trace(W) + (0 if lam is None else lam) * cp.sum(z)), constraints
    )
    problem.solve(solver="CLARABEL")
    return problem.value


# --- the program, against [CepedaGomezHan]


@pytest.mark.parametrize("settings", [{"lam": 0.3}, {"lam": 3.0}, {"kappa": 0.2}], ids=str)
@pytest.mark.parametrize("form", ["reduced", "paper"])
def test_both_forms_equal_theorem_2_written_from_the_paper(settings, form):
    X, y = make_data(3, n=12, d=2)
    ours = solve(X, y, form=form, **settings)
    assert value(ours) == pytest.approx(theorem_2(rows(X), y, **settings), rel=1e-5, abs=1e-6)


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


# --- the two intervals


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_zero_one_optimum_lies_between_bound_and_rounding(seed):
    X, y = make_data(seed, n=8, d=2, overlap=1.5)
    for lam in (0.5, 2.0):
        certificate = solve(X, y, lam=lam).certificate
        exact, _ = enumerate_subsets(
            rows(X), y, lambda norm, missed, lam=lam: norm + lam * missed, free=False
        )
        assert certificate.lower <= exact * (1 + 1e-6)
        assert certificate.residuals["zero_one_lower"] == pytest.approx(certificate.lower, rel=1e-9)
        assert exact * (1 - 1e-6) <= certificate.residuals["zero_one_upper"]
        assert certificate.upper <= certificate.residuals["zero_one_upper"] * (1 + 1e-9)


# --- the dual


def strong_convexity_bound(gamma, X, y, lam, w):
    """q(w) − ‖g‖²/(4μ), a bound by the strong convexity of q alone, without the package's dual."""
    mu = 1 - np.linalg.eigvalsh(X.T @ (gamma[:, None] * X))[-1]
    assert mu > 0
    u = y * (X @ w)
    sloped = (u < 1) & ((1 - u) * np.sqrt(gamma) < np.sqrt(lam))
    slope = np.where(sloped, 2 * gamma * (1 - u) - 2 * np.sqrt(gamma * lam), 0.0)
    gradient = 2 * w + X.T @ (y * slope)
    return w @ w + conic_loss(u, gamma, lam).sum() - gradient @ gradient / (4 * mu)


@settings(max_examples=8)
@given(seed=st.integers(0, 10**6), lam=st.floats(0.01, 30.0))
def test_no_gamma_bounds_by_less_than_strong_convexity_does(seed, lam):
    rng = np.random.default_rng(seed)
    X, y = make_data(seed, n=15, d=2)
    A = rows(X)
    gamma = rng.exponential(size=15) * (rng.random(15) < 0.7)
    gamma /= 1.5 * max(np.linalg.eigvalsh(A.T @ (gamma[:, None] * A))[-1], 1e-9)
    statement = sx.conic_sdp(X, y, lam=lam).formulation
    bound = statement.dual_objective({"gamma": gamma})
    # A point near the minimiser of q, from a method that knows nothing of the package's.
    start = minimize(
        lambda w: w @ w + conic_loss(y * (A @ w), gamma, lam).sum(),
        np.zeros(3),
        method="Nelder-Mead",
    ).x
    assert strong_convexity_bound(gamma, A, y, lam, start) <= bound + 1e-9 * lam * 15


# --- γ given


@pytest.mark.parametrize("kernel", [None, sx.RBF(gamma=0.5)], ids=["linear", "rbf"])
def test_the_cone_program_at_the_best_gamma_reaches_the_relaxation(kernel):
    X, y = make_data(18, n=24, d=2)
    whole = solve(X, y, lam=0.7, kernel=kernel)
    fixed = sx.solve(
        sx.conic_fixed_gamma(X, y, gamma=relaxation(whole).gamma, lam=0.7, kernel=kernel),
        solver="clarabel",
    )
    agree(whole, fixed)


def test_gamma_is_checked():
    X, y = make_data(19, n=10, d=2)
    with pytest.raises(
        DataError, match=r"non-convex: the largest eigenvalue .* divide gamma by it"
    ):
        sx.conic_fixed_gamma(X, y, gamma=10.0, lam=1.0)
    with pytest.raises(
        DataError, match=r"gamma must hold one number per observation: expected shape \(10,\)"
    ):
        sx.conic_fixed_gamma(X, y, gamma=[1.0, 2.0], lam=1.0)
    with pytest.raises(DataError, match="gamma must be finite and non-negative"):
        sx.conic_fixed_gamma(X, y, gamma=-1.0, lam=1.0)
    nothing = sx.solve(sx.conic_fixed_gamma(X, y, gamma=0.0, lam=1.0), solver="clarabel")
    assert abs(value(nothing)) <= 1e-12


# --- degenerate data and extreme settings


def test_rows_of_zeros_without_an_intercept():
    X, y = np.zeros((6, 2)), [0, 1] * 3
    assert value(solve(X, y, lam=1.0, intercept=False)) == pytest.approx(6.0)
    # The penalised form is never infeasible, whatever a solver says.
    assert (
        sx.conic_sdp(X, y, lam=1.0).formulation.explain("infeasible") == "the problem is infeasible"
    )
    with pytest.raises(
        SolverFailed, match=r"no hyperplane keeps all but a share of 0\.3 .* allow an intercept"
    ):
        solve(X, y, kappa=0.3, intercept=False)


def test_arguments_are_checked():
    X, y = make_data(27, n=10, d=2)
    cases = [
        ({}, "exactly one of lam and kappa, got neither"),
        ({"lam": 1.0, "kappa": 0.1}, "exactly one of lam and kappa, got both"),
        ({"kappa": 0.6}, r"kappa must be a finite number in \[0, 0\.5\]"),
        ({"lam": 1.0, "form": "dual"}, "form must be one of 'reduced', 'paper', got 'dual'"),
        ({"lam": 1.0, "intercept": "yes"}, "intercept must be 'penalised', 'none', True"),
    ]
    for setting, text in cases:
        with pytest.raises(DataError, match=text):
            sx.conic_sdp(X, y, **setting)


# --- names, parameters, models


def test_a_relaxation_is_that_of_the_conic_loss():
    X, y = make_data(31, n=30, d=2)
    found = relaxation(solve(X, y, lam=0.5))
    assert found.zero_one[0] <= found.zero_one[1]
    with pytest.raises(DataError, match="without a second moment"):
        relaxation(sx.solve(sx.psvm_dual(X, y, C=1.0, p=2), solver="clarabel"))


@pytest.mark.parametrize("kernel", [None, sx.RBF(gamma=0.5)], ids=["linear", "rbf"])
def test_a_stored_model_has_no_covariance_and_a_pickled_one_has(kernel, tmp_path):
    X, y = make_data(32, n=20, d=2)
    solution = solve(X, y, lam=0.5, kernel=kernel)
    model = solution.model
    model.save(tmp_path / "model.npz")
    loaded = sx.load_model(tmp_path / "model.npz")
    kept = pickle.loads(pickle.dumps(solution))  # noqa: S301
    np.testing.assert_array_equal(relaxation(kept).W, relaxation(solution).W)
    # At W = ww' the objective is that of the 0-1 problem.
    statement = sx.conic_sdp(X, y, lam=0.5, kernel=kernel).formulation
    assert statement.objective(loaded) == pytest.approx(statement.zero_one(model).value)
    assert statement.objective(loaded) >= value(solution)


@pytest.mark.parametrize("factor", [0.2, 5.0])
def test_the_budget_gets_its_best_multiplier_whichever_is_passed(factor):
    X, y = make_data(0, n=30)
    solution = sx.solve(sx.conic_sdp(X, y, kappa=0.2), solver="clarabel")
    statement = sx.conic_sdp(X, y, kappa=0.2).formulation
    repaired = statement.repair({**solution.dual, "lam": factor * np.asarray(solution.dual["lam"])})
    assert statement.evaluate_dual(repaired).lower_end >= solution.certificate.lower * (1.0 - 1e-9)
