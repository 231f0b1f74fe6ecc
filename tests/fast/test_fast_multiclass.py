"""The fast classical multi-class machines against the conic route, scikit-learn, and each other."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC

import svmcvx as sx
from svmcvx.fast.several_classes import projection_passes as passes
from svmcvx.fast.several_classes.newton import (
    ClassicalNewtonSettings,
    Envelope,
    FaceCurvature,
    Projection,
    observation_step,
)
from svmcvx.fast.several_classes.penalties import ClassicalSystem
from svmcvx.fast.several_classes.solvers import MulticlassSettings, multiclass
from svmcvx.fast.several_classes.systems import JointCurvature, ScoreSystemSettings
from svmcvx.formulations.multiclass.losses import HingeSum, LargestHinge, TopHinge
from svmcvx.formulations.multiclass.machines import MACHINES, bound_classical
from svmcvx.formulations.multiclass.statement import ScoreSpace
from tests.fast.test_fast_m3svm import DESIGNS, design
from tests.intervals import overlap

LOSSES = tuple(MACHINES)
HINGES = ("weston_watkins", "crammer_singer", "msvm", "topk")


@settings(max_examples=25, deadline=None)
@given(
    name=st.sampled_from(DESIGNS),
    loss=st.sampled_from(LOSSES),
    k=st.integers(1, 4),
    lam=st.sampled_from((1e-5, 1e-2, 1.0, 1e3)),
    intercept=st.booleans(),
    sparse=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_every_setting_is_certified_and_agrees_with_the_conic_route(
    name, loss, k, lam, intercept, sparse, seed
):
    X, y = design(name, seed)
    k = min(k, np.unique(y).size)
    data = sp.csr_array(X) if sparse else X
    settings = MulticlassSettings(interior_work=0.0) if seed % 2 else None
    fast = multiclass(data, y, lam=lam, loss=loss, k=k, intercept=intercept, settings=settings)
    assert fast.status == "optimal"
    assert fast.certificate.gap <= 1e-6
    try:
        conic = sx.solve(sx.multiclass(X, y, lam=lam, loss=loss, k=k, intercept=intercept))
    except sx.SolverFailed:
        return
    # The conic solver may end with a wide interval at the smallest penalty.
    overlap(
        fast,
        conic,
        (name, loss, k, lam, intercept, seed),
        gap=1e-3 if conic.status == "optimal" else 1.0,
    )
    assert fast.formulation == conic.formulation == MACHINES[loss].builder
    assert fast.hyperparameters == conic.hyperparameters


@pytest.mark.parametrize("seed", [0, 54, 92, 110])
def test_a_sparse_softmax_with_an_offset_and_no_intercept_is_certified(seed):
    """Weights in doubles cannot represent multipliers with so small a gradient: the dual point is
    that of the linearised equations.
    """
    X, y = design("offset", seed)
    fast = multiclass(X, y, lam=1e-5, loss="sparse_softmax", intercept=False)
    assert fast.status == "optimal"
    assert fast.certificate.gap <= 1e-6
    conic = sx.solve(sx.multiclass(X, y, lam=1e-5, loss="sparse_softmax", intercept=False))
    overlap(fast, conic, gap=1.0)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_common_builder_is_that_of_each_machine(loss):
    X, y = design("plain", 2)
    common = sx.multiclass(X, y, lam=0.2, loss=loss)
    own = getattr(sx, MACHINES[loss].builder)(X, y, lam=0.2)
    assert common.formulation.name == own.formulation.name
    assert common.formulation.hyperparameters == own.formulation.hyperparameters


@pytest.mark.parametrize("C", [0.1, 10.0])
def test_softmax_is_logistic_regression_of_scikit_learn(C):
    X, y = design("plain", 3, n=80)
    ours = multiclass(X, y, lam=1 / (2 * C), loss="softmax", tol=1e-10)
    theirs = LogisticRegression(C=C, tol=1e-12, max_iter=10_000).fit(X, y)
    np.testing.assert_allclose(ours.model.coef.T, theirs.coef_, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(ours.model.intercept, theirs.intercept_, rtol=1e-3, atol=1e-3)


def test_crammer_singer_without_intercept_is_linear_svc_of_scikit_learn():
    X, y = design("plain", 4, n=80)
    C = 0.5
    ours = multiclass(X, y, lam=1 / (2 * C), loss="crammer_singer", intercept=False, tol=1e-10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = LinearSVC(
            multi_class="crammer_singer", fit_intercept=False, C=C, tol=1e-8, max_iter=100_000
        )
        theirs.fit(X, y)
    S = X @ theirs.coef_.T
    violation = 1.0 + S - S[np.arange(y.size), y][:, None]
    violation[np.arange(y.size), y] = 0.0
    value = violation.max(axis=1).sum() + (theirs.coef_**2).sum() / (2 * C)
    assert ours.certificate.lower <= value * (1 + 1e-9)
    assert value == pytest.approx(ours.certificate.upper, rel=1e-6)


def by_products(block):
    """Settings with which no matrix is factorised."""
    return MulticlassSettings(
        ClassicalNewtonSettings(largest_direct=0),
        ScoreSystemSettings(largest_block=block),
        interior_work=0.0,
    )


@pytest.mark.parametrize("enough", [0.5, 0.0])
def test_conjugate_gradients_of_softmax_begin_without_observations_of_nearly_certain_class(
    enough, monkeypatch
):
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    # Five sixths of the observations are far from all boundaries.
    X = rng.standard_normal((120, 4)) + 12.0 * np.eye(4)[y] * (np.arange(120) >= 20)[:, None]
    taken = []
    product = JointCurvature.product

    def counted(curvature, Z, rows=slice(None)):
        taken.append(Z.shape[0])
        return product(curvature, Z, rows)

    monkeypatch.setattr(JointCurvature, "product", counted)
    # On so few rows most are on some boundary. With the residual 0 that is allowed, every step is
    # continued with all observations.
    monkeypatch.setattr("svmcvx.fast.several_classes.systems.FEW", 1.0)
    monkeypatch.setattr("svmcvx.fast.several_classes.systems.LARGEST_RESIDUAL", enough)
    some = multiclass(X, y, lam=0.01, loss="softmax", tol=1e-8, settings=by_products(1500))
    assert min(taken) < 100
    assert max(taken) == 120
    assert some.certificate.gap <= 1e-8
    monkeypatch.setattr("svmcvx.fast.several_classes.systems.FEW", 0.0)
    taken.clear()
    whole = multiclass(X, y, lam=0.01, loss="softmax", tol=1e-8, settings=by_products(1500))
    assert set(taken) == {120}
    overlap(some, whole)
    np.testing.assert_allclose(some.model.coef, whole.model.coef, atol=1e-3)


@pytest.mark.parametrize("block", [0, 1500])
@pytest.mark.parametrize("loss", LOSSES)
def test_conjugate_gradients_end_at_the_same_optimum(loss, block):
    X, y = design("wide", 7)
    direct = multiclass(X, y, lam=0.1, loss=loss, settings=MulticlassSettings(interior_work=0.0))
    solution = multiclass(X, y, lam=0.1, loss=loss, settings=by_products(block))
    assert solution.attempts[0].options["linear_systems"] == "conjugate gradients"
    assert solution.certificate.gap <= 1e-6
    overlap(solution, direct)
    kinds = direct.attempts[0].options["linear_systems"]
    assert ("by observations" in kinds) == (loss in HINGES)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", HINGES)
def test_the_three_newton_steps_are_the_same(loss, intercept):
    X, y = design("plain", 8, n=40)
    system = ClassicalSystem(
        bound_classical(X, y, lam=0.3, loss=loss, k=2, intercept=intercept, sample_weight=None)
    )
    rng = np.random.default_rng(0)
    U = rng.standard_normal(system.shape)
    U -= U.mean(axis=1, keepdims=True)
    envelope = Envelope(system.scores, system.statement.loss)
    envelope.start(system.statement.projected(rng.random((40, 3))))
    envelope.sigma = 0.4

    def gradient_at(U):
        response = envelope.project(system.scores.differences(system.Z @ U))
        return system.gradient(envelope.multipliers(response), system.penalty.gradient(U)), response

    gradient, response = gradient_at(U)
    curvature = FaceCurvature(system.scores, envelope.sigma, envelope.faces(response))
    damping = 1e-3
    squares = system.penalty.curvature(U, gradient, damping)
    by_classes = system.direct_step(gradient, curvature, squares, complete=True)
    by_products = system.iterative_step(gradient, curvature, squares, forcing=1e-12, limit=500)
    by_observations = observation_step(
        system, gradient, curvature, system.penalty.inverse(U), damping
    )
    np.testing.assert_allclose(by_classes, by_products, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(by_classes, by_observations, rtol=1e-6, atol=1e-8)
    # To first order the step takes the gradient away.
    t = 1e-7
    change = (gradient_at(U + t * by_classes)[0] - gradient) / t
    expected = -gradient
    expected[system.columns :] -= damping * by_classes[system.columns :]
    np.testing.assert_allclose(change, expected, rtol=1e-4, atol=1e-4 * np.abs(gradient).max())


@settings(max_examples=40, deadline=None)
@given(c=st.integers(2, 6), k=st.integers(0, 6), seed=st.integers(0, 10**6))
def test_projections_are_nearest_points_and_their_faces_derivatives(c, k, seed):
    rng = np.random.default_rng(seed)
    n = 12
    y = np.arange(n) % c
    data = sx.data.multiclass_data(rng.standard_normal((n, 2)), y, rng.uniform(0.5, 2.0, n))
    scores = ScoreSpace(data, "free")
    loss = HingeSum() if k == 0 else LargestHinge() if k == 1 else TopHinge(min(k, c))
    envelope = Envelope(scores, loss)
    envelope.start(loss.project(rng.random((n, c - 1)), data.weight))
    envelope.sigma = float(rng.choice([0.1, 1.0, 10.0]))
    f = rng.standard_normal((n, c - 1)) + rng.choice([-1.0, 1.0])
    response = envelope.project(f)
    a = envelope.multipliers(response)
    assert loss.domain_violation(a, data.weight) <= 1e-12
    # Nearest: no other point of the domain lies on the far side. The entry of the own class counts
    # where there is one.
    raw = envelope.centre.copy()
    raw[:, : c - 1] += envelope.sigma * (1.0 - f)
    for _ in range(20):
        other = Envelope(scores, loss)
        other.start(loss.project(rng.random((n, c - 1)) * rng.choice([0.1, 1.0, 3.0]), data.weight))
        toward = ((raw - response.full) * (other.centre - response.full)).sum(axis=1)
        assert toward.max() <= 1e-9 * (1.0 + np.abs(raw).max() ** 2)
    df = rng.standard_normal(f.shape)
    t = 1e-8
    change = (a - envelope.multipliers(envelope.project(f + t * df))) / t
    image = FaceCurvature(scores, envelope.sigma, envelope.faces(response)).apply(df)
    # A kink between the two points is rare: at most one row may have one.
    assert np.sort(np.abs(change - image).max(axis=1))[-2] <= 1e-5 * envelope.sigma + 1e-6


def test_k_equal_multipliers_leave_no_room_for_others():
    # A fourth one is positive by rounding alone, where numbers are of 1e10.
    data = sx.data.multiclass_data(np.zeros((4, 1)), np.arange(4))
    envelope = Envelope(ScoreSpace(data, "free"), TopHinge(2))
    state = np.full((4, 4), passes.BOUND, dtype=np.int8)
    state[:, :2], state[:, 2] = passes.LARGEST, passes.FREE
    faces = envelope.faces(
        Projection(np.zeros((4, 4)), state, np.full(4, passes.CONE, dtype=np.int8))
    )
    assert faces.owner.tolist() == [0, 1, 2, 3]
    # The first two others change together; the score of the own class counts in both differences.
    together = np.array([[-2, 1, 1, 0], [1, -2, 1, 0], [1, 1, -2, 0], [1, 1, 0, -2]])
    np.testing.assert_allclose(faces.rows, -together / 2**0.5, rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_wide_sparse_data_are_not_made_dense(loss, monkeypatch):
    X, y = design("wide", 9)
    X[np.abs(X) < 1.5] = 0.0
    dense = multiclass(X, y, lam=0.1, loss=loss)
    monkeypatch.setattr(sp.csr_array, "toarray", lambda *_, **__: pytest.fail("made dense"))
    overlap(dense, multiclass(sp.csr_array(X), y, lam=0.1, loss=loss, settings=by_products(0)))


@pytest.mark.parametrize("loss", LOSSES)
def test_units_and_a_shift_change_nothing_with_an_intercept(loss):
    X, y = design("plain", 11)
    # Numbers that the shift does not round: the intervals are narrow enough to tell two problems
    # apart.
    X = np.round(X * 2.0**20) / 2.0**20
    solution = multiclass(X, y, lam=0.1, loss=loss)
    overlap(solution, multiclass(X + 1e4, y, lam=0.1, loss=loss))
    # Weights in other units: λ with the power of the regulariser.
    power = 1 if loss == "sparse_softmax" else 2
    overlap(solution, multiclass(1e3 * X, y, lam=0.1 * 1e3**power, loss=loss))
    # All losses times ten, and λ too.
    tenfold = multiclass(X, y, lam=1.0, loss=loss, sample_weight=np.full(y.size, 10.0)).certificate
    assert tenfold.upper == pytest.approx(10 * solution.certificate.upper, rel=3e-6)


def test_a_warm_start_may_come_from_other_losses_and_solvers():
    X, y = design("offset", 14)
    starts = [sx.fast.m3svm(X, y, lam=1.0, p=1.0), sx.solve(sx.multinomial_lr(X, y, lam=1.0))]
    for loss in LOSSES:
        for first in starts:
            warm = multiclass(X, y, lam=0.1, loss=loss, k=3, warm_start=first)
            assert warm.certificate.gap <= 1e-6
            overlap(warm, multiclass(X, y, lam=0.1, loss=loss, k=3))


def test_a_warm_start_of_other_classes_is_refused():
    X, y = design("plain", 15)
    good = multiclass(X, y, lam=1.0)
    with pytest.raises(sx.DataError, match="same data, got one of other classes"):
        multiclass(X, y % 3, lam=1.0, warm_start=good)


def test_the_sparse_machine_has_exact_zeros_and_loses_all_weights_for_large_lam():
    X, y = design("plain", 19, n=60, d=8)
    some = multiclass(X, y, lam=3.0, loss="sparse_softmax")
    zeros = (some.model.coef == 0.0).mean()
    assert 0.0 < zeros < 1.0
    # Beyond the largest derivative at W = 0 with the best biases no weight is worth its price.
    none = multiclass(X, y, lam=1e3, loss="sparse_softmax")
    assert np.abs(none.model.coef).max() <= 1e-6
    counts = np.bincount(y)
    assert none.certificate.upper == pytest.approx(
        -(counts * np.log(counts / y.size)).sum(), rel=1e-6
    )


def test_the_estimator_takes_this_route():
    X, y = design("plain", 20)
    for loss in LOSSES:
        fitted = sx.MulticlassSVMClassifier(loss=loss, k=3, lam=0.2).fit(X, y)
        assert fitted.solver_route_ == "fast"
        # k = 3 has a bound of its own, which the interior-point steps do not know.
        interior = loss in HINGES and loss != "topk"
        assert fitted.solution_.solver == f"fast.multiclass/{'interior' if interior else 'newton'}"
        general = sx.MulticlassSVMClassifier(loss=loss, k=3, lam=0.2, solver="clarabel").fit(X, y)
        assert general.solver_route_ == "general"
        overlap(fitted.solution_, general.solution_)


@pytest.mark.parametrize("loss", HINGES)
def test_interior_point_steps_are_bounded_wherever_they_end_and_left_where_they_are_much_work(loss):
    X, y = design("plain", 22)
    weight = 10.0 ** np.random.default_rng(22).uniform(-1, 1, y.size)
    whole = multiclass(X, y, lam=0.1, loss=loss, sample_weight=weight, tol=1e-9)
    assert whole.solver == "fast.multiclass/interior"
    assert whole.certificate.is_certified(1e-9)
    newton = MulticlassSettings(interior_work=0.0)
    other = multiclass(X, y, lam=0.1, loss=loss, sample_weight=weight, tol=1e-9, settings=newton)
    assert other.solver == "fast.multiclass/newton"
    overlap(whole, other)
    gaps = []
    for steps in (1, 5, 10):
        part = multiclass(X, y, lam=0.1, loss=loss, sample_weight=weight, max_iter=steps, tol=1e-9)
        assert part.status == "iteration_limit"
        overlap(whole, part, gap=np.inf)
        gaps.append(part.certificate.gap)
    assert gaps[2] < gaps[1] < gaps[0]
    seen = []
    stopped = multiclass(
        X, y, lam=0.1, loss=loss, callback=lambda progress: seen.append(progress) or len(seen) == 3
    )
    assert stopped.status == "interrupted"
    assert len(seen) == 3
    large = multiclass(*design("plain", 22, n=300, d=60), lam=0.1, loss=loss)
    assert large.solver == "fast.multiclass/newton"


def test_newtons_method_goes_on_where_the_interior_point_steps_gain_nothing_more():
    # A gap below the rounding of either method.
    X, y = design("plain", 23)
    found = multiclass(X, y, lam=0.1, loss="crammer_singer", tol=1e-17)
    assert found.solver == "fast.multiclass/interior+newton"
    assert found.certificate.gap <= 1e-12


def test_errors_say_what_was_wrong():
    X, y = design("plain", 21)
    with pytest.raises(
        sx.DataError, match=r"loss must be one of 'weston_watkins', .*, got 'hinge'"
    ):
        multiclass(X, y, lam=1.0, loss="hinge")
    with pytest.raises(sx.DataError, match="lam must be a finite number"):
        multiclass(X, y, lam=0.0)
    with pytest.raises(sx.DataError, match="k must be at most the number of classes, 4, got 5"):
        multiclass(X, y, lam=1.0, loss="topk", k=5)
    with pytest.raises(sx.DataError, match="k must be a whole number from 1"):
        multiclass(X, y, lam=1.0, k=1.5)
    with pytest.raises(sx.DataError, match="intercept must be 'free', 'none'"):
        multiclass(X, y, lam=1.0, intercept="penalised")


@pytest.mark.parametrize(
    ("X", "y", "arguments"),
    [
        (
            [[1.225], [0.02856]],
            [1, 0],
            {"loss": "msvm", "lam": 1.7e-225, "sample_weight": [1e10, 1e10], "tol": 1e-12},
        ),
        (
            [[3.6e39], [1.3e40], [1.1e40], [2.6e40], [3.2e39], [-6.2e39]],
            [1, 2, 1, 2, 0, 0],
            {"loss": "sparse_softmax", "lam": 1.4},
        ),
        (
            [[1.36e163, 1.75, 3.06], [-1.6e163, -0.75, -0.013], [7.98e162, 2.3, 0.36]],
            [2, 0, 1],
            {"loss": "msvm", "lam": 120.0},
        ),
    ],
)
def test_extreme_numbers_end_with_an_interval(X, y, arguments):
    """None of them is solved to the tolerance, and each says so after a few steps."""
    found = multiclass(np.array(X), y, **arguments)
    assert found.certificate.lower <= found.certificate.upper
    assert found.attempts[0].options["iterations"] < 400
    assert (found.status == "optimal") == (found.certificate.gap <= arguments.get("tol", 1e-6))
