"""The fast M3SVM against the conic route, its own limits, and what every fast solver must do."""

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.preprocessing import scale

import svmcvx as sx
from svmcvx.data import multiclass_data
from svmcvx.fast.several_classes.newton import (
    Continuation,
    Envelope,
    FaceCurvature,
    M3SVMBounds,
    observation_step,
)
from svmcvx.fast.several_classes.penalties import M3SVMSystem, PairNorms, PairPowers
from svmcvx.fast.several_classes.solvers import M3SVMSettings, m3svm
from svmcvx.fast.several_classes.systems import (
    JointCurvature,
    ScoreSystemSettings,
    SeparateCurvature,
)
from svmcvx.formulations.multiclass.machines import LOSSES, M3SVM, bound_m3svm
from svmcvx.formulations.multiclass.statement import ScoreSpace
from tests.intervals import overlap

EXPONENTS = (1.0, 1.01, 1.3, 2.0, 3.0, 4.0, 8.0)
DESIGNS = (
    "plain",
    "offset",
    "duplicates",
    "constant column",
    "one-point class",
    "wide",
    "separable",
    "tiny",
    "two classes",
    "integers",
    "zeros",
)


def design(name, seed, n=24, d=3, c=4):
    rng = np.random.default_rng(seed)
    if name == "wide":
        n, d = 9, 20
    if name == "two classes":
        c = 2
    y = np.arange(n) % c
    X = rng.standard_normal((n, d)) + rng.standard_normal((c, d))[y]
    if name == "offset":
        X += 1e3
    elif name == "duplicates":
        X[n // 2 :] = X[: n - n // 2]
    elif name == "constant column":
        X[:, 0] = 3.0
    elif name == "one-point class":
        y = np.where(np.arange(n) == 0, 0, 1 + np.arange(n) % (c - 1))
    elif name == "separable":
        X += 30.0 * np.eye(c, d)[y]
    elif name == "tiny":
        X *= 1e-5
    elif name == "integers":
        X = np.round(X)
    elif name == "zeros":
        X[:] = 0.0
    return X, y


@settings(max_examples=30)
@given(
    name=st.sampled_from(DESIGNS),
    p=st.sampled_from(EXPONENTS),
    loss=st.sampled_from(("hinge", "hinge", *LOSSES)),
    lam=st.sampled_from((1e-5, 1e-2, 1.0, 1e3)),
    eps=st.sampled_from((1e-6, 1e-2)),
    seed=st.integers(0, 10**6),
)
def test_every_setting_is_certified_and_agrees_with_the_conic_route(name, p, loss, lam, eps, seed):
    X, y = design(name, seed)
    fast = m3svm(X, y, lam=lam, p=p, loss=loss, eps=eps)
    assert fast.status == "optimal"
    assert fast.certificate.gap <= 1e-6
    try:
        conic = sx.solve(sx.m3svm(X, y, lam=lam, p=p, loss=loss, eps=eps))
    except sx.SolverFailed:
        return
    overlap(fast, conic, (name, p, loss, lam, eps, seed), gap=1e-3)
    assert fast.formulation == "m3svm"
    assert fast.hyperparameters == conic.hyperparameters


def conjugate_gradients(**systems):
    """Settings with which no Newton matrix is factorised."""
    return M3SVMSettings(largest_direct=0, systems=ScoreSystemSettings(**systems))


def test_wide_sparse_data_are_not_made_dense(monkeypatch):
    X, y = design("wide", 4)
    X[np.abs(X) < 0.7] = 0.0
    dense = m3svm(X, y, lam=0.1, p=3.0)
    monkeypatch.setattr(sp.csr_array, "toarray", lambda *_, **__: pytest.fail("made dense"))
    overlap(
        dense,
        m3svm(
            sp.csr_array(X),
            y,
            lam=0.1,
            p=3.0,
            method="newton",
            settings=conjugate_gradients(largest_block=0),
        ),
    )


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("p", [1.0, 1.5, 4.0])
def test_conjugate_gradients_end_at_the_same_optimum(p, loss):
    X, y = design("plain", 5, n=50)
    direct = m3svm(X, y, lam=0.1, p=p, loss=loss)
    for block in (0, 1500):
        settings = conjugate_gradients(largest_block=block)
        iterative = m3svm(X, y, lam=0.1, p=p, loss=loss, method="newton", settings=settings)
        assert iterative.attempts[0].options["linear_systems"] == "conjugate gradients"
        overlap(direct, iterative)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("p", [1.5, 2.0, 4.0])
def test_the_newton_step_solves_the_newton_system(p, loss):
    X, y = design("plain", 6, n=40)
    system = M3SVMSystem(
        bound_m3svm(X, y, lam=0.3, p=p, eps=1e-3, loss=loss, norm=2, delta=0.1, sample_weight=None)
    )
    rng = np.random.default_rng(0)
    U = rng.standard_normal(system.shape)
    U -= U.mean(axis=1, keepdims=True)
    scores, statement = system.scores, system.statement

    def gradient_at(U):
        a = statement.loss.multipliers(scores.differences(system.Z @ U))
        return system.gradient(a, PairNorms(system, U, 0.1, None).gradient), a

    gradient, a = gradient_at(U)
    curvature = (
        JointCurvature(scores, a)
        if loss == "softmax"
        else SeparateCurvature(scores, system.members, a * (1.0 - a))
    )
    norms = PairNorms(system, U, 0.1, None)
    direct = system.direct_step(gradient, curvature, norms, complete=True)
    iterative = system.iterative_step(gradient, curvature, norms, forcing=1e-12, limit=500)
    np.testing.assert_allclose(direct, iterative, rtol=1e-6, atol=1e-9)
    # To first order the step takes the gradient away.
    t = 1e-5
    after = gradient_at(U + t * direct)[0]
    np.testing.assert_allclose(
        after - gradient, -t * gradient, rtol=1e-2, atol=1e-3 * t * np.abs(gradient).max()
    )


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from(DESIGNS),
    p=st.sampled_from((2.0, 2.5, 4.0, 8.0)),
    lam=st.sampled_from((1e-5, 1e-2, 1.0, 1e3)),
    eps=st.sampled_from((1e-6, 1e-2, 10.0)),
    seed=st.integers(0, 10**6),
)
def test_the_augmented_method_and_interior_point_steps_are_certified_and_agree_with_newtons(
    name, p, lam, eps, seed
):
    X, y = design(name, seed)
    augmented, newton, chosen = (
        m3svm(X, y, lam=lam, p=p, eps=eps, method=method)
        for method in ("augmented", "newton", "auto")
    )
    assert chosen.solver.startswith("fast.m3svm/interior")
    for found in (augmented, chosen):
        assert found.status == "optimal"
        assert found.certificate.gap <= 1e-6
        overlap(found, newton, (name, p, lam, eps, seed))


