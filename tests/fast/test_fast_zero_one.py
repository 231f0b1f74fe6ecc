"""The exact 0-1 loss by branch and bound."""

import contextlib
import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import svmcvx as sx
from campaigns.exact_zero_one import exact_optimum, judge
from svmcvx.data import binary_data
from svmcvx.errors import DataError, SolverFailed
from svmcvx.estimators import indicator
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.indicator import ramp, zero_one
from svmcvx.fast.search import tree
from svmcvx.fast.search.node_passes import FREE, KEPT, minimise_relaxation
from svmcvx.fast.search.state import CountingSearch, SearchSettings
from svmcvx.feature_space import feature_space
from svmcvx.formulations.indicator.statement import ZeroOne
from svmcvx.solution import Status
from svmcvx.synthetic import outlier_data
from svmcvx.system import clock


@pytest.mark.parametrize("problem", ["zero-one", "l0", "ramp"])
@pytest.mark.parametrize("first", [0, 24])
def test_hostile_instances_of_all_three_losses_against_the_exact_optimum(problem, first):
    """Thousands more: ``python -m campaigns.exact_zero_one``."""
    ends = [judge(seed, problem=problem, time_limit=None) for seed in range(first, first + 24)]
    assert set(ends) <= {"certified", "infeasible", "wide"}
    assert sum(end != "wide" for end in ends) >= 18


@pytest.mark.parametrize(
    ("solve", "build", "n", "p", "hyper"),
    [
        (zero_one, sx.zero_one_mio, 8, 10, {"lam": 0.1}),
        (zero_one, sx.zero_one_mio, 14, 2, {"k": 6}),
        (zero_one, sx.zero_one_mio, 16, 2, {"lam": 1.0, "kernel": sx.RBF(0.5)}),
        (ramp, sx.ramp_mio, 12, 2, {"C": 2.0, "kernel": sx.RBF(0.5)}),
    ],
)
def test_the_mixed_integer_program_has_the_same_optimum(solve, build, n, p, hyper):
    X, y = outlier_data(n, p, sigma=0.5, outliers="spread", seed=n)
    exact = sx.solve(build(X, y, **hyper)).certificate
    found = solve(X, y, **hyper).certificate
    assert found.upper == pytest.approx(exact.upper, rel=1e-6 if solve is ramp else 1e-8)
    assert found.gap <= 1e-6
    assert max(found.lower, exact.lower) <= min(found.upper, exact.upper)


