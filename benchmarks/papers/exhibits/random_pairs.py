"""pSMO as [Sun] states it: partners drawn at random, without shortcuts.

A test asserts that it takes more than twice the steps of second-order selection,
``benchmarks/kernel_psvm.py`` compares the times.
"""

from __future__ import annotations

from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers.exhibits.random_pairs_passes import ascend_at_random
from svmcvx.fast.margin.decomposition import Decomposition

__all__ = ["RandomPairs"]

Floats: TypeAlias = NDArray[np.float64]


class RandomPairs(Decomposition):
    """Working sets and pairs drawn at random: the rule of [Sun], Algorithm 1."""

    selection: ClassVar[str] = "random"
    takes_shortcuts: ClassVar[bool] = False

    def _working_set(self, up: Floats, low: Floats) -> NDArray[np.intp]:
        n = self.y.size
        if self.size >= n:
            return np.arange(n)
        return np.sort(self.random.choice(n, self.size, replace=False)).astype(np.intp)

    def _ascend(
        self,
        Q: Floats,
        g: Floats,
        alpha: Floats,
        y: Floats,
        c: Floats,
        upper_bound: Floats,
        tol: float,
        steps: int,
    ) -> int:
        seed = int(self.random.integers(2**31))
        return int(ascend_at_random(Q, g, alpha, y, c, upper_bound, self.r, tol, steps, seed))
