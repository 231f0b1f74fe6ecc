"""Data in blocks of rows that are never in memory together: sources, and work on all blocks.

A source is a number of files, a Dask collection, or functions that load rows. Work on all of its
blocks is one pass after another, by Dask, in threads of this process or on a cluster. Neighbouring
blocks form a shard, which one task works through block by block: only one block per thread is in
memory. The labels, scores and multipliers between passes are the shard's *state*, which stays on
the worker that made it; only arguments and sums are sent. A state follows from the shard's source
and the operations on it, so that Dask can compute it again if a worker is lost.
"""

from __future__ import annotations

import glob
import logging
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.arrays import Floats
from svmcvx.data import (
    Features,
    as_array,
    check_features,
    check_labels,
    check_weights,
    check_whole,
    checksum,
    coded_labels,
)
from svmcvx.errors import DataError, SolverFailed, optional
from svmcvx.system import clock
from svmcvx.system.deadline import Deadline, OutOfTime, current
from svmcvx.system.memory import SMALL_ENTRIES
from svmcvx.system.threads import available_threads, single_blas_thread

log = logging.getLogger(__name__)

# Seconds that a call whose limit has passed waits for the next finished task of a cluster.
PATIENCE = 60.0


class Piece(NamedTuple):
    """The rows of one block."""

    X: Features
    y: NDArray[Any] | None = None
    weight: NDArray[Any] | None = None


class PieceDigests(NamedTuple):
    """Digests of a block's parts for comparison in later passes; 0 for a missing part."""

    rows: int
    labels: int
    weights: int

    @classmethod
    def of(cls, piece: Piece) -> PieceDigests:
        """Return the digests of a block as it was loaded."""
        return cls(*(0 if part is None else checksum(part) for part in piece))


Paths: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
# Loads one block; it is sent to other processes, and may be called any number of times.
Rows: TypeAlias = Callable[[], Any]


@dataclass(frozen=True)
class BlockLabels:
    """The labels in the blocks of a :class:`RowBlocks`: the value of ``blocks.y``."""

    blocks: RowBlocks


