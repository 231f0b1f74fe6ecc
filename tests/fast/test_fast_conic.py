"""The low-rank solver of the conic relaxation against the semidefinite program."""

from dataclasses import replace
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from benchmarks.papers.conic_points import conic_points
from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.conic_loss.conic import ConicSettings, LowRankRelaxation, conic
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.conic_loss.problems import relaxation
from svmcvx.formulations.signed_rows import least_norm
from svmcvx.system import clock
from tests import designs
from tests.designs import DESIGNS
from tests.intervals import overlap

design = partial(designs.design, n=20, wide=(6, 12))
PROBLEMS = (
    *({"lam": lam} for lam in (1e-3, 1.0, 30.0, 1e4)),
    *({"kappa": kappa} for kappa in (0.02, 0.15, 0.5)),
)
BOTH = ({"lam": 1.0}, {"kappa": 0.15})
SMALL = ConicSettings(sample_above=300, sample_size=150, sample_per_column=20)


def outliers(n=60, p=3, seed=0, sigma=0.5):
    return sx.synthetic.outlier_data(n, p, sigma=sigma, outliers="clustered", seed=seed)


@given(st.sampled_from(DESIGNS), st.sampled_from(PROBLEMS), st.booleans(), st.integers(0, 99))
@settings(max_examples=25)
def test_every_design_is_certified(name, problem, sparse, seed):
    X, y = design(name, seed)
    solution = conic(sp.csr_array(X) if sparse else X, y, **problem)
    assert solution.status == "optimal"
    assert solution.certificate.gap <= 1e-6
    assert np.isfinite(solution.model.decision_function(X)).all()


NEAR = [name for name in DESIGNS if name not in ("offset", "large", "tiny", "mixed scales")]


@given(st.sampled_from(NEAR), st.sampled_from(PROBLEMS), st.integers(0, 99))
@settings(max_examples=10)
def test_the_semidefinite_program_has_the_same_optimum(name, problem, seed):
    X, y = design(name, seed, n=14)
    fast = conic(X, y, **problem)
    assert fast.certificate.gap <= 1e-6
    overlap(fast, sx.solve(sx.conic_sdp(X, y, **problem)), (name, problem, seed))


@pytest.mark.parametrize("problem", [{"lam": 2.0}, {"kappa": 0.1}])
def test_kernels_agree_with_the_semidefinite_program(problem):
    X, y = outliers(26, 2)
    kernel = sx.RBF(0.7)
    fast = conic(X, y, kernel=kernel, **problem)
    assert fast.certificate.gap <= 1e-6
    overlap(fast, sx.solve(sx.conic_sdp(X, y, kernel=kernel, **problem)))


@pytest.mark.parametrize("problem", [{"lam": [0.3, 1.0, 1.2]}, {"kappa": [0.3, 0.1, 0.08, 0.02]}])
def test_points_without_certificates_are_those_with_one(problem):
    X, y = outliers(seed=2)
    space = bound_space(X, y, None, True, None, "error")
    (name, values), points = next(iter(problem.items())), conic_points(space, **problem)
    for value, point in zip(values, points, strict=True):
        solution = conic(X, y, **{name: value}, tol=1e-9)
        np.testing.assert_allclose(
            point.w, [*solution.model.coef, solution.model.intercept], rtol=1e-4, atol=1e-5
        )
        assert point.share == pytest.approx(relaxation(solution).z.mean(), abs=1e-5)
        assert point.lam == pytest.approx(
            value if name == "lam" else float(solution.dual["lam"]), rel=1e-4
        )


def test_kappa_zero_is_the_hard_margin():
    X, y = design("separable", 1)
    for intercept in (True, False):
        solution = conic(X, y, kappa=0, intercept=intercept)
        assert solution.certificate.gap <= 1e-6
        assert solution.model.moment.V.shape[1] == 0
        margins = y * solution.model.decision_function(X)
        assert margins.min() == pytest.approx(1.0, abs=1e-6)
        assert margins.min() >= 1.0 - 1e-12
    overlap(conic(X, y, kappa=0), sx.solve(sx.conic_sdp(X, y, kappa=0)))
    with pytest.raises(DataError, match="kappa = 0 allows no margin below 1"):
        conic(*outliers(60, 2), kappa=0)


def test_a_hard_margin_takes_no_newton_steps():
    X, y = sx.synthetic.outlier_data(40, 2, sigma=0.3, outliers="none", seed=37)
    rng = np.random.default_rng(29)
    Z, w = rng.normal(size=(30, 8)), rng.normal(size=8)
    labels = np.sign(Z @ w / np.linalg.norm(w) + 0.3 * rng.normal())
    for found in (
        conic(X, y, kappa=0, tol=1e-9),
        conic(Z, labels, kappa=0, intercept=False, tol=1e-9),
        conic(X, y, kappa=0, kernel=sx.RBF(1.0), sample_weight=1.0 + np.arange(40), tol=1e-9),
    ):
        assert (found.status, found.attempts[0].options["iterations"]) == ("optimal", 0)


