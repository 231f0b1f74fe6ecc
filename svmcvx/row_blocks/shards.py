"""Work on all blocks of rows: one pass after another, by Dask, in threads of this process or on a
cluster.

Neighbouring blocks of a source form a shard, which one task works through block by block: only one
block a thread is in memory. The labels, scores and multipliers between passes are the shard's
*state*, which stays on the worker that made it; only arguments and sums are sent. A state follows
from the shard's source and the operations on it, so that Dask can compute it again if a worker is
lost.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from svmcvx.errors import SolverFailed, SvmcvxError, missing_extra
from svmcvx.row_blocks.piece import Piece
from svmcvx.row_blocks.sources import DaskRows, Rows, named_block, piece_of
from svmcvx.system.cluster import default_client
from svmcvx.system.deadline import Deadline, OutOfTime
from svmcvx.system.threads import available_threads, single_blas_thread

__all__ = ["ShardBlocks", "ShardState", "Shards", "State", "reads_rows"]

log = logging.getLogger(__name__)

# Number of shards of a source, the same for any number of threads, so that sums over shards have
# the same rounding on any computer. More shards balance the load, fewer cost less bookkeeping. On a
# cluster with many threads: number of shards for each thread.
SHARDS, SHARDS_A_THREAD = 32, 4
# Seconds between two polls of the deadline while a cluster works.
LOOK = 0.1


class State:
    """The state of a shard: lists of one object a block, by name."""

    __slots__ = ("parts", "value")

    def __init__(self, parts: dict[str, list[Any]], value: Any = None) -> None:
        self.parts, self.value = parts, value

    def __sizeof__(self) -> int:
        """Bytes of the arrays; Dask uses them to plan the memory of a cluster."""
        return 64 + sum(_bytes(part) for listed in self.parts.values() for part in listed)


def _bytes(part: Any) -> int:
    if isinstance(part, np.ndarray):
        return int(part.nbytes)
    if part is None or not hasattr(part, "__dict__"):
        return sys.getsizeof(part)
    return sum(_bytes(value) for value in vars(part).values())


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class _Given:
    """A loader of a block that is in memory."""

    values: tuple[Any, ...]

    def __call__(self) -> Any:
        return self.values


# The parts of a state: by name, one object a block.
ShardState: TypeAlias = dict[str, list[Any]]
# Changes or reads a state: function(pieces, parts, *arguments).
Operation: TypeAlias = Callable[..., Any]


def reads_rows(operation: Operation) -> Operation:
    """Mark an operation that loads the rows of all blocks, so that passes over them are counted."""
    operation.reads_rows = True  # type: ignore[attr-defined]
    return operation


class _Call:
    """An operation with its arguments, which Dask does not inspect."""

    __slots__ = ("arguments", "operation", "stop")

    def __init__(
        self, operation: Operation, arguments: tuple[Any, ...], stop: Callable[[], bool] | None
    ) -> None:
        self.operation, self.arguments, self.stop = operation, arguments, stop


class _Source:
    """The loaders of a shard, which Dask does not inspect."""

    __slots__ = ("loaders",)

    def __init__(self, loaders: tuple[Rows, ...]) -> None:
        self.loaders = loaders


# Of operations that read no rows.
NO_ROWS = (_Source(()),)


def _changed(call: _Call, state: State, first: int, source: Any, *beside: Any) -> State:
    with single_blas_thread():
        parts, value = call.operation(
            _pieces(call, first, source, beside), state.parts, *call.arguments
        )
    return State({**state.parts, **parts}, value)


def _read(call: _Call, state: State, first: int, source: Any, *beside: Any) -> Any:
    with single_blas_thread():
        return call.operation(_pieces(call, first, source, beside), state.parts, *call.arguments)


def _pieces(call: _Call, first: int, source: Any, beside: tuple[Any, ...]) -> ShardBlocks:
    if isinstance(source, _Source):
        return ShardBlocks(source.loaders, call.stop, first)
    return ShardBlocks((_Given((source, *beside)),), call.stop, first)


def _value(state: State) -> Any:
    return state.value


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
        if isinstance(source, DaskRows):
            y, weight = (part or (None,) * len(source.X) for part in (source.y, source.weight))
            sources: list[tuple[Any, ...]] = list(zip(source.X, y, weight, strict=True))
            blocks = [1] * len(sources)
        else:
            threads = 0 if client is None else sum(client.nthreads().values())
            number = min(len(source), max(SHARDS, SHARDS_A_THREAD * threads))
            ends = [round(len(source) * k / number) for k in range(number + 1)]
            sources = [(_Source(tuple(source[a:b])),) for a, b in pairwise(ends)]
            blocks = [b - a for a, b in pairwise(ends)]
        states: list[Any] = [State({}) for _ in sources]
        return cls(
            sources, states, blocks, client, set() if client is None else set(client.nthreads())
        )

    @property
    def offsets(self) -> list[int]:
        """Number of the first block of each shard."""
        return [sum(self.blocks[:k]) for k in range(len(self.blocks))]

    def give(self, name: str, parts: Sequence[Sequence[Any]]) -> None:
        """Store arrays of this process, one for each block, in the states of the shards."""
        self.change(_set_part, [(name, list(listed)) for listed in parts])

    def change(
        self, operation: Operation, each: Sequence[tuple[Any, ...]] | None = None, *shared: Any
    ) -> list[Any]:
        """Replace parts of every state by what an operation returns, ``(parts, value)``; return the
        values.
        """
        calls = self._calls(operation, each, shared)
        if self.client is None:
            self.states = self._local(_changed, calls)
            return [state.value for state in self.states]
        states = self.client.persist(self._tasks(_changed, calls))
        values = self._gathered([_dask().delayed(_value, pure=False)(state) for state in states])
        self.states = states
        return values

    def read(
        self, operation: Operation, each: Sequence[tuple[Any, ...]] | None = None, *shared: Any
    ) -> list[Any]:
        """Return the result of an operation for every shard; the states do not change."""
        calls = self._calls(operation, each, shared)
        return (
            self._local(_read, calls)
            if self.client is None
            else self._gathered(self._tasks(_read, calls))
        )

    def _calls(
        self, operation: Operation, each: Sequence[tuple[Any, ...]] | None, shared: tuple[Any, ...]
    ) -> list[_Call]:
        """Return the call of each shard; one object for all shards if they have the same arguments."""
        self.passes += getattr(operation, "reads_rows", False)
        stop = self.deadline.passed if self.client is None and self.deadline is not None else None
        if each is None:
            return [_Call(operation, shared, stop)] * len(self.sources)
        return [_Call(operation, (*own, *shared), stop) for own in each]

    def _tasks(self, run: Callable[..., Any], calls: list[_Call]) -> list[Any]:
        """Return the delayed tasks for a cluster."""
        delayed = _dask().delayed
        task = delayed(run, pure=False)
        # A shared object is sent once to each worker.
        sent = {id(call): delayed(call, traverse=False) for call in calls}
        return [
            task(sent[id(call)], state, first, *_needed(call, source))
            for call, source, state, first in zip(
                calls, self.sources, self.states, self.offsets, strict=True
            )
        ]

    def _local(self, run: Callable[..., Any], calls: list[_Call]) -> list[Any]:
        """Compute in threads of this process; a plain graph has a tenth of the overhead of Dask's
        collections.
        """
        if self._late():
            raise OutOfTime
        _dask()
        from dask.optimization import cull
        from dask.threaded import get

        graph: dict[Any, Any] = {}
        keys = []
        together = zip(calls, self.sources, self.states, self.offsets, strict=True)
        for k, (call, source, state, first) in enumerate(together):
            parts = []
            for part in _needed(call, source):
                if hasattr(part, "__dask_graph__"):
                    graph.update(part.__dask_graph__())
                    part = part.key
                parts.append(part)
            keys.append(("svmcvx-shard", k))
            graph[keys[-1]] = (run, call, state, first, *parts)
        return list(get(cull(graph, keys)[0], keys, num_workers=available_threads()))

    def _gathered(self, tasks: list[Any]) -> list[Any]:
        """Wait for results of the cluster until the deadline."""
        import distributed

        futures = self.client.compute(tasks)
        try:
            while True:
                try:
                    distributed.wait(futures, timeout=LOOK)
                    break
                except TimeoutError:
                    self._look_at_workers()
                    if self._late():
                        raise OutOfTime from None
            self._look_at_workers()
            return list(self.client.gather(futures))
        except (SvmcvxError, OutOfTime):
            raise
        except Exception as error:
            if isinstance(error, distributed.scheduler.KilledWorker):
                raise SolverFailed(
                    f"a block ended several workers of the cluster one after another ({error});"
                    " give them more memory, or make smaller blocks"
                ) from None
            raise
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


def _needed(call: _Call, source: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the source of a shard for an operation that reads rows; for others partitions are not
    computed.
    """
    return source if getattr(call.operation, "reads_rows", False) else NO_ROWS


def _set_part(
    pieces: ShardBlocks, parts: dict[str, list[Any]], name: str, listed: list[Any]
) -> tuple[dict[str, list[Any]], None]:
    return {name: listed}, None


def _dask() -> Any:
    try:
        import dask
    except ImportError:
        raise missing_extra("dask", "dask") from None
    return dask
