"""Labels of rows in blocks: the classes, and problems of two classes made from them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.containers import as_array
from svmcvx.data import check_labels, check_weights, coded_labels
from svmcvx.errors import DataError
from svmcvx.row_blocks.piece import PieceDigests
from svmcvx.row_blocks.shards import ShardBlocks, Shards, ShardState, reads_rows
from svmcvx.row_blocks.sources import BlockLabels, RowBlocks, is_dask, piece_of

__all__ = ["ClassPartition", "LabelCounts", "label_counts"]

Floats: TypeAlias = NDArray[np.float64]


class LabelCounts(NamedTuple):
    """The classes of all blocks in sorting order, and their numbers of rows for any weights."""

    classes: NDArray[Any]
    counts: NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class ClassPartition:
    """A problem of two classes made from labels, passed as `y` instead of the labels."""

    given: Any
    classes: NDArray[Any]
    factors: Floats | None = None
    pair: tuple[int, int] | None = None
    against_rest: int | None = None
    digests: list[PieceDigests] = field(default_factory=list)

    def require_same(self, digests: Sequence[PieceDigests]) -> None:
        """Raise a :class:`~svmcvx.errors.DataError` if a block has changed since an earlier binary
        problem.
        """
        if not self.digests:
            self.digests.extend(digests)
        for number, (before, now) in enumerate(zip(self.digests, digests, strict=True)):
            if before != now:
                raise DataError(
                    f"block {number} has changed since an earlier pair or class; a source must not"
                    " change"
                )

    def seen(self, y: NDArray[Any], weight: Any) -> tuple[NDArray[Any], Floats]:
        """Return the labels of the two classes and the weights of some rows."""
        m = y.shape[0]
        own, labels = coded_labels(y, m, "y")
        place = np.searchsorted(self.classes, labels)
        known = self.classes[np.minimum(place, self.classes.size - 1)] == labels
        if not np.all(known):
            raise DataError(
                f"y holds {labels[~known].tolist()[0]!r}, which was not there before; a source must"
                " not change"
            )
        codes = place[own]
        weights = check_weights(weight, m)
        if self.factors is not None:
            weights = check_weights(weights * self.factors[codes], m, name="class_weight")
        if self.pair is not None:
            weights = np.where(np.isin(codes, self.pair), weights, 0.0)
        labels = (
            self.classes[codes]
            if self.against_rest is None
            else (codes == self.against_rest).astype(np.intp)
        )
        return labels, weights


def label_counts(X: Any, y: Any) -> LabelCounts:
    """Return the classes of all blocks with their numbers of rows; rows are not loaded if the
    source has the labels separately.
    """
    if isinstance(X, RowBlocks) and (y is None or isinstance(y, BlockLabels)):
        source = X if y is None else y.blocks
        if not source.labelled:
            raise DataError(
                "a classifier requires y to be passed, but the target y is None; pass one label"
                " a row"
            )
        found = [
            part for listed in Shards.of(source.loaders).read(_label_counts) for part in listed
        ]
    elif is_dask(y):
        import dask

        found = list(
            dask.compute(*(dask.delayed(_counts)(part) for part in np.ravel(y.to_delayed())))
        )
    else:
        given = as_array(y, "y")
        check_labels(y, given.shape[0] if given.ndim else 0)
        found = [_counts(given)]
    labels = np.concatenate([part[0] for part in found if part[0].size] or [np.zeros(0)])
    codes, classes = coded_labels(labels, labels.size, "y")
    check_labels(classes, classes.size)
    counts = np.bincount(codes, weights=np.concatenate([part[1] for part in found if part[0].size]))
    return LabelCounts(classes, counts.astype(np.intp))


def _counts(y: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    labels = as_array(y, "y")
    codes, classes = coded_labels(labels, labels.shape[0] if labels.ndim else 0, "y")
    return classes, np.bincount(codes, minlength=classes.size)


@reads_rows
def _label_counts(
    pieces: ShardBlocks, parts: ShardState
) -> list[tuple[NDArray[Any], NDArray[np.intp]]]:
    """Count the labels of each block; uses `labels` of a loader that has it, so that the rows are
    not loaded.
    """
    found = []
    for number, load in enumerate(pieces.loaders):
        y = load.labels() if hasattr(load, "labels") else piece_of(load()).y
        if y is None:
            raise DataError(f"block {number} comes without labels; pass them as y")
        found.append(_counts(y))
    return found
