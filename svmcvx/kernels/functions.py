r"""Positive semidefinite kernels, evaluated in blocks.

============= ==================================================
kernel        :math:`k(a, b)`
============= ==================================================
Linear        :math:`a'b`
RBF           :math:`\exp(-\gamma \|a-b\|_2^2)`
Exponential   :math:`\exp(-\gamma \|a-b\|_2)`
Laplacian     :math:`\exp(-\gamma \|a-b\|_1)`
Polynomial    :math:`(\gamma\, a'b + c_0)^{\mathrm{degree}}`
Sigmoid       :math:`\tanh(\gamma\, a'b + c_0)` (indefinite in general)
Precomputed   the matrix passed in place of the data
============= ==================================================

``gamma`` is a positive number, ``"scale"`` for :math:`1/(d\,\mathrm{Var}[X])` or ``"auto"`` for
:math:`1/d`, as in scikit-learn; :meth:`Kernel.resolve` turns the words into numbers for given data.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray
from scipy.spatial.distance import cdist

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import ELEMENTARY, U, roundings
from svmcvx.certificate.rows import UNDERFLOW, inner_error, row_norms_above, row_norms_squared
from svmcvx.data import Features, check_choice, check_number, check_whole
from svmcvx.errors import DataError, did_you_mean
from svmcvx.system.deadline import check_cancelled

Matrix: TypeAlias = NDArray[Any]
KernelLike: TypeAlias = "Kernel | str | Callable[[Any, Any], Any] | None"


def lost_share(dtype: DTypeLike) -> float:
    """Share of |a|² + |b|² below which |a|² + |b|² − 2a'b has lost too many digits to be used."""
    return float(np.finfo(dtype).eps ** 0.4)


# Exponents γ‖a‖² of a shifted row beyond which a pair with it is either computed from differences
# or has an entry below e⁻³⁷; up to MANY dimensions.
FAR, MANY = 38.0 / lost_share(np.float64), 10_000
# Share of a row in the relative error of an exponential whose exponent is exact.
FLAT = 5.0 * U + ELEMENTARY
# Largest share of a row for which errors of single entries are not computed.
NOTICEABLE = 1e-10


class EntryError(NamedTuple):
    r"""A bound on the error of each entry of a computed kernel matrix.

    .. math:: |\hat K_{ij} - K_{ij}| \le |\hat K_{ij}|\,(r_i + c_j) + p_i q_j + a + E_{ij}

    The fields are r, c, p, q, a, and E where a bound does not separate.
    """

    rows: Floats
    columns: Floats
    left: Floats
    right: Floats
    absolute: float
    entries: Floats | None = None

    @classmethod
    def none(cls, m: int, n: int) -> EntryError:
        """Return the error of an exact matrix."""
        return factored_error(np.zeros(m), np.zeros(n), 0.0)

    def of_products(self, magnitude: Floats, weighted: Floats, v: Floats) -> Floats:
        r"""Return a bound on :math:`\sum_j |\hat K_{ij} - K_{ij}| |v_j|`, v of one or more columns.

        `magnitude` is at least :math:`|\hat K||v|`, `weighted` :math:`|\hat K|(c \circ |v|)`.
        """
        size = np.abs(v)
        bound = (self.rows * magnitude.T).T + weighted
        bound = bound + np.multiply.outer(self.left, self.right @ size)
        bound = bound + self.absolute * size.sum(axis=0)
        if self.entries is not None:
            bound = bound + self.entries @ size
        # Sums of positive numbers, enlarged by more than their rounding.
        return np.asarray(bound * (1.0 + (v.shape[0] + 8) * 2.0 * U) + UNDERFLOW)

    def rounded(self, times: float) -> EntryError:
        """Return the error of entries after this many more roundings."""
        return self._replace(rows=self.rows + times * U)

    def block(self, rows: Any, columns: Any) -> EntryError:
        """Return that of some rows and columns."""
        entries = None if self.entries is None else self.entries[rows][:, columns]
        sides = self.rows[rows], self.columns[columns], self.left[rows], self.right[columns]
        return EntryError(*sides, self.absolute, entries)

    def of_diagonal(self, diagonal: Floats) -> Floats:
        """Return the bounds on the errors of the diagonal of a square matrix."""
        bound = np.abs(diagonal) * (self.rows + self.columns) + self.left * self.right
        entries = 0.0 if self.entries is None else np.diagonal(self.entries)
        return np.asarray((bound + self.absolute + entries) * (1.0 + 16 * U) + UNDERFLOW)

    def matrix(self, values: Floats) -> Floats:
        """Return the bounds entry by entry."""
        bound = np.abs(values) * (self.rows[:, None] + self.columns[None, :])
        bound += np.outer(self.left, self.right) + self.absolute
        if self.entries is not None:
            bound += self.entries
        return np.asarray(bound * (1.0 + 16 * U) + UNDERFLOW)


