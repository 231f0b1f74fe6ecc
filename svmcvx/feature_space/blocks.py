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
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.certificate.bounded import Bounded, exact
from svmcvx.certificate.rows import Ball, row_norms_above
from svmcvx.data import BinaryData, Features, check_labels, check_weights, coded_labels
from svmcvx.errors import DataError, SvmcvxError
from svmcvx.feature_space.linear import DENSE, LinearSpace
from svmcvx.model import BinaryModel, LinearModel
from svmcvx.row_blocks.shards import ClassPartition, ShardBlocks, Shards, ShardState, reads_rows
from svmcvx.row_blocks.sources import (
    BlockLabels,
    DaskRows,
    Piece,
    PieceDigests,
    RowBlocks,
    checked_piece,
    dask_rows,
)
from svmcvx.system.memory import SMALL_ENTRIES

Floats: TypeAlias = NDArray[np.float64]

# End of messages about a block that has changed.
SAME = "a source must not change"


@dataclass(frozen=True, eq=False)
class BlockRows:
    """The data of a block that stay in memory: all but the rows."""

    y: Floats
    weight: Floats
    norms: Floats
    positive: NDArray[np.intp] | None
    left_out: NDArray[Any]
    rows: int
    labels: NDArray[Any]
    number: int
    digests: PieceDigests

    def require_same(self, piece: Piece, columns: int) -> None:
        """Raise a :class:`~svmcvx.errors.DataError` that names the block if it has changed since
        the first pass.
        """
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
        """Return the rows of positive weight; sparse rows in double precision, or dense if all
        blocks are made dense.
        """
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


class Sample(NamedTuple):
    """A sample of the rows of all blocks: rows as passed, labels ±1, weights with the sums of all
    rows.
    """

    X: Features
    y: Floats
    weight: Floats


