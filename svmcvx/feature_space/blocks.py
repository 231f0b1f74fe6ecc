"""The feature space of a linear model of rows in blocks."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.certificate.bounded import Bounded, exact
from svmcvx.certificate.rows import Ball, row_norms_above
from svmcvx.data import BinaryData, Features, check_labels, check_weights, coded_labels
from svmcvx.errors import DataError, SvmcvxError
from svmcvx.feature_space.linear import DENSE, LinearSpace
from svmcvx.kernels.factor import LARGEST_ENTRY
from svmcvx.kernels.functions import dense as dense_rows
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.row_blocks import (
    BlockLabels,
    ClassPartition,
    Piece,
    PieceDigests,
    RowBlocks,
    ShardBlocks,
    Shards,
    ShardState,
    checked_piece,
    dask_rows,
    is_dask,
    reads_rows,
)
from svmcvx.system.memory import SMALL_ENTRIES

# End of messages about a block that has changed.
SAME = "a source must not change"


EMPTY = np.zeros(0)


class BlockRows(NamedTuple):
    """The data of a block in memory, all but rows; `y` are places in its labels at first."""

    number: int
    digests: PieceDigests
    rows: int = 0
    y: Floats = EMPTY
    weight: Floats = EMPTY
    norms: Floats = EMPTY
    positive: NDArray[np.intp] | None = None
    left_out: NDArray[Any] = EMPTY
    labels: NDArray[Any] = EMPTY

    def require_same(self, piece: Piece, columns: int) -> None:
        """Raise a DataError that names the block if it has changed since the first pass."""
        now = PieceDigests.of(piece)
        if now == self.digests:
            return
        try:
            checked_piece(piece, self.number, columns)
        except DataError as error:
            raise DataError(f"{error}; it was not so at the first pass: {SAME}") from None
        changed = [
            name
            for name, old, new in zip(now._fields, self.digests, now, strict=True)
            if old != new
        ]
        raise DataError(
            f"block {self.number}: its {' and '.join(changed)} are not those of the first pass;"
            f" {SAME}"
        )

    def features(self, piece: Piece, columns: int, dense: bool) -> Features:
        """Return the rows of positive weight, sparse in double precision, or dense."""
        X = piece.X
        if X.shape != (self.rows, columns):
            raise DataError(
                f"block {self.number} had the shape {(self.rows, columns)} and has {X.shape} now;"
                f" {SAME}"
            )
        if sp.issparse(X):
            if not isinstance(X, sp.csr_array) or X.dtype != np.float64:
                X = sp.csr_array(X, dtype=np.float64)
            if not X.has_canonical_format:
                X = X.copy()
                X.sum_duplicates()
            X = X.toarray() if dense else X
        return X if self.positive is None else X[self.positive]


class BlockSettings(NamedTuple):
    """Settings that all blocks of a :class:`BlockSpace` share."""

    intercept: str
    centre: Floats
    dense: bool
    classes: NDArray[Any]
    # Whether every block is compared with the first pass, as in the passes of a certificate.
    compared: bool = False


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockSpace(LinearSpace):
    """Rows in blocks of a linear model: labels, weights and multipliers are in memory."""

    shards: Shards
    dense: bool
    largest_norm: float
    stiffness: float
    entries: float
    # Numbers of rows of positive weight.
    rows_of_shards: list[int]
    # Some of the rows as passed; their weights have the sums of all rows.
    sample: BinaryData = field(repr=False)

    @property
    def X(self) -> Features:
        raise TypeError("rows in blocks are not in memory together")

    @property
    def factor_is_data(self) -> bool:
        return True

    @property
    def blockwise(self) -> bool:
        return True

    @property
    def facts(self) -> dict[str, float]:
        """Number of blocks, and of passes over all of them so far."""
        shards = self.shards
        return {"row_blocks": float(sum(shards.blocks)), "row_passes": float(shards.passes)}

    @property
    def d(self) -> int:
        """Number of columns in the formulation."""
        return self.centre.size + (self.intercept == "penalised")

    def scores(self, model: BinaryModel) -> Bounded:
        assert isinstance(model, LinearModel)  # noqa: S101 - rows in blocks have no kernel
        if not model.coef.any():
            # No row is read, so that these scores exist whatever has become of the blocks.
            return exact(np.full(self.data.n, model.intercept))
        for last, scores in self._last_scores:
            if last.intercept == model.intercept and np.array_equal(last.coef, model.coef):
                return scores
        found = concatenate(self._each(_scores, None, model.without_support()))
        self._last_scores[:] = [(model, found)]
        return found

    @cached_property
    def _last_scores(self) -> list[tuple[LinearModel, Bounded]]:
        """The model whose scores were asked for last."""
        return []

    def expansion(self, v: Floats | Bounded) -> Ball:
        v = exact(v)
        if v.is_exact and not v.value.any():
            return Ball(np.zeros(self.d))
        starts = np.cumsum([0, *self.rows_of_shards])
        each = [(v[start:stop],) for start, stop in itertools.pairwise(starts)]
        found: list[Ball] = self._each(_expansions, each)
        return functools.reduce(operator.add, found)

    def squared_norm_of(self, v: Bounded) -> Bounded:
        return self.expansion(v).squared_norm()

    def model(self, v: Floats, bias: float = 0.0) -> LinearModel:
        return self._model(self.expansion(v).value, bias, v != 0)

    def _each(
        self,
        operation: Callable[..., Any],
        each: Sequence[tuple[Any, ...]] | None = None,
        *arguments: Any,
    ) -> list[Any]:
        """Return the results for all blocks, each of which is compared with the first pass."""
        found = self.shards.read(operation, each, self.compared, *arguments)
        return [part for listed in found for part in listed]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Replace an error in the block by one about a changed source, if that has changed."""
        try:
            yield
        except SvmcvxError:
            raise
        except (ArithmeticError, IndexError, ValueError):
            self.require_same()
            raise

    def require_same(self) -> None:
        """Compare all blocks with the first pass."""
        self.shards.deadline = None
        self._each(_visit)

    @property
    def small(self) -> bool:
        """Whether there are so few rows that they are loaded and solved in memory."""
        return max(self.entries, 1.0) * self.data.rows <= SMALL_ENTRIES

    def loaded(self) -> tuple[Features, NDArray[Any], Floats]:
        """Return the rows of all blocks with their labels and weights, as data in memory."""
        X, y, weight = zip(*self._each(_pieces), strict=True)
        return _stacked(X), np.concatenate(y), np.concatenate(weight)

    def sample_space(self) -> LinearSpace:
        return LinearSpace(self.sample, self.intercept, self.centre)

    @property
    def settings(self) -> BlockSettings:
        """The arguments of :func:`spaces`."""
        return BlockSettings(self.intercept, self.centre, self.dense, self.data.classes)

    @property
    def compared(self) -> BlockSettings:
        """The arguments of :func:`spaces` for a pass of a certificate."""
        return self.settings._replace(compared=True)


