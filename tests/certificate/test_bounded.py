"""Bounded arithmetic: every operation against exact arithmetic, and tests of these tests by mutants
of the module.
"""

import itertools
import math
import operator
import os
import sys
import types
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import svmcvx.certificate
from svmcvx.certificate import bounded as b
from svmcvx.certificate.bounded import Bounded, exact, total
from svmcvx.certificate.rows import Ball, Rows

from . import operations

# Times that an operation is compared on some forty entries each.
COUNT = 2000 if os.environ.get("SVMCVX_THOROUGH") else 25
FOLDER = Path(svmcvx.certificate.__path__[0])
MODULES = ("bounded", "rows")


def loaded(changes=(), *, inaccurate=False):
    """The modules as one namespace, with texts replaced, and with elementary functions as
    inaccurate as is assumed.
    """
    found = {}
    texts = {name: (FOLDER / f"{name}.py").read_text() for name in MODULES}
    for old, new in changes:
        assert "".join(texts.values()).count(old) == 1, old
        texts = {name: text.replace(old, new) for name, text in texts.items()}
    for name, text in texts.items():
        text = text.replace(
            "from svmcvx.certificate.bounded import", "from mutant_of_bounded import"
        )
        module = types.ModuleType(f"mutant_of_{name}")
        sys.modules[module.__name__] = module
        # By its own name, so that coverage tells which operations execute a line.
        exec(compile(text, str(FOLDER / f"{name}.py"), "exec"), module.__dict__)  # noqa: S102 - our own text
        if inaccurate:
            module.np = operations.Inaccurate()
        found |= vars(module)
    for name in MODULES:
        del sys.modules[f"mutant_of_{name}"]
    return types.SimpleNamespace(**found)


REAL, INACCURATE = loaded(), loaded(inaccurate=True)


@pytest.mark.parametrize("name", operations.OPERATIONS)
def test_every_operation_bounds_its_error(name):
    entries, unknown, missed = operations.run(REAL, name, COUNT)
    assert not missed[:3]
    assert unknown < 0.6 * entries


ELEMENTARY = (
    *("power", "conjugate power", "uncertain power", "exponential", "logarithm"),
    *("logarithm of 1 + x", "log1p_exp", "log1p_sum_exp", "entropy"),
)


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_may_be_as_inaccurate_as_is_assumed(name):
    assert not operations.run(INACCURATE, name, COUNT, seed=1)[2][:3]


