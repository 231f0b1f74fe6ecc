"""."""

import math
import warnings
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx.data import binary_data
from svmcvx.feature_space import LinearSpace, feature_space
from svmcvx.formulations.margin import (
    PSVM,
    HardMargin,
    PenalisedPSVM,
    best_bias,
    dual_objective,
    objective,
)
from svmcvx.losses import hinge_power, hinge_power_conjugate
from tests.balls import ball, exact_point, power, precision, total
from tests.conftest import make_data
from tests.intervals import overlap

EXPONENTS = (1.0, 1.1, 1.25, 1.37, 1.5, 2.0, 3.0, 7.0)
X, Y = make_data(n=36)


def statement(X, y, C, p, kernel=None, weight=None):
    return PSVM(space=feature_space(binary_data(X, y, weight), kernel, intercept="free"), C=C, p=p)


def certified(X, y, C, p, tol=1e-6, build=sx.psvm_dual, **keywords):
    certificate = sx.solve(build(X, y, C=C, p=p, **keywords)).certificate
    assert certificate.is_certified(tol), certificate
    return certificate


# All but 1.37 are ratios of small integers, which the rational cones state exactly.
@pytest.mark.parametrize(
    ("p", "exponent"),
    [(p, "power") for p in EXPONENTS] + [(p, "rational") for p in EXPONENTS if p != 1.37],
)
def test_builders_state_the_numpy_objective(p, exponent):
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.5, 2.0, Y.size)
    primal = sx.psvm_primal(X, Y, C=3.0, p=p, sample_weight=weight, exponent=exponent)
    w, b = rng.standard_normal(3), 0.3
    u = Y * ((X - X.mean(axis=0)) @ w + b)
    xi = np.maximum(1 - u, 0)
    values = {"w": w, "b": b, "xi": xi, "t": xi**p}
    for name, variable in primal.var_dict.items():
        variable.value = values[name]
    expected = 0.5 * w @ w + 3.0 * sum(
        s * max(1 - ui, 0) ** p for s, ui in zip(weight, u, strict=True)
    )
    assert primal.objective.value == pytest.approx(expected, rel=1e-12)
    assert objective(w @ w, u, C=3.0, p=p, weight=weight) == pytest.approx(expected, rel=1e-12)
    assert all(np.max(constraint.violation()) < 1e-9 for constraint in primal.constraints)


@pytest.mark.parametrize("p", EXPONENTS)
@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5)])
def test_builders_state_the_numpy_dual(p, kernel):
    rng = np.random.default_rng(2)
    weight = rng.uniform(0.5, 2.0, Y.size)
    dual = sx.psvm_dual(X, Y, C=3.0, p=p, kernel=kernel, sample_weight=weight)
    beta = rng.uniform(0.0, 1.0, Y.size)
    values = {"beta": beta, "t": beta ** (p / (p - 1)) if p > 1 else None}
    for name, variable in dual.var_dict.items():
        variable.value = values[name]
    alpha = 3.0 * p * weight * beta
    assert np.allclose(dual.alpha.value, alpha)
    centred = X - X.mean(axis=0)
    K = centred @ centred.T if kernel is None else kernel(X)
    conjugate = (
        0.0
        if p == 1
        else sum(
            3.0 * s * (p - 1) * (a / (3.0 * s * p)) ** (p / (p - 1))
            for a, s in zip(alpha, weight, strict=True)
        )
    )
    expected = alpha.sum() - conjugate - 0.5 * (alpha * Y) @ K @ (alpha * Y)
    assert dual.objective.value == pytest.approx(expected, rel=1e-9)
    assert dual_objective(
        alpha, (alpha * Y) @ K @ (alpha * Y), C=3.0, p=p, weight=weight
    ) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("p", [1.0, 1.3, 2.0, 4.0])
def test_the_conjugate_is_the_supremum(p):
    for alpha in (0.0, 0.2, 0.9):
        found = minimize_scalar(
            lambda xi, a=alpha: 0.7 * xi**p - a * xi,
            bounds=(0, 50),
            method="bounded",
            options={"xatol": 1e-10},
        )
        expected = -found.fun if p > 1 or alpha <= 0.7 else math.inf
        assert float(hinge_power_conjugate(np.array(alpha), 0.7, p)) == pytest.approx(
            expected, abs=1e-7
        )


def test_the_conjugate_survives_the_limit_of_p_to_one():
    values = hinge_power_conjugate(np.array([0.0, 0.5, 0.999, 1.0]), 1.0, 1 + 1e-9)
    assert np.isfinite(values).all()
    assert values[2] < 1e-8
    assert hinge_power(np.array([2.0, 0.0, -1.0]), 3.0).tolist() == [0.0, 1.0, 8.0]


# Solved, against independent statements


