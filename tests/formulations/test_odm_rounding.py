"""The intervals of ODM and ODML hold for every input: checked by ball arithmetic, written down a
second time.
"""

import math
from fractions import Fraction

import flint
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.certificate import check
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations.margin_distribution import ODM, ODML, ODMLHardMargin, centred
from svmcvx.kernels.entry_error import CLOSEST, FAR
from svmcvx.model import KernelModel, LinearModel
from tests.balls import (
    ZERO,
    Ball,
    ExactMargins,
    ball,
    balls,
    exact_kernel,
    least,
    positive,
    precision,
    total,
)

precise = precision(500)
BAND = {"C1": 2.0, "C2": 0.5, "D": 0.2}
BLEND = {"lam1": 0.8, "lam2": 0.3, "C": 4.0}


class Exact:
    """The problem of a statement in ball arithmetic, from the rows as they were passed."""

    def __init__(self, statement):
        self.statement, self.truth = statement, ExactMargins(statement.space)
        self.y = self.truth.y
        s = [ball(v) for v in statement.space.data.weight]
        self.c = [v / total(s) for v in s]

    def point(self, model):
        """The margins and the squared norm."""
        u, norm = self.truth.margins(model)
        return [margin.x for margin in u], norm.x

    def primal(self, model):
        u, norm = self.point(model)
        return self.objective(u, norm)

    def objective(self, u, norm):
        s = self.statement
        if isinstance(s, ODM):
            short = [positive(1 - ball(s.D) - m) for m in u]
            long = [positive(m - 1 - ball(s.D)) for m in u]
            parts = [
                c * (ball(s.C1) * a * a + ball(s.C2) * b * b)
                for c, a, b in zip(self.c, short, long, strict=True)
            ]
            return norm / 2 + total(parts)
        mean = total(c * m for c, m in zip(self.c, u, strict=True))
        variance = total(c * (m - mean) ** 2 for c, m in zip(self.c, u, strict=True))
        hinge = total(c * positive(1 - m) for c, m in zip(self.c, u, strict=True))
        C = ball(s.C) if isinstance(s, ODML) else ZERO
        return norm / 2 + ball(s.lam1) * variance - ball(s.lam2) * mean + C * hinge

    def scaled(self, model):
        """Hard margin: P of the model times the least number that makes it feasible; None if there
        is none.
        """
        u, norm = self.point(model)
        lowest = least(u)
        if not lowest > 0:
            return None
        t = (1 / lowest).max(flint.arb(1))
        return self.objective([t * m for m in u], t * t * norm)

    def dual(self, dual):
        s = self.statement
        if isinstance(s, ODM):
            theta = [ball(t) for t in dual["theta"]]
            q = theta
            terms = []
            for t, c in zip(theta, self.c, strict=True):
                if t == 0:
                    continue
                terms.append(
                    t - ball(s.D) * abs(t) - t * t / (4 * ball(s.C1 if t > 0 else s.C2) * c)
                )
            linear = total(terms)
        else:
            alpha, tau = ([ball(t) for t in dual[name]] for name in ("alpha", "tau"))
            assert sum(map(Fraction, dual["tau"].tolist())) == 0
            q = [a + ball(s.lam2) * c - t for a, c, t in zip(alpha, self.c, tau, strict=True)]
            linear = total(alpha)
            for a, t, c in zip(alpha, tau, self.c, strict=True):
                assert a >= 0
                if isinstance(s, ODML):
                    assert not a > ball(s.C) * c
                if t != 0:
                    linear -= t * t / (4 * ball(s.lam1) * c)
        v = balls([Ball(t * y) for t, y in zip(q, self.y, strict=True)])
        return linear - self.truth.squared_norm_of_balls(v).x / 2


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


BUILDS = [
    pytest.param(sx.odm_primal, BAND, id="odm"),
    pytest.param(sx.odm_primal, {"C1": 1e4, "C2": 1e-3, "D": 0.0}, id="odm-stiff"),
    pytest.param(sx.odml_primal, BLEND, id="odml"),
    pytest.param(sx.odml_primal, {"lam1": 0.0, "lam2": 5.0, "C": 1e3}, id="odml-mean"),
]


