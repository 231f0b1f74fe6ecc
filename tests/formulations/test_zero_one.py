"""0-1 loss, ramp loss and l0-norm hinge, against enumeration of all subsets."""

import itertools
import math
import pickle

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

import svmcvx as sx
from svmcvx.errors import BuildError, DataError, SolverFailed
from svmcvx.formulations.base import bound_space
from svmcvx.formulations.indicator.problems import l0_mio, ramp_mio, robust_margins, zero_one_mio
from svmcvx.formulations.indicator.statement import l0_statement
from svmcvx.synthetic import outlier_data

GAP = 1e-6


def small(seed, n=7, d=2, integers=False):
    rng = np.random.default_rng(seed)
    X = rng.integers(-2, 3, size=(n, d)).astype(float) if integers else rng.standard_normal((n, d))
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    return X, y


def with_constant(X):
    return np.hstack([X, np.ones((len(X), 1))])


def least_distance(A):
    """The least ‖w‖² with Aw ≥ 1 by non-negative least squares (Lawson and Hanson, chapter 23);
    written without the package.
    """
    rows = np.vstack([A.T, np.ones(len(A))])
    residual = rows @ nnls(rows, np.eye(len(rows))[-1])[0] - np.eye(len(rows))[-1]
    return float(np.sum((residual[:-1] / residual[-1]) ** 2)) if -residual[-1] > 1e-9 else math.inf


def smallest_norm(X, y, kept, free):
    """Squared norm of the hard-margin machine of a subset."""
    X, y = X[kept], y[kept]
    if y.size == 0 or (free and abs(y.sum()) == y.size):
        return 0.0
    if not free:
        return least_distance(y[:, None] * X)
    # There is an intercept exactly where any two rows of different classes are apart by 2.
    return least_distance((X[y > 0][:, None] - X[y < 0][None]).reshape(-1, X.shape[1]) / 2)


def enumerate_subsets(X, y, price, free):
    """The smallest price(‖w‖², observations dropped) over all subsets, and the subset dropped."""
    best, at = math.inf, None
    for bits in itertools.product([False, True], repeat=len(y)):
        dropped = np.array(bits)
        if price(0.0, dropped.sum()) < best:
            value = price(smallest_norm(X, y, ~dropped, free), dropped.sum())
            if value < best:
                best, at = value, dropped
    return best, at


def margins(model, X, y):
    return y * model.decision_function(X)


# --- the optimum


@pytest.mark.parametrize(("seed", "kernel"), [(0, None), (1, sx.RBF(0.5)), (2, sx.Linear())])
def test_l0_optimum_equals_enumeration(seed, kernel):
    X, y = small(seed, integers=seed == 1)
    C = (0.5, 2.0, 10.0)[seed]
    L = X
    if isinstance(kernel, sx.RBF):
        values, vectors = np.linalg.eigh(np.exp(-0.5 * ((X[:, None] - X[None]) ** 2).sum(-1)))
        L = vectors * np.sqrt(np.maximum(values, 0))
    best, _ = enumerate_subsets(L, y, lambda norm, loss: 0.5 * norm + C * loss, free=True)
    certificate = sx.solve(l0_mio(X, y, C=C, kernel=kernel)).certificate
    assert certificate.upper == pytest.approx(best, rel=1e-6)
    assert certificate.gap <= GAP


def test_pure_perspective_form_has_no_big_m_rows_and_the_same_optimum():
    X, y = small(1, n=9)
    problem = zero_one_mio(X, y, lam=1.0, form="perspective", M=None)
    assert "margin" not in problem.constraint_dict
    certificate = sx.solve(problem).certificate
    # Its relaxation loses the square root of the solver's tolerance; the model does not.
    assert certificate.upper == pytest.approx(
        sx.solve(zero_one_mio(X, y, lam=1.0)).certificate.upper, rel=1e-6
    )
    assert certificate.gap <= 1e-3


# --- M


