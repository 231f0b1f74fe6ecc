"""Batches: many settings of one machine, held against certified fits."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import svmcvx as sx
from svmcvx.data import CodedLabels
from svmcvx.fast.grids.hinge import MeanVariance, solve_hinges, solve_mean_variances
from svmcvx.fast.grids.order import serpentine
from svmcvx.fast.grids.pairs import PairsBatch
from svmcvx.fast.grids.quadratic import Band, SquaredHinge, solve_bands
from svmcvx.fast.grids.rows import Rows
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.system.deadline import time_limited

COSTS = (0.01, 0.3, 1.0, 20.0, 500.0)
MEANS = ((0.0, 1.0), (0.0, 100.0), (0.3, 100.0), (0.3, 10.0), (4.0, 10.0))
BANDS = (
    (1.0, 1.0, 0.0),
    (1.0, 64.0, 0.0),
    (1024.0, 64.0, 0.0),
    (1024.0, 1.0, 0.3),
    (4.0, 2.0, 0.5),
)


def problem(seed, n=40, d=4, m=7):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    return X, y, rng.standard_normal((m, d))


def with_equal_rows():
    X, y, T = problem(0)
    X[5:15], y[5:10] = X[4], 1.0
    return X, y, T


def with_constant_column():
    X, y, T = problem(1)
    X[:, 1] = T[:, 1] = 3.0
    X[:, 2] = X[:, 0]
    return X, y, T


def separable():
    X, y, T = problem(2)
    return X + 2.0 * y[:, None], y, T


def one_against_many():
    X, y, T = problem(3)
    y[:] = -1.0
    y[0] = 1.0
    return X, y, T


DATA = {
    "many rows": problem(4, n=120, d=3),
    "more columns than rows": problem(5, n=15, d=40),
    "equal rows": with_equal_rows(),
    "dependent columns": with_constant_column(),
    "separable": separable(),
    "one row of a class": one_against_many(),
    "two rows": problem(6, n=2, d=2),
}
KERNELS = {"none": None, "rbf": sx.RBF(0.5), "polynomial": sx.Polynomial(2, 0.3, 1.0)}


def rows_of(data, kernel=None, intercept="free", weight=None):
    X, y, T = data
    return Rows(
        X, y, np.ones(y.size) if weight is None else weight, T, kernel, intercept, GramCache()
    )


def holds(answers, place, solution, T):
    """Whether an answer is as good as that of a certified fit, and scores new rows like it."""
    certificate, model = solution.certificate, solution.model
    assert certificate.is_certified(1e-6)
    assert answers.gaps[place] <= 1e-8
    # An objective is not below the optimum, up to rounding, and as near to it as its gap says.
    value = answers.objectives[place]
    lower, upper = certificate.lower, certificate.upper
    assert lower - 1e-9 * abs(lower) - 1e-12 <= value <= upper + 1e-8 * abs(upper) + 1e-12
    scale = 1.0 + np.abs(answers.scores[place]).max()
    np.testing.assert_allclose(answers.scores[place], model.decision_function(T), atol=2e-3 * scale)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", ["none", "rbf"])
def test_all_pairs_together(kernel, scheme, weighted):
    X, _, T = problem(7, n=60)
    y = np.digitize(X[:, 0] + 0.3 * np.random.default_rng(7).standard_normal(60), [-0.5, 0.6])
    weight = np.linspace(0.5, 2.0, 60) if weighted else None
    labels = CodedLabels(y, np.arange(3))
    cache = GramCache()
    batch = PairsBatch.of(X, labels, weight, T, scheme=scheme, kernel=KERNELS[kernel], cache=cache)
    scores, solved, supports = batch.solve(COSTS, 1e-7)
    assert solved.all()
    for place, C in enumerate(COSTS):
        fitted = sx.PSVMClassifier(C=C, kernel=KERNELS[kernel], multiclass=scheme, tol=1e-9).fit(
            X, y, weight
        )
        expected = fitted.model_.member_scores(T)
        np.testing.assert_allclose(
            scores[place], expected, atol=2e-3 * (1.0 + np.abs(expected).max())
        )
        assert abs(supports[place] - fitted.model_.support.size) <= 5
    # One setting by itself is solved from zero.
    alone, _, _ = batch.solve(COSTS[2:3], 1e-7)
    np.testing.assert_allclose(alone[0], scores[2], atol=2e-3 * (1.0 + np.abs(scores[2]).max()))


def test_a_setting_without_an_answer_for_all_pairs_is_told():
    X, _, T = problem(8)
    batch = PairsBatch.of(
        X,
        CodedLabels(np.arange(40) % 3, np.arange(3)),
        None,
        T,
        scheme="ovo",
        kernel=None,
        cache=GramCache(),
    )
    _, solved, _ = batch.solve([1e-60, 1.0, 1e60], 1e-6)
    assert solved.tolist() == [False, True, False]
    assert not batch.solve([1.0], 1e-20)[1].any()
    with time_limited(1e-9):
        assert batch.solve([1.0], 1e-6) is None
    sparse = PairsBatch.of(
        csr_array(X),
        CodedLabels(np.arange(40) % 3, np.arange(3)),
        None,
        T,
        scheme="ovo",
        kernel=None,
        cache=GramCache(),
    )
    assert sparse is None


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("intercept", ["none", "penalised"])
def test_odm(name, kernel, intercept):
    X, y, T = DATA[name]
    answers = solve_bands(
        rows_of(DATA[name], KERNELS[kernel], intercept), [Band(*band) for band in BANDS]
    )
    for place, (C1, C2, D) in enumerate(BANDS):
        solution = sx.fast.odm(
            X, y, C1=C1, C2=C2, D=D, kernel=KERNELS[kernel], intercept=intercept, tol=1e-10
        )
        holds(answers, place, solution, T)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
def test_squared_hinge(name, kernel, intercept):
    X, y, T = DATA[name]
    answers = solve_bands(
        rows_of(DATA[name], KERNELS[kernel], intercept), [SquaredHinge(C) for C in COSTS]
    )
    for place, C in enumerate(COSTS):
        solution = sx.fast.psvm(
            X, y, C=C, p=2, kernel=KERNELS[kernel], intercept=intercept, tol=1e-10
        )
        holds(answers, place, solution, T)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
def test_hinge(name, kernel, intercept):
    X, y, T = DATA[name]
    answers = solve_hinges(rows_of(DATA[name], KERNELS[kernel], intercept), COSTS)
    for place, C in enumerate(COSTS):
        solution = sx.fast.psvm(
            X, y, C=C, p=1, kernel=KERNELS[kernel], intercept=intercept, tol=1e-10
        )
        holds(answers, place, solution, T)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("lam1", [0.0, 0.5])
def test_mean_and_variance(name, kernel, lam1):
    X, y, T = DATA[name]
    rows = rows_of(DATA[name], KERNELS[kernel], "none" if lam1 else "penalised")
    answers = solve_mean_variances(rows, [MeanVariance(lam2, C, lam1) for lam2, C in MEANS])
    for place, (lam2, C) in enumerate(MEANS):
        solution = sx.fast.odml(
            X, y, lam1=lam1, lam2=lam2, C=C, kernel=rows.kernel, intercept=rows.intercept, tol=1e-10
        )
        holds(answers, place, solution, T)


def test_weights_are_those_of_certified_fits():
    X, y, T = problem(7)
    weight = np.random.default_rng(8).uniform(0.1, 3.0, y.size)
    odm = solve_bands(rows_of((X, y, T), None, "none", weight), [Band(4.0, 2.0, 0.1)])
    holds(odm, 0, sx.fast.odm(X, y, C1=4.0, C2=2.0, D=0.1, sample_weight=weight, tol=1e-10), T)
    squared = solve_bands(rows_of((X, y, T), None, "free", weight), [SquaredHinge(2.0)])
    holds(squared, 0, sx.fast.psvm(X, y, C=2.0, p=2, sample_weight=weight, tol=1e-10), T)
    means = solve_mean_variances(
        rows_of((X, y, T), None, "none", weight), [MeanVariance(0.5, 20.0, 0.3)]
    )
    holds(
        means, 0, sx.fast.odml(X, y, C=20.0, lam1=0.3, lam2=0.5, sample_weight=weight, tol=1e-10), T
    )
    hinge = solve_hinges(rows_of((X, y, T), None, "free", weight), [2.0])
    holds(hinge, 0, sx.fast.psvm(X, y, C=2.0, p=1, sample_weight=weight, tol=1e-10), T)


@settings(max_examples=40, deadline=None)
@given(
    X=st.lists(st.tuples(*[st.integers(-2, 2)] * 2), min_size=4, max_size=14),
    signs=st.integers(0, 2**14 - 1),
    costs=st.lists(
        st.sampled_from([1e-3, 0.1, 1.0, 7.0, 300.0]), min_size=1, max_size=3, unique=True
    ),
)
def test_the_hinge_on_few_points_of_a_lattice(X, signs, costs):
    # Equal and opposite rows, several optimal intercepts, singular systems.
    X = np.array(X, dtype=float)
    y = np.where([(signs >> k) & 1 for k in range(len(X))], 1.0, -1.0)
    y[:2] = 1.0, -1.0
    costs = sorted(costs)
    answers = solve_hinges(rows_of((X, y, X)), costs)
    for place, C in enumerate(costs):
        found = sx.fast.psvm(X, y, C=C, p=1, tol=1e-9).certificate
        assert answers.gaps[place] <= 1e-8
        assert (
            found.lower - 1e-7 * abs(found.lower)
            <= answers.objectives[place]
            <= found.upper * (1 + 1e-7)
        )


def test_answers_do_not_depend_on_what_was_solved_before_the_slice():
    rows = rows_of(DATA["many rows"], None, "none")
    once = solve_bands(rows, [Band(*band) for band in BANDS])
    again = solve_bands(rows_of(DATA["many rows"], None, "none"), [Band(*band) for band in BANDS])
    for one, other in zip(once, again, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_slice_is_ordered_by_itself():
    grid = [(C1, C2, D) for D in (0.0, 0.1) for C1 in (1.0, 2.0, 4.0) for C2 in (1.0, 2.0)]
    slices = serpentine(grid)
    assert sorted(k for one in slices for k in one) == list(range(len(grid)))
    left = [k for k in range(len(grid)) if k not in slices[0]]
    rest = serpentine([grid[k] for k in left])
    assert [[left[k] for k in one] for one in rest] == slices[1:]
    for one in slices:
        for a, b in itertools.pairwise(one):
            assert sum(x != z for x, z in zip(grid[a], grid[b], strict=True)) == 1


def test_a_passed_deadline_ends_a_batch():
    with time_limited(1e-9):
        assert solve_bands(rows_of(DATA["separable"], None, "none"), [Band(1.0, 1.0, 0.1)]) is None
        assert solve_hinges(rows_of(DATA["separable"]), [1.0]) is None
        means = [MeanVariance(1.0, 1.0, 1.0)]
        assert solve_mean_variances(rows_of(DATA["separable"], None, "none"), means) is None
