"""The store of finished rows: several writers, kills, and files that are not stores."""

import multiprocessing
import os
import signal
import sqlite3
import time
from contextlib import closing

import numpy as np
import pytest
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx.experiments.store import APPLICATION, Store, fingerprint, plain


def test_a_row_is_found_again(tmp_path):
    with closing(Store(tmp_path / "s.sqlite")) as store:
        assert len(store) == 0
        assert not store.path.exists(), "nothing is made before there is something to keep"
        row = {"x": np.float64(1.0), "bad": float("nan"), "n": np.int64(3), "why": None}
        store.add("a", row | {"_unfinished": False})
        store.add("b", {"x": 2.0})
        assert len(store) == 2
    again = Store(tmp_path / "s.sqlite")
    assert again.found("a")["a"] == {"x": 1.0, "bad": None, "n": 3, "why": None}
    assert again.found(["b", "missing", *map(str, range(2000))]) == {"b": {"x": 2.0}}
    again.add("b", {"x": 3})
    assert again.found(["b"])["b"] == {"x": 2.0}
    again.add("b", {"x": 3}, again=True)
    assert again.found(["b"])["b"] == {"x": 3}


def test_what_json_does_not_know_is_kept_as_text():
    assert plain({"kernel": sx.RBF(0.5), 1: (np.arange(2), float("inf"))}) == {
        "kernel": repr(sx.RBF(0.5)),
        "1": [[0, 1], None],
    }


@pytest.mark.parametrize("content", [b"hello\n" * 50, b'{"key": "a", "row": {}}\n' * 10])
def test_a_foreign_file_is_not_taken_for_a_store(tmp_path, content):
    (tmp_path / "notes.txt").write_bytes(content)
    with pytest.raises(sx.DataError, match="not written by svmcvx"):
        Store(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_bytes() == content


def test_another_database_is_left_alone(tmp_path):
    with sqlite3.connect(tmp_path / "mine.db") as mine:
        mine.execute("CREATE TABLE rows (key TEXT)")
    mine.close()
    with pytest.raises(sx.DataError, match="it holds other tables"):
        Store(tmp_path / "mine.db")
    with sqlite3.connect(tmp_path / "mine.db") as mine:
        assert mine.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    mine.close()


def test_a_store_of_an_earlier_version_takes_rows(tmp_path):
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as old:
        old.execute(f"PRAGMA application_id = {APPLICATION}")
        old.execute("CREATE TABLE rows (key TEXT UNIQUE, kind TEXT NOT NULL, row TEXT)")
        old.execute("INSERT INTO rows VALUES ('a', '', '{}')")
        old.commit()
    with closing(Store(path)) as store:
        assert len(store) == 0
        store.add("a", {"x": 1})
        assert store.found(["a"]) == {"a": {"x": 1}}


def test_a_folder_and_a_place_that_is_not_there_are_named(tmp_path):
    with pytest.raises(sx.DataError, match="store must be a file"):
        Store(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(sx.DataError, match="store cannot be used"):
        Store(tmp_path / "file" / "rows.sqlite")
    Store(tmp_path / "no" / "rows.sqlite").add("a", {})


def test_a_key_is_of_values():
    assert fingerprint(SVC(C=1.0), np.arange(3)) == fingerprint(SVC(C=1.0), np.arange(3))
    assert fingerprint(SVC(C=1.0)) != fingerprint(SVC(C=2.0))
    # Their printed forms are the same.
    long = np.arange(5000.0)
    assert fingerprint(long) != fingerprint(np.where(long == 2500, -1.0, long))
    with pytest.raises(sx.DataError, match="store cannot tell these parameters again"):
        fingerprint(lambda x: x)


def write(name, path, number, told):
    """What a process does: add rows, and tell of each when it is kept."""
    with closing(Store(path)) as store:
        for i in range(number):
            store.add(f"{name}-{i}", {"name": name, "i": i, "filler": "x" * 500})
            told.send(i)
    told.close()


def writer(name, path, number):
    # Forked: a process that imports everything anew takes seconds.
    fork = multiprocessing.get_context("fork")
    hears, tells = fork.Pipe(duplex=False)
    process = fork.Process(target=write, args=(name, path, number, tells), daemon=True)
    process.start()
    tells.close()
    return process, hears


def heard(hears, most=None):
    """What a process has told, up to so many messages, or until it ends."""
    told = []
    try:
        while most is None or len(told) < most:
            told.append(hears.recv())
    except EOFError:
        pass
    return told


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@forks
def test_what_several_processes_acknowledged_before_a_kill_is_there(tmp_path):
    path, rng = tmp_path / "s.sqlite", np.random.default_rng(0)
    acknowledged = set()
    for trial in range(4):
        victim, hears = writer(f"k{trial}", path, 100_000)
        other, others = writer(f"o{trial}", path, 10)
        seen = heard(hears, most=rng.integers(1, 30))
        time.sleep(rng.random() * 0.003)
        os.kill(victim.pid, signal.SIGKILL)
        seen += heard(hears)
        victim.join()
        assert victim.exitcode == -signal.SIGKILL
        assert len(heard(others)) == 10
        other.join()
        acknowledged |= {f"k{trial}-{i}" for i in seen} | {f"o{trial}-{i}" for i in range(10)}
    store = Store(path)
    rows = store.found(acknowledged)
    assert acknowledged == set(rows)
    for key, row in rows.items():
        name, _, i = key.partition("-")
        assert row == {"name": name, "i": int(i), "filler": "x" * 500}
    # At most the row that was being written when each kill came is there unacknowledged.
    assert len(store) <= len(acknowledged) + 4
    assert sqlite3.connect(path).execute("PRAGMA integrity_check").fetchall() == [("ok",)]
