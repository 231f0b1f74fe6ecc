"""The data sets of the papers: records, content, and downloads from a server on this machine."""

import bz2
import hashlib
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import Bunch

import svmcvx as sx
from svmcvx import datasets
from svmcvx.datasets import content_digest, known_sets, registry
from svmcvx.datasets.files import read_npz, write_npz
from svmcvx.datasets.loading import CACHE_VARIABLE

X = np.array([[1.0, np.nan], [0.0, 2.5], [-3.0, 0.0]])
Y = np.array(["b", "g", "b"])


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def server(tmp_path):
    """The address of a folder that is served, and the folder."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{running.server_address[1]}", folder
        running.shutdown()
        thread.join()


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Put one record in place of the registry, with a cache of its own."""
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.delenv(datasets.ENVIRONMENT_VARIABLE, raising=False)

    def put(X, y, download, **more):
        lines = ["[tables]", "[sets.small]", 'title = "A small set"', 'source = "this machine"']
        lines += [f"rows = {X.shape[0]}", f"features = {X.shape[1]}"]
        lines += [f'content = "{content_digest(X, y)}"']
        lines += [f"{key} = {value!r}" for key, value in more.items()]
        if download is not None:
            lines += ["[sets.small.download]", *(f"{key} = {v}" for key, v in download.items())]
        text = "\n".join(lines)
        file = tmp_path / f"registry-{hashlib.sha256(text.encode()).hexdigest()[:8]}.toml"
        file.write_text(f"{text}\n")
        monkeypatch.setattr(registry, "REGISTRY", file)
        return tmp_path / "cache" / "small.npz"

    return put


# Records


def test_every_record_is_complete():
    for name, one in known_sets().items():
        assert one.title
        assert all(one.papers.values())
        if one.unavailable:
            assert one.content is None
            assert one.download is None
            continue
        assert sum(one.classes.values()) == one.rows, name
        assert len(one.content) == 64
        assert one.source
        assert one.licence
        if one.download is not None:
            assert one.download["kind"] in ("libsvm", "table", "openml")
            assert all(url.startswith("https://") for url in one.download.get("urls", ()))
            assert set(one.download.get("labels", {}).values()) <= set(one.classes)


def test_sets_that_cannot_be_had_say_so(monkeypatch, tmp_path):
    monkeypatch.delenv(datasets.ENVIRONMENT_VARIABLE, raising=False)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    assert known_sets()["hhar"].unavailable
    with pytest.raises(
        sx.DataError, match=r"hhar .* cannot be had: UCI HAR.*looked for in data_dir \(not set\)"
    ):
        datasets.load("hhar")
    np.savez(tmp_path / "hhar.npz", X=np.eye(2), y=np.arange(2))
    assert datasets.load("hhar", tmp_path).X.shape == (2, 2), "a file of one's own is taken"


# Content


def test_the_digest_is_of_values_not_of_their_storage():
    found = content_digest(X, Y)
    assert content_digest(np.asfortranarray(X), Y.astype(object)) == found
    assert content_digest(np.where(X == 0, -0.0, X), Y) == found
    assert content_digest(sp.csr_array(X), Y) != found
    assert content_digest(X, [1.0, -1.0, 1.0]) == content_digest(X, ["1", "-1", "1"])
    assert content_digest(X[::-1], Y) != found
    assert content_digest(X, Y[::-1]) == content_digest(X, np.array(["b", "g", "b"]))
    assert content_digest(X, ["g", "b", "b"]) != found
    changed = X.copy()
    changed[2, 0] = np.nextafter(changed[2, 0], 0)
    assert content_digest(changed, Y) != found


@given(st.integers(0, 2**32 - 1))
def test_the_digest_of_a_sparse_matrix_does_not_depend_on_its_form(seed):
    rng = np.random.default_rng(seed)
    dense = rng.integers(-1, 2, (4, 5)).astype(float)
    y = rng.integers(0, 2, 4)
    entries = np.argwhere(np.ones_like(dense))
    rng.shuffle(entries)
    unordered = sp.coo_array((dense[tuple(entries.T)], tuple(entries.T)), shape=dense.shape)
    digests = {content_digest(form(dense), y) for form in (sp.csr_array, sp.csc_array)}
    assert digests == {content_digest(unordered, y)}


@pytest.mark.parametrize("matrix", [X, sp.csr_array(np.nan_to_num(X))], ids=["dense", "sparse"])
def test_what_is_written_is_read_again(tmp_path, matrix):
    write_npz(tmp_path / "a.npz", matrix, Y.astype(object))
    found = read_npz(tmp_path / "a.npz")
    assert content_digest(found.X, found.y) == content_digest(matrix, Y)
    assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]


# Downloads


def test_delimited_text_is_downloaded_and_kept(server, record):
    address, folder = server
    (folder / "one.data").write_bytes(b"id1,good, 1.0,?\r\nid2,bad,0,2.5\r\n")
    (folder / "two.data").write_bytes(b"id3,good,-3.0,0.0\r\n")
    recipe = {"kind": '"table"', "urls": f'["{address}/one.data", "{address}/two.data"]'}
    recipe |= {"separator": '","', "drop": "[0]", "label": "1", "missing": '"?"'}
    recipe["labels"] = '{ "good" = "b", "bad" = "g" }'
    kept = record(X, Y, recipe)
    data = datasets.load("small")
    np.testing.assert_array_equal(data.X, X)
    assert data.y.tolist() == Y.tolist()
    assert [path.name for path in kept.parent.iterdir()] == ["small.npz"]
    for file in folder.iterdir():
        file.unlink()
    np.testing.assert_array_equal(datasets.load("small").X, X)
    kept.write_bytes(kept.read_bytes()[:-30])
    with pytest.raises(sx.DataError, match=r"not on this machine.*404"):
        datasets.load("small")


