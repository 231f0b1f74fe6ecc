import numba
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import pairwise

import svmcvx as sx
from svmcvx import catalogue
from svmcvx.certificate.bounded import ULPS
from svmcvx.errors import DataError
from svmcvx.kernels import (
    RBF,
    CallableKernel,
    Exponential,
    Laplacian,
    Linear,
    Polynomial,
    Precomputed,
    Sigmoid,
    as_kernel,
    kernel_from_dict,
    squared_distances,
)
from svmcvx.kernels.class_rows import MANY_COLUMNS, ClassRows, Layout
from svmcvx.kernels.class_rows_passes import exponentials
from svmcvx.kernels.columns import KernelColumns
from svmcvx.kernels.factor import definite_factor, gram_factor, is_definite
from svmcvx.system import threads

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((7, 4)), RNG.standard_normal((5, 4))
DISTANCES = np.sqrt(((A[:, None, :] - B[None, :, :]) ** 2).sum(axis=2))
KERNELS = {
    Linear(): A @ B.T,
    RBF(0.3): np.exp(-0.3 * DISTANCES**2),
    Exponential(0.3): np.exp(-0.3 * DISTANCES),
    Laplacian(0.3): np.exp(-0.3 * np.abs(A[:, None, :] - B[None, :, :]).sum(axis=2)),
    Polynomial(3, 0.3, 1.0): (0.3 * A @ B.T + 1.0) ** 3,
    Sigmoid(0.3, 0.1): np.tanh(0.3 * A @ B.T + 0.1),
}


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_kernels_against_their_definition(kernel):
    expected = KERNELS[kernel]
    assert np.allclose(kernel(A, B), expected, rtol=1e-12, atol=1e-13)
    assert np.allclose(kernel(sp.csr_array(A), sp.csr_array(B)), expected, rtol=1e-12, atol=1e-13)
    single = kernel(A, B, dtype=np.float32)
    assert single.dtype == np.float32
    assert np.allclose(single, expected, rtol=2e-4, atol=1e-5)
    K = kernel(A)
    assert np.allclose(kernel.diagonal(A), np.diag(K), rtol=1e-12)
    assert np.array_equal(K, K.T)


@pytest.mark.parametrize(
    ("gamma", "reference"), [("scale", 1 / (4 * A.var())), ("auto", 0.25), (2.0, 2.0)]
)
def test_gamma_means_what_scikit_learn_means(gamma, reference):
    resolved = RBF(gamma).resolve(A)
    assert resolved.gamma == pytest.approx(reference)
    assert np.allclose(resolved(A), pairwise.rbf_kernel(A, gamma=reference))
    assert RBF(gamma).resolve(sp.csr_array(A)).gamma == pytest.approx(reference)
    assert RBF("scale").resolve(np.ones((3, 2))).gamma == 1.0
    with pytest.raises(DataError, match="resolve"):
        RBF("scale")(A)


def test_gamma_counts_a_weight_as_copies():
    weight = np.array([1.0, 2.0, 3.0, 1.0, 1.0, 2.0, 1.0])
    copies = RBF("scale").resolve(np.repeat(A, weight.astype(int), axis=0)).gamma
    assert RBF("scale").resolve(A, weight).gamma == pytest.approx(copies)
    assert RBF("scale").resolve(sp.csr_array(A), weight).gamma == pytest.approx(copies)


@given(st.integers(0, 2**32 - 1), st.floats(0, 1e9), st.floats(1e-9, 1e3))
def test_distances_keep_their_digits_far_from_the_origin(seed, offset, spread):
    rng = np.random.default_rng(seed)
    X = np.round(rng.standard_normal((8, 3)), 2) * spread + offset
    X[3] = X[0]
    exact = ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)
    found = squared_distances(X, X)
    assert found[0, 3] == 0
    assert np.allclose(found, exact, rtol=1e-7, atol=0)


