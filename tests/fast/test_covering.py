"""The set-covering bound: against the optimum, its proof, and the turns of an exact search."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.search.covering import Covering
from svmcvx.fast.search.exchange import Exchange
from svmcvx.fast.search.partition import Partition
from svmcvx.fast.search.state import CountingSearch, SearchSettings
from svmcvx.fast.search.tree import BranchAndBound
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.indicator.statement import l0_statement, zero_one_statement
from svmcvx.formulations.signed_rows import violated
from svmcvx.solution import Status
from tests.designs import clouds

PROBLEMS = {
    "l0": (sx.fast.l0, {"C": 2.0}),
    "0-1": (sx.fast.zero_one, {"lam": 2.0}),
    "0-1 without": (sx.fast.zero_one, {"lam": 2.0, "intercept": False}),
}


def covering(X, y, name, weight=None):
    """A bound that is not raised any more, and the search that it is part of."""
    numbers = PROBLEMS[name][1]
    intercept = numbers.get("intercept", "free" if name == "l0" else True)
    space = bound_space(
        X, y, None, intercept, weight, "error", own="free" if name == "l0" else "penalised"
    )
    statement = (
        l0_statement(space, numbers["C"])
        if name == "l0"
        else zero_one_statement(space, numbers["lam"], None, "zero_one")
    )
    width = statement.geometry.G.shape[1]
    constant = statement.geometry.incumbent(np.zeros(width), 0.0, violated)
    statement = replace(statement, pool=(constant,))
    with monitored(tol=1e-6, max_iter=10**6, verbose=False, callback=None) as monitor:
        search = CountingSearch(statement, monitor)
        exchange = Exchange(search, SearchSettings())
        exchange.begin([np.ones(search.first.size, dtype=bool)])
        found = Covering(search, SearchSettings(), exchange)
        assert found.run(None) is Status.NUMERICAL
    return found, search


@pytest.mark.parametrize(
    ("name", "weighted"), [("l0", False), *((name, True) for name in PROBLEMS)]
)
def test_the_bound_is_below_the_optimum_and_above_a_third(name, weighted):
    X, y = clouds(30, 3)
    weight = np.random.default_rng(1).uniform(0.2, 2.0, 30) if weighted else None
    solve, numbers = PROBLEMS[name]
    numbers = {"method": "search", **numbers} if name == "l0" else numbers
    optimum = solve(X, y, sample_weight=weight, **numbers).certificate
    found, search = covering(X, y, name, weight)
    bound = found.proved / search.unit
    assert 0.33 * optimum.upper <= bound <= optimum.upper
    assert not weighted or covering(X, y, name, weight)[0].proved == found.proved


def test_the_bound_of_a_first_node_is_the_trees():
    X, y = clouds(30, 3)
    _, search = covering(X, y, "l0")
    search.proved = 0.0
    tree = BranchAndBound(search, SearchSettings())
    with ThreadPoolExecutor(1) as pool:
        tree.run(pool, 0.0)
    assert tree.proved == search.proved > 0.0


def test_each_inequality_holds_at_any_point():
    X, y = clouds(30, 3)
    found, search = covering(X, y, "l0")
    rng = np.random.default_rng(2)
    W, b = rng.standard_normal((2000, 3)), rng.standard_normal(2000)
    W *= 10.0 ** rng.uniform(-1, 1.5, (2000, 1))
    points = np.column_stack([W, b * np.linalg.norm(W, axis=1) * search.scale])
    dropped = points @ search.rows.T < 1.0
    for one in found.sets:
        sides = dropped[:, one.rows].sum(axis=1) + (W**2).sum(axis=1) / one.norm
        assert (sides >= 1.0 - 1e-12).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_search_that_does_not_end_hands_on_a_proof_of_its_sets(name, tmp_path, monkeypatch):
    """Branch and bound takes its turns, and bounds no node but the first."""

    def idle(self, pool):
        self.work += 1e12
        return self.search.report(self.proved)

    monkeypatch.setattr(BranchAndBound, "_round", idle)
    monkeypatch.setattr(Partition, "takes", lambda _: False)
    pytest.importorskip("flint")
    X, y = clouds(80, 11)
    solve, numbers = PROBLEMS[name]
    # At a high price the relaxation of the 0-1 loss proves less. More columns than directions take.
    numbers = {"method": "search", "C": 2.0} if name == "l0" else {**numbers, "lam": 50.0}
    found = solve(X, y, max_iter=30, **numbers)
    assert found.solver.endswith("/covering")
    found.save_proof(tmp_path / "proof.npz")
    verified = sx.verify(tmp_path / "proof.npz", X, y)
    assert verified
    assert verified.lower >= 0.999 * found.certificate.lower > 0.0
