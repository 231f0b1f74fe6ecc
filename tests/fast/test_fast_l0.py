"""The l0-norm hinge: ADMM, polish, local search; against brute force over all sets and the
mixed-integer route.
"""

import itertools
import math
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_circles, make_moons

import svmcvx as sx
from campaigns.exact_zero_one import free_instance, judge
from svmcvx.data import binary_data
from svmcvx.fast.core import active_set, active_set_passes
from svmcvx.fast.core.active_set import new_state
from svmcvx.fast.indicator import l0_admm
from svmcvx.fast.indicator import l0_exchange as l0_search
from svmcvx.fast.indicator.l0 import L0Settings, l0
from svmcvx.fast.indicator.l0_polish import PolishSettings
from svmcvx.feature_space import KernelSpace, feature_space
from svmcvx.formulations.indicator.l0 import l0_objective, l0_statement
from svmcvx.heuristics.least_norm import least_norm
from tests.conftest import make_data

KERNELS = {
    None: None,
    "rbf": sx.RBF(0.5),
    "narrow": sx.RBF(8.0),
    "polynomial": sx.Polynomial(2, 1.0, 1.0),
}


def circles(n, noise, random_state):
    return make_circles(n, noise=noise, factor=0.5, random_state=random_state)


def noisy(n=120, seed=0, noise=0.1, shape=make_moons):
    X, y = shape(n, noise=0.1, random_state=seed)
    rng = np.random.default_rng(seed)
    flipped = rng.choice(n, int(noise * n), replace=False)
    y[flipped] = 1 - y[flipped]
    return (X - X.mean(axis=0)) / X.std(axis=0), np.where(y > 0, 1, -1)


def brute_force(X, y, C, kernel, weight):
    """The optimum over all sets that are kept."""
    n = len(y)
    space = feature_space(binary_data(X, y), kernel, intercept="free")
    G = space.data.y[:, None] * space.factor
    best = np.inf
    for kept in itertools.product((False, True), repeat=n):
        kept = np.array(kept)
        price = C * weight[~kept].sum()
        found = least_norm(G[kept], space.data.y[kept]) if price < best else None
        if found is not None:
            best = min(best, 0.5 * found.w @ found.w + price)
    return best


@st.composite
def problems(draw, largest=8):
    n, d = draw(st.integers(2, largest)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(n) > 0, 1, -1)
    y[:2] = -1, 1
    design = draw(
        st.sampled_from(
            ("plain", "rounded", "constant", "equal", "one-point class", "offset", "scaled")
        )
    )
    if design == "rounded":
        X = np.round(X)
    elif design == "constant":
        X[:, 0] = 3.0
    elif design == "equal":
        X[:] = X[0]
    elif design == "one-point class":
        y[1:] = 1
    elif design == "scaled":
        X *= 10.0 ** rng.uniform(-3, 3)
    kernel = draw(
        st.sampled_from(
            (None, "rbf", "narrow") if design in ("offset", "scaled") else tuple(KERNELS)
        )
    )
    if design == "offset":
        X += 1e6
    return {
        "X": X,
        "y": y,
        "C": 10.0 ** draw(st.floats(-3, 3)),
        "kernel": KERNELS[kernel],
        "sample_weight": rng.choice([0.5, 1.0, 3.0], n) if draw(st.booleans()) else None,
    }


@settings(max_examples=25)
@given(problems(6))
@example(
    {
        "X": np.array([[-0.80193143], [-1.324359], [-0.24836162], [0.42044524], [1.13604653]]),
        "y": np.array([-1, 1, -1, 1, 1]),
        "C": 10.0,
        "kernel": None,
        "sample_weight": np.array([0.5, 1.0, 3.0, 0.5, 0.5]),
    }
)
def test_small_problems_are_solved_to_the_optimum(problem):
    solution = l0(**problem)
    weight = (
        np.ones(len(problem["y"])) if problem["sample_weight"] is None else problem["sample_weight"]
    )
    optimum = brute_force(problem["X"], problem["y"], problem["C"], problem["kernel"], weight)
    assert solution.certificate.upper >= optimum * (1 - 1e-6) - 1e-9
    assert solution.certificate.upper == pytest.approx(optimum, rel=1e-6)