@settings(max_examples=4)
@given(st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 10.0]), st.booleans())
def test_automatic_m_never_cuts_off_the_optimum(seed, price, free):
    X, y = small(seed, n=6, integers=True)  # integers: many ties and duplicates
    if free:
        problem, scale = l0_mio(X, y, C=price), 0.5
    else:
        problem, scale = zero_one_mio(X, y, lam=price), 1.0
        X = with_constant(X)
    best, dropped = enumerate_subsets(
        X, y, lambda norm, loss: scale * norm + price * loss, free=free
    )
    # The optimum with the big-M rows fixed at its own dropped set.
    w, b = cp.Variable(X.shape[1]), cp.Variable()
    u = cp.multiply(y, X @ w + (b if free else 0))
    rows = [u >= 1 - problem.M * dropped]
    limited = cp.Problem(
        cp.Minimize(scale * cp.sum_squares(w) + price * dropped.sum()), rows
    ).solve(solver=cp.CLARABEL)
    one_class_dropped = free and abs(y[~dropped].sum()) == (~dropped).sum()
    assert limited == pytest.approx(best, rel=1e-5) or one_class_dropped
    assert sx.solve(problem).certificate.upper == pytest.approx(best, rel=1e-6)


def test_m_and_incumbent_are_in_the_result():
    X, y = small(2, n=10)
    weight = np.ones(10)
    weight[4] = 0.0
    problem = zero_one_mio(X, y, lam=1.0, sample_weight=weight)
    solution = sx.solve(problem)
    assert problem.M.shape == (9,)
    assert solution.details["M"].shape == (10,)
    assert np.isnan(solution.details["M"][4])
    assert np.array_equal(solution.details["M"][np.arange(10) != 4], problem.M)
    assert solution.certificate.residuals["largest_M"] == problem.M.max()
    assert solution.certificate.residuals["incumbent"] >= solution.certificate.lower
    assert solution.warm_start_used
    assert "unproved_M" not in solution.certificate.residuals
    assert pickle.loads(pickle.dumps(solution)).details.keys() == solution.details.keys()  # noqa: S301


def test_an_m_that_is_too_small_is_said_to_be():
    rng = np.random.default_rng(3)
    y = np.where(np.arange(12) % 2, 1, -1)
    X = 0.3 * rng.standard_normal((12, 2)) + y[:, None]
    X[0] *= -6  # its margin is far below 1 at the optimum
    unrestricted = sx.solve(zero_one_mio(X, y, lam=1.0))
    exact = unrestricted.certificate.upper
    for M, binding in ((3.0, 1.0), (1.5, 0.0)):
        problem = zero_one_mio(X, y, lam=1.0, M=M)
        certificate = sx.solve(problem).certificate
        assert certificate.residuals["unproved_M"] == 1
        # With the smaller M the optimum is cut off although none binds at the answer.
        assert certificate.residuals["binding_M"] == binding
        assert certificate.lower > 1.5 * exact
        assert certificate.gap <= GAP  # about the problem with the rows u ≥ 1 − M
        assert problem.formulation.objective(unrestricted.model) == math.inf
    enough = sx.solve(zero_one_mio(X, y, lam=1.0, M=np.full(12, 500.0))).certificate
    assert "unproved_M" not in enough.residuals
    assert enough.upper == pytest.approx(exact, rel=1e-6)


# --- evaluation and certificates


def test_wrong_models_and_bounds_are_never_certified():
    X, y = small(0)
    statement = zero_one_mio(X, y, k=1).formulation
    zero = sx.LinearModel(np.zeros(2), 0.0, np.array([-1, 1]), np.array([0]))
    assert statement.evaluate(zero).value == math.inf
    nonsense = {"gamma": np.full(7, 1e9), "lam": np.array(3.0)}
    certificate = statement.certify(
        sx.solve(zero_one_mio(X, y, k=1, form="perspective")).model, nonsense
    )
    assert certificate.lower <= certificate.upper
    assert certificate.residuals["dual_violation"] > 0
    ramp = ramp_mio(X, y, C=1.0)
    # No dual point bounds it; only that no objective is negative is known.
    assert ramp.formulation.certify(zero, {"anything": np.zeros(7)}).lower == 0.0


