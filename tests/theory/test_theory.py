import itertools
import math
import warnings
from dataclasses import replace

import cvxpy as cp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline

import svmcvx as sx
from benchmarks.papers.theory import (
    fixed_margin_bound,
    guaranteed_risk,
    left_out_errors,
    rademacher_bound,
    rademacher_complexity,
)
from svmcvx import theory
from svmcvx.losses import hinge_power
from tests.conftest import make_data

X, Y = make_data(n=40, d=3)
RBF = sx.RBF(0.5)
TWO, THREE = np.array([-1, 1]), np.arange(3)


def small_data(seed):
    """Few points of random spread and shift, both classes present."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(6, 16)), int(rng.integers(1, 4))
    y = np.where(rng.random(n) < 0.5, -1, 1)
    y[:4] = [-1, 1, 1, -1]
    points = rng.standard_normal((n, d)) * rng.choice([0.3, 1.0, 3.0])
    return points + rng.choice([0.0, 0.5, 2.0]) * y[:, None], y, rng


def linear(coef, classes=TWO):
    return sx.LinearModel(np.asarray(coef, dtype=float), 0.0, classes, np.arange(40))


# Margins


@pytest.mark.parametrize("kernel", [None, RBF])
def test_margins_are_scores_with_the_sign_of_the_label(kernel):
    solution = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=1.5, kernel=kernel))
    u = theory.margins(solution, X, Y)
    np.testing.assert_array_equal(u, Y * solution.model.decision_function(X))
    np.testing.assert_array_equal(u < 0, solution.model.predict(X) != Y)


def test_margins_of_several_classes_lead_the_best_other_class():
    rng = np.random.default_rng(0)
    W, b = rng.standard_normal((3, 4)), rng.standard_normal(4)
    labels = np.array(["a", "b", "c", "d"], dtype=object)
    codes = rng.integers(4, size=40)
    model = sx.MulticlassModel(W, b, labels, np.arange(40))
    scores = X @ W + b
    expected = [s[k] - max(np.delete(s, k)) for s, k in zip(scores, codes, strict=True)]
    np.testing.assert_allclose(theory.margins(model, X, labels[codes]), expected)


def test_labels_are_those_of_the_model_not_of_the_data():
    model = sx.MulticlassModel(np.eye(3), np.zeros(3), np.array([1, 2, 3]), THREE)
    # A part of the data that lacks class 1 must not shift the others.
    points = [[0.0, 2.0, 0.5], [0.0, 1.0, 4.0]]
    np.testing.assert_allclose(theory.margins(model, points, [2, 3]), [1.5, 3.0])


def test_margin_distribution_has_the_moments_of_odml():
    C, lam1, lam2 = 3.0, 2.0, 0.7
    solution = sx.solve(sx.odml_primal(X, Y, lam1=lam1, lam2=lam2, C=C))
    found = theory.margin_distribution(solution, X, Y)
    w = solution.model.coef
    loss = C * float(found.share @ np.maximum(1 - found.margins, 0))
    value = 0.5 * w @ w + lam1 * found.variance - lam2 * found.mean + loss
    assert value == pytest.approx(solution.certificate.upper, rel=1e-8)
    assert found.minimum == theory.margins(solution, X, Y).min()


def test_weights_count_as_copies_in_a_margin_distribution():
    model, weight = linear([1.0, 0.5, 2.0]), np.arange(40) % 3
    once = theory.margin_distribution(model, X, Y, sample_weight=weight)
    copies = theory.margin_distribution(model, np.repeat(X, weight, axis=0), np.repeat(Y, weight))
    assert (once.mean, once.variance) == pytest.approx((copies.mean, copies.variance))
    thresholds = np.linspace(-3, 3, 41)
    np.testing.assert_allclose(once.cumulative(thresholds), copies.cumulative(thresholds))
    # It counts margins at or below.
    few = theory.margin_distribution(linear([1.0]), [[1.0], [-2.0], [1.0], [3.0]], [1] * 4)
    shares = few.cumulative([-3, -2, 0, 1, 2.9, 3])
    np.testing.assert_allclose(shares, [0, 0.25, 0.25, 0.75, 0.75, 1])


def test_tables_and_estimators_are_taken_as_their_models_are():
    table = pd.DataFrame(X, columns=list("abc")).assign(kind="x")
    columns = make_column_transformer(("passthrough", list("abc")))
    plain = sx.PSVMClassifier().fit(X, Y)
    expected = theory.margins(plain.solution_, X, Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        named = sx.PSVMClassifier().fit(table[list("abc")], Y)
        mixed = make_pipeline(columns, sx.PSVMClassifier()).fit(table, Y)
        for model, rows in (
            (plain, X),
            (plain, X.tolist()),
            (named, table[list("abc")]),
            (mixed, table),
        ):
            np.testing.assert_allclose(theory.margins(model, rows, Y), expected)
    assert theory.generalisation_bound(plain, X, Y) == theory.generalisation_bound(
        plain.solution_.model, X, Y, p=1.0
    )
    fitted = sx.ODMClassifier().fit(X, Y)
    codes = np.arange(40) % 3
    pairs = sx.PSVMClassifier(p=1.5).fit(X, codes)
    np.testing.assert_array_equal(theory.margins(pairs, X, codes) < 0, pairs.predict(X) != codes)
    one, other = (theory.leave_one_out_bound(each, X, Y) for each in (fitted, fitted.solution_))
    assert one.total == other.total


class Rule:
    def decision_function(self, points):
        return points[:, 0]


ODM = sx.solve(sx.odm_dual(X, Y, C1=1.0, C2=1.0, D=0.1))
PSVM = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=2))
KERNEL = sx.fast.psvm(X, Y, kernel=sx.Polynomial(1, 1.0, 1.0)).model
SEVERAL = sx.MulticlassModel(np.eye(3), np.zeros(3), np.array([1, 2, 3]), THREE)
bounded, left_out = theory.generalisation_bound, theory.leave_one_out_bound
REFUSED = {
    "an unknown label": (lambda: theory.margins(SEVERAL, X, [7] * 40), "y holds 7, which the mod"),
    "labels": (lambda: theory.margins(SEVERAL, X, [1, 2]), "one label per observation"),
    "no scores": (lambda: theory.margins(object(), X, Y), "classifier with decision_function"),
    "no classes": (lambda: theory.margins(Rule(), X, Y), "has no classes"),
    "no weight": (
        lambda: theory.margin_distribution(PSVM, X, Y, sample_weight=np.zeros(40)),
        "sample_weight is zero for every observation",
    ),
    "no p": (lambda: bounded(PSVM.model, X, Y), "p is not known from the model; pass p"),
    "r": (lambda: bounded(PSVM, X, Y, r=0.1), "does not hold the data, whose largest norm is"),
    "rho": (lambda: bounded(PSVM, X, Y, rho=1e3), "is larger than min"),
    "no radius": (lambda: bounded(PSVM, np.zeros_like(X), Y), "X is zero in every observation"),
    "columns": (lambda: bounded(PSVM, X[:, :2], Y), "2 features, but the model expects 3"),
    "delta": (lambda: bounded(PSVM, X, Y, delta=1.0), "delta must be a finite number in"),
    "bias": (lambda: bounded(PSVM, X, Y, bias="none"), "bias must be one of"),
    "classes": (lambda: bounded(SEVERAL, X, Y, p=2), "KernelModel of two classes, got Multiclas"),
    "no feature space": (
        lambda: bounded(replace(KERNEL, kernel=sx.Polynomial(1, 1.0, -100.0)), X, Y, p=2),
        "there is no feature space",
    ),
    "another machine": (lambda: left_out(PSVM, X, Y), "Solution of odm or odml, got psvm"),
    "a model": (lambda: left_out(ODM.model, X, Y), "of odm or odml, got LinearModel"),
    "other rows": (lambda: left_out(ODM, X[:20], Y[:20]), "one multiplier an observation"),
    "a kernel": (
        lambda: theory.pairwise_margins(sx.fast.psvm(X, Y, kernel=RBF)),
        "one vector of weights per class",
    ),
    "pairs": (
        lambda: theory.pairwise_margins(sx.PSVMClassifier().fit(X, np.arange(40) % 3)),
        "one vector of weights per class",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_assumed_is_checked(case):
    call, message = REFUSED[case]
    with pytest.raises(sx.DataError, match=message):
        call()


# Margin loss


@given(
    p=st.floats(1, 50),
    rho=st.floats(1e-3, 1e3),
    pair=st.tuples(st.floats(-1e4, 1e4), st.floats(-1e4, 1e4)),
)
def test_margin_loss_lies_between_error_and_hinge_and_is_lipschitz(p, rho, pair):
    u = np.array(pair)
    loss = theory.margin_loss(u, p=p, rho=rho)
    assert ((u <= 0) <= loss).all()
    with np.errstate(over="ignore"):
        assert (loss <= hinge_power(u / rho, p) * (1 + 1e-12)).all()
        np.testing.assert_allclose(loss, np.minimum(1, np.maximum(0, 1 - u / rho) ** p), atol=1e-15)
    assert abs(loss[1] - loss[0]) <= p / rho * abs(u[1] - u[0]) * (1 + 1e-9) + 1e-12


def test_lipschitz_constant_of_the_margin_loss_is_attained():
    steps = np.diff(theory.margin_loss([0.0, 1e-7], p=2.5, rho=0.4)) / 1e-7
    assert abs(steps[0]) == pytest.approx(2.5 / 0.4, rel=1e-5)
    with np.errstate(over="raise"):
        assert theory.margin_loss([-1e300], p=40.0)[0] == 1.0


# Rademacher complexity


@pytest.mark.parametrize("kernel", [sx.Linear(), RBF, sx.Polynomial(2, 0.5, 1.0)])
def test_complexity_is_below_its_bounds_without_a_large_bias(kernel):
    K, signs = kernel(X), np.random.default_rng(1).choice([-1.0, 1.0], size=(40, 4000))
    bound = rademacher_bound(K, norm=1.7, bias=0.6)
    value = rademacher_complexity(K, signs, norm=1.7, bias=0.6)
    assert bound.theorem == pytest.approx(1.7 * math.sqrt(np.diag(K).max() / 40))
    assert value <= bound.trace + bound.bias <= (bound.theorem + bound.bias) * (1 + 1e-12)
    # Jensen loses no more than a factor √2 (Khintchine): another quantity would be outside.
    assert value >= 0.95 * (bound.trace + bound.bias) / math.sqrt(2)
    # Theorem 2 of [Sun] bounds it by r/√m without a bias; the proof of Theorem 3 takes that for
    # functions with any bias. The mean of |Σσ|/m is near √(2/(πm)) = 0.126.
    assert rademacher_complexity(K, signs, norm=1.7) <= bound.theorem
    assert rademacher_complexity(K, signs, norm=1.7, bias=1e3) > 120 > 10 * bound.theorem


def test_complexity_is_exact_over_all_signs():
    points, signs = X[:6], np.array(list(itertools.product([-1, 1], repeat=6)))
    lengths = 2.0 * np.linalg.norm(signs @ points, axis=1) + 0.3 * np.abs(signs.sum(axis=1))
    found = rademacher_complexity(points @ points.T, signs.T, norm=2.0, bias=0.3)
    assert found == pytest.approx(lengths.mean() / 6)


def test_the_bound_of_theorem_1_holds_for_labels_of_a_coin():
    """Every classifier errs with probability 1/2, and so has at least this expected loss."""
    rng, m = np.random.default_rng(8), 60
    for rho in (0.2, 0.5, 1.0):
        points, signs = rng.normal(size=(m, 3)), rng.choice([-1.0, 1.0], m)
        points /= np.linalg.norm(points, axis=1)[:, None]
        w = points.T @ signs
        u = signs * (points @ (w / np.linalg.norm(w)))
        found = fixed_margin_bound(u, 1 / math.sqrt(m), rho=rho, delta=0.1)
        mean = sum(min(1.0, max(0.0, 1.0 - each / rho)) for each in u) / m
        assert found == pytest.approx(
            mean + 2 / (rho * math.sqrt(m)) + math.sqrt(math.log(20) / 120)
        )
        assert mean < 0.9
        assert found >= 0.5


# Generalisation bound


def test_terms_of_the_generalisation_bound_as_printed():
    p, delta = 1.5, 0.1
    solution = sx.solve(sx.psvm_primal(X, Y, C=1.0, p=p))
    bound = bounded(solution, X, Y, delta=delta, bias="paper")
    w, b = solution.model.coef, solution.model.intercept
    m, r, rho = 40, np.linalg.norm(X, axis=1).max(), 1 / np.linalg.norm(w)
    assert rho < r
    expected = {
        "empirical": np.mean(np.maximum(0, 1 - Y * (X @ w + b)) ** p),
        "complexity": 4 * p * math.sqrt(r**2 / rho**2 / m),
        "uniform": math.sqrt(math.log(math.log2(2 * r / rho)) / m),
        "confidence": math.sqrt(math.log(2 / delta) / (2 * m)),
    }
    assert {name: getattr(bound, name) for name in expected} == pytest.approx(expected)
    assert (bound.r, bound.rho, bound.total) == pytest.approx((r, rho, sum(expected.values())))


def test_a_bias_is_the_coefficient_of_a_constant_feature():
    model, r = PSVM.model, np.linalg.norm(X, axis=1).max()
    assert model.intercept != 0
    counted, printed = bounded(PSVM, X, Y), bounded(PSVM, X, Y, bias="paper")
    extended = linear(np.append(model.coef, model.intercept / r), model.classes)
    same = bounded(extended, np.column_stack([X, np.full(40, r)]), Y, p=2, bias="paper")
    assert counted.total == pytest.approx(same.total)
    assert counted.total > printed.total
    plain = linear(model.coef, model.classes)
    assert bounded(plain, X, Y, p=2) == bounded(plain, X, Y, p=2, bias="paper")


def test_kernel_bound_agrees_with_the_linear_one():
    for rows, kernel in ((X, sx.Linear()), (X @ X.T, sx.Precomputed())):
        solution = sx.solve(sx.psvm_dual(rows, Y, C=1.0, p=2, kernel=kernel))
        found = bounded(solution, rows, Y)
        assert found.total == pytest.approx(bounded(PSVM, X, Y).total, rel=1e-6)


def test_margin_loss_gives_the_smaller_empirical_term():
    solution = sx.solve(sx.psvm_dual(X, Y, C=0.01, p=2))
    hinge, margin = (bounded(solution, X, Y, loss=loss) for loss in ("hinge", "margin"))
    assert np.mean(solution.model.predict(X) != Y) <= margin.empirical <= hinge.empirical
    assert margin.complexity == hinge.complexity


def test_the_margin_is_capped_by_the_radius():
    for size in (1e-6, 0.0):
        bound = bounded(linear(np.full(3, size)), X, Y, p=1)
        assert (bound.rho, bound.uniform) == (bound.r, 0.0)


def test_the_bound_holds_for_the_error_on_new_data():
    rng = np.random.default_rng(0)

    def draw(n):
        y = np.where(rng.random(n) < 0.5, -1, 1)
        return np.clip(rng.standard_normal((n, 2)) * 0.05 + 0.25 * y[:, None], -1, 1), y

    train, test = draw(4000), draw(20_000)
    model = sx.fast.psvm(*train, C=2e-3, p=1).model
    bound = bounded(model, *train, p=1, r=math.sqrt(2))
    assert np.mean(model.predict(test[0]) != test[1]) <= bound.total < 1.0


# Leave one out


def errors_without_one(name, points, y, **given_):
    """The rows that are misclassified by the machine trained without them."""
    kept = (y.size - 1) / y.size
    weights = ("C", "C1", "C2", "lam1", "lam2")
    fewer = {key: kept * value if key in weights else value for key, value in given_.items()}
    return left_out_errors(
        lambda part, labels: getattr(sx.fast, name)(part, labels, **fewer), points, y
    )


MACHINES = {
    "odm": {"C1": [0.3, 5.0, 300.0], "C2": [0.3, 5.0, 300.0], "D": [0.0, 0.3, 0.9]},
    "odml": {"lam1": [0.0, 1.0, 1000.0], "lam2": [0.0, 0.5, 5.0], "C": [0.5, 10.0, 300.0]},
}


@pytest.mark.parametrize("name", MACHINES)
@settings(max_examples=8)
@given(
    seed=st.integers(0, 10_000),
    choice=st.tuples(*[st.integers(0, 2)] * 3),
    kernel=st.sampled_from([None, RBF]),
    intercept=st.booleans(),
)
def test_no_error_without_a_suspect(name, seed, choice, kernel, intercept):
    points, y, _ = small_data(seed)
    values = zip(MACHINES[name].items(), choice, strict=True)
    given_ = {key: listed[k] for (key, listed), k in values}
    given_ |= {"kernel": kernel, "intercept": intercept}
    bound = left_out(sx.solve(getattr(sx, f"{name}_dual")(points, y, **given_)), points, y)
    assert set(errors_without_one(name, points, y, **given_)) <= set(bound.suspects)
    assert bound.total == bound.suspects.size / y.size


@pytest.mark.parametrize("blur", [0.05, 0.5])
def test_any_dual_point_gives_a_valid_bound(blur):
    points, y, rng = small_data(5)
    solution = sx.solve(sx.odm_dual(points, y, C1=5.0, C2=5.0, D=0.2))
    theta = solution.dual["theta"]
    blurred = theta + blur * np.abs(theta).max() * rng.standard_normal(theta.size)
    good, worse = (
        left_out(each, points, y) for each in (solution, replace(solution, dual={"theta": blurred}))
    )
    assert worse.slack > good.slack
    exact = errors_without_one("odm", points, y, C1=5.0, C2=5.0, D=0.2)
    assert set(exact) <= set(worse.suspects)


def test_terms_of_theorem_3():
    m, C1, C2, D = 40, 20.0, 5.0, 0.3
    solution = sx.solve(sx.odm_dual(X, Y, C1=C1, C2=C2, D=D))
    bound = left_out(solution, X, Y)
    theta, lengths = solution.dual["theta"], (X**2).sum(axis=1)
    zeta, beta = np.maximum(theta, 0), np.maximum(-theta, 0)
    below = zeta * (lengths + m / (2 * C1))
    assert bound.terms == pytest.approx(
        {
            "below": below.sum() / m,
            "above": beta @ (lengths + m / (2 * C2)) / m,
            "band": D * ((zeta > 0).sum() - (beta > 0).sum()) / m,
        }
    )
    # Where the theorem's inequality applies, below the band, the suspects are those that it names.
    named = (zeta > 0) & (below >= 1 - D)
    np.testing.assert_array_equal(bound.suspects, np.flatnonzero(named))


def test_printed_theorem_3_can_lie_below_the_error():
    # Twenty points just above the band, one that pulls them up, one that is always wrong.
    y, given_ = np.array([1, -1] * 11), {"C1": 1e4, "C2": 10.0, "D": 0.8}
    points = (np.r_[np.ones(20), 0.05, -0.01] * y)[:, None]
    bound = left_out(sx.solve(sx.odm_dual(points, y, **given_)), points, y)
    assert errors_without_one("odm", points, y, **given_) == [21]
    assert bound.printed < 0 < 1 / 22 <= bound.total
    assert bound.suspects.size <= 2


def test_printed_theorem_3_is_negative_in_expectation():
    bounds = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = np.where(rng.random(400) < 0.5, 1, -1)
        points = (y * np.where(rng.random(400) < 0.9, 3.0, 1.0))[:, None]
        solution = sx.fast.odm(points, y, C1=7.0, C2=1000.0, D=0.2)
        # The sign of x is the label, and the machine finds it: the error is 0.
        assert solution.model.coef.item() > 0
        bounds.append(left_out(solution, points, y).printed)
    assert np.mean(bounds) + 5 * np.std(bounds, ddof=1) / np.sqrt(len(bounds)) < 0


def hinge_left_out(points, y, i, *, lam1, lam2, C):
    """Margin of observation i in the ODML without its hinge loss, from the primal statement."""
    n, d = points.shape
    w = cp.Variable(d)
    u = cp.multiply(y, points @ w)
    hinge = C / n * cp.sum(cp.pos(1 - u[np.delete(np.arange(n), i)]))
    variance = cp.sum_squares((np.eye(n) - 1 / n) @ u) / n
    objective = 0.5 * cp.sum_squares(w) + lam1 * variance - lam2 * cp.sum(u) / n + hinge
    cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)
    return float(u.value[i])


@pytest.mark.parametrize("seed", range(2))
def test_theorem_2_bounds_the_error_without_the_hinge_loss(seed):
    points, y, _ = small_data(seed)
    given_ = {"lam1": 1.0, "lam2": 0.5, "C": 10.0}
    solution = sx.solve(sx.odml_dual(points, y, **given_))
    wrong = [hinge_left_out(points, y, i, **given_) < -1e-6 for i in range(y.size)]
    assert np.mean(wrong) <= left_out(solution, points, y).printed + 1e-6


def test_terms_of_theorem_2():
    m, lam1, C = 40, 2.0, 5.0
    solution = sx.solve(sx.odml_dual(X, Y, lam1=lam1, lam2=0.5, C=C))
    bound = left_out(solution, X, Y)
    A = 2 * lam1 * (m * np.eye(m) - np.outer(Y, Y)) / m**2
    G = X @ X.T
    H = np.outer(Y, Y) * (G @ np.linalg.inv(np.eye(m) + A @ G))
    alpha = solution.dual["alpha"]
    inside = alpha < C / m * (1 - 1e-9)
    free = (alpha * np.diag(H))[inside].sum() / m
    assert bound.terms == pytest.approx({"free": free, "ceiling": np.mean(~inside)})
    assert bound.printed == bound.terms["free"] + bound.terms["ceiling"]


def test_printed_theorem_2_can_lie_below_the_error():
    # No hinge loss is positive, so that the theorem says 0; but the mean of the margins turns with
    # each observation.
    points = np.array([[1.6, 1.5], [6.5, -3.1], [3.9, 2.3], [0.7, 2.7], [0.9, -1.2]])
    y, given_ = np.array([-1, 1, 1, -1, 1]), {"lam1": 1.0, "lam2": 100.0, "C": 40.0}
    bound = left_out(sx.solve(sx.odml_dual(points, y, **given_)), points, y)
    exact = errors_without_one("odml", points, y, **given_)
    assert bound.printed == pytest.approx(0.0, abs=1e-6)
    assert len(exact) == 2
    assert set(exact) <= set(bound.suspects)


def test_printed_theorem_2_fails_for_a_distribution():
    # Labels are coins that no classifier can predict, so the expected error is 1/2; the printed
    # bound is 0 in every sample.
    for seed in range(20):
        rng = np.random.default_rng(seed)
        points = rng.standard_normal((10, 200))
        points /= np.linalg.norm(points, axis=1)[:, None]
        y = np.where(rng.random(10) < 0.5, 1, -1)
        solution = sx.fast.odml(points, y, lam1=0.01, lam2=40.0, C=10.0)
        assert (y * solution.model.decision_function(points)).min() > 1
        assert left_out(solution, points, y).printed == 0


def test_the_only_one_of_its_class_is_always_a_suspect():
    far = np.array([[1.0, 0.0], [2.0, 1.0], [1.0, -1.0], [-2.0, 0.0]])
    labels = np.array(["a", "a", "a", "b"])
    odm = sx.solve(sx.odm_dual(far, labels, C1=9.0, C2=9.0, D=0.1))
    odml = sx.solve(sx.odml_dual(far, labels, lam1=1.0, lam2=1.0, C=9.0))
    assert all(3 in left_out(solution, far, labels).suspects for solution in (odm, odml))
    assert left_out_errors(sx.ODMClassifier(C1=9.0, C2=9.0, D=0.1).fit, far, labels, [3]) == [3]


def test_weights_of_zero_are_no_suspects():
    weight, given_ = np.where(np.arange(40) < 6, 0.0, 1.0), {"C1": 5.0, "C2": 5.0, "D": 0.1}
    solution = sx.solve(sx.odm_dual(X, Y, sample_weight=weight, **given_))
    whole = left_out(solution, X, Y, sample_weight=weight)
    part = left_out(sx.solve(sx.odm_dual(X[6:], Y[6:], **given_)), X[6:], Y[6:])
    np.testing.assert_array_equal(whole.suspects, part.suspects + 6)
    assert whole.printed == pytest.approx(part.printed, rel=1e-6)


# Pairs of classes

CENTRES = np.array([[0, 1], [1, -1], [-1, -1]])
CODES = np.arange(45) % 3
POINTS = np.random.default_rng(0).standard_normal((45, 2)) + 1.5 * CENTRES[CODES]


def test_pairwise_margins_are_distances_between_the_lines_of_score_one():
    model = sx.solve(sx.m3svm(POINTS, CODES, lam=0.1, p=4)).model
    table = theory.pairwise_margins(model)
    assert np.isnan(np.diag(table)).all()
    np.testing.assert_array_equal(table, table.T)
    for k, j in itertools.combinations(range(3), 2):
        w, b = model.coef[:, k] - model.coef[:, j], model.intercept[k] - model.intercept[j]
        up, down = w * (1 - b) / (w @ w), w * (-1 - b) / (w @ w)
        assert table[k, j] == pytest.approx(np.linalg.norm(up - down))
    assert theory.pairwise_margins(linear([3.0, 4.0]))[0, 1] == pytest.approx(2 / 5)
    equal = sx.MulticlassModel(np.ones((2, 3)), np.zeros(3), THREE, np.arange(2))
    assert np.isinf(theory.pairwise_margins(equal)[0, 1])
    assert guaranteed_risk(equal.coef, X[:, :2], p=2) == (0, 0)


def test_hard_margin_m3svm_maximises_the_smallest_pairwise_margin():
    apart = 0.2 * np.random.default_rng(2).standard_normal((30, 2)) + 3 * CENTRES[CODES[:30]]
    largest, square = (
        sx.solve(sx.m3svm_hard_margin(apart, CODES[:30], p=p)) for p in (math.inf, 2)
    )
    best, other = (np.nanmin(theory.pairwise_margins(each)) for each in (largest, square))
    assert best == pytest.approx(2 / largest.certificate.upper, rel=1e-5)
    assert other <= best * (1 + 1e-6)


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0, 60.0, math.inf])
def test_the_operator_norm_is_below_theorem_6(p):
    for seed in range(20):
        W = np.random.default_rng(seed).standard_normal((3, 4))
        sample, bound = guaranteed_risk(W, X, p=p)
        pairs = list(itertools.combinations(range(4), 2))
        differences = np.array([[x @ (W[:, k] - W[:, j]) for k, j in pairs] for x in X])
        assert sample == pytest.approx(np.linalg.norm(differences, ord=p, axis=1).max())
        assert sample <= bound * (1 + 1e-12)


def test_theorem_6_bounds_what_the_regulariser_minimises():
    lam, p, eps = 0.1, 4.0, 1e-6
    solution = sx.solve(sx.m3svm(POINTS, CODES, lam=lam, p=p, eps=eps))
    model, radius = solution.model, np.linalg.norm(POINTS, axis=1).max()
    pairs = guaranteed_risk(model.coef, POINTS, p=p)[1] / radius
    f = model.decision_function(POINTS)
    # The own class adds one each.
    losses = np.maximum(0, 1 - (f[np.arange(45), CODES][:, None] - f)).sum() - 45
    squares = eps * ((model.coef**2).sum() + (model.intercept**2).sum())
    assert losses + lam * pairs**p + squares == pytest.approx(solution.certificate.upper, rel=1e-6)