@settings(max_examples=60)
@given(problems(60))
@example(
    # Two points a quarter apart and a million away from the origin.
    {
        "X": np.array([[1000000.12573022], [999999.86789514]]),
        "y": np.array([-1, 1]),
        "C": 100.0,
        "kernel": None,
        "sample_weight": None,
    }
)
@example(
    # Rows far apart: all that the bound on rounding may use is that the kernel of a row with itself
    # is exact.
    {
        "X": np.array([[484.98012743], [300.35678133]]),
        "y": np.array([-1, 1]),
        "C": 10.0,
        "kernel": KERNELS["narrow"],
        "sample_weight": None,
    }
)
def test_every_answer_is_stationary_and_no_worse_than_the_admm(problem):
    solution = l0(**problem)
    assert solution.status == "optimal"
    certificate = solution.certificate
    assert certificate.kind == "local"
    assert certificate.lower is None
    # The intercept is a double: on data far from the origin its last digit alone moves all margins.
    last_digit = float(np.spacing(abs(solution.model.intercept)))
    assert certificate.residuals["stationarity"] <= 1e-8 + 8 * last_digit
    options = solution.attempts[0].options
    assert certificate.upper <= min(options["admm_objective"]) * (1 + 1e-9 + 8 * last_digit)
    # The objective is that of the model, written from the statement.
    data = binary_data(problem["X"], problem["y"], problem["sample_weight"])
    u = data.y * solution.model.decision_function(problem["X"])
    norm = float(solution.model.squared_norm(data).value)
    u = np.where(np.abs(u - 1) <= 1e-7, 1.0, u)
    assert l0_objective(norm, u, C=problem["C"], weight=data.weight) == pytest.approx(
        certificate.upper, rel=1e-6
    )


def test_the_optimum_is_that_of_the_mixed_integer_route():
    pytest.importorskip("pyscipopt")
    X, y = make_data(0, n=16, d=2)
    exact = sx.solve(sx.l0_mio(X, y, C=0.5, kernel=sx.RBF(0.5)))
    local = l0(X, y, C=0.5, kernel=sx.RBF(0.5))
    assert local.certificate.upper >= exact.certificate.lower * (1 - 1e-6)
    assert local.certificate.upper <= exact.certificate.upper * (1 + 1e-6)


# The parts


def system(n=40, seed=0):
    X, y = noisy(n, seed)
    return np.asarray(sx.RBF(0.5)(X)), y.astype(float)


def test_an_iteration_of_the_admm_is_that_of_the_paper():
    K, y = system()
    n, C, sigma, iota = y.size, 2.0, 0.7, 1.2
    c, b, lam = np.zeros(n), 0.0, np.zeros(n)
    for steps in range(1, 8):
        z = 1 - y * (K @ c) - b * y - lam / sigma
        gamma = (z > 0) & (z <= np.sqrt(2 * C / sigma))
        u = np.where(gamma, 0.0, z)
        c = np.linalg.solve(np.eye(n) + sigma * K, -sigma * y * (u - 1 + b * y + lam / sigma))
        b = y @ (1 - u - y * (K @ c) - lam / sigma) / n
        lam = np.where(gamma, lam + iota * sigma * (u - 1 + y * (K @ c) + b * y), 0.0)
        for matrices in ({"K": K}, {"F": np.linalg.cholesky(K + 1e-13 * np.eye(n))}):
            found = l0_admm.admm(
                l0_admm.PenalisedSystem.of(sigma, **matrices),
                y,
                np.full(n, C),
                iota=iota,
                tol=1e-12,
                max_iter=steps,
                stop=lambda: False,
            )
            assert found.iterations == steps
            assert found.c == pytest.approx(c, abs=1e-7)
            assert found.b == pytest.approx(b, abs=1e-7)
            assert found.u == pytest.approx(u, abs=1e-7)


