"""The second checker's bounds on rounding: what a theorem of rounding asks for, in fractions and
balls, and little more.
"""

import math
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

flint = pytest.importorskip("flint")

import svmcvx as sx  # noqa: E402
from svmcvx.proofs import Statement, fingerprint, indicator, margin, multiclass, space  # noqa: E402
from svmcvx.proofs.balls import Balls  # noqa: E402
from svmcvx.proofs.intervals import Interval  # noqa: E402
from svmcvx.proofs.predictions import Machine  # noqa: E402
from svmcvx.proofs.problem import Problem, ProofRejected  # noqa: E402
from svmcvx.proofs.search_tree import DROPPED, FREE, KEPT, _Tree  # noqa: E402
from svmcvx.proofs.statement import dtype_of  # noqa: E402
from tests import balls  # noqa: E402
from tests.balls import ball, exact_kernel, total  # noqa: E402
from tests.conftest import make_data  # noqa: E402
from tests.proofs.test_search_proofs import example  # noqa: E402

precise = balls.precision(300)
U = Fraction(1, 2**53)


def fraction(x):
    return Fraction(float(x))


@pytest.mark.parametrize("terms", [1, 31, 200])
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("form", ["dense", "sparse", "with errors"])
def test_products_allow_for_every_sum_and_radius(terms, wide, form):
    rng = np.random.default_rng(terms)
    A, low = rng.normal(size=(2, terms)), rng.normal(size=terms)
    A[1, 1::3] = 0.0
    high = low + rng.uniform(0.0, 2.0**-40, terms) if wide else low
    E = 2.0**-45 * np.abs(A) if form == "with errors" else np.zeros_like(A)
    matrix = {"dense": A, "sparse": sp.csr_array(A), "with errors": (A, E)}[form]
    found = Interval.times(matrix, Interval(low, high))
    for i, row in enumerate(A):
        ends = [
            [(fraction(x) + sign * fraction(e)) * fraction(v) for v in (a, b) for sign in (-1, 1)]
            for x, e, a, b in zip(row, E[i], low, high, strict=True)
        ]
        least, most = sum(map(min, ends)), sum(map(max, ends))
        sizes = sum(map(fraction, abs(row) * np.maximum(abs(low), abs(high))))
        # Sums in chunks, which are then added up; one after the other where the matrix is sparse.
        chunk = min(terms, max(32, math.isqrt(terms)))
        added = terms if form == "sparse" else chunk + (-(-terms // chunk) if terms > chunk else 0)
        assert fraction(found.low[i]) <= least
        assert most <= fraction(found.high[i])
        more = (fraction(found.high[i]) - most) + (least - fraction(found.low[i]))
        assert 2 * added * U * sizes * (1 - U) <= more + 2 * U * sizes
        assert more <= 2 * (added + 8) * U * sizes + (most - least) / 2**18 + Fraction(1, 2**900)


def off_in_theory(kernel, x, z):
    """The error that theorems of rounding allow to the entry of a kernel: eight units in the last
    place of each function of numpy.
    """
    name, d, gamma, u = kernel.name, len(x), ball(kernel.gamma), ball(float(U))
    x, z = [ball(a) for a in x], [ball(a) for a in z]
    pairs = list(zip(x, z, strict=True))
    if name in ("polynomial", "sigmoid"):
        inner = gamma * total(a * b for a, b in pairs)
        argument = abs(inner + ball(kernel.coef0))
        error = d * u * gamma * total(abs(a * b) for a, b in pairs) + u * abs(inner) + u * argument
        if name == "sigmoid":
            return (1 - argument.tanh() ** 2) * error + 16 * u * argument.tanh()
        n = kernel.degree
        return (argument + error) ** n - argument**n + 16 * u * (argument + error) ** n
    distance = total(abs(a - b) if name == "laplacian" else (a - b) ** 2 for a, b in pairs)
    error = (d + 2 - 2 * (name == "laplacian")) * u * distance
    if name != "laplacian" and d > 32:
        # Squares of both rows seen from the point between them.
        error = (2 * d + 8) * u * distance / 2
    if name == "exponential":
        root = distance.sqrt()
        error, distance = (distance + error).sqrt() - root + u * root, root
    return (-gamma * distance).exp() * ((gamma * error + u * gamma * distance).exp() - 1 + 16 * u)


@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("apart", [1.0, 2.0**-20, 0.0])
@pytest.mark.parametrize("name", ["RBF", "Exponential", "Laplacian", "Polynomial", "Sigmoid"])
def test_entries_of_kernels_allow_for_their_rounding(name, apart, columns):
    rng = np.random.default_rng(columns)
    x = rng.normal(size=columns)
    z = x + apart * rng.normal(size=columns)
    if name in ("Polynomial", "Sigmoid"):
        # Nearly orthogonal rows, so that the error is that of large terms that cancel.
        x, z = np.append(x, 1.0), np.append(apart * 2.0**10 * rng.normal(size=columns), 0.0)
        z[-1] = -float(x[:-1] @ z[:-1]) + apart
    for gamma, coef0, degree in ((0.3, 0.25, 3), (2.0**-30, 0.0, 1)):
        more = {"coef0": coef0} if name in ("Polynomial", "Sigmoid") else {}
        more |= {"degree": degree} if name == "Polynomial" else {}
        kernel = getattr(sx, name)(gamma=gamma, **more)
        value, error = Interval.kernel(kernel.to_dict(), x[None, :], z[None, :])
        asked, exact = off_in_theory(kernel, x, z), exact_kernel(kernel, x, z)
        assert abs(ball(value.item()) - exact) <= ball(error.item())
        assert asked <= ball(error.item())
        if name != "Sigmoid":
            assert ball(error.item()) <= 4 * asked + ball(1e-280)
        entry = Balls.kernel(kernel.to_dict(), x[None, :], z[None, :])[0, 0]
        assert abs(entry - exact) <= ball(1e-80)


def test_an_exponent_that_overflows_has_an_error_of_one():
    rows = np.full((1, 40), 2.0**80)
    value, error = Interval.kernel({"name": "rbf", "gamma": 1.0}, rows, rows + 2.0**30)
    assert value.item() + error.item() >= 1.0


def definite(K, error=0.0, n=None):
    K = np.asarray(K, dtype=float)
    problem = SimpleNamespace(
        kernel={"name": "precomputed"},
        used=np.arange(len(K)),
        codes=np.zeros(len(K) if n is None else n),
    )
    return space.proved_definite(
        problem,
        lambda rows, columns: (K[np.ix_(rows, columns)], np.full((rows.size, columns.size), error)),
    )


def test_a_matrix_is_definite_up_to_what_its_factorisation_may_round():
    rounding = 2 * (2 + 8) * float(U)
    for below, error, wanted in (
        (-0.5, 0.0, 0.0),
        (-2 * rounding, 0.0, 0.0),
        (0.0, 0.0, 2 * rounding),
        (0.5 * rounding, 0.0, 2 * rounding),
        (-2 * rounding, 2.0**-45, 2.0**-44 + 2 * rounding),
        (2.0**-40, 0.0, 2e-10),
    ):
        K = 4.0 * np.array([[1.0, 1.0 + below], [1.0 + below, 1.0]])
        tolerance, diagonal = definite(K, 4.0 * error, n=3)
        assert tolerance == pytest.approx(wanted, rel=1e-9)
        assert Fraction(tolerance) >= max(Fraction(below) + 2 * 3 * U, 0)
        np.testing.assert_array_equal(diagonal, [4.0, 4.0, 0.0])
    with pytest.raises(ProofRejected, match="no eigenvalue below"):
        definite([[1.0, 1.0 + 2.0**-30], [1.0 + 2.0**-30, 1.0]])
    for error in (2.0**-30, 2e-10):
        with pytest.raises(ProofRejected, match="too inexact"):
            definite(np.eye(2), error)
    assert definite(np.eye(2), 0.9e-10)[0] == 0.0
    value = space.influence(2.0**-40, np.array([9.0, 4.0]), np.array([3.0, 0.5]))
    assert Fraction(2) ** -40 * 82 <= value <= Fraction(2) ** -40 * 82 * (1 + Fraction(2, 10**6))


def test_the_mean_of_a_matrix_and_its_transpose_is_rounded():
    K = np.array([[1.0, 0.3], [0.3 + 1e-16, 1.0]])
    given = {"name": "precomputed"}
    mean, error = Interval.kernel(given, K, K.T)
    exact = (fraction(K[0, 1]) + fraction(K[1, 0])) / 2
    assert abs(fraction(mean[0, 1]) - exact) <= fraction(error[0, 1])
    assert U * exact <= fraction(error[0, 1]) <= 3 * U * exact
    assert not Interval.kernel(given, K, K)[1].any()


# Trees of one node: D is a formula of the multipliers.

UPPER = 10.0


def one_node(X, y, beta, *, formulation, intercept, numbers, kernel=None, **arrays):
    """The bound by a tree of one node with these multipliers, below a large value."""
    n, d = X.shape
    name = fingerprint(X, y)
    statement = Statement(formulation, numbers, kernel, intercept, n, d, (0, 1), name)
    tree = {"branch": [-1], "bounds": [1], "upper": [UPPER], "flip_count": [0], "flip_row": []}
    tree |= {"beta_count": [len(beta)], "beta_row": np.arange(len(beta)), "beta": beta, **arrays}
    tree = {name: np.array(values, dtype_of(f"tree.{name}")) for name, values in tree.items()}
    model = {"coef": np.zeros(X.shape[1]), "intercept": 0.0}
    if kernel:
        model = {"support": np.zeros(0, dtype=int), "dual_coef": np.zeros(0), "intercept": 0.0}
    proof = replace(example(), statement=statement, model=model, tree=tree, lower=1e-9, upper=None)
    found = sx.verify(proof, X, y)
    assert found.holds, found.why
    return Fraction(found.lower)


ONE_NODES = {
    "lam": ("zero_one", "penalised", {"lam": 1e3}, {}),
    "a budget": ("zero_one", "penalised", {"k": 2.0**-8}, {"price": [64.0]}),
    "ramp": ("ramp", "free", {"C": 1e3}, {"centre": np.zeros(3), "side": [0], "at": [0.0]}),
    "l0": ("l0", "free", {"C": 1e3}, {"centre": np.zeros(3), "side": [0], "at": [0.0]}),
    "a kernel": ("zero_one", "penalised", {"lam": 1e3}, {}),
}


@pytest.mark.parametrize("name", ONE_NODES)
def test_a_bound_of_a_tree_allows_for_its_rounding(name):
    formulation, intercept, numbers, arrays = ONE_NODES[name]
    n, rng, free = 100 if name == "a kernel" else 300, np.random.default_rng(0), intercept == "free"
    y = np.where(np.arange(n) % 2 == 0, 1, 0)
    X = np.where(y == 1, 1.0, -1.0)[:, None] * (0.5 + 0.1 * rng.random((n, 3)))
    beta = rng.integers(1, 2**20, n) * 2.0**-20 / n
    if free:
        beta[1::2] = beta[::2]
    kernel = {"name": "rbf", "gamma": 0.5} if name == "a kernel" else None
    lower = one_node(
        X, y, beta, formulation=formulation, intercept=intercept, numbers=numbers, kernel=kernel,
        **arrays,
    )  # fmt: skip
    signs, mass = np.where(y == 1, 1, -1), sum(map(fraction, beta))
    rows = X if free else np.column_stack([X, np.ones(n)])
    if kernel is None:
        along = [sum(map(fraction, beta * signs * column)) for column in rows.T]
        square = sum(x * x for x in along) / 4
        longest = fraction(np.sqrt((rows * rows).sum(axis=1)).max())
        blur = fraction(math.sqrt(square)) * longest
    else:
        v = Balls.exactly(beta * signs)
        exact = (v * Balls.times(Balls.kernel(kernel, X, X), v)).sum() + v.sum() * v.sum()
        # Entries of K + 1 have a last place of 2; n terms are added twice.
        square, blur = fraction(exact.middle) / 4, mass / 2
    paid = Fraction(64) * Fraction(2) ** -8 if "k" in numbers else 0
    # A sum of n numbers, and n terms in each coordinate of the combination.
    asked = n * U * (mass + square + paid + blur * mass)
    if free:
        reach = longest * fraction(math.sqrt(UPPER)) + (1 if formulation == "ramp" else -1)
        asked += n * U * mass * reach
    off = mass - square - paid - lower * (2 if free else 1)
    most = {"ramp": Fraction(27, 4), "a kernel": 4}.get(name, Fraction(9, 4))
    assert asked <= off <= most * asked


@pytest.mark.parametrize("free", [False, True])
def test_a_ball_decides_no_row_whose_margin_may_be_on_the_other_side(free):
    rng = np.random.default_rng(0)
    n = 40
    for _ in range(20):
        length, along, spread = rng.uniform(1, 9, n), rng.normal(size=n), rng.uniform(0, 1, n)
        radius, b = rng.uniform(10, 99), rng.normal() * 99
        signs = np.where(rng.random(n) < 0.5, -1.0, 1.0)
        rows = SimpleNamespace(length=length, free=free, signs=signs)
        for i in range(3):
            centre = 1 - fraction(along[i]) - (fraction(signs[i]) * fraction(b) if free else 0)
            reach = fraction(length[i]) * fraction(radius) + fraction(spread[i])
            for end, wrong, way in (
                (centre + reach, KEPT, -math.inf),
                (centre - reach, DROPPED, math.inf),
            ):
                rows.cut = float(end)
                while (fraction(rows.cut) >= end) if wrong == KEPT else (fraction(rows.cut) < end):
                    rows.cut = math.nextafter(rows.cut, way)
                node = SimpleNamespace(state=np.full(n, FREE), M=np.full(n, np.inf), low=b, high=b)
                _Tree._tighten(rows, node, radius, SimpleNamespace(along=along, spread=spread))
                assert node.state[i] != wrong


# Ends that rounding moves the safe way.


def test_ends_hold_what_they_enclose():
    found = Balls([flint.arb(2, 1), flint.arb(1.55, 0.04)]).least().ball
    assert found.lower() <= 1
    assert found.upper() <= 1.6
    around = Interval.around(np.zeros(1), np.ones(1))
    assert around.high[0] >= 1.0 + 2.0**-48
    assert around.low[0] <= -1.0 - 2.0**-48
    assert multiclass.fitting(1.0, Balls([flint.arb(2), flint.arb(0.5)])).values.tolist() == [
        0.5,
        1,
    ]
    with pytest.raises(ProofRejected, match="y'α = 0"):
        margin.balanced(np.array([1.0, -1.0]), Interval.exactly(np.array([2.0, 1.0])))
    # A model with margins just below 1 costs more than it says.
    almost = SimpleNamespace(u=Balls([flint.arb(1) - flint.arb(2) ** -40]))
    price = indicator.best(
        almost,
        lambda divisor, kept: Balls.exactly(1.0) / divisor if kept.all() else Balls(flint.arb(9)),
    )
    assert price.ball >= 1 + flint.arb(2) ** -40


def test_multipliers_with_flows_that_are_a_little_too_long_prove_no_more():
    rng = np.random.default_rng(0)
    X, y = (
        np.vstack([0.3 * rng.normal(size=(6, 2)) + c for c in ([0, 3], [3, 0], [-3, -3])]),
        np.repeat([0, 1, 2], 6),
    )
    proof = sx.solve(sx.m3svm_hard_margin(X, y, p=1), solver="clarabel").proof()
    longer = {name: values * (1 + 2.0**-42) for name, values in proof.dual.items()}
    found = sx.verify(replace(proof, dual=longer), X, y)
    assert found.lower <= sx.verify(proof, X, y).lower * (1 + 2.0**-44)
    # A rest from the rounding of large rows may lengthen flows that are short enough themselves.
    rest = replace(proof, dual={**proof.dual, "alpha": proof.dual["alpha"] * (1 + 2.0**-30)})
    found = sx.verify(rest, X, y)
    assert (1 - 2.0**-28) * proof.lower <= found.lower <= found.upper


def test_machines_of_scores_have_their_own_caps_and_intercepts():
    X, y = make_data(0, n=20)
    codes = (y > 0).astype(np.intp)
    machine = Machine(Problem(sx.fast.odml(X, y, C=0.7, lam1=1.0, lam2=1.0).proof(), X, codes))
    assert machine.up + machine.down == pytest.approx(np.full(20, 0.7 / 20))
    proof = sx.fast.psvm(X, y, C=1e-4, p=2.0, intercept="penalised").proof()
    moved = replace(proof, model={**proof.model, "intercept": proof.model["intercept"] + 0.5})
    # The centre is half as far from the optimum as the model.
    assert Machine(Problem(moved, X, codes)).squared_radius >= 0.25**2 * (1.0 - 1e-3)
