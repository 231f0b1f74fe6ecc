"""The function :func:`guarantee`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np

from svmcvx.catalogue import CATALOGUE
from svmcvx.data import Features, check_features, check_number, check_time_limit
from svmcvx.errors import DataError, NotCertified
from svmcvx.guarantees.answers import Guarantee
from svmcvx.guarantees.binary import binary_guarantee, member_problems, one_vs_guarantee
from svmcvx.guarantees.joint import CLASSICAL, JOINT, joint_guarantee
from svmcvx.solution import Solution, Status, Undecided, composite
from svmcvx.system.deadline import OutOfTime, current, interruptible, time_limited


def guarantee(solution_or_estimator: Any, X: Any, y: Any) -> Guarantee:
    r"""Return guarantees on *every* optimal machine of a problem: intervals of its scores, its
    labels, its accuracy.

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


# How a solve may end that is not to be followed by another.
CUT_SHORT: Final = (Status.TIME_LIMIT, Status.INTERRUPTED)


class _Rows:
    """Rows whose labels are to be decided; a decided row stays so."""

    def __init__(self, rows: Features) -> None:
        self.rows = rows
        self.undecided = np.ones(rows.shape[0], dtype=bool)
        # By the formulation, at the last gap and at the last two: a loose model has intervals of
        # intercepts that the optimum need not have.
        self.disputed = self.settled = np.zeros(rows.shape[0], dtype=bool)

    def look(self, solution: Solution, X: Any, y: Any) -> None:
        """Take in what a solution says."""
        left = np.flatnonzero(self.undecided)
        with interruptible():
            found = guarantee(solution, X, y).scores(self.rows[left])
        self.undecided[left] = found.undecided
        disputed = np.zeros_like(self.undecided)
        disputed[left] = found.undecided & found.by_formulation
        self.disputed, self.settled = disputed, disputed & self.disputed

    @property
    def open(self) -> bool:
        """Whether a smaller gap may decide one of them."""
        return bool((self.undecided & ~self.settled).any())

    def counts(self) -> Undecided:
        """Return how many are left."""
        formulation = int((self.undecided & self.disputed).sum())
        return Undecided(int(self.undecided.sum()) - formulation, formulation, self.undecided.size)


def refine(
    solution: Solution,
    X: Any,
    y: Any,
    T: Any,
    *,
    tol: float = 1e-12,
    time_limit: float | None = None,
    verbose: bool = False,
) -> Solution:
    """Solve on, to smaller and smaller gaps, until the labels of some rows are those of *every*
    optimal machine.

    Each solve starts from the last solution and aims at a hundredth of its gap. A row that is
    decided once stays decided, as :func:`svmcvx.guarantee` is about all optimal machines. The
    function returns when a smaller gap can decide no row that is left, when the gap is at most
    `tol` or does not shrink, at the time limit, and on Ctrl-C.

    Parameters
    ----------
    solution : Solution
        Of a formulation with guarantees.
    X, y : array-like
        The data that the solution is about, in the same order; weights are those of the solution.
    T : array-like or sparse matrix of shape (m, d)
        The rows that are to be decided.
    tol : float
        The smallest relative gap that is aimed at.
    time_limit : float, optional
        Seconds. The best solution until then is returned, as on Ctrl-C; its status says so.
    verbose : bool
        Print the bounds of each solve.

    Returns
    -------
    Solution
        A new one, or the given one where nothing had to be solved, with ``undecided``: how many of
        the rows are left undecided by the gap, and how many by the formulation. A row counts as
        undecided by the formulation if it is so at two gaps, one of them a hundredth of the other.

    Raises
    ------
    DataError
        If an argument cannot be used, these are not the data of the solution, or there are no
        guarantees of it.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(60, 2, sigma=0.3, outliers="none", seed=0)
    >>> loose = sx.fast.psvm(X, y, p=1.5, kernel="rbf", tol=0.1)
    >>> bool(sx.guarantee(loose, X, y).scores(X).undecided.any())
    True
    >>> print(sx.guarantees.refine(loose, X, y, X).undecided)
    0 of 60 rows undecided (0 by the gap, 0 by the formulation)
    """
    check_number(tol, "tol")
    rows = _Rows(check_features(T, name="T"))
    best, ended = solution, None
    with time_limited(check_time_limit(time_limit)) as deadline:
        try:
            rows.look(best, X, y)
            while rows.open and (gap := _largest_gap(best)) > tol:
                # The next gap is a hundredth of the last one.
                found = _solved_on(best, X, y, max(tol, gap / 100), verbose)
                if found.status in CUT_SHORT:
                    ended = found.status
                if not _largest_gap(found) < gap:
                    break
                best = found
                rows.look(best, X, y)
                if ended is not None:
                    break
        except OutOfTime:
            ended = (
                Status.INTERRUPTED if deadline.interrupt_requested.is_set() else Status.TIME_LIMIT
            )
        except KeyboardInterrupt:
            ended = Status.INTERRUPTED
    return replace(best, status=best.status if ended is None else ended, undecided=rows.counts())


def _largest_gap(solution: Solution) -> float:
    """Return the gap of a solution, of several binary problems the largest one."""
    certificate = solution.certificate
    return max((one.gap for one in certificate.parts.values()), default=certificate.gap)


def _solved_on(solution: Solution, X: Any, y: Any, tol: float, verbose: bool) -> Solution:
    """Solve the problem of a solution again, from there, to a smaller gap."""
    if solution.parts:
        parts = {}
        for key, one in member_problems(solution, X, y).items():
            part = one.solution
            if part.certificate.gap > tol and not current().passed():
                part = _solved_on(part, one.X, one.y, tol, verbose)
            model: Any = part.model
            parts[key] = replace(part, model=replace(model, support=one.rows[model.support]))
        whole: Any = solution.model
        return composite(parts, whole.scheme, whole.classes, tol)
    name = solution.formulation
    entry = CATALOGUE["multiclass" if name in CLASSICAL else name.removeprefix("penalised ")]
    evidence = solution.evidence
    if entry.fast is None or evidence is None:
        raise NotCertified(f"no specialised solver goes on with a solution of {name}")
    given = {
        key: value for key, value in solution.hyperparameters.items() if key in entry.fast.settings
    }
    given.pop("bias", None)
    if name in CLASSICAL:
        given["loss"] = CLASSICAL[name]
    if entry.name == "psvm":
        given["intercept"] = evidence.intercept
    if "kernel" in given:
        given["kernel"] = getattr(solution.model, "kernel", None)
    solved: Solution = entry.fast.load()(
        X, y, tol=tol, sample_weight=evidence.weight, warm_start=solution, verbose=verbose, **given
    )
    return solved
