"""Bounds on the errors of the entries of computed kernel matrices."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import ELEMENTARY, Bounded, U
from svmcvx.certificate.rows import UNDERFLOW, inner_error, row_norms_above

# Pairs of rows closer than this share of ‖a‖² + ‖b‖² are computed from differences (`distances`).
CLOSEST = float(np.finfo(np.float64).eps) ** 0.4
# Exponents γ‖a‖² of a shifted row beyond which a pair with it is either computed from differences
# or has an entry below e⁻³⁷; up to MANY dimensions.
FAR, MANY = 38.0 / CLOSEST, 10_000
# Share of a row in the relative error of an exponential whose exponent is exact.
FLAT = 5.0 * U + ELEMENTARY
# Largest share of a row for which errors of single entries are not computed.
NOTICEABLE = 1e-10


class EntryError(NamedTuple):
    r"""A bound on the error of each entry of a computed kernel matrix.

    .. math:: |\hat K_{ij} - K_{ij}| \le |\hat K_{ij}|\,(r_i + c_j) + p_i q_j + a + E_{ij}

    Attributes
    ----------
    rows, columns : ndarray of shape (m,), (n,)
        r and c.
    left, right : ndarray of shape (m,), (n,)
        p and q.
    absolute : float
        a.
    entries : ndarray of shape (m, n) or None
        E, where a bound does not separate.
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
        return cls(np.zeros(m), np.zeros(n), np.zeros(m), np.zeros(n), 0.0)

    def of_products(self, magnitude: Floats, weighted: Floats, v: Floats) -> Floats:
        r"""Return a bound on :math:`\sum_j |\hat K_{ij} - K_{ij}| |v_j|`.

        Parameters
        ----------
        magnitude : ndarray of shape (m,)
            At least :math:`|\hat K||v|`.
        weighted : ndarray of shape (m,)
            At least :math:`|\hat K|(c \circ |v|)`.
        v : ndarray of shape (n,)
            Or a matrix: each column is such a v.
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

    def of_positive_part(self, size: float) -> EntryError:
        """Return that of the positive part of a matrix whose rows have sums of at most `size`, from
        its eigenvalues and vectors.
        """
        return self._replace(absolute=self.absolute + 40.0 * self.rows.size * U * size)

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


def power_above(values: Floats, degree: int, d: int) -> Floats:
    """Return upper bounds of powers of sums of d non-negative products and a constant."""
    enlarge = (1.0 + float(np.expm1(1.02 * degree * (d + 10) * U))) * (1.0 + 16 * U)
    return np.asarray(values * enlarge + UNDERFLOW)


def distance_kernel_error(
    shape: tuple[int, ...], d: int, entries: Floats | None = None
) -> EntryError:
    """Return that of a kernel exp(−s), s ≥ 0 with a relative error of (d + 4)u: s exp(−s) ≤ 1/e."""
    floor = (0.4 * (d + 8) + 3.0) * U + 1e-300
    rows = np.full(shape[0], FLAT)
    return EntryError.none(*shape)._replace(rows=rows, absolute=floor, entries=entries)


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


def affine_factors(A: Any, B: Any, gamma: float, coef0: float) -> tuple[Floats, Floats]:
    r"""Return p and q with :math:`|\gamma a_i'b_j + c_0| \le p_i q_j`, beyond their rounding."""
    root, constant = math.sqrt(gamma), math.sqrt(abs(coef0))
    p, q = ((root * row_norms_above(X) + constant) * (1.0 + 8.0 * U) for X in (A, B))
    return p, q


# Terms of one part of a product, so that its error grows with their number and that of the parts.
COLUMNS = 256


@dataclass(frozen=True, eq=False)
class BoundedGram:
    """A symmetric matrix of inner products of feature vectors."""

    K: Floats
    error: EntryError

    @cached_property
    def _sizes(self) -> Floats:
        """|K|; K itself where no entry is negative."""
        return self.K if self.K.min(initial=0.0) >= 0.0 else np.abs(self.K)

    @property
    def diagonal(self) -> Bounded:
        """The squared norms of the feature vectors."""
        found = np.array(np.diagonal(self.K))
        return Bounded(found, self.error.of_diagonal(found))

    @property
    def row_errors(self) -> Floats:
        ones = np.ones(self.K.shape[0])
        return self.error.of_products(*self._magnitudes(ones), ones)

    def block(self, rows: NDArray[np.intp]) -> BoundedGram:
        """Return that of some of the feature vectors."""
        if rows.size == self.K.shape[0]:
            return self
        return BoundedGram(self.K[np.ix_(rows, rows)], self.error.block(rows, rows))

    def product(self, v: Floats) -> Bounded:
        """Return Kv, summed in parts; `v` may have several columns."""
        n = self.K.shape[0]
        f = np.zeros((n, *v.shape[1:]))
        for start in range(0, n, COLUMNS):
            f += self.K[:, start : start + COLUMNS] @ v[start : start + COLUMNS]
        magnitude, weighted = self._magnitudes(v)
        terms = min(COLUMNS, n) + n // COLUMNS + 3
        lost = inner_error(terms, magnitude) + self.error.of_products(magnitude, weighted, v)
        return Bounded(f, np.asarray(lost * (1.0 + 8 * U)))

    def _magnitudes(self, v: Floats) -> tuple[Floats, Floats]:
        """Return numbers that are at least |K||v| and |K|(c ∘ |v|)."""
        size = np.abs(v)
        both = np.stack([size, (self.error.columns * size.T).T], axis=-1).reshape(v.shape[0], -1)
        found = ((self._sizes @ both) * (1.0 + (v.shape[0] + 8) * 2.0 * U) + UNDERFLOW).reshape(
            *v.shape, 2
        )
        return found[..., 0], found[..., 1]

    def scaled(self, c: Floats) -> tuple[Floats, float]:
        """Return :math:`C^{1/2}KC^{1/2}` for c ≥ 0, and a bound on the norm of its error."""
        root = np.sqrt(c)
        M = (root[:, None] * self.K) * root
        M = (M + M.T) / 2.0
        size = M if self._sizes is self.K else np.abs(M)
        magnitude, weighted = self._magnitudes(root)
        entries = root * self.error.of_products(magnitude, weighted, root) * (1.0 + 16 * U)
        sums = 8 * U * size.sum(axis=1) + entries
        return M, float(sums.max(initial=0.0)) * (1.0 + 4 * c.size * U) + c.size * UNDERFLOW
