"""Proofs of searches for the 0-1 loss: the record of the tree, computed again, and records that were tampered with."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.errors import SolverFailed
from svmcvx.fast.indicator.search.branch_and_bound import BranchSettings
from svmcvx.fast.indicator.zero_one import ZeroOneSettings, zero_one
from svmcvx.proofs.format import read_proof
from svmcvx.synthetic import outlier_data

from .exact_zero_one import exact_optimum, hostile_instance, judge


@pytest.mark.parametrize(
    ("n", "p", "arguments"),
    [
        (30, 2, {"lam": 1.0}),
        (60, 3, {"lam": 0.3, "intercept": False}),
        (40, 2, {"k": 8.0}),
        (50, 5, {"lam": 2.0, "sample_weight": np.linspace(0.0, 1.5, 50)}),
        (60, 3, {"lam": 1.0, "settings": ZeroOneSettings(easy=1.0)}),
    ],
)
def test_the_lower_end_is_proved_from_the_file(n, p, arguments, tmp_path):
    X, y = outlier_data(n, p, sigma=0.5, outliers="spread", seed=1)
    solution = zero_one(X, y, method="branch", **arguments)
    solution.save_proof(tmp_path / "proof.npz")
    found = sx.verify(tmp_path / "proof.npz", X, y)
    assert found.holds
    assert found.why == ""
    assert found.lower >= solution.certificate.lower
    assert found.upper <= solution.certificate.upper


def test_a_search_that_was_stopped_proves_what_it_has_proved(tmp_path):
    X, y = outlier_data(100, 5, sigma=1.0, outliers="spread", seed=2)
    solution = zero_one(X, y, lam=1.0, method="branch", max_iter=6)
    assert solution.certificate.gap > 1e-3
    solution.save_proof(tmp_path / "proof.npz")
    found = sx.verify(tmp_path / "proof.npz", X, y)
    assert found.holds
    assert found.lower >= solution.certificate.lower


def test_duplicates_are_merged_only_where_they_are_equal(tmp_path):
    X, y = outlier_data(30, 2, sigma=0.5, seed=3)
    X[10:20] = X[:10]
    y[10:20] = y[:10]
    zero_one(X, y, lam=1.0, method="branch").save_proof(tmp_path / "proof.npz")
    assert sx.verify(tmp_path / "proof.npz", X, y).holds
    proof = read_proof(tmp_path / "proof.npz")
    rows = proof.tree["rows"].copy()
    rows[25] = rows[0]
    other = replace(proof, tree={**proof.tree, "rows": rows})
    assert "takes different rows for the same" in sx.verify(other, X, y).why


def test_without_a_record_the_bound_of_the_search_is_no_part_of_the_proof(tmp_path):
    X, y = outlier_data(40, 2, sigma=0.5, seed=4)
    for solution in (
        zero_one(X, y, lam=1.0, method="sweep"),
        zero_one(X, y, lam=1.0, method="branch", settings=ZeroOneSettings(branch=BranchSettings(record=10.0))),
        zero_one(X, y, lam=1.0, method="branch", kernel=sx.RBF(0.5)),
    ):
        solution.save_proof(tmp_path / "proof.npz")
        found = sx.verify(tmp_path / "proof.npz", X, y)
        assert found.holds
        assert "that a search states is not part of the proof" in found.why


def mutations(proof, rng):
    """Records of which one number or one node was changed, and what was done."""
    tree = proof.tree
    node = int(rng.integers(0, tree["parents"].size))

    def changed(name, change):
        values = tree[name].astype(np.float64 if name == "points" else tree[name].dtype).copy()
        change(values)
        return replace(proof, tree={**tree, name: values})

    r = tree["points"].shape[1] - 3
    row = int(rng.integers(0, tree["points"].shape[0]))
    yield "a decision", changed("decisions", lambda v: v.__setitem__(node, -v[node]))
    yield (
        "another row",
        changed("decisions", lambda v: v.__setitem__(node, np.sign(v[node]) * (abs(v[node]) % 5 + 1))),
    )
    yield "a parent", changed("parents", lambda v: v.__setitem__(node, v[node] // 2))
    yield "a minimiser", changed("points", lambda v: v.__setitem__((row, int(rng.integers(0, r))), 3.0))
    yield "a value", changed("points", lambda v: v.__setitem__((row, r + 1), v[row, r + 1] / 2))
    yield "all values", changed("points", lambda v: v.__setitem__((slice(None), r + 1), v[:, r + 1] * 1.5))
    yield "a width", changed("points", lambda v: v.__setitem__((row, r + 2), 0.5))
    if tree["leaf_multipliers"].size:
        leaf = int(rng.integers(0, tree["leaf_multipliers"].size))
        yield "a multiplier", changed("leaf_multipliers", lambda v: v.__setitem__(leaf, 2 * v[leaf] + 1))
        yield "a row of a leaf", changed("leaf_rows", lambda v: v.__setitem__(leaf, (v[leaf] + 1) % 7))
    less = replace(
        proof,
        tree={
            **tree,
            "parents": tree["parents"][:-1],
            "decisions": tree["decisions"][:-1],
            "rounds": tree["rounds"][:-1],
            "points": tree["points"][: -int(tree["rounds"][-1])],
        },
    )
    yield "a node less", less
    yield "the end", replace(proof, lower=proof.lower * (1 + 1e-6), upper=None)
    numbers = proof.statement.hyperparameters
    name = "lam" if "lam" in numbers else "k"
    yield (
        "a hyper-parameter",
        replace(proof, statement=replace(proof.statement, hyperparameters={name: 0.9 * numbers[name]})),
    )


def test_a_record_that_was_tampered_with_proves_nothing_false(tmp_path):
    refused, rng = 0, np.random.default_rng(0)
    for seed in (3, 4, 11, 12, 19, 20, 28, 36, 44):
        X, y, weight, hyper, intercept = hostile_instance(seed)
        try:
            solution = zero_one(X, y, sample_weight=weight, intercept=intercept, method="branch", **hyper)
        except SolverFailed:
            continue
        solution.save_proof(tmp_path / "proof.npz")
        proof = read_proof(tmp_path / "proof.npz")
        if proof.tree.get("parents", np.zeros(0)).size < 2:
            continue
        rows = (np.column_stack([X, np.ones(len(X))]) if intercept else X) * y[:, None]
        s = np.ones(len(y)) if weight is None else weight
        for what, other in mutations(proof, rng):
            found = sx.verify(other, X, y)
            refused += not found.holds
            asked = {name: other.statement.hyperparameters[name] for name in hyper}
            best = exact_optimum(rows[s > 0], s[s > 0], **asked)
            if found.lower is not None and best is not None:
                assert Fraction(found.lower) <= best, (seed, what)
            if what in ("the end", "a node less"):
                assert not found.holds, (seed, what)
        shifted = sx.verify(proof, X + 0.5, y)
        assert not shifted.holds
    assert refused >= 30


@pytest.mark.parametrize("first", range(0, 320, 40))
@pytest.mark.parametrize("method", ["auto", "sweep"])
def test_hostile_instances_against_all_vertices_in_fractions(first, method):
    ends = [judge(seed, method) for seed in range(first, first + 40)]
    assert not [end for end in ends if end.startswith("WRONG")]
    assert sum(end in ("certified", "infeasible") for end in ends) >= 30
