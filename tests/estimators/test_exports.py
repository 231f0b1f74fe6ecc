"""Fitted estimators as models of scikit-learn and as ONNX files, held to the scores of the
originals.
"""

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.svm import SVC, LinearSVC

import svmcvx as sx
from tests.conftest import make_data

X, Y = make_data(n=60)
LABELS = np.where(Y > 0, "yes", "no")
X3, Y3 = load_iris(return_X_y=True)
TEST = np.random.default_rng(0).normal(scale=3.0, size=(40, X.shape[1]))
TEST3 = X3 + np.random.default_rng(0).normal(scale=0.5, size=X3.shape)

BINARY = {
    "linear": sx.PSVMClassifier(p=2.0),
    "odm": sx.ODMClassifier(),
    "rbf": sx.PSVMClassifier(kernel="rbf"),
    "linear kernel": sx.PSVMClassifier(kernel="linear"),
    "poly": sx.PSVMClassifier(kernel=sx.Polynomial(degree=2, gamma=0.5, coef0=1.0)),
    "sigmoid": sx.PSVMClassifier(kernel=sx.Sigmoid(gamma=0.01), indefinite="clip"),
}
SEVERAL = {
    "m3svm": sx.M3SVMClassifier(),
    "crammer-singer": sx.MulticlassSVMClassifier(loss="crammer_singer"),
}
ONNX_ONLY = {
    "exponential": sx.PSVMClassifier(kernel="exponential"),
    "laplacian": sx.PSVMClassifier(kernel="laplacian"),
}
PAIRS = {"pairs": sx.PSVMClassifier(), "pairs, rbf": sx.PSVMClassifier(kernel="rbf")}


@pytest.mark.parametrize("name", BINARY)
def test_scikit_learn_has_the_same_scores(name):
    fitted = BINARY[name].fit(X, LABELS)
    made = fitted.to_sklearn()
    assert isinstance(
        made,
        LinearSVC
        if name in ("linear", "odm", "linear kernel") and hasattr(made, "intercept_scaling")
        else SVC,
    )
    scores = fitted.decision_function(TEST)
    np.testing.assert_allclose(
        made.decision_function(TEST), scores, rtol=0, atol=1e-12 * max(1.0, np.abs(scores).max())
    )
    assert made.predict(TEST).tolist() == fitted.predict(TEST).tolist()
    assert made.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("name", SEVERAL)
def test_scikit_learn_has_the_same_score_of_each_class(name):
    fitted = SEVERAL[name].fit(X3, Y3)
    made = fitted.to_sklearn()
    np.testing.assert_allclose(
        made.decision_function(TEST3), fitted.model_.decision_function(TEST3), rtol=0, atol=1e-10
    )
    assert made.predict(TEST3).tolist() == fitted.predict(TEST3).tolist()


def test_what_scikit_learn_cannot_hold_is_refused():
    for model, data in ((ONNX_ONLY["laplacian"], (X, Y)), (PAIRS["pairs, rbf"], (X3, Y3))):
        with pytest.raises(sx.DataError, match="SVC and LinearSVC cannot hold"):
            model.fit(*data).to_sklearn()


@pytest.mark.parametrize("name", [*BINARY, *SEVERAL, *ONNX_ONLY, *PAIRS])
def test_a_runtime_of_onnx_has_the_same_scores_and_labels(name, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="pip install onnx onnxruntime")
    pytest.importorskip("onnx")
    model = (BINARY | SEVERAL | ONNX_ONLY | PAIRS)[name]
    several = name in SEVERAL or name in PAIRS
    fitted, rows = (model.fit(X3, Y3), TEST3) if several else (model.fit(X, LABELS), TEST)
    fitted.to_onnx(tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(
        str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"]
    )
    labels, scores = session.run(["label", "scores"], {"X": rows})
    if name in PAIRS:
        own = np.stack([member.decision_function(rows) for member in fitted.model_.members], axis=1)
    else:
        own = fitted.model_.decision_function(rows)
    np.testing.assert_allclose(scores, own, rtol=0, atol=1e-10 * max(1.0, np.abs(own).max()))
    assert labels.tolist() == fitted.predict(rows).tolist()


def test_a_precomputed_kernel_has_no_rows_to_compare_with(tmp_path):
    pytest.importorskip("onnx")
    with pytest.raises(sx.DataError, match="precomputed kernel cannot be written"):
        sx.PSVMClassifier(kernel="precomputed").fit(X @ X.T, Y).to_onnx(tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
