"""Work on all blocks of rows: one pass after another, by Dask, in threads of this process or on a
cluster.

Neighbouring blocks of a source form a shard, which one task works through block by block: only one
block per thread is in memory. The labels, scores and multipliers between passes are the shard's
*state*, which stays on the worker that made it; only arguments and sums are sent. A state follows
from the shard's source and the operations on it, so that Dask can compute it again if a worker is
lost.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.data import as_array, check_labels, check_weights, coded_labels
from svmcvx.errors import DataError, SolverFailed, missing_extra
from svmcvx.row_blocks.sources import (
    BlockLabels,
    DaskRows,
    Piece,
    PieceDigests,
    RowBlocks,
    Rows,
    is_dask,
    named_block,
    piece_of,
)
from svmcvx.system.deadline import Deadline, OutOfTime
from svmcvx.system.threads import available_threads, single_blas_thread

log = logging.getLogger(__name__)


# Number of shards of a source, the same for any number of threads, so that sums over shards have
# the same rounding on any computer. More shards balance the load, fewer cost less bookkeeping. On a
# cluster with many threads: number of shards for each thread.
SHARDS, SHARDS_PER_THREAD = 32, 4
# Seconds between two polls of the deadline while a cluster works.
POLL_SECONDS = 0.1

# The parts of a state: by name, one object per block.
ShardState: TypeAlias = dict[str, list[Any]]
# Changes or reads a state: function(pieces, parts, *arguments).
Operation: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ShardBlocks:
    """The blocks of a shard, loaded one after another."""

    loaders: tuple[Rows, ...]
    stop: Callable[[], bool] | None = None
    first: int = 0

    def __len__(self) -> int:
        return len(self.loaders)

    def __iter__(self) -> Iterator[Piece]:
        for k, load in enumerate(self.loaders):
            if self.stop is not None and self.stop():
                raise OutOfTime
            with named_block(self.first + k):
                piece = piece_of(load())
            yield piece


def reads_rows(operation: Operation) -> Operation:
    """Mark an operation that loads the rows of all blocks, so that passes over them are counted."""
    operation.reads_rows = True  # type: ignore[attr-defined]
    return operation


class _Opaque:
    """An object that Dask does not inspect; its bytes plan the memory of a cluster."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __sizeof__(self) -> int:
        return 64 + _bytes(self.value)


