"""Batches of the pSVM at p = 1 with several classes: all pairs, or each class against the rest, for
several C.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import CodedLabels
from svmcvx.fast.margin.pairs import (
    LARGEST_COST,
    LEAST_COST,
    LEAST_TOL,
    Arranged,
    arranged,
    ascended,
    best_intercepts,
)
from svmcvx.kernels import Kernel
from svmcvx.kernels.gram_cache import GramCache
from svmcvx.system.deadline import current
from svmcvx.system.threads import single_blas_thread

__all__ = ["PairsBatch"]

Floats: TypeAlias = NDArray[np.float64]

# Megabytes of kernel rows.
CACHE = 500.0


@dataclass(frozen=True, eq=False)
class PairsBatch:
    """The problems on one fold. They share rows of the kernel matrix with certified fits to the
    same data.
    """

    found: Arranged
    T: Floats
    cache: GramCache

    @classmethod
    def of(
        cls,
        X: Any,
        labels: CodedLabels,
        weight: Floats | None,
        T: Floats,
        *,
        scheme: str,
        kernel: Kernel | None,
        cache: GramCache,
    ) -> PairsBatch | None:
        """Return the problems, None if these data are not for the loop over pairs."""
        found = arranged(
            X, labels, weight, scheme=scheme, C=1.0, kernel=kernel, cache_size=CACHE, cache=cache
        )
        return None if found is None else cls(found, T, cache)

    @single_blas_thread()
    def solve(
        self, costs: Sequence[float], tol: float
    ) -> tuple[Floats, NDArray[np.bool_], list[int]] | None:
        """Solve for values of C in ascending order, each from the one before; None if the deadline
        passes.
        """
        statement = self.found.statement
        layout, unit, y = statement.layout, statement.cost_below, statement.y
        alpha, g = np.zeros(y.size), y.copy()
        scores, solved = (
            np.zeros((len(costs), len(self.T), layout.parts)),
            np.zeros(len(costs), dtype=bool),
        )
        supports = [0] * len(costs)
        for place, C in enumerate(costs):
            c = C * unit
            if tol < LEAST_TOL or not (c.min() >= LEAST_COST and c.max() <= LARGEST_COST):
                continue
            if place:
                alpha, g = self._start(alpha, g, costs[place - 1] * unit, c)
            _, done = ascended(statement, c, alpha, g, tol)
            if current().passed():
                return None
            if done.all():
                solved[place], scores[place] = True, self._scores(alpha, g)
                supports[place] = np.unique(layout.all_rows[alpha != 0.0]).size
        return scores, solved, supports

    def _start(self, alpha: Floats, g: Floats, before: Floats, c: Floats) -> tuple[Floats, Floats]:
        """Return multipliers for larger upper bounds, and y − Kv."""
        layout, y = self.found.statement.layout, self.found.statement.y
        # Balanced ones may be below their bound by a rounding.
        full = alpha >= (1.0 - 1e-9) * before
        grows = layout.spread(np.logical_or.reduceat(full, layout.offsets[:-1]))
        ratio = np.where(grows, c / before, 1.0)
        return np.where(full, c, np.minimum(alpha * ratio, c)), y - ratio * (y - g)

    def _scores(self, alpha: Floats, g: Floats) -> Floats:
        """Return the scores of the rows by each machine, from its multipliers and y minus its
        scores of the training rows.
        """
        X, _, statement = self.found
        layout, kernel = statement.layout, statement.kernel
        bias = best_intercepts(statement, g)
        chosen = np.flatnonzero(alpha)
        v = np.zeros((X.shape[0], layout.parts))
        v[layout.all_rows[chosen], layout.spread(np.arange(bias.size))[chosen]] = (
            alpha * statement.y
        )[chosen]
        if kernel is not None:
            cross = self.cache.cross(kernel, self.T, X)
            return np.asarray((kernel(self.T, X) if cross is None else cross) @ v + bias)
        W = np.zeros((layout.parts, X.shape[1]))
        for group, (first, last) in enumerate(pairwise(layout.starts.tolist())):
            own = (layout.groups == group).any(axis=1)
            W[own] += v[first:last, own].T @ statement.rows.X[first:last]
        return np.asarray((self.T - statement.centre) @ W.T + bias)
