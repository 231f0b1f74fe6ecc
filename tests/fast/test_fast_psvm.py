"""The specialised solvers of the kernel pSVM and hard margin."""

import math
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.fast.core.rows import CachedRows, GramRows, RowCacheSettings, TiledRows, kernel_rows
from svmcvx.fast.margin.decomposition import DecompositionSettings, LowRankSettings
from svmcvx.fast.margin.psvm import PSVMSettings, psvm
from svmcvx.fast.margin.smo_passes import near_best_bias, pair_step, slack_of
from svmcvx.feature_space import KernelSpace, feature_space
from svmcvx.formulations.margin import best_bias
from svmcvx.kernels.gram import GramCache
from tests.conftest import make_data
from tests.designs import DESIGNS, design
from tests.intervals import overlap

EXPONENTS = (1.0, 1.02, 1.5, 2.0, 7.0)
KERNELS = {
    "rbf": sx.RBF(),
    "narrow": sx.RBF(8.0),
    "laplacian": sx.Laplacian(),
    "polynomial": sx.Polynomial(2, 1.0, 1.0),
    "linear": sx.Linear(),
}


def value(t, violation, eta, a, c, y, r):
    """ψ(t), written from the statement."""
    before = [slack_of(a[k], c[k], r) for k in (0, 1)]
    after = [slack_of(max(a[k] + s * y[k] * t, 0.0), c[k], r) for k, s in ((0, 1), (1, -1))]
    return violation - eta * t - y[0] * (after[0] - before[0]) + y[1] * (after[1] - before[1])


@settings(max_examples=150)
@given(
    p=st.sampled_from((1.001, 1.05, 1.25, 1.4, 1.5, 2.0, 2.5, 3.0, 7.0, 40.0)),
    violation=st.floats(1e-9, 1e3),
    eta=st.sampled_from((1e-100, 1e-8, 1e-2, 1.0, 1e4)),
    # Below the normal numbers no step is fine enough to be told from its neighbours.
    a=st.tuples(*2 * [st.just(0.0) | st.floats(1e-290, 2)]),
    c=st.tuples(st.floats(1e-3, 1e3), st.floats(1e-3, 1e3)),
    y=st.tuples(st.sampled_from((-1.0, 1.0)), st.sampled_from((-1.0, 1.0))),
)
def test_a_pair_step_is_the_root_or_the_end(p, violation, eta, a, c, y):
    r = 1.0 / (p - 1.0)
    a = tuple(x * ck for x, ck in zip(a, c, strict=True))  # slacks of order 1, up to 2^r
    limit = min(a[0] if y[0] < 0 else math.inf, a[1] if y[1] > 0 else math.inf)
    t = pair_step(violation, eta, a[0], c[0], y[0], a[1], c[1], y[1], r, limit, 1e-11)
    assert 0 <= t <= limit
    assert math.isfinite(t)
    # A root may lie below the smallest positive number, or below that times c, by which it is
    # divided.
    beyond = max(t * (1 + 1e-7), 2.0 * max(1.0, *c) * np.nextafter(0.0, 1.0))
    psi = [value(x, violation, eta, a, c, y, r) for x in (t * (1 - 1e-7), beyond)]
    scale = violation + eta * t + sum(slack_of(ak + t, ck, r) for ak, ck in zip(a, c, strict=True))
    assert psi[0] >= -1e-10 * scale
    if t < limit:
        assert psi[1] <= 1e-10 * scale


@settings(max_examples=30)
@given(
    st.sampled_from(DESIGNS),
    st.sampled_from(EXPONENTS),
    st.sampled_from(tuple(KERNELS)),
    st.floats(-4, 4),
    st.booleans(),
    st.integers(0, 2**31),
)
def test_agrees_with_the_conic_route(name, p, kernel, cost, weighted, seed):
    # Polynomials of far rows have entries that are all rounding.
    far = name in ("offset", "large", "mixed scales")
    X, y = design(name, seed, n=16)
    problem = {"C": 10.0**cost, "p": p, "kernel": KERNELS["rbf" if far else kernel]}
    if weighted:
        problem["sample_weight"] = np.arange(y.size) % 3 + (np.arange(y.size) < 2)
    fast = sx.fast.psvm(X, y, **problem)
    assert fast.status in ("optimal", "inaccurate")
    assert fast.certificate.is_certified(1e-5)
    overlap(fast, sx.solve(sx.psvm_dual(X, y, **problem)), gap=1e-5)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_working_sets_reach_the_gap_of_all_pairs(p, kernel):
    X, y = make_data(5, n=120, d=3)
    solve = partial(psvm, X, y, C=2.0, p=p, kernel=KERNELS[kernel], tol=1e-7)
    settings = PSVMSettings(decomposition=DecompositionSettings(whole=10, working_set=16))
    whole, parts = solve(), solve(settings=settings)
    assert whole.status == parts.status == "optimal"
    overlap(whole, parts, gap=2e-7)
    assert parts.attempts[0].options["working_set"] == 16