def concatenate(parts: Sequence[Bounded]) -> Bounded:
    """Return the numbers of all blocks as one array."""
    return Bounded(
        np.concatenate([part.value for part in parts]),
        np.concatenate([np.broadcast_to(part.error, part.shape) for part in parts]),
    )


@reads_rows
def _scores(
    pieces: ShardBlocks, parts: ShardState, settings: BlockSettings, model: LinearModel
) -> list[Bounded]:
    return [space.scores(model) for space in spaces(pieces, parts, settings) if space.data.n]


@reads_rows
def _expansions(
    pieces: ShardBlocks, parts: ShardState, v: Bounded, settings: BlockSettings
) -> list[Ball]:
    found, start = [], 0
    for space in spaces(pieces, parts, settings):
        stop = start + space.data.n
        if space.data.n:
            found.append(space.expansion(v[start:stop]))
        start = stop
    return found


def spaces(
    pieces: ShardBlocks, parts: ShardState, settings: BlockSettings
) -> Iterator[LinearSpace]:
    """Yield the linear space of each block of a shard."""
    intercept, centre, dense, classes, compared = settings
    for piece, rows in zip(pieces, parts["rows"], strict=True):
        if compared:
            rows.require_same(piece, centre.size)
        X = rows.features(piece, centre.size, dense)
        if not (intercept == "free" and centre.any()) and not sp.issparse(X):
            X = np.ascontiguousarray(X, dtype=np.float64)
        m = rows.y.size
        data = BinaryData(X, rows.y, rows.weight, np.arange(m), classes, m)
        yield LinearSpace(data, intercept, centre, rows.norms)


