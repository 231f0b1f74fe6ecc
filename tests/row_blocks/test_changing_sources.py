"""Sources of rows that change while they are read, and arrays that change while they are solved."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import svmcvx as sx
from campaigns import changing_sources
from campaigns.changing_sources import Changing
from svmcvx.fast.core import monitor as ownership
from svmcvx.fast.margin.hard_margin import ActiveSetSettings, HardMarginSettings
from tests.row_blocks.test_row_blocks import Loaded, however_few  # noqa: F401 - a fixture

pytest.importorskip("dask.array")


def test_few_rows_in_blocks_are_loaded_and_solved_in_memory(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.standard_normal((50, 3))
    X[np.abs(X) < 0.4] = 0.0
    weight = rng.choice([0.0, 0.5, 1.0], 50)
    calls = []

    class Counted(Loaded):
        def __call__(self):
            calls.append(self)
            return super().__call__()

    def small(entries):
        monkeypatch.setattr("svmcvx.feature_space.blocks.SMALL_ENTRIES", entries)

    for name, solve in changing_sources.SOLVERS.items():
        right = (np.arange(50) % 9 > 0) | (name == "hard_margin")
        y = np.where((X[:, 0] > 0) & right, "yes", "no")
        memory = solve(X, y, sample_weight=weight, tol=1e-7)
        for form in (np.asarray, np.float32, sp.csr_array):
            cuts = (slice(0, 0), slice(0, 20), slice(20, 50))
            parts = [Counted(form(X[cut]), y[cut], weight[cut]) for cut in cuts]
            blocks = sx.RowBlocks(parts, labelled=True)
            small(150)
            calls.clear()
            loaded = solve(blocks, blocks.y, tol=1e-7)
            # Each block was looked at, scanned and loaded.
            assert len(calls) <= 3 * len(parts)
            small(30)
            by_block = solve(blocks, blocks.y, tol=1e-7)
            if form is np.asarray:
                assert loaded.certificate == memory.certificate
                assert np.array_equal(loaded.model.coef, memory.model.coef)
                assert np.array_equal(loaded.model.support, memory.model.support)
                assert "row_blocks" not in loaded.certificate.residuals
                # The short name of the data covers the labels of rows of weight zero.
                assert sx.verify(loaded.proof(), X, y)
            # float32 numbers are other numbers.
            if form is not np.float32:
                assert loaded.certificate.upper == pytest.approx(memory.certificate.upper, rel=1e-6)
            assert by_block.certificate.upper == pytest.approx(loaded.certificate.upper, rel=1e-6)
            assert by_block.certificate.residuals["row_blocks"] == 3.0
            if name.split()[0] in ("psvm", "odm", "odml"):
                small(150)
                # A solution by blocks has no multipliers.
                for earlier in (loaded, by_block, memory):
                    again = solve(blocks, blocks.y, tol=1e-7, warm_start=earlier)
                    assert again.certificate.is_certified(1e-7)


@pytest.mark.parametrize("first", range(0, 32, 8))
def test_every_answer_is_about_the_rows_of_the_first_pass(first):
    """Of the campaign ``python -m campaigns.changing_sources``."""
    for seed in range(first, first + 8):
        label, outcome, why = changing_sources.check(seed)
        assert not why, (seed, label, outcome, why)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("two rows swapped", "1: its rows are not those of the first pass; .* must not change"),
        ("one label", "1: its labels are not those of the first pass"),
        ("weights", "1: its weights are not those of the first pass"),
        ("NaN", r"1: X contains NaN in column \d; .* not so at the first pass"),
        ("shrinkage", r"1 had the shape \(15, 2\) and has \(14, 2\) now|1: its rows"),
        ("columns", r"1 had the shape \(15, 2\) and has \(15, 3\) now|1: X has 3 features"),
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
    change = partial(changing_sources.changed, kind, 0)
    # After the first pass, and in any pass after the second one.
    last = Changing((X[15:], y[15:], weight[15:]), change, 2, "stays")
    blocks = sx.RowBlocks([Loaded(X[:15], y[:15], weight[:15]), last], labelled=True)
    with pytest.raises(sx.DataError, match=f"block {words}"):
        changing_sources.SOLVERS[name](blocks, blocks.y)


@pytest.mark.parametrize("small", [0, 2**21])
def test_machines_of_several_classes_are_about_the_same_rows(small, monkeypatch):
    monkeypatch.setattr("svmcvx.feature_space.blocks.SMALL_ENTRIES", small)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 2)), rng.integers(0, 3, 60)
    for scheme in ("ovo", "ovr"):
        machine = sx.PSVMClassifier(C=0.1, p=2.0, multiclass=scheme)

        def fit(first, machine=machine):
            turned = Changing(
                (X[30:], y[30:]), lambda parts, due: (parts[0][::-1], parts[1]), first, "stays"
            )
            blocks = sx.RowBlocks([Loaded(X[:30], y[:30]), turned], labelled=True)
            machine.fit(blocks, blocks.y)
            return turned.loads

        for first in range(3, fit(10**9) + 1, 5 if small == 0 else 1):
            with pytest.raises(sx.DataError, match=r"block 1.*must not change"):
                fit(first)


ARRAYS = {
    "psvm": partial(sx.fast.psvm, C=1.0, p=1.5),
    "psvm, none": partial(sx.fast.psvm, C=1.0, p=2.0, intercept="none"),
    "psvm, kernel": partial(sx.fast.psvm, C=1.0, p=1.0, kernel="rbf"),
    # So small a first working set that rows have to join it.
    "hard_margin": partial(
        sx.fast.hard_margin, settings=HardMarginSettings(active_set=ActiveSetSettings(2, 1))
    ),
    "hard_margin, kernel": partial(sx.fast.hard_margin, kernel="rbf"),
    "odm": sx.fast.odm,
    "odm, kernel": partial(sx.fast.odm, kernel="rbf", method="blocks"),
    "odml": partial(sx.fast.odml, method="unwhitened"),
    "odml, dcd": partial(sx.fast.odml, method="dcd"),
    "conic": partial(sx.fast.conic, lam=0.3),
    "conic, kernel": partial(sx.fast.conic, lam=0.3, kernel="rbf"),
    "m3svm": partial(sx.fast.m3svm, lam=0.1),
    "multiclass": partial(sx.fast.multiclass, lam=0.1, intercept=False),
    "ramp": partial(sx.fast.ramp, C=1.0),
    "l0": partial(sx.fast.l0, C=1.0),
    "zero_one": partial(sx.fast.zero_one, lam=1.0),
}


def arrays(name, form):
    """Data that a solver works on as they are, and what spoils them."""
    rng = np.random.default_rng(2)
    X = rng.standard_normal((60, 3))
    y = (X[:, 0] > 0).astype(int)
    if name.startswith("hard"):
        X[:, 0] += y - 0.5
    else:
        y[::5] = 1 - y[::5]
    weight = rng.uniform(0.5, 2.0, 60)
    given = {
        "array": X,
        "sparse": sp.csr_array(X),
        "frame": pd.DataFrame(X, columns=list("abc"), copy=False),
    }[form]

    def spoil():
        if form == "sparse":
            given.data *= -3.0
        elif form == "frame":
            given.iloc[:, :] = given.to_numpy()[::-1]
        else:
            given[:] = given[::-1].copy()
        y[:] = 1 - y
        weight[:] = 7.0

    return given, y, weight, spoil


@pytest.mark.parametrize(
    ("name", "form"), [*((name, "array") for name in ARRAYS), ("psvm", "sparse"), ("odm", "frame")]
)
def test_no_solver_reads_an_array_that_its_caller_changes(name, form, monkeypatch):
    def solved(callback):
        X, y, weight, spoil = arrays(name, form)
        called = []

        def spoiling(progress):
            if not called:
                called.append(progress)
                spoil()

        beside = {} if name.startswith("hard") else {"sample_weight": weight}
        beside |= {"callback": spoiling} if callback else {}
        found = ARRAYS[name](X, y, tol=1e-17, max_iter=30, **beside)
        assert called or not callback
        return found.certificate

    assert solved(True) == solved(False)
    monkeypatch.setattr(ownership, "SMALL_ENTRIES", 10)
    with pytest.raises(sx.DataError, match="X was changed while it was solved"):
        solved(True)
    solved(False)


def test_a_path_and_an_estimator_own_their_data(monkeypatch):
    X, y, _, spoil = arrays("psvm", "array")
    path = partial(sx.fast.path, "psvm", C=[0.1, 1.0, 10.0])
    expected = path(X.copy(), y.copy())
    found = path(X, y.copy(), callback=lambda solution: spoil())
    assert [one.certificate for one in found] == [other.certificate for other in expected]
    monkeypatch.setattr(ownership, "SMALL_ENTRIES", 10)
    with pytest.raises(sx.DataError, match="X was changed"):
        path(X, y.copy(), callback=lambda solution: spoil())
    # Validated features come with their labels, as one object.
    sx.PSVMClassifier(solver="fast").fit(X, y)
    monkeypatch.undo()
    sx.PSVMClassifier(solver="fast").fit(X, y)
