import json
import pickle
import tracemalloc
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import svmcvx as sx
from svmcvx.kernels.columns import KernelColumns
from svmcvx.model import KernelModel, LinearModel, MulticlassModel
from tests.conftest import make_data

X, Y = make_data(n=30)
NEW = np.random.default_rng(1).standard_normal((200, 3))


def fitted(kernel, data=X, labels=Y):
    return sx.solve(sx.psvm_dual(data, labels, C=1.0, p=1.5, kernel=kernel)).model


MODELS = {
    "linear": fitted(None),
    "rbf": fitted(sx.RBF()),
    "polynomial": fitted(sx.Polynomial(2, "scale", 1.0)),
    "sparse": fitted(sx.Laplacian(0.5), sp.csr_array(X)),
    "strings": fitted(None, X, np.where(Y > 0, "yes", "no")),
    "objects": fitted(sx.RBF(), X, np.where(Y > 0, "yes", "no").astype(object)),
    "multiclass": MulticlassModel(
        np.eye(3), np.array([0.0, 0.1, 0.2]), np.array(["a", "b", "c"]), np.array([0, 2])
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_round_trip_predicts_the_same_to_the_last_bit(name, tmp_path):
    model = MODELS[name]
    model.save(tmp_path / "model.npz")
    loaded = sx.load_model(tmp_path / "model.npz")
    assert type(loaded) is type(model)
    assert np.array_equal(loaded.decision_function(NEW), model.decision_function(NEW))
    assert np.array_equal(loaded.predict(NEW), model.predict(NEW))
    assert loaded.classes.dtype == model.classes.dtype
    assert loaded.n_support == model.n_support


def test_a_precomputed_model_takes_the_matrix_to_all_training_observations(tmp_path):
    kernel = sx.RBF(0.5)
    model = fitted(sx.Precomputed(), kernel(X))
    direct = fitted(kernel)
    block = kernel(NEW, X)
    assert np.allclose(model.decision_function(block), direct.decision_function(NEW), atol=1e-7)
    model.save(tmp_path / "model.npz")
    assert np.array_equal(
        sx.load_model(tmp_path / "model.npz").predict(block), model.predict(block)
    )
    with pytest.raises(sx.DataError, match="expects 30 features"):
        model.decision_function(block[:, :5])


def test_the_file_keeps_its_name_and_leaves_no_other(tmp_path):
    MODELS["linear"].save(tmp_path / "model.svm")
    MODELS["rbf"].save(tmp_path / "model.svm")
    assert [path.name for path in tmp_path.iterdir()] == ["model.svm"]
    assert isinstance(sx.load_model(tmp_path / "model.svm"), KernelModel)


def test_what_cannot_be_stored_says_so_and_writes_nothing(tmp_path):
    callable_kernel = fitted(lambda a, b: a @ b.T)
    with pytest.raises(sx.DataError, match="callable kernel"):
        callable_kernel.save(tmp_path / "model.npz")
    odd = LinearModel(np.ones(1), 0.0, np.array([(1,), (2, 3)], dtype=object), np.array([0]))
    with pytest.raises(sx.DataError, match="only labels that are numbers or strings"):
        odd.save(tmp_path / "model.npz")
    assert list(tmp_path.iterdir()) == []


def corrupt_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))


def truncate(path):
    path.write_bytes(path.read_bytes()[:-40])


def changed(coef=0.0, **entries):
    def change(path):
        with np.load(path) as archive:
            arrays = {name: archive[name] for name in archive.files}
        header = json.dumps(json.loads(str(arrays["header"])) | entries)
        arrays |= {"coef": arrays["coef"] + coef, "header": np.array(header)}
        np.savez(path, **arrays)

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (corrupt_byte, "corrupted|not a svmcvx model"),
        (truncate, "corrupted|not a svmcvx model"),
        (changed(coef=1e-12), "do not match their digest"),
        (changed(version=99), "upgrade svmcvx"),
        (changed(format="other"), "not a svmcvx model"),
        (changed(type="Unknown"), "does not describe"),
        (changed(scalars={"intercept": 7.0}), "digest"),
        (lambda path: path.write_text("hello"), "npz is not a svmcvx model file, or is damaged"),
        (lambda path: path.write_bytes(b""), "not a svmcvx model"),
        (lambda path: path.write_bytes(pickle.dumps({"a": 1})), "not a svmcvx model"),
        (lambda path: np.savez(path, x=np.ones(3)), "no header"),
        (lambda path: np.save(path.open("wb"), np.ones(3)), "not a svmcvx model"),
        (lambda path: np.savez(path, header=np.array([{}], dtype=object)), "Python objects"),
        (lambda path: zipfile.ZipFile(path, "w").close(), "no header"),
        (lambda path: path.unlink(), "does not exist"),
    ],
)
def test_damaged_and_foreign_files_are_refused(tmp_path, damage, message):
    path = tmp_path / "model.npz"
    MODELS["linear"].save(path)
    damage(path)
    with pytest.raises(sx.DataError, match=message):
        sx.load_model(path)


