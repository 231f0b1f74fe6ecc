"""A function of rows on all blocks of a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import check_weights
from svmcvx.errors import DataError
from svmcvx.row_blocks.labels import LabelCounts
from svmcvx.row_blocks.piece import Piece
from svmcvx.row_blocks.shards import ShardBlocks, Shards, ShardState, reads_rows
from svmcvx.row_blocks.sources import BlockLabels, RowBlocks, piece_of

__all__ = ["labelled_pieces", "mapped_rows", "weight_counts"]


def mapped_rows(model: Any, method: str, X: Any, dtype: Any, *, columns: int | None = None) -> Any:
    """Return what a method of a model gives for the rows of all blocks."""
    model = model.without_support()
    if isinstance(X, RowBlocks):
        shards = Shards.of(X.loaders)
        if shards.client is None:
            # One block after another, since a model uses several threads itself.
            listed = [_mapped(ShardBlocks((load,)), {}, model, method) for load in X.loaders]
        else:
            listed = shards.read(_mapped, None, model, method)
        return np.concatenate([part for found in listed for part in found]).astype(
            dtype, copy=False
        )
    rows = X if hasattr(X, "chunks") else X.to_dask_array()
    rows = rows.rechunk({1: -1}) if len(rows.chunks[1]) > 1 else rows
    import dask

    shape = {"drop_axis": 1} if columns is None else {"chunks": (rows.chunks[0], (columns,))}
    empty = np.zeros((0,) if columns is None else (0, columns), dtype=dtype)
    return rows.map_blocks(
        _of_rows, dask.delayed(model, traverse=False), method, dtype=dtype, meta=empty, **shape
    )


@reads_rows
def _mapped(pieces: ShardBlocks, parts: ShardState, model: Any, method: str) -> list[NDArray[Any]]:
    return [_of_rows(piece.X, model, method) for piece in pieces if piece.X.shape[0]]


def _of_rows(X: Any, model: Any, method: str) -> NDArray[Any]:
    found: NDArray[Any] = getattr(model, method)(X)
    return found


def labelled_pieces(X: Any, y: Any, sample_weight: Any) -> Iterator[Piece]:
    """Yield the blocks of a source one after another, with the labels and weights that were passed
    separately.
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
        raise DataError(
            f"y and sample_weight must hold one number for each of the {first} rows of X"
        )


def weight_counts(X: Any, y: Any, sample_weight: Any, labels: LabelCounts) -> NDArray[Any]:
    """Return the sums of the weights of each class; the numbers of rows where there are none."""
    if not isinstance(X, RowBlocks):
        if sample_weight is None:
            return labels.counts
        codes = np.searchsorted(labels.classes, np.asarray(y))
        return np.bincount(codes, weights=np.asarray(sample_weight), minlength=labels.classes.size)
    found = np.zeros(labels.classes.size)
    for piece in labelled_pieces(X, y, sample_weight):
        codes = np.searchsorted(labels.classes, piece.y)
        weight = check_weights(piece.weight, codes.size)
        found += np.bincount(codes, weights=weight, minlength=found.size)
    return found
