import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

import svmcvx as sx
from svmcvx import datasets


@pytest.mark.parametrize("name", datasets.BUILT_IN)
def test_built_in_sets_load(name):
    data = datasets.load(name)
    assert data.X.shape[0] == data.y.size
    assert np.isfinite(data.X).all()
    assert data.classes.size >= 2


def test_two_classes_can_be_selected():
    pair = datasets.load("digits:3-8")
    assert pair.classes.tolist() == [3, 8]
    assert datasets.load("iris:setosa-virginica").y.size == 100
    with pytest.raises(sx.DataError, match="no class '11'"):
        datasets.load("digits:3-11")
    with pytest.raises(sx.DataError, match="one class only"):
        datasets.load("digits:3")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    np.savez(tmp_path / "dense.npz", X=np.eye(3), y=np.array([0, 1, 1]), labels=np.array(["no", "yes"]))
    matrix = sp.csr_array(np.eye(3))
    np.savez(
        tmp_path / "sparse.npz",
        data=matrix.data,
        indices=matrix.indices,
        indptr=matrix.indptr,
        shape=matrix.shape,
        y=np.arange(3),
    )
    np.savez(tmp_path / "empty.npz", X=np.eye(3))
    np.savez(tmp_path / "odd.npz", y=np.arange(3))
    np.savez(tmp_path / "pickled.npz", X=np.array([{}], dtype=object), y=np.arange(1))
    monkeypatch.delenv(datasets.ENVIRONMENT_VARIABLE, raising=False)
    return tmp_path


def test_a_folder_of_archives(folder, monkeypatch):
    assert datasets.load("dense", folder).y.tolist() == ["no", "yes", "yes"]
    monkeypatch.setenv(datasets.ENVIRONMENT_VARIABLE, str(folder))
    assert sp.issparse(datasets.load("sparse").X)
    assert datasets.load(folder / "dense.npz").name == "dense"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("empty", "an array y"),
        ("odd", "a dense array X"),
        ("pickled", "without pickle"),
        ("absent", "no absent.npz in"),
    ],
)
def test_archives_that_cannot_be_used(folder, name, message):
    with pytest.raises(sx.DataError, match=message):
        datasets.load(name, folder)


def test_an_unknown_name_lists_what_there_is(folder):
    with pytest.raises(sx.DataError, match=r"breast_cancer.*SVMCVX_DATA"):
        datasets.load("nothing")
    with pytest.raises(sx.DataError, match="does not exist"):
        datasets.load(str(folder / "absent.csv"))


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables(tmp_path, suffix):
    table = pd.DataFrame({"size": [1.0, 2.0, np.nan], "colour": ["red", "blue", "red"], "kind": ["a", "b", "a"]})
    path = tmp_path / f"table{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    data = datasets.load(path, target="kind")
    assert data.feature_names == ("size", "colour_blue", "colour_red")
    assert data.y.tolist() == ["a", "b", "a"]
    assert np.isnan(data.X[2, 0])
    assert data.without_missing().y.tolist() == ["a", "b"]
    with pytest.raises(sx.DataError, match="name the column"):
        datasets.load(path)
    with pytest.raises(sx.DataError, match="no column 'sort'"):
        datasets.load(path, target="sort")


def test_missing_labels_are_refused(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0], "y": ["a", None]}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(sx.DataError, match="1 missing labels"):
        datasets.load(tmp_path / "t.csv", target="y")


def test_libsvm_files(tmp_path):
    dump_svmlight_file(np.array([[1.0, 0.0], [0.0, 2.0]]), [1, -1], str(tmp_path / "small.libsvm"))
    data = datasets.load(tmp_path / "small.libsvm")
    assert data.X.toarray().tolist() == [[1.0, 0.0], [0.0, 2.0]]
    (tmp_path / "bad.svm").write_text("this is no data\n")
    with pytest.raises(sx.DataError, match="not a LIBSVM file"):
        datasets.load(tmp_path / "bad.svm")
    (tmp_path / "table.xls").write_text("x")
    with pytest.raises(sx.DataError, match="unknown type"):
        datasets.load(tmp_path / "table.xls")


def test_a_table_that_is_none(tmp_path):
    (tmp_path / "bad.parquet").write_text("x")
    with pytest.raises(sx.DataError, match="cannot be read as a table"):
        datasets.load(tmp_path / "bad.parquet", target="y")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(sx.DataError, match="cannot be read as a table"):
        datasets.load(tmp_path / "empty.csv", target="y")


def test_a_set_without_a_complete_row_says_so():
    data = datasets.Dataset("holes", np.array([[np.nan], [np.nan]]), np.array([0, 1]))
    with pytest.raises(sx.DataError, match="every row"):
        data.without_missing()