def shift_error(a: Floats, gamma: float, d: int) -> Floats:
    """Return a row's share 4γ(d + 6)u a_i, enlarged, of the error of an exponent −γ‖a_i − b_j‖²."""
    with np.errstate(over="ignore"):
        exponent = gamma * a
    share = 1.02 * 4.0 * (d + 6) * U * exponent
    if d <= MANY:
        share = np.where(exponent > FAR, 0.0, share)
    return np.asarray(share + FLAT)


def distance_kernel_error(
    shape: tuple[int, ...], d: int, entries: Floats | None = None
) -> EntryError:
    """Return that of a kernel exp(−s), s ≥ 0 with a relative error of (d + 4)u: s exp(−s) ≤ 1/e."""
    m, n = shape
    floor = (0.4 * (d + 8) + 3.0) * U + 1e-300
    return EntryError(np.full(m, FLAT), np.zeros(n), np.zeros(m), np.zeros(n), floor, entries)


def exponential_error(
    values: Floats, rows: Floats, columns: Floats, d: int, close: Callable[[], NDArray[np.bool_]]
) -> EntryError:
    """Return the error of an RBF matrix by shares; `close` marks entries from differences."""
    flat = distance_kernel_error((rows.size, columns.size), d)
    largest = float(rows.max(initial=0.0)) + float(columns.max(initial=0.0))
    if d > MANY and not largest <= 0.01:
        return flat._replace(absolute=1.0)
    if not largest > NOTICEABLE:
        return flat._replace(rows=rows, columns=columns)
    entries = np.abs(values) * (rows[:, None] + columns[None, :])
    entries[close()] = 0.0
    return flat._replace(entries=entries)


def factored_error(left: Floats, right: Floats, absolute: float = UNDERFLOW) -> EntryError:
    """Return the error p_i q_j + a."""
    return EntryError(np.zeros(left.size), np.zeros(right.size), left, right, absolute)


def inner_error_of(A: Any, B: Any) -> EntryError:
    """Return the error of inner products of rows."""
    left = row_norms_above(A)
    right = left if B is A else row_norms_above(B)
    return factored_error(left, inner_error(int(A.shape[1]), right))


def affine_factors(A: Any, B: Any, gamma: float, coef0: float) -> tuple[Floats, Floats]:
    r"""Return p and q with :math:`|\gamma a_i'b_j + c_0| \le p_i q_j`, beyond their rounding."""
    root, constant = math.sqrt(gamma), math.sqrt(abs(coef0))
    p, q = ((root * row_norms_above(X) + constant) * (1.0 + 8.0 * U) for X in (A, B))
    return p, q


def _variance(X: Features, weight: Floats | None) -> float:
    if weight is None and not sp.issparse(X):
        return float(X.var())
    weight = np.ones(X.shape[0]) if weight is None else weight
    share = weight / (weight.sum() * X.shape[1])
    mean = float(share @ np.asarray(X.sum(axis=1)).ravel())
    if sp.issparse(X):
        return max(float(share @ row_norms_squared(X)) - mean**2, 0.0)
    return float(share @ row_norms_squared(X - mean))


