"""Earlier solutions as starts of the multi-class solvers."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError
from svmcvx.fast.core.monitor import earlier_solution
from svmcvx.fast.multiclass.score_systems import ScoreSystem
from svmcvx.formulations.base import usable
from svmcvx.formulations.multiclass.statement import MulticlassStatement
from svmcvx.model import MulticlassModel

__all__ = ["Start", "start_from"]

Floats: TypeAlias = NDArray[np.float64]


class Start(NamedTuple):
    """A point U and multipliers inside their domain, both of an earlier solution; None without one."""

    U: Floats | None
    alpha: Floats | None


def start_from(system: ScoreSystem, statement: MulticlassStatement, warm: Any) -> Start:
    """Return the start that an earlier solution gives; raise a DataError if it does not fit the data."""
    warm = earlier_solution(warm)
    if warm is None:
        return Start(None, None)
    data, model = system.scores.data, warm.model
    if not isinstance(model, MulticlassModel) or not np.array_equal(model.classes, data.classes):
        raise DataError("warm_start must be a Solution of the same data, got one of other classes")
    if model.coef.shape != (data.X.shape[1], data.c) or not (usable(model.coef) and usable(model.intercept)):
        raise DataError(
            f"warm_start must be a Solution of the same data, got weights of shape {model.coef.shape} "
            f"for {data.X.shape[1]} features and {data.c} classes"
        )
    if "alpha" not in warm.dual:
        raise DataError(
            "warm_start must have multipliers alpha, as solutions of multi-class formulations have; got one without"
        )
    # The biases of a model belong to the data as they were passed, those of U to the data of the scores.
    intercept = model.intercept + system.scores.centre @ model.coef
    return Start(system.point(model.coef, intercept), statement.projected(statement.multipliers(warm.dual)))