def test_a_factor_with_pivots():
    K, _ = system(60)
    F = l0_admm.low_rank(np.diagonal(K).copy(), lambda j: K[j], 60)
    assert pytest.approx(K, abs=1e-9) == F @ F.T
    assert l0_admm.low_rank(np.diagonal(K).copy(), lambda j: K[j], 5) is None
    rough = l0_admm.low_rank(np.diagonal(K).copy(), lambda j: K[j], 5, np.inf)
    assert rough.shape == (60, 5)
    rest = K - rough @ rough.T
    assert np.linalg.eigvalsh(rest).min() >= -1e-9
    assert np.trace(rest) < np.trace(K)


@settings(max_examples=30)
@given(st.integers(0, 10**6))
def test_local_search_only_improves_and_ends_at_a_machine(seed):
    K, y = system(50, seed % 1000)
    price = np.random.default_rng(seed).uniform(0.1, 3.0, 50)
    state = new_state(K, y, 1.0)
    kept = np.ones(50, dtype=bool)
    assert (
        l0_search.solve_or_evict(state, kept, price, price.sum(), 10**6) == active_set_passes.SOLVED
    )
    assert active_set.value(state) <= price.sum()
    before = active_set.value(state) + price[~kept].sum()
    room = l0_search.allocate_like(state)
    after, trials = l0_search.descend(state, room, kept, price, np.ones(50, dtype=bool), 10**6)
    assert after <= before
    assert after == pytest.approx(active_set.value(state) + price[~kept].sum())
    assert trials >= 0
    again = l0_search.explore(
        state,
        room,
        l0_search.allocate_like(state),
        kept,
        price,
        after,
        np.random.default_rng(seed).random(5),
        1000,
    )
    assert again <= after
    # The state is the hard-margin machine of what is kept.
    L = np.linalg.cholesky(K + 1e-13 * np.eye(50))
    found = least_norm((y[:, None] * L)[kept], y[kept])
    assert active_set.value(state) == pytest.approx(0.5 * found.w @ found.w, rel=1e-5)
    assert state.u[kept].min() >= 1 - 1e-9


def test_no_single_move_improves_the_answer():
    X, y = noisy(60, 3)
    C, kernel = 1.0, sx.RBF(0.5)
    solution = l0(X, y, C=C, kernel=kernel)
    statement = l0_statement(X, y, C=C, kernel=kernel)
    u = y * solution.model.decision_function(X)
    kept = u >= 1 - 1e-9
    for i in range(60):
        other = kept.copy()
        other[i] = not kept[i]
        for model in statement.polish(other).models:
            assert statement.objective(model) >= solution.certificate.upper * (1 - 1e-8)


# The whole


@pytest.mark.parametrize("shape", [make_moons, circles])
def test_label_noise(shape):
    X, y = noisy(200, 1, shape=shape)
    solution = l0(X, y, C=1.0, kernel=sx.RBF(0.5))
    assert solution.certificate.residuals["stationarity"] <= 1e-12
    assert solution.certificate.upper < min(solution.attempts[0].options["admm_objective"])
    # Support vectors lie on the canonical hyperplanes.
    f = solution.model.decision_function(X)
    assert np.abs(f[solution.model.support]) == pytest.approx(1, abs=1e-9)
    assert set(np.flatnonzero(solution.dual["mu"])) == set(solution.model.support)


@pytest.mark.parametrize("seed", [1, 9, 10])
def test_margins_that_the_model_rounds_otherwise_than_the_gram_matrix_are_kept(seed):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((22, 1))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(22) > 0, 1, -1)
    y[:2] = -1, 1
    solution = l0(30 * X, y, C=10.0, kernel=sx.RBF(8.0), n_restarts=0)
    assert solution.certificate.upper <= min(solution.attempts[0].options["admm_objective"]) * (
        1 + 1e-9
    )


def test_invariances():
    X, y = noisy(80, 2)
    order = np.random.default_rng(0).permutation(80)
    arguments = {"C": 1.0, "kernel": sx.RBF(0.5)}
    values = [
        l0(*data, **arguments).certificate.upper for data in ((X, y), (X, -y), (X[order], y[order]))
    ]
    assert values == pytest.approx([values[0]] * 3, rel=1e-6)
    weight = np.random.default_rng(1).integers(0, 4, 80)
    copies = np.repeat(np.arange(80), weight)
    weighted = l0(X, y, sample_weight=weight, **arguments)
    repeated = l0_statement(X[copies], y[copies], **arguments).objective(weighted.model)
    assert weighted.certificate.upper == pytest.approx(repeated, rel=1e-9)
    assert weighted.dual["mu"].shape == (80,)
    assert not weighted.dual["mu"][weight == 0].any()
    scaled = l0(2 * X, y, C=0.25, n_restarts=0)
    assert scaled.certificate.upper == pytest.approx(
        0.25 * l0(X, y, C=1.0, n_restarts=0).certificate.upper, rel=1e-6
    )