@pytest.mark.parametrize("p", [2.0, 3.0, 6.0])
@pytest.mark.parametrize("sparse", [False, True])
def test_steps_by_classes_products_and_observations_are_the_same(p, sparse):
    X, y = design("plain", 8, n=40)
    data = sp.csr_array(X) if sparse else X + 2.0
    settings = {
        "lam": 0.3,
        "p": p,
        "eps": 0.2,
        "loss": "hinge",
        "norm": 2,
        "delta": 1e-2,
        "sample_weight": None,
    }
    statement = bound_m3svm(data, y, **settings)
    system = M3SVMSystem(statement)
    penalty = PairPowers(system)
    rng = np.random.default_rng(0)
    U = rng.standard_normal(system.shape)
    U -= U.mean(axis=1, keepdims=True)
    envelope = Envelope(system.scores, statement.loss)
    envelope.start(0.5 * rng.random((40, 3)))
    envelope.sigma = 0.4
    response = envelope.project(system.scores.differences(system.Z @ U))
    gradient = system.gradient(envelope.multipliers(response), penalty.gradient(U))
    curvature = FaceCurvature(system.scores, envelope.sigma, envelope.faces(response))
    norms = penalty.curvature(U, gradient, 0.0)
    by_classes = system.direct_step(gradient, curvature, norms, complete=True)
    by_products = system.iterative_step(gradient, curvature, norms, forcing=1e-12, limit=2000)
    by_observations = observation_step(system, gradient, curvature, penalty.inverse(U), 0.0)
    np.testing.assert_allclose(by_classes, by_products, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_classes, by_observations, rtol=1e-6, atol=1e-8)


