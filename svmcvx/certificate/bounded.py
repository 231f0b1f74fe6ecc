r"""Numbers and arrays with a bound on their error, so that a formula is written once for both.

.. code-block:: python

    def objective(squared_norm, u, s, *, C, p):
        return 0.5 * squared_norm + C * total(s * positive_part(1.0 - u) ** p)

Given plain numbers and arrays it returns a number; given :class:`Bounded` ones it returns the same
number and a bound on its distance to the exact value. Each operation adds its own rounding, and
what underflow loses, to the errors of its operands.

**Assumed.** IEEE binary64, round to nearest, no flush to zero; sums and products in any order,
fused or not, but no Strassen-like products; ``sqrt`` correctly rounded; numpy's ``exp``, ``expm1``,
``log``, ``log1p``, ``tanh`` and ``power`` within :data:`ULPS` units in the last place (a test holds
them against ball arithmetic).

**Rules.**

1. A plain number is exact: it is the number that it is. *Every number that is computed has to be
   bounded*: ``p / (p - 1.0)`` of a plain p loses its rounding silently. Statements pass their
   hyper-parameters through :func:`exact`.
2. An error of ∞ or NaN means that nothing is known; conditions are written so that NaN takes that
   branch.
3. Errors are computed in floating point themselves. Each is a sum of at most eight products and
   quotients of numbers that are not negative, and is multiplied by :data:`GROW`.
4. Underflow: where a result is at least :data:`SMALL`, the part :math:`u|v|` of its error times
   ``GROW − 1`` is at least :math:`2^{-1001}` and pays for what the products within the error lose,
   :math:`2^{-1075}` each. Below that :data:`LOST` is added, unless the result is exactly zero
   because a factor is.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.exactly import SMALLEST, nearest_sum

# What plain numbers give is plain, what bounded ones give is bounded: the types of the functions
# say so, their bodies cannot.
# mypy: disable-error-code="no-any-return"


# Unit roundoff, the distance from 1 to the next number, and the smallest normal number.
U, EPS, TINY = 2.0**-53, 2.0**-52, 2.0**-1022
# Accuracy of numpy's elementary functions in units in the last place, and the relative error that
# this is.
ULPS = 4.0
ELEMENTARY = 2.0 * ULPS * U
# Factor of each computed error; it covers the rounding of the error computation itself.
GROW = 1.0 + 32.0 * U
# Results below SMALL may have lost something to underflow, less than LOST.
SMALL = 2.0**-900
LOST = 2.0**-1070
# Rows of a part of a long sum, which stay in a processor's cache; half the rows from which a sum is
# taken in parts.
PART_ROWS = 32_768

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

# Whether the caller is inside of a function that is quiet; like the settings of numpy it belongs to
# the context.
_quiet: ContextVar[bool] = ContextVar("svmcvx_quiet", default=False)


def quietly(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Let a function operate on NaN and infinities, a part of the arithmetic, without warnings."""

    @wraps(function)
    def run(*arguments: Arguments.args, **keywords: Arguments.kwargs) -> Result:
        if _quiet.get():
            return function(*arguments, **keywords)
        before = _quiet.set(True)
        try:
            with np.errstate(all="ignore"):
                return function(*arguments, **keywords)
        finally:
            _quiet.reset(before)

    return run


def roundings(k: float) -> float:
    """Return k u: a bound on k roundings, relative to the sum of sizes of terms [JeannerodRump]."""
    return k * U


def growth(k: float) -> float:
    """Return a factor for errors that are sums of k terms, above their own rounding."""
    return GROW + 4.0 * k * U


def root_above(squares: Any, terms: int) -> Any:
    """Return upper bounds of square roots of computed sums of squares, which may underflow."""
    off = 1.0 + (terms + 4.0) * U
    return np.sqrt(squares * off) * (1.0 + 4.0 * U) + math.sqrt(terms) * 2.0**-536


def up(x: float) -> float:
    return math.nextafter(x, math.inf)


def down(x: float) -> float:
    return math.nextafter(x, -math.inf)


def _is_exact(error: Any) -> bool:
    """Whether an error is the number 0, not an array."""
    return isinstance(error, float) and error == 0.0


