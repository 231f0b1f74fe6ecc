"""Numbers by which arrays are recognised."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from svmcvx.data import BLOCK, digest, sums_of

rng = np.random.default_rng(0)
# Several blocks and a rest.
X = rng.standard_normal((2 * BLOCK // 30 + 60, 31))


@pytest.mark.parametrize("number", [digest, sums_of])
@given(place=st.integers(0, X.size - 1), other=st.integers(0, X.size - 1), bit=st.integers(0, 63))
def test_a_changed_entry_and_an_exchange_are_noticed(number, place, other, bit):
    before = number(X)
    assert number(X.copy()) == before
    changed = X.copy()
    changed.view(np.uint64).reshape(-1)[place] ^= np.uint64(1 << bit)
    assert number(changed) != before
    if place != other:
        exchanged = X.copy()
        flat = exchanged.reshape(-1)
        flat[place], flat[other] = flat[other], flat[place]
        assert number(exchanged) != before


@pytest.mark.parametrize("number", [digest, sums_of])
def test_moved_rows_and_columns_are_noticed(number):
    before = number(X)
    for columns in (31, 32, 64):
        wide = rng.standard_normal((500, columns))
        first = number(wide)
        assert number(wide[::-1]) != first
        assert number(wide[rng.permutation(500)]) != first
        assert number(wide[:, ::-1]) != first
    assert number(X.T) != before
    assert number(X[:-1]) != before


@pytest.mark.parametrize("number", [digest, sums_of])
def test_rows_of_indicators_that_are_exchanged_are_noticed(number):
    rows = np.zeros((300, 64))
    rows[0, 0] = rows[64, 1] = 1.0
    exchanged = rows.copy()
    exchanged[[0, 64]] = rows[[64, 0]]
    assert number(exchanged) != number(rows)


@pytest.mark.parametrize("number", [digest, sums_of])
def test_sparse_matrices_and_other_types(number):
    rows = sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    before = number(rows)
    assert number(rows.copy()) == before
    rows.data[-1] *= 2.0
    assert number(rows) != before
    assert number(np.array(["a", "b"], dtype=object)) != number(np.array(["a", "c"], dtype=object))
    assert number(X.astype(np.float32)) != number(X)
    assert number(np.arange(3, dtype=np.longdouble)) == number(np.arange(3, dtype=np.longdouble))
