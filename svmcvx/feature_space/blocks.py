"""The feature space of a linear model of rows in blocks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.data import BinaryData, Features
from svmcvx.errors import DataError, SvmcvxError
from svmcvx.feature_space.linear import LinearSpace
from svmcvx.model import LinearModel
from svmcvx.row_blocks.piece import Piece, PieceDigests
from svmcvx.row_blocks.shards import ShardBlocks, Shards, ShardState, reads_rows
from svmcvx.row_blocks.sources import checked_piece
from svmcvx.system.memory import SMALL_ENTRIES

__all__ = ["SAME", "BlockRows", "BlockSettings", "BlockSpace", "Sample", "spaces"]

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
    total_weight: float
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
        """True."""
        return True


@dataclass(frozen=True, eq=False)
class BlockSpace:
    """Rows in blocks, as training data of a linear model."""

    shards: Shards
    intercept: str
    centre: Floats
    dense: bool
    classes: NDArray[Any]
    n: int
    rows: int
    weights: tuple[float, float]
    largest_norm: float
    stiffness: float
    entries: float
    sample: Sample = field(repr=False)

    @property
    def is_linear(self) -> bool:
        """True: rows in blocks have no kernel."""
        return True

    @property
    def d(self) -> int:
        """Number of columns in the formulation."""
        return self.centre.size + (self.intercept == "penalised")

    @property
    def total_weight(self) -> float:
        """Sum of all weights, to a relative 3u."""
        return self.weights[0] + self.weights[1]

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
        return max(self.entries, 1.0) * self.rows <= SMALL_ENTRIES

    def loaded(self) -> tuple[Features, NDArray[Any], Floats]:
        """Return the rows of all blocks with their labels and weights, as data in memory."""
        pieces = [
            piece for listed in self.shards.read(_pieces, None, self.compared) for piece in listed
        ]
        parts = [piece.X for piece in pieces]
        if all(map(sp.issparse, parts)):
            X: Features = sp.csr_array(sp.vstack(parts))
        else:
            X = np.vstack([part.toarray() if sp.issparse(part) else part for part in parts])
        return X, *(np.concatenate([piece[k] for piece in pieces]) for k in (1, 2))

    def empty(self) -> LinearSpace:
        """Return the space without rows, which knows about models only."""
        data = BinaryData(
            np.zeros((0, self.centre.size)),
            np.zeros(0),
            np.zeros(0),
            np.zeros(0, dtype=np.intp),
            self.classes,
            self.rows,
            whole_weight=self.total_weight,
        )
        return LinearSpace(data, self.intercept, self.centre)

    def sample_space(self) -> LinearSpace:
        """Return the space of the sample."""
        X, y, weight = self.sample
        data = BinaryData(
            X, y, weight, np.arange(y.size), self.classes, y.size, whole_weight=self.total_weight
        )
        return SampleSpace(data, self.intercept, self.centre)

    def model(self, w: Floats, bias: float, support: NDArray[np.intp]) -> LinearModel:
        """Return the model of w in the columns of the formulation; `support` are rows of the
        source.
        """
        if self.intercept == "penalised":
            w, bias = w[:-1], float(w[-1])
        return LinearModel(
            coef=w, intercept=bias - float(self.centre @ w), classes=self.classes, support=support
        )

    @property
    def settings(self) -> BlockSettings:
        """The arguments of :func:`spaces`."""
        return BlockSettings(
            self.intercept, self.centre, self.dense, self.classes, self.total_weight
        )

    @property
    def compared(self) -> BlockSettings:
        """The arguments of :func:`spaces` for a pass of a certificate."""
        return self.settings._replace(compared=True)


def spaces(
    pieces: ShardBlocks, parts: ShardState, settings: BlockSettings
) -> Iterator[LinearSpace]:
    """Yield the linear space of each block of a shard."""
    intercept, centre, dense, classes, total, compared = settings
    for piece, rows in zip(pieces, parts["rows"], strict=True):
        if compared:
            rows.require_same(piece, centre.size)
        X = rows.features(piece, centre.size, dense)
        if not (intercept == "free" and centre.any()) and not sp.issparse(X):
            X = np.ascontiguousarray(X, dtype=np.float64)
        m = rows.y.size
        data = BinaryData(X, rows.y, rows.weight, np.arange(m), classes, m, whole_weight=total)
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
