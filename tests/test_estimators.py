import warnings

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import svmcvx as sx
from svmcvx.solve import options

from .conftest import make_data

X, Y = make_data(n=40)

EXPECTED_FAILURES = {
    "check_dtype_object": "asks for a TypeError; a DataError is a ValueError, as scikit-learn asks elsewhere"
}


@parametrize_with_checks(
    [sx.PSVMClassifier(), sx.PSVMClassifier(p=2.0, kernel="rbf")], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learns_own_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)


@pytest.mark.parametrize(
    "kernel", [None, "rbf", "poly", "laplacian", "exponential", "linear", sx.RBF(0.3), lambda a, b: a @ b.T]
)
def test_the_face_is_the_builder_and_solve(kernel):
    classifier = sx.PSVMClassifier(C=2.0, p=1.5, kernel=kernel).fit(X, Y)
    direct = sx.solve(sx.psvm_dual(X, Y, C=2.0, p=1.5, kernel=kernel))
    assert classifier.certificate_.is_certified(1e-6)
    assert classifier.certificate_ == classifier.solution_.certificate
    assert np.allclose(classifier.decision_function(X), direct.model.decision_function(X))
    assert np.array_equal(classifier.predict(X), direct.model.predict(X))


def test_p_one_is_close_to_svc():
    ours = sx.PSVMClassifier(C=1.0, kernel="rbf", gamma="scale").fit(X, Y)
    theirs = SVC(C=1.0, gamma="scale", tol=1e-8).fit(X, Y)
    assert np.allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-4)
    assert set(ours.support_) == set(theirs.support_)
    assert ours.dual_coef_.shape == (1, ours.support_.size)


def test_attributes_exist_where_they_mean_something():
    linear, kernel = sx.PSVMClassifier().fit(X, Y), sx.PSVMClassifier(kernel="rbf").fit(X, Y)
    assert linear.coef_.shape == (1, 3)
    assert np.allclose(X @ linear.coef_[0] + linear.intercept_, linear.decision_function(X))
    assert not hasattr(linear, "dual_coef_")
    assert not hasattr(kernel, "coef_")
    assert kernel.intercept_.shape == (1,)


@pytest.mark.parametrize("attribute", ["certificate_", "model_", "support_", "coef_"])
def test_nothing_is_known_before_fit(attribute):
    with pytest.raises(NotFittedError):
        getattr(sx.PSVMClassifier(), attribute)


def test_labels_weights_frames_and_sparse_data():
    names = np.where(Y > 0, "yes", "no")
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    weight = 1 + np.arange(Y.size) % 2
    classifier = sx.PSVMClassifier(p=2.0).fit(frame, names, sample_weight=weight)
    assert classifier.classes_.tolist() == ["no", "yes"]
    assert classifier.feature_names_in_.tolist() == ["a", "b", "c"]
    repeated = sx.PSVMClassifier(p=2.0).fit(np.repeat(X, weight, axis=0), np.repeat(names, weight))
    assert np.allclose(classifier.decision_function(frame), repeated.decision_function(X), atol=1e-5)
    sparse = sx.PSVMClassifier(p=2.0).fit(sp.csr_matrix(X), names, sample_weight=weight)
    assert np.allclose(sparse.decision_function(sp.csr_matrix(X)), classifier.decision_function(frame), atol=1e-5)


def test_precomputed_kernels_are_sliced_in_cross_validation():
    K = sx.RBF(0.5)(X)
    search = GridSearchCV(sx.PSVMClassifier(kernel="precomputed"), {"C": [0.1, 1.0]}, cv=3).fit(K, Y)
    direct = GridSearchCV(sx.PSVMClassifier(kernel=sx.RBF(0.5)), {"C": [0.1, 1.0]}, cv=3).fit(X, Y)
    assert np.allclose(search.cv_results_["mean_test_score"], direct.cv_results_["mean_test_score"])


def test_pipelines_and_searches_over_all_parameters():
    pipeline = make_pipeline(StandardScaler(), sx.PSVMClassifier(kernel="rbf"))
    grid = {"psvmclassifier__p": [1.0, 2.0], "psvmclassifier__gamma": ["scale", 0.1]}
    search = GridSearchCV(pipeline, grid, cv=3).fit(X, Y)
    assert search.best_estimator_[-1].certificate_.is_certified(1e-6)
    assert clone(search.best_estimator_[-1]).get_params()["p"] == search.best_params_["psvmclassifier__p"]


def test_an_answer_that_is_not_certified_warns_with_the_numbers(monkeypatch):
    monkeypatch.setattr("svmcvx.formulations.psvm.solve_support_equations", lambda *args, **keywords: None)
    monkeypatch.setitem(options.FIXED, "CLARABEL", {"max_iter": 4})
    data, labels = make_data(n=100, d=5)
    with pytest.warns(ConvergenceWarning, match=r"certified relative gap .* lies in \["):
        classifier = sx.PSVMClassifier(p=1.5, kernel="rbf", solver="clarabel").fit(data, labels)
    assert classifier.certificate_.lower <= classifier.certificate_.upper


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"C": -1}, "C must be"),
        ({"p": 0.5}, "not convex"),
        ({"kernel": "gauss"}, "kernel must be one of"),
        ({"gamma": "big", "kernel": "rbf"}, "gamma must be one of"),
        ({"tol": 0}, "tol must be"),
        ({"bias": "mean"}, "bias must be one of"),
        ({"kernel": "sigmoid", "gamma": 1.0, "coef0": 1.0}, "indefinite"),
    ],
)
def test_bad_parameters_are_refused_when_fitting(parameters, message):
    with pytest.raises(sx.DataError, match=message):
        sx.PSVMClassifier(**parameters).fit(X, Y)


def test_several_classes_are_refused():
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        sx.PSVMClassifier().fit(X, np.arange(Y.size) % 3)
