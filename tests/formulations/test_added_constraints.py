"""Problems with added constraints: their multipliers bound, exactly, and the interval is no worse
than without them.
"""

import importlib.util
import math
from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from campaigns.added_constraints import falsehood
from svmcvx.formulations.constraints import standard_form
from svmcvx.solve import policy
from tests.balls import fractions
from tests.conftest import make_data

X, Y = make_data(seed=8, n=30, d=3)
A = np.array([[1.0, 2.0, -1.0], [0.3, -0.7, 0.1]])
SKEW = A[[0, 0]].T @ A[[0, 0]] * 1e7 + np.eye(3)
RBF = sx.RBF(0.5)

ON_W = {
    "w >= 0": lambda w, b: [w >= 0],
    "1-norm": lambda w, b: [cp.norm(w, 1) <= 0.5],
    "2-norm": lambda w, b: [cp.norm(w) <= 0.5],
    "sum(w) == 0": lambda w, b: [cp.sum(w) == 0],
    "box": lambda w, b: [w <= 0.3, w >= -0.3],
    "infinity-norm": lambda w, b: [cp.norm(w, "inf") <= 0.3],
    "sum of squares": lambda w, b: [cp.sum_squares(w) <= 0.25],
    "absolute values": lambda w, b: [cp.abs(w) <= 0.3],
    "largest": lambda w, b: [2 * cp.max(w[:3]) + w[1] <= 0.2],
    "maxima": lambda w, b: cp.maximum(w[:3], -0.1, w[1:4] if w.size > 3 else 2 * w[:3]) <= 0.15,
    "cone": lambda w, b: [cp.SOC(cp.Constant(0.4), w[:2])],
    "rows": lambda w, b: [A @ w[:3] <= -0.1, w[0] == w[1]],
    "scaled 1-norm of a shift": lambda w, b: [2 * cp.norm1(w - 0.1) + w[1] / 3 <= 1.0],
    "squares of a part": lambda w, b: [cp.sum_squares(w[:2] - 0.1) / 2 <= 0.05],
    "a limit in w": lambda w, b: [cp.norm(w) <= cp.sum(w) + 1.0],
    "sum of absolute values": lambda w, b: [cp.sum(cp.abs(w[1:])) <= 0.2],
    "quadratic form": lambda w, b: [cp.quad_form(w[:3], A.T @ A + np.eye(3)) <= 0.1],
    "singular form": lambda w, b: [cp.quad_form(w[:3], A.T @ A, assume_PSD=True) <= 0.05],
    "sparse form of a shift": lambda w, b: 2 * cp.quad_form(w - 0.1, sp.eye_array(w.size)) <= 0.1,
    "form and linear": lambda w, b: [3 * cp.quad_form(w[:3], A.T @ A + np.eye(3)) + w[0] <= 0.2],
    "squares below a limit in w": lambda w, b: [cp.sum_squares(w) / 2 <= 0.1 * w[0]],
    "2-norm of a shift": lambda w, b: [cp.norm(w[:3] - np.array([0.3, 0.0, 0.1])) <= 0.2],
}
WITH_B = {
    "b": lambda w, b: [b == 0.1],
    "b with coefficients": lambda w, b: [b + 0.3 * w[0] <= -0.1, 0.7 * b >= -0.5],
    "norm with b": lambda w, b: [cp.norm(cp.hstack([w, b])) <= 0.5],
    "1-norm with b": lambda w, b: [cp.norm1(cp.hstack([w, b])) <= 0.5, cp.abs(b) <= 0.05],
}


def optimum(problem):
    """What a solver says of the same problem, not ours."""
    return cp.Problem(problem.objective, list(problem.constraints)).solve(solver="CLARABEL")


def close(problem, gap=1e-6):
    """Solve a problem with added constraints, and hold its interval against a solver's optimum."""
    solution = sx.solve(problem, tol=1e-7)
    certificate, value = solution.certificate, optimum(problem)
    assert certificate.gap < gap
    assert certificate.lower <= value * (1 + 1e-6)
    assert certificate.upper == pytest.approx(value, rel=1e-5)
    assert certificate.residuals["added_violation"] <= 1e-7
    return solution


