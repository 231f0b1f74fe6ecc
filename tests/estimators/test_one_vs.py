"""Several classes by binary machines: one against one, and one against the rest."""

import copy
import itertools
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.svm import SVC
from sklearn.utils.multiclass import _ovr_decision_function

import svmcvx as sx
from svmcvx.data import CodedLabels
from svmcvx.estimators.binary import parts
from svmcvx.model import LinearModel, OneVsModel
from svmcvx.solution import Status


def clouds(c=3, per_class=12, d=3, seed=0):
    """Gaussian clouds around random centres, with string labels in no order."""
    rng = np.random.default_rng(seed)
    centres = 2 * rng.standard_normal((c, d))
    codes = rng.permutation(np.repeat(np.arange(c), per_class))
    return centres[codes] + rng.standard_normal((codes.size, d)), np.array(
        ["red", "blue", "lime", "grey"]
    )[codes]


X, Y = clouds()


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_each_part_is_the_binary_problem_of_its_classes(scheme, kernel):
    classifier = sx.PSVMClassifier(
        C=2.0, p=1.5, kernel=kernel, gamma=0.5, multiclass=scheme, tol=1e-8
    ).fit(X, Y)
    assert list(classifier.classes_) == ["blue", "lime", "red"]
    for key, solution in classifier.solutions_.items():
        rows = np.isin(Y, key) if scheme == "ovo" else np.ones(Y.size, dtype=bool)
        labels = Y[rows] if scheme == "ovo" else (key == Y)[rows]
        own = sx.solve(sx.psvm_dual(X[rows], labels, C=2.0, p=1.5, kernel=kernel and sx.RBF(0.5)))
        assert (
            abs(solution.certificate.upper - own.certificate.upper) <= 1e-7 * own.certificate.upper
        )
        assert solution.certificate.is_certified(1e-6)
        # The support counts rows of all data.
        assert set(solution.model.support) <= set(np.flatnonzero(rows))


def test_keys_certificates_and_their_summary():
    ovo = sx.PSVMClassifier().fit(X, Y)
    assert list(ovo.certificates_) == [("blue", "lime"), ("blue", "red"), ("lime", "red")]
    assert ovo.certificate_.gap == max(
        certificate.gap for certificate in ovo.certificates_.values()
    )
    assert list(sx.PSVMClassifier(multiclass="ovr").fit(X, Y).certificates_) == [
        "blue",
        "lime",
        "red",
    ]
    two = sx.PSVMClassifier().fit(X[Y != "red"], Y[Y != "red"])
    assert list(two.certificates_) == [("blue", "lime")]
    assert two.certificates_["blue", "lime"] is two.certificate_
    assert not two.solution_.parts


@pytest.mark.parametrize(
    ("scheme", "wrapper"), [("ovo", OneVsOneClassifier), ("ovr", OneVsRestClassifier)]
)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_scikit_learns_wrappers_agree(scheme, wrapper, kernel):
    data, labels = clouds(c=4, seed=3)
    settings = {"p": 2.0, "kernel": kernel, "gamma": 0.3, "tol": 1e-8}
    ours = sx.PSVMClassifier(**settings, multiclass=scheme).fit(data, labels)
    theirs = wrapper(sx.PSVMClassifier(**settings)).fit(data, labels)
    assert np.allclose(ours.decision_function(data), theirs.decision_function(data), atol=1e-4)
    assert np.array_equal(ours.predict(data), theirs.predict(data))


def test_one_against_one_is_svc():
    ours = sx.PSVMClassifier(kernel="rbf", gamma="scale", C=3.0).fit(X, Y)
    theirs = SVC(gamma="scale", C=3.0, tol=1e-9, break_ties=True).fit(X, Y)
    assert np.allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-5)
    assert np.array_equal(ours.predict(X), theirs.predict(X))
    assert set(ours.support_) == set(theirs.support_)


