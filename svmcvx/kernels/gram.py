"""Gram matrices: bounds on their errors, and a cache for several problems on the same data.

A path over C, a comparison of formulations, or any other run of solves on one training set
evaluates the same kernel again and again. Those in the block ``with cache.shared():`` share what a
:class:`GramCache` has; problems of several classes share rows of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import Bounded, U
from svmcvx.certificate.rows import UNDERFLOW, inner_error
from svmcvx.data import Features
from svmcvx.kernels.class_rows import ClassRows
from svmcvx.kernels.columns import KernelProduct
from svmcvx.kernels.factor import GramFactor, gram_factor
from svmcvx.kernels.functions import EntryError, Kernel
from svmcvx.system import memory

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
