"""Solving on until rows are decided."""

import numpy as np
import pytest
from scipy.optimize import brentq

import svmcvx as sx
from svmcvx.guarantees import dispatch, refine
from svmcvx.solution import Status
from tests.conftest import make_data

X, Y = make_data(n=80, overlap=1.5)
THREE = np.where(X[:, 0] > 0.5, "c", np.where(X[:, 1] > 0, "b", "a"))
T = np.random.default_rng(5).normal(X.mean(axis=0), 1.5 * X.std(axis=0), (60, X.shape[1]))
RBF = sx.RBF(0.5)
WEIGHT = np.random.default_rng(0).choice([0.0, 1.0, 2.0], 80)


BINARY, SEVERAL, SIDES = (X, Y), (X, THREE), (X, X[:, 0] > 0.0)


@pytest.mark.parametrize(
    ("solve", "data", "settings"),
    [
        (sx.fast.psvm, BINARY, {"p": 1.5, "C": 10.0, "kernel": RBF, "sample_weight": WEIGHT}),
        (sx.fast.psvm, BINARY, {"C": 10.0}),
        (sx.fast.psvm, BINARY, {"p": 2.0, "intercept": "none"}),
        (sx.fast.psvm, BINARY, {"kernel": RBF, "intercept": "penalised"}),
        (sx.odm_dual, BINARY, {"C1": 9.0, "C2": 2.0, "D": 0.1}),
        (sx.fast.odm, BINARY, {"C1": 9.0, "C2": 2.0, "D": 0.1, "intercept": True}),
        (sx.fast.odml, BINARY, {"C": 9.0, "lam1": 0.1, "lam2": 0.1, "kernel": RBF}),
        (sx.fast.hard_margin, SIDES, {}),
        (sx.fast.multiclass, SEVERAL, {"loss": "crammer_singer", "lam": 0.1}),
        (sx.fast.multiclass, SEVERAL, {"loss": "topk", "k": 2, "lam": 0.1, "intercept": False}),
        (sx.fast.m3svm, SEVERAL, {"lam": 0.1, "p": 3.0, "loss": "logistic"}),
        (sx.PSVMClassifier, SEVERAL, {"kernel": RBF, "solver": "fast"}),
        (sx.ODMClassifier, SEVERAL, {"multiclass": "ovr", "solver": "fast"}),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_row_is_decided_at_last(solve, data, settings):
    labels = data[1]

    def solved(tol):
        if isinstance(solve, type):
            return solve(tol=tol, **settings).fit(*data).solution_
        if solve is sx.odm_dual:
            return sx.solve(solve(*data, **settings), tol=tol)
        return solve(*data, tol=tol, **settings)

    loose = solved(0.3)
    before = sx.guarantee(loose, X, labels).scores(T)
    found = refine(loose, X, labels, T)
    assert found.undecided == (0, 0, 60)
    assert found.certificate.gap <= loose.certificate.gap
    exact = sx.guarantee(found, X, labels)
    decided = exact.predict(T)
    # What the loose solution decides is decided in the same way.
    assert (decided[before.decided] == before.labels[before.decided]).all()
    reference = sx.guarantee(solved(1e-10), X, labels).scores(T)
    assert (decided[reference.decided] == reference.labels[reference.decided]).all()
    assert found.formulation == loose.formulation
    assert refine(found, X, labels, T) is not found
    assert refine(found, X, labels, T).model is found.model


def test_what_the_formulation_leaves_open_is_told_apart():
    two, labels = [[-1.0], [1.0]], ["left", "right"]
    loose = sx.fast.psvm(two, labels, C=0.125)
    found = refine(loose, two, labels, [[-9.0], [1.0], [9.0]])
    assert found.undecided == (0, 1, 3)
    assert found.undecided.share == pytest.approx(1 / 3)
    assert str(found.undecided) == "1 of 3 rows undecided (0 by the gap, 1 by the formulation)"
    assert "1 by the formulation" in found.summary()
    assert loose.undecided is None


def test_it_ends_at_the_smallest_gap_that_is_asked_for():
    loose = sx.fast.psvm(X, Y, p=1.5, kernel=RBF, tol=0.3)
    # A row where the score of the optimum is about zero is not decided by any gap.
    tight = sx.fast.psvm(X, Y, p=1.5, kernel=RBF, tol=1e-12).model
    a, b = X[[int(np.flatnonzero(label == Y)[0]) for label in tight.classes]]
    row = [a + brentq(lambda t: tight.decision_function([a + t * (b - a)])[0], 0.0, 1.0) * (b - a)]
    for tol in (1e-3, 1e-6):
        found = refine(loose, X, Y, row, tol=tol)
        assert found.undecided.by_gap == 1
        assert found.certificate.gap <= tol
    assert refine(loose, X, Y, row, tol=0.5).model is loose.model
    assert refine(loose, X, Y, row).undecided.by_gap == 1


def test_limits_and_interrupts_give_the_best_so_far(monkeypatch):
    loose = sx.fast.psvm(X, Y, p=1.5, kernel=RBF, tol=0.3)
    found = refine(loose, X, Y, T, time_limit=1e-9)
    assert (found.status, found.undecided.by_gap) == (Status.TIME_LIMIT, 60)
    count = []

    def interrupted(*arguments):
        count.append(arguments)
        if len(count) == 2:
            raise KeyboardInterrupt
        return guarantee(*arguments)

    guarantee = dispatch.guarantee
    monkeypatch.setattr(dispatch, "guarantee", interrupted)
    found = refine(loose, X, Y, T)
    assert found.status is Status.INTERRUPTED
    # As the first look has it.
    assert found.undecided.by_gap == guarantee(loose, X, Y).scores(T).undecided.sum()


def test_what_cannot_be_refined_is_refused():
    solution = sx.fast.psvm(X, Y)
    for arguments, keywords, message in (
        ((X + 1.0, Y, T), {}, "X and y are not the data of the solution"),
        ((X, Y, T), {"tol": 0.0}, "tol must"),
        ((X, Y, T[:, :1]), {}, "T has 1 features"),
        ((X, Y, T), {"time_limit": -1.0}, "time_limit"),
    ):
        with pytest.raises(sx.DataError, match=message):
            refine(solution, *arguments, **keywords)
    with pytest.raises(sx.DataError, match="no guarantees of conic"):
        refine(sx.fast.conic(X, Y, lam=1.0), X, Y, T)
