"""Several classes by binary machines: one against one, and one against the rest."""

import copy
import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.utils.multiclass import _ovr_decision_function

import svmcvx as sx
from svmcvx.certificate import certificate_of_sum
from svmcvx.model import LinearModel, OneVsModel
from svmcvx.solution import Status, composite
from tests.certificate.test_certificate import interval_of


def clouds(c=3, per_class=12, d=3, seed=0):
    """Gaussian clouds around random centres, with string labels in no order."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((c, d))
    codes = rng.permutation(np.repeat(np.arange(c), per_class))
    return centres[codes] + rng.standard_normal((codes.size, d)), np.array(
        ["red", "blue", "lime", "grey"]
    )[codes]


X, Y = clouds()


def test_keys_certificates_and_their_summary():
    ovo = sx.PSVMClassifier().fit(X, Y)
    assert list(ovo.certificates_) == [("blue", "lime"), ("blue", "red"), ("lime", "red")]
    assert ovo.certificates_ == {key: one.certificate for key, one in ovo.solutions_.items()}
    assert ovo.certificate_ == certificate_of_sum(ovo.certificates_)
    ovr = sx.PSVMClassifier(multiclass="ovr").fit(X, Y)
    assert list(ovr.certificates_) == ["blue", "lime", "red"]
    two = sx.PSVMClassifier().fit(X[Y != "red"], Y[Y != "red"])
    assert two.certificates_["blue", "lime"] is two.certificate_
    assert not two.solution_.parts


def test_a_sum_above_its_tolerance_is_not_called_optimal():
    fitted = sx.PSVMClassifier(tol=1e-6).fit(X, Y)
    assert fitted.solution_.status == "optimal"
    # Each is within the tolerance, and their sum is nearly 0.
    parts = {
        key: replace(solution, certificate=interval_of(value, value + 1e-7))
        for (key, solution), value in zip(fitted.solutions_.items(), (1.0, 1.0, -2.0), strict=True)
    }
    assert all(part.certificate.is_certified(1e-6) for part in parts.values())
    whole = composite(parts, "ovo", fitted.classes_, 1e-6)
    assert not whole.certificate.is_certified(0.5)
    assert whole.status == "inaccurate"
    assert "optimal" not in repr(whole)


@pytest.mark.parametrize(
    ("scheme", "wrapper"), [("ovo", OneVsOneClassifier), ("ovr", OneVsRestClassifier)]
)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_scikit_learns_wrappers_agree(scheme, wrapper, kernel):
    data, labels = clouds(c=4, seed=3)
    settings = {"p": 1.5, "kernel": kernel, "gamma": 0.3, "tol": 1e-8}
    ours = sx.PSVMClassifier(**settings, multiclass=scheme).fit(data, labels)
    theirs = wrapper(sx.PSVMClassifier(**settings)).fit(data, labels)
    assert np.allclose(ours.decision_function(data), theirs.decision_function(data), atol=1e-4)
    assert np.array_equal(ours.predict(data), theirs.predict(data))
    for (key, solution), part in zip(ours.solutions_.items(), theirs.estimators_, strict=True):
        assert solution.certificate.upper == pytest.approx(part.certificate_.upper, rel=1e-7)
        assert solution.certificate.is_certified(1e-6)
        # The support counts rows of all data.
        rows = np.isin(labels, key) if scheme == "ovo" else np.ones(labels.size, dtype=bool)
        assert rows[solution.model.support].all()


def test_linear_machines_of_many_classes_on_sparse_data_are_those_against_the_rest():
    rng = np.random.default_rng(1)
    y = np.arange(110) % 11
    X = sp.csr_array(sp.random_array((110, 300), density=0.05, rng=rng))
    found = sx.PSVMClassifier().fit(X, y)
    assert "one against the rest" in repr(found.model_)
    assert "multiclass=ovr" in repr(found.solution_)
    asked = sx.PSVMClassifier(multiclass="ovr").fit(X, y)
    assert np.array_equal(found.coef_, asked.coef_)
    few = y < 10
    for choice, rows, named in (
        ({}, X.toarray(), y),
        ({}, X[few], y[few]),
        ({"kernel": "rbf"}, X, y),
        ({"decision_function_shape": "ovo"}, X, y),
        ({"multiclass": "ovo"}, X, y),
    ):
        assert sx.PSVMClassifier(**choice, tol=0.1).fit(rows, named).model_.scheme == "ovo"


@settings(max_examples=50)
@given(st.data())
def test_votes_then_sums_then_order(data):
    c = data.draw(st.integers(3, 4))
    count = c * (c - 1) // 2
    number = st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0])
    rows = st.lists(number, min_size=count, max_size=count)
    scores = np.array(data.draw(st.lists(rows, min_size=3, max_size=3)))
    members = tuple(LinearModel(row, 0.0, [0, 1], [j]) for j, row in enumerate(np.eye(count)))
    model = OneVsModel(scheme="ovo", members=members, classes=np.arange(c))
    decision, predicted = model.decision_function(scores), model.predict(scores)
    assert np.allclose(decision, _ovr_decision_function(scores > 0, scores, c))
    for row, label in zip(scores, predicted, strict=True):
        votes, sums = [0] * c, [0.0] * c
        for (k, other), score in zip(itertools.combinations(range(c), 2), row, strict=True):
            votes[other if score > 0 else k] += 1
            sums[other] += score
            sums[k] -= score
        assert label == max(range(c), key=lambda k: (votes[k], sums[k], -k))


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_precomputed_kernels_are_sliced_in_rows_and_columns(scheme):
    direct = sx.PSVMClassifier(kernel=sx.RBF(0.4), multiclass=scheme, tol=1e-10).fit(X, Y)
    new, _ = clouds(seed=5)
    K, K_new = sx.RBF(0.4)(X), sx.RBF(0.4)(new, X)
    for form in (np.asarray, sp.csr_array):
        sliced = sx.PSVMClassifier(kernel="precomputed", multiclass=scheme, tol=1e-10)
        scores = sliced.fit(form(K), Y).decision_function(form(K_new))
        assert np.allclose(direct.decision_function(new), scores, atol=1e-6)
        assert set(direct.support_) == set(sliced.support_)


def test_the_scale_of_the_kernel_is_that_of_all_data():
    classifier = sx.PSVMClassifier(kernel="rbf", gamma="scale", class_weight="balanced").fit(X, Y)
    gamma = 1 / (X.shape[1] * X.var())
    assert all(np.isclose(s.model.kernel.gamma, gamma) for s in classifier.solutions_.values())


def test_solutions_are_picklable_and_start_later_fits():
    how = {"kernel": "rbf", "solver": "fast", "p": 1.05}
    first = pickle.loads(pickle.dumps(sx.PSVMClassifier(**how).fit(X, Y)))  # noqa: S301
    again = sx.PSVMClassifier(C=1.1, **how)
    data = again._training_data(X, Y)
    again._fit(data, first.solution_)
    assert again.solution_.warm_start_used
    cold = sx.PSVMClassifier(C=1.1, **how).fit(X, Y)
    for key, certificate in again.certificates_.items():
        assert certificate.upper == pytest.approx(cold.certificates_[key].upper, rel=3e-6)
    for scheme, start in (("ovr", first.solution_), ("ovo", first.solutions_["blue", "red"])):
        with pytest.raises(sx.DataError, match="warm_start must be the solution_"):
            sx.PSVMClassifier(multiclass=scheme)._fit(data, start)


def test_a_warning_counts_the_problems_that_are_short():
    rng = np.random.default_rng(0)
    data, labels = rng.standard_normal((300, 8)), np.arange(300) % 3
    limited = sx.PSVMClassifier(C=1e4, kernel="rbf", solver="fast", time_limit=1e-4, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="of 3 binary problems are short of tol"):
        limited.fit(data, labels)


def test_bad_arguments():
    with pytest.raises(sx.DataError, match="multiclass must be one of"):
        sx.PSVMClassifier(multiclass="one").fit(X, Y)
    with pytest.raises(sx.DataError, match="members must hold 3 models"):
        OneVsModel(scheme="ovo", members=(), classes=np.arange(3))
    with pytest.raises(sx.DataError, match="scheme must be one of"):
        OneVsModel(scheme="both", members=(), classes=np.arange(3))
    with pytest.raises(sx.DataError, match="each class needs positive weight"):
        sx.PSVMClassifier().fit(X, Y, sample_weight=(Y == "red").astype(float))
    for n_jobs in (0, "two", 1.5, True):
        with pytest.raises(sx.DataError, match="n_jobs must be"):
            sx.PSVMClassifier(n_jobs=n_jobs).fit(X, Y)


@pytest.mark.parametrize("settings", [{}, {"kernel": "rbf"}, {"kernel": "rbf", "p": 1.5}], ids=str)
@pytest.mark.parametrize("classes", [2, 3])
def test_copies_of_fitted_estimators_and_solutions_are_whole(settings, classes):
    fitted = sx.PSVMClassifier(**settings).fit(X, np.unique(Y, return_inverse=True)[1] % classes)
    for copied in (copy.copy(fitted), copy.deepcopy(fitted), pickle.loads(pickle.dumps(fitted))):  # noqa: S301
        assert np.array_equal(copied.decision_function(X), fitted.decision_function(X))
        assert copied.certificate_ == fitted.certificate_
        assert copied.solution_.to_dict() == fitted.solution_.to_dict()
        assert copied.solution_.parts.keys() == fitted.solution_.parts.keys()
        assert str(copied.solution_.summary()) == str(fitted.solution_.summary())
    changed = replace(fitted.solution_, status=Status.TIME_LIMIT)
    assert changed.status is Status.TIME_LIMIT
    assert copy.deepcopy(changed).certificate == fitted.certificate_