def _bytes(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return int(value.nbytes)
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    if isinstance(value, (list, tuple)):
        return sum(map(_bytes, value))
    return sum(map(_bytes, vars(value).values())) if hasattr(value, "__dict__") else 8


@dataclass(frozen=True, slots=True)
class _Call:
    """An operation with its arguments, which Dask does not inspect."""

    operation: Operation
    arguments: tuple[Any, ...]
    stop: Callable[[], bool] | None

    @property
    def reads_rows(self) -> bool:
        return getattr(self.operation, "reads_rows", False)


def _read(call: _Call, state: _Opaque, first: int, *source: Any) -> Any:
    """Apply an operation to a shard: to its loaders, or to one block of a Dask collection."""
    loaders: tuple[Any, ...] = (lambda: source,)
    if source and isinstance(source[0], _Opaque):
        loaders = source[0].value
    with single_blas_thread():
        pieces = ShardBlocks(loaders if source else (), call.stop, first)
        return call.operation(pieces, state.value[0], *call.arguments)


def _changed(call: _Call, state: _Opaque, first: int, *source: Any) -> _Opaque:
    """Return the state after an operation: its parts, and what the operation returned."""
    parts, result = _read(call, state, first, *source)
    return _Opaque(({**state.value[0], **parts}, result))


def _result(state: _Opaque) -> Any:
    return state.value[1]


@dataclass
class Shards:
    """Shards of a source, and the state of each."""

    sources: list[tuple[Any, ...]]
    states: list[Any]
    blocks: list[int]
    client: Any = None
    workers: set[str] = field(default_factory=set)
    passes: int = 0
    deadline: Deadline | None = None

    @classmethod
    def of(cls, source: Sequence[Rows] | DaskRows) -> Shards:
        """Split a source into shards."""
        client = default_client()
        threads = {} if client is None else client.nthreads()
        if isinstance(source, DaskRows):
            y, weight = (part or (None,) * len(source.X) for part in (source.y, source.weight))
            sources: list[tuple[Any, ...]] = list(zip(source.X, y, weight, strict=True))
            blocks = [1] * len(sources)
        else:
            number = min(len(source), max(SHARDS, SHARDS_PER_THREAD * sum(threads.values())))
            ends = [round(len(source) * k / number) for k in range(number + 1)]
            sources = [(_Opaque(tuple(source[a:b])),) for a, b in pairwise(ends)]
            blocks = [b - a for a, b in pairwise(ends)]
        return cls(sources, [_Opaque(({}, None)) for _ in sources], blocks, client, set(threads))

    @property
    def offsets(self) -> list[int]:
        """Number of the first block of each shard."""
        return list(accumulate(self.blocks[:-1], initial=0))

    def give(self, name: str, parts: Sequence[Any]) -> None:
        """Store objects of this process, one for each block, in the states of the shards."""
        ends = [*self.offsets, len(parts)]
        self.change(_set_part, [(name, list(parts[a:b])) for a, b in pairwise(ends)])

    def change(
        self, operation: Operation, each: Sequence[tuple[Any, ...]] | None = None, *shared: Any
    ) -> list[Any]:
        """Replace parts of states by those that an operation returns; return its values."""
        calls = self._calls(operation, each, shared)
        if self.client is None:
            self.states = self._local(_changed, calls)
            return list(map(_result, self.states))
        states = self.client.persist(self._tasks(_changed, calls))
        results = self._gathered([_dask().delayed(_result, pure=False)(state) for state in states])
        self.states = states
        return results

    def read(
        self, operation: Operation, each: Sequence[tuple[Any, ...]] | None = None, *shared: Any
    ) -> list[Any]:
        """Return the result of an operation for every shard; the states do not change."""
        calls = self._calls(operation, each, shared)
        if self.client is None:
            return self._local(_read, calls)
        return self._gathered(self._tasks(_read, calls))

    def _calls(
        self, operation: Operation, each: Sequence[tuple[Any, ...]] | None, shared: tuple[Any, ...]
    ) -> list[_Call]:
        """Return the call of each shard; one object for all if they have the same arguments."""
        self.passes += getattr(operation, "reads_rows", False)
        stop = self.deadline.passed if self.client is None and self.deadline is not None else None
        if each is None:
            return [_Call(operation, shared, stop)] * len(self.sources)
        return [_Call(operation, (*own, *shared), stop) for own in each]

    def _arguments(self, calls: list[_Call]) -> Iterator[tuple[Any, ...]]:
        """Yield call, state, first block, and source of each shard, None where no rows are read."""
        for call, state, first, source in zip(
            calls, self.states, self.offsets, self.sources, strict=True
        ):
            yield call, state, first, *(source if call.reads_rows else ())

    def _tasks(self, run: Callable[..., Any], calls: list[_Call]) -> list[Any]:
        """Return the delayed tasks for a cluster."""
        delayed = _dask().delayed
        task = delayed(run, pure=False)
        # A shared object is sent once to each worker.
        sent = {id(call): delayed(call, traverse=False) for call in calls}
        return [task(sent[id(call)], *rest) for call, *rest in self._arguments(calls)]

    def _local(self, run: Callable[..., Any], calls: list[_Call]) -> list[Any]:
        """Compute in threads by a plain graph, of a tenth of the overhead of collections."""
        if self._late():
            raise OutOfTime
        _dask()
        from dask.optimization import cull
        from dask.threaded import get

        graph: dict[Any, Any] = {}
        keys = [("svmcvx-shard", k) for k in range(len(calls))]
        for key, (call, state, first, *source) in zip(keys, self._arguments(calls), strict=True):
            for part in source:
                graph.update(part.__dask_graph__() if is_delayed(part) else {})
            parts = [part.key if is_delayed(part) else part for part in source]
            graph[key] = (run, call, state, first, *parts)
        return list(get(cull(graph, keys)[0], keys, num_workers=available_threads()))

    def _gathered(self, tasks: list[Any]) -> list[Any]:
        """Wait for results of the cluster until the deadline."""
        import distributed

        futures = self.client.compute(tasks)
        try:
            while True:
                try:
                    distributed.wait(futures, timeout=POLL_SECONDS)
                    break
                except TimeoutError:
                    self._look_at_workers()
                    if self._late():
                        raise OutOfTime from None
            self._look_at_workers()
            return list(self.client.gather(futures))
        except distributed.scheduler.KilledWorker as error:
            raise SolverFailed(
                f"a block ended several workers of the cluster one after another ({error});"
                " give them more memory, or make smaller blocks"
            ) from None
        finally:
            if self._late():
                self.client.cancel(futures)

    def _late(self) -> bool:
        return self.deadline is not None and self.deadline.passed()

    def _look_at_workers(self) -> None:
        """Warn once that a worker was lost; its states are computed again from the source."""
        present = set(self.client.nthreads())
        for address in sorted(self.workers - present):
            log.warning(
                "the worker %s was lost; what it held is computed again from the blocks", address
            )
        self.workers = present


def is_delayed(part: Any) -> bool:
    return hasattr(part, "__dask_graph__")


def default_client() -> Any:
    """Return the client of a running cluster that is this process's default, not a worker's."""
    if "distributed" not in sys.modules:
        return None
    import distributed

    with suppress(ValueError):
        distributed.get_worker()
        return None
    with suppress(ValueError):
        return distributed.default_client()
    return None


def _set_part(
    pieces: ShardBlocks, parts: ShardState, name: str, listed: list[Any]
) -> tuple[ShardState, None]:
    return {name: listed}, None


def _dask() -> Any:
    try:
        import dask
    except ImportError:
        raise missing_extra("dask", "dask") from None
    return dask


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
        """Raise a DataError if a block has changed since an earlier binary problem."""
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
        if (unknown := ~np.isin(labels, self.classes)).any():
            raise DataError(
                f"y holds {labels[unknown].tolist()[0]!r}, which was not there before; a source"
                " must not change"
            )
        codes = np.searchsorted(self.classes, labels)[own]
        weights = check_weights(weight, m)
        if self.factors is not None:
            weights = check_weights(weights * self.factors[codes], m, name="class_weight")
        if self.pair is not None:
            weights = np.where(np.isin(codes, self.pair), weights, 0.0)
        if self.against_rest is not None:
            return (codes == self.against_rest).astype(np.intp), weights
        return self.classes[codes], weights


def label_counts(X: Any, y: Any) -> LabelCounts:
    """Return the classes of all blocks with their numbers of rows, without rows where possible."""
    if isinstance(X, RowBlocks) and (y is None or isinstance(y, BlockLabels)):
        source = X if y is None else y.blocks
        if not source.labelled:
            raise DataError(
                "a classifier requires y to be passed, but the target y is None; pass one label"
                " per row"
            )
        listed = Shards.of(source.loaders).read(_label_counts)
        found = [part for parts in listed for part in parts]
    elif is_dask(y):
        import dask

        parts = [dask.delayed(_counts)(part) for part in np.ravel(y.to_delayed())]
        found = list(dask.compute(*parts))
    else:
        given = as_array(y, "y")
        check_labels(y, given.shape[0] if given.ndim else 0)
        found = [_counts(given)]
    found = [part for part in found if part[0].size] or [(np.zeros(0), np.zeros(0))]
    labels, numbers = (np.concatenate(part) for part in zip(*found, strict=True))
    codes, classes = coded_labels(labels, labels.size, "y")
    check_labels(classes, classes.size)
    return LabelCounts(classes, np.bincount(codes, weights=numbers).astype(np.intp))


def _counts(y: Any) -> tuple[NDArray[Any], NDArray[np.intp]]:
    labels = as_array(y, "y")
    codes, classes = coded_labels(labels, labels.shape[0] if labels.ndim else 0, "y")
    return classes, np.bincount(codes, minlength=classes.size)


@reads_rows
def _label_counts(
    pieces: ShardBlocks, parts: ShardState
) -> list[tuple[NDArray[Any], NDArray[np.intp]]]:
    """Count the labels of each block, by `labels` of a loader that has it."""
    found = []
    for number, load in enumerate(pieces.loaders):
        y = load.labels() if hasattr(load, "labels") else piece_of(load()).y
        if y is None:
            raise DataError(f"block {number} comes without labels; pass them as y")
        found.append(_counts(y))
    return found


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
        found = np.concatenate([part for parts in listed for part in parts])
        return found.astype(dtype, copy=False)
    rows = X if hasattr(X, "chunks") else X.to_dask_array()
    rows = rows.rechunk({1: -1}) if len(rows.chunks[1]) > 1 else rows
    shape = {"drop_axis": 1} if columns is None else {"chunks": (rows.chunks[0], (columns,))}
    empty = np.zeros((0,) if columns is None else (0, columns), dtype=dtype)
    shared = _dask().delayed(model, traverse=False)
    return rows.map_blocks(_of_rows, shared, method, dtype=dtype, meta=empty, **shape)


@reads_rows
def _mapped(pieces: ShardBlocks, parts: ShardState, model: Any, method: str) -> list[NDArray[Any]]:
    return [_of_rows(piece.X, model, method) for piece in pieces if piece.X.shape[0]]


def _of_rows(X: Any, model: Any, method: str) -> NDArray[Any]:
    found: NDArray[Any] = getattr(model, method)(X)
    return found


def labelled_pieces(X: Any, y: Any, sample_weight: Any) -> Iterator[Piece]:
    """Yield the blocks of a source, with the labels and weights that were passed separately."""
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
        labels, weight = (
            own if values is None else values[first : first + m]
            for own, values in zip(piece[1:], arrays, strict=True)
        )
        if labels is None or labels.shape != (m,):
            raise DataError(f"y must hold one label per row; the block from row {first} has none")
        yield Piece(piece.X, labels, weight)
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
        codes = np.searchsorted(labels.classes, np.asarray(piece.y))
        weight = check_weights(piece.weight, codes.size)
        found += np.bincount(codes, weights=weight, minlength=found.size)
    return found
