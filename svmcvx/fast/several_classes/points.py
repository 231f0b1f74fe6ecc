"""The points that solvers of several classes start from, and the best that they have met."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Dual, relative_gap
from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import Monitor, earlier_solution
from svmcvx.fast.several_classes.systems.score_systems import ScoreSystem
from svmcvx.formulations.base import usable
from svmcvx.formulations.multiclass.statement import MulticlassStatement
from svmcvx.model import MulticlassModel
from svmcvx.solution import Status

__all__ = ["ScoreBounds", "Start", "start_from"]

Floats: TypeAlias = NDArray[np.float64]


class ScoreBounds:
    """The best model and the best dual point so far."""

    def __init__(self, system: ScoreSystem, statement: MulticlassStatement) -> None:
        self.system, self.statement = system, statement
        # The multipliers 0, whose bound is 0: all losses and penalties are at least 0.
        self.dual: Dual = statement.zero_dual()
        self.lower = 0.0
        self.U = np.zeros(system.shape)
        self.upper = math.inf

    def update_model(self, U: Floats, value: float) -> None:
        """Keep U if its objective is lower."""
        if value < self.upper:
            self.U, self.upper = U, value

    def update_dual_point(self, point: Dual) -> None:
        """Keep a dual point, repaired, if its value is higher."""
        point = self.statement.repair(point)
        value = self.statement.evaluate_dual(point).lower_end
        if value > self.lower:
            self.dual, self.lower = point, value

    def offer_multipliers(self, U: Floats, alpha: Floats) -> None:
        """Keep the dual point of multipliers at U if its value is higher."""
        self.update_dual_point({"alpha": self.system.scores.expand(alpha)})

    @property
    def proved_upper(self) -> float:
        """Upper bound of the objective at the best model, with the rounding of its evaluation."""
        return self.statement.evaluate(self.statement.model(*self.system.weights(self.U))).upper_end

    def report(self, monitor: Monitor, steps: int) -> Status | None:
        """Report the bounds; the upper bound is proved before it ends the method."""
        near = relative_gap(self.lower, self.upper) <= monitor.tol
        upper = self.proved_upper if near else self.upper
        status = monitor.report(steps, self.lower, upper)
        if status is Status.OPTIMAL and relative_gap(self.lower, upper) > monitor.tol:
            return Status.INACCURATE
        return status


class Start(NamedTuple):
    """A point U and multipliers inside their domain, both of an earlier solution."""

    U: Floats
    alpha: Floats


def start_from(system: ScoreSystem, statement: MulticlassStatement, warm: Any) -> Start | None:
    """Return the starting point from an earlier solution, None without one; raise a DataError if it
    does not fit the data.
    """
    warm = earlier_solution(warm, statement)
    if warm is None:
        return None
    data, model = system.scores.data, warm.model
    if not isinstance(model, MulticlassModel) or not np.array_equal(model.classes, data.classes):
        raise DataError("warm_start must be a Solution of the same data, got one of other classes")
    if model.coef.shape != (data.X.shape[1], data.c) or not (
        usable(model.coef) and usable(model.intercept)
    ):
        raise DataError(
            "warm_start must be a Solution of the same data, got weights of shape"
            f" {model.coef.shape} for {data.X.shape[1]} features and {data.c} classes"
        )
    if "alpha" not in warm.dual:
        raise DataError(
            "warm_start must have multipliers alpha, as solutions of multi-class formulations have;"
            " got one without"
        )
    # The biases of a model belong to the data as they were passed, those of U to the data of the
    # scores.
    intercept = model.intercept + system.scores.centre @ model.coef
    return Start(
        system.point(model.coef, intercept), statement.projected(statement.multipliers(warm.dual))
    )
