"""A cache of Gram matrices for several problems on the same data.

A path over C, a comparison of formulations, or any other run of solves on one training set
evaluates the same kernel again and again. A :class:`GramCache` is passed to those that share it by
the kernel: ``cache.kernel(RBF(0.1))``; problems of several classes share rows of the matrix by
:meth:`GramCache.class_rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import Features
from svmcvx.kernels.class_rows import ClassRows
from svmcvx.kernels.columns import KernelProduct
from svmcvx.kernels.entry_error import EntryError
from svmcvx.kernels.functions import Kernel
from svmcvx.kernels.gram_factor import GramFactor, gram_factor
from svmcvx.system import memory

Floats: TypeAlias = NDArray[np.float64]

# Default share of the free memory, and a number of bytes that suffices, so that the cache seldom
# depends on other programs.
SHARE, ENOUGH = 0.25, 2.0**32


@dataclass
class CachedGram:
    """A Gram matrix and what has been computed from it."""

    kernel: Kernel
    X: Features
    matrix: Floats
    known_error: EntryError | None = None
    _factors: dict[tuple[bool, str], GramFactor] = field(default_factory=dict, repr=False)
    _latest: tuple[Floats, KernelProduct] | None = field(default=None, repr=False)

    def holds(self, kernel: Kernel, X: Features) -> bool:
        """Tell whether this is the matrix of a kernel on these rows, in this order."""
        return self.kernel == kernel and _same(self.X, X)

    @cached_property
    def error(self) -> EntryError:
        return (
            self.kernel.error_of(self.X, self.X, self.matrix)
            if self.known_error is None
            else self.known_error
        )

    def product(self, v: Floats, evaluate: Callable[[], KernelProduct]) -> KernelProduct:
        """Return the product with `v`, cached for the next problem, which starts from these
        coefficients.
        """
        if self._latest is None or not np.array_equal(self._latest[0], v):
            self._latest = v.copy(), evaluate()
        return KernelProduct(*(part.copy() for part in self._latest[1]))

    def factor(self, K: Floats, *, constant: bool, indefinite: str) -> GramFactor:
        """Return the factor of `K`, which is the matrix, or the matrix plus one; computed once."""
        key = constant, indefinite
        if key not in self._factors:
            self._factors[key] = gram_factor(K, indefinite=indefinite)
        return self._factors[key]

    @property
    def bytes(self) -> float:
        """Memory of the matrix and a factor of the same size."""
        return 16.0 * self.matrix.size


@dataclass
class _KeptCross:
    """The kernel between new observations and those of a training set."""

    kernel: Kernel
    A: Features
    B: Features
    matrix: Floats

    @property
    def bytes(self) -> float:
        return 8.0 * self.matrix.size


class GramCache:
    """Cached Gram matrices of some kernels on some data."""

    def __init__(self, share: float = SHARE) -> None:
        self._budget = min(share * memory.available(), ENOUGH)
        self._grams: list[CachedGram] = []
        self._crosses: list[_KeptCross] = []
        self._class_rows: list[ClassRows] = []

    def __reduce__(self) -> Any:
        return GramCache, ()

    def _room(self) -> float:
        """Bytes that are left."""
        kept: list[CachedGram | _KeptCross | ClassRows] = [
            *self._grams,
            *self._crosses,
            *self._class_rows,
        ]
        return self._budget - sum(each.bytes for each in kept)

    def kernel(self, kernel: Kernel) -> CachedKernel:
        """Return a kernel with the same values whose Gram matrices on training data are cached
        here.
        """
        return CachedKernel(kernel, self)

    def gram(
        self, kernel: Kernel, X: Features, evaluate: Callable[[], Floats]
    ) -> CachedGram | None:
        """Return the cached matrix of a kernel on these rows; it is evaluated if it is new."""
        for entry in self._grams:
            if entry.holds(kernel, X):
                return entry
        # The matrix and a factor of the same size.
        needed = 16.0 * float(X.shape[0]) ** 2
        while (self._grams or self._crosses) and needed > self._room():
            (self._crosses or self._grams).pop(0)
        if needed > self._room():
            return None
        self._grams.append(CachedGram(kernel, X.copy(), np.asarray(evaluate(), dtype=np.float64)))
        return self._grams[-1]

    def cross(self, kernel: Kernel, A: Features, B: Features) -> Floats | None:
        """Return the cached matrix of a kernel between new rows and those of a training set,
        evaluated once.
        """
        for entry in self._crosses:
            if entry.kernel == kernel and _same(entry.A, A) and _same(entry.B, B):
                return entry.matrix
        needed = 8.0 * float(A.shape[0]) * float(B.shape[0])
        while self._crosses and needed > self._room():
            self._crosses.pop(0)
        if needed > self._room():
            return None
        self._crosses.append(
            _KeptCross(kernel, A.copy(), B.copy(), np.asarray(kernel(A, B), dtype=np.float64))
        )
        return self._crosses[-1].matrix

    def class_rows(
        self, kernel: Kernel | None, X: Floats, starts: NDArray[np.int64], room: int
    ) -> ClassRows:
        """Return rows of a kernel matrix by group, which keep what has been computed of them if
        there is room for all.
        """
        for entry in self._class_rows:
            if (
                entry.kernel == kernel
                and np.array_equal(entry.starts, starts)
                and _same(entry.X, X)
            ):
                return entry
        found = ClassRows(kernel, X, starts, room)
        if X.shape[0] ** 2 <= room and found.bytes <= self._room():
            self._class_rows.append(found)
        return found


@dataclass(frozen=True)
class CachedKernel(Kernel):
    """A kernel whose Gram matrices on training data a cache keeps; pickled, it is the kernel alone."""

    name: ClassVar[str] = "cached"
    kernel: Kernel
    cache: GramCache = field(compare=False, repr=False)

    def block(self, A: Any, B: Any) -> NDArray[Any]:
        return self.kernel.block(A, B)

    def error_of(self, A: Any, B: Any, values: NDArray[Any]) -> EntryError:
        """Return the kernel's bound."""
        return self.kernel.error_of(A, B, values)

    def diagonal(self, A: Features) -> Floats:
        return self.kernel.diagonal(A)

    def resolve(self, X: Features, weight: Floats | None = None) -> CachedKernel:
        """Return the kernel with its parameters as numbers, and the same cache."""
        return CachedKernel(self.kernel.resolve(X, weight), self.cache)

    def to_dict(self) -> dict[str, Any]:
        """Return the kernel's name and parameters."""
        return self.kernel.to_dict()

    def __reduce__(self) -> Any:
        return _alone, (self.kernel,)

    def __str__(self) -> str:
        return str(self.kernel)


def _alone(kernel: Kernel) -> Kernel:
    return kernel


def _same(A: Any, B: Any) -> bool:
    if A is B:
        return True
    if A.shape != B.shape or sp.issparse(A) != sp.issparse(B):
        return False
    if not sp.issparse(A):
        return bool(np.array_equal(A, B))
    return all(
        np.array_equal(getattr(A, part), getattr(B, part)) for part in ("data", "indices", "indptr")
    )
