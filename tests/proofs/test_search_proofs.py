"""Proofs of searches for the 0-1 loss: trees of multipliers, evaluated again, and trees that were
made by hand or changed.
"""

import json
import math
from dataclasses import replace
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

import svmcvx as sx
from campaigns.exact_zero_one import exact_optimum, hostile_instance
from svmcvx.errors import DataError, SolverFailed
from svmcvx.fast.indicator import zero_one
from svmcvx.fast.search.record import leaf_of
from svmcvx.fast.search.state import SearchSettings
from svmcvx.proofs import Proof, fingerprint, search_tree
from svmcvx.proofs.statement import dtype_of
from svmcvx.synthetic import outlier_data
from tests.proofs.test_proof_format import EXAMPLES, arrays_of


def data(n, p, seed):
    return outlier_data(n, p, sigma=0.5, outliers="spread", seed=seed)


def wide(X):
    """More columns than rows, so that the search works on a factor."""
    return np.hstack([X, 0.1 * np.random.default_rng(0).normal(size=(len(X), 2 * len(X)))])


def repeated(n, offset=0.0):
    """Data with equal rows, some of both labels, and weights, some of them zero."""
    X, y = data(n, 2, 1)
    X[-6:] = X[:6]
    return X + offset, y, np.where(np.arange(n) % 7 == 3, 0.0, np.linspace(0.5, 1.5, n))


RBF, LAPLACIAN, SQUARE = sx.RBF(0.5), sx.Laplacian(0.5), sx.Polynomial(2, 0.5, 1.0)
L0 = {"method": "tree"}
# Solver, its arguments, and whether the weights of the data are taken.
SEARCHES = {
    "0-1 loss": (zero_one, {"lam": 1.0}, True),
    "0-1 loss, no intercept": (zero_one, {"lam": 0.3, "intercept": False}, False),
    "0-1 loss, a budget": (zero_one, {"k": 7.0}, True),
    "0-1 loss, by phases": (zero_one, {"lam": 1.0, "settings": SearchSettings(easy=1.0)}, False),
    "0-1 loss, RBF": (zero_one, {"lam": 1.0, "kernel": RBF}, True),
    "0-1 loss, Laplacian": (zero_one, {"lam": 1.0, "kernel": LAPLACIAN, "intercept": False}, False),
    "0-1 loss, a budget, polynomial": (zero_one, {"k": 7.0, "kernel": SQUARE}, True),
    "0-1 loss, wide": (zero_one, {"lam": 1.0}, True),
    "ramp loss": (sx.fast.ramp, {"C": 1.0}, True),
    "ramp loss, RBF": (sx.fast.ramp, {"C": 2.0, "kernel": RBF}, True),
    "l0 hinge": (sx.fast.l0, {"C": 1.0, **L0}, True),
    "l0 hinge, wide": (sx.fast.l0, {"C": 1.0, **L0}, False),
    "l0 hinge, Laplacian": (sx.fast.l0, {"C": 3.0, "kernel": LAPLACIAN, **L0}, True),
    "l0 hinge, a constant score": (sx.fast.l0, {"C": 1e-3, "kernel": RBF, **L0}, False),
}


def searched(name, X, y, weight):
    solver, arguments, weighted = SEARCHES[name]
    return solver(X, y, **arguments, **({"sample_weight": weight} if weighted else {}))


@pytest.mark.parametrize(
    ("name", "offset"),
    [(name, 0.0) for name in SEARCHES] + [(name, 1000.0) for name in SEARCHES if name[0] in "rl"],
)
def test_the_lower_end_is_proved_from_the_file(name, offset, tmp_path):
    X, y, weight = repeated(24, offset)
    X = wide(X) if "wide" in name else X
    solution = searched(name, X, y, weight)
    solution.save_proof(tmp_path / "proof.npz")
    found = sx.verify(tmp_path / "proof.npz", X, y, expect=solution)
    assert found.holds, found.why
    assert found.why == ""
    assert solution.certificate.lower <= found.lower <= found.upper <= solution.certificate.upper
    assert solution.certificate.gap <= 1e-6


def test_a_precomputed_matrix_is_proved_as_the_rows_that_it_came_from():
    X, y, weight = repeated(24)
    for solver in (
        lambda K, **more: sx.fast.l0(K, y, C=1.0, method="tree", sample_weight=weight, **more),
        lambda K, **more: sx.fast.ramp(K, y, C=1.0, sample_weight=weight, **more),
    ):
        matrix, rows = solver(X @ X.T, kernel=sx.Precomputed()), solver(X)
        proved = [sx.verify(matrix.proof(), X @ X.T, y), sx.verify(rows.proof(), X, y)]
        assert all(proved), proved
        assert proved[0].lower == pytest.approx(proved[1].lower, rel=1e-6)


