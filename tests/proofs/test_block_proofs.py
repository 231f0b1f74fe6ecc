"""Proofs for rows in blocks: the same ends as for the data in memory, and no other problem is
proved.
"""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

import svmcvx as sx
from svmcvx.feature_space import blocks as block_space
from svmcvx.proofs import read_proof

RNG = np.random.default_rng(5)
X = RNG.standard_normal((600, 4)) + 3.0
Y = np.where(X[:, 0] - X[:, 1] + 0.7 * RNG.standard_normal(600) > 0, "yes", "no")
WEIGHT = RNG.choice([0.0, 0.3, 1.0, 2.5], 600)
PROBLEMS = {
    "hinge": (sx.fast.psvm, {"C": 0.05, "p": 1.0}),
    "power": (sx.fast.psvm, {"C": 0.05, "p": 1.5}),
    "squared": (sx.fast.psvm, {"C": 0.05, "p": 2.0, "intercept": "penalised"}),
    "no intercept": (sx.fast.psvm, {"C": 0.05, "p": 1.0, "intercept": "none"}),
    "odm": (sx.fast.odm, {"C1": 3.0, "C2": 0.5, "D": 0.2}),
    "odm with a constant": (sx.fast.odm, {"C1": 3.0, "C2": 0.5, "D": 0.2, "intercept": True}),
}


def blocks_of(rows, labels, weight=None, cuts=(0, 70, 70, 400, 600), sparse=False):
    def loader(start, stop):
        part = sp.csr_array(rows[start:stop]) if sparse else rows[start:stop]
        return lambda: (
            (part, labels[start:stop])
            if weight is None
            else (part, labels[start:stop], weight[start:stop])
        )

    return sx.RowBlocks([loader(*ends) for ends in pairwise(cuts)], labelled=True)


@pytest.fixture(autouse=True)
def stay_in_blocks(monkeypatch):
    """Few rows are solved in blocks too."""
    monkeypatch.setattr(block_space, "SMALL_ENTRIES", 0)


def solved(name, weight=None, sparse=False):
    solver, settings = PROBLEMS[name]
    blocks = blocks_of(X, Y, weight, sparse=sparse)
    return solver(blocks, blocks.y, tol=1e-9, **settings), blocks


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("name", PROBLEMS)
def test_a_proof_holds_in_blocks_and_in_memory(name, weighted, tmp_path):
    solution, blocks = solved(name, WEIGHT if weighted else None)
    solution.save_proof(tmp_path / "proof.npz", blocks, blocks.y)
    # The hinge alone has multipliers, of a byte a row.
    assert weighted or (tmp_path / "proof.npz").stat().st_size < 2600
    proof = read_proof(tmp_path / "proof.npz")
    for data in ((blocks, blocks.y), (X, Y)):
        found = sx.verify(tmp_path / "proof.npz", *data)
        assert found, found.why
        assert found.checked == ("lower", "upper")
        assert found.upper - found.lower <= 1e-6 * found.upper
        assert found.statement.fingerprint == sx.proofs.fingerprint(X, Y)
    assert sx.verify(proof, X, Y, method="balls").holds
    other_cuts = blocks_of(X, Y, WEIGHT if weighted else None, cuts=(0, 1, 333, 600), sparse=True)
    assert sx.verify(proof, other_cuts, Y).holds
    exact = PROBLEMS[name][0](
        X, Y, tol=1e-11, sample_weight=WEIGHT if weighted else None, **PROBLEMS[name][1]
    )
    assert found.lower <= exact.certificate.upper
    assert exact.certificate.lower <= found.upper


@pytest.mark.parametrize("name", ["hinge", "power", "odm"])
def test_other_data_and_claims_are_refused(name):
    solution, blocks = solved(name)
    proof = solution.proof(blocks, blocks.y)
    order = np.arange(600)
    order[[3, 500]] = order[[500, 3]]
    flipped, maybe = np.where(np.arange(600) == 17, "no", Y), np.where(Y == "yes", "yes", "maybe")
    moved, spoilt = X.copy(), X.copy()
    moved[300] += 5.0
    spoilt[450, 2] = np.nan
    more = np.vstack([X, X[:5]]), np.append(Y, Y[:5])
    for rows, labels, why in (
        (blocks_of(X, flipped), flipped, "fingerprint"),
        (blocks_of(X[:599], Y[:599], cuts=(0, 599)), Y[:599], "they have 599 rows"),
        (blocks_of(*more, cuts=(0, 400, 605)), None, "605 rows or more"),
        (blocks_of(X[:, :3], Y), Y, "3 columns"),
        (blocks_of(X, Y), maybe, "label"),
    ):
        found = sx.verify(proof, rows, labels)
        assert not found.holds
        assert why in found.why
    with pytest.raises(sx.DataError, match="block 3"):
        sx.verify(proof, blocks_of(spoilt, Y), Y)
    for rows, labels in ((X[order], Y[order]), (moved, Y)):
        # The interval is about the rows that are there, whether the claim holds or not.
        holds_the_optimum(name, sx.verify(proof, blocks_of(rows, labels), labels), rows, labels)
    for claim in ({"lower": proof.upper}, {"lower": proof.lower * 0.9, "upper": proof.lower}):
        assert "claims" in sx.verify(replace(proof, **claim), blocks, blocks.y).why
    assert sx.verify(proof, blocks, blocks.y, expect=proof).holds


def holds_the_optimum(name, found, rows, labels):
    solver, settings = PROBLEMS[name]
    exact = solver(rows, labels, tol=1e-10, **settings).certificate
    assert found.lower is None or found.lower <= exact.upper
    assert exact.lower <= found.upper


def test_what_has_no_proof_in_blocks_says_so():
    blocks = blocks_of(X, Y)
    solution = sx.fast.odml(blocks, blocks.y)
    if solution.evidence is None:
        with pytest.raises(sx.DataError, match="no proof"):
            solution.save_proof("proof.npz", blocks, blocks.y)
    memory = sx.fast.odml(X, Y).proof()
    with pytest.raises(sx.DataError, match="checked for linear psvm"):
        sx.verify(memory, blocks, blocks.y)
    hinge, _ = solved("hinge")
    with pytest.raises(sx.DataError, match="pass them"):
        hinge.proof()
    with pytest.raises(sx.DataError, match="balls"):
        sx.verify(hinge.proof(blocks, blocks.y), blocks, blocks.y, method="balls")
    other, short = blocks_of(2.0 * X, Y), blocks_of(X[:599], Y[:599], cuts=(0, 599))
    with pytest.raises(sx.DataError, match="not those that were solved for"):
        hinge.proof(other, other.y)
    with pytest.raises(sx.DataError, match="has 599 rows"):
        hinge.proof(short, short.y)


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_interval_in_blocks_holds_whatever_the_model_is(name):
    rng = np.random.default_rng(0)
    solution, blocks = solved(name)
    proof = solution.proof(blocks, blocks.y)
    for scale in (1e-6, 1e-2, 30.0):
        coef = proof.model["coef"] * (1 + scale * rng.standard_normal(4))
        shaken = replace(proof, model={**proof.model, "coef": coef})
        holds_the_optimum(name, sx.verify(shaken, blocks, blocks.y), X, Y)
