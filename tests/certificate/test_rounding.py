"""The bounds on rounding hold: against rational numbers and ball arithmetic."""

import math
import os
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
from tests.balls import ball, exact_kernel, precision

precise = precision(200)
# A million arguments of each function with SVMCVX_THOROUGH=1.
ARGUMENTS = 1_000_000 if os.environ.get("SVMCVX_THOROUGH") else 3_000

finite = st.floats(-1e100, 1e100, allow_nan=False, allow_infinity=False)
vectors = st.lists(finite, min_size=1, max_size=12).map(np.array)


# Elementary functions


@pytest.mark.parametrize(
    ("function", "exact", "low", "high"),
    [
        (np.exp, lambda x: x.exp(), -740.0, 700.0),
        (np.expm1, lambda x: x.expm1(), -30.0, 700.0),
        (np.log, lambda x: x.log(), 1e-300, 1e300),
        (np.log1p, lambda x: x.log1p(), 1e-300, 1e300),
        (np.tanh, lambda x: x.tanh(), -20.0, 20.0),
    ],
    ids=["exp", "expm1", "log", "log1p", "tanh"],
)
def test_numpys_functions_are_as_accurate_as_is_assumed(function, exact, low, high):
    rng = np.random.default_rng(0)
    x = (
        10.0 ** rng.uniform(math.log10(low), math.log10(high), ARGUMENTS)
        if low > 0
        else rng.uniform(low, high, ARGUMENTS)
    )
    # Small arguments too, of both signs where the function takes them.
    if low < 0:
        x[::2] *= 10.0 ** rng.uniform(-15, 0, x[::2].size)
    values = function(x)
    worst = max(
        float(abs(exact(ball(a)) - ball(v)).upper() / np.spacing(abs(v)))
        for a, v in zip(x, values, strict=True)
    )
    assert worst <= ULPS


def test_powers_are_as_accurate_as_is_assumed():
    rng = np.random.default_rng(1)
    x = 10.0 ** rng.uniform(-12, 12, ARGUMENTS)
    p = np.where(
        rng.random(ARGUMENTS) < 0.5,
        rng.uniform(0.0, 8.0, ARGUMENTS),
        rng.integers(1, 12, ARGUMENTS).astype(float),
    )
    values = x**p
    worst = max(
        float(abs(ball(a) ** ball(q) - ball(v)).upper() / np.spacing(v))
        for a, q, v in zip(x, p, values, strict=True)
        if 1e-290 < v < 1e290
    )
    assert worst <= ULPS


# Sums and inner products


@given(vectors)
def test_sums_are_enclosed(x):
    found = total(Bounded(x))
    truth = sum(map(Fraction, x.tolist()))
    assert Fraction(found.lower_end) <= truth <= Fraction(found.upper_end)


@pytest.mark.parametrize("n", [1023, 1024, 1025, 4097, 20_001])
@pytest.mark.parametrize("spread", [0, 3, 30, 290])
def test_long_sums_are_enclosed(n, spread):
    rng = np.random.default_rng(n + spread)
    x = rng.standard_normal(n) * 10.0 ** rng.uniform(-spread, spread, n)
    # Most of it cancels.
    x[1::2] = -x[: x.size // 2 * 2 : 2] * (1.0 + 1e-13 * rng.standard_normal(n // 2))
    rng.shuffle(x)
    truth, found = sum(map(Fraction, x.tolist())), total(Bounded(x))
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
    exact = Fraction(constant) + sum(Fraction(a) * Fraction(b) for a, b in pairs)
    assert found == float(exact)


def test_the_exact_inner_product_of_usual_numbers_is_a_number():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1000)) * 1e6
    exact = sum(Fraction(a) * Fraction(b) for a, b in zip(x.tolist(), y.tolist(), strict=True))
    assert dot_exactly(x, y) == float(exact)
    # The low part of a product that underflows is not known.
    small = np.array([(1.0 + 2.0**-30) * 2.0**-500])
    assert math.isnan(dot_exactly(small, small))
    assert math.isnan(dot_exactly(small**2, small**2))

    # One row of one leading number and many small ones, which an estimate by the square root of n
    # lets through.


def test_many_small_terms_behind_a_large_one_are_allowed_for():
    d = 2000
    row = np.full(d, math.sqrt(0.98 * 2.0**-53))
    row[0] = 1.0
    model = LinearModel(coef=row, intercept=0.0, classes=np.array([-1, 1]), support=np.array([0]))
    for X in (row[None, :], sp.csr_array(row[None, :])):
        score = model.scores(X)
        exact = sum(Fraction(a) ** 2 for a in row.tolist())
        assert abs(Fraction(float(score.value[0])) - exact) <= Fraction(float(score.error[0]))


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
    assert sum(Fraction(a) * int(s) for a, s in zip(found.tolist(), y, strict=True)) == 0
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
    assert (
        sum(Fraction(a) * int(label) for a, label in zip(found.tolist(), y.tolist(), strict=True))
        == 0
    )
    assert (found >= 0).all()
    np.testing.assert_allclose(found, np.r_[1.0, np.full(n, 1.0 / n)] * min(factor, 1.0), rtol=1e-9)