def test_an_answer_of_a_mixed_integer_solver_is_proved_by_a_tree_that_begins_there():
    X, y, _ = repeated(18)
    for built, search in (
        (sx.zero_one_mio(X, y, lam=1.0), lambda start: zero_one(X, y, lam=1.0, warm_start=start)),
        (sx.ramp_mio(X, y, C=1.0), lambda start: sx.fast.ramp(X, y, C=1.0, warm_start=start)),
    ):
        start = sx.solve(built)
        solution = search(start)
        found = sx.verify(solution.proof(), X, y)
        assert found.holds
        assert found.lower <= start.certificate.upper <= found.lower * (1 + 1e-5)


def test_a_factor_that_leaves_out_too_much_gives_no_tree():
    X, y, _ = repeated(24)
    solution = sx.fast.ramp(1e5 * X, y, C=1.0, kernel=sx.Polynomial(3, 1.0, 1.0), max_iter=3)
    assert not solution.evidence.tree
    proof = solution.proof()
    assert proof.lower is None
    assert sx.verify(proof, 1e5 * X, y).upper < math.inf


@pytest.mark.parametrize(
    "name",
    [
        *("0-1 loss", "0-1 loss, a budget, polynomial", "ramp loss", "ramp loss, RBF"),
        *("l0 hinge", "l0 hinge, Laplacian"),
    ],
)
def test_changed_trees_prove_nothing_false(name):
    X, y, weight = repeated(16)
    solution = searched(name, X, y, weight)
    proof, rng, refused = solution.proof(), np.random.default_rng(len(name)), 0
    assert sx.verify(proof, X, y).holds
    for what, other in changes(proof, rng):
        if what == "a hyper-parameter":
            continue
        found = sx.verify(other, X, y)
        refused += not found.holds
        assert found.lower is None or found.lower <= solution.certificate.upper, what
        assert not (found.holds and what == "the end")
    assert refused > 1


def test_a_search_that_was_stopped_proves_what_it_has_proved(tmp_path):
    X, y = outlier_data(60, 4, sigma=1.0, outliers="spread", seed=2)
    solution = zero_one(X, y, lam=1.0, method="tree", max_iter=2)
    assert solution.certificate.gap > 1e-3
    solution.save_proof(tmp_path / "proof.npz")
    assert (tmp_path / "proof.npz").stat().st_size <= 60 * solution.proof().tree["branch"].size
    found = sx.verify(tmp_path / "proof.npz", X, y)
    assert found.holds
    assert found.lower >= solution.certificate.lower


def test_without_a_tree_the_bound_of_the_search_is_no_part_of_the_proof(tmp_path):
    X, y = outlier_data(40, 2, sigma=0.5, seed=4)
    for solution in (
        zero_one(X, y, lam=1.0, settings=SearchSettings(record=0.0)),
        zero_one(X, y, lam=1.0, method="tree", settings=SearchSettings(record=0.0)),
        zero_one(X, y, lam=1.0, method="tree", settings=SearchSettings(record=10.0)),
        zero_one(X, y, lam=1.0, kernel=sx.RBF(1e-4), settings=SearchSettings(record=0.0)),
    ):
        solution.save_proof(tmp_path / "proof.npz")
        found = sx.verify(tmp_path / "proof.npz", X, y)
        assert found.holds
        assert "that a search states is not part of the proof" in found.why


# The example of the page.

EXAMPLE = np.array([[1.0], [2.0], [1.0]]), [1, 1, 0]


def example():
    """The proof of the page's example."""
    header, table = EXAMPLES["tree"][:2]
    statement, claim = (json.loads(header)[name] for name in ("statement", "claim"))
    arrays = arrays_of(table)
    tree = {name[5:]: values for name, values in arrays.items() if name.startswith("tree.")}
    model = {name: arrays[f"model.{name}"] for name in ("coef", "intercept")}
    return Proof(sx.proofs.Statement(**statement), model=model, dual={}, tree=tree, **claim)


def test_the_tree_of_the_example_proves_the_optimum():
    found = sx.verify(example(), *EXAMPLE)
    assert found.holds
    assert found.lower == pytest.approx(2.0, rel=1e-13)


# Trees that are wrong. The names say what is changed; each is refused, or proves no more than is
# true.