@pytest.mark.parametrize(
    ("X", "y"),
    [
        ([[0.0], [0.0]], [0, 1]),
        ([[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [-1.0, 0.0]], [1, 1, 1, 0]),
        ([[0.0, 0.0], [0.0, 0.0], [0.0, 1.0]], [1, 0, 1]),
        ([[1e3, 1.0], [1e3, -1.0], [1e3, 2.0]], [1, 0, 1]),
        ([[1e-8], [-1e-8], [3e-8]], [1, 0, 1]),
        (np.eye(3).tolist(), [1, 0, 1]),
    ],
)
@pytest.mark.parametrize("lam", [1e-8, 1.0, 1e6])
@pytest.mark.parametrize("intercept", [True, False])
def test_degenerate_data_give_honest_intervals(X, y, lam, intercept):
    X, signs = np.array(X), np.where(np.array(y) == 1, 1, -1)
    found = zero_one(X, y, lam=lam, intercept=intercept).certificate
    rows = np.hstack([X, np.ones((len(X), 1))]) if intercept else X
    best = float(exact_optimum(rows * signs[:, None], np.ones(len(y)), lam=lam))
    assert found.lower <= best * (1 + 1e-7)
    assert found.upper == pytest.approx(best, rel=1e-6, abs=1e-6)
    assert found.gap <= 1e-6


def test_what_a_rounded_factor_cannot_separate_is_not_called_inseparable():
    # A parabola separates the rows; the factor of their Gram matrix has lost it.
    with pytest.raises(SolverFailed, match="rounding hides whether there is one"):
        zero_one([[3e4], [3e4 + 1], [3e4 + 2]], [1, -1, 1], k=0, kernel=sx.Polynomial(2, 0.5, 1.0))


@pytest.mark.parametrize("kernel", ["rbf", sx.Polynomial(2, 0.5, 1.0), "precomputed"])
def test_equal_observations_with_other_labels_are_inseparable_whatever_the_kernel(kernel):
    X = np.array([[0.0], [-0.0], [1.0], [1.0], [2.0]])
    X = np.exp(-((X - X.T) ** 2)) if kernel == "precomputed" else X
    weight = [0.25, 1.0, 2.0, 0.5, 1.0]
    solve = partial(zero_one, X, [1, -1, 1, -1, 1], kernel=kernel, sample_weight=weight)
    with pytest.raises(SolverFailed, match="not separable in this feature space"):
        solve(k=0.75 - 2**-53)
    assert solve(k=0.75).certificate.gap <= 1e-6


def test_stopped_without_a_point():
    X, y = np.random.default_rng(0).standard_normal((60, 2)), np.arange(60) % 2
    with pytest.raises(SolverFailed, match="before the search was stopped"):
        zero_one(X, y, k=15, max_iter=1, intercept=False)


def test_a_warm_start_of_other_hyperparameters_and_of_other_data():
    X, y = outlier_data(60, 3, sigma=0.5, seed=7)
    first = zero_one(X, y, lam=1.0)
    with pytest.raises(DataError, match="feature"):
        zero_one(X[:, :2], y, lam=1.0, warm_start=first)
    with pytest.raises(DataError, match="model of two classes"):
        zero_one(X, y, lam=1.0, warm_start=replace(first, model=object()))
    for hyper in ({"lam": 1.3}, {"k": 20}, {"lam": 1.0, "max_iter": 1}):
        cold, warm = zero_one(X, y, **hyper), zero_one(X, y, warm_start=first, **hyper)
        assert warm.warm_start_used
        assert warm.certificate.upper <= cold.certificate.upper * (1 + 1e-9)


def test_settings_steer_the_search_and_change_no_optimum():
    X, y = outlier_data(40, 3, sigma=0.5, outliers="spread", seed=3)
    value = zero_one(X, y, lam=1.0).certificate.upper
    # As if the open nodes filled the memory: the most recent ones go first, and there is no record.
    for settings in ({"expansions": 1, "rounds": 1}, {"easy": 1.0}, {"memory": 1.0}):
        found = zero_one(X, y, lam=1.0, settings=SearchSettings(**settings)).certificate
        assert found.upper == pytest.approx(value, rel=1e-9)
        assert found.gap <= 1e-6


@pytest.mark.parametrize("hyper", [{"lam": 0.7}, {"k": 9.0}])
def test_bounds_do_not_depend_on_the_unit_of_the_data(hyper):
    X, y = outlier_data(30, 2, sigma=0.5, seed=3)
    scaled = {name: value * 1e4 if name == "lam" else value for name, value in hyper.items()}
    near = zero_one(X, y, intercept=False, max_iter=4, method="tree", **hyper)
    far = zero_one(0.01 * X, y, intercept=False, max_iter=4, method="tree", **scaled)
    assert 1e-4 * far.certificate.lower == pytest.approx(near.certificate.lower, rel=1e-6)
    assert 1e-4 * far.trace[:, 1:] == pytest.approx(near.trace[:, 1:], rel=1e-6, nan_ok=True)


def test_more_observations_start_from_the_low_rank_relaxation():
    """Beyond 200 observations the conic relaxation is that of fast.conic, whose bound is the
    root's.
    """
    X, y = outlier_data(220, 2, sigma=0.2, outliers="clustered", seed=0)
    for hyper, relaxed in (({"lam": 0.3}, {"lam": 0.3}), ({"k": 80.0}, {"kappa": 80.0 / 220})):
        root = sx.fast.conic(X, y, **relaxed).certificate
        found = zero_one(X, y, max_iter=2, settings=SearchSettings(easy=1.0), **hyper)
        assert found.certificate.lower >= root.lower - 1e-4 * root.upper
        assert found.certificate.lower <= found.certificate.upper
        assert found.certificate.upper >= root.lower


def test_weights_within_the_budget_are_within_it_however_they_are_summed():
    # Each of the small weights is rounded up where it is added to 1.
    weight = np.r_[1.0, np.full(40, 1.01 * 2.0**-53), 9.0]
    assert math.fsum(weight[:-1]) < 1 + 21 * 2.0**-52
    X = np.random.default_rng(0).standard_normal((42, 2))
    data = binary_data(X, np.where(np.arange(42) % 2, 1, -1), weight)
    space = feature_space(data, None, intercept="none")
    search = CountingSearch(ZeroOne(space=space, k=1 + 21 * 2.0**-52), Monitor(1e-6, 10))
    total = 0.0
    for each in search.weight[search.copies[:-1]]:
        total += float(each)
    assert total <= search.k


@pytest.mark.parametrize("call", ["ramp", "lam", "k"])
def test_a_search_that_is_stopped_before_its_first_node_has_its_interval(call, monkeypatch):
    @contextlib.contextmanager
    def pressed(deadline):
        yield np.ones(1, dtype=np.int64)

    monkeypatch.setattr(tree, "stop_flag", pressed)
    X, y = outlier_data(30, 3, sigma=0.5, outliers="none", seed=0)
    ticks = itertools.count()
    solve = ramp if call == "ramp" else partial(zero_one, **{call: 1.0 if call == "lam" else 5})
    with clock.substituted(lambda: 0.01 * next(ticks)):
        found = solve(X, y, time_limit=20.0)
    assert found.certificate.lower <= found.certificate.upper < math.inf


@pytest.mark.parametrize(("most", "scale"), [(1, 2.0**-20), (2, 1e6), (1_000_000, 1e-3)])
def test_the_bound_of_the_relaxation_is_one_in_the_units_of_the_data(scale, most):
    """Rows of any length, and a search that looks for the relaxation at once and may stop at it."""
    for seed in range(2):
        X, y = outlier_data(9, 2, sigma=0.5, outliers="spread", seed=seed)
        X = X * scale
        lam = 0.3 / scale**2
        found = zero_one(
            X, y, lam=lam, intercept=False, max_iter=most, settings=SearchSettings(easy=0.0)
        ).certificate
        best = exact_optimum(X * y[:, None], np.ones(y.size), lam=lam)
        assert 0.0 < found.lower <= best
        assert found.upper >= best


# The ramp loss


def test_a_large_price_leaves_a_bound_with_a_kernel():
    # C is 9e6, and the factor misses 1e-14 of the kernel.
    assert judge(23, problem="ramp", time_limit=None) == "certified"


def test_limits_warm_starts_and_settings():
    X, y = outlier_data(100, 5, sigma=1.0, seed=4)
    stopped = ramp(X, y, C=0.3, max_iter=2)
    assert stopped.status == Status.ITERATION_LIMIT
    assert 0 < stopped.certificate.lower < stopped.certificate.upper
    again = ramp(X, y, C=0.3, max_iter=1, warm_start=stopped)
    assert again.certificate.upper <= stopped.certificate.upper * (1 + 1e-9)
    X, y, few = X[:40], y[:40], SearchSettings(expansions=1, rounds=1)
    one, *others = ramp(X, y, C=0.3), ramp(X, y, C=0.3, settings=few), ramp(X + 100.0, y, C=0.3)
    for other in others:
        assert other.certificate.upper == pytest.approx(one.certificate.upper, rel=1e-6)


# --- minimising the relaxation


class StopsAfter:
    """A stop flag that is set once it has been read so many times."""

    def __init__(self, reads):
        self.left = reads

    def __getitem__(self, _):
        self.left -= 1
        return int(self.left < 0)


def minimised(stop, r=4, n=30, free=True):
    rng = np.random.default_rng(7)
    HT = rng.standard_normal((r, n)) / 4.0
    length = np.linalg.norm(HT[: r - free], axis=0) * (1 + 1e-12)
    state = rng.choice(np.array([FREE, KEPT], dtype=np.int8), n, p=[0.8, 0.2])
    height, reach = np.full(n, 0.7), rng.uniform(1.0, 5.0, n)
    cap = height / np.where(state == FREE, reach, 2.0)
    w, (a, slope, bend), (centre, base, step) = np.zeros(r), np.zeros((3, n)), np.zeros((3, r))
    limits = (-3.0, 3.0) if free else (0.0, 0.0)
    scratch = bend, base, step, np.zeros((r + 1, r))
    with np.errstate(all="raise"):
        found = minimise_relaxation(
            (HT, length), (state, cap, height, reach), (2.0, 50.0, free), 1e-6, *limits, 0.0, 1e9,
            w,
            (a, slope, centre, *scratch), stop,
        )  # fmt: skip
    return found, w, scratch[3]


@pytest.mark.parametrize("free", [False, True])
def test_a_minimisation_that_is_stopped_anywhere_has_a_bound_that_is_no_better(free):
    whole = StopsAfter(10**9)
    best = minimised(whole, free=free)[0][0]
    reads = 10**9 - whole.left
    assert reads > 2 * 4
    for after in range(reads + 1):
        below, error, longest, _ = minimised(StopsAfter(after), free=free)[0]
        assert below <= best + 1e-9 * abs(best)
        assert np.isfinite([error, longest]).all()


def test_a_classifier_without_a_limit_ends_after_counted_rounds(monkeypatch):
    monkeypatch.setattr(indicator, "MOST_ROUNDS", 3)
    X, y = outlier_data(60, 8, sigma=1.0, outliers="spread", seed=4)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        fitted = sx.RampSVMClassifier(C=0.3).fit(X, y)
    assert fitted.solution_.status == Status.ITERATION_LIMIT
    assert fitted.solution_.attempts[0].iterations == 3
    assert 0.0 < fitted.certificate_.lower < fitted.certificate_.upper
