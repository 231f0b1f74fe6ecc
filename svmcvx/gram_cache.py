"""Gram matrices that are kept from one problem to the next on the same data.

A path over C, a comparison of formulations, or any other run of solves on one training set evaluates the same kernel
again and again. Inside :func:`gram_matrices_kept` every space asks here first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx import memory
from svmcvx.data import Features
from svmcvx.kernels import GramFactor, Kernel, gram_factor

__all__ = ["KeptGram", "gram_matrices_kept", "kept_cross", "kept_gram"]

Floats: TypeAlias = NDArray[np.float64]

# Share of the free memory that kept matrices, and their factors, may take together.
SHARE = 0.25


@dataclass
class KeptGram:
    """A Gram matrix and what has been computed from it.

    Attributes
    ----------
    kernel : Kernel
        With its parameters as numbers.
    X : ndarray or csr_array of shape (n, d)
    matrix : ndarray of shape (n, n)
        Symmetric; not to be changed.
    """

    kernel: Kernel
    X: Features
    matrix: Floats
    _factors: dict[tuple[bool, str], GramFactor] = field(default_factory=dict, repr=False)

    def holds(self, kernel: Kernel, X: Features) -> bool:
        """Tell whether this is the matrix of a kernel on these rows, in this order."""
        return self.kernel == kernel and _same(self.X, X)

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
        """Memory of the matrix."""
        return 8.0 * self.matrix.size


@dataclass
class _Kept:
    budget: float
    entries: list[KeptGram] = field(default_factory=list)
    crosses: list[_KeptCross] = field(default_factory=list)

    def room(self) -> float:
        """Bytes that are left."""
        return self.budget - sum(entry.bytes for entry in self.entries) - sum(entry.bytes for entry in self.crosses)


_kept: ContextVar[_Kept | None] = ContextVar("svmcvx_gram_matrices", default=None)


@contextmanager
def gram_matrices_kept(share: float = SHARE) -> Iterator[None]:
    """Keep Gram matrices for as long as the block lasts, up to a share of the memory that is free at its begin.

    A matrix that does not fit is not kept; solvers then do as they do without. Blocks may be nested: the outer one
    counts. Each thread has its own.

    Parameters
    ----------
    share : float
        Between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import svmcvx as sx
    >>> from svmcvx.gram_cache import gram_matrices_kept
    >>> X, y = np.array([[0.0], [1.0], [3.0], [4.0]]), [0, 0, 1, 1]
    >>> with gram_matrices_kept():
    ...     gaps = [sx.fast.psvm(X, y, C=C, p=2, kernel="rbf").certificate.gap for C in (0.1, 1.0)]
    >>> max(gaps) <= 1e-6
    True
    """
    if _kept.get() is not None:
        yield
        return
    token = _kept.set(_Kept(share * memory.available()))
    try:
        yield
    finally:
        _kept.reset(token)


def kept_gram(kernel: Kernel, X: Features, evaluate: Callable[[], Floats]) -> KeptGram | None:
    """Return the kept matrix of a kernel on these rows, after evaluating it if it is new.

    Parameters
    ----------
    kernel : Kernel
        With its parameters as numbers.
    X : ndarray or csr_array of shape (n, d)
    evaluate : callable
        Returns the symmetric matrix of shape (n, n).

    Returns
    -------
    KeptGram or None
        None outside :func:`gram_matrices_kept`, and if there is no room for the matrix and a factor.
    """
    kept = _kept.get()
    if kept is None:
        return None
    for entry in kept.entries:
        if entry.holds(kernel, X):
            return entry
    # The matrix and a factor of the same size.
    needed = 16.0 * float(X.shape[0]) ** 2
    while (kept.entries or kept.crosses) and needed > kept.room():
        (kept.crosses or kept.entries).pop(0)
    if needed > kept.room():
        return None
    kept.entries.append(KeptGram(kernel, X, np.asarray(evaluate(), dtype=np.float64)))
    return kept.entries[-1]


def kept_cross(kernel: Kernel, A: Features, B: Features) -> Floats | None:
    """Return the kept matrix of a kernel between new rows and those of a training set, evaluated once.

    Parameters
    ----------
    kernel : Kernel
        With its parameters as numbers.
    A, B : ndarray or csr_array of shape (m, d), (n, d)

    Returns
    -------
    ndarray of shape (m, n), or None
        Not to be changed. None outside :func:`gram_matrices_kept`, and if there is no room for it beside what is kept.
    """
    kept = _kept.get()
    if kept is None:
        return None
    for entry in kept.crosses:
        if entry.kernel == kernel and _same(entry.A, A) and _same(entry.B, B):
            return entry.matrix
    needed = 8.0 * float(A.shape[0]) * float(B.shape[0])
    while kept.crosses and needed > kept.room():
        kept.crosses.pop(0)
    if needed > kept.room():
        return None
    kept.crosses.append(_KeptCross(kernel, A, B, np.asarray(kernel(A, B), dtype=np.float64)))
    return kept.crosses[-1].matrix


def _same(A: Any, B: Any) -> bool:
    if A is B:
        return True
    if A.shape != B.shape or sp.issparse(A) != sp.issparse(B):
        return False
    if not sp.issparse(A):
        return bool(np.array_equal(A, B))
    return all(np.array_equal(getattr(A, part), getattr(B, part)) for part in ("data", "indices", "indptr"))
