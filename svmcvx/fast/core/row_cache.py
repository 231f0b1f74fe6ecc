"""Rows of a Gram matrix for solvers that need some of them repeatedly, in a bounded amount of memory."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike, NDArray

from svmcvx.errors import DataError
from svmcvx.feature_space import BLOCK_ENTRIES, FeatureSpace, RowBlock
from svmcvx.system import memory
from svmcvx.system.threads import threads_allowed

__all__ = ["CachedRows", "GramRows", "RowCacheSettings", "Rows", "kernel_rows"]

MEGABYTE = 2.0**20
# Rows that are computed at a time, at least: preparing a block has a cost of its own.
FEWEST_ROWS = 16


@dataclass(frozen=True)
class RowCacheSettings:
    """Numbers that steer the cache of kernel rows.

    Parameters
    ----------
    double_precision : int
        Number of observations up to which rows are kept in float64 in any case. Float32 saves little time there, and float64
        lets the gap go down to rounding.
    block_entries : int
        Entries of one block of rows that is computed at a time; it should fit into the processor's cache.
    single_thread : int
        Number of observations up to which one thread computes them.
    """

    double_precision: int = 4000
    block_entries: int = BLOCK_ENTRIES
    single_thread: int = 1000


class Rows(Protocol):
    """Stored rows: ``store[fetch(wanted)]`` are the rows of the Gram matrix of the observations wanted."""

    store: NDArray[Any]

    def fetch(self, wanted: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where in `store` the rows are; valid until the next call."""


class GramRows:
    """All rows of a Gram matrix that is in memory."""

    def __init__(self, gram: NDArray[Any]) -> None:
        # The matrix is symmetric, and passes are compiled for one layout.
        self.store = gram.T if gram.flags.f_contiguous else gram

    def fetch(self, wanted: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return `wanted`."""
        return wanted


class CachedRows:
    """The rows used last; missing ones are computed in blocks that fit into the processor's cache.

    Parameters
    ----------
    block : callable
        ``block(rows, out=None)`` returns these rows of the Gram matrix, written to `out` if that is given.
    n : int
    capacity : int
        Rows that are kept, at least as many as are fetched at a time.
    dtype : float64 or float32
    workers : int
        Threads that compute blocks.
    block_entries : int
        Entries of a block.
    """

    def __init__(
        self,
        block: RowBlock,
        n: int,
        capacity: int,
        dtype: DTypeLike,
        workers: int = 1,
        block_entries: int = BLOCK_ENTRIES,
    ) -> None:
        self.block = block
        self.store = np.empty((capacity, n), dtype=dtype)
        self._slot = np.full(n, -1, dtype=np.intp)
        self._owner = np.full(capacity, -1, dtype=np.intp)
        self._used = np.zeros(capacity, dtype=np.int64)
        self._clock = 0
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self._at_once = max(FEWEST_ROWS, block_entries // n)

    def fetch(self, wanted: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return where in `store` the rows are, after computing missing ones in place of those not used for longest."""
        self._clock += 1
        present = self._slot[wanted]
        self._used[present[present >= 0]] = self._clock
        missing = wanted[present < 0]
        if missing.size:
            if missing.size > self._used.size:
                raise ValueError("more rows fetched at a time than there is room for")
            free = np.argsort(self._used, kind="stable")[: missing.size]
            dropped = self._owner[free]
            self._slot[dropped[dropped >= 0]] = -1
            self._slot[missing], self._owner[free], self._used[free] = free, missing, self._clock
            starts = range(0, missing.size, self._at_once)
            parts = [slice(start, start + self._at_once) for start in starts]
            if self._pool is None:
                for part in parts:
                    self._compute(missing[part], free[part])
            else:
                list(self._pool.map(lambda part: self._compute(missing[part], free[part]), parts))
        return self._slot[wanted]

    def _compute(self, rows: NDArray[np.intp], slots: NDArray[np.intp]) -> None:
        if (np.diff(slots) == 1).all():
            self.block(rows, self.store[slots[0] : slots[-1] + 1])
        else:
            self.store[slots] = self.block(rows)


def kernel_rows(
    space: FeatureSpace,
    *,
    working_set: int,
    cache_size: float,
    float32: bool,
    workers: int | None = None,
    settings: RowCacheSettings | None = None,
) -> tuple[Rows, int]:
    """Return the rows of a space, and the size of the working set that they have room for.

    Parameters
    ----------
    space : FeatureSpace
    working_set : int
        Rows wanted at a time.
    cache_size : float
        Megabytes.
    float32 : bool
        Store in single precision, unless there are few observations.
    workers : int, optional
        Threads that compute rows; by default those that are allowed, or one for few observations.
    settings : RowCacheSettings, optional

    Raises
    ------
    DataError
        If `cache_size` has no room for two rows.
    BuildError
        If the cache asked for does not fit into memory.
    """
    if (gram := space.stored_gram) is not None:
        return GramRows(gram), working_set
    settings = RowCacheSettings() if settings is None else settings
    n = space.data.n
    dtype = np.dtype(np.float32 if float32 and n > settings.double_precision else np.float64)
    row = float(n * dtype.itemsize)
    capacity = min(n, int(cache_size * MEGABYTE / row))
    if capacity < 2:
        raise DataError(
            f"cache_size={cache_size:g} MB has no room for two rows of the {n} × {n} kernel matrix; "
            f"pass at least {2 * row / MEGABYTE:.3g}, or use the linear formulation (kernel=None)"
        )
    memory.require(capacity * row, f"a cache of {capacity} kernel rows", "pass a smaller cache_size")
    if workers is None:
        workers = threads_allowed() if n > settings.single_thread else 1
    rows = CachedRows(space.row_block(dtype), n, capacity, dtype, workers, settings.block_entries)
    return rows, min(working_set, capacity)