class Kernel(ABC):
    """A kernel function; immutable, callable on two blocks of rows.

    Subclasses are frozen dataclasses whose fields are the kernel's parameters.
    """

    name: ClassVar[str]
    # Of the matrices on any data: positive semidefinite (for coef0 ≥ 0), no entry is negative, and
    # the bound on their errors separates.
    _definite: ClassVar[bool] = False
    positive: ClassVar[bool] = False
    separable_error: ClassVar[bool] = False

    @property
    def definite(self) -> bool:
        """Whether it is positive semidefinite on any data, so that no Gram matrix is tested."""
        return self._definite and getattr(self, "coef0", 0.0) >= 0

    @abstractmethod
    def block(self, A: Any, B: Any) -> Matrix:
        """Return the matrix of ``k(a, b)`` for validated rows, in their precision."""

    @abstractmethod
    def diagonal(self, A: Features) -> Floats:
        """Return ``k(a, a)`` for every row of `A`."""

    def diagonal_above(self, A: Features) -> Floats:
        """Return upper bounds of ``k(a, a)`` of a definite kernel."""
        # A power of a sum of non-negative products and a constant.
        times = int(getattr(self, "degree", 1)) * (int(A.shape[1]) + 10)
        enlarge = (1.0 + float(np.expm1(1.02 * times * U))) * (1.0 + 16 * U)
        return np.asarray(self.diagonal(A) * enlarge + UNDERFLOW)

    def error_of(self, A: Any, B: Any, values: Matrix) -> EntryError:
        """Return a bound on the error of :meth:`block`, its double-precision `values`.

        A kernel that does not override this method is taken to be exact.
        """
        return EntryError.none(*values.shape)

    def bounded_block(self, A: Any, B: Any) -> tuple[Matrix, EntryError]:
        """Return :meth:`block` in double precision, and a bound on the error of its entries."""
        values = np.asarray(self.block(A, B), dtype=np.float64)
        return values, self.error_of(A, B, values)

    def __call__(self, A: Any, B: Any = None, *, dtype: DTypeLike = np.float64) -> Matrix:
        """Return the kernel matrix between the rows of `A` and of `B`, by default of `A`."""
        symmetric = B is None
        A = A.astype(dtype, copy=False)
        B = A if symmetric else B.astype(dtype, copy=False)
        matrix = np.asarray(self.block(A, B), dtype=dtype)
        return symmetrised(matrix) if symmetric else matrix

    def resolve(self, X: Features, weight: Floats | None = None) -> Self:
        """Return this kernel with ``gamma`` as a number fitted to `X`.

        With weights the variance of ``"scale"`` is the weighted one, so that weight k means k
        copies.
        """
        gamma = getattr(self, "gamma", None)
        if not isinstance(gamma, str):
            return self
        variance = 1.0 if gamma == "auto" else _variance(X, weight)
        found = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        return replace(self, gamma=found)  # type: ignore[type-var]

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the parameters, for storage."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters, in scikit-learn's convention."""
        return {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]


