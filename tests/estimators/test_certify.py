"""Certificates of models that scikit-learn trained."""

import copy
import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC, NuSVC

import svmcvx as sx
from svmcvx.estimators.base import CertifiedClassifier
from tests.conftest import make_data
from tests.intervals import overlap

X, Y = make_data(n=80, d=4, seed=3)
IRIS, CODES = load_iris(return_X_y=True)
FLOWERS = np.array(["setosa", "versicolor", "virginica"])[CODES]
WEIGHT = np.linspace(0.2, 2.0, Y.size)

KERNELS = ["linear", "rbf", "poly", lambda A, B: (1 + A @ B.T) ** 2]


def shrink(gaps, below):
    pairs = itertools.pairwise(gaps)
    return all(later <= earlier + 1e-9 for earlier, later in pairs) and gaps[-1] < below


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [0.01, 30.0])
def test_gaps_shrink_as_tol_does(kernel, C):
    how = {"kernel": kernel, "C": C, "gamma": 0.3}
    found = [
        sx.certify(SVC(tol=tol, **how).fit(X, Y, sample_weight=WEIGHT), X, Y, WEIGHT)
        for tol in (1.0, 1e-2, 1e-6)
    ]
    gaps = [certificate.gap for certificate in found]
    assert shrink(gaps, below=3e-5)
    # With a small C libsvm's first answer may be exact.
    assert C < 1 or gaps[0] > 100 * gaps[-1]
    ours = sx.PSVMClassifier(**how).fit(X, Y, sample_weight=WEIGHT).certificate_
    assert ours.kind == found[-1].kind
    overlap(ours, found[-1], gap=3e-5)


@pytest.mark.parametrize(("loss", "p"), [("hinge", 1), ("squared_hinge", 2)])
@pytest.mark.parametrize("scaling", [0.0, 1.0, 3.0])
def test_linear_svc_counts_its_intercept(loss, p, scaling):
    how = {"intercept_scaling": scaling} if scaling else {"fit_intercept": False}
    gaps = []
    for tol in (1.0, 1e-2, 1e-8):
        fitted = LinearSVC(loss=loss, C=0.7, tol=tol, max_iter=10**6, random_state=0, **how)
        found = sx.certify(fitted.fit(X, Y), X, Y)
        gaps.append(found.gap)
        hinge = np.maximum(1 - Y * fitted.decision_function(X), 0)
        bias = float(np.ravel(fitted.intercept_)[0]) / scaling if scaling else 0.0
        value = 0.5 * (fitted.coef_[0] @ fitted.coef_[0] + bias**2) + 0.7 * np.sum(hinge**p)
        assert found.upper == pytest.approx(value, rel=1e-9)
    assert shrink(gaps, below=1e-7)


@pytest.mark.parametrize("class_weight", [None, "balanced", {-1: 3.0}])
@pytest.mark.parametrize("sample_weight", [WEIGHT, np.arange(Y.size) % 3])
def test_weights_of_classes_and_observations(class_weight, sample_weight):
    for fitted in (
        SVC(class_weight=class_weight, tol=1e-8),
        SVC(class_weight=class_weight, kernel="linear", tol=1e-8),
        LinearSVC(class_weight=class_weight, tol=1e-10, max_iter=10**6),
    ):
        fitted.fit(X[10:], Y[10:], sample_weight=sample_weight[10:])
        assert sx.certify(fitted, X[10:], Y[10:], sample_weight[10:]).gap < 1e-5


@pytest.mark.parametrize("kernel", [*KERNELS, "precomputed"])
def test_several_classes_of_svc(kernel):
    data = sx.RBF(0.3)(IRIS) if kernel == "precomputed" else IRIS
    fitted = SVC(kernel=kernel, tol=1e-8, class_weight="balanced").fit(data, FLOWERS)
    certificates = sx.certify(fitted, data, FLOWERS).parts
    assert list(certificates) == [*itertools.combinations(np.unique(FLOWERS), 2)]
    assert all(certificate.gap < 1e-3 for certificate in certificates.values())
    ours = sx.PSVMClassifier(kernel=kernel, class_weight="balanced").fit(data, FLOWERS)
    for key, certificate in certificates.items():
        overlap(certificate, ours.certificates_[key], gap=1e-4)