def test_points_that_are_not_stationary_are_seen():
    X, y = small(8, n=20)
    statement = l0_statement(bound_space(X, y, None, "free", None, "error", own="free"), 1.0)
    kept = np.zeros(20, dtype=bool)
    kept[[0, 1, 2]] = True
    (model,), (dual,) = statement.polish(kept)
    support = np.flatnonzero(dual["mu"])
    assert support.size >= 2

    def residuals(model, mu):
        return statement.certify(model, {"mu": mu}).residuals

    flipped = residuals(model, -dual["mu"])
    assert flipped["complementarity"] > 0.1
    assert flipped["expansion"] > 0.1
    assert flipped["proximal"] > 0
    assert residuals(model, 2 * dual["mu"])["expansion"] > 0.1
    unbalanced = dual["mu"].copy()
    unbalanced[support[0]] *= 2
    assert residuals(model, unbalanced)["balance"] > 0.05
    shifted = sx.LinearModel(model.coef, model.intercept + 0.3, model.classes, model.support)
    assert residuals(shifted, dual["mu"])["complementarity"] > 0.1
    off = dual["mu"].copy()
    off[(dual["mu"] == 0) & (margins(model, X, y) < 0.9)] = -0.5
    assert residuals(model, off)["complementarity"] > 0.1
    with pytest.raises(DataError, match="entry 'mu'"):
        statement.certify(model, {"alpha": dual["mu"]})
    with pytest.raises(DataError, match="one multiplier an observation"):
        statement.certify(model, {"mu": np.zeros(3)})


# --- refits and incumbents


def test_a_users_incumbent_is_taken():
    X, y = small(0, n=30, d=3)
    best = sx.solve(zero_one_mio(X, y, lam=1.0))
    started = zero_one_mio(X, y, lam=1.0, incumbent=best)
    assert started.formulation.facts["incumbent"] <= best.certificate.upper * (1 + 1e-9)
    assert (
        zero_one_mio(X, y, lam=1.0, incumbent=best.model).incumbent.norm == started.incumbent.norm
    )
    with pytest.raises(DataError, match="incumbent must be a model"):
        zero_one_mio(X, y, lam=1.0, incumbent=np.zeros(3))


# --- names, parameters, errors


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"k": 2}, "exactly one of lam and k"),
        ({"lam": None, "k": -1}, "k must be"),
        ({"form": "convex"}, "form must be one of"),
        ({"M": "large"}, "M must be 'auto'"),
        ({"M": None}, "M must be 'auto'"),
        ({"time_limit": 0}, "time_limit must be"),
        ({"M": -1.0}, "M must be"),
        ({"M": [1.0, 2.0]}, "one number per observation"),
        ({"M": np.full(7, np.nan)}, "M must be finite"),
    ],
)
def test_errors_name_the_argument(settings, text):
    with pytest.raises(DataError, match=text):
        zero_one_mio(*small(0), **{"lam": 1.0, **settings})


def test_budgets_that_no_point_keeps_are_named():
    X, y = np.zeros((7, 2)), small(0)[1]
    with pytest.raises(BuildError, match="no feasible point is known"):
        zero_one_mio(X, y, k=0)
    with pytest.raises(SolverFailed, match="no point satisfies"):
        sx.solve(zero_one_mio(X, y, k=0, M=9.0))
    with pytest.raises(SolverFailed, match="not separable"):
        sx.solve(zero_one_mio(X, y, k=0, form="perspective"))


# --- starting points without a solver


@pytest.mark.parametrize(
    "hyper", [{"lam": 0.3, "k": None}, {"lam": 20.0, "k": None}, {"lam": None, "k": 2.0}]
)
def test_the_machines_of_the_start_minimise_the_conic_loss(hyper):
    X, y = outlier_data(40, 3, sigma=0.5, outliers="spread", seed=1)
    problem = zero_one_mio(X, y, M=30.0, **hyper)
    statement = problem.formulation
    found = robust_margins(statement.geometry, **hyper)
    proved = []
    for dual, (lam, u) in zip(problem.relaxed_duals, found.items(), strict=True):
        fixed = sx.conic_fixed_gamma(X, y, gamma=dual["gamma"], lam=lam)
        exact = sx.solve(fixed, solver="clarabel")
        shortfall = np.minimum(np.sqrt(dual["gamma"] / lam) * np.maximum(1 - u, 0), 1)
        w = np.linalg.lstsq(y[:, None] * with_constant(X), u)[0]
        value = w @ w + lam * np.sum(shortfall * (2 - shortfall))
        assert value == pytest.approx(exact.certificate.upper, rel=1e-6)
        proved.append(statement.evaluate_dual(statement.repair(dual)).value)
        if hyper["k"] is None:
            assert proved == [pytest.approx(exact.certificate.lower, rel=1e-6)]
        else:
            assert proved[-1] >= exact.certificate.lower - lam * hyper["k"] - 1e-6
    assert max(proved) > 0


