"""The bounds on rounding hold: against rational numbers and ball arithmetic."""

import math
import os
from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import example, given
from hypothesis import strategies as st

import svmcvx as sx
from svmcvx.certificate.bounded import ULPS, Bounded, U, total
from svmcvx.certificate.exactly import balanced, dot_exactly, imbalance, product_below
from svmcvx.certificate.rows import (
    inner_error,
    largest_eigenvalue_above,
    norm_above,
    row_norms_above,
    smallest_eigenvalue_below,
    spectrum_above,
)
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.kernels.columns import KernelColumns
from svmcvx.kernels.gram import BoundedGram
from svmcvx.model import KernelModel, LinearModel
from tests.balls import ball, exact_kernel, inner, precision
from tests.balls import fractions as rationals
from tests.balls import total as total_of

from .operations import beyond
from .operations import dot as exact_dot
from .operations import vector as fractions

precise = precision(200)
# A million arguments of each function with SVMCVX_THOROUGH=1.
ARGUMENTS = 1_000_000 if os.environ.get("SVMCVX_THOROUGH") else 3_000

finite = st.floats(-1e100, 1e100, allow_nan=False, allow_infinity=False)


def encloses(found, truths):
    """Whether exact numbers are within the errors of bounded ones."""
    errors = np.broadcast_to(found.error, np.shape(found.value))
    pairs = zip(truths, np.ravel(found.value), np.ravel(errors), strict=True)
    return not any(beyond(*pair) for pair in pairs)


def dot(x, y):
    return exact_dot(fractions(x), fractions(y))


# Elementary functions


def worst(exact, values):
    """The largest error in units in the last place."""
    errors = (
        abs(a - ball(v)).upper() / np.spacing(abs(v)) for a, v in zip(exact, values, strict=True)
    )
    return max(map(float, errors))


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("exp", -740.0, 700.0),
        ("expm1", -30.0, 700.0),
        ("log", 1e-300, 1e300),
        ("log1p", 1e-300, 1e300),
        ("tanh", -20.0, 20.0),
    ],
)
def test_numpys_functions_are_as_accurate_as_is_assumed(name, low, high):
    rng = np.random.default_rng(0)
    if low > 0:
        x = 10.0 ** rng.uniform(math.log10(low), math.log10(high), ARGUMENTS)
    else:
        # Small arguments too, of both signs.
        x = rng.uniform(low, high, ARGUMENTS)
        x[::2] *= 10.0 ** rng.uniform(-15, 0, x[::2].size)
    assert worst((getattr(ball(a), name)() for a in x), getattr(np, name)(x)) <= ULPS


def test_powers_are_as_accurate_as_is_assumed():
    rng = np.random.default_rng(1)
    x, half = 10.0 ** rng.uniform(-12, 12, ARGUMENTS), ARGUMENTS // 2
    p = np.r_[rng.uniform(0.0, 8.0, half), rng.integers(1, 12, ARGUMENTS - half)]
    values = x**p
    kept = (values > 1e-290) & (values < 1e290)
    exact = (ball(a) ** ball(q) for a, q in zip(x[kept], p[kept], strict=True))
    assert worst(exact, values[kept]) <= ULPS


# Sums and inner products


@pytest.mark.parametrize("n", [1023, 1025, 20_001])
@pytest.mark.parametrize("spread", [0, 30, 290])
def test_long_sums_are_enclosed(n, spread):
    rng = np.random.default_rng(n + spread)
    x = rng.standard_normal(n) * 10.0 ** rng.uniform(-spread, spread, n)
    # Most of it cancels.
    x[1::2] = -x[: x.size // 2 * 2 : 2] * (1.0 + 1e-13 * rng.standard_normal(n // 2))
    rng.shuffle(x)
    truth, found = sum(fractions(x)), total(Bounded(x))
    low, high = found.lower_end, found.upper_end
    assert Fraction(low) <= truth <= Fraction(high)
    assert high - low <= 1e-15 * abs(float(truth)) + 1e-24 * float(np.abs(x).sum())


def test_long_sums_that_overflow_are_infinite():
    for large in (1e308, math.inf):
        x = np.full(5000, large)
        assert total(Bounded(x)).upper_end == total(Bounded(np.r_[x, -large])).upper_end == math.inf


@given(st.lists(st.tuples(finite, finite), min_size=1, max_size=10), finite)
def test_the_exact_inner_product_is_rounded_once(pairs, constant):
    x, y = (np.array(side) for side in zip(*pairs, strict=True))
    found = dot_exactly(x, y, constant)
    if math.isnan(found):
        return
    assert found == float(Fraction(constant) + dot(x, y))


def test_the_exact_inner_product_of_usual_numbers_is_a_number():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1000)) * 1e6
    assert dot_exactly(x, y) == float(dot(x, y))
    # The low part of a product that underflows is not known.
    small = np.array([(1.0 + 2.0**-30) * 2.0**-500])
    assert math.isnan(dot_exactly(small, small))
    assert math.isnan(dot_exactly(small**2, small**2))


