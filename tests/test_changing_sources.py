"""Sources of rows that change while they are read, and arrays that change while they are solved."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.digests import digest
from tests import changing_sources

pytest.importorskip("dask.array")


@pytest.mark.parametrize("first", range(0, 80, 8))
def test_every_answer_is_about_the_rows_of_the_first_pass(first):
    """Of the campaign ``python -m tests.changing_sources``."""
    for seed in range(first, first + 8):
        label, outcome, why = changing_sources.check(seed)
        assert not why, (seed, label, outcome, why)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("two rows swapped", r"block 1: its rows are not those of the first pass; a source must not change"),
        ("one label", r"block 1: its labels are not those of the first pass"),
        ("weights", r"block 1: its weights are not those of the first pass"),
        ("NaN", r"block 1: X contains NaN in column \d; .* not so at the first pass"),
        ("shrinkage", r"block 1 had the shape \(15, 2\) and has \(14, 2\) now|block 1: its rows"),
        ("columns", r"block 1 had the shape \(15, 2\) and has \(15, 3\) now|block 1: X has 3 features"),
    ],
)
@pytest.mark.parametrize("name", list(changing_sources.SOLVERS))
def test_what_has_changed_and_where_is_said(name, kind, words):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = (X[:, 0] > 0).astype(int)
    X[:, 0] += y - 0.5
    if name != "hard_margin":
        y[::7] = 1 - y[::7]
    weight = rng.uniform(0.5, 2.0, 30)
    loaders = [
        changing_sources.Changing(
            (X[a:b], y[a:b], weight[a:b]),
            lambda parts, due: changing_sources.changed(kind, 0, parts, due),
            # After the first pass, and in any pass after the second one.
            first,
            "stays",
        )
        for a, b, first in ((0, 15, 10**9), (15, 30, 2))
    ]
    blocks = sx.RowBlocks(loaders, labelled=True)
    with pytest.raises(sx.DataError, match=words):
        changing_sources.SOLVERS[name](blocks, blocks.y)


@given(st.integers(1, 6), st.integers(1, 4), st.sampled_from("dfgil?O"), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_a_digest_is_that_of_the_numbers_in_their_order(rows, columns, kind, seed):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2**20, (rows, columns)).astype(kind)
    wide = np.zeros((rows, 2 * columns), dtype=X.dtype)
    wide[:, ::2] = X
    same = (X.copy(), np.asfortranarray(X), wide[:, ::2])
    assert {digest(other) for other in same} == {digest(X)}
    k, j = rng.integers(rows), rng.integers(columns)
    other = X.copy()
    other[k, j] = not other[k, j] if kind == "?" else other[k, j] + 1
    assert digest(other) != digest(X)
    if kind != "O":
        assert digest(sp.csr_array(other.astype(float))) != digest(sp.csr_array(X.astype(float)))
    if rows > 1 and not np.array_equal(X[0], X[1]):
        swapped = X.copy()
        swapped[[0, 1]] = swapped[[1, 0]]
        assert digest(swapped) != digest(X)
    assert digest(X.reshape(-1)) != digest(X)
    labels = np.array(["a", "b", "c"], dtype=object)
    assert digest(labels) == digest(labels.copy()) != digest(labels[::-1])