@pytest.mark.parametrize(
    ("class_weight", "loss"),
    [("balanced", "hinge"), ({"setosa": 2.0, "virginica": 0.3}, "squared_hinge")],
)
def test_several_classes_of_linear_svc(class_weight, loss):
    data = StandardScaler().fit_transform(IRIS)
    how = {"tol": 1e-9, "max_iter": 10**6, "random_state": 0}
    fitted = LinearSVC(class_weight=class_weight, loss=loss, **how).fit(data, FLOWERS)
    certificates = sx.certify(fitted, data, FLOWERS).parts
    assert list(certificates) == ["setosa", "versicolor", "virginica"]
    assert all(certificate.gap < 1e-6 for certificate in certificates.values())


def objective_at(fitted, data, labels, gamma, C):
    """P of a two-class kernel machine, from distances of rows without their offset."""
    K = np.exp(-gamma * cdist(data, data, "sqeuclidean"))
    v = np.zeros(labels.size)
    v[fitted.support_] = fitted.dual_coef_.toarray()[0]
    hinge = np.maximum(1 - labels * (K @ v + fitted.intercept_[0]), 0)
    return 0.5 * v @ K @ v + C * hinge.sum()


@pytest.mark.parametrize("kind", ["C", "several classes", "nu"])
def test_the_kernels_numbers_are_those_of_the_training_on_sparse_data_with_an_offset(kind):
    # scikit-learn's variance of sparse data loses its digits there, and with it gamma="scale".
    rng = np.random.default_rng(3)
    data = rng.standard_normal((40, 3)) + 1e7
    labels = rng.integers(0, 3 if kind == "several classes" else 2, 40)
    thin = sp.csr_array(data)
    # Farther out their distances are known to fewer digits, and the intervals are wider.
    fitted = (NuSVC(nu=0.5, tol=1e-10) if kind == "nu" else SVC(C=2.0, tol=1e-10)).fit(thin, labels)
    found = sx.certify(fitted, thin, labels)
    # The number is the model's, whatever its settings and the container of the data are now.
    again = sx.certify(copy.deepcopy(fitted).set_params(gamma=123.0), data, labels)
    C = 2.0 if kind != "nu" else float(abs(fitted.dual_coef_).max())
    kernel = sx.RBF(fitted._gamma)
    if kind != "several classes":
        parts, again = {(0, 1): found}, {(0, 1): again}
        value = objective_at(fitted, data, 2 * labels - 1, fitted._gamma, C)
        for certificate in (parts[0, 1], again[0, 1]):
            assert certificate.lower <= value * (1 + 1e-12)
            assert value <= certificate.upper * (1 + 1e-12)
    else:
        parts, again = found.parts, again.parts
    for pair, certificate in parts.items():
        rows = np.isin(labels, pair)
        own = sx.fast.psvm(data[rows], labels[rows], C=C, p=1, kernel=kernel, tol=1e-9)
        overlap(certificate, own.certificate, gap=0.2)
        overlap(certificate, again[pair], gap=0.2)


def test_a_gamma_that_the_training_lost_is_refused():
    thin = sp.csr_array(np.where(np.abs(X) > 0.8, X, 0.0))
    fitted = SVC().fit(thin, Y)
    fitted._gamma = -0.5
    with pytest.raises(sx.DataError, match=r"trained with gamma = -0\.5, .*loses its digits"):
        sx.certify(fitted, thin, Y)


@pytest.mark.parametrize(
    "estimator", [SVC(tol=1e-6), SVC(kernel="linear"), SVC(kernel=lambda A, B: A @ B.T)]
)
def test_other_data_are_noticed(estimator):
    fitted = estimator.fit(X, Y, sample_weight=WEIGHT)
    for rows, labels, weight, message in (
        (X, -Y, WEIGHT, "multipliers do not belong"),
        (X, Y, WEIGHT / 10, "multipliers do not belong"),
        (X[1:], Y[1:], WEIGHT[1:], "X has 79 rows"),
        (X, np.where(Y > 0, "a", "b"), WEIGHT, "y has the classes"),
    ):
        with pytest.raises(sx.DataError, match=message):
            sx.certify(fitted, rows, labels, weight)
    if not callable(estimator.kernel):
        with pytest.raises(sx.DataError, match="does not hold the support vectors"):
            sx.certify(fitted, 2 * X, Y, WEIGHT)
        with pytest.raises(sx.DataError, match="features"):
            sx.certify(fitted, X[:, 1:], Y, WEIGHT)


