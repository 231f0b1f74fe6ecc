"""The fast linear pSVM, ODM and ODML against the conic route and each other."""

from functools import partial

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC

import svmcvx as sx
from svmcvx import DataError, fast
from svmcvx.fast import odm, odml, psvm
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.linear import loss_passes as passes
from svmcvx.fast.linear.loss_passes import band, flat_one, hinge_power
from svmcvx.fast.linear.newton import LinearNewtonSettings, LinearProblem, linear_model, minimise
from svmcvx.fast.margin_distribution.solvers import ODMLSettings, ODMSettings
from svmcvx.feature_space import LinearSpace
from svmcvx.formulations.margin_distribution import MarginHessian
from tests.designs import DESIGNS, design
from tests.intervals import overlap

# Without those on which a conic solver has no points.
DESIGNS = DESIGNS[:9]


def weights(names, *values):
    return st.sampled_from([dict(zip(names, each, strict=True)) for each in values])


psvm_problems = st.fixed_dictionaries(
    {
        "C": st.sampled_from((1e-3, 1.0, 1e3)),
        "p": st.sampled_from((1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 7.0)),
    }
)
odm_problems = weights(
    ("C1", "C2", "D", "intercept"),
    *((*each, True) for each in ((1.0, 1.0, 0.0), (100.0, 10.0, 0.3), (1e-2, 50.0, 0.9))),
    *((*each, False) for each in ((1.0, 1.0, 0.0), (100.0, 10.0, 0.3), (1e-2, 50.0, 0.9))),
)
odml_problems = weights(
    ("lam1", "lam2", "C"), (0.0, 0.0, 1.0), (1.0, 0.5, 10.0), (100.0, 3.0, 100.0)
)
MACHINES = {
    "psvm": (psvm, sx.psvm_dual, psvm_problems, ("newton", "auto")),
    "odm": (odm, sx.odm_primal, odm_problems, ("newton", "dcd")),
    "odml": (odml, sx.odml_primal, odml_problems, ("newton", "dcd", "unwhitened")),
}


@pytest.mark.parametrize("machine", MACHINES)
@given(st.data(), st.sampled_from(DESIGNS), st.booleans(), st.integers(0, 99))
def test_linear_machines_agree_with_the_conic_route(machine, draw, name, sparse, seed):
    solve, build, problems, methods = MACHINES[machine]
    problem, method = draw.draw(problems), draw.draw(st.sampled_from(methods))
    X, y = design("plain" if name == "offset" and machine != "psvm" else name, seed)
    fast = solve(sp.csr_array(X) if sparse else X, y, **problem, method=method, max_iter=3000)
    assert machine != "psvm" or fast.status == "optimal"
    overlap(fast, sx.solve(build(X, y, **problem)))


@given(
    st.sampled_from(DESIGNS),
    st.sampled_from((sx.RBF(0.5), sx.Laplacian(0.3), sx.Polynomial(2, 1.0, 1.0))),
    st.booleans(),
    st.sampled_from((1e-3, 1.0, 1e4)),
    st.integers(0, 99),
)
@settings(max_examples=15)
def test_kernel_machines_without_a_gram_matrix_agree_with_those_that_keep_it(
    name, kernel, intercept, C, seed
):
    X, y = design("plain" if name == "offset" else name, seed)
    weight = np.random.default_rng(seed).integers(0, 3, y.size) + (np.arange(y.size) < 2)
    settings = {"kernel": kernel, "intercept": intercept, "sample_weight": weight}
    fast = odm(X, y, C1=C, C2=C / 2, D=0.2, method="blocks", **settings)
    overlap(fast, odm(X, y, C1=C, C2=C / 2, D=0.2, **settings))


@pytest.mark.parametrize("C", [1.0, 300.0])
def test_a_factor_that_leaves_much_out_costs_products_not_truth(C):
    X, y = design("plain", 2, n=300, d=5)
    solve = partial(odm, X, y, C1=C, C2=C, D=0.1, kernel=sx.RBF(1.0))
    few = {"method": "blocks", "settings": ODMSettings(largest_rank=10)}
    fast = solve(tol=1e-9, **few)
    assert fast.certificate.gap <= 1e-9
    assert fast.attempts[0].options["rank"] == 10
    overlap(fast, solve(method="newton", tol=1e-9), gap=2.0)
    again = solve(tol=1e-8, warm_start=fast, **few)
    assert again.attempts[0].options["iterations"] < fast.attempts[0].options["iterations"]


