"""Rows in blocks: sources, agreement with data in memory, certificates, faults."""

import math
import os
import pickle
import signal
import weakref
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

import svmcvx as sx
from svmcvx.fast import hard_margin, odm, odml, psvm
from svmcvx.fast.margin.hard_margin import ActiveSetSettings, HardMarginSettings
from svmcvx.feature_space import blocks as block_room
from svmcvx.row_blocks import ClassPartition, RowBlocks, Shards, label_counts
from tests.intervals import overlap

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")


@pytest.fixture(autouse=True, scope="module")
def however_few():
    """Solve rows in blocks block by block however few they are; few rows are loaded otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("svmcvx.feature_space.blocks.SMALL_ENTRIES", 0)
        yield


def data(seed=0, n=300, d=4, offset=0.0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(1, 30, d) + offset
    y = np.where(X[:, 0] - offset + 0.7 * rng.normal(size=n) > 0, "yes", "no")
    return X, y


class Loaded:
    """Rows that are in memory, as a loader."""

    def __init__(self, *parts):
        self.parts = parts

    def __call__(self):
        return self.parts


def split(X, y, ends, weight=None):
    edges = [0, *sorted(ends), len(y)]
    columns = (X, y) if weight is None else (X, y, weight)
    pieces = [Loaded(*(column[a:b] for column in columns)) for a, b in pairwise(edges)]
    return RowBlocks(pieces, labelled=True, lengths=np.diff(edges).tolist())


def sources(kind, X, y, folder):
    if kind == "dask":
        return da.from_array(X, chunks=(70, 2)), da.from_array(y, chunks=50)
    if kind == "frame":
        frame = dd.from_pandas(pd.DataFrame(X).assign(label=y), npartitions=3)
        return frame.drop(columns="label"), frame["label"]
    if kind == "sparse dask":
        return da.from_array(X, chunks=(70, -1)).map_blocks(sp.csr_array), y
    if kind == "npy":
        np.save(folder / "X.npy", X)
        np.save(folder / "y.npy", y)
        blocks = RowBlocks.from_npy(folder / "X.npy", folder / "y.npy", rows=77)
    elif kind == "libsvm":
        path = folder / "a.txt"
        dump_svmlight_file(X, y == "yes", str(path), zero_based=False)
        part = partial(load_svmlight_file, path, n_features=X.shape[1], zero_based=False)
        starts = range(0, path.stat().st_size, 4000)
        loaders = [partial(part, offset=start, length=4000) for start in starts]
        blocks = RowBlocks(loaders, labelled=True)
    else:
        return split(X, y, [10, 10, 200]), y
    return blocks, blocks.y


@pytest.mark.parametrize("kind", ["npy", "libsvm", "dask", "frame", "sparse dask", "loaders"])
def test_every_source_gives_the_answer_of_the_data_in_memory(kind, tmp_path):
    X, y = data()
    X = np.round(X, 3)
    blocks, labels = sources(kind, X, y, tmp_path)
    for solve in (partial(psvm, C=0.5, p=2.0), partial(odm, C1=5.0, C2=2.0, D=0.1, intercept=True)):
        found = solve(blocks, labels, tol=1e-9)
        overlap(found, solve(X, y, tol=1e-9), gap=1e-9)
        assert found.certificate.residuals["row_blocks"] >= 1


@given(
    st.sampled_from((1.0, 1.2, 2.0, 3.0)),
    st.sampled_from((1e-4, 1.0, 1e3)),
    st.sampled_from((0.0, 1e5)),
    st.sampled_from(("dense", "float32", "sparse")),
    st.lists(st.integers(0, 40), max_size=4),
    st.integers(0, 99),
)
@settings(max_examples=15)
def test_blocks_agree_with_the_data_in_memory(p, C, offset, form, ends, seed):
    X, y = data(seed, n=40, d=3, offset=offset)
    X = X.astype(np.float32) if form == "float32" else sp.csr_array(X) if form == "sparse" else X
    whole = psvm(X, y, C=C, p=p, tol=1e-6)
    found = psvm(split(X, y, ends), y, C=C, p=p, tol=1e-6)
    overlap(found, whole)
    if whole.status == "optimal":
        assert found.certificate.gap <= max(1e-5, 3.0 * whole.certificate.gap)


@given(
    st.lists(st.integers(0, 3), min_size=40, max_size=40),
    st.sampled_from((1.0, 1.5, 2.0)),
    st.integers(0, 99),
)
@settings(max_examples=5)
def test_weights_are_copies(counts, p, seed):
    X, y = data(seed, n=40, d=2)
    weight = np.array(counts, dtype=float)
    weight[[np.argmax(y == "yes"), np.argmax(y == "no")]] = 1.0
    copies = np.repeat(np.arange(40), weight.astype(int))
    for solve in (partial(psvm, C=0.3, p=p), partial(odm, C1=3.0, C2=1.0, D=0.2)):
        whole = solve(X[copies], y[copies], tol=1e-9)
        overlap(solve(split(X, y, [13, 20], weight), y, tol=1e-9), whole)
        overlap(solve(split(X, y, [13, 20]), y, sample_weight=weight, tol=1e-9), whole)


@given(
    st.sampled_from(((1.0, 0.5, 10.0), (0.0, 0.3, 5.0), (100.0, 0.0, 100.0), (0.1, 0.1, 1e-3))),
    st.booleans(),
    st.booleans(),
    st.lists(st.integers(0, 60), max_size=3),
    st.integers(0, 99),
)
@settings(max_examples=6)
def test_odml_in_blocks_agrees_with_the_data_in_memory(weights, intercept, weighted, ends, seed):
    X, y = data(seed, n=60, d=3)
    lam1, lam2, C = weights
    s = np.random.default_rng(seed).uniform(0.1, 3.0, 60) if weighted else None
    solve = partial(odml, lam1=lam1, lam2=lam2, C=C, intercept=intercept, sample_weight=s)
    overlap(solve(split(X, y, ends), y), solve(X, y))


@given(
    st.sampled_from((0.0, 1e4)),
    st.sampled_from((1e-3, 0.3, 3.0)),
    st.booleans(),
    st.lists(st.integers(0, 400), max_size=4),
    st.integers(0, 99),
)
@example(1e4, 1e-3, True, [], 0)
@settings(max_examples=12)
def test_hard_margins_in_blocks_agree_with_the_data_in_memory(offset, room, sparse, ends, seed):
    X, _ = data(seed, n=400, d=3)
    y = np.where(X[:, 0] > 0, "yes", "no")
    X[:, 0] += np.where(X[:, 0] > 0, room, -room)
    X = sp.csr_array(X + offset) if sparse else X + offset
    # So small a first working set that rows of the blocks have to join it.
    few = HardMarginSettings(active_set=ActiveSetSettings(joining=3))
    with mock.patch.multiple(block_room, SAMPLE_ROWS=12, SAMPLE_PER_COLUMN=1):
        found = hard_margin(split(X, y, ends), y, tol=1e-6, settings=few)
    overlap(found, hard_margin(X, y, tol=1e-6))
    assert (np.where(y == "yes", 1, -1) * found.model.decision_function(X) > 0).all()


def test_what_a_solver_cannot_do_with_blocks_is_said():
    X, y = data()
    for arguments, words in (
        ({"kernel": "rbf"}, "kernel keeps its default"),
        ({"warm_start": "w"}, "Solution"),
        ({"method": "smo"}, "method must be"),
    ):
        with pytest.raises(sx.DataError, match=words):
            psvm(split(X, y, [3]), y, **arguments)
    with pytest.raises(sx.SolverFailed, match="not separable"):
        hard_margin(split(X, y, [100]), y)
    with pytest.raises(sx.SolverFailed):
        hard_margin(split(X + 100.0 * (y == "yes")[:, None], y, [100]), y, time_limit=1e-9)


def test_labels_and_weights_that_stand_alone_may_be_any_kind():
    X, y = data()
    blocks = RowBlocks([Loaded(X[:100]), Loaded(X[100:])], labelled=False, lengths=[100, 200])
    overlap(psvm(blocks, y, C=1.0, p=2.0), psvm(X, y, C=1.0, p=2.0))
    with pytest.raises(sx.DataError, match="has no labels"):
        blocks.y  # noqa: B018
    other, unknown = split(X, y, []).y, RowBlocks([Loaded(X)], labelled=False)
    for source, labels, words in (
        (blocks, y[:-1], "300 rows"),
        (split(X, y, []), other, "another source"),
        (unknown, y, "lengths of the blocks are not known"),
    ):
        with pytest.raises(sx.DataError, match=words):
            psvm(source, labels, C=1.0, p=2.0)


class Shrinking(Loaded):
    """Rows that become fewer each time."""

    calls = 0

    def __call__(self):
        self.calls += 1
        return tuple(part[: -self.calls] for part in self.parts)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda X, y: (np.where(np.arange(len(y))[:, None] == 250, np.nan, X), y), "block 2.*NaN"),
        (lambda X, y: (X, np.where(np.arange(len(y)) == 3, "maybe", y)), "3 classes"),
        (lambda X, y: (X, np.full(len(y), "yes")), "one class"),
        (lambda X, y: (X.astype(str), y), "numeric"),
        (lambda X, y: (X * 1e200, y), "overflows"),
        (lambda X, y: [Loaded(X, y), Loaded(X[:, :3], y)], r"block 1: X has 3 features"),
        (lambda X, y: [Shrinking(X, y)], "must not change"),
    ],
)
def test_what_is_wrong_with_a_block_is_said(spoil, words):
    found = spoil(*data())
    if isinstance(found, list):
        blocks, y = RowBlocks(found, labelled=True), None
    else:
        blocks, y = split(*found, [100, 200]), found[1]
    with pytest.raises(sx.DataError, match=words):
        psvm(blocks, y, C=1.0, p=2.0)


def test_files_that_are_not_what_they_should_be(tmp_path):
    X, y = data()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "y.npy", y[:10])
    np.save(tmp_path / "F.npy", np.asfortranarray(X))
    np.save(tmp_path / "O.npy", y.astype(object), allow_pickle=True)
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "empty").write_text("# nothing\n\n")
    np.save(tmp_path / "empty.npy", np.zeros((0, 2)))
    for read, name, words in (
        (RowBlocks.from_npy, "none-*.npy", "there is no file"),
        (RowBlocks.from_npy, "F.npy", "stored by columns"),
        (RowBlocks.from_npy, "O.npy", "Python objects"),
        (RowBlocks.from_npy, "text.npy", "cannot be read"),
        (partial(RowBlocks.from_npy, y=tmp_path / "y.npy"), "X.npy", "one label"),
        (RowBlocks.from_npy, "empty.npy", "has no rows"),
        (sx.datasets.load, "empty", "has no rows|no known type"),
    ):
        with pytest.raises(sx.DataError, match=words):
            read(tmp_path / name)


@pytest.mark.parametrize("fault", ["vanishes", "shrinks"])
def test_a_file_that_changes_in_the_middle_is_one_clear_sentence(fault, tmp_path):
    X, y = data()
    path = tmp_path / "X.npy"
    np.save(path, X)
    blocks = RowBlocks.from_npy(path, rows=50)

    def spoil(progress):
        if fault == "vanishes":
            path.unlink(missing_ok=True)
        else:
            os.truncate(path, 4000)

    with pytest.raises(sx.DataError, match=r"X\.npy"):
        psvm(blocks, y, C=1.0, p=1.0, tol=1e-9, callback=spoil)


def test_a_limit_a_callback_and_many_limits_give_honest_intervals():
    X, y = data(n=2000)
    blocks = split(X, y, range(100, 2000, 100))
    whole = psvm(X, y, C=1.0, p=1.0, tol=1e-8)
    seen = []
    for status, limit in (
        ("interrupted", {"callback": lambda progress: seen.append(progress) or len(seen) == 2}),
        *(("iteration_limit", {"max_iter": iterations}) for iterations in (1, 2, 5)),
        ("time_limit", {"time_limit": 1e-9}),
    ):
        found = psvm(blocks, y, C=1.0, p=1.0, tol=1e-12, **limit)
        assert found.status == status
        overlap(found, whole, gap=1.0)


def test_support_and_warm_start():
    X, y = data(n=2000)
    blocks = split(X, y, range(70, 2000, 70))
    whole, found = (psvm(source, y, C=0.1, p=2.0, tol=1e-10) for source in (X, blocks))
    assert np.array_equal(np.sort(found.model.support), np.sort(whole.model.support))
    assert found.dual["alpha"] == pytest.approx(whole.dual["alpha"], abs=1e-6)
    warm = psvm(blocks, y, C=0.11, p=2.0, warm_start=found)
    assert warm.attempts[-1].warm_start_used
    overlap(warm, psvm(X, y, C=0.11, p=2.0))
    # A solution of data in memory starts one of blocks as well, and the other way round.
    overlap(psvm(blocks, y, C=0.11, p=2.0, warm_start=whole), warm)
    with pytest.raises(sx.DataError, match="linear model of 4 features"):
        psvm(blocks, y, C=1.0, p=2.0, warm_start=psvm(X[:, :2], y, C=1.0, p=2.0))


@pytest.mark.parametrize("kind", ["npy", "dask", "frame", "loaders"])
def test_estimators_take_blocks(kind, tmp_path):
    X, y = data()
    blocks, labels = sources(kind, X, y, tmp_path)
    for estimator in (
        sx.PSVMClassifier(C=0.5, p=2.0),
        sx.ODMClassifier(C1=5.0, C2=2.0, D=0.1),
        sx.ODMLClassifier(),
    ):
        fitted = estimator.fit(blocks, labels)
        assert fitted.solver_route_ == "fast"
        assert fitted.certificate_.is_certified(1e-6)
        assert list(fitted.classes_) == ["no", "yes"]
        assert fitted.n_features_in_ == 4
        predicted = np.asarray(fitted.predict(blocks))
        assert np.array_equal(predicted, fitted.model_.predict(X))
        scores = np.asarray(fitted.decision_function(blocks))
        assert scores == pytest.approx(fitted.model_.decision_function(X))
        if kind in ("npy", "loaders"):
            assert fitted.score(blocks, labels) == np.mean(predicted == y)
    with pytest.raises(sx.DataError, match="does not take rows in blocks"):
        sx.ZeroOneSVMClassifier().fit(blocks, labels)
    with pytest.raises(sx.DataError, match="kernel"):
        sx.PSVMClassifier(kernel="rbf").fit(blocks, labels)


def test_memory_stays_with_a_few_blocks():
    alive, most = weakref.WeakValueDictionary(), []
    X, y = data(n=1000)

    class Tracked(np.ndarray):
        """An array that a weak reference may hold."""

    def load(a):
        rows = X[a : a + 50].copy().view(Tracked)
        alive[id(rows)] = rows
        most.append(len(alive))
        return rows, y[a : a + 50]

    blocks = RowBlocks([partial(load, a) for a in range(0, 1000, 50)], labelled=True)
    psvm(blocks, blocks.y, C=1.0, p=1.5)
    assert len(most) > 20
    assert max(most) <= 2 * (os.cpu_count() or 1) + 1


def test_a_lower_bound_that_still_doubles_is_no_stall():
    # Costs times squared norms of 1e22: the penalty of the augmented Lagrangian method has far to
    # grow.
    rng = np.random.default_rng(1)
    X = rng.uniform(-5.8e6, 5.8e6, (400, 1))
    y, weight = (X[:, 0] + 3e6 * rng.normal(size=400) > 0).astype(int), rng.uniform(0.0, 1e3, 400)
    whole = psvm(X, y, C=2e5, p=1.0, sample_weight=weight, method="newton")
    found = psvm(split(X, y, [90, 91, 300], weight), y, C=2e5, p=1.0)
    overlap(found, whole, gap=1e-4)
    # Sums of terms of 1e15 that leave 1e-7 have these digits.
    assert max(whole.certificate.gap, found.certificate.gap) <= 1e-3


# Weights of classes, several classes, prediction where the blocks are


def three(n=240, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(["ash", "oak", "yew"], size=n, p=[0.6, 0.3, 0.1])
    centre = {"ash": (0, 0), "oak": (2, 0), "yew": (0, 2)}
    return rng.normal(size=(n, 2)) + np.array([centre[label] for label in y]), y


@pytest.mark.parametrize(
    ("scheme", "weights"), [("ovo", "balanced"), ("ovr", {"oak": 3.0, "yew": 0.25})]
)
def test_several_classes_in_blocks_agree_with_the_data_in_memory(scheme, weights):
    X, y = three()
    own = np.random.default_rng(1).integers(0, 3, y.size).astype(float)
    machine = {"multiclass": scheme, "class_weight": weights, "solver": "fast"}
    whole, found = (sx.PSVMClassifier(C=0.5, p=2.0, **machine) for _ in range(2))
    whole.fit(X, y, sample_weight=own)
    found.fit(split(X, y, [30, 100, 101], own), None)
    assert list(found.solutions_) == list(whole.solutions_)
    for key, solution in found.solutions_.items():
        overlap(solution, whole.solutions_[key])
    assert list(found.classes_) == ["ash", "oak", "yew"]
    assert found.n_features_in_ == 2
    scores = found.decision_function(X)
    for blocks in (split(X, y, [60]), da.from_array(X, chunks=(70, 1))):
        assert np.asarray(found.decision_function(blocks)) == pytest.approx(scores)
        assert np.array_equal(np.asarray(found.predict(blocks)), found.model_.predict(X))
    assert scores == pytest.approx(whole.decision_function(X), abs=1e-2)


@pytest.mark.parametrize("kind", ["npy", "dask", "frame", "loaders"])
def test_weights_of_classes_multiply_those_of_rows(kind, tmp_path):
    X, y = three()
    y = np.where(y == "yew", "oak", y)
    _, counts = np.unique(y, return_counts=True)
    blocks, labels = sources(kind, X, y, tmp_path)
    for weights, factors in (
        ("balanced", y.size / (2.0 * counts)),
        ({"oak": 4.0}, np.array([1.0, 4.0])),
    ):
        estimator = sx.PSVMClassifier(C=0.5, p=2.0, class_weight=weights, tol=1e-8)
        factor = factors[(y == "oak").astype(int)]
        whole = sx.fast.psvm(X, y, C=0.5, p=2.0, sample_weight=factor, tol=1e-8)
        overlap(estimator.fit(blocks, labels).solution_, whole)
    assert label_counts(blocks, labels).counts.tolist() == counts.tolist()
    for bad in ({"oak": 0.0}, {"oak": -1.0}, {"oak": np.nan}, "unbalanced", {"elm": 2.0}):
        with pytest.raises(sx.DataError, match="class_weight"):
            sx.PSVMClassifier(class_weight=bad).fit(blocks, labels)


def test_labels_that_cannot_be_counted():
    X, y = three(20)
    bare = RowBlocks([Loaded(X)], labelled=False, lengths=[20])
    for labels, message in (
        (np.full(20, "oak"), "one class only"),
        (np.array([*y[:-1], None], dtype=object), "missing"),
        (np.linspace(0, 1, 20), "continuous"),
    ):
        for blocks, own in ((split(X, labels, [7]), None), (bare, labels)):
            with pytest.raises(sx.DataError, match=message):
                sx.PSVMClassifier().fit(blocks, own)
    with pytest.raises(sx.DataError, match="y is None"):
        sx.PSVMClassifier().fit(bare, None)
    with pytest.raises(sx.DataError, match="must not change"):
        ClassPartition(None, np.array(["ash", "oak"])).seen(np.array(["ash", "yew"]), None)


def test_what_travels_does_not_grow_with_the_rows(monkeypatch):
    sizes, calls = [], Shards._calls

    def recorded(self, operation, each, shared):
        sizes.append(len(pickle.dumps(shared)))
        return calls(self, operation, each, shared)

    monkeypatch.setattr(Shards, "_calls", recorded)
    averaged, largest = partial(sx.fast.odml, lam1=0.1, lam2=0.1, C=1.0), []
    for n in (300, 3000):
        X, y = three(n)
        y = np.where(y == "yew", "oak", y)
        blocks = split(X, y, [n // 3, n // 2])
        sizes.clear()
        for solve in (partial(sx.fast.psvm, C=1.0, p=2.0), averaged):
            found = solve(blocks, y)
        classifier = sx.PSVMClassifier(p=2.0, class_weight="balanced").fit(blocks, y)
        classifier.predict(blocks)
        assert found.certificate.is_certified(1e-6)
        largest.append(max(sizes))
    assert largest[1] <= 1.2 * largest[0]


# Work goes to the cluster as long as there is one: these tests come last.


@contextmanager
def workers(number, **how):
    distributed = pytest.importorskip("distributed")
    quiet = {"dashboard_address": ":0", "memory_limit": "1GiB", "silence_logs": 50}
    with (
        # Dask's profiles of the workers take processor time all the while.
        dask.config.set({"distributed.worker.profile.enabled": False}),
        distributed.LocalCluster(n_workers=number, threads_per_worker=1, **quiet, **how) as local,
        distributed.Client(local) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def cluster():
    # Workers in the process of the tests answer no more after some hundred other tests.
    with workers(3) as client:
        yield client


def test_bad_blocks_on_a_cluster_say_what_is_wrong(cluster, tmp_path):
    X, y = data()
    X[7] = math.inf
    blocks, labels = sources("npy", X, y, tmp_path)
    with pytest.raises(sx.DataError, match=r"block 0.*infinity"):
        psvm(blocks, labels, C=1.0, p=2.0)
    blocks, labels = sources("npy", *data(), tmp_path)
    assert psvm(blocks, labels, C=1.0, p=2.0, time_limit=1e-6).status == "time_limit"


def test_a_cluster_predicts_where_the_blocks_are(cluster, tmp_path):
    X, y = data()
    y = np.where(X[:, 1] > 3.0, "maybe", y)
    blocks, labels = sources("npy", X, y, tmp_path)
    settings = {"p": 2.0, "multiclass": "ovr", "class_weight": "balanced", "tol": 1e-3}
    machine = sx.PSVMClassifier(C=0.5, **settings).fit(blocks, labels)
    assert machine.certificate_.is_certified(1e-3)
    kernel = sx.PSVMClassifier(C=1.0, kernel="rbf").fit(X, y == "yes")
    for fitted in (machine, kernel):
        scores, predicted = fitted.model_.decision_function(X), fitted.model_.predict(X)
        for source in (blocks, da.from_array(X, chunks=(100, 2))):
            assert np.asarray(fitted.decision_function(source)) == pytest.approx(scores)
            assert np.array_equal(np.asarray(fitted.predict(source)), predicted)


def test_a_cluster_that_answers_no_more_ends_with_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr("svmcvx.row_blocks.PATIENCE", 0.5)
    blocks, labels = sources("npy", *data(), tmp_path)
    with (
        workers(0),
        pytest.raises(sx.SolverFailed, match=r"finished none of \d+ tasks.*look at its workers"),
    ):
        psvm(blocks, labels, C=1.0, p=2.0, time_limit=1e-3)


@pytest.mark.slow
def test_a_cluster_that_loses_workers_gives_the_same_answer_or_notices_another_source(
    cluster, tmp_path, monkeypatch
):
    async def stays_away(nanny):
        return nanny.status

    # Two are killed. The start of another takes seconds.
    monkeypatch.setattr("distributed.Nanny.instantiate", stays_away)
    X, y = data()
    blocks, labels = sources("npy", X, y, tmp_path)
    calls = [partial(psvm, C=0.1, p=2.0, tol=1e-4), partial(odm, C1=5.0, tol=1e-5)]
    quiet = [call(blocks, labels) for call in calls]
    for call, found in zip(calls, quiet, strict=True):
        overlap(found, call(X, y), gap=1e-2)
    killed = []

    def kill(progress):
        if not killed:
            killed.append(next(iter(cluster.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)

    # The first answer loses a worker in the middle; the second finds another one, which has no
    # states yet.
    for call, alone in zip(calls, quiet, strict=True):
        found = call(blocks, labels, callback=kill)
        assert found.certificate.upper == pytest.approx(alone.certificate.upper, rel=1e-9)
        assert found.certificate.lower == pytest.approx(alone.certificate.lower, rel=1e-9)
    assert killed
    killed.clear()

    def replace_and_kill(progress):
        np.save(tmp_path / "X.npy", X[::-1])
        kill(progress)

    with pytest.raises(sx.DataError, match=r"block \d.*must not change"):
        calls[0](blocks, labels, callback=replace_and_kill)
    assert killed