@pytest.mark.parametrize(
    ("name", "p"), [*((name, 1.0) for name in ON_W | WITH_B), ("1-norm", 1.5), ("b", 1.5)]
)
def test_the_interval_closes(name, p):
    # With an offset, so that the intercept of centred data is another number.
    problem = sx.psvm_primal(X + 5.0, Y, C=0.7, p=p, sample_weight=np.linspace(0.5, 2.0, 30))
    free = sx.solve(problem).certificate
    added = (ON_W | WITH_B)[name](problem.var_dict["w"], problem.var_dict["b"])
    solution = close(problem.with_constraints(added))
    assert solution.certificate.lower >= free.lower * (1 - 1e-9)


@pytest.mark.parametrize(
    ("name", "intercept", "build"),
    [
        ("w >= 0", "penalised", sx.psvm_primal),
        ("1-norm", "none", sx.psvm_primal),
        ("2-norm", "penalised", sx.odm_primal),
        ("w >= 0", "none", sx.odm_primal),
    ],
)
def test_the_interval_closes_without_a_free_intercept(name, intercept, build):
    problem = build(X, Y, intercept=intercept)
    close(problem.with_constraints(ON_W[name](problem.var_dict["w"], None)))


def test_sparse_data_and_more_columns_than_rows():
    thin = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    problem = sx.psvm_primal(thin, Y, C=1.0, p=1.0)
    close(problem.with_constraints([problem.var_dict["w"] >= 0]))
    wide = np.random.default_rng(0).standard_normal((12, 40))
    problem = sx.psvm_primal(wide, np.arange(12) % 2, C=1.0, p=1.0)
    close(problem.with_constraints([cp.norm(problem.var_dict["w"]) <= 0.1]))


# Weights that belong to the columns of a factor


@pytest.mark.parametrize(
    ("kernel", "intercept"), [(None, "free"), (None, "none"), (RBF, "penalised")]
)
def test_weights_in_the_columns_of_a_factor_have_their_own_length(kernel, intercept):
    """Duplicate rows leave a column that no observation sees: its weight costs its square."""
    wide = np.random.default_rng(0).standard_normal((9, 3 if kernel else 20))
    wide[4:] = wide[3]
    problem = sx.psvm_primal(wide, np.arange(9) % 2, C=1.0, kernel=kernel, intercept=intercept)
    w = problem.var_dict["w"]
    for added in ([w[-1] >= 1.0], [cp.sum(w) == 2.0], [cp.abs(w) <= 0.1], [cp.norm1(w) <= 0.5]):
        close(problem.with_constraints(added))


@pytest.mark.parametrize("number", range(12))
def test_no_interval_of_random_constraints_is_false(number):
    wrong, _ = falsehood(np.random.default_rng([45, number]))
    assert wrong is None


def test_no_constraint_and_constraints_in_two_calls():
    problem = sx.psvm_primal(X, Y)
    w, b = problem.var_dict["w"], problem.var_dict["b"]
    assert problem.with_constraints([]) is problem
    first = problem.with_constraints([w <= 0.2])
    close(first)
    both = close(first.with_constraints([b >= 0.3]))
    together = close(problem.with_constraints([w <= 0.2, b >= 0.3]))
    assert both.hyperparameters["added_constraints"] == 2
    assert both.certificate.upper == pytest.approx(together.certificate.upper, rel=1e-6)
    with pytest.raises(sx.BuildError, match="added in one call"):
        first.with_constraints([b >= 0.0], holds=lambda model: True)


def test_squares_over_zero_have_no_multipliers():
    w = cp.Variable(3)
    assert standard_form(cp.quad_over_lin(w, 0.0) <= 1.0) is None
    assert standard_form(cp.quad_over_lin(w, 2.0) <= 1.0) is not None


# Variables of the constraints alone


