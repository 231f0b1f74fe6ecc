"""Rows of a Gram matrix for solvers that take some of them at a time, in a bounded amount of
memory.

Writing a row to memory and reading it again takes longer than computing it tile by tile where it is
used. Therefore rows are stored if there is room for a large share of them; if there is room for a
smaller share, rows that are used often are stored; and none otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import scipy.linalg as sl
from numpy.typing import DTypeLike, NDArray

from svmcvx.errors import DataError
from svmcvx.feature_space import BLOCK_ENTRIES, FeatureSpace, KernelSpace, RowBlock
from svmcvx.kernels.columns import KernelColumns
from svmcvx.system import clock, memory
from svmcvx.system.compilation import compiled
from svmcvx.system.threads import available_threads

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.intp]

# Uses of a row before it is stored.
UNKEPT_USES = 4
# Shares of the rows and of the columns, and the most of each, in a product that is computed to be
# timed.
TIMED_ROWS, MOST_TIMED_ROWS = 1 / 8, 20_480
TIMED_COLUMNS, MOST_TIMED_COLUMNS = 1 / 16, 2048
# Entries of rows computed by the solver, in those of such a product, after which another is timed.
TIMED_AGAIN = 100.0
# What the timed products count at the next one: one product alone may take twice as long as the
# others on a busy machine.
MEMORY = 0.9
# Rows and columns of a tile of a symmetric matrix, of which one triangle is computed.
SQUARE = 128
# Least number of rows that are computed together: preparing a block has a fixed cost.
FEWEST_ROWS = 64
# Number of observations up to which one thread computes kernel rows: starting others costs more.
SINGLE_THREAD = 1000


@dataclass(frozen=True)
class RowCacheSettings:
    """Parameters of the cache of kernel rows.

    Parameters
    ----------
    double_precision : int
        Number of observations up to which rows are always stored in float64. There float32 saves
        little time, and with float64 the gap can reach rounding.
    block_entries : int
        Entries of one block of rows that is computed at a time; it should fit into the processor's
        cache.
    all_kept, some_kept : float
        Shares of all rows for which the cache must have room to keep all that are used, and those
        that are used often.
    """

    double_precision: int = 4000
    block_entries: int = BLOCK_ENTRIES
    all_kept: float = 0.25
    some_kept: float = 0.05


class Rows(Protocol):
    """Rows of the Gram matrix of the observations of a round."""

    dtype: np.dtype[Any]
    nbytes: int

    @property
    def tiled(self) -> bool:
        """Whether rows are computed where they are used, at first at least."""

    def square(self, chosen: Indices) -> Floats:
        """Return the Gram matrix of some observations, not to be changed."""

    def add(self, f: Floats, chosen: Indices, change: Floats) -> None:
        r"""Add :math:`\sum_a \mathrm{change}_a\, K_{a\cdot}` to `f`, for the observations of the
        latest :meth:`square`.
        """


class GramRows:
    """All rows of a Gram matrix that is in memory."""

    tiled = False

    def __init__(self, gram: Floats) -> None:
        # The matrix is symmetric, and passes are compiled for one layout.
        self.store = gram.T if gram.flags.f_contiguous else gram
        self.dtype, self.nbytes = self.store.dtype, self.store.nbytes

    def square(self, chosen: Indices) -> Floats:
        return (
            self.store if chosen.size == self.store.shape[0] else self.store[np.ix_(chosen, chosen)]
        )

    def add(self, f: Floats, chosen: Indices, change: Floats) -> None:
        used = np.flatnonzero(change)
        add_rows(f, self.store, chosen[used], change[used])


class TiledRows:
    """Rows that are computed tile by tile when they are used, and never stored."""

    tiled = True
    nbytes = 0

    def __init__(self, columns: KernelColumns, constant: float = 0.0) -> None:
        self.columns, self.constant, self.dtype = columns, constant, columns.dtype

    def square(self, chosen: Indices) -> Floats:
        """Return the Gram matrix of some observations, exactly symmetric."""
        q = chosen.size
        found = np.empty((q, q))
        for start in range(0, q, SQUARE):
            below = self.columns.some(chosen[start : start + SQUARE])
            for first in range(start, q, SQUARE):
                rows = chosen[first : first + SQUARE]
                tile = below(rows).astype(np.float64)
                if first == start:
                    tile = np.tril(tile) + np.tril(tile, -1).T
                found[first : first + SQUARE, start : start + SQUARE] = tile
                found[start : start + SQUARE, first : first + SQUARE] = tile.T
        return found + self.constant if self.constant else found

    def add(self, f: Floats, chosen: Indices, change: Floats) -> None:
        """Add rows while they are computed."""
        used = np.flatnonzero(change)
        self.columns.some(chosen[used]).add_product(f, change[used])
        if self.constant:
            f += self.constant * float(change.sum())


class CachedRows:
    """The rows used last; missing ones are computed in blocks that fit into the processor's cache."""

    def __init__(
        self,
        block: RowBlock,
        n: int,
        capacity: int,
        dtype: DTypeLike,
        workers: int = 1,
        block_entries: int = BLOCK_ENTRIES,
        computed: TiledRows | None = None,
    ) -> None:
        self.block, self.computed = block, computed
        self.store = np.empty((capacity, n), dtype=dtype)
        self.dtype, self.nbytes = self.store.dtype, self.store.nbytes
        self._slot = np.full(n, -1, dtype=np.intp)
        self._owner = np.full(capacity, -1, dtype=np.intp)
        self._used = np.zeros(capacity, dtype=np.int64)
        self._clock = 0
        # Uses until a row is stored.
        self._left = np.full(n, 0 if computed is None else UNKEPT_USES, dtype=np.int8)
        self._pool = ThreadPoolExecutor(workers) if workers > 1 else None
        self._at_once = max(FEWEST_ROWS, block_entries // n)

    def fetch(self, wanted: Indices) -> Indices:
        """Return the positions of rows in `store`, after missing rows have replaced the least
        recently used ones.
        """
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
        """Return the Gram matrix of some observations."""
        if self.computed is not None:
            return self.computed.square(chosen)
        return submatrix(self.store, self.fetch(chosen), chosen)  # type: ignore[no-any-return]

    def add(self, f: Floats, chosen: Indices, change: Floats) -> None:
        """Add rows, those that were used often from the cache."""
        used = np.flatnonzero(change)
        due = self._left[chosen[used]] == 0
        if (again := used[due]).size:
            add_rows(f, self.store, self.fetch(chosen[again]), change[again])
        if self.computed is not None and (first := used[~due]).size:
            self.computed.add(f, chosen[first], change[first])
            self._left[chosen[first]] -= 1

    @property
    def tiled(self) -> bool:
        """Whether rows are computed where they are used, at first."""
        return self.computed is not None

    def _compute(self, rows: Indices, slots: Indices) -> None:
        if (np.diff(slots) == 1).all():
            self.block(rows, self.store[slots[0] : slots[-1] + 1])
        else:
            self.store[slots] = self.block(rows)


class ProductSeconds:
    """How long a product with the kernel matrix in double precision takes, from small ones that are
    timed during the run.
    """

    def __init__(self, space: FeatureSpace) -> None:
        self._columns: KernelColumns | None = None
        if isinstance(space, KernelSpace) and space.stored_gram is None:
            X, n = space.data.X, space.data.n
            rows = X[: max(1, min(int(TIMED_ROWS * n), MOST_TIMED_ROWS))]
            columns = X[: max(1, min(int(TIMED_COLUMNS * n), MOST_TIMED_COLUMNS))]
            self._columns = KernelColumns(space.resolved, rows, columns)
        # Seconds and entries of the products timed; earlier ones count less.
        self._seconds, self._entries, self._due = 0.0, 0.0, 0.0

    def after(self, entries: float) -> None:
        """Take note of entries computed by the solver; time another product if there have been
        many.
        """
        self._due -= entries
        if self._columns is None or self._due > 0:
            return
        rows, columns = self._columns.shape
        started = clock.now()
        self._columns.product(np.ones(columns))
        self.took(clock.now() - started, float(rows * columns))

    def took(self, seconds: float, entries: float) -> None:
        """Take note of a product's seconds and entries."""
        if self._columns is not None and entries:
            self._seconds = MEMORY * self._seconds + seconds
            self._entries = MEMORY * self._entries + entries
            self._due = TIMED_AGAIN * entries

    def of(self, entries: float) -> float:
        """Return the seconds of a product with this many entries."""
        return entries * self._seconds / self._entries if self._entries else 0.0


def kernel_rows(
    space: FeatureSpace,
    *,
    working_set: int,
    cache_size: float,
    float32: bool,
    tiled_working_set: int | None = None,
    workers: int | None = None,
    settings: RowCacheSettings | None = None,
) -> tuple[Rows, int]:
    """Return the rows of a space, and the size of the working set that they have room for."""
    if (gram := space.stored_gram) is not None:
        shared = space.blockwise and space.intercept == "penalised"
        return GramRows(gram + 1.0 if shared else gram), working_set
    settings = RowCacheSettings() if settings is None else settings
    n = space.data.n
    dtype = np.dtype(np.float32 if float32 and n > settings.double_precision else np.float64)
    row = float(n * dtype.itemsize)
    capacity = min(n, memory.columns_in(cache_size, n, dtype.itemsize))
    tiled = None
    if capacity < settings.all_kept * n and isinstance(space, KernelSpace):
        tiled = TiledRows(
            space.columns(dtype=dtype), 1.0 if space.intercept == "penalised" else 0.0
        )
        working_set = working_set if tiled_working_set is None else min(n, tiled_working_set)
        if capacity < max(settings.some_kept * n, working_set):
            return tiled, working_set
    if capacity < 2:
        raise DataError(
            f"cache_size={cache_size:g} MB has no room for two rows of the {n} × {n} kernel matrix;"
            f" pass at least {2 * row / memory.MEGABYTE:.3g}, or use the linear formulation"
            " (kernel=None)"
        )
    memory.require(
        capacity * row, f"a cache of {capacity} kernel rows", "pass a smaller cache_size"
    )
    if workers is None:
        workers = available_threads() if n > SINGLE_THREAD else 1
    rows = CachedRows(
        space.row_block(dtype), n, capacity, dtype, workers, settings.block_entries, tiled
    )
    return rows, min(working_set, capacity)


@compiled(allocates=True)
def submatrix(rows: NDArray[Any], slots: Indices, columns: Indices) -> Floats:
    """Return the kernel of a working set, from stored rows; exactly symmetric, although these are
    rounded.
    """
    q = slots.size
    Q = np.empty((q, q))
    # Read the lower triangle only, row by row: the cost is memory access, as the entries lie far
    # apart.
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
    r"""Add :math:`\sum_a \mathrm{change}_a\, K_{a\cdot}` to f, four rows at a time and in float64."""
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


# Calls a function with the number of a worker and the number of workers; it does the tasks worker,
# worker + workers, …
Share: TypeAlias = Callable[[Callable[[int, int], None]], None]


@contextmanager
def shares() -> Iterator[Share]:
    """Yield a function that runs a call on as many threads as this call may start."""
    workers = available_threads()
    with ThreadPoolExecutor(workers) as pool:

        def run(call: Callable[[int, int], None]) -> None:
            for done in [pool.submit(call, worker, workers) for worker in range(workers)]:
                done.result()

        yield run


# Share of the largest diagonal entry below which a residual is rounding error.
ROUNDING = 1e-13


@dataclass
class PartialFactor:
    """A factor that grows column by column."""

    column: Callable[[int], Floats]
    residual: Floats
    negligible: float = ROUNDING
    rows: Floats = field(init=False)
    pivots: list[int] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.residual = np.array(self.residual, dtype=np.float64)
        self.rows = np.empty((0, self.residual.size))
        self.scale = float(self.residual.max(initial=0.0))
        self.trace = float(self.residual.sum())

    @property
    def done(self) -> bool:
        return float(self.residual.max(initial=0.0)) <= self.negligible * self.scale

    @property
    def missing(self) -> float:
        """Share of the trace of K that FF' lacks."""
        return float(self.residual.sum()) / self.trace if self.trace > 0 else 0.0

    @property
    def factor(self) -> Floats:
        """F, of shape (n, r); a column of zeros if K is zero."""
        return (
            np.ascontiguousarray(self.rows.T) if self.pivots else np.zeros((self.residual.size, 1))
        )

    def grow(self, rank: int, stop: Callable[[], bool] = lambda: False) -> None:
        """Compute columns until there are `rank`, the residual is negligible, or `stop` returns
        True.
        """
        k = len(self.rows)
        rank = min(rank, self.residual.size)
        if k >= rank or self.done:
            return
        L = np.empty((rank, self.residual.size))
        L[:k] = self.rows
        while k < rank and not self.done and not stop():
            pivot = int(self.residual.argmax())
            row = (self.column(pivot) - L[:k, pivot] @ L[:k]) / math.sqrt(self.residual[pivot])
            # The factor is exact in the rows of earlier pivots: other values than zero are rounding
            # error there.
            row[self.pivots] = 0.0
            self.residual = np.maximum(self.residual - row**2, 0.0)
            self.residual[pivot] = 0.0
            L[k] = row
            self.pivots.append(pivot)
            k += 1
        self.rows = L[:k]

    @property
    def predicted_rank(self) -> float:
        """The rank at which the residual becomes negligible if it continues to fall at its mean
        rate.
        """
        left = float(self.residual.max(initial=0.0)) / self.scale if self.scale > 0 else 0.0
        if left <= self.negligible:
            return float(len(self.rows))
        return (
            len(self.rows) * math.log(self.negligible) / math.log(left) if left < 1.0 else math.inf
        )


def partial_factor(space: FeatureSpace, negligible: float = ROUNDING) -> PartialFactor:
    """Return an empty factor of the Gram matrix of a space, a penalised intercept included; the
    matrix need not be stored.
    """
    rows = space.row_block(np.float64)
    return PartialFactor(
        lambda i: np.asarray(rows(np.array([i]))[0], dtype=np.float64), space.diagonal(), negligible
    )


def on_pivots(F: Floats, pivots: Sequence[int] | NDArray[np.intp], w: Floats) -> Floats:
    """Return coefficients v, zero except for the pivots, whose expansion has the scores Fw: ``K[:,
    pivots]`` is ``F F[pivots]'``.
    """
    v = np.zeros(F.shape[0])
    if len(pivots):
        v[pivots] = sl.solve_triangular(F[pivots], w, lower=True, trans=1, check_finite=False)
    return v