def test_rounding_solves_the_zero_one_problem_too():
    X, y = outliers(40, 2)
    plain, rounded = conic(X, y, lam=1.0), conic(X, y, lam=1.0, rounding=True)
    overlap(plain, rounded)
    program = sx.solve(sx.conic_sdp(X, y, lam=1.0))
    first, best, reference = (
        found.certificate.residuals["zero_one_upper"] for found in (plain, rounded, program)
    )
    assert rounded.certificate.residuals["zero_one_lower"] <= best <= first
    assert best == pytest.approx(reference, rel=1e-6)


@pytest.mark.parametrize("method", ["direct", "conjugate"])
def test_systems_factored_and_by_conjugate_gradients_agree(method):
    X, y = outliers(150, 6)
    for problem in BOTH:
        one = conic(X, y, method=method, **problem)
        assert one.certificate.gap <= 1e-6
        overlap(one, conic(X, y, **problem))


def test_a_sample_comes_before_many_observations():
    X, y = outliers(800, 3)
    for problem in BOTH:
        one, again = (conic(X, y, seed=3, settings=SMALL, **problem) for _ in range(2))
        assert one.certificate.gap <= 1e-6
        assert one.certificate == again.certificate
        whole = conic(X, y, **problem)
        assert one.attempts[0].options["iterations"] != whole.attempts[0].options["iterations"]
        overlap(one, whole)


@pytest.mark.parametrize(("number", "kappa"), [(0, 0.2), (2, 0.1), (4, 0.2), (5, 0.35), (6, 0.02)])
def test_sums_of_indicators_that_jump_at_one_lambda(number, kappa):
    """With few observations in as many dimensions, or all on two points, minima for one λ miss many
    shares of the margins.
    """
    rng = np.random.default_rng(number)
    if number < 4:
        X, kernel = rng.normal(size=(12, 2)), sx.RBF(0.5 * (number + 1))
    else:
        X, kernel = np.array([[1.0, 0.0], [-1.0, 0.0]])[np.arange(8) % 2], None
    y = np.arange(len(X)) % 2
    problem = {"kappa": kappa, "kernel": kernel, "intercept": False}
    fast = conic(X, y, **problem)
    assert fast.status == "optimal"
    overlap(fast, sx.solve(sx.conic_sdp(X, y, **problem)))


@pytest.mark.parametrize("seed", [6, 39, 149, 197])
@pytest.mark.parametrize("lam", [1e4, 1e6])
def test_tight_relaxations_with_a_large_lambda(seed, lam):
    solution = conic(*design("wide", seed), lam=lam)
    assert solution.status == "optimal"
    assert solution.certificate.gap <= 1e-6
    assert solution.model.moment.V.shape[1] == 0


def test_rows_of_zeros_may_use_up_what_the_row_allows():
    X, y = design("separable", 0, n=20)
    X = X * np.where(np.arange(20) < 4, 0.0, 1.0)[:, None]
    rest = conic(X[4:], y[4:], kappa=0, intercept=False)
    overlap(conic(X, y, kappa=0.2, intercept=False), rest)
    weight = np.where(np.arange(20) < 4, 2.0, 1.0)
    overlap(conic(X, y, kappa=8 / 24, intercept=False, sample_weight=weight), rest)
    X[4], X[5] = X[6], -X[6]
    y[4:7] = 1
    with pytest.raises(SolverFailed, match=r"no hyperplane keeps all but a share of 0.2"):
        conic(X, y, kappa=0.2, intercept=False)


def test_warm_starts():
    X, y = outliers(200, 5)
    cold = conic(X, y, lam=1.0)
    warm, nothing = conic(X, y, lam=1.1, warm_start=cold), conic(X, y, lam=1.1)
    assert warm.attempts[0].options["iterations"] < nothing.attempts[0].options["iterations"]
    for earlier in (
        conic(X, y, kappa=0.1),
        sx.solve(sx.conic_sdp(X, y, lam=3.0)),
        sx.fast.odm(X, y, C1=1.0, C2=1.0, D=0.1),
    ):
        again = conic(X, y, lam=1.0, warm_start=earlier)
        assert again.warm_start_used
        assert again.certificate.gap <= 1e-6
        overlap(again, cold)