COUNTS, PROVES = "the counts of the tree's", "proves"
WRONG = {
    "a node less": ({"branch": [0, -1, 1, -1], "bounds": [1, 2, 0, 2]}, "ends before its last"),
    "a node more": ({"branch": [0, -1, 1, -1, -1, -1], "bounds": [1, 2, 0, 2, 0, 0]}, "behind its"),
    "no node": ({"branch": [], "bounds": []}, f"{COUNTS} bounds"),
    "no bound of the first node": ({"bounds": [0, 3, 0, 2, 0]}, "first node of the tree has no"),
    "a negative count of bounds": ({"bounds": [-1, 4, 0, 2, 0]}, f"{COUNTS} bounds"),
    "bounds that are too few": ({"bounds": [1, 1, 0, 2, 0]}, f"{COUNTS} bounds"),
    "a row that there is not": ({"branch": [3, -1, 1, -1, -1]}, "branches on no row"),
    "a negative value": ({"upper": [2, 2, 2, 2, -2]}, "must not be negative"),
    "a mark of no row": ({"flip_row": [0, 3]}, "marks name rows"),
    "a mark twice": ({"flip_row": [0, 0]}, "not in increasing order"),
    "marks that are too few": ({"flip_count": [1, 0, 0, 0, 0]}, f"{COUNTS} marks"),
    "a negative count of marks": ({"flip_count": [3, -1, 0, 0, 0]}, f"{COUNTS} marks"),
    "a multiplier of no row": ({"beta_row": [0, 0, -1, 1]}, "multipliers name rows"),
    "multipliers that are too many": ({"beta_count": [0, 1, 1, 1, 2]}, f"{COUNTS} multipliers"),
    "no multiplier in a leaf": ({"beta_count": [0, 2, 0, 1, 1]}, PROVES),
    "zero multipliers": ({"beta": [0, 0, 0, 0]}, "proves 0.828"),
    "children that are exchanged": ({"branch": [1, -1, 0, -1, -1]}, PROVES),
}


def changed_tree(proof, **arrays):
    arrays = {name: np.array(v, dtype=dtype_of(f"tree.{name}")) for name, v in arrays.items()}
    return replace(proof, tree=proof.tree | arrays)


@pytest.mark.parametrize("name", WRONG)
def test_a_tree_that_breaks_a_rule_is_refused(name):
    arrays, reason = WRONG[name]
    X, y = EXAMPLE
    found = sx.verify(changed_tree(example(), **arrays), X, y)
    assert not found.holds
    assert reason in found.why
    assert found.lower is None or found.lower <= 2.0


@pytest.mark.parametrize(("t", "proved"), [(0.0, 1e30), (2.0**-40, 2.0**82)])
def test_a_leaf_has_no_point_only_where_a_combination_vanishes_exactly(t, proved):
    # Where t > 0, the point (1, 2/t) has both margins, and the least norm is proved in exact
    # numbers.
    X, y = np.array([[1.0, 0.0], [1.0, -t]]), np.array([1, 0])
    fields = {"rows": 2, "columns": 2, "hyperparameters": {"lam": 1e30}}
    statement = replace(example().statement, **fields, fingerprint=fingerprint(X, y))
    model = {"coef": np.zeros(2), "intercept": 0.0}
    proof = replace(example(), statement=statement, model=model, lower=1.0, upper=None)
    # The first node and its child keep a row each; their siblings pay a price.
    tree = {"branch": [0, 1, -1, -1, -1], "bounds": [1, 0, 1, 0, 0], "upper": [1e30, 1e30]}
    tree |= {"flip_count": [0, 0], "flip_row": [], "beta_count": [0, 2]}
    tree |= {"beta_row": [0, 1], "beta": [1.0, 1.0]}
    found = sx.verify(changed_tree(proof, **tree), X, y)
    assert found.holds
    assert found.lower == pytest.approx(proved, rel=1e-12)


def of_size(scale):
    """The example's proof, of data that are multiplied by a number."""
    X, y = EXAMPLE
    data, proof = X * scale, example()
    return replace(
        proof, statement=replace(proof.statement, fingerprint=fingerprint(data, np.array(y)))
    ), (data, y)


@pytest.mark.parametrize("scale", [2.0**500, 2.0**-500])
def test_exponents_of_the_data_have_limits(scale):
    proof, data = of_size(scale)
    found = sx.verify(proof, *data)
    assert not found.holds
    assert "too large or too small" in found.why


def test_a_path_that_is_too_deep_is_refused(monkeypatch):
    X, y = EXAMPLE
    # Three rows, so that the check would need at least thirty bytes a node.
    monkeypatch.setattr(search_tree, "STACK", -30 * 64)
    assert "too deep" in sx.verify(example(), X, y).why


