"""The specialised solvers of the kernel pSVM and hard margin: the conic route's interval, reached
another way.
"""

import math
import tracemalloc
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.fast.core.rows import (
    CachedRows,
    GramRows,
    PartialFactor,
    RowCacheSettings,
    TiledRows,
    kernel_rows,
)
from svmcvx.fast.margin.decomposition import DecompositionSettings, LowRankSettings
from svmcvx.fast.margin.psvm import PSVMSettings, psvm
from svmcvx.fast.margin.smo_passes import near_best_bias, pair_step, slack_of
from svmcvx.feature_space import KernelSpace, feature_space
from svmcvx.formulations.margin import PSVM, best_bias
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


def many(n=1500, seed=3, d=4):
    return make_data(seed, n=n, d=d)


def value(t, violation, eta, a, c, y, r):
    """ψ(t), written from the statement."""
    before = [slack_of(a[k], c[k], r) for k in (0, 1)]
    after = [slack_of(max(a[k] + s * y[k] * t, 0.0), c[k], r) for k, s in ((0, 1), (1, -1))]
    return violation - eta * t - y[0] * (after[0] - before[0]) + y[1] * (after[1] - before[1])


@settings(max_examples=200)
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
    t = pair_step(violation, eta, a[0], c[0], y[0], a[1], c[1], y[1], r, limit)
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


@settings(max_examples=50)
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
    overlap(fast.certificate, sx.solve(sx.psvm_dual(X, y, **problem)).certificate)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_working_sets_reach_the_gap_of_all_pairs(p, kernel):
    X, y = make_data(5, n=120, d=3)
    whole = sx.fast.psvm(X, y, C=2.0, p=p, kernel=KERNELS[kernel], tol=1e-7)
    settings = PSVMSettings(decomposition=DecompositionSettings(whole=10, working_set=16))
    parts = sx.fast.psvm(X, y, C=2.0, p=p, kernel=KERNELS[kernel], tol=1e-7, settings=settings)
    for solution in (whole, parts):
        assert solution.status == "optimal"
        assert solution.certificate.is_certified(2e-7)
    overlap(whole.certificate, parts.certificate)
    assert dict(parts.attempts[0].options)["working_set"] == 16


@pytest.mark.parametrize("p", [1.0, 1.3, 1.5, 2.0, 3.0])
def test_single_precision_rows_cost_no_accuracy(p):
    X, y = many()
    settings = PSVMSettings(rows=RowCacheSettings(double_precision=10))
    solution = sx.fast.psvm(X, y, C=10.0, p=p, kernel="rbf", tol=1e-8, settings=settings)
    assert dict(solution.attempts[0].options)["storage"] == "float32"
    # The bounds from rows in single precision are estimates: the certificate decides what the
    # status is.
    assert solution.status == (
        "optimal" if solution.certificate.is_certified(1e-8) else "inaccurate"
    )
    assert solution.certificate.is_certified(2e-8)


def test_objective_is_that_of_libsvm():
    X, y = many()
    peer = SVC(C=3.0, gamma=0.2, tol=1e-6).fit(X, y)
    statement = PSVM(
        space=feature_space(binary_data(X, y), sx.RBF(0.2), intercept="free"), C=3.0, p=1.0
    )
    v = np.zeros(len(y))
    v[peer.support_] = peer.dual_coef_[0]
    theirs = statement.objective(statement.space.model(v, float(peer.intercept_[0])))
    ours = sx.fast.psvm(X, y, C=3.0, p=1.0, kernel=sx.RBF(0.2), tol=1e-8)
    assert ours.certificate.upper == pytest.approx(theirs, rel=1e-6)
    assert ours.certificate.upper <= theirs + 1e-6


def test_indefinite_kernels_are_refused_or_clipped():
    X, y = make_data()
    kernel = sx.Sigmoid(1.0, -1.0)
    with pytest.raises(sx.DataError, match="indefinite"):
        sx.fast.psvm(X, y, C=1.0, p=1.5, kernel=kernel)
    clipped = sx.fast.psvm(X, y, C=1.0, p=1.5, kernel=kernel, indefinite="clip")
    assert clipped.certificate.is_certified(2e-6)
    assert clipped.certificate.residuals["clipped_mass"] > 0
    conic = sx.solve(sx.psvm_dual(X, y, C=1.0, p=1.5, kernel=kernel, indefinite="clip"))
    overlap(clipped.certificate, conic.certificate)