def plain_primal(X, y, C, p, weight=None):
    """The primal as a reader of the paper would write it."""
    n, d = X.shape
    s = np.ones(n) if weight is None else weight
    w, b = cp.Variable(d), cp.Variable()
    loss = sum(s[i] * cp.power(cp.pos(1 - y[i] * (X[i] @ w + b)), p) for i in range(n))
    problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2 + C * loss))
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("p", [1.0, 1.25, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("build", [sx.psvm_primal, sx.psvm_dual])
def test_against_a_plain_statement(p, build):
    certificate = certified(X, Y, 0.7, p, build=build)
    reference = plain_primal(X, Y, 0.7, p)
    assert certificate.lower - 1e-5 * reference <= reference <= certificate.upper + 1e-5 * reference


@pytest.mark.parametrize("kernel", [None, sx.RBF("scale"), sx.Polynomial(2, "scale", 1.0)])
@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
def test_p_one_is_the_svc_of_scikit_learn(kernel, C):
    name = {None: "linear"}.get(kernel, "precomputed")
    solution = sx.solve(sx.psvm_dual(X, Y, C=C, p=1.0, kernel=kernel))
    gram = X if kernel is None else kernel.resolve(X)(X)
    svc = SVC(kernel=name, C=C, tol=1e-8).fit(gram, Y)
    dual = np.zeros(Y.size)
    dual[svc.support_] = svc.dual_coef_[0]
    K = X @ X.T if kernel is None else gram
    theirs = objective(float(dual @ K @ dual), Y * svc.decision_function(gram), C=C, p=1.0)
    certificate = solution.certificate
    assert certificate.upper <= theirs + (certificate.upper - certificate.lower)
    assert theirs == pytest.approx(certificate.upper, rel=1e-4)
    ours = statement(X, Y, C, 1.0, kernel)
    assert ours.certify(solution.model, {"alpha": np.abs(dual)}).is_certified(1e-4)


def test_p_two_is_a_ridge_on_the_gram_matrix():
    # The squared hinge: its dual is a quadratic program with K + I/(2C) and no upper bound on α.
    C, kernel = 2.0, sx.RBF(0.5)
    alpha = cp.Variable(Y.size)
    L = np.linalg.cholesky(kernel(X) + np.eye(Y.size) / (2 * C))
    reference = cp.Problem(
        cp.Maximize(cp.sum(alpha) - cp.sum_squares(L.T @ cp.multiply(Y, alpha)) / 2),
        [alpha >= 0, Y @ alpha == 0],
    ).solve(solver=cp.CLARABEL)
    certificate = certified(X, Y, C, 2.0, kernel=kernel)
    assert reference == pytest.approx(certificate.upper, rel=1e-7)


# Certificates


def test_the_interval_is_that_of_the_model_returned(cancer):
    data, labels = cancer
    solution = sx.solve(sx.psvm_dual(data, labels, C=1.0, p=1.5))
    u = np.where(labels == 1, 1, -1) * solution.model.decision_function(data)
    value = 0.5 * np.sum(solution.model.coef**2) + np.sum(np.maximum(1 - u, 0) ** 1.5)
    assert solution.certificate.upper == pytest.approx(value, rel=1e-12)
    assert solution.certificate.upper >= value


# Bias


@given(
    st.lists(st.tuples(st.integers(-20, 20), st.booleans()), min_size=2, max_size=12),
    st.sampled_from([1.0, 1.01, 1.5, 2.0, 4.0, 40.0]),
    st.booleans(),
)
def test_the_best_bias_is_a_minimiser(points, p, weighted):
    f = np.array([value / 4 for value, _ in points])
    y = np.array([1.0 if positive else -1.0 for _, positive in points])
    y[0], y[1] = 1.0, -1.0
    s = np.linspace(0.5, 2.0, f.size) if weighted else np.ones(f.size)
    b = best_bias(f, y, p=p, weight=s)

    def loss(at):
        return float(np.sum(s * np.maximum(1 - y * (f + at), 0) ** p))

    trial = np.concatenate([np.linspace(-12, 12, 481), b + np.array([-1e-3, 1e-3, -1e-6, 1e-6])])
    assert loss(b) <= min(loss(at) for at in trial) * (1 + 1e-9) + 1e-12


def test_the_best_bias_of_separated_scores_is_in_the_middle():
    f, y = np.array([-5.0, -3.0, 3.0, 7.0]), np.array([-1.0, -1.0, 1.0, 1.0])
    for p in (1.0, 1.5, 2.0):
        assert best_bias(f, y, p=p) == pytest.approx(0.0)


# The problems themselves


def test_multipliers_by_label_are_the_dual_point():
    problem = sx.psvm_primal(X, Y, C=1.0, p=1.5)
    problem.solve(solver=cp.CLARABEL)
    solution = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=1.5))
    assert np.allclose(
        problem.constraint_dict["margin"].dual_value, solution.dual["alpha"], atol=1e-4
    )