def test_leaves_are_written_in_exact_doubles():
    third = Fraction(1, 3)
    leaf = leaf_of([4, 7], [third, Fraction(2)], feasible=True)
    assert leaf.rows.tolist() == [4, 4, 7]
    assert abs(Fraction(leaf.numbers[0]) + Fraction(leaf.numbers[1]) - 2 * third) < Fraction(
        1, 2**104
    )
    # Balanced labels make the price of any intercept vanish.
    labels = np.array([1.0, -1.0])
    leaf = leaf_of([4, 7], [third, third], labels, feasible=True)
    assert sum(map(Fraction, np.where(leaf.rows == 4, leaf.numbers, -leaf.numbers).tolist())) == 0
    leaf = leaf_of([4, 7, 9], [third, third / 7, third * 6 / 7], -labels[[0, 1, 1]], feasible=True)
    assert sum(map(Fraction, np.where(leaf.rows == 4, leaf.numbers, -leaf.numbers).tolist())) == 0
    combination = [third, Fraction(10**40, 7), Fraction(1)]
    leaf = leaf_of([0, 1, 2], combination, feasible=False)
    sums = [sum(map(Fraction, leaf.numbers[leaf.rows == row].tolist())) for row in range(3)]
    assert sums[0] / combination[0] == sums[1] / combination[1] == sums[2] / combination[2] > 0
    # One number would need more exponents than doubles have.
    assert leaf_of([0, 1], [Fraction(1, 2**1900), Fraction(1)], feasible=False) is None


# Trees of hostile instances, honest and changed.


def changes(proof, rng):
    """Trees of which some numbers were changed, and what was done."""
    tree = proof.tree

    def one(name, change, places=None):
        values = tree[name].copy()
        place = int(rng.integers(values.size) if places is None else rng.choice(places))
        values[place] = change(values[place])
        return replace(proof, tree={**tree, name: values})

    rows = 1 + int(max(tree["branch"].max(), tree["flip_row"].max(initial=0)))
    yield "another row", one("branch", lambda v: (v + 1) % rows if v >= 0 else v)
    yield "a leaf less", one("branch", lambda v: -1)
    yield "a value", one("upper", lambda v: 0.5 * v)
    yield "values", replace(proof, tree={**tree, "upper": 1.5 * tree["upper"]})
    if tree["flip_row"].size:
        yield "a mark", one("flip_row", lambda v: (v + 1) % rows)
    if tree["beta"].size:
        for factor in (-1.0, 0.0, 0.5, 3.0, 1e100):
            yield f"a multiplier times {factor}", one("beta", lambda v, factor=factor: factor * v)
        yield "multipliers", replace(proof, tree={**tree, "beta": rng.permutation(tree["beta"])})
        yield "a row of a multiplier", one("beta_row", lambda v: (v + 1) % rows)
    if "price" in tree:
        yield "a price", one("price", lambda v: 2.0 * v + 1.0)
    if (cuts := np.flatnonzero(tree.get("side", 0))).size:
        for side in (-1, 0):
            yield "the side of a cut", one("side", lambda v, side=side: side * v, cuts)
        for at in (rng.normal(), 0.0, 1e9):
            yield "the place of a cut", one("at", lambda v, at=at: at, cuts)
    yield "the end", replace(proof, lower=proof.lower * (1 + 1e-6), upper=None)
    numbers = proof.statement.hyperparameters
    name = next(name for name in ("lam", "k", "C") if name in numbers)
    yield (
        "a hyper-parameter",
        replace(
            proof, statement=replace(proof.statement, hyperparameters={name: 0.9 * numbers[name]})
        ),
    )


def test_trees_of_hostile_instances_prove_nothing_false():
    refused = made = 0
    for seed in range(24):
        X, y, weight, hyper, intercept = hostile_instance(seed)
        try:
            shared = {"sample_weight": weight, "intercept": intercept}
            solution = zero_one(X, y, method="tree", **shared, **hyper)
        except (SolverFailed, DataError):
            continue
        proof = solution.proof()
        assert sx.verify(proof, X, y).holds, seed
        if proof.tree["branch"].size < 2:
            continue
        rows = (np.column_stack([X, np.ones(len(X))]) if intercept else X) * y[:, None]
        s = np.ones(len(y)) if weight is None else weight
        optimum = cache(
            lambda rows=rows, s=s, **asked: exact_optimum(rows[s > 0], s[s > 0], **asked)
        )
        for what, other in changes(proof, np.random.default_rng(seed)):
            found = sx.verify(other, X, y)
            made, refused = made + 1, refused + (not found.holds)
            asked = {name: other.statement.hyperparameters[name] for name in hyper}
            best = optimum(**asked)
            if found.lower is not None and best is not None:
                assert Fraction(found.lower) <= best, (seed, what)
            assert not (found.holds and what == "the end"), seed
        assert not sx.verify(proof, X + 0.5, y).holds
    assert refused >= made / 8