def stored(kept, working_set=64):
    """Settings that keep the rows that are used (0), or none (infinity), in single precision."""
    return PSVMSettings(
        rows=RowCacheSettings(kept=kept, double_precision=0),
        decomposition=DecompositionSettings(working_set=working_set, tiled_working_set=working_set),
    )


@pytest.mark.parametrize(("name", "p"), [("rbf", 1.0), ("laplacian", 2.0), ("polynomial", 1.5)])
def test_rows_that_are_not_kept_give_the_same_interval(name, p):
    X, y = many(1100)
    keywords = {"C": 1.0, "p": p, "kernel": KERNELS[name], "tol": 1e-7}
    expected = sx.fast.psvm(X, y, **keywords).certificate
    for kept in (0.0, math.inf):
        found = sx.fast.psvm(X, y, cache_size=1.0, settings=stored(kept), **keywords)
        assert found.certificate.is_certified(1e-7)
        overlap(found.certificate, expected, gap=1e-7)
        assert found.attempts[0].options["storage"] == "float32"
        assert (found.attempts[0].options["cache_mb"] == 0) == (kept == math.inf)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_rows_are_the_same_however_they_are_stored(dtype, intercept):
    X, y = many(300)
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
    X, y = many()
    products = []
    evaluate = KernelSpace._blockwise
    monkeypatch.setattr("svmcvx.fast.margin.decomposition.seconds_of_entry", lambda space: 1.0)
    monkeypatch.setattr(
        KernelSpace, "_blockwise", lambda self, v: products.append(v.any()) or evaluate(self, v)
    )
    solve = partial(sx.fast.psvm, X, y, C=1.0, kernel="rbf", settings=stored(math.inf))
    found = solve(time_limit=2e5)
    # Each row would take 1500 seconds: there is time for those of one round.
    assert found.status is sx.Status.TIME_LIMIT
    assert sum(products) == 1
    assert 0 < found.certificate.lower < found.certificate.upper < math.inf
    overlap(found.certificate, solve().certificate, gap=1.0)


def test_memory_does_not_grow_with_the_square_of_n():
    X, y = make_data(5, n=6000, d=5)
    tracemalloc.start()
    found = sx.fast.psvm(
        X, y, C=1.0, p=1.0, kernel="rbf", tol=1e-2, settings=stored(math.inf, working_set=512)
    )
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
    solution = sx.fast.psvm(X, y, C=1.0, p=2.0, kernel="rbf", cache_size=50, max_iter=1, tol=1e-1)
    assert math.isfinite(solution.certificate.gap)


@pytest.mark.parametrize("kernel", [sx.RBF(0.7), sx.Laplacian(0.3), sx.Polynomial(3, 0.5, 1.0)])
@pytest.mark.parametrize("intercept", ["free", "penalised"])
def test_products_by_blocks_are_those_of_the_gram_matrix(kernel, intercept):
    X, y = make_data()
    X[3], X[5] = X[2], X[2] + 1e-9
    v = np.where(np.arange(40) % 3, 0.0, np.arange(40) - 20.0)
    kept, blocks = (
        feature_space(
            binary_data(X, y), kernel, intercept=intercept, keep_gram=keep, block_entries=64
        )
        for keep in (True, False)
    )
    (_, ours, norm), (_, expected, expected_norm) = blocks.point(v), kept.point(v)
    assert np.allclose(ours.value, expected.value, rtol=1e-11, atol=1e-11)
    assert norm.value == pytest.approx(expected_norm.value, rel=1e-11)
    # Both bounds hold. Blocks sum over the support only, and |K| + 1 is there what is |K + 1| where
    # the Gram matrix is kept.
    ratio = ours.error / expected.error
    assert (np.abs(ours.value - expected.value) <= ours.error + expected.error).all()
    assert ratio.min() > 0.1
    assert ratio.max() < 1.5
    model = blocks.model(v, 0.3)
    for _ in range(2):  # before and after other points have been evaluated
        assert np.allclose(
            blocks.scores(model).value, model.scores(X).value, rtol=1e-11, atol=1e-12
        )
        assert blocks.squared_norm(model).value == pytest.approx(
            kept.squared_norm(model).value, rel=1e-11
        )
        blocks.point(v + 1.0)
        blocks.point(v + 2.0)
    assert blocks.facts == {}