def test_blanks_headers_and_values_of_a_table(server, record):
    address, folder = server
    (folder / "votes.txt").write_text("a b  class\ny n  1 \n? y\t2\n")
    recipe = {"kind": '"table"', "urls": f'["{address}/votes.txt"]', "separator": '"whitespace"'}
    recipe |= {"header": "true", "label": "-1", "values": '{ y = 1, n = -1, "?" = 0 }'}
    record(np.array([[1.0, -1.0], [0.0, 1.0]]), ["1", "2"], recipe)
    assert datasets.load("small").X.tolist() == [[1, -1], [0, 1]]


@pytest.mark.parametrize("dense", [True, False])
def test_packed_libsvm_files(server, record, dense):
    address, folder = server
    (folder / "small.bz2").write_bytes(bz2.compress(b"+1 1:0.5 3:2\n-1 2:1\n"))
    expected = np.array([[0.5, 0.0, 2.0, 0.0], [0.0, 1.0, 0.0, 0.0]])
    matrix = expected if dense else sp.csr_array(expected)
    recipe = {"kind": '"libsvm"', "urls": f'["{address}/small.bz2"]', "dense": str(dense).lower()}
    record(matrix, [1.0, -1.0], recipe)
    data = datasets.load("small:-1-1") if dense else datasets.load("small")
    assert data.y.tolist() == ["1", "-1"]
    assert content_digest(data.X, data.y) == content_digest(matrix, ["1", "-1"])


def test_openml_is_read_through_scikit_learn(record, monkeypatch):
    asked = []

    def fetch(**keywords):
        asked.append(keywords["data_id"])
        return Bunch(data=X, target=np.array(["yes", "no", "yes"], dtype=object))

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    recipe = {"kind": '"openml"', "data_id": "4711", "labels": '{ yes = "b", no = "g" }'}
    kept = record(X, Y, recipe)
    assert datasets.load("small").y.tolist() == Y.tolist()
    assert asked == [4711]
    assert kept.exists()
    record(X, Y, {"kind": '"openml"', "data_id": "4712", "labels": '{ yes = "b" }'})
    kept.unlink()
    with pytest.raises(sx.DataError, match="labels no are not among yes"):
        datasets.load("small")


def test_what_is_not_the_set_of_the_record_is_not_kept(server, record):
    address, folder = server
    write_npz(folder / "small.npz", X + 1.0, Y)
    kept = record(X, Y, {"kind": '"npz"', "urls": f'["{address}/small.npz"]'})
    with pytest.raises(sx.DataError, match="not the set of the record: its values have the digest"):
        datasets.load("small")
    write_npz(folder / "small.npz", X[:2], Y[:2])
    with pytest.raises(sx.DataError, match="it has 2 × 2 values, the record 3 × 2"):
        datasets.load("small")
    assert not kept.exists()
    write_npz(folder / "small.npz", X, Y)
    assert datasets.load("small").X.shape == (3, 2)
    # A file in the cache that is another set is fetched again.
    write_npz(kept, X + 1.0, Y)
    np.testing.assert_array_equal(datasets.load("small").X, X)
    assert content_digest(read_npz(kept).X, Y) == content_digest(X, Y)


def test_a_folder_comes_before_the_cache_and_may_hold_another_set(
    server, record, tmp_path, monkeypatch
):
    record(X, Y, None)
    write_npz(tmp_path / "small.npz", X, Y)
    assert datasets.load("small", tmp_path).X.shape == (3, 2)
    monkeypatch.setenv(datasets.ENVIRONMENT_VARIABLE, str(tmp_path))
    write_npz(tmp_path / "small.npz", X + 1.0, Y)
    with pytest.warns(
        UserWarning, match="is not the set small of the papers: its values have the digest"
    ) as warned:
        assert datasets.load("small").X[1, 1] == 3.5
    assert warned[0].filename == __file__


def test_offline_it_says_what_was_tried_and_what_to_do(record, tmp_path):
    nowhere = {"kind": '"npz"', "urls": '["http://127.0.0.1:9/small.npz"]'}
    record(X, Y, nowhere, page="https://example.org/small")
    with pytest.raises(sx.DataError) as caught:
        datasets.load("small", tmp_path / "mine")
    said = ("A small set, 3 × 2", "mine", "SVMCVX_DATA (not set)", "with a network")
    said += ("the download from http://127.0.0.1:9/small.npz failed", "example.org")
    assert [text for text in said if text not in str(caught.value)] == []
    record(X, Y, None)
    with pytest.raises(sx.DataError, match="no address is known that serves it"):
        datasets.load("small")


def test_the_cache_that_cannot_be_written_is_named(server, record, tmp_path):
    address, folder = server
    write_npz(folder / "small.npz", X, Y)
    record(X, Y, {"kind": '"npz"', "urls": f'["{address}/small.npz"]'})
    (tmp_path / "cache").write_text("in the way")
    with pytest.raises(sx.DataError, match=r"the cache .* cannot be written"):
        datasets.load("small")


def test_the_extra_is_named(record, monkeypatch):
    record(X, Y, {"kind": '"npz"', "urls": '["http://127.0.0.1:9/small.npz"]'})
    monkeypatch.setattr("svmcvx.datasets.loading.find_spec", lambda name: None)
    with pytest.raises(sx.SolverUnavailable, match=r"pip install 'svmcvx\[data\]'"):
        datasets.load("small")
