"""Bounded arithmetic: every operation against exact arithmetic, and tests of these tests by mutants
of the module.
"""

import itertools
import math
import os
import re
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


def loaded(changes=None, *, inaccurate=False):
    """The modules as one namespace, with texts replaced, and with elementary functions as
    inaccurate as is assumed.
    """
    found = {}
    for name in MODULES:
        text = (FOLDER / f"{name}.py").read_text()
        for old, new in (changes or {}).get(name, []):
            assert text.count(old) == 1, f"{name}.py holds {old!r} {text.count(old)} times"
            text = text.replace(old, new)
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
    "power",
    "conjugate power",
    "uncertain power",
    "exponential",
    "logarithm",
    "logarithm of 1 + x",
    "log1p_exp",
    "log1p_sum_exp",
    "entropy",
)


@pytest.mark.parametrize("name", ELEMENTARY)
def test_elementary_functions_may_be_as_inaccurate_as_is_assumed(name):
    assert not operations.run(INACCURATE, name, COUNT, seed=1)[2][:3]


# Changes of the modules, and the operations whose comparison has to notice.
MUTANTS = {
    "sum without rounding": ("bounded", "    error *= U\n    for part", "    error *= 0.0\n    for part", ["add"]),
    "sum without one error": ("bounded", "for part in (x.error, q):", "for part in (x.error,):", ["add"]),
    "product without second order": ("bounded", "r * (abs(b) if _is_exact(q) else abs(b) + q)", "r * abs(b)", ["multiply"]),
    "product without underflow": ("bounded", "return error + LOST * (small & ~vanishes()) if np.count_nonzero(small) else error", "return error", ["multiply"]),
    "product of numbers without underflow": ("bounded", "return error + LOST if small and not vanishes() else error", "return error", ["multiply numbers"]),
    "zero though the other factor is uncertain": ("bounded", "(a == 0.0) & (r == 0.0)", "(a == 0.0)", ["multiply"]),
    "no factor of the errors": ("bounded", "GROW = 1.0 + 32.0 * U", "GROW = 1.0", ["multiply"]),
    "0.5 as an exact factor": ("bounded", "== 0.5 and abs(factor) >= 1.0", "== 0.5", ["scale"]),
    "overflow of an exact factor": ("bounded", "math.isfinite(found) if isinstance(found, float) else np.isfinite(found).all()", "True", ["overflow"]),
    "quotient by the middle of the divisor": ("bounded", "room = abs(b) - q", "room = abs(b)", ["divide"]),
    "quotient by what may be 0": ("bounded", "np.where(room > 0.0, room, np.nan)[()]", "abs(room)", ["divide"]),
    "amplified underflow of a quotient": ("bounded", "_with_underflow(size, size, lambda: a == 0.0) * (q / room)", "size * (q / room)", ["divide by an uncertain number"]),
    "square without second order": ("bounded", "        moved += r\n", "", ["square"]),
    "positive part that reaches less": ("bounded", "    reach *= GROW\n", "", ["positive part"]),
    "positive part without reach": ("bounded", "np.minimum(x.error, np.maximum(reach, 0.0))", "np.where(x.value < 0.0, 0.0, x.error)", ["positive part"]),
    "maximum with the error of one": ("bounded", "q, np.maximum(r, q)))", "q, r))", ["maximum"]),
    "maximum of one that is only computed as the larger": ("bounded", "a - r > b + q", "a > b", ["maximum"]),
    "root at the middle": ("bounded", "np.fmin(x.error / (value + low), np.sqrt(x.error))", "x.error / (2.0 * value)", ["root"]),
    "power of first order": ("bounded", "share * (1.0 + share) + ELEMENTARY", "share + ELEMENTARY", ["power"]),
    "power of an inaccurate function": ("bounded", "share * (1.0 + share) + ELEMENTARY", "share * (1.0 + share)", ["power"]),
    "power without its exponent's error": ("bounded", "share = share + e * (1.0 + ELEMENTARY) * abs(np.log(a))", "pass", ["conjugate power"]),
    "power without both errors together": ("bounded", "share = (g + e) * (r / a)", "share = g * (r / a)", ["uncertain power"]),
    "power far from its middle": ("bounded", "(share < 1.0) & (a > 0.0)", "(share < 9.0) & (a > 0.0)", ["power"]),
    "power without underflow": ("bounded", "+ LOST * (value < SMALL)", "", ["power"]),
    "exponential of first order": ("bounded", "np.where(t <= 1.0, t * (1.0 + t),", "np.where(t <= 1.0, t,", ["exponential"]),
    "exponential without underflow": ("bounded", "np.where(value < SMALL, LOST * (1.0 + growth), 0.0)\n    ) * GROW", "0.0) * GROW", ["exponential"]),
    "logarithm's slope at the middle": ("bounded", "np.where(low > 0.0, low, np.nan)[()]", "np.where(low > 0.0, a + shift, np.nan)[()]", ["logarithm"]),
    "logarithm of what may be 0": ("bounded", "np.where(low > 0.0, low, np.nan)[()]", "abs(low)", ["logarithm"]),
    "logarithm near −1": ("bounded", "- 4.0 * U * (abs(a) + r + shift)", "", ["logarithm of 1 + x"]),
    "sum of one error": ("bounded", "float(x.error) * n if", "float(x.error) if", ["total"]),
    "long sum without its slips": ("bounded", "(values.size + 64) * U * size", "0.0 * size", ["total"]),
    "row sums without rounding": ("bounded", "(abs(x.value) @ ones) * roundings(k)", "(abs(x.value) @ ones) * 0.0", ["row sums"]),
    "remainder without its slips": ("bounded", "size * roundings(k + 2)", "0.0", ["remainder"]),
    "softmax without underflow": ("bounded", "+ np.where(value < SMALL, LOST * k, 0.0)", "", ["log1p_sum_exp"]),
    "softmax without rounding": ("bounded", "value * roundings(24 + 2 * k)", "value * 0.0", ["log1p_sum_exp"]),
    "softmax of first order": ("bounded", "probability * expm1_above(reach)", "probability * reach", ["log1p_exp"]),
    "softmax with another probability": ("bounded", "probability = -np.expm1(-(value + error) * GROW)", "probability = 0.5 * -np.expm1(-(value + error) * GROW)", ["log1p_exp"]),
    "largest entry with its error": ("bounded", "else row_maxima(x.error)\n", "else x.error[np.arange(len(x.value)), x.value.argmax(axis=1)]\n", ["largest sums"]),
    "largest sums without rounding": ("bounded", "(found.error + moved", "(moved", ["largest sums"]),
    "largest sums with the error of one": ("bounded", "else largest_sums(x.error, k)", "else row_maxima(x.error)", ["largest sums"]),
    "entropy without rounding": ("bounded", "(value * (ELEMENTARY + roundings(8)) + moved)", "moved", ["entropy"]),
    "entropy without the error of x": ("bounded", "moved = r * logarithm + ", "moved = ", ["entropy"]),
    "entropy without the error of the rest": ("bounded", "np.where(large, (a + r) * (t / (s - b - t)), 0.0)", "0.0 * b", ["entropy"]),
    "entropy that does not increase": ("bounded", "0.38 * s", "0.3 * s", ["entropy"]),
    "entropy that underflows": ("bounded", "(value < SMALL) & ~nothing, LOST, 0.0", "nothing, 0.0, 0.0", ["entropy"]),
    "matrix without rounding": ("bounded", "@ sizes) * (k * U)", "@ sizes) * 0.0", ["product with a matrix"]),
    "matrix without errors": ("bounded", "error = error + np.broadcast_to(self.error, self.shape) @ sizes", "pass", ["product with a matrix"]),
    "column with the length of another": ("rows", "else row_norms_above(w.value.T)", "else row_norms_above(w.value.T)[::-1]", ["rows times a matrix"]),
    "combinations of columns with the error of one": ("rows", "norm_above(error) if value.ndim > 1", "float(error.min()) if value.ndim > 1", ["combinations of rows by columns"]),
    "point around its first number": ("rows", "norm_above(np.broadcast_to(x.error, x.shape)) if", "float(np.max(x.error)) if", ["point around numbers"]),
    "rows without rounding": ("rows", "(roundings(d + self.shifted) * length + w.distance)", "w.distance", ["rows times a point"]),
    "rows without their shift": ("rows", "(roundings(d + self.shifted) * length", "(roundings(d) * length", ["rows times a point along them"]),
    "rows times an uncertain point": ("rows", "* length + w.distance)", "* length)", ["rows times a point"]),
    "rows that underflow": ("rows", "* GROW + (d + 4.0) * SMALLEST", "* GROW", ["rows times a point"]),
    "combination without rounding": ("rows", "inner_error(terms + self.shifted, _w", "inner_error(0, _w", ["combinations of rows"]),
    "combination without its shift": ("rows", "inner_error(terms + self.shifted, _w", "inner_error(terms, _w", ["combinations of rows"]),
    "combination of exact coefficients": ("rows", "error += _weighed(np.broadcast_to", "_weighed(np.broadcast_to", ["combinations of rows"]),
    "combination that underflows": ("rows", "UNDERFLOW = 2.0**-1000", "UNDERFLOW = 0.0", ["combinations of rows"]),
    "entries of a product without rounding": ("rows", "relative * magnitude +", "0.0 * magnitude +", ["rows times an exact point"]),
    "entries of a product without the shift": ("rows", "roundings(d + self.shifted) * growth(d)", "roundings(0.4 * d) * growth(d)", ["rows times an exact point"]),
    "entries of a product that underflow": ("rows", "relative * magnitude + (d + 4.0) * SMALLEST", "relative * magnitude", ["rows times an exact point"]),
    "matrix of rows without rounding": ("rows", "inner_error(terms + 4 + 2 * self.shifted, trace)", "inner_error(0, trace)", ["matrix of rows"]),
    "norm without the distance": ("rows", "found.widened(self.distance)", "found", ["norm"]),
    "square of a distance": ("rows", "(2.0 * norm_above(self.value) + self.distance)", "(2.0 * norm_above(self.value))", ["squared norm"]),
    "square of a distance that underflows": ("rows", "* GROW + LOST)", "* GROW)", ["squared norm"]),
    "multiple of a point without rounding": ("rows", "roundings(1) * norm_above(value) + off", "off", ["multiple of a point"]),
    "multiple of a point without its distance": ("rows", "abs(factor.value) * distance +", "", ["multiple of a point"]),
    "multiple of a point by an exact number": ("rows", "factor.error * (length + distance)", "0.0 * length", ["multiple of a point"]),
    "sum of points without rounding": ("rows", "+ roundings(1) * norm_above(value)", "", ["sum of points"]),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_noticed(name):
    module, old, new, chosen = MUTANTS[name]
    mutant = loaded({module: [(old, new)]}, inaccurate=True)
    if chosen == ["overflow"]:
        assert overflows_are_unknown(b)
        assert not overflows_are_unknown(mutant)
        return
    for operation in chosen:
        count = 0
        while count < 40 and not operations.run(mutant, operation, 10, seed=count + 2)[2]:
            count += 1
        assert count < 40


def overflows_are_unknown(module):
    return (module.exact(1e308) * 4.0).lower == -math.inf and (
        module.exact(np.array([1e308])) * 4.0
    ).lower[0] == -math.inf


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


def test_matrices_are_summed_row_by_row():
    x = np.random.default_rng(0).standard_normal((7, 3))
    s = np.abs(x).sum(axis=1)
    for function in (
        b.row_sums,
        b.log1p_sum_exp,
        lambda a: b.remainder(s, a),
        lambda a: b.largest_sums(a, 2),
        lambda a: b.log1p_exp(a),
        lambda a: a @ x.T[:, :3],
    ):
        np.testing.assert_allclose(function(exact(x)).value, function(x), rtol=1e-13, atol=1e-15)


def test_sums_in_parts_are_those_of_the_whole():
    rng = np.random.default_rng(0)
    u, s = rng.standard_normal(b.PART_ROWS * 3 + 5), rng.random(b.PART_ROWS * 3 + 5)
    error = 1e-12 * np.abs(u)

    def loss(u, s, p):
        return total(s * b.positive_part(1.0 - u) ** p)

    whole, parts = (
        loss(Bounded(u, error), s, exact(1.5)),
        b.by_rows(loss, Bounded(u, error), s, exact(1.5)),
    )
    assert abs(whole.value - parts.value) <= 1e-15 * whole.value
    assert parts.error <= 1.2 * whole.error
    assert b.by_rows(loss, u, s, 1.5) == pytest.approx(loss(u, s, 1.5), rel=1e-14)
    assert b.by_rows(loss, u[:9], s[:9], 1.5) == loss(u[:9], s[:9], 1.5)


# What is exact stays so


def test_zeros_stay_exact():
    zero, x = exact(np.zeros(4)), Bounded(np.ones(4), 1e-3)
    for found in (
        zero * x,
        x * zero,
        zero / x,
        b.square(zero),
        b.positive_part(zero - x),
        b.positive_part(x - 2.0) ** 1.7,
        zero**2.5,
        b.sqrt(zero),
        zero + zero,
        b.log1p(zero),
        b.where(np.array([True] * 4), zero, x),
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
    for found, value in (
        (b.signed(y, x), y * x.value),
        (-x, -x.value),
        (abs(x), abs(x.value)),
        (1.0 * x, x.value),
    ):
        assert np.array_equal(found.value, value)
        assert np.array_equal(found.error, x.error)
    assert np.array_equal((-4.0 * x).error, 4.0 * x.error)
    assert b.signed(y, x.value).tolist() == [-0.1, -0.2]


# What is unknown


@pytest.mark.parametrize("error", [math.inf, math.nan])
def test_what_is_unknown_reaches_from_end_to_end(error):
    for x in (
        Bounded(1.0, error),
        Bounded(np.array([1.0, 2.0]), np.array([error, error])),
        Bounded(math.nan, 1.0),
    ):
        for found in (
            x,
            x + 1.0,
            2.0 * x,
            x / 3.0,
            b.square(x),
            b.positive_part(x),
            b.exp(x),
            x**1.5,
            1.0 / x,
        ):
            assert (np.asarray(found.upper) == math.inf).all(), found
            assert (np.asarray(found.lower) == -math.inf).all(), found
        assert total(b.maximum(x, 0.0) * np.ones(2)).upper == math.inf


def test_results_that_overflow_are_unknown():
    assert overflows_are_unknown(b)
    large = exact(np.array([1e200]))
    for found in (
        large * large,
        b.square(large),
        b.exp(large),
        large**3.0,
        large / 1e-200,
        total(exact(np.full(9, 1e308))),
    ):
        assert np.all(found.upper == math.inf)
        assert np.all(found.lower == -math.inf)


def test_what_may_be_zero_divides_nothing():
    found = 1.0 / Bounded(np.array([1.0, 1.0, 0.0]), np.array([1.0, 2.0, 0.0]))
    assert np.isnan(found.error).all()
    assert b.log(Bounded(1.0, 1.0)).upper == math.inf


# What is refused


def test_numbers_with_an_error_are_not_compared():
    x = Bounded(np.ones(2), 1e-9)
    for ask in (
        lambda: x > 0,
        lambda: x == 1.0,
        lambda: x != 1.0,
        lambda: x <= 2,
        lambda: x < 3,
        lambda: x >= x,
        lambda: bool(x),
    ):
        with pytest.raises(TypeError):
            ask()
    assert exact(2.0) != 1.0
    assert exact(2.0) >= 2.0
    assert (exact(np.array([1.0, 3.0])) > 2.0).tolist() == [False, True]


@pytest.mark.parametrize(
    "function", [np.exp, np.asarray, np.abs, lambda x: np.maximum(x, 0.0), math.exp, hash]
)
def test_numpy_takes_no_bounded_numbers(function):
    with pytest.raises(TypeError):
        function(Bounded(np.ones(2), 1e-9))


def test_arrays_leave_their_operations_to_bounded_ones():
    u = np.array([1.0, 2.0])
    for found in (
        u + exact(u),
        u - exact(u),
        u * exact(u),
        u / exact(u),
        1 - exact(u),
        np.float64(2.0) * exact(u),
    ):
        assert isinstance(found, Bounded)
        assert found.shape == (2,)


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


def test_the_least_of_all_entries():
    assert Bounded(np.array([3.0, 1.0]), np.array([2.5, 0.25])).least == math.nextafter(0.5, 0.0)
    assert exact(np.array([3.0, 1.0])).least == 1.0
    assert exact(np.zeros(0)).least == math.inf
    assert Bounded(np.array([3.0, 1.0]), np.array([math.nan, 0.0])).least == -math.inf


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 1.0), (-1e-300, 5e-324), (0.1, 0.3), (1.0, math.nextafter(1.0, 2.0)), (2.0, 2.0)],
)
def test_a_number_between_two(low, high):
    found = b.between(low, high)
    assert Fraction(found.lower) <= Fraction(low) <= Fraction(high) <= Fraction(found.upper)
    for end in (low, high):
        assert abs(Fraction(end) - Fraction(float(found.value))) <= Fraction(float(found.error))