def test_a_linear_kernel_is_the_linear_form():
    X, y = make_data(3, n=14, d=2)
    values = [
        l0(data, y, C=0.3, kernel=kernel).certificate.upper
        for data, kernel in (
            (X, None),
            (sp.csr_array(X), None),
            (X, "linear"),
            (X @ X.T, "precomputed"),
        )
    ]
    assert values == pytest.approx([values[0]] * 4, rel=1e-7)


def test_separable_data_at_a_large_price_give_the_hard_margin():
    X, y = noisy(100, 0, noise=0.0)
    kernel = sx.RBF(2.0)
    hard = sx.fast.hard_margin(X, y, kernel=kernel, tol=1e-9)
    assert l0(X, y, C=1e6, kernel=kernel).certificate.upper == pytest.approx(
        hard.certificate.upper, rel=1e-7
    )


def test_a_tiny_price_gives_the_constant_score():
    X, y = noisy(30, 0)
    y[:20] = 1
    solution = l0(X, y, C=1e-8)
    assert solution.certificate.upper == pytest.approx(1e-8 * (y < 0).sum())
    assert solution.certificate.residuals["stationarity"] == 0


def test_seed_record_and_pickle():
    X, y = noisy(150, 4)
    first, second = (l0(X, y, C=1.0, kernel="rbf", seed=7) for _ in range(2))
    assert first.certificate == second.certificate
    assert np.array_equal(first.dual["mu"], second.dual["mu"])
    options = first.attempts[0].options
    assert options["sigma"] == [pytest.approx(2 / 1.2**2), pytest.approx(2 / 16)]
    assert (
        len(options["admm_iterations"])
        == len(options["admm_residual"])
        == len(options["admm_objective"])
        == 2
    )
    assert max(options["admm_iterations"]) <= 300
    assert first.solver == "fast.l0/admm"
    assert first.formulation == "l0"
    assert first.hyperparameters["C"] == 1.0
    assert pickle.loads(pickle.dumps(first)).certificate == first.certificate  # noqa: S301
    upper = first.trace[:, 2]
    assert (np.diff(upper[:-1]) <= 1e-12).all()
    assert np.isnan(first.trace[:, 1]).all()


def test_penalties_of_the_user():
    X, y = noisy(60, 5)
    one = l0(X, y, C=1.0, kernel="rbf", sigma=0.5, max_iter=17)
    assert one.attempts[0].options["sigma"] == [0.5]
    assert one.attempts[0].options["admm_iterations"] == [17]
    many = l0(X, y, C=1.0, kernel="rbf", sigma=(0.5, 0.1, 0.02), n_restarts=0)
    assert many.attempts[0].options["sigma"] == [0.5, 0.1, 0.02]
    more = l0(X, y, C=1.0, kernel="rbf", sigma=(0.5, 0.1, 0.02), n_restarts=50)
    assert more.certificate.upper <= many.certificate.upper * (1 + 1e-12)


def test_warm_starts():
    X, y = noisy(150, 6)
    first = l0(X, y, C=1.0, kernel="rbf")
    again = l0(X, y, C=1.0, kernel="rbf", warm_start=first, n_restarts=0)
    assert again.warm_start_used
    assert again.certificate.upper <= first.certificate.upper * (1 + 1e-9)
    for other in (sx.fast.psvm(X, y, C=1.0, p=1.0, kernel="rbf"), l0(X, y, C=3.0, kernel="rbf")):
        assert l0(X, y, C=1.0, kernel="rbf", warm_start=other).warm_start_used
    with pytest.raises(
        sx.DataError, match="warm_start must be a Solution of the same data, got int"
    ):
        l0(X, y, C=1.0, warm_start=3)
    with pytest.raises(sx.DataError, match="mu must have one multiplier an observation"):
        l0(X[:100], y[:100], C=1.0, kernel="rbf", warm_start=first)