def cloud(n=10, d=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.resize([-1, 1], n)
    return rng.standard_normal((n, d)) + 0.8 * y[:, None], y


# Regimes in which the estimates failed


@pytest.mark.parametrize("degree", [2, 5])
@pytest.mark.parametrize("outlier", [50.0, 1e5])
@pytest.mark.parametrize(("build", "keywords"), BUILDS)
def test_a_singular_kernel_with_an_outlier(build, keywords, outlier, degree):
    X = np.array(
        [[(1 if i % 2 == 0 else -1) * (2 + 0.1 * (i // 2)), 0.0] for i in range(12)]
        + [[0, outlier]] * 2
    )
    y = np.r_[np.tile([1, -1], 6), 1, 1]
    answered(build, X, y, kernel=sx.Polynomial(degree, 1.0, 0.0), **keywords)


@pytest.mark.parametrize("spread", [1e3, 1e-8])
@pytest.mark.parametrize(
    "kernel", [sx.RBF, sx.Exponential, sx.Laplacian], ids=["rbf", "exponential", "laplacian"]
)
@pytest.mark.parametrize(("build", "keywords"), BUILDS)
def test_two_far_clusters(build, keywords, kernel, spread):
    rng = np.random.default_rng(3)
    X = np.repeat([-1e6, 1e6], 6)[:, None] + spread * rng.standard_normal((12, 2))
    y = np.resize([-1, 1, 1], 12)
    gamma = 1.0 / spread**2 if kernel is sx.RBF else 1.0 / spread
    certificate = answered(build, X, y, kernel=kernel(gamma), **keywords)
    if kernel is not sx.Exponential and keywords in (BAND, BLEND):
        assert certificate.is_certified(1e-6)


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize(
    "kernel", [None, sx.RBF(0.5), sx.Polynomial(3, 0.1, -1.0)], ids=["linear", "rbf", "cubic"]
)
@pytest.mark.parametrize(("build", "keywords"), BUILDS)
def test_offsets(build, keywords, kernel, offset):
    X, y = cloud()
    X = X + offset
    answered(build, X, y, kernel=kernel, indefinite="clip", **keywords)


@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_hard_margins_are_proved(offset):
    X, y = cloud()
    X = X + 4.0 * y[:, None] + offset * np.array([1.0, -1.0])
    for kernel in (None, sx.RBF(0.3)):
        for lam1, lam2 in ((0.0, 0.0), (2.0, 0.5), (0.1, 30.0)):
            problem = sx.odml_hard_margin(X, y, lam1=lam1, lam2=lam2, kernel=kernel)
            solution = sx.solve(problem, solver="clarabel")
            held(problem.formulation, solution)


def test_margins_at_the_ends_of_the_band_may_cost():
    """A margin that was computed as 1 − D lies below it: the loss is not 0."""
    rng = np.random.default_rng(5)
    y = np.array([-1, 1])
    for _ in range(80):
        X = 1e4 * rng.choice([-1.0, 1.0], (2, 3)) + rng.standard_normal((2, 3))
        D = float(rng.choice([0.0, 0.2, 0.5]))
        statement = ODM(feature_space(binary_data(X, y), None, intercept="none"), 1e12, 1e12, D)
        w = rng.standard_normal(3)
        w *= (1.0 - D) / (X[1] @ w)
        model = LinearModel(w, 0.0, np.array([-1, 1]), np.arange(2))
        found = statement.evaluate(model)
        assert not Exact(statement).primal(model) > ball(found.upper_end)


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


def test_weights_far_apart():
    X, y = cloud(12)
    for seed in range(5):
        weight = 10.0 ** np.random.default_rng(seed).uniform(-12, 12, 12)
        for build, keywords in ((sx.odm_dual, BAND), (sx.odml_dual, BLEND)):
            certificate = answered(build, X, y, sample_weight=weight, **keywords)
            assert certificate.gap < 1e-6


def test_sparse_data():
    X, y = cloud(12)
    for offset in (0.0, 1e9):
        for build, keywords in ((sx.odm_dual, BAND), (sx.odml_dual, BLEND)):
            for kernel in (None, sx.RBF(0.3)):
                answered(build, sp.csr_array(X + offset), y, kernel=kernel, **keywords)


@pytest.mark.parametrize("offset", [0.0, 1e12])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_observations(offset, weighted):
    """Long sums are taken in another way than short ones."""
    X, y = cloud(700, 3)
    X = X + offset
    weight = 10.0 ** np.random.default_rng(0).uniform(-3, 3, 700) if weighted else None
    for solve, formulation, keywords in ((sx.fast.odm, ODM, BAND), (sx.fast.odml, ODML, BLEND)):
        solution = solve(X, y, sample_weight=weight, max_iter=100, **keywords)
        statement = formulation(
            feature_space(binary_data(X, y, weight), None, intercept="none"), **keywords
        )
        held(statement, solution)
        if offset == 0:
            assert solution.certificate.residuals["rounding"] <= 1e-12 * solution.certificate.upper


def test_the_interval_of_the_fast_solvers():
    X, y = cloud(14)
    for offset in (0.0, 1e6):
        for kernel in (None, sx.RBF(0.3)):
            for solve, keywords in ((sx.fast.odm, BAND), (sx.fast.odml, BLEND)):
                solution = solve(X + offset, y, kernel=kernel, **keywords)
                formulation = ODM if solve is sx.fast.odm else ODML
                space = feature_space(binary_data(X + offset, y), kernel, intercept="none")
                held(formulation(space, **keywords), solution)


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
