"""The table of root bounds, against the relaxations and the program written in cvxpy anew."""

import cvxpy as cp
import numpy as np
import pytest

import svmcvx as sx
from svmcvx.system import clock
from tests.fast.test_partition import exact_blocks
from tests.system.test_deadline import Ticking

X, Y = sx.synthetic.outlier_data(14, 2, sigma=0.6, outliers="spread", seed=4)
ROWS = Y[:, None] * np.column_stack([X, np.ones(len(Y))])
WEIGHT = np.resize([1.0, 2.0, 0.5], len(Y))
COLUMNS = ["hinge", "big_m", "perspective", "conic"]


def program(lam, M, integer):
    w, z = cp.Variable(3), cp.Variable(len(Y), boolean=integer)
    value = cp.sum_squares(w) + lam * WEIGHT @ z
    problem = cp.Problem(cp.Minimize(value), [ROWS @ w >= 1 - cp.multiply(M, z), z >= 0, z <= 1])
    return problem.solve(solver="SCIP" if integer else "CLARABEL")


def conic(lam):
    """[CepedaGomezHan], Theorem 2, with an indicator for each side of 1."""
    w, z = cp.Variable(3), cp.Variable(len(Y))
    L = cp.Variable((4, 4), PSD=True)
    rows = [L[0, 0] == 1, L[0, 1:] == w, z >= 0, z <= 1]
    for i, g in enumerate(ROWS):
        u = g @ w
        a, c = cp.Variable(nonneg=True), cp.Variable(nonneg=True)
        moment = g @ L[1:, 1:] @ g - 2 * u + 1
        cost = cp.quad_over_lin(a, z[i]) + cp.quad_over_lin(c, 1 - z[i])
        rows += [a - c == 1 - u, moment >= cost]
    value = cp.trace(L[1:, 1:]) + lam * WEIGHT @ z
    return cp.Problem(cp.Minimize(value), rows).solve(solver="CLARABEL")


def perspective(lam):
    """The least of ‖w‖² and the concave sides of the losses, one chord for each fixed z."""
    gamma = WEIGHT / np.sum(ROWS**2, axis=1)
    gamma /= np.linalg.eigvalsh((ROWS * gamma[:, None]).T @ ROWS)[-1] * (1 + 1e-6)
    w, z = cp.Variable(3), cp.Variable(len(Y))
    a, c = (cp.Variable(len(Y), nonneg=True) for _ in range(2))
    root = np.linalg.cholesky(np.eye(3) - (ROWS * gamma[:, None]).T @ ROWS + 1e-12 * np.eye(3))
    value = cp.sum_squares(root.T @ w) + 2 * gamma @ ROWS @ w - gamma.sum() + lam * WEIGHT @ z
    for i in range(len(Y)):
        value += gamma[i] * (cp.quad_over_lin(a[i], z[i]) + cp.quad_over_lin(c[i], 1 - z[i]))
    rows = [a - c == 1 - ROWS @ w, z >= 0, z <= 1]
    return cp.Problem(cp.Minimize(value), rows).solve(solver="CLARABEL")


def test_every_column_is_the_value_of_its_relaxation():
    prices = [0.5, 3.0]
    table = sx.relaxation_gaps(X, Y, lam=prices, sample_weight=WEIGHT)
    assert table.index.tolist() == prices
    for lam, row in table.iterrows():
        # A point of value U has ‖w‖² ≤ U.
        far = 1 + np.linalg.norm(ROWS, axis=1) * np.sqrt(row["optimum"])
        assert program(lam, far, True) == pytest.approx(row["optimum"], rel=1e-4)
        assert row["at_least"] == pytest.approx(row["optimum"], rel=1e-5)
        best = sx.fast.zero_one(X, Y, lam=lam, sample_weight=WEIGHT)
        built = sx.zero_one_mio(X, Y, lam=lam, sample_weight=WEIGHT, incumbent=best)
        values = {
            "big_m": program(lam, built.M, False),
            "hinge": program(lam, built.M.max(), False),
            "perspective": perspective(lam),
            "conic": conic(lam),
        }
        blocks = sx.fast.zero_one(
            X, Y, lam=lam, sample_weight=WEIGHT, method="partition", max_iter=4
        )
        # Blocks end at a gap of 1e-4.
        exact = exact_blocks(X, Y, WEIGHT, "0-1", blocks.proof(), lam)
        assert row["partition"] <= exact
        values["partition"] = float(exact)
        for name, value in values.items():
            assert row[name] == pytest.approx(value, rel=1e-4), name
            assert row[name] <= row["optimum"]
            gap = 100 * (row["optimum"] - row[name]) / row["optimum"]
            assert row[f"{name}_gap"] == pytest.approx(gap)
        assert row["hinge"] < row["big_m"]
        assert row["perspective"] < row["conic"]


def test_separable_data_have_no_gap():
    apart = X + 9.0 * Y[:, None]
    row = sx.relaxation_gaps(apart, Y, lam=1e3, intercept=False).iloc[0]
    np.testing.assert_allclose(row[COLUMNS[:2]].astype(float), row["optimum"], rtol=1e-6)


def test_a_kernel_and_its_gram_matrix_have_the_same_bounds():
    kernel = sx.RBF(0.5)
    one = sx.relaxation_gaps(X, Y, kernel=kernel)
    other = sx.relaxation_gaps(kernel(X), Y, kernel="precomputed")
    np.testing.assert_allclose(one[COLUMNS], other[COLUMNS], rtol=1e-4)
    assert one["partition"].isna().all()


def test_bounds_hold_at_a_time_limit():
    A, labels = sx.synthetic.outlier_data(150, 6, sigma=1.0, outliers="spread", seed=1)
    with clock.substituted(Ticking(50)):
        row = sx.relaxation_gaps(A, labels, lam=5.0, time_limit=60.0).iloc[0]
    assert row["at_least"] <= row["optimum"]
    assert (row[[*COLUMNS, "partition"]] <= row["optimum"]).all()


@pytest.mark.parametrize("lam", [0.0, [1.0, -1.0], "one"])
def test_a_wrong_price_is_named(lam):
    with pytest.raises(sx.DataError, match="lam must be"):
        sx.relaxation_gaps(X, Y, lam=lam)
