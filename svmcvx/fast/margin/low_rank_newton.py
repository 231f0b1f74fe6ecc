r"""A way out for pSMO when pair steps take too long: Newton's method on a factor of low rank.

On few features a smooth kernel matrix has a small numerical rank, :math:`K \approx LL'` with L of shape (n, r). The pSVM on the
rows of L is a linear one, which Newton's method (:mod:`svmcvx.fast.core.linear_newton`) solves in a number of steps that hardly depends
on C or p, where pair steps need millions. Its multipliers are a guess for the kernel machine, nothing more: they are
compared on exact scores with those that pSMO has, and the better go on.

**The rule.** Once pair steps have cost as many multiplications as the probe, `PROBE` columns of the factor are computed; the
decay of its residual predicts the rank. If that is at most `LARGEST_RANK`, half of n (n up to 1000), and what the cache
would hold, the factor is computed and used as soon as pair steps have cost a fifth of :math:`n r^2`, its products going
faster, and `WORK_OF_COLUMN` a column. This happens once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.linear_newton import minimise
from svmcvx.fast.core.linear_problem import LinearProblem, kind_of_power
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.pivoted_cholesky import PartialFactor, partial_factor
from svmcvx.formulations.margin.psvm import PSVM

__all__ = ["LowRank", "partial_factor"]

Floats: TypeAlias = NDArray[np.float64]

WORK_OF_COLUMN, WORTH = 2e5, 0.2
PROBE = 48
LARGEST_RANK = 1500
# Share of the tolerance to which Newton's method goes: the factor's own error needs some of it.
SHARE = 0.3
STEPS = 300
MEGABYTE = 2.0**20


@dataclass
class LowRank:
    """Newton's method on a factor of the kernel matrix, for one call of pSMO.

    Parameters
    ----------
    statement : PSVM
        With a :class:`~svmcvx.feature_space.KernelSpace`.
    cache_size : float
        Megabytes that the factor may take.
    """

    statement: PSVM
    cache_size: float

    def __post_init__(self) -> None:
        n = self.statement.y.size
        self.largest = int(min(LARGEST_RANK, n if n <= 1000 else n // 2, self.cache_size * MEGABYTE / (8.0 * n)))
        self.wanted = PROBE**2 * float(n)
        self.rank = 0
        self.factor: PartialFactor | None = None

    def due(self, work: float) -> bool:
        """Whether pair steps that cost `work` multiplications are enough to leave them."""
        if work < self.wanted:
            return False
        space = self.statement.space
        if self.factor is None:
            if space.is_linear or self.largest < 1:
                self.wanted = math.inf
                return False
            self.factor = partial_factor(space)
            self.factor.grow(min(PROBE, self.largest))
            rank = self.factor.predicted_rank
            n = self.statement.y.size
            self.wanted = max(WORK_OF_COLUMN, WORTH * n * rank) * rank if rank <= self.largest else math.inf
        return work >= self.wanted

    def solve(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return multipliers that Newton's method found, none if the rank is too large or time is up."""
        self.wanted = math.inf
        if self.factor is None:
            return []
        self.factor.grow(self.largest, lambda: monitor.out_of_time)
        if not self.factor.done:
            return []
        L = self.factor.factor
        self.rank, self.factor = L.shape[1], None
        statement, p = self.statement, self.statement.p
        L = np.ascontiguousarray(L - L.mean(axis=0))
        c, kind = statement.C * statement.space.data.weight, kind_of_power(p)
        problem = LinearProblem(L, statement.y, c, kind, p=p, bias=True, kernel_expansion=True)
        # A smooth loss is started at w = 0: scores that are far out cost p > 2 many steps.
        inner = monitor.within(SHARE * monitor.tol, STEPS)
        point, _ = minimise(problem, inner, alpha=None if problem.smooth else alpha)
        return [point.alpha, point.expansion]
