import bz2
import gzip
import io
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import svmcvx as sx
from benchmarks.papers.synthetic import label_noise_data, label_noise_rule
from svmcvx import datasets
from svmcvx.errors import DataError
from svmcvx.synthetic import outlier_data, outlier_rule


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
    with pytest.raises(sx.DataError, match=r"a class of digits must be one of .*got '11'"):
        datasets.load("digits:3-11")
    with pytest.raises(sx.DataError, match="one class only"):
        datasets.load("digits:3")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    matrix = sp.csr_array(np.eye(3))
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    for name, arrays in {
        "dense": {"X": np.eye(3), "y": [0, 1, 1], "labels": ["no", "yes"]},
        "sparse": {**parts, "y": np.arange(3)},
        "empty": {"X": np.eye(3)},
        "odd": {"y": np.arange(3)},
        "pickled": {"X": np.array([{}], dtype=object), "y": np.arange(1)},
    }.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)
    monkeypatch.delenv(datasets.ENVIRONMENT_VARIABLE, raising=False)
    return tmp_path


def test_a_folder_of_archives(folder, monkeypatch):
    assert datasets.load("dense", folder).y.tolist() == ["no", "yes", "yes"]
    with pytest.raises(sx.DataError, match=r"neither data_dir nor SVMCVX_DATA is set"):
        datasets.load("nothing")
    monkeypatch.setenv(datasets.ENVIRONMENT_VARIABLE, str(folder))
    assert sp.issparse(datasets.load("sparse").X)
    assert datasets.load(folder / "dense.npz").name == "dense"
    for name, message in (
        ("empty", "an array y"),
        ("odd", "a dense array X"),
        ("pickled", "arrays of Python objects"),
        ("absent", r"no data set is called 'absent'.*breast_cancer.*no absent.npz in"),
        (str(folder / "absent.csv"), "does not exist"),
    ):
        with pytest.raises(sx.DataError, match=message):
            datasets.load(name)


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_tables(tmp_path, suffix):
    table = pd.DataFrame(
        {"size": [1.0, 2.0, np.nan], "colour": ["red", "blue", "red"], "kind": ["a", "b", "a"]}
    )
    path = tmp_path / f"table{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_parquet(path)
    with pytest.warns(UserWarning, match=r"one-hot encoded: colour \(2 values\)"):
        data = datasets.load(path, target="kind")
    assert data.feature_names == ("size", "colour_blue", "colour_red")
    assert data.y.tolist() == ["a", "b", "a"]
    assert np.isnan(data.X[2, 0])
    assert data.without_missing().y.tolist() == ["a", "b"]
    with pytest.raises(sx.DataError, match="target must name the column"):
        datasets.load(path)
    with pytest.raises(sx.DataError, match=r"among the columns of .*'sort'"):
        datasets.load(path, target="sort")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("bad.svm", "this is no data\n", "not LIBSVM text"),
        ("plain", "1 1:2\n-1 2:1\n1 1:2 x:3\n", "line 3 is not 'LABEL INDEX:VALUE …': '1 1:2 x:3'"),
        ("plain", "1 1:2\n1 2:2 1:3\n", "the indices of line 2 do not ascend"),
        ("named.libsvm", "1 1:2 3:y\n", "not LIBSVM text"),
        ("named.libsvm", "1 1:2\n1 1:2 3000000000:1\n", "line 2 has an index above 2147483647"),
        ("kernel.svm", "1 0:1 1:2 2:1\n-1 0:2 1:1 2:2\n", "file of a precomputed kernel"),
        ("table.xls", "x", "no known type"),
        ("bad.parquet", "x", "cannot be read as a table"),
        ("empty.csv", "", "cannot be read as a table"),
        ("holes.csv", "x,y\n1,a\n2,\n", "1 missing labels"),
        ("twice.csv", "a ,a,y\n1,2,3\n", "two columns 'a'|no rows"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(sx.DataError, match=message):
        datasets.load(tmp_path / name, target="y")


TABLE = pd.DataFrame({"x": [0.5, 1.25, -2.0], "size": [1, 2, 3], "kind": ["a", "b", "a"]})


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *(("t.csv", {}), ("t.csv", {"sep": ";", "decimal": ","}), ("t.csv", {"sep": "|"})),
        *(("t.txt", {"sep": " "}), ("t.tsv", {"sep": "\t"}), ("t.csv.gz", {"sep": ";"})),
        *(("t.tsv.bz2", {"sep": "\t"}), ("t.csv.xz", {})),
    ],
)
def test_tables_in_every_dialect(tmp_path, name, options):
    TABLE.to_csv(tmp_path / name, index=False, **options)
    data = datasets.load(tmp_path / name, target="kind")
    assert data.name == "t"
    assert data.X.tolist() == TABLE[["x", "size"]].to_numpy().tolist()
    assert data.y.tolist() == ["a", "b", "a"]
    # A separator inside quotes is none.
    (tmp_path / "q.csv").write_text('"a, b, c";kind\n1.5;x\n2.5;y\n')
    assert datasets.load(tmp_path / "q.csv", target="kind").feature_names == ("a, b, c",)