def test_tol_is_the_residual_that_the_checker_finds():
    X, y = noisy(80, 6)
    usual, strict = l0(X, y, C=1.0, kernel="rbf"), l0(X, y, C=1.0, kernel="rbf", tol=1e-300)
    assert usual.status == "optimal"
    assert usual.certificate.residuals["stationarity"] <= 1e-6
    assert strict.certificate == usual.certificate
    assert strict.status == (
        "optimal" if strict.certificate.residuals["stationarity"] == 0 else "inaccurate"
    )
    finer = l0(X, y, C=1.0, kernel="rbf", settings=L0Settings(admm_tol=1e-9)).attempts[0].options
    coarse = l0(X, y, C=1.0, kernel="rbf", settings=L0Settings(admm_tol=0.9)).attempts[0].options
    assert sum(coarse["admm_iterations"]) < sum(finer["admm_iterations"])
    assert max(coarse["admm_residual"]) <= 0.9


@pytest.mark.parametrize("how", ["callback", "time"])
def test_stopped_early_it_returns_its_best_point(how):
    X, y = noisy(300, 0)
    seen = []

    def callback(progress):
        seen.append(progress)
        return len(seen) == 2

    limits = {"callback": callback} if how == "callback" else {"time_limit": 1e-9}
    solution = l0(X, y, C=1.0, kernel="rbf", **limits)
    assert solution.status == ("interrupted" if how == "callback" else "time_limit")
    assert solution.certificate.upper <= min((y > 0).sum(), (y < 0).sum()) * (1 + 1e-12)
    assert solution.certificate.residuals["stationarity"] <= 1e-8
    assert all(progress.lower == -np.inf for progress in seen)


# Large data


def test_working_sets_and_a_factor_of_low_rank(monkeypatch):
    X, y = noisy(600, 0)
    kernel = sx.RBF(0.5)
    whole = l0(X, y, C=1.0, kernel=kernel)
    settings = L0Settings(whole=200, polish=PolishSettings(nearest=60, dropped=80, joining=40))
    monkeypatch.setattr(
        KernelSpace, "_given_gram", property(lambda self: pytest.fail("a Gram matrix was made"))
    )
    parts = l0(X, y, C=1.0, kernel=kernel, rank=60, settings=settings)
    assert parts.attempts[0].options["rank"] == 60
    assert parts.certificate.residuals["stationarity"] <= 1e-9
    assert parts.certificate.upper == pytest.approx(whole.certificate.upper, rel=0.05)
    assert parts.certificate.upper <= min(parts.attempts[0].options["admm_objective"])
    linear = l0(sp.csr_array(X), y, C=0.1, settings=settings)
    assert linear.certificate.residuals["stationarity"] <= 1e-9
    restarted = l0(
        X, y, C=1.0, kernel=kernel, rank=60, warm_start=parts, n_restarts=0, settings=settings
    )
    assert restarted.certificate.upper <= parts.certificate.upper * (1 + 1e-9)


def test_many_observations():
    X, y = noisy(3000, 0, noise=0.02)
    solution = l0(X, y, C=1.0, kernel=sx.RBF(0.5), n_restarts=2, max_iter=50)
    assert solution.certificate.residuals["stationarity"] <= 1e-9
    assert solution.attempts[0].options["rank"] <= 300
    assert (solution.model.predict(X) == y).mean() > 0.95


# Arguments


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ({"C": 0.0}, "C must be"),
        ({"sigma": -1.0}, "sigma must be"),
        ({"sigma": []}, "sigma is empty; pass at least one penalty"),
        ({"iota": 1.7}, "iota must be"),
        ({"rank": 0}, "rank must be a whole number of at least 1, got 0"),
        ({"n_restarts": 1.5}, "n_restarts must be a whole number of at least 0, got 1.5"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"kernel": sx.Sigmoid(1.0, -1.0)}, "indefinite"),
    ],
)
def test_arguments_are_checked(argument, text):
    X, y = noisy(20, 0)
    with pytest.raises(sx.DataError, match=text):
        l0(X, y, **{"C": 1.0} | argument)