class RowBlocks:
    """Data in blocks of rows, which are read again in each pass.

    Linear models take such a source as `X`, with ``blocks.y`` as `y`; see ``docs/scale.md``. Every
    product with the data, and both ends of the certificate, are sums over the blocks.

    Parameters
    ----------
    loaders : sequence of callable
        ``load()`` returns the rows of a block: ``X`` of shape (m, d), or a tuple ``(X, y)`` or
        ``(X, y, sample_weight)``. It returns the same rows each time. With a cluster the loaders
        are sent to other processes.
    labelled : bool
        Whether the blocks come with their labels.
    lengths : sequence of int, optional
        Numbers of rows, if known; needed for labels in a separate array.
    name : str
        For messages.

    Examples
    --------
    >>> import numpy as np
    >>> from svmcvx import RowBlocks
    >>> blocks = RowBlocks([lambda: (np.eye(2), np.array([0, 1]))], labelled=True)
    >>> len(blocks)
    1
    """

    def __init__(
        self,
        loaders: Sequence[Callable[[], Any]],
        *,
        labelled: bool,
        lengths: Sequence[int] | None = None,
        name: str = "the source",
    ) -> None:
        self.loaders = list(loaders)
        if not self.loaders or not all(callable(load) for load in self.loaders):
            raise DataError("loaders must be one or more functions without arguments, one a block")
        if lengths is not None and len(lengths) != len(self.loaders):
            raise DataError(f"lengths must have {len(self.loaders)} numbers, got {len(lengths)}")
        self.labelled, self.name = labelled, name
        self.lengths = (
            None if lengths is None else [check_whole(length, "lengths", 0) for length in lengths]
        )

    def __len__(self) -> int:
        return len(self.loaders)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        raise DataError("rows in blocks are for linear machines of svmcvx; load the data")

    def __repr__(self) -> str:
        rows = "" if self.lengths is None else f", {sum(self.lengths)} rows"
        return f"RowBlocks({self.name}: {len(self)} blocks{rows})"

    @property
    def y(self) -> BlockLabels:
        """The labels, to be passed as `y`.

        Raises
        ------
        DataError
            If the source has none.
        """
        if not self.labelled:
            raise DataError(f"{self.name} has no labels; pass them as y, one per row")
        return BlockLabels(self)

    @classmethod
    def from_npy(
        cls,
        X: Paths,
        y: Paths | None = None,
        *,
        sample_weight: Paths | None = None,
        rows: int | None = None,
    ) -> RowBlocks:
        """Read dense rows from ``.npy`` files.

        Parameters
        ----------
        X : path or sequence of paths
            Two-dimensional arrays in the order of C, with the same number of columns; a pattern
            such as ``"part-*.npy"`` stands for the files in sorting order.
        y, sample_weight : path or sequence of paths, optional
            One-dimensional arrays, one file for each of `X`.
        rows : int, optional
            Rows of a block; by default some two million entries.

        Raises
        ------
        DataError
            If a file cannot be read, or lengths differ.
        """
        found = files(X, "X")
        beside: list[list[Any]] = []
        for paths, name in ((y, "y"), (sample_weight, "sample_weight")):
            beside.append([None] * len(found) if paths is None else [*files(paths, name)])
            if len(beside[-1]) != len(found):
                raise DataError(f"{name} must be {len(found)} files as X, got {len(beside[-1])}")
        loaders: list[Rows] = []
        lengths = []
        for listed in zip(found, *beside, strict=True):
            parts = tuple(None if path is None else _NpyFile.of(path) for path in listed)
            (n, *d), *others = (part.shape for part in parts if part is not None)
            if len(d) != 1 or any(shape != (n,) for shape in others):
                shapes = [(n, *d), *others]
                raise DataError(f"{listed[0]}: (n, d), one label a row are needed, got {shapes}")
            step = max(1, SMALL_ENTRIES // max(*d, 1))
            step = step if rows is None else check_whole(rows, "rows", 1)
            for first in range(0, n, step):
                last = min(first + step, n)
                loaders.append(_NpyRows(parts, first, last))
                lengths.append(last - first)
        title = os.path.basename(found[0])
        title += f" and {len(found) - 1} more" if len(found) > 1 else ""
        if not loaders:
            raise DataError(f"{title} has no rows")
        return cls(loaders, labelled=y is not None, lengths=lengths, name=title)


@dataclass(frozen=True)
class DaskRows:
    """The partitions of Dask collections: delayed rows, labels and weights, None without any."""

    parts: list[tuple[Any, Any, Any]]
    lengths: tuple[int, ...] | None


def in_blocks(X: Any) -> bool:
    """Whether `X` is a source of blocks: a :class:`RowBlocks` or a Dask collection."""
    return isinstance(X, RowBlocks) or is_dask(X)


def refuse_in_blocks(**given: bool) -> None:
    """Raise a DataError that names the argument unusable with rows in blocks."""
    for name, unusual in given.items():
        if unusual:
            raise DataError(
                f"X comes in blocks of rows, where {name} keeps its default: only linear machines"
                f" with it can be solved block by block; leave {name} out, or load the data"
            )


def is_dask(values: Any) -> bool:
    """Whether a value is a Dask collection."""
    return hasattr(values, "__dask_graph__") and hasattr(values, "to_delayed")


def dask_rows(X: Any, y: Any, sample_weight: Any) -> DaskRows:
    """Split Dask collections into partitions; labels and weights in memory are not changed."""
    lengths: tuple[int, ...] | None = None
    if hasattr(X, "chunks"):
        X = _in_whole_rows(X)
        lengths = None if np.isnan(X.chunks[0]).any() else tuple(X.chunks[0])
    columns = [list(np.ravel(X.to_delayed()))]
    for values, name in ((y, "y"), (sample_weight, "sample_weight")):
        if not is_dask(values):
            columns.append([None] * len(columns[0]))
            continue
        if lengths is not None and not np.isnan(getattr(values, "chunks", ((np.nan,),))[0]).any():
            if values.shape != (sum(lengths),):
                raise DataError(
                    f"{name} has the shape {values.shape} but X has {sum(lengths)} rows:"
                    " inconsistent numbers of samples; pass one number per row"
                )
            values = values.rechunk((lengths,))
        columns.append(list(np.ravel(values.to_delayed())))
        if len(columns[-1]) != len(columns[0]):
            raise DataError(f"{name} must have {len(columns[0])} partitions as X; repartition it")
    return DaskRows(list(zip(*columns, strict=True)), lengths)


def _in_whole_rows(X: Any) -> Any:
    """Return a Dask array in partitions of whole rows."""
    if X.ndim != 2:
        raise DataError(f"X must be two-dimensional (observations × features), got shape {X.shape}")
    return X.rechunk({1: -1}) if len(X.chunks[1]) > 1 else X


@dataclass(frozen=True)
class _NpyFile:
    """A ``.npy`` file: the bytes before its numbers, and what they say."""

    path: str
    head: bytes
    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @classmethod
    def of(cls, path: str) -> _NpyFile:
        """Read the header; once and not in each thread, since Python's parser is not safe there."""
        wrong = f"{path} cannot be read as a .npy file"
        with _reading(wrong, OSError, ValueError), open(path, "rb") as stream:
            array = np.lib.format.open_memmap(path, mode="r")
            head = stream.read(array.offset)
        if not array.flags.c_contiguous:
            raise DataError(f"{path} is stored by columns; save np.ascontiguousarray(X)")
        return cls(path, head, array.shape, array.dtype)

    def rows(self, first: int, last: int) -> NDArray[Any]:
        """Read some rows, not by a memory map: a file that shrinks would end the process."""
        width = int(np.prod(self.shape[1:], dtype=np.int64))
        count = (last - first) * width
        wrong = f"rows {first} to {last - 1} of {self.path} cannot be read"
        with _reading(wrong, OSError, ValueError), open(self.path, "rb") as stream:
            same = stream.read(len(self.head)) == self.head
            stream.seek(first * width * self.dtype.itemsize, os.SEEK_CUR)
            values = np.fromfile(stream, dtype=self.dtype, count=count if same else 0)
        if values.size != count:
            raise DataError(f"{self.path} has no row {last - 1} any more; write it again")
        return values.reshape(-1, *self.shape[1:])


@dataclass(frozen=True)
class _NpyRows:
    """Some rows of the files of features, labels and weights."""

    files: tuple[_NpyFile | None, ...]
    first: int
    last: int

    def __call__(self) -> Piece:
        return Piece(*map(self._read, self.files))

    def labels(self) -> NDArray[Any] | None:
        return self._read(self.files[1])

    def _read(self, file: _NpyFile | None) -> NDArray[Any] | None:
        return None if file is None else file.rows(self.first, self.last)


def piece_of(loaded: Any) -> Piece:
    """Return a loader's result as a :class:`Piece` with vectors of labels and weights."""
    parts = loaded if isinstance(loaded, tuple) else (loaded,)
    if not 1 <= len(parts) <= 3:
        raise DataError(f"a loader must return X, (X, y) or (X, y, weight), got {len(parts)} parts")
    X, *beside = parts
    X = X.to_numpy() if hasattr(X, "to_numpy") else X
    if getattr(X, "ndim", None) != 2:
        raise DataError(f"a loader must return an array of shape (m, d), got {type(X).__name__}")
    named = zip(beside, ("y", "sample_weight"), strict=False)
    return Piece(X, *(None if part is None else as_array(part, name) for part, name in named))


def checked_piece(piece: Piece, number: int, columns: int | None) -> Piece:
    """Validate the rows of a block; messages name the block."""
    with named_block(number):
        checked = check_features(piece.X, n_features=columns)
        for values, name in ((piece.y, "labels"), (piece.weight, "weights")):
            if values is not None and values.shape != (checked.shape[0],):
                raise DataError(f"{checked.shape[0]} rows, but {name} of shape {values.shape}")
    return Piece(checked, piece.y, piece.weight)


@contextmanager
def _reading(what: str, *errors: type[Exception]) -> Iterator[None]:
    """Turn errors of files into a :class:`~svmcvx.errors.DataError` that says what failed."""
    try:
        yield
    except errors as error:
        raise DataError(f"{what}: {error}") from None


@contextmanager
def named_block(number: int) -> Iterator[None]:
    """Prefix messages of :class:`~svmcvx.errors.DataError` with the number of a block."""
    try:
        yield
    except DataError as error:
        raise type(error)(f"block {number}: {error}") from None


def files(paths: Paths, name: str) -> list[str]:
    """Return the files that match paths or patterns."""
    found: list[str] = []
    for path in [paths] if isinstance(paths, (str, os.PathLike)) else paths:
        text = os.fspath(path)
        pattern = glob.has_magic(text) and not os.path.exists(text)
        matches = sorted(glob.glob(text)) if pattern else [text]
        if not matches or not all(os.path.isfile(match) for match in matches):
            raise DataError(f"{name}: there is no file {text}")
        found.extend(os.path.abspath(match) for match in matches)
    if not found:
        raise DataError(f"{name} names no file")
    return found


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
            sources: list[tuple[Any, ...]] = [*source.parts]
            blocks = [1] * len(sources)
        else:
            # The same for any number of threads, so that sums over shards have the same rounding on
            # any computer, but for a cluster with many. More shards balance the load, fewer cost
            # less bookkeeping.
            number = min(len(source), max(32, 4 * sum(threads.values())))
            ends = [round(len(source) * k / number) for k in range(number + 1)]
            sources = [(_Opaque(tuple(source[a:b])),) for a, b in pairwise(ends)]
            blocks = [b - a for a, b in pairwise(ends)]
        return cls(sources, [_Opaque(({}, None)) for _ in sources], blocks, client, set(threads))

    @property
    def offsets(self) -> list[int]:
        """Number of the first block of each shard."""
        return list(accumulate(self.blocks[:-1], initial=0))

    def change(
        self, operation: Operation, each: Sequence[tuple[Any, ...]] | None = None, *shared: Any
    ) -> list[Any]:
        """Replace parts of states by those that an operation returns; return its values."""
        calls = self._calls(operation, each, shared)
        if self.client is None:
            self.states = self._local(_changed, calls)
            return list(map(_result, self.states))
        states = self.client.persist(self._tasks(_changed, calls))
        results = self._gathered(
            [optional("dask", "dask").delayed(_result, pure=False)(state) for state in states]
        )
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
        delayed = optional("dask", "dask").delayed
        task = delayed(run, pure=False)
        # A shared object is sent once to each worker.
        sent = {id(call): delayed(call, traverse=False) for call in calls}
        return [task(sent[id(call)], *rest) for call, *rest in self._arguments(calls)]

    def _local(self, run: Callable[..., Any], calls: list[_Call]) -> list[Any]:
        """Compute in threads by a plain graph, of a tenth of the overhead of collections."""
        if self._late():
            raise OutOfTime
        optional("dask", "dask")
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
        """Wait for results of the cluster until the deadline. An answer needs some passes beyond
        the limit of a call: these end once the cluster finishes nothing any more.
        """
        import distributed

        futures, left, since = self.client.compute(tasks), len(tasks), clock.now()
        try:
            while True:
                try:
                    distributed.wait(futures, timeout=0.1)
                    break
                except TimeoutError:
                    self._look_at_workers()
                    if self._late():
                        raise OutOfTime from None
                    if (unfinished := sum(not future.done() for future in futures)) < left:
                        left, since = unfinished, clock.now()
                    if current().passed() and clock.now() > since + PATIENCE:
                        self.client.cancel(futures)
                        raise SolverFailed(
                            f"the cluster has finished none of {left} tasks for {PATIENCE:g} s"
                            " after the limit of the call; look at its workers"
                        ) from None
            self._look_at_workers()
            return list(self.client.gather(futures))
        except distributed.scheduler.KilledWorker as error:
            raise SolverFailed(
                f"a block ended several workers ({error}); give them memory, or make smaller blocks"
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


class LabelCounts(NamedTuple):
    """The classes of all blocks in sorting order, and their numbers of rows or sums of weights."""

    classes: NDArray[Any]
    counts: NDArray[Any]


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
                raise DataError(f"block {number} changed between two classes; it must not change")

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


def label_counts(
    X: Any, y: Any, sample_weight: Any = None, *, weighted: bool = False
) -> LabelCounts:
    """Return the classes of all blocks with their numbers of rows, without rows where possible; or
    with the sums of their weights.
    """
    if weighted and isinstance(X, RowBlocks):
        pieces = labelled_pieces(X, y, sample_weight)
        found = [_counts(piece.y, piece.weight) for piece in pieces]
    elif isinstance(X, RowBlocks) and (y is None or isinstance(y, BlockLabels)):
        source = X if y is None else y.blocks
        if not source.labelled:
            check_labels(y, 0)
        listed = Shards.of(source.loaders).read(_label_counts)
        found = [part for parts in listed for part in parts]
    elif is_dask(y) and not (weighted and sample_weight is not None):
        import dask

        parts = [dask.delayed(_counts)(part) for part in np.ravel(y.to_delayed())]
        found = list(dask.compute(*parts))
    else:
        given = as_array(y, "y")
        check_labels(y, given.shape[0] if given.ndim else 0)
        found = [_counts(given, sample_weight if weighted else None)]
    found = [part for part in found if part[0].size] or [(np.zeros(0), np.zeros(0))]
    labels, numbers = (np.concatenate(part) for part in zip(*found, strict=True))
    codes, classes = coded_labels(labels, labels.size, "y")
    check_labels(classes, classes.size)
    return LabelCounts(classes, np.bincount(codes, weights=numbers))


def _counts(y: Any, weight: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
    labels = as_array(y, "y")
    m = labels.shape[0] if labels.ndim else 0
    codes, classes = coded_labels(labels, m, "y")
    return classes, np.bincount(codes, check_weights(weight, m), minlength=classes.size)


@reads_rows
def _label_counts(
    pieces: ShardBlocks, parts: ShardState
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
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
    rows = _in_whole_rows(X if hasattr(X, "chunks") else X.to_dask_array())
    shape = {"drop_axis": 1} if columns is None else {"chunks": (rows.chunks[0], (columns,))}
    empty = np.zeros((0,) if columns is None else (0, columns), dtype=dtype)
    shared = optional("dask", "dask").delayed(model, traverse=False)
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
        raise DataError(f"y and sample_weight need a number for each of the {first} rows of X")
