"""Guarantees of losses that are not convex: labels that a search proves to be those of every
optimal machine.

No small gap bounds the distance of two machines here. But an optimal machine has an objective of at
most that of the model, U, and whether any machine with an objective of at most U predicts another
label of a row is a question that branch and bound answers: it searches the problem with the
constraint that the label is another one, and U as the value above which nothing is looked for
(:mod:`svmcvx.fast.indicator.search.other_label`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from svmcvx.data import Features, check_features
from svmcvx.fast.core.monitor import monitored
from svmcvx.fast.core.thread_pool import shares
from svmcvx.feature_space import FeatureSpace
from svmcvx.formulations.indicator.l0 import L0
from svmcvx.formulations.indicator.ramp import Ramp
from svmcvx.formulations.indicator.statement import IndicatorStatement
from svmcvx.formulations.indicator.zero_one import ZeroOne
from svmcvx.guarantees.answers import CertifiedScores, Guarantee
from svmcvx.guarantees.binary import space_with_row, training_space
from svmcvx.solution import Solution
from svmcvx.system.cancellation import interruptible
from svmcvx.system.deadline import OutOfTime, time_limited
from svmcvx.system.threads import single_blas_thread

__all__ = ["SEARCHED", "SearchedGuarantee", "searched_guarantee"]

Floats: TypeAlias = NDArray[np.float64]

# Gap of the objective at which a search of another label would end; it ends where no node is left.
NO_GAP = 2.0**-40
MOST_ROUNDS = 2**31


@dataclass(frozen=True, eq=False, repr=False)
class SearchedGuarantee(Guarantee):
    """What a search knows of every optimal machine; see :func:`svmcvx.guarantee`."""

    classes: NDArray[Any]
    upper: float
    max_nodes: int
    time_limit: float | None
    space: FeatureSpace
    solution: Solution

    def __repr__(self) -> str:
        return f"SearchedGuarantee(optimum at most {self.upper:.9g}, {self.max_nodes} nodes a row)"

    @property
    def radius(self) -> float:
        """Infinite: machines with nearly the same objective may be far from each other."""
        return math.inf

    @property
    def _no_proof(self) -> str:
        return f"labels of {self.solution.formulation} are those of a search, which is not recorded"

    def scores(self, T: Any) -> CertifiedScores:
        """Return which labels every optimal machine predicts."""
        X = self.space.data.X
        rows = check_features(T, name="T", n_features=int(X.shape[1]))
        model: Any = self.solution.model
        signs = np.where(model.decision_function(rows) > 0.0, 1.0, -1.0)
        lower, upper = np.full(signs.size, -np.inf), np.full(signs.size, np.inf)
        with time_limited(self.time_limit), single_blas_thread():
            for t, sign in enumerate(signs.tolist()):
                found = self._smallest(rows[t : t + 1], sign)
                if found > 0.0 and sign > 0.0:
                    lower[t] = found
                elif found > 0.0:
                    upper[t] = -found
        possible = np.column_stack([~(lower > 0.0), upper > 0.0])
        return CertifiedScores(
            lower, upper, possible, self.classes, np.zeros(signs.size, dtype=bool)
        )

    def _smallest(self, row: Features, sign: float) -> float:
        """Return a positive number below which no optimal machine has the signed score of a row, or
        0.
        """
        # Estimators import this module, and most fits search for nothing.
        from svmcvx.fast.indicator.search.other_label import smallest_score

        with monitored(tol=NO_GAP, max_iter=MOST_ROUNDS, verbose=False, callback=None) as monitor:
            if monitor.out_of_time():
                return 0.0
            try:
                with interruptible(monitor.deadline), shares() as share:
                    statement = _statement(self.solution, space_with_row(self.space, row, 1.0, 1.0))
                    return smallest_score(
                        statement, self.upper, sign, monitor, share, self.max_nodes
                    )
            except OutOfTime:
                return 0.0


def searched_guarantee(
    solution: Solution, X: Any, y: Any, *, max_nodes: int, time_limit: float | None
) -> SearchedGuarantee:
    """Return the guarantee of a solution of a loss that is not convex; see
    :func:`svmcvx.guarantee`.
    """
    space, _ = training_space(solution, X, y)
    statement = _statement(solution, space)
    model: Any = solution.model
    return SearchedGuarantee(
        space.data.classes,
        statement.evaluate(model).upper_end,
        max_nodes,
        time_limit,
        space,
        solution,
    )


def _statement(solution: Solution, space: FeatureSpace) -> IndicatorStatement:
    found: IndicatorStatement = SEARCHED[solution.formulation](solution, space)
    return found


def _zero_one(solution: Solution, space: FeatureSpace) -> ZeroOne:
    given = solution.hyperparameters
    return ZeroOne(
        space=space, lam=given.get("lam"), k=given.get("k"), form="enumeration", kind="enumeration"
    )


def _of_cost(statement: Any, solution: Solution, space: FeatureSpace) -> IndicatorStatement:
    found: IndicatorStatement = statement(space=space, C=solution.hyperparameters["C"])
    return found


SEARCHED: Mapping[str, Any] = {
    "zero_one": _zero_one,
    "l0": partial(_of_cost, L0),
    "ramp": partial(_of_cost, Ramp),
}