def _check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check parameters of kernels by their names."""
    gamma = parameters.get("gamma", "scale")
    if not isinstance(gamma, str):
        check_number(gamma, "gamma")
    elif gamma not in ("scale", "auto"):
        near = did_you_mean(gamma, ("scale", "auto"))
        raise DataError(f"gamma must be a positive number, 'scale' or 'auto', got {gamma!r}{near}")
    if "degree" in parameters:
        check_whole(parameters["degree"], "degree", 1)
    if "coef0" in parameters:
        check_number(parameters["coef0"], "coef0")


class _Scaled(Kernel):
    """Kernels with a parameter ``gamma``."""

    gamma: float | str

    def __post_init__(self) -> None:
        _check_parameters(vars(self))

    @property
    def _gamma(self) -> float:
        if isinstance(self.gamma, str):
            raise DataError(f"gamma={self.gamma!r} needs the data; call kernel.resolve(X) first")
        return float(self.gamma)


@dataclass(frozen=True)
class Linear(Kernel):
    """The kernel :math:`a'b`."""

    name: ClassVar[str] = "linear"
    _definite, separable_error = True, True

    def block(self, A: Any, B: Any) -> Matrix:
        return inner(A, B)

    def error_of(self, A: Any, B: Any, values: Matrix) -> EntryError:
        return inner_error_of(A, B)

    def diagonal(self, A: Features) -> Floats:
        return row_norms_squared(A).astype(np.float64)


@dataclass(frozen=True)
class _Stationary(_Scaled):
    """Kernels ``exp(-γ distance)``."""

    _definite, positive = True, True
    gamma: float | str = "scale"

    @abstractmethod
    def _distances(self, A: Any, B: Any) -> Matrix:
        """Return the distances of rows, in an array of its own."""

    def block(self, A: Any, B: Any) -> Matrix:
        exponent = self._distances(A, B)
        exponent *= -self._gamma
        return np.exp(exponent, out=exponent)

    def diagonal(self, A: Features) -> Floats:
        return np.ones(A.shape[0])

    def diagonal_above(self, A: Features) -> Floats:
        return self.diagonal(A)


@dataclass(frozen=True)
class RBF(_Stationary):
    r"""The Gaussian kernel :math:`\exp(-\gamma\|a-b\|_2^2)`.

    Parameters
    ----------
    gamma : float, "scale" or "auto"
        Inverse squared length, ``"scale"`` by default; :math:`\gamma = 1/(2\sigma^2)`.
    """

    name: ClassVar[str] = "rbf"

    def _distances(self, A: Any, B: Any) -> Matrix:
        return squared_distances(A, B)

    def error_of(self, A: Any, B: Any, values: Matrix) -> EntryError:
        """Return that of squared distances through the exponential."""
        gamma, d = self._gamma, int(A.shape[1])
        left, right = shifted(A, B)
        rows = columns = shift_error(row_norms_squared(left), gamma, d)
        if B is not A:
            columns = shift_error(row_norms_squared(right), gamma, d)
        return exponential_error(
            values, rows, columns, d, lambda: from_differences(*distances(A, B))
        )


@dataclass(frozen=True)
class Exponential(_Stationary):
    r"""The exponential kernel :math:`\exp(-\gamma\|a-b\|_2)`.

    This is the kernel that the released code of [Sun] computes under the name "Gaussian".

    Parameters
    ----------
    gamma : float, "scale" or "auto"
        Inverse length, ``"scale"`` by default (as for :class:`RBF`).
    """

    name: ClassVar[str] = "exponential"

    def _distances(self, A: Any, B: Any) -> Matrix:
        return np.asarray(np.sqrt(squared_distances(A, B)))

    def error_of(self, A: Any, B: Any, values: Matrix) -> EntryError:
        """Return that through the exponential: an error δ of the square is at most δ / length."""
        gamma, d = self._gamma, int(A.shape[1])
        squares, a, b = distances(A, B)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            lengths = np.sqrt(np.maximum(squares, 0.0))
            shift = (1.02 * 4.0 * (d + 6) * U * gamma) * (a[:, None] + b[None, :]) / lengths
            # These have a relative error, in the absolute part.
            shift[from_differences(squares, a, b)] = 0.0
            far = np.exp(np.minimum(1.01 * shift - 0.99 * gamma * lengths, 0.0))
            entries = np.where(shift <= 0.01, values * 1.01 * shift, far)
        return distance_kernel_error(values.shape, d, np.nan_to_num(entries, nan=1.0))


@dataclass(frozen=True)
class Laplacian(_Stationary):
    r"""The Laplacian kernel :math:`\exp(-\gamma\|a-b\|_1)`.

    Parameters
    ----------
    gamma : float, "scale" or "auto"
        Inverse length, ``"scale"`` by default (as for :class:`RBF`).
    """

    name: ClassVar[str] = "laplacian"
    separable_error = True

    def _distances(self, A: Any, B: Any) -> Matrix:
        """Return the distances; sparse blocks are made dense, as there is no product form."""
        return np.asarray(cdist(dense(A), dense(B), metric="cityblock"))

    def error_of(self, A: Any, B: Any, values: Matrix) -> EntryError:
        """Return that of sums of differences of the rows themselves through the exponential."""
        return distance_kernel_error(values.shape, int(A.shape[1]))


class _Affine(_Scaled):
    """Kernels that are a function of ``γ a'b + c0``."""

    separable_error = True
    coef0: float

    @abstractmethod
    def _of(self, argument: Matrix) -> Matrix:
        """Return the function of the argument."""

    def block(self, A: Any, B: Any) -> Matrix:
        argument = inner(A, B)
        argument *= self._gamma
        argument += self.coef0
        return self._of(argument)

    def diagonal(self, A: Features) -> Floats:
        return self._of(self._gamma * row_norms_squared(A) + self.coef0)