def _comparison(compare: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a comparison of exact numbers that refuses those with an error."""

    def compared(x: Bounded, other: Any) -> Any:
        b, q = parts_of(other)
        if not (x.is_exact and _is_exact(q)):
            raise TypeError(
                "numbers with an error are not compared; compare .value, or .upper and .lower where"
                " it is a claim"
            )
        return compare(x.value, b)

    return compared


class Bounded:
    """A number or an array, and a bound on its distance to the exact value, entry by entry."""

    __slots__ = ("error", "value")
    # An array leaves operations with a bounded one to the methods below.
    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    value: Any
    error: Any

    def __init__(self, value: Any, error: Any = 0.0) -> None:
        self.value = value if isinstance(value, np.ndarray) else np.float64(value)
        self.error = error

    def __repr__(self) -> str:
        return f"{self.value} ± {self.error}"

    @property
    def is_exact(self) -> bool:
        """Whether the value is known to be exact."""
        return _is_exact(self.error)

    @property
    def upper(self) -> Any:
        """Numbers that are at least the exact values; ∞ where nothing is known."""
        return _outwards(self.value, self.error, np.inf)

    @property
    def lower(self) -> Any:
        """Numbers that are at most the exact values; −∞ where nothing is known."""
        return _outwards(self.value, self.error, -np.inf)

    @property
    def upper_end(self) -> float:
        """Upper end of a scalar as a float: at least the exact number."""
        return float(self.upper)

    @property
    def lower_end(self) -> float:
        """Lower end of a scalar as a float: at most the exact number."""
        return float(self.lower)

    @property
    @quietly
    def least(self) -> float:
        """A number that all entries are at least; ∞ if there is none."""
        low = float(np.min(self.value - self.error, initial=math.inf))
        if math.isnan(low):
            return -math.inf
        return low if self.is_exact else down(low)

    def widened(self, by: Bounded | float) -> Bounded:
        """Return the same value with an error enlarged by a number, or by its upper end."""
        more = by.upper if isinstance(by, Bounded) else by
        return Bounded(self.value, (self.error + more) * GROW)

    @property
    def size(self) -> int:
        return int(np.size(self.value))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    @property
    def T(self) -> Bounded:
        return Bounded(self.value.T, self.error if isinstance(self.error, float) else self.error.T)

    def __getitem__(self, index: Any) -> Bounded:
        error = self.error if isinstance(self.error, float) else self.error[index]
        return Bounded(self.value[index], error)

    # Sums: |fl(x) − x| ≤ u |fl(x)|. A sum below 2⁻¹⁰²¹ is exact, so underflow loses nothing.

    def __add__(self, other: Any) -> Bounded:
        return _sum(self, parts_of(other), 1.0)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Bounded:
        return _sum(self, parts_of(other), -1.0)

    def __rsub__(self, other: Any) -> Bounded:
        return _sum(Bounded(*parts_of(other)), (self.value, self.error), -1.0)

    def __neg__(self) -> Bounded:
        return Bounded(-self.value, self.error)

    def __abs__(self) -> Bounded:
        return Bounded(abs(self.value), self.error)

    @quietly
    def __mul__(self, other: Any) -> Bounded:
        a, r = self.value, self.error
        # A factor ±2^k with k ≥ 0 rounds nothing.
        plain = isinstance(other, (int, float)) and abs(other) >= 1.0
        if plain and abs(math.frexp(other)[0]) == 0.5:
            found = a if other == 1.0 else a * other
            if other == 1.0 or (
                math.isfinite(found) if isinstance(found, float) else np.isfinite(found).all()
            ):
                return Bounded(found, r if _is_exact(r) else r * abs(other))
        b, q = parts_of(other)
        # AB − ab = a(B − b) + (A − a)B.
        value = a * b
        size = abs(value)
        error = size * U
        if not _is_exact(q):
            error += abs(a) * q
        if not _is_exact(r):
            error += r * (abs(b) if _is_exact(q) else abs(b) + q)
        error *= GROW
        return Bounded(
            value, _with_underflow(error, size, lambda: _vanishes(a, r) | _vanishes(b, q))
        )

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Bounded:
        return _quotient(self.value, self.error, *parts_of(other))

    def __rtruediv__(self, other: Any) -> Bounded:
        return _quotient(*parts_of(other), self.value, self.error)

    @quietly
    def __matmul__(self, B: Floats) -> Bounded:
        """Return the product with an exact matrix, off by at most :math:`k u |a|'|b|`."""
        if self.is_exact and not self.value.any():
            return Bounded(self.value @ B)
        sizes = np.abs(B)
        k = int(np.count_nonzero(B, axis=0).max(initial=0))
        error = (np.abs(self.value) @ sizes) * (k * U)
        if not self.is_exact:
            error = error + np.broadcast_to(self.error, self.shape) @ sizes
        return Bounded(self.value @ B, error * growth(B.shape[0]) + (k + 4.0) * SMALLEST)

    def __pow__(self, exponent: Any) -> Bounded:
        """Return the power of non-negative numbers; the exponent is at least 1, perhaps inexact."""
        g, e = parts_of(exponent)
        if not g >= 1.0:
            raise ValueError(
                f"a power of a bounded number needs an exponent of at least 1, got {exponent}"
            )
        if _is_exact(e) and g == 1.0:
            return self
        if _is_exact(e) and g == 2.0:
            found: Bounded = square(self)
            return found
        return _power(self, float(g), float(e))

    __eq__, __ne__ = _comparison(operator.eq), _comparison(operator.ne)
    __lt__, __le__ = _comparison(operator.lt), _comparison(operator.le)
    __gt__, __ge__ = _comparison(operator.gt), _comparison(operator.ge)

    def __bool__(self) -> NoReturn:
        raise TypeError("a bounded number is neither true nor false; ask its .value")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError(
            "a bounded number is no array; take its .value, or use the functions of"
            " svmcvx.certificate.bounded"
        )


# A plain number or array, or a bounded number or array; the result is of the same kind.
R = TypeVar("R", float, Floats, Bounded)


def stacked(numbers: Iterable[Any]) -> Bounded:
    """Return numbers as one array."""
    parts = [parts_of(x) for x in numbers]
    return Bounded(
        np.array([value for value, _ in parts]), np.array([float(error) for _, error in parts])
    )


def exact(x: Any) -> Bounded:
    """Return a plain number or array as one without an error; bounded numbers are unchanged."""
    if isinstance(x, Bounded):
        return x
    if isinstance(x, float) or (isinstance(x, np.ndarray) and x.ndim and x.dtype == np.float64):
        return Bounded(x)
    return Bounded(np.asarray(x, dtype=np.float64) if np.ndim(x) else float(x))


def correctly_rounded(x: float) -> Bounded:
    """Return a number that was computed with a single rounding, such as by :func:`math.fsum`."""
    return Bounded(x, abs(x) * U if math.isfinite(x) else math.inf)


def parts_of(x: Any) -> tuple[Any, Any]:
    if isinstance(x, Bounded):
        return x.value, x.error
    return (x if isinstance(x, np.ndarray) else np.float64(x)), 0.0


def _outwards(value: Any, error: Any, direction: float) -> Any:
    """Return the next numbers beyond value ± error, and the values themselves where exact."""
    if isinstance(value, float) and isinstance(error, float):
        # Python's numbers take a tenth of the time of numpy's functions, and overflow without a
        # warning.
        number, radius = float(value), float(error)
        if radius != 0.0:
            number = math.nextafter(
                number + radius if direction > 0 else number - radius, direction
            )
        return direction if math.isnan(number) else number
    return _array_outwards(value, error, direction)


@quietly
def _array_outwards(value: Any, error: Any, direction: float) -> Any:
    if _is_exact(error):
        end = value
    else:
        end = np.nextafter(value + error if direction > 0 else value - error, direction)
        if np.count_nonzero(error) < np.size(error):
            end = np.where(error == 0.0, value, end)
    unknown = np.isnan(end)
    if np.count_nonzero(unknown):
        end = np.where(unknown, direction, end)
    return end if end.ndim else float(end)


def _with_underflow(error: Any, size: Any, vanishes: Callable[[], Any]) -> Any:
    """Add the error of underflow, except where `vanishes()` says that the result is exactly 0."""
    small = size < SMALL
    if isinstance(size, np.ndarray):
        return error + LOST * (small & ~vanishes()) if np.count_nonzero(small) else error
    return error + LOST if small and not vanishes() else error


def _vanishes(a: Any, r: Any) -> Any:
    return (a == 0.0) if _is_exact(r) else (a == 0.0) & (r == 0.0)


@quietly
def _sum(x: Bounded, other: tuple[Any, Any], sign: float) -> Bounded:
    b, q = other
    if isinstance(b, float) and b == 0.0 and _is_exact(q):
        return x
    if isinstance(x.value, float) and x.value == 0.0 and x.is_exact:
        return Bounded(b if sign > 0 else -b, q)
    value = x.value + b if sign > 0 else x.value - b
    error = abs(value)
    error *= U
    for part in (x.error, q):
        if not _is_exact(part):
            error += part
    error *= GROW
    return Bounded(value, error)


@quietly
def _quotient(a: Any, r: Any, b: Any, q: Any) -> Bounded:
    """Return A/B, whose distance to a/b is :math:`|(A - a) - (a/b)(B - b)| / |B|`."""
    value = a / b
    size = abs(value)
    error = size * U
    if _is_exact(q):
        if not _is_exact(r):
            error += r / abs(b)
    else:
        room = abs(b) - q
        room = np.where(room > 0.0, room, np.nan)[()]
        error += _with_underflow(size, size, lambda: a == 0.0) * (q / room)
        if not _is_exact(r):
            error += r / room
    error *= GROW
    return Bounded(value, _with_underflow(error, size, lambda: _vanishes(a, r)))


@quietly
def _power(x: Bounded, g: float, e: float) -> Bounded:
    a, r = x.value, x.error
    value = np.power(a, g)
    share: Any = 0.0
    if not _is_exact(r):
        share = (g + e) * (r / a)
    if e:
        share = share + e * (1.0 + ELEMENTARY) * abs(np.log(a))
    share = share * GROW
    nothing = np.asarray(_vanishes(a, r))
    error = np.asarray(value * (share * (1.0 + share) + ELEMENTARY) * GROW + LOST * (value < SMALL))
    # A base that is 0 or negative makes the share infinite or no number, or a negative one.
    far = ~((share < 1.0) & (a > 0.0) | nothing)
    if nothing.any():
        error = np.where(nothing, 0.0, error)
    if far.any():
        base, radius = np.asarray(a)[far], np.broadcast_to(r, error.shape)[far]
        high = np.where(base < 0.0, np.nan, (base + radius) * GROW)
        largest = np.power(high, g) * (1.0 + ELEMENTARY)
        middle = np.asarray(value)[far]
        spread = np.exp(e * abs(np.log(high)) * GROW * GROW) * (1.0 + ELEMENTARY)
        largest = largest * spread if e else largest - middle
        error[far] = (largest + 2.0 * ELEMENTARY * middle) * GROW + LOST
    return Bounded(value, error if error.ndim else error[()])


def expm1_above(t: Any) -> Any:
    """Return e^t − 1 from above for t ≥ 0, but for two roundings: t + t² up to 1."""
    return np.where(t <= 1.0, t * (1.0 + t), np.expm1(t) * (1.0 + ELEMENTARY))[()]


@quietly
def positive_part(x: R) -> R:
    if not isinstance(x, Bounded):
        return np.maximum(x, 0.0)
    if x.is_exact:
        return Bounded(np.maximum(x.value, 0.0))
    reach = x.value + x.error
    reach *= GROW
    return Bounded(np.maximum(x.value, 0.0), np.minimum(x.error, np.maximum(reach, 0.0)))


def minimum(x: Any, y: Any) -> Any:
    if not (isinstance(x, Bounded) or isinstance(y, Bounded)):
        return np.minimum(x, y)
    return -maximum(-x, -y)


@quietly
def between(low: Any, high: Any) -> Bounded:
    """Return numbers between two plain ones; nothing is known where these are infinite."""
    value = 0.5 * low + 0.5 * high
    return Bounded(value, np.maximum(high - value, value - low) * GROW)


@quietly
def maximum(x: Any, y: Any) -> Any:
    """Return the larger of two, with the larger error, or that of the certainly larger one."""
    if not (isinstance(x, Bounded) or isinstance(y, Bounded)):
        return np.maximum(x, y)
    (a, r), (b, q) = parts_of(x), parts_of(y)
    if _is_exact(r) and _is_exact(q):
        return Bounded(np.maximum(a, b))
    error = np.where(a - r > b + q, r, np.where(b - q > a + r, q, np.maximum(r, q)))
    return Bounded(np.maximum(a, b), error[()])


@quietly
def square(x: R) -> R:
    """Return x²: (a + t)² − a² = (2a + t)t."""
    if not isinstance(x, Bounded):
        return x * x
    a, r = x.value, x.error
    value = a * a
    error = value * U
    if not x.is_exact:
        moved = 2.0 * abs(a)
        moved += r
        moved *= r
        error += moved
    error *= GROW
    return Bounded(value, _with_underflow(error, value, lambda: _vanishes(a, r)))


@quietly
def sum_of_squares(x: Bounded) -> Bounded:
    """Return the sum of squares; of many exact numbers in groups, each off by 32 u of it."""
    if not x.is_exact or x.size < 1024:
        return total(square(x))
    flat = np.ravel(x.value)
    groups, rest = flat[: flat.size // 32 * 32].reshape(-1, 32), flat[flat.size // 32 * 32 :]
    sums = np.append(np.einsum("ij,ij->i", groups, groups), rest @ rest)
    error = sums * roundings(32) * growth(32)
    error = _with_underflow(error, sums, lambda: np.append(~groups.any(axis=1), not rest.any()))
    return total(Bounded(sums, error))


@quietly
def sqrt(x: R) -> R:
    """Return the root of numbers that are known not to be negative."""
    if not isinstance(x, Bounded):
        return np.sqrt(x)
    value = np.sqrt(np.maximum(x.value, 0.0))
    error = value * U
    if not x.is_exact:
        low = np.sqrt(np.maximum(x.value - x.error, 0.0))
        error = error + np.fmin(x.error / (value + low), np.sqrt(x.error))
    return Bounded(value, error * GROW)


def hypot(x: Any, y: Any) -> Any:
    if not (isinstance(x, Bounded) or isinstance(y, Bounded)):
        return np.hypot(x, y)
    return sqrt(square(exact(x)) + square(exact(y)))


@quietly
def exp(x: R) -> R:
    if not isinstance(x, Bounded):
        return np.exp(x)
    value = np.exp(x.value)
    growth = 0.0 if x.is_exact else expm1_above(x.error)
    lost = np.where(value < SMALL, LOST * (1.0 + growth), 0.0)
    return Bounded(value, ((value * (growth + ELEMENTARY) + lost) * GROW)[()])


def log(x: R) -> R:
    """Return the logarithm of positive numbers; nothing is known where the error is as large."""
    return _logarithm(x, np.log, 0.0)


def log1p(x: R) -> R:
    """Return log(1 + x) of numbers above −1."""
    return _logarithm(x, np.log1p, 1.0)


@quietly
def _logarithm(x: Any, function: Any, shift: float) -> Any:
    """Return log(shift + x): its slope is largest at the lower end."""
    if not isinstance(x, Bounded):
        return function(x)
    a, r = x.value, x.error
    value = function(a)
    size = abs(value)
    error = size * ELEMENTARY
    if not x.is_exact:
        # The lower end; that of 1 + x is rounded twice, with a large relative error if x is near
        # −1.
        low = a - r if not shift else (a - r + shift) - 4.0 * U * (abs(a) + r + shift)
        error = error + r / np.where(low > 0.0, low, np.nan)[()]
    return Bounded(
        value, _with_underflow(error * GROW, size, lambda: _vanishes(a + (shift - 1.0), r))
    )


def where(mask: NDArray[np.bool_], x: Any, y: Any) -> Any:
    """Return x where the mask is true, y elsewhere."""
    if not (isinstance(x, Bounded) or isinstance(y, Bounded)):
        return np.where(mask, x, y)
    (a, r), (b, q) = parts_of(x), parts_of(y)
    error = 0.0 if _is_exact(r) and _is_exact(q) else np.where(mask, r, q)
    return Bounded(np.where(mask, a, b), error)


def signed(y: Floats, x: R) -> R:
    """Return y x for signs y, which rounds nothing."""
    found: Any = Bounded(y * x.value, x.error) if isinstance(x, Bounded) else y * x
    return found


@overload
def total(x: Bounded | Sequence[Bounded]) -> Bounded: ...
@overload
def total(x: Floats | Sequence[float]) -> float: ...
def total(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        if not any(isinstance(part, Bounded) for part in x):
            return math.fsum(x)
        x = stacked(x)
    if not isinstance(x, Bounded):
        found = np.sum(x)
        return found if found.__class__ is not np.float64 else float(found)
    errors = 0.0
    if not x.is_exact:
        n = x.size
        errors = float(x.error) * n if isinstance(x.error, float) else float(x.error.sum())
        errors *= 1.0 + 1.01 * n * U
    value, slips = _compensated(x.value)
    error = abs(value) * U + slips + errors
    # NaN, and what overflowed, is unknown.
    return Bounded(value, error * GROW if math.isfinite(value) else math.inf)


@quietly
def _compensated(values: Floats) -> tuple[float, float]:
    """Return the sum and its error without the last rounding; infinite on overflow."""
    # Adding short arrays term by term takes less time than halving them.
    if values.size < 1024:
        return nearest_sum(values, math.inf), 0.0
    left, lost, size = np.ravel(values), 0.0, 0.0
    while left.size >= 256:
        half = left.size // 2
        a, b, odd = left[:half], left[half : 2 * half], left[2 * half :]
        added = a + b
        back = added - a
        errors = (a - (added - back)) + (b - back)
        lost += float(errors.sum())
        size += float(np.abs(errors).sum())
        left = np.concatenate([added, odd]) if odd.size else added
    if not (math.isfinite(size) and np.isfinite(left).all()):
        return nearest_sum(values, math.inf), 0.0
    return nearest_sum([*left.tolist(), lost]), (values.size + 64) * U * size * (1.0 + 2.0**-20)


def weighted_total(weight: Any, x: Any) -> Any:
    """Return the sum of products; a scalar weight multiplies the sum once."""
    same = weight.shape == () if isinstance(weight, Bounded) else np.ndim(weight) == 0
    return weight * total(x) if same else total(weight * x)


def by_rows(term: Callable[..., Any], *arrays: Any) -> Any:
    """Return a sum over rows, in parts that stay in a processor's cache if there are many rows."""
    shapes = [np.shape(parts_of(array)[0]) for array in arrays]
    n = max(shape[0] if shape else 0 for shape in shapes)
    if n < 2 * PART_ROWS:
        return term(*arrays)
    sums = []
    for start in range(0, n, PART_ROWS):
        part = slice(start, start + PART_ROWS)
        pieces = (x[part] if shape else x for x, shape in zip(arrays, shapes, strict=True))
        sums.append(term(*pieces))
    return total(sums)


@quietly
def row_sums(x: Any) -> Any:
    r"""Return the sums of rows of k entries, each off by at most :math:`k u \sum|a|`."""
    ones = np.ones(x.shape[1])
    if not isinstance(x, Bounded):
        return np.asarray(x @ ones)
    k = x.shape[1]
    error = (abs(x.value) @ ones) * roundings(k)
    if not x.is_exact:
        error = error + (x.error * k if isinstance(x.error, float) else x.error @ ones)
    # Sums of k numbers that are not negative.
    return Bounded(x.value @ ones, error * growth(k))


def sums_of_parts(x: Bounded, *, starts: Any, sizes: Any, largest: int) -> Bounded:
    r"""Return the sums of parts of k entries in a row, each off by at most :math:`k u \sum|a|`."""
    value = np.add.reduceat(x.value, starts)
    error = U * sizes * np.add.reduceat(np.abs(x.value), starts)
    if not x.is_exact:
        error += np.add.reduceat(x.error, starts)
    return Bounded(value, error * growth(largest))


def row_maxima(x: Any) -> Any:
    """Return the largest entry of each row; it does not move by more than the largest error."""
    if isinstance(x, Bounded):
        error = x.error if isinstance(x.error, float) else row_maxima(x.error)
        return Bounded(row_maxima(x.value), error)
    # Reductions along short rows are slow: up to 12 columns are taken one by one.
    return functools.reduce(np.maximum, x.T) if 0 < x.shape[1] <= 12 else np.asarray(x.max(axis=1))


@quietly
def largest_sums(x: Any, k: int) -> Any:
    """Return the sums of the k largest entries of each row, with the k largest errors."""
    k = min(k, x.shape[1])
    if k == 1:
        return row_maxima(x)
    if not isinstance(x, Bounded):
        return row_sums(np.partition(x, x.shape[1] - k, axis=1)[:, x.shape[1] - k :])
    found = row_sums(Bounded(np.partition(x.value, x.shape[1] - k, axis=1)[:, x.shape[1] - k :]))
    moved = x.error * k if isinstance(x.error, float) else largest_sums(x.error, k)
    return Bounded(found.value, (found.error + moved) * growth(k))


@quietly
def remainder(s: Floats, x: Any) -> Any:
    r"""Return :math:`s_i - \sum_k x_{ik}` for exact s, to full accuracy despite cancellation."""
    if not isinstance(x, Bounded):
        return s - row_sums(x)
    left, slips, size = np.array(s, dtype=np.float64), np.zeros(len(s)), np.zeros(len(s))
    k = x.shape[1]
    for column in x.value.T:
        taken = left - column
        back = taken - left
        slip = (left - (taken - back)) + (-column - back)
        left, slips, size = taken, slips + slip, size + abs(slip)
    value = left + slips
    error = abs(value) * roundings(1) + size * roundings(k + 2)
    if not x.is_exact:
        error = error + (x.error * k if isinstance(x.error, float) else x.error.sum(axis=1))
    return Bounded(value, error * growth(k))


@quietly
def log1p_exp(x: Any) -> Any:
    r"""Return :math:`\ell = \log(1 + e^x)` of each entry; see :func:`log1p_sum_exp`."""
    a = x.value if isinstance(x, Bounded) else x
    value = np.maximum(a, 0.0) + np.log1p(np.exp(-abs(a)))
    return _softened(value, x.error, 1) if isinstance(x, Bounded) else value


@quietly
def log1p_sum_exp(x: Any) -> Any:
    r"""Return :math:`\ell = \log(1 + \sum_k e^{x_{ik}})` of each row."""
    a = x.value if isinstance(x, Bounded) else x
    top = np.maximum(row_maxima(a), 0.0)
    terms = np.exp(a - top[:, None])
    # The largest term itself is taken out, be it that of 0 or that of a column.
    rows = np.flatnonzero(top > 0.0)
    terms[rows, np.argmax(a[rows], axis=1)] = np.exp(-top[rows])
    value = top + np.log1p(row_sums(terms))
    if not isinstance(x, Bounded):
        return value
    reach = x.error if isinstance(x.error, float) else row_maxima(x.error)
    return _softened(value, reach, a.shape[1])


def _softened(value: Floats, reach: Any, k: int) -> Bounded:
    """Return a soft maximum of k numbers and 0, whose arguments have errors up to `reach`."""
    error = value * roundings(24 + 2 * k) + np.where(value < SMALL, LOST * k, 0.0)
    if not (isinstance(reach, float) and reach == 0.0):
        probability = -np.expm1(-(value + error) * GROW) * (1.0 + ELEMENTARY)
        error = error + np.minimum(reach, probability * expm1_above(reach))
    return Bounded(value, error * GROW)


@quietly
def entropy(x: Any, rest: Any, s: Any) -> Any:
    r"""Return :math:`h = -x\log(x/s)` for 0 ≤ x ≤ s, with x + rest = s, where s is exact."""
    (a, r), (b, t) = parts_of(x), parts_of(rest)
    share = a / s
    large = share > 0.5
    share = np.where(large, np.minimum(b / s, 1.0), share)
    logarithm = -np.where(large, np.log1p(-share), np.log(share))
    value = np.where(a > 0.0, a * logarithm, 0.0)
    if not (isinstance(x, Bounded) or isinstance(rest, Bounded)):
        return value
    moved = r * logarithm + np.where(large, (a + r) * (t / (s - b - t)), 0.0)
    error = (value * (ELEMENTARY + roundings(8)) + moved) * GROW
    sure = ((share > SMALL) | (large & (b == 0.0))) & (~large | ((share <= 0.6) & (t <= 0.1 * s)))
    if not (sure & (value >= SMALL) & (error <= value)).all():
        # What is known of h by itself; no quotient of doubles has a logarithm below −1500.
        farthest = (a + r) * GROW
        ratio = farthest / s
        logarithm = np.where(ratio < SMALL, 1500.0, -np.log(ratio) * (1.0 + 2.0 * ELEMENTARY))
        most = np.minimum(np.where(ratio < 0.36, farthest * logarithm, 0.38 * s), (b + t) * GROW)
        sure &= ~(error > most)
        value, error = np.where(sure, value, 0.5 * most), np.where(sure, error, 0.5 * most * GROW)
        nothing = (farthest == 0.0) | ((b == 0.0) & (np.asarray(t) == 0.0))
        error = error + np.where((value < SMALL) & ~nothing, LOST, 0.0)
    return Bounded(value, error)