def test_kernel_rooms_keep_no_gram_matrix_of_many_observations():
    X, y = design("plain", 3)
    solve = partial(odm, X, y, C1=1.0, C2=1.0, D=0.1, settings=ODMSettings(largest_gram=20))
    assert solve(kernel=sx.RBF(1.0)).solver == "fast.odm/blocks"
    # Whether this one is positive semidefinite only its matrix can tell.
    assert solve(kernel=lambda A, B: A @ B.T).solver == "fast.odm/dcd"
    definite = 'method="blocks" needs a kernel that is positive semidefinite on any data'
    with pytest.raises(sx.DataError, match=definite):
        solve(method="blocks")
    with pytest.raises(sx.DataError, match='method="unwhitened" needs kernel=None'):
        odml(X, y, lam1=1.0, lam2=1.0, C=1.0, kernel="rbf", method="unwhitened")


@pytest.mark.parametrize("lam1", [0.0, 1.0, 1e4])
@pytest.mark.parametrize("C", [1e-2, 1e3])
def test_odml_of_many_features_forms_nothing_of_their_square(lam1, C, monkeypatch):
    rng = np.random.default_rng(7)
    X = sp.random_array((60, 90), density=0.1, rng=rng, format="csr")
    y = np.where(X @ rng.normal(size=90) > 0, 1, -1)
    one = odml(X, y, lam1=lam1, lam2=0.5, C=C, method="newton")
    for work in (LinearNewtonSettings().direct_work, 0.0):
        # Systems that are factored, then conjugate gradients only.
        settings = ODMLSettings(newton=LinearNewtonSettings(direct_work=work))
        with monkeypatch.context() as strict:
            for owner, name in ((MarginHessian, "triangle"), (LinearSpace, "factor")):
                strict.setattr(owner, name, property(lambda _: pytest.fail("made dense")))
            fast = odml(X, y, lam1=lam1, lam2=0.5, C=C, max_iter=500, settings=settings)
        assert fast.solver == "fast.odml/unwhitened"
        overlap(fast, one, (lam1, C, work))
    again = odml(X, y, lam1=lam1, lam2=0.5, C=C, warm_start=one, settings=settings)
    assert len(again.trace) <= len(fast.trace)


@pytest.mark.parametrize("p", [1.0, 1.25, 2.0])
def test_systems_in_features_in_observations_and_by_conjugate_gradients_agree(p):
    X, y = design("plain", 2, n=40, d=60)
    direct = psvm(X, y, C=1.0, p=p, tol=1e-8)
    statement = sx.psvm_primal(X, y, C=1.0, p=p).formulation
    iterations = LinearNewtonSettings(direct_work=0.0)
    centred = X - X.mean(axis=0)
    for data in (centred, sp.csr_array(centred)):
        problem = LinearProblem(data, y.astype(float), np.ones(40), hinge_power(p), bias=True)
        with monitored(tol=1e-8, max_iter=1000, verbose=False, callback=None) as monitor:
            point, status = minimise(problem, monitor, settings=iterations)
        assert status == "optimal"
        model = linear_model(statement.space, point.w, point.b, point.alpha > 0)
        overlap(statement.certify(model, {"alpha": point.alpha}), direct, gap=1e-8)


def sparse_rows(seed, n=80, d=300):
    """Rows of about eight entries, with equal ones and one without entries, and weights."""
    rng = np.random.default_rng(seed)
    X = sp.random_array((n, d), density=8 / d, rng=rng, format="csr")
    X = sp.csr_array(sp.vstack([X, X[:10], sp.csr_array((1, d))]))
    y = np.where(X @ rng.normal(size=d) + 0.2 * rng.normal(size=n + 11) > 0, 1, -1)
    return X, y, rng.integers(0, 3, n + 11) + (np.arange(n + 11) < 20)