@settings(max_examples=50)
@given(st.data())
def test_votes_then_sums_then_order(data):
    c = data.draw(st.integers(3, 4))
    count = c * (c - 1) // 2
    scores = np.array(
        [
            [data.draw(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0])) for _ in range(count)]
            for _ in range(3)
        ]
    )
    model = OneVsModel(
        scheme="ovo",
        members=tuple(
            LinearModel(coef=np.eye(count)[j], intercept=0.0, classes=[0, 1], support=[j])
            for j in range(count)
        ),
        classes=np.arange(c),
    )
    decision, predicted = model.decision_function(scores), model.predict(scores)
    assert np.allclose(decision, _ovr_decision_function(scores > 0, scores, c))
    for row, label in zip(scores, predicted, strict=True):
        votes, sums = [0] * c, [0.0] * c
        for (k, other), score in zip(itertools.combinations(range(c), 2), row, strict=True):
            votes[other if score > 0 else k] += 1
            sums[other] += score
            sums[k] -= score
        assert label == max(range(c), key=lambda k: (votes[k], sums[k], -k))


def test_a_cycle_of_votes_is_decided_by_the_sums_and_then_by_the_order():
    members = [
        LinearModel(coef=[1.0, 0.0], intercept=b, classes=[0, 1], support=[0])
        for b in (-1.0, 1.0, -1.0)
    ]
    cycle = OneVsModel(scheme="ovo", members=tuple(members), classes=np.array(["a", "b", "c"]))
    # Each class has one vote and the sum 0: the first.
    assert cycle.predict([[0.0, 0.0]]).tolist() == ["a"]
    # a beats b by 2, c beats a by 0.5, b beats c by 2.
    members = [
        LinearModel(coef=[0.0, 0.0], intercept=b, classes=[0, 1], support=[0])
        for b in (-2.0, 0.5, -2.0)
    ]
    decided = OneVsModel(scheme="ovo", members=tuple(members), classes=np.array(["a", "b", "c"]))
    assert decided.predict([[0.0, 0.0]]).tolist() == ["a"]
    members = [
        LinearModel(coef=[0.0, 0.0], intercept=b, classes=[0, 1], support=[0])
        for b in (-0.5, 2.0, -0.5)
    ]
    decided = OneVsModel(scheme="ovo", members=tuple(members), classes=np.array(["a", "b", "c"]))
    assert decided.predict([[0.0, 0.0]]).tolist() == ["c"]


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
def test_precomputed_kernels_are_sliced_in_rows_and_columns(scheme):
    direct = sx.PSVMClassifier(kernel=sx.RBF(0.4), multiclass=scheme, tol=1e-10).fit(X, Y)
    new, _ = clouds(seed=5)
    for K, K_new in (
        (sx.RBF(0.4)(X), sx.RBF(0.4)(new, X)),
        (sp.csr_array(sx.RBF(0.4)(X)), sp.csr_array(sx.RBF(0.4)(new, X))),
    ):
        sliced = sx.PSVMClassifier(kernel="precomputed", multiclass=scheme, tol=1e-10).fit(K, Y)
        assert np.allclose(
            direct.decision_function(new), sliced.decision_function(K_new), atol=1e-6
        )
        assert set(direct.support_) == set(sliced.support_)


def test_shapes_of_coefficients():
    linear = sx.PSVMClassifier().fit(X, Y)
    kernel = sx.PSVMClassifier(kernel="rbf").fit(X, Y)
    assert linear.coef_.shape == (3, 3)
    assert linear.intercept_.shape == (3,)
    assert np.allclose(X @ linear.coef_.T + linear.intercept_, linear.model_.member_scores(X))
    assert kernel.dual_coef_.shape == (3, kernel.support_.size)
    rebuilt = (
        kernel.solutions_["blue", "lime"].model.kernel(X, X[kernel.support_]) @ kernel.dual_coef_.T
        + kernel.intercept_
    )
    assert np.allclose(rebuilt, kernel.model_.member_scores(X))
    assert linear.decision_function(X).shape == (Y.size, 3)
    assert not hasattr(kernel, "coef_")