@dataclass(frozen=True, eq=False)
class SampleSpace(LinearSpace):
    """The space of a sample, in the coordinates of all rows even if it has fewer rows than columns."""

    @property
    def factor_is_data(self) -> bool:
        return True


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockSpace(LinearSpace):
    """Rows in blocks as training data of a linear model.

    Labels, weights and multipliers of all rows are in memory, in the order of the blocks; products
    with the rows are taken block by block.
    """

    shards: Shards
    dense: bool
    largest_norm: float
    stiffness: float
    entries: float
    sample: Sample = field(repr=False)

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
    def n(self) -> int:
        """Number of rows of positive weight."""
        return self.data.n

    @property
    def d(self) -> int:
        """Number of columns in the formulation."""
        return self.centre.size + (self.intercept == "penalised")

    @property
    def total_weight(self) -> float:
        """Sum of all weights."""
        return self.data.total_weight

    def scores(self, model: BinaryModel) -> Bounded:
        assert isinstance(model, LinearModel)  # noqa: S101 - rows in blocks have no kernel
        if not model.coef.any():
            # No row is read, so that these scores exist whatever has become of the blocks.
            return exact(np.full(self.n, model.intercept))
        if self._last_scores and same_linear_model(self._last_scores[0][0], model):
            return self._last_scores[0][1]
        found = joined(self._each(_scores, None, self.compared, model.without_support()))
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
        starts = np.cumsum([0, *self._rows_of_shards])
        each = [(v[start:stop],) for start, stop in itertools.pairwise(starts)]
        found: list[Ball] = self._each(_expansions, each, self.compared)
        return functools.reduce(operator.add, found)

    def squared_norm_of(self, v: Bounded) -> Bounded:
        return self.expansion(v).squared_norm()

    def model(self, v: Floats, bias: float = 0.0) -> LinearModel:
        return self._model(self.expansion(v).value, bias, v != 0)

    @cached_property
    def _rows_of_shards(self) -> list[int]:
        found: list[int] = self.shards.read(_row_number)
        return found

    def _each(
        self, operation: Callable[..., Any], each: Sequence[tuple[Any, ...]] | None, *arguments: Any
    ) -> list[Any]:
        """Return the results of an operation for all blocks."""
        found = self.shards.read(operation, each, *arguments)
        return [part for listed in found for part in listed]

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Replace an error inside the block by one about a changed source, if the source has
        changed.
        """
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
        self.shards.read(_visit, None, self.compared)

    @property
    def small(self) -> bool:
        """Whether there are so few rows that they are loaded and solved in memory."""
        return max(self.entries, 1.0) * self.data.rows <= SMALL_ENTRIES

    def loaded(self) -> tuple[Features, NDArray[Any], Floats]:
        """Return the rows of all blocks with their labels and weights, as data in memory."""
        pieces = self._each(_pieces, None, self.compared)
        parts = [piece.X for piece in pieces]
        if all(map(sp.issparse, parts)):
            X: Features = sp.csr_array(sp.vstack(parts))
        else:
            X = np.vstack([part.toarray() if sp.issparse(part) else part for part in parts])
        return X, *(np.concatenate([piece[k] for piece in pieces]) for k in (1, 2))

    def sample_space(self) -> LinearSpace:
        """Return the space of the sample."""
        X, y, weight = self.sample
        data = BinaryData(X, y, weight, np.arange(y.size), self.data.classes, y.size)
        return SampleSpace(data, self.intercept, self.centre)

    @property
    def settings(self) -> BlockSettings:
        """The arguments of :func:`spaces`."""
        return BlockSettings(self.intercept, self.centre, self.dense, self.data.classes)

    @property
    def compared(self) -> BlockSettings:
        """The arguments of :func:`spaces` for a pass of a certificate."""
        return self.settings._replace(compared=True)


def same_linear_model(one: LinearModel, other: LinearModel) -> bool:
    """Whether two models have the same scores."""
    return one.intercept == other.intercept and np.array_equal(one.coef, other.coef)


def joined(parts: Sequence[Bounded]) -> Bounded:
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


def _row_number(pieces: ShardBlocks, parts: ShardState) -> int:
    return sum(rows.y.size for rows in parts["rows"])


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
def _visit(pieces: ShardBlocks, parts: ShardState, settings: BlockSettings) -> None:
    for _ in spaces(pieces, parts, settings):
        pass


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


def block_space(X: Any, y: Any, sample_weight: Any, *, intercept: str, seed: int = 0) -> BlockSpace:
    """Validate data in blocks and return their space."""
    sides, y = (y, y.given) if isinstance(y, ClassPartition) else (None, y)
    source, arrays = _source(X, y, sample_weight)
    shards = Shards.of(source)
    for name, listed in arrays.items():
        shards.give(name, _by_shard(listed, shards.blocks))
    centre, dense = _first_look(shards, intercept)
    columns, count = centre.size, sum(shards.blocks)
    wanted = max(SAMPLE_ROWS, SAMPLE_PER_COLUMN * columns)
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
    kept = [
        part
        for listed in shards.change(_encode, [(scanned.digests,) for scanned in found], classes)
        for part in listed
    ]
    signs, weights = (np.concatenate([part[k] for part in kept]) for k in (0, 1))
    if np.unique(signs).size < 2:
        raise DataError(
            "sample_weight is zero for every observation of a class; each class needs positive"
            " weight"
        )
    first = np.cumsum([0, *rows])
    index = np.concatenate([start + part[2] for start, part in zip(first[:-1], kept, strict=True)])
    # Statements read the shape of the features alone.
    X = np.broadcast_to(np.nan, (signs.size, columns))
    return BlockSpace(
        BinaryData(X, signs, weights, index, classes, int(first[-1])),
        intercept,
        centre,
        shards=shards,
        dense=dense,
        largest_norm=largest,
        stiffness=max(scanned.stiffest for scanned in found),
        entries=sum(scanned.entries for scanned in found) / signs.size,
        sample=_concatenated_sample(
            [part for scanned in found for part in scanned.sample], classes
        ),
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
) -> tuple[ShardState, list[tuple[Floats, Floats, NDArray[np.intp]]]]:
    """Turn positions in the labels of a block into ±1; return labels, weights and places of the
    rows of each block.
    """
    signed: list[BlockRows] = []
    for rows, before in zip(parts["rows"], digests, strict=True):
        if rows.digests != before:
            raise DataError(f"block {rows.number} has changed since the first pass; {SAME}")
        sign = np.where(rows.labels == classes[1], 1.0, -1.0)
        y = sign[rows.y.astype(np.intp)] if rows.labels.size else rows.y
        signed.append(replace(rows, y=y))
    # Labels and weights that were passed separately are in `signed` now.
    return {"rows": signed, "y": [], "sample_weight": []}, [
        (rows.y, rows.weight, np.arange(rows.rows) if rows.positive is None else rows.positive)
        for rows in signed
    ]


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