@pytest.mark.parametrize("p", [1.0, 1.5, 3.0])
def test_single_precision_rows_cost_no_accuracy(p):
    X, y = make_data(3, n=1500, d=4)
    settings = PSVMSettings(rows=RowCacheSettings(double_precision=10))
    solution = psvm(X, y, C=10.0, p=p, kernel="rbf", tol=1e-8, settings=settings)
    assert solution.attempts[0].options["storage"] == "float32"
    # The bounds from rows in single precision are estimates: the certificate decides what the
    # status is.
    exact = solution.certificate.is_certified(1e-8)
    assert solution.status == ("optimal" if exact else "inaccurate")
    assert solution.certificate.is_certified(2e-8)


def test_indefinite_kernels_are_refused_or_clipped():
    X, y = make_data()
    problem = {"C": 1.0, "p": 1.5, "kernel": sx.Sigmoid(1.0, -1.0)}
    with pytest.raises(sx.DataError, match="indefinite"):
        psvm(X, y, **problem)
    clipped = psvm(X, y, **problem, indefinite="clip")
    assert clipped.certificate.residuals["clipped_mass"] > 0
    overlap(clipped, sx.solve(sx.psvm_dual(X, y, **problem, indefinite="clip")))


def stored(kept, working_set=64):
    """Settings that keep the rows that are used (0), or none (infinity), in single precision."""
    return PSVMSettings(
        rows=RowCacheSettings(kept=kept, double_precision=0),
        decomposition=DecompositionSettings(working_set=working_set, tiled_working_set=working_set),
    )


@pytest.mark.parametrize(("name", "p"), [("rbf", 1.0), ("laplacian", 2.0), ("polynomial", 1.5)])
def test_rows_that_are_not_kept_give_the_same_interval(name, p):
    solve = partial(psvm, *make_data(3, n=1100, d=4), C=1.0, p=p, kernel=KERNELS[name], tol=1e-7)
    expected = solve()
    for kept in (0.0, math.inf):
        found = solve(cache_size=1.0, settings=stored(kept))
        overlap(found, expected, gap=1e-7)
        assert found.attempts[0].options["storage"] == "float32"
        assert (found.attempts[0].options["cache_mb"] == 0) == (kept == math.inf)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_rows_are_the_same_however_they_are_stored(dtype, intercept):
    X, y = make_data(3, n=300, d=4)
    space = feature_space(binary_data(X, y), sx.RBF(0.3), intercept=intercept, keep_gram=False)
    K = sx.RBF(0.3)(X) + (intercept == "penalised")
    tiled = TiledRows(space.columns(dtype=dtype), float(intercept == "penalised"))
    ways = (GramRows(K), tiled, CachedRows(space.row_block(dtype), 300, 40, dtype))
    rng = np.random.default_rng(0)
    accuracy = 100.0 * np.finfo(dtype).eps
    for _ in range(4):
        chosen = np.sort(rng.choice(60, 30, replace=False))
        change = rng.standard_normal(30) * (rng.random(30) < 0.7)
        expected = K[chosen].T @ change
        for rows in ways:
            Q, f = rows.square(chosen), np.ones(300)
            rows.add(f, chosen, change)
            assert np.array_equal(Q, Q.T)
            assert np.allclose(Q, K[np.ix_(chosen, chosen)], atol=accuracy)
            assert np.allclose(f, 1.0 + expected, atol=30 * accuracy)


