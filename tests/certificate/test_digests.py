"""Numbers by which arrays are recognised."""

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from svmcvx.data import BLOCK, sums_of

rng = np.random.default_rng(0)
# Several blocks and a rest.
X = rng.standard_normal((2 * BLOCK // 30 + 60, 31))


@given(place=st.integers(0, X.size - 1), other=st.integers(0, X.size - 1), bit=st.integers(0, 63))
def test_a_changed_entry_and_an_exchange_are_noticed(place, other, bit):
    before = sums_of(X)
    assert sums_of(X.copy()) == before
    changed = X.copy()
    changed.view(np.uint64).reshape(-1)[place] ^= np.uint64(1 << bit)
    assert sums_of(changed) != before
    if place != other:
        exchanged = X.copy()
        flat = exchanged.reshape(-1)
        flat[place], flat[other] = flat[other], flat[place]
        assert sums_of(exchanged) != before


def test_moved_rows_and_columns_are_noticed():
    before, indicators, order = sums_of(X), np.zeros((300, 64)), np.arange(300)
    indicators[0, 0] = indicators[64, 1] = 1.0
    order[[0, 64]] = 64, 0
    assert sums_of(indicators[order]) != sums_of(indicators)
    for columns in (31, 32, 64):
        wide = rng.standard_normal((500, columns))
        first = sums_of(wide)
        assert sums_of(wide[::-1]) != first
        assert sums_of(wide[rng.permutation(500)]) != first
        assert sums_of(wide[:, ::-1]) != first
    assert sums_of(X.T) != before
    assert sums_of(X[:-1]) != before


def test_sparse_matrices_and_other_types():
    rows = sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    before = sums_of(rows)
    assert sums_of(rows.copy()) == before
    rows.data[-1] *= 2.0
    assert sums_of(rows) != before
    assert sums_of(np.array(["a", "b"], dtype=object)) != sums_of(
        np.array(["a", "c"], dtype=object)
    )
    assert sums_of(X.astype(np.float32)) != sums_of(X)
    assert sums_of(np.arange(3, dtype=np.longdouble)) == sums_of(np.arange(3, dtype=np.longdouble))
