"""Sweep enumeration, driven: a queue of prefixes, those with the smallest bound first."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.thread_pool import Share
from svmcvx.fast.indicator.search.search_state import CountingSearch
from svmcvx.fast.indicator.search.sweep_passes import UNIT, children, search_one
from svmcvx.solution import Status

__all__ = ["SweepSettings", "sweep"]

Floats: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]
# Number of prefixes that are searched in one round.
WIDTH = 16
# Largest number of subspaces below a prefix, times rows and squared columns, for any settings.
MOST = 2e8


@dataclass(frozen=True)
class SweepSettings:
    """Algorithm parameters of the sweep.

    Attributes
    ----------
    work : float
        Subspaces below a prefix, times observations, that are visited before it is split instead.
    fewest : int
        Subspaces that are visited at least.
    """

    work: float = 2e6
    fewest: int = 200


def room(n: int, r: int) -> tuple[NDArray[Any], ...]:
    """Return the arrays in which the passes work."""
    depth = max(r, 2)
    whole = (np.empty(depth, dtype=np.int64) for _ in range(3))
    levels = (np.empty(depth) for _ in range(4))
    events = np.empty(n), np.empty(n), np.empty(n, dtype=np.int64)
    return (
        np.empty((depth, n, r)),
        np.empty((depth, n)),
        np.empty((depth, n), dtype=np.int64),
        *whole,
        *levels,
        *events,
    )


def _search_below(
    problem: tuple[Any, ...],
    prefixes: Indices,
    sizes: Indices,
    budget: int,
    values: Floats,
    bases: Indices,
    visited: Indices,
    finished: NDArray[np.bool_],
    lost: Floats,
    first: int,
    stride: int,
) -> None:
    """Search below every `stride`-th of several prefixes, each from the same incumbent; the results
    are written to the arrays.
    """
    own = room(*problem[0].shape)
    for task in range(first, sizes.size, stride):
        values[task], held, visited[task], finished[task], lost[task] = search_one(
            *problem, prefixes[task], sizes[task], budget, bases[task], own
        )
        bases[task, held:] = -1


def sweep(
    search: CountingSearch, share: Share, settings: SweepSettings
) -> tuple[Status, dict[str, int]]:
    """Search all vertices; return the reason why the search ended and its counts."""
    lengths = np.einsum("ij,ij->i", search.H, search.H)
    # Long rows first: their hyperplanes are the nearest to 0, and belong to more of the vertices
    # within reach.
    H = np.ascontiguousarray(search.H[np.argsort(-lengths, kind="stable")])
    # Then sums of weights are lower bounds.
    weight = search.weight[np.argsort(-lengths, kind="stable")] * (1.0 - 4 * len(H) * UNIT)
    n, r = H.shape
    # To go down to a subspace takes as long as rows times squared columns.
    most = MOST / (n * r**2)
    budget = max(1, int(min(max(settings.fewest, settings.work / n), most)))
    queue: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    subspaces = 0
    status = search.report(0.0)
    while status is None:
        tasks = [heapq.heappop(queue) for _ in range(min(WIDTH, len(queue)))]
        prefixes = np.full((len(tasks), r), -1, dtype=np.int64)
        sizes = np.array([len(prefix) for _, prefix in tasks], dtype=np.int64)
        for row, (_, prefix) in zip(prefixes, tasks, strict=True):
            row[: len(prefix)] = prefix
        values, bases = np.empty(len(tasks)), np.full((len(tasks), r), -1, dtype=np.int64)
        visited, finished = (
            np.empty(len(tasks), dtype=np.int64),
            np.empty(len(tasks), dtype=np.bool_),
        )
        lost = np.empty(len(tasks))
        problem = (H, weight, search.lam, search.k, search.cutoff)
        share(
            partial(
                _search_below,
                problem,
                prefixes,
                sizes,
                budget,
                values,
                bases,
                visited,
                finished,
                lost,
            )
        )
        search.mark_unresolved(float(lost.min()))
        for task in np.argsort(values, kind="stable"):
            if values[task] < search.cutoff:
                basis = bases[task][bases[task] >= 0]
                w, *_ = np.linalg.lstsq(H[basis], np.ones(basis.size), rcond=None)
                search.verify_attained(w, float(values[task]))
        for task in np.flatnonzero(~finished):
            bound, prefix = tasks[task]
            if search.monitor.out_of_time():
                # To split it takes as long as many rows squared.
                heapq.heappush(queue, (bound, prefix))
                continue
            *_, rows = own = room(n, r)
            bounds = np.empty(n)
            count, passed_over = children(*problem, prefixes[task], sizes[task], own, bounds)
            search.mark_unresolved(passed_over)
            for j, below in zip(rows[:count], bounds[:count], strict=True):
                heapq.heappush(queue, (max(bound, float(below)), (*prefix, int(j))))
        subspaces += int(visited.sum())
        if queue and queue[0][0] >= search.cutoff:
            queue.clear()
        status = search.report(queue[0][0] if queue else np.inf)
    return status, {"subspaces": subspaces}