@reads_rows
def _pieces(pieces: ShardBlocks, parts: ShardState, settings: BlockSettings) -> list[Piece]:
    """Return the blocks of a shard; rows without weight have one of the two labels."""
    found = []
    for piece, rows in zip(pieces, parts["rows"], strict=True):
        rows.require_same(piece, settings.centre.size)
        weighted = np.zeros(rows.rows, dtype=bool)
        weighted[slice(None) if rows.positive is None else rows.positive] = True
        positive, weight = np.zeros(rows.rows, dtype=np.intp), np.zeros(rows.rows)
        positive[weighted], weight[weighted] = rows.y > 0, rows.weight
        positive[~weighted] = rows.left_out == settings.classes[1]
        if rows.rows:
            found.append(Piece(piece.X, settings.classes[positive], weight))
    return found


@reads_rows
def _visit(pieces: ShardBlocks, parts: ShardState, settings: BlockSettings) -> list[int]:
    return [space.data.n for space in spaces(pieces, parts, settings)]


# Least number of rows of the sample that is solved first, and rows for each unknown.
SAMPLE_ROWS, SAMPLE_PER_COLUMN = 20_000, 100


class _Scanned(NamedTuple):
    """Results of the first pass: rows, labels with weight, lengths, a sample, digests."""

    digests: PieceDigests
    rows: int = 0
    labels: NDArray[Any] = EMPTY
    entries: float = 0.0
    largest: float = 0.0
    stiffest: float = 0.0
    sample: Piece | None = None


