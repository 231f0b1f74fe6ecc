"""Models of other programs are certified as answers to the problem that is named."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier
from sklearn.svm import SVC

import svmcvx as sx

# Trained on data.csv by svm-train (LIBSVM 3.37, -c 2 -e 1e-6) and train (LIBLINEAR 2.50, -c 2 -e
# 1e-8).
FILES = Path(__file__).parent / "model_files"
DATA = np.loadtxt(FILES / "data.csv", delimiter=",", skiprows=1)
X, TWO, THREE = DATA[:, :2], DATA[:, 2].astype(int), DATA[:, 3].astype(int)
BEST = sx.fast.psvm(X, TWO, C=2.0, p=1.5)
W, B = BEST.model.coef, BEST.model.intercept
PROBLEM = {"problem": "psvm", "C": 2.0, "p": 1.5}


@pytest.mark.parametrize(
    ("file", "y", "problem", "hyperparameters", "keys"),
    [
        ("libsvm_rbf", TWO, "psvm", {"C": 2.0}, None),
        ("libsvm_linear", TWO, "psvm", {"C": 2.0}, None),
        ("libsvm_polynomial_three", THREE, "psvm", {"C": 2.0}, {(1, 2), (1, 3), (2, 3)}),
        ("liblinear_hinge", TWO, "psvm", {"C": 2.0}, None),
        ("liblinear_squared_hinge", TWO, "psvm", {"C": 2.0, "p": 2.0}, None),
        ("liblinear_three", THREE, "psvm", {"C": 2.0, "p": 2.0}, {1, 2, 3}),
        (
            "liblinear_crammer_singer",
            THREE,
            "crammer-singer",
            {"lam": 0.25, "intercept": False},
            None,
        ),
    ],
)
def test_model_files_of_libsvm_and_liblinear(file, y, problem, hyperparameters, keys):
    found = sx.certify(FILES / f"{file}.model", X, y, problem=problem, **hyperparameters)
    assert keys is None or found.keys() == keys
    for certificate in found.values() if keys else [found]:
        assert certificate.is_certified(1e-6)


def test_a_file_of_libsvm_is_the_machine_that_scikit_learn_trains():
    svc = SVC(C=2.0, gamma=0.5, tol=1e-6).fit(X, TWO)
    of_file = sx.certify(FILES / "libsvm_rbf.model", X, TWO, problem="psvm", C=2.0)
    assert of_file.upper == pytest.approx(sx.certify(svc, X, TWO).upper, rel=1e-6)
    # Support vectors in a file have eight digits: its model is not quite that of memory.
    assert of_file.lower <= sx.certify(svc, X, TWO).upper


def test_a_model_with_another_kernel_is_no_point_of_the_problem():
    """The optimum falls a little with γ: the objective of the narrower kernel's machine would be
    below every value that the problem has.
    """
    own, other = (
        sx.fast.psvm(X, TWO, C=2.0, kernel=sx.RBF(gamma=gamma), tol=1e-9) for gamma in (0.5, 0.5001)
    )
    assert (
        other.certificate.upper < own.certificate.lower
        or own.certificate.upper < other.certificate.lower
    )
    for solution, gamma in ((own, 0.5001), (other, 0.5)):
        with pytest.raises(sx.DataError, match="has the kernel RBF"):
            sx.certify(
                solution.model, X, TWO, problem="psvm", C=2.0, p=1.0, kernel="rbf", gamma=gamma
            )
    with pytest.raises(sx.DataError, match="has the kernel"):
        sx.certify((W, B), X, TWO, problem="psvm", C=2.0, kernel="rbf", gamma=0.5)
    assert sx.certify((W, B), X, TWO, problem="psvm", C=2.0, p=1.5, kernel="linear").is_certified(
        1e-6
    )


GIVEN = {
    "a pair": (W, B),
    "a mapping": {"coef": W, "intercept": B},
    "a model": BEST.model,
    "attributes": SimpleNamespace(coef_=W[None], intercept_=[B]),
    "a linear layer": SimpleNamespace(weight=W[None], bias=np.array([B])),
}


@pytest.mark.parametrize("form", GIVEN)
def test_forms_of_one_model(form):
    assert sx.certify(GIVEN[form], X, TWO, **PROBLEM).is_certified(1e-8)


def test_a_linear_layer_of_pytorch():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(2, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight[:] = torch.from_numpy(W.copy())
        layer.bias[:] = B
    assert sx.certify(layer, X, TWO, **PROBLEM).is_certified(1e-8)


def test_dual_coefficients_are_of_the_rows_or_of_vectors():
    solution = sx.fast.psvm(X, TWO, C=2.0, kernel=sx.RBF(0.5))
    v = np.zeros(TWO.size)
    v[solution.model.support] = solution.model.dual_coef
    stated = {"problem": "psvm", "C": 2.0, "kernel": sx.RBF(0.5)}
    whole = sx.certify({"dual_coef": v, "intercept": solution.model.intercept}, X, TWO, **stated)
    own = SimpleNamespace(
        dual_coef_=v[None],
        support_vectors_=X,
        intercept_=np.array([solution.model.intercept]),
        kernel="rbf",
    )
    assert whole.is_certified(1e-6)
    assert sx.certify(own, X, TWO, **stated).upper == whole.upper


def test_weights_and_class_weights_belong_to_the_problem():
    weight = 1.0 + np.arange(TWO.size) % 3
    solution = sx.fast.psvm(X, TWO, C=1.0, sample_weight=np.where(TWO > 0, 2.0, 1.0) * weight)
    model = (solution.model.coef, solution.model.intercept)
    found = sx.certify(model, X, TWO, weight, problem="psvm", C=1.0, class_weight={1: 2.0, -1: 1.0})
    assert found.is_certified(1e-6)
    assert not sx.certify(model, X, TWO, problem="psvm", C=1.0).is_certified(1e-4)


@pytest.mark.parametrize(
    ("model", "changes", "words"),
    [
        ((-W, -B), {}, "with the opposite sign"),
        ((W, B), {"classes": [1, -1]}, "with the opposite sign"),
        ((3 * W, 3 * B), {}, r"multiplied by 0\.333"),
    ],
)
def test_a_wrong_sign_and_a_wrong_scale_are_noticed(model, changes, words):
    with pytest.warns(UserWarning, match=words):
        found = sx.certify(model, X, TWO, **{**PROBLEM, **changes})
    assert found.gap > 0.1


SWAPPED = np.where(TWO == 1, -1, 1)
SVM = {"problem": "psvm", "C": 2.0}
RBF_SVC = SVC(C=2.0, gamma=0.5, tol=1e-6).fit(X, TWO)
LINEAR_SVC = SVC(kernel="linear", C=2.0, tol=1e-6).fit(X, TWO)


def every_row(sign):
    """Dual coefficients of a fitted SVC for all rows, times a number."""
    v = np.zeros(TWO.size)
    v[RBF_SVC.support_] = sign * RBF_SVC.dual_coef_[0]
    return {"dual_coef": v, "intercept": sign * RBF_SVC.intercept_}


@pytest.mark.parametrize(
    ("model", "rows", "y", "problem", "words"),
    [
        (FILES / "libsvm_rbf.model", X, SWAPPED, SVM, "with the opposite sign"),
        (FILES / "libsvm_linear.model", X, SWAPPED, SVM, "with the opposite sign"),
        (FILES / "liblinear_hinge.model", X, SWAPPED, SVM, "with the opposite sign"),
        (FILES / "liblinear_hinge.model", 3 * X, TWO, SVM, r"multiplied by 0\.45"),
        (
            FILES / "liblinear_crammer_singer.model",
            3 * X,
            THREE,
            {"problem": "crammer-singer", "lam": 0.25, "intercept": False},
            r"multiplied by 0\.333",
        ),
        (LINEAR_SVC, X, SWAPPED, SVM, "with the opposite sign"),
        (every_row(-1), X, TWO, SVM | {"kernel": sx.RBF(0.5)}, "with the opposite sign"),
        (every_row(3), X, TWO, SVM | {"kernel": sx.RBF(0.5)}, r"multiplied by 0\.333"),
        ({"coef": -W, "intercept": -B}, X, TWO, PROBLEM, "with the opposite sign"),
        (
            SimpleNamespace(weight=3 * W[None], bias=np.array([3 * B])),
            X,
            TWO,
            PROBLEM,
            r"multiplied by 0\.333",
        ),
        (
            SimpleNamespace(weight=-W[None], bias=np.array([-B])),
            X,
            TWO,
            PROBLEM,
            "with the opposite sign",
        ),
    ],
)
def test_they_are_noticed_in_models_of_every_source(model, rows, y, problem, words):
    with pytest.warns(UserWarning, match=words):
        sx.certify(model, rows, y, **problem)


@pytest.mark.parametrize(
    ("factor", "words"), [(-1, "with the opposite sign"), (3, r"multiplied by 0\.333")]
)
def test_they_are_noticed_in_variables_of_a_problem(factor, words):
    problem = sx.psvm_primal(X, TWO, C=2.0, p=1)
    problem.solve(solver="CLARABEL")
    for name in ("w", "b"):
        problem.var_dict[name].value = factor * np.asarray(problem.var_dict[name].value)
    with pytest.warns(UserWarning, match=words):
        sx.certify(problem)


def test_a_model_that_is_worse_than_zero_coefficients_is_noticed():
    rows = X * np.logspace(2, -2, X.shape[1])
    with pytest.warns(UserWarning, match="larger than that of coefficients of zero"):
        sx.certify((W, B), rows, TWO, **PROBLEM)


def test_an_unknown_hyper_parameter_says_what_was_meant():
    with pytest.raises(sx.DataError, match="'c': the weight is called C"):
        sx.certify((W, B), X, TWO, problem="psvm", c=1.0)


@pytest.mark.parametrize("problem", ["zero-one", "ramp", "l0"])
def test_heuristics_for_problems_that_are_not_convex_are_held_to_the_search(problem):
    rows = slice(0, 12)
    exact = {
        "zero-one": lambda: sx.fast.zero_one(X[rows], TWO[rows], lam=1.0),
        "ramp": lambda: sx.fast.ramp(X[rows], TWO[rows]),
        "l0": lambda: sx.fast.l0(X[rows], TWO[rows], method="search"),
    }[problem]()
    best = sx.certify(exact.model, X[rows], TWO[rows], problem=problem)
    assert best.kind == "enumeration"
    assert best.is_certified(1e-6)
    heuristic = RidgeClassifier().fit(X[rows], TWO[rows])
    other = sx.certify(heuristic, X[rows], TWO[rows], problem=problem)
    assert other.lower == pytest.approx(best.lower, rel=1e-6)
    assert other.upper > best.upper
    assert other.upper >= exact.certificate.lower


def test_a_problem_that_was_solved_elsewhere():
    for build in (sx.psvm_primal, sx.psvm_dual):
        problem = build(X, TWO, C=2.0, p=1)
        with pytest.raises(sx.DataError, match="solve it first"):
            sx.certify(problem)
        problem.solve(solver="OSQP")
        assert sx.certify(problem).is_certified(1e-3)
    rough = sx.psvm_primal(X, TWO, C=2.0, p=1)
    rough.solve(solver="SCS", eps_abs=1e-2, eps_rel=1e-2)
    # The point itself is certified, not one that was computed from it.
    assert sx.certify(rough).gap > sx.solve(sx.psvm_primal(X, TWO, C=2.0, p=1)).certificate.gap


@pytest.mark.parametrize(
    ("model", "keywords", "words"),
    [
        (3, PROBLEM, "got int"),
        ((W, B), {"problem": "psvn"}, "did you mean 'psvm'"),
        ((W, B), {"problem": "psvm", "kappa": 1.0}, "no hyper-parameter 'kappa'"),
        ((W, B), {"C": 1.0}, "C belong to a problem; name it"),
        ((W[:1], B), PROBLEM, r"shape \(1, 1\)"),
        ((np.array([np.nan, 1.0]), B), PROBLEM, "must be finite"),
        ({"weights": W}, PROBLEM, "must have coef or dual_coef"),
        ((W, B), {**PROBLEM, "classes": [0, 1]}, "classes of y in the order of the model"),
        (FILES / "liblinear_logistic.model", PROBLEM, "a model of type L2R_LR"),
        (FILES / "data.csv", PROBLEM, "no model file"),
    ],
)
def test_what_cannot_be_certified_is_refused(model, keywords, words):
    with pytest.raises(sx.DataError, match=words):
        sx.certify(model, X, TWO, **keywords)


@pytest.mark.parametrize("lines", [3, 9, 11])
def test_a_damaged_file_is_refused(lines, tmp_path):
    text = (FILES / "libsvm_rbf.model").read_text().splitlines()
    (tmp_path / "x.model").write_text("\n".join(text[:lines]))
    with pytest.raises(sx.DataError, match=r"not a complete model file|support vectors"):
        sx.certify(tmp_path / "x.model", X, TWO, **PROBLEM)
    (tmp_path / "y.model").write_text("\n".join([*text[:-1], "0.5 9:1.0"]))
    with pytest.raises(sx.DataError, match="a feature 9, and X has 2 columns"):
        sx.certify(tmp_path / "y.model", X, TWO, **PROBLEM)
