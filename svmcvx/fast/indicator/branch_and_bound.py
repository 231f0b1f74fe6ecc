r"""Branch and bound for the 0-1 problem with the bound of the perspective relaxation.

A node keeps some observations, drops others, and bounds the rest by their conic losses
(:mod:`svmcvx.fast.indicator.perspective_passes`). Nodes are taken in the order of their bounds. In the cardinality form the loss has the
multiplier of the conic relaxation for its price, and nodes that drop more than k are cut off. A node without free
observations is solved for its point of least norm.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.thread_pool import Share
from svmcvx.fast.indicator.perspective_passes import DROPPED, FREE, KEPT, expand, relax
from svmcvx.fast.indicator.search_state import SearchState
from svmcvx.formulations.indicator.perspective import feasible_gamma
from svmcvx.solution import Status

__all__ = ["BranchSettings", "branch"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class BranchSettings:
    """Numbers that steer branch and bound.

    Attributes
    ----------
    width : int
        Nodes expanded in one round.
    penalty : float
        Price of a squared shortfall of a kept observation, in units of the incumbent.
    nearly_kept : float
        Margin of a relaxed point at which an observation is tried as kept.
    """

    width: int = 32
    penalty: float = 1e4
    nearly_kept: float = 0.9


class Node(NamedTuple):
    """Lower bound, a number that breaks ties, what is kept and dropped, the minimiser, and what to branch on."""

    bound: float
    number: int
    state: NDArray[np.int8]
    w: Floats
    undecided: int


def branch(
    search: SearchState, share: Share, settings: BranchSettings, most: float = math.inf
) -> tuple[Status | None, dict[str, int]]:
    """Search the sets that may be dropped, and bound at most about `most` nodes; return why it ended and what it did.

    The status is None if there are more nodes than `most`.
    """
    H, weight = search.H, search.weight
    n, r = H.shape
    lam, offset = search.loss_price, 0.0 if search.lam > 0 else search.loss_price * search.k
    size = search.best_value if search.best is not None else float(n)
    rho = settings.penalty * max(size, lam)
    gamma = feasible_gamma(H, search.gamma)
    root = Node(0.0, 0, np.zeros(n, dtype=np.int8), np.zeros(r), -1)
    bound, undecided = relax(H, weight, gamma, lam, rho, root.state, root.w, search.cutoff + offset)
    queue = [root._replace(bound=max(bound - offset, 0.0), undecided=undecided)]
    made = nodes = 1
    status = search.report(queue[0].bound)
    while status is None and nodes < most:
        chosen = [heapq.heappop(queue) for _ in range(min(settings.width, len(queue)))]
        # The set that the most promising relaxed point keeps.
        first = chosen[0]
        search.try_set((first.state == KEPT) | ((first.state == FREE) & (H @ first.w >= settings.nearly_kept)))
        parents = []
        for node in chosen:
            if node.bound < search.cutoff and node.undecided < 0:
                search.close_leaf(node.state == KEPT, node.bound)
            elif node.bound < search.cutoff:
                parents.append(node)
        if parents:
            states, starts = np.array([node.state for node in parents]), np.array([node.w for node in parents])
            on = np.array([node.undecided for node in parents], dtype=np.int64)
            found = np.empty((len(on), 2)), np.empty((len(on), 2, r)), np.empty((len(on), 2), dtype=np.int64)
            rest = (states, starts, on, search.cutoff + offset)
            share(lambda first, stride: expand(H, weight, gamma, lam, rho, *rest, first, stride, *found))  # noqa: B023
            for node, bounds, minimisers, following in zip(parents, *found, strict=True):
                for child, fixed in enumerate((KEPT, DROPPED)):
                    below = max(node.bound, float(bounds[child]) - offset)
                    state = node.state.copy()
                    state[node.undecided] = fixed
                    if below < search.cutoff and weight[state == DROPPED].sum() <= search.k:
                        entry = Node(below, made, state, minimisers[child], int(following[child]))
                        heapq.heappush(queue, entry)
                        made += 1
            nodes += 2 * len(parents)
        if queue and queue[0].bound >= search.cutoff:
            queue.clear()
        status = search.report(queue[0].bound if queue else np.inf)
    return status, {"nodes": nodes}
