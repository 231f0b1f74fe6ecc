"""The local search beside the tree: least norms, single moves that are left, budgets, and what it saves."""

from __future__ import annotations

import math

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.fast.indicator.search import branch_and_bound
from svmcvx.fast.indicator.search.exchange_passes import descend
from svmcvx.heuristics.least_norm import least_norm

MOST = 10**6


def scratch(n, r):
    active = [(np.empty(r + 1, dtype=np.int64), np.empty((r + 1, r + 1)), np.empty(r + 1)) for _ in range(3)]
    return (np.empty(8, dtype=np.int64), *active, np.empty(r + 1), np.empty(r), np.empty(n), np.empty(r + 1))


def improved(H, kept, *, weight=None, lam=1.0, budget=math.inf, most=MOST, stop=False):
    weight = np.ones(len(H)) if weight is None else weight
    value, products = descend(H, weight, lam, budget, kept, most, *scratch(*H.shape), np.array([int(stop)]))
    return value, products


def value_of(H, kept, weight, lam):
    found = least_norm(H[kept], None)
    return math.inf if found is None else float(found.w @ found.w) + lam * float(weight[~kept].sum())


@pytest.fixture(params=range(8))
def instance(request):
    rng = np.random.default_rng(request.param)
    n, r = int(rng.integers(6, 30)), int(rng.integers(1, 6))
    H = rng.normal(size=(n, r))
    if request.param % 2:
        H[n // 2 :] = H[: n - n // 2]  # duplicate rows
    weight = rng.integers(1, 4, size=n).astype(float)
    start = H @ rng.normal(size=r) > 0
    return H, weight, start


def test_a_set_is_improved_to_one_that_no_single_move_improves(instance):
    H, weight, kept = instance
    before = value_of(H, kept, weight, 2.0)
    value, _ = improved(H, kept, weight=weight, lam=2.0)
    assert value <= before * (1 + 1e-9)
    assert value == pytest.approx(value_of(H, kept, weight, 2.0), rel=1e-6)
    dropped = [i for i in range(len(H)) if kept[i]]
    for i in dropped:
        other = kept.copy()
        other[i] = False
        assert value_of(H, other, weight, 2.0) >= value * (1 - 1e-6)
    if (~kept).sum() <= 8:
        for i in np.flatnonzero(~kept):
            other = kept.copy()
            other[i] = True
            assert value_of(H, other, weight, 2.0) >= value * (1 - 1e-6)


def test_no_more_than_the_budget_is_dropped(instance):
    H, weight, kept = instance
    budget = float(weight[~kept].sum()) + 1.0
    before = value_of(H, kept, weight, 0.0)
    value, _ = improved(H, kept, weight=weight, lam=0.0, budget=budget)
    assert weight[~kept].sum() <= budget
    assert value <= before * (1 + 1e-9)
    assert value == pytest.approx(value_of(H, kept, weight, 0.0), rel=1e-6)


def test_a_set_that_no_point_keeps_has_no_value():
    H = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    assert improved(H, np.ones(3, dtype=bool))[0] == math.inf


def test_it_ends_at_the_flag_and_at_its_number_of_products(instance):
    H, weight, kept = instance
    first, few = improved(H, kept, weight=weight, stop=True)
    assert first == pytest.approx(value_of(H, kept, weight, 1.0), rel=1e-6)
    assert few <= 10 * (H.shape[1] + 1)
    assert improved(H, kept, weight=weight, most=1)[1] <= 20 * (H.shape[1] + 1)


def nodes(solution):
    return solution.attempts[0].options["nodes"]


@pytest.mark.parametrize(("n", "d", "sigma", "seed"), [(100, 5, 0.5, 1), (200, 5, 0.2, 1)])
def test_the_tree_is_smaller_with_it(n, d, sigma, seed, monkeypatch):
    X, y = sx.synthetic.outlier_data(n, d, sigma=sigma, outliers="spread", seed=seed)
    found = sx.fast.zero_one(X, y, lam=1.0, method="branch")
    monkeypatch.setattr(branch_and_bound.Exchange, "keep_up", lambda *_: None)
    without = sx.fast.zero_one(X, y, lam=1.0, method="branch")
    assert nodes(found) < 0.7 * nodes(without)
    assert found.certificate.upper == pytest.approx(without.certificate.upper, rel=1e-9)


def test_l0_with_a_free_intercept_and_budgets_end_at_the_same_value_with_it(monkeypatch):
    X, y = sx.synthetic.outlier_data(150, 2, sigma=0.5, seed=3)
    Z, v = sx.synthetic.outlier_data(60, 4, sigma=0.5, outliers="spread", seed=5)
    calls = [
        lambda: sx.fast.l0(X, y, C=5.0, method="search"),
        lambda: sx.fast.zero_one(Z, v, k=12, method="branch"),
    ]
    found = [call() for call in calls]
    monkeypatch.setattr(branch_and_bound.Exchange, "keep_up", lambda *_: None)
    for with_it, call in zip(found, calls, strict=True):
        without = call()
        assert with_it.status is without.status is sx.Status.OPTIMAL
        assert with_it.certificate.upper == pytest.approx(without.certificate.upper, rel=1e-6)
        assert with_it.certificate.lower <= without.certificate.upper