@pytest.mark.parametrize(
    ("make", "value", "message"),
    [
        *((RBF, 0, "gamma"), (RBF, -1.0, "gamma"), (RBF, "large", "'scale' or 'auto'")),
        *((Polynomial, 0, "degree"), (Polynomial, 1.5, "degree"), (as_kernel, "gauss", "'rbf'")),
        (lambda coef0: Sigmoid(coef0=coef0), np.inf, "coef0"),
        *((as_kernel, 3, "callable"), (as_kernel, RBF, r"write RBF\(\)")),
    ],
)
def test_bad_kernels(make, value, message):
    with pytest.raises(DataError, match=message):
        make(value)


def test_kernels_by_name_and_storage():
    assert as_kernel(None) is None
    assert as_kernel("poly", gamma=2.0, degree=2, coef0=1.0) == Polynomial(2, 2.0, 1.0)
    assert as_kernel("rbf", gamma="auto", degree=9) == RBF("auto")
    for kernel in KERNELS:
        assert kernel_from_dict(kernel.to_dict()) == kernel
    assert {type(as_kernel(name)) for name in catalogue.KERNELS} >= {*map(type, KERNELS)}
    with pytest.raises(DataError, match="callable kernel cannot be stored"):
        as_kernel(lambda a, b: a @ b.T).to_dict()


def test_what_a_callable_returns_is_checked():
    assert np.allclose(as_kernel(lambda a, b: a @ b.T)(A, B), A @ B.T)
    with pytest.raises(DataError, match="shape"):
        CallableKernel(lambda a, b: np.ones(3))(A, B)
    with pytest.raises(DataError, match="NaN"):
        CallableKernel(lambda a, b: np.full((len(a), len(b)), np.nan))(A, B)
    with pytest.raises(DataError, match="precomputed"):
        Precomputed()(A, B)


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_factor_of_a_singular_matrix_has_its_rank(seed, rank):
    F = np.random.default_rng(seed).standard_normal((9, rank))
    factor = gram_factor(F @ F.T)
    assert np.allclose(factor.L @ factor.L.T, F @ F.T, atol=1e-12 * np.linalg.norm(F) ** 2)
    assert factor.rank in (9, rank)
    assert factor.projector is None
    # Of a zero matrix one column is left.
    factor = gram_factor(np.zeros((3, 3)))
    assert (factor.rank, factor.L.shape) == (0, (3, 1))


def test_a_singular_matrix_with_rounding_of_other_programs_has_a_factor_in_units_of_the_rows():
    random = np.random.default_rng(0)
    F = random.normal(size=(40, 5)) * np.exp(random.normal(size=(40, 1)))
    noise = np.triu(random.uniform(-1e-13, 1e-13, (40, 40)))
    K = F @ F.T * (1.0 + noise + noise.T)
    factor = gram_factor(K)
    assert np.size(factor.unit) == 40
    assert np.allclose(factor.L @ factor.L.T, K, rtol=1e-9, atol=1e-11 * K.max())
    w = random.normal(size=(factor.L.shape[1], 2))
    assert np.allclose(factor.L.T @ factor.expansion(w), w, rtol=1e-9)
    assert np.allclose(factor.expansion(w[:, 0]), factor.expansion(w)[:, 0])


def test_indefinite_matrices_are_refused_or_clipped():
    K = np.diag([3.0, 1.0, -1.0])
    with pytest.raises(DataError, match=r"1 of 3 eigenvalues are negative.*indefinite='clip'"):
        gram_factor(K)
    clipped = gram_factor(K, indefinite="clip")
    assert clipped.clipped_mass == pytest.approx(0.2)
    assert np.allclose(clipped.L @ clipped.L.T, np.diag([3.0, 1.0, 0.0]))
    assert np.allclose(clipped.projector @ clipped.projector.T @ K, np.diag([3.0, 1.0, 0.0]))


