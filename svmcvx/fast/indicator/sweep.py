"""Sweep enumeration, driven: a queue of prefixes, those with the smallest bound first."""

from __future__ import annotations

import heapq

import numpy as np

from svmcvx.fast.core.thread_pool import Share
from svmcvx.fast.indicator.search_state import TIE, Counted
from svmcvx.fast.indicator.sweep_passes import children, search
from svmcvx.solution import Status

__all__ = ["sweep"]

# Prefixes searched in one round, and subspaces below each, times observations, before it is split instead.
WIDTH = 16
WORK = 2e6
FEWEST = 200


def sweep(problem: Counted, share: Share) -> tuple[Status, dict[str, int]]:
    """Search all vertices; return why the search ended and what it did."""
    lengths = np.einsum("ij,ij->i", problem.H, problem.H)
    # Long rows first: their hyperplanes are the nearest to 0, and belong to more of the vertices within reach.
    H = np.ascontiguousarray(problem.H[np.argsort(-lengths, kind="stable")])
    weight = np.ascontiguousarray(problem.weight[np.argsort(-lengths, kind="stable")])
    r = H.shape[1]
    budget = max(FEWEST, int(WORK / len(H)))
    queue: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
    subspaces = 0
    status = problem.report(0.0)
    while status is None:
        tasks = [heapq.heappop(queue) for _ in range(min(WIDTH, len(queue)))]
        prefixes = np.full((len(tasks), r), -1, dtype=np.int64)
        sizes = np.array([len(prefix) for _, prefix in tasks], dtype=np.int64)
        for row, (_, prefix) in zip(prefixes, tasks, strict=True):
            row[: len(prefix)] = prefix
        values, bases = np.empty(len(tasks)), np.full((len(tasks), r), -1, dtype=np.int64)
        visited, finished = np.empty(len(tasks), dtype=np.int64), np.empty(len(tasks), dtype=np.bool_)
        given = (H, weight, problem.lam, problem.k, problem.cutoff, TIE, prefixes, sizes, budget)
        found = (values, bases, visited, finished)
        share(lambda first, stride: search(*given, first, stride, *found))  # noqa: B023
        for task in np.argsort(values, kind="stable"):
            if values[task] < problem.cutoff:
                basis = bases[task][bases[task] >= 0]
                w, *_ = np.linalg.lstsq(H[basis], np.ones(basis.size), rcond=None)
                problem.attain(w, float(values[task]))
        for task in np.flatnonzero(~finished):
            bound, prefix = tasks[task]
            following = children(H, weight, problem.lam, problem.k, problem.cutoff, TIE, prefixes[task], sizes[task])
            for j, below in zip(*following, strict=True):
                heapq.heappush(queue, (max(bound, float(below)), (*prefix, int(j))))
        subspaces += int(visited.sum())
        if queue and queue[0][0] >= problem.cutoff:
            queue.clear()
        status = problem.report(queue[0][0] if queue else np.inf)
    return status, {"subspaces": subspaces}