def test_a_number_of_weights_is_a_sum_of_booleans():
    problem = sx.psvm_primal(X, Y, C=0.7)
    w = problem.var_dict["w"]
    used = cp.Variable(w.size, boolean=True)
    solution = sx.solve(problem.with_constraints([cp.abs(w) <= 2.0 * used, cp.sum(used) <= 1]))
    certificate = solution.certificate
    assert certificate.kind == "mixed-integer"
    assert certificate.is_certified(1e-5)
    assert certificate.residuals["added_violation"] <= 1e-6
    assert np.count_nonzero(np.abs(solution.model.coef) > 1e-6) == 1
    each = [
        sx.solve(
            problem.with_constraints([cp.abs(w) <= np.where(np.arange(w.size) == k, 2.0, 0.0)])
        )
        for k in range(w.size)
    ]
    best = min(one.certificate.upper for one in each)
    assert certificate.lower <= best * (1 + 1e-6)
    assert certificate.upper == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("p", [1.5, 3.0])
def test_booleans_beside_power_cones_are_refused_with_what_to_do(p):
    problem = sx.psvm_primal(X, Y, C=0.7, p=p)
    w = problem.var_dict["w"]
    integers = problem.with_constraints([cp.abs(w) <= cp.Variable(w.size, boolean=True)])
    for solver, why in (("scip", "SCIP is not used for"), ("highs", "HIGHS is not used for")):
        with pytest.raises(sx.SolverUnavailable, match=f"{why} MISOCP/power.* p = 1 or p = 2"):
            sx.solve(integers, solver=solver)
    if importlib.util.find_spec("mosek") is None:
        with pytest.raises(sx.SolverUnavailable, match=r"install one of MOSEK.* p = 1 or p = 2"):
            sx.solve(integers)


def test_where_no_solver_takes_integers_no_other_problem_is_proposed(monkeypatch):
    monkeypatch.setattr(policy, "installed", lambda _: False)
    problem = sx.psvm_primal(X, Y, C=0.7)
    used = cp.Variable(3, boolean=True)
    with pytest.raises(sx.SolverUnavailable) as raised:
        sx.solve(problem.with_constraints([cp.abs(problem.var_dict["w"]) <= used]))
    assert "fast.psvm" not in str(raised.value)


def test_a_variable_that_is_no_integer_violates_its_constraints():
    problem = sx.psvm_primal(X, Y, C=0.7)
    w, used = problem.var_dict["w"], cp.Variable(boolean=True)
    constrained = problem.with_constraints([cp.norm1(w) <= 2.0 * used])
    sx.solve(problem)
    # Not yet measured: the new variable has no value.
    assert constrained.formulation.measured is None
    for value, violation in ((1.0, 0.0), (0.75, 0.25)):
        problem.var_dict["w"].value = np.array([0.5, 0.0, -0.5])
        used.save_value(np.array(value))
        assert constrained.formulation.measured.violation == violation


def test_a_variable_of_the_constraints_alone_has_a_bound_without_them():
    problem = sx.psvm_primal(X, Y, C=0.7)
    w, size = problem.var_dict["w"], cp.Variable(3, nonneg=True)
    constrained = problem.with_constraints([cp.abs(w) <= size, cp.sum(size) <= 0.5])
    free, found = sx.solve(problem).certificate, sx.solve(constrained).certificate
    tight = close(problem.with_constraints([cp.norm1(w) <= 0.5])).certificate
    assert found.kind == "convex"
    assert free.lower * (1 - 1e-7) <= found.lower <= tight.upper
    assert found.upper == pytest.approx(tight.upper, rel=1e-5)


# Never worse than without the constraints


