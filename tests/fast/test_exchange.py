"""The local search before and beside the tree."""

import math

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.fast.search.exchange import FREE_INTERCEPT, Exchange
from svmcvx.fast.search.exchange_passes import descend
from svmcvx.formulations.signed_rows import least_norm

MOST = 1e6


def scratch(n, r):
    active = [
        (np.empty(r + 1, dtype=np.int64), np.empty((r + 1, r + 1)), np.empty(r + 1))
        for _ in range(3)
    ]
    space = np.empty(r + 1), np.empty(r), np.empty(n)
    return np.empty(8, dtype=np.int64), tuple(active), space, np.empty(r + 1)


def improved(
    H, kept, *, gram=False, weight=None, lam=1.0, budget=math.inf, most=MOST, stop=False,
    stays=None, limit=math.inf,
):  # fmt: skip
    """The value of the set that `kept` becomes, and the number of products."""
    first = np.zeros(len(H), dtype=bool) if stays is None else stays, limit
    weight = np.ones(len(H)) if weight is None else weight
    K = H @ H.T if gram else np.empty((0, 0))
    flag = np.array([int(stop)])
    return descend(H, K, weight, lam, budget, kept, first, most, *scratch(*H.shape), flag)


def value_of(H, kept, weight, lam):
    found = least_norm(H[kept], None)
    norm = math.inf if found is None else float(found.w @ found.w)
    return norm + lam * float(weight[~kept].sum())


@pytest.fixture(params=range(4))
def instance(request):
    rng = np.random.default_rng(request.param)
    n, r = int(rng.integers(6, 30)), int(rng.integers(1, 6))
    H = rng.normal(size=(n, r))
    if request.param % 2:
        H[n // 2 :] = H[: n - n // 2]  # duplicate rows
    weight = rng.integers(1, 4, size=n).astype(float)
    start = H @ rng.normal(size=r) > 0
    return H, weight, start


@pytest.mark.parametrize("size", [1.0, 0.02])
@pytest.mark.parametrize("seed", range(4))
def test_a_long_column_for_the_intercept_hides_no_point(seed, size):
    rng = np.random.default_rng(seed)
    X, w = rng.standard_normal((60, 5)), rng.standard_normal(5)
    y = np.where(X @ w > 0, 1.0, -1.0)
    G = y[:, None] * (X + 0.3 * y[:, None] * w / np.linalg.norm(w))
    G /= np.linalg.norm(G, axis=1).max()
    found = least_norm(G, y)
    # A dropped row costs more than any norm here: the set stays as it is. Rows may be close to each
    # other, in units of the longest one of all.
    H = np.hstack([size * G, FREE_INTERCEPT * y[:, None]])
    value, _ = improved(H, np.ones(60, dtype=bool), lam=1e9)
    exact = least_norm(H, None)
    assert value == pytest.approx(float(exact.w @ exact.w), rel=1e-7)
    # The squared intercept costs a thousandth or less, and never lowers the norm.
    norm = float(found.w @ found.w)
    assert norm * (1 - 1e-7) <= value * size**2 <= norm * (1 + 1e-3)


def test_a_set_is_improved_to_one_that_no_single_move_improves(instance):
    H, weight, kept = instance
    before = value_of(H, kept, weight, 2.0)
    by_gram = kept.copy()
    value, _ = improved(H, kept, weight=weight, lam=2.0)
    assert improved(H, by_gram, gram=True, weight=weight, lam=2.0)[0] == pytest.approx(value)
    assert (by_gram == kept).all()
    assert value <= before * (1 + 1e-9)
    assert value == pytest.approx(value_of(H, kept, weight, 2.0), rel=1e-6)
    few = np.flatnonzero(~kept) if (~kept).sum() <= 8 else []
    for i in (*np.flatnonzero(kept), *few):
        other = kept.copy()
        other[i] = not kept[i]
        assert value_of(H, other, weight, 2.0) >= value * (1 - 1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_rows_leave_until_a_short_point_keeps_those_that_are_to_stay(seed):
    H, kept, weight = (
        np.random.default_rng(seed).normal(size=(20, 3)),
        np.ones(20, bool),
        np.ones(20),
    )
    stays = np.arange(20) < 2
    limit = 2.0 * value_of(H, stays, weight, 0.0)
    value, _ = improved(H, kept, most=0.0, stays=stays, limit=limit)
    assert kept[stays].all()
    assert not kept.all()
    assert value == pytest.approx(value_of(H, kept, weight, 1.0), rel=1e-6)
    assert value - weight[~kept].sum() < limit


def test_no_more_than_the_budget_is_dropped(instance):
    H, weight, kept = instance
    budget = float(weight[~kept].sum()) + 1.0
    before = value_of(H, kept, weight, 0.0)
    value, _ = improved(H, kept, weight=weight, lam=0.0, budget=budget)
    assert weight[~kept].sum() <= budget
    assert value <= before * (1 + 1e-9)
    assert value == pytest.approx(value_of(H, kept, weight, 0.0), rel=1e-6)


def test_it_ends_at_the_flag_and_at_its_number_of_products(instance):
    H, weight, kept = instance
    first, few = improved(H, kept, weight=weight, stop=True)
    assert first == pytest.approx(value_of(H, kept, weight, 1.0), rel=1e-6)
    assert few <= 10 * (H.shape[1] + 1)
    assert improved(H, kept, weight=weight, most=1.0)[1] <= 20 * (H.shape[1] + 1)


@pytest.mark.parametrize(
    ("solve", "settings"),
    [
        (sx.fast.zero_one, {"lam": 1.0}),
        (sx.fast.zero_one, {"lam": 1.0, "kernel": "rbf"}),
        (sx.fast.zero_one, {"k": 12, "sample_weight": 1.0 + np.arange(60) % 2}),
        (sx.fast.ramp, {}),
        (sx.fast.ramp, {"kernel": "rbf"}),
        (sx.fast.l0, {"C": 5.0, "method": "search"}),
    ],
)
def test_the_optimum_is_found_before_the_tree(solve, settings):
    X, y = sx.synthetic.outlier_data(60, 2, sigma=0.3, outliers="spread", seed=1)
    found = solve(X, y, **settings)
    assert found.status is sx.Status.OPTIMAL
    assert found.trace[0, 2] <= found.certificate.upper * 1.02


def test_a_budget_that_no_soft_margin_meets_has_a_first_point():
    X, y = sx.synthetic.outlier_data(100, 3, sigma=0.5, outliers="spread", seed=0)
    assert math.isfinite(sx.fast.zero_one(X, y, k=12, max_iter=1).certificate.upper)


def test_the_tree_is_smaller_with_it(monkeypatch):
    X, y = sx.synthetic.outlier_data(100, 5, sigma=0.5, outliers="spread", seed=1)
    found = sx.fast.zero_one(X, y, lam=1.0, method="tree")
    for method in ("keep_up", "begin"):
        monkeypatch.setattr(Exchange, method, lambda *_: None)
    without = sx.fast.zero_one(X, y, lam=1.0, method="tree")
    nodes, most = (each.attempts[0].options["nodes"] for each in (found, without))
    assert nodes < 0.7 * most
    assert found.certificate.upper == pytest.approx(without.certificate.upper, rel=1e-9)