def test_a_rational_exponent_is_another_problem():
    # Its certificate is that of the exact exponent, whatever the cones state.
    p = 1 + 1 / math.pi
    exact = certified(X, Y, 1.0, p)
    for build in (sx.psvm_primal, sx.psvm_dual):
        problem = build(X, Y, C=1.0, p=p, exponent="rational")
        assert "rational" in problem.cone
        approximate = sx.solve(problem).certificate
        overlap(approximate, exact)
        assert approximate.is_certified(1e-4)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"p": 0.5}, "p < 1 is not convex"),
        ({"p": np.nan}, "p must be"),
        ({"exponent": "float"}, "exponent must be one of"),
    ],
)
@pytest.mark.parametrize("build", [sx.psvm_primal, sx.psvm_dual])
def test_bad_arguments_are_named(build, keywords, message):
    with pytest.raises(sx.DataError, match=message):
        build(X, Y, **{"C": 1.0, "p": 1.5, **keywords})


# Degenerate data


@pytest.mark.parametrize("p", [1.0001, 1.01, 20.0])
def test_exponents_at_the_ends(p):
    solution = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=p, kernel=sx.RBF(0.5)))
    assert solution.certificate.gap < 1e-3, solution.certificate


def test_small_exponents_tend_to_the_hinge():
    hinge = certified(X, Y, 1.0, 1.0)
    near = sx.solve(sx.psvm_dual(X, Y, C=1.0, p=1.001)).certificate
    assert near.upper == pytest.approx(hinge.upper, rel=1e-2)


# Hard margin


@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5)])
def test_the_hard_margin_is_the_limit_of_large_C(kernel):
    data = X + 3.0 * Y[:, None] if kernel is None else X
    hard = sx.solve(sx.hard_margin_dual(data, Y, kernel=kernel))
    assert hard.certificate.is_certified(1e-8)
    soft = certified(data, Y, 1e5, 1.0, kernel=kernel)
    assert soft.upper == pytest.approx(hard.certificate.upper, rel=1e-6)
    margins = Y * hard.model.decision_function(data)
    assert margins.min() == pytest.approx(1.0, abs=1e-9)


def test_a_hard_margin_that_fails_is_not_certified():
    data = X + 3.0 * Y[:, None]
    solution = sx.solve(sx.hard_margin_dual(data, Y))
    problem = sx.hard_margin_dual(data, Y)
    shrunk = sx.LinearModel(
        0.9 * solution.model.coef,
        0.9 * solution.model.intercept,
        solution.model.classes,
        np.arange(2),
    )
    certificate = problem.formulation.certify(shrunk, solution.dual)
    assert certificate.upper == math.inf
    assert not certificate.is_certified(1.0)


# Added constraints


def test_an_added_constraint_given_by_a_function_of_the_model():
    problem = sx.psvm_primal(X, Y, C=1.0, p=2.0)
    w = problem.var_dict["w"]
    found = sx.solve(
        problem.with_constraints(
            [w >= 0.1], holds=lambda model: bool((model.coef >= 0.1 - 1e-6).all())
        )
    )
    assert (found.model.coef >= 0.1 - 1e-6).all()
    assert found.certificate.residuals["added_violation"] == 0.0


def test_a_program_without_values_of_all_variables_has_no_model():
    X, y = make_data(2, 20)
    problem = sx.psvm_primal(X, y, C=1.0, p=1)
    problem.var_dict["w"].value = np.ones(X.shape[1])
    assert problem.model_at_variables() is None


def test_another_objective_is_not_the_statement_s():
    X, y = make_data(2, 20)
    problem = sx.psvm_primal(X, y, C=1.0, p=1)
    problem._objective = cp.Minimize(cp.sum_squares(problem.var_dict["w"]))
    with pytest.raises(sx.BuildError, match="changed after it was built"):
        sx.solve(problem)


def test_an_answer_names_the_terms_of_its_objective():
    X, y = make_data(2, 20)
    solution = sx.fast.psvm(X, y, C=1.0, p=2.0)
    assert set(solution.terms) == {"regulariser", "losses"}
    assert sum(solution.terms.values()) == pytest.approx(solution.certificate.upper, rel=1e-9)


precise = precision(200)

OFFSET = np.array([10002, 9998.3, 10001.73, 9997.11, 10001.55, 9997.01])[:, None]
SIGNS = np.array([1, -1] * 3)


def exact_primal(X, y, model, *, C, p, weight=None):
    scores, half = exact_point(model, X)
    s = np.ones(len(y)) if weight is None else weight
    return half + total(
        ball(C) * ball(w) * power(1 - int(label) * f, p)
        for f, label, w in zip(scores, y, s, strict=True)
    )


