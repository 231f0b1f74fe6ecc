"""Blocks of the kernel matrix between rows and prepared columns, and products with it that store no
more than a tile.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import U
from svmcvx.data import Features
from svmcvx.kernels.functions import (
    NOTICEABLE,
    RBF,
    EntryError,
    Kernel,
    distance_kernel_error,
    exponential_error,
    lost_share,
    shift_error,
)
from svmcvx.system.threads import for_each_part

# Entries of a tile: in double precision 1 MiB, which stays in the cache of one core while it is
# computed and used.
TILE_ENTRIES = 2**17
# Entries from which several threads share a product.
SHARED = 2**20


class KernelProduct(NamedTuple):
    r"""A computed :math:`\hat K v` and what bounds its error."""

    scores: Floats
    magnitude: Floats
    entries: Floats


class KernelColumns:
    r"""The kernel matrix between some rows and some columns, evaluated in blocks.

    The exponent of an RBF kernel is one matrix product of prepared factors,
    :math:`-\tfrac12\|z_i - z_j\|^2 = z_i'z_j - \tfrac12\|z_i\|^2 - \tfrac12\|z_j\|^2` with
    :math:`z = \sqrt{2\gamma}(x - c)`.
    """

    def __init__(
        self,
        kernel: Kernel,
        rows: Features,
        columns: Features,
        dtype: DTypeLike = np.float64,
        centre: Floats | None = None,
        tile_entries: int = TILE_ENTRIES,
    ) -> None:
        self.kernel, self.dtype = kernel, np.dtype(dtype)
        self.tile_entries = max(1, tile_entries * 8 // self.dtype.itemsize)
        self._data_rows: Any = rows
        self._data_columns: Any = columns
        self._product = isinstance(kernel, RBF) and not (sp.issparse(rows) or sp.issparse(columns))
        if not self._product:
            self._rows = rows.astype(self.dtype, copy=False)
            self._columns = (
                self._rows if rows is columns else columns.astype(self.dtype, copy=False)
            )
            return
        centre = np.asarray(columns.mean(axis=0) if centre is None else centre, dtype=np.float64)
        self._rows, self._row_halves = self._prepared(rows, centre)
        # The columns have the last two coordinates exchanged.
        self._columns, self._column_halves = (
            (self._rows.copy(), self._row_halves)
            if rows is columns
            else self._prepared(columns, centre)
        )
        self._columns[:, -2:] = self._columns[:, :-3:-1].copy()

    def _prepared(self, X: Any, centre: Floats) -> tuple[NDArray[Any], Floats]:
        """Return factors of the exponent for some rows, and half the squared norms of their z."""
        d = X.shape[1]
        factor = np.empty((X.shape[0], d + 2), dtype=self.dtype)
        z = factor[:, :d]
        np.subtract(X, centre, out=z, casting="same_kind")
        z *= math.sqrt(2.0 * self._gamma)
        halves = 0.5 * np.einsum("ij,ij->i", z, z, dtype=np.float64)
        factor[:, d], factor[:, d + 1] = -halves, 1.0
        return factor, halves

    @property
    def _gamma(self) -> float:
        return float(getattr(self.kernel, "gamma", math.nan))

    @property
    def shape(self) -> tuple[int, int]:
        return int(self._data_rows.shape[0]), int(self._data_columns.shape[0])

    def some(self, columns: Any) -> Self:
        """Return some of the columns, which share what was prepared."""
        found = copy.copy(self)
        found._data_columns = self._data_columns[columns]
        found._columns = self._columns[columns]
        if self._product:
            found._column_halves = self._column_halves[columns]
        return found

    def __call__(self, rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the block of rows of a slice or of indices, written to `out` if given."""
        part, n = self._rows[rows], self.shape[1]
        found = np.empty((part.shape[0], n), dtype=self.dtype) if out is None else out
        if not self._product:
            found[...] = self._tile(rows, part)[0]
            return found
        width = max(1, self.tile_entries // max(1, part.shape[0]))
        for start in range(0, n, width):
            columns = slice(start, start + width)
            self.some(columns)._tile(rows, part, out=found[:, columns])
        return found

    def _tile(
        self,
        rows: Any,
        part: NDArray[Any],
        buffer: NDArray[Any] | None = None,
        out: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], float]:
        """Return a block of rows, and the exponent from which its pairs come from differences."""
        if not self._product:
            return self.kernel(part, self._columns, dtype=self.dtype), math.nan
        shape = part.shape[0], self._columns.shape[0]
        place = None if buffer is None else buffer[: shape[0] * shape[1]].reshape(shape)
        tile = np.matmul(part, self._columns.T, out=place)
        # Digits lost of an exponent are those of its largest term.
        halves = self._row_halves[rows], self._column_halves
        close = -lost_share(self.dtype) * sum(float(half.max(initial=0.0)) for half in halves)
        if tile.size and not float(tile.max()) < close:
            found = np.flatnonzero(tile >= close)
            # From the rows as they were passed: centring has cost digits of rows that are close to
            # each other but far from the centre.
            raw, others = self._data_rows[rows], self._data_columns
            for start in range(0, found.size, 65536):
                i, j = np.divmod(found[start : start + 65536], tile.shape[1])
                difference = raw[i] - others[j]
                tile[i, j] = -self._gamma * np.einsum("ij,ij->i", difference, difference)
        return np.exp(tile, out=tile if out is None else out), close

    def matrix(
        self, rows: Any = slice(None), buffer: Floats | None = None
    ) -> tuple[Floats, EntryError]:
        """Return a block of rows in double precision, and a bound on its entries' errors."""
        if not self._product:
            return self.kernel.bounded_block(self._data_rows[rows], self._data_columns)
        tile, close = self._tile(rows, self._rows[rows], buffer)
        d = int(self._data_columns.shape[1])
        halves = self._row_halves[rows], self._column_halves
        sides = [shift_error(half, 1.0, d) for half in halves]
        # What does not come from differences has an exponent below the limit.
        return tile, exponential_error(
            tile, sides[0], sides[1], d, lambda: tile >= math.exp(0.5 * close)
        )

    def _by_tiles(self, add: Callable[[slice, Self, slice, NDArray[Any]], None]) -> int:
        """Call a function for each tile (rows, columns, places, buffer); return tiles across."""
        m, n = self.shape
        # Tiles are as high as their entries allow.
        width = max(1, min(n, 512, self.tile_entries))
        height = max(1, self.tile_entries // width)
        across = [slice(start, start + width) for start in range(0, n, width)]
        pieces = [(self.some(places), places) for places in across]

        def work(rows: slice) -> None:
            buffer = np.empty(self.tile_entries, dtype=self.dtype)
            for columns, places in pieces:
                add(rows, columns, places, buffer)

        parts = [slice(start, start + height) for start in range(0, m, height)]
        for_each_part(work, parts, threads=m * n >= SHARED)
        return len(pieces)

    def add_product(self, scores: Floats, v: Floats) -> None:
        r"""Add :math:`Kv`, computed in the precision of the blocks, to scores."""
        weights = v.astype(self.dtype)

        def add(rows: slice, columns: Self, places: slice, buffer: NDArray[Any]) -> None:
            scores[rows] += columns._tile(rows, self._rows[rows], buffer)[0] @ weights[places]

        self._by_tiles(add)

    def product(self, v: Floats) -> KernelProduct:
        r"""Return :math:`Kv` in double precision, and what bounds the error of its entries."""
        m, size, whole = self.shape[0], np.abs(v), self._separable_error()
        found = KernelProduct(np.zeros(m), np.zeros(m), np.zeros(m))

        def add(rows: slice, columns: Self, places: slice, buffer: NDArray[Any]) -> None:
            if whole is not None:
                tile, _ = columns._tile(rows, self._rows[rows], buffer)
                found.scores[rows] += tile @ v[places]
                found.magnitude[rows] += tile @ size[places]
                return
            tile, error = columns.matrix(rows, buffer)
            sizes = tile if self.kernel.positive else np.abs(tile)
            for array, part in zip(found, product_of(tile, error, v[places], sizes), strict=True):
                array[rows] += part

        across = self._by_tiles(add)
        if whole is not None:
            found.entries[:] = whole.of_products(found.magnitude, np.zeros(m), v)
        # Sums of positive numbers are enlarged by more than their rounding.
        enlarge = 1.0 + 4.0 * across * U
        return found._replace(magnitude=found.magnitude * enlarge, entries=found.entries * enlarge)

    def _separable_error(self) -> EntryError | None:
        """Return a bound on all errors by rows where it is known before the entries; else None."""
        if not self._product:
            return None
        (m, n), d = self.shape, int(self._data_columns.shape[1])
        rows = shift_error(self._row_halves, 1.0, d)
        columns = float(shift_error(self._column_halves, 1.0, d).max(initial=0.0))
        if not max(float(rows.max(initial=0.0)), columns) <= NOTICEABLE:
            return None
        return distance_kernel_error((m, n), d)._replace(rows=rows + columns)


def product_of(K: Floats, error: EntryError, v: Floats, sizes: Floats) -> KernelProduct:
    """Return the product with a block, given |K|, and what bounds the error of its entries."""
    size = np.abs(v)
    # Three products with a vector take half as long as one with three columns.
    magnitude, weighted = sizes @ size, sizes @ (error.columns * size)
    return KernelProduct(K @ v, magnitude, error.of_products(magnitude, weighted, v))
