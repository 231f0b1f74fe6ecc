"""The linear hard margin by working sets, and the active-set method behind it."""

from fractions import Fraction
from operator import mul

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.certificate import EPS
from svmcvx.data import binary_data
from svmcvx.fast import hard_margin
from svmcvx.fast.core.active_set import new_state, ray, solve
from svmcvx.fast.core.active_set_passes import INSEPARABLE, MORE, SOLVED
from svmcvx.fast.margin.hard_margin import ActiveSetSettings, HardMarginSettings
from svmcvx.feature_space import feature_space
from svmcvx.feature_space.kernel import FEW
from svmcvx.formulations.signed_rows import least_norm
from svmcvx.kernels.columns import KernelColumns
from tests.designs import DESIGNS, design
from tests.intervals import overlap


def separable(n, d, gap=0.1, seed=0):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((n, d)), rng.standard_normal(d)
    w /= np.linalg.norm(w)
    y = np.where(X @ w + 0.2 > 0, 1, -1)
    y[:2] = -1, 1
    X[:2] = np.outer(np.sign(y[:2] - 0.2) * 2, w)
    return X + gap * y[:, None] * w, y


def machine_of(X, y):
    """State of the active-set method on centred data."""
    X = X - X.mean(axis=0)
    K = X @ X.T
    return new_state(K, y.astype(float), float(np.diagonal(K).max())), y[:, None] * X


def value(state):
    """The dual value ½Σα, which is ½‖w‖² while S is tight."""
    return 0.5 * np.abs(state.v[state.S[: state.tight[0]]]).sum()


@settings(max_examples=80)
@given(st.sampled_from(DESIGNS[:-1]), st.integers(2, 40), st.integers(3, 5), st.integers(0, 2**31))
def test_the_active_set_method_is_least_distance_programming(name, n, d, seed):
    X, y = design(name, seed, n=n, d=d)
    if seed % 2:
        # Without the noise of the labels; the first two rows may be on the other side.
        y = np.where(X[:, 0] > X[:, 1], 1, -1)
        y[:2] = 1, -1
    state, G = machine_of(X, y)
    code, q = solve(state, 10**6)
    found = least_norm(G, y.astype(float))
    if code == SOLVED:
        assert found is not None
        assert value(state) == pytest.approx(0.5 * found.w @ found.w, rel=1e-6)
        # Classes that nearly touch have multipliers, and with them scores, whose rounding is more.
        rounding = 16 * EPS * (np.abs(state.v).sum() * np.abs(state.K).max() + abs(state.number[0]))
        assert state.u.min() >= 1 - 1e-9 - rounding
        tight = state.S[: state.tight[0]]
        assert state.u[tight] == pytest.approx(1, abs=1e-10 + rounding)
        assert (y[tight] * state.v[tight] > 0).all()
        assert abs(state.v.sum()) <= 1e-10 * np.abs(state.v).sum()
    else:
        assert found is None
    if code == INSEPARABLE:
        share = ray(state, q)
        positive, negative = (share * (y == sign) for sign in (1, -1))
        assert (share >= 0).all()
        assert positive.sum() == pytest.approx(negative.sum(), rel=1e-6)
        assert positive @ X / positive.sum() == pytest.approx(
            negative @ X / negative.sum(), rel=1e-5, abs=1e-5
        )


def test_the_active_set_method_can_be_continued():
    X, y = separable(200, 5)
    whole, state = machine_of(X, y)[0], machine_of(X, y)[0]
    assert solve(whole, 10**6)[0] == SOLVED
    values = []
    while (code := solve(state, 1)[0]) == MORE:
        values.append(value(state))
    assert code == SOLVED
    assert np.diff(values).min() >= 0
    assert value(state) == pytest.approx(value(whole), rel=1e-9)


@pytest.mark.parametrize(
    ("seed", "form"), [(0, np.asarray), (2, sp.csr_array), (4, sp.csr_array), (6, np.asarray)]
)
def test_agrees_with_the_conic_route(seed, form):
    X, y = separable(30 + 10 * seed, 1 + seed, gap=0.3, seed=seed)
    solution = hard_margin(form(X), y)
    assert solution.solver == "fast.hard_margin/active-set"
    assert solution.status == "optimal"
    overlap(solution, sx.solve(sx.hard_margin_dual(X, y)))


