r"""Interior-point steps for hinges of several classes, where the Newton matrix is small.

All multipliers change together in about 10 to 20 steps, which are compiled
(:mod:`svmcvx.fast.several_classes.interior_passes`): on few observations the steps of
:mod:`svmcvx.fast.several_classes.newton` take longer to be called than to be computed.

Source: [Mehrotra].
"""

from __future__ import annotations

import math

import numpy as np

from svmcvx.arrays import Floats
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.several_classes.interior_passes import interior_step
from svmcvx.fast.several_classes.newton import ScoreBounds, shortened
from svmcvx.fast.several_classes.penalties import PairPenalty
from svmcvx.fast.several_classes.systems import ScoreSystem
from svmcvx.solution import Status


def interior_steps(
    system: ScoreSystem, penalty: PairPenalty, bounds: ScoreBounds, monitor: Monitor, work: float
) -> tuple[Status, int, Floats] | None:
    """Step inside the bounds; return status, steps and multipliers, None if not applicable."""
    domain, (r, c) = bounds.statement.loss.linear_pieces, system.shape
    own = system.scores.data.n * (c * r) ** 2 / 4.0 + system.unknowns**3 / 3.0
    if domain is None or system.sparse or own > work or penalty.p < 2:
        return None
    data = system.scores.data
    # Where one multiplier alone reaches the bound of the sum, it needs no other bound.
    largest = domain.largest if domain.largest < domain.total else math.inf
    weight = data.weight[:, None]
    # All multipliers start at this share of the largest that all can have.
    first = 2.0 / 3.0 * min(largest, domain.total / (c - 1)) * weight
    slack = [np.repeat(first, c - 1, axis=1)]
    if largest < math.inf:
        slack.append(largest * weight - slack[0])
    if domain.total < math.inf:
        slack.append(domain.total * weight - (c - 1) * first)
    U, slacks = np.zeros(system.shape), np.hstack(slack)
    # γ = 1 at the start: the multipliers of the lower bounds are 1, those of the others 2 together.
    z = np.ones(slacks.shape)
    if len(slack) == 2:
        z[:, c - 1 :] = 2.0
    Z = np.ascontiguousarray(system.Z)
    powers = penalty.lam, penalty.p, penalty.eps
    # Share of the tolerance at which a dual point is computed; a hundredth after a failure.
    target, smallest, idle, steps = 0.1 * monitor.tol, math.inf, 0, 0
    while True:
        before = U.copy()
        value, gap, moved = interior_step(
            Z, system.columns, system.q, data.codes, data.weight, largest, domain.total, *powers,
            U, slacks, z, target,
        )  # fmt: skip
        bounds.offer_model(before, value)
        idle = 0 if gap < 0.5 * smallest else idle + 1
        smallest = min(smallest, gap)
        alpha = np.ascontiguousarray(slacks[:, : c - 1])
        if not moved:
            bounds.offer_multipliers(before, alpha)
        status = bounds.report(monitor, steps)
        close = gap <= target * value
        # Steps without half of the smallest gap after which another method goes on.
        if status is None and (idle > 25 or not (moved or close)):
            status = Status.INACCURATE
        if status is not None:
            if status is not Status.OPTIMAL:
                bounds.offer_multipliers(U, shortened(alpha, penalty, system.scores))
            return status, steps, alpha
        if close:
            target *= 0.01
        else:
            steps += 1
