"""Fitted estimators as models of scikit-learn, held to the scores of the originals."""

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

MACHINES = {
    "linear": sx.PSVMClassifier(p=2.0),
    "odm": sx.ODMClassifier(),
    "rbf": sx.PSVMClassifier(kernel="rbf"),
    "linear kernel": sx.PSVMClassifier(kernel="linear"),
    "poly": sx.PSVMClassifier(kernel=sx.Polynomial(degree=2, gamma=0.5, coef0=1.0)),
    "sigmoid": sx.PSVMClassifier(kernel=sx.Sigmoid(gamma=0.01), indefinite="clip"),
    "m3svm": sx.M3SVMClassifier(),
    "crammer-singer": sx.MulticlassSVMClassifier(loss="crammer_singer"),
}


@pytest.mark.parametrize("name", MACHINES)
def test_scikit_learn_has_the_same_scores(name):
    several = name in ("m3svm", "crammer-singer")
    data, labels, test = (X3, Y3, TEST3) if several else (X, LABELS, TEST)
    fitted = MACHINES[name].fit(data, labels)
    made = fitted.to_sklearn()
    assert isinstance(made, LinearSVC if several or name in ("linear", "odm") else SVC)
    scores = fitted.decision_function(test)
    atol = 1e-12 * max(1.0, np.abs(scores).max()) * (100 if several else 1)
    np.testing.assert_allclose(made.decision_function(test), scores, rtol=0, atol=atol)
    assert made.predict(test).tolist() == fitted.predict(test).tolist()
    assert made.classes_.tolist() == np.unique(labels).tolist()


def test_what_scikit_learn_cannot_hold_is_refused():
    laplacian, pairs = sx.PSVMClassifier(kernel="laplacian"), sx.PSVMClassifier(kernel="rbf")
    for model, data in ((laplacian, (X, Y)), (pairs, (X3, Y3))):
        with pytest.raises(sx.DataError, match="SVC and LinearSVC cannot hold"):
            model.fit(*data).to_sklearn()
