r"""Two rules for the intercept of a pSVM that are not optimal: that of [Sun], and that of the code
published with it.

Both take a mean over the support vectors, which the optimality conditions, :math:`b = y_k(1 -
\xi_k) - f_k`, give with the slack: ``"paper"`` that of :math:`y_k - f_k`, which is right for p = 2
only, ``"released"`` that of :math:`y_k - \operatorname{sign} f_k`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from svmcvx.certificate import check
from svmcvx.data import binary_data, check_choice
from svmcvx.errors import DataError
from svmcvx.feature_space import feature_space
from svmcvx.formulations.base import RecoveredPoints
from svmcvx.formulations.margin.psvm import PSVM
from svmcvx.formulations.problem import FormulationProblem
from svmcvx.solution import Solution

__all__ = ["RULES", "bias_by_rule", "problem_with_bias", "with_bias"]

Floats: TypeAlias = NDArray[np.float64]
Problem = TypeVar("Problem", bound=FormulationProblem)

RULES = ("paper", "released")
# Multipliers above this belong to support vectors.
SUPPORT = 1e-5


def bias_by_rule(
    rule: Literal["paper", "released"] | str, y: Floats, alpha: Floats, f: Floats
) -> float:
    """Return the intercept by a rule of [Sun], 0 if there is no support vector."""
    check_choice(rule, "rule", RULES)
    support = alpha > SUPPORT
    if not support.any():
        return 0.0
    scores = f if rule == "paper" else np.sign(f)
    return float(np.mean(y[support] - scores[support]))


class _AsGiven(PSVM):
    """The pSVM, where the machine of a rule is shown even if w = 0 has a smaller objective."""

    def dominates_trivial_bounds(self, upper: float, lower: float) -> bool:
        return True


def _by_rule(rule: str, statement: PSVM, model: Any, alpha: Floats) -> Any:
    """Return the model with the intercept of a rule."""
    f = statement.y * statement.margins_of(model).value - model.intercept
    return replace(model, intercept=bias_by_rule(rule, statement.y, alpha, f))


def with_bias(
    solution: Solution, X: Any, y: Any, rule: str, *, sample_weight: Any = None
) -> Solution:
    """Return a solution of a pSVM with the intercept of a rule of [Sun], and the interval that the
    checker gives it.
    """
    check_choice(rule, "rule", RULES)
    if solution.formulation != PSVM.name:
        raise DataError(
            f"{rule!r} is a rule for the free intercept of a pSVM, got a solution of"
            f" {solution.formulation!r}; pass one of fast.psvm"
        )
    values = solution.hyperparameters
    data = binary_data(X, y, sample_weight)
    kernel = getattr(solution.model, "kernel", None)
    space = feature_space(data, kernel, intercept="free")
    statement = _AsGiven(space=space, C=values["C"], p=values["p"])
    alpha = statement.entry(solution.dual, "alpha")
    checked = check(
        statement, [_by_rule(rule, statement, solution.model, alpha)], [{"alpha": alpha}]
    )
    return replace(
        solution,
        model=checked.model,
        certificate=checked.certificate,
        terms=checked.terms,
        hyperparameters={**values, "bias": rule},
        optimal_intercepts=None,
    )


def problem_with_bias(problem: Problem, rule: str) -> Problem:
    """Let the models that a problem of a pSVM recovers have the intercept of a rule."""
    check_choice(rule, "rule", RULES)
    recover = problem.recover

    def by_rule() -> RecoveredPoints:
        statement, points = problem.formulation, recover()
        multipliers = [statement.alpha(dual) for dual in points.duals] or [
            np.zeros(statement.y.size)
        ]
        # The primal variables come last, with the multipliers of the solver.
        pairs = [
            (model, multipliers[min(k, len(multipliers) - 1)])
            for k, model in enumerate(points.models)
        ]
        return points._replace(
            models=[_by_rule(rule, statement, model, alpha) for model, alpha in pairs]
        )

    object.__setattr__(problem, "recover", by_rule)
    return problem