def test_models_without_a_certificate_say_why():
    pipeline = make_pipeline(StandardScaler(), SVC(tol=1e-6)).fit(X, Y)
    own = sx.certify(pipeline[-1], pipeline[:-1].transform(X), Y)
    assert own.gap < 1e-4
    # A pipeline transforms the data itself, also for a problem that is named.
    assert sx.certify(pipeline, X, Y) == own
    named = sx.certify(pipeline, X, Y, problem="psvm", kernel=sx.RBF(gamma="scale"))
    assert named.is_certified(1e-4)
    with pytest.raises(sx.DataError, match="this Pipeline is not fitted"):
        sx.certify(make_pipeline(StandardScaler(), SVC()), X, Y)
    with pytest.raises(sx.DataError, match="X cannot be transformed by the pipeline"):
        sx.certify(pipeline, X[:, :1], Y)
    with pytest.raises(sx.DataError, match="transformed data"):
        sx.certify(pipeline[-1], X, Y)
    for estimator, message in (
        (GridSearchCV(SVC(), {"C": [1.0]}, cv=2), "best_estimator_"),
        (NuSVC(class_weight="balanced"), "this NuSVC has a class_weight"),
        (Perceptron(), "got Perceptron"),
        (LinearSVC(multi_class="crammer_singer"), "multi_class='ovr'"),
        (SVC(kernel="sigmoid", gamma=1.0, coef0=1.0), "not convex"),
        (LogisticRegression(solver="liblinear"), "this LogisticRegression has solver="),
        (LogisticRegression(C=np.inf), "this LogisticRegression has solver="),
        (LogisticRegression(solver="saga", l1_ratio=0.5, max_iter=10_000), "has solver="),
    ):
        with pytest.raises(sx.DataError, match=message):
            sx.certify(estimator.fit(X, Y), X, Y)
    with pytest.raises(sx.DataError, match="not fitted"):
        sx.certify(SVC(), X, Y)
    with pytest.raises(sx.DataError, match="must be a fitted"):
        sx.certify("svc", X, Y)


@pytest.mark.parametrize(
    "machine",
    [
        sx.PSVMClassifier(kernel="rbf", class_weight="balanced"),
        sx.PSVMClassifier(p=2.0, multiclass="ovr"),
        sx.PSVMClassifier(kernel="precomputed"),
        sx.MulticlassSVMClassifier(),
        sx.ODMClassifier(class_weight="balanced"),
    ],
)
def test_machines_of_this_package_are_certified_by_their_own_multipliers(machine, monkeypatch):
    rows, labels = X[:40], np.arange(40) % 3
    data = rows @ rows.T if machine.get_params().get("kernel") == "precomputed" else rows
    machine.fit(data, labels)
    with monkeypatch.context() as patch:
        patch.delattr(CertifiedClassifier, "_fit")
        found = sx.certify(make_pipeline(machine), data, labels)
    assert found.upper == pytest.approx(machine.certificate_.upper, rel=1e-9)
    assert found.parts.keys() == machine.certificate_.parts.keys()
    assert found.is_certified(1e-6)
    half = slice(0, 30)
    part = data[half, half] if data is not rows else data[half]
    if data is rows:
        # The interval is about the data that are passed.
        assert not sx.certify(machine, part, labels[half]).is_certified(1e-6)
    with pytest.raises(sx.DataError, match="features"):
        sx.certify(machine, part[:, :1] if data is rows else part, labels[half])