def test_the_scale_of_the_kernel_is_that_of_all_data():
    classifier = sx.PSVMClassifier(kernel="rbf", gamma="scale", class_weight="balanced").fit(X, Y)
    gamma = 1 / (X.shape[1] * X.var())
    assert all(np.isclose(s.model.kernel.gamma, gamma) for s in classifier.solutions_.values())


def test_the_result_does_not_depend_on_the_number_of_processes():
    alone = sx.PSVMClassifier(kernel="rbf", p=1.5).fit(X, Y)
    together = sx.PSVMClassifier(kernel="rbf", p=1.5, n_jobs=2).fit(X, Y)
    assert list(alone.certificates_) == list(together.certificates_)
    assert np.allclose(
        alone.decision_function(X), together.decision_function(X), rtol=1e-9, atol=1e-9
    )
    assert together.certificate_.is_certified(1e-6)


def test_weights_of_classes_multiply_those_of_observations():
    weight = np.linspace(0.5, 2, Y.size)
    by_class = {"red": 3.0, "blue": 0.5, "lime": 1.0}
    by_dict = sx.PSVMClassifier(class_weight=by_class).fit(X, Y, sample_weight=weight)
    by_hand = sx.PSVMClassifier().fit(
        X, Y, sample_weight=weight * np.array([by_class[label] for label in Y])
    )
    assert np.allclose(by_dict.coef_, by_hand.coef_, atol=1e-5)
    uneven = np.r_[np.flatnonzero(Y == "red")[:4], np.flatnonzero(Y != "red")]
    balanced = sx.PSVMClassifier(class_weight="balanced").fit(X[uneven], Y[uneven])
    counts = {label: np.sum(Y[uneven] == label) for label in by_class}
    direct = sx.PSVMClassifier(
        class_weight={label: uneven.size / (3 * counts[label]) for label in counts}
    )
    assert np.allclose(balanced.coef_, direct.fit(X[uneven], Y[uneven]).coef_, atol=1e-5)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("kernel", [None, "rbf", "precomputed"])
def test_saved_models_predict_the_same_bits(tmp_path, scheme, kernel):
    data = sx.RBF(0.4)(X) if kernel == "precomputed" else X
    classifier = sx.PSVMClassifier(kernel=kernel, multiclass=scheme).fit(data, Y)
    classifier.model_.save(tmp_path / "model.npz")
    loaded = sx.load_model(tmp_path / "model.npz")
    assert np.array_equal(loaded.decision_function(data), classifier.decision_function(data))
    assert np.array_equal(loaded.predict(data), classifier.predict(data))
    assert loaded.n_support == classifier.support_.size
    for ours, theirs in zip(classifier.model_.members, loaded.members, strict=True):
        assert np.array_equal(ours.classes, theirs.classes)


def test_solutions_are_picklable_and_start_later_fits():
    classifier = sx.PSVMClassifier(kernel="rbf", solver="fast").fit(X, Y)
    restored = pickle.loads(pickle.dumps(classifier))  # noqa: S301
    assert np.array_equal(restored.decision_function(X), classifier.decision_function(X))
    # What is solved together is solved as without a start.
    again = sx.PSVMClassifier(kernel="rbf", solver="fast", C=1.1)
    again._fit(again._training_data(X, Y), restored.solution_)
    cold = sx.PSVMClassifier(kernel="rbf", solver="fast", C=1.1).fit(X, Y)
    assert np.array_equal(again.decision_function(X), cold.decision_function(X))
    first = sx.PSVMClassifier(kernel="rbf", solver="fast", p=1.5).fit(X, Y)
    again = sx.PSVMClassifier(kernel="rbf", solver="fast", p=1.5, C=1.1)
    again._fit(again._training_data(X, Y), first.solution_)
    assert again.solution_.warm_start_used
    cold = sx.PSVMClassifier(kernel="rbf", p=1.5, C=1.1).fit(X, Y)
    for key, certificate in again.certificates_.items():
        assert abs(certificate.upper - cold.certificates_[key].upper) <= 3e-6 * certificate.upper
    data = again._training_data(X, Y)
    with pytest.raises(sx.DataError, match="warm_start must be the solution_"):
        sx.PSVMClassifier(multiclass="ovr")._fit(data, restored.solution_)
    with pytest.raises(sx.DataError, match="warm_start must be the solution_"):
        sx.PSVMClassifier()._fit(data, next(iter(restored.solutions_.values())))