WITHOUT_MULTIPLIERS = {
    "exponential": lambda: (
        problem := sx.psvm_primal(X, Y),
        [cp.exp(problem.var_dict["w"][0]) <= 0.9],
    ),
    # The computed root of such a form is another form by 3 %.
    "ill-conditioned form": lambda: (
        problem := sx.psvm_primal(X, Y),
        [cp.quad_form(problem.var_dict["w"], SKEW) <= 0.1],
    ),
    "logarithm of exponentials": lambda: (
        problem := sx.psvm_primal(X, Y),
        [cp.log_sum_exp(problem.var_dict["w"]) <= 1.2],
    ),
    "conic": lambda: (problem := sx.conic_sdp(X[:16], Y[:16], lam=0.7), [problem.w[0] <= 0.1]),
    "other variables": lambda: (
        problem := sx.odm_primal(X, Y, C1=1.0, C2=1.0),
        [problem.var_dict["u"][0] >= 1.5],
    ),
    "slacks": lambda: (
        problem := sx.psvm_primal(X, Y),
        [cp.sum(problem.var_dict["xi"][:5]) <= 0.5],
    ),
}


@pytest.mark.parametrize("name", WITHOUT_MULTIPLIERS)
def test_the_bound_without_the_constraints_is_there_where_their_multipliers_are_not(name):
    problem, added = WITHOUT_MULTIPLIERS[name]()
    free = sx.solve(problem, solver="clarabel").certificate
    constrained = problem.with_constraints(added)
    solution = sx.solve(constrained, solver="clarabel")
    certificate = solution.certificate
    assert free.lower * (1 - 1e-7) <= certificate.lower <= certificate.upper
    assert certificate.upper > free.upper * (1 + 1e-6)
    reason = solution.attempts[-1].reason
    assert reason.startswith("the problem without its added constraints")
    assert reason.endswith(f"no multipliers are known of {added[0]}")
    # The variables are those of the constrained problem, and its multipliers too.
    assert all(np.max(constraint.violation()) <= 1e-6 for constraint in added)
    assert all(constraint.dual_value is not None for constraint in constrained.constraints)


def test_the_bound_without_the_constraints_is_there_where_no_model_meets_them():
    # A solver takes what is infeasible by less than its tolerance for feasible.
    problem = sx.psvm_primal(X, Y)
    w = problem.var_dict["w"]
    free = sx.solve(problem).certificate
    for off, met in ((3e-6, False), (1e-8, True)):
        solution = sx.solve(
            problem.with_constraints([w[0] >= 0.1, w[0] <= 0.1 - off]), solver="scs", tol=1e-4
        )
        assert math.isfinite(solution.certificate.upper) == met
        assert solution.certificate.lower >= free.lower * (1 - 1e-4)


# The bound itself, by exact arithmetic


def exact_bound(statement, dual, C, p):
    """The dual objective with the multipliers of the rows, which it holds to be feasible."""
    rows, space = statement.rows, statement.whole.space
    m, alpha, y = fractions(dual["added"]), fractions(dual["alpha"]), fractions(statement.whole.y)
    on = {name: fractions(matrix.toarray()).T @ m for name, matrix in rows.matrices.items()}
    assert alpha.min() >= 0
    assert p > 1 or alpha.max() <= Fraction(C)
    assert alpha @ y == (on["b"][0] if "b" in on else 0)
    for group in rows.groups:
        part = m[group.rows]
        if group.kind == "inequality":
            assert part.min() >= 0
        elif group.kind == "norm":
            assert -part[0] >= (abs(part[1:]).max() if group.order == 1 else 0)
            assert group.order == 1 or part[0] ** 2 >= part[1:] @ part[1:]
    data = fractions(space.data.X) - fractions(space.centre)
    normal = data.T @ (alpha * y) - on.get("w", 0)
    costs = alpha @ alpha / (4 * Fraction(C)) if p == 2 else 0
    return fractions(rows.offset) @ m + sum(alpha) - costs - normal @ normal / 2


