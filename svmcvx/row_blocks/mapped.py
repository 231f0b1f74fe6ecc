"""A function of rows on all blocks of a source."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.row_blocks.sources import BlockLabels, Piece, RowBlocks, piece_of

__all__ = ["labelled_pieces", "mapped_rows"]


def mapped_rows(function: Callable[[Any], NDArray[Any]], X: Any, dtype: Any) -> Any:
    """Return what a function gives for the rows of all blocks.

    Parameters
    ----------
    function : callable
        Takes rows of shape (m, d), returns an array of shape (m,).
    X : RowBlocks, Dask array or Dask DataFrame
    dtype : dtype
        Of the result.

    Returns
    -------
    ndarray or Dask collection
        For a :class:`~svmcvx.row_blocks.RowBlocks` an array; for a Dask array or DataFrame a lazy Dask array.
    """
    if isinstance(X, RowBlocks):
        pieces = (piece_of(load()).X for load in X.loaders)
        return np.concatenate([function(rows) for rows in pieces if rows.shape[0]]).astype(dtype, copy=False)
    if hasattr(X, "chunks"):
        rows = X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X
        return rows.map_blocks(function, dtype=dtype, drop_axis=1, meta=np.zeros(0, dtype=dtype))
    return X.to_dask_array().map_blocks(function, dtype=dtype, drop_axis=1, meta=np.zeros(0, dtype=dtype))


def labelled_pieces(X: Any, y: Any, sample_weight: Any) -> Iterator[Piece]:
    """Yield the blocks of a source one after another, with the labels and weights that were passed beside them.

    Raises
    ------
    DataError
        If a block has no labels, or lengths differ.
    """
    if not isinstance(X, RowBlocks):
        raise DataError("X is a Dask collection; compute the mean of predict(X) == y")
    first = 0
    arrays = [
        None if values is None or isinstance(values, BlockLabels) else np.asarray(values)
        for values in (y, sample_weight)
    ]
    for load in X.loaders:
        piece = piece_of(load())
        m = piece.X.shape[0]
        own = [None if values is None else values[first : first + m] for values in arrays]
        labels = piece.y if own[0] is None else own[0]
        if labels is None or labels.shape != (m,):
            raise DataError(f"y must hold one label a row; the block from row {first} has none")
        yield Piece(piece.X, labels, piece.weight if own[1] is None else own[1])
        first += m
    if any(values is not None and values.shape[0] != first for values in arrays):
        raise DataError(f"y and sample_weight must hold one number for each of the {first} rows of X")