def test_auto_takes_the_augmented_method_where_the_newton_matrix_is_large():
    X, y = design("plain", 4, n=60)
    few = M3SVMSettings(largest_direct=5, interior_work=0.0)
    for p, loss, expected in (
        (4.0, "hinge", "augmented"),
        (1.5, "hinge", "newton"),
        (4.0, "logistic", "newton"),
    ):
        solution = m3svm(X, y, lam=0.1, p=p, loss=loss, settings=few)
        assert solution.attempts[0].solver == f"fast.m3svm/{expected}"
        assert solution.certificate.gap <= 1e-6
        overlap(solution, m3svm(X, y, lam=0.1, p=p, loss=loss))


@pytest.mark.parametrize("arguments", [{"p": 1.5}, {"p": 4.0, "loss": "softmax"}])
def test_the_augmented_method_is_one_for_hinges_and_smooth_norms(arguments):
    with pytest.raises(sx.DataError, match="augmented"):
        m3svm(*design("plain", 4), lam=0.1, method="augmented", **arguments)


def test_a_warm_start_may_come_from_other_losses_norms_and_solvers():
    X, y = design("wide", 10)
    for first in (
        m3svm(X, y, lam=1.0, p=1.0, loss="softmax"),
        sx.solve(sx.crammer_singer(X, y, lam=1.0)),
    ):
        warm = m3svm(X, y, lam=0.1, p=3.0, warm_start=first)
        assert warm.certificate.gap <= 1e-6
        overlap(warm, m3svm(X, y, lam=0.1, p=3.0))


