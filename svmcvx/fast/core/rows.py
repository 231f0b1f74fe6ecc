"""Rows of a Gram matrix for solvers that take some of them at a time, in a bounded amount of
memory.

Writing a row to memory and reading it again takes longer than computing it tile by tile where it is
used. Therefore rows are stored if there is room for a tenth of them, and none otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from svmcvx.arrays import Floats
from svmcvx.errors import DataError
from svmcvx.feature_space import FeatureSpace, KernelSpace, RowBlock
from svmcvx.kernels.columns import TILE_ENTRIES, KernelColumns
from svmcvx.system import clock, memory
from svmcvx.system.compilation import compiled
from svmcvx.system.threads import available_threads

Indices: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True)
class RowCacheSettings:
    """Observations up to which rows are always stored in float64, where float32 saves little time
    and the gap can reach rounding; and the share of all rows for which the cache must have room, or
    none is stored.
    """

    double_precision: int = 4000
    kept: float = 0.1


class GramRows:
    """All rows of a Gram matrix that is in memory.

    As the other kinds of rows it has the Gram matrix of some observations, not to be changed
    (`square`), adds the rows of those of the latest square times `change` to `f` (`add`), and has
    room for `room` of them; rows are computed where they are used if they are `tiled`.
    """

    tiled = False

    def __init__(self, gram: Floats) -> None:
        # The matrix is symmetric, and passes are compiled for one layout.
        self.store = gram.T if gram.flags.f_contiguous else gram
        self.dtype, self.nbytes, self.room = gram.dtype, gram.nbytes, len(gram)

    def square(self, chosen: Indices) -> Floats:
        whole = chosen.size == len(self.store)
        return self.store if whole else self.store[np.ix_(chosen, chosen)]

    def add(self, f: Floats, chosen: Indices, change: Floats) -> None:
        used = np.flatnonzero(change)
        add_rows(f, self.store, chosen[used], change[used])


class TiledRows:
    """Rows that are computed tile by tile when they are used, and never stored."""

    tiled = True
    nbytes = 0

    def __init__(self, columns: KernelColumns, constant: float = 0.0) -> None:
        self.columns, self.constant, self.dtype = columns, constant, columns.dtype
        self.room = columns.shape[1]

    def square(self, chosen: Indices) -> Floats:
        q, size = chosen.size, 128
        found = np.empty((q, q))
        for start in range(0, q, size):
            below = self.columns.some(chosen[start : start + size])
            for first in range(start, q, size):
                rows = chosen[first : first + size]
                tile = below(rows).astype(np.float64)
                if first == start:
                    tile = np.tril(tile) + np.tril(tile, -1).T
                found[first : first + size, start : start + size] = tile
                found[start : start + size, first : first + size] = tile.T
        return found + self.constant if self.constant else found

    def add(self, f: Floats, chosen: Indices, change: Floats) -> None:
        used = np.flatnonzero(change)
        self.columns.some(chosen[used]).add_product(f, change[used])
        if self.constant:
            f += self.constant * float(change.sum())


class CachedRows:
    """The rows used last; missing ones are computed in blocks that fit into a processor's cache."""

    tiled = False

    def __init__(
        self, block: RowBlock, n: int, capacity: int, dtype: DTypeLike, workers: int = 1
    ) -> None:
        self.block = block
        self.store = np.empty((capacity, n), dtype=dtype)
        self.dtype, self.nbytes, self.room = self.store.dtype, self.store.nbytes, capacity
        self._slot = np.full(n, -1, dtype=np.intp)
        self._owner = np.full(capacity, -1, dtype=np.intp)
        self._used = np.zeros(capacity, dtype=np.int64)
        self._clock = 0
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        # Preparing a block has a fixed cost.
        self._at_once = max(64, TILE_ENTRIES // n)

    def fetch(self, wanted: Indices) -> Indices:
        """Return positions in `store`; missing rows replace the least recently used."""
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

    def square(self, chosen: Indices) -> Floats:
        return submatrix(self.store, self.fetch(chosen), chosen)  # type: ignore[no-any-return]

    def add(self, f: Floats, chosen: Indices, change: Floats) -> None:
        used = np.flatnonzero(change)
        add_rows(f, self.store, self.fetch(chosen[used]), change[used])

    def _compute(self, rows: Indices, slots: Indices) -> None:
        if (np.diff(slots) == 1).all():
            self.block(rows, self.store[slots[0] : slots[-1] + 1])
        else:
            self.store[slots] = self.block(rows)


Rows: TypeAlias = GramRows | TiledRows | CachedRows


def seconds_of_entry(space: FeatureSpace) -> float:
    """Return the measured seconds per entry of a kernel product; 0 where the matrix is stored."""
    if not isinstance(space, KernelSpace) or space.stored_gram is not None:
        return 0.0
    X, n = space.data.X, space.data.n
    rows, some = (X[: min(1 + n // part, 2048)] for part in (8, 16))
    columns = KernelColumns(space.resolved, rows, some)
    started = clock.now()
    columns.product(np.ones(columns.shape[1]))
    return (clock.now() - started) / math.prod(columns.shape)


def kernel_rows(
    space: FeatureSpace,
    *,
    cache_size: float,
    float32: bool,
    settings: RowCacheSettings | None = None,
) -> Rows:
    """Return the rows of a space in the form that there is room for."""
    if (gram := space.stored_gram) is not None:
        shared = space.blockwise and space.intercept == "penalised"
        return GramRows(gram + 1.0 if shared else gram)
    settings = RowCacheSettings() if settings is None else settings
    n = space.data.n
    dtype = np.dtype(np.float32 if float32 and n > settings.double_precision else np.float64)
    row = float(n * dtype.itemsize)
    capacity = min(n, memory.columns_in(cache_size, n, dtype.itemsize))
    if capacity < settings.kept * n and isinstance(space, KernelSpace):
        return TiledRows(space.columns(dtype=dtype), float(space.intercept == "penalised"))
    if capacity < 2:
        raise DataError(
            f"cache_size={cache_size:g} MB has no room for two rows of the {n} × {n} kernel matrix;"
            f" pass at least {2 * row / memory.MEGABYTE:.3g}, or use the linear formulation"
            " (kernel=None)"
        )
    memory.require(
        capacity * row, f"a cache of {capacity} kernel rows", "pass a smaller cache_size"
    )
    # Up to a thousand observations other threads cost more than they save.
    workers = available_threads() if n > 1000 else 1
    return CachedRows(space.row_block(dtype), n, capacity, dtype, workers)


@compiled(allocates=True)
def submatrix(rows: NDArray[Any], slots: Indices, columns: Indices) -> Floats:
    """Return the exactly symmetric kernel of a working set from stored, rounded rows."""
    q = slots.size
    Q = np.empty((q, q))
    # Read the lower triangle only, row by row: the cost is access to distant memory.
    for a in range(q):
        row = rows[slots[a]]
        for b in range(a + 1):
            Q[a, b] = float(row[columns[b]])
    for a in range(q):
        for b in range(a):
            Q[b, a] = Q[a, b]
    return Q


@compiled(fastmath=True)
def add_rows(f: Floats, rows: NDArray[Any], slots: Indices, change: Floats) -> None:
    r"""Add :math:`\sum_a \mathrm{change}_a\, K_{a\cdot}` to f in float64, four rows at a time."""
    start = 0
    while start + 4 <= change.size:
        a, b, c, d = start, start + 1, start + 2, start + 3
        ra, rb, rc, rd = rows[slots[a]], rows[slots[b]], rows[slots[c]], rows[slots[d]]
        wa, wb, wc, wd = change[a], change[b], change[c], change[d]
        for k in range(f.size):
            f[k] += wa * ra[k] + wb * rb[k] + wc * rc[k] + wd * rd[k]
        start += 4
    for a in range(start, change.size):
        ra, wa = rows[slots[a]], change[a]
        for k in range(f.size):
            f[k] += wa * ra[k]


class PartialFactor:
    """A factor F of a Gram matrix that grows by the column of the largest residual K − FF'."""

    def __init__(self, space: FeatureSpace, negligible: float = 1e-13) -> None:
        self.column, self.negligible = space.row_block(np.float64), negligible
        self.residual = np.array(space.diagonal(), dtype=np.float64)
        self.rows = np.empty((0, self.residual.size))
        self.pivots: list[int] = []
        self.scale = float(self.residual.max(initial=0.0))

    @property
    def done(self) -> bool:
        return float(self.residual.max(initial=0.0)) <= self.negligible * self.scale

    @property
    def factor(self) -> Floats:
        return (
            np.ascontiguousarray(self.rows.T) if self.pivots else np.zeros((self.residual.size, 1))
        )

    def grow(self, rank: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Add columns up to `rank`, a negligible residual, or until `stop` returns True."""
        k = len(self.rows)
        L = np.empty((max(k, min(rank, self.residual.size)), self.residual.size))
        L[:k] = self.rows
        while k < len(L) and not self.done and not stop():
            pivot = int(self.residual.argmax())
            column = np.asarray(self.column(np.array([pivot]))[0], dtype=np.float64)
            row = (column - L[:k, pivot] @ L[:k]) / math.sqrt(self.residual[pivot])
            # The factor is exact in the rows of earlier pivots: other values are rounding.
            row[self.pivots] = 0.0
            self.residual = np.maximum(self.residual - row**2, 0.0)
            self.residual[pivot] = 0.0
            L[k] = row
            self.pivots.append(pivot)
            k += 1
        self.rows = L[:k]

    @property
    def predicted_rank(self) -> float:
        """Extrapolate the rank of a negligible residual from its mean rate of decrease."""
        k, left = len(self.rows), float(self.residual.max(initial=0.0)) / (self.scale or 1.0)
        if left <= self.negligible:
            return float(k)
        return k * math.log(self.negligible) / math.log(left) if left < 1.0 else math.inf