@pytest.mark.parametrize(
    ("K", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[1.0, 2.0], [0.0, 1.0]]), "not symmetric"),
        # Pair by pair, and all digits are shown.
        (
            np.array([[1.0, 0.5, 0.0], [0.500002, 1.0, 0.0], [0.0, 0.0, 1e12]]),
            r"not symmetric: k\(x_0, x_1\) = 0.5 and k\(x_1, x_0\) = 0.500002;",
        ),
        (np.array([[np.nan, 0.0], [0.0, 1.0]]), "NaN"),
    ],
)
def test_matrices_that_are_no_gram_matrices(K, message):
    with pytest.raises(DataError, match=message):
        gram_factor(K)


def test_definiteness_is_tested_block_by_block():
    K = np.zeros((5, 5))
    K[:2, :2] = K[2:4, 2:4] = [[1.0, 3.0], [3.0, 1.0]]
    K[4, 4] = 1e16
    with pytest.raises(DataError, match="indefinite"):
        gram_factor(K)
    assert gram_factor(K, indefinite="clip").clipped_mass > 0


def test_an_indefinite_matrix_needs_no_factor_with_pivots(monkeypatch):
    monkeypatch.setattr("svmcvx.kernels.factor._pivoted", lambda K: pytest.fail("factored again"))
    K = np.array([[1.0, 0.0, 1e-3], [0.0, 1.0, 1.0], [1e-3, 1.0, 1.0]])
    assert definite_factor(K) is None
    assert definite_factor(np.diag([1.0, -1e-9])) is None
    monkeypatch.undo()
    # What rounding hides is singular.
    assert definite_factor(np.diag([1.0, -1e-17])).rank == 1


@pytest.mark.parametrize("rank", [2, 12, 50, 59, 60])
@pytest.mark.parametrize(("least", "definite"), [(0.0, True), (-1e-17, True), (-1e-9, False)])
def test_the_test_of_definiteness_agrees_with_the_factor(rank, least, definite):
    rng, n = np.random.default_rng(rank), 60
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    values = np.where(np.arange(n) < rank, rng.uniform(0.5, 2.0, n), 0.0)
    values[rank - 1] = least
    size = 10.0 ** rng.uniform(-6, 6, n)
    scaled = (Q * values) @ Q.T
    K = 0.5 * (scaled + scaled.T) * size * size[:, None]
    factor = definite_factor(K)
    assert is_definite(K) == (factor is not None) == definite
    if definite:
        # Roundings of one eigenvalue of 60 have either sign.
        assert factor.rank == rank - 1 or (factor.rank, rank) == (n, n)
        L = factor.L / size[:, None]
        assert np.allclose(L @ L.T, scaled, rtol=0.0, atol=1e-13)
        with_zeros = np.pad(K, (0, 8))
        assert is_definite(with_zeros)
        with_zeros[0, -1] = with_zeros[-1, 0] = 1e-3 * size[0]
        assert not is_definite(with_zeros)


def test_a_long_observation_hides_no_direction_of_the_others():
    short = (2 + 0.1 * np.arange(6))[:, None] * [1.0, -1.0]
    x = np.vstack([np.c_[short.ravel(), np.zeros(12)], [[0.0, 1e3]] * 2])
    K = Polynomial(degree=3, gamma=1.0)(x)
    L = gram_factor(K).L
    length = np.sqrt(np.diagonal(K))
    assert (np.abs(L @ L.T - K) <= 1e-10 * np.outer(length, length)).all()


# Products by tiles