def test_a_warm_start_of_something_else_is_refused():
    X, y = design("plain", 11)
    good = m3svm(X, y, lam=1.0, p=2.0)
    with pytest.raises(sx.DataError, match="same data, got one of other classes"):
        m3svm(X, y % 3, lam=1.0, p=2.0, warm_start=good)
    with pytest.raises(
        sx.DataError, match=r"same data, got weights of shape \(3, 4\) for 2 features and 4 classes"
    ):
        m3svm(X[:, :2], y, lam=1.0, p=2.0, warm_start=good)
    with pytest.raises(sx.DataError, match="one multiplier an observation and class"):
        m3svm(X[:-1], y[:-1], lam=1.0, p=2.0, warm_start=good)
    with pytest.raises(sx.DataError, match="must have multipliers alpha"):
        m3svm(X, y, lam=1.0, p=2.0, warm_start=dataclasses.replace(good, dual={}))
    other_labels = np.repeat(np.arange(4), y.size // 4)
    with pytest.raises(sx.DataError, match="other numbers or labels"):
        m3svm(X, other_labels, lam=1.0, p=2.0, warm_start=good)


def test_fused_classes_at_p_1():
    X, y = design("plain", 17)
    solution = m3svm(X, y, lam=100.0, p=1.0)
    assert solution.certificate.gap <= 1e-6
    assert np.abs(solution.model.coef).max() <= 1e-4


def test_no_observation_left_out_changes_where_the_steps_lead():
    X, y = design("separable", 19, n=200)
    usual = m3svm(X, y, lam=1e-3, p=4.0)
    complete = M3SVMSettings(systems=ScoreSystemSettings(negligible=0.0))
    overlap(usual, m3svm(X, y, lam=1e-3, p=4.0, settings=complete))


def test_a_step_is_one_of_descent_whatever_the_multipliers_are():
    X, y = design("plain", 20, n=40)
    scores = ScoreSpace(multiclass_data(X, y), "penalised")
    system = M3SVMSystem(
        M3SVM(scores=scores, loss=LOSSES["hinge"](), lam=0.1, p=1.0, eps=1e-4, norm=2)
    )
    rng = np.random.default_rng(1)
    for _ in range(20):
        U = rng.standard_normal(system.shape)
        U -= U.mean(axis=1, keepdims=True)
        # The monitor is asked for nothing by what is tested here.
        continuation = Continuation(system, M3SVMBounds(system), None, U)
        continuation.delta, continuation.nu = 10.0 ** rng.uniform(-6, 0, 2)
        continuation.alpha = rng.random((40, 3))
        exact, curvature = continuation._derivatives(scores.differences(continuation.scores))
        norms = PairNorms(system, U, continuation.nu, rng.standard_normal((3, 6)))
        gradient = system.gradient(exact, norms.gradient)
        step = system.direct_step(gradient, curvature, norms, complete=True)
        assert (gradient * step).sum() < 0


def test_errors_say_what_was_wrong():
    X, y = design("plain", 21)
    with pytest.raises(
        sx.DataError, match="method must be one of 'auto', 'newton', 'augmented', got 'sgd'"
    ):
        m3svm(X, y, lam=1.0, p=2.0, method="sgd")
    with pytest.raises(
        sx.DataError, match=r"p must be a finite number in \[1, inf\), got 0.5; p < 1 is not convex"
    ):
        m3svm(X, y, lam=1.0, p=0.5)


def test_the_record_names_both_methods_where_the_second_goes_on():
    X, y = design("plain", 4)
    early = M3SVMSettings(augmented=dataclasses.replace(M3SVMSettings().augmented, patience=-1))
    found = m3svm(X, y, lam=0.1, p=4.0, method="augmented", settings=early)
    assert found.certificate.is_certified(1e-6)
    assert found.solver == "fast.m3svm/augmented+newton"
    assert found.attempts[0].options["method"] == "augmented+newton"


def test_the_augmented_lagrangian_is_tried_where_factoring_is_the_work_and_left_where_its_own_systems_are_no_smaller():
    X, y = load_digits(return_X_y=True)
    X = scale(X)[:200]
    apart = m3svm(X, y[:200], lam=0.1, p=4.0)
    assert apart.solver == "fast.m3svm/augmented"
    # Labels without a rule: most multipliers lie between their bounds.
    rng = np.random.default_rng(0)
    noise, labels = rng.standard_normal((500, 60)), rng.integers(0, 10, 500)
    mixed = m3svm(noise, labels, lam=0.1, p=4.0)
    assert mixed.solver == "fast.m3svm/augmented+newton"
    # Forming the Newton matrix is most of the work of few columns and many rows; with few unknowns
    # interior-point steps are the quickest.
    assert m3svm(noise[:, :15], labels, lam=0.1, p=4.0).solver == "fast.m3svm/newton"
    assert m3svm(noise[:, :5], labels, lam=0.1, p=4.0).solver == "fast.m3svm/interior"
    for found in (apart, mixed):
        assert found.certificate.is_certified(1e-6)


def test_dual_points_that_gain_nothing_end_the_method():
    X = np.array([[9.5, -0.5, 13.2], [0.6, 45.4, 42.9], [-16.0, -3.3, -6.7], [7.0, 22.0, 56.7]])
    found = m3svm(1e53 * X, [0, 2, 0, 1], lam=7.6e-3, p=50.0, loss="softmax", tol=1e-3)
    assert found.status == "inaccurate"
    assert found.attempts[0].options["iterations"] < 300
