"""The intervals of ODM and ODML hold for every input: checked by ball arithmetic, written down a
second time.
"""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.certificate import check
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations.margin_distribution import ODM, ODML, ODMLHardMargin, centred
from svmcvx.kernels.entry_error import CLOSEST, FAR
from svmcvx.model import KernelModel, LinearModel
from tests.balls import Exact, ball, exact_kernel, precision

precise = precision(500)
BAND = {"C1": 2.0, "C2": 0.5, "D": 0.2}
BLEND = {"lam1": 0.8, "lam2": 0.3, "C": 4.0}


def proved(statement, models, duals, rng=None):
    """Hold both ends of the interval, and those of every candidate, against ball arithmetic."""
    exact = Exact(statement)
    upper_of = exact.scaled if isinstance(statement, ODMLHardMargin) else exact.primal
    more_models, more_duals = statement.trivial()
    values = []
    for model in [*models, *more_models]:
        found = statement.evaluate(model)
        if not found.upper_end < math.inf:
            continue
        value = upper_of(model)
        assert not value > ball(found.upper_end), (value, found)
        values.append(value)
    bounds = []
    for dual in [*duals, *more_duals]:
        point = statement.repair(dual)
        violation = statement.dual_violation(point)
        if violation:
            assert not np.isfinite(violation)
            continue
        again = statement.repair(point)
        assert all(np.array_equal(again[name], point[name]) for name in point)
        found = statement.evaluate_dual(point)
        if not math.isfinite(found.lower_end):
            continue
        assert not exact.dual(point) < ball(found.lower_end), (exact.dual(point), found)
        bounds.append(found.lower_end)
    # Models around the best ones that no solver has seen.
    if rng is not None:
        values += [
            upper_of(moved(model, 1.0 + size * rng.standard_normal(40)))
            for model in models
            for size in (1e-1, 1e-6, 1e-12)
        ]
    for value in values:
        for bound in bounds:
            assert value is None or not value < ball(bound)
    return bounds, values


def moved(model, factors):
    if isinstance(model, LinearModel):
        return LinearModel(
            model.coef * np.resize(factors, model.coef.size),
            model.intercept * factors[-1],
            model.classes,
            model.support,
        )
    v = model.dual_coef * np.resize(factors, model.dual_coef.size)
    return KernelModel(
        model.kernel,
        model.vectors,
        v,
        float(v.sum()) if model.intercept else 0.0,
        model.classes,
        model.support,
        model.n_features,
    )


def answered(build, X, y, **keywords):
    """Solve, and prove the interval of the answer."""
    problem = build(X, y, **keywords)
    try:
        solution = sx.solve(problem, solver="clarabel")
    except sx.SolverFailed:
        # A solver may give up on such data; Newton's method does not.
        solution = (sx.fast.odm if "C1" in keywords else sx.fast.odml)(
            X, y, method="newton", max_iter=200, **keywords
        )
    # What is clipped is another kernel than the one that was passed.
    if "clipped_mass" not in solution.certificate.residuals:
        held(problem.formulation, solution)
    return solution.certificate


def held(statement, solution):
    proved(statement, [solution.model], [solution.dual], np.random.default_rng(0))
    certificate, exact = solution.certificate, Exact(statement)
    upper = (
        exact.scaled(solution.model)
        if isinstance(statement, ODMLHardMargin)
        else exact.primal(solution.model)
    )
    assert not upper > ball(certificate.upper)
    assert not upper < ball(certificate.lower)
    return upper


def cloud(n=10, d=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.resize([-1, 1], n)
    return rng.standard_normal((n, d)) + 0.8 * y[:, None], y


# Regimes in which the estimates failed


def test_doing_nothing_is_a_candidate():
    X, y = cloud(12)
    far = 1e12 * (X + 5.0)
    for statement, P in (
        (ODM(feature_space(binary_data(far, y), None, intercept="none"), 60.0, 1.0, 0.0), 60.0),
        (ODML(feature_space(binary_data(far, y), None, intercept="none"), 1.0, 0.0, 60.0), 60.0),
    ):
        wild = statement.space.model(np.full(12, 1e3))
        name = "theta" if isinstance(statement, ODM) else "alpha"
        certificate = check(statement, [wild], [{name: np.full(12, 1e6)}]).certificate
        assert certificate.upper <= P * (1.0 + 1e-14)
        assert certificate.lower >= 0.0


def test_objectives_that_are_not_negative_have_no_bound_below_zero():
    X, y = cloud(12)
    for C in (1e-8, 1e-12, 1e8):
        for build, keywords in (
            (sx.odm_dual, {"C1": C, "C2": C, "D": 0.1}),
            (sx.odml_dual, {"lam1": 0.5, "lam2": 0.0, "C": C}),
        ):
            certificate = answered(build, X * 1e4, y, **keywords)
            assert certificate.lower >= 0.0


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e12])
@pytest.mark.parametrize(
    "kernel", [None, sx.RBF(0.3), sx.Polynomial(3, 0.1, 1.0)], ids=["linear", "rbf", "cubic"]
)
def test_no_solver_calls_optimal_what_its_certificate_contradicts(kernel, offset):
    X, y = cloud(30)
    for solve, keywords in (
        (sx.fast.odm, BAND),
        (sx.fast.odm, {"C1": 1e6, "C2": 0.5, "D": 0.0}),
        (sx.fast.odml, BLEND),
        (sx.fast.odml, {"lam1": 1e4, "lam2": 0.0, "C": 1e5}),
    ):
        solution = solve(X + offset, y, kernel=kernel, max_iter=2000, **keywords)
        assert solution.status != "optimal" or solution.certificate.gap <= 2e-6
        assert solution.status == "optimal" or offset > 0