def test_multipliers_of_another_problem_are_not_enough():
    weight = np.where(np.arange(Y.size) % 7 == 0, 9.0, 0.2)
    machine = sx.PSVMClassifier(class_weight="balanced").fit(X, Y)
    weighted = clone(machine).fit(X, Y, sample_weight=weight).certificate_
    found = sx.certify(machine, X, Y, weight)
    assert not found.is_certified(1e-3)
    assert found.lower == pytest.approx(weighted.lower, rel=1e-5)
    machine.set_params(C=10.0)
    found = sx.certify(machine, X, Y)
    assert found.lower == pytest.approx(clone(machine).fit(X, Y).certificate_.lower, rel=1e-5)


def test_a_search_is_made_again():
    rows, labels = X[:12], Y[:12]
    machine = sx.ZeroOneSVMClassifier(lam=1.0).fit(rows, labels)
    found = sx.certify(machine, rows, labels)
    assert found.kind == "enumeration"
    assert found.lower <= machine.certificate_.upper <= found.upper * (1 + 1e-9)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("several", [False, True])
def test_logistic_regression(fit_intercept, several):
    data, labels = (StandardScaler().fit_transform(IRIS), FLOWERS) if several else (X, Y)
    weight = np.linspace(0.2, 2.0, labels.size) * (np.arange(labels.size) % 5 > 0)
    gaps = []
    how = {"C": 3.0, "solver": "newton-cg", "class_weight": "balanced", "max_iter": 1000}
    for tol in (1e-1, 1e-3, 1e-9):
        fitted = LogisticRegression(tol=tol, fit_intercept=fit_intercept, **how)
        fitted.fit(data, labels, sample_weight=weight)
        gaps.append(sx.certify(fitted, data, labels, weight).gap)
    assert shrink(gaps, below=1e-9)
    assert gaps[0] > 100 * gaps[-1]


@pytest.mark.parametrize("several", [False, True])
def test_the_objective_of_logistic_regression_is_scikit_learns(several):
    data, labels = (IRIS, FLOWERS) if several else (X, Y)
    fitted = LogisticRegression(C=3.0, max_iter=5000).fit(data, labels)
    own = np.searchsorted(fitted.classes_, labels)
    loss = -fitted.predict_log_proba(data)[np.arange(labels.size), own].sum()
    certificate = sx.certify(fitted, data, labels)
    assert certificate.upper == pytest.approx(0.5 * np.sum(fitted.coef_**2) + 3.0 * loss, rel=1e-9)
    # The statement of the builder is 1/C times this, at λ = 1/C for two classes and 1/(2C) for
    # more.
    lam = 1 / 6 if several else 1 / 3
    ours = sx.solve(sx.multinomial_lr(data, labels, lam=lam)).certificate
    assert certificate.lower / 3.0 <= ours.upper * (1 + 1e-9)
    assert ours.lower <= certificate.upper / 3.0 * (1 + 1e-9)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_logistic_regression_with_absolute_norms(classes, intercept):
    rng = np.random.default_rng(5)
    data = rng.standard_normal((90, 4))
    labels = (np.argmax(data[:, :classes] + rng.standard_normal((90, classes)), axis=1)).astype(str)
    # l1_ratio alone says it all from scikit-learn 1.8 on.
    penalty = {} if LogisticRegression().penalty == "deprecated" else {"penalty": "elasticnet"}
    how = {"solver": "saga", "l1_ratio": 1.0, "C": 0.7, "random_state": 0, "max_iter": 100_000}
    model = LogisticRegression(tol=1e-8, fit_intercept=intercept, **how, **penalty)
    certificate = sx.certify(model.fit(data, labels), data, labels)
    assert certificate.gap < 1e-6
    # scikit-learn's problem is svmcvx.sparse_multinomial_lr times C, with λ = 1/C.
    problem = sx.sparse_multinomial_lr(data, labels, lam=1 / 0.7, intercept=intercept)
    own = sx.solve(problem).certificate
    assert certificate.lower <= 0.7 * own.upper * (1 + 1e-12)
    assert 0.7 * own.lower * (1 - 1e-12) <= certificate.upper


