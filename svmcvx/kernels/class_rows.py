"""Rows of a kernel matrix for several problems on parts of the same observations, computed when
they are first used, and products with them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import Bounded
from svmcvx.certificate.rows import row_norms_squared
from svmcvx.kernels.class_rows_passes import EntryTerms, Pieces, add_scores
from svmcvx.kernels.columns import KernelColumns
from svmcvx.kernels.factor import is_definite
from svmcvx.kernels.functions import (
    RBF,
    SQUARE,
    CallableKernel,
    EntryError,
    Kernel,
    Linear,
    Precomputed,
    distance_kernel_error,
    inner_error_of,
)

Places: TypeAlias = NDArray[np.int64]

# Columns from which the whole matrix by one product costs less than the rows that are used, and
# those from which many rows by one product take half the time of as many single ones.
MANY_COLUMNS, SOME_COLUMNS = 200, 60
# Kernels of users, whose matrices are tested.
TESTED = Precomputed, CallableKernel
# Magnitudes of entries of the data, and their inverses, between which the squares of differences
# neither over- nor underflow noticeably.
LARGEST = 1e100


def begins(sizes: Places) -> Places:
    """Return where groups of these sizes begin, and the end of the last."""
    found = np.zeros(sizes.size + 1, dtype=np.int64)
    sizes.cumsum(out=found[1:])
    return found


class Layout:
    """Problems on parts of observations, sorted by group: each has one group, or two in order."""

    def __init__(self, starts: Any, groups: Any) -> None:
        self.starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.groups = np.ascontiguousarray(groups, dtype=np.int64)
        # An empty last group serves parts with one group only.
        sizes = np.zeros(self.starts.size, dtype=np.int64)
        sizes[:-1] = self.starts[1:] - self.starts[:-1]
        self._sizes = sizes[self.groups]
        self.sizes = self._sizes[:, 0] + self._sizes[:, 1]
        self.offsets = begins(self.sizes)
        self.largest, self.parts = int(self.sizes.max()), len(self.groups)

    def rows(self, part: int) -> NDArray[np.int64]:
        return self.all_rows[self.slices[part]]

    @cached_property
    def slices(self) -> list[slice]:
        """The numbers of each part."""
        return [slice(*ends) for ends in pairwise(self.offsets.tolist())]

    @cached_property
    def all_rows(self) -> NDArray[np.int64]:
        """The sorted observation of each number of an array of all parts."""
        sizes = self._sizes.ravel()
        shifts = self.starts[self.groups].ravel() - begins(sizes)[:-1]
        return np.asarray(np.arange(self.offsets[-1]) + shifts.repeat(sizes))


class ClassRows:
    """The kernel matrix of observations sorted by group, in pieces of a row and a group."""

    def __init__(self, kernel: Kernel | None, X: Floats, starts: Places, room: int) -> None:
        n, d = X.shape
        self.kernel, self.X, self.starts = kernel, X, starts
        self._used = np.zeros(1, dtype=np.int64)
        self._scratch = np.empty(int((starts[1:] - starts[:-1]).max()))
        groups = starts.size - 1
        whole, self.definite = None, True
        if not _by_rows(kernel) or (groups > 2 and d >= MANY_COLUMNS and n * n <= room):
            whole, self._error = self._whole()
            if isinstance(kernel, TESTED):
                exact = np.array_equal(whole, whole.T)
                self.definite = exact and is_definite(whole)
        # Where a few rows are far from all others, differences have the smaller errors.
        if whole is not None and self._error.entries is None:
            self._store = np.ascontiguousarray(whole, dtype=np.float64).reshape(-1)
            self._places = np.arange(n, dtype=np.int64)[:, None] * n + starts[None, :-1]
            self._rows, self._across, self._gamma = np.zeros((n, 0)), np.zeros(0), 0.0
            return
        self._error = self._row_error()
        self._store = np.empty(min(n * n, room))
        self._places = np.full((n, groups), -1, dtype=np.int64)
        # Columns of zeros, so that compiled code takes four at a time.
        zeros = np.zeros((n, -d % 4))
        self._rows = np.concatenate((X, zeros), axis=1) if zeros.size else np.ascontiguousarray(X)
        self._gamma = float(kernel.gamma) if isinstance(kernel, RBF) else 0.0
        groups_of_rows = [self._rows[a:b].T.reshape(-1) for a, b in pairwise(starts.tolist())]
        self._across = np.concatenate(groups_of_rows)

    @property
    def by_product(self) -> bool:
        """Whether :meth:`complete` saves time where most rows are needed."""
        n, d = self._rows.shape
        return d >= SOME_COLUMNS and self._store.size == n * n

    @property
    def computed(self) -> float:
        """The share of the matrix that is computed."""
        return float(self._used[0]) / self._store.size

    def complete(self, stop: Callable[[], bool]) -> None:
        """Compute missing rows by matrix products until `stop` returns True."""
        missing = np.flatnonzero((self._places < 0).all(axis=1))
        columns = KernelColumns(self.kernel or Linear(), self.X, self.X)
        for start in range(0, missing.size, SQUARE):
            rows = missing[start : start + SQUARE]
            block, error = columns.matrix(rows)
            if error.entries is not None or stop():
                return
            begin, n = self._used[0], block.shape[1]
            self._store[begin : begin + block.size] = block.reshape(-1)
            self._places[rows] = begin + n * np.arange(rows.size)[:, None] + self.starts[:-1]
            self._used[0] += block.size
            if isinstance(self.kernel, RBF):
                self._error.rows[rows] = error.rows
                self._error = self._error._replace(columns=error.columns)

    def _row_error(self) -> EntryError:
        """Return the bound on the errors of entries by compiled code."""
        n, d = self.X.shape
        if self.kernel is None:
            # Scores of linear machines are products with their normals.
            return EntryError.none(n, n)
        if isinstance(self.kernel, RBF):
            return distance_kernel_error((n, n), d)
        return inner_error_of(self.X, self.X)

    def _whole(self) -> tuple[Floats, EntryError]:
        """Return the whole matrix and a bound on the errors of its entries."""
        if self.kernel is None:
            return self.X @ self.X.T, self._row_error()
        if isinstance(self.kernel, Precomputed):
            return self.X, EntryError.none(*self.X.shape)
        if isinstance(self.kernel, RBF):
            return KernelColumns(self.kernel, self.X, self.X).matrix()
        return self.kernel.bounded_block(self.X, self.X)

    @staticmethod
    def takes(kernel: Kernel | None, X: Any, room: int) -> bool:
        """Whether rows of a kernel on dense data, and bounds on their errors, can be computed."""
        tested = isinstance(kernel, TESTED)
        whole = kernel is not None and kernel.separable_error and (kernel.definite or tested)
        return (
            (_by_rows(kernel) or (whole and X.shape[0] ** 2 <= room))
            and 1.0 / LARGEST <= getattr(kernel, "gamma", 1.0) <= LARGEST
            and max(float(X.max()), -float(X.min())) <= LARGEST
        )

    @property
    def passed(self) -> Pieces:
        """Arguments of compiled passes over the rows."""
        data = self._rows, self._across, self.starts, self._gamma
        return Pieces(*data, self._places, self._store, self._used, self._scratch)

    def diagonal(self) -> Floats:
        if self.kernel is None:
            return row_norms_squared(self.X)
        if isinstance(self.kernel, TESTED):
            return self._store[:: len(self.X) + 1]
        return np.asarray(self.kernel.diagonal(self.X), dtype=np.float64)

    def products(self, layout: Layout, v: Floats) -> Bounded | None:
        """Return Kv of each part, with bounds on errors of sums and entries; None without room."""
        error, scores, errors = self._error, np.zeros(v.size), np.zeros(v.size)
        rows = error.rows + error.columns.max(initial=0.0)
        terms = EntryTerms(rows, error.left, error.right, error.absolute)
        if not add_scores(layout.groups, layout.offsets, v, terms, scores, errors, self.passed):
            return None
        return Bounded(scores, errors)


def _by_rows(kernel: Kernel | None) -> bool:
    """Whether compiled code computes rows of the kernel."""
    return kernel is None or isinstance(kernel, (Linear, RBF))