def test_working_sets_end_where_psmo_does():
    n = 2000
    X, y = separable(n, 6)
    active = hard_margin(X, y, tol=1e-8)
    assert active.attempts[0].options["working_set"] < n / 2
    assert active.certificate.is_certified(1e-8)
    overlap(active, hard_margin(X, y, method="smo", tol=1e-4), gap=1e-4)
    # No margin is violated, and the model is the expansion of the multipliers.
    u = y * active.model.decision_function(X)
    assert u.min() == pytest.approx(1, abs=1e-9)
    assert active.model.coef == pytest.approx(X.T @ (active.dual["alpha"] * y), rel=1e-7, abs=1e-9)


def with_sets(**sizes):
    return HardMarginSettings(active_set=ActiveSetSettings(**sizes))


def test_idle_observations_leave_a_large_working_set():
    X, y = separable(3000, 40)
    solution = hard_margin(X, y, settings=with_sets(largest=900))
    assert solution.attempts[0].options["working_set"] <= 1200
    overlap(solution, hard_margin(X, y))


def test_more_features_than_observations_and_too_many_tight_ones():
    X, y = separable(40, 60)
    wide = hard_margin(X, y)
    assert wide.solver == "fast.hard_margin/smo"
    overlap(wide, hard_margin(X, y, method="active-set"))
    X, y = separable(60, 20)
    gone_on = hard_margin(X, y, settings=with_sets(largest_support=5))
    assert gone_on.solver == "fast.hard_margin/smo"
    overlap(gone_on, hard_margin(X, y))


@pytest.mark.parametrize(
    ("design", "form"),
    [
        ("overlap", np.asarray),
        ("overlap", sp.csr_array),
        ("duplicate", sp.csr_array),
        ("equal", np.asarray),
        ("many", sp.csr_array),
    ],
)
def test_equal_points_of_the_hulls_are_shown(design, form):
    rng = np.random.default_rng(0)
    n = 3000 if design == "many" else 100
    X, y = separable(n, 5)
    if design == "duplicate":
        X[1], y[1] = X[0], -y[0]
    elif design == "equal":
        X[:] = 1.0
    else:
        y = np.where(X[:, 0] + 0.1 * rng.standard_normal(n) > 0, 1, -1)
    with pytest.raises(sx.SolverFailed, match="not separable") as raised:
        hard_margin(form(X), y)
    attempt = raised.value.attempts[0]
    assert attempt.status == "unbounded"
    assert attempt.options["hull_distance"] <= 1e-5


def test_a_warm_start_begins_with_its_support():
    X, y = separable(3000, 10)
    first = hard_margin(X, y)
    again = hard_margin(X, y, warm_start=first)
    assert again.attempts[0].options["rounds"] == 0
    overlap(first, again)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_scale_of_the_data_does_not_matter(scale):
    X, y = separable(500, 5)
    one, other = hard_margin(X, y), hard_margin(X * scale, y)
    assert other.certificate.upper == pytest.approx(one.certificate.upper / scale**2, rel=1e-6)


def test_multiples_of_a_point_take_no_second_product(monkeypatch):
    X, y = separable(FEW + 1, 3)
    products, product = [], KernelColumns.product
    monkeypatch.setattr(
        KernelColumns, "product", lambda self, v: products.append(v.size) or product(self, v)
    )
    found = hard_margin(X, y, kernel="rbf", callback=lambda progress: progress.upper < np.inf)
    # The multipliers, their best multiple, the machine and its multiple with margins of 1.
    assert found.status == "interrupted"
    assert 0 < found.certificate.lower < found.certificate.upper < np.inf
    assert len(products) == 1


@settings(max_examples=5)
@given(factor=st.floats(1e-3, 1e3), seed=st.integers(0, 1000))
def test_scores_of_a_multiple_hold_and_those_of_another_point_are_evaluated(factor, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.integers(-9, 10, (FEW + 1, 2)).astype(float), np.arange(FEW + 1) % 2
    space = feature_space(binary_data(X, y, None), "linear", intercept="free", keep_gram=False)
    v = rng.standard_normal(FEW + 1) * (rng.random(FEW + 1) < 0.3)
    space.point(v)
    rounded = factor * v * (1.0 + rng.integers(-1, 2, v.size) * EPS)
    for other, near in ((factor * v, True), (rounded, True), (factor * v + 0.01 * (v != 0), False)):
        assert (space._near_multiple(other) is not None) == near
        found = space.point(other)
        # The kernel is an inner product of whole numbers.
        w = [sum(map(mul, map(Fraction, other), map(int, column))) for column in X.T]
        for i in range(0, FEW, 10):
            off = sum(map(mul, map(int, X[i]), w)) - Fraction(found.scores.value[i])
            assert abs(off) <= Fraction(found.scores.error[i])
        off = sum(map(mul, w, w)) - Fraction(float(found.squared_norm.value))
        assert abs(off) <= Fraction(float(found.squared_norm.error))