@pytest.mark.parametrize("shift", [3.0, 1e3])
def test_the_upper_end_is_the_objective_at_the_model_also_where_no_model_at_all_is_better(shift):
    fitted = SVC(kernel="linear").fit(X, Y)
    fitted.intercept_ = fitted.intercept_ + shift
    signs = np.where(fitted.classes_[1] == Y, 1.0, -1.0)
    losses = np.maximum(1.0 - signs * (X @ fitted.coef_[0] + fitted.intercept_[0]), 0.0)
    objective = 0.5 * float(np.sum(fitted.coef_**2)) + float(losses.sum())
    found = sx.certify(fitted, X, Y)
    assert found.upper == pytest.approx(objective, rel=1e-9)
    assert found.lower > 0


# Fitted estimators as models of scikit-learn, held to the scores of the originals


CLOUDS, SIDES = make_data(n=60)
LABELS = np.where(SIDES > 0, "yes", "no")
TEST = np.random.default_rng(0).normal(scale=3.0, size=(40, CLOUDS.shape[1]))
TEST3 = IRIS + np.random.default_rng(0).normal(scale=0.5, size=IRIS.shape)

MACHINES = {
    "linear": sx.PSVMClassifier(p=2.0),
    "odm": sx.ODMClassifier(),
    "rbf": sx.PSVMClassifier(kernel="rbf"),
    "linear kernel": sx.PSVMClassifier(kernel="linear"),
    "poly": sx.PSVMClassifier(kernel=sx.Polynomial(degree=2, gamma=0.5, coef0=1.0)),
    "sigmoid": sx.PSVMClassifier(kernel=sx.Sigmoid(gamma=0.01), indefinite="clip"),
    "m3svm": sx.M3SVMClassifier(),
    "crammer-singer": sx.MulticlassSVMClassifier(loss="crammer_singer"),
    "pairs, rbf": sx.PSVMClassifier(kernel="rbf", C=10.0),
    "pairs, linear": sx.PSVMClassifier(kernel="linear", p=1.5),
}


@pytest.mark.parametrize("name", MACHINES)
def test_scikit_learn_has_the_same_scores(name):
    several = name in ("m3svm", "crammer-singer") or "pairs" in name
    data, labels, test = (IRIS, CODES, TEST3) if several else (CLOUDS, LABELS, TEST)
    fitted = MACHINES[name].fit(data, labels)
    made = fitted.to_sklearn()
    assert isinstance(
        made, SVC if hasattr(fitted.model_, "kernel") or "pairs" in name else LinearSVC
    )
    scores = fitted.decision_function(test)
    atol = 1e-12 * max(1.0, np.abs(scores).max()) * (100 if several else 1)
    np.testing.assert_allclose(made.decision_function(test), scores, rtol=0, atol=atol)
    assert made.predict(test).tolist() == fitted.predict(test).tolist()
    assert made.classes_.tolist() == np.unique(labels).tolist()
    # A clipped kernel has coefficients of any sign, and a model does not keep its labels.
    if isinstance(made, SVC) and name != "sigmoid":
        for field in ("support_", "n_support_", "support_vectors_"):
            np.testing.assert_array_equal(getattr(made, field), getattr(fitted, field))


def test_scikit_learn_takes_many_classes_of_many_columns_at_once():
    """A stand-in with as many columns would take 100 000 passes over them for each class."""
    rng = np.random.default_rng(0)
    labels = np.arange(36) % 12
    rows = rng.standard_normal((36, 4000)) + labels[:, None]
    machine = sx.PSVMClassifier(p=2.0, multiclass="ovr").fit(rows, labels)
    made = machine.to_sklearn()
    assert made.n_features_in_ == 4000
    np.testing.assert_array_equal(made.predict(rows), machine.predict(rows))


def test_what_scikit_learn_cannot_hold_is_refused():
    for model, data, what in (
        (sx.PSVMClassifier(kernel="laplacian"), (CLOUDS, SIDES), "the kernel Laplacian"),
        (sx.PSVMClassifier(kernel="laplacian"), (IRIS, CODES), "the kernel Laplacian"),
        (sx.PSVMClassifier(), (IRIS, CODES), "a linear model for each pair"),
        (sx.PSVMClassifier(kernel="rbf", multiclass="ovr"), (IRIS, CODES), "the kernel RBF"),
    ):
        with pytest.raises(sx.DataError, match=f"SVC and LinearSVC cannot hold {what}"):
            model.fit(*data).to_sklearn()