def test_entries_between_two_each():
    found = b.between(np.array([0.1, 1.0, -1.0]), np.array([0.3, 1.0, math.inf]))
    assert (found.lower <= [0.1, 1.0, -1.0]).all()
    assert (found.upper >= [0.3, 1.0, math.inf]).all()
    assert found.upper[0] <= 0.3 + 1e-15


def test_equal_weights_are_taken_out_of_a_sum():
    x = Bounded(np.array([0.1, 0.2, 0.7]), 1e-9)
    one, each = b.weighted_total(exact(1.0) / 3.0, x), b.weighted_total(np.full(3, 1.0 / 3.0), x)
    assert abs(one.value - each.value) <= 1e-16
    assert b.weighted_total(0.5, x.value) == 0.5 * total(x.value)
    assert b.weighted_total(np.array([0.0, 0.0, 2.0]), x.value) == 1.4


def test_an_error_is_widened():
    x = Bounded(np.array([1.0, 2.0]), np.array([0.0, 1e-3])).widened(exact(0.5))
    assert (x.error >= [0.5, 0.501]).all()
    assert (x.error <= np.array([0.5, 0.501]) * (1 + 1e-14)).all()


def test_entries_are_taken():
    x = Bounded(np.arange(4.0), np.array([0.0, 1.0, 2.0, 3.0]))
    assert (x[1].value, x[1].error) == (1.0, 1.0)
    assert x[x.value > 1].error.tolist() == [2.0, 3.0]
    assert exact(np.arange(4.0))[2:].is_exact
    assert (x.size, x.shape) == (4, (4,))


def test_the_second_checker_imports_no_bounded_arithmetic():
    for path in (FOLDER.parent / "proofs").rglob("*.py"):
        assert not re.search(r"svmcvx\.(core|rounding)", path.read_text()), path


def test_a_large_power_of_an_inexact_number_is_enclosed():
    found = Bounded(np.array([1.0]), np.array([0.0195])) ** 100.0
    assert Fraction(float(found.upper[0])) >= (1 + Fraction(0.0195)) ** 100
