"""The second checker: a separate program that computes an interval from the raw data and the points
of a proof.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from svmcvx.errors import DataError, NotCertified, optional
from svmcvx.proofs.format import Proof, ProofFile, digest_of
from svmcvx.proofs.intervals import Floats, Interval, Rows
from svmcvx.proofs.problem import End, Problem, ProofRejected, codes_of, matrix_of, other_data
from svmcvx.proofs.search_tree import search_bound
from svmcvx.proofs.space import Space, require_small
from svmcvx.proofs.statement import SEARCHED, Statement

METHODS: Final = ("auto", "balls", "a-priori")
# Formulations with a check in doubles.
IN_DOUBLES: Final = ("psvm", "penalised psvm", "odm")
# Entries of the data or of the kernel that "auto" leaves to ball arithmetic, a second or a few; and
# sixteen times as many where doubles do not tell.
MOST_ENTRIES: Final = 2_500_000
# An end of a score of this size claims nothing.
NOTHING: Final = float(np.finfo(np.float64).max)


class CheckedScores(NamedTuple):
    """Proved intervals of the scores of every optimal machine on test rows."""

    lower: Floats
    upper: Floats
    labels: NDArray[Any]
    digest: str

    def __str__(self) -> str:
        left = sum(label is None for label in self.labels)
        return (
            f"scores of every optimal machine on {self.labels.size} test rows, {left} undecided;"
            f" digest {self.digest}"
        )


@dataclass(frozen=True)
class Verified:
    """The verdict on a proof; true as a condition if the proof holds.

    Attributes
    ----------
    lower : float or None
        A number that the optimum is not below; None if the proof has no dual point, or none that
        proves anything.
    upper : float
        A number that the optimum is not above; infinite if the model proves nothing.
    holds : bool
        Whether the proof is about these data and what was expected, and each end that it claims was
        computed and is confirmed.
    why : str
        What fails, in one line; for a proof that holds, what it does not claim, or nothing.
    statement : Statement or None
        The problem whose optimum this is, in words and in numbers; None if the file is about data
        of another shape.
    checked : tuple of str
        Those of the ends "lower" and "upper" that were computed from the data.
    scores : CheckedScores or None
        Of the test rows of a proof that claims scores; None where none were computed.
    """

    lower: float | None
    upper: float
    holds: bool
    why: str
    statement: Statement | None = None
    checked: tuple[str, ...] = ()
    scores: CheckedScores | None = None

    def __bool__(self) -> bool:
        return self.holds


def verify(
    proof: Proof | str | os.PathLike[str],
    X: Any,
    y: Any,
    *,
    test: Any = None,
    expect: Any = None,
    precision: int = 128,
    method: str = "auto",
) -> Verified:
    """Check a proof from the raw data.

    Parameters
    ----------
    proof : Proof or path
        From ``save_proof`` or ``proof()`` of a solution.
    X : ndarray or sparse matrix of shape (rows, d)
        As they were passed to the solver; the Gram matrix for a precomputed kernel.
    y : array-like of shape (rows,)
        Labels.
    test : ndarray or sparse matrix of shape (m, d), optional
        The test rows of a proof that claims scores of every optimal machine
        (``guarantee(...).save_proof(path, T)``). Scores are checked in ball arithmetic.
    expect : Statement, problem, solution or fitted estimator, optional
        The problem that the proof should be about: a proof of another one (other hyper-parameters,
        kernel, weights, …) does not hold. By default any problem that the file states, which
        ``statement`` of the result shows.
    precision : int
        Bits of the ball arithmetic.
    method : "auto", "balls" or "a-priori"
        Ball arithmetic, or double precision with bounds on its rounding, for linear and kernel psvm
        and ODM. "auto" takes the latter where the former would take long.

    Returns
    -------
    Verified
        True where the proof holds; else ``why`` has the reason.

    Raises
    ------
    DataError
        If the file is no proof or is damaged, the data are no finite matrix with labels, or an
        argument is wrong.
    SolverUnavailable
        If python-flint is needed and not installed.

    Examples
    --------
    >>> import svmcvx as sx
    >>> X, y = sx.synthetic.outlier_data(30, 2, sigma=0.3, outliers="none", seed=0)
    >>> proof = sx.fast.psvm(X, y, C=1.0, p=1.5).proof()
    >>> sx.verify(proof, X, y).holds
    True
    >>> print(str(sx.verify(proof, X, y).statement).partition(";")[0])
    psvm with C = 1.0, p = 1.5
    """
    if not isinstance(method, str) or method not in METHODS:
        raise DataError(f"method must be one of {', '.join(map(repr, METHODS))}, got {method!r}")
    whole = isinstance(precision, int) and not isinstance(precision, bool)
    if not whole or not 64 <= precision <= 100_000:
        raise DataError(f"precision must be a whole number of bits, at least 64, got {precision!r}")
    expected = _expected(expect)
    X, labels = matrix_of(X, "X"), np.asarray(y).ravel()
    if labels.size != X.shape[0]:
        raise DataError(f"y has {labels.size} labels but X has {X.shape[0]} rows")
    T = None if test is None else matrix_of(test, "test")
    try:
        problem = _bound(proof, X, labels, T)
    except ProofRejected as refusal:
        return Verified(None, math.inf, False, str(refusal))
    claim = problem.proof
    if claim.test is not None and method == "a-priori":
        raise DataError("there is no check of scores in doubles; use method='balls'")
    other = _other(claim.statement, problem.fingerprint, expected)
    entries = problem.n * problem.n
    if problem.kernel is None:
        entries = X.nnz if hasattr(X, "nnz") else X.size
    # Ball arithmetic would take long, and there is a check in doubles.
    large = entries > MOST_ENTRIES and claim.test is None and problem.formulation in IN_DOUBLES
    in_doubles = method == "a-priori" or (method == "auto" and large)
    try:
        upper, lower = _ends(problem, precision, in_doubles)
        near = _is_near(claim.upper, upper) or _is_near(claim.lower, lower)
        if in_doubles and near and method == "auto" and problem.n * problem.n <= 16 * MOST_ENTRIES:
            in_doubles = False
            upper, lower = _ends(problem, precision, in_doubles)
    except ProofRejected as refusal:
        return Verified(None, math.inf, False, other or str(refusal), claim.statement)
    found = _verdict(claim, upper, lower, other)
    if claim.test is not None and not other:
        return _with_scores(found, problem, T, precision)
    if not found.holds and in_doubles and near:
        return replace(found, why=f"{found.why}; doubles do not tell, take method='balls'")
    return found


def _expected(expect: Any) -> Statement | None:
    if expect is None or isinstance(expect, Statement):
        return expect
    if isinstance(expect, (Proof, Verified)) and expect.statement is not None:
        return expect.statement
    state = None if isinstance(expect, type) else getattr(expect, "proof_statement", None)
    found = state() if callable(state) else None
    if not isinstance(found, Statement):
        raise DataError(
            "expect must be a statement of a proof, a problem, a solution or a fitted estimator,"
            f" got {type(expect).__name__}"
        )
    return found


def _checked_again(proof: Any) -> Proof:
    """A proof whose dictionaries may have been changed since it was made."""
    again: Proof = replace(proof, statement=replace(proof.statement))
    return again


def _bound(proof: Proof | str | os.PathLike[str], X: Any, labels: Any, T: Any) -> Problem:
    """A proof with its data; the arrays of a file are read only if their sizes fit the data."""
    with nullcontext() if isinstance(proof, Proof) else ProofFile(proof) as file:
        said: Any = file or _checked_again(proof)
        codes = _codes(said.statement, X, labels)
        _require_test(said.test, said.statement.columns, T)
        proof = said if file is None else file.read()
    if proof.test is not None:
        low, high, given = (proof.scores[name] for name in ("lower", "upper", "label"))
        for t in np.flatnonzero((given != label_codes(low, high)) | (low > high))[:1]:
            raise ProofRejected(
                f"the label {int(given[t])} of test row {t} is not that of its interval,"
                f" {float(low[t])!r} to {float(high[t])!r}"
            )
    return Problem(proof, X, codes)


def _codes(statement: Statement, X: Any, labels: Any) -> Rows:
    """The positions of the labels of data that have the shape and the classes of a statement."""
    for what, held in zip(("rows", "columns"), X.shape, strict=True):
        if held != getattr(statement, what):
            about = getattr(statement, what)
            raise other_data(f"they have {held} {what}, the proof is about {about}")
    return codes_of(labels, statement.classes)


def _require_test(said: Mapping[str, Any] | None, columns: int, T: Any) -> None:
    """Refuse test rows that are not those of the proof, before its arrays are read."""
    if said is None and T is not None:
        raise ProofRejected("the proof claims nothing of test rows; leave out test")
    if said is None:
        return
    if T is None:
        raise ProofRejected(
            f"the proof claims scores of {said['rows']} test rows; pass them as test"
        )
    what = "the test rows are not those of the proof:"
    if T.shape != (said["rows"], columns):
        raise ProofRejected(
            f"{what} they have the shape {T.shape}, the proof is about {said['rows']} rows and"
            f" {columns} columns"
        )
    if (digest := digest_of(T)) != said["digest"]:
        raise ProofRejected(f"{what} digest {digest}, the proof is about {said['digest']}")


# The ends of the optimum.


def _ends(problem: Problem, precision: int, in_doubles: bool) -> tuple[End, End | None]:
    """The upper end, and the lower one of the dual point or of the tree, if the proof has one."""
    name, numbers, context = problem.formulation, Interval, nullcontext()
    if in_doubles and name not in IN_DOUBLES:
        raise DataError(
            f"there is no check of {name!r} in doubles, only of {', '.join(IN_DOUBLES)}; use"
            " method='balls'"
        )
    if not in_doubles:
        context = optional("flint", "proofs").ctx.workprec(precision)
        numbers = import_module("svmcvx.proofs.balls").Balls
    # Families in balls alone need python-flint, and are imported if they are needed.
    families = ("margin", "indicator", "multiclass")
    tables = (import_module(f"svmcvx.proofs.{family}").FAMILY for family in families)
    evaluate = next(table[name] for table in tables if name in table)
    with context, np.errstate(over="ignore", invalid="ignore", under="ignore", divide="ignore"):
        space = Space(problem, numbers)
        upper = _end(evaluate[0], space)
        lower = _end(evaluate[1], space) if problem.proof.dual else None
        if not problem.proof.tree:
            return upper, lower
        try:
            found = max(search_bound(space), -math.inf if lower is None else lower.low)
        except ProofRejected as refusal:
            return upper, End(why=str(refusal))
        return upper, End(found, max(found, upper.high))


def _end(evaluate: Any, space: Any) -> End:
    space.influence = 0.0
    try:
        low, high = evaluate(space).ends
        require_small(space.influence, low, high)
        return End(low, high)
    except ProofRejected as refusal:
        return End(why=str(refusal))


def _is_near(claimed: float | None, end: End | None) -> bool:
    """Whether an end that is claimed lies between the doubles around the end that was found."""
    if claimed is None or end is None or end.why:
        return False
    return end.low < claimed < end.high


# Verdicts.


def _other(statement: Statement, fingerprint: str, expected: Statement | None) -> str:
    """The reason why a proof is about other data or another problem; empty if it is not."""
    if fingerprint != statement.fingerprint:
        about = statement.fingerprint
        return str(other_data(f"fingerprint {fingerprint}, the proof is about {about}"))
    difference = "" if expected is None else statement.difference(expected)
    return f"the proof is about another problem: {difference}" if difference else ""


def _verdict(claim: Proof, upper: End, lower: End | None, other: str) -> Verified:
    low, high = End().low if lower is None else lower.low, upper.high
    if low > high:
        crossed = (
            f"the ends cross: the optimum is at least {low!r} and at most {high!r}, so that one of"
            " the checks is wrong"
        )
        return Verified(None, math.inf, False, crossed, claim.statement)
    why = other or _failure(claim, upper, lower)
    ends = {"lower": low > -math.inf, "upper": high < math.inf}
    checked = tuple(end for end, computed in ends.items() if computed)
    found = low if ends["lower"] else None
    return Verified(found, high, not why, why or _unproved(claim), claim.statement, checked)


def _failure(claim: Proof, upper: End, lower: End | None) -> str:
    """The reason why a claim was not confirmed, the cause first; empty if it was."""
    if lower is not None and lower.why:
        return lower.why
    if claim.upper is not None and upper.why:
        return upper.why
    if claim.upper is not None and not upper.high <= claim.upper:
        return (
            f"the model's objective is at most {upper.high!r} but at least {upper.low!r}, the proof"
            f" claims {claim.upper!r}"
        )
    if claim.lower is None or (lower is not None and lower.low >= claim.lower):
        return ""
    if lower is None:
        return f"the proof claims the lower end {claim.lower!r} and has no dual point for it"
    what = f"the dual objective is at least {lower.low!r} but at most {lower.high!r}"
    if claim.tree:
        what = f"the record of the search proves {lower.low!r}"
    return f"{what}, the proof claims {claim.lower!r}"


def _unproved(claim: Proof) -> str:
    if claim.stated is not None:
        who = SEARCHED[claim.kind]
        return f"the lower end {claim.stated!r} that {who} states is not part of the proof"
    if claim.lower is None or claim.upper is None:
        return f"the proof claims no {'lower' if claim.lower is None else 'upper'} end"
    return ""


# Scores of test rows.


def label_codes(lower: Floats, upper: Floats) -> NDArray[np.uint8]:
    """Return the positions of the classes that intervals of scores decide, and 2 elsewhere."""
    return np.where(lower > 0, 1, np.where(upper <= 0, 0, 2)).astype(np.uint8)


def score_ends(proof: Proof, X: Any, y: Any, T: Any) -> tuple[Floats, Floats]:
    """Return both ends of the scores of every optimal machine on test rows."""
    X = matrix_of(X, "X")
    try:
        problem = Problem(proof, X, _codes(proof.statement, X, np.asarray(y).ravel()))
        return _score_ends(problem, matrix_of(T, "test"), 128)
    except ProofRejected as refusal:
        raise NotCertified(
            f"the second checker proves nothing of these scores: {refusal}"
        ) from None


def _score_ends(problem: Problem, T: Any, precision: int) -> tuple[Floats, Floats]:
    with optional("flint", "proofs").ctx.workprec(precision):
        predictions: Any = import_module("svmcvx.proofs.predictions")
        ends: tuple[Floats, Floats] = predictions.score_ends(problem, T)
        return ends


def _with_scores(found: Verified, problem: Problem, T: Any, precision: int) -> Verified:
    """The result with the scores of the test rows, which follow from both ends."""
    claim = problem.proof
    if set(found.checked) != {"lower", "upper"}:
        why = "the scores follow from both ends of the optimum, of which one is not proved"
        return replace(found, holds=False, why=why if found.holds else found.why)
    low, high = _score_ends(problem, T, precision)
    for t in np.flatnonzero(low > high)[:1]:
        why = f"the ends of the score of test row {t} cross, so that one of the checks is wrong"
        return replace(found, holds=False, why=why)
    names = np.array([*claim.statement.classes, None], dtype=object)
    digest = dict(claim.test or {})["digest"]
    found = replace(found, scores=CheckedScores(low, high, names[label_codes(low, high)], digest))
    lower, upper = claim.scores["lower"], claim.scores["upper"]
    for what, wrong, mine, other in (
        ("at least", ~(low >= lower) & (lower > -NOTHING), low, lower),
        ("at most", ~(high <= upper) & (upper < NOTHING), high, upper),
    ):
        for t in np.flatnonzero(wrong)[:1] if found.holds else ():
            why = (
                f"the score of test row {t} is proved to be {what} {float(mine[t])!r}, the proof"
                f" claims {float(other[t])!r}"
            )
            return replace(found, holds=False, why=why)
    return found