@pytest.mark.parametrize("kernel", [RBF(0.4), Laplacian(0.4), Polynomial(2, 0.3, 1.0)])
def test_several_threads_give_the_same_product(kernel, monkeypatch):
    rng = np.random.default_rng(0)
    A, B, v = rng.standard_normal((90, 4)), rng.standard_normal((70, 4)), rng.standard_normal(70)
    columns = KernelColumns(kernel, A, B, tile_entries=200)
    alone, scores = columns.product(v), np.zeros(90)
    columns.add_product(scores, v)
    assert np.allclose(alone.scores, kernel(A, B) @ v, rtol=1e-12, atol=1e-12)
    assert np.allclose(scores, alone.scores, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr("svmcvx.kernels.columns.SHARED", 1)
    monkeypatch.setattr("svmcvx.system.threads.available_threads", lambda: 3)
    again = np.zeros(90)
    columns.add_product(again, v)
    assert np.array_equal(again, scores)
    for one, other in zip(alone, columns.product(v), strict=True):
        assert np.array_equal(one, other)


def test_close_pairs_in_single_precision_come_from_differences():
    rng = np.random.default_rng(1)
    far = 1e4 * rng.standard_normal((3, 5))
    A = np.repeat(far, 40, axis=0) + 1e-3 * rng.standard_normal((120, 5))
    kernel = RBF(1e5)
    exact = np.exp(-1e5 * ((A[:, None] - A[None, :]) ** 2).sum(axis=2))
    for entries in (60, 10_000):
        block = KernelColumns(kernel, A, A, np.float32, tile_entries=entries)(slice(None))
        assert np.allclose(block, exact, atol=1e-5)


def test_a_part_runs_in_the_context_of_its_caller(monkeypatch):
    monkeypatch.setattr("svmcvx.system.threads.available_threads", lambda: 2)
    done = []
    with np.errstate(over="raise"):
        threads.for_each_part(lambda part: done.append((part, np.geterr()["over"])), range(20))
    assert sorted(done) == [(part, "raise") for part in range(20)]

    def failing(part):
        if part == 3:
            raise ValueError("part 3")

    with pytest.raises(ValueError, match="part 3"):
        threads.for_each_part(failing, range(20))


# Rows of a kernel matrix that several problems share


LAYOUT = Layout([0, 4, 9, 15], [[0, 1], [0, 2], [1, 2], [2, -1]])


@numba.njit(cache=True)
def exponentials_of(x, scratch):
    exponentials(x, scratch)


@pytest.mark.parametrize("definite", [False, True])
def test_clipping_many_observations_gives_the_positive_part(definite):
    rows = np.random.default_rng(0).standard_normal((150, 40))
    K = rows @ rows.T if definite else Sigmoid(0.1, -1.0)(rows)
    values, vectors = np.linalg.eigh(K)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    factor = gram_factor(K, indefinite="clip")
    assert np.allclose(factor.L @ factor.L.T, positive, atol=1e-10 * values[-1])
    assert (factor.projector is None) == definite
    assert factor.rank == np.count_nonzero(values > 150 * 1e-14 * values[-1])


def test_exponentials_are_accurate_to_the_ulps_that_bounds_take_for_granted():
    rng = np.random.default_rng(0)
    halves = -np.log(2.0) * (np.arange(2000) / 2.0)[:, None]
    near_whole = halves + 1e-9 * rng.standard_normal((2000, 20))
    others = -(10.0 ** rng.uniform(-20, 2.85, 200_000)), [0.0, -0.0, -708.0, -707.999]
    x = np.concatenate([near_whole.ravel(), *others])
    x = x[(x <= 0.0) & (x >= -708.0)]
    found = x.copy()
    exponentials_of(found, np.empty_like(x))
    true = np.exp(x.astype(np.longdouble))
    assert np.abs((found - true) / np.spacing(true.astype(np.float64))).max() <= ULPS / 2
    below = np.array([-708.0001, -1e4, -1e300, -np.inf])
    exponentials_of(below, np.empty_like(below))
    assert ((below >= 0.0) & (below <= 1e-300)).all()


SHARED_KERNELS = [
    sx.RBF(0.3),
    sx.RBF(40.0),
    Linear(),
    Polynomial(3, gamma=0.2, coef0=1.0),
    Polynomial(6, gamma=0.2, coef0=1.0),
    Laplacian(0.4),
]


@pytest.mark.parametrize("kernel", SHARED_KERNELS, ids=str)
@pytest.mark.parametrize("columns", [3, MANY_COLUMNS])
@pytest.mark.parametrize("hostile", ["nothing", "offset", "outlier", "twins"])
def test_products_contain_those_in_higher_precision(kernel, columns, hostile):
    rng = np.random.default_rng(columns)
    X = rng.standard_normal((15, columns)) / np.sqrt(columns)
    X[8] = X[3] if hostile == "twins" else X[8]
    X = X + 1e6 if hostile == "offset" else X
    X[5] *= 1e8 if hostile == "outlier" else 1.0
    v = rng.standard_normal(LAYOUT.offsets[-1]) * (rng.random(LAYOUT.offsets[-1]) < 0.6)
    founds = []
    for before in (np.ones(v.size), np.arange(v.size) == 0):
        rows = ClassRows(kernel, X, LAYOUT.starts, room=15 * 15)
        rows.products(LAYOUT, before.astype(float))
        if not before.all() and rows.computed > 0.0:
            rows.complete(lambda: False)
            assert hostile == "outlier" or rows.computed > 14.0 / 15.0
        founds.append(rows.products(LAYOUT, v))
    wide = X.astype(np.longdouble)
    if isinstance(kernel, sx.RBF):
        K = np.exp(-np.longdouble(kernel.gamma) * ((wide[:, None] - wide) ** 2).sum(axis=2))
    elif isinstance(kernel, Laplacian):
        K = np.exp(-np.longdouble(kernel.gamma) * np.abs(wide[:, None] - wide).sum(axis=2))
    else:
        K = wide @ wide.T
        if isinstance(kernel, Polynomial):
            K = (np.longdouble(kernel.gamma) * K + 1.0) ** kernel.degree
    for found in founds:
        for part in range(LAYOUT.parts):
            own, at = LAYOUT.slices[part], LAYOUT.rows(part)
            exact = K[np.ix_(at, at)] @ v[own].astype(np.longdouble)
            assert (np.abs(found.value[own] - exact) <= found.error[own]).all()
        if hostile == "nothing":
            assert (found.error <= 1e-10 * (1.0 + np.abs(found.value))).all()


def test_what_is_left_to_other_methods():
    X = np.ones((15, 2))
    v = np.ones(LAYOUT.offsets[-1])
    assert ClassRows(sx.RBF(1.0), X, LAYOUT.starts, room=14).products(LAYOUT, v) is None
    assert ClassRows.takes(None, X, 1)
    assert ClassRows.takes(sx.RBF(1.0), X, 1)
    assert not ClassRows.takes(Laplacian(1.0), X, 15)
    assert not ClassRows.takes(None, 1e120 * X, 16)
    for kernel in (sx.RBF(1e200), sx.Sigmoid(1.0), Polynomial(3, gamma=1.0, coef0=-1.0)):
        assert not ClassRows.takes(kernel, X, 16)


def test_a_kernel_says_which_matrices_it_makes():
    X, gamma = np.random.default_rng(0).standard_normal((30, 4)), 0.3
    for name in catalogue.KERNELS[:-1]:
        for coef0 in (0.0, 1.0, -1.0):
            kernel = as_kernel(name, gamma=gamma, coef0=coef0)
            matrix, error = kernel.bounded_block(X, X)
            smallest = float(np.linalg.eigvalsh(matrix)[0])
            assert not kernel.definite or smallest > -1e-9 * abs(matrix).max()
            assert not kernel.positive or (matrix >= 0.0).all()
            assert not kernel.separable_error or error.entries is None
            if kernel.definite:
                assert (kernel.diagonal_above(X) >= np.diagonal(matrix)).all()
    indefinite = {sx.Sigmoid(gamma, -1.0), sx.Polynomial(2, gamma, -1.0)}
    assert not any(kernel.definite for kernel in (*indefinite, Precomputed()))