# Changes of the modules, each of a text that occurs once, and the operation whose comparison has to
# notice.
MUTANTS = [
    ("add", "U\n    fo", "0.0\n    fo"),
    ("add", "ror, q):", "ror,):"),
    ("multiply", "(abs(b) if _is_exact(q) else abs(b) + q", "abs(b"),
    ("multiply", " + LOST * (small & ~vanishes()) if np.count_nonzero(small) else error", ""),
    ("multiply", " + LOST if small and not vanishes() else error", ""),
    ("multiply", " & (r == 0.0)", ""),
    ("multiply", " + 32.0 * U", ""),
    ("scale", " and abs(other) >= 1.0", ""),
    (
        "overflow",
        "math.isfinite(found) if isinstance(found, float) else np.isfinite(found).all()",
        "True",
    ),
    ("divide", "s(b) - q", "s(b)"),
    ("divide", "np.where(room > 0.0, room, np.nan)[()]", "abs(room)"),
    ("divide by an uncertain number", "_with_underflow(size, size, lambda: a == 0.0)", "size"),
    ("square", "        moved += r\n", ""),
    ("positive part", "    reach *= GROW\n", ""),
    (
        "positive part",
        "minimum(x.error, np.maximum(reach, 0.0)",
        "where(x.value < 0.0, 0.0, x.error",
    ),
    ("maximum", "np.maximum(r, q)", "r"),
    ("maximum", "- r > b + q", "> b"),
    ("root", "np.fmin(x.error / (value + low), np.sqrt(x.error)", "x.error / (2.0 * value"),
    ("power", "* (1.0 + share) ", ""),
    ("power", ") + ELEMENTARY", ")"),
    ("conjugate power", "share = share + e * (1.0 + ELEMENTARY) * abs(np.log(a))", "pass"),
    ("uncertain power", "(g + e) ", "g "),
    ("power", "1.0) & (", "9.0) & ("),
    ("power", "+ LOST * (value < SMALL)", ""),
    ("exponential", " * (1.0 + t)", ""),
    ("exponential", "np.where(value < SMALL, LOST * (1.0 + growth), 0.0)", "0.0"),
    ("logarithm", "low, np.", "a + shift, np."),
    ("logarithm", "np.where(low > 0.0, low, np.nan)[()]", "abs(low)"),
    ("logarithm of 1 + x", "- 4.0 * U * (abs(a) + r + shift)", ""),
    ("total", ") * n if", ") if"),
    ("total", "(values.size + 64) * U", "0.0"),
    ("sum of squares", "roundings(32)", "0.0"),
    (
        "sum of squares",
        "_with_underflow(error, sums, lambda: np.append(~groups.any(axis=1), not rest.any()))",
        "error",
    ),
    ("row sums", "roundings(k)", "0.0"),
    ("remainder", "size * roundings(k + 2)", "0.0"),
    ("log1p_sum_exp", "+ np.where(value < SMALL, LOST * k, 0.0)", ""),
    ("log1p_sum_exp", "roundings(24 + 2 * k)", "0.0"),
    ("log1p_exp", "expm1_above(reach)", "reach"),
    ("log1p_exp", "-np.expm", "0.5 * -np.expm"),
    (
        "largest sums",
        "row_maxima(x.error)\n        return",
        "x.error[np.arange(len(x.value)), x.value.argmax(axis=1)]\n        return",
    ),
    ("largest sums", "found.error + moved) * g", "moved) * g"),
    ("largest sums", "largest_sums(x.error, k", "row_maxima(x.error"),
    ("entropy", "(value * (ELEMENTARY + roundings(8)) + moved)", "moved"),
    ("entropy", "r * logarithm + ", ""),
    ("entropy", "np.where(large, (a + r) * (t / (s - b - t)), 0.0)", "0.0 * b"),
    ("entropy", "0.38 * s", "0.3 * s"),
    ("entropy", "(value < SMALL) & ~nothing, LOST", "nothing, 0.0"),
    ("product with a matrix", " (k * U)", " 0.0"),
    (
        "product with a matrix",
        "error = error + np.broadcast_to(self.error, self.shape) @ size",
        "pas",
    ),
    ("rows times a point", "value.T)", "value.T)[::-1]"),
    ("combinations of rows", "norm_above(error", "float(error.min()"),
    ("point around numbers", "norm_above(np.broadcast_to(x.error, x.shape", "float(np.max(x.error"),
    ("rows times a point", "roundings(d + self.shifted) * l", "0.0 * l"),
    ("rows times a point along them", " + self.shifted) * l", ") * l"),
    ("rows times a point", " + w.distance", ""),
    ("rows times a point", "W + (d + 4.0) * SMALLEST", "W"),
    ("combinations of rows", "terms + self.shifted", "0"),
    ("combinations of rows", " + self.shifted,", ","),
    ("combinations of rows", "error += _we", "_we"),
    ("combinations of rows", "W = 2.0**-100", "W = 0."),
    ("rows times an exact point", "relative *", "0.0 *"),
    ("rows times an exact point", "d + self.shifted) * g", "0.4 * d) * g"),
    ("rows times an exact point", "e + (d + 4.0) * SMALLEST", "e"),
    ("matrix of rows", "terms + 4 + 2 * self.shifted", "0"),
    ("norm", ".widened(self.distance)", ""),
    ("squared norm", " + self.distance", ""),
    ("squared norm", " + LOST)", ")"),
    ("multiple of a point", "roundings(1) * norm_above(value) + ", ""),
    ("multiple of a point", "abs(factor.value) * distance +", ""),
    ("multiple of a point", "factor.error * (length + distance)", "0.0 * length"),
    ("sum of points", "+ roundings(1) * norm_above(value)", ""),
]


@pytest.mark.parametrize(("operation", "old", "new"), MUTANTS)
def test_mutants_are_noticed(operation, old, new):
    mutant = loaded([(old, new)], inaccurate=True)
    if operation == "overflow":
        assert overflows_are_unknown(b)
        assert not overflows_are_unknown(mutant)
        return
    assert any(operations.run(mutant, operation, 10, seed=2 + k)[2] for k in range(40))


