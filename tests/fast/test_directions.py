"""The exact search over directions: against branch and bound, against points, and its record."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import svmcvx as sx
from campaigns.exact_zero_one import exact_optimum, hostile_instance
from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast import indicator
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.search.direction_passes import BOUND, CUT, HIGH, bound_cells
from svmcvx.fast.search.directions import Directions
from svmcvx.fast.search.state import SearchSettings
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.indicator.statement import l0_statement, zero_one_statement
from tests.designs import clouds

L0, ZERO_ONE = sx.fast.l0, sx.fast.zero_one
PROBLEMS = {
    "l0": (L0, {"C": 1.0}),
    "l0, expensive": (L0, {"C": 30.0}),
    "0-1": (ZERO_ONE, {"lam": 1.0}),
    "0-1, no intercept": (ZERO_ONE, {"lam": 5.0, "intercept": False}),
    "0-1, budget": (ZERO_ONE, {"k": 0.3}),
}


def weights_of(kind, n):
    rng = np.random.default_rng(1)
    return {
        "none": None,
        "whole": rng.integers(1, 4, n).astype(float),
        "any": rng.uniform(0.2, 2.0, n),
    }[kind]


def assert_same_optimum(first, second):
    for one, other in ((first, second), (second, first)):
        assert one.certificate.is_certified(1e-6)
        assert one.certificate.lower <= other.certificate.upper


@pytest.mark.parametrize("weights", ["none", "whole", "any"])
@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize("name", PROBLEMS)
def test_both_searches_have_the_same_optimum(name, columns, weights):
    solve, numbers = PROBLEMS[name]
    X, y = clouds(30, columns)
    weight = weights_of(weights, 30)
    if "k" in numbers:
        numbers = {"k": 0.3 * (30.0 if weight is None else weight.sum())}
    numbers = {**numbers, "sample_weight": weight}
    directions = solve(X, y, method="directions", **numbers)
    assert directions.solver.endswith("/directions")
    assert_same_optimum(directions, solve(X, y, method="tree", **numbers))
    proof = directions.proof()
    assert proof.tree["cut"].size
    checked = sx.verify(proof, X, y)
    assert checked.holds, checked.why


DEGENERATE = {
    "a constant and a zero column": lambda X, y: (np.c_[X, np.zeros(30), np.full(30, 3.0)], y),
    "equal rows of both classes": lambda X, y: (np.r_[X[:15], X[:15]], np.r_[y[:15], -y[:15]]),
    "whole numbers": lambda X, y: (np.round(X), y),
    "one line": lambda X, y: (np.c_[X[:, 0], 2.0 * X[:, 0]], y),
    "huge offset": lambda X, y: (X + 1e6, y),
    "tiny": lambda X, y: (1e-9 * X, y),
    "scales of columns": lambda X, y: (X * [1e-7, 1e8], y),
    "one point of a class": lambda X, y: (X, np.where(np.arange(30) == 4, 1, -1)),
}


@pytest.mark.parametrize("name", DEGENERATE)
def test_degenerate_data_have_the_same_optimum(name):
    X, y = DEGENERATE[name](*clouds(30, 2, seed=3))
    scale = float(np.abs(X - X.mean(axis=0)).max())
    C = 3.0 / scale**2
    found = L0(X, y, C=C, method="search")
    assert_same_optimum(found, L0(X, y, C=C, method="tree"))
    checked = sx.verify(found.proof(), X, y)
    assert checked.holds, checked.why


def test_permutations_flips_and_copies_change_nothing():
    X, y = clouds(40, 3, seed=5)
    whole = L0(X, y, C=2.0, method="directions")
    order = np.random.default_rng(0).permutation(40)
    assert_same_optimum(whole, L0(X[order], y[order], C=2.0, method="directions"))
    assert_same_optimum(whole, L0(X, -y, C=2.0, method="directions"))
    twice = L0(np.r_[X, X], np.r_[y, y], C=1.0, method="directions")
    assert_same_optimum(whole, twice)


def direction_search(statement, monitor):
    """Return a search over directions before its first round."""
    zero_one = statement.space.intercept == "penalised"
    family = indicator._ZeroOneRun if zero_one else indicator._L0Run
    run = family(replace(statement, kind="enumeration"), monitor, SearchSettings(), None)
    run.prepare()
    run.search.try_set(np.ones(run.search.first.size, dtype=bool))
    return Directions(run.search, SearchSettings())


def least_cost(search, direction):
    """Return the least objective of points in a direction, by all pairs of thresholds."""
    _, rho, _ = search.shape
    metric = search.shape[0]
    V, best = float(metric @ direction**2), np.inf
    (one, two), weights = (G.T @ direction for G in search.classes[0]), search.classes[2]
    for theta in one:
        for other in two:
            if theta + other > 0:
                s, m = theta + other, 0.5 * (theta - other)
                dropped = weights[0][one < theta].sum() + weights[1][two < other].sum()
                value = search.search.lam * dropped + 4.0 * (V + rho * m * m) / s**2
                best = min(best, value if dropped <= search.search.k else np.inf)
    return best


@pytest.mark.parametrize("kind", ["l0", "lam", "k"])
def test_no_point_of_a_cell_is_below_its_bound(kind):
    rng = np.random.default_rng(7)
    X, y = clouds(24, 3, seed=11)
    free = "free" if kind == "l0" else True
    rule = {"own": "free"} if kind == "l0" else {}
    space = bound_space(X, y, None, free, weights_of("any", 24), "error", **rule)
    lam, k = 1.0 if kind == "lam" else None, 6.0 if kind == "k" else None
    statement = (
        l0_statement(space, 1.0) if kind == "l0" else zero_one_statement(space, lam, k, "zero_one")
    )
    bounded = 0
    with monitored(tol=1e-6, max_iter=10, verbose=False, callback=None) as monitor:
        search = direction_search(statement, monitor)
        upper = 3.0 * min(search.search.cutoff, 50.0 * search.search.unit)
        for _ in range(60):
            half = 2.0 ** -rng.integers(0, 8, 3).astype(float)
            centre = half * rng.integers(-1.0 / half + 1, 1.0 / half, 3)
            side = rng.integers(3)
            centre[side], half[side] = rng.choice([-1.0, 1.0]), 0.0
            cell = np.r_[centre, half, np.zeros(7)][None]
            cell[0, 6 + HIGH : 6 + BOUND] = np.inf
            price = search.search.lam, search.search.k, upper
            best = np.r_[upper, np.zeros(5)]
            stop = np.zeros(1, dtype=np.int64)
            support, scratch = search._packed_support(), search._scratch()
            bound_cells(cell, search.classes, price, search.shape, support, scratch, best, stop)
            bound = min(cell[0, 6 + BOUND], upper)
            bounded += bound > 0.1 * upper
            points = centre + half * rng.uniform(-1, 1, (10, 3))
            costs = [least_cost(search, point) for point in [centre, *points]]
            # Thresholds between the values of rows may be better where the intercept is penalised.
            assert bound <= min(costs) * (1.0 + 1e-12)
            assert cell[0, 6 + CUT] in (0, 1, 2)
    assert bounded > 10


def test_threads_change_neither_answer_nor_proof(monkeypatch):
    X, y = clouds(80, 4, seed=2)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(indicator, "available_threads", lambda threads=threads: threads)
        found.append(L0(X, y, C=5.0, method="directions"))
    one, other = found
    assert one.certificate.lower == other.certificate.lower
    for name, values in one.proof().tree.items():
        np.testing.assert_array_equal(values, other.proof().tree[name])


def test_a_search_that_is_cut_short_has_a_proved_interval():
    X, y = clouds(120, 4, seed=4)
    optimum = L0(X, y, C=5.0, method="directions")
    short_rounds = SearchSettings(round_work=1e6)
    short = L0(X, y, C=5.0, method="directions", max_iter=4, settings=short_rounds)
    assert short.status is sx.Status.ITERATION_LIMIT
    assert 0.0 < short.certificate.lower <= optimum.certificate.upper <= short.certificate.upper
    assert sx.verify(short.proof(), X, y).holds


def test_the_search_follows_from_the_number_of_columns():
    for n, columns, solver in ((200, 3, "fast.l0/directions"), (40, 9, "fast.l0/branch")):
        X, y = clouds(n, columns)
        assert L0(X, y, C=10.0, method="search").solver == solver
    # Short turns of both.
    X, y = clouds(30, 6)
    found = L0(X, y, C=30.0, method="search", settings=SearchSettings(easy=1.0, turn=1e6))
    assert_same_optimum(found, L0(X, y, C=30.0, method="tree"))


@pytest.mark.parametrize(
    ("X", "numbers"),
    [
        (np.linspace(-1, 1, 40)[:, None], {}),
        (clouds(40, 2)[0], {"intercept": False}),
        (clouds(40, 2)[0], {}),
    ],
)
def test_what_directions_do_not_cover_is_refused_and_left_to_the_tree(X, numbers):
    y = np.where(np.arange(40) % 10 == 0, 1, -1)
    numbers = {"lam": 1.0, **numbers}
    with pytest.raises(DataError, match="method='directions' takes"):
        ZERO_ONE(X, y, method="directions", **numbers)
    assert ZERO_ONE(X, y, **numbers).solver == "fast.zero_one/branch"


def mutated(tree):
    """Yield records that prove less than they say."""
    cut = tree["cut"]
    inner = int(np.flatnonzero(cut != 255)[0])
    yield "an end that is higher", {**tree, "below": tree["below"] * 1.01}
    yield "no value", {**tree, "below": np.array(0.0)}
    yield "a negative value", {**tree, "below": -tree["below"]}
    yield "fewer cells", {**tree, "cut": cut[:-1]}
    yield "more cells", {**tree, "cut": np.append(cut, np.uint8(255))}
    yield "a coordinate too many", {**tree, "cut": np.where(cut == 255, cut, 200)}
    yield "a cut of a side", {**tree, "cut": np.r_[np.zeros(1, np.uint8), cut[1:]]}
    yield "a cell left out", {**tree, "cut": np.delete(cut, inner)}
    yield "huge scales", {**tree, "exponent": np.full_like(tree["exponent"], 10_000)}
    yield "a row too many", {**tree, "support_row": tree["support_row"] + 10_000}
    yield "a negative row", {**tree, "support_row": tree["support_row"] - 10_000}
    yield "negative multipliers", {**tree, "support_alpha": -tree["support_alpha"]}
    yield "wrong counts", {**tree, "support_count": tree["support_count"] + 1}


def test_records_that_prove_less_are_refused():
    X, y = clouds(60, 3, seed=6)
    proof = L0(X, y, C=10.0, method="directions").proof()
    assert sx.verify(proof, X, y).holds
    assert proof.tree["support_row"].size
    for what, tree in mutated(proof.tree):
        assert not sx.verify(replace(proof, tree=tree), X, y).holds, what
    # Other scales and other multipliers are as valid, and worse.
    for name, other in (
        ("exponent", proof.tree["exponent"] + np.array([0, 3, -2], dtype=np.int32)),
        ("support_alpha", proof.tree["support_alpha"] * np.float64(1.0)),
    ):
        checked = sx.verify(replace(proof, tree={**proof.tree, name: other}), X, y)
        assert checked.lower is None or checked.lower <= proof.upper


def test_proofs_of_hostile_instances_hold_and_exclude_no_exact_optimum():
    proved = 0
    for seed in range(30):
        X, y, weight, hyper, intercept = hostile_instance(seed)
        try:
            shared = {"sample_weight": weight, "intercept": intercept, "method": "directions"}
            found = ZERO_ONE(X, y, **shared, **hyper)
        except (SolverFailed, DataError):
            continue
        checked = sx.verify(found.proof(), X, y)
        assert checked.holds, (seed, checked.why)
        s = np.ones(len(y)) if weight is None else weight
        rows = (np.column_stack([X, np.ones(len(X))]) if intercept else X) * y[:, None]
        optimum = exact_optimum(rows[s > 0], s[s > 0], **hyper)
        assert Fraction(found.certificate.lower) <= optimum <= Fraction(found.certificate.upper)
        proved += 1
    assert proved > 5


@pytest.mark.parametrize("weights", ["none", "any"])
@pytest.mark.parametrize("name", PROBLEMS)
def test_no_end_above_the_optimum_is_proved(name, weights):
    solve, numbers = PROBLEMS[name]
    for seed in range(2):
        X, y = clouds(16, 2, seed=seed)
        weight = weights_of(weights, 16)
        if "k" in numbers:
            numbers = {"k": 0.25 * (16.0 if weight is None else weight.sum())}
        try:
            found = solve(X, y, sample_weight=weight, **numbers)
        except SolverFailed:
            continue
        proof = found.proof()
        if "cut" not in proof.tree:
            continue
        for factor in (1.0 + 1e-6, 1.3):
            tree = {**proof.tree, "below": proof.tree["below"] * factor}
            checked = sx.verify(replace(proof, tree=tree), X, y)
            assert not checked.holds
            assert "cross" not in checked.why, (seed, factor)


def test_a_budget_that_no_point_meets_is_refused_after_some_cells():
    X, y = clouds(200, 3, seed=2)
    with pytest.raises(SolverFailed, match=r"fast.zero_one/directions: no point that drops"):
        ZERO_ONE(X, y, k=5.0)
