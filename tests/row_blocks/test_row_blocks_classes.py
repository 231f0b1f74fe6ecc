"""Rows in blocks: weights of classes, several classes, prediction where the blocks are."""

import pickle
from functools import partial

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.row_blocks import ClassPartition, RowBlocks, Shards, label_counts
from tests.intervals import overlap
from tests.row_blocks.test_row_blocks import Loaded, however_few, sources, split  # noqa: F401 - a fixture

da = pytest.importorskip("dask.array")


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


@pytest.mark.parametrize("kind", ["npy", "parquet", "dask", "frame", "loaders"])
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
        for blocks, given in ((split(X, labels, [7]), None), (bare, labels)):
            with pytest.raises(sx.DataError, match=message):
                sx.PSVMClassifier().fit(blocks, given)
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
