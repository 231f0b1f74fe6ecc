"""M3SVM: statement, dual bound, certificates, identities, hard margins."""

import math

import cvxpy as cp
import numpy as np
import pytest

import svmcvx as sx
from svmcvx.certificate.bounded import exact
from svmcvx.formulations.multiclass.statement import dual_lengths, lengths

LOSSES = ("hinge", "smoothed", "logistic", "softmax")
EXPONENTS = (1.0, 1.5, 2.0, 8.0)


def clouds(seed=0, n=30, d=3, c=4, apart=1.0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % c
    return rng.standard_normal((n, d)) + apart * rng.standard_normal((c, d))[y], y


def separable(seed=0, n=40):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    centres = np.array([[0, 0, 0], [9, 0, 0], [0, 12, 0], [0, 0, 15]])
    return rng.standard_normal((n, 3)) + centres[y], y


def solved(problem, **options):
    return sx.solve(problem, solver="clarabel", **options)


def solved_finely(problem):
    """A solver's tolerances are absolute where an optimum is far below 1, and the gap is relative:
    ask for more if need be.
    """
    solution = solved(problem)
    if solution.certificate.is_certified(1e-6):
        return solution
    return solved(problem, solver_options={"tol_feas": 1e-11})


def value_of(X, y, **settings):
    return solved(sx.m3svm(X, y, **settings)).certificate.upper


@pytest.mark.parametrize("norm", [2, 1])
@pytest.mark.parametrize("p", [1.0, 1.7, 2.0, 4.0])
def test_the_dual_objective_is_the_stated_one(p, norm):
    """Evaluated pair by pair at a feasible point, with R from the definition of the divergence."""
    rng = np.random.default_rng(3)
    X, y = clouds(3, n=12)
    lam, eps = 0.7, 0.05
    statement = sx.m3svm(X, y, lam=lam, p=p, eps=eps, norm=norm).formulation
    alpha = rng.random((12, 4))
    alpha[np.arange(12), y] = 0
    pairs = [(k, j) for k in range(4) for j in range(k + 1, 4)]
    flow = 0.2 * rng.standard_normal((3, 6))
    G, g = np.zeros((3, 4)), np.zeros(4)
    for i in range(12):
        for k in range(4):
            G[:, y[i]] += alpha[i, k] * X[i]
            G[:, k] -= alpha[i, k] * X[i]
            g[y[i]] += alpha[i, k]
            g[k] -= alpha[i, k]
    expected = alpha.sum() - g @ g / (4 * eps)
    for m, (k, j) in enumerate(pairs):
        G[:, k] -= flow[:, m]
        G[:, j] += flow[:, m]
        size = math.sqrt(flow[:, m] @ flow[:, m]) if norm == 2 else abs(flow[:, m]).max()
        if p > 1:
            expected -= (p - 1) * lam * (size / (lam * p)) ** (p / (p - 1))
        assert p > 1 or size <= lam
    expected -= (G * G).sum() / (4 * eps)
    assert statement.dual_objective({"alpha": alpha, "flow": flow}) == pytest.approx(
        expected, rel=1e-12
    )
    assert statement.dual_violation({"alpha": alpha, "flow": flow}) == 0


@pytest.mark.parametrize("loss", ["smoothed", "logistic", "softmax"])
def test_smooth_losses_are_polished_to_rounding(loss):
    X, y = clouds(2, n=60)
    problem = sx.m3svm(X, y, lam=1e-3, p=4, loss=loss)
    problem.solve(solver="CLARABEL", tol_gap_rel=1e-4, tol_gap_abs=1e-4, tol_feas=1e-4)
    candidates = problem.recover()
    statement = problem.formulation
    assert (
        min(statement.certify(candidates.models[0], dual).gap for dual in candidates.duals) < 1e-11
    )
    assert statement.objective(candidates.models[0]) < statement.objective(candidates.models[1])


def test_flows_at_their_bound_stay_as_they_are():
    X, y = clouds(0, n=9)
    S = np.random.default_rng(0).standard_normal((3, 6))
    lengths_above = dual_lengths(exact(S), 2).upper
    statement = sx.m3svm(X, y, lam=float(lengths_above.max()), p=1).formulation
    repaired = statement.repair({**statement.zero_dual(), "flow": S})
    assert statement.dual_violation(repaired) == 0
    # But for the one with the bound, all are shorter than it.
    longest = lengths_above.argmax()
    np.testing.assert_array_equal(repaired["flow"][:, longest], S[:, longest])


@pytest.mark.parametrize("loss", LOSSES)
def test_weights_and_biases_of_an_optimum_sum_to_zero(loss):
    X, y = clouds(6)
    problem = sx.m3svm(X, y, lam=0.01, p=4, loss=loss, eps=1e-3)
    problem.solve(solver="CLARABEL")
    np.testing.assert_allclose(problem.var_dict["W"].value.sum(axis=1), 0, atol=1e-5)
    assert problem.var_dict["b"].value.sum() == pytest.approx(0, abs=1e-5)
    model = solved(problem).model
    assert np.abs(model.coef.sum(axis=1)).max() < 1e-12


@pytest.mark.parametrize("lam", [0.01, 1.0])
def test_at_two_it_is_weston_watkins_with_lam_times_c(lam):
    X, y = clouds(7)
    reference = solved(sx.weston_watkins(X, y, lam=4 * lam)).certificate.upper
    values = [value_of(X, y, lam=lam, p=2, eps=eps) for eps in (1e-2, 1e-5, 1e-8)]
    assert values[0] > values[1] > values[2] > reference * (1 - 1e-7)
    assert values[2] == pytest.approx(reference, rel=1e-6)
    softmax = value_of(X, y, lam=lam, p=2, eps=1e-8, loss="softmax")
    assert softmax == pytest.approx(
        solved(sx.multinomial_lr(X, y, lam=4 * lam)).certificate.upper, rel=1e-6
    )
    xu = value_of(X, y, lam=(4 + 1) / (2 * 4), p=2, eps=1e-8)
    assert xu == pytest.approx(solved(sx.msvm(X, y)).certificate.upper, rel=1e-6)


def test_two_classes_are_the_psvm():
    X, y = clouds(8, c=2)
    lam = 0.3
    binary = solved(sx.psvm_dual(X, y, C=1 / (2 * lam), p=1)).certificate.upper
    assert value_of(X, y, lam=lam, p=2, eps=1e-8) == pytest.approx(2 * lam * binary, rel=1e-6)


def test_two_classes_are_the_binary_machine_at_any_exponent():
    X, y = clouds(9, c=2)
    signs = np.where(y == 0, 1.0, -1.0)
    w, b = cp.Variable(3), cp.Variable()
    for p in (1, 3):
        losses = cp.sum(cp.pos(1 - cp.multiply(signs, X @ w + b)))
        ridge = 0.5 * 1e-3 * (cp.sum_squares(w) + b**2)
        value = cp.Problem(cp.Minimize(losses + 0.2 * cp.norm(w) ** p + ridge)).solve(
            solver="CLARABEL"
        )
        assert value_of(X, y, lam=0.2, p=p, eps=1e-3) == pytest.approx(value, rel=1e-6)


def test_the_smoothed_loss_is_above_the_hinge_by_at_most_half_delta_a_term():
    X, y = clouds(10)
    hinge = value_of(X, y, lam=0.1, p=4)
    for delta in (0.1, 1e-3):
        smoothed = value_of(X, y, lam=0.1, p=4, loss="smoothed", delta=delta)
        assert hinge < smoothed <= hinge + 30 * 3 * delta / 2 + 1e-6


def test_a_common_feature_offset_is_another_problem_as_documented():
    X, y = clouds(14)
    plain = value_of(X, y, lam=0.1, p=4, eps=1e-2)
    shifted = solved(sx.m3svm(X + 100.0, y, lam=0.1, p=4, eps=1e-2))
    assert shifted.certificate.is_certified(1e-6)
    assert shifted.certificate.upper > plain * (1 + 1e-4)


@pytest.mark.parametrize("norm", [2, 1])
@pytest.mark.parametrize("p", [*EXPONENTS, math.inf])
def test_hard_margins_are_certified(p, norm):
    X, y = separable()
    problem = sx.m3svm_hard_margin(X, y, p=p, norm=norm)
    solution = solved_finely(problem)
    assert solution.certificate.is_certified(1e-6)
    model = solution.model
    scores = model.decision_function(X)
    own = scores[np.arange(40), y]
    scores[np.arange(40), y] = -np.inf
    assert (own - scores.max(axis=1)).min() == pytest.approx(1.0, abs=1e-9)
    size = [
        np.linalg.norm(model.coef[:, k] - model.coef[:, j], ord=norm)
        for k in range(4)
        for j in range(k)
    ]
    value = max(size) if p == math.inf else sum(np.array(size) ** p)
    assert solution.certificate.upper == pytest.approx(value, rel=1e-9)
    shifted = solved(sx.m3svm_hard_margin(X + 1e5, y, p=p, norm=norm)).certificate
    assert shifted.upper == pytest.approx(value, rel=1e-5)
    for wrong in (
        problem.formulation.repair({"alpha": np.random.default_rng(0).random((40, 4))}),
        {"alpha": np.eye(40, 4)},
    ):
        certificate = problem.formulation.certify(model, wrong)
        assert certificate.lower < value * (1 - 1e-3)


def test_the_hard_margin_is_the_limit_of_small_lam():
    X, y = separable(1)
    for p in (1.5, 2, 4):
        hard = solved(sx.m3svm_hard_margin(X, y, p=p)).certificate.upper
        lam = 1e-4
        soft = value_of(X, y, lam=lam, p=p, eps=1e-12)
        assert soft / lam == pytest.approx(hard, rel=1e-4)


def test_infinity_is_the_limit_of_large_exponents_and_maximises_the_smallest_margin():
    X, y = separable(2)
    limit = solved(sx.m3svm_hard_margin(X, y, p=math.inf))
    longest = limit.certificate.upper
    previous = math.inf
    for p in (1, 2, 4, 8, 16):
        solution = solved(sx.m3svm_hard_margin(X, y, p=p))
        W = solution.model.coef
        largest = max(np.linalg.norm(W[:, k] - W[:, j]) for k in range(4) for j in range(k))
        assert largest >= longest * (1 - 1e-6)
        # The p-norm of the six lengths tends to their maximum from above.
        value = solution.certificate.upper ** (1 / p)
        assert longest * (1 - 1e-6) <= value < previous
        previous = value
    assert previous < longest * 6 ** (1 / 16)


def test_two_separable_classes_are_the_hard_margin_svm():
    X, y = separable(3)
    X, y = X[y < 2], y[y < 2]
    reference = solved(sx.hard_margin_dual(X, y)).certificate.upper
    assert solved(sx.m3svm_hard_margin(X, y, p=2)).certificate.upper == pytest.approx(
        2 * reference, rel=1e-6
    )
    longest = solved(sx.m3svm_hard_margin(X, y, p=math.inf)).certificate.upper
    assert longest**2 / 2 == pytest.approx(reference, rel=1e-6)


def test_classes_that_are_not_separable_have_no_hard_margin():
    X, y = clouds(16)
    with pytest.raises(
        sx.SolverFailed, match="some two classes are not separable by linear scores"
    ):
        solved(sx.m3svm_hard_margin(X, y, p=2))


def test_a_model_inside_the_margin_is_infeasible():
    X, y = separable(4)
    problem = sx.m3svm_hard_margin(X, y, p=2)
    model = solved(problem).model
    short = sx.MulticlassModel(
        coef=0.99 * model.coef,
        intercept=0.99 * model.intercept,
        classes=model.classes,
        support=model.support,
    )
    assert problem.formulation.certify(short).upper == math.inf


def test_dual_norms():
    V, S = np.random.default_rng(0).standard_normal((2, 5, 3))
    for norm in (2, 1):
        assert ((V * S).sum(axis=0) <= lengths(V, norm) * dual_lengths(S, norm)).all()
    tight = np.sign(V)
    np.testing.assert_allclose((V * tight).sum(axis=0), lengths(V, 1) * dual_lengths(tight, 1))


def test_errors_say_what_was_wrong():
    X, y = clouds()
    with pytest.raises(
        sx.DataError, match=r"p must be a finite number in \[1, inf\), got 0.5; p < 1 is not convex"
    ):
        sx.m3svm(X, y, lam=1.0, p=0.5)
    with pytest.raises(sx.DataError, match=r"p must be a finite number in \[1, inf\), got inf"):
        sx.m3svm(X, y, lam=1.0, p=math.inf)
    with pytest.raises(sx.DataError, match="p < 1 is not convex"):
        sx.m3svm_hard_margin(X, y, p=0.9)
    with pytest.raises(
        sx.DataError, match=r"eps must be a finite number .* got 0; the certificate divides by it"
    ):
        sx.m3svm(X, y, lam=1.0, p=2, eps=0)
    with pytest.raises(
        sx.DataError,
        match="loss must be one of 'hinge', 'smoothed', 'logistic', 'softmax', got 'log'",
    ):
        sx.m3svm(X, y, lam=1.0, p=2, loss="log")
    with pytest.raises(
        sx.DataError, match=r"norm must be 2 \(Euclidean\) or 1 \(sum of absolute values\), got 3"
    ):
        sx.m3svm(X, y, lam=1.0, p=2, norm=3)
    with pytest.raises(sx.DataError, match="delta must be a finite number"):
        sx.m3svm(X, y, lam=1.0, p=2, loss="smoothed", delta=-1)
    statement = sx.m3svm(X, y, lam=1.0, p=2).formulation
    with pytest.raises(
        sx.DataError, match=r"flow of m3svm must have one column a pair .* expected shape \(3, 6\)"
    ):
        statement.repair({"alpha": np.zeros((30, 4)), "flow": np.zeros((3, 4))})
    with pytest.raises(sx.DataError, match="the dual point of m3svm needs the entry 'flow'"):
        statement.dual_objective({"alpha": np.zeros((30, 4))})


@pytest.mark.parametrize("norm", [2, 1])
@pytest.mark.parametrize("p", [3.0, 32.0, 48.0, 200.0])
@pytest.mark.parametrize("far", [True, False])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_hard_margins_of_any_exponent_are_certified(far, p, norm):
    """By the root of the sum of powers, held against cvxpy's own p-norm; the sum itself is from
    1e-42 to 1e88.
    """
    if far:
        X = 0.3 * np.random.default_rng(3).standard_normal((30, 3))
        y = np.arange(30) % 3
    else:
        X = 0.5 * np.random.default_rng(5).standard_normal((40, 6))
        y = np.arange(40) % 4
    X = X + (3.0 if far else 2.0) * np.eye(X.shape[1])[y]
    problem = sx.m3svm_hard_margin(X, y, p=p, norm=norm)
    certificate = sx.solve(problem, tol=1e-6).certificate
    assert certificate.gap <= 1e-6
    c = y.max() + 1
    W, b = cp.Variable((X.shape[1], c)), cp.Variable(c)
    margins = [
        (X[y == k] @ (W[:, k] - W[:, j]) + b[k] - b[j]) >= 1
        for k in range(c)
        for j in range(c)
        if j != k
    ]
    sizes = [cp.norm(W[:, k] - W[:, j], norm) for k in range(c) for j in range(k + 1, c)]
    own = cp.Problem(cp.Minimize(cp.pnorm(cp.hstack(sizes), p)), margins)
    own.solve(solver="CLARABEL")
    assert certificate.upper ** (1 / p) == pytest.approx(own.value, rel=1e-5)
    assert problem.proved_bound(own.value) == pytest.approx(own.value**p)
