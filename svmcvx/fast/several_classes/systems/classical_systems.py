"""Data of the classical machines, see :mod:`svmcvx.fast.several_classes.systems.score_systems`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.fast.several_classes.systems.penalties import AbsoluteWeights, SquaredWeights
from svmcvx.fast.several_classes.systems.score_systems import (
    ScoreSystem,
    ScoreSystemSettings,
    centred,
)
from svmcvx.formulations.multiclass.baselines import ClassicalStatement

__all__ = ["ClassicalSystem"]

Floats: TypeAlias = NDArray[np.float64]


class ClassicalSystem(ScoreSystem):
    """Data and penalty of a classical machine."""

    dense_share = 1 / 3

    def __init__(
        self, statement: ClassicalStatement, settings: ScoreSystemSettings | None = None
    ) -> None:
        super().__init__(statement.scores, settings)
        self.statement = statement
        kappa = statement.regulariser.curvature(statement.scores.data.c)
        self.penalty: SquaredWeights | AbsoluteWeights
        if kappa is None:
            self.penalty = AbsoluteWeights(statement.lam, self.columns)
        else:
            self.penalty = SquaredWeights(2.0 * statement.lam * kappa, self.columns)

    def normalised(self, A: Floats) -> Floats:
        """Return the matrix with rows that sum to zero if the penalty is a sum of squares."""
        return centred(A) if self.penalty.smooth else A
