"""The first pass over rows in blocks: it validates them, draws a sample, and stores the labels,
weights and norms for later passes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate.rows import row_norms_above
from svmcvx.data import BinaryData, Features, check_labels, check_weights, coded_labels
from svmcvx.errors import DataError
from svmcvx.feature_space.blocks import SAME, BlockRows, BlockSpace, Sample
from svmcvx.feature_space.linear import DENSE, LinearSpace
from svmcvx.row_blocks.labels import ClassPartition
from svmcvx.row_blocks.piece import Piece, PieceDigests
from svmcvx.row_blocks.shards import ShardBlocks, Shards, ShardState, reads_rows
from svmcvx.row_blocks.sources import BlockLabels, DaskRows, RowBlocks, checked_piece, dask_rows

__all__ = ["block_space"]

Floats: TypeAlias = NDArray[np.float64]

# Largest squared length of a row, as for data in memory.
LARGEST_SQUARE = 1e250
# Least number of rows of the sample that is solved first; rows for each unknown; largest number of
# entries.
SAMPLE_ROWS, SAMPLE_PER_COLUMN, SAMPLE_ENTRIES = 20_000, 100, 2**23


class _Scanned(NamedTuple):
    """Results of a pass over a shard, for each block: rows, labels, weights by label, lengths,
    digests, and a sample of rows.
    """

    rows: list[int]
    labels: list[NDArray[Any]]
    weights: list[Floats]
    entries: float
    largest: float
    stiffest: float
    sample: list[tuple[Features, NDArray[Any], Floats]]
    digests: list[PieceDigests]


def block_space(
    X: Any, y: Any, sample_weight: Any, *, intercept: str, seed: int = 0, covariance: bool = False
) -> BlockSpace:
    """Validate data in blocks and return their space."""
    sides, y = (y, y.given) if isinstance(y, ClassPartition) else (None, y)
    source, arrays = _source(X, y, sample_weight)
    shards = Shards.of(source)
    for name, listed in arrays.items():
        shards.give(name, _by_shard(listed, shards.blocks))
    centre, dense = _first_look(shards, intercept)
    columns, count = centre.size, sum(shards.blocks)
    unknowns = columns * (columns + 1) // 2 if covariance else columns
    wanted = max(SAMPLE_ROWS, SAMPLE_PER_COLUMN * unknowns)
    quota = max(1, int(np.ceil(wanted / count)))
    numbers = [(offset,) for offset in shards.offsets]
    sampling = quota, SAMPLE_ENTRIES / count, seed
    # The labels of the states are not needed any more.
    seen = None if sides is None else replace(sides, given=None, digests=[])
    found: list[_Scanned] = shards.change(_scan, numbers, intercept, centre, dense, sampling, seen)
    if sides is not None:
        sides.require_same([digests for scanned in found for digests in scanned.digests])
    labels = [part for scanned in found for part in scanned.labels]
    rows = [number for scanned in found for number in scanned.rows]
    if not sum(part.size for part in labels):
        raise DataError("X is empty: 0 samples, or no weight that is positive")
    merged = coded_labels(
        np.concatenate([part for part in labels if part.size]), sum(p.size for p in labels), "y"
    )[1]
    _, classes = check_labels(merged, merged.size, binary=True)
    largest = max(scanned.largest for scanned in found)
    if not largest * largest <= LARGEST_SQUARE:
        raise DataError(
            f"the rows of X reach a length of {largest:.3g}, where arithmetic overflows; scale the"
            f" data to a squared length below {LARGEST_SQUARE:g}"
        )
    signed = shards.change(_encode, [(scanned.digests,) for scanned in found], classes)
    weights = tuple(math.fsum(part[k] for part in signed) for k in (0, 1))
    if not all(weights):
        raise DataError(
            "sample_weight is zero for every observation of a class; both classes need positive"
            " weight"
        )
    n = int(sum(part[2] for part in signed))
    return BlockSpace(
        shards,
        intercept,
        centre,
        dense,
        classes,
        n,
        sum(rows),
        (weights[0], weights[1]),
        largest,
        max(scanned.stiffest for scanned in found),
        sum(scanned.entries for scanned in found) / n,
        _concatenated_sample([part for scanned in found for part in scanned.sample], classes),
    )


def _source(X: Any, y: Any, sample_weight: Any) -> tuple[Any, dict[str, list[NDArray[Any]]]]:
    """Return the argument of :meth:`Shards.of`, and labels and weights that are in memory, one
    array a block.
    """
    if isinstance(X, RowBlocks):
        if isinstance(y, BlockLabels) and y.blocks is not X:
            raise DataError("y holds the labels of another source; pass y=X.y")
        if y is None and not X.labelled:
            raise DataError(
                "a classifier requires y to be passed, but the target y is None; pass one label an"
                " observation"
            )
        lengths, labelled = X.lengths, y is None or isinstance(y, BlockLabels)
        source: Any = X.loaders
    else:
        if y is None:
            raise DataError(
                "a classifier requires y to be passed, but the target y is None; pass one label an"
                " observation"
            )
        source = dask_rows(X, y, sample_weight)
        lengths, labelled = source.lengths, bool(source.y)
    arrays = {}
    for values, name, beside in (
        (y, "y", labelled),
        (sample_weight, "sample_weight", isinstance(source, DaskRows) and bool(source.weight)),
    ):
        if values is None or beside:
            continue
        if lengths is None:
            raise DataError(
                f"{name} is an array, but the lengths of the blocks are not known; pass labels and"
                " weights with the blocks"
                + ("" if isinstance(X, RowBlocks) else ", or X.compute_chunk_sizes()")
            )
        given = np.asarray(values)
        if given.shape != (sum(lengths),):
            raise DataError(
                f"{name} has shape {given.shape} but X has {sum(lengths)} rows: inconsistent"
                " numbers of samples; pass one number a row"
            )
        arrays[name] = np.split(given, np.cumsum(lengths)[:-1])
    return source, arrays


def _by_shard(listed: Sequence[Any], blocks: Sequence[int]) -> list[list[Any]]:
    ends = np.cumsum([0, *blocks])
    return [list(listed[a:b]) for a, b in itertools.pairwise(ends)]


def _first_look(shards: Shards, intercept: str) -> tuple[Floats, bool]:
    """Return the centre from the first block with rows, zeros if nothing is subtracted, and whether
    sparse blocks become dense.
    """
    for source, state, first in zip(shards.sources, shards.states, shards.offsets, strict=True):
        found = Shards([source], [state], [1], shards.client).read(_peek, None, first, intercept)[0]
        if found is not None:
            centre: Floats = found[0]
            return centre, bool(found[1])
    raise DataError("X is empty: 0 samples in all blocks; pass some data")


@reads_rows
def _peek(
    pieces: ShardBlocks, parts: ShardState, first: int, intercept: str
) -> tuple[Floats, bool] | None:
    for k, piece in enumerate(pieces):
        if piece.X.shape[0]:
            X = checked_piece(piece, first + k, None).X
            dense = intercept == "free" and (
                not sp.issparse(X) or X.nnz >= DENSE * X.shape[0] * X.shape[1]
            )
            return np.asarray(X.mean(axis=0)).ravel() if dense else np.zeros(X.shape[1]), dense
    return None


@reads_rows
def _scan(
    pieces: ShardBlocks,
    parts: ShardState,
    number: int,
    intercept: str,
    centre: Floats,
    dense: bool,
    sampling: tuple[int, float, int],
    sides: ClassPartition | None,
) -> tuple[ShardState, _Scanned]:
    """Validate a shard; store labels, weights and norms in its state, and return the results for
    all blocks.
    """
    quota, most_entries, seed = sampling
    stored: list[BlockRows] = []
    known: list[PieceDigests] = []
    counted: list[int] = []
    weighed: list[Floats] = []
    sampled: list[tuple[Features, NDArray[Any], Floats]] = []
    entries, largest, stiffest = 0.0, 0.0, 0.0
    for k, raw in enumerate(pieces):
        piece, digests = _with_arrays(raw, parts, k), PieceDigests.of(raw)
        known.append(digests)
        if piece.X.shape[0] == 0:
            stored.append(
                BlockRows(
                    np.zeros(0),
                    np.zeros(0),
                    np.zeros(0),
                    None,
                    np.zeros(0),
                    0,
                    np.zeros(0),
                    number + k,
                    digests,
                )
            )
            counted.append(0)
            weighed.append(np.zeros(0))
            continue
        piece = checked_piece(piece, number + k, centre.size)
        m = piece.X.shape[0]
        if piece.y is None:
            raise DataError(f"block {number + k} comes without labels; pass them as y")
        if sides is not None:
            piece = Piece(piece.X, *sides.seen(piece.y, piece.weight))
        codes, labels = coded_labels(piece.y, m, f"y in block {number + k}")
        weight = check_weights(piece.weight, m, name=f"sample_weight in block {number + k}")
        chosen = None if (weight > 0).all() else np.flatnonzero(weight > 0)
        X = piece.X.toarray() if dense and sp.issparse(piece.X) else piece.X
        left_out = labels[codes[weight == 0]]
        if chosen is not None:
            X, codes, weight = X[chosen], codes[chosen], weight[chosen]
        data = BinaryData(
            X, codes.astype(np.float64), weight, np.arange(codes.size), labels, codes.size
        )
        norms = row_norms_above(LinearSpace(data, intercept, centre).X)
        stored.append(
            BlockRows(
                codes.astype(np.float64),
                weight,
                norms,
                chosen,
                left_out,
                m,
                labels,
                number + k,
                digests,
            )
        )
        counted.append(m)
        weighed.append(
            np.asarray(np.bincount(codes, weights=weight, minlength=labels.size), dtype=np.float64)
        )
        entries += X.nnz if sp.issparse(X) else X.size
        largest = max(largest, float(norms.max(initial=0.0)))
        stiffest = max(stiffest, float((weight * norms**2).max(initial=0.0)))
        if codes.size:
            sampled.append(_some(X, labels[codes], weight, quota, most_entries, (seed, number + k)))
    present = [rows.labels[weights > 0] for rows, weights in zip(stored, weighed, strict=True)]
    return {"rows": stored}, _Scanned(
        counted, present, weighed, entries, largest, stiffest, sampled, known
    )


def _with_arrays(piece: Piece, parts: ShardState, k: int) -> Piece:
    """Return a block with the labels and weights that were passed separately."""
    y = parts["y"][k] if "y" in parts else piece.y
    return Piece(
        piece.X, y, parts["sample_weight"][k] if "sample_weight" in parts else piece.weight
    )


def _some(
    X: Features,
    y: NDArray[Any],
    weight: Floats,
    quota: int,
    most_entries: float,
    seed: tuple[int, int],
) -> tuple[Features, NDArray[Any], Floats]:
    """Return some rows of each class of a block, at least one, with weights of the same sum as
    those of the class.
    """
    m = y.size
    width = X.nnz / m if sp.issparse(X) else float(X.shape[1])
    share = min(1.0, min(quota, max(1.0, most_entries / max(width, 1.0))) / m)
    rng = np.random.default_rng(seed)
    rows, weights = [], []
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        chosen = rng.choice(members, size=math.ceil(share * members.size), replace=False)
        rows.append(chosen)
        weights.append(
            weight[chosen] * (float(weight[members].sum()) / float(weight[chosen].sum()))
        )
    order = np.argsort(np.concatenate(rows), kind="stable")
    chosen = np.concatenate(rows)[order]
    return X[chosen], y[chosen], np.concatenate(weights)[order]


def _encode(
    pieces: ShardBlocks, parts: ShardState, digests: list[PieceDigests], classes: NDArray[Any]
) -> tuple[ShardState, tuple[float, float, int]]:
    """Turn positions in the labels of a block into ±1; return the weights of both classes and the
    number of rows.
    """
    signed: list[BlockRows] = []
    negative: list[float] = []
    positive: list[float] = []
    for rows, before in zip(parts["rows"], digests, strict=True):
        if rows.digests != before:
            raise DataError(f"block {rows.number} has changed since the first pass; {SAME}")
        sign = np.where(rows.labels == classes[1], 1.0, -1.0)
        y = sign[rows.y.astype(np.intp)] if rows.labels.size else rows.y
        signed.append(replace(rows, y=y))
        negative.append(math.fsum(rows.weight[y < 0].tolist()))
        positive.append(math.fsum(rows.weight[y > 0].tolist()))
    # Labels and weights that were passed separately are in `signed` now.
    return {"rows": signed, "y": [], "sample_weight": []}, (
        math.fsum(negative),
        math.fsum(positive),
        sum(rows.y.size for rows in signed),
    )


def _concatenated_sample(
    parts: list[tuple[Features, NDArray[Any], Floats]], classes: NDArray[Any]
) -> Sample:
    X = [part[0] for part in parts]
    stacked = sp.csr_array(sp.vstack(X)) if sp.issparse(X[0]) else np.vstack(X)
    labels = np.concatenate([part[1] for part in parts])
    return Sample(
        stacked,
        np.where(labels == classes[1], 1.0, -1.0),
        np.concatenate([part[2] for part in parts]),
    )
