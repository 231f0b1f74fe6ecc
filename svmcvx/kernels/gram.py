"""Gram matrices: bounds on their errors, the factor :math:`K = LL'`, and a cache for several
problems on the same data.

A path over C, a comparison of formulations, or any other run of solves on one training set
evaluates the same kernel again and again. Those in the block ``with cache.shared():`` share what a
:class:`GramCache` has; problems of several classes share rows of the matrix.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import ArpackError, eigsh

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import EPS, TINY, Bounded, U
from svmcvx.certificate.rows import UNDERFLOW, inner_error
from svmcvx.data import Features, check_choice
from svmcvx.errors import DataError
from svmcvx.kernels.class_rows import ClassRows
from svmcvx.kernels.columns import KernelProduct
from svmcvx.kernels.functions import SQUARE, EntryError, Kernel
from svmcvx.system import memory
from svmcvx.system.deadline import checkpoint, run_with_deadline

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


# An entry, or a squared length in feature space, times a usual cost still is a number.
LARGEST_ENTRY = 1e250


@dataclass(frozen=True, eq=False)
class GramFactor:
    """A factor :math:`K_+ = LL'` of a Gram matrix."""

    L: Floats
    rank: int
    clipped_mass: float
    method: str
    projector: Floats | None = None
    values: Floats | None = None
    unit: Floats | None = None

    def expansion(self, w: Floats) -> Floats:
        if not w.any():
            return np.zeros(self.L.shape[0])
        if self.values is not None:
            # Columns of L, in the units, are orthogonal and have the eigenvalues as squared
            # lengths.
            v = self.L[:, : self.rank] @ (w[: self.rank] / self.values)
            return np.asarray(v if self.unit is None else v / self.unit**2)
        return np.asarray(sl.solve_triangular(self.L, w, trans="T", lower=True, check_finite=False))


def gram_factor(K: Floats, *, indefinite: str = "error", single: bool | None = None) -> GramFactor:
    """Factor a Gram matrix: Cholesky, else eigenvalues with clipping. With `single`, which says
    whether its entries are of single precision, it must be symmetric; else both are tested.
    """
    check_choice(indefinite, "indefinite", ("error", "clip"))
    K = np.asarray(K, dtype=np.float64)
    if K.ndim != 2 or K.shape[0] != K.shape[1]:
        raise DataError(f"the Gram matrix must be square, got shape {K.shape}")
    checkpoint()
    low, high = float(K.min(initial=0.0)), float(K.max(initial=0.0))
    if not math.isfinite(low + high):
        raise DataError("the Gram matrix has NaN or infinity; scale the data or reduce gamma")
    if (largest := max(high, -low)) > LARGEST_ENTRY:
        raise DataError(
            f"the Gram matrix has entries of {largest:.3g}, beyond {LARGEST_ENTRY:g}, where"
            " arithmetic overflows; scale the data or the kernel"
        )
    if single is None:
        require_symmetric(K)
    n = K.shape[0]
    try:
        L = run_with_deadline(np.linalg.cholesky, K)
        return GramFactor(L=L, rank=n, clipped_mass=0.0, method="cholesky")
    except np.linalg.LinAlgError:
        pass
    # In units of each observation's length, so that a few long observations do not hide negative or
    # small eigenvalues of the others.
    length = np.sqrt(np.maximum(np.diagonal(K), 0.0))
    unit = np.where(length > 0, length, 1.0)
    scaled = K / unit[:, None] / unit[None, :]
    if indefinite == "clip" and _clearly_indefinite(scaled):
        return _from_spectrum(*run_with_deadline(np.linalg.eigh, K), None)
    values, vectors = run_with_deadline(np.linalg.eigh, scaled)
    largest = float(np.abs(values).max(initial=0.0))
    if not (values < -10 * n * EPS * largest).any():
        return _from_spectrum(values, vectors, unit)
    single = is_single(K) if single is None else single
    tolerated = n * (float(np.finfo(np.float32).eps) if single else 10 * EPS) * largest
    if indefinite == "error" and (values < -tolerated).any():
        raise DataError(
            f"the kernel is indefinite on these data: {int((values < -tolerated).sum())} of"
            f" {n} eigenvalues are negative, with the diagonal scaled to 1 the smallest"
            f" {values[0]:.3g} against the largest {values[-1]:.3g}; use a positive semidefinite"
            " kernel, or pass indefinite='clip' to replace the Gram matrix by its positive part"
            " (recorded in the certificate)"
        )
    return _from_spectrum(*run_with_deadline(np.linalg.eigh, K), None)


def _clearly_indefinite(K: Floats) -> bool:
    """Whether a Ritz value, at least the smallest eigenvalue, is negative beyond rounding."""
    n, size = K.shape[0], float(np.abs(K).sum(axis=1).max())
    if n < 100:
        return False
    options: Any = {"k": 1, "which": "SA", "v0": np.cos(np.arange(n)), "tol": 0.1}
    try:
        least = run_with_deadline(partial(eigsh, return_eigenvectors=False, **options), K)
    except ArpackError:
        return False
    return bool(least[0] < -10 * n * EPS * size)


def _from_spectrum(values: Floats, vectors: Floats, unit: Floats | None) -> GramFactor:
    """Return the factor from a spectrum in the units of the observations, or of a positive part."""
    n, total = values.size, float(np.abs(values).sum())
    significant = values > 10 * n * EPS * float(np.abs(values).max(initial=0.0))
    basis, rank = vectors[:, significant], int(significant.sum())
    L = basis * np.sqrt(values[significant]) if rank else np.zeros((n, 1))
    return GramFactor(
        L=L if unit is None else unit[:, None] * L,
        rank=rank,
        clipped_mass=float(-values[values < 0].sum() / max(total, TINY)),
        method="eigh",
        projector=basis if unit is None else None,
        values=values[significant],
        unit=unit,
    )


def require_symmetric(K: Floats) -> None:
    r"""Raise unless :math:`|K_{ij} - K_{ji}|` is rounding in :math:`\sqrt{K_{ii} K_{jj}}`."""
    length = np.sqrt(np.abs(np.diagonal(K)))
    # Some roundings of numbers in single precision; of others, more than the digits of a product.
    share = 64 * float(np.finfo(np.float32).eps) if is_single(K) else 1e-8
    for start in range(0, length.size, SQUARE):
        part, rest = slice(start, start + SQUARE), slice(start, None)
        off = np.abs(K[part, rest] - K[rest, part].T) > share * np.outer(length[part], length[rest])
        if not off.any():
            continue
        i, j = np.argwhere(off)[0] + start
        raise DataError(
            f"the Gram matrix is not symmetric: k(x_{i}, x_{j}) = {float(K[i, j])!r} and"
            f" k(x_{j}, x_{i}) = {float(K[j, i])!r}; pass k(x_i, x_j) for all pairs of training"
            " observations, by a symmetric function"
        )


def is_single(K: Floats) -> bool:
    """Whether a kernel was rounded to single precision: all numbers of its matrix are."""
    with np.errstate(over="ignore"):
        return (
            K.size > 1
            and bool((K[0] == K[0].astype(np.float32)).all())
            and bool((K.astype(np.float32) == K).all())
        )


@dataclass
class CachedGram:
    """A Gram matrix, and the last product and the factors that were computed from it."""

    kernel: Kernel
    X: Features
    matrix: Floats
    known_error: EntryError | None = None
    _factors: dict[tuple[bool, str], GramFactor] = field(default_factory=dict, repr=False)
    _latest: tuple[Floats, KernelProduct] | None = field(default=None, repr=False)

    @cached_property
    def error(self) -> EntryError:
        return self.known_error or self.kernel.error_of(self.X, self.X, self.matrix)

    def product(self, v: Floats, evaluate: Callable[[], KernelProduct]) -> KernelProduct:
        """Return the product with `v`, cached for the next problem, which starts from it."""
        if self._latest is None or not np.array_equal(self._latest[0], v):
            self._latest = v.copy(), evaluate()
        return KernelProduct(*(part.copy() for part in self._latest[1]))

    def factor(self, K: Floats, *, constant: bool, indefinite: str) -> GramFactor:
        """Return the factor of `K`, which is the matrix, or the matrix plus one; computed once."""
        key = constant, indefinite
        if key not in self._factors:
            self._factors[key] = gram_factor(K, indefinite=indefinite)
        return self._factors[key]


class _Entry(NamedTuple):
    """A cached value of a kernel on some arrays, and its memory."""

    kind: tuple[str, Kernel | None]
    data: tuple[Any, ...]
    value: Any
    bytes: float


class GramCache:
    """Cached Gram matrices of some kernels on some data."""

    def __init__(self, share: float = 0.25) -> None:
        # At most 4 GiB, so that the cache seldom depends on other programs.
        self._budget = min(share * memory.available(), 2.0**32)
        self._entries: list[_Entry] = []

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Share the matrices with all problems that are stated in the block."""
        token = _shared.set(self)
        try:
            yield
        finally:
            _shared.reset(token)

    def _kept(
        self, kind: tuple[str, Kernel | None], data: Any, needed: float, evaluate: Callable[[], Any]
    ) -> Any:
        """Return a cached value, evaluated if it is new; None if there is no room for it."""
        for entry in self._entries:
            if entry.kind == kind and all(map(same_rows, entry.data, data)):
                return entry.value
        if needed > self._budget:
            return None
        while needed > self._budget - sum(entry.bytes for entry in self._entries):
            self._entries.pop(0)
        own = tuple(array.copy() for array in data)
        self._entries.append(_Entry(kind, own, evaluate(), needed))
        return self._entries[-1].value

    def gram(
        self, kernel: Kernel, X: Features, evaluate: Callable[[], Floats]
    ) -> CachedGram | None:
        """Return the cached matrix of a kernel on these rows; it is evaluated if it is new."""
        # The matrix and a factor of the same size.
        needed = 16.0 * float(X.shape[0]) ** 2
        found: CachedGram | None = self._kept(
            ("gram", kernel), (X,), needed, lambda: CachedGram(kernel, X, evaluate())
        )
        return found

    def class_rows(
        self, kernel: Kernel | None, X: Floats, starts: NDArray[np.int64], room: int
    ) -> ClassRows:
        """Return rows of a kernel matrix by group, kept once computed if there is room for all."""
        needed, made = float(X.shape[0]) ** 2, partial(ClassRows, kernel, X, starts, room)
        found: ClassRows | None = None
        if needed <= room:
            found = self._kept(("rows", kernel), (X, starts), 8.0 * needed, made)
        return found or made()


_shared: ContextVar[GramCache | None] = ContextVar("svmcvx_gram_cache", default=None)


def shared_cache() -> GramCache | None:
    """Return the cache of the block, None without any."""
    return _shared.get()


def same_rows(A: Any, B: Any) -> bool:
    """Whether two arrays or sparse matrices have the same entries."""
    if A is B:
        return True
    if A.shape != B.shape or sp.issparse(A) != sp.issparse(B):
        return False
    parts = ("data", "indices", "indptr") if sp.issparse(A) else ()
    pairs = [(getattr(A, part), getattr(B, part)) for part in parts] or [(A, B)]
    return all(np.array_equal(a, b) for a, b in pairs)
