r"""Newton's method for a machine with a kernel, on a partial factor of its kernel matrix that can
grow.

With :math:`K \approx FF'` the machine on the rows of F is a linear one, which
:mod:`svmcvx.fast.linear.newton` solves. Its multipliers are feasible for K too, however rough F is:
who asks for them evaluates their bounds on K, and lets the factor grow while the gap is too large.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.core.pivoted_cholesky import PartialFactor, partial_factor
from svmcvx.fast.linear.newton import minimise
from svmcvx.fast.linear.problem import BestPoint, LinearNewtonSettings, LinearProblem
from svmcvx.feature_space import FeatureSpace

__all__ = ["KernelNewton"]

Floats: TypeAlias = NDArray[np.float64]

# The tolerance of the machine on the factor relative to that of the whole, the rest of which the
# error of the factor takes; steps at most.
FACTOR_SHARE, FACTOR_STEPS = 0.3, 300


class KernelNewton:
    """The machine on the rows of a factor."""

    def __init__(
        self,
        space: FeatureSpace,
        machine: Callable[[Floats], LinearProblem],
        settings: LinearNewtonSettings | None = None,
    ) -> None:
        self.machine, self.settings = machine, settings
        self.factor: PartialFactor = partial_factor(space)

    @property
    def rank(self) -> int:
        """Columns of the factor."""
        return len(self.factor.pivots)

    def grow(
        self,
        rank: int,
        monitor: Monitor,
        enough: Callable[[PartialFactor], bool] = lambda factor: False,
    ) -> bool:
        """Compute columns until there are `rank`, time is up or `enough` is true; return whether
        the factor is complete.
        """
        self.factor.grow(rank, lambda: monitor.out_of_time() or enough(self.factor))
        return self.factor.done

    def solve(
        self,
        monitor: Monitor,
        *,
        alpha: Floats | None = None,
        v: Floats | None = None,
        keep: bool = True,
    ) -> BestPoint:
        """Return the solution on the present factor."""
        rows = self.factor.factor
        if not keep:
            del self.factor
        problem, w = self.machine(rows), None if v is None else rows.T @ v
        # The problem may have made its own rows.
        del rows
        return minimise(
            problem,
            monitor.within(FACTOR_SHARE * monitor.tol, FACTOR_STEPS),
            w=w,
            alpha=None if problem.smooth else alpha,
            settings=self.settings,
        )[0]
