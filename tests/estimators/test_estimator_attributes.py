"""Parameters and attributes of the estimators beside those of scikit-learn's SVC."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC, LinearSVC

import svmcvx as sx
from svmcvx.catalogue import CATALOGUE
from tests.conftest import make_data
from tests.intervals import overlap

X, Y = make_data(n=40)
RNG = np.random.default_rng(4)
CODES = np.repeat([0, 1, 2], 12)[RNG.permutation(36)]
X3 = RNG.standard_normal((36, 3)) + 1.5 * np.eye(3)[CODES]
Y3 = np.array(["b", "c", "a"])[CODES]
ATTRIBUTES = "classes_ support_ support_vectors_ n_support_ dual_coef_ coef_ intercept_"
ATTRIBUTES += " class_weight_ shape_fit_ fit_status_"
CLASSES = [entry.estimator.load() for entry in CATALOGUE.values() if entry.estimator is not None]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("weight", [None, "balanced"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_attributes_of_two_classes_are_those_of_svc(kernel, weight, sparse):
    data = sp.csr_array(X) if sparse else X
    theirs = SVC(kernel=kernel, class_weight=weight, tol=1e-9).fit(
        sp.csr_matrix(X) if sparse else X, Y
    )
    ours = sx.PSVMClassifier(kernel=kernel, class_weight=weight, tol=1e-10).fit(data, Y)
    assert hasattr(ours, "coef_") is (kernel == "linear")
    for name in ATTRIBUTES.split():
        if name == "coef_" and kernel == "rbf":
            continue
        mine, other = getattr(ours, name), getattr(theirs, name)
        mine, other = (v.toarray() if sp.issparse(v) else np.asarray(v) for v in (mine, other))
        assert mine.shape == other.shape
        if name == "classes_" or mine.dtype.kind == "i":
            assert np.array_equal(mine, other)
        else:
            assert np.allclose(mine, other, atol=1e-4)
    assert ours.n_iter_.shape == theirs.n_iter_.shape


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_several_classes_differ_from_svc_as_the_documentation_says(kernel):
    theirs = SVC(kernel=kernel, tol=1e-9, decision_function_shape="ovo").fit(X3, Y3)
    ours = sx.PSVMClassifier(kernel=kernel, tol=1e-10, decision_function_shape="ovo").fit(X3, Y3)
    for name in ("support_", "support_vectors_", "n_support_", "class_weight_", "shape_fit_"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    # The later class of a pair is the positive one; for SVC it is the earlier one, but for two
    # classes.
    assert np.allclose(ours.intercept_, -theirs.intercept_, atol=1e-4)
    assert np.allclose(ours.decision_function(X3), -theirs.decision_function(X3), atol=1e-4)
    if kernel == "linear":
        assert np.allclose(ours.coef_, -theirs.coef_, atol=1e-4)
    # One row a pair; SVC has one row for each of the other classes.
    assert (ours.dual_coef_.shape[0], theirs.dual_coef_.shape[0]) == (3, 2)
    first = np.cumsum([0, *ours.n_support_])
    for row, (k, other) in enumerate([(0, 1), (0, 2), (1, 2)]):
        for one, place in ((k, other - 1), (other, k)):
            part = slice(first[one], first[one + 1])
            assert np.allclose(
                ours.dual_coef_[row, part], -theirs.dual_coef_[place, part], atol=1e-4
            )
    assert ours.n_iter_.shape == theirs.n_iter_.shape == (3,)


@pytest.mark.parametrize("scheme", ["ovo", "ovr"])
@pytest.mark.parametrize(
    "face",
    [sx.PSVMClassifier(p=2.0), sx.PSVMClassifier(C=3.0), sx.ODMClassifier(intercept=True)],
    ids=repr,
)
def test_multipliers_of_a_linear_machine_expand_its_normal(face, scheme):
    fitted = face.set_params(multiclass=scheme, tol=1e-10).fit(X3, Y3)
    assert fitted.dual_coef_.shape == (3, fitted.support_.size)
    assert np.allclose(fitted.dual_coef_ @ X3[fitted.support_], fitted.coef_, atol=1e-4)
    with pytest.raises(AttributeError, match=r"take X\[support_\]"):
        _ = fitted.support_vectors_


def test_attributes_that_do_not_exist_say_why():
    with pytest.raises(AttributeError, match="dual_coef_ exists for kernel machines, and for pSVM"):
        _ = sx.ConicSVMClassifier().fit(X, Y).dual_coef_
    with pytest.raises(AttributeError, match="kernel=None and kernel='linear' only"):
        _ = sx.PSVMClassifier(kernel="rbf").fit(X, Y).coef_
    precomputed = sx.PSVMClassifier(kernel="precomputed").fit(X @ X.T, Y)
    assert precomputed.support_vectors_.shape == (0, 0)


@pytest.mark.parametrize(
    "face", [sx.PSVMClassifier(kernel="linear"), sx.PSVMClassifier(), sx.M3SVMClassifier()]
)
def test_attributes_cannot_be_written_to(face):
    fitted = face.fit(X, Y)
    for name in ("coef_", "intercept_", "support_", "n_support_", "n_iter_"):
        with pytest.raises(ValueError, match="read-only"):
            getattr(fitted, name)[..., 0] = 0
        with pytest.raises(AttributeError):
            setattr(fitted, name, 0)


@pytest.mark.parametrize("break_ties", [False, True])
def test_ties_of_votes_are_broken_by_scores_or_by_order(break_ties):
    rng = np.random.default_rng(3)
    data, labels, new = rng.normal(size=(18, 2)), np.arange(18) % 3, rng.normal(size=(50, 2))
    how = {"kernel": "rbf", "gamma": 1.0, "break_ties": break_ties, "tol": 1e-9}
    ours, theirs = (face(**how).fit(data, labels) for face in (sx.PSVMClassifier, SVC))
    assert np.array_equal(ours.predict(new), theirs.predict(new))
    ours.set_params(decision_function_shape="ovo")
    assert ours.decision_function(new).shape == (50, 3)
    assert np.array_equal(ours.predict(new), theirs.predict(new))


@pytest.mark.parametrize("solver", ["auto", "clarabel"])
@pytest.mark.parametrize(
    "face",
    [sx.PSVMClassifier(p=1.5, C=1e3, kernel="rbf"), sx.ODMLClassifier(C=1e3), sx.M3SVMClassifier()],
)
def test_a_limit_on_iterations_warns_and_leaves_the_interval(monkeypatch, face, solver):
    polish = "svmcvx.formulations.margin.solve_support_equations"
    monkeypatch.setattr(polish, lambda *args, **keywords: None)
    data, labels = make_data(n=80, d=4, seed=3)
    face.set_params(max_iter=1, solver=solver, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match=r"certified relative gap .* lies in \["):
        fitted = clone(face).fit(data, labels)
    assert fitted.fit_status_ == 1
    assert len(fitted.solution_.attempts) >= 1
    whole = face.set_params(max_iter=None).fit(data, labels)
    assert whole.fit_status_ == 0
    overlap(fitted.certificate_, whole.certificate_, gap=np.inf)


def test_limits_that_cannot_be_used():
    for parameters, message in (
        ({"max_iter": 0}, "max_iter must be a whole number"),
        ({"max_iter": 3, "solver": "scip"}, "max_iter does not limit scip"),
        ({"cache_size": 0}, "cache_size must be"),
        ({"decision_function_shape": "ovx"}, "decision_function_shape must be one of"),
        ({"decision_function_shape": "ovo", "multiclass": "ovr"}, "needs a machine for each pair"),
        ({"break_ties": 1}, "break_ties must be True or False"),
        ({"intercept": 1}, "intercept must be 'free', 'penalised', 'none'"),
        ({"intercept": False, "C": np.inf}, "C=inf is the hard margin"),
        ({"p": 0.5, "C": np.inf}, "not convex"),
        ({"class_weight": "even"}, "class_weight cannot be used"),
        ({"class_weight": {1: -1.0}}, "class_weight must be finite and non-negative"),
        ({"class_weight": {-1: 0}}, "class_weight must be positive, got 0 for -1"),
    ):
        with pytest.raises(sx.DataError, match=message):
            sx.PSVMClassifier(**parameters).fit(X, Y)


@pytest.mark.parametrize("face", CLASSES)
def test_bad_parameters_are_refused_whether_they_are_used_or_not(face):
    for name in face().get_params():
        if name == "verbose":
            continue
        estimator = face(**{name: "x" if name == "coef0" else -7.5})
        with pytest.raises(sx.SvmcvxError, match=name):
            estimator.fit(X[:20], Y[:20])
    with pytest.raises(sx.DataError, match="class_weight must be None, 'balanced' or a dict"):
        face(class_weight=[1.0, 2.0]).fit(X, Y)


def test_parameters_of_a_kernel_in_grids():
    face = sx.PSVMClassifier(kernel=sx.RBF(0.4))
    assert face.set_params(kernel__gamma=0.2).kernel == sx.RBF(0.2)
    changed = face.set_params(kernel=sx.Polynomial(2), kernel__coef0=1.0).kernel
    assert changed == sx.Polynomial(2, coef0=1.0)
    object_, name = sx.PSVMClassifier(kernel=sx.RBF()), sx.PSVMClassifier(kernel="rbf")
    searched = GridSearchCV(object_, {"kernel__gamma": [0.05, 1.0]}, cv=2).fit(X, Y)
    by_name = GridSearchCV(name, {"gamma": [0.05, 1.0]}, cv=2).fit(X, Y)
    scores = [one.cv_results_["mean_test_score"].tolist() for one in (searched, by_name)]
    assert scores[0] == scores[1]
    found = sx.select(object_, {"kernel__gamma": [0.05, 1.0]}, X, Y, cv=2)
    assert sorted(found["param_kernel__gamma"]) == [0.05, 1.0]
    with pytest.raises(sx.DataError, match="kernel__gamma needs a kernel object"):
        name.set_params(kernel__gamma=1.0)
    with pytest.raises(sx.DataError, match="no parameter 'degree'; it has gamma"):
        object_.set_params(kernel__degree=1)


@pytest.mark.parametrize("gone", [["b"], ["b", "c"]])
@pytest.mark.parametrize(
    "face",
    [
        sx.PSVMClassifier(kernel="rbf", gamma=0.5, class_weight={"a": 2.0}),
        sx.PSVMClassifier(multiclass="ovr"),
        sx.M3SVMClassifier(tol=1e-6),
    ],
    ids=repr,
)
def test_a_class_without_weight_is_left_out(face, gone):
    labels = Y3.copy()
    labels[:6] = "d"
    weight = np.where(np.isin(labels, gone), 0.0, 1.0 + np.arange(36) % 2)
    with pytest.warns(UserWarning, match="which is left out; it is never predicted"):
        fitted = clone(face).fit(X3, labels, sample_weight=weight)
    kept = weight > 0
    alone = clone(face).fit(X3[kept], labels[kept], sample_weight=weight[kept])
    assert fitted.classes_.tolist() == alone.classes_.tolist()
    assert set(fitted.classes_) == {"a", "b", "c", "d"} - set(gone)
    assert fitted.class_weight_.tolist() == alone.class_weight_.tolist()
    assert fitted.n_support_.tolist() == alone.n_support_.tolist()
    assert kept[fitted.support_].all()
    for ours, theirs in zip(fitted._solved(), alone._solved(), strict=True):
        assert ours.certificate.upper == pytest.approx(theirs.certificate.upper, rel=1e-5)
    assert np.allclose(fitted.decision_function(X3), alone.decision_function(X3), atol=1e-3)


@pytest.mark.parametrize("scaling", [0.0, 1.0, 10.0])
@pytest.mark.parametrize("C", [1e-3, 3.0])
def test_absolute_coefficients_are_those_of_linear_svc(C, scaling):
    data = np.hstack([X, np.random.default_rng(1).standard_normal((40, 5))])
    weight = np.linspace(0.2, 2.0, 40)
    how = {"fit_intercept": scaling > 0, "intercept_scaling": scaling or 1.0, "max_iter": 10**6}
    theirs = LinearSVC(C=C, penalty="l1", dual=False, tol=1e-9, **how)
    theirs.fit(data, Y, sample_weight=weight)
    face = sx.PSVMClassifier(
        C=C, p=2, penalty="l1", intercept="penalised" if scaling == 1.0 else False
    )
    # An intercept of another scale is the coefficient of a column.
    own = np.hstack([data, np.full((40, 1), scaling)]) if scaling > 1.0 else data
    for stored in (np.asarray, sp.csr_array):
        ours = face.fit(stored(own), Y, sample_weight=weight)
        overlap(sx.certify(theirs, stored(data), Y, weight), ours.certificate_, gap=1e-4)
        coef = ours.coef_[:, : data.shape[1]]
        assert np.allclose(coef, theirs.coef_, atol=1e-5)
        assert np.array_equal(coef == 0, theirs.coef_ == 0)


def test_absolute_coefficients_with_weights_limits_and_bad_arguments():
    face = sx.PSVMClassifier(p=2, penalty="l1", intercept="penalised")
    weight = np.arange(Y.size) % 3
    weighted = clone(face).fit(X, Y, sample_weight=weight).certificate_
    copied = face.fit(np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    assert weighted.upper == pytest.approx(copied.certificate_.upper, rel=1e-9)
    with pytest.raises(sx.DataError, match="no proof"):
        copied.solution_.proof()
    with pytest.warns(ConvergenceWarning):
        assert clone(face).set_params(time_limit=1e-6).fit(X, Y).certificate_.lower == 0.0
    for parameters, message in (
        ({"p": 1.5}, "penalty='l1' is stated for p=2"),
        ({"kernel": "rbf"}, "penalty='l1' is stated for p=2"),
        ({"intercept": True}, "penalty='l1' is stated for p=2"),
        ({"C": np.inf}, "C must be"),
        ({"penalty": "l3"}, "penalty must be one of"),
    ):
        with pytest.raises(sx.DataError, match=message):
            clone(face).set_params(**parameters).fit(X, Y)


def test_infinite_costs_are_the_hard_margin():
    data = X + 3.0 * Y[:, None]
    fitted = sx.PSVMClassifier(C=np.inf).fit(data, Y)
    direct = sx.fast.hard_margin(data, Y)
    assert fitted.solution_.formulation == "hard_margin"
    assert fitted.certificate_.upper == direct.certificate.upper
    assert fitted.fit_status_ == 0
    assert np.allclose(fitted.dual_coef_ @ data[fitted.support_], fitted.coef_, atol=1e-6)
    by_pairs = sx.PSVMClassifier(C=np.inf, kernel="rbf", gamma=1.0)
    general = clone(by_pairs).set_params(solver="clarabel").fit(X, Y)
    overlap(general.certificate_, by_pairs.fit(X, Y).certificate_)
    assert sx.PSVMClassifier(C=np.inf, kernel="rbf", gamma=9.0).fit(X3, Y3).score(X3, Y3) == 1.0
    with pytest.raises(sx.SolverFailed, match="not separable"):
        sx.PSVMClassifier(C=np.inf).fit(np.r_[data, data[:1]], np.r_[Y, -Y[0]])


@pytest.mark.parametrize(
    "build",
    [sx.fast.hard_margin, lambda *args, **rest: sx.solve(sx.hard_margin_dual(*args, **rest))],
)
def test_a_hard_margin_knows_weights_of_zero_only(build):
    data = X + 3.0 * Y[:, None]
    weight = np.arange(Y.size) % 4 * 1.0
    weighted = build(data, Y, sample_weight=weight)
    apart = build(data[weight > 0], Y[weight > 0])
    assert weighted.certificate.upper == pytest.approx(apart.certificate.upper, rel=1e-9)
    assert (weight[weighted.model.support] > 0).all()


@pytest.mark.parametrize("parameters", [{"intercept": "penalised", "p": 1.5}, {"C": np.inf}])
def test_rows_in_blocks_take_them_too(parameters):
    data = X + 3.0 * Y[:, None] if "C" in parameters else X
    pieces = [lambda k=k: (data[k : k + 10], Y[k : k + 10]) for k in range(0, 40, 10)]
    blocks = sx.RowBlocks(pieces, labelled=True)
    fitted = sx.PSVMClassifier(**parameters).fit(data, Y)
    in_blocks = sx.PSVMClassifier(**parameters).fit(data, Y).fit(blocks, blocks.y)
    overlap(in_blocks.certificate_, fitted.certificate_)
    assert (in_blocks.fit_status_, in_blocks.n_iter_.shape) == (0, (1,))
    assert in_blocks.class_weight_.tolist() == [1.0, 1.0]
    for name in ("n_support_", "dual_coef_", "support_vectors_", "shape_fit_"):
        assert not hasattr(in_blocks, name)
