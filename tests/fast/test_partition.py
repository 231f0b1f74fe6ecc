"""The bound by a partition of the observations: against the optimum, and its blocks."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.fast import indicator
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.search.exchange import Exchange
from svmcvx.fast.search.partition import Partition
from svmcvx.fast.search.state import CountingSearch, SearchSettings
from svmcvx.fast.search.tree import BranchAndBound
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.indicator.statement import l0_statement, zero_one_statement
from svmcvx.formulations.signed_rows import violated
from tests.designs import clouds

SOLVERS = {"l0": (sx.fast.l0, "C", "free"), "0-1": (sx.fast.zero_one, "lam", "penalised")}


def partitioned(X, y, name, weight=None, rounds=3, threads=1):
    """A bound after some rounds, and the search that it is part of."""
    own = SOLVERS[name][2]
    space = bound_space(X, y, None, own if own == "free" else True, weight, "error", own=own)
    one = l0_statement(space, 2.0)
    statement = one if own == "free" else zero_one_statement(space, 2.0, None, "zero_one")
    constant = statement.geometry.incumbent(np.zeros(X.shape[1] + (own != "free")), 0.0, violated)
    statement = replace(statement, pool=(constant,))
    with (
        monitored(tol=1e-6, max_iter=rounds - 1, verbose=False, callback=None) as monitor,
        ThreadPoolExecutor(threads) as pool,
    ):
        search = CountingSearch(statement, monitor)
        exchange = Exchange(search, SearchSettings())
        exchange.begin([np.ones(search.first.size, dtype=bool)])
        assert Partition.takes(search)
        found = Partition(search, SearchSettings(), exchange)
        found.run(pool)
    return found, search


@pytest.mark.parametrize(("name", "weighted"), [("l0", False), ("0-1", True)])
def test_the_bound_is_below_the_optimum_and_above_a_half(name, weighted):
    X, y = clouds(90, 2)
    weight = np.random.default_rng(1).uniform(0.2, 2.0, 90) if weighted else None
    solve, price, _ = SOLVERS[name]
    optimum = solve(X, y, sample_weight=weight, method="directions", **{price: 2.0}).certificate
    found, search = partitioned(X, y, name, weight)
    assert 0.5 * optimum.upper <= found.proved / search.unit <= optimum.upper
    assert search.best_value / search.unit <= optimum.upper * 1.05


def test_it_does_not_depend_on_threads():
    X, y = clouds(90, 2)
    one, other = (partitioned(X, y, "l0", threads=threads)[0] for threads in (1, 3))
    assert one.proved == other.proved
    assert (one.block == other.block).all()


def test_blocks_share_both_classes_equally_and_grow():
    X, y = clouds(120, 2)
    found, _ = partitioned(X, y, "l0", rounds=1)
    assert found.count == 3
    for side in found.sides:
        assert np.ptp(np.bincount(found.block[side], minlength=4)) <= 1


def test_nothing_of_a_partition_is_in_a_proof(monkeypatch, tmp_path):
    """Branch and bound and the program over sets take their turns, and bound nothing."""
    pytest.importorskip("flint")

    def idle(self, pool):
        self.work += 1e12
        return self.search.report(self.proved)

    monkeypatch.setattr(BranchAndBound, "_round", idle)
    monkeypatch.setattr(indicator.Covering, "_round", idle)
    X, y = clouds(60, 11)
    monkeypatch.setattr(Partition, "_bounded", lambda *_: (5.0, True))
    found = sx.fast.l0(X, y, C=1.0, method="search", max_iter=8)
    assert found.solver == "fast.l0/partition"
    assert found.certificate.lower == pytest.approx(5.0)
    found.save_proof(tmp_path / "proof.npz")
    verified = sx.verify(tmp_path / "proof.npz", X, y)
    assert verified.lower is None
    assert verified.upper == pytest.approx(found.certificate.upper)
