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
from svmcvx.data import binary_data
from svmcvx.feature_space import feature_space
from svmcvx.formulations.margin_distribution import ODML, centred
from svmcvx.kernels.entry_error import CLOSEST, FAR
from tests.balls import ball, exact_kernel, precision

precise = precision(500)


def cloud(n=10, d=2, seed=0):
    rng = np.random.default_rng(seed)
    y = np.resize([-1, 1], n)
    return rng.standard_normal((n, d)) + 0.8 * y[:, None], y


# Regimes in which the estimates failed


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