@dataclass(frozen=True)
class Polynomial(_Affine):
    r"""The polynomial kernel :math:`(\gamma\,a'b + c_0)^{\mathrm{degree}}`.

    Parameters
    ----------
    degree : int
        At least 1; 3 by default.
    gamma : float, "scale" or "auto"
        ``"scale"`` by default.
    coef0 : float
        0 by default; the kernel is positive semidefinite for ``coef0 >= 0``.
    """

    name: ClassVar[str] = "polynomial"
    _definite = True
    degree: int = 3
    gamma: float | str = "scale"
    coef0: float = 0.0

    def _of(self, argument: Matrix) -> Matrix:
        # By squares: a general power takes ten times as long.
        found, power, rest = None, argument, int(self.degree)
        while rest:
            if rest % 2:
                found = power if found is None else found * power
            rest //= 2
            power = power * power if rest else power
        return np.asarray(found)

    def error_of(self, A: Any, B: Any, values: Matrix) -> EntryError:
        r"""Return that of a power of an inner product.

        With :math:`p_i = \sqrt\gamma\|a_i\| + \sqrt{|c_0|}` and q alike the argument is at most
        :math:`p_i q_j`, with an error of :math:`(d+4)u\,p_i q_j`, so that the power's is at most
        :math:`((1 + (d+4)u)^{g} - 1 + 10u)(p_i q_j)^g`.
        """
        g, d = int(self.degree), int(A.shape[1])
        left, right = affine_factors(A, B, self._gamma, self.coef0)
        with np.errstate(over="ignore"):
            share = float(np.expm1(1.01 * g * (d + 6) * U)) + 12.0 * U + g * 4.0 * U
            return factored_error(left**g, share * right**g)


