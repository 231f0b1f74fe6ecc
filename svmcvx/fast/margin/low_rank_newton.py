r"""Newton's method on a factor of low rank, as a shortcut for pair steps that take long.

On few features a smooth kernel matrix has a small numerical rank, :math:`K \approx LL'` with L of
shape (n, r). The pSVM on the rows of L is linear. Newton's method
(:mod:`svmcvx.fast.linear.newton`) solves it in a number of steps that hardly depends on C or p,
while pair steps may need millions. Its multipliers are only a guess for the kernel machine: their
bounds are evaluated on exact scores, and they replace those of the pair steps if their gap is
smaller.

**When it is used.** Once pair steps have cost as many multiplications as computing `probe` columns
of the factor, these columns are computed, and the decay of the residual predicts the rank. If that
is at most `largest_rank`, half of n (n for n ≤ 1000), and what fits into the cache, the factor is
completed and used when pair steps have cost `worth` times :math:`n r^2`, and at least
`work_of_column` for each column. This happens once in a run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.linear.kernel_newton import KernelNewton
from svmcvx.fast.linear.loss_passes import hinge_power
from svmcvx.fast.linear.problem import LinearProblem
from svmcvx.formulations.margin import PSVM
from svmcvx.system.memory import columns_in

__all__ = ["LowRankNewton", "LowRankSettings"]

Floats: TypeAlias = NDArray[np.float64]

# Rank up to which the factor is used.
LARGEST_RANK = 1500


@dataclass(frozen=True)
class LowRankSettings:
    """Parameters of Newton's method on a factor of low rank.

    Parameters
    ----------
    probe : int
        Columns of the factor from which its rank is predicted.
    work_of_column : float
        Multiplications of pair steps that a column of the factor costs at least.
    worth : float
        Multiplications of pair steps in the time of one multiplication of Newton's method.
    """

    probe: int = 48
    work_of_column: float = 2e5
    worth: float = 0.2


@dataclass
class LowRankNewton:
    """Newton's method on a factor of the kernel matrix, for one run of the decomposition."""

    statement: PSVM
    cache_size: float
    settings: LowRankSettings = field(default_factory=LowRankSettings)

    def __post_init__(self) -> None:
        n = self.statement.y.size
        room = columns_in(self.cache_size, n)
        # A factor with room for little more than the probe is not worth it.
        room = room if room >= 2 * self.settings.probe else 0
        self.largest = min(LARGEST_RANK, n if n <= 1000 else n // 2, room)
        self.threshold = self.settings.probe**2 * float(n)
        self.rank = 0
        self.newton: KernelNewton | None = None

    def due(self, work: float, alpha: Floats) -> bool:
        """Whether pair steps that have cost `work` multiplications should be replaced by this
        method.
        """
        if work < self.threshold:
            return False
        space, settings = self.statement.space, self.settings
        if self.newton is None:
            if space.is_linear or self.largest < 1:
                self.threshold = math.inf
                return False
            self.newton = KernelNewton(space, self._on_factor)
            self.newton.factor.grow(min(settings.probe, self.largest))
            rank, n = self.newton.factor.predicted_rank, alpha.size
            cost = max(settings.work_of_column, settings.worth * n * rank) * rank
            self.threshold = cost if rank <= self.largest else math.inf
        return work >= self.threshold

    def allowance(self, work: float, alpha: Floats) -> float:
        """Return infinity: rounds need no limit, since they cost much less than a factor."""
        return math.inf

    def last_resort(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return multipliers that Newton's method found on a factor of any rank that there is room
        for; none the second time.
        """
        if self.rank or self.statement.space.is_linear or self.largest < 1:
            return []
        self.newton = (
            KernelNewton(self.statement.space, self._on_factor)
            if self.newton is None
            else self.newton
        )
        return self.solve(alpha, monitor)

    def solve(self, alpha: Floats, monitor: Monitor) -> list[Floats]:
        """Return multipliers that Newton's method found; none if the rank is too large or time is
        up.
        """
        self.threshold = math.inf
        if self.newton is None or not self.newton.grow(self.largest, monitor):
            return []
        self.rank = self.newton.rank
        # A smooth loss starts at w = 0: for p > 2, Newton's method takes many steps from large
        # slacks.
        point = self.newton.solve(monitor, alpha=alpha, keep=False)
        self.newton = None
        return [point.alpha, point.expansion]

    def _on_factor(self, rows: Floats) -> LinearProblem:
        """Return the pSVM on the rows, which are centred where the intercept is free."""
        s, free = self.statement, self.statement.space.intercept == "free"
        rows = np.ascontiguousarray(rows - rows.mean(axis=0) if free else rows)
        c = s.C * s.space.data.weight
        return LinearProblem(rows, s.y, c, hinge_power(s.p), bias=free, kernel_expansion=True)
