import pickle
import subprocess
import sys
import warnings
from email.message import Message
from functools import partial

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import estimator_checks_generator

import svmcvx as sx
import svmcvx.data as data_room
import svmcvx.estimators.base as base_room
from svmcvx.catalogue import CATALOGUE, find
from svmcvx.estimators.request import choose
from svmcvx.model import Model
from tests.conftest import make_data

X, Y = make_data(n=40)

# All estimators with their default settings, and a kernel.
FACES = [entry.estimator.load()() for entry in CATALOGUE.values() if entry.estimator]
FACES.append(sx.PSVMClassifier(kernel="rbf"))


def scikit_learns_checks():
    for face in FACES:
        ramp = repr(face) == "RampSVMClassifier()"
        few = sx.RampSVMClassifier(max_iter=5) if ramp else face
        for estimator, check in estimator_checks_generator(few):
            name = check.func.__name__
            if ramp and name == "check_class_weight_classifiers":
                # scikit-learn asks for a thousand rounds; the first proves so wide a gap.
                estimator.set_params(C=1e-5, tol=1e-2)
            yield pytest.param(estimator, check, id=f"{face!r}-{name}")


@pytest.mark.parametrize(("estimator", "check"), scikit_learns_checks())
def test_scikit_learns_own_checks(estimator, check):
    if "rbf" not in repr(estimator) and check.func.__name__ == "check_estimator_sparse_matrix":
        pytest.skip(
            "check_estimator_sparse_array is the same with another container, which all faces read"
            " in one place"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        check(estimator)


@pytest.mark.parametrize("kernel", [None, "poly", "exponential", sx.RBF(0.3), lambda a, b: a @ b.T])
def test_the_face_is_the_builder_and_solve(kernel):
    classifier = sx.PSVMClassifier(C=2.0, p=1.5, kernel=kernel, tol=1e-12).fit(X, Y)
    direct = sx.solve(sx.psvm_dual(X, Y, C=2.0, p=1.5, kernel=kernel))
    assert classifier.certificate_.is_certified(1e-6)
    assert classifier.certificate_ == classifier.solution_.certificate
    assert np.allclose(classifier.decision_function(X), direct.model.decision_function(X))
    assert np.array_equal(classifier.predict(X), direct.model.predict(X))


FIRST_FITS = """
import sys
sys.modules["cvxpy"] = None  # an import of it fails
import warnings
import numpy as np
import svmcvx as sx
from svmcvx.catalogue import CATALOGUE
warnings.simplefilter("ignore", UserWarning)  # few rows are of one class for some losses
X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [3.0, 2.0], [1.0, 1.5], [2.0, 1.4]])
y = [0, 0, 1, 1, 0, 1]
for entry in CATALOGUE.values():
    if entry.estimator is not None:
        fitted = entry.estimator.load()().fit(X, y)
        assert fitted.certificate_.is_certified(1e-6), entry.name
        fitted.predict(X)
for name in sx.fast.__all__:
    getattr(sx.fast, name)
sx.fast.hard_margin(X[:4], y[:4])
assert [name for name in sys.modules if name.startswith("cvxpy.")] == []
print("done")
"""


@pytest.mark.slow
def test_no_first_fit_imports_cvxpy():
    # It takes half of the time of the first fit of a session.
    printed = subprocess.run(
        [sys.executable, "-c", FIRST_FITS], capture_output=True, text=True, check=False
    )
    assert (printed.stdout, printed.stderr) == ("done\n", "")


@pytest.mark.parametrize("attribute", ["certificate_", "model_", "support_", "coef_"])
def test_nothing_is_known_before_fit(attribute):
    with pytest.raises(NotFittedError):
        getattr(sx.PSVMClassifier(), attribute)


def test_precomputed_kernels_are_sliced_in_cross_validation():
    grid = {"C": [0.1, 1.0]}
    kernels = {"precomputed": sx.RBF(0.5)(X), sx.RBF(0.5): X}
    first, second = (
        GridSearchCV(sx.PSVMClassifier(kernel=kernel), grid, cv=3).fit(data, Y)
        for kernel, data in kernels.items()
    )
    assert np.allclose(first.cv_results_["mean_test_score"], second.cv_results_["mean_test_score"])


def test_probabilities_are_those_of_a_calibration():
    fitted = sx.PSVMClassifier().fit(X, Y)
    assert not hasattr(fitted, "predict_proba")
    calibrated = CalibratedClassifierCV(sx.PSVMClassifier(), cv=3).fit(X, Y)
    assert np.allclose(calibrated.predict_proba(X).sum(axis=1), 1.0)


def test_the_html_links_to_the_page_where_the_distribution_has_an_address(monkeypatch):
    class Mine(sx.PSVMClassifier):
        pass

    told = Message()
    monkeypatch.setattr(base_room, "metadata", lambda name: told)
    base_room.site.cache_clear()
    try:
        assert "href" not in sx.PSVMClassifier()._repr_html_()
        told["Project-URL"] = "Source, https://code.example"
        told["Project-URL"] = "Documentation, https://site.example"
        base_room.site.cache_clear()
        page = f"https://site.example/{sx.__version__}/_api/svmcvx.PSVMClassifier.html"
        assert f'href="{page}"' in sx.PSVMClassifier()._repr_html_()
        # A class of someone else has no page there.
        assert "href" not in Mine()._repr_html_()
    finally:
        base_room.site.cache_clear()


def test_an_estimator_of_another_version_is_read_with_a_warning(monkeypatch):
    fitted = sx.PSVMClassifier().fit(X, Y)
    stored = pickle.dumps(fitted)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = pickle.loads(stored)  # noqa: S301 - our own bytes
    assert vars(again).keys() == vars(fitted).keys()
    monkeypatch.setattr(sx, "__version__", "77.0")
    with pytest.warns(UserWarning, match=r"stored by svmcvx \d.*read by 77\.0: fit it again"):
        again = pickle.loads(stored)  # noqa: S301
    assert np.array_equal(again.predict(X), fitted.predict(X))


def rare(n=120, seed=0):
    """Two overlapping clouds, of which one has a tenth of the rows."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], [9 * n // 10, n // 10])
    return rng.standard_normal((n, 3)) + 0.5 * y[:, None], y


ONE_CLASS = [
    sx.PSVMClassifier(C=1e-3),
    sx.PSVMClassifier(C=1e-3, p=2.0, kernel="rbf"),
    sx.ODMClassifier(C1=1.0, C2=1.0, kernel="rbf"),
    sx.ODMLClassifier(C=1.0),
    sx.M3SVMClassifier(lam=1e3),
    sx.MulticlassSVMClassifier(lam=1e6),
    sx.ConicSVMClassifier(lam=1e-3),
]


@pytest.mark.parametrize("estimator", ONE_CLASS, ids=repr)
@pytest.mark.parametrize("weighted", [False, True])
def test_a_machine_that_predicts_one_class_of_its_training_data_warns(estimator, weighted):
    data, labels = rare()
    weight = np.linspace(0.5, 1.0, labels.size) if weighted else None
    with pytest.warns(UserWarning, match="predicts one class only, 0, on its training data: "):
        fitted = clone(estimator).fit(data, labels, weight)
    assert fitted.certificate_.is_certified(1e-6)
    assert set(fitted.predict(data).tolist()) == {0}


def test_a_class_without_weight_is_not_missed_in_the_predictions():
    data, labels = rare()
    with pytest.warns(
        UserWarning, match="sample_weight is zero for every observation of 2"
    ) as seen:
        sx.PSVMClassifier(C=1e3, kernel="rbf").fit(
            np.vstack([data, data[:2]]), [*labels, 2, 2], [1.0] * labels.size + [0.0] * 2
        )
    assert len(seen) == 1


@pytest.mark.parametrize("classes", [2, 5])
def test_that_it_predicts_several_classes_is_seen_in_few_rows(monkeypatch, classes):
    rng, rows = np.random.default_rng(0), []
    y = np.arange(3000) % classes
    data = rng.standard_normal((y.size, 3)) + 4.0 * np.eye(classes, 3)[y] + y[:, None]
    predict = Model.predict
    monkeypatch.setattr(
        Model, "predict", lambda self, X: rows.append(X.shape[0]) or predict(self, X)
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sx.PSVMClassifier(p=2.0).fit(data, y)
        sx.ODMClassifier().fit(data, y)
    assert sum(rows) <= 2 * classes


@pytest.mark.parametrize("estimator", FACES, ids=repr)
def test_weights_of_classes_multiply_those_of_observations(estimator):
    data, labels = make_data(n=10, seed=1)
    weight = np.linspace(0.5, 2.0, labels.size)
    by_class = clone(estimator).set_params(class_weight={-1: 2.0, 1: 0.25})
    by_class.fit(data, labels, sample_weight=weight)
    by_hand = clone(estimator)
    if "rbf" in repr(estimator):
        by_hand.set_params(gamma=by_class.model_.kernel.gamma)
    by_hand.fit(data, labels, sample_weight=weight * np.where(labels < 0, 2.0, 0.25))
    assert by_class.certificate_.upper == pytest.approx(by_hand.certificate_.upper, rel=1e-5)


@pytest.mark.parametrize(
    ("solver", "formulation", "settings", "route", "reason"),
    [
        ("auto", "psvm", {"kernel": sx.RBF()}, "fast", "is faster at every size"),
        ("auto", "l0", {}, "fast", "is faster at every size"),
        ("fast", "psvm", {}, "fast", "was asked for"),
        ("CLARABEL", "psvm", {}, "general", "'CLARABEL' was asked for"),
        ("auto", "mine", {}, "general", "no specialised solver for mine"),
        ("auto", "m3svm", {"lam": 1.0, "norm": 1}, "general", "fast.m3svm takes no norm"),
    ],
)
def test_the_rule_that_chooses_the_route(solver, formulation, settings, route, reason):
    chosen, why, _ = choose(solver, find(formulation), formulation, 5000, settings)
    assert chosen == route
    assert reason in why


@pytest.mark.parametrize(("n", "second"), [(200, True), (201, False)])
def test_few_observations_get_a_second_opinion(n, second):
    for solver, name, expected in (
        ("auto", "psvm", second),
        ("auto", "l0", 0),
        ("fast", "psvm", 0),
    ):
        assert choose(solver, find(name), name, n, {})[2] == expected


def test_a_second_opinion_is_kept_where_it_is_the_better_one(monkeypatch):
    from svmcvx.fast.margin import psvm as room

    real = room.psvm

    def wide(*arguments, **keywords):
        pairs = room.DecompositionSettings(working_set=2, whole=0)
        settings = room.PSVMSettings(decomposition=pairs)
        return real(*arguments, **keywords | {"max_iter": 1, "tol": 1e-14, "settings": settings})

    monkeypatch.setattr(room, "psvm", wide)
    fitted = sx.PSVMClassifier(p=1.5, kernel="rbf").fit(X, Y)
    assert fitted.certificate_.is_certified(1e-6)
    assert fitted.solution_.solver == "CLARABEL"
    assert fitted.solution_.attempts[0].solver.startswith("fast.psvm")


@pytest.mark.parametrize(
    ("solver", "formulation", "settings", "error", "message"),
    [
        (3, "psvm", {}, sx.DataError, "solver must be a name"),
        ("gurob", "psvm", {}, sx.SolverUnavailable, "'auto', 'fast' or one of .*'clarabel'"),
        ("fast", "mine", {}, sx.SolverUnavailable, "no specialised solver for mine"),
        ("fast", "zero_one", {"M": np.ones(3), "form": "x"}, sx.BuildError, "takes no M, form"),
    ],
)
def test_routes_that_do_not_exist(solver, formulation, settings, error, message):
    with pytest.raises(error, match=message):
        choose(solver, find(formulation), formulation, 5, settings)


def test_the_gap_asked_for_is_that_of_the_certificate():
    data, labels = make_data(n=300, d=4, seed=4)
    for tol in (1e-2, 1e-8):
        fitted = sx.PSVMClassifier(p=1.5, kernel="rbf", tol=tol).fit(data, labels)
        assert fitted.certificate_.gap <= tol
    assert sx.PSVMClassifier(p=1.5, kernel="rbf", tol=0.1).fit(data, labels).certificate_.gap > 1e-8


@pytest.mark.parametrize("solver", ["fast", "clarabel"])
def test_a_fit_validates_its_data_once(monkeypatch, solver):
    calls = []

    def counted(original, *arguments, **keywords):
        calls.append(original.__name__)
        return original(*arguments, **keywords)

    names = ((data_room, "check_features"), (data_room, "coded_labels"))
    for module, name in (*names, (base_room, "check_features")):
        monkeypatch.setattr(module, name, partial(counted, getattr(module, name)))
    sx.PSVMClassifier(p=2.0, solver=solver).fit(X, Y)
    assert sorted(calls) == ["check_features", "coded_labels"]


@pytest.mark.parametrize(
    "estimator",
    [sx.PSVMClassifier(kernel="rbf"), sx.M3SVMClassifier(), sx.L0SVMClassifier(method="local")],
    ids=str,
)
def test_balanced_classes_count_weights_like_copies(estimator):
    weight = np.random.default_rng(0).integers(0, 4, len(Y)) * (1 + 2 * (Y > 0))
    balanced = clone(estimator).set_params(class_weight="balanced")
    weighted = clone(balanced).fit(X, Y, sample_weight=weight)
    copied = clone(balanced).fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    assert np.allclose(weighted.class_weight_, copied.class_weight_, rtol=1e-14)
    assert not np.allclose(weighted.class_weight_, clone(balanced).fit(X, Y).class_weight_)
    if weighted.certificate_.kind != "local":
        assert np.allclose(weighted.decision_function(X), copied.decision_function(X), atol=1e-4)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("name", ["PSVM", "ODM", "ODML", "ConicSVM"])
def test_a_gram_matrix_that_is_not_square_is_refused(name, classes, scheme):
    K, labels = X @ X.T, np.arange(len(X)) % classes
    estimator = getattr(sx, f"{name}Classifier")(kernel="precomputed", multiclass=scheme)
    for matrix, y in ((K[:30], labels[:30]), (K[:, :30], labels), (K[::-1][:30], labels[:30])):
        with pytest.raises(sx.DataError, match="takes as X the square matrix"):
            estimator.fit(matrix, y)