# Eigenvalues


def negative_direction(A):
    """Whether an exact symmetric matrix has a negative eigenvalue, by its pivots as rational
    numbers.
    """
    rows = [list(row) for row in A]
    n = len(rows)
    left = list(range(n))
    while left:
        if any(rows[i][i] < 0 for i in left):
            return True
        pivot = next((i for i in left if rows[i][i] > 0), None)
        if pivot is None:
            # A zero diagonal: definite only if all of it is zero.
            return any(rows[i][j] for i in left for j in left)
        left.remove(pivot)
        for i in left:
            share = rows[i][pivot] / rows[pivot][pivot]
            for j in left:
                rows[i][j] -= share * rows[pivot][j]
    return False


def less(A, shift, sign):
    """The exact matrix ±(A − shift I)."""
    return [
        [sign * (Fraction(x) - (Fraction(shift) if i == j else 0)) for j, x in enumerate(row)]
        for i, row in enumerate(A.tolist())
    ]


@pytest.mark.parametrize("seed", range(12))
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


@pytest.mark.parametrize("seed", range(15))
def test_kernel_entries_are_within_their_bounds(seed):
    rng = np.random.default_rng(seed)
    A, B, gamma = hostile_rows(rng, 5, int(rng.integers(1, 8)))
    for kernel in kernels_for(gamma):
        values, error = kernel.bounded_block(A, B)
        bound = error.matrix(values)
        for i in range(5):
            for j in range(5):
                distance = abs(exact_kernel(kernel, A[i], B[j]) - ball(values[i, j]))
                assert not distance > ball(bound[i, j]), kernel


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("intercept", ["free", "penalised"])
@pytest.mark.parametrize("keep_gram", [True, False])
def test_scores_and_norms_of_products_are_within_their_bounds(seed, intercept, keep_gram):
    rng = np.random.default_rng(100 + seed)
    A, _, gamma = hostile_rows(rng, 8, int(rng.integers(1, 5)))
    y = np.where(np.arange(8) % 2 == 0, 1, -1)
    v = rng.standard_normal(8) * 10.0 ** rng.uniform(-3, 3, 8)
    v[rng.random(8) < 0.3] = 0.0
    one = 1 if intercept == "penalised" else 0
    for kernel in (
        sx.RBF(gamma),
        sx.Laplacian(math.sqrt(gamma)),
        sx.Exponential(math.sqrt(gamma)),
        sx.Linear(),
    ):
        space = feature_space(binary_data(A, y), kernel, intercept=intercept, keep_gram=keep_gram)
        point = space.point(v)
        K = [[exact_kernel(kernel, a, b) + one for b in A] for a in A]
        scores = [
            sum((k * ball(c) for k, c in zip(row, v, strict=True)), flint.arb(0)) for row in K
        ]
        norm = sum((ball(c) * s for c, s in zip(v, scores, strict=True)), flint.arb(0))
        for exact, score, error in zip(scores, point.scores.value, point.scores.error, strict=True):
            assert not abs(exact - ball(score)) > ball(error)
        assert not abs(norm - ball(point.squared_norm.value)) > ball(point.squared_norm.error)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("tile_entries", [3, 12, 1000])
def test_products_with_other_rows_are_within_their_bounds(seed, tile_entries):
    rng = np.random.default_rng(300 + seed)
    A, B, gamma = hostile_rows(rng, 7, int(rng.integers(1, 5)))
    A[0] *= 1e3
    v = rng.standard_normal(7) * 10.0 ** rng.uniform(-3, 3, 7)
    root = math.sqrt(gamma)
    for kernel in (
        sx.RBF(gamma),
        sx.Laplacian(root),
        sx.Exponential(root),
        sx.Polynomial(3, gamma, 1.0),
    ):
        for rows in (A, sp.csr_array(A)):
            found = KernelColumns(kernel, rows, B, tile_entries=tile_entries).product(v)
            bounds = inner_error(9, found.magnitude) + found.entries
            for a, score, bound, magnitude in zip(
                A, found.scores, bounds, found.magnitude, strict=True
            ):
                terms = [exact_kernel(kernel, a, b) * ball(c) for b, c in zip(B, v, strict=True)]
                assert not abs(sum(terms, flint.arb(0)) - ball(score)) > ball(bound)
                assert not sum((abs(term) for term in terms), flint.arb(0)) > ball(
                    magnitude
                ) * 1.0000001 + ball(bound)


def exactly(row, column):
    return sum((Fraction(a) * Fraction(b) for a, b in zip(row, column, strict=True)), Fraction(0))