def test_the_bound_of_odml_keeps_its_digits_on_data_with_an_offset():
    X, y = cloud(60, 3)
    for offset, gap in ((1e4, 1e-6), (1e6, 1e-5)):
        certificate = sx.fast.odml(X + offset, y, lam1=0.8, lam2=0.3, C=4.0).certificate
        assert certificate.gap <= gap


# The dual cone


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    st.lists(st.floats(1e-9, 1e9), min_size=40, max_size=40),
)
def test_centred_multipliers_have_a_sum_of_exactly_zero(values, weights):
    tau, weight = np.array(values), np.array(weights[: len(values)])
    share = weight / weight.sum()
    found = centred(tau, share)
    assert sum(map(Fraction, found.tolist())) == 0
    assert np.array_equal(centred(found, share), found)
    plain = tau - share * tau.sum()
    assert np.abs(found - plain).max() <= 1e-11 * np.abs(tau).max()


@pytest.mark.parametrize("C", [1.0, 0.1, 1e-300, 3e300])
@pytest.mark.parametrize("n", [3, 7, 10, 49])
def test_the_box_holds_for_the_real_product(C, n):
    X, y = cloud(n)
    rng = np.random.default_rng(n)
    for weight in (None, np.full(n, 0.3), rng.random(n), 10.0 ** rng.uniform(-12, 12, n)):
        statement = ODML(
            feature_space(binary_data(X, y, weight), None, intercept="none"), 1.0, 0.0, C
        )
        s = [Fraction(v) for v in statement.weight.tolist()]
        exact = [Fraction(C) * v / sum(s) for v in s]
        found = statement.upper_bound()
        assert all(Fraction(a) <= b for a, b in zip(found.tolist(), exact, strict=True))
        least = Fraction(1e-322)
        assert all(
            Fraction(a) >= b * (1 - Fraction(1, 10**14)) - least
            for a, b in zip(found.tolist(), exact, strict=True)
        )
        beyond = {"alpha": np.nextafter(found, np.inf) * (1.0 + 1e-14) + 1e-321, "tau": np.zeros(n)}
        assert statement.dual_violation(beyond) > 0
        assert statement.dual_violation({"alpha": found, "tau": np.zeros(n)}) == 0


def test_a_sum_that_is_not_exactly_zero_is_a_violation():
    X, y = cloud(4)
    statement = ODML(feature_space(binary_data(X, y), None, intercept="none"), 1.0, 0.0, 1.0)
    tau = np.array([1.0, -1.0, 2.0**-1000, 0.0])
    assert statement.dual_violation({"alpha": np.zeros(4), "tau": tau}) > 0
    assert (
        statement.dual_violation({"alpha": np.zeros(4), "tau": tau - [0.0, 0.0, 2.0**-1000, 0.0]})
        == 0
    )


# Rows that are far out for a kernel


@pytest.mark.parametrize("factor", [1e-4, 0.3, 1.01, 3.0, 1e4, 1e12])
def test_entries_of_rows_that_are_far_out(factor):
    """On either side of the exponent from which rows have no relative error, and of the distance
    computed from differences.
    """
    rng = np.random.default_rng(0)
    A = rng.standard_normal((6, 2))
    A /= np.linalg.norm(A, axis=1)[:, None]
    step = math.sqrt(CLOSEST)
    B = np.vstack([A[:3] * (1.0 + step * size) for size in (0.0, 0.5, 1.9, 2.1, 3.0)])
    gamma = factor * FAR
    for kernel in (sx.RBF(gamma), sx.Exponential(math.sqrt(gamma)), sx.Exponential(gamma)):
        values, error = kernel.bounded_block(A, B)
        bound = error.matrix(values)
        for i in range(A.shape[0]):
            for j in range(B.shape[0]):
                assert not abs(exact_kernel(kernel, A[i], B[j]) - ball(values[i, j])) > ball(
                    bound[i, j]
                )
        assert bound.max() < 1e-6 or kernel.name == "exponential"
