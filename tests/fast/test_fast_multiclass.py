"""The fast machines of several classes against the conic route, scikit-learn, and each other."""

import dataclasses
import tracemalloc
from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.data import multiclass_data
from svmcvx.fast.several_classes import projection_passes as passes
from svmcvx.fast.several_classes import solvers as room
from svmcvx.fast.several_classes import systems
from svmcvx.fast.several_classes.solvers import Envelope, Projection, m3svm, multiclass, penalty_of
from svmcvx.fast.several_classes.systems import ScoreSystem, SeparateCurvature, SoftmaxCurvature
from svmcvx.formulations.multiclass.losses import HingeSum, LargestHinge, SmoothedHingeSum, TopHinge
from svmcvx.formulations.multiclass.machines import LOSSES, MACHINES
from svmcvx.formulations.multiclass.statement import ScoreSpace
from tests.intervals import overlap

HINGES = ("weston_watkins", "crammer_singer", "msvm", "topk")
CHANGES = {
    "plain": lambda X, y: X,
    "offset": lambda X, y: X + 1e3,
    "duplicates": lambda X, y: np.vstack([X[: len(X) // 2], X[: len(X) - len(X) // 2]]),
    "constant column": lambda X, y: np.hstack([np.full((len(X), 1), 3.0), X[:, 1:]]),
    "separable": lambda X, y: X + 30.0 * np.eye(y.max() + 1, X.shape[1])[y],
    "tiny": lambda X, y: 1e-5 * X,
    "integers": lambda X, y: np.round(X),
    "zeros": lambda X, y: np.zeros_like(X),
}
DESIGNS = (*CHANGES, "one-point class", "wide", "two classes")


def design(name, seed, n=24, d=3, c=4):
    rng = np.random.default_rng(seed)
    n, d = (9, 20) if name == "wide" else (n, d)
    c = 2 if name == "two classes" else c
    y = np.arange(n) % c
    X = rng.standard_normal((n, d)) + rng.standard_normal((c, d))[y]
    if name == "one-point class":
        y = np.where(np.arange(n) == 0, 0, 1 + np.arange(n) % (c - 1))
    return CHANGES.get(name, CHANGES["plain"])(X, y), y


def agrees_with_the_conic_route(fast, problem):
    """A certified answer, and the interval of the conic solver, which may be wide."""
    assert fast.status == "optimal"
    assert fast.certificate.gap <= 1e-6
    try:
        conic = sx.solve(problem)
    except sx.SolverFailed:
        return
    overlap(fast, conic, gap=1e-3 if conic.status == "optimal" else 1.0)
    assert fast.formulation == conic.formulation
    assert fast.hyperparameters == conic.hyperparameters


@settings(max_examples=20)
@given(
    name=st.sampled_from(DESIGNS),
    loss=st.sampled_from(tuple(MACHINES)),
    k=st.integers(1, 4),
    lam=st.sampled_from((1e-5, 1e-2, 1.0, 1e3)),
    intercept=st.booleans(),
    sparse=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_every_classical_machine_agrees_with_the_conic_route(
    name, loss, k, lam, intercept, sparse, seed
):
    X, y = design(name, seed)
    options = {"lam": lam, "loss": loss, "k": min(k, np.unique(y).size), "intercept": intercept}
    data = sp.csr_array(X) if sparse else X
    fast = multiclass(data, y, **options, method="newton" if seed % 2 else "auto")
    agrees_with_the_conic_route(fast, sx.multiclass(X, y, **options))


@settings(max_examples=20)
@given(
    name=st.sampled_from(DESIGNS),
    p=st.sampled_from((1.0, 1.01, 1.3, 2.0, 2.5, 4.0, 8.0)),
    loss=st.sampled_from(("hinge", "hinge", *LOSSES)),
    lam=st.sampled_from((1e-5, 1e-2, 1.0, 1e3)),
    eps=st.sampled_from((1e-6, 1e-2, 10.0)),
    seed=st.integers(0, 10**6),
)
def test_every_m3svm_agrees_with_the_conic_route(name, p, loss, lam, eps, seed):
    X, y = design(name, seed)
    options = {"lam": lam, "p": p, "loss": loss, "eps": eps}
    fast = m3svm(X, y, **options, method="newton" if seed % 2 else "auto")
    agrees_with_the_conic_route(fast, sx.m3svm(X, y, **options))


@pytest.mark.parametrize("seed", [0, 92])
def test_a_sparse_softmax_with_an_offset_and_no_intercept_is_certified(seed):
    """Weights in doubles cannot represent multipliers with so small a gradient: the dual point is
    that of the linearised equations.
    """
    X, y = design("offset", seed)
    options = {"lam": 1e-5, "loss": "sparse_softmax", "intercept": False}
    agrees_with_the_conic_route(multiclass(X, y, **options), sx.multiclass(X, y, **options))


SOLVERS = {
    **{loss: partial(multiclass, loss=loss, lam=0.1) for loss in MACHINES},
    **{
        f"m3svm {loss} p={p:g}": partial(m3svm, loss=loss, p=p, lam=0.1)
        for loss, p in (("hinge", 1.5), ("hinge", 4.0), ("logistic", 1.0), ("smoothed", 4.0))
    },
}
solvers = pytest.mark.parametrize("solve", SOLVERS.values(), ids=SOLVERS)


@solvers
def test_no_way_to_solve_the_systems_changes_the_optimum(solve, monkeypatch):
    X, y = design("wide", 7)
    X[np.abs(X) < 1.5] = 0.0
    direct = solve(X, y, method="newton")
    monkeypatch.setattr(sp.csr_array, "toarray", lambda *_, **__: pytest.fail("made dense"))
    for block, data in ((0, sp.csr_array(X)), (1500, X)):
        monkeypatch.setattr(room, "LARGEST_DIRECT", 0)
        monkeypatch.setattr(systems, "LARGEST_BLOCK", block)
        found = solve(data, y, method="newton")
        assert found.attempts[0].options["linear_systems"] == "conjugate gradients"
        overlap(found, direct)


@solvers
def test_a_warm_start_may_come_from_other_losses_and_solvers(solve):
    X, y = design("offset", 14)
    cold = solve(X, y)
    for first in (m3svm(X, y, lam=1.0, p=1.0), sx.solve(sx.multinomial_lr(X, y, lam=1.0))):
        overlap(solve(X, y, warm_start=first), cold)


def test_a_warm_start_of_something_else_is_refused():
    X, y = design("plain", 11)
    good = m3svm(X, y, lam=1.0, p=2.0)
    for rows, labels, start, why in (
        (X, y % 3, good, "same data, got one of other classes"),
        (X[:, :2], y, good, r"same data, got weights of shape \(3, 4\) for 2 features and 4"),
        (X[:-1], y[:-1], good, "one multiplier an observation and class"),
        (X, y, dataclasses.replace(good, dual={}), "must have multipliers alpha"),
        (X, np.repeat(np.arange(4), y.size // 4), good, "other numbers or labels"),
    ):
        with pytest.raises(sx.DataError, match=why):
            m3svm(rows, labels, lam=1.0, p=2.0, warm_start=start)


@pytest.mark.parametrize("solve", [partial(multiclass, loss=h) for h in HINGES] + [m3svm])
def test_interior_point_steps_are_bounded_wherever_they_end(solve):
    X, y = design("plain", 22)
    weight = 10.0 ** np.random.default_rng(22).uniform(-1, 1, y.size)
    solve = partial(solve, lam=0.1, sample_weight=weight, tol=1e-9)
    whole, other = solve(X, y), solve(X, y, method="newton")
    assert whole.certificate.is_certified(1e-9)
    overlap(whole, other)
    for found, kind, chosen in ((whole, "/interior", "auto"), (other, "/newton", "newton")):
        assert found.solver.endswith(kind)
        for some in (1, found.attempts[0].options["iterations"] // 2):
            part = solve(X, y, max_iter=some, method=chosen)
            assert part.status == "iteration_limit"
            overlap(whole, part, gap=np.inf)
    # Where they are much work they are left.
    large = design("plain", 22, n=200, d=60)
    assert "interior" not in solve(*large, sample_weight=None, tol=1e-3).solver


def test_newtons_method_goes_on_where_the_interior_point_steps_gain_nothing_more():
    # A gap below the rounding of either method.
    X, y = design("plain", 23)
    found = multiclass(X, y, lam=0.1, loss="crammer_singer", tol=1e-17)
    assert found.solver == "fast.multiclass/interior+newton"
    assert found.certificate.gap <= 1e-12


# Coordinate ascent

ASCENDING = HINGES[:3]


@settings(max_examples=20)
@given(
    name=st.sampled_from((*DESIGNS, "empty rows")),
    loss=st.sampled_from(ASCENDING),
    lam=st.sampled_from((1e-5, 1e-2, 1.0, 1e3)),
    intercept=st.booleans(),
    sparse=st.booleans(),
    weighted=st.booleans(),
    seed=st.integers(0, 10**6),
)
def test_coordinate_ascent_agrees_with_newtons_method(
    name, loss, lam, intercept, sparse, weighted, seed
):
    X, y = design("plain" if name == "empty rows" else name, seed)
    if name == "empty rows":
        X[::3] = 0.0
    rng = np.random.default_rng(seed)
    options = {"lam": lam, "loss": loss, "intercept": intercept}
    options["sample_weight"] = 10.0 ** rng.uniform(-2, 2, y.size) if weighted else None
    data = sp.csr_array(X) if sparse else X
    found = multiclass(data, y, **options, method="dcd", max_iter=200)
    # Nearly parallel rows, and costs at which nearly all margins are hard, take many epochs.
    hard = lam < 1e-2 or name == "offset"
    overlap(found, multiclass(X, y, **options, method="newton"), gap=1.0 if hard else 1e-3)


@pytest.mark.parametrize("loss", ASCENDING)
@pytest.mark.parametrize("intercept", [True, False])
def test_sparse_rows_of_many_columns_are_solved_by_coordinate_ascent_alone(loss, intercept):
    rng = np.random.default_rng(5)
    X = sp.csr_array(sp.random_array((150, 2000), density=0.01, rng=rng))
    y = np.arange(150) % 5
    solve = partial(multiclass, X, y, loss=loss, lam=0.1, intercept=intercept)
    found = solve()
    assert found.solver == "fast.multiclass/dcd"
    assert found.certificate.is_certified(1e-6)
    overlap(found, solve(method="newton", tol=1e-4), gap=1e-3)
    assert np.array_equal(found.model.coef, solve().model.coef)
    for stopped, how in (("iteration_limit", {"max_iter": 1}), ("interrupted", {"callback": bool})):
        part = solve(**how, tol=1e-9)
        assert part.status == stopped
        overlap(part, found, gap=np.inf)
    again = solve(warm_start=found)
    assert again.attempts[0].iterations == 0
    overlap(again, found)


@pytest.mark.parametrize("loss", ["weston_watkins", "msvm"])
def test_estimates_may_meet_before_the_checkers_bounds(loss):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 60)), np.arange(200) % 4
    assert multiclass(X, y, loss=loss, lam=1e3, tol=1e-16).certificate.is_certified(1e-12)


@pytest.mark.parametrize("loss", ASCENDING)
def test_coordinate_ascent_uses_one_copy_of_the_rows(loss, monkeypatch):
    rng = np.random.default_rng(6)
    X = sp.csr_array(sp.random_array((5_000, 1000), density=0.1, rng=rng))
    y = rng.integers(0, 3, 5_000)
    monkeypatch.setattr(sp.csr_array, "toarray", lambda *_, **__: pytest.fail("made dense"))
    solve = partial(multiclass, X, y, loss=loss, intercept=False, method="dcd", tol=0.1)
    solve()
    tracemalloc.start()
    try:
        found = solve()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.certificate.is_certified(0.1)
    # The data themselves are not among the allocations.
    assert peak <= 1.5 * (X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


@pytest.mark.parametrize("loss", [*MACHINES, "m3svm"])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_rows_are_one_row_of_their_weight(loss, weighted, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = design("plain", 0)
    copies = rng.permutation(np.repeat(np.arange(y.size), rng.integers(2, 6, y.size)))
    weight = rng.uniform(0.1, 2.0, copies.size) if weighted else None
    if weighted:
        weight[:3] = 0.0
    solve = m3svm if loss == "m3svm" else partial(multiclass, loss=loss, lam=0.3)
    given, sizes, rows = {"sample_weight": weight, "tol": 1e-7}, [], []
    apart = solve(X[copies], y[copies], **given)
    monkeypatch.setattr("svmcvx.data.FEW", 10)
    merge = room.merged
    monkeypatch.setattr(room, "merged", lambda data: sizes.append(data.n) or merge(data))
    found = solve(X[copies], y[copies], **given, callback=lambda p: rows.append(p.gap))
    overlap(found, apart, gap=1e-7)
    overlap(found, solve(X, y, sample_weight=np.bincount(copies, weight), tol=1e-7), gap=1e-7)
    assert sizes[0] == copies.size - 3 * weighted
    assert rows
    assert found.dual["alpha"].shape[0] == copies.size
    # The support is of observations; a start is of all of them.
    assert np.isin(found.model.support, np.arange(copies.size)).all()
    overlap(solve(X[copies], y[copies], **given, warm_start=found), apart, gap=1e-7)
    assert len(sizes) == 2


def test_methods_that_a_loss_does_not_have_are_refused():
    X, y = design("plain", 3)
    for solve in (m3svm, partial(multiclass, loss="topk"), partial(multiclass, loss="softmax")):
        with pytest.raises(
            sx.DataError, match="method must be one of 'auto', 'interior', 'newton'"
        ):
            solve(X, y, method="dcd")


@settings(max_examples=50)
@given(m=st.integers(1, 9), slope=st.sampled_from((0.0, 1.0)), seed=st.integers(0, 10**6))
def test_shifts_leave_the_sum_that_belongs_to_them(m, slope, seed):
    rng = np.random.default_rng(seed)
    before = np.minimum(rng.random(m) * (rng.random(m) < 0.3) * 10.0 ** rng.uniform(-8, 0, m), 1.0)
    total = before.sum() if slope else rng.uniform(0.1, 1.0)
    x, a = before + rng.standard_normal(m) * 10.0 ** rng.uniform(-12, 1), np.empty(m)
    passes.capped(x, total, 1.0, slope, a)
    # Scalar root of a decreasing function, to rounding.
    low, high = x.min() - 10.0 - m, x.max() + 10.0
    for _ in range(200):
        shift = 0.5 * (low + high)
        if np.clip(x - shift, 0.0, 1.0).sum() > total + slope * shift:
            low = shift
        else:
            high = shift
    np.testing.assert_allclose(a, np.clip(x - shift, 0.0, 1.0), rtol=0, atol=1e-14 * m * 10)


# Newton's systems and projections


@pytest.mark.parametrize(
    "options",
    [
        *({"loss": loss, "intercept": own} for loss in HINGES for own in (True, False)),
        *({"p": p, "eps": 0.2} for p in (2.0, 3.0, 6.0)),
        *({"p": p, "eps": 1e-3, "loss": loss} for p in (1.5, 4.0) for loss in LOSSES),
    ],
    ids=str,
)
def test_the_newton_steps_are_the_same_and_take_the_gradient_away(options, monkeypatch):
    X, y = design("plain", 8, n=40)
    data = sp.csr_array(X) if len(str(options)) % 2 else X + 2.0
    build = sx.m3svm if "p" in options else sx.multiclass
    statement = build(data, y, lam=0.3, **options).formulation
    system = ScoreSystem(statement.scores)
    penalty, loss = penalty_of(statement, system), statement.loss
    penalty.nu = 0.1 if options.get("p", 2.0) < 2 else 0.0
    rng = np.random.default_rng(0)
    U = rng.standard_normal(system.shape)
    U -= U.mean(axis=1, keepdims=True)
    envelope = Envelope(system.scores, loss)
    envelope.start(statement.projected(0.5 * rng.random((40, 3))))
    envelope.sigma = 0.4

    def gradient_at(U):
        f, terms = system.scores.differences(system.Z @ U), penalty.at(U)
        if loss.smooth and not isinstance(loss, SmoothedHingeSum):
            a = loss.multipliers(f)
            softmax = loss.name == "softmax"
            shape, height = (SoftmaxCurvature, a) if softmax else (SeparateCurvature, a * (1.0 - a))
            curvature = shape(system.scores, height)
        else:
            response = envelope.project(f)
            a, curvature = envelope.multipliers(response), envelope.curvature(response)
        return system.gradient(a, terms.gradient), curvature, terms

    gradient, curvature, terms = gradient_at(U)
    # The biases of raw and of centred features are damped differently.
    damping = terms.damping = 0.0 if "p" in options else 1e-3
    by_classes = system.direct_step(gradient, curvature, terms)
    for block in (0, 1500):
        monkeypatch.setattr(systems, "LARGEST_BLOCK", block)
        by_products = system.iterative_step(gradient, curvature, terms, forcing=1e-12, limit=2000)
        np.testing.assert_allclose(by_classes, by_products, rtol=1e-6, atol=1e-8)
    if loss.name in ("hinge", "crammer_singer", "topk") and penalty.p >= 2:
        by_observations = system.observation_step(gradient, curvature, terms.inverse(), damping)
        np.testing.assert_allclose(by_classes, by_observations, rtol=1e-6, atol=1e-8)
    t = 1e-7
    change = (gradient_at(U + t * by_classes)[0] - gradient) / t
    expected = -gradient
    expected[system.columns :] -= damping * by_classes[system.columns :]
    np.testing.assert_allclose(change, expected, rtol=1e-4, atol=1e-4 * np.abs(gradient).max())


@settings(max_examples=20)
@given(c=st.integers(2, 6), k=st.integers(-1, 6), seed=st.integers(0, 10**6))
def test_projections_are_nearest_points_and_their_faces_derivatives(c, k, seed):
    rng = np.random.default_rng(seed)
    n = 12
    data = multiclass_data(rng.standard_normal((n, 2)), np.arange(n) % c, rng.uniform(0.5, 2.0, n))
    scores, s = ScoreSpace(data, "free"), data.weight[:, None]
    loss = {-1: SmoothedHingeSum(0.1), 0: HingeSum(), 1: LargestHinge()}.get(k) or TopHinge(
        min(k, c)
    )
    envelope = Envelope(scores, loss)
    envelope.start(loss.domain.project(rng.random((n, c - 1)), data.weight))
    envelope.sigma = float(rng.choice([0.1, 1.0, 10.0]))
    S = rng.standard_normal((n, c))
    response = envelope.project(scores.differences(S))
    a = envelope.multipliers(response)
    assert loss.domain.violation(a, data.weight) <= 1e-12
    raw = envelope.centre.copy()
    raw[:, : c - 1] += envelope.sigma * (1.0 - scores.differences(S))
    if k == -1:
        own = 1.0 - (raw - a) / envelope.sigma
        np.testing.assert_allclose(a, s * loss.multipliers(own), rtol=1e-9, atol=1e-12)
    else:
        # No other point of the domain lies on the far side.
        for _ in range(20):
            other = Envelope(scores, loss)
            size = rng.choice([0.1, 1.0, 3.0])
            other.start(loss.domain.project(rng.random((n, c - 1)) * size, data.weight))
            toward = ((raw - response.full) * (other.centre - response.full)).sum(axis=1)
            assert toward.max() <= 1e-9 * (1.0 + np.abs(raw).max() ** 2)
    dS, t = rng.standard_normal(S.shape), 1e-8
    moved = envelope.multipliers(envelope.project(scores.differences(S + t * dS)))
    change = scores.coefficients((a - moved) / t)
    image = envelope.curvature(response).product(dS)
    # A kink between the two points is rare: at most one row may have one.
    assert np.sort(np.abs(change - image).max(axis=1))[-2] <= 1e-5 * envelope.sigma * c + 1e-5


def test_k_equal_multipliers_leave_no_room_for_others():
    # A fourth one is positive by rounding alone, where numbers are of 1e10.
    data = multiclass_data(np.zeros((4, 1)), np.arange(4))
    envelope = Envelope(ScoreSpace(data, "free"), TopHinge(2))
    state = np.full((4, 4), passes.BOUND, dtype=np.int8)
    state[:, :2], state[:, 2] = passes.LARGEST, passes.FREE
    faces = envelope.curvature(
        Projection(np.zeros((4, 4)), state, np.full(4, passes.CONE, dtype=np.int8))
    )
    assert faces.owner.tolist() == [0, 1, 2, 3]
    # The first two others change together; the score of the own class counts in both differences.
    together = np.array([[-2, 1, 1, 0], [1, -2, 1, 0], [1, 1, -2, 0], [1, 1, 0, -2]])
    np.testing.assert_allclose(faces.rows, -together / 2**0.5, rtol=1e-12)


def test_sparse_and_fused_machines_lose_all_weights_for_large_lam():
    X, y = design("plain", 19, n=60, d=8)
    some = multiclass(X, y, lam=3.0, loss="sparse_softmax")
    assert 0.0 < (some.model.coef == 0.0).mean() < 1.0
    # Beyond the largest derivative at W = 0 with the best biases no weight is worth its price.
    none = multiclass(X, y, lam=1e3, loss="sparse_softmax")
    assert np.abs(none.model.coef).max() <= 1e-6
    counts = np.bincount(y)
    value = -(counts * np.log(counts / y.size)).sum()
    assert none.certificate.upper == pytest.approx(value, rel=1e-6)
    assert np.abs(m3svm(X, y, lam=100.0, p=1.0).model.coef).max() <= 1e-4


def test_the_estimator_takes_this_route():
    X, y = design("plain", 20)
    for loss in MACHINES:
        fitted = sx.MulticlassSVMClassifier(loss=loss, k=3, lam=0.2).fit(X, y)
        assert fitted.solver_route_ == "fast"
        # k = 3 has a bound of its own, which the interior-point steps do not know.
        interior = loss in HINGES and loss != "topk"
        assert fitted.solution_.solver == f"fast.multiclass/{'interior' if interior else 'newton'}"


COLUMN = 1e39 * np.array([[3.6], [13], [11], [26], [3.2], [-6.2]])
LONG = 1e53 * np.array([[9.5, -0.5, 13.2], [0.6, 45.4, 42.9], [-16, -3.3, -6.7], [7, 22, 56.7]])
MIXED = [[1.36e163, 1.75, 3.06], [-1.6e163, -0.75, -0.013], [7.98e162, 2.3, 0.36]]
HEAVY = {"loss": "msvm", "lam": 1.7e-225, "sample_weight": [1e10, 1e10], "tol": 1e-12}


@pytest.mark.parametrize(
    ("X", "y", "arguments"),
    [
        ([[1.225], [0.02856]], [1, 0], HEAVY),
        (COLUMN, [1, 2, 1, 2, 0, 0], {"loss": "sparse_softmax", "lam": 1.4}),
        (MIXED, [2, 0, 1], {"loss": "msvm", "lam": 120.0}),
        (LONG, [0, 2, 0, 1], {"lam": 7.6e-3, "p": 50.0, "loss": "softmax", "tol": 1e-3}),
    ],
)
def test_extreme_numbers_end_with_an_interval(X, y, arguments):
    """None of them is solved to the tolerance, and each says so after a few steps."""
    solve = m3svm if "p" in arguments else multiclass
    found = solve(np.array(X), y, **arguments)
    assert found.certificate.lower <= found.certificate.upper
    assert found.attempts[0].options["iterations"] < 400
    assert (found.status == "optimal") == (found.certificate.gap <= arguments.get("tol", 1e-6))
