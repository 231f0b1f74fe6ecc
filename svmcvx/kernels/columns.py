"""Columns of a Gram matrix, evaluated in blocks of rows, for spaces that keep no matrix."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from svmcvx.data import BinaryData
from svmcvx.kernels.distances import row_norms_squared
from svmcvx.kernels.entry_error import EntryError, exponential_error, shift_error
from svmcvx.kernels.functions import RBF, Exponential, Kernel, Laplacian, Linear, Polynomial, Precomputed

__all__ = ["KernelColumns", "is_definite"]


def is_definite(kernel: Kernel) -> bool:
    """Whether a kernel is positive semidefinite on any data, so that no Gram matrix has to be tested."""
    if isinstance(kernel, Polynomial):
        return kernel.coef0 >= 0
    return isinstance(kernel, (Linear, RBF, Exponential, Laplacian))


class KernelColumns:
    r"""Some columns of a Gram matrix, evaluated for any of its rows.

    What depends on the data alone is prepared once. The exponent of an RBF kernel on dense data is one matrix product:
    with :math:`z = \sqrt{2\gamma}\,(x - \bar x)` it is :math:`z_i'z_j - \tfrac12\|z_i\|^2 - \tfrac12\|z_j\|^2`,
    and pairs so close that this has lost their digits are computed from their difference.

    Parameters
    ----------
    kernel : Kernel
        With its parameters as numbers.
    data : BinaryData
    columns : ndarray of int, optional
        Observations; all by default.
    dtype : float64 or float32
    """

    def __init__(
        self, kernel: Kernel, data: BinaryData, columns: NDArray[np.intp] | None = None, dtype: DTypeLike = np.float64
    ) -> None:
        self.kernel, self.dtype = kernel, np.dtype(dtype)
        chosen = slice(None) if columns is None else columns
        self._data_rows: Any = data.X
        self._data_columns: Any = None if isinstance(kernel, Precomputed) else data.X[chosen]
        self._product = isinstance(kernel, RBF) and not sp.issparse(data.X)
        if isinstance(kernel, Precomputed):
            self._rows = data.X[:, data.index if columns is None else data.index[columns]]
        elif isinstance(kernel, RBF) and self._product:
            self._gamma = float(kernel.gamma)
            z = (data.X - data.X.mean(axis=0)) * math.sqrt(2.0 * self._gamma)
            squares = row_norms_squared(z)
            half = -0.5 * squares[:, None]
            # Half the squared norms of z are γ times those of the centred rows.
            share = shift_error(0.5 * squares, 1.0, data.X.shape[1])
            self._shares = share, share[chosen]
            ones = np.ones_like(half)
            self._rows = np.hstack([z, half, ones]).astype(self.dtype)
            self._columns = np.hstack([z[chosen], ones[chosen], half[chosen]]).astype(self.dtype)
            # Digits lost of an exponent are those of its largest term.
            self._close = float(np.finfo(self.dtype).eps ** 0.4 * 2.0 * half.min())
        else:
            self._rows = data.X.astype(self.dtype, copy=False)
            self._columns = self._rows[chosen]

    def __call__(self, rows: Any, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Return the block of the rows given by a slice or an array of indices, written to `out` if that is given."""
        part = self._rows[rows]
        if not self._product:
            if isinstance(self.kernel, Precomputed):
                block = np.asarray(part.toarray() if sp.issparse(part) else part).astype(self.dtype, copy=False)
            else:
                block = self.kernel(part, self._columns, dtype=self.dtype)
            if out is None:
                return block
            out[...] = block
            return out
        block = np.matmul(part, self._columns.T, out=out)
        close = np.flatnonzero(block >= self._close)
        if close.size:
            # From the rows as they were passed: centred ones have lost the digits of what is close but far from the centre.
            raw = self._data_rows[rows]
            for start in range(0, close.size, 65536):
                i, j = np.divmod(close[start : start + 65536], block.shape[1])
                difference = raw[i] - self._data_columns[j]
                block[i, j] = -self._gamma * np.einsum("ij,ij->i", difference, difference)
        return np.asarray(np.exp(block, out=block))

    def bounded(self, rows: Any) -> tuple[NDArray[np.float64], EntryError]:
        """Return the block of some rows in double precision, and a bound on the error of its entries."""
        if isinstance(self.kernel, Precomputed):
            block = self(rows)
            return block, EntryError.none(*block.shape)
        if not self._product:
            return self.kernel.bounded_block(self._data_rows[rows], self._data_columns)
        block, (all_rows, columns) = self(rows), self._shares
        # What does not come from differences has an exponent below the limit.
        return block, exponential_error(
            block,
            all_rows[rows],
            columns,
            self._data_rows.shape[1],
            lambda: block >= math.exp(0.5 * self._close),
        )