def overflows_are_unknown(module):
    ends = [(module.exact(large) * 4.0).lower for large in (1e308, np.array([1e308]))]
    return bool(np.all(np.hstack(ends) == -math.inf))


# What plain numbers give


FORMULAS = {
    "hinge": lambda u: total(3.0 * b.positive_part(1.0 - u) ** 1.7),
    "square": lambda u: b.square(u) - 2.0 * u,
    "quotient": lambda u: (u + 3.0) / (b.square(u) + 0.1),
    "roots": lambda u: b.sqrt(abs(u) + 1.0),
    "exponential": lambda u: b.exp(-u) * 0.5,
    "logarithm": lambda u: b.log(b.square(u) + 1.0) + b.log1p(b.positive_part(u)),
    "maximum": lambda u: b.maximum(u, 1.0 - u),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_gives_the_same_for_plain_and_for_bounded_arrays(name):
    u = np.random.default_rng(0).standard_normal(100) * 2.0
    plain, found = FORMULAS[name](u), FORMULAS[name](exact(u))
    assert isinstance(plain, (float, np.ndarray))
    np.testing.assert_allclose(found.value, plain, rtol=1e-15)
    assert np.all(found.error <= 1e-14 * (1.0 + abs(found.value)))
    assert np.all(found.lower <= plain)
    assert np.all(plain <= found.upper)


def test_sums_in_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    u, s = rng.standard_normal(b.PART_ROWS * 3 + 5), rng.random(b.PART_ROWS * 3 + 5)
    error = 1e-12 * np.abs(u)

    def loss(u, s, p):
        return total(s * b.positive_part(1.0 - u) ** p)

    given = Bounded(u, error), s, exact(1.5)
    whole, parts = loss(*given), b.by_rows(loss, *given)
    assert abs(whole.value - parts.value) <= 1e-15 * whole.value
    assert parts.error <= 1.2 * whole.error
    assert b.by_rows(loss, u, s, 1.5) == pytest.approx(loss(u, s, 1.5), rel=1e-14)
    assert b.by_rows(loss, u[:9], s[:9], 1.5) == loss(u[:9], s[:9], 1.5)


# What is exact stays so


def test_zeros_stay_exact():
    assert b.sum_of_squares(exact(np.zeros(2000))).is_exact
    zero, x = exact(np.zeros(4)), Bounded(np.ones(4), 1e-3)
    for found in (
        *(zero * x, x * zero, zero / x, zero**2.5, zero + zero),
        *(b.square(zero), b.sqrt(zero), b.log1p(zero), b.where(np.ones(4, bool), zero, x)),
        *(b.positive_part(zero - x), b.positive_part(x - 2.0) ** 1.7),
    ):
        assert np.array_equal(found.value, np.zeros(4))
        assert np.array_equal(np.broadcast_to(found.error, 4), np.zeros(4)), found
        assert np.array_equal(found.upper, np.zeros(4))
        assert np.array_equal(found.lower, np.zeros(4))
    assert total(zero).is_exact
    assert total(zero).upper == 0.0
    assert (Rows(np.ones((3, 2))) @ Ball(np.zeros(2))).is_exact
    assert Rows(np.ones((3, 2))).combined(np.zeros(3)).distance == 0.0
    assert Ball(np.zeros(2)).squared_norm().upper == 0.0


def test_signs_halves_and_choices_round_nothing():
    x = Bounded(np.array([0.1, -0.2]), np.array([1e-3, 1e-4]))
    y = np.array([-1.0, 1.0])
    signed = (b.signed(y, x), y * x.value)
    for found, value in (signed, (-x, -x.value), (abs(x), abs(x.value)), (1.0 * x, x.value)):
        assert np.array_equal(found.value, value)
        assert np.array_equal(found.error, x.error)
    assert np.array_equal((-4.0 * x).error, 4.0 * x.error)
    assert b.signed(y, x.value).tolist() == [-0.1, -0.2]


# What is unknown


@pytest.mark.parametrize("error", [math.inf, math.nan])
def test_what_is_unknown_reaches_from_end_to_end(error):
    several = Bounded(np.array([1.0, 2.0]), np.array([error, error]))
    for x in (Bounded(1.0, error), several, Bounded(math.nan, 1.0)):
        functions = (b.square(x), b.positive_part(x), b.exp(x))
        for found in (x, x + 1.0, 2.0 * x, x / 3.0, x**1.5, 1.0 / x, *functions):
            assert (np.asarray(found.upper) == math.inf).all(), found
            assert (np.asarray(found.lower) == -math.inf).all(), found
        assert total(b.maximum(x, 0.0) * np.ones(2)).upper == math.inf


def test_results_that_overflow_are_unknown():
    assert overflows_are_unknown(b)
    large = exact(np.array([1e200]))
    functions = (b.square(large), b.exp(large), total(exact(np.full(9, 1e308))))
    for found in (large * large, large**3.0, large / 1e-200, *functions):
        assert np.all(found.upper == math.inf)
        assert np.all(found.lower == -math.inf)


def test_what_may_be_zero_divides_nothing():
    found = 1.0 / Bounded(np.array([1.0, 1.0, 0.0]), np.array([1.0, 2.0, 0.0]))
    assert np.isnan(found.error).all()
    assert b.log(Bounded(1.0, 1.0)).upper == math.inf


# What is refused


def test_numbers_with_an_error_are_not_compared():
    x = Bounded(np.ones(2), 1e-9)
    for ask in (operator.gt, operator.eq, operator.ne, operator.le, operator.lt, operator.ge):
        with pytest.raises(TypeError):
            ask(x, 1.0)
    with pytest.raises(TypeError):
        bool(x)
    assert exact(2.0) != 1.0
    assert exact(2.0) >= 2.0
    assert (exact(np.array([1.0, 3.0])) > 2.0).tolist() == [False, True]


@pytest.mark.parametrize(
    "function", [np.exp, np.asarray, np.abs, lambda x: np.maximum(x, 0.0), math.exp, hash]
)
def test_numpy_takes_no_bounded_numbers(function):
    with pytest.raises(TypeError):
        function(Bounded(np.ones(2), 1e-9))


def test_an_exponent_below_1_is_refused():
    with pytest.raises(ValueError, match="at least 1"):
        exact(np.ones(2)) ** 0.5


# Ends


def test_ends_of_a_number_are_those_of_an_array():
    values = (0.0, 1.0, -1.0, 1e308, 5e-324, math.inf, -math.inf, math.nan)
    for value, error in itertools.product(values, (0.0, 5e-324, 1e-16, 1e308, math.inf, math.nan)):
        number, array = Bounded(value, error), Bounded(np.array([value]), np.array([error]))
        assert [number.lower, number.upper] == [array.lower[0], array.upper[0]], number


def test_ends_are_outside():
    x = Bounded(np.array([1.0, -1.0]), np.array([2.0**-60, 0.0]))
    assert x.upper.tolist() == [math.nextafter(1.0, 2.0), -1.0]
    assert x.lower.tolist() == [math.nextafter(1.0, 0.0), -1.0]
    assert isinstance(total(x).upper, float)
    assert isinstance(total(x).upper_end, float)
    third = exact(1.0) / 3.0
    assert Fraction(third.lower) < Fraction(1, 3) < Fraction(third.upper)
    assert repr(exact(1.5)) == "1.5 ± 0.0"


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 1.0), (-1e-300, 5e-324), (0.1, 0.3), (1.0, math.nextafter(1.0, 2.0)), (2.0, 2.0)],
)
def test_a_number_between_two(low, high):
    found = b.between(low, high)
    assert Fraction(found.lower) <= Fraction(low) <= Fraction(high) <= Fraction(found.upper)
    for end in (low, high):
        assert abs(Fraction(end) - Fraction(float(found.value))) <= Fraction(float(found.error))


def test_a_large_power_of_an_inexact_number_is_enclosed():
    found = Bounded(np.array([1.0]), np.array([0.0195])) ** 100.0
    assert Fraction(float(found.upper[0])) >= (1 + Fraction(0.0195)) ** 100


def test_the_least_of_all_entries():
    assert Bounded(np.array([3.0, 1.0]), np.array([2.5, 0.25])).least == math.nextafter(0.5, 0.0)
    assert exact(np.array([3.0, 1.0])).least == 1.0
    assert exact(np.zeros(0)).least == math.inf
    assert Bounded(np.array([3.0, 1.0]), np.array([math.nan, 0.0])).least == -math.inf
