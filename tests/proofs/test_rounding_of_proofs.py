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
from svmcvx.proofs import balls as arithmetic_balls  # noqa: E402
from svmcvx.proofs import fingerprint  # noqa: E402
from svmcvx.proofs import problem as definiteness  # noqa: E402
from svmcvx.proofs.families import indicator, margin, multiclass  # noqa: E402
from svmcvx.proofs.intervals import Interval, products  # noqa: E402
from svmcvx.proofs.large import kernel_block  # noqa: E402
from svmcvx.proofs.predictions import Machine  # noqa: E402
from svmcvx.proofs.problem import Problem, ProofRejected  # noqa: E402
from svmcvx.proofs.search_tree import DROPPED, FREE, KEPT, _Tree  # noqa: E402
from tests import balls  # noqa: E402
from tests.balls import ball, total  # noqa: E402
from tests.conftest import make_data  # noqa: E402
from tests.proofs.test_search_proofs import INTEGERS, example  # noqa: E402

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
    found = products(
        sp.csr_array(A) if form == "sparse" else A, E if E.any() else 0.0, Interval(low, high)
    )
    for i, row in enumerate(A):
        ends = [
            [(fraction(x) + sign * fraction(e)) * fraction(v) for v in (a, b) for sign in (-1, 1)]
            for x, e, a, b in zip(row, E[i], low, high, strict=True)
        ]
        least, most = sum(map(min, ends)), sum(map(max, ends))
        sizes = sum(
            fraction(abs(x) * max(abs(a), abs(b))) for x, a, b in zip(row, low, high, strict=True)
        )
        # Sums in chunks, which are then added up; one after the other where the matrix is sparse.
        chunk = min(terms, max(32, math.isqrt(terms)))
        added = terms if form == "sparse" else chunk + (-(-terms // chunk) if terms > chunk else 0)
        assert fraction(found.low[i]) <= least
        assert most <= fraction(found.high[i])
        more = (fraction(found.high[i]) - most) + (least - fraction(found.low[i]))
        assert 2 * added * U * sizes * (1 - U) <= more + 2 * U * sizes
        assert more <= 2 * (added + 8) * U * sizes + (most - least) / 2**18 + Fraction(1, 2**900)


def test_products_of_nothing():
    found = products(np.zeros((2, 0)), 0.0, Interval.exactly(np.zeros(0)))
    assert abs(found.low).max() <= 1e-280
    assert abs(found.high).max() <= 1e-280


KERNELS = {
    "rbf": lambda k, x, z: (
        -k["gamma"] * total((a - b) ** 2 for a, b in zip(x, z, strict=True))
    ).exp(),
    "exponential": lambda k, x, z: (
        -k["gamma"] * total((a - b) ** 2 for a, b in zip(x, z, strict=True)).sqrt()
    ).exp(),
    "laplacian": lambda k, x, z: (
        -k["gamma"] * total(abs(a - b) for a, b in zip(x, z, strict=True))
    ).exp(),
    "polynomial": lambda k, x, z: (
        (k["gamma"] * total(a * b for a, b in zip(x, z, strict=True)) + k["coef0"]) ** k["degree"]
    ),
    "sigmoid": lambda k, x, z: (
        k["gamma"] * total(a * b for a, b in zip(x, z, strict=True)) + k["coef0"]
    ).tanh(),
}
LAST_PLACES = 16 * U


def off_in_theory(kernel, x, z):
    """What the theorems of rounding allow the entry of a kernel to be off by: eight units in the
    last place of each function of numpy.
    """
    name, d, gamma = kernel["name"], len(x), ball(kernel["gamma"])
    u = ball(float(U))
    if name in ("polynomial", "sigmoid"):
        sizes = total(abs(a * b) for a, b in zip(x, z, strict=True))
        inner, shift = (
            gamma * total(a * b for a, b in zip(x, z, strict=True)),
            ball(kernel["coef0"]),
        )
        error = d * u * gamma * sizes + u * abs(inner) + u * abs(inner + shift)
        if name == "sigmoid":
            return (1 - (abs(inner + shift)).tanh() ** 2) * error + 16 * u * abs(
                (inner + shift).tanh()
            )
        n, size = kernel["degree"], abs(inner + shift)
        return (size + error) ** n - size**n + 16 * u * (size + error) ** n
    if name == "laplacian" or d <= 32:
        terms = [
            abs(a - b) if name == "laplacian" else (a - b) ** 2 for a, b in zip(x, z, strict=True)
        ]
        distance = total(terms)
        error = (d - 1 + (1 if name == "laplacian" else 3)) * u * distance
    else:
        centre = [(a + b) / 2 for a, b in zip(x, z, strict=True)]
        distance = total((a - b) ** 2 for a, b in zip(x, z, strict=True))
        squares = total((a - c) ** 2 + (b - c) ** 2 for a, b, c in zip(x, z, centre, strict=True))
        error = (2 * d + 8) * u * squares
    if name == "exponential":
        root = distance.sqrt()
        error = (distance + error).sqrt() - root + u * root
        distance = root
    return (-gamma * distance).exp() * ((gamma * error + u * gamma * distance).exp() - 1 + 16 * u)


@pytest.mark.parametrize("columns", [3, 40])
@pytest.mark.parametrize("apart", [1.0, 2.0**-20, 0.0])
@pytest.mark.parametrize("name", KERNELS)
def test_entries_of_kernels_allow_for_their_rounding(name, apart, columns):
    rng = np.random.default_rng(columns)
    x = rng.normal(size=columns)
    z = x + apart * rng.normal(size=columns)
    if name in ("polynomial", "sigmoid"):
        # Nearly orthogonal rows, so that the error is that of large terms that cancel.
        x, z = np.append(x, 1.0), np.append(apart * 2.0**10 * rng.normal(size=columns), 0.0)
        z[-1] = -float(x[:-1] @ z[:-1]) + apart
    for kernel in (
        {"name": name, "gamma": 0.3, "coef0": 0.25, "degree": 3},
        {"name": name, "gamma": 2.0**-30, "coef0": 0.0, "degree": 1},
    ):
        value, error = kernel_block(kernel, x[None, :], z[None, :])
        exact = KERNELS[name](kernel, [ball(a) for a in x], [ball(a) for a in z])
        asked = off_in_theory(kernel, [ball(a) for a in x], [ball(a) for a in z])
        assert abs(ball(value.item()) - exact) <= ball(error.item())
        assert asked <= ball(error.item())
        if name != "sigmoid":
            assert ball(error.item()) <= 4 * asked + ball(1e-280)


def test_an_exponent_that_overflows_has_an_error_of_one():
    rows = np.full((1, 40), 2.0**80)
    value, error = kernel_block({"name": "rbf", "gamma": 1.0}, rows, rows + 2.0**30)
    assert value.item() + error.item() >= 1.0


def definite(K, error=0.0, n=None, name="precomputed"):
    K = np.asarray(K, dtype=float)
    problem = SimpleNamespace(
        kernel={"name": name, "coef0": -1.0},
        used=np.arange(len(K)),
        codes=np.zeros(len(K) if n is None else n),
    )
    return definiteness.proved_definite(
        problem,
        lambda rows, columns: (K[np.ix_(rows, columns)], np.full((rows.size, columns.size), error)),
    )


def test_a_matrix_is_definite_up_to_what_its_factorisation_may_round():
    u = float(U)
    rounding = 2 * (2 + 8) * u
    for below, error, tolerance in (
        (-0.5, 0.0, 0.0),
        (-2 * rounding, 0.0, 0.0),
        (0.0, 0.0, 2 * rounding),
        (0.5 * rounding, 0.0, 2 * rounding),
        (-2 * rounding, 2.0**-45, 2.0**-44 + 2 * rounding),
        (2.0**-40, 0.0, 2e-10),
    ):
        found = definite(4.0 * np.array([[1.0, 1.0 + below], [1.0 + below, 1.0]]), 4.0 * error, n=3)
        assert found.tolerance == pytest.approx(tolerance, rel=1e-9)
        assert Fraction(found.tolerance) >= max(Fraction(below) + 2 * 3 * U, 0)
        np.testing.assert_array_equal(found.diagonal, [4.0, 4.0, 0.0])
    with pytest.raises(ProofRejected, match="no eigenvalue below"):
        definite([[1.0, 1.0 + 2.0**-30], [1.0 + 2.0**-30, 1.0]])
    with pytest.raises(ProofRejected, match="too inexact"):
        definite(np.eye(2), 2.0**-30)
    with pytest.raises(ProofRejected, match="too inexact"):
        definite(np.eye(2), 2e-10)
    assert definite(np.eye(2), 0.9e-10).tolerance == 0.0


def test_the_influence_is_the_tolerance_times_the_diagonal():
    found = definiteness.Indefiniteness(2.0**-40, np.array([4.0, 9.0, 1.0]))
    value = found.influence(np.array([1, 0]), np.array([3.0, 0.5]))
    assert (
        Fraction(2) ** -40 * (81 + 1) <= value <= Fraction(2) ** -40 * 82 * (1 + Fraction(2, 10**6))
    )
    assert definiteness.DEFINITE.influence(np.array([0]), np.array([1.0])) == 0.0


def test_the_mean_of_a_matrix_and_its_transpose_is_rounded():
    K = np.array([[1.0, 0.3], [0.3 + 1e-16, 1.0]])
    mean, error = definiteness.precomputed_block(
        K, np.array([0, 1]), np.array([1]), symmetric=False
    )
    exact = (fraction(K[0, 1]) + fraction(K[1, 0])) / 2
    assert abs(fraction(mean[0, 0]) - exact) <= fraction(error[0, 0])
    assert U * exact <= fraction(error[0, 0]) <= 3 * U * exact
    first, error = definiteness.precomputed_block(
        K, np.array([0, 1]), np.array([1]), symmetric=True
    )
    np.testing.assert_array_equal(first, K[:, [1]])
    assert not error.any()


# Trees of one node: D is a formula of the multipliers.


def one_node(
    X, y, beta, *, formulation="zero_one", intercept="penalised", numbers, kernel=None, **arrays
):
    """What is proved by a tree of one node with these multipliers, below a large value."""
    statement = replace(
        example().statement,
        formulation=formulation,
        rows=len(X),
        columns=X.shape[1],
        intercept=intercept,
        kernel=kernel,
        hyperparameters=numbers,
        fingerprint=fingerprint(X, y),
    )
    tree = {"branch": [-1], "bounds": [1], "upper": [UPPER], "flip_count": [0], "flip_row": []}
    tree |= {"beta_count": [len(beta)], "beta_row": np.arange(len(beta)), "beta": beta, **arrays}
    tree = {
        name: np.array(values, dtype=np.int32 if name in (*INTEGERS, "side") else float)
        for name, values in tree.items()
    }
    model = (
        {"support": np.zeros(0, dtype=int), "dual_coef": np.zeros(0)}
        if kernel
        else {"coef": np.zeros(X.shape[1])}
    )
    model["intercept"] = np.array(0.0)
    found = sx.verify(
        replace(example(), statement=statement, model=model, tree=tree, lower=1e-9, upper=None),
        X,
        y,
    )
    assert found.holds, found.why
    return Fraction(found.lower)


UPPER = 10.0


def data_and_multipliers(n=300, balanced=False):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % 2 == 0, 1, 0)
    X = np.where(y == 1, 1.0, -1.0)[:, None] * (0.5 + 0.1 * rng.random((n, 3)))
    beta = rng.integers(1, 2**20, n) * 2.0**-20 / n
    if balanced:
        beta[1::2] = beta[::2]
    return X, y, beta


def exactly(X, y, beta, constant):
    """Σβ, ‖½Σβg‖² and the longest row, in fractions and doubles."""
    rows = np.column_stack([X, np.ones(len(X))]) if constant else X
    signs = [1 if label == 1 else -1 for label in y]
    b = [fraction(x) for x in beta]
    along = [
        sum(v * s * fraction(x) for v, s, x in zip(b, signs, column, strict=True))
        for column in rows.T
    ]
    return sum(b), sum(x * x for x in along) / 4, fraction(np.sqrt((rows * rows).sum(axis=1)).max())


@pytest.mark.parametrize("numbers", [{"lam": 1e3}, {"k": 2.0**-8}])
def test_a_bound_of_a_tree_allows_for_its_rounding(numbers):
    X, y, beta = data_and_multipliers()
    arrays = {"price": [64.0]} if "k" in numbers else {}
    lower = one_node(X, y, beta, numbers=numbers, **arrays)
    total, square, longest = exactly(X, y, beta, constant=True)
    paid = Fraction(64) * Fraction(2) ** -8 if "k" in numbers else 0
    # A sum of n numbers, and n terms in each coordinate of the combination.
    asked = len(X) * U * (total + square + paid + fraction(math.sqrt(square)) * total * longest)
    assert asked <= total - square - paid - lower <= Fraction(9, 4) * asked


@pytest.mark.parametrize("formulation", ["ramp", "l0"])
def test_a_bound_for_a_free_intercept_allows_for_the_balance(formulation):
    X, y, beta = data_and_multipliers(balanced=True)
    lower = one_node(
        X,
        y,
        beta,
        formulation=formulation,
        intercept="free",
        numbers={"C": 1e3},
        centre=np.zeros(3),
        side=[0],
        at=[0.0],
    )
    total, square, longest = exactly(X, y, beta, constant=False)
    reach = longest * fraction(math.sqrt(UPPER)) + (1 if formulation == "ramp" else -1)
    cut = 3 if formulation == "ramp" else 1
    asked = (
        len(X)
        * U
        * (total + square + fraction(math.sqrt(square)) * total * longest + total * reach)
    )
    assert asked / 2 <= total / 2 - square / 2 - lower <= Fraction(9, 4) * cut * asked / 2


def test_a_bound_with_a_kernel_allows_for_its_rounding():
    X, y, beta = data_and_multipliers(100)
    lower = one_node(X, y, beta, numbers={"lam": 1e3}, kernel={"name": "rbf", "gamma": 0.5})
    signed = [ball(v if label == 1 else -v) for v, label in zip(beta, y, strict=True)]
    rows = [[ball(x) for x in row] for row in X]
    square = (
        total(
            v * w * (KERNELS["rbf"]({"gamma": 0.5}, x, z) + 1)
            for v, x in zip(signed, rows, strict=True)
            for w, z in zip(signed, rows, strict=True)
        )
        / 4
    )
    mass = total(ball(v) for v in beta)
    # Entries of K + 1 have a last place of 2; n terms are added twice.
    asked = ball(float(len(X) * U)) * (mass + square + mass * mass / 2)
    off = mass - square - ball(float(lower))
    assert asked <= off
    assert off <= 4 * asked


def test_the_least_of_some_balls_holds_the_least_of_their_numbers():
    found = arithmetic_balls.least([flint.arb(2, 1), flint.arb(1.55, 0.04)])
    assert found.lower() <= 1
    assert found.upper() <= 1.6


def test_a_radius_computed_in_doubles_is_enlarged():
    found = Interval.around(np.zeros(1), np.ones(1))
    assert found.high[0] >= 1.0 + 2.0**-48
    assert found.low[0] <= -1.0 - 2.0**-48


def test_a_kernel_is_symmetric_only_if_all_its_entries_are():
    K = np.eye(3)
    K[0, 1] = K[1, 0] = 0.5
    problem = SimpleNamespace(X=K, used=np.arange(3))
    assert definiteness.is_symmetric(problem)
    K[0, 1] = math.nextafter(0.5, 1.0)
    assert not definiteness.is_symmetric(problem)


def test_a_model_with_margins_just_below_one_costs_more():
    statement = SimpleNamespace(M=None)
    space = SimpleNamespace(
        problem=SimpleNamespace(proof=SimpleNamespace(statement=statement)),
        margins=[flint.arb(1) - flint.arb(2) ** -40],
        model=SimpleNamespace(norm=flint.arb(1)),
    )
    price = indicator._best(space, lambda norm, kept: norm if all(kept) else flint.arb(9))
    assert price >= 1 + flint.arb(2) ** -40


def test_sizes_above_a_bound_are_brought_to_it():
    assert multiclass.fitting_factor(flint.arb(1), [flint.arb(2), flint.arb(0.5)]) <= 0.5
    assert multiclass.fitting_factor(flint.arb(1), [flint.arb(0.5)]) == 1


def test_a_power_of_nothing_but_rounding_is_enclosed():
    kernel = {"name": "polynomial", "degree": 2, "gamma": 0.1, "coef0": -0.3}
    value, radius = kernel_block(kernel, np.array([[1.0]]), np.array([[3.0]]))
    exact = (fraction(0.1) * 3 + fraction(-0.3)) ** 2
    assert abs(fraction(value[0, 0]) - exact) <= fraction(radius[0, 0])


def test_multipliers_out_of_balance_by_one_are_refused():
    with pytest.raises(ProofRejected, match="y'α = 0"):
        margin.balanced(
            SimpleNamespace(signs=np.array([1.0, -1.0])), Interval.exactly(np.array([2.0, 1.0]))
        )


@pytest.mark.parametrize("free", [False, True])
def test_a_ball_decides_no_row_whose_margin_may_be_on_the_other_side(free):
    rng = np.random.default_rng(0)
    n = 40
    for _ in range(40):
        length, along, spread = rng.uniform(1, 9, n), rng.normal(size=n), rng.uniform(0, 1, n)
        radius, b = rng.uniform(10, 99), rng.normal() * 99
        rows = SimpleNamespace(
            length=length, free=free, signs=np.where(rng.random(n) < 0.5, -1.0, 1.0)
        )
        for i in range(3):
            centre = 1 - fraction(along[i]) - (fraction(rows.signs[i]) * fraction(b) if free else 0)
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


def test_multipliers_with_flows_that_are_a_little_too_long_prove_no_more():
    rng = np.random.default_rng(0)
    X, y = (
        np.vstack([0.3 * rng.normal(size=(6, 2)) + c for c in ([0, 3], [3, 0], [-3, -3])]),
        np.repeat([0, 1, 2], 6),
    )
    proof = sx.solve(sx.m3svm_hard_margin(X, y, p=1), solver="clarabel").proof(X, y)
    longer = replace(
        proof, dual={name: values * (1 + 2.0**-42) for name, values in proof.dual.items()}
    )
    assert sx.verify(longer, X, y).lower <= sx.verify(proof, X, y).lower * (1 + 2.0**-44)
    # What the rounding of large rows leaves may lengthen flows that are short enough themselves.
    rest = replace(proof, dual={**proof.dual, "alpha": proof.dual["alpha"] * (1 + 2.0**-30)})
    found = sx.verify(rest, X, y)
    assert (1 - 2.0**-28) * proof.lower <= found.lower <= found.upper


def test_scores_of_the_distribution_machine_are_proved_with_its_own_caps():
    X, y = make_data(0, n=20)
    proof = sx.fast.odml(X, y, C=0.7, lam1=1.0, lam2=1.0).proof()
    machine = Machine(Problem(proof, X, (y > 0).astype(np.intp)))
    assert machine.up + machine.down == pytest.approx(np.full(20, 0.7 / 20))


def test_the_ball_of_optimal_machines_holds_theirs_whatever_the_intercept_of_the_model():
    X, y = make_data(0, n=20)
    proof = sx.fast.psvm(X, y, C=1e-4, p=2.0, intercept="penalised").proof()
    moved = replace(proof, model={**proof.model, "intercept": proof.model["intercept"] + 0.5})
    machine = Machine(Problem(moved, X, (y > 0).astype(np.intp)))
    # The centre is half as far from the optimum as the model.
    assert machine.squared_radius >= 0.25**2 * (1.0 - 1e-3)