# Each two of the three together.
@pytest.mark.parametrize(
    ("p", "C", "intercept"),
    [
        (p, C, ("free", "penalised", "none")[(i + j) % 3])
        for i, p in enumerate((1.0, 1.3, 2.0, 3.0))
        for j, C in enumerate((1e-5, 1.0, 100.0))
    ],
)
def test_coordinate_ascent_on_sparse_rows_agrees_and_makes_nothing_dense(
    p, C, intercept, monkeypatch
):
    X, y, weight = sparse_rows(3)
    solve = partial(psvm, X, y, C=C, p=p, sample_weight=weight, intercept=intercept)
    other = solve(method="newton")
    toarray = sp.csr_array.toarray

    def of_few(A, *others):
        assert A.shape[1] < X.shape[1], "made dense"
        return toarray(A, *others)

    monkeypatch.setattr(sp.csr_array, "toarray", of_few)
    fast = solve(method="dcd")
    monkeypatch.undo()
    assert fast.status == "optimal"
    assert fast.solver == "fast.psvm/dcd"
    overlap(fast, other)
    again = solve(method="dcd")
    assert np.array_equal(again.model.coef, fast.model.coef)
    assert solve(method="dcd", warm_start=fast).warm_start_used
    # The same rows as dense ones, with other rounding.
    overlap(psvm(X.toarray(), y, **solve.keywords, method="dcd"), fast)


