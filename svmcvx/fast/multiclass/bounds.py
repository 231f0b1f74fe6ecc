"""The best model and the best dual point that a solver of several classes has met."""

from __future__ import annotations

import math
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, relative_gap
from svmcvx.fast.core.monitor import Monitor
from svmcvx.fast.multiclass.score_systems import ScoreSystem
from svmcvx.formulations.multiclass.statement import MulticlassStatement
from svmcvx.solution import Status

__all__ = ["ScoreBounds"]

Floats: TypeAlias = NDArray[np.float64]


class ScoreBounds:
    """The best model and the best dual point so far.

    Parameters
    ----------
    system : ScoreSystem
    statement : MulticlassStatement
    """

    def __init__(self, system: ScoreSystem, statement: MulticlassStatement) -> None:
        self.system, self.statement = system, statement
        n, c = statement.scores.data.n, statement.scores.data.c
        # All losses are at least 0.
        self.dual: Dual = statement.repair({"alpha": np.zeros((n, c))})
        self.lower = statement.evaluate_dual(self.dual).below
        self.U = np.zeros(system.shape)
        self.upper = math.inf

    def update_model(self, U: Floats, value: float) -> None:
        """Keep U if its objective is lower."""
        if value < self.upper:
            self.U, self.upper = U, value

    def update_dual_point(self, point: Dual) -> None:
        """Keep a dual point, repaired, if its value is higher."""
        point = self.statement.repair(point)
        value = self.statement.evaluate_dual(point).below
        if value > self.lower:
            self.dual, self.lower = point, value

    @property
    def proved_upper(self) -> float:
        """What the objective at the best model is at most, with the rounding of its evaluation."""
        return self.statement.evaluate(self.statement.model(*self.system.weights(self.U))).above

    def report(self, monitor: Monitor, steps: int) -> Status | None:
        """Report the bounds; the upper one is proved before it may end the method."""
        near = relative_gap(self.lower, self.upper) <= monitor.tol
        status = monitor.report(steps, self.lower, self.proved_upper if near else self.upper)
        if status is Status.OPTIMAL and relative_gap(self.lower, self.proved_upper) > monitor.tol:
            return Status.INACCURATE
        return status