def test_time_is_left_for_the_certificate(monkeypatch):
    X, y = make_data(3, n=1500, d=4)
    products = []
    evaluate = KernelSpace._blockwise
    monkeypatch.setattr("svmcvx.fast.margin.decomposition.seconds_of_entry", lambda space: 1.0)
    monkeypatch.setattr(
        KernelSpace, "_blockwise", lambda self, v: products.append(v.any()) or evaluate(self, v)
    )
    solve = partial(psvm, X, y, C=1.0, kernel="rbf", settings=stored(math.inf))
    found = solve(time_limit=2e5)
    # Each row would take 1500 seconds: there is time for those of one round.
    assert found.status is sx.Status.TIME_LIMIT
    assert sum(products) == 1
    assert 0 < found.certificate.lower < found.certificate.upper < math.inf
    overlap(found, solve(), gap=1.0)


def test_memory_does_not_grow_with_the_square_of_n():
    X, y = make_data(5, n=6000, d=5)
    tracemalloc.start()
    found = psvm(X, y, kernel="rbf", tol=1e-2, settings=stored(math.inf, working_set=512))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.certificate.is_certified(1e-2)
    # The Gram matrix would take 144 MB in single precision, the support vectors' rows a part of it.
    assert peak < 30e6


def test_a_hundred_thousand_observations_get_a_bounded_cache():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 2))
    y = np.where(X[:, 0] + 0.1 * rng.standard_normal(100_000) > 0, 1, -1)
    space = feature_space(binary_data(X, y), sx.RBF(), intercept="free", keep_gram=False)
    assert kernel_rows(space, cache_size=100, float32=True).tiled
    wanted = {"float32": True, "settings": RowCacheSettings(kept=0.0)}
    rows = kernel_rows(space, cache_size=100, **wanted)
    assert rows.nbytes <= 100 * 2**20
    assert rows.room == len(rows.store) == 262
    with pytest.raises(sx.DataError, match="no room for two rows"):
        kernel_rows(space, cache_size=0.1, **wanted)
    solution = psvm(X, y, p=2.0, kernel="rbf", cache_size=50, max_iter=1, tol=1e-1)
    assert math.isfinite(solution.certificate.gap)


@pytest.mark.parametrize(
    ("seed", "kernel"), [(0, sx.Linear()), (1, sx.RBF(1.0)), (2, sx.Polynomial(2, 1.0, 1.0))]
)
def test_hard_margins_of_kernels_are_soft_ones_at_large_C(seed, kernel):
    X, _ = make_data(seed)
    y = np.where(X[:, 0] > X[:, 1], 1, -1)
    X[:, 0] += 0.3 * y
    fast = sx.fast.hard_margin(X, y, kernel=kernel)
    overlap(fast, sx.solve(sx.hard_margin_dual(X, y, kernel=kernel)))
    C = max(1e6, 2.0 * fast.dual["alpha"].max())
    overlap(fast, psvm(X, y, C=C, kernel=kernel), gap=1e-5)
    X, y = np.vstack([X, X[:1]]), np.append(y, -y[0])
    with pytest.raises(sx.SolverFailed, match="not separable"):
        sx.fast.hard_margin(X, y, kernel=kernel)


