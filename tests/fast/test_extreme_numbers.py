"""Searches on numbers at the ends of double precision: an interval, or an error of the package."""

import math

import numpy as np
import pytest

import svmcvx as sx

CALLS = {"l0": "C", "ramp": "C", "zero_one": "lam"}


def extreme(seed):
    """Draw rows, labels, a price, weights and a kernel, some of them out of any usual range."""
    rng = np.random.default_rng(seed)

    def far(*size):
        return 10.0 ** rng.uniform(-300, 300, *size)

    n, d = int(rng.choice([2, 3, 5, 8])), int(rng.integers(1, 4))
    X = rng.standard_normal((n, d))
    y = np.where(rng.random(n) < 0.5, 1, -1)
    y[:2] = 1, -1
    match seed % 6:
        case 0:
            X *= far()
        case 1:
            X *= far(d)
        case 2:
            X[rng.integers(n)] *= 5e-324
        case 3:
            X = np.round(X)[rng.integers(n, size=n)]
        case 4:
            X *= 1e-310
    price = float(rng.choice([1.0, far(), 1e-300, 1e300]))
    weight = [None, far(n), rng.choice([0.0, 1.0, 1e300], n)][int(rng.integers(3))]
    kernel = [None, None, "rbf"][int(rng.integers(3))]
    return np.clip(X, -1e308, 1e308), y, price, {"sample_weight": weight, "kernel": kernel}


@pytest.mark.parametrize("call", CALLS)
def test_numbers_of_any_size_give_an_interval_or_an_error_of_the_package(call):
    answered = 0
    for seed in range(24):
        X, y, price, more = extreme(seed)
        try:
            found = getattr(sx.fast, call)(X, y, max_iter=1, **{CALLS[call]: price}, **more)
        except sx.SvmcvxError:
            continue
        answered += 1
        certificate = found.certificate
        assert 0.0 <= certificate.lower <= certificate.upper < math.inf
        assert found.status != "optimal" or certificate.gap <= 1e-6
    assert answered > 4


@pytest.mark.parametrize("call", CALLS)
def test_prices_that_overflow_in_the_units_of_the_rows_are_refused_by_name(call):
    X, y = np.array([[1.0], [-2.0], [3.0]]) * 1e120, [1, -1, 1]
    with pytest.raises(sx.DataError, match=r"divide X by [0-9]e.120, or lower"):
        getattr(sx.fast, call)(X, y, **{CALLS[call]: 1e80})


def test_fractions_beyond_the_range_of_doubles_are_no_points():
    """A leaf that is solved in fractions has coordinates above 1e308."""
    X = np.array([[1e-200, 1.0], [3e-200, 1.0], [1.0, 1.0]])
    found = sx.fast.zero_one(X, [1, -1, 1], lam=5e40, intercept=False).certificate
    assert 0.0 <= found.lower <= found.upper


FAR = 1e15 + np.array(
    [[1.2, 0], [-1.4, 0], [0.5, 1.2], [1.9, -1.4], [-0.6, -0.1], [0.9, -0.1], [-0.6, -0.2], [-1.2,
    -0.6]]
)  # fmt: skip
COLUMNS = np.array(
    [[-2.8, -2.2, 3.4], [-0.3, -2.4, -1.2], [-0.6, -2.5, 5.6], [-9.0, 0.4, 6.0], [4.7, 1.4, 9.3],
    [5.5, 0.0, -4.3]]
)  # fmt: skip
HUGE_PRICES = {
    # The multipliers of a point of least norm cancel in more digits than two doubles have.
    "cancelled multipliers": ("zero_one", FAR, [0, 1, 0, 0, 1, 1, 1, 1], {"lam": 1e75}),
    # They are beyond the range of doubles.
    "columns of any length": (
        *("zero_one", COLUMNS * [1e-18, 1e-38, 1e109], [0, 1, 1, 0, 1, 0]),
        {"lam": 4.9e28},
    ),
    # The search proves no more than that no objective is negative.
    "nothing proved": (
        *("zero_one", np.ones((4, 3)), [0, 1, 0, 1]),
        {"lam": 1e76, "kernel": sx.Polynomial(31, 436.0, 1.0)},
    ),
    "rows of zeros": ("ramp", np.ones((3, 2)), [0, 1, 1], {"C": 4e285}),
    "a price near underflow": ("ramp", np.full((3, 1), 0.463), [0, 1, 1], {"C": 2e-265}),
    "a local minimum": ("l0", FAR, [0, 1, 0, 0, 1, 1, 1, 1], {"C": 1.0, "method": "local"}),
}


@pytest.mark.parametrize("case", HUGE_PRICES)
def test_proofs_claim_what_the_second_checker_proves(case):
    name, X, y, given = HUGE_PRICES[case]
    found = sx.verify(getattr(sx.fast, name)(X, y, **given).proof(), X, y)
    assert found.holds, found.why
