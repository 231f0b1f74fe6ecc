"""Machines of several classes in one problem: intervals of score differences."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

import svmcvx as sx
from svmcvx.certificate.bounded import Bounded, exact
from svmcvx.formulations.multiclass.losses import HingeSum, LargestHinge, TopHinge
from svmcvx.guarantees.joint import FlowTheorem, _rooms
from svmcvx.guarantees.theorem import EntropyTerms
from tests.guarantees.test_guarantee import consistent

CLASSICAL = [
    *(("weston_watkins", 1), ("crammer_singer", 1), ("msvm", 1)),
    *(("topk", 2), ("topk", 3), ("softmax", 1)),
]


def problem(seed=0, n=45, c=4, offset=0.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    centres = 1.5 * rng.standard_normal((c, 3))
    X = rng.standard_normal((n, 3)) + centres[y] + offset
    T = np.vstack([2.0 * rng.standard_normal((30, 3)) + offset, X[:5]])
    return X, y, T


MACHINES = [
    *(
        (sx.fast.multiclass, {"loss": loss, "k": k, "intercept": intercept, "lam": 0.1})
        for loss, k in CLASSICAL
        for intercept in (True, False)
        # With a free intercept and k ≥ 3 no multiplier alone has room.
        if k < 3 or not intercept
    ),
    *(
        (sx.fast.m3svm, {"loss": loss, "p": p, "lam": 0.05})
        for loss, p in (("hinge", 1.25), ("hinge", 4.0), ("logistic", 4.0), ("softmax", 1.25))
    ),
]


def differences(model, T):
    f = model.decision_function(T)
    return np.column_stack([f[:, j] - f[:, k] for k, j in combinations(range(f.shape[1]), 2)])


@pytest.mark.parametrize(("solve", "settings"), MACHINES)
def test_intervals_of_all_gaps_have_a_number_in_common(solve, settings):
    rng = np.random.default_rng(5)
    for seed, offset in ((0, 0.0), (1, 100.0)):
        X, y, T = problem(seed, offset=offset if solve is sx.fast.multiclass else 0.0)
        weight = rng.choice([0.5, 1.0, 2.0], y.size) if seed else None
        tight, *others = (
            sx.guarantee(solve(X, y, tol=tol, sample_weight=weight, **settings), X, y).scores(T)
            for tol in (1e-11, 0.3, 1e-3)
        )
        for loose in others:
            consistent(loose, tight)
            decided = loose.decided & tight.decided
            assert (loose.labels[decided] == tight.labels[decided]).all()
        assert tight.decided.mean() > 0.9
        assert np.median(tight.upper - tight.lower) < 1e-2


def test_intervals_of_smooth_machines_contain_the_optimal_differences():
    pytest.importorskip("flint")
    from campaigns.joint_predictions import check

    for seed in range(8):
        _, outcome, counts, why = check(seed)
        assert outcome == "held", (seed, why)
        assert counts["intervals"]
    # Half the radius is too short.
    assert any(check(seed, 0.5)[1] == "MISS" for seed in range(15))


@pytest.mark.parametrize(("loss", "k"), CLASSICAL)
def test_a_shorter_radius_would_be_wrong(loss, k):
    """The same test notices intervals that are too short, for a model at the end of what its gap
    allows.
    """
    X, y, T = problem(2)
    machine = {"loss": loss, "k": k, "lam": 0.1, "intercept": loss == "softmax"}
    solution = sx.fast.multiclass(X, y, tol=1e-11, **machine)
    tight, missed = sx.guarantee(solution, X, y).scores(T), 0
    for share in (1e-3, 1e-2, 1e-1):
        coef = (1.0 + share) * solution.model.coef
        spoilt = replace(solution, model=replace(solution.model, coef=coef))
        found = sx.guarantee(spoilt, X, y)
        consistent(found.scores(T), tight)
        for theorem in found.theorems:
            theorem.__dict__["squared_radius"] = 0.0025 * theorem.squared_radius
        try:
            short = found.scores(T)
        except sx.NotCertified:
            missed += 1
        else:
            missed += int((~((short.lower <= tight.upper) & (tight.lower <= short.upper))).sum())
    assert missed


@pytest.mark.parametrize("loss", ["weston_watkins", "crammer_singer", "softmax"])
def test_without_an_intercept_the_ball_around_a_fine_model_is_inside(loss):
    X, y, T = problem(3)
    settings = {"loss": loss, "lam": 0.1, "intercept": False}
    fine = sx.fast.multiclass(X, y, tol=1e-12, **settings)
    # ‖W − W*‖² ≤ (U − L)/λ, and a difference has the length √2‖x‖.
    gap = fine.certificate.upper - fine.certificate.lower
    reach = np.sqrt(2.0 * gap / 0.1) * np.linalg.norm(T, axis=1)[:, None] * 1.001
    f = differences(fine.model, T)
    for tol in (0.3, 1e-2, 1e-4):
        scores = sx.guarantee(sx.fast.multiclass(X, y, tol=tol, **settings), X, y).scores(T)
        assert (scores.lower <= f + reach).all()
        assert (f - reach <= scores.upper).all()


def test_two_classes_of_weston_and_watkins_are_the_psvm():
    X, y, T = problem(4, c=2)
    both = sx.fast.multiclass(X, y, loss="weston_watkins", lam=0.5, tol=1e-9)
    both = sx.guarantee(both, X, y).scores(T)
    psvm = sx.guarantee(sx.fast.psvm(X, y, C=2.0, p=1.0, tol=1e-9), X, y).scores(T)
    consistent(replace(both, lower=both.lower[:, 0], upper=both.upper[:, 0]), psvm)
    assert np.array_equal(both.possible, psvm.possible)


def test_rooms_stay_inside_the_domain():
    rng = np.random.default_rng(0)
    s = rng.choice([0.5, 1.0, 3.0], 40)
    for loss in (HingeSum(), LargestHinge(), TopHinge(1), TopHinge(2), TopHinge(3)):
        share = rng.choice([0.2, 1.0], (40, 1))
        alpha = loss.domain.project(s[:, None] * rng.random((40, 4)) * share, s)
        assert loss.domain.violation(alpha, s) == 0.0
        above, below = _rooms(loss, alpha, s)
        assert min(above.min(), below.min()) >= 0.0
        assert min(above.max(), below.max()) > 0.0
        for column in range(4):
            for change in (above, -below):
                moved = alpha.copy()
                moved[:, column] += change[:, column]
                assert loss.domain.violation(moved, s) <= 1e-15


def test_entropies_are_bounded_by_their_tangents():
    alpha, left = np.array([0.25, 1e-6, 0.5]), np.array([0.5, 1.0, 1e-3])
    terms = EntropyTerms(alpha, exact(left))

    def gain(a, r):
        return -(a * np.log(a) if a > 0 else 0.0) - (r * np.log(r) if r > 0 else 0.0)

    for i in range(3):
        for share in (-1.0, -0.5, -1e-2, 1e-2, 0.5, 1.0):
            delta = share * min(alpha[i], left[i])
            step = 0.5
            found = terms.shortfall(np.array([i]), np.array([[delta / step]]), np.array([step]))[0]
            slope = np.log(left[i] / alpha[i])
            moved = gain(alpha[i] + delta, left[i] - delta)
            true = (gain(alpha[i], left[i]) + slope * delta - moved) / step
            assert found >= true - 1e-12
            if abs(share) < 0.1:
                assert found <= 1.02 * true + 1e-12
    rest = Bounded(np.array([0.5, 0.0]), np.array([0.0, 1e-16]))
    assert np.isinf(EntropyTerms(np.array([0.0, 0.5]), rest).curvatures).all()


@pytest.mark.parametrize("p", [1.1, 1.5, 2.0, 3.0, 6.0])
def test_the_conjugate_of_a_power_is_within_its_bend(p):
    rng = np.random.default_rng(int(10 * p))
    lam = 0.3
    S = rng.standard_normal(3)
    size = np.linalg.norm(S)
    points = FlowTheorem(None, None, 0.0, lam=lam, p=p, length=exact(float(size)))

    def conjugate(S):
        return (p - 1.0) * lam * (np.linalg.norm(S) / (lam * p)) ** (p / (p - 1.0))

    gradient = (size / (lam * p)) ** (1.0 / (p - 1.0)) * S / size
    for length in (0.01, 0.3, 3.0):
        h = length * rng.standard_normal(3)
        squares = np.array([h @ h]) * (1.0 + 1e-12)
        step = np.minimum(1.0, points.longest_step(squares))
        change = -step[0] * h
        true = conjugate(S + change) - conjugate(S) - gradient @ change
        bound = step[0] * step * points.bend(squares, step)
        assert bound[0] >= true - 1e-12 * abs(conjugate(S))
        if length == 0.01:
            assert bound[0] <= (2.0 + abs(1.0 / (p - 1.0) - 1.0) + p) * true


def test_what_is_refused():
    X, y, _ = problem()
    solution = sx.fast.multiclass(X, y, loss="softmax", lam=0.5)
    found = sx.guarantee(solution, X, y)
    assert "4 classes" in repr(found)
    for answer, rows, of, reason in (
        (sx.fast.multiclass(X, y, loss="sparse_softmax", lam=0.5), X, y, "no modulus"),
        (sx.fast.m3svm(X, y, lam=0.1, p=1.0), X, y, "p = 1 or norm = 1"),
        (sx.fast.m3svm(X, y, lam=0.1, p=2.0, loss="smoothed"), X, y, "smoothed"),
        (solution, X[::-1], y, "not the data"),
        (solution, X[:-1], y[:-1], "one for 45"),
    ):
        with pytest.raises(sx.DataError, match=reason):
            sx.guarantee(answer, rows, of)
    with pytest.raises(sx.NotCertified, match="no dual point"):
        sx.guarantee(replace(solution, dual={}), X, y)
    with pytest.raises(sx.DataError, match="two classes"):
        found.auc(X, y)