def test_models_predict_from_frames_lists_and_sparse_data():
    for name in ("linear", "rbf"):
        model = MODELS[name]
        scores = model.decision_function(NEW)
        for same in (pd.DataFrame(NEW), NEW.tolist(), sp.csr_array(NEW), np.asfortranarray(NEW)):
            assert np.allclose(model.decision_function(same), scores, atol=1e-12)


def test_models_cannot_be_changed_and_do_not_share_arrays():
    model = MODELS["linear"]
    with pytest.raises(ValueError, match="read-only"):
        model.coef[0] = 1.0
    coef = np.ones(2)
    own = LinearModel(coef, 0.0, np.array([0, 1]), np.array([0]))
    coef[0] = 5.0
    assert own.coef[0] == 1.0


def test_wrong_width_is_an_error():
    for name in ("linear", "rbf", "multiclass"):
        with pytest.raises(sx.DataError, match="expects 3 features"):
            MODELS[name].predict(np.ones((2, 4)))


def test_a_kernel_model_needs_its_vectors():
    with pytest.raises(sx.DataError, match="precomputed"):
        KernelModel(sx.RBF(1.0), None, np.ones(1), 0.0, np.array([0, 1]), np.array([0]), 3)


def test_large_predictions_go_block_by_block(monkeypatch):
    model = MODELS["rbf"]
    whole = model.decision_function(NEW)
    small = partial(KernelColumns, tile_entries=7)
    monkeypatch.setattr("svmcvx.model.KernelColumns", small)
    assert np.allclose(model.decision_function(NEW), whole, rtol=1e-12)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize(
    "labels", [[3, 5, 9], ["a", "b", "c"], np.array(["a", "b", "c"], dtype=object)]
)
def test_models_of_several_classes_round_trip(tmp_path, scheme, labels):
    classes = np.asarray(labels)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((9, 3))
    sides = [np.array([0, 1])] * 3
    if scheme == "ovo":
        sides = [classes[[0, 1]], classes[[0, 2]], classes[[1, 2]]]
    vectors = [X[:4], sp.csr_array(X[2:5]), None]
    members = []
    for k, (part, side) in enumerate(zip(vectors, sides, strict=True)):
        kernel, size = (sx.Precomputed(), 3) if part is None else (sx.RBF(0.5), part.shape[0])
        own = rng.standard_normal(size), float(k), side, np.arange(k, k + size)
        members.append(sx.KernelModel(kernel, part, *own, n_features=3))
    members[2] = sx.LinearModel(rng.standard_normal(3), 2.0, sides[2], support=[8])
    model = sx.OneVsModel(scheme=scheme, members=tuple(members), classes=classes)
    assert model.support.tolist() == [0, 1, 2, 3, 8]
    model.save(tmp_path / "model.npz")
    loaded = sx.load_model(tmp_path / "model.npz")
    assert isinstance(loaded, sx.OneVsModel)
    assert np.array_equal(loaded.decision_function(X), model.decision_function(X))
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert loaded.classes.dtype == model.classes.dtype
    for before, after in zip(model.members, loaded.members, strict=True):
        assert type(before) is type(after)
        assert np.array_equal(before.classes, after.classes)
        assert np.array_equal(before.predict(X), after.predict(X))


@pytest.mark.parametrize("labels", [[3, 7], [False, True]])
def test_labels_that_came_as_objects_are_stored_as_what_they_are(labels, tmp_path):
    model = LinearModel(np.ones(1), 0.0, np.array(labels, dtype=object), support=[])
    model.save(tmp_path / "model.npz")
    assert sx.load_model(tmp_path / "model.npz").predict([[-1.0], [1.0]]).tolist() == labels


def test_places_that_cannot_be_written_or_read(tmp_path):
    model = LinearModel(np.ones(1), 0.0, classes=[0, 1], support=[])
    for path in (tmp_path / "none" / "model.npz", tmp_path):
        with pytest.raises(sx.DataError, match=r"cannot be written .*existing folder"):
            model.save(path)
    with pytest.raises(sx.DataError, match="cannot be read"):
        sx.load_model(tmp_path)


def test_a_file_that_would_unpack_to_far_more_than_its_size_is_refused_before_it_is_read(tmp_path):
    path = tmp_path / "bomb.npz"
    header = {"descr": "<f8", "fortran_order": False, "shape": (2**25 + 2**17,)}
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("coef.npy", "w", force_zip64=True) as stream,
    ):
        np.lib.format.write_array_header_1_0(stream, header)
        for _ in range(257):
            stream.write(bytes(2**20))
    tracemalloc.start()
    with pytest.raises(sx.DataError, match="unpack"):
        sx.load_model(path)
    assert tracemalloc.get_traced_memory()[1] < 2**24
    tracemalloc.stop()