@pytest.mark.parametrize(("seed", "intercept"), [(3, "penalised"), (35, "free")])
def test_bounds_of_two_methods_are_those_of_the_answer(seed, intercept):
    """The model of the ascent and the multipliers of Newton's method close the gap."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(150, 12))
    score = X @ rng.normal(size=12)
    y = np.where(score + 0.7 * score.std() * rng.normal(size=150) > 0, 1, -1)
    found = psvm(X, y, C=1.0, p=1.0, tol=1e-3, intercept=intercept)
    assert (found.status, found.solver) == ("optimal", "fast.psvm/dcd+newton")


def test_a_warm_start_that_does_not_fit_is_refused():
    X, y = design("plain", 7, n=60, d=4)
    band, blend = {"C1": 3.0, "C2": 2.0, "D": 0.2}, {"lam1": 1.0, "lam2": 1.0, "C": 5.0}
    kernel = {"kernel": sx.RBF(0.5)}
    first, second = odm(X, y, **band, **kernel), odml(X, y, **blend, **kernel)
    for method in ("auto", "newton", "dcd", "blocks"):
        with pytest.raises(sx.DataError, match=r"not fit.*'theta' of shape \(60,\), got none"):
            odm(X, y, **band, **kernel, method=method, warm_start=second)
        if method != "blocks":
            with pytest.raises(sx.DataError, match=r"not fit.*'alpha' of shape \(60,\), got none"):
                odml(X, y, **blend, **kernel, method=method, warm_start=first)
    narrow = odm(X[:, :3], y, **band)
    assert odm(X, y, **band, warm_start=narrow).warm_start_used
    with pytest.raises(sx.DataError, match="warm_start does not fit"):
        odm(X[:50], y[:50], **band, warm_start=narrow)


@given(
    st.sampled_from([*map(hinge_power, (1.0, 1.05, 1.7, 2.0, 3.5)), band(0.6, 1.4, 0.5)]),
    st.floats(-3, 3),
    st.floats(0, 1),
    st.floats(1e-2, 1e4),
)
def test_multipliers_are_the_derivatives_of_the_smooth_losses(loss, z, share, sigma):
    c, one = np.array([0.7]), np.ones(1)
    centre = np.zeros(1) if loss.smooth else share * c

    def value(z):
        alpha, slope = np.empty(1), np.empty(1)
        sums = passes.prox_sums(
            loss, np.array([1.0 - z]), one, 0.0, centre, c, sigma, one, alpha, slope
        )
        return sums, alpha[0], slope[0]

    step = 1e-5 / max(1.0, sigma)
    sums, alpha, slope = value(z)
    above, below = value(z + step), value(z - step)
    assert below[1] <= alpha <= above[1]
    # Multipliers of a band have either sign.
    room = 1e-4 * max(abs(below[1]), abs(above[1])) + 1e-5
    assert below[1] - room <= (above[0][0] - below[0][0]) / (2 * step) <= above[1] + room
    assert slope >= 0
    if not loss.smooth:
        assert slope <= sigma * c[0] * (1 + 1e-12)
    # Fenchel-Young, with equality for smooth losses, and for others only where the centre is
    # optimal.
    left = sums[1] + passes.conjugate(loss, np.array([alpha]), c) - alpha * z
    assert left >= -1e-12 * max(1.0, sums[1])
    if loss.smooth:
        assert left <= 1e-12 * max(1.0, sums[1])
    # Where there is no slope the multiplier is the same up to the ends of the interval, and not
    # beyond.
    if slope == 0.0:
        for end, outwards in zip(
            flat_one(loss, z, centre[0], c[0], sigma), (-1e-6, 1e-6), strict=True
        ):
            assert np.isinf(end) or value(end - outwards)[2] == 0.0 < value(end + outwards)[2]


@pytest.mark.parametrize("p", [1.0, 1.01, 1.05, 1.5])
@pytest.mark.parametrize(("C", "seed"), [(1e2, 15), (3.8e4, 35), (1e6, 51)])
def test_large_weights_and_a_class_of_one_point_do_not_stall(p, C, seed):
    X, y = design("one-point class", seed, n=30)
    solution = psvm(X, y, C=C, p=p, max_iter=100)
    assert solution.status == "optimal"
    assert solution.certificate.is_certified(2e-6)


@pytest.mark.parametrize(
    ("solver", "settings", "method"),
    [
        (odm, {"C1": 1.0}, "newton"),
        (odm, {"C1": 1.0, "kernel": sx.RBF(1.0)}, "dcd"),
        (odm, {"C1": 1e6, "kernel": sx.RBF(1.0)}, "newton"),
        (odml, {"lam1": 1.0, "C": 1.0}, "dcd"),
        (odml, {"lam1": 0.0, "C": 1e4}, "newton"),
        (odml, {"lam1": 1.0, "C": 1.0, "kernel": "rbf"}, "dcd"),
        (odml, {"lam1": 0.0, "C": 1e9, "max_iter": 3}, "newton"),
        (psvm, {"p": 1.0}, "dcd"),
        (psvm, {"p": 1.0, "C": 1e4}, "dcd+newton"),
        (psvm, {"p": 2.0}, "newton"),
    ],
)
def test_defaults_choose_by_the_documented_rule(solver, settings, method):
    others = {odm: {"C2": 1.0, "D": 0.1}, odml: {"lam2": 1.0}, psvm: {"C": 1.0}}[solver]
    found = solver(*design("plain", 2), **(others | settings))
    assert found.solver == f"fast.{solver.__name__}/{method}"


# Starts by coefficients and an intercept, of whatever solver


X, Y = sx.synthetic.outlier_data(120, 3, sigma=0.5, outliers="spread", seed=3)


@pytest.mark.parametrize(
    ("solver", "settings"),
    [
        (fast.psvm, {"C": 1.0, "p": 2.0}),
        (fast.psvm, {"C": 1.0, "p": 1.0}),
        (fast.odm, {"C1": 2.0}),
        (fast.odm, {"C1": 2.0, "intercept": True}),
    ],
)
def test_a_start_at_the_optimum_takes_fewer_iterations_and_any_start_has_the_same_answer(
    solver, settings
):
    cold = solver(X, Y, tol=1e-9, **settings)
    warm = solver(X, Y, tol=1e-9, warm_start=(cold.model.coef, cold.model.intercept), **settings)
    bad = solver(X, Y, tol=1e-9, warm_start=(-5.0 * cold.model.coef, 3.0), **settings)
    assert warm.warm_start_used
    for other in (warm, bad):
        assert other.certificate.is_certified(1e-9)
        assert other.certificate.lower <= cold.certificate.upper
        assert other.certificate.upper >= cold.certificate.lower
    if settings.get("p") != 1.0:  # whose answer comes from coordinate ascent, in other rounds
        assert warm.attempts[0].iterations < cold.attempts[0].iterations


def test_the_model_of_another_package_is_a_start():
    fitted = SVC(kernel="linear", C=1.0).fit(X, Y)
    found = fast.psvm(X, Y, C=1.0, p=1.5, warm_start=(fitted.coef_, fitted.intercept_))
    assert found.warm_start_used
    assert found.certificate.is_certified(1e-6)


@pytest.mark.parametrize(
    ("start", "settings", "why"),
    [
        ((np.ones(2), 0.0), {}, "2 coefficients and 1 intercepts, these data need 3 and 1"),
        ((np.ones(3), [0.0, 1.0]), {}, "3 coefficients and 2 intercepts"),
        ((np.array([1.0, np.nan, 0.0]), 0.0), {}, "finite numbers"),
        (("abc", 0.0), {}, "must be numbers"),
        ((np.ones(3), 0.0), {"kernel": "rbf"}, "linear machines"),
        ((np.ones(3), 0.0), {"intercept": "penalised"}, "free intercept"),
        (3.0, {}, "must be a Solution"),
    ],
)
def test_other_starts_are_refused(start, settings, why):
    with pytest.raises((DataError, TypeError), match=why):
        fast.psvm(X, Y, warm_start=start, **settings)
