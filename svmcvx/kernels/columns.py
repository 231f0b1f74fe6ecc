"""Blocks of the kernel matrix between rows and prepared columns, and products with it that store no
more than a tile.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Callable
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from svmcvx.certificate.bounded import U
from svmcvx.data import Features
from svmcvx.kernels.entry_error import NOTICEABLE, EntryError, exponential_error, shift_error
from svmcvx.kernels.functions import (
    RBF,
    Exponential,
    Kernel,
    Laplacian,
    Linear,
    Polynomial,
    row_norms_squared,
)
from svmcvx.system.threads import default_client, for_each_part

Floats: TypeAlias = NDArray[np.float64]

# Entries of a tile: in double precision 1 MiB, which stays in the cache of one core while it is
# computed and used.
TILE_ENTRIES = 2**17
# Columns of a tile, if there are enough rows.
TILE_COLUMNS = 512
# Rows of a symmetric matrix that are evaluated at a time.
STRIP = 128
# Rows whose coordinates are prepared at a time.
PREPARED = 2**14
# Entries from which several threads share a product.
SHARED = 2**20
# Entries from which a cluster shares one.
CLUSTER = 2**30
# Share of the largest squared norms below which the product form has lost too many digits, as a
# power of the precision.
LOST = 0.4


def is_definite(kernel: Kernel) -> bool:
    """Whether a kernel is positive semidefinite on any data, so that no Gram matrix has to be
    tested.
    """
    if isinstance(kernel, Polynomial):
        return kernel.coef0 >= 0
    return isinstance(kernel, (Linear, RBF, Exponential, Laplacian))


def is_positive(kernel: Kernel) -> bool:
    """Whether no entry of a kernel matrix is negative on any data."""
    return isinstance(kernel, (RBF, Exponential, Laplacian))


class KernelProduct(NamedTuple):
    r"""A computed :math:`\hat K v` and what bounds its error."""

    scores: Floats
    magnitude: Floats
    entries: Floats


class KernelColumns:
    """The kernel matrix between some rows and some columns, evaluated in blocks."""

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
        self._product = (
            isinstance(kernel, RBF) and not sp.issparse(rows) and not sp.issparse(columns)
        )
        if isinstance(kernel, RBF) and self._product:
            self._gamma = float(kernel.gamma)
            origin = np.asarray(
                columns.mean(axis=0) if centre is None else centre, dtype=np.float64
            )
            self._rows, self._row_halves = self._prepared(rows, origin, columns=False)
            if rows is columns:
                # The same numbers, the last two columns exchanged.
                self._columns, self._column_halves = self._rows.copy(), self._row_halves
                self._columns[:, -2:] = self._rows[:, :-3:-1]
            else:
                self._columns, self._column_halves = self._prepared(columns, origin, columns=True)
            # Half the squared norms of z are γ times those of the centred rows.
            d = int(rows.shape[1])
            self._row_shares, self._column_shares = (
                shift_error(halves, 1.0, d) for halves in (self._row_halves, self._column_halves)
            )
        else:
            self._rows = rows.astype(self.dtype, copy=False)
            self._columns = (
                self._rows if rows is columns else columns.astype(self.dtype, copy=False)
            )

    def _prepared(self, X: Any, centre: Floats, *, columns: bool) -> tuple[NDArray[Any], Floats]:
        """Return the factor of the exponent that belongs to some rows of data, and half the squared
        norms of their z.
        """
        d = X.shape[1]
        factor, halves = np.empty((X.shape[0], d + 2), dtype=self.dtype), np.empty(X.shape[0])
        for start in range(0, X.shape[0], PREPARED):
            part = slice(start, start + PREPARED)
            z = (X[part] - centre) * math.sqrt(2.0 * self._gamma)
            halves[part] = 0.5 * row_norms_squared(z)
            factor[part, :d] = z
            factor[part, d + columns] = -halves[part]
            factor[part, d + (not columns)] = 1.0
        return factor, halves

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
            found._column_shares = self._column_shares[columns]
        return found

    def __call__(self, rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the block of the rows given by a slice or an array of indices, written to `out` if
        that is given.
        """
        if not self._product:
            block: NDArray[Any] = self.kernel(self._rows[rows], self._columns, dtype=self.dtype)
            if out is None:
                return block
            out[...] = block
            return out
        part, n = self._rows[rows], self.shape[1]
        found = np.empty((part.shape[0], n), dtype=self.dtype) if out is None else out
        width = max(1, self.tile_entries // max(1, part.shape[0]))
        for start in range(0, n, width):
            columns = slice(start, start + width)
            tile, _ = self._exponents(rows, part, columns)
            np.exp(tile, out=found[:, columns])
        return found

    def _exponents(
        self, rows: Any, part: NDArray[Any], columns: slice, out: NDArray[Any] | None = None
    ) -> tuple[NDArray[Any], float]:
        """Return a tile of the exponents of an RBF kernel, and the exponent from which they come
        from differences.
        """
        tile = np.matmul(part, self._columns[columns].T, out=out)
        # Digits lost of an exponent are those of its largest term.
        largest = float(self._row_halves[rows].max(initial=0.0)) + float(
            self._column_halves[columns].max(initial=0.0)
        )
        close = -float(np.finfo(self.dtype).eps ** LOST) * largest
        if tile.size and not float(tile.max()) < close:
            found = np.flatnonzero(tile >= close)
            # From the rows as they were passed: centring has cost digits of rows that are close to
            # each other but far from the centre.
            raw, others = self._data_rows[rows], self._data_columns[columns]
            for start in range(0, found.size, 65536):
                i, j = np.divmod(found[start : start + 65536], tile.shape[1])
                difference = raw[i] - others[j]
                tile[i, j] = -self._gamma * np.einsum("ij,ij->i", difference, difference)
        return tile, close

    def _tiles(self) -> tuple[list[slice], list[slice]]:
        m, n = self.shape
        width = max(1, min(n, TILE_COLUMNS, self.tile_entries))
        height = max(1, self.tile_entries // width)
        return [slice(i, i + height) for i in range(0, m, height)], [
            slice(j, j + width) for j in range(0, n, width)
        ]

    def add_product(self, scores: Floats, v: Floats) -> None:
        r"""Add :math:`Kv`, computed in the precision of the blocks, to scores."""
        parts, across = self._tiles()
        weights = v.astype(self.dtype)
        pieces = [(self.some(columns), weights[columns]) for columns in across]

        def work(rows: slice) -> None:
            buffer = np.empty(self.tile_entries, dtype=self.dtype)
            part = self._rows[rows]
            for piece, chosen in pieces:
                scores[rows] += piece._tile(rows, part, buffer)[0] @ chosen

        for_each_part(work, parts, threads=self.shape[0] * self.shape[1] >= SHARED)

    def _tile(
        self, rows: slice, part: NDArray[Any], buffer: NDArray[Any]
    ) -> tuple[NDArray[Any], float]:
        """Return the block of some rows, and the exponent from which the pairs of an RBF kernel
        come from differences.
        """
        if not self._product:
            return self.kernel(part, self._columns, dtype=self.dtype), math.nan
        shape = part.shape[0], self._columns.shape[0]
        tile, close = self._exponents(
            rows, part, slice(None), buffer[: shape[0] * shape[1]].reshape(shape)
        )
        return np.exp(tile, out=tile), close

    def matrix(self) -> tuple[Floats, EntryError]:
        """Return the whole matrix in double precision, and a bound on the error of its entries."""
        m, n = self.shape
        return self._bounded_tile(slice(None), self._rows, np.empty(m * n))

    def symmetric_matrix(self) -> tuple[Floats, EntryError] | None:
        """Return :meth:`matrix` of rows that are the columns, half of it evaluated; None where no
        bound is known before the entries are.
        """
        error, n = self._separable_error(), self.shape[0]
        if error is None:
            return None
        found = np.empty((n, n))
        for start in range(0, n, STRIP):
            end = min(start + STRIP, n)
            self.some(slice(start, None))(slice(start, end), out=found[start:end, start:])
            found[end:, start:end] = found[start:end, end:].T
        return found, error

    def product(self, v: Floats) -> KernelProduct:
        r"""Return :math:`Kv` in double precision, and what bounds the error of its entries."""
        m = self.shape[0]
        found = KernelProduct(np.zeros(m), np.zeros(m), np.zeros(m))
        if m * self.shape[1] >= CLUSTER and (client := default_client()) is not None:
            done = on_cluster(
                client, _product_of, (self._with_rows(self._part(slice(0, 0))), v), m, self._part
            )
            if done is not None:
                for rows, part in done:
                    for array, values in zip(found, part, strict=True):
                        array[rows] = values
                return found
        parts, across = self._tiles()
        positive = is_positive(self.kernel)
        whole = self._separable_error()
        pieces = [(self.some(columns), v[columns]) for columns in across]
        sides = (
            []
            if whole is None
            else [with_sizes(v[columns], whole.columns[columns]) for columns in across]
        )
        # Sums of positive numbers are enlarged by more than their rounding.
        enlarge = 1.0 + 4.0 * len(across) * U

        def work(rows: slice) -> None:
            buffer = np.empty(self.tile_entries)
            part = self._rows[rows]
            sums = np.zeros((3, part.shape[0]))
            for k, (piece, chosen) in enumerate(pieces):
                if whole is not None:
                    tile, _ = piece._tile(rows, part, buffer)
                    # Three products with a vector take half as long as one with three columns.
                    for total, side in zip(sums, sides[k], strict=True):
                        total += tile @ side
                    continue
                tile, error = piece._bounded_tile(rows, part, buffer)
                three = with_sizes(chosen, error.columns)
                size = tile if positive else np.abs(tile)
                values = np.stack([tile @ three[0], size @ three[1], size @ three[2]])
                sums += values
                found.entries[rows] += error.of_products(values[1], values[2], chosen)
            sums[1:] *= enlarge
            found.scores[rows], found.magnitude[rows] = sums[0], sums[1]
            if whole is None:
                found.entries[rows] *= enlarge
            else:
                error = whole._replace(rows=whole.rows[rows], left=whole.left[rows])
                found.entries[rows] = error.of_products(sums[1], sums[2], v)

        for_each_part(work, parts, threads=m * self.shape[1] >= SHARED)
        return found

    def _part(self, rows: slice) -> tuple[Any, ...]:
        parts = (self._data_rows[rows], self._rows[rows])
        return (*parts, self._row_halves[rows], self._row_shares[rows]) if self._product else parts

    def _with_rows(self, part: tuple[Any, ...]) -> Self:
        """Return the same columns for other rows, given their prepared parts."""
        found = copy.copy(self)
        found._data_rows, found._rows = part[:2]
        if self._product:
            found._row_halves, found._row_shares = part[2:]
        return found

    def _separable_error(self) -> EntryError | None:
        """Return the bound on the error of all entries where it is known before they are, and None
        elsewhere.
        """
        if (
            not self._product
            or max(self._row_shares.max(initial=0.0), self._column_shares.max(initial=0.0))
            > NOTICEABLE
        ):
            return None
        nothing = np.empty((0, 0))
        return self._error(nothing, self._row_shares, lambda: nothing > 0.0)

    def _error(
        self, values: Floats, rows: Floats, close: Callable[[], NDArray[np.bool_]]
    ) -> EntryError:
        """Return the bound on the error of exponentials with these shares of their rows."""
        return exponential_error(
            values, rows, self._column_shares, int(self._data_columns.shape[1]), close
        )

    def _bounded_tile(
        self, rows: slice, part: NDArray[Any], buffer: Floats
    ) -> tuple[Floats, EntryError]:
        """Return the block of some rows in double precision, and a bound on the error of its
        entries.
        """
        if not self._product:
            return self.kernel.bounded_block(self._data_rows[rows], self._data_columns)
        tile, close = self._tile(rows, part, buffer)
        # What does not come from differences has an exponent below the limit.
        return tile, self._error(
            tile, self._row_shares[rows], lambda: tile >= math.exp(0.5 * close)
        )


def with_sizes(v: Floats, shares: Floats) -> Floats:
    """Return what a block is multiplied by: the coefficients, their sizes, and these times shares
    of the columns.
    """
    size = np.abs(v)
    return np.stack([v, size, shares * size])


def _product_of(shared: tuple[KernelColumns, Floats], part: tuple[Any, ...]) -> KernelProduct:
    """Return the product of some rows, in a worker."""
    columns, v = shared
    return columns._with_rows(part).product(v)


log = logging.getLogger(__name__)

R = TypeVar("R")
S = TypeVar("S")
T = TypeVar("T")

# Parts for each thread of the cluster, so that a slow worker is not waited for.
PARTS = 2


def on_cluster(
    client: Any, call: Callable[[S, R], T], shared: S, rows: int, part: Callable[[slice], R]
) -> list[tuple[slice, T]] | None:
    """Call a function for all parts of some rows, on the workers."""
    height = -(-rows // (PARTS * max(1, sum(client.nthreads().values()))))
    slices = [slice(start, start + height) for start in range(0, rows, height)]
    try:
        everywhere = client.scatter(shared, broadcast=True, hash=False)
        parts = client.scatter([part(one) for one in slices], hash=False)
        found = client.gather([client.submit(call, everywhere, one, pure=False) for one in parts])
    except Exception as error:  # when a cluster fails in any way, the work is done here
        log.warning(
            "the cluster could not multiply with the kernel matrix (%s); this process does", error
        )
        return None
    return list(zip(slices, found, strict=True))