# Balanced multipliers


@given(
    st.lists(st.floats(0, 1e6), min_size=2, max_size=40),
    st.lists(st.booleans(), min_size=40, max_size=40),
    st.one_of(st.just(math.inf), st.floats(1e-3, 1e6)),
)
def test_balanced_multipliers_meet_their_conditions_exactly(values, signs, bound):
    alpha = np.array(values)
    y = np.where(signs[: alpha.size], 1.0, -1.0)
    found = balanced(alpha, y, bound)
    assert dot(found, y) == 0
    assert (found >= 0).all()
    assert (found <= bound).all()
    assert np.array_equal(balanced(found, y, bound), found)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("factor", [0.99, 1.01])
def test_one_multiplier_balances_thousands(sign, factor):
    """The grid is that of the largest multiplier, in whichever class it is."""
    n = 20_000
    alpha, y = np.r_[factor, np.full(n, 1.0 / n)], sign * np.r_[1.0, np.full(n, -1.0)]
    found = balanced(alpha, y, math.inf)
    assert dot(found, y) == 0
    assert (found >= 0).all()
    np.testing.assert_allclose(found, np.r_[1.0, np.full(n, 1.0 / n)] * min(factor, 1.0), rtol=1e-9)


# Eigenvalues


def negative_direction(A):
    """Whether an exact symmetric matrix has a negative eigenvalue: the coefficients of its
    characteristic polynomial alternate in sign if and only if it has none.
    """
    exact = [[flint.fmpq(x.numerator, x.denominator) for x in row] for row in A]
    coefficients = flint.fmpq_mat(exact).charpoly().coeffs()
    return any((-1) ** (len(A) - k) * c < 0 for k, c in enumerate(coefficients))


def less(A, shift, sign):
    """The exact matrix ±(A − shift I)."""
    return [
        [sign * (Fraction(x) - (Fraction(shift) if i == j else 0)) for j, x in enumerate(row)]
        for i, row in enumerate(A.tolist())
    ]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", ["definite", "singular", "graded", "indefinite"])
