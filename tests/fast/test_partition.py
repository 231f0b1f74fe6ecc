"""The bound by a partition of the observations: against the optimum, and its blocks."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import svmcvx as sx
from campaigns.exact_zero_one import exact_free_optimum, exact_optimum, inner
from svmcvx.fast import indicator
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.search import partition
from svmcvx.fast.search.exchange import Exchange
from svmcvx.fast.search.partition import Partition
from svmcvx.fast.search.state import CountingSearch, SearchSettings
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.indicator.statement import l0_statement, zero_one_statement
from svmcvx.formulations.signed_rows import violated
from svmcvx.proofs import read_proof
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
    np.testing.assert_equal(one.proof, other.proof)


def test_blocks_share_both_classes_equally_and_grow():
    X, y = clouds(120, 2)
    found, _ = partitioned(X, y, "l0", rounds=1)
    assert found.count == 3
    for side in found.sides:
        assert np.ptp(np.bincount(found.block[side], minlength=4)) <= 1


def exact_blocks(X, y, weight, name, proof, price=2.0):
    """The mean of the blocks' optima, in fractions."""
    total, block = Fraction(0), proof.tree["block"]
    count = proof.tree["share"].size
    for number in range(count):
        rows = np.flatnonzero((block == number) & (weight > 0))
        A, labels, s = X[rows], y[rows], weight[rows]
        if name == "l0":
            gram = [[inner(a, b) for b in fractions(A)] for a in fractions(A)]
            total += exact_free_optimum(gram, labels, s, price * count, "l0")
        else:
            signed = np.column_stack([A, np.ones(len(A))]) * labels[:, None]
            total += exact_optimum(signed, s, lam=price * count)
    return total / count


def fractions(A):
    return [[Fraction(value) for value in row] for row in A.tolist()]


@pytest.mark.parametrize(("name", "weighted"), [("l0", False), ("l0", True), ("0-1", True)])
def test_a_proof_proves_the_mean_of_the_exact_optima_of_its_blocks(name, weighted, tmp_path):
    pytest.importorskip("flint")
    X, y = clouds(16, 2, seed=1)
    # Equal rows, of one label and of both, may be in different blocks.
    X[8:12] = X[4:8]
    weight = np.where(np.arange(16) % 7 == 3, 0.0, np.linspace(0.5, 1.5, 16))
    weight = weight if weighted else np.ones(16)
    solve, price, _ = SOLVERS[name]
    shared = {price: 2.0, "sample_weight": weight, "method": "partition"}
    found = solve(X, y, max_iter=2, **shared)
    assert found.solver.endswith("/partition")
    found.save_proof(tmp_path / "proof.npz")
    proof = read_proof(tmp_path / "proof.npz")
    verified = sx.verify(proof, X, y, expect=found)
    assert verified.holds, verified.why
    exact = exact_blocks(X, y, weight, name, proof)
    assert found.certificate.lower <= verified.lower <= exact <= Fraction(found.certificate.upper)
    # Blocks end at a gap of 1e-4.
    assert verified.lower >= (1.0 - 1e-4) * (1.0 - 1e-9) * float(exact)
    whole = solve(X, y, **shared | {"method": "tree"}).certificate
    assert verified.lower <= whole.upper


def test_blocks_that_have_not_ended_prove_what_they_have(monkeypatch):
    pytest.importorskip("flint")
    monkeypatch.setattr(partition, "WORK", 1.0)
    X, y = clouds(60, 11)
    shared = {"C": 1.0, "method": "partition", "max_iter": 1}
    found = sx.fast.l0(X, y, settings=SearchSettings(expansions=1), **shared)
    proof = found.proof()
    assert sx.fast.l0(X, y, **shared).certificate.lower > 1.5 * found.certificate.lower > 0.0
    verified = sx.verify(proof, X, y)
    assert verified.holds, verified.why
    assert verified.lower >= found.certificate.lower
    # Without a record of each block there is no proof.
    short = SearchSettings(expansions=1, record=10.0)
    assert sx.fast.l0(X, y, settings=short, **shared).proof().lower is None


def test_a_search_that_does_not_end_hands_on_the_proof_of_its_blocks(monkeypatch):
    """Turns are short, and there is no program over sets."""
    monkeypatch.setattr(indicator, "LONG", 0.0)
    monkeypatch.setattr(indicator.Covering, "takes", lambda _: False)
    X, y = clouds(60, 11)
    settings = SearchSettings(turn=1.0, expansions=1)
    found = sx.fast.l0(X, y, C=1.0, method="search", max_iter=6, settings=settings)
    assert found.solver == "fast.l0/partition"
    assert "block" in found.evidence.tree


def test_two_blocks_that_prove_no_more_end_the_search(monkeypatch):
    monkeypatch.setattr(partition, "IDLE", 1)
    X, y = clouds(30, 2)
    found = sx.fast.zero_one(X, y, lam=1.0, method="partition")
    assert found.status == "iteration_limit"
    assert 0.5 * found.certificate.upper < found.certificate.lower


@pytest.mark.parametrize("arguments", [{"k": 20.0}, {"lam": 1.0, "kernel": sx.RBF(0.5)}])
def test_blocks_need_a_linear_machine_and_a_price(arguments):
    X, y = clouds(30, 2)
    with pytest.raises(sx.DataError, match="method='partition' takes linear machines"):
        sx.fast.zero_one(X, y, method="partition", **arguments)
