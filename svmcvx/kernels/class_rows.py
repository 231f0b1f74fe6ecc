"""Rows of a kernel matrix for several problems on parts of the same observations, computed when
they are first used, and products with them.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate.bounded import Bounded, U
from svmcvx.certificate.rows import UNDERFLOW, inner_error, row_norms_above
from svmcvx.kernels.class_rows_passes import EntryTerms, Pieces, add_scores, write_places
from svmcvx.kernels.columns import KernelColumns, is_definite
from svmcvx.kernels.entry_error import FLAT, EntryError, distance_kernel_floor
from svmcvx.kernels.functions import RBF, Kernel, Laplacian, Linear, Polynomial, row_norms_squared

Floats: TypeAlias = NDArray[np.float64]
Places: TypeAlias = NDArray[np.int64]

# Columns from which the whole matrix by one product costs less than the rows that are used, and
# observations up to which it does.
MANY_COLUMNS = 200
WHOLE_ROWS = 4000
# Magnitudes of entries of the data, and their inverses, between which the squares of differences
# neither over- nor underflow noticeably.
LARGEST = 1e100


class Layout:
    """Problems on parts of observations that are sorted by group: each has all of one group, or of
    two, one after the other.
    """

    def __init__(self, starts: Any, groups: Any) -> None:
        self.starts = np.ascontiguousarray(starts, dtype=np.int64)
        self.groups = np.ascontiguousarray(groups, dtype=np.int64)
        # A last one without observations is the second group of parts that have none.
        sizes = np.append(self.starts[1:] - self.starts[:-1], 0)
        one, other = self.groups.T
        self.sizes = sizes[one] + sizes[other]
        self.offsets = np.zeros(self.sizes.size + 1, dtype=np.int64)
        self.sizes.cumsum(out=self.offsets[1:])
        self.largest = int(self.sizes.max())

    @property
    def parts(self) -> int:
        return int(self.groups.shape[0])

    def rows(self, part: int) -> NDArray[np.int64]:
        one, other = self.groups[part]
        found = np.arange(self.starts[one], self.starts[one + 1])
        return (
            found
            if other < 0
            else np.concatenate([found, np.arange(self.starts[other], self.starts[other + 1])])
        )

    def of_part(self, part: int) -> slice:
        return slice(int(self.offsets[part]), int(self.offsets[part + 1]))

    def spread(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return one number a part as one for each of its observations."""
        return np.repeat(values, self.sizes)

    @cached_property
    def all_rows(self) -> NDArray[np.int64]:
        """The sorted observation of each number of an array of all parts."""
        found = np.empty(int(self.offsets[-1]), dtype=np.int64)
        write_places(self.groups, self.starts, self.offsets, found)
        return found


class ClassRows:
    """The kernel matrix of observations that are sorted by group, in pieces between an observation
    and a group.
    """

    def __init__(self, kernel: Kernel | None, X: Floats, starts: Places, room: int) -> None:
        n, d = X.shape
        self.kernel, self.X, self.starts = kernel, X, starts
        self._error: EntryError | None = None
        self._used = np.zeros(1, dtype=np.int64)
        groups = starts.size - 1
        whole: Floats | None = None
        if not _by_rows(kernel) or (groups > 2 and d >= MANY_COLUMNS and n <= WHOLE_ROWS):
            whole, self._error = _whole(kernel, X)
        if whole is not None and (self._error is None or self._error.entries is None):
            self._store = np.ascontiguousarray(whole, dtype=np.float64).reshape(-1)
            self._places = np.arange(n, dtype=np.int64)[:, None] * n + starts[None, :-1]
            self._rows, self._across, self._gamma = np.zeros((n, 0)), np.zeros(0), 0.0
        else:
            # Where a few rows are far from all others, differences have the smaller errors.
            self._error = None
            self._store = np.empty(min(n * n, room))
            self._places = np.full((n, groups), -1, dtype=np.int64)
            self._rows, self._gamma = X, float(kernel.gamma) if isinstance(kernel, RBF) else 0.0
            ends = starts.tolist()
            self._across = np.concatenate(
                [X[first:last].T.reshape(-1) for first, last in pairwise(ends)]
            )
        self._scratch = np.empty(int((starts[1:] - starts[:-1]).max()))

    @staticmethod
    def takes(kernel: Kernel | None, X: Any, room: int) -> bool:
        """Whether the rows of a kernel on dense data can be computed, with bounds on their errors."""
        if not (
            _by_rows(kernel)
            or (isinstance(kernel, (Laplacian, Polynomial)) and is_definite(kernel))
        ):
            return False
        gamma = getattr(kernel, "gamma", 1.0)
        if (
            not 1.0 / LARGEST <= gamma <= LARGEST
            or not float(np.abs(X).max(initial=0.0)) <= LARGEST
        ):
            return False
        n = X.shape[0]
        return _by_rows(kernel) or n * n <= room

    @property
    def passed(self) -> Pieces:
        """Arguments of compiled passes over the rows."""
        return Pieces(
            self._rows,
            self._across,
            self.starts,
            self._gamma,
            self._places,
            self._store,
            self._used,
            self._scratch,
        )

    @property
    def bytes(self) -> float:
        return float(self._store.nbytes)

    def diagonal(self) -> Floats:
        if self.kernel is None:
            return row_norms_squared(self.X)
        return np.asarray(self.kernel.diagonal(self.X), dtype=np.float64)

    def products(self, layout: Layout, v: Floats) -> Bounded | None:
        """Return Kv of each part, with bounds on the errors of the sums and of the entries; None if
        there was no room for the rows.
        """
        error = self._entry_error
        scores, magnitude = np.zeros(v.size), np.zeros(v.size)
        weighted = np.zeros(v.size if error.columns.size else 0)
        sums = (v, EntryTerms(*error[:5]), scores, magnitude, weighted)
        if not add_scores(layout.groups, layout.offsets, *sums, self.passed):
            return None
        return Bounded(scores, magnitude)

    @cached_property
    def _entry_error(self) -> EntryError:
        """Bounds on the errors of the entries, without arrays for terms that they do not have."""
        none = np.zeros(0)
        if self._error is not None:
            return self._error
        d = int(self.X.shape[1])
        if isinstance(self.kernel, RBF):
            return EntryError(
                np.full(len(self.X), FLAT), none, none, none, distance_kernel_floor(d) + U
            )
        norms = row_norms_above(self.X)
        return EntryError(none, none, norms, inner_error(d, norms), UNDERFLOW)


def _whole(kernel: Kernel | None, X: Floats) -> tuple[Floats | None, EntryError | None]:
    """Return the whole matrix and the error of its entries, if that is known before they are."""
    if kernel is None:
        return X @ X.T, None
    columns = KernelColumns(kernel, X, X)
    return (
        (columns.symmetric_matrix() or (None, None))
        if isinstance(kernel, RBF)
        else columns.matrix()
    )


def _by_rows(kernel: Kernel | None) -> bool:
    """Whether compiled code computes rows of the kernel."""
    return kernel is None or isinstance(kernel, (Linear, RBF))