RANDOM = [
    lambda w, b: [A @ w + b <= 0.3, w[0] - b == 0.1, 0.7 * b >= -2.0],
    lambda w, b: [cp.norm(w, 1) <= 0.7, cp.norm(w - 0.1, "inf") <= 0.9, w >= -1.0],
    lambda w, b: [cp.norm(w) <= 0.7, cp.sum_squares(w[:2] - b) <= 0.9, cp.abs(w) <= 1.0],
    lambda w, b: [cp.norm(cp.hstack([w, b])) <= cp.sum(w) + 2.0, cp.sum(w) == 0.1],
    lambda w, b: [cp.quad_form(w, A.T @ A + np.eye(3)) <= cp.sum(w) + 1.0, cp.sum(w) == 0.1],
]


@given(
    added=st.sampled_from(RANDOM),
    p=st.sampled_from([1.0, 2.0]),
    seed=st.integers(0, 2**32 - 1),
    size=st.sampled_from([1e-6, 1.0, 1e3, 1e12]),
    offset=st.sampled_from([0.0, 5.0, 1e6]),
)
def test_whatever_the_multipliers_the_bound_is_below_the_exact_one(added, p, seed, size, offset):
    rng = np.random.default_rng(seed)
    data = rng.standard_normal((8, 3)) + offset
    labels = np.where(np.arange(8) % 2, 1, -1)
    problem = sx.psvm_primal(data, labels, C=0.7, p=p)
    constrained = problem.with_constraints(added(problem.var_dict["w"], problem.var_dict["b"]))
    statement = constrained.formulation
    scale = np.where(rng.random(statement.rows.offset.size) < 0.3, 0.0, size)
    dual = {
        "alpha": rng.standard_normal(8) * rng.choice([0.1, 1.0, size]),
        "added": rng.standard_normal(scale.size) * scale,
    }
    repaired = statement.repair(dual)
    assert statement.dual_violation(repaired) == 0
    bound = statement.evaluate_dual(repaired).lower_end
    assert Fraction(bound) <= exact_bound(statement, repaired, 0.7, p)
    # What is feasible stays as it is, up to the rounding of a norm.
    again = statement.repair(repaired)
    assert statement.dual_violation(again) == 0


def test_each_violation_alone_is_one():
    """A multiplier out of its box where the balance holds, and the reverse."""
    problem = sx.psvm_primal(X, Y, C=0.7, p=1.0)
    statement = problem.with_constraints(
        [problem.var_dict["b"] <= 0.4, problem.var_dict["w"] >= -1.0]
    ).formulation
    i, j = int(np.flatnonzero(Y > 0)[0]), int(np.flatnonzero(Y < 0)[0])

    def violation(at_i, at_j, on_b=0.0):
        alpha = np.zeros(30)
        alpha[[i, j]] = at_i, at_j
        return statement.dual_violation({"alpha": alpha, "added": np.array([on_b, 0.0, 0.0, 0.0])})

    assert violation(0.5, 0.5) == 0
    assert violation(0.8, 0.8) == pytest.approx(0.1)
    assert violation(0.5, 0.25) == pytest.approx(0.25)
    assert violation(0.9, 0.25) == pytest.approx(0.65)
    assert violation(-0.1, -0.1) == pytest.approx(0.1)
    # The multiplier of b <= 0.4 takes part in the balance.
    assert violation(0.5, 0.25, 0.25) == 0
    assert violation(0.25, 0.5, 0.25) == pytest.approx(0.5)
    # It is not negative itself.
    assert violation(0.25, 0.5, -0.25) == pytest.approx(0.25)


def exact_violations(model, rows, centre):
    """The rows at a linear model."""
    w = fractions(model.coef)
    at = {"w": w, "b": fractions([model.intercept]) + fractions(centre) @ w}
    return fractions(rows.offset) + sum(
        fractions(matrix.toarray()) @ at[name] for name, matrix in rows.matrices.items()
    )