def are_within(found, truths):
    """Whether exact numbers are within the errors of bounded ones."""
    errors = np.broadcast_to(found.error, np.shape(found.value))
    return all(
        abs(truth - Fraction(float(value))) <= Fraction(float(error))
        for truth, value, error in zip(truths, np.ravel(found.value), np.ravel(errors), strict=True)
    )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("sparse", [False, True])
def test_linear_products_and_scores_are_within_their_bounds(seed, sparse):
    rng = np.random.default_rng(200 + seed)
    A, _, _ = hostile_rows(rng, 9, 3)
    y = np.where(np.arange(9) % 2 == 0, 1, -1)
    space = feature_space(binary_data(sp.csr_array(A) if sparse else A, y), None, intercept="free")
    v = balanced(rng.random(9), y.astype(float), math.inf) * y
    point = space.point(v)
    w = [exactly(column, v.tolist()) for column in A.T.tolist()]
    # Less the same number for all rows: the score of what was subtracted from them.
    shift = exactly(space.centre.tolist(), w)
    assert are_within(point.scores, [exactly(row, w) - shift for row in A.tolist()])
    assert are_within(point.squared_norm, [exactly(w, w)])
    coef, intercept = np.array([float(x) for x in w]), float(rng.normal())
    scores = space.scores(LinearModel(coef, intercept, y[:2], [0]))
    coefficients = coef.tolist()
    truths = [exactly(row, coefficients) + Fraction(intercept) for row in A.tolist()]
    assert are_within(scores, truths)


def test_a_model_of_a_kernel_is_scored_within_its_bounds():
    rng = np.random.default_rng(3)
    A, B, gamma = hostile_rows(rng, 6, 3)
    for kernel in kernels_for(gamma):
        model = KernelModel(
            kernel, B, rng.standard_normal(6), 0.3, np.array([0, 1]), np.arange(6), 3
        )
        scores = model.scores(A)
        for a, score, error in zip(A, scores.value, scores.error, strict=True):
            exact = sum(
                (
                    exact_kernel(kernel, a, b) * ball(c)
                    for b, c in zip(B, model.dual_coef, strict=True)
                ),
                ball(0.3),
            )
            assert not abs(exact - ball(score)) > ball(error), kernel


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
    for i in rows:
        entries = [exact_kernel(kernel, X[i], z) for z in X]
        for k in range(2):
            score = sum((a * ball(b) for a, b in zip(entries, B[:, k], strict=True)), flint.arb(0))
            assert not abs(score - ball(both.value[i, k])) > ball(both.error[i, k])
        assert not abs(entries[i] - ball(gram.diagonal.value[i])) > ball(gram.diagonal.error[i])
    part = gram.block(rows)
    c = rng.exponential(size=4)
    M, error = part.scaled(c)
    exact_rows = [
        [
            (ball(a) * ball(b)).sqrt() * exact_kernel(kernel, X[i], X[j])
            for j, b in zip(rows, c, strict=True)
        ]
        for i, a in zip(rows, c, strict=True)
    ]
    # The Frobenius norm of a matrix is at least its norm, and this matrix of errors is nearly as
    # large as its bound allows nowhere.
    x = rng.standard_normal(4)
    for _ in range(20):
        moved = [
            sum((e - ball(m)) * ball(t) for e, m, t in zip(line, own, x, strict=True))
            for line, own in zip(exact_rows, M, strict=True)
        ]
        assert not sum(t * t for t in moved) > (ball(error) ** 2) * sum(ball(t) ** 2 for t in x)
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
        squares = (
            Fraction(x[0]) ** 2 * d
            if d > 1000
            else sum(Fraction(value) ** 2 for value in x.tolist())
        )
        for found in (
            norm_above(x),
            float(row_norms_above(x[None])[0]),
            float(row_norms_above(sp.csr_array(x[None]))[0]),
        ):
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
    exact = sum(
        Fraction(a) * int(label) for a, label in zip(alpha.tolist(), y.tolist(), strict=True)
    )
    assert (found == 0) == (exact == 0)
    assert math.isclose(found, float(exact), rel_tol=1e-15)


def test_exponents_of_many_columns_have_larger_errors():
    """Distances of rows of 20 000 columns, which are summed in doubles."""
    rng = np.random.default_rng(0)
    A, B = rng.uniform(0, 1, (3, 20_000)), rng.uniform(0, 1, (3, 20_000))
    for kernel in (sx.RBF(1e-2), sx.Laplacian(1e-2), sx.Exponential(1.0)):
        values, error = kernel.bounded_block(A, B)
        bound = error.matrix(values)
        for i, j in np.ndindex(3, 3):
            assert not abs(exact_kernel(kernel, A[i], B[j]) - ball(values[i, j])) > ball(
                bound[i, j]
            )