def test_columns_that_name_rows_are_refused_unless_they_are_named(tmp_path):
    n = 30
    columns = {"id": np.arange(n) * 7, "number": np.arange(n), "x": np.linspace(0, 1, n)}
    columns |= {"who": [f"p{i}" for i in range(n)], "age": [*map(str, range(n - 1)), "old"]}
    table = pd.DataFrame(columns | {"kind": ["a", "b"] * (n // 2)})
    table.to_csv(tmp_path / "t.csv", index=False)
    # All are named at once.
    names = "'id', 'number', 'who', 'age'"
    refused = r"t\.csv: column 'id' seems to number or name the rows, .*'age' holds numbers but for"
    with pytest.raises(sx.DataError, match=rf"{refused} 1 .*'old'; .* by keep=\[{names}\]"):
        datasets.load(tmp_path / "t.csv", target="kind")
    keep = ["id", "number", "who", "age"]
    with pytest.warns(UserWarning, match=r"age \(30 values, numbers but for 1 such as 'old'\)"):
        data = datasets.load(tmp_path / "t.csv", target="kind", keep=keep)
    assert data.X.shape == (n, 3 + n + n)
    dropped = datasets.load(tmp_path / "t.csv", target="kind", drop=keep)
    written = datasets.load(tmp_path / "t.csv", target="kind", drop=", ".join(keep))
    assert written.feature_names == dropped.feature_names
    assert dropped.feature_names == ("x",)
    for drop, message in (
        (["idd"], r"drop must be among the columns of t\.csv, got 'idd'"),
        (["kind"], "drop names 'kind', which target names"),
        (3, r"drop must be names of columns, as in \['id'\] or 'id,date', got 3"),
        (["id", 3], "drop must be names of columns"),
    ):
        with pytest.raises(sx.DataError, match=message):
            datasets.load(tmp_path / "t.csv", target="kind", drop=drop)


def test_columns_of_many_texts_and_numbers_called_ids_are_refused(tmp_path):
    n = 100
    frame = pd.DataFrame(
        {"patient_id": np.arange(n) ** 2, "site": [f"s{k % 20}" for k in range(n)]}
    )
    frame["x"], frame["y"] = np.linspace(0, 1, n), np.arange(n) % 2
    frame.to_csv(tmp_path / "t.csv", index=False)
    for given, what in ((tmp_path / "t.csv", r"t\.csv"), (frame, "the data frame")):
        with pytest.raises(sx.DataError, match=f"{what}: column 'patient_id' seems to number"):
            datasets.load(given, target="y", keep=["site"])
        with pytest.raises(sx.DataError, match=f"{what}: column 'site' holds 20 texts in 100 rows"):
            datasets.load(given, target="y", drop=["patient_id"])
        with pytest.warns(UserWarning, match=r"site \(20 values\)"):
            assert datasets.load(given, target="y", keep=["patient_id", "site"]).X.shape == (n, 22)
    few = frame.assign(site=[f"s{k % 19}" for k in range(n)])
    with pytest.warns(UserWarning, match=r"site \(19 values\)"):
        assert datasets.load(few, target="y", drop=["patient_id"]).X.shape == (n, 20)


def test_a_data_frame_is_read_as_its_file_is_and_never_printed(tmp_path):
    frame = pd.DataFrame({" a ": [1.0, 2.0, 3.5], "b": ["1", " 2", "?"], "y": ["u", "v", "u"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    before = frame.copy()
    own, other = datasets.load(frame, target="y"), datasets.load(tmp_path / "t.csv", target="y")
    pd.testing.assert_frame_equal(frame, before)
    np.testing.assert_array_equal(own.X, other.X)
    assert (own.feature_names, own.y.tolist()) == (("a", "b"), ["u", "v", "u"])
    with pytest.raises(sx.DataError, match=r"target must name the column .* it has a, b, y"):
        datasets.load(frame)
    for wrong in (frame.to_numpy(), 5, None):
        with pytest.raises(sx.SvmcvxError, match=f"DataFrame, got {type(wrong).__name__}$"):
            datasets.load(wrong)


@pytest.mark.parametrize("argument", ["target", "drop", "keep"])
def test_columns_of_what_is_no_table_are_refused(tmp_path, argument):
    np.savez(tmp_path / "own.npz", X=TABLE[["x", "size"]].to_numpy(), y=TABLE["kind"].to_numpy(str))
    (tmp_path / "own.svm").write_text("1 1:2\n-1 2:1\n")
    for name in (
        "iris",
        "iris:setosa-virginica",
        "own",
        tmp_path / "own.npz",
        tmp_path / "own.svm",
    ):
        assert datasets.load(name, tmp_path).X.shape[0] > 1
        with pytest.raises(sx.DataError, match=f"{argument} is for tables, which .* is not"):
            datasets.load(name, tmp_path, **{argument: "kind"})


def test_missing_text_is_missing_in_all_columns_of_its_values(tmp_path):
    text = "sex,smoke,age,kind\nmale,no,40,a\n,?,50,b\nfemale,yes,?,a\nmale,no,60,b\n"
    (tmp_path / "t.csv").write_text(text)
    with pytest.warns(
        UserWarning, match=r"sex \(2 values, 1 missing\); smoke \(2 values, 1 missing\)"
    ):
        data = datasets.load(tmp_path / "t.csv", target="kind")
    assert data.feature_names == ("age", "sex_female", "sex_male", "smoke_no", "smoke_yes")
    holes = np.isnan(data.X)
    assert holes.sum(axis=1).tolist() == [0, 4, 1, 0]
    assert holes[1].tolist() == [False, True, True, True, True]
    assert data.missing_values == 5
    complete = [[40.0, 0.0, 1.0, 1.0, 0.0], [60.0, 0.0, 1.0, 1.0, 0.0]]
    assert data.without_missing().X.tolist() == complete


def test_blanks_around_names_and_text_are_no_part_of_them(tmp_path):
    """The files of the UCI repository, such as adult, have a blank behind each separator."""
    text = "age, job, y \n39, State , no\n 50, ?, yes \n?,  Private, no \n38,State,yes\n"
    (tmp_path / "adult.csv").write_text(text)
    with pytest.warns(UserWarning, match=r"job \(2 values, 1 missing\)"):
        data = datasets.load(tmp_path / "adult.csv", target="y")
    assert data.feature_names == ("age", "job_Private", "job_State")
    assert data.y.tolist() == ["no", "yes", "no", "yes"]
    assert np.isnan(data.X).sum(axis=1).tolist() == [0, 2, 1, 0]


@pytest.mark.parametrize(
    ("name", "cells", "numbers"),
    [
        ("a.csv", ["1.5", "3e2", "-1"], [1.5, 300, -1]),
        ("a.tsv", ["1,5", "1,304", "5"], [1.5, 1.304, 5]),
        ("a.txt", ["1,5", "304,5", "0"], [1.5, 304.5, 0]),
        ("a.csv", ["?", "", "3"], [np.nan, np.nan, 3]),
    ],
)
def test_text_that_is_numbers_is_read_as_numbers(tmp_path, name, cells, numbers):
    separator = {".tsv": "\t", ".txt": "  "}.get(Path(name).suffix, ",")
    lines = [f"{cell}{separator}{k % 2}" for k, cell in enumerate(cells)]
    (tmp_path / name).write_text("\n".join([f"x{separator}y", *lines]))
    data = datasets.load(tmp_path / name, target="y")
    assert data.feature_names == ("x",)
    np.testing.assert_array_equal(data.X[:, 0], numbers)


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (['"1,304"', '"2,500"', '"3,000"'], "holds numbers but for 3 values such as '1,304'"),
        (["12.5%", "3 %", "-1%"], "holds numbers but for 3 values such as '12.5%'"),
        (["$12.5", "3", "-1"], "holds numbers but for 1 values"),
        (["2024-01-31", "2024-02-01", ""], "holds dates or times such as '2024-01-31'"),
        (["31.12.2024 10:00", "1.1.2025 9:30", "2.1.2025 0:00"], "holds dates or times"),
        (["3 Jan 2024", "12 March 2024", "1 May 2025"], "holds dates or times"),
        (["10:15", "11:30:05", "9:00 pm"], "holds dates or times"),
    ],
)
def test_columns_that_may_be_several_things_are_refused_by_name(tmp_path, cells, words):
    lines = [f"{cell},{k % 2}" for k, cell in enumerate(cells)]
    (tmp_path / "t.csv").write_text("\n".join(["x,y", *lines]))
    with pytest.raises(sx.DataError, match=f"t.csv: column 'x' .*{words}"):
        datasets.load(tmp_path / "t.csv", target="y")
    with pytest.warns(UserWarning, match="one-hot encoded"):
        assert datasets.load(tmp_path / "t.csv", target="y", keep=["x"]).X.shape[0] == 3


def test_a_test_file_of_libsvm_may_have_fewer_columns_than_the_training_file(tmp_path):
    (tmp_path / "a.t").write_text("1 1:1\n-1 2:1\n")
    assert datasets.load(tmp_path / "a.t").X.shape == (2, 2)
    assert datasets.load(tmp_path / "a.t", n_features=5).X.shape == (2, 5)
    with pytest.raises(sx.DataError, match="n_features was set to 1"):
        datasets.load(tmp_path / "a.t", n_features=1)
    with pytest.raises(sx.DataError, match=r"n_features is for files of LIBSVM"):
        datasets.load("iris", n_features=4)


def test_columns_that_are_neither_numbers_nor_text_are_named(tmp_path):
    when = pd.to_datetime(["2020-01-01", "2021-01-01"])
    pd.DataFrame({"when": when, "y": [0, 1]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(sx.DataError, match=r"column 'when' of t\.parquet holds datetime"):
        datasets.load(tmp_path / "t.parquet", target="y")


@pytest.mark.parametrize(
    "name", ["heart", "german.numer", "small.t", "a9a.gz", "rcv1.bz2", "./iris"]
)
def test_libsvm_files_as_they_are_distributed(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    rows = ["\ufeff+1 1:0.5 3:-1e-3 # a remark", "-1", "", "# a line", "-1 2:2"]
    with {".gz": gzip.open, ".bz2": bz2.open}.get(Path(name).suffix, open)(name, "wb") as stream:
        stream.write("\n".join(rows).encode())
    data = datasets.load(name)
    assert data.X.toarray().tolist() == [[0.5, 0.0, -1e-3], [0.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    assert data.pair("-1", "1").y.tolist() == [1.0, -1.0, -1.0]
    assert datasets.load(f"{name}:-1-1").name == f"{data.name}:-1-1"


def test_an_archive_that_is_damaged_is_told_as_that(tmp_path):
    (tmp_path / "noise.npz").write_bytes(b"nonsense")
    np.savez(tmp_path / "cut.npz", X=np.eye(50), y=np.arange(50))
    (tmp_path / "cut.npz").write_bytes((tmp_path / "cut.npz").read_bytes()[:2000])
    for name in ("noise.npz", "cut.npz"):
        with pytest.raises(sx.DataError, match=r"is not an \.npz archive, or is damaged"):
            datasets.load(tmp_path / name)
    with pytest.raises(sx.DataError, match="is a folder"):
        datasets.load(tmp_path)


@pytest.mark.parametrize("honest", [True, False])
def test_an_archive_that_unpacks_to_gigabytes_is_refused_before_it_is_read(tmp_path, honest):
    """The total is refused by the directory; a size that is not that of the shape by the header."""
    path = tmp_path / "bomb.npz"
    header = io.BytesIO()
    described = {"descr": "<f8", "fortran_order": False, "shape": (2**28,) if honest else (2**40,)}
    np.lib.format.write_array_header_1_0(header, described)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        np.save(y := io.BytesIO(), np.arange(2))
        archive.writestr("y.npy", y.getvalue())
        with archive.open("X.npy", "w", force_zip64=True) as member:
            member.write(header.getvalue())
            for _ in range(32 if honest else 1):
                member.write(bytes(2**23))
    tracemalloc.start()
    with pytest.raises(sx.DataError, match="would unpack to" if honest else "not that of its"):
        datasets.load(path)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()


# The generators: seeds, moments, shares, and the Bayes rules


N = 20000


def centroid(p, seed):
    d = outlier_rule(p, seed=seed).coef
    return 0.5 * d / np.linalg.norm(d)


def test_a_seed_determines_the_data_and_a_sample_number_draws_others():
    def data(seed, **sample):
        return outlier_data(50, 3, sigma=0.5, outliers="spread", seed=seed, **sample)

    (X, y), again = data(7), data(7)
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(y, again[1])
    assert set(y) == {-1, 1}
    assert not np.array_equal(X, data(8)[0])
    assert not np.array_equal(X, data(7, sample=1)[0])


def test_without_outliers_the_classes_are_gaussian_around_centroids_one_unit_apart():
    X, y = outlier_data(N, 4, sigma=0.3, seed=1)
    chi = centroid(4, 1)
    assert (y == 1).mean() == pytest.approx(0.5, abs=0.02)
    for label in (-1, 1):
        np.testing.assert_allclose(X[y == label].mean(axis=0), label * chi, atol=0.02)
        np.testing.assert_allclose(np.cov(X[y == label].T), 0.09 * np.eye(4), atol=0.01)
    assert np.linalg.norm(2 * chi) == pytest.approx(1.0)


def test_clustered_outliers_are_a_tight_cluster_of_positive_labels_far_on_the_negative_side():
    X, y = outlier_data(N, 3, sigma=0.5, outliers="clustered", seed=2)
    chi = centroid(3, 2)
    far = np.linalg.norm(X + 10 * chi, axis=1) < 1.0
    assert far.mean() == pytest.approx(0.1, abs=0.01)
    assert (y[far] == 1).all()
    np.testing.assert_allclose(X[far].var(axis=0), 0.001 * 0.25, rtol=0.15)
    assert (y[~far] == 1).mean() == pytest.approx(0.5, abs=0.02)


def test_the_bayes_rule_is_the_best_for_clean_data():
    X, y = outlier_data(N, 2, sigma=0.5, seed=4)
    rule = outlier_rule(2, seed=4)
    best = (rule.predict(X) == y).mean()
    # Φ(1): the centroids are half a unit, one standard deviation, away from the plane.
    assert best == pytest.approx(0.8413, abs=0.01)
    for angle in (0.3, -0.3):
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        assert (rule._replace(coef=turn @ rule.coef).predict(X) == y).mean() < best
    assert rule.intercept == 0
    assert (np.abs(rule.coef) <= 1).all()


@pytest.mark.parametrize("tau", [0.0, 0.1, 0.3])
def test_label_noise_flips_the_labels_of_a_hyperplane(tau):
    X, y = label_noise_data(N, 5, tau=tau, seed=5)
    rule = label_noise_rule(5, seed=5)
    assert (rule.predict(X) != y).mean() == pytest.approx(tau, abs=0.01)
    assert np.abs(X).max() <= 1
    np.testing.assert_allclose(X.var(axis=0), 1 / 3, atol=0.01)
    clean = label_noise_data(100, 5, tau=0.0, seed=5, sample=2)
    assert (rule.predict(clean[0]) == clean[1]).all()


def test_arguments_are_checked():
    cases = [
        (lambda: outlier_data(0, 2, sigma=1.0, seed=0), "n must be a whole number of at least 1"),
        (lambda: outlier_data(5, 2, sigma=0.0, seed=0), "sigma must be"),
        (lambda: outlier_data(5, 2, sigma=1.0, outliers="some", seed=0), "outliers must be one of"),
        (lambda: outlier_data(5, 2, sigma=1.0, seed=-1), "seed must be"),
        (lambda: label_noise_data(5, 2, tau=0.6, seed=0), "tau must be"),
    ]
    for call, text in cases:
        with pytest.raises(DataError, match=text):
            call()