def block_space(X: Any, y: Any, sample_weight: Any, *, intercept: str) -> BlockSpace:
    """Validate data in blocks and return their space."""
    sides, y = (y, y.given) if isinstance(y, ClassPartition) else (None, y)
    source, beside = _source(X, y, sample_weight)
    shards = Shards.of(source)
    centre, dense = _first_look(shards, intercept)
    columns, count = centre.size, sum(shards.blocks)
    # The sample has at most 64 MiB of entries.
    quota = math.ceil(max(SAMPLE_ROWS, SAMPLE_PER_COLUMN * columns) / count)
    # The labels of the states are not needed any more.
    seen = None if sides is None else replace(sides, given=None, digests=[])
    layout = BlockSettings(intercept, centre, dense, EMPTY)
    each = [
        (first, [None if listed is None else listed[first:last] for listed in beside])
        for first, last in itertools.pairwise([*shards.offsets, count])
    ]
    sampling = quota, 2**23 / count
    by_shard: list[list[_Scanned]] = shards.change(_scan, each, layout, sampling, seen)
    found = [scanned for listed in by_shard for scanned in listed]
    if sides is not None:
        sides.require_same([scanned.digests for scanned in found])
    labels = [scanned.labels for scanned in found if scanned.labels.size]
    if not labels:
        raise DataError("X is empty: 0 samples, or no weight that is positive")
    merged = np.concatenate(labels)
    _, classes = check_labels(merged, merged.size, binary=True)
    largest = max(scanned.largest for scanned in found)
    if not largest * largest <= LARGEST_ENTRY:
        raise DataError(
            f"the rows of X reach a length of {largest:.3g}, where arithmetic overflows; scale the"
            f" data to a squared length below {LARGEST_ENTRY:g}"
        )
    digests = [([scanned.digests for scanned in listed],) for listed in by_shard]
    encoded = shards.change(_encode, digests, classes)
    kept = [part for listed in encoded for part in listed]
    signs, weights = (np.concatenate([part[k] for part in kept]) for k in (0, 1))
    if np.unique(signs).size < 2:
        raise DataError("sample_weight is zero for every observation of a class; leave it out")
    first = np.cumsum([0, *(scanned.rows for scanned in found)])
    index = np.concatenate([start + part[2] for start, part in zip(first[:-1], kept, strict=True)])
    drawn, drawn_labels, drawn_weights = zip(
        *(scanned.sample for scanned in found if scanned.sample is not None), strict=True
    )
    drawn_signs = np.where(np.concatenate(drawn_labels) == classes[1], 1.0, -1.0)
    # Statements read the shape of the features alone.
    shape = np.broadcast_to(np.nan, (signs.size, columns))
    return BlockSpace(
        BinaryData(shape, signs, weights, index, classes, int(first[-1])),
        intercept,
        centre,
        shards=shards,
        dense=dense,
        largest_norm=largest,
        stiffness=max(scanned.stiffest for scanned in found),
        entries=sum(scanned.entries for scanned in found) / signs.size,
        rows_of_shards=[sum(part[0].size for part in listed) for listed in encoded],
        sample=BinaryData(
            _stacked(drawn),
            drawn_signs,
            np.concatenate(drawn_weights),
            np.arange(drawn_signs.size),
            classes,
            drawn_signs.size,
        ),
    )


def _stacked(parts: Sequence[Features]) -> Features:
    """Return the rows of all parts, sparse if all of them are."""
    if all(map(sp.issparse, parts)):
        return sp.csr_array(sp.vstack(parts))
    return np.vstack([dense_rows(part) for part in parts])


def _source(X: Any, y: Any, sample_weight: Any) -> tuple[Any, list[Sequence[NDArray[Any]] | None]]:
    """Return the argument of :meth:`Shards.of`, and labels and weights in memory, by block."""
    rows = isinstance(X, RowBlocks)
    if rows and isinstance(y, BlockLabels) and y.blocks is not X:
        raise DataError("y holds the labels of another source; pass y=X.y")
    if y is None and not (rows and X.labelled):
        check_labels(y, 0)
    source: Any = X.loaders if rows else dask_rows(X, y, sample_weight)
    lengths = X.lengths if rows else source.lengths
    arrays: list[Sequence[NDArray[Any]] | None] = []
    for name, values in (("y", y), ("sample_weight", sample_weight)):
        if values is None or isinstance(values, BlockLabels) or (is_dask(values) and not rows):
            arrays.append(None)
            continue
        if lengths is None:
            raise DataError(
                f"{name} is an array, but the lengths of the blocks are not known; pass labels and"
                f" weights with the blocks{'' if rows else ', or X.compute_chunk_sizes()'}"
            )
        given = np.asarray(values)
        if given.shape != (sum(lengths),):
            raise DataError(
                f"{name} has shape {given.shape} but X has {sum(lengths)} rows: inconsistent"
                " numbers of samples; pass one number per row"
            )
        arrays.append(np.split(given, np.cumsum(lengths)[:-1]))
    return source, arrays


def _first_look(shards: Shards, intercept: str) -> tuple[Floats, bool]:
    """Return the first block's centre, or zeros, and whether sparse blocks become dense."""
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
    beside: list[Sequence[NDArray[Any]] | None],
    settings: BlockSettings,
    sampling: tuple[int, float],
    sides: ClassPartition | None,
) -> tuple[ShardState, list[_Scanned]]:
    """Validate a shard, with labels and weights that were passed separately; store these."""
    scanned = []
    for k, piece in enumerate(pieces):
        digests = PieceDigests.of(piece)
        y, weight = (
            own if listed is None else listed[k]
            for own, listed in zip(piece[1:], beside, strict=True)
        )
        piece = Piece(piece.X, y, weight)
        scanned.append(_scan_block(piece, digests, number + k, settings, sampling, sides))
    return {"rows": [rows for rows, _ in scanned]}, [result for _, result in scanned]


