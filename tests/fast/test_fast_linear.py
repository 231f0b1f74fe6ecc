"""The fast linear pSVM, ODM and ODML against the conic route, each other, and what every solver
must do.
"""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.fast import odm, odml, psvm
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.linear import loss_passes as passes
from svmcvx.fast.linear.loss_passes import band, flat_one, hinge_power
from svmcvx.fast.linear.newton import LinearNewtonSettings, LinearProblem, linear_model, minimise
from svmcvx.fast.margin_distribution.odm import ODMSettings
from svmcvx.fast.margin_distribution.odml import ODMLSettings
from svmcvx.feature_space import LinearSpace
from svmcvx.formulations.margin_distribution import MarginHessian
from tests.designs import DESIGNS, design
from tests.intervals import overlap

EXPONENTS = (1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 7.0)
METHODS = ("newton", "dcd")
# Without those on which a conic solver has no points.
DESIGNS = DESIGNS[:9]
FEW = settings(max_examples=25, deadline=None)


@given(
    st.sampled_from(EXPONENTS),
    st.sampled_from(DESIGNS),
    st.booleans(),
    st.sampled_from((1e-3, 1.0, 1e3)),
    st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_linear_psvm_agrees_with_the_conic_route(p, name, sparse, C, seed):
    X, y = design(name, seed)
    fast = psvm(sp.csr_array(X) if sparse else X, y, C=C, p=p, tol=1e-6)
    assert fast.status == "optimal"
    assert fast.certificate.gap <= 1e-6
    conic = sx.solve(sx.psvm_dual(X, y, C=C, p=p))
    overlap(fast, conic, (p, name, sparse, C, seed))


@given(
    st.sampled_from(METHODS),
    st.sampled_from(DESIGNS),
    st.booleans(),
    st.sampled_from(((1.0, 1.0, 0.0), (100.0, 10.0, 0.3), (1e-2, 50.0, 0.9))),
    st.booleans(),
    st.integers(0, 99),
)
@settings(max_examples=30, deadline=None)
def test_odm_agrees_with_the_conic_route(method, name, sparse, weights, intercept, seed):
    X, y = design("plain" if name == "offset" else name, seed)
    C1, C2, D = weights
    data, problem = (
        sp.csr_array(X) if sparse else X,
        {"C1": C1, "C2": C2, "D": D, "intercept": intercept},
    )
    fast = odm(data, y, **problem, method=method, tol=1e-6, max_iter=3000)
    assert fast.certificate.gap <= 1e-6
    conic = sx.solve(sx.odm_primal(X, y, **problem))
    overlap(fast, conic, (method, name, sparse, weights, intercept, seed))


@given(
    st.sampled_from(("newton", "dcd", "unwhitened")),
    st.sampled_from(DESIGNS),
    st.booleans(),
    st.sampled_from(((0.0, 0.0, 1.0), (1.0, 0.5, 10.0), (100.0, 3.0, 100.0))),
    st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_odml_agrees_with_the_conic_route(method, name, sparse, weights, seed):
    X, y = design("plain" if name == "offset" else name, seed)
    lam1, lam2, C = weights
    fast = odml(
        sp.csr_array(X) if sparse else X, y, lam1=lam1, lam2=lam2, C=C, method=method, tol=1e-6
    )
    assert fast.certificate.gap <= 1e-6
    overlap(
        fast,
        sx.solve(sx.odml_primal(X, y, lam1=lam1, lam2=lam2, C=C)),
        (method, name, sparse, weights, seed),
    )


@given(
    st.sampled_from(DESIGNS),
    st.sampled_from((sx.RBF(0.5), sx.Laplacian(0.3), sx.Polynomial(2, 1.0, 1.0))),
    st.booleans(),
    st.sampled_from((1e-3, 1.0, 1e4)),
    st.integers(0, 99),
)
@settings(max_examples=25, deadline=None)
def test_kernel_machines_without_a_gram_matrix_agree_with_those_that_keep_it(
    name, kernel, intercept, C, seed
):
    X, y = design("plain" if name == "offset" else name, seed)
    weight = np.random.default_rng(seed).integers(0, 3, y.size) + (np.arange(y.size) < 2)
    settings = {"kernel": kernel, "intercept": intercept, "sample_weight": weight}
    fast = odm(X, y, C1=C, C2=C / 2, D=0.2, method="blocks", **settings)
    assert fast.certificate.gap <= 1e-6
    overlap(fast, odm(X, y, C1=C, C2=C / 2, D=0.2, **settings), (name, kernel, intercept, C, seed))


@pytest.mark.parametrize("C", [1.0, 300.0])
def test_a_factor_that_leaves_much_out_costs_products_not_truth(C):
    settings = ODMSettings(largest_rank=10)
    X, y = design("plain", 2, n=300, d=5)
    machine = {
        "C1": C,
        "C2": C,
        "D": 0.1,
        "kernel": sx.RBF(1.0),
        "method": "blocks",
        "settings": settings,
    }
    fast = odm(X, y, tol=1e-9, **machine)
    assert fast.certificate.gap <= 1e-9
    assert fast.attempts[0].options["rank"] == 10
    overlap(
        fast,
        odm(X, y, C1=C, C2=C, D=0.1, kernel=sx.RBF(1.0), method="newton", tol=1e-9),
        C,
        gap=2.0,
    )
    again = odm(X, y, tol=1e-8, warm_start=fast, **machine)
    assert again.attempts[0].options["iterations"] < fast.attempts[0].options["iterations"]


def test_kernel_rooms_keep_no_gram_matrix_of_many_observations():
    few = ODMSettings(largest_gram=20)
    X, y = design("plain", 3)
    assert (
        odm(X, y, C1=1.0, C2=1.0, D=0.1, kernel=sx.RBF(1.0), settings=few).solver
        == "fast.odm/blocks"
    )
    # Whether this one is positive semidefinite only its matrix can tell.
    assert (
        odm(X, y, C1=1.0, C2=1.0, D=0.1, kernel=lambda A, B: A @ B.T, settings=few).solver
        == "fast.odm/dcd"
    )
    with pytest.raises(
        sx.DataError,
        match='method="blocks" needs a kernel that is positive semidefinite on any data',
    ):
        odm(X, y, C1=1.0, C2=1.0, D=0.1, method="blocks")
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
            strict.setattr(
                MarginHessian, "triangle", property(lambda _: pytest.fail("R was factored"))
            )
            strict.setattr(
                LinearSpace, "factor", property(lambda _: pytest.fail("the data were made dense"))
            )
            fast = odml(X, y, lam1=lam1, lam2=0.5, C=C, max_iter=500, settings=settings)
        assert fast.solver == "fast.odml/unwhitened"
        assert fast.certificate.gap <= 1e-6
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
        certificate = statement.certify(model, {"alpha": point.alpha})
        assert certificate.gap <= 1e-8
        assert certificate.lower <= direct.certificate.upper
        assert direct.certificate.lower <= certificate.upper


def test_a_warm_start_that_does_not_fit_is_refused():
    X, y = design("plain", 7, n=60, d=4)
    band, blend = {"C1": 3.0, "C2": 2.0, "D": 0.2}, {"lam1": 1.0, "lam2": 1.0, "C": 5.0}
    kernel = {"kernel": sx.RBF(0.5)}
    first, second = odm(X, y, **band, **kernel), odml(X, y, **blend, **kernel)
    for method in ("auto", "newton", "dcd", "blocks"):
        with pytest.raises(
            sx.DataError, match=r"warm_start does not fit.*'theta' of shape \(60,\), got none"
        ):
            odm(X, y, **band, **kernel, method=method, warm_start=second)
    with pytest.raises(sx.DataError, match=r"'theta' of shape \(50,\), got one of shape \(60,\)"):
        odm(X[:50], y[:50], **band, **kernel, warm_start=first)
    for method in ("auto", "newton", "dcd"):
        with pytest.raises(
            sx.DataError, match=r"warm_start does not fit.*'alpha' of shape \(60,\), got none"
        ):
            odml(X, y, **blend, **kernel, method=method, warm_start=first)
    with pytest.raises(sx.DataError, match=r"'alpha' of shape \(50,\), got one of shape \(60,\)"):
        odml(X[:50], y[:50], **blend, **kernel, warm_start=second)
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
@FEW
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


@pytest.mark.parametrize("loss", [*map(hinge_power, (1.0, 2.0, 2.5)), band(0.6, 1.4, 0.1)])
def test_passes_over_many_observations_are_sums_and_keep_what_is_not_a_number(loss):
    rng = np.random.default_rng(0)
    n = 37
    f, df, c, norms = (
        rng.normal(size=n),
        rng.normal(size=n),
        rng.uniform(0.1, 2, n),
        rng.uniform(0, 3, n),
    )
    y = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    centre = np.zeros(n) if loss.smooth else rng.random(n) * c
    sigma = 4.0

    def everything(rows):
        alpha, slope = np.empty(rows.size), np.empty(rows.size)
        part = (f[rows], y[rows], 0.3, centre[rows], c[rows], sigma)
        return (
            np.array(passes.prox_sums(loss, *part, norms[rows], alpha, slope)),
            np.array(
                passes.along(
                    loss, f[rows], df[rows], 0.7, y[rows], 0.3, 0.1, centre[rows], c[rows], sigma
                )
            ),
            np.array(passes.slope_of_bias(loss, *part)),
        )

    together = everything(np.arange(n))
    for found, apart in zip(
        together, zip(*(everything(np.array([i])) for i in range(n)), strict=True), strict=True
    ):
        np.testing.assert_allclose(found, np.sum(apart, axis=0), rtol=1e-12)
    f[5] = np.nan
    for found in everything(np.arange(n)):
        assert np.isnan(found).any()


@pytest.mark.parametrize("p", [1.0, 1.01, 1.05, 1.5])
@pytest.mark.parametrize("C", [1e2, 3.8e4, 1e6])
def test_large_weights_and_a_class_of_one_point_do_not_stall(p, C):
    for seed in (15, 35, 51):
        X, y = design("one-point class", seed, n=30)
        solution = psvm(X, y, C=C, p=p, tol=1e-6, time_limit=10)
        assert solution.status == "optimal"
        assert solution.certificate.is_certified(2e-6)


def test_a_problem_with_a_linear_term_and_no_bias_minimises_its_quadratic():
    X, y = design("plain", 1)
    linear_term = np.array([1.0, -2.0, 0.5])
    problem = LinearProblem(
        X, y.astype(float), np.full(y.size, 1e-12), hinge_power(2.0), linear_term=linear_term
    )
    with monitored(tol=1e-10, max_iter=20, verbose=False, callback=None) as monitor:
        point, _ = minimise(problem, monitor)
    assert np.allclose(point.w, linear_term, atol=1e-8)


def test_defaults_choose_by_the_documented_rule():
    X, y = design("plain", 2)
    assert odm(X, y, C1=1.0, C2=1.0, D=0.1).solver == "fast.odm/newton"
    assert odm(X, y, C1=1.0, C2=1.0, D=0.1, kernel=sx.RBF(1.0)).solver == "fast.odm/dcd"
    assert odm(X, y, C1=1e6, C2=1.0, D=0.1, kernel=sx.RBF(1.0)).solver == "fast.odm/newton"
    assert odml(X, y, lam1=1.0, lam2=1.0, C=1.0).solver == "fast.odml/dcd"
    assert odml(X, y, lam1=0.0, lam2=1.0, C=1e4).solver == "fast.odml/newton"
    assert odml(X, y, lam1=1.0, lam2=1.0, C=1.0, kernel="rbf").solver == "fast.odml/dcd"
    assert odml(X, y, lam1=0.0, lam2=1.0, C=1e9, max_iter=3).solver == "fast.odml/newton"
    assert psvm(X, y, C=1.0, p=1.5).solver == "fast.psvm/newton"
