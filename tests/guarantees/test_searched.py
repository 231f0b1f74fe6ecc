"""Labels that a search proves of every optimal machine: against all machines of small problems in
fractions, limits, refusals.
"""

from dataclasses import replace

import numpy as np
import pytest

import svmcvx as sx
from campaigns.searched_labels import check


@pytest.mark.parametrize("seed", [*range(12), 41, 59])
def test_labels_are_those_of_all_optimal_machines(seed):
    _, word, decided, wrong, missed = check(seed)
    assert word in ("held", "no solution")
    assert wrong == 0
    assert missed == 0
    assert decided or word == "no solution" or seed in (0, 3, 4)


def test_the_oracle_finds_labels_wrong_that_machines_of_half_the_objective_share():
    assert any(check(seed, shrink=0.5)[1] == "WRONG" for seed in range(2, 30, 6))


def problem():
    X, y = sx.synthetic.outlier_data(30, 2, sigma=0.5, outliers="spread", seed=1)
    return X, y, sx.fast.zero_one(X, y, lam=5.0)


def test_what_is_claimed_of_a_searched_machine():
    X, y, solution = problem()
    found = sx.guarantee(solution, X, y)
    scores, own = found.scores(X), solution.model.decision_function(X)
    decided = scores.decided
    assert decided.sum() >= 20
    assert (scores.lower[decided & (own > 0)] > 0.0).all()
    assert np.isposinf(scores.upper[decided & (own > 0)]).all()
    assert (scores.upper[decided & (own <= 0)] < 0.0).all()
    assert not scores.by_formulation.any()
    assert (scores.labels[decided] == solution.model.predict(X)[decided]).all()
    low, high = found.accuracy(X, y)
    assert low <= np.mean(solution.model.predict(X) == y) <= high
    assert found.radius == np.inf
    assert "nodes a row" in repr(found)
    with pytest.raises(sx.DataError, match="are those of a search, which is not recorded"):
        found.proof(X)


def test_limits_leave_rows_undecided():
    X, y, solution = problem()
    # One node is the root alone.
    few, many = (sx.guarantee(solution, X, y, max_nodes=nodes).decided(X) for nodes in (1, 20_000))
    assert few.sum() < many.sum()
    assert many[few].all()
    assert not sx.guarantee(solution, X, y, time_limit=1e-9).decided(X).any()
    # A model that is no better than a constant score says nothing of a free intercept.
    constant = sx.fast.l0(X, y, C=1e-3, method="search")
    assert not sx.guarantee(constant, X, y).decided(X[:3]).any()
    for wrong in ({"max_nodes": 0}, {"max_nodes": 1.5}, {"time_limit": -1.0}):
        with pytest.raises(sx.DataError, match=next(iter(wrong))):
            sx.guarantee(solution, X, y, **wrong)


def test_a_factor_with_too_large_an_error_decides_nothing():
    X, y, _ = problem()
    # The Gram matrix has small eigenvalues that a factor in doubles leaves out.
    solution = sx.fast.zero_one(
        X[:12] * 1e6, y[:12], lam=1e30, kernel=sx.Polynomial(3, 1.0, 1.0), max_iter=3
    )
    found = sx.guarantee(solution, X[:12] * 1e6, y[:12], max_nodes=10)
    assert not found.decided(X[:2] * 1e6).any()


def test_a_looser_model_decides_less():
    X, y, solution = problem()
    looser = replace(solution, model=replace(solution.model, coef=solution.model.coef * 1.3))
    tight, loose = (sx.guarantee(one, X, y) for one in (solution, looser))
    assert loose.upper > tight.upper
    rows = X[:8]
    assert tight.decided(rows)[loose.decided(rows)].all()