def separable(seed, n=40, d=3, gap=0.3):
    X, _ = make_data(seed, n=n, d=d)
    y = np.where(X[:, 0] > X[:, 1], 1, -1)
    X[:, 0] += gap * y
    return X, y


@pytest.mark.parametrize(
    ("seed", "kernel"), [(0, sx.Linear()), (1, sx.RBF(1.0)), (2, sx.Polynomial(2, 1.0, 1.0))]
)
def test_hard_margins_of_kernels_are_those_of_the_conic_route_and_the_soft_ones_at_large_C(
    seed, kernel
):
    X, y = separable(seed)
    fast = sx.fast.hard_margin(X, y, kernel=kernel)
    assert fast.certificate.is_certified(2e-6)
    overlap(fast, sx.solve(sx.hard_margin_dual(X, y, kernel=kernel)))
    overlap(
        fast,
        sx.fast.psvm(X, y, C=max(1e6, 2.0 * fast.dual["alpha"].max()), p=1.0, kernel=kernel),
        gap=1e-5,
    )
    X, y = np.vstack([X, X[:1]]), np.append(y, -y[0])
    with pytest.raises(sx.SolverFailed, match="not separable"):
        sx.fast.hard_margin(X, y, kernel=kernel)


def curved(n, seed=0, d=2):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    return X, np.where(
        np.sin(2 * X[:, 0]) + X[:, -1] ** 2 - 0.8 + 0.3 * rng.standard_normal(n) > 0, 1, -1
    )


@pytest.mark.parametrize("kernel", [sx.RBF(0.3), sx.Polynomial(2, 1.0, 1.0), sx.Linear()], ids=str)
def test_a_partial_factor_grown_in_turns_is_a_factor(kernel):
    X, y = curved(150)
    space = feature_space(binary_data(X, y), kernel, intercept="free", keep_gram=False)
    factor = PartialFactor(space)
    factor.grow(4, lambda: False)
    assert len(factor.rows) <= 4
    factor.grow(150, lambda: False)
    L, K = np.array(factor.rows), kernel(X)
    assert factor.done
    assert factor.predicted_rank == len(L) < 150
    assert np.abs(L.T @ L - K).max() <= 1e-12 * K.max()
    assert factor.residual.max() <= 1e-13 * K.max()


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("kernel", ["wide", "polynomial", "callable"])
def test_newton_on_the_factor_agrees_with_pair_steps_alone(p, kernel):
    X, y = curved(80, seed=5)
    kernel = (
        (lambda A, B: (1.0 + A @ B.T) ** 2)
        if kernel == "callable"
        else {**KERNELS, "wide": sx.RBF(0.02)}[kernel]
    )
    never = PSVMSettings(low_rank=LowRankSettings(largest=0))
    alone = sx.fast.psvm(X, y, C=30.0, p=p, kernel=kernel, tol=1e-4, max_iter=3000, settings=never)
    settings = PSVMSettings(
        low_rank=LowRankSettings(probe=6, work_of_column=0.0, worth=0.0),
        decomposition=DecompositionSettings(steps=1),
    )
    found = sx.fast.psvm(X, y, C=30.0, p=p, kernel=kernel, tol=1e-7, settings=settings)
    assert found.status == "optimal"
    assert found.attempts[0].options["low_rank"] <= 80
    assert found.certificate.is_certified(2e-7)
    overlap(found.certificate, alone.certificate, gap=1e-4)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 7.0])
@pytest.mark.parametrize("C", [1e3, 1e5])
def test_huge_weights_on_few_features_end_soon(p, C):
    X, y = curved(150)
    found = sx.fast.psvm(X, y, C=C, p=p, kernel="rbf", tol=1e-4, time_limit=20)
    assert found.status == "optimal"
    assert found.certificate.is_certified(2e-4)


@pytest.mark.parametrize(
    "name", ["plain", "repeat", "duplicates", "one-point class", "offset", "collinear"]
)
@pytest.mark.parametrize("p", [1.0, 1.5, 2.5])
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
            found, expected = earlier.certificate, cold[C]
            assert abs(found.upper - expected.upper) <= max(1.0, expected.upper) * (
                found.gap + expected.gap + 1e-12
            )
            # The certificate allows for rounding, beyond the gap at which a solver stops.
            assert found.gap <= max(2e-6, 2.0 * expected.gap)


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