@pytest.mark.parametrize("offset", [0.0, 1e3])
def test_the_model_violates_the_constraints_by_no_more_than_is_said(offset):
    data = X + offset
    for p in (1.0, 1.5):
        problem = sx.psvm_primal(data, Y, C=0.7, p=p)
        w, b = problem.var_dict["w"], problem.var_dict["b"]
        constrained = problem.with_constraints(
            [A @ w + b <= -0.3, w[0] - 0.7 * b == 0.1, cp.norm(w, 1) <= 0.4]
        )
        solution = sx.solve(constrained, tol=1e-7)
        statement = constrained.formulation
        rows = exact_violations(solution.model, statement.rows, problem.formulation.space.centre)
        said = Fraction(solution.certificate.residuals["added_violation"])
        assert said <= 1e-6
        for group in statement.rows.groups:
            part = rows[group.rows]
            over = {
                "equality": abs(part).max(),
                "inequality": part.max(),
                "norm": sum(abs(part[1:])) - part[0],
            }
            assert over[group.kind] <= said


def test_limits_may_be_parameters():
    problem = sx.psvm_primal(X, Y, C=1.0, p=1.0)
    limit = cp.Parameter(nonneg=True, value=0.5)
    constrained = problem.with_constraints([cp.norm(problem.var_dict["w"], 1) <= limit])
    first = close(constrained).certificate
    limit.value = 0.1
    second = close(constrained).certificate
    assert second.lower > first.upper


@pytest.mark.parametrize(
    "limited",
    [
        lambda w, number: cp.norm(w) <= number,
        lambda w, number: cp.quad_over_lin(w, number) <= 1.0,
        lambda w, number: number * cp.sum_squares(w) <= 1.0,
        lambda w, number: cp.sum_squares(w) / number <= 1.0,
    ],
)
def test_a_parameter_without_a_value_is_named(limited):
    problem = sx.psvm_primal(X, Y, C=0.7)
    number = cp.Parameter(pos=True, name="budget")
    constrained = problem.with_constraints([limited(problem.var_dict["w"], number)])
    with pytest.raises(sx.DataError, match=r"budget has no value.*param_dict\['budget'\]"):
        sx.solve(constrained)


def test_the_dual_point_certifies_again():
    problem = sx.psvm_primal(X, Y, C=1.0, p=1.5, sample_weight=np.arange(30) % 3)
    constrained = problem.with_constraints(
        [problem.var_dict["w"] >= 0.1, problem.var_dict["b"] <= 0.0]
    )
    solution = sx.solve(constrained)
    assert solution.dual["alpha"].shape == (30,)
    again = constrained.formulation.certify(solution.model, solution.dual)
    assert again.gap == pytest.approx(solution.certificate.gap, rel=0.5, abs=1e-10)
    # Without the multipliers of the rows it is the bound of the problem as built.
    assert (
        constrained.formulation.certify(solution.model, {"alpha": solution.dual["alpha"]}).lower
        < again.lower
    )


def test_degenerate_constraints():
    problem = sx.psvm_primal(X, Y, C=1.0, p=1.0)
    w, b = problem.var_dict["w"], problem.var_dict["b"]
    free = sx.solve(problem).certificate
    for added in (
        [0 * w[0] <= 1],
        [cp.norm(0 * w) <= 1],
        [cp.Constant(1) <= 2, w <= 1e3],
        [1e-9 * b <= 1.0],
    ):
        assert sx.solve(problem.with_constraints(added)).certificate.upper == pytest.approx(
            free.upper, rel=1e-7
        )
    for added in (
        [w[0] >= 1, w[0] >= 1, w[0] == 1],
        [1e6 * w >= 1e5],
        [1e-8 * w[0] >= 1e-8],
        [b >= 100.0],
    ):
        close(problem.with_constraints(added))
    for added in ([w[0] >= 1, w[0] <= -1], [cp.norm(w) <= -1]):
        with pytest.raises(sx.SolverFailed, match="no point meets the"):
            sx.solve(problem.with_constraints(added))
    # Without an inner point there may be no multipliers; the interval holds.
    for added in ([cp.norm(w) <= 0], [cp.norm1(w) <= 0], [w >= 0, cp.sum(w) <= 0]):
        found = sx.solve(problem.with_constraints(added)).certificate
        assert free.lower * (1 - 1e-9) <= found.lower <= found.upper
        assert found.upper >= 2 * 15.0 * (1 - 1e-6)