def _scan_block(
    piece: Piece,
    digests: PieceDigests,
    number: int,
    settings: BlockSettings,
    sampling: tuple[int, float],
    sides: ClassPartition | None,
) -> tuple[BlockRows, _Scanned]:
    if piece.X.shape[0] == 0:
        return BlockRows(number, digests), _Scanned(digests)
    piece = checked_piece(piece, number, settings.centre.size)
    m = piece.X.shape[0]
    if piece.y is None:
        raise DataError(f"block {number} comes without labels; pass them as y")
    if sides is not None:
        piece = Piece(piece.X, *sides.seen(piece.y, piece.weight))
    codes, labels = coded_labels(piece.y, m, f"y in block {number}")
    weight = check_weights(piece.weight, m, name=f"sample_weight in block {number}")
    X: Features = dense_rows(piece.X) if settings.dense else piece.X
    positive, left_out = None, labels[codes[weight == 0]]
    if left_out.size:
        positive = np.flatnonzero(weight)
        X, codes, weight = X[positive], codes[positive], weight[positive]
    y = codes.astype(np.float64)
    data = BinaryData(X, y, weight, np.arange(codes.size), labels, codes.size)
    norms = row_norms_above(LinearSpace(data, settings.intercept, settings.centre).X)
    quota, most_entries = sampling
    sample = None
    if codes.size:
        width = X.nnz / codes.size if sp.issparse(X) else float(X.shape[1])
        rows = min(quota, max(1.0, most_entries / max(width, 1.0)))
        share = min(1.0, rows / codes.size)
        sample = _some(X, labels[codes], weight, share, np.random.default_rng((0, number)))
    return BlockRows(number, digests, m, y, weight, norms, positive, left_out, labels), _Scanned(
        digests,
        m,
        labels[np.unique(codes)],
        float(X.nnz if sp.issparse(X) else X.size),
        float(norms.max(initial=0.0)),
        float((weight * norms**2).max(initial=0.0)),
        sample,
    )


def _some(
    X: Features, y: NDArray[Any], weight: Floats, share: float, rng: np.random.Generator
) -> Piece:
    """Return rows of each class of a block, one at least, with weights of the class's sum."""
    weights = np.zeros(y.size)
    for label in np.unique(y):
        members = np.flatnonzero(y == label)
        chosen = rng.choice(members, size=math.ceil(share * members.size), replace=False)
        scale = float(weight[members].sum()) / float(weight[chosen].sum())
        weights[chosen] = weight[chosen] * scale
    rows = np.flatnonzero(weights)
    return Piece(X[rows], y[rows], weights[rows])


def _encode(
    pieces: ShardBlocks, parts: ShardState, digests: list[PieceDigests], classes: NDArray[Any]
) -> tuple[ShardState, list[tuple[Floats, Floats, NDArray[np.intp]]]]:
    """Turn positions of labels into ±1; return labels, weights and places of rows by block."""
    signed: list[BlockRows] = []
    for rows, before in zip(parts["rows"], digests, strict=True):
        if rows.digests != before:
            raise DataError(f"block {rows.number} has changed since the first pass; {SAME}")
        sign = np.where(rows.labels == classes[1], 1.0, -1.0)
        y = sign[rows.y.astype(np.intp)] if rows.labels.size else rows.y
        signed.append(rows._replace(y=y))
    return {"rows": signed}, [
        (rows.y, rows.weight, np.arange(rows.rows) if rows.positive is None else rows.positive)
        for rows in signed
    ]
