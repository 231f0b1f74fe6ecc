"""The l0-norm hinge by search and by local search."""

import math
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_moons

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.fast.indicator import l0
from svmcvx.fast.search.state import SearchSettings
from svmcvx.feature_space import KernelSpace
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.indicator.statement import l0_statement
from tests.designs import DESIGNS, design

NARROW, POLYNOMIAL = sx.RBF(8.0), sx.Polynomial(2, 1.0, 1.0)
KERNELS = (None, sx.RBF(0.5), NARROW, POLYNOMIAL)


def noisy(n=120, seed=0, noise=0.1):
    X, y = make_moons(n, noise=0.1, random_state=seed)
    rng = np.random.default_rng(seed)
    flipped = rng.choice(n, int(noise * n), replace=False)
    y[flipped] = 1 - y[flipped]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(y > 0, 1, -1)


@settings(max_examples=25)
@given(
    st.sampled_from(DESIGNS),
    st.sampled_from(KERNELS),
    st.integers(3, 60),
    st.floats(-3, 3),
    st.booleans(),
    st.integers(0, 2**31),
)
# Two points a quarter apart and far from the origin; rows so far apart that all that the bound on
# rounding may use is that the kernel of a row with itself is exact.
@example("offset", None, 2, 2.0, False, 0)
@example("large", NARROW, 2, 1.0, False, 0)
def test_a_local_answer_is_stationary_and_has_an_interval(name, kernel, n, cost, weighted, seed):
    far = name in ("offset", "large", "mixed scales")
    X, y = design(name, seed, n=n, wide=(8, 20))
    kernel, C = NARROW if far and kernel is POLYNOMIAL else kernel, 10.0**cost
    weight = np.random.default_rng(seed).choice([0.5, 1.0, 3.0], y.size) if weighted else None
    solution = l0(X, y, C=C, kernel=kernel, sample_weight=weight, method="local")
    certificate = solution.certificate
    assert solution.status == "stationary"
    assert certificate.kind == "local"
    assert certificate.lower == 0.0
    # The intercept is a double: on data far from the origin its last digit alone moves all margins.
    last_digit = float(np.spacing(abs(solution.model.intercept)))
    assert certificate.residuals["stationarity"] <= 1e-8 + 8 * last_digit
    # The objective is that of the model, written from the statement.
    data = binary_data(X, y, weight)
    u = data.y * solution.model.decision_function(X)
    norm = float(solution.model.squared_norm(data).value)
    value = 0.5 * norm + C * float(data.weight @ (u < 1.0 - 1e-7))
    assert value == pytest.approx(certificate.upper, rel=1e-6)
    assert np.abs(u[solution.model.support]) == pytest.approx(1, abs=1e-6 + 8 * last_digit)


@pytest.mark.parametrize("n", [1, 20, 61, 130])
def test_every_answer_has_a_lower_end(n):
    """Of the solver, the path, and the estimator, and of a call that is stopped at once."""
    X, y = noisy(max(n, 2), 1)
    y[:2] = 1, -1
    kernel = sx.RBF(1.0)
    answers = [
        l0(X, y, C=5.0, kernel=kernel),
        *sx.fast.path("l0", X, y, C=[0.1, 5.0], kernel=kernel),
        sx.L0SVMClassifier(C=5.0, kernel=kernel).fit(X, y).solution_,
    ]
    small = n <= 60
    for answer in answers:
        found = answer.certificate
        assert 0.0 <= found.lower <= found.upper < math.inf
        assert found.kind == ("enumeration" if small else "local")
        assert (found.gap <= 1e-6) == small
    for call in (l0, sx.fast.ramp, partial(sx.fast.zero_one, lam=1.0)):
        answer = call(X, y, time_limit=1e-9)
        assert answer.status in ("time_limit", "optimal")
        assert 0.0 <= answer.certificate.lower <= answer.certificate.upper < math.inf


def test_a_search_by_default_ends_at_its_counted_work():
    X, y = noisy(60, 3, noise=0.3)
    few = SearchSettings(easy=1.0, round_work=1.0, expansions=1)
    first, again = (l0(X, y, C=3.0, settings=few) for _ in range(2))
    assert first.status == "iteration_limit"
    assert first.certificate == again.certificate
    assert first.certificate.kind == "enumeration"
    assert 0.0 <= first.certificate.lower < first.certificate.upper


def test_weights_count_like_copies_in_a_local_search():
    kernel = sx.RBF(0.5)
    X, y = noisy(80, 2)
    weight = np.random.default_rng(1).integers(0, 4, 80)
    copies = np.repeat(np.arange(80), weight)
    weighted = l0(X, y, sample_weight=weight, C=1.0, kernel=kernel)
    space = bound_space(X[copies], y[copies], kernel, "free", None, "error", own="free")
    repeated = l0_statement(space, 1.0).objective(weighted.model)
    assert weighted.certificate.upper == pytest.approx(repeated, rel=1e-9)
    assert not weighted.dual["mu"][weight == 0].any()


def test_a_tiny_price_gives_the_constant_score():
    X, y = noisy(30, 0)
    y[:20] = 1
    for method in ("local", "search"):
        found = l0(X, y, C=1e-8, method=method).certificate
        assert found.upper == pytest.approx(1e-8 * (y < 0).sum())
    assert l0(X, y, C=1e-8, method="local").certificate.residuals["stationarity"] == 0


def test_warm_starts():
    X, y = noisy(150, 6)
    solve = partial(l0, C=1.0, kernel="rbf")
    first = solve(X, y)
    assert solve(X, y, warm_start=sx.fast.psvm(X, y, kernel="rbf")).warm_start_used
    again = solve(X, y, warm_start=first)
    assert again.certificate.upper <= first.certificate.upper * (1 + 1e-9)
    with pytest.raises(sx.DataError, match="it is of 150 observations, these are 100"):
        solve(X[:100], y[:100], warm_start=first)


def test_tol_is_the_residual_that_the_checker_finds():
    X, y = noisy(80, 6)
    usual, strict = (l0(X, y, C=1.0, kernel="rbf", tol=tol) for tol in (1e-6, 1e-300))
    residual = usual.certificate.residuals["stationarity"]
    assert usual.status == "stationary"
    assert residual <= 1e-6
    assert strict.certificate == usual.certificate
    assert strict.status == ("stationary" if residual == 0 else "inaccurate")


def test_working_sets_and_a_factor_of_low_rank(monkeypatch):
    X, y = noisy(600, 0)
    kernel = sx.RBF(0.5)
    whole = l0(X, y, C=1.0, kernel=kernel)
    settings = SearchSettings(whole=200, joining=40, rank=60)
    monkeypatch.setattr(
        KernelSpace, "_given_gram", property(lambda self: pytest.fail("a Gram matrix was made"))
    )
    parts = l0(X, y, C=1.0, kernel=kernel, settings=settings)
    linear = l0(sp.csr_array(X), y, C=0.1, method="local", settings=settings)
    for found in (parts, linear):
        assert found.certificate.residuals["stationarity"] <= 1e-9
    assert parts.certificate.upper == pytest.approx(whole.certificate.upper, rel=0.1)


def test_a_constant_score_is_optimal_where_no_point_has_room():
    X, y = np.array([[0.1], [-0.1], [0.05], [0.0]]), np.array([1, -1, -1, -1])
    solution = l0(X, y, C=0.01, method="search")
    assert solution.certificate.is_certified(1e-6)
    assert solution.certificate.upper == pytest.approx(0.01)
    assert solution.attempts[0].options["nodes"] == 0
    assert solution.optimal_intercepts.lower == -math.inf