@dataclass(frozen=True)
class Sigmoid(_Affine):
    r"""The sigmoid kernel :math:`\tanh(\gamma\,a'b + c_0)`, indefinite in general.

    Parameters
    ----------
    gamma : float, "scale" or "auto"
        ``"scale"`` by default.
    coef0 : float
        0 by default.
    """

    name: ClassVar[str] = "sigmoid"
    gamma: float | str = "scale"
    coef0: float = 0.0

    def _of(self, argument: Matrix) -> Matrix:
        return np.tanh(argument)

    def error_of(self, A: Any, B: Any, values: Matrix) -> EntryError:
        """Return that of an inner product through the hyperbolic tangent, of slopes up to 1."""
        left, right = affine_factors(A, B, self._gamma, self.coef0)
        return factored_error(left, 1.01 * (int(A.shape[1]) + 6) * U * right, 2.0 * ELEMENTARY)


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The data passed *are* the kernel matrix.

    Training takes the symmetric Gram matrix of shape (n, n); a model then takes the matrix of shape
    (m, n) between new and training observations.
    """

    name: ClassVar[str] = "precomputed"
    separable_error = True

    def block(self, A: Any, B: Any) -> Matrix:
        """Refuse: there is no function to evaluate."""
        raise DataError("a precomputed kernel has no function; pass the matrix of new and old rows")

    def diagonal(self, A: Features) -> Floats:
        return np.asarray(A.diagonal(), dtype=np.float64)


def restricted(X: Features, rows: NDArray[np.intp], kernel: Any) -> Features:
    """Return rows of the data, and of a kernel matrix the columns, too."""
    if rows.size == X.shape[0]:
        return X
    return X[rows][:, rows] if isinstance(kernel, Precomputed) else X[rows]


@dataclass(frozen=True)
class CallableKernel(Kernel):
    """A kernel given by any function ``function(A, B) -> matrix``.

    Parameters
    ----------
    function : callable
        Takes arrays of shape (m, d) and (n, d), returns an array of shape (m, n). It has to be
        symmetric and positive semidefinite; the builders check both on the training data.
    """

    name: ClassVar[str] = "callable"
    separable_error = True
    function: Callable[[Any, Any], Any]

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise DataError(f"kernel must be an object, name or callable, got {self.function!r}")

    def block(self, A: Any, B: Any) -> Matrix:
        """Call the function and check the shape and the numbers it returns."""
        # It may write to what it gets, as compiled functions demand; some ask whether A is B.
        left = A.copy()
        right = left if B is A else B.copy()
        try:
            matrix = np.asarray(self.function(left, right))
        except Exception as error:
            raise DataError(f"the kernel function failed on two arrays: {error!r}") from error
        if matrix.shape != (A.shape[0], B.shape[0]) or matrix.dtype.kind not in "biuf":
            raise DataError(
                f"the kernel function returned an array of shape {matrix.shape} and dtype"
                f" {matrix.dtype}; a real matrix of shape {(A.shape[0], B.shape[0])} was expected"
            )
        if not np.isfinite(matrix).all():
            raise DataError("the kernel function returned NaN or infinity; correct it")
        return matrix

    def diagonal(self, A: Features) -> Floats:
        rows = (A[i : i + 1] for i in range(A.shape[0]))
        return np.array([float(self.block(row, row)[0, 0]) for row in rows])

    def to_dict(self) -> dict[str, Any]:
        """Refuse: a function cannot be stored without pickle."""
        raise DataError("a callable kernel cannot be stored in a file; use a named kernel")


_NAMED: dict[str, type[Kernel]] = {
    kernel.name: kernel
    for kernel in (Linear, RBF, Exponential, Laplacian, Polynomial, Sigmoid, Precomputed)
}
_NAMED["poly"] = Polynomial


def as_kernel(kernel: KernelLike, **parameters: Any) -> Kernel | None:
    """Return a kernel object for a name, a callable or a kernel; None stays None.

    Parameters
    ----------
    kernel : Kernel, str, callable or None
        Names are those of the module's table in lower case, and ``"poly"``.
    **parameters
        ``gamma``, ``degree``, ``coef0`` for kernels given by name; those that a kernel has not are
        checked and ignored.

    Returns
    -------
    Kernel or None
        None for None alone.

    Raises
    ------
    DataError
        If the name is unknown or a parameter out of range.

    Examples
    --------
    >>> from svmcvx.kernels import as_kernel
    >>> as_kernel("rbf", gamma=0.5)
    RBF(gamma=0.5)
    """
    if isinstance(kernel, str):
        cls = _NAMED.get(kernel) or _NAMED[check_choice(kernel, "kernel", tuple(_NAMED))]
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        # A kernel checks its own parameters.
        kernel = cls(**{name: parameters.pop(name) for name in names if name in parameters})
    _check_parameters(parameters)
    if kernel is None or isinstance(kernel, Kernel):
        return kernel
    if isinstance(kernel, type) and issubclass(kernel, Kernel):
        raise DataError(f"kernel must be an object, not a class; write {kernel.__name__}()")
    return CallableKernel(kernel)


def kernel_from_dict(stored: dict[str, Any]) -> Kernel:
    """Return the kernel that :meth:`Kernel.to_dict` described."""
    parameters = dict(stored)
    kernel = as_kernel(parameters.pop("name", ""), **parameters)
    if kernel is None:
        raise DataError("the kernel's description holds no name")
    return kernel


# Rows and columns of a part of a matrix that stays in the processor's cache with its transpose.
SQUARE = 256
# Parts, of some 0.1 ms each, between two looks whether anybody waits for the matrix.
POLLED = 32


def dense(A: Features) -> Matrix:
    return np.asarray(A.toarray() if sp.issparse(A) else A)


def inner(A: Features, B: Features) -> Matrix:
    """Return the inner products of all pairs of rows, dense."""
    return dense(A @ B.T)


def squared_distances(A: Features, B: Features) -> Matrix:
    r"""Return :math:`\|a_i - b_j\|_2^2` for all pairs of rows, shape (m, n).

    Computed as one matrix product on data shifted by a common centre, then recomputed from
    differences of the rows themselves for the pairs that are so close that the product has lost
    their digits. Duplicate rows have distance 0.
    """
    return distances(A, B)[0]


def shifted(A: Features, B: Features) -> tuple[Features, Features]:
    """Return dense rows less the mean of B; sparse ones as they are."""
    if sp.issparse(A) or sp.issparse(B):
        return A, B
    centre = np.asarray(B).mean(axis=0)
    return A - centre, B - centre


def distances(A: Features, B: Features) -> tuple[Matrix, Matrix, Matrix]:
    """Return squared distances, and squared norms :math:`a_i` and :math:`b_j` of shifted rows."""
    raw_A, raw_B = A, B
    A, B = shifted(A, B)
    a = row_norms_squared(A)
    b = row_norms_squared(B)
    found = np.ascontiguousarray(inner(A, B))
    share, n = lost_share(found.dtype), b.size
    # A part that stays in the processor's cache.
    rows = max(1, SQUARE**2 // 2 // max(n, 1))
    for start in range(0, a.size, rows):
        if start % (POLLED * rows) == 0:
            check_cancelled()
        part = found[start : start + rows]
        scale = a[start : start + rows, None] + b[None, :]
        part *= -2.0
        part += scale
        scale *= share
        close = np.flatnonzero(part <= scale)
        for first in range(0, close.size, 65536):
            i, j = np.divmod(close[first : first + 65536], n)
            part[i, j] = row_norms_squared(raw_A[start + i] - raw_B[j])
    return found, a, b


def from_differences(squares: Matrix, a: Matrix, b: Matrix) -> NDArray[np.bool_]:
    """Return the mask of pairs of :func:`distances` that always come from differences."""
    return np.asarray(squares <= 0.5 * lost_share(squares.dtype) * (a[:, None] + b[None, :]))


def row_norms(A: Features) -> Matrix:
    """Return the Euclidean norm of each row."""
    return np.asarray(np.sqrt(row_norms_squared(A)))


def distances_above(A: Any, B: Any) -> NDArray[np.float64]:
    """Return upper bounds on the distances of rows; 0 for equal ones."""
    squares, a, b = distances(A, B)
    error = roundings(4 * (A.shape[1] + 8)) * (a[:, None] + b[None, :])
    error[from_differences(squares, a, b)] = 0.0
    # A difference that was squared and added has a relative error.
    share = 1.0 + roundings(A.shape[1] + 8)
    return np.asarray(np.sqrt(np.maximum(squares + error, 0.0)) * share)


def symmetrised(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the mean of a square matrix and its transpose, in parts that fit in a cache."""
    n, found = matrix.shape[0], np.empty_like(matrix)
    for i in range(0, n, SQUARE):
        check_cancelled()
        rows = slice(i, i + SQUARE)
        for j in range(0, i + 1, SQUARE):
            columns = slice(j, j + SQUARE)
            mean = matrix[rows, columns] + matrix[columns, rows].T
            mean *= 0.5
            found[rows, columns], found[columns, rows] = mean, mean.T
    return found
