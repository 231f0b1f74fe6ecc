"""What a picture shows at one setting: the model with its scores on a grid, its interval, its
accuracy and the guaranteed one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import Certificate
from svmcvx.errors import DataError, NotCertified
from svmcvx.guarantees import Interval, guarantee
from svmcvx.model import OneVsModel
from svmcvx.solution import Solution

__all__ = ["View", "guaranteed_accuracy", "view_of"]

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class View:
    """A solution and what a picture shows of it."""

    settings: Mapping[str, Any]
    solution: Solution
    scores: Floats
    predicted: NDArray[np.intp]
    support: NDArray[np.intp]
    accuracy: float

    @property
    def certificate(self) -> Certificate:
        """The interval of the optimum; of several binary problems the one with the largest gap."""
        return self.solution.certificate


def view_of(
    estimator: Any, settings: Mapping[str, Any], grid: Floats, shape: tuple[int, int], tested: Any
) -> View:
    """Evaluate a fitted estimator once on the grid and once on the tested rows."""
    values = np.asarray(estimator.decision_function(grid))
    if values.ndim == 1:
        predicted = (values > 0).astype(np.intp)
    else:
        predicted = np.argmax(values, axis=1)
        best = np.partition(values, -2, axis=1)
        values = best[:, -1] - best[:, -2]
    model = estimator.solution_.model
    support = getattr(model, "support", None)
    if isinstance(model, OneVsModel):
        support = np.unique(estimator.support_)
    return View(
        settings=dict(settings),
        solution=estimator.solution_,
        scores=values.reshape(shape),
        predicted=predicted.reshape(shape),
        support=np.asarray(() if support is None else support, dtype=np.intp),
        accuracy=float(np.mean(estimator.predict(tested[0]) == tested[1])),
    )


def guaranteed_accuracy(
    solution: Solution, training: Any, tested: Any
) -> tuple[Interval | None, str]:
    """Return an interval of the accuracy of every optimal machine, or None and the reason."""
    try:
        return guarantee(solution, *training).accuracy(*tested), ""
    except (DataError, NotCertified) as error:
        return None, str(error)