# --- added constraints

PROGRAMS = {
    "big-m": lambda X, y: zero_one_mio(X, y, lam=1.0, M=80.0),
    "automatic": lambda X, y: zero_one_mio(X, y, lam=1.0),
    "cardinality": lambda X, y: zero_one_mio(X, y, k=4, M=80.0),
    "perspective": lambda X, y: zero_one_mio(X, y, lam=1.0, form="perspective", M=None),
    "l0": lambda X, y: l0_mio(X, y, C=1.0, M=80.0),
    "ramp": lambda X, y: ramp_mio(X, y, C=1.0, M=80.0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_bounds_that_rest_on_an_incumbent_count_up_to_it(name):
    X, y = small(2, n=9)
    problem = PROGRAMS[name](X, y)
    assert (problem.complete_below < math.inf) == (name == "automatic")
    assert problem.model_at_variables() is None


BUILDS = {
    "0-1": lambda X, y, M: zero_one_mio(X, y, lam=1.0, M=M),
    "budget": lambda X, y, M: zero_one_mio(X, y, k=5, M=M),
    "l0": lambda X, y, M: l0_mio(X, y, C=1.0, M=M),
    "ramp": lambda X, y, M: ramp_mio(X, y, C=1.0, M=M),
}


@pytest.mark.parametrize(
    ("build", "far"), [("0-1", 0.3), ("0-1", 60.0), ("ramp", 0.3), ("l0", 60.0), ("budget", 60.0)]
)
def test_with_constraints_the_bound_of_automatic_m_is_below_that_of_wide_m(build, far):
    """At 60 the constraint excludes all points that M covers."""
    X, y = small(2, n=7)
    wide, auto = (BUILDS[build](X, y, M) for M in (1e4, "auto"))
    free = sx.solve(auto).certificate
    whole, own = (
        problem.with_constraints([problem.var_dict["w"][0] <= -far]) for problem in (wide, auto)
    )
    best = sx.solve(whole).certificate
    assert auto.complete_below <= free.upper * (1 + 1e-9)
    if far > 1:
        assert best.lower > auto.complete_below
        with pytest.raises(SolverFailed, match="which M='auto' covers"):
            sx.solve(own)
        return
    found = sx.solve(own).certificate
    assert found.lower <= best.upper
    assert found.upper >= best.lower * (1 - 1e-6)
    assert found.lower >= min(auto.complete_below, best.lower) * (1 - 1e-5)


def test_under_added_constraints_explicit_m_belongs_to_the_statement():
    X, y = small(2, n=9)
    enough = 1.01 * float(zero_one_mio(X, y, lam=1.0).M.max())
    problem, free = zero_one_mio(X, y, lam=1.0, M=enough), zero_one_mio(X, y, lam=1.0, M=1e4)
    assert not problem.formulation.unproved.any()
    # The added constraint forces all points far out, where margins are below 1 − M.
    forced = problem.with_constraints([problem.var_dict["w"][0] >= 60.0])
    assert forced.formulation.whole.unproved.all()
    with pytest.raises(SolverFailed, match="no point meets the 1 added constraints"):
        sx.solve(forced)
    far = sx.solve(free.with_constraints([free.var_dict["w"][0] >= 60.0]))
    assert far.certificate.gap <= GAP
    assert far.certificate.residuals["unproved_M"] == 9
    assert problem.formulation.objective(far.model) == pytest.approx(far.certificate.upper)
    assert forced.formulation.whole.objective(far.model) == math.inf


# --- relaxations


def relaxed_value(build, X, y, price, M):
    """The big-M program with z in [0, 1], in cvxpy."""
    n, d = X.shape
    w, b, z, xi = cp.Variable(d), cp.Variable(), cp.Variable(n), cp.Variable(n, nonneg=True)
    rows = [z >= 0, z <= 1]
    if build is ramp_mio:
        rows.append(xi <= 2 * (1 - z))
        loss = cp.sum(xi + 2 * z)
    else:
        rows.append(xi == 0)
        loss = cp.sum(z)
    norm = 0.5 * cp.sum_squares(w)
    if build is zero_one_mio:
        norm = cp.sum_squares(w) + b**2
    rows.append(cp.multiply(y, X @ w + b) >= 1 - xi - cp.multiply(M, z))
    return cp.Problem(cp.Minimize(norm + price * loss), rows).solve(solver="CLARABEL")


@pytest.mark.parametrize("M", ["auto", 40.0, 3.0, 1.5, 0.5])
@pytest.mark.parametrize("build", [zero_one_mio, l0_mio, ramp_mio])
def test_a_relaxation_is_the_program_without_integers(build, M):
    X, y = outlier_data(30, 2, sigma=0.5, outliers="spread", seed=2)
    if isinstance(M, float) and M < 1.0:
        X = X + 2.0 * y[:, None]  # u ≥ 1 − M > 0 separates the classes
    price = {"lam" if build is zero_one_mio else "C": 2.0}
    problem = build(X, y, **price, M=M, relax=True)
    solution = sx.solve(problem)
    assert solution.certificate.kind == "convex"
    assert solution.certificate.gap <= GAP
    assert solution.hyperparameters["relax"] is True
    value = relaxed_value(build, X, y, 2.0, problem.M)
    assert solution.certificate.upper == pytest.approx(value, rel=1e-5)
    assert problem.value == pytest.approx(value, rel=1e-5)
    fast = {zero_one_mio: sx.fast.zero_one, l0_mio: sx.fast.l0, ramp_mio: sx.fast.ramp}[build]
    if M in ("auto", 40.0):
        assert solution.certificate.lower <= fast(X, y, **price).certificate.upper
    with pytest.raises(DataError, match="no proof"):
        solution.proof()


def test_the_perspective_relaxation_grows_with_gamma_up_to_the_conic_one():
    X, y = outlier_data(40, 3, sigma=0.5, outliers="clustered", seed=1)
    conic = sx.fast.conic(X, y, lam=2.0, tol=1e-9)
    gamma = conic.dual["gamma"]
    values = []
    for share in (0.01, 0.5, 1.0 - 1e-9):
        rule = {"lam": 2.0, "form": "perspective", "gamma": share * gamma}
        problem = zero_one_mio(X, y, relax=True, **rule)
        np.testing.assert_array_equal(problem.gamma, share * gamma)
        solution = sx.solve(problem, tol=1e-7)
        assert solution.certificate.gap <= 1e-7
        same = sx.solve(sx.conic_fixed_gamma(X, y, lam=2.0, gamma=share * gamma), tol=1e-7)
        assert solution.certificate.lower <= same.certificate.upper
        assert same.certificate.lower <= solution.certificate.upper
        values.append(solution.certificate.upper)
    assert values[0] < values[1] < values[2]
    assert values[2] == pytest.approx(conic.certificate.lower, rel=1e-6)
    rule = {"lam": 2.0, "form": "perspective", "gamma": "best"}
    best = sx.solve(zero_one_mio(X, y, relax=True, **rule)).certificate
    assert best.upper == pytest.approx(conic.certificate.lower, rel=1e-5)
    integers = zero_one_mio(X[:8], y[:8], lam=2.0, form="perspective", gamma="norms")
    plain = zero_one_mio(X[:8], y[:8], lam=2.0)
    one, other = (sx.solve(each, tol=1e-6).certificate for each in (integers, plain))
    assert one.upper == pytest.approx(other.upper, rel=1e-6)


def test_relaxations_that_are_none_are_refused():
    X, y = small(1)
    with pytest.raises(DataError, match="lam in place of k"):
        zero_one_mio(X, y, k=1, relax=True)
    with pytest.raises(DataError, match="M in the big-M form only"):
        zero_one_mio(X, y, lam=1.0, M=9.0, form="perspective", relax=True)
    with pytest.raises(DataError, match="gamma makes the problem non-convex"):
        zero_one_mio(X, y, lam=1.0, gamma=50.0, form="perspective", relax=True)
    with pytest.raises(DataError, match="gamma must be positive"):
        zero_one_mio(X, y, lam=1.0, gamma=0.0, form="perspective")
    with pytest.raises(DataError, match="gamma must be one of 'norms', 'best'"):
        zero_one_mio(X, y, lam=1.0, gamma="scale", form="perspective")
