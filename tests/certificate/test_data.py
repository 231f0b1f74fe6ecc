import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from svmcvx.data import (
    CodedLabels,
    binary_data,
    check_features,
    check_labels,
    check_number,
    check_weights,
    checksum,
    multiclass_data,
)
from svmcvx.errors import DataError


def test_lists_frames_and_integers_become_float_arrays():
    whole = [[1, 2], [3, 4]]
    mixed = np.array([[True, 2], [3.0, 4]], dtype=object)
    frame = pd.DataFrame({"a": [1, 3], "b": [2, 4]})
    for X in (whole, np.array(whole, dtype=np.int8), frame, mixed):
        checked = check_features(X)
        assert checked.dtype == np.float64
        assert checked.tolist() == whole
    assert check_features([[True, False]]).tolist() == [[1.0, 0.0]]
    assert check_number(np.float32(2), "C") == 2.0


def test_sparse_matrices_stay_sparse_and_merge_duplicates():
    X = sp.coo_matrix(([1.0, 2.0, 3.0], ([0, 0, 1], [0, 0, 1])), shape=(2, 2))
    checked = check_features(X)
    assert sp.issparse(checked)
    assert checked.toarray().tolist() == [[3, 0], [0, 3]]
    with pytest.raises(DataError, match=r"X\.toarray\(\)"):
        check_features(X, accept_sparse=False)


def read_three_columns(X):
    check_features(X, n_features=3)


def read_labels(y):
    check_labels(y, 3, binary=True)


def read_weights(weight):
    check_weights(weight, 3)


REFUSED = {
    check_features: [
        (np.zeros((2, 2, 2)), "two-dimensional"),
        ([[1.0, np.nan]], "NaN in column 1"),
        ([[np.inf, 1.0]], "infinity in column 0"),
        ([["a", 1.0]], "encode"),
        (np.array([[1, "a"]], dtype=object), "not numeric in column 1"),
        ([[1.0], [1.0, 2.0]], "rows of equal length"),
        (sp.csr_array(np.array([[0.0, np.nan]])), "NaN in column 1"),
        (sp.csr_array(np.array([[1j]])), "real and numeric"),
        (pd.DataFrame({"age": [1.0, np.nan], "size": [1.0, 2.0]}), "column age"),
    ],
    read_three_columns: [([[1.0, 2.0]], "2 features.*expects 3")],
    read_labels: [
        ([0, 1], "2 labels but X has 3 rows"),
        ([0, 0, 0], "one class only"),
        ([0, 1, 2], "Only binary classification is supported"),
        ([0, 1, np.nan], "NaN"),
        ([0, 1, None], "missing labels"),
        (["a", "b", pd.NA], "missing labels"),
        (np.array(["a", 1, 1], dtype=object), "cannot be sorted"),
        (np.zeros((3, 2)), "one-dimensional"),
    ],
    read_weights: [
        ([1, 2], "expected shape"),
        ([1, -1, 1], "non-negative"),
        ([1, np.inf, 1], "finite"),
        (["a"] * 3, "numeric"),
    ],
}


@pytest.mark.parametrize(
    ("read", "value", "message"),
    [(read, *case) for read, cases in REFUSED.items() for case in cases],
)
def test_data_that_cannot_be_used(read, value, message):
    with pytest.raises(DataError, match=message):
        read(value)


def test_a_wrong_type_is_a_type_error_too():
    for call in (
        lambda: binary_data(np.array([[1.0, {"a": 1}], [2.0, 3.0]], dtype=object), [0, 1]),
        lambda: binary_data([["a", "b"], ["c", "d"]], [0, 1]),
    ):
        with pytest.raises(TypeError, match="numeric") as raised:
            call()
        assert isinstance(raised.value, DataError)


@pytest.mark.parametrize(
    "labels",
    [list("bab"), [True, False, True], [7, -3, 7], [2.0, 1.0, 2.0], np.array([*"bab"], object)],
)
def test_labels_of_any_type_map_there_and_back(labels):
    codes, classes = check_labels(labels, 3)
    assert codes.tolist() == [1, 0, 1]
    assert (classes[codes] == np.asarray(labels)).all()


def test_observations_of_weight_zero_are_dropped():
    data = binary_data([[0.0], [1.0], [2.0]], ["x", "y", "y"], [1, 0, 2])
    assert data.index.tolist() == [0, 2]
    assert data.weight.tolist() == [1, 2]
    assert (data.n, data.rows) == (2, 3)
    with pytest.raises(DataError, match="zero for every observation of a class"):
        binary_data([[0.0], [1.0]], [0, 1], [0, 1])


def test_multiclass_data_keeps_all_classes():
    data = multiclass_data(np.eye(4), list("abca"), [1, 1, 1, 0])
    assert (data.n, data.c, data.rows) == (3, 3, 4)
    with pytest.raises(DataError, match="each class needs positive weight"):
        multiclass_data(np.eye(3), list("abc"), [1, 1, 0])


def test_labels_that_were_validated_are_for_their_own_features_only():
    X = check_features([[0.0], [1.0]])
    labels = CodedLabels(*check_labels([0, 1], 2), X)
    with pytest.raises(DataError, match="NaN"):
        binary_data([[0.0], [np.nan]], labels)
    with pytest.raises(DataError, match="y has 2 labels but X has 3 rows"):
        binary_data([[0.0], [1.0], [2.0]], labels)
    with pytest.raises(DataError, match="one class only"):
        check_labels(CodedLabels(np.zeros(2, dtype=np.intp), np.array([3])), 2)
    with pytest.raises(DataError, match="holds 3 classes"):
        check_labels(CodedLabels(np.arange(3), np.arange(3)), 3, binary=True)


# Numbers by which arrays are recognised


rng = np.random.default_rng(0)
X = rng.standard_normal((333, 31))


@given(place=st.integers(0, X.size - 1), other=st.integers(0, X.size - 1), bit=st.integers(0, 63))
def test_a_changed_entry_and_an_exchange_are_noticed(place, other, bit):
    before = checksum(X)
    assert checksum(X.copy()) == before
    changed = X.copy()
    changed.view(np.uint64).reshape(-1)[place] ^= np.uint64(1 << bit)
    assert checksum(changed) != before
    if place != other:
        exchanged = X.copy()
        flat = exchanged.reshape(-1)
        flat[place], flat[other] = flat[other], flat[place]
        assert checksum(exchanged) != before


def test_moved_rows_and_columns_are_noticed():
    before, indicators, order = checksum(X), np.zeros((300, 64)), np.arange(300)
    indicators[0, 0] = indicators[64, 1] = 1.0
    order[[0, 64]] = 64, 0
    assert checksum(indicators[order]) != checksum(indicators)
    for columns in (31, 32, 64):
        wide = rng.standard_normal((500, columns))
        first = checksum(wide)
        assert checksum(wide[::-1]) != first
        assert checksum(wide[rng.permutation(500)]) != first
        assert checksum(wide[:, ::-1]) != first
    assert checksum(X.T) != before
    assert checksum(X[:-1]) != before


def test_sparse_matrices_and_other_types():
    rows = sp.csr_array(np.where(np.abs(X) > 1.0, X, 0.0))
    before = checksum(rows)
    assert checksum(rows.copy()) == before
    rows.data[-1] *= 2.0
    assert checksum(rows) != before
    assert checksum(np.array(["a", "b"], dtype=object)) != checksum(
        np.array(["a", "c"], dtype=object)
    )
    assert checksum(X.astype(np.float32)) != checksum(X)
    assert checksum(np.arange(3, dtype=np.longdouble)) == checksum(
        np.arange(3, dtype=np.longdouble)
    )
