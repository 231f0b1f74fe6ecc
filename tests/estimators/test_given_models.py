"""Models of other programs are certified as answers to the problem that is named."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

import svmcvx as sx

# Trained on data.csv by svm-train (LIBSVM 3.37, -c 2 -e 1e-6) and train (LIBLINEAR 2.50, -c 2 -e
# 1e-8).
FILES = Path(__file__).parent / "model_files"
DATA = np.loadtxt(FILES / "data.csv", delimiter=",", skiprows=1)
X, TWO, THREE = DATA[:, :2], DATA[:, 2].astype(int), DATA[:, 3].astype(int)
BEST = sx.fast.psvm(X, TWO, C=2.0, p=1.5)
W, B = BEST.model.coef, BEST.model.intercept
PROBLEM = {"problem": "psvm", "C": 2.0, "p": 1.5}
JOINT = {"lam": 0.25, "intercept": False}


@pytest.mark.parametrize(
    ("file", "y", "problem", "hyperparameters", "keys"),
    [
        ("libsvm_rbf", TWO, "psvm", {"C": 2.0}, None),
        ("libsvm_linear", TWO, "psvm", {"C": 2.0}, None),
        ("libsvm_polynomial_three", THREE, "psvm", {"C": 2.0}, {(1, 2), (1, 3), (2, 3)}),
        ("liblinear_hinge", TWO, "psvm", {"C": 2.0}, None),
        ("liblinear_squared_hinge", TWO, "psvm", {"C": 2.0, "p": 2.0}, None),
        ("liblinear_three", THREE, "psvm", {"C": 2.0, "p": 2.0}, {1, 2, 3}),
        ("liblinear_crammer_singer", THREE, "crammer-singer", JOINT, None),
    ],
)
def test_model_files_of_libsvm_and_liblinear(file, y, problem, hyperparameters, keys):
    found = sx.certify(FILES / f"{file}.model", X, y, problem=problem, **hyperparameters)
    assert found.parts.keys() == (keys or set())
    for certificate in (found, *found.parts.values()):
        assert certificate.is_certified(1e-6)


def test_a_model_with_another_kernel_is_no_point_of_the_problem():
    """The optimum falls a little with γ: the objective of the narrower kernel's machine would be
    below every value that the problem has.
    """
    own, other = (
        sx.fast.psvm(X, TWO, C=2.0, kernel=sx.RBF(gamma=gamma), tol=1e-9) for gamma in (0.5, 0.5001)
    )
    ends = [own.certificate, other.certificate]
    assert min(one.upper for one in ends) < max(one.lower for one in ends)
    how = {"problem": "psvm", "C": 2.0, "kernel": "rbf"}
    for solution, gamma in ((own, 0.5001), (other, 0.5)):
        with pytest.raises(sx.DataError, match="has the kernel RBF"):
            sx.certify(solution.model, X, TWO, gamma=gamma, **how)
    with pytest.raises(sx.DataError, match="has the kernel"):
        sx.certify((W, B), X, TWO, gamma=0.5, **how)
    assert sx.certify((W, B), X, TWO, kernel="linear", **PROBLEM).is_certified(1e-6)


GIVEN = {
    "a pair": (W, B),
    "a mapping": {"coef": W, "intercept": B},
    "a model": BEST.model,
    "attributes": SimpleNamespace(coef_=W[None], intercept_=[B]),
    "a linear layer": SimpleNamespace(weight=W[None], bias=np.array([B])),
}


@pytest.mark.parametrize("form", GIVEN)
def test_forms_of_one_model(form):
    assert sx.certify(GIVEN[form], X, TWO, **PROBLEM).is_certified(1e-6)


def test_a_linear_layer_of_pytorch():
    torch = pytest.importorskip("torch")
    layer = torch.nn.Linear(2, 1, dtype=torch.float64)
    with torch.no_grad():
        layer.weight[:] = torch.from_numpy(W.copy())
        layer.bias[:] = B
    assert sx.certify(layer, X, TWO, **PROBLEM).is_certified(1e-6)


def test_dual_coefficients_are_of_the_rows_or_of_vectors():
    solution = sx.fast.psvm(X, TWO, C=2.0, kernel=sx.RBF(0.5))
    v = np.zeros(TWO.size)
    v[solution.model.support] = solution.model.dual_coef
    stated = {"problem": "psvm", "C": 2.0, "kernel": sx.RBF(0.5)}
    whole = sx.certify({"dual_coef": v, "intercept": solution.model.intercept}, X, TWO, **stated)
    bias = np.array([solution.model.intercept])
    own = SimpleNamespace(dual_coef_=v[None], support_vectors_=X, intercept_=bias)
    assert whole.is_certified(1e-6)
    assert sx.certify(own, X, TWO, **stated).upper == whole.upper


def test_weights_and_class_weights_belong_to_the_problem():
    weight = 1.0 + np.arange(TWO.size) % 3
    solution = sx.fast.psvm(X, TWO, C=1.0, sample_weight=np.where(TWO > 0, 2.0, 1.0) * weight)
    model = (solution.model.coef, solution.model.intercept)
    found = sx.certify(model, X, TWO, weight, problem="psvm", C=1.0, class_weight={1: 2.0, -1: 1.0})
    assert found.is_certified(1e-6)
    assert not sx.certify(model, X, TWO, problem="psvm", C=1.0).is_certified(1e-4)


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
        ((W, B), {"problem": "psvm", "kappa": 1.0}, "no parameter 'kappa'"),
        ((W, B), {"problem": "psvm", "c": 1.0}, "'c': the weight is called C"),
        ((W, B), {"C": 1.0}, "C belong to a problem; name it"),
        ((W[:1], B), PROBLEM, r"shape \(1, 1\)"),
        ((np.array([np.nan, 1.0]), B), PROBLEM, "must be finite"),
        ({"weights": W}, PROBLEM, "must have coef or dual_coef"),
        ((W, B), {**PROBLEM, "classes": [0, 1]}, "classes of y in the order of the model"),
        (FILES / "liblinear_logistic.model", PROBLEM, "solver_type must be one of .*got 'L2R_LR'"),
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
    with pytest.raises(sx.DataError, match="9 features"):
        sx.certify(tmp_path / "y.model", X, TWO, **PROBLEM)