def balance(alpha, y):
    return sum(Fraction(a) * int(label) for a, label in zip(alpha.tolist(), y, strict=True))


# Margins at the kink


# Kernels of far clusters


# Hard margin


def test_a_model_without_a_margin_is_no_bound():
    X = OFFSET + 1e12
    statement = HardMargin(space=feature_space(binary_data(X, SIGNS), None, intercept="free"))
    for coef in (0.0, 1e-20):
        model = sx.LinearModel(np.array([coef]), -coef * 1e12, np.array([-1, 1]), np.arange(6))
        assert statement.evaluate(model).upper_end == math.inf


# What is known without a solver


@pytest.mark.parametrize("p", [1.0, 3.0])
@pytest.mark.parametrize("factor", [1e-150, 1e100])
def test_an_interval_is_never_worse_than_doing_nothing(p, factor):
    X, y = make_data(n=60, d=3, seed=1)
    zero = sx.LinearModel(np.zeros(3), 0.0, np.array([-1, 1]), np.arange(3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        solution = sx.fast.psvm(X * factor, y, C=1.0, p=p, time_limit=5.0)
    assert 0 <= solution.certificate.lower <= solution.certificate.upper
    assert ball(solution.certificate.upper) <= exact_primal(X, y, zero, C=1.0, p=p) * (1 + 1e-12)


@pytest.mark.parametrize("kernel", [None, sx.RBF(0.5)])
@pytest.mark.parametrize("p", [1.0, 1.2, 5.0])
def test_the_trivial_model_has_the_best_bias(kernel, p):
    X, y = make_data(n=30, d=2, seed=2)
    weight = np.linspace(0.1, 3.0, 30)
    statement = PSVM(
        space=feature_space(binary_data(X, y, weight), kernel, intercept="free"), C=0.7, p=p
    )
    (model,), (dual,) = statement.trivial()
    value = statement.evaluate(model)
    assert statement.evaluate_dual(dual) == 0.0
    assert not exact_primal(X, y, model, C=0.7, p=p, weight=weight) > ball(value.upper_end)
    for bias in np.linspace(-1, 1, 41):
        other = sx.LinearModel(np.zeros(2), bias, model.classes, np.arange(2))
        assert not exact_primal(X, y, other, C=0.7, p=p, weight=weight) < ball(value.upper_end) * (
            1 - 1e-12
        )


# Multipliers


@given(
    st.lists(
        st.tuples(st.floats(0, 1e6), st.booleans(), st.floats(1e-6, 1e6)), min_size=2, max_size=25
    ),
    st.floats(1e-12, 1e12),
)
def test_repaired_multipliers_are_exactly_feasible_and_stay_as_they_are(rows, C):
    alpha, signs, weight = (np.array(column) for column in zip(*rows, strict=True))
    y = np.where(signs, 1, -1)
    y[:2] = 1, -1
    data = binary_data(np.arange(y.size, dtype=float)[:, None], y, weight)
    statement = PSVM(space=LinearSpace(data, "free"), C=C, p=1.0)
    repaired = statement.repair({"alpha": alpha})
    found = repaired["alpha"]
    assert balance(found, y) == 0
    assert all(
        0 <= Fraction(a) <= Fraction(C) * Fraction(s)
        for a, s in zip(found.tolist(), weight.tolist(), strict=True)
    )
    assert statement.dual_violation(repaired) == 0
    assert np.array_equal(statement.repair(repaired)["alpha"], found)
    # Exactly: one unit in the last place is too much.
    i = int(np.argmax(found))
    if found[i] > 0:
        off = found.copy()
        off[i] = math.nextafter(off[i], 0.0)
        assert statement.dual_violation({"alpha": off}) > 0


@pytest.mark.parametrize("values", [[np.nan, 1.0], [np.inf, 1.0], [1e308, 1.0], [-1.0, -1.0]])
def test_hopeless_multipliers_are_repaired_to_feasible_ones(values):
    data = binary_data(np.array([[0.0], [1.0]]), np.array([1, -1]))
    for statement in (
        PSVM(space=LinearSpace(data, "free"), C=1.7e308, p=1.0),
        PSVM(space=LinearSpace(data, "free"), C=1.0, p=2.0),
        PenalisedPSVM(space=LinearSpace(data, "none"), C=1.7e308, p=1.0),
        HardMargin(space=LinearSpace(data, "free")),
    ):
        assert statement.dual_violation(statement.repair({"alpha": np.array(values)})) == 0


# Width


def test_a_gap_that_rounding_leaves_is_no_optimum():
    X, y = make_data(n=60, d=3, seed=1)
    solution = sx.fast.psvm(X + 1e11, y, C=1.0, p=1.0)
    assert (solution.status == "optimal") == (solution.certificate.gap <= 2e-6)
    assert solution.certificate.gap > 1e-6


# Models of scikit-learn
