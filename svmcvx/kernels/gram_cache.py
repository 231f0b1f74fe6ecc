"""A cache of Gram matrices for several problems on the same data.

A path over C, a comparison of formulations, or any other run of solves on one training set
evaluates the same kernel again and again. A :class:`GramCache` is passed to those that share it by
the kernel: ``cache.kernel(RBF(0.1))``; problems of several classes share rows of the matrix by
:meth:`GramCache.class_rows`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.data import Features
from svmcvx.kernels.class_rows import ClassRows
from svmcvx.kernels.columns import KernelProduct
from svmcvx.kernels.entry_error import EntryError
from svmcvx.kernels.functions import Kernel
from svmcvx.kernels.gram_factor import GramFactor, gram_factor
from svmcvx.system import memory


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

    kind: str
    kernel: Kernel | None
    data: tuple[Any, ...]
    value: Any
    bytes: float


class GramCache:
    """Cached Gram matrices of some kernels on some data."""

    def __init__(self, share: float = 0.25) -> None:
        # At most 4 GiB, so that the cache seldom depends on other programs.
        self._budget = min(share * memory.available(), 2.0**32)
        self._entries: list[_Entry] = []

    def __reduce__(self) -> Any:
        return GramCache, ()

    def kernel(self, kernel: Kernel) -> CachedKernel:
        """Return a kernel with the same values, whose training Gram matrices are cached here."""
        return CachedKernel(kernel, self)

    def _kept(
        self,
        kind: str,
        kernel: Kernel | None,
        data: tuple[Any, ...],
        needed: float,
        evaluate: Callable[[], Any],
    ) -> Any:
        """Return a cached value, evaluated if it is new; None if there is no room for it."""
        for entry in self._entries:
            if (entry.kind, entry.kernel) == (kind, kernel) and all(
                map(same_rows, entry.data, data)
            ):
                return entry.value
        if needed > self._budget:
            return None
        while needed > self._budget - sum(entry.bytes for entry in self._entries):
            self._entries.pop(0)
        own = tuple(array.copy() for array in data)
        self._entries.append(_Entry(kind, kernel, own, evaluate(), needed))
        return self._entries[-1].value

    def gram(
        self, kernel: Kernel, X: Features, evaluate: Callable[[], Floats]
    ) -> CachedGram | None:
        """Return the cached matrix of a kernel on these rows; it is evaluated if it is new."""
        # The matrix and a factor of the same size.
        needed = 16.0 * float(X.shape[0]) ** 2
        found: CachedGram | None = self._kept(
            "gram", kernel, (X,), needed, lambda: CachedGram(kernel, X, evaluate())
        )
        return found

    def class_rows(
        self, kernel: Kernel | None, X: Floats, starts: NDArray[np.int64], room: int
    ) -> ClassRows:
        """Return rows of a kernel matrix by group, kept once computed if there is room for all."""
        needed = float(X.shape[0]) ** 2
        found: ClassRows | None = None
        if needed <= room:
            found = self._kept(
                "rows",
                kernel,
                (X, starts),
                8.0 * needed,
                lambda: ClassRows(kernel, X, starts, room),
            )
        return found or ClassRows(kernel, X, starts, room)


@dataclass(frozen=True)
class CachedKernel(Kernel):
    """A kernel with cached Gram matrices on training data; pickled, it is the kernel alone."""

    name: ClassVar[str] = "cached"
    kernel: Kernel
    cache: GramCache = field(compare=False, repr=False)

    def block(self, A: Any, B: Any) -> NDArray[Any]:
        return self.kernel.block(A, B)

    def error_of(self, A: Any, B: Any, values: NDArray[Any]) -> EntryError:
        return self.kernel.error_of(A, B, values)

    def diagonal(self, A: Features) -> Floats:
        return self.kernel.diagonal(A)

    def resolve(self, X: Features, weight: Floats | None = None) -> CachedKernel:
        """Return the kernel with its parameters as numbers, and the same cache."""
        return CachedKernel(self.kernel.resolve(X, weight), self.cache)

    def to_dict(self) -> dict[str, Any]:
        return self.kernel.to_dict()

    def __reduce__(self) -> Any:
        return copy.copy, (self.kernel,)

    def __str__(self) -> str:
        return str(self.kernel)


def same_rows(A: Any, B: Any) -> bool:
    """Whether two arrays or sparse matrices have the same entries."""
    if A is B:
        return True
    if A.shape != B.shape or sp.issparse(A) != sp.issparse(B):
        return False
    parts = ("data", "indices", "indptr") if sp.issparse(A) else ()
    pairs = [(getattr(A, part), getattr(B, part)) for part in parts] or [(A, B)]
    return all(np.array_equal(a, b) for a, b in pairs)
