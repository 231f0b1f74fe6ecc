"""The function :func:`guarantee`."""

from __future__ import annotations

from typing import Any

from svmcvx.errors import DataError
from svmcvx.guarantees.answers import Guarantee
from svmcvx.guarantees.binary import binary_guarantee, one_vs_guarantee
from svmcvx.guarantees.joint import JOINT, joint_guarantee
from svmcvx.solution import Solution


def guarantee(solution_or_estimator: Any, X: Any, y: Any) -> Guarantee:
    r"""Return guarantees on *every* optimal machine: intervals of its scores, labels, accuracy.

    A certificate says how far a model's objective is from the optimum. This says what the optimum
    itself predicts: with U − L the width of the interval, the scores of the optimal machines on any
    row lie in an interval of about :math:`\sqrt{U - L}` times a distance that is often small. A
    label is *decided* where that interval has one sign.

    Both ends of the interval of the optimum are computed again, from the model and the dual point
    of the solution on the data that are passed, and every rounding is bounded: what is said holds
    for these data, whoever made the solution.

    The theorem and its proof are in :mod:`svmcvx.guarantees.theorem`.

    Parameters
    ----------
    solution_or_estimator : Solution or fitted estimator
        Of pSVM (any p, with a free intercept, a penalised one or none), hard margin, ODM or ODML,
        linear or with a kernel that is known to be positive semidefinite; two classes, or several
        by binary machines (one against one, one against the rest); or of Weston-Watkins,
        Crammer-Singer, M-SVM, top-k, multinomial logistic regression, M3SVM with p > 1. There are
        none for losses that are not convex, nor where the penalty has no modulus of convexity.
    X, y : array-like
        The data that it was solved for, in the same order; weights are those of the solution.

    Returns
    -------
    Guarantee
        With ``scores(T)``, ``predict(T)``, ``decided(T)``, and the intervals ``accuracy(T, y)``,
        ``error``, ``balanced_accuracy``, ``auc`` and ``compare(other, T, y)``.

    Raises
    ------
    DataError
        If the data are not those of the solution, or nothing can be proved for the formulation or
        the kernel; the message says why.
    NotCertified
        If the solution has no dual point, and so no lower bound.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = [[0.0], [1.0], [3.0], [4.0]], ["a", "a", "b", "b"]
    >>> solution = sx.fast.psvm(X, y, C=1.0, p=2.0)
    >>> exact = sx.guarantee(solution, X, y)
    >>> exact.predict([[0.5], [3.5]]).tolist()
    ['a', 'b']
    >>> print(exact.accuracy([[0.5], [3.5]], ["a", "a"]))
    0.5
    """
    solution = getattr(solution_or_estimator, "solution_", solution_or_estimator)
    if not isinstance(solution, Solution):
        raise DataError(
            "guarantee takes a Solution, or a fitted estimator with one, got"
            f" {type(solution_or_estimator).__name__}"
        )
    if solution.parts:
        return one_vs_guarantee(
            solution, X, y, by_sums=bool(getattr(solution_or_estimator, "break_ties", True))
        )
    return (joint_guarantee if solution.formulation in JOINT else binary_guarantee)(solution, X, y)