def curved(n, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    height = np.sin(2 * X[:, 0]) + X[:, -1] ** 2 - 0.8 + 0.3 * rng.standard_normal(n)
    return X, np.where(height > 0, 1, -1)


def squares(A, B):
    return (1.0 + A @ B.T) ** 2


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("kernel", [sx.RBF(0.02), squares])
def test_newton_on_the_factor_agrees_with_pair_steps_alone(p, kernel):
    solve = partial(psvm, *curved(80, seed=5), C=30.0, p=p, kernel=kernel)
    never = PSVMSettings(low_rank=LowRankSettings(largest=0))
    soon = PSVMSettings(
        low_rank=LowRankSettings(probe=6, work_of_column=0.0, worth=0.0),
        decomposition=DecompositionSettings(steps=1),
    )
    found = solve(tol=1e-7, settings=soon)
    assert found.status == "optimal"
    assert found.attempts[0].options["low_rank"] <= 80
    assert found.certificate.is_certified(2e-7)
    overlap(found, solve(tol=1e-4, max_iter=3000, settings=never), gap=1e-4)


@pytest.mark.parametrize("p", [1, 1.5, 2])
@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
@pytest.mark.parametrize("kernel", [sx.RBF(0.5), sx.Polynomial(2, gamma=1.0)])
def test_copies_are_one_observation_of_their_weight(p, intercept, kernel):
    rng = np.random.default_rng(0)
    X = rng.integers(2, size=(1200, 5)).astype(float)
    y = np.where(X @ rng.normal(size=5) + 0.5 * rng.normal(size=1200) > 0.2, 1, -1)
    weight = rng.uniform(0.5, 2.0, size=1200)
    names = X @ 2.0 ** np.arange(1, 6) + (y > 0)
    _, first, place = np.unique(names, return_index=True, return_inverse=True)
    sums = np.bincount(place, weight)
    solve = partial(psvm, C=1.0, p=p, kernel=kernel, intercept=intercept)
    many = solve(X, y, sample_weight=weight)
    few = solve(X[first], y[first], sample_weight=sums)
    overlap(many, few)
    assert many.attempts[0].options["pair_steps"] == 0
    alpha = many.dual["alpha"]
    assert alpha.shape == y.shape
    np.testing.assert_allclose(alpha / weight, (np.bincount(place, alpha) / sums)[place], rtol=1e-9)
    space = feature_space(binary_data(X, y), kernel, intercept=intercept, keep_gram=False)
    K = kernel(X, X) + (intercept == "penalised")
    for v in (rng.normal(size=1200), y * rng.uniform(size=1200)):
        scores = space.point(v).scores
        assert (np.abs(scores.value - K @ v) <= 2.0 * scores.error).all()


@pytest.mark.parametrize("p", [1.0, 1.5, 7.0])
@pytest.mark.parametrize("C", [1e3, 1e5])
def test_huge_weights_on_few_features_end_soon(p, C):
    found = psvm(*curved(150), C=C, p=p, kernel="rbf", tol=1e-4, max_iter=100)
    assert found.status == "optimal"
    assert found.certificate.is_certified(2e-4)


@pytest.mark.parametrize(
    ("name", "p"),
    [
        *(("plain", 1.0), ("repeat", 1.5), ("duplicates", 2.5), ("one-point class", 1.0)),
        *(("offset", 1.5), ("collinear", 1.0), ("duplicates", 1.0), ("one-point class", 2.5)),
    ],
)
def test_paths_agree_with_cold_fits(name, p):
    X, y = design(name, 5, n=50)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, size=y.size)
    solve = partial(psvm, X, y, p=p, sample_weight=weight)
    cold = {C: solve(C=C, kernel="rbf").certificate for C in np.logspace(-2, 4, 4)}
    for values in ([*cold], [*cold][::-1]):
        earlier = None
        cache = GramCache()
        for C in values:
            with cache.shared():
                earlier = solve(C=C, kernel=sx.RBF(), warm_start=earlier)
            # The certificate allows for rounding, beyond the gap at which a solver stops.
            overlap(earlier, cold[C], gap=max(2e-6, 2.0 * cold[C].gap))


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0, 3.0])
def test_near_best_bias_is_nearly_the_best(p):
    random = np.random.default_rng(3)
    for trial in range(50):
        n = int(random.integers(2, 30))
        y = np.where(random.random(n) < random.choice([0.1, 0.5]), 1.0, -1.0)
        y[:2] = 1.0, -1.0
        f = random.normal(size=n) * 10.0 ** random.uniform(-3, 3)
        f = np.round(f) if trial % 3 == 0 else f
        weight = random.uniform(0.1, 5.0, size=n)

        def loss(b, f=f, y=y, weight=weight):
            return float(weight @ np.maximum(1.0 - y * (f + b), 0.0) ** p)

        exact = best_bias(f, y, p=p, weight=weight)
        assert loss(near_best_bias(f, y, weight, p, 0.0)) <= loss(exact) * (1 + 1e-7) + 1e-12
        assert loss(exact) <= min(loss(exact + step) for step in (-1e-3, 1e-3)) * (1 + 1e-12)
        guessed = best_bias(f, y, p=p, weight=weight, near=exact + 1e-3)
        assert guessed == pytest.approx(exact, rel=1e-12, abs=1e-12)