def test_a_warm_start_that_does_not_fit_is_an_error():
    X, y = outliers(200, 5)
    cold, other = conic(X, y, lam=1.0), conic(X, y, lam=1.0, kernel=sx.RBF(1.0))
    psvm = sx.fast.psvm(X, y, C=1.0, p=2, kernel=sx.RBF(1.0))
    broken = replace(
        psvm, model=sx.LinearModel(np.full(5, np.nan), 0.0, np.array([-1, 1]), np.arange(3))
    )
    moment = "with the second moment of the conic relaxation, got one of 'psvm"
    for rows, more, start, message in (
        (200, {}, other, r"with the same kernel: it has RBF\(.*\), this is none"),
        (200, {"intercept": False}, cold, "it has 6 coordinates, these are 5"),
        (200, {}, psvm, "with a linear model of 5 features, got one of 'psvm"),
        (200, {"kernel": sx.RBF(1.0)}, psvm, moment),
        (200, {}, broken, "finite coefficients"),
        (199, {}, cold, "it has 200 observations, these are 199"),
    ):
        with pytest.raises(DataError, match=message):
            conic(X[:rows], y[:rows], lam=1.0, warm_start=start, **more)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("k", [0, 2])
def test_the_matrix_of_second_derivatives_is_that_of_its_products(k, sparse):
    rng = np.random.default_rng(2)
    r = 4
    L, y = rng.normal(size=(700, r)), np.where(rng.random(700) < 0.5, 1.0, -1.0)
    U = rng.normal(size=(r, 1 + k))
    problem = LowRankRelaxation(sp.csr_array(L) if sparse else L, y, rng.random(700), lam=2.0, U=U)
    problem.ridge = 0.1
    value, gradient, bend = problem.derivatives()
    assert value == pytest.approx(problem.value(U))
    H, product, D = problem._hessian(bend), problem._product(bend), rng.normal(size=U.shape)
    assert np.allclose(H, H.T)
    assert np.allclose((H @ D.T.ravel()).reshape(1 + k, r).T, product(D))
    step = 1e-6
    assert np.isclose(
        (problem.value(U + step * D) - problem.value(U - step * D)) / (2 * step),
        np.sum(gradient * D),
        rtol=1e-5,
    )
    problem.U = U + step * D
    assert np.allclose(
        (problem.derivatives()[1] - gradient) / step, product(D), rtol=1e-3, atol=1e-2
    )


def test_a_short_step_of_a_regularised_system_does_not_end_the_descent():
    X, y = outliers(60, 4)
    ends = []
    for damping in (1e-3, 1e9):
        problem = LowRankRelaxation(X, y, np.ones(60), lam=1.0, U=np.zeros((4, 1)))
        problem.ridge, problem.damping = 0.1, damping
        problem.descend(1e-7, 100, lambda: False)
        ends.append(problem.value(problem.U))
    assert ends[1] == pytest.approx(ends[0], abs=1e-6)


def nearly_inseparable(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(60, 1)) @ np.ones((1, 2))
    y = np.where(rng.random(60) > 0.5, 1, -1)
    X[:, 1] += 1e-5 * y * rng.uniform(1, 2, 60)
    return X, y


def test_a_hard_margin_on_the_verge_of_none_is_certified():
    for seed in range(3):
        found = conic(*nearly_inseparable(seed), kappa=0)
        assert found.status == "optimal"
        assert found.certificate.gap <= 1e-8


@pytest.mark.parametrize("free", [False, True])
def test_the_least_norm_of_nearly_inseparable_rows_meets_its_dual_in_exact_numbers(free):
    exact = np.vectorize(Fraction, otypes=[object])
    for seed in range(3):
        X, y = nearly_inseparable(seed)
        found = least_norm(y[:, None] * X, y.astype(float) if free else None)
        rows, labels = exact(X) * y[:, None], exact(y.astype(float))
        w, alpha = exact(found.w), exact(found.alpha)
        margin = min(rows @ w + labels * (Fraction(found.b) if free else 0))
        if free:
            alpha[y > 0] *= alpha[y < 0].sum() / alpha[y > 0].sum()
        normal = alpha @ rows
        upper, lower = w @ w / margin**2, alpha.sum() ** 2 / (normal @ normal)
        assert lower <= upper <= lower * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("problem", BOTH)
def test_no_newton_step_is_begun_that_would_end_after_the_limit(monkeypatch, problem):
    """The clock moves by the observations times the squared number of unknowns of each step, and by
    nothing else.
    """
    X, y = outliers(800, 3)
    at, step = [0.0], LowRankRelaxation._hessian

    def counted(relaxation, bend):
        at[0] += 1e-3 * relaxation.y.size * relaxation.U.size**2
        return step(relaxation, bend)

    monkeypatch.setattr(LowRankRelaxation, "_hessian", counted)
    with clock.substituted(lambda: at[0]):
        whole = conic(X, y, settings=SMALL, **problem)
        assert whole.status == "optimal"
        for share in (0.3, 0.5):
            limit, began = share * whole.trace[-1, 0], at[0]
            found = conic(X, y, settings=SMALL, time_limit=limit, **problem)
            assert found.status == "time_limit"
            assert at[0] - began <= limit
            best, found = whole.certificate, found.certificate
            assert 0.5 * best.lower < found.lower <= best.upper <= found.upper * (1.0 + 1e-6)
