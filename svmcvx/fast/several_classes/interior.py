r"""Interior-point steps for hinges of several classes, where the Newton matrix is small.

All multipliers change together in about 10 to 20 steps, which are compiled
(:mod:`svmcvx.fast.several_classes.interior_passes`): on few observations the steps of
:mod:`svmcvx.fast.several_classes.newton` take longer to be called than to be computed.

Source: [Mehrotra].
"""

from __future__ import annotations

import math
from typing import NamedTuple, TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.several_classes.interior_passes import interior_step
from svmcvx.fast.several_classes.newton import ScoreBounds
from svmcvx.fast.several_classes.penalties import SmoothPenalty, WeightPenalty
from svmcvx.fast.several_classes.systems import ScoreSystem
from svmcvx.formulations.optimal_intercepts import SumOfBounded
from svmcvx.solution import Status

__all__ = ["WORK", "interior_steps"]

Floats: TypeAlias = NDArray[np.float64]

# Multiplications of a step, which are not vectorised, up to which it takes less time than those of
# the other methods.
WORK = 3e6
# All multipliers start at this share of the largest that all can have.
INSIDE = 2.0 / 3.0


class InteriorPoint:
    """Steps from the middle of the bounds of the multipliers to an optimum."""

    def __init__(
        self,
        system: ScoreSystem,
        penalty: SmoothPenalty,
        domain: SumOfBounded,
        bounds: ScoreBounds,
        monitor: Monitor,
    ) -> None:
        self.system, self.penalty, self.bounds, self.monitor = system, penalty, bounds, monitor
        data, c = system.scores.data, system.shape[1]
        # Where one multiplier alone reaches the bound of the sum, it needs no other bound.
        largest = domain.largest if domain.largest < domain.total else math.inf
        self.U = np.zeros(system.shape)
        columns = data.weight[:, None]
        first = INSIDE * min(largest, domain.total / (c - 1)) * columns
        slack = [np.repeat(first, c - 1, axis=1)]
        if largest < math.inf:
            slack.append(largest * columns - slack[0])
        if domain.total < math.inf:
            slack.append(domain.total * columns - (c - 1) * first)
        self.slack = np.hstack(slack)
        # γ = 1 at the start: the multipliers of the lower bounds are 1, those of the others 2
        # together.
        self.z = np.ones(self.slack.shape)
        if len(slack) == 2:
            self.z[:, c - 1 :] = 2.0
        self.problem = (
            np.ascontiguousarray(system.Z),
            system.columns,
            system.q,
            data.codes,
            data.weight,
            largest,
            domain.total,
            *penalty.powers(c),
        )

    @property
    def alpha(self) -> Floats:
        """Multipliers inside their bounds."""
        return np.ascontiguousarray(self.slack[:, : self.system.shape[1] - 1])

    def run(self) -> tuple[Status, int]:
        """Step until the monitor says stop, or nothing is gained; return why and how many steps it
        took.
        """
        # Share of the tolerance at which a dual point is computed; where its bound is not yet as
        # good, a hundredth of it.
        target, smallest, idle, steps = 0.1 * self.monitor.tol, math.inf, 0, 0
        while True:
            U = self.U.copy()
            value, gap, moved = interior_step(*self.problem, self.U, self.slack, self.z, target)
            self.bounds.update_model(U, value)
            # Steps without a gap below the share LESS of the smallest one after which another
            # method goes on.
            idle = 0 if gap < 0.5 * smallest else idle + 1
            smallest = min(smallest, gap)
            if not moved:
                self.bounds.offer_multipliers(U, self.alpha)
            status = self.bounds.report(self.monitor, steps)
            close = gap <= target * value
            if status is None and (idle > 25 or not (moved or close)):
                status = Status.INACCURATE
            if status is not None:
                if status is not Status.OPTIMAL:
                    shorter = self.penalty.shortened(self.alpha, self.system.scores)
                    self.bounds.offer_multipliers(self.U, shorter)
                return status, steps
            if close:
                target *= 0.01
            else:
                steps += 1


class Tried(NamedTuple):
    """Why the steps have ended, how many they were, and the point they have ended in."""

    status: Status
    steps: int
    U: Floats
    alpha: Floats


def interior_steps(
    system: ScoreSystem, penalty: WeightPenalty, bounds: ScoreBounds, monitor: Monitor, work: float
) -> Tried | None:
    """Return the end of these steps; None where one is more than so much work, or the loss or the
    penalty is not of their kind.
    """
    r, c = system.shape
    own = system.scores.data.n * (c * r) ** 2 / 4.0 + system.unknowns**3 / 3.0
    domain = bounds.statement.loss.linear_pieces
    if (
        domain is None
        or not isinstance(penalty, SmoothPenalty)
        or sp.issparse(system.Z)
        or own > work
    ):
        return None
    method = InteriorPoint(system, penalty, domain, bounds, monitor)
    return Tried(*method.run(), bounds.U, method.alpha)
