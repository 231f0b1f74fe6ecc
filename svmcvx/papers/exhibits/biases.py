r"""Two rules for the intercept of a pSVM that are not optimal: that of [Sun], and that of the code published with it.

Both take a mean over the support vectors, which the optimality conditions, :math:`b = y_k(1 - \xi_k) - f_k`, give with the slack:
``"paper"`` that of :math:`y_k - f_k`, which is right for p = 2 only, ``"released"`` that of :math:`y_k - \operatorname{sign} f_k`.
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


def bias_by_rule(rule: Literal["paper", "released"] | str, y: Floats, alpha: Floats, f: Floats) -> float:
    """Return the intercept by a rule of [Sun], 0 if there is no support vector.

    Parameters
    ----------
    rule : "paper" or "released"
    y : ndarray of shape (n,)
        Labels ±1.
    alpha : ndarray of shape (n,)
        Multipliers.
    f : ndarray of shape (n,)
        Scores without an intercept.

    Returns
    -------
    float

    Raises
    ------
    DataError
        If the rule is not one of these.
    """
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


def with_bias(solution: Solution, X: Any, y: Any, rule: str, *, sample_weight: Any = None) -> Solution:
    r"""Return a solution of a pSVM with the intercept of a rule of [Sun], and the interval that the checker gives it.

    Parameters
    ----------
    solution : Solution
        Of :func:`svmcvx.fast.psvm`, or of a problem of :func:`svmcvx.psvm_primal` or :func:`svmcvx.psvm_dual`, with a free intercept.
    X, y, sample_weight
        The data that it was solved for; for a precomputed kernel the Gram matrix.
    rule : "paper" or "released"
        The mean over the support vectors of :math:`y_k - f_k`, as [Sun] prints it, or of :math:`y_k - \operatorname{sign} f_k`, as the
        code published with [Sun] computes it.

    Returns
    -------
    Solution
        Without ``optimal_intercepts``; its hyper-parameters have the rule as ``"bias"``.

    Raises
    ------
    DataError
        If the solution has no free intercept, or the rule is not one of these.

    Notes
    -----
    Source: [Sun], section 3; for p = 2 the rule of the paper is exact.

    Examples
    --------
    >>> import svmcvx as sx
    >>> from svmcvx.papers.exhibits import with_bias
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> exact = sx.fast.psvm(X, y, C=1.0, p=1.5, kernel="rbf")
    >>> with_bias(exact, X, y, "paper").certificate.is_certified(1e-6)
    False
    """
    check_choice(rule, "rule", RULES)
    if solution.formulation != PSVM.name:
        raise DataError(
            f"{rule!r} is a rule for the free intercept of a pSVM, got a solution of {solution.formulation!r}; pass one of fast.psvm"
        )
    values = solution.hyperparameters
    data = binary_data(X, y, sample_weight)
    kernel = getattr(solution.model, "kernel", None)
    space = feature_space(data, kernel, intercept="free")
    statement = _AsGiven(space=space, C=values["C"], p=values["p"])
    alpha = statement.entry(solution.dual, "alpha")
    checked = check(statement, [_by_rule(rule, statement, solution.model, alpha)], [{"alpha": alpha}])
    return replace(
        solution,
        model=checked.model,
        certificate=checked.certificate,
        terms=checked.terms,
        hyperparameters={**values, "bias": rule},
        optimal_intercepts=None,
    )


def problem_with_bias(problem: Problem, rule: str) -> Problem:
    """Let the models that a problem of a pSVM recovers have the intercept of a rule.

    Parameters
    ----------
    problem : FormulationProblem
        Of :func:`svmcvx.psvm_primal` or :func:`svmcvx.psvm_dual`, with a free intercept; it is changed.
    rule : "paper" or "released"

    Returns
    -------
    FormulationProblem
        The same problem.
    """
    check_choice(rule, "rule", RULES)
    recover = problem.recover

    def by_rule() -> RecoveredPoints:
        statement, points = problem.formulation, recover()
        multipliers = [statement.alpha(dual) for dual in points.duals] or [np.zeros(statement.y.size)]
        # The primal variables come last, with the multipliers of the solver.
        pairs = [(model, multipliers[min(k, len(multipliers) - 1)]) for k, model in enumerate(points.models)]
        return points._replace(models=[_by_rule(rule, statement, model, alpha) for model, alpha in pairs])

    object.__setattr__(problem, "recover", by_rule)
    return problem