@pytest.mark.parametrize("steps", [0.0, 0.9, 1.1, 1.6, -1.0])
def test_eigenvalues_are_enclosed(seed, kind, steps):
    """Guesses that are off by about the step that is tried cost accuracy and not truth: a
    factorisation may run to its end by rounding alone.
    """
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 9))
    F = rng.standard_normal((n, max(1, n // 2) if kind == "singular" else n))
    if kind == "graded":
        F *= 10.0 ** rng.uniform(-6, 3, (n, 1))
    A = F @ F.T - np.eye(n) * (kind == "indefinite") * np.sum(F**2) / n
    A = np.tril(A) + np.tril(A, -1).T
    values, size = np.linalg.eigvalsh(A), float(np.abs(A).max())
    step = 4.0 * (n + 4) * U * (size + float(np.abs(values).max()))
    low = smallest_eigenvalue_below(A, values[0] + steps * step)
    high = largest_eigenvalue_above(A, values[-1] - steps * step)
    assert not negative_direction(less(A, low, 1))
    assert not negative_direction(less(A, high, -1))
    if steps == 0.0:
        assert values[0] - low <= 1e-11 * n * size
        assert high - values[-1] <= 1e-11 * n * size


def test_nothing_is_proved_of_what_is_no_matrix_of_numbers():
    assert smallest_eigenvalue_below(np.array([[np.nan]]), 0.0) == -math.inf
    # A guess that is far too high is no proof.
    assert smallest_eigenvalue_below(np.diag([0.0, 5.0]), 4.0) <= 0.0
    assert largest_eigenvalue_above(np.zeros((0, 0)), 3.0) == 0.0
    # Six roundings of the factorisation and two of the shift, each of the size of the largest
    # entry.
    assert largest_eigenvalue_above(np.diag([-1e10, 1.0]), 1.0) >= 1.0 + 8.0 * 2.0**-53 * 1e10


def test_a_spectrum_counts_the_error_of_its_matrix():
    A = np.diag([1.0, 3.0])
    found = spectrum_above(A, 0.25)
    assert found.values.tolist() == [1.0, 3.0]
    assert 3.25 <= found.top <= 3.25 + 1e-12
    assert spectrum_above(np.full((2, 2), np.nan), 0.0).top == math.inf


# Kernels


def kernels_for(gamma):
    root = math.sqrt(gamma)
    return [
        sx.Linear(),
        sx.RBF(gamma),
        sx.Exponential(root),
        sx.Laplacian(root),
        sx.Polynomial(3, gamma, 1.0),
        sx.Polynomial(5, gamma, -1.0),
        sx.Sigmoid(gamma, 0.3),
    ]


def hostile_rows(rng, n, d):
    """Far clusters, offsets, and rows that nearly coincide."""
    scale, offset = 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-3, 12) * rng.integers(0, 2)
    B = rng.standard_normal((n, d)) * scale + offset * rng.choice([-1.0, 1.0], (n, 1))
    A = B[rng.integers(0, n, n)] + rng.standard_normal((n, d)) * scale * 10.0 ** rng.uniform(-8, 0)
    return A, B, 10.0 ** rng.uniform(-3, 3) / scale**2


def exact_matrix(kernel, A, B):
    return [[exact_kernel(kernel, a, b) for b in B] for a in A]


def expansions(matrix, v):
    """Exact products of the rows of a matrix with v."""
    return [total_of(k * ball(c) for k, c in zip(row, v, strict=True)) for row in matrix]


def entries_are_within_their_bounds(kernel, A, B):
    values, error = kernel.bounded_block(A, B)
    exact = [entry for row in exact_matrix(kernel, A, B) for entry in row]
    return encloses(Bounded(values, error.matrix(values)), exact)


@pytest.mark.parametrize("seed", range(15))
def test_kernel_entries_are_within_their_bounds(seed):
    rng = np.random.default_rng(seed)
    A, B, gamma = hostile_rows(rng, 5, int(rng.integers(1, 8)))
    for kernel in kernels_for(gamma):
        assert entries_are_within_their_bounds(kernel, A, B), kernel


def test_exponents_of_many_columns_have_larger_errors():
    """Distances of rows of 20 000 columns, which are summed in doubles."""
    A, B = np.random.default_rng(0).uniform(0, 1, (2, 3, 20_000))
    for kernel in (sx.RBF(1e-2), sx.Laplacian(1e-2), sx.Exponential(1.0)):
        assert entries_are_within_their_bounds(kernel, A, B), kernel


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("intercept", ["free", "penalised"])
@pytest.mark.parametrize("keep_gram", [True, False])
def test_scores_and_norms_of_products_are_within_their_bounds(seed, intercept, keep_gram):
    rng = np.random.default_rng(100 + seed)
    A, _, gamma = hostile_rows(rng, 8, int(rng.integers(1, 5)))
    y = np.where(np.arange(8) % 2 == 0, 1, -1)
    v = rng.standard_normal(8) * 10.0 ** rng.uniform(-3, 3, 8)
    v[rng.random(8) < 0.3] = 0.0
    for kernel in kernels_for(gamma)[:4]:
        space = feature_space(binary_data(A, y), kernel, intercept=intercept, keep_gram=keep_gram)
        point = space.point(v)
        one = 1 if intercept == "penalised" else 0
        scores = expansions([[k + one for k in row] for row in exact_matrix(kernel, A, A)], v)
        assert encloses(point.scores, scores)
        norm = total_of(ball(c) * s for c, s in zip(v, scores, strict=True))
        assert encloses(point.squared_norm, [norm])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("intercept", ["free", "penalised", "none"])
def test_a_clipped_kernel_is_that_of_its_factor(seed, intercept):
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((9, 2)), np.resize([1, -1], 9)
    v = rng.standard_normal(9) * 10.0 ** rng.uniform(-3, 3, 9)
    data, kernel = binary_data(X, y), sx.Sigmoid(1.0, -1.0)
    space = feature_space(data, kernel, intercept=intercept, indefinite="clip")
    L = rationals(space.factor)
    w = L.T @ rationals(v)
    point = space.point(v)
    assert encloses(point.scores, L @ w)
    assert encloses(point.squared_norm, [w @ w])
    assert (point.scores.error <= 1e-13 * np.abs(v).sum()).all()
    assert ((L**2).sum(axis=1) <= rationals(space.diagonal_above())).all()
    entries = space.gram_error.matrix(space.gram)
    for row, line, errors in zip(L, space.gram, entries, strict=True):
        assert encloses(Bounded(line, errors), L @ row)
    # A model of the positive part scores with the kernel itself, any other does not.
    model = space.model(v, 0.3 if intercept == "free" else 0.0)
    for each, own in ((model, True), (replace(model, dual_coef=v[::-1]), False)):
        scores = space.scores(each)
        assert (np.abs(scores.value - each.scores(X).value) <= 1.001 * scores.error + 1e-12).all()
        assert (scores.error.max() < 1e-8) == own
        w = L.T @ rationals(each.dual_coef)
        assert encloses(space.squared_norm(each), [w @ w])
    elsewhere = replace(model, vectors=X[::-1] + 1.0)
    assert not np.isfinite(space.scores(elsewhere).error).any()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tile_entries", [3, 12, 1000])
def test_products_with_other_rows_are_within_their_bounds(seed, tile_entries):
    rng = np.random.default_rng(300 + seed)
    A, B, gamma = hostile_rows(rng, 7, int(rng.integers(1, 5)))
    A[0] *= 1e3
    v = rng.standard_normal(7) * 10.0 ** rng.uniform(-3, 3, 7)
    for kernel in kernels_for(gamma)[1:]:
        terms = [
            [k * ball(c) for k, c in zip(row, v, strict=True)] for row in exact_matrix(kernel, A, B)
        ]
        model = KernelModel(kernel, B, v, 0.3, np.array([0, 1]), np.arange(7), B.shape[1])
        for rows in (A, sp.csr_array(A)):
            assert encloses(model.scores(rows), [total_of(each) + ball(0.3) for each in terms])
            found = KernelColumns(kernel, rows, B, tile_entries=tile_entries).product(v)
            bounds = inner_error(9, found.magnitude) + found.entries
            assert encloses(Bounded(found.scores, bounds), map(total_of, terms))
            for each, magnitude, bound in zip(terms, found.magnitude, bounds, strict=True):
                assert not total_of(map(abs, each)) > ball(magnitude) * 1.0000001 + ball(bound)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sparse", [False, True])
def test_linear_products_and_scores_are_within_their_bounds(seed, sparse):
    rng = np.random.default_rng(200 + seed)
    A, _, _ = hostile_rows(rng, 9, 3)
    y = np.where(np.arange(9) % 2 == 0, 1, -1)
    space = feature_space(binary_data(sp.csr_array(A) if sparse else A, y), None, intercept="free")
    v = balanced(rng.random(9), y.astype(float), math.inf) * y
    point = space.point(v)
    w = [dot(column, v) for column in A.T]

    def score(row):
        return sum(a * b for a, b in zip(fractions(row), w, strict=True))

    # Less the same number for all rows: the score of what was subtracted from them.
    assert encloses(point.scores, [score(row) - score(space.centre) for row in A])
    assert encloses(point.squared_norm, [sum(x * x for x in w)])
    coef, intercept = np.array([float(x) for x in w]), float(rng.normal())
    scores = space.scores(LinearModel(coef, intercept, y[:2], [0]))
    assert encloses(scores, [dot(row, coef) + Fraction(intercept) for row in A])


@pytest.mark.parametrize(
    "kernel",
    [sx.RBF(0.3), sx.Polynomial(3, 0.5, -1.0), sx.Linear()],
    ids=["rbf", "cubic", "linear"],
)
@pytest.mark.parametrize("n", [7, 300])
def test_a_bounded_matrix_bounds_products_diagonal_and_eigenvalues(kernel, n):
    rng = np.random.default_rng(n)
    X = np.round(rng.standard_normal((n, 2)) * 8) / 8 + 100.0
    K = kernel.block(X, X)
    gram = BoundedGram((K + K.T) / 2, kernel.error_of(X, X, K).rounded(2.0))
    B = rng.standard_normal((n, 2)) * 10.0 ** rng.uniform(-3, 3, (n, 1))
    rows = rng.choice(n, 4, replace=False)
    both, one = gram.product(B), gram.product(B[:, 0])
    np.testing.assert_allclose(both.value[:, 0], one.value, rtol=1e-9)
    for i, entries in zip(rows, exact_matrix(kernel, X[rows], X), strict=True):
        exact = expansions([entries], B[:, 0]) + expansions([entries], B[:, 1])
        assert encloses(both[i], exact)
        assert encloses(gram.diagonal[i], [entries[i]])
    part = gram.block(rows)
    c = rng.exponential(size=4)
    M, error = part.scaled(c)
    exact_rows = [
        [(ball(a) * ball(b)).sqrt() * k for b, k in zip(c, row, strict=True)]
        for a, row in zip(c, exact_matrix(kernel, X[rows], X[rows]), strict=True)
    ]
    # The Frobenius norm of a matrix is at least its norm, and this matrix of errors is nearly as
    # large as its bound allows nowhere.
    x = rng.standard_normal(4)
    for _ in range(20):
        pairs = zip(exact_rows, M, strict=True)
        moved = expansions([[e - ball(m) for e, m in zip(*p, strict=True)] for p in pairs], x)
        assert not total_of(t * t for t in moved) > ball(error) ** 2 * inner(x, x)
        x = np.array([float(t) for t in moved])
        if not x.any():
            break
        x = x / np.abs(x).max()
    assert error <= 1e-9 * float(np.abs(M).sum())


# Formulas of bounds: what no input attains one by one


@given(st.integers(1, 10**6), st.floats(0, 1e300))
def test_the_bound_of_inner_products_is_that_of_the_theorem(terms, magnitude):
    """For sums whose magnitude is itself rounded: n u M / (1 − n u)², and what underflows."""
    share = Fraction(terms) * Fraction(U)
    assert Fraction(float(inner_error(terms, magnitude))) >= share / (1 - share) * Fraction(
        magnitude
    ) * (1 + Fraction(U))
    assert inner_error(terms, 0.0) >= terms * 2.0**-1074


@pytest.mark.parametrize("size", [1.0, 3.0, 1e-162, 1e150])
@pytest.mark.parametrize("d", [1, 3, 1000, 200_000])
def test_norms_of_long_rows_and_of_tiny_numbers_are_below_their_bounds(size, d):
    """Long rows, whose squares are summed with rounding, and numbers whose squares underflow."""
    rng = np.random.default_rng(d)
    drawn = [] if d > 1000 else [rng.standard_normal(d) * size, rng.uniform(0.9, 1.1, d) * size]
    for x in (np.full(d, 0.1 * size), *drawn):
        squares = Fraction(x[0]) ** 2 * d if d > 1000 else dot(x, x)
        rows = (x[None], sp.csr_array(x[None]))
        for found in (norm_above(x), *(float(row_norms_above(row)[0]) for row in rows)):
            assert Fraction(found) ** 2 >= squares
            assert Fraction(found) ** 2 <= squares * (1 + Fraction(1, 10**9)) + Fraction(d, 10**320)


@given(
    st.lists(
        st.floats(0, 1e300) | st.integers(1, 2**40).map(lambda k: k * 2.0**-40),
        min_size=1,
        max_size=6,
    ),
    st.floats(1e-310, 1e300)
    | st.builds(math.ldexp, st.integers(1, 2**53), st.integers(-1074, -1000)),
)
def test_products_from_below_are_the_nearest(values, factor):
    """Those that underflow too."""
    for x, found in zip(values, product_below(np.array(values), factor).tolist(), strict=True):
        above = math.nextafter(found, math.inf)
        assert Fraction(found) <= Fraction(x) * Fraction(factor)
        assert math.isinf(above) or Fraction(above) > Fraction(x) * Fraction(factor)


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.booleans()), min_size=1, max_size=30))
@example([(-1.0, True), (-3.0, False)])
@example([(-3.0, True), (-3.0, False)])
def test_the_imbalance_is_rounded_once(pairs):
    alpha = np.array([a for a, _ in pairs])
    y = np.where([b for _, b in pairs], 1.0, -1.0)
    found = imbalance(alpha, y)
    exact = dot(alpha, y)
    assert (found == 0) == (exact == 0)
    assert math.isclose(found, float(exact), rel_tol=1e-15)