@pytest.mark.parametrize(
    "estimator", [sx.ODMClassifier(), sx.ODMLClassifier(), sx.ConicSVMClassifier(kappa=0.1)]
)
def test_other_formulations_take_several_classes_too(estimator):
    estimator.fit(X, Y)
    assert len(estimator.certificates_) == 3
    assert estimator.certificate_.is_certified(1e-6)
    assert estimator.score(X, Y) > 0.6


def test_mixed_integer_machines_of_several_classes():
    keep = np.concatenate([np.flatnonzero(label == Y)[:5] for label in np.unique(Y)])
    classifier = sx.ZeroOneSVMClassifier(lam=10.0).fit(X[keep], Y[keep])
    assert classifier.certificate_.is_certified(1e-6)
    assert classifier.score(X[keep], Y[keep]) > 0.7


def test_a_warning_counts_the_problems_that_are_short():
    rng = np.random.default_rng(0)
    data, labels = rng.standard_normal((300, 8)), np.arange(300) % 3
    with pytest.warns(
        ConvergenceWarning, match=r"of 3 binary problems are short of tol.*lies in \["
    ):
        sx.PSVMClassifier(C=1e4, kernel="rbf", solver="fast", time_limit=1e-4, tol=1e-9).fit(
            data, labels
        )


def test_bad_arguments():
    with pytest.raises(sx.DataError, match="multiclass must be one of"):
        sx.PSVMClassifier(multiclass="one").fit(X, Y)
    with pytest.raises(sx.DataError, match="members must hold 3 models"):
        OneVsModel(scheme="ovo", members=(), classes=np.arange(3))
    with pytest.raises(sx.DataError, match="scheme must be one of"):
        OneVsModel(scheme="both", members=(), classes=np.arange(3))
    with pytest.raises(sx.DataError, match="each class needs positive weight"):
        sx.PSVMClassifier().fit(X, Y, sample_weight=(Y == "red").astype(float))


def test_parts_of_many_classes():
    codes = np.array([0, 1, 2, 3, 0, 1])
    labels = CodedLabels(codes, np.array([5, 6, 7, 8]))
    pairs = list(parts(labels, "ovo"))
    assert [part.key for part in pairs] == list(itertools.combinations([5, 6, 7, 8], 2))
    assert pairs[0].rows.tolist() == [0, 1, 4, 5]
    assert np.asarray(pairs[0].labels).tolist() == [5, 6, 5, 6]
    rest = list(parts(labels, "ovr"))
    assert np.asarray(rest[0].labels).tolist() == [1, 0, 0, 0, 1, 0]


def test_compare_tabulates_several_classes():
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        table = sx.compare([sx.PSVMClassifier(p=2.0), sx.PSVMClassifier(multiclass="ovr")], X, Y)
    assert table["certified"].all()
    assert (table["accuracy"] > 0.5).all()


@pytest.mark.parametrize("n_jobs", [0, "two", 1.5, True])
def test_numbers_of_processes_that_mean_nothing(n_jobs):
    data = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(sx.DataError, match="n_jobs must be"):
        sx.PSVMClassifier(n_jobs=n_jobs).fit(data, [0, 1, 2] * 3)


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
