"""The conic relaxation for many values of λ or κ in turn, without certificates: what a tuning
compares.

A point is as near to the optimum as one of :func:`svmcvx.fast.conic`, whose descent this is;
bounds, and what makes a point feasible to the last digit, are left out. They take most of the time
of a small problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.conic_loss.conic import begin
from svmcvx.fast.core.monitor import monitored
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.conic_loss.statement import ConicLoss
from svmcvx.system.deadline import OutOfTime

Floats: TypeAlias = NDArray[np.float64]

# Newton steps of one value, at most.
STEPS = 5000


class ConicPoint(NamedTuple):
    """A nearly optimal point."""

    w: Floats
    lam: float
    share: float


def conic_points(
    space: FeatureSpace,
    *,
    lam: Sequence[float] = (),
    kappa: Sequence[float] = (),
    tol: float = 1e-6,
) -> list[ConicPoint]:
    """Solve the relaxation for each λ, or for each κ > 0, from the point of the one before."""
    first = {"lam": lam[0], "kappa": None} if lam else {"lam": None, "kappa": kappa[0]}
    statement = ConicLoss(space=space, **first, improve_alpha=False)
    total = float(space.data.weight.sum())
    found: list[ConicPoint] = []
    with monitored(tol=tol, max_iter=STEPS, verbose=False, callback=None) as monitor:
        search = begin(statement, monitor, None, "auto")
        problem, end, solve = search.problem, 0.5 * tol, None
        for value in lam or kappa:
            problem.steps = 0
            if kappa:
                search.allowance = value * total
            elif found:
                search.follow(value, solve)
            if not found:
                search.prepare(search.first_goal(), end)
            # From a neighbour's point the last stage alone is quickest.
            solve = search.stage(end * search.size())
            if search.monitor.out_of_time():
                raise OutOfTime
            found.append(
                ConicPoint(problem.U[:, 0].copy(), problem.lam, problem.indicator_sum() / total)
            )
    return found