def test_an_indefinite_kernel_may_be_clipped():
    X, y = noisy(40, 0)
    solution = l0(X, y, C=1.0, kernel=sx.Sigmoid(1.0, -1.0), indefinite="clip")
    assert solution.certificate.residuals["clipped_mass"] > 0
    assert solution.certificate.residuals["stationarity"] <= 1e-8


# The global minimum.


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("seed", range(6))
def test_the_search_finds_the_least_objective_of_all_sets(kernel, seed):
    rng = np.random.default_rng([seed, len(str(kernel))])
    n, d = int(rng.integers(2, 10)), int(rng.integers(1, 4))
    X, y = rng.standard_normal((n, d)), np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    weight = rng.choice([0.25, 1.0, 2.0], n) if seed % 2 else np.ones(n)
    C = float(10 ** rng.uniform(-2, 2))
    solution = l0(X, y, C=C, kernel=KERNELS[kernel], sample_weight=weight, method="search")
    best = brute_force(X, y, C, KERNELS[kernel], weight)
    assert solution.certificate.kind == "enumeration"
    assert solution.certificate.lower <= best * (1 + 1e-9)
    assert solution.certificate.upper == pytest.approx(best, rel=1e-6)
    assert solution.status == "optimal"


@pytest.mark.parametrize("first", range(0, 48, 24))
def test_hostile_instances_of_the_search_against_all_vertices_in_fractions(first):
    for seed in range(first, first + 24):
        X, _, _, _, kernel = free_instance(seed, "l0")
        # Rounding hides the margins of rows that are far away, and that rows of a kernel's factor
        # depend on each other.
        hidden = kernel is not None or np.abs(X).max() > 1e3
        assert judge(seed, problem="l0", time_limit=None) in (
            ("certified", "wide") if hidden else ("certified",)
        ), seed


def test_the_search_starts_from_the_local_minimum_and_from_an_earlier_solution():
    X, y = noisy(60, seed=3)
    local = l0(X, y, C=2.0)
    limited = l0(X, y, C=2.0, method="search", callback=lambda progress: True)
    assert limited.certificate.upper <= local.certificate.upper * (1 + 1e-9)
    assert limited.certificate.kind == "enumeration"
    whole = l0(X, y, C=2.0, method="search", warm_start=local)
    assert whole.certificate.is_certified(1e-6)
    assert (
        limited.certificate.lower <= whole.certificate.upper <= local.certificate.upper * (1 + 1e-9)
    )
    assert l0(X, y, C=2.0, method="auto").certificate.kind == "enumeration"
    assert (
        l0(np.tile(X, 5), y, C=2.0, method="auto", n_restarts=0).certificate.kind == "enumeration"
    )
    large, labels = noisy(300, seed=3)
    assert l0(large, labels, C=2.0, method="auto", n_restarts=0).certificate.kind == "local"


def test_a_constant_score_is_optimal_where_no_point_has_room():
    X, y = np.array([[0.1], [-0.1], [0.05], [0.0]]), np.array([1, -1, -1, -1])
    solution = l0(X, y, C=0.01, method="search")
    assert solution.certificate.is_certified(1e-6)
    assert solution.certificate.upper == pytest.approx(0.01)
    assert solution.attempts[0].options["nodes"] == 0
    assert solution.optimal_intercepts.lower == -math.inf


def test_the_proof_of_a_search_claims_both_ends(tmp_path):
    pytest.importorskip("flint")
    X, y = noisy(30, seed=1)
    solution = l0(X, y, C=2.0, method="search")
    solution.save_proof(tmp_path / "proof.npz")
    found = sx.verify(tmp_path / "proof.npz", X, y)
    assert found.holds
    assert found.why == ""
    assert found.lower >= solution.certificate.lower


def test_a_step_above_the_golden_ratio_is_refused():
    X, y = make_data(2, 20)
    with pytest.raises(sx.DataError, match="iota"):
        sx.fast.l0(X, y, C=1.0, iota=1.7)
